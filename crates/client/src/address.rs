//! Where a store is: in a directory, or at the addresses of a cluster.

use std::{ffi::OsStr, path::Path};

use tyr_embed::{Error, Result};
use tyr_net::Address;

/// Where a store is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place<'a> {
    /// In a directory.
    Directory(&'a Path),
    /// At these addresses.
    Cluster(Vec<Address>),
    /// At these, by encrypted connections.
    Secured(Vec<Address>),
}

/// Whether what names a store names a cluster, not a directory.
pub fn is_cluster(name: impl AsRef<OsStr>) -> bool {
    let name = name.as_ref().as_encoded_bytes();
    name.starts_with(SCHEME.as_bytes()) || name.starts_with(SECURED.as_bytes())
}

/// Fails with [`crate::ErrorKind::Invalid`] if what is to name a store names neither a directory nor a cluster, as opening it would.
pub fn check_name(name: impl AsRef<Path>) -> Result<()> {
    Place::parse(name.as_ref()).map(|_| ())
}

/// Whether a name begins as URLs do.
fn has_scheme(name: &Path) -> bool {
    let name = name.as_os_str().as_encoded_bytes();
    let scheme = name.iter().take_while(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte)).count();
    scheme > 0 && name[0].is_ascii_alphabetic() && name[scheme..].starts_with(b"://")
}

/// Whether a name is an address, or a URL with a slash too few.
fn is_like_an_address(name: &Path) -> bool {
    let name = name.as_os_str().as_encoded_bytes();
    let (port, host) = match name.iter().rposition(|byte| *byte == b':') {
        Some(colon) => (&name[colon + 1..], &name[..colon]),
        None => return false,
    };
    let is_port = !port.is_empty() && port.iter().all(u8::is_ascii_digit);
    let schemes: [&[u8]; 3] = [b"tyr:", b"tyr+tls:", b"unix:"];
    schemes.iter().any(|scheme| name.starts_with(scheme)) || (is_port && !host.contains(&b'/'))
}

impl<'a> Place<'a> {
    /// Takes apart what names a store.
    pub fn parse(name: &'a Path) -> Result<Self> {
        let wrong = |what: &str| {
            let name = name.display();
            Error::invalid(format!("'{name}' {what}; write tyr://host:port,host:port or tyr://unix:/path"))
        };
        if name.as_os_str().is_empty() {
            return Err(wrong("names neither a directory nor a cluster"));
        }
        if !is_cluster(name) {
            // Nobody means a directory by either.
            return match name {
                _ if has_scheme(name) => {
                    Err(wrong("has a scheme that no store has (a directory goes by its path: ./name)"))
                }
                _ if is_like_an_address(name) => {
                    Err(wrong("is an address and no URL (a directory goes by its path: ./name)"))
                }
                _ => Ok(Place::Directory(name)),
            };
        }
        let text = name.to_str().ok_or_else(|| wrong("is not text"))?;
        let (text, is_secured) = match text.strip_prefix(SECURED) {
            Some(rest) => (rest, true),
            None => (text.strip_prefix(SCHEME).unwrap_or(text), false),
        };
        let addresses = text.trim_end_matches('/').split(',').map(|part| {
            let Ok(address) = part.parse::<Address>();
            let is_whole = match &address {
                Address::Unix(path) => path.is_absolute(),
                Address::Tcp(text) if text.contains('/') => {
                    return Err(wrong("names more than a cluster"));
                }
                Address::Tcp(_) => address.is_whole(),
            };
            is_whole
                .then_some(address)
                .ok_or_else(|| wrong("has an address without host and port (1 to 65535)"))
        });
        let addresses = addresses.collect::<Result<_>>()?;
        Ok(if is_secured { Place::Secured(addresses) } else { Place::Cluster(addresses) })
    }
}

const SCHEME: &str = "tyr://";
const SECURED: &str = "tyr+tls://";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    fn parse(name: &str) -> Result<Place<'_>> {
        Place::parse(Path::new(name))
    }

    #[test]
    fn a_url_names_addresses_and_everything_else_a_directory() {
        let tcp = |host: &str| Address::Tcp(host.into());
        let both = vec![tcp("a:1"), tcp("[::1]:2")];
        assert_eq!(parse("tyr://a:1,[::1]:2").unwrap(), Place::Cluster(both));
        assert_eq!(parse("tyr+tls://a:1").unwrap(), Place::Secured(vec![tcp("a:1")]));
        assert_eq!(parse("tyr://a:1/").unwrap(), Place::Cluster(vec![tcp("a:1")]));
        let unix = Place::Cluster(vec![Address::Unix("/run/tyr".into()), tcp("a:1")]);
        assert_eq!(parse("tyr://unix:/run/tyr,a:1").unwrap(), unix);
        for directory in
            ["tyr", "./tyr:/a", "./a:1", "/a:1", "a:b", "a/b:1", "./http://a", "/http://a", "://a", "a/b://c"]
        {
            assert_eq!(parse(directory).unwrap(), Place::Directory(Path::new(directory)));
        }
    }

    #[test]
    fn what_is_wrong_with_a_url_is_said() {
        for (name, word) in [
            ("", "neither a directory nor a cluster"),
            ("tyr://", "without host"),
            ("tyr://a", "without host"),
            ("tyr+tls://a", "without host"),
            ("tyr://a:0", "without host"),
            ("tyr://a:1,", "without host"),
            ("tyr://a:1/keyspace", "more than a cluster"),
            ("tyr://unix:path", "without host"),
            ("tyr:/a:1", "an address and no URL"),
            ("tyr+tls:a:1", "an address and no URL"),
            ("unix:/run/tyr", "an address and no URL"),
            ("127.0.0.1:7700", "an address and no URL"),
            ("http://a:1", "a scheme that no store has"),
            ("TYR://a:1", "a scheme that no store has"),
            ("s3://bucket", "a scheme that no store has"),
        ] {
            let error = parse(name).unwrap_err();
            assert!(error.message().contains(word), "{name}: {error}");
        }
    }
}

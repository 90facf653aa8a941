//! How blobs are named on the command line: `KEYSPACE/KEY`, or as a URL, `tyr:///keyspace/key`.
//!
//! A key is arbitrary bytes; the plain form takes the argument's bytes as they are, the URL form undoes percent-encoding.
//! Nothing is normalised: `a//b` and `a/./b` are keys of their own.

use std::{
    ffi::{OsStr, OsString},
    fmt,
    os::unix::ffi::OsStrExt,
};

use clap::builder::{OsStringValueParser, TypedValueParser};
use tyr_types::{Key, KeyspaceName};

use crate::output::Shown;

/// A blob: its keyspace and key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobAddress {
    /// The keyspace's name.
    pub keyspace: String,
    /// The blob's key.
    pub key: Key,
}

/// The blobs of a keyspace whose keys begin with a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrefixAddress {
    /// The keyspace's name.
    pub keyspace: String,
    /// What the keys begin with; empty for all.
    pub prefix: Vec<u8>,
}

impl BlobAddress {
    /// Parses `KEYSPACE/KEY` or `tyr:///keyspace/key`.
    pub fn parse(text: &OsStr) -> Result<Self, String> {
        let (keyspace, key) = split(text.as_bytes())?;
        let key = key.filter(|key| !key.is_empty()).ok_or_else(|| {
            format!("'{keyspace}' names a keyspace but no blob in it; write {keyspace}/KEY")
        })?;
        let key = Key::new(key).map_err(|error| error.to_string())?;
        Ok(BlobAddress { keyspace, key })
    }

    /// For clap.
    pub fn parser() -> impl TypedValueParser<Value = Self> {
        OsStringValueParser::new().try_map(|text: OsString| Self::parse(&text))
    }
}

impl PrefixAddress {
    /// Parses `KEYSPACE`, `KEYSPACE/PREFIX`, or either as a URL.
    pub fn parse(text: &OsStr) -> Result<Self, String> {
        let (keyspace, prefix) = split(text.as_bytes())?;
        Ok(PrefixAddress { keyspace, prefix: prefix.unwrap_or_default() })
    }

    /// For clap.
    pub fn parser() -> impl TypedValueParser<Value = Self> {
        OsStringValueParser::new().try_map(|text: OsString| Self::parse(&text))
    }
}

impl fmt::Display for BlobAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.keyspace, Shown(self.key.as_bytes()))
    }
}

impl fmt::Display for PrefixAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.keyspace, Shown(&self.prefix))
    }
}

/// The name of a keyspace, for clap.
pub fn keyspace_name(text: &str) -> Result<String, String> {
    KeyspaceName::new(text).map(|name| name.to_string()).map_err(|error| error.to_string())
}

/// Whether nothing is written where the name of a keyspace is to be.
pub fn lacks_keyspace(text: &OsStr) -> bool {
    let text = text.as_bytes();
    let path = match text.strip_prefix(b"tyr://") {
        Some(rest) => rest.strip_prefix(b"/").unwrap_or(rest),
        None => text,
    };
    path.is_empty() || path.starts_with(b"/")
}

/// What is said where a blob is named with its cluster.
fn cluster_refused(host: &str) -> String {
    format!("a blob is not named with its cluster: pass --store tyr://{host} and write tyr:///keyspace/key")
}

/// The name of the keyspace, and what follows the slash after it.
fn split(text: &[u8]) -> Result<(String, Option<Vec<u8>>), String> {
    let decoded;
    let path = match text.strip_prefix(b"tyr://") {
        None => text,
        Some(rest) => {
            decoded = url_path(rest)?;
            &decoded
        }
    };
    let mut parts = path.splitn(2, |byte| *byte == b'/');
    let keyspace = String::from_utf8_lossy(parts.next().unwrap_or_default());
    if keyspace.is_empty() {
        return Err(format!("'{}' has no keyspace; write KEYSPACE/KEY", Shown(text)));
    }
    KeyspaceName::new(&keyspace).map_err(|error| error.to_string())?;
    Ok((keyspace.into_owned(), parts.next().map(<[u8]>::to_vec)))
}

/// The decoded path, without its first slash, of what follows `tyr://`.
fn url_path(rest: &[u8]) -> Result<Vec<u8>, String> {
    let host_length = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
    if host_length > 0 {
        return Err(cluster_refused(&Shown(&rest[..host_length]).to_string()));
    }
    percent_decode(rest.get(1..).unwrap_or_default())
}

fn percent_decode(text: &[u8]) -> Result<Vec<u8>, String> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, after @ ..] = rest {
        if *first != b'%' {
            decoded.push(*first);
            rest = after;
            continue;
        }
        let digit = |index: usize| after.get(index).and_then(|byte| char::from(*byte).to_digit(16));
        let (Some(high), Some(low)) = (digit(0), digit(1)) else {
            return Err(format!(
                "'{}' has a '%' without two hexadecimal digits; write a plain '%' as '%25' in a URL",
                Shown(text)
            ));
        };
        decoded.push(u8::try_from(high * 16 + low).expect("two hexadecimal digits fit a byte"));
        rest = &after[2..];
    }
    Ok(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blob(text: &[u8]) -> Result<(String, Vec<u8>), String> {
        BlobAddress::parse(OsStr::from_bytes(text)).map(|a| (a.keyspace, a.key.as_bytes().to_vec()))
    }

    #[test]
    fn a_key_is_everything_after_the_first_slash() {
        assert_eq!(blob(b"k/a/b//c"), Ok(("k".into(), b"a/b//c".to_vec())));
        assert_eq!(blob(b"k//a"), Ok(("k".into(), b"/a".to_vec())));
        assert_eq!(blob(b"k/\xff\n%41"), Ok(("k".into(), b"\xff\n%41".to_vec())));
    }

    #[test]
    fn urls_are_percent_decoded() {
        assert_eq!(blob(b"tyr:///k/a%2Fb%ff"), Ok(("k".into(), b"a/b\xff".to_vec())));
        assert!(blob(b"tyr:///k/a%2").expect_err("cut off").contains("%25"));
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert!(blob(b"k").expect_err("no key").contains("write k/KEY"));
        assert!(blob(b"k/").expect_err("empty key").contains("write k/KEY"));
        assert!(blob(b"/k/a").expect_err("leading slash").contains("no keyspace"));
        assert!(blob(b"a b/c").expect_err("space").contains("keyspace name"));
        assert!(blob(&[b"k/".as_slice(), &[b'x'; 5000]].concat()).expect_err("long").contains("5000"));
        assert!(
            blob(b"tyr://host:1,other:2/k/a").expect_err("cluster").contains("--store tyr://host:1,other:2")
        );
    }

    #[test]
    fn a_prefix_may_be_empty() {
        let parse = |text: &str| PrefixAddress::parse(OsStr::new(text)).map(|a| a.prefix);
        assert_eq!((parse("k"), parse("k/"), parse("k/ab")), (Ok(vec![]), Ok(vec![]), Ok(b"ab".to_vec())));
    }
}

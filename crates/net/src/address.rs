//! Where a program listens.

use std::{convert::Infallible, fmt, net::IpAddr, path::PathBuf, str::FromStr};

/// Where a program listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Address {
    /// A host, by name or number, and a port: `host:port`. Port 0 lets the system choose one.
    Tcp(String),
    /// A socket in the file system of this host: `unix:path`.
    Unix(PathBuf),
}

impl Address {
    /// Whether it says enough to be found: a host and a port, or a path.
    pub fn is_whole(&self) -> bool {
        match self {
            Address::Tcp(text) => text.rsplit_once(':').is_some_and(|(host, port)| {
                !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0)
            }),
            Address::Unix(path) => !path.as_os_str().is_empty(),
        }
    }

    /// The host, by name or number; none of a Unix socket.
    pub fn host(&self) -> Option<&str> {
        let Address::Tcp(address) = self else { return None };
        let host = address.rsplit_once(':').map_or(address.as_str(), |(host, _)| host);
        Some(host.trim_start_matches('[').trim_end_matches(']'))
    }

    /// Whether it means all addresses of a machine: one can listen there, but not be found.
    pub fn is_everywhere(&self) -> bool {
        self.host()
            .is_some_and(|host| host.is_empty() || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_unspecified()))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(host) => f.write_str(host),
            Address::Unix(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}

impl FromStr for Address {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text.strip_prefix(UNIX) {
            Some(path) => Address::Unix(path.into()),
            None => Address::Tcp(text.into()),
        })
    }
}

const UNIX: &str = "unix:";

//! Rights, and what they are for.

use alloc::{format, string::String};
use core::{
    fmt,
    ops::{BitAnd, BitOr, Sub},
    str::FromStr,
};

use tyr_types::{Error, KeyspaceId};

use crate::{
    encoding::{Decode, Decoder, Encode, Encoder, Malformed, ensure},
    layout,
};

/// A set of rights. None follows from another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rights(u8);

/// What rights are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// The cluster: its nodes, accounts, and which keyspaces there are. Who administers it may do everything.
    Cluster,
    /// Every keyspace, those that are created later included.
    Keyspaces,
    /// One keyspace.
    Keyspace(KeyspaceId),
}

impl Rights {
    /// No right.
    pub const NONE: Rights = Rights(0);
    /// To read blobs, their attributes, and which there are.
    pub const READ: Rights = Rights(1);
    /// To write, create, and delete blobs.
    pub const WRITE: Rights = Rights(2);
    /// To alter and drop a keyspace, and to grant rights to it; or to administer the cluster.
    pub const ADMINISTER: Rights = Rights(4);
    /// Every right.
    pub const ALL: Rights = Rights(7);

    /// Whether all of these are among them.
    pub const fn has(self, needed: Rights) -> bool {
        self.0 & needed.0 == needed.0
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl BitOr for Rights {
    type Output = Rights;

    fn bitor(self, other: Rights) -> Rights {
        Rights(self.0 | other.0)
    }
}

impl BitAnd for Rights {
    type Output = Rights;

    fn bitand(self, other: Rights) -> Rights {
        Rights(self.0 & other.0)
    }
}

impl Sub for Rights {
    type Output = Rights;

    fn sub(self, other: Rights) -> Rights {
        Rights(self.0 & !other.0)
    }
}

impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names = NAMES.iter().filter(|(right, _)| self.has(*right)).map(|(_, name)| *name);
        f.write_str(names.next().unwrap_or("none"))?;
        names.try_for_each(|name| write!(f, ",{name}"))
    }
}

impl FromStr for Rights {
    type Err = Error;

    /// Names separated by commas, or `all`.
    fn from_str(text: &str) -> Result<Self, Error> {
        text.split(',').try_fold(Rights::NONE, |rights, name| {
            let named = NAMES.iter().find(|(_, known)| *known == name).map(|(right, _)| *right);
            let named = named.or_else(|| (name == "all").then_some(Rights::ALL));
            named.map(|right| rights | right).ok_or_else(|| {
                Error::invalid(format!(
                    "'{}' is no right; use read, write, administer, several of them with commas between, or all",
                    name.escape_debug()
                ))
            })
        })
    }
}

impl Encode for Rights {
    fn encode(&self, out: &mut Encoder) {
        out.byte(self.0);
    }
}

impl Decode for Rights {
    fn decode(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let bits = input.byte()?;
        ensure(bits <= Rights::ALL.0, "there is no such right")?;
        Ok(Rights(bits))
    }
}

layout!(enum Scope { 0 => Cluster, 1 => Keyspaces, 2 => Keyspace(id) });

const NAMES: [(Rights, &str); 3] =
    [(Rights::READ, "read"), (Rights::WRITE, "write"), (Rights::ADMINISTER, "administer")];

impl Rights {
    /// Their names.
    pub fn names(self) -> impl Iterator<Item = String> {
        NAMES.iter().filter(move |(right, _)| self.has(*right)).map(|(_, name)| String::from(*name))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use alloc::string::ToString;

    use super::*;

    #[test]
    fn rights_are_written_as_they_are_read() {
        for text in ["read", "read,write", "write,administer", "read,write,administer"] {
            assert_eq!(text.parse::<Rights>().unwrap().to_string(), text);
        }
        assert_eq!("all".parse::<Rights>().unwrap(), Rights::ALL);
        assert_eq!(Rights::NONE.to_string(), "none");
        for wrong in ["", "reads", "read,", "read write"] {
            assert!(wrong.parse::<Rights>().is_err(), "{wrong}");
        }
    }
}

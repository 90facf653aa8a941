//! How snapshots are named on the command line: `KEYSPACE@NAME`.

use clap::builder::{StringValueParser, TypedValueParser};
use tyr_types::KeyspaceName;

/// A keyspace, and perhaps one of its snapshots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotAddress {
    /// The keyspace's name.
    pub keyspace: String,
    /// The snapshot's name.
    pub name: Option<String>,
}

impl SnapshotAddress {
    /// Parses `KEYSPACE` or `KEYSPACE@NAME`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (keyspace, name) = match text.split_once('@') {
            Some((keyspace, name)) => (keyspace, Some(name)),
            None => (text, None),
        };
        KeyspaceName::new(keyspace).map_err(|error| error.to_string())?;
        if let Some(name) = name {
            // Snapshots are named as keyspaces are.
            KeyspaceName::new(name).map_err(|_| {
                format!(
                    "'{}' is no name of a snapshot; use 1 to 255 letters, digits, '-', '_', '.', beginning with a letter or digit",
                    name.escape_debug()
                )
            })?;
        }
        Ok(SnapshotAddress { keyspace: keyspace.to_owned(), name: name.map(str::to_owned) })
    }

    /// For clap.
    pub fn parser() -> impl TypedValueParser<Value = Self> {
        StringValueParser::new().try_map(|text: String| Self::parse(&text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_follows_an_at_sign() {
        let parsed = |text| SnapshotAddress::parse(text).map(|address| (address.keyspace, address.name));
        assert_eq!(parsed("notes"), Ok(("notes".to_owned(), None)));
        assert_eq!(parsed("notes@monday"), Ok(("notes".to_owned(), Some("monday".to_owned()))));
        for wrong in ["", "@monday", "notes@", "notes@a@b", "no tes", "notes@-a"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }
}

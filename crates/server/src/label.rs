//! What says of each directory of a node what it is for: whose it is, and which part of it.
//!
//! A node that finds another directory in place of one of its own, or an empty one because a device is not mounted, would go on without
//! what it had promised to keep. So every store and the voter's journal has a label, written before the node belongs to a cluster; from
//! then on nothing is opened without the right one.

use std::{fmt, fs, io, path::Path};

use tyr_proto::cluster::Identity;
use tyr_types::{Error, Result};

use crate::card::write_whole;

/// What a directory is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Label {
    /// What the node calls itself.
    pub identity: Identity,
    pub part: Part,
}

/// A part of what a node keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The store of one of so many shards.
    Shard(u32, u32),
    /// The journal of the cluster manager.
    Manager,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::Shard(number, count) => write!(f, "shard {number} of {count}"),
            Part::Manager => f.write_str("manager"),
        }
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{FIRST}\nidentity {:032x}\npart {}\n", self.identity.0, self.part)
    }
}

impl Label {
    /// Fails unless the directory has this label.
    pub fn expect(self, directory: &Path) -> Result<()> {
        match read(directory)? {
            Some(text) if text == self.to_string() => Ok(()),
            Some(text) => Err(self.refusal(directory, &text)),
            None => Err(Error::not_found(format!(
                "'{}' is missing, which has '{}' of this node; mount it or put it back, or, if it is lost, remove the node from its \
                 cluster and let it join anew with empty directories",
                directory.display(),
                self.part
            ))),
        }
    }

    /// Gives the directory this label. Fails if it has another one.
    pub fn give(self, directory: &Path) -> Result<()> {
        match read(directory)? {
            Some(text) if text == self.to_string() => Ok(()),
            Some(text) => Err(self.refusal(directory, &text)),
            None => write_whole(directory, NAME, &self.to_string()),
        }
    }

    fn refusal(self, directory: &Path, found: &str) -> Error {
        let Label { identity, part } = self;
        let found: Vec<&str> = found.lines().skip(1).collect();
        Error::invalid(format!(
            "'{}' should have '{part}' of the node with identity {:032x}, but says '{}'; put the directories back where they were",
            directory.display(),
            identity.0,
            found.join(", ")
        ))
    }
}

/// Whether a directory has a label, whosever it is.
pub(crate) fn is_given(directory: &Path) -> bool {
    directory.join(NAME).exists()
}

fn read(directory: &Path) -> Result<Option<String>> {
    let path = directory.join(NAME);
    match fs::read(&path) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::unavailable(format!("cannot read '{}': {error}", path.display()))),
    }
}

const NAME: &str = "label";
const FIRST: &str = "tyr-label 1";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use tyr_types::ErrorKind;

    use super::*;

    #[test]
    fn a_directory_keeps_its_label_and_is_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let label = Label { identity: Identity(0xabc), part: Part::Shard(1, 2) };
        let error = label.expect(directory.path()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        label.give(directory.path()).unwrap();
        label.give(directory.path()).unwrap();
        label.expect(directory.path()).unwrap();
        let others = [
            Label { part: Part::Shard(0, 2), ..label },
            Label { part: Part::Shard(1, 3), ..label },
            Label { part: Part::Manager, ..label },
            Label { identity: Identity(0xabd), ..label },
        ];
        for other in others {
            assert_eq!(other.expect(directory.path()).unwrap_err().kind(), ErrorKind::Invalid);
            let error = other.give(directory.path()).unwrap_err();
            assert!(error.to_string().contains("part shard 1 of 2"), "{error}");
        }
    }
}

//! What says of each directory of a node what it is for: whose it is, and which part of it.
//!
//! A node that finds another directory in place of one of its own, or an empty one because a device is not mounted, would go on without
//! what it had promised to keep. So every store and the voter's journal has a label, written before the node belongs to a cluster; from
//! then on nothing is opened without the right one. And as soon as it does belong to one they say to which: a node that finds them, but not
//! its own directory, is no new one.

use std::{fmt, fs, io, path::Path};

use tyr_proto::cluster::{ClusterId, Identity};
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
    /// Fails unless the directory has this label, of this cluster if it says of which.
    pub fn expect(self, cluster: ClusterId, directory: &Path) -> Result<()> {
        match read(directory)? {
            Some(text) if text == self.to_string() || text == self.of(cluster) => Ok(()),
            Some(text) => Err(self.refusal(directory, &text)),
            None => Err(Error::not_found(format!(
                "'{}' is missing, which has '{}' of this node; mount it or put it back, or, if it is lost, remove the node from its \
                 cluster and let it join anew with empty directories",
                directory.display(),
                self.part
            ))),
        }
    }

    /// Gives the directory of a node that belongs to no cluster yet this label. Fails if it has another one.
    pub fn give(self, directory: &Path) -> Result<()> {
        match read(directory)? {
            Some(text) if text == self.to_string() => Ok(()),
            Some(text) if cluster_in(&text).is_none() => Err(self.left_over(directory, &text)),
            Some(text) => Err(self.refusal(directory, &text)),
            None => write_whole(directory, NAME, &self.to_string()),
        }
    }

    /// Has the label of a directory say of which cluster it is.
    pub fn belong(self, cluster: ClusterId, directory: &Path) -> Result<()> {
        let text = self.of(cluster);
        match read(directory)? {
            Some(found) if found == text => Ok(()),
            _ => write_whole(directory, NAME, &text),
        }
    }

    fn of(self, cluster: ClusterId) -> String {
        format!("{self}{CLUSTER}{:032x}\n", cluster.0)
    }

    fn refusal(self, directory: &Path, found: &str) -> Error {
        let Label { identity, part } = self;
        Error::invalid(format!(
            "'{}' should have '{part}' of the node with identity {:032x}, but says '{}'; put the directories back where they were",
            directory.display(),
            identity.0,
            content_of(found)
        ))
    }

    /// What is there belongs to no cluster, and neither does the node: nobody misses it.
    fn left_over(self, directory: &Path, found: &str) -> Error {
        let Label { identity, part } = self;
        Error::invalid(format!(
            "'{}' was left by a start that never joined a cluster, as '{}', and would now be '{part}' of the node with identity {:032x}; \
             remove the content of that directory, in which nothing is kept yet, or start with the settings of before",
            directory.display(),
            content_of(found),
            identity.0
        ))
    }
}

/// Whether a directory has a label, whosever it is.
pub(crate) fn is_given(directory: &Path) -> bool {
    directory.join(NAME).exists()
}

/// Fails if a directory is a part of a node that belongs to a cluster, for a node whose own directory knows of none.
pub(crate) fn expect_no_cluster(directory: &Path, node: &Path) -> Result<()> {
    let Some(text) = read(directory)? else { return Ok(()) };
    let Some(cluster) = cluster_in(&text) else { return Ok(()) };
    Err(Error::invalid(format!(
        "'{}' is a part of a node of cluster {cluster}, but '{}' does not say which one; mount that or put it back, or, if it is lost, \
         remove the node from its cluster and let it join anew with empty directories",
        directory.display(),
        node.display()
    )))
}

/// To which cluster a label says that its directory belongs.
fn cluster_in(label: &str) -> Option<&str> {
    label.lines().find_map(|line| line.strip_prefix(CLUSTER))
}

/// What a label says, in a line.
fn content_of(label: &str) -> String {
    label.lines().skip(1).collect::<Vec<&str>>().join(", ")
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
const CLUSTER: &str = "cluster ";
const FIRST: &str = "tyr-label 1";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use tyr_types::ErrorKind;

    use super::*;

    const OURS: ClusterId = ClusterId(7);

    #[test]
    fn a_directory_keeps_its_label_and_is_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let label = Label { identity: Identity(0xabc), part: Part::Shard(1, 2) };
        let error = label.expect(OURS, directory.path()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        label.give(directory.path()).unwrap();
        label.give(directory.path()).unwrap();
        label.expect(OURS, directory.path()).unwrap();
        let others = [
            Label { part: Part::Shard(0, 2), ..label },
            Label { part: Part::Shard(1, 3), ..label },
            Label { part: Part::Manager, ..label },
            Label { identity: Identity(0xabd), ..label },
        ];
        for other in others {
            assert_eq!(other.expect(OURS, directory.path()).unwrap_err().kind(), ErrorKind::Invalid);
            let error = other.give(directory.path()).unwrap_err();
            assert!(error.to_string().contains("part shard 1 of 2"), "{error}");
            assert!(error.to_string().contains("by a start that never joined a cluster"), "{error}");
        }
    }

    #[test]
    fn a_part_of_a_cluster_says_so() {
        let directory = tempfile::tempdir().unwrap();
        let (place, node) = (directory.path(), Path::new("node"));
        let label = Label { identity: Identity(0xabc), part: Part::Manager };
        expect_no_cluster(place, node).unwrap();
        label.give(place).unwrap();
        expect_no_cluster(place, node).unwrap();
        label.belong(OURS, place).unwrap();
        label.belong(OURS, place).unwrap();
        label.expect(OURS, place).unwrap();
        let error = expect_no_cluster(place, node).unwrap_err();
        assert!(error.to_string().contains("'node' does not say which one"), "{error}");
        assert_eq!(label.expect(ClusterId(8), place).unwrap_err().kind(), ErrorKind::Invalid);
        let error = label.give(place).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(!error.to_string().contains("never joined"), "{error}");
    }
}

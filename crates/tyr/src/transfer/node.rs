//! What a file system knows of a file besides its name and content, and how it is kept in attributes:
//!
//! | attribute | value |
//! |---|---|
//! | `file.kind` | `file`, `directory`, or `symlink` |
//! | `file.mode` | permission bits in octal: `0644` |
//! | `file.mtime` | time of the last change: seconds since 1970, a point, nine digits of nanoseconds |
//! | `file.crc32c` | checksum of the content: eight hexadecimal digits |
//!
//! A blob that is not whole yet has [`UNFINISHED`] in their place.

use std::{fs::Metadata, os::unix::fs::MetadataExt};

use tyr_client::{
    Attributes, Error, Key, Result,
    blocking::{Keyspace, Transaction},
};

use super::checksum::Checksum;
use crate::snapshot::UNFINISHED;

/// A file, directory, or symbolic link, without name and content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// What it is.
    pub kind: Kind,
    /// Permission bits, with those for set-user-id, set-group-id, and sticky.
    pub mode: u32,
    /// When its content changed last.
    pub mtime: Time,
}

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
}

/// A time: seconds since 1970, and nanoseconds after that second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time {
    /// Seconds, negative before 1970.
    pub seconds: i64,
    /// Nanoseconds, less than a second.
    pub nanoseconds: u32,
}

const KIND: &str = "file.kind";
const MODE: &str = "file.mode";
const MTIME: &str = "file.mtime";
const CHECKSUM: &str = "file.crc32c";

const MODE_BITS: u32 = 0o7777;

impl Node {
    /// The node of a file; `None` for sockets, pipes, and devices.
    pub fn from_metadata(metadata: &Metadata) -> Option<Self> {
        let file_type = metadata.file_type();
        let kind = if file_type.is_file() {
            Kind::File
        } else if file_type.is_dir() {
            Kind::Directory
        } else if file_type.is_symlink() {
            Kind::Symlink
        } else {
            return None;
        };
        let nanoseconds = u32::try_from(metadata.mtime_nsec()).unwrap_or(0);
        let mtime = Time { seconds: metadata.mtime(), nanoseconds };
        Some(Node { kind, mode: metadata.mode() & MODE_BITS, mtime })
    }

    /// The node that the attributes describe; `None` if they describe none, as of a blob that was not imported.
    pub fn from_attributes(attributes: &Attributes) -> Result<Option<Self>> {
        let Some(kind) = attributes.value(KIND) else { return Ok(None) };
        let kind = match kind {
            b"file" => Kind::File,
            b"directory" => Kind::Directory,
            b"symlink" => Kind::Symlink,
            _ => return Err(malformed(KIND)),
        };
        let text = |name| attributes.value(name).and_then(|value| std::str::from_utf8(value).ok());
        let mode = text(MODE).and_then(|mode| u32::from_str_radix(mode, 8).ok());
        let mode = mode.filter(|mode| mode & !MODE_BITS == 0).ok_or_else(|| malformed(MODE))?;
        let mtime = text(MTIME).and_then(Time::parse).ok_or_else(|| malformed(MTIME))?;
        Ok(Some(Node { kind, mode, mtime }))
    }

    /// The checksum that the attributes have.
    pub fn checksum(attributes: &Attributes) -> Option<Checksum> {
        let value = attributes.value(CHECKSUM)?;
        std::str::from_utf8(value).ok().and_then(Checksum::parse)
    }

    /// Says of a blob that it is not whole, and nothing else of this.
    pub fn write_unfinished(transaction: &mut Transaction, keyspace: &Keyspace, key: &Key) -> Result<()> {
        for name in [KIND, MODE, MTIME, CHECKSUM] {
            transaction.set_attribute(keyspace, key, name, None)?;
        }
        transaction.set_attribute(keyspace, key, UNFINISHED, Some(b""))
    }

    /// Whether the attributes say that the blob is not whole.
    pub fn is_unfinished(attributes: &Attributes) -> bool {
        attributes.value(UNFINISHED).is_some()
    }

    /// Says of a blob that it is whole, after all.
    pub fn write_finished(transaction: &mut Transaction, keyspace: &Keyspace, key: &Key) -> Result<()> {
        transaction.set_attribute(keyspace, key, UNFINISHED, None)
    }

    /// Sets the attributes of a blob to this node and checksum.
    pub fn write(
        &self,
        transaction: &mut Transaction,
        keyspace: &Keyspace,
        key: &Key,
        checksum: Checksum,
    ) -> Result<()> {
        let kind = match self.kind {
            Kind::File => "file",
            Kind::Directory => "directory",
            Kind::Symlink => "symlink",
        };
        let values = [
            (KIND, kind.to_owned()),
            (MODE, format!("{:04o}", self.mode)),
            (MTIME, self.mtime.to_text()),
            (CHECKSUM, checksum.to_string()),
        ];
        values.iter().try_for_each(|(name, value)| {
            transaction.set_attribute(keyspace, key, name, Some(value.as_bytes()))
        })
    }
}

impl Time {
    fn to_text(self) -> String {
        format!("{}.{:09}", self.seconds, self.nanoseconds)
    }

    fn parse(text: &str) -> Option<Self> {
        let (seconds, nanoseconds) = text.split_once('.')?;
        let digits = nanoseconds.len() == 9 && nanoseconds.bytes().all(|byte| byte.is_ascii_digit());
        let nanoseconds = nanoseconds.parse().ok().filter(|_| digits)?;
        Some(Time { seconds: seconds.parse().ok()?, nanoseconds })
    }
}

fn malformed(attribute: &str) -> Error {
    Error::invalid(format!(
        "attribute '{attribute}' is not as import writes it; unset '{KIND}' to export the blob as a plain file"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes(values: &[(&str, &str)]) -> Attributes {
        let mut attributes = Attributes::default();
        for (name, value) in values {
            attributes.set(name, Some(value.as_bytes())).expect("fits");
        }
        attributes
    }

    #[test]
    fn times_before_1970_read_the_same() {
        for (seconds, nanoseconds) in [(0, 0), (-1, 999_999_999), (i64::MIN, 0), (1 << 40, 7)] {
            let time = Time { seconds, nanoseconds };
            assert_eq!(Time::parse(&time.to_text()), Some(time));
        }
        for text in ["", "1", "1.5", "1.0000000000", "1.-00000001", "x.000000000"] {
            assert_eq!(Time::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_blob_that_was_not_imported_has_no_node() {
        assert_eq!(Node::from_attributes(&attributes(&[("color", "red")])), Ok(None));
    }

    #[test]
    fn malformed_attributes_are_refused_by_name() {
        let good = [(KIND, "file"), (MODE, "0644"), (MTIME, "1.000000000")];
        let node = Node { kind: Kind::File, mode: 0o644, mtime: Time { seconds: 1, nanoseconds: 0 } };
        assert_eq!(Node::from_attributes(&attributes(&good)), Ok(Some(node)));
        for (index, bad) in [(0, "socket"), (1, "99"), (1, "0100644"), (2, "now")] {
            let mut values = good;
            values[index].1 = bad;
            let error = Node::from_attributes(&attributes(&values)).expect_err("malformed");
            assert!(error.message().contains(good[index].0), "{error}");
        }
    }
}

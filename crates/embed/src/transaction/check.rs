//! Guards that the caller states: conditions on a blob that must hold when the transaction commits.

use std::convert::Infallible;

use tyr_store::{Stop, Writer};
use tyr_types::{ATTRIBUTE_NAME_MAX, Error, Key, KeyspaceId, Number, Result, range_end};

/// A condition on the committed state of a blob at the moment of the commit, before the transaction's own writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// The blob exists.
    Exists,
    /// The blob does not exist.
    Missing,
    /// The blob exists and was changed last by the transaction with this number (see [`crate::Stat::version`]). A cluster looks whether it was
    /// changed after that: so a number that another blob had, as one in a keyspace that was dropped, may hold for it.
    Version(Number),
    /// The blob exists and has this size, in bytes.
    Size(u64),
    /// The blob exists and has these bytes at the offset.
    Bytes {
        /// Where they begin.
        offset: u64,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// The blob exists and the attribute has this value, or is not set.
    Attribute {
        /// Its name.
        name: String,
        /// Its value; `None` if it is not to be set.
        value: Option<Vec<u8>>,
    },
}

impl Check {
    /// Fails with [`crate::ErrorKind::Invalid`] if it can never hold.
    pub(crate) fn validate(&self) -> Result<()> {
        match self {
            Check::Bytes { offset, bytes } => range_end(*offset, bytes.len() as u64).map(drop),
            Check::Attribute { name, .. } if name.is_empty() || name.len() > ATTRIBUTE_NAME_MAX => {
                let len = name.len();
                let message =
                    format!("the attribute name has {len} bytes; a name has 1 to {ATTRIBUTE_NAME_MAX} bytes");
                Err(Error::invalid(message))
            }
            _ => Ok(()),
        }
    }

    /// About how much memory it holds, in bytes.
    pub(crate) fn held(&self) -> usize {
        size_of::<Check>()
            + match self {
                Check::Bytes { bytes, .. } => bytes.len(),
                Check::Attribute { name, value } => name.len() + value.as_ref().map_or(0, Vec::len),
                _ => 0,
            }
    }

    /// What does not hold, if so.
    pub(crate) fn conflict(
        &self,
        writer: &mut Writer<'_>,
        keyspace: KeyspaceId,
        key: &Key,
    ) -> Result<Option<String>, Stop<Infallible>> {
        let head = writer.head(keyspace, key)?;
        let head = match (self, head) {
            (Check::Missing, None) => return Ok(None),
            (Check::Missing, Some(_)) => return Ok(Some("it exists, but was to be missing".into())),
            (_, None) => return Ok(Some("it does not exist, but was to be checked".into())),
            (_, Some(head)) => head,
        };
        Ok(match self {
            Check::Exists | Check::Missing => None,
            Check::Version(version) => (head.number != *version)
                .then(|| format!("its version is {}, but was to be {version}", head.number)),
            Check::Size(size) => {
                (head.size != *size).then(|| format!("its size is {}, but was to be {size}", head.size))
            }
            Check::Attribute { name, value } => (head.attributes.value(name) != value.as_deref())
                .then(|| format!("attribute '{}' is not as it was to be", name.escape_debug())),
            Check::Bytes { offset, bytes } => {
                let mut found = vec![0; bytes.len()];
                let len = writer.read(keyspace, key, *offset, &mut found)?;
                let end = offset + bytes.len() as u64;
                (len < bytes.len() || found != *bytes)
                    .then(|| format!("bytes in {offset}..{end} are not as they were to be"))
            }
        })
    }
}

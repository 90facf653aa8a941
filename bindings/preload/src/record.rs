//! What stands behind a descriptor, as bytes: how a program that is started learns what it has inherited.

use tyr_fs::{Inode, Kind, site::Site};

/// What a descriptor is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// What `TYR_MOUNT` was when it was opened.
    pub mount: Vec<u8>,
    pub use_: Use,
    pub inode: Inode,
    /// The path by which it was opened, beginning with a slash.
    pub path: Vec<u8>,
}

/// What it is used for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Use {
    /// It is open, with this access: `O_RDONLY`, `O_WRONLY`, `O_RDWR`, or `O_PATH`.
    Open(i32),
    /// It says what the working directory is, as long as the kernel's has this name.
    WorkingDirectory(Vec<u8>),
}

impl Record {
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        let (access, nowhere) = match &self.use_ {
            Use::Open(access) => (*access, [].as_slice()),
            Use::WorkingDirectory(nowhere) => (WORKING_DIRECTORY, nowhere.as_slice()),
        };
        bytes.extend_from_slice(&access.to_le_bytes());
        bytes.push(self.inode.kind as u8);
        bytes.extend_from_slice(&self.inode.number.to_le_bytes());
        for part in [&self.mount, self.inode.site.key(), &self.path, nowhere] {
            bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
            bytes.extend_from_slice(part);
        }
        bytes
    }

    /// `None` for bytes that are no record.
    pub fn decode(bytes: &[u8]) -> Option<Record> {
        let rest = bytes.strip_prefix(MAGIC)?;
        let (access, rest) = rest.split_first_chunk::<4>()?;
        let (code, rest) = rest.split_first()?;
        let (number, mut rest) = rest.split_first_chunk::<8>()?;
        let mut part = || {
            let (length, after) = rest.split_first_chunk::<8>()?;
            let (part, after) = after.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
            rest = after;
            Some(part.to_vec())
        };
        let (mount, site, path, nowhere) = (part()?, part()?, part()?, part()?);
        let kind = Kind::ALL.into_iter().find(|kind| *kind as u8 == *code)?;
        let inode = Inode { number: u64::from_le_bytes(*number), kind, site: Site::from_key(&site) };
        let use_ = match i32::from_le_bytes(*access) {
            WORKING_DIRECTORY => Use::WorkingDirectory(nowhere),
            access => Use::Open(access),
        };
        path.starts_with(b"/").then_some(Record { mount, use_, inode, path })
    }
}

const MAGIC: &[u8] = b"tyr-preload 2\n";
/// In place of an access.
const WORKING_DIRECTORY: i32 = -1;

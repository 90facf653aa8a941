//! The manifest: a line of JSON that says what an archive is and which files it has, and a line with the checksum of the first.

use std::{
    fs::{self, File},
    io::Write,
    path::Path,
};

use serde::{Deserialize, Serialize};
use tyr_client::{Durability, Error, KeyspaceSettings};
use tyr_wire::checksum::crc32c;

use super::{ArchiveId, damaged, failed, volume, writing};
use crate::failure::{Failure, Result};

/// What an archive is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The version of the format.
    pub format: u32,
    /// Its id.
    pub archive: String,
    /// The archive that it says the changes since; none if it has everything.
    pub since: Option<String>,
    /// What it is of.
    pub origin: Origin,
    /// What it has, once it is whole.
    pub content: Option<Content>,
}

/// Of what an archive is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The keyspace.
    pub keyspace: KeyspaceFacts,
    /// The name of the snapshot that was exported; none if one was taken for it.
    pub snapshot: Option<String>,
    /// When the snapshot was taken, in seconds since 1970.
    pub taken: u64,
}

/// A keyspace as it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyspaceFacts {
    /// Its name.
    pub name: String,
    /// What tells it from all others.
    pub identity: String,
    /// `memory` or `disk`.
    pub durability: String,
    /// Bytes of a chunk.
    pub chunk_size: u64,
    /// Whether it kept superseded versions.
    pub multi_version: bool,
    /// Its quota.
    pub quota: Option<u64>,
}

/// What an archive has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    /// How many blobs there were.
    pub blobs: u64,
    /// What their sizes add up to.
    pub bytes: u64,
    /// Bytes of data that this archive itself has.
    pub data: u64,
    /// The index.
    pub index: FileFacts,
    /// The volumes, by number.
    pub volumes: Vec<FileFacts>,
}

/// A file of an archive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileFacts {
    /// Its name.
    pub name: String,
    /// Its bytes.
    pub length: u64,
    /// CRC-32C of all of them.
    pub crc32c: u32,
}

/// The version of the format that is written.
pub const FORMAT: u32 = 1;
/// The manifest's file.
pub const NAME: &str = "manifest";
/// The file that says what is being written, until there is a manifest.
pub const DRAFT_NAME: &str = "manifest.draft";
/// A manifest is at most so long: that of a million volumes.
const SIZE_MAX: u64 = 128 << 20;

impl KeyspaceFacts {
    /// A keyspace as it is.
    pub fn of(keyspace: &tyr_client::blocking::Keyspace) -> Self {
        let settings = keyspace.settings();
        KeyspaceFacts {
            name: keyspace.name().to_owned(),
            identity: keyspace.identity(),
            durability: match settings.durability {
                Durability::Memory => "memory".to_owned(),
                Durability::Disk => "disk".to_owned(),
            },
            chunk_size: settings.chunk_size,
            multi_version: settings.multi_version,
            quota: settings.quota,
        }
    }

    /// The settings of one like it, without its quota.
    pub fn settings(&self) -> KeyspaceSettings {
        KeyspaceSettings {
            durability: if self.durability == "memory" { Durability::Memory } else { Durability::Disk },
            chunk_size: self.chunk_size,
            multi_version: self.multi_version,
            quota: None,
        }
    }
}

impl FileFacts {
    /// A volume that was written.
    pub fn of(written: volume::Written) -> Self {
        let name = format!("volume-{:06}", written.number);
        FileFacts { name, length: written.length, crc32c: written.checksum }
    }
}

impl Manifest {
    /// Its id.
    pub fn id(&self, path: &Path) -> Result<ArchiveId> {
        ArchiveId::parse(&self.archive).ok_or_else(|| damaged(path, "has an id that is none"))
    }

    /// Reads the manifest of a whole archive. Fails if there is none, or only a draft.
    pub fn read(directory: &Path) -> Result<Self> {
        let path = directory.join(NAME);
        if !path.exists() {
            let is_draft = directory.join(DRAFT_NAME).exists();
            let shown = directory.display();
            return Err(Failure::Store(match is_draft {
                true => Error::invalid(format!(
                    "the archive '{shown}' is not whole: its export was interrupted; run the same export again, and it goes on"
                )),
                false => Error::not_found(format!("there is no archive at '{shown}'; correct the path")),
            }));
        }
        let manifest = Self::parse(&path)?;
        match &manifest.content {
            Some(_) => Ok(manifest),
            None => Err(damaged(&path, "does not say what the archive has")),
        }
    }

    /// Reads what is being written, if something is.
    pub fn read_draft(directory: &Path) -> Result<Option<Self>> {
        let path = directory.join(DRAFT_NAME);
        if path.exists() { Self::parse(&path).map(Some) } else { Ok(None) }
    }

    fn parse(path: &Path) -> Result<Self> {
        let length = fs::metadata(path).map_err(|error| failed("look at", path, &error))?.len();
        if length > SIZE_MAX {
            return Err(damaged(path, "is too long"));
        }
        let text = fs::read(path).map_err(|error| failed("read", path, &error))?;
        let text = String::from_utf8(text).map_err(|_| damaged(path, "is no text"))?;
        let mut lines = text.split_inclusive('\n');
        let (first, second) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
        if second != checksum_line(first) || lines.next().is_some() {
            return Err(damaged(path, "has a wrong checksum"));
        }
        // The version first: of another one the rest may mean something else.
        let format = serde_json::from_str::<serde_json::Value>(first).ok();
        let format = format.and_then(|value| value.get("format")?.as_u64());
        if format.is_some_and(|format| format != u64::from(FORMAT)) {
            return Err(Failure::Store(Error::invalid(format!(
                "'{}' is of format {}, and this version of tyr reads format {FORMAT}; use the version that wrote it",
                path.display(),
                format.unwrap_or_default()
            ))));
        }
        serde_json::from_str(first).map_err(|_| damaged(path, "is no manifest"))
    }

    /// Writes it as what is being written, durably.
    pub fn write_draft(&self, directory: &Path) -> Result<()> {
        self.write_as(directory, DRAFT_NAME)
    }

    /// Writes it, durably: from here on the archive is whole.
    pub fn publish(&self, directory: &Path) -> Result<()> {
        self.write_as(directory, NAME)?;
        let draft = directory.join(DRAFT_NAME);
        fs::remove_file(&draft).map_err(|error| failed("remove", &draft, &error))
    }

    fn write_as(&self, directory: &Path, name: &str) -> Result<()> {
        let (path, new) = (directory.join(name), directory.join(format!("{name}.new")));
        let mut text = serde_json::to_string(self)
            .map_err(|error| Failure::Local(format!("cannot write the manifest: {error}")))?;
        text.push('\n');
        text.push_str(&checksum_line(&text));
        let write = || -> std::io::Result<()> {
            let mut file = writing().create(true).truncate(true).open(&new)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&new, &path)?;
            File::open(directory)?.sync_all()
        };
        write().map_err(|error| failed("write", &path, &error))
    }
}

fn checksum_line(line: &str) -> String {
    format!("crc32c {:08x}\n", crc32c(line.as_bytes()))
}

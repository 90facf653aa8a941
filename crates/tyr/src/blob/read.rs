//! Reads of single blobs. A read of many pieces is of one version of the blob: the first piece pins it.

use std::{
    fs::{self, File, Metadata, Permissions},
    io::Write,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use tyr_client::{Stat, blocking::Store};
use tyr_types::OFFSET_MAX;

use crate::{
    address::BlobAddress,
    amount::ByteRange,
    blob::{Done, Get, attributes, commit, keyspace_of},
    failure::{Failure, Result},
    output::{Bytes, Output, Report, Table, key_fields},
    payload::PIECE_SIZE,
    transfer::Partial,
};

pub fn get(store: &Store, arguments: &Get, out: &mut Output) -> Result<()> {
    let range = arguments.range.unwrap_or(ByteRange::ALL);
    let path = arguments.file.as_deref().filter(|path| *path != Path::new("-") && !is_stdout(path));
    let Some(path) = path else {
        return to_stdout(store, &arguments.blob, range, out);
    };
    let bytes = to_file(store, &arguments.blob, range, path)?;
    let line = format!("got {}: {} to '{}'", arguments.blob, Bytes(bytes), path.display());
    let file = path.to_string_lossy().into_owned();
    out.done(&Done::new("get", &arguments.blob, line).with("bytes", bytes).with("file", file))
}

/// Whether a path leads to standard output, as `/dev/stdout` does.
fn is_stdout(path: &Path) -> bool {
    let same =
        |there: &Metadata, own: &rustix::fs::Stat| (there.dev(), there.ino()) == (own.st_dev, own.st_ino);
    let own = rustix::fs::fstat(rustix::stdio::stdout());
    is_descriptor(path) && fs::metadata(path).is_ok_and(|there| own.is_ok_and(|own| same(&there, &own)))
}

/// Whether a path names an open descriptor, as `/dev/fd/3` does: what that leads to is open already, and no other file takes its place.
fn is_descriptor(path: &Path) -> bool {
    let is_of_process = |target: PathBuf| target.starts_with("/proc") && target.ends_with("fd");
    let parent = |path: &Path| path.parent().and_then(|parent| fs::canonicalize(parent).ok());
    // `/dev/stdout` is a link to one.
    let target = fs::read_link(path).ok().filter(|target| target.is_absolute());
    parent(path).is_some_and(is_of_process)
        || target.and_then(|target| parent(&target)).is_some_and(is_of_process)
}

/// Reads to standard output.
pub fn to_stdout(store: &Store, blob: &BlobAddress, range: ByteRange, out: &mut Output) -> Result<()> {
    for_each_piece(store, blob, range, |piece| out.bytes(piece)).map(|_| ())
}

/// Reads to a file under another name, and gives the file its name when it is whole. A symbolic link stays: what it leads to is
/// replaced. What is no regular file, such as a device, or is open already, is written as it is.
fn to_file(store: &Store, blob: &BlobAddress, range: ByteRange, path: &Path) -> Result<u64> {
    let there = fs::metadata(path).ok();
    let failed = |what: &str, error| Failure::local(format!("cannot {what} '{}'", path.display()), &error);
    if there.as_ref().is_some_and(|there| !there.is_file()) || is_descriptor(path) {
        let mut file = File::create(path).map_err(|error| failed("create", error))?;
        return for_each_piece(store, blob, range, |piece| {
            file.write_all(piece).map_err(|error| failed("write", error))
        });
    }
    let followed;
    let path = if path.is_symlink() {
        followed = fs::canonicalize(path).map_err(|error| failed("follow the symbolic link", error))?;
        &followed
    } else {
        path
    };
    let mode = there.map(|there| there.permissions().mode() & MODE_BITS);
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    // Until it has the mode of what it replaces nobody else reads it. In this order, so that what is not finished is removed before it is unlocked.
    let (mut file, partial) = Partial::create(name, path, mode.map_or(NEW_MODE, |_| 0o600))?;
    let bytes = for_each_piece(store, blob, range, |piece| {
        file.write_all(piece).map_err(|error| failed("write", error))
    })?;
    if let Some(mode) = mode {
        file.set_permissions(Permissions::from_mode(mode))
            .map_err(|error| failed("set the mode of", error))?;
    }
    partial.finish(path)?;
    Ok(bytes)
}

/// A file that another content takes does not run with its owner's rights any more.
const MODE_BITS: u32 = 0o777;
/// What the process gives of it is its umask's matter.
const NEW_MODE: u32 = 0o666;

/// Reads the range piece by piece and returns how many bytes it had.
fn for_each_piece(
    store: &Store,
    blob: &BlobAddress,
    range: ByteRange,
    mut take: impl FnMut(&[u8]) -> Result<()>,
) -> Result<u64> {
    let keyspace = keyspace_of(store, blob)?;
    let mut transaction = store.begin();
    let mut buffer = vec![0; PIECE_SIZE];
    let mut position = range.start;
    loop {
        let left = range.end.unwrap_or(u64::MAX).min(OFFSET_MAX).saturating_sub(position);
        let length = usize::try_from(left).map_or(PIECE_SIZE, |left| left.min(PIECE_SIZE));
        let read = transaction.read_into(&keyspace, &blob.key, position, &mut buffer[..length])?;
        take(&buffer[..read])?;
        position += read as u64;
        if read < length || length == 0 {
            break;
        }
    }
    if !keyspace.settings().multi_version {
        // Nothing was pinned, so the pieces may be of different versions: the commit tells.
        commit(transaction)?;
    }
    Ok(position - range.start)
}

pub fn stat(store: &Store, blob: &BlobAddress, out: &mut Output) -> Result<()> {
    let stat = keyspace_of(store, blob)?.stat(&blob.key)?;
    out.report(&Shown { blob, stat })
}

struct Shown<'a> {
    blob: &'a BlobAddress,
    stat: Stat,
}

impl serde::Serialize for Shown<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = key_fields(&self.blob.keyspace, self.blob.key.as_bytes());
        let attributes: Vec<Value> =
            self.stat.attributes.iter().map(|(name, value)| attributes::object(name, value).into()).collect();
        object.insert("size".to_owned(), self.stat.size.into());
        object.insert("blob".to_owned(), json!(self.stat.blob.to_u64()));
        object.insert("version".to_owned(), self.stat.version.to_string().into());
        object.insert("attributes".to_owned(), attributes.into());
        object.serialize(serializer)
    }
}

impl Report for Shown<'_> {
    fn print(&self, out: &mut Output) -> Result<()> {
        let mut table = Table::new([]);
        let facts = [
            ("blob", self.blob.to_string()),
            ("size", format!("{} ({})", self.stat.size, Bytes(self.stat.size))),
            ("version", self.stat.version.to_string()),
            ("attributes", self.stat.attributes.len().to_string()),
        ];
        for (name, fact) in facts {
            table.row([name.to_owned(), fact]);
        }
        for (name, value) in self.stat.attributes.iter() {
            table.row([format!("  {}", crate::output::Shown(name.as_bytes())), attributes::shown(value)]);
        }
        table.print(out)
    }
}

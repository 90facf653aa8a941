//! `tyr fs`: files of a file system in a keyspace, for scripts where nothing is mounted.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    path::PathBuf,
};

use clap::{Args, Subcommand};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use tyr_client::{Create, Error, blocking::Store};
use tyr_fs::{Caller, Errno, Filesystem, Flat, Follow, How, Kind, Metadata, PUT_WHOLE_MAX, View, block_on};

use crate::{
    address::PrefixAddress,
    failure::{Failure, Result},
    opening::with_store,
    output::{Output, Report, Shown as Bytes, bytes_field},
    payload::Payload,
    settings::Settings,
};

/// Files, named KEYSPACE/PATH.
#[derive(Args)]
pub struct Files {
    #[command(subcommand)]
    verb: Verb,
    /// The keyspace holds flat files: their paths are the keys of their blobs, and there are no directories.
    #[arg(long, global = true)]
    flat: bool,
}

/// What to do with files. They are named KEYSPACE/PATH.
#[derive(Subcommand)]
pub enum Verb {
    /// Make an empty file system in a keyspace, which is made if it is not there.
    Create {
        /// The keyspace.
        keyspace: String,
    },
    /// List a directory.
    Ls {
        /// The directory, as KEYSPACE/PATH.
        #[arg(value_parser = PrefixAddress::parser())]
        directory: PrefixAddress,
    },
    /// Show what is known of a file or directory.
    Stat {
        /// It, as KEYSPACE/PATH.
        #[arg(value_parser = PrefixAddress::parser())]
        path: PrefixAddress,
    },
    /// Print a file.
    Cat {
        /// The file, as KEYSPACE/PATH.
        #[arg(value_parser = PrefixAddress::parser())]
        file: PrefixAddress,
    },
    /// Make standard input, or a file of this machine, the content of a file. Up to 512 MiB appear at once in the place of what was there.
    Put {
        /// The file, as KEYSPACE/PATH.
        #[arg(value_parser = PrefixAddress::parser())]
        file: PrefixAddress,
        /// The file of this machine; standard input if none is given, or '-'.
        source: Option<PathBuf>,
    },
    /// Make a directory.
    Mkdir {
        /// It, as KEYSPACE/PATH.
        #[arg(value_parser = PrefixAddress::parser())]
        directory: PrefixAddress,
    },
    /// Rename a file or a directory; a file that has the new name is replaced.
    Mv {
        /// What is renamed, as KEYSPACE/PATH.
        #[arg(value_parser = PrefixAddress::parser())]
        from: PrefixAddress,
        /// What it is called then, as KEYSPACE/PATH in the same keyspace, or as /PATH.
        to: OsString,
    },
    /// Make a symbolic link.
    Ln {
        /// Where it leads.
        target: OsString,
        /// The link, as KEYSPACE/PATH.
        #[arg(value_parser = PrefixAddress::parser())]
        link: PrefixAddress,
    },
    /// Remove a file, or an empty directory.
    Rm {
        /// It, as KEYSPACE/PATH.
        #[arg(value_parser = PrefixAddress::parser())]
        path: PrefixAddress,
    },
}

impl Files {
    /// Does what the verb says.
    pub fn run(self, settings: &Settings, out: &mut Output) -> Result<()> {
        let create = if matches!(self.verb, Verb::Create { .. }) { Create::IfMissing } else { Create::Never };
        let flat = self.flat.then_some(Flat::Slashes);
        let named = self.verb.named();
        with_store(settings, create, |store| {
            self.verb.work(store, flat, out).map_err(|failure| match failure {
                Failure::Store(error) => Failure::Store(error.context(named)),
                other => other,
            })
        })
    }
}

impl Verb {
    /// What it is done to, as a failure of the store names it.
    fn named(&self) -> String {
        match self {
            Verb::Create { keyspace } => keyspace.clone(),
            Verb::Mv { from, to } => format!("{} to {}", named(from), to.display()),
            Verb::Ls { directory: at }
            | Verb::Stat { path: at }
            | Verb::Cat { file: at }
            | Verb::Put { file: at, .. }
            | Verb::Mkdir { directory: at }
            | Verb::Ln { link: at, .. }
            | Verb::Rm { path: at } => named(at),
        }
    }

    fn work(self, store: &Store, flat: Option<Flat>, out: &mut Output) -> Result<()> {
        match self {
            Verb::Create { keyspace } => {
                let store = store.clone().into_ready();
                let made = match flat {
                    None => block_on(Filesystem::open_or_create(&store, &keyspace)),
                    Some(flat) => block_on(Filesystem::open_or_create_flat(&store, &keyspace, flat)),
                };
                made.map_err(failed)?;
                out.done(&Done { action: "created", path: keyspace })
            }
            Verb::Ls { directory } => {
                let view = view(store, flat, &directory)?;
                let entries = block_on(view.read_directory(path(&directory))).map_err(failed)?;
                let shown = |entry: tyr_fs::Entry| Listed {
                    name: entry.name,
                    kind: kind(entry.kind),
                    inode: entry.number,
                };
                out.report(&Listing { entries: entries.into_iter().map(shown).collect() })
            }
            Verb::Stat { path: at } => {
                let found =
                    block_on(view(store, flat, &at)?.metadata(path(&at), Follow::No)).map_err(failed)?;
                out.report(&Shown::from(&found))
            }
            Verb::Cat { file } => print(&view(store, flat, &file)?, path(&file), out),
            Verb::Put { file, source } => {
                let payload = Payload::from_file_argument(source.as_deref());
                put(&view(store, flat, &file)?, path(&file), &payload)?;
                out.done(&Done { action: "put", path: named(&file) })
            }
            Verb::Mkdir { directory } => {
                block_on(view(store, flat, &directory)?.create_directory(path(&directory), 0o755))
                    .map_err(failed)?;
                out.done(&Done { action: "made", path: named(&directory) })
            }
            Verb::Mv { from, to } => {
                let to = new_path(&from, &to)?;
                block_on(view(store, flat, &from)?.rename(path(&from), to)).map_err(failed)?;
                out.done(&Done { action: "renamed", path: named(&from) })
            }
            Verb::Ln { target, link } => {
                block_on(view(store, flat, &link)?.symlink(&target, path(&link))).map_err(failed)?;
                out.done(&Done { action: "linked", path: named(&link) })
            }
            Verb::Rm { path: at } => {
                let view = view(store, flat, &at)?;
                let removed = match block_on(view.remove_file(path(&at))) {
                    Err(error) if error.errno() == Errno::EISDIR => {
                        block_on(view.remove_directory(path(&at)))
                    }
                    result => result,
                };
                removed.map_err(failed)?;
                out.done(&Done { action: "removed", path: named(&at) })
            }
        }
    }
}

/// The file system that an address names, with all rights.
fn view(store: &Store, flat: Option<Flat>, address: &PrefixAddress) -> Result<View> {
    let store = store.clone().into_ready();
    let keyspace = store.keyspace(&address.keyspace)?;
    let filesystem = match flat {
        None => block_on(Filesystem::open(&store, &keyspace)),
        Some(flat) => block_on(Filesystem::open_flat(&store, &keyspace, flat)),
    };
    let filesystem = filesystem.map_err(failed)?;
    Ok(View::new(filesystem, Caller::superuser()))
}

/// Where something goes that is renamed: in its own keyspace, which may be named again.
fn new_path(from: &PrefixAddress, to: &OsStr) -> Result<PathBuf> {
    if to.as_bytes().starts_with(b"/") {
        return Ok(PathBuf::from(to));
    }
    let address = PrefixAddress::parse(to).map_err(Failure::Usage)?;
    if address.keyspace == from.keyspace {
        return Ok(path(&address));
    }
    Err(Failure::Usage(format!(
        "'{}' is not in the keyspace '{}', and nothing is renamed into another one: say the new name as {}/PATH, or copy the file and remove it then",
        to.display(),
        from.keyspace,
        from.keyspace
    )))
}

fn path(address: &PrefixAddress) -> PathBuf {
    PathBuf::from("/").join(OsStr::from_bytes(&address.prefix))
}

/// Prints a file: what is small by one request, what is large in pieces, between which others may write to it.
fn print(view: &View, path: PathBuf, out: &mut Output) -> Result<()> {
    let found = block_on(view.metadata(&path, Follow::Yes)).map_err(failed)?;
    if found.size <= FETCH_MAX {
        let (_, content) = block_on(view.fetch(&path)).map_err(failed)?;
        return out.bytes(&content);
    }
    let file = block_on(view.open(&path, How::READ)).map_err(failed)?;
    let mut position = 0;
    loop {
        let piece = block_on(file.read(position, PIECE)).map_err(failed)?;
        if piece.is_empty() {
            return Ok(());
        }
        out.bytes(&piece)?;
        position += piece.len() as u64;
    }
}

/// Makes a payload the content of a file, as [`View::put`] does, without holding more of it in memory than that does at once.
fn put(view: &View, path: PathBuf, payload: &Payload) -> Result<()> {
    let mut content = Vec::new();
    let mut large: Option<(tyr_fs::File, u64)> = None;
    payload.for_each_piece(|piece| {
        content.extend_from_slice(piece);
        if large.is_none() && content.len() > PUT_WHOLE_MAX {
            let how = How { truncates: true, ..How::CREATE };
            large = Some((block_on(view.open(&path, how)).map_err(failed)?, 0));
        }
        if let Some((file, end)) = large.as_mut().filter(|_| content.len() >= PIECE) {
            block_on(file.write(*end, &content)).map_err(failed)?;
            *end += content.len() as u64;
            content = Vec::new();
        }
        Ok(())
    })?;
    match large {
        None => block_on(view.put(&path, &content)).map_err(failed),
        Some((file, end)) => block_on(file.write(end, &content)).map_err(failed),
    }
}

/// The largest file that is read by one request.
const FETCH_MAX: u64 = 64 << 20;
/// Larger ones are read and written in pieces of so many bytes.
const PIECE: usize = 8 << 20;

fn named(address: &PrefixAddress) -> String {
    match address.prefix.as_slice() {
        b"" => address.keyspace.clone(),
        path => format!("{}/{}", address.keyspace, String::from_utf8_lossy(path)),
    }
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::File => "file",
        Kind::Directory => "directory",
        Kind::Symlink => "symlink",
        Kind::Pipe => "pipe",
        Kind::Socket => "socket",
        Kind::CharacterDevice => "character-device",
        Kind::BlockDevice => "block-device",
    }
}

/// What went wrong with files, as the kinds of the store have it.
pub fn failed(error: tyr_fs::Error) -> Failure {
    let message = error.to_string();
    Failure::Store(match error.errno() {
        Errno::ENOENT | Errno::ESTALE | Errno::ENODATA => Error::not_found(message),
        Errno::EEXIST => Error::exists(message),
        Errno::EACCES | Errno::EPERM | Errno::EROFS => Error::denied(message),
        Errno::ENOSPC => Error::full(message),
        Errno::EIO | Errno::EAGAIN => Error::unavailable(message),
        _ => Error::invalid(message),
    })
}

#[derive(Serialize)]
struct Done {
    action: &'static str,
    path: String,
}

impl Report for Done {
    fn print(&self, out: &mut Output) -> Result<()> {
        out.line(format!("{} {}", self.action, self.path))
    }
}

#[derive(Serialize)]
struct Listing {
    entries: Vec<Listed>,
}

struct Listed {
    name: Vec<u8>,
    kind: &'static str,
    inode: u64,
}

impl Serialize for Listed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = Map::new();
        bytes_field(&mut object, "name", &self.name);
        object.insert("kind".to_owned(), self.kind.into());
        object.insert("inode".to_owned(), self.inode.into());
        object.serialize(serializer)
    }
}

impl Report for Listing {
    fn print(&self, out: &mut Output) -> Result<()> {
        for entry in &self.entries {
            let mark = if entry.kind == "directory" { "/" } else { "" };
            out.line(format!("{}{mark}", Bytes(&entry.name)))?;
        }
        Ok(())
    }
}

struct Shown {
    kind: &'static str,
    inode: u64,
    size: u64,
    mode: String,
    uid: u32,
    gid: u32,
    links: u32,
    target: Option<Vec<u8>>,
}

impl Serialize for Shown {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Shown { kind, inode, size, mode, uid, gid, links, target } = self;
        let mut object = Map::new();
        object.insert("kind".to_owned(), (*kind).into());
        object.insert("mode".to_owned(), mode.as_str().into());
        let numbers = [("inode", *inode), ("size", *size)];
        let smaller =
            [("uid", *uid), ("gid", *gid), ("links", *links)].map(|(name, number)| (name, number.into()));
        for (name, number) in numbers.into_iter().chain(smaller) {
            object.insert(name.to_owned(), number.into());
        }
        match target {
            Some(target) => bytes_field(&mut object, "target", target),
            None => drop(object.insert("target".to_owned(), Value::Null)),
        }
        object.serialize(serializer)
    }
}

impl From<&Metadata> for Shown {
    fn from(metadata: &Metadata) -> Self {
        Shown {
            kind: kind(metadata.inode.kind),
            inode: metadata.inode.number,
            size: metadata.size,
            mode: format!("{:04o}", metadata.mode),
            uid: metadata.uid,
            gid: metadata.gid,
            links: metadata.links,
            target: metadata.target.clone(),
        }
    }
}

impl Report for Shown {
    fn print(&self, out: &mut Output) -> Result<()> {
        let Shown { kind, inode, size, mode, uid, gid, links, target } = self;
        out.line(format!("{kind} {inode}, {size} bytes, mode {mode}, owner {uid}:{gid}, {links} links"))?;
        match target {
            Some(target) => out.line(format!("leads to {}", Bytes(target))),
            None => Ok(()),
        }
    }
}

//! From a keyspace into a directory.
//!
//! A key that is no path that stays within the directory is told of and left out; if none is one, nothing is written. A file is written under
//! another name and renamed when it is whole, and, where there are no snapshots, when it is certain that all of it was there at one moment: what somebody
//! writes to meanwhile is read again, and what was removed since its key was read is passed over. What has changed since it was imported, as its checksum tells, gets the time of the export.
//! Modes and times of directories come last: a directory may be read-only, and writing into one changes its time.

use std::{
    ffi::OsStr,
    fs::{self, File, Permissions},
    io::{self, Seek},
    os::unix::{
        ffi::OsStrExt,
        fs::{OpenOptionsExt, PermissionsExt},
    },
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use rustix::fs::{AtFlags, CWD, OFlags, Timespec, Timestamps, UTIME_OMIT, utimensat};
use tyr_client::{
    Entry, Error, ErrorKind, Key,
    blocking::{Keyspace, Store},
};

use super::{
    Export,
    checksum::Checksum,
    directories::Directories,
    hole,
    node::{Kind, Node, Time},
    partial::Partial,
    path::{relative_path, tree_prefix},
    progress::Progress,
    tally::{End, Summary, Tally},
    view::{Reading, View},
};
use crate::{
    failure::{Failure, Result},
    interrupt::Interrupt,
    output::{Output, Shown},
    payload::{PIECE_SIZE, for_each_piece},
    settings::Settings,
    workers::work_on,
};

/// Exports a tree.
pub fn run(
    store: &Store,
    arguments: &Export,
    settings: &Settings,
    interrupt: &Interrupt,
    out: &Output,
) -> Result<Summary> {
    let keyspace = store.keyspace(&arguments.source.keyspace)?;
    let job = Job {
        view: View::of(store, &keyspace)?,
        keyspace,
        prefix: tree_prefix(&arguments.source.prefix),
        verify: arguments.verify,
        interrupt,
        tally: Tally::new(),
        progress: Progress::new(out, "export"),
        directories: Directories::new(&arguments.directory),
        nodes_of_directories: Mutex::default(),
        pathless: AtomicU64::new(0),
    };
    job.plan()?;
    let worked = job
        .directories
        .create_root()
        .and_then(|()| work_on(settings.threads, job.pages(WORK_PAGE), |page| job.export(&page)))
        .and_then(|()| job.finish_directories());
    job.progress.finish();
    job.tell_of_pathless();
    match worked {
        Ok(()) => Ok(job.tally.summary("export", End::Complete)),
        Err(Failure::Interrupted(_)) => Ok(job.tally.summary("export", End::Interrupted)),
        Err(failure) => Err(failure),
    }
}

/// Keys that are looked at together when planning.
const PLAN_PAGE: usize = 1000;
/// Blobs that one thread exports together.
const WORK_PAGE: usize = 64;

struct Job<'a> {
    view: View,
    keyspace: Keyspace,
    prefix: Vec<u8>,
    verify: bool,
    interrupt: &'a Interrupt,
    tally: Tally,
    progress: Progress,
    directories: Directories,
    nodes_of_directories: Mutex<Vec<(PathBuf, Node)>>,
    /// How many keys were left out because they are no paths.
    pathless: AtomicU64,
}

/// A blob that is to become a file.
struct Exported {
    key: Key,
    path: PathBuf,
    size: u64,
    /// What the import recorded, if the blob was imported.
    node: Option<Node>,
    checksum: Option<Checksum>,
}

impl Job<'_> {
    /// Counts, and sees that there is something to export.
    fn plan(&self) -> Result<()> {
        let (mut blobs, mut pathless) = (0_u64, None);
        for page in self.pages(PLAN_PAGE) {
            for entry in page? {
                match self.relative_path(&entry.key) {
                    Ok(_) => {
                        self.progress.expect(entry.size);
                        blobs += 1;
                    }
                    Err(reason) => {
                        pathless.get_or_insert((entry.key, reason));
                    }
                }
            }
        }
        let (keyspace, prefix) = (self.keyspace.name(), Shown(&self.prefix));
        let error = match pathless {
            _ if blobs > 0 => return Ok(()),
            None => Error::not_found(format!(
                "there is nothing to export: no key begins with {keyspace}/{prefix}"
            )),
            Some((key, reason)) => Error::invalid(format!(
                "nothing is exported, because no key that begins with {keyspace}/{prefix} is a path within a directory; {keyspace}/{}: \
                 {reason}; read single blobs with 'tyr blob get', or export all of them with 'tyr snapshot export'",
                Shown(key.as_bytes())
            )),
        };
        Err(error.into())
    }

    /// All blobs of the tree, page by page.
    fn pages(&self, page: usize) -> impl Iterator<Item = Result<Vec<Entry>>> {
        let mut after: Option<Key> = None;
        std::iter::from_fn(move || {
            let after_bytes = after.as_ref().map(Key::as_bytes);
            match self.view.scan(&self.keyspace, &self.prefix, after_bytes, page) {
                Err(error) => Some(Err(error.into())),
                Ok(entries) => {
                    after = Some(entries.last()?.key.clone());
                    Some(Ok(entries))
                }
            }
        })
    }

    /// The path, or why the key is none.
    fn relative_path(&self, key: &Key) -> Result<PathBuf, &'static str> {
        relative_path(key.as_bytes().strip_prefix(self.prefix.as_slice()).unwrap_or_default())
    }

    /// Says of the first few keys that are no paths that they are left out, and why.
    fn leave_out(&self, key: &Key, reason: &str) {
        self.tally.failed();
        if self.pathless.fetch_add(1, Ordering::Relaxed) < PATHLESS_TOLD_MAX {
            let (keyspace, key) = (self.keyspace.name(), Shown(key.as_bytes()));
            self.progress.warn(format!(
                "{keyspace}/{key} is not exported, because its key is no path within a directory: {reason}; read it with 'tyr blob get'"
            ));
        }
    }

    /// Says how many of them there were, if not each was told of.
    fn tell_of_pathless(&self) {
        let pathless = self.pathless.load(Ordering::Relaxed);
        if pathless > PATHLESS_TOLD_MAX {
            let further = pathless - PATHLESS_TOLD_MAX;
            self.progress.warn(format!(
                "{further} more are not exported, because their keys are no paths within a directory either"
            ));
        }
    }

    fn export(&self, page: &[Entry]) -> Result<()> {
        for entry in page {
            self.check_interrupt()?;
            let path = match self.relative_path(&entry.key) {
                Ok(path) => self.directories.root().join(path),
                Err(reason) => {
                    self.leave_out(&entry.key, reason);
                    continue;
                }
            };
            match self.export_blob(&entry.key, &path) {
                Err(failure) if matters_to_one(&failure) => {
                    self.tally.failed();
                    if matches!(failure, Failure::Store(_)) {
                        self.tally.damaged();
                    }
                    let key = Shown(entry.key.as_bytes());
                    self.progress.warn(format!("{}/{key} is not exported: {failure}", self.keyspace.name()));
                }
                other => other?,
            }
        }
        Ok(())
    }

    fn export_blob(&self, key: &Key, path: &Path) -> Result<()> {
        for _ in 0..READINGS_MAX {
            match self.try_export_blob(key, path) {
                Err(Failure::Store(error)) if error.kind() == ErrorKind::Conflict => {}
                // Somebody has removed it since its key was read, so it is not to be there.
                Err(Failure::Store(error)) if error.kind() == ErrorKind::NotFound => {
                    return match self.view.may_lose_blobs(&self.keyspace)? {
                        true => Ok(()),
                        false => Err(Failure::Store(error)),
                    };
                }
                result => return result,
            }
        }
        Err(Failure::Local(format!(
            "it changed each of the {READINGS_MAX} times that it was read; export it again when less is written to it"
        )))
    }

    fn try_export_blob(&self, key: &Key, path: &Path) -> Result<()> {
        let mut reading = self.view.read();
        let stat = reading.stat(&self.keyspace, key)?;
        let exported = Exported {
            key: key.clone(),
            path: path.to_owned(),
            size: stat.size,
            node: Node::from_attributes(&stat.attributes).map_err(|error| {
                error.context(format!("{}/{}", self.keyspace.name(), Shown(key.as_bytes())))
            })?,
            checksum: Node::checksum(&stat.attributes),
        };
        if Node::is_unfinished(&stat.attributes) {
            return Err(Failure::Local(
                "it is not whole; run the import that was to write it again".to_owned(),
            ));
        }
        let is_directory_name = key.as_bytes().ends_with(b"/");
        match exported.node {
            Some(node) if node.kind == Kind::Directory => self.export_directory(&exported, node),
            _ if is_directory_name => Err(Failure::Local(
                "its key ends in '/', but it is no imported directory; a file cannot have that name"
                    .to_owned(),
            )),
            Some(node) if node.kind == Kind::Symlink => self.export_symlink(&exported, node, reading),
            _ => self.export_file(&exported, reading),
        }
    }

    fn export_directory(&self, exported: &Exported, node: Node) -> Result<()> {
        self.directories.create(&exported.path)?;
        let mut nodes = self.nodes_of_directories.lock().unwrap_or_else(PoisonError::into_inner);
        nodes.push((exported.path.clone(), node));
        Ok(())
    }

    fn export_symlink(&self, exported: &Exported, node: Node, mut reading: Reading<'_>) -> Result<()> {
        if exported.size > PATH_SIZE_MAX {
            return Err(Failure::Local(format!(
                "the target of a symbolic link cannot have {} bytes",
                exported.size
            )));
        }
        let mut target = Vec::new();
        self.copy(exported, &mut reading, |piece| {
            target.extend_from_slice(piece);
            Ok(())
        })?;
        reading.finish()?;
        let has_changed = self.has_changed(exported, Checksum::of(&target));
        self.directories.create_parent(&exported.path)?;
        let target = Path::new(OsStr::from_bytes(&target));
        if fs::read_link(&exported.path).is_ok_and(|there| there == target) {
            self.tally.skipped();
            return Ok(());
        }
        let partial = Partial::link(exported.key.as_bytes(), &exported.path, target)?;
        if !has_changed {
            set_time(partial.path(), node.mtime)?;
        }
        partial.finish(&exported.path)?;
        self.tally.wrote(Kind::Symlink, 0);
        Ok(())
    }

    fn export_file(&self, exported: &Exported, mut reading: Reading<'_>) -> Result<()> {
        self.directories.create_parent(&exported.path)?;
        if let Some((file, there)) = self.there(exported, &mut reading)? {
            reading.finish()?;
            if exported.node.is_some_and(|node| there.mode != node.mode & FILE_MODE_BITS) {
                set_mode(&file, exported, &exported.path)?;
            }
            self.progress.advance(exported.size);
            self.tally.skipped();
            return Ok(());
        }
        // In this order, so that what is not finished is removed before it is unlocked.
        let (mut file, partial) = Partial::create(exported.key.as_bytes(), &exported.path, 0o600)?;
        let failed = |error| local("cannot write", partial.path(), &error);
        let mut ends_in_hole = false;
        let checksum = self.copy(exported, &mut reading, |piece| {
            ends_in_hole = hole::write(&mut file, piece).map_err(failed)?;
            Ok(())
        })?;
        reading.finish()?;
        if ends_in_hole {
            let end = file.stream_position().map_err(failed)?;
            file.set_len(end).map_err(failed)?;
        }
        let has_changed = self.has_changed(exported, checksum);
        set_mode(&file, exported, partial.path())?;
        if let Some(node) = exported.node.filter(|_| !has_changed) {
            set_time(partial.path(), node.mtime)?;
        }
        partial.finish(&exported.path)?;
        self.tally.wrote(Kind::File, exported.size);
        if self.verify {
            self.verify(exported, checksum)?;
        }
        Ok(())
    }

    /// Reads the content of the blob piece by piece.
    fn copy(
        &self,
        exported: &Exported,
        reading: &mut Reading<'_>,
        mut take: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<Checksum> {
        self.read(exported, reading, |piece| {
            take(piece)?;
            self.progress.advance(piece.len() as u64);
            Ok(())
        })
    }

    fn read(
        &self,
        exported: &Exported,
        reading: &mut Reading<'_>,
        mut take: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<Checksum> {
        let small = usize::try_from(exported.size).unwrap_or(PIECE_SIZE);
        let mut buffer = vec![0; small.clamp(1, PIECE_SIZE)];
        let (mut checksum, mut position) = (Checksum::default(), 0);
        while position < exported.size {
            self.check_interrupt()?;
            // What somebody makes longer meanwhile is no longer here than it was said to be.
            let left = usize::try_from(exported.size - position).unwrap_or(usize::MAX).min(buffer.len());
            let length = reading.read_into(&self.keyspace, &exported.key, position, &mut buffer[..left])?;
            if length == 0 {
                return Err(reading.shorter().into());
            }
            checksum = checksum.then(&buffer[..length]);
            take(&buffer[..length])?;
            position += length as u64;
        }
        Ok(checksum)
    }

    /// The file, if it is there already with the recorded time, and the size and content that the blob has now.
    fn there(&self, exported: &Exported, reading: &mut Reading<'_>) -> Result<Option<(File, Node)>> {
        let (Some(node), Some(checksum)) = (exported.node, exported.checksum) else { return Ok(None) };
        let opened = File::options()
            .read(true)
            .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed())
            .open(&exported.path);
        let Ok(file) = opened else { return Ok(None) };
        let failed = |error| local("cannot read", &exported.path, &error);
        let metadata = file.metadata().map_err(failed)?;
        let there = Node::from_metadata(&metadata).filter(|there| there.kind == Kind::File);
        let Some(there) = there.filter(|there| there.mtime == node.mtime && metadata.len() == exported.size)
        else {
            return Ok(None);
        };
        let is_same = self.checksum_of(&file, &exported.path)? == checksum
            && self.read(exported, reading, |_| Ok(()))? == checksum;
        Ok(is_same.then_some((file, there)))
    }

    fn verify(&self, exported: &Exported, expected: Checksum) -> Result<()> {
        let file =
            File::open(&exported.path).map_err(|error| local("cannot open", &exported.path, &error))?;
        if self.checksum_of(&file, &exported.path)? != expected {
            let path = exported.path.display();
            return Err(Failure::Local(format!(
                "'{path}' does not read back as it was written; check the disk"
            )));
        }
        self.tally.verified();
        Ok(())
    }

    fn checksum_of(&self, file: &File, path: &Path) -> Result<Checksum> {
        let mut checksum = Checksum::default();
        for_each_piece(&format!("'{}'", path.display()), file, |piece| {
            self.check_interrupt()?;
            checksum = checksum.then(piece);
            Ok(())
        })?;
        Ok(checksum)
    }

    /// Whether the content is not what was imported, and counts it then.
    fn has_changed(&self, exported: &Exported, found: Checksum) -> bool {
        let imported = exported.checksum.filter(|_| exported.node.is_some());
        let has_changed = imported.is_some_and(|imported| imported != found);
        if has_changed {
            self.tally.changed();
        }
        has_changed
    }

    /// Gives directories their modes and times, the innermost first.
    fn finish_directories(&self) -> Result<()> {
        let mut nodes = self.nodes_of_directories.lock().unwrap_or_else(PoisonError::into_inner);
        nodes.sort_unstable_by(|(a, _), (b, _)| b.cmp(a));
        for (path, node) in nodes.drain(..) {
            let mode = Permissions::from_mode(node.mode);
            fs::set_permissions(&path, mode)
                .map_err(|error| local("cannot set the mode of", &path, &error))?;
            set_time(&path, node.mtime)?;
            self.tally.wrote(Kind::Directory, 0);
        }
        Ok(())
    }

    fn check_interrupt(&self) -> Result<()> {
        if self.interrupt.is_asked() {
            Err(Failure::Interrupted("export was interrupted".to_owned()))
        } else {
            Ok(())
        }
    }
}

/// How often a blob is read that others write to at the same time.
const READINGS_MAX: usize = 5;

/// Of so many keys that are no paths each is told of: a keyspace may have millions.
const PATHLESS_TOLD_MAX: u64 = 5;

/// Whether the other blobs can be exported all the same: what failed is a file of this machine, or the bytes of this blob are damaged.
fn matters_to_one(failure: &Failure) -> bool {
    match failure {
        Failure::Local(_) => true,
        Failure::Store(error) => error.kind() == ErrorKind::Corrupt,
        _ => false,
    }
}

/// The longest target of a symbolic link on Linux, in bytes.
const PATH_SIZE_MAX: u64 = 4096;

/// Owners are not kept, so a file must not run as whoever exports it.
pub const FILE_MODE_BITS: u32 = 0o1777;

fn set_mode(file: &File, exported: &Exported, path: &Path) -> Result<()> {
    let mode = exported.node.map_or(MODE_OF_PLAIN_BLOBS, |node| node.mode & FILE_MODE_BITS);
    file.set_permissions(Permissions::from_mode(mode))
        .map_err(|error| local("cannot set the mode of", path, &error))
}

/// What a blob that was not imported gets.
const MODE_OF_PLAIN_BLOBS: u32 = 0o644;

/// Sets the time of a file, directory, or of a symbolic link itself.
fn set_time(path: &Path, mtime: Time) -> Result<()> {
    let times = Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: mtime.seconds, tv_nsec: mtime.nanoseconds.into() },
    };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)
        .map_err(|errno| local("cannot set the time of", path, &errno.into()))
}

fn local(what: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::local(format!("{what} '{}'", path.display()), error)
}

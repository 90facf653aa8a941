//! A directory on a real file system, as a [`Disk`].
//!
//! Invariants: one `OsDisk` per directory on the machine, by a lock; every name is a plain file name, and never that of the
//! lock file. Which of direct I/O, io_uring, and durable writes are used is found out, not configured, unless a test
//! forces it.

use std::{fmt, io, path::Path, sync::Arc};

use rustix::{
    fd::OwnedFd,
    fs::{AtFlags, Dir, FileType, Mode, OFlags},
    io::{Errno, retry_on_intr},
};
use tyr_env::{Access, Disk, File, LOCK_NAME, Space, Write, check_name};

use crate::{
    context,
    directory::{self, DirectIo, Directory},
    file::OsFile,
    lock::DirectoryLock,
    ring::Rings,
    run::{DurableWrites, Run, plan_runs},
};

/// How I/O is done. Anything but `Auto` is for tests and measurements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IoMode {
    /// The best that works here.
    #[default]
    Auto,
    /// Direct I/O and io_uring; opening fails with `Unsupported` where one of them does not work.
    DirectRing,
    /// Direct I/O without io_uring; opening fails with `Unsupported` where it does not work.
    Direct,
    /// Through the page cache, without io_uring. Works everywhere.
    Buffered,
}

/// How to open an [`OsDisk`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OsOptions {
    /// Create the directory, and what is missing above it, if it does not exist.
    pub create: bool,
    /// How I/O is done.
    pub io: IoMode,
}

/// A directory on a real file system.
///
/// Nobody else can open the directory as long as the disk, or a file of it that may be written, lives. What is in the directory
/// besides regular files with names in UTF-8 is left alone and not listed; neither is the `lock` file.
pub struct OsDisk {
    directory: Directory,
    lock: Arc<DirectoryLock>,
    direct: Option<DirectIo>,
    /// `None` if io_uring is not wanted.
    rings: Option<Rings>,
}

impl OsDisk {
    /// Opens a directory for this process alone. The message of an error names the directory and says what to do. Kinds that a
    /// caller may care for: `ResourceBusy` if somebody else has it open, `NotFound`, `NotADirectory`, `PermissionDenied`,
    /// `ReadOnlyFilesystem`, and `Unsupported` if the wanted [`IoMode`] does not work there.
    pub fn open(path: impl AsRef<Path>, options: OsOptions) -> io::Result<Arc<OsDisk>> {
        let path = path.as_ref();
        if options.create {
            directory::create(path)?;
        }
        let directory = Directory::open(path)?;
        let lock = Arc::new(DirectoryLock::take(&directory.fd, path)?);
        let direct = match options.io {
            IoMode::Buffered => None,
            _ => directory.direct(),
        };
        let rings = match options.io {
            IoMode::Auto | IoMode::DirectRing if direct.is_some() => Some(Rings::default()),
            _ => None,
        };
        let disk = OsDisk { directory, lock, direct, rings };
        disk.check_mode(options.io).inspect_err(|_| disk.withdraw())?;
        Ok(Arc::new(disk))
    }

    /// Takes back what opening has left in the directory, which is the `lock` file if there was none: for a caller who finds that the
    /// directory is not his. Nobody else can open it before the disk is dropped and its files are.
    pub fn withdraw(&self) {
        self.lock.withdraw(&self.directory.fd);
    }

    fn check_mode(&self, mode: IoMode) -> io::Result<()> {
        let missing = match mode {
            IoMode::DirectRing | IoMode::Direct if self.direct.is_none() => "direct I/O",
            IoMode::DirectRing if !self.has_ring() => "io_uring",
            _ => return Ok(()),
        };
        let message = format!("directory '{}': {missing} does not work here", self.directory.path.display());
        Err(io::Error::new(io::ErrorKind::Unsupported, message))
    }

    fn has_ring(&self) -> bool {
        self.rings.as_ref().is_some_and(Rings::are_available)
    }

    fn list(&self) -> Result<Vec<String>, Errno> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.directory.fd)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            let file_type = match entry.file_type() {
                FileType::Unknown => {
                    let stat = rustix::fs::statat(&self.directory.fd, name, AtFlags::SYMLINK_NOFOLLOW)?;
                    FileType::from_raw_mode(stat.st_mode)
                }
                known => known,
            };
            if file_type == FileType::RegularFile && name != LOCK_NAME {
                names.push(name.into());
            }
        }
        Ok(names)
    }

    /// Opens the file, and says whether for direct I/O: a single file may refuse that although others do not.
    fn open_file(&self, name: &str, flags: OFlags) -> Result<(OwnedFd, Option<DirectIo>), Errno> {
        let open = |flags| {
            let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            retry_on_intr(|| rustix::fs::openat(&self.directory.fd, name, flags, Mode::RUSR | Mode::WUSR))
        };
        if self.direct.is_none() {
            return Ok((open(flags)?, None));
        }
        match open(flags | OFlags::DIRECT) {
            // Linux creates the file before it refuses, so it may exist by now.
            Err(Errno::INVAL) => Ok((open(flags - OFlags::EXCL)?, None)),
            result => Ok((result?, self.direct)),
        }
    }
}

impl Disk for OsDisk {
    fn names(&self) -> io::Result<Vec<String>> {
        self.list()
            .map_err(context(format_args!("cannot list directory '{}'", self.directory.path.display())))
    }

    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn File>> {
        check_name(name)?;
        let flags = match access {
            Access::Read => OFlags::RDONLY,
            Access::Write => OFlags::RDWR,
            Access::Create => OFlags::RDWR | OFlags::CREATE | OFlags::EXCL,
        };
        let doing = if access == Access::Create { "create" } else { "open" };
        let (fd, direct) =
            self.open_file(name, flags).map_err(context(format_args!("cannot {doing} '{name}'")))?;
        let lock = (access != Access::Read).then(|| self.lock.clone());
        Ok(Arc::new(OsFile { fd, name: name.into(), direct, lock, durable_writes: DurableWrites::default() }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        check_name(from)?;
        check_name(to)?;
        let directory = &self.directory.fd;
        rustix::fs::renameat(directory, from, directory, to)
            .map_err(context(format_args!("cannot rename '{from}' to '{to}'")))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        check_name(name)?;
        rustix::fs::unlinkat(&self.directory.fd, name, AtFlags::empty())
            .map_err(context(format_args!("cannot remove '{name}'")))
    }

    fn sync_names(&self) -> io::Result<()> {
        Ok(retry_on_intr(|| rustix::fs::fsync(&self.directory.fd))?)
    }

    fn space(&self) -> io::Result<Space> {
        let space = rustix::fs::fstatvfs(&self.directory.fd)?;
        Ok(Space {
            total: space.f_blocks.saturating_mul(space.f_frsize),
            free: space.f_bavail.saturating_mul(space.f_frsize),
        })
    }

    fn write_durably(&self, writes: &[Write<'_>]) -> io::Result<()> {
        let mut runs = plan_runs(writes)?;
        // A ring pays from two writes on; for one it measures no better, and worse on a busy machine.
        if runs.len() > 1
            && let Some(rings) = &self.rings
        {
            rings.write(&mut runs)?;
            runs.retain(|run| run.length > 0);
        }
        write_in_turn(&mut runs)
    }

    fn describe(&self) -> String {
        match (self.direct, self.has_ring()) {
            (Some(_), true) => "direct I/O, io_uring".into(),
            (Some(_), false) => "direct I/O".into(),
            (None, _) => "buffered I/O".into(),
        }
    }
}

impl fmt::Debug for OsDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OsDisk({}, {})", self.directory.path.display(), self.describe())
    }
}

/// Writes the runs durably on this thread.
fn write_in_turn(runs: &mut [Run<'_>]) -> io::Result<()> {
    if let [run] = runs {
        return run.write();
    }
    // The sync is what costs, so the runs of one file share it.
    runs.iter_mut().try_for_each(Run::write_unsynced)?;
    let mut files: Vec<&OsFile> = runs.iter().map(|run| run.file).collect();
    files.sort_unstable_by_key(|file| std::ptr::from_ref(*file));
    files.dedup_by_key(|file| std::ptr::from_ref(*file));
    files.iter().try_for_each(|file| file.sync())
}

#[cfg(test)]
mod tests;

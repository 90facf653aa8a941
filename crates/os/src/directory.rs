//! The directory itself: finding or creating it, checking that it can be used, and finding out what its file system can do.

use std::{
    fs::DirBuilder,
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use rustix::{
    fd::OwnedFd,
    fs::{AtFlags, Mode, OFlags, StatxFlags},
    io::Errno,
};
use tyr_env::{BLOCK_SIZE, Blocks, LOCK_NAME};

use crate::context;

/// An open directory that was found to be readable and writable.
#[derive(Debug)]
pub(crate) struct Directory {
    pub(crate) path: PathBuf,
    pub(crate) fd: OwnedFd,
}

impl Directory {
    /// Opens the directory and checks that files in it can be created and read.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let shown = path.display();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOTDIR) => {
                return Err(io::Error::new(
                    io::ErrorKind::NotADirectory,
                    format!("'{shown}' is not a directory; name one"),
                ));
            }
            Err(Errno::NOENT) => {
                return Err(io::Error::new(
                    io::ErrorKind::NotFound,
                    format!("directory '{shown}' does not exist; create it first"),
                ));
            }
            Err(Errno::ACCESS) => return Err(denied(path)),
            Err(errno) => return Err(context(format_args!("cannot open directory '{shown}'"))(errno)),
        };
        let access = rustix::fs::Access::READ_OK | rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
        match rustix::fs::accessat(&fd, ".", access, AtFlags::EACCESS) {
            Ok(()) => Ok(Directory { path: path.into(), fd }),
            Err(Errno::ACCESS) => Err(denied(path)),
            Err(Errno::ROFS) => Err(io::Error::new(
                io::ErrorKind::ReadOnlyFilesystem,
                format!("directory '{shown}' is on a read-only file system; mount it writable"),
            )),
            Err(errno) => Err(context(format_args!("cannot use directory '{shown}'"))(errno)),
        }
    }

    /// How direct I/O works here; `None` if it does not. Tried on the lock file, which fills a block.
    pub(crate) fn direct(&self) -> Option<DirectIo> {
        let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.fd, LOCK_NAME, flags, Mode::empty()).ok()?;
        let mut block = Blocks::zeroed(BLOCK_SIZE);
        rustix::io::retry_on_intr(|| rustix::io::pread(&file, block.as_bytes_mut(), 0)).ok()?;
        let reported = rustix::fs::statx(&file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN)
            .ok()
            .filter(|statx| statx.stx_mask & StatxFlags::DIOALIGN.bits() != 0)
            .map_or(BLOCK_SIZE, |statx| usize::try_from(statx.stx_dio_mem_align).unwrap_or(BLOCK_SIZE));
        let credible = reported.is_power_of_two() && reported <= BLOCK_SIZE;
        Some(DirectIo { memory_alignment: if credible { reported } else { BLOCK_SIZE } })
    }
}

/// What direct I/O asks for beyond whole blocks at block-aligned positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DirectIo {
    /// The alignment of memory: a power of two, at most [`BLOCK_SIZE`].
    pub(crate) memory_alignment: usize,
}

/// Creates the directory and what is missing above it, durably, for its owner alone. Nothing is wrong if it exists.
pub(crate) fn create(path: &Path) -> io::Result<()> {
    if path.exists() {
        return Ok(());
    }
    let failed = |error: io::Error| {
        io::Error::new(error.kind(), format!("cannot create directory '{}': {error}", path.display()))
    };
    let parent = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    create(parent)?;
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(failed(error)),
        _ => std::fs::File::open(parent).and_then(|parent| parent.sync_all()).map_err(failed),
    }
}

#[cold]
fn denied(path: &Path) -> io::Error {
    io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!(
            "user {} may not read and write directory '{}'; change its owner or mode, or run as another user",
            rustix::process::geteuid().as_raw(),
            path.display()
        ),
    )
}

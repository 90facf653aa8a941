//! What the tests of several modules use.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::{
    mount::{MountFlags, MountPropagationFlags},
    thread::UnshareFlags,
};
use tempfile::TempDir;
use tyr_env::{BLOCK_SIZE, Blocks};

use crate::{IoMode, OsDisk, OsOptions};

/// Every mode, best first.
pub(crate) const MODES: [IoMode; 4] = [IoMode::Auto, IoMode::DirectRing, IoMode::Direct, IoMode::Buffered];

pub(crate) fn open(path: &Path, io: IoMode) -> io::Result<Arc<OsDisk>> {
    OsDisk::open(path, OsOptions { create: false, io })
}

/// A new directory for each mode that works where temporary files are, opened in that mode. The page cache always works.
pub(crate) fn disks() -> Vec<(TempDir, Arc<OsDisk>)> {
    let open_one = |mode| {
        let directory = TempDir::new().expect("a temporary directory");
        match open(directory.path(), mode) {
            Ok(disk) => Some((directory, disk)),
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::Unsupported, "{mode:?}: {error}");
                assert!(!matches!(mode, IoMode::Auto | IoMode::Buffered), "{mode:?}: {error}");
                None
            }
        }
    };
    MODES.into_iter().filter_map(open_one).collect()
}

/// Blocks of bytes that differ from place to place and from seed to seed.
pub(crate) fn pattern(seed: u64, length: usize) -> Blocks {
    let mut blocks = Blocks::zeroed(length);
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for word in blocks.as_bytes_mut().chunks_exact_mut(8) {
        word.copy_from_slice(&next(&mut state).to_le_bytes());
    }
    blocks
}

/// The next of a repeatable sequence of numbers.
pub(crate) fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// The first block of a file, all of one byte.
pub(crate) fn block(byte: u8) -> Blocks {
    let mut block = Blocks::zeroed(BLOCK_SIZE);
    block.as_bytes_mut().fill(byte);
    block
}

/// Runs the test on a thread of its own, for which a file system of this type is mounted on an empty directory. Where the
/// test may not mount, it says so and passes.
pub(crate) fn on_mounted(
    kind: &str,
    options: &std::ffi::CStr,
    flags: MountFlags,
    test: impl FnOnce(&Path) + Send,
) {
    let directory = TempDir::new().expect("a temporary directory");
    let path: PathBuf = directory.path().into();
    let mounted = || -> io::Result<()> {
        #[expect(unsafe_code, reason = "the call is unsafe for its other flags")]
        // SAFETY: a mount namespace of its own does not share or close the thread's files.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }?;
        rustix::mount::mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
        Ok(rustix::mount::mount("none", &path, kind, flags, options)?)
    };
    std::thread::scope(|scope| {
        scope.spawn(|| match mounted() {
            Ok(()) => test(&path),
            Err(error) => eprintln!("not tested on {kind}, which cannot be mounted here: {error}"),
        });
    });
}

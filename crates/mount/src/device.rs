//! The kernel's end of a mount.

use std::{
    ffi::CString,
    fs::File,
    io,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::fs::MetadataExt,
    },
    path::{Path, PathBuf},
};

use rustix::mount::MountFlags;

use crate::{Access, Execution, Settings, Synchrony};

/// The directory to mount on, by its whole path.
pub fn place(directory: &Path) -> io::Result<PathBuf> {
    let found = directory.canonicalize().and_then(|found| Ok((found.metadata()?.is_dir(), found)));
    match found {
        Ok((true, found)) => Ok(found),
        Ok((false, _)) => Err(io::ErrorKind::NotADirectory.into()),
        // So a kernel answers for a mount of which the process was killed.
        Err(error) if error.kind() == io::ErrorKind::NotConnected => {
            let place = directory.display();
            let message = format!(
                "a mount that has ended is still there; remove it with 'umount {place}', or 'umount -l {place}' while it is in use"
            );
            Err(io::Error::new(error.kind(), message))
        }
        Err(error) => Err(error),
    }
}

/// Mounts on a directory, as the superuser may; `None` if that takes the help of `fusermount3`. `fuser` would do it as well, but as a file system of type
/// `fuse`, which tells `mount` nothing of who is to be asked for another mount of it.
pub fn mount(directory: &Path, settings: &Settings) -> io::Result<Option<OwnedFd>> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let device = File::options().read(true).write(true).open(DEVICE).map_err(|error| {
        let hint = if error.kind() == io::ErrorKind::NotFound { "; try 'modprobe fuse'" } else { "" };
        io::Error::new(error.kind(), format!("cannot open {DEVICE}: {error}{hint}"))
    })?;
    let options = format!(
        "fd={},rootmode={:o},user_id={},group_id={},default_permissions,allow_other",
        device.as_raw_fd(),
        directory.metadata()?.mode(),
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw()
    );
    let options = CString::new(options)?;
    match rustix::mount::mount(settings.source.as_str(), directory, TYPE, flags(settings), options.as_c_str())
    {
        Ok(()) => Ok(Some(device.into())),
        Err(rustix::io::Errno::PERM) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// What the kernel sees to.
pub fn flags(settings: &Settings) -> MountFlags {
    let mut flags = MountFlags::NODEV | MountFlags::NOSUID;
    flags.set(MountFlags::RDONLY, settings.access == Access::ReadOnly);
    flags.set(MountFlags::NOEXEC, settings.execution == Execution::Denied);
    flags.set(MountFlags::SYNCHRONOUS, settings.synchrony == Synchrony::Always);
    flags
}

const DEVICE: &str = "/dev/fuse";
/// The type of file system as which it is mounted.
pub const TYPE: &str = "fuse.tyr";

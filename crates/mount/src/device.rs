//! The kernel's end of a mount.

use std::{
    ffi::CString,
    fs::File,
    io,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::fs::MetadataExt,
    },
    path::Path,
};

use rustix::mount::MountFlags;

use crate::{Access, Execution, Settings, Synchrony};

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
const TYPE: &str = "fuse.tyr";

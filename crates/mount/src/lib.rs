//! TýrFS as a mounted file system: what the kernel asks by FUSE, answered by [`tyr_fs`].
//!
//! How what the kernel caches stays true is decided by [`Sharing`]: a mount that is the only client lets the kernel cache everything; one that shares the
//! file system lets it cache nothing that is not checked, unless the settings allow it to be out of date for a while. A flat file system counts as shared in any
//! case, and names of it are always looked up.
//!
//! The kernel judges permissions, by the metadata that it is told. This crate only translates: it knows nothing of blobs.

#![forbid(unsafe_code)]

mod access_log;
mod accesses;
mod ahead;
mod answers;
mod attributes;
mod call;
mod content;
mod counts;
mod device;
mod directories;
mod glances;
mod handles;
mod kernel;
mod known;
mod locks;
mod mounts;
mod names;
mod own;
mod read_ahead;
mod recalls;
mod reply;
mod room;
mod server;
mod shared;
mod signals;
mod waiting;
mod watched;

use std::{
    io,
    os::fd::AsFd,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    thread,
    time::Duration,
};

use fuser::{BackgroundSession, Config, MountOption, Session, SessionACL};
use rustix::mount::UnmountFlags;
use tyr_fs::{Filesystem, Inode};

use self::kernel::Kernel;

/// How a file system is mounted.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What is told as the source, as in `/proc/mounts`.
    pub source: String,
    /// Whether anything may be changed.
    pub access: Access,
    /// Who else may change it.
    pub sharing: Sharing,
    /// For how long the kernel may believe what it knows of inodes.
    pub attribute_cache: Duration,
    /// For how long the kernel may believe what names mean. Not those of a flat file system.
    pub entry_cache: Duration,
    /// Whether it keeps names of a file system that is shared.
    pub kernel_names: KernelNames,
    /// Whether reading is noted.
    pub access_times: AccessTimes,
    /// Whom `flock` shuts out.
    pub whole_file_locks: WholeFileLocks,
    /// Whether programs that lie on it may be executed.
    pub execution: Execution,
    /// Whether writes wait until they are durable.
    pub synchrony: Synchrony,
    /// Threads that answer the kernel.
    pub threads: usize,
    /// A directory on the device of which the free space is told; without one there is always much.
    pub device: Option<PathBuf>,
}

/// Whether a mount may change anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It may.
    ReadWrite,
    /// Everything that would fails with `EROFS`.
    ReadOnly,
}

/// Who else may change the file system while it is mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Nobody: the kernel caches, and writes back when it likes, or when a program asks for it with `fsync`. Not of a flat file system.
    Alone,
    /// Other mounts and programs: every read asks the store, and every write is there for all when it ends.
    Shared,
}

/// Whether the kernel keeps names of a file system that others change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelNames {
    /// It asks each time.
    Asked,
    /// Until somebody changes what it has asked for, if it is Linux 6.16 or later. What is mounted on a directory or file of the mount is unmounted then.
    Kept,
}

/// Whether reading is noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessTimes {
    /// As `relatime` has it.
    Relative,
    /// Never.
    Never,
}

/// Whether programs that lie on a mount may be executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Execution {
    /// By whom their permissions allow it.
    Allowed,
    /// By nobody.
    Denied,
}

/// Whether writes wait until they are durable. Of [`Sharing::Shared`] they always do, and changes of names everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Synchrony {
    /// If they are asked to, as by `fsync`.
    AsAsked,
    /// All of them.
    Always,
}

/// Whom `flock` shuts out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WholeFileLocks {
    /// Programs on this mount.
    Local,
    /// Programs on all mounts. They are locks of all bytes then, as on NFS: `fuser` does not say which of the two the kernel means.
    Everywhere,
}

impl Settings {
    /// Those for a file system that is mounted here only, or is not.
    pub fn of(source: &str, sharing: Sharing) -> Self {
        let cache = match sharing {
            Sharing::Alone => Duration::from_secs(3600),
            Sharing::Shared => Duration::ZERO,
        };
        Settings {
            source: source.to_owned(),
            access: Access::ReadWrite,
            sharing,
            attribute_cache: cache,
            entry_cache: cache,
            kernel_names: KernelNames::Asked,
            access_times: AccessTimes::Relative,
            whole_file_locks: match sharing {
                Sharing::Alone => WholeFileLocks::Local,
                Sharing::Shared => WholeFileLocks::Everywhere,
            },
            execution: Execution::Allowed,
            synchrony: Synchrony::AsAsked,
            threads: 8,
            device: None,
        }
    }

    /// Those for a flat file system, where a file is what lies at its key. The kernel takes a file that was renamed for the one that it was before, keeps what was written to it, and
    /// gives it to whoever has it open; here that is another key, at which something else lies by then. So it keeps neither names nor content.
    fn flat(self) -> Self {
        Settings { sharing: Sharing::Shared, entry_cache: Duration::ZERO, ..self }
    }
}

/// A file system that is mounted. It stays so until [`Mount::unmount`], or until somebody else unmounts it.
#[derive(Debug)]
pub struct Mount {
    session: Option<BackgroundSession>,
    /// Whether `fuser` mounted it, and unmounts whatever is there when the session is dropped.
    is_of_fuser: bool,
    directory: PathBuf,
    keeps_names: bool,
}

/// Mounts what is below a directory of a file system on a directory of this machine.
pub fn mount(
    filesystem: Filesystem,
    root: Inode,
    directory: impl AsRef<Path>,
    settings: &Settings,
) -> io::Result<Mount> {
    let directory = device::place(directory.as_ref())?;
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(settings.source.clone()),
        MountOption::Subtype("tyr".to_owned()),
        MountOption::DefaultPermissions,
        MountOption::NoDev,
        MountOption::NoSuid,
        match settings.access {
            Access::ReadWrite => MountOption::RW,
            Access::ReadOnly => MountOption::RO,
        },
    ];
    if settings.execution == Execution::Denied {
        config.mount_options.push(MountOption::NoExec);
    }
    if settings.synchrony == Synchrony::Always {
        config.mount_options.push(MountOption::Sync);
    }
    if rustix::process::geteuid().is_root() {
        config.acl = SessionACL::All;
    }
    config.n_threads = Some(settings.threads.max(1));
    config.clone_fd = true;
    let kept = match filesystem.flat() {
        Some(_) => settings.clone().flat(),
        None => settings.clone(),
    };
    let server = server::Server::new(filesystem, root, kept)?;
    let (bell, names) = (server.bell(), server.names());
    let (session, is_of_fuser) = match device::mount(&directory, settings)? {
        Some(device) => (Session::from_fd(server, device, config.acl, config), false),
        None => (Session::new(server, &directory, &config), true),
    };
    let begun = session.and_then(|session| {
        let kernel = Arc::new(Kernel::new(session.as_fd().try_clone_to_owned()?));
        Ok((kernel, session.spawn()?))
    });
    let (kernel, session) = begun.inspect_err(|_| {
        if !is_of_fuser {
            // What nobody serves must not stay.
            let _ = rustix::mount::unmount(&directory, UnmountFlags::DETACH);
        }
    })?;
    // It is set once.
    let _ = bell.set(kernel.clone());
    let keeps_names = settings.kernel_names == KernelNames::Kept && names.connect(kernel);
    read_ahead::extend(&directory, server::REQUEST_MAX);
    Ok(Mount { session: Some(session), is_of_fuser, directory, keeps_names })
}

/// Has a mount on a directory be as these settings say, as far as the kernel sees to it: whether anything may be changed or executed, and whether
/// writes wait. Fails unless what is mounted there is one of these mounts.
pub fn remount(directory: impl AsRef<Path>, settings: &Settings) -> io::Result<()> {
    let other = match mounts::on(&device::place(directory.as_ref())?)? {
        Some(mounted) if mounted.kind == device::TYPE => None,
        Some(mounted) => {
            Some(format!("what is mounted there is of type {}, and not {}", mounted.kind, device::TYPE))
        }
        None => Some("nothing is mounted there".to_owned()),
    };
    if let Some(other) = other {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, other));
    }
    Ok(rustix::mount::mount_remount(directory.as_ref(), device::flags(settings), c"")?)
}

impl Mount {
    /// Whether the kernel keeps names, because it may and can.
    pub fn keeps_names(&self) -> bool {
        self.keeps_names
    }

    /// Whether it has been unmounted.
    pub fn has_ended(&self) -> bool {
        self.session.as_ref().is_none_or(|session| session.guard.is_finished())
    }

    /// Unmounts it. Fails with [`io::ErrorKind::ResourceBusy`] as long as somebody has a file or directory of it open, and it stays mounted
    /// then.
    pub fn unmount(&self) -> io::Result<()> {
        self.end(UnmountFlags::empty(), "-u")
    }

    /// Takes it out of sight. It ends when nobody uses it any more.
    pub fn detach(&self) -> io::Result<()> {
        self.end(UnmountFlags::DETACH, "-uz")
    }

    fn end(&self, flags: UnmountFlags, flag: &str) -> io::Result<()> {
        if self.has_ended() {
            return Ok(());
        }
        match rustix::mount::unmount(&self.directory, flags) {
            Ok(()) => Ok(()),
            Err(rustix::io::Errno::PERM) => {
                let told = Command::new("fusermount3").arg(flag).arg(&self.directory).output()?;
                match told.status.success() {
                    true => Ok(()),
                    false => {
                        let text = String::from_utf8_lossy(&told.stderr);
                        let busy = text.contains("busy").then_some(io::ErrorKind::ResourceBusy);
                        Err(io::Error::new(busy.unwrap_or(io::ErrorKind::Other), text.trim().to_owned()))
                    }
                }
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until it is unmounted, by whomever.
    pub fn wait(mut self) -> io::Result<()> {
        let Some(mut session) = self.session.take() else { return Ok(()) };
        let ended = if self.is_of_fuser {
            let served = std::mem::replace(&mut session.guard, thread::Builder::new().spawn(|| Ok(()))?);
            let ended = served.join();
            // Nothing of it is mounted any more; what is there now is somebody else's. It has a descriptor, and little besides.
            std::mem::forget(session);
            ended.unwrap_or_else(|_| Err(io::Error::other("the thread that serves the mount panicked")))
        } else {
            session.join()
        };
        match ended {
            // So it ends for a thread that takes what the kernel had just asked when it was unmounted: the end of a file, for instance.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => Ok(()),
            ended => ended,
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if self.session.is_some() {
            // Nobody can be told; whoever uses it keeps what he has.
            let _ = self.detach();
        }
    }
}

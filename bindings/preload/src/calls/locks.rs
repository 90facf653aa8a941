//! Locks: of byte ranges by process and by descriptor, and of whole files.

use std::{ffi::c_int, thread, time::Duration};

use libc::{c_short, flock};
use tyr_fs::{Inode, Lock, LockKind, Owner};

use super::content;
use crate::{
    border::{Errno, Result, interpose},
    memory,
    own::put_aside,
    places::told,
    session::{Session, session},
    table::{self, Description, taken},
    waiting::block_on,
};

interpose! {
    fn [flock](descriptor: c_int, operation: c_int) -> c_int => |_| {
        let description = taken(descriptor)?;
        Some(whole(&description, operation).map(|()| 0))
    };
    fn [lockf lockf64](descriptor: c_int, command: c_int, length: libc::off_t) -> c_int => |_| {
        let description = taken(descriptor)?;
        Some(section(descriptor, &description, command, length).map(|()| 0))
    };
}

/// `flock`: the lock is the description's.
fn whole(description: &Description, operation: c_int) -> Result<()> {
    check_own(description)?;
    let owner = Owner { of_ranges: false, number: description.number, process: process() };
    let kind = match operation & !libc::LOCK_NB {
        libc::LOCK_SH => Some(LockKind::Shared),
        libc::LOCK_EX => Some(LockKind::Exclusive),
        libc::LOCK_UN => None,
        _ => return Err(Errno(libc::EINVAL)),
    };
    set(description, owner, kind, (0, END), operation & libc::LOCK_NB == 0)
}

/// A lock of a description is one of the process that opened it: others that have it as well could neither give it up nor keep it.
fn check_own(description: &Description) -> Result<()> {
    if description.is_inherited { Err(Errno(libc::ENOLCK)) } else { Ok(()) }
}

/// `lockf`: locks of the process, from where the descriptor is.
fn section(descriptor: c_int, description: &Description, command: c_int, length: libc::off_t) -> Result<()> {
    let mut lock = flock {
        l_type: kind_of(libc::F_WRLCK),
        l_whence: kind_of(libc::SEEK_CUR),
        l_start: 0,
        l_len: length,
        l_pid: 0,
    };
    let command = match command {
        libc::F_LOCK => libc::F_SETLKW,
        libc::F_TLOCK => libc::F_SETLK,
        libc::F_ULOCK => {
            lock.l_type = kind_of(libc::F_UNLCK);
            libc::F_SETLK
        }
        libc::F_TEST => {
            fcntl(descriptor, description, libc::F_GETLK, &raw mut lock)?;
            return match c_int::from(lock.l_type) {
                libc::F_UNLCK => Ok(()),
                _ => Err(Errno(libc::EACCES)),
            };
        }
        _ => return Err(Errno(libc::EINVAL)),
    };
    fcntl(descriptor, description, command, &raw mut lock)
}

/// The locks of `fcntl`.
pub fn fcntl(
    descriptor: c_int,
    description: &Description,
    command: c_int,
    pointer: *mut flock,
) -> Result<()> {
    let asked = memory::get(pointer.cast_const()).ok_or(Errno(libc::EFAULT))?;
    let is_open = matches!(command, libc::F_OFD_GETLK | libc::F_OFD_SETLK | libc::F_OFD_SETLKW);
    if is_open {
        check_own(description)?;
        if asked.l_pid != 0 {
            return Err(Errno(libc::EINVAL));
        }
    }
    let number = if is_open { description.number } else { PROCESS };
    let owner = Owner { of_ranges: true, number, process: process() };
    let range = range(descriptor, description, &asked)?;
    let kind = match c_int::from(asked.l_type) {
        libc::F_RDLCK => Some(LockKind::Shared),
        libc::F_WRLCK => Some(LockKind::Exclusive),
        libc::F_UNLCK => None,
        _ => return Err(Errno(libc::EINVAL)),
    };
    if matches!(command, libc::F_GETLK | libc::F_OFD_GETLK) {
        let kind = kind.ok_or(Errno(libc::EINVAL))?;
        return memory::put(pointer, in_the_way(description, owner, kind, range, asked)?);
    }
    match (kind, description.access) {
        (Some(LockKind::Shared), libc::O_WRONLY) | (Some(LockKind::Exclusive), libc::O_RDONLY) => {
            return Err(Errno(libc::EBADF));
        }
        _ => {}
    }
    set(description, owner, kind, range, matches!(command, libc::F_SETLKW | libc::F_OFD_SETLKW))
}

/// The last byte of a lock that has no end: as the kernel says it, so that mounts understand it.
const END: u64 = i64::MAX as u64;

/// The first byte, and the last.
fn range(descriptor: c_int, description: &Description, asked: &flock) -> Result<(u64, u64)> {
    let base = match c_int::from(asked.l_whence) {
        libc::SEEK_SET => 0,
        libc::SEEK_CUR => content::offset(descriptor)?,
        libc::SEEK_END => i64::try_from(block_on(description.file()?.metadata())?.size).unwrap_or(i64::MAX),
        _ => return Err(Errno(libc::EINVAL)),
    };
    let sum = |one: i64, other: i64| one.checked_add(other).ok_or(Errno(libc::EOVERFLOW));
    let start = sum(base, asked.l_start)?;
    let (start, end) = match asked.l_len {
        0 => (start, None),
        length if length > 0 => (start, Some(sum(start, length - 1)?)),
        length => (sum(start, length)?, Some(sum(start, -1)?)),
    };
    let start = u64::try_from(start).map_err(|_| Errno(libc::EINVAL))?;
    let end = end.map_or(Ok(END), |end| u64::try_from(end).map_err(|_| Errno(libc::EINVAL)))?;
    Ok((start, end))
}

fn in_the_way(
    description: &Description,
    owner: Owner,
    kind: LockKind,
    (start, end): (u64, u64),
    asked: flock,
) -> Result<flock> {
    let session = session()?;
    let lock = Lock { kind, start, end };
    let found = block_on(session.view.filesystem().lock_in_the_way(&description.inode, owner, lock))?;
    Ok(match found {
        None => flock { l_type: kind_of(libc::F_UNLCK), ..asked },
        Some((lock, process)) => flock {
            l_type: kind_of(match lock.kind {
                LockKind::Shared => libc::F_RDLCK,
                LockKind::Exclusive => libc::F_WRLCK,
            }),
            l_whence: kind_of(libc::SEEK_SET),
            l_start: i64::try_from(lock.start).unwrap_or(i64::MAX),
            l_len: match lock.end {
                END.. => 0,
                end => i64::try_from(end - lock.start + 1).unwrap_or(0),
            },
            l_pid: i32::try_from(process).unwrap_or(0),
        },
    })
}

/// Takes a lock or gives it up.
fn set(
    description: &Description,
    owner: Owner,
    kind: Option<LockKind>,
    (start, end): (u64, u64),
    waits: bool,
) -> Result<()> {
    let session = session()?;
    let filesystem = session.view.filesystem();
    let Some(kind) = kind else {
        return Ok(block_on(filesystem.unlock(&description.inode, owner, start, end))?);
    };
    // Before it is known whether it has it: one of which that never comes to be known goes with the file, too.
    table::has_locked(description.inode.number);
    let unlock = |inode: &Inode, owner| block_on(filesystem.unlock(inode, owner, 0, u64::MAX));
    session.owed.give_up(&description.inode, owner, unlock)?;
    let lock = Lock { kind, start, end };
    match block_on(filesystem.lock(&description.inode, owner, lock)) {
        Err(error) if error.errno() == tyr_fs::Errno::EAGAIN => {}
        result => return Ok(result?),
    }
    if !owner.of_ranges {
        // As the kernel has it: who wants another kind of lock gives up the one it has first, so two who do so do not wait for ever.
        block_on(filesystem.unlock(&description.inode, owner, start, end))?;
    }
    match waits {
        true => wait_for(description, owner, lock),
        false => Err(Errno(libc::EAGAIN)),
    }
}

/// Asks for a lock again and again, until a signal comes. Of ranges it says first that it does, as soon as others leave it time to.
fn wait_for(description: &Description, owner: Owner, lock: Lock) -> Result<()> {
    let session = session()?;
    let filesystem = session.view.filesystem();
    let timer = Timer::new()?;
    let mut pause = PAUSE_MIN;
    let mut is_said = false;
    let result = loop {
        if owner.of_ranges && !is_said {
            match block_on(filesystem.begin_wait(&description.inode, owner, lock)) {
                Err(error) if error.errno() != tyr_fs::Errno::EAGAIN => break Err(error.into()),
                said => is_said = said.is_ok(),
            }
        }
        match block_on(filesystem.lock(&description.inode, owner, lock)) {
            Err(error) if error.errno() == tyr_fs::Errno::EAGAIN => {}
            result => break result.map_err(Errno::from),
        }
        if let Err(error) = timer.wait(pause) {
            break Err(error);
        }
        pause = (pause * 2).min(PAUSE_MAX);
    };
    if is_said {
        // What cannot be said now is said by the owner's next wait; all that others can do meanwhile is to give up too early.
        let _ = block_on(filesystem.end_wait(owner));
    }
    result
}

/// A clock that is waited for by reading, as the kernel goes on with that after a signal whose handler wants it so (`SA_RESTART`).
struct Timer(c_int);

impl Timer {
    fn new() -> Result<Self> {
        // SAFETY: it has no conditions.
        let timer = told(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC) })?;
        Ok(Timer(put_aside(timer)))
    }

    fn wait(&self, nanoseconds: i64) -> Result<()> {
        let time = libc::itimerspec {
            it_interval: libc::timespec { tv_sec: 0, tv_nsec: 0 },
            it_value: libc::timespec { tv_sec: 0, tv_nsec: nanoseconds },
        };
        let mut expired = 0_u64;
        // SAFETY: the time and the number are this function's own.
        unsafe {
            told(libc::timerfd_settime(self.0, 0, &raw const time, std::ptr::null_mut()))?;
            told(libc::read(self.0, (&raw mut expired).cast(), size_of::<u64>()))?;
        }
        Ok(())
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // SAFETY: the descriptor is this timer's.
        unsafe { libc::close(self.0) };
    }
}

/// A descriptor was closed: all locks that the process has of its file go, and those of the description if nobody else has it.
pub fn closed(description: &std::sync::Arc<Description>) {
    if !table::loses_locks(description.inode.number) {
        return;
    }
    let Ok(session) = session() else { return };
    let filesystem = session.view.filesystem();
    let mut owners = vec![Owner { of_ranges: true, number: PROCESS, process: 0 }];
    if table::is_last(description) {
        owners.extend([true, false].map(|of_ranges| Owner {
            of_ranges,
            number: description.number,
            process: 0,
        }));
    }
    if table::is_open(description.inode.number) {
        table::has_locked(description.inode.number);
    }
    let mut is_served = true;
    for owner in owners {
        // Where one could not be given up in time the others are not waited for as well.
        is_served = is_served
            && match block_on(filesystem.unlock(&description.inode, owner, 0, u64::MAX)) {
                // Where there are no locks there are none to give up.
                Err(error) => error.errno() == tyr_fs::Errno::ENOLCK,
                Ok(()) => true,
            };
        if !is_served {
            give_up_later(&session, &description.inode, owner);
        }
    }
}

/// Has all that an owner has of an inode given up as soon as that can be done.
fn give_up_later(session: &Session, inode: &Inode, owner: Owner) {
    if !session.owed.add(inode, owner) {
        return;
    }
    let (owed, filesystem) = (session.owed.clone(), session.view.filesystem().clone());
    let unlock = move |inode: &Inode, owner| block_on(filesystem.unlock(inode, owner, 0, u64::MAX));
    // Without a thread they go with this process, or when their owner takes another one.
    let _ = thread::Builder::new()
        .name("tyr-unlocks".to_owned())
        .spawn(move || owed.give_up_all(OWED_PAUSE, unlock));
}

fn process() -> u32 {
    std::process::id()
}

/// The kinds are small numbers, of a type of their own in the structure.
fn kind_of(number: c_int) -> c_short {
    c_short::try_from(number).unwrap_or(0)
}

/// The owner of locks of the process, among those of this client.
const PROCESS: u64 = 1;
/// Nanoseconds between two tries.
const PAUSE_MIN: i64 = 1_000_000;
const PAUSE_MAX: i64 = 50_000_000;
/// How long is waited before what could not be given up is tried again.
const OWED_PAUSE: Duration = Duration::from_secs(1);

//! Files in memory: a private mapping is memory of its own that is filled when it is made, a shared one is of a file in memory that is.

use std::{
    ffi::{CStr, c_int, c_void},
    fs,
    io::Write as _,
    os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
};

use libc::{off_t, size_t};
use tyr_fs::File;

use crate::{
    border::{Errno, Mapped, Result, interpose},
    memory,
    places::told,
    real::errno,
    table::{Description, taken},
    waiting::block_on,
};

interpose! {
    fn [mmap mmap64](address: *mut c_void, length: size_t, access: c_int, flags: c_int, descriptor: c_int, offset: off_t) -> Mapped =>
        |(real, _)| {
            if flags & libc::MAP_ANONYMOUS != 0 {
                return None;
            }
            let description = taken(descriptor)?;
            let real = |access, flags, descriptor| real(address, length, access, flags, descriptor, 0);
            Some(map(&description, (length, offset), access, flags, real))
        };
}

fn map(
    description: &Description,
    (length, offset): (usize, off_t),
    access: c_int,
    flags: c_int,
    real: impl FnOnce(c_int, c_int, c_int) -> Mapped,
) -> Result<Mapped> {
    let is_shared = flags & libc::MAP_TYPE != libc::MAP_PRIVATE;
    if is_shared && access & libc::PROT_WRITE != 0 {
        // Nobody would see what is written there.
        return Err(Errno(libc::ENODEV));
    }
    if description.access != libc::O_RDONLY && description.access != libc::O_RDWR {
        return Err(Errno(libc::EACCES));
    }
    if offset < 0 || offset % PAGE != 0 {
        return Err(Errno(libc::EINVAL));
    }
    let file = description.readable()?;
    let wanted = (length, offset.unsigned_abs());
    if is_shared {
        let content = content_of(&file, wanted)?;
        return told(real(access, flags, content.as_raw_fd()));
    }
    let mapped = told(real(libc::PROT_READ | libc::PROT_WRITE, flags | libc::MAP_ANONYMOUS, -1))?;
    let filled = read(&file, wanted, |done, bytes| memory::fill(mapped.0.wrapping_byte_add(done), bytes))
        .and_then(|()| {
            // SAFETY: the memory was mapped above.
            told(unsafe { libc::mprotect(mapped.0, length, access) })
        });
    match filled {
        Ok(_) => Ok(mapped),
        Err(errno) => {
            // SAFETY: as above, and nobody was told of it.
            unsafe { libc::munmap(mapped.0, length) };
            Err(errno)
        }
    }
}

/// A file in memory with what is wanted of a file. It is open to be read alone: so the kernel lets nobody make a mapping of it writable later, in which what is
/// written would be lost.
fn content_of(file: &File, wanted: (usize, u64)) -> Result<OwnedFd> {
    // SAFETY: the name ends with a zero.
    let number = unsafe { libc::memfd_create(NAME.as_ptr(), libc::MFD_CLOEXEC) };
    if number < 0 {
        return Err(Errno(errno()));
    }
    // SAFETY: it was just made, and is nobody else's.
    let mut content = unsafe { fs::File::from_raw_fd(number) };
    read(file, wanted, |_, bytes| {
        content.write_all(bytes).map_err(|error| Errno(error.raw_os_error().unwrap_or(libc::EIO)))
    })?;
    let path = format!("/proc/self/fd/{number}\0");
    // SAFETY: the path ends with a zero.
    match unsafe { libc::open(path.as_ptr().cast(), libc::O_RDONLY | libc::O_CLOEXEC) } {
        // There is no /proc.
        ..0 => Err(Errno(libc::ENODEV)),
        // SAFETY: as above.
        opened => Ok(unsafe { OwnedFd::from_raw_fd(opened) }),
    }
}

/// Reads so many bytes from an offset, or as many as there are, piece by piece: each is taken with where it begins among them.
fn read(
    file: &File,
    (length, offset): (usize, u64),
    mut take: impl FnMut(usize, &[u8]) -> Result<()>,
) -> Result<()> {
    let mut done = 0;
    while done < length {
        let bytes = block_on(file.read(offset + done as u64, (length - done).min(PIECE)))?;
        if bytes.is_empty() {
            break;
        }
        take(done, &bytes)?;
        done += bytes.len();
    }
    Ok(())
}

const PAGE: off_t = 4096;
/// What is read at once.
const PIECE: usize = 8 << 20;
/// What the kernel calls such memory.
const NAME: &CStr = c"tyr-mapped";

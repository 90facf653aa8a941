//! Files in memory: a private mapping is memory of its own that is filled when it is made.

use std::ffi::{c_int, c_void};

use libc::{off_t, size_t};

use crate::{
    border::{Errno, Mapped, Result, interpose},
    memory,
    places::told,
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
            let real = |access, flags| real(address, length, access, flags, -1, 0);
            Some(map(&description, (length, offset), access, flags, real))
        };
}

fn map(
    description: &Description,
    (length, offset): (usize, off_t),
    access: c_int,
    flags: c_int,
    real: impl FnOnce(c_int, c_int) -> Mapped,
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
    let flags = (flags & !libc::MAP_TYPE) | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let mapped = told(real(libc::PROT_READ | libc::PROT_WRITE, flags))?;
    let fill = || -> Result<()> {
        let mut done = 0;
        while done < length {
            let bytes = block_on(file.read(offset.unsigned_abs() + done as u64, (length - done).min(PIECE)))?;
            if bytes.is_empty() {
                break;
            }
            memory::fill(mapped.0.wrapping_byte_add(done), &bytes)?;
            done += bytes.len();
        }
        // SAFETY: the memory was mapped above.
        told(unsafe { libc::mprotect(mapped.0, length, access) }).map(drop)
    };
    match fill() {
        Ok(()) => Ok(mapped),
        Err(errno) => {
            // SAFETY: as above, and nobody was told of it.
            unsafe { libc::munmap(mapped.0, length) };
            Err(errno)
        }
    }
}

const PAGE: off_t = 4096;
/// What is read at once.
const PIECE: usize = 8 << 20;

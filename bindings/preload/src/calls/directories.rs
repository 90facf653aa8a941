//! Listing directories, and the working directory.

use std::{
    ffi::{c_char, c_int, c_long},
    ptr::null_mut,
};

use libc::{DIR, dirent, size_t};
use tyr_fs::{Entry, Follow, Kind, Metadata, Want};

use super::opening::open_path;
use crate::{
    border::{Errno, Outcome, Result, interpose},
    memory,
    paths::{Place, clean},
    places::{Found, at, find, inner, told},
    real::errno,
    session::{mounted, session},
    table::{Description, taken},
    waiting::block_on,
    working,
};

interpose! {
    fn [opendir](path: *const c_char) -> *mut DIR => |(real, _)| {
        let below = match find(libc::AT_FDCWD, memory::text(path).ok()?) {
            Found::Ours(path) => path,
            Found::Unchanged => return None,
            Found::Elsewhere(path) => return Some(told(real(path.as_ptr()))),
        };
        let opened = session().and_then(|session| {
            let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
            open_path(&session, &inner(&below), &below, flags, 0)
        });
        Some(opened.map(Stream::give))
    };
    fn [fdopendir](descriptor: c_int) -> *mut DIR => |_| {
        let description = taken(descriptor)?;
        Some(match description.inode.kind {
            Kind::Directory if description.access == libc::O_RDONLY => Ok(Stream::give(descriptor)),
            Kind::Directory => Err(Errno(libc::EBADF)),
            _ => Err(Errno(libc::ENOTDIR)),
        })
    };
    fn [closedir](stream: *mut DIR) -> c_int => |_| {
        let ours = ours(stream)?;
        let descriptor = ours.descriptor;
        // SAFETY: it is a box of `Stream::give`, and the program is done with it.
        drop(unsafe { Box::from_raw(stream.cast::<Stream>()) });
        super::descriptors::forget(descriptor);
        // SAFETY: the descriptor was the stream's.
        Some(told(unsafe { libc::close(descriptor) }))
    };
    fn [readdir readdir64](stream: *mut DIR) -> *mut dirent => |_| {
        let ours = ours(stream)?;
        // At the end it returns null without an error number, which is told by the one from before.
        let before = errno();
        Some(ours.next().and_then(|entry| entry.ok_or(Errno(before))))
    };
    fn [readdir_r readdir64_r](stream: *mut DIR, entry: *mut dirent, result: *mut *mut dirent) -> c_int => |_| {
        let ours = ours(stream)?;
        let next = ours.next().and_then(|next| match next {
            Some(next) => memory::get(next.cast_const())
                .map_or(Ok(()), |next| memory::put(entry, next))
                .and_then(|()| memory::put(result, entry)),
            None => memory::put(result, null_mut()),
        });
        // It returns the number of the error.
        Some(Ok(next.map_or_else(|Errno(number)| number, |()| 0)))
    };
    fn [rewinddir](stream: *mut DIR) -> c_int => |_| {
        let ours = ours(stream)?;
        (ours.place, ours.entries) = (0, None);
        Some(Ok(0))
    };
    fn [telldir](stream: *mut DIR) -> c_long => |_| ours(stream).map(|ours| Ok(c_long::try_from(ours.place).unwrap_or(0)));
    fn [seekdir](stream: *mut DIR, place: c_long) -> c_int => |_| {
        let ours = ours(stream)?;
        ours.place = usize::try_from(place).unwrap_or(0);
        Some(Ok(0))
    };
    fn [dirfd](stream: *mut DIR) -> c_int => |_| ours(stream).map(|ours| Ok(ours.descriptor));
    fn [chdir](path: *const c_char) -> c_int => |(real, _)| {
        let entered = at(
            libc::AT_FDCWD,
            path,
            Follow::Yes,
            |session, path| {
                let (below, found) = resolve(&below(path), Follow::Yes)?;
                if found.inode.kind != Kind::Directory {
                    return Err(Errno(libc::ENOTDIR));
                }
                session.view.caller().require(&found, Want::Enter)?;
                working::enter(&Description::new(found.inode, below, libc::O_PATH)).map(|()| 0)
            },
            |_, path| leave(|| real(path)),
        );
        match entered {
            None => Some(told(leave(|| real(path)))),
            entered => entered,
        }
    };
    fn [fchdir](descriptor: c_int) -> c_int => |(real, _)| match taken(descriptor) {
        Some(description) if description.inode.kind == Kind::Directory => {
            Some(working::enter(&description).map(|()| 0))
        }
        Some(_) => Some(Err(Errno(libc::ENOTDIR))),
        None => Some(told(leave(|| real(descriptor)))),
    };
    fn [getcwd](buffer: *mut c_char, size: size_t) -> *mut c_char => |_| {
        working::path().map(|path| give_path(buffer, size, &path))
    };
    fn [__getcwd_chk](buffer: *mut c_char, size: size_t, _room: size_t) -> *mut c_char => |_| {
        working::path().map(|path| give_path(buffer, size, &path))
    };
    fn [getwd](buffer: *mut c_char) -> *mut c_char => |_| {
        working::path().map(|path| match buffer.is_null() {
            true => Err(Errno(libc::EINVAL)),
            false => give_path(buffer, PATH_MAX, &path),
        })
    };
    fn [get_current_dir_name]() -> *mut c_char => |_| working::path().map(|path| give_path(null_mut(), 0, &path));
    fn [realpath](path: *const c_char, resolved: *mut c_char) -> *mut c_char => |(real, _)| {
        real_path(path, resolved, |path, resolved| real(path, resolved))
    };
    fn [__realpath_chk](path: *const c_char, resolved: *mut c_char, _room: size_t) -> *mut c_char => |(real, _)| {
        real_path(path, resolved, |path, resolved| real(path, resolved, 4096))
    };
    fn [canonicalize_file_name](path: *const c_char) -> *mut c_char => |(real, _)| {
        real_path(path, null_mut(), |path, _| real(path))
    };
}

/// A directory that is being listed.
#[repr(C)]
struct Stream {
    /// What no stream of the C library begins with: a negative descriptor.
    magic: u64,
    descriptor: c_int,
    /// What is in it, from when it was first read.
    entries: Option<Vec<Entry>>,
    place: usize,
    current: dirent,
}

impl Stream {
    fn give(descriptor: c_int) -> *mut DIR {
        // SAFETY: it is made of numbers.
        let current = unsafe { std::mem::zeroed() };
        let stream = Stream { magic: MAGIC, descriptor, entries: None, place: 0, current };
        Box::into_raw(Box::new(stream)).cast()
    }

    /// The next entry, or `None` at the end.
    fn next(&mut self) -> Result<Option<*mut dirent>> {
        let description = taken(self.descriptor).ok_or(Errno(libc::EBADF))?;
        if self.entries.is_none() {
            self.entries = Some(block_on(session()?.view.filesystem().list(&description.inode))?);
        }
        let entries = self.entries.as_deref().unwrap_or_default();
        let (name, number, kind) = match self.place {
            0 => (b".".as_slice(), description.inode.number, Kind::Directory),
            1 => (b"..".as_slice(), description.inode.number, Kind::Directory),
            place => match entries.get(place - 2) {
                Some(entry) => (entry.name.as_slice(), entry.number, entry.kind),
                None => return Ok(None),
            },
        };
        self.place += 1;
        let current = &mut self.current;
        current.d_ino = number;
        current.d_off = i64::try_from(self.place).unwrap_or(0);
        current.d_reclen = u16::try_from(size_of::<dirent>()).unwrap_or(0);
        current.d_type = u8::try_from(kind.mode_bits() >> 12).unwrap_or(libc::DT_UNKNOWN);
        for (place, byte) in current.d_name.iter_mut().zip(name.iter().chain([&0])) {
            *place = byte.cast_signed();
        }
        Ok(Some(&raw mut self.current))
    }
}

/// A stream, if it is ours.
fn ours<'a>(stream: *mut DIR) -> Option<&'a mut Stream> {
    let stream = stream.cast::<Stream>();
    // SAFETY: what is no null is a stream of this library or of the C library, and both are longer than the mark.
    if stream.is_null() || unsafe { (&raw const (*stream).magic).read() } != MAGIC {
        return None;
    }
    // SAFETY: only streams of this library begin so. Programs use a stream by one thread at a time.
    unsafe { stream.as_mut() }
}

/// Goes elsewhere.
fn leave(real: impl FnOnce() -> c_int) -> c_int {
    let result = real();
    if result == 0 {
        let before = errno();
        working::left();
        crate::real::set_errno(before);
    }
    result
}

/// The path below the prefix of one in the file system.
pub fn below(path: &std::path::Path) -> Vec<u8> {
    let path = path.as_os_str().as_encoded_bytes();
    let below = path.strip_prefix(mounted().1.directory.as_slice()).unwrap_or(path);
    if below.is_empty() { b"/".to_vec() } else { below.to_vec() }
}

/// What a path below the prefix means, and its path without symbolic links and dots: what is opened by that stays where it is when a link
/// on the way leads elsewhere, or what a dot went back from is gone. A link that leads out leads nowhere.
pub fn resolve(path: &[u8], follow: Follow) -> Result<(Vec<u8>, Metadata)> {
    if path.len() >= PATH_MAX {
        return Err(Errno(libc::ENAMETOOLONG));
    }
    let session = session()?;
    let view = &session.view;
    if mounted().1.options.is_flat {
        let found = block_on(view.metadata(inner(path), follow))?;
        return Ok((clean(path).unwrap_or_default(), found));
    }
    let split = |path: &[u8]| -> Vec<Vec<u8>> {
        path.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).rev().map(<[u8]>::to_vec).collect()
    };
    let root = block_on(view.metadata(inner(b"/"), Follow::Yes))?;
    // What is on the way, the root first, and how it is named.
    let mut way = vec![(Vec::new(), root)];
    let (mut rest, mut links, mut is_directory_meant) = (split(path), 0, path.ends_with(b"/"));
    while let Some(part) = rest.pop() {
        let (above, at) = way.last().expect("the root is never left");
        if at.inode.kind != Kind::Directory {
            return Err(Errno(libc::ENOTDIR));
        }
        view.caller().require(at, Want::Enter)?;
        match part.as_slice() {
            b"." => continue,
            b".." => {
                way.truncate(way.len().max(2) - 1);
                continue;
            }
            _ => {}
        }
        let named = [above.as_slice(), b"/", &part].concat();
        let found = block_on(view.filesystem().lookup(&at.inode, &part))?;
        let is_followed = !rest.is_empty() || is_directory_meant || follow == Follow::Yes;
        let Some(target) = found.target.clone().filter(|_| is_followed) else {
            way.push((named, found));
            continue;
        };
        links += 1;
        if links > LINKS_FOLLOWED {
            return Err(Errno(libc::ELOOP));
        }
        let target = match target.starts_with(b"/") {
            false => target,
            true => match crate::inheritance::placed(&target) {
                Place::Ours(target) => {
                    way.truncate(1);
                    target
                }
                Place::Theirs | Place::Out(_) => return Err(Errno(libc::ENOENT)),
            },
        };
        is_directory_meant |= rest.is_empty() && target.ends_with(b"/");
        rest.extend(split(&target));
    }
    let (named, found) = way.pop().expect("the root is never left");
    if is_directory_meant && found.inode.kind != Kind::Directory {
        return Err(Errno(libc::ENOTDIR));
    }
    Ok((if named.is_empty() { b"/".to_vec() } else { named }, found))
}

fn real_path(
    path: *const c_char,
    resolved: *mut c_char,
    theirs: impl FnOnce(*const c_char, *mut c_char) -> *mut c_char,
) -> Outcome<*mut c_char> {
    match find(libc::AT_FDCWD, memory::text(path).ok()?) {
        Found::Ours(path) => {
            Some(resolve(&path, Follow::Yes).and_then(|(path, _)| give_path(resolved, PATH_MAX, &path)))
        }
        Found::Unchanged => None,
        Found::Elsewhere(path) => Some(told(theirs(path.as_ptr(), resolved))),
    }
}

/// The whole path of one below the prefix, in a buffer or in memory of its own.
fn give_path(buffer: *mut c_char, size: size_t, path: &[u8]) -> Result<*mut c_char> {
    let path = if path == b"/" { b"".as_slice() } else { path };
    let whole = [mounted().1.prefix.as_slice(), path, &[0]].concat();
    let buffer = match buffer.is_null() {
        // SAFETY: it has no conditions.
        true => unsafe { libc::malloc(whole.len().max(size)).cast() },
        false if size < whole.len() => return Err(Errno(libc::ERANGE)),
        false => buffer,
    };
    if buffer.is_null() {
        return Err(Errno(libc::ENOMEM));
    }
    memory::fill(buffer.cast(), &whole).map(|()| buffer)
}

const MAGIC: u64 = 0x7279_7464_ff74_7972;
/// As long as paths are at most, with the zero at their end.
const PATH_MAX: size_t = 4096;
/// As many as Linux follows.
const LINKS_FOLLOWED: usize = 40;

//! The kernel's side of our descriptors: what keeps their numbers, and tells a program that is started what it has inherited.
//!
//! Each is a sealed file in memory that holds a [`Record`], open for writing alone: a program without this library that inherits one gets
//! errors from it, never bytes that are not the file's.

use std::{
    collections::HashMap,
    ffi::c_int,
    fs::{self, File},
    io::{Read as _, Write as _},
    os::{
        fd::{AsRawFd as _, FromRawFd as _, IntoRawFd as _, OwnedFd},
        unix::fs::MetadataExt as _,
    },
    sync::Arc,
};

use crate::{
    border::{Errno, Result},
    paths::place as place_of,
    real::errno,
    record::{Record, Use},
    session::mounted,
    table::{self, Description},
    working,
};

/// Gives a new descriptor, with the flags of `open` that the kernel is to keep for it.
pub fn reserve(description: &Description, flags: c_int) -> Result<c_int> {
    reserve_record(description, Use::Open(description.access), flags)
}

/// As [`reserve`], for any use.
pub fn reserve_record(description: &Description, use_: Use, flags: c_int) -> Result<c_int> {
    let record = Record {
        mount: mounted().0.clone(),
        use_,
        inode: description.inode.clone(),
        path: description.path.clone(),
    };
    // SAFETY: the name ends with a zero.
    let number = unsafe { libc::memfd_create(NAME.as_ptr(), libc::MFD_ALLOW_SEALING | libc::MFD_CLOEXEC) };
    if number < 0 {
        return Err(Errno(errno()));
    }
    // SAFETY: it was just made, and is nobody else's.
    let mut file = unsafe { File::from_raw_fd(number) };
    file.write_all(&record.encode()).map_err(|error| Errno(error.raw_os_error().unwrap_or(libc::EIO)))?;
    let kept = flags & (libc::O_APPEND | libc::O_NONBLOCK | libc::O_CLOEXEC | libc::O_NOATIME);
    // SAFETY: they are descriptors of this function, and the path ends with a zero.
    unsafe {
        libc::fcntl(
            number,
            libc::F_ADD_SEALS,
            libc::F_SEAL_WRITE | libc::F_SEAL_GROW | libc::F_SEAL_SHRINK | libc::F_SEAL_SEAL,
        );
        let path = format!("/proc/self/fd/{number}\0");
        let opened = libc::open(path.as_ptr().cast(), libc::O_WRONLY | libc::O_CLOEXEC | kept);
        if opened < 0 {
            // Without /proc what stands there can be read by those who do not know what it is.
            libc::lseek(number, 0, libc::SEEK_SET);
            libc::fcntl(number, libc::F_SETFL, kept);
            if kept & libc::O_CLOEXEC == 0 {
                libc::fcntl(number, libc::F_SETFD, 0);
            }
        } else {
            // The lowest number that was free is what a program expects.
            let opened = OwnedFd::from_raw_fd(opened);
            if libc::dup3(opened.as_raw_fd(), number, kept & libc::O_CLOEXEC) < 0 {
                return Err(Errno(errno()));
            }
        }
    }
    table::check_fits(number)?;
    Ok(file.into_raw_fd())
}

/// Looks what of this process's descriptors is ours.
pub fn take() {
    let Ok(entries) = fs::read_dir("/proc/self/fd") else { return };
    let paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    // Descriptors that are one, as a shell makes them, have one description.
    let mut known: HashMap<u64, Arc<Description>> = HashMap::new();
    for path in paths {
        let is_one = fs::read_link(&path).is_ok_and(|target| target.as_os_str() == LINK);
        let number = path.file_name().and_then(|name| name.to_str()?.parse::<c_int>().ok());
        let (true, Some(number)) = (is_one, number) else { continue };
        let mut bytes = Vec::new();
        let read = |mut file: File| {
            file.read_to_end(&mut bytes)?;
            file.metadata()
        };
        let Ok(keeper) = File::open(&path).and_then(read) else { continue };
        let Some(record) = Record::decode(&bytes).filter(|record| record.mount == mounted().0) else {
            continue;
        };
        let Record { use_, inode, path, .. } = record;
        match use_ {
            Use::Open(access) => {
                let new = || Arc::new(Description::inherited(inode, path, access));
                table::insert(number, known.entry(keeper.ino()).or_insert_with(new).clone());
            }
            Use::WorkingDirectory(nowhere) => working::inherit(number, path, &nowhere),
        }
    }
}

/// A path of a program, as it is below the prefix or elsewhere.
pub fn placed(path: &[u8]) -> crate::paths::Place {
    place_of(&mounted().1.prefix, path)
}

const NAME: &std::ffi::CStr = c"tyr-preload";
/// How the kernel names it.
const LINK: &str = "/memfd:tyr-preload (deleted)";

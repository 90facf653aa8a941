//! When files were read and changed.

use std::ffi::{c_char, c_int};

use libc::{timespec, timeval, utimbuf};
use tyr_fs::{Changes, Follow, Timestamp};

use super::names::{change, change_open};
use crate::{
    border::{Errno, Outcome, Result, interpose},
    memory,
    places::find,
    table::taken,
};

interpose! {
    fn [utimensat](directory: c_int, path: *const c_char, times: *const timespec, flags: c_int) -> c_int => |(real, _)| {
        if path.is_null() || (flags & libc::AT_EMPTY_PATH != 0 && memory::text(path).is_ok_and(<[u8]>::is_empty)) {
            return set_open(directory, exact(times));
        }
        set(directory, path, super::status::follow(flags), exact(times), |directory, path| {
            real(directory, path, times, flags)
        })
    };
    fn [futimens](descriptor: c_int, times: *const timespec) -> c_int => |_| set_open(descriptor, exact(times));
    fn [utimes](path: *const c_char, times: *const timeval) -> c_int => |(real, _)| {
        set(libc::AT_FDCWD, path, Follow::Yes, rough(times), |_, path| real(path, times))
    };
    fn [lutimes](path: *const c_char, times: *const timeval) -> c_int => |(real, _)| {
        set(libc::AT_FDCWD, path, Follow::No, rough(times), |_, path| real(path, times))
    };
    fn [futimes](descriptor: c_int, times: *const timeval) -> c_int => |_| set_open(descriptor, rough(times));
    fn [futimesat](directory: c_int, path: *const c_char, times: *const timeval) -> c_int => |(real, _)| {
        set(directory, path, Follow::Yes, rough(times), |directory, path| real(directory, path, times))
    };
    fn [utime](path: *const c_char, times: *const utimbuf) -> c_int => |(real, _)| {
        let given = memory::get(times).map_or_else(now, |times| {
            of([times.actime, times.modtime].map(|seconds| Some(Timestamp { seconds, nanoseconds: 0 })))
        });
        set(libc::AT_FDCWD, path, Follow::Yes, Ok(given), |_, path| real(path, times))
    };
}

/// The times of the last access and of the last change; `None` for one that stays.
fn of([accessed, modified]: [Option<Timestamp>; 2]) -> Changes {
    Changes { accessed, modified, ..Changes::default() }
}

/// Both are those of now.
fn now() -> Changes {
    Changes { touches: true, ..of([Some(Timestamp::now()); 2]) }
}

fn exact(times: *const timespec) -> Result<Changes> {
    let Some(times) = memory::get(times.cast::<[timespec; 2]>()) else { return Ok(now()) };
    if times.iter().all(|time| time.tv_nsec == libc::UTIME_NOW) {
        return Ok(now());
    }
    let mut given = [None; 2];
    for (given, time) in given.iter_mut().zip(times) {
        *given = match time.tv_nsec {
            libc::UTIME_OMIT => None,
            libc::UTIME_NOW => Some(Timestamp::now()),
            nanoseconds => Some(timestamp(time.tv_sec, nanoseconds)?),
        };
    }
    Ok(of(given))
}

fn rough(times: *const timeval) -> Result<Changes> {
    let Some([accessed, modified]) = memory::get(times.cast::<[timeval; 2]>()) else { return Ok(now()) };
    let time = |time: timeval| timestamp(time.tv_sec, time.tv_usec.saturating_mul(1000));
    Ok(of([Some(time(accessed)?), Some(time(modified)?)]))
}

fn timestamp(seconds: i64, nanoseconds: i64) -> Result<Timestamp> {
    let nanoseconds = u32::try_from(nanoseconds).ok().filter(|part| *part < 1_000_000_000);
    Ok(Timestamp { seconds, nanoseconds: nanoseconds.ok_or(Errno(libc::EINVAL))? })
}

fn set(
    directory: c_int,
    path: *const c_char,
    follow: Follow,
    times: Result<Changes>,
    theirs: impl FnOnce(c_int, *const c_char) -> c_int,
) -> Outcome<c_int> {
    match times {
        Ok(times) => change(directory, path, follow, &times, theirs),
        Err(errno) => match find(directory, memory::text(path).ok()?) {
            crate::places::Found::Ours(_) => Some(Err(errno)),
            _ => None,
        },
    }
}

fn set_open(descriptor: c_int, times: Result<Changes>) -> Outcome<c_int> {
    taken(descriptor)?;
    match times {
        Ok(times) => change_open(descriptor, &times),
        Err(errno) => Some(Err(errno)),
    }
}

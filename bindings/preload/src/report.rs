//! What is told at exit, on request: how often each call was made, how many were ours, and how many bytes they moved.

use std::{
    env,
    ffi::c_int,
    fmt::Write as _,
    fs::OpenOptions,
    os::fd::AsRawFd as _,
    process,
    ptr::null_mut,
    sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64, Ordering},
};

use crate::own;

/// How often a call was made.
pub struct Count {
    name: &'static str,
    /// Whether the call makes descriptors.
    pub opens: bool,
    /// Whether a thread that waits in the call can be cancelled.
    pub waits: bool,
    passed: AtomicU64,
    taken: AtomicU64,
    failed: AtomicU64,
    read: AtomicU64,
    written: AtomicU64,
    is_listed: AtomicBool,
    next: AtomicPtr<Count>,
}

/// The descriptor of where it is told.
static PLACE: AtomicI32 = AtomicI32::new(-1);
static IS_WANTED: AtomicBool = AtomicBool::new(false);
/// Calls that were made, the last that came first.
static FIRST: AtomicPtr<Count> = AtomicPtr::new(null_mut());

impl Count {
    pub const fn of(name: &'static str) -> Self {
        Count {
            name,
            // All that have such names open files, but for those of directories' streams, which give no numbers.
            opens: matches!(name.as_bytes(), [b'o', b'p', b'e', b'n', ..]),
            waits: can_be_cancelled(name.as_bytes()),
            passed: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            read: AtomicU64::new(0),
            written: AtomicU64::new(0),
            is_listed: AtomicBool::new(false),
            next: AtomicPtr::new(null_mut()),
        }
    }

    pub fn passed(&'static self) {
        self.add(&self.passed, 1);
    }

    pub fn taken(&'static self, has_failed: bool) {
        self.add(&self.taken, 1);
        if has_failed {
            self.add(&self.failed, 1);
        }
    }

    pub fn read(&'static self, bytes: usize) {
        self.add(&self.read, bytes as u64);
    }

    pub fn written(&'static self, bytes: usize) {
        self.add(&self.written, bytes as u64);
    }

    fn add(&'static self, counter: &AtomicU64, amount: u64) {
        if !IS_WANTED.load(Ordering::Relaxed) {
            return;
        }
        counter.fetch_add(amount, Ordering::Relaxed);
        if !self.is_listed.swap(true, Ordering::Relaxed) {
            let mut first = FIRST.load(Ordering::Acquire);
            loop {
                self.next.store(first, Ordering::Relaxed);
                let own = std::ptr::from_ref(self).cast_mut();
                match FIRST.compare_exchange_weak(first, own, Ordering::AcqRel, Ordering::Acquire) {
                    Ok(_) => return,
                    Err(other) => first = other,
                }
            }
        }
    }
}

/// Whether POSIX has threads cancelled in a call of this name, or in one that reads or writes as it does.
const fn can_be_cancelled(name: &[u8]) -> bool {
    matches!(
        name,
        [b'r', b'e', b'a', b'd', ..]
            | [b'w', b'r', b'i', b't', b'e', ..]
            | [b'p', b'r', b'e', b'a', b'd', ..]
            | [b'p', b'w', b'r', b'i', b't', b'e', ..]
            | [b'o', b'p', b'e', b'n', ..]
            | [b'c', b'r', b'e', b'a', b't', ..]
            | [b'f', b's', b'y', b'n', b'c', ..]
            | [b'l', b'o', b'c', b'k', b'f', ..]
    )
}

/// Looks whether a report is wanted. Where it goes is opened now: when the process ends, its standard error may be closed, and its working directory
/// another one.
pub fn start() {
    let Some(place) = env::var_os("TYR_PRELOAD_REPORT").filter(|place| !place.is_empty()) else { return };
    let opened = match place.to_str() {
        Some("stderr") => raise(libc::STDERR_FILENO),
        _ => OpenOptions::new()
            .append(true)
            .create(true)
            .open(place)
            .map_or(-1, |file| raise(file.as_raw_fd())),
    };
    // Who cannot be told is not told.
    if opened >= 0 {
        own::keep(opened);
        PLACE.store(opened, Ordering::Relaxed);
        IS_WANTED.store(true, Ordering::Relaxed);
    }
}

/// Another number for a descriptor, where no program looks for one if there is one.
fn raise(descriptor: c_int) -> c_int {
    let double = |least: c_int| {
        // SAFETY: it has no conditions.
        unsafe { libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, least) }
    };
    match double(own::LOWEST) {
        -1 => double(libc::STDERR_FILENO + 1),
        raised => raised,
    }
}

/// In a child of a fork everything is counted anew.
pub fn start_anew() {
    for count in all() {
        for counter in [&count.passed, &count.taken, &count.failed, &count.read, &count.written] {
            counter.store(0, Ordering::Relaxed);
        }
    }
}

/// Tells what there is to tell, once.
pub fn tell() {
    if !IS_WANTED.swap(false, Ordering::Relaxed) {
        return;
    }
    let (text, place) = (text(), PLACE.load(Ordering::Relaxed));
    // SAFETY: the bytes are there. Who cannot be told is not told.
    unsafe { libc::write(place, text.as_ptr().cast(), text.len()) };
}

fn all() -> impl Iterator<Item = &'static Count> {
    // SAFETY: only counts are listed, which are static.
    let get = |at: &AtomicPtr<Count>| unsafe { at.load(Ordering::Acquire).as_ref() };
    std::iter::successors(get(&FIRST), move |count| get(&count.next))
}

fn text() -> String {
    let program = env::args_os().next().unwrap_or_default();
    let mut text = format!("tyr-preload: process {}, {}\n", process::id(), program.display());
    let line = |text: &mut String, cells: [String; 6]| {
        let [name, passed, taken, failed, read, written] = cells;
        // Writing to a text does not fail.
        let _ = writeln!(text, "{name:<20} {passed:>10} {taken:>10} {failed:>10} {read:>14} {written:>14}");
    };
    let header = ["call", "passed", "taken", "failed", "bytes read", "bytes written"];
    line(&mut text, header.map(str::to_owned));
    let mut counts: Vec<&Count> = all().collect();
    counts.sort_by_key(|count| count.name);
    for count in counts {
        let counters = [&count.passed, &count.taken, &count.failed, &count.read, &count.written];
        let told = counters.map(|counter| counter.load(Ordering::Relaxed));
        if told.iter().any(|number| *number > 0) {
            let [passed, taken, failed, read, written] = told.map(|number| number.to_string());
            line(&mut text, [count.name.to_owned(), passed, taken, failed, read, written]);
        }
    }
    text
}

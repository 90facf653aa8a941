//! Reading and writing that a program does not wait for: `aio_read` and so on.
//!
//! What concerns a descriptor of ours has happened when the call that asks for it returns. Its outcome is noted in the program's control block,
//! where the C library notes those of its own requests. So `aio_error`, `aio_return`, `aio_suspend`, and `aio_cancel` are the C library's, and a
//! list may have requests of both kinds. It is the C library, too, that tells the program that something has happened: as it does when a list is
//! done that has nothing in it.

use std::{
    ffi::{c_int, c_void},
    mem::{offset_of, transmute},
    ptr::{null, null_mut},
    sync::atomic::{AtomicI32, Ordering},
};

use libc::{off_t, sigevent, size_t, ssize_t};

use super::content::{Where, piece, read, sync, write};
use crate::{
    border::{Errno, Outcome, Result, cross},
    memory,
    real::{Real, errno, set_errno},
    report::Count,
    table::taken,
};

/// What a program asks for, `struct aiocb`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Control {
    descriptor: c_int,
    operation: c_int,
    priority: c_int,
    buffer: *mut c_void,
    length: size_t,
    event: sigevent,
    _next: *mut c_void,
    _priorities: [c_int; 2],
    /// `EINPROGRESS` until there is an outcome.
    error: c_int,
    result: ssize_t,
    offset: off_t,
    _reserved: [u8; 32],
}

/// Where the C library has what programs do not see is known by what is around it.
const _: () = assert!(
    size_of::<Control>() == size_of::<libc::aiocb>()
        && offset_of!(Control, event) == offset_of!(libc::aiocb, aio_sigevent)
        && offset_of!(Control, offset) == offset_of!(libc::aiocb, aio_offset)
);

/// What is to be done.
#[derive(Clone, Copy)]
enum Operation {
    Read,
    Write,
    /// With the flag that says how.
    Sync(c_int),
}

impl Operation {
    /// What an element of a list is to do.
    fn of(control: &Control) -> Result<Self> {
        match control.operation {
            libc::LIO_READ => Ok(Operation::Read),
            libc::LIO_WRITE => Ok(Operation::Write),
            _ => Err(Errno(libc::EINVAL)),
        }
    }

    fn check(self, control: &Control) -> Result<()> {
        match self {
            Operation::Sync(libc::O_SYNC | libc::O_DSYNC) => Ok(()),
            Operation::Read | Operation::Write if (0..=PRIORITY_MAX).contains(&control.priority) => Ok(()),
            _ => Err(Errno(libc::EINVAL)),
        }
    }

    fn perform(self, count: &'static Count, control: &Control) -> Result<ssize_t> {
        let (descriptor, place) = (control.descriptor, Where::At(control.offset));
        let pieces = [piece(control.buffer, control.length)];
        let outcome = match self {
            Operation::Read => read(count, descriptor, place, &pieces),
            Operation::Write => write(count, descriptor, place, &pieces),
            Operation::Sync(_) => sync(descriptor).map(|synced| synced.map(|_| 0)),
        };
        // Somebody has closed it meanwhile.
        outcome.unwrap_or(Err(Errno(libc::EBADF)))
    }
}

macro_rules! asking {
    ($(fn [$($name:ident)+] $arguments:tt of $control:ident => $operation:expr;)*) => {$($(
        asking!(@one $name $arguments of $control => $operation);
    )+)*};
    (@one $name:ident ($($argument:ident: $type:ty),*) of $control:ident => $operation:expr) => {
        const _: () = {
            #[unsafe(export_name = stringify!($name))]
            unsafe extern "C-unwind" fn exported($($argument: $type),*) -> c_int {
                static REAL: Real = Real::of(concat!(stringify!($name), "\0"));
                static COUNT: Count = Count::of(stringify!($name));
                // SAFETY: the C library's function of this name has this type.
                let real = unsafe {
                    transmute::<*mut c_void, extern "C-unwind" fn($($type),*) -> c_int>(REAL.address())
                };
                let mut event = None;
                let ours = || ask(&COUNT, $control, $operation, &mut event);
                let result = cross(&COUNT, ours, || real($($argument),*));
                event.iter().for_each(tell);
                result
            }
        };
    };
}

asking! {
    fn [aio_read aio_read64](control: *mut Control) of control => Operation::Read;
    fn [aio_write aio_write64](control: *mut Control) of control => Operation::Write;
    fn [aio_fsync aio_fsync64](how: c_int, control: *mut Control) of control => Operation::Sync(how);
}

/// Does what is asked for, if it is for us, and gives how the program is to be told.
fn ask(
    count: &'static Count,
    control: *mut Control,
    operation: Operation,
    event: &mut Option<sigevent>,
) -> Outcome<c_int> {
    let asked = memory::get(control.cast_const())?;
    taken(asked.descriptor)?;
    Some(operation.check(&asked).map(|()| {
        note(control, Err(Errno(libc::EINPROGRESS)));
        note(control, operation.perform(count, &asked));
        *event = Some(asked.event);
        0
    }))
}

/// Notes an outcome for who asks.
fn note(control: *mut Control, outcome: Result<ssize_t>) {
    let (error, result) = outcome.map_or_else(|Errno(number)| (number, -1), |result| (0, result));
    // SAFETY: the program leaves its control block to the request until that has ended. Its other threads may look whether it has.
    unsafe {
        (&raw mut (*control).result).write(result);
        AtomicI32::from_ptr(&raw mut (*control).error).store(error, Ordering::Release);
    }
}

type List = *const *mut Control;
type AskAll = extern "C-unwind" fn(c_int, List, c_int, *mut sigevent) -> c_int;

/// Tells the program of an outcome: by the C library, on this side of the border no more.
fn tell(event: &sigevent) {
    static REAL: Real = Real::of("lio_listio\0");
    // SAFETY: the C library's function of this name has this type.
    let real = unsafe { transmute::<*mut c_void, AskAll>(REAL.address()) };
    let (before, mut event) = (errno(), *event);
    real(libc::LIO_NOWAIT, null(), 0, &raw mut event);
    set_errno(before);
}

/// A list of which some is for us.
struct Asked {
    /// The list without that.
    others: Vec<*mut Control>,
    events: Vec<sigevent>,
    has_failed: bool,
}

impl Asked {
    /// Does what is for us.
    fn all(count: &'static Count, mode: c_int, list: List, number: c_int) -> Option<Self> {
        let mut others = memory::values(list, usize::try_from(number).ok()?).ok()?.to_vec();
        let (mut events, mut has_failed) = (Vec::new(), false);
        let mut is_ours = false;
        for place in &mut others {
            let Some(asked) = memory::get(place.cast_const()) else { continue };
            if asked.operation == libc::LIO_NOP || taken(asked.descriptor).is_none() {
                continue;
            }
            is_ours = true;
            let control = std::mem::replace(place, null_mut());
            let mut event = None;
            let outcome = Operation::of(&asked).and_then(|operation| {
                ask(count, control, operation, &mut event).unwrap_or(Err(Errno(libc::EBADF)))
            });
            has_failed |= outcome.is_err();
            if let Err(errno) = outcome {
                note(control, Err(errno));
            }
            // Who waits is told by the call, too, that something has failed.
            // SAFETY: it was there before.
            has_failed |= mode == libc::LIO_WAIT && unsafe { (*control).error } != 0;
            events.extend(event);
        }
        is_ours.then_some(Asked { others, events, has_failed })
    }
}

macro_rules! listing {
    ($($name:ident)*) => {$(
        const _: () = {
            #[unsafe(export_name = stringify!($name))]
            unsafe extern "C-unwind" fn exported(mode: c_int, list: List, number: c_int, event: *mut sigevent) -> c_int {
                static REAL: Real = Real::of(concat!(stringify!($name), "\0"));
                static COUNT: Count = Count::of(stringify!($name));
                // SAFETY: the C library's function of this name has this type.
                let real = unsafe { transmute::<*mut c_void, AskAll>(REAL.address()) };
                let mut asked = None;
                let ours = || {
                    asked = match mode {
                        libc::LIO_WAIT | libc::LIO_NOWAIT => Asked::all(&COUNT, mode, list, number),
                        _ => None,
                    };
                    let has_failed = asked.as_ref()?.has_failed;
                    Some(if has_failed { Err(Errno(libc::EIO)) } else { Ok(0) })
                };
                let result = cross(&COUNT, ours, || real(mode, list, number, event));
                match asked {
                    Some(asked) => asked.go_on(result, |others| real(mode, others, number, event)),
                    None => result,
                }
            }
        };
    )*};
}
listing!(lio_listio lio_listio64);

impl Asked {
    /// Tells what has happened, and has the C library do the rest, and say when that is done.
    fn go_on(self, own: c_int, rest: impl FnOnce(List) -> c_int) -> c_int {
        let Asked { others, events, .. } = self;
        events.iter().for_each(tell);
        drop(events);
        // A thread that is cancelled while it waits leaves the list behind: nothing may be dropped then.
        let others = Box::into_raw(others.into_boxed_slice());
        let result = rest(others.cast());
        // SAFETY: it was made above.
        drop(unsafe { Box::from_raw(others) });
        match own {
            0 => result,
            failed => {
                set_errno(libc::EIO);
                failed
            }
        }
    }
}

/// As the C library has it.
const PRIORITY_MAX: c_int = 20;

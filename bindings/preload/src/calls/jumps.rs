//! Jumps out of signal handlers: what a thread was at in the library goes on no more.

use std::ffi::{c_int, c_void};

use crate::{border::leave, real::Real};

macro_rules! jumping {
    ($($name:ident),*) => {$(
        const _: () = {
            #[unsafe(export_name = stringify!($name))]
            unsafe extern "C-unwind" fn exported(place: *mut c_void, value: c_int) -> ! {
                static REAL: Real = Real::of(concat!(stringify!($name), "\0"));
                // SAFETY: the C library's function of this name has this type.
                let real = unsafe {
                    std::mem::transmute::<*mut c_void, extern "C-unwind" fn(*mut c_void, c_int) -> !>(REAL.address())
                };
                leave();
                real(place, value)
            }
        };
    )*};
}
jumping!(longjmp, _longjmp, siglongjmp, __longjmp_chk);

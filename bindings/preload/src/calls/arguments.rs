//! Programs that are told their arguments one by one, by `execl` and its like. Those of the C library ask the kernel, and tell nobody.
//!
//! No function of Rust takes as many arguments as there are: a few instructions say where the caller has put them, which is so on x86-64 only.

use std::ffi::{c_char, c_int};

macro_rules! listing {
    ($($name:ident => $target:ident;)*) => {$(
        /// Tells a function where it has put what was passed in registers, and where what was passed in memory lies.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        unsafe extern "C" fn $name() -> c_int {
            std::arch::naked_asm!(
                "sub rsp, 56",
                "mov [rsp], rdi",
                "mov [rsp + 8], rsi",
                "mov [rsp + 16], rdx",
                "mov [rsp + 24], rcx",
                "mov [rsp + 32], r8",
                "mov [rsp + 40], r9",
                "mov rdi, rsp",
                "lea rsi, [rsp + 64]",
                "call {target}",
                "add rsp, 56",
                "ret",
                target = sym $target,
            )
        }
    )*};
}

listing! {
    execl => run_path;
    execlp => run_file;
    execle => run_with;
}

/// What a program was told one by one: first what lies in registers, and then what lies in memory.
struct Told {
    registers: *const *const c_char,
    memory: *const *const c_char,
    place: usize,
}

impl Told {
    /// The next one.
    ///
    /// # Safety
    ///
    /// There are as many as are asked for.
    unsafe fn next(&mut self) -> *const c_char {
        // SAFETY: the caller says that there is one.
        let next = unsafe {
            match self.place.checked_sub(REGISTERS) {
                None => *self.registers.add(self.place),
                Some(place) => *self.memory.add(place),
            }
        };
        self.place += 1;
        next
    }

    /// Those up to a null pointer, with that.
    ///
    /// # Safety
    ///
    /// There is one.
    unsafe fn list(&mut self) -> Vec<*const c_char> {
        let mut list = Vec::new();
        loop {
            // SAFETY: the null pointer is yet to come.
            list.push(unsafe { self.next() });
            if list.last().is_some_and(|last| last.is_null()) {
                return list;
            }
        }
    }
}

macro_rules! running {
    ($(fn $name:ident => |$first:ident, $list:ident, $told:ident| $run:expr;)*) => {$(
        unsafe extern "C" fn $name(registers: *const *const c_char, memory: *const *const c_char) -> c_int {
            let mut $told = Told { registers, memory, place: 0 };
            // SAFETY: the first is the program, and a null pointer ends its arguments.
            let ($first, list) = unsafe { ($told.next(), $told.list()) };
            let $list = list.as_ptr();
            // SAFETY: what is passed on is what the program has passed.
            unsafe { $run }
        }
    )*};
}

running! {
    fn run_path => |path, list, _told| libc::execv(path, list);
    fn run_file => |file, list, _told| libc::execvp(file, list);
    fn run_with => |path, list, told| {
        let environment = told.next().cast::<*const c_char>();
        libc::execve(path, list, environment)
    };
}

/// As many arguments are passed in registers.
const REGISTERS: usize = 6;

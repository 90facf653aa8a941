//! Functions that print a list of arguments of any length: each hands the list to the one that takes it as a whole.
//!
//! Rust cannot define such functions, so their first instructions are written out, as the calling convention of x86-64 has them ("System V
//! Application Binary Interface", 3.5.7): the registers that may hold arguments are saved, and a `va_list` says where they and the rest are.
//! On other machines these functions are the C library's.

use std::ffi::{c_char, c_int, c_void};

use libc::{FILE, wchar_t};

macro_rules! listing {
    ($(fn $name:literal = $whole:ident, $fixed:literal arguments before the list, which is handed on in $register:literal;)*) => {$(
        const _: () = {
            #[unsafe(naked)]
            #[unsafe(export_name = $name)]
            unsafe extern "C" fn exported() {
                core::arch::naked_asm!(
                    ".cfi_startproc",
                    "sub rsp, 0xd8",
                    ".cfi_adjust_cfa_offset 0xd8",
                    "mov [rsp + 0x20], rdi",
                    "mov [rsp + 0x28], rsi",
                    "mov [rsp + 0x30], rdx",
                    "mov [rsp + 0x38], rcx",
                    "mov [rsp + 0x40], r8",
                    "mov [rsp + 0x48], r9",
                    // How many of those for broken numbers are used at most.
                    "test al, al",
                    "je 2f",
                    "movaps [rsp + 0x50], xmm0",
                    "movaps [rsp + 0x60], xmm1",
                    "movaps [rsp + 0x70], xmm2",
                    "movaps [rsp + 0x80], xmm3",
                    "movaps [rsp + 0x90], xmm4",
                    "movaps [rsp + 0xa0], xmm5",
                    "movaps [rsp + 0xb0], xmm6",
                    "movaps [rsp + 0xc0], xmm7",
                    "2:",
                    "mov dword ptr [rsp], 8 * {fixed}",
                    "mov dword ptr [rsp + 4], 0x30",
                    "lea rax, [rsp + 0xe0]",
                    "mov [rsp + 8], rax",
                    "lea rax, [rsp + 0x20]",
                    "mov [rsp + 0x10], rax",
                    concat!("mov ", $register, ", rsp"),
                    "call {whole}",
                    "add rsp, 0xd8",
                    ".cfi_adjust_cfa_offset -0xd8",
                    "ret",
                    ".cfi_endproc",
                    fixed = const $fixed,
                    whole = sym $whole,
                )
            }
        };
    )*};
}

listing! {
    fn "dprintf" = vdprintf, 2 arguments before the list, which is handed on in "rdx";
    fn "__dprintf_chk" = __vdprintf_chk, 3 arguments before the list, which is handed on in "rcx";
    fn "fwprintf" = vfwprintf, 2 arguments before the list, which is handed on in "rdx";
    fn "__fwprintf_chk" = __vfwprintf_chk, 3 arguments before the list, which is handed on in "rcx";
    fn "wprintf" = vwprintf, 1 arguments before the list, which is handed on in "rsi";
    fn "__wprintf_chk" = __vwprintf_chk, 2 arguments before the list, which is handed on in "rdx";
}

// These are this library's own.
unsafe extern "C" {
    fn vdprintf(descriptor: c_int, format: *const c_char, list: *mut c_void) -> c_int;
    fn __vdprintf_chk(descriptor: c_int, flag: c_int, format: *const c_char, list: *mut c_void) -> c_int;
    fn vfwprintf(stream: *mut FILE, format: *const wchar_t, list: *mut c_void) -> c_int;
    fn __vfwprintf_chk(stream: *mut FILE, flag: c_int, format: *const wchar_t, list: *mut c_void) -> c_int;
    fn vwprintf(format: *const wchar_t, list: *mut c_void) -> c_int;
    fn __vwprintf_chk(flag: c_int, format: *const wchar_t, list: *mut c_void) -> c_int;
}

//! Going on in the background.

use std::ffi::c_int;

use libc::{STDERR_FILENO, STDIN_FILENO, STDOUT_FILENO};

/// As the C library does it, whose own calls would not be seen here: the parent ends, and the child goes on at the root with nobody to talk to,
/// unless either is not wanted.
#[unsafe(export_name = "daemon")]
unsafe extern "C" fn daemon(stays: c_int, keeps_streams: c_int) -> c_int {
    // SAFETY: these are calls as the program would make them.
    unsafe {
        match libc::fork() {
            0 => {}
            failed if failed < 0 => return failed,
            _ => libc::_exit(0),
        }
        if libc::setsid() < 0 || (stays == 0 && libc::chdir(c"/".as_ptr()) < 0) {
            return -1;
        }
        if keeps_streams != 0 {
            return 0;
        }
        let nowhere = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
        if nowhere < 0 {
            return -1;
        }
        for standard in [STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO] {
            libc::dup2(nowhere, standard);
        }
        if nowhere > STDERR_FILENO {
            libc::close(nowhere);
        }
    }
    0
}

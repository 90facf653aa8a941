//! Wide characters of streams of ours.
//!
//! The C library has none for streams with functions of somebody's own: it would follow an address that is none. So its functions for wide
//! characters are made of those for bytes here, for streams that this library has made; all others pass through.

use std::ffi::{c_char, c_int, c_void};

use libc::{FILE, size_t, wchar_t};

use crate::{
    border::{Errno, Failing as _, Outcome, Result, interpose},
    memory,
    places::told,
    real::errno,
    session::lock,
    streams::{made, stdin, stdout},
};

/// A character, or the highest number for none.
type Character = u32;
/// The arguments of a call that has a list of them. It is handed on by its address on all machines with which this library is built.
type Arguments = *mut c_void;

/// What is known of the wide characters of a stream.
#[derive(Default)]
pub struct Wide {
    /// Whether there were any.
    is_used: bool,
    read: State,
    written: State,
}

/// How far a character has come of which some bytes are there.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct State {
    count: c_int,
    value: u32,
}

interpose! {
    fn [fgetwc getwc fgetwc_unlocked getwc_unlocked](stream: *mut FILE) -> Character => |_| get(stream);
    fn [getwchar getwchar_unlocked]() -> Character => |_| get(input());
    fn [fgetws fgetws_unlocked](text: *mut wchar_t, room: c_int, stream: *mut FILE) -> *mut wchar_t => |_| {
        get_line(text, room, stream)
    };
    fn [__fgetws_chk __fgetws_unlocked_chk](text: *mut wchar_t, _size: size_t, room: c_int, stream: *mut FILE) -> *mut wchar_t =>
        |_| get_line(text, room, stream);
    fn [ungetwc](character: Character, stream: *mut FILE) -> Character => |_| {
        let before = errno();
        widely(stream, |_| {
            if character.has_failed() {
                return Err(Errno(before));
            }
            let bytes = encode(character, &mut State::default())?;
            for byte in bytes.as_slice().iter().rev() {
                // SAFETY: the stream is the program's.
                told(unsafe { libc::ungetc(c_int::from(*byte), stream) })?;
            }
            Ok(character)
        })
    };
    fn [fputwc putwc fputwc_unlocked putwc_unlocked](character: wchar_t, stream: *mut FILE) -> Character => |_| {
        put_one(character, stream)
    };
    fn [putwchar putwchar_unlocked](character: wchar_t) -> Character => |_| put_one(character, output());
    fn [fputws fputws_unlocked](text: *const wchar_t, stream: *mut FILE) -> c_int => |_| {
        widely(stream, |wide| put(text_of(text)?, &mut wide.written, stream).map(|()| 1))
    };
    fn [vfwprintf](stream: *mut FILE, format: *const wchar_t, list: Arguments) -> c_int => |(real, _)| {
        put_formatted(stream, |memory| real(memory, format, list))
    };
    fn [__vfwprintf_chk](stream: *mut FILE, flag: c_int, format: *const wchar_t, list: Arguments) -> c_int => |(real, _)| {
        put_formatted(stream, |memory| real(memory, flag, format, list))
    };
    fn [vwprintf](format: *const wchar_t, list: Arguments) -> c_int => |_| {
        // SAFETY: the arguments are the program's.
        put_formatted(output(), |memory| unsafe { vfwprintf(memory, format, list) })
    };
    fn [__vwprintf_chk](flag: c_int, format: *const wchar_t, list: Arguments) -> c_int => |_| {
        // SAFETY: the arguments are the program's.
        put_formatted(output(), |memory| unsafe { __vfwprintf_chk(memory, flag, format, list) })
    };
    fn [fwide](stream: *mut FILE, mode: c_int) -> c_int => |_| {
        using(stream, |wide| {
            wide.is_used |= mode > 0;
            Ok(if wide.is_used { 1 } else { mode.min(0) })
        })
    };
}

/// Does something with a stream of ours, while no other thread uses it.
fn using<T>(stream: *mut FILE, work: impl FnOnce(&mut Wide) -> Result<T>) -> Outcome<T> {
    let made = made(stream)?;
    // SAFETY: the stream is the program's, and is given free below.
    unsafe { flockfile(stream) };
    let result = work(&mut lock(&made.wide));
    if matches!(result, Err(Errno(libc::EILSEQ))) {
        // SAFETY: programs look there by themselves: it is what `ferror` is made of in the C library's headers.
        unsafe { *stream.cast::<c_int>() |= HAS_FAILED };
    }
    // SAFETY: as above.
    unsafe { funlockfile(stream) };
    Some(result)
}

/// As [`using`], for wide characters.
fn widely<T>(stream: *mut FILE, work: impl FnOnce(&mut Wide) -> Result<T>) -> Outcome<T> {
    using(stream, |wide| {
        wide.is_used = true;
        work(wide)
    })
}

fn get(stream: *mut FILE) -> Outcome<Character> {
    // At the end it returns that without an error number, which is told by the one from before.
    let before = errno();
    widely(stream, |wide| next(&mut wide.read, stream)?.ok_or(Errno(before)))
}

fn get_line(text: *mut wchar_t, room: c_int, stream: *mut FILE) -> Outcome<*mut wchar_t> {
    let before = errno();
    widely(stream, |wide| {
        let room = usize::try_from(room).ok().filter(|room| *room > 0).ok_or(Errno(before))?;
        let mut line = Vec::new();
        while line.len() + 1 < room && line.last() != Some(&NEWLINE) {
            match next(&mut wide.read, stream)? {
                Some(character) => line.push(wide_of(character)),
                None if line.is_empty() => return Err(Errno(before)),
                None => break,
            }
        }
        line.push(0);
        for (index, character) in line.into_iter().enumerate() {
            memory::put(text.wrapping_add(index), character)?;
        }
        Ok(text)
    })
}

/// The next character, or `None` at the end.
fn next(state: &mut State, stream: *mut FILE) -> Result<Option<Character>> {
    loop {
        // SAFETY: the stream is the program's, and no other thread uses it.
        let Ok(byte) = u8::try_from(unsafe { getc_unlocked(stream) }) else {
            // SAFETY: as above.
            return match unsafe { libc::ferror(stream) } {
                0 if state.count == 0 => Ok(None),
                // A character of which there is not all is none.
                0 => Err(wrong(state)),
                _ => Err(Errno(errno())),
            };
        };
        let mut character: wchar_t = 0;
        // SAFETY: all of it is this function's own.
        match unsafe { mbrtowc(&raw mut character, (&raw const byte).cast(), 1, state) } {
            PARTIAL => {}
            WRONG => return Err(wrong(state)),
            _ => return Ok(Some(number_of(character))),
        }
    }
}

/// Wide characters have a sign on some machines.
fn number_of(character: wchar_t) -> Character {
    Character::from_ne_bytes(character.to_ne_bytes())
}

fn wide_of(character: Character) -> wchar_t {
    wchar_t::from_ne_bytes(character.to_ne_bytes())
}

fn put_one(character: wchar_t, stream: *mut FILE) -> Outcome<Character> {
    widely(stream, |wide| put(&[character], &mut wide.written, stream).map(|()| number_of(character)))
}

/// Writes characters. What comes before one that the encoding does not have is written.
fn put(characters: &[wchar_t], state: &mut State, stream: *mut FILE) -> Result<()> {
    let mut bytes = Vec::with_capacity(characters.len());
    let mut result = Ok(());
    for character in characters {
        match encode(number_of(*character), state) {
            Ok(encoded) => bytes.extend_from_slice(encoded.as_slice()),
            Err(errno) => {
                result = Err(errno);
                break;
            }
        }
    }
    // SAFETY: the bytes are there.
    let written = unsafe { libc::fwrite(bytes.as_ptr().cast(), 1, bytes.len(), stream) };
    if written < bytes.len() { Err(Errno(errno())) } else { result }
}

/// Has the C library put characters together in memory, and writes them.
fn put_formatted(stream: *mut FILE, print: impl FnOnce(*mut FILE) -> c_int) -> Outcome<c_int> {
    widely(stream, |wide| {
        let (mut text, mut length) = (std::ptr::null_mut::<wchar_t>(), 0);
        // SAFETY: both are this function's own, and live longer than the stream in memory.
        let memory = unsafe { libc::open_wmemstream(&raw mut text, &raw mut length) };
        if memory.is_null() {
            return Err(Errno(errno()));
        }
        let printed = told(print(memory));
        // SAFETY: it was just made.
        let closed = told(unsafe { libc::fclose(memory) });
        let result = printed.and_then(|printed| {
            closed?;
            put(memory::values(text, length)?, &mut wide.written, stream).map(|()| printed)
        });
        // SAFETY: it is the C library's memory, given away when the stream was closed.
        unsafe { libc::free(text.cast()) };
        result
    })
}

/// The bytes of a character.
struct Encoded {
    bytes: [u8; ENCODED_MAX],
    length: usize,
}

impl Encoded {
    fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

fn encode(character: Character, state: &mut State) -> Result<Encoded> {
    let mut encoded = Encoded { bytes: [0; ENCODED_MAX], length: 0 };
    // SAFETY: there is room for all that one character becomes.
    match unsafe { wcrtomb(encoded.bytes.as_mut_ptr().cast(), wide_of(character), state) } {
        WRONG => Err(wrong(state)),
        length => {
            encoded.length = length;
            Ok(encoded)
        }
    }
}

/// There is no such character. What comes next begins anew.
fn wrong(state: &mut State) -> Errno {
    *state = State::default();
    Errno(libc::EILSEQ)
}

/// The characters at a pointer, without the zero at their end.
fn text_of<'a>(text: *const wchar_t) -> Result<&'a [wchar_t]> {
    if text.is_null() {
        return Err(Errno(libc::EFAULT));
    }
    // SAFETY: the caller says that it ends with a zero.
    memory::values(text, unsafe { libc::wcslen(text) })
}

fn input() -> *mut FILE {
    // SAFETY: the variable is the C library's.
    unsafe { stdin }
}

fn output() -> *mut FILE {
    // SAFETY: as above.
    unsafe { stdout }
}

unsafe extern "C" {
    fn flockfile(stream: *mut FILE);
    fn funlockfile(stream: *mut FILE);
    fn getc_unlocked(stream: *mut FILE) -> c_int;
    fn mbrtowc(character: *mut wchar_t, bytes: *const c_char, length: size_t, state: *mut State) -> size_t;
    fn wcrtomb(bytes: *mut c_char, character: wchar_t, state: *mut State) -> size_t;
    fn vfwprintf(stream: *mut FILE, format: *const wchar_t, list: Arguments) -> c_int;
    fn __vfwprintf_chk(stream: *mut FILE, flag: c_int, format: *const wchar_t, list: Arguments) -> c_int;
}

const NEWLINE: wchar_t = '\n' as wchar_t;
/// Of a character that is not all there yet.
const PARTIAL: size_t = size_t::MAX - 1;
/// Of bytes that are no character, and a character that has no bytes.
const WRONG: size_t = size_t::MAX;
/// More than any encoding has.
const ENCODED_MAX: usize = 64;
/// Of what a stream says first of itself, that something has failed.
const HAS_FAILED: c_int = 0x20;

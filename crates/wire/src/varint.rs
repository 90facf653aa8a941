//! Whole numbers in few bytes, and the reader that every decoder is built on.
//!
//! A varint is LEB128: seven bits a byte, the lowest first, the top bit set on every byte but the last. Only the
//! shortest form is accepted, so that equal values have equal bytes.
//!
//! A [`Reader`] never panics and never reads past its end. It knows nothing of checksums.

use alloc::vec::Vec;
use core::fmt;

use tyr_types::Error;

/// The most bytes of a varint.
pub const VARINT_SIZE_MAX: usize = 10;

/// Bytes that no encoder of ours has written; says what is wrong with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl core::error::Error for Malformed {}

/// Malformed bytes are corrupt ones, unless the caller knows better.
impl From<Malformed> for Error {
    fn from(malformed: Malformed) -> Self {
        Error::corrupt(malformed.0)
    }
}

/// Appends the number as a varint: one byte below 128, ten at most.
pub fn write_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(low_byte(value) | 0x80);
        value >>= 7;
    }
    out.push(low_byte(value));
}

/// Appends the length of the bytes as a varint, then the bytes. [`Reader::prefixed`] reads it.
pub fn write_prefixed(out: &mut Vec<u8>, bytes: &[u8]) {
    write_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// How many bytes [`write_varint`] appends for the number.
pub fn varint_size(value: u64) -> usize {
    let bits = u64::BITS - (value | 1).leading_zeros();
    bits.div_ceil(7) as usize
}

fn low_byte(value: u64) -> u8 {
    value.to_le_bytes()[0]
}

/// Reads values off the front of a slice. Numbers of fixed width are little-endian.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads from the first of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }

    /// The bytes not yet read.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// How many bytes are not yet read.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Whether everything has been read.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// One byte.
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// Two bytes.
    pub fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_le_bytes)
    }

    /// Four bytes.
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    /// Eight bytes.
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    /// The next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (array, rest) = self.rest.split_first_chunk().ok_or(ENDS_EARLY)?;
        self.rest = rest;
        Ok(*array)
    }

    /// A varint of any size.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, Malformed> {
        match self.rest {
            [byte, rest @ ..] if *byte < 0x80 => {
                self.rest = rest;
                Ok(u64::from(*byte))
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0;
        for (index, &byte) in self.rest.iter().take(VARINT_SIZE_MAX).enumerate() {
            let bits = u64::from(byte & 0x7f);
            if index == VARINT_SIZE_MAX - 1 && byte > 1 {
                return Err(Malformed("a varint is larger than 64 bits"));
            }
            value |= bits << (7 * index);
            if byte < 0x80 {
                if bits == 0 && index > 0 {
                    return Err(Malformed("a varint is longer than it needs to be"));
                }
                self.rest = &self.rest[index + 1..];
                return Ok(value);
            }
        }
        Err(ENDS_EARLY)
    }

    /// A varint that counts or measures something held in memory.
    pub fn varint_usize(&mut self) -> Result<usize, Malformed> {
        usize::try_from(self.varint()?).map_err(|_| Malformed("a length is larger than memory"))
    }

    /// A varint of at most 32 bits.
    pub fn varint_u32(&mut self) -> Result<u32, Malformed> {
        u32::try_from(self.varint()?).map_err(|_| Malformed("a number is larger than 32 bits"))
    }

    /// The next `len` bytes.
    #[inline]
    pub fn bytes(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (bytes, rest) = self.rest.split_at_checked(len).ok_or(ENDS_EARLY)?;
        self.rest = rest;
        Ok(bytes)
    }

    /// As many bytes as the varint before them says.
    pub fn prefixed(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.varint_usize()?;
        self.bytes(len)
    }

    /// Fails unless everything has been read.
    pub fn finish(self) -> Result<(), Malformed> {
        if self.rest.is_empty() { Ok(()) } else { Err(Malformed("bytes follow the end")) }
    }
}

const ENDS_EARLY: Malformed = Malformed("the bytes end too early");

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(value: u64) -> Vec<u8> {
        let mut out = Vec::new();
        write_varint(&mut out, value);
        out
    }

    #[test]
    fn numbers_at_every_width_come_back() {
        for shift in 0..64 {
            for value in [(1 << shift) - 1, 1 << shift, u64::MAX >> shift] {
                let bytes = encoded(value);
                assert_eq!(bytes.len(), varint_size(value), "{value}");
                let mut reader = Reader::new(&bytes);
                assert_eq!(reader.varint(), Ok(value));
                assert_eq!(reader.finish(), Ok(()));
            }
        }
    }

    #[test]
    fn the_bytes_of_a_varint_are_leb128() {
        assert_eq!(encoded(0), [0]);
        assert_eq!(encoded(300), [0xac, 0x02]);
        assert_eq!(encoded(u64::MAX), [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]);
    }

    #[test]
    fn varints_that_end_early_or_are_too_long_are_refused() {
        for bytes in [&[][..], &[0x80], &[0xff; 9], &[0xff; 10], &[0x80, 0], &[0xff, 0x80, 0]] {
            assert!(Reader::new(bytes).varint().is_err(), "{bytes:?}");
        }
        let too_large = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02];
        assert!(Reader::new(&too_large).varint().is_err());
    }

    #[test]
    fn a_failed_read_consumes_nothing() {
        let mut reader = Reader::new(&[1, 2, 3]);
        assert!(reader.u32().is_err() && reader.bytes(4).is_err());
        assert_eq!((reader.remaining(), reader.u8(), reader.u16()), (3, Ok(1), Ok(0x0302)));
        assert!(reader.is_empty());
    }

    #[test]
    fn a_length_past_the_end_is_refused() {
        let mut out = Vec::new();
        write_prefixed(&mut out, b"abc");
        assert_eq!(Reader::new(&out).prefixed(), Ok(&b"abc"[..]));
        assert!(Reader::new(&out[..3]).prefixed().is_err());
        assert!(Reader::new(&encoded(u64::MAX)).prefixed().is_err());
        assert!(Reader::new(&out).finish().is_err());
    }
}

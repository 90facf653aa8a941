//! Zeros that are not copied: in a file and in a blob, what was never written reads as zeros and takes no room.

use std::{
    fs::File,
    io::{self, Seek, Write},
};

/// So many zeros in a row, in bytes, make a hole in a file.
const SIZE: usize = 64 << 10;

/// Whether there are only zeros.
pub fn is(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

/// Writes bytes where the last ones ended, but for the holes. Says whether they end in one: the file ends before it, then.
pub fn write(file: &mut File, bytes: &[u8]) -> io::Result<bool> {
    let is_hole = |block: &&[u8]| block.len() == SIZE && is(block);
    let mut rest = bytes;
    loop {
        let hole = rest.chunks(SIZE).take_while(is_hole).count() * SIZE;
        if hole > 0 {
            file.seek_relative(i64::try_from(hole).expect("no longer than a slice"))?;
            rest = &rest[hole..];
        }
        if rest.is_empty() {
            return Ok(hole > 0);
        }
        let data = rest.chunks(SIZE).take_while(|block| !is_hole(block)).map(<[u8]>::len).sum();
        file.write_all(&rest[..data])?;
        rest = &rest[data..];
        if rest.is_empty() {
            return Ok(false);
        }
    }
}

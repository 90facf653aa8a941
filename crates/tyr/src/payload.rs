//! Where the bytes of a write come from: the command line, a script, a file, or standard input.
//!
//! Files and standard input are read in pieces, so that a payload of any size passes through bounded memory.

use std::{
    ffi::OsStr,
    fs::File,
    io::{self, Read},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use tyr_types::{ATTRIBUTES_SIZE_MAX, Error};

use crate::failure::{Failure, Result};

/// Bytes of a payload that are in memory at a time.
pub const PIECE_SIZE: usize = 1 << 20;

/// Where payload comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// Given literally.
    Literal(Vec<u8>),
    /// The content of a file.
    File(PathBuf),
    /// Standard input up to its end.
    Stdin,
}

impl Payload {
    /// The payload of a FILE argument: `-`, or none, is standard input.
    pub fn from_file_argument(path: Option<&Path>) -> Self {
        match path {
            None => Payload::Stdin,
            Some(path) if path == Path::new("-") => Payload::Stdin,
            Some(path) => Payload::File(path.to_owned()),
        }
    }

    /// Parses `text:WORDS`, `hex:DIGITS`, or `file:PATH`; anything else is taken literally. Only the first
    /// `prefix_length_max` bytes may be such a prefix (a script quotes what is not to be taken as one).
    pub fn parse(bytes: &[u8], prefix_length_max: usize) -> Result<Self, String> {
        let prefix = |name: &[u8]| bytes.strip_prefix(name).filter(|_| name.len() <= prefix_length_max);
        if let Some(path) = prefix(b"file:") {
            return match path {
                [] => Err("'file:' is followed by no path".to_owned()),
                _ => Ok(Payload::File(OsStr::from_bytes(path).into())),
            };
        }
        if let Some(digits) = prefix(b"hex:") {
            return parse_hex(digits).map(Payload::Literal);
        }
        Ok(Payload::Literal(prefix(b"text:").unwrap_or(bytes).to_vec()))
    }

    /// Hands the payload over piece by piece, each but the last of [`PIECE_SIZE`] bytes, and at least one, which may be
    /// empty.
    pub fn for_each_piece(&self, take: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        match self {
            Payload::Literal(bytes) => for_each_piece("payload", bytes.as_slice(), take),
            Payload::Stdin => for_each_piece("standard input", io::stdin().lock(), take),
            Payload::File(path) => {
                let what = format!("cannot open '{}'", path.display());
                let file = File::open(path).map_err(|error| Failure::local(what, &error))?;
                for_each_piece(&format!("'{}'", path.display()), file, take)
            }
        }
    }

    /// The whole payload as the value of an attribute. More than any attribute takes is not read.
    pub fn whole_value(&self) -> Result<Vec<u8>> {
        let mut value = Vec::new();
        self.for_each_piece(|piece| {
            value.extend_from_slice(piece);
            if value.len() <= ATTRIBUTES_SIZE_MAX {
                return Ok(());
            }
            Err(Failure::from(Error::invalid(format!(
                "the value has more than the {ATTRIBUTES_SIZE_MAX} bytes that a blob's attributes have at most in all; \
                 put it into a blob of its own"
            ))))
        })?;
        Ok(value)
    }
}

/// Reads to the end and hands over piece by piece, as [`Payload::for_each_piece`] does. `name` is what a failure calls it.
pub fn for_each_piece(
    name: &str,
    mut from: impl Read,
    mut take: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let mut piece = Vec::new();
    for index in 0.. {
        piece.clear();
        let read = from.by_ref().take(PIECE_SIZE as u64).read_to_end(&mut piece);
        let length = read.map_err(|error| Failure::local(format!("cannot read {name}"), &error))?;
        if length > 0 || index == 0 {
            take(&piece)?;
        }
        if length < PIECE_SIZE {
            break;
        }
    }
    Ok(())
}

fn parse_hex(digits: &[u8]) -> Result<Vec<u8>, String> {
    let wrong = "'hex:' is followed by an even number of hexadecimal digits, such as hex:00ff";
    let (pairs, rest) = digits.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(wrong.to_owned());
    }
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = |[high, low]: &[u8; 2]| u8::try_from(digit(*high)? * 16 + digit(*low)?).ok();
    pairs.iter().map(byte).collect::<Option<_>>().ok_or_else(|| wrong.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn literal(text: &[u8]) -> Result<Payload, String> {
        Ok(Payload::Literal(text.to_vec()))
    }

    #[test]
    fn prefixes_choose_the_form() {
        let parse = |text: &[u8]| Payload::parse(text, usize::MAX);
        assert_eq!(parse(b"hello"), literal(b"hello"));
        assert_eq!(parse(b"hex:00fF"), literal(&[0, 255]));
        assert_eq!(parse(b"text:hex:00"), literal(b"hex:00"));
        assert_eq!(parse(b"file:a b"), Ok(Payload::File("a b".into())));
        assert!(parse(b"hex:0").is_err() && parse(b"hex:0g").is_err() && parse(b"file:").is_err());
    }

    #[test]
    fn a_quoted_prefix_is_text() {
        assert_eq!(Payload::parse(b"hex:00", 0), literal(b"hex:00"));
        assert_eq!(Payload::parse(b"hex:00", 4), literal(&[0]));
    }

    #[test]
    fn pieces_are_bounded_and_there_is_at_least_one() {
        let lengths = |length: usize| {
            let mut lengths = Vec::new();
            let payload = Payload::Literal(vec![7; length]);
            let taken = payload.for_each_piece(|piece| {
                lengths.push(piece.len());
                Ok(())
            });
            taken.expect("memory can be read");
            lengths
        };
        assert_eq!(lengths(0), [0]);
        assert_eq!(lengths(PIECE_SIZE), [PIECE_SIZE]);
        assert_eq!(lengths(PIECE_SIZE + 1), [PIECE_SIZE, 1]);
    }
}

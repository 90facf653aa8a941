//! From words to operations.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

use tyr_client::Check;
use tyr_types::Number;

use super::{
    Action, Operation,
    lexer::{self, Word, Wrong},
};
use crate::{
    address::BlobAddress,
    amount::parse_bytes,
    arithmetic::{parse_number_type, parse_op, parse_operand, transform},
    output::Shown,
    payload::Payload,
};

/// Where a script is wrong, and what was expected there.
#[derive(Debug, PartialEq, Eq)]
pub struct ParseError {
    /// Lines from 1.
    pub line: usize,
    /// Characters from 1.
    pub column: usize,
    /// What was found, and what was expected.
    pub message: String,
}

/// Parses a whole script.
pub fn parse(text: &[u8]) -> Result<Vec<Operation>, ParseError> {
    let mut operations = Vec::new();
    for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let parsed = parse_line(line, index + 1);
        let parsed =
            parsed.map_err(|Wrong { column, message }| ParseError { line: index + 1, column, message });
        operations.extend(parsed?);
    }
    Ok(operations)
}

const VERBS: &str = "create, delete, put, write, append, truncate, punch, transform, attr, or check";
const CHECKS: &str = "exists, missing, version, size, bytes, attr, or no-attr";

fn parse_line(line: &[u8], number: usize) -> Result<Option<Operation>, Wrong> {
    let words = lexer::words(line)?;
    if words.is_empty() {
        return Ok(None);
    }
    let mut words = Words { words: words.into_iter(), end: lexer::column(line, line.len()) };
    let (address, action) = words.operation()?;
    if let Some(extra) = words.words.next() {
        return Err(wrong(
            &extra,
            &format!("unexpected '{}'; expected the end of the line", Shown(&extra.bytes)),
        ));
    }
    Ok(Some(Operation { line: number, keyspace: address.keyspace, key: address.key, action }))
}

/// The words of a line that are not used up yet.
struct Words {
    words: std::vec::IntoIter<Word>,
    /// The column after the line.
    end: usize,
}

impl Words {
    fn operation(&mut self) -> Result<(BlobAddress, Action), Wrong> {
        let verb = self.next(VERBS)?;
        match verb.bytes.as_slice() {
            b"create" => Ok((self.blob()?, Action::Create)),
            b"delete" => Ok((self.blob()?, Action::Delete)),
            b"put" => Ok((self.blob()?, Action::Put(self.payload()?))),
            b"write" => Ok((self.blob()?, Action::Write(self.bytes("an offset")?, self.payload()?))),
            b"append" => Ok((self.blob()?, Action::Append(self.payload()?))),
            b"truncate" => Ok((self.blob()?, Action::Truncate(self.bytes("a size")?))),
            b"punch" => Ok((self.blob()?, Action::Punch(self.bytes("an offset")?, self.bytes("a length")?))),
            b"transform" => Ok((self.blob()?, self.transform()?)),
            b"attr" => self.attribute(),
            b"check" => self.check(),
            _ => Err(unexpected(&verb, VERBS)),
        }
    }

    fn transform(&mut self) -> Result<Action, Wrong> {
        let op_word = self.next("an op: add, multiply, min, max, and, or, xor, swap, or compare-and-swap")?;
        let op = parse_op(&text(&op_word)).map_err(|message| wrong(&op_word, &message))?;
        let type_word = self.next("a number type: u8 to u64, i8 to i64, f32, or f64")?;
        let number_type =
            parse_number_type(&text(&type_word)).map_err(|message| wrong(&type_word, &message))?;
        let offset = self.bytes("an offset")?;
        let first = self.next(&format!("an operand of type {}", number_type.name()))?;
        let parse =
            |word: &Word| parse_operand(number_type, &text(word)).map_err(|message| wrong(word, &message));
        let mut operands = vec![parse(&first)?];
        if op == tyr_client::Op::CompareAndSwap {
            operands.push(parse(&self.next("the new value, after the expected one")?)?);
        }
        let transform = transform(op, &operands).map_err(|message| wrong(&op_word, &message))?;
        Ok(Action::Transform(offset, transform))
    }

    fn attribute(&mut self) -> Result<(BlobAddress, Action), Wrong> {
        let verb = self.next("set or unset")?;
        match verb.bytes.as_slice() {
            b"set" => Ok((self.blob()?, Action::SetAttribute(self.name()?, self.payload()?))),
            b"unset" => Ok((self.blob()?, Action::UnsetAttribute(self.name()?))),
            _ => Err(unexpected(&verb, "set or unset")),
        }
    }

    fn check(&mut self) -> Result<(BlobAddress, Action), Wrong> {
        let verb = self.next(CHECKS)?;
        let blob = match verb.bytes.as_slice() {
            b"exists" | b"missing" | b"version" | b"size" | b"bytes" | b"attr" | b"no-attr" => self.blob()?,
            _ => return Err(unexpected(&verb, CHECKS)),
        };
        let action = match verb.bytes.as_slice() {
            b"exists" => Action::Check(Check::Exists),
            b"missing" => Action::Check(Check::Missing),
            b"version" => Action::Check(Check::Version(self.version()?)),
            b"size" => Action::Check(Check::Size(self.bytes("a size")?)),
            b"bytes" => Action::CheckBytes(self.bytes("an offset")?, self.payload()?),
            b"attr" => Action::CheckAttribute(self.name()?, self.payload()?),
            _ => Action::Check(Check::Attribute { name: self.name()?, value: None }),
        };
        Ok((blob, action))
    }

    fn blob(&mut self) -> Result<BlobAddress, Wrong> {
        let word = self.next("a blob: KEYSPACE/KEY")?;
        BlobAddress::parse(OsStr::from_bytes(&word.bytes)).map_err(|message| wrong(&word, &message))
    }

    fn payload(&mut self) -> Result<Payload, Wrong> {
        let word = self.next("payload: text, hex:DIGITS, or file:PATH")?;
        Payload::parse(&word.bytes, word.plain).map_err(|message| wrong(&word, &message))
    }

    fn bytes(&mut self, what: &str) -> Result<u64, Wrong> {
        let word = self.next(&format!("{what}, such as 0 or 64KiB"))?;
        parse_bytes(&text(&word)).map_err(|message| wrong(&word, &message))
    }

    fn name(&mut self) -> Result<String, Wrong> {
        let word = self.next("the name of an attribute")?;
        String::from_utf8(word.bytes.clone())
            .map_err(|_| wrong(&word, "the name of an attribute is not UTF-8; expected text"))
    }

    fn version(&mut self) -> Result<Number, Wrong> {
        const EXPECTED: &str = "a version, such as 3.17";
        let word = self.next(EXPECTED)?;
        text(&word).parse().map_err(|_| unexpected(&word, EXPECTED))
    }

    fn next(&mut self, expected: &str) -> Result<Word, Wrong> {
        self.words.next().ok_or_else(|| Wrong {
            column: self.end,
            message: format!("the line ends here; expected {expected}"),
        })
    }
}

fn text(word: &Word) -> String {
    String::from_utf8_lossy(&word.bytes).into_owned()
}

fn wrong(word: &Word, message: &str) -> Wrong {
    Wrong { column: word.column, message: message.to_owned() }
}

fn unexpected(word: &Word, expected: &str) -> Wrong {
    wrong(word, &format!("unexpected '{}'; expected {expected}", Shown(&word.bytes)))
}

#[cfg(test)]
mod tests;

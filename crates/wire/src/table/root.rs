//! The root: which span holds which keys, kept in memory while a table is open.

use alloc::{boxed::Box, vec::Vec};

use super::{common_prefix, heads::Heads};
use crate::{
    Malformed, Reader,
    varint::{write_prefixed, write_varint},
};

/// Where the pages of a span lie, and behind them the span's own part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanPlace {
    /// The first block of its pages.
    pub block: u64,
    /// How many blocks its pages have together.
    pub page_blocks: u64,
    /// How many blocks its own part has.
    pub span_blocks: u64,
}

impl SpanPlace {
    /// The first block of the span's own part.
    pub fn span_block(&self) -> u64 {
        self.block + self.page_blocks
    }

    /// The first block after the span.
    pub fn end(&self) -> u64 {
        self.span_block() + self.span_blocks
    }
}

/// The root in memory.
#[derive(Debug)]
pub struct Root {
    /// What all separators begin with.
    prefix: Box<[u8]>,
    /// Of the separators without the prefix.
    heads: Heads,
    /// The separators without the prefix, one after the other.
    suffixes: Box<[u8]>,
    spans: Box<[RootEntry]>,
    /// The largest key of the table.
    largest: Box<[u8]>,
}

#[derive(Debug)]
struct RootEntry {
    suffix_end: usize,
    place: SpanPlace,
}

impl Root {
    /// Decodes the content of the root's part.
    pub fn decode(content: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(content);
        let largest = reader.prefixed()?;
        let count = reader.varint_usize()?;
        if count == 0 || count > reader.remaining() / SPAN_SIZE_MIN {
            return Err(Malformed("a root has an impossible number of spans"));
        }
        let mut lines: Vec<(&[u8], SpanPlace)> = Vec::with_capacity(count);
        let mut block = 0;
        for _ in 0..count {
            let separator = reader.prefixed()?;
            let place = read_place(&mut reader, block)?;
            if lines.last().is_some_and(|(previous, _)| *previous >= separator) {
                return Err(Malformed("the spans of a root do not ascend"));
            }
            block = place.end();
            lines.push((separator, place));
        }
        reader.finish()?;
        Self::from_lines(&lines, largest)
    }

    fn from_lines(lines: &[(&[u8], SpanPlace)], largest: &[u8]) -> Result<Self, Malformed> {
        let (Some((first, _)), Some((last, _))) = (lines.first(), lines.last()) else {
            return Err(Malformed("a root has no spans"));
        };
        if largest < *last {
            return Err(Malformed("the largest key of a root is not the largest"));
        }
        let shared = common_prefix(first, last);
        let mut suffixes = Vec::new();
        let mut spans = Vec::with_capacity(lines.len());
        for (separator, place) in lines {
            suffixes.extend_from_slice(&separator[shared..]);
            spans.push(RootEntry { suffix_end: suffixes.len(), place: *place });
        }
        Ok(Root {
            prefix: first[..shared].into(),
            heads: Heads::new(lines.iter().map(|(separator, _)| &separator[shared..])),
            suffixes: suffixes.into(),
            spans: spans.into(),
            largest: largest.into(),
        })
    }

    /// How many spans there are; at least one.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there is no span, which [`decode`](Self::decode) refuses.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Where the span of an index below [`len`](Self::len) lies.
    pub fn span(&self, index: usize) -> SpanPlace {
        self.spans[index].place
    }

    /// What no key of an earlier span reaches, and every key of this span does. That of the first span is the smallest
    /// key of the table.
    pub fn separator(&self, index: usize) -> Vec<u8> {
        [&self.prefix, self.suffix(index)].concat()
    }

    /// The largest key of the table.
    pub fn largest(&self) -> &[u8] {
        &self.largest
    }

    /// How many blocks all spans have together.
    pub fn blocks(&self) -> u64 {
        self.spans.last().map_or(0, |span| span.place.end())
    }

    /// Bytes in memory.
    pub fn size(&self) -> usize {
        let strings = self.prefix.len() + self.suffixes.len() + self.largest.len();
        size_of::<Root>() + strings + self.heads.size() + size_of_val(&*self.spans)
    }

    /// The index of the only span that may hold the key, if the key is not outside of the table's keys.
    #[inline]
    pub fn find(&self, key: &[u8]) -> Option<usize> {
        if key > &*self.largest { None } else { self.last_at_or_below(key) }
    }

    /// The index of the last span whose separator is at most the key.
    fn last_at_or_below(&self, key: &[u8]) -> Option<usize> {
        let Some(suffix) = key.strip_prefix(&*self.prefix) else {
            return if key < &*self.prefix { None } else { Some(self.len() - 1) };
        };
        self.heads.count_up_to(suffix, |index| self.suffix(index)).checked_sub(1)
    }

    fn suffix(&self, index: usize) -> &[u8] {
        let start = index.checked_sub(1).map_or(0, |previous| self.spans[previous].suffix_end);
        &self.suffixes[start..self.spans[index].suffix_end]
    }
}

fn read_place(reader: &mut Reader<'_>, block: u64) -> Result<SpanPlace, Malformed> {
    let (page_blocks, span_blocks) = (reader.varint_u32()?.into(), reader.varint_u32()?.into());
    let place = SpanPlace { block, page_blocks, span_blocks };
    let fits = block <= BLOCK_MAX && page_blocks > 0 && span_blocks > 0;
    if fits { Ok(place) } else { Err(Malformed("a span of a root is empty or too far out")) }
}

/// An encoded span has a separator of any length and two numbers.
const SPAN_SIZE_MIN: usize = 3;
/// No block of a table has a larger number: byte positions fit 63 bits, and sums of a few block numbers do not overflow.
const BLOCK_MAX: u64 = 1 << 50;

/// Collects the spans of a table and encodes them.
#[derive(Debug, Default)]
pub struct RootBuilder {
    spans: Vec<u8>,
    count: u64,
}

impl RootBuilder {
    /// Adds a span that was written after the others.
    pub fn push(&mut self, separator: &[u8], page_blocks: u64, span_blocks: u64) {
        write_prefixed(&mut self.spans, separator);
        write_varint(&mut self.spans, page_blocks);
        write_varint(&mut self.spans, span_blocks);
        self.count += 1;
    }

    /// How many spans there are.
    pub fn len(&self) -> u64 {
        self.count
    }

    /// Whether there is none yet.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Appends the content of the root's part.
    pub fn encode_into(&self, largest: &[u8], out: &mut Vec<u8>) {
        write_prefixed(out, largest);
        write_varint(out, self.count);
        out.extend_from_slice(&self.spans);
    }
}

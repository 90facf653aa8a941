//! Reading bytes of a blob piece by piece, so that little is on its way at once and nothing is asked for twice without need.

use std::{
    collections::VecDeque,
    ops::{Bound, Range, RangeBounds},
};

use tyr_embed::Result;
use tyr_types::{Error, OFFSET_MAX};

use crate::driver::call::Answered;

/// A checked range of bytes, open at the end or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Where it begins.
    pub start: u64,
    /// Where it ends, if it does.
    pub end: Option<u64>,
}

impl Span {
    /// Everything.
    pub const ALL: Span = Span { start: 0, end: None };

    /// Checks and takes the range.
    pub fn new(range: impl RangeBounds<u64>) -> Result<Span> {
        let too_far = || Error::invalid("the range ends past 2^63-1; use a smaller one");
        let after = |last: u64| last.checked_add(1).ok_or_else(too_far);
        let start = match range.start_bound() {
            Bound::Included(start) => *start,
            Bound::Excluded(last) => after(*last)?,
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(last) => Some(after(*last)?),
            Bound::Excluded(end) => Some(*end),
            Bound::Unbounded => None,
        };
        if end.unwrap_or(start).max(start) > OFFSET_MAX {
            return Err(too_far());
        }
        if let Some(end) = end.filter(|end| *end < start) {
            return Err(Error::invalid(format!("the range {start}..{end} ends before it starts")));
        }
        Ok(Span { start, end })
    }

    /// Where it ends at most.
    pub fn end(self) -> u64 {
        self.end.unwrap_or(OFFSET_MAX)
    }

    /// Whether it can be asked for without knowing how large the blob is.
    pub fn is_short(self) -> bool {
        self.end() - self.start <= BLOCK_SIZE
    }

    /// What of it lies in these bytes, which are all of a blob.
    pub fn of(self, bytes: &[u8]) -> Result<&[u8]> {
        let range = self.within(bytes.len() as u64)?;
        let place = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
        Ok(&bytes[place(range.start)..place(range.end)])
    }

    /// What of it lies in a blob of this size; fails if that is too much for a vector.
    pub fn within(self, size: u64) -> Result<Range<u64>> {
        let end = self.end().min(size).max(self.start);
        if end - self.start > READ_SIZE_MAX {
            let length = end - self.start;
            return Err(Error::invalid(format!(
                "reading {length} bytes at once is too much; read parts with read_into"
            )));
        }
        Ok(self.start..end)
    }
}

/// Reads a range block by block; the last block is asked for up to `end`, which may lie past the blob's. `None` if the blob does not exist.
pub async fn read_blocks(
    range: Range<u64>,
    end: u64,
    ask: impl Fn(Range<u64>) -> Answered<Option<Vec<u8>>>,
) -> Result<Option<Vec<u8>>> {
    let mut under_way = VecDeque::new();
    let mut bytes = Vec::new();
    let mut next = range.start;
    let mut is_asked = false;
    loop {
        while !is_asked && under_way.len() < UNDER_WAY_MAX {
            let stop = range.end.min(next + BLOCK_SIZE);
            is_asked = stop == range.end;
            under_way.push_back(ask(next..if is_asked { end } else { stop }));
            next = stop;
        }
        let Some(first) = under_way.pop_front() else { return Ok(Some(bytes)) };
        match first.await? {
            Some(block) if bytes.is_empty() => bytes = block,
            Some(block) => bytes.extend_from_slice(&block),
            None => return Ok(None),
        }
    }
}

/// Bytes that are asked for as one.
const BLOCK_SIZE: u64 = 1 << 20;
/// Blocks that are on their way at once.
const UNDER_WAY_MAX: usize = 4;
/// The most bytes that one read returns as a vector.
const READ_SIZE_MAX: u64 = 4 << 30;

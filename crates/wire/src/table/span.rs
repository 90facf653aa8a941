//! A span: which page of a run holds which keys, and a filter of all their keys.

use alloc::{boxed::Box, vec::Vec};

use super::{BLOCK_SIZE, Entries, EntriesBuilder, Filter, PAGE_SIZE_MAX, SpanPlace, heads::Heads};
use crate::{
    Malformed, Reader,
    varint::{VARINT_SIZE_MAX, write_prefixed, write_varint},
};

/// The most pages of a span that may be asked for. With pages of 4 KiB and entries of 90 bytes a span then has about 16 KiB: four
/// blocks to read for a lookup that finds nothing in memory, and the root of ten million entries has about 1800 spans.
pub const SPAN_PAGES_MAX: usize = 128;
/// The most entries of a span, so that a filter of tiny entries stays small as well.
const ENTRIES_MAX: usize = 16 << 10;
/// Bytes after which the separators of a span suffice: offsets within them have 16 bits.
const SEPARATORS_SIZE: usize = PAGE_SIZE_MAX;

/// Where a page lies: blocks counted from the first of its span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PagePlace {
    /// The first block.
    pub block: u64,
    /// How many blocks.
    pub blocks: u64,
}

/// A span in memory.
#[derive(Debug)]
pub struct Span {
    filter: Filter,
    /// [`Entries`]: separator to first block of the page.
    pages: Box<[u8]>,
    /// Of the separators without what all have in common.
    heads: Heads,
    page_blocks: u64,
}

impl Span {
    /// Decodes the content of a span's part. `page_blocks` is how many blocks its pages have together.
    pub fn decode(content: &[u8], page_blocks: u64) -> Result<Self, Malformed> {
        let mut reader = Reader::new(content);
        let probes = reader.u8()?;
        let pages = reader.prefixed()?;
        let filter = Filter::decode(reader.rest(), probes)?;
        let entries = Entries::decode(pages)?;
        entries.check()?;
        let heads = Heads::new((0..entries.len()).map(|index| suffix(&entries, index)));
        let span = Span { filter, pages: pages.into(), heads, page_blocks };
        span.check_places()?;
        Ok(span)
    }

    /// The filter of all keys of the span.
    pub fn filter(&self) -> &Filter {
        &self.filter
    }

    /// How many pages the span has; at least one.
    pub fn len(&self) -> usize {
        self.pages().map_or(0, |pages| pages.len())
    }

    /// Whether the span has no page, which [`decode`](Self::decode) refuses.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes in memory.
    pub fn size(&self) -> usize {
        size_of::<Span>() + self.filter.size() + self.pages.len() + self.heads.size()
    }

    /// The most bytes that the span at this place has in memory. Every page has a block.
    pub fn size_max(place: &SpanPlace) -> u64 {
        let heads = place.page_blocks * size_of::<u64>() as u64;
        size_of::<Span>() as u64 + heads + place.span_blocks * BLOCK_SIZE as u64
    }

    /// The index of the only page that may hold the key.
    pub fn find(&self, key: &[u8]) -> Result<usize, Malformed> {
        let pages = self.pages()?;
        let Some(rest) = key.strip_prefix(pages.prefix()) else {
            return Ok(if key < pages.prefix() { 0 } else { pages.len().saturating_sub(1) });
        };
        let count = self.heads.count_up_to(rest, |index| suffix(&pages, index));
        Ok(count.saturating_sub(1))
    }

    /// Where the page of this index lies.
    pub fn page(&self, index: usize) -> Result<PagePlace, Malformed> {
        let pages = self.pages()?;
        let block = first_block(&pages, index)?;
        let end = if index + 1 < pages.len() { first_block(&pages, index + 1)? } else { self.page_blocks };
        let blocks = end.checked_sub(block).filter(|blocks| *blocks > 0).ok_or(OUT_OF_PLACE)?;
        Ok(PagePlace { block, blocks })
    }

    /// What no key of an earlier page reaches, and every key of this page does.
    pub fn separator(&self, index: usize) -> Result<Vec<u8>, Malformed> {
        let pages = self.pages()?;
        Ok([pages.prefix(), pages.entry(index)?.suffix].concat())
    }

    fn pages(&self) -> Result<Entries<'_>, Malformed> {
        Entries::decode(&self.pages)
    }

    fn check_places(&self) -> Result<(), Malformed> {
        let mut end = 0;
        for index in 0..self.len() {
            let place = self.page(index)?;
            if place.block != end {
                return Err(OUT_OF_PLACE);
            }
            end = place.block + place.blocks;
        }
        Ok(())
    }
}

/// Of entries that were checked.
fn suffix<'a>(pages: &Entries<'a>, index: usize) -> &'a [u8] {
    pages.entry(index).map_or(&[], |entry| entry.suffix)
}

fn first_block(pages: &Entries<'_>, index: usize) -> Result<u64, Malformed> {
    let mut value = Reader::new(pages.entry(index)?.value.ok_or(OUT_OF_PLACE)?);
    let block = value.varint()?;
    value.finish()?;
    Ok(block)
}

const OUT_OF_PLACE: Malformed = Malformed("the pages of a span do not follow one another");

/// Collects what a span says of its pages, and encodes it.
#[derive(Debug)]
pub struct SpanBuilder {
    pages_max: usize,
    pages: EntriesBuilder,
    hashes: Vec<u64>,
    page_blocks: u64,
    number: Vec<u8>,
}

impl SpanBuilder {
    /// Of spans with at most so many pages, at most [`SPAN_PAGES_MAX`].
    pub fn new(pages_max: usize) -> Self {
        SpanBuilder {
            pages_max: pages_max.min(SPAN_PAGES_MAX),
            pages: EntriesBuilder::default(),
            hashes: Vec::new(),
            page_blocks: 0,
            number: Vec::new(),
        }
    }

    /// Whether nothing was added yet.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// How many blocks the pages have together.
    pub fn page_blocks(&self) -> u64 {
        self.page_blocks
    }

    /// Whether the span must be encoded before another page with this separator is added.
    pub fn is_full(&self, separator: &[u8]) -> bool {
        let place = [0; VARINT_SIZE_MAX];
        self.pages.len() >= self.pages_max
            || self.hashes.len() >= ENTRIES_MAX
            || self.pages.size_with(separator, Some(&place)) > SEPARATORS_SIZE
    }

    /// Adds the hash of a key of the next page.
    pub fn push_hash(&mut self, hash: u64) {
        self.hashes.push(hash);
    }

    /// Adds a page that was written after the others.
    pub fn push_page(&mut self, separator: &[u8], blocks: u64) {
        self.number.clear();
        write_varint(&mut self.number, self.page_blocks);
        self.pages.push(separator, Some(&self.number));
        self.page_blocks += blocks;
    }

    /// Appends the content of the span's part, with a filter of `filter_bits` a key, and starts again.
    pub fn encode_into(&mut self, filter_bits: u8, out: &mut Vec<u8>) {
        let filter = Filter::new(&self.hashes, filter_bits);
        let mut pages = Vec::new();
        self.pages.encode_into(&mut pages);
        out.push(filter.probes());
        write_prefixed(out, &pages);
        filter.encode_into(out);
        self.hashes.clear();
        self.page_blocks = 0;
    }
}

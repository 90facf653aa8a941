//! A walk through one table in the order of keys, reading ahead.

use std::{
    ops::{Bound, Range},
    sync::Arc,
};

use tyr_env::Blocks;
use tyr_types::{Error, Result};
use tyr_wire::{
    Malformed,
    table::{BLOCK_SIZE, Entries, Span, SpanPlace, part},
};

use super::{cache::Cache, visible::Visible};

/// What a cursor is used for, which decides how it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// May end soon: the first page goes through the cache, and reads grow while the scan goes on.
    Scan,
    /// Reads everything once: large reads that leave the cache alone.
    Merge,
}

impl Reading {
    fn first_ahead(self) -> u64 {
        match self {
            Reading::Scan => 4,
            Reading::Merge => AHEAD_MAX,
        }
    }
}

/// The most blocks that are read at once, but for a larger page.
const AHEAD_MAX: u64 = 64;

/// A position in a table.
pub(super) struct Cursor {
    visible: Visible,
    cache: Arc<Cache>,
    reading: Reading,
    span_index: usize,
    /// The span, unless it stays in memory anyway.
    held: Option<Arc<Span>>,
    page_index: usize,
    page: Page,
    window: Window,
    /// How many blocks to read at once next time.
    ahead: u64,
    /// The entry of the page that comes next.
    next: usize,
    key: Vec<u8>,
    /// Where in the page the value is; none for a tombstone.
    value: Option<Range<usize>>,
}

/// Where the content of the current page is.
enum Page {
    /// Nowhere: there is no further one.
    None,
    Cached(Arc<[u8]>),
    /// In the window.
    Ahead(Range<usize>),
}

impl Page {
    fn content<'a>(&'a self, window: &'a Window) -> &'a [u8] {
        match self {
            Page::None => &[],
            Page::Cached(content) => content,
            Page::Ahead(range) => &window.bytes.as_bytes()[range.clone()],
        }
    }
}

/// Blocks that were read at once.
#[derive(Default)]
struct Window {
    block: u64,
    bytes: Blocks,
}

impl Window {
    /// Where the bytes of these blocks are, if all of them are here.
    fn range(&self, block: u64, blocks: u64) -> Option<Range<usize>> {
        let bytes_before = |blocks| usize::try_from(blocks).ok()?.checked_mul(BLOCK_SIZE);
        let start = bytes_before(block.checked_sub(self.block)?)?;
        let end = start.checked_add(bytes_before(blocks)?)?;
        (end <= self.bytes.len()).then_some(start..end)
    }
}

impl Cursor {
    /// A cursor that is nowhere until it is told to [seek](Self::seek).
    pub fn new(visible: Visible, cache: Arc<Cache>, reading: Reading) -> Self {
        Cursor {
            visible,
            cache,
            reading,
            span_index: 0,
            held: None,
            page_index: 0,
            page: Page::None,
            window: Window::default(),
            ahead: reading.first_ahead(),
            next: 0,
            key: Vec::new(),
            value: None,
        }
    }

    /// Goes before the first entry within the bound; [`advance`](Self::advance) then goes to it.
    pub fn seek(&mut self, from: Bound<&[u8]>) -> Result<()> {
        let (key, after) = match from {
            Bound::Unbounded => return self.enter_span(0, None),
            Bound::Included(key) => (key, false),
            Bound::Excluded(key) => (key, true),
        };
        if key > self.visible.table().root().largest() {
            self.page = Page::None;
            return Ok(());
        }
        let Some(span) = self.visible.table().root().find(key) else { return self.enter_span(0, None) };
        self.enter_span(span, Some(key))?;
        let found = Entries::decode(self.content()).and_then(|entries| entries.search(key));
        self.next = match found.map_err(|malformed| self.damaged(malformed))? {
            Ok(index) => index + usize::from(after),
            Err(index) => index,
        };
        Ok(())
    }

    /// Goes to the next entry. False if there is none.
    pub fn advance(&mut self) -> Result<bool> {
        loop {
            if matches!(self.page, Page::None) {
                return Ok(false);
            }
            if self.read_entry().map_err(|malformed| self.damaged(malformed))? {
                return Ok(true);
            }
            self.enter_next_page()?;
        }
    }

    /// The key of the current entry.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// The value of the current entry; none is a tombstone.
    pub fn value(&self) -> Option<&[u8]> {
        self.value.clone().map(|range| &self.content()[range])
    }

    fn content(&self) -> &[u8] {
        self.page.content(&self.window)
    }

    /// False at the end of the page.
    fn read_entry(&mut self) -> Result<bool, Malformed> {
        let entries = Entries::decode(self.page.content(&self.window))?;
        if self.next >= entries.len() {
            return Ok(false);
        }
        let entry = entries.entry(self.next)?;
        self.key.clear();
        self.key.extend_from_slice(entries.prefix());
        self.key.extend_from_slice(entry.suffix);
        self.value = entry.value.map(|value| entry.end - value.len()..entry.end);
        self.next += 1;
        Ok(true)
    }

    fn enter_next_page(&mut self) -> Result<()> {
        if self.page_index + 1 < self.span()?.len() {
            self.enter_page(self.page_index + 1)
        } else if self.span_index + 1 < self.visible.table().root().len() {
            self.enter_span(self.span_index + 1, None)
        } else {
            self.page = Page::None;
            Ok(())
        }
    }

    /// Goes to the page that may hold the key, or to the first one.
    fn enter_span(&mut self, index: usize, key: Option<&[u8]>) -> Result<()> {
        self.span_index = index;
        self.held = match self.reading {
            Reading::Scan => self.visible.span(&self.cache, index)?.held(),
            Reading::Merge => Some(Arc::new(self.visible.table().read_span(self.place())?)),
        };
        let page =
            key.map_or(Ok(0), |key| self.span()?.find(key).map_err(|malformed| self.damaged(malformed)));
        self.enter_page(page?)
    }

    fn enter_page(&mut self, index: usize) -> Result<()> {
        let (block, blocks) = self.visible.table().page_place(self.place(), self.span()?, index)?;
        let first = matches!(self.page, Page::None);
        self.page_index = index;
        self.next = 0;
        self.page = if self.reading == Reading::Scan && first {
            Page::Cached(self.cache.page(self.visible.table(), block, blocks)?)
        } else {
            self.load_page(block, blocks)?
        };
        Ok(())
    }

    fn load_page(&mut self, block: u64, blocks: u64) -> Result<Page> {
        let table = self.visible.table();
        if self.window.range(block, blocks).is_none() {
            if self.reading == Reading::Scan
                && let Some(content) = self.cache.peek_page(table, block)
            {
                return Ok(Page::Cached(content));
            }
            let in_span = self.place().span_block().saturating_sub(block).max(blocks);
            let bytes = table.read(block, self.ahead.clamp(blocks, in_span))?;
            self.window = Window { block, bytes };
            self.ahead = (self.ahead * 2).min(AHEAD_MAX);
        }
        let range = self.window.range(block, blocks).ok_or_else(|| table.misplaced(block))?;
        let content = table.open_part(&self.window.bytes.as_bytes()[range.clone()], block, Ok)?;
        let start = range.start + part::HEADER_SIZE;
        Ok(Page::Ahead(start..start + content.len()))
    }

    fn place(&self) -> SpanPlace {
        self.visible.table().root().span(self.span_index)
    }

    fn span(&self) -> Result<&Span> {
        let span = self.held.as_deref().or_else(|| self.visible.resident(self.span_index));
        span.ok_or_else(|| Error::internal("a cursor is in a span that is not in memory"))
    }

    #[cold]
    fn damaged(&self, malformed: Malformed) -> Error {
        self.visible.table().damaged(self.place().block, malformed)
    }
}

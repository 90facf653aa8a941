//! The spans and pages that are kept in memory, the most useful ones first.
//!
//! What the tables have in memory outside of here is not available to the cache, so that all together stays below one
//! bound. Nothing here is ever wrong, because tables do not change; what is found in memory was verified when it was read.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use quick_cache::{
    OptionsBuilder, Weighter,
    sync::{Cache as Items, DefaultLifecycle},
};
use tyr_types::Result;
use tyr_wire::table::{Span, TableId};

use super::{table::Table, visible::Visible};
use crate::mixing::Mixing;

/// Spans and pages of all tables.
pub(super) struct Cache {
    items: Items<Address, Cached, Weight, Mixing>,
    memory_max: u64,
    misses: AtomicU64,
}

/// Where a span or page lies: the number of its first block.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Address {
    table: TableId,
    block: u64,
}

#[derive(Clone)]
enum Cached {
    Span(Arc<Span>),
    Page(Arc<[u8]>),
}

impl Cache {
    /// An empty cache; what the tables may have in memory themselves counts against `memory_max`.
    pub fn new(memory_max: u64, tables: &[Visible]) -> Self {
        let capacity = room(memory_max, tables);
        let count = usize::try_from(capacity / ITEM_SIZE_TYPICAL).unwrap_or(usize::MAX);
        let options = OptionsBuilder::new()
            .shards(SHARDS)
            .estimated_items_capacity(count)
            .weight_capacity(capacity)
            .build()
            .expect("both capacities are set");
        let items = Items::with_options(options, Weight, Mixing, DefaultLifecycle::default());
        Cache { items, memory_max, misses: AtomicU64::new(0) }
    }

    /// The table's span of this index.
    pub fn span(&self, table: &Table, index: usize) -> Result<Arc<Span>> {
        let place = table.root().span(index);
        let address = Address { table: table.id(), block: place.span_block() };
        let read = || table.read_span(place).map(|span| Cached::Span(Arc::new(span)));
        match self.found_or_read(address, read)? {
            Cached::Span(span) => Ok(span),
            Cached::Page(_) => Err(table.misplaced(place.span_block())),
        }
    }

    /// The content of the page that lies in these blocks.
    pub fn page(&self, table: &Table, block: u64, blocks: u64) -> Result<Arc<[u8]>> {
        let address = Address { table: table.id(), block };
        match self.found_or_read(address, || table.read_page(block, blocks).map(Cached::Page))? {
            Cached::Page(page) => Ok(page),
            Cached::Span(_) => Err(table.misplaced(block)),
        }
    }

    /// If several threads miss the same at once, one reads and the others wait for it.
    fn found_or_read(&self, address: Address, read: impl FnOnce() -> Result<Cached>) -> Result<Cached> {
        self.items.get_or_insert_with(&address, || {
            self.misses.fetch_add(1, Ordering::Relaxed);
            read()
        })
    }

    /// The content of the page that begins at this block, if it is in memory; that it was asked for counts for nothing.
    pub fn peek_page(&self, table: &Table, block: u64) -> Option<Arc<[u8]>> {
        match self.items.peek(&Address { table: table.id(), block })? {
            Cached::Page(page) => Some(page),
            Cached::Span(_) => None,
        }
    }

    /// Adapts to what these tables may have in memory themselves.
    pub fn make_room_for(&self, tables: &[Visible]) {
        self.items.set_capacity(room(self.memory_max, tables));
    }

    /// Drops everything of these tables.
    pub fn forget(&self, ids: &[TableId]) {
        self.items.retain(|address, _| !ids.contains(&address.table));
    }

    /// How often something was found.
    pub fn hits(&self) -> u64 {
        self.items.hits()
    }

    /// How often something was not found.
    pub fn misses(&self) -> u64 {
        self.misses.load(Ordering::Relaxed)
    }

    /// Bytes in use.
    pub fn used(&self) -> u64 {
        self.items.weight()
    }
}

/// At least an eighth is for the cache, even if roots then exceed the bound: without any cache every lookup reads a span.
fn room(memory_max: u64, tables: &[Visible]) -> u64 {
    let taken = tables.iter().map(Visible::size_max).sum();
    memory_max.saturating_sub(taken).max(memory_max / 8)
}

#[derive(Clone)]
struct Weight;

impl Weighter<Address, Cached> for Weight {
    fn weight(&self, _: &Address, value: &Cached) -> u64 {
        let size = match value {
            Cached::Span(span) => span.size(),
            Cached::Page(page) => page.len(),
        };
        size as u64 + ITEM_OVERHEAD
    }
}

/// Bytes that an item takes beside its content: a slot of the cache, half a slot of its memory of dropped items, two
/// reference counts, and what the allocator adds. Rounded up.
const ITEM_OVERHEAD: u64 = 192;
/// Nearly all items are pages of one block.
const ITEM_SIZE_TYPICAL: u64 = 4096;
/// Fixed, so that what is dropped when does not depend on the machine.
const SHARDS: usize = 16;

//! The tables that readers see.
//!
//! Spans are asked for by every lookup, also by those that find nothing, so those of the newest tables stay in memory outside of the
//! cache, where finding them takes no lock and no reference count. Half of the index's memory may be used for that; the
//! spans of other tables go through the cache.

use std::{
    ops::Deref,
    sync::{Arc, OnceLock},
};

use tyr_types::Result;
use tyr_wire::{
    Malformed,
    table::{Entries, Span},
};

use super::{cache::Cache, table::Table};

/// A visible table.
#[derive(Clone)]
pub(super) struct Visible {
    table: Arc<Table>,
    /// None if the spans go through the cache.
    resident: Option<Arc<[OnceLock<Span>]>>,
}

/// What a table says of a key.
pub(super) enum Lookup {
    /// Nothing: an older table may know it.
    Absent,
    /// It has no value.
    Deleted,
    /// Its value.
    Value(Box<[u8]>),
}

/// A span, wherever it is.
pub(super) enum SpanRef<'a> {
    Resident(&'a Span),
    Cached(Arc<Span>),
}

impl SpanRef<'_> {
    /// The span, unless it stays in memory anyway.
    pub fn held(self) -> Option<Arc<Span>> {
        match self {
            SpanRef::Resident(_) => None,
            SpanRef::Cached(span) => Some(span),
        }
    }
}

impl Deref for SpanRef<'_> {
    type Target = Span;

    fn deref(&self) -> &Span {
        match self {
            SpanRef::Resident(span) => span,
            SpanRef::Cached(span) => span,
        }
    }
}

impl Visible {
    /// Makes these tables visible, the newest first. Spans that `before` has in memory are kept if there is still room.
    pub fn list(tables: Vec<Arc<Table>>, before: &[Visible], memory_max: u64) -> Arc<[Visible]> {
        let mut room = memory_max / 2;
        let visible = tables.into_iter().map(|table| {
            let size = spans_size_max(&table);
            if size > room {
                return Visible { table, resident: None };
            }
            room -= size;
            let same = before.iter().find(|visible| Arc::ptr_eq(&visible.table, &table));
            let kept = same.and_then(|visible| visible.resident.clone());
            let empty = || (0..table.root().len()).map(|_| OnceLock::new()).collect();
            Visible { resident: Some(kept.unwrap_or_else(empty)), table }
        });
        visible.collect()
    }

    /// The table.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// The most bytes that it may have in memory beside the cache.
    pub fn size_max(&self) -> u64 {
        let spans = if self.resident.is_some() { spans_size_max(&self.table) } else { 0 };
        self.table.root().size() as u64 + spans
    }

    /// Bytes that it now has in memory beside the cache.
    pub fn size(&self) -> u64 {
        let slots = self.resident.as_deref().unwrap_or_default();
        let spans: usize = slots.iter().map(|slot| slot.get().map_or(0, Span::size)).sum();
        (self.table.root().size() + size_of_val(slots) + spans) as u64
    }

    /// What it says of the key, which has this hash.
    pub fn lookup(&self, cache: &Cache, key: &[u8], hash: u64) -> Result<Lookup> {
        let Some(index) = self.table.root().find(key) else { return Ok(Lookup::Absent) };
        let span = self.span(cache, index)?;
        if !span.filter().may_contain(hash) {
            return Ok(Lookup::Absent);
        }
        let place = self.table.root().span(index);
        let page = span.find(key).map_err(|malformed| self.table.damaged(place.span_block(), malformed))?;
        let (block, blocks) = self.table.page_place(place, &span, page)?;
        let content = cache.page(&self.table, block, blocks)?;
        search(&content, key).map_err(|malformed| self.table.damaged(block, malformed))
    }

    /// The span of this index.
    pub fn span(&self, cache: &Cache, index: usize) -> Result<SpanRef<'_>> {
        let Some(slots) = &self.resident else { return cache.span(&self.table, index).map(SpanRef::Cached) };
        let slot = &slots[index];
        if let Some(span) = slot.get() {
            return Ok(SpanRef::Resident(span));
        }
        let span = self.table.read_span(self.table.root().span(index))?;
        Ok(SpanRef::Resident(slot.get_or_init(|| span)))
    }

    /// The span of this index, if it was asked for before and stays in memory.
    pub fn resident(&self, index: usize) -> Option<&Span> {
        self.resident.as_ref()?[index].get()
    }
}

fn spans_size_max(table: &Table) -> u64 {
    let root = table.root();
    let spans: u64 = (0..root.len()).map(|index| Span::size_max(&root.span(index))).sum();
    spans + (size_of::<OnceLock<Span>>() * root.len()) as u64
}

fn search(page: &[u8], key: &[u8]) -> Result<Lookup, Malformed> {
    let entries = Entries::decode(page)?;
    let Ok(index) = entries.search(key)? else { return Ok(Lookup::Absent) };
    let value = entries.entry(index)?.value;
    Ok(value.map_or(Lookup::Deleted, |value| Lookup::Value(value.into())))
}

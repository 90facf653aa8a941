//! Which tables to merge.
//!
//! Size-tiered: a table is in tier n if it has up to `TIER_SIZE * fan_out ^ n` bytes, and it is in no smaller tier than any newer table. When a
//! tier has `fan_out` tables they become one, which is then in the next tier. So an entry is rewritten once a tier, about
//! log(all bytes / bytes of a flush) to the base of the fan-out times, and there are fewer than `fan_out` tables a tier.

use std::ops::Range;

use tyr_wire::table::{TableId, TableSummary};

use super::visible::Visible;

/// A decision to merge tables that lie side by side in age.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merge {
    tables: Vec<TableId>,
    bytes: u64,
}

impl Merge {
    pub(super) fn of(run: &[TableSummary]) -> Self {
        Merge {
            tables: run.iter().map(|table| table.id).collect(),
            bytes: run.iter().map(|table| table.bytes).sum(),
        }
    }

    /// Not too many at once, because each of them takes memory while it is read.
    fn of_oldest(run: &[TableSummary], fan_out: usize) -> Self {
        Merge::of(&run[run.len().saturating_sub(4 * fan_out)..])
    }

    /// The tables, the newest first.
    pub fn tables(&self) -> &[TableId] {
        &self.tables
    }

    /// How many bytes are read, and written at most.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// What to merge of these tables, which are in order with the newest first.
pub(super) fn plan(tables: &[TableSummary], fan_out: usize) -> Option<Merge> {
    if mostly_tombstones(tables) {
        return plan_full(tables);
    }
    let mut start = 0;
    let mut start_tier = 0;
    for (index, table) in tables.iter().enumerate() {
        let tier = tier(table.bytes, fan_out);
        if tier > start_tier {
            if index - start >= fan_out {
                return Some(Merge::of_oldest(&tables[start..index], fan_out));
            }
            (start, start_tier) = (index, tier);
        }
    }
    let run = &tables[start..];
    (run.len() >= fan_out).then(|| Merge::of_oldest(run, fan_out))
}

/// Everything.
pub(super) fn plan_full(tables: &[TableSummary]) -> Option<Merge> {
    (!tables.is_empty()).then(|| Merge::of(tables))
}

/// Where these tables lie, if they are a run of the visible ones, the newest first. No tables lie before all others.
pub(super) fn run_of(visible: &[Visible], ids: &[TableId]) -> Option<Range<usize>> {
    let Some(first) = ids.first() else { return Some(0..0) };
    let start = visible.iter().position(|visible| visible.table().id() == *first)?;
    let run = visible.get(start..start + ids.len())?;
    run.iter().zip(ids).all(|(visible, id)| visible.table().id() == *id).then_some(start..start + ids.len())
}

/// Merging everything then pays for itself: at most as many entries are rewritten as tombstones go away.
fn mostly_tombstones(tables: &[TableSummary]) -> bool {
    let entries: u64 = tables.iter().map(|table| table.entries).sum();
    let tombstones: u64 = tables.iter().map(|table| table.tombstones).sum();
    tombstones > entries / 2
}

fn tier(bytes: u64, fan_out: usize) -> u32 {
    let mut tier = 0;
    let mut size = TIER_SIZE;
    while size < bytes {
        size = size.saturating_mul(fan_out as u64);
        tier += 1;
    }
    tier
}

/// Bytes of the largest table of the first tier. A flush is rarely smaller, and tables below this size are cheap to rewrite.
const TIER_SIZE: u64 = 4 << 20;

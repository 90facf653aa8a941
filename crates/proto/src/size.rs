//! About how many bytes the entries of a log take where they are written or sent: never much less, and seldom twice as much.
//!
//! Invariant: what a partition logs of one transaction fits its store's log, and a message. A chain takes with it what earlier stops have
//! settled, so each stop looks at the whole; and a blob has no more chunks than one transaction can cut off, or nobody could delete it.

use alloc::sync::Arc;

use crate::{
    Answered, Operation, Plan,
    entry::{ChunkOperation, ChunkWrite, Discard, Entry, HeadEffect, Stop, Tombstone},
    transaction::{Condition, HeadPlan, Seen},
};

/// How much of a payload counts.
type Counts = fn(usize) -> usize;

impl Entry {
    /// All of it.
    pub fn size(&self) -> usize {
        match self {
            Entry::Prepare(prepare) => plan(&prepare.plan, whole) + stops(&prepare.stops),
            Entry::Refuse(refused) => {
                SMALL
                    + refused.plan.as_ref().map_or(0, |refused| plan(refused, whole))
                    + stops(&refused.stops)
            }
            Entry::Write(writes) => {
                let size = |written: &ChunkWrite| {
                    chunk_write(written) + written.operations.iter().map(written_payload).sum::<usize>()
                };
                let named = |key: &[u8], write| SMALL + key.len() + size(write);
                SMALL
                    + writes
                        .writes
                        .iter()
                        .map(|(blob, _, write)| named(blob.key.as_bytes(), write))
                        .sum::<usize>()
            }
            Entry::Stage(stage) => SMALL + stage.part.len(),
            Entry::Outcomes(outcomes) => SMALL + outcomes.len() * OUTCOME,
            Entry::Collected(blobs) => {
                SMALL + blobs.iter().map(|(blob, _)| SMALL + blob.key.as_bytes().len()).sum::<usize>()
            }
            Entry::Collect(discards) => SMALL + discards.iter().map(discard).sum::<usize>(),
            Entry::Purge(tombstones) => {
                let size = |tombstone: &Tombstone| SMALL + tombstone.chunk.blob.key.as_bytes().len();
                SMALL + tombstones.iter().map(size).sum::<usize>()
            }
            Entry::Forget { answered, .. } => SMALL + answered.as_deref().map_or(0, exceptions),
            Entry::Mark { answered, .. } => SMALL + exceptions(answered),
            Entry::Marker
            | Entry::Unstage { .. }
            | Entry::Expire { .. }
            | Entry::Keep(_)
            | Entry::LetGo(_)
            | Entry::Lend { .. } => SMALL,
        }
    }
}

fn exceptions(answered: &Answered) -> usize {
    size_of_val(answered.exceptions())
}

/// What a promise takes in the log of a store, which keeps large payload apart.
pub fn logged(transaction: &Plan, before: &[Stop], effects: &[Arc<HeadEffect>]) -> usize {
    plan(transaction, small) + stops(before) + effects.iter().map(|own| effect(own)).sum::<usize>()
}

/// The most chunks of a blob that one entry of so many bytes can cut off: at its head, and in as many partitions where its chunks lie.
pub fn chunks_max(entry_max: usize, key: &[u8], partitions: u32) -> usize {
    // Not all have as many.
    let elsewhere = 2 * (SMALL + key.len() + CUT) / partitions.max(1) as usize;
    (entry_max - entry_max / 5) / CUT.max(elsewhere)
}

/// What a transaction takes that deletes a blob with so many chunks.
pub fn deletion(key: &[u8], chunks: usize) -> usize {
    3 * SMALL + OPERATION + RANGE + key.len() + chunks * CUT
}

fn plan(plan: &Plan, counts: Counts) -> usize {
    let heads = plan.heads.iter().map(|head| head_plan(head, counts));
    SMALL + heads.sum::<usize>()
}

fn head_plan(head: &HeadPlan, counts: Counts) -> usize {
    let operations = head.operations.iter().map(|done| operation(done, counts));
    let conditions = head.conditions.iter().map(condition);
    SMALL
        + head.blob.key.as_bytes().len()
        + head.seen.as_ref().map_or(0, seen)
        + conditions.sum::<usize>()
        + operations.sum::<usize>()
}

fn seen(seen: &Seen) -> usize {
    let names = seen.attributes.iter().map(|name| LENGTH + name.len());
    SMALL + seen.ranges.len() * RANGE + names.sum::<usize>()
}

fn condition(condition: &Condition) -> usize {
    let more = match condition {
        Condition::Attribute { name, value } => attribute(name, value.as_deref()),
        Condition::Exists | Condition::Missing | Condition::Size(_) => 0,
    };
    OPERATION + more
}

fn operation(operation: &Operation, counts: Counts) -> usize {
    let more = match operation {
        Operation::Write { bytes, .. } | Operation::Append { bytes } => counts(bytes.len()),
        Operation::SetAttribute { name, value } => attribute(name, value.as_deref()),
        _ => 0,
    };
    OPERATION + more
}

fn attribute(name: &str, value: Option<&[u8]>) -> usize {
    2 * LENGTH + name.len() + value.map_or(0, <[u8]>::len)
}

fn stops(stops: &[Stop]) -> usize {
    let effects = stops.iter().flat_map(|stop| &stop.effects).map(|own| effect(own));
    stops.len() * SMALL + effects.sum::<usize>()
}

fn effect(effect: &HeadEffect) -> usize {
    let attributes = effect.attributes.iter().map(|(name, value)| attribute(name, value.as_deref()));
    let olds = effect.olds.iter().map(|(_, old)| 2 * LENGTH + old.len());
    let writes = effect.writes.iter().map(chunk_write);
    SMALL
        + (effect.offsets.len() + effect.ranges.len()) * RANGE
        + attributes.sum::<usize>()
        + olds.sum::<usize>()
        + writes.sum::<usize>()
}

/// Without its payload, which is that of the plan.
fn chunk_write(write: &ChunkWrite) -> usize {
    CUT - OPERATION + write.operations.len() * OPERATION
}

fn written_payload(operation: &ChunkOperation) -> usize {
    match operation {
        ChunkOperation::Write { part, .. } => part.len(),
        _ => 0,
    }
}

fn discard(discard: &Discard) -> usize {
    SMALL + discard.chunk.blob.key.as_bytes().len() + discard.keep.len() * NUMBER
}

fn whole(length: usize) -> usize {
    length
}

fn small(length: usize) -> usize {
    if length < APART_MIN { length } else { 0 }
}

/// Numbers, names of transactions and partitions: what most things have.
const SMALL: usize = 48;
const LENGTH: usize = 4;
const NUMBER: usize = 10;
const OUTCOME: usize = 32;
const RANGE: usize = 20;
const OPERATION: usize = 24;
/// A chunk of which something is cut off.
const CUT: usize = 64;
/// Payload of this size has a place of its own.
const APART_MIN: usize = 4 << 10;

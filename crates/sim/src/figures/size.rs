//! About how many bytes a message will have: there is no encoding of messages yet.
//!
//! Counted are 24 bytes of frame and address per message; 20 for a transaction's id (session, sequence, birth); 8 for a number, an
//! offset, a size; 5 for a partition; 2 for a position or a length; 1 for a tag; keys and payload as they are. Payload that is in a
//! plan is not counted again in the effects of the same message, which refer to it.

use tyr_proto::{
    BlobName, Extent, Operation, Plan, Stage,
    entry::{ChunkOperation, ChunkWrite, ChunkWrites, Entry, Stop},
    message::{Answer, Looked, Message},
};

const FRAME: u64 = 24;
const ID: u64 = 20;
const NUMBER: u64 = 8;
const PARTITION: u64 = 5;
const POSITION: u64 = 2;
const TAG: u64 = 1;

/// The estimated bytes of a message.
pub fn of_message(message: &Message) -> u64 {
    FRAME
        + match message {
            Message::Start(plan) => of_plan(plan),
            Message::Pass { plan, stops } => of_plan(plan) + of_stops(stops),
            Message::Write { writes, .. } => PARTITION + of_writes(writes),
            Message::Append { entries, .. } => {
                4 * NUMBER + entries.iter().map(|(_, entry)| NUMBER + of_entry(entry)).sum::<u64>()
            }
            Message::Olds { olds, .. } => {
                ID + PARTITION + olds.values().map(|old| POSITION + len(old.len())).sum::<u64>()
            }
            Message::AskPins { blobs, .. } => {
                NUMBER + blobs.iter().map(|(blob, _)| of_name(blob) + NUMBER).sum::<u64>()
            }
            Message::Pins { blobs, .. } => {
                NUMBER
                    + blobs
                        .iter()
                        .map(|(blob, _, held)| of_name(blob) + NUMBER * (1 + len(held.len())))
                        .sum::<u64>()
            }
            Message::Look { blob, .. } => 2 * NUMBER + of_name(blob),
            Message::Pin { .. } => 2 * NUMBER + TAG,
            Message::Freeze { freeze, stands } => {
                3 * NUMBER + of_extent(&freeze.extent) + len(stands.len()) * NUMBER
            }
            Message::Read { chunk, .. } => 6 * NUMBER + of_name(&chunk.blob),
            Message::Stage(stage) | Message::Pulled(stage) => of_stage(stage),
            _ => ID + NUMBER + PARTITION + TAG,
        }
}

/// The estimated bytes of an answer.
pub fn of_answer(answer: &Answer) -> u64 {
    FRAME
        + match answer {
            Answer::Outcome { outcome, .. } => {
                ID + TAG
                    + outcome
                        .iter()
                        .map(|(_, results)| len(results.len()) * (2 * POSITION + NUMBER))
                        .sum::<u64>()
            }
            Answer::Looked { blob, .. } => {
                3 * NUMBER
                    + blob.iter().map(|blob| NUMBER + len(blob.written.len()) * 2 * NUMBER).sum::<u64>()
            }
            Answer::Frozen { blobs, .. } => {
                let each = |(name, _, blob): &(BlobName, _, Option<Looked>)| {
                    let looked = blob.iter().map(|blob| 2 * NUMBER + len(blob.written.len()) * 2 * NUMBER);
                    of_name(name) + NUMBER + TAG + looked.sum::<u64>()
                };
                4 * NUMBER + PARTITION + blobs.iter().map(each).sum::<u64>()
            }
            Answer::Bytes { bytes, .. } => 3 * NUMBER + TAG + len(bytes.len()),
            _ => 3 * NUMBER,
        }
}

fn of_entry(entry: &Entry) -> u64 {
    TAG + match entry {
        Entry::Prepare(prepare) => of_plan(&prepare.plan) + of_stops(&prepare.stops),
        Entry::Refuse(refused) => {
            ID + refused.plan.iter().map(|plan| of_plan(plan)).sum::<u64>() + of_stops(&refused.stops)
        }
        Entry::Write(writes) => of_writes(writes),
        Entry::Outcomes(outcomes) => len(outcomes.len()) * (ID + TAG),
        Entry::Collected { blob, .. } => of_name(blob) + NUMBER,
        Entry::Collect { chunk, keep, .. } => of_name(&chunk.blob) + (2 + len(keep.len())) * NUMBER,
        Entry::Marker => 0,
        Entry::Forget { .. } | Entry::Mark { .. } | Entry::Unstage { .. } | Entry::Expire { .. } => {
            ID + NUMBER
        }
        Entry::Stage(stage) => of_stage(stage),
    }
}

fn of_plan(plan: &Plan) -> u64 {
    let heads = plan.heads.iter().map(|head| {
        let seen =
            head.seen.iter().map(|seen| NUMBER + TAG + len(seen.ranges.len()) * 2 * NUMBER).sum::<u64>();
        PARTITION + of_name(&head.blob) + seen + head.operations.iter().map(of_operation).sum::<u64>()
    });
    ID + NUMBER + heads.sum::<u64>()
}

fn of_operation(operation: &Operation) -> u64 {
    TAG + match operation {
        Operation::Write { bytes, .. } | Operation::Append { bytes } => NUMBER + POSITION + len(bytes.len()),
        Operation::Transform { .. } => 2 * NUMBER + TAG,
        Operation::SetAttribute { name, value } => {
            len(name.len()) + 2 * POSITION + value.iter().map(|value| len(value.len())).sum::<u64>()
        }
        Operation::WriteStaged { .. } => 2 * NUMBER,
        Operation::Create
        | Operation::Delete
        | Operation::AppendStaged { .. }
        | Operation::Truncate { .. } => NUMBER,
    }
}

fn of_stops(stops: &[Stop]) -> u64 {
    let effects = stops.iter().flat_map(|stop| &stop.effects).map(|effect| {
        let writes = effect.writes.iter().map(|write| of_write(write, false)).sum::<u64>();
        2 * TAG
            + NUMBER
            + writes
            + len(effect.offsets.len()) * (POSITION + NUMBER)
            + len(effect.ranges.len()) * 2 * NUMBER
    });
    len(stops.len()) * (PARTITION + 2 * POSITION + NUMBER) + effects.sum::<u64>()
}

fn of_writes(writes: &ChunkWrites) -> u64 {
    let each = writes.writes.iter().map(|(blob, _, write)| of_name(blob) + NUMBER + of_write(write, true));
    ID + PARTITION + TAG + each.sum::<u64>()
}

fn of_write(write: &ChunkWrite, with_payload: bool) -> u64 {
    let link = if write.previous.is_some() { NUMBER + ID + PARTITION } else { 0 };
    let operations = write.operations.iter().map(|operation| match operation {
        ChunkOperation::Write { part, .. } => {
            NUMBER + 2 * POSITION + if with_payload { len(part.len()) } else { 0 }
        }
        ChunkOperation::Transform { .. } => 2 * NUMBER + 2 * POSITION + TAG,
        ChunkOperation::Staged { .. } => 3 * NUMBER + 2 * POSITION,
        ChunkOperation::Cut { .. } => NUMBER,
    });
    NUMBER + PARTITION + TAG + link + operations.map(|size| TAG + size).sum::<u64>()
}

fn of_extent(extent: &Extent) -> u64 {
    match extent {
        Extent::Blobs(blobs) => blobs.iter().map(|(_, blob)| PARTITION + of_name(blob)).sum(),
        Extent::Prefix(_, prefix) => NUMBER + len(prefix.len()),
    }
}

fn of_stage(stage: &Stage) -> u64 {
    ID + PARTITION + 2 * POSITION + NUMBER + len(stage.part.len())
}

fn of_name(blob: &BlobName) -> u64 {
    4 + POSITION + len(blob.key.as_bytes().len())
}

fn len(length: usize) -> u64 {
    length as u64
}

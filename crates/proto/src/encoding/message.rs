//! The layouts of what nodes and clients say to one another.

use alloc::sync::Arc;

use tyr_types::{CHUNK_SIZE_MAX, Number};

use super::{Malformed, ensure, entry::are_stops_of};
use crate::{
    Epoch, Extent, Freeze, Stand,
    canary::{Canary, planted},
    entry::Entry,
    layout,
    message::{
        Answer, BlobStat, Envelope, HeadStat, Looked, Message, READ_SIZE_MAX, RequestId, STAT_BLOBS_MAX,
    },
    stages::STAGE_SIZE_MAX,
};

layout!(struct Envelope { partition, message });
layout!(struct RequestId { session, number });

layout!(enum Message {
    0 => Start(plan),
    1 => AskOutcome { id, settle },
    2 => Answered { session, answered, born },
    3 => Look { request, blob },
    4 => Pin { request, keep },
    5 => Read { request, chunk, range, at },
    6 => Scan { request, after, inclusive, limit },
    7 => Freeze { freeze, stands },
    8 => Frozen { request, stand, point },
    9 => Stat { request, blobs },
    10 => Locate { request, chunk, range, at },
    11 => Get { request, blob, size_max },
    12 => Kept { request, keep, after },
    13 => GetWith { request, blob, size_max, others },
    14 => Borrow { request, blob, size_max },
    15 => GiveBack { session, blob, asked },
    16 => Stage(stage),
    17 => KeepStages { id },
    18 => StageCopy(copy),
    19 => Seek { request, chunk, range, what },
    20 => TellFrozen { request, after },

    32 => Pass { plan, stops },
    33 => Release { id },
    34 => Write { writes, driver },
    35 => Vote { id, part },
    36 => AskVote { id, decider },
    37 => Outcome { id, outcome, driver },
    38 => OutcomeStored { id, part },
    39 => Olds { id, part, olds },
    40 => Ask { id, partition, node },
    41 => AskNumber { number, id, partition },
    42 => NumberLost { number, id },
    43 => Forget { id, answered, driver },
    44 => Forgotten { id, part },
    48 => Pull { id, payload, part, partition },
    49 => Pulled(stage),
    50 => Settle { id, partition, node },
    51 => Settled { id },
    52 => SendCopy { copy, partition },
    53 => CopyLost { id },
    54 => AskPrevious { number, previous, id, partition },
    55 => PreviousOver { number, id },
    56 => AskRoom { partition },
    57 => Room { partition, is_short },
    58 => AskStands { number, id, asked, partition },
    59 => Stands { id, asked, stands },
    45 => Fetch { id, chunk, range, at, partition },
    46 => Fetched { id, chunk, range, at, bytes },

    64 => Append { epoch, previous, entries, durable },
    65 => Stored { epoch, index, node, is_short },
    66 => Reconcile { epoch, epochs, start },
    67 => Reconciled { epoch, index, node },
    68 => Copy { epoch, index, epochs, size, from, bytes },
    69 => Copied { epoch, index, from, node },

    96 => AskPins { epoch, blobs },
    97 => Pins { epoch, node, blobs },
    98 => Collected { discards },
    99 => Collect { head, discards },
    100 => Subscribe { blob, holder, partition, ask },
    101 => Cached { blob, ask, lasts, stat },
    102 => Uncache { of, from, blob, holder, ask },
    103 => Uncached { blob, holder, partition, ask },
    104 => AskPurge { tombstones, partition, ask },
    105 => Purge { gone, alive, ask },
} check is_sound);

layout!(enum Answer {
    0 => Outcome { id, outcome },
    1 => Looked { request, partition, number, blob },
    2 => Bytes { request, version, bytes, whole },
    3 => Expired { request },
    4 => Names { request, names, more },
    5 => MarkNoted { partition, answered },
    6 => Elsewhere { partition, configuration },
    7 => Frozen { request, point, partition, blobs },
    8 => Stats { request, stats },
    9 => Located { request, version, stretches, whole },
    10 => Got { request, number, blob, bytes },
    11 => Denied { request },
    12 => Kept { request, number, blobs, next },
    13 => GotWith { request, number, blob, bytes, others },
    14 => Lent { request, number, blob, bytes, lasts },
    15 => Recall { partition, blob, asked },
    16 => Staged { id, payload, from },
    17 => Unstaged { id, refusal },
    18 => Sought { request, found },
    19 => FrozenPart { request, point, partition, after, blobs, more },
});
layout!(struct Freeze { request, stays, extent });
layout!(enum Extent { 0 => Blobs(blobs), 1 => Prefixes(prefixes), 2 => Keyspace(keyspace, snapshot) });
layout!(struct Stand { epoch, count });
layout!(struct Looked { creation, size, attributes, written });
layout!(struct HeadStat { number, blob });
layout!(struct BlobStat { creation, size, attributes });

/// Indexes are places of a log, and reads lie in a chunk: whoever handles them counts on from there.
fn is_sound(message: &Message) -> Result<(), Malformed> {
    let is_index = |index: u64| ensure(index <= Number::MAX.index(), "an index is out of bounds");
    match message {
        Message::Read { range, .. }
        | Message::Locate { range, .. }
        | Message::Fetch { range, .. }
        | Message::Fetched { range, .. } => {
            ensure(range.end <= CHUNK_SIZE_MAX, "a chunk is read past its end")?;
            ensure(range.end - range.start <= READ_SIZE_MAX, "too much is read at once")
        }
        Message::Seek { range, .. } => {
            ensure(range.end <= CHUNK_SIZE_MAX, "a chunk is looked through past its end")
        }
        Message::StageCopy(copy) | Message::SendCopy { copy, .. } => {
            ensure(copy.range.end <= CHUNK_SIZE_MAX, "a chunk is copied past its end")?;
            let length = copy.range.end - copy.range.start;
            ensure((1..=STAGE_SIZE_MAX).contains(&length), "nothing is copied, or too much at once")?;
            ensure(copy.from.checked_add(length).is_some(), "a stage is out of bounds")
        }
        Message::Get { size_max, .. } | Message::Borrow { size_max, .. } => {
            ensure(*size_max <= READ_SIZE_MAX, "too much is read at once")
        }
        Message::GetWith { size_max, others, .. } => {
            ensure(*size_max <= READ_SIZE_MAX, "too much is read at once")?;
            ensure(others.len() <= STAT_BLOBS_MAX, "too many heads are asked for")
        }
        Message::Stat { blobs, .. } => {
            ensure((1..=STAT_BLOBS_MAX).contains(&blobs.len()), "no heads are asked for, or too many")
        }
        Message::Pass { plan, stops } => are_stops_of(stops, Some(plan)),
        Message::Append { epoch, previous, entries, .. } => {
            is_index(previous.saturating_add(entries.len() as u64))?;
            is_part_of_a_log(*epoch, *previous, entries)
        }
        Message::Stored { index, .. } | Message::Reconciled { index, .. } | Message::Copy { index, .. } => {
            is_index(*index)
        }
        _ => Ok(()),
    }
}

/// Fails unless these entries can follow one another: epochs do not fall, and a promise gives the number of its place.
fn is_part_of_a_log(epoch: Epoch, previous: u64, entries: &[(Epoch, Arc<Entry>)]) -> Result<(), Malformed> {
    let is_ascending = entries.is_sorted_by_key(|(epoch, _)| *epoch);
    let is_past = entries.last().is_none_or(|(last, _)| *last <= epoch);
    ensure(is_ascending && is_past, "the epochs of a log are out of order")?;
    let is_in_place = |(index, (epoch, entry)): (u64, &(Epoch, Arc<Entry>))| match &**entry {
        Entry::Prepare(prepare) => prepare.stop().number == Number::new(epoch.0, index),
        _ => true,
    };
    let are_in_place = (previous + 1..).zip(entries).all(is_in_place) || planted(Canary::NumbersReused);
    ensure(are_in_place, "a promise does not give the number of its place in the log")
}

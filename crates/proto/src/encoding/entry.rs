//! The layouts of what a partition's log holds.

use tyr_types::OFFSET_MAX;

use super::{Decode, Decoder, Encode, Encoder, Malformed, ensure};
use crate::{
    Plan, StopPlan,
    entry::{
        ChunkOperation, ChunkWrite, ChunkWrites, Discard, Entry, ExistenceEffect, HeadEffect, Link, Part,
        Prepare, Refused, SizeEffect, Stop, Tombstone,
    },
    layout,
};

layout!(enum Entry {
    0 => Marker,
    1 => Prepare(prepare),
    2 => Refuse(refused),
    3 => Write(writes),
    4 => Outcomes(outcomes),
    5 => Forget { id, answered },
    6 => Mark { session, answered, born },
    7 => Collected(blobs),
    8 => Collect(discards),
    9 => Stage(stage),
    10 => Unstage { id },
    11 => Expire { session, born },
    12 => Lend { lasts },
    13 => Keep(name),
    14 => LetGo(name),
    15 => Purge(tombstones),
});

layout!(struct Discard { chunk, up_to, keep });
layout!(struct Tombstone { chunk, last });

layout!(struct Prepare { plan, stops } check |prepare: &Prepare| {
    ensure(!prepare.stops.is_empty(), "a promise was made at no stop")?;
    are_stops_of(&prepare.stops, Some(&prepare.plan))
});
layout!(struct Refused { id, refusal, plan, stops } check |refused: &Refused| {
    are_stops_of(&refused.stops, refused.plan.as_deref())
});
layout!(struct Stop { partition, heads, number, effects });
layout!(struct HeadEffect { existence, size, attributes, writes, offsets, ranges, olds });
layout!(enum ExistenceEffect { 0 => Stays, 1 => Begins, 2 => Ends, 3 => Restarts });
layout!(enum SizeEffect { 0 => Stays, 1 => AtLeast(size), 2 => Exactly(size) });

layout!(struct ChunkWrites { id, decider, refused, writes });
layout!(struct ChunkWrite { chunk, partition, previous, operations, drops_former });
layout!(struct Link { number, id, decider });
layout!(enum Part { 0 => Heads(partition), 1 => Chunks(partition) });

/// Fails unless these are the first stops of the plan's chain, each with an effect for each of its heads.
pub(super) fn are_stops_of(stops: &[Stop], plan: Option<&Plan>) -> Result<(), Malformed> {
    let mut planned = plan.into_iter().flat_map(Plan::stops);
    let are_planned = stops.iter().all(|stop| {
        let is_planned =
            |planned: StopPlan| (stop.partition, &stop.heads) == (planned.partition, &planned.heads);
        stop.effects.len() == stop.heads.len() && planned.next().is_some_and(is_planned)
    });
    ensure(are_planned, "the stops are not those of the plan")
}

/// Of the payload of a write only the part that it writes.
impl Encode for ChunkOperation {
    fn encode(&self, out: &mut Encoder) {
        match self {
            ChunkOperation::Write { offset, bytes, part } => {
                out.byte(0);
                out.varint(*offset);
                out.payload_part(bytes, part);
            }
            ChunkOperation::Transform { offset, transform, answers } => {
                out.byte(1);
                out.varint(*offset);
                transform.encode(out);
                answers.encode(out);
            }
            ChunkOperation::Cut { range } if range.end == u64::MAX => {
                out.byte(2);
                out.varint(range.start);
            }
            ChunkOperation::Cut { range } => {
                out.byte(4);
                out.varint(range.start);
                out.varint(range.end.saturating_sub(range.start));
            }
            ChunkOperation::Staged { offset, payload, part } => {
                out.byte(3);
                out.varint(*offset);
                payload.encode(out);
                part.encode(out);
            }
        }
    }
}

impl Decode for ChunkOperation {
    fn decode(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let (kind, offset) = (input.byte()?, input.varint()?);
        let (operation, length) = match kind {
            3 => {
                let (payload, part): (_, core::ops::Range<u64>) =
                    (Decode::decode(input)?, Decode::decode(input)?);
                let length = part.end.saturating_sub(part.start);
                (ChunkOperation::Staged { offset, payload, part }, length)
            }
            0 => {
                let (bytes, part) = input.payload_part()?;
                let length = part.len() as u64;
                (ChunkOperation::Write { offset, bytes, part }, length)
            }
            1 => {
                let (transform, answers) = (tyr_types::Transform::decode(input)?, Decode::decode(input)?);
                (
                    ChunkOperation::Transform { offset, transform, answers },
                    transform.number_type().size() as u64,
                )
            }
            2 => (ChunkOperation::Cut { range: offset..u64::MAX }, 0),
            4 => {
                let length = input.varint()?;
                (ChunkOperation::Cut { range: offset..offset.saturating_add(length) }, length)
            }
            _ => return Err(Malformed("there is no such kind of ChunkOperation")),
        };
        let end = offset.checked_add(length).filter(|end| *end <= OFFSET_MAX);
        ensure(end.is_some(), "a chunk is changed past the largest offset")?;
        Ok(operation)
    }
}

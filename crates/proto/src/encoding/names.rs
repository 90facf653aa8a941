//! The layouts of what names things, of who holds them, and of what a client asks for.

use alloc::vec::Vec;

use tyr_types::Number;

use super::{Decode, Decoder, Encode, Encoder, Malformed, ensure};
use crate::{
    BlobName, ChunkName, ClassId, Condition, Configuration, Epoch, Grant, HeadPlan, Incarnation, Keyspace,
    KeyspaceSeed, LeaseRequest, LeaseTerms, NodeId, Operation, OperationResult, Outcome, PartitionId,
    Placement, Plan, Refusal, Replica, ResultValue, RingVersion, Seen, SessionId, Snapshots, Time,
    TransactionId, layout,
};

layout!(struct NodeId(number));
layout!(struct Incarnation(number));
layout!(struct Replica { node, incarnation });
layout!(struct Time(micros));
layout!(struct LeaseTerms { length, drift_max });
layout!(struct LeaseRequest { holder, sent });
layout!(enum Grant { 0 => Granted(request), 1 => NotLeading, 2 => Evicted });

layout!(struct ClassId(number));
layout!(struct PartitionId { class, index });
layout!(struct Epoch(number) check |epoch: &Epoch| ensure(epoch.0 <= Number::EPOCH_MAX, "an epoch is out of bounds"));
layout!(struct RingVersion(number) check |version: &RingVersion| {
    ensure(*version <= RingVersion::MAX, "a ring version is out of bounds")
});
layout!(struct Configuration { epoch, since, floor, replicas, learners });
layout!(struct KeyspaceSeed(bytes));
layout!(struct Placement { class, partitions, seed, layout });

layout!(struct SessionId(number));
layout!(struct TransactionId { session, sequence, birth });
layout!(struct BlobName { keyspace, key });
layout!(struct ChunkName { blob, index });

layout!(struct Plan { id, answered, reserve, heads } check plan_is_sound);
layout!(struct Seen { number, ranges, existence, size, attributes, all_attributes, version });
layout!(enum Condition { 0 => Exists, 1 => Missing, 2 => Size(bytes), 3 => Attribute { name, value } });
layout!(enum Operation {
    0 => Create,
    1 => Delete,
    2 => Write { offset, bytes },
    3 => Append { bytes },
    4 => Truncate { size },
    5 => Transform { offset, transform },
    6 => SetAttribute { name, value },
    16 => WriteStaged { offset, length },
    17 => AppendStaged { length },
    18 => Punch { offset, length },
    19 => Lost { length },
});

layout!(enum Refusal {
    0 => Conflict,
    1 => Exists,
    2 => NotFound,
    3 => Fenced,
    4 => Invalid,
    5 => Busy,
    6 => Full,
    7 => Unstaged,
    8 => TooFewReplicas,
    9 => Denied,
    10 => Quota,
    11 => TooLarge,
    12 => TooManyAttributes,
});
layout!(enum Outcome { 0 => Committed, 1 => Refused(refusal) });
layout!(struct OperationResult { head, operation, value });
layout!(enum ResultValue { 0 => Offset(offset), 1 => Old(bytes) });

/// Of what it has read and what has to be true a byte says which there is, so that a plan without conditions is as it was before there were any.
impl Encode for HeadPlan {
    fn encode(&self, out: &mut Encoder) {
        let HeadPlan { partition, blob, seen, conditions, operations } = self;
        partition.encode(out);
        blob.encode(out);
        out.byte(u8::from(seen.is_some()) | u8::from(!conditions.is_empty()) << 1);
        seen.iter().for_each(|seen| seen.encode(out));
        if !conditions.is_empty() {
            conditions.encode(out);
        }
        operations.encode(out);
    }
}

impl Decode for HeadPlan {
    fn decode(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let (partition, blob) = Decode::decode(input)?;
        let there = input.byte()?;
        ensure(there <= 3, "a plan has more than was seen and conditions")?;
        let seen = if there & 1 == 1 { Some(Decode::decode(input)?) } else { None };
        let conditions = if there & 2 == 2 { Decode::decode(input)? } else { Vec::new() };
        ensure(there & 2 == 0 || !conditions.is_empty(), "a plan announces conditions and has none")?;
        let operations = Decode::decode(input)?;
        Ok(HeadPlan { partition, blob, seen, conditions, operations })
    }
}

fn plan_is_sound(plan: &Plan) -> Result<(), Malformed> {
    ensure(!plan.heads.is_empty() && !plan.is_too_large(), "a plan has no heads, or is too large")
}

/// A keyspace that has had no snapshots is as it was before there were any.
impl Encode for Keyspace {
    fn encode(&self, out: &mut Encoder) {
        self.placement.encode(out);
        let has_snapshots = !self.snapshots.is_new();
        out.byte(
            u8::from(self.multi_version) | u8::from(has_snapshots) << 1 | u8::from(self.is_dropped) << 2,
        );
        if has_snapshots {
            self.snapshots.encode(out);
        }
    }
}

impl Decode for Keyspace {
    fn decode(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let (placement, flags) = (Decode::decode(input)?, input.byte()?);
        ensure(flags < 8, "there is no such kind of Keyspace")?;
        let [multi_version, has_snapshots, is_dropped] = [1, 2, 4].map(|flag| flags & flag > 0);
        let snapshots: Snapshots = if has_snapshots { Decode::decode(input)? } else { Snapshots::default() };
        ensure(snapshots.is_new() != has_snapshots, "a keyspace has had no snapshots")?;
        Ok(Keyspace { placement, multi_version, snapshots, is_dropped })
    }
}

//! Transactions as they travel: identity, plan, and how they end.

use alloc::{string::String, sync::Arc, vec::Vec};
use core::{fmt, ops::Range};

use tyr_types::{BESIDE_MAX, Key, KeyspaceId, Number, Transform};

use crate::{
    PartitionId, Payload, RingVersion,
    canary::{Canary, planted},
    message::RequestId,
};

/// One client's connection to the cluster, for as long as it lives; never used by another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(pub u64);

impl SessionId {
    /// One of a client, from a random number.
    pub fn of_client(random: u64) -> SessionId {
        SessionId((random & !OF_NODES).max(1))
    }

    /// One by which nodes do things themselves; no client may have it.
    pub fn of_node(number: u64) -> SessionId {
        SessionId(OF_NODES | number)
    }

    /// Whether it is one of those.
    pub fn is_of_node(self) -> bool {
        self.0 & OF_NODES == OF_NODES
    }
}

/// The first byte of sessions that are no client's.
const OF_NODES: u64 = 0xff << 56;

/// Names a transaction for ever. A retry keeps it, and it is applied at most once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TransactionId {
    /// The client's session.
    pub session: SessionId,
    /// Counts the session's transactions from 1.
    pub sequence: u64,
    /// The ring version that the client held when it first sent the transaction. A partition whose floor is above it, and that does
    /// not know the transaction, refuses it for good.
    pub birth: RingVersion,
}

impl fmt::Display for TransactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t{}.{}", self.session.0, self.sequence)
    }
}

/// A blob by its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlobName {
    /// The keyspace that it is in.
    pub keyspace: KeyspaceId,
    /// Its key there.
    pub key: Key,
}

/// A chunk by the blob's name and its place in the blob. The creation is no part of the name: a chunk follows the numbers of its head,
/// which go on when the blob is deleted and created again.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChunkName {
    /// The blob.
    pub blob: BlobName,
    /// Which of its chunks, from 0.
    pub index: u64,
}

/// All that a transaction wants, as its client sends it.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Its name.
    pub id: TransactionId,
    /// The client has the answers of all its transactions whose sequence is below this one.
    pub answered: u64,
    /// The freeze that keeps its heads for it, if it has reserved them.
    pub reserve: Option<RequestId>,
    /// Its part at each blob, in the order of the chain: partition, keyspace, key.
    pub heads: Vec<HeadPlan>,
}

/// What a transaction wants of one blob.
#[derive(Clone, Debug, PartialEq)]
pub struct HeadPlan {
    /// The partition of the blob's head.
    pub partition: PartitionId,
    /// The blob.
    pub blob: BlobName,
    /// What the transaction has read of it, if anything.
    pub seen: Option<Seen>,
    /// What has to be true of it at the transaction's turn, before what it does. It is refused by conflict otherwise.
    pub conditions: Vec<Condition>,
    /// What it does, in order. Empty if it only reads.
    pub operations: Vec<Operation>,
}

/// What a transaction has read of a blob: it is refused if a later number than this one has touched any of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// The number at which it read.
    pub number: Number,
    /// The bytes it read.
    pub ranges: Vec<Range<u64>>,
    /// Whether it saw that the blob exists, or that it does not.
    pub existence: bool,
    /// Whether it saw the size.
    pub size: bool,
    /// The names of the attributes it read.
    pub attributes: Vec<String>,
    /// Whether it saw all attributes, and that there are no others.
    pub all_attributes: bool,
    /// Whether it saw which version it is, so that any later write counts.
    pub version: bool,
}

/// What has to be true of a blob when the transaction has its turn at the head. Who says so need not have read the blob: the head looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// It exists.
    Exists,
    /// It does not exist.
    Missing,
    /// It exists and has so many bytes.
    Size(u64),
    /// It exists and an attribute has this value, or is not set.
    Attribute {
        /// The attribute's name.
        name: String,
        /// Its value; `None` if it is not to be set.
        value: Option<Arc<[u8]>>,
    },
}

/// One operation on a blob.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// Creates the blob; refused if it exists.
    Create,
    /// Deletes the blob; refused if it does not exist.
    Delete,
    /// Writes bytes at an offset, creating the blob if it does not exist.
    Write {
        /// The first byte's offset.
        offset: u64,
        /// The bytes.
        bytes: Payload,
    },
    /// Writes bytes at the end, creating the blob if it does not exist. Answers the offset.
    Append {
        /// The bytes.
        bytes: Payload,
    },
    /// Writes bytes at an offset that are staged with the partitions of their chunks.
    WriteStaged {
        /// The first byte's offset.
        offset: u64,
        /// How many bytes.
        length: u64,
    },
    /// Writes bytes at the end that are staged with the head's partition. Answers the offset.
    AppendStaged {
        /// How many bytes.
        length: u64,
    },
    /// Writes bytes that were with the plan, and that who has it now does not have: refused as not staged. So a log says of what the stops
    /// after it were to write.
    Lost {
        /// How many bytes.
        length: u64,
    },
    /// Sets the size, extending with zeros; refused if the blob does not exist.
    Truncate {
        /// The new size.
        size: u64,
    },
    /// Leaves a hole, which reads as zeros, as far as the blob reaches; refused if the blob does not exist.
    Punch {
        /// Where it begins.
        offset: u64,
        /// How many bytes.
        length: u64,
    },
    /// Transforms a number, creating the blob if it does not exist. Answers the old value.
    Transform {
        /// The number's offset.
        offset: u64,
        /// What happens to it.
        transform: Transform,
    },
    /// Sets or removes an attribute, creating the blob if it does not exist.
    SetAttribute {
        /// Its name.
        name: String,
        /// Its value; removes it if `None`.
        value: Option<Arc<[u8]>>,
    },
}

/// Why a transaction was refused. It has not happened and never will under this id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Refusal {
    /// Something that it read was overwritten.
    Conflict,
    /// It creates a blob that exists.
    Exists,
    /// It needs a blob that does not exist.
    NotFound,
    /// It was born before a failure that may have lost it; to be sent again under a new id.
    Fenced,
    /// An operation is not possible, such as a write past the largest offset.
    Invalid,
    /// Too many transactions wait at a head that it needs; to be tried again later.
    Busy,
    /// There is no room for it.
    Full,
    /// Payload of it is not staged, or no longer; to be sent again under a new id.
    Unstaged,
    /// Too few replicas of a partition are left to take writes.
    TooFewReplicas,
    /// The client has not the rights that it takes.
    Denied,
    /// It would let a keyspace hold more than its quota.
    Quota,
    /// It is more than a partition logs at once, or would let a blob have more chunks than that.
    TooLarge,
    /// It would let a blob's attributes have more bytes than a blob has room for.
    TooManyAttributes,
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Outcome {
    /// All of it happened.
    Committed,
    /// None of it happened.
    Refused(Refusal),
}

impl Outcome {
    /// Its name, for people and for what counts.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Committed => "committed",
            Outcome::Refused(refusal) => match refusal {
                Refusal::Conflict => "conflict",
                Refusal::Exists => "exists",
                Refusal::NotFound => "not_found",
                Refusal::Fenced => "fenced",
                Refusal::Invalid => "invalid",
                Refusal::Busy => "busy",
                Refusal::Full => "full",
                Refusal::Unstaged => "unstaged",
                Refusal::TooFewReplicas => "too_few_replicas",
                Refusal::Denied => "denied",
                Refusal::Quota => "quota",
                Refusal::TooLarge => "too_large",
                Refusal::TooManyAttributes => "too_many_attributes",
            },
        }
    }
}

/// What a committed operation answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationResult {
    /// Which blob of the plan.
    pub head: u16,
    /// Which of its operations.
    pub operation: u16,
    /// What it answers.
    pub value: ResultValue,
}

/// The answer of one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResultValue {
    /// Where an append put its bytes.
    Offset(u64),
    /// The bytes of the number before a transform, little-endian.
    Old(Arc<[u8]>),
}

/// One visit of a chain: the heads of one partition, as a range of the plan's heads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StopPlan {
    /// The partition that is visited.
    pub partition: PartitionId,
    /// Which heads of the plan.
    pub heads: Range<usize>,
}

/// A plan has at most so many bytes of payload itself; what is more is staged.
pub const INLINE_MAX: usize = 8 << 20;
/// A transaction has at most so many conditions on one blob: each costs the head a walk over what is in flight there.
pub const CONDITIONS_MAX: usize = 64;
/// A transaction has at most so many bytes of staged payload.
pub const STAGED_MAX: u64 = 1 << 30;
/// Microseconds for each head at each stop, twice of what it takes there.
const PATIENCE: u64 = 4;

impl Plan {
    /// Whether it is more than one transaction can be: of blobs, of operations on one of them, or of payload. Operations that cannot
    /// be staged count in full, see [`Client::commit`](crate::Client::commit).
    pub fn is_too_large(&self) -> bool {
        let operations = self.heads.iter().flat_map(|head| &head.operations);
        let staged = operations.fold(0_u64, |staged, operation| match operation {
            Operation::WriteStaged { length, .. } | Operation::AppendStaged { length } => {
                staged.saturating_add(*length)
            }
            _ => staged,
        });
        self.inline_size() > INLINE_MAX as u64 || staged > STAGED_MAX || self.has_too_many()
    }

    /// How much longer than usual an answer is waited for, in microseconds. All heads are said at each stop, to the next one and to the replicas: where both
    /// are many, that is more than nodes take in while it is said for the first time, and to say it again would only make it longer.
    pub fn patience(&self) -> u64 {
        let (heads, stops) = (self.heads.len() as u64, self.stops().count() as u64);
        heads.saturating_mul(stops).saturating_mul(PATIENCE)
    }

    /// The bytes of payload that it has itself.
    pub fn payload_size(&self) -> usize {
        self.heads.iter().map(HeadPlan::payload_size).sum()
    }

    /// The same with what was lost of it.
    fn inline_size(&self) -> u64 {
        let lost = self.heads.iter().flat_map(|head| &head.operations).map(|operation| match operation {
            Operation::Lost { length } => *length,
            _ => 0,
        });
        lost.fold(self.payload_size() as u64, u64::saturating_add)
    }

    /// Whether it is there to make room: it touches several blobs, and of one of them it only takes away.
    pub fn makes_room(&self) -> bool {
        self.heads.len() > 1 && self.heads.iter().any(HeadPlan::only_takes_away)
    }

    /// Whether what it does to some of its heads, those of a stop, is taken though there is no room: what [makes room](Plan::makes_room) may note elsewhere that
    /// it does, in up to [`BESIDE_MAX`] bytes. Else a file could not be removed from a full file system, which notes in the directory that it is gone. So may what
    /// only cuts blobs, in their attributes: a file system notes there when a file was cut, and that there are holes.
    pub fn only_notes(&self, stop: Range<usize>) -> bool {
        let taken = || self.heads[stop].iter().fold(0, |sum: u64, head| sum.saturating_add(head.taken()));
        (self.makes_room() || self.only_cuts()) && taken() <= BESIDE_MAX
    }

    /// Whether it cuts off the end of blobs or punches holes in them, and changes nothing else but their attributes.
    fn only_cuts(&self) -> bool {
        let mut written = self.heads.iter().filter(|head| !head.only_reads()).peekable();
        written.peek().is_some() && written.all(HeadPlan::only_cuts)
    }

    /// The same without the payload of some heads, given in order, which count as if it was staged.
    #[must_use]
    pub fn without_payload_of(&self, heads: &[usize]) -> Self {
        let head = |(position, head): (usize, &HeadPlan)| match heads.binary_search(&position).is_ok() {
            true => head.with(Operation::staged),
            false => head.clone(),
        };
        Plan { heads: self.heads.iter().enumerate().map(head).collect(), ..*self }
    }

    /// The same without the payload of the heads from one on, which have lost it, if that is more than some bytes.
    #[must_use]
    pub fn without_payload_from(self: &Arc<Self>, first: usize, most: usize) -> Arc<Self> {
        let size: usize = self.heads[first..].iter().map(HeadPlan::payload_size).sum();
        if size <= most {
            return self.clone();
        }
        let lost = self.heads[first..].iter().map(|head| head.with(Operation::lost));
        Arc::new(Plan { heads: self.heads[..first].iter().cloned().chain(lost).collect(), ..**self })
    }

    /// Whether its blobs, or the operations on one, have no numbers of 16 bits, or one has more conditions than a head looks at.
    pub fn has_too_many(&self) -> bool {
        let most = usize::from(u16::MAX);
        let has_too_many =
            |head: &HeadPlan| head.operations.len() > most || head.conditions.len() > CONDITIONS_MAX;
        self.heads.len() > most || self.heads.iter().any(has_too_many)
    }

    /// The visits of the chain, in order. The last is the lock point; its partition's primary decides.
    pub fn stops(&self) -> impl Iterator<Item = StopPlan> {
        let mut end = 0;
        self.heads.chunk_by(|one, next| one.partition == next.partition).map(move |heads| {
            let start = end;
            end += heads.len();
            StopPlan { partition: heads[0].partition, heads: start..end }
        })
    }

    /// The partition whose primary decides; `None` for a plan without heads.
    pub fn decider(&self) -> Option<PartitionId> {
        self.heads.last().map(|head| head.partition)
    }

    /// Whether it visits one head only, and so is at its lock point at once.
    pub fn is_alone(&self) -> bool {
        self.heads.len() == 1
    }

    /// Whether the heads are in the order of chains, each once, and there is one at least.
    pub fn is_ordered(&self) -> bool {
        let ascend = |pair: &[HeadPlan]| {
            let [one, next] = pair else { return true };
            (one.partition, &one.blob) < (next.partition, &next.blob) || planted(Canary::HeadsInTwoOrders)
        };
        !self.heads.is_empty() && self.heads.windows(2).all(ascend)
    }
}

impl Seen {
    /// Whether it saw any attribute, or that there is none.
    pub fn sees_attributes(&self) -> bool {
        self.all_attributes || !self.attributes.is_empty()
    }

    /// It saw these bytes. What it saw before and touches them is one with them, at the latest when there is much.
    pub fn see_bytes(&mut self, range: Range<u64>) {
        match self.ranges.last_mut() {
            _ if range.is_empty() => return,
            Some(last) if touch(last, &range) => *last = last.start.min(range.start)..last.end.max(range.end),
            _ => self.ranges.push(range),
        }
        if self.ranges.len() >= RANGES_APART && self.ranges.len().is_power_of_two() {
            self.ranges.sort_unstable_by_key(|range| range.start);
            self.ranges.dedup_by(|next, before| {
                let is_one = touch(before, next);
                before.end = before.end.max(if is_one { next.end } else { before.end });
                is_one
            });
        }
    }

    /// It saw this attribute.
    pub fn see_attribute(&mut self, name: &str) {
        if !self.attributes.iter().any(|known| known == name) {
            self.attributes.push(name.into());
        }
    }
}

/// Whether nothing is between two ranges.
fn touch(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start <= other.end && other.start <= one.end
}

/// Fewer ranges than this are left as they were seen.
const RANGES_APART: usize = 64;

impl Operation {
    /// As it is once its payload need not be known any more, like that of what is staged.
    fn staged(&self) -> Self {
        match self {
            Operation::Write { offset, bytes } => {
                Operation::WriteStaged { offset: *offset, length: bytes.len() as u64 }
            }
            Operation::Append { bytes } => Operation::AppendStaged { length: bytes.len() as u64 },
            other => other.clone(),
        }
    }

    /// As it is where its payload is not kept.
    fn lost(&self) -> Self {
        match self {
            Operation::Write { bytes, .. } | Operation::Append { bytes } => {
                Operation::Lost { length: bytes.len() as u64 }
            }
            other => other.clone(),
        }
    }

    /// Whether it is refused unless the blob exists.
    pub fn needs_blob(&self) -> bool {
        matches!(self, Operation::Delete | Operation::Truncate { .. } | Operation::Punch { .. })
    }

    /// Bytes of content that go with it.
    pub(crate) fn payload_size(&self) -> usize {
        match self {
            Operation::Write { bytes, .. } | Operation::Append { bytes } => bytes.len(),
            _ => 0,
        }
    }

    /// How many bytes of content it writes.
    fn written(&self) -> u64 {
        match self {
            Operation::Write { bytes, .. } | Operation::Append { bytes } => bytes.len() as u64,
            Operation::WriteStaged { length, .. }
            | Operation::AppendStaged { length }
            | Operation::Lost { length } => *length,
            Operation::Transform { transform, .. } => transform.number_type().size() as u64,
            Operation::Create
            | Operation::Delete
            | Operation::Truncate { .. }
            | Operation::Punch { .. }
            | Operation::SetAttribute { .. } => 0,
        }
    }

    /// Whether it is taken, though there is no room.
    pub fn frees_room(&self) -> bool {
        matches!(self, Operation::Delete | Operation::Truncate { .. } | Operation::Punch { .. })
    }
}

impl HeadPlan {
    /// Of a transaction that does this to a blob, whatever it was before.
    pub fn blind(partition: PartitionId, blob: BlobName, operations: Vec<Operation>) -> Self {
        HeadPlan { partition, blob, seen: None, conditions: Vec::new(), operations }
    }

    /// The same with other operations.
    fn with(&self, other: impl Fn(&Operation) -> Operation) -> Self {
        let operations = self.operations.iter().map(other).collect();
        let (blob, seen, conditions) = (self.blob.clone(), self.seen.clone(), self.conditions.clone());
        HeadPlan { partition: self.partition, blob, seen, conditions, operations }
    }

    /// Whether the transaction's end tells something of what the blob was before.
    pub fn depends_on_blob(&self) -> bool {
        self.seen.is_some() || !self.conditions.is_empty()
    }

    /// Bytes of content that go with it.
    pub fn payload_size(&self) -> usize {
        self.operations.iter().map(Operation::payload_size).sum()
    }

    /// Whether it deletes the blob, or punches a hole in it, and writes nothing to it.
    fn only_takes_away(&self) -> bool {
        let takes_away =
            |operation: &Operation| matches!(operation, Operation::Delete | Operation::Punch { .. });
        let writes = |operation: &Operation| {
            operation.written() > 0 || matches!(operation, Operation::Truncate { .. })
        };
        self.operations.iter().any(takes_away) && !self.operations.iter().any(writes)
    }

    /// Whether it cuts off the blob's end or punches holes in it, and does nothing else but set attributes. What deletes it is none: an attribute would begin another blob.
    fn only_cuts(&self) -> bool {
        let cuts =
            |operation: &Operation| matches!(operation, Operation::Truncate { .. } | Operation::Punch { .. });
        let notes = |operation: &Operation| matches!(operation, Operation::SetAttribute { .. });
        self.operations.iter().any(cuts)
            && self.operations.iter().all(|operation| cuts(operation) || notes(operation))
    }

    /// How many bytes of room it takes for this blob: what it writes, its attributes, and its key if it is created.
    fn taken(&self) -> u64 {
        let of = |operation: &Operation| match operation {
            Operation::Create => self.blob.key.as_bytes().len() as u64,
            Operation::SetAttribute { name, value } => {
                (name.len() + value.as_ref().map_or(0, |value| value.len())) as u64
            }
            other => other.written(),
        };
        self.operations.iter().fold(0, |sum, operation| sum.saturating_add(of(operation)))
    }

    /// Whether the transaction only reads this blob.
    pub fn only_reads(&self) -> bool {
        self.operations.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn what_is_seen_in_pieces_takes_as_much_as_what_is_seen_at_once() {
        let mut seen = Seen::default();
        (0..1000).for_each(|piece| seen.see_bytes(piece * 10..piece * 10 + 10));
        seen.see_bytes(5..5);
        assert_eq!(seen.ranges, core::slice::from_ref(&(0..10_000)));
        // In an order in which no two that follow each other touch, and each of them twice.
        let mut seen = Seen::default();
        for piece in (0..2048_u64).chain(0..2048).map(|step| step * 1021 % 2048) {
            seen.see_bytes(piece * 10..piece * 10 + 10);
        }
        assert_eq!(seen.ranges, core::slice::from_ref(&(0..20_480)));
        let mut seen = Seen::default();
        (0..1000).for_each(|_| ["a", "b"].into_iter().for_each(|name| seen.see_attribute(name)));
        assert_eq!(seen.attributes, vec!["a", "b"]);
    }

    #[test]
    fn what_was_not_seen_is_not_made_up() {
        let mut seen = Seen::default();
        (0..64).for_each(|piece| seen.see_bytes(piece * 10..piece * 10 + 9));
        assert_eq!(seen.ranges.len(), 64);
        assert!(seen.ranges.iter().all(|range| range.end - range.start == 9));
    }
}

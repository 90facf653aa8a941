//! What a partition's log holds.

use alloc::{string::String, sync::Arc, vec::Vec};
use core::ops::Range;

use tyr_types::{Number, Transform};

use crate::{
    Answered, BlobName, ChunkName, KeepName, Outcome, PartitionId, Payload, Plan, Refusal, RingVersion,
    SessionId, Stage, TransactionId,
};

/// An entry of a partition's log. Every replica folds the same entries into the same state.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    /// An epoch begins: what was logged before belongs to earlier ones.
    Marker,
    /// The partition promises its heads' part of a transaction.
    Prepare(Arc<Prepare>),
    /// The partition promises never to prepare a transaction.
    Refuse(Arc<Refused>),
    /// Writes to chunks whose heads are elsewhere, or whose fate this partition has to know.
    Write(Arc<ChunkWrites>),
    /// How transactions ended. Facts: they stay true whatever becomes of the log's tail.
    Outcomes(Vec<(TransactionId, Outcome)>),
    /// Nobody needs the outcome of a transaction any more.
    Forget {
        /// The transaction.
        id: TransactionId,
        /// Of which transactions up to it its client has the answers; `None` if its session was forgotten, which says nothing of others.
        answered: Option<Arc<Answered>>,
    },
    /// A client has answers of its transactions.
    Mark {
        /// Its session.
        session: SessionId,
        /// Which ones.
        answered: Arc<Answered>,
        /// No transaction below their mark was born at a later ring version.
        born: RingVersion,
    },
    /// Payload was received.
    Stage(Arc<Stage>),
    /// Nobody needs the payload that a transaction staged here.
    Unstage {
        /// The transaction.
        id: TransactionId,
    },
    /// A session was not heard of for long: nobody needs the outcomes of its transactions.
    Expire {
        /// The session.
        session: SessionId,
        /// Nothing is executed any more that was born by this ring version and is not known here.
        born: RingVersion,
    },
    /// Blobs' superseded versions up to a number each are collected at all their chunks.
    Collected(Vec<(BlobName, Number)>),
    /// Versions of chunks that nobody can read any more are dropped.
    Collect(Vec<Discard>),
    /// Nothing is left of chunks whose blobs are gone.
    Purge(Vec<Tombstone>),
    /// What the heads of a keyspace are here is kept for a snapshot.
    Keep(KeepName),
    /// It is kept no more.
    LetGo(KeepName),
    /// From here on copies of heads may be out; or none is any more.
    Lend {
        /// For how many microseconds a copy lasts at most; zero if none is out.
        lasts: u64,
    },
}

/// What a chunk may drop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Discard {
    /// The chunk.
    pub chunk: ChunkName,
    /// Superseded versions up to here,
    pub up_to: Number,
    /// except what readers at these numbers see.
    pub keep: Vec<Number>,
}

/// What is left of a chunk that was deleted, or whose writes were all refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tombstone {
    /// The chunk.
    pub chunk: ChunkName,
    /// The number of its last write.
    pub last: Number,
}

impl Entry {
    /// How much longer than for others it is waited for, in microseconds, until it is taken for lost.
    pub fn patience(&self) -> u64 {
        match self {
            Entry::Prepare(prepare) => prepare.plan.patience(),
            Entry::Refuse(refused) => refused.plan.as_ref().map_or(0, |plan| plan.patience()),
            _ => 0,
        }
    }

    /// How many heads and chunks it is about: what it takes in memory besides payload goes with that.
    pub fn breadth(&self) -> usize {
        let of_stops = |stops: &[Stop]| stops.iter().map(|stop| stop.effects.len()).sum::<usize>();
        match self {
            Entry::Prepare(prepare) => prepare.plan.heads.len() + of_stops(&prepare.stops),
            Entry::Refuse(refused) => {
                refused.plan.as_ref().map_or(0, |plan| plan.heads.len()) + of_stops(&refused.stops)
            }
            Entry::Write(writes) => writes.writes.len(),
            Entry::Purge(tombstones) => tombstones.len(),
            _ => 1,
        }
    }
}

/// One partition's promise. In a log it holds all that is needed to drive the rest of the transaction, but for payload of later stops.
#[derive(Clone, Debug, PartialEq)]
pub struct Prepare {
    /// The whole transaction.
    pub plan: Arc<Plan>,
    /// The stops so far; the last one is this partition's.
    pub stops: Vec<Stop>,
}

/// What one visit of the chain settled.
#[derive(Clone, Debug, PartialEq)]
pub struct Stop {
    /// The partition that was visited.
    pub partition: PartitionId,
    /// Which heads of the plan.
    pub heads: Range<usize>,
    /// The number that the transaction has at all of them: the epoch and index of the prepare.
    pub number: Number,
    /// What it does at each of them.
    pub effects: Vec<Arc<HeadEffect>>,
}

/// What a transaction does to one head and its chunks, once it is committed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeadEffect {
    /// Whether the blob exists afterwards.
    pub existence: ExistenceEffect,
    /// What becomes of its size.
    pub size: SizeEffect,
    /// Attributes set or removed, in order.
    pub attributes: Vec<(String, Option<Arc<[u8]>>)>,
    /// What is written to its chunks.
    pub writes: Vec<ChunkWrite>,
    /// The offsets of appends, by operation.
    pub offsets: Vec<(u16, u64)>,
    /// The bytes whose readers it conflicts with.
    pub ranges: Vec<Range<u64>>,
    /// What transforms across two chunks answer, by operation: they are written as their values.
    pub olds: Vec<(u16, Arc<[u8]>)>,
}

/// What becomes of a blob's existence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExistenceEffect {
    /// Nothing.
    #[default]
    Stays,
    /// It exists; with a new creation number if it did not before.
    Begins,
    /// It is gone.
    Ends,
    /// It was there, is deleted and created again by one transaction.
    Restarts,
}

/// What becomes of a blob's size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SizeEffect {
    /// Nothing.
    #[default]
    Stays,
    /// It grows to this if it is smaller.
    AtLeast(u64),
    /// It becomes this.
    Exactly(u64),
}

/// What a transaction does to one chunk.
#[derive(Clone, Debug, PartialEq)]
pub struct ChunkWrite {
    /// The chunk.
    pub chunk: u64,
    /// Where it lies.
    pub partition: PartitionId,
    /// The write before it on this chunk, which the chunk waits for.
    pub previous: Option<Link>,
    /// What happens, in order.
    pub operations: Vec<ChunkOperation>,
    /// Whether the versions before it are dropped once it is applied: the keyspace keeps only the latest.
    pub drops_former: bool,
}

/// The last write of a chunk that its head has numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its number.
    pub number: Number,
    /// Its transaction.
    pub id: TransactionId,
    /// Who knows its outcome.
    pub decider: PartitionId,
}

/// One change of a chunk; offsets are within the chunk.
#[derive(Clone, Debug, PartialEq)]
pub enum ChunkOperation {
    /// Bytes are written.
    Write {
        /// Where.
        offset: u64,
        /// The bytes: a part of the payload.
        bytes: Payload,
        /// Which part.
        part: Range<usize>,
    },
    /// Bytes are written that were staged.
    Staged {
        /// Where.
        offset: u64,
        /// Which payload: the blob in the plan and its operation.
        payload: (u16, u16),
        /// The bytes of the payload.
        part: Range<u64>,
    },
    /// A number is transformed.
    Transform {
        /// Where.
        offset: u64,
        /// How.
        transform: Transform,
        /// The blob in the plan and its operation, to answer the old value.
        answers: (u16, u16),
    },
    /// Nothing of a range is left.
    Cut {
        /// Which; it ends at `u64::MAX` if nothing after its beginning is left.
        range: Range<u64>,
    },
}

/// A promise never to prepare a transaction, with those who did and have to be told.
#[derive(Clone, Debug, PartialEq)]
pub struct Refused {
    /// The transaction.
    pub id: TransactionId,
    /// Why.
    pub refusal: Refusal,
    /// The whole transaction, if it was seen.
    pub plan: Option<Arc<Plan>>,
    /// The stops before this one.
    pub stops: Vec<Stop>,
}

/// What a transaction writes to the chunks of one partition whose heads are elsewhere.
#[derive(Clone, Debug, PartialEq)]
pub struct ChunkWrites {
    /// The transaction.
    pub id: TransactionId,
    /// Who knows its outcome.
    pub decider: PartitionId,
    /// Whether it is already known to be refused: then it only takes its place in the order.
    pub refused: Option<Refusal>,
    /// The writes, with the number of each.
    pub writes: Vec<(BlobName, Number, ChunkWrite)>,
}

impl ChunkWrites {
    /// Adds the writes of others of the same transaction that are not among these.
    pub fn add(&mut self, others: &ChunkWrites) {
        for (blob, number, write) in &others.writes {
            let is_it = |(known, _, other): &(BlobName, Number, ChunkWrite)| {
                known == blob && other.chunk == write.chunk
            };
            if !self.writes.iter().any(is_it) {
                self.writes.push((blob.clone(), *number, write.clone()));
            }
        }
    }
}

/// Where in a transaction a partition takes part: with heads, with chunks whose heads are elsewhere, or with both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Part {
    /// It prepared heads.
    Heads(PartitionId),
    /// It holds chunks of other partitions' heads.
    Chunks(PartitionId),
}

impl Part {
    /// The partition.
    pub fn partition(self) -> PartitionId {
        match self {
            Part::Heads(partition) | Part::Chunks(partition) => partition,
        }
    }
}

impl Prepare {
    /// The transaction.
    pub fn id(&self) -> TransactionId {
        self.plan.id
    }

    /// This partition's own stop.
    pub fn stop(&self) -> &Stop {
        self.stops.last().expect("a prepare is at a stop")
    }

    /// What the next stop is told. Payload that only chunks in this partition get is in its log: if it is more than some bytes, no other one needs it.
    /// Where other chunks get some of a head's it all goes on: effects are reckoned as if their payload was the plan's.
    pub fn passed_on(&self, most: usize) -> (Arc<Plan>, Vec<Stop>) {
        let own = self.stop();
        let is_local = |(_, effect): &(usize, &Arc<HeadEffect>)| {
            effect.writes.iter().all(|write| write.partition == own.partition)
        };
        let local: Vec<usize> = own.effects().filter(is_local).map(|(position, _)| position).collect();
        let size: usize = local.iter().map(|position| self.plan.heads[*position].payload_size()).sum();
        let plan = (size > most).then(|| self.plan.without_payload_of(&local));
        // Payload that is staged counts otherwise than what goes with the plan.
        let Some(plan) = plan.filter(|plan| !plan.is_too_large()) else {
            return (self.plan.clone(), self.stops.clone());
        };
        let mut stops = self.stops.clone();
        if let Some(stop) = stops.last_mut() {
            for position in &local {
                let effect = Arc::make_mut(&mut stop.effects[*position - stop.heads.start]);
                for write in &mut effect.writes {
                    write.operations.retain(|operation| !matches!(operation, ChunkOperation::Write { .. }));
                }
            }
        }
        (Arc::new(plan), stops)
    }

    /// Whether this is the chain's last stop.
    pub fn is_last(&self) -> bool {
        self.stop().heads.end == self.plan.heads.len()
    }
}

impl Stop {
    /// The heads' plan positions with their effects.
    pub fn effects(&self) -> impl Iterator<Item = (usize, &Arc<HeadEffect>)> {
        self.heads.clone().zip(&self.effects)
    }
}

/// What these stops write to chunks in other partitions than their heads'.
pub fn writes_elsewhere(stops: &[Stop]) -> impl Iterator<Item = &ChunkWrite> {
    stops.iter().flat_map(|stop| {
        let writes = stop.effects.iter().flat_map(|effect| &effect.writes);
        writes.filter(|write| write.partition != stop.partition)
    })
}

impl Stop {
    /// As it is told on when the transaction is refused: which places it took, and not what it would have written.
    pub fn refused(mut self) -> Stop {
        for effect in &mut self.effects {
            Arc::make_mut(effect).writes.iter_mut().for_each(|write| write.operations.clear());
        }
        self
    }
}

/// Everything that these stops write to chunks in other partitions than their heads', by partition.
pub fn distant_writes(
    plan: &Plan,
    stops: &[Stop],
    refused: Option<Refusal>,
) -> alloc::collections::BTreeMap<PartitionId, ChunkWrites> {
    let decider = plan.decider().expect("a plan has heads");
    let mut by_partition = alloc::collections::BTreeMap::new();
    for stop in stops {
        for (head, effect) in stop.effects() {
            for write in effect.writes.iter().filter(|write| write.partition != stop.partition) {
                let writes = by_partition.entry(write.partition).or_insert_with(|| ChunkWrites {
                    id: plan.id,
                    decider,
                    refused,
                    writes: Vec::new(),
                });
                let mut write = write.clone();
                if refused.is_some() {
                    write.operations.clear();
                }
                writes.writes.push((plan.heads[head].blob.clone(), stop.number, write));
            }
        }
    }
    by_partition
}

/// Which answers clients have, by session: nothing of that is executed again.
pub type Marks = alloc::collections::BTreeMap<SessionId, Mark>;

/// Which answers a client has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// Those of these transactions.
    pub answered: Answered,
    /// Where that is logged.
    pub log_index: u64,
    /// No transaction of the session that was taken here, or is below, was born at a later ring version.
    pub born: RingVersion,
}

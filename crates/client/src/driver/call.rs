//! What the handles of a store ask of its driver.
//!
//! Every call that is answered has a time until which it is; a call whose future is dropped is not answered and, if it had begun to change
//! something, goes on to its end.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    ops::Range,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::{
    sync::{
        mpsc::{UnboundedSender, WeakUnboundedSender},
        oneshot,
    },
    time::Instant,
};
use tyr_proto::{
    BlobName, Check, ChunkName, KeepName, NodeId, Operation, PartitionId, Refusal, ResultValue, SnapshotId,
    Stand, Uses,
    cluster::{Command, Reply as CommandReply},
    message::{HeadStat, Looked},
};
use tyr_types::{KeyspaceId, Number, Result, Seek};

use crate::{recalls::Recall, words};

/// Names a transaction, snapshot, or run of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Handle(pub u64);

/// Where an answer goes.
pub type Reply<T> = oneshot::Sender<Result<T>>;

/// A blob that was seen, with the number at which it was.
#[derive(Clone, Debug)]
pub struct Found {
    /// The number.
    pub number: Number,
    /// The blob.
    pub looked: Looked,
}

/// Bytes of a chunk, and the number of their version.
pub type Newest = (Number, Vec<u8>);

/// A blob as a get finds it.
#[derive(Debug)]
pub struct Got {
    /// The blob, if it exists.
    pub found: Option<Found>,
    /// Its bytes, unless they are too many or lie in several chunks.
    pub bytes: Option<Vec<u8>>,
    /// What the others are that were asked for with it, as far as the node that answered knows.
    pub others: Vec<Option<HeadStat>>,
}

/// How a transaction ended.
#[derive(Clone, Debug)]
pub enum Ended {
    /// All of it happened; what its operations answer, by blob and place among its changes.
    Committed(BTreeMap<(BlobName, u16), ResultValue>),
    /// None of it happened.
    Refused(Refusal),
}

/// What is asked.
#[derive(Debug)]
pub enum Call {
    /// Bytes of a blob in a transaction, which begins if it has not.
    Read { of: Handle, blob: BlobName, range: Range<u64>, until: Instant, reply: Reply<Option<Vec<u8>>> },
    /// A blob in a transaction under its changes; all of it counts as seen.
    Stat { of: Handle, blob: BlobName, until: Instant, reply: Reply<Option<Found>> },
    /// A blob as it was before a transaction; only whether it exists counts as seen.
    Probe { of: Handle, blob: BlobName, until: Instant, reply: Reply<Option<Found>> },
    /// A condition of a transaction.
    Check { of: Handle, blob: BlobName, check: Check },
    /// Changes in a transaction.
    Change { of: Handle, blob: BlobName, operations: Vec<Operation> },
    /// Copies bytes in a transaction that has looked at the blob that has them.
    Copy { of: Handle, from: BlobName, range: Range<u64>, to: BlobName, offset: u64 },
    /// Commits a transaction, or what it has read alone.
    Commit { of: Handle, only_reads: bool, until: Instant, reply: Reply<Ended> },
    /// Forgets a transaction that is not being committed.
    RollBack { of: Handle },
    /// Keeps how a transaction ended until it is dropped.
    Keep { of: Handle },
    /// How a transaction ended that is kept.
    Await { of: Handle, until: Instant, reply: Reply<Ended> },
    /// Keeps it no longer.
    Drop { of: Handle },
    /// Changes a blob, in a transaction of its own.
    Apply {
        blob: BlobName,
        operations: Vec<Operation>,
        until: Instant,
        reply: Reply<BTreeMap<u16, ResultValue>>,
    },
    /// The newest bytes of a blob outside of any transaction. `None` if only its head knows what they are: they do not all lie in one chunk, or
    /// not all were written.
    ReadNewest { blob: BlobName, range: Range<u64>, until: Instant, reply: Reply<Option<Newest>> },
    /// Where in a range of a chunk data or a hole begins, of the newest.
    Seek { chunk: ChunkName, range: Range<u64>, what: Seek, until: Instant, reply: Reply<Option<u64>> },
    /// What a blob is outside of any transaction, if it exists, with its bytes if these are few; and what others are.
    Get { blob: BlobName, others: Vec<BlobName>, until: Instant, reply: Reply<Got> },
    /// As [`Call::Get`], of one blob, to be kept among the copies if its primary lends it; with its bytes if these are no more than so many.
    Borrow { blob: BlobName, size_max: u64, until: Instant, reply: Reply<Got> },
    /// Gives back what was recalled.
    GiveBack { node: NodeId, partition: PartitionId, blob: BlobName, asked: u64 },
    /// From now on tells of what is taken back before it is given back.
    TellRecalls { teller: UnboundedSender<Recall>, calls: WeakUnboundedSender<Call> },
    /// Names of a partition from one on, and whether there may be more.
    Names {
        partition: PartitionId,
        after: BlobName,
        inclusive: bool,
        limit: u32,
        until: Instant,
        reply: Reply<(Vec<BlobName>, bool)>,
    },
    /// What blobs of keyspaces that exist are; `None` for one that has to be asked for by itself, which the first one never is.
    Heads { blobs: Vec<BlobName>, until: Instant, reply: Reply<Vec<Option<HeadStat>>> },
    /// Takes a snapshot of keyspaces.
    Freeze { of: Handle, keyspaces: BTreeSet<KeyspaceId>, until: Instant, reply: Reply<()> },
    /// Takes a snapshot with a name that was begun at the cluster manager. Answers its point.
    Take { keyspace: KeyspaceId, snapshot: SnapshotId, until: Instant, reply: Reply<Stand> },
    /// Opens a snapshot with a name.
    Open { of: Handle, keep: KeepName, until: Instant, reply: Reply<()> },
    /// A blob in a snapshot.
    LookFrozen { of: Handle, blob: BlobName, reply: Reply<Option<Found>> },
    /// Bytes of a blob that exists in a snapshot.
    ReadFrozen {
        of: Handle,
        blob: BlobName,
        range: Range<u64>,
        until: Instant,
        reply: Reply<Option<Vec<u8>>>,
    },
    /// Blobs of a keyspace in a snapshot with a prefix, after a key.
    ListFrozen {
        of: Handle,
        keyspace: KeyspaceId,
        prefix: Vec<u8>,
        after: Option<Vec<u8>>,
        limit: usize,
        reply: Reply<Vec<(BlobName, Found)>>,
    },
    /// Lets go of a snapshot.
    LetGo { of: Handle },
    /// Begins the next try of a run as this transaction, when it is its time.
    Begin { run: Handle, of: Handle, until: Instant, reply: Reply<()> },
    /// A try was refused that touched these.
    Refused { run: Handle, refusal: Refusal, touched: BTreeSet<BlobName> },
    /// A run wants no further try.
    EndRun { run: Handle },
    /// Asks the cluster manager for something.
    Manage { command: Command, until: Instant, reply: Reply<CommandReply> },
    /// Asks what keyspaces with quotas hold.
    Uses { until: Instant, reply: Reply<Uses> },
    /// Learns what has changed in the cluster.
    Refresh { until: Instant, reply: Reply<()> },
    /// Ends, when what was sent has ended.
    Close { reply: Reply<()> },
}

/// The answer of a call, when it comes.
#[derive(Debug)]
pub struct Answered<T>(pub oneshot::Receiver<Result<T>>);

impl<T> Future for Answered<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T>> {
        Pin::new(&mut self.0).poll(cx).map(|answer| answer.unwrap_or_else(|_| Err(words::closed())))
    }
}

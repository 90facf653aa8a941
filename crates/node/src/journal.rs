//! The logs of a shard's partitions, on a store that it may share with other shards of its node.
//!
//! What is taken from the protocol is queued in order, and committed by transactions of the store, each of which holds as much as there
//! is: so entries of all partitions share a sync, and a crash leaves a part of that order from its beginning. What one transaction logs is
//! one blob, a *bundle*. A checkpoint of a partition's state is a blob, taken when what was logged since weighs as much as it, and every payload
//! that is not small is one that entries and states refer to, so that it is written once, stays where compaction puts it, and need not be
//! in memory.
//!
//! Invariants: an entry is told to be stored only when the transaction that holds it is durable, with all before it. What a restart
//! finds is what the protocol had at some point of that order. After a failed write nothing is told any more. A device that is full is no
//! failure: what waits is tried again, and nothing is lost meanwhile but time.
//!
//! What a placement class in memory logs is not written at all: a node that has started again has lost it by definition.

mod base;
mod batch;
mod bundle;
mod bundles;
mod keys;
mod restore;
mod shelf;
mod start;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    task::{Context, Poll},
};

use tyr_proto::{
    Epoch, Log, Output, Partition, PartitionId, Payload, ShardId, State,
    encoding::{Encode, to_bytes_keeping},
    entry::Entry,
};
use tyr_store::{Exhaustion, Store, Ticket};
use tyr_types::{Durability, Error, ErrorKind, KeyspaceId, Result};

use self::{
    base::Base,
    batch::Batch,
    bundles::{Bundles, Note},
    shelf::Shelf,
};

pub use self::{restore::Restored, start::Start};

/// How often a journal takes checkpoints.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// A partition's state is checkpointed when what it logged since weighs this many bytes and at least as much as its last
    /// checkpoint. Bounds what a restart reads again.
    pub checkpoint_size: u64,
    /// Payload of this many bytes and more is kept on disk only, once it is durable.
    pub payload_min: usize,
    /// So many bundles are read at once at a restart, each by a thread.
    pub readers: usize,
}

/// A log entry, or a state that was installed, that has become durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The partition.
    pub partition: PartitionId,
    /// The entry, or the one up to which the state is folded.
    pub index: u64,
    /// Its epoch.
    pub epoch: Epoch,
}

/// The logs of some partitions.
pub struct Journal {
    store: Arc<Store>,
    space: KeyspaceId,
    shard: ShardId,
    options: Options,
    limits: Limits,
    tails: BTreeMap<PartitionId, Tail>,
    /// What the last checkpoints of all partitions weigh.
    checkpoints_weight: u64,
    due: BTreeSet<PartitionId>,
    /// Those that are committed and not deleted.
    bundles: Bundles,
    queue: VecDeque<Batch>,
    committed: VecDeque<Committed>,
    shelf: Arc<Shelf>,
    /// Of classes in memory.
    in_memory: Vec<Stored>,
    failure: Option<Error>,
    is_full: bool,
    /// How the store was when the first batch found no room,
    queue_stuck: Option<Exhaustion>,
    /// and when deleting what has been replaced found none.
    trim_stuck: Option<Exhaustion>,
}

/// What a transaction of the store has that may not be durable yet: what is told then, and what leaves memory.
#[derive(Debug)]
struct Committed {
    ticket: Ticket,
    stored: Vec<Stored>,
    kept: Vec<Payload>,
}

/// Sizes in bytes that depend on the store's.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// A transaction of the store that has reached this size is not added to.
    batch_min: usize,
    /// A blob is written in pieces of at most this size.
    piece_max: usize,
}

/// What the store holds of a partition's log, or will when all that is queued is committed.
#[derive(Debug, Default)]
struct Tail {
    base: Base,
    last: u64,
    /// What has been logged since the last checkpoint.
    weight: u64,
    /// What the last checkpoint weighs.
    checkpoint_weight: u64,
    /// The next payload gets this number.
    next_payload: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options { checkpoint_size: 4 << 20, payload_min: 4 << 10, readers: 16 }
    }
}

/// The most bytes of a log's entry for a store with segments of this size: so it fits one, beside what a batch has already.
pub fn entry_max(segment_size: u64) -> usize {
    usize::try_from(segment_size / 8 * 5).unwrap_or(usize::MAX)
}

impl Limits {
    fn of(segment_size: u64) -> Limits {
        let share = |parts| usize::try_from(segment_size / parts).unwrap_or(usize::MAX);
        Limits { batch_min: share(8).min(4 << 20), piece_max: share(4).min(1 << 20) }
    }
}

impl Journal {
    /// Takes what the protocol wants written. Returns what is not for a journal; nothing at all if the journal has failed, for that may
    /// follow from what could not be read.
    pub fn take(&mut self, output: Output, durability: Durability) -> Option<Output> {
        let is_kept = durability == Durability::Disk;
        match output {
            _ if self.check().is_err() => {}
            Output::Store { partition, index, epoch, entry } => {
                let stored = Stored { partition, index, epoch };
                if is_kept { self.push(stored, &entry) } else { self.in_memory.push(stored) }
            }
            Output::Cut(partition, last) if is_kept => self.cut(partition, last),
            Output::Cut(..) => {}
            Output::Install { partition, index, epochs, state } => {
                let epoch = epochs.last().map_or(Epoch(0), |(epoch, _)| *epoch);
                let stored = Stored { partition, index, epoch };
                if is_kept { self.install(stored, epochs, &state) } else { self.in_memory.push(stored) }
            }
            other => return Some(other),
        }
        None
    }

    fn push(&mut self, stored: Stored, entry: &Entry) {
        let Stored { partition, index, .. } = stored;
        let tail = self.begin(partition);
        assert_eq!(index, tail.last + 1, "{partition}: entries are logged in order");
        tail.last = index;
        let (bytes, kept) = self.encode(partition, entry);
        let payload_weight = kept / PAYLOAD_LIGHTNESS;
        self.open_batch();
        let batch = self.queue.back_mut().expect("opened above");
        let tail = self.tails.get_mut(&partition).expect("there since above");
        tail.weight += bytes.len() as u64 + payload_weight + ENTRY_WEIGHT;
        batch.log(stored, &bytes);
        if tail.weight >= self.options.checkpoint_size.max(tail.checkpoint_weight) {
            self.due.insert(partition);
        }
    }

    /// The end of a log. One that is new gets a base before anything else, by which a restart finds what belongs to it.
    fn begin(&mut self, partition: PartitionId) -> &mut Tail {
        self.open_batch();
        let batch = self.queue.back_mut().expect("opened above");
        self.tails.entry(partition).or_insert_with(|| {
            batch.put(keys::base(partition), Base::default().encode());
            Tail::default()
        })
    }

    /// The bytes of a value, after a list of the payload that it refers to. What of that has no blob yet is queued, in as many batches
    /// as it takes, so that it is committed no later than the value. Also returns how many bytes that is.
    fn encode(&mut self, partition: PartitionId, value: &impl Encode) -> (Vec<u8>, u64) {
        let (body, kept) = to_bytes_keeping(value, self.options.payload_min);
        let (mut list, mut size) = (Vec::new(), 0);
        for payload in kept {
            // It may be durable before what refers to it, so that a batch is no larger than it has to be.
            self.open_batch();
            let batch = self.queue.back_mut().expect("opened above");
            let tail = self.tails.get_mut(&partition).expect("the log has begun");
            let number = self.shelf.number(partition, &payload).or_else(|| {
                let number = tail.next_payload;
                // What cannot be read here has failed where it is kept.
                let bytes = payload.bytes().ok()?;
                tail.next_payload += 1;
                size += bytes.len() as u64;
                batch.put_payload(keys::payload(partition, number), bytes);
                payload.settle(self.shelf.home(partition, number, payload.len()));
                batch.kept.push(payload.clone());
                Some(number)
            });
            match number {
                Some(number) => list.push((number, payload.len())),
                None => drop(self.fail(self.unreadable(&payload))),
            }
        }
        let mut bytes = Vec::with_capacity(body.len() + LIST_WEIGHT * (1 + list.len()));
        shelf::append_list(&mut bytes, &list);
        bytes.extend(body);
        (bytes, size)
    }

    /// Why a payload cannot be read: the journal that keeps it knows.
    fn unreadable(&self, payload: &Payload) -> Error {
        let elsewhere = || {
            let size = payload.len();
            Error::internal(format!("a payload of {size} bytes that another journal keeps cannot be read"))
        };
        self.shelf.failure().unwrap_or_else(elsewhere)
    }

    fn cut(&mut self, partition: PartitionId, last: u64) {
        self.open_batch();
        let Some(tail) = self.tails.get_mut(&partition) else { return };
        let batch = self.queue.back_mut().expect("opened above");
        batch.cut(partition, last);
        tail.last = tail.last.min(last);
        // Of the checkpoint, what was folded from the entries that are gone is taken back when it is read.
        if tail.base.folded.is_some_and(|folded| folded > last) {
            tail.base.folded = Some(last);
            batch.put(keys::base(partition), tail.base.encode());
        }
    }

    fn install(&mut self, stored: Stored, epochs: Vec<(Epoch, u64)>, state: &State) {
        let Stored { partition, index, .. } = stored;
        let base = Base { start: index, folded: Some(index), epochs };
        self.fold(partition, base, index, state);
        self.queue.back_mut().expect("opened for the state").stored.push(stored);
    }

    /// The partitions for which it is time for a checkpoint. None while the device is full: one would need space.
    pub fn due(&self) -> Vec<PartitionId> {
        let due = self.due.iter().filter(|_| !self.is_full);
        due.copied().collect()
    }

    /// A partition is at rest, so that no entry of it will bring a checkpoint, or there is little room: it is time for one if that gives back more than
    /// it takes.
    pub fn rest(&mut self, partition: &Partition) {
        let id = partition.id();
        let dead = self.shelf.dead_size(id);
        if dead > 0 && self.tails.get(&id).is_some_and(|tail| dead >= tail.checkpoint_weight) {
            self.due.insert(id);
        }
    }

    /// Takes a checkpoint of a partition, and drops the entries that its log has dropped. Everything that it wanted written has
    /// been taken before.
    pub fn checkpoint(&mut self, partition: &Partition) {
        let (id, log) = (partition.id(), partition.log());
        self.due.remove(&id);
        let Some(tail) = self.tails.get(&id) else { return };
        assert_eq!(log.last(), tail.last, "{id}: all that was logged has been taken");
        let start = log.start().max(tail.base.start);
        let base = Base { start, folded: Some(tail.last), epochs: log.epochs_up_to(start) };
        let is_held_up = self.is_long() && self.bundles.oldest() == Some(id);
        self.fold(id, base, log.last(), partition.state());
        if is_held_up {
            self.log_anew(id, start, log);
        }
    }

    /// Logs what a log still has again, at the end, so that what was logged since its beginning may go.
    fn log_anew(&mut self, id: PartitionId, start: u64, log: &Log) {
        let kept = (start + 1..=log.last()).map_while(|index| Some((index, log.entry(index)?)));
        let kept: Vec<_> = kept
            .map(|(index, (epoch, entry))| {
                let (bytes, _) = self.encode(id, &*entry);
                (Stored { partition: id, index, epoch }, bytes)
            })
            .collect();
        self.open_batch();
        let batch = self.queue.back_mut().expect("opened above");
        batch.cut(id, start);
        kept.iter().for_each(|(stored, bytes)| batch.log_anew(*stored, bytes));
    }

    /// Whether there are more bundles than what is needed of them and the checkpoints are worth.
    fn is_long(&self) -> bool {
        let worth = self.checkpoints_weight.max(LOG_CHECKPOINTS * self.options.checkpoint_size);
        self.bundles.weight() > worth + 2 * self.bundles.needed()
    }

    /// Replaces what stands for the beginning of a log, and drops the entries after its end. Those up to its start are not needed once that
    /// is committed.
    fn fold(&mut self, partition: PartitionId, base: Base, last: u64, state: &State) {
        self.due.remove(&partition);
        self.begin(partition);
        let (bytes, _) = self.encode(partition, state);
        self.open_batch();
        let batch = self.queue.back_mut().expect("opened above");
        let tail = self.tails.get_mut(&partition).expect("begun above");
        if last < tail.last {
            batch.cut(partition, last);
        }
        batch.put(keys::base(partition), base.encode());
        let checkpoint_weight = bytes.len() as u64;
        self.checkpoints_weight += checkpoint_weight;
        self.checkpoints_weight -= tail.checkpoint_weight;
        batch.put(keys::checkpoint(partition), bytes);
        batch.notes.push(Note::Start(partition, base.start));
        *tail = Tail { base, last, weight: 0, checkpoint_weight, ..*tail };
        for number in self.shelf.take_dead(partition) {
            self.open_batch();
            self.queue.back_mut().expect("opened above").delete(keys::payload(partition, number));
        }
    }

    /// Deletes some of the bundles that nobody needs any more, not all at once. That goes before what waits for space, which it makes.
    fn trim(&mut self) -> Result<()> {
        if is_still(&mut self.trim_stuck, &self.store) {
            self.is_full = true;
            return Ok(());
        }
        let room = TRIM_MAX.min(self.limits.batch_min / TRIM_WEIGHT);
        let popped: Vec<_> = std::iter::from_fn(|| self.bundles.pop_needless()).take(room).collect();
        if popped.is_empty() {
            return Ok(());
        }
        let mut batch = Batch::default();
        popped.iter().for_each(|bundle| batch.delete(keys::bundle(self.shard, bundle.number)));
        match batch.commit(&self.store, self.space, self.limits.piece_max) {
            Ok(ticket) => {
                let (stored, kept) = Default::default();
                self.committed.push_back(Committed { ticket, stored, kept });
            }
            Err(error) if error.kind() == ErrorKind::Full => {
                self.is_full = true;
                self.trim_stuck = self.store.exhaustion();
                self.bundles.put_back(popped);
            }
            Err(error) => return Err(self.fail(error)),
        }
        Ok(())
    }

    /// Makes sure that the last batch may be added to. One step of the protocol is never cut in two.
    fn open_batch(&mut self) {
        let is_over = |batch: &Batch| batch.is_sealed() || batch.weight() >= self.limits.batch_min;
        if self.queue.back().is_none_or(is_over) {
            self.queue.push_back(Batch::default());
        }
    }

    /// Commits what was taken. It is durable later. Fails if the journal has failed.
    pub fn submit(&mut self) -> Result<()> {
        self.check()?;
        self.is_full = false;
        self.commit_queue()?;
        self.trim()
    }

    fn commit_queue(&mut self) -> Result<()> {
        if is_still(&mut self.queue_stuck, &self.store) {
            self.is_full = true;
            return Ok(());
        }
        while let Some(batch) = self.queue.front_mut() {
            let size = batch.seal(keys::bundle(self.shard, self.bundles.next()));
            match batch.commit(&self.store, self.space, self.limits.piece_max) {
                Ok(ticket) => {
                    let Batch { stored, kept, notes, .. } = self.queue.pop_front().expect("looked at above");
                    if size > 0 {
                        self.bundles.push(size);
                    }
                    notes.into_iter().for_each(|note| self.bundles.note(note));
                    self.committed.push_back(Committed { ticket, stored, kept });
                }
                Err(error) if error.kind() == ErrorKind::Full => {
                    self.is_full = true;
                    self.queue_stuck = self.store.exhaustion();
                    break;
                }
                Err(error) => return Err(self.fail(error)),
            }
        }
        // Who logs little is not to keep what all others log.
        if self.is_long() {
            self.due.extend(self.bundles.oldest());
        }
        Ok(())
    }

    /// What has become durable since the last call, in the order in which it was taken, as far as it has been committed. Pending
    /// if nothing has; the waker is called when that changes. Needs a thread in [`Store::drive_commits`], or [`Journal::sync`].
    pub fn poll_stored(&mut self, cx: &mut Context<'_>) -> Poll<Result<Vec<Stored>>> {
        if let Err(error) = self.check() {
            return Poll::Ready(Err(error));
        }
        let mut stored = std::mem::take(&mut self.in_memory);
        while let Some(committed) = self.committed.front_mut() {
            match committed.ticket.poll(cx) {
                Poll::Ready(Ok(())) => {
                    stored.append(&mut committed.stored);
                    committed.kept.iter().for_each(Payload::leave_memory);
                    self.committed.pop_front();
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(self.fail(error))),
                Poll::Pending => break,
            }
        }
        if stored.is_empty() { Poll::Pending } else { Poll::Ready(Ok(stored)) }
    }

    /// Makes everything durable that has been committed, on the calling thread.
    pub fn sync(&self) {
        while self.store.drive_commits_once() {}
    }

    /// Whether something was taken that is not known to be durable.
    pub fn has_pending(&self) -> bool {
        !(self.queue.is_empty() && self.committed.is_empty() && self.in_memory.is_empty())
    }

    /// Whether the device has no space for what waits. It is tried again by each [`Journal::submit`]. The node is to be told
    /// ([`Node::handle_room`](crate::Node::handle_room)), so that it takes on no more: what waits is in memory.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// The store.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// By which number [file names](tyr_proto::FileName) say that a file is of its store.
    pub fn number(&self) -> u64 {
        self.shelf.journal()
    }

    fn check(&self) -> Result<()> {
        self.failure.clone().or_else(|| self.shelf.failure()).map_or(Ok(()), Err)
    }

    fn fail(&mut self, error: Error) -> Error {
        self.failure.get_or_insert(error).clone()
    }
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Journal({} partitions, {} batches wait, {} in flight, failure: {:?})",
            self.tails.len(),
            self.queue.len(),
            self.committed.len(),
            self.failure
        )
    }
}

/// Whether what found no room surely would find none again: the store is as it was.
fn is_still(stuck: &mut Option<Exhaustion>, store: &Store) -> bool {
    *stuck = stuck.take().filter(|then| store.exhaustion() == Some(*then));
    stuck.is_some()
}

/// Payload in blobs of its own weighs as little as a part of its bytes: a restart does not read it, only what is dead waits for a
/// checkpoint.
const PAYLOAD_LIGHTNESS: u64 = 16;
/// What an entry costs beside its bytes, so that many small ones bring a checkpoint, too.
const ENTRY_WEIGHT: u64 = 128;
/// What the bytes of a payload's number and length may take.
const LIST_WEIGHT: usize = 12;
/// When all bundles together weigh as much as so many checkpoints of the least size, and as all checkpoints that there are, beside twice what is
/// needed of them, it is time for that of the partition that needs the oldest one.
const LOG_CHECKPOINTS: u64 = 16;
/// So many bundles weigh as much as a checkpoint of the least size, however few bytes they have. Each is a blob, which the store moves with what lies beside
/// it: a partition that logged nothing kept so many of them for all others that moving them took more time than what was written.
const CHECKPOINT_BUNDLES: u64 = 1024;
/// As many bundles are deleted at once.
const TRIM_MAX: usize = 256;
/// What a deletion takes in a transaction of the store, in bytes.
const TRIM_WEIGHT: usize = 96;

#[cfg(test)]
mod tests;

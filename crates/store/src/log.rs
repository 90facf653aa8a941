//! The log: records become frames, frames of all commits in flight become one durable write.
//!
//! Appending is in memory and ordered by the caller (the store's commit lock). Writing is done by a leader: the first thread
//! that waits for its commit takes everything appended so far, writes it at once, wakes those it has served, and hands
//! over. While a large batch is on its way, another may follow it, so that the disk has work while the next payload is prepared.
//! Batches count as durable in the order in which they were started, whichever is written first; so what a crash tears are
//! frames that were in flight, and nobody was told of them.
//!
//! Bulk payload is written in the same batch, to segments of its keyspace, or in one before it. A commit is durable when its frame and
//! its bulk payload are, and everything appended before.
//!
//! The first frame of every opening is an empty one that is written alone. It takes the place of whatever a crash has left behind the end, and
//! makes sure that the next opening has another epoch, so that nothing of what is behind it is ever taken for its successor.
//!
//! A failed write poisons the log: nothing that was not durable before becomes durable any more, and no sync is tried again.

mod assembly;
mod flight;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
    thread::Thread,
};

use parking_lot::Mutex;
use tyr_env::{Disk, File, Write};
use tyr_types::{Durability, Error, KeyspaceId, Number, Result};
use tyr_wire::{
    extent::Place,
    frame::{SEGMENT_HEADER_SIZE, SegmentKind},
};

pub use self::assembly::{Draft, Origin};
use self::{
    assembly::{Assembly, Chunk},
    flight::{Batch, Flight},
};
use crate::{
    failure::never_logged,
    guard::Poison,
    payload::Payload,
    segment::{Segment, SegmentHold, Segments},
};

/// The log of a store and the bulk segments being filled.
pub struct Log {
    disk: Arc<dyn Disk>,
    segments: Arc<Segments>,
    state: Mutex<State>,
    /// The last transaction that is on disk, with all before it.
    durable: AtomicU64,
    poison: Arc<Poison>,
    counters: Counters,
}

struct State {
    /// Whether this opening has written its first frame.
    has_begun: bool,
    assembly: Assembly,
    bulk: BTreeMap<KeyspaceId, OpenBulk>,
    /// The last number that was appended.
    appended: Number,
    /// Whether somebody waits for what has been appended to be on disk, rather than only written.
    needs_sync: bool,
    /// What leaders are writing.
    flight: Flight,
    /// Files written without a sync since the last one.
    unsynced: Vec<Arc<dyn File>>,
    waiters: VecDeque<(Goal, Waiter)>,
    driver: Option<Thread>,
    /// How many batches have been started, and the last of them that is durable with all before it.
    started: u64,
    synced: u64,
}

struct OpenBulk {
    segment: Arc<Segment>,
    position: u32,
}

/// What somebody waits for to be durable.
#[derive(Clone, Copy)]
enum Goal {
    /// A transaction.
    Number(Number),
    /// A batch, by its serial.
    Batch(u64),
}

enum Waiter {
    Thread(Thread),
    Task(Waker),
}

/// Totals since opening.
#[derive(Default)]
pub struct Counters {
    /// Durable or plain batch writes.
    pub batches: AtomicU64,
    /// Bytes written to log segments.
    pub log_bytes: AtomicU64,
    /// Bytes written to bulk segments.
    pub bulk_bytes: AtomicU64,
}

/// A position between two frames, where a replay may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogPosition {
    /// Where the next frame begins.
    pub place: Place,
    /// Its sequence.
    pub sequence: u64,
}

impl Log {
    /// Continues the log at `origin`.
    pub fn new(
        disk: Arc<dyn Disk>,
        poison: Arc<Poison>,
        segments: Arc<Segments>,
        origin: Origin,
        durable: Number,
    ) -> Self {
        let state = State {
            has_begun: false,
            assembly: Assembly::new(segments.clone(), origin),
            bulk: BTreeMap::new(),
            appended: durable,
            needs_sync: false,
            flight: Flight::default(),
            unsynced: Vec::new(),
            waiters: VecDeque::new(),
            driver: None,
            started: 0,
            synced: 0,
        };
        Log {
            disk,
            segments,
            state: Mutex::new(state),
            durable: AtomicU64::new(durable.to_u64()),
            poison,
            counters: Counters::default(),
        }
    }

    /// Writes the first frame of this opening, unless that has been done. Fails with `full` if there is no space; then it is done before
    /// anything else is appended.
    pub fn begin(&self) -> Result<()> {
        self.begin_locked(&mut self.state.lock())
    }

    fn begin_locked(&self, state: &mut State) -> Result<()> {
        if state.has_begun {
            return Ok(());
        }
        state.assembly.begin(state.appended)?;
        let batch = state.take_batch();
        if let Err(error) = self.write(&batch, &[]) {
            self.poison.set(&error);
            return self.check_poison();
        }
        batch.mark_written();
        state.synced = batch.serial;
        state.assembly.settle(batch.sequence);
        state.has_begun = true;
        Ok(())
    }

    /// Gives bulk payload a place in its keyspace's segments and queues it for the next batch. The segment is held until what is
    /// there counts as live. Fails with `full` if there is no space, with `invalid` if the payload is larger than a segment.
    pub fn place_bulk(&self, keyspace: KeyspaceId, payload: &Payload) -> Result<(Place, SegmentHold)> {
        let blocks = payload.blocks().expect("bulk payload is aligned");
        let size = u32::try_from(blocks.len()).expect("payload is bounded");
        if blocks.len() + SEGMENT_HEADER_SIZE > self.segments.capacity() as usize {
            return Err(Error::invalid(format!(
                "{} bytes do not fit a segment of {} bytes; write them in smaller pieces",
                payload.len(),
                self.segments.capacity()
            )));
        }
        let mut state = self.state.lock();
        self.begin_locked(&mut state)?;
        let full = state.bulk.get(&keyspace).is_none_or(|open| {
            u64::from(open.position) + u64::from(size) > u64::from(self.segments.capacity())
        });
        if full {
            let segment = self.segments.take(SegmentKind::Bulk(keyspace))?;
            let position = state.assembly.write_bulk_header(&segment);
            state.bulk.insert(keyspace, OpenBulk { segment, position });
        }
        let State { bulk, assembly, .. } = &mut *state;
        let open = bulk.get_mut(&keyspace).expect("opened above");
        let position = open.position;
        open.position += size;
        open.segment.fill_to(u64::from(open.position));
        assembly.push_bulk(open.segment.clone(), position, payload.clone());
        let hold = SegmentHold::new(open.segment.clone());
        Ok((Place { segment: open.segment.id, position }, hold))
    }

    /// Appends a record; see [`Draft`]. Returns the places of its payloads. Fails, having changed nothing, with `full`
    /// if there is no space, with `invalid` if the record is larger than a segment.
    pub fn append(&self, draft: &Draft<'_>, number: Number, durability: Durability) -> Result<Vec<Place>> {
        let mut state = self.state.lock();
        self.begin_locked(&mut state)?;
        let places = state.assembly.append(draft, number)?;
        state.appended = number.max(state.appended);
        if durability == Durability::Disk {
            state.needs_sync = true;
        } else {
            state.wake_driver();
        }
        Ok(places)
    }

    /// Ends the open frame and returns the position after it.
    pub fn position(&self) -> LogPosition {
        self.state.lock().assembly.end_frame()
    }

    /// Fails if the log is poisoned.
    pub fn check_poison(&self) -> Result<()> {
        self.poison.check()
    }

    /// The last transaction that is on disk.
    pub fn durable(&self) -> Number {
        Number::from_u64(self.durable.load(Ordering::Acquire))
    }

    /// Everything written so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Bytes appended and not yet handed to a leader.
    pub fn pending_bytes(&self) -> usize {
        self.state.lock().assembly.pending_bytes()
    }

    /// Blocks until `number` is on disk; the calling thread may do the writing. Fails with `corrupt` if nothing was appended under
    /// that number: no batch would bring it.
    pub fn wait(&self, number: Number) -> Result<()> {
        loop {
            if self.durable() >= number {
                return Ok(());
            }
            self.check_poison()?;
            let state = self.state.lock();
            if self.durable() >= number {
                return Ok(());
            }
            // A batch may have failed since: nothing may be written behind it.
            self.check_poison()?;
            state.check_appended(number)?;
            self.lead_or_park(state, Goal::Number(number));
        }
    }

    /// Writes a batch, or sleeps until it is worth looking again.
    fn lead_or_park(&self, mut state: parking_lot::MutexGuard<'_, State>, goal: Goal) {
        state.needs_sync = true;
        if state.may_lead() {
            return self.lead(state);
        }
        state.waiters.push_back((goal, Waiter::Thread(std::thread::current())));
        drop(state);
        std::thread::park();
    }

    /// Ready when `number` is on disk. Needs a thread in [`Log::drive`], or others that wait.
    pub fn poll(&self, number: Number, cx: &mut Context<'_>) -> Poll<Result<()>> {
        if self.durable() >= number {
            return Poll::Ready(Ok(()));
        }
        let mut state = self.state.lock();
        if self.durable() >= number {
            return Poll::Ready(Ok(()));
        }
        if let Err(error) = self.check_poison().and_then(|()| state.check_appended(number)) {
            return Poll::Ready(Err(error));
        }
        state.needs_sync = true;
        state.waiters.push_back((Goal::Number(number), Waiter::Task(cx.waker().clone())));
        if state.may_lead() {
            state.wake_driver();
        }
        Poll::Pending
    }

    /// Writes whatever has been appended, as one batch, if nobody else is writing; whether there was anything.
    pub fn drive_once(&self) -> bool {
        let mut state = self.state.lock();
        if self.poison.is_set() && state.flight.is_empty() {
            // Stopped by a failure elsewhere: nothing that is waited for will come.
            let (next, served) = state.take_woken(self.durable(), true);
            drop(state);
            next.into_iter().chain(served).for_each(Waiter::wake);
            return false;
        }
        let is_due = state.has_work() && state.may_lead();
        if is_due {
            self.lead(state);
        }
        is_due
    }

    /// Writes batches that no thread waits for until `stop` is set and [`Log::wake_driver`] called.
    pub fn drive(&self, stop: &AtomicBool) {
        self.state.lock().driver = Some(std::thread::current());
        self.poison.watch(Some(std::thread::current()));
        while !stop.load(Ordering::Acquire) {
            if !self.drive_once() {
                std::thread::park();
            }
        }
        while self.drive_once() {}
        let waiters = {
            let mut state = self.state.lock();
            state.driver = None;
            std::mem::take(&mut state.waiters)
        };
        waiters.into_iter().for_each(|(_, waiter)| waiter.wake());
        self.poison.watch(None);
    }

    /// Lets [`Log::drive`] look again.
    pub fn wake_driver(&self) {
        self.state.lock().wake_driver();
    }

    /// Makes everything durable that has been appended or placed, headers of segments included.
    pub fn flush(&self) -> Result<()> {
        let target = {
            let state = self.state.lock();
            state.started + u64::from(state.assembly.pending_bytes() > 0)
        };
        loop {
            let state = self.state.lock();
            if state.synced >= target {
                return Ok(());
            }
            self.check_poison()?;
            self.lead_or_park(state, Goal::Batch(target));
        }
    }

    /// Copies bytes that have a place but may not have reached the disk; false if they are not here, and so on the disk.
    pub fn read_pending(&self, place: Place, buffer: &mut [u8]) -> bool {
        let state = self.state.lock();
        state.assembly.copy_open(place, buffer)
            || state.assembly.chunks().chain(state.flight.chunks()).any(|chunk| chunk.copy_to(place, buffer))
    }

    /// The segments being filled: not to be compacted.
    pub fn open_segments(&self) -> Vec<Arc<Segment>> {
        let state = self.state.lock();
        let bulk = state.bulk.values().map(|open| open.segment.clone());
        bulk.chain([state.assembly.segment().clone()]).collect()
    }

    /// The segment of the log that is being filled.
    pub fn segment(&self) -> Arc<Segment> {
        self.state.lock().assembly.segment().clone()
    }

    /// Stops filling the bulk segment of a keyspace, so that it can be compacted or dropped.
    pub fn close_bulk(&self, keyspace: KeyspaceId) {
        self.state.lock().bulk.remove(&keyspace);
    }

    /// As [`Log::close_bulk`], of all keyspaces.
    pub fn close_all_bulk(&self) {
        self.state.lock().bulk.clear();
    }

    /// Whether the segment being filled is at least half full, so that it is time to prepare the next.
    pub fn is_segment_half_full(&self) -> bool {
        self.state.lock().assembly.is_half_full()
    }

    /// Continues to fill a bulk segment that a former run left unfinished.
    pub fn reopen_bulk(&self, keyspace: KeyspaceId, segment: Arc<Segment>) {
        let position = u32::try_from(segment.filled().next_multiple_of(4096)).unwrap_or(u32::MAX);
        if position >= 4096 && position < self.segments.capacity() {
            self.state.lock().bulk.insert(keyspace, OpenBulk { segment, position });
        }
    }

    /// Takes what is pending, writes it, and tells those who wait.
    fn lead(&self, mut state: parking_lot::MutexGuard<'_, State>) {
        let batch = Arc::new(state.take_batch());
        state.flight.start(batch.clone());
        let unsynced = if batch.sync { std::mem::take(&mut state.unsynced) } else { Vec::new() };
        drop(state);
        let result = self.write(&batch, &unsynced);
        let mut state = self.state.lock();
        if let Err(error) = &result {
            self.poison.set(error);
        }
        state.flight.end(batch.serial, result.is_ok());
        drop(batch);
        while let Some(written) = state.flight.take_written() {
            self.settle(&mut state, written);
        }
        let (next, served) = state.take_woken(self.durable(), self.poison.is_set());
        if next.is_none() && state.has_work() {
            state.wake_driver();
        }
        drop(state);
        next.into_iter().chain(served).for_each(Waiter::wake);
    }

    /// Takes note that a batch and all before it are written.
    fn settle(&self, state: &mut State, batch: Arc<Batch>) {
        batch.mark_written();
        if batch.sync {
            state.synced = batch.serial;
            self.durable.store(batch.last.to_u64(), Ordering::Release);
            state.assembly.settle(batch.sequence);
        } else {
            state.note_unsynced(&batch);
        }
        if let Some(batch) = Arc::into_inner(batch) {
            state.assembly.reuse(batch.chunks);
        }
    }

    fn write(&self, batch: &Batch, unsynced: &[Arc<dyn File>]) -> std::io::Result<()> {
        let writes: Vec<Write<'_>> = batch.chunks.iter().map(Chunk::as_write).collect();
        let (mut log_bytes, mut bulk_bytes) = (0, 0);
        for (chunk, write) in batch.chunks.iter().zip(&writes) {
            match chunk.segment().kind {
                SegmentKind::Log => log_bytes += write.bytes.len() as u64,
                SegmentKind::Bulk(_) => bulk_bytes += write.bytes.len() as u64,
            }
        }
        self.counters.log_bytes.fetch_add(log_bytes, Ordering::Relaxed);
        self.counters.bulk_bytes.fetch_add(bulk_bytes, Ordering::Relaxed);
        self.segments.note_batch(log_bytes);
        self.counters.batches.fetch_add(1, Ordering::Relaxed);
        if !batch.sync {
            return writes.iter().try_for_each(|write| write.file.write_at(write.position, write.bytes));
        }
        for file in unsynced {
            file.sync()?;
        }
        self.disk.write_durably(&writes)
    }
}

impl State {
    fn check_appended(&self, number: Number) -> Result<()> {
        if number > self.appended {
            return Err(never_logged(number));
        }
        Ok(())
    }

    /// Whether a batch may be started now.
    fn may_lead(&self) -> bool {
        self.flight.is_empty()
            || self.needs_sync
                && self.unsynced.is_empty()
                && self.flight.admits(self.assembly.pending_bytes())
    }

    fn has_work(&self) -> bool {
        self.assembly.pending_bytes() > 0 || (self.needs_sync && !self.unsynced.is_empty())
    }

    /// Remembers the files of a batch that was written without a sync, each once.
    fn note_unsynced(&mut self, batch: &Batch) {
        for chunk in &batch.chunks {
            let file = &chunk.segment().file;
            if !self.unsynced.iter().any(|known| Arc::ptr_eq(known, file)) {
                self.unsynced.push(file.clone());
            }
        }
    }

    fn take_batch(&mut self) -> Batch {
        let position = self.assembly.end_frame();
        self.started += 1;
        Batch {
            chunks: self.assembly.take_chunks(),
            sync: std::mem::take(&mut self.needs_sync) || !self.has_begun,
            last: self.appended,
            sequence: position.sequence - 1,
            serial: self.started,
        }
    }

    /// The thread that leads next, if one waits, and the waiters that were served: all of them if the log is poisoned.
    fn take_woken(&mut self, durable: Number, is_poisoned: bool) -> (Option<Waiter>, Vec<Waiter>) {
        let synced = self.synced;
        let is_served = |goal: &Goal| match goal {
            Goal::Number(number) => *number <= durable,
            Goal::Batch(serial) => *serial <= synced,
        };
        let (served, rest): (VecDeque<_>, VecDeque<_>) =
            self.waiters.drain(..).partition(|(goal, _)| is_poisoned || is_served(goal));
        self.waiters = rest;
        let is_thread = |(_, waiter): &(Goal, Waiter)| matches!(waiter, Waiter::Thread(_));
        let next = self.waiters.iter().position(is_thread).filter(|_| self.may_lead());
        let next = next.and_then(|index| self.waiters.remove(index)).map(|(_, waiter)| waiter);
        (next, served.into_iter().map(|(_, waiter)| waiter).collect())
    }

    fn wake_driver(&self) {
        self.driver.iter().for_each(Thread::unpark);
    }
}

impl Waiter {
    fn wake(self) {
        match self {
            Waiter::Thread(thread) => thread.unpark(),
            Waiter::Task(waker) => waker.wake(),
        }
    }
}

#[cfg(test)]
mod tests;

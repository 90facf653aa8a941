//! What a journal told to be stored is found again, whatever happened to the process and the power.

use std::{
    sync::Arc,
    task::{Context, Poll, Waker},
};

use tyr_env::Disk;
use tyr_proto::{
    Answered, ClassId, Epoch, Incarnation, Log, NodeId, Output, Partition, PartitionId, Payload, Replica,
    RingVersion, SessionId, ShardId, Stage, State, TransactionId,
    cluster::Identity,
    encoding::{to_bytes, to_bytes_keeping},
    entry::Entry,
};
use tyr_sim_env::{CrashMode, Fault, SimClock, SimDisk};
use tyr_store::{Create, Store};
use tyr_types::{Durability, ErrorKind, Result};

use super::{Journal, Options, Restored, Start, Stored};

const P: PartitionId = PartitionId { class: ClassId(0), index: 5 };
const ME: Replica = Replica { node: NodeId(1), incarnation: Incarnation(1) };

fn options(checkpoint_size: u64) -> Options {
    Options { checkpoint_size, payload_min: 16, readers: 1 }
}

fn open_store(disk: &Arc<SimDisk>) -> Result<Arc<Store>> {
    let options =
        tyr_store::Options { segment_size: 128 << 10, inline_max: 4096, data_cache: 0, ..Default::default() };
    Store::open(disk.clone(), SimClock::new(), Create::IfMissing, options).map(Arc::new)
}

fn open(disk: &Arc<SimDisk>, checkpoint_size: u64) -> Result<(Journal, Vec<Partition>)> {
    let (journal, found) = Journal::open(open_store(disk)?, ShardId::ONLY, options(checkpoint_size))?;
    Ok((journal, found.into_iter().map(|found| Restored::into_partition(found, ME)).collect()))
}

/// A partition with its journal, as the protocol drives it.
struct Bench {
    journal: Journal,
    log: Log,
    state: State,
}

impl Bench {
    fn new(disk: &Arc<SimDisk>, checkpoint_size: u64) -> Bench {
        let (journal, found) = open(disk, checkpoint_size).expect("opens");
        assert!(found.is_empty());
        Bench { journal, log: Log::default(), state: State::new(P) }
    }

    fn take(&mut self, output: Output) {
        assert!(self.journal.take(output, Durability::Disk).is_none());
    }

    fn push(&mut self, epoch: u32, entry: Entry) {
        let (epoch, entry) = (Epoch(epoch), Arc::new(entry));
        let index = self.log.push(epoch, entry.clone());
        self.state.apply(index, epoch, &entry);
        self.take(Output::Store { partition: P, index, epoch, entry });
    }

    fn cut(&mut self, last: u64) {
        self.log.cut(last);
        self.state.cut_log(last);
        self.take(Output::Cut(P, last));
    }

    fn partition(&self) -> Partition {
        Partition::restored(P, ME, self.log.clone(), self.state.clone())
    }

    fn checkpoint(&mut self) {
        self.journal.checkpoint(&self.partition());
    }

    /// Makes durable what was taken, and returns what is told.
    fn settle(&mut self) -> Result<Vec<Stored>> {
        self.journal.submit()?;
        self.journal.sync();
        match self.journal.poll_stored(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(stored) => stored,
            Poll::Pending => Ok(Vec::new()),
        }
    }
}

fn mark(answered: u64) -> Entry {
    Entry::Mark {
        session: SessionId(answered % 3),
        answered: Answered::below(answered).into(),
        born: RingVersion(1),
    }
}

/// What a partition holds, to be compared.
fn content(partition: &Partition) -> (u64, Vec<(Epoch, u64)>, Vec<u8>) {
    (partition.log().last(), partition.log().epochs().to_vec(), to_bytes(partition.state()))
}

/// The same without its payload, which need not be read.
fn shape(partition: &Partition) -> (u64, Vec<(Epoch, u64)>, Vec<u8>) {
    let (state, _) = to_bytes_keeping(partition.state(), 1);
    (partition.log().last(), partition.log().epochs().to_vec(), state)
}

/// Whether the payload that is staged is what was staged.
fn has_its_payload(partition: &Partition) -> bool {
    let stages = partition.state().stages();
    stages.ids().iter().all(|id| {
        let stage = stages.find(*id, (0, 0), &(0..1000)).expect("all of it is there");
        stage.bytes == payload(id.sequence)
    })
}

/// The content of what is found on a disk.
fn content_on(disk: &Arc<SimDisk>) -> (u64, Vec<(Epoch, u64)>, Vec<u8>) {
    let (_journal, found) = open(disk, 1 << 20).expect("opens");
    assert_eq!(found.len(), 1);
    content(&found[0])
}

fn id(sequence: u64) -> TransactionId {
    TransactionId { session: SessionId(9), sequence, birth: RingVersion(1) }
}

/// Payload that is staged for a transaction.
fn stage(sequence: u64, bytes: Payload) -> Entry {
    let part = 0..bytes.len();
    Entry::Stage(Arc::new(Stage { id: id(sequence), decider: P, payload: (0, 0), from: 0, bytes, part }))
}

fn payload(sequence: u64) -> Payload {
    vec![u8::try_from(sequence % 251).expect("below 251"); 1000].into()
}

#[test]
fn what_was_logged_is_found_after_a_restart() {
    let disk = SimDisk::new(1);
    let mut bench = Bench::new(&disk, 1 << 20);
    bench.push(1, Entry::Marker);
    (2..40).for_each(|answered| bench.push(1, mark(answered)));
    let stored = bench.settle().expect("durable");
    assert_eq!(stored.last(), Some(&Stored { partition: P, index: 39, epoch: Epoch(1) }));
    assert_eq!(content_on(&disk.crash(CrashMode::LoseAll)), content(&bench.partition()));
}

#[test]
fn nothing_is_told_before_it_is_durable() {
    let disk = SimDisk::new(2);
    let mut bench = Bench::new(&disk, 1 << 20);
    bench.push(1, Entry::Marker);
    let cx = &mut Context::from_waker(Waker::noop());
    assert!(bench.journal.poll_stored(cx).is_pending(), "it is not even committed");
    bench.journal.submit().expect("commits");
    assert!(bench.journal.poll_stored(cx).is_pending() && bench.journal.has_pending());
    bench.journal.sync();
    assert!(bench.journal.poll_stored(cx).is_ready() && !bench.journal.has_pending());
}

#[test]
fn a_class_in_memory_waits_for_nothing_and_leaves_nothing() {
    let disk = SimDisk::new(3);
    let mut bench = Bench::new(&disk, 1 << 20);
    let output = Output::Store { partition: P, index: 1, epoch: Epoch(1), entry: Arc::new(Entry::Marker) };
    assert!(bench.journal.take(output, Durability::Memory).is_none());
    assert!(bench.journal.poll_stored(&mut Context::from_waker(Waker::noop())).is_ready());
    let (_, found) = open(&disk.crash(CrashMode::KeepAll), 1 << 20).expect("opens");
    assert!(found.is_empty());
}

#[test]
fn a_checkpoint_replaces_the_entries_that_the_log_has_dropped() {
    let disk = SimDisk::new(4);
    let mut bench = Bench::new(&disk, 1 << 10);
    for answered in 1..=100 {
        bench.push(1, mark(answered));
        bench.log.trim(answered.saturating_sub(5));
        bench.state.trim_log(answered.saturating_sub(5));
        for due in bench.journal.due() {
            assert_eq!(due, P);
            bench.checkpoint();
        }
        bench.settle().expect("durable");
    }
    let disk = disk.crash(CrashMode::LoseAll);
    let (journal, found) = open(&disk, 1 << 20).expect("opens");
    let start = found[0].log().start();
    assert!(start > 50, "the log begins at {start}");
    assert_eq!(content(&found[0]), content(&bench.partition()));
    assert!(blobs(&journal) < 30, "{} blobs are left", blobs(&journal));
}

#[test]
fn a_log_that_is_cut_behind_its_checkpoint_is_found_as_it_was_cut() {
    let disk = SimDisk::new(5);
    let mut bench = Bench::new(&disk, 1 << 20);
    (1..=10).for_each(|answered| bench.push(1, mark(answered)));
    bench.checkpoint();
    bench.cut(6);
    bench.settle().expect("durable");
    assert_eq!(content_on(&disk.snapshot().crash(CrashMode::LoseAll)).0, 6);
    bench.push(2, Entry::Marker);
    (20..30).for_each(|answered| bench.push(2, mark(answered)));
    bench.settle().expect("durable");
    assert_eq!(content_on(&disk.crash(CrashMode::LoseAll)), content(&bench.partition()));
}

#[test]
fn an_installed_state_takes_the_place_of_a_longer_log() {
    let disk = SimDisk::new(6);
    let mut bench = Bench::new(&disk, 1 << 20);
    (1..=600).for_each(|answered| bench.push(1, mark(answered)));
    bench.settle().expect("durable");
    let (index, epochs) = (400, vec![(Epoch(1), 300), (Epoch(2), 400)]);
    bench.log = Log::after(index, epochs.clone());
    bench.state = State::new(P);
    let state = Arc::new(bench.state.clone());
    bench.take(Output::Install { partition: P, index, epochs, state });
    let told = bench.settle().expect("durable");
    assert_eq!(told, [Stored { partition: P, index, epoch: Epoch(2) }]);
    bench.push(3, Entry::Marker);
    bench.settle().expect("durable");
    assert_eq!(content_on(&disk.crash(CrashMode::LoseAll)), content(&bench.partition()));
}

#[test]
fn large_entries_and_states_are_found_whole() {
    let disk = SimDisk::new(7);
    let mut bench = Bench::new(&disk, 1 << 20);
    let ids = (0..20_000).map(|sequence| {
        let birth = RingVersion(sequence);
        let id = TransactionId { session: SessionId(1), sequence, birth };
        (id, tyr_proto::Outcome::Committed)
    });
    bench.push(1, Entry::Outcomes(ids.collect()));
    (0..5_000).for_each(|session| {
        bench.push(
            1,
            Entry::Mark {
                session: SessionId(session),
                answered: Answered::below(1).into(),
                born: RingVersion(1),
            },
        );
    });
    bench.checkpoint();
    bench.settle().expect("durable");
    assert_eq!(content_on(&disk.crash(CrashMode::LoseAll)), content(&bench.partition()));
}

#[test]
fn starts_are_counted_and_the_first_identity_stays() {
    let disk = SimDisk::new(8);
    for number in 1..4 {
        let store = open_store(&disk).expect("opens");
        let start = Start::count(&[&store], None, Identity(u128::from(number))).expect("counts");
        assert_eq!(start, Start { identity: Identity(1), number });
    }
}

#[test]
fn no_start_is_counted_twice_whichever_stores_are_there() {
    let disks = [SimDisk::new(9), SimDisk::new(10)];
    let count = |places: &[usize], known| {
        let stores: Vec<Arc<Store>> =
            places.iter().map(|place| open_store(&disks[*place]).expect("opens")).collect();
        Start::count(&stores.iter().map(|store| &**store).collect::<Vec<_>>(), known, Identity(7))
    };
    let first = count(&[0, 1], None).expect("counts");
    assert_eq!(first, Start { identity: Identity(7), number: 1 });
    let known = Start { number: 0, ..first };
    assert_eq!(count(&[1], Some(known)).expect("counts").number, 2);
    assert_eq!(count(&[0, 1], Some(known)).expect("counts").number, 3);
    let third = count(&[0], Some(known)).expect("counts");
    assert_eq!(third.number, 4);
    assert_eq!(count(&[1], Some(third)).expect("counts").number, 5, "what the node knows besides counts");
    let other = Start { identity: Identity(8), ..third };
    assert_eq!(count(&[0], Some(other)).expect_err("is refused").kind(), ErrorKind::Invalid);
}

/// One step of a history of a partition.
fn step(bench: &mut Bench, round: u64) {
    match round % 7 {
        // What is cut leaves no facts behind, so that what is found can be compared.
        2 => {
            (0..2).for_each(|_| bench.push(100, Entry::Marker));
            bench.push(100, stage(round, payload(round)));
        }
        3 => bench.checkpoint(),
        4 => bench.cut(bench.log.last() - 3),
        6 => bench.checkpoint(),
        _ => {
            let epoch = u32::try_from(1 + round / 7).expect("few rounds");
            (0..3).for_each(|answered| bench.push(epoch, mark(round * 10 + answered)));
            bench.push(epoch, stage(round, payload(round)));
            if round % 7 == 5 {
                let start = bench.log.last().saturating_sub(6);
                bench.log.trim(start);
                bench.state.trim_log(start);
            }
        }
    }
}

#[test]
fn after_a_crash_at_any_operation_a_state_is_found_that_there_was_and_nothing_that_was_told_is_lost() {
    let run = |disk: &Arc<SimDisk>| {
        let mut histories = vec![None];
        let mut told = 0;
        let Ok((journal, _)) = open(disk, 1 << 9) else { return (histories, told) };
        let mut bench = Bench { journal, log: Log::default(), state: State::new(P) };
        for round in 0..21 {
            step(&mut bench, round);
            histories.push(Some(shape(&bench.partition())));
            match bench.settle() {
                Ok(_) if !disk.is_crashed() => told = histories.len() - 1,
                _ => break,
            }
        }
        (histories, told)
    };
    let whole = SimDisk::new(9);
    run(&whole);
    for operation in 0..whole.operations() {
        let disk = SimDisk::new(9);
        disk.fail_at(operation, Fault::Crash);
        let (histories, told) = run(&disk);
        for mode in CrashMode::ALL {
            let after = disk.crash(mode);
            let (_journal, found) = open(&after, 1 << 9).expect("opens");
            assert!(found.first().is_none_or(has_its_payload), "at {operation}, {mode:?}");
            let found = found.first().map(shape);
            let last = histories.iter().rposition(|history| *history == found);
            assert!(last.is_some(), "at {operation}, {mode:?}: {found:?} never was");
            assert!(last >= Some(told), "at {operation}, {mode:?}: {last:?} was told up to {told}");
        }
    }
}

#[test]
fn a_failed_write_stops_the_journal_for_good() {
    let disk = SimDisk::new(10);
    let mut bench = Bench::new(&disk, 1 << 20);
    bench.push(1, Entry::Marker);
    bench.journal.submit().expect("commits");
    disk.fail_at(disk.operations(), Fault::Error);
    bench.journal.sync();
    let cx = &mut Context::from_waker(Waker::noop());
    let failed = |told: Poll<Result<Vec<Stored>>>| matches!(told, Poll::Ready(Err(error)) if error.kind() == ErrorKind::Unavailable);
    assert!(failed(bench.journal.poll_stored(cx)));
    bench.push(1, Entry::Marker);
    assert!(bench.journal.submit().is_err() && failed(bench.journal.poll_stored(cx)));
}

#[test]
fn a_full_disk_refuses_and_goes_on_when_there_is_space() {
    let disk = SimDisk::new(11);
    let mut bench = Bench::new(&disk, 1 << 20);
    disk.set_capacity(0);
    for answered in 1..=300 {
        bench.push(1, mark(answered));
        bench.settle().expect("no space is no failure");
    }
    assert!(bench.journal.is_full() && bench.journal.has_pending());
    disk.set_capacity(1 << 30);
    let told = bench.settle().expect("durable");
    assert_eq!(told.last().map(|stored| stored.index), Some(300));
    assert!(!bench.journal.is_full() && !bench.journal.has_pending());
    assert_eq!(content_on(&disk.crash(CrashMode::LoseAll)), content(&bench.partition()));
    assert!(disk.space().is_err(), "the power is off");
}

#[test]
fn who_tries_again_leaves_a_full_disk_alone() {
    let disk = SimDisk::new(14);
    let mut bench = Bench::new(&disk, 1 << 20);
    disk.set_capacity(0);
    while !bench.journal.is_full() {
        bench.push(1, mark(1));
        bench.settle().expect("no space is no failure");
    }
    let before = disk.operations();
    for _ in 0..10 {
        bench.settle().expect("no space is no failure");
    }
    assert!(bench.journal.is_full());
    assert_eq!(disk.operations(), before, "nothing was created and removed");
}

fn blobs(journal: &Journal) -> u64 {
    journal.store().keyspaces().iter().map(|keyspace| keyspace.blobs).sum()
}

#[test]
fn what_an_installed_state_has_skipped_is_not_looked_for() {
    let disk = SimDisk::new(12);
    let mut bench = Bench::new(&disk, 1 << 20);
    let (index, epochs) = (100_000_000, vec![(Epoch(1), 100_000_000)]);
    bench.log = Log::after(index, epochs.clone());
    let state = Arc::new(bench.state.clone());
    bench.take(Output::Install { partition: P, index, epochs, state });
    (1..=600).for_each(|answered| bench.push(2, mark(answered)));
    bench.log.trim(bench.log.last());
    bench.checkpoint();
    (0..4).for_each(|_| drop(bench.settle().expect("durable")));
    assert!(blobs(&bench.journal) < 10, "{} blobs are left", blobs(&bench.journal));
    assert_eq!(content_on(&disk.crash(CrashMode::LoseAll)), content(&bench.partition()));
}

#[test]
fn what_checkpoints_have_replaced_is_deleted_though_the_disk_is_full() {
    let disk = SimDisk::new(13);
    let mut bench = Bench::new(&disk, 1 << 20);
    for answered in 1..=1000 {
        bench.push(1, mark(answered));
        bench.settle().expect("durable");
    }
    bench.log.trim(bench.log.last());
    bench.checkpoint();
    bench.settle().expect("durable");
    let before = blobs(&bench.journal);
    disk.set_capacity(0);
    while !bench.journal.is_full() {
        bench.push(1, mark(3000));
        bench.settle().expect("no space is no failure");
    }
    for _ in 0..8 {
        bench.settle().expect("no space is no failure");
    }
    let after = blobs(&bench.journal);
    assert!(after + 200 < before, "{before} blobs were there, {after} are");
}

#[test]
fn payload_leaves_memory_when_it_is_durable_and_is_read_from_the_disk() {
    let disk = SimDisk::new(15);
    let mut bench = Bench::new(&disk, 1 << 20);
    let (large, small) = (payload(7), Payload::from(vec![1; 15]));
    bench.push(1, stage(1, large.clone()));
    bench.push(1, stage(2, small.clone()));
    bench.journal.submit().expect("commits");
    assert!(large.in_memory().is_some(), "it is not durable yet");
    bench.settle().expect("durable");
    assert!(large.in_memory().is_none() && small.in_memory().is_some());
    assert_eq!(large.bytes().as_deref(), Ok(&[7; 1000][..]));
    bench.checkpoint();
    bench.settle().expect("durable");
    let expected = content(&bench.partition());
    assert_eq!(content_on(&disk.snapshot().crash(CrashMode::LoseAll)), expected, "from the checkpoint");
}

#[test]
fn large_payload_that_came_in_whole_blocks_is_found_again() {
    let disk = SimDisk::new(18);
    let mut bench = Bench::new(&disk, 1 << 20);
    let bytes: Vec<u8> = (0..100_000).map(|place: u32| (place % 251) as u8).collect();
    let payload = Payload::from(tyr_store::aligned_copy(&bytes).expect("is large"));
    bench.push(1, stage(1, payload.clone()));
    bench.settle().expect("durable");
    assert!(payload.in_memory().is_none() && payload.bytes().as_deref() == Ok(&bytes[..]));
    let expected = content(&bench.partition());
    assert_eq!(content_on(&disk.snapshot().crash(CrashMode::LoseAll)), expected);
}

#[test]
fn a_payload_is_written_once_however_often_it_is_logged_and_checkpointed() {
    let disk = SimDisk::new(16);
    let mut bench = Bench::new(&disk, 1 << 20);
    let shared = payload(3);
    let others = blobs(&bench.journal);
    (1..=5).for_each(|sequence| bench.push(1, stage(sequence, shared.clone())));
    (0..3).for_each(|_| {
        bench.checkpoint();
        bench.settle().expect("durable");
    });
    let (base, checkpoint, bundles, payloads) = (1, 1, 1, 1);
    assert_eq!(blobs(&bench.journal) - others, base + checkpoint + bundles + payloads);
}

#[test]
fn payload_that_nobody_has_any_more_goes_with_the_next_checkpoint() {
    let disk = SimDisk::new(17);
    let mut bench = Bench::new(&disk, 1 << 20);
    (1..=100).for_each(|sequence| bench.push(1, stage(sequence, payload(sequence))));
    bench.settle().expect("durable");
    (1..=99).for_each(|sequence| bench.push(1, Entry::Unstage { id: id(sequence) }));
    bench.log.trim(bench.log.last());
    bench.state.trim_log(bench.log.last());
    bench.checkpoint();
    (0..4).for_each(|_| drop(bench.settle().expect("durable")));
    assert!(blobs(&bench.journal) < 10, "{} blobs are left", blobs(&bench.journal));
    let expected = content(&bench.partition());
    assert_eq!(content_on(&disk.crash(CrashMode::LoseAll)), expected);
}

#[test]
fn a_partition_at_rest_gets_a_checkpoint_if_that_gives_back_more_than_it_takes() {
    let disk = SimDisk::new(24);
    let mut bench = Bench::new(&disk, 1 << 20);
    (1..=100).for_each(|sequence| bench.push(1, stage(sequence, payload(sequence))));
    bench.checkpoint();
    bench.settle().expect("durable");
    bench.journal.rest(&bench.partition());
    assert!(bench.journal.due().is_empty(), "nothing has died");
    (1..=99).for_each(|sequence| bench.push(1, Entry::Unstage { id: id(sequence) }));
    bench.settle().expect("durable");
    bench.log.trim(bench.log.last());
    bench.state.trim_log(bench.log.last());
    bench.journal.rest(&bench.partition());
    assert_eq!(bench.journal.due(), [P]);
    bench.checkpoint();
    (0..4).for_each(|_| drop(bench.settle().expect("durable")));
    assert!(blobs(&bench.journal) < 10, "{} blobs are left", blobs(&bench.journal));
    bench.journal.rest(&bench.partition());
    assert!(bench.journal.due().is_empty(), "all that had died is gone");
}

#[test]
fn payload_that_died_with_the_process_goes_after_the_restart() {
    let disk = SimDisk::new(18);
    let mut bench = Bench::new(&disk, 1 << 20);
    (1..=100).for_each(|sequence| bench.push(1, stage(sequence, payload(sequence))));
    bench.cut(1);
    bench.settle().expect("durable");
    assert!(blobs(&bench.journal) > 100, "no checkpoint came since");
    let (mut journal, found) = open(&disk.crash(CrashMode::LoseAll), 1 << 20).expect("opens");
    journal.checkpoint(&found[0]);
    journal.submit().expect("commits");
    assert!(blobs(&journal) < 20, "{} blobs are left, bundles among them", blobs(&journal));
}

#[test]
fn payload_that_cannot_be_read_stops_the_journal_before_anything_is_said() {
    let disk = SimDisk::new(19);
    let mut bench = Bench::new(&disk, 1 << 20);
    let lost = payload(1);
    bench.push(1, stage(1, lost.clone()));
    bench.settle().expect("durable");
    for name in disk.names().expect("lists") {
        disk.fail_reads(&name, 0..u64::MAX).expect("is there");
    }
    assert!(lost.bytes().is_err());
    let said = Output::AskVersion(RingVersion(1));
    assert!(bench.journal.take(said, Durability::Disk).is_none());
    let error = bench.journal.submit().expect_err("failed");
    assert!(error.to_string().contains("payload 0 of partition"), "{error}");
}

#[test]
fn a_journal_that_has_failed_says_which_payload_it_could_not_read_and_why() {
    let disk = SimDisk::new(23);
    let mut bench = Bench::new(&disk, 1 << 20);
    let missing = Payload::at_home(1000, bench.journal.shelf.home(PartitionId { index: 6, ..P }, 77, 1000));
    bench.push(1, stage(1, missing));
    let error = bench.journal.submit().expect_err("it has failed");
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    let text = error.to_string();
    assert!(text.contains("payload 77") && text.contains("is missing"), "{text}");
}

#[test]
fn a_state_with_more_payload_than_a_segment_holds_is_installed() {
    let disk = SimDisk::new(20);
    let mut bench = Bench::new(&disk, 1 << 20);
    (1..=400).for_each(|sequence| {
        bench.state.apply(sequence, Epoch(1), &stage(sequence, payload(sequence)));
    });
    let (index, epochs) = (400, vec![(Epoch(1), 400)]);
    bench.log = Log::after(index, epochs.clone());
    let state = Arc::new(bench.state.clone());
    bench.take(Output::Install { partition: P, index, epochs, state });
    bench.settle().expect("durable");
    let expected = content(&bench.partition());
    assert_eq!(content_on(&disk.crash(CrashMode::LoseAll)), expected);
}

#[test]
fn entries_in_the_place_of_some_that_were_cut_are_found_and_leave_nothing_of_those() {
    let disk = SimDisk::new(24);
    let mut bench = Bench::new(&disk, 1 << 20);
    let before = blobs(&bench.journal);
    (1..=10).for_each(|_| bench.push(1, Entry::Marker));
    bench.settle().expect("durable");
    bench.cut(6);
    (0..4).for_each(|_| bench.push(2, Entry::Marker));
    bench.settle().expect("durable");
    bench.cut(8);
    bench.settle().expect("durable");
    (0..2).for_each(|_| bench.push(3, Entry::Marker));
    bench.settle().expect("durable");
    let (base, bundles) = (1, 4);
    assert_eq!(blobs(&bench.journal) - before, base + bundles);
    let disk = disk.crash(CrashMode::LoseAll);
    assert_eq!(content_on(&disk), content(&bench.partition()));
    let (journal, _) = open(&disk, 1 << 20).expect("opens");
    assert_eq!(blobs(&journal) - before, base + bundles);
    assert_eq!(journal.store().check().expect("checks").damage, Vec::<String>::new());
}

#[test]
fn what_an_installation_that_was_cut_short_had_written_is_gone_after_the_next() {
    let install = |bench: &mut Bench| {
        let (index, epochs) = (200, vec![(Epoch(1), 200)]);
        bench.log = Log::after(index, epochs.clone());
        bench.state = State::new(P);
        (1..=200).for_each(|sequence| {
            bench.state.apply(sequence, Epoch(1), &stage(sequence, payload(sequence)));
        });
        let state = Arc::new(bench.state.clone());
        bench.take(Output::Install { partition: P, index, epochs, state });
    };
    let whole = SimDisk::new(25);
    let mut bench = Bench::new(&whole, 1 << 20);
    let before = whole.operations();
    install(&mut bench);
    bench.settle().expect("durable");
    let expected = blobs(&bench.journal);
    for operation in before..whole.operations() {
        let disk = SimDisk::new(25);
        let mut bench = Bench::new(&disk, 1 << 20);
        disk.fail_at(operation, Fault::Crash);
        install(&mut bench);
        let _ = bench.settle();
        let disk = disk.crash(CrashMode::KeepAll);
        let (journal, _) = open(&disk, 1 << 20).expect("opens");
        let mut bench = Bench { journal, log: Log::default(), state: State::new(P) };
        (0..2).for_each(|_| {
            install(&mut bench);
            bench.settle().expect("durable");
        });
        assert_eq!(blobs(&bench.journal), expected, "at {operation}");
        assert_eq!(
            bench.journal.store().check().expect("checks").damage,
            Vec::<String>::new(),
            "at {operation}"
        );
    }
}

#[test]
fn a_partition_that_logs_little_does_not_keep_what_all_others_log() {
    let disk = SimDisk::new(26);
    let idle = PartitionId { index: 6, ..P };
    let mut bench = Bench::new(&disk, 1 << 10);
    let entry = Arc::new(Entry::Marker);
    bench.take(Output::Store { partition: idle, index: 1, epoch: Epoch(1), entry: entry.clone() });
    let mut log = Log::default();
    log.push(Epoch(1), entry.clone());
    let mut state = State::new(idle);
    state.apply(1, Epoch(1), &entry);
    let mut checkpoints = 0;
    for answered in 1..=4000 {
        bench.push(1, mark(answered));
        bench.log.trim(bench.log.last());
        bench.state.trim_log(bench.log.last());
        for due in bench.journal.due() {
            if due == P {
                bench.checkpoint();
            } else {
                checkpoints += 1;
                bench.journal.checkpoint(&Partition::restored(idle, ME, log.clone(), state.clone()));
            }
        }
        bench.settle().expect("durable");
    }
    assert!((1..20).contains(&checkpoints), "of an idle partition {checkpoints} checkpoints were taken");
    assert!(blobs(&bench.journal) < 1000, "{} blobs are left", blobs(&bench.journal));
    let (_, found) = open(&disk.crash(CrashMode::LoseAll), 1 << 10).expect("opens");
    assert_eq!(content(&found[0]), content(&bench.partition()));
    assert_eq!(content(&found[1]), content(&Partition::restored(idle, ME, log, state)));
    assert_eq!(found[1].log().start(), 0, "its log is as it was");
}

#[test]
fn bundles_that_are_kept_for_a_partition_that_logs_little_are_few_however_small_they_are() {
    const CHECKPOINT_SIZE: u64 = 256 << 10;
    let mut bench = Bench::new(&SimDisk::new(28), CHECKPOINT_SIZE);
    let idle = PartitionId { index: 6, ..P };
    bench.take(Output::Store { partition: idle, index: 1, epoch: Epoch(1), entry: Arc::new(Entry::Marker) });
    let most = super::LOG_CHECKPOINTS * super::CHECKPOINT_BUNDLES;
    let mut answered = 0;
    while !bench.journal.due().contains(&idle) {
        answered += 1;
        assert!(answered <= most, "{answered} bundles are kept for one entry");
        bench.push(1, mark(answered));
        bench.log.trim(bench.log.last());
        bench.state.trim_log(bench.log.last());
        if bench.journal.due().contains(&P) {
            bench.checkpoint();
        }
        bench.settle().expect("durable");
    }
    assert!(answered > most / 2, "it was as much as {answered} bundles");
}

#[test]
fn a_journal_with_a_bundle_missing_or_malformed_is_not_opened() {
    let disk = SimDisk::new(27);
    let mut bench = Bench::new(&disk, 1 << 20);
    for answered in 1..=3 {
        bench.push(1, mark(answered));
        bench.settle().expect("durable");
    }
    let Bench { journal, .. } = bench;
    let (store, space) = (journal.store().clone(), journal.space);
    drop(journal);
    let key = super::keys::bundle(ShardId::ONLY, 1);
    let open = || Journal::open(store.clone(), ShardId::ONLY, options(1 << 20)).map(drop);
    let change = |bytes: Option<&[u8]>| {
        let mut batch = super::batch::Batch::default();
        match bytes {
            Some(bytes) => batch.put(key.clone(), bytes.to_vec()),
            None => batch.delete(key.clone()),
        }
        batch.commit(&store, space, 1 << 10).expect("commits").wait().expect("durable");
    };
    open().expect("it is whole");
    for (bytes, complaint) in [(Some(&[7, 7, 7][..]), "malformed"), (None, "bundle 1 is missing")] {
        change(bytes);
        let error = open().expect_err("it is damaged");
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().contains(complaint), "{error}");
    }
}

#[test]
fn several_readers_find_what_one_finds() {
    let disk = SimDisk::new(31);
    let mut bench = Bench::new(&disk, 1 << 20);
    for answered in 1..=200 {
        bench.push(1, mark(answered));
        bench.settle().expect("durable");
    }
    drop(bench);
    let found = [1, 5, 300].map(|readers| {
        let options = Options { readers, ..options(1 << 20) };
        let store = open_store(&disk).expect("opens");
        let (journal, found) = Journal::open(store, ShardId::ONLY, options).expect("is whole");
        let partitions: Vec<_> = found.into_iter().map(|found| content(&found.into_partition(ME))).collect();
        (journal.bundles.next(), partitions)
    });
    assert!(found[0].0 > 100, "each was a bundle of its own: {}", found[0].0);
    assert!(found[1] == found[0] && found[2] == found[0]);
}

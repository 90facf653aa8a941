//! Crashes at every operation, and disks that lose what they had promised.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::future::{Ready, pending, ready};

use futures::FutureExt;
use openraft::{
    CommittedLeaderId, EntryPayload, Vote,
    storage::{RaftLogStorage, RaftStateMachine},
};
use tyr_proto::{
    Time,
    cluster::{Cluster, ClusterId, Command},
};
use tyr_sim_env::{CrashMode, Fault, SimDisk};

use super::*;
use crate::{
    journal::{Coverage, Log},
    machine::Machine,
    types::{Entry, LogId, Membership, Premise, Proposal, Types, snapshot_meta},
};

/// A journal asks for nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Nowhere;

impl Surroundings for Nowhere {
    type Sleep = Ready<()>;

    fn spawn(task: impl Future<Output = ()> + Send + 'static) {
        drop(task);
    }

    fn now() -> Time {
        Time(0)
    }

    fn sleep_until(_: Time) -> Ready<()> {
        let _never: std::future::Pending<()> = pending();
        ready(())
    }

    fn random() -> u64 {
        4
    }
}

type DiskJournal = super::DiskJournal<Nowhere>;

fn id(term: u64, index: u64) -> LogId {
    LogId { leader_id: CommittedLeaderId { term, node_id: 1 }, index }
}

fn entries(term: u64, indices: std::ops::Range<u64>) -> Change<Nowhere> {
    let entry = |index| {
        let command = Command::GiveUp(tyr_proto::NodeId(7));
        let payload = EntryPayload::Normal(Proposal { premise: Premise::default(), command });
        Entry::<Nowhere> { log_id: id(term, index), payload }
    };
    Change::Append(indices.map(entry).collect())
}

fn snapshot(index: u64) -> Change<Nowhere> {
    let meta = snapshot_meta(Some(id(1, index)), Membership::default());
    Change::Snapshot(meta, Box::new(Cluster::new(ClusterId(9))))
}

/// All kinds of changes, with two snapshots, and one record of several blocks.
fn changes() -> Vec<Change<Nowhere>> {
    vec![
        Change::Vote(Vote::new(1, 1)),
        entries(1, 0..3),
        entries(1, 3..1_000),
        Change::Truncate(6),
        entries(2, 6..7),
        snapshot(4),
        Change::Purge(id(1, 3)),
        entries(2, 7..9),
        Change::Vote(Vote::new(3, 2)),
        snapshot(8),
        Change::Purge(id(2, 8)),
    ]
}

/// What is kept after each number of changes.
fn states() -> Vec<Vec<u8>> {
    let mut kept = Kept::default();
    let mut states = vec![codec::to_bytes(&kept.changes())];
    for change in changes() {
        kept.apply(change);
        states.push(codec::to_bytes(&kept.changes()));
    }
    states
}

fn kept(journal: &DiskJournal) -> Vec<u8> {
    codec::to_bytes(&journal.load().unwrap().changes())
}

fn keep(journal: &DiskJournal, change: Change<Nowhere>) -> io::Result<()> {
    journal.write(change)?;
    journal.sync()
}

/// Makes all changes, and answers how many were promised.
fn run(disk: &Arc<SimDisk>) -> usize {
    let Ok(journal) = DiskJournal::open(disk.clone()) else { return 0 };
    changes().into_iter().take_while(|change| keep(&journal, change.clone()).is_ok()).count()
}

#[test]
fn everything_is_there_again_when_it_is_opened_again() {
    let disk = SimDisk::new(1);
    assert_eq!(run(&disk), changes().len());
    for _ in 0..3 {
        let journal = DiskJournal::open(disk.clone()).unwrap();
        assert_eq!(kept(&journal), *states().last().unwrap());
    }
    assert_eq!(disk.names().unwrap().len(), 1, "older files are gone");
}

#[test]
fn a_crash_at_any_operation_loses_nothing_that_was_promised() {
    let (empty, states) = (SimDisk::new(2), states());
    let whole = empty.snapshot();
    run(&whole);
    for operation in 0..whole.operations() {
        for (mode, seed) in CrashMode::ALL.into_iter().flat_map(|mode| [(mode, 1), (mode, 2)]) {
            let disk = empty.snapshot();
            disk.reseed(seed);
            disk.fail_at(operation, Fault::Crash);
            let promised = run(&disk);
            let found = disk.crash(mode);
            let journal = DiskJournal::open(found.clone()).unwrap();
            let state = kept(&journal);
            let possible = &states[promised..(promised + 2).min(states.len())];
            assert!(
                possible.contains(&state),
                "operation {operation}, {mode:?}: not as after {promised} changes"
            );
            keep(&journal, Change::Vote(Vote::new(9, 9))).unwrap();
            let again = DiskJournal::open(found.crash(CrashMode::LoseAll)).unwrap();
            assert_eq!(kept(&again), kept(&journal), "operation {operation}, {mode:?}: it goes on");
        }
    }
}

#[test]
fn what_was_written_and_not_synced_is_there_up_to_somewhere() {
    let states = states();
    for seed in 0..200 {
        let disk = SimDisk::new(seed);
        let journal = DiskJournal::open(disk.clone()).unwrap();
        changes().into_iter().take(5).for_each(|change| journal.write(change).unwrap());
        let journal = DiskJournal::open(disk.crash(CrashMode::Random)).unwrap();
        assert!(states[..6].contains(&kept(&journal)), "seed {seed}");
    }
}

#[test]
fn a_failed_write_or_sync_is_the_last() {
    let whole = SimDisk::new(3);
    run(&whole);
    for operation in 0..whole.operations() {
        let disk = SimDisk::new(3);
        disk.fail_at(operation, Fault::Error);
        let Ok(journal) = DiskJournal::open(disk.clone()) else { continue };
        let mut changes = changes().into_iter();
        let failed = changes.by_ref().any(|change| keep(&journal, change).is_err());
        // Room for what comes next is not needed as long as the disk has some.
        assert!(failed || Some(&kept(&journal)) == states().last(), "operation {operation} fails");
        for change in changes {
            assert!(keep(&journal, change).is_err(), "operation {operation}: it does not go on");
        }
    }
}

#[test]
fn a_disk_that_lost_a_promise_is_not_voted_with() {
    let disk = SimDisk::new(4);
    let journal = DiskJournal::open(disk.clone()).unwrap();
    changes().into_iter().take(5).for_each(|change| keep(&journal, change).unwrap());
    let name = disk.names().unwrap().remove(0);
    let bytes = disk.read_file(&name).unwrap();
    let written = bytes.chunks(BLOCK_SIZE).rposition(|block| block.iter().any(|byte| *byte != 0)).unwrap();
    assert!(written >= 5 && bytes.len() > 1 << 20, "records, and room for others");
    for block in 0..written {
        let damaged = disk.snapshot();
        damaged.flip_bit(&name, (block * BLOCK_SIZE + 20) as u64, 3).unwrap();
        let opened = DiskJournal::open(damaged).err().map(|error| error.kind());
        assert_eq!(opened, Some(io::ErrorKind::InvalidData), "block {block}");
    }
}

#[test]
fn the_log_is_there_until_the_snapshot_that_covers_it_is() {
    let disk = SimDisk::new(5);
    let journal = DiskJournal::open(disk.clone()).unwrap();
    keep(&journal, entries(1, 0..5)).unwrap();
    let kept = journal.load().unwrap();
    let coverage = Coverage::new(kept.covered());
    let mut log = Log::new(journal.clone(), kept.clone(), coverage.clone());
    let mut machine = Machine::new(journal, &kept, coverage, Cluster::new(ClusterId(9)));
    // As openraft does it: who purges does not wait for who installs.
    let mut purge = std::pin::pin!(log.purge(id(1, 8)));
    assert!(purge.as_mut().now_or_never().is_none());
    let found = DiskJournal::open(disk.snapshot().crash(CrashMode::KeepAll)).unwrap().load().unwrap();
    assert_eq!(found.run(0..5).len(), 5, "a crash before the snapshot is durable loses nothing");
    let Change::Snapshot(meta, cluster) = snapshot(8) else { panic!("a snapshot is one") };
    let install = RaftStateMachine::<Types<Nowhere>>::install_snapshot(&mut machine, &meta, cluster);
    install.now_or_never().expect("the disk waits for nothing").unwrap();
    purge.now_or_never().expect("it is covered").unwrap();
    let found = DiskJournal::open(disk.crash(CrashMode::LoseAll)).unwrap().load().unwrap();
    assert_eq!((found.covered(), found.log.len()), (Some(id(1, 8)), 0));
}

#[test]
fn a_log_that_was_purged_beyond_its_snapshot_is_not_voted_with() {
    let disk = SimDisk::new(6);
    let journal = DiskJournal::open(disk.clone()).unwrap();
    for change in [entries(1, 0..9), snapshot(4), Change::Purge(id(1, 5))] {
        keep(&journal, change).unwrap();
    }
    let opened = DiskJournal::open(disk).err().map(|error| error.kind());
    assert_eq!(opened, Some(io::ErrorKind::InvalidData));
}

#[test]
fn an_older_snapshot_takes_the_place_of_no_newer_one() {
    let mut kept = Kept::default();
    kept.apply(snapshot(8));
    kept.apply(snapshot(4));
    assert_eq!(kept.covered(), Some(id(1, 8)));
}

#[test]
fn what_is_sent_of_a_log_follows_what_was_sent_before() {
    let mut kept = Kept::<Nowhere>::default();
    kept.apply(entries(1, 1..9));
    let indexes = |kept: &Kept<Nowhere>, range| -> Vec<u64> {
        kept.run(range).iter().map(|entry| entry.log_id.index).collect()
    };
    assert_eq!(indexes(&kept, 3..6), [3, 4, 5]);
    kept.apply(Change::Purge(id(1, 4)));
    assert_eq!(indexes(&kept, 3..6), [0_u64; 0], "what comes after a gap is not sent");
    assert_eq!(indexes(&kept, 5..20), [5, 6, 7, 8]);
}

//! What the tests that try to break the engine have found, each as a small test of its own.

mod kit;

use kit::{Edit, Session, difference, expect_usable, key, pattern, settle, tight};
use tyr_env::{BLOCK_SIZE, Disk};
use tyr_sim_env::{CrashMode, SimDisk};
use tyr_types::{Durability, ErrorKind, KeyspaceId, KeyspaceSettings, Number};
use tyr_wire::{extent::SegmentId, frame::FrameHeader};

const A: KeyspaceId = KeyspaceId(1);

/// A store with one durable keyspace.
fn session() -> Session {
    let mut session = Session::new(SimDisk::new(1), tight());
    session.create_space("a", KeyspaceSettings::default()).expect("creates");
    session
}

/// Writes a blob of its own, durably.
fn put(session: &mut Session, name: &str, len: usize) {
    let edit = Edit::any(session.state(), A, &key(name)).write(0, pattern(len as u64, len));
    session.commit(&[edit]).expect("commits");
}

/// Loses the power and whatever is not durable, opens, and compares.
fn crash(session: Session) -> Session {
    let state = session.state().clone();
    let mut found = Session::on(session.disk.crash(CrashMode::LoseAll), session.options.clone(), state);
    found.open().expect("opens");
    assert_eq!(difference(found.store(), found.state()), None);
    found
}

#[test]
fn a_spare_segment_that_is_used_after_a_checkpoint_is_part_of_the_log() {
    let mut session = session();
    // More than half of a segment, so that the next one is prepared.
    (0..10).for_each(|n| put(&mut session, &format!("early-{n}"), 7000));
    settle(session.store()).expect("settles");
    session.checkpoint().expect("checkpoints");
    (0..10).for_each(|n| put(&mut session, &format!("late-{n}"), 7000));
    expect_usable(&mut crash(session)).expect("can be used");
}

#[test]
fn relocated_bulk_payload_is_not_written_over_after_a_crash() {
    let mut session = session();
    (0..6).for_each(|n| put(&mut session, &format!("b{n}"), 40_000));
    for name in ["b0", "b1"] {
        session.commit(&[Edit::delete(A, &key(name))]).expect("commits");
    }
    session.checkpoint().expect("checkpoints");
    settle(session.store()).expect("settles");
    session.flush().expect("flushes");
    let mut session = crash(session);
    (0..4).for_each(|n| put(&mut session, &format!("new-{n}"), 40_000));
    assert_eq!(difference(session.store(), session.state()), None);
    expect_usable(&mut session).expect("can be used");
}

#[test]
fn a_blob_that_was_written_and_relocated_before_a_crash_can_be_checkpointed_after_it() {
    let mut session = session();
    put(&mut session, "a", 3000);
    (0..24).for_each(|n| put(&mut session, &format!("b{n}"), 7000));
    for n in 0..24 {
        session.commit(&[Edit::delete(A, &key(&format!("b{n}")))]).expect("commits");
    }
    session.checkpoint().expect("checkpoints");
    put(&mut session, "a", 40_000);
    settle(session.store()).expect("settles");
    session.flush().expect("flushes");
    let mut session = crash(session);
    session.checkpoint().expect("checkpoints");
    expect_usable(&mut session).expect("can be used");
}

/// The positions of the frames in a segment file, in order.
fn frames(bytes: &[u8]) -> Vec<usize> {
    let starts = (0..bytes.len()).step_by(BLOCK_SIZE);
    starts.filter(|start| FrameHeader::peek(&bytes[*start..]).is_some()).collect()
}

/// Overwrites a block with zeros, as if it had never reached the disk.
fn lose_block(disk: &SimDisk, name: &str, position: usize) {
    let mut bytes = disk.read_file(name).expect("is there");
    bytes[position..position + BLOCK_SIZE].fill(0);
    disk.write_file(name, &bytes).expect("plants");
}

/// Blocks that look like frames, of far on in the log, of segments with these ids.
fn forged(ids: impl IntoIterator<Item = u64>) -> Vec<u8> {
    let frame = |id| {
        let mut block = vec![0; BLOCK_SIZE];
        let header = FrameHeader {
            segment: SegmentId(id),
            sequence: FAR_ON,
            settled: FAR_ON,
            epoch: 1,
            last: Number::first_of_epoch(1),
            records_end: 64,
            frame_end: 4096,
            mark: 0,
        };
        header.seal(&mut block);
        block
    };
    ids.into_iter().flat_map(frame).collect()
}

const FAR_ON: u64 = 1 << 60;

#[test]
fn payload_that_looks_like_a_frame_of_the_segment_that_its_file_becomes_is_none() {
    let mut session = session();
    for n in 0..160_u64 {
        let edit = Edit::create(A, &key(&format!("b{n}"))).write(0, forged([2 * n % 80, (2 * n + 1) % 80]));
        session.commit(&[edit]).expect("commits");
    }
    for n in 0..160 {
        session.commit(&[Edit::delete(A, &key(&format!("b{n}")))]).expect("commits");
    }
    let has_own = |name: &String, disk: &SimDisk| {
        let Some(id) = name.strip_prefix("log-").and_then(|id| u64::from_str_radix(id, 16).ok()) else {
            return false;
        };
        let bytes = disk.read_file(name).expect("is there");
        let headers = frames(&bytes).into_iter().filter_map(|start| FrameHeader::peek(&bytes[start..]));
        headers.into_iter().any(|header| header.segment == SegmentId(id) && header.sequence == FAR_ON)
    };
    let mut met = 0;
    for round in 0..12 {
        session.checkpoint().expect("checkpoints");
        settle(session.store()).expect("settles");
        (0..3).for_each(|n| put(&mut session, &format!("new-{round}-{n}"), 3000));
        session.flush().expect("flushes");
        let names = session.disk.names().expect("are known");
        met += usize::from(names.iter().any(|name| has_own(name, &session.disk)));
        session.kill().expect("opens");
        assert_eq!(difference(session.store(), session.state()), None);
    }
    assert!(met > 0, "no file became the segment whose frames it seems to have");
    expect_usable(&mut session).expect("can be used");
}

#[test]
fn a_frame_that_outlived_its_predecessor_does_not_follow_another_one() {
    let mut session = session();
    let memory = KeyspaceSettings { durability: Durability::Memory, ..KeyspaceSettings::default() };
    let b = session.create_space("b", memory).expect("creates");
    put(&mut session, "early", 100);
    session.kill().expect("opens");
    let (states, acked) = (session.states.clone(), session.acked);
    for name in ["lost", "stale"] {
        let edit = Edit::create(b, &key(name)).write(0, pattern(1, 100));
        session.commit(&[edit]).expect("commits");
        assert!(session.store().drive_commits_once());
    }
    session.abandon();
    let log = "log-0000000001";
    let found = frames(&session.disk.read_file(log).expect("is there"));
    lose_block(&session.disk, log, found[found.len() - 2]);
    (session.states, session.acked) = (states, acked);
    session.open().expect("opens");
    put(&mut session, "late", 100);
    expect_usable(&mut crash(session)).expect("can be used");
}

#[test]
fn a_transaction_that_a_crash_took_back_does_not_return_when_its_payload_is_written_again() {
    let mut session = session();
    put(&mut session, "early", 40_000);
    let (states, acked) = (session.states.clone(), session.acked);
    put(&mut session, "torn", 50_000);
    session.abandon();
    let bulk = "bulk-1-0000000002";
    lose_block(&session.disk, bulk, 4096 + 40_960);
    (session.states, session.acked) = (states, acked);
    session.open().expect("opens");
    assert_eq!(difference(session.store(), session.state()), None);
    let again = session.store().stage(A, &pattern(50_000, 50_000)).expect("stages");
    assert!(session.store().drive_commits_once());
    drop(again);
    session.abandon();
    let found = session.disk.crash(CrashMode::KeepAll);
    let mut session = Session::on(found, session.options.clone(), session.state().clone());
    session.open().expect("opens");
    assert_eq!(difference(session.store(), session.state()), None);
}

#[test]
fn what_a_killed_process_had_written_without_a_sync_is_durable_once_it_was_read() {
    let mut session = session();
    let memory = KeyspaceSettings { durability: Durability::Memory, ..KeyspaceSettings::default() };
    let b = session.create_space("b", memory).expect("creates");
    for (name, len) in [("a", 100), ("b", 6000), ("c", 40_000)] {
        let edit = Edit::create(b, &key(name)).write(0, pattern(1, len));
        session.commit(&[edit]).expect("commits");
    }
    assert!(session.store().drive_commits_once());
    session.kill().expect("opens");
    assert_eq!(difference(session.store(), session.state()), None);
    put(&mut session, "later", 100);
    expect_usable(&mut crash(session)).expect("can be used");
}

#[test]
fn a_store_that_was_closed_before_anything_was_written_is_opened_again() {
    let mut session = Session::new(SimDisk::new(1), tight());
    session.reopen().expect("opens");
    expect_usable(&mut crash(session)).expect("can be used");
}

#[test]
fn the_writes_of_a_transaction_may_be_in_any_order() {
    let mut session = session();
    let edit = Edit::create(A, &key("a"))
        .write(70_000, pattern(1, 100))
        .write(200_000, pattern(2, 100))
        .write(80_000, pattern(3, 100))
        .write(10, pattern(4, 100));
    session.commit(&[edit]).expect("commits");
    assert_eq!(difference(session.store(), session.state()), None);
    expect_usable(&mut crash(session)).expect("can be used");
}

#[test]
fn payload_that_is_written_from_where_it_is_survives_a_crash() {
    let mut session = session();
    // Of the last one the blocks end after the bytes.
    for len in [25 * BLOCK_SIZE, 100_000] {
        let edit = Edit::create(A, &key(&format!("{len}"))).write(5, pattern(6, len)).staged();
        session.commit(&[edit]).expect("commits");
    }
    assert_eq!(difference(session.store(), session.state()), None);
    expect_usable(&mut crash(session)).expect("can be used");
}

#[test]
fn payload_that_no_segment_can_hold_is_refused() {
    let session = session();
    let store = session.store();
    let refused = store.stage(A, &[1; 128 << 10]).expect_err("does not fit beside the header");
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    store.stage(A, &[1; 124 << 10]).expect("fits");
}

#[test]
fn totals_beyond_what_a_signed_number_holds_come_back() {
    let mut session = session();
    for name in ["a", "b", "c"] {
        let edit = Edit::create(A, &key(name)).write((1 << 63) - 11, pattern(1, 10));
        session.commit(&[edit]).expect("commits");
        session.reopen().expect("opens");
        assert_eq!(difference(session.store(), session.state()), None);
    }
    session.commit(&[Edit::delete(A, &key("b"))]).expect("commits");
    expect_usable(&mut crash(session)).expect("can be used");
}

#[test]
fn a_store_that_was_opened_more_often_than_numbers_can_tell_is_refused() {
    let mut session = session();
    put(&mut session, "a", 100);
    session.abandon();
    let log = "log-0000000001";
    let mut bytes = session.disk.read_file(log).expect("is there");
    let last = *frames(&bytes).last().expect("is one");
    let header = FrameHeader::peek(&bytes[last..]).expect("is one");
    for epoch in [u64::from(Number::EPOCH_MAX), u64::MAX] {
        FrameHeader { epoch, ..header.clone() }.seal(&mut bytes[last..]);
        session.disk.write_file(log, &bytes).expect("plants");
        assert_eq!(session.open().expect_err("is refused").kind(), ErrorKind::Internal);
    }
}

#[test]
fn a_bulk_segment_with_a_damaged_header_is_not_taken_for_an_empty_file() {
    let mut session = session();
    put(&mut session, "early", 7000);
    session.checkpoint().expect("checkpoints");
    let names = |disk: &SimDisk| {
        let mut names = disk.names().expect("lists");
        names.retain(|name| name.starts_with("bulk-"));
        names
    };
    assert_eq!(names(&session.disk), [""; 0]);
    // Each was waited for, so that the second says of the first that it is durable.
    put(&mut session, "large", 60_000);
    put(&mut session, "small", 30);
    let disk = session.disk.crash(CrashMode::LoseAll);
    let bulk = names(&disk);
    let first = bulk.iter().min().expect("is there");
    disk.flip_bit(first, 100, 0).expect("flips");
    let before = disk.read_file(first).expect("is there");
    let mut damaged = Session::on(disk.clone(), session.options.clone(), session.state().clone());
    let error = damaged.open().expect_err("what was acknowledged is in it");
    assert!(error.kind() == ErrorKind::Corrupt && error.message().contains(first.as_str()), "{error}");
    assert!(disk.read_file(first).expect("is there") == before);
    disk.flip_bit(first, 100, 0).expect("flips");
    damaged.open().expect("opens");
    assert_eq!(difference(damaged.store(), damaged.state()), None);
}

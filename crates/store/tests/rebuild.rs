//! The tables of the index are lost; all that they said is made again from the log.

mod kit;

use std::sync::Arc;

use kit::{
    Chance, Edit, Replay, Session, State,
    chance::seeds,
    compare::{expect_same, expect_sound},
    difference, expect_usable, key, pattern, random_work, settle, tight,
};
use tyr_env::{BLOCK_SIZE, Disk};
use tyr_sim_env::{CrashMode, Fault, SimDisk};
use tyr_types::{ErrorKind, KeyspaceId, KeyspaceSettings, Result};
use tyr_wire::frame::FrameHeader;

const A: KeyspaceId = KeyspaceId(1);

fn tables(disk: &SimDisk) -> Vec<String> {
    disk.names().expect("lists").into_iter().filter(|name| name.starts_with("table-")).collect()
}

/// What can happen to tables.
#[derive(Clone, Copy, Debug)]
enum Loss {
    Removed,
    Overwritten,
    CutShort,
}

fn lose_tables(disk: &SimDisk, loss: Loss) {
    for name in tables(disk) {
        let bytes = disk.read_file(&name).expect("is there");
        match loss {
            Loss::Removed => disk.remove(&name).expect("removes"),
            Loss::Overwritten => disk.write_file(&name, &vec![0x5a; bytes.len()]).expect("plants"),
            Loss::CutShort => disk.truncate(&name, bytes.len() as u64 / 2).expect("cuts"),
        }
    }
    if matches!(loss, Loss::Removed) {
        disk.sync_names().expect("syncs");
    }
}

/// The store on the disk, rebuilt, in this state.
fn rebuilt(disk: Arc<SimDisk>, state: &State) -> Session {
    let mut session = Session::on(disk, tight(), state.clone());
    session.open_rebuilding().expect("rebuilds");
    expect_same(&session, "after it was rebuilt");
    expect_sound(session.store());
    session
}

/// Blobs of all sizes over several log segments, overwritten, truncated, deleted, and compacted.
fn work(session: &mut Session) -> Result<()> {
    session.create_space("a", KeyspaceSettings::default())?;
    for round in 0..6 {
        for (seed, (name, len)) in
            (round * 10..).zip([("a", 900), ("b", 6000), ("c", 30_000), ("d", 140_000)])
        {
            let edit = Edit::any(session.state(), A, &key(name)).write(round * 500, pattern(seed, len));
            session.commit(&[edit])?;
        }
        session.checkpoint()?;
    }
    session.commit(&[Edit::delete(A, &key("a"))])?;
    session.store().compact()?;
    let edit = Edit::keep(session.state(), A, &key("d")).truncate(10_000);
    session.commit(&[edit])?;
    session.checkpoint()?;
    // The log's tail.
    let far = Edit::create(A, &key("far")).write(1 << 40, pattern(99, 100));
    session.commit(&[far]).map(drop)
}

#[test]
fn whatever_was_done_the_log_says_it_all() {
    for seed in seeds(25) {
        let _replay = Replay(format!("TYR_TEST_SEED={seed}"));
        let mut chance = Chance::new(seed);
        let mut session = Session::new(SimDisk::new(seed), tight());
        for round in 0..8 {
            let _replay = Replay(format!("round {round}"));
            let spaces: Vec<KeyspaceId> = session.state().spaces.keys().copied().collect();
            let _pin = chance.once_in(3).then(|| session.store().pin_keyspaces(&spaces).expect("pins"));
            for _ in 0..40 {
                random_work::step(&mut session, &mut chance).expect("nothing fails");
            }
            session.flush().expect("flushes");
            let disk = session.disk.snapshot();
            lose_tables(&disk, chance.pick(&[Loss::Removed, Loss::Overwritten, Loss::CutShort]));
            let mut found = rebuilt(disk, session.state());
            if chance.once_in(3) {
                found.store().compact().expect("knows who owns what");
                expect_same(&found, "after it was compacted");
            }
            expect_usable(&mut found).expect("can be used");
            // At times the work goes on there.
            if chance.once_in(2) {
                session = found;
            }
        }
    }
}

#[test]
fn a_blob_that_is_truncated_and_extended_again_and_again_has_no_old_bytes_afterwards() {
    let mut session = Session::new(SimDisk::new(1), tight());
    session.create_space("a", KeyspaceSettings::default()).expect("creates");
    let edit = Edit::create(A, &key("a")).write(0, pattern(1, 70_000)).write(140_000, pattern(2, 5000));
    session.commit(&[edit]).expect("commits");
    // Enough log that the segment with these bytes stays while others are emptied.
    for n in 0..30 {
        let edit = Edit::any(session.state(), A, &key(&format!("b{n}"))).write(0, pattern(n, 7000));
        session.commit(&[edit]).expect("commits");
    }
    let grow = |session: &mut Session, size| {
        let edit = Edit::keep(session.state(), A, &key("a")).truncate(size);
        session.commit(&[edit]).expect("commits");
    };
    grow(&mut session, 100_000);
    settle(session.store()).expect("settles");
    session.checkpoint().expect("checkpoints");
    for n in 0..20 {
        grow(&mut session, 150_000);
        // Further every time, so that no cut makes an earlier one superfluous.
        grow(&mut session, 100_000 + n);
    }
    settle(session.store()).expect("settles");
    grow(&mut session, 150_000);
    session.checkpoint().expect("checkpoints");
    for n in 0..40 {
        let edit = Edit::any(session.state(), A, &key(&format!("c{}", n % 3))).write(0, pattern(n, 7000));
        session.commit(&[edit]).expect("commits");
    }
    settle(session.store()).expect("settles");
    session.flush().expect("flushes");
    let disk = session.disk.snapshot();
    lose_tables(&disk, Loss::Removed);
    expect_usable(&mut rebuilt(disk, session.state())).expect("can be used");
}

#[test]
fn opening_with_damaged_tables_says_what_to_do_and_changes_nothing() {
    for loss in [Loss::Removed, Loss::Overwritten, Loss::CutShort] {
        let mut session = Session::new(SimDisk::new(1), tight());
        work(&mut session).expect("nothing fails");
        session.close().expect("closes");
        lose_tables(&session.disk, loss);
        let before = tables(&session.disk);
        let error = session.open().expect_err("tables are damaged");
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.message().contains("table-"), "{error}");
        assert!(error.message().contains("tyr check --rebuild-index"), "{error}");
        assert_eq!(tables(&session.disk), before);
        let mut session = rebuilt(session.disk.clone(), session.state());
        session.reopen().expect("opens as ever");
        expect_usable(&mut session).expect("can be used");
    }
}

#[test]
fn a_sound_index_can_be_rebuilt_too() {
    let mut session = Session::new(SimDisk::new(1), tight());
    work(&mut session).expect("nothing fails");
    session.close().expect("closes");
    let before = tables(&session.disk);
    let mut session = rebuilt(session.disk.clone(), session.state());
    assert!(tables(&session.disk).iter().all(|name| !before.contains(name)), "all tables are new");
    expect_usable(&mut session).expect("can be used");
    let error = Session::on(SimDisk::new(2), tight(), State::default()).open_rebuilding();
    assert_eq!(error.expect_err("there is no store").kind(), ErrorKind::NotFound);
}

#[test]
fn a_rebuilding_that_is_cut_off_is_begun_again() {
    let mut session = Session::new(SimDisk::new(1), tight());
    work(&mut session).expect("nothing fails");
    session.flush().expect("flushes");
    session.abandon();
    let state = session.state().clone();
    lose_tables(&session.disk, Loss::Overwritten);
    for operation in 0.. {
        let disk = session.disk.snapshot();
        disk.fail_at(operation, Fault::Crash);
        let done = Session::on(disk.clone(), tight(), state.clone()).open_rebuilding();
        if !disk.is_crashed() {
            done.expect("only a crash makes it fail");
            assert!(operation > 20, "there is something to cut off");
            return;
        }
        for mode in CrashMode::ALL {
            let _replay = Replay(format!("crash at operation {operation}, {mode:?}"));
            let session = rebuilt(disk.crash(mode), &state);
            assert_eq!(difference(session.store(), &state), None);
        }
    }
}

#[test]
fn a_log_that_is_damaged_too_is_told_and_the_store_is_as_it_was() {
    let mut session = Session::new(SimDisk::new(1), tight());
    work(&mut session).expect("nothing fails");
    session.close().expect("closes");
    let logs: Vec<String> =
        session.disk.names().expect("lists").into_iter().filter(|name| name.starts_with("log-")).collect();
    let mut told = 0;
    for name in &logs {
        let disk = session.disk.snapshot();
        let bytes = disk.read_file(name).expect("is there");
        let starts = (BLOCK_SIZE..bytes.len()).step_by(BLOCK_SIZE);
        let frames: Vec<usize> =
            starts.filter(|start| FrameHeader::peek(&bytes[*start..]).is_some()).collect();
        let Some(frame) = frames.get(1) else { continue };
        disk.flip_bit(name, *frame as u64 + 20, 1).expect("flips");
        let mut found = Session::on(disk.clone(), tight(), session.state().clone());
        let before = tables(&disk);
        match found.open_rebuilding() {
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corrupt);
                assert!(error.message().contains(name.as_str()), "{error}");
                assert!(before.iter().all(|table| tables(&disk).contains(table)), "the old tables are kept");
                found.open().expect("the tables are sound");
                expect_same(&found, "after it could not be rebuilt");
                told += 1;
            }
            // Nothing that counts was damaged: a file that is kept for recycling.
            Ok(()) => expect_same(&found, "after it was rebuilt"),
        }
    }
    assert!(told > 0, "some of {logs:?} are in use");
}

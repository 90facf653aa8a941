//! What goes wrong with disks short of a crash: errors, no space, damage, writes that get lost or land elsewhere, files that are cut,
//! missing, or not ours. Nothing acknowledged is lost, no wrong byte is read, and errors say what to do.

mod kit;

use std::sync::Arc;

use kit::{Edit, Replay, Session, State, compare, expect_usable, find_state, key, pattern, settle, tight};
use tyr_env::Disk;
use tyr_sim_env::{CrashMode, Fault, SimDisk};
use tyr_store::Store;
use tyr_types::{ErrorKind, KeyspaceId, KeyspaceSettings, Number, Result};

const A: KeyspaceId = KeyspaceId(1);

/// Some of everything.
fn work(session: &mut Session) -> Result<()> {
    for round in 0..6 {
        for (seed, (name, len)) in (round * 10..).zip([("a", 900), ("b", 6000), ("c", 30_000), ("d", 90_000)])
        {
            let edit = Edit::any(session.state(), A, &key(name)).write(round * 500, pattern(seed, len));
            session.commit(&[edit])?;
        }
        if round % 2 == 1 {
            session.commit(&[Edit::delete(A, &key("c"))])?;
            session.checkpoint()?;
        }
        settle(session.store())?;
    }
    session.store().compact().map(drop)
}

/// A store with one keyspace, closed; and the state that it is in.
fn base() -> (Arc<SimDisk>, State) {
    let mut session = Session::new(SimDisk::new(5), tight());
    session.create_space("a", KeyspaceSettings::default()).expect("creates");
    session.close().expect("closes");
    (session.disk.snapshot(), session.state().clone())
}

/// Runs the work with the fault at one operation after another, until it does not strike any more. Gives what came of it.
fn strike_everywhere(fault: &Fault, mut check: impl FnMut(Session, Result<()>)) {
    let (disk, state) = base();
    for operation in 0.. {
        let disk = disk.snapshot();
        disk.fail_at(operation, fault.clone());
        let mut session = Session::on(disk.clone(), tight(), state.clone());
        let done = session.open().and_then(|()| work(&mut session));
        let Some(strike) = disk.strikes().pop() else {
            assert!(operation > 100, "the work does something");
            return done.expect("nothing makes it fail");
        };
        let _replay = Replay(format!("{fault:?} at operation {operation}, {}", strike.what));
        check(session, done);
    }
}

fn any_commit(session: &mut Session) -> Result<()> {
    let edit = Edit::any(session.state(), A, &key("after")).append(pattern(1, 10));
    session.commit(&[edit]).map(drop)
}

fn is_write_or_sync(what: &str) -> bool {
    what.starts_with("write") || what.starts_with("sync")
}

/// Opens the disk; which of the states is the store in?
fn recover(disk: Arc<SimDisk>, states: &[State]) -> Session {
    let mut session = Session::on(disk, tight(), State::default());
    session.open().unwrap_or_else(|error| panic!("cannot be opened: {error:?}"));
    let index = find_state(session.store(), states)
        .unwrap_or_else(|differences| panic!("in none of {} states: {differences:#?}", states.len()));
    session.states = vec![states[index].clone()];
    session
}

#[test]
fn a_failed_write_or_sync_stops_writing_and_loses_nothing() {
    for fault in [Fault::Error, Fault::ErrorForEver] {
        strike_everywhere(&fault, |mut session, done| {
            let strike = session.disk.strikes().pop().expect("has struck");
            if session.is_open() && is_write_or_sync(&strike.what) {
                let refused = any_commit(&mut session).expect_err("has stopped writing");
                assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused:?}");
                let refused = settle(session.store()).expect_err("has stopped writing");
                assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused:?}");
                expect_readable(&session);
            }
            if let Err(error) = &done {
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
            }
            session.abandon();
            let states = &session.states[session.acked..];
            drop(recover(session.disk.snapshot(), states));
            for mode in CrashMode::ALL {
                expect_usable(&mut recover(session.disk.crash(mode), states)).expect("can be used");
            }
        });
    }
}

#[test]
fn files_of_a_process_whose_disk_failed_do_no_harm_to_the_next_one() {
    strike_everywhere(&Fault::Error, |mut session, _| {
        session.abandon();
        if session.disk.strikes().iter().any(|strike| strike.what == "sync names") {
            // No name that was changed is ever durable again before the file system has been mounted anew.
            return;
        }
        // The machine runs on, and with it what the file system holds in memory.
        let mut next = recover(session.disk.snapshot(), &session.states[session.acked..]);
        for seed in 0..12 {
            let edit = Edit::any(next.state(), A, &key("next")).write(seed * 500, pattern(seed, 30_000));
            next.commit(&[edit]).expect("commits");
        }
        next.abandon();
        drop(recover(next.disk.crash(CrashMode::LoseAll), &next.states[next.acked..]));
    });
}

/// What was acknowledged and not changed since is read; what was changed without being acknowledged is not shown.
fn expect_readable(session: &Session) {
    let acked = &session.states[session.acked];
    for key in compare::keys_of(acked, A) {
        let is_settled =
            session.states[session.acked..].iter().all(|state| state.blob(A, &key) == acked.blob(A, &key));
        match compare::blob_difference(session.store(), acked, A, &key, Number::MAX) {
            Ok(None) => {}
            Err(error) if !is_settled && error.kind() == ErrorKind::Unavailable => {}
            other => panic!("'{key}', settled {is_settled}: {other:?}"),
        }
    }
}

#[test]
fn no_space_at_any_operation_is_told_and_loses_nothing() {
    strike_everywhere(&Fault::Full, |mut session, done| {
        let strike = session.disk.strikes().pop().expect("has struck").what;
        // Space for these was reserved, or is not needed: as bad as any other failure.
        let is_failure = is_write_or_sync(&strike) && !strike.contains("table-");
        match done {
            Ok(()) => {}
            Err(error) if is_failure => {
                assert!(matches!(error.kind(), ErrorKind::Full | ErrorKind::Unavailable), "{error:?}");
            }
            Err(error) if error.kind() == ErrorKind::Full => {
                // The next attempt meets space.
                let go_on = if session.is_open() { Ok(()) } else { session.open() };
                go_on.and_then(|()| any_commit(&mut session)).expect("there is space again");
                settle(session.store()).expect("there is space again");
            }
            Err(error) => panic!("{error:?}"),
        }
        session.abandon();
        let states = &session.states[session.acked..];
        expect_usable(&mut recover(session.disk.crash(CrashMode::LoseAll), states)).expect("can be used");
    });
}

#[test]
fn a_full_disk_refuses_writes_reads_on_and_recovers_by_deleting() {
    for capacity in [1 << 20, (1 << 20) + 300_000, 3 << 20] {
        let _replay = Replay(format!("capacity {capacity}"));
        let (disk, state) = base();
        disk.set_capacity(capacity);
        let mut session = Session::on(disk, tight(), state);
        session.open().expect("opens");
        for round in 0..3 {
            fill(&mut session, round);
            compare::expect_same(&session, "when it is full");
            free(&mut session);
            compare::expect_same(&session, "when it is nearly empty again");
        }
        fill(&mut session, 9);
        session.disk.set_capacity(64 << 20);
        any_commit(&mut session).expect("there is space again");
        session.flush().expect("flushes");
        session.abandon();
        let states = &session.states[session.acked..];
        expect_usable(&mut recover(session.disk.crash(CrashMode::LoseAll), states)).expect("can be used");
    }
}

#[test]
fn what_has_no_room_is_not_tried_again_until_that_changes() {
    let (disk, state) = base();
    disk.set_capacity(1 << 20);
    let mut session = Session::on(disk, tight(), state);
    session.open().expect("opens");
    fill(&mut session, 0);
    // Not even what a reserve gives back is enough.
    session.disk.set_capacity(0);
    session.store().checkpoint().expect_err("there is no room");
    maintain(session.store());
    let before = session.disk.operations();
    maintain(session.store());
    assert_eq!(session.disk.operations(), before, "the disk is left alone");
    session.disk.set_capacity(64 << 20);
    settle(session.store()).expect("there is space again");
    assert!(session.disk.operations() > before, "what was put off is done");
    compare::expect_same(&session, "when there is space again");
}

/// Writes blobs of several sizes until there is no space.
fn fill(session: &mut Session, round: u64) {
    for n in 0.. {
        let len = [3000, 7000, 20_000, 50_000][usize::try_from(n % 4).expect("fits")];
        let name = format!("fill-{n}");
        let edit = Edit::any(session.state(), A, &key(&name)).write(0, pattern(n + round * 1000, len));
        match session.commit(&[edit]) {
            Ok(_) => {}
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Full, "{error:?}");
                assert!(n > 4, "something fits");
                return;
            }
        }
        maintain(session.store());
    }
}

/// Deletes nearly everything and lets maintenance give back the space.
fn free(session: &mut Session) {
    let keys: Vec<_> = session.state().space(A).blobs.keys().cloned().collect();
    for key in keys.iter().skip(2) {
        session.commit(&[Edit::delete(A, key)]).expect("deleting is possible on a full disk");
        maintain(session.store());
    }
    settle(session.store()).expect("there is space again");
}

/// As a thread would, which goes on after a failure for want of space.
fn maintain(store: &Store) {
    for _ in 0..20 {
        if let Err(error) = store.maintain() {
            assert_eq!(error.kind(), ErrorKind::Full, "{error:?}");
        }
    }
}

#[test]
fn maintenance_goes_on_without_space_for_the_next_segment() {
    let (disk, state) = base();
    let mut session = Session::on(disk, tight(), state);
    session.open().expect("opens");
    for n in 0..8 {
        let edit = Edit::create(A, &key(&format!("k{n}"))).write(0, pattern(n, 7000));
        session.commit(&[edit]).expect("commits");
    }
    let space = session.disk.space().expect("has some");
    session.disk.set_capacity(space.total - space.free);
    settle(session.store()).expect("has nothing to do");
}

//! What the medium does to files: bits that turn over, writes that were acknowledged and did not happen or landed elsewhere, files that
//! were cut, are missing, or are not ours. No wrong byte is read; a check finds what is wrong; errors name the file.

mod kit;

use std::{collections::BTreeSet, sync::Arc};

use kit::{Edit, Replay, Session, State, chance::scaled, compare, difference, key, pattern, settle, tight};
use tyr_env::{BLOCK_SIZE, Disk};
use tyr_sim_env::{Fault, SimDisk};
use tyr_types::{Error, ErrorKind, KeyspaceId, KeyspaceSettings, Number, Result};

const A: KeyspaceId = KeyspaceId(1);

/// Blobs of all sizes, some overwritten, one deleted, in a few segments of either kind and some tables.
fn work(session: &mut Session) -> Result<()> {
    session.create_space("a", KeyspaceSettings::default())?;
    for round in 0..3 {
        for (seed, (name, len)) in (round * 10..).zip([("a", 900), ("b", 6000), ("c", 30_000), ("d", 70_000)])
        {
            let edit = Edit::any(session.state(), A, &key(name)).write(round * 500, pattern(seed, len));
            session.commit(&[edit])?;
        }
        session.checkpoint()?;
    }
    session.commit(&[Edit::delete(A, &key("a"))])?;
    let far = Edit::create(A, &key("far")).write(1 << 40, pattern(99, 100));
    session.commit(&[far])?;
    // Into a segment that no manifest names, if the end is not a clean one.
    for n in 0..18 {
        let edit = Edit::any(session.state(), A, &key("log")).append(pattern(200 + n, 7000));
        session.commit(&[edit])?;
    }
    Ok(())
}

/// How the session ends before the damage is done.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Closed,
    Killed,
}

fn store_that_was(end: End) -> Session {
    let mut session = Session::new(SimDisk::new(9), tight());
    work(&mut session).expect("nothing fails");
    match end {
        End::Closed => session.close().expect("closes"),
        End::Killed => session.abandon(),
    }
    session
}

/// What a damaged store did.
#[derive(Debug, PartialEq)]
enum Outcome {
    NotOpened,
    /// Some reads failed.
    Found,
    /// Everything was there.
    Unharmed,
}

/// Opens a damaged disk. Whatever can be read is right; whatever cannot, a check finds.
fn examine(disk: Arc<SimDisk>, states: &[State]) -> Outcome {
    let mut session = Session::on(disk, tight(), State::default());
    if let Err(error) = session.open() {
        expect_names_a_file(&error);
        return Outcome::NotOpened;
    }
    let store = session.store();
    let fits =
        |state: &&State| compare::totals_difference(store, state).is_none() && errors(store, state).is_ok();
    let state = states.iter().find(fits).unwrap_or_else(|| {
        let why: Vec<_> = states
            .iter()
            .map(|state| (compare::totals_difference(store, state), errors(store, state)))
            .collect();
        panic!("in none of {} states: {why:#?}", states.len())
    });
    let errors = errors(store, state).expect("fits");
    errors.iter().for_each(expect_names_a_file);
    let damage = match store.check() {
        Ok(report) => report.damage,
        Err(error) => {
            expect_names_a_file(&error);
            vec![error.to_string()]
        }
    };
    if !errors.is_empty() {
        assert!(!damage.is_empty(), "a check finds what reads found: {errors:?}");
    }
    // Whatever is broken, what is not must outlive maintenance.
    let _ = settle(store);
    assert!(self::errors(store, state).is_ok(), "after maintenance: {:?}", self::errors(store, state));
    if errors.is_empty() && damage.is_empty() { Outcome::Unharmed } else { Outcome::Found }
}

/// The errors that reads give; or how what they read differs from the state.
fn errors(store: &tyr_store::Store, state: &State) -> Result<Vec<Error>, String> {
    let mut errors = Vec::new();
    let mut note = |result: Result<Option<String>>| match result {
        Ok(None) => Ok(()),
        Ok(Some(difference)) => Err(difference),
        Err(error) => {
            errors.push(error);
            Ok(())
        }
    };
    for id in state.spaces.keys() {
        note(compare::scan_difference(store, state, *id, Number::MAX))?;
        for key in compare::keys_of(state, *id) {
            note(compare::blob_difference(store, state, *id, &key, Number::MAX))?;
        }
    }
    Ok(errors)
}

fn expect_names_a_file(error: &Error) {
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error:?}");
    let names = ["log-", "bulk-", "table-", "manifest"];
    assert!(names.iter().any(|name| error.message().contains(name)), "{error:?}");
}

/// Every block of every file that does not hold zeros alone.
fn blocks(disk: &SimDisk) -> BTreeSet<(String, u64)> {
    let mut blocks = BTreeSet::new();
    for name in disk.names().expect("lists") {
        for (index, block) in (0..).zip(disk.read_file(&name).expect("exists").chunks(BLOCK_SIZE)) {
            if block.iter().any(|byte| *byte != 0) {
                blocks.insert((name.clone(), index * BLOCK_SIZE as u64));
            }
        }
    }
    blocks
}

fn rot_every_block(end: End) {
    let session = store_that_was(end);
    // The last frame of an open log cannot be told from one that was torn: what it held may be gone.
    let last = session.states.len() - if end == End::Closed { 1 } else { 2 };
    let states: Vec<State> = session.states[last..].iter().rev().cloned().collect();
    let mut outcomes = Vec::new();
    for (name, start) in blocks(&session.disk) {
        for lot in 0..scaled(2) {
            let disk = session.disk.snapshot();
            let position = start + kit::Chance::new(start + lot).below(BLOCK_SIZE as u64);
            let position = if lot == 0 { start + position % 64 } else { position };
            let _replay = Replay(format!("{end:?}: bit 3 of byte {position} of '{name}'"));
            disk.flip_bit(&name, position, 3).expect("is inside");
            outcomes.push(examine(disk, &states));
        }
    }
    for expected in [Outcome::NotOpened, Outcome::Found, Outcome::Unharmed] {
        assert!(outcomes.contains(&expected), "{expected:?} never happened in {} cases", outcomes.len());
    }
}

#[test]
fn rot_in_any_block_of_a_closed_store_is_never_read() {
    rot_every_block(End::Closed);
}

#[test]
fn rot_in_any_block_of_a_killed_store_is_never_read() {
    rot_every_block(End::Killed);
}

/// Lets one write after another go wrong unnoticed.
fn mislay_every_write(fault: &Fault) {
    for write in 0.. {
        let disk = SimDisk::new(11);
        disk.fail_at(write, fault.clone());
        let mut session = Session::on(disk.clone(), tight(), State::default());
        let opened = session.open();
        let done = opened.and_then(|()| work(&mut session));
        let Some(strike) = disk.strikes().pop() else { return };
        let _replay = Replay(format!("{fault:?} at operation {write}, {}", strike.what));
        if let Err(error) = done {
            expect_names_a_file(&error);
        }
        session.abandon();
        let states: Vec<State> = session.states.iter().rev().cloned().collect();
        examine(disk.snapshot(), &states);
    }
}

#[test]
fn a_lost_write_is_noticed() {
    mislay_every_write(&Fault::LostWrite);
}

#[test]
fn a_misdirected_write_is_noticed() {
    mislay_every_write(&Fault::MisdirectedWrite(None));
}

#[test]
fn a_missing_or_cut_file_is_noticed_and_named() {
    let session = store_that_was(End::Closed);
    let states = [session.state().clone()];
    let names = session.disk.names().expect("lists");
    let is_needed = |name: &&String| name.as_str() != "reserve";
    for name in names.iter().filter(is_needed) {
        let _replay = Replay(format!("'{name}'"));
        let disk = session.disk.snapshot();
        disk.remove(name).expect("removes");
        disk.sync_names().expect("syncs");
        let missing = examine(disk, &states);
        let is_spare = missing == Outcome::Unharmed;
        for length in [0, 100, 4096, 12_288] {
            let disk = session.disk.snapshot();
            if disk.read_file(name).expect("exists").len() as u64 <= length {
                continue;
            }
            disk.truncate(name, length).expect("cuts");
            let cut = examine(disk, &states);
            assert!(is_spare || cut == Outcome::NotOpened, "cut to {length}: {cut:?}");
        }
    }
}

#[test]
fn files_of_others_are_left_alone() {
    let session = store_that_was(End::Closed);
    let disk = session.disk.snapshot();
    for name in ["notes.txt", "log-", "log-1", "bulk-x-0000000001", "table-x", "manifest.bak"] {
        disk.write_file(name, b"not ours").expect("plants");
    }
    let mut opened = Session::on(disk.clone(), tight(), session.state().clone());
    opened.open().expect("opens");
    assert_eq!(difference(opened.store(), opened.state()), None);
    settle(opened.store()).expect("settles");
    opened.close().expect("closes");
    for name in ["notes.txt", "log-", "log-1", "bulk-x-0000000001", "table-x", "manifest.bak"] {
        assert_eq!(disk.read_file(name).expect("is there"), b"not ours", "{name}");
    }
}

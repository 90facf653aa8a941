//! The power fails at every single operation on the disk, and what was acknowledged is there afterwards, whole and in order.
//!
//! `TYR_TEST_SCALE` multiplies the number of random cases; a failure prints what to set to see it again.

mod kit;

use std::{collections::BTreeSet, sync::Arc};

use kit::{
    Chance, Edit, Replay, Session, State, chance::seeds, compare::expect_same, expect_usable, find_state,
    key, pattern, random_work, scaled, settle, tight,
};
use tyr_env::Disk;
use tyr_sim_env::{CrashMode, Fault, SimDisk};
use tyr_types::{Durability, ErrorKind, KeyspaceId, KeyspaceSettings, Result};

type Work = fn(&mut Session) -> Result<()>;

/// Crashes at every operation of `work`, which begins by opening what `prepare` left behind.
fn crash_everywhere(prepare: Work, work: Work) {
    let mut base = Session::new(SimDisk::new(7), tight());
    prepare(&mut base).expect("nothing fails yet");
    base.flush().expect("flushes");
    base.abandon();
    let mut crashes = 0;
    for operation in 0.. {
        let disk = base.disk.snapshot();
        disk.fail_at(operation, Fault::Crash);
        let mut session = Session::on(disk.clone(), tight(), base.state().clone());
        let done = session.open().and_then(|()| work(&mut session));
        if !disk.is_crashed() {
            done.expect("only a crash makes it fail");
            break;
        }
        crashes += 1;
        session.abandon();
        let what = disk.strikes().pop().map(|strike| strike.what);
        for (mode, seed) in outcomes() {
            let _replay =
                Replay(format!("crash at operation {operation} ({what:?}), {mode:?} with seed {seed}"));
            disk.reseed(seed);
            let found = disk.crash(mode);
            // Whoever finds a full disk broken gives it space.
            found.set_capacity(1 << 30);
            check_outcome(&found, &session.states[session.acked..], operation + seed);
        }
    }
    assert!(crashes > 20, "the work does something");
}

fn outcomes() -> Vec<(CrashMode, u64)> {
    let random = (1..=scaled(3)).map(|seed| (CrashMode::Random, seed));
    [(CrashMode::LoseAll, 0), (CrashMode::KeepAll, 0)].into_iter().chain(random).collect()
}

/// The store is in one of the states and can be used; now and then after further crashes while it is opened.
fn check_outcome(found: &Arc<SimDisk>, states: &[State], lot: u64) {
    if lot.is_multiple_of(NESTED_EVERY) {
        crash_again(found, states);
    }
    let mut session = recover(found.snapshot(), states);
    expect_usable(&mut session).expect("can be used");
}

/// Opens the store; which of the states is it in?
fn recover(disk: Arc<SimDisk>, states: &[State]) -> Session {
    let mut session = Session::on(disk, tight(), State::default());
    session.open().unwrap_or_else(|error| panic!("cannot be opened: {error:?}"));
    let index = find_state(session.store(), states)
        .unwrap_or_else(|differences| panic!("in none of {} states: {differences:#?}", states.len()));
    session.states = vec![states[index].clone()];
    session
}

/// Crashes at every operation of opening and settling.
fn crash_again(found: &Arc<SimDisk>, states: &[State]) {
    for operation in 0.. {
        let disk = found.snapshot();
        disk.fail_at(operation, Fault::Crash);
        let mut session = Session::on(disk.clone(), tight(), State::default());
        let opened = session.open();
        let mut allowed = states;
        let seen;
        if opened.is_ok() && !disk.is_crashed() {
            let index = find_state(session.store(), states);
            seen = [states[index.unwrap_or_else(|differences| panic!("in none: {differences:#?}"))].clone()];
            allowed = &seen;
            let _ = settle(session.store());
        }
        if !disk.is_crashed() {
            opened.expect("only a crash makes it fail");
            return;
        }
        session.abandon();
        for mode in CrashMode::ALL {
            let _replay = Replay(format!("then at operation {operation}, {mode:?}"));
            let mut session = recover(disk.crash(mode), allowed);
            expect_usable(&mut session).expect("can be used");
        }
    }
}

/// Every so many outcomes, crashes while opening are enumerated too.
const NESTED_EVERY: u64 = 97;

const A: KeyspaceId = KeyspaceId(1);
const B: KeyspaceId = KeyspaceId(2);

fn two_spaces(session: &mut Session) -> Result<()> {
    session.create_space("durable", KeyspaceSettings::default())?;
    let memory = KeyspaceSettings { durability: Durability::Memory, ..KeyspaceSettings::default() };
    session.create_space("memory", memory)?;
    Ok(())
}

/// Two keyspaces with blobs of many sizes, in several segments and index tables.
fn filled(session: &mut Session) -> Result<()> {
    two_spaces(session)?;
    for round in 0..3 {
        for (seed, (name, len)) in
            (round * 10..).zip([("a", 900), ("b", 5000), ("c", 50_000), ("d", 140_000)])
        {
            for space in [A, B] {
                let edit =
                    Edit::any(session.state(), space, &key(name)).write(round * 700, pattern(seed, len));
                session.commit(&[edit])?;
            }
        }
        session.checkpoint()?;
    }
    Ok(())
}

#[test]
fn a_new_store_survives_a_crash_at_any_operation() {
    let disk = SimDisk::new(3);
    for operation in 0.. {
        let disk = disk.snapshot();
        disk.fail_at(operation, Fault::Crash);
        let mut session = Session::on(disk.clone(), tight(), State::default());
        let done = session.open().and_then(|()| two_spaces(&mut session));
        if !disk.is_crashed() {
            return done.expect("only a crash makes it fail");
        }
        session.abandon();
        for (mode, seed) in outcomes() {
            let _replay = Replay(format!("crash at operation {operation}, {mode:?} with seed {seed}"));
            disk.reseed(seed);
            let found = disk.crash(mode);
            crash_again(&found, &session.states[session.acked..]);
            check_outcome(&found, &session.states[session.acked..], 1);
        }
    }
}

fn writes_of_every_kind(session: &mut Session) -> Result<()> {
    for (seed, len) in [(1, 1), (2, 600), (3, 5000), (4, 8192), (5, 8193), (6, 70_000), (7, 200_000)] {
        for (space, name) in [(A, "a"), (A, "b"), (B, "c")] {
            let edit = Edit::any(session.state(), space, &key(name)).append(pattern(seed, len));
            session.commit(&[edit])?;
        }
        session.store().drive_commits_once();
    }
    let over = Edit::keep(session.state(), A, &key("a")).write(60_000, pattern(9, 20_000));
    let cut = Edit::keep(session.state(), A, &key("b")).truncate(65_000);
    let new = Edit::create(B, &key("d")).write(1 << 40, pattern(10, 9000)).staged();
    session.commit(&[over, cut, new])?;
    let gone = Edit::delete(A, &key("a"));
    let again = Edit::replace(B, &key("d")).attribute(session.state(), "n", Some(b"v"));
    session.commit(&[gone, again])?;
    let reborn = Edit::create(A, &key("a")).write(100, pattern(11, 30_000)).staged();
    session.commit(&[reborn]).map(drop)
}

#[test]
fn writes_of_every_kind_survive_a_crash_at_any_operation() {
    crash_everywhere(two_spaces, writes_of_every_kind);
}

fn maintenance(session: &mut Session) -> Result<()> {
    for (seed, name) in (30..).zip(["a", "b", "c", "d"]) {
        let edit = Edit::keep(session.state(), A, &key(name)).write(0, pattern(seed, 12_000));
        session.commit(&[edit])?;
        settle(session.store())?;
    }
    let cut = Edit::keep(session.state(), A, &key("d")).truncate(70_000);
    let gone = Edit::delete(B, &key("d"));
    session.commit(&[cut, gone])?;
    settle(session.store())?;
    session.store().compact()?;
    // So much that the log goes on in a segment that was emptied.
    for seed in 40..60 {
        let edit = Edit::keep(session.state(), A, &key("c")).write(0, pattern(seed, 7000));
        session.commit(&[edit])?;
    }
    settle(session.store())
}

#[test]
fn maintenance_survives_a_crash_at_any_operation() {
    crash_everywhere(filled, maintenance);
}

fn changes_of_keyspaces(session: &mut Session) -> Result<()> {
    let third = session.create_space("third", KeyspaceSettings::default())?;
    let edit = Edit::create(third, &key("a")).write(0, pattern(50, 20_000));
    session.commit(&[edit])?;
    session.alter_space(B, KeyspaceSettings::default())?;
    let edits = [A, B].map(|space| Edit::keep(session.state(), space, &key("b")).append(pattern(51, 300)));
    session.commit(&edits)?;
    session.drop_space(A)?;
    let edit = Edit::keep(session.state(), third, &key("a")).append(pattern(52, 20_000));
    session.commit(&[edit])?;
    settle(session.store())?;
    session.create_space("durable", KeyspaceSettings::default())?;
    session.store().compact().map(drop)
}

#[test]
fn changes_of_keyspaces_survive_a_crash_at_any_operation() {
    crash_everywhere(filled, changes_of_keyspaces);
}

fn openings(session: &mut Session) -> Result<()> {
    let edit = |session: &Session, seed| {
        [A, B].map(|space| Edit::keep(session.state(), space, &key("c")).write(seed, pattern(seed, 10_000)))
    };
    session.commit(&edit(session, 60))?;
    session.kill()?;
    session.commit(&edit(session, 61))?;
    session.reopen()?;
    session.commit(&edit(session, 62))?;
    session.checkpoint()?;
    session.commit(&edit(session, 63))?;
    session.kill()?;
    session.commit(&edit(session, 64)).map(drop)
}

#[test]
fn openings_survive_a_crash_at_any_operation() {
    crash_everywhere(filled, openings);
}

fn unwaited_commits(session: &mut Session) -> Result<()> {
    for seed in 0..30 {
        let name = ["a", "b", "c"][usize::try_from(seed % 3).expect("fits")];
        let edit = Edit::any(session.state(), B, &key(name)).write(seed * 900, pattern(seed, 7000));
        let ticket = session.send(&[edit])?;
        drop(ticket);
        if seed % 4 == 3 {
            session.store().drive_commits_once();
        }
        if seed == 17 {
            let edit = Edit::any(session.state(), A, &key("a")).append(pattern(seed, 100));
            session.commit(&[edit])?;
        }
    }
    session.flush()
}

#[test]
fn unwaited_commits_survive_in_order_or_not_at_all() {
    crash_everywhere(two_spaces, unwaited_commits);
}

/// What former crashes may have left besides: a manifest and a table that were not finished, and a segment that was not prepared.
fn filled_and_littered(session: &mut Session) -> Result<()> {
    filled(session)?;
    session.flush()?;
    for name in ["manifest-new", "table-77", "log-0000000088", "bulk-1-0000000099"] {
        session.disk.write_file(name, &pattern(1, 5000)).expect("plants");
    }
    Ok(())
}

#[test]
fn tidying_up_after_a_crash_survives_a_crash_at_any_operation() {
    crash_everywhere(filled_and_littered, openings);
}

/// Fills the disk, deletes, which needs the reserve, and goes on.
fn want_of_space(session: &mut Session) -> Result<()> {
    let failed = |error: std::io::Error| tyr_types::Error::unavailable(error.to_string());
    let space = session.disk.space().map_err(failed)?;
    session.disk.set_capacity(space.total - space.free + 150_000);
    let keys: Vec<_> = (0..40).map(|n| key(&format!("fill-{n}"))).collect();
    for (seed, name) in (70..).zip(&keys) {
        let edit = Edit::create(A, name).write(0, pattern(seed, 30_000));
        let committed = session.commit(&[edit]).map(drop);
        if committed.is_err_and(|error| error.kind() == ErrorKind::Full) {
            break;
        }
        expect_no_crash(session)?;
    }
    for name in keys.iter().skip(1) {
        if session.state().blob(A, name).is_some() {
            session.commit(&[Edit::delete(A, name)])?;
        }
    }
    for _ in 0..60 {
        let _ = session.store().maintain();
        expect_no_crash(session)?;
    }
    let again = Edit::create(A, &key("again")).write(0, pattern(80, 20_000));
    session.commit(&[again]).map(drop)
}

fn expect_no_crash(session: &Session) -> Result<()> {
    match session.disk.is_crashed() {
        true => Err(tyr_types::Error::unavailable("the power is off")),
        false => Ok(()),
    }
}

#[test]
fn want_of_space_survives_a_crash_at_any_operation() {
    crash_everywhere(filled, want_of_space);
}

/// What a crash point is about: what is done to which part of which kind of file.
fn kind_of(operation: &str) -> String {
    let verb = operation.split(' ').next().expect("says what it is");
    let part = if operation.contains(" at 0 of ") { "the beginning of " } else { "" };
    // The file, or the two of a rename.
    let files = operation.split('\'').skip(1).step_by(2).map(|name| name.split('-').next().unwrap_or(name));
    format!("{verb} {part}{}", files.collect::<Vec<_>>().join(" to "))
}

fn kinds_of(disk: &SimDisk) -> BTreeSet<String> {
    disk.noted_operations().iter().map(|operation| kind_of(operation)).collect()
}

#[test]
fn every_kind_of_operation_is_a_crash_point() {
    let works: [(Work, Work); 8] = [
        (|_| Ok(()), two_spaces),
        (two_spaces, writes_of_every_kind),
        (filled, maintenance),
        (filled, changes_of_keyspaces),
        (filled, openings),
        (two_spaces, unwaited_commits),
        (filled_and_littered, openings),
        (filled, want_of_space),
    ];
    let mut enumerated = BTreeSet::new();
    for (prepare, work) in works {
        let mut base = Session::new(SimDisk::new(7), tight());
        prepare(&mut base).expect("nothing fails");
        base.flush().expect("flushes");
        base.abandon();
        let mut session = Session::on(base.disk.snapshot(), tight(), base.state().clone());
        session.disk.note_operations();
        session.open().and_then(|()| work(&mut session)).expect("nothing fails");
        enumerated.extend(kinds_of(&session.disk));
    }
    let disk = SimDisk::new(3);
    disk.note_operations();
    drop(Session::new(disk.clone(), tight()));
    enumerated.extend(kinds_of(&disk));
    for rare in ["remove manifest", "remove reserve", "rename log to log", "rename bulk to bulk"] {
        assert!(enumerated.contains(rare), "of '{rare}' no crash is enumerated, only of {enumerated:?}");
    }
    for seed in seeds(6) {
        let _replay = Replay(format!("TYR_TEST_SEED={seed}"));
        let (mut chance, disk) = (Chance::new(seed), SimDisk::new(seed));
        disk.note_operations();
        let mut session = Session::new(disk, tight());
        for _ in 0..400 {
            random_work::step(&mut session, &mut chance).expect("nothing fails");
        }
        let unknown: Vec<_> = kinds_of(&session.disk).difference(&enumerated).cloned().collect();
        assert!(unknown.is_empty(), "of these no crash is enumerated: {unknown:?}, only of {enumerated:?}");
    }
}

#[test]
fn one_crash_after_another() {
    for seed in seeds(12) {
        let _replay = Replay(format!("TYR_TEST_SEED={seed}"));
        let mut chance = Chance::new(seed);
        let mut session = Session::new(SimDisk::new(seed), tight());
        for round in 0..25 {
            let _replay = Replay(format!("round {round}"));
            run_until_crash(&mut session, &mut chance);
            let mode =
                chance.pick(&[CrashMode::LoseAll, CrashMode::KeepAll, CrashMode::Random, CrashMode::Random]);
            session = recover(session.disk.crash(mode), &session.states[session.acked..]);
        }
        settle(session.store()).expect("settles");
        expect_same(&session, "in the end");
        expect_usable(&mut session).expect("can be used");
    }
}

/// Random work until the power fails somewhere in it.
fn run_until_crash(session: &mut Session, chance: &mut Chance) {
    let distance = chance.pick(&[3, 20, 100, 400]);
    session.disk.fail_at(session.disk.operations() + chance.below(distance), Fault::Crash);
    while !session.disk.is_crashed() {
        if let Err(error) = random_work::step(session, chance) {
            assert!(session.disk.is_crashed(), "{error:?}");
        }
    }
    session.abandon();
}

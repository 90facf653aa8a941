//! Snapshots that have names show the same for ever: after kills, losses of power, maintenance, and losses of the index.

mod kit;

use std::collections::BTreeMap;

use kit::{
    Chance, Edit, Replay, Session, State,
    chance::seeds,
    compare::{difference_at, expect_same, expect_sound, keys_of},
    find_state, key, pattern, random_work, settle, tight,
};
use tyr_env::Disk;
use tyr_sim_env::{CrashMode, Fault, SimDisk};
use tyr_store::{Store, Wait};
use tyr_types::{ErrorKind, KeyspaceId, KeyspaceName, KeyspaceSettings};
use tyr_wire::extent::LEAF_SPAN;

const A: KeyspaceId = KeyspaceId(1);

/// What snapshots should show.
type Named = BTreeMap<(KeyspaceId, String), State>;

fn name(text: &str) -> KeyspaceName {
    KeyspaceName::new(text).expect("valid")
}

/// Fails unless the store has these snapshots and no others, and each shows what it should.
fn expect_named(store: &Store, named: &Named, when: &str) {
    for keyspace in store.keyspaces() {
        let listed = store.snapshots(keyspace.id).expect("exists");
        let mut found: Vec<String> =
            listed.into_iter().map(|snapshot| snapshot.name.as_str().to_owned()).collect();
        found.sort_unstable();
        let expected = named.keys().filter(|(id, _)| *id == keyspace.id).map(|(_, name)| name.clone());
        assert_eq!(found, expected.collect::<Vec<_>>(), "{when}");
    }
    for ((id, text), state) in named {
        let (pin, _) = store.pin_snapshot(*id, &name(text)).expect("is there");
        assert_eq!(difference_at(store, state, *id, pin.number()), None, "{text} {when}");
    }
}

/// What two snapshots of a keyspace say by the same print is the same.
fn expect_prints(store: &Store, named: &Named, id: KeyspaceId) {
    let of_keyspace: Vec<_> = named.iter().filter(|((of, _), _)| *of == id).collect();
    for pair in of_keyspace.windows(2) {
        let [((_, one), state), ((_, other), _)] = pair else { continue };
        let (one, _) = store.pin_snapshot(id, &name(one)).expect("is there");
        let (other, _) = store.pin_snapshot(id, &name(other)).expect("is there");
        for key in keys_of(state, id) {
            let written = |at| store.written(id, &key, at, LEAF_SPAN).expect("can be told");
            let head = |at| store.head(id, &key, at, Wait::Allowed).expect("can be read");
            let bytes = |at, offset| {
                let mut buffer = vec![0; usize::try_from(LEAF_SPAN).expect("fits")];
                let read = store.read(id, &key, at, offset, &mut buffer, Wait::Allowed).expect("can be read");
                buffer.truncate(read.map_or(0, |(_, length)| length));
                buffer
            };
            let (Some(first), Some(second)) = (head(one.number()), head(other.number())) else { continue };
            let prints = written(one.number()).unwrap_or_default();
            for (grain, print) in written(other.number()).unwrap_or_default() {
                if first.blob == second.blob && prints.get(&grain) == Some(&print) {
                    let (one, other) =
                        (bytes(one.number(), grain * LEAF_SPAN), bytes(other.number(), grain * LEAF_SPAN));
                    let both = one.len().min(other.len());
                    assert!(one[..both] == other[..both], "grain {grain} of {key}");
                }
            }
        }
    }
}

#[test]
fn whatever_happens_a_named_snapshot_shows_the_same() {
    let mut most = 0;
    for seed in seeds(30) {
        let _replay = Replay(format!("TYR_TEST_SEED={seed}"));
        let mut chance = Chance::new(seed);
        let mut session = Session::new(SimDisk::new(seed), tight());
        let (mut named, mut count) = (Named::new(), 0);
        for round in 0..12 {
            let _replay = Replay(format!("round {round}"));
            for _ in 0..chance.below(40) {
                random_work::step(&mut session, &mut chance).expect("nothing fails");
            }
            named.retain(|(id, _), _| session.state().spaces.contains_key(id));
            let keeping = |id: &KeyspaceId| session.state().space(*id).settings.multi_version;
            let spaces: Vec<KeyspaceId> = session.state().spaces.keys().copied().filter(keeping).collect();
            for _ in 0..chance.below(if spaces.is_empty() { 1 } else { 3 }) {
                let (id, text) = (chance.pick(&spaces), format!("s{count:04}"));
                session.store().create_snapshot(id, name(&text), 7).expect("creates");
                named.insert((id, text), session.state().clone());
                count += 1;
            }
            if chance.once_in(2) && !named.is_empty() {
                let all: Vec<_> = named.keys().cloned().collect();
                let (id, text) = chance.pick(&all);
                session.store().drop_snapshot(id, &name(&text)).expect("drops");
                named.remove(&(id, text));
            }
            most = most.max(named.len());
            // What nobody has waited for may be lost with the process.
            session.flush().expect("flushes");
            match chance.below(6) {
                0 => session.kill().expect("opens"),
                1 => session.reopen().expect("opens"),
                2 => {
                    let (disk, state) = (session.disk.crash(CrashMode::LoseAll), session.state().clone());
                    session = Session::on(disk, tight(), state);
                    session.open().expect("opens");
                }
                3 => {
                    let (disk, state) = (session.disk.snapshot(), session.state().clone());
                    for table in disk.names().expect("lists") {
                        if table.starts_with("table-") {
                            disk.remove(&table).expect("removes");
                        }
                    }
                    session = Session::on(disk, tight(), state);
                    session.open_rebuilding().expect("rebuilds");
                }
                4 => settle(session.store()).expect("settles"),
                _ => drop(session.store().compact().expect("compacts")),
            }
            expect_same(&session, "afterwards");
            expect_named(session.store(), &named, "afterwards");
            spaces.iter().for_each(|id| {
                if session.state().spaces.contains_key(id) {
                    expect_prints(session.store(), &named, *id);
                }
            });
        }
        expect_sound(session.store());
    }
    assert!(most > 5, "there were never more than {most}");
}

#[test]
fn what_a_named_snapshot_kept_is_reclaimed_when_it_is_dropped() {
    for is_reopened in [false, true] {
        let mut session = Session::new(SimDisk::new(1), tight());
        session.create_space("a", KeyspaceSettings::default()).expect("creates");
        let put = |session: &mut Session, text: &str, seed| {
            let edit = Edit::any(session.state(), A, &key(text)).write(0, pattern(seed, 200_000));
            session.commit(&[edit]).expect("commits");
        };
        put(&mut session, "a", 1);
        put(&mut session, "b", 2);
        session.store().create_snapshot(A, name("kept"), 7).expect("creates");
        put(&mut session, "a", 3);
        session.commit(&[Edit::delete(A, &key("b"))]).expect("commits");
        settle(session.store()).expect("settles");
        assert!(session.store().stats().live > 590_000);
        if is_reopened {
            session.reopen().expect("opens");
        }
        session.store().drop_snapshot(A, &name("kept")).expect("drops");
        settle(session.store()).expect("settles");
        assert!(session.store().stats().live < 250_000, "{}", session.store().stats().live);
        expect_sound(session.store());
    }
}

#[test]
fn one_that_is_open_can_be_read_though_it_was_dropped() {
    let mut session = Session::new(SimDisk::new(1), tight());
    session.create_space("a", KeyspaceSettings::default()).expect("creates");
    let edit = Edit::create(A, &key("a")).write(0, pattern(1, 9000));
    session.commit(&[edit]).expect("commits");
    let state = session.state().clone();
    session.store().create_snapshot(A, name("one"), 7).expect("creates");
    let again = session.store().create_snapshot(A, name("one"), 8).expect_err("is taken");
    assert_eq!(again.kind(), ErrorKind::Exists);
    let (pin, known) = session.store().pin_snapshot(A, &name("one")).expect("is there");
    assert_eq!((known.taken, known.number), (7, pin.number()));
    session.commit(&[Edit::delete(A, &key("a"))]).expect("commits");
    session.store().drop_snapshot(A, &name("one")).expect("drops");
    settle(session.store()).expect("settles");
    assert_eq!(difference_at(session.store(), &state, A, pin.number()), None);
    drop(pin);
    for missing in [
        session.store().pin_snapshot(A, &name("one")).map(drop),
        session.store().drop_snapshot(A, &name("one")),
        session.store().create_snapshot(KeyspaceId(9), name("one"), 7).map(drop),
    ] {
        assert_eq!(missing.expect_err("is not there").kind(), ErrorKind::NotFound);
    }
}

#[test]
fn a_keyspace_with_named_snapshots_keeps_its_versions() {
    let mut session = Session::new(SimDisk::new(1), tight());
    let keeping = KeyspaceSettings::default();
    let latest = KeyspaceSettings { multi_version: false, ..keeping.clone() };
    session.create_space("a", latest.clone()).expect("creates");
    let refused = session.store().create_snapshot(A, name("one"), 7).expect_err("keeps no versions");
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    session.alter_space(A, keeping).expect("alters");
    session.store().create_snapshot(A, name("one"), 7).expect("creates");
    let refused = session.store().alter_keyspace(A, latest.clone()).expect_err("has a snapshot");
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    session.store().drop_snapshot(A, &name("one")).expect("drops");
    session.alter_space(A, latest).expect("alters");
}

/// What was acknowledged when the power failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Acked {
    Nothing,
    Taken,
    /// And it may have been dropped.
    Changed,
    Dropped,
}

#[test]
fn the_power_may_fail_whenever_one_is_taken_or_dropped() {
    let mut base = Session::new(SimDisk::new(3), tight());
    base.create_space("a", KeyspaceSettings::default()).expect("creates");
    let put = |session: &mut Session, seed| {
        let edit = Edit::any(session.state(), A, &key("a")).write(100, pattern(seed, 20_000));
        session.commit(&[edit]).map(drop)
    };
    put(&mut base, 1).expect("commits");
    base.flush().expect("flushes");
    base.abandon();
    let (mut crashes, mut outcomes) = (0, std::collections::BTreeSet::new());
    for operation in 0.. {
        let disk = base.disk.snapshot();
        disk.fail_at(operation, Fault::Crash);
        let mut session = Session::on(disk.clone(), tight(), base.state().clone());
        let (mut acked, mut shown) = (Acked::Nothing, None);
        let done = session.open().and_then(|()| {
            put(&mut session, 2)?;
            shown = Some(session.state().clone());
            session.store().create_snapshot(A, name("one"), 7)?;
            acked = Acked::Taken;
            put(&mut session, 3)?;
            settle(session.store())?;
            session.checkpoint()?;
            acked = Acked::Changed;
            session.store().drop_snapshot(A, &name("one"))?;
            acked = Acked::Dropped;
            settle(session.store())?;
            session.checkpoint()
        });
        if !disk.is_crashed() {
            done.expect("only a crash makes it fail");
            break;
        }
        crashes += 1;
        session.abandon();
        for mode in CrashMode::ALL {
            let _replay = Replay(format!("crash at operation {operation}, {mode:?}"));
            let states = &session.states[session.acked..];
            let mut found = Session::on(disk.crash(mode), tight(), State::default());
            found.open().expect("opens");
            find_state(found.store(), states).expect("is in one of them");
            let snapshots = found.store().snapshots(A).expect("exists").len();
            match acked {
                // It is there, or not.
                Acked::Nothing | Acked::Changed => assert!(snapshots <= 1),
                Acked::Taken => assert_eq!(snapshots, 1, "it was acknowledged"),
                Acked::Dropped => assert_eq!(snapshots, 0, "it was acknowledged"),
            }
            outcomes.insert((acked, snapshots));
            if let Some(state) = shown.as_ref().filter(|_| snapshots == 1) {
                settle(found.store()).expect("settles");
                let (pin, _) = found.store().pin_snapshot(A, &name("one")).expect("is there");
                assert_eq!(difference_at(found.store(), state, A, pin.number()), None);
            }
        }
    }
    assert!(crashes > 20 && outcomes.len() > 3, "{crashes} {outcomes:?}");
}

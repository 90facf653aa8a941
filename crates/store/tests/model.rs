//! Random work on a store, compared with a model: changes of blobs of any size in keyspaces of all kinds, pins that are held
//! meanwhile, maintenance at any point, processes that are killed, and power that fails.
//!
//! `PROPTEST_CASES` is the number of cases. One that fails is shrunk, and noted in `proptest-regressions/` to be run for ever.

mod kit;

use std::sync::Arc;

use kit::{
    Edit, Session, State, compare, difference, expect_usable, find_state, key, model::Staged, pattern,
    settle, tight,
};
use proptest::{prelude::*, sample::Index, test_runner::FileFailurePersistence};
use tyr_sim_env::{CrashMode, Fault, SimDisk};
use tyr_store::{Options, Pin, Wait};
use tyr_types::{Durability, Key, KeyspaceId, KeyspaceSettings, Number, OFFSET_MAX, Result};

/// One thing that somebody does.
#[derive(Clone, Debug)]
enum Step {
    /// A transaction, and waiting for it.
    Commit(Vec<Change>),
    /// A transaction that nobody waits for.
    Send(Vec<Change>),
    /// What was sent is written, without waiting for all of it.
    Drive,
    Flush,
    Checkpoint,
    /// Some steps of maintenance.
    Maintain(u8),
    Settle,
    Compact,
    Check,
    CreateSpace(Durability),
    AlterSpace(Index, Durability),
    DropSpace(Index),
    PinSpaces,
    PinBlob(Index, u8),
    Unpin(Index),
    Reopen,
    /// The process is killed: what it has written stays, what it has not is lost.
    Kill,
    /// The power fails after so many operations on the disk, in the middle of whatever comes.
    Crash {
        after: u64,
        mode: CrashMode,
        seed: u64,
    },
}

/// What a transaction does to one blob.
#[derive(Clone, Debug)]
struct Change {
    space: Index,
    key: u8,
    act: Act,
    staged: bool,
}

#[derive(Clone, Debug)]
enum Act {
    /// The blob is this and nothing else; its attributes stay.
    Put {
        len: usize,
    },
    Write {
        writes: Vec<(u64, usize)>,
    },
    Append {
        len: usize,
    },
    Truncate {
        size: u64,
    },
    /// A hole, and maybe a write in it.
    Punch {
        offset: u64,
        len: usize,
        written: Option<(usize, usize)>,
    },
    Delete,
    Replace {
        len: usize,
    },
    /// Adds one to eight bytes.
    Transform {
        offset: u64,
    },
    Attribute {
        name: u8,
        len: Option<usize>,
    },
}

fn steps() -> impl Strategy<Value = Step> {
    let changes = || prop::collection::vec(changes(), 1..4);
    let durability = || prop_oneof![2 => Just(Durability::Disk), 1 => Just(Durability::Memory)];
    prop_oneof![
        40 => changes().prop_map(Step::Commit),
        12 => changes().prop_map(Step::Send),
        3 => Just(Step::Drive),
        2 => Just(Step::Flush),
        4 => Just(Step::Checkpoint),
        8 => (1u8..6).prop_map(Step::Maintain),
        2 => Just(Step::Settle),
        1 => Just(Step::Compact),
        1 => Just(Step::Check),
        2 => durability().prop_map(Step::CreateSpace),
        1 => (any::<Index>(), durability()).prop_map(|(space, durability)| Step::AlterSpace(space, durability)),
        1 => any::<Index>().prop_map(Step::DropSpace),
        4 => Just(Step::PinSpaces),
        4 => (any::<Index>(), 0u8..4).prop_map(|(space, key)| Step::PinBlob(space, key)),
        5 => any::<Index>().prop_map(Step::Unpin),
        2 => Just(Step::Reopen),
        2 => Just(Step::Kill),
        4 => (prop_oneof![0u64..6, 0u64..60], modes(), 0u64..8)
            .prop_map(|(after, mode, seed)| Step::Crash { after, mode, seed }),
    ]
}

fn modes() -> impl Strategy<Value = CrashMode> {
    prop_oneof![1 => Just(CrashMode::LoseAll), 1 => Just(CrashMode::KeepAll), 2 => Just(CrashMode::Random)]
}

fn changes() -> impl Strategy<Value = Change> {
    let act = prop_oneof![
        2 => lengths().prop_map(|len| Act::Put { len }),
        8 => prop::collection::vec((offsets(), lengths()), 1..4).prop_map(|writes| Act::Write { writes }),
        4 => lengths().prop_map(|len| Act::Append { len }),
        3 => offsets().prop_map(|size| Act::Truncate { size }),
        4 => (offsets(), lengths(), prop::option::of((0usize..200, 1usize..50)))
            .prop_map(|(offset, len, written)| Act::Punch { offset, len, written }),
        2 => Just(Act::Delete),
        1 => lengths().prop_map(|len| Act::Replace { len }),
        3 => offsets().prop_map(|offset| Act::Transform { offset }),
        2 => (0u8..3, prop::option::of(0usize..300)).prop_map(|(name, len)| Act::Attribute { name, len }),
    ];
    (any::<Index>(), 0u8..4, act, prop::bool::weighted(0.2)).prop_map(|(space, key, act, staged)| Change {
        space,
        key,
        act,
        staged,
    })
}

/// Where things begin and end: mostly small, so that they meet; around blocks and leaves; and as far out as a blob reaches.
fn offsets() -> impl Strategy<Value = u64> {
    let near = |middle: u64| middle - 20..middle + 20;
    prop_oneof![
        8 => 0u64..200,
        2 => near(4096),
        3 => near(65_536),
        2 => near(131_072),
        1 => near(1 << 40),
        1 => (1u64 << 40)..(1 << 63),
        1 => OFFSET_MAX - 20..=OFFSET_MAX,
    ]
}

/// Inline, in the frame, in a segment of its own, across leaves.
fn lengths() -> impl Strategy<Value = usize> {
    prop_oneof![
        8 => 1usize..40,
        2 => 300usize..1200,
        2 => 4090usize..4100,
        2 => 5000usize..9000,
        2 => 9000usize..30_000,
        1 => 60_000usize..70_000,
        1 => 120_000usize..140_000,
    ]
}

fn options() -> impl Strategy<Value = Options> {
    let inline = prop_oneof![Just(4096), Just(8 << 10)];
    let caches =
        (prop_oneof![Just(16 << 10), Just(64 << 10), Just(1 << 20)], prop_oneof![Just(0), Just(64 << 10)]);
    let checkpoints = prop_oneof![Just(32 << 10), Just(96 << 10), Just(1 << 40)];
    (inline, caches, checkpoints).prop_map(|(inline_max, (index_cache, data_cache), checkpoint_size)| {
        Options { inline_max, index_cache, data_cache, checkpoint_size, ..tight() }
    })
}

/// What somebody reads at a number that is pinned.
struct Pinned {
    pin: Pin,
    /// The state at that number.
    state: State,
    /// All of these keyspaces, or one blob of one.
    spaces: Vec<KeyspaceId>,
    key: Option<Key>,
}

struct Case {
    session: Session,
    pins: Vec<Pinned>,
    /// How the power will fail, if that is to come.
    crash: Option<(CrashMode, u64)>,
    /// Different bytes for every write.
    seed: u64,
}

impl Case {
    fn new(options: Options) -> Self {
        let mut session = Session::new(SimDisk::new(1), options);
        for (name, durability) in [("disk", Durability::Disk), ("memory", Durability::Memory)] {
            let settings = KeyspaceSettings { durability, ..KeyspaceSettings::default() };
            session.create_space(name, settings).expect("creates");
        }
        Case { session, pins: Vec::new(), crash: None, seed: 0 }
    }

    fn happen(&mut self, step: &Step) {
        if let Err(error) = self.attempt(step) {
            assert!(self.session.disk.is_crashed(), "{error:?}");
        }
        if self.session.disk.is_crashed() {
            let (mode, seed) = self.crash.take().expect("the power was to fail");
            self.pins.clear();
            self.session.abandon();
            self.session.disk.reseed(seed);
            self.recover(self.session.disk.crash(mode));
        }
        // Reading may have to wait for a write, and so meet the failure that is to come.
        if self.crash.is_none() {
            self.compare_pins();
        }
    }

    fn attempt(&mut self, step: &Step) -> Result<()> {
        match step {
            Step::Commit(changes) => {
                let edits = self.edits(changes);
                self.session.commit(&edits)?;
                self.compare_blobs(&edits)
            }
            Step::Send(changes) => {
                let edits = self.edits(changes);
                self.session.send(&edits).map(drop)
            }
            Step::Drive => {
                self.session.store().drive_commits_once();
                Ok(())
            }
            Step::Flush => self.session.flush(),
            Step::Checkpoint => self.session.checkpoint(),
            Step::Maintain(times) => (0..*times).try_for_each(|_| self.session.store().maintain().map(drop)),
            Step::Settle => settle(self.session.store()),
            Step::Compact => self.session.store().compact().map(drop),
            Step::Check => {
                let report = self.session.store().check()?;
                assert_eq!((report.damage, report.miscounted), (Vec::new(), 0));
                Ok(())
            }
            Step::CreateSpace(..) | Step::AlterSpace(..) | Step::DropSpace(..) => self.change_spaces(step),
            Step::PinSpaces | Step::PinBlob(..) | Step::Unpin(..) => self.change_pins(step),
            Step::Reopen => {
                self.pins.clear();
                self.session.reopen()
            }
            Step::Kill => {
                self.pins.clear();
                self.session.abandon();
                self.recover(self.session.disk.clone());
                Ok(())
            }
            Step::Crash { after, mode, seed } => {
                if self.crash.replace((*mode, *seed)).is_none() {
                    let disk = &self.session.disk;
                    disk.fail_at(disk.operations() + after, Fault::Crash);
                }
                Ok(())
            }
        }
    }

    fn spaces(&self) -> Vec<KeyspaceId> {
        self.session.state().spaces.keys().copied().collect()
    }

    fn change_spaces(&mut self, step: &Step) -> Result<()> {
        let spaces = self.spaces();
        match step {
            Step::CreateSpace(durability) if spaces.len() < 4 => {
                let name = format!("space-{}", self.session.state().next_space().0);
                let settings = KeyspaceSettings { durability: *durability, ..KeyspaceSettings::default() };
                self.session.create_space(&name, settings).map(drop)
            }
            Step::AlterSpace(space, durability) => {
                let space = *space.get(&spaces);
                self.seed += 1;
                let settings = KeyspaceSettings {
                    durability: *durability,
                    quota: Some(self.seed),
                    ..self.session.state().space(space).settings.clone()
                };
                self.session.alter_space(space, settings)
            }
            Step::DropSpace(space) if spaces.len() > 1 => {
                let space = *space.get(&spaces);
                // What is pinned in it goes with it.
                self.pins.retain(|pinned| !pinned.spaces.contains(&space));
                self.session.drop_space(space)
            }
            _ => Ok(()),
        }
    }

    fn change_pins(&mut self, step: &Step) -> Result<()> {
        let (spaces, state) = (self.spaces(), self.session.state().clone());
        match step {
            Step::PinSpaces => {
                let pin = self.session.store().pin_keyspaces(&spaces)?;
                self.session.acked = self.session.states.len() - 1;
                self.pins.push(Pinned { pin, state, spaces, key: None });
            }
            Step::PinBlob(space, name) => {
                let (space, key) = (*space.get(&spaces), key_of(*name));
                let pin =
                    self.session.store().pin_blob(space, &key, Wait::Allowed).map_err(compare::failure)?;
                self.pins.push(Pinned { pin, state, spaces: vec![space], key: Some(key) });
            }
            Step::Unpin(which) if !self.pins.is_empty() => {
                self.pins.remove(which.index(self.pins.len()));
            }
            _ => {}
        }
        Ok(())
    }

    /// Opens what a killed process or a failed power has left: one of the states from the last acknowledged one on.
    fn recover(&mut self, disk: Arc<SimDisk>) {
        let options = self.session.options.clone();
        let states = self.session.states.split_off(self.session.acked);
        let is_same_disk = Arc::ptr_eq(&disk, &self.session.disk);
        self.session = Session::on(disk, options, State::default());
        if let Err(error) = self.session.open() {
            // The power may fail while a killed store is opened.
            assert!(is_same_disk && self.session.disk.is_crashed(), "cannot be opened: {error:?}");
            (self.session.states, self.session.acked) = (states, 0);
            return;
        }
        if self.session.disk.is_crashed() {
            (self.session.states, self.session.acked) = (states, 0);
            return;
        }
        let index = find_state(self.session.store(), &states)
            .unwrap_or_else(|differences| panic!("in none of {} states: {differences:#?}", states.len()));
        self.session.states = vec![states[index].clone()];
    }

    fn edits(&mut self, changes: &[Change]) -> Vec<Edit> {
        let spaces = self.spaces();
        let mut edits: Vec<Edit> = Vec::new();
        for change in changes {
            let (space, key) = (*change.space.get(&spaces), key_of(change.key));
            if edits.iter().any(|edit| (edit.space, &edit.key) == (space, &key)) {
                continue;
            }
            let edit = self.edit(space, &key, &change.act);
            let staged = if change.staged { Staged::Yes } else { Staged::No };
            edits.extend(edit.map(|edit| Edit { staged, ..edit }));
        }
        edits
    }

    /// The edit that an act makes of a blob, if it can be done to it.
    fn edit(&mut self, space: KeyspaceId, key: &Key, act: &Act) -> Option<Edit> {
        self.seed += 1;
        let (state, seed) = (self.session.state(), self.seed);
        let any = Edit::any(state, space, key);
        let blob = state.blob(space, key);
        let fits = |offset: u64, len: usize| offset <= OFFSET_MAX - len as u64;
        Some(match act {
            Act::Put { len } => any.truncate(0).write(0, pattern(seed, *len)),
            Act::Write { writes } => {
                let fitting = writes.iter().filter(|(offset, len)| fits(*offset, *len));
                fitting.fold(any, |edit, (offset, len)| {
                    let bytes = pattern(seed + offset, *len);
                    if overlaps(&edit, *offset, bytes.len()) { edit } else { edit.write(*offset, bytes) }
                })
            }
            Act::Append { len } if fits(any.size, *len) => any.append(pattern(seed, *len)),
            Act::Append { .. } => return None,
            Act::Truncate { size } => {
                blob?;
                any.truncate(*size)
            }
            Act::Punch { offset, len, written } if fits(*offset, *len) => {
                blob?;
                let (start, end) = (*offset, offset + *len as u64);
                match written.filter(|(skip, len)| start + ((skip + len) as u64) < end) {
                    None => any.punch(start..end),
                    Some((skip, len)) => {
                        let at = start + skip as u64;
                        let holes = any.punch(start..at).punch(at + len as u64..end);
                        holes.write(at, pattern(seed, len))
                    }
                }
            }
            Act::Punch { .. } => return None,
            Act::Delete => {
                blob?;
                Edit::delete(space, key)
            }
            Act::Replace { len } => {
                blob?;
                Edit::replace(space, key).write(3, pattern(seed, *len))
            }
            Act::Transform { offset } if fits(*offset, 8) => {
                let old = blob.map_or(vec![0; 8], |blob| blob.read(*offset, 8));
                let old = u64::from_le_bytes(old.try_into().expect("eight bytes"));
                any.write(*offset, old.wrapping_add(1).to_le_bytes().into())
            }
            Act::Transform { .. } => return None,
            Act::Attribute { name, len } => {
                let value = len.map(|len| pattern(seed, len));
                any.attribute(state, &format!("name-{name}"), value.as_deref())
            }
        })
    }

    /// Compares what was just changed.
    fn compare_blobs(&self, edits: &[Edit]) -> Result<()> {
        for edit in edits {
            let (store, state) = (self.session.store(), self.session.state());
            let difference = compare::blob_difference(store, state, edit.space, &edit.key, Number::MAX)?;
            assert_eq!(difference, None);
        }
        Ok(())
    }

    /// Reads again what is pinned.
    fn compare_pins(&self) {
        for Pinned { pin, state, spaces, key } in &self.pins {
            let (store, at) = (self.session.store(), pin.number());
            let difference = match key {
                Some(key) => compare::blob_difference(store, state, spaces[0], key, at).expect("reads"),
                None => spaces.iter().find_map(|space| compare::difference_at(store, state, *space, at)),
            };
            assert_eq!(difference, None);
        }
    }

    /// Whatever has happened, the store holds what it should, and goes on.
    fn end(mut self) {
        self.pins.clear();
        if let Some((mode, seed)) = self.crash.take() {
            self.session.abandon();
            self.session.disk.reseed(seed);
            self.recover(self.session.disk.crash(mode));
        }
        compare::expect_same(&self.session, "in the end");
        expect_usable(&mut self.session).expect("can be used");
    }
}

fn key_of(n: u8) -> Key {
    key(["a", "b", "c", "d"][usize::from(n)])
}

/// Whether an edit writes there already: the ranges of one are disjoint.
fn overlaps(edit: &Edit, offset: u64, len: usize) -> bool {
    let end = |offset: u64, len: usize| offset + len as u64;
    let is_hit =
        |(other, bytes): &(u64, Vec<u8>)| offset < end(*other, bytes.len()) && *other < end(offset, len);
    edit.writes.iter().any(is_hit)
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct("proptest-regressions/tests/model.txt"))),
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_store_does_what_the_model_does(options in options(), steps in prop::collection::vec(steps(), 1..60)) {
        let mut case = Case::new(options);
        steps.iter().for_each(|step| case.happen(step));
        case.end();
    }
}

#[test]
fn the_model_tells_a_wrong_byte() {
    let mut case = Case::new(tight());
    let edit = Edit::create(KeyspaceId(1), &key_of(0)).write(0, pattern(1, 10));
    case.session.commit(&[edit]).expect("commits");
    let mut wrong = case.session.state().clone();
    wrong.apply(&Edit::keep(&wrong, KeyspaceId(1), &key_of(0)).write(4, vec![0]));
    assert!(difference(case.session.store(), &wrong).is_some());
}

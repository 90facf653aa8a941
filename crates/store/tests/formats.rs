//! Stores that every version of the format has left behind are opened for ever, with everything in them; a store of a later format, or
//! what is none, is refused and left as it is.
//!
//! `tests/fixtures/format-N.store` is a store of format version N in the middle of its work, see [`kit::packed`]. After the version has
//! been raised, `TYR_WRITE_FIXTURE=1 cargo test -p tyr-store --test formats` writes the file of the new one.

mod kit;

use std::{collections::BTreeSet, fs, path::PathBuf, sync::Arc};

use kit::{
    Edit, Session, State, difference, expect_usable, key, packed::Packed, pattern, session::settle, tight,
};
use tyr_env::BLOCK_SIZE;
use tyr_os::{IoMode, OsDisk, OsOptions};
use tyr_sim_env::{CrashMode, Fault, SimClock, SimDisk};
use tyr_store::{Create, Options, Store, Wait};
use tyr_types::{Durability, ErrorKind, KeyspaceId, KeyspaceSettings, Number, Result};
use tyr_wire::{
    frame::{FORMAT_VERSION, FrameHeader, records},
    record::Record,
};

const DURABLE: KeyspaceId = KeyspaceId(1);
const MEMORY: KeyspaceId = KeyspaceId(2);
const LATEST: KeyspaceId = KeyspaceId(3);

/// Checkpoints happen where the work has them.
fn options() -> Options {
    Options { checkpoint_size: 1 << 40, index_cache: 8 << 20, ..tight() }
}

/// Some of everything that a file of a store can hold. Stores of every version were made by it: never change it, add another.
fn work(session: &mut Session) -> Result<()> {
    keyspaces(session)?;
    blobs(session)?;
    session.checkpoint()?;
    let history = session.store().pin_keyspaces(&[DURABLE])?;
    changes(session)?;
    session.drop_space(KeyspaceId(5))?;
    session.checkpoint()?;
    tail(session)?;
    drop(history);
    Ok(())
}

fn keyspaces(session: &mut Session) -> Result<()> {
    let settings = KeyspaceSettings::default();
    session.create_space("durable", settings.clone())?;
    let memory =
        KeyspaceSettings { durability: Durability::Memory, quota: Some(1 << 30), ..settings.clone() };
    session.create_space("memory", memory)?;
    let latest = KeyspaceSettings { multi_version: false, chunk_size: 1 << 16, ..settings.clone() };
    session.create_space("latest", latest)?;
    for name in ["dropped-and-collected", "dropped", "dropped-in-the-tail"] {
        let space = session.create_space(name, settings.clone())?;
        let edit =
            Edit::create(space, &key("gone")).write(0, pattern(1, 9000)).write(70_000, pattern(2, 100));
        session.commit(&[edit])?;
    }
    session.drop_space(KeyspaceId(4))?;
    settle(session.store())
}

fn blobs(session: &mut Session) -> Result<()> {
    let created = |name: &str, seed, len| Edit::create(DURABLE, &key(name)).write(0, pattern(seed, len));
    session.commit(&[created("inline", 10, 700)])?;
    session.commit(&[created("payload-in-the-frame", 11, 4500)])?;
    session.commit(&[created("bulk", 12, 9000).staged()])?;
    session.commit(&[
        created("deleted", 13, 80),
        created("reborn", 14, 90),
        created("replaced", 15, 100),
        created("truncated", 16, 4000),
        created("history", 17, 60).write(70_000, pattern(27, 40)),
        created("cut", 18, 50).write(66_000, pattern(19, 50)).write(200_000, pattern(20, 60)),
    ])?;
    session.commit(&[Edit::create(DURABLE, &key("hole")).write(200_000, pattern(21, 300))])?;
    session.commit(&[Edit::create(DURABLE, &key("across-leaves")).write(65_000, pattern(22, 1500))])?;
    let far = Edit::create(DURABLE, &key("far")).write(1 << 40, pattern(23, 100));
    session.commit(&[far.write((1 << 63) - 51, pattern(24, 50))])?;
    session.commit(&[Edit::create(DURABLE, &key("empty")), Edit::create(LATEST, &key("empty"))])?;
    let gone = Edit::create(LATEST, &key("gone")).write(65_500, pattern(28, 100));
    session.commit(&[gone])?;
    let counter = Edit::create(LATEST, &key("counter")).write(24, 41u64.to_le_bytes().into());
    session.commit(&[counter, Edit::create(MEMORY, &key("log")).write(0, pattern(25, 500))])?;
    let named =
        created("attributes", 26, 10).attribute(&State::default(), "content-type", Some(b"text/plain"));
    session.commit(&[named]).map(drop)
}

fn changes(session: &mut Session) -> Result<()> {
    let keep = |session: &Session, name| Edit::keep(session.state(), DURABLE, &key(name));
    session.commit(&[Edit::delete(DURABLE, &key("deleted")), Edit::delete(DURABLE, &key("reborn"))])?;
    session.commit(&[Edit::create(DURABLE, &key("reborn")).write(3, pattern(30, 20))])?;
    session.commit(&[Edit::replace(DURABLE, &key("replaced")).write(5, pattern(31, 30))])?;
    let truncated = keep(session, "truncated").truncate(1234);
    session.commit(&[truncated])?;
    let (extended, cut) = (keep(session, "truncated").truncate(3000), keep(session, "cut").truncate(66_020));
    session.commit(&[extended, cut])?;
    for round in 0..3 {
        let over = keep(session, "history").write(round * 20, pattern(32 + round, 50));
        let over = over.write(70_000 + round * 20, pattern(37 + round, 50));
        session.commit(&[over.attribute(
            session.state(),
            "round",
            Some(&[u8::try_from(round).expect("small")]),
        )])?;
    }
    session.commit(&[Edit::delete(LATEST, &key("gone"))])?;
    let over = keep(session, "bulk").write(4000, pattern(36, 200));
    session.commit(&[over]).map(drop)
}

/// What only the log says.
fn tail(session: &mut Session) -> Result<()> {
    let keep = |session: &Session, space, name| Edit::keep(session.state(), space, &key(name));
    // Fragments, which maintenance joins.
    for n in 0..40 {
        let edit =
            keep(session, LATEST, "empty").write(n * 7, pattern(n, 9)).write(65_600 + n * 7, pattern(n, 9));
        session.commit(&[edit])?;
    }
    settle(session.store())?;
    // As a transform does: what is read is written, changed.
    let counted = keep(session, LATEST, "counter").write(24, 42u64.to_le_bytes().into());
    session.commit(&[counted])?;
    let bulk = Edit::create(DURABLE, &key("bulk-in-the-tail")).write(10, pattern(40, 8500)).staged();
    let appended = keep(session, DURABLE, "inline").append(pattern(41, 4200));
    session.commit(&[bulk, appended])?;
    let cut = keep(session, DURABLE, "across-leaves").truncate(65_540);
    let nameless = keep(session, DURABLE, "attributes").attribute(session.state(), "content-type", None);
    session.commit(&[cut, nameless, Edit::delete(DURABLE, &key("empty"))])?;
    let added = session.create_space("added", KeyspaceSettings::default())?;
    let settings = KeyspaceSettings { quota: Some(7), ..session.state().space(DURABLE).settings.clone() };
    session.alter_space(DURABLE, settings)?;
    session.commit(&[Edit::create(added, &key("a")).write(0, pattern(42, 30))])?;
    session.drop_space(KeyspaceId(6))?;
    let unwaited = keep(session, MEMORY, "log").append(pattern(43, 300));
    session.commit(&[unwaited])?;
    session.flush()
}

/// A store whose power failed in the middle of a transaction after the work; and the state that it is in.
fn interrupted() -> (Arc<SimDisk>, State) {
    let mut base = Session::new(SimDisk::new(1), options());
    work(&mut base).expect("nothing fails");
    // Another one after a process was killed, so that the log has several epochs behind the checkpoint.
    base.kill().expect("opens");
    base.flush().expect("flushes");
    base.abandon();
    for operation in 0..20 {
        let disk = base.disk.snapshot();
        let mut session = Session::on(disk.clone(), options(), base.state().clone());
        session.open().expect("opens");
        disk.fail_at(disk.operations() + operation, Fault::Crash);
        let torn =
            Edit::create(DURABLE, &key("torn")).write(0, pattern(50, 6000)).write(10_000, pattern(51, 700));
        session.commit(&[torn]).expect_err("the power fails");
        session.abandon();
        let what = disk.strikes().pop().expect("has struck").what;
        if !(what.starts_with("write") && what.contains("log-")) {
            continue;
        }
        for seed in 0..100 {
            disk.reseed(seed);
            let torn = disk.crash(CrashMode::Random);
            if is_torn(&disk, &torn, base.state()) {
                return (torn, base.state().clone());
            }
        }
    }
    panic!("no crash has torn the transaction");
}

/// Whether something of the last transaction has reached the disk, but not all.
fn is_torn(before: &SimDisk, after: &SimDisk, state: &State) -> bool {
    let lost = Packed::files_of(&before.crash(CrashMode::LoseAll));
    let mut found = Session::on(after.snapshot(), options(), state.clone());
    found.open().expect("opens");
    Packed::files_of(after) != lost && difference(found.store(), state).is_none()
}

fn path(version: u32) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/format-{version}.store"))
}

fn fixture(version: u32) -> Packed {
    let path = path(version);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Packed::parse(&text)
}

/// Writes the file of this version, if it is wanted and was not written before.
fn write_fixture() {
    let path = path(FORMAT_VERSION);
    if std::env::var_os("TYR_WRITE_FIXTURE").is_none() || path.exists() {
        return;
    }
    let (disk, state) = interrupted();
    let mut session = Session::on(disk.snapshot(), options(), state);
    session.open().expect("opens");
    let packed =
        Packed { versions: versions(session.store(), session.state()), files: Packed::files_of(&disk) };
    let text = format!(
        "# A store of format version {FORMAT_VERSION}, written by tests/formats.rs.\n{}",
        packed.print()
    );
    assert_eq!(Packed::parse(&text), packed);
    fs::write(&path, text).expect("can be written");
}

fn versions(
    store: &Store,
    state: &State,
) -> std::collections::BTreeMap<(KeyspaceId, tyr_types::Key), Number> {
    let blobs = state.spaces.iter().flat_map(|(id, space)| space.blobs.keys().map(|key| (*id, key.clone())));
    let version = |(id, key): (KeyspaceId, tyr_types::Key)| {
        let head = store.head(id, &key, Number::MAX, Wait::Allowed).expect("reads").expect("exists");
        ((id, key), head.number)
    };
    blobs.map(version).collect()
}

/// What the work leaves behind, by the model.
fn expected() -> State {
    let mut session = Session::new(SimDisk::new(2), options());
    work(&mut session).expect("nothing fails");
    session.state().clone()
}

#[test]
fn a_store_of_every_version_is_opened_with_everything_in_it() {
    write_fixture();
    let state = expected();
    for version in 1..=FORMAT_VERSION {
        let packed = fixture(version);
        let mut session = Session::on(packed.disk(), tight(), state.clone());
        session.open().expect("opens");
        assert_eq!(difference(session.store(), session.state()), None, "format version {version}");
        assert_eq!(versions(session.store(), &state), packed.versions, "format version {version}");
        expect_usable(&mut session).expect("can be used");
        session.store().compact().expect("compacts");
        assert_eq!(difference(session.store(), session.state()), None, "format version {version}, compacted");
    }
}

#[test]
fn a_store_of_every_version_is_opened_on_a_real_disk() {
    let state = expected();
    for (version, io) in
        (1..=FORMAT_VERSION).flat_map(|version| [(version, IoMode::Auto), (version, IoMode::Buffered)])
    {
        let directory = tempfile::tempdir().expect("a temporary directory");
        for (name, bytes) in fixture(version).files {
            fs::write(directory.path().join(name), bytes).expect("can be written");
        }
        let disk = OsDisk::open(directory.path(), OsOptions { create: false, io }).expect("opens");
        let store = Store::open(disk, SimClock::new(), Create::Never, tight()).expect("opens");
        assert_eq!(difference(&store, &state), None, "format version {version}, {io:?}");
        kit::expect_sound(&store);
        store.close().expect("closes");
    }
}

/// The kinds of records in the frames of a log segment, as they lie behind one another.
fn kinds(segment: &[u8]) -> BTreeSet<u8> {
    let mut kinds = BTreeSet::new();
    for start in (BLOCK_SIZE..segment.len()).step_by(BLOCK_SIZE) {
        let frame = &segment[start..];
        let Some(header) = FrameHeader::peek(frame).filter(|header| header.verify(frame)) else { continue };
        for record in records(&header, frame) {
            let body = record.expect("is whole").body;
            Record::decode(body).expect("is whole");
            kinds.insert(body[0]);
        }
    }
    kinds
}

#[test]
fn the_fixtures_hold_every_kind_of_file_and_record() {
    for version in 1..=FORMAT_VERSION {
        let Packed { files, .. } = fixture(version);
        for kind in ["manifest", "log-", "bulk-1-", "table-", "reserve"] {
            assert!(
                files.keys().any(|name| name.starts_with(kind)),
                "format version {version} has no {kind}"
            );
        }
        let logs = files.iter().filter(|(name, _)| name.starts_with("log-"));
        let kinds: BTreeSet<u8> = logs.flat_map(|(_, bytes)| kinds(bytes)).collect();
        assert_eq!(kinds, (1..=5).collect(), "format version {version}");
    }
}

/// Opens in every way; all fail, with an error of the kind that the way leads to, and nothing on the disk changes.
fn expect_refused(disk: &SimDisk, kinds: [(Create, ErrorKind); 3], says: &str) {
    let before = Packed::files_of(disk);
    for (create, kind) in kinds {
        let copy = disk.snapshot();
        let error = Store::open(copy.clone(), SimClock::new(), create, tight()).err().expect("is refused");
        assert_eq!(error.kind(), kind, "{create:?}: {error}");
        assert!(error.message().contains(says), "{create:?}: {error}");
        assert_eq!(copy.operations(), 0, "{create:?}: nothing is changed");
        assert!(Packed::files_of(&copy) == before, "{create:?}: nothing is changed");
    }
}

fn in_any_way(kind: ErrorKind) -> [(Create, ErrorKind); 3] {
    [Create::IfMissing, Create::Never, Create::New].map(|create| (create, kind))
}

#[test]
fn a_store_of_a_later_version_is_refused_and_left_as_it_is() {
    let disk = fixture(FORMAT_VERSION).disk();
    let mut manifest = disk.read_file("manifest").expect("is there");
    for version in [0, FORMAT_VERSION + 1, u32::MAX] {
        manifest[8..12].copy_from_slice(&version.to_le_bytes());
        // Whatever else the later version has changed.
        manifest[12..].reverse();
        disk.write_file("manifest", &manifest).expect("plants");
        expect_refused(&disk, in_any_way(ErrorKind::Unavailable), &format!("format version {version}"));
    }
}

#[test]
fn a_directory_that_holds_no_store_is_refused_and_left_as_it_is() {
    let disk = SimDisk::new(1);
    disk.write_file("notes.txt", b"not ours").expect("plants");
    let kinds = [
        (Create::IfMissing, ErrorKind::Invalid),
        (Create::New, ErrorKind::Invalid),
        (Create::Never, ErrorKind::NotFound),
    ];
    expect_refused(&disk, kinds, "directory holds");
    disk.write_file("manifest", b"manifest of a ship").expect("plants");
    expect_refused(&disk, in_any_way(ErrorKind::Corrupt), "manifest");
}

#[test]
fn a_store_without_its_manifest_is_refused_and_left_as_it_is() {
    let mut packed = fixture(FORMAT_VERSION);
    packed.files.remove("manifest");
    expect_refused(&packed.disk(), in_any_way(ErrorKind::Corrupt), "no manifest");
}

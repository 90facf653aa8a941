#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use pollster::block_on;
use tyr_client::{Keyspace, Outcome, Store};

use super::*;
use crate::{
    Allocate, Caller, Changes, Follow, How, Over, Put, Timestamp, View,
    guest::{GUESTS, PATIENCE},
    orphans::ORPHANS,
};

/// A file system, and clients of it that tend when they are told to, each a guest.
struct Place {
    clients: Vec<Filesystem>,
    store: Store,
    _directory: tempfile::TempDir,
}

impl Place {
    fn new(clients: usize) -> Place {
        let directory = tempfile::tempdir().unwrap();
        let store = block_on(Store::open(directory.path())).unwrap();
        let mut place = Place { clients: Vec::new(), store, _directory: directory };
        (0..clients).for_each(|_| place.come());
        place
    }

    /// One more client.
    fn come(&mut self) {
        let client = block_on(Filesystem::open_or_create(&self.store, "files")).unwrap().tended_by_caller();
        block_on(client.join()).unwrap();
        self.clients.push(client);
    }

    fn view(&self, client: usize) -> View {
        View::new(self.clients[client].clone(), Caller::superuser())
    }

    fn keyspace(&self) -> &Keyspace {
        self.clients[0].keyspace()
    }

    fn tend(&self, client: usize) {
        block_on(self.clients[client].tend(Duration::MAX)).unwrap();
    }

    /// All clients tend, as often as it takes for what can move to have moved.
    fn settle(&self) {
        for _ in 0..40 {
            (0..self.clients.len()).for_each(|client| self.tend(client));
        }
    }

    fn found(&self, path: &str) -> Metadata {
        block_on(self.view(0).metadata(path, Follow::No)).unwrap()
    }

    /// Makes a file of another name, and renames it.
    fn renamed(&self, path: &str, content: &[u8]) -> Inode {
        block_on(self.view(0).put("/before", content)).unwrap();
        block_on(self.view(0).rename("/before", path)).unwrap();
        let found = self.found(path).inode;
        assert_eq!(found.site.key(), b"/before");
        found
    }

    fn is_home(&self, path: &str) -> bool {
        self.found(path).inode.site.key() == path.as_bytes()
    }

    fn records(&self) -> Vec<u8> {
        block_on(self.keyspace().get(ORPHANS)).unwrap().bytes
    }
}

fn fails<T>(result: Result<T>) -> Errno {
    result.map(drop).unwrap_err().errno()
}

#[test]
fn what_was_renamed_comes_to_lie_at_its_name_with_all_that_belongs_to_it() {
    for clients in [1, 2] {
        let place = Place::new(clients);
        let (view, files) = (place.view(0), &place.clients[0]);
        let file = block_on(view.open("/before", How::NEW)).unwrap();
        block_on(file.write(0, b"beginning")).unwrap();
        block_on(file.write(1_000_000, b"end")).unwrap();
        block_on(file.allocate(Allocate::Punch, 3, 2)).unwrap();
        block_on(file.truncate(2_000_000)).unwrap();
        let times = [1, 2].map(|seconds| Some(Timestamp { seconds, nanoseconds: 5 }));
        let changes = Changes {
            mode: Some(0o4751),
            uid: Some(7),
            accessed: times[0],
            modified: times[1],
            ..Changes::default()
        };
        block_on(file.change(&changes)).unwrap();
        block_on(files.set_extended(file.inode(), b"user.color", Some(b"red"), Put::Any)).unwrap();
        let line = |tag: u8, permissions: u8, id: u32| [[tag, 0, permissions, 0], id.to_le_bytes()].concat();
        let none = u32::MAX;
        let lines = [(1, 7, none), (2, 6, 70), (4, 5, none), (16, 7, none), (32, 1, none)];
        let lines = lines.map(|(tag, permissions, id)| line(tag, permissions, id)).concat();
        let acl = [2_u32.to_le_bytes().to_vec(), lines].concat();
        block_on(files.obey_acls()).unwrap();
        let access = b"system.posix_acl_access";
        block_on(files.set_extended(file.inode(), access, Some(&acl), Put::Any)).unwrap();
        drop(file);
        block_on(view.create_directory("/in", 0o755)).unwrap();
        block_on(view.rename("/before", "/in/after")).unwrap();
        let content = block_on(view.fetch("/in/after")).unwrap().1;
        let before = place.found("/in/after");
        assert!(before.inode.site.key() == b"/before" && before.acl.is_some());

        place.settle();
        let after = place.found("/in/after");
        assert_eq!(after.inode.site.key(), b"/in/after");
        assert_eq!(after, Metadata { inode: after.inode.clone(), ..before }, "{clients} clients");
        assert!(!block_on(place.keyspace().exists("/before")).unwrap());
        let fetched = block_on(files.try_fetch(view.caller(), b"/in/after")).unwrap();
        let (fetched, bytes) = fetched.expect("one request finds it");
        assert_eq!((fetched, bytes), (after.clone(), content));
        assert_eq!(block_on(files.extended(&after.inode, b"user.color")).unwrap(), b"red");
        let file = block_on(view.open("/in/after", How::WRITE)).unwrap();
        for (what, from, found) in [
            (Seek::Hole, 0, 3),
            (Seek::Data, 3, 5),
            (Seek::Hole, 5, 9),
            (Seek::Data, 9, 1_000_000),
            (Seek::Hole, 1_000_000, 1_000_003),
        ] {
            assert_eq!(block_on(file.seek(what, from)).unwrap(), found);
        }
        assert_eq!(fails(block_on(file.seek(Seek::Data, 1_000_003))), Errno::ENXIO);
        block_on(file.append(b"!")).unwrap();
        assert_eq!(block_on(file.read(2_000_000, 10)).unwrap(), b"!");
        block_on(view.put("/before", b"another")).unwrap();
        assert_eq!(place.found("/before").inode.site.key(), b"/before");
        assert!(place.records().is_empty());
    }
}

#[test]
fn what_a_client_finds_moves_and_who_renamed_it_need_not_be_there() {
    let mut place = Place::new(1);
    place.renamed("/after", b"content");
    let target = "/some/where";
    block_on(place.view(0).symlink(target, "/link")).unwrap();
    block_on(place.view(0).rename("/link", "/other")).unwrap();
    block_on(place.clients[0].leave()).unwrap();
    place.clients.clear();
    place.come();
    place.settle();
    assert!(block_on(place.keyspace().exists("/link")).unwrap(), "nobody has looked");
    assert!(!place.is_home("/after") && !place.is_home("/other"));
    place.settle();
    assert!(place.is_home("/after") && place.is_home("/other"));
    assert_eq!(block_on(place.view(0).read_link("/other")).unwrap(), target.as_bytes());
    assert_eq!(block_on(place.view(0).fetch("/after")).unwrap().1, b"content");
}

#[test]
fn directories_hard_links_and_large_files_stay() {
    let place = Place::new(2);
    let view = place.view(0);
    block_on(view.create_directory("/before", 0o755)).unwrap();
    block_on(view.put("/before/in", b"content")).unwrap();
    block_on(view.rename("/before", "/directory")).unwrap();
    place.settle();
    assert_eq!(place.found("/directory").inode.site.key(), b"/before");
    assert_eq!(place.found("/directory/in").inode.site.key(), b"/before/in");
    block_on(view.put("/small", b"content")).unwrap();
    block_on(view.hard_link("/small", "/linked")).unwrap();
    block_on(view.put("/large", &vec![1; usize::try_from(MOVED_MAX).unwrap() + 1])).unwrap();
    block_on(view.rename("/large", "/still")).unwrap();
    place.found("/linked");
    place.settle();
    assert_eq!(place.found("/linked").inode.site.key(), b"/small");
    assert_eq!(place.found("/still").inode.site.key(), b"/large");
    // Of two names the own one is taken, and the file is cut.
    block_on(view.remove_file("/small")).unwrap();
    let cut = Changes { size: Some(MOVED_MAX), ..Changes::default() };
    block_on(view.change("/still", Follow::No, &cut)).unwrap();
    for path in ["/linked", "/still"] {
        place.found(path);
    }
    place.settle();
    assert!(place.is_home("/linked") && place.is_home("/still"));
}

#[test]
fn an_open_file_stays_until_it_is_closed_whoever_has_it_open() {
    for (clients, opener) in [(1, 0), (2, 0), (2, 1), (3, 1)] {
        let place = Place::new(clients);
        let inode = place.renamed("/after", b"content");
        let (file, _) = block_on(place.clients[opener].open_file(&inode)).unwrap();
        for beat in 0..20_u64 {
            (0..clients).for_each(|client| place.tend(client));
            block_on(file.write(7 + beat, b"!")).unwrap();
            assert_eq!(block_on(file.read(0, 7)).unwrap(), b"content");
            assert_eq!(place.found("/after").inode, inode, "{clients} {opener}");
        }
        drop(file);
        place.settle();
        assert!(place.is_home("/after"), "{clients} {opener}");
        assert_eq!(place.found("/after").size, 27);
        assert!(place.records().is_empty());
    }
}

#[test]
fn who_opens_what_is_about_to_move_keeps_it_where_it_lies() {
    for opener in [0, 1] {
        let place = Place::new(2);
        let inode = place.renamed("/after", b"content");
        place.tend(0);
        assert!(place.found("/after").leaving.is_some());
        // It has nothing open, and says so.
        place.tend(1);
        let (file, _) = block_on(place.clients[opener].open_file(&inode)).unwrap();
        assert_eq!(place.found("/after").leaving, None);
        place.tend(0);
        block_on(file.write(0, b"CON")).unwrap();
        assert_eq!(place.found("/after").inode, inode);
        // Opened and closed again between two beats, it stays as well.
        drop(file);
        place.tend(0);
        assert_eq!(place.found("/after").inode, inode);
        place.settle();
        assert!(place.is_home("/after"));
        assert_eq!(block_on(place.view(1).fetch("/after")).unwrap().1, b"CONtent");
    }
}

#[test]
fn who_fetches_it_meanwhile_is_in_nobodys_way() {
    let place = Place::new(2);
    place.renamed("/after", b"content");
    for _ in 0..3 {
        (0..2).for_each(|client| place.tend(client));
        (0..2).for_each(|client| {
            assert_eq!(block_on(place.view(client).fetch("/after")).unwrap().1, b"content");
        });
    }
    assert!(place.is_home("/after"));
}

#[test]
fn who_was_not_asked_keeps_what_it_has_open() {
    let mut place = Place::new(2);
    let inode = place.renamed("/after", b"content");
    place.tend(0);
    place.tend(1);
    place.come();
    place.tend(0);
    assert_eq!(place.found("/after").inode, inode, "one has come since");
    place.settle();
    assert!(place.is_home("/after"));

    // One of an earlier version does not look for marks.
    let guests = block_on(place.clients[2].guests()).unwrap();
    let earlier = format!("{:x}", guests.last().unwrap());
    block_on(place.keyspace().set_attribute(GUESTS, &earlier, Some(&[]))).unwrap();
    let inode = place.renamed("/other", b"content");
    place.settle();
    assert_eq!(place.found("/other").inode, inode);
    assert_eq!(place.found("/other").leaving, None);
}

#[test]
fn a_mark_of_who_is_gone_is_in_nobodys_way() {
    let mut place = Place::new(2);
    let inode = place.renamed("/after", b"content");
    place.tend(0);
    block_on(place.clients[0].leave()).unwrap();
    drop(place.clients.remove(0));
    assert!(!place.records().is_empty());
    place.tend(0);
    assert!(place.records().is_empty(), "nobody waits for it");
    let (file, metadata) = block_on(place.clients[0].open_file(&inode)).unwrap();
    assert!(metadata.leaving.is_some() && place.found("/after").leaving.is_none());
    drop(file);
    place.come();
    place.settle();
    assert!(place.is_home("/after"));
}

#[test]
fn who_was_removed_for_its_silence_never_sees_another_file() {
    let place = Place::new(2);
    let inode = place.renamed("/after", b"content");
    let (file, _) = block_on(place.clients[1].open_file(&inode)).unwrap();
    block_on(place.clients[0].evict_others()).unwrap();
    place.tend(0);
    place.tend(0);
    assert!(place.is_home("/after"));
    block_on(place.view(0).put("/before", b"another file")).unwrap();
    assert_eq!(place.found("/before").inode.site, inode.site);
    // It has been heard of lately, so nobody asks whether it is a guest.
    for _ in 0..2 {
        assert_eq!(fails(block_on(file.write(0, b"WRONG"))), Errno::ESTALE);
        assert_eq!(fails(block_on(file.append(b"WRONG"))), Errno::ESTALE);
        assert_eq!(fails(block_on(file.truncate(0))), Errno::ESTALE);
    }
    assert_eq!(fails(block_on(place.clients[1].tend(PATIENCE))), Errno::ESTALE);
    assert_eq!(fails(block_on(file.read(0, 100))), Errno::ESTALE);
    assert_eq!(block_on(place.view(0).fetch("/before")).unwrap().1, b"another file");
    assert_eq!(block_on(place.view(0).fetch("/after")).unwrap().1, b"content");
}

#[test]
fn what_is_replaced_while_it_is_open_goes_before_the_new_one_moves() {
    let place = Place::new(2);
    block_on(place.view(0).put("/after", b"old")).unwrap();
    let old = block_on(place.view(1).open("/after", How::READ)).unwrap();
    let new = place.renamed("/after", b"new");
    place.settle();
    assert_eq!(place.found("/after").inode, new);
    assert_eq!(block_on(old.read(0, 10)).unwrap(), b"old");
    drop(old);
    place.settle();
    place.settle();
    assert!(place.is_home("/after"));
    assert_eq!(block_on(place.view(1).fetch("/after")).unwrap().1, b"new");
}

#[test]
fn a_name_that_has_the_former_site_keeps_meaning_what_it_does() {
    let place = Place::new(1);
    place.renamed("/after", b"content");
    // The name whose own site holds it still gets a file, which lies elsewhere.
    block_on(place.view(0).put("/before", b"another")).unwrap();
    let another = place.found("/before").inode;
    assert_ne!(another.site.key(), b"/before");
    place.settle();
    assert!(place.is_home("/after") && place.is_home("/before"));
    assert_eq!(place.found("/before").inode.number, another.number);
    assert_eq!(block_on(place.view(0).fetch("/before")).unwrap().1, b"another");
    assert_eq!(block_on(place.view(0).fetch("/after")).unwrap().1, b"content");

    // Two that have changed places move one after the other, as nothing else is in the way of the first.
    block_on(place.view(0).rename_over("/before", "/after", Over::Exchange)).unwrap();
    place.settle();
    assert_eq!(block_on(place.view(0).fetch("/after")).unwrap().1, b"another");
    assert_eq!(block_on(place.view(0).fetch("/before")).unwrap().1, b"content");
}

#[test]
fn what_is_known_by_its_former_site_is_looked_for_again() {
    let place = Place::new(1);
    let inode = place.renamed("/after", b"content");
    let (files, view) = (&place.clients[0], place.view(0));
    let calls = std::cell::Cell::new(0);
    let work = async |found: &Metadata| {
        calls.set(calls.get() + 1);
        if calls.get() == 1 {
            place.tend(0);
        }
        files.change(&found.inode, &Changes { mode: Some(0o600), ..Changes::default() }).await
    };
    assert_eq!(block_on(view.with("/after", Follow::No, work)).unwrap().mode, 0o600);
    assert_eq!(calls.get(), 2);
    assert_eq!(fails(block_on(files.metadata(&inode))), Errno::ESTALE);
    assert_eq!(fails(block_on(files.open_file(&inode))), Errno::ESTALE);
    assert_eq!(fails(block_on(files.link(&inode, &files.root(), b"linked"))), Errno::ESTALE);
    assert_eq!(fails(block_on(files.set_extended(&inode, b"user.x", Some(b"y"), Put::Any))), Errno::ESTALE);
    assert_eq!(fails(block_on(files.note_access(&inode, Timestamp::now()))), Errno::ESTALE);
    assert!(!files.inner.uses.contains(inode.number), "what could not be opened is not open");
}

/// Something that a client does to what is about to move.
type Does = fn(&View, &Inode);

#[test]
fn whatever_comes_in_between_keeps_it_from_moving_or_happens_afterwards() {
    let chmod: Does = |view, _| {
        let changes = Changes { mode: Some(0o600), ..Changes::default() };
        block_on(view.change("/after", Follow::No, &changes)).unwrap();
    };
    let cut: Does = |view, _| {
        let changes = Changes { size: Some(3), ..Changes::default() };
        block_on(view.change("/after", Follow::No, &changes)).unwrap();
    };
    let all: [Does; 9] = [
        chmod,
        cut,
        |view, _| block_on(view.put("/after", b"written")).unwrap(),
        |view, _| drop(block_on(view.open("/after", How::READ)).unwrap()),
        |view, _| block_on(view.rename("/after", "/again")).unwrap(),
        |view, _| block_on(view.rename("/after", "/before")).unwrap(),
        |view, _| block_on(view.remove_file("/after")).unwrap(),
        |view, _| drop(block_on(view.hard_link("/after", "/linked")).unwrap()),
        |view, _| block_on(view.set_extended("/after", b"user.x", Some(b"y"), Put::Any)).unwrap(),
    ];
    for (place_of, does) in all.into_iter().enumerate() {
        // While the move is under way: it is not committed then.
        let place = Place::new(2);
        let inode = place.renamed("/after", b"content");
        place.tend(0);
        place.tend(1);
        let known = place.clients[0].inner.strays.known.lock()[&inode.number].clone();
        let State::Leaves { mark, .. } = known.state else { panic!("{known:?}") };
        let asked = block_on(place.clients[0].guests()).unwrap();
        let mut transaction = place.store.begin();
        let door = Door::default();
        let moved = place.clients[0].try_bring_home(&mut transaction, &door, &known, mark, &asked);
        assert_eq!(block_on(moved).unwrap(), (Next::Done, true));
        does(&place.view(1), &inode);
        drop(door);
        let outcome = block_on(transaction.commit()).unwrap();
        assert!(matches!(outcome, Outcome::Conflict(_)), "{place_of}: {outcome:?}");

        // After it: it finds what has moved.
        let place = Place::new(2);
        let inode = place.renamed("/after", b"content");
        place.settle();
        assert!(place.is_home("/after"));
        does(&place.view(1), &inode);
        place.settle();
    }
}

#[test]
fn what_nobody_knows_the_end_of_does_not_take_away_what_is_opened_later() {
    let place = Place::new(1);
    block_on(place.view(0).put("/file", b"content")).unwrap();
    let (files, inode) = (&place.clients[0], place.found("/file").inode);
    // Its commit is under way when its client stops waiting.
    let mut transaction = place.store.begin();
    let mut cells = Cells::default();
    let root = files.root();
    let (own, _) = block_on(cells.load_name(&mut transaction, files.keyspace(), &root, b"file")).unwrap();
    cells.name(&own, &root, None);
    let door = Door::default();
    block_on(files.take_name(&mut transaction, &mut cells, &door, &inode)).unwrap();
    drop(door);
    assert!(files.inner.uses.is_doubted(inode.number));
    block_on(cells.write(&mut transaction, files.keyspace())).unwrap();
    let (file, _) = block_on(files.open_file(&inode)).unwrap();
    assert!(matches!(block_on(transaction.commit()).unwrap(), Outcome::Conflict(_)));
    assert_eq!(block_on(file.read(0, 10)).unwrap(), b"content");
    assert!(!files.inner.uses.is_doubted(inode.number), "what was under way is refused now");
    drop(file);
    block_on(place.view(0).remove_file("/file")).unwrap();
    assert!(!files.inner.uses.is_doubted(inode.number), "it is known to be no more");
}

#[test]
fn nothing_moves_while_a_guest_is_there_that_was_not_asked_or_it_is_open_here() {
    let place = Place::new(2);
    let inode = place.renamed("/after", b"content");
    place.tend(0);
    place.tend(1);
    let files = &place.clients[0];
    let known = files.inner.strays.known.lock()[&inode.number].clone();
    let State::Leaves { mark, .. } = known.state else { panic!("{known:?}") };
    let guests = block_on(files.guests()).unwrap();
    let next = |asked: &[u64]| block_on(files.bring_home(&known, mark, asked)).unwrap();
    assert_eq!(next(&guests[..1]), Next::Rests);
    files.inner.uses.add(inode.number);
    assert_eq!(next(&guests), Next::Rests);
    files.inner.uses.remove(inode.number);
    assert_eq!(next(&guests), Next::Done);
    assert!(place.is_home("/after"));
}

#[test]
fn records_go_though_several_guests_have_moved_something() {
    let place = Place::new(2);
    for (client, path) in [(0, "/one"), (1, "/other")] {
        block_on(place.view(client).put("/before", b"content")).unwrap();
        block_on(place.view(client).rename("/before", path)).unwrap();
        // Removed while another guest may have it open.
        block_on(place.view(client).put("/gone", b"content")).unwrap();
        block_on(place.view(client).remove_file("/gone")).unwrap();
    }
    place.settle();
    assert!(place.is_home("/one") && place.is_home("/other"));
    assert_eq!(place.records(), b"", "nobody waits for any of them");
}

#[test]
fn who_is_waited_for_is_not_asked_to_wait_for_what_moves() {
    let place = Place::new(2);
    let inode = place.renamed("/after", b"content");
    let talk = block_on(place.clients[0].speak(Duration::MAX)).unwrap();
    assert!(!place.is_home("/after"), "to speak moves nothing");
    // What was said some time ago will do.
    for _ in 0..3 {
        block_on(place.clients[1].speak(Duration::MAX)).unwrap();
        block_on(place.clients[0].move_strays(&talk)).unwrap();
        assert!(!place.is_home("/after"), "its record came later");
        let stray = place.clients[0].inner.strays.known.lock()[&inode.number].clone();
        assert!(matches!(stray, Stray { tries: 0, state: State::Leaves { .. }, .. }), "it is waited for");
    }
    place.settle();
    assert!(place.is_home("/after"));
}

#[test]
fn orphans_go_though_nothing_can_be_moved() {
    let place = Place::new(2);
    let inode = place.renamed("/after", b"content");
    let damage = block_on(place.keyspace().set_attribute("/after", crate::inode::NAME, Some(b"?")));
    damage.unwrap();
    block_on(place.view(0).put("/gone", b"content")).unwrap();
    let gone = place.found("/gone").inode;
    block_on(place.view(0).remove_file("/gone")).unwrap();
    let strays = &place.clients[0].inner.strays;
    for _ in 0..3 {
        block_on(place.clients[1].speak(Duration::MAX)).unwrap();
        strays.known.lock().get_mut(&inode.number).unwrap().state = State::Rests(0);
        assert_eq!(fails(block_on(place.clients[0].tend(Duration::MAX))), Errno::EIO);
    }
    assert!(!block_on(place.keyspace().exists(&gone.site)).unwrap());
}

#[test]
fn what_a_try_could_not_do_is_not_in_doubt() {
    let place = Place::new(1);
    let files = &place.clients[0];
    block_on(place.view(0).put("/file", b"content")).unwrap();
    let inode = place.found("/file").inode;
    let doubts = |ends: fn(Door, crate::uses::Shut)| {
        ends(Door::default(), files.inner.uses.shut(inode.number).unwrap());
        files.inner.uses.is_doubted(inode.number)
    };
    assert!(!doubts(|door, shut| {
        door.hold(shut);
        door.begin();
    }));
    assert!(!doubts(|door, shut| {
        door.hold(shut);
        let _ = door.end::<()>(Err(Errno::ENOSPC.because("the quota is full")));
    }));
    assert!(doubts(|door, shut| {
        door.hold(shut);
        let _ = door.end::<()>(Err(Errno::EIO.because("nothing is served")));
    }));
    assert!(!doubts(|door, shut| {
        door.hold(shut);
        let _ = door.end(Ok(()));
    }));
}

#[test]
fn what_never_moves_makes_room_for_what_may() {
    let place = Place::new(1);
    let inode = place.renamed("/after", b"content");
    let strays = &place.clients[0].inner.strays;
    let stray = strays.known.lock().remove(&inode.number).unwrap();
    for number in 0..STRAYS_MAX as u64 {
        let tries = if number == 7 { 3 } else { 0 };
        let inode = Inode { number: 1 << 40 | number, ..inode.clone() };
        strays.known.lock().insert(inode.number, Stray { inode, tries, ..stray.clone() });
    }
    assert_eq!(place.found("/after").inode, inode);
    let known = strays.known.lock();
    assert!(known.len() == STRAYS_MAX && known.contains_key(&inode.number));
    assert!(!known.contains_key(&(1 << 40 | 7)), "that was tried most often");
}

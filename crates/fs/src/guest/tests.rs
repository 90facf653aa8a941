#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use pollster::block_on;
use tyr_client::Store;

use super::*;
use crate::{Allocate, Changes, File, inode::Kind, namespace::New};

/// A client that nobody has heard of for long, which has a file open, and another one.
fn silent(place: &tempfile::TempDir) -> ([Filesystem; 2], File) {
    let store = block_on(Store::open(place.path())).unwrap();
    let clients = [0; 2].map(|_| {
        let filesystem = block_on(Filesystem::open_or_create(&store, "files")).unwrap();
        filesystem.tended_by_caller()
    });
    let new = New::of(Kind::File, 0o644);
    let (file, _) = block_on(clients[0].make_file(&clients[0].root(), b"file", &new)).unwrap();
    block_on(file.write(0, b"before")).unwrap();
    let mut state = clients[0].inner.guest.state.lock();
    let me = state.me.as_mut().unwrap();
    me.heard = me.heard.saturating_sub(PATIENCE);
    drop(state);
    (clients, file)
}

#[test]
fn who_was_removed_changes_nothing() {
    type Does = fn(&File) -> Result<()>;
    let changes: [Does; 10] = [
        |file| block_on(file.write(0, b"after")),
        |file| block_on(file.append(b"after")).map(drop),
        |file| block_on(file.truncate(0)),
        |file| block_on(file.change(&Changes { mode: Some(0), ..Changes::default() })).map(drop),
        |file| block_on(file.allocate(Allocate::Keep, 0, 100)),
        |file| block_on(file.allocate(Allocate::Extend, 0, 100)),
        |file| block_on(file.allocate(Allocate::Punch, 0, 3)),
        |file| block_on(file.copy(0, (file, 100), 3)).map(drop),
        |file| block_on(file.sync()),
        |file| block_on(file.confirm()),
    ];
    for does in changes {
        let place = tempfile::tempdir().unwrap();
        let ([here, there], file) = silent(&place);
        block_on(there.evict_others()).unwrap();
        for _ in 0..2 {
            assert_eq!(does(&file).unwrap_err().errno(), Errno::ESTALE);
        }
        assert_eq!(file.confirm_here().unwrap_err().errno(), Errno::ESTALE, "it is known by now");
        let (file, _) = block_on(here.open_file(file.inode())).unwrap();
        assert_eq!(block_on(file.read(0, 100)).unwrap(), b"before");
        block_on(file.write(0, b"BEFORE")).unwrap();
    }
}

#[test]
fn who_comes_when_no_more_guests_can_be_named_is_told_so() {
    let place = tempfile::tempdir().unwrap();
    let ([here, there], file) = silent(&place);
    let fill = |size: usize| {
        let name = format!("{:_>size$}", block_on(here.keyspace().stat(GUESTS)).unwrap().attributes.len());
        block_on(here.keyspace().set_attribute(GUESTS, &name, Some(&[])))
    };
    for size in [255, 16, 1] {
        while fill(size).is_ok() {}
    }
    assert_eq!(block_on(there.open_file(file.inode())).unwrap_err().errno(), Errno::ENFILE);
    block_on(here.open_file(file.inode())).unwrap();
}

#[test]
fn who_holds_more_than_there_is_room_to_say_lets_go_of_nothing_after_that() {
    let place = tempfile::tempdir().unwrap();
    let ([here, _], _file) = silent(&place);
    let record = |number: u64| {
        let inode = Inode { number, kind: Kind::File, site: crate::site::Site::fresh(number) };
        here.inner.uses.add(number);
        (10 * number, inode)
    };
    let last = 1000 + HELD_MAX as u64;
    let mut orphans = Orphans { round: 3, end: 10 * last, records: (1000..last).map(record).collect() };
    let (until, held) = here.held(1, &orphans, HELD_MAX);
    assert_eq!((until, held.len()), (10 * last, HELD_MAX));
    orphans.records.extend((last..last + 100).map(record));
    orphans.end = 10 * (last + 100);
    let (until, held) = here.held(1, &orphans, HELD_MAX);
    assert_eq!((until, held.len()), (10 * (last - 1), HELD_MAX));
    let said = Said { guest: 1, seen: Seen { beat: 1, round: 3, until, held } };
    let is_let_go = |number| crate::orphans::is_let_go(&orphans, [&said], 10 * number, number);
    assert!(!is_let_go(1000) && !is_let_go(last - 1) && !is_let_go(last) && !is_let_go(last + 99));
    // It can be said.
    let value = said.seen.encode();
    let me = here.inner.guest.state.lock().me.unwrap().number;
    block_on(here.keyspace().set_attribute(key(me), SEEN, Some(&value))).unwrap();
    // Once the first ones are let go of, the others are told of.
    (1000..1200).for_each(|number| assert!(here.inner.uses.remove(number)));
    let (until, held) = here.held(1, &orphans, HELD_MAX);
    assert_eq!((until, held.len()), (orphans.end, HELD_MAX - 100));
}

fn me(filesystem: &Filesystem) -> u64 {
    filesystem.inner.guest.state.lock().me.unwrap().number
}

#[test]
fn who_asks_whether_it_is_a_guest_still_needs_no_blob_but_its_own() {
    let place = tempfile::tempdir().unwrap();
    let ([here, _], file) = silent(&place);
    for blob in [GUESTS, crate::orphans::ORPHANS] {
        block_on(here.keyspace().delete(blob)).unwrap();
    }
    block_on(file.confirm()).unwrap();
    assert_eq!(block_on(file.read(0, 100)).unwrap(), b"before");
    assert!(here.is_surely_guest(me(&here)).unwrap(), "it was heard");
}

#[test]
fn who_cannot_read_what_is_recorded_says_again_what_it_said_last() {
    let place = tempfile::tempdir().unwrap();
    let ([here, _], _file) = silent(&place);
    let said = || {
        let value = block_on(here.keyspace().attribute(key(me(&here)), SEEN)).unwrap().unwrap();
        Seen::decode(&value)
    };
    block_on(here.unlink(&here.root(), b"file")).unwrap();
    block_on(here.speak(Duration::MAX)).unwrap();
    let before = said();
    assert!(before.until > 0);
    block_on(here.keyspace().delete(crate::orphans::ORPHANS)).unwrap();
    block_on(here.speak(Duration::MAX)).unwrap_err();
    assert_eq!(said(), Seen { beat: before.beat + 1, ..before });
}

#[test]
fn who_has_no_room_to_say_all_that_it_holds_says_as_much_as_it_said_last() {
    let place = tempfile::tempdir().unwrap();
    let ([here, _], _file) = silent(&place);
    let said = || {
        let value = block_on(here.keyspace().attribute(key(me(&here)), SEEN)).unwrap().unwrap();
        (value.len(), Seen::decode(&value))
    };
    assert_eq!(said().0, SAID_LEAST);
    let most = Seen::held_max(SAID_LEAST);
    let new = New::of(Kind::File, 0o644);
    let open: Vec<File> = (0..most + 9)
        .map(|number| {
            let name = format!("held{number}");
            let (file, _) = block_on(here.make_file(&here.root(), name.as_bytes(), &new)).unwrap();
            block_on(here.unlink(&here.root(), name.as_bytes())).unwrap();
            file
        })
        .collect();
    let mut filled = 0;
    for size in [4096, 256, 16, 0] {
        let fill = |count| {
            let name = format!("filled {count}");
            block_on(here.keyspace().set_attribute(key(me(&here)), &name, Some(&vec![0; size])))
        };
        while fill(filled).is_ok() {
            filled += 1;
        }
    }
    let orphans = block_on(here.orphans(here.keyspace())).unwrap();
    for _ in 0..2 {
        block_on(here.speak(Duration::MAX)).unwrap();
        let (size, word) = said();
        assert_eq!((Seen::held_max(size), word.held.len()), (most, most));
        assert_eq!(word.until, orphans.records[most - 1].0, "of what comes after that it says nothing");
        assert!(here.is_surely_guest(me(&here)).unwrap());
    }
    block_on(open[0].confirm()).unwrap();
    // Once there is room it says all of it, and with less to say it takes less.
    block_on(here.keyspace().set_attribute(key(me(&here)), "filled 0", None)).unwrap();
    block_on(here.speak(Duration::MAX)).unwrap();
    assert_eq!((said().1.until, said().1.held.len()), (orphans.end, most + 9));
    drop(open);
    block_on(here.speak(Duration::MAX)).unwrap();
    assert_eq!((Seen::held_max(said().0), said().1.held.len()), (most, 0));
}

#[test]
fn what_could_not_be_written_is_a_hole() {
    let place = tempfile::tempdir().unwrap();
    let ([here, there], file) = silent(&place);
    block_on(there.evict_others()).unwrap();
    block_on(file.write(6, b"nothing")).unwrap_err();
    let (anew, _) = block_on(here.open_file(file.inode())).unwrap();
    block_on(anew.write(10, b"after")).unwrap();
    let metadata = block_on(anew.metadata()).unwrap();
    assert_eq!((metadata.size, metadata.data_size), (15, 11));
}

#[test]
fn who_is_only_late_goes_on() {
    let place = tempfile::tempdir().unwrap();
    let ([_, there], file) = silent(&place);
    block_on(file.write(0, b"BEFORE")).unwrap();
    block_on(file.append(b" and after")).unwrap();
    let (seen, _) = block_on(there.open_file(file.inode())).unwrap();
    assert_eq!(block_on(seen.read(0, 100)).unwrap(), b"BEFORE and after");
}

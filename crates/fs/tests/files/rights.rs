//! What the owner of a file or directory alone may do, and what others take from it.

use pollster::block_on;
use tyr_client::Store;
use tyr_fs::{Caller, Changes, Errno, Filesystem, Follow, How, Over, View};

fn views(store: &Store) -> [View; 2] {
    let files = block_on(Filesystem::open_or_create(store, "files")).unwrap();
    let other = Caller { uid: 1000, gid: 1000, groups: Vec::new() };
    [Caller::superuser(), other].map(|caller| View::new(files.clone(), caller))
}

fn mode(view: &View, path: &str) -> u32 {
    block_on(view.metadata(path, Follow::Yes)).unwrap().mode
}

#[test]
fn who_does_not_own_a_file_does_not_even_give_it_to_who_has_it() {
    let place = tempfile::tempdir().unwrap();
    let [all, other] = views(&block_on(Store::open(place.path())).unwrap());
    block_on(all.put("/tool", b"x")).unwrap();
    let set = Changes { mode: Some(0o4755), ..Changes::default() };
    block_on(all.change("/tool", Follow::Yes, &set)).unwrap();
    for changes in [
        Changes { uid: Some(0), ..Changes::default() },
        Changes { gid: Some(0), ..Changes::default() },
        Changes { uid: Some(0), gid: Some(0), ..Changes::default() },
    ] {
        let refused = block_on(other.change("/tool", Follow::Yes, &changes)).unwrap_err();
        assert_eq!((refused.errno(), mode(&all, "/tool")), (Errno::EPERM, 0o4755));
    }
}

#[test]
fn a_file_that_gets_another_owner_loses_its_rights_whoever_gives_it() {
    let place = tempfile::tempdir().unwrap();
    let [all, _] = views(&block_on(Store::open(place.path())).unwrap());
    block_on(all.put("/tool", b"x")).unwrap();
    block_on(all.create_directory("/group", 0o755)).unwrap();
    let change = |path: &str, changes: Changes| {
        block_on(all.change(path, Follow::Yes, &changes)).unwrap();
    };
    let set = |path, mode| change(path, Changes { mode: Some(mode), ..Changes::default() });
    for (changes, before, after) in [
        (Changes { uid: Some(1000), ..Changes::default() }, 0o4755, 0o755),
        (Changes { gid: Some(1000), ..Changes::default() }, 0o6755, 0o755),
        // What its group may not execute means something else by this.
        (Changes { uid: Some(1000), ..Changes::default() }, 0o6745, 0o2745),
        (Changes { uid: Some(1000), ..Changes::default() }, 0o1644, 0o1644),
        (Changes::default(), 0o6755, 0o6755),
        (Changes { size: Some(0), ..Changes::default() }, 0o6755, 0o6755),
    ] {
        set("/tool", before);
        change("/tool", changes.clone());
        assert_eq!(mode(&all, "/tool"), after, "{before:o} {changes:?}");
    }
    set("/group", 0o6755);
    change("/group", Changes { uid: Some(1000), gid: Some(1000), ..Changes::default() });
    assert_eq!(mode(&all, "/group"), 0o6755);
}

#[test]
fn rights_go_that_were_given_while_a_file_was_open() {
    let place = tempfile::tempdir().unwrap();
    let [all, other] = views(&block_on(Store::open(place.path())).unwrap());
    block_on(all.put("/tool", b"x")).unwrap();
    let set = |mode| {
        let changes = Changes { mode: Some(mode), ..Changes::default() };
        block_on(all.change("/tool", Follow::Yes, &changes)).unwrap();
    };
    set(0o666);
    let file = block_on(other.open("/tool", How::WRITE)).unwrap();
    block_on(file.drop_privileges()).unwrap();
    set(0o6777);
    block_on(file.drop_privileges()).unwrap();
    assert_eq!(mode(&all, "/tool"), 0o777);
}

#[test]
fn who_moves_a_directory_elsewhere_may_write_to_it() {
    let place = tempfile::tempdir().unwrap();
    let [all, other] = views(&block_on(Store::open(place.path())).unwrap());
    let open = Changes { mode: Some(0o777), ..Changes::default() };
    for directory in ["/from", "/to"] {
        block_on(all.create_directory(directory, 0o777)).unwrap();
        block_on(all.change(directory, Follow::Yes, &open)).unwrap();
    }
    block_on(all.create_directory("/from/closed", 0o755)).unwrap();
    block_on(other.create_directory("/to/own", 0o755)).unwrap();
    for (from, to, over) in [
        ("/from/closed", "/to/closed", Over::Replace),
        ("/to/own", "/from/closed", Over::Exchange),
        ("/from/closed", "/to/own", Over::Exchange),
    ] {
        assert_eq!(block_on(other.rename_over(from, to, over)).unwrap_err().errno(), Errno::EACCES, "{to}");
    }
    // Where it stays in its directory nothing changes in it.
    block_on(other.rename("/from/closed", "/from/other")).unwrap();
    block_on(other.rename("/to/own", "/from/own")).unwrap();
}

#[test]
fn directories_are_not_removed_by_names_that_they_all_have() {
    let place = tempfile::tempdir().unwrap();
    let [all, _] = views(&block_on(Store::open(place.path())).unwrap());
    block_on(all.create_directory("/a", 0o755)).unwrap();
    let remove = |path: &str| block_on(all.remove_directory(path)).unwrap_err().errno();
    assert_eq!(
        [remove("/a/."), remove("/a/./"), remove("/a/.."), remove("/")],
        [Errno::EINVAL, Errno::EINVAL, Errno::ENOTEMPTY, Errno::EBUSY]
    );
}

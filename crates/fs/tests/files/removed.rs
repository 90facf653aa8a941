//! Directories that were removed, and another one made in their place.

use pollster::block_on;
use tyr_client::Store;
use tyr_fs::{Caller, Errno, Filesystem, Follow, How, Inode, Kind, Named, New, Over, Result, View};

fn fails<T>(result: Result<T>) -> Errno {
    result.map(drop).unwrap_err().errno()
}

#[test]
fn a_removed_directory_stays_empty_when_another_one_takes_its_place() {
    let place = tempfile::tempdir().unwrap();
    let store = block_on(Store::open(place.path())).unwrap();
    let files = block_on(Filesystem::open_or_create(&store, "files")).unwrap();
    let view = View::new(files.clone(), Caller::superuser());
    let inode = |path: &str| -> Inode { block_on(view.metadata(path, Follow::Yes)).unwrap().inode };

    block_on(view.create_directory("/place", 0o755)).unwrap();
    let removed = inode("/place");
    block_on(view.remove_directory("/place")).unwrap();
    block_on(view.create_directory("/place", 0o755)).unwrap();
    block_on(view.put("/place/name", b"content")).unwrap();
    block_on(view.put("/other", b"")).unwrap();
    let (taken, other) = (inode("/place"), inode("/other"));
    assert_eq!(taken.site, removed.site);
    assert_ne!(taken, removed);

    assert_eq!(fails(block_on(files.lookup(&removed, b"name"))), Errno::ENOENT);
    assert_eq!(block_on(files.lookup_all(&removed, &[b"name", b"none"])).unwrap(), [None, None]);
    assert!(block_on(files.list(&removed)).unwrap().is_empty());
    let new = New::of(Kind::File, 0o644);
    for name in [b"name".as_slice(), b"new"] {
        assert_eq!(fails(block_on(files.make(&removed, name, &new))), Errno::ENOENT);
        assert_eq!(fails(block_on(files.link(&other, &removed, name))), Errno::ENOENT);
        assert_eq!(fails(block_on(files.unlink(&removed, name))), Errno::ENOENT);
        assert_eq!(fails(block_on(files.remove_directory(&removed, name))), Errno::ENOENT);
        let (gone, root) = (Named { directory: &removed, name }, files.root());
        let kept = Named { directory: &root, name: b"other" };
        for over in [Over::Replace, Over::Refuse, Over::Exchange] {
            assert_eq!(fails(block_on(files.rename(gone, kept, over))), Errno::ENOENT);
            assert_eq!(fails(block_on(files.rename(kept, gone, over))), Errno::ENOENT);
        }
    }

    // What is there now is as it was, by each way to it.
    assert_eq!(block_on(files.lookup(&taken, b"name")).unwrap().size, 7);
    assert_eq!(block_on(view.fetch("/place/name")).unwrap().1, b"content");
    block_on(view.rename("/place/name", "/name")).unwrap();
    block_on(view.rename("/name", "/place/again")).unwrap();
    assert_eq!(block_on(view.fetch("/place/again")).unwrap().1, b"content");
    assert_eq!(fails(block_on(view.open("/place/name", How::READ))), Errno::ENOENT);
}

#[test]
fn a_directory_in_which_names_come_and_go_stays_small_though_nobody_lists_it() {
    let place = tempfile::tempdir().unwrap();
    let store = block_on(Store::open(place.path())).unwrap();
    let files = block_on(Filesystem::open_or_create(&store, "files")).unwrap();
    let view = View::new(files, Caller::superuser());
    block_on(view.create_directory("/spool", 0o755)).unwrap();
    block_on(view.create_directory("/done", 0o755)).unwrap();
    let size = |path: &str| {
        let site = block_on(view.metadata(path, Follow::Yes)).unwrap().inode.site;
        block_on(store.keyspace("files").unwrap().stat(&site)).unwrap().size
    };
    let record = 2 + 8 + "number-000".len() as u64;
    for number in 0..600 {
        block_on(view.put(&format!("/spool/number-{number:03}"), b"")).unwrap();
        match number % 2 {
            0 => block_on(view.remove_file(format!("/spool/number-{number:03}"))).unwrap(),
            _ => block_on(
                view.rename(format!("/spool/number-{number:03}"), format!("/done/number-{:03}", number % 4)),
            )
            .unwrap(),
        }
        assert!(size("/spool") <= 16 + 2 * 257 * record, "{number}: {}", size("/spool"));
    }
    assert!(size("/spool") < 16 + 600 * record);
}

#[test]
fn a_directory_in_which_names_are_replaced_from_another_stays_small_though_nobody_lists_it() {
    let place = tempfile::tempdir().unwrap();
    let store = block_on(Store::open(place.path())).unwrap();
    let files = block_on(Filesystem::open_or_create(&store, "files")).unwrap();
    let view = View::new(files, Caller::superuser());
    block_on(view.create_directory("/new", 0o755)).unwrap();
    block_on(view.create_directory("/kept", 0o755)).unwrap();
    let record = 2 + 8 + "state".len() as u64;
    for number in 0..600 {
        block_on(view.put("/new/state", format!("{number}").as_bytes())).unwrap();
        block_on(view.rename("/new/state", "/kept/state")).unwrap();
        let site = block_on(view.metadata("/kept", Follow::Yes)).unwrap().inode.site;
        let size = block_on(store.keyspace("files").unwrap().stat(&site)).unwrap().size;
        assert!(size < 300 * record, "{size} bytes for one name, {number} replacements");
    }
    assert_eq!(block_on(view.fetch("/kept/state")).unwrap().1, b"599");
}

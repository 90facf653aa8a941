//! Flat keyspaces, in a directory: any blob is a file, and nothing but the file itself is asked for.

use pollster::block_on;
use tyr_client::{Keyspace, KeyspaceSettings, Outcome, Store};
use tyr_fs::{
    Caller, Errno, File, Filesystem, Flat, Follow, How, Inode, Kind, Named, New, Over, Put, Result, View,
    site::Site,
};

struct Place {
    _directory: tempfile::TempDir,
    store: Store,
    keyspace: Keyspace,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = block_on(Store::open(directory.path())).unwrap();
        let keyspace = block_on(store.create_keyspace("flat", KeyspaceSettings::default())).unwrap();
        Place { _directory: directory, store, keyspace }
    }

    fn view(&self, flat: Flat) -> View {
        let filesystem = block_on(Filesystem::open_flat(&self.store, &self.keyspace, flat)).unwrap();
        View::new(filesystem, Caller { uid: 7, gid: 8, groups: Vec::new() })
    }

    fn keys(&self) -> Vec<String> {
        let found = block_on(self.keyspace.scan([], None, 100)).unwrap();
        found.iter().map(|found| String::from_utf8(found.key.as_ref().to_vec()).unwrap()).collect()
    }
}

fn names(view: &View, path: &str) -> Vec<(String, Kind)> {
    let entries = block_on(view.read_directory(path)).unwrap();
    entries.into_iter().map(|entry| (String::from_utf8(entry.name).unwrap(), entry.kind)).collect()
}

fn fails<T>(result: Result<T>) -> Errno {
    result.map(drop).unwrap_err().errno()
}

#[test]
fn the_path_is_the_key_and_nothing_else_is_written() {
    let place = Place::new();
    let view = place.view(Flat::Slashes);
    let file = block_on(view.open("/run/7/out.dat", How::CREATE)).unwrap();
    block_on(file.write(3, b"abc")).unwrap();
    assert_eq!(place.keys(), ["run/7/out.dat"]);
    assert_eq!(block_on(place.keyspace.read("run/7/out.dat", ..)).unwrap(), b"\0\0\0abc");
    let found = block_on(view.metadata("run/./8/../7/out.dat", Follow::Yes)).unwrap();
    assert_eq!((found.size, found.mode, found.uid, found.gid), (6, 0o644, 7, 8));
    assert!(found.modified.seconds > 0);
    assert_eq!(fails(block_on(view.open("run/7/out.dat", How::NEW))), Errno::EEXIST);
    assert_eq!(fails(block_on(view.open("run/7", How::READ))), Errno::EISDIR);
    assert_eq!(fails(block_on(view.open("run/8", How::READ))), Errno::ENOENT);
    assert_eq!(block_on(file.append(b"def")).unwrap(), 6);
    let masked = block_on(view.clone().masked(0o037).open("run/7/masked", How::NEW)).unwrap();
    assert_eq!(block_on(masked.metadata()).unwrap().mode, 0o640);
    block_on(view.remove_file("run/7/masked")).unwrap();
    assert_eq!(block_on(view.fetch("run/7/out.dat")).unwrap().1, b"\0\0\0abcdef");
    block_on(view.remove_file("run/7/out.dat")).unwrap();
    assert!(place.keys().is_empty());
    // What was removed is not made again by who has it open.
    assert_eq!(fails(block_on(file.write(0, b"x"))), Errno::ESTALE);
    assert_eq!(fails(block_on(file.read(0, 1))), Errno::ESTALE);
    assert!(place.keys().is_empty());
}

#[test]
fn blobs_of_others_are_files_and_keys_make_directories() {
    let place = Place::new();
    let view = place.view(Flat::Slashes);
    for key in ["a", "b/one", "b/two/x", "b/two/y", "c//odd", "/odd"] {
        block_on(place.keyspace.put(key, key.as_bytes())).unwrap();
    }
    let (file, directory) = (Kind::File, Kind::Directory);
    let expected = [("a", file), ("b", directory), ("c", directory)];
    assert_eq!(names(&view, "/"), expected.map(|(name, kind)| (name.to_owned(), kind)));
    assert_eq!(names(&view, "/b"), [("one".to_owned(), file), ("two".to_owned(), directory)]);
    assert_eq!(block_on(view.fetch("/b/two/y")).unwrap().1, b"b/two/y");
    let found = block_on(view.metadata("/b/two", Follow::Yes)).unwrap();
    assert_eq!((found.inode.kind, found.mode), (directory, 0o777));
    let listed = block_on(view.read_directory("/b")).unwrap();
    assert_eq!(listed[1].number, found.inode.number);

    block_on(view.create_directory("/b/empty", 0o755)).unwrap();
    assert_eq!(fails(block_on(view.create_directory("/b/empty", 0o755))), Errno::EEXIST);
    assert_eq!(fails(block_on(view.create_directory("/b/two", 0o755))), Errno::EEXIST);
    assert_eq!(fails(block_on(view.create_directory("/a", 0o755))), Errno::EEXIST);
    assert!(names(&view, "/b/empty").is_empty());
    assert_eq!(names(&view, "/b").len(), 3);
    assert_eq!(fails(block_on(view.remove_directory("/b"))), Errno::ENOTEMPTY);
    assert_eq!(fails(block_on(view.remove_directory("/a"))), Errno::ENOTDIR);
    block_on(view.remove_directory("/none")).unwrap();
    assert_eq!(fails(block_on(view.remove_file("/b"))), Errno::EISDIR);
    block_on(view.remove_directory("/b/empty")).unwrap();
    assert_eq!(fails(block_on(view.metadata("/b/empty", Follow::Yes))), Errno::ENOENT);
}

#[test]
fn files_are_renamed_and_changed_and_what_cannot_be_is_refused() {
    let place = Place::new();
    let view = place.view(Flat::Slashes);
    block_on(view.put("/tmp/1", b"first")).unwrap();
    block_on(view.put("/final", b"old")).unwrap();
    block_on(view.set_extended("/tmp/1", b"user.step", Some(b"9"), Put::Any)).unwrap();
    assert_eq!(fails(block_on(view.rename_over("/tmp/1", "/final", Over::Refuse))), Errno::EEXIST);
    block_on(view.rename("/tmp/1", "/final")).unwrap();
    assert_eq!(place.keys(), ["final"]);
    let (found, content) = block_on(view.fetch("/final")).unwrap();
    assert_eq!((found.uid, content.as_slice()), (7, b"first".as_slice()));
    assert_eq!(block_on(view.filesystem().extended(&found.inode, b"user.step")).unwrap(), b"9");
    assert_eq!(fails(block_on(view.rename("/tmp/1", "/x"))), Errno::ENOENT);
    block_on(view.put("/d/x", b"")).unwrap();
    assert_eq!(fails(block_on(view.rename("/d", "/e"))), Errno::EXDEV);
    let grown = tyr_fs::Changes { size: Some((64 << 20) + 1), ..tyr_fs::Changes::default() };
    block_on(view.change("/d/x", Follow::Yes, &grown)).unwrap();
    assert_eq!(fails(block_on(view.rename("/d/x", "/y"))), Errno::EXDEV);
    block_on(view.rename("/d/x", "/d/x")).unwrap();
    let changes = tyr_fs::Changes { mode: Some(0o400), size: Some(2), ..tyr_fs::Changes::default() };
    let found = block_on(view.change("/final", Follow::Yes, &changes)).unwrap();
    assert_eq!((found.mode, found.size, found.uid), (0o400, 2, 7));
    assert_eq!(fails(block_on(view.open("/final", How::WRITE))), Errno::EACCES);
    assert_eq!(fails(block_on(view.symlink("x", "/soft"))), Errno::EPERM);
    assert_eq!(fails(block_on(view.hard_link("/final", "/hard"))), Errno::EPERM);
    let owner = tyr_fs::Owner { of_ranges: true, number: 1, process: 1 };
    let lock = tyr_fs::Lock { kind: tyr_fs::LockKind::Exclusive, start: 0, end: 1 };
    assert_eq!(fails(block_on(view.filesystem().lock(&found.inode, owner, lock))), Errno::ENOLCK);
}

#[test]
fn what_is_written_after_a_change_counts_as_changed_then() {
    let place = Place::new();
    let view = place.view(Flat::Slashes);
    block_on(view.put("/file", b"content")).unwrap();
    let changes = tyr_fs::Changes { mode: Some(0o600), ..tyr_fs::Changes::default() };
    let before = block_on(view.change("/file", Follow::Yes, &changes)).unwrap();
    let file = block_on(view.open("/file", How::WRITE)).unwrap();
    let writes: [fn(&File) -> Result<()>; 2] =
        [|file| block_on(file.write(0, b"C")), |file| block_on(file.append(b"s")).map(drop)];
    for write in writes {
        write(&file).unwrap();
        let after = block_on(file.metadata()).unwrap();
        assert!(after.changed > before.changed && after.changed == after.modified, "{after:?}");
        assert_eq!(after.mode, 0o600);
        block_on(view.change("/file", Follow::Yes, &changes)).unwrap();
    }
}

#[test]
fn underscores_stand_for_slashes_if_that_is_asked_for() {
    let place = Place::new();
    let view = place.view(Flat::Underscores);
    block_on(view.put("/run/out", b"1")).unwrap();
    assert_eq!(place.keys(), ["run_out"]);
    assert_eq!(block_on(view.fetch("/run_out")).unwrap().1, b"1");
    assert_eq!(names(&view, "/run"), [("out".to_owned(), Kind::File)]);
}

#[test]
fn names_whose_parts_would_be_empty_are_refused_where_underscores_stand_for_slashes() {
    let place = Place::new();
    let view = place.view(Flat::Underscores);
    block_on(view.create_directory("/y", 0o755)).unwrap();
    block_on(view.put("/x", b"1")).unwrap();
    for name in ["/_a", "/a_", "/a__b", "/y_", "/_"] {
        assert_eq!(fails(block_on(view.open(name, How::CREATE))), Errno::EINVAL, "{name}");
        assert_eq!(fails(block_on(view.put(name, b"1"))), Errno::EINVAL, "{name}");
        assert_eq!(fails(block_on(view.create_directory(name, 0o755))), Errno::EINVAL, "{name}");
        assert_eq!(fails(block_on(view.rename("/x", name))), Errno::EINVAL, "{name}");
        assert_eq!(fails(block_on(view.metadata(name, Follow::Yes))), Errno::ENOENT, "{name}");
        assert_eq!(fails(block_on(view.open(name, How::READ))), Errno::ENOENT, "{name}");
        assert_eq!(fails(block_on(view.fetch(name))), Errno::ENOENT, "{name}");
        assert_eq!(fails(block_on(view.remove_file(name))), Errno::ENOENT, "{name}");
        assert_eq!(fails(block_on(view.remove_directory(name))), Errno::ENOENT, "{name}");
        assert_eq!(fails(block_on(view.rename(name, "/x"))), Errno::ENOENT, "{name}");
        let below = format!("{name}/x");
        assert_eq!(fails(block_on(view.open(&below, How::CREATE))), Errno::ENOENT, "{name}");
    }
    assert_eq!(place.keys(), ["x", "y_"]);
    // Where slashes are slashes they are names as others are.
    let view = Place::new().view(Flat::Slashes);
    block_on(view.put("/__init__.py", b"1")).unwrap();
    assert_eq!(names(&view, "/"), [("__init__.py".to_owned(), Kind::File)]);
}

#[test]
fn a_file_system_is_not_flat() {
    let place = Place::new();
    block_on(Filesystem::create(&place.store, &place.keyspace)).unwrap();
    let opened = block_on(Filesystem::open_flat(&place.store, &place.keyspace, Flat::Slashes));
    assert_eq!(opened.unwrap_err().errno(), Errno::EINVAL);
}

#[test]
fn no_file_is_made_that_would_have_the_keyspace_taken_for_a_file_system() {
    for flat in [Flat::Slashes, Flat::Underscores] {
        let place = Place::new();
        let view = place.view(flat);
        let (files, root) = (view.filesystem().clone(), view.filesystem().root());
        block_on(view.put("/file", b"content")).unwrap();
        let file = New::of(Kind::File, 0o644);
        for errno in [
            fails(block_on(files.make(&root, b"!format", &file))),
            fails(block_on(files.make_file(&root, b"!format", &file))),
            fails(block_on(view.open("/!format", How::CREATE))),
            fails(block_on(view.open("/x/../!format", How::NEW))),
            fails(block_on(view.put("/!format", b"tyr-fs 1\n"))),
            fails(block_on(view.rename("/file", "/!format"))),
        ] {
            assert_eq!(errno, Errno::EINVAL);
        }
        assert_eq!(place.keys(), ["file"]);
        block_on(Filesystem::open_flat(&place.store, &place.keyspace, flat)).unwrap();
        // Elsewhere it is a name as others are.
        block_on(view.put("/x/!format", b"content")).unwrap();
        assert_eq!(place.keys().len(), 2);
    }
}

#[test]
fn a_listing_passes_over_what_lies_deeper() {
    let place = Place::new();
    let view = place.view(Flat::Slashes);
    let mut transaction = place.store.begin();
    // More below a directory than is asked for at once, and what comes right after it.
    for number in 0..2_500 {
        block_on(transaction.create(&place.keyspace, format!("top/many/{number:04}/file"))).unwrap();
    }
    for key in ["top/many0", "top/many.", "top/last/\u{fffd}", "top/zz"] {
        block_on(transaction.create(&place.keyspace, key)).unwrap();
    }
    assert!(matches!(block_on(transaction.commit()).unwrap(), Outcome::Committed(_)));
    let listed = |path| names(&view, path).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert_eq!(listed("top"), ["last", "many", "many.", "many0", "zz"]);
    assert_eq!(listed("top/many").len(), 2_500);
    assert_eq!(listed("/"), ["top"]);
}

#[test]
fn a_file_is_known_by_whatever_number_it_is_asked_for() {
    let place = Place::new();
    let files = place.view(Flat::Slashes).filesystem().clone();
    for (key, kind) in [("file", Kind::File), ("directory", Kind::Directory)] {
        block_on(files.make(&files.root(), key.as_bytes(), &New::of(kind, 0o644))).unwrap();
        let found = block_on(files.lookup(&files.root(), key.as_bytes())).unwrap().inode;
        let asked = Inode { number: 17, ..found };
        assert_eq!(block_on(files.metadata(&asked)).unwrap().inode, asked);
        if kind == Kind::File {
            let (file, opened) = block_on(files.open_file(&asked)).unwrap();
            assert_eq!((file.inode(), &opened.inode), (&asked, &asked));
        }
    }
}

#[test]
fn a_path_that_is_longer_than_keys_are_is_refused_as_too_long() {
    let place = Place::new();
    let files = place.view(Flat::Slashes).filesystem().clone();
    let deep = vec!["d".repeat(99); 40].join("/") + "/" + &"e".repeat(90);
    let directory = Inode { number: 9, kind: Kind::Directory, site: Site::from_key(deep.as_bytes()) };
    let left = 4096 - deep.len() - 1;
    let (fits, longer) = ("f".repeat(left).into_bytes(), "f".repeat(left + 1).into_bytes());
    let lookup = |name: &[u8]| block_on(files.lookup(&directory, name)).map_err(|error| error.errno());
    assert_eq!(lookup(&fits).unwrap_err(), Errno::ENOENT);
    let file = New::of(Kind::File, 0o644);
    block_on(files.make(&directory, &fits, &file)).unwrap();
    assert_eq!(lookup(&fits).unwrap().inode.kind, Kind::File);
    let refusal = |result: Result<()>| result.unwrap_err().errno();
    let named = |name| Named { directory: &directory, name };
    for errno in [
        lookup(&longer).unwrap_err(),
        refusal(block_on(files.lookup_all(&directory, &[&longer])).map(drop)),
        refusal(block_on(files.make(&directory, &longer, &file)).map(drop)),
        refusal(block_on(files.unlink(&directory, &longer)).map(drop)),
        refusal(block_on(files.rename(named(&fits), named(&longer), Over::Replace)).map(drop)),
    ] {
        assert_eq!(errno, Errno::ENAMETOOLONG);
    }
    block_on(files.unlink(&directory, &fits)).unwrap();
    // The key of a directory that is made has a slash at its end.
    assert_eq!(
        refusal(block_on(files.make(&directory, &fits, &New::of(Kind::Directory, 0o755))).map(drop)),
        Errno::ENAMETOOLONG
    );
    assert_eq!(refusal(block_on(files.remove_directory(&directory, &fits))), Errno::ENOENT);
}

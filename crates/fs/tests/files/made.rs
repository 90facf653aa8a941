//! What is told of something when it is made.

use pollster::block_on;
use tyr_client::Store;
use tyr_fs::{Errno, Filesystem, Kind, Named, New, Over, Timestamp};

#[test]
fn what_is_made_is_told_as_it_is_found() {
    let place = tempfile::tempdir().unwrap();
    let store = block_on(Store::open(place.path())).unwrap();
    let files = block_on(Filesystem::open_or_create(&store, "files")).unwrap();
    let mut news: Vec<New> =
        [Kind::File, Kind::Directory, Kind::Pipe].map(|kind| New::of(kind, 0o751)).into();
    news.push(New::symlink(b"somewhere"));
    news.push(New { content: b"content".to_vec(), ..New::of(Kind::File, 0o600).owned(7, 8) });
    for (number, new) in news.iter().enumerate() {
        let name = number.to_string();
        let made = block_on(files.make(&files.root(), name.as_bytes(), new)).unwrap();
        assert_eq!(made, block_on(files.lookup(&files.root(), name.as_bytes())).unwrap(), "{new:?}");
    }
}

#[test]
fn what_is_made_is_as_old_as_who_makes_it_says() {
    let place = tempfile::tempdir().unwrap();
    let store = block_on(Store::open(place.path())).unwrap();
    let files = block_on(Filesystem::open_or_create(&store, "files")).unwrap();
    let before = Timestamp::now();
    let made = Timestamp { seconds: before.seconds - 7, nanoseconds: 1 };
    let new = New { made: Some(made), ..New::of(Kind::File, 0o644) };
    let told = block_on(files.make(&files.root(), b"made", &new)).unwrap();
    assert_eq!([told.accessed, told.modified, told.changed], [made; 3]);
    let directory = block_on(files.metadata(&files.root())).unwrap();
    assert!(directory.modified >= before, "that changes now");
    let coarse = Timestamp::of_kernel();
    assert!(coarse <= Timestamp::now() && coarse.seconds >= before.seconds - 1);
}

#[test]
fn what_is_replaced_is_told_as_it_was() {
    let place = tempfile::tempdir().unwrap();
    let store = block_on(Store::open(place.path())).unwrap();
    let files = block_on(Filesystem::open_or_create(&store, "files")).unwrap();
    let root = files.root();
    let make = |name: &[u8], kind| block_on(files.make(&root, name, &New::of(kind, 0o644))).unwrap();
    let named = |name| Named { directory: &root, name };
    let one = make(b"one", Kind::File).inode;
    for kind in [Kind::Pipe, Kind::File] {
        let other = make(b"other", kind);
        let done = block_on(files.rename(named(b"one"), named(b"other"), Over::Replace)).unwrap();
        assert_eq!((done.inode, done.back), (Some(one.clone()), None));
        assert_eq!(done.replaced, Some(other));
        let done = block_on(files.rename(named(b"other"), named(b"one"), Over::Replace)).unwrap();
        assert_eq!(done.replaced, None);
    }
    let other = make(b"other", Kind::Pipe);
    let done = block_on(files.rename(named(b"one"), named(b"other"), Over::Exchange)).unwrap();
    assert_eq!((done.back, done.replaced), (Some(other.inode), None));
}

#[test]
fn no_file_grows_beyond_the_largest_size() {
    let place = tempfile::tempdir().unwrap();
    let store = block_on(Store::open(place.path())).unwrap();
    let files = block_on(Filesystem::open_or_create(&store, "files")).unwrap();
    let (file, _) = block_on(files.make_file(&files.root(), b"file", &New::of(Kind::File, 0o644))).unwrap();
    let largest = i64::MAX as u64;
    block_on(file.truncate(largest - 1)).unwrap();
    assert_eq!(block_on(file.append(b"two")).unwrap_err().errno(), Errno::EFBIG);
    assert_eq!(block_on(file.append(b"1")).unwrap(), largest - 1);
    assert_eq!(block_on(file.append(b"1")).unwrap_err().errno(), Errno::EFBIG);
    assert_eq!(block_on(file.write(largest, b"1")).unwrap_err().errno(), Errno::EFBIG);
}

#[test]
fn no_access_is_noted_that_was_before_one_that_is() {
    let place = tempfile::tempdir().unwrap();
    let store = block_on(Store::open(place.path())).unwrap();
    let files = block_on(Filesystem::open_or_create(&store, "files")).unwrap();
    let made = block_on(files.make(&files.root(), b"file", &New::of(Kind::File, 0o644))).unwrap();
    let seconds = made.changed.seconds;
    for (access, noted) in [(10, 10), (5, 10), (20, 20)] {
        let access = Timestamp { seconds: seconds + access, nanoseconds: 0 };
        block_on(files.note_access(&made.inode, access)).unwrap();
        assert_eq!(block_on(files.metadata(&made.inode)).unwrap().accessed.seconds, seconds + noted);
    }
}

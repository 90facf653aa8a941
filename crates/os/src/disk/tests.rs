use std::{any::Any, os::unix::fs::PermissionsExt as _};

use rustix::mount::MountFlags;
use tempfile::TempDir;
use tyr_env::{BLOCK_SIZE, Blocks};

use super::*;
use crate::testing::{MODES, block, disks, on_mounted, open, pattern};

fn refusal(path: &Path) -> io::Error {
    open(path, IoMode::Auto).expect_err("cannot be opened")
}

fn assert_mentions(error: &io::Error, parts: &[&str]) {
    let message = error.to_string();
    assert!(parts.iter().all(|part| message.contains(part)), "{message}: misses one of {parts:?}");
}

fn first_byte(disk: &OsDisk, name: &str) -> u8 {
    let mut byte = [0];
    disk.open(name, Access::Read).expect("opens").read_at(0, &mut byte).expect("reads");
    byte[0]
}

fn sorted_names(disk: &OsDisk) -> Vec<String> {
    let mut names = disk.names().expect("lists");
    names.sort();
    names
}

#[test]
fn files_are_created_opened_renamed_and_removed() {
    for (_directory, disk) in disks() {
        assert_eq!(disk.open("a", Access::Write).err().map(|e| e.kind()), Some(io::ErrorKind::NotFound));
        let a = disk.open("a", Access::Create).expect("creates");
        assert_eq!(
            disk.open("a", Access::Create).err().map(|e| e.kind()),
            Some(io::ErrorKind::AlreadyExists)
        );
        disk.open("b", Access::Create).expect("creates").write_at(0, block(2).as_bytes()).expect("writes");
        disk.rename("a", "b").expect("replaces");
        a.write_at(0, block(1).as_bytes()).expect("the open file stays valid");
        assert_eq!((sorted_names(&disk), first_byte(&disk, "b")), (vec!["b".into()], 1));
        disk.remove("b").expect("removes");
        a.write_at(BLOCK_SIZE as u64, block(1).as_bytes()).expect("the open file stays valid");
        assert!(disk.names().expect("lists").is_empty());
        for error in [disk.remove("b").err(), disk.rename("b", "c").err()] {
            assert_eq!(error.map(|e| e.kind()), Some(io::ErrorKind::NotFound));
        }
        disk.sync_names().expect("syncs");
        a.sync().expect("syncs");
    }
}

#[test]
fn only_plain_files_are_listed() {
    let (directory, disk) = disks().remove(0);
    disk.open("a", Access::Create).expect("creates");
    std::fs::create_dir(directory.path().join("lost+found")).expect("creates");
    std::os::unix::fs::symlink("a", directory.path().join("link")).expect("links");
    let foreign = <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"\xff");
    std::fs::write(directory.path().join(foreign), "").expect("writes");
    assert_eq!(disk.names().expect("lists"), ["a"]);
    assert!(disk.open("link", Access::Read).is_err());
}

#[test]
fn names_that_leave_the_directory_or_touch_the_lock_are_refused() {
    let (_directory, disk) = disks().remove(0);
    disk.open("a", Access::Create).expect("creates");
    let long = "x".repeat(256);
    for name in ["", ".", "..", "../a", "/a", "b/a", "a\0", LOCK_NAME, &long] {
        let results = [
            disk.open(name, Access::Create).err(),
            disk.rename("a", name).err(),
            disk.rename(name, "b").err(),
            disk.remove(name).err(),
        ];
        for error in results {
            assert_eq!(error.map(|e| e.kind()), Some(io::ErrorKind::InvalidInput), "{name:?}");
        }
    }
    assert_eq!(disk.names().expect("lists"), ["a"]);
}

#[test]
fn a_second_open_is_refused_with_the_holder_until_the_first_is_gone() {
    let directory = TempDir::new().expect("a temporary directory");
    let disk = open(directory.path(), IoMode::Auto).expect("opens");
    let reader = {
        disk.open("a", Access::Create).expect("creates");
        disk.open("a", Access::Read).expect("opens")
    };
    let error = refusal(directory.path());
    assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
    let path = directory.path().display().to_string();
    assert_mentions(&error, &[&path, &std::process::id().to_string(), "this process"]);
    drop(disk);
    open(directory.path(), IoMode::Auto).expect("a reader does not keep the directory");
    drop(reader);
}

#[test]
fn a_file_that_can_be_written_keeps_others_out() {
    let directory = TempDir::new().expect("a temporary directory");
    let disk = open(directory.path(), IoMode::Auto).expect("opens");
    let file = disk.open("a", Access::Create).expect("creates");
    drop(disk);
    assert_eq!(refusal(directory.path()).kind(), io::ErrorKind::ResourceBusy);
    drop(file);
    open(directory.path(), IoMode::Auto).expect("opens");
}

#[test]
fn the_process_that_holds_the_lock_is_named() {
    for (content, parts) in [("4242 \n", ["process 4242", "stop it"]), ("?", ["another process", "stop it"])]
    {
        let directory = TempDir::new().expect("a temporary directory");
        let path = directory.path().join(LOCK_NAME);
        std::fs::write(&path, content).expect("writes");
        let holder = std::fs::File::open(&path).expect("opens");
        rustix::fs::flock(&holder, rustix::fs::FlockOperation::LockExclusive).expect("locks");
        let error = refusal(directory.path());
        assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
        assert_mentions(&error, &parts);
    }
}

#[test]
fn a_path_that_is_no_directory_is_refused() {
    let directory = TempDir::new().expect("a temporary directory");
    let file = directory.path().join("file");
    std::fs::write(&file, "precious").expect("writes");
    for create in [false, true] {
        let options = OsOptions { create, io: IoMode::Auto };
        let error = OsDisk::open(&file, options).expect_err("a file");
        assert_eq!(error.kind(), io::ErrorKind::NotADirectory);
        assert_mentions(&error, &[&file.display().to_string(), "not a directory"]);
        let below = OsDisk::open(file.join("below"), options).expect_err("below a file");
        assert_eq!(below.kind(), io::ErrorKind::NotADirectory, "{below}");
    }
    assert_eq!(std::fs::read(&file).expect("reads"), b"precious");
}

#[test]
fn a_missing_directory_is_created_only_if_asked_for() {
    let directory = TempDir::new().expect("a temporary directory");
    let path = directory.path().join("a/b");
    let error = refusal(&path);
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
    assert_mentions(&error, &[&path.display().to_string(), "does not exist"]);
    for _ in 0..2 {
        OsDisk::open(&path, OsOptions { create: true, io: IoMode::Auto }).expect("creates");
    }
    let mode = std::fs::metadata(&path).expect("exists").permissions().mode();
    assert_eq!(mode & 0o777, 0o700, "for its owner alone");
}

/// Runs the test on a thread that has no rights to what others own; root may do anything.
fn as_another_user(test: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            if rustix::process::geteuid().is_root() {
                let nobody = rustix::process::Uid::from_raw(65_534);
                rustix::thread::set_thread_res_uid(nobody, nobody, nobody).expect("root may become anybody");
            }
            test();
        });
    });
}

#[test]
fn a_directory_without_permission_is_refused() {
    let directory = TempDir::new().expect("a temporary directory");
    let path = directory.path();
    for mode in [0o000, 0o444, 0o555, 0o666] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("changes the mode");
        as_another_user(|| {
            let error = refusal(path);
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{mode:o}: {error}");
            assert_mentions(&error, &[&path.display().to_string(), "may not", "owner or mode"]);
            let options = OsOptions { create: true, io: IoMode::Auto };
            let error = OsDisk::open(path.join("below"), options).expect_err("cannot be created");
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{mode:o}: {error}");
        });
    }
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700)).expect("changes the mode");
    assert_eq!(std::fs::read_dir(path).expect("lists").count(), 0, "nothing was left behind");
}

#[test]
fn a_read_only_file_system_is_refused() {
    on_mounted("tmpfs", c"", MountFlags::RDONLY, |path| {
        let error = refusal(path);
        assert_eq!(error.kind(), io::ErrorKind::ReadOnlyFilesystem);
        assert_mentions(&error, &[&path.display().to_string(), "read-only", "mount it"]);
    });
}

#[test]
fn a_file_system_without_direct_io_goes_through_the_page_cache() {
    on_mounted("ramfs", c"", MountFlags::empty(), |path| {
        for mode in [IoMode::Direct, IoMode::DirectRing] {
            let error = open(path, mode).expect_err("ramfs has no direct I/O");
            assert_eq!(error.kind(), io::ErrorKind::Unsupported);
            assert_mentions(&error, &[&path.display().to_string(), "direct I/O does not work here"]);
        }
        let disk = open(path, IoMode::Auto).expect("opens");
        assert_eq!(disk.describe(), "buffered I/O");
        assert_batches_are_written(&disk);
    });
}

#[test]
fn a_file_that_alone_refuses_direct_io_is_still_created_once() {
    on_mounted("ramfs", c"", MountFlags::empty(), |path| {
        let mut disk = open(path, IoMode::Auto).expect("opens");
        // As if the directory took direct I/O.
        let inner = Arc::get_mut(&mut disk).expect("not shared");
        inner.direct = Some(DirectIo { memory_alignment: BLOCK_SIZE });
        let file = disk.open("a", Access::Create).expect("creates");
        file.write_at(0, block(7).as_bytes()).expect("writes");
        assert_eq!(
            disk.open("a", Access::Create).err().map(|e| e.kind()),
            Some(io::ErrorKind::AlreadyExists)
        );
        assert_eq!(first_byte(&disk, "a"), 7);
    });
}

#[test]
fn memory_file_systems_work_in_every_mode_that_opens() {
    let Ok(directory) = TempDir::new_in("/dev/shm") else { return };
    for mode in MODES {
        match open(directory.path(), mode) {
            Ok(disk) => {
                assert_batches_are_written(&disk);
                disk.names().expect("lists").iter().for_each(|name| disk.remove(name).expect("removes"));
            }
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::Unsupported, "{error}"),
        }
    }
}

#[test]
fn a_full_device_says_so_and_still_opens() {
    on_mounted("tmpfs", c"size=64k", MountFlags::empty(), |path| {
        std::fs::write(path.join("filler"), vec![1; 64 << 10]).expect("fits");
        let disk = open(path, IoMode::Auto).expect("what is there can be read");
        assert_eq!(first_byte(&disk, "filler"), 1);
        assert_eq!(disk.space().expect("has one"), Space { total: 64 << 10, free: 0 });
        let file = disk.open("a", Access::Create).expect("creates");
        let full = |result: io::Result<()>| {
            assert_eq!(result.expect_err("no space").kind(), io::ErrorKind::StorageFull);
        };
        full(file.reserve(8 << 10));
        full(file.write_at(0, block(1).as_bytes()));
        full(disk.write_durably(&[Write { file: &*file, position: 0, bytes: block(1).as_bytes() }]));
        let several = [0, 8192].map(|at| Write { file: &*file, position: at, bytes: &[0; 0] });
        disk.write_durably(&several).expect("nothing to write");
        let one = block(1);
        let several = [0, 8192].map(|position| Write { file: &*file, position, bytes: one.as_bytes() });
        full(disk.write_durably(&several));
        disk.remove("filler").expect("removes");
        disk.write_durably(&several).expect("space came back");
    });
}

/// Writes batches of several shapes to several files and compares all content with a model.
fn assert_batches_are_written(disk: &OsDisk) {
    const FILES: usize = 5;
    const BLOCKS: usize = 64;
    let files: Vec<_> =
        (0..FILES).map(|i| disk.open(&format!("batch{i}"), Access::Create).expect("creates")).collect();
    let mut models: Vec<Blocks> = (0..FILES).map(|_| Blocks::zeroed(BLOCKS * BLOCK_SIZE)).collect();
    files.iter().for_each(|file| file.reserve((BLOCKS * BLOCK_SIZE) as u64).expect("reserves"));
    // (file, first block, blocks) each; the last batch has more runs than a ring has room.
    let scattered = (0..FILES * BLOCKS / 2).map(|i| (i % FILES, i / FILES * 2, 1)).collect();
    let batches: [Vec<(usize, usize, usize)>; 6] = [
        vec![],
        vec![(0, 3, 2)],
        vec![(0, 0, 1), (0, 1, 1), (0, 2, 1)],
        vec![(0, 0, 1), (1, 0, 2), (2, 5, 1), (3, 9, 3), (4, 0, 16)],
        vec![(1, 7, 1), (1, 9, 1), (2, 8, 1), (1, 10, 1), (2, 7, 1)],
        scattered,
    ];
    for (seed, batch) in batches.iter().enumerate() {
        let content: Vec<Blocks> = batch
            .iter()
            .map(|(file, first, n)| pattern((seed + file + first) as u64, n * BLOCK_SIZE))
            .collect();
        let writes: Vec<Write<'_>> = batch
            .iter()
            .zip(&content)
            .map(|((file, first, _), content)| Write {
                file: &*files[*file],
                position: (first * BLOCK_SIZE) as u64,
                bytes: content.as_bytes(),
            })
            .collect();
        disk.write_durably(&writes).expect("writes");
        for ((file, first, n), content) in batch.iter().zip(&content) {
            models[*file].as_bytes_mut()[first * BLOCK_SIZE..][..n * BLOCK_SIZE]
                .copy_from_slice(content.as_bytes());
        }
        for (file, model) in files.iter().zip(&models) {
            let mut read = Blocks::zeroed(model.len());
            file.read_at(0, read.as_bytes_mut()).expect("reads");
            assert!(read.as_bytes() == model.as_bytes(), "{disk:?}, batch {seed}");
        }
    }
}

#[test]
fn batches_over_several_files_are_written_in_every_mode() {
    for (_directory, disk) in disks() {
        assert_batches_are_written(&disk);
    }
}

#[test]
fn a_kernel_that_refuses_rings_is_done_without() {
    let (_directory, disk) = disks().remove(0);
    if let Some(rings) = &disk.rings {
        rings.forbid();
    }
    assert_batches_are_written(&disk);
    assert!(!disk.describe().contains("io_uring"));
}

#[test]
fn batches_of_many_threads_do_not_mix() {
    for (_directory, disk) in disks() {
        std::thread::scope(|scope| {
            for thread in 0..6u8 {
                let disk = &disk;
                scope.spawn(move || {
                    let [a, b] = ["a", "b"]
                        .map(|name| disk.open(&format!("{name}{thread}"), Access::Create).expect("creates"));
                    for round in 0..20 {
                        let blocks = block(thread * 20 + round);
                        let writes = [&a, &b].map(|file| Write {
                            file: &**file,
                            position: 0,
                            bytes: blocks.as_bytes(),
                        });
                        disk.write_durably(&writes).expect("writes");
                        assert_eq!(first_byte(disk, &format!("a{thread}")), thread * 20 + round);
                        assert_eq!(first_byte(disk, &format!("b{thread}")), thread * 20 + round);
                    }
                });
            }
        });
    }
}

/// A file of some other kind of disk.
struct Foreign;

impl File for Foreign {
    fn read_at(&self, _: u64, _: &mut [u8]) -> io::Result<()> {
        Ok(())
    }
    fn write_at(&self, _: u64, _: &[u8]) -> io::Result<()> {
        Ok(())
    }
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
    fn reserve(&self, _: u64) -> io::Result<()> {
        Ok(())
    }
    fn length(&self) -> io::Result<u64> {
        Ok(0)
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[test]
fn a_batch_with_one_wrong_write_changes_nothing() {
    for (_directory, disk) in disks() {
        let file = disk.open("a", Access::Create).expect("creates");
        let one = block(1);
        let good = Write { file: &*file, position: 0, bytes: one.as_bytes() };
        let foreign = Write { file: &Foreign, ..good };
        for wrong in [foreign, Write { position: 1, ..good }, Write { bytes: &one.as_bytes()[1..], ..good }] {
            let error = disk.write_durably(&[good, wrong]).expect_err("wrong");
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
        assert_eq!(file.length().expect("has one"), 0);
    }
}

#[test]
fn the_mode_that_was_forced_is_used() {
    for (mode, described) in MODES.into_iter().zip(["", "direct I/O, io_uring", "direct I/O", "buffered I/O"])
    {
        let directory = TempDir::new().expect("a temporary directory");
        if let Ok(disk) = open(directory.path(), mode) {
            assert!(mode == IoMode::Auto || disk.describe() == described, "{mode:?}: {}", disk.describe());
        }
    }
}

/// What is in a directory, by name.
fn contents(path: &Path) -> Vec<(std::ffi::OsString, Vec<u8>)> {
    let entries = std::fs::read_dir(path).expect("lists").map(|entry| entry.expect("lists"));
    let mut all: Vec<_> =
        entries.map(|entry| (entry.file_name(), std::fs::read(entry.path()).expect("reads"))).collect();
    all.sort();
    all
}

#[test]
fn who_withdraws_leaves_the_directory_as_it_was_and_keeps_it_until_then() {
    let ours = format!("{:<4095}\n", 4242).into_bytes();
    for lock in [None, Some(Vec::new()), Some(ours)] {
        let directory = TempDir::new().expect("a temporary directory");
        std::fs::write(directory.path().join("precious"), "years of work").expect("writes");
        lock.iter().for_each(|lock| std::fs::write(directory.path().join(LOCK_NAME), lock).expect("writes"));
        let before = contents(directory.path());
        let disk = open(directory.path(), IoMode::Auto).expect("opens");
        disk.withdraw();
        drop(disk);
        let names = |all: &[(std::ffi::OsString, Vec<u8>)]| -> Vec<_> {
            all.iter().map(|(name, bytes)| (name.clone(), bytes.len())).collect()
        };
        assert_eq!(names(&contents(directory.path())), names(&before));
        let disk = open(directory.path(), IoMode::Auto).expect("opens");
        assert_eq!(refusal(directory.path()).kind(), io::ErrorKind::ResourceBusy);
        drop(disk);
    }
}

#[test]
fn a_lock_file_that_is_somebody_elses_is_left_alone() {
    for content in ["years of work", "4242 of them", " 1", &"1".repeat(5000)] {
        let directory = TempDir::new().expect("a temporary directory");
        std::fs::write(directory.path().join(LOCK_NAME), content).expect("writes");
        let before = contents(directory.path());
        let error = refusal(directory.path());
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{error}");
        assert_mentions(&error, &["lock", "not Týr's"]);
        assert_eq!(contents(directory.path()), before);
    }
}

#[test]
fn a_lock_on_a_file_that_was_removed_meanwhile_counts_for_nothing() {
    let directory = TempDir::new().expect("a temporary directory");
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut open_now = 0;
                while open_now < 200 {
                    let Ok(disk) = open(directory.path(), IoMode::Buffered) else {
                        std::thread::yield_now();
                        continue;
                    };
                    // Whoever else got in as well would find the file there, or fail to remove it.
                    disk.open("held", Access::Create).expect("nobody else has the directory");
                    disk.remove("held").expect("nobody else has the directory");
                    disk.withdraw();
                    open_now += 1;
                }
            });
        }
    });
    // One that a thread created and another one locked first may be left, empty.
    assert!(contents(directory.path()).iter().all(|(name, bytes)| name == LOCK_NAME && bytes.is_empty()));
}

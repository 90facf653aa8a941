//! A hatch as its two ends see it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs::{self, File},
    future::Future,
    io::Write,
    path::PathBuf,
    sync::Arc,
    task::{Context, Waker},
};

use tyr_net::{Files, Hatch, HatchFile, HatchOwner, HatchReader, Patience, read_file};

const OWNER: HatchOwner = HatchOwner { cluster: 77, node: 3 };

/// One file, which is named (1, 2).
struct Shelf(PathBuf);

impl Files for Shelf {
    fn open(&self, name: HatchFile, _: Option<u128>) -> Option<File> {
        (name == (1, 2)).then(|| File::open(&self.0).unwrap())
    }
}

fn hatch(directory: &tempfile::TempDir) -> (Hatch, PathBuf) {
    let file = directory.path().join("file");
    fs::write(&file, b"what lies here").unwrap();
    let path = directory.path().join("hatch");
    (Hatch::open(&path, OWNER, Arc::new(Shelf(file))).unwrap(), path)
}

#[tokio::test]
async fn a_reader_is_handed_files_from_which_it_can_only_read() {
    let directory = tempfile::tempdir().unwrap();
    let (_hatch, path) = hatch(&directory);
    let mut reader = HatchReader::dial(&path, OWNER, None).await.unwrap();
    assert!(reader.fetch((1, 3)).await.unwrap().is_none(), "there is none of this name");
    for _ in 0..3 {
        let mut file = reader.fetch((1, 2)).await.unwrap().unwrap();
        let mut bytes = [0; 4];
        assert!(read_file(&file, 5, &mut bytes, Patience::Any).unwrap());
        assert_eq!(&bytes, b"lies");
        file.write_all(b"else").unwrap_err();
        read_file(&file, 12, &mut bytes, Patience::Any).unwrap_err();
    }
}

#[tokio::test]
async fn what_is_removed_can_be_read_on() {
    let directory = tempfile::tempdir().unwrap();
    let (hatch, path) = hatch(&directory);
    let mut reader = HatchReader::dial(&path, OWNER, None).await.unwrap();
    let file = reader.fetch((1, 2)).await.unwrap().unwrap();
    fs::remove_file(directory.path().join("file")).unwrap();
    let mut bytes = [0; 4];
    assert!(read_file(&file, 0, &mut bytes, Patience::Any).unwrap());
    assert_eq!(&bytes, b"what");
    let is_pending = |reader: &HatchReader| {
        let ended = std::pin::pin!(reader.ended());
        ended.poll(&mut Context::from_waker(Waker::noop())).is_pending()
    };
    assert!(is_pending(&reader), "it is open");
    drop(hatch);
    reader.ended().await;
    reader.fetch((1, 2)).await.unwrap_err();
}

#[tokio::test]
async fn who_looks_for_another_node_is_handed_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let (_hatch, path) = hatch(&directory);
    HatchReader::dial(&path, HatchOwner { node: 4, ..OWNER }, None).await.unwrap_err();
    HatchReader::dial(&path, HatchOwner { cluster: 78, ..OWNER }, None).await.unwrap_err();
    HatchReader::dial(&directory.path().join("nobody"), OWNER, None).await.unwrap_err();
    HatchReader::dial(&path, OWNER, None).await.unwrap();
}

#[tokio::test]
async fn a_hatch_that_somebody_left_behind_is_opened_again() {
    let directory = tempfile::tempdir().unwrap();
    // A socket stays in the file system when the process dies that has made it.
    drop(std::os::unix::net::UnixListener::bind(directory.path().join("hatch")).unwrap());
    let (_hatch, path) = hatch(&directory);
    HatchReader::dial(&path, OWNER, None).await.unwrap();
}

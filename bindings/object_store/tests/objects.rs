//! The object store under the integration tests of the object_store crate, and what these do not look at; on a directory, and on a
//! cluster of three servers.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../../crates/client/tests/real/mod.rs"]
mod real;

use std::{fmt::Debug, sync::Arc};

use chrono::Utc;
use futures::{StreamExt, TryStreamExt};
use object_store::{
    Attribute, Attributes, Error, GetOptions, ObjectStore, ObjectStoreExt, PutMode, PutMultipartOptions,
    PutOptions, PutPayload, UpdateVersion, integration, path::Path,
};
use tempfile::TempDir;
use tyr_client::{IoMode, KeyspaceSettings, OpenOptions, Operand, Store, Transform};
use tyr_object_store::TyrObjects;
use tyr_proto::cluster::ClassSettings;
use tyr_server::Settings;

/// Bytes that are too many for one transaction.
const LARGE: usize = (64 << 20) + 100;

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn settings(directory: &std::path::Path) -> Settings {
    let usual = Settings::new(directory);
    Settings { class: ClassSettings { partitions: 16, ..usual.class }, ..usual }
}

fn options() -> OpenOptions {
    Store::options().io(IoMode::Buffered)
}

/// Runs a test on a directory, and on a cluster.
fn on_both(test: impl AsyncFn(TyrObjects)) {
    let directory = TempDir::new().unwrap();
    block_on(async {
        let store = options().open(directory.path()).await.unwrap();
        let keyspace = store.create_keyspace("objects", KeyspaceSettings::default()).await.unwrap();
        test(TyrObjects::new(store.clone(), keyspace).unwrap()).await;
        store.close().await.unwrap();
    });
    let servers = real::Servers::start(3, settings);
    block_on(async {
        let objects = TyrObjects::open(servers.url(), "objects").await.unwrap();
        test(objects).await;
    });
}

/// Runs a test on an open directory, and on a cluster.
fn on_both_stores(test: impl AsyncFn(Store)) {
    let directory = TempDir::new().unwrap();
    block_on(async {
        let store = options().open(directory.path()).await.unwrap();
        test(store.clone()).await;
        store.close().await.unwrap();
    });
    let servers = real::Servers::start(3, settings);
    block_on(async { test(Store::open(servers.url()).await.unwrap()).await });
}

async fn bytes(objects: &TyrObjects, path: &str) -> Vec<u8> {
    objects.get(&Path::from(path)).await.unwrap().bytes().await.unwrap().to_vec()
}

fn large() -> Vec<u8> {
    (0..LARGE).map(|at| u8::try_from(at % 251).unwrap()).collect()
}

fn is<T: Debug>(result: Result<T, Error>, wanted: fn(&Error) -> bool) {
    let error = result.unwrap_err();
    assert!(wanted(&error), "{error:?}");
}

/// How many blobs there are, of objects and of their bytes.
async fn blobs(objects: &TyrObjects) -> usize {
    objects.keyspace().scan(b"", None, 1000).await.unwrap().len()
}

/// The keys of the blobs that hold bytes of objects.
async fn data_keys(objects: &TyrObjects) -> Vec<Vec<u8>> {
    let entries = objects.keyspace().scan(b"\xff", None, 1000).await.unwrap();
    entries.into_iter().map(|entry| entry.key.as_ref().to_vec()).collect()
}

#[test]
fn the_tests_of_object_stores_pass() {
    on_both(async |objects| {
        let shared: Arc<dyn ObjectStore> = Arc::new(objects.clone());
        // In an order in which none is in the way of what another one leaves.
        integration::put_get_delete_list(&shared).await;
        integration::list_with_offset_exclusivity(&shared).await;
        integration::get_opts(&objects).await;
        integration::list_uses_directories_correctly(&shared).await;
        integration::list_with_delimiter(&shared).await;
        integration::rename_and_copy(&shared).await;
        integration::copy_if_not_exists(&shared).await;
        integration::copy_rename_nonexistent_object(&shared).await;
        integration::stream_get(&shared).await;
        integration::put_opts(&objects, true).await;
        integration::multipart_race_condition(&objects, true).await;
        integration::multipart_out_of_order(&objects).await;
        integration::put_get_attributes(&objects).await;
        is(integration::get_nonexistent_object(&shared, None).await, |error| {
            matches!(error, Error::NotFound { .. })
        });
    });
}

#[test]
fn what_is_large_is_put_copied_and_moved_and_leaves_nothing_behind() {
    on_both(async |objects| {
        let [first, second, third] = ["first", "second", "third"].map(Path::from);
        objects.put(&first, large().into()).await.unwrap();
        assert!(bytes(&objects, "first").await == large());
        objects.copy(&first, &second).await.unwrap();
        objects.rename(&first, &third).await.unwrap();
        assert!(bytes(&objects, "second").await == large() && bytes(&objects, "third").await == large());
        is(objects.head(&first).await, |error| matches!(error, Error::NotFound { .. }));
        is(objects.rename_if_not_exists(&second, &third).await, |error| {
            matches!(error, Error::AlreadyExists { .. })
        });
        is(objects.put_opts(&second, large().into(), PutMode::Create.into()).await, |error| {
            matches!(error, Error::AlreadyExists { .. })
        });
        objects.rename(&second, &third).await.unwrap();
        objects.put(&third, "small".into()).await.unwrap();
        assert_eq!(bytes(&objects, "third").await, b"small");
        assert_eq!(blobs(&objects).await, 1);
        objects.delete(&third).await.unwrap();
        assert_eq!(blobs(&objects).await, 0);
    });
}

#[test]
fn what_is_large_and_cannot_be_put_or_copied_leaves_nothing_behind() {
    on_both(async |objects| {
        // The path is looked at when all bytes are written.
        let long = Path::from("x".repeat(100_000));
        is(objects.put(&long, large().into()).await, |error| error.to_string().contains("key"));
        assert_eq!(blobs(&objects).await, 0);

        // The bytes of an object are fewer than it says, which is found when some are copied.
        let data = b"\xffdata";
        objects.keyspace().put(data, vec![1; 9 << 20]).await.unwrap();
        objects.keyspace().create("broken").await.unwrap();
        for (name, value) in [("object.data", &data[..]), ("object.size", b"100000000")] {
            objects.keyspace().set_attribute("broken", name, Some(value)).await.unwrap();
        }
        is(objects.copy(&Path::from("broken"), &Path::from("copy")).await, |error| {
            error.to_string().contains("has lost bytes")
        });
        assert_eq!(data_keys(&objects).await, [data]);
    });
}

#[test]
fn what_is_large_and_has_no_room_leaves_nothing_behind() {
    on_both_stores(async |store| {
        // The first write of it fits.
        let settings = KeyspaceSettings { quota: Some(40 << 20), ..KeyspaceSettings::default() };
        let keyspace = store.create_keyspace("small", settings).await.unwrap();
        let objects = TyrObjects::new(store, keyspace).unwrap();
        assert!(objects.put(&Path::from("large"), large().into()).await.is_err());
        assert_eq!(blobs(&objects).await, 0);
    });
}

#[test]
fn attributes_that_cannot_be_kept_are_refused_before_anything_is_written() {
    on_both(async |objects| {
        let path = Path::from("a");
        let key = Attribute::Metadata("x".repeat(300).into());
        for attributes in [
            Attributes::from_iter([(Attribute::StorageClass, "COLD".to_owned())]),
            Attributes::from_iter([(Attribute::ContentType, "x".repeat(70_000))]),
            Attributes::from_iter([(key, "value".to_owned())]),
        ] {
            let options = PutMultipartOptions { attributes, ..PutMultipartOptions::default() };
            assert!(objects.put_multipart_opts(&path, options).await.is_err());
            assert_eq!(blobs(&objects).await, 0);
        }
    });
}

#[test]
fn what_was_written_otherwise_is_an_object_too_and_moves_when_it_is_large() {
    on_both(async |objects| {
        let keyspace = objects.keyspace().clone();
        keyspace.put("dir/other", b"content").await.unwrap();
        keyspace.put(b"/no/path", b"").await.unwrap();
        keyspace.put(b"\x80", b"").await.unwrap();
        let listed: Vec<_> = objects.list(None).try_collect().await.unwrap();
        let [meta] = &listed[..] else { panic!("{listed:?}") };
        assert_eq!((meta.location.as_ref(), meta.size), ("dir/other", 7));
        let version = PutMode::Update(UpdateVersion { e_tag: meta.e_tag.clone(), version: None });
        keyspace.write("dir/other", 0, b"C").await.unwrap();
        is(objects.put_opts(&meta.location, "late".into(), version.into()).await, |error| {
            matches!(error, Error::Precondition { .. })
        });
        let long = large();
        keyspace.put("long", &long).await.unwrap();
        objects.rename(&Path::from("long"), &Path::from("dir/long")).await.unwrap();
        assert!(bytes(&objects, "dir/long").await == long);
        assert_eq!(objects.list_with_delimiter(None).await.unwrap().common_prefixes, [Path::from("dir")]);
    });
}

#[test]
fn what_is_no_path_makes_no_directory() {
    on_both(async |objects| {
        let keyspace = objects.keyspace().clone();
        for key in ["one//a", "two/../a", "three/", "four//a", "four/b", "./a"] {
            keyspace.put(key, b"").await.unwrap();
        }
        keyspace.put(b"five/\x80", b"").await.unwrap();
        let listed = objects.list_with_delimiter(None).await.unwrap();
        assert_eq!(listed.common_prefixes, [Path::from("four")]);
        assert_eq!(listed.objects, []);
        let four = Path::from("four");
        let listed = objects.list_with_delimiter(Some(&four)).await.unwrap();
        assert_eq!(listed.common_prefixes, []);
        let [meta] = &listed.objects[..] else { panic!("{listed:?}") };
        assert_eq!(meta.location, Path::from("four/b"));
    });
}

#[test]
fn what_is_being_read_stays_as_it_was() {
    on_both(async |objects| {
        let path = Path::from("table");
        for begin in [large(), vec![1; 9 << 20]] {
            objects.put(&path, begin.clone().into()).await.unwrap();
            let mut stream = objects.get(&path).await.unwrap().into_stream();
            let mut read = stream.next().await.unwrap().unwrap().to_vec();
            assert!(read.len() < begin.len(), "it comes in pieces");
            objects.put(&path, "another".into()).await.unwrap();
            while let Some(piece) = stream.next().await {
                read.extend_from_slice(&piece.unwrap());
            }
            assert!(read == begin);
        }
    });
}

#[test]
fn what_was_completed_is_not_taken_away_by_who_has_not_heard_of_it() {
    on_both(async |objects| {
        let path = Path::from("upload");
        let mut upload = objects.put_multipart(&path).await.unwrap();
        upload.put_part(PutPayload::from_static(b"precious")).await.unwrap();
        let first = upload.complete().await.unwrap();
        let second = upload.complete().await.unwrap();
        assert_eq!(first.e_tag, second.e_tag);
        assert_eq!(objects.head(&path).await.unwrap().e_tag, first.e_tag);
        upload.abort().await.unwrap();
        assert_eq!(bytes(&objects, "upload").await, b"precious");

        // What is opened is there until it is read, though nothing of it was read before it was replaced.
        let opened = objects.get(&path).await.unwrap();
        let mut upload = objects.put_multipart(&path).await.unwrap();
        upload.put_part(PutPayload::from_static(b"another")).await.unwrap();
        upload.complete().await.unwrap();
        assert_eq!(opened.bytes().await.unwrap(), "precious");
        assert_eq!(bytes(&objects, "upload").await, b"another");

        // Somebody who knows nothing of objects writes to it.
        objects.keyspace().put("upload", b"otherwise").await.unwrap();
        assert_eq!(bytes(&objects, "upload").await, b"otherwise");
    });
}

#[test]
fn an_object_that_is_written_to_by_other_means_has_another_entity_tag() {
    on_both(async |objects| {
        let (path, parts) = (Path::from("put"), Path::from("parts"));
        let put = objects.put(&path, "content".into()).await.unwrap();
        let mut upload = objects.put_multipart(&parts).await.unwrap();
        upload.put_part("content".into()).await.unwrap();
        let completed = upload.complete().await.unwrap();
        upload.abort().await.unwrap();
        let listed: Vec<_> = objects.list(None).try_collect().await.unwrap();
        for (path, put) in [(&path, put), (&parts, completed)] {
            let old = put.e_tag.clone().unwrap();
            assert_eq!(objects.head(path).await.unwrap().e_tag, put.e_tag);
            assert!(listed.iter().any(|meta| meta.location == *path && meta.e_tag == put.e_tag));
            match path == &parts {
                // The size stays, and all attributes that objects know.
                false => objects.keyspace().write(path.as_ref(), 0, b"C").await.unwrap(),
                true => {
                    objects.keyspace().set_attribute(path.as_ref(), "other", Some(b"value")).await.unwrap()
                }
            }
            let new = objects.head(path).await.unwrap().e_tag.unwrap();
            assert!(new != old, "{new}");
            let options = GetOptions::new().with_if_none_match(Some(old.clone()));
            assert_eq!(objects.get_opts(path, options).await.unwrap().meta.e_tag, Some(new.clone()));
            let options = GetOptions::new().with_if_none_match(Some(new.clone()));
            is(objects.get_opts(path, options).await, |error| matches!(error, Error::NotModified { .. }));
            let options = GetOptions::new().with_if_match(Some(old));
            is(objects.get_opts(path, options).await, |error| matches!(error, Error::Precondition { .. }));
            is(objects.put_opts(path, "late".into(), PutMode::Update(put.into()).into()).await, |error| {
                matches!(error, Error::Precondition { .. })
            });
            let seen = UpdateVersion { e_tag: Some(new), version: None };
            let put = objects.put_opts(path, "next".into(), PutMode::Update(seen).into()).await.unwrap();
            assert_eq!(objects.head(path).await.unwrap().e_tag, put.e_tag);
        }
    });
}

#[test]
fn an_update_does_not_lose_what_is_written_meanwhile_by_other_means() {
    const OTHERS: u64 = 500;
    on_both(async |objects| {
        let path = Path::from("count");
        objects.put(&path, 0_u64.to_le_bytes().to_vec().into()).await.unwrap();
        let keyspace = objects.keyspace().clone();
        let others = std::thread::spawn(move || {
            let one = Transform::add(Operand::U64(1));
            for _ in 0..OTHERS {
                block_on(keyspace.transform("count", 0, one)).unwrap();
            }
        });
        let mut updates = 0;
        while !others.is_finished() {
            let seen = objects.get(&path).await.unwrap();
            let version = UpdateVersion { e_tag: seen.meta.e_tag.clone(), version: None };
            let count = u64::from_le_bytes(seen.bytes().await.unwrap()[..].try_into().unwrap());
            let next = (count + 1).to_le_bytes().to_vec();
            match objects.put_opts(&path, next.into(), PutMode::Update(version).into()).await {
                Err(Error::Precondition { .. }) => {}
                put => updates += put.map(|_| 1).unwrap(),
            }
        }
        others.join().unwrap();
        let count = bytes(&objects, "count").await;
        assert_eq!(count, (OTHERS + updates).to_le_bytes());
    });
}

#[test]
fn a_payload_may_be_cut_anyhow() {
    on_both(async |objects| {
        let whole: Vec<u8> = (0..40_u32 << 20).map(|at| u8::try_from(at % 251).unwrap()).collect();
        let pieces: PutPayload = whole.chunks(1024).map(bytes::Bytes::copy_from_slice).collect();
        objects.put(&Path::from("cut"), pieces).await.unwrap();
        assert!(bytes(&objects, "cut").await == whole);
    });
}

#[test]
fn abandoned_uploads_are_found_and_others_are_kept() {
    on_both(async |objects| {
        let (path, kept) = (Path::from("upload"), Path::from("kept"));
        let mut done = objects.put_multipart(&kept).await.unwrap();
        done.put_part("part".into()).await.unwrap();
        done.complete().await.unwrap();
        let mut left = objects.put_multipart(&path).await.unwrap();
        left.put_part("part".into()).await.unwrap();
        let mut aborted = objects.put_multipart(&path).await.unwrap();
        aborted.put_part("part".into()).await.unwrap();
        aborted.abort().await.unwrap();
        let mut lacking = objects.put_multipart(&path).await.unwrap();
        drop(lacking.put_part("part".into()));
        is(lacking.complete().await, |error| error.to_string().contains("0 of 4 bytes"));
        let later = Utc::now() + chrono::TimeDelta::seconds(1);
        let earlier = Utc::now() - chrono::TimeDelta::seconds(3600);
        assert_eq!(objects.remove_abandoned(earlier).await.unwrap(), 0, "it is too new");
        assert_eq!(objects.remove_abandoned(later).await.unwrap(), 2, "what is left, and what is lacking");
        is(left.complete().await, |error| error.to_string().contains("has been removed"));
        is(objects.head(&path).await, |error| matches!(error, Error::NotFound { .. }));
        assert_eq!(bytes(&objects, "kept").await, b"part");
    });
}

#[test]
fn an_upload_that_was_removed_while_it_was_under_way_is_refused_whatever_parts_came_after() {
    on_both(async |objects| {
        let path = Path::from("upload");
        let later = Utc::now() + chrono::TimeDelta::seconds(3600);
        for before in ["AAAA", ""] {
            let mut upload = objects.put_multipart(&path).await.unwrap();
            upload.put_part(before.into()).await.unwrap();
            assert_eq!(objects.remove_abandoned(later).await.unwrap(), 1);
            upload.put_part("BBBB".into()).await.unwrap();
            is(upload.complete().await, |error| error.to_string().contains("has been removed"));
            is(objects.head(&path).await, |error| matches!(error, Error::NotFound { .. }));
            assert_eq!(objects.remove_abandoned(later).await.unwrap(), 1, "the part that came after");
            assert_eq!(blobs(&objects).await, 0);
        }

        // So is a copy that is made to move an object.
        let (from, to) = (Path::from("from"), Path::from("to"));
        let long = large();
        objects.keyspace().put("from", &long).await.unwrap();
        let remove = async {
            while data_keys(&objects).await.is_empty() {
                tokio::task::yield_now().await;
            }
            objects.remove_abandoned(later).await.unwrap()
        };
        let (moved, removed) = futures::future::join(objects.rename(&from, &to), remove).await;
        assert_eq!(removed, 1);
        is(moved, |error| error.to_string().contains("has been removed"));
        is(objects.head(&to).await, |error| matches!(error, Error::NotFound { .. }));
        assert!(bytes(&objects, "from").await == long);
        assert_eq!(blobs(&objects).await, 1);
    });
}

#[test]
fn an_upload_that_is_completed_again_after_its_object_was_moved_stays_one_object() {
    on_both(async |objects| {
        let (path, moved) = (Path::from("upload"), Path::from("moved"));
        let mut upload = objects.put_multipart(&path).await.unwrap();
        upload.put_part("part".into()).await.unwrap();
        upload.complete().await.unwrap();
        objects.rename(&path, &moved).await.unwrap();
        upload.complete().await.unwrap();
        is(objects.head(&path).await, |error| matches!(error, Error::NotFound { .. }));
        objects.put(&path, "another".into()).await.unwrap();
        upload.complete().await.unwrap();
        assert_eq!(bytes(&objects, "upload").await, b"another");
        objects.delete(&path).await.unwrap();
        assert_eq!(bytes(&objects, "moved").await, b"part");
        objects.delete(&moved).await.unwrap();
        is(upload.complete().await, |error| error.to_string().contains("has been removed"));
        assert_eq!(blobs(&objects).await, 0);
    });
}

#[test]
fn an_upload_without_parts_is_an_empty_object() {
    on_both(async |objects| {
        let path = Path::from("upload");
        objects.put_multipart(&path).await.unwrap().complete().await.unwrap();
        assert_eq!(bytes(&objects, "upload").await, b"");
        assert_eq!(objects.head(&path).await.unwrap().size, 0);
        objects.delete(&path).await.unwrap();
        assert_eq!(blobs(&objects).await, 0);
    });
}

#[test]
fn the_bytes_of_an_object_that_others_have_overwritten_are_deleted_with_it() {
    on_both(async |objects| {
        let (path, moved) = (Path::from("upload"), Path::from("moved"));
        let upload = async || {
            let mut upload = objects.put_multipart(&path).await.unwrap();
            upload.put_part("part".into()).await.unwrap();
            upload.complete().await.unwrap();
            objects.keyspace().put("upload", b"otherwise").await.unwrap();
            assert_eq!(bytes(&objects, "upload").await, b"otherwise");
            assert_eq!(data_keys(&objects).await.len(), 1);
            upload
        };
        upload().await;
        objects.delete(&path).await.unwrap();
        assert_eq!(data_keys(&objects).await.len(), 0);
        upload().await;
        objects.put(&path, "put".into()).await.unwrap();
        assert_eq!(data_keys(&objects).await.len(), 0);
        upload().await;
        objects.rename(&path, &moved).await.unwrap();
        assert_eq!(bytes(&objects, "moved").await, b"otherwise");
        assert_eq!(data_keys(&objects).await.len(), 0);
        upload().await;
        objects.rename(&moved, &path).await.unwrap();
        assert_eq!(data_keys(&objects).await.len(), 0);
        // An upload that is completed once more has its bytes still.
        upload().await.complete().await.unwrap();
        assert_eq!(bytes(&objects, "upload").await, b"part");
        assert_eq!(data_keys(&objects).await.len(), 1);
    });
}

#[test]
fn other_programs_see_of_objects_what_the_guide_says() {
    on_both(async |objects| {
        let (path, keyspace) = (Path::from("upload"), objects.keyspace());
        let mut upload = objects.put_multipart(&path).await.unwrap();
        upload.put_part("part".into()).await.unwrap();
        upload.complete().await.unwrap();
        let seen = keyspace.get("upload").await.unwrap();
        assert_eq!(seen.bytes, b"");
        let attribute = |name| seen.stat.attributes.value(name).map(<[u8]>::to_vec);
        assert_eq!(attribute("object.data"), data_keys(&objects).await.pop());
        assert_eq!(attribute("object.size").as_deref(), Some(&b"4"[..]));
        let put = objects.head(&path).await.unwrap().last_modified;
        keyspace.put("upload", b"").await.unwrap();
        keyspace.set_attribute("upload", "other", Some(b"value")).await.unwrap();
        assert_eq!(bytes(&objects, "upload").await, b"part");
        assert_eq!(objects.head(&path).await.unwrap().last_modified, put);
        keyspace.delete("upload").await.unwrap();
        let later = Utc::now() + chrono::TimeDelta::seconds(1);
        assert_eq!(objects.remove_abandoned(later).await.unwrap(), 1);
        keyspace.put("other", b"other").await.unwrap();
        let other = objects.head(&Path::from("other")).await.unwrap();
        assert_eq!(other.last_modified, chrono::DateTime::UNIX_EPOCH);
        assert_eq!(blobs(&objects).await, 1);
    });
}

#[test]
fn the_bytes_of_an_object_stay_if_others_have_copied_what_names_them() {
    on_both(async |objects| {
        let (path, copy) = (Path::from("upload"), Path::from("copy"));
        let mut upload = objects.put_multipart(&path).await.unwrap();
        upload.put_part("part".into()).await.unwrap();
        upload.complete().await.unwrap();
        let keyspace = objects.keyspace();
        let attributes = keyspace.stat("upload").await.unwrap().attributes;
        keyspace.create("copy").await.unwrap();
        for (name, value) in attributes.iter() {
            keyspace.set_attribute("copy", name, Some(value)).await.unwrap();
        }
        objects.put(&copy, "another".into()).await.unwrap();
        objects.delete(&copy).await.unwrap();
        assert_eq!(bytes(&objects, "upload").await, b"part");
        // What cannot be such a name is none.
        for name in [&b""[..], b"upload", &[0xff; 5000]] {
            keyspace.create("copy").await.unwrap();
            keyspace.set_attribute("copy", "object.data", Some(name)).await.unwrap();
            assert_eq!(bytes(&objects, "copy").await, b"");
            objects.delete(&copy).await.unwrap();
        }
        assert_eq!(bytes(&objects, "upload").await, b"part");
    });
}

#[test]
fn a_refusal_is_told_though_what_was_uploaded_cannot_be_deleted() {
    on_both(async |objects| {
        let path = Path::from("taken");
        objects.put(&path, "first".into()).await.unwrap();
        // It takes many writes.
        let pieces: PutPayload = large().chunks(1 << 20).map(bytes::Bytes::copy_from_slice).collect();
        let put = objects.put_opts(&path, pieces, PutMode::Create.into());
        // The upload's blob is made such that aborting fails: it is of an object whose path cannot be.
        let spoil = async {
            loop {
                if let [key] = &data_keys(&objects).await[..] {
                    break objects.keyspace().set_attribute(key, "object.path", Some(b"")).await.unwrap();
                }
                tokio::task::yield_now().await;
            }
        };
        let (put, ()) = futures::future::join(put, spoil).await;
        is(put, |error| matches!(error, Error::AlreadyExists { .. }));
        assert_eq!(data_keys(&objects).await.len(), 1, "it was not aborted");
        assert_eq!(bytes(&objects, "taken").await, b"first");
    });
}

#[test]
fn a_keyspace_that_keeps_no_versions_is_refused() {
    on_both_stores(async |store| {
        let settings = KeyspaceSettings::default();
        let latest = KeyspaceSettings { multi_version: false, ..settings.clone() };
        let keyspace = store.create_keyspace("latest", latest.clone()).await.unwrap();
        let is_told = |error: &Error| error.to_string().contains("alter latest --multi-version on");
        is(TyrObjects::new(store.clone(), keyspace.clone()), is_told);
        store.alter_keyspace("latest", settings).await.unwrap();
        let objects = TyrObjects::new(store.clone(), keyspace).unwrap();
        let path = Path::from("a");
        objects.put(&path, "a".into()).await.unwrap();
        assert_eq!(bytes(&objects, "a").await, b"a");
        store.alter_keyspace("latest", latest).await.unwrap();
        is(objects.get(&path).await, is_told);
    });
    let directory = TempDir::new().unwrap();
    block_on(async {
        let store = options().open(directory.path()).await.unwrap();
        let latest = KeyspaceSettings { multi_version: false, ..KeyspaceSettings::default() };
        store.create_keyspace("latest", latest).await.unwrap();
        store.close().await.unwrap();
        is(TyrObjects::open(directory.path(), "latest").await, |error| {
            error.to_string().contains("keeps no versions")
        });
    });
}

#[test]
fn a_store_that_keeps_copies_is_refused() {
    let servers = real::Servers::start(3, settings);
    block_on(async {
        let store = Store::options().copies().open(servers.url()).await.unwrap();
        let keyspace = store.create_keyspace("objects", KeyspaceSettings::default()).await.unwrap();
        is(TyrObjects::new(store, keyspace), |error| error.to_string().contains("keeps copies"));
    });
    // A directory has none to keep.
    let directory = TempDir::new().unwrap();
    block_on(async {
        let store = options().copies().open(directory.path()).await.unwrap();
        let keyspace = store.create_keyspace("objects", KeyspaceSettings::default()).await.unwrap();
        TyrObjects::new(store.clone(), keyspace).unwrap();
        store.close().await.unwrap();
    });
}

#[test]
fn what_cannot_be_done_is_said() {
    on_both(async |objects| {
        let path = Path::from("a");
        let attributes = Attributes::from_iter([(Attribute::StorageClass, "COLD")]);
        let options = PutOptions { attributes, ..PutOptions::default() };
        is(objects.put_opts(&path, "a".into(), options).await, |error| {
            matches!(error, Error::NotSupported { .. })
        });
        objects
            .put(&path, PutPayload::from_iter([bytes::Bytes::from("a"), bytes::Bytes::from("b")]))
            .await
            .unwrap();
        assert_eq!(bytes(&objects, "a").await, b"ab");
        let options = GetOptions { version: Some("1".to_owned()), ..GetOptions::default() };
        is(objects.get_opts(&path, options).await, |error| matches!(error, Error::NotSupported { .. }));
        let long = Path::from("x".repeat(100_000));
        is(objects.put(&long, "a".into()).await, |error| error.to_string().contains("key"));
        is(objects.get_range(&path, 5..6).await, |error| matches!(error, Error::Generic { .. }));
    });
}

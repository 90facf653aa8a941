#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
};

use proptest::prelude::*;
use tyr_types::{Attributes, BlobId, Key, Number};

use super::{
    manifest::{DRAFT_NAME, NAME},
    record::{Next, Record},
    *,
};
use crate::failure::Result;

fn origin() -> Origin {
    let keyspace = KeyspaceFacts {
        name: "k".to_owned(),
        identity: "directory-1".to_owned(),
        durability: "disk".to_owned(),
        chunk_size: 1 << 20,
        multi_version: true,
        quota: None,
    };
    Origin { keyspace, snapshot: None, taken: 7 }
}

fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

/// A blob with grains of 100 bytes that have these prints.
fn blob(version: u64, size: u64, prints: &[(u64, u64)]) -> Blob {
    let mut attributes = Attributes::default();
    attributes.set("of", Some(b"somebody")).unwrap();
    Blob {
        created: BlobId::from_u64(5),
        version: Number::from_u64(version),
        size,
        attributes,
        grain: 128,
        grains: prints.iter().map(|(index, print)| (*index, Grain { print: *print, place: None })).collect(),
        is_whole: false,
    }
}

/// Writes a blob whose grains are each filled with the lowest byte of their print.
fn put(draft: &Draft, volume: &mut VolumeWriter, name: &str, mut blob: Blob, since: Option<&Blob>) {
    volume.put(&Record::Blob(key(name), blob.clone())).unwrap();
    let mut begun = volume.length();
    for (index, Grain { print, .. }) in blob.grains.clone() {
        if since.is_some_and(|since| since.same(&blob, index, print).is_some()) {
            continue;
        }
        let length = usize::try_from((blob.size - index * 128).min(128)).unwrap();
        let bytes = vec![u8::try_from(print & 255).unwrap(); length];
        volume.put(&Record::Data(index * 128, bytes)).unwrap();
        volume.put(&Record::Grain(index, print)).unwrap();
        blob.grains.get_mut(&index).unwrap().place = Some(Place { volume: volume.number(), position: begun });
        begun = volume.length();
    }
    volume.put(&Record::Whole).unwrap();
    draft.note(key(name), blob);
}

/// An archive that has everything, and one that says what changed.
fn two(scratch: &Path) -> [PathBuf; 2] {
    let paths = [scratch.join("full"), scratch.join("more")];
    let draft = Draft::open(&paths[0], origin(), None).unwrap();
    let mut volume = draft.volume().unwrap();
    let first = blob(1, 300, &[(0, 11), (2, 12)]);
    put(&draft, &mut volume, "a", first.clone(), None);
    put(&draft, &mut volume, "b", blob(2, 10, &[(0, 13)]), None);
    draft.finish_volume(volume).unwrap();
    let since = draft.id();
    draft.publish().unwrap();
    let draft = Draft::open(&paths[1], origin(), Some(since)).unwrap();
    let mut volume = draft.volume().unwrap();
    put(&draft, &mut volume, "a", blob(3, 290, &[(0, 11), (1, 14), (2, 12)]), Some(&first));
    draft.finish_volume(volume).unwrap();
    draft.publish().unwrap();
    paths
}

fn content(chain: &Chain, name: &str) -> Result<Vec<u8>> {
    let blob = chain.last().catalog.blobs[&key(name)].clone();
    let mut bytes = vec![0; usize::try_from(blob.size).unwrap()];
    for index in blob.grains.keys() {
        chain.read_grain(&key(name), *index, |offset, data| {
            let offset = usize::try_from(offset).unwrap();
            bytes[offset..offset + data.len()].copy_from_slice(data);
            Ok(())
        })?;
    }
    Ok(bytes)
}

/// Opens archives and reads all of them.
fn read_all(paths: &[PathBuf]) -> Result<Vec<Vec<u8>>> {
    let chain = Chain::open(paths)?;
    let mut places: BTreeMap<usize, BTreeSet<Place>> = BTreeMap::new();
    for (archive, number, _) in chain.volumes().collect::<Vec<_>>() {
        places.entry(archive).or_default().extend(chain.verify(archive, number)?);
    }
    chain.check_places(&places)?;
    let names =
        chain.last().catalog.blobs.keys().map(|key| String::from_utf8(key.as_bytes().to_vec()).unwrap());
    names.collect::<Vec<_>>().iter().map(|name| content(&chain, name)).collect()
}

#[test]
fn a_chain_has_what_its_newest_archive_lists() {
    let scratch = tempfile::tempdir().unwrap();
    let paths = two(scratch.path());
    let a = [vec![11; 128], vec![0; 128], vec![12; 44]].concat();
    assert_eq!(read_all(&paths[..1]).unwrap(), [a, vec![13; 10]]);
    let a = [vec![11; 128], vec![14; 128], vec![12; 34]].concat();
    assert_eq!(read_all(&paths).unwrap(), [a]);
}

#[test]
fn archives_that_do_not_belong_together_are_refused() {
    let (scratch, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let ([full, more], [foreign, _]) = (two(scratch.path()), two(other.path()));
    let refused = |paths: &[&PathBuf]| {
        let paths: Vec<PathBuf> = paths.iter().map(|path| (*path).clone()).collect();
        Chain::open(&paths).err().unwrap().to_string()
    };
    assert!(refused(&[&more]).contains("only what changed since"));
    assert!(refused(&[&more, &full]).contains("does not follow"));
    assert!(refused(&[&foreign, &more]).contains("does not follow"));
    assert!(refused(&[&full, &full]).contains("does not follow"));
    assert!(refused(&[]).contains("no archive"));
}

#[test]
fn one_of_another_format_is_refused_and_what_is_not_whole() {
    let scratch = tempfile::tempdir().unwrap();
    let [full, _] = two(scratch.path());
    let mut manifest = Manifest::read(&full).unwrap();
    manifest.format = 2;
    manifest.write_draft(&full).unwrap();
    fs::rename(full.join(DRAFT_NAME), full.join(NAME)).unwrap();
    let refused = Chain::open(std::slice::from_ref(&full)).err().unwrap().to_string();
    assert!(refused.contains("of format 2") && refused.contains("reads format 1"), "{refused}");
    fs::rename(full.join(NAME), full.join(DRAFT_NAME)).unwrap();
    let refused = Chain::open(&[full]).err().unwrap().to_string();
    assert!(refused.contains("is not whole"), "{refused}");
}

#[test]
fn whatever_is_cut_or_flipped_is_found() {
    let scratch = tempfile::tempdir().unwrap();
    let paths = two(scratch.path());
    let expected = read_all(&paths).unwrap();
    let mut tried = 0;
    for path in &paths {
        for file in ["manifest", "index", "volume-000000"] {
            let file = path.join(file);
            let whole = fs::read(&file).unwrap();
            for at in 0..whole.len() {
                let mut flipped = whole.clone();
                flipped[at] ^= 1 << (at % 8);
                for damaged in [&flipped[..], &whole[..at]] {
                    fs::write(&file, damaged).unwrap();
                    assert!(read_all(&paths).is_err(), "byte {at} of {}", file.display());
                    tried += 1;
                }
            }
            fs::write(&file, [&whole[..], b"x"].concat()).unwrap();
            assert!(read_all(&paths).is_err(), "a byte more");
            fs::write(&file, whole).unwrap();
        }
    }
    assert!(tried > 1000);
    assert_eq!(read_all(&paths).unwrap(), expected);
}

#[test]
fn a_draft_goes_on_wherever_it_was_cut() {
    let scratch = tempfile::tempdir().unwrap();
    let whole = two(scratch.path())[0].clone();
    let volume = fs::read(whole.join("volume-000000")).unwrap();
    let mut manifest = Manifest::read(&whole).unwrap();
    manifest.content = None;
    let expected = read_all(std::slice::from_ref(&whole)).unwrap();
    let mut kept = BTreeSet::new();
    for at in 0..volume.len() {
        let directory = scratch.path().join("cut");
        fs::create_dir(&directory).unwrap();
        manifest.write_draft(&directory).unwrap();
        fs::write(directory.join("volume-000000"), &volume[..at]).unwrap();
        let draft = Draft::open(&directory, origin(), None).unwrap();
        assert!(draft.is_continued());
        kept.insert(draft.known.blobs.values().filter(|blob| blob.is_whole).count());
        let mut next = draft.volume().unwrap();
        for (name, blob) in [("a", blob(1, 300, &[(0, 11), (2, 12)])), ("b", blob(2, 10, &[(0, 13)]))] {
            match draft.known.blobs.get(&key(name)).filter(|known| known.is_whole) {
                Some(known) => draft.note(key(name), known.clone()),
                None => put(&draft, &mut next, name, blob, None),
            }
        }
        draft.finish_volume(next).unwrap();
        draft.publish().unwrap();
        assert_eq!(read_all(std::slice::from_ref(&directory)).unwrap(), expected, "cut at {at}");
        fs::remove_dir_all(&directory).unwrap();
    }
    assert_eq!(kept, BTreeSet::from([0, 1, 2]));
}

#[test]
fn a_draft_of_something_else_is_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().join("draft");
    drop(Draft::open(&directory, origin(), None).unwrap());
    let mut other = origin();
    other.keyspace.identity = "directory-2".to_owned();
    assert!(Draft::open(&directory, other, None).err().unwrap().to_string().contains("of another archive"));
    let named = Origin { snapshot: Some("monday".to_owned()), ..origin() };
    assert!(Draft::open(&directory, named, None).is_err());
    assert!(Draft::open(&directory, origin(), Some(ArchiveId(1))).is_err());
    assert!(Draft::open(&directory, origin(), None).is_ok());
    let strange = scratch.path().join("strange");
    fs::create_dir(&strange).unwrap();
    fs::write(strange.join("letter"), "dear").unwrap();
    assert!(Draft::open(&strange, origin(), None).err().unwrap().to_string().contains("no archive"));
}

#[test]
fn a_draft_that_is_being_written_is_left_to_whoever_writes_it() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().join("draft");
    let files = || {
        let files = fs::read_dir(&directory).unwrap();
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect::<BTreeSet<_>>()
    };
    let draft = Draft::open(&directory, origin(), None).unwrap();
    let mut volume = draft.volume().unwrap();
    put(&draft, &mut volume, "a", blob(1, 300, &[(0, 11), (2, 12)]), None);
    let refused = Draft::open(&directory, origin(), None).err().unwrap();
    assert_eq!(refused.kind(), "unavailable");
    assert!(refused.to_string().contains("another export is writing"), "{refused}");
    draft.finish_volume(volume).unwrap();
    assert!(Draft::open(&directory, origin(), None).is_err());
    draft.publish().unwrap();
    assert_eq!(read_all(std::slice::from_ref(&directory)).unwrap().len(), 1);
    assert!(Draft::open(&directory, origin(), None).err().unwrap().to_string().contains("a whole archive"));
    assert_eq!(files(), ["index", "manifest", "volume-000000"].map(str::to_owned).into());
}

#[test]
fn a_lock_that_was_left_is_in_nobodys_way_and_what_is_no_lock_stays() {
    let scratch = tempfile::tempdir().unwrap();
    let lock = scratch.path().join("export.lock");
    fs::write(&lock, "").unwrap();
    drop(Draft::open(scratch.path(), origin(), None).unwrap());
    assert!(!lock.exists());
    fs::write(&lock, "somebody else's").unwrap();
    assert!(
        Draft::open(scratch.path(), origin(), None)
            .err()
            .unwrap()
            .to_string()
            .contains("no file of an archive")
    );
    assert_eq!(fs::read(&lock).unwrap(), b"somebody else's");
    fs::remove_file(&lock).unwrap();
    std::os::unix::fs::symlink("elsewhere", &lock).unwrap();
    assert!(Draft::open(scratch.path(), origin(), None).is_err());
    assert!(!scratch.path().join("elsewhere").exists());
}

#[test]
fn grains_are_made_larger_until_they_are_few_enough() {
    let prints: Vec<(u64, u64)> = (0..3 << 10).map(|index| (index, index * 7)).collect();
    let mut many = blob(1, 1 << 30, &prints);
    let mut same = many.clone();
    many.coarsen_to(1 << 10);
    same.coarsen_to(1 << 10);
    assert_eq!((many.grains.len(), many.grain, &many), (3 << 8, 512, &same));
    let mut changed = prints;
    changed[77].1 += 1;
    let mut other = blob(1, 1 << 30, &changed);
    other.coarsen_to(1 << 10);
    let differing = many.grains.iter().filter(|(index, grain)| other.grains[index] != **grain);
    assert_eq!(differing.map(|(index, _)| *index).collect::<Vec<_>>(), [77 / 4]);
}

proptest! {
    #[test]
    fn no_bytes_make_reading_records_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 0_u8..8) {
        // As they are, and as the body of a record whose checksum is right.
        let mut rest = &bytes[..];
        while let Ok(Next::Record(..)) = Record::read(&mut rest) {}
        let mut framed = vec![kind, 0, 0, 0];
        framed.extend(u32::try_from(bytes.len()).unwrap().to_le_bytes());
        let sum = tyr_wire::checksum::crc32c_append(tyr_wire::checksum::crc32c(&framed), &bytes);
        framed.extend(sum.to_le_bytes());
        framed.extend(&bytes);
        if let Ok(Next::Record(record, length)) = Record::read(&mut &framed[..]) {
            prop_assert_eq!(length, framed.len() as u64);
            let again = record.encode();
            prop_assert!(matches!(Record::read(&mut &again[..]), Ok(Next::Record(same, _)) if same == record));
        }
    }
}

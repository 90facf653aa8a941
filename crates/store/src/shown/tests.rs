use tyr_env::{Access, Disk};
use tyr_sim_env::SimDisk;
use tyr_wire::record::Existence;

use super::*;
use crate::testing::{commit, key, keyspace, open, store};

fn bulk(store: &Store) -> Arc<Segment> {
    let mut segments = store.segments.all().into_iter();
    segments.find(|segment| can_be_shown(segment)).expect("is there")
}

#[test]
fn bytes_lie_in_the_file_where_it_is_said_and_have_the_checksums() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    let space = keyspace(&store, "k");
    let bytes: Vec<u8> = (0..40_000u32).map(|index| (index % 251) as u8).collect();
    commit(&store, space, "a", Existence::Create, &bytes);
    for range in [0..40_000, 5_000..5_001, 4_096..8_192, 4_095..39_999, 39_990..40_000] {
        let stored = store.stored(space, &key("a"), range.clone(), Wait::Allowed).expect("is readable");
        let mut found = Vec::new();
        for part in stored.expect("is in files") {
            let shown = store.show(part.segment).expect("is there");
            let file = disk.open(&shown.name(), Access::Read).expect("opens");
            // The simulated disk reads whole blocks, as direct I/O does.
            let mut blocks = tyr_env::Blocks::zeroed(256 << 10);
            file.read_at(0, blocks.as_bytes_mut()).expect("reads");
            let start = usize::try_from(part.position).expect("fits");
            let lies = &blocks.as_bytes()[start..start + part.size as usize];
            let checksums: Vec<u32> = lies.chunks(4096).map(tyr_wire::checksum::crc32c).collect();
            assert_eq!(checksums, part.checksums);
            found.extend_from_slice(&lies[part.part.start as usize..part.part.end as usize]);
        }
        let range = usize::try_from(range.start).expect("fits")..usize::try_from(range.end).expect("fits");
        assert_eq!(found, bytes[range]);
    }
}

#[test]
fn small_payload_holes_and_what_is_not_there_are_in_no_file_that_is_shown() {
    let (store, space) = store();
    commit(&store, space, "small", Existence::Create, &[7; 100]);
    commit(&store, space, "large", Existence::Create, &[7; 40_000]);
    let stored = |name, range| store.stored(space, &key(name), range, Wait::Allowed).expect("is readable");
    assert_eq!(stored("small", 0..100), None, "it is in the log");
    assert_eq!(stored("large", 39_000..40_001), None, "it ends before");
    assert_eq!(stored("none", 0..1), None);
    assert!(stored("large", 39_000..40_000).is_some());
    let log = store.segments.all().into_iter().find(|segment| !can_be_shown(segment)).expect("is there");
    assert!(store.show(log.id).is_none(), "a log is not shown");
    assert!(store.show(SegmentId(u64::MAX)).is_none());
}

#[test]
fn a_segment_that_was_shown_is_not_recycled() {
    let (store, space) = store();
    commit(&store, space, "a", Existence::Create, &[7; 40_000]);
    let (id, kind) = {
        let segment = bulk(&store);
        (segment.id, segment.kind)
    };
    let shown = store.show(id).expect("is there");
    let name = shown.name();
    drop(shown);
    store.segments.empty(&[id]);
    for _ in 0..4 {
        let next = store.segments.take(kind).expect("there is space");
        assert_ne!(next.name(), name);
    }
    let kept = store.segments.idle_bytes();
    store.segments.trim(100, |_| true).expect("removes");
    assert!(store.segments.idle_bytes() < kept, "its file is removed");
}

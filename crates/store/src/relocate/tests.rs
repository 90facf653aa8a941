//! What happens between the steps of emptying a segment.

use tyr_wire::record::Existence;

use super::*;
use crate::{
    compacting::Emptied,
    testing::{commit, key, keyspace, settle, store},
    transact::{BlobChange, Stop},
};

/// The segments that hold payload of a length now, ready to be emptied.
fn filled(store: &Store) -> Vec<Arc<Segment>> {
    store.log.close_all_bulk();
    store.checkpoint().expect("checkpoints");
    store.segments.all().into_iter().filter(|segment| segment.live() > 0).collect()
}

fn evacuate(store: &Store, segment: &Arc<Segment>) -> Emptied {
    store.evacuate(segment).expect("moves everything");
    store.check_empty(segment).expect("everything is somebody's")
}

#[test]
fn a_segment_is_emptied_though_a_blob_in_it_was_replaced_and_not_yet_collected() {
    for (len, existence) in
        [(150_000, Existence::Replace), (150_000, Existence::Delete), (70_000, Existence::Replace)]
    {
        let (store, space) = store();
        commit(&store, space, "a", Existence::Create, &vec![1; len]);
        commit(&store, space, "b", Existence::Create, &vec![2; len]);
        let segments = filled(&store);
        let bytes = if existence == Existence::Delete { Vec::new() } else { vec![3; 10] };
        commit(&store, space, "a", existence, &bytes);
        let waiting = store.backlog.lock().garbage.len();
        assert_eq!(waiting, 1, "the rest of the blob waits to be collected");
        for segment in segments.iter().filter(|segment| segment.kind != SegmentKind::Log) {
            assert_eq!(evacuate(&store, segment), Emptied::Whole);
        }
        settle(&store);
        let mut buffer = vec![0; len];
        let read = store.read(space, &key("b"), Number::MAX, 0, &mut buffer, Wait::Allowed).expect("reads");
        assert!(read.is_some_and(|(_, read)| read == len) && buffer == vec![2; len]);
    }
}

#[test]
fn a_log_segment_is_emptied_though_a_blob_in_it_was_deleted_and_not_yet_collected() {
    let (store, space) = store();
    commit(&store, space, "a", Existence::Create, &[]);
    for index in 0..3u64 {
        let change = BlobChange {
            existence: Existence::Keep,
            cut: None,
            holes: Vec::new(),
            size: (index + 1) * LEAF_SPAN,
            attributes: None,
            writes: vec![(index * LEAF_SPAN, Payload::new(&[7; 9000]))],
        };
        let put = store.transact(Wait::Allowed, |writer| -> Result<(), Stop<Error>> {
            writer.head(space, &key("a"))?;
            writer.put(space, &key("a"), change.clone());
            Ok(())
        });
        put.expect("commits").1.wait().expect("durable");
    }
    let segments = filled(&store);
    commit(&store, space, "a", Existence::Delete, &[]);
    assert_eq!(store.backlog.lock().garbage.len(), 1);
    for segment in &segments {
        // What was logged since keeps the segment that is being filled from being empty, not from being free of the blob.
        store.evacuate(segment).expect("moves everything");
        assert_eq!(store.check_empty(segment).expect("nothing is left"), Emptied::Whole);
    }
    settle(&store);
}

#[test]
fn what_a_keyspace_left_behind_that_was_dropped_meanwhile_is_waited_for() {
    let (store, space) = store();
    let dropped = keyspace(&store, "dropped");
    commit(&store, dropped, "a", Existence::Create, &[1; 9000]);
    // Enough for the log to go on in another segment.
    (0..30).for_each(|n| commit(&store, space, &format!("b{n}"), Existence::Create, &[1; 9000]));
    let segments = filled(&store);
    let log = segments.iter().find(|segment| segment.kind == SegmentKind::Log).expect("is there");
    assert!(store.log.open_segments().iter().all(|open| open.id != log.id));
    store.drop_keyspace(dropped).expect("drops");
    assert_eq!(evacuate(&store, log), Emptied::ButForGarbage);
    while !store.backlog.lock().garbage.is_empty() {
        store.maintain().expect("maintains");
    }
    assert_eq!(evacuate(&store, log), Emptied::Whole);
    settle(&store);
}

#[test]
fn live_bytes_that_are_nobodys_keep_a_segment() {
    let (store, space) = store();
    commit(&store, space, "a", Existence::Create, &[1; 70_000]);
    let segments = filled(&store);
    let bulk = segments.iter().find(|segment| segment.kind != SegmentKind::Log).expect("is there");
    bulk.add_live(100);
    store.evacuate(bulk).expect("moves everything else");
    let error = store.check_empty(bulk).expect_err("100 bytes are left");
    assert_eq!(error.kind(), ErrorKind::Internal);
    let error = store.compact().expect_err("tells it");
    assert_eq!(error.kind(), ErrorKind::Internal);
    // Once; what else there is to do is done.
    store.compact().expect("compacts");
    assert!(store.segments.find(bulk.id).is_some(), "it is kept");
}

#[test]
fn a_leaf_is_defragmented_though_its_segment_is_emptied_while_it_is_read() {
    let (store, space) = store();
    commit(&store, space, "a", Existence::Create, &[1; 20_000]);
    let entry = (space, key("a"));
    let segments = filled(&store);
    let bulk = segments.iter().find(|segment| segment.kind != SegmentKind::Log).expect("is there");
    let asked = Cell::new(0);
    let rewrite = |extents: &[Extent], cuts: &[Cut], index: u64| {
        asked.set(asked.get() + 1);
        if asked.get() == 1 {
            assert_eq!(evacuate(&store, bulk), Emptied::Whole);
            store.checkpoint.lock().evacuated.insert(bulk.id);
            store.checkpoint().expect("checkpoints");
            assert!(store.segments.find(bulk.id).is_none());
        }
        // As after a start: nothing of it is in memory.
        let extents: Vec<Extent> = extents.to_vec();
        if extents.iter().any(|extent| store.segments.find(extent.place.segment).is_none()) {
            return Ok(Planned::Gone(bulk.id));
        }
        store.joined(&extents, cuts, index)
    };
    store.rewrite(&Object::Entry(entry), &rewrite, Purpose::Defragment).expect("looks again");
    assert_eq!(asked.get(), 2);
    settle(&store);
}

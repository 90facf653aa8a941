use std::ops::Range;

use tyr_sim_env::{SimClock, SimDisk};
use tyr_types::Number;
use tyr_wire::record::Existence;

use super::*;
use crate::{
    miss::Wait,
    payload::Payload,
    rebase::CUTS_MAX,
    store::entry_key,
    testing::{commit, key, keyspace, open, options, put},
    transact::BlobChange,
};

#[test]
fn a_leaf_that_was_emptied_stays_empty_when_the_cuts_that_did_it_are_forgotten() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    let space = keyspace(&store, "k");
    let change = |existence, cut, size, writes| {
        put(
            &store,
            space,
            "a",
            &BlobChange { existence, cut, holes: Vec::new(), size, attributes: None, writes },
        );
    };
    let far = 2 * LEAF_SPAN + 1000;
    let writes = vec![(0, Payload::new(&[1; 100])), (far, Payload::new(&[2; 5000]))];
    change(Existence::Create, None, far + 5000, writes);
    let collect = || while store.maintain().expect("maintains") == crate::maintain::Maintained::Worked {};
    let leaf_count = || {
        let entry = store.loaded(store.entry(&entry_key(space, &key("a")), Wait::Allowed)).expect("loads");
        store.leaves_from(space, entry.blobs[0].id, 1).expect("finds").len()
    };
    assert_eq!(leaf_count(), 1);
    change(Existence::Keep, Some(1000), 1000, Vec::new());
    collect();
    store.checkpoint().expect("checkpoints");
    assert_eq!(leaf_count(), 0, "the index has forgotten it");
    for n in 1..=CUTS_MAX as u64 + 1 {
        change(Existence::Keep, None, far, Vec::new());
        // Further every time, so that no cut makes an earlier one superfluous.
        change(Existence::Keep, Some(1000 + n), 1000 + n, Vec::new());
    }
    collect();
    let entry = store.loaded(store.entry(&entry_key(space, &key("a")), Wait::Allowed)).expect("loads");
    assert_eq!(entry.blobs[0].cuts, [], "they were worked into the leaves that there are");
    change(Existence::Keep, None, far + 5000, Vec::new());
    store.close().expect("closes");
    drop(store);
    let store = Store::open_rebuilding(disk, SimClock::new(), options()).expect("rebuilds");
    let mut bytes = vec![0xee; 5000];
    store.read(space, &key("a"), Number::MAX, far, &mut bytes, Wait::Allowed).expect("reads");
    assert!(bytes == vec![0; 5000], "old bytes are back");
}

/// What a log says of a blob that it tells of only later: its beginning was moved to the log's end.
#[test]
fn a_hole_is_there_though_the_log_tells_of_its_leaf_before_the_blob() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    let space = keyspace(&store, "k");
    let change = |existence, hole: Option<Range<u64>>, writes| {
        let holes = hole.into_iter().collect();
        let change =
            BlobChange { existence, cut: None, holes, size: 4 * LEAF_SPAN, attributes: None, writes };
        put(&store, space, "a", &change);
    };
    change(Existence::Create, None, vec![(0, Payload::new(&[1; 100]))]);
    // The rest is in another segment.
    let segments = || store.segments.all();
    let first = segments().into_iter().find(|segment| segment.live() > 0).expect("the log has begun");
    (0..30).for_each(|n| commit(&store, space, &format!("b{n}"), Existence::Create, &[1; 9000]));
    assert!(store.log.open_segments().iter().all(|open| open.id != first.id));
    let far = 3 * LEAF_SPAN;
    change(Existence::Keep, None, vec![(far, Payload::new(&[2; 5000]))]);
    change(Existence::Keep, Some(far + 1000..far + 2000), Vec::new());
    store.evacuate(&first).expect("moves everything");
    store.checkpoint.lock().evacuated.insert(first.id);
    store.checkpoint().expect("checkpoints");
    assert!(segments().iter().all(|segment| segment.id != first.id), "it is empty");
    store.close().expect("closes");
    drop(store);
    let store = Store::open_rebuilding(disk, SimClock::new(), options()).expect("rebuilds");
    let mut bytes = vec![0xee; 5000];
    store.read(space, &key("a"), Number::MAX, far, &mut bytes, Wait::Allowed).expect("reads");
    let expected: Vec<u8> =
        (0..5000).map(|place| if (1000..2000).contains(&place) { 0 } else { 2 }).collect();
    assert!(bytes == expected, "what was punched is back");
}

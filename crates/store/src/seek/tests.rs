use std::{iter, ops::Range};

use tyr_types::{Key, KeyspaceId, Number, Seek};
use tyr_wire::record::Existence;

use crate::{
    Wait,
    payload::Payload,
    store::Store,
    testing::{commit, key, put, settle, store},
    transact::BlobChange,
};

fn change(holes: Vec<Range<u64>>, writes: Vec<(u64, Payload)>) -> BlobChange {
    BlobChange { existence: Existence::Keep, cut: None, holes, size: 1 << 30, attributes: None, writes }
}

fn punched(hole: Range<u64>) -> BlobChange {
    change(iter::once(hole).collect(), Vec::new())
}

/// Where data and holes begin, in turn.
fn borders(store: &Store, space: KeyspaceId, key: &Key, at: Number) -> Vec<u64> {
    let mut borders = Vec::new();
    let mut next = Some(0);
    for what in [Seek::Data, Seek::Hole].into_iter().cycle() {
        let Some(from) = next else { break };
        next = store.seek(space, key, at, what, from, Wait::Allowed).unwrap().expect("is there");
        borders.extend(next);
    }
    borders
}

#[test]
fn holes_are_where_nothing_is_and_stay_there_whatever_is_moved() {
    let (store, space) = store();
    let key = key("a");
    commit(&store, space, "a", Existence::Create, &[7; 200_000]);
    put(&store, space, "a", &change(Vec::new(), vec![(1 << 29, Payload::new(&[8; 10]))]));
    let far = 1 << 29;
    assert_eq!(borders(&store, space, &key, Number::MAX), [0, 200_000, far, far + 10]);
    let before = store.segments.all().iter().map(|segment| segment.live()).sum::<u64>();
    put(&store, space, "a", &change(vec![10..20, 60_000..150_000], vec![(100, Payload::new(&[9; 5]))]));
    let expected = [0, 10, 20, 60_000, 150_000, 200_000, far, far + 10];
    assert_eq!(borders(&store, space, &key, Number::MAX), expected);
    settle(&store);
    store.compact().expect("compacts");
    settle(&store);
    assert_eq!(borders(&store, space, &key, Number::MAX), expected);
    let mut bytes = [1; 200_000];
    store.read(space, &key, Number::MAX, 0, &mut bytes, Wait::Allowed).unwrap().expect("is there");
    let expected: Vec<u8> = (0..200_000)
        .map(|place| match place {
            10..20 | 60_000..150_000 => 0,
            100..105 => 9,
            _ => 7,
        })
        .collect();
    assert!(bytes == expected[..]);
    put(&store, space, "a", &punched(0..1 << 30));
    assert!(borders(&store, space, &key, Number::MAX).is_empty());
    settle(&store);
    let after = store.segments.all().iter().map(|segment| segment.live()).sum::<u64>();
    assert!(after < before / 20, "{before} bytes were live, and {after} are");
}

#[test]
fn a_pin_sees_what_was_there_before_a_hole() {
    let (store, space) = store();
    let key = key("a");
    commit(&store, space, "a", Existence::Create, &[7; 100_000]);
    let pin = store.pin_keyspaces(&[space]).expect("pins");
    put(&store, space, "a", &punched(0..70_000));
    assert_eq!(borders(&store, space, &key, pin.number()), [0, 100_000]);
    assert_eq!(borders(&store, space, &key, Number::MAX), [70_000, 100_000]);
}

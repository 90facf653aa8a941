use tyr_sim_env::{SimClock, SimDisk};
use tyr_types::{ErrorKind, KeyspaceId, KeyspaceName};
use tyr_wire::extent::LEAF_SPAN;

use super::*;
use crate::{
    maintain::Maintained,
    miss::Wait,
    options::{Create, Options, SEGMENT_SIZE_MIN},
    payload::Payload,
    store::entry_key,
    testing::{commit, key, keyspace, options, put, settle, store},
    transact::{BlobChange, Refused, Stop},
};

fn store_with(segment_size: u64) -> (Store, KeyspaceId) {
    let options = Options { segment_size, ..options() };
    let store = Store::open(SimDisk::new(1), SimClock::new(), Create::New, options).expect("opens");
    let space = keyspace(&store, "k");
    (store, space)
}

fn keep(writes: Vec<(u64, Payload)>, attributes: Option<Attributes>) -> BlobChange {
    let size = writes.iter().map(|(offset, payload)| offset + payload.len() as u64).max().unwrap_or(0);
    BlobChange { existence: Existence::Keep, cut: None, holes: Vec::new(), size, attributes, writes }
}

fn large(round: u8) -> Attributes {
    let mut attributes = Attributes::default();
    attributes.set("v", Some(&[round; 60_000])).expect("is within bounds");
    attributes
}

fn try_put(store: &Store, space: KeyspaceId, name: &str, change: &BlobChange) -> Result<()> {
    let key = key(name);
    let other = key_of_other();
    let committed = store.transact(Wait::Allowed, |writer| -> Result<(), Stop<Error>> {
        writer.head(space, &key)?;
        writer.head(space, &other)?;
        writer.put(space, &other, BlobChange { existence: Existence::Replace, ..keep(Vec::new(), None) });
        writer.put(space, &key, change.clone());
        Ok(())
    });
    match committed {
        Ok((_, ticket)) => ticket.wait(),
        Err(Refused::Failed(error)) => Err(error),
        other => panic!("{other:?}"),
    }
}

/// Of a blob that every transaction changes, too.
fn key_of_other() -> tyr_types::Key {
    key("other")
}

fn name(n: u8) -> KeyspaceName {
    KeyspaceName::new(&format!("s{n}")).expect("valid")
}

#[test]
fn attributes_that_snapshots_keep_are_refused_before_no_checkpoint_can_write_them() {
    let (store, space) = store_with(8 << 20);
    commit(&store, space, "a", Existence::Create, b"hello");
    let mut changed = 0;
    let refused = loop {
        assert!(changed < 50, "nothing is refused");
        match try_put(&store, space, "a", &keep(Vec::new(), Some(large(changed)))) {
            Ok(()) => store.create_snapshot(space, name(changed), 0).expect("creates"),
            Err(error) => break error,
        };
        changed += 1;
    };
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    assert!(refused.message().contains("'a'") && (25..35).contains(&changed), "{changed}: {refused}");
    let applied = store.entries.find(&entry_key(space, &key_of_other())).expect("is there").applied;
    assert!(
        applied <= store.snapshots(space).expect("is there")[usize::from(changed) - 1].number,
        "all or nothing"
    );
    store.checkpoint().expect("checkpoints");
    commit(&store, space, "b", Existence::Create, &[1; 100]);
    settle(&store);
    // As soon as there are fewer snapshots, not when they have been collected.
    for n in 0..4 {
        store.drop_snapshot(space, &name(n)).expect("drops");
    }
    try_put(&store, space, "a", &keep(Vec::new(), Some(large(100)))).expect("fits");
    // Which is not seen by any snapshot, so that the next takes its place.
    for n in 101..110 {
        try_put(&store, space, "a", &keep(Vec::new(), Some(large(n)))).expect("fits");
    }
    commit(&store, space, "a", Existence::Delete, &[]);
    settle(&store);
}

#[test]
fn a_blob_of_which_no_more_can_be_kept_can_be_deleted() {
    let (store, space) = store_with(8 << 20);
    commit(&store, space, "a", Existence::Create, b"hello");
    let pins: Vec<_> = (0..50)
        .map_while(|n| {
            let change = BlobChange { existence: Existence::Replace, ..keep(Vec::new(), Some(large(n))) };
            try_put(&store, space, "a", &change).ok()?;
            Some(store.pin_keyspaces(&[space]).expect("pins"))
        })
        .collect();
    assert!((25..35).contains(&pins.len()));
    commit(&store, space, "a", Existence::Delete, &[]);
    store.checkpoint().expect("checkpoints");
    drop(pins);
    settle(&store);
    commit(&store, space, "a", Existence::Create, b"again");
}

#[test]
fn small_pieces_of_a_leaf_that_is_pinned_are_refused_before_it_cannot_be_moved() {
    for base in [0, LEAF_SPAN] {
        let (store, space) = store_with(SEGMENT_SIZE_MIN);
        commit(&store, space, "a", Existence::Create, &vec![1; 2 * 65_536]);
        let pin = store.pin_keyspaces(&[space]).expect("pins");
        let pieces = |from: u64| {
            let piece = |n: u64| (base + 2 * (from + n), Payload::new(b"x"));
            BlobChange { size: 2 * LEAF_SPAN, ..keep((0..100).map(piece).collect(), None) }
        };
        let mut written = 0;
        let refused = loop {
            assert!(written < 3000, "nothing is refused");
            match try_put(&store, space, "a", &pieces(written)) {
                Ok(()) => written += 100,
                Err(error) => break error,
            }
        };
        assert_eq!(refused.kind(), ErrorKind::Invalid);
        assert!((1000..2000).contains(&written), "{written}");
        settle(&store);
        store.compact().expect("what is kept can be moved");
        drop(pin);
        while store.maintain().expect("maintains") == Maintained::Worked {}
        put(&store, space, "a", &pieces(written));
        settle(&store);
    }
}

#[test]
fn a_store_in_which_too_much_is_kept_heals_when_the_pins_are_gone() {
    let (store, space) = store();
    commit(&store, space, "a", Existence::Create, b"hello");
    let key = entry_key(space, &key("a"));
    let mut entry = Entry::clone(&store.entries.find(&key).expect("is there"));
    let head = Head { attributes: Arc::new(large(1)), ..Head::clone(&entry.blobs[0].heads[0]) };
    entry.blobs[0].heads.extend(std::iter::repeat_n(Arc::new(head), 40));
    store.entries.change(&mut store.entries.lock(&key), &key, Arc::new(entry));
    store.backlog.lock().history_due = false;
    store.checkpoint().expect_err("no table has such an entry");
    store.maintain().expect_err("a checkpoint is due");
    store.backlog.add_historic_entry(&key);
    store.backlog.pin_released();
    assert_eq!(store.maintain(), Ok(Maintained::Worked));
    settle(&store);
    assert_eq!(store.entries.find(&key).expect("is there").blobs[0].heads.len(), 1);
}

//! What a primary does with the blobs of a keyspace that was dropped.

use super::*;
use crate::encoding::{from_bytes, to_bytes};

const COUNT: u64 = 200;

fn name(keyspace: u32, number: u64) -> BlobName {
    BlobName { keyspace: KeyspaceId(keyspace), key: Key::new(alloc::format!("b{number:03}")).unwrap() }
}

fn append(router: &mut Router, sequence: u64, blob: BlobName) {
    let operations = Vec::from([Operation::Append { bytes: [1; 4][..].into() }]);
    let heads = Vec::from([HeadPlan::blind(partition(0), blob, operations)]);
    let plan = Plan { id: id(sequence), answered: sequence, reserve: None, heads };
    let message = Message::Start(Arc::new(plan));
    router.handle_message(Time(0), true, Envelope { partition: partition(0), message });
    run(router);
}

/// The blobs that exist.
fn there(router: &Router) -> Vec<BlobName> {
    let heads = router.partition(partition(0)).unwrap().state().heads();
    heads.filter(|(_, head)| head.blob().is_some()).map(|(blob, _)| blob.clone()).collect()
}

#[test]
fn that_a_keyspace_was_dropped_is_a_part_of_its_bytes() {
    let [exists, dropped] = [false, true].map(|is_dropped| Keyspace { is_dropped, ..keyspace(4) });
    for told in [&exists, &dropped] {
        assert_eq!(&from_bytes::<Keyspace>(&to_bytes(told)).unwrap(), told);
    }
    assert_ne!(to_bytes(&exists), to_bytes(&dropped));
}

#[test]
fn the_blobs_of_a_dropped_keyspace_are_deleted_some_at_a_time_and_nobody_makes_new_ones() {
    let mut router = primary();
    let mut keyspaces = BTreeMap::from([(KeyspaceId(1), keyspace(1)), (KeyspaceId(2), keyspace(1))]);
    router.handle_keyspaces(Arc::new(keyspaces.clone()));
    for number in 0..COUNT {
        append(&mut router, 1 + 2 * number, name(1, number));
        append(&mut router, 2 + 2 * number, name(2, number));
    }
    assert_eq!(there(&router).len() as u64, 2 * COUNT);
    keyspaces.get_mut(&KeyspaceId(1)).unwrap().is_dropped = true;
    router.handle_keyspaces(Arc::new(keyspaces));

    let kept: Vec<_> = (0..COUNT).map(|number| name(2, number)).collect();
    let mut left = Vec::from([there(&router).len()]);
    let mut now = 1_000_000;
    while there(&router) != kept {
        assert!(now < 2_000_000, "{} blobs are there", there(&router).len());
        router.handle_tick(Time(now), true);
        run(&mut router);
        left.push(there(&router).len());
        now += 5_000;
    }
    left.dedup();
    assert!(left.len() > 3, "all at once, or too many at a time: {left:?}");
    append(&mut router, 10_000, name(1, 0));
    append(&mut router, 10_001, name(2, COUNT));
    assert_eq!(there(&router).len() as u64, COUNT + 1, "nothing begins in what was dropped");

    // What waits to be collected is left alone, and so is the log.
    let last = |router: &Router| router.partition(partition(0)).unwrap().log().last();
    (0..100).for_each(|turn| {
        router.handle_tick(Time(3_000_000 + turn * 50_000), true);
        run(&mut router);
    });
    let before = last(&router);
    router.handle_tick(Time(20_000_000), true);
    run(&mut router);
    assert_eq!(last(&router), before);
}

#[test]
fn no_client_has_a_session_of_nodes() {
    for random in [0, 1, 0xff << 56, u64::MAX, 0x7fff_ffff_ffff_ffff] {
        let session = SessionId::of_client(random);
        assert!(!session.is_of_node() && session != SessionId(0), "{random:x}");
    }
    assert!(SessionId::of_node(u64::from(u32::MAX)).is_of_node());
}

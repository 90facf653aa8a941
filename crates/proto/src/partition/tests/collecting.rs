//! Heads of blobs that are gone.

use super::*;

/// A transaction that does something to a blob here, and then writes one elsewhere.
fn start(sequence: u64, operation: Operation, goes_on: bool) -> Message {
    let keyspace = keyspace(2);
    let named = |key: u8| BlobName { keyspace: KeyspaceId(1), key: Key::new([key]).unwrap() };
    let name_in =
        |index| (0..).map(named).find(|blob| keyspace.partition_of(blob, 0) == partition(index)).unwrap();
    let mut heads = Vec::from([HeadPlan::blind(partition(0), name_in(0), Vec::from([operation]))]);
    if goes_on {
        heads.push(HeadPlan::blind(partition(1), name_in(1), Vec::from([Operation::Create])));
    }
    Message::Start(Arc::new(Plan { id: id(sequence), answered: 0, reserve: None, heads }))
}

#[test]
fn the_head_of_a_deleted_blob_goes_once_nothing_is_under_way_at_it() {
    let mut router = primary_of(&keyspace(2));
    let tell = |router: &mut Router, message| {
        router.handle_message(Time(0), true, Envelope { partition: partition(0), message });
        run(router);
    };
    let heads = |router: &Router| router.partition(partition(0)).unwrap().state().heads().count();
    tell(&mut router, start(1, Operation::Create, false));
    tell(&mut router, start(2, Operation::Delete, false));
    tell(&mut router, start(3, Operation::Create, true));
    let collect = |router: &mut Router, from: u64| {
        for round in 0..4 {
            router.handle_tick(Time(from + round * 60_000), true);
            run(router);
        }
    };
    collect(&mut router, 100_000);
    assert_eq!(heads(&router), 1, "it is not known yet whether it is there again");
    let outcome = Outcome::Refused(Refusal::Conflict);
    tell(&mut router, Message::Outcome { id: id(3), outcome, driver: Some(partition(1)) });
    collect(&mut router, 1_000_000);
    assert_eq!(heads(&router), 0);
}

#[test]
fn the_head_of_a_deleted_blob_goes_though_it_never_had_any_bytes() {
    let mut router = primary_of(&keyspace(2));
    for (sequence, operation) in [(1, Operation::Create), (2, Operation::Delete)] {
        let message = start(sequence, operation, false);
        router.handle_message(Time(0), true, Envelope { partition: partition(0), message });
        run(&mut router);
    }
    router.handle_tick(Time(100_000), true);
    run(&mut router);
    assert_eq!(router.partition(partition(0)).unwrap().state().heads().count(), 0);
}

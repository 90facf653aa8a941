//! Transactions over many blobs at several stops.

use super::*;

/// A transaction that writes so many blobs at each of two partitions, of which the first is here.
fn start(blobs: u16) -> Message {
    let keyspace = keyspace(2);
    let head = |index: u32, blob: BlobName| {
        let operations = Vec::from([Operation::Write { offset: 0, bytes: [1; 4][..].into() }]);
        HeadPlan { partition: partition(index), blob, seen: None, operations }
    };
    let heads = (0..2).flat_map(|index| {
        let names = (0_u32..).map(|number| alloc::format!("{number:08}"));
        let all = names.map(|name| BlobName { keyspace: KeyspaceId(1), key: Key::new(name).unwrap() });
        let here = all.filter(|blob| keyspace.partition_of(blob, 0) == partition(index));
        let heads: Vec<_> = here.take(usize::from(blobs)).map(|blob| head(index, blob)).collect();
        heads
    });
    Message::Start(Arc::new(Plan { id: id(1), answered: 0, reserve: None, heads: heads.collect() }))
}

/// How often it is passed on with what the node has to say.
fn passed_on(router: &mut Router) -> usize {
    run(router).iter().filter(|message| matches!(message, Message::Pass { .. })).count()
}

#[test]
fn the_more_there_is_to_say_at_the_more_stops_the_later_it_is_said_again() {
    for (blobs, expected) in [(1, [1, 1, 1]), (1000, [1, 0, 1])] {
        let mut router = primary_of(&keyspace(2));
        router.handle_message(Time(0), true, Envelope { partition: partition(0), message: start(blobs) });
        let mut times = Vec::from([passed_on(&mut router)]);
        for now in [30_000, 300_000] {
            router.handle_tick(Time(now), true);
            times.push(passed_on(&mut router));
        }
        assert_eq!(times, expected, "{blobs} blobs");
    }
}

//! What is left of chunks whose blobs are gone.

use super::*;
use crate::{
    encoding::{from_bytes, to_bytes},
    entry::Tombstone,
};

fn tell(router: &mut Router, now: u64, message: Message) {
    router.handle_message(Time(now), true, Envelope { partition: partition(0), message });
}

/// What a head's partition says of a tombstone of the blob.
fn answers(router: &mut Router, now: u64) -> Vec<Message> {
    let chunk = ChunkName { blob: blob(), index: 1 };
    let tombstones = Vec::from([Tombstone { chunk, last: Number::new(2, 3) }]);
    tell(router, now, Message::AskPurge { tombstones, partition: partition(1), ask: (Epoch(1), 1) });
    let mut sent = Vec::new();
    let mut stored = Vec::new();
    while let Some(output) = router.poll_output() {
        match output {
            Output::Send(_, envelope) => sent.push(envelope.message),
            Output::Store { partition, index, epoch, .. } => stored.push((partition, index, epoch)),
            _ => {}
        }
    }
    for (partition, index, epoch) in stored {
        router.handle_stored(Time(now), true, partition, index, epoch);
    }
    sent.extend(run(router));
    sent.retain(|message| matches!(message, Message::Purge { .. }));
    sent
}

#[test]
fn a_blob_is_said_to_be_gone_once_its_head_cannot_come_back() {
    let mut router = primary();
    let start = |sequence, operation| {
        let heads = Vec::from([HeadPlan::blind(partition(0), blob(), Vec::from([operation]))]);
        Message::Start(Arc::new(Plan { id: id(sequence), answered: 0, reserve: None, heads }))
    };
    let write = || Operation::Write { offset: CHUNK_SIZE_MIN, bytes: [1; 4][..].into() };
    for (sequence, operation) in [(1, write()), (2, Operation::Delete)] {
        tell(&mut router, 0, start(sequence, operation));
        run(&mut router);
    }
    let counts = |messages: &[Message]| match messages {
        [Message::Purge { gone, alive, .. }] => Some((gone.len(), alive.len())),
        [] => None,
        _ => panic!("{messages:?}"),
    };
    assert_eq!(counts(&answers(&mut router, 1)), None, "it was deleted, and its head is there");
    router.handle_tick(Time(100_000), true);
    let heads = |router: &Router| router.partition(partition(0)).unwrap().state().heads().count();
    while heads(&router) > 0 {
        if let Output::Store { partition, index, epoch, .. } = router.poll_output().unwrap() {
            router.handle_stored(Time(100_000), true, partition, index, epoch);
        }
    }
    assert_eq!(counts(&answers(&mut router, 100_000)), None, "that it was dropped is not durable");
    assert_eq!(counts(&answers(&mut router, 100_001)), Some((1, 0)));
    tell(&mut router, 100_002, start(3, Operation::Create));
    run(&mut router);
    assert_eq!(counts(&answers(&mut router, 100_003)), Some((1, 0)), "the new head does not know it");
    tell(&mut router, 100_004, start(4, write()));
    run(&mut router);
    assert_eq!(counts(&answers(&mut router, 100_005)), Some((0, 1)), "now it does");
}

#[test]
fn writes_of_a_transaction_that_may_be_forgotten_wait_until_its_number_is_said_to_stand() {
    let keyspace = keyspace(2);
    let named = |key: u8| BlobName { keyspace: KeyspaceId(1), key: Key::new([key]).unwrap() };
    let elsewhere = (0..).map(named).find(|blob| keyspace.partition_of(blob, 0) == partition(1)).unwrap();
    for stands in [true, false] {
        let mut router = primary_of(&keyspace);
        router.handle_ring_version(RingVersion(1));
        let answered =
            Message::Answered { session: SessionId(1), answered: Answered::below(2), born: RingVersion(1) };
        tell(&mut router, 0, answered);
        router.handle_tick(Time(DEFER_MAX), true);
        run(&mut router);
        let state = |router: &Router| router.partition(partition(0)).unwrap().state().clone();
        assert!(state(&router).is_over(id(1)));
        let operations = Vec::from([ChunkOperation::Cut { range: 0..9 }]);
        let write =
            ChunkWrite { chunk: 1, partition: partition(0), previous: None, operations, drops_former: false };
        let number = Number::new(1, 5);
        let writes = Vec::from([(elsewhere.clone(), number, write)]);
        let writes = Arc::new(ChunkWrites { id: id(1), decider: partition(1), refused: None, writes });
        tell(&mut router, DEFER_MAX, Message::Write { writes, driver: partition(1) });
        let sent = run(&mut router);
        assert!(state(&router).record(id(1)).is_none());
        let asks = sent.iter().filter_map(|message| match message {
            Message::AskStands { asked, .. } => Some(*asked),
            _ => None,
        });
        let [asked] = asks.collect::<Vec<_>>()[..] else { panic!("{sent:?}") };
        for (epoch, time) in [(Epoch(1), asked.1), (asked.0, Time(asked.1.0 - 1))] {
            let message = Message::Stands { id: id(1), asked: (epoch, time), stands: true };
            tell(&mut router, DEFER_MAX, message);
            run(&mut router);
            assert!(state(&router).record(id(1)).is_none(), "that was asked before, and may be true no more");
        }
        tell(&mut router, DEFER_MAX, Message::Stands { id: id(1), asked, stands });
        run(&mut router);
        assert_eq!(state(&router).record(id(1)).is_some(), stands);
        assert_eq!(router.partition(partition(0)).unwrap().unfinished(), usize::from(stands));
    }
}

#[test]
fn a_chunk_that_was_purged_comes_back_if_the_log_is_cut_before_that() {
    let name = ChunkName { blob: blob(), index: 1 };
    let operations = Vec::from([ChunkOperation::Cut { range: 0..u64::MAX }]);
    let write =
        ChunkWrite { chunk: 1, partition: partition(0), previous: None, operations, drops_former: false };
    let last = Number::new(1, 5);
    let writes = Vec::from([(blob(), last, write)]);
    let writes = Arc::new(ChunkWrites { id: id(1), decider: partition(1), refused: None, writes });
    let mut state = State::new(partition(0));
    state.apply(1, Epoch(1), &Entry::Write(writes));
    state.apply(2, Epoch(1), &Entry::Outcomes(Vec::from([(id(1), Outcome::Committed)])));
    assert!(state.chunk(&name).unwrap().is_tombstone());
    let purge = |last| Entry::Purge(Vec::from([Tombstone { chunk: name.clone(), last }]));
    state.apply(3, Epoch(1), &purge(Number::new(1, 4)));
    assert!(state.chunk(&name).is_some(), "it was written since");
    state.apply(4, Epoch(1), &purge(last));
    assert!(state.chunk(&name).is_none());

    let bytes = to_bytes(&state);
    let mut copy: State = from_bytes(&to_bytes(&*state.to_copy())).unwrap();
    copy.cut_log(3);
    assert!(copy.chunk(&name).is_none(), "the log of a copy is not cut before it");
    for state in [&mut state, &mut from_bytes::<State>(&bytes).unwrap()] {
        state.cut_log(3);
        assert_eq!(state.chunk(&name).unwrap().last_arrival(), last);
        state.apply(4, Epoch(2), &purge(last));
        state.trim_log(4);
        state.cut_log(3);
        assert!(state.chunk(&name).is_none());
    }
}

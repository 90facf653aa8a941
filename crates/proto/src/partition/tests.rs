//! One primary alone, and what it says to messages that come late.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod collecting;
mod deferred;
mod early;
mod queued;
mod quota;
mod rest;
mod room;
mod served;
mod size;
mod staging;
mod sweeping;
mod tombstones;
mod wide;

use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};

use tyr_types::{CHUNK_SIZE_MIN, Key, KeyspaceId, KeyspaceSettings, Number, Operand, Transform};

use crate::{
    Answered, BlobName, ChunkName, ClassId, Configuration, Epoch, HeadPlan, Incarnation, Keyspace,
    KeyspaceSeed, Layout, Limits, NodeId, Operation, Outcome, Output, PartitionCount, PartitionId, Placement,
    Plan, Refusal, Replica, RingVersion, Router, SessionId, Snapshots, Stage, State, Time, TransactionId,
    entry::{
        ChunkOperation, ChunkWrite, ChunkWrites, Entry, ExistenceEffect, HeadEffect, Link, Part, SizeEffect,
        Stop,
    },
    message::{Answer, Envelope, Message, RequestId},
    partition::deferred::DEFER_MAX,
};

const ME: Replica = Replica { node: NodeId(1), incarnation: Incarnation(1) };
const OTHER: Replica = Replica { node: NodeId(2), incarnation: Incarnation(1) };

fn partition(index: u32) -> PartitionId {
    PartitionId { class: ClassId(0), index }
}

fn id(sequence: u64) -> TransactionId {
    TransactionId { session: SessionId(1), sequence, birth: RingVersion(1) }
}

fn blob() -> BlobName {
    BlobName { keyspace: KeyspaceId(1), key: Key::new("a blob").unwrap() }
}

/// Who holds a partition in an epoch.
fn configuration(epoch: u32, replicas: &[Replica], learners: &[Replica]) -> Configuration {
    Configuration {
        epoch: Epoch(epoch),
        since: RingVersion(1),
        floor: RingVersion(1),
        replicas: replicas.to_vec(),
        learners: learners.to_vec(),
    }
}

/// A node that leads partition 0 alone, in epoch 2.
fn primary() -> Router {
    primary_of(&keyspace(1))
}

/// A keyspace of so many partitions.
fn keyspace(partitions: u32) -> Keyspace {
    let settings = KeyspaceSettings { chunk_size: CHUNK_SIZE_MIN, ..KeyspaceSettings::default() };
    let placement = Placement {
        class: ClassId(0),
        partitions: PartitionCount::new(partitions).unwrap(),
        seed: KeyspaceSeed([0; 16]),
        layout: Layout::of(&settings).unwrap(),
    };
    Keyspace { placement, multi_version: true, snapshots: Snapshots::default(), is_dropped: false }
}

fn primary_of(keyspace: &Keyspace) -> Router {
    let keyspaces = BTreeMap::from([(KeyspaceId(1), keyspace.clone())]);
    let mut router = Router::new(ME, Arc::new(keyspaces));
    router.handle_configuration(Time(0), true, partition(0), configuration(2, &[ME], &[]));
    router.handle_configuration(Time(0), true, partition(1), configuration(1, &[OTHER], &[]));
    run(&mut router);
    router
}

/// Makes durable what the node stores, and returns what it sends.
fn run(router: &mut Router) -> Vec<Message> {
    let mut sent = Vec::new();
    while let Some(output) = router.poll_output() {
        match output {
            Output::Store { partition, index, epoch, .. } => {
                router.handle_stored(Time(0), true, partition, index, epoch);
            }
            Output::Send(_, envelope) => sent.push(envelope.message),
            _ => {}
        }
    }
    sent
}

fn ask_number(router: &mut Router, number: Number) -> Vec<Message> {
    let message = Message::AskNumber { number, id: id(1), partition: partition(1) };
    router.handle_message(Time(0), true, Envelope { partition: partition(0), message });
    run(router)
}

#[test]
fn what_is_read_of_a_keyspace_that_was_not_heard_of_yet_is_held_for_its_reader() {
    let look = RequestId { session: SessionId(1), number: 1 };
    let held = |keyspaces: BTreeMap<KeyspaceId, Keyspace>| {
        let mut router = Router::new(ME, Arc::new(keyspaces));
        router.handle_configuration(Time(0), true, partition(0), configuration(2, &[ME], &[]));
        run(&mut router);
        let message = Message::Look { request: look, blob: blob() };
        router.handle_message(Time(1), true, Envelope { partition: partition(0), message });
        router.partition(partition(0)).unwrap().holds_pin(look)
    };
    let known = |multi_version| BTreeMap::from([(KeyspaceId(1), Keyspace { multi_version, ..keyspace(1) })]);
    assert!(held(BTreeMap::new()) && held(known(true)) && !held(known(false)));
}

#[test]
fn a_number_is_lost_only_if_it_is_of_an_earlier_epoch() {
    let mut router = primary();
    assert!(matches!(ask_number(&mut router, Number::new(1, 7))[..], [Message::NumberLost { .. }]));
    assert!(ask_number(&mut router, Number::new(2, 1)).is_empty(), "it is the marker, which is here");
    assert!(ask_number(&mut router, Number::new(3, 7)).is_empty(), "a later primary has given it out");
}

#[test]
fn a_late_refusal_does_not_drop_a_committed_write_that_waits_for_its_turn() {
    let mut state = State::new(partition(0));
    let writes = |sequence, index| {
        let write = ChunkWrite {
            chunk: 1,
            partition: partition(0),
            previous: None,
            operations: Vec::from([ChunkOperation::Write {
                offset: 0,
                bytes: [1; 4][..].into(),
                part: 0..4,
            }]),
            drops_former: false,
        };
        let writes = Vec::from([(blob(), Number::new(1, index), write)]);
        Entry::Write(Arc::new(ChunkWrites { id: id(sequence), decider: partition(1), refused: None, writes }))
    };
    state.apply(1, Epoch(1), &writes(1, 5));
    state.apply(2, Epoch(1), &writes(2, 6));
    state.learn(id(2), Outcome::Committed);
    state.learn(id(2), Outcome::Refused(Refusal::Fenced));
    state.learn(id(1), Outcome::Committed);
    let chunk = state.chunk(&ChunkName { blob: blob(), index: 1 }).unwrap();
    assert_eq!(chunk.newest(), Number::new(1, 6));
}

#[test]
fn that_a_decider_knows_a_transaction_no_more_does_not_refuse_what_waits_for_its_outcome() {
    let mut router = primary();
    let write = ChunkWrite {
        chunk: 1,
        partition: partition(0),
        previous: None,
        operations: Vec::from([ChunkOperation::Cut { range: 0..u64::MAX }]),
        drops_former: false,
    };
    let writes = Vec::from([(blob(), Number::new(1, 5), write)]);
    let writes = Arc::new(ChunkWrites { id: id(1), decider: partition(1), refused: None, writes });
    for message in [Message::Write { writes, driver: partition(1) }, Message::Settled { id: id(1) }] {
        router.handle_message(Time(0), true, Envelope { partition: partition(0), message });
        run(&mut router);
    }
    let record = router.partition(partition(0)).unwrap().state().record(id(1)).unwrap();
    assert!(record.write.is_some() && record.outcome.is_none());
}

#[test]
fn what_is_refused_takes_all_its_places_though_some_are_told_by_another_driver() {
    let mut router = primary();
    let write = || ChunkWrite {
        chunk: 1,
        partition: partition(0),
        previous: None,
        operations: Vec::new(),
        drops_former: false,
    };
    let other = || BlobName { key: Key::new("other").unwrap(), ..blob() };
    let first = (blob(), Number::new(1, 5), write());
    let second = (other(), Number::new(1, 9), write());
    let refused = |writes| {
        let refused = Some(Refusal::Fenced);
        Arc::new(ChunkWrites { id: id(1), decider: partition(2), refused, writes })
    };
    let mut tell = |message| {
        router.handle_message(Time(0), true, Envelope { partition: partition(0), message });
        run(&mut router)
    };
    let is_stored =
        |message: &Message| matches!(message, Message::OutcomeStored { part: Part::Chunks(_), .. });

    let told = tell(Message::Write { writes: refused(Vec::from([first.clone()])), driver: partition(1) });
    assert!(told.iter().any(is_stored));
    let outcome = Outcome::Refused(Refusal::Fenced);
    let told = tell(Message::Outcome { id: id(1), outcome, driver: Some(partition(2)) });
    assert!(!told.iter().any(is_stored), "who knows of another place has not told it yet");
    let told = tell(Message::Write { writes: refused(Vec::from([first, second])), driver: partition(2) });
    assert!(told.iter().any(is_stored));

    let state = router.partition(partition(0)).unwrap().state();
    let last = |blob| state.chunk(&ChunkName { blob, index: 1 }).map(|chunk| chunk.last_arrival());
    assert_eq!(last(blob()), Some(Number::new(1, 5)));
    assert_eq!(last(other()), Some(Number::new(1, 9)));
    let has_pending = |blob| state.chunk(&ChunkName { blob, index: 1 }).unwrap().pending().next().is_some();
    assert!(!has_pending(blob()) && !has_pending(other()), "both are known to be refused");
}

#[test]
fn a_write_waits_for_its_payload_though_its_keyspace_is_not_known_yet() {
    let mut router = primary();
    let staged = ChunkOperation::Staged { offset: 0, payload: (0, 0), part: 0..4 };
    let write = ChunkWrite {
        chunk: 1,
        partition: partition(0),
        previous: None,
        operations: Vec::from([staged]),
        drops_former: false,
    };
    let late = BlobName { keyspace: KeyspaceId(2), ..blob() };
    let writes = Vec::from([(late, Number::new(1, 5), write)]);
    let writes = Arc::new(ChunkWrites { id: id(1), decider: partition(1), refused: None, writes });
    let message = Message::Write { writes, driver: partition(1) };
    router.handle_message(Time(0), true, Envelope { partition: partition(0), message });
    assert!(run(&mut router).is_empty(), "it votes for nothing that it does not have");
    assert!(router.partition(partition(0)).unwrap().state().record(id(1)).is_none());
}

#[test]
fn a_client_that_was_taken_for_dead_is_not_answered_without_what_others_computed() {
    let keyspace = keyspace(2);
    let mut router = primary_of(&keyspace);
    let transform = Transform::add(Operand::U64(1));
    let head = |index: u32| {
        let blobs = (0_u8..).map(|key| BlobName { keyspace: KeyspaceId(1), key: Key::new([key]).unwrap() });
        let mut here = blobs.filter(|blob| keyspace.partition_of(blob, 0) == partition(index));
        let operations = Vec::from([Operation::Transform { offset: 0, transform }]);
        HeadPlan::blind(partition(index), here.next().unwrap(), operations)
    };
    // The order of chains is that of partitions: here the last stop leads partition 1.
    let other = Replica { node: NodeId(2), incarnation: Incarnation(1) };
    for (index, leads) in [(0, other), (1, ME)] {
        let configuration = Configuration {
            epoch: Epoch(3),
            since: RingVersion(1),
            floor: RingVersion(1),
            replicas: Vec::from([leads]),
            learners: Vec::new(),
        };
        router.handle_configuration(Time(0), true, partition(index), configuration);
        run(&mut router);
    }
    let heads = Vec::from([head(0), head(1)]);
    let plan = Arc::new(Plan { id: id(1), answered: 1, reserve: None, heads });
    let answers = (0, 0);
    let operations = Vec::from([ChunkOperation::Transform { offset: 0, transform, answers }]);
    let write =
        ChunkWrite { chunk: 0, partition: partition(0), previous: None, operations, drops_former: false };
    let effect = HeadEffect {
        existence: ExistenceEffect::Begins,
        size: SizeEffect::AtLeast(8),
        writes: Vec::from([write]),
        ..HeadEffect::default()
    };
    let effects = Vec::from([Arc::new(effect)]);
    let stop = Stop { partition: partition(0), heads: 0..1, number: Number::new(1, 7), effects };
    let mut told = Vec::new();
    let mut tell = |router: &mut Router, now, message| {
        router.handle_message(Time(now), true, Envelope { partition: partition(1), message });
        while let Some(output) = router.poll_output() {
            match output {
                Output::Store { partition, index, epoch, .. } => {
                    router.handle_stored(Time(now), true, partition, index, epoch);
                }
                Output::Answer(_, Answer::Outcome { outcome, .. }) => told.push(outcome),
                _ => {}
            }
        }
        core::mem::take(&mut told)
    };
    tell(&mut router, 0, Message::Pass { plan, stops: Vec::from([stop]) });
    let vote = Message::Vote { id: id(1), part: Part::Heads(partition(0)) };
    assert_eq!(tell(&mut router, 0, vote), [], "what the other stop's transform answers is waited for");
    router.handle_ring_version(RingVersion(7));
    let timeout = Limits::default().session_timeout;
    for eighth in 1..=20 {
        router.handle_tick(Time(eighth * timeout / 8), true);
        run(&mut router);
    }
    let now = 3 * timeout;
    assert_eq!(tell(&mut router, now, Message::AskOutcome { id: id(1), settle: false }), [None]);
}

#[test]
fn what_waits_for_its_turn_is_not_over_though_nothing_as_old_may_begin_any_more() {
    let keyspace = keyspace(2);
    let mut router = primary_of(&keyspace);
    let head = |index: u32| {
        let blobs = (0_u8..).map(|key| BlobName { keyspace: KeyspaceId(1), key: Key::new([key]).unwrap() });
        let mut here = blobs.filter(|blob| keyspace.partition_of(blob, 0) == partition(index));
        let operations = Vec::from([Operation::Write { offset: 0, bytes: [1; 4][..].into() }]);
        HeadPlan::blind(partition(index), here.next().unwrap(), operations)
    };
    let start =
        |id, heads: Vec<HeadPlan>| Message::Start(Arc::new(Plan { id, answered: 0, reserve: None, heads }));
    let waits = || start(id(2), Vec::from([head(0)]));
    let tell = |router: &mut Router, now, message| {
        router.handle_message(Time(now), true, Envelope { partition: partition(0), message });
        let mut told = Vec::new();
        while let Some(output) = router.poll_output() {
            match output {
                Output::Store { partition, index, epoch, .. } => {
                    router.handle_stored(Time(now), true, partition, index, epoch);
                }
                Output::Answer(_, answer) => told.push(answer),
                _ => {}
            }
        }
        told
    };
    // The first holds the slot until its second stop, on another node, has passed the lock point.
    assert!(tell(&mut router, 0, start(id(1), Vec::from([head(0), head(1)]))).is_empty());
    assert!(tell(&mut router, 0, waits()).is_empty());
    let others =
        Message::Answered { session: SessionId(9), answered: Answered::below(2), born: RingVersion(1) };
    tell(&mut router, 0, others);
    router.handle_ring_version(RingVersion(7));
    let timeout = Limits::default().session_timeout;
    for eighth in 1..=20 {
        router.handle_tick(Time(eighth * timeout / 8), true);
        run(&mut router);
    }
    let state = |router: &Router| router.partition(partition(0)).unwrap().state().clone();
    assert!(state(&router).is_over(id(2)) && state(&router).record(id(2)).is_none());
    let now = 3 * timeout;
    let asks = Message::AskOutcome { id: id(2), settle: false };
    let told = [tell(&mut router, now, waits()), tell(&mut router, now, asks)].concat();
    assert!(told.is_empty(), "{told:?}");
    tell(&mut router, now, Message::Release { id: id(1) });
    let outcome = Message::Outcome { id: id(1), outcome: Outcome::Committed, driver: Some(partition(1)) };
    tell(&mut router, now, outcome);
    assert_eq!(state(&router).record(id(2)).unwrap().outcome, Some(Outcome::Committed));
}

#[test]
fn that_a_session_was_forgotten_elsewhere_ends_none_of_its_other_transactions() {
    let mut state = State::new(partition(0));
    let stage = |sequence| {
        let bytes = [1; 4][..].into();
        let stage =
            Stage { id: id(sequence), decider: partition(1), payload: (0, 0), from: 0, bytes, part: 0..4 };
        Entry::Stage(Arc::new(stage))
    };
    state.apply(1, Epoch(1), &stage(3));
    state.apply(2, Epoch(1), &Entry::Forget { id: id(5), answered: None });
    assert!(state.stages().has(id(3)) && !state.has_answer(id(3)));
    assert!(state.is_over(id(5)), "a late copy does not execute it again");
}

#[test]
fn a_session_that_claims_a_ring_that_never_was_is_forgotten_like_any_other() {
    let mut router = primary();
    router.handle_ring_version(RingVersion(7));
    let timeout = Limits::default().session_timeout;
    let born = TransactionId { session: SessionId(1), sequence: 1, birth: RingVersion::MAX };
    let message = Message::AskOutcome { id: born, settle: true };
    router.handle_message(Time(0), true, Envelope { partition: partition(0), message });
    router.handle_tick(Time(DEFER_MAX), true);
    run(&mut router);
    let has_session = |router: &Router| {
        router.partition(partition(0)).unwrap().state().sessions().any(|(session, _)| session == SessionId(1))
    };
    assert!(has_session(&router));
    for eighth in 1..=20 {
        router.handle_tick(Time(eighth * timeout / 8), true);
        run(&mut router);
    }
    assert!(!has_session(&router));
    let newest = TransactionId { session: SessionId(2), sequence: 1, birth: RingVersion(7) };
    assert!(!router.partition(partition(0)).unwrap().state().is_over(newest), "others go on");
}

#[test]
fn a_mark_under_a_ring_that_this_node_does_not_know_leaves_nothing_behind() {
    let mut router = primary();
    router.handle_ring_version(RingVersion(7));
    let tell = |router: &mut Router, now, born| {
        let message = Message::Answered { session: SessionId(1), answered: Answered::below(2), born };
        router.handle_message(Time(now), true, Envelope { partition: partition(0), message });
        router.handle_tick(Time(now + DEFER_MAX), true);
        run(router);
        router.partition(partition(0)).unwrap().state().sessions().any(|(session, _)| session == SessionId(1))
    };
    assert!(!tell(&mut router, 0, RingVersion(8)));
    assert!(!tell(&mut router, DEFER_MAX, RingVersion::MAX));
    router.handle_ring_version(RingVersion(8));
    assert!(tell(&mut router, 2 * DEFER_MAX, RingVersion(8)), "now it is known");
}

#[test]
fn sessions_that_are_gone_ask_for_one_version_and_not_each_for_one() {
    let mut router = primary();
    router.handle_ring_version(RingVersion(7));
    for session in 1..=9 {
        let message = Message::Answered {
            session: SessionId(session),
            answered: Answered::below(2),
            born: RingVersion(session.min(7)),
        };
        router.handle_message(Time(0), true, Envelope { partition: partition(0), message });
    }
    router.handle_tick(Time(DEFER_MAX), true);
    run(&mut router);
    let timeout = Limits::default().session_timeout;
    let mut asked = Vec::new();
    for now in [timeout, 2 * timeout] {
        router.handle_tick(Time(now), true);
        while let Some(output) = router.poll_output() {
            let Output::AskVersion(version) = output else { continue };
            asked.push(version);
        }
    }
    assert_eq!(asked, [RingVersion(8)]);
}

#[test]
fn a_learner_becomes_complete_though_something_is_always_under_way_to_it() {
    let mut router = primary();
    router.handle_configuration(Time(0), true, partition(0), configuration(3, &[ME], &[OTHER]));
    run(&mut router);
    let epoch = Epoch(3);
    let tell = |router: &mut Router, now, message| {
        router.handle_message(Time(now), true, Envelope { partition: partition(0), message });
    };
    let last = |router: &Router| router.partition(partition(0)).unwrap().log().last();
    let reconciled = Message::Reconciled { epoch, index: last(&router), node: NodeId(2) };
    tell(&mut router, 0, reconciled);
    let mut is_complete = false;
    for turn in 1..=10 {
        let (now, index) = (turn * 10_000, last(&router));
        tell(&mut router, now, Message::AskOutcome { id: id(turn), settle: true });
        run(&mut router);
        assert!(last(&router) > index, "something is durable here that the learner has not acknowledged");
        router.handle_tick(Time(now), true);
        while let Some(output) = router.poll_output() {
            is_complete |= matches!(output, Output::LearnerComplete(_, _, told) if told == OTHER);
        }
        let stored = Message::Stored { epoch, index, node: NodeId(2), is_short: false };
        tell(&mut router, now, stored);
    }
    assert!(is_complete, "it is waited for, and so has everything at some time");
    let partition = router.partition(partition(0)).unwrap();
    assert!(partition.durable < last(&router), "nothing is acknowledged that it does not have");
}

#[test]
fn a_write_waits_for_the_one_before_it_only_as_long_as_that_may_still_come() {
    let asks = |router: &mut Router, previous: u64| {
        let message = Message::AskPrevious {
            number: Number::new(2, 2),
            previous: id(previous),
            id: id(9),
            partition: partition(1),
        };
        router.handle_message(Time(0), true, Envelope { partition: partition(0), message });
        run(router)
    };
    let mut served = served::Served::new();
    assert_eq!(served.does("a", served::append(1)), served::DONE);
    assert!(asks(&mut served.router, 1).is_empty(), "it is not forgotten yet");
    assert!(matches!(asks(&mut served.router, 7)[..], [Message::PreviousOver { .. }]));

    let mut router = primary();
    let link = Link { number: Number::new(1, 5), id: id(1), decider: partition(1) };
    let write = ChunkWrite {
        chunk: 1,
        partition: partition(0),
        previous: Some(link),
        operations: Vec::from([ChunkOperation::Write { offset: 0, bytes: [1; 4][..].into(), part: 0..4 }]),
        drops_former: false,
    };
    let writes = Vec::from([(blob(), Number::new(1, 6), write)]);
    let writes = ChunkWrites { id: id(2), decider: partition(1), refused: None, writes };
    let hear = |router: &mut Router, message| {
        router.handle_message(Time(0), true, Envelope { partition: partition(0), message });
        run(router)
    };
    let votes = |sent: &[Message]| sent.iter().any(|message| matches!(message, Message::Vote { .. }));
    let write = Message::Write { writes: Arc::new(writes), driver: partition(1) };
    assert!(!votes(&hear(&mut router, write)));
    let over = |number| Message::PreviousOver { number, id: id(2) };
    assert!(!votes(&hear(&mut router, over(Number::new(1, 4)))), "another one is over");
    assert!(votes(&hear(&mut router, over(Number::new(1, 5)))));
}

#[test]
fn who_waits_long_for_the_write_before_asks_whether_it_comes() {
    let keyspace = keyspace(2);
    let mut router = primary_of(&keyspace);
    let mut blobs = (0..)
        .map(|index| BlobName { keyspace: KeyspaceId(1), key: Key::new(alloc::format!("{index}")).unwrap() });
    let blob = blobs.find(|blob| keyspace.partition_of(blob, 0) == partition(1)).unwrap();
    let link = Link { number: Number::new(1, 5), id: id(1), decider: partition(1) };
    let write = ChunkWrite {
        chunk: 1,
        partition: partition(0),
        previous: Some(link),
        operations: Vec::new(),
        drops_former: false,
    };
    let writes = Vec::from([(blob, Number::new(1, 6), write)]);
    let writes = ChunkWrites { id: id(2), decider: partition(1), refused: None, writes };
    let message = Message::Write { writes: Arc::new(writes), driver: partition(1) };
    router.handle_message(Time(0), true, Envelope { partition: partition(0), message });
    let mut asked = Vec::new();
    for tick in 1..100 {
        router.handle_tick(Time(tick * 10_000), true);
        asked.extend(run(&mut router).into_iter().filter_map(|sent| match sent {
            Message::AskPrevious { number, previous, id, partition } => {
                Some((number, previous, id, partition))
            }
            _ => None,
        }));
    }
    asked.dedup();
    assert_eq!(asked, [(link.number, id(1), id(2), partition(0))]);
}

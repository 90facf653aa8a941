//! A client that borrows: what it keeps, for how long, and what it says when that is recalled or about to be written.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{collections::BTreeMap, sync::Arc};

use tyr_proto::{
    BlobName, BlobPlan, ClassId, Client, ClientOutput, Configuration, Copies, Epoch, Event, Incarnation,
    Keyspace, KeyspaceSeed, Keyspaces, Layout, NodeId, Operation, PartitionCount, PartitionId, Placement,
    ReadAnswer, Replica, RingVersion, SeenCopy, SessionId, Snapshots, Time, Told, Transaction,
    message::{Answer, Looked, Message, RequestId},
};
use tyr_types::{Key, KeyspaceId, KeyspaceSettings, Number};

const PRIMARY: NodeId = NodeId(1);
const PARTITION: PartitionId = PartitionId { class: ClassId(0), index: 0 };
/// For how long everything is lent.
const LASTS: u64 = 1000;

struct World {
    client: Client,
    copies: Copies,
}

fn blob() -> BlobName {
    BlobName { keyspace: KeyspaceId(1), key: Key::new("a").unwrap() }
}

/// The number of what is lent.
fn newest() -> Number {
    Number::new(1, 5)
}

impl World {
    fn new() -> Self {
        let placement = Placement {
            class: ClassId(0),
            partitions: PartitionCount::new(1).unwrap(),
            seed: KeyspaceSeed([0; 16]),
            layout: Layout::of(&KeyspaceSettings::default()).unwrap(),
        };
        let keyspace =
            Keyspace { placement, multi_version: true, snapshots: Snapshots::default(), is_dropped: false };
        let keyspaces: Keyspaces = [(KeyspaceId(1), keyspace)].into();
        let mut client = Client::new(SessionId(7), Arc::new(keyspaces));
        let replica = |node| Replica { node: NodeId(node), incarnation: Incarnation(1) };
        let configuration = Configuration {
            epoch: Epoch(1),
            since: RingVersion(1),
            floor: RingVersion(1),
            replicas: vec![replica(PRIMARY.0), replica(2), replica(3)],
            learners: Vec::new(),
        };
        client.handle_configuration(PARTITION, configuration);
        let copies = Copies::default();
        client.keep_copies(copies.clone());
        World { client, copies }
    }

    fn borrow(&mut self, now: u64) -> RequestId {
        self.client.borrow(Time(now), blob(), 100, 2)
    }

    fn lend(&mut self, now: u64, request: RequestId, size: u64) {
        self.lend_with(now, request, size, None);
    }

    fn lend_with(&mut self, now: u64, request: RequestId, size: u64, bytes: Option<Vec<u8>>) {
        let written = bytes.iter().map(|_| (0, newest())).collect();
        let looked = Looked { creation: newest(), size, attributes: BTreeMap::new(), written };
        let (number, blob) = (newest(), Some(looked));
        let bytes = bytes.map(Into::into);
        let answer = Answer::Lent { request, number, blob, bytes, lasts: LASTS };
        self.client.handle_answer(Time(now), PRIMARY, answer);
    }

    fn recall(&mut self, now: u64, asked: u64) {
        let answer = Answer::Recall { partition: PARTITION, blob: blob(), asked };
        self.client.handle_answer(Time(now), PRIMARY, answer);
    }

    fn write(&mut self, now: u64) {
        let operations = vec![Operation::Truncate { size: 0 }];
        let plan = BlobPlan::blind(blob(), operations);
        self.client.commit(Time(now), vec![plan], None);
    }

    /// The size of the copy that is kept.
    fn kept(&self, now: u64) -> Option<u64> {
        match self.copies.see(Time(now), &blob()) {
            SeenCopy::Copy(copy) | SeenCopy::Aging(copy) => copy.blob.map(|blob| blob.size),
            SeenCopy::Nothing => None,
        }
    }

    /// What was sent, by kind: to whom, and up to which request something is given back.
    fn sent(&mut self) -> Vec<(NodeId, &'static str, u64)> {
        let mut sent = Vec::new();
        while let Some(output) = self.client.poll_output() {
            let ClientOutput::Send(node, envelope) = output else { continue };
            sent.push(match envelope.message {
                Message::Borrow { request, .. } => (node, "borrow", request.number),
                Message::GiveBack { asked, .. } => (node, "give back", asked),
                Message::Start(_) => (node, "start", 0),
                Message::Look { request, .. } => (node, "look", request.number),
                Message::Read { request, .. } => (node, "read", request.number),
                message => panic!("{message:?} is sent"),
            });
        }
        sent
    }

    /// Those who are to be told that a copy is over, by the request up to which.
    fn recalled(&mut self) -> Vec<u64> {
        let events = std::iter::from_fn(|| self.client.poll_event());
        events
            .filter_map(|event| if let Event::Recalled(.., asked) = event { Some(asked) } else { None })
            .collect()
    }
}

#[test]
fn what_the_primary_lends_is_kept_from_when_it_was_asked_for() {
    let mut world = World::new();
    let request = world.borrow(10);
    assert_eq!(world.sent(), [(PRIMARY, "borrow", request.number)], "only the primary lends");
    assert_eq!(world.kept(20), None);
    world.lend(900, request, 5);
    assert_eq!([900, 1009, 1010].map(|now| world.kept(now)), [Some(5), Some(5), None]);
}

#[test]
fn what_is_recalled_is_gone_before_it_is_given_back_and_not_kept_when_it_comes_late() {
    let mut world = World::new();
    let (one, other) = (world.borrow(10), world.borrow(11));
    world.lend(20, one, 5);
    world.sent();
    world.recall(30, other.number);
    assert_eq!(world.kept(30), None);
    assert_eq!(world.sent(), [(PRIMARY, "give back", other.number)]);
    world.lend(40, other, 5);
    assert_eq!(world.kept(40), None, "it was on its way when it was recalled");
    let later = world.borrow(50);
    world.lend(60, later, 6);
    world.recall(70, other.number);
    assert_eq!(world.kept(70), Some(6), "it was asked for later");
}

#[test]
fn what_is_written_here_is_given_back_first() {
    let mut world = World::new();
    let request = world.borrow(10);
    world.lend(20, request, 5);
    let renewed = world.borrow(30);
    world.sent();
    world.write(40);
    assert_eq!(world.kept(40), None);
    assert_eq!(world.sent(), [(PRIMARY, "give back", renewed.number), (PRIMARY, "start", 0)]);
    world.lend(50, renewed, 5);
    assert_eq!(world.kept(50), None, "it may be from before the write");
    world.write(60);
    assert_eq!(world.sent(), [(PRIMARY, "start", 0)], "there is nothing to give back");
}

#[test]
fn what_somebody_was_assured_of_is_given_back_when_nobody_believes_it_any_more() {
    let mut world = World::new();
    world.client.tell_recalls();
    let request = world.borrow(10);
    world.lend(20, request, 5);
    world.sent();
    assert_eq!(world.copies.assured(Time(20), &blob()), 490);
    world.recall(30, request.number);
    world.recall(31, request.number);
    assert_eq!(world.kept(31), None);
    let again = world.borrow(32);
    world.write(33);
    let sent = world.sent();
    assert!(sent.iter().all(|(_, kind, _)| *kind != "give back"), "{sent:?}");
    assert_eq!(world.recalled(), [request.number, request.number, again.number]);
    for asked in [request.number, request.number, again.number] {
        world.client.give_back_recalled(PRIMARY, PARTITION, blob(), asked);
        assert_eq!(world.sent(), [(PRIMARY, "give back", asked)]);
    }
    // Of this nobody was told.
    let request = world.borrow(40);
    world.lend(50, request, 5);
    world.sent();
    world.recall(60, request.number);
    assert_eq!(world.sent(), [(PRIMARY, "give back", request.number)]);
}

#[test]
fn a_transaction_sees_what_is_lent_without_asking_and_its_plan_says_at_which_number() {
    let mut world = World::new();
    let request = world.borrow(10);
    world.lend_with(20, request, 4, Some(b"lent".to_vec()));
    world.sent();
    let mut transaction = Transaction::begin(0);
    let bytes = transaction.read(&mut world.client, Time(30), &blob(), 1..9);
    let stat = transaction.stat(&mut world.client, Time(30), &blob());
    let told: Vec<Told> = std::iter::from_fn(|| transaction.poll_told()).collect();
    assert_eq!(told[0], Told::Read(bytes, ReadAnswer::Bytes(Some(b"ent".to_vec()))));
    assert!(
        matches!(&told[1], Told::Read(of, ReadAnswer::Stat(Some(looked))) if *of == stat && looked.size == 4)
    );
    assert_eq!(world.sent(), []);
    assert_eq!(transaction.number(&blob()), Some(newest()));
    transaction.write(&blob(), 0, b"new".to_vec());
    transaction.commit(&mut world.client, Time(40), None);
    let mut seen = None;
    while let Some(output) = world.client.poll_output() {
        if let ClientOutput::Send(_, tyr_proto::message::Envelope { message: Message::Start(plan), .. }) =
            output
        {
            seen = plan.heads[0].seen.clone();
        }
    }
    assert_eq!(
        seen.map(|seen| (seen.number, seen.size)),
        Some((newest(), true)),
        "the commit makes sure of it"
    );
}

#[test]
fn a_transaction_looks_itself_at_what_is_lent_no_more_and_at_bytes_that_are_not() {
    let mut world = World::new();
    let request = world.borrow(10);
    world.lend(20, request, 4);
    world.sent();
    let mut transaction = Transaction::begin(0);
    transaction.exists(&mut world.client, Time(10 + LASTS), &blob());
    assert!(matches!(world.sent()[..], [(_, "look", _)]), "its time is over");
    let again = world.borrow(2000);
    world.lend_with(2010, again, 4, None);
    world.sent();
    let mut transaction = Transaction::begin(0);
    transaction.exists(&mut world.client, Time(2020), &blob());
    assert_eq!(world.sent(), []);
    for lent in [None, Some(b"le".to_vec())] {
        let again = world.borrow(2030);
        world.lend_with(2040, again, 4, lent);
        world.sent();
        let mut transaction = Transaction::begin(0);
        transaction.read(&mut world.client, Time(2050), &blob(), 0..4);
        assert!(matches!(world.sent()[..], [(_, "read", _)]), "fewer bytes were lent than it has");
        assert_eq!(transaction.poll_told(), None);
    }
}

#[test]
fn who_leaves_says_what_was_answered_and_waits_for_nobody_to_note_it() {
    let mut world = World::new();
    let plan = BlobPlan::blind(blob(), vec![Operation::Truncate { size: 0 }]);
    let id = world.client.commit(Time(10), vec![plan], None);
    world.sent();
    let answer = Answer::Outcome { id, outcome: Some((tyr_proto::Outcome::Committed, Vec::new())) };
    assert!(!world.client.is_done());
    world.client.handle_answer(Time(20), PRIMARY, answer);
    assert!(world.client.is_done() && !world.client.is_idle(), "the partition does not know of it");
    world.client.leave(Time(20));
    assert!(world.client.is_idle());
    let told = std::iter::from_fn(|| world.client.poll_output()).any(|output| {
        matches!(output, ClientOutput::Send(_, envelope) if matches!(envelope.message, Message::Answered { .. }))
    });
    assert!(told);
}

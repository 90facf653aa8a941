//! Copies of heads at another node and at clients: what they say, when they go, and what waits for that.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{collections::BTreeMap, sync::Arc};

use tyr_proto::{
    BlobName, ClassId, Configuration, Epoch, HeadPlan, Incarnation, Keyspace, KeyspaceSeed, Keyspaces,
    Layout, Limits, NodeId, Operation, Outcome, Output, Partition, PartitionCount, PartitionId, Placement,
    Plan, Replica, RingVersion, Router, SessionId, Snapshots, Time, TransactionId,
    message::{Answer, Envelope, HeadStat, Message, RequestId},
};
use tyr_types::{CHUNK_SIZE_MIN, Key, KeyspaceId, KeyspaceSettings};

/// The node that leads the partition of [`World::root`], and the one that leads the partition of [`World::file`].
const HEADS: NodeId = NodeId(1);
const HOLDER: NodeId = NodeId(2);

/// Who keeps what it is told.
const BORROWER: SessionId = SessionId(5);

/// Two nodes, each with one partition. What one says to the other arrives at once unless it is held up.
struct World {
    routers: BTreeMap<NodeId, Router>,
    keyspaces: Arc<Keyspaces>,
    now: Time,
    has_lease: bool,
    is_held_up: fn(&Message) -> bool,
    held_up: Vec<(NodeId, Envelope)>,
    answers: Vec<Answer>,
    last: u64,
}

fn replica(node: NodeId) -> Replica {
    Replica { node, incarnation: Incarnation(1) }
}

fn partition(index: u32) -> PartitionId {
    PartitionId { class: ClassId(0), index }
}

fn configuration(index: u32, epoch: u32) -> Configuration {
    let holder = replica(if index == 0 { HEADS } else { HOLDER });
    Configuration {
        epoch: Epoch(epoch),
        since: RingVersion(1),
        floor: RingVersion(1),
        replicas: vec![holder],
        learners: Vec::new(),
    }
}

impl World {
    fn new(limits: Limits) -> Self {
        let settings = KeyspaceSettings { chunk_size: CHUNK_SIZE_MIN, ..KeyspaceSettings::default() };
        let placement = Placement {
            class: ClassId(0),
            partitions: PartitionCount::new(2).unwrap(),
            seed: KeyspaceSeed([0; 16]),
            layout: Layout::of(&settings).unwrap(),
        };
        let keyspace =
            Keyspace { placement, multi_version: true, snapshots: Snapshots::default(), is_dropped: false };
        let keyspaces: Arc<Keyspaces> = Arc::new([(KeyspaceId(1), keyspace)].into());
        let mut world = World {
            routers: BTreeMap::new(),
            keyspaces: keyspaces.clone(),
            now: Time(1),
            has_lease: true,
            is_held_up: |_| false,
            held_up: Vec::new(),
            answers: Vec::new(),
            last: 0,
        };
        for node in [HEADS, HOLDER] {
            let mut router = Router::new(replica(node), keyspaces.clone());
            router.set_limits(limits);
            for index in 0..2 {
                router.handle_configuration(world.now, true, partition(index), configuration(index, 1));
            }
            world.routers.insert(node, router);
        }
        world.run();
        world
    }

    /// A blob whose head is in a partition.
    fn blob_in(&self, index: u32) -> BlobName {
        let named =
            |number: u32| BlobName { keyspace: KeyspaceId(1), key: Key::new(format!("{number}")).unwrap() };
        let keyspace = &self.keyspaces[&KeyspaceId(1)];
        (0..).map(named).find(|blob| keyspace.partition_of(blob, 0) == partition(index)).unwrap()
    }

    fn root(&self) -> BlobName {
        self.blob_in(0)
    }

    fn file(&self) -> BlobName {
        self.blob_in(1)
    }

    fn deliver(&mut self, to: NodeId, envelope: Envelope) {
        let router = self.routers.get_mut(&to).unwrap();
        router.handle_message(self.now, self.has_lease, envelope);
        self.run();
    }

    fn run(&mut self) {
        let nodes: Vec<NodeId> = self.routers.keys().copied().collect();
        while let Some((node, output)) =
            nodes.iter().find_map(|node| Some((*node, self.routers.get_mut(node)?.poll_output()?)))
        {
            match output {
                Output::Store { partition, index, epoch, .. } => {
                    let router = self.routers.get_mut(&node).unwrap();
                    router.handle_stored(self.now, self.has_lease, partition, index, epoch);
                }
                Output::Send(to, envelope) if (self.is_held_up)(&envelope.message) => {
                    self.held_up.push((to, envelope));
                }
                Output::Send(to, envelope) => {
                    let router = self.routers.get_mut(&to).unwrap();
                    router.handle_message(self.now, self.has_lease, envelope);
                }
                Output::Answer(_, answer) => self.answers.push(answer),
                _ => {}
            }
        }
    }

    /// Lets time pass, tick by tick.
    fn pass(&mut self, micros: u64) {
        let end = self.now.after(micros);
        while self.now < end {
            self.now = self.now.after(5_000);
            for router in self.routers.values_mut() {
                router.handle_tick(self.now, self.has_lease);
            }
            self.run();
        }
    }

    /// The node of the heads goes on as another incarnation, which knows nobody that holds copies.
    fn begin_again(&mut self) {
        let me = Replica { node: HEADS, incarnation: Incarnation(2) };
        let configuration = Configuration { replicas: vec![me], ..configuration(0, 2) };
        let now = self.now;
        let former = self.routers.remove(&HEADS).unwrap();
        let found = former.partition(partition(0)).unwrap();
        let found = Partition::restored(partition(0), me, found.log().clone(), found.state().clone());
        let mut router = Router::new(me, self.keyspaces.clone());
        router.restore(found);
        self.routers.insert(HEADS, router);
        for router in self.routers.values_mut() {
            router.handle_configuration(now, true, partition(0), configuration.clone());
            router.handle_configuration(now, true, partition(1), crate::configuration(1, 1));
        }
        self.run();
    }

    fn release_held_up(&mut self) {
        self.is_held_up = |_| false;
        for (to, envelope) in std::mem::take(&mut self.held_up) {
            self.deliver(to, envelope);
        }
    }

    /// Asks the holder for the file, and for the root with it.
    fn stat(&mut self) -> Option<HeadStat> {
        self.last += 1;
        let request = RequestId { session: SessionId(9), number: self.last };
        let message = Message::Stat { request, blobs: vec![self.file(), self.root()] };
        self.deliver(HOLDER, Envelope { partition: partition(1), message });
        let stats = self.answers.iter().find_map(|answer| match answer {
            Answer::Stats { request: told, stats } if *told == request => Some(stats.clone()),
            _ => None,
        });
        let stats = stats.expect("the file is here, so it is answered");
        assert!(stats.len() == 2 && stats[0].is_some());
        stats[1].clone()
    }

    /// Asks until the root is held.
    fn make_popular(&mut self) -> HeadStat {
        let asked = (0..10).find_map(|_| {
            self.pass(20_000);
            self.stat()
        });
        asked.expect("it is popular, so there is a copy")
    }

    /// Writes as many bytes to the root, and returns the transaction.
    fn write(&mut self, length: usize) -> TransactionId {
        self.write_as(SessionId(1), length)
    }

    fn write_as(&mut self, session: SessionId, length: usize) -> TransactionId {
        self.last += 1;
        let id = TransactionId { session, sequence: self.last, birth: RingVersion(1) };
        let operation = Operation::Write { offset: 0, bytes: vec![7; length].into() };
        let heads = vec![HeadPlan::blind(partition(0), self.root(), vec![operation])];
        let message = Message::Start(Arc::new(Plan { id, answered: 0, reserve: None, heads }));
        self.deliver(HEADS, Envelope { partition: partition(0), message });
        id
    }

    /// A client asks for the root, to keep it: the answer's request, what it says of the size and of the content, and for how long.
    fn borrow(&mut self) -> (u64, Option<u64>, Option<Vec<u8>>, u64) {
        self.last += 1;
        let request = RequestId { session: BORROWER, number: self.last };
        let message = Message::Borrow { request, blob: self.root(), size_max: 100 };
        self.deliver(HEADS, Envelope { partition: partition(0), message });
        let lent = self.answers.iter().find_map(|answer| match answer {
            Answer::Lent { request: told, blob, bytes, lasts, .. } if *told == request => Some((
                request.number,
                blob.as_ref().map(|blob| blob.size),
                bytes.clone().map(Vec::from),
                *lasts,
            )),
            _ => None,
        });
        lent.expect("the root is here, so it is answered")
    }

    fn give_back(&mut self, asked: u64) {
        let message = Message::GiveBack { session: BORROWER, blob: self.root(), asked };
        self.deliver(HEADS, Envelope { partition: partition(0), message });
    }

    /// The requests up to which what was answered is recalled.
    fn recalled(&self) -> Vec<u64> {
        let recalled = self.answers.iter().filter_map(|answer| match answer {
            Answer::Recall { asked, .. } => Some(*asked),
            _ => None,
        });
        recalled.collect()
    }

    fn is_committed(&self, asked: TransactionId) -> bool {
        self.answers.iter().any(|answer| {
            matches!(answer, Answer::Outcome { id, outcome: Some((Outcome::Committed, _)) } if *id == asked)
        })
    }
}

fn size(stat: &HeadStat) -> Option<u64> {
    stat.blob.as_ref().map(|blob| blob.size)
}

#[test]
fn a_popular_head_is_told_by_a_node_that_does_not_hold_it_and_each_write_is_seen_at_once() {
    let mut world = World::new(Limits::default());
    assert_eq!(world.stat(), None, "nobody asks for it often");
    assert_eq!(size(&world.make_popular()), None, "that it does not exist is known, too");
    for length in [3, 8, 21] {
        let id = world.write(length);
        assert!(world.is_committed(id));
        assert_eq!(size(&world.make_popular()), Some(length as u64));
    }
}

#[test]
fn what_a_blob_holds_is_told_together_with_a_popular_head_of_another_node() {
    let mut world = World::new(Limits::default());
    world.make_popular();
    let id = world.write(5);
    assert!(world.is_committed(id));
    world.make_popular();
    let request = RequestId { session: SessionId(9), number: u64::MAX };
    let others = vec![world.root(), world.file()];
    let message = Message::GetWith { request, blob: world.file(), size_max: 100, others };
    world.deliver(HOLDER, Envelope { partition: partition(1), message });
    let told = world.answers.iter().find_map(|answer| match answer {
        Answer::GotWith { request: told, blob, others, .. } if *told == request => Some((blob, others)),
        _ => None,
    });
    let Some((None, others)) = told else { panic!("{told:?}") };
    assert_eq!(
        others.iter().map(|told| told.as_ref().map(size)).collect::<Vec<_>>(),
        [Some(Some(5)), Some(None)]
    );
}

#[test]
fn a_write_is_not_acknowledged_before_the_copies_of_its_head_are_gone() {
    let mut world = World::new(Limits::default());
    world.make_popular();
    world.is_held_up = |message| matches!(message, Message::Uncache { .. });
    let id = world.write(5);
    assert!(!world.is_committed(id));
    assert_eq!(world.stat().as_ref().and_then(size), None, "the copy still says what was before");
    world.release_held_up();
    assert!(world.is_committed(id));
    assert!(world.stat().is_none_or(|stat| size(&stat) == Some(5)));
}

#[test]
fn a_write_waits_for_a_holder_that_does_not_answer_only_until_its_copy_is_over() {
    let limits = Limits::default();
    let mut world = World::new(limits);
    world.make_popular();
    world.is_held_up = |message| matches!(message, Message::Uncache { .. } | Message::Subscribe { .. });
    let id = world.write(5);
    world.pass(limits.cached_for - 10_000);
    assert!(!world.is_committed(id), "the copy may be asked");
    world.pass(limits.cached_for / 4);
    assert!(world.is_committed(id));
    assert_eq!(world.stat(), None, "and nothing is told that is over");
}

#[test]
fn a_copy_that_arrives_after_it_was_dropped_is_not_taken() {
    let mut world = World::new(Limits::default());
    world.is_held_up = |message| matches!(message, Message::Cached { .. });
    for _ in 0..5 {
        assert_eq!(world.stat(), None);
        world.pass(20_000);
    }
    assert!(!world.held_up.is_empty(), "a copy is under way");
    let id = world.write(5);
    assert!(world.is_committed(id), "the holder has said that it does not take it any more");
    world.is_held_up = |message| matches!(message, Message::Subscribe { .. });
    for (to, envelope) in std::mem::take(&mut world.held_up) {
        world.deliver(to, envelope);
    }
    assert_eq!(world.stat(), None);
}

#[test]
fn a_primary_without_a_lease_gives_out_nothing() {
    let mut world = World::new(Limits::default());
    world.is_held_up = |message| matches!(message, Message::Subscribe { .. });
    (0..5).for_each(|_| drop(world.stat()));
    world.has_lease = false;
    world.is_held_up = |message| matches!(message, Message::Cached { .. });
    for (to, envelope) in std::mem::take(&mut world.held_up) {
        world.deliver(to, envelope);
    }
    assert!(world.held_up.is_empty());
}

#[test]
fn a_primary_after_another_one_waits_until_the_copies_that_that_one_gave_out_are_over() {
    let limits = Limits::default();
    let mut world = World::new(limits);
    world.make_popular();
    world.begin_again();
    let id = world.write(5);
    assert!(!world.is_committed(id), "the copies may be asked");
    world.pass(limits.cached_for - 10_000);
    assert!(!world.is_committed(id));
    world.pass(limits.cached_for / 4);
    assert!(world.is_committed(id));
}

#[test]
fn a_primary_after_another_one_does_not_wait_if_no_copies_have_been_out_for_long() {
    let mut world = World::new(Limits::default());
    world.make_popular();
    world.pass(Limits::default().uncached_after + 6_000_000);
    world.begin_again();
    let id = world.write(5);
    assert!(world.is_committed(id));
}

#[test]
fn what_nobody_asks_for_any_more_is_dropped_and_writers_do_not_wait_for_it() {
    let mut world = World::new(Limits::default());
    world.make_popular();
    world.pass(3_000_000);
    assert!(!world.routers[&HEADS].partition(partition(0)).unwrap().has_subscribers());
    let id = world.write(5);
    assert!(world.is_committed(id));
}

#[test]
fn no_more_heads_are_held_than_are_allowed() {
    let mut world = World::new(Limits { cached_max: 0, ..Limits::default() });
    (0..20).for_each(|_| assert_eq!(world.stat(), None));
}

#[test]
fn a_client_keeps_what_it_was_lent_until_a_write_recalls_it() {
    let limits = Limits::default();
    let mut world = World::new(limits);
    assert_eq!(world.borrow().3, 0, "that copies are out has to be in the log first");
    let (asked, size, bytes, lasts) = world.borrow();
    assert_eq!((size, bytes, lasts), (None, None, limits.cached_for), "that it does not exist is lent, too");
    let id = world.write(5);
    assert!(!world.is_committed(id));
    assert_eq!(world.recalled(), [asked]);
    world.give_back(asked - 1);
    assert!(!world.is_committed(id), "an earlier one was given back");
    world.give_back(asked);
    assert!(world.is_committed(id));
    let (_, size, bytes, lasts) = world.borrow();
    assert_eq!((size, bytes), (Some(5), Some(vec![7; 5])));
    assert_eq!(lasts, 0, "it was recalled a moment ago");
    world.pass(100_000);
    assert_eq!(world.borrow().3, limits.cached_for);
}

#[test]
fn a_client_that_writes_is_not_asked_for_its_own_copy_and_may_have_the_next_one() {
    let limits = Limits::default();
    let mut world = World::new(limits);
    world.borrow();
    let (asked, ..) = world.borrow();
    let id = world.write_as(BORROWER, 5);
    assert!(!world.is_committed(id), "others may have been told of its copy");
    world.give_back(asked);
    assert!(world.is_committed(id));
    assert_eq!(world.recalled(), []);
    let (again, .., lasts) = world.borrow();
    assert_eq!(lasts, limits.cached_for);
    let id = world.write_as(BORROWER, 6);
    world.pass(100_000);
    assert!(!world.is_committed(id));
    assert_eq!(world.recalled()[0], again, "it did not give it back of its own accord");
}

#[test]
fn a_write_waits_for_a_client_that_does_not_answer_only_until_its_copy_is_over() {
    let limits = Limits::default();
    let mut world = World::new(limits);
    world.borrow();
    let (asked, ..) = world.borrow();
    let id = world.write(5);
    world.pass(limits.cached_for - 10_000);
    assert!(!world.is_committed(id), "the copy may be read");
    assert!(world.recalled().len() > 1 && world.recalled().iter().all(|number| *number == asked));
    world.pass(limits.cached_for / 4);
    assert!(world.is_committed(id));
}

#[test]
fn what_is_being_written_is_read_when_that_is_decided_and_not_lent_before() {
    let mut world = World::new(Limits::default());
    world.borrow();
    let (asked, ..) = world.borrow();
    let id = world.write(5);
    world.last += 1;
    let request = RequestId { session: SessionId(6), number: world.last };
    let message = Message::Borrow { request, blob: world.root(), size_max: 100 };
    world.deliver(HEADS, Envelope { partition: partition(0), message });
    let answered = |world: &World| {
        let is_it =
            |answer: &&Answer| matches!(answer, Answer::Lent { request: told, .. } if *told == request);
        world.answers.iter().find(is_it).cloned()
    };
    assert!(answered(&world).is_none() && !world.is_committed(id));
    world.give_back(asked);
    let Some(Answer::Lent { blob: Some(blob), lasts: 0, .. }) = answered(&world) else {
        panic!("it is answered when the write is decided")
    };
    assert_eq!(blob.size, 5);
}

#[test]
fn a_primary_after_another_one_waits_for_copies_of_clients_too() {
    let limits = Limits::default();
    let mut world = World::new(limits);
    world.borrow();
    assert!(world.borrow().3 > 0);
    world.begin_again();
    let id = world.write(5);
    world.pass(limits.cached_for - 10_000);
    assert!(!world.is_committed(id));
    world.pass(limits.cached_for / 4);
    assert!(world.is_committed(id));
}

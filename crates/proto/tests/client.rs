//! A client and one node that leads everything, without a network: what they make of what a program wants.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "client/purging.rs"]
mod purging;
#[path = "client/room.rs"]
mod room;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use tyr_proto::{
    Answered, BlobName, BlobPlan, CONDITIONS_MAX, Check, ClassId, Client, ClientOutput, Condition,
    Configuration, End, Epoch, Event, HeadPlan, Incarnation, Keyspace, KeyspaceSeed, Keyspaces, Layout,
    NodeId, Operation, OperationResult, Outcome, Output, Partition, PartitionCount, PartitionId, Placement,
    Plan, ReadAnswer, Refusal, Replica, ResultValue, RingVersion, Router, SessionId, Snapshots, Time, Told,
    Transaction, TransactionId,
    encoding::{from_bytes, to_bytes},
    message::{Answer, Envelope, Message},
};
use tyr_types::{CHUNK_SIZE_MIN, Key, KeyspaceId, KeyspaceSettings, Number, Operand, Transform};

const PARTITIONS: u32 = 4;
const ME: Replica = Replica { node: NodeId(1), incarnation: Incarnation(1) };

/// A client, a node, and which partitions the node answers for.
struct World {
    keyspaces: Arc<Keyspaces>,
    router: Router,
    client: Client,
    now: u64,
    silent: Vec<PartitionId>,
    /// What the client said.
    said: Vec<Envelope>,
}

fn partition(index: u32) -> PartitionId {
    PartitionId { class: ClassId(0), index }
}

fn blob(key: &str) -> BlobName {
    BlobName { keyspace: KeyspaceId(1), key: Key::new(key).unwrap() }
}

fn keyspaces() -> Arc<Keyspaces> {
    let settings = KeyspaceSettings { chunk_size: CHUNK_SIZE_MIN, ..KeyspaceSettings::default() };
    let placement = Placement {
        class: ClassId(0),
        partitions: PartitionCount::new(PARTITIONS).unwrap(),
        seed: KeyspaceSeed([0; 16]),
        layout: Layout::of(&settings).unwrap(),
    };
    Arc::new(BTreeMap::from([(
        KeyspaceId(1),
        Keyspace { placement, multi_version: true, snapshots: Snapshots::default(), is_dropped: false },
    )]))
}

impl World {
    fn new() -> Self {
        let keyspaces = keyspaces();
        let mut router = Router::new(ME, keyspaces.clone());
        let mut client = Client::new(SessionId(1), keyspaces.clone());
        for index in 0..PARTITIONS {
            let configuration = Configuration {
                epoch: Epoch(2),
                since: RingVersion(1),
                floor: RingVersion(1),
                replicas: vec![ME],
                learners: Vec::new(),
            };
            router.handle_configuration(Time(0), true, partition(index), configuration.clone());
            client.handle_configuration(partition(index), configuration);
        }
        let mut world = World { keyspaces, router, client, now: 0, silent: Vec::new(), said: Vec::new() };
        world.settle();
        world
    }

    fn time(&self) -> Time {
        Time(self.now)
    }

    /// Carries what is said until nobody says anything more.
    fn settle(&mut self) {
        loop {
            if let Some(output) = self.router.poll_output() {
                match output {
                    Output::Store { partition, index, epoch, .. } => {
                        self.router.handle_stored(Time(self.now), true, partition, index, epoch);
                    }
                    Output::Send(_, envelope) => {
                        self.router.handle_message(Time(self.now), true, envelope);
                    }
                    Output::Answer(SessionId(1), answer) => {
                        self.client.handle_answer(Time(self.now), ME.node, answer);
                    }
                    _ => {}
                }
            } else if let Some(output) = self.client.poll_output() {
                let ClientOutput::Send(_, envelope) = output else { continue };
                self.said.push(envelope.clone());
                if !self.silent.contains(&envelope.partition) {
                    self.router.handle_message(Time(self.now), true, envelope);
                }
            } else {
                return;
            }
        }
    }

    fn pass(&mut self, micros: u64) {
        self.now += micros;
        self.router.handle_tick(Time(self.now), true);
        self.client.handle_tick(Time(self.now));
        self.settle();
    }

    /// Tells a transaction what there is to tell, and what it is told.
    fn tell(&mut self, transaction: &mut Transaction) -> Vec<Told> {
        loop {
            self.settle();
            let Some(mut event) = self.client.poll_event() else { break };
            transaction.handle(&mut self.client, Time(self.now), &mut event);
        }
        std::iter::from_fn(|| transaction.poll_told()).collect()
    }

    fn commit(&mut self, transaction: &mut Transaction) -> End {
        transaction.commit(&mut self.client, Time(self.now), None);
        let told = self.tell(transaction);
        let [Told::Ended(end)] = &told[..] else { panic!("it ends once: {told:?}") };
        end.clone()
    }

    fn read(&mut self, blob: &BlobName) -> Vec<u8> {
        let mut transaction = Transaction::begin(0);
        transaction.read(&mut self.client, Time(self.now), blob, 0..1 << 30);
        let told = self.tell(&mut transaction);
        let [Told::Read(_, ReadAnswer::Bytes(Some(bytes)))] = &told[..] else { panic!("{told:?}") };
        transaction.roll_back(&mut self.client);
        bytes.clone()
    }

    /// A blob whose head is in a partition.
    fn blob_in(&self, index: u32) -> BlobName {
        let mut names = (0..).map(|number: u32| blob(&number.to_string()));
        let keyspace = &self.keyspaces[&KeyspaceId(1)];
        names.find(|name| keyspace.partition_of(name, 0) == partition(index)).unwrap()
    }

    fn answer(&mut self, id: TransactionId, results: Vec<OperationResult>) {
        let outcome = Some((Outcome::Committed, results));
        self.client.handle_answer(self.time(), ME.node, Answer::Outcome { id, outcome });
    }

    /// How many transactions a partition remembers.
    fn remembered(&self, index: u32) -> usize {
        self.router.partition(partition(index)).unwrap().state().records().count()
    }

    fn marks(&self) -> Vec<(PartitionId, u64)> {
        let mark = |envelope: &Envelope| match &envelope.message {
            Message::Answered { answered, .. } => Some((envelope.partition, answered.mark())),
            _ => None,
        };
        self.said.iter().filter_map(mark).collect()
    }
}

fn plan(name: &BlobName) -> BlobPlan {
    BlobPlan::blind(name.clone(), vec![Operation::Create])
}

/// Bytes that differ wherever one may be mistaken for another.
fn payload(length: usize) -> Vec<u8> {
    (0..length).map(|at| u8::try_from(at % 251).unwrap()).collect()
}

#[test]
fn a_number_in_two_chunks_is_transformed_on_what_its_transaction_wrote() {
    let mut world = World::new();
    let (name, border) = (blob("a"), usize::try_from(CHUNK_SIZE_MIN).unwrap());
    let mut written = payload(border + 40_000);
    let mut transaction = Transaction::begin(0);
    transaction.write(&name, 0, &written[..]);
    let place = transaction.transform(&name, CHUNK_SIZE_MIN - 4, Transform::add(Operand::U64(1)));
    let End::Committed(values) = world.commit(&mut transaction) else { panic!("commits") };
    let number = border - 4..border + 4;
    assert_eq!(values[&(name.clone(), place)], ResultValue::Old(written[number.clone()].into()));
    let old = u64::from_le_bytes(written[number.clone()].try_into().unwrap());
    written[number].copy_from_slice(&(old + 1).to_le_bytes());
    assert!(world.read(&name) == written);
}

#[test]
fn payload_of_many_stages_is_read_as_it_was_written() {
    let mut world = World::new();
    let name = blob("a");
    let bytes = payload(3_500_000);
    let mut transaction = Transaction::begin(0);
    transaction.write(&name, 100_001, &bytes[..]);
    assert_eq!(world.commit(&mut transaction), End::Committed(BTreeMap::new()));
    let mut transaction = Transaction::begin(0);
    let place = transaction.append(&name, &bytes[..]);
    let offset = ResultValue::Offset(3_600_001);
    assert_eq!(world.commit(&mut transaction), End::Committed([((name.clone(), place), offset)].into()));
    assert!(world.read(&name) == [&[0; 100_001][..], &bytes, &bytes].concat());
}

#[test]
fn bytes_are_copied_by_the_nodes_as_they_were_seen() {
    let mut world = World::new();
    let (from, to) = (blob("a"), blob("b"));
    let bytes = payload(2_500_000);
    let mut transaction = Transaction::begin(0);
    transaction.write(&from, 0, &bytes[..]);
    assert_eq!(world.commit(&mut transaction), End::Committed(BTreeMap::new()));
    world.said.clear();

    let seen = |world: &mut World| {
        let mut transaction = Transaction::begin(0);
        transaction.exists(&mut world.client, Time(world.now), &from);
        assert!(matches!(world.tell(&mut transaction)[..], [Told::Read(..)]));
        transaction
    };
    let mut transaction = seen(&mut world);
    assert_eq!(transaction.copy(&world.client, &from, 10..2_000_010, &to, 70_001), 2_000_000);
    assert_eq!(transaction.copy(&world.client, &from, 2_499_990..1 << 40, &to, 3), 10, "what there is");
    assert_eq!(transaction.copy(&world.client, &from, 1 << 40..1 << 41, &to, 3), 0);
    assert_eq!(world.commit(&mut transaction), End::Committed(BTreeMap::new()));
    let copied = [&[0; 3], &bytes[2_499_990..], &[0; 69_988], &bytes[10..2_000_010]].concat();
    assert!(world.read(&to) == copied);
    assert!(!world.said.iter().any(|envelope| matches!(envelope.message, Message::Stage(_))));

    // A blob may be copied within itself: what was there before.
    let mut transaction = seen(&mut world);
    assert_eq!(transaction.copy(&world.client, &from, 0..100_000, &from, 50_000), 100_000);
    assert_eq!(world.commit(&mut transaction), End::Committed(BTreeMap::new()));
    let bytes = [&bytes[..50_000], &bytes[..100_000], &bytes[150_000..]].concat();
    assert!(world.read(&from) == bytes);

    // What was copied counts as read, and nothing else does.
    for (place, end) in [(5, End::Refused(Refusal::Conflict)), (300_000, End::Committed(BTreeMap::new()))] {
        let mut transaction = seen(&mut world);
        let mut other = Transaction::begin(0);
        other.write(&from, place, &b"other"[..]);
        assert_eq!(world.commit(&mut other), End::Committed(BTreeMap::new()));
        assert_eq!(transaction.copy(&world.client, &from, 0..200_000, &to, 0), 200_000);
        assert_eq!(world.commit(&mut transaction), end, "{place}");
    }
}

#[test]
fn much_payload_in_small_pieces_does_not_travel_in_one_plan() {
    let mut world = World::new();
    let name = blob("a");
    let piece = payload(60_000);
    let mut transaction = Transaction::begin(0);
    for _ in 0..100 {
        transaction.append(&name, &piece[..]);
    }
    assert!(matches!(world.commit(&mut transaction), End::Committed(values) if values.len() == 100));
    let inline = |envelope: &Envelope| match &envelope.message {
        Message::Start(plan) => {
            let operations = plan.heads.iter().flat_map(|head| &head.operations);
            operations.filter(|operation| matches!(operation, Operation::Append { .. })).count()
        }
        _ => 0,
    };
    assert!(world.said.iter().all(|envelope| inline(envelope) * piece.len() <= 1 << 20));
    assert!(world.read(&name) == piece.repeat(100));
}

#[test]
fn a_transaction_of_a_keyspace_that_is_not_known_does_nothing_at_all() {
    let mut world = World::new();
    let other = BlobName { keyspace: KeyspaceId(7), ..blob("a") };
    let id = world.client.commit(Time(0), vec![plan(&blob("a")), plan(&other)], None);
    world.settle();
    let Some(Event::Ended(ended, outcome, _)) = world.client.poll_event() else { panic!("is answered") };
    assert_eq!((ended, outcome), (id, Outcome::Refused(Refusal::NotFound)));
    assert!(world.said.is_empty() && world.client.is_idle());
}

#[test]
fn a_snapshot_of_keyspaces_of_which_one_is_dropped_is_none() {
    let mut world = World::new();
    let expired = |world: &mut World, of: &[u32]| {
        let of = of.iter().map(|keyspace| (KeyspaceId(*keyspace), &b""[..])).collect();
        let asked = world.client.snapshot_prefixes(Time(world.now), &of);
        (asked, matches!(world.client.poll_event(), Some(Event::Expired(told)) if told == asked))
    };
    assert!(expired(&mut world, &[1, 7]).1, "it was dropped already");
    world.silent = (0..PARTITIONS).map(partition).collect();
    let (asked, is_over) = expired(&mut world, &[1]);
    assert!(!is_over);
    world.client.handle_keyspaces(Arc::new(BTreeMap::new()));
    let mut told = Vec::new();
    while told.is_empty() && world.now < 10_000_000 {
        world.pass(100_000);
        told.extend(world.client.poll_event());
    }
    assert!(matches!(told[..], [Event::Expired(of)] if of == asked), "it is dropped meanwhile: {told:?}");
    assert!(world.client.is_idle());
}

#[test]
fn a_transaction_of_more_than_one_can_be_is_refused() {
    let mut world = World::new();
    let mut transaction = Transaction::begin(0);
    let bytes: Arc<[u8]> = payload(1 << 20).into();
    for _ in 0..1025 {
        transaction.append(&blob("a"), bytes.clone());
    }
    assert_eq!(world.commit(&mut transaction), End::Refused(Refusal::TooLarge));
    let mut transaction = Transaction::begin(0);
    for _ in 0..=u16::MAX {
        transaction.append(&blob("a"), [1][..].to_vec());
    }
    assert_eq!(world.commit(&mut transaction), End::Refused(Refusal::TooLarge));
    assert!(world.said.is_empty());
}

#[test]
fn who_touches_more_than_is_reserved_for_it_does_not_wait_for_who_waits_for_its_reserve() {
    let mut world = World::new();
    let blobs = [0, 1].map(|index| world.blob_in(index));
    let mut transactions = blobs.each_ref().map(|blob| {
        let asked = world.client.reserve(world.time(), &BTreeSet::from([blob.clone()]));
        world.settle();
        let Some(Event::Frozen(told, frozen)) = world.client.poll_event() else { panic!("nobody waits") };
        assert_eq!(told, asked);
        Transaction::begin_reserved(0, asked, frozen)
    });
    for (transaction, blob) in transactions.iter_mut().zip(blobs.iter().rev()) {
        transaction.write(blob, 0, b"x".to_vec());
        transaction.commit(&mut world.client, Time(world.now), None);
    }
    world.settle();
    while let Some(mut event) = world.client.poll_event() {
        for transaction in &mut transactions {
            transaction.handle(&mut world.client, Time(world.now), &mut event);
        }
        world.settle();
    }
    for transaction in &mut transactions {
        assert!(matches!(transaction.poll_told(), Some(Told::Ended(End::Committed(_)))));
    }
}

#[test]
fn a_commit_that_waits_for_its_reads_gives_up_in_time() {
    let mut world = World::new();
    let name = world.blob_in(0);
    world.silent.push(partition(0));
    let mut transaction = Transaction::begin(0);
    transaction.exists(&mut world.client, Time(0), &name);
    transaction.write(&name, 0, [1][..].to_vec());
    transaction.commit(&mut world.client, Time(0), Some(Time(1_000_000)));
    world.pass(999_999);
    transaction.handle_tick(&mut world.client, Time(world.now));
    assert_eq!(world.tell(&mut transaction), []);
    world.pass(1);
    transaction.handle_tick(&mut world.client, Time(world.now));
    assert_eq!(world.tell(&mut transaction), [Told::Ended(End::Late)]);
    world.silent.clear();
    world.pass(10_000_000);
    assert_eq!(world.tell(&mut transaction), [], "nothing of it was sent");
}

#[test]
fn a_partition_is_told_the_highest_mark_that_it_waits_for() {
    let mut world = World::new();
    let [one, other] = [0, 1].map(|index| world.blob_in(index));
    world.silent = vec![partition(0), partition(1)];
    let [first, second, third] = [&one, &other, &one].map(|name| {
        let id = world.client.commit(Time(0), vec![plan(name)], None);
        world.settle();
        id
    });
    world.answer(third, Vec::new());
    world.answer(first, Vec::new());
    world.pass(900_000);
    assert_eq!(world.marks(), [], "the second has not ended");
    world.answer(second, Vec::new());
    world.pass(1_000_000);
    let mut marks = world.marks();
    marks.sort();
    assert_eq!(marks, [(partition(0), 4), (partition(1), 4)]);
}

#[test]
fn what_waits_for_a_partition_that_nobody_serves_has_no_other_remember_what_came_later() {
    let mut world = World::new();
    let [served, unserved] = [0, 1].map(|index| world.blob_in(index));
    world.silent = vec![partition(1)];
    let lost = world.client.commit(Time(0), vec![plan(&unserved)], None);
    for _ in 0..3 {
        let append = Operation::Append { bytes: [1][..].into() };
        let plan = BlobPlan::blind(served.clone(), vec![append]);
        world.client.commit(world.time(), vec![plan], None);
        world.settle();
        world.pass(300_000);
    }
    assert_eq!(world.remembered(0), 3);
    for _ in 0..3 {
        world.pass(300_000);
    }
    assert_eq!((world.remembered(0), world.client.is_done()), (0, false));
    let told = world.marks().len();
    world.pass(1_000_000);
    assert_eq!(world.marks().len(), told, "it was noted");
    world.client.resolve(world.time(), lost);
    world.silent.clear();
    for _ in 0..4 {
        world.pass(1_000_000);
    }
    assert!(world.client.is_idle(), "{}", world.client.describe());
    assert_eq!([0, 1].map(|index| world.remembered(index)), [0, 0]);
    let state = world.router.partition(partition(1)).unwrap().state();
    assert!(state.head(&unserved).is_none(), "nobody had heard of it: it was refused");
}

#[test]
fn a_partition_hears_more_when_what_it_was_told_to_be_under_way_has_ended() {
    let mut world = World::new();
    let one = world.blob_in(0);
    world.silent = vec![partition(0)];
    let first = world.client.commit(Time(0), vec![plan(&one)], None);
    world.settle();
    world.now += 1_000_000;
    let second = world.client.commit(world.time(), vec![plan(&one)], None);
    world.settle();
    world.answer(second, Vec::new());
    world.pass(300_000);
    assert_eq!(world.marks(), [(partition(0), 3)]);
    world.answer(first, Vec::new());
    let answered = Answered::all_but([1].into_iter(), 3);
    world.client.handle_answer(
        world.time(),
        ME.node,
        Answer::MarkNoted { partition: partition(0), answered },
    );
    assert!(!world.client.is_idle(), "the first has ended, too");
    let answered = Answered::below(3);
    world.client.handle_answer(
        world.time(),
        ME.node,
        Answer::MarkNoted { partition: partition(0), answered },
    );
    assert!(world.client.is_idle());
}

#[test]
fn an_answer_that_names_no_blob_of_the_plan_does_no_harm() {
    let mut world = World::new();
    world.silent = (0..PARTITIONS).map(partition).collect();
    let mut transaction = Transaction::begin(0);
    transaction.append(&blob("a"), [1][..].to_vec());
    transaction.commit(&mut world.client, Time(0), None);
    world.settle();
    let started = world.said.iter().find_map(|envelope| match &envelope.message {
        Message::Start(plan) => Some(plan.id),
        _ => None,
    });
    let id = started.unwrap();
    let other = TransactionId { birth: RingVersion(id.birth.0 + 1), ..id };
    world.answer(other, Vec::new());
    assert_eq!(world.tell(&mut transaction), [], "it is another one's");
    let result = |head| OperationResult { head, operation: 0, value: ResultValue::Offset(0) };
    world.answer(id, vec![result(0), result(1)]);
    let values = [((blob("a"), 0), ResultValue::Offset(0))].into();
    assert_eq!(world.tell(&mut transaction), [Told::Ended(End::Committed(values))]);
}

/// A transaction of one write, refused by a failure when its first plan is sent; and what it is told once the node answers.
fn fenced(reads: bool, gives_up_at: Option<Time>) -> (World, Transaction, Vec<Told>) {
    let mut world = World::new();
    let name = world.blob_in(0);
    let mut transaction = Transaction::begin(0);
    if reads {
        let id = transaction.exists(&mut world.client, Time(0), &name);
        assert_eq!(world.tell(&mut transaction), [Told::Read(id, ReadAnswer::Stat(None))]);
    }
    world.silent.push(partition(0));
    transaction.write(&name, 0, [1][..].to_vec());
    transaction.commit(&mut world.client, Time(0), gives_up_at);
    world.settle();
    let started = world.said.iter().find_map(|envelope| match &envelope.message {
        Message::Start(plan) => Some(plan.id),
        _ => None,
    });
    let outcome = Some((Outcome::Refused(Refusal::Fenced), Vec::new()));
    let answer = Answer::Outcome { id: started.unwrap(), outcome };
    world.client.handle_answer(world.time(), ME.node, answer);
    let told = world.tell(&mut transaction);
    (world, transaction, told)
}

#[test]
fn what_reads_nothing_is_sent_again_after_a_refusal_that_it_has_no_part_in() {
    let (mut world, mut transaction, told) = fenced(false, None);
    assert_eq!((told, transaction.is_pausing()), (Vec::new(), true));
    world.silent.clear();
    world.pass(10_000);
    transaction.handle_tick(&mut world.client, Time(world.now));
    assert_eq!(world.tell(&mut transaction), [Told::Ended(End::Committed(BTreeMap::new()))]);
    assert_eq!(world.read(&world.blob_in(0)), [1]);
}

#[test]
fn what_has_read_is_sent_again_after_a_failure_and_what_it_has_read_is_looked_at_anew() {
    for (overwritten, end) in
        [(false, End::Committed(BTreeMap::new())), (true, End::Refused(Refusal::Conflict))]
    {
        let (mut world, mut transaction, told) = fenced(true, None);
        assert_eq!((told, transaction.is_pausing()), (Vec::new(), true));
        world.silent.clear();
        if overwritten {
            let mut other = Transaction::begin(0);
            other.write(&world.blob_in(0), 0, [2][..].to_vec());
            other.commit(&mut world.client, Time(world.now), None);
            assert_eq!(world.tell(&mut other), [Told::Ended(End::Committed(BTreeMap::new()))]);
        }
        world.pass(10_000);
        transaction.handle_tick(&mut world.client, Time(world.now));
        assert_eq!(world.tell(&mut transaction), [Told::Ended(end)]);
    }
}

#[test]
fn what_is_to_be_sent_again_gives_up_in_time() {
    let (mut world, mut transaction, told) = fenced(false, Some(Time(5_000)));
    assert_eq!((told, transaction.is_pausing()), (Vec::new(), true));
    world.silent.clear();
    world.pass(10_000);
    transaction.handle_tick(&mut world.client, Time(world.now));
    assert_eq!(world.tell(&mut transaction), [Told::Ended(End::Late)]);
    assert!(!transaction.is_pausing());
}

#[test]
fn who_is_denied_what_was_sent_before_hears_in_time_that_its_end_is_unknown() {
    let mut world = World::new();
    let name = world.blob_in(0);
    world.silent = vec![partition(0)];
    let id = world.client.commit(Time(0), vec![plan(&name)], Some(Time(2_000_000)));
    world.settle();
    world.pass(500_000);
    let outcome = Some((Outcome::Refused(Refusal::Denied), Vec::new()));
    world.client.handle_answer(world.time(), ME.node, Answer::Outcome { id, outcome });
    world.settle();
    assert!(world.client.poll_event().is_none(), "a node that took it may still have it");
    world.pass(1_500_000);
    assert!(matches!(world.client.poll_event(), Some(Event::Unknown(of)) if of == id));
}

impl World {
    /// How many blobs were looked at, and how many transactions were begun, since this was asked last.
    fn said(&mut self) -> (usize, usize) {
        let said = std::mem::take(&mut self.said);
        let count = |is: fn(&Message) -> bool| said.iter().filter(|said| is(&said.message)).count();
        (count(|said| matches!(said, Message::Look { .. })), count(|said| matches!(said, Message::Start(_))))
    }

    /// The number at which a blob is read now.
    fn version(&mut self, blob: &BlobName) -> Number {
        let mut reader = Transaction::begin(0);
        reader.exists(&mut self.client, Time(self.now), blob);
        self.tell(&mut reader);
        let version = reader.number(blob).unwrap();
        reader.roll_back(&mut self.client);
        version
    }

    /// How a transaction ends that checks this and sets an attribute of another blob, or of the same one, or changes nothing.
    fn end_if(&mut self, blob: &BlobName, check: &Check, changed: Option<&BlobName>) -> End {
        let mut transaction = Transaction::begin(0);
        transaction.check(&mut self.client, Time(self.now), blob, check.clone());
        let set = Operation::SetAttribute { name: "b".into(), value: None };
        if let Some(changed) = changed {
            transaction.change(changed, set);
        }
        self.said();
        self.commit(&mut transaction)
    }
}

#[test]
fn what_was_not_read_is_looked_at_by_the_head_which_takes_no_message_of_its_own() {
    let mut world = World::new();
    let (here, there) = (world.blob_in(0), world.blob_in(1));
    let value: Option<Arc<[u8]>> = Some([7][..].into());
    let mut transaction = Transaction::begin(0);
    transaction.write(&here, 0, [1][..].to_vec());
    transaction.change(&here, Operation::SetAttribute { name: "a".into(), value: value.clone() });
    assert!(matches!(world.commit(&mut transaction), End::Committed(_)));
    let version = world.version(&here);
    let attribute = |value| Check::Attribute { name: "a".into(), value };
    for (check, holds) in [
        (Check::Exists, true),
        (Check::Missing, false),
        (Check::Size(1), true),
        (Check::Size(2), false),
        (attribute(value), true),
        (attribute(None), false),
        (Check::Version(version), true),
        (Check::Version(Number::ZERO), false),
    ] {
        let end = if holds { End::Committed(BTreeMap::new()) } else { End::Refused(Refusal::Conflict) };
        assert_eq!(world.end_if(&here, &check, Some(&there)), end, "{check:?}");
        assert_eq!(world.said(), (0, 1), "{check:?}");
        // What changes nothing has nothing to log either.
        assert_eq!(world.end_if(&here, &check, None), end, "{check:?}");
        assert_eq!(world.said().1, 0, "{check:?}");
    }
    // What was read meanwhile is known at once when it commits.
    for (check, end) in [
        (Check::Exists, End::Committed(BTreeMap::new())),
        (Check::Missing, End::Refused(Refusal::Conflict)),
        (Check::Size(2), End::Refused(Refusal::Conflict)),
    ] {
        let mut transaction = Transaction::begin(0);
        transaction.check(&mut world.client, Time(world.now), &here, check.clone());
        transaction.read(&mut world.client, Time(world.now), &here, 0..1);
        world.tell(&mut transaction);
        assert_eq!(world.commit(&mut transaction), end, "{check:?}");
    }
    let last = world.end_if(&here, &Check::Version(version), Some(&here));
    assert_eq!(last, End::Committed(BTreeMap::new()));
    assert_eq!(world.end_if(&here, &Check::Version(version), Some(&here)), End::Refused(Refusal::Conflict));
}

#[test]
fn what_was_read_and_is_to_be_of_an_earlier_version_is_refused_if_there_was_a_later_one() {
    let mut world = World::new();
    let (here, there) = (world.blob_in(0), world.blob_in(1));
    let write = |world: &mut World, byte: u8| {
        let mut transaction = Transaction::begin(0);
        transaction.write(&here, 0, vec![byte]);
        assert!(matches!(world.commit(&mut transaction), End::Committed(_)));
        world.version(&here)
    };
    let (first, last) = (write(&mut world, 1), write(&mut world, 2));
    for (version, end) in [(first, End::Refused(Refusal::Conflict)), (last, End::Committed(BTreeMap::new()))]
    {
        let mut transaction = Transaction::begin(0);
        transaction.check(&mut world.client, Time(world.now), &here, Check::Version(version));
        transaction.read(&mut world.client, Time(world.now), &here, 0..1);
        transaction.write(&there, 0, vec![3]);
        world.tell(&mut transaction);
        assert_eq!(world.commit(&mut transaction), end);
    }
}

#[test]
fn much_payload_is_not_sent_before_what_it_depends_on_was_looked_at() {
    for (length, looks) in [(1 << 20, 0), ((1 << 20) + 1, 1)] {
        let mut world = World::new();
        let (here, there) = (world.blob_in(0), world.blob_in(1));
        let mut transaction = Transaction::begin(0);
        transaction.check(&mut world.client, Time(world.now), &here, Check::Exists);
        transaction.write(&there, 0, vec![1; length]);
        assert_eq!(world.commit(&mut transaction), End::Refused(Refusal::Conflict));
        assert_eq!(world.said(), (looks, 1 - looks), "{length}");
    }
}

#[test]
fn a_head_is_asked_for_no_more_conditions_than_it_looks_at() {
    let mut world = World::new();
    let (here, there) = (world.blob_in(0), world.blob_in(1));
    let mut transaction = Transaction::begin(0);
    transaction.write(&here, 0, vec![1]);
    assert!(matches!(world.commit(&mut transaction), End::Committed(_)));
    world.said();
    let check = |number: usize| Check::Attribute { name: number.to_string(), value: None };
    let mut transaction = Transaction::begin(0);
    let checks = (0..CONDITIONS_MAX).chain(0..CONDITIONS_MAX).map(check);
    checks.for_each(|check| transaction.check(&mut world.client, Time(world.now), &here, check));
    transaction.write(&there, 0, vec![1]);
    assert_eq!(world.commit(&mut transaction), End::Committed(BTreeMap::new()));
    assert_eq!(world.said(), (0, 1), "the same twice is one");
    let mut transaction = Transaction::begin(0);
    let checks = (0..=CONDITIONS_MAX).map(check);
    checks.for_each(|check| transaction.check(&mut world.client, Time(world.now), &here, check));
    transaction.write(&there, 0, vec![2]);
    assert_eq!(world.commit(&mut transaction), End::Committed(BTreeMap::new()));
    assert_eq!(world.said(), (1, 1), "one more is looked at");
    let conditions = vec![Condition::Exists; CONDITIONS_MAX + 1];
    let id = TransactionId { session: SessionId(1), sequence: 1, birth: RingVersion(1) };
    let head = HeadPlan { conditions, ..HeadPlan::blind(partition(0), here, Vec::new()) };
    let plan = Plan { id, answered: 0, reserve: None, heads: vec![head] };
    assert!(from_bytes::<Plan>(&to_bytes(&plan)).is_err());
}

#[test]
fn bytes_that_are_nowhere_any_more_are_told_to_be_lost_and_holes_are_zeros() {
    let mut world = World::new();
    let name = world.blob_in(0);
    let keyspace = world.keyspaces[&KeyspaceId(1)].clone();
    let mut elsewhere = (1..).filter(|chunk| keyspace.partition_of(&name, *chunk) == partition(1));
    let [written, hole] = [elsewhere.next().unwrap(), elsewhere.next().unwrap()];
    let at = |chunk: u64| chunk * CHUNK_SIZE_MIN;
    let mut transaction = Transaction::begin(0);
    for (offset, bytes) in [(0, "first"), (at(written), "there"), (at(hole + 1), "end")] {
        transaction.change(&name, Operation::Write { offset, bytes: bytes.as_bytes().into() });
    }
    assert!(matches!(world.commit(&mut transaction), End::Committed(_)));
    let told = |world: &mut World, offset: u64| {
        let mut transaction = Transaction::begin(0);
        transaction.read(&mut world.client, Time(world.now), &name, offset..offset + 5);
        let mut told = world.tell(&mut transaction);
        transaction.roll_back(&mut world.client);
        let Some(Told::Read(_, answer)) = told.pop() else { panic!("{told:?}") };
        answer
    };
    let bytes = |bytes: &[u8]| ReadAnswer::Bytes(Some(bytes.to_vec()));
    assert_eq!(told(&mut world, at(written)), bytes(b"there"));
    // All that had the partition in memory are gone.
    world.router.restore(Partition::new(partition(1), ME));
    let configured = |epoch| Configuration {
        epoch: Epoch(epoch),
        since: RingVersion(2),
        floor: RingVersion(2),
        replicas: vec![ME],
        learners: Vec::new(),
    };
    world.router.handle_configuration(world.time(), true, partition(1), configured(3));
    world.settle();
    assert_eq!(told(&mut world, at(written)), ReadAnswer::BytesLost);
    assert_eq!(told(&mut world, at(hole)), bytes(&[0; 5]));
    assert_eq!(told(&mut world, 0), bytes(b"first"));
    // What is written there from now on is there.
    let mut transaction = Transaction::begin(0);
    transaction.change(&name, Operation::Write { offset: at(written), bytes: b"again".as_slice().into() });
    transaction.commit(&mut world.client, Time(world.now), None);
    (0..100).for_each(|_| world.pass(10_000));
    assert_eq!(told(&mut world, at(written)), bytes(b"again"));
    // Behind the end there is nothing that could be lost, and what is there may be asked for before that is known.
    let mut transaction = Transaction::begin(0);
    transaction.change(&name, Operation::Truncate { size: 5 });
    transaction.commit(&mut world.client, Time(world.now), None);
    (0..100).for_each(|_| world.pass(10_000));
    world.router.restore(Partition::new(partition(1), ME));
    world.router.handle_configuration(world.time(), true, partition(1), configured(4));
    world.settle();
    let mut transaction = Transaction::begin(0);
    transaction.read(&mut world.client, Time(world.now), &name, 0..at(hole + 2));
    let told = world.tell(&mut transaction);
    assert!(matches!(&told[..], [Told::Read(_, answer)] if *answer == bytes(b"first")), "{told:?}");
    transaction.roll_back(&mut world.client);
}

#[test]
fn who_reads_what_it_has_appended_itself_has_seen_where_the_blob_ended() {
    for (range, is_seen) in [(0..8, false), (6..9, true), (8..12, true)] {
        let mut world = World::new();
        let name = blob("a");
        let mut transaction = Transaction::begin(0);
        transaction.write(&name, 0, &b"eight by"[..]);
        assert_eq!(world.commit(&mut transaction), End::Committed(BTreeMap::new()));
        let mut reader = Transaction::begin(0);
        reader.append(&name, &b"mine"[..]);
        reader.read(&mut world.client, Time(world.now), &name, range.clone());
        assert!(matches!(world.tell(&mut reader)[..], [Told::Read(_, ReadAnswer::Bytes(Some(_)))]));
        let mut other = Transaction::begin(0);
        other.append(&name, &b"other"[..]);
        assert!(matches!(world.commit(&mut other), End::Committed(_)));
        let end = world.commit(&mut reader);
        assert_eq!(end == End::Refused(Refusal::Conflict), is_seen, "{range:?}: {end:?}");
    }
}

#[test]
fn what_was_cut_off_when_its_chunk_had_answered_does_not_show_where_the_reader_lets_the_blob_grow() {
    let mut world = World::new();
    let name = blob("a");
    let mut transaction = Transaction::begin(0);
    transaction.write(&name, 0, &b"former"[..]);
    assert_eq!(world.commit(&mut transaction), End::Committed(BTreeMap::new()));
    let mut reader = Transaction::begin(0);
    reader.write(&name, 100, &b"end"[..]);
    reader.read(&mut world.client, Time(world.now), &name, 0..6);
    // The chunk answers before that, and the head after it.
    let mut looks = Vec::new();
    while let Some(ClientOutput::Send(_, envelope)) = world.client.poll_output() {
        match envelope.message {
            Message::Look { .. } => looks.push(envelope),
            _ => world.router.handle_message(Time(world.now), true, envelope),
        }
    }
    assert!(world.tell(&mut reader).is_empty() && looks.len() == 1);
    let mut other = Transaction::begin(0);
    other.change(&name, Operation::Truncate { size: 0 });
    assert_eq!(world.commit(&mut other), End::Committed(BTreeMap::new()));
    looks.into_iter().for_each(|look| world.router.handle_message(Time(world.now), true, look));
    let told = world.tell(&mut reader);
    let [Told::Read(_, ReadAnswer::Bytes(Some(bytes)))] = &told[..] else { panic!("{told:?}") };
    assert_eq!(bytes, &[0; 6]);
    assert_eq!(world.commit(&mut reader), End::Committed(BTreeMap::new()));
}

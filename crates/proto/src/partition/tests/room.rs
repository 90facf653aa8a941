//! Devices without room.

use super::{
    served::{DONE, Served, bytes},
    *,
};
use crate::Payload;

const FULL: Option<Outcome> = Some(Outcome::Refused(Refusal::Full));

/// Has a router take a message, and returns what it sends, and how transactions have ended.
fn tell(router: &mut Router, now: u64, at: u32, message: Message) -> (Vec<Message>, Option<Outcome>) {
    router.handle_message(Time(now), true, Envelope { partition: partition(at), message });
    let (mut sent, mut ended) = (Vec::new(), None);
    while let Some(output) = router.poll_output() {
        match output {
            Output::Store { partition, index, epoch, .. } => {
                router.handle_stored(Time(now), true, partition, index, epoch);
            }
            Output::Send(_, envelope) => sent.push(envelope.message),
            Output::Answer(_, Answer::Outcome { outcome: Some((outcome, _)), .. }) => ended = Some(outcome),
            _ => {}
        }
    }
    (sent, ended)
}

/// Chunks of a blob after the first, one with the head in partition 0 and one in partition 1.
fn chunks() -> [u64; 2] {
    let at = |index| {
        (1..).find(|chunk| keyspace(2).partition_of(&name_in(0), *chunk) == partition(index)).unwrap()
    };
    [at(0), at(1)]
}

/// A blob whose head is in a partition.
fn name_in(index: u32) -> BlobName {
    let named = |key: u8| BlobName { keyspace: KeyspaceId(1), key: Key::new([key]).unwrap() };
    (0..).map(named).find(|blob| keyspace(2).partition_of(blob, 0) == partition(index)).unwrap()
}

fn write(chunk: u64) -> Operation {
    Operation::Write { offset: chunk * CHUNK_SIZE_MIN, bytes: bytes(4) }
}

fn rooms(sent: &[Message]) -> Vec<bool> {
    let told = sent.iter().filter_map(|message| match message {
        Message::Room { partition: at, is_short } => {
            assert_eq!(*at, partition(0));
            Some(*is_short)
        }
        _ => None,
    });
    told.collect()
}

#[test]
fn what_has_no_room_at_a_chunk_elsewhere_is_refused_at_its_head_until_there_is_some() {
    let mut router = primary_of(&keyspace(2));
    let [own, other] = chunks();
    let mut sequence = 0;
    let mut does = |router: &mut Router, now, operations: &[Operation]| {
        sequence += 1;
        let head = HeadPlan::blind(partition(0), name_in(0), operations.to_vec());
        let plan = Plan { id: id(sequence), answered: sequence, reserve: None, heads: Vec::from([head]) };
        let (sent, ended) = tell(router, now, 0, Message::Start(Arc::new(plan)));
        let asks = sent.iter().filter(|message| matches!(message, Message::AskRoom { .. })).count();
        if sent.iter().any(|message| matches!(message, Message::Write { .. })) {
            let vote = Message::Vote { id: id(sequence), part: Part::Chunks(partition(1)) };
            return (tell(router, now, 0, vote).1, asks);
        }
        (ended, asks)
    };
    assert_eq!(does(&mut router, 0, &[Operation::Create, write(other)]), (DONE, 0));
    let short = Message::Room { partition: partition(1), is_short: true };
    tell(&mut router, 1, 0, short);
    assert_eq!(does(&mut router, 2, &[write(other)]), (FULL, 0));
    assert_eq!(does(&mut router, 3, &[write(own)]), (DONE, 0), "there is room for that");
    let punch = Operation::Punch { offset: CHUNK_SIZE_MIN, length: 1 << 40 };
    assert_eq!(does(&mut router, 4, &[punch]), (DONE, 0), "that takes none");
    // It may have said so, and not have been heard.
    assert_eq!(does(&mut router, 600_000, &[write(other)]), (FULL, 1));
    assert_eq!(does(&mut router, 600_001, &[write(other)]), (FULL, 0));
    let mut asks = |now| {
        router.handle_tick(Time(now), true);
        run(&mut router).iter().filter(|message| matches!(message, Message::AskRoom { .. })).count()
    };
    assert_eq!(
        [5_000_000, 5_700_000, 5_900_000].map(&mut asks),
        [0, 1, 0],
        "though nobody wants to write there"
    );
    tell(&mut router, 6_000_002, 0, Message::Room { partition: partition(1), is_short: false });
    assert_eq!(does(&mut router, 6_000_003, &[write(other)]), (DONE, 0));
}

#[test]
fn a_chunk_takes_what_has_no_room_and_says_so_to_its_head_and_when_there_is_room_again() {
    let mut router = primary_of(&keyspace(2));
    let wanted = |sequence, operation| {
        let number = Number::new(1, sequence);
        let write = ChunkWrite {
            chunk: 3,
            partition: partition(0),
            previous: None,
            operations: Vec::from([operation]),
            drops_former: false,
        };
        let writes = ChunkWrites {
            id: id(sequence),
            decider: partition(1),
            refused: None,
            writes: Vec::from([(name_in(1), number, write)]),
        };
        Message::Write { writes: Arc::new(writes), driver: partition(1) }
    };
    let bytes: Payload = [1; 4][..].into();
    let write = || ChunkOperation::Write { offset: 0, bytes: bytes.clone(), part: 0..4 };
    assert!(rooms(&tell(&mut router, 0, 0, wanted(1, write())).0).is_empty());
    router.handle_room(true);
    let cut = ChunkOperation::Cut { range: 0..4 };
    assert!(rooms(&tell(&mut router, 1, 0, wanted(2, cut)).0).is_empty());
    let (sent, _) = tell(&mut router, 2, 0, wanted(3, write()));
    assert_eq!(rooms(&sent), [true]);
    assert!(
        router.partition(partition(0)).unwrap().state().record(id(3)).is_some(),
        "it is past its lock point"
    );
    let (sent, _) = tell(&mut router, 3, 0, Message::AskRoom { partition: partition(1) });
    assert_eq!(rooms(&sent), [true]);
    router.handle_tick(Time(200_000), true);
    assert!(rooms(&run(&mut router)).is_empty());
    router.handle_room(false);
    router.handle_tick(Time(400_000), true);
    assert_eq!(rooms(&run(&mut router)), [false]);
    router.handle_tick(Time(600_000), true);
    assert!(rooms(&run(&mut router)).is_empty(), "once");
}

#[test]
fn what_makes_room_notes_little_in_all_and_attributes_and_keys_count() {
    let mut served = Served::new();
    let attribute =
        |size| Operation::SetAttribute { name: "n".into(), value: Some(alloc::vec![1; size].into()) };
    let punch = || [Operation::Punch { offset: 0, length: 1 }];
    for key in ["x", "y", "z"] {
        assert_eq!(served.does(key, Operation::Create), DONE);
    }
    served.router.handle_room(true);
    let big = [Operation::Create, attribute(9000)];
    assert_eq!(served.ends(&[("new", &big), ("x", &punch())]), FULL);
    let long = "k".repeat(2000);
    let keys: Vec<_> = (0..5).map(|number| alloc::format!("{long}{number}")).collect();
    let create = [Operation::Create];
    let mut heads: Vec<(&str, &[Operation])> = keys.iter().map(|key| (&key[..], &create[..])).collect();
    let punched = punch();
    heads.push(("x", &punched));
    assert_eq!(served.ends(&heads), FULL);
    assert_eq!(served.ends(&heads[2..]), DONE);
    let half = [served::append(5000)];
    assert_eq!(served.ends(&[("x", &punch()), ("y", &half), ("z", &half)]), FULL);
    assert_eq!(served.ends(&[("x", &punch()), ("y", &half)]), DONE);
}

#[test]
fn what_cuts_a_blob_says_so_in_its_attributes() {
    let mut served = Served::new();
    let attribute = |name: &str, size: Option<usize>| Operation::SetAttribute {
        name: name.into(),
        value: size.map(|size| alloc::vec![1; size].into()),
    };
    let (truncate, punch) = (Operation::Truncate { size: 0 }, Operation::Punch { offset: 0, length: 1 });
    assert_eq!(served.ends(&[("x", &[served::append(4000)])]), DONE);
    assert_eq!(served.does("y", Operation::Create), DONE);
    served.router.handle_room(true);
    assert_eq!(served.does("x", attribute("cut", Some(12))), FULL, "it cuts nothing");
    let notes = [attribute("cut", Some(12)), attribute("holes", None), attribute("holes", Some(0))];
    let both: [(&str, &[Operation]); 2] = [("x", core::slice::from_ref(&truncate)), ("y", &notes)];
    assert_eq!(served.ends(&both), FULL, "the other one is not cut");
    for cut in [&truncate, &punch] {
        let operations = [core::slice::from_ref(cut), &notes].concat();
        assert_eq!(served.ends(&[("x", &operations)]), DONE);
        assert_eq!(served.ends(&[("x", &operations), ("y", &[])]), DONE, "the other one is only looked at");
        assert_eq!(served.ends(&[("none", &operations)]), Some(Outcome::Refused(Refusal::NotFound)));
        let long = [cut.clone(), attribute("long", Some(9000))];
        assert_eq!(served.ends(&[("x", &long)]), FULL);
        assert_eq!(served.ends(&[("x", &[cut.clone(), served::append(1)])]), FULL);
    }
    assert_eq!(served.ends(&[("x", &[Operation::Delete, attribute("new", Some(12))])]), FULL);
}

#[test]
fn a_refusal_at_a_later_stop_keeps_no_payload() {
    let mut router = primary_of(&keyspace(2));
    router.handle_configuration(Time(0), true, partition(1), configuration(2, &[ME], &[]));
    run(&mut router);
    let write = |length| Operation::Write { offset: 0, bytes: bytes(length) };
    let heads = Vec::from([
        HeadPlan::blind(partition(0), name_in(0), Vec::from([write(4000)])),
        HeadPlan::blind(partition(1), name_in(1), Vec::from([write(5000)])),
    ]);
    let operations = Vec::from([ChunkOperation::Write { offset: 0, bytes: bytes(4000), part: 0..4000 }]);
    let to_chunk =
        ChunkWrite { chunk: 1, partition: partition(5), previous: None, operations, drops_former: false };
    let effect = HeadEffect {
        existence: ExistenceEffect::Begins,
        size: SizeEffect::AtLeast(4000),
        writes: Vec::from([to_chunk]),
        ..HeadEffect::default()
    };
    let stop = Stop {
        partition: partition(0),
        heads: 0..1,
        number: Number::new(1, 7),
        effects: Vec::from([Arc::new(effect)]),
    };
    let plan = Arc::new(Plan { id: id(1), answered: 0, reserve: None, heads });
    router.handle_room(true);
    let (sent, _) = tell(&mut router, 0, 1, Message::Pass { plan, stops: Vec::from([stop]) });
    let log = router.partition(partition(1)).unwrap().log();
    let refused = (log.start() + 1..=log.last()).filter_map(|index| log.entry(index));
    let sizes: Vec<_> = refused
        .filter(|(_, entry)| matches!(**entry, Entry::Refuse(_)))
        .map(|(_, entry)| entry.size())
        .collect();
    assert!(matches!(sizes[..], [size] if size < 1000), "{sizes:?}");
    // Whoever waits for the place that it took hears that nothing comes.
    let told = sent.iter().any(|message| {
        matches!(message, Message::Write { writes, .. } if writes.refused == Some(Refusal::Full) && writes.writes[0].1 == Number::new(1, 7))
    });
    assert!(told, "{sent:?}");
}

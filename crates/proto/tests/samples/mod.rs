//! Values of every kind that has bytes, made by hand.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "each test file uses a part of it")]

mod manager;

use std::{collections::BTreeMap, fmt::Debug, sync::Arc};

use tyr_proto::{
    Answered, BlobName, ChunkName, ClassId, Condition, Configuration, Epoch, Extent, FileName, Freeze, Grant,
    HeadPlan, Incarnation, KeepName, Keyspace, KeyspaceSeed, Layout, LeaseRequest, NamedSnapshot, NodeId,
    Operation, OperationResult, Outcome, PartitionCount, PartitionId, Payload, Placement, Plan, Refusal,
    Replica, ResultValue, RingVersion, Seen, SessionId, SnapshotId, Snapshots, Spot, Stage, StageCopy, Stand,
    State, Stretch, Time, TransactionId, Use, ZoneRule,
    access::{AccountId, AccountKind, AccountName, Claims, Rights, Scope},
    cluster::{
        self, Address, ClassSettings, Cluster, ClusterId, Command, Identity, Position, Proposal, Seal,
        SealId, Zone,
    },
    encoding::{Decode, Encode, Malformed, from_bytes, to_bytes},
    entry::{
        ChunkOperation, ChunkWrite, ChunkWrites, Discard, Entry, ExistenceEffect, HeadEffect, Link, Part,
        Prepare, Refused, SizeEffect, Stop, Tombstone,
    },
    message::{Answer, BlobStat, Envelope, HeadStat, Looked, Message, RequestId},
};
use tyr_types::{
    Durability, Key, KeyspaceId, KeyspaceName, KeyspaceSettings, Number, Op, Operand, Seek, Transform,
};

pub use manager::*;

/// A value with its bytes, and how they are read.
pub struct Sample {
    /// The type, and which of its values.
    pub name: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Reads bytes as this type and writes what was read.
    pub again: fn(&[u8]) -> Result<Vec<u8>, Malformed>,
    /// What was read, as text.
    pub show: fn(&[u8]) -> String,
    /// The value as text.
    pub shown: String,
}

fn sample<T: Encode + Decode + Debug>(name: &str, value: &T) -> Sample {
    Sample {
        name: name.to_string(),
        bytes: to_bytes(value),
        again: |bytes| from_bytes::<T>(bytes).map(|value| to_bytes(&value)),
        show: |bytes| format!("{:?}", from_bytes::<T>(bytes)),
        shown: format!("Ok({value:?})"),
    }
}

/// The text of a variant is its name followed by anything else.
fn variant(value: &impl Debug) -> String {
    let text = format!("{value:?}");
    text.split(|letter: char| !letter.is_alphanumeric()).next().unwrap().to_string()
}

/// Some of every type.
pub fn samples() -> Vec<Sample> {
    let mut all = Vec::new();
    for entry in entries() {
        all.push(sample(&format!("Entry::{}", variant(&entry)), &entry));
    }
    for message in messages() {
        let name = format!("Message::{}", variant(&message));
        all.push(sample(&name, &Envelope { partition: partition(7), message }));
    }
    for answer in answers() {
        all.push(sample(&format!("Answer::{}", variant(&answer)), &answer));
    }
    for command in commands() {
        all.push(sample(&format!("Command::{}", variant(&command)), &command));
    }
    for reply in replies() {
        all.push(sample(&format!("Reply::{reply:?}"), &reply));
    }
    let cluster = cluster();
    for request in requests() {
        all.push(sample(&format!("Request::{}", variant(&request)), &request));
    }
    for response in responses(&cluster) {
        all.push(sample(&format!("Response::{}", variant(&response)), &response));
    }
    for subject in subjects() {
        all.push(sample(&format!("Subject::{}", variant(&subject)), &subject));
    }
    let with_accounts = guarded();
    for fact in with_accounts.changes_since(Position::default(), 1000).facts {
        all.push(sample(&format!("Fact::{}", variant(&fact)), &fact));
    }
    all.push(sample("Difference", &cluster.changes_since(Position::default(), 2)));
    all.push(sample("Cluster", &cluster));
    all.push(sample("GuardedCluster", &with_accounts));
    all.push(sample("Claims", &claims()));
    all.push(sample("State", &state()));
    all.push(sample("Configuration", &configuration()));
    all.push(sample("Keyspaces", &keyspaces()));
    all.push(sample("Proposal", &proposal()));
    let request = LeaseRequest { holder: replica(1), sent: Time(1_000_000) };
    all.push(sample("LeaseRequest", &request));
    for grant in [Grant::Granted(request), Grant::NotLeading, Grant::Evicted] {
        all.push(sample(&format!("Grant::{}", variant(&grant)), &grant));
    }
    for transform in transforms() {
        all.push(sample(&format!("Transform::{:?}", transform.op()), &transform));
    }
    all
}

pub fn partition(index: u32) -> PartitionId {
    PartitionId { class: ClassId(1), index }
}

pub fn replica(node: u32) -> Replica {
    Replica { node: NodeId(node), incarnation: Incarnation(u64::from(node) + 300) }
}

fn blob(key: &str) -> BlobName {
    BlobName { keyspace: KeyspaceId(5), key: Key::new(key).unwrap() }
}

fn chunk(key: &str) -> ChunkName {
    ChunkName { blob: blob(key), index: 130 }
}

fn id(sequence: u64) -> TransactionId {
    TransactionId { session: SessionId(0xa1b2_c3d4), sequence, birth: RingVersion(9) }
}

fn request() -> RequestId {
    RequestId { session: SessionId(77), number: 200 }
}

fn payload(length: u8) -> Arc<[u8]> {
    (0..length).collect()
}

pub fn configuration() -> Configuration {
    Configuration {
        epoch: Epoch(3),
        since: RingVersion(200),
        floor: RingVersion(180),
        replicas: vec![replica(1), replica(2)],
        learners: vec![replica(3)],
    }
}

fn proposal() -> Proposal {
    Proposal { since: RingVersion(8), replicas: vec![replica(2)], learners: vec![replica(1), replica(3)] }
}

fn named(seed: u64, point: Option<Stand>) -> NamedSnapshot {
    NamedSnapshot { name: KeyspaceName::new("monday").unwrap(), taken: 1_800_000_000, seed, point }
}

fn tombstone() -> Tombstone {
    Tombstone { chunk: chunk("gone"), last: Number::new(3, 70) }
}

fn keep() -> KeepName {
    let point = Stand { epoch: Epoch(300), count: 4 };
    KeepName { keyspace: KeyspaceId(5), snapshot: SnapshotId(2), point }
}

fn snapshots() -> Snapshots {
    let mut snapshots = Snapshots::default();
    snapshots.begin(named(1, None));
    snapshots.complete(SnapshotId(1), keep().point);
    snapshots
}

pub fn keyspaces() -> tyr_proto::Keyspaces {
    let placement = Placement {
        class: ClassId(1),
        partitions: PartitionCount::new(64).unwrap(),
        seed: KeyspaceSeed(*b"sixteen bytes :)"),
        layout: Layout::of(&KeyspaceSettings::default()).unwrap(),
    };
    [(KeyspaceId(5), Keyspace { placement, multi_version: true, snapshots: snapshots(), is_dropped: false })]
        .into()
}

/// Keyspaces in which the heads of the sample plan are where it says, and its writes lie in several chunks.
pub fn small_keyspaces() -> tyr_proto::Keyspaces {
    let mut all = keyspaces();
    let settings = KeyspaceSettings { chunk_size: tyr_types::CHUNK_SIZE_MIN, ..KeyspaceSettings::default() };
    let keyspace = all.get_mut(&KeyspaceId(5)).unwrap();
    keyspace.placement.layout = Layout::of(&settings).unwrap();
    keyspace.placement.partitions = PartitionCount::new(4).unwrap();
    let fits = |keyspace: &Keyspace| {
        [("one", 1), ("two", 2)]
            .iter()
            .all(|(key, index)| keyspace.partition_of(&blob(key), 0) == partition(*index))
    };
    while !fits(keyspace) {
        keyspace.placement.seed.0[0] += 1;
    }
    all
}

fn transforms() -> Vec<Transform> {
    vec![
        Transform::add(Operand::U16(3)),
        Transform::new(Op::Multiply, Operand::F64(f64::NAN)).unwrap(),
        Transform::min(Operand::I32(-3)),
        Transform::max(Operand::U8(255)),
        Transform::new(Op::And, Operand::I8(-1)).unwrap(),
        Transform::new(Op::Or, Operand::U32(1 << 31)).unwrap(),
        Transform::new(Op::Xor, Operand::I64(i64::MIN)).unwrap(),
        Transform::new(Op::Swap, Operand::F32(-0.0)).unwrap(),
        Transform::compare_and_swap(Operand::I16(7), Operand::I16(-7)).unwrap(),
    ]
}

fn operations() -> Vec<Operation> {
    vec![
        Operation::Create,
        Operation::Delete,
        Operation::Write { offset: 1 << 40, bytes: payload(40).into() },
        Operation::Append { bytes: payload(3).into() },
        Operation::Truncate { size: 300 },
        Operation::Punch { offset: 70, length: 30 },
        Operation::Transform { offset: 9, transform: Transform::add(Operand::U64(1)) },
        Operation::SetAttribute { name: "a".into(), value: Some(payload(2)) },
        Operation::SetAttribute { name: "ä".into(), value: None },
        Operation::WriteStaged { offset: 1 << 40, length: 1 << 20 },
        Operation::AppendStaged { length: 1 << 20 },
        Operation::Lost { length: 4 << 10 },
    ]
}

/// Two heads in two partitions.
fn plan() -> Arc<Plan> {
    let seen = Seen {
        number: Number::new(2, 300),
        ranges: vec![0..10, 1000..1 << 30],
        existence: true,
        size: false,
        attributes: vec!["a".into()],
        all_attributes: true,
        version: false,
    };
    let (first, second) = (
        HeadPlan::blind(partition(1), blob("one"), operations()),
        HeadPlan {
            partition: partition(2),
            blob: blob("two"),
            seen: Some(seen),
            conditions: Vec::new(),
            operations: Vec::new(),
        },
    );
    Arc::new(Plan { id: id(12), answered: 11, reserve: Some(request()), heads: vec![first, second] })
}

/// The same with conditions.
fn conditional() -> Arc<Plan> {
    let plan = plan();
    let mut heads = plan.heads.clone();
    heads[0].conditions = vec![
        Condition::Exists,
        Condition::Size(1 << 33),
        Condition::Attribute { name: "a".into(), value: Some(payload(4)) },
        Condition::Attribute { name: "b".into(), value: None },
    ];
    heads[1].conditions = vec![Condition::Missing];
    Arc::new(Plan { heads, ..(*plan).clone() })
}

/// What the first head's operations come to: its payload is that of the plan.
fn effect(plan: &Plan) -> Arc<HeadEffect> {
    let Operation::Write { bytes, .. } = &plan.heads[0].operations[2] else { panic!("the third writes") };
    let (shared, transform) = (bytes.clone(), Transform::add(Operand::U64(1)));
    let operations = vec![
        ChunkOperation::Cut { range: 5..u64::MAX },
        ChunkOperation::Cut { range: 300..500 },
        ChunkOperation::Write { offset: 0, bytes: shared.clone(), part: 0..40 },
        ChunkOperation::Write { offset: 200, bytes: shared.clone(), part: 20..40 },
        ChunkOperation::Transform { offset: 9, transform, answers: (0, 5) },
        ChunkOperation::Staged { offset: 70, payload: (0, 9), part: 30..100 },
    ];
    let previous = Some(Link { number: Number::new(1, 5), id: id(4), decider: partition(3) });
    let here = ChunkWrite { chunk: 0, partition: partition(1), previous, operations, drops_former: false };
    let operations = vec![ChunkOperation::Write { offset: 8, bytes: shared, part: 2..5 }];
    let elsewhere =
        ChunkWrite { chunk: 1, partition: partition(9), previous: None, operations, drops_former: true };
    Arc::new(HeadEffect {
        existence: ExistenceEffect::Begins,
        size: SizeEffect::AtLeast(1000),
        attributes: vec![("a".into(), Some(payload(2))), ("b".into(), None)],
        writes: vec![here, elsewhere],
        offsets: vec![(3, 960)],
        ranges: vec![0..40, 200..300],
        olds: vec![(6, payload(8))],
    })
}

fn stops(plan: &Plan) -> Vec<Stop> {
    let (number, later) = (Number::new(3, 400), Number::new(4, 17));
    let reads = Arc::new(HeadEffect::default());
    vec![
        Stop { partition: partition(1), heads: 0..1, number, effects: vec![effect(plan)] },
        Stop { partition: partition(2), heads: 1..2, number: later, effects: vec![reads] },
    ]
}

/// The second half of a payload.
fn stage() -> Arc<Stage> {
    let (id, decider, bytes) = (id(40), partition(2), payload(60).into());
    Arc::new(Stage { id, decider, payload: (1, 3), from: 300, bytes, part: 20..60 })
}

/// The same half, of which another chunk has the bytes.
fn stage_copy() -> Arc<StageCopy> {
    let (id, decider, chunk) = (id(40), partition(2), chunk("one"));
    let at = Number::new(3, 70);
    Arc::new(StageCopy { id, decider, payload: (1, 3), from: 300, chunk, range: 20..60, at })
}

fn chunk_writes() -> Arc<ChunkWrites> {
    let bytes = Payload::from(payload(100));
    let operations = vec![
        ChunkOperation::Write { offset: 0, bytes: bytes.clone(), part: 30..60 },
        ChunkOperation::Write { offset: 64, bytes, part: 35..55 },
    ];
    let write =
        ChunkWrite { chunk: 2, partition: partition(7), previous: None, operations, drops_former: true };
    let writes = vec![(blob("one"), Number::new(3, 400), write)];
    Arc::new(ChunkWrites { id: id(12), decider: partition(2), refused: Some(Refusal::Fenced), writes })
}

fn entries() -> Vec<Entry> {
    let plan = plan();
    let stops = stops(&plan);
    let refused = Refused {
        id: plan.id,
        refusal: Refusal::Conflict,
        plan: Some(plan.clone()),
        stops: stops[..1].to_vec(),
    };
    let unknown = Refused { id: id(13), refusal: Refusal::Fenced, plan: None, stops: Vec::new() };
    let refusals = [
        Refusal::Conflict,
        Refusal::Exists,
        Refusal::NotFound,
        Refusal::Fenced,
        Refusal::Invalid,
        Refusal::Busy,
        Refusal::Full,
        Refusal::Unstaged,
        Refusal::TooFewReplicas,
        Refusal::Quota,
        Refusal::TooLarge,
        Refusal::TooManyAttributes,
    ];
    let outcomes = refusals.map(Outcome::Refused).into_iter().chain([Outcome::Committed]);
    vec![
        Entry::Marker,
        Entry::Prepare(Arc::new(Prepare { plan, stops })),
        Entry::Refuse(Arc::new(refused)),
        Entry::Refuse(Arc::new(unknown)),
        Entry::Write(chunk_writes()),
        Entry::Outcomes((20..).map(id).zip(outcomes).collect()),
        Entry::Forget { id: id(3), answered: Some(Arc::new(Answered::below(2))) },
        Entry::Forget { id: id(3), answered: None },
        Entry::Mark {
            session: SessionId(u64::MAX),
            answered: Answered::all_but([1, 3].into_iter(), 4).into(),
            born: RingVersion(1),
        },
        Entry::Stage(stage()),
        Entry::Unstage { id: id(4) },
        Entry::Expire { session: SessionId(4), born: RingVersion(300) },
        Entry::Collected(vec![(blob("one"), Number::MAX), (blob("two"), Number::new(2, 9))]),
        Entry::Collect(vec![Discard {
            chunk: chunk("one"),
            up_to: Number::new(2, 9),
            keep: vec![Number::new(1, 3)],
        }]),
        Entry::Lend { lasts: 500_000 },
        Entry::Keep(keep()),
        Entry::LetGo(keep()),
        Entry::Purge(vec![tombstone()]),
    ]
}

/// All entries, each in its place behind one of an index.
pub fn append(epoch: Epoch, previous: u64) -> Message {
    let in_place = |(index, entry): (u64, Entry)| match entry {
        Entry::Prepare(prepare) => {
            let mut prepare = Prepare::clone(&prepare);
            prepare.stops.last_mut().unwrap().number = Number::new(epoch.0, index);
            (epoch, Arc::new(Entry::Prepare(Arc::new(prepare))))
        }
        entry => (epoch, Arc::new(entry)),
    };
    let entries = (previous + 1..).zip(entries()).map(in_place).collect();
    Message::Append { epoch, previous, entries, durable: previous }
}

pub fn messages() -> Vec<Message> {
    let plan = plan();
    let stops = stops(&plan)[..1].to_vec();
    let (id, partition, node, number) = (id(12), partition(2), NodeId(3), Number::new(3, 400));
    let (epoch, epochs) = (Epoch(300), vec![(Epoch(1), 300), (Epoch(3), 400)]);
    let (at, stand) = (Some(number), Stand { epoch, count: 4 });
    let extent = Extent::Blobs(vec![(partition, blob("one")), (partition, blob("two"))]);
    let freeze = Freeze { request: request(), stays: true, extent };
    let extent = Extent::Prefixes(vec![(KeyspaceId(5), payload(3)), (KeyspaceId(6), payload(0))]);
    let prefix = Freeze { request: request(), stays: false, extent };
    let extent = Extent::Keyspace(KeyspaceId(5), SnapshotId(2));
    let takes = Freeze { request: request(), stays: false, extent };
    let discard = Discard { chunk: chunk("one"), up_to: number, keep: vec![number] };
    vec![
        Message::Start(plan.clone()),
        Message::AskOutcome { id, settle: true },
        Message::Answered {
            session: SessionId(4),
            answered: Answered::all_but([7, 998].into_iter(), 1000),
            born: RingVersion(300),
        },
        Message::Look { request: request(), blob: blob("one") },
        Message::Pin { request: request(), keep: false },
        Message::Read { request: request(), chunk: chunk("one"), range: 0..1 << 20, at },
        Message::Locate { request: request(), chunk: chunk("one"), range: 0..1 << 20, at },
        Message::Seek { request: request(), chunk: chunk("one"), range: 5..1 << 20, what: Seek::Data },
        Message::Seek { request: request(), chunk: chunk("one"), range: 5..1 << 20, what: Seek::Hole },
        Message::Freeze { freeze: Arc::new(freeze), stands: vec![stand] },
        Message::Freeze { freeze: Arc::new(prefix), stands: Vec::new() },
        Message::Freeze { freeze: Arc::new(takes), stands: Vec::new() },
        Message::Kept { request: request(), keep: keep(), after: None },
        Message::Kept { request: request(), keep: keep(), after: Some(blob("one")) },
        Message::Frozen { request: request(), stand, point: Stand { epoch, count: 200 } },
        Message::Scan { request: request(), after: blob("one"), inclusive: true, limit: 1000 },
        Message::Stage(stage()),
        Message::KeepStages { id },
        Message::StageCopy(stage_copy()),
        Message::Pass { plan, stops },
        Message::Release { id },
        Message::Write { writes: chunk_writes(), driver: partition },
        Message::Vote { id, part: Part::Heads(partition) },
        Message::AskVote { id, decider: partition },
        Message::Outcome { id, outcome: Outcome::Committed, driver: Some(partition) },
        Message::OutcomeStored { id, part: Part::Chunks(partition) },
        Message::Olds { id, part: Part::Chunks(partition), olds: [((0, 5), payload(8))].into() },
        Message::Ask { id, partition, node },
        Message::AskNumber { number, id, partition },
        Message::NumberLost { number, id },
        Message::AskPrevious { number, previous: id, id, partition },
        Message::PreviousOver { number, id },
        Message::AskRoom { partition },
        Message::Room { partition, is_short: true },
        Message::AskStands { number, id, asked: (Epoch(300), Time(7)), partition },
        Message::Stands { id, asked: (Epoch(300), Time(7)), stands: true },
        Message::AskPurge { tombstones: vec![tombstone()], partition, ask: (Epoch(300), 7) },
        Message::Purge {
            gone: vec![tombstone()],
            alive: vec![tombstone(), tombstone()],
            ask: (Epoch(300), 7),
        },
        Message::Forget { id, answered: Some(Answered::below(7)), driver: partition },
        Message::Forgotten { id, part: partition },
        Message::Pull { id, payload: (1, 3), part: 200..400, partition },
        Message::Pulled(stage()),
        Message::Settle { id, partition, node },
        Message::Settled { id },
        Message::SendCopy { copy: stage_copy(), partition },
        Message::CopyLost { id },
        Message::Fetch { id, chunk: chunk("one"), range: 5..9, at: number, partition },
        Message::Fetched { id, chunk: chunk("one"), range: 5..9, at: number, bytes: vec![1, 2, 3, 4] },
        append(epoch, 400),
        Message::Stored { epoch, index: 401, node, is_short: true },
        Message::Reconcile { epoch, epochs: epochs.clone(), start: 5 },
        Message::Reconciled { epoch, index: 5, node },
        Message::Copy {
            epoch,
            index: 500,
            epochs,
            size: to_bytes(&state()).len() as u64,
            from: 0,
            bytes: to_bytes(&state()).into(),
        },
        Message::Copied { epoch, index: 500, from: 7, node },
        Message::AskPins { epoch, blobs: vec![(blob("one"), number)] },
        Message::Pins { epoch, node, blobs: vec![(blob("one"), number, vec![Number::new(1, 2), number])] },
        Message::Collected { discards: vec![discard.clone()] },
        Message::Collect { head: partition, discards: vec![discard] },
        Message::Stat { request: request(), blobs: vec![blob("one"), blob("two")] },
        Message::Get { request: request(), blob: blob("one"), size_max: 4096 },
        Message::GetWith { request: request(), blob: blob("one"), size_max: 4096, others: vec![blob("two")] },
        Message::Subscribe { blob: blob("one"), holder: replica(2), partition, ask: 7 },
        Message::Cached { blob: blob("one"), ask: 7, lasts: 900_000, stat: head_stat() },
        Message::Uncache { of: partition, from: node, blob: blob("one"), holder: replica(2), ask: 7 },
        Message::Uncached { blob: blob("one"), holder: replica(2), partition, ask: 7 },
        Message::Borrow { request: request(), blob: blob("one"), size_max: 4096 },
        Message::GiveBack { session: SessionId(8), blob: blob("one"), asked: 7 },
        Message::TellFrozen { request: request(), after: blob("one") },
        Message::Start(conditional()),
    ]
}

fn head_stat() -> HeadStat {
    let attributes = [("mode".to_owned(), payload(4))].into();
    HeadStat {
        number: Number::new(3, 9),
        blob: Some(BlobStat { creation: Number::new(1, 1), size: 77, attributes }),
    }
}

fn answers() -> Vec<Answer> {
    let (request, results) = (request(), [ResultValue::Offset(900), ResultValue::Old(payload(8))]);
    let results = (0..).zip(results).map(|(operation, value)| OperationResult { head: 0, operation, value });
    let looked = Looked {
        creation: Number::new(1, 1),
        size: 1 << 33,
        attributes: [("a".into(), payload(20))].into(),
        written: [(0, Number::new(1, 1)), (512, Number::new(3, 400))].into(),
    };
    let blobs =
        vec![(blob("one"), Number::new(3, 401), Some(looked.clone())), (blob("two"), Number::ZERO, None)];
    let kept = vec![(blob("one"), looked.clone())];
    vec![
        Answer::Outcome { id: id(12), outcome: Some((Outcome::Committed, results.collect())) },
        Answer::Outcome { id: id(12), outcome: None },
        Answer::Looked {
            request,
            partition: partition(2),
            number: Number::new(3, 401),
            blob: Some(looked.clone()),
        },
        Answer::Frozen {
            request,
            point: Stand { epoch: Epoch(3), count: 9 },
            partition: partition(2),
            blobs: blobs.clone(),
        },
        Answer::Bytes { request, version: Number::ZERO, bytes: vec![7; 20].into(), whole: true },
        Answer::Located { request, version: Number::new(3, 401), stretches: stretches(), whole: false },
        Answer::Sought { request, found: None },
        Answer::Sought { request, found: Some(300) },
        Answer::Stats { request, stats: vec![Some(head_stat()), None] },
        Answer::Lent {
            request,
            number: Number::new(3, 401),
            blob: Some(looked.clone()),
            bytes: Some(vec![7; 20].into()),
            lasts: 500_000,
        },
        Answer::Recall { partition: partition(2), blob: blob("one"), asked: 7 },
        Answer::Got {
            request,
            number: Number::new(3, 401),
            blob: Some(looked.clone()),
            bytes: Some(vec![7; 20].into()),
        },
        Answer::GotWith {
            request,
            number: Number::new(3, 401),
            blob: Some(looked),
            bytes: Some(vec![7; 20].into()),
            others: vec![Some(head_stat()), None],
        },
        Answer::Expired { request },
        Answer::Kept { request, number: Number::new(3, 401), blobs: kept, next: Some(blob("one")) },
        Answer::Denied { request },
        Answer::Names { request, names: vec![blob("a"), blob("b")], more: true },
        Answer::Staged { id: id(12), payload: (1, 3), from: 300 },
        Answer::Unstaged { id: id(12), refusal: Refusal::Full },
        Answer::MarkNoted { partition: partition(2), answered: Answered::below(12) },
        Answer::Elsewhere { partition: partition(2), configuration: configuration() },
        Answer::FrozenPart {
            request,
            point: Stand { epoch: Epoch(3), count: 9 },
            partition: partition(2),
            after: Some(blob("five")),
            blobs,
            more: true,
        },
    ]
}

fn stretches() -> Vec<Stretch> {
    let spot = Spot {
        file: FileName { journal: 1, number: 400 },
        position: 1 << 20,
        stored: 5000,
        from: 100,
        length: 4900,
        checksums: vec![0x0123_4567, 7],
    };
    vec![Stretch::Bytes(vec![7; 3]), Stretch::Zeros(300), Stretch::Spot(spot)]
}

/// What a partition has that prepared, wrote, refused, and learned.
fn state() -> State {
    let mut state = State::new(partition(1));
    let plan = plan();
    let stops = stops(&plan)[..1].to_vec();
    let alone = |sequence: u64, index: u64| {
        let head = HeadPlan { seen: None, ..plan.heads[0].clone() };
        let plan = Arc::new(Plan { id: id(sequence), answered: 0, reserve: None, heads: vec![head] });
        let number = Number::new(3, index);
        let stop = Stop { number, effects: vec![effect(&plan)], ..stops[0].clone() };
        Entry::Prepare(Arc::new(Prepare { plan, stops: vec![stop] }))
    };
    let log = [
        Entry::Marker,
        alone(30, 391),
        alone(31, 392),
        Entry::Outcomes(vec![(id(30), Outcome::Committed), (id(31), Outcome::Committed)]),
        alone(32, 394),
        Entry::Write(chunk_writes()),
        Entry::Refuse(Arc::new(Refused { id: id(33), refusal: Refusal::Exists, plan: None, stops: vec![] })),
        Entry::Collect(vec![Discard {
            chunk: ChunkName { blob: blob("one"), index: 0 },
            up_to: Number::new(3, 391),
            keep: vec![],
        }]),
        Entry::Mark { session: SessionId(8), answered: Answered::below(5).into(), born: RingVersion(9) },
        Entry::Marker,
        Entry::Prepare(Arc::new(Prepare { plan: plan.clone(), stops: stops.clone() })),
    ];
    for (index, entry) in (390..).zip(&log) {
        state.apply(index, Epoch(3), entry);
    }
    state.release_slot(&blob("one"), plan.id);
    state
}

/// Values that were altered in a few places: each of `damage` says what to do where, and with which byte.
pub fn damaged(valid: &[u8], damage: &[[u8; 4]]) -> Vec<u8> {
    let mut bytes = valid.to_vec();
    for &[high, low, action, byte] in damage {
        let at = usize::from(u16::from_be_bytes([high, low])) % bytes.len().max(1);
        match action % 4 {
            _ if bytes.is_empty() => bytes.push(byte),
            0 | 1 => bytes[at] = byte,
            2 => bytes.insert(at, byte),
            _ => drop(bytes.remove(at)),
        }
    }
    bytes
}

/// What the first byte of a message, an entry, and so on can be, and a test wants to see all of.
pub fn kinds<T: Decode + Debug>() -> Vec<u8> {
    let is_kind = |kind: &u8| {
        let refusal = from_bytes::<T>(&[*kind]).err();
        refusal.is_none_or(|refusal| !refusal.0.starts_with("there is no such kind"))
    };
    (0..=u8::MAX).filter(is_kind).collect()
}

/// Which of these the samples have.
pub fn first_bytes(of: &str) -> Vec<u8> {
    let mut all = BTreeMap::new();
    let of = format!("{of}::");
    for sample in samples().iter().filter(|sample| sample.name.starts_with(&of)) {
        all.insert(sample.bytes[if of == "Message::" { 2 } else { 0 }], ());
    }
    all.into_keys().collect()
}

//! Measures what the protocol costs on a cluster that nothing disturbs, beside what the design says that it costs.
//!
//! What is counted (messages, records, hops, refusals) is the same in every run; processor time is not.

use std::{fmt::Write as _, num::NonZeroU32, time::Instant};

use tyr_proto::{
    Assignment, BlobName, BlobPlan, ChunkName, Event, NodeId, Operation, Outcome, Seen, Transaction,
};
use tyr_types::{CHUNK_SIZE_MIN, Number, Operand, Transform};

use crate::{
    quiet::{Counts, Quiet, Setting, Telling, model::Model},
    random::Random,
};

/// All tables, in Markdown.
pub fn all() -> String {
    [operations(1), operations(3), in_flight(), contention(), hot_head(), sizes()].join("\n")
}

/// Nanoseconds of a message from one machine to another.
const HOP: u64 = Model::HOPS.network.hop;

/// How large a cluster is and who holds what.
#[derive(Clone, Copy, Debug)]
struct Shape {
    nodes: u32,
    replicas: u32,
    /// A power of two.
    partitions: u32,
    clients: u32,
    /// How far apart the first replicas of neighbouring partitions are.
    stride: u32,
}

impl Shape {
    /// A cluster of this shape in which nothing takes time but hops.
    fn cluster(self) -> Quiet {
        let Shape { nodes, replicas, partitions, clients, stride } = self;
        let holder = |index, place| NodeId(1 + (index * stride + place) % nodes);
        let holders = |index| (0..replicas).map(|place| holder(index, place)).collect();
        Quiet::new(Setting {
            nodes,
            shards: NonZeroU32::MIN,
            clients,
            assignment: Assignment((0..partitions).map(holders).collect()),
            chunk_size: CHUNK_SIZE_MIN,
            model: Model::HOPS,
            telling: Telling::All,
        })
    }
}

/// A load: how many transactions ended how, and what that took.
#[derive(Debug, Default)]
struct Load {
    committed: u64,
    refused: u64,
    counts: Counts,
    latency: u64,
    simulated: u64,
    processor: u64,
    places_max: usize,
    links: usize,
}

/// Has every client do one transaction after the other, each so many.
fn load(
    quiet: &mut Quiet,
    each: u64,
    watched: &BlobName,
    mut plan: impl FnMut(usize, u64) -> Vec<BlobPlan>,
) -> Load {
    let clients = quiet.clients.len();
    let (before, began, began_processor) = (quiet.counts, quiet.now(), processor_time());
    let mut load = Load::default();
    let mut sent = vec![(0, 0); clients];
    for (client, sent) in sent.iter_mut().enumerate() {
        // Spread over the time that one of them takes, so that they are not all at the same stage.
        quiet.run_for(if clients < 5 {
            0
        } else {
            (4 * HOP * (client as u64 + 1) / clients as u64 + began).saturating_sub(quiet.now())
        });
        *sent = (1, quiet.now());
        quiet.commit(client, plan(client, 0));
    }
    while load.committed + load.refused < clients as u64 * each {
        let (client, now, Event::Ended(_, outcome, _)) = quiet.next_told() else { continue };
        let (done, since) = sent[client];
        load.latency += now - since;
        match outcome {
            Outcome::Committed => load.committed += 1,
            Outcome::Refused(_) => load.refused += 1,
        }
        if done < each {
            sent[client] = (done + 1, now);
            quiet.commit(client, plan(client, done));
        }
        if load.committed.is_multiple_of(16) {
            let (places, links) = quiet.head_size(watched);
            (load.places_max, load.links) = (load.places_max.max(places), links);
        }
    }
    load.simulated = quiet.now() - began;
    quiet.rest();
    load.processor = processor_time() - began_processor;
    load.counts = quiet.counts.since(before);
    load
}

impl Load {
    fn ended(&self) -> u64 {
        self.committed + self.refused
    }
}

/// What one operation costs when nothing else goes on, of each kind.
fn operations(replicas: u32) -> String {
    let mut quiet =
        Shape { nodes: 4 * replicas, replicas, partitions: 4, clients: 1, stride: replicas }.cluster();
    let [a, b, c, d] = [[0, 1], [1, 2], [2, 3], [3, 0]].map(|partitions| quiet.blob_in(&partitions, 0));
    let far = quiet.blob_in(&[0, 3], 0);
    let other = quiet.blob_in(&[1, 2], 1000);
    let far_write = || write(CHUNK_SIZE_MIN + 8);
    let across = || write(CHUNK_SIZE_MIN - 4);
    let kinds: [Costed; 9] = [
        ("write in chunk 0", 1, 0, 0, vec![blind(&a, write(8))]),
        ("append in chunk 0", 1, 0, 0, vec![blind(&a, append())]),
        ("transform in chunk 0", 1, 0, 0, vec![blind(&a, add(16))]),
        ("write in chunk 1", 1, 1, 0, vec![blind(&a, far_write())]),
        ("write across chunks 0 and 1", 1, 1, 0, vec![blind(&a, across())]),
        ("transform in chunk 1", 1, 1, 2, vec![blind(&a, add(CHUNK_SIZE_MIN + 16))]),
        ("writes to 2 blobs", 2, 0, 0, vec![blind(&a, write(8)), blind(&b, write(8))]),
        ("writes to 4 blobs", 4, 0, 0, [&a, &b, &c, &d].map(|blob| blind(blob, write(8))).into()),
        (
            "writes to 2 blobs, each in chunk 1",
            2,
            2,
            0,
            vec![blind(&far, far_write()), blind(&other, far_write())],
        ),
    ];
    let mut text = format!(
        "### One operation at a time, {replicas} {}\n\n{OPERATIONS}",
        if replicas == 1 { "replica" } else { "replicas" }
    );
    for blob in [&a, &b, &c, &d, &far, &other] {
        // What follows finds blobs that exist and reach beyond what it writes.
        finish(&mut quiet, vec![blind(blob, write(CHUNK_SIZE_MIN + 4096))]);
        finish(&mut quiet, vec![blind(blob, Operation::Truncate { size: 4096 })]);
        quiet.rest();
    }
    for (name, heads, chunks, olds, plan) in kinds {
        let measured = one(&mut quiet, |quiet| finish(quiet, plan.clone()));
        let parts = heads + chunks;
        let hops = heads + 1 + if chunks > 0 { 2 } else { 0 } + if replicas > 1 { 2 } else { 0 } + olds;
        let messages = 2 + 4 * (heads - 1) + 3 * chunks + 2 * u64::from(replicas - 1) * parts + olds / 2;
        row(
            &mut text,
            name,
            measured,
            Some((hops, messages, u64::from(replicas) * parts)),
            Some(u64::from(replicas) * parts + 1),
        );
    }
    let direct = one(&mut quiet, |quiet| read(quiet, &a, &[0], None));
    row(&mut text, "direct read", direct, Some((2, 2, 0)), None);
    let at_number = one(&mut quiet, |quiet| {
        read_blob(quiet, &a);
    });
    row(&mut text, "read of 2 chunks at a number, the head first", at_number, Some((4, 7, 0)), None);
    let at_once = one(&mut quiet, |quiet| read_in_transaction(quiet, &a));
    row(&mut text, "read of 2 chunks at a number, all at once", at_once, Some((2, 7, 0)), None);
    let snapshot = one(&mut quiet, |quiet| take_snapshot(quiet, &[&a, &b]));
    row(&mut text, "snapshot of 2 blobs", snapshot, Some((4, 7, 0)), None);
    let number = read_blob(&mut quiet, &a);
    let other_number = read_blob(&mut quiet, &b);
    quiet.rest();
    let validated = one(&mut quiet, |quiet| {
        finish(quiet, vec![seen(&a, number, Vec::new()), seen(&b, other_number, Vec::new())]);
    });
    let r = u64::from(replicas);
    row(
        &mut text,
        "commit of reads of 2 blobs",
        validated,
        Some((3 + if r > 1 { 2 } else { 0 }, 6 + 4 * (r - 1), 2 * r)),
        None,
    );
    text
}

/// A kind of operation: its name, the partitions of its heads and of its chunks elsewhere, hops to fetch old values, its plan.
type Costed = (&'static str, u64, u64, u64, Vec<BlobPlan>);

const OPERATIONS: &str = "\
| operation | hops | formula | chain of all replicas | messages | formula | records | formula | messages later | records later |
|---|---|---|---|---|---|---|---|---|---|
";

/// Latency, counts until the answer, counts afterwards.
type Measured = (u64, Counts, Counts);

fn one(quiet: &mut Quiet, act: impl FnOnce(&mut Quiet)) -> Measured {
    let (before, began) = (quiet.counts, quiet.now());
    act(quiet);
    let (answered, latency) = (quiet.counts, quiet.now() - began);
    quiet.rest();
    (latency, answered.since(before), quiet.counts.since(answered))
}

fn row(
    text: &mut String,
    name: &str,
    (latency, now, later): Measured,
    formula: Option<(u64, u64, u64)>,
    chain: Option<u64>,
) {
    let (hops, messages, records) = formula.unwrap_or_default();
    let chain = chain.map_or_else(|| "-".to_owned(), |hops| hops.to_string());
    let _ = writeln!(
        text,
        "| {name} | {} | {hops} | {chain} | {} | {messages} | {} | {records} | {} | {} |",
        latency / HOP,
        now.messages,
        now.records,
        later.messages,
        later.records,
    );
}

/// Commits and waits for the answer.
fn finish(quiet: &mut Quiet, plan: Vec<BlobPlan>) {
    quiet.commit(0, plan);
    while !matches!(quiet.next_told().2, Event::Ended(..)) {}
}

fn read(quiet: &mut Quiet, blob: &BlobName, chunks: &[u64], at: Option<Number>) {
    quiet.with_client(0, |client, now| {
        for index in chunks {
            client.read(now, ChunkName { blob: blob.clone(), index: *index }, 8..16, at, 0);
        }
    });
    for _ in chunks {
        quiet.next_told();
    }
}

fn read_blob(quiet: &mut Quiet, blob: &BlobName) -> Number {
    quiet.with_client(0, |client, now| {
        client.look(now, blob.clone(), 0);
    });
    let (_, _, Event::Looked(look, number, _)) = quiet.next_told() else { panic!("a look is answered") };
    read(quiet, blob, &[0, 1], Some(number));
    quiet.with_client(0, |client, _| client.let_go(look));
    number
}

/// Reads bytes in two chunks in a transaction, which asks the head and the chunks at once.
fn read_in_transaction(quiet: &mut Quiet, blob: &BlobName) {
    let mut transaction = Transaction::begin(2);
    let range = CHUNK_SIZE_MIN - 4..CHUNK_SIZE_MIN + 4;
    quiet.with_client(0, |client, now| {
        transaction.read(client, now, blob, range);
    });
    while transaction.poll_told().is_none() {
        let mut event = quiet.next_told().2;
        quiet.with_client(0, |client, now| {
            transaction.handle(client, now, &mut event);
        });
    }
    quiet.with_client(0, |client, _| transaction.roll_back(client));
}

fn take_snapshot(quiet: &mut Quiet, blobs: &[&BlobName]) {
    let blobs = blobs.iter().copied().cloned().collect();
    quiet.with_client(0, |client, now| {
        client.snapshot(now, &blobs);
    });
    let (_, _, Event::Frozen(asked, _)) = quiet.next_told() else { panic!("a freeze is answered") };
    quiet.with_client(0, |client, _| client.let_go(asked));
}

/// What a transaction costs on one blob when many are in flight.
fn in_flight() -> String {
    let mut text = String::from(
        "### Many transactions in flight on one blob (8 bytes each in chunk 0, 3 replicas)\n\n\
         | in flight | hops | messages each | bytes each | records each | places at the head, most | chunks linked | \
         processor time each, µs |\n|---|---|---|---|---|---|---|---|\n",
    );
    for clients in [1, 10, 100, 1000] {
        let mut quiet = Shape { nodes: 3, replicas: 3, partitions: 1, clients, stride: 1 }.cluster();
        let blob = Quiet::name(0);
        let each = (20_000 / u64::from(clients)).clamp(20, 1000);
        let load =
            load(&mut quiet, each, &blob, |client, _| vec![blind(&blob, write(8 * (client as u64 % 8)))]);
        let ended = load.ended();
        let _ = writeln!(
            text,
            "| {clients} | {:.1} | {:.1} | {} | {:.2} | {} | {} | {:.0} |",
            ratio(load.latency, ended * HOP),
            ratio(load.counts.messages, ended),
            load.counts.bytes / ended,
            ratio(load.counts.records, ended),
            load.places_max,
            load.links,
            ratio(load.processor, ended * 1000),
        );
    }
    text
}

/// Which transactions are refused when 32 clients want the same bytes.
fn contention() -> String {
    let mut text = String::from(
        "### Refusals when 32 clients want the same bytes of one blob (3 replicas)\n\n\
         | what each does | ended | refused by conflict | hops |\n|---|---|---|---|\n",
    );
    let shape = Shape { nodes: 6, replicas: 3, partitions: 2, clients: 32, stride: 3 };
    let blobs = |quiet: &Quiet| [quiet.blob_in(&[0, 1], 0), quiet.blob_in(&[1, 0], 0)];
    let kinds: [(&str, Contended); 5] = [
        ("blind write in chunk 0", |[a, _]| vec![blind(a, write(8))]),
        ("blind write across two chunks", |[a, _]| vec![blind(a, write(CHUNK_SIZE_MIN - 4))]),
        ("append", |[a, _]| vec![blind(a, append())]),
        ("transform", |[a, _]| vec![blind(a, add(8))]),
        ("blind writes to two blobs", |[a, b]| vec![blind(a, write(8)), blind(b, write(8))]),
    ];
    for (name, plan) in kinds {
        let mut quiet = shape.cluster();
        let blobs = blobs(&quiet);
        let load = load(&mut quiet, 100, &blobs[0], |_, _| plan(&blobs));
        let hops = ratio(load.latency, load.ended() * HOP);
        let _ = writeln!(text, "| {name} | {} | {} | {hops:.1} |", load.ended(), load.refused);
    }
    let (ended, refused) = readers(shape);
    let _ = writeln!(
        text,
        "| read of two chunks at a number, half of the others write | {ended} | {refused} | |"
    );
    let (ended, refused) = read_and_write(shape);
    let _ = writeln!(
        text,
        "| for comparison: write of what was read, one round of 32 at once | {ended} | {refused} | |"
    );
    text
}

/// What a transaction wants of two blobs that everybody wants.
type Contended = fn(&[BlobName; 2]) -> Vec<BlobPlan>;

/// Client 0 reads while the others write. A read that finds its version collected would count as refused.
fn readers(shape: Shape) -> (usize, usize) {
    let mut quiet = shape.cluster();
    let blob = quiet.blob_in(&[0, 1], 0);
    finish(&mut quiet, vec![blind(&blob, write(CHUNK_SIZE_MIN - 4))]);
    for client in 1..16 {
        quiet.commit(client, vec![blind(&blob, write(CHUNK_SIZE_MIN - 4))]);
    }
    let (mut looks, mut ended, mut expired) = (Vec::new(), 0, 0);
    quiet.with_client(0, |client, now| looks.push(client.look(now, blob.clone(), 0)));
    while ended < 400 {
        let (client, _, told) = quiet.next_told();
        match told {
            Event::Looked(_, number, _) => quiet.with_client(0, |client, now| {
                for index in [0, 1] {
                    client.read(now, ChunkName { blob: blob.clone(), index }, 8..16, Some(number), 1);
                }
            }),
            Event::Bytes(..) | Event::Expired(_) => {
                ended += 1;
                expired += usize::from(matches!(told, Event::Expired(_)));
                if ended % 2 == 0 {
                    quiet.with_client(0, |client, now| {
                        looks.drain(..).for_each(|look| client.let_go(look));
                        looks.push(client.look(now, blob.clone(), 2));
                    });
                }
            }
            _ => {
                quiet.commit(client, vec![blind(&blob, write(CHUNK_SIZE_MIN - 4))]);
            }
        }
    }
    (ended / 2, expired)
}

fn read_and_write(shape: Shape) -> (u64, u64) {
    let mut quiet = shape.cluster();
    let blob = quiet.blob_in(&[0, 1], 0);
    let number = read_blob(&mut quiet, &blob);
    let load = load(&mut quiet, 1, &blob, |_, _| vec![seen(&blob, number, vec![write(8)])]);
    (load.ended(), load.refused)
}

/// How many transactions over several blobs one hot head lets through.
fn hot_head() -> String {
    let mut text = String::from(
        "### Transactions over several blobs that share one hot head (64 clients, 3 replicas, a hop of 0.1 ms)\n\n\
         | blobs | the hot head is visited | a second | bound a second |\n|---|---|---|---|\n",
    );
    for (blobs, place) in [(2u32, 0u32), (3, 0), (4, 0), (2, 1)] {
        let mut quiet = Shape { nodes: 12, replicas: 3, partitions: 4, clients: 64, stride: 3 }.cluster();
        let hot = quiet.blob_in(&[place], 0);
        let mut cold = Vec::new();
        for client in 0..64 {
            let others = (0..blobs).filter(|index| *index != place);
            cold.push(others.map(|index| quiet.blob_in(&[index], 1000 * (client + 1))).collect::<Vec<_>>());
        }
        let load = load(&mut quiet, 20, &hot, |client, _| {
            let others = cold[client].iter().map(|blob| blind(blob, write(8)));
            others.chain([blind(&hot, write(8 * client as u64))]).collect()
        });
        let bound = if place == 0 {
            (1_000_000_000 / (HOP * u64::from(blobs))).to_string()
        } else {
            "none by the slot".to_owned()
        };
        let visited = if place == 0 { "first" } else { "last" };
        let _ = writeln!(
            text,
            "| {blobs} | {visited} | {:.0} | {bound} |",
            ratio(load.committed * 1_000_000_000, load.simulated)
        );
    }
    text
}

/// What an operation costs as the cluster grows, and how fast it is simulated.
fn sizes() -> String {
    let mut text = String::from(
        "### Clusters of 3 to 256 nodes (3 replicas, 16 partitions and 4 clients a node; half of the transactions write one blob, half two)\n\n\
         | nodes | transactions | messages each | bytes each | records each | hops | processor time each, µs | simulated a second on one core |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for nodes in [3, 8, 32, 64, 128, 256u32] {
        let partitions = (16 * nodes).next_power_of_two();
        let mut quiet = Shape { nodes, replicas: 3, partitions, clients: 4 * nodes, stride: 1 }.cluster();
        let mut random = Random::new(1);
        let blobs = 64 * u64::from(nodes);
        let load = load(&mut quiet, 50, &Quiet::name(0), |_, number| {
            let one = random.below(blobs);
            let other = (one + 1 + random.below(blobs - 1)) % blobs;
            let names = [one, other].map(Quiet::name);
            let count = if number.is_multiple_of(2) { 1 } else { 2 };
            names[..count].iter().map(|blob| blind(blob, write(8))).collect()
        });
        let ended = load.ended();
        let _ = writeln!(
            text,
            "| {nodes} | {ended} | {:.1} | {} | {:.1} | {:.1} | {:.0} | {:.0} |",
            ratio(load.counts.messages, ended),
            load.counts.bytes / ended,
            ratio(load.counts.records, ended),
            ratio(load.latency, ended * HOP),
            ratio(load.processor, ended * 1000),
            ratio(ended * 1_000_000_000, load.processor.max(1)),
        );
    }
    text
}

fn blind(blob: &BlobName, operation: Operation) -> BlobPlan {
    BlobPlan::blind(blob.clone(), vec![operation])
}

fn seen(blob: &BlobName, number: Number, operations: Vec<Operation>) -> BlobPlan {
    let seen = Seen {
        number,
        ranges: std::iter::once(8..16).collect(),
        existence: true,
        size: false,
        ..Seen::default()
    };
    BlobPlan { blob: blob.clone(), seen: Some(seen), conditions: Vec::new(), operations }
}

fn write(offset: u64) -> Operation {
    Operation::Write { offset, bytes: [1; 8][..].into() }
}

fn append() -> Operation {
    Operation::Append { bytes: [2; 8][..].into() }
}

fn add(offset: u64) -> Operation {
    Operation::Transform { offset, transform: Transform::add(Operand::U64(1)) }
}

#[expect(clippy::cast_precision_loss, reason = "a table shows a few digits")]
fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

/// Nanoseconds that this thread has spent on a processor, or that have passed where the system does not say.
fn processor_time() -> u64 {
    static BEGAN: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let spent = told.and_then(|text| text.split_whitespace().next().and_then(|first| first.parse().ok()));
    let passed = || u64::try_from(BEGAN.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(u64::MAX);
    spent.unwrap_or_else(passed)
}

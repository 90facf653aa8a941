//! A load: clients that do one operation after the other, and what they and the cluster took for it.

use std::collections::BTreeMap;

use tyr_proto::{BlobName, BlobPlan, Event, Operation, Outcome, TransactionId, message::RequestId};
use tyr_types::{Operand, Transform};

use super::{Options, ratio};
use crate::{
    quiet::{Counts, Quiet},
    random::Random,
};

/// What a client does again and again, to blobs that it draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Overwrites the first bytes of a blob, so many.
    Write(usize),
    /// Gets a blob of so many bytes.
    Get(usize),
    /// Appends 256 bytes.
    Append,
    /// Adds to a number.
    Add,
    /// Overwrites 4 KiB of each of two blobs in one transaction.
    WriteTwo,
}

impl Kind {
    /// For a table.
    pub fn name(self) -> String {
        match self {
            Kind::Write(size) => format!("write {}", size_name(size)),
            Kind::Get(size) => format!("get {}", size_name(size)),
            Kind::Append => "append 256 B".to_owned(),
            Kind::Add => "add to a counter".to_owned(),
            Kind::WriteTwo => "transaction over two blobs".to_owned(),
        }
    }

    /// The bytes of each blob before the load begins; zero if it need not exist.
    fn size_before(self) -> usize {
        match self {
            Kind::Write(size) | Kind::Get(size) => size,
            Kind::WriteTwo => 4096,
            Kind::Append | Kind::Add => 0,
        }
    }
}

fn size_name(size: usize) -> String {
    if size < 1024 { format!("{size} B") } else { format!("{} KiB", size / 1024) }
}

/// What was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Operations.
    pub ended: u64,
    /// How long each took, in nanoseconds, the shortest first.
    pub latencies: Vec<u64>,
    /// How long all took, from the first to the last, in nanoseconds.
    pub elapsed: u64,
    /// How long the threads of all shards worked for them, what they did until everything was at rest included, in nanoseconds.
    pub busy: u64,
    /// How long the thread that worked longest did.
    pub busiest: u64,
    /// What was counted until everything was at rest.
    pub counts: Counts,
    /// The encoded bytes of the states of all replicas at the end.
    pub state: u64,
}

impl Load {
    /// Operations a second.
    pub fn rate(&self) -> f64 {
        ratio(self.ended, self.elapsed) * 1e9
    }

    /// What so many of a thousand operations took at the most.
    pub fn percentile(&self, thousandth: usize) -> u64 {
        let place = (self.latencies.len() * thousandth / 1000).min(self.latencies.len().saturating_sub(1));
        self.latencies.get(place).copied().unwrap_or(0)
    }
}

/// Has every client do its operations, so many at a time, and everything come to rest.
pub fn run(quiet: &mut Quiet, kind: Kind, blobs: u64, in_flight: u64, options: &Options) -> Load {
    let mut work = Work::new(kind, blobs, options.seed);
    work.prepare(quiet);
    let (before, busy_before, began) = (quiet.counts, quiet.shards_busy(), quiet.now());
    let mut left = vec![options.each; quiet.clients.len()];
    let mut open = BTreeMap::new();
    for (client, left) in left.iter_mut().enumerate() {
        for _ in 0..in_flight.min(options.each) {
            *left -= 1;
            open.insert(work.begin(quiet, client), quiet.now());
        }
    }
    let mut load = Load::default();
    while !open.is_empty() {
        let (client, now, told) = quiet.next_told();
        let Some(since) = name_of(&told).and_then(|name| open.remove(&name)) else { continue };
        load.latencies.push(now - since);
        if left[client] > 0 {
            left[client] -= 1;
            open.insert(work.begin(quiet, client), now);
        }
    }
    load.ended = load.latencies.len() as u64;
    load.elapsed = quiet.now() - began;
    load.latencies.sort_unstable();
    settle(quiet, &mut load, before, &busy_before);
    load
}

fn settle(quiet: &mut Quiet, load: &mut Load, before: Counts, busy_before: &[u64]) {
    let ended = quiet.now();
    quiet.rest();
    let after = quiet.shards_busy();
    load.counts = quiet.counts.since(before);
    let idle = quiet.idle_work(load.elapsed + quiet.now() - ended);
    let busy = || {
        after
            .iter()
            .zip(busy_before)
            .zip(&idle)
            .map(|((after, before), idle)| (after - before).saturating_sub(*idle))
    };
    (load.busy, load.busiest) = (busy().sum(), busy().max().unwrap_or(0));
    load.state = quiet.state_size();
}

/// Names an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Name {
    Transaction(TransactionId),
    Request(RequestId),
}

/// Which operation has ended. One that is refused would make the load another one than it says.
fn name_of(told: &Event) -> Option<Name> {
    match told {
        Event::Ended(id, outcome, _) => {
            assert_eq!(*outcome, Outcome::Committed, "blind writes are not refused");
            Some(Name::Transaction(*id))
        }
        Event::Got(request, ..) => Some(Name::Request(*request)),
        _ => None,
    }
}

/// What is done next, by whom.
struct Work {
    kind: Kind,
    blobs: u64,
    random: Random,
}

impl Work {
    fn new(kind: Kind, blobs: u64, seed: u64) -> Self {
        Work { kind, blobs, random: Random::new(seed) }
    }

    /// Makes the blobs that the load finds.
    fn prepare(&self, quiet: &mut Quiet) {
        let size = self.kind.size_before();
        if size == 0 {
            return;
        }
        let clients = quiet.clients.len();
        let mut client = (0..clients).cycle();
        let mut open = 0;
        for number in 0..self.blobs {
            quiet.commit(client.next().expect("there are clients"), vec![write(&Quiet::name(number), size)]);
            open += 1;
            while open == clients * PREPARED_AT_ONCE || (open > 0 && number + 1 == self.blobs) {
                open -= usize::from(name_of(&quiet.next_told().2).is_some());
            }
        }
        quiet.rest();
    }

    fn begin(&mut self, quiet: &mut Quiet, client: usize) -> Name {
        let one = self.random.below(self.blobs);
        let blob = Quiet::name(one);
        let part = |operation| BlobPlan::blind(blob.clone(), vec![operation]);
        let plan = match self.kind {
            Kind::Get(_) => return Name::Request(quiet.get(client, &blob, self.random.index(64))),
            Kind::Write(size) => vec![write(&blob, size)],
            Kind::Append => vec![part(Operation::Append { bytes: [2; 256][..].into() })],
            Kind::Add => {
                vec![part(Operation::Transform { offset: 0, transform: Transform::add(Operand::U64(1)) })]
            }
            Kind::WriteTwo => {
                let other = (one + 1 + self.random.below(self.blobs - 1)) % self.blobs;
                vec![write(&blob, 4096), write(&Quiet::name(other), 4096)]
            }
        };
        Name::Transaction(quiet.commit(client, plan))
    }
}

/// Blobs that each client makes at a time before a load begins.
const PREPARED_AT_ONCE: usize = 8;

fn write(blob: &BlobName, size: usize) -> BlobPlan {
    let operation = Operation::Write { offset: 0, bytes: vec![1; size].into() };
    BlobPlan::blind(blob.clone(), vec![operation])
}

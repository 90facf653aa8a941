//! Reads of what nodes on this host have in files: a node says where it lies, and hands each file once, through its hatch.
//!
//! Invariants:
//!
//! - Bytes that were read from a file are answered only if they have their checksums, and only as long as the node's hatch is open: what
//!   it has closed may be used again for something else.
//! - Everything that does not work here is asked of the node over the network.
//! - The number of files that are held is bounded, and none is held for long that nobody reads: a file that the node has removed takes up
//!   space as long.

mod shown;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    num::NonZero,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread::available_parallelism,
};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tyr_net::{HatchOwner, HatchReader, Patience};
use tyr_proto::{
    FileName, NodeId, Spot, Stretch, Time,
    message::{READ_SIZE_MAX, RequestId},
};
use tyr_types::Number;

use self::shown::ShownFile;
use crate::store::Reads;

/// The hatches of nodes on this host.
#[derive(Debug)]
pub struct Hatches {
    tell: UnboundedSender<Heard>,
    opened: u64,
    nodes: BTreeMap<NodeId, Gate>,
    sought: BTreeMap<NodeId, Sought>,
    /// A handle of it is with each read that is under way on a thread of its own.
    apart: Arc<()>,
    /// As many of these help; more would only take turns.
    apart_max: usize,
}

/// A node whose hatch is looked for, unless it is there.
#[derive(Clone, Copy, Debug)]
struct Sought {
    due: Time,
    /// After how many microseconds again.
    pause: u64,
}

/// The hatch of one node. Dropped, it is left.
#[derive(Debug)]
struct Gate {
    /// Which one of all that were gone to.
    number: u64,
    is_open: bool,
    wants: UnboundedSender<FileName>,
    asked: BTreeSet<FileName>,
    files: BTreeMap<FileName, Held>,
}

#[derive(Debug)]
struct Held {
    file: Arc<ShownFile>,
    used_at: Time,
}

/// What has happened at a hatch.
#[derive(Debug)]
pub struct Heard {
    /// Whose,
    pub node: NodeId,
    /// and which one of all that were gone to.
    pub number: u64,
    /// What.
    pub what: What,
}

/// What has happened at a hatch.
#[derive(Debug)]
pub enum What {
    /// It is open.
    Opened,
    /// It is not, or not any more.
    Closed,
    /// A file, if there is one of this name.
    File(FileName, Option<File>),
    /// What was read, after a while.
    Read(Located, Found),
}

/// What a node has said of a request, and what it takes to read it.
#[derive(Debug)]
pub struct Located {
    /// The request.
    pub request: RequestId,
    /// The version that is read.
    pub version: Number,
    /// Whether all of it was written.
    pub whole: bool,
    stretches: Vec<Stretch>,
    files: BTreeMap<FileName, Arc<ShownFile>>,
}

/// What came of reading files.
#[derive(Debug)]
pub enum Found {
    /// The bytes.
    Bytes(Vec<u8>),
    /// Some of it is not in memory.
    Slow,
    /// It cannot be read here.
    Unreadable,
    /// What was read has other checksums.
    Damaged,
}

/// How reads were answered: what [`Reads`] says.
#[derive(Debug, Default)]
pub struct Counts {
    from_files: AtomicU64,
    bytes_from_files: AtomicU64,
    from_network: AtomicU64,
    bytes_from_network: AtomicU64,
    fell_back: AtomicU64,
    damaged: AtomicU64,
}

/// As many files of a node are held at once.
const FILES_MAX: usize = 128;
/// A file that was not read for so many microseconds is let go.
const UNUSED_MAX: u64 = 10_000_000;
/// So many bytes are read from a file at once at the most, unless one spot alone has more.
const RUN_MAX: u64 = 2 * READ_SIZE_MAX;
/// What has so many bytes is read on a thread of its own if there is something else to do: with less, waking that takes as long as reading.
const APART_MIN: u64 = 32 << 10;
/// As many reads at the most are on threads of their own when another one is handed to one because it is large.
const APART_MAX: usize = 8;
/// A node whose hatch is not open is asked again after so many microseconds, then after twice as many,
const PAUSE_MIN: u64 = 200_000;
/// up to this.
const PAUSE_MAX: u64 = 60_000_000;

impl Hatches {
    /// None so far; what happens at them is told to the receiver.
    pub fn new() -> (Self, UnboundedReceiver<Heard>) {
        let (tell, heard) = unbounded_channel();
        let (nodes, sought) = Default::default();
        let processors = available_parallelism().map_or(1, NonZero::get);
        let apart_max = (processors - 1).min(APART_MAX);
        (Hatches { tell, opened: 0, nodes, sought, apart: Arc::default(), apart_max }, heard)
    }

    /// Goes to the hatch of a node, in the runtime that this is called in, unless it is there.
    pub fn go_to(&mut self, path: PathBuf, owner: HatchOwner, ticket: Option<u128>) {
        let node = NodeId(owner.node);
        if self.nodes.contains_key(&node) {
            return;
        }
        self.opened += 1;
        let (number, tell) = (self.opened, self.tell.clone());
        let (wants, wanted) = unbounded_channel();
        let (asked, files) = Default::default();
        self.nodes.insert(node, Gate { number, is_open: false, wants, asked, files });
        tokio::spawn(async move {
            // If nobody listens, the client has ended.
            let tell = |what| drop(tell.send(Heard { node, number, what }));
            stay(&path, (owner, ticket), wanted, &tell).await;
            tell(What::Closed);
        });
    }

    /// There is a connection to a node: its hatch is looked for from now on.
    pub fn seek(&mut self, now: Time, node: NodeId) {
        self.sought.insert(node, Sought { due: now, pause: PAUSE_MIN });
    }

    /// The nodes that are to be asked for their hatch now.
    pub fn take_due(&mut self, now: Time) -> Vec<NodeId> {
        let nodes = &self.nodes;
        let due = |(node, sought): &(&NodeId, &mut Sought)| sought.due <= now && !nodes.contains_key(node);
        let due = self.sought.iter_mut().filter(due).map(|(node, sought)| {
            *sought = Sought { due: now.after(sought.pause), pause: (2 * sought.pause).min(PAUSE_MAX) };
            *node
        });
        due.collect()
    }

    /// Whether files of a node can be read here.
    pub fn is_open(&self, node: NodeId) -> bool {
        self.nodes.get(&node).is_some_and(|gate| gate.is_open)
    }

    /// Takes note of what has happened. False if it is of a hatch that was left.
    pub fn note(&mut self, now: Time, heard: &mut Heard) -> bool {
        let known = self.nodes.get_mut(&heard.node).filter(|gate| gate.number == heard.number);
        let Some(gate) = known else { return false };
        match &mut heard.what {
            What::Opened => gate.is_open = true,
            What::Closed => drop(self.nodes.remove(&heard.node)),
            What::File(name, file) => {
                gate.asked.remove(name);
                if let Some(file) = file.take() {
                    gate.hold(now, *name, file);
                }
            }
            What::Read(..) => {}
        }
        true
    }

    /// Leaves the hatch of a node, and looks for it no more.
    pub fn leave(&mut self, node: NodeId) {
        self.sought.remove(&node);
        self.nodes.remove(&node);
    }

    /// What it takes to read what a node has said where it lies. `None` if a file is not here, which is asked for then, or if what it has
    /// said makes no sense.
    pub fn locate(
        &mut self,
        now: Time,
        node: NodeId,
        (request, version, whole): (RequestId, Number, bool),
        stretches: Vec<Stretch>,
    ) -> Option<Located> {
        let gate = self.nodes.get_mut(&node).filter(|gate| gate.is_open)?;
        let mut files = BTreeMap::new();
        let mut is_complete = true;
        let mut length: u64 = 0;
        for stretch in &stretches {
            length = length.saturating_add(stretch.len());
            if let Stretch::Spot(Spot { file, .. }) = stretch {
                match gate.files.get_mut(file) {
                    Some(held) => {
                        held.used_at = now;
                        files.insert(*file, held.file.clone());
                    }
                    None => {
                        is_complete = false;
                        gate.ask(*file);
                    }
                }
            }
        }
        let is_sound = is_complete && length <= READ_SIZE_MAX;
        is_sound.then_some(Located { request, version, whole, stretches, files })
    }

    /// Whether it is worth while to have something read on another thread, and one is free.
    pub fn may_read_apart(&self, located: &Located) -> bool {
        located.len() >= APART_MIN && Arc::strong_count(&self.apart) <= self.apart_max
    }

    /// Reads it on a thread of its own, however long it takes; the receiver is told.
    pub fn read_apart(&self, node: NodeId, located: Located) {
        let Some(gate) = self.nodes.get(&node) else { return };
        let (number, tell) = (gate.number, self.tell.clone());
        let apart = self.apart.clone();
        tokio::task::spawn_blocking(move || {
            let _apart = apart;
            let found = located.read(Patience::Any);
            let _unheard = tell.send(Heard { node, number, what: What::Read(located, found) });
        });
    }

    /// Lets go of files that nobody reads.
    pub fn tidy(&mut self, now: Time) {
        for gate in self.nodes.values_mut() {
            gate.files.retain(|_, held| now.since(held.used_at) < UNUSED_MAX);
        }
    }
}

impl Gate {
    fn ask(&mut self, file: FileName) {
        if self.asked.len() < FILES_MAX && self.asked.insert(file) {
            // If it has closed, that is about to be heard.
            let _ = self.wants.send(file);
        }
    }

    fn hold(&mut self, now: Time, name: FileName, file: File) {
        if self.files.len() >= FILES_MAX
            && let Some(oldest) =
                self.files.iter().min_by_key(|(_, held)| held.used_at).map(|(name, _)| *name)
        {
            self.files.remove(&oldest);
        }
        self.files.insert(name, Held { file: Arc::new(ShownFile::new(file)), used_at: now });
    }
}

/// Is at a hatch as long as it is open and somebody wants something.
async fn stay(
    path: &std::path::Path,
    (owner, ticket): (HatchOwner, Option<u128>),
    mut wanted: UnboundedReceiver<FileName>,
    tell: &impl Fn(What),
) {
    let Ok(mut reader) = HatchReader::dial(path, owner, ticket).await else { return };
    tell(What::Opened);
    loop {
        let name = tokio::select! {
            () = reader.ended() => return,
            name = wanted.recv() => name,
        };
        let Some(name) = name else { return };
        match reader.fetch((name.journal, name.number)).await {
            Ok(file) => tell(What::File(name, file)),
            Err(_) => return,
        }
    }
}

impl Located {
    /// How many bytes that are.
    fn len(&self) -> u64 {
        self.stretches.iter().map(Stretch::len).sum()
    }

    /// Reads it.
    pub fn read(&self, patience: Patience) -> Found {
        let Ok(length) = usize::try_from(self.len()) else { return Found::Unreadable };
        let mut bytes = Vec::with_capacity(length);
        let mut rest = &self.stretches[..];
        while let Some(first) = rest.first() {
            let mut taken = 1;
            match first {
                Stretch::Bytes(more) => bytes.extend_from_slice(more),
                Stretch::Zeros(more) => {
                    let more = usize::try_from(*more).expect("a part of what fits memory");
                    bytes.resize(bytes.len() + more, 0);
                }
                Stretch::Spot(spot) => {
                    let Some(file) = self.files.get(&spot.file) else { return Found::Unreadable };
                    let run = run_of(spot, &rest[1..]);
                    if let Err(found) = file.read(&run, &mut bytes, patience) {
                        return found;
                    }
                    taken = run.len();
                }
            }
            rest = &rest[taken..];
        }
        Found::Bytes(bytes)
    }
}

/// A spot with those after it that lie behind it in the file, up to as much as is read at once.
fn run_of<'a>(first: &'a Spot, rest: &'a [Stretch]) -> Vec<&'a Spot> {
    let mut run = vec![first];
    let mut end = first.end();
    for stretch in rest {
        let Stretch::Spot(next) = stretch else { break };
        if next.file != first.file || next.position != end || next.end() - first.position > RUN_MAX {
            break;
        }
        run.push(next);
        end = next.end();
    }
    run
}

impl Counts {
    /// As they are now.
    pub fn reads(&self) -> Reads {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Reads {
            from_files: count(&self.from_files),
            bytes_from_files: count(&self.bytes_from_files),
            from_network: count(&self.from_network),
            bytes_from_network: count(&self.bytes_from_network),
            fell_back: count(&self.fell_back),
            damaged: count(&self.damaged),
        }
    }

    /// So many bytes were read from files.
    pub fn read_files(&self, bytes: usize) {
        self.from_files.fetch_add(1, Ordering::Relaxed);
        self.bytes_from_files.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// So many bytes came over the network.
    pub fn read_network(&self, bytes: usize) {
        self.from_network.fetch_add(1, Ordering::Relaxed);
        self.bytes_from_network.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// What was to be read from files is read over the network.
    pub fn fall_back(&self, is_damaged: bool) {
        self.fell_back.fetch_add(1, Ordering::Relaxed);
        self.damaged.fetch_add(u64::from(is_damaged), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;

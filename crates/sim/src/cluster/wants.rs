//! What a simulated client does next: drawn from its profile's kinds of operations.

use super::{
    layout::{ATTRIBUTE, Layout, PARTS, Sort, all_parts, is_small},
    profile::Kind,
};
use crate::{Blob, Register, random::Random};

/// What an operation reads and then writes.
#[derive(Clone, Debug, Default)]
pub struct Wants {
    /// What it is for.
    pub label: &'static str,
    /// How it goes about it.
    pub way: Way,
    /// Registers to read.
    pub registers: Vec<Register>,
    /// Lists to read.
    pub lists: Vec<Blob>,
    /// Blobs to see the existence of.
    pub exists: Vec<Blob>,
    /// Documents to read.
    pub documents: Vec<Blob>,
    /// Blobs of which it says whether they exist, without having looked.
    pub relies: Vec<Blob>,
    /// What follows.
    pub then: Then,
    /// How often everything is read again after a rest, by the same transaction or of the same snapshot.
    pub again: u64,
    /// How long it thinks between reading and writing at most, in microseconds.
    pub thinks: u64,
    /// Whether it reads what it has written before it commits.
    pub reads_back: bool,
}

/// How an operation goes about what it wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Way {
    /// A transaction, which may be refused.
    #[default]
    Once,
    /// A transaction that is run until it commits.
    Run,
    /// One register from any replica, outside a transaction.
    Direct,
    /// All of one blob from any replica, outside a transaction.
    Get,
    /// Reads of a snapshot of the blobs.
    Snapshot,
    /// Reads of a snapshot of all blobs.
    SnapshotPrefix,
    /// Reads of a snapshot of all blobs that has a name, some time after it was taken.
    Named,
    /// What blobs are, all asked of one node; one answer counts.
    Heads,
    /// A list of names.
    Scan,
}

/// What an operation writes.
#[derive(Clone, Debug, Default)]
pub enum Then {
    /// Nothing.
    #[default]
    Nothing,
    /// New values.
    Write(Vec<Register>),
    /// New elements.
    Append(Vec<Blob>),
    /// Small sums.
    Add(Vec<Register>),
    /// An amount from one account to another.
    Transfer(Register, Register),
    /// A blob with these registers.
    Create(Blob, &'static [u32]),
    /// No blob.
    Delete(Blob),
    /// Several new elements each.
    Bunches(Vec<Blob>),
    /// The blob anew, with these registers.
    Restart(Blob, Vec<u32>),
    /// Anything to documents, and what else is written beside that.
    Edit(Vec<Blob>, Box<Then>),
}

/// A long reader rests at most this many microseconds before it reads again.
pub const REST_MAX: u64 = 400_000;
/// Who thinks does so for at most this many microseconds.
const THINK_MAX: u64 = 30_000;

/// What draws a client's operations.
#[derive(Debug)]
pub struct Chooser<'a> {
    /// The client's source of choices.
    pub random: &'a mut Random,
    /// Its blobs.
    pub layout: Layout,
}

impl Chooser<'_> {
    /// Draws a kind by its weight, and what exactly it wants.
    pub fn choose(&mut self, weights: &[u32]) -> Wants {
        let total: u32 = weights.iter().sum();
        let mut shown = u32::try_from(self.random.below(u64::from(total.max(1)))).expect("small");
        let kind = Kind::ALL.iter().zip(weights).find(|(_, weight)| {
            let here = shown < **weight;
            shown = shown.saturating_sub(**weight);
            here
        });
        let kind = kind.map_or(Kind::DirectRead, |(kind, _)| *kind);
        match kind {
            Kind::BlindWrites | Kind::BlobWrite | Kind::RingWrites | Kind::StarWrites => self.writes(kind),
            Kind::Append | Kind::Appends | Kind::RingAppends => self.appends(kind),
            Kind::Add | Kind::Adds | Kind::RingAdds | Kind::StarAdds => self.adds(kind),
            Kind::Create | Kind::CreateWithHoles | Kind::Delete | Kind::Exists | Kind::Scan => {
                self.passing(kind)
            }
            Kind::Transfer | Kind::Audit | Kind::Persist => self.accounts(kind),
            Kind::Snapshot | Kind::SnapshotPrefix | Kind::Named => self.snapshots(kind),
            Kind::Heads | Kind::WriteAttributes => self.attributes(kind),
            Kind::Edit | Kind::Edits | Kind::ReadDocuments | Kind::SnapshotDocuments => self.documents(kind),
            Kind::Bunches => {
                let then = Then::Bunches(self.some(Sort::List, 2));
                Wants { label: "bunches", then, ..Wants::default() }
            }
            Kind::Restart => {
                let blob = self.some(Sort::Passing, 1)[0];
                let parts = all_parts(blob).into_iter().map(|register| register.part);
                let then = Then::Restart(blob, parts.filter(|_| self.random.below(3) > 0).collect());
                Wants { label: "restart", then, ..Wants::default() }
            }
            _ => self.reads(kind),
        }
    }

    fn some(&mut self, sort: Sort, most: u64) -> Vec<Blob> {
        let blobs = self.layout.blobs(sort);
        let count = 1 + self.random.below(most);
        let mut chosen: Vec<Blob> = (0..count).filter_map(|_| self.random.choose(&blobs).copied()).collect();
        chosen.sort();
        chosen.dedup();
        chosen
    }

    fn part(&mut self) -> u32 {
        u32::try_from(self.random.below(u64::from(PARTS))).expect("small")
    }

    /// A register of a blob: of this part, if it has it.
    fn register(&self, blob: Blob, part: u32) -> Register {
        blob.register(if is_small(blob) { 0 } else { part })
    }

    fn registers(&mut self, most: u64) -> Vec<Register> {
        let blobs = self.some(Sort::Registers, most);
        let parts: Vec<u32> = blobs.iter().map(|_| self.part()).collect();
        blobs.into_iter().zip(parts).map(|(blob, part)| self.register(blob, part)).collect()
    }

    fn whole(&mut self, sort: Sort, most: u64) -> Vec<Register> {
        self.some(sort, most).into_iter().flat_map(all_parts).collect()
    }

    fn counters(&mut self, most: u64) -> Vec<Register> {
        first_parts(self.some(Sort::Counter, most))
    }

    /// Two blobs that follow one another in a ring of all of a sort.
    fn neighbours(&mut self, sort: Sort) -> Vec<Blob> {
        let blobs = self.layout.blobs(sort);
        let first = self.random.index(blobs.len());
        let mut pair = vec![blobs[first], blobs[(first + 1) % blobs.len()]];
        pair.sort();
        pair.dedup();
        pair
    }

    /// The first blob of a sort and another one.
    fn star(&mut self, sort: Sort) -> Vec<Blob> {
        let blobs = self.layout.blobs(sort);
        let other = 1 + self.random.index(blobs.len() - 1);
        blobs[..1].iter().chain(blobs.get(other)).copied().collect()
    }

    fn writes(&mut self, kind: Kind) -> Wants {
        let (label, registers) = match kind {
            Kind::BlobWrite => ("blob write", self.whole(Sort::Registers, 1)),
            Kind::RingWrites => {
                let part = self.part();
                let pair = self.neighbours(Sort::Registers);
                ("ring writes", pair.into_iter().map(|blob| self.register(blob, part)).collect())
            }
            Kind::StarWrites => {
                ("star writes", self.star(Sort::Registers).into_iter().flat_map(all_parts).collect())
            }
            _ => ("blind writes", self.registers(3)),
        };
        Wants { label, then: Then::Write(registers), ..Wants::default() }
    }

    fn appends(&mut self, kind: Kind) -> Wants {
        let (label, lists) = match kind {
            Kind::Appends => ("appends", self.some(Sort::List, 3)),
            Kind::RingAppends => ("ring appends", self.neighbours(Sort::List)),
            _ => ("append", self.some(Sort::List, 1)),
        };
        Wants { label, then: Then::Append(lists), ..Wants::default() }
    }

    fn adds(&mut self, kind: Kind) -> Wants {
        let (label, counters) = match kind {
            Kind::Adds => ("adds", self.counters(3)),
            Kind::RingAdds => ("ring adds", first_parts(self.neighbours(Sort::Counter))),
            Kind::StarAdds => ("star adds", first_parts(self.star(Sort::Counter))),
            _ => ("add", self.counters(1)),
        };
        // Every now and then a counter that lies in two chunks.
        let across = u32::from(self.random.below(4) == 0);
        let counters = counters.into_iter().map(|register| register.blob.register(across)).collect();
        Wants { label, then: Then::Add(counters), ..Wants::default() }
    }

    fn reads(&mut self, kind: Kind) -> Wants {
        let mut wants = Wants::default();
        (wants.label, wants.registers) = match kind {
            Kind::DirectRead => {
                let register = self.registers(1)[0];
                let gets = is_small(register.blob) && self.random.below(2) == 0;
                wants.way = if gets { Way::Get } else { Way::Direct };
                ("direct read", vec![register.blob.register(register.part & !1)])
            }
            Kind::BlobRead => ("blob read", self.whole(Sort::Registers, 1)),
            Kind::Swap => {
                let register = self.registers(1)[0].blob.register(0);
                wants.then = Then::Write(vec![register]);
                ("swap", vec![register])
            }
            Kind::LongRead => {
                wants.again = 1 + self.random.below(8);
                ("long read", self.whole(Sort::Registers, 1))
            }
            Kind::BlobsRead => {
                let blobs = self.layout.blobs(Sort::Registers);
                ("blobs read", blobs.into_iter().flat_map(all_parts).collect())
            }
            Kind::ReadsAndWrites => {
                wants.then = Then::Write(self.registers(2));
                wants.reads_back = self.random.below(2) == 0;
                ("reads and writes", self.registers(2))
            }
            Kind::ReadLists => {
                wants.lists = self.some(Sort::List, 2);
                ("read lists", Vec::new())
            }
            _ => ("reads", self.registers(3)),
        };
        wants
    }

    fn accounts(&mut self, kind: Kind) -> Wants {
        let accounts = self.layout.accounts();
        let mut wants = Wants::default();
        match kind {
            Kind::Audit => (wants.label, wants.registers) = ("audit", accounts),
            Kind::Persist => {
                let registers = self.registers(2);
                wants = Wants { label: "persist", way: Way::Run, thinks: THINK_MAX, ..wants };
                wants.then = Then::Write(registers.clone());
                wants.registers = registers;
            }
            _ => {
                wants.label = "transfer";
                let [from, to] = [0, 1].map(|_| *self.random.choose(&accounts).expect("an account at least"));
                if from == to {
                    wants.registers = vec![from];
                } else {
                    wants.registers = vec![from, to];
                    wants.then = Then::Transfer(from, to);
                    wants.way = if self.random.below(4) == 0 { Way::Run } else { Way::Once };
                }
            }
        }
        wants
    }

    fn passing(&mut self, kind: Kind) -> Wants {
        let mut wants = Wants::default();
        match kind {
            Kind::Create | Kind::CreateWithHoles => {
                let blob = self.some(Sort::Passing, 1)[0];
                let (label, parts): (_, &'static [u32]) = match kind {
                    _ if is_small(blob) => ("create", &[0]),
                    Kind::Create => ("create", &[0, 1, 2, 3]),
                    _ => ("create with holes", &[0, 3]),
                };
                (wants.label, wants.then) = (label, Then::Create(blob, parts));
            }
            Kind::Delete => {
                wants.then = Then::Delete(self.some(Sort::Passing, 1)[0]);
                wants.label = "delete";
            }
            Kind::Scan => (wants.label, wants.way) = ("scan", Way::Scan),
            _ => {
                wants.exists = self.some(Sort::Passing, 1);
                wants.registers = wants.exists.iter().flat_map(|blob| all_parts(*blob)).collect();
                wants.way = if self.random.below(2) == 0 { Way::Get } else { Way::Once };
                wants.label = "exists";
            }
        }
        wants
    }

    /// What heads say, or a change of that.
    fn attributes(&mut self, kind: Kind) -> Wants {
        let attributes = |blobs: Vec<Blob>| blobs.into_iter().map(|blob| blob.register(ATTRIBUTE)).collect();
        match kind {
            Kind::Heads => {
                let (registers, exists) =
                    (self.layout.blobs(Sort::Registers), self.layout.blobs(Sort::Passing));
                let registers = attributes(registers);
                Wants { label: "heads", way: Way::Heads, registers, exists, ..Wants::default() }
            }
            _ => {
                let registers: Vec<Register> = attributes(self.some(Sort::Registers, 2));
                let reads = self.random.below(2) == 0;
                let read = if reads { registers.clone() } else { Vec::new() };
                let relies = if reads { Vec::new() } else { self.some(Sort::Passing, 2) };
                let then = Then::Write(registers);
                Wants { label: "write attributes", registers: read, relies, then, ..Wants::default() }
            }
        }
    }

    /// What is seen of documents, and whether they are changed then.
    fn documents(&mut self, kind: Kind) -> Wants {
        match kind {
            Kind::ReadDocuments => {
                let again = self.random.below(2);
                let documents = self.some(Sort::Document, 2);
                Wants { label: "read documents", documents, again, ..Wants::default() }
            }
            Kind::SnapshotDocuments => {
                let (documents, lists) = (self.layout.blobs(Sort::Document), self.some(Sort::List, 1));
                Wants {
                    label: "snapshot of documents",
                    way: Way::Snapshot,
                    documents,
                    lists,
                    ..Wants::default()
                }
            }
            _ => {
                let edited = self.some(Sort::Document, if kind == Kind::Edit { 1 } else { 3 });
                let beside = match self.random.below(4) {
                    _ if kind == Kind::Edit => Then::Nothing,
                    0 => Then::Write(self.registers(2)),
                    1 => Then::Bunches(self.some(Sort::List, 1)),
                    2 => Then::Add(self.counters(1)),
                    _ => Then::Nothing,
                };
                let documents =
                    if self.random.below(3) == 0 { self.some(Sort::Document, 2) } else { Vec::new() };
                let label = if kind == Kind::Edit { "edit" } else { "edits" };
                let way = if self.random.below(4) == 0 { Way::Run } else { Way::Once };
                let reads_back = self.random.below(3) == 0;
                let then = Then::Edit(edited, Box::new(beside));
                Wants { label, way, documents, then, reads_back, ..Wants::default() }
            }
        }
    }

    /// Everything, or some of each sort, at one point.
    fn snapshots(&mut self, kind: Kind) -> Wants {
        let mut wants = Wants { again: self.random.below(3), ..Wants::default() };
        if matches!(kind, Kind::SnapshotPrefix | Kind::Named) {
            (wants.label, wants.way) = match kind {
                Kind::Named => ("snapshot with a name", Way::Named),
                _ => ("snapshot by prefix", Way::SnapshotPrefix),
            };
            let all = [Sort::Registers, Sort::Passing].map(|sort| self.layout.blobs(sort)).concat();
            wants.registers = all.into_iter().flat_map(all_parts).collect();
            wants.registers.extend(self.layout.accounts());
            wants.lists = self.layout.blobs(Sort::List);
            wants.exists = self.layout.blobs(Sort::Passing);
            return wants;
        }
        (wants.label, wants.way) = ("snapshot", Way::Snapshot);
        wants.registers = self.whole(Sort::Registers, 3);
        match self.random.below(3) {
            0 => wants.registers.extend(self.layout.accounts()),
            1 => wants.lists = self.some(Sort::List, 2),
            _ => {
                wants.exists = self.some(Sort::Passing, 2);
                wants.registers.extend(wants.exists.iter().flat_map(|blob| all_parts(*blob)));
            }
        }
        wants
    }
}

fn first_parts(blobs: Vec<Blob>) -> Vec<Register> {
    blobs.into_iter().map(|blob| blob.register(0)).collect()
}

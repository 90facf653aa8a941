//! A simulated client: the shipped one, doing one operation after the other and noting what it was told.

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use tyr_proto::{
    BlobName, BlobPlan, ChunkName, Client, Event, Keyspaces, Operation as Change, Outcome as Ended,
    PartitionId, Refusal, ResultValue, Seen, SessionId, Time, TransactionId as Id,
    message::{Looked, RequestId},
};
use tyr_types::{Key, KeyspaceId, Number, Operand, Transform};

use super::{
    bounds::Bounds,
    profile::{Kind, Profile},
};
use crate::{Action, Blob, ClientId, History, Outcome, Register, TransactionId, random::Random};

/// A client with what it is about.
#[derive(Debug)]
pub struct Caller {
    /// The shipped client.
    pub client: Client,
    session: SessionId,
    bounds: Bounds,
    id: ClientId,
    random: Random,
    keyspaces: Arc<Keyspaces>,
    layout: Layout,
    weights: Vec<u32>,
    left: u32,
    task: Option<Task>,
    unique: u64,
    /// Looks whose numbers were expired for a read, since this was last emptied.
    pub expired: Vec<RequestId>,
    /// Operations that ended, by how.
    pub ended: BTreeMap<&'static str, [u64; 3]>,
}

/// Which blobs are what.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    blobs: [u32; 5],
}

/// The sort of a blob, in the order of a profile's counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// Registers.
    Registers,
    /// A list.
    List,
    /// A counter.
    Counter,
    /// An account.
    Account,
    /// One that comes and goes.
    Passing,
}

#[derive(Debug)]
struct Task {
    place: usize,
    label: &'static str,
    wants: Wants,
    stage: Stage,
    seen: BTreeMap<Blob, SeenBlob>,
    actions: Vec<Action>,
    /// A direct read that needed the head.
    direct: Option<(RequestId, Register)>,
}

/// What a transaction reads and then writes.
#[derive(Clone, Debug, Default)]
struct Wants {
    registers: Vec<Register>,
    lists: Vec<Blob>,
    exists: Vec<Blob>,
    then: Then,
    validates: bool,
    /// How often everything is read again at the same numbers, after a rest.
    again: u64,
}

#[derive(Clone, Debug, Default)]
enum Then {
    #[default]
    Nothing,
    Write(Vec<Register>),
    Append(Vec<Blob>),
    Add(Vec<Register>),
    Transfer(Register, Register),
    Create(Blob, &'static [u32]),
    Delete(Blob),
}

#[derive(Debug)]
struct SeenBlob {
    look: RequestId,
    number: Number,
    blob: Option<Looked>,
    is_known: bool,
    ranges: Vec<Range<u64>>,
    sees_size: bool,
}

#[derive(Debug)]
enum Stage {
    Looking,
    Reading(BTreeMap<RequestId, Piece>, BTreeMap<Target, Vec<u8>>),
    Direct(RequestId, Register),
    DirectLook(RequestId, Register),
    /// Until it reads again.
    Resting(u64),
    Committing(Id),
    Scanning {
        request: RequestId,
        partition: PartitionId,
        found: Vec<BlobName>,
        left: Vec<PartitionId>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Target {
    Register(Register),
    List(Blob),
}

#[derive(Debug)]
struct Piece {
    target: Target,
    at: usize,
}

/// Bytes of a chunk in the simulation: the least that is allowed.
pub const CHUNK: u64 = tyr_types::CHUNK_SIZE_MIN;
/// Where lists begin: close before the border of a chunk, so that they cross it soon.
const LIST_START: u64 = CHUNK - 40;
/// The label of the operation that makes what has to exist.
const SET_UP: &str = "set up";
/// The sessions of one caller are this far apart.
const SESSIONS_APART: u64 = 1000;
/// Registers of a blob.
pub const PARTS: u32 = 4;
/// A long reader rests at most this many microseconds before it reads again.
const REST_MAX: u64 = 400_000;
/// The keyspace of all blobs.
pub const KEYSPACE: KeyspaceId = KeyspaceId(1);

impl Layout {
    /// The blobs of a profile.
    pub fn of(profile: &Profile) -> Self {
        Layout { blobs: profile.blobs }
    }

    /// The blobs of a sort.
    pub fn blobs(&self, sort: Sort) -> Vec<Blob> {
        let before: u32 = self.blobs[..sort as usize].iter().sum();
        (before..before + self.blobs[sort as usize]).map(Blob).collect()
    }

    /// All accounts.
    pub fn accounts(&self) -> Vec<Register> {
        self.blobs(Sort::Account).into_iter().map(|blob| blob.register(0)).collect()
    }
}

/// The name of a blob: in the order of the blobs.
pub fn name(blob: Blob) -> BlobName {
    BlobName { keyspace: KEYSPACE, key: Key::new(format!("b{:04}", blob.0)).expect("a short key") }
}

fn blob_of(name: &BlobName) -> Blob {
    let digits = std::str::from_utf8(&name.key.as_bytes()[1..]).expect("a key of ours");
    Blob(digits.parse().expect("a key of ours"))
}

/// Where a register lies: every other one across the border of two chunks.
fn offset_of(register: Register) -> u64 {
    let chunk = u64::from(register.part / 2);
    if register.part.is_multiple_of(2) { chunk * CHUNK + 8 } else { (chunk + 1) * CHUNK - 4 }
}

fn range_of(register: Register) -> Range<u64> {
    offset_of(register)..offset_of(register) + 8
}

impl Caller {
    /// A client that has done nothing.
    pub fn new(number: u32, keyspaces: Arc<Keyspaces>, profile: &Profile, random: Random) -> Self {
        let session = SessionId(u64::from(number));
        Caller {
            client: client(session, &keyspaces, profile.bounds),
            session,
            bounds: profile.bounds,
            id: ClientId(number),
            random,
            keyspaces,
            layout: Layout::of(profile),
            weights: profile.weights.to_vec(),
            left: profile.operations,
            task: None,
            unique: 0,
            expired: Vec::new(),
            ended: BTreeMap::new(),
        }
    }

    /// The session of its client.
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// Its process dies, and with it the session: what was under way may happen at any later time. Another process goes on.
    pub fn die(&mut self, now: u64, history: &mut History) {
        self.session.0 += SESSIONS_APART;
        self.client = client(self.session, &self.keyspaces, self.bounds);
        self.end(now, history, Outcome::Unknown);
    }

    /// Whether it has nothing left to do.
    pub fn is_done(&self) -> bool {
        self.left == 0 && self.task.is_none()
    }

    /// Whether nothing is under way, not even in the client.
    pub fn is_idle(&self) -> bool {
        self.task.is_none() && self.client.is_idle()
    }

    /// What it is about, for a report.
    pub fn describe(&self) -> String {
        let task = self.task.as_ref().map(|task| (task.label, &task.stage));
        format!("{} {task:?}, {} left, {}", self.id, self.left, self.client.describe())
    }

    /// Begins nothing more.
    pub fn stop(&mut self) {
        self.left = 0;
    }

    /// Goes on: handles what it was told, begins the next operation.
    pub fn step(&mut self, now: u64, history: &mut History, begins: bool) {
        while let Some(event) = self.client.poll_event() {
            self.handle(now, history, event);
        }
        if matches!(&self.task, Some(Task { stage: Stage::Resting(until), .. }) if *until <= now) {
            self.read_pieces(now, history);
        }
        if begins && self.task.is_none() && self.left > 0 {
            self.left -= 1;
            self.begin(now, history);
        }
    }

    /// Makes the blobs that have to exist before anything else.
    pub fn set_up(&mut self, now: u64, history: &mut History) {
        let lists = self.layout.blobs(Sort::List);
        let accounts = self.layout.accounts();
        let operations = vec![Change::Create, Change::Truncate { size: LIST_START }];
        let mut plans: Vec<BlobPlan> = lists
            .into_iter()
            .map(|blob| BlobPlan { blob: name(blob), seen: None, operations: operations.clone() })
            .collect();
        let mut actions = Vec::new();
        for account in accounts {
            let value = self.unique();
            actions.push(Action::Write { register: account, value, number: None });
            plans.push(BlobPlan {
                blob: name(account.blob),
                seen: None,
                operations: vec![Change::Write {
                    offset: offset_of(account),
                    bytes: value.to_le_bytes()[..].into(),
                }],
            });
        }
        self.start(now, history, SET_UP, Wants::default());
        self.commit(now, history, plans, actions);
    }

    /// Reads everything, at the end.
    pub fn read_all(&mut self, now: u64, history: &mut History) -> usize {
        let blobs = |sort| self.layout.blobs(sort);
        let mut registers: Vec<Register> = self.layout.accounts();
        for blob in blobs(Sort::Registers).into_iter().chain(blobs(Sort::Passing)) {
            registers.extend((0..PARTS).map(|part| blob.register(part)));
        }
        registers.extend(blobs(Sort::Counter).into_iter().map(|blob| blob.register(0)));
        let (lists, exists) = (blobs(Sort::List), blobs(Sort::Passing));
        self.start(
            now,
            history,
            "read all",
            Wants { registers, lists, exists, validates: true, ..Wants::default() },
        );
        self.look(now, history);
        self.task.as_ref().map_or(0, |task| task.place)
    }

    fn unique(&mut self) -> u64 {
        self.unique += 1;
        (self.random.number() << 24) | u64::from(self.id.0) << 16 | self.unique
    }

    fn some(&mut self, sort: Sort, most: u64) -> Vec<Blob> {
        let blobs = self.layout.blobs(sort);
        let count = 1 + self.random.below(most);
        let mut chosen: Vec<Blob> = (0..count).filter_map(|_| self.random.choose(&blobs).copied()).collect();
        chosen.sort();
        chosen.dedup();
        chosen
    }

    fn registers(&mut self, most: u64) -> Vec<Register> {
        let blobs = self.some(Sort::Registers, most);
        blobs
            .into_iter()
            .map(|blob| blob.register(u32::try_from(self.random.below(u64::from(PARTS))).expect("small")))
            .collect()
    }

    /// Two blobs that follow one another in a ring of all of a sort.
    fn neighbours(&mut self, sort: Sort) -> Vec<Blob> {
        let blobs = self.layout.blobs(sort);
        let first = usize::try_from(self.random.below(blobs.len() as u64)).expect("small");
        let mut pair = vec![blobs[first], blobs[(first + 1) % blobs.len()]];
        pair.sort();
        pair.dedup();
        pair
    }

    /// The first blob of a sort and another one.
    fn star(&mut self, sort: Sort) -> Vec<Blob> {
        let blobs = self.layout.blobs(sort);
        let other = 1 + usize::try_from(self.random.below(blobs.len() as u64 - 1)).expect("small");
        blobs[..1].iter().chain(blobs.get(other)).copied().collect()
    }

    fn begin(&mut self, now: u64, history: &mut History) {
        let total: u32 = self.weights.iter().sum();
        let mut shown = u32::try_from(self.random.below(u64::from(total.max(1)))).expect("small");
        let kind = Kind::ALL.iter().zip(&self.weights).find(|(_, weight)| {
            let here = shown < **weight;
            shown = shown.saturating_sub(**weight);
            here
        });
        let kind = kind.map_or(Kind::DirectRead, |(kind, _)| *kind);
        let all_parts = |blob: Blob| (0..PARTS).map(|part| blob.register(part)).collect::<Vec<_>>();
        let mut wants = Wants { validates: true, ..Wants::default() };
        let label = match kind {
            Kind::BlindWrites => {
                wants.then = Then::Write(self.registers(3));
                "blind writes"
            }
            Kind::DirectRead => return self.read_directly(now, history),
            Kind::BlobRead => {
                wants.registers = self.some(Sort::Registers, 1).into_iter().flat_map(all_parts).collect();
                wants.validates = false;
                "blob read"
            }
            Kind::Reads => {
                wants.registers = self.registers(3);
                "reads"
            }
            Kind::ReadsAndWrites => {
                wants.registers = self.registers(2);
                wants.then = Then::Write(self.registers(2));
                "reads and writes"
            }
            Kind::BlobWrite => {
                wants.then =
                    Then::Write(self.some(Sort::Registers, 1).into_iter().flat_map(all_parts).collect());
                "blob write"
            }
            Kind::Append => {
                wants.then = Then::Append(self.some(Sort::List, 1));
                "append"
            }
            Kind::Appends => {
                wants.then = Then::Append(self.some(Sort::List, 3));
                "appends"
            }
            Kind::ReadLists => {
                wants.lists = self.some(Sort::List, 2);
                "read lists"
            }
            Kind::Add => {
                wants.then =
                    Then::Add(self.some(Sort::Counter, 1).into_iter().map(|blob| blob.register(0)).collect());
                "add"
            }
            Kind::Adds => {
                wants.then =
                    Then::Add(self.some(Sort::Counter, 3).into_iter().map(|blob| blob.register(0)).collect());
                "adds"
            }
            Kind::Transfer => {
                let accounts = self.layout.accounts();
                let [from, to] = [0, 1].map(|_| *self.random.choose(&accounts).expect("an account at least"));
                if from == to {
                    wants.registers = vec![from];
                } else {
                    wants.registers = vec![from, to];
                    wants.then = Then::Transfer(from, to);
                }
                "transfer"
            }
            Kind::Audit => {
                wants.registers = self.layout.accounts();
                "audit"
            }
            Kind::Create => {
                wants.then = Then::Create(self.some(Sort::Passing, 1)[0], &[0, 1, 2, 3]);
                "create"
            }
            Kind::Delete => {
                wants.then = Then::Delete(self.some(Sort::Passing, 1)[0]);
                "delete"
            }
            Kind::Exists => {
                wants.exists = self.some(Sort::Passing, 1);
                wants.registers = wants.exists.iter().flat_map(|blob| all_parts(*blob)).collect();
                "exists"
            }
            Kind::Scan => return self.scan(now, history),
            Kind::RingWrites => {
                let part = u32::try_from(self.random.below(u64::from(PARTS))).expect("small");
                let pair = self.neighbours(Sort::Registers);
                wants.then = Then::Write(pair.into_iter().map(|blob| blob.register(part)).collect());
                "ring writes"
            }
            Kind::StarWrites => {
                let star = self.star(Sort::Registers);
                wants.then = Then::Write(star.into_iter().flat_map(all_parts).collect());
                "star writes"
            }
            Kind::RingAdds => {
                let pair = self.neighbours(Sort::Counter);
                wants.then = Then::Add(pair.into_iter().map(|blob| blob.register(0)).collect());
                "ring adds"
            }
            Kind::StarAdds => {
                let star = self.star(Sort::Counter);
                wants.then = Then::Add(star.into_iter().map(|blob| blob.register(0)).collect());
                "star adds"
            }
            Kind::RingAppends => {
                wants.then = Then::Append(self.neighbours(Sort::List));
                "ring appends"
            }
            Kind::BlobsRead => {
                wants.registers =
                    self.layout.blobs(Sort::Registers).into_iter().flat_map(all_parts).collect();
                "blobs read"
            }
            Kind::LongRead => {
                wants.registers = self.some(Sort::Registers, 1).into_iter().flat_map(all_parts).collect();
                wants.validates = false;
                wants.again = 1 + self.random.below(8);
                "long read"
            }
            Kind::CreateWithHoles => {
                wants.then = Then::Create(self.some(Sort::Passing, 1)[0], &[0, 3]);
                "create with holes"
            }
        };
        self.start(now, history, label, wants);
        self.look(now, history);
    }

    fn start(&mut self, now: u64, history: &mut History, label: &'static str, wants: Wants) {
        let count = history.operations().len() as u64;
        let place = history.begin(self.id, TransactionId(count + 1), label, now);
        let task = Task {
            place,
            label,
            wants,
            stage: Stage::Looking,
            seen: BTreeMap::new(),
            actions: Vec::new(),
            direct: None,
        };
        self.task = Some(task);
    }

    /// Looks at every blob that is read.
    fn look(&mut self, now: u64, history: &mut History) {
        let Some(task) = &mut self.task else { return };
        task.actions.clear();
        for (_, seen) in std::mem::take(&mut task.seen) {
            self.client.let_go(seen.look);
        }
        let registers = task.wants.registers.iter().map(|register| register.blob);
        let mut blobs: Vec<Blob> = registers
            .chain(task.wants.lists.iter().copied())
            .chain(task.wants.exists.iter().copied())
            .collect();
        blobs.sort();
        blobs.dedup();
        for blob in &blobs {
            let turn = usize::try_from(self.random.below(3)).expect("small");
            let look = self.client.look(Time(now), name(*blob), turn);
            let seen = SeenBlob {
                look,
                number: Number::ZERO,
                blob: None,
                is_known: false,
                ranges: Vec::new(),
                sees_size: false,
            };
            task.seen.insert(*blob, seen);
        }
        task.stage = Stage::Looking;
        if blobs.is_empty() {
            self.write(now, history);
        }
    }

    fn handle(&mut self, now: u64, history: &mut History, event: Event) {
        match event {
            Event::Looked(request, number, blob) => self.looked(now, history, request, number, blob),
            Event::Bytes(request, _, bytes, whole) => self.bytes(now, history, request, bytes, whole),
            Event::Expired(request) => self.read_expired(now, history, request),
            Event::Names(request, names, more) => self.names(now, history, request, names, more),
            Event::Ended(id, outcome, results) => self.ended(now, history, id, outcome, results),
            Event::Forgotten(id) => {
                let waits = |task: &Task| matches!(task.stage, Stage::Committing(current) if current == id);
                if self.task.as_ref().is_some_and(waits) {
                    self.end(now, history, Outcome::Unknown);
                }
            }
            Event::Unknown(id) => {
                // Half of them are not waited for any longer: they may happen at any later time.
                if self.random.below(2) == 0 {
                    self.end(now, history, Outcome::Unknown);
                }
                self.client.resolve(Time(now), id);
            }
        }
    }

    /// What a read wants is gone: looks again.
    fn read_expired(&mut self, now: u64, history: &mut History, request: RequestId) {
        let Some(task) = &self.task else { return };
        let Stage::Reading(pieces, _) = &task.stage else { return };
        let Some(piece) = pieces.get(&request) else { return };
        let blob = match piece.target {
            Target::Register(register) => register.blob,
            Target::List(blob) => blob,
        };
        let direct = task.direct;
        self.expired.extend(task.seen.get(&blob).map(|seen| seen.look).or(direct.map(|(look, _)| look)));
        match direct {
            Some((look, register)) => {
                self.client.let_go(look);
                self.look_for(now, register);
            }
            None => self.look(now, history),
        }
    }

    fn looked(
        &mut self,
        now: u64,
        history: &mut History,
        request: RequestId,
        number: Number,
        blob: Option<Looked>,
    ) {
        let Some(task) = &mut self.task else { return };
        if let Stage::DirectLook(look, register) = task.stage {
            if look == request {
                let range = range_of(register);
                let value = match blob {
                    Some(blob) if blob.size >= range.end => {
                        return self.read_at_number(now, register, number);
                    }
                    _ => None,
                };
                self.read_done(now, history, register, value);
            }
            return;
        }
        let Some(seen) = task.seen.values_mut().find(|seen| seen.look == request) else { return };
        (seen.number, seen.blob, seen.is_known) = (number, blob, true);
        if task.seen.values().all(|seen| seen.is_known) {
            self.read_pieces(now, history);
        }
    }

    /// Asks the head about a register of which not all bytes were written.
    fn look_for(&mut self, now: u64, register: Register) {
        let look = self.client.look(Time(now), name(register.blob), 0);
        if let Some(task) = &mut self.task {
            task.stage = Stage::DirectLook(look, register);
            task.direct = Some((look, register));
        }
    }

    /// Reads a register whose direct read did not see all bytes.
    fn read_at_number(&mut self, now: u64, register: Register, number: Number) {
        let mut pieces = BTreeMap::new();
        let range = range_of(register);
        self.request_pieces(now, Target::Register(register), range, number, &mut pieces);
        let Some(task) = &mut self.task else { return };
        task.stage = Stage::Reading(pieces, [(Target::Register(register), vec![0; 8])].into());
    }

    fn request_pieces(
        &mut self,
        now: u64,
        target: Target,
        range: Range<u64>,
        number: Number,
        pieces: &mut BTreeMap<RequestId, Piece>,
    ) {
        let blob = match target {
            Target::Register(register) => register.blob,
            Target::List(blob) => blob,
        };
        let keyspace = &self.keyspaces[&KEYSPACE];
        for piece in keyspace.pieces(range.start, range.end - range.start) {
            let chunk = ChunkName { blob: name(blob), index: piece.chunk };
            let turn = usize::try_from(self.random.below(3)).expect("small");
            let request = self.client.read(Time(now), chunk, piece.within, Some(number), turn);
            pieces.insert(request, Piece { target, at: piece.part.start });
        }
    }

    /// Reads all that is wanted at the numbers that were seen.
    fn read_pieces(&mut self, now: u64, history: &mut History) {
        let Some(task) = &mut self.task else { return };
        let wants = task.wants.clone();
        let mut targets = Vec::new();
        for register in &wants.registers {
            let Some(seen) = task.seen.get_mut(&register.blob) else { continue };
            let range = range_of(*register);
            let reaches = seen.blob.as_ref().is_some_and(|blob| blob.size >= range.end);
            seen.sees_size |= !reaches;
            seen.ranges.push(range.clone());
            if reaches {
                targets.push((Target::Register(*register), range, seen.number));
            }
        }
        for list in &wants.lists {
            let Some(seen) = task.seen.get_mut(list) else { continue };
            seen.sees_size = true;
            if let Some(blob) = &seen.blob {
                let range = LIST_START..blob.size.max(LIST_START);
                seen.ranges.push(range.clone());
                targets.push((Target::List(*list), range, seen.number));
            }
        }
        let mut pieces = BTreeMap::new();
        let mut buffers = BTreeMap::new();
        for (target, range, number) in targets {
            let length = usize::try_from(range.end - range.start).expect("in memory");
            buffers.insert(target, vec![0; length]);
            self.request_pieces(now, target, range, number, &mut pieces);
        }
        let Some(task) = &mut self.task else { return };
        let is_empty = pieces.is_empty();
        task.stage = Stage::Reading(pieces, buffers);
        if is_empty {
            self.all_read(now, history);
        }
    }

    fn bytes(&mut self, now: u64, history: &mut History, request: RequestId, bytes: Vec<u8>, whole: bool) {
        let Some(task) = &mut self.task else { return };
        match &mut task.stage {
            Stage::Direct(expected, register) if *expected == request => {
                let register = *register;
                if whole {
                    self.read_done(now, history, register, Some(value_of(&bytes)));
                } else {
                    self.look_for(now, register);
                }
            }
            Stage::Reading(pieces, buffers) => {
                let Some(piece) = pieces.remove(&request) else { return };
                if let Some(buffer) = buffers.get_mut(&piece.target) {
                    buffer[piece.at..piece.at + bytes.len()].copy_from_slice(&bytes);
                }
                if pieces.is_empty() {
                    self.all_read(now, history);
                }
            }
            _ => {}
        }
    }

    /// Everything was read: notes it, and writes.
    fn all_read(&mut self, now: u64, history: &mut History) {
        let Some(task) = &mut self.task else { return };
        let Stage::Reading(_, buffers) = &task.stage else { return };
        if task.seen.is_empty() {
            // A direct read that needed the head.
            if let Some((Target::Register(register), bytes)) = buffers.first_key_value() {
                let (register, value) = (*register, value_of(bytes));
                self.read_done(now, history, register, Some(value));
            }
            return;
        }
        for blob in &task.wants.exists {
            let exists = task.seen.get(blob).is_some_and(|seen| seen.blob.is_some());
            task.actions.push(Action::Exists { blob: *blob, exists });
        }
        for register in &task.wants.registers {
            // A hole reads as zeros, which nobody writes.
            let value = buffers.get(&Target::Register(*register)).map(|bytes| value_of(bytes));
            let value = value.filter(|value| *value != 0);
            task.actions.push(Action::Read { register: *register, value, number: None });
        }
        for blob in &task.wants.lists {
            let elements =
                buffers.get(&Target::List(*blob)).map(|bytes| bytes.chunks(8).map(value_of).collect());
            task.actions.push(Action::ReadList { blob: *blob, elements });
        }
        if task.wants.again > 0 {
            task.wants.again -= 1;
            task.stage = Stage::Resting(now + self.random.below(REST_MAX));
            return;
        }
        self.write(now, history);
    }

    /// Builds the changes and commits, or ends if nothing is left to be made sure of.
    fn write(&mut self, now: u64, history: &mut History) {
        let Some(task) = &mut self.task else { return };
        let (then, validates, one) = (task.wants.then.clone(), task.wants.validates, task.seen.len() == 1);
        let read: BTreeMap<Register, u64> = task
            .actions
            .iter()
            .filter_map(|action| match action {
                Action::Read { register, value: Some(value), .. } => Some((*register, *value)),
                _ => None,
            })
            .collect();
        let mut changes: BTreeMap<Blob, Vec<Change>> = BTreeMap::new();
        let mut actions = std::mem::take(&mut task.actions);
        let write = |register: Register,
                     value: u64,
                     changes: &mut BTreeMap<Blob, Vec<Change>>,
                     actions: &mut Vec<Action>| {
            let bytes = value.to_le_bytes()[..].into();
            changes
                .entry(register.blob)
                .or_default()
                .push(Change::Write { offset: offset_of(register), bytes });
            actions.push(Action::Write { register, value, number: None });
        };
        match then {
            Then::Nothing if !validates || one => {
                history.actions_mut(task.place).extend(actions);
                return self.end(now, history, Outcome::Committed);
            }
            Then::Nothing => {}
            Then::Write(registers) => {
                for register in registers {
                    let value = self.unique();
                    write(register, value, &mut changes, &mut actions);
                }
            }
            Then::Append(lists) => {
                for blob in lists {
                    let element = self.unique();
                    let bytes = element.to_le_bytes()[..].into();
                    changes.entry(blob).or_default().push(Change::Append { bytes });
                    actions.push(Action::Append { blob, element, offset: None });
                }
            }
            Then::Add(counters) => {
                for register in counters {
                    let operand = 1 + self.random.below(3);
                    let transform = Transform::add(Operand::U64(operand));
                    let change = Change::Transform { offset: offset_of(register), transform };
                    changes.entry(register.blob).or_default().push(change);
                    actions.push(Action::Add { register, operand, old: None });
                }
            }
            Then::Transfer(from, to) => {
                let amount = self.unique();
                let had = |register: &Register| read.get(register).copied().unwrap_or(0);
                write(from, had(&from).wrapping_sub(amount), &mut changes, &mut actions);
                write(to, had(&to).wrapping_add(amount), &mut changes, &mut actions);
            }
            Then::Create(blob, parts) => {
                changes.entry(blob).or_default().push(Change::Create);
                actions.push(Action::Create { blob, number: None });
                for part in parts {
                    let value = self.unique();
                    write(blob.register(*part), value, &mut changes, &mut actions);
                }
            }
            Then::Delete(blob) => {
                changes.entry(blob).or_default().push(Change::Delete);
                actions.push(Action::Delete { blob, number: None });
            }
        }
        let Some(task) = &mut self.task else { return };
        let mut plans: BTreeMap<Blob, BlobPlan> = BTreeMap::new();
        for (blob, seen) in &task.seen {
            let seen = Seen {
                number: seen.number,
                ranges: seen.ranges.clone(),
                existence: true,
                size: seen.sees_size,
                attributes: Vec::new(),
            };
            plans.insert(*blob, BlobPlan { blob: name(*blob), seen: Some(seen), operations: Vec::new() });
        }
        for (blob, operations) in changes {
            let plan = BlobPlan { blob: name(blob), seen: None, operations: Vec::new() };
            plans.entry(blob).or_insert(plan).operations = operations;
        }
        self.commit(now, history, plans.into_values().collect(), actions);
    }

    fn commit(&mut self, now: u64, history: &mut History, plans: Vec<BlobPlan>, actions: Vec<Action>) {
        let Some(task) = &mut self.task else { return };
        history.actions_mut(task.place).extend(actions);
        let gives_up = task.label != SET_UP && self.random.below(4) == 0;
        let gives_up_at = gives_up.then(|| Time(now).after(200_000 + self.random.below(1_000_000)));
        let id = self.client.commit(Time(now), plans, gives_up_at);
        task.stage = Stage::Committing(id);
    }

    fn ended(
        &mut self,
        now: u64,
        history: &mut History,
        id: Id,
        outcome: Ended,
        results: Vec<tyr_proto::OperationResult>,
    ) {
        let Some(task) = &mut self.task else { return };
        if !matches!(task.stage, Stage::Committing(current) if current == id) {
            return;
        }
        match outcome {
            Ended::Committed => {
                let mut values = results.into_iter().map(|result| result.value);
                // Results come in the order of the chain, actions in that of the blobs: they are told apart by their kind and blob.
                fill(history.actions_mut(task.place), &mut values, &self.keyspaces);
                self.end(now, history, Outcome::Committed);
            }
            Ended::Refused(refusal) => {
                if matches!(refusal, Refusal::Invalid) {
                    panic!("a workload asks only for what is possible");
                }
                self.end(now, history, Outcome::Conflict);
            }
        }
    }

    fn end(&mut self, now: u64, history: &mut History, outcome: Outcome) {
        let Some(task) = self.task.take() else { return };
        let looks = task.seen.values().map(|seen| seen.look).chain(task.direct.map(|(look, _)| look));
        looks.for_each(|look| self.client.let_go(look));
        let counts = self.ended.entry(task.label).or_default();
        counts[outcome as usize] += 1;
        history.end(task.place, now, outcome);
    }

    fn read_directly(&mut self, now: u64, history: &mut History) {
        let register = self.registers(1)[0];
        let register = register.blob.register(register.part & !1);
        self.start(now, history, "direct read", Wants::default());
        let keyspace = &self.keyspaces[&KEYSPACE];
        let piece = keyspace.pieces(offset_of(register), 8).remove(0);
        let chunk = ChunkName { blob: name(register.blob), index: piece.chunk };
        let turn = usize::try_from(self.random.below(3)).expect("small");
        let request = self.client.read(Time(now), chunk, piece.within, None, turn);
        if let Some(task) = &mut self.task {
            task.stage = Stage::Direct(request, register);
        }
    }

    fn read_done(&mut self, now: u64, history: &mut History, register: Register, value: Option<u64>) {
        let Some(task) = &self.task else { return };
        let value = value.filter(|value| *value != 0);
        history.act(task.place, Action::Read { register, value, number: None });
        self.end(now, history, Outcome::Committed);
    }

    fn scan(&mut self, now: u64, history: &mut History) {
        self.start(now, history, "scan", Wants::default());
        let placement = &self.keyspaces[&KEYSPACE].placement;
        let mut left: Vec<PartitionId> = (0..placement.partitions.get())
            .map(|index| PartitionId { class: placement.class, index })
            .collect();
        let partition = left.pop().expect("a partition at least");
        let request = self.client.scan(Time(now), partition, name(Blob(0)), true, 3, 0);
        if let Some(task) = &mut self.task {
            task.stage = Stage::Scanning { request, partition, found: Vec::new(), left };
        }
    }

    fn names(&mut self, now: u64, history: &mut History, got: RequestId, names: Vec<BlobName>, more: bool) {
        let Some(task) = &mut self.task else { return };
        let Stage::Scanning { request, partition, found, left } = &mut task.stage else { return };
        if *request != got {
            return;
        }
        let last = names.last().cloned();
        found.extend(names);
        let turn = usize::try_from(self.random.below(3)).expect("small");
        let next = match (more, last) {
            (true, Some(last)) => Some((*partition, last, false)),
            _ => left.pop().map(|partition| (partition, name(Blob(0)), true)),
        };
        if let Some((from, after, inclusive)) = next {
            *partition = from;
            *request = self.client.scan(Time(now), from, after, inclusive, 3, turn);
            return;
        }
        let passing = self.layout.blobs(Sort::Passing);
        let (from, to) = (passing[0], Blob(passing[passing.len() - 1].0 + 1));
        let mut found: Vec<Blob> = found.iter().map(blob_of).filter(|blob| *blob >= from).collect();
        found.sort();
        history.act(task.place, Action::Scan { from, to, found });
        self.end(now, history, Outcome::Committed);
    }
}

fn client(session: SessionId, keyspaces: &Arc<Keyspaces>, bounds: Bounds) -> Client {
    let mut client = Client::new(session, keyspaces.clone());
    client.stage_above(bounds.staged_above);
    client.set_limits(bounds.limits);
    client
}

fn value_of(bytes: &[u8]) -> u64 {
    let mut value = [0; 8];
    let length = bytes.len().min(8);
    value[..length].copy_from_slice(&bytes[..length]);
    u64::from_le_bytes(value)
}

/// Fills in offsets and old values. Results come in the order of the chain, so the blobs are put into that order, too.
fn fill(actions: &mut [Action], values: &mut impl Iterator<Item = ResultValue>, keyspaces: &Keyspaces) {
    let partition = |blob: Blob| (keyspaces[&KEYSPACE].partition_of(&name(blob), 0), blob);
    let mut order: Vec<(usize, Blob)> = actions
        .iter()
        .enumerate()
        .filter_map(|(place, action)| match action {
            Action::Append { blob, .. } => Some((place, *blob)),
            Action::Add { register, .. } => Some((place, register.blob)),
            _ => None,
        })
        .collect();
    order.sort_by_key(|(_, blob)| partition(*blob));
    for (place, _) in order {
        match (&mut actions[place], values.next()) {
            (Action::Append { offset, .. }, Some(ResultValue::Offset(at))) => {
                *offset = Some((at - LIST_START) / 8)
            }
            (Action::Add { old, .. }, Some(ResultValue::Old(bytes))) => *old = Some(value_of(&bytes)),
            (action, value) => panic!("{action} answers {value:?}"),
        }
    }
}

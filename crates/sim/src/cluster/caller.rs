//! A simulated client: the shipped one, doing one operation after the other and noting what it was told.
//!
//! `task` is an operation that is under way, `known` what earlier ones have told, `outside` what is read outside of a transaction, `named` snapshots
//! that have names, `editing` documents.

mod editing;
mod known;
mod named;
mod outside;
mod task;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use tyr_proto::{
    BlobName, Client, Copies, End, Event, FREEZE_MAX, Keyspaces, Next, Operation as Change, ReadAnswer,
    ReadId, Refusal, Run, SessionId, Snapshot, Time, Told, Transaction,
    message::{BlobStat, HeadStat, Looked, RequestId},
};
use tyr_types::{Operand, Transform};

use super::{
    bounds::Bounds,
    layout::{
        ATTRIBUTE, ATTRIBUTE_NAME, KEYSPACE, LIST_START, Layout, Sort, all_parts, name, offset_of, range_of,
    },
    profile::Profile,
    wants::{Chooser, REST_MAX, Then, Wants, Way},
};
use crate::{Action, Blob, ClientId, History, Outcome, Register, TransactionId, random::Random};
pub use editing::Edited;
use editing::{Sketch, stat_of};
use known::Known;
pub use named::Order;
use task::{Found, Source, Stage, Target, Task, action_of, attribute_of, fill};

/// A client with what it is about.
#[derive(Debug)]
pub struct Caller {
    /// The shipped client.
    pub client: Client,
    /// What is lent to it, if it keeps that.
    copies: Option<Copies>,
    session: SessionId,
    bounds: Bounds,
    id: ClientId,
    random: Random,
    keyspaces: Arc<Keyspaces>,
    layout: Layout,
    weights: Vec<u32>,
    left: u32,
    /// What it last heard of what transactions may rely on.
    known: Known,
    /// What it last heard of documents.
    sketches: BTreeMap<Blob, Sketch>,
    task: Option<Task>,
    unique: u64,
    /// What the cluster manager is asked for, by the place of the operation, since this was last emptied.
    pub orders: Vec<(usize, Order)>,
    /// What was done to documents by operations that ended, since this was last emptied.
    pub edited: Vec<Edited>,
    /// What it was told that can never be, since this was last emptied.
    pub wrong: Vec<String>,
    /// Looks and freezes whose numbers were expired for a read, with the blob, since this was last emptied.
    pub expired: Vec<(RequestId, BlobName)>,
    /// Whether it was told that nobody knows any more how a transaction ended.
    pub was_forgotten: bool,
    /// When reserves were asked for whose transactions were refused by conflict within their time, since this was last emptied.
    pub refused_reserves: Vec<u64>,
    /// Operations that ended, by how.
    pub ended: BTreeMap<&'static str, [u64; 3]>,
}

/// The label of the operation that makes what has to exist.
const SET_UP: &str = "set up";
/// The label of the operation that reads everything.
const READ_ALL: &str = "read all";
/// The sessions of one caller are this far apart.
const SESSIONS_APART: u64 = 1000;

impl Caller {
    /// A client that has done nothing.
    pub fn new(number: u32, keyspaces: Arc<Keyspaces>, profile: &Profile, random: Random) -> Self {
        let session = SessionId(u64::from(number));
        let copies = profile.borrows.then(Copies::default);
        Caller {
            client: client(session, &keyspaces, profile.bounds, copies.as_ref()),
            copies,
            session,
            bounds: profile.bounds,
            id: ClientId(number),
            random,
            keyspaces,
            layout: Layout::of(profile),
            weights: profile.weights.to_vec(),
            left: profile.operations,
            known: Known::default(),
            sketches: BTreeMap::new(),
            task: None,
            unique: 0,
            orders: Vec::new(),
            edited: Vec::new(),
            wrong: Vec::new(),
            expired: Vec::new(),
            was_forgotten: false,
            refused_reserves: Vec::new(),
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
        self.copies = self.copies.as_ref().map(|_| Copies::default());
        self.client = client(self.session, &self.keyspaces, self.bounds, self.copies.as_ref());
        if let Some(task) = &mut self.task {
            // The new process knows of no snapshot that the former one took.
            task.named = None;
        }
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
        let task = self.task.as_ref().map(|task| (task.wants.label, &task.stage, &task.source));
        format!("{} {task:?}, {} left, {}", self.id, self.left, self.client.describe())
    }

    /// Begins nothing more.
    pub fn stop(&mut self) {
        self.left = 0;
    }

    /// Goes on: handles what it was told, begins the next operation.
    pub fn step(&mut self, now: u64, history: &mut History, begins: bool) {
        while let Some(event) = self.client.poll_event() {
            self.was_forgotten |= matches!(event, Event::Forgotten(_));
            self.handle(now, history, event);
            self.hear(now, history);
        }
        if let Some(Source::Transaction(transaction)) = self.task.as_mut().map(|task| &mut task.source) {
            transaction.handle_tick(&mut self.client, Time(now));
        }
        self.task.iter_mut().for_each(Task::note_id);
        match self.task.as_ref().map(|task| &task.stage) {
            Some(Stage::Resting(until)) if *until <= now => self.read(now),
            Some(Stage::Thinking(until)) if *until <= now => self.write(now, history),
            Some(Stage::Beginning) => self.begin_try(now),
            Some(Stage::Unopened(until)) if *until <= now => self.open(now),
            _ => {}
        }
        self.hear(now, history);
        if begins && self.task.is_none() && self.left > 0 {
            self.left -= 1;
            let mut chooser = Chooser { random: &mut self.random, layout: self.layout };
            let wants = chooser.choose(&self.weights);
            self.begin(now, history, wants);
            self.hear(now, history);
        }
    }

    /// Makes the blobs that have to exist before anything else.
    pub fn set_up(&mut self, now: u64, history: &mut History) {
        self.start(now, history, Wants { label: SET_UP, ..Wants::default() });
        let mut transaction = Transaction::begin(0);
        for blob in self.layout.blobs(Sort::List) {
            transaction.change(&name(blob), Change::Create);
            transaction.change(&name(blob), Change::Truncate { size: LIST_START });
        }
        for account in self.layout.accounts() {
            let value = self.unique();
            let action = Action::Write { register: account, value, number: None };
            transaction.write(&name(account.blob), offset_of(account), &value.to_le_bytes()[..]);
            self.task.iter_mut().for_each(|task| task.actions.push(action.clone()));
        }
        self.task.iter_mut().for_each(|task| task.stage = Stage::Committing);
        self.commit(now, history, Box::new(transaction));
        self.hear(now, history);
    }

    /// Reads everything, at the end.
    pub fn read_all(&mut self, now: u64, history: &mut History) -> usize {
        let blobs = |sort| self.layout.blobs(sort);
        let mut registers: Vec<Register> = self.layout.accounts();
        for blob in blobs(Sort::Registers).into_iter().chain(blobs(Sort::Passing)) {
            registers.extend(all_parts(blob));
            registers.push(blob.register(ATTRIBUTE));
        }
        registers
            .extend(blobs(Sort::Counter).into_iter().flat_map(|blob| [0, 1].map(|part| blob.register(part))));
        let (lists, exists, documents) = (blobs(Sort::List), blobs(Sort::Passing), blobs(Sort::Document));
        let wants = Wants { label: READ_ALL, registers, lists, exists, documents, ..Wants::default() };
        self.begin(now, history, wants);
        self.hear(now, history);
        self.task.as_ref().map_or(0, |task| task.place)
    }

    fn unique(&mut self) -> u64 {
        self.unique += 1;
        (self.random.number() << 24) | u64::from(self.id.0) << 16 | self.unique
    }

    fn turn(&mut self) -> usize {
        self.random.index(3)
    }

    fn start(&mut self, now: u64, history: &mut History, wants: Wants) {
        let count = history.operations().len() as u64;
        let place = history.begin(self.id, TransactionId(count + 1), wants.label, now);
        self.task = Some(Task {
            place,
            wants,
            stage: Stage::Beginning,
            run: Run::new(self.random.number()),
            reserved: None,
            source: Source::Nothing,
            targets: BTreeMap::new(),
            found: BTreeMap::new(),
            taken_at: 0,
            named: None,
            actions: Vec::new(),
            sizes: BTreeMap::new(),
            answers: Vec::new(),
            edited: Edited::of(place),
        });
    }

    fn begin(&mut self, now: u64, history: &mut History, wants: Wants) {
        let way = wants.way;
        self.start(now, history, wants);
        match way {
            Way::Once | Way::Run => self.begin_try(now),
            Way::Direct => self.read_directly(now),
            Way::Get => self.get(now, history),
            Way::Named if self.keyspaces[&KEYSPACE].multi_version => self.begin_named(),
            Way::Snapshot | Way::SnapshotPrefix | Way::Named => self.freeze(now),
            Way::Heads => self.ask_heads(now),
            Way::Scan => self.scan(now),
        }
    }

    /// Begins a try of a transaction, if it is its time.
    fn begin_try(&mut self, now: u64) {
        let turn = self.turn();
        let Some(task) = &mut self.task else { return };
        let transaction = match task.wants.way {
            Way::Run => task.run.begin(Time(now)),
            _ => Some(Transaction::begin(turn)),
        };
        let Some(transaction) = transaction else { return };
        task.source = Source::Transaction(Box::new(transaction));
        task.actions.clear();
        task.answers.clear();
        task.edited = Edited::of(task.place);
        self.read(now);
    }

    /// Takes a snapshot, or another one if what the first one held is lost.
    fn freeze(&mut self, now: u64) {
        let Some(task) = &mut self.task else { return };
        let wants = &task.wants;
        let asked = match wants.way {
            Way::SnapshotPrefix | Way::Named => {
                self.client.snapshot_prefixes(Time(now), &BTreeSet::from([(KEYSPACE, &b"b"[..])]))
            }
            _ => {
                let registers = wants.registers.iter().map(|register| register.blob);
                let blobs = registers.chain(wants.lists.iter().copied()).chain(wants.exists.iter().copied());
                let blobs = blobs.chain(wants.documents.iter().copied());
                self.client.snapshot(Time(now), &blobs.map(name).collect())
            }
        };
        task.actions.clear();
        task.edited = Edited::of(task.place);
        task.stage = Stage::Freezing(asked);
    }

    /// Reads all that is wanted.
    fn read(&mut self, now: u64) {
        let documents = self.documents_to_read();
        let Some(task) = &mut self.task else { return };
        let registers = task.wants.registers.iter().map(|register| Target::Register(*register));
        let lists = task.wants.lists.iter().map(|blob| Target::List(*blob));
        let exists = task.wants.exists.iter().map(|blob| Target::Exists(*blob));
        let targets: Vec<Target> = exists.chain(registers).chain(lists).chain(documents).collect();
        task.found.clear();
        task.stage = Stage::Reading;
        for target in targets {
            task.read(&mut self.client, now, target);
        }
    }

    fn handle(&mut self, now: u64, history: &mut History, mut event: Event) {
        let Some(task) = &mut self.task else {
            if let Event::Unknown(id) = event {
                self.client.resolve(Time(now), id);
            }
            return;
        };
        if let Event::Expired(request) = &event {
            self.expired.extend(task.source.held_for(&self.client, *request));
        }
        if task.run.handle(&mut event) {
            return;
        }
        match (&mut task.source, &task.stage, event) {
            (Source::Transaction(transaction), _, mut event) => {
                transaction.handle(&mut self.client, Time(now), &mut event);
                task.note_id();
            }
            (Source::Snapshot(snapshot), _, mut event) => {
                snapshot.handle(&mut self.client, Time(now), &mut event);
            }
            (_, Stage::Freezing(asked), Event::Frozen(told, blobs)) if *asked == told => {
                let turn = self.random.index(3);
                task.source = Source::Snapshot(Snapshot::new(told, blobs, turn));
                task.taken_at = now;
                self.read(now);
            }
            (_, Stage::Taking(..), Event::Taken(told, point)) => self.taken(told, point),
            (_, Stage::Opening(_), event) => self.opened(now, event),
            (_, Stage::Direct(expected), Event::Bytes(request, _, bytes, whole)) if *expected == request => {
                self.read_newest(now, history, &bytes, whole);
            }
            (_, Stage::Getting(expected), Event::Got(request, _, blob, bytes, _)) if *expected == request => {
                self.got(now, history, blob.is_some(), bytes.as_deref());
            }
            (_, Stage::Asking(expected, _), Event::Got(request, number, blob, _, others))
                if *expected == request =>
            {
                let blob = blob.map(|Looked { creation, size, attributes, .. }| BlobStat {
                    creation,
                    size,
                    attributes,
                });
                let first = Some(HeadStat { number, blob });
                self.told_heads(now, history, &std::iter::once(first).chain(others).collect::<Vec<_>>());
            }
            (_, Stage::Asking(expected, _), Event::Stats(request, stats)) if *expected == request => {
                self.told_heads(now, history, &stats);
            }
            (_, Stage::Scanning { .. }, Event::Names(request, names, more)) => {
                self.names(now, history, request, names, more);
            }
            _ => {}
        }
    }

    /// Handles what the transaction or the snapshot tells.
    fn hear(&mut self, now: u64, history: &mut History) {
        while let Some(told) = self.task.as_mut().and_then(|task| task.source.poll()) {
            match told {
                Told::Read(_, ReadAnswer::Lost) => self.lost(now, history),
                Told::Read(id, answer) => self.found(id, answer),
                Told::Ended(end) => self.ended(now, history, end),
            }
        }
        let is_read = |task: &Task| {
            matches!(task.stage, Stage::Reading | Stage::ReadingBack) && task.targets.is_empty()
        };
        if self.task.as_ref().is_some_and(is_read) {
            self.all_read(now, history);
            self.hear(now, history);
        }
    }

    /// What was read is gone: reads everything anew.
    fn lost(&mut self, now: u64, history: &mut History) {
        let Some(task) = &mut self.task else { return };
        let touched = task.source.touched();
        task.source.let_go(&mut self.client);
        task.targets.clear();
        match task.wants.way {
            Way::Named if task.named.is_some() => {
                self.wrong.push("what a snapshot with a name shows is gone".to_owned());
                self.end(now, history, Outcome::Unknown);
            }
            Way::Snapshot | Way::SnapshotPrefix | Way::Named => self.freeze(now),
            Way::Run => self.refused(now, history, Refusal::Conflict, touched, false),
            _ => self.begin_try(now),
        }
    }

    fn found(&mut self, id: ReadId, answer: ReadAnswer) {
        let Some(task) = &mut self.task else { return };
        let Some(target) = task.targets.remove(&id) else { return };
        let found = match answer {
            ReadAnswer::Bytes(bytes) => Found::Bytes(bytes),
            ReadAnswer::Stat(looked) if matches!(target, Target::Register(_)) => {
                Found::Bytes(looked.and_then(|looked| attribute_of(&looked.attributes)))
            }
            ReadAnswer::Stat(looked) if matches!(target, Target::Stat(_)) => Found::Stat(stat_of(looked)),
            ReadAnswer::Stat(looked) => Found::Exists(looked.is_some()),
            ReadAnswer::Lost | ReadAnswer::Denied => return,
            ReadAnswer::BytesLost => {
                self.wrong.push("bytes are told to be lost".to_owned());
                return;
            }
        };
        task.found.insert(target, found);
    }

    /// Everything was read: notes it, and goes on.
    fn all_read(&mut self, now: u64, history: &mut History) {
        let Some(task) = &mut self.task else { return };
        let is_back = matches!(task.stage, Stage::ReadingBack);
        for (target, found) in std::mem::take(&mut task.found) {
            match target {
                Target::Stat(_) | Target::Window(..) => task.saw(target, found),
                _ => task.actions.push(action_of(target, found)),
            }
        }
        if is_back {
            return self.commit_source(now, history);
        }
        self.sketch();
        let Some(task) = &mut self.task else { return };
        if task.wants.again > 0 {
            task.wants.again -= 1;
            task.stage = Stage::Resting(now + self.random.below(REST_MAX));
            return;
        }
        if let Source::Snapshot(_) = task.source {
            let (place, taken_at) = (task.place, task.taken_at);
            history.actions_mut(place).append(&mut task.actions);
            return self.end(taken_at, history, Outcome::Committed);
        }
        if task.wants.thinks > 0 {
            task.stage = Stage::Thinking(now + self.random.below(task.wants.thinks));
            return;
        }
        self.write(now, history);
    }

    /// Makes the changes, and commits.
    fn write(&mut self, now: u64, history: &mut History) {
        let Some(task) = &self.task else { return };
        let then = task.wants.then.clone();
        let read: BTreeMap<Register, u64> = task
            .actions
            .iter()
            .filter_map(|action| match action {
                Action::Read { register, value: Some(value), .. } => Some((*register, *value)),
                _ => None,
            })
            .collect();
        self.rely(now);
        let mut back = Vec::new();
        let then = match then {
            Then::Edit(documents, beside) => {
                self.edit(now, &documents);
                back.extend(self.some_of(&documents));
                *beside
            }
            then => then,
        };
        match then {
            Then::Nothing | Then::Edit(..) => {}
            Then::Write(registers) => {
                for register in &registers {
                    let value = self.unique();
                    self.write_register(*register, value);
                }
                back.extend(registers.into_iter().map(Target::Register));
            }
            Then::Bunches(lists) => {
                for blob in lists {
                    (0..2 + self.random.below(3)).for_each(|_| self.append(blob));
                }
            }
            Then::Append(lists) => lists.into_iter().for_each(|blob| self.append(blob)),
            Then::Add(counters) => counters.into_iter().for_each(|register| self.add(register)),
            Then::Transfer(from, to) => {
                let amount = self.unique();
                let had = |register: &Register| read.get(register).copied().unwrap_or(0);
                self.write_register(from, had(&from).wrapping_sub(amount));
                self.write_register(to, had(&to).wrapping_add(amount));
            }
            Then::Create(blob, parts) => {
                self.change(blob, Change::Create, Action::Create { blob, number: None });
                for part in parts {
                    let value = self.unique();
                    self.write_register(blob.register(*part), value);
                }
            }
            Then::Delete(blob) => {
                self.change(blob, Change::Delete, Action::Delete { blob, number: None });
            }
            Then::Restart(blob, parts) => {
                self.change(blob, Change::Delete, Action::Delete { blob, number: None });
                self.change(blob, Change::Create, Action::Create { blob, number: None });
                for part in parts {
                    let value = self.unique();
                    self.write_register(blob.register(part), value);
                }
            }
        }
        let Some(task) = &mut self.task else { return };
        if task.wants.reads_back && !back.is_empty() {
            task.stage = Stage::ReadingBack;
            back.into_iter().for_each(|target| task.read(&mut self.client, now, target));
        } else {
            self.commit_source(now, history);
        }
    }

    fn write_register(&mut self, register: Register, value: u64) {
        let bytes = &value.to_le_bytes()[..];
        let change = match register.part {
            ATTRIBUTE => Change::SetAttribute { name: ATTRIBUTE_NAME.to_owned(), value: Some(bytes.into()) },
            _ => Change::Write { offset: offset_of(register), bytes: bytes.into() },
        };
        // A hole leaves nothing of what came before it, of this transaction or others, and what comes after it alone.
        let is_punched = register.part != ATTRIBUTE && (value >> 24).is_multiple_of(4);
        if let (true, Some(Task { source: Source::Transaction(transaction), .. })) =
            (is_punched, &mut self.task)
        {
            let (blob, range) = (name(register.blob), range_of(register));
            transaction.change(
                &blob,
                Change::Write { offset: range.start, bytes: (!value).to_le_bytes()[..].into() },
            );
            transaction.change(&blob, Change::Punch { offset: range.start, length: range.end - range.start });
        }
        self.change(register.blob, change, Action::Write { register, value, number: None });
    }

    fn append(&mut self, blob: Blob) {
        let element = self.unique();
        let bytes = element.to_le_bytes()[..].into();
        self.change(blob, Change::Append { bytes }, Action::Append { blob, element, offset: None });
    }

    fn add(&mut self, register: Register) {
        let operand = 1 + self.random.below(3);
        let transform = Transform::add(Operand::U64(operand));
        let change = Change::Transform { offset: offset_of(register), transform };
        self.change(register.blob, change, Action::Add { register, operand, old: None });
    }

    fn change(&mut self, blob: Blob, change: Change, action: Action) {
        let Some(task) = &mut self.task else { return };
        let Source::Transaction(transaction) = &mut task.source else { return };
        let place = transaction.change(&name(blob), change);
        if matches!(action, Action::Append { .. } | Action::Add { .. }) {
            task.answers.push((task.actions.len(), name(blob), place));
        }
        task.actions.push(action);
    }

    fn commit_source(&mut self, now: u64, history: &mut History) {
        let Some(task) = &mut self.task else { return };
        task.stage = Stage::Committing;
        if let Source::Transaction(transaction) = std::mem::replace(&mut task.source, Source::Nothing) {
            self.commit(now, history, transaction);
        }
    }

    fn commit(&mut self, now: u64, history: &mut History, mut transaction: Box<Transaction>) {
        let Some(task) = &mut self.task else { return };
        *history.actions_mut(task.place) = task.actions.clone();
        let gives_up = task.wants.label != SET_UP && self.random.below(4) == 0;
        let gives_up_at = gives_up.then(|| Time(now).after(200_000 + self.random.below(1_000_000)));
        transaction.commit(&mut self.client, Time(now), gives_up_at);
        task.source = Source::Transaction(transaction);
        task.note_id();
    }

    fn ended(&mut self, now: u64, history: &mut History, end: End) {
        let Some(task) = &mut self.task else { return };
        match end {
            End::Committed(mut results) => {
                let actions = history.actions_mut(task.place);
                task.edited.fill(&mut results);
                for (place, blob, change) in std::mem::take(&mut task.answers) {
                    self.wrong.extend(fill(&mut actions[place], results.remove(&(blob, change))).err());
                }
                self.wrong
                    .extend(actions.iter().find_map(|action| Known::contradiction(action, &task.sizes)));
                actions.iter().for_each(|action| self.known.hear(action));
                self.end(now, history, Outcome::Committed);
            }
            End::Refused(refusal) => {
                assert!(refusal != Refusal::Invalid, "a workload asks only for what is possible");
                let deletes = task.actions.iter().any(|action| matches!(action, Action::Delete { .. }));
                if refusal == Refusal::NotFound && !deletes && !task.edited.explains(refusal) {
                    self.wrong.push("refused for want of a blob: it needs none".to_owned());
                }
                let touched = task.source.touched();
                self.refused(now, history, refusal, touched, true);
            }
            End::Late => {
                let touched = task.source.touched();
                self.refused(now, history, Refusal::Busy, touched, true);
            }
            End::Forgotten(_) => self.end(now, history, Outcome::Unknown),
            End::Unknown(id) => {
                // Half of them are not waited for any longer: they may happen at any later time.
                if self.random.below(2) == 0 {
                    self.end(now, history, Outcome::Unknown);
                }
                self.client.resolve(Time(now), id);
            }
        }
    }

    /// A try was refused: a run goes on with another one.
    fn refused(
        &mut self,
        now: u64,
        history: &mut History,
        refusal: Refusal,
        touched: BTreeSet<BlobName>,
        was_sent: bool,
    ) {
        let Some(task) = &mut self.task else { return };
        if let Some((reserved, since)) = task.reserved.take() {
            // What it relies on without having looked may be otherwise, reserved or not.
            let relies = task.edited.relies();
            let is_covered = touched.is_subset(&reserved) && now < since + FREEZE_MAX && !relies;
            if was_sent && refusal == Refusal::Conflict && is_covered {
                self.refused_reserves.push(since);
            }
        }
        if task.wants.way != Way::Run {
            return self.end(now, history, Outcome::Conflict);
        }
        match task.run.handle_refusal(&mut self.client, Time(now), refusal, &touched) {
            Next::Ends => self.end(now, history, Outcome::Conflict),
            next => {
                // What is refused has not happened, and never will.
                history.actions_mut(task.place).clear();
                task.answers.clear();
                task.reserved = (next == Next::Reserves).then_some((touched, now));
                (task.source, task.stage) = (Source::Nothing, Stage::Beginning);
            }
        }
    }

    fn end(&mut self, now: u64, history: &mut History, outcome: Outcome) {
        let Some(mut task) = self.task.take() else { return };
        task.source.let_go(&mut self.client);
        task.run.end(&mut self.client);
        if let Some(named) = task.named {
            self.leave_named(task.place, named);
        }
        let counts = self.ended.entry(task.wants.label).or_default();
        counts[outcome as usize] += 1;
        self.edited.extend((!task.edited.steps.is_empty()).then_some(task.edited));
        history.end(task.place, now, outcome);
    }
}

fn client(session: SessionId, keyspaces: &Arc<Keyspaces>, bounds: Bounds, copies: Option<&Copies>) -> Client {
    let mut client = Client::new(session, keyspaces.clone());
    client.stage_above(bounds.staged_above);
    client.set_limits(bounds.limits);
    copies.into_iter().for_each(|copies| client.keep_copies(copies.clone()));
    client
}

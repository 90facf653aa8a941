//! What a partition's log folds into: heads, chunks, and what is known of transactions. The same on every replica.

use alloc::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    vec::Vec,
};

use tyr_types::{Key, KeyspaceId, Number};

use crate::{
    Answered, BlobName, ChunkName, Epoch, KeepName, Keeps, Outcome, PartitionId, RingVersion, SessionId,
    Stages, TransactionId,
    canary::{Canary, planted},
    chunk::{Chunk, Old},
    entry::{ChunkWrite, ChunkWrites, Discard, Entry, Link, Mark, Marks, Prepare, Refused, Tombstone},
    gone::{Gone, GoneChunk, GoneHead},
    head::{Access, Head, Place},
    layout,
    quota::Counts,
};

/// The state of a partition at one replica.
///
/// Entries are folded when they are logged, before they are durable. What is not a fact (a prepare, a refusal, a chunk's write)
/// is tagged with its index, so that cutting the log takes it back. Outcomes are facts and stay.
#[derive(Clone, Debug)]
pub struct State {
    partition: PartitionId,
    heads: BTreeMap<BlobName, Head>,
    chunks: BTreeMap<ChunkName, Chunk>,
    records: BTreeMap<TransactionId, Record>,
    /// Records that were dropped because their clients have the answers, by the entry that did it: the entry that holds the outcome may be
    /// cut, and then nobody else knows it.
    dropped: VecDeque<(u64, TransactionId, Record)>,
    marks: Marks,
    /// Ids born below it that are not known are never executed: their sessions may have been forgotten.
    sessions_floor: RingVersion,
    stages: Stages,
    /// No head that was dropped had a higher number.
    heads_after: Number,
    /// For how many microseconds copies of heads last that primaries give out, by the entry that says so.
    lent: VecDeque<(u64, u64)>,
    /// What it holds of keyspaces with quotas, if somebody wants to know.
    counts: Counts,
    /// What it keeps for snapshots with names.
    keeps: Keeps,
    /// Heads that were dropped, by the entry that did it: the others have them if it is cut.
    gone: Gone,
}

/// What a partition knows of a transaction.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// Its promise for heads, and where it is logged.
    pub prepare: Option<(u64, Arc<Prepare>)>,
    /// Writes to chunks whose heads are elsewhere.
    pub write: Option<(u64, Arc<ChunkWrites>)>,
    /// Its promise not to prepare.
    pub refused: Option<(u64, Arc<Refused>)>,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// Where that is logged.
    pub outcome_index: Option<u64>,
    /// Old values that its transforms answer.
    pub olds: BTreeMap<(u16, u16), Arc<[u8]>>,
}

impl State {
    /// The state before the first entry.
    pub fn new(partition: PartitionId) -> Self {
        State {
            partition,
            heads: BTreeMap::new(),
            chunks: BTreeMap::new(),
            records: BTreeMap::new(),
            dropped: VecDeque::new(),
            marks: Marks::new(),
            sessions_floor: RingVersion(0),
            stages: Stages::default(),
            heads_after: Number::ZERO,
            lent: VecDeque::new(),
            counts: Counts::default(),
            keeps: Keeps::default(),
            gone: Gone::default(),
        }
    }

    /// The state as a copy of it is sent: who receives it never takes back what it folds, for its log begins there.
    pub fn to_copy(&self) -> Cow<'_, State> {
        match self.gone.is_empty() {
            true => Cow::Borrowed(self),
            false => Cow::Owned(State { gone: Gone::default(), ..self.clone() }),
        }
    }

    /// A blob's head, if it ever had one that is still of use.
    pub fn head(&self, blob: &BlobName) -> Option<&Head> {
        self.heads.get(blob)
    }

    /// A transaction that has a place at a head takes its slot.
    pub fn take_slot(&mut self, blob: &BlobName, id: TransactionId, access: Access) {
        if let Some(head) = self.heads.get_mut(blob) {
            head.take_slot(id, access);
        }
    }

    /// A transaction has passed its lock point. What comes late finds no head.
    pub fn release_slot(&mut self, blob: &BlobName, id: TransactionId) {
        if let Some(head) = self.heads.get_mut(blob) {
            head.release_slot(id);
        }
    }

    /// What was dropped and may come back.
    pub fn gone(&self) -> &Gone {
        &self.gone
    }

    /// The number at which a blob without a head is read.
    pub fn heads_after(&self) -> Number {
        self.heads_after
    }

    /// The head that a blob without one gets.
    pub fn beginning_of(&self, blob: &BlobName) -> Head {
        Head::beginning_after(self.gone.newest_of(blob, self.heads_after))
    }

    /// All heads, by name.
    pub fn heads(&self) -> impl Iterator<Item = (&BlobName, &Head)> {
        self.heads.iter()
    }

    /// How many heads and chunks there are.
    pub fn breadth(&self) -> u64 {
        (self.heads.len() + self.chunks.len()) as u64
    }

    /// The heads whose names come after one, in order.
    pub fn heads_from(&self, blob: &BlobName) -> impl Iterator<Item = (&BlobName, &Head)> + use<'_> {
        self.heads.range(blob.clone()..)
    }

    /// A chunk.
    pub fn chunk(&self, name: &ChunkName) -> Option<&Chunk> {
        self.chunks.get(name)
    }

    /// All chunks, by name.
    pub fn chunks(&self) -> impl Iterator<Item = (&ChunkName, &Chunk)> {
        self.chunks.iter()
    }

    /// What is known of a transaction.
    pub fn record(&self, id: TransactionId) -> Option<&Record> {
        self.records.get(&id)
    }

    /// What is known of all transactions that are not forgotten.
    pub fn records(&self) -> impl Iterator<Item = (TransactionId, &Record)> {
        self.records.iter().map(|(id, record)| (*id, record))
    }

    /// Which answers a client has, as far as this partition knows, and where that is logged.
    pub fn mark(&self, session: SessionId) -> Option<&Mark> {
        self.marks.get(&session)
    }

    /// Sessions that have a mark, in order, each with the latest birth of its transactions.
    pub fn sessions(&self) -> impl Iterator<Item = (SessionId, RingVersion)> {
        self.marks.iter().map(|(session, mark)| (*session, mark.born))
    }

    /// Whether a session has a mark.
    pub fn has_session(&self, session: SessionId) -> bool {
        self.marks.contains_key(&session)
    }

    /// Whether a transaction's client has its answer, so that it is not executed if it comes again.
    pub fn has_answer(&self, id: TransactionId) -> bool {
        self.marks.get(&id.session).is_some_and(|mark| mark.answered.has(id.sequence))
    }

    /// Whether nobody waits for a transaction's answer any more: its client has it, or its session was forgotten.
    pub fn is_answered(&self, id: TransactionId) -> bool {
        self.has_answer(id) || (!self.marks.contains_key(&id.session) && id.birth < self.sessions_floor)
    }

    /// Whether a transaction that is not known here may have been forgotten: it is not executed, for good.
    pub fn is_over(&self, id: TransactionId) -> bool {
        self.has_answer(id) || id.birth < self.sessions_floor
    }

    /// Payload that was received before its transactions began.
    pub fn stages(&self) -> &Stages {
        &self.stages
    }

    /// For how many microseconds copies of heads may last that were given out, and where that is logged; nothing if none are out.
    pub fn lent(&self) -> Option<(u64, u64)> {
        self.lent.back().copied().filter(|(_, lasts)| *lasts > 0)
    }

    /// What it keeps for snapshots with names.
    pub fn keeps(&self) -> &Keeps {
        &self.keeps
    }

    /// What it holds of the keyspaces that are counted.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// What has changed of these since this was asked last, in bytes.
    pub fn take_changes(&mut self) -> Vec<(KeyspaceId, i128)> {
        self.counts.take_changes()
    }

    /// Counts what it holds of these keyspaces, and of no others, from now on.
    pub fn count(&mut self, keyspaces: &BTreeSet<KeyspaceId>) {
        self.counts.keep(|keyspace| keyspaces.contains(&keyspace));
        let heads = &self.heads;
        for keyspace in keyspaces.iter().copied() {
            if !self.counts.has(keyspace) {
                let all = heads.range(first_of(keyspace)..).take_while(|(blob, _)| blob.keyspace == keyspace);
                self.counts.begin(keyspace, all.filter_map(|(_, head)| Some(head.blob()?.size)));
            }
        }
    }

    /// Folds an entry. Returns the blobs of which versions were superseded.
    pub fn apply(&mut self, index: u64, epoch: Epoch, entry: &Entry) -> BTreeSet<BlobName> {
        match entry {
            Entry::Marker => {}
            Entry::Prepare(prepare) => self.prepare(index, epoch, prepare),
            Entry::Refuse(refused) => {
                let record = self.records.entry(refused.id).or_default();
                record.refused = Some((index, refused.clone()));
                record.outcome_index = Some(index);
                // A chunk here may have the writes, though the head here lost its promise in a failure.
                let superseded = self.learn(refused.id, Outcome::Refused(refused.refusal));
                self.stages.end(index, refused.id);
                let answered = refused.plan.as_ref().map_or(0, |plan| plan.answered);
                let answered = Answered::below(answered);
                self.raise_mark(index, refused.id.session, &answered, refused.id.birth);
                return superseded;
            }
            Entry::Write(writes) => self.write(index, writes),
            Entry::Outcomes(outcomes) => {
                let mut superseded = BTreeSet::new();
                for (id, outcome) in outcomes {
                    superseded.append(&mut self.learn(*id, *outcome));
                    if let Some(record) = self.records.get_mut(id) {
                        record.outcome_index.get_or_insert(index);
                    }
                    self.stages.end(index, *id);
                    self.drop_answered(index, *id);
                }
                return superseded;
            }
            Entry::Forget { id, answered } => {
                self.records.remove(id);
                self.stages.end(index, *id);
                match answered {
                    Some(answered) => self.raise_mark(index, id.session, answered, id.birth),
                    None => self.raise_floor(id.birth),
                }
            }
            Entry::Mark { session, answered, born } => self.raise_mark(index, *session, answered, *born),
            Entry::Stage(stage) => self.stages.put(index, stage),
            Entry::Unstage { id } => self.stages.end(index, *id),
            Entry::Expire { session, born } => self.expire(index, *session, *born),
            Entry::Collected(blobs) => {
                blobs.iter().for_each(|(blob, up_to)| self.set_collected(index, blob, *up_to));
            }
            Entry::Collect(discards) => discards.iter().for_each(|discard| self.collect(index, discard)),
            Entry::Purge(tombstones) => tombstones.iter().for_each(|tombstone| self.purge(index, tombstone)),
            Entry::Lend { lasts } => self.lent.push_back((index, *lasts)),
            Entry::Keep(name) => self.keeps.begin(*name, Number::new(epoch.0, index)),
            Entry::LetGo(name) => return self.let_go(index, name),
        }
        BTreeSet::new()
    }

    fn prepare(&mut self, index: u64, epoch: Epoch, prepare: &Arc<Prepare>) {
        let (plan, stop) = (&prepare.plan, prepare.stop());
        debug_assert!(
            stop.number == Number::new(epoch.0, index) || planted(Canary::NumbersReused),
            "a number is a place in the log"
        );
        let (id, decider) = (plan.id, plan.decider().expect("a plan has heads"));
        let link = Link { number: stop.number, id, decider };
        for (position, effect) in stop.effects() {
            let HeadPlanRef { blob, only_reads } = HeadPlanRef::of(plan, position);
            let place = Place::new(stop.number, id, index, plan.is_alone(), only_reads, effect.clone());
            let links = effect.writes.iter().map(|write| (write.chunk, link));
            let after = self.heads_after;
            let head = self.heads.entry(blob.clone()).or_insert_with(|| Head::beginning_after(after));
            head.take_place(place, links);
            for write in effect.writes.iter().filter(|write| write.partition == self.partition) {
                let name = ChunkName { blob: blob.clone(), index: write.chunk };
                let write = self.stages.resolve(id, write);
                self.chunks.entry(name).or_default().log(stop.number, id, decider, &write, index);
            }
        }
        self.records.entry(id).or_default().prepare = Some((index, prepare.clone()));
        self.raise_mark(index, id.session, &Answered::below(plan.answered), id.birth);
    }

    fn write(&mut self, index: u64, writes: &Arc<ChunkWrites>) {
        for (blob, number, write) in &writes.writes {
            let name = ChunkName { blob: blob.clone(), index: write.chunk };
            let write = self.stages.resolve(writes.id, write);
            let chunk = self.chunks.entry(name).or_default();
            chunk.log(*number, writes.id, writes.decider, &write, index);
        }
        let record = self.records.entry(writes.id).or_default();
        match &mut record.write {
            None => record.write = Some((index, writes.clone())),
            // Those who refuse a transaction know the numbers of the stops before them only, so that others may add to what one told.
            Some((_, known)) => Arc::make_mut(known).add(writes),
        }
        if let Some(refusal) = writes.refused {
            self.stages.end(index, writes.id);
            self.learn(writes.id, Outcome::Refused(refusal));
            let record = self.records.entry(writes.id).or_default();
            record.outcome_index.get_or_insert(index);
        }
    }

    /// Learns how a transaction ended. Returns the blobs of which versions were superseded. Learning twice changes nothing.
    pub fn learn(&mut self, id: TransactionId, outcome: Outcome) -> BTreeSet<BlobName> {
        let mut superseded = BTreeSet::new();
        let Some(record) = self.records.get_mut(&id) else { return superseded };
        // The first to be told is the truth: a late copy may be answered by a partition that has forgotten the transaction.
        let outcome = *record.outcome.get_or_insert(outcome);
        let (prepare, write) = (record.prepare.clone(), record.write.clone());
        let mut chunks: Vec<(ChunkName, Number)> = Vec::new();
        let name = |blob: &BlobName, write: &ChunkWrite| ChunkName { blob: blob.clone(), index: write.chunk };
        if let Some((_, prepare)) = prepare {
            let number = prepare.stop().number;
            for (position, effect) in prepare.stop().effects() {
                let blob = &prepare.plan.heads[position].blob;
                let is_counted = !self.counts.is_empty();
                if let Some(head) = self.heads.get_mut(blob) {
                    let before = head.blob().map(|blob| blob.size);
                    let newest = head.newest();
                    let is_needed = head.is_being_written() && self.keeps.need(blob.keyspace, newest);
                    let was = if is_needed { head.looked() } else { None };
                    if head.learn(number, id, outcome) {
                        superseded.insert(blob.clone());
                    }
                    if let Some(was) = was.filter(|_| head.newest() > newest) {
                        self.keeps.note(blob, newest..head.newest(), was);
                    }
                    if is_counted {
                        let after = head.blob().map(|blob| blob.size);
                        self.counts.change(blob.keyspace, before, after);
                    }
                    if head.is_blank() {
                        self.heads.remove(blob);
                    }
                }
                let own = effect.writes.iter().filter(|write| write.partition == self.partition);
                chunks.extend(own.map(|write| (name(blob, write), number)));
            }
        }
        if let Some((_, writes)) = write {
            chunks.extend(writes.writes.iter().map(|(blob, number, write)| (name(blob, write), *number)));
        }
        // In the order of their names, each once.
        chunks.sort_unstable();
        chunks.dedup();
        for (name, number) in chunks {
            let olds = self.chunks.get_mut(&name).map(|chunk| chunk.learn(number, id, outcome));
            self.keep_olds(olds.unwrap_or_default());
        }
        superseded
    }

    fn keep_olds(&mut self, olds: Vec<Old>) {
        for (id, answers, old) in olds {
            if let Some(record) = self.records.get_mut(&id) {
                record.olds.insert(answers, old);
            }
        }
    }

    /// Notes which answers a client has, and forgets those that concern nobody else.
    fn raise_mark(&mut self, index: u64, session: SessionId, answered: &Answered, born: RingVersion) {
        // Whatever this replica has heard besides: of this log alone, so that the replicas agree.
        self.stages.end_answered(index, session, answered);
        if !self.marks.contains_key(&session) && born < self.sessions_floor {
            // It was forgotten; what comes late does not bring it back.
            return;
        }
        let mark = self.marks.entry(session).or_default();
        mark.born = mark.born.max(born);
        if mark.log_index != NOT_LOGGED && mark.answered.covers(answered) {
            return;
        }
        if mark.log_index != NOT_LOGGED || answered.covers(&mark.answered) {
            mark.log_index = index;
        }
        mark.answered.add(answered);
        let of = |sequence, birth| TransactionId { session, sequence, birth: RingVersion(birth) };
        // Mostly there is none: the others are kept until all partitions have their outcomes.
        let below = self.records.range(of(0, 0)..of(mark.answered.mark(), 0));
        let useless = below.filter(|(_, record)| record.is_of_no_use()).map(|(id, _)| *id);
        for id in useless.collect::<Vec<_>>() {
            self.drop_answered(index, id);
        }
    }

    /// Forgets a session, and the outcomes that concern nobody else. What is staged stays until its transaction has ended.
    fn expire(&mut self, index: u64, session: SessionId, born: RingVersion) {
        if self.marks.remove(&session).is_none() {
            return;
        }
        if !planted(Canary::SessionForgotten) {
            self.raise_floor(born);
        }
        let of = |sequence| TransactionId { session, sequence, birth: RingVersion(0) };
        let all = self.records.range(of(0)..).take_while(|(id, _)| id.session == session);
        for id in all.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.drop_answered(index, id);
        }
    }

    /// Has nothing executed any more that was born by then and is not known here.
    fn raise_floor(&mut self, born: RingVersion) {
        self.sessions_floor = self.sessions_floor.max(RingVersion(born.0.saturating_add(1)));
    }

    fn drop_answered(&mut self, index: u64, id: TransactionId) {
        let is_of_no_use = || self.records.get(&id).is_some_and(Record::is_of_no_use);
        if (self.is_answered(id) || planted(Canary::ForgottenEarly)) && is_of_no_use() {
            let record = self.records.remove(&id);
            self.dropped.extend(record.map(|record| (index, id, record)));
        }
    }

    fn collect(&mut self, index: u64, discard: &Discard) {
        if let Some(chunk) = self.chunks.get_mut(&discard.chunk) {
            // What is left of a deleted chunk is the number that a later write may follow, until its head is gone.
            chunk.collect(index, discard.up_to, &discard.keep);
        }
    }

    fn purge(&mut self, index: u64, tombstone: &Tombstone) {
        let is_it = |chunk: &&Chunk| chunk.last_arrival() == tombstone.last;
        if self.chunks.get(&tombstone.chunk).filter(is_it).is_some()
            && let Some(chunk) = self.chunks.remove(&tombstone.chunk)
        {
            self.gone.push_chunk(GoneChunk { index, name: tombstone.chunk.clone(), chunk });
        }
    }

    /// Lets go of what is kept for a snapshot, so that it is collected. Returns the blobs of which something was.
    fn let_go(&mut self, index: u64, name: &KeepName) -> BTreeSet<BlobName> {
        let blobs = self.keeps.let_go(name, index);
        for blob in &blobs {
            if let Some(head) = self.heads.get_mut(blob) {
                head.collect_again();
            }
        }
        blobs
    }

    /// Drops a head of which nothing is left.
    fn set_collected(&mut self, index: u64, blob: &BlobName, up_to: Number) {
        let Some(head) = self.heads.get_mut(blob) else { return };
        head.set_collected(index, up_to);
        // What is kept of it is still to be collected.
        if head.is_gone()
            && !self.keeps.hold(blob)
            && let Some(head) = self.heads.remove(blob)
        {
            let heads_after = self.heads_after;
            self.heads_after = heads_after.max(head.newest());
            self.gone.push(GoneHead { index, heads_after, blob: blob.clone(), head });
        }
    }

    /// Notes that the log will not be cut before an index.
    pub fn trim_log(&mut self, start: u64) {
        self.heads.values_mut().for_each(|head| head.trim_log(start));
        self.chunks.values_mut().for_each(|chunk| chunk.trim_log(start));
        self.stages.trim_log(start);
        self.keeps.trim_log(start);
        self.gone.trim_log(start);
        while self.dropped.front().is_some_and(|(index, ..)| *index <= start) {
            self.dropped.pop_front();
        }
        while self.lent.get(1).is_some_and(|(index, _)| *index <= start) {
            self.lent.pop_front();
        }
    }

    /// Takes back what was folded from entries after an index.
    pub fn cut_log(&mut self, last: u64) {
        while let Some(GoneChunk { name, chunk, .. }) = self.gone.pop_lost_chunk(last) {
            self.chunks.insert(name, chunk);
        }
        while let Some(GoneHead { heads_after, blob, head, .. }) = self.gone.pop_lost(last) {
            self.heads_after = heads_after;
            // Whatever was logged of the blob since is lost as well.
            self.heads.insert(blob, head);
        }
        self.heads.retain(|_, head| {
            head.cut_log(last);
            !head.is_blank()
        });
        self.chunks.retain(|_, chunk| {
            chunk.cut_log(last);
            !chunk.is_blank()
        });
        self.stages.cut_log(last);
        self.keeps.cut_log(last);
        self.lent.retain(|(index, _)| *index <= last);
        let lost = |index: u64| index > last;
        while let Some((_, id, record)) = self.dropped.pop_back_if(|(index, ..)| lost(*index)) {
            self.records.insert(id, record);
        }
        for record in self.records.values_mut() {
            record.prepare.take_if(|(index, _)| lost(*index));
            record.write.take_if(|(index, _)| lost(*index));
            if record.refused.take_if(|(index, _)| lost(*index)).is_some() {
                record.outcome = None;
            }
            record.outcome_index.take_if(|index| lost(*index));
        }
        self.records.retain(|_, record| record.is_known());
        // What clients said stays true.
        for mark in self.marks.values_mut().filter(|mark| lost(mark.log_index)) {
            mark.log_index = NOT_LOGGED;
        }
    }
}

/// The least name that a blob of a keyspace can have.
fn first_of(keyspace: KeyspaceId) -> BlobName {
    BlobName { keyspace, key: Key::new([0]).expect("a byte is a key") }
}

/// Where a mark is logged that was logged only past a place at which the log was cut.
const NOT_LOGGED: u64 = u64::MAX;

struct HeadPlanRef<'a> {
    blob: &'a BlobName,
    only_reads: bool,
}

impl<'a> HeadPlanRef<'a> {
    fn of(plan: &'a crate::Plan, position: usize) -> Self {
        let head = &plan.heads[position];
        HeadPlanRef { blob: &head.blob, only_reads: head.only_reads() }
    }
}

impl Record {
    fn is_known(&self) -> bool {
        self.prepare.is_some() || self.write.is_some() || self.refused.is_some()
    }

    /// Whether its client alone may still need it. What is not logged yet, the other replicas still have to be told.
    fn is_of_no_use(&self) -> bool {
        self.outcome_index.is_some() && self.concerns_nobody_else()
    }

    /// Whether it is decided and no other partition takes part in it.
    fn concerns_nobody_else(&self) -> bool {
        if self.outcome.is_none() || self.write.is_some() {
            return false;
        }
        let prepared_here_alone = self.prepare.as_ref().is_none_or(|(_, prepare)| {
            let stop = prepare.stop();
            let here = |write: &ChunkWrite| write.partition == stop.partition;
            prepare.plan.stops().nth(1).is_none()
                && stop.effects.iter().all(|effect| effect.writes.iter().all(here))
        });
        let refused_first = self.refused.as_ref().is_none_or(|(_, refused)| refused.stops.is_empty());
        prepared_here_alone && refused_first
    }
}

// The promises come first, so that heads and chunks refer to their payload.
layout!(struct State { partition, records, dropped, stages, marks, sessions_floor, heads_after, lent, heads, chunks, counts, keeps, gone });
layout!(struct Mark { answered, log_index, born });
layout!(struct Record { prepare, write, refused, outcome, outcome_index, olds });

//! Reads of a simulated client outside of a transaction: of a chunk, of a blob, of heads, and of names.

use tyr_proto::{
    BlobName, PartitionId, SeenCopy, Time,
    message::{HeadStat, READ_SIZE_MAX, RequestId},
};

use super::{
    Caller,
    task::{Found, Stage, Target, action_of, attribute_of, value_of},
};
use crate::{
    Action, Blob, History, Outcome,
    cluster::layout::{KEYSPACE, Sort, blob_of, name, range_of},
};

impl Caller {
    /// Reads a register from its chunk alone, whatever the head says.
    pub(super) fn read_directly(&mut self, now: u64) {
        let turn = self.turn();
        let Some(task) = &mut self.task else { return };
        let register = task.wants.registers[0];
        let asked = self.client.read_newest(Time(now), &name(register.blob), range_of(register), turn);
        task.stage = Stage::Direct(asked.expect("it lies in one chunk"));
    }

    /// The chunk has answered. If not all bytes were written, only the head knows what that means.
    pub(super) fn read_newest(&mut self, now: u64, history: &mut History, bytes: &[u8], whole: bool) {
        let Some(task) = &mut self.task else { return };
        if whole {
            let (register, value) = (task.wants.registers[0], value_of(bytes));
            let action =
                Action::Read { register, value: Some(value).filter(|value| *value != 0), number: None };
            history.act(task.place, action);
            self.end(now, history, Outcome::Committed);
        } else {
            self.begin_try(now);
        }
    }

    /// Gets all of the one blob that is wanted, from what is lent to this client if that is there.
    pub(super) fn get(&mut self, now: u64, history: &mut History) {
        let turn = self.turn();
        let Some(task) = &mut self.task else { return };
        let registers = task.wants.registers.iter().map(|register| register.blob);
        let Some(blob) = task.wants.exists.iter().copied().chain(registers).next() else { return };
        let (now, blob) = (Time(now), name(blob));
        let Some(copies) = &self.copies else {
            let asked = self.client.get(now, blob, READ_SIZE_MAX, Vec::new(), turn);
            task.stage = Stage::Getting(asked);
            return;
        };
        let seen = copies.see(now, &blob);
        if !matches!(seen, SeenCopy::Copy(_)) {
            task.stage = Stage::Getting(self.client.borrow(now, blob, READ_SIZE_MAX, turn));
        }
        // One that ages is read all the same; that it is asked for anew is nobody's business then.
        if let SeenCopy::Copy(copy) | SeenCopy::Aging(copy) = seen {
            self.got(now.0, history, copy.blob.is_some(), copy.bytes.as_deref());
        }
    }

    /// A head has answered, with all that its blob holds unless that is more than a chunk.
    pub(super) fn got(&mut self, now: u64, history: &mut History, exists: bool, bytes: Option<&[u8]>) {
        let Some(task) = &mut self.task else { return };
        if exists && bytes.is_none() {
            return self.begin_try(now);
        }
        let existence = task.wants.exists.iter().map(|blob| (Target::Exists(*blob), Found::Exists(exists)));
        let registers = task.wants.registers.iter().map(|register| {
            let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
            let range = range_of(*register);
            let found = bytes.and_then(|bytes| bytes.get(place(range.start)..place(range.end)));
            (Target::Register(*register), Found::Bytes(found.map(<[u8]>::to_vec)))
        });
        for (target, found) in existence.chain(registers) {
            history.act(task.place, action_of(target, found));
        }
        self.end(now, history, Outcome::Committed);
    }

    /// Asks one node what all wanted blobs are, in any order, now and then together with what the first holds.
    pub(super) fn ask_heads(&mut self, now: u64) {
        let turn = self.turn();
        let Some(task) = &mut self.task else { return };
        let registers = task.wants.registers.iter().map(|register| Target::Register(*register));
        let exists = task.wants.exists.iter().map(|blob| Target::Exists(*blob));
        let mut targets: Vec<Target> = registers.chain(exists).collect();
        let first = self.random.index(targets.len());
        targets.swap(0, first);
        let mut blobs: Vec<BlobName> = targets.iter().map(|target| name(target.blob())).collect();
        let asked = if first == 0 {
            let first = blobs.remove(0);
            self.client.get(Time(now), first, READ_SIZE_MAX, blobs, turn)
        } else {
            self.client.stat(Time(now), blobs, turn).expect("there is a blob")
        };
        task.stage = Stage::Asking(asked, targets);
    }

    /// Heads were told. What is told of one counts: together they are no snapshot.
    pub(super) fn told_heads(&mut self, now: u64, history: &mut History, stats: &[Option<HeadStat>]) {
        let Some(task) = &mut self.task else { return };
        let Stage::Asking(_, targets) = &task.stage else { return };
        let known = targets.iter().zip(stats).filter_map(|(target, stat)| Some((*target, stat.as_ref()?)));
        let known: Vec<(Target, &HeadStat)> = known.collect();
        // What is not the first one is of a copy, more often than not.
        let (target, stat) =
            if known.len() > 1 { known[1 + self.random.index(known.len() - 1)] } else { known[0] };
        let found = match target {
            Target::Exists(_) => Found::Exists(stat.blob.is_some()),
            _ => Found::Bytes(stat.blob.as_ref().and_then(|blob| attribute_of(&blob.attributes))),
        };
        history.act(task.place, action_of(target, found));
        self.end(now, history, Outcome::Committed);
    }

    /// Lists the names of one partition after the other.
    pub(super) fn scan(&mut self, now: u64) {
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

    /// Some names of a partition were told.
    pub(super) fn names(
        &mut self,
        now: u64,
        history: &mut History,
        got: RequestId,
        names: Vec<BlobName>,
        more: bool,
    ) {
        let turn = self.turn();
        let Some(task) = &mut self.task else { return };
        let Stage::Scanning { request, partition, found, left } = &mut task.stage else { return };
        if *request != got {
            return;
        }
        let last = names.last().cloned();
        found.extend(names);
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
        let documents = self.layout.blobs(Sort::Document);
        let is_judged = |blob: &Blob| *blob >= from && !documents.contains(blob);
        let mut found: Vec<Blob> = found.iter().map(blob_of).filter(is_judged).collect();
        found.sort();
        history.act(task.place, Action::Scan { from, to, found });
        self.end(now, history, Outcome::Committed);
    }
}

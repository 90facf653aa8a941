//! Committing: the plan that runs under the engine's commit lock, and what comes out of it.
//!
//! A refusal is the result of a plan that puts nothing, so that its ticket makes sure that what the refusal rests on is
//! durable before anyone is told.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::{fmt, mem};

use parking_lot::Mutex;
use tyr_store::{BlobChange, Miss, Refused, Stop, Writer};
use tyr_types::{BESIDE_MAX, Error, Key, KeyspaceId, Number, Operand, Result};

use super::Transaction;
use super::draft::{self, Base, Draft, Halt};
use super::layer::Bytes;
use super::observed::Observed;
use super::overlay::{Overlay, PieceId, Slot, Step};
use super::touched::Touched;
use crate::reservation::Place;
use crate::store::{Core, Entry};
use crate::wait::Mode;

/// How a commit ended.
#[derive(Clone, Debug)]
#[must_use = "a conflict has to be looked at"]
pub enum Outcome {
    /// All of it happened, at one point in time.
    Committed(Receipt),
    /// Nothing of it happened: something that it read or checked has changed. Run it again.
    Conflict(Conflict),
}

/// Why a transaction was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The keyspace of the blob that had changed; empty if it is not known which one that was.
    pub keyspace: String,
    /// The key of that blob, if the keyspace is known.
    pub key: Key,
    /// What had changed.
    pub what: String,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.keyspace.is_empty() {
            return f.write_str(&self.what);
        }
        write!(f, "keyspace '{}', blob '{}': {}", self.keyspace, self.key, self.what)
    }
}

/// What a committed transaction resulted in.
#[derive(Clone, Debug)]
pub struct Receipt {
    number: Number,
    outcomes: BTreeMap<Slot, draft::Outcome>,
}

impl Receipt {
    pub(crate) fn new(number: Number, outcomes: Vec<(Slot, draft::Outcome)>) -> Self {
        Receipt { number, outcomes: outcomes.into_iter().collect() }
    }

    /// A receipt of a store that is not in a directory but is used in the same way: the offsets of appends, and the values that
    /// transforms replaced.
    pub fn of(
        number: Number,
        offsets: impl IntoIterator<Item = (Slot, u64)>,
        olds: impl IntoIterator<Item = (Slot, Operand)>,
    ) -> Self {
        let offsets = offsets.into_iter().map(|(slot, offset)| (slot, draft::Outcome::Offset(offset)));
        let olds = olds.into_iter().map(|(slot, old)| (slot, draft::Outcome::Old(old)));
        Receipt { number, outcomes: offsets.chain(olds).collect() }
    }

    /// The number of the transaction: that of the versions it wrote. For a transaction that changed nothing, a number at
    /// which all that it read was true; [`Number::ZERO`] if it neither read nor wrote.
    pub fn number(&self) -> Number {
        self.number
    }

    /// The offset at which an append of the transaction put its bytes; `None` if the slot is not that of an append.
    pub fn offset(&self, slot: Slot) -> Option<u64> {
        match self.outcomes.get(&slot)? {
            draft::Outcome::Offset(offset) => Some(*offset),
            draft::Outcome::Old(_) => None,
        }
    }

    /// The value that a transform of the transaction replaced; `None` if the slot is not that of a transform.
    pub fn old(&self, slot: Slot) -> Option<Operand> {
        match self.outcomes.get(&slot)? {
            draft::Outcome::Old(old) => Some(*old),
            draft::Outcome::Offset(_) => None,
        }
    }
}

/// How a transaction ended, for who wants to run it again.
pub(crate) enum Ended {
    Committed(Receipt),
    /// And what it had read.
    Refused(Conflict, BTreeSet<Place>),
}

impl Transaction {
    pub(crate) async fn end(mut self) -> Result<Ended> {
        if let Some(number) = self.number_without_commit() {
            return Ok(Ended::Committed(Receipt::new(number, Vec::new())));
        }
        if self.turn.is_none() {
            let written = self.blobs.iter().filter(|(_, blob)| !blob.overlay.steps().is_empty());
            let written = written.map(|((id, key), _)| (*id, key));
            self.core.reservations.admit(&self.core.waiting, self.mode, written).await?;
        }
        self.blobs.values_mut().for_each(|blob| blob.overlay.make_ready());
        let blobs = Arc::new(Mutex::new(mem::take(&mut self.blobs)));
        loop {
            let planned = blobs.clone();
            let plan = move |writer: &mut Writer<'_>| plan_all(writer, &planned.lock());
            let (planned, number) = self.core.transact(self.mode, plan).await?;
            match planned {
                Planned::Done(outcomes) => return Ok(Ended::Committed(Receipt::new(number, outcomes))),
                Planned::Conflict(conflict) => return Ok(Ended::Refused(conflict, reads(&blobs.lock()))),
                Planned::Failed(error) => return Err(error),
                Planned::Packed(place, piece) => self.bring_to_memory(&blobs, &place, piece).await?,
            }
        }
    }

    /// Ends like a commit of what was read alone: whether that fits together.
    pub(crate) async fn validate(mut self) -> Result<Ended> {
        for blob in self.blobs.values_mut() {
            blob.overlay = Overlay::default();
            blob.checks.clear();
        }
        self.end().await
    }

    /// What it has read so far.
    pub(crate) fn reads(&self) -> BTreeSet<Place> {
        reads(&self.blobs)
    }

    /// The number of a transaction that changed nothing and saw one state of one blob, which needs no validation.
    fn number_without_commit(&self) -> Option<Number> {
        let mut number = None;
        for blob in self.blobs.values() {
            if !blob.checks.is_empty() || !blob.overlay.steps().is_empty() {
                return None;
            }
            match (&blob.observed, number) {
                (None, _) => {}
                (Some(Observed { pin: Some(pin), .. }), None) => number = Some(pin.number()),
                (Some(_), _) => return None,
            }
        }
        Some(number.unwrap_or(Number::ZERO))
    }

    /// Reads back a piece that has to be cut.
    async fn bring_to_memory(&self, blobs: &Blobs, place: &Place, piece: PieceId) -> Result<()> {
        let payload = blobs.lock().get(place).and_then(|blob| blob.overlay.payload(piece));
        let payload = payload.ok_or_else(|| Error::internal("a plan names pieces that exist"))?;
        let read = move |engine: &tyr_store::Store| {
            let mut bytes = vec![0; payload.len()];
            engine.read_payload(&payload, 0, &mut bytes)?;
            Ok(bytes)
        };
        let bytes = self.core.waiting.block(self.mode, read).await?;
        if let Some(blob) = blobs.lock().get_mut(place) {
            blob.overlay.replace(piece, Bytes::Loose(bytes));
        }
        Ok(())
    }
}

fn reads(blobs: &BTreeMap<Place, Touched>) -> BTreeSet<Place> {
    blobs.iter().filter(|(_, blob)| blob.was_read()).map(|(place, _)| place.clone()).collect()
}

/// How a plan ended.
pub(crate) enum Planned {
    Done(Vec<(Slot, draft::Outcome)>),
    Conflict(Conflict),
    Failed(Error),
    /// A piece has to be brought to memory first.
    Packed(Place, PieceId),
}

/// The blobs of a transaction, which its plan looks at wherever it runs.
type Blobs = Arc<Mutex<BTreeMap<Place, Touched>>>;

impl Core {
    /// Runs a plan and waits until its outcome is durable.
    pub(crate) async fn transact(
        &self,
        mode: Mode,
        mut plan: impl FnMut(&mut Writer<'_>) -> Result<Planned, Stop<Infallible>> + Send + 'static,
    ) -> Result<(Planned, Number)> {
        let submit = move |engine: &tyr_store::Store, wait| {
            engine.transact(wait, &mut plan).map_err(|refused: Refused<Infallible>| match refused {
                Refused::WouldBlock => Miss::WouldBlock,
                Refused::Failed(error) => Miss::Failed(error),
                Refused::Refused(never) => match never {},
            })
        };
        let (planned, ticket) = self.waiting.call(mode, submit).await?;
        let number = ticket.number();
        self.waiting.settle(mode, ticket).await?;
        Ok((planned, number))
    }
}

/// Validates what the transaction observed and checks, then puts its changes. It goes on where something is not in memory, so that all of that
/// is brought there at once: it would run again for each blob.
fn plan_all(writer: &mut Writer<'_>, blobs: &BTreeMap<Place, Touched>) -> Result<Planned, Stop<Infallible>> {
    let mut is_missed = false;
    for ((id, key), blob) in blobs {
        match found(blob.conflict(writer, *id, key))? {
            None => is_missed = true,
            Some(Some(what)) if !is_missed => {
                let keyspace = blob.keyspace.name.as_str().into();
                return Ok(Planned::Conflict(Conflict { keyspace, key: key.clone(), what }));
            }
            Some(_) => {}
        }
    }
    let mut plan = Plan::default();
    for ((_, key), blob) in blobs.iter().filter(|(_, blob)| !blob.overlay.steps().is_empty()) {
        match found(plan.add(writer, &blob.keyspace, key, blob.overlay.steps()))? {
            None => is_missed = true,
            Some(Some(refusal)) if !is_missed => return Ok(refusal),
            Some(_) => {}
        }
    }
    if is_missed { Err(Stop::Miss) } else { plan.put(writer) }
}

/// What was looked for, unless it is not in memory.
fn found<T>(result: Result<T, Stop<Infallible>>) -> Result<Option<T>, Stop<Infallible>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(Stop::Miss) => Ok(None),
        Err(Stop::Refuse(never)) => match never {},
    }
}

/// Puts the changes of one blob, of which nothing was observed.
pub(crate) fn plan_one(
    writer: &mut Writer<'_>,
    keyspace: &Entry,
    key: &Key,
    steps: &[Step],
) -> Result<Planned, Stop<Infallible>> {
    let mut plan = Plan::default();
    match plan.add(writer, keyspace, key, steps)? {
        Some(refusal) => Ok(refusal),
        None => plan.put(writer),
    }
}

/// What is going to be put.
#[derive(Default)]
struct Plan<'a> {
    changes: Vec<(KeyspaceId, &'a Key, BlobChange)>,
    growth: Vec<(&'a Entry, i128)>,
    outcomes: Vec<(Slot, draft::Outcome)>,
    blobs: usize,
    /// Whether there is a blob of which it only takes away.
    takes_away: bool,
}

/// Whether steps delete a blob or punch holes in it, and write nothing.
fn only_take_away(steps: &[Step]) -> bool {
    let writes = |step: &Step| match step {
        // Without bytes it stands before what deletes the blob.
        Step::Write(pieces) => pieces.end() > 0,
        _ => matches!(step, Step::Append { .. } | Step::Truncate(_) | Step::Transform { .. }),
    };
    let takes_away = |step: &Step| matches!(step, Step::Delete | Step::Punch(_));
    steps.iter().any(takes_away) && !steps.iter().any(writes)
}

impl<'a> Plan<'a> {
    /// Adds what the steps make of the blob; returns the refusal if they are impossible.
    fn add(
        &mut self,
        writer: &mut Writer<'_>,
        keyspace: &'a Entry,
        key: &'a Key,
        steps: &[Step],
    ) -> Result<Option<Planned>, Stop<Infallible>> {
        self.blobs += 1;
        self.takes_away |= only_take_away(steps);
        let head = writer.head(keyspace.id, key)?;
        let mut draft = Draft::new(head.as_deref().map(Base::from), 0..u64::MAX);
        let taken = draft.take(steps, |offset, buffer| {
            let len = writer.read(keyspace.id, key, offset, buffer)?;
            buffer[len..].fill(0);
            Ok(())
        });
        match taken.and_then(|()| draft.change()) {
            Ok(change) => self.changes.extend(change.map(|change| (keyspace.id, key, change))),
            Err(Halt::Stop(stop)) => return Err(stop),
            Err(Halt::Packed(piece)) => return Ok(Some(Planned::Packed((keyspace.id, key.clone()), piece))),
            Err(Halt::Failed(error)) => {
                let blob = format!("keyspace '{}', blob '{key}'", keyspace.name);
                return Ok(Some(Planned::Failed(error.context(blob))));
            }
        }
        self.outcomes.extend_from_slice(draft.outcomes());
        match self.growth.iter_mut().find(|(entry, _)| entry.id == keyspace.id) {
            Some((_, growth)) => *growth += draft.growth(),
            None => self.growth.push((keyspace, draft.growth())),
        }
        Ok(None)
    }

    fn put(self, writer: &mut Writer<'_>) -> Result<Planned, Stop<Infallible>> {
        let spare = if self.takes_away && self.blobs > 1 { BESIDE_MAX } else { 0 };
        for (keyspace, growth) in &self.growth {
            let Some(quota) = keyspace.quota().filter(|_| *growth > i128::from(spare)) else { continue };
            let bytes = writer.keyspace_bytes(keyspace.id)?;
            if i128::from(bytes) + growth > i128::from(quota) {
                let name = &keyspace.name;
                return Ok(Planned::Failed(Error::full(format!(
                    "keyspace '{name}' has {bytes} bytes and would grow by {growth} past its quota of {quota}; \
                     delete something or alter the quota"
                ))));
            }
        }
        for (id, key, change) in self.changes {
            writer.put(id, key, change);
        }
        Ok(Planned::Done(self.outcomes))
    }
}

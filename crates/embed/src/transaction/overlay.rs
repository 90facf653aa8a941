//! The pending changes of one blob: what a transaction did to it, in program order.
//!
//! Pure: no store is asked and nothing waits. Writes at known positions that follow one another are merged into one layer. An
//! append has no position and a transform no value until the state of the blob is known; they stay steps. What the steps amount to for a
//! given state is worked out by [`super::draft::Draft`], for reads and for the commit alike.

use std::ops::Range;

use tyr_store::Payload;
use tyr_types::{Operand, Transform};

use super::layer::{Bytes, Layer};

/// Names the result of an append or transform in a [`crate::Receipt`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot(pub(crate) u32);

impl Slot {
    /// The slot of a number, for a store that is not in a directory but is used in the same way. A number of one transaction is not that
    /// of another.
    pub fn of(number: u32) -> Self {
        Slot(number)
    }
}

/// One change of a blob.
#[derive(Clone)]
pub(crate) enum Step {
    /// The blob must not exist, and exists afterwards.
    Create,
    /// The blob must exist, and does not afterwards.
    Delete,
    /// Bytes at known positions. Creates the blob, also without any.
    Write(Layer),
    /// Bytes at the end, positions counted from there. Creates the blob. One slot for each append, with its position.
    Append { slots: Vec<(Slot, u64)>, bytes: Layer },
    /// The blob must exist.
    Truncate(u64),
    /// The blob must exist. Of the range nothing is left.
    Punch(Range<u64>),
    /// The blob must exist. Unset if there is no value.
    Attribute { name: String, value: Option<Vec<u8>> },
    /// Creates the blob.
    Transform { slot: Slot, offset: u64, transform: Transform, outcome: Option<Swapped> },
}

/// The value of a transform that was worked out already.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Swapped {
    pub(crate) old: Operand,
    pub(crate) new: Operand,
}

/// Whether the blob exists after the steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Presence {
    /// If it did before.
    #[default]
    AsBefore,
    Present,
    Absent,
}

/// The pending changes of one blob.
#[derive(Clone, Default)]
pub(crate) struct Overlay {
    steps: Vec<Step>,
    presence: Presence,
    held: usize,
    /// Whether a step has a slot, so that what came before it counts even if it is overwritten.
    slots: bool,
}

impl Overlay {
    pub(crate) fn steps(&self) -> &[Step] {
        &self.steps
    }

    pub(crate) fn presence(&self) -> Presence {
        self.presence
    }

    /// About how much memory the changes hold, in bytes.
    pub(crate) fn held(&self) -> usize {
        self.held + self.steps.len() * STEP_COST
    }

    pub(crate) fn create(&mut self) {
        self.presence = Presence::Present;
        self.steps.push(Step::Create);
    }

    pub(crate) fn delete(&mut self) {
        if !self.slots {
            // It existed, by its own steps or as observed, which is validated elsewhere.
            self.steps = vec![Step::Write(Layer::default())];
            self.held = 0;
        }
        self.presence = Presence::Absent;
        self.steps.push(Step::Delete);
    }

    /// Writes pieces, which follow one another, from the offset on. Creates the blob also if there are none.
    pub(crate) fn write_all(&mut self, offset: u64, pieces: Layer) {
        if pieces.end() == 0 {
            self.presence = Presence::Present;
            self.steps.push(Step::Write(pieces));
            return;
        }
        let mut at = offset;
        for piece in pieces.into_pieces() {
            let len = piece.len();
            self.write(at, piece);
            at += len;
        }
    }

    fn write(&mut self, offset: u64, bytes: Bytes) {
        self.presence = Presence::Present;
        let bytes = match self.steps.last_mut() {
            Some(Step::Write(layer)) => match layer.insert(offset, bytes) {
                Ok(grown) => {
                    self.held = self.held.saturating_add_signed(grown);
                    return;
                }
                Err(bytes) => bytes,
            },
            _ => bytes,
        };
        let layer = Layer::of(offset, bytes);
        self.held += layer.held();
        self.steps.push(Step::Write(layer));
    }

    /// Replaces the content by these pieces, which follow one another from 0.
    pub(crate) fn put(&mut self, pieces: Layer) {
        if !self.slots {
            self.forget_bytes();
        }
        self.presence = Presence::Present;
        self.held += pieces.held();
        let size = pieces.end();
        self.steps.push(Step::Write(pieces));
        self.steps.push(Step::Truncate(size));
    }

    /// Drops bytes that are going to be replaced; what created the blob still does.
    fn forget_bytes(&mut self) {
        self.steps.retain(|step| !matches!(step, Step::Truncate(_)));
        for step in &mut self.steps {
            if let Step::Write(layer) = step {
                self.held = self.held.saturating_sub(layer.held());
                *layer = Layer::default();
            }
        }
        self.steps.dedup_by(|b, a| matches!((a, b), (Step::Write(_), Step::Write(_))));
    }

    /// Appends pieces, which follow one another from 0.
    pub(crate) fn append(&mut self, slot: Slot, pieces: Layer) {
        self.presence = Presence::Present;
        self.slots = true;
        if let Some(Step::Append { slots, bytes }) = self.steps.last_mut() {
            let at = bytes.end();
            slots.push((slot, at));
            self.held = self.held.saturating_sub(bytes.held());
            pieces.into_pieces().for_each(|piece| bytes.push(piece));
            self.held += bytes.held();
            return;
        }
        self.held += pieces.held();
        self.steps.push(Step::Append { slots: vec![(slot, 0)], bytes: pieces });
    }

    pub(crate) fn truncate(&mut self, size: u64) {
        self.steps.push(Step::Truncate(size));
    }

    pub(crate) fn punch(&mut self, range: Range<u64>) {
        self.steps.push(Step::Punch(range));
    }

    pub(crate) fn set_attribute(&mut self, name: &str, value: Option<&[u8]>) {
        self.held += name.len() + value.map_or(0, <[u8]>::len);
        self.steps.push(Step::Attribute { name: name.into(), value: value.map(Into::into) });
    }

    pub(crate) fn transform(&mut self, slot: Slot, offset: u64, transform: Transform) {
        self.presence = Presence::Present;
        self.slots = true;
        self.steps.push(Step::Transform { slot, offset, transform, outcome: None });
    }

    /// Whether own writes alone say what the bytes of the range are.
    pub(crate) fn covers(&self, range: Range<u64>) -> bool {
        let Some(Step::Write(layer)) = self.steps.last() else { return false };
        let mut covered = range.start;
        for (start, bytes) in layer.overlapping(range.clone()) {
            if start > covered {
                return false;
            }
            covered = start + bytes.len();
        }
        covered >= range.end && !range.is_empty()
    }

    /// The transforms whose values decide what the bytes of the range are and that were not worked out yet, in program order.
    pub(crate) fn unresolved(&self, range: Range<u64>) -> Vec<usize> {
        let mut ranges = vec![range];
        let mut found = Vec::new();
        for (index, step) in self.steps.iter().enumerate().rev() {
            let Step::Transform { offset, transform, outcome: None, .. } = step else { continue };
            let number = *offset..*offset + transform.number_type().size() as u64;
            if ranges.iter().any(|range| range.start < number.end && number.start < range.end) {
                ranges.push(number);
                found.push(index);
            }
        }
        found.reverse();
        found
    }

    /// Takes note of the value of a transform.
    pub(crate) fn resolve(&mut self, step: usize, swapped: Swapped) {
        if let Some(Step::Transform { outcome, .. }) = self.steps.get_mut(step) {
            *outcome = Some(swapped);
        }
    }

    /// Checksums what is in memory.
    pub(crate) fn make_ready(&mut self) {
        for step in &mut self.steps {
            if let Step::Write(layer) | Step::Append { bytes: layer, .. } = step {
                layer.make_ready();
            }
        }
    }

    /// The payload of a packed piece.
    pub(crate) fn payload(&self, piece: PieceId) -> Option<Payload> {
        match self.steps.get(piece.step) {
            Some(Step::Write(layer) | Step::Append { bytes: layer, .. }) => layer.payload(piece.start),
            _ => None,
        }
    }

    /// Replaces what a piece is made of by the same bytes in another form.
    pub(crate) fn replace(&mut self, piece: PieceId, new: Bytes) {
        match self.steps.get_mut(piece.step) {
            Some(Step::Write(layer) | Step::Append { bytes: layer, .. }) => {
                self.held = self.held.saturating_sub(layer.held());
                layer.replace(piece.start, new);
                self.held += layer.held();
            }
            _ => debug_assert!(false, "only writes and appends have pieces"),
        }
    }
}

/// Names a piece of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PieceId {
    pub(crate) step: usize,
    pub(crate) start: u64,
}

/// What a step costs besides its bytes, roughly, in bytes.
pub(super) const STEP_COST: usize = 128;

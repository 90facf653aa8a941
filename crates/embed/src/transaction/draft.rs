//! What pending changes amount to when they meet a given state of the blob.
//!
//! Pure. A draft begins as the committed state, the base, and takes the steps in program order; pieces of pending bytes hide the base's
//! bytes and one another. A read drafts only its window; a commit drafts everything and turns the draft into one change.

use std::collections::BTreeMap;
use std::ops::Range;

use tyr_store::{BlobChange, Existence, Head, Payload};
use tyr_types::{Attributes, Error, Operand, Transform, range_end};

use super::layer::{Bytes, Layer, index};
use super::overlay::{PieceId, Slot, Step, Swapped};

/// The committed state that the changes meet.
#[derive(Clone, Copy)]
pub(crate) struct Base<'a> {
    pub(crate) size: u64,
    pub(crate) attributes: &'a Attributes,
}

impl<'a> From<&'a Head> for Base<'a> {
    fn from(head: &'a Head) -> Self {
        Base { size: head.size, attributes: &head.attributes }
    }
}

/// Why a draft stopped.
#[derive(Debug, PartialEq)]
pub(crate) enum Halt<S> {
    /// Reading the base stopped.
    Stop(S),
    /// The changes are impossible.
    Failed(Error),
    /// The bytes of a packed piece are needed; get them, replace the piece, and start again.
    Packed(PieceId),
}

/// The result that a slot stands for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Outcome {
    Offset(u64),
    Old(Operand),
}

/// A blob as it would be.
pub(crate) struct Draft<'a> {
    base: Option<Base<'a>>,
    window: Range<u64>,
    /// Whether the blob exists.
    pub(crate) exists: bool,
    /// Its size.
    pub(crate) size: u64,
    /// Whether the size, the attributes, and the existence still depend on the base's.
    pub(crate) size_from_base: bool,
    pub(crate) attributes_from_base: bool,
    /// Bytes of the base below this position show where no piece hides them.
    pub(crate) visible: u64,
    /// Where the first append begins whose position is not certain.
    pub(crate) floating: Option<u64>,
    pieces: BTreeMap<u64, Piece<'a>>,
    attributes: Option<Attributes>,
    replaced: bool,
    outcomes: Vec<(Slot, Outcome)>,
}

/// Pending bytes that show.
#[derive(Clone, Copy)]
pub(crate) struct Piece<'a> {
    pub(crate) len: u64,
    /// How far into the origin's bytes it begins.
    pub(crate) skip: u64,
    pub(crate) origin: Origin<'a>,
}

/// Where pending bytes come from.
#[derive(Clone, Copy)]
pub(crate) enum Origin<'a> {
    Bytes(PieceId, &'a Bytes),
    Number([u8; 8]),
    /// Nowhere: they are zeros.
    Hole,
}

impl<'a> Draft<'a> {
    /// A draft of the base as it is, of which only the window matters. Transforms that reach into a window smaller than the blob
    /// must be worked out, since they may depend on bytes outside of it.
    pub(crate) fn new(base: Option<Base<'a>>, window: Range<u64>) -> Self {
        Draft {
            base,
            window,
            exists: base.is_some(),
            size: base.map_or(0, |base| base.size),
            size_from_base: true,
            attributes_from_base: true,
            visible: if base.is_some() { u64::MAX } else { 0 },
            floating: None,
            pieces: BTreeMap::new(),
            attributes: None,
            replaced: false,
            outcomes: Vec::new(),
        }
    }

    /// Takes the steps. `read_base` fills its buffer with bytes of the base at a position, zeros where there are none; it
    /// is asked only for transforms that were not worked out.
    pub(crate) fn take<S>(
        &mut self,
        steps: &'a [Step],
        mut read_base: impl FnMut(u64, &mut [u8]) -> Result<(), S>,
    ) -> Result<(), Halt<S>> {
        for (index, step) in steps.iter().enumerate() {
            match step {
                Step::Create => self.create()?,
                Step::Delete => self.delete()?,
                Step::Write(layer) => self.write(index, 0, layer),
                Step::Append { slots, bytes } => self.append(index, slots, bytes)?,
                Step::Truncate(size) => self.truncate(*size)?,
                Step::Punch(range) => self.punch(range)?,
                Step::Attribute { name, value } => self.set_attribute(name, value.as_deref())?,
                Step::Transform { slot, offset, transform, outcome } => {
                    self.transform(*slot, *offset, transform, *outcome, &mut read_base)?;
                }
            }
        }
        Ok(())
    }

    fn create<S>(&mut self) -> Result<(), Halt<S>> {
        if self.exists {
            return Err(Halt::Failed(Error::exists(
                "the blob exists already; delete it first, or write to it",
            )));
        }
        self.exists = true;
        self.size_from_base = false;
        self.attributes_from_base = false;
        Ok(())
    }

    fn delete<S>(&mut self) -> Result<(), Halt<S>> {
        self.require()?;
        let base = self.base;
        let (window, outcomes) = (self.window.clone(), std::mem::take(&mut self.outcomes));
        *self = Draft { outcomes, ..Draft::new(None, window) };
        self.base = base;
        self.replaced = base.is_some();
        self.size_from_base = false;
        self.attributes_from_base = false;
        Ok(())
    }

    fn require<S>(&self) -> Result<(), Halt<S>> {
        if self.exists {
            return Ok(());
        }
        Err(Halt::Failed(Error::not_found("the blob does not exist; write or create it first")))
    }

    fn write(&mut self, step: usize, at: u64, layer: &'a Layer) {
        self.exists = true;
        self.size = self.size.max(at + layer.end());
        let window = self.window.start.saturating_sub(at)..self.window.end.saturating_sub(at);
        for (start, bytes) in layer.overlapping(window) {
            let origin = Origin::Bytes(PieceId { step, start }, bytes);
            self.insert(at + start, Piece { len: bytes.len(), skip: 0, origin });
        }
    }

    fn append<S>(&mut self, step: usize, slots: &[(Slot, u64)], bytes: &'a Layer) -> Result<(), Halt<S>> {
        let at = self.size;
        let end = range_end(at, bytes.end()).map_err(Halt::Failed)?;
        if self.size_from_base {
            self.floating.get_or_insert(at);
        }
        self.outcomes.extend(slots.iter().map(|(slot, offset)| (*slot, Outcome::Offset(at + offset))));
        self.write(step, at, bytes);
        self.size = end;
        Ok(())
    }

    fn truncate<S>(&mut self, size: u64) -> Result<(), Halt<S>> {
        self.require()?;
        if size < self.size {
            self.carve(size..u64::MAX);
            self.visible = self.visible.min(size);
        }
        self.size = size;
        self.size_from_base = false;
        Ok(())
    }

    fn punch<S>(&mut self, range: &Range<u64>) -> Result<(), Halt<S>> {
        self.require()?;
        self.carve(range.clone());
        // Where the base does not show there are zeros anyway.
        let end = range.end.min(self.visible).min(self.base.map_or(0, |base| base.size));
        if range.start < end {
            self.pieces.insert(range.start, Piece { len: end - range.start, skip: 0, origin: Origin::Hole });
        }
        Ok(())
    }

    fn set_attribute<S>(&mut self, name: &str, value: Option<&[u8]>) -> Result<(), Halt<S>> {
        self.require()?;
        let before = self.base.filter(|_| self.attributes_from_base).map(|base| base.attributes.clone());
        let attributes = self.attributes.get_or_insert_with(|| before.unwrap_or_default());
        attributes.set(name, value).map_err(Halt::Failed)
    }

    fn transform<S>(
        &mut self,
        slot: Slot,
        offset: u64,
        transform: &Transform,
        outcome: Option<Swapped>,
        read_base: &mut impl FnMut(u64, &mut [u8]) -> Result<(), S>,
    ) -> Result<(), Halt<S>> {
        let len = transform.number_type().size() as u64;
        let end = offset + len;
        if offset < self.window.end && self.window.start < end {
            let swapped = match outcome {
                Some(swapped) => swapped,
                None => {
                    let old = self.number(offset, transform, read_base)?;
                    Swapped { old, new: transform.apply(old) }
                }
            };
            self.outcomes.push((slot, Outcome::Old(swapped.old)));
            let (old, new) = (swapped.old.to_le_bytes(), swapped.new.to_le_bytes());
            // What stays as it is need not be written.
            if old != new || end > self.size {
                self.insert(offset, Piece { len, skip: 0, origin: Origin::Number(new) });
            }
        }
        self.exists = true;
        self.size = self.size.max(end);
        Ok(())
    }

    /// The number at the offset as it is now.
    fn number<S>(
        &self,
        offset: u64,
        transform: &Transform,
        read_base: &mut impl FnMut(u64, &mut [u8]) -> Result<(), S>,
    ) -> Result<Operand, Halt<S>> {
        let mut bytes = [0; 8];
        let bytes = &mut bytes[..transform.number_type().size()];
        let end = offset + bytes.len() as u64;
        let shown = self.visible.clamp(offset, end) - offset;
        if shown > 0 {
            read_base(offset, &mut bytes[..index(shown)]).map_err(Halt::Stop)?;
        }
        for (start, piece) in self.shown(offset..end) {
            let target = &mut bytes[index(start - offset)..][..index(piece.len)];
            match piece.origin {
                Origin::Number(number) => {
                    target.copy_from_slice(&number[index(piece.skip)..][..target.len()])
                }
                Origin::Hole => target.fill(0),
                Origin::Bytes(id, bytes) => {
                    let bytes = bytes.in_memory().ok_or(Halt::Packed(id))?;
                    target.copy_from_slice(&bytes[index(piece.skip)..][..target.len()]);
                }
            }
        }
        Operand::from_le_bytes(transform.number_type(), bytes).map_err(Halt::Failed)
    }

    /// The pieces that show in the range, cut to it.
    pub(crate) fn shown(&self, range: Range<u64>) -> impl Iterator<Item = (u64, Piece<'a>)> {
        let first = match self.pieces.range(..=range.start).next_back() {
            Some((at, piece)) if at + piece.len > range.start => *at,
            _ => range.start,
        };
        let last = range.end.max(first);
        self.pieces.range(first..last).map(move |(at, piece)| {
            let start = (*at).max(range.start);
            let end = (at + piece.len).min(range.end);
            (start, Piece { len: end - start, skip: piece.skip + (start - at), ..*piece })
        })
    }

    /// The parts of the range where the base shows.
    pub(crate) fn gaps(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let end = range.end.min(self.visible);
        let mut gaps = Vec::new();
        let mut at = range.start;
        for (start, piece) in self.shown(range) {
            if at < start.min(end) {
                gaps.push(at..start.min(end));
            }
            at = start + piece.len;
        }
        if at < end {
            gaps.push(at..end);
        }
        gaps
    }

    /// The attributes as they would be.
    pub(crate) fn attributes(&self) -> Attributes {
        match (&self.attributes, &self.base) {
            (Some(attributes), _) => attributes.clone(),
            (None, Some(base)) if self.attributes_from_base => base.attributes.clone(),
            _ => Attributes::default(),
        }
    }

    fn insert(&mut self, start: u64, piece: Piece<'a>) {
        self.carve(start..start + piece.len);
        self.pieces.insert(start, piece);
    }

    /// Removes the range from every piece.
    fn carve(&mut self, range: Range<u64>) {
        while let Some((at, piece)) = self.last_overlapping(&range) {
            self.pieces.remove(&at);
            let end = at + piece.len;
            if end > range.end {
                let skipped = range.end - at;
                let right = Piece { len: end - range.end, skip: piece.skip + skipped, ..piece };
                self.pieces.insert(range.end, right);
            }
            if at < range.start {
                self.pieces.insert(at, Piece { len: range.start - at, ..piece });
            }
        }
    }

    fn last_overlapping(&self, range: &Range<u64>) -> Option<(u64, Piece<'a>)> {
        let (at, piece) = self.pieces.range(..range.end).next_back()?;
        (at + piece.len > range.start).then_some((*at, *piece))
    }

    /// The results of appends and transforms.
    pub(crate) fn outcomes(&self) -> &[(Slot, Outcome)] {
        &self.outcomes
    }

    /// The one change that makes the base what the draft is; `None` if it is that already.
    pub(crate) fn change<S>(&self) -> Result<Option<BlobChange>, Halt<S>> {
        let existence = match (self.base.is_some(), self.exists) {
            (true, true) if self.replaced => Existence::Replace,
            (true, true) => Existence::Keep,
            (true, false) => Existence::Delete,
            (false, true) => Existence::Create,
            (false, false) => return Ok(None),
        };
        let anew = matches!(existence, Existence::Create | Existence::Replace);
        let base_size = self.base.filter(|_| !self.replaced).map_or(0, |base| base.size);
        let base_attributes = self.base.filter(|_| !self.replaced).map(|base| base.attributes);
        let attributes =
            self.attributes.clone().filter(|new| base_attributes.map_or(!new.is_empty(), |old| old != new));
        let cut = (existence == Existence::Keep && self.visible < base_size).then_some(self.visible);
        let writes = self.writes()?;
        let holes = self.holes()?;
        let same = !anew
            && writes.is_empty()
            && holes.is_empty()
            && attributes.is_none()
            && cut.is_none()
            && self.size == base_size;
        if existence == Existence::Keep && same {
            return Ok(None);
        }
        Ok(Some(BlobChange { existence, cut, holes, size: self.size, attributes, writes }))
    }

    /// Ranges of the base of which nothing is left.
    fn holes<S>(&self) -> Result<Vec<Range<u64>>, Halt<S>> {
        let holes = self.pieces.iter().filter(|(_, piece)| matches!(piece.origin, Origin::Hole));
        let holes: Vec<Range<u64>> = holes.map(|(start, piece)| *start..start + piece.len).collect();
        if holes.iter().map(|hole| hole.end - hole.start).sum::<u64>() > HOLES_SIZE_MAX {
            let max = HOLES_SIZE_MAX >> 30;
            return Err(Halt::Failed(Error::invalid(format!(
                "the holes are too large for one transaction; punch no more than {max} GiB at once"
            ))));
        }
        Ok(holes)
    }

    fn writes<S>(&self) -> Result<Vec<(u64, Payload)>, Halt<S>> {
        let payload = |(start, piece): (&u64, &Piece<'a>)| {
            let range = index(piece.skip)..index(piece.skip + piece.len);
            let payload = match piece.origin {
                Origin::Number(number) => Payload::new(&number[range]),
                Origin::Hole => return Ok(None),
                Origin::Bytes(_, Bytes::Packed(payload) | Bytes::Ready(_, payload))
                    if range.len() == payload.len() =>
                {
                    payload.clone()
                }
                Origin::Bytes(id, bytes) => Payload::new(&bytes.in_memory().ok_or(Halt::Packed(id))?[range]),
            };
            Ok(Some((*start, payload)))
        };
        self.pieces.iter().filter_map(|piece| payload(piece).transpose()).collect()
    }

    /// By how much the blob would grow, or shrink, in bytes.
    pub(crate) fn growth(&self) -> i128 {
        let before = self.base.map_or(0, |base| base.size);
        i128::from(self.size) - i128::from(before)
    }
}

/// The holes that a transaction leaves in one blob have no more bytes than this: it looks at everything that lies there.
const HOLES_SIZE_MAX: u64 = 64 << 30;

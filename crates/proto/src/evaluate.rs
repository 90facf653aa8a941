//! What a transaction does to one head, worked out at its turn: refusals, waits, offsets, and the writes to each chunk.

use alloc::{collections::BTreeMap, vec::Vec};
use core::ops::Range;

use tyr_types::{Number, OFFSET_MAX, Operand, Transform};

use crate::{
    ChunkName, Condition, HeadPlan, Keyspace, Operation, Payload, Refusal,
    canary::{Canary, planted},
    entry::{ChunkOperation, ChunkWrite, ExistenceEffect, HeadEffect, SizeEffect},
    head::{Ahead, AttributesFit, Head},
    overlay::Overlay,
    partition::Wanted,
};

/// What became of an evaluation.
#[derive(Clone, Debug, PartialEq)]
pub enum Evaluation {
    /// It is possible and does this.
    Ready(HeadEffect),
    /// It depends on transactions whose outcome is not known yet.
    Waits,
    /// It depends on bytes that are not here: all that it wants, also what has been found.
    WaitsFor(Vec<Wanted>),
    /// It is not possible, or something that it read has been overwritten.
    Refused(Refusal),
}

/// Works out what a transaction does to a head, the one at `position` of its plan, if it takes the next place in its order.
///
/// It builds on what has a number and is not decided: on transactions on this head alone, because they are lost only together with
/// it; not on transactions over several heads, which may be refused elsewhere (design, section 5, point 4).
///
/// A transform across two chunks is rewritten into a write of its value, from bytes that `found` knows. What it is worked out from is the blob
/// as it is applied, so everything that has a number is waited for.
pub fn evaluate<'a>(
    head: &Head,
    position: usize,
    plan: &HeadPlan,
    keyspace: &Keyspace,
    found: &dyn Fn(&Wanted) -> Option<&'a Vec<u8>>,
) -> Evaluation {
    if plan.seen.as_ref().is_some_and(|seen| head.conflicts(seen)) {
        return Evaluation::Refused(Refusal::Conflict);
    }
    let ahead = head.ahead();
    match meets(head, &ahead, &plan.conditions) {
        Some(true) => {}
        Some(false) => return Evaluation::Refused(Refusal::Conflict),
        None => return Evaluation::Waits,
    }
    let depends_on_size = plan.operations.iter().any(|operation| {
        matches!(
            operation,
            Operation::Append { .. }
                | Operation::AppendStaged { .. }
                | Operation::Truncate { .. }
                | Operation::Delete
        )
    });
    let size_open = ahead.size_open && !planted(Canary::OpenSizeIgnored);
    if !plan.only_reads() && (ahead.existence_open || (depends_on_size && size_open)) {
        return Evaluation::Waits;
    }
    let crosses = |operation: &Operation| crosses_chunks(operation, keyspace);
    if plan.operations.iter().any(crosses) && !head.is_decided_up_to(Number::MAX) {
        return Evaluation::Waits;
    }
    let Ok(head_position) = index(position) else { return Evaluation::Refused(Refusal::Invalid) };
    let mut draft = Draft {
        head,
        head_position,
        plan,
        keyspace,
        found,
        ahead,
        effect: HeadEffect::default(),
        writes: BTreeMap::new(),
        wanted: Vec::new(),
        is_short: false,
        steps: 0,
    };
    for (position, operation) in plan.operations.iter().enumerate() {
        if let Err(refusal) = draft.apply(position, operation) {
            return Evaluation::Refused(refusal);
        }
    }
    match head.attributes_fit(&draft.effect) {
        AttributesFit::No => Evaluation::Refused(Refusal::TooManyAttributes),
        AttributesFit::Unknown => Evaluation::Waits,
        AttributesFit::Yes if draft.is_short => Evaluation::WaitsFor(draft.wanted),
        AttributesFit::Yes => Evaluation::Ready(draft.finish()),
    }
}

/// Whether all conditions are true of a head as it is for who takes the next place in its order; `None` if that depends on transactions whose outcome is
/// not known yet.
fn meets(head: &Head, ahead: &Ahead, conditions: &[Condition]) -> Option<bool> {
    if conditions.is_empty() || planted(Canary::ConditionIgnored) {
        return Some(true);
    }
    if ahead.existence_open {
        return None;
    }
    let mut is_open = false;
    for condition in conditions {
        let (is_met, waits) = match condition {
            Condition::Missing => (!ahead.exists, false),
            Condition::Exists => (ahead.exists, false),
            Condition::Size(size) => (ahead.exists && ahead.size == *size, ahead.size_open),
            Condition::Attribute { name, value } => {
                let found = head.attribute_ahead(name);
                (ahead.exists && found.value == value.as_ref(), found.is_open)
            }
        };
        if !is_met && !waits {
            return Some(false);
        }
        is_open |= waits;
    }
    (!is_open).then_some(true)
}

/// Whether an operation transforms a number that lies in two chunks.
pub fn crosses_chunks(operation: &Operation, keyspace: &Keyspace) -> bool {
    let Operation::Transform { offset, transform } = operation else { return false };
    let range = end_of(*offset, transform.number_type().size() as u64);
    range.is_ok_and(|range| keyspace.pieces(*offset, range.end - range.start).len() > 1)
}

struct Draft<'a, 'f> {
    head: &'a Head,
    head_position: u16,
    plan: &'a HeadPlan,
    keyspace: &'a Keyspace,
    found: &'a dyn Fn(&Wanted) -> Option<&'f Vec<u8>>,
    ahead: Ahead,
    effect: HeadEffect,
    writes: BTreeMap<u64, Vec<ChunkOperation>>,
    /// The bytes from which transforms across chunks are worked out,
    wanted: Vec<Wanted>,
    /// and whether any is missing.
    is_short: bool,
    /// The steps that what looks at others of its operations, or at all chunks, has taken.
    steps: usize,
}

/// As many of those steps a transaction may take at one head: the whole of the largest blob is cut eight times in so many. A head does nothing else meanwhile.
const STEPS_MAX: usize = 1 << 22;

impl Draft<'_, '_> {
    fn apply(&mut self, position: usize, operation: &Operation) -> Result<(), Refusal> {
        match operation {
            Operation::Create if self.ahead.exists => return Err(Refusal::Exists),
            operation if operation.needs_blob() && !self.ahead.exists => return Err(Refusal::NotFound),
            Operation::Delete => self.delete()?,
            Operation::Truncate { size } => self.truncate(*size)?,
            Operation::Punch { offset, length } => self.punch(*offset, *length)?,
            Operation::Create => self.exist(),
            Operation::Write { offset, bytes } => self.write(*offset, bytes)?,
            Operation::Append { bytes } => {
                let offset = match planted(Canary::AppendsOverlap) {
                    true => self.head.ahead().size,
                    false => self.ahead.size,
                };
                self.effect.offsets.push((index(position)?, offset));
                self.effect.size = SizeEffect::AtLeast(offset);
                self.write(offset, bytes)?;
                self.effect.size = SizeEffect::Exactly(self.ahead.size);
            }
            Operation::WriteStaged { offset, length } => self.write_staged(position, *offset, *length)?,
            Operation::AppendStaged { length } => {
                let offset = self.ahead.size;
                self.effect.offsets.push((index(position)?, offset));
                self.effect.size = SizeEffect::AtLeast(offset);
                self.write_staged(position, offset, *length)?;
                self.effect.size = SizeEffect::Exactly(self.ahead.size);
            }
            Operation::Lost { .. } if planted(Canary::LossIgnored) => self.exist(),
            Operation::Lost { .. } => return Err(Refusal::Unstaged),
            Operation::Transform { offset, transform } => {
                let range = end_of(*offset, transform.number_type().size() as u64)?;
                let pieces = self.keyspace.pieces(*offset, range.end - range.start);
                let [piece] = &pieces[..] else {
                    return self.transform_across(position, range, transform);
                };
                let answers = (self.head_position, index(position)?);
                let operation =
                    ChunkOperation::Transform { offset: piece.within.start, transform: *transform, answers };
                self.writes.entry(piece.chunk).or_default().push(operation);
                self.touch(range);
            }
            Operation::SetAttribute { name, value } => {
                self.exist();
                self.effect.attributes.push((name.clone(), value.clone()));
            }
        }
        Ok(())
    }

    /// Writes the value of a transform that no chunk can work out alone.
    fn transform_across(
        &mut self,
        position: usize,
        range: Range<u64>,
        transform: &Transform,
    ) -> Result<(), Refusal> {
        let size = self.head.blob().map_or(0, |blob| blob.size);
        let before = &self.plan.operations[..if planted(Canary::EarlierIgnored) { 0 } else { position }];
        let is_staged = |operation: &Operation| {
            matches!(operation, Operation::WriteStaged { .. } | Operation::AppendStaged { .. })
        };
        if before.iter().any(is_staged) {
            // What it transforms may be payload that is elsewhere.
            return Err(Refusal::TooLarge);
        }
        self.take_steps(before.len())?;
        let overlay = Overlay::of(before, self.head.blob().is_some(), size);
        let (mut base, at) = (Vec::new(), self.head.read_number());
        for needed in overlay.base_of(range.clone()) {
            for piece in self.keyspace.pieces(needed.start, needed.end - needed.start) {
                let chunk = ChunkName { blob: self.plan.blob.clone(), index: piece.chunk };
                let wanted = Wanted { chunk, within: (piece.within.start, piece.within.end), at };
                match (self.found)(&wanted) {
                    Some(bytes) => base.push((needed.start + piece.part.start as u64, bytes.clone())),
                    None => self.is_short = true,
                }
                self.wanted.push(wanted);
            }
        }
        let Ok(mut old) = overlay.read(base, &range) else {
            self.is_short = true;
            return Ok(());
        };
        old.resize(transform.number_type().size(), 0);
        let operand =
            Operand::from_le_bytes(transform.number_type(), &old).expect("as many bytes as the type");
        let new = transform.apply(operand).to_le_bytes()[..old.len()].into();
        self.effect.olds.push((index(position)?, old.into()));
        self.write(range.start, &new)
    }

    fn exist(&mut self) {
        if !self.ahead.exists {
            self.ahead.exists = true;
            self.effect.existence = match self.effect.existence {
                ExistenceEffect::Ends => ExistenceEffect::Restarts,
                _ => ExistenceEffect::Begins,
            };
        }
    }

    fn write(&mut self, offset: u64, bytes: &Payload) -> Result<(), Refusal> {
        let range = end_of(offset, bytes.len() as u64)?;
        for piece in self.keyspace.pieces(offset, bytes.len() as u64) {
            let operation =
                ChunkOperation::Write { offset: piece.within.start, bytes: bytes.clone(), part: piece.part };
            self.writes.entry(piece.chunk).or_default().push(operation);
        }
        self.touch(range);
        Ok(())
    }

    fn write_staged(&mut self, position: usize, offset: u64, length: u64) -> Result<(), Refusal> {
        let range = end_of(offset, length)?;
        let payload = (self.head_position, index(position)?);
        for piece in self.keyspace.staged_pieces(offset, length) {
            let part = piece.part.start as u64..piece.part.end as u64;
            let operation = ChunkOperation::Staged { offset: piece.within.start, payload, part };
            self.writes.entry(piece.chunk).or_default().push(operation);
        }
        self.touch(range);
        Ok(())
    }

    /// Notes a write to a range, which makes the blob exist and reach to its end.
    fn touch(&mut self, range: Range<u64>) {
        self.exist();
        if range.is_empty() {
            return;
        }
        self.ahead.size = self.ahead.size.max(range.end);
        self.effect.size = match self.effect.size {
            SizeEffect::Stays => SizeEffect::AtLeast(range.end),
            SizeEffect::AtLeast(size) => SizeEffect::AtLeast(size.max(range.end)),
            SizeEffect::Exactly(size) => SizeEffect::Exactly(size.max(range.end)),
        };
        self.effect.ranges.push(range);
    }

    fn truncate(&mut self, size: u64) -> Result<(), Refusal> {
        let range = end_of(size, 0)?;
        if !planted(Canary::ShrinkIgnored) {
            self.cut_chunks(size..u64::MAX)?;
        }
        self.effect.ranges.push(self.ahead.size.min(range.end)..u64::MAX);
        self.ahead.size = size;
        self.effect.size = SizeEffect::Exactly(size);
        Ok(())
    }

    fn punch(&mut self, offset: u64, length: u64) -> Result<(), Refusal> {
        let range = end_of(offset, length)?;
        if range.is_empty() {
            return Ok(());
        }
        self.cut_chunks(range.clone())?;
        self.effect.ranges.push(range);
        Ok(())
    }

    fn delete(&mut self) -> Result<(), Refusal> {
        self.cut_chunks(0..u64::MAX)?;
        self.effect.ranges.clear();
        self.effect.ranges.push(0..u64::MAX);
        self.effect.attributes.clear();
        self.effect.size = SizeEffect::Exactly(0);
        self.effect.existence = match self.effect.existence {
            // Created and deleted by this transaction: nothing of what was there before changes.
            ExistenceEffect::Begins => ExistenceEffect::Stays,
            _ => ExistenceEffect::Ends,
        };
        self.ahead.exists = false;
        self.ahead.size = 0;
        Ok(())
    }

    fn take_steps(&mut self, count: usize) -> Result<(), Refusal> {
        self.steps += count;
        if self.steps > STEPS_MAX { Err(Refusal::TooLarge) } else { Ok(()) }
    }

    /// Leaves nothing of a range in every chunk that was or is being written.
    fn cut_chunks(&mut self, range: Range<u64>) -> Result<(), Refusal> {
        let layout = &self.keyspace.placement.layout;
        let first = layout.chunk_at(range.start);
        let last = match planted(Canary::CutIgnored) {
            true => first,
            false => layout.chunk_at(range.end - 1),
        };
        let being_written = self.writes.range(first..=last).map(|(chunk, _)| *chunk);
        let written: Vec<u64> = self.head.linked_chunks_of(first..=last).chain(being_written).collect();
        self.take_steps(written.len())?;
        for chunk in written {
            let whole = layout.range_of(chunk);
            let end = if range.end < whole.end { range.end - whole.start } else { u64::MAX };
            let cut = ChunkOperation::Cut { range: range.start.saturating_sub(whole.start)..end };
            let operations = self.writes.entry(chunk).or_default();
            if operations.last() != Some(&cut) {
                operations.push(cut);
            }
        }
        Ok(())
    }

    fn finish(self) -> HeadEffect {
        let Draft { head, plan, keyspace, mut effect, writes, .. } = self;
        effect.writes = writes
            .into_iter()
            .map(|(chunk, operations)| ChunkWrite {
                chunk,
                // The first chunk lies where the head does.
                partition: if chunk == 0 { plan.partition } else { keyspace.partition_of(&plan.blob, chunk) },
                previous: head.link(chunk),
                operations,
                drops_former: !keyspace.multi_version,
            })
            .collect();
        effect
    }
}

fn index(position: usize) -> Result<u16, Refusal> {
    u16::try_from(position).map_err(|_| Refusal::Invalid)
}

fn end_of(offset: u64, length: u64) -> Result<Range<u64>, Refusal> {
    match offset.checked_add(length) {
        Some(end) if end <= OFFSET_MAX => Ok(offset..end),
        _ => Err(Refusal::Invalid),
    }
}

#[cfg(test)]
mod tests;

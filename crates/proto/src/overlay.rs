//! What a blob is under changes that are not made yet: a transaction sees its own writes, and a transform its plan's earlier ones.

use alloc::vec::Vec;
use core::ops::Range;

use crate::{Content, Operation, entry::ChunkOperation, payload::Lost};

/// A blob with operations laid over it. Offsets are those of the blob, as if it were one chunk.
#[derive(Clone, Debug)]
pub struct Overlay {
    /// Whether it exists after the operations.
    pub exists: bool,
    /// Its size after them.
    pub size: u64,
    /// Whether that follows from the size before them, or is told by a place that does.
    pub depends_on_size: bool,
    /// From where on there are bytes whose places follow from the size before them: those of appends.
    placed_from: u64,
    steps: Vec<ChunkOperation>,
}

impl Overlay {
    /// Lays operations over a blob of a size; zero if it does not exist. What will be refused is laid over as if it were not.
    pub fn of(operations: &[Operation], exists: bool, size: u64) -> Self {
        let mut overlay =
            Overlay { exists, size, depends_on_size: true, placed_from: u64::MAX, steps: Vec::new() };
        operations.iter().for_each(|operation| overlay.lay(operation));
        overlay
    }

    fn lay(&mut self, operation: &Operation) {
        match operation {
            Operation::Create | Operation::SetAttribute { .. } => self.exists = true,
            Operation::Delete => {
                self.cut(0);
                self.exists = false;
            }
            Operation::Truncate { size } => self.cut(*size),
            Operation::Punch { offset, length } => {
                // Also past the end, where there are zeros anyway.
                self.steps.push(ChunkOperation::Cut { range: *offset..offset.saturating_add(*length) });
            }
            Operation::Write { offset, bytes } => {
                let step =
                    ChunkOperation::Write { offset: *offset, bytes: bytes.clone(), part: 0..bytes.len() };
                self.put(step, *offset, bytes.len() as u64);
            }
            Operation::Append { bytes } => {
                let offset = self.size;
                if self.depends_on_size && !bytes.is_empty() {
                    self.placed_from = self.placed_from.min(offset);
                }
                let step = ChunkOperation::Write { offset, bytes: bytes.clone(), part: 0..bytes.len() };
                self.put(step, offset, bytes.len() as u64);
            }
            Operation::Transform { offset, transform } => {
                let step =
                    ChunkOperation::Transform { offset: *offset, transform: *transform, answers: (0, 0) };
                self.put(step, *offset, transform.number_type().size() as u64);
            }
            // What is copied is nowhere here: who copies to a blob reads nothing of it.
            Operation::WriteStaged { offset, length } => {
                self.exists = true;
                self.size = self.size.max(offset.saturating_add(*length));
            }
            // A client stages when nothing is laid over any more, and a server refuses what would have to be.
            Operation::AppendStaged { .. } | Operation::Lost { .. } => {}
        }
    }

    fn cut(&mut self, size: u64) {
        self.steps.push(ChunkOperation::Cut { range: size..u64::MAX });
        (self.size, self.depends_on_size) = (size, false);
        if size <= self.placed_from {
            self.placed_from = u64::MAX;
        }
    }

    fn put(&mut self, step: ChunkOperation, offset: u64, length: u64) {
        self.exists = true;
        if length > 0 {
            self.size = self.size.max(offset.saturating_add(length));
            self.steps.push(step);
        }
    }

    /// Whether the bytes of a range after the operations follow from the size before them: it ends behind the blob, or meets what was appended.
    pub fn shows_size(&self, range: &Range<u64>) -> bool {
        (self.depends_on_size && range.end > self.size) || range.end.min(self.size) > self.placed_from
    }

    /// The bytes of the blob before the operations that a range after them depends on.
    pub fn base_of(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut needed = Vec::from([range]);
        for step in self.steps.iter().rev() {
            match step {
                ChunkOperation::Write { offset, part, .. } => {
                    needed = without(&needed, &(*offset..offset.saturating_add(part.len() as u64)));
                }
                ChunkOperation::Cut { range } => needed = without(&needed, range),
                ChunkOperation::Staged { .. } => {}
                ChunkOperation::Transform { offset, transform, .. } => {
                    let number = *offset..offset.saturating_add(transform.number_type().size() as u64);
                    if needed.iter().any(|range| range.start < number.end && number.start < range.end) {
                        needed = without(&needed, &number);
                        needed.push(number);
                    }
                }
            }
        }
        needed.retain(|range| !range.is_empty());
        needed.sort_by_key(|range| range.start);
        needed
    }

    /// The bytes of a range after the operations, as far as the blob reaches, from runs of bytes before them. Fails if payload
    /// of the operations cannot be read.
    pub fn read(&self, mut base: Vec<(u64, Vec<u8>)>, range: &Range<u64>) -> Result<Vec<u8>, Lost> {
        let end = range.end.min(self.size);
        // The usual case costs no copy: one run that begins where the range does, and nothing over it.
        if let ([(offset, bytes)], []) = (&mut base[..], &self.steps[..])
            && *offset == range.start
            && end.checked_sub(*offset).is_some_and(|length| length <= bytes.len() as u64)
        {
            bytes.truncate(usize::try_from(end - *offset).expect("no more than there are"));
            return Ok(core::mem::take(bytes));
        }
        let mut content = Content::default();
        for (offset, bytes) in base {
            let part = 0..bytes.len();
            let write = ChunkOperation::Write { offset, bytes: bytes.into(), part };
            content.apply(&write)?;
        }
        for step in &self.steps {
            content.apply(step)?;
        }
        Ok(content.read(&(range.start.min(end)..end))?.0)
    }
}

/// Ranges without what lies in another one.
fn without(ranges: &[Range<u64>], cut: &Range<u64>) -> Vec<Range<u64>> {
    let parts = ranges.iter().flat_map(|range| {
        let before = range.start..range.end.min(cut.start.max(range.start));
        let after = range.start.max(cut.end.min(range.end))..range.end;
        [before, after]
    });
    parts.filter(|range| range.start < range.end).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use alloc::vec;

    use tyr_types::{Operand, Transform};

    use super::*;

    fn write(offset: u64, bytes: &[u8]) -> Operation {
        Operation::Write { offset, bytes: bytes.into() }
    }

    #[test]
    fn only_what_shows_through_is_asked_for() {
        let overlay = Overlay::of(&[write(4, b"abcd"), Operation::Truncate { size: 12 }], true, 20);
        assert_eq!(overlay.base_of(0..20), [0..4, 8..12]);
        assert_eq!(
            overlay.read(vec![(0, vec![1; 4]), (8, vec![2; 4])], &(0..20)),
            Ok(b"\x01\x01\x01\x01abcd\x02\x02\x02\x02".to_vec())
        );
        let deleted = Overlay::of(&[Operation::Delete, write(2, b"x")], true, 20);
        assert_eq!((deleted.base_of(0..20), deleted.size, deleted.exists), (vec![], 3, true));
        assert_eq!(deleted.read(vec![], &(0..20)), Ok(b"\0\0x".to_vec()));
    }

    #[test]
    fn a_transform_needs_its_whole_number_and_an_append_the_size() {
        let add = Operation::Transform { offset: 2, transform: Transform::add(Operand::U32(1)) };
        let overlay = Overlay::of(&[add, Operation::Append { bytes: b"end"[..].into() }], true, 8);
        assert_eq!(overlay.base_of(0..3), [0..2, 2..6]);
        assert!(overlay.depends_on_size);
        let bytes =
            overlay.read(vec![(0, vec![9; 2]), (2, vec![255, 0, 0, 0]), (6, vec![9; 2])], &(0..100)).unwrap();
        assert_eq!(bytes, [9, 9, 0, 1, 0, 0, 9, 9, b'e', b'n', b'd']);
    }

    #[test]
    fn a_range_shows_the_size_that_ends_behind_the_blob_or_meets_what_was_appended() {
        let append = || Operation::Append { bytes: b"end"[..].into() };
        let truncate = |size| Operation::Truncate { size };
        let shows = |operations: &[Operation], range| Overlay::of(operations, true, 8).shows_size(&range);
        assert!(!shows(&[], 0..8) && shows(&[], 0..9));
        assert!(!shows(&[append()], 0..8) && shows(&[append()], 0..9) && shows(&[append()], 8..11));
        // Where it ends is known then, and not what is there.
        assert!(!shows(&[append(), truncate(10)], 0..8) && shows(&[append(), truncate(10)], 0..9));
        assert!(!shows(&[append(), truncate(8)], 0..20) && !shows(&[truncate(4), append()], 0..20));
    }

    #[test]
    fn ranges_without_a_range_are_what_lies_outside() {
        let ranges = [0..10, 20..30];
        assert_eq!(without(&ranges, &(3..5)), [0..3, 5..10, 20..30]);
        assert_eq!(without(&ranges, &(0..10)), vec![20..30]);
        assert_eq!(without(&ranges, &(8..22)), [0..8, 22..30]);
        assert_eq!(without(&ranges, &(12..13)), ranges);
    }
}

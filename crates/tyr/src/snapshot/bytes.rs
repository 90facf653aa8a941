//! Runs of bytes that are not zeros: what is worth storing and writing.

use std::ops::Range;

/// Zeros are looked for in blocks of so many bytes.
const BLOCK: usize = 4096;
/// A piece that is read, or a run that is written, is at most so long.
pub const PIECE: usize = 1 << 20;

/// The parts of a piece that are not zeros, in whole blocks but for the last.
pub fn runs(bytes: &[u8]) -> impl Iterator<Item = Range<usize>> + '_ {
    differing(bytes, &[])
}

/// The parts in which two pieces differ, in whole blocks but for the last; what one of them lacks counts as zeros there.
pub fn differing<'a>(bytes: &'a [u8], others: &'a [u8]) -> impl Iterator<Item = Range<usize>> + 'a {
    let mut at = 0;
    std::iter::from_fn(move || {
        let block = |start: usize| start..bytes.len().min(start + BLOCK);
        let differs = |range: Range<usize>| {
            let other = &others[range.start.min(others.len())..range.end.min(others.len())];
            let (own, rest) = bytes[range].split_at(other.len());
            own != other || rest.iter().any(|byte| *byte != 0)
        };
        while at < bytes.len() && !differs(block(at)) {
            at = block(at).end;
        }
        let start = at;
        while at < bytes.len() && differs(block(at)) {
            at = block(at).end;
        }
        (start < at).then_some(start..at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_left_out_in_whole_blocks() {
        let mut bytes = vec![0; 5 * BLOCK + 10];
        assert_eq!(runs(&bytes).count(), 0);
        bytes[BLOCK + 7] = 1;
        bytes[2 * BLOCK] = 1;
        bytes[5 * BLOCK + 9] = 1;
        let found: Vec<_> = runs(&bytes).collect();
        assert_eq!(found, [BLOCK..3 * BLOCK, 5 * BLOCK..5 * BLOCK + 10]);
    }

    #[test]
    fn what_differs_is_found_also_past_the_end_of_the_other() {
        let one = vec![1; 3 * BLOCK];
        let mut other = one.clone();
        assert_eq!(differing(&one, &other).count(), 0);
        other[BLOCK] = 2;
        assert!(differing(&one, &other).eq(std::iter::once(BLOCK..2 * BLOCK)));
        other.truncate(2 * BLOCK + 1);
        assert!(differing(&one, &other).eq(std::iter::once(BLOCK..3 * BLOCK)));
        assert_eq!(differing(&vec![0; 3 * BLOCK], &other[..0]).count(), 0);
    }
}

//! What a leaf's list of extents means: which bytes are visible at a number, and which extents nobody can see any more.
//!
//! Extents are in the order of their numbers; a later one hides what it overlaps. Those of one transaction do not overlap.

use std::ops::Range;

use tyr_types::Number;
use tyr_wire::{
    entry::Cut,
    extent::{Extent, LEAF_SPAN},
};

/// A leaf with more extents than this is rewritten as one. Amortised, a tiny overwrite then costs
/// `LEAF_SPAN / LEAF_EXTENTS_MAX` bytes of rewriting.
const LEAF_EXTENTS_MAX: usize = 64;

/// A leaf whose extents hold on to more stored bytes than this, most of them hidden, is rewritten as well.
const LEAF_STORED_MAX: u64 = 4 * LEAF_SPAN;

/// Whether a leaf should be rewritten as one extent.
pub fn is_fragmented(extents: &[Extent]) -> bool {
    let stored: u64 = extents.iter().map(|extent| u64::from(extent.stored)).sum();
    extents.len() > LEAF_EXTENTS_MAX || stored > LEAF_STORED_MAX
}

/// A part of a leaf that one extent provides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Bytes of the leaf.
    pub range: Range<u32>,
    /// Index of the extent.
    pub extent: usize,
}

/// The index of the leaf that has byte `offset` of a blob, and the byte's position in the leaf.
pub fn locate(offset: u64) -> (u64, u32) {
    let position = u32::try_from(offset % LEAF_SPAN).expect("a leaf's span fits 32 bits");
    (offset / LEAF_SPAN, position)
}

/// Cuts a range of a blob at the boundaries of leaves: (leaf, bytes of the leaf).
pub fn split(range: Range<u64>) -> impl Iterator<Item = (u64, Range<u32>)> {
    let mut offset = range.start;
    std::iter::from_fn(move || {
        if offset >= range.end {
            return None;
        }
        let (leaf, start) = locate(offset);
        let end = range.end.min((leaf + 1) * LEAF_SPAN);
        let len = u32::try_from(end - offset).expect("a part of a leaf fits 32 bits");
        offset = end;
        Some((leaf, start..start + len))
    })
}

/// The first byte of leaf `index` at or beyond which what `number` wrote had been cut off at `at`;
/// [`LEAF_SPAN`] or more if none was.
pub fn cut_position(cuts: &[Cut], index: u64, number: Number, at: Number) -> u32 {
    let base = index * LEAF_SPAN;
    let span = u32::try_from(LEAF_SPAN).expect("fits");
    cuts.iter()
        .filter(|cut| number < cut.number && cut.number <= at)
        .map(|cut| u32::try_from(cut.from.saturating_sub(base)).unwrap_or(span).min(span))
        .min()
        .unwrap_or(span)
}

/// The pieces that make up `range` at `at`, in ascending order without overlap, holes among them; what lies between is zeros.
/// `index` is the leaf's, for `cuts`, which are the blob's.
pub fn visible(extents: &[Extent], cuts: &[Cut], index: u64, range: Range<u32>, at: Number) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    // Ascending and disjoint.
    let mut gaps = vec![range];
    for (position, extent) in extents.iter().enumerate().rev().filter(|(_, extent)| extent.number <= at) {
        if gaps.is_empty() {
            break;
        }
        let end = if cuts.is_empty() {
            extent.end()
        } else {
            extent.end().min(cut_position(cuts, index, extent.number, at))
        };
        let first = gaps.partition_point(|gap| gap.end <= extent.start);
        let count = gaps[first..].iter().take_while(|gap| gap.start < end).count();
        if count == 0 || extent.start >= end {
            continue;
        }
        let touched = first..first + count;
        let filled = |gap: &Range<u32>| gap.start.max(extent.start)..gap.end.min(end);
        pieces.extend(gaps[touched.clone()].iter().map(|gap| Piece { range: filled(gap), extent: position }));
        let before = gaps[first].start..extent.start;
        let after = end..gaps[first + count - 1].end;
        gaps.splice(touched, [before, after].into_iter().filter(|rest| rest.start < rest.end));
    }
    pieces.sort_unstable_by_key(|piece| piece.range.start);
    pieces
}

/// The number of the newest write or cut that touched any byte of `range`; [`Number::ZERO`] if none did.
pub fn newest(extents: &[Extent], cuts: &[Cut], index: u64, range: &Range<u32>) -> Number {
    let written = extents.iter().rev().find(|extent| extent.overlaps(range.start, range.end));
    let end = index * LEAF_SPAN + u64::from(range.end);
    let cut = cuts.iter().rev().find(|cut| cut.from < end);
    let written = written.map_or(Number::ZERO, |extent| extent.number);
    written.max(cut.map_or(Number::ZERO, |cut| cut.number))
}

/// Takes out and returns the extents of which no byte is visible to the newest reader or at any of the pinned numbers
/// (ascending). The newest extent of every byte stays, unless it was cut off.
pub fn prune(extents: &mut Vec<Extent>, cuts: &[Cut], index: u64, pins: &[Number]) -> Vec<Extent> {
    let whole = 0..u32::try_from(LEAF_SPAN).expect("fits");
    let mut seen = vec![false; extents.len()];
    for at in pins.iter().copied().chain([Number::MAX]) {
        for piece in visible(extents, cuts, index, whole.clone(), at) {
            seen[piece.extent] = true;
        }
    }
    let mut dropped = Vec::new();
    let mut seen = seen.into_iter();
    extents.retain(|extent| {
        let keep = seen.next().unwrap_or(true);
        if !keep {
            dropped.push(extent.clone());
        }
        keep
    });
    dropped
}

/// Adds an extent with the newest number, and drops, without regard to pins, those that it covers whole. The cheap form of
/// [`prune`] for leaves that nobody has pinned.
pub fn overwrite(extents: &mut Vec<Extent>, new: Extent) -> Vec<Extent> {
    let mut dropped = Vec::new();
    extents.retain(|extent| {
        let covered = new.start <= extent.start && extent.end() <= new.end();
        if covered {
            dropped.push(extent.clone());
        }
        !covered
    });
    extents.push(new);
    dropped
}

#[cfg(test)]
mod tests;

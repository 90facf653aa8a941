//! Pending bytes of one blob at known positions.
//!
//! Invariant: pieces are disjoint and not empty. Loose pieces grow as neighbours are written, so that a thousand small writes in
//! a row are one piece. Packed pieces are never cut here: that needs their bytes, which may be on disk.

use std::collections::BTreeMap;
use std::ops::Range;

use tyr_store::Payload;

/// The bytes of one piece.
#[derive(Clone)]
pub(crate) enum Bytes {
    /// In memory; may still be cut and extended.
    Loose(Vec<u8>),
    /// In memory, and ready for the log if it is not cut.
    Ready(Vec<u8>, Payload),
    /// Ready for the log, or on disk already.
    Packed(Payload),
}

impl Bytes {
    pub(crate) fn len(&self) -> u64 {
        match self {
            Bytes::Loose(bytes) | Bytes::Ready(bytes, _) => bytes.len() as u64,
            Bytes::Packed(payload) => payload.len() as u64,
        }
    }

    /// Bytes of memory that it holds, roughly.
    fn held(&self) -> usize {
        PIECE_COST + self.in_memory().map_or(0, <[u8]>::len)
    }

    /// The bytes, if they are in memory.
    pub(crate) fn in_memory(&self) -> Option<&[u8]> {
        match self {
            Bytes::Loose(bytes) | Bytes::Ready(bytes, _) => Some(bytes),
            Bytes::Packed(_) => None,
        }
    }
}

/// Disjoint pieces by position.
#[derive(Clone, Default)]
pub(crate) struct Layer {
    pieces: BTreeMap<u64, Bytes>,
}

impl Layer {
    /// A layer of one piece, or of none if there are no bytes.
    pub(crate) fn of(start: u64, bytes: Bytes) -> Layer {
        let mut layer = Layer::default();
        if bytes.len() > 0 {
            layer.pieces.insert(start, bytes);
        }
        layer
    }

    /// Adds a piece at the end, or makes the last piece longer.
    pub(crate) fn push(&mut self, bytes: Bytes) {
        let end = self.end();
        if let Some(mut last) = self.pieces.last_entry()
            && let (Bytes::Loose(old), Bytes::Loose(new)) = (last.get_mut(), &bytes)
            && old.len() + new.len() <= LOOSE_MAX
        {
            old.extend_from_slice(new);
        } else if bytes.len() > 0 {
            self.pieces.insert(end, bytes);
        }
    }

    /// The same pieces further on.
    pub(crate) fn shifted(self, offset: u64) -> Layer {
        if offset == 0 {
            return self;
        }
        Layer { pieces: self.pieces.into_iter().map(|(start, bytes)| (offset + start, bytes)).collect() }
    }

    pub(crate) fn into_pieces(self) -> impl Iterator<Item = Bytes> {
        self.pieces.into_values()
    }

    /// Where the last piece ends.
    pub(crate) fn end(&self) -> u64 {
        self.pieces.last_key_value().map_or(0, |(start, bytes)| start + bytes.len())
    }

    /// The pieces that have bytes in the range.
    pub(crate) fn overlapping(&self, range: Range<u64>) -> impl Iterator<Item = (u64, &Bytes)> {
        let first = self.first_overlapping(range.start);
        let end = range.end.max(first);
        self.pieces.range(first..end).map(|(start, bytes)| (*start, bytes))
    }

    /// Bytes of memory that the pieces hold.
    pub(crate) fn held(&self) -> usize {
        self.pieces.values().map(Bytes::held).sum()
    }

    /// The payload of the packed piece at `start`.
    pub(crate) fn payload(&self, start: u64) -> Option<Payload> {
        match self.pieces.get(&start)? {
            Bytes::Packed(payload) => Some(payload.clone()),
            Bytes::Loose(_) | Bytes::Ready(..) => None,
        }
    }

    /// Replaces what the piece at `start` is made of by the same bytes in another form.
    pub(crate) fn replace(&mut self, start: u64, bytes: Bytes) {
        if let Some(piece) = self.pieces.get_mut(&start) {
            debug_assert_eq!(piece.len(), bytes.len(), "the bytes are the same");
            *piece = bytes;
        }
    }

    /// Checksums what is in memory, so that it need not be done where others wait.
    pub(crate) fn make_ready(&mut self) {
        for piece in self.pieces.values_mut() {
            if let Bytes::Loose(bytes) = piece {
                let payload = Payload::new(bytes);
                *piece = Bytes::Ready(std::mem::take(bytes), payload);
            }
        }
    }

    /// The position of the first piece that ends after `start`, or `start`.
    fn first_overlapping(&self, start: u64) -> u64 {
        match self.pieces.range(..=start).next_back() {
            Some((at, bytes)) if at + bytes.len() > start => *at,
            _ => start,
        }
    }

    /// Lays bytes over what is there, and says by how many bytes the held memory grew. Gives the bytes back if a packed
    /// piece would have to be cut.
    pub(crate) fn insert(&mut self, start: u64, bytes: Bytes) -> Result<isize, Bytes> {
        let end = start + bytes.len();
        let is_cut = |(at, piece): (u64, &Bytes)| {
            matches!(piece, Bytes::Packed(_)) && (at < start || at + piece.len() > end)
        };
        if self.overlapping(start..end).any(is_cut) {
            return Err(bytes);
        }
        if bytes.len() == 0 {
            return Ok(0);
        }
        let held = bytes.held().cast_signed();
        let Bytes::Loose(new) = &bytes else {
            let freed = self.carve(start..end);
            self.pieces.insert(start, bytes);
            return Ok(held - freed);
        };
        if let Some(at) = self.open_predecessor(start, new.len()) {
            let freed = self.carve_after(at, start..end);
            if let Some(Bytes::Loose(old)) = self.pieces.get_mut(&at) {
                return Ok(overwrite(old, start - at, new) - freed);
            }
        }
        let freed = self.carve(start..end);
        self.pieces.insert(start, bytes);
        Ok(held - freed)
    }

    /// The loose piece that begins at or before `start`, reaches it, and has room for `len` more bytes.
    fn open_predecessor(&self, start: u64, len: usize) -> Option<u64> {
        let (at, bytes) = self.pieces.range(..=start).next_back()?;
        match bytes {
            Bytes::Loose(old) if at + bytes.len() >= start && old.len() + len <= LOOSE_MAX => Some(*at),
            _ => None,
        }
    }

    /// Removes the range from every piece but that at `kept`; returns the bytes of memory freed.
    fn carve_after(&mut self, kept: u64, range: Range<u64>) -> isize {
        let Some(piece) = self.pieces.remove(&kept) else { return 0 };
        let freed = self.carve(range);
        self.pieces.insert(kept, piece);
        freed
    }

    /// Removes the range from every piece; returns the bytes of memory freed.
    fn carve(&mut self, range: Range<u64>) -> isize {
        let hit: Vec<u64> = self.overlapping(range.clone()).map(|(at, _)| at).collect();
        let mut freed = 0;
        for at in hit {
            let Some(piece) = self.pieces.remove(&at) else { continue };
            freed += piece.held().cast_signed();
            let end = at + piece.len();
            let (Bytes::Loose(mut bytes) | Bytes::Ready(mut bytes, _)) = piece else { continue };
            if end > range.end {
                let right = Bytes::Loose(bytes.split_off(index(range.end - at)));
                freed -= right.held().cast_signed();
                self.pieces.insert(range.end, right);
            }
            if at < range.start {
                bytes.truncate(index(range.start - at));
                let left = Bytes::Loose(bytes);
                freed -= left.held().cast_signed();
                self.pieces.insert(at, left);
            }
        }
        freed
    }
}

/// Writes into and past the end of the bytes; returns by how much they grew.
fn overwrite(old: &mut Vec<u8>, at: u64, new: &[u8]) -> isize {
    let (at, before) = (index(at), old.len());
    let within = new.len().min(before - at);
    old[at..at + within].copy_from_slice(&new[..within]);
    old.extend_from_slice(&new[within..]);
    (old.len() - before).cast_signed()
}

/// A position within a piece, which is in memory and therefore fits.
pub(crate) fn index(position: u64) -> usize {
    usize::try_from(position).expect("a piece in memory is no longer than memory")
}

/// The longest loose piece, in bytes, unless it was packed before: it fits any segment.
const LOOSE_MAX: usize = 64 << 10;

/// What a piece costs besides its bytes, roughly, in bytes.
const PIECE_COST: usize = 64;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn loose(bytes: &[u8]) -> Bytes {
        Bytes::Loose(bytes.into())
    }

    fn pieces(layer: &Layer) -> impl Iterator<Item = (u64, &Bytes)> {
        layer.overlapping(0..u64::MAX)
    }

    #[test]
    fn writes_in_a_row_become_one_piece() {
        let mut layer = Layer::default();
        for n in 0..100 {
            layer.insert(10 + n * 4, loose(b"abcd")).ok().unwrap();
        }
        assert_eq!((pieces(&layer).count(), layer.held(), layer.end()), (1, PIECE_COST + 400, 410));
    }

    #[test]
    fn a_packed_piece_is_replaced_but_not_cut() {
        let mut layer = Layer::of(10, Bytes::Packed(Payload::new(&[1; 10])));
        assert!(layer.insert(12, loose(b"x")).is_err());
        assert!(layer.insert(5, loose(&[2; 6])).is_err());
        assert_eq!(layer.insert(10, loose(&[2; 10])).ok(), Some(10));
        assert_eq!((pieces(&layer).count(), layer.held()), (1, PIECE_COST + 10));
    }

    proptest! {
        #[test]
        fn a_layer_is_what_was_written_last(
            writes in prop::collection::vec((0u64..60, prop::collection::vec(any::<u8>(), 0..20)), 0..30),
        ) {
            let (mut layer, mut model) = (Layer::default(), [None; 80]);
            let mut held = 0;
            for (start, bytes) in writes {
                held += layer.insert(start, loose(&bytes)).ok().expect("nothing is packed");
                for (n, byte) in bytes.iter().enumerate() {
                    model[index(start) + n] = Some(*byte);
                }
            }
            let mut found = [None; 80];
            let mut end = 0;
            for (start, bytes) in pieces(&layer) {
                prop_assert!(start >= end && bytes.len() > 0);
                end = start + bytes.len();
                let Bytes::Loose(bytes) = bytes else { unreachable!("nothing is packed") };
                for (n, byte) in bytes.iter().enumerate() {
                    found[index(start) + n] = Some(*byte);
                }
            }
            prop_assert_eq!(found, model);
            prop_assert_eq!(held, layer.held().cast_signed());
            for start in 0..80 {
                let hit = layer.overlapping(start..start + 1).count();
                prop_assert_eq!(hit, usize::from(model[index(start)].is_some()));
            }
        }
    }
}

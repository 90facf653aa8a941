//! A search among ascending byte strings that rarely looks at the strings.

use alloc::boxed::Box;

/// The first eight bytes of each of some ascending strings, as numbers that order as they do.
#[derive(Debug)]
pub(super) struct Heads(Box<[u64]>);

impl Heads {
    /// Of these strings, which ascend.
    pub fn new<'a>(strings: impl Iterator<Item = &'a [u8]>) -> Self {
        Heads(strings.map(head).collect())
    }

    /// How many strings are at most this one. `string` is asked for those whose first eight bytes are the same.
    #[inline]
    pub fn count_up_to<'a>(&self, bytes: &[u8], string: impl Fn(usize) -> &'a [u8]) -> usize {
        let head = head(bytes);
        let mut low = self.0.partition_point(|other| *other < head);
        let mut high = low + self.0[low..].partition_point(|other| *other == head);
        while low < high {
            let middle = low.midpoint(high);
            if string(middle) <= bytes {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Bytes in memory.
    pub fn size(&self) -> usize {
        size_of_val(&*self.0)
    }
}

/// Zeros stand for bytes that are not there: equal numbers leave the order open.
#[inline]
fn head(bytes: &[u8]) -> u64 {
    match bytes.first_chunk() {
        Some(first) => u64::from_be_bytes(*first),
        None => {
            let mut padded = [0; 8];
            padded[..bytes.len()].copy_from_slice(bytes);
            u64::from_be_bytes(padded)
        }
    }
}

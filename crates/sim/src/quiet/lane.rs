//! What serves one after the other: a link, a device.

use super::model::transfer;

/// Something that carries bytes at a rate, in the order in which they come.
#[derive(Clone, Copy, Debug)]
pub struct Lane {
    bytes_per_second: u64,
    free_at: u64,
}

impl Lane {
    /// One that is free.
    pub fn new(bytes_per_second: u64) -> Self {
        Lane { bytes_per_second, free_at: 0 }
    }

    /// When bytes that come now have passed.
    pub fn pass(&mut self, now: u64, bytes: u64) -> u64 {
        self.free_at = self.free_at.max(now) + transfer(bytes, self.bytes_per_second);
        self.free_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_while_it_is_taken_waits() {
        let mut lane = Lane::new(1_000_000_000);
        assert_eq!(lane.pass(10, 5), 15);
        assert_eq!(lane.pass(11, 5), 20);
        assert_eq!(lane.pass(100, 5), 105);
    }
}

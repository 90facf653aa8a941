//! The log of one shard: what comes while a write is on its way shares the next one.

use tyr_proto::{Epoch, PartitionId};

/// An entry of a partition's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Logged {
    /// The partition.
    pub partition: PartitionId,
    /// The entry's index.
    pub index: u64,
    /// Its epoch.
    pub epoch: Epoch,
}

/// The entries of a shard that are not durable.
#[derive(Debug, Default)]
pub struct Log {
    waiting: Vec<Logged>,
    bytes: u64,
    writing: Option<Vec<Logged>>,
}

impl Log {
    /// Takes an entry with so many bytes of payload.
    pub fn push(&mut self, entry: Logged, bytes: u64) {
        self.waiting.push(entry);
        self.bytes += bytes;
    }

    /// Begins to write what waits, unless a write is on its way. Returns its bytes.
    pub fn begin_write(&mut self) -> Option<u64> {
        if self.writing.is_some() || self.waiting.is_empty() {
            return None;
        }
        self.writing = Some(std::mem::take(&mut self.waiting));
        Some(std::mem::take(&mut self.bytes))
    }

    /// The write has ended. Returns what is durable by it.
    pub fn end_write(&mut self) -> Vec<Logged> {
        self.writing.take().expect("a write was on its way")
    }
}

#[cfg(test)]
mod tests {
    use tyr_proto::ClassId;

    use super::*;

    #[test]
    fn what_comes_during_a_write_shares_the_next() {
        let entry =
            |index| Logged { partition: PartitionId { class: ClassId(0), index: 0 }, index, epoch: Epoch(1) };
        let mut log = Log::default();
        log.push(entry(1), 10);
        assert_eq!(log.begin_write(), Some(10));
        log.push(entry(2), 20);
        log.push(entry(3), 30);
        assert_eq!(log.begin_write(), None);
        assert_eq!(log.end_write(), [entry(1)]);
        assert_eq!(log.begin_write(), Some(50));
        assert_eq!(log.end_write(), [entry(2), entry(3)]);
        assert_eq!(log.begin_write(), None);
    }
}

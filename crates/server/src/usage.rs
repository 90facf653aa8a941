//! What was done in each keyspace. It belongs to a shard's thread.

use std::collections::BTreeMap;

use tyr_types::KeyspaceId;

use crate::histogram::Histogram;

/// What was done in a keyspace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyspaceWork {
    /// Transactions that were committed,
    pub committed: u64,
    /// those that were refused because of others that had changed what they read,
    pub conflicts: u64,
    /// and those that were refused for other reasons.
    pub refused: u64,
    /// Bytes that committed transactions wrote.
    pub written: u64,
    /// From when the shard that decides a transaction heard of it first until its answer.
    pub transaction_times: Histogram,
    /// Answers to readers.
    pub reads: u64,
    /// Bytes of blobs that were answered.
    pub read: u64,
    /// From the question to the answer.
    pub read_times: Histogram,
}

impl KeyspaceWork {
    /// Adds what another shard did.
    pub fn add(&mut self, other: &KeyspaceWork) {
        self.committed += other.committed;
        self.conflicts += other.conflicts;
        self.refused += other.refused;
        self.written += other.written;
        self.transaction_times.merge(&other.transaction_times);
        self.reads += other.reads;
        self.read += other.read;
        self.read_times.merge(&other.read_times);
    }

    /// What was done since it was like that.
    pub fn since(&self, before: &KeyspaceWork) -> KeyspaceWork {
        KeyspaceWork {
            committed: self.committed.saturating_sub(before.committed),
            conflicts: self.conflicts.saturating_sub(before.conflicts),
            refused: self.refused.saturating_sub(before.refused),
            written: self.written.saturating_sub(before.written),
            transaction_times: self.transaction_times.since(&before.transaction_times),
            reads: self.reads.saturating_sub(before.reads),
            read: self.read.saturating_sub(before.read),
            read_times: self.read_times.since(&before.read_times),
        }
    }
}

/// What was done in all keyspaces; in those beyond [`KEYSPACES_MAX`] nothing is counted.
pub(crate) type Usage = BTreeMap<KeyspaceId, KeyspaceWork>;

/// What is counted of a keyspace, if there is room for it.
pub(crate) fn of(usage: &mut Usage, keyspace: KeyspaceId) -> Option<&mut KeyspaceWork> {
    if usage.len() >= KEYSPACES_MAX && !usage.contains_key(&keyspace) {
        return None;
    }
    Some(usage.entry(keyspace).or_default())
}

/// The most keyspaces of which a shard counts what is done in them.
const KEYSPACES_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_done_meanwhile_is_the_difference() {
        let mut before = KeyspaceWork { committed: 3, written: 100, ..KeyspaceWork::default() };
        before.transaction_times.add(90);
        let mut after = before.clone();
        after.committed += 2;
        after.transaction_times.add(40_000);
        let meanwhile = after.since(&before);
        assert_eq!((meanwhile.committed, meanwhile.written, meanwhile.transaction_times.count()), (2, 0, 1));
        before.add(&meanwhile);
        assert_eq!(before, after);
    }

    #[test]
    fn keyspaces_without_room_are_not_counted() {
        let mut usage = Usage::new();
        for keyspace in 0..2000 {
            if let Some(work) = of(&mut usage, KeyspaceId(keyspace)) {
                work.reads += 1;
            }
        }
        assert_eq!(usage.len(), KEYSPACES_MAX);
        assert!(of(&mut usage, KeyspaceId(5)).is_some() && of(&mut usage, KeyspaceId(1999)).is_none());
    }
}

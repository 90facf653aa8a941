//! How much a file system may hold.

use crate::filesystem::Filesystem;

/// The quota of a file system's keyspace, and what that holds, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// The most that it may hold.
    pub most: u64,
    /// What it holds; in a cluster what it held some seconds ago.
    pub held: u64,
}

impl Room {
    /// How many blocks of a size there may be, and how many are left: as `statfs` tells it.
    pub fn blocks(&self, size: u64) -> (u64, u64) {
        (self.most / size, self.most.saturating_sub(self.held) / size)
    }
}

impl Filesystem {
    /// How much it may hold, and holds. `None` if its keyspace has no quota, or the cluster does not tell now.
    ///
    /// The calling thread waits for a cluster to tell.
    pub fn room(&self) -> Option<Room> {
        let known = self.store().keyspaces();
        let known = known.iter().find(|known| known.name == self.keyspace().name())?;
        Some(Room { most: known.settings.quota?, held: known.bytes? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_whole_and_none_are_left_past_the_quota() {
        assert_eq!(Room { most: 10_000, held: 1 }.blocks(4096), (2, 2));
        assert_eq!(Room { most: 10_000, held: 2000 }.blocks(4096), (2, 1));
        assert_eq!(Room { most: 10_000, held: 10_001 }.blocks(4096), (2, 0));
    }
}

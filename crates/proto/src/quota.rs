//! How much keyspaces hold, and what room there is where that is bounded (ADR 0019).
//!
//! A blob counts with its size, holes and all, as it is after the last transaction that was applied. A shard counts what it leads, exactly,
//! and is told now and then what the rest of the cluster holds. Nothing is counted in a keyspace without a quota.

use alloc::{collections::BTreeMap, vec::Vec};

use tyr_types::KeyspaceId;

use crate::{
    canary::{Canary, planted},
    encoding::{Decode, Decoder, Encode, Encoder, Malformed},
    entry::{ExistenceEffect, HeadEffect},
    head::Head,
    layout,
};

/// What a keyspace, or a part of it, holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Use {
    /// Blobs that exist.
    pub blobs: u64,
    /// Their sizes, added up.
    pub bytes: u64,
}

/// What keyspaces hold. Those that are not named may hold something, too.
pub type Uses = BTreeMap<KeyspaceId, Use>;

/// What a shard is told of a keyspace with a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The most bytes that it is to hold.
    pub quota: u64,
    /// As many lie elsewhere than on this shard.
    pub elsewhere: u64,
}

/// The keyspaces that are bounded.
pub type Bounds = BTreeMap<KeyspaceId, Bound>;

/// The room that a shard knows of.
#[derive(Clone, Debug, Default)]
pub struct Rooms(BTreeMap<KeyspaceId, Room>);

#[derive(Clone, Copy, Debug)]
struct Room {
    bound: Bound,
    here: u128,
}

/// By how much a transaction lets keyspaces grow at the heads of a partition, where that is bounded.
#[derive(Debug, Default)]
pub struct Growth(BTreeMap<KeyspaceId, i128>);

impl Use {
    /// Adds what lies elsewhere.
    pub fn add(&mut self, other: Use) {
        self.blobs = self.blobs.saturating_add(other.blobs);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

impl Rooms {
    /// Whether no keyspace is bounded.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes what is bounded now, with nothing counted here yet.
    pub fn set(&mut self, bounds: &Bounds) {
        self.0 =
            bounds.iter().map(|(keyspace, bound)| (*keyspace, Room { bound: *bound, here: 0 })).collect();
    }

    /// The keyspaces that are bounded.
    pub fn keyspaces(&self) -> impl Iterator<Item = KeyspaceId> {
        self.0.keys().copied()
    }

    /// What all partitions that the shard leads hold together.
    pub fn set_here(&mut self, keyspace: KeyspaceId, bytes: u128) {
        if let Some(room) = self.0.get_mut(&keyspace) {
            room.here = bytes;
        }
    }

    /// What a partition that the shard leads holds has changed.
    pub fn change(&mut self, keyspace: KeyspaceId, change: i128) {
        if let Some(room) = self.0.get_mut(&keyspace) {
            room.here = room.here.saturating_add_signed(change);
        }
    }

    /// Notes what a transaction would make of a head.
    pub fn note(&self, growth: &mut Growth, keyspace: KeyspaceId, head: &Head, effect: &HeadEffect) {
        if !self.0.contains_key(&keyspace) {
            return;
        }
        let before = head.ahead().size;
        let after = match effect.existence {
            ExistenceEffect::Ends => 0,
            _ => effect.size.apply(before),
        };
        if after == before {
            return;
        }
        // What others add there and is not applied yet counts with what adds more.
        let applied = head.blob().map_or(0, |blob| blob.size);
        let base = if after > before { applied.min(before) } else { before };
        *growth.0.entry(keyspace).or_default() += i128::from(after) - i128::from(base);
    }

    /// Whether there is room for it, or no more than so many bytes are wanted.
    pub fn admit(&self, growth: &Growth, spare: u64) -> bool {
        growth.0.iter().filter(|(_, growth)| **growth > i128::from(spare)).all(|(keyspace, growth)| {
            self.0.get(keyspace).is_none_or(|Room { bound: Bound { quota, elsewhere }, here }| {
                let sum = here.saturating_add(u128::from(*elsewhere)).saturating_add(growth.unsigned_abs());
                sum <= u128::from(*quota)
            })
        })
    }
}

/// What a partition holds of the keyspaces that are counted. It is no part of its bytes: whoever needs it counts anew.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    counted: BTreeMap<KeyspaceId, Count>,
    changes: Vec<(KeyspaceId, i128)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    blobs: u64,
    bytes: u128,
}

impl Counts {
    /// Whether nothing is counted.
    pub fn is_empty(&self) -> bool {
        self.counted.is_empty()
    }

    /// Whether a keyspace is counted.
    pub fn has(&self, keyspace: KeyspaceId) -> bool {
        self.counted.contains_key(&keyspace)
    }

    /// Begins to count a keyspace, whose blobs have these sizes.
    pub fn begin(&mut self, keyspace: KeyspaceId, sizes: impl Iterator<Item = u64>) {
        let add =
            |count: Count, size: u64| Count { blobs: count.blobs + 1, bytes: count.bytes + u128::from(size) };
        self.counted.insert(keyspace, sizes.fold(Count::default(), add));
    }

    /// Counts those alone that are to be.
    pub fn keep(&mut self, is_counted: impl Fn(KeyspaceId) -> bool) {
        self.counted.retain(|keyspace, _| is_counted(*keyspace));
    }

    /// A blob had this size, if it existed, and has that now, if it does.
    pub fn change(&mut self, keyspace: KeyspaceId, before: Option<u64>, after: Option<u64>) {
        if before == after || (after < before && planted(Canary::CountsKept)) {
            return;
        }
        let Some(count) = self.counted.get_mut(&keyspace) else { return };
        count.blobs = (count.blobs + u64::from(after.is_some())).saturating_sub(u64::from(before.is_some()));
        let bytes = count.bytes.saturating_add(u128::from(after.unwrap_or(0)));
        count.bytes = bytes.saturating_sub(u128::from(before.unwrap_or(0)));
        self.changes.push((keyspace, i128::from(after.unwrap_or(0)) - i128::from(before.unwrap_or(0))));
    }

    /// What has changed since this was asked last, in bytes.
    pub fn take_changes(&mut self) -> Vec<(KeyspaceId, i128)> {
        core::mem::take(&mut self.changes)
    }

    /// The bytes of a keyspace.
    pub fn bytes(&self, keyspace: KeyspaceId) -> u128 {
        self.counted.get(&keyspace).map_or(0, |count| count.bytes)
    }

    /// What is counted.
    pub fn uses(&self) -> impl Iterator<Item = (KeyspaceId, Use)> {
        self.counted.iter().map(|(keyspace, count)| {
            let bytes = u64::try_from(count.bytes).unwrap_or(u64::MAX);
            (*keyspace, Use { blobs: count.blobs, bytes })
        })
    }
}

impl Encode for Counts {
    fn encode(&self, _: &mut Encoder) {}
}

impl Decode for Counts {
    fn decode(_: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(Counts::default())
    }
}

layout!(struct Use { blobs, bytes });

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: KeyspaceId = KeyspaceId(1);

    #[test]
    fn what_is_counted_follows_each_change() {
        let mut counts = Counts::default();
        counts.change(ONE, None, Some(7));
        assert!(counts.take_changes().is_empty(), "nothing is counted that nobody asked for");
        counts.begin(ONE, [3, 4].into_iter());
        counts.change(ONE, None, Some(10));
        counts.change(ONE, Some(3), None);
        counts.change(ONE, Some(4), Some(4));
        assert_eq!(counts.uses().collect::<Vec<_>>(), [(ONE, Use { blobs: 2, bytes: 14 })]);
        assert_eq!(counts.take_changes(), [(ONE, 10), (ONE, -3)]);
        counts.keep(|_| false);
        assert!(counts.is_empty());
    }

    #[test]
    fn there_is_room_up_to_the_quota_and_for_what_does_not_grow() {
        let mut rooms = Rooms::default();
        let growth = |bytes| Growth([(ONE, bytes)].into());
        assert!(rooms.admit(&growth(i128::MAX), 0), "nothing is bounded");
        rooms.set(&[(ONE, Bound { quota: 100, elsewhere: 30 })].into());
        rooms.set_here(ONE, 50);
        assert!(rooms.admit(&growth(20), 0) && !rooms.admit(&growth(21), 0));
        assert!(rooms.admit(&growth(21), 21) && !rooms.admit(&growth(22), 21));
        rooms.change(ONE, 40);
        assert!(!rooms.admit(&growth(1), 0) && rooms.admit(&growth(0), 0) && rooms.admit(&growth(-5), 0));
        rooms.change(ONE, -90);
        assert!(rooms.admit(&growth(70), 0) && !rooms.admit(&growth(71), 0));
    }
}

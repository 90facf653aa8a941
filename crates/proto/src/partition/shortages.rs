//! Room at the partitions that hold chunks whose heads are here ([ADR 0019](../../../../docs/adr/0019-quotas.md)).
//!
//! A write past its lock point is never refused, so one that has no room at its chunk has to be refused at its head, by a partition whose own
//! devices may have plenty. A chunk's partition that gets such a write and is short says so to the head's, which takes nothing more that goes there until it
//! hears otherwise. So what goes there without room is what is under way at the time, and once that for each primary that has not heard of it.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use super::Partition;
use crate::{
    PartitionId, Time,
    effects::Context,
    entry::{ChunkOperation, ChunkWrite, ChunkWrites, HeadEffect},
    message::Message,
};

/// Which partitions have no room, and who knows it of this one.
#[derive(Debug, Default)]
pub struct Shortages {
    /// Those that have said that they have none, and when that was, or when they were asked last.
    elsewhere: BTreeMap<PartitionId, Time>,
    /// Those that were told that there is none here.
    told: BTreeSet<PartitionId>,
}

/// Who is short is asked again after so many microseconds if something was refused for it,
const ASK_EVERY: u64 = 500_000;
/// and after so many if nothing was: who said that there is room again may not have been heard, or lead no more.
const ASK_ANYWAY_EVERY: u64 = 5_000_000;

impl Partition {
    /// Another partition says whether it has room.
    pub fn handle_room_of(&mut self, cx: &Context<'_>, partition: PartitionId, is_short: bool) {
        if !is_short {
            self.shortages.elsewhere.remove(&partition);
        } else if self.is_established() {
            self.shortages.elsewhere.insert(partition, cx.now);
        }
    }

    /// Another partition asks whether there is room here.
    pub fn handle_ask_room(&mut self, cx: &mut Context<'_>, partition: PartitionId) {
        if self.is_established() {
            self.tell_room(cx, partition);
        }
    }

    fn tell_room(&mut self, cx: &mut Context<'_>, partition: PartitionId) {
        let is_short = self.is_short(cx);
        match is_short {
            true => self.shortages.told.insert(partition),
            false => self.shortages.told.remove(&partition),
        };
        cx.to_primary(partition, Message::Room { partition: self.id, is_short });
    }

    /// Writes have come, which are taken: whose heads they are of hears it if there is no room.
    pub(super) fn tell_heads_of_shortage(&mut self, cx: &mut Context<'_>, writes: &ChunkWrites) {
        if writes.refused.is_some() || !self.is_short(cx) {
            return;
        }
        let taking = writes.writes.iter().filter(|(.., write)| takes_room(write));
        let heads = taking.filter_map(|(blob, ..)| {
            let keyspace = cx.keyspaces.get(&blob.keyspace)?;
            Some(keyspace.partition_of(blob, 0))
        });
        for head in heads.collect::<BTreeSet<_>>() {
            self.tell_room(cx, head);
        }
    }

    /// Whether there was no room for a change at one of its chunks elsewhere, when it was heard of last.
    pub(super) fn lacks_room_elsewhere(&self, effect: &HeadEffect) -> bool {
        let is_short =
            |write: &ChunkWrite| self.shortages.elsewhere.contains_key(&write.partition) && takes_room(write);
        !self.shortages.elsewhere.is_empty() && effect.writes.iter().any(is_short)
    }

    /// Something was refused for want of room: who said that there is none may have some by now, and not have been heard.
    pub(super) fn ask_for_room(&mut self, cx: &mut Context<'_>) {
        self.ask_for_room_after(cx, ASK_EVERY);
    }

    fn ask_for_room_after(&mut self, cx: &mut Context<'_>, wait: u64) {
        let now = cx.now;
        let due = self.shortages.elsewhere.iter_mut().filter(|(_, at)| now.since(**at) >= wait);
        for (partition, at) in due {
            *at = now;
            cx.to_primary(*partition, Message::AskRoom { partition: self.id });
        }
    }

    /// Once there is room again, who was told that there is none hears it.
    pub(super) fn tick_room(&mut self, cx: &mut Context<'_>) {
        self.ask_for_room_after(cx, ASK_ANYWAY_EVERY);
        self.ask_backups_for_room(cx);
        if self.shortages.told.is_empty() || self.is_short(cx) {
            return;
        }
        for partition in self.shortages.told.iter().copied().collect::<Vec<_>>() {
            self.tell_room(cx, partition);
        }
    }
}

/// Whether a write to a chunk takes room.
fn takes_room(write: &ChunkWrite) -> bool {
    write.operations.iter().any(|operation| !matches!(operation, ChunkOperation::Cut { .. }))
}

//! Room for the payload of changes of one blob: which of them may be under way, and which wait for others to end.
//!
//! Invariants:
//!
//! - The payload of those that are under way is at most [`ROOM`], where each counts for [`SIZE_MAX`] at the most. Of one partition it is at
//!   most [`SHARE`], or that of one change.
//! - While a partition has changes of unknown outcome no other is sent to it that would make it have more than [`LOST_OF_PARTITION`] of these
//!   and of those that are under way, nor any if there are [`LOST_MAX`] of unknown outcome.
//! - Those of a partition are sent in the order in which they came. Of several partitions' the one that waits longest is next, unless its
//!   partition lets none be sent: what waits for its own partition keeps no other one.

use std::collections::{BTreeMap, VecDeque};

use tyr_proto::{PartitionId, Time};

use super::applies::Apply;

/// The room.
#[derive(Debug)]
pub struct Room {
    /// KiB that are free.
    free: u32,
    /// How many changes are of unknown outcome.
    lost: usize,
    /// Of the partitions that have any.
    shares: BTreeMap<PartitionId, Share>,
    /// Those that wait, by partition, with their places in the order in which they came.
    queues: BTreeMap<PartitionId, VecDeque<(u64, Apply)>>,
    last_place: u64,
}

/// What a partition has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Share {
    /// KiB of the room, of changes that are under way,
    size: u32,
    /// how many these are,
    sent: usize,
    /// and how many are of unknown outcome.
    lost: usize,
}

/// KiB of payload that are under way at once,
pub const ROOM: u32 = 64 << 10;
/// and of these the most of one partition, unless one change alone has more.
pub const SHARE: u32 = ROOM / 8;
/// A change counts for no more than this, so that even the largest goes on beside a partition that gives nothing back of its share.
pub const SIZE_MAX: u32 = ROOM - SHARE;
/// Changes of unknown outcome that are remembered of one partition,
pub const LOST_OF_PARTITION: usize = 64;
/// and of all before those partitions that have any get no more.
pub const LOST_MAX: usize = 128;

impl Default for Room {
    fn default() -> Self {
        Room { free: ROOM, lost: 0, shares: BTreeMap::new(), queues: BTreeMap::new(), last_place: 0 }
    }
}

impl Room {
    /// Gives a change room, and it back; or has it wait, if there is none or others have waited longer.
    pub fn enter(&mut self, now: Time, apply: Apply) -> Option<Apply> {
        let is_next = !self.queues.contains_key(&apply.partition) && self.next(now).is_none();
        if is_next && self.may_send(&apply) && apply.size <= self.free {
            self.hold(&apply);
            return Some(apply);
        }
        self.last_place += 1;
        self.queues.entry(apply.partition).or_default().push_back((self.last_place, apply));
        None
    }

    /// Gives room to the next one that waits, if there is any. One whose time is over gets none, and one that nobody waits for any more is as
    /// if it had not been asked for.
    pub fn admit(&mut self, now: Time) -> Option<Apply> {
        loop {
            let partition = self.next(now)?;
            let queue = self.queues.get_mut(&partition)?;
            let free = self.free;
            let (_, apply) = queue.pop_front_if(|(_, apply)| apply.is_deserted() || apply.size <= free)?;
            if queue.is_empty() {
                self.queues.remove(&partition);
            }
            if !apply.is_deserted() {
                self.hold(&apply);
                return Some(apply);
            }
        }
    }

    /// A change has ended that was given room.
    pub fn leave(&mut self, apply: &Apply) {
        if apply.is_lost {
            self.lost -= 1;
            self.change_share(apply.partition, |share| share.lost -= 1);
        } else {
            self.give_back(apply);
        }
    }

    /// It is not known how one ended, and its payload is not needed any more.
    pub fn lose(&mut self, apply: &mut Apply) {
        if !apply.is_lost {
            apply.is_lost = true;
            self.lost += 1;
            // Counted before its room is given back: a share that has anything is kept.
            self.change_share(apply.partition, |share| share.lost += 1);
            self.give_back(apply);
        }
    }

    /// Takes out those of the ones that wait.
    pub fn extract(&mut self, is_over: impl Fn(&Apply) -> bool) -> Vec<Apply> {
        let mut over = Vec::new();
        self.queues.retain(|_, queue| {
            let all = std::mem::take(queue).into_iter();
            let (late, rest) = all.partition::<VecDeque<_>, _>(|(_, apply)| is_over(apply));
            over.extend(late.into_iter().map(|(_, apply)| apply));
            *queue = rest;
            !queue.is_empty()
        });
        over
    }

    /// Whether nobody has anything of it.
    #[cfg(test)]
    pub fn is_free(&self) -> bool {
        self.free == ROOM && self.lost == 0 && self.shares.is_empty() && self.queues.is_empty()
    }

    /// The partition of the one that is next: that waits longest of those that their partitions let be sent.
    fn next(&self, now: Time) -> Option<PartitionId> {
        let firsts = self.queues.values().filter_map(VecDeque::front);
        let ready = firsts.filter(|(_, apply)| now < apply.gives_up_at && self.may_send(apply));
        ready.min_by_key(|(place, _)| *place).map(|(_, apply)| apply.partition)
    }

    /// Whether the partition of a change lets it be sent.
    fn may_send(&self, apply: &Apply) -> bool {
        let Share { size, sent, lost } = self.shares.get(&apply.partition).copied().unwrap_or_default();
        let has_room = size == 0 || size + apply.size <= SHARE;
        has_room && (lost == 0 || sent + lost < LOST_OF_PARTITION && self.lost < LOST_MAX)
    }

    fn hold(&mut self, apply: &Apply) {
        self.free -= apply.size;
        self.change_share(apply.partition, |share| {
            share.size += apply.size;
            share.sent += 1;
        });
    }

    fn give_back(&mut self, apply: &Apply) {
        self.free += apply.size;
        self.change_share(apply.partition, |share| {
            share.size -= apply.size;
            share.sent -= 1;
        });
    }

    fn change_share(&mut self, partition: PartitionId, change: impl FnOnce(&mut Share)) {
        let share = self.shares.entry(partition).or_default();
        change(share);
        if *share == Share::default() {
            self.shares.remove(&partition);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use tokio::time::Instant;

    use super::*;
    use crate::driver::fixture::{Answer, apply, partition, unheard};

    const LATE: Time = Time(1_000_000);

    /// Changes that are known by the order in which they came.
    #[derive(Default)]
    struct Bench {
        room: Room,
        answers: Vec<Answer>,
        sent: BTreeMap<usize, Apply>,
    }

    impl Bench {
        fn take(&mut self, of: u32, size: u32) -> usize {
            let (_, mut blob) = unheard();
            let number = self.answers.len();
            blob.key = tyr_types::Key::new(number.to_string()).unwrap();
            let (apply, answer) = apply(&blob, partition(of), size, Instant::now(), LATE);
            self.answers.push(answer);
            let entered = self.room.enter(Time(0), apply);
            self.sent.extend(entered.map(|apply| (number, apply)));
            number
        }

        /// Those that get room, in this order.
        fn admit(&mut self) -> Vec<usize> {
            let mut numbers = Vec::new();
            while let Some(apply) = self.room.admit(Time(0)) {
                let number = apply.blob.key.to_string().parse().unwrap();
                numbers.push(number);
                self.sent.insert(number, apply);
            }
            numbers
        }

        fn end(&mut self, number: usize) -> Vec<usize> {
            let apply = self.sent.remove(&number).unwrap();
            self.room.leave(&apply);
            self.admit()
        }

        fn lose(&mut self, number: usize) -> Vec<usize> {
            self.room.lose(self.sent.get_mut(&number).unwrap());
            self.admit()
        }

        fn sent(&self) -> Vec<usize> {
            self.sent.keys().copied().collect()
        }
    }

    #[test]
    fn what_waits_for_its_own_partition_keeps_no_other_one() {
        let mut bench = Bench::default();
        for of in [0, 0, 0, 1, 0, 1, 1] {
            bench.take(of, SHARE / 2);
        }
        assert_eq!(bench.sent(), [0, 1, 3, 5]);
        assert_eq!(bench.admit(), [0; 0]);
        assert_eq!(bench.end(3), [6], "the two before it wait for the other partition");
    }

    #[test]
    fn changes_of_a_partition_are_sent_in_the_order_in_which_they_came() {
        let mut bench = Bench::default();
        bench.take(0, SHARE - 2);
        let (large, small) = (bench.take(0, 4), bench.take(0, 1));
        assert_eq!(bench.sent(), [0], "there is room for the small one, but it is not its turn");
        assert_eq!(bench.end(0), [large, small]);
    }

    #[test]
    fn the_one_that_waits_longest_is_next_whatever_its_partition_is() {
        let mut bench = Bench::default();
        for of in 0..7 {
            bench.take(of, SHARE);
        }
        bench.take(7, SHARE - 1);
        let waiting = [bench.take(9, 2), bench.take(8, 2), bench.take(9, 1)];
        assert_eq!(bench.sent().len(), 8);
        assert_eq!(bench.end(7), waiting);
    }

    #[test]
    fn one_that_waits_for_the_common_room_is_not_overtaken_by_small_ones() {
        let mut bench = Bench::default();
        bench.take(0, SHARE);
        let large = bench.take(1, ROOM);
        assert_eq!(bench.sent(), [0, large], "even the largest goes on beside a partition at its share");
        let (larger, small) = (bench.take(2, SHARE * 2), bench.take(3, 1));
        assert_eq!(bench.end(0), [0; 0]);
        let newcomer = bench.take(4, 1);
        assert_eq!(bench.end(large), [larger, small, newcomer]);
    }

    #[test]
    fn a_change_that_is_larger_than_its_partitions_share_is_sent_alone() {
        let mut bench = Bench::default();
        let first = bench.take(0, 1);
        let (large, last) = (bench.take(0, SHARE + 1), bench.take(0, 1));
        assert_eq!(bench.sent(), [first]);
        assert_eq!(bench.end(first), [large]);
        assert_eq!(bench.end(large), [last]);
    }

    #[test]
    fn a_partition_with_changes_of_unknown_outcome_gets_no_more_than_are_remembered() {
        let mut bench = Bench::default();
        for _ in 0..LOST_OF_PARTITION - 1 {
            let number = bench.take(0, SHARE);
            assert_eq!(bench.lose(number), [0; 0]);
        }
        let last = bench.take(0, 1);
        let (waiting, other) = (bench.take(0, 1), bench.take(1, 1));
        assert_eq!(bench.sent().len(), LOST_OF_PARTITION + 1, "one might be lost yet");
        assert!(bench.sent.contains_key(&other));
        assert_eq!(bench.lose(last), [0; 0]);
        assert_eq!(bench.end(0), [waiting]);
    }

    #[test]
    fn partitions_with_changes_of_unknown_outcome_get_no_more_if_there_are_too_many_of_all() {
        let mut bench = Bench::default();
        let partitions = u32::try_from(LOST_MAX / 8).unwrap();
        for number in 0..LOST_MAX {
            let of = u32::try_from(number).unwrap() % partitions;
            bench.take(of, 1);
            bench.lose(number);
        }
        let (waiting, other) = (bench.take(0, 1), bench.take(partitions, 1));
        assert!(bench.sent.contains_key(&other) && !bench.sent.contains_key(&waiting));
        assert_eq!(bench.end(1), [waiting], "of another partition, but the bound is that of all");
    }

    #[test]
    fn those_that_are_extracted_leave_the_others_in_order() {
        let mut bench = Bench::default();
        for _ in 0..5 {
            bench.take(0, SHARE);
        }
        let key = |apply: &Apply| apply.blob.key.to_string();
        let over = bench.room.extract(|apply| ["1", "3"].contains(&&*key(apply)));
        assert_eq!(over.iter().map(key).collect::<Vec<_>>(), ["1", "3"]);
        assert_eq!((bench.end(0), bench.end(2)), (vec![2], vec![4]));
        bench.end(4);
        assert!(bench.room.is_free(), "{:?}", bench.room);
    }
}

//! Which segments are emptied, so that files hold little but what is live, and what that costs, so that it ends.
//!
//! A segment of the log whose payload is dead may still say much that has to be said again when it goes: that keys are free, as long as an older segment says
//! otherwise, and the states of blobs without payload. Nothing counts how much that is, so it is measured when it is done. If a segment has given back little
//! more than was said again, what was written then is left alone until others have written as much as a segment has. Else compaction would carry the same
//! on and on, also while nobody does anything. And the oldest segment of the log goes next, whatever is live in it: what is said only because of older
//! segments is not said again when there is none.
//!
//! Where room is short, segments are emptied of which but a tenth has died. What has died in a segment is gone for good, so that ends, too, however
//! little of a segment can ever be live.

use std::sync::{Arc, atomic::Ordering};

use tyr_types::{Error, ErrorKind, Result};
use tyr_wire::frame::SegmentKind;

use crate::{checkpoint::CheckpointState, garbage::Garbage, segment::Segment, store::Store};

/// Which segments are worth emptying.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thrift {
    /// Those that are all but dead.
    Low,
    /// Those with less than half live: files use much more than what is live.
    Medium,
    /// Also those of which a tenth has died: room is short.
    High,
    /// Those with less than nine tenths live, and those that rest: somebody asks for it.
    Full,
}

/// What compaction has cost so far.
#[derive(Debug, Default)]
pub struct Compacting {
    rest: Option<Rest>,
    oldest_is_due: bool,
    /// Bytes that were written to the log while segments were emptied.
    own: u64,
}

/// Segments of the log from a sequence on are left alone until others have written so much.
#[derive(Clone, Copy, Debug)]
struct Rest {
    from: u64,
    until: u64,
}

/// What it has cost to empty one segment.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// The sequence of the first frame of the segment that the log was in when it began.
    pub from: u64,
    /// Bytes that had to be said again.
    pub said: u64,
    /// Bytes that were written to the log since opening, before and afterwards.
    pub written: (u64, u64),
}

impl Thrift {
    /// Whether so many live bytes of a segment of that capacity are few.
    pub fn is_little(self, live: u64, capacity: u64) -> bool {
        let percent = match self {
            Thrift::Low => SPENT,
            Thrift::Medium | Thrift::High => SPARSE,
            Thrift::Full => TIDY,
        };
        live * 100 < capacity * percent
    }

    /// Whether so many bytes that have died in a segment of that capacity are enough, however much is live.
    pub fn is_enough(self, died: u64, capacity: u64) -> bool {
        self == Thrift::High && died * 100 > capacity * (100 - TIDY)
    }
}

impl Compacting {
    /// Lets what was left alone have its turn again, if so much has been written to the log since opening.
    pub fn begin(&mut self, written: u64) {
        let others = written.saturating_sub(self.own);
        self.rest.take_if(|rest| others >= rest.until);
    }

    /// Whether a segment of the log is left alone, by the sequence of its first frame.
    pub fn leaves_alone(&self, first_sequence: u64) -> bool {
        self.rest.is_some_and(|rest| first_sequence >= rest.from)
    }

    /// Whether the oldest segment of the log is to go next; asked once.
    pub fn takes_oldest(&mut self) -> bool {
        std::mem::take(&mut self.oldest_is_due)
    }

    /// A segment of so many bytes was emptied.
    pub fn note(&mut self, cost: Cost, capacity: u64) {
        let (before, after) = cost.written;
        self.own += after.saturating_sub(before);
        if cost.said <= capacity / 4 * 3 || self.rest.is_some() {
            return;
        }
        self.oldest_is_due = true;
        self.rest = Some(Rest { from: cost.from, until: after.saturating_sub(self.own) + capacity });
    }
}

impl Store {
    pub(crate) fn compact_in_passing(&self) -> Result<bool> {
        let Some(mut compacting) = self.compacting.try_lock() else {
            // Somebody is at it.
            return Ok(false);
        };
        let thrift = if self.is_space_short() && self.has_room_to_move() {
            Thrift::High
        } else if self.using().is_wasteful() {
            Thrift::Medium
        } else {
            Thrift::Low
        };
        self.compact_one(&mut compacting, thrift)
    }

    /// Empties the oldest segment that is all but dead, or of those that are worth it the one with the least that is live; one at a time.
    pub(crate) fn compact_one(&self, compacting: &mut Compacting, thrift: Thrift) -> Result<bool> {
        let log_bytes = || self.log.counters().log_bytes.load(Ordering::Relaxed);
        let said_again = || self.said_again.load(Ordering::Relaxed);
        compacting.begin(log_bytes());
        let Some(segment) = self.sparsest(thrift, compacting) else { return Ok(false) };
        let from = self.log.segment().first_sequence();
        let is_little = thrift.is_little(segment.live(), self.segments.capacity().into());
        let (written, said) = (log_bytes(), said_again());
        let emptied = self.evacuate(&segment);
        // What was moved is written by now, so that it is not taken for what others write.
        let emptied = emptied.and_then(|()| self.log.flush());
        // One that is emptied for what has died in it gives back as much, whatever is said again.
        let said = if is_little { said_again() - said } else { 0 };
        let cost = Cost { from, said, written: (written, log_bytes()) };
        compacting.note(cost, self.segments.capacity().into());
        match emptied.and_then(|()| self.check_empty(&segment)) {
            Ok(Emptied::Whole) => {}
            // Garbage is collected before the next segment is looked for.
            Ok(Emptied::ButForGarbage) => return Ok(true),
            Err(error) => {
                let is_hopeless = matches!(
                    error.kind(),
                    ErrorKind::Corrupt | ErrorKind::Internal | ErrorKind::Unavailable | ErrorKind::Invalid
                );
                // Nothing is moved by a store that does not write any more.
                if is_hopeless && self.check_open().is_ok() {
                    // Kept, for what is left in it can be had nowhere else; told once, so that other segments have their turn.
                    self.checkpoint.lock().kept.insert(segment.id);
                }
                return Err(error);
            }
        }
        self.checkpoint.lock().evacuated.insert(segment.id);
        if self.checkpoint.lock().evacuated.len() >= EVACUATED_MAX || self.is_space_short() {
            self.backlog.request_checkpoint();
        }
        Ok(true)
    }

    /// Of those that are all but dead the oldest: what it says of keys that are free needs not be said again.
    fn sparsest(&self, thrift: Thrift, compacting: &mut Compacting) -> Option<Arc<Segment>> {
        let oldest = match thrift != Thrift::Full && compacting.takes_oldest() {
            true => self.oldest_log_segment(),
            false => None,
        };
        let state = self.checkpoint.lock();
        let capacity = u64::from(self.segments.capacity());
        let (known, tail) = (state.known(), self.log_tail(&state));
        let candidates = self.closed_segments(&state).filter(|segment| {
            let is_log = segment.kind == SegmentKind::Log;
            let is_tail = is_log && segment.first_sequence() >= tail;
            let rests = is_log && thrift != Thrift::Full && compacting.leaves_alone(segment.first_sequence());
            let is_worth = thrift.is_little(segment.live(), capacity) && !rests
                || thrift.is_enough(segment.died(), capacity);
            (oldest == Some(segment.id) || is_worth)
                && !is_tail
                && known.contains(&segment.id)
                && !segment.is_held()
        });
        candidates.min_by_key(|segment| match self.is_spent(segment) {
            _ if oldest == Some(segment.id) => (0, 0),
            true => (0, segment.first_sequence()),
            false => (segment.live(), 0),
        })
    }

    /// Has files given back, by a checkpoint, if nothing else is left to do and they are many beside what is live: nobody may write for long. These
    /// are the files of evacuated segments, and bulk segments that are all but dead and not known to the last checkpoint, since only what is known to
    /// one is evacuated. What a log has in such is bounded by the distance of checkpoints. Where room is short, each file is much, and so is one that
    /// is kept for recycling, and one that is worth emptying once a checkpoint knows it or the log's tail does not begin before it.
    pub(crate) fn give_back(&self) -> bool {
        let evacuated = self.checkpoint.lock().evacuated.len();
        let is_much = if self.is_space_short() {
            let (_, recyclable, _) = self.segments.stock();
            evacuated + recyclable + self.count_early(Thrift::High) > 0
        } else {
            let count = evacuated + self.count_early(Thrift::Low);
            count > 0
                && EVACUATED_WORTH * count as u64 * u64::from(self.segments.capacity()) > self.using().live
        };
        if is_much {
            self.backlog.request_checkpoint();
        }
        is_much
    }

    /// Segments that are worth emptying, but for the last checkpoint, which does not know them, or from which on a replay would read them.
    fn count_early(&self, thrift: Thrift) -> usize {
        let state = self.checkpoint.lock();
        let capacity = u64::from(self.segments.capacity());
        let (known, tail) = (state.known(), self.log_tail(&state));
        let is_early = |segment: &Arc<Segment>| {
            let is_worth = thrift.is_enough(segment.died(), capacity);
            match segment.kind {
                SegmentKind::Log => {
                    is_worth && (segment.first_sequence() >= tail || !known.contains(&segment.id))
                }
                SegmentKind::Bulk(_) => (is_worth || self.is_spent(segment)) && !known.contains(&segment.id),
            }
        };
        self.closed_segments(&state).filter(is_early).count()
    }

    /// Those that nothing is written to any more, but for what is emptied already or cannot be.
    fn closed_segments(&self, state: &CheckpointState) -> impl Iterator<Item = Arc<Segment>> {
        let open = self.log.open_segments();
        self.segments.all().into_iter().filter(move |segment| {
            !state.evacuated.contains(&segment.id)
                && !state.kept.contains(&segment.id)
                && !open.iter().any(|open| open.id == segment.id)
        })
    }

    fn is_spent(&self, segment: &Segment) -> bool {
        Thrift::Low.is_little(segment.live(), self.segments.capacity().into())
    }

    /// The sequence of the first frame of the segment that a replay would begin in.
    fn log_tail(&self, state: &CheckpointState) -> u64 {
        self.segments.find(state.position.place.segment).map_or(0, |segment| segment.first_sequence())
    }

    /// Fails if something live is left in a segment that everything has been moved out of, but for what a keyspace left behind that was dropped
    /// meanwhile. All else that is collected in steps has been released by the evacuation.
    pub(crate) fn check_empty(&self, segment: &Segment) -> Result<Emptied> {
        // A keyspace is forgotten, and what it had released, under this lock: never seen in between.
        let _commit = self.commit.lock();
        let left = segment.live();
        if left == 0 {
            return Ok(Emptied::Whole);
        }
        let is_keyspace = |garbage: &Garbage| matches!(garbage, Garbage::Keyspace(_));
        let work = self.backlog.lock();
        if work.garbage.iter().any(is_keyspace) {
            return Ok(Emptied::ButForGarbage);
        }
        if work.put_aside.iter().any(is_keyspace) {
            return Err(Error::unavailable(format!(
                "{} cannot be emptied: what a dropped keyspace left behind could not be collected; the file is kept until the store is opened again",
                segment.name()
            )));
        }
        Err(Error::internal(format!(
            "{} cannot be emptied: nobody is known to own {left} live bytes in it; the file is kept; run a check and report this",
            segment.name()
        )))
    }

    /// Whether little more than what is to be [kept free](Store::keep_free) is free.
    pub(crate) fn is_space_short(&self) -> bool {
        let needed =
            self.kept_free.load(Ordering::Relaxed) + SHORT_SEGMENTS * u64::from(self.segments.capacity());
        self.disk.space().is_ok_and(|space| space.free < needed)
    }

    /// Whether what is moved out of a segment, and what the log says of it, has room for sure: a move that stops halfway gives back nothing.
    fn has_room_to_move(&self) -> bool {
        let needed = 2 * u64::from(self.segments.capacity());
        self.disk.space().is_ok_and(|space| space.free + self.segments.reserve_bytes() >= needed)
    }
}

/// Whether a segment that everything was moved out of is empty.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Emptied {
    Whole,
    /// What is left waits to be collected.
    ButForGarbage,
}

/// Percentage of a segment below which what is live is little, by thrift.
const SPENT: u64 = 10;
const SPARSE: u64 = 50;
const TIDY: u64 = 90;

/// So many evacuated segments are worth a checkpoint,
const EVACUATED_MAX: usize = 4;

/// and when nothing else is left to do, one for so many that hold something.
const EVACUATED_WORTH: u64 = 8;

/// Room is short when so many segments less are free than that: what is under way takes some before it gives any back.
const SHORT_SEGMENTS: u64 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn emptied(compacting: &mut Compacting, from: u64, said: u64, written: (u64, u64)) {
        compacting.begin(written.0);
        compacting.note(Cost { from, said, written }, 100);
    }

    #[test]
    fn what_was_said_again_for_little_rests_until_others_have_written_a_segment() {
        let mut compacting = Compacting::default();
        emptied(&mut compacting, 5, 75, (1000, 1080));
        assert!(!compacting.leaves_alone(5) && !compacting.takes_oldest());
        emptied(&mut compacting, 7, 76, (1100, 1200));
        assert!(compacting.takes_oldest() && !compacting.takes_oldest());
        // What else is emptied meanwhile does not end the rest, nor move it.
        emptied(&mut compacting, 9, 100, (1200, 1900));
        compacting.begin(1999);
        assert!([false, true, true] == [6, 7, 9].map(|sequence| compacting.leaves_alone(sequence)));
        assert!(!compacting.takes_oldest());
        compacting.begin(2000);
        assert!(!compacting.leaves_alone(9));
    }
}

//! What compaction costs, so that it ends.
//!
//! A segment of the log whose payload is dead may still say much that has to be said again when it goes: that keys are free, as long as an older segment says
//! otherwise, and the states of blobs without payload. Nothing counts how much that is, so it is measured when it is done. If a segment has given back little
//! more than was said again, what was written then is left alone until others have written as much as a segment has. Else compaction would carry the same
//! on and on, also while nobody does anything. And the oldest segment of the log goes next, whatever is live in it: what is said only because of older
//! segments is not said again when there is none.
//!
//! Where room is short, segments are emptied of which but a tenth has died. What has died in a segment is gone for good, so that ends, too, however
//! little of a segment can ever be live.

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

/// Percentage of a segment below which what is live is little, by thrift.
const SPENT: u64 = 10;
const SPARSE: u64 = 50;
const TIDY: u64 = 90;

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

//! What a client keeps of what it was told, for as long as it is sure that it is still so.
//!
//! A copy is lent by the head's primary for a time, which is counted here from before it was asked for. Before a write of the blob is decided the
//! primary has every copy given back, or waits until its time is over (`partition/subscribers.rs`). So whatever a copy says is what the
//! blob is at that moment, and reading it is a read from any complete replica.
//!
//! The threads of a program look here without asking the client's state machine, which is why it is shared. Whoever gives back a copy takes it
//! out here first.

use alloc::{
    collections::{BTreeMap, btree_map},
    sync::Arc,
};

use spin::Mutex;
use tyr_types::Number;

use crate::{BlobName, Time, message::Looked};

/// What is lent to one client; clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Copies(Arc<Mutex<Lent>>);

/// A copy of a blob's head, and of its content if that is small.
#[derive(Clone, Debug)]
pub struct BlobCopy {
    /// The number at which it was read.
    pub number: Number,
    /// The blob, if it exists.
    pub blob: Option<Arc<Looked>>,
    /// All that it holds, if that was lent.
    pub bytes: Option<Arc<[u8]>>,
}

#[derive(Debug, Default)]
struct Lent {
    copies: BTreeMap<BlobName, Kept>,
    bytes: usize,
}

#[derive(Debug)]
struct Kept {
    copy: BlobCopy,
    /// The number of the request that it answered.
    asked: u64,
    renew_at: Time,
    half: Time,
    until: Time,
    is_being_renewed: bool,
    /// Whether somebody was [assured](Copies::assured) of it, or of the one before it.
    is_told: bool,
}

/// A copy that is not kept any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    /// The number of the request that it answered.
    pub asked: u64,
    /// Whether somebody may still believe what it says.
    pub is_told: bool,
}

/// What a client has of a blob now.
#[derive(Clone, Debug)]
pub enum Seen {
    /// A copy.
    Copy(BlobCopy),
    /// A copy that is soon over: whoever sees it is the one who asks for it anew.
    Aging(BlobCopy),
    /// Nothing.
    Nothing,
}

impl Copies {
    /// What is kept of a blob now.
    pub fn see(&self, now: Time, blob: &BlobName) -> Seen {
        let mut lent = self.0.lock();
        let Some(kept) = lent.copies.get_mut(blob).filter(|kept| now < kept.until) else {
            return Seen::Nothing;
        };
        let copy = kept.copy.clone();
        if now < kept.renew_at || core::mem::replace(&mut kept.is_being_renewed, true) {
            return Seen::Copy(copy);
        }
        Seen::Aging(copy)
    }

    /// What is kept of a blob now, for who does not have it renewed.
    pub(super) fn get(&self, now: Time, blob: &BlobName) -> Option<BlobCopy> {
        let lent = self.0.lock();
        lent.copies.get(blob).filter(|kept| now < kept.until).map(|kept| kept.copy.clone())
    }

    /// For how many microseconds from now on a copy of a blob stays here at least, unless it is taken out: until half of its time is over. Who is told
    /// of a copy that is taken out before it is given back may believe for as long what it says, with the other half for being late.
    pub fn assured(&self, now: Time, blob: &BlobName) -> u64 {
        let mut lent = self.0.lock();
        let Some(kept) = lent.copies.get_mut(blob).filter(|kept| now < kept.half) else { return 0 };
        kept.is_told = true;
        kept.half.since(now)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.lock().copies.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Keeps what a request was answered that was first sent at `since`, for so many microseconds from then on.
    pub(super) fn keep(
        &self,
        now: Time,
        (blob, asked): (&BlobName, u64),
        copy: BlobCopy,
        since: Time,
        lasts: u64,
    ) {
        let mut lent = self.0.lock();
        let size = copy.size();
        let is_old = lent.copies.get(blob).is_some_and(|kept| kept.asked > asked);
        if is_old || lent.copies.len() >= COPIES_MAX || lent.bytes + size > BYTES_MAX {
            return;
        }
        let (renew_at, until) = (now.after(lasts / 2), since.after(lasts));
        let half = since.after(lasts / 2);
        let is_told = lent.copies.get(blob).is_some_and(|before| before.is_told);
        let kept = Kept { copy, asked, renew_at, half, until, is_being_renewed: false, is_told };
        let before = lent.copies.insert(blob.clone(), kept);
        lent.bytes += size;
        lent.bytes -= before.map_or(0, |kept| kept.copy.size());
    }

    /// Takes out a copy that answered this request or an earlier one.
    pub(super) fn take(&self, blob: &BlobName, asked: u64) -> Option<Taken> {
        let mut lent = self.0.lock();
        let btree_map::Entry::Occupied(kept) = lent.copies.entry(blob.clone()) else { return None };
        if kept.get().asked > asked {
            return None;
        }
        let kept = kept.remove();
        lent.bytes -= kept.copy.size();
        Some(Taken { asked: kept.asked, is_told: kept.is_told })
    }

    /// Drops what is over.
    pub(super) fn expire(&self, now: Time) {
        let lent = &mut *self.0.lock();
        lent.copies.retain(|_, kept| {
            let stays = now < kept.until;
            if !stays {
                lent.bytes -= kept.copy.size();
            }
            stays
        });
    }
}

impl BlobCopy {
    fn size(&self) -> usize {
        self.bytes.as_ref().map_or(0, |bytes| bytes.len())
    }
}

/// The most copies that are kept,
const COPIES_MAX: usize = 65_536;
/// and the most bytes of content in them.
const BYTES_MAX: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use alloc::vec;

    use tyr_types::{Key, KeyspaceId};

    use super::*;

    fn blob(key: &str) -> BlobName {
        BlobName { keyspace: KeyspaceId(1), key: Key::new(key).expect("it is short") }
    }

    fn copy(size: usize) -> BlobCopy {
        BlobCopy { number: Number::ZERO, blob: None, bytes: Some(vec![1; size].into()) }
    }

    #[test]
    fn a_copy_is_seen_until_its_time_is_over_counted_from_the_question() {
        let copies = Copies::default();
        copies.keep(Time(150), (&blob("a"), 1), copy(10), Time(100), 100);
        assert!(matches!(copies.see(Time(199), &blob("a")), Seen::Copy(_)));
        assert!(matches!(copies.see(Time(200), &blob("a")), Seen::Nothing));
        assert!(matches!(copies.see(Time(160), &blob("b")), Seen::Nothing));
        copies.expire(Time(200));
        assert!(copies.is_empty());
        assert_eq!(copies.0.lock().bytes, 0);
    }

    #[test]
    fn one_of_those_who_see_an_aging_copy_asks_for_it_anew() {
        let copies = Copies::default();
        copies.keep(Time(100), (&blob("a"), 1), copy(10), Time(100), 100);
        assert!(matches!(copies.see(Time(149), &blob("a")), Seen::Copy(_)));
        assert!(matches!(copies.see(Time(150), &blob("a")), Seen::Aging(_)));
        assert!(matches!(copies.see(Time(151), &blob("a")), Seen::Copy(_)));
        copies.keep(Time(160), (&blob("a"), 2), copy(20), Time(155), 100);
        assert_eq!([160, 204, 205, 230].map(|now| copies.assured(Time(now), &blob("a"))), [45, 1, 0, 0]);
        assert_eq!(copies.assured(Time(160), &blob("b")), 0);
        assert!(matches!(copies.see(Time(201), &blob("a")), Seen::Copy(_)));
        assert_eq!(copies.0.lock().bytes, 20);
    }

    #[test]
    fn what_was_asked_for_later_than_is_recalled_stays() {
        let copies = Copies::default();
        copies.keep(Time(1), (&blob("a"), 5), copy(10), Time(1), 100);
        copies.keep(Time(1), (&blob("a"), 4), copy(7), Time(1), 100);
        assert_eq!(copies.take(&blob("a"), 4), None);
        assert_eq!(copies.take(&blob("a"), 6), Some(Taken { asked: 5, is_told: false }));
        assert_eq!(copies.0.lock().bytes, 0);
        assert_eq!(copies.take(&blob("a"), 6), None);
    }

    #[test]
    fn a_copy_of_which_somebody_was_assured_is_told_and_so_is_the_next_one() {
        let copies = Copies::default();
        copies.keep(Time(1), (&blob("a"), 1), copy(10), Time(1), 100);
        assert_eq!(copies.assured(Time(51), &blob("a")), 0, "nobody is assured of anything");
        copies.keep(Time(60), (&blob("a"), 2), copy(10), Time(55), 100);
        assert_eq!(copies.assured(Time(60), &blob("a")), 45);
        copies.keep(Time(90), (&blob("a"), 3), copy(10), Time(80), 100);
        assert_eq!(copies.take(&blob("a"), 3), Some(Taken { asked: 3, is_told: true }));
        copies.keep(Time(95), (&blob("a"), 4), copy(10), Time(94), 100);
        assert_eq!(copies.take(&blob("a"), 4), Some(Taken { asked: 4, is_told: false }));
    }

    #[test]
    fn what_does_not_fit_is_not_kept() {
        let copies = Copies::default();
        copies.keep(Time(1), (&blob("a"), 1), copy(BYTES_MAX), Time(1), 100);
        copies.keep(Time(1), (&blob("b"), 2), copy(1), Time(1), 100);
        assert_eq!(copies.len(), 1);
        copies.keep(Time(1), (&blob("c"), 3), copy(0), Time(1), 100);
        assert_eq!(copies.len(), 2);
    }
}

//! Writes in keyspaces that may hold so much and no more.

use super::{
    served::{DONE, KEYSPACE, Served, append, bytes},
    *,
};
use crate::Bound;

impl Served {
    fn bounded(quota: u64, elsewhere: u64) -> Self {
        let mut served = Served::new();
        served.bound(quota, elsewhere);
        served
    }

    fn bound(&mut self, quota: u64, elsewhere: u64) {
        let bounds = BTreeMap::from([(KEYSPACE, Bound { quota, elsewhere })]);
        self.router.handle_bounds(Time(0), &bounds);
    }

    fn holds(&self) -> (u64, u64) {
        let held = self.router.uses()[&KEYSPACE];
        (held.blobs, held.bytes)
    }
}

const FULL: Option<Outcome> = Some(Outcome::Refused(Refusal::Quota));

#[test]
fn a_keyspace_grows_up_to_its_quota_and_no_further() {
    let mut served = Served::bounded(100, 30);
    assert_eq!(served.does("log", append(50)), DONE);
    assert_eq!(served.does("log", append(21)), FULL);
    assert_eq!(served.does("log", append(20)), DONE);
    assert_eq!(served.holds(), (1, 70));
    assert_eq!(served.does("other", Operation::Create), DONE, "which has no bytes");
    assert_eq!(served.does("other", append(1)), FULL);
    assert_eq!(served.does("log", Operation::Truncate { size: 71 }), FULL);
    assert_eq!(served.does("log", Operation::Write { offset: 69, bytes: bytes(2) }), FULL);
    assert_eq!(
        served.does("new", Operation::Truncate { size: 0 }),
        Some(Outcome::Refused(Refusal::NotFound))
    );

    // What does not let it grow goes on.
    assert_eq!(served.does("log", Operation::Write { offset: 0, bytes: bytes(70) }), DONE);
    assert_eq!(served.does("log", Operation::Truncate { size: 60 }), DONE);
    assert_eq!(served.does("other", append(10)), DONE);
    assert_eq!(served.holds(), (2, 70));
    assert_eq!(served.does("log", Operation::Delete), DONE);
    assert_eq!(served.does("other", append(60)), DONE);
    assert_eq!(served.holds(), (1, 70));
}

#[test]
fn a_quota_below_what_is_there_lets_it_shrink_only() {
    let mut served = Served::bounded(100, 0);
    assert_eq!(served.does("log", append(100)), DONE);
    served.bound(50, 0);
    assert_eq!(served.does("log", append(1)), FULL);
    assert_eq!(served.does("log", Operation::Write { offset: 3, bytes: bytes(4) }), DONE);
    assert_eq!(served.does("log", Operation::Truncate { size: 60 }), DONE);
    assert_eq!(served.does("log", append(1)), FULL, "it is still too much");
    assert_eq!(served.does("log", Operation::Truncate { size: 40 }), DONE);
    assert_eq!(served.does("log", append(10)), DONE);
    served.router.handle_bounds(Time(0), &BTreeMap::new());
    assert_eq!(served.does("log", append(1000)), DONE);
    assert!(served.router.uses().is_empty(), "nothing is counted that nobody wants to know");
    served.bound(50, 0);
    assert_eq!(served.holds(), (1, 1050), "what was there before counts, too");
}

#[test]
fn a_transaction_is_judged_by_what_it_does_to_all_blobs_of_a_partition() {
    let mut served = Served::bounded(100, 0);
    let both = [append(60)];
    assert_eq!(served.ends(&[("a", &both), ("b", &both)]), FULL);
    assert_eq!(served.holds(), (0, 0));
    assert_eq!(served.does("a", append(100)), DONE);
    assert_eq!(served.ends(&[("a", &[Operation::Delete]), ("b", &[append(100)])]), DONE, "it moves");
    assert_eq!(served.ends(&[("b", &[Operation::Delete, append(100)])]), DONE);
    assert_eq!(served.ends(&[("b", &[Operation::Delete, append(101)])]), FULL);
    assert_eq!(served.ends(&[("b", &[append(50), Operation::Truncate { size: 90 }])]), DONE);
    assert_eq!(served.holds(), (1, 90));
}

#[test]
fn what_others_hold_counts_as_soon_as_it_is_told() {
    let mut served = Served::bounded(100, 0);
    assert_eq!(served.does("log", append(40)), DONE);
    served.bound(100, 60);
    assert_eq!(served.does("log", append(1)), FULL);
    served.bound(100, 59);
    assert_eq!(served.does("log", append(1)), DONE);
}

#[test]
fn who_makes_room_may_note_that_though_there_is_none() {
    let mut served = Served::bounded(100, 0);
    assert_eq!(served.does("list", append(60)), DONE);
    assert_eq!(served.does("file", append(40)), DONE);
    served.bound(50, 0);
    let punch = [Operation::Punch { offset: 1 << 40, length: 1 }];
    assert_eq!(served.ends(&[("file", &punch), ("list", &[append(1)])]), DONE, "it is told to make room");
    assert_eq!(served.ends(&[("file", &punch), ("list", &[append(8193)])]), FULL, "that is more than a note");
    assert_eq!(served.ends(&[("file", &[append(1)]), ("list", &[append(1)])]), FULL);
    let both = [Operation::Delete, append(100)];
    assert_eq!(
        served.ends(&[("file", &both), ("list", &[append(1)])]),
        FULL,
        "it writes more than it deletes"
    );
    assert_eq!(served.ends(&[("file", &[Operation::Delete]), ("list", &[append(30)])]), DONE);
    assert_eq!(served.holds(), (1, 91));
}

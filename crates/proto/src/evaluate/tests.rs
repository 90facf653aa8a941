use alloc::{sync::Arc, vec, vec::Vec};

use super::*;
use crate::{Outcome, RingVersion, SessionId, TransactionId, head::Place};

fn id(sequence: u64) -> TransactionId {
    TransactionId { session: SessionId(1), sequence, birth: RingVersion(0) }
}

/// A head with a transaction behind what is there, on this head alone or on others, too.
fn after(head: &Head, index: u64, alone: bool, effect: HeadEffect) -> Head {
    let mut head = head.clone();
    let place = Place::new(Number::new(1, index), id(index), index, alone, false, Arc::new(effect));
    head.take_place(place, []);
    head
}

fn decided(mut head: Head, index: u64, outcome: Outcome) -> Head {
    head.learn(Number::new(1, index), id(index), outcome);
    head
}

fn sets(value: Option<u8>) -> HeadEffect {
    let attributes = vec![("a".into(), value.map(|value| [value][..].into()))];
    HeadEffect { attributes, ..HeadEffect::default() }
}

fn is(value: Option<u8>) -> Condition {
    Condition::Attribute { name: "a".into(), value: value.map(|value| [value][..].into()) }
}

fn met(head: &Head, conditions: &[Condition]) -> Option<bool> {
    meets(head, &head.ahead(), conditions)
}

/// A blob of ten bytes with an attribute of 1.
fn blob() -> Head {
    let (existence, size) = (ExistenceEffect::Begins, SizeEffect::AtLeast(10));
    let head = after(&Head::default(), 1, true, HeadEffect { existence, size, ..sets(Some(1)) });
    decided(head, 1, Outcome::Committed)
}

#[test]
fn conditions_are_about_what_is_there() {
    let (none, head) = (Head::default(), blob());
    for (condition, without, with) in [
        (Condition::Exists, false, true),
        (Condition::Missing, true, false),
        (Condition::Size(10), false, true),
        (Condition::Size(0), false, false),
        (is(Some(1)), false, true),
        (is(Some(2)), false, false),
        (is(None), false, false),
        (Condition::Attribute { name: "b".into(), value: None }, false, true),
    ] {
        let condition = [condition];
        let found = (met(&none, &condition), met(&head, &condition));
        assert_eq!(found, (Some(without), Some(with)), "{condition:?}");
    }
    assert_eq!(met(&head, &[Condition::Exists, is(Some(2))]), Some(false), "all of them");
}

#[test]
fn conditions_build_on_what_is_lost_with_what_builds_on_it_and_wait_for_the_rest() {
    let ends = || HeadEffect {
        existence: ExistenceEffect::Ends,
        size: SizeEffect::Exactly(0),
        ..HeadEffect::default()
    };
    let grows = || HeadEffect { size: SizeEffect::AtLeast(20), ..HeadEffect::default() };
    let changes: [(HeadEffect, Vec<(Condition, bool)>); 4] = [
        (sets(Some(2)), vec![(is(Some(1)), false), (is(Some(2)), true)]),
        (sets(None), vec![(is(Some(1)), false), (is(None), true)]),
        (grows(), vec![(Condition::Size(10), false), (Condition::Size(20), true)]),
        (ends(), vec![(Condition::Exists, false), (Condition::Missing, true), (is(None), false)]),
    ];
    for (change, conditions) in changes {
        let (alone, open) = (after(&blob(), 2, true, change.clone()), after(&blob(), 2, false, change));
        for (condition, afterwards) in conditions {
            let condition = [condition];
            let before = met(&blob(), &condition);
            assert_eq!(met(&alone, &condition), Some(afterwards), "{condition:?}");
            assert_eq!(met(&open, &condition), None, "{condition:?}");
            let refused = decided(open.clone(), 2, Outcome::Refused(Refusal::Fenced));
            assert_eq!(met(&refused, &condition), before, "{condition:?}");
            let committed = decided(open.clone(), 2, Outcome::Committed);
            assert_eq!(met(&committed, &condition), Some(afterwards), "{condition:?}");
        }
    }
}

#[test]
fn a_condition_does_not_wait_for_what_is_not_its_affair() {
    let open = after(&blob(), 2, false, sets(Some(2)));
    assert_eq!(met(&open, &[Condition::Exists, Condition::Size(10)]), Some(true));
    let longer = HeadEffect { size: SizeEffect::AtLeast(20), ..HeadEffect::default() };
    let open = after(&blob(), 2, false, longer);
    assert_eq!(met(&open, &[Condition::Exists, is(Some(1))]), Some(true));
    assert_eq!(met(&open, &[Condition::Size(20), is(Some(2))]), Some(false), "whatever becomes of the size");
    // Whatever becomes of the one before, the last one has set it.
    let open = after(&after(&blob(), 2, false, sets(Some(2))), 3, true, sets(Some(3)));
    assert_eq!(met(&open, &[is(Some(3))]), Some(true));
    // A blob that was made anew has nothing of what was set before.
    let anew = HeadEffect { existence: ExistenceEffect::Restarts, ..HeadEffect::default() };
    assert_eq!(met(&after(&blob(), 2, true, anew), &[is(None)]), Some(true));
}

use alloc::{sync::Arc, vec, vec::Vec};

use super::*;
use crate::{
    BlobName, ClassId, KeyspaceSeed, Layout, Outcome, PartitionCount, PartitionId, Placement, RingVersion,
    SessionId, Snapshots, TransactionId, head::Place,
};
use tyr_types::{Key, KeyspaceId, KeyspaceSettings};

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

/// What becomes of operations on a blob that there is not yet.
fn evaluated(operations: Vec<Operation>) -> Evaluation {
    let placement = Placement {
        class: ClassId(0),
        partitions: PartitionCount::new(1).unwrap(),
        seed: KeyspaceSeed([0; 16]),
        layout: Layout::of(&KeyspaceSettings::default()).unwrap(),
    };
    let (multi_version, snapshots, is_dropped) = (true, Snapshots::default(), false);
    let keyspace = Keyspace { placement, multi_version, snapshots, is_dropped };
    let blob = BlobName { keyspace: KeyspaceId(1), key: Key::new("a").unwrap() };
    let partition = PartitionId { class: ClassId(0), index: 0 };
    let plan = HeadPlan { partition, blob, seen: None, conditions: Vec::new(), operations };
    evaluate(&Head::default(), 0, &plan, &keyspace, &|_| None)
}

/// A byte in each of so many chunks.
fn writes(chunks: u64) -> impl Iterator<Item = Operation> {
    let size = KeyspaceSettings::default().chunk_size;
    (0..chunks).map(move |chunk| Operation::Write { offset: chunk * size, bytes: vec![1].into() })
}

#[test]
fn cuts_of_many_chunks_are_refused_and_not_worked_on_for_a_minute() {
    let cut = Operation::Punch { offset: 0, length: 1 << 60 };
    let many = |cuts| writes(16_384).chain((0..cuts).map(|_| cut.clone())).collect();
    assert!(matches!(evaluated(many(256)), Evaluation::Ready(_)));
    assert_eq!(evaluated(many(257)), Evaluation::Refused(Refusal::TooLarge));
    // What each cuts counts, not what there is.
    let small = |chunk: u64| Operation::Punch { offset: chunk << 10, length: 1 };
    let few = writes(16_384).chain((0..32_768).map(small)).collect();
    assert!(matches!(evaluated(few), Evaluation::Ready(_)));
}

#[test]
fn transforms_across_chunks_that_look_at_much_are_refused() {
    let size = KeyspaceSettings::default().chunk_size;
    let across = Operation::Transform { offset: size - 4, transform: Transform::add(Operand::U64(1)) };
    let many = |count| (0..count).map(|_| across.clone()).collect::<Vec<Operation>>();
    assert_eq!(evaluated(many(4096)), Evaluation::Refused(Refusal::TooLarge));
    assert!(!matches!(evaluated(many(1024)), Evaluation::Refused(_)));
}

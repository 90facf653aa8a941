use alloc::{vec, vec::Vec};

use super::*;
use crate::{ClassId, PartitionId, RingVersion, SessionId};

fn id(sequence: u64) -> TransactionId {
    TransactionId { session: SessionId(1), sequence, birth: RingVersion(0) }
}

fn number(index: u64) -> Number {
    Number::new(1, index)
}

#[test]
fn a_refused_number_that_the_log_loses_is_nobodys_predecessor() {
    let decider = PartitionId { class: ClassId(0), index: 0 };
    let mut head = Head::default();
    for index in 1..=2 {
        let place = Place::new(number(index), id(index), index, false, false, Arc::default());
        head.take_place(place, [(0, Link { number: number(index), id: id(index), decider })]);
    }
    head.learn(number(1), id(1), Outcome::Committed);
    head.learn(number(2), id(2), Outcome::Refused(Refusal::Fenced));
    head.cut_log(1);
    assert_eq!(head.link(0).map(|link| link.id), Some(id(1)));
    head.trim_log(1);
    head.cut_log(1);
    assert_eq!(head.link(0).map(|link| link.id), Some(id(1)));
}

/// What will be, worked out from the front to the end.
fn ahead_of_all(head: &Head) -> Ahead {
    let mut ahead = Ahead {
        exists: head.blob.is_some(),
        size: head.blob.as_ref().map_or(0, |blob| blob.size),
        ..Ahead::default()
    };
    for place in head.places.iter().filter(|place| !matches!(place.outcome, Some(Outcome::Refused(_)))) {
        let open = !place.alone && place.outcome.is_none();
        ahead.existence_open |= open && place.effect.existence.changes(ahead.exists);
        ahead.size_open |= open && place.effect.size.apply(ahead.size) != ahead.size;
        ahead.exists = place.effect.existence.exists(ahead.exists);
        ahead.size = if ahead.exists { place.effect.size.apply(ahead.size) } else { 0 };
    }
    ahead
}

/// Whether everything before a place is decided, worked out from the front.
fn is_settled_by_all(head: &Head, place: &Place) -> bool {
    let mut before = head.places.iter().take_while(|before| before.number < place.number);
    before.all(|before| before.outcome.is_some() || (place.only_reads && before.only_reads))
}

/// Draws a place.
fn place(index: u64, mut draw: impl FnMut(u64) -> u64) -> Place {
    let (only_reads, alone) = (draw(4) == 0, draw(2) == 0);
    let mut effect = HeadEffect::default();
    if !only_reads {
        let size = draw(100);
        effect.size = [SizeEffect::Stays, SizeEffect::AtLeast(size), SizeEffect::Exactly(size)]
            [usize::try_from(draw(3)).expect("small")];
        effect.existence = match draw(8) {
            0 => ExistenceEffect::Ends,
            1 => ExistenceEffect::Restarts,
            2..=5 => ExistenceEffect::Begins,
            _ => ExistenceEffect::Stays,
        };
        match effect.existence {
            ExistenceEffect::Ends => effect.size = SizeEffect::Exactly(0),
            ExistenceEffect::Restarts => effect.size = SizeEffect::Exactly(size),
            ExistenceEffect::Begins | ExistenceEffect::Stays => {}
        }
    }
    Place::new(number(index), id(index), index, alone, only_reads, Arc::new(effect))
}

#[test]
fn what_is_kept_with_places_is_what_a_walk_over_all_of_them_finds() {
    for seed in 1..200u64 {
        let mut word = seed;
        let mut draw = move |below: u64| {
            // Xorshift (Marsaglia, 2003).
            word ^= word << 13;
            word ^= word >> 7;
            word ^= word << 17;
            word % below
        };
        let mut head = Head::default();
        let mut last = 0;
        for _ in 0..100 {
            match draw(5) {
                0 | 1 => {
                    last += 1;
                    head.take_place(place(last, &mut draw), []);
                }
                2 | 3 if !head.places.is_empty() => {
                    let chosen = usize::try_from(draw(head.places.len() as u64)).expect("small");
                    let (number, id) = (head.places[chosen].number, head.places[chosen].id);
                    let is_decided = head.places[chosen].is_decided();
                    let outcome = match draw(3) {
                        0 => Outcome::Refused(Refusal::Conflict),
                        _ => Outcome::Committed,
                    };
                    if !is_decided {
                        let wrote = !head.places[chosen].only_reads;
                        let before: Vec<_> = undecided_and_settled(&head).collect();
                        head.learn(number, id, outcome);
                        let told: Vec<_> = head.newly_settled(wrote).collect();
                        let mut new = undecided_and_settled(&head).filter(|id| !before.contains(id));
                        assert!(new.all(|id| told.contains(&id)), "seed {seed}");
                    }
                }
                4 if draw(8) == 0 => {
                    let first = head.places.front().map_or(last, |place| place.log_index);
                    last = first.max(last.saturating_sub(2));
                    head.cut_log(last);
                }
                _ => {}
            }
            assert_eq!(head.ahead(), ahead_of_all(&head), "seed {seed}");
            for place in &head.places {
                assert_eq!(head.is_settled(place.number), is_settled_by_all(&head, place), "seed {seed}");
            }
        }
    }
}

fn undecided_and_settled(head: &Head) -> impl Iterator<Item = TransactionId> {
    let undecided = head.places.iter().filter(|place| !place.is_decided());
    undecided.filter(|place| is_settled_by_all(head, place)).map(|place| place.id)
}

#[test]
fn attributes_fit_whatever_becomes_of_what_is_not_certain() {
    let half = ATTRIBUTES_SIZE_MAX / 2;
    let set = |name: &str, size: usize| {
        let attributes = vec![(String::from(name), Some(vec![0; size].into()))];
        HeadEffect { attributes, ..HeadEffect::default() }
    };
    let remove = |name: &str| HeadEffect { attributes: vec![(name.into(), None)], ..HeadEffect::default() };
    let place = |index, alone, effect: &HeadEffect| {
        Place::new(number(index), id(index), index, alone, false, Arc::new(effect.clone()))
    };
    let mut head = Head::default();
    let create = HeadEffect { existence: ExistenceEffect::Begins, ..set("a", half) };
    head.take_place(place(1, true, &create), []);
    head.learn(number(1), id(1), Outcome::Committed);
    assert_eq!(head.attributes_fit(&set("b", half - 2)), AttributesFit::Yes);
    assert_eq!(head.attributes_fit(&set("b", half - 1)), AttributesFit::No);
    assert_eq!(head.attributes_fit(&set("a", 2 * half - 1)), AttributesFit::Yes, "in its place");
    // One that may be refused elsewhere removes it.
    head.take_place(place(2, false, &remove("a")), []);
    assert_eq!(head.attributes_fit(&set("b", half)), AttributesFit::Unknown);
    assert_eq!(head.attributes_fit(&set("b", half - 2)), AttributesFit::Yes);
    assert_eq!(head.attributes_fit(&remove("c")), AttributesFit::Yes);
    let mut refused = head.clone();
    refused.learn(number(2), id(2), Outcome::Refused(Refusal::Fenced));
    assert_eq!(refused.attributes_fit(&set("b", half)), AttributesFit::No);
    head.learn(number(2), id(2), Outcome::Committed);
    assert_eq!(head.attributes_fit(&set("b", half)), AttributesFit::Yes);
    // One on this head alone is certain, though it is not decided.
    head.take_place(place(3, true, &set("b", half)), []);
    assert_eq!(head.attributes_fit(&set("c", half)), AttributesFit::No);
    let anew = HeadEffect { existence: ExistenceEffect::Restarts, ..HeadEffect::default() };
    head.take_place(place(4, true, &anew), []);
    assert_eq!(head.attributes_fit(&set("c", half)), AttributesFit::Yes);
}

#[test]
fn who_has_read_the_last_write_that_is_left_is_not_refused_for_what_is_lost() {
    let write = |index| Place::new(number(index), id(index), index, true, false, Arc::default());
    let mut head = Head::default();
    head.take_place(write(1), []);
    head.learn(number(1), id(1), Outcome::Committed);
    let seen = |index| Seen { number: number(index), version: true, ..Seen::default() };
    let many = RECENT_MAX as u64 + 3;
    (2..=many).for_each(|index| head.take_place(write(index), []));
    assert!(head.conflicts(&seen(1)) && head.conflicts(&seen(2)), "there was more than is remembered");
    head.cut_log(1);
    assert!(!head.conflicts(&seen(1)), "nothing is left of that");
    (many + 1..=2 * many).for_each(|index| head.take_place(write(index), []));
    assert!(head.conflicts(&seen(1)));
    for index in many + 1..=2 * many {
        head.learn(number(index), id(index), Outcome::Refused(Refusal::Fenced));
    }
    assert!(!head.conflicts(&seen(1)), "all of that was refused");
    assert!(Head::beginning_after(number(5)).conflicts(&seen(4)), "who read it earlier has read another one");
}

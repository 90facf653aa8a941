//! One transaction, with lone operations of others in between.
//!
//! If it commits, everything that it was told must be true at the moment of the commit; if it is refused, it changes nothing. It must not
//! be refused if nobody changed a blob that it observed.

use std::collections::{BTreeMap, BTreeSet};

use pollster::block_on;
use proptest::prelude::*;
use tyr_types::ErrorKind;

use super::drive::Promised;
use super::model::{Action, Answer, Model, Place, actions, places};
use super::{Opened, UNPINNED, drive, settings};
use crate::Outcome;

#[derive(Clone, Debug)]
enum Event {
    Own(Place, Action),
    Foreign(Place, Action),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = (any::<prop::sample::Selector>(), places(), actions()).prop_map(|(own, place, action)| {
        match own.select([true, true, true, false]) {
            true => Event::Own(place, action),
            false => Event::Foreign(place, action),
        }
    });
    prop::collection::vec(event, 1..24)
}

/// What the transaction has to be told again, as long as it does not change the blob itself.
type Repeatable<'a> = BTreeMap<Place, Vec<(&'a Action, Result<Answer, ErrorKind>)>>;

fn run(opened: &Opened, model: &mut Model, events: &[Event]) {
    let keyspaces = &opened.keyspaces;
    let mut transaction = opened.store.begin();
    let mut told = Vec::new();
    let mut observed = BTreeSet::new();
    let mut disturbed = false;
    let mut repeatable = Repeatable::new();
    for event in events {
        match event {
            Event::Foreign(place, action) => {
                let expected = model.apply(*place, action);
                assert_eq!(drive::alone(keyspaces, *place, action), expected);
                disturbed |= action.writes() && observed.contains(place);
            }
            Event::Own(place, action) => {
                let answer = drive::within(&mut transaction, keyspaces, *place, action);
                if action.observes() {
                    observed.insert(*place);
                }
                if answer.as_ref().err() == Some(&ErrorKind::Invalid) {
                    continue;
                }
                note(&mut repeatable, *place, action, &answer);
                told.push((*place, action, answer));
            }
        }
    }
    for (place, reads) in repeatable {
        for (action, first) in reads {
            let again = drive::within(&mut transaction, keyspaces, place, action);
            assert_eq!(at_once(&again), Some(first), "{place:?} {action:?}");
        }
    }
    match block_on(transaction.commit()) {
        // One that only saw one blob took place when it pinned it.
        Ok(Outcome::Committed(_)) if only_saw_one_blob(&told) => {}
        Ok(Outcome::Committed(receipt)) => {
            for (place, action, answer) in told {
                let expected = model.apply(place, action);
                let answer = answer.map(|promise| promise.keep(&receipt));
                assert_eq!(answer, expected, "{place:?} {action:?}");
            }
        }
        Ok(Outcome::Conflict(conflict)) => assert!(disturbed, "nobody was in the way, but {conflict}"),
        Err(error) => panic!("{error}"),
    }
}

fn only_saw_one_blob(told: &[(Place, &Action, Result<Promised, ErrorKind>)]) -> bool {
    let places: BTreeSet<_> = told.iter().map(|(place, ..)| *place).collect();
    let wrote = told.iter().any(|(_, action, answer)| action.writes() && answer.is_ok());
    places.len() <= 1 && !places.iter().any(|place| place.0 == UNPINNED) && !wrote
}

fn note<'a>(
    repeatable: &mut Repeatable<'a>,
    place: Place,
    action: &'a Action,
    answer: &Result<Promised, ErrorKind>,
) {
    let pinned = place.0 != UNPINNED;
    if action.writes() {
        repeatable.remove(&place);
    } else if let Some(answer) = at_once(answer).filter(|_| pinned) {
        repeatable.entry(place).or_default().push((action, answer));
    }
}

fn at_once(answer: &Result<Promised, ErrorKind>) -> Option<Result<Answer, ErrorKind>> {
    match answer {
        Ok(Promised::Answer(answer)) => Some(Ok(answer.clone())),
        Ok(_) => None,
        Err(kind) => Some(Err(*kind)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 4, ..ProptestConfig::default() })]

    #[test]
    fn a_transaction_is_told_the_truth_or_refused(
        setting in settings(),
        preparation in prop::collection::vec((places(), actions()), 0..20),
        transactions in prop::collection::vec(events(), 1..6),
    ) {
        let directory = tempfile::tempdir().unwrap();
        let opened = Opened::open(directory.path(), setting);
        let mut model = Model::default();
        for (place, action) in preparation {
            let expected = model.apply(place, &action);
            prop_assert_eq!(drive::alone(&opened.keyspaces, place, &action), expected);
        }
        for events in &transactions {
            run(&opened, &mut model, events);
        }
        for (place, content) in &model.0 {
            let blob = block_on(opened.keyspaces[place.0].get([place.1])).unwrap();
            prop_assert!(blob.bytes == content.bytes, "{:?} differs", place);
        }
        opened.close();
    }
}

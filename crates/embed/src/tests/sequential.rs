//! One caller does everything in turn: lone operations, transactions, snapshots, and opening again.

use std::collections::BTreeMap;

use pollster::block_on;
use proptest::prelude::*;
use tyr_types::ErrorKind;

use super::model::{Action, Answer, Model, Place, actions, places};
use super::{KEYSPACES, Opened, Setting, UNPINNED, drive, settings};
use crate::{Outcome, Snapshot};

#[derive(Clone, Debug)]
enum Event {
    Alone(Place, Action),
    Transaction { actions: Vec<(Place, Action)>, commit: bool },
    Snapshot,
    ReadSnapshot(prop::sample::Index, Place, Action),
    DropSnapshot(prop::sample::Index),
    Scan { keyspace: usize, limit: usize },
    Reopen,
}

fn events() -> impl Strategy<Value = Event> {
    let transaction = (prop::collection::vec((places(), actions()), 0..12), prop::bool::weighted(0.8))
        .prop_map(|(actions, commit)| Event::Transaction { actions, commit });
    prop_oneof![
        12 => (places(), actions()).prop_map(|(place, action)| Event::Alone(place, action)),
        6 => transaction,
        1 => Just(Event::Snapshot),
        3 => (any::<prop::sample::Index>(), places(), actions())
            .prop_map(|(which, place, action)| Event::ReadSnapshot(which, place, action)),
        1 => any::<prop::sample::Index>().prop_map(Event::DropSnapshot),
        1 => (0..KEYSPACES, 1usize..5).prop_map(|(keyspace, limit)| Event::Scan { keyspace, limit }),
        1 => Just(Event::Reopen),
    ]
}

struct Case {
    setting: Setting,
    directory: tempfile::TempDir,
    opened: Option<Opened>,
    model: Model,
    snapshots: Vec<(Snapshot, Model)>,
}

impl Case {
    fn opened(&self) -> &Opened {
        self.opened.as_ref().unwrap()
    }

    fn happen(&mut self, event: &Event) {
        match event {
            Event::Alone(place, action) => {
                let expected = self.model.apply(*place, action);
                assert_eq!(drive::alone(&self.opened().keyspaces, *place, action), expected);
            }
            Event::Transaction { actions, commit } => self.transact(actions, *commit),
            Event::Snapshot => {
                let Opened { store, keyspaces } = self.opened();
                let snapshot = block_on(store.snapshot(&[&keyspaces[0], &keyspaces[1]])).unwrap();
                self.snapshots.push((snapshot, self.model.clone()));
            }
            Event::ReadSnapshot(which, place, action) => self.read_snapshot(which, *place, action),
            Event::DropSnapshot(which) if !self.snapshots.is_empty() => {
                self.snapshots.remove(which.index(self.snapshots.len()));
            }
            Event::DropSnapshot(_) => {}
            Event::Scan { keyspace, limit } => self.scan(*keyspace, *limit),
            Event::Reopen => {
                self.snapshots.clear();
                self.opened.take().unwrap().close();
                self.opened = Some(Opened::open(self.directory.path(), self.setting));
            }
        }
    }

    fn transact(&mut self, actions: &[(Place, Action)], commit: bool) {
        let Opened { store, keyspaces } = self.opened.as_ref().unwrap();
        let mut transaction = store.begin();
        let mut model = self.model.clone();
        let mut promises = Vec::new();
        let mut appended = BTreeMap::<Place, bool>::new();
        for (place, action) in actions {
            let answer = drive::within(&mut transaction, keyspaces, *place, action);
            let refused = answer.as_ref().err() == Some(&ErrorKind::Invalid);
            if refused && appended.contains_key(place) && !action.writes() {
                continue;
            }
            if matches!(action, Action::Append { .. }) {
                appended.insert(*place, true);
            }
            let expected = model.apply(*place, action);
            match (answer, expected) {
                (Ok(promise), Ok(expected)) => promises.push((promise, expected)),
                (answer, expected) => assert_eq!(answer.err(), expected.err(), "{place:?} {action:?}"),
            }
        }
        if !commit {
            transaction.rollback();
            return;
        }
        let outcome = block_on(transaction.commit()).unwrap();
        let Outcome::Committed(receipt) = outcome else { panic!("alone, but {outcome:?}") };
        for (promise, expected) in promises {
            assert_eq!(promise.keep(&receipt), expected);
        }
        self.model = model;
    }

    fn read_snapshot(&mut self, which: &prop::sample::Index, place: Place, action: &Action) {
        if self.snapshots.is_empty() || place.0 == UNPINNED {
            return;
        }
        let index = which.index(self.snapshots.len());
        let keyspaces = &self.opened.as_ref().unwrap().keyspaces;
        let (snapshot, model) = &mut self.snapshots[index];
        if let Some(answer) = drive::of_snapshot(snapshot, keyspaces, place, action) {
            assert_eq!(answer, model.apply(place, action));
        }
    }

    /// Lists a keyspace page by page.
    fn scan(&self, keyspace: usize, limit: usize) {
        let mut found = Vec::new();
        loop {
            let after: Option<&[u8]> = found.last().map(|entry: &crate::Entry| entry.key.as_bytes());
            let page = block_on(self.opened().keyspaces[keyspace].scan("", after, limit)).unwrap();
            let last = page.len() < limit;
            found.extend(page);
            if last {
                break;
            }
        }
        let found: Vec<_> = found.iter().map(|entry| (entry.key.as_bytes().to_vec(), entry.size)).collect();
        let places = self.model.0.range((keyspace, 0)..=(keyspace, u8::MAX));
        let expected: Vec<_> =
            places.map(|(place, content)| (vec![place.1], content.bytes.len() as u64)).collect();
        assert_eq!(found, expected);
    }

    /// Compares everything.
    fn check(&self) {
        let Opened { store, keyspaces } = self.opened();
        for (place, content) in &self.model.0 {
            let blob = block_on(keyspaces[place.0].get([place.1])).unwrap();
            assert!(blob.bytes == content.bytes, "{place:?} differs");
            assert_eq!(blob.stat.attributes, content.attributes);
        }
        for (n, summary) in ["disk", "memory", "latest"].into_iter().enumerate() {
            let contents =
                self.model.0.range((n, 0)..=(n, u8::MAX)).map(|(_, content)| content.bytes.len() as u64);
            let expected = (contents.clone().count() as u64, contents.sum::<u64>());
            let summary = store.keyspaces().into_iter().find(|keyspace| keyspace.name == summary).unwrap();
            assert_eq!((summary.blobs, summary.bytes), expected);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 5, ..ProptestConfig::default() })]

    #[test]
    fn a_store_does_what_the_model_does(
        setting in settings(),
        events in prop::collection::vec(events(), 1..80),
    ) {
        let directory = tempfile::tempdir().unwrap();
        let opened = Some(Opened::open(directory.path(), setting));
        let mut case = Case { setting, directory, opened, model: Model::default(), snapshots: Vec::new() };
        for event in &events {
            case.happen(event);
        }
        case.check();
        case.happen(&Event::Reopen);
        case.check();
    }
}

#[test]
fn an_answer_of_the_model_can_be_wrong() {
    let mut model = Model::default();
    model.apply((0, 0), &Action::Append { bytes: vec![1] }).unwrap();
    let answer = model.apply((0, 0), &Action::Append { bytes: vec![2] });
    assert_eq!(answer, Ok(Answer::Offset(1)));
    assert_eq!(model.apply((0, 1), &Action::Stat), Err(ErrorKind::NotFound));
}

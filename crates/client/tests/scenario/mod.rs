//! Runs scenarios of `bindings/scenarios` on a store.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod place;
mod step;
mod told;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

pub use place::Place;
use serde_json::Value;
use told::{Kept, Told, text};
use tyr_client::{Error, Keyspace, KeyspaceSettings, Pending, Slot, Snapshot, Store, Transaction};

/// What steps work with, by the name of the handle.
#[derive(Default)]
pub struct Stage<'a> {
    place: Option<&'a Place>,
    stores: BTreeMap<String, Store>,
    keyspaces: BTreeMap<String, Keyspace>,
    transactions: BTreeMap<String, Transaction>,
    snapshots: BTreeMap<String, Arc<Snapshot>>,
    pendings: BTreeMap<String, Arc<Pending>>,
    slots: BTreeMap<String, Slot>,
    kept: Kept,
    worker: usize,
    attempt: u64,
    is_cancelling: bool,
}

/// Runs a scenario, and leaves the place as it was.
#[expect(clippy::print_stdout, reason = "who looks at a failure sees which scenario it was")]
pub fn run(scenario: &Value, place: &Place) {
    println!("{}", scenario["name"]);
    let mut stage = Stage { place: Some(place), ..Stage::default() };
    let opened = [
        serde_json::json!({"do": "store.open"}),
        serde_json::json!({"do": "store.create_keyspace", "name": "files", "settings": {"chunk_size": 65536}, "as": "files"}),
    ];
    let steps = opened.iter().chain(scenario["steps"].as_array().unwrap());
    for step in steps {
        stage.expect(step).unwrap_or_else(|error| panic!("{}: {step}: {error}", scenario["name"]));
    }
    drop(stage);
    place.clear();
}

impl<'a> Stage<'a> {
    /// Does a step, and compares what it was told. Fails with an error that is to be passed on by a run.
    fn expect(&mut self, step: &Value) -> Result<(), Error> {
        if step.get("try").is_some_and(|only| only.as_u64() != Some(self.attempt)) {
            return Ok(());
        }
        match (step["do"].as_str().unwrap(), step.get("fails")) {
            ("together", _) => self.together(step),
            ("cancel", _) => {
                self.is_cancelling = true;
                let _whatever = self.perform(&step["step"]);
                self.is_cancelling = false;
            }
            ("forget", _) => {
                let kept = std::mem::take(&mut self.kept);
                *self = Stage { place: self.place, kept, ..Stage::default() };
            }
            ("server.kill", _) => self.place().kill(node(step)),
            ("server.start", _) => self.place().start(node(step)),
            ("directory.replace", _) => self.place().replace(text(&step["find"]), text(&step["with"])),
            (_, Some(kind)) => loop {
                match (self.perform(step), step.get("gives")) {
                    (Ok(told), Some(wanted)) => {
                        assert!(told.is(wanted, &self.kept), "{step} is told {told:?}")
                    }
                    (Ok(told), None) => panic!("{step} succeeds: {told:?}"),
                    (Err(error), _) => break assert_eq!(error.kind().name(), text(kind), "{step}: {error}"),
                }
            },
            (_, None) => {
                let told = match self.perform(step) {
                    Err(error) if step.get("passes").is_some() => return Err(error),
                    Err(error) => panic!("{step} fails: {error} ({})", error.kind()),
                    Ok(told) => told,
                };
                if let Some(wanted) = step.get("gives") {
                    assert!(told.is(wanted, &self.kept), "{step} is told {told:?}");
                }
                if let Some(name) = step.get("keep") {
                    self.kept.insert(text(name).to_owned(), told.kept());
                }
            }
        }
        Ok(())
    }

    /// Has workers do steps at the same time, which have the same handles.
    fn together(&mut self, step: &Value) {
        let number = |name: &str| usize::try_from(step[name].as_u64().unwrap()).unwrap();
        let steps = step["steps"].as_array().unwrap();
        std::thread::scope(|scope| {
            for worker in 0..number("count") {
                let mut stage = self.shared(worker);
                let times = number("times");
                scope.spawn(move || {
                    for _ in 0..times {
                        steps.iter().for_each(|step| stage.expect(step).unwrap());
                    }
                });
            }
            for step in step.get("meanwhile").and_then(Value::as_array).into_iter().flatten() {
                self.expect(step).unwrap();
            }
        });
    }

    /// What a worker works with.
    fn shared(&self, worker: usize) -> Stage<'a> {
        Stage {
            place: self.place,
            stores: self.stores.clone(),
            keyspaces: self.keyspaces.clone(),
            snapshots: self.snapshots.clone(),
            kept: self.kept.clone(),
            worker,
            ..Stage::default()
        }
    }

    fn place(&self) -> &'a Place {
        self.place.unwrap()
    }
}

fn node(step: &Value) -> usize {
    usize::try_from(step["node"].as_u64().unwrap()).unwrap() - 1
}

/// The deadline that a step names.
fn deadline(step: &Value, name: &str) -> Option<Duration> {
    step.get(name).map(|milliseconds| Duration::from_millis(milliseconds.as_u64().unwrap()))
}

/// The settings of a keyspace that a step names.
fn settings(named: &Value) -> KeyspaceSettings {
    let mut settings = KeyspaceSettings::default();
    for (name, value) in named.as_object().unwrap() {
        match name.as_str() {
            "chunk_size" => settings.chunk_size = value.as_u64().unwrap(),
            "multi_version" => settings.multi_version = value.as_bool().unwrap(),
            "quota" => settings.quota = value.as_u64(),
            "durability" => {
                settings.durability = match text(value) {
                    "memory" => tyr_client::Durability::Memory,
                    "disk" => tyr_client::Durability::Disk,
                    other => panic!("{other} is no durability"),
                }
            }
            other => panic!("{other} is no setting"),
        }
    }
    settings
}

/// Settings as a step is told of them.
fn told_of(settings: &KeyspaceSettings) -> Told {
    let durability = match settings.durability {
        tyr_client::Durability::Memory => "memory",
        tyr_client::Durability::Disk => "disk",
    };
    Told::Fields(BTreeMap::from([
        ("chunk_size", Told::Number(settings.chunk_size)),
        ("multi_version", Told::Flag(settings.multi_version)),
        ("durability", Told::Text(durability.to_owned())),
        ("quota", settings.quota.map_or(Told::Nothing, Told::Number)),
    ]))
}

//! The scenarios that every binding runs, on a directory and on a cluster.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod real;
mod scenario;

use std::{path::Path, sync::Mutex};

use real::Servers;
use scenario::Place;
use serde_json::Value;
use tyr_proto::cluster::ClassSettings;
use tyr_server::Settings;

const SCENARIOS: &str = include_str!("../../../bindings/scenarios/scenarios.json");

/// The scenarios that run on a store.
fn scenarios(store: &str) -> Vec<Value> {
    let Value::Array(all) = serde_json::from_str(SCENARIOS).unwrap() else { panic!("it is a list") };
    let runs_on = |scenario: &Value| scenario["stores"].as_array().unwrap().iter().any(|name| name == store);
    all.into_iter().filter(runs_on).collect()
}

fn settings(directory: &Path) -> Settings {
    let mut usual = Settings::new(directory);
    usual.store.segment_size = 1 << 20;
    Settings { class: ClassSettings { partitions: 16, ..usual.class }, ..usual }
}

#[test]
fn scenarios_hold_in_a_directory() {
    let scenarios = scenarios("directory");
    assert!(scenarios.len() >= 30);
    for scenario in scenarios {
        scenario::run(&scenario, &Place::Directory(tempfile::tempdir().unwrap()));
    }
}

#[test]
fn scenarios_hold_on_a_cluster() {
    let place = Place::Cluster(Mutex::new(Servers::start(3, settings)));
    let scenarios = scenarios("cluster");
    assert!(scenarios.len() >= 30);
    for scenario in scenarios {
        scenario::run(&scenario, &place);
    }
}

#[test]
fn a_scenario_that_is_told_something_else_fails() {
    let wrong = serde_json::json!({"name": "wrong", "steps": [
        {"do": "keyspace.append", "key": "a", "bytes": "x", "gives": 1}
    ]});
    let place = Place::Directory(tempfile::tempdir().unwrap());
    let ran = std::panic::catch_unwind(|| scenario::run(&wrong, &place));
    assert!(ran.is_err());
}

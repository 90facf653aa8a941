//! What the model of larger clusters says, at sizes that take seconds.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use tyr_sim::scale::{self, Device, Kind, Load, Model, Options};

fn options(nodes: &[u32]) -> Options {
    Options { nodes: nodes.to_vec(), each: 16, ..Options::default() }
}

fn each(count: u64, load: &Load) -> f64 {
    f64::from(u32::try_from(count).unwrap()) / f64::from(u32::try_from(load.ended).unwrap())
}

#[test]
fn the_same_seed_gives_the_same_load_and_another_one_does_not() {
    let options = options(&[8]);
    let load = scale::measure(8, Kind::WriteTwo, &options);
    assert_eq!(load.ended, 8 * 16);
    assert_eq!(load, scale::measure(8, Kind::WriteTwo, &options));
    assert_ne!(load, scale::measure(8, Kind::WriteTwo, &Options { seed: 2, ..options }));
}

#[test]
fn an_operation_costs_the_same_at_8_and_at_64_nodes() {
    // With fewer nodes a thread holds more partitions, and less of what is done in the background is done at once.
    for (kind, bound) in
        [(Kind::Write(4096), 1.3), (Kind::Append, 1.3), (Kind::WriteTwo, 1.3), (Kind::Get(4096), 1.01)]
    {
        let [few, many] =
            [8, 64].map(|nodes| scale::measure(nodes, kind, &Options { each: 8, ..options(&[nodes]) }));
        let counts = |load: &Load| [load.counts.messages, load.counts.records, load.counts.bytes];
        for (few_count, many_count) in counts(&few).into_iter().zip(counts(&many)) {
            let (before, after) = (each(few_count, &few), each(many_count, &many));
            assert!(after <= before * bound && before <= after * bound, "{kind:?}: {before} and {after}");
        }
    }
}

#[test]
fn a_device_that_takes_longer_lengthens_a_lone_write_by_that() {
    let latency = |write| {
        let device = Device { write, ..Model::APART.device };
        let model = Model { device, ..Model::APART };
        let options = Options { each: 1, model, ..Options::default() };
        scale::measure_lone(3, Kind::Write(4096), &options).percentile(500)
    };
    let (once, twice) = (latency(1_000_000), latency(2_000_000));
    // All replicas write at the same time, so one write is waited for.
    assert!((twice - once).abs_diff(1_000_000) < 10_000, "{once} and {twice}");
}

#[test]
fn a_hot_blob_takes_no_more_than_its_thread_can_do() {
    for nodes in [8, 32] {
        let (load, bound) = scale::measure_hot(nodes, Kind::Append, 1, &options(&[nodes]));
        assert!(load.rate() <= bound, "{} of {bound}", load.rate());
        assert!(load.rate() >= bound / 4.0, "{} of {bound}", load.rate());
    }
}

#[test]
fn more_nodes_serve_more() {
    let [few, many] = [8, 32].map(|nodes| scale::measure(nodes, Kind::Write(4096), &options(&[nodes])));
    assert!(many.rate() > 3.0 * few.rate(), "{} and {}", few.rate(), many.rate());
}

//! Random histories against a map.

use proptest::{collection::vec, prelude::*, sample::select};
use tyr_sim_env::CrashMode;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Flush(Map),
    Merge,
    MergeAll,
    Crash(CrashMode),
    Scan(Bound<Vec<u8>>, usize),
}

/// Few different keys, so that tables overlap; some are long, with long common prefixes; some extend others.
fn keys() -> impl Strategy<Value = Vec<u8>> {
    let word = vec(0_u8..4, 0..4);
    let number = any::<u8>().prop_map(|n| format!("blob/{n:03}").into_bytes());
    let long = (0_usize..3, 0_u8..40).prop_map(|(long, n)| [vec![b'k'; long * 1500], vec![n]].concat());
    prop_oneof![1 => word, 4 => number, 2 => long]
}

fn values() -> impl Strategy<Value = Option<Vec<u8>>> {
    let small = vec(any::<u8>(), 0..100).prop_map(Some);
    let large = (any::<u8>(), 0_usize..10_000).prop_map(|(byte, size)| Some(vec![byte; size]));
    prop_oneof![3 => small, 1 => large, 2 => Just(None)]
}

fn bounds() -> impl Strategy<Value = Bound<Vec<u8>>> {
    prop_oneof![Just(Unbounded), keys().prop_map(Included), keys().prop_map(Excluded)]
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => proptest::collection::btree_map(keys(), values(), 0..60).prop_map(Step::Flush),
        2 => Just(Step::Merge),
        1 => Just(Step::MergeAll),
        1 => select(&CrashMode::ALL[..]).prop_map(Step::Crash),
        3 => (bounds(), 0_usize..300).prop_map(|(from, count)| Step::Scan(from, count)),
    ]
}

struct Run {
    disk: Arc<SimDisk>,
    index: Index,
    model: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Run {
    fn take(&mut self, step: Step) {
        match step {
            Step::Flush(entries) => self.flush(entries),
            Step::Merge => {
                while let Some(merge) = self.index.plan_merge() {
                    carry_out(&self.index, &merge);
                }
            }
            Step::MergeAll => {
                if let Some(merge) = self.index.plan_full_merge() {
                    carry_out(&self.index, &merge);
                    assert_eq!(self.index.stats().entries, self.model.len() as u64);
                }
            }
            Step::Crash(mode) => {
                self.disk = self.disk.crash(mode);
                self.index = open(&self.disk, self.index.tables());
            }
            Step::Scan(from, count) => {
                let from = from.as_ref().map(Vec::as_slice);
                let found = self.index.scan(from).take(count).map(|entry| entry.expect("reads"));
                let expected = self.model.range::<[u8], _>((from, Unbounded)).take(count);
                assert!(
                    found
                        .map(|(key, value)| (key, Vec::from(value)))
                        .eq(expected.map(|(key, value)| (key.clone(), value.clone())))
                );
            }
        }
    }

    fn flush(&mut self, entries: Map) {
        if let Some(table) = self.index.build(entries.clone()).expect("builds") {
            self.index.install(Some(table), &[]);
        }
        for (key, value) in entries {
            match value {
                Some(value) => self.model.insert(key, value),
                None => self.model.remove(&key),
            };
        }
    }

    fn check(&self) {
        for (key, value) in &self.model {
            assert_eq!(self.index.get(key).expect("reads").as_deref(), Some(&value[..]));
            let absent = [&key[..], b"\0"].concat();
            assert_eq!(
                self.index.get(&absent).expect("reads").as_deref(),
                self.model.get(&absent).map(|v| &v[..])
            );
        }
        for n in 0..=u8::MAX {
            let key = format!("blob/{n:03}").into_bytes();
            assert_eq!(self.index.get(&key).expect("reads").as_deref(), self.model.get(&key).map(|v| &v[..]));
        }
        assert!(self.index.verify().iter().all(|report| report.faults.is_empty()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn an_index_is_a_map_that_survives_crashes(steps in vec(steps(), 1..20)) {
        let disk = SimDisk::new(1);
        let mut run = Run { index: open(&disk, Vec::new()), disk, model: BTreeMap::new() };
        for step in steps {
            run.take(step);
        }
        run.check();
    }
}

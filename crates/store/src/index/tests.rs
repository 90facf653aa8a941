mod crash;
mod damage;
mod model;
mod tiers;

use std::{
    collections::BTreeMap,
    ops::Bound::{Excluded, Included, Unbounded},
    sync::Arc,
};

use tyr_sim_env::SimDisk;
use tyr_types::ErrorKind;

use super::*;

type Map = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// Small limits, so that a few entries already make several spans and the cache overflows.
fn small() -> IndexOptions {
    IndexOptions { memory_max: 64 << 10, span_pages: 2, fan_out: 2, ..IndexOptions::default() }
}

fn open(disk: &Arc<SimDisk>, tables: Vec<TableSummary>) -> Index {
    Index::open(disk.clone(), tables, small()).expect("opens")
}

fn key(n: u32) -> Vec<u8> {
    format!("blob/{n:06}").into_bytes()
}

fn value(n: u32) -> Vec<u8> {
    format!("value of {n} {}", "x".repeat(n as usize % 100)).into_bytes()
}

fn range(range: std::ops::Range<u32>) -> impl Iterator<Item = (Vec<u8>, Option<Vec<u8>>)> {
    range.map(|n| (key(n), Some(value(n))))
}

fn flush<I: IntoIterator<Item = (Vec<u8>, Option<Vec<u8>>)>>(index: &Index, entries: I) -> TableSummary {
    let table = index.build(entries).expect("builds").expect("has entries");
    let summary = table.summary();
    index.install(Some(table), &[]);
    summary
}

/// Merges, installs, and removes as the store does. Returns whether a table is left.
fn carry_out(index: &Index, merge: &Merge) -> bool {
    let merged = index.merge(merge, &|_| true).expect("merges");
    let left = merged.is_some();
    index.install(merged, merge.tables());
    index.remove_files(merge.tables()).expect("removes");
    left
}

fn scanned(index: &Index, from: Bound<&[u8]>) -> Vec<(Vec<u8>, Vec<u8>)> {
    index.scan(from).map(|entry| entry.map(|(key, value)| (key, value.into())).expect("reads")).collect()
}

fn get(index: &Index, n: u32) -> Option<Vec<u8>> {
    index.get(&key(n)).expect("reads").map(Vec::from)
}

#[test]
fn an_empty_index_has_nothing() {
    let index = open(&SimDisk::new(1), Vec::new());
    assert_eq!((get(&index, 1), scanned(&index, Unbounded)), (None, Vec::new()));
    assert!(index.build(range(0..0)).expect("builds").is_none());
    assert!(index.plan_merge().is_none() && index.plan_full_merge().is_none() && index.verify().is_empty());
    assert_eq!(index.stats(), IndexStats::default());
}

#[test]
fn a_table_of_many_spans_is_found_scanned_and_reopened() {
    let disk = SimDisk::new(1);
    let summary = flush(&open(&disk, Vec::new()), range(0..5000));
    let index = open(&disk, vec![summary]);
    assert!(index.snapshot()[0].table().root().len() > 10, "one span would not test much");
    assert_eq!((summary.entries, summary.tombstones), (5000, 0));
    for n in (0..5000).step_by(7) {
        assert_eq!(get(&index, n), Some(value(n)));
    }
    assert_eq!((get(&index, 5000), index.get(b"").expect("reads")), (None, None));
    let expected: Vec<_> = (0..5000).map(|n| (key(n), value(n))).collect();
    assert_eq!(scanned(&index, Unbounded), expected);
    for n in (0..5000).step_by(613) {
        assert_eq!(scanned(&index, Included(&key(n))), expected[n as usize..]);
        assert_eq!(scanned(&index, Excluded(&key(n))), expected[n as usize + 1..]);
    }
    assert_eq!(scanned(&index, Included(b"blob/")), expected);
    assert_eq!(scanned(&index, Included(&key(4999))), expected[4999..]);
    assert_eq!(scanned(&index, Excluded(&key(4999))), []);
    let [report] = &index.verify()[..] else { panic!("one table") };
    assert_eq!((report.id, &report.faults[..]), (summary.id, &[][..]));
    assert!(report.pages > 20);
}

#[test]
fn the_newest_table_decides_and_tombstones_hide() {
    let index = open(&SimDisk::new(1), Vec::new());
    flush(&index, range(0..10));
    flush(&index, [(key(3), None), (key(4), Some(b"new".to_vec())), (key(20), None)]);
    assert_eq!([3, 4, 5, 20].map(|n| get(&index, n)), [None, Some(b"new".to_vec()), Some(value(5)), None]);
    assert_eq!(scanned(&index, Unbounded).len(), 9);
    flush(&index, [(key(3), Some(b"again".to_vec()))]);
    assert_eq!(get(&index, 3), Some(b"again".to_vec()));
    assert_eq!(index.stats().tombstones, 2);
}

#[test]
fn keys_and_values_of_every_size_come_back() {
    let index = open(&SimDisk::new(1), Vec::new());
    let sizes = [0, 1, 127, 128, 4000, 4080, 4096, 70_000, 1 << 20, ENTRY_VALUE_SIZE_MAX];
    let mut entries: Map = BTreeMap::new();
    for (n, size) in (0_u8..).zip(sizes) {
        entries.insert(vec![n; size.min(ENTRY_KEY_SIZE_MAX)], Some(vec![n; size]));
        entries.insert([vec![7; 4200], vec![n]].concat(), Some(vec![n]));
        entries.insert([vec![9; ENTRY_KEY_SIZE_MAX - 1], vec![n]].concat(), None);
    }
    let summary = flush(&index, entries.clone());
    assert_eq!(summary.entries, entries.len() as u64);
    for (key, value) in &entries {
        assert_eq!(&index.get(key).expect("reads").map(Vec::from), value, "a key of {} bytes", key.len());
    }
    let live: Vec<_> = entries.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
    assert!(scanned(&index, Unbounded) == live);
    assert_eq!(index.verify()[0].faults, []);
}

#[test]
fn entries_that_are_too_long_or_out_of_order_leave_no_file() {
    let disk = SimDisk::new(1);
    let index = open(&disk, Vec::new());
    let kind = |entries: Vec<(Vec<u8>, Option<Vec<u8>>)>| {
        // Enough before it that the file exists.
        let before = (0..2).map(|n| (vec![n], Some(vec![0; ENTRY_VALUE_SIZE_MAX])));
        index.build(before.chain(entries)).map(|_| ()).expect_err("is refused").kind()
    };
    assert_eq!(kind(vec![(vec![5; ENTRY_KEY_SIZE_MAX + 1], None)]), ErrorKind::Invalid);
    assert_eq!(kind(vec![(vec![5], Some(vec![0; ENTRY_VALUE_SIZE_MAX + 1]))]), ErrorKind::Invalid);
    assert_eq!(kind(vec![(vec![5], None), (vec![5], None)]), ErrorKind::Internal);
    assert_eq!(kind(vec![(vec![5], None), (vec![4], None)]), ErrorKind::Internal);
    assert!(disk.operations() > 0 && disk.names().expect("lists").is_empty());
}

#[test]
fn a_merge_keeps_tombstones_only_while_older_tables_remain() {
    let index = open(&SimDisk::new(1), Vec::new());
    let oldest = flush(&index, range(0..100));
    let middle = flush(&index, (0..50).map(|n| (key(n), None)));
    let newest = flush(&index, range(0..10));
    let merge = Merge::of(&[newest, middle]);
    let merged = index.merge(&merge, &|_| true).expect("merges").expect("has entries");
    assert_eq!((merged.summary().entries, merged.summary().tombstones), (50, 40));
    index.install(Some(merged), merge.tables());
    assert_eq!(index.tables().last(), Some(&oldest));
    assert_eq!(scanned(&index, Unbounded).len(), 60);
    assert!(carry_out(&index, &index.plan_full_merge().expect("has tables")));
    assert_eq!((index.stats().entries, index.stats().tombstones), (60, 0));
    assert_eq!([9, 10, 49, 50].map(|n| get(&index, n).is_some()), [true, false, false, true]);
}

#[test]
fn a_merge_drops_keys_that_are_not_kept() {
    let index = open(&SimDisk::new(1), Vec::new());
    flush(&index, range(0..100));
    flush(&index, range(50..150));
    let merge = index.plan_full_merge().expect("has tables");
    let merged = index.merge(&merge, &|key| key >= b"blob/000120".as_slice()).expect("merges");
    index.install(merged, merge.tables());
    assert_eq!(scanned(&index, Unbounded), (120..150).map(|n| (key(n), value(n))).collect::<Vec<_>>());
    let merge = index.plan_full_merge().expect("has a table");
    let merged = index.merge(&merge, &|_| false).expect("merges");
    assert!(merged.is_none());
    index.install(merged, merge.tables());
    assert_eq!((index.tables(), scanned(&index, Unbounded)), (Vec::new(), Vec::new()));
}

#[test]
fn a_flush_during_a_merge_stays_in_front_of_it() {
    let index = open(&SimDisk::new(1), Vec::new());
    flush(&index, range(0..10));
    flush(&index, range(5..15));
    let merge = index.plan_merge().expect("two tables of a size");
    let merged = index.merge(&merge, &|_| true).expect("merges");
    let flushed = flush(&index, [(key(7), None)]);
    index.install(merged, merge.tables());
    assert_eq!((index.tables()[0], index.tables().len()), (flushed, 2));
    assert_eq!(get(&index, 7), None);
}

#[test]
#[should_panic(expected = "only a run of visible tables")]
fn what_is_not_side_by_side_cannot_be_replaced() {
    let index = open(&SimDisk::new(1), Vec::new());
    let [a, _, c] = [0, 1, 2].map(|n| flush(&index, range(n..n + 1)));
    index.install(None, &[c.id, a.id]);
}

#[test]
fn a_scan_goes_on_in_tables_that_were_replaced_and_removed() {
    let index = open(&SimDisk::new(1), Vec::new());
    flush(&index, range(0..3000));
    flush(&index, (0..3000).step_by(2).map(|n| (key(n), None)));
    let mut scan = index.scan(Unbounded);
    let first = scan.next().expect("has entries").expect("reads");
    assert!(carry_out(&index, &index.plan_full_merge().expect("has tables")));
    flush(&index, (0..3000).map(|n| (key(n), None)));
    assert_eq!(first.0, key(1));
    let rest: Vec<_> = scan.map(|entry| entry.expect("reads").0).collect();
    assert_eq!(rest, (3..3000).step_by(2).map(key).collect::<Vec<_>>());
    assert_eq!(scanned(&index, Unbounded), []);
}

#[test]
fn threads_read_while_tables_are_merged() {
    let index = open(&SimDisk::new(1), Vec::new());
    flush(&index, range(0..2000));
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let index = &index;
            scope.spawn(move || {
                for n in (0..2000).cycle().skip(thread * 500).take(3000) {
                    assert_eq!(get(index, n), Some(value(n)));
                }
            });
        }
        for n in 0..20 {
            flush(&index, range(n * 100..n * 100 + 100));
            if let Some(merge) = index.plan_merge() {
                carry_out(&index, &merge);
            }
        }
    });
    assert_eq!(scanned(&index, Unbounded).len(), 2000);
}

#[test]
fn memory_stays_within_its_bound() {
    let index = open(&SimDisk::new(1), Vec::new());
    flush(&index, range(0..20_000));
    let stats = || index.stats();
    assert!(stats().bytes > 20 * small().memory_max);
    for n in 0..20_000 {
        assert_eq!(get(&index, n * 7919 % 20_000), Some(value(n * 7919 % 20_000)));
        assert!(stats().memory_used <= small().memory_max);
    }
    assert!(stats().memory_used > small().memory_max / 2 && stats().cache_misses > 10_000);
    for _ in 0..100 {
        get(&index, 5);
    }
    assert!(stats().cache_hits >= 200);
}

#[test]
fn spans_of_the_newest_tables_stay_in_memory_as_long_as_half_of_it_suffices() {
    let index = open(&SimDisk::new(1), Vec::new());
    for table in 0..30 {
        flush(&index, range(table * 20..table * 20 + 50));
    }
    for n in (0..630).cycle().take(2000) {
        assert_eq!(get(&index, n), Some(value(n)));
        assert!(index.stats().memory_used <= small().memory_max, "{:?}", index.stats());
    }
    let resident: Vec<_> = index.snapshot().iter().map(|visible| visible.resident(0).is_some()).collect();
    assert!(resident.is_sorted_by(|newer, older| newer >= older), "{resident:?}");
    assert!(resident[0] && !resident[29], "{resident:?}");
}

#[test]
fn an_index_without_memory_is_slow_but_right() {
    let options = IndexOptions { memory_max: 0, ..small() };
    let index = Index::open(SimDisk::new(1), Vec::new(), options).expect("opens");
    flush(&index, range(0..1000));
    assert!((0..1000).all(|n| get(&index, n) == Some(value(n))));
    assert_eq!(scanned(&index, Included(&key(10))).len(), 990);
    assert!(index.stats().cache_misses > 1000);
}

#[test]
fn absent_keys_cost_no_page() {
    let index = Index::open(SimDisk::new(1), Vec::new(), IndexOptions::default()).expect("opens");
    flush(&index, range(0..10_000).filter(|(key, _)| key.last() != Some(&b'5')));
    let absent = (0..1000).map(|n| n * 10 + 5);
    assert!(absent.clone().all(|n| get(&index, n).is_none()));
    assert!(index.stats().cache_misses < 20, "{:?}", index.stats());
}

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names
}

#[test]
fn files_that_the_manifest_does_not_name_are_removed_and_others_kept() {
    let disk = SimDisk::new(1);
    let kept = flush(&open(&disk, Vec::new()), range(0..10));
    for name in ["table-77", "table-077", "table-x", "segment-1"] {
        disk.write_file(name, b"something").expect("writes");
    }
    let index = open(&disk, vec![kept]);
    let names = ["segment-1", &kept.id.file_name(), "table-077", "table-x"].map(String::from);
    assert_eq!(sorted(disk.names().expect("lists")), names);
    assert_eq!(flush(&index, range(0..1)).id, TableId(78));
}

#[test]
fn options_out_of_bounds_are_refused() {
    let refused = |options: IndexOptions| {
        let opened = Index::open(SimDisk::new(1), Vec::new(), options);
        opened.err().map(|error| error.kind()) == Some(ErrorKind::Invalid)
    };
    for page_size in [0, 4095, 6000, 36 << 10] {
        assert!(refused(IndexOptions { page_size, ..small() }));
    }
    assert!(
        refused(IndexOptions { filter_bits: 0, ..small() })
            && refused(IndexOptions { filter_bits: 33, ..small() })
    );
    assert!(
        refused(IndexOptions { fan_out: 1, ..small() })
            && refused(IndexOptions { span_pages: 129, ..small() })
    );
}

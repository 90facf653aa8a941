//! Which merges are planned, without files.

use super::*;

const MIB: u64 = 1 << 20;

fn table(id: u64, mib: u64) -> TableSummary {
    TableSummary { id: TableId(id), entries: mib * 10_000, tombstones: 0, bytes: mib * MIB, checksum: 0 }
}

/// The newest first, with ids that say where they are in the list.
fn tables(sizes: &[u64]) -> Vec<TableSummary> {
    sizes.iter().enumerate().map(|(place, mib)| table(place as u64, *mib)).collect()
}

fn planned(sizes: &[u64]) -> Option<Vec<u64>> {
    let merge = merge::plan(&tables(sizes), 4)?;
    Some(merge.tables().iter().map(|id| id.0).collect())
}

#[test]
fn tables_of_a_size_are_merged_when_there_are_enough() {
    assert_eq!(planned(&[1, 1, 1]), None);
    assert_eq!(planned(&[1, 2, 1, 4]), Some(vec![0, 1, 2, 3]));
    assert_eq!(planned(&[1, 1, 1, 1, 16, 16, 16, 16]), Some(vec![0, 1, 2, 3]));
    assert_eq!(planned(&[1, 1, 1, 16, 16, 16, 16]), Some(vec![3, 4, 5, 6]));
    assert_eq!(planned(&[1, 1, 1, 16, 16, 16, 200, 200, 200, 900]), None);
}

#[test]
fn a_small_table_behind_larger_ones_counts_as_one_of_them() {
    assert_eq!(planned(&[1, 16, 1, 16, 1]), Some(vec![1, 2, 3, 4]));
    assert_eq!(planned(&[16, 1, 1]), None);
}

#[test]
fn not_too_many_are_merged_at_once() {
    let all: Vec<u64> = vec![1; 50];
    assert_eq!(planned(&all), Some((34..50).collect()));
}

#[test]
fn everything_is_merged_when_most_of_it_is_tombstones() {
    let mut tables = tables(&[1, 1]);
    tables[0].tombstones = tables[0].entries;
    assert_eq!(merge::plan(&tables, 8), None);
    tables[1].tombstones = 1;
    assert_eq!(merge::plan(&tables, 8), merge::plan_full(&tables));
    assert!(merge::plan_full(&tables).is_some());
}

#[test]
fn rewriting_and_the_number_of_tables_grow_with_the_logarithm() {
    let mut tables: Vec<TableSummary> = Vec::new();
    let mut written = 0;
    let mut most = 0;
    for flush in 0..4096 {
        tables.insert(0, table(flush, 4));
        while let Some(merge) = merge::plan(&tables, 8) {
            let start = tables.iter().position(|table| table.id == merge.tables()[0]).expect("is there");
            written += merge.bytes() / MIB;
            let merged = table(1_000_000 + flush, merge.bytes() / MIB);
            tables.splice(start..start + merge.tables().len(), [merged]);
        }
        most = most.max(tables.len());
    }
    assert_eq!(tables.len(), 1);
    assert_eq!(written, 4 * 4096 * 4, "4096 is the fourth power of the fan-out");
    assert!(most <= 7 * 4, "{most}");
}

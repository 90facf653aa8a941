//! Crashes and failures at every operation that changes the disk.

use tyr_sim_env::{CrashMode, Fault};

use super::*;

/// Enough entries that a table takes several writes.
const COUNT: u32 = 20_000;

/// What the store does with the index, with a manifest that is always durable.
struct Life {
    disk: Arc<SimDisk>,
    manifest: Vec<TableSummary>,
}

impl Life {
    /// Two tables that overlap.
    fn new() -> Self {
        let disk = SimDisk::new(7);
        let index = open(&disk, Vec::new());
        flush(&index, range(0..COUNT));
        flush(&index, (0..COUNT).step_by(2).map(|n| (key(n), None)));
        Life { manifest: index.tables(), disk }
    }

    fn copy(&self) -> Self {
        Life { disk: self.disk.snapshot(), manifest: self.manifest.clone() }
    }

    /// Merges the two and flushes another one.
    fn run(&mut self) -> Result<()> {
        let index = Index::open(self.disk.clone(), self.manifest.clone(), small())?;
        let merge = index.plan_full_merge().expect("there are tables");
        let merged = index.merge(&merge, &|_| true)?;
        self.manifest = merged.iter().map(NewTable::summary).collect();
        index.install(merged, merge.tables());
        let removed = index.remove_files(merge.tables());
        let flushed = index.build((0..COUNT).step_by(2).map(|n| (key(n), Some(value(n)))))?;
        self.manifest.splice(0..0, flushed.iter().map(NewTable::summary));
        index.install(flushed, &[]);
        removed
    }

    /// Opens what is there now, and returns the keys.
    fn reopen(&self, disk: &Arc<SimDisk>) -> Result<Vec<Vec<u8>>> {
        let index = Index::open(disk.clone(), self.manifest.clone(), small())?;
        let files = self.manifest.iter().map(|table| table.id.file_name());
        assert_eq!(sorted(disk.names().expect("lists")), sorted(files.collect()));
        index.scan(Unbounded).map(|entry| entry.map(|(key, _)| key)).collect()
    }

    /// The keys that the manifest stands for.
    fn expected(&self) -> Vec<Vec<u8>> {
        let flushed = self.manifest.len() == 2 && self.manifest[0].tombstones == 0;
        (0..COUNT).filter(|n| flushed || n % 2 == 1).map(key).collect()
    }
}

fn operations() -> u64 {
    let mut life = Life::new().copy();
    life.run().expect("nothing fails");
    assert_eq!(life.reopen(&life.disk).expect("opens"), life.expected());
    assert_eq!(life.expected().len(), COUNT as usize);
    life.disk.operations()
}

#[test]
fn after_a_crash_at_any_operation_the_index_is_what_the_manifest_names() {
    let (life, operations) = (Life::new(), operations());
    assert!(operations > 10, "several writes, syncs, and removals are tested: {operations}");
    for operation in 0..operations {
        let mut life = life.copy();
        life.disk.fail_at(operation, Fault::Crash);
        life.run().expect_err("crashes");
        for mode in CrashMode::ALL {
            let disk = life.disk.crash(mode);
            assert_eq!(life.reopen(&disk).expect("opens"), life.expected(), "{operation}, {mode:?}");
        }
    }
}

#[test]
fn after_a_failure_of_any_operation_the_index_is_what_the_manifest_names() {
    let (life, operations) = (Life::new(), operations());
    for operation in 0..operations {
        for (fault, kind) in [(Fault::Error, ErrorKind::Unavailable), (Fault::Full, ErrorKind::Full)] {
            let mut life = life.copy();
            life.disk.fail_at(operation, fault);
            assert_eq!(life.run().expect_err("fails").kind(), kind);
            assert_eq!(life.reopen(&life.disk).expect("opens"), life.expected(), "{operation}");
        }
    }
}

#[test]
fn a_failed_build_leaves_no_file_and_the_next_one_succeeds() {
    let life = Life::new();
    let index = open(&life.disk, life.manifest.clone());
    let names = life.disk.names().expect("lists").len();
    for operation in 0..6 {
        life.disk.fail_at(life.disk.operations() + operation, Fault::Full);
        index.build(range(0..COUNT)).map(|_| ()).expect_err("the disk is full");
        assert_eq!((life.disk.names().expect("lists").len(), life.disk.faults_pending()), (names, 0));
    }
    flush(&index, range(0..COUNT));
    assert_eq!(scanned(&index, Unbounded).len(), COUNT as usize);
}

#[test]
fn a_write_that_is_lost_or_lands_elsewhere_is_noticed_by_every_reader() {
    let (life, operations) = (Life::new(), operations());
    let mut noticed = 0;
    for operation in 0..operations {
        for fault in [Fault::LostWrite, Fault::MisdirectedWrite(None)] {
            let mut life = life.copy();
            life.disk.fail_at(operation, fault);
            let found = life.run().and_then(|()| life.reopen(&life.disk));
            match found {
                Ok(keys) => assert_eq!(keys, life.expected()),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
                    noticed += 1;
                }
            }
        }
    }
    assert!(noticed > 4, "{noticed}");
}

#[test]
fn a_block_that_cannot_be_read_fails_only_what_needs_it() {
    let life = Life::new();
    let table = life.manifest[1].id;
    life.disk.fail_reads(&table.file_name(), 0..1).expect("is there");
    let index = open(&life.disk, life.manifest.clone());
    assert_eq!(index.get(&key(1)).expect_err("cannot be read").kind(), ErrorKind::Unavailable);
    assert_eq!(get(&index, COUNT - 1), Some(value(COUNT - 1)));
    assert_eq!(index.verify().iter().map(|report| report.faults.len()).collect::<Vec<_>>(), [0, 1]);
    life.disk.heal_reads();
    assert_eq!(get(&index, 1), Some(value(1)));
}

//! Looks at everything that the demonstration has in the store, and says whether it is what may be there: whole batches,
//! once each, nothing of any other, and cells that are the sums of exactly these rows.

use std::collections::BTreeSet;

use tyr_client::blocking::{Keyspace, Snapshot, Store};

use super::{
    events::Series,
    ledger::{BATCH_PREFIX, Batch, Cell, KEYSPACE, Ledger, STREAM_PREFIX, batch_key, series_key},
};
use crate::failure::Result;

/// What was found.
#[derive(Debug, Default)]
pub struct Inspection {
    /// The batches whose markers are there.
    pub batches: BTreeSet<Batch>,
    /// Rows in the streams.
    pub rows: usize,
    /// Bytes in the streams.
    pub bytes: u64,
    /// Cells that have a value, over all series.
    pub cells: usize,
    /// What should not be, in sentences; not all of it if it is much.
    pub faults: Vec<String>,
}

/// Faults that are described; more are as bad.
const FAULTS_MAX: usize = 10;

/// The cells of every series.
type Cells = [Vec<Cell>; Series::ALL.len()];

/// Inspects the store. All that is read is of one snapshot.
pub fn inspect(store: &Store, ledger: &Ledger) -> Result<Inspection> {
    let keyspace = store.keyspace(KEYSPACE)?;
    let snapshot = store.snapshot(&[&keyspace])?;
    let mut inspector = Inspector {
        keyspace: &keyspace,
        snapshot: &snapshot,
        ledger,
        rows_seen: vec![false; ledger.events.len()],
        cells: empty_cells(),
        found: Inspection::default(),
    };
    inspector.read_markers()?;
    inspector.read_streams()?;
    inspector.compare_batches();
    let cells = std::mem::replace(&mut inspector.cells, empty_cells());
    inspector.compare_cells(&cells, "the rows in the store")?;
    Ok(inspector.found)
}

/// Compares the cells with those computed from the files alone.
pub fn compare_with_files(store: &Store, ledger: &Ledger) -> Result<Vec<String>> {
    let keyspace = store.keyspace(KEYSPACE)?;
    let snapshot = store.snapshot(&[&keyspace])?;
    let mut cells = empty_cells();
    for (_, event) in ledger.events.range(0..ledger.events.len()) {
        add(&mut cells, event.series, event.cell, event.value);
    }
    let mut inspector = Inspector {
        keyspace: &keyspace,
        snapshot: &snapshot,
        ledger,
        rows_seen: Vec::new(),
        cells: empty_cells(),
        found: Inspection::default(),
    };
    inspector.compare_cells(&cells, "the files")?;
    Ok(inspector.found.faults)
}

struct Inspector<'a> {
    keyspace: &'a Keyspace,
    snapshot: &'a Snapshot,
    ledger: &'a Ledger,
    rows_seen: Vec<bool>,
    cells: Cells,
    found: Inspection,
}

impl Inspector<'_> {
    fn fault(&mut self, fault: String) {
        if self.found.faults.len() < FAULTS_MAX {
            self.found.faults.push(fault);
        }
    }

    fn read_markers(&mut self) -> Result<()> {
        for key in self.keys(BATCH_PREFIX)? {
            let batch = key.strip_prefix(BATCH_PREFIX).and_then(|number| number.parse::<Batch>().ok());
            let Some(batch) = batch.filter(|batch| *batch < self.ledger.batches()) else {
                self.fault(format!("'{key}' marks no batch"));
                continue;
            };
            if self.snapshot.read(self.keyspace, &key, ..)? != self.ledger.marker(batch).as_bytes() {
                self.fault(format!("the marker of batch {batch} does not describe its rows"));
            }
            self.found.batches.insert(batch);
        }
        Ok(())
    }

    fn read_streams(&mut self) -> Result<()> {
        for key in self.keys(STREAM_PREFIX)? {
            let bytes = self.snapshot.read(self.keyspace, &key, ..)?;
            self.found.bytes += bytes.len() as u64;
            let name = key.strip_prefix(STREAM_PREFIX).unwrap_or_default();
            for line in bytes.split_inclusive(|byte| *byte == b'\n') {
                if let Err(fault) = self.read_row(name, line) {
                    self.fault(format!("'{key}' has {fault}"));
                }
            }
        }
        Ok(())
    }

    /// Takes a row of a stream into account, if it is one.
    fn read_row(&mut self, stream: &str, line: &[u8]) -> Result<(), String> {
        let torn = || format!("a torn row: '{}'", line.escape_ascii());
        let text =
            line.strip_suffix(b"\n").and_then(|line| std::str::from_utf8(line).ok()).ok_or_else(torn)?;
        let mut fields = text.splitn(3, ',');
        let mut number = || fields.next()?.parse::<usize>().ok();
        let (batch, row) = number().zip(number()).ok_or_else(torn)?;
        let events = &self.ledger.events;
        let event = events.event(row).ok_or_else(|| format!("row {row}, which there is not"))?;
        let same = fields.next().map(str::as_bytes) == Some(events.line(event));
        if !same || events.streams()[event.stream] != stream || self.ledger.batch_of(row) != batch {
            return Err(format!("a row {row} of batch {batch} that is not what was written"));
        }
        if std::mem::replace(&mut self.rows_seen[row], true) {
            return Err(format!("row {row} twice"));
        }
        self.found.rows += 1;
        let (series, cell, value) = (event.series, event.cell, event.value);
        add(&mut self.cells, series, cell, value);
        Ok(())
    }

    /// Every batch has its marker and all its rows, or nothing.
    fn compare_batches(&mut self) {
        for batch in 0..self.ledger.batches() {
            let rows = self.ledger.rows(batch);
            let seen = self.rows_seen[rows.clone()].iter().filter(|seen| **seen).count();
            let marked = self.found.batches.contains(&batch);
            if seen != if marked { rows.len() } else { 0 } {
                let (whole, marker) = (rows.len(), if marked { "has" } else { "has no" });
                self.fault(format!(
                    "'{}': {seen} of {whole} rows are there, and it {marker} marker",
                    batch_key(batch)
                ));
            }
        }
    }

    fn compare_cells(&mut self, expected: &Cells, of: &str) -> Result<()> {
        for (series, cells) in Series::ALL.into_iter().zip(expected) {
            let bytes = self.snapshot.read(self.keyspace, series_key(series), ..)?;
            let expected: Vec<u8> = cells.iter().flat_map(|cell| cell.to_bytes()).collect();
            self.found.cells += cells.iter().filter(|cell| **cell != Cell::EMPTY).count();
            if bytes != expected {
                let cell =
                    bytes.iter().zip(&expected).position(|(a, b)| a != b).unwrap_or(0) as u64 / Cell::SIZE;
                self.fault(format!("cell {cell} of '{}' is not the sum of {of}", series_key(series)));
            }
        }
        Ok(())
    }

    /// All keys with the prefix; there are thousands at most.
    fn keys(&self, prefix: &str) -> Result<Vec<String>> {
        let mut keys: Vec<String> = Vec::new();
        loop {
            let after = keys.last().map(String::as_bytes);
            let page = self.snapshot.scan(self.keyspace, prefix, after, 1000)?;
            if page.is_empty() {
                return Ok(keys);
            }
            keys.extend(page.iter().map(|entry| String::from_utf8_lossy(entry.key.as_bytes()).into_owned()));
        }
    }
}

fn empty_cells() -> Cells {
    Series::ALL.map(|series| (0..series.cells()).map(|_| Cell::EMPTY).collect())
}

fn add(cells: &mut Cells, series: Series, cell: u64, value: Option<i64>) {
    let of_series = Series::ALL.iter().position(|other| *other == series).map(|index| &mut cells[index]);
    let cell = of_series.zip(usize::try_from(cell).ok()).and_then(|(cells, cell)| cells.get_mut(cell));
    if let Some(cell) = cell {
        cell.add(value);
    }
}

#[cfg(test)]
mod tests {
    use tyr_client::{Operand, Transform};

    use super::*;
    use crate::demo::{
        events::Events,
        ledger::{Written, batch_key},
    };

    /// A store with all batches of a small ledger.
    fn with_ledger(test: impl FnOnce(&Store, &Keyspace, &Ledger)) {
        let scratch = tempfile::tempdir().expect("a directory");
        let rows =
            (0..50).map(|n| format!("1,{},{},{},5,{n}\n", 1 + n % 9, n - 10, ["UA", "AA"][n as usize % 2]));
        let table = format!("month,day,dep_delay,carrier,hour,minute\n{}", rows.collect::<String>());
        std::fs::write(scratch.path().join("flights.csv"), table).expect("written");
        let ledger = Ledger::new(Events::load(scratch.path()).expect("loads"), 7);
        let store = Store::open(scratch.path().join("store")).expect("opens");
        Ledger::create(&store).expect("creates");
        let keyspace = store.keyspace(KEYSPACE).expect("is there");
        for batch in 0..ledger.batches() {
            assert_eq!(ledger.write(&store, &keyspace, batch), Ok(Written::Now));
            assert_eq!(ledger.write(&store, &keyspace, batch), Ok(Written::Before));
        }
        test(&store, &keyspace, &ledger);
    }

    fn faults(store: &Store, ledger: &Ledger) -> String {
        inspect(store, ledger).expect("reads").faults.join("; ")
    }

    #[test]
    fn whole_batches_have_no_faults() {
        with_ledger(|store, _, ledger| {
            let found = inspect(store, ledger).expect("reads");
            assert_eq!((found.faults, found.batches.len(), found.rows), (vec![], 8, 50));
            assert_eq!(compare_with_files(store, ledger).expect("reads"), Vec::<String>::new());
        });
    }

    #[test]
    fn a_batch_without_marker_is_a_fault() {
        with_ledger(|store, keyspace, ledger| {
            keyspace.delete(batch_key(3)).expect("deletes");
            assert!(faults(store, ledger).contains("7 of 7 rows are there, and it has no marker"));
        });
    }

    #[test]
    fn a_row_too_many_or_too_few_is_a_fault() {
        with_ledger(|store, keyspace, ledger| {
            let stream = keyspace.read("stream/flights/UA", ..).expect("reads");
            let first = stream.split_inclusive(|byte| *byte == b'\n').next().expect("has rows");
            keyspace.append("stream/flights/UA", first).expect("appends");
            assert!(faults(store, ledger).contains("row 0 twice"));
            keyspace.put("stream/flights/UA", &stream[first.len()..]).expect("puts");
            assert!(faults(store, ledger).contains("6 of 7 rows are there, and it has marker"));
            keyspace.put("stream/flights/UA", &stream[1..]).expect("puts");
            assert!(faults(store, ledger).contains("a torn row"));
        });
    }

    #[test]
    fn a_cell_that_is_off_by_one_is_a_fault() {
        with_ledger(|store, keyspace, ledger| {
            let add = Transform::add(Operand::I64(1));
            keyspace.transform("series/delay-by-minute", 300 * Cell::SIZE, add).expect("transforms");
            assert!(faults(store, ledger).contains("cell 300 of 'series/delay-by-minute'"));
            assert!(compare_with_files(store, ledger).expect("reads")[0].contains("the sum of the files"));
        });
    }
}

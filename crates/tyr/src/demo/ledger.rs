//! What the demonstration keeps in the store, all in one keyspace:
//!
//! - `stream/flights/UA`, ...: the rows of the stream, each as `batch,row,` and the row itself, and a newline;
//! - `series/delay-by-minute`, ...: cells of five numbers ([`Cell`]), kept by transforms;
//! - `batch/000042`: that the batch is there, with the number of its rows and their checksum.
//!
//! A batch is one transaction: its marker, its rows, its share of the cells.

use std::{collections::BTreeMap, ops::Range};

use tyr_client::{
    KeyspaceSettings, Operand, Outcome, Result, Transform,
    blocking::{Keyspace, Store, Transaction},
};

use super::events::{Events, Series};

/// The keyspace.
pub const KEYSPACE: &str = "events";
/// What keys of markers begin with.
pub const BATCH_PREFIX: &str = "batch/";
/// What keys of streams begin with.
pub const STREAM_PREFIX: &str = "stream/";

/// The number of a batch.
pub type Batch = usize;

/// The events cut into batches of a fixed number of rows.
pub struct Ledger {
    /// The events.
    pub events: Events,
    batch_rows: usize,
}

/// Sum, count, minimum, and maximum of the values of a time, and the number of events without value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    sum: i64,
    count: u64,
    min: i64,
    max: i64,
    missing: u64,
}

impl Cell {
    /// Bytes of a cell: five little-endian numbers.
    pub const SIZE: u64 = 40;

    /// No value. Minimum and maximum are such that any value replaces them.
    pub const EMPTY: Cell = Cell { sum: 0, count: 0, min: i64::MAX, max: i64::MIN, missing: 0 };

    /// Adds an event.
    pub fn add(&mut self, value: Option<i64>) {
        match value {
            None => self.missing += 1,
            Some(value) => {
                self.sum += value;
                self.count += 1;
                self.min = self.min.min(value);
                self.max = self.max.max(value);
            }
        }
    }

    /// The bytes of the cell.
    pub fn to_bytes(self) -> [u8; 40] {
        let numbers = [
            self.sum.to_le_bytes(),
            self.count.to_le_bytes(),
            self.min.to_le_bytes(),
            self.max.to_le_bytes(),
            self.missing.to_le_bytes(),
        ];
        let mut bytes = [0; 40];
        bytes.as_chunks_mut::<8>().0.copy_from_slice(&numbers);
        bytes
    }

    /// The transforms that add this cell to one in a blob: where in the cell, and what. They commute.
    fn transforms(&self) -> impl Iterator<Item = (u64, Transform)> {
        let values = (self.count > 0).then(|| {
            [
                (0, Transform::add(Operand::I64(self.sum))),
                (8, Transform::add(Operand::U64(self.count))),
                (16, Transform::min(Operand::I64(self.min))),
                (24, Transform::max(Operand::I64(self.max))),
            ]
        });
        let missing = (self.missing > 0).then(|| (32, Transform::add(Operand::U64(self.missing))));
        values.into_iter().flatten().chain(missing)
    }
}

/// Whether a batch was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// Now, and it is durable.
    Now,
    /// Before.
    Before,
}

impl Ledger {
    /// Cuts the events into batches.
    pub fn new(events: Events, batch_rows: usize) -> Self {
        Ledger { events, batch_rows }
    }

    /// How many batches there are.
    pub fn batches(&self) -> usize {
        self.events.len().div_ceil(self.batch_rows)
    }

    /// The rows of a batch.
    pub fn rows(&self, batch: Batch) -> Range<usize> {
        let end = self.events.len();
        (batch * self.batch_rows).min(end)..((batch + 1) * self.batch_rows).min(end)
    }

    /// The batch of a row.
    pub fn batch_of(&self, row: usize) -> Batch {
        row / self.batch_rows
    }

    /// Creates the keyspace and empty series.
    pub fn create(store: &Store) -> Result<()> {
        let keyspace = store.create_keyspace(KEYSPACE, KeyspaceSettings::default())?;
        for series in Series::ALL {
            let cells = (0..series.cells()).flat_map(|_| Cell::EMPTY.to_bytes());
            keyspace.put(series_key(series), cells.collect::<Vec<u8>>())?;
        }
        Ok(())
    }

    /// Writes a batch, unless it is there: as one transaction, acknowledged when this returns.
    pub fn write(&self, store: &Store, keyspace: &Keyspace, batch: Batch) -> Result<Written> {
        loop {
            let mut transaction = store.begin();
            // Whether the batch is there is decided by the same transaction that writes it: if somebody else writes it
            // meanwhile, the commit is refused.
            if transaction.exists(keyspace, batch_key(batch))? {
                return Ok(Written::Before);
            }
            self.fill(&mut transaction, keyspace, batch)?;
            if let Outcome::Committed(_) = transaction.commit()? {
                return Ok(Written::Now);
            }
        }
    }

    fn fill(&self, transaction: &mut Transaction, keyspace: &Keyspace, batch: Batch) -> Result<()> {
        transaction.put(keyspace, batch_key(batch), self.marker(batch))?;
        let mut rows: BTreeMap<usize, Vec<u8>> = BTreeMap::new();
        let mut cells: BTreeMap<(Series, u64), Cell> = BTreeMap::new();
        for (row, event) in self.events.range(self.rows(batch)) {
            let stream = rows.entry(event.stream).or_default();
            stream.extend_from_slice(format!("{batch},{row},").as_bytes());
            stream.extend_from_slice(self.events.line(event));
            stream.push(b'\n');
            cells.entry((event.series, event.cell)).or_insert(Cell::EMPTY).add(event.value);
        }
        for (stream, bytes) in rows {
            transaction.append(
                keyspace,
                format!("{STREAM_PREFIX}{}", self.events.streams()[stream]),
                bytes,
            )?;
        }
        for ((series, index), cell) in cells {
            for (place, transform) in cell.transforms() {
                transaction.transform(keyspace, series_key(series), index * Cell::SIZE + place, transform)?;
            }
        }
        Ok(())
    }

    /// The content of the batch's marker.
    pub fn marker(&self, batch: Batch) -> String {
        let rows = self.rows(batch);
        let lines = self.events.range(rows.clone()).map(|(_, event)| self.events.line(event));
        let checksum = lines.fold(0, tyr_wire::checksum::crc32c_append);
        format!("{} rows, crc32c {checksum:08x}\n", rows.len())
    }
}

/// The key of the batch's marker.
pub fn batch_key(batch: Batch) -> String {
    format!("{BATCH_PREFIX}{batch:06}")
}

/// The key of the series.
pub fn series_key(series: Series) -> String {
    format!("series/{}", series.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transforms_do_what_adding_does() {
        let (mut whole, mut first, mut second) = (Cell::EMPTY, Cell::EMPTY, Cell::EMPTY);
        for value in [Some(5), None, Some(-3)] {
            whole.add(value);
            first.add(value);
        }
        for value in [Some(7), None] {
            whole.add(value);
            second.add(value);
        }
        let mut bytes = first.to_bytes();
        for (place, transform) in second.transforms() {
            let place = usize::try_from(place).expect("small");
            let old =
                Operand::from_le_bytes(transform.number_type(), &bytes[place..place + 8]).expect("8 bytes");
            bytes[place..place + 8].copy_from_slice(&transform.apply(old).to_le_bytes());
        }
        assert_eq!(bytes, whole.to_bytes());
    }
}

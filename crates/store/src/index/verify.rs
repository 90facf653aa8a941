//! Reads all of a table and tests everything that a correct table fulfils.

use std::cmp::Ordering;

use tyr_types::{Error, Result};
use tyr_wire::{
    Malformed,
    table::{Entries, Span, SpanPlace, TableId, key_hash},
};

use super::table::Table;

/// What was found when a table was verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableReport {
    /// The table.
    pub id: TableId,
    /// How many pages were read.
    pub pages: u64,
    /// What is wrong, at most 16 findings; none if the table is as it was written.
    pub faults: Vec<Error>,
}

/// After so many findings the rest of a table is not read.
const FAULTS_MAX: usize = 16;

/// Verifies the table.
pub(super) fn verify(table: &Table) -> TableReport {
    let mut walk = Walk {
        table,
        report: TableReport { id: table.id(), pages: 0, faults: Vec::new() },
        last_key: None,
        entries: 0,
        tombstones: 0,
    };
    if let Err(error) = walk.root() {
        walk.report.faults.push(error);
    }
    for index in 0..table.root().len() {
        walk.span(index);
    }
    if walk.report.faults.is_empty()
        && let Err(error) = walk.totals()
    {
        walk.report.faults.push(error);
    }
    walk.report
}

struct Walk<'a> {
    table: &'a Table,
    report: TableReport,
    /// The largest key so far; none after a fault.
    last_key: Option<Vec<u8>>,
    entries: u64,
    tombstones: u64,
}

impl Walk<'_> {
    fn root(&self) -> Result<()> {
        let (read, held) = (self.table.read_root()?, self.table.root());
        let same_spans = read.len() == held.len()
            && (0..read.len())
                .all(|n| read.span(n) == held.span(n) && read.separator(n) == held.separator(n));
        if same_spans && read.largest() == held.largest() {
            return Ok(());
        }
        Err(self.table.damaged(held.blocks(), Malformed("the root has changed since it was opened")))
    }

    fn span(&mut self, index: usize) {
        let place = self.table.root().span(index);
        let span = match self.table.read_span(place) {
            Ok(span) => span,
            Err(error) => return self.fault(error),
        };
        if span.separator(0).ok() != Some(self.table.root().separator(index)) {
            let malformed = Malformed("the span begins elsewhere than the root says");
            self.fault(self.table.damaged(place.span_block(), malformed));
        }
        for page in 0..span.len() {
            if self.report.faults.len() >= FAULTS_MAX {
                return;
            }
            if let Err(error) = self.page(place, &span, page) {
                self.fault(error);
            }
        }
    }

    fn page(&mut self, place: SpanPlace, span: &Span, index: usize) -> Result<()> {
        let (block, blocks) = self.table.page_place(place, span, index)?;
        let bytes = self.table.read(block, blocks)?;
        let content = self.table.open_part(bytes.as_bytes(), block, Ok)?;
        self.report.pages += 1;
        self.entries(span, index, content).map_err(|malformed| self.table.damaged(block, malformed))
    }

    fn entries(&mut self, span: &Span, index: usize, content: &[u8]) -> Result<(), Malformed> {
        let separator = span.separator(index)?;
        if self.last_key.as_ref().is_some_and(|last| *last >= separator) {
            return Err(Malformed("a page begins before the one before it ends"));
        }
        let entries = Entries::decode(content)?;
        entries.check()?;
        let mut key = Vec::new();
        for index in 0..entries.len() {
            let entry = entries.entry(index)?;
            key.clear();
            key.extend_from_slice(entries.prefix());
            key.extend_from_slice(entry.suffix);
            if index == 0 && key < separator {
                return Err(Malformed("a page begins before its separator"));
            }
            if !span.filter().may_contain(key_hash(&key)) {
                return Err(Malformed("the filter does not know a key"));
            }
            self.entries += 1;
            self.tombstones += u64::from(entry.value.is_none());
        }
        self.last_key = Some(key);
        Ok(())
    }

    /// Only meaningful if everything could be read.
    fn totals(&self) -> Result<()> {
        let summary = self.table.summary();
        let counts_agree = (self.entries, self.tombstones) == (summary.entries, summary.tombstones);
        let largest = self.last_key.as_deref().map(|key| key.cmp(self.table.root().largest()));
        if counts_agree && largest == Some(Ordering::Equal) {
            return Ok(());
        }
        let block = self.table.root().blocks();
        Err(self.table.damaged(block, Malformed("the entries are not those that the table is said to have")))
    }

    fn fault(&mut self, error: Error) {
        self.last_key = None;
        if self.report.faults.len() < FAULTS_MAX {
            self.report.faults.push(error);
        }
    }
}

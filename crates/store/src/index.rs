//! The index on disk: immutable sorted tables, the newest first.
//!
//! The index maps keys to values, both plain bytes. It is only a cache of the log: its owner writes what has
//! changed since the last time as one more table, names all tables in a manifest, and can always build them anew.
//! Tables of similar size that lie side by side in age are merged, so there are never many.
//!
//! Invariants:
//! - A table is durable, content and name, before it can become visible, and it never changes.
//! - The first table that has a key decides; a tombstone hides what older tables say.
//! - A reader sees the list of tables as it was when the read began, whatever is installed or removed meanwhile.
//! - Memory is bounded by [`IndexOptions::memory_max`], however much is stored.
//!
//! There is no manifest here, no thread, and no clock: the owner decides which tables exist, when something is written
//! or merged, and where that runs. All functions may be called from many threads at once, but only one merge at a time
//! makes sense. Bytes are those of `tyr_wire::table`.

mod cache;
mod cursor;
mod fault;
mod merge;
mod options;
mod scan;
mod table;
mod verify;
mod visible;
mod writer;

use std::{
    ops::Bound,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::RwLock;
use rustc_hash::FxHashSet;
use tyr_env::Disk;
use tyr_types::{Error, Result};
use tyr_wire::table::key_hash;
pub use tyr_wire::table::{ENTRY_KEY_SIZE_MAX, ENTRY_VALUE_SIZE_MAX, TableId, TableSummary};

use self::{
    cache::Cache,
    cursor::{Cursor, Reading},
    scan::Merged,
    table::Table,
    visible::{Lookup, Visible},
    writer::TableWriter,
};
pub use self::{
    merge::Merge,
    options::{IndexOptions, IndexStats},
    scan::Scan,
    verify::TableReport,
    writer::NewTable,
};

/// The tables of one storage target.
pub struct Index {
    disk: Arc<dyn Disk>,
    options: IndexOptions,
    /// The newest first. Replaced as a whole.
    tables: RwLock<Arc<[Visible]>>,
    cache: Arc<Cache>,
    next_id: AtomicU64,
}

impl Index {
    /// Opens the tables that the manifest names, the newest first, and removes the files of all others, which a crash
    /// has left behind.
    ///
    /// Fails with [`tyr_types::ErrorKind::Corrupt`] if one is missing or damaged, and with
    /// [`tyr_types::ErrorKind::Invalid`] if one was written by a newer program.
    pub fn open(disk: Arc<dyn Disk>, tables: Vec<TableSummary>, options: IndexOptions) -> Result<Self> {
        options.check()?;
        let named: FxHashSet<TableId> = tables.iter().map(|summary| summary.id).collect();
        if named.len() != tables.len() {
            return Err(Error::corrupt("the manifest names an index table twice"));
        }
        let on_disk = table_files(&*disk)?;
        let newest = on_disk.iter().max();
        let next_id = AtomicU64::new(newest.map_or(0, |id| id.0.saturating_add(1)));
        let opened = tables.into_iter().map(|summary| Table::open(&*disk, summary).map(Arc::new));
        let tables = Visible::list(opened.collect::<Result<_>>()?, &[], options.memory_max);
        for id in on_disk.difference(&named) {
            remove_file(&*disk, *id)?;
        }
        let cache = Arc::new(Cache::new(options.memory_max, &tables));
        Ok(Index { disk, options, tables: RwLock::new(tables), cache, next_id })
    }

    /// An index without tables, beside the files of others, which stay until [`Index::remove_others`].
    pub fn anew(disk: Arc<dyn Disk>, options: IndexOptions) -> Result<Self> {
        options.check()?;
        let newest = table_files(&*disk)?.into_iter().max();
        let next_id = AtomicU64::new(newest.map_or(0, |id| id.0.saturating_add(1)));
        let tables = Visible::list(Vec::new(), &[], options.memory_max);
        let cache = Arc::new(Cache::new(options.memory_max, &tables));
        Ok(Index { disk, options, tables: RwLock::new(tables), cache, next_id })
    }

    /// Removes the files of all tables that are not visible. To be called when the manifest names those that are, and nobody is writing
    /// another.
    pub fn remove_others(&self) -> Result<()> {
        let visible: FxHashSet<TableId> = self.tables().iter().map(|summary| summary.id).collect();
        table_files(&*self.disk)?.difference(&visible).try_for_each(|id| remove_file(&*self.disk, *id))
    }

    /// The value of the key, if it has one.
    pub fn get(&self, key: &[u8]) -> Result<Option<Box<[u8]>>> {
        let hash = key_hash(key);
        for table in &*self.snapshot() {
            match table.lookup(&self.cache, key, hash)? {
                Lookup::Absent => {}
                Lookup::Deleted => return Ok(None),
                Lookup::Value(value) => return Ok(Some(value)),
            }
        }
        Ok(None)
    }

    /// All keys that have a value, in order from the bound on, as they are now. An error ends the scan.
    pub fn scan(&self, from: Bound<&[u8]>) -> Scan {
        let tables = self.snapshot();
        let cursors = tables.iter().map(|table| {
            let mut cursor = Cursor::new(table.clone(), self.cache.clone(), Reading::Scan);
            cursor.seek(from)?;
            Ok(cursor)
        });
        Scan::new(cursors.collect::<Result<_>>().and_then(Merged::new))
    }

    /// Writes the entries to a new table, which is durable on return, but not visible until it is
    /// [installed](Self::install). No value makes a tombstone. No entries make no table.
    ///
    /// Memory is bounded, whatever the number of entries. Fails with [`tyr_types::ErrorKind::Internal`] if the keys do
    /// not ascend strictly, and with [`tyr_types::ErrorKind::Invalid`] if a key or value is too long. After a failure
    /// no table is left.
    pub fn build<K, V>(&self, entries: impl IntoIterator<Item = (K, Option<V>)>) -> Result<Option<NewTable>>
    where
        K: AsRef<[u8]>,
        V: AsRef<[u8]>,
    {
        let mut writer = self.writer();
        for (key, value) in entries {
            writer.push(key.as_ref(), value.as_ref().map(AsRef::as_ref))?;
        }
        writer.finish()
    }

    /// Makes a table visible, in one step with hiding those that it replaces: in front of all others if it replaces
    /// none, else in their place. To be called when the manifest says the same.
    ///
    /// # Panics
    ///
    /// If what is replaced is not a run of visible tables.
    pub fn install(&self, added: Option<NewTable>, replaced: &[TableId]) {
        let mut tables = self.tables.write();
        let run = merge::run_of(&tables, replaced).expect("only a run of visible tables is replaced");
        let mut list: Vec<_> = tables.iter().map(|visible| visible.table().clone()).collect();
        list.splice(run, added.map(NewTable::into_table));
        *tables = Visible::list(list, &tables, self.options.memory_max);
        self.cache.make_room_for(&tables);
    }

    /// What to merge next, if anything: tables of similar size, when there are [`IndexOptions::fan_out`] of them side by side, or
    /// everything, when most of it is tombstones.
    pub fn plan_merge(&self) -> Option<Merge> {
        merge::plan(&self.tables(), self.options.fan_out)
    }

    /// A merge of all tables into one, which drops everything that can be dropped; none if there is no table.
    pub fn plan_full_merge(&self) -> Option<Merge> {
        merge::plan_full(&self.tables())
    }

    /// Writes what the tables of the merge say together to a new table, as [`build`](Self::build) does. None is left if there
    /// is nothing to say; install that as well.
    ///
    /// Entries whose key `keep` rejects are dropped. `keep` must then reject the key for ever, because an older
    /// table may still have it. Tombstones are dropped when no older table is left for them to act on.
    pub fn merge(&self, merge: &Merge, keep: &dyn Fn(&[u8]) -> bool) -> Result<Option<NewTable>> {
        let tables = self.snapshot();
        let run = merge::run_of(&tables, merge.tables())
            .ok_or_else(|| Error::internal("a merge was planned on other tables than there are now"))?;
        let oldest = run.end == tables.len();
        let cursors = tables[run].iter().map(|table| {
            let mut cursor = Cursor::new(table.clone(), self.cache.clone(), Reading::Merge);
            cursor.seek(Bound::Unbounded)?;
            Ok(cursor)
        });
        let mut merged = Merged::new(cursors.collect::<Result<_>>()?)?;
        let mut writer = self.writer();
        while merged.advance()? {
            let (key, value) = merged.entry();
            if (value.is_some() || !oldest) && keep(key) {
                writer.push(key, value)?;
            }
        }
        writer.finish()
    }

    /// The visible tables, the newest first, as the manifest names them.
    pub fn tables(&self) -> Vec<TableSummary> {
        self.snapshot().iter().map(|visible| *visible.table().summary()).collect()
    }

    /// Removes the files of tables that the manifest no longer names. Reads that have begun go on.
    ///
    /// # Panics
    ///
    /// If one of the tables is visible.
    pub fn remove_files(&self, ids: &[TableId]) -> Result<()> {
        let visible = self.snapshot().iter().any(|visible| ids.contains(&visible.table().id()));
        assert!(!visible, "a visible table keeps its file");
        self.cache.forget(ids);
        ids.iter().try_for_each(|id| remove_file(&*self.disk, *id))
    }

    /// Reads all of every table and tests everything that can be tested. One report a table, the newest first.
    pub fn verify(&self) -> Vec<TableReport> {
        self.snapshot().iter().map(|visible| verify::verify(visible.table())).collect()
    }

    /// As [`verify`](Self::verify), of one table, for a scrubber that takes its time; none if it is not visible.
    pub fn verify_table(&self, id: TableId) -> Option<TableReport> {
        let tables = self.snapshot();
        let visible = tables.iter().find(|visible| visible.table().id() == id)?;
        Some(verify::verify(visible.table()))
    }

    /// How much there is and how well it is cached.
    pub fn stats(&self) -> IndexStats {
        let tables = self.snapshot();
        let sum = |count: fn(&TableSummary) -> u64| {
            tables.iter().map(|visible| count(visible.table().summary())).sum()
        };
        IndexStats {
            tables: tables.len(),
            entries: sum(|summary| summary.entries),
            tombstones: sum(|summary| summary.tombstones),
            bytes: sum(|summary| summary.bytes),
            cache_hits: self.cache.hits(),
            cache_misses: self.cache.misses(),
            memory_used: self.cache.used() + tables.iter().map(Visible::size).sum::<u64>(),
        }
    }

    fn snapshot(&self) -> Arc<[Visible]> {
        self.tables.read().clone()
    }

    fn writer(&self) -> TableWriter {
        let id = TableId(self.next_id.fetch_add(1, Ordering::Relaxed));
        TableWriter::new(self.disk.clone(), id, &self.options)
    }
}

fn table_files(disk: &dyn Disk) -> Result<FxHashSet<TableId>> {
    let names = disk.names().map_err(|error| fault::io_error("the directory", "list", &error))?;
    Ok(names.iter().filter_map(|name| TableId::from_file_name(name)).collect())
}

/// The removal need not be durable: a file that comes back is removed when the index is opened.
fn remove_file(disk: &dyn Disk, id: TableId) -> Result<()> {
    match disk.remove(&id.file_name()) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(fault::io_error(&id.file_name(), "remove", &error))
        }
        _ => Ok(()),
    }
}

const _: () = assert!(tyr_env::BLOCK_SIZE == tyr_wire::table::BLOCK_SIZE);

#[cfg(test)]
mod tests;

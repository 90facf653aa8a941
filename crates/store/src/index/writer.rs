//! Writes a table in one pass, with bounded memory.
//!
//! Invariant: when [`TableWriter::finish`] has returned a table, its file and the file's name are durable. A writer that fails or is
//! dropped removes its file; should a crash come in between, opening the index does.

use std::sync::Arc;

use tyr_env::{Access, Blocks, Disk, File};
use tyr_types::{Error, Result};
use tyr_wire::table::{
    BLOCK_SIZE, ENTRY_KEY_SIZE_MAX, ENTRY_VALUE_SIZE_MAX, EntriesBuilder, Footer, Root, RootBuilder,
    SpanBuilder, TableId, TableSummary, key_hash,
    part::{self, HEADER_SIZE, Place},
};

use super::{
    fault::io_error,
    options::IndexOptions,
    table::{Table, summary_of},
};

/// A table that is durable but not yet visible.
#[must_use = "a table that is not installed has a file for nothing"]
pub struct NewTable {
    table: Arc<Table>,
}

impl NewTable {
    /// What the manifest should say of it.
    pub fn summary(&self) -> TableSummary {
        *self.table.summary()
    }

    pub(super) fn into_table(self) -> Arc<Table> {
        self.table
    }
}

/// A table that is being written.
pub(super) struct TableWriter {
    out: Output,
    page_size: usize,
    filter_bits: u8,
    /// The page that is being filled, and what separates it from the one before.
    page: EntriesBuilder,
    page_separator: Vec<u8>,
    /// The span of the pages written so far, and its first page's separator.
    span: SpanBuilder,
    span_separator: Vec<u8>,
    root: RootBuilder,
    last_key: Vec<u8>,
    entries: u64,
    tombstones: u64,
    part: Vec<u8>,
}

impl TableWriter {
    /// Begins a table. Its file is created when there is something to write.
    pub fn new(disk: Arc<dyn Disk>, id: TableId, options: &IndexOptions) -> Self {
        TableWriter {
            out: Output { disk, id, file: None, buffer: Blocks::default(), filled: 0, block: 0 },
            page_size: options.page_size,
            filter_bits: options.filter_bits,
            page: EntriesBuilder::default(),
            page_separator: Vec::new(),
            span: SpanBuilder::new(options.span_pages),
            span_separator: Vec::new(),
            root: RootBuilder::default(),
            last_key: Vec::new(),
            entries: 0,
            tombstones: 0,
            part: Vec::new(),
        }
    }

    /// Adds an entry, whose key is larger than all before.
    pub fn push(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        self.check(key, value)?;
        let full = HEADER_SIZE + self.page.size_with(key, value) > self.page_size;
        if full && !self.page.is_empty() {
            self.write_page()?;
        }
        if self.page.is_empty() {
            self.begin_page(key)?;
        }
        self.page.push(key, value);
        self.span.push_hash(key_hash(key));
        self.entries += 1;
        self.tombstones += u64::from(value.is_none());
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        Ok(())
    }

    /// Writes the rest and makes everything durable. No entries make no table.
    pub fn finish(mut self) -> Result<Option<NewTable>> {
        if self.entries == 0 {
            return Ok(None);
        }
        self.write_page()?;
        self.write_span()?;
        let root_block = self.out.next_block();
        self.begin_part();
        self.root.encode_into(&self.last_key, &mut self.part);
        let root = decode_root(&self.part[HEADER_SIZE..])?;
        let root_blocks = self.write_part()?;
        let footer = Footer {
            table: self.out.id,
            entries: self.entries,
            tombstones: self.tombstones,
            root_block,
            root_blocks,
        };
        let (block, checksum) = footer.encode();
        self.out.write(&block)?;
        let bytes = self.out.next_block() * BLOCK_SIZE as u64;
        let file = self.out.finish()?;
        let table = Table::written(summary_of(&footer, bytes, checksum), file, root);
        Ok(Some(NewTable { table: Arc::new(table) }))
    }

    fn check(&self, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        if self.entries > 0 && *key <= *self.last_key {
            return Err(Error::internal("the keys of an index table do not ascend"));
        }
        if key.len() > ENTRY_KEY_SIZE_MAX || value.is_some_and(|value| value.len() > ENTRY_VALUE_SIZE_MAX) {
            return Err(Error::invalid(format!(
                "an index entry with a key of {} and a value of {} bytes is too long",
                key.len(),
                value.map_or(0, <[u8]>::len)
            )));
        }
        Ok(())
    }

    /// The separator is as short as can be, but the first of the table is its smallest key.
    fn begin_page(&mut self, key: &[u8]) -> Result<()> {
        let same = key.iter().zip(&self.last_key).take_while(|(a, b)| a == b).count();
        let separator_size = if self.entries == 0 { key.len() } else { same + 1 };
        self.page_separator.clear();
        self.page_separator.extend_from_slice(&key[..separator_size]);
        if self.span.is_full(&self.page_separator) {
            self.write_span()?;
        }
        if self.span.is_empty() {
            self.span_separator.clone_from(&self.page_separator);
        }
        Ok(())
    }

    fn write_page(&mut self) -> Result<()> {
        self.begin_part();
        self.page.encode_into(&mut self.part);
        let blocks = self.write_part()?;
        self.span.push_page(&self.page_separator, blocks);
        Ok(())
    }

    fn write_span(&mut self) -> Result<()> {
        let page_blocks = self.span.page_blocks();
        self.begin_part();
        self.span.encode_into(self.filter_bits, &mut self.part);
        let span_blocks = self.write_part()?;
        self.root.push(&self.span_separator, page_blocks, span_blocks);
        Ok(())
    }

    fn begin_part(&mut self) {
        part::begin(&mut self.part);
    }

    /// Returns how many blocks the part has.
    fn write_part(&mut self) -> Result<u64> {
        part::seal(&mut self.part, Place { table: self.out.id, block: self.out.next_block() });
        self.out.write(&self.part)?;
        Ok((self.part.len() / BLOCK_SIZE) as u64)
    }
}

fn decode_root(content: &[u8]) -> Result<Root> {
    Root::decode(content).map_err(|malformed| {
        Error::internal(format!("the root of a new index table cannot be read: {malformed}"))
    })
}

/// The file of a table, written from front to back.
struct Output {
    disk: Arc<dyn Disk>,
    id: TableId,
    file: Option<Arc<dyn File>>,
    buffer: Blocks,
    /// Bytes in the buffer.
    filled: usize,
    /// The block of the file that the buffer begins with.
    block: u64,
}

impl Output {
    /// The number of the block that is written next.
    fn next_block(&self) -> u64 {
        self.block + (self.filled / BLOCK_SIZE) as u64
    }

    /// Takes whole blocks.
    fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        if self.buffer.is_empty() {
            self.buffer = Blocks::zeroed(BUFFER_SIZE);
        }
        while !bytes.is_empty() {
            if self.filled == self.buffer.len() {
                self.flush()?;
            }
            let room = self.buffer.len() - self.filled;
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.buffer.as_bytes_mut()[self.filled..][..now.len()].copy_from_slice(now);
            self.filled += now.len();
            bytes = later;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        let file = match &self.file {
            Some(file) => file.clone(),
            None => self.create()?,
        };
        file.write_at(self.block * BLOCK_SIZE as u64, &self.buffer.as_bytes()[..self.filled])
            .map_err(|error| self.error("write", &error))?;
        self.block = self.next_block();
        self.filled = 0;
        Ok(())
    }

    fn create(&mut self) -> Result<Arc<dyn File>> {
        let file = self.disk.open(&self.id.file_name(), Access::Create);
        let file = file.map_err(|error| self.error("create", &error))?;
        self.file = Some(file.clone());
        Ok(file)
    }

    /// From here on the file is not removed.
    fn finish(&mut self) -> Result<Arc<dyn File>> {
        self.flush()?;
        let synced = match &self.file {
            Some(file) => file.sync().and_then(|()| self.disk.sync_names()),
            None => Ok(()),
        };
        synced.map_err(|error| self.error("sync", &error))?;
        self.file.take().ok_or_else(|| Error::internal("a finished index table has no file"))
    }

    fn error(&self, action: &str, error: &std::io::Error) -> Error {
        io_error(&self.id.file_name(), action, error)
    }
}

impl Drop for Output {
    /// If this fails, opening the index removes the file.
    fn drop(&mut self) {
        if self.file.take().is_some() {
            let _ = self.disk.remove(&self.id.file_name());
        }
    }
}

/// Large enough that a device works at its full speed.
const BUFFER_SIZE: usize = 1 << 20;

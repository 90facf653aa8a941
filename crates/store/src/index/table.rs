//! One open table: lookups, and reads of its parts with their checksums verified.

use std::sync::Arc;

use tyr_env::{Access, Blocks, Disk, File};
use tyr_types::{Error, Result};
use tyr_wire::{
    Malformed,
    table::{
        BLOCK_SIZE, ENTRY_KEY_SIZE_MAX, ENTRY_VALUE_SIZE_MAX, Footer, FooterFault, Root, Span, SpanPlace,
        TableId, TableSummary,
        part::{self, Place},
    },
};

use super::fault::io_error;

/// A table whose file is open and whose root is in memory.
pub(super) struct Table {
    summary: TableSummary,
    file: Arc<dyn File>,
    root: Root,
}

impl Table {
    /// Opens a table that the manifest names.
    pub fn open(disk: &dyn Disk, summary: TableSummary) -> Result<Self> {
        let name = summary.id.file_name();
        let file = disk.open(&name, Access::Read).map_err(|error| io_error(&name, "open", &error))?;
        let root = read_root(&*file, &summary)?;
        Ok(Table { summary, file, root })
    }

    /// A table that has just been written.
    pub fn written(summary: TableSummary, file: Arc<dyn File>, root: Root) -> Self {
        Table { summary, file, root }
    }

    /// What names the table.
    pub fn id(&self) -> TableId {
        self.summary.id
    }

    /// What the manifest says of the table.
    pub fn summary(&self) -> &TableSummary {
        &self.summary
    }

    /// Its root.
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// Reads a span.
    pub fn read_span(&self, place: SpanPlace) -> Result<Span> {
        let bytes = self.read(place.span_block(), place.span_blocks)?;
        self.open_part(bytes.as_bytes(), place.span_block(), |content| {
            Span::decode(content, place.page_blocks)
        })
    }

    /// Reads a page.
    pub fn read_page(&self, block: u64, blocks: u64) -> Result<Arc<[u8]>> {
        let bytes = self.read(block, blocks)?;
        self.open_part(bytes.as_bytes(), block, |content| Ok(content.into()))
    }

    /// Where a page lies: its first block, counted from the beginning of the file, and how many it has.
    pub fn page_place(&self, place: SpanPlace, span: &Span, index: usize) -> Result<(u64, u64)> {
        let page = span.page(index).map_err(|malformed| self.damaged(place.span_block(), malformed))?;
        Ok((place.block + page.block, page.blocks))
    }

    /// Verifies the checksum of the part at this block and decodes its content.
    pub fn open_part<'a, T>(
        &self,
        bytes: &'a [u8],
        block: u64,
        decode: impl FnOnce(&'a [u8]) -> Result<T, Malformed>,
    ) -> Result<T> {
        let place = Place { table: self.id(), block };
        part::open(bytes, place).and_then(decode).map_err(|malformed| self.damaged(block, malformed))
    }

    /// Reads whole blocks, [`READ_BLOCKS_MAX`] at most.
    pub fn read(&self, block: u64, blocks: u64) -> Result<Blocks> {
        let within = block.checked_add(blocks).is_some_and(|end| end <= self.root.blocks());
        if !within || blocks > READ_BLOCKS_MAX {
            return Err(self.misplaced(block));
        }
        read_blocks(&*self.file, self.id(), block, blocks)
    }

    /// Reads the footer and the root once more.
    pub fn read_root(&self) -> Result<Root> {
        read_root(&*self.file, &self.summary)
    }

    /// The error for bytes at this block that are not what was written.
    #[cold]
    pub fn damaged(&self, block: u64, malformed: Malformed) -> Error {
        damaged(self.id(), block, &malformed)
    }

    /// The error for something that is said to lie at this block, but cannot.
    #[cold]
    pub fn misplaced(&self, block: u64) -> Error {
        self.damaged(block, Malformed("something else is said to lie here"))
    }
}

fn read_root(file: &dyn File, summary: &TableSummary) -> Result<Root> {
    let id = summary.id;
    let length = file.length().map_err(|error| io_error(&id.file_name(), "read", &error))?;
    let footer_block = (length / BLOCK_SIZE as u64).saturating_sub(1);
    if length != summary.bytes || (footer_block + 1) * BLOCK_SIZE as u64 != length {
        let message = format!("{id} has {length} bytes, the manifest says {}", summary.bytes);
        return Err(Error::corrupt(message));
    }
    let footer = read_blocks(file, id, footer_block, 1)?;
    let (footer, checksum) = Footer::decode(footer.as_bytes()).map_err(|fault| match fault {
        FooterFault::Malformed(malformed) => damaged(id, footer_block, &malformed),
        FooterFault::Version(_) => Error::invalid(format!("{id}: {fault}")),
    })?;
    let sizes_agree = footer.root_block.checked_add(footer.root_blocks) == Some(footer_block);
    if !sizes_agree || summary_of(&footer, length, checksum) != *summary {
        return Err(damaged(id, footer_block, &Malformed("the footer is not that of this table")));
    }
    let bytes = read_blocks(file, id, footer.root_block, footer.root_blocks)?;
    let root = part::open(bytes.as_bytes(), Place { table: id, block: footer.root_block })
        .and_then(Root::decode)
        .map_err(|malformed| damaged(id, footer.root_block, &malformed))?;
    if root.blocks() != footer.root_block {
        return Err(damaged(id, footer.root_block, &Malformed("the root is not that of this table")));
    }
    Ok(root)
}

/// What the manifest says of a table with this footer.
pub(super) fn summary_of(footer: &Footer, bytes: u64, checksum: u32) -> TableSummary {
    let Footer { table, entries, tombstones, .. } = *footer;
    TableSummary { id: table, entries, tombstones, bytes, checksum }
}

fn read_blocks(file: &dyn File, id: TableId, block: u64, blocks: u64) -> Result<Blocks> {
    let len = usize::try_from(blocks).ok().and_then(|blocks| blocks.checked_mul(BLOCK_SIZE));
    let len =
        len.ok_or_else(|| damaged(id, block, &Malformed("more is said to lie here than fits memory")))?;
    let mut bytes = Blocks::zeroed(len);
    file.read_at(block * BLOCK_SIZE as u64, bytes.as_bytes_mut())
        .map_err(|error| io_error(&id.file_name(), "read", &error))?;
    Ok(bytes)
}

#[cold]
fn damaged(id: TableId, block: u64, malformed: &Malformed) -> Error {
    Error::corrupt(format!("{id}, block {block}: {malformed}"))
}

/// The largest part but a root is a page of one entry with the longest key and value; a read ahead is smaller.
const READ_BLOCKS_MAX: u64 =
    ((ENTRY_KEY_SIZE_MAX + ENTRY_VALUE_SIZE_MAX) / BLOCK_SIZE) as u64 + READ_BLOCKS_MARGIN;
/// Headers and lengths.
const READ_BLOCKS_MARGIN: u64 = 1;

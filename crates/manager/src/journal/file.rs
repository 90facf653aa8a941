//! A journal in a file of a [`Disk`], which it has to itself.
//!
//! A file begins with everything that is kept, and then has one record for each change. A snapshot begins another file. Invariants:
//!
//! - A file gets its name `voter-GENERATION` when its first record is durable; an older one is removed when that name is.
//! - Records are written one after the other, each in blocks of its own. Each says up to where the file was durable before it was
//!   written. So a record that cannot be read is the torn end of the file unless a later one says that it had been durable: then the
//!   disk has lost what was promised, and the voter must not vote again as if it had not.
//! - Opening begins another file, so that what a crash left behind the end is never taken for what is written there next.
//! - After a write or sync has failed nothing is kept any more. So a file has room for what comes next before others can take it, as long as there is any.

use std::{io, sync::Arc};

use parking_lot::Mutex;
use tyr_env::{Access, BLOCK_SIZE, Blocks, Disk, File};
use tyr_wire::checksum::crc32c;

use super::{Change, Journal, Kept};
use crate::{Surroundings, codec};

/// A journal on a disk. Handles are equal.
pub struct DiskJournal<S: Surroundings>(Arc<Mutex<Open<S>>>);

impl<S: Surroundings> Clone for DiskJournal<S> {
    fn clone(&self) -> Self {
        DiskJournal(self.0.clone())
    }
}

struct Open<S: Surroundings> {
    disk: Arc<dyn Disk>,
    /// None after a failure.
    file: Option<Arc<dyn File>>,
    generation: u64,
    /// How many records the file has.
    count: u64,
    /// Where the next one begins.
    end: u64,
    /// Up to where the file is durable.
    durable: u64,
    /// Up to where it has room, whoever fills the disk.
    reserved: u64,
    kept: Kept<S>,
}

/// As much room a file has at least for what comes next, as long as there is any, and twice that when it gets some. More than is written at once, and as much as
/// is written in a long while.
const AHEAD: u64 = 512 << 10;

impl<S: Surroundings> DiskJournal<S> {
    /// Opens what is on a disk, or begins. Fails with `InvalidData` if something is gone that had been promised: then this voter must be
    /// removed, and come back as another node.
    pub fn open(disk: Arc<dyn Disk>) -> io::Result<Self> {
        let (generation, kept) = recover(&*disk)?;
        let mut open = Open { disk, file: None, generation, count: 0, end: 0, durable: 0, reserved: 0, kept };
        open.begin_file()?;
        Ok(DiskJournal(Arc::new(Mutex::new(open))))
    }

    /// Writes a change behind those before. It is durable when a [`DiskJournal::sync`] that is called later has returned.
    pub fn write(&self, change: Change<S>) -> io::Result<()> {
        let mut open = self.0.lock();
        let begins_file = matches!(change, Change::Snapshot(..));
        let record = (!begins_file).then(|| codec::to_bytes(&change));
        open.kept.apply(change);
        match record {
            Some(record) => open.append(&record),
            None => open.take().and_then(|_| open.begin_file()),
        }
    }

    /// Makes everything written before durable.
    pub fn sync(&self) -> io::Result<()> {
        self.0.lock().sync()
    }
}

impl<S: Surroundings> Journal<S> for DiskJournal<S> {
    fn load(&self) -> io::Result<Kept<S>> {
        Ok(self.0.lock().kept.clone())
    }

    async fn keep(&self, change: Change<S>) -> io::Result<()> {
        self.write(change)?;
        self.sync()
    }
}

impl<S: Surroundings> Open<S> {
    /// The file, to be put back when what is done with it has been done.
    fn take(&mut self) -> io::Result<Arc<dyn File>> {
        self.file.take().ok_or_else(|| io::Error::other("the journal has failed; start the voter again"))
    }

    fn append(&mut self, payload: &[u8]) -> io::Result<()> {
        let file = self.take()?;
        let blocks = record(self.generation, self.count, self.durable, payload);
        file.write_at(self.end, blocks.as_bytes())?;
        self.end += blocks.len() as u64;
        self.count += 1;
        self.reserve(&*file);
        self.file = Some(file);
        Ok(())
    }

    /// Keeps room for what comes next. What is not written reads as zeros, which are no record.
    fn reserve(&mut self, file: &dyn File) {
        let wanted = self.end + 2 * AHEAD;
        if self.reserved < self.end + AHEAD && file.reserve(wanted).is_ok() {
            self.reserved = wanted;
        }
    }

    fn sync(&mut self) -> io::Result<()> {
        let file = self.take()?;
        if self.durable < self.end {
            file.sync()?;
            self.durable = self.end;
        }
        self.file = Some(file);
        Ok(())
    }

    /// Writes all that is kept to another file, durably, and goes on with that.
    fn begin_file(&mut self) -> io::Result<()> {
        self.file = None;
        let generation = self.generation + 1;
        let names = self.disk.names()?;
        if names.iter().any(|name| name == NEW) {
            self.disk.remove(NEW)?;
        }
        let file = self.disk.open(NEW, Access::Create)?;
        let first = record(generation, 0, 0, &codec::to_bytes(&self.kept.changes()));
        file.write_at(0, first.as_bytes())?;
        file.sync()?;
        self.disk.rename(NEW, &name(generation))?;
        self.disk.sync_names()?;
        for old in names.iter().filter(|name| generation_of(name).is_some()) {
            self.disk.remove(old)?;
        }
        let end = first.len() as u64;
        (self.generation, self.count, self.end, self.durable) = (generation, 1, end, end);
        self.reserved = end;
        self.reserve(&*file);
        self.file = Some(file);
        Ok(())
    }
}

/// What the newest file has, and its generation; the first one is one more than zero.
fn recover<S: Surroundings>(disk: &dyn Disk) -> io::Result<(u64, Kept<S>)> {
    let names = disk.names()?;
    let Some(generation) = names.iter().filter_map(|name| generation_of(name)).max() else {
        return Ok((0, Kept::default()));
    };
    let file = disk.open(&name(generation), Access::Read)?;
    let mut bytes = vec![0; usize::try_from(file.length()?).map_err(|_| lost("a length"))?];
    file.read_at(0, &mut bytes)?;
    let first = find(&bytes, generation, 0, 0).ok_or_else(|| lost("the beginning"))?;
    let mut kept = Kept::default();
    let changes: Vec<Change<S>> = codec::from_bytes(first.payload).map_err(|_| lost("the beginning"))?;
    changes.into_iter().for_each(|change| kept.apply(change));
    let (mut at, mut count) = (first.size, 1);
    while let Some(next) = find(&bytes, generation, count, at) {
        kept.apply(codec::from_bytes(next.payload).map_err(|_| lost("a record"))?);
        at += next.size;
        count += 1;
    }
    let later = (at..bytes.len()).step_by(BLOCK_SIZE).filter_map(|place| read(&bytes, generation, place));
    if later.into_iter().any(|record| record.count > count && record.durable > at as u64) {
        return Err(lost("a record"));
    }
    // Earlier builds could purge before the snapshot was durable.
    let (purged, covered) = (kept.purged.map(|last| last.index), kept.covered().map(|last| last.index));
    if purged > covered {
        return Err(lost("a snapshot"));
    }
    Ok((generation, kept))
}

fn lost(what: &str) -> io::Error {
    let what = format!(
        "the journal of the cluster manager has lost {what} that was durable; remove this node and let it join as another one"
    );
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn name(generation: u64) -> String {
    format!("voter-{generation:016x}")
}

fn generation_of(name: &str) -> Option<u64> {
    u64::from_str_radix(name.strip_prefix("voter-").filter(|digits| digits.len() == 16)?, 16).ok()
}

/// A record as it lies in a file.
struct Record<'a> {
    /// How many records are before it.
    count: u64,
    durable: u64,
    payload: &'a [u8],
    /// In whole blocks.
    size: usize,
}

fn record(generation: u64, count: u64, durable: u64, payload: &[u8]) -> Blocks {
    let mut bytes = vec![0; HEADER_SIZE];
    let size = u64::try_from(payload.len()).expect("memory is addressed by 64 bits");
    for (place, number) in (8..).step_by(8).zip([generation, count, durable, size]) {
        bytes[place..place + 8].copy_from_slice(&number.to_le_bytes());
    }
    bytes.extend_from_slice(payload);
    bytes[..4].copy_from_slice(&MAGIC);
    let checksum = crc32c(&bytes[8..]);
    bytes[4..8].copy_from_slice(&checksum.to_le_bytes());
    let mut blocks = Blocks::with_capacity(bytes.len());
    blocks.extend_from_slice(&bytes);
    blocks
}

/// The record with so many before it, if it is at this place.
fn find(bytes: &[u8], generation: u64, count: u64, at: usize) -> Option<Record<'_>> {
    read(bytes, generation, at).filter(|record| record.count == count)
}

/// The record of a generation at this place.
fn read(bytes: &[u8], generation: u64, at: usize) -> Option<Record<'_>> {
    let bytes = bytes.get(at..)?;
    let header: &[u8; HEADER_SIZE] = bytes.first_chunk()?;
    let word = |place: usize| {
        u64::from_le_bytes(header[place..place + 8].try_into().expect("eight bytes were asked for"))
    };
    let size = usize::try_from(word(32)).ok()?;
    let end = HEADER_SIZE.checked_add(size)?;
    let is_whole = header[..4] == MAGIC && word(8) == generation;
    let covered = bytes.get(8..end).filter(|_| is_whole)?;
    if crc32c(covered).to_le_bytes() != header[4..8] {
        return None;
    }
    let payload = &bytes[HEADER_SIZE..end];
    Some(Record { count: word(16), durable: word(24), payload, size: end.next_multiple_of(BLOCK_SIZE) })
}

/// Where a file is written before it has its name.
const NEW: &str = "new";
const MAGIC: [u8; 4] = *b"TyrV";
/// Magic, checksum of all that follows, generation, records before, durable end before, size of the payload.
const HEADER_SIZE: usize = 40;

#[cfg(test)]
mod tests;

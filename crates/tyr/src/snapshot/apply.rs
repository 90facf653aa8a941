//! Makes the blobs of a keyspace what a source has.
//!
//! A blob of which little is to be written becomes so in one transaction. Of a larger one the first transaction prints it as unfinished, and the
//! last one, which also sets its attributes, takes that print away. Everything may be done again: what is as it should be is left alone.

use std::sync::atomic::{AtomicU64, Ordering};

use tyr_client::{
    Attributes, ErrorKind, Key, Stat,
    blocking::{Keyspace, Store},
};

use super::{
    bytes::{PIECE, differing},
    export::{THREADS_MIN, check_interrupt},
    marker::{self, UNFINISHED},
    source::{Kinship, Source, View, walk},
};
use crate::{
    archive::Blob,
    failure::{Failure, Result},
    interrupt::Interrupt,
    settings::Settings,
    transfer::Progress,
    workers::work_on,
};

/// What is made of what.
pub struct Job<'a> {
    /// The store.
    pub store: &'a Store,
    /// The keyspace that is changed.
    pub keyspace: &'a Keyspace,
    /// What it is to have.
    pub source: &'a dyn Source,
    /// The keyspace as it was when this began, if there was something in it that is to be looked at.
    pub now: Option<&'a View>,
    /// Whether its prints are those of the source.
    pub kinship: Kinship,
    /// What to do about blobs that are there.
    pub there: There,
    /// Whether to stop.
    pub interrupt: &'a Interrupt,
    /// How far it is.
    pub progress: &'a Progress,
    /// What was done.
    pub tally: Tally,
}

/// What to do about a blob that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum There {
    /// It is as it should be unless it says that it is unfinished: only this import has written it.
    IsRight,
    /// It is compared.
    Compare,
}

/// What was done.
#[derive(Debug, Default)]
pub struct Tally {
    /// Blobs that were written or changed.
    pub written: AtomicU64,
    /// Blobs that were as they should be.
    pub unchanged: AtomicU64,
    /// Blobs that were removed.
    pub removed: AtomicU64,
    /// Bytes that were written.
    pub bytes: AtomicU64,
}

/// As many bytes are written in one transaction: far fewer than a cluster takes in one.
const BATCH: usize = 32 << 20;

/// Writes of fewer bytes count as small: a store may hold them in memory as long as the transaction is open.
const SMALL: usize = 128 << 10;
/// As many bytes in small writes are in one transaction of a cluster: fewer than it takes in one.
const SMALL_MAX: usize = 6 << 20;

/// What is to be written of a blob.
#[derive(Default)]
struct Batch {
    writes: Vec<(u64, Vec<u8>)>,
    bytes: usize,
    /// Bytes in small writes, as far as they are not the last.
    small: usize,
    is_begun: bool,
}

impl Batch {
    fn push(&mut self, offset: u64, bytes: &[u8]) {
        self.bytes += bytes.len();
        match self.writes.last_mut() {
            Some((last, written)) if *last + written.len() as u64 == offset && written.len() < PIECE => {
                written.extend_from_slice(bytes);
            }
            last => {
                self.small +=
                    last.map_or(0, |(_, written)| if written.len() < SMALL { written.len() } else { 0 });
                self.writes.push((offset, bytes.to_vec()));
            }
        }
    }
}

impl Job<'_> {
    /// Makes all of the source's blobs so, and removes all others if blobs that are there are compared. Those go first: what is written may need their room.
    pub fn run(&self, settings: &Settings, is_wanted: &(dyn Fn(&Key) -> Result<bool> + Sync)) -> Result<()> {
        let threads = settings.threads.max(THREADS_MIN);
        let wanted = self.source.keys().filter(|key| match key {
            Ok(key) => is_wanted(key).unwrap_or(true),
            Err(_) => true,
        });
        if let Some(now) = self.now.filter(|_| self.there == There::Compare) {
            work_on(threads, now.keys(), |key| self.remove_unless_wanted(&key))?;
        }
        work_on(threads, wanted, |key| self.apply(&key))
    }

    fn apply(&self, key: &Key) -> Result<()> {
        self.check_interrupt()?;
        let Some(blob) = self.source.blob(key)? else { return Ok(()) };
        let there = match self.keyspace.stat(key) {
            Ok(stat) => Some(stat),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error.into()),
        };
        self.progress.expect(blob.size);
        let is_right =
            |stat: &Stat| self.there == There::IsRight && stat.attributes.value(UNFINISHED).is_none();
        if there.as_ref().is_some_and(is_right) {
            self.tally.unchanged.fetch_add(1, Ordering::Relaxed);
            self.progress.advance(blob.size);
            return Ok(());
        }
        let mut batch = Batch::default();
        match &there {
            None => self.gather_all(key, &blob, &mut batch)?,
            Some(stat) => self.gather_differing(key, &blob, stat, &mut batch)?,
        }
        let is_as_it_should = there.as_ref().is_some_and(|stat| {
            stat.size == blob.size && stat.attributes == blob.attributes && batch.writes.is_empty()
        });
        if is_as_it_should && !batch.is_begun {
            self.tally.unchanged.fetch_add(1, Ordering::Relaxed);
        } else {
            self.write(key, &blob, &mut batch, Step::Last)?;
            self.tally.written.fetch_add(1, Ordering::Relaxed);
        }
        self.progress.advance(blob.size);
        Ok(())
    }

    fn gather_all(&self, key: &Key, blob: &Blob, batch: &mut Batch) -> Result<()> {
        for index in blob.grains.keys() {
            self.source.read_grain(key, blob, *index, &mut |offset, bytes| {
                self.put(key, blob, batch, offset, bytes)
            })?;
        }
        Ok(())
    }

    fn gather_differing(&self, key: &Key, blob: &Blob, stat: &Stat, batch: &mut Batch) -> Result<()> {
        // What the keyspace does not say of its blob may be anywhere in it.
        let now = match self.now {
            Some(now) => now.blob(key)?,
            None => None,
        };
        let everywhere = || Blob {
            created: stat.blob,
            version: stat.version,
            size: stat.size,
            attributes: Attributes::default(),
            grain: blob.grain,
            grains: (0..stat.size.div_ceil(blob.grain))
                .map(|index| (index, crate::archive::Grain { print: 0, place: None }))
                .collect(),
            is_whole: true,
        };
        let (other, kinship) = match now {
            Some(now) if now.created == stat.blob => (now, self.kinship),
            _ => (everywhere(), Kinship::None),
        };
        let mut theirs = |offset: u64, buffer: &mut [u8]| Ok(self.keyspace.read_into(key, offset, buffer)?);
        let mut take = |offset: u64, bytes: &[u8], others: &[u8]| {
            for run in differing(bytes, others) {
                self.put(key, blob, batch, offset + run.start as u64, &bytes[run])?;
            }
            Ok(())
        };
        walk(self.source, key, blob, Some(&other), kinship, &mut theirs, &mut take)
    }

    fn put(&self, key: &Key, blob: &Blob, batch: &mut Batch, offset: u64, bytes: &[u8]) -> Result<()> {
        self.check_interrupt()?;
        batch.push(offset, bytes);
        if batch.bytes >= BATCH || (batch.small >= SMALL && batch.small >= self.small_max()) {
            self.write(key, blob, batch, Step::NotLast)?;
        }
        Ok(())
    }

    fn write(&self, key: &Key, blob: &Blob, batch: &mut Batch, step: Step) -> Result<()> {
        let (keyspace, is_first) = (self.keyspace, !batch.is_begun);
        self.store.run(|transaction| {
            if !transaction.exists(keyspace, key)? {
                transaction.create(keyspace, key)?;
            }
            let stat = transaction.stat(keyspace, key)?;
            if stat.size != blob.size {
                transaction.truncate(keyspace, key, blob.size)?;
            }
            for (offset, bytes) in &batch.writes {
                transaction.write(keyspace, key, *offset, bytes)?;
            }
            let wanted = |name: &str| (step == Step::Last).then(|| blob.attributes.value(name)).flatten();
            if step == Step::Last || is_first {
                for (name, _) in stat.attributes.iter().filter(|(name, _)| wanted(name).is_none()) {
                    transaction.set_attribute(keyspace, key, name, None)?;
                }
            }
            if step == Step::Last {
                let changed = blob
                    .attributes
                    .iter()
                    .filter(|(name, value)| stat.attributes.value(name) != Some(*value));
                for (name, value) in changed {
                    transaction.set_attribute(keyspace, key, name, Some(value))?;
                }
            } else if is_first {
                transaction.set_attribute(keyspace, key, UNFINISHED, Some(b""))?;
            }
            Ok(())
        })?;
        self.tally.bytes.fetch_add(batch.bytes as u64, Ordering::Relaxed);
        *batch = Batch { is_begun: true, ..Batch::default() };
        Ok(())
    }

    /// How many bytes may be in small writes of one transaction. A directory with small segments takes less.
    fn small_max(&self) -> usize {
        let segment = self.store.stats().map_or(u64::MAX, |stats| stats.segment_size);
        usize::try_from(segment / 4).unwrap_or(usize::MAX).min(SMALL_MAX)
    }

    fn remove_unless_wanted(&self, key: &Key) -> Result<()> {
        self.check_interrupt()?;
        if self.source.blob(key)?.is_some() || key.as_bytes() == marker::KEY.as_bytes() {
            return Ok(());
        }
        match self.keyspace.delete(key) {
            Ok(()) => {
                self.tally.removed.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn check_interrupt(&self) -> Result<()> {
        check_interrupt(self.interrupt, "work")
    }
}

/// Which transaction of a blob it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    NotLast,
    Last,
}

/// The blobs of which a keyspace differs from a source, and how.
pub struct Differences {
    /// Blobs that were compared.
    pub blobs: AtomicU64,
    /// Their bytes.
    pub bytes: AtomicU64,
    /// What differs, at most [`SHOWN_MAX`] of it.
    pub shown: std::sync::Mutex<Vec<String>>,
    /// How much differs.
    pub count: AtomicU64,
}

/// As many differences are shown.
const SHOWN_MAX: usize = 20;

impl Differences {
    /// Compares all blobs of a source with those of a keyspace in a snapshot.
    pub fn find(
        source: &dyn Source,
        with: &View,
        settings: &Settings,
        interrupt: &Interrupt,
        progress: &Progress,
    ) -> Result<Differences> {
        let found = Differences {
            blobs: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            shown: std::sync::Mutex::default(),
            count: AtomicU64::new(0),
        };
        let threads = settings.threads.max(THREADS_MIN);
        work_on(threads, source.keys(), |key| {
            check_interrupt(interrupt, "comparison")?;
            found.compare(source, with, &key, progress)
        })?;
        work_on(threads, with.keys(), |key| {
            if source.blob(&key)?.is_none() {
                found.note(&key, "is not in the archive");
            }
            Ok(())
        })?;
        Ok(found)
    }

    fn compare(&self, source: &dyn Source, with: &View, key: &Key, progress: &Progress) -> Result<()> {
        let Some(blob) = source.blob(key)? else { return Ok(()) };
        self.blobs.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(blob.size, Ordering::Relaxed);
        progress.expect(blob.size);
        let Some(other) = with.blob(key)? else {
            self.note(key, "is missing");
            return Ok(());
        };
        if other.size != blob.size {
            self.note(key, &format!("has {} bytes and not {}", other.size, blob.size));
        } else if other.attributes != blob.attributes {
            self.note(key, "has other attributes");
        } else {
            let mut first = None;
            let mut theirs = |offset: u64, buffer: &mut [u8]| {
                Ok(with.snapshot.read_into(&with.keyspace, key, offset, buffer)?)
            };
            let mut take = |offset: u64, bytes: &[u8], others: &[u8]| {
                let run = differing(bytes, others).next();
                first = first.or(run.map(|run| offset + run.start as u64));
                Ok(())
            };
            walk(source, key, &blob, Some(&other), Kinship::None, &mut theirs, &mut take)?;
            if let Some(first) = first {
                self.note(key, &format!("has other bytes, from about {first} on"));
            }
        }
        progress.advance(blob.size);
        Ok(())
    }

    fn note(&self, key: &Key, what: &str) {
        self.count.fetch_add(1, Ordering::Relaxed);
        let mut shown = self.shown.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if shown.len() < SHOWN_MAX {
            shown.push(format!("{} {what}", crate::output::Shown(key.as_bytes())));
        }
    }

    /// Fails if anything differs.
    pub fn conclude(&self, keyspace: &str) -> Result<()> {
        let count = self.count.load(Ordering::Relaxed);
        if count == 0 {
            return Ok(());
        }
        let shown = self.shown.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        Err(Failure::Local(format!(
            "keyspace '{keyspace}' is not what the archive has: {count} of its blobs differ: {}",
            shown.join("; ")
        )))
    }
}

//! The simulated disk behind its lock: every operation, and what a fault makes of it.
//!
//! Invariants: each operation that changes something asks for its fate once, and with that gets its number; when the power is
//! off, nothing works.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::Arc,
};

use tyr_env::BLOCK_SIZE;

use crate::{
    content::{Block, Content},
    fault::{Fate, Faults, Place, eio, full},
    inode::{CrashMode, Inode},
    names::{Change, FileId, Names},
    random::Random,
};

/// What was done on a disk since it was made, by [`crate::SimDisk::new`], `crash`, or `snapshot`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Operations that change something: creates, renames, removes, reservations, syncs of files and of names, and writes,
    /// each one of a batch for itself.
    pub operations: u64,
    /// Writes, each one of a batch for itself.
    pub writes: u64,
    /// Bytes of these writes.
    pub bytes_written: u64,
    /// Calls of `write_durably`.
    pub batches: u64,
    /// Syncs of files.
    pub syncs: u64,
    /// Syncs of names.
    pub name_syncs: u64,
    /// Reads.
    pub reads: u64,
    /// Bytes that were read.
    pub bytes_read: u64,
}

/// One write of whole blocks.
#[derive(Clone, Copy)]
pub(crate) struct BlockWrite<'a> {
    pub(crate) file: FileId,
    /// What the file was opened as.
    pub(crate) name: &'a str,
    pub(crate) position: u64,
    pub(crate) bytes: &'a [u8],
}

/// What a write promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Promise {
    Nothing,
    Durable,
}

#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) random: Random,
    pub(crate) files: BTreeMap<FileId, Inode>,
    /// Those that are open.
    opened: BTreeSet<FileId>,
    pub(crate) names: Names,
    pub(crate) faults: Faults,
    pub(crate) capacity: u64,
    pub(crate) counts: Counts,
    pub(crate) off: bool,
    /// What was done, in words, if somebody wants to know.
    pub(crate) notes: Option<Vec<String>>,
    files_made: u64,
}

impl State {
    pub(crate) fn new(seed: u64) -> Self {
        State {
            random: Random::new(seed),
            files: BTreeMap::new(),
            opened: BTreeSet::new(),
            names: Names::default(),
            faults: Faults::default(),
            capacity: CAPACITY_DEFAULT,
            counts: Counts::default(),
            off: false,
            notes: None,
            files_made: 0,
        }
    }

    /// Cuts the power and returns the disk as it is found afterwards.
    pub(crate) fn crash(&mut self, mode: CrashMode) -> State {
        self.off = true;
        let names = self.names.crash(mode, &mut self.random);
        let mut files = BTreeMap::new();
        for (_, file) in names.iter() {
            if let Some(inode) = self.files.get(&file) {
                files.insert(file, inode.crash(mode, &mut self.random));
            }
        }
        let (capacity, files_made) = (self.capacity, self.files_made);
        State { names, files, capacity, files_made, ..State::new(self.random.number()) }
    }

    /// The same disk with nothing open, no fault to come, and counts at zero.
    pub(crate) fn snapshot(&self) -> State {
        let mut copy =
            State { faults: Faults::default(), counts: Counts::default(), notes: None, ..self.clone() };
        copy.files.values_mut().for_each(|inode| inode.handles = 0);
        copy.opened.clear();
        copy.collect();
        copy
    }

    pub(crate) fn check_power(&self) -> io::Result<()> {
        if self.off { Err(io::Error::other("the simulated machine has crashed")) } else { Ok(()) }
    }

    pub(crate) fn inode(&self, file: FileId) -> io::Result<&Inode> {
        self.files.get(&file).ok_or_else(|| io::Error::other("the simulated file is gone"))
    }

    pub(crate) fn inode_mut(&mut self, file: FileId) -> io::Result<&mut Inode> {
        self.files.get_mut(&file).ok_or_else(|| io::Error::other("the simulated file is gone"))
    }

    /// The file of this name.
    pub(crate) fn find(&self, name: &str) -> io::Result<FileId> {
        let missing = || io::Error::new(io::ErrorKind::NotFound, format!("no file '{name}'"));
        self.names.file(name).ok_or_else(missing)
    }

    pub(crate) fn create(&mut self, name: &str) -> io::Result<FileId> {
        let file = self.add_file(Content::default());
        let result = self.change_names(Change::Create { name: name.into(), file });
        if result.is_err() {
            self.collect_file(file);
        }
        result.map(|()| file)
    }

    /// One more handle of a file.
    pub(crate) fn open(&mut self, file: FileId) -> io::Result<()> {
        self.inode_mut(file)?.handles += 1;
        self.opened.insert(file);
        Ok(())
    }

    /// One handle less.
    pub(crate) fn close(&mut self, file: FileId) {
        let Ok(inode) = self.inode_mut(file) else { return };
        inode.handles -= 1;
        if inode.handles == 0 {
            self.opened.remove(&file);
            self.collect_file(file);
        }
    }

    /// A new file that has no name.
    pub(crate) fn add_file(&mut self, content: Content) -> FileId {
        let file = FileId(self.files_made);
        self.files_made += 1;
        self.files.insert(file, Inode::with_content(content));
        file
    }

    pub(crate) fn change_names(&mut self, change: Change) -> io::Result<()> {
        match self.begin(false, || change.to_string())? {
            Fate::Failed(error) => Err(error),
            fate => {
                self.names.change(change);
                self.end(&fate)
            }
        }
    }

    pub(crate) fn reserve(&mut self, file: FileId, name: &str, length: u64) -> io::Result<()> {
        let fate = self.begin(false, || format!("reserve {length} bytes for '{name}'"))?;
        if let Fate::Failed(error) = fate {
            return Err(error);
        }
        let grown = self.grow(file, length.next_multiple_of(BLOCK_SIZE as u64));
        self.end(&fate).and(grown)
    }

    pub(crate) fn sync(&mut self, file: FileId, name: &str) -> io::Result<()> {
        let fate = self.begin(false, || format!("sync '{name}'"))?;
        self.counts.syncs += 1;
        match &fate {
            Fate::Failed(_) => self.inode_mut(file)?.abandon(),
            Fate::Crashed => {}
            _ => self.inode_mut(file)?.sync(),
        }
        self.end(&fate)
    }

    pub(crate) fn sync_names(&mut self) -> io::Result<()> {
        let fate = self.begin(false, || "sync names".into())?;
        self.counts.name_syncs += 1;
        match &fate {
            Fate::Failed(_) => self.names.abandon(),
            Fate::Crashed => {}
            _ => {
                self.names.sync();
                self.collect();
            }
        }
        self.end(&fate)
    }

    /// One write, alone or of a batch.
    pub(crate) fn write(&mut self, write: BlockWrite<'_>, promise: Promise) -> io::Result<()> {
        let what =
            || format!("write of {} bytes at {} of '{}'", write.bytes.len(), write.position, write.name);
        let fate = self.begin(true, what)?;
        if let Err(error) = self.grow(write.file, write.end()) {
            return self.end(&fate).and(Err(error));
        }
        self.counts.writes += 1;
        self.counts.bytes_written += write.bytes.len() as u64;
        match &fate {
            Fate::Done => self.put(write, promise)?,
            Fate::Crashed => self.put(write, Promise::Nothing)?,
            Fate::Failed(_) => self.put_partly(write)?,
            Fate::Lost => self.put_length(write, promise)?,
            Fate::Misdirected(place) => {
                self.put_length(write, promise)?;
                if let Some(elsewhere) = self.misdirect(write, place.as_ref()) {
                    self.grow(elsewhere.file, elsewhere.end())?;
                    self.put(elsewhere, promise)?;
                }
            }
        }
        self.end(&fate)
    }

    /// All writes, durably, in an order that the seed chooses. When one fails or the power does, those after it may have been
    /// going on as well.
    pub(crate) fn write_batch(&mut self, writes: &[BlockWrite<'_>]) -> io::Result<()> {
        self.check_power()?;
        self.counts.batches += 1;
        let mut writes = writes.to_vec();
        self.random.shuffle(&mut writes);
        for (index, write) in writes.iter().enumerate() {
            if let Err(error) = self.write(*write, Promise::Durable) {
                for other in &writes[index + 1..] {
                    if self.grow(other.file, other.end()).is_ok() {
                        if self.off { self.put(*other, Promise::Nothing)? } else { self.put_partly(*other)? }
                    }
                }
                return Err(error);
            }
        }
        Ok(())
    }

    pub(crate) fn read(
        &mut self,
        file: FileId,
        name: &str,
        position: u64,
        buffer: &mut [u8],
    ) -> io::Result<()> {
        self.check_power()?;
        let inode = self.inode(file)?;
        let length = inode.content().length();
        let end = position.checked_add(buffer.len() as u64).filter(|end| *end <= length);
        let Some(end) = end.or(buffer.is_empty().then_some(position)) else {
            let message = format!("a read reaches past the end of '{name}' at byte {length}");
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, message));
        };
        if inode.unreadable.iter().any(|range| range.start < end && position < range.end) {
            return Err(eio());
        }
        inode.content().read(position, buffer);
        self.counts.reads += 1;
        self.counts.bytes_read += buffer.len() as u64;
        Ok(())
    }

    /// Bytes that are taken.
    pub(crate) fn used(&self) -> u64 {
        let named = self.names.iter().map(|(_, file)| file);
        let nameless = self.opened.iter().copied().filter(|file| !self.names.is_current(*file));
        let taken = named.chain(nameless).filter_map(|file| self.files.get(&file));
        taken.map(|inode| inode.content().length().next_multiple_of(BLOCK_SIZE as u64)).sum()
    }

    /// Forgets files that nobody can reach any more.
    pub(crate) fn collect(&mut self) {
        let State { files, names, .. } = self;
        files.retain(|file, inode| inode.handles > 0 || names.refers_to(*file));
    }

    /// Forgets a file if nobody can reach it any more.
    fn collect_file(&mut self, file: FileId) {
        let is_open = self.files.get(&file).is_some_and(|inode| inode.handles > 0);
        if !is_open && !self.names.refers_to(file) {
            self.files.remove(&file);
        }
    }

    /// Counts an operation and learns its fate.
    fn begin(&mut self, is_write: bool, what: impl FnOnce() -> String) -> io::Result<Fate> {
        self.check_power()?;
        let number = self.counts.operations;
        self.counts.operations += 1;
        if let Some(notes) = &mut self.notes {
            let what = what();
            notes.push(what.clone());
            return Ok(self.faults.fate(number, is_write, || what));
        }
        Ok(self.faults.fate(number, is_write, what))
    }

    /// The result of an operation that met this fate.
    fn end(&mut self, fate: &Fate) -> io::Result<()> {
        match fate {
            Fate::Done | Fate::Lost | Fate::Misdirected(_) => Ok(()),
            Fate::Crashed => {
                self.off = true;
                self.check_power()
            }
            Fate::Failed(error) => Err(error.raw_os_error().map_or_else(eio, io::Error::from_raw_os_error)),
        }
    }

    /// Makes the file at least this long, if there is space.
    fn grow(&mut self, file: FileId, length: u64) -> io::Result<()> {
        let more = length.saturating_sub(self.inode(file)?.content().length());
        if more > 0 && self.used().saturating_add(more) > self.capacity {
            return Err(full());
        }
        self.inode_mut(file)?.grow(length);
        Ok(())
    }

    fn put(&mut self, write: BlockWrite<'_>, promise: Promise) -> io::Result<()> {
        let inode = self.inode_mut(write.file)?;
        for (index, block) in write.blocks() {
            match promise {
                Promise::Durable => inode.write_durably(index, block),
                Promise::Nothing => inode.write(index, block),
            }
        }
        Ok(())
    }

    /// What the file system notes of a write whose bytes the device mislays.
    fn put_length(&mut self, write: BlockWrite<'_>, promise: Promise) -> io::Result<()> {
        if promise == Promise::Durable {
            self.inode_mut(write.file)?.grow_durably(write.end());
        }
        Ok(())
    }

    /// Writes any of the blocks.
    fn put_partly(&mut self, write: BlockWrite<'_>) -> io::Result<()> {
        for (index, block) in write.blocks() {
            if self.random.in_eight(4) {
                self.inode_mut(write.file)?.write(index, block);
            }
        }
        Ok(())
    }

    /// The same write to another place, if there is one.
    fn misdirect<'a>(&mut self, write: BlockWrite<'a>, place: Option<&Place>) -> Option<BlockWrite<'a>> {
        if let Some(place) = place {
            let file = self.names.file(&place.name)?;
            return Some(BlockWrite { file, position: place.position, ..write });
        }
        let size = write.bytes.len() as u64;
        let targets: Vec<(FileId, u64)> = self
            .names
            .iter()
            .filter_map(|(_, file)| {
                let room = self.files.get(&file)?.content().length().checked_sub(size)?;
                // Places for the write, without its own.
                let own = u64::from(file == write.file);
                Some((file, (room / BLOCK_SIZE as u64 + 1).checked_sub(own)?))
                    .filter(|(_, places)| *places > 0)
            })
            .collect();
        let (file, places) = *targets.get(self.random.index(targets.len()))?;
        let mut position = self.random.below(places) * BLOCK_SIZE as u64;
        if file == write.file && position >= write.position {
            position += BLOCK_SIZE as u64;
        }
        Some(BlockWrite { file, position, ..write })
    }
}

impl<'a> BlockWrite<'a> {
    fn end(&self) -> u64 {
        self.position + self.bytes.len() as u64
    }

    fn blocks(self) -> impl Iterator<Item = (u64, Arc<Block>)> + use<'a> {
        let first = self.position / BLOCK_SIZE as u64;
        (first..).zip(self.bytes.as_chunks().0).map(|(index, block)| (index, Arc::new(*block)))
    }
}

/// Space of a disk of which nothing else was said, in bytes.
const CAPACITY_DEFAULT: u64 = 1 << 40;

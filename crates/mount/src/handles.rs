//! What is open through a mount, by the numbers that the kernel has for it.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;
use tyr_fs::{Entry, Errno, File, Inode, Result, site::Site};

use crate::{access_log::Reader, known::lost, watched::Watch};

/// Something that is open.
#[derive(Clone, Debug)]
pub enum Handle {
    /// A file.
    File(Arc<OpenFile>),
    /// A directory, as it was when its reading began.
    Directory(Arc<Mutex<Option<Arc<Vec<Entry>>>>>),
    /// A text that the mount itself shows.
    Text(Arc<Vec<u8>>),
    /// The access log, from when it was opened on.
    Log(Arc<Reader>),
}

/// An open file.
#[derive(Debug)]
pub struct OpenFile {
    pub file: File,
    /// Whether it may be written to.
    pub writes: bool,
    /// Whether it is a flat file of which the key is not its own any more.
    is_lost: AtomicBool,
    /// As long as the kernel may have pages of it that others may change.
    _watch: Option<Watch>,
}

impl OpenFile {
    pub fn new(file: File, writes: bool, watch: Option<Watch>) -> Self {
        OpenFile { file, writes, is_lost: false.into(), _watch: watch }
    }

    fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::SeqCst)
    }
}

/// Everything that is open.
#[derive(Debug, Default)]
pub struct Handles {
    last: AtomicU64,
    open: Mutex<HashMap<u64, Handle>>,
    /// Those who ever took a lock of an inode, by its number and theirs, with the handles through which they did.
    lockers: Mutex<HashMap<(u64, u64), HashSet<u64>>>,
}

impl Handles {
    pub fn add(&self, handle: Handle) -> u64 {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        self.open.lock().insert(number, handle);
        number
    }

    pub fn remove(&self, number: u64) {
        let removed = self.open.lock().remove(&number);
        drop(removed);
    }

    pub fn get(&self, number: u64) -> Result<Handle> {
        self.open.lock().get(&number).cloned().ok_or_else(not_open)
    }

    /// An open file, to read it or to change it. Fails with [`Errno::ESTALE`] if it is lost.
    pub fn file(&self, number: u64) -> Result<Arc<OpenFile>> {
        match self.get(number)? {
            Handle::File(file) if file.is_lost() => Err(lost()),
            Handle::File(file) => Ok(file),
            _ => Err(not_open()),
        }
    }

    /// This mount has removed the flat file at a key, or given it another key: who has it open does not get at what comes to lie there.
    pub fn lose(&self, site: &Site) {
        for handle in self.open.lock().values() {
            if let Handle::File(open) = handle
                && open.file.inode().site == *site
            {
                open.is_lost.store(true, Ordering::SeqCst);
            }
        }
    }

    /// Whether the file of an inode is open so that it may be written to.
    pub fn is_written(&self, inode: &Inode) -> bool {
        let is_it = |handle: &Handle| matches!(handle, Handle::File(open) if open.writes && open.file.inode().number == inode.number);
        self.open.lock().values().any(is_it)
    }

    /// Whether a file that lies there, and is not lost, is open so that it may be written to.
    pub fn is_written_at(&self, site: &Site) -> bool {
        let is_it = |handle: &Handle| matches!(handle, Handle::File(open) if open.writes && open.file.inode().site == *site && !open.is_lost());
        self.open.lock().values().any(is_it)
    }

    /// Waits until everything is durable that was written to an open file, also if that is lost.
    pub async fn sync(&self, number: u64) -> Result<()> {
        match self.get(number)? {
            Handle::File(open) => open.file.sync().await,
            _ => Err(not_open()),
        }
    }

    pub fn has_locked(&self, inode: u64, owner: u64, handle: u64) {
        self.lockers.lock().entry((inode, owner)).or_default().insert(handle);
    }

    /// Whether anybody may have locks of an inode that were taken through a handle.
    pub fn locks_through(&self, inode: u64, handle: u64) -> bool {
        self.lockers.lock().iter().any(|((of, _), through)| *of == inode && through.contains(&handle))
    }

    /// Whether an owner may have locks of an inode; it has none from now on.
    pub fn stops_locking(&self, inode: u64, owner: u64) -> bool {
        self.lockers.lock().remove(&(inode, owner)).is_some()
    }

    /// Owners that may have locks of an inode that they took through a handle; they have none from now on. A process says that it gives up
    /// its own before; what is left are those of open file descriptions, of which the kernel says no more than that this one is gone.
    pub fn stop_locking_through(&self, inode: u64, handle: u64) -> Vec<u64> {
        let mut lockers = self.lockers.lock();
        let taken = lockers.extract_if(|(of, _), through| *of == inode && through.contains(&handle));
        taken.map(|((_, owner), _)| owner).collect()
    }
}

#[cold]
fn not_open() -> tyr_fs::Error {
    Errno::EBADF.because("nothing of that number is open")
}

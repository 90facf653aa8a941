//! The disk of a store, which is not changed any more once a write or a sync has failed.
//!
//! Nobody can know what of a failed write or sync is on the disk, and a sync that succeeds after one that failed says nothing
//! about what was written before: a manifest could be named durably that is not there, or files removed that the durable one still names.
//! So the first such failure is remembered, and everything that would change the disk is refused from then on. Reads go on.
//! A write that finds no space is no such failure: who meets it gives the file up.

use std::{
    any::Any,
    io,
    sync::{Arc, OnceLock},
    thread::Thread,
};

use parking_lot::Mutex;
use tyr_env::{Access, Disk, File, Space, Write};
use tyr_types::{Error, Result};

/// Why a store has stopped writing, if it has.
#[derive(Default)]
pub struct Poison {
    why: OnceLock<String>,
    /// Waits for what may never come now.
    watcher: Mutex<Option<Thread>>,
}

impl Poison {
    /// Stops all writing.
    pub fn set(&self, why: &io::Error) {
        let _ = self.why.set(why.to_string());
        self.watcher.lock().iter().for_each(Thread::unpark);
    }

    /// Whether writing has been stopped.
    pub fn is_set(&self) -> bool {
        self.why.get().is_some()
    }

    /// Fails with `unavailable` if writing has been stopped.
    pub fn check(&self) -> Result<()> {
        self.why.get().map_or(Ok(()), |why| {
            Err(Error::unavailable(format!(
                "the store stopped writing after a failure ({why}); what was acknowledged is safe; close it, see to the device, and open it again"
            )))
        })
    }

    /// The thread to unpark when writing is stopped.
    pub fn watch(&self, watcher: Option<Thread>) {
        *self.watcher.lock() = watcher;
    }

    fn refuse(&self) -> io::Result<()> {
        let refusal =
            |why| Err(io::Error::other(format!("writing was stopped by an earlier failure: {why}")));
        self.why.get().map_or(Ok(()), refusal)
    }

    /// Takes note of a failure that leaves unknown what is on the disk.
    fn note<T>(&self, result: io::Result<T>) -> io::Result<T> {
        result.inspect_err(|error| self.set(error))
    }

    /// As [`Poison::note`], unless there was only no space.
    fn note_unless_full<T>(&self, result: io::Result<T>) -> io::Result<T> {
        match result {
            Err(error) if is_full(&error) => Err(error),
            result => self.note(result),
        }
    }
}

/// See the module.
pub struct Guard {
    disk: Arc<dyn Disk>,
    poison: Arc<Poison>,
}

struct GuardedFile {
    file: Arc<dyn File>,
    poison: Arc<Poison>,
}

impl Guard {
    /// Guards a disk.
    pub fn new(disk: Arc<dyn Disk>, poison: Arc<Poison>) -> Arc<Self> {
        Arc::new(Guard { disk, poison })
    }
}

impl Disk for Guard {
    fn names(&self) -> io::Result<Vec<String>> {
        self.disk.names()
    }

    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn File>> {
        if access == Access::Create {
            self.poison.refuse()?;
        }
        let file = self.disk.open(name, access)?;
        Ok(Arc::new(GuardedFile { file, poison: self.poison.clone() }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.poison.refuse()?;
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.poison.refuse()?;
        self.disk.remove(name)
    }

    fn sync_names(&self) -> io::Result<()> {
        self.poison.refuse()?;
        self.poison.note(self.disk.sync_names())
    }

    fn space(&self) -> io::Result<Space> {
        self.disk.space()
    }

    fn write_durably(&self, writes: &[Write<'_>]) -> io::Result<()> {
        self.poison.refuse()?;
        let mut inner = Vec::with_capacity(writes.len());
        for write in writes {
            let file = write.file.as_any().downcast_ref::<GuardedFile>();
            let foreign =
                || io::Error::new(io::ErrorKind::InvalidInput, "a write names a file of another disk");
            inner.push(Write { file: &*file.ok_or_else(foreign)?.file, ..*write });
        }
        self.poison.note(self.disk.write_durably(&inner))
    }

    fn describe(&self) -> String {
        self.disk.describe()
    }
}

impl File for GuardedFile {
    fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_at(position, buffer)
    }

    fn write_at(&self, position: u64, bytes: &[u8]) -> io::Result<()> {
        self.poison.refuse()?;
        self.poison.note_unless_full(self.file.write_at(position, bytes))
    }

    fn sync(&self) -> io::Result<()> {
        self.poison.refuse()?;
        self.poison.note_unless_full(self.file.sync())
    }

    fn reserve(&self, length: u64) -> io::Result<()> {
        self.poison.refuse()?;
        self.file.reserve(length)
    }

    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

#[cfg(test)]
mod tests {
    use tyr_env::Blocks;
    use tyr_sim_env::{Fault, SimDisk};

    use super::*;

    fn guarded(operation: u64, fault: Fault) -> (Arc<Guard>, Arc<dyn File>, Arc<Poison>) {
        let disk = SimDisk::new(1);
        disk.write_file("a", &[1; 4096]).expect("plants");
        disk.fail_at(operation, fault);
        let poison = Arc::new(Poison::default());
        let guard = Guard::new(disk, poison.clone());
        let file = guard.open("a", Access::Write).expect("opens");
        (guard, file, poison)
    }

    #[test]
    fn after_a_failed_sync_nothing_is_changed_any_more_and_reads_go_on() {
        let (guard, file, poison) = guarded(0, Fault::Error);
        let block = Blocks::zeroed(4096);
        guard.sync_names().expect_err("fails");
        assert!(poison.is_set() && poison.check().is_err());
        let write = Write { file: &*file, position: 0, bytes: block.as_bytes() };
        assert!(guard.write_durably(&[write]).is_err() && file.write_at(0, block.as_bytes()).is_err());
        assert!(file.sync().is_err() && file.reserve(8192).is_err() && guard.sync_names().is_err());
        assert!(guard.rename("a", "b").is_err() && guard.remove("a").is_err());
        assert!(guard.open("b", Access::Create).is_err());
        let mut byte = [0];
        file.read_at(0, &mut byte).expect("reads");
        guard.open("a", Access::Read).expect("opens").read_at(0, &mut byte).expect("reads");
        assert_eq!((byte, file.length().expect("has one")), ([1], 4096));
    }

    #[test]
    fn a_write_without_space_is_no_reason_to_stop() {
        let (guard, file, poison) = guarded(0, Fault::Full);
        file.write_at(0, Blocks::zeroed(4096).as_bytes()).expect_err("has no space");
        assert!(!poison.is_set());
        guard.sync_names().expect("syncs");
    }
}

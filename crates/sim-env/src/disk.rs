//! The simulated disk, as code under test and its tests see it.

use std::{fmt, io, sync::Arc};

use parking_lot::Mutex;
use tyr_env::{Access, Disk, File, Space, Write, check_name};

use crate::{
    fault::{Fault, Strike},
    file::SimFile,
    inode::CrashMode,
    names::Change,
    random::Random,
    state::{Counts, State},
};

/// A disk in memory that loses, tears, and damages what real disks lose, tear, and damage.
///
/// What is durable is exactly what [`Disk`] promises and nothing more: [`Disk::write_durably`] makes its own writes durable, not
/// earlier ones of the same files; the length of a file is durable as far as something durable was written or the file was synced;
/// names are durable after [`Disk::sync_names`].
///
/// The machine that the disk belongs to crashes by [`SimDisk::crash`], or in the middle of an operation by [`Fault::Crash`]. From
/// then on everything on this disk and its open files fails; `crash` returns what is found afterwards, as another disk.
///
/// Reads are whole or fail, as the trait has it: what a real disk reports as a short read of a file that was cut shows here as
/// `UnexpectedEof`, by [`SimDisk::truncate`].
pub struct SimDisk {
    pub(crate) state: Arc<Mutex<State>>,
}

impl SimDisk {
    /// An empty disk. The seed decides everything that is left to chance.
    pub fn new(seed: u64) -> Arc<SimDisk> {
        SimDisk::with(State::new(seed))
    }

    fn with(state: State) -> Arc<SimDisk> {
        Arc::new(SimDisk { state: Arc::new(Mutex::new(state)) })
    }

    /// Starts another sequence of choices, for instance after a snapshot.
    pub fn reseed(&self, seed: u64) {
        self.state.lock().random = Random::new(seed);
    }

    /// Cuts the power, if that has not happened yet, and returns the disk as it is found afterwards: without faults to come, with
    /// counts at zero. Can be called again for another outcome of the same crash.
    pub fn crash(&self, mode: CrashMode) -> Arc<SimDisk> {
        SimDisk::with(self.state.lock().crash(mode))
    }

    /// Whether the power is off.
    pub fn is_crashed(&self) -> bool {
        self.state.lock().off
    }

    /// A copy of the disk with all that is durable or not, its damage, and its sequence of choices; without open files,
    /// without faults to come, with counts at zero. The copy and the original do not affect one another.
    pub fn snapshot(&self) -> Arc<SimDisk> {
        SimDisk::with(self.state.lock().snapshot())
    }

    /// Lets a fault strike the operation with this number, or the first one after it that it can strike. The first
    /// operation has number 0. One fault per number: a second one replaces the first.
    pub fn fail_at(&self, operation: u64, fault: Fault) {
        self.state.lock().faults.schedule(operation, fault);
    }

    /// The faults that have struck, in order. A test that schedules one may check that it did.
    pub fn strikes(&self) -> Vec<Strike> {
        self.state.lock().faults.strikes.clone()
    }

    /// How many scheduled faults have not struck yet.
    pub fn faults_pending(&self) -> usize {
        self.state.lock().faults.pending()
    }

    /// How many operations that change something there were, failed ones included; the next one has this number.
    pub fn operations(&self) -> u64 {
        self.state.lock().counts.operations
    }

    /// Takes note, in words, of every operation that changes something from now on.
    pub fn note_operations(&self) {
        self.state.lock().notes.get_or_insert_default();
    }

    /// The operations noted since [`SimDisk::note_operations`], in order, as [`Strike::what`] has them.
    pub fn noted_operations(&self) -> Vec<String> {
        self.state.lock().notes.clone().unwrap_or_default()
    }

    /// What was done on this disk.
    pub fn counts(&self) -> Counts {
        self.state.lock().counts
    }

    /// Sets the size of the disk in bytes. What would grow a file beyond it fails with `StorageFull`. It may be less than
    /// what is taken.
    pub fn set_capacity(&self, bytes: u64) {
        self.state.lock().capacity = bytes;
    }
}

impl Disk for SimDisk {
    fn names(&self) -> io::Result<Vec<String>> {
        let mut state = self.state.lock();
        state.check_power()?;
        let mut names: Vec<String> = state.names.iter().map(|(name, _)| name.clone()).collect();
        // Nobody may rely on an order.
        state.random.fork().shuffle(&mut names);
        Ok(names)
    }

    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn File>> {
        check_name(name)?;
        let mut state = self.state.lock();
        state.check_power()?;
        let file = match access {
            Access::Read | Access::Write => state.find(name)?,
            Access::Create if state.names.file(name).is_some() => {
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, format!("file '{name}' exists")));
            }
            Access::Create => state.create(name)?,
        };
        Ok(SimFile::new(&self.state, &mut state, file, name, access)?)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        check_name(from)?;
        check_name(to)?;
        let mut state = self.state.lock();
        state.check_power()?;
        state.find(from)?;
        state.change_names(Change::Rename { from: from.into(), to: to.into() })
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        check_name(name)?;
        let mut state = self.state.lock();
        state.check_power()?;
        state.find(name)?;
        state.change_names(Change::Remove { name: name.into() })
    }

    fn sync_names(&self) -> io::Result<()> {
        self.state.lock().sync_names()
    }

    fn space(&self) -> io::Result<Space> {
        let state = self.state.lock();
        state.check_power()?;
        Ok(Space { total: state.capacity, free: state.capacity.saturating_sub(state.used()) })
    }

    fn write_durably(&self, writes: &[Write<'_>]) -> io::Result<()> {
        let mut planned = Vec::with_capacity(writes.len());
        for write in writes {
            let file = write.file.as_any().downcast_ref::<SimFile>().filter(|file| file.is_of(&self.state));
            let foreign = || {
                io::Error::new(io::ErrorKind::InvalidInput, "a durable write names a file of another disk")
            };
            planned.push(file.ok_or_else(foreign)?.plan_write(write.position, write.bytes)?);
        }
        planned.retain(|write| !write.bytes.is_empty());
        self.state.lock().write_batch(&planned)
    }

    fn describe(&self) -> String {
        "simulated".into()
    }
}

impl fmt::Debug for SimDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        let files = state.names.iter().count();
        write!(
            f,
            "SimDisk({files} files, {} operations, strikes: {:?})",
            state.counts.operations, state.faults.strikes
        )
    }
}

#[cfg(test)]
pub(crate) mod tests;

//! An open file of the simulated disk.

use std::{any::Any, io, sync::Arc};

use parking_lot::Mutex;
use tyr_env::{Access, File, LENGTH_MAX, check_blocks};

use crate::{
    names::FileId,
    state::{BlockWrite, Promise, State},
};

/// A handle. After a crash of its disk every call fails.
#[derive(Debug)]
pub(crate) struct SimFile {
    state: Arc<Mutex<State>>,
    file: FileId,
    name: String,
    access: Access,
}

impl SimFile {
    /// A handle of a file, which `state`, now locked, lives as long as.
    pub(crate) fn new(
        shared: &Arc<Mutex<State>>,
        state: &mut State,
        file: FileId,
        name: &str,
        access: Access,
    ) -> io::Result<Arc<SimFile>> {
        state.open(file)?;
        Ok(Arc::new(SimFile { state: shared.clone(), file, name: name.into(), access }))
    }

    /// A write to this file, if the caller may and does it right.
    pub(crate) fn plan_write<'a>(&'a self, position: u64, bytes: &'a [u8]) -> io::Result<BlockWrite<'a>> {
        self.check_writable()?;
        check_blocks(position, bytes)?;
        Ok(BlockWrite { file: self.file, name: &self.name, position, bytes })
    }

    /// Whether this is a file of the disk with this state.
    pub(crate) fn is_of(&self, state: &Arc<Mutex<State>>) -> bool {
        Arc::ptr_eq(&self.state, state)
    }

    fn check_writable(&self) -> io::Result<()> {
        if self.access != Access::Read {
            return Ok(());
        }
        let message = format!("'{}' was opened for reading; open it for writing", self.name);
        Err(io::Error::new(io::ErrorKind::PermissionDenied, message))
    }
}

impl File for SimFile {
    fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.state.lock().read(self.file, &self.name, position, buffer)
    }

    fn write_at(&self, position: u64, bytes: &[u8]) -> io::Result<()> {
        let write = self.plan_write(position, bytes)?;
        if bytes.is_empty() {
            return self.state.lock().check_power();
        }
        self.state.lock().write(write, Promise::Nothing)
    }

    fn sync(&self) -> io::Result<()> {
        self.state.lock().sync(self.file, &self.name)
    }

    fn reserve(&self, length: u64) -> io::Result<()> {
        self.check_writable()?;
        if length > LENGTH_MAX {
            let message = format!("'{}' cannot be {length} bytes long", self.name);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        self.state.lock().reserve(self.file, &self.name, length)
    }

    fn length(&self) -> io::Result<u64> {
        let state = self.state.lock();
        state.check_power()?;
        Ok(state.inode(self.file)?.content().length())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        self.state.lock().close(self.file);
    }
}

//! The yardstick for reads: one file per blob and `pread`.
//!
//! Warm reads come from the page cache, cold ones use direct I/O, which passes the page cache by and so needs no right to drop it.
//! A direct read takes the whole blocks around the bytes that are asked for.

use std::{cell::RefCell, fs::File, path::PathBuf};

use parking_lot::RwLock;
use rustix::fs::{Mode, OFlags};
use tyr_env::{BLOCK_SIZE, Blocks};

use crate::system::{Outcome, Setting, System, Temperature};

/// A directory of files.
pub struct BareFiles {
    directory: PathBuf,
    temperature: Temperature,
    files: RwLock<Vec<File>>,
}

impl BareFiles {
    /// An empty directory.
    pub fn create(setting: &Setting) -> Self {
        BareFiles {
            directory: setting.directory.clone(),
            temperature: setting.temperature,
            files: RwLock::default(),
        }
    }

    /// The files that are there.
    pub fn open(setting: &Setting) -> Outcome<Self> {
        let files = BareFiles::create(setting);
        let count = std::fs::read_dir(&setting.directory)?.count() as u64;
        let opened = (0..count).map(|blob| files.open_file(blob)).collect::<Outcome<Vec<_>>>()?;
        *files.files.write() = opened;
        Ok(files)
    }

    fn open_file(&self, blob: u64) -> Outcome<File> {
        let direct = match self.temperature {
            Temperature::Usual | Temperature::Warm => OFlags::empty(),
            Temperature::Cold => OFlags::DIRECT,
        };
        let path = self.directory.join(blob.to_string());
        Ok(rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC | direct, Mode::empty())?.into())
    }
}

impl System for BareFiles {
    /// Only for filling: blobs are put in the order of their numbers, by one thread.
    fn put(&self, blob: u64, payload: &'static [u8]) -> Outcome<()> {
        self.write(blob, 0, payload)
    }

    fn write(&self, blob: u64, offset: u64, payload: &'static [u8]) -> Outcome<()> {
        use std::os::unix::fs::FileExt;
        let path = self.directory.join(blob.to_string());
        let file = File::options().create(true).truncate(false).write(true).open(path)?;
        file.write_all_at(payload, offset)?;
        let mut files = self.files.write();
        if usize::try_from(blob)? == files.len() {
            let opened = self.open_file(blob)?;
            files.push(opened);
        }
        Ok(())
    }

    fn read(&self, blob: u64, offset: u64, buffer: &mut [u8]) -> Outcome<()> {
        use std::os::unix::fs::FileExt;
        let files = self.files.read();
        let file = files.get(usize::try_from(blob)?).ok_or("no such blob")?;
        match self.temperature {
            Temperature::Usual | Temperature::Warm => Ok(file.read_exact_at(buffer, offset)?),
            Temperature::Cold => read_direct(file, offset, buffer),
        }
    }

    fn settle(&self) -> Outcome<()> {
        for blob in 0..self.files.read().len() {
            File::options().write(true).open(self.directory.join(blob.to_string()))?.sync_all()?;
        }
        Ok(())
    }
}

fn read_direct(file: &File, offset: u64, buffer: &mut [u8]) -> Outcome<()> {
    use std::os::unix::fs::FileExt;
    thread_local! {
        static BLOCKS: RefCell<Blocks> = RefCell::default();
    }
    let before = usize::try_from(offset % BLOCK_SIZE as u64)?;
    let span = (before + buffer.len()).next_multiple_of(BLOCK_SIZE);
    BLOCKS.with_borrow_mut(|blocks| {
        if blocks.len() < span {
            blocks.resize(span);
        }
        file.read_exact_at(&mut blocks.as_bytes_mut()[..span], offset - before as u64)?;
        buffer.copy_from_slice(&blocks.as_bytes()[before..before + buffer.len()]);
        Ok(())
    })
}

//! Directories, read.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use fuser::{FileType, Generation, INodeNo, ReplyDirectory, ReplyDirectoryPlus};
use tyr_fs::{Entry, Errno, Inode, Metadata, Result};

use crate::{attributes::file_type, handles::Handle, shared::Shared};

/// A part of a directory, with what is known of what is in it.
pub struct Looked {
    /// What is known of the directory.
    own: Option<Metadata>,
    entries: Arc<Vec<Entry>>,
    /// The place of the first entry that was looked at.
    first: usize,
    /// What the entries mean, from that one on; `None` where there is nothing any more.
    found: Vec<Option<Metadata>>,
}

impl Shared {
    /// The entries of an open directory. They are read anew when the reading begins anew.
    pub async fn listed(&self, number: u64, handle: u64, offset: u64) -> Result<Arc<Vec<Entry>>> {
        let Handle::Directory(kept) = self.handles.get(handle)? else {
            return Err(Errno::EBADF.because("no directory of that number is open"));
        };
        let known = kept.lock().clone();
        match known.filter(|_| offset > 0) {
            Some(known) => Ok(known),
            None => {
                let directory = self.known.get(number)?;
                let read = Arc::new(self.filesystem.list(&directory).await?);
                if self.is_told() {
                    self.ahead.list(number, &read);
                }
                *kept.lock() = Some(read.clone());
                Ok(read)
            }
        }
    }

    /// Entries of an open directory, and what is known of them.
    pub async fn looked(&self, number: u64, handle: u64, offset: u64) -> Result<Looked> {
        let entries = self.listed(number, handle, offset).await?;
        let directory = self.known.get(number)?;
        // What `.` and `..` are told with, which come first.
        let own = match dots(offset).next() {
            Some(_) => self.filesystem.metadata(&directory).await.ok(),
            None => None,
        };
        let mut first = first_entry(offset);
        loop {
            let some = entries.iter().skip(first).take(self.fit.expected());
            let names: Vec<_> = some.map(|entry| entry.name.as_slice()).collect();
            let found = self.filesystem.lookup_all(&directory, &names).await?;
            self.ahead.told(number, first + found.len());
            // An answer without entries would be the end of the directory.
            if found.is_empty() || found.iter().any(Option::is_some) {
                return Ok(Looked { own, entries, first, found });
            }
            first += found.len();
        }
    }

    /// Has what follows a name in its directory known, if somebody goes through that, and if what is known is kept.
    pub async fn look_ahead(&self, number: u64, directory: &Inode, name: &[u8]) {
        if !self.is_told() {
            return;
        }
        if let Some((entries, range)) = self.ahead.follow(number, name) {
            let names: Vec<_> = entries[range].iter().map(|entry| entry.name.as_slice()).collect();
            // Each is asked for by itself after that, and what is the matter is told then.
            let _ = self.filesystem.lookup_all(directory, &names).await;
        }
    }

    /// Tells the kernel of as many entries as it takes, with what is known of them.
    pub fn tell_looked(&self, inode: INodeNo, offset: u64, looked: Looked, mut reply: ReplyDirectoryPlus) {
        if let Some(own) = looked.own {
            let attributes = self.attributes(&own);
            for (place, name) in dots(offset) {
                // The kernel takes no lookup of these.
                if reply.add(inode, place, name, &Duration::ZERO, &attributes, Generation(0)) {
                    return reply.ok();
                }
            }
        }
        let count = looked.found.len();
        let pairs = looked.entries.iter().enumerate().skip(looked.first).zip(looked.found);
        let mut told = 0;
        for ((place, entry), metadata) in pairs {
            // One that was removed meanwhile is passed over.
            let Some(metadata) = metadata else { continue };
            let name = OsStr::from_bytes(&entry.name);
            // Before its number is told, so that nobody else gets that.
            let number = self.known.tell(&metadata.inode, (inode.0, &entry.name), Instant::now());
            let attributes = self.attributes(&metadata);
            let cache = self.settings.entry_cache.min(self.attribute_cache(&metadata, None));
            if reply.add(INodeNo(number), place as u64 + 3, name, &cache, &attributes, Generation(0)) {
                self.known.forget(number, 1);
                break;
            }
            told = place + 1 - looked.first;
        }
        self.fit.note(told, count);
        reply.ok();
    }
}

/// How many entries, with what is known of them, fit what the kernel asks for: 4 KiB, or as much as the program that reads. They are looked at together.
pub struct Fit(AtomicUsize);

impl Default for Fit {
    fn default() -> Self {
        Fit(AtomicUsize::new(FIT_FIRST))
    }
}

impl Fit {
    /// So many are worth looking at for one answer.
    fn expected(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// So many of those that were looked at fitted. Next time a few more are looked at, or twice as many if there was room for all.
    fn note(&self, told: usize, looked: usize) {
        let expected = self.expected();
        let next = match told < looked {
            true => told + told / 8 + 1,
            false if looked == expected => 2 * expected,
            false => expected,
        };
        self.0.store(next.clamp(FIT_MIN, FIT_MAX), Ordering::Relaxed);
    }
}

/// Tells the kernel of as many entries as it takes.
pub fn tell_listed(inode: INodeNo, offset: u64, entries: &[Entry], mut reply: ReplyDirectory) {
    for (place, name) in dots(offset) {
        if reply.add(inode, place, FileType::Directory, name) {
            return reply.ok();
        }
    }
    for (place, entry) in entries.iter().enumerate().skip(first_entry(offset)) {
        let name = OsStr::from_bytes(&entry.name);
        if reply.add(INodeNo(entry.number), place as u64 + 3, file_type(entry.kind), name) {
            break;
        }
    }
    reply.ok();
}

/// What every directory has, from an offset on, each with the offset after it.
fn dots(offset: u64) -> impl Iterator<Item = (u64, &'static str)> {
    (1..).zip([".", ".."]).filter(move |(after, _)| *after > offset)
}

/// The place of the first entry at an offset or after it.
fn first_entry(offset: u64) -> usize {
    usize::try_from(offset.saturating_sub(2)).unwrap_or(usize::MAX)
}

/// So many entries are looked at for the first answer,
const FIT_FIRST: usize = 64;
/// and never fewer
const FIT_MIN: usize = 8;
/// or more than so many.
const FIT_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_are_looked_at_as_fit() {
        let fit = Fit::default();
        fit.note(24, 64);
        assert_eq!(fit.expected(), 28);
        fit.note(24, 28);
        assert_eq!(fit.expected(), 28, "some more may fit");
        fit.note(28, 28);
        assert_eq!(fit.expected(), 56);
        fit.note(3, 3);
        assert_eq!(fit.expected(), 56, "the directory has ended");
        fit.note(0, 56);
        assert_eq!(fit.expected(), FIT_MIN);
        (0..9).for_each(|_| fit.note(fit.expected(), fit.expected()));
        assert_eq!(fit.expected(), FIT_MAX);
    }
}

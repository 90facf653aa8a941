//! Directories, read.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    sync::Arc,
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
        let own = self.filesystem.metadata(&directory).await.ok();
        let mut first = first_entry(offset);
        loop {
            let some = entries.iter().skip(first).take(LOOKED_AT_ONCE);
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
        let pairs = looked.entries.iter().enumerate().skip(looked.first).zip(looked.found);
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
        }
        reply.ok();
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

/// So many entries are looked at for one answer; about as many fit it.
const LOOKED_AT_ONCE: usize = 64;

//! Open files: their content.

use std::{
    ops::Range,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tyr_client::{ErrorKind, Seek, Transaction};

use crate::{
    change::Changes,
    errno::{Errno, Error, Result, Stop},
    filesystem::{Filesystem, gone, transact},
    guest::keeps_out,
    inode::{ACCESSED, CHANGED, Inode, Kind, Metadata, NUMBER, Timestamp, encode_number, encode_time},
    namespace::{New, is_directory},
    orphans::may_be_opened,
    uses::Reach,
};

/// An open file: as long as this lives there is something to read, whoever takes its names.
///
/// Reads and writes at any offset, by any number of tasks at once. Each of them happens as a whole, at one moment between its call and
/// its end; a read sees every write that had ended when it began, through whatever mount or client that was. What was written is as durable as the keyspace
/// says when the write ends.
#[derive(Debug)]
pub struct File {
    filesystem: Filesystem,
    inode: Inode,
    /// As which guest it was opened; as none by who may only read.
    guest: Option<u64>,
    /// Whether the first read is to be noted.
    notes_access: AtomicBool,
    /// When it was last seen to have no privileges.
    unprivileged_at: Mutex<Option<Looked>>,
}

/// When a file was looked at, and how often any was given privileges here by then.
#[derive(Clone, Copy, Debug)]
struct Looked {
    at: Instant,
    given: u64,
}

/// What becomes of a range of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocate {
    /// It is there: the file is as long at least.
    Extend,
    /// Room is kept for it, the size stays. There is nothing to do for that: writes are refused when the store is full.
    Keep,
    /// It becomes a hole, the size stays.
    Punch,
    /// It becomes a hole, and the file is as long at least.
    Zero,
}

impl Filesystem {
    /// Opens a regular file. Fails with [`Errno::ESTALE`] if it has no name any more and is not open here, or lies elsewhere by now.
    pub async fn open_file(&self, inode: &Inode) -> Result<(File, Metadata)> {
        check_has_content(inode)?;
        if self.flat().is_some() {
            let looked = self.look_for_privileges();
            let metadata = self.metadata(inode).await?;
            self.inner.uses.add(inode.number);
            let file = File::new(self.clone(), inode.clone(), Some(0));
            file.has_mode(looked, metadata.mode);
            return Ok((file, metadata));
        }
        let guest = self.join().await?;
        let _entered = self.inner.uses.enter(inode.number).await;
        let is_open_here = self.inner.uses.contains(inode.number);
        self.inner.uses.add(inode.number);
        // If that fails it is dropped, and no use any more.
        let file = File::new(self.clone(), inode.clone(), Some(guest));
        let looked = self.look_for_privileges();
        let metadata = self.metadata(inode).await?;
        file.has_mode(looked, metadata.mode);
        if !may_be_opened(&metadata, is_open_here) {
            return Err(gone());
        }
        if metadata.leaving.is_some() || self.inner.uses.is_doubted(inode.number) {
            self.stay(inode).await?;
        }
        self.inner.uses.learn(inode.number, metadata.cut, metadata.size);
        let is_old = metadata.accessed <= metadata.modified
            || metadata.accessed <= metadata.changed
            || metadata.accessed.seconds.saturating_add(DAY) < Timestamp::now().seconds;
        file.notes_access.store(is_old, Ordering::Relaxed);
        Ok((file, metadata))
    }

    /// The same for who only reads, also where this client may not write, or there is no room, and so can be no guest: then nobody knows that it has the file open. It does not stay
    /// for that, nor where it lies, and what reads it fails with [`Errno::ESTALE`] when it is gone.
    pub async fn open_file_to_read(&self, inode: &Inode) -> Result<(File, Metadata)> {
        if !self.was_denied_lately() {
            match self.open_file(inode).await {
                Err(error) if keeps_out(error.errno()) && self.was_denied_lately() => {}
                result => return result,
            }
        }
        check_has_content(inode)?;
        self.inner.uses.add(inode.number);
        let file = File::new(self.clone(), inode.clone(), None);
        let metadata = self.metadata(inode).await?;
        match may_be_opened(&metadata, false) {
            true => Ok((file, metadata)),
            false => Err(gone()),
        }
    }

    /// Makes a regular file under a new name, and opens it. Fails with [`Errno::EEXIST`] if there is such a name.
    pub async fn make_file(&self, directory: &Inode, name: &[u8], new: &New) -> Result<(File, Metadata)> {
        let looked = self.look_for_privileges();
        if let Some(flat) = self.flat() {
            let metadata = self.flat_make(flat, directory, name, new).await?;
            self.inner.uses.add(metadata.inode.number);
            let file = File::new(self.clone(), metadata.inode.clone(), Some(0));
            file.has_mode(looked, metadata.mode);
            return Ok((file, metadata));
        }
        let (guest, number) = (self.join().await?, self.number().await?);
        self.inner.uses.add(number);
        self.inner.uses.reach(number, 0..new.content.len() as u64);
        match self.make_numbered(directory, name, new, number).await {
            Ok(metadata) => {
                let file = File::new(self.clone(), metadata.inode.clone(), Some(guest));
                file.has_mode(looked, metadata.mode);
                file.notes_access.store(true, Ordering::Relaxed);
                Ok((file, metadata))
            }
            Err(error) => {
                self.inner.uses.remove(number);
                Err(error)
            }
        }
    }

    /// What there is to be known of before a mode is read that is to say whether a file has privileges.
    fn look_for_privileges(&self) -> Looked {
        Looked { at: Instant::now(), given: self.inner.privileges_given.load(Ordering::SeqCst) }
    }
}

impl Filesystem {
    /// Has a file count as read last then, if it is still there and was not changed since.
    ///
    /// What was read is right whether that could be noted or not: who may only read is not allowed to. Fails with [`Errno::ESTALE`] if it is known that the file
    /// does not lie there any more.
    pub async fn note_access(&self, inode: &Inode, access: Timestamp) -> Result<()> {
        self.try_note_access(inode, access).await.map_err(|stop| match stop {
            Stop::Refused(error) => error,
            Stop::Store(error) => error.into(),
        })
    }

    async fn try_note_access(&self, inode: &Inode, access: Timestamp) -> Result<(), Stop> {
        let mut transaction = self.store().begin();
        self.require(&mut transaction, inode, false).await?;
        // What was set since, by whomever, stays; and what was written since is noted when it is read.
        for name in [CHANGED, ACCESSED] {
            let time = self.attribute(&mut transaction, inode, name).await?;
            if time.as_deref().and_then(Timestamp::decode).is_some_and(|time| time > access) {
                return Ok(());
            }
        }
        let time = encode_time(access);
        transaction.set_attribute(self.keyspace(), &inode.site, ACCESSED, Some(&time)).await?;
        // It is gone, or somebody else has noted a later one.
        let _ = transaction.commit().await?;
        Ok(())
    }
}

impl File {
    fn new(filesystem: Filesystem, inode: Inode, guest: Option<u64>) -> Self {
        File { filesystem, inode, guest, notes_access: false.into(), unprivileged_at: Mutex::default() }
    }

    /// Has it run with nobody's rights but those of who runs it from now on: for a write by somebody who may not give those. What another client has given
    /// it less than a second ago may stay.
    pub async fn drop_privileges(&self) -> Result<()> {
        let looked = self.filesystem.look_for_privileges();
        let is_recent = |last: Looked| {
            last.given == looked.given && looked.at.saturating_duration_since(last.at) < PRIVILEGES_SEEN
        };
        if self.unprivileged_at.lock().is_some_and(is_recent) {
            return Ok(());
        }
        let mode = self.filesystem.metadata(&self.inode).await?.mode;
        if unprivileged(mode) != mode {
            self.change(&Changes { drops_privileges: true, ..Changes::default() }).await?;
        }
        self.has_mode(looked, unprivileged(mode));
        Ok(())
    }

    /// It had this mode after it was looked for privileges.
    fn has_mode(&self, looked: Looked, mode: u32) {
        if unprivileged(mode) == mode {
            *self.unprivileged_at.lock() = Some(looked);
        }
    }

    /// The inode.
    pub fn inode(&self) -> &Inode {
        &self.inode
    }

    /// What is known of it now.
    pub async fn metadata(&self) -> Result<Metadata> {
        let metadata = self.filesystem.metadata(&self.inode).await?;
        self.confirm().await?;
        Ok(metadata)
    }

    /// Has no read change when the file counts as read last.
    pub fn without_access_times(&self) {
        self.notes_access.store(false, Ordering::Relaxed);
    }

    /// Reads so many bytes at an offset; fewer at the end of the file.
    pub async fn read(&self, offset: u64, length: usize) -> Result<Vec<u8>> {
        let (bytes, access) = self.read_first(offset, length).await?;
        if let Some(access) = access {
            let _ = self.filesystem.note_access(&self.inode, access).await;
        }
        Ok(bytes)
    }

    /// As [`File::read`], but whether and when the file counts as read last is left to the caller, who calls [`Filesystem::note_access`] when nobody
    /// waits any more.
    pub async fn read_first(&self, offset: u64, length: usize) -> Result<(Vec<u8>, Option<Timestamp>)> {
        let end = offset.saturating_add(length as u64).min(SIZE_MAX);
        if offset >= end {
            return Ok((Vec::new(), None));
        }
        if self.guest.is_none() {
            return Ok((self.read_as_none(offset..end).await?, None));
        }
        let bytes = match self.filesystem.keyspace().read(&self.inode.site, offset..end).await {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(gone()),
            Err(error) => return Err(error.into()),
        };
        // Were this client not a guest any more, another file might lie there.
        self.confirm().await?;
        let is_noted = !bytes.is_empty() && self.notes_access.swap(false, Ordering::Relaxed);
        Ok((bytes, is_noted.then(Timestamp::now)))
    }

    /// Reads a range by who is no guest: another file may have come to lie there, so at one moment with the number that says whose bytes these are.
    async fn read_as_none(&self, range: Range<u64>) -> Result<Vec<u8>> {
        let mut transaction = self.filesystem.store().begin();
        self.try_read(&mut transaction, range).await.map_err(|stop| match stop {
            Stop::Refused(error) => error,
            Stop::Store(error) => error.into(),
        })
    }

    async fn try_read(&self, transaction: &mut Transaction, range: Range<u64>) -> Result<Vec<u8>, Stop> {
        let number = self.filesystem.attribute(transaction, &self.inode, NUMBER).await?;
        if number != Some(encode_number(&self.inode)) {
            return Err(gone().into());
        }
        Ok(transaction.read(self.filesystem.keyspace(), &self.inode.site, range).await?)
    }

    /// Writes bytes at an offset; what lies between the end and the offset reads as zeros.
    pub async fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        check_range(offset, bytes.len() as u64)?;
        if bytes.is_empty() {
            return Ok(());
        }
        let mut at = offset;
        for piece in bytes.chunks(WRITE_MAX) {
            let end = at + piece.len() as u64;
            // Now: who writes what comes next does so at the same time.
            let known = self.filesystem.inner.uses.reach(self.inode.number, at..end);
            match self.write_piece(at, piece, known).await {
                Ok(cut) => self.filesystem.inner.uses.extend(self.inode.number, cut, end),
                Err(error) => {
                    self.filesystem.inner.uses.doubt(self.inode.number, at);
                    return Err(error);
                }
            }
            at = end;
        }
        Ok(())
    }

    /// Writes as much as one transaction does. Returns when the file was cut last.
    async fn write_piece(&self, offset: u64, bytes: &[u8], known: Reach) -> Result<Option<Timestamp>> {
        let committed = transact!(self.filesystem, |transaction, again| self.try_write(
            transaction,
            again,
            offset,
            bytes,
            known
        ));
        Ok(committed.value)
    }

    async fn try_write(
        &self,
        transaction: &mut Transaction,
        again: bool,
        offset: u64,
        bytes: &[u8],
        known: Reach,
    ) -> Result<Option<Timestamp>, Stop> {
        self.require(transaction, again).await?;
        let known = self.filesystem.known_end(transaction, &self.inode, known, offset, again).await?;
        transaction.write(self.filesystem.keyspace(), &self.inode.site, offset, bytes).await?;
        if !known.is_joined {
            self.filesystem.mark_holes(transaction, &self.inode, true).await?;
        }
        self.filesystem.touch(transaction, &self.inode, Timestamp::now()).await?;
        Ok(known.cut)
    }

    /// The most bytes that are appended at once.
    pub const APPEND_MAX: usize = WRITE_MAX;

    /// Writes bytes at the end, whoever else does so at the same time, and returns where that was. More than [`File::APPEND_MAX`] are refused with
    /// [`Errno::EFBIG`], and so are more than the file can still take.
    pub async fn append(&self, bytes: &[u8]) -> Result<u64> {
        if bytes.len() > File::APPEND_MAX {
            return Err(Errno::EFBIG.because("so much cannot be appended as a whole"));
        }
        let appending = async || {
            Ok(transact!(self.filesystem, |transaction, again| self.try_append(transaction, again, bytes)))
        };
        let committed = match appending().await {
            // What is invalid about an append is that it goes beyond the largest size.
            Err(error) if error.errno() == Errno::EINVAL => {
                check_range(self.metadata().await?.size, bytes.len() as u64)?;
                return Err(error);
            }
            committed => committed?,
        };
        let offset = committed.receipt.offset(committed.value);
        let offset = offset.ok_or_else(|| crate::errno::damaged("an append's offset"))?;
        self.filesystem.inner.uses.reach(self.inode.number, 0..offset + bytes.len() as u64);
        Ok(offset)
    }

    async fn try_append(
        &self,
        transaction: &mut Transaction,
        again: bool,
        bytes: &[u8],
    ) -> Result<tyr_client::Slot, Stop> {
        self.require(transaction, again).await?;
        let slot = transaction.append(self.filesystem.keyspace(), &self.inode.site, bytes).await?;
        self.filesystem.touch(transaction, &self.inode, Timestamp::now()).await?;
        Ok(slot)
    }

    /// Makes it this long, cutting it or extending it with zeros.
    pub async fn truncate(&self, size: u64) -> Result<()> {
        self.change(&Changes { size: Some(size), ..Changes::default() }).await.map(drop)
    }

    /// Changes what is known of it, as [`Filesystem::change`].
    pub async fn change(&self, changes: &Changes) -> Result<Metadata> {
        let guest = self.guest.ok_or_else(only_reads)?;
        self.filesystem.change_as(Some(guest), &self.inode, changes).await
    }

    /// Fails with [`Errno::ESTALE`] if this client was silent for too long since it opened the file. Of who is no guest nobody expects a word.
    pub async fn confirm(&self) -> Result<()> {
        match self.guest {
            Some(guest) => self.filesystem.confirm(guest).await,
            None => Ok(()),
        }
    }

    /// The same, as far as that is known: asks nobody.
    pub fn confirm_here(&self) -> Result<()> {
        self.guest.map_or(Ok(()), |guest| self.filesystem.is_surely_guest(guest).map(drop))
    }

    /// Has the commit refused unless the file exists, and this client is the guest still that opened it.
    async fn require(&self, transaction: &mut Transaction, again: bool) -> Result<(), Stop> {
        let guest = self.guest.ok_or_else(only_reads)?;
        self.filesystem.require_guest(transaction, guest, again).await?;
        self.filesystem.require(transaction, &self.inode, again).await
    }

    /// The same of a file that is only read by that.
    async fn require_read(&self, transaction: &mut Transaction, again: bool) -> Result<(), Stop> {
        match self.guest {
            Some(_) => self.require(transaction, again).await,
            None => self.filesystem.require(transaction, &self.inode, again).await,
        }
    }

    /// Waits until everything that was written is durable. Where the keyspace keeps it on disk, that has happened when a write ends.
    pub async fn sync(&self) -> Result<()> {
        self.confirm().await?;
        self.filesystem.sync().await
    }

    /// See [`Allocate`].
    pub async fn allocate(&self, what: Allocate, offset: u64, length: u64) -> Result<()> {
        if length == 0 {
            return Err(Errno::EINVAL.because("a range has some bytes"));
        }
        check_range(offset, length)?;
        let end = offset + length;
        match what {
            Allocate::Keep => self.confirm().await,
            Allocate::Extend => {
                transact!(self.filesystem, |transaction, again| self.try_extend(transaction, again, end));
                Ok(())
            }
            Allocate::Punch => self.punch(offset..end).await,
            Allocate::Zero => {
                self.punch(offset..end).await?;
                transact!(self.filesystem, |transaction, again| self.try_extend(transaction, again, end));
                Ok(())
            }
        }
    }

    async fn try_extend(&self, transaction: &mut Transaction, again: bool, end: u64) -> Result<(), Stop> {
        self.require(transaction, again).await?;
        let (keyspace, site) = (self.filesystem.keyspace(), &self.inode.site);
        if transaction.stat(keyspace, site).await?.size < end {
            transaction.truncate(keyspace, site, end).await?;
            self.filesystem.touch(transaction, &self.inode, Timestamp::now()).await?;
        }
        Ok(())
    }

    /// Leaves a hole in what there is, some at a time.
    async fn punch(&self, range: Range<u64>) -> Result<()> {
        let mut at = range.start;
        while at < range.end {
            // Where there is nothing, nothing has to be done.
            let Some(data) = self.sought(Seek::Data, at).await?.filter(|data| *data < range.end) else {
                break;
            };
            let piece = data..range.end.min(data.saturating_add(PUNCHED_AT_ONCE));
            at = piece.end;
            transact!(self.filesystem, |transaction, again| self.try_punch(
                transaction,
                again,
                piece.clone()
            ));
        }
        Ok(())
    }

    async fn try_punch(
        &self,
        transaction: &mut Transaction,
        again: bool,
        range: Range<u64>,
    ) -> Result<(), Stop> {
        self.require(transaction, again).await?;
        transaction.punch(self.filesystem.keyspace(), &self.inode.site, range).await?;
        self.filesystem.mark_holes(transaction, &self.inode, true).await?;
        self.filesystem.touch(transaction, &self.inode, Timestamp::now()).await
    }

    /// Where the next data or hole begins, from an offset on; the end of the file is a hole. Fails with [`Errno::ENXIO`] if the offset is at
    /// the end or after it, or if there is no more data.
    pub async fn seek(&self, what: Seek, offset: u64) -> Result<u64> {
        let found = self.sought(what, offset).await?;
        found.ok_or_else(|| {
            Errno::ENXIO.because("there is no more data, or the offset is at the end of the file")
        })
    }

    async fn sought(&self, what: Seek, offset: u64) -> Result<Option<u64>> {
        let found = match self.filesystem.keyspace().seek(&self.inode.site, what, offset).await {
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(gone()),
            found => found?,
        };
        // Were this client not a guest any more, another file might lie there.
        match self.guest {
            Some(_) => self.confirm().await?,
            None => drop(self.filesystem.metadata(&self.inode).await?),
        }
        Ok(found)
    }

    /// Copies a range of this file to another one, or to another place in it, and returns how many bytes there were, some at a time, each of them
    /// as a whole: if one of them fails, those before it are there. In a cluster the nodes copy them among themselves. Fails with [`Errno::EINVAL`] if the ranges
    /// overlap.
    pub async fn copy(&self, from: u64, to: (&File, u64), length: u64) -> Result<u64> {
        let (target, start) = to;
        check_range(from, length)?;
        check_range(start, length)?;
        let overlaps = from < start.saturating_add(length) && start < from.saturating_add(length);
        if self.inode == target.inode && overlaps {
            return Err(Errno::EINVAL.because("what is copied overlaps with where it goes"));
        }
        let mut done = 0;
        while done < length {
            let piece = (length - done).min(COPIED_AT_ONCE);
            let range = from + done..from + done + piece;
            let (copied, cut) = match self.copy_piece(range, (target, start + done)).await {
                Err(error) if done == 0 => return Err(error),
                // Whoever goes on from there is told.
                Err(_) => break,
                Ok(copied) => copied,
            };
            // Only now: a try that is repeated has to see again that it leaves a hole.
            done += copied;
            target.filesystem.inner.uses.extend(target.inode.number, cut, start + done);
            if copied < piece {
                break;
            }
        }
        if done > 0 && self.notes_access.swap(false, Ordering::Relaxed) {
            let _ = self.filesystem.note_access(&self.inode, Timestamp::now()).await;
        }
        Ok(done)
    }

    /// Copies as much as one transaction does. Returns how many bytes there were, and when the target was cut last.
    async fn copy_piece(&self, range: Range<u64>, to: (&File, u64)) -> Result<(u64, Option<Timestamp>)> {
        let committed = transact!(self.filesystem, |transaction, again| self.try_copy(
            transaction,
            again,
            range.clone(),
            to
        ));
        Ok(committed.value)
    }

    async fn try_copy(
        &self,
        transaction: &mut Transaction,
        again: bool,
        range: Range<u64>,
        (target, offset): (&File, u64),
    ) -> Result<(u64, Option<Timestamp>), Stop> {
        self.require_read(transaction, again).await?;
        target.require(transaction, again).await?;
        let known = target.filesystem.inner.uses.reaches(target.inode.number, offset);
        let known = target.filesystem.known_end(transaction, &target.inode, known, offset, again).await?;
        let (from, to) = (self.filesystem.keyspace(), target.filesystem.keyspace());
        let copied =
            transaction.copy((from, &self.inode.site), range, (to, &target.inode.site), offset).await;
        let copied = match copied {
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(gone().into()),
            copied => copied?,
        };
        if copied > 0 {
            if !known.is_joined {
                target.filesystem.mark_holes(transaction, &target.inode, true).await?;
            }
            target.filesystem.touch(transaction, &target.inode, Timestamp::now()).await?;
        }
        Ok((copied, known.cut))
    }
}

impl Drop for File {
    fn drop(&mut self) {
        self.filesystem.inner.uses.remove(self.inode.number);
    }
}

#[cold]
fn only_reads() -> Error {
    Errno::EACCES.because("this client may only read, and has opened the file for that")
}

/// Fails unless it is a regular file.
pub(crate) fn check_has_content(inode: &Inode) -> Result<()> {
    match inode.kind {
        Kind::File => Ok(()),
        Kind::Directory => Err(is_directory()),
        _ => Err(Errno::ENXIO.because("only regular files have content")),
    }
}

pub(crate) fn check_range(offset: u64, length: u64) -> Result<()> {
    match offset.checked_add(length) {
        Some(end) if end <= SIZE_MAX => Ok(()),
        _ => Err(Errno::EFBIG.because("a file has less than 2^63 bytes")),
    }
}

/// The mode of a file when somebody has changed it who may not give its owner's and its group's rights. The set-group-id bit of what its group may
/// not execute means something else, and stays.
pub(crate) fn unprivileged(mode: u32) -> u32 {
    let kept = if mode & libc::S_IXGRP == 0 { libc::S_ISGID } else { 0 };
    mode & (!PRIVILEGES | kept)
}

/// The bits by which a file runs with its owner's and its group's rights.
pub(crate) const PRIVILEGES: u32 = libc::S_ISUID | libc::S_ISGID;
/// The largest size of a file.
pub(crate) const SIZE_MAX: u64 = i64::MAX as u64;
/// What one transaction writes; a cluster takes 1 GiB.
const WRITE_MAX: usize = 256 << 20;
const PUNCHED_AT_ONCE: u64 = 1 << 30;
const COPIED_AT_ONCE: u64 = 64 << 20;
/// What another client gives is seen after so long.
const PRIVILEGES_SEEN: Duration = Duration::from_secs(1);
/// After so many seconds a read is noted though nothing has changed.
const DAY: i64 = 24 * 60 * 60;

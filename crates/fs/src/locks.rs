//! Locks: of byte ranges, and of whole files, kept in the store, so that all mounts see them.
//!
//! The locks of an inode are one small blob. They belong to an owner at a guest; those of one that is a guest no more are void. Nobody waits
//! here: who wants to says so ([`crate::waits`]), and asks again.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tyr_client::{ErrorKind, Transaction};

use crate::{
    errno::{Errno, Error, Result, Stop, damaged},
    filesystem::{Filesystem, transact},
    inode::Inode,
};

/// A lock of bytes, the last one included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lock {
    /// Whom it shuts out.
    pub kind: LockKind,
    /// The first byte.
    pub start: u64,
    /// The last byte; [`u64::MAX`] for all there will ever be.
    pub end: u64,
}

/// Whom a lock shuts out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// Those who want it exclusively.
    Shared,
    /// Everybody else.
    Exclusive,
}

/// Who has a lock, at this client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Whether it is one of ranges (`fcntl`), or of whole files (`flock`): neither kind is in the way of the other.
    pub of_ranges: bool,
    /// Who it is among the owners at this client.
    pub number: u64,
    /// The process that is told to those who ask.
    pub process: u32,
}

impl Owner {
    /// Whether it is the same one, whichever process is told.
    pub(crate) fn is(self, other: Owner) -> bool {
        self.number == other.number && self.of_ranges == other.of_ranges
    }
}

/// A lock as it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub owner: Owner,
    pub guest: u64,
    pub lock: Lock,
}

impl Record {
    pub fn is_of(&self, guest: u64, owner: Owner) -> bool {
        self.guest == guest && self.owner.is(owner)
    }

    /// Whether nobody but its owner can have the lock.
    pub fn is_in_the_way(&self, guest: u64, owner: Owner, lock: Lock) -> bool {
        self.owner.of_ranges == owner.of_ranges
            && !self.is_of(guest, owner)
            && self.lock.start <= lock.end
            && lock.start <= self.lock.end
            && (self.lock.kind == LockKind::Exclusive || lock.kind == LockKind::Exclusive)
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.owner.of_ranges));
        out.push(u8::from(self.lock.kind == LockKind::Exclusive));
        out.extend_from_slice(&self.owner.process.to_le_bytes());
        for word in [self.guest, self.owner.number, self.lock.start, self.lock.end] {
            out.extend_from_slice(&word.to_le_bytes());
        }
    }

    pub fn decode(bytes: &[u8]) -> Option<Record> {
        let (&[of_ranges, is_exclusive], rest) = bytes.split_first_chunk::<2>()?;
        let (process, rest) = rest.split_first_chunk::<4>()?;
        let mut words = rest.chunks_exact(8).map_while(|word| word.first_chunk::<8>());
        let mut next = || words.next().map(|word| u64::from_le_bytes(*word));
        let (guest, number, start, end) = (next()?, next()?, next()?, next()?);
        let owner = Owner { of_ranges: of_ranges != 0, number, process: u32::from_le_bytes(*process) };
        let kind = if is_exclusive != 0 { LockKind::Exclusive } else { LockKind::Shared };
        Some(Record { owner, guest, lock: Lock { kind, start, end } })
    }
}

impl Filesystem {
    /// Takes a lock in place of what the owner has of the range. Fails with [`Errno::EAGAIN`] if another one is in the way.
    pub async fn lock(&self, inode: &Inode, owner: Owner, lock: Lock) -> Result<()> {
        self.lock_any(inode, &[(owner, lock)]).await?.pop().unwrap_or_else(|| Err(in_the_way()))
    }

    /// As [`Filesystem::lock`] for each of several owners, one after the other, at one moment: who is first has it, and the next ones find that in their way.
    ///
    /// While others change the locks of the inode so often that this could not be done, somebody is in the way of all.
    pub async fn lock_any(&self, inode: &Inode, wanted: &[(Owner, Lock)]) -> Result<Vec<Result<()>>> {
        self.check_locks()?;
        let guest = self.join().await?;
        let (found, is_contended) = (Mutex::new(Vec::new()), AtomicBool::new(false));
        let taking = async {
            transact!(self, |transaction, again| {
                is_contended.fetch_or(again, Ordering::Relaxed);
                self.try_lock_any(transaction, inode, guest, wanted, &found)
            });
            Ok(())
        };
        match unless_contended(taking.await, &is_contended) {
            Ok(()) => self.confirm(guest).await?,
            // Of each it was found why not, unless it was not found in time.
            Err(error) if error.errno() == Errno::EAGAIN => {
                let mut found = found.into_inner();
                if found.len() != wanted.len() || found.iter().any(Result::is_ok) {
                    found = vec![Err(error); wanted.len()];
                }
                return Ok(found);
            }
            Err(error) => return Err(error),
        }
        Ok(found.into_inner())
    }

    /// Gives up what the owner has of a range.
    pub async fn unlock(&self, inode: &Inode, owner: Owner, start: u64, end: u64) -> Result<()> {
        self.check_locks()?;
        let guest = self.join().await?;
        let range = Lock { kind: LockKind::Shared, start, end };
        transact!(self, |transaction, _again| self.try_unlock(transaction, inode, (guest, owner), range));
        Ok(())
    }

    /// A lock that is in the way of this one, and the process that has it; 0 for one of another client.
    pub async fn lock_in_the_way(
        &self,
        inode: &Inode,
        owner: Owner,
        lock: Lock,
    ) -> Result<Option<(Lock, u32)>> {
        self.check_locks()?;
        let guest = self.join().await?;
        let mut transaction = self.store().begin();
        let records = match self.locks(&mut transaction, inode.number).await {
            Ok(records) => records,
            Err(Stop::Refused(error)) => return Err(error),
            Err(Stop::Store(error)) => return Err(error.into()),
        };
        let found = records.iter().find(|record| record.is_in_the_way(guest, owner, lock));
        let process = |record: &Record| if record.guest == guest { record.owner.process } else { 0 };
        Ok(found.map(|record| (record.lock, process(record))))
    }

    fn check_locks(&self) -> Result<()> {
        match self.flat() {
            Some(_) => Err(Errno::ENOLCK.because("a flat keyspace has no locks")),
            None => Ok(()),
        }
    }

    /// Refuses if none can be had; what comes of each is found either way.
    async fn try_lock_any(
        &self,
        transaction: &mut Transaction,
        inode: &Inode,
        guest: u64,
        wanted: &[(Owner, Lock)],
        found: &Mutex<Vec<Result<()>>>,
    ) -> Result<(), Stop> {
        found.lock().clear();
        let mut records = self.locks(transaction, inode.number).await?;
        let mut results = Vec::with_capacity(wanted.len());
        for (owner, lock) in wanted {
            let taken = taken(&records, guest, *owner, *lock);
            results.push(taken.map(|taken| records = taken));
        }
        let has_any = results.iter().any(Result::is_ok);
        *found.lock() = results;
        match has_any {
            true => self.put_locks(transaction, inode, &records).await,
            false => Err(in_the_way().into()),
        }
    }

    async fn try_unlock(
        &self,
        transaction: &mut Transaction,
        inode: &Inode,
        (guest, owner): (u64, Owner),
        range: Lock,
    ) -> Result<(), Stop> {
        let before = self.locks(transaction, inode.number).await?;
        let after = given_up(&before, guest, owner, range);
        check_count(&after)?;
        self.put_locks(transaction, inode, &after).await
    }

    async fn put_locks(
        &self,
        transaction: &mut Transaction,
        inode: &Inode,
        records: &[Record],
    ) -> Result<(), Stop> {
        let mut content = Vec::new();
        records.iter().for_each(|record| record.encode(&mut content));
        match content.is_empty() {
            false => transaction.put(self.keyspace(), key(inode.number), content).await?,
            true => match transaction.delete(self.keyspace(), key(inode.number)).await {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                result => result?,
            },
        }
        Ok(())
    }

    /// The locks of an inode that guests have.
    pub(crate) async fn locks(&self, transaction: &mut Transaction, inode: u64) -> Result<Vec<Record>, Stop> {
        let content = match transaction.read(self.keyspace(), key(inode), ..).await {
            Ok(content) => content,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        if content.len() % RECORD_SIZE != 0 {
            return Err(damaged("a file's locks").into());
        }
        let guests = self.guests_in(transaction).await?;
        let records = content.chunks_exact(RECORD_SIZE).map_while(Record::decode);
        Ok(records.filter(|record| guests.contains(&record.guest)).collect())
    }
}

/// What comes of a change of which it is known whether others have changed meanwhile what it has read. If they did until there was no more time, they are in the
/// way, which is for who asks to wait out: it does not mean that the store does not serve.
pub(crate) fn unless_contended<T>(result: Result<T>, is_contended: &AtomicBool) -> Result<T> {
    match result {
        Err(error) if error.errno() == Errno::EIO && is_contended.load(Ordering::Relaxed) => {
            Err(in_the_way())
        }
        result => result,
    }
}

#[cold]
fn in_the_way() -> Error {
    Errno::EAGAIN.because("somebody else has a lock that is in the way")
}

/// The locks of an inode once an owner has taken one.
fn taken(before: &[Record], guest: u64, owner: Owner, lock: Lock) -> Result<Vec<Record>> {
    if before.iter().any(|record| record.is_in_the_way(guest, owner, lock)) {
        return Err(in_the_way());
    }
    let mut after = given_up(before, guest, owner, lock);
    // As in the kernel, neighbours of one kind are one lock: who locks a file bit by bit has one, not as many as it asked for.
    let mut whole = lock;
    after.retain(|record| {
        let is_part =
            record.is_of(guest, owner) && record.lock.kind == lock.kind && touches(record.lock, lock);
        if is_part {
            whole = Lock {
                start: whole.start.min(record.lock.start),
                end: whole.end.max(record.lock.end),
                ..whole
            };
        }
        !is_part
    });
    after.push(Record { owner, guest, lock: whole });
    check_count(&after)?;
    Ok(after)
}

/// The locks of an inode once an owner has given up what it has of a range.
fn given_up(before: &[Record], guest: u64, owner: Owner, range: Lock) -> Vec<Record> {
    let mut after = Vec::with_capacity(before.len() + 2);
    for record in before {
        if record.is_of(guest, owner) {
            let pieces = without(record.lock, range).into_iter().flatten();
            after.extend(pieces.map(|piece| Record { lock: piece, ..*record }));
        } else {
            after.push(*record);
        }
    }
    after
}

/// Whether nothing lies between two locks that have no byte in common.
fn touches(one: Lock, other: Lock) -> bool {
    one.end.checked_add(1) == Some(other.start) || other.end.checked_add(1) == Some(one.start)
}

fn check_count(records: &[Record]) -> Result<()> {
    match records.len() > LOCKS_MAX {
        true => Err(Errno::ENOLCK.because(format!("a file has at most {LOCKS_MAX} locks"))),
        false => Ok(()),
    }
}

/// What is left of a lock on both sides of a range.
fn without(lock: Lock, range: Lock) -> [Option<Lock>; 2] {
    if lock.end < range.start || range.end < lock.start {
        return [Some(lock), None];
    }
    let before = (lock.start < range.start).then(|| Lock { end: range.start - 1, ..lock });
    let after = (lock.end > range.end).then(|| Lock { start: range.end + 1, ..lock });
    [before, after]
}

fn key(inode: u64) -> String {
    format!("!locks/{inode:x}")
}

/// Bytes of a record.
const RECORD_SIZE: usize = 2 + 4 + 4 * 8;
/// So many that they are read and written with each change.
const LOCKS_MAX: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(start: u64, end: u64) -> Lock {
        Lock { kind: LockKind::Shared, start, end }
    }

    #[test]
    fn what_is_left_of_a_lock_lies_on_both_sides() {
        assert_eq!(without(lock(0, u64::MAX), lock(5, 9)), [Some(lock(0, 4)), Some(lock(10, u64::MAX))]);
        assert_eq!(without(lock(5, 9), lock(0, u64::MAX)), [None, None]);
        assert_eq!(without(lock(5, 9), lock(9, 20)), [Some(lock(5, 8)), None]);
        assert_eq!(without(lock(5, 9), lock(10, 20)), [Some(lock(5, 9)), None]);
    }

    #[test]
    fn neighbours_of_one_owner_and_kind_are_one_lock() {
        let own = Owner { of_ranges: true, number: 1, process: 7 };
        let other = Owner { number: 2, ..own };
        let lock = |kind, start, end| Lock { kind, start, end };
        let (shared, exclusive) = (LockKind::Shared, LockKind::Exclusive);
        let mut records = Vec::new();
        for (owner, wanted) in [
            (own, lock(shared, 0, 9)),
            (own, lock(shared, 20, u64::MAX)),
            (other, lock(shared, 5, 12)),
            (own, lock(exclusive, 13, 19)),
        ] {
            records = taken(&records, 3, owner, wanted).unwrap();
        }
        assert_eq!(records.len(), 4, "neither another's nor of another kind");
        let records = taken(&records, 3, own, lock(shared, 10, 19)).unwrap();
        let locks = records.iter().map(|record| (record.owner.number, record.lock)).collect::<Vec<_>>();
        assert_eq!(locks, [(2, lock(shared, 5, 12)), (1, lock(shared, 0, u64::MAX))]);
    }

    #[test]
    fn who_could_not_be_asked_in_time_because_others_changed_it_is_waited_for() {
        let fails = || Err::<(), _>(Errno::EIO.because("no more time"));
        let errno = |result: Result<()>| result.map_err(|error| error.errno());
        assert_eq!(errno(unless_contended(fails(), &true.into())), Err(Errno::EAGAIN));
        assert_eq!(errno(unless_contended(fails(), &false.into())), Err(Errno::EIO));
        let gone = Err(Errno::ESTALE.because("the file is no more"));
        assert_eq!(errno(unless_contended(gone, &true.into())), Err(Errno::ESTALE));
        assert_eq!(unless_contended(Ok(()), &true.into()), Ok(()));
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        let owner = Owner { of_ranges: true, number: 1 << 40, process: 77 };
        let lock = Lock { kind: LockKind::Exclusive, start: 3, end: u64::MAX };
        let record = Record { owner, guest: 9, lock };
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        assert_eq!(bytes.len(), RECORD_SIZE);
        assert_eq!(Record::decode(&bytes), Some(record));
        for length in 0..RECORD_SIZE {
            assert_eq!(Record::decode(&bytes[..length]), None);
        }
    }
}

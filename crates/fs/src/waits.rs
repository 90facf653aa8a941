//! Who waits for a lock, so that nobody waits for ever.
//!
//! What an owner waits for is an attribute of its guest's blob, and is void with it. Before an owner waits, those who have the lock are asked
//! what they wait for, those whom that leads to are asked in turn, and so on; if it leads back to the owner, none of them would ever go on. All
//! that is one transaction: of several owners that come to wait for one another, the last one sees the others' waits. Who gets a lock later
//! that others wait for waits for nothing then, or would not have got it, so asking once for each wait is enough.
//!
//! What a client's owners wait for is all in its one blob, so they say it one after the other: all at once they would be in each other's way, and the more of them
//! there are the less would come to an end.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicBool, Ordering},
};

use tyr_client::{ErrorKind, Transaction};

use crate::{
    errno::{Errno, Result, Stop, damaged},
    filesystem::{Filesystem, gone, transact},
    guest,
    inode::Inode,
    locks::{Lock, Owner, Record, unless_contended},
};

/// What an owner waits for.
#[derive(Clone, Copy, Debug)]
struct Wait {
    inode: u64,
    record: Record,
}

impl Wait {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = self.inode.to_le_bytes().to_vec();
        self.record.encode(&mut bytes);
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Wait> {
        let (inode, record) = bytes.split_first_chunk::<8>()?;
        Some(Wait { inode: u64::from_le_bytes(*inode), record: Record::decode(record)? })
    }
}

impl Filesystem {
    /// Says that an owner is about to wait for a lock that [`Filesystem::lock`] refused, until [`Filesystem::end_wait`].
    ///
    /// Fails with [`Errno::EDEADLK`] if those who have the lock wait, be it through others, for what this owner has, and with [`Errno::EAGAIN`] if others change who
    /// has the lock so often that it could not be said: then it is to be said again. Fails with [`Errno::ENOLCK`] if too many wait here.
    pub async fn begin_wait(&self, inode: &Inode, owner: Owner, lock: Lock) -> Result<()> {
        let guest = self.join().await?;
        let wait = Wait { inode: inode.number, record: Record { owner, guest, lock } };
        let is_contended = AtomicBool::new(false);
        let saying = async {
            let _saying = self.inner.guest.saying.lock().await;
            transact!(self, |transaction, again| {
                is_contended.fetch_or(again, Ordering::Relaxed);
                self.try_wait(transaction, wait)
            });
            Ok(())
        };
        match unless_contended(saying.await, &is_contended) {
            // What is invalid about one more wait is that it does not fit the guest's blob.
            Err(error) if error.errno() == Errno::EINVAL => {
                Err(Errno::ENOLCK
                    .because("so many wait for locks through this client that no more can be noted"))
            }
            result => result,
        }
    }

    /// The owner waits no more, whether it has the lock now or not.
    pub async fn end_wait(&self, owner: Owner) -> Result<()> {
        let guest = self.join().await?;
        let _saying = self.inner.guest.saying.lock().await;
        match self.keyspace().set_attribute(guest::key(guest), &name(owner), None).await {
            // Who is a guest no more waits for nothing.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            result => Ok(result?),
        }
    }

    async fn try_wait(&self, transaction: &mut Transaction, wait: Wait) -> Result<(), Stop> {
        let Record { owner: me, guest, .. } = wait.record;
        let mut seen = BTreeSet::new();
        let mut waits = vec![wait];
        while let Some(wait) = waits.pop() {
            for other in self.who_is_in_the_way(transaction, wait).await? {
                if other.is_of(guest, me) {
                    return Err(Errno::EDEADLK.because("who has the lock waits for its owner").into());
                }
                if seen.len() < OWNERS_MAX && seen.insert((other.guest, name(other.owner))) {
                    waits.extend(self.wait_of(transaction, other).await?);
                }
            }
        }
        let key = guest::key(guest);
        match transaction.set_attribute(self.keyspace(), key, &name(me), Some(&wait.encode())).await {
            Err(error) if error.kind() == ErrorKind::NotFound => Err(gone().into()),
            result => Ok(result?),
        }
    }

    async fn who_is_in_the_way(
        &self,
        transaction: &mut Transaction,
        wait: Wait,
    ) -> Result<Vec<Record>, Stop> {
        let Record { owner, guest, lock } = wait.record;
        let mut records = self.locks(transaction, wait.inode).await?;
        records.retain(|record| record.is_in_the_way(guest, owner, lock));
        Ok(records)
    }

    /// What the owner of a lock waits for.
    async fn wait_of(&self, transaction: &mut Transaction, other: Record) -> Result<Option<Wait>, Stop> {
        let key = guest::key(other.guest);
        match transaction.attribute(self.keyspace(), key, &name(other.owner)).await {
            Ok(None) => Ok(None),
            Ok(Some(value)) => match Wait::decode(&value) {
                Some(wait) => Ok(Some(wait)),
                None => Err(damaged("what waits for a lock").into()),
            },
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// The attribute that has what an owner waits for.
fn name(owner: Owner) -> String {
    format!("waits {} {:x}", u8::from(owner.of_ranges), owner.number)
}

/// So many owners are asked at most; who waits for more waits without having found out.
const OWNERS_MAX: usize = 1000;

//! How much of a file is data.
//!
//! Counting that takes a question for each hole. So a file is marked once it may have one: when it is made longer, when a hole is punched, and when
//! something is written behind its end. Where that is a client that has the file open knows without asking, but for who has cut it meanwhile: so who sets a file's size
//! notes when, and whoever writes by what it knows has the commit check that. What is not marked is data as a whole; what is, is counted once for each change.

use std::collections::HashMap;

use parking_lot::Mutex;
use tyr_client::{Check, Transaction};

use crate::{
    change::is_there,
    errno::Stop,
    filesystem::Filesystem,
    inode::{CUT, HOLES, Inode, Metadata, Timestamp, encode_time},
    uses::Reach,
};

/// What was counted, by the numbers of inodes.
#[derive(Debug, Default)]
pub(crate) struct Counted(Mutex<HashMap<u64, Count>>);

#[derive(Clone, Copy, Debug)]
struct Count {
    /// When the file had changed, and how long it was.
    of: (Timestamp, u64),
    data_size: u64,
}

/// As many are remembered at the most.
const COUNTED_MAX: usize = 4096;

impl Counted {
    fn get(&self, metadata: &Metadata) -> Option<u64> {
        let count = *self.0.lock().get(&metadata.inode.number)?;
        (count.of == (metadata.changed, metadata.size)).then_some(count.data_size)
    }

    fn put(&self, metadata: &Metadata, data_size: u64) {
        let mut counted = self.0.lock();
        if counted.len() >= COUNTED_MAX {
            counted.clear();
        }
        counted.insert(metadata.inode.number, Count { of: (metadata.changed, metadata.size), data_size });
    }
}

impl Filesystem {
    /// Has what is known of an inode say how much of it is data.
    pub(crate) async fn counted(&self, metadata: Metadata) -> Metadata {
        if !metadata.may_have_holes {
            return metadata;
        }
        if let Some(data_size) = self.inner.counted.get(&metadata) {
            return Metadata { data_size, ..metadata };
        }
        match self.keyspace().data_size(&metadata.inode.site).await {
            Ok(data_size) => {
                self.inner.counted.put(&metadata, data_size);
                Metadata { data_size, ..metadata }
            }
            // It is no more, or nobody tells: no more than that is certain.
            Err(_) => metadata,
        }
    }

    /// Has it be certain that a file reaches up to an offset if that is what is known here: if somebody has cut it, the commit is refused, and next time
    /// it is asked for.
    pub(crate) async fn known_end(
        &self,
        transaction: &mut Transaction,
        inode: &Inode,
        known: Reach,
        offset: u64,
        again: bool,
    ) -> Result<Reach, Stop> {
        if self.flat().is_some() || offset == 0 {
            return Ok(known);
        }
        if !again {
            if known.is_joined {
                let value = known.cut.map(encode_time);
                let check = Check::Attribute { name: CUT.to_owned(), value };
                transaction.check(self.keyspace(), &inode.site, check)?;
            }
            return Ok(known);
        }
        let cut = self.attribute(transaction, inode, CUT).await?;
        let cut = cut.as_deref().and_then(Timestamp::decode);
        if cut == known.cut {
            return Ok(known);
        }
        let size = is_there(transaction.stat(self.keyspace(), &inode.site).await)?.size;
        self.inner.uses.learn(inode.number, cut, size);
        Ok(Reach { is_joined: offset <= size, cut })
    }

    /// Notes that a file may have holes from now on, or that it has none. In a flat keyspace nobody asks.
    pub(crate) async fn mark_holes(
        &self,
        transaction: &mut Transaction,
        inode: &Inode,
        may_have_holes: bool,
    ) -> Result<(), Stop> {
        if self.flat().is_none() {
            let mark = may_have_holes.then_some([].as_slice());
            transaction.set_attribute(self.keyspace(), &inode.site, HOLES, mark).await?;
        }
        Ok(())
    }
}

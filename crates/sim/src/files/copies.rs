//! A blob that is rewritten, and another one to which the nodes copy it.
//!
//! Every value fills the first blob. Who copies writes down, in the same transaction, what it has read of it; so whatever fails, the second blob is
//! full of what is written down, and of nothing else.

use std::cell::{Cell, RefCell};

use tyr_client::{Error, Outcome};
use tyr_fs::Filesystem;

use crate::random::Random;

/// What all clients of a run do with these blobs.
#[derive(Debug, Default)]
pub struct Copies {
    /// The last value that was written, or was to be.
    last: Cell<u64>,
    /// How often it was told that the blob is copied.
    copied: Cell<u64>,
    /// What was found that must not be.
    wrong: RefCell<Option<String>>,
}

const SOURCE: &str = "!copies/source";
const TARGET: &str = "!copies/target";
const SAID: &str = "!copies/said";
/// Bytes of the first blob: several chunks,
const LENGTH: usize = 150_000;
/// of which each lies in two of the second.
const OFFSET: usize = 40_000;

impl Copies {
    /// Rewrites the one, copies it, or looks at the other. What fails is not known to have happened.
    pub async fn work(&self, filesystem: &Filesystem, random: &mut Random) {
        let outcome = match random.below(4) {
            0 => self.rewrite(filesystem).await,
            1..3 => self.copy(filesystem).await,
            _ => self.check(filesystem).await,
        };
        drop(outcome);
    }

    async fn rewrite(&self, filesystem: &Filesystem) -> Result<(), Error> {
        self.last.set(self.last.get() + 1);
        let content = self.last.get().to_le_bytes().repeat(LENGTH / 8);
        filesystem.keyspace().write(SOURCE, 0, &content).await
    }

    async fn copy(&self, filesystem: &Filesystem) -> Result<(), Error> {
        let (keyspace, mut transaction) = (filesystem.keyspace(), filesystem.store().begin());
        let value = transaction.read(keyspace, SOURCE, ..8).await?;
        transaction.copy((keyspace, SOURCE), .., (keyspace, TARGET), OFFSET as u64).await?;
        transaction.put(keyspace, SAID, &value).await?;
        if let Outcome::Committed(_) = transaction.commit().await? {
            self.copied.set(self.copied.get() + 1);
        }
        Ok(())
    }

    /// Looks whether the second blob holds what is written down. Fails if that cannot be said.
    pub async fn check(&self, filesystem: &Filesystem) -> Result<(), Error> {
        let (keyspace, mut transaction) = (filesystem.keyspace(), filesystem.store().begin());
        if !transaction.exists(keyspace, SAID).await? {
            return Ok(());
        }
        let said = transaction.read(keyspace, SAID, ..).await?;
        let found = transaction.read(keyspace, TARGET, ..).await?;
        let expected = [vec![0; OFFSET], said.repeat(LENGTH / 8)].concat();
        if matches!(transaction.commit().await?, Outcome::Committed(_)) && found != expected {
            let place = found.iter().zip(&expected).position(|(found, expected)| found != expected);
            let what = format!("copies: {said:?} was copied, and {} bytes differ at {place:?}", found.len());
            self.wrong.borrow_mut().get_or_insert(what);
        }
        Ok(())
    }

    /// What was found that must not be.
    pub fn wrong(&self) -> Option<String> {
        self.wrong.borrow().clone()
    }

    /// How often it was told that the blob is copied.
    pub fn copied(&self) -> u64 {
        self.copied.get()
    }
}

//! Running a transaction until it commits.

use std::collections::BTreeSet;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tyr_types::{ErrorKind, Result};

use crate::reservation::{Place, Turn};
use crate::store::Store;
use crate::transaction::{Ended, Receipt, Transaction};

/// What a committed run resulted in.
#[derive(Clone, Debug)]
pub struct Committed<T> {
    /// What the closure returned.
    pub value: T,
    /// What the transaction resulted in.
    pub receipt: Receipt,
}

impl Store {
    /// Runs the closure in a transaction and commits it. After a conflict it is run again with another transaction, after a
    /// random pause that grows; after a few conflicts, writers of what it reads wait until it had its turn, so that it is
    /// not starved. So the closure may run several times and should do nothing besides that cannot be repeated. It is run until it
    /// commits or fails: a [check](Transaction::check) of what it has not read itself, and that does not come true, has it run for ever.
    ///
    /// A closure that owns what it uses (`async move`, with clones of the handles) makes a future that may be sent to other
    /// threads; of one that borrows, the compiler cannot tell.
    ///
    /// An error of the closure rolls back and is returned, unless it came from blobs whose states do not fit together: then
    /// the closure is run again.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # let directory = tempfile::tempdir().unwrap();
    /// use tyr_embed::{KeyspaceSettings, Store};
    ///
    /// let store = Store::open(directory.path()).await?;
    /// let accounts = store.create_keyspace("accounts", KeyspaceSettings::default()).await?;
    /// accounts.put("anna", [10]).await?;
    /// accounts.put("bert", [0]).await?;
    ///
    /// let moved = store
    ///     .run(async |transaction| {
    ///         let anna = transaction.read(&accounts, "anna", ..).await?[0];
    ///         let bert = transaction.read(&accounts, "bert", ..).await?[0];
    ///         transaction.put(&accounts, "anna", [anna - 4]).await?;
    ///         transaction.put(&accounts, "bert", [bert + 4]).await?;
    ///         Ok(anna - 4)
    ///     })
    ///     .await?;
    /// assert_eq!(moved.value, 6);
    /// # store.close().await
    /// # }).unwrap();
    /// ```
    pub async fn run<T>(
        &self,
        mut body: impl AsyncFnMut(&mut Transaction) -> Result<T>,
    ) -> Result<Committed<T>> {
        let mut retry = self.retry();
        loop {
            let mut transaction = retry.begin();
            let result = body(&mut transaction).await;
            if let Some(committed) = retry.finish(transaction, result).await? {
                return Ok(committed);
            }
        }
    }

    /// The tries of one run, for who does without a closure.
    pub fn retry(&self) -> Retry<'_> {
        Retry::new(self)
    }
}

/// The tries of one run.
pub struct Retry<'a> {
    store: &'a Store,
    conflicts: u32,
    turn: Option<Arc<Turn>>,
}

impl<'a> Retry<'a> {
    fn new(store: &'a Store) -> Self {
        Retry { store, conflicts: 0, turn: None }
    }

    /// A transaction for the next try.
    pub fn begin(&self) -> Transaction {
        Transaction::new(self.store.core.clone(), self.store.mode, self.turn.clone())
    }

    /// Commits a try, or ends it as its body wants; `None` if it has to be repeated.
    pub async fn finish<T>(
        &mut self,
        transaction: Transaction,
        result: Result<T>,
    ) -> Result<Option<Committed<T>>> {
        let ended = match &result {
            Ok(_) => transaction.end().await?,
            // The body met a conflict by itself.
            Err(error) if error.kind() == ErrorKind::Conflict => {
                self.pause(transaction.reads()).await?;
                return Ok(None);
            }
            Err(_) => match transaction.validate().await {
                Ok(ended) => ended,
                // What the body has to say comes first.
                Err(_) => return result.map(|_| None),
            },
        };
        match ended {
            Ended::Committed(receipt) => result.map(|value| Some(Committed { value, receipt })),
            Ended::Refused(_, reads) => {
                self.pause(reads).await?;
                Ok(None)
            }
        }
    }

    /// Waits a while after a conflict, or for the turn.
    async fn pause(&mut self, reads: BTreeSet<Place>) -> Result<()> {
        let Store { core, mode } = self.store;
        self.conflicts += 1;
        self.turn.take_if(|turn| turn.is_over());
        if self.turn.is_some() {
            return Ok(());
        }
        if self.conflicts >= CONFLICTS_MAX {
            let turn = core.reservations.take_turn(&core.waiting, *mode, reads).await?;
            self.turn = Some(Arc::new(turn));
            return Ok(());
        }
        let longest = PAUSE_MIN * (1 << self.conflicts);
        let share = random() >> 32;
        let pause = longest.mul_f64(share as f64 / f64::from(u32::MAX));
        core.waiting.sleep_until(*mode, Instant::now() + pause).await
    }
}

/// A random number, from the seed that the standard library draws for its maps.
fn random() -> u64 {
    std::hash::RandomState::new().hash_one(0)
}

/// After so many conflicts a run waits for its turn.
const CONFLICTS_MAX: u32 = 6;

/// Half the longest pause after the first conflict.
const PAUSE_MIN: Duration = Duration::from_micros(50);

//! Running a transaction in a cluster until it commits. The pauses, and when blobs are reserved, are the protocol's to decide.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use tyr_embed::{Committed, ErrorKind, Result};
use tyr_proto::{BlobName, Refusal};

use super::{
    Core,
    transaction::{End, Open, Transaction},
};
use crate::driver::call::{Call, Handle};

/// The tries of one run.
#[derive(Debug)]
pub struct Run {
    core: Arc<Core>,
    handle: Handle,
    was_refused: AtomicBool,
}

impl Run {
    /// No try yet.
    pub fn new(core: Arc<Core>) -> Self {
        let handle = core.handle();
        Run { core, handle, was_refused: AtomicBool::new(false) }
    }

    /// The next try at the driver, when it is its time.
    pub async fn open(&self) -> Result<Open> {
        let open = Open::new(self.core.clone());
        let (run, of, until) = (self.handle, open.handle, self.core.until());
        self.core.ask(|reply| Call::Begin { run, of, until, reply }).await?;
        Ok(open)
    }

    /// A transaction for the next try, when it is its time.
    pub async fn begin(&self) -> Result<Transaction> {
        let open = self.open().await?;
        let is_repeated = self.was_refused.load(Ordering::Relaxed);
        Ok(if is_repeated { Transaction::again(open) } else { Transaction::new(open) })
    }

    /// Commits a try, or ends it as its body wants; `None` if it has to be repeated.
    pub async fn finish<T>(
        &self,
        transaction: Transaction,
        result: Result<T>,
    ) -> Result<Option<Committed<T>>> {
        let end = match &result {
            Ok(_) => transaction.end(false).await?,
            // The body met a conflict by itself.
            Err(error) if error.kind() == ErrorKind::Conflict => {
                self.refused(Refusal::Conflict, transaction.touched());
                return Ok(None);
            }
            Err(_) => match transaction.end(true).await {
                Ok(end) => end,
                // What the body says may come from states that do not fit together: nobody can tell now.
                Err(error) if error.kind() == ErrorKind::Unavailable => return Err(error),
                // Else what the body has to say comes first.
                Err(_) => return result.map(|_| None),
            },
        };
        match end {
            End::Committed(receipt) => result.map(|value| Some(Committed { value, receipt })),
            End::Refused(refusal, _, touched) => {
                self.refused(refusal, touched);
                Ok(None)
            }
        }
    }

    /// A try was refused that has touched these blobs.
    pub fn refused(&self, refusal: Refusal, touched: BTreeSet<BlobName>) {
        self.was_refused.store(true, Ordering::Relaxed);
        self.core.tell(Call::Refused { run: self.handle, refusal, touched });
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.core.tell(Call::EndRun { run: self.handle });
    }
}

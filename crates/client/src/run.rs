//! Running a transaction until it commits, whichever store it is of.

use tyr_embed::{Committed, Error, Result};

use crate::{
    cluster::run,
    store::{Inner, Store},
    transaction::Transaction,
};

impl Store {
    /// Runs the closure in a transaction and commits it. After a conflict it is run again with another transaction, after a
    /// random pause that grows; after a few conflicts, writers of what it touches wait until it had its turn, so that it is
    /// not starved. So the closure may run several times and should do nothing besides that cannot be repeated. It is run until it
    /// commits or fails: a [check](Transaction::check) of what it has not read itself, and that does not come true, has it run for ever.
    ///
    /// A closure that owns what it uses (`async move`, with clones of the handles) makes a future that may be sent to other
    /// threads; of one that borrows, or calls what is not known by its type, the compiler cannot tell: there is [`Store::retry`].
    ///
    /// An error of the closure rolls back and is returned, unless it came from blobs whose states do not fit together: then
    /// the closure is run again. Whether it did is asked of the cluster; if nobody answers, that is returned, not the closure's error.
    pub async fn run<T>(
        &self,
        mut body: impl AsyncFnMut(&mut Transaction) -> Result<T>,
    ) -> Result<Committed<T>> {
        let mut retry = self.retry();
        loop {
            let mut transaction = retry.begin().await?;
            let result = body(&mut transaction).await;
            if let Some(committed) = retry.finish(transaction, result).await? {
                return Ok(committed);
            }
        }
    }

    /// The tries of one run, for who does without a closure: [`Store::run`] is this.
    ///
    /// ```no_run
    /// # async fn count(store: &tyr_client::Store, votes: &tyr_client::Keyspace) -> tyr_client::Result<()> {
    /// let mut retry = store.retry();
    /// loop {
    ///     let mut transaction = retry.begin().await?;
    ///     let result = transaction.put(votes, "counted", b"yes").await;
    ///     if let Some(committed) = retry.finish(transaction, result).await? {
    ///         return Ok(committed.value);
    ///     }
    /// }
    /// # }
    /// ```
    pub fn retry(&self) -> Retry<'_> {
        let tries = match &self.inner {
            Inner::Directory(store) => Tries::Directory(store.retry()),
            Inner::Cluster(cluster) => Tries::Cluster(run::Run::new(cluster.core.clone())),
        };
        Retry { tries }
    }
}

/// The tries of one run.
pub struct Retry<'a> {
    tries: Tries<'a>,
}

enum Tries<'a> {
    Directory(tyr_embed::Retry<'a>),
    Cluster(run::Run),
}

impl Retry<'_> {
    /// A transaction for the next try, when it is its time.
    pub async fn begin(&mut self) -> Result<Transaction> {
        Ok(match &self.tries {
            Tries::Directory(retry) => Transaction::directory(retry.begin()),
            Tries::Cluster(run) => Transaction::cluster(run.begin().await?),
        })
    }

    /// Commits a try if its result is no error, and rolls it back otherwise; `None` if another one is to follow.
    pub async fn finish<T>(
        &mut self,
        transaction: Transaction,
        result: Result<T>,
    ) -> Result<Option<Committed<T>>> {
        match &mut self.tries {
            Tries::Directory(retry) => {
                let transaction = transaction.into_directory().ok_or_else(replaced)?;
                retry.finish(transaction, result).await
            }
            Tries::Cluster(run) => run.finish(transaction.into_cluster().ok_or_else(replaced)?, result).await,
        }
    }
}

/// The caller has put a transaction of another store in the place of the one that it got.
#[cold]
fn replaced() -> Error {
    Error::invalid("the transaction of a run is not to be replaced by one of another store")
}

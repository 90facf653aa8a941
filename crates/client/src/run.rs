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
    /// not starved. So the closure may run several times and should do nothing besides that cannot be repeated.
    ///
    /// A closure that owns what it uses (`async move`, with clones of the handles) makes a future that may be sent to other
    /// threads; of one that borrows, the compiler cannot tell.
    ///
    /// An error of the closure rolls back and is returned, unless it came from blobs whose states do not fit together: then
    /// the closure is run again.
    pub async fn run<T>(
        &self,
        mut body: impl AsyncFnMut(&mut Transaction) -> Result<T>,
    ) -> Result<Committed<T>> {
        match &self.inner {
            Inner::Directory(store) => {
                let own = async |theirs: &mut tyr_embed::Transaction| {
                    // What is put in its place costs nothing and does nothing.
                    let mut transaction = Transaction::directory(std::mem::replace(theirs, store.begin()));
                    let result = body(&mut transaction).await;
                    *theirs = transaction.into_directory().ok_or_else(replaced)?;
                    result
                };
                store.run(own).await
            }
            Inner::Cluster(cluster) => {
                let run = run::Run::new(cluster.core.clone());
                loop {
                    let mut transaction = Transaction::cluster(run.begin().await?);
                    let result = body(&mut transaction).await;
                    let transaction = transaction.into_cluster().ok_or_else(replaced)?;
                    if let Some(committed) = run.finish(transaction, result).await? {
                        return Ok(committed);
                    }
                }
            }
        }
    }
}

/// The closure has put a transaction of another store in the place of its own.
#[cold]
fn replaced() -> Error {
    Error::invalid("the transaction of a run is not to be replaced by one of another store")
}

//! What is asynchronous may be sent to another thread, whoever borrows what: this compiles, or not.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::pin::Pin;

use tyr_client::{KeyspaceSettings, Result, Store, Transaction};

type Sent<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// Everything that reads, each with borrowed names.
fn reads<'a>(store: &'a Store, keyspace: &'a str, key: &'a [u8]) -> Sent<'a, usize> {
    Box::pin(async move {
        let keyspace = store.keyspace(keyspace)?;
        let mut bytes = keyspace.read(key, ..).await?.len() + keyspace.get(key).await?.bytes.len();
        bytes += usize::from(keyspace.exists(key).await?);
        bytes += usize::try_from(keyspace.stat(key).await?.size).unwrap();
        bytes += keyspace.stats(&[key]).await?.len();
        bytes += keyspace.attribute(key, "a").await?.map_or(0, |value| value.len());
        bytes += keyspace.scan(key, Some(b""), 10).await?.len();
        let snapshot = store.snapshot(&[&keyspace]).await?;
        bytes += snapshot.read(&keyspace, key, ..).await?.len();
        bytes += snapshot.scan(&keyspace, key, None, 10).await?.len();
        Ok(bytes)
    })
}

/// A step of a transaction whose type nobody knows.
type Step = dyn for<'a> Fn(&'a mut Transaction) -> Sent<'a, ()> + Send + Sync;

fn run<'a>(store: &'a Store, step: &'a Step) -> Sent<'a, ()> {
    Box::pin(async move {
        let mut retry = store.retry();
        loop {
            let mut transaction = retry.begin().await?;
            let result = step(&mut transaction).await;
            if retry.finish(transaction, result).await?.is_some() {
                return Ok(());
            }
        }
    })
}

#[test]
fn futures_may_be_sent_to_other_threads() {
    let directory = tempfile::tempdir().unwrap();
    let block_on = |future| std::thread::spawn(move || pollster::block_on(future)).join().unwrap();
    let path = directory.path().to_owned();
    let future: Sent<'static, usize> = Box::pin(async move {
        let store = Store::open(path).await?;
        let keyspace = store.create_keyspace("k", KeyspaceSettings::default()).await?;
        let own = keyspace.clone();
        run(&store, &move |transaction| {
            let keyspace = own.clone();
            Box::pin(async move { transaction.put(&keyspace, "key", b"four").await })
        })
        .await?;
        let read = reads(&store, "k", b"key").await?;
        store.close().await?;
        Ok(read)
    });
    assert_eq!(block_on(future).unwrap(), 4 + 4 + 1 + 4 + 1 + 1 + 4 + 1);
}

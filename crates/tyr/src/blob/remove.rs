//! `tyr blob rm`: named blobs in one transaction, or everything below a prefix in many.

use serde::Serialize;
use tyr_client::{Error, ErrorKind, Key, blocking::Store};

use crate::{
    address::{BlobAddress, PrefixAddress},
    blob::{Remove, commit, keyspace_of},
    failure::{Failure, Result},
    output::{Output, Report},
};

/// Blobs removed in one transaction of many.
const BATCH: usize = 256;

pub fn remove(store: &Store, arguments: &Remove, out: &mut Output) -> Result<()> {
    let removed = if arguments.recursive {
        let parsed = arguments.blobs.iter().map(|text| PrefixAddress::parse(text));
        let prefixes = parsed.collect::<Result<Vec<_>, _>>().map_err(Failure::Usage)?;
        let mut removed = 0;
        for prefix in &prefixes {
            removed += remove_prefix(store, prefix, arguments.force)?;
        }
        removed
    } else {
        let parsed = arguments.blobs.iter().map(|text| BlobAddress::parse(text));
        let blobs = parsed.collect::<Result<Vec<_>, _>>().map_err(Failure::Usage)?;
        remove_named(store, &blobs, arguments.force)
            .map_err(|failure| told_of_missing(failure, store, &blobs))?
    };
    out.done(&Removed { action: "rm", removed })
}

fn remove_named(store: &Store, blobs: &[BlobAddress], force: bool) -> Result<u64> {
    let mut transaction = store.begin();
    let mut removed = 0;
    for blob in blobs {
        let keyspace = keyspace_of(store, blob)?;
        if force && !transaction.exists(&keyspace, &blob.key)? {
            continue;
        }
        transaction.delete(&keyspace, &blob.key)?;
        removed += 1;
    }
    commit(transaction)?;
    Ok(removed)
}

/// What is missing is named: the store's own words are for those who write to a blob.
fn told_of_missing(failure: Failure, store: &Store, blobs: &[BlobAddress]) -> Failure {
    let is_missing = |blob: &&BlobAddress| {
        let exists = store.keyspace(&blob.keyspace).and_then(|keyspace| keyspace.exists(&blob.key));
        matches!(exists, Ok(false))
    };
    match &failure {
        Failure::Store(error) if error.kind() == ErrorKind::NotFound => {}
        _ => return failure,
    }
    let Some(missing) = blobs.iter().find(is_missing) else { return failure };
    Failure::Store(Error::not_found(format!(
        "there is no blob {missing}, so nothing is removed; --force passes over blobs that are missing"
    )))
}

fn remove_prefix(store: &Store, prefix: &PrefixAddress, force: bool) -> Result<u64> {
    let keyspace = store.keyspace(&prefix.keyspace)?;
    let mut removed = 0;
    let mut after: Option<Key> = None;
    loop {
        let after_bytes = after.as_ref().map(Key::as_bytes);
        let entries = keyspace.scan(&prefix.prefix, after_bytes, BATCH)?;
        let Some(last) = entries.last() else { break };
        after = Some(last.key.clone());
        let batch = store.run(|transaction| {
            let mut batch = 0;
            for entry in &entries {
                // Somebody else may have removed it since its key was read.
                if transaction.exists(&keyspace, &entry.key)? {
                    transaction.delete(&keyspace, &entry.key)?;
                    batch += 1;
                }
            }
            Ok(batch)
        })?;
        removed += batch.value;
    }
    if removed == 0 && !force {
        return Err(Error::not_found(format!("no key begins with {prefix}")).into());
    }
    Ok(removed)
}

#[derive(Serialize)]
struct Removed {
    action: &'static str,
    removed: u64,
}

impl Report for Removed {
    fn print(&self, out: &mut Output) -> Result<()> {
        let plural = if self.removed == 1 { "" } else { "s" };
        out.line(format!("removed {} blob{plural}", self.removed))
    }
}

//! Snapshots of a cluster's keyspaces.

use std::{collections::BTreeSet, ops::RangeBounds, sync::Arc};

use tyr_embed::{Blob, Entry, Result, Stat, Written};
use tyr_proto::{BlobName, FREEZE_PREFIXES_MAX, KeepName};
use tyr_types::{Error, KeyspaceId, range_end};

use super::{
    Cluster, Core, Keyspace,
    draft::stat_of,
    reading::{Span, read_blocks},
};
use crate::driver::call::{Call, Found, Handle};

/// The blobs of keyspaces at one point.
#[derive(Debug)]
pub struct Snapshot {
    core: Arc<Core>,
    /// The snapshot at the driver.
    of: Handle,
    keyspaces: BTreeSet<KeyspaceId>,
}

impl Snapshot {
    /// Takes one.
    pub async fn take(cluster: &Cluster, keyspaces: &[&Keyspace]) -> Result<Snapshot> {
        let core = &cluster.core;
        keyspaces.iter().try_for_each(|keyspace| check(cluster, keyspace))?;
        let keyspaces: BTreeSet<KeyspaceId> = keyspaces.iter().map(|keyspace| keyspace.entry.id).collect();
        if keyspaces.len() > FREEZE_PREFIXES_MAX {
            return Err(Error::invalid(format!(
                "a snapshot of {} keyspaces is too large; name at most {FREEZE_PREFIXES_MAX}",
                keyspaces.len()
            )));
        }
        let (of, until) = (core.handle(), core.until());
        // Made before it is waited for, so that who gives up waiting lets go of it.
        let snapshot = Snapshot { core: core.clone(), of, keyspaces: keyspaces.clone() };
        if !keyspaces.is_empty() {
            core.ask(|reply| Call::Freeze { of, keyspaces, until, reply }).await?;
        }
        Ok(snapshot)
    }

    /// Opens one that has a name.
    pub async fn open(cluster: &Cluster, keyspace: &Keyspace, keep: KeepName) -> Result<Snapshot> {
        let core = &cluster.core;
        let (of, until) = (core.handle(), core.until());
        let snapshot = Snapshot { core: core.clone(), of, keyspaces: [keyspace.entry.id].into() };
        core.ask(|reply| Call::Open { of, keep, until, reply }).await?;
        Ok(snapshot)
    }

    /// See [`crate::Snapshot::read`].
    pub async fn read(
        &self,
        keyspace: &Keyspace,
        key: &[u8],
        range: impl RangeBounds<u64>,
    ) -> Result<Vec<u8>> {
        let (of, blob, span) = (self.of(keyspace)?, keyspace.blob(key)?, Span::new(range)?);
        let bytes = self.bytes(of, &blob, span).await?;
        bytes.map(|(_, bytes)| bytes).ok_or_else(|| keyspace.missing(&blob.key))
    }

    async fn bytes(&self, of: Handle, blob: &BlobName, span: Span) -> Result<Option<(Found, Vec<u8>)>> {
        let Some(found) = self.look(of, blob).await? else { return Ok(None) };
        let range = span.within(found.looked.size)?;
        let end = range.end;
        let ask = |range| {
            let (blob, until) = (blob.clone(), self.core.until());
            self.core.ask(|reply| Call::ReadFrozen { of, blob, range, until, reply })
        };
        Ok(read_blocks(range, end, ask).await?.map(|bytes| (found, bytes)))
    }

    /// See [`crate::Snapshot::read_into`].
    pub async fn read_into(
        &self,
        keyspace: &Keyspace,
        key: &[u8],
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<usize> {
        let end = range_end(offset, buffer.len() as u64)?;
        let bytes = self.read(keyspace, key, offset..end).await?;
        buffer[..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    }

    async fn look(&self, of: Handle, blob: &BlobName) -> Result<Option<Found>> {
        let blob = blob.clone();
        self.core.ask(|reply| Call::LookFrozen { of, blob, reply }).await
    }

    /// See [`crate::Snapshot::stat`].
    pub async fn stat(&self, keyspace: &Keyspace, key: &[u8]) -> Result<Stat> {
        let (of, blob) = (self.of(keyspace)?, keyspace.blob(key)?);
        let found = self.look(of, &blob).await?.ok_or_else(|| keyspace.missing(&blob.key))?;
        Ok(stat_of(&found))
    }

    /// See [`crate::Snapshot::exists`].
    pub async fn exists(&self, keyspace: &Keyspace, key: &[u8]) -> Result<bool> {
        let (of, blob) = (self.of(keyspace)?, keyspace.blob(key)?);
        Ok(self.look(of, &blob).await?.is_some())
    }

    /// See [`crate::Snapshot::attribute`].
    pub async fn attribute(&self, keyspace: &Keyspace, key: &[u8], name: &str) -> Result<Option<Vec<u8>>> {
        let (of, blob) = (self.of(keyspace)?, keyspace.blob(key)?);
        let found = self.look(of, &blob).await?.ok_or_else(|| keyspace.missing(&blob.key))?;
        Ok(found.looked.attributes.get(name).map(|value| value.to_vec()))
    }

    /// See [`crate::Snapshot::get`].
    pub async fn get(&self, keyspace: &Keyspace, key: &[u8]) -> Result<Blob> {
        let (of, blob) = (self.of(keyspace)?, keyspace.blob(key)?);
        let read = self.bytes(of, &blob, Span::ALL).await?;
        let (found, bytes) = read.ok_or_else(|| keyspace.missing(&blob.key))?;
        Ok(Blob { stat: stat_of(&found), bytes })
    }

    /// See [`crate::Snapshot::written`].
    pub async fn written(&self, keyspace: &Keyspace, key: &[u8]) -> Result<Written> {
        let (of, blob) = (self.of(keyspace)?, keyspace.blob(key)?);
        let found = self.look(of, &blob).await?.ok_or_else(|| keyspace.missing(&blob.key))?;
        let grain = keyspace.settings().chunk_size;
        let chunks = found.looked.size.div_ceil(grain);
        let written = found.looked.written.range(..chunks);
        Ok(Written { grain, prints: written.map(|(chunk, number)| (*chunk, number.to_u64())).collect() })
    }

    /// See [`crate::Snapshot::scan`].
    pub async fn scan(
        &self,
        keyspace: &Keyspace,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Entry>> {
        let (of, id) = (self.of(keyspace)?, keyspace.entry.id);
        let (prefix, after) = (prefix.to_vec(), after.map(<[u8]>::to_vec));
        let listed =
            self.core.ask(|reply| Call::ListFrozen { of, keyspace: id, prefix, after, limit, reply }).await?;
        let entry = |(blob, found): (BlobName, Found)| Entry {
            key: blob.key,
            size: found.looked.size,
            version: found.number,
        };
        Ok(listed.into_iter().map(entry).collect())
    }

    fn of(&self, keyspace: &Keyspace) -> Result<Handle> {
        let is_own = self.core.is(&keyspace.core) && self.keyspaces.contains(&keyspace.entry.id);
        is_own.then_some(self.of).ok_or_else(|| {
            let name = keyspace.name();
            Error::invalid(format!("keyspace '{name}' is not in the snapshot; name it when taking one"))
        })
    }
}

/// Fails unless a keyspace is one of the cluster's.
pub(super) fn check_own(cluster: &Cluster, keyspace: &Keyspace) -> Result<()> {
    if !cluster.core.is(&keyspace.core) {
        return Err(Error::invalid("a keyspace of the snapshot is of another store"));
    }
    keyspace.require()
}

/// Fails unless a keyspace can have snapshots.
pub(super) fn check(cluster: &Cluster, keyspace: &Keyspace) -> Result<()> {
    check_own(cluster, keyspace)?;
    if !keyspace.settings().multi_version {
        return Err(Error::invalid(format!(
            "keyspace '{}' keeps no versions, so it has no snapshots; alter it to multi_version",
            keyspace.name()
        )));
    }
    Ok(())
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        self.core.tell(Call::LetGo { of: self.of });
    }
}

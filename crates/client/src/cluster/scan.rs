//! Listing the blobs of a keyspace: the names of all partitions, put into one order, each with what its blob is.

use std::{cmp::Reverse, collections::BinaryHeap};

use tyr_embed::{Entry, ErrorKind, Result};
use tyr_proto::{BlobName, PartitionId};
use tyr_types::{KEY_SIZE_MAX, Key};

use super::{Keyspace, transaction::Open};
use crate::{
    driver::call::{Answered, Call},
    words,
};

impl Keyspace {
    /// See [`crate::Keyspace::scan`].
    pub async fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<Entry>> {
        self.require()?;
        let mut entries = Vec::new();
        let Some(mut names) = Listing::begin(self, prefix, after, limit).await? else { return Ok(entries) };
        while entries.len() < limit {
            let batch = names.next(LOOKS_MAX.min(limit - entries.len())).await?;
            if batch.is_empty() {
                break;
            }
            let opens: Vec<Open> = batch.iter().map(|_| Open::new(self.core.clone())).collect();
            let looks: Vec<_> = opens.iter().zip(&batch).map(|(open, blob)| open.probe(blob)).collect();
            for (blob, look) in batch.into_iter().zip(looks) {
                // What was deleted meanwhile is not listed.
                let found = match look.await {
                    Err(error) if error.kind() == ErrorKind::Conflict => self.found(&blob).await?,
                    found => found?,
                };
                if let Some(found) = found {
                    entries.push(Entry { key: blob.key, size: found.looked.size, version: found.number });
                }
            }
        }
        Ok(entries)
    }
}

/// The names of a keyspace in order, as they come from its partitions.
struct Listing<'a> {
    keyspace: &'a Keyspace,
    prefix: &'a [u8],
    /// Names of each partition that have not been given, the next one last.
    partitions: Vec<Part>,
    /// The next name of each partition that has one.
    next: BinaryHeap<Reverse<(BlobName, usize)>>,
    page: u32,
}

struct Part {
    id: PartitionId,
    names: std::vec::IntoIter<BlobName>,
    last: Option<BlobName>,
    has_more: bool,
}

impl<'a> Listing<'a> {
    /// Asks all partitions for their first names; `None` if there can be none.
    async fn begin(
        keyspace: &'a Keyspace,
        prefix: &'a [u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Option<Self>> {
        let Some((first, inclusive)) = first_name(keyspace, prefix, after) else { return Ok(None) };
        let layout = keyspace.core.catalog.layout(keyspace.entry.id);
        let layout = layout.ok_or_else(|| words::dropped(keyspace.name()))?;
        let count = layout.placement.partitions.get();
        // The hash spreads names evenly, more or less.
        let share = limit / usize::try_from(count).unwrap_or(usize::MAX).max(1);
        let page = u32::try_from(share.saturating_add(share / 4).saturating_add(8).min(PAGE_MAX))
            .unwrap_or(u32::MAX);
        let ids = (0..count).map(|index| PartitionId { class: layout.placement.class, index });
        let asked: Vec<_> = ids.map(|id| (id, ask(keyspace, id, first.clone(), inclusive, page))).collect();
        let mut listing = Listing { keyspace, prefix, partitions: Vec::new(), next: BinaryHeap::new(), page };
        for (id, names) in asked {
            let (names, has_more) = names.await?;
            let part = Part { id, last: names.last().cloned(), names: names.into_iter(), has_more };
            listing.partitions.push(part);
            listing.advance(listing.partitions.len() - 1).await?;
        }
        Ok(Some(listing))
    }

    /// Up to as many names.
    async fn next(&mut self, count: usize) -> Result<Vec<BlobName>> {
        let mut names = Vec::new();
        while names.len() < count {
            let Some(Reverse((name, place))) = self.next.pop() else { break };
            names.push(name);
            self.advance(place).await?;
        }
        Ok(names)
    }

    /// Finds the next name of a partition.
    async fn advance(&mut self, place: usize) -> Result<()> {
        let (keyspace, page) = (self.keyspace, self.page);
        let part = &mut self.partitions[place];
        let mut next = part.names.next();
        if next.is_none()
            && part.has_more
            && let Some(last) = part.last.take()
        {
            let (names, has_more) = ask(keyspace, part.id, last, false, page).await?;
            (part.last, part.has_more) = (names.last().cloned(), has_more);
            part.names = names.into_iter();
            next = part.names.next();
        }
        let is_wanted = |name: &BlobName| {
            name.keyspace == keyspace.entry.id && name.key.as_bytes().starts_with(self.prefix)
        };
        match next.filter(is_wanted) {
            Some(name) => self.next.push(Reverse((name, place))),
            // Names are in order, so none of those that follow has the prefix.
            None => part.has_more = false,
        }
        Ok(())
    }
}

fn ask(
    keyspace: &Keyspace,
    partition: PartitionId,
    after: BlobName,
    inclusive: bool,
    limit: u32,
) -> Answered<(Vec<BlobName>, bool)> {
    let until = keyspace.core.until();
    keyspace.core.ask(|reply| Call::Names { partition, after, inclusive, limit, until, reply })
}

/// The name from which on names are wanted, and whether it is itself; none if no key can follow.
fn first_name(keyspace: &Keyspace, prefix: &[u8], after: Option<&[u8]>) -> Option<(BlobName, bool)> {
    if prefix.len() > KEY_SIZE_MAX {
        return None;
    }
    // No key lies between what is too long for a key and its longest part that is not.
    let after = after.map(|after| &after[..after.len().min(KEY_SIZE_MAX)]).filter(|after| !after.is_empty());
    let least: &[u8] = if prefix.is_empty() { &[0] } else { prefix };
    let (key, inclusive) = match after {
        Some(after) if after >= least => (after, false),
        _ => (least, true),
    };
    let key = Key::new(key).ok()?;
    Some((BlobName { keyspace: keyspace.entry.id, key }, inclusive))
}

/// Blobs that are looked at as one.
const LOOKS_MAX: usize = 256;
/// The most names that are asked of a partition at once.
const PAGE_MAX: usize = 1024;

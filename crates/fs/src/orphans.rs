//! Orphans: files without a name that somebody may have open.
//!
//! Who takes the last name of a file knows what is open here, and who else is a guest, but not what they have open. So where there are
//! other guests, or it is open here, the file stays, and a record says so. Every guest reads these records, and says up to where it has,
//! and which of them it holds open. What no guest holds open any more any of them deletes.
//!
//! Guests are asked the same way before an inode moves ([`crate::strays`]), by records of another kind.
//!
//! When all that is recorded is done with, the records are dropped and a number tells that positions count anew.

use std::collections::BTreeSet;

use tyr_client::{Keyspace, Transaction};

use crate::{
    cells::Cells,
    errno::{Result, Stop, damaged},
    filesystem::{Filesystem, transact},
    guest::{Said, Talk},
    inode::{Inode, Metadata, decode_reference, encode_reference},
    strays::Departure,
};

/// The records, read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Orphans {
    /// How often they were dropped before.
    pub round: u64,
    /// Where they end.
    pub end: u64,
    /// Each with where its record ends.
    pub records: Vec<(u64, Inode)>,
}

/// Appends a record: that a file has lost its last name, or a [`Departure`].
pub(crate) async fn note(
    transaction: &mut Transaction,
    keyspace: &Keyspace,
    inode: &Inode,
) -> Result<(), Stop> {
    let reference = encode_reference(inode);
    let length = u16::try_from(reference.len()).expect("a site is a key, which is shorter");
    let record = [length.to_le_bytes().as_slice(), &reference].concat();
    transaction.append(keyspace, ORPHANS, record).await?;
    Ok(())
}

impl Filesystem {
    /// Reads all records, by this handle of the keyspace.
    pub(crate) async fn orphans(&self, keyspace: &Keyspace) -> Result<Orphans> {
        let blob = keyspace.get(ORPHANS).await?;
        let round = blob.stat.attributes.value(ROUND).and_then(<[u8]>::first_chunk::<8>);
        let mut orphans = Orphans {
            round: round.map_or(0, |bytes| u64::from_le_bytes(*bytes)),
            end: blob.bytes.len() as u64,
            records: Vec::new(),
        };
        let (mut rest, mut at) = (blob.bytes.as_slice(), 0);
        while let Some((length, after)) = rest.split_first_chunk::<2>() {
            let length = usize::from(u16::from_le_bytes(*length));
            let (reference, after) =
                after.split_at_checked(length).ok_or_else(|| damaged("the records of orphans"))?;
            at += 2 + length as u64;
            orphans.records.push((at, decode_reference(reference)?));
            rest = after;
        }
        Ok(orphans)
    }

    /// Deletes those orphans that, by what all guests say, nobody has open, and drops the records when all are, and no departure is waited for.
    pub(crate) async fn collect(&self, Talk { orphans, said, .. }: &Talk) -> Result<()> {
        if orphans.records.is_empty() {
            return Ok(());
        }
        // Its mover says so.
        let is_awaited = |end: u64, departure: Departure| {
            let mover = said.iter().find(|said| said.guest == departure.mover);
            mover.is_some_and(|mover| !is_let_go(orphans, [mover], end, departure.mark))
        };
        let mut left = BTreeSet::new();
        for (end, inode) in &orphans.records {
            match Departure::decode(inode) {
                Some(departure) if !is_awaited(*end, departure) => {}
                None if self.is_deleted(orphans.round, *end) => {}
                None if is_let_go(orphans, said, *end, inode.number) => {
                    transact!(self, |transaction, _again| self.try_delete(transaction, inode));
                    self.note_deleted(orphans.round, *end);
                }
                _ => drop(left.insert(inode.number)),
            }
        }
        let done = orphans.records.len() - left.len();
        if done > 0 && (left.is_empty() || done > RECORDS_KEPT) {
            transact!(self, |transaction, _again| self.try_drop_records(transaction, orphans, &left));
        }
        Ok(())
    }

    /// Deletes an inode that has no names, if it is there still.
    async fn try_delete(&self, transaction: &mut Transaction, inode: &Inode) -> Result<(), Stop> {
        let mut cells = Cells::default();
        let cell = cells.load(transaction, self.keyspace(), &inode.site).await?;
        let is_orphan = |metadata: &Metadata| metadata.inode == *inode && metadata.links == 0;
        if cell.held().is_some_and(is_orphan) {
            cell.drop_inode();
            cells.write(transaction, self.keyspace()).await?;
        }
        Ok(())
    }

    /// Writes the records anew with those that are left, and those that have come meanwhile.
    async fn try_drop_records(
        &self,
        transaction: &mut Transaction,
        orphans: &Orphans,
        left: &BTreeSet<u64>,
    ) -> Result<(), Stop> {
        let round = orphans.round.to_le_bytes();
        let now = transaction.attribute(self.keyspace(), ORPHANS, ROUND).await?;
        if now.unwrap_or_else(|| 0_u64.to_le_bytes().to_vec()) != round {
            return Ok(());
        }
        let content = transaction.read(self.keyspace(), ORPHANS, ..).await?;
        let mut kept = Vec::new();
        let mut start = 0;
        for (end, inode) in &orphans.records {
            let end = usize::try_from(*end).map_err(|_| damaged("the records of orphans"))?;
            if left.contains(&inode.number) {
                kept.extend_from_slice(content.get(start..end).unwrap_or_default());
            }
            start = end;
        }
        kept.extend_from_slice(content.get(start..).unwrap_or_default());
        transaction.put(self.keyspace(), ORPHANS, kept).await?;
        let round = (orphans.round + 1).to_le_bytes();
        transaction.set_attribute(self.keyspace(), ORPHANS, ROUND, Some(&round)).await?;
        Ok(())
    }
}

/// Whether guests have read a record that ends there, and hold nothing of what it is of.
pub(crate) fn is_let_go<'a>(
    orphans: &Orphans,
    said: impl IntoIterator<Item = &'a Said>,
    end: u64,
    number: u64,
) -> bool {
    said.into_iter().all(|Said { seen, .. }| {
        seen.round == orphans.round && seen.until >= end && !seen.held.contains(&number)
    })
}

/// Whether a blob's attributes say that its inode may be opened: it has a name, or is open here already.
pub(crate) fn may_be_opened(metadata: &Metadata, is_open_here: bool) -> bool {
    metadata.links > 0 || is_open_here
}

/// The blob with the records.
pub(crate) const ORPHANS: &str = "!orphans";
/// Its attribute: how often the records were dropped.
const ROUND: &str = "round";
/// So many records that are done with stay before they are dropped while others are left.
const RECORDS_KEPT: usize = 1000;

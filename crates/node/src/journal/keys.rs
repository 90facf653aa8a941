//! Under which keys a journal keeps what. What belongs together is in order, so that a restart reads it from front to back.

use tyr_proto::{ClassId, PartitionId, ShardId};
use tyr_types::Key;

/// Begins the keys of bases.
pub const BASES: [u8; 1] = [1];

/// What stands before the entries of a partition's log.
pub fn base(partition: PartitionId) -> Key {
    Key::new(prefix(BASES[0], partition)).expect("a short key")
}

/// The checkpoint of a partition's state.
pub fn checkpoint(partition: PartitionId) -> Key {
    Key::new(prefix(CHECKPOINT, partition)).expect("a short key")
}

/// A record of a shard's journal.
pub fn record(shard: ShardId, number: u64) -> Key {
    numbered(records(shard), number)
}

/// A payload that a partition's entries and state refer to.
pub fn payload(partition: PartitionId, number: u64) -> Key {
    numbered(payloads(partition), number)
}

/// Begins the keys of a shard's records.
pub fn records(shard: ShardId) -> [u8; 6] {
    let mut key = [RECORD, 0, 0, 0, 0, 0];
    key[2..].copy_from_slice(&shard.number().to_be_bytes());
    key
}

/// Begins the keys of a partition's payload.
pub fn payloads(partition: PartitionId) -> [u8; 6] {
    prefix(PAYLOAD, partition)
}

/// The partition of a base.
pub fn partition_of_base(key: &Key) -> Option<PartitionId> {
    let (kind, class, index) = match key.as_bytes() {
        [kind, class, index @ ..] => (*kind, *class, index.try_into().ok()?),
        _ => return None,
    };
    (kind == BASES[0]).then(|| PartitionId { class: ClassId(class), index: u32::from_be_bytes(index) })
}

/// The number of a record or a payload.
pub fn number_of(key: &Key) -> Option<u64> {
    let number = key.as_bytes().get(6..)?.try_into().ok()?;
    Some(u64::from_be_bytes(number))
}

fn numbered(prefix: [u8; 6], number: u64) -> Key {
    let mut key = [0; 14];
    key[..6].copy_from_slice(&prefix);
    key[6..].copy_from_slice(&number.to_be_bytes());
    Key::new(key).expect("a short key")
}

fn prefix(kind: u8, partition: PartitionId) -> [u8; 6] {
    let mut key = [kind, partition.class.0, 0, 0, 0, 0];
    key[2..].copy_from_slice(&partition.index.to_be_bytes());
    key
}

const CHECKPOINT: u8 = 2;
const RECORD: u8 = 3;
const PAYLOAD: u8 = 4;

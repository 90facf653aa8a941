//! Writes of single blobs.

use std::{fs, path::Path};

use tyr_client::blocking::Store;

use crate::{
    address::BlobAddress,
    amount::ByteRange,
    arithmetic::{self, operand_json, parse_operand, show_operand},
    blob::{Done, Put, Transform, commit, keyspace_of, version_of},
    failure::{Failure, Result},
    output::{Bytes, Output},
    payload::Payload,
    transfer::WHOLE_MAX,
};

pub fn put(store: &Store, arguments: &Put, out: &mut Output) -> Result<()> {
    let Put { blob, file, at, new } = arguments;
    let keyspace = keyspace_of(store, blob)?;
    if let (None, Some(Ok(file))) = (at, file.as_deref().map(fs::metadata)) {
        check_size(store, file.len())?;
    }
    let mut transaction = store.begin();
    if *new {
        transaction.create(&keyspace, &blob.key)?;
    }
    let mut written = 0;
    Payload::from_file_argument(file.as_deref()).for_each_piece(|piece| {
        if at.is_none() {
            check_size(store, written + piece.len() as u64)?;
        }
        match at {
            None if written == 0 => transaction.put(&keyspace, &blob.key, piece)?,
            _ => transaction.write(&keyspace, &blob.key, at.unwrap_or(0).saturating_add(written), piece)?,
        }
        written += piece.len() as u64;
        Ok(())
    })?;
    let receipt = commit(transaction)?;
    let line = format!("put {blob}: {}", Bytes(written));
    out.done(&Done::new("put", blob, line).with("bytes", written).with("version", version_of(&receipt)))
}

/// Refuses what no transaction of a cluster holds.
fn check_size(store: &Store, size: u64) -> Result<()> {
    if !store.is_cluster() || size <= WHOLE_MAX {
        return Ok(());
    }
    Err(tyr_client::Error::invalid(
        "a transaction of a cluster writes at most 1 GiB; 'tyr import DIRECTORY KEYSPACE' brings in larger files by several",
    )
    .into())
}

pub fn append(store: &Store, blob: &BlobAddress, file: Option<&Path>, out: &mut Output) -> Result<()> {
    let keyspace = keyspace_of(store, blob)?;
    let mut transaction = store.begin();
    let (mut first, mut written) = (None, 0);
    Payload::from_file_argument(file).for_each_piece(|piece| {
        // Nobody else's append comes between those of one transaction.
        let slot = transaction.append(&keyspace, &blob.key, piece)?;
        first.get_or_insert(slot);
        written += piece.len() as u64;
        Ok(())
    })?;
    let receipt = commit(transaction)?;
    let offset = first.and_then(|slot| receipt.offset(slot));
    let offset =
        offset.ok_or_else(|| tyr_client::Error::internal("the receipt has no offset for an append"))?;
    let done = Done::new("append", blob, offset.to_string());
    out.report(&done.with("offset", offset).with("bytes", written).with("version", version_of(&receipt)))
}

pub fn truncate(store: &Store, blob: &BlobAddress, size: u64, out: &mut Output) -> Result<()> {
    keyspace_of(store, blob)?.truncate(&blob.key, size)?;
    out.done(&Done::new("truncate", blob, format!("truncated {blob} to {size} bytes")).with("size", size))
}

pub fn punch(store: &Store, blob: &BlobAddress, range: ByteRange, out: &mut Output) -> Result<()> {
    let keyspace = keyspace_of(store, blob)?;
    let end = match range.end {
        Some(end) => end,
        None => keyspace.stat(&blob.key)?.size.max(range.start),
    };
    let hole = range.start..end;
    keyspace.punch(&blob.key, hole.clone())?;
    let length = hole.end - hole.start;
    let done = Done::new("punch", blob, format!("left a hole of {length} bytes in {blob} at {}", hole.start));
    out.done(&done.with("offset", hole.start).with("length", length))
}

pub fn transform(store: &Store, arguments: &Transform, out: &mut Output) -> Result<()> {
    let Transform { blob, op, number_type, offset, operands } = arguments;
    let parsed = operands.iter().map(|text| parse_operand(*number_type, text));
    let parsed = parsed.collect::<Result<Vec<_>, _>>().map_err(Failure::Usage)?;
    let transform = arithmetic::transform(*op, &parsed).map_err(Failure::Usage)?;
    let old = keyspace_of(store, blob)?.transform(&blob.key, *offset, transform)?;
    let done = Done::new("transform", blob, show_operand(old))
        .with("op", arithmetic::op_name(*op))
        .with("type", number_type.name())
        .with("offset", *offset)
        .with("old", operand_json(old))
        .with("new", operand_json(transform.apply(old)));
    out.report(&done)
}

//! What a node keeps of itself in its store: what it calls itself, and how often it was started.

use std::convert::Infallible;

use tyr_proto::cluster::Identity;
use tyr_store::{BlobChange, Existence, Payload, Refused, Stop, Store, Wait};
use tyr_types::{Error, Key, KeyspaceId, KeyspaceName, KeyspaceSettings, Result};

/// A start of a node, counted durably: no later one has the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// What the node calls itself.
    pub identity: Identity,
    /// Which start it is, from one.
    pub number: u32,
}

impl Start {
    /// Counts a start of the node to which a store belongs. A store that belonged to nobody gets the identity that is given.
    pub fn count(store: &Store, fresh: Identity) -> Result<Start> {
        let space = space(store)?;
        let key = Key::new(KEY).expect("a short key");
        let last = match super::restore::read(store, space, &key)? {
            Some(bytes) => decode(&bytes)?,
            None => Start { identity: fresh, number: 0 },
        };
        let exhausted = || Error::internal("a node was started 2^32 times");
        let start = Start { number: last.number.checked_add(1).ok_or_else(exhausted)?, ..last };
        let payload = Payload::new(&encode(start));
        let existence = if last.number == 0 { Existence::Create } else { Existence::Replace };
        let counted = store.transact(Wait::Allowed, |writer| {
            writer.head::<Infallible>(space, &key)?;
            let size = payload.len() as u64;
            let writes = vec![(0, payload.clone())];
            writer.put(space, &key, BlobChange { existence, cut: None, size, attributes: None, writes });
            Ok::<(), Stop<Infallible>>(())
        });
        match counted {
            Ok(((), ticket)) => ticket.wait().map(|()| start),
            Err(Refused::Failed(error)) => Err(error),
            Err(Refused::WouldBlock) => Err(Error::internal("a commit that may wait did not")),
            Err(Refused::Refused(never)) => match never {},
        }
    }
}

/// The keyspace of a store in which a node keeps everything, made if it is missing.
pub fn space(store: &Store) -> Result<KeyspaceId> {
    let name = KeyspaceName::new(SPACE).expect("a valid name");
    match store.keyspaces().into_iter().find(|keyspace| keyspace.name == name) {
        Some(keyspace) => Ok(keyspace.id),
        None => {
            let settings = KeyspaceSettings { multi_version: false, ..KeyspaceSettings::default() };
            store.create_keyspace(name, settings)
        }
    }
}

fn encode(start: Start) -> [u8; SIZE] {
    let mut bytes = [FORMAT; SIZE];
    bytes[1..17].copy_from_slice(&start.identity.0.to_le_bytes());
    bytes[17..].copy_from_slice(&start.number.to_le_bytes());
    bytes
}

fn decode(bytes: &[u8]) -> Result<Start> {
    let malformed = || Error::corrupt("what the node keeps of itself is malformed");
    let rest = bytes.strip_prefix(&[FORMAT]).ok_or_else(malformed)?;
    let (identity, rest) = rest.split_first_chunk().ok_or_else(malformed)?;
    let number = rest.try_into().map_err(|_| malformed())?;
    Ok(Start { identity: Identity(u128::from_le_bytes(*identity)), number: u32::from_le_bytes(number) })
}

/// Nothing else begins with a zero.
const KEY: [u8; 1] = [0];
const SPACE: &str = "node";
const FORMAT: u8 = 1;
const SIZE: usize = 21;

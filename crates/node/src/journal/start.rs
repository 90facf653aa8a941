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
    /// Counts a start of the node to which these stores belong: in each of them, for others may be lost or missing next time. What else
    /// is known of the last start is not of another node, and not later than what is counted. Stores that belonged to nobody get the
    /// identity that is given.
    pub fn count(stores: &[&Store], known: Option<Start>, fresh: Identity) -> Result<Start> {
        let lasts = stores.iter().map(|store| Start::last(store)).collect::<Result<Vec<_>>>()?;
        let said = || lasts.iter().flatten().copied().chain(known);
        let last = said().max_by_key(|start| start.number);
        let last = last.unwrap_or(Start { identity: fresh, number: 0 });
        if said().any(|start| start.identity != last.identity) {
            return Err(Error::invalid(
                "a store is another node's; put the directories back where they were",
            ));
        }
        if known.is_some() && last.number == 0 {
            return Err(Error::not_found(
                "none of the stores that are there says how often the node was started; put the others back",
            ));
        }
        let exhausted = || Error::internal("a node was started 2^32 times");
        let start = Start { number: last.number.checked_add(1).ok_or_else(exhausted)?, ..last };
        for (store, last) in stores.iter().zip(lasts) {
            start.keep(store, if last.is_none() { Existence::Create } else { Existence::Replace })?;
        }
        Ok(start)
    }

    /// The last start that was counted in a store.
    fn last(store: &Store) -> Result<Option<Start>> {
        let key = Key::new(KEY).expect("a short key");
        super::restore::read(store, space(store)?, &key)?.map(|bytes| decode(&bytes)).transpose()
    }

    fn keep(self, store: &Store, existence: Existence) -> Result<()> {
        let space = space(store)?;
        let key = Key::new(KEY).expect("a short key");
        let payload = Payload::new(&encode(self));
        let counted = store.transact(Wait::Allowed, |writer| {
            writer.head::<Infallible>(space, &key)?;
            let size = payload.len() as u64;
            let writes = vec![(0, payload.clone())];
            writer.put(
                space,
                &key,
                BlobChange { existence, cut: None, holes: Vec::new(), size, attributes: None, writes },
            );
            Ok::<(), Stop<Infallible>>(())
        });
        match counted {
            Ok(((), ticket)) => ticket.wait(),
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

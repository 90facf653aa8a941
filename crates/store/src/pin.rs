//! Holding on to a number: what was readable stays so until the pin is dropped.

use std::sync::{Arc, atomic::Ordering};

use tyr_types::{Durability, Key, KeyspaceId, Number, Result};

use crate::{
    backlog::Backlog,
    index_key::EntryKey,
    miss::{Miss, Wait},
    pins::Pins,
    store::{Store, entry_key},
};

/// A pinned number. Dropping it releases what was kept for it.
pub struct Pin {
    pins: Arc<Pins>,
    backlog: Arc<Backlog>,
    number: Number,
    scope: Scope,
    age: (Number, u64),
}

enum Scope {
    Blob(EntryKey),
    Keyspaces(Vec<KeyspaceId>),
}

impl Pin {
    /// The number to read at.
    pub fn number(&self) -> Number {
        self.number
    }
}

impl std::fmt::Debug for Pin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pin({})", self.number)
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        match &self.scope {
            Scope::Blob(key) => self.pins.blobs.remove(key, self.number),
            Scope::Keyspaces(keyspaces) => {
                keyspaces.iter().for_each(|keyspace| self.pins.keyspaces.remove(*keyspace, self.number));
            }
        }
        self.pins.keyspaces.ended(self.age);
        self.backlog.pin_released();
    }
}

impl Store {
    /// Pins the blob of a key, or its absence, as it is now.
    pub fn pin_blob(&self, keyspace: KeyspaceId, key: &Key, wait: Wait) -> Result<Pin, Miss> {
        self.check_readable()?;
        let durability = self.keyspaces.find(keyspace)?.state.settings.durability;
        let key = entry_key(keyspace, key);
        let number = loop {
            self.entry(&key, wait)?;
            let mut shard = self.entries.lock(&key);
            // Evicted since: once more.
            let Some(entry) = shard.find(&key) else { continue };
            // What is being applied elsewhere has a higher number than anything here.
            let applied = Number::from_u64(self.applied.load(Ordering::Acquire));
            let number = if entry.applied == Number::ZERO { applied } else { entry.applied };
            self.pins.blobs.add(&key, number);
            break number;
        };
        let pin = self.pin(number, Scope::Blob(key));
        if durability == Durability::Disk {
            self.await_durable(number, wait)?;
        }
        Ok(pin)
    }

    /// Pins everything in the keyspaces at one point, which is durable on return.
    pub fn pin_keyspaces(&self, keyspaces: &[KeyspaceId]) -> Result<Pin> {
        self.check_readable()?;
        for keyspace in keyspaces {
            self.keyspaces.find(*keyspace)?;
        }
        let number = {
            let _commit = self.commit.lock();
            let number = Number::from_u64(self.applied.load(Ordering::Acquire));
            keyspaces.iter().for_each(|keyspace| self.pins.keyspaces.add(*keyspace, number));
            number
        };
        let pin = self.pin(number, Scope::Keyspaces(keyspaces.to_vec()));
        self.log.wait(number)?;
        Ok(pin)
    }

    /// What lets go of a number that was added to the pins of these keyspaces.
    pub(crate) fn pin_of(&self, number: Number, keyspaces: Vec<KeyspaceId>) -> Pin {
        self.pin(number, Scope::Keyspaces(keyspaces))
    }

    fn pin(&self, number: Number, scope: Scope) -> Pin {
        let age = self.pins.keyspaces.began(number);
        Pin { pins: self.pins.clone(), backlog: self.backlog.clone(), number, scope, age }
    }
}

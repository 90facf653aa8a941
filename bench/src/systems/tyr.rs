//! Týr, embedded, through its blocking interface and with its defaults. Reads alone choose the size of the payload cache.

use std::{
    thread,
    time::{Duration, Instant},
};

use tyr_embed::{
    Durability as TyrDurability, KeyspaceSettings, Operand, Transform,
    blocking::{Keyspace, Store},
};

use crate::meter::written_bytes;
use crate::system::{Durability, Outcome, Setting, System, Temperature};

/// An open store with one keyspace.
pub struct Tyr {
    store: Store,
    blobs: Keyspace,
}

const KEYSPACE: &str = "bench";
const LOG: &str = "log";
const COUNTER: &str = "counter";
const IDLE_TIME: Duration = Duration::from_millis(50);
const WARM_CACHE: u64 = 1 << 30;
const COLD_CACHE: u64 = 1 << 20;

impl Tyr {
    /// Opens a store, creating it and its keyspace if need be.
    pub fn open(setting: &Setting) -> Outcome<Self> {
        let options = match setting.temperature {
            Temperature::Usual => Store::options(),
            Temperature::Warm => Store::options().data_cache(WARM_CACHE),
            Temperature::Cold => Store::options().data_cache(COLD_CACHE),
        };
        let store = options.open(&setting.directory)?;
        let durability = match setting.durability {
            Durability::Memory => TyrDurability::Memory,
            Durability::Disk => TyrDurability::Disk,
        };
        let settings = KeyspaceSettings { durability, ..KeyspaceSettings::default() };
        let exists = store.keyspaces().iter().any(|keyspace| keyspace.name == KEYSPACE);
        let blobs =
            if exists { store.keyspace(KEYSPACE)? } else { store.create_keyspace(KEYSPACE, settings)? };
        Ok(Tyr { store, blobs })
    }
}

impl System for Tyr {
    fn put(&self, blob: u64, payload: &'static [u8]) -> Outcome<()> {
        Ok(self.blobs.put(blob.to_be_bytes(), payload)?)
    }

    fn get(&self, blob: u64, buffer: &mut [u8]) -> Outcome<()> {
        self.read(blob, 0, buffer)
    }

    fn put_many(&self, first: u64, payloads: &[&'static [u8]]) -> Outcome<()> {
        self.store.run(|transaction| {
            let mut blobs = (first..).map(u64::to_be_bytes).zip(payloads);
            blobs.try_for_each(|(key, payload)| transaction.put(&self.blobs, key, payload))
        })?;
        Ok(())
    }

    fn write(&self, blob: u64, offset: u64, payload: &'static [u8]) -> Outcome<()> {
        Ok(self.blobs.write(blob.to_be_bytes(), offset, payload)?)
    }

    fn append(&self, payload: &'static [u8]) -> Outcome<()> {
        self.blobs.append(LOG, payload)?;
        Ok(())
    }

    fn read(&self, blob: u64, offset: u64, buffer: &mut [u8]) -> Outcome<()> {
        match self.blobs.read_into(blob.to_be_bytes(), offset, buffer)? {
            count if count == buffer.len() => Ok(()),
            count => Err(format!("{count} bytes instead of {}", buffer.len()).into()),
        }
    }

    fn increment(&self) -> Outcome<()> {
        self.blobs.transform(COUNTER, 0, Transform::add(Operand::U64(1)))?;
        Ok(())
    }

    fn counter(&self) -> Outcome<u64> {
        let mut bytes = [0; 8];
        self.blobs.read_into(COUNTER, 0, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// The store does not say when it is idle; that it has written nothing for a while does.
    fn settle(&self) -> Outcome<()> {
        let mut written = written_bytes()?;
        let mut since = Instant::now();
        while since.elapsed() < IDLE_TIME {
            thread::sleep(IDLE_TIME / 5);
            let now = written_bytes()?;
            if now != written {
                (written, since) = (now, Instant::now());
            }
        }
        Ok(())
    }

    fn compact(&self) -> Outcome<()> {
        self.store.compact()?;
        self.settle()
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        Ok(self.store.close()?)
    }
}

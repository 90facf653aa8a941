//! Appends of all sizes to a few blobs, and the account of them: each acknowledged one is there once, at the offset that was told and
//! byte for byte; one of which that is not known is there once at most; and there is nothing else.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::failure::{Failure, Result};

/// What became of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It was acknowledged, at this offset.
    At(u64),
    /// It is not known.
    Unknown,
    /// It did not happen, and never will.
    Never,
}

/// A record of a log: who it is, and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Record {
    /// Unique in the trial.
    pub id: u64,
    /// Of the whole record, in bytes; at least [`HEAD_SIZE`].
    pub size: u64,
}

/// Every append to every log.
#[derive(Debug, Default)]
pub struct Ledger {
    entries: Mutex<BTreeMap<(u64, u64), (Record, Fate)>>,
}

impl Record {
    /// Its bytes: who it is, and a pattern that no other one has.
    pub fn bytes(self) -> Vec<u8> {
        let size = usize::try_from(self.size).expect("it fits memory");
        let mut bytes = Vec::with_capacity(size + 8);
        bytes.extend(self.id.to_le_bytes());
        bytes.extend(self.size.to_le_bytes());
        let mut word = self.id;
        while bytes.len() < size {
            word = word.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) ^ self.size;
            bytes.extend(word.to_le_bytes());
        }
        bytes.truncate(size);
        bytes
    }
}

impl Ledger {
    /// An append to a log is about to be sent.
    pub fn begin(&self, log: u64, record: Record) {
        self.entries.lock().insert((log, record.id), (record, Fate::Unknown));
    }

    /// It is known what became of it.
    pub fn end(&self, log: u64, record: Record, fate: Fate) {
        self.entries.lock().insert((log, record.id), (record, fate));
    }

    /// Compares a log with what was told of it, and returns how many records it has.
    pub fn check(&self, log: u64, bytes: &[u8]) -> Result<usize> {
        let wrong = |text: String| Err(Failure::new(format!("log {log}: {text}")));
        let entries = self.entries.lock();
        let mut found: BTreeMap<u64, u64> = BTreeMap::new();
        let mut offset = 0;
        while offset < bytes.len() {
            let rest = &bytes[offset..];
            let word = |at: usize| Some(u64::from_le_bytes(rest.get(at..at + 8)?.try_into().ok()?));
            let known = word(0).and_then(|id| entries.get(&(log, id)));
            let Some((record, fate)) = known else {
                return wrong(format!("at offset {offset} is something that nobody has appended"));
            };
            let expected = record.bytes();
            if !rest.starts_with(&expected) {
                return wrong(format!(
                    "record {} at offset {offset} has other bytes than were appended",
                    record.id
                ));
            }
            if *fate == Fate::Never {
                return wrong(format!("record {} is at offset {offset}, and was refused", record.id));
            }
            if let Some(first) = found.insert(record.id, offset as u64) {
                return wrong(format!(
                    "record {} is there twice, at offsets {first} and {offset}",
                    record.id
                ));
            }
            offset += expected.len();
        }
        for ((_, id), (_, fate)) in entries.range((log, 0)..=(log, u64::MAX)) {
            let Fate::At(told) = fate else { continue };
            match found.get(id) {
                Some(offset) if offset == told => {}
                Some(offset) => {
                    return wrong(format!("record {id} is at offset {offset}, and {told} was told"));
                }
                None => return wrong(format!("record {id} was acknowledged at offset {told} and is lost")),
            }
        }
        Ok(found.len())
    }

    /// How many appends have which fate: acknowledged, unknown, never.
    pub fn counts(&self) -> [usize; 3] {
        let mut counts = [0; 3];
        for (_, fate) in self.entries.lock().values() {
            let place = match fate {
                Fate::At(_) => 0,
                Fate::Unknown => 1,
                Fate::Never => 2,
            };
            counts[place] += 1;
        }
        counts
    }
}

/// The name of a log.
pub fn key(log: u64) -> String {
    format!("log/{log}")
}

/// Logs of a trial.
pub const LOGS: u64 = 4;
/// Of a record, in bytes.
pub const HEAD_SIZE: u64 = 16;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    fn records() -> [Record; 3] {
        [Record { id: 1, size: 16 }, Record { id: 2, size: 333 }, Record { id: 3, size: 70_001 }]
    }

    fn ledger(fates: [Fate; 3]) -> Ledger {
        let ledger = Ledger::default();
        for (record, fate) in records().into_iter().zip(fates) {
            ledger.begin(0, record);
            ledger.end(0, record, fate);
        }
        ledger
    }

    fn bytes(which: &[usize]) -> Vec<u8> {
        which.iter().flat_map(|place| records()[*place].bytes()).collect()
    }

    #[test]
    fn a_log_with_everything_at_its_place_is_right() {
        let ledger = ledger([Fate::At(0), Fate::Unknown, Fate::At(349)]);
        assert_eq!(ledger.check(0, &bytes(&[0, 1, 2])).unwrap(), 3);
        assert_eq!(ledger.counts(), [2, 1, 0]);
    }

    #[test]
    fn what_is_wrong_with_a_log_is_found() {
        let fates = [Fate::At(0), Fate::Unknown, Fate::At(349)];
        let said = |fates, bytes: &[u8]| ledger(fates).check(0, bytes).unwrap_err().to_string();
        assert!(said(fates, &bytes(&[0, 1])).contains("record 3 was acknowledged at offset 349 and is lost"));
        assert!(said(fates, &bytes(&[0, 2])).contains("record 3 is at offset 16, and 349 was told"));
        assert!(said(fates, &bytes(&[0, 1, 1, 2])).contains("record 2 is there twice"));
        let refused = [Fate::At(0), Fate::Never, Fate::At(349)];
        assert!(said(refused, &bytes(&[0, 1, 2])).contains("record 2 is at offset 16, and was refused"));
        let mut flipped = bytes(&[0, 1, 2]);
        flipped[5000] ^= 1;
        assert!(said(fates, &flipped).contains("other bytes"));
        assert!(said(fates, &[bytes(&[0, 1, 2]), vec![0; 3]].concat()).contains("nobody has appended"));
    }
}

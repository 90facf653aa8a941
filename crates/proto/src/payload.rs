//! Bytes that a client wrote, wherever they are: in memory, or where this replica keeps them.
//!
//! A payload never changes; whoever holds it may read it at any time. What moves is where its bytes are: they come into memory with a
//! message, and leave it when they are durable in a home. A home lives as long as a payload has it, so that what a state, a log, or a
//! message refers to is never removed under it; who made the home removes what it kept there some time after it was dropped.

use alloc::{sync::Arc, vec, vec::Vec};
use core::{fmt, ops::Range};

use spin::Mutex;
use tyr_wire::shared::SharedBytes;

use crate::{PartitionId, SPOT_MIN, Spot};

/// Some bytes. Cloning it shares them.
#[derive(Clone)]
pub struct Payload(Arc<Inner>);

struct Inner {
    length: usize,
    held: Mutex<Held>,
}

/// Invariant: there are the bytes, or there is a home.
struct Held {
    bytes: Option<SharedBytes>,
    homes: Vec<Arc<dyn Home>>,
}

/// Where the bytes of a payload are kept outside of memory.
pub trait Home: fmt::Debug + Send + Sync {
    /// What distinguishes it from all other homes.
    fn place(&self) -> Place;

    /// Fills a buffer with the bytes from a position on. What cannot be read is lost to the whole node: who fails here sees to it that
    /// nothing is said any more that depends on these bytes.
    fn read(&self, from: usize, buffer: &mut [u8]) -> Result<(), Lost>;

    /// Where some of the bytes lie, in order and all of them, in files that can be shown to a reader; `None` if that cannot be said.
    fn spots(&self, _part: &Range<usize>) -> Option<Vec<Spot>> {
        None
    }
}

/// The name of a home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The journal that keeps it, by a number that no other journal of the process has.
    pub journal: u64,
    /// The partition in whose log or state it is.
    pub partition: PartitionId,
    /// Its number in there.
    pub number: u64,
}

/// Bytes that were kept cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost;

impl Payload {
    /// A payload that is kept in a home, and not in memory.
    pub fn at_home(length: usize, home: Arc<dyn Home>) -> Payload {
        Payload::with(length, Held { bytes: None, homes: Vec::from([home]) })
    }

    fn with(length: usize, held: Held) -> Payload {
        Payload(Arc::new(Inner { length, held: Mutex::new(held) }))
    }

    /// How many bytes.
    pub fn len(&self) -> usize {
        self.0.length
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.length == 0
    }

    /// The bytes, if they are in memory.
    pub fn in_memory(&self) -> Option<SharedBytes> {
        self.0.held.lock().bytes.clone()
    }

    /// The bytes. They stay where they are.
    pub fn bytes(&self) -> Result<SharedBytes, Lost> {
        if let Some(bytes) = self.in_memory() {
            return Ok(bytes);
        }
        let mut bytes = vec![0; self.len()];
        self.read(0, &mut bytes)?;
        Ok(bytes.into())
    }

    /// Fills a buffer with the bytes from a position on.
    pub fn read(&self, from: usize, buffer: &mut [u8]) -> Result<(), Lost> {
        let home = {
            let held = self.0.held.lock();
            match &held.bytes {
                Some(bytes) => {
                    buffer.copy_from_slice(&bytes[from..from + buffer.len()]);
                    return Ok(());
                }
                None => held.homes[0].clone(),
            }
        };
        home.read(from, buffer)
    }

    /// Where a part of the bytes lies in files, if they are not in memory and large enough to be worth it.
    pub fn spots(&self, part: &Range<usize>) -> Option<Vec<Spot>> {
        if part.len() < SPOT_MIN {
            return None;
        }
        let home = {
            let held = self.0.held.lock();
            if held.bytes.is_some() {
                return None;
            }
            held.homes[0].clone()
        };
        let spots = home.spots(part)?;
        let length: u64 = spots.iter().map(|spot| u64::from(spot.length)).sum();
        (length == part.len() as u64).then_some(spots)
    }

    /// The same bytes under another identity, with no home: for another partition, which keeps its own.
    pub fn copy(&self) -> Result<Payload, Lost> {
        self.bytes().map(Payload::from)
    }

    /// The number that a journal gave it in a partition, if it has a home there.
    pub fn number(&self, journal: u64, partition: PartitionId) -> Option<u64> {
        let held = self.0.held.lock();
        let places = held.homes.iter().map(|home| home.place());
        let mut own = places.filter(|place| (place.journal, place.partition) == (journal, partition));
        own.next().map(|place| place.number)
    }

    /// Gives it a home, to which its bytes are on their way.
    pub fn settle(&self, home: Arc<dyn Home>) {
        self.0.held.lock().homes.push(home);
    }

    /// Its bytes are durable in a home: they leave memory.
    pub fn leave_memory(&self) {
        let mut held = self.0.held.lock();
        if !held.homes.is_empty() {
            held.bytes = None;
        }
    }

    /// What distinguishes it from all other payloads that exist.
    pub fn address(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }
}

impl From<SharedBytes> for Payload {
    fn from(bytes: SharedBytes) -> Self {
        Payload::with(bytes.len(), Held { bytes: Some(bytes), homes: Vec::new() })
    }
}

impl From<Arc<[u8]>> for Payload {
    fn from(bytes: Arc<[u8]>) -> Self {
        SharedBytes::from(bytes).into()
    }
}

impl From<Vec<u8>> for Payload {
    fn from(bytes: Vec<u8>) -> Self {
        SharedBytes::from(bytes).into()
    }
}

impl From<&[u8]> for Payload {
    fn from(bytes: &[u8]) -> Self {
        Arc::<[u8]>::from(bytes).into()
    }
}

/// Equal bytes. What cannot be read equals nothing but itself.
impl PartialEq for Payload {
    fn eq(&self, other: &Self) -> bool {
        let is_same = Arc::ptr_eq(&self.0, &other.0);
        is_same || (self.len() == other.len() && self.bytes().is_ok_and(|bytes| Ok(bytes) == other.bytes()))
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.in_memory() {
            Some(bytes) if bytes.len() <= SHOWN_MAX => fmt::Debug::fmt(&bytes, f),
            _ => write!(f, "{} bytes", self.len()),
        }
    }
}

/// As many bytes are shown.
const SHOWN_MAX: usize = 64;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use crate::ClassId;

    #[derive(Debug)]
    struct Shelf(Option<&'static [u8]>);

    impl Home for Shelf {
        fn place(&self) -> Place {
            Place { journal: 1, partition: PartitionId { class: ClassId(0), index: 2 }, number: 3 }
        }

        fn read(&self, from: usize, buffer: &mut [u8]) -> Result<(), Lost> {
            let bytes = self.0.ok_or(Lost)?;
            buffer.copy_from_slice(&bytes[from..from + buffer.len()]);
            Ok(())
        }
    }

    #[test]
    fn bytes_leave_memory_only_for_a_home_and_are_read_there() {
        let payload = Payload::from(&b"some bytes"[..]);
        payload.leave_memory();
        assert!(payload.in_memory().is_some(), "there is no home");
        payload.settle(Arc::new(Shelf(Some(b"some bytes"))));
        payload.leave_memory();
        assert!(payload.in_memory().is_none());
        let mut part = [0; 4];
        payload.read(5, &mut part).unwrap();
        assert_eq!((&part, &payload.bytes().unwrap()[..]), (b"byte", &b"some bytes"[..]));
        let Place { journal, partition, number } = Shelf(None).place();
        assert_eq!(payload.number(journal, partition), Some(number));
        assert_eq!(payload.number(journal + 1, partition), None);
    }

    #[test]
    fn a_copy_has_no_home_and_equal_bytes() {
        let payload = Payload::at_home(4, Arc::new(Shelf(Some(b"four"))));
        let copy = payload.copy().unwrap();
        assert!(copy.in_memory().is_some() && copy == payload && copy.address() != payload.address());
    }

    #[test]
    fn what_cannot_be_read_is_lost_and_equals_only_itself() {
        let lost = || Payload::at_home(4, Arc::new(Shelf(None)));
        let one = lost();
        assert_eq!((one.bytes(), one.copy().is_err()), (Err(Lost), true));
        assert!(one == one.clone() && one != lost());
    }
}

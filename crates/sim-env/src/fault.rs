//! Faults that strike an operation, and the schedule of those to come.

use std::{collections::BTreeMap, io};

use tyr_env::BLOCK_SIZE;

/// What goes wrong with one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The power fails in the middle of it. What it was to change is left to [`crate::SimDisk::crash`] as something that was
    /// not yet durable; the operation, and everything after it, fails.
    Crash,
    /// It fails with `EIO`. Any part of a write may have been applied. What a failed sync should have made durable
    /// will not be by any later one.
    Error,
    /// As [`Fault::Error`], and so does every later operation that changes something. Reads go on.
    ErrorForEver,
    /// It fails for want of space, as [`Fault::Error`] otherwise.
    Full,
    /// The write is acknowledged but does not happen. Strikes the first write at or after the chosen operation.
    LostWrite,
    /// The write is acknowledged but lands elsewhere: at the place given, or, for `None`, at one that the seed chooses
    /// within the files that have a name. Without such a place it is lost. Strikes the first write at or after the chosen
    /// operation.
    MisdirectedWrite(Option<Place>),
}

/// A place on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Of the file.
    pub name: String,
    /// Position in the file, a multiple of [`tyr_env::BLOCK_SIZE`].
    pub position: u64,
}

/// A fault that has struck.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strike {
    /// The number of the operation.
    pub operation: u64,
    /// The operation, in words.
    pub what: String,
    /// What befell it.
    pub fault: Fault,
}

/// Faults to come and faults that were.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults {
    scheduled: BTreeMap<u64, Fault>,
    /// [`Fault::ErrorForEver`] has struck.
    broken: bool,
    pub(crate) strikes: Vec<Strike>,
}

/// What becomes of an operation.
#[derive(Debug)]
pub(crate) enum Fate {
    Done,
    Crashed,
    Failed(io::Error),
    /// Only of a write.
    Lost,
    /// Only of a write.
    Misdirected(Option<Place>),
}

impl Faults {
    /// Lets the fault strike the first operation that has this number or a larger one and that it can strike.
    pub(crate) fn schedule(&mut self, operation: u64, fault: Fault) {
        if let Fault::MisdirectedWrite(Some(place)) = &fault {
            assert!(place.position.is_multiple_of(BLOCK_SIZE as u64), "{place:?} is aligned to blocks");
        }
        self.scheduled.insert(operation, fault);
    }

    /// Faults that have not struck yet.
    pub(crate) fn pending(&self) -> usize {
        self.scheduled.len()
    }

    /// Decides about the operation that has this number.
    pub(crate) fn fate(&mut self, operation: u64, is_write: bool, what: impl FnOnce() -> String) -> Fate {
        if self.broken {
            return Fate::Failed(eio());
        }
        let strikes =
            |fault: &Fault| is_write || !matches!(fault, Fault::LostWrite | Fault::MisdirectedWrite(_));
        let Some(number) =
            self.scheduled.range(..=operation).find(|(_, fault)| strikes(fault)).map(|(n, _)| *n)
        else {
            return Fate::Done;
        };
        let Some(fault) = self.scheduled.remove(&number) else { return Fate::Done };
        self.strikes.push(Strike { operation, what: what(), fault: fault.clone() });
        match fault {
            Fault::Crash => Fate::Crashed,
            Fault::Error => Fate::Failed(eio()),
            Fault::ErrorForEver => {
                self.broken = true;
                Fate::Failed(eio())
            }
            Fault::Full => Fate::Failed(full()),
            Fault::LostWrite => Fate::Lost,
            Fault::MisdirectedWrite(place) => Fate::Misdirected(place),
        }
    }
}

/// As Linux reports a broken medium.
pub(crate) fn eio() -> io::Error {
    io::Error::from_raw_os_error(5)
}

/// As Linux reports a full one.
pub(crate) fn full() -> io::Error {
    io::Error::from_raw_os_error(28)
}

#[cfg(test)]
mod tests;

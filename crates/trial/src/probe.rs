//! Whether the cluster serves: counters in every partition, to which nobody else adds.

use std::time::{Duration, Instant};

use tyr_client::{
    ErrorKind, KeyspaceSettings, Operand, Transform,
    blocking::{Keyspace, Store},
};

use crate::{
    failure::{Failure, Result},
    report::{GLANCE, PATIENCE},
};

/// Adds to counters, and knows what each of them is.
#[derive(Debug)]
pub struct Probe {
    keyspace: Keyspace,
    counters: Vec<u64>,
}

impl Probe {
    /// Counters in a keyspace of their own.
    pub fn new(url: &str) -> Result<Probe> {
        let store = Store::options().deadline(PATIENCE).connect_timeout(PATIENCE).open(url)?;
        let keyspace = store.create_keyspace("probe", KeyspaceSettings::default())?;
        Ok(Probe { keyspace, counters: vec![0; COUNTERS] })
    }

    /// Adds one to every counter, however long that takes. Returns how long.
    pub fn write(&mut self) -> Result<Duration> {
        self.each(|keyspace, place, counter| {
            let began = Instant::now();
            let old = loop {
                match keyspace.transform(key(place), 0, Transform::add(Operand::U64(1))) {
                    Err(error) if error.kind() == ErrorKind::Full && began.elapsed() < PATIENCE => {
                        std::thread::sleep(GLANCE);
                    }
                    old => break old.map_err(|error| Failure::from(error).while_doing("the probe adds"))?,
                }
            };
            check(place, *counter, old)?;
            *counter += 1;
            Ok(())
        })
    }

    /// Reads every counter, however long that takes. Returns how long.
    pub fn read(&mut self) -> Result<Duration> {
        self.each(|keyspace, place, counter| {
            let bytes = keyspace
                .read(key(place), ..)
                .map_err(|error| Failure::from(error).while_doing("the probe reads"))?;
            let bytes = bytes.try_into().map_err(|_| Failure::new("a counter has not 8 bytes"))?;
            check(place, *counter, Operand::U64(u64::from_le_bytes(bytes)))
        })
    }

    /// Does something to every counter, to several at once.
    fn each(&mut self, act: impl Fn(&Keyspace, usize, &mut u64) -> Result<()> + Sync) -> Result<Duration> {
        let (began, act, keyspace) = (Instant::now(), &act, &self.keyspace);
        std::thread::scope(|scope| {
            let shares = self.counters.chunks_mut(COUNTERS / AT_ONCE).enumerate().map(|(number, share)| {
                scope.spawn(move || {
                    let places = number * (COUNTERS / AT_ONCE)..;
                    places.zip(share).try_for_each(|(place, counter)| act(keyspace, place, counter))
                })
            });
            let shares: Vec<_> = shares.collect();
            shares.into_iter().try_for_each(|share| share.join().expect("nothing panics"))
        })?;
        Ok(began.elapsed())
    }
}

fn check(place: usize, expected: u64, found: Operand) -> Result<()> {
    match found == Operand::U64(expected) {
        true => Ok(()),
        false => Err(Failure::new(format!("counter {place} of the probe is {found:?} and not {expected}"))),
    }
}

fn key(place: usize) -> String {
    format!("counter/{place}")
}

/// So many that nearly every partition has one.
const COUNTERS: usize = 128;
/// A divisor of that.
const AT_ONCE: usize = 16;

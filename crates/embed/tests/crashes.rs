//! The power fails in the midst of concurrent transactions, on a simulated disk. What was acknowledged is there afterwards, and every
//! transaction wholly or not at all.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::thread;

use common::{durable, in_memory, number, scale};
use tyr_embed::blocking::{Keyspace, Store};
use tyr_embed::{Create, ErrorKind, Result};
use tyr_sim_env::{CrashMode, Fault, SimDisk};

const ACCOUNTS: u64 = 4;
const THREADS: u64 = 2;

struct Bank {
    store: Store,
    accounts: Keyspace,
    /// Not durable by itself, but written by durable transactions.
    journal: Keyspace,
}

impl Bank {
    fn open(disk: &Arc<SimDisk>, create: Create) -> Result<Bank> {
        let options = Store::options().create(create).segment_size(1 << 20).disk(disk.clone());
        let store = options.open("simulated")?;
        let keyspace = |name, settings| match store.keyspace(name) {
            Err(error) if error.kind() == ErrorKind::NotFound => store.create_keyspace(name, settings),
            found => found,
        };
        let (accounts, journal) = (keyspace("accounts", durable())?, keyspace("journal", in_memory())?);
        Ok(Bank { accounts, journal, store })
    }

    /// Moves money, and notes in three places that it did.
    fn transfer(&self, id: u64) -> Result<()> {
        let (from, to) = (id % ACCOUNTS, (id / 3) % ACCOUNTS);
        let moved = self.store.run(|transaction| {
            let have = number(&transaction.read(&self.accounts, from.to_le_bytes(), ..)?);
            let amount = (id % 7).min(have);
            transaction.write(&self.accounts, from.to_le_bytes(), 0, (have - amount).to_le_bytes())?;
            let have = number(&transaction.read(&self.accounts, to.to_le_bytes(), ..)?);
            transaction.write(&self.accounts, to.to_le_bytes(), 0, (have + amount).to_le_bytes())?;
            transaction.append(&self.accounts, "log", id.to_le_bytes())?;
            transaction.append(&self.journal, "log", id.to_le_bytes())?;
            // Large enough to be staged, across leaves.
            if id.is_multiple_of(5) {
                transaction.put(&self.journal, id.to_le_bytes(), vec![1; 70_000])?;
            }
            Ok(())
        });
        moved.map(drop)
    }

    /// The transfers that happened.
    fn check(&self) -> BTreeSet<u64> {
        let money = |account: u64| number(&self.accounts.read(account.to_le_bytes(), ..).unwrap());
        assert_eq!((0..ACCOUNTS).map(money).sum::<u64>(), 100 * ACCOUNTS);
        let logs =
            [&self.accounts, &self.journal].map(|keyspace| keyspace.read("log", ..).unwrap_or_default());
        assert_eq!(logs[0], logs[1]);
        let happened: Vec<u64> = logs[0].chunks(8).map(number).collect();
        for id in &happened {
            if id.is_multiple_of(5) {
                assert_eq!(self.journal.read(id.to_le_bytes(), ..).unwrap(), vec![1; 70_000]);
            }
        }
        let set: BTreeSet<u64> = happened.iter().copied().collect();
        assert_eq!(set.len(), happened.len(), "something happened twice");
        set
    }
}

/// Transfers from several threads until the power fails or all are done; returns those that were acknowledged.
fn work(bank: &Bank, first: u64) -> BTreeSet<u64> {
    let acknowledged = Mutex::new(BTreeSet::new());
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let acknowledged = &acknowledged;
            scope.spawn(move || {
                for n in 0..25 {
                    let id = first + n * THREADS + thread;
                    match bank.transfer(id) {
                        Ok(()) => drop(acknowledged.lock().unwrap().insert(id)),
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
                            return;
                        }
                    }
                }
            });
        }
    });
    acknowledged.into_inner().unwrap()
}

#[test]
fn acknowledged_transactions_survive_and_none_is_torn() {
    let mut crashes = 0;
    for seed in 0..24 * scale() {
        let mut disk = SimDisk::new(seed);
        let bank = Bank::open(&disk, Create::New).unwrap();
        for account in 0..ACCOUNTS {
            bank.accounts.put(account.to_le_bytes(), 100u64.to_le_bytes()).unwrap();
        }
        let mut acknowledged = work(&bank, 0);
        drop(bank);
        // Again and again, each time on what the last crash has left.
        for (round, mode) in CrashMode::ALL.into_iter().enumerate() {
            let bank = Bank::open(&disk, Create::Never).unwrap();
            disk.fail_at(disk.operations() + (seed * 5) % 60, Fault::Crash);
            acknowledged.extend(work(&bank, 1000 * (round as u64 + 1)));
            // Closing fails if the power did.
            crashes += u64::from(bank.store.close().is_err());
            disk = disk.crash(mode);
            let bank = Bank::open(&disk, Create::Never).unwrap();
            let happened = bank.check();
            assert!(acknowledged.is_subset(&happened), "lost {:?}", acknowledged.difference(&happened));
        }
    }
    assert!(crashes > 20, "the power failed only {crashes} times");
}

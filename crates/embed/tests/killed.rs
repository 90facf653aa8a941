//! A process is killed in the midst of concurrent transactions, again and again, on a real disk. Another process finds everything that it
//! had acknowledged, and every transaction wholly or not at all.
//!
//! The test runs its own program once more as the process that is killed, and reads what that one tells: `opening`, then `began N` before
//! and `acknowledged N` after each transaction. `TYR_TEST_SCALE` multiplies the number of kills.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeSet;
use std::env;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;

use common::{durable, in_memory, number, scale};
use tyr_embed::blocking::{Keyspace, Store};
use tyr_embed::{ErrorKind, IoMode, Result};

const ACCOUNTS: u64 = 4;
const THREADS: u64 = 3;
/// A transfer that deletes what the one before it by so many has left comes after it.
const SAME_THREAD: u64 = 20 * THREADS;
const SIGKILL: i32 = 9;

/// Tells a process that it is the one to be killed: the directory, the kind of I/O, and the first transaction.
const WORKER: &str = "TYR_TEST_WORKER";

struct Bank {
    store: Store,
    accounts: Keyspace,
    /// Not durable by itself, but written by durable transactions.
    journal: Keyspace,
    /// Not durable at all.
    notes: Keyspace,
}

impl Bank {
    fn open(path: &Path, io: IoMode) -> Result<Bank> {
        let store = Store::options().io(io).segment_size(1 << 20).open(path)?;
        let keyspace = |name, settings| match store.keyspace(name) {
            Err(error) if error.kind() == ErrorKind::NotFound => store.create_keyspace(name, settings),
            found => found,
        };
        let accounts = keyspace("accounts", durable())?;
        let (journal, notes) = (keyspace("journal", in_memory())?, keyspace("notes", in_memory())?);
        let bank = Bank { accounts, journal, notes, store };
        bank.store.run(|transaction| {
            for account in 0..ACCOUNTS {
                if !transaction.exists(&bank.accounts, account.to_le_bytes())? {
                    transaction.put(&bank.accounts, account.to_le_bytes(), 100u64.to_le_bytes())?;
                }
            }
            Ok(())
        })?;
        Ok(bank)
    }

    /// Moves money, and notes in three places that it did.
    fn transfer(&self, id: u64) {
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
                transaction.put(&self.journal, id.to_le_bytes(), payload(id))?;
            }
            // Something to collect.
            let former = (id - SAME_THREAD).to_le_bytes();
            if id.is_multiple_of(5) && transaction.exists(&self.journal, former)? {
                transaction.delete(&self.journal, former)?;
                transaction.put(&self.journal, [1, 0].repeat(9), payload(id))?;
            }
            Ok(())
        });
        moved.unwrap();
    }

    /// The transfers that happened.
    fn check(&self) -> BTreeSet<u64> {
        let money = |account: u64| number(&self.accounts.read(account.to_le_bytes(), ..).unwrap());
        assert_eq!((0..ACCOUNTS).map(money).sum::<u64>(), 100 * ACCOUNTS);
        let logs =
            [&self.accounts, &self.journal].map(|keyspace| keyspace.read("log", ..).unwrap_or_default());
        assert_eq!(logs[0], logs[1]);
        let happened: Vec<u64> = logs[0].chunks(8).map(number).collect();
        let set: BTreeSet<u64> = happened.iter().copied().collect();
        assert_eq!(set.len(), happened.len(), "something happened twice");
        for id in set.iter().filter(|id| id.is_multiple_of(5)) {
            let found = self.journal.read(id.to_le_bytes(), ..).map_err(|error| error.kind());
            let is_deleted = set.contains(&(id + SAME_THREAD));
            let expected = if is_deleted { Err(ErrorKind::NotFound) } else { Ok(payload(*id)) };
            assert!(found == expected, "payload of {id}, deleted {is_deleted}");
        }
        self.check_notes();
        let report = self.store.check().unwrap();
        assert!(report.damage.is_empty(), "{report:?}");
        set
    }

    /// Notes are lost from the end only.
    fn check_notes(&self) {
        let notes = self.notes.read("numbers", ..).unwrap_or_default();
        let numbers: Vec<u64> = notes.chunks(8).map(number).collect();
        assert!(numbers.iter().copied().eq(0..numbers.len() as u64), "{numbers:?}");
    }
}

fn payload(id: u64) -> Vec<u8> {
    id.to_le_bytes().repeat(70_000 / 8)
}

fn tell(what: &str) {
    // One write, so that a kill does not cut it.
    std::io::stdout().write_all(format!("{what}\n").as_bytes()).unwrap();
}

/// What the process that is killed does: it goes on until then.
fn work(order: &str) {
    let [path, io, first] = order.split(' ').collect::<Vec<_>>()[..] else { panic!("{order}") };
    tell("opening");
    let bank = Arc::new(Bank::open(Path::new(path), io_mode(io)).unwrap());
    let first: u64 = first.parse().unwrap();
    let mut threads = Vec::new();
    for n in 0..THREADS {
        let bank = bank.clone();
        threads.push(thread::spawn(move || {
            for id in (first + n..).step_by(usize::try_from(THREADS).unwrap()) {
                tell(&format!("began {id}"));
                bank.transfer(id);
                tell(&format!("acknowledged {id}"));
            }
        }));
    }
    let notes = bank.clone();
    threads.push(thread::spawn(move || {
        let have = notes.notes.read("numbers", ..).unwrap_or_default().len() as u64 / 8;
        for n in have.. {
            assert_eq!(notes.notes.append("numbers", n.to_le_bytes()).unwrap(), n * 8);
        }
    }));
    threads.push(thread::spawn(move || {
        loop {
            bank.store.compact().unwrap();
        }
    }));
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

fn io_mode(name: &str) -> IoMode {
    if name == "buffered" { IoMode::Buffered } else { IoMode::Auto }
}

/// What a killed process had told.
#[derive(Default)]
struct Told {
    began: BTreeSet<u64>,
    acknowledged: BTreeSet<u64>,
}

impl Told {
    fn note(&mut self, line: &str) {
        match line.split_once(' ') {
            Some(("began", id)) => drop(self.began.insert(id.parse().unwrap())),
            Some(("acknowledged", id)) => drop(self.acknowledged.insert(id.parse().unwrap())),
            _ => {}
        }
    }
}

/// Runs a process on the directory and kills it as soon as it has acknowledged so many transactions, or, for none, as soon as it
/// begins to open the store.
fn run_and_kill(path: &Path, io: &str, first: u64, acknowledged: usize, told: &mut Told) {
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", NAME, "--nocapture"])
        .env(WORKER, format!("{} {io} {first}", path.display()))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(std::result::Result::ok);
    let before = told.acknowledged.len();
    let mut is_opening = false;
    while !(is_opening && told.acknowledged.len() - before >= acknowledged) {
        let line = lines.next().expect("the process does not end by itself");
        is_opening |= line == "opening";
        told.note(&line);
    }
    child.kill().unwrap();
    // What it had told and nobody had read yet.
    lines.for_each(|line| told.note(&line));
    assert_eq!(child.wait().unwrap().signal(), Some(SIGKILL), "it was killed at its work");
}

const NAME: &str = "a_killed_process_leaves_what_it_acknowledged_and_no_part_of_anything_else";

#[test]
fn a_killed_process_leaves_what_it_acknowledged_and_no_part_of_anything_else() {
    if let Ok(order) = env::var(WORKER) {
        return work(&order);
    }
    let directory = tempfile::tempdir().unwrap();
    let mut told = Told::default();
    let mut unfinished = 0;
    for round in 0..12 * scale() {
        let io = ["auto", "buffered"][usize::try_from(round % 2).unwrap()];
        let acknowledged = [30, 1, 0, 90, 0, 7, 250][usize::try_from(round % 7).unwrap()];
        run_and_kill(directory.path(), io, (round + 1) * 1_000_000, acknowledged, &mut told);
        // Sometimes the next process recovers, to be killed in its turn.
        if round % 3 == 1 {
            continue;
        }
        let bank = Bank::open(directory.path(), io_mode(io)).unwrap();
        let happened = bank.check();
        assert!(told.acknowledged.is_subset(&happened), "lost {:?}", told.acknowledged.difference(&happened));
        assert!(happened.is_subset(&told.began), "invented {:?}", happened.difference(&told.began));
        unfinished += told.began.len() - told.acknowledged.len();
        // Sometimes it is closed.
        if round % 3 == 0 {
            bank.store.close().unwrap();
        }
    }
    assert!(unfinished > 0, "every process was killed between two transactions");
}

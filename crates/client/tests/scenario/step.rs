//! What the steps do that are operations of a store.

use std::{
    collections::BTreeMap,
    future::Future,
    ops::Bound,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use pollster::block_on;
use serde_json::Value;
use tyr_client::{
    Blob, Check, Create, Entry, Error, Keyspace, Number, Op, Outcome, Receipt, Result, Seek, Snapshot, Stat,
    Store, Transaction, Transform,
};

use super::{
    Stage, deadline, settings,
    told::{Told, bytes, operand, text},
    told_of,
};

type Range = (Bound<u64>, Bound<u64>);

/// The key, or another value of bytes, that a step names.
struct Arguments<'a> {
    step: &'a Value,
    worker: usize,
}

impl Arguments<'_> {
    fn key(&self) -> Vec<u8> {
        match &self.step["key"] {
            Value::String(text) => text.replace("{worker}", &self.worker.to_string()).into_bytes(),
            other => bytes(other),
        }
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        bytes(&self.step[name])
    }

    fn number(&self, name: &str) -> u64 {
        self.step[name].as_u64().unwrap_or_else(|| panic!("{} has no number {name}", self.step))
    }

    fn text(&self, name: &str) -> &str {
        text(&self.step[name])
    }

    fn range(&self) -> Range {
        let Some(range) = self.step.get("range") else { return (Bound::Unbounded, Bound::Unbounded) };
        let end = range[1].as_u64().map_or(Bound::Unbounded, Bound::Excluded);
        (Bound::Included(range[0].as_u64().unwrap()), end)
    }

    fn hole(&self) -> std::ops::Range<u64> {
        let border = |place: usize| self.step["range"][place].as_u64().unwrap();
        border(0)..border(1)
    }

    fn value(&self) -> Option<Vec<u8>> {
        (!self.step["value"].is_null()).then(|| self.bytes("value"))
    }

    fn listed(&self) -> (Vec<u8>, Option<Vec<u8>>, usize) {
        let optional = |name: &str| self.step.get(name).map(bytes);
        let limit = self.step.get("limit").map_or(1000, |limit| limit.as_u64().unwrap());
        (optional("prefix").unwrap_or_default(), optional("after"), usize::try_from(limit).unwrap())
    }

    fn transform(&self) -> Result<Transform> {
        let operand = operand(&self.step["operand"]);
        let op = match self.text("op") {
            "add" => Op::Add,
            "multiply" => Op::Multiply,
            "min" => Op::Min,
            "max" => Op::Max,
            "and" => Op::And,
            "or" => Op::Or,
            "xor" => Op::Xor,
            "swap" => Op::Swap,
            "compare-and-swap" => {
                return Transform::compare_and_swap(super::told::operand(&self.step["expected"]), operand);
            }
            other => panic!("{other} is no op"),
        };
        Transform::new(op, operand)
    }
}

impl Stage<'_> {
    /// Does a step, and says what it resulted in.
    pub fn perform(&mut self, step: &Value) -> Result<Told> {
        let (noun, method) = text(&step["do"]).split_once('.').unwrap();
        match noun {
            "store" => self.store(step, method),
            "keyspace" => self.keyspace(step, method),
            "transaction" => self.transaction(step, method),
            "snapshot" => self.snapshot(step, method),
            "pending" => {
                let pending = self.pendings[name(step, "on", "p")].clone();
                self.wait(pending.outcome()).map(|outcome| self.told_outcome(outcome))
            }
            other => panic!("{other} is no noun"),
        }
    }

    /// Waits for what is done, or drops it as soon as it has begun.
    fn wait<T>(&self, future: impl Future<Output = Result<T>>) -> Result<T> {
        if !self.is_cancelling {
            return block_on(future);
        }
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => result,
            Poll::Pending => Err(Error::unavailable("it was cancelled")),
        }
    }

    fn store(&mut self, step: &Value, method: &str) -> Result<Told> {
        let given = Arguments { step, worker: self.worker };
        if method == "open" {
            let opened = self.open(step)?;
            self.stores.insert(name(step, "as", "store").to_owned(), opened);
            return Ok(Told::Nothing);
        }
        let own = name(step, "on", "store");
        let store = self.stores[own].clone();
        match method {
            "close" => {
                self.stores.remove(own);
                self.wait(store.close())?;
            }
            "flush" => self.wait(store.flush())?,
            "compact" => drop(self.wait(store.compact())?),
            "check" => {
                let report = self.wait(store.check())?;
                return Ok(Told::Fields(BTreeMap::from([(
                    "damage",
                    Told::Number(report.damage.len() as u64),
                )])));
            }
            "stats" => {
                let size = Told::Number(store.stats()?.segment_size);
                return Ok(Told::Fields(BTreeMap::from([("segment_size", size)])));
            }
            "create_keyspace" => {
                let made =
                    self.wait(store.create_keyspace(given.text("name"), settings(&step["settings"])))?;
                self.keyspaces.insert(given.text("as").to_owned(), made);
            }
            "alter_keyspace" => {
                self.wait(store.alter_keyspace(given.text("name"), settings(&step["settings"])))?;
            }
            "keyspace" => {
                let found = store.keyspace(given.text("name"))?;
                self.keyspaces.insert(given.text("as").to_owned(), found);
            }
            "drop_keyspace" => self.wait(store.drop_keyspace(given.text("name")))?,
            "keyspaces" => {
                return Ok(Told::List(
                    store.keyspaces().into_iter().map(|known| Told::Text(known.name)).collect(),
                ));
            }
            "begin" => drop(self.transactions.insert(name(step, "as", "t").to_owned(), store.begin())),
            "within" => {
                let soon = store.within(deadline(step, "deadline_ms").unwrap());
                self.stores.insert(given.text("as").to_owned(), soon);
            }
            "snapshot" => {
                let of = step["of"].as_array().unwrap().iter().map(|name| self.keyspaces[text(name)].clone());
                let of: Vec<Keyspace> = of.collect();
                let taken = self.wait(store.snapshot(&of.iter().collect::<Vec<_>>()))?;
                self.snapshots.insert(name(step, "as", "s").to_owned(), Arc::new(taken));
            }
            "create_snapshot" => {
                let of = self.keyspaces[given.text("of")].clone();
                self.wait(store.create_snapshot(&of, given.text("name")))?;
            }
            "open_snapshot" => {
                let of = self.keyspaces[given.text("of")].clone();
                let opened = self.wait(store.open_snapshot(&of, given.text("name")))?;
                self.snapshots.insert(name(step, "as", "s").to_owned(), Arc::new(opened));
            }
            "snapshots" => {
                let of = self.keyspaces[given.text("of")].clone();
                let known = self.wait(store.snapshots(&of))?;
                return Ok(Told::List(known.into_iter().map(|known| Told::Text(known.name)).collect()));
            }
            "drop_snapshot" => {
                let of = self.keyspaces[given.text("of")].clone();
                self.wait(store.drop_snapshot(&of, given.text("name")))?;
            }
            "run" => return self.run(step, &store),
            other => panic!("a store does not {other}"),
        }
        Ok(Told::Nothing)
    }

    fn open(&self, step: &Value) -> Result<Store> {
        let mut options = Store::options();
        if let Some(create) = step.get("create") {
            options = options.create(match text(create) {
                "if-missing" => Create::IfMissing,
                "never" => Create::Never,
                "new" => Create::New,
                other => panic!("{other} is no way to create"),
            });
        }
        if let Some(deadline) = deadline(step, "deadline_ms") {
            options = options.deadline(deadline);
        }
        if let Some(timeout) = deadline(step, "connect_timeout_ms") {
            options = options.connect_timeout(timeout);
        }
        self.place().open(step.get("place").map(text), options)
    }

    /// Runs steps in a transaction until it commits.
    fn run(&mut self, step: &Value, store: &Store) -> Result<Told> {
        self.attempt = 0;
        let ran = block_on(store.run(async |theirs| {
            self.attempt += 1;
            self.transactions.insert("t".to_owned(), std::mem::replace(theirs, store.begin()));
            let steps = step["steps"].as_array().unwrap();
            let ended = steps.iter().try_for_each(|step| self.expect(step));
            *theirs = self.transactions.remove("t").unwrap();
            ended
        }));
        if let Some(tries) = step.get("tries") {
            assert_eq!(Some(self.attempt), tries.as_u64(), "{step}");
        }
        self.attempt = 0;
        ran.map(|committed| self.told_receipt(&committed.receipt))
    }

    fn keyspace(&mut self, step: &Value, method: &str) -> Result<Told> {
        let given = Arguments { step, worker: self.worker };
        let keyspace = self.keyspaces[name(step, "on", "files")].clone();
        match method {
            "settings" => return Ok(told_of(&keyspace.settings())),
            "within" => {
                let soon = keyspace.within(deadline(step, "deadline_ms").unwrap());
                self.keyspaces.insert(given.text("as").to_owned(), soon);
            }
            "create" => self.wait(keyspace.create(given.key()))?,
            "delete" => self.wait(keyspace.delete(given.key()))?,
            "read" => return self.wait(keyspace.read(given.key(), given.range())).map(Told::Bytes),
            "read_into" => {
                let mut buffer = buffer(&given);
                let read = self.wait(keyspace.read_into(given.key(), given.number("offset"), &mut buffer))?;
                return Ok(Told::Bytes(buffer[..read].to_vec()));
            }
            "write" => {
                self.wait(keyspace.write(given.key(), given.number("offset"), given.bytes("bytes")))?
            }
            "put" => self.wait(keyspace.put(given.key(), given.bytes("bytes")))?,
            "append" => {
                return self.wait(keyspace.append(given.key(), given.bytes("bytes"))).map(Told::Number);
            }
            "truncate" => self.wait(keyspace.truncate(given.key(), given.number("size")))?,
            "punch" => self.wait(keyspace.punch(given.key(), given.hole()))?,
            "seek_data" | "seek_hole" => {
                let what = if method == "seek_data" { Seek::Data } else { Seek::Hole };
                let found = self.wait(keyspace.seek(given.key(), what, given.number("from")))?;
                return Ok(found.map_or(Told::Nothing, Told::Number));
            }
            "stat" => return self.wait(keyspace.stat(given.key())).map(|stat| Told::stat(&stat)),
            "stats" => {
                let keys: Vec<_> = step["keys"].as_array().unwrap().iter().map(bytes).collect();
                let told = |stat: Option<Stat>| stat.map_or(Told::Nothing, |stat| Told::stat(&stat));
                let stats = self.wait(keyspace.stats(&keys))?;
                return Ok(Told::List(stats.into_iter().map(told).collect()));
            }
            "exists" => return self.wait(keyspace.exists(given.key())).map(Told::Flag),
            "attribute" => {
                return self.wait(keyspace.attribute(given.key(), given.text("name"))).map(Told::maybe);
            }
            "set_attribute" => {
                let value = given.value();
                self.wait(keyspace.set_attribute(given.key(), given.text("name"), value.as_deref()))?;
            }
            "transform" => {
                let transform = given.transform()?;
                let old = self.wait(keyspace.transform(given.key(), given.number("offset"), transform))?;
                return Ok(Told::Operand(old));
            }
            "get" => return self.wait(keyspace.get(given.key())).map(told_blob),
            "scan" => {
                let (prefix, after, limit) = given.listed();
                return self.wait(keyspace.scan(prefix, after.as_deref(), limit)).map(told_entries);
            }
            other => panic!("a keyspace does not {other}"),
        }
        Ok(Told::Nothing)
    }

    fn transaction(&mut self, step: &Value, method: &str) -> Result<Told> {
        let own = name(step, "on", "t");
        let mut transaction = self.transactions.remove(own).unwrap();
        match method {
            "commit" => return self.wait(transaction.commit()).map(|outcome| self.told_outcome(outcome)),
            "rollback" => transaction.rollback(),
            "pending" => {
                let pending = Arc::new(transaction.pending());
                self.pendings.insert(name(step, "as", "p").to_owned(), pending);
                self.transactions.insert(own.to_owned(), transaction);
            }
            _ => {
                let told = self.in_transaction(step, method, &mut transaction);
                self.transactions.insert(own.to_owned(), transaction);
                return told;
            }
        }
        Ok(Told::Nothing)
    }

    fn in_transaction(&mut self, step: &Value, method: &str, transaction: &mut Transaction) -> Result<Told> {
        let given = Arguments { step, worker: self.worker };
        let keyspace = &self.keyspaces[name(step, "in", "files")];
        let key = given.key();
        let slot = match method {
            "append" => Some(self.wait(transaction.append(keyspace, key.clone(), given.bytes("bytes")))?),
            "transform" => {
                let (offset, transform) = (given.number("offset"), given.transform()?);
                Some(self.wait(transaction.transform(keyspace, key.clone(), offset, transform))?)
            }
            _ => None,
        };
        if let Some(slot) = slot {
            if step.get("slot").is_some() {
                self.slots.insert(given.text("slot").to_owned(), slot);
            }
            return Ok(Told::Nothing);
        }
        match method {
            "check" => transaction.check(keyspace, key, self.check(&step["check"]))?,
            "create" => self.wait(transaction.create(keyspace, key))?,
            "delete" => self.wait(transaction.delete(keyspace, key))?,
            "read" => return self.wait(transaction.read(keyspace, key, given.range())).map(Told::Bytes),
            "read_into" => {
                let mut buffer = buffer(&given);
                let offset = given.number("offset");
                let read = self.wait(transaction.read_into(keyspace, key, offset, &mut buffer))?;
                return Ok(Told::Bytes(buffer[..read].to_vec()));
            }
            "write" => {
                let offset = given.number("offset");
                self.wait(transaction.write(keyspace, key, offset, given.bytes("bytes")))?;
            }
            "put" => self.wait(transaction.put(keyspace, key, given.bytes("bytes")))?,
            "truncate" => self.wait(transaction.truncate(keyspace, key, given.number("size")))?,
            "punch" => self.wait(transaction.punch(keyspace, key, given.hole()))?,
            "stat" => return self.wait(transaction.stat(keyspace, key)).map(|stat| Told::stat(&stat)),
            "exists" => return self.wait(transaction.exists(keyspace, key)).map(Told::Flag),
            "attribute" => {
                return self.wait(transaction.attribute(keyspace, key, given.text("name"))).map(Told::maybe);
            }
            "set_attribute" => {
                let value = given.value();
                let name = given.text("name");
                self.wait(transaction.set_attribute(keyspace, key, name, value.as_deref()))?;
            }
            other => panic!("a transaction does not {other}"),
        }
        Ok(Told::Nothing)
    }

    fn check(&self, check: &Value) -> Check {
        let number = |value: &Value| match value.get("kept") {
            Some(name) => match &self.kept[text(name)] {
                Told::Number(number) => *number,
                other => panic!("{other:?} is no version"),
            },
            None => value.as_u64().unwrap(),
        };
        let (field, value) = check.as_object().unwrap().iter().next().unwrap();
        match field.as_str() {
            "exists" if value == true => Check::Exists,
            "exists" => Check::Missing,
            "version" => Check::Version(Number::from_u64(number(value))),
            "size" => Check::Size(number(value)),
            "attribute" => {
                let name = text(value).to_owned();
                let value = (!check["value"].is_null()).then(|| bytes(&check["value"]));
                Check::Attribute { name, value }
            }
            _ => Check::Bytes { offset: number(&check["offset"]), bytes: bytes(&check["bytes"]) },
        }
    }

    fn snapshot(&mut self, step: &Value, method: &str) -> Result<Told> {
        let own = name(step, "on", "s");
        if method == "drop" {
            drop(self.snapshots.remove(own).unwrap());
            return Ok(Told::Nothing);
        }
        let snapshot: Arc<Snapshot> = self.snapshots[own].clone();
        let given = Arguments { step, worker: self.worker };
        let keyspace = &self.keyspaces[name(step, "in", "files")];
        if method == "scan" {
            let (prefix, after, limit) = given.listed();
            return self.wait(snapshot.scan(keyspace, prefix, after.as_deref(), limit)).map(told_entries);
        }
        let key = given.key();
        match method {
            "read" => self.wait(snapshot.read(keyspace, key, given.range())).map(Told::Bytes),
            "read_into" => {
                let mut buffer = buffer(&given);
                let read =
                    self.wait(snapshot.read_into(keyspace, key, given.number("offset"), &mut buffer))?;
                Ok(Told::Bytes(buffer[..read].to_vec()))
            }
            "stat" => self.wait(snapshot.stat(keyspace, key)).map(|stat| Told::stat(&stat)),
            "exists" => self.wait(snapshot.exists(keyspace, key)).map(Told::Flag),
            "attribute" => self.wait(snapshot.attribute(keyspace, key, given.text("name"))).map(Told::maybe),
            "get" => self.wait(snapshot.get(keyspace, key)).map(told_blob),
            other => panic!("a snapshot does not {other}"),
        }
    }

    fn told_outcome(&self, outcome: Outcome) -> Told {
        match outcome {
            Outcome::Committed(receipt) => self.told_receipt(&receipt),
            Outcome::Conflict(_) => Told::Text("conflict".to_owned()),
        }
    }

    fn told_receipt(&self, receipt: &Receipt) -> Told {
        let told = self.slots.iter().filter_map(|(name, slot)| {
            let told = match receipt.offset(*slot) {
                Some(offset) => Told::Number(offset),
                None => Told::Operand(receipt.old(*slot)?),
            };
            Some((name.clone(), told))
        });
        Told::Committed(told.collect())
    }
}

/// The handle that a step names, or that of whoever names none.
fn name<'a>(step: &'a Value, field: &str, default: &'a str) -> &'a str {
    step.get(field).map_or(default, text)
}

fn buffer(given: &Arguments<'_>) -> Vec<u8> {
    vec![0; usize::try_from(given.number("size")).unwrap()]
}

fn told_blob(blob: Blob) -> Told {
    let Told::Fields(mut fields) = Told::stat(&blob.stat) else { panic!("a stat has fields") };
    fields.insert("bytes", Told::Bytes(blob.bytes));
    Told::Fields(fields)
}

fn told_entries(entries: Vec<Entry>) -> Told {
    let told = |entry: Entry| {
        let key = Told::Bytes(entry.key.as_bytes().to_vec());
        Told::Fields(BTreeMap::from([("key", key), ("size", Told::Number(entry.size))]))
    };
    Told::List(entries.into_iter().map(told).collect())
}

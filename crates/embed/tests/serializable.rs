//! Concurrent transactions, checked by what must hold of every serializable history. Some invariants need no history: money is neither
//! made nor lost, appended lists agree on their order, and nothing is seen that was overwritten before the reader began.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use common::{Meeting, SetOnDrop, keyspaces, number, on_each_store};
use tyr_embed::blocking::{Keyspace, Store, Transaction};
use tyr_embed::{Operand, Outcome, Receipt, Result, Transform};

const THREADS: u64 = 4;

/// A small generator, so that a failure can be repeated as far as threads allow.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % limit
    }
}

/// Compacts and checks over and over until told to stop.
fn tidy(store: &Store, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        store.compact().unwrap();
    }
}

fn committed(outcome: Result<Outcome>) -> Option<Receipt> {
    match outcome.unwrap() {
        Outcome::Committed(receipt) => Some(receipt),
        Outcome::Conflict(_) => None,
    }
}

#[test]
fn transfers_neither_make_nor_lose_money_and_every_snapshot_agrees() {
    const ACCOUNTS: u64 = 8;
    on_each_store(|store| {
        let [durable, memory, _] = keyspaces(store);
        let home = |account: u64| if account.is_multiple_of(2) { &durable } else { &memory };
        for account in 0..ACCOUNTS {
            home(account).put(account.to_le_bytes(), 100u64.to_le_bytes()).unwrap();
        }
        let total = |read: &dyn Fn(&Keyspace, [u8; 8]) -> Vec<u8>| -> u64 {
            (0..ACCOUNTS).map(|account| number(&read(home(account), account.to_le_bytes()))).sum()
        };
        let transfer = |transaction: &mut Transaction, from: u64, to: u64, amount: u64| {
            let have = number(&transaction.read(home(from), from.to_le_bytes(), ..)?);
            let other = number(&transaction.read(home(to), to.to_le_bytes(), ..)?);
            let amount = amount.min(have);
            transaction.put(home(from), from.to_le_bytes(), (have - amount).to_le_bytes())?;
            transaction.put(home(to), to.to_le_bytes(), (other + amount).to_le_bytes())
        };
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let _ends = SetOnDrop(&stop);
            let movers: Vec<_> = (0..THREADS)
                .map(|seed| {
                    scope.spawn(move || {
                        let mut random = Random(seed);
                        for _ in 0..60 {
                            let from = random.below(ACCOUNTS);
                            let to = (from + 1 + random.below(ACCOUNTS - 1)) % ACCOUNTS;
                            let amount = random.below(50);
                            store.run(|transaction| transfer(transaction, from, to, amount)).unwrap();
                        }
                    })
                })
                .collect();
            scope.spawn(|| tidy(store, &stop));
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let snapshot = store.snapshot(&[&durable, &memory]).unwrap();
                    for _ in 0..3 {
                        let sum = total(&|keyspace, key| snapshot.read(keyspace, key, ..).unwrap());
                        assert_eq!(sum, 100 * ACCOUNTS);
                    }
                    // A transaction that read everything and was committed saw one state, too.
                    let mut reader = store.begin();
                    let sum = (0..ACCOUNTS)
                        .map(|account| {
                            number(&reader.read(home(account), account.to_le_bytes(), ..).unwrap())
                        })
                        .sum::<u64>();
                    if committed(reader.commit()).is_some() {
                        assert_eq!(sum, 100 * ACCOUNTS);
                    }
                }
            });
            movers.into_iter().for_each(|mover| mover.join().unwrap());
        });
        assert_eq!(total(&|keyspace, key| keyspace.read(key, ..).unwrap()), 100 * ACCOUNTS);
    });
}

#[test]
fn lists_have_every_element_once_and_in_one_order() {
    const EACH: u64 = 40;
    on_each_store(|store| {
        let [durable, memory, unversioned] = keyspaces(store);
        let lists = [&durable, &memory, &unversioned];
        thread::scope(|scope| {
            for thread in 0..THREADS {
                scope.spawn(move || {
                    for n in 0..EACH {
                        let element = (thread * EACH + n).to_le_bytes();
                        let reads = n % 2 == 0;
                        let appended = store.run(|transaction| {
                            let list = lists[(n % 3) as usize];
                            let seen = if reads && transaction.exists(list, "list")? {
                                Some(transaction.read(list, "list", ..)?.len() as u64)
                            } else {
                                None
                            };
                            let slots = [
                                transaction.append(lists[0], "list", element)?,
                                transaction.append(lists[1], "list", element)?,
                                transaction.append(lists[2], "list", element)?,
                            ];
                            Ok((slots, seen))
                        });
                        let appended = appended.unwrap();
                        let (slots, seen) = appended.value;
                        let offsets = slots.map(|slot| appended.receipt.offset(slot).unwrap());
                        // The same transactions wrote them, so they grow together.
                        assert!(offsets[0] == offsets[1] && offsets[1] == offsets[2]);
                        assert!(seen.is_none_or(|seen| seen == offsets[0]));
                        for list in lists {
                            assert_eq!(list.read("list", offsets[0]..offsets[0] + 8).unwrap(), element);
                        }
                    }
                });
            }
        });
        let [first, second, third] = lists.map(|list| list.read("list", ..).unwrap());
        assert!(first == second && second == third);
        let elements: BTreeSet<u64> = first.chunks(8).map(number).collect();
        assert_eq!(elements, (0..THREADS * EACH).collect());
        assert_eq!(first.len() as u64, THREADS * EACH * 8);
    });
}

#[test]
fn counters_count_whether_read_and_written_or_transformed() {
    const EACH: u64 = 50;
    on_each_store(|store| {
        let [durable, memory, unversioned] = keyspaces(store);
        for counters in [&durable, &memory, &unversioned] {
            let add = Transform::add(Operand::U64(1));
            let olds = thread::scope(|scope| {
                let threads: Vec<_> = (0..THREADS)
                    .map(|_| {
                        scope.spawn(move || {
                            let mut olds = Vec::new();
                            for _ in 0..EACH {
                                store
                                    .run(|transaction| {
                                        let count = match transaction.exists(counters, "read")? {
                                            true => number(&transaction.read(counters, "read", 0..8)?),
                                            false => 0,
                                        };
                                        transaction.write(counters, "read", 0, (count + 1).to_le_bytes())
                                    })
                                    .unwrap();
                                // Two counters in one blob, one across a leaf, alone and in a transaction.
                                olds.push(counters.transform("transformed", 65_533, add).unwrap());
                                let mut transaction = store.begin();
                                transaction.transform(counters, "transformed", 65_533, add).unwrap();
                                transaction.transform(counters, "transformed", 0, add).unwrap();
                                assert!(
                                    committed(transaction.commit()).is_some(),
                                    "transforms never conflict"
                                );
                            }
                            olds
                        })
                    })
                    .collect();
                threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
            });
            let all = THREADS * EACH;
            let read = |key, start: u64| number(&counters.read(key, start..start + 8).unwrap());
            assert_eq!(read("read", 0), all);
            assert_eq!((read("transformed", 0), read("transformed", 65_533)), (all, 2 * all));
            let distinct: BTreeSet<String> = olds.iter().map(|old| format!("{old:?}")).collect();
            assert_eq!(distinct.len() as u64, all);
        }
    });
}

#[test]
fn of_two_that_each_write_what_the_other_read_one_is_refused() {
    on_each_store(|store| {
        for keyspace in &keyspaces(store) {
            keyspace.put("x", [0]).unwrap();
            keyspace.put("y", [0]).unwrap();
            let mut one = store.begin();
            let mut two = store.begin();
            for transaction in [&mut one, &mut two] {
                assert_eq!(transaction.read(keyspace, "x", ..).unwrap(), [0]);
                assert_eq!(transaction.read(keyspace, "y", ..).unwrap(), [0]);
            }
            one.write(keyspace, "x", 0, [1]).unwrap();
            two.write(keyspace, "y", 0, [1]).unwrap();
            assert!(committed(one.commit()).is_some());
            let Outcome::Conflict(conflict) = two.commit().unwrap() else { panic!("write skew") };
            assert_eq!((conflict.keyspace.as_str(), conflict.key.as_bytes()), (keyspace.name(), &b"x"[..]));
            assert_eq!(keyspace.read("y", ..).unwrap(), [0]);
        }
    });
}

#[test]
fn write_skew_is_refused_also_when_both_commit_at_once() {
    on_each_store(|store| {
        let [_, memory, unversioned] = keyspaces(store);
        for keyspace in [&memory, &unversioned] {
            for round in 0..50u8 {
                keyspace.put([round, 0], [0]).unwrap();
                keyspace.put([round, 1], [0]).unwrap();
                let turn = |own: u8, start: Meeting| {
                    let mut transaction = store.begin();
                    let free = [0, 1]
                        .iter()
                        .all(|side| transaction.read(keyspace, [round, *side], ..).unwrap() == [0]);
                    start.wait();
                    if free {
                        transaction.write(keyspace, [round, own], 0, [1]).unwrap();
                    }
                    committed(transaction.commit()).is_some() && free
                };
                let both = thread::scope(|scope| {
                    let [one, two] = Meeting::of_two();
                    let other = scope.spawn(|| turn(1, two));
                    [turn(0, one), other.join().unwrap()]
                });
                let taken = [0, 1].map(|side| keyspace.read([round, side], ..).unwrap() == [1]);
                assert_eq!(taken, both);
                assert!(taken != [true, true], "write skew in round {round}");
            }
        }
    });
}

#[test]
fn what_was_acknowledged_is_seen_by_whoever_reads_later_and_never_taken_back() {
    on_each_store(|store| {
        for keyspace in &keyspaces(store) {
            keyspace.put("a", vec![0; 100_000]).unwrap();
            let (acknowledged, seen, stop) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
            thread::scope(|scope| {
                let _ends = SetOnDrop(&stop);
                for _ in 0..2 {
                    scope.spawn(|| {
                        while !stop.load(Ordering::Relaxed) {
                            let least = acknowledged.load(Ordering::SeqCst).max(seen.load(Ordering::SeqCst));
                            let blob = keyspace.get("a").unwrap();
                            let (first, last) = (number(&blob.bytes[..8]), number(&blob.bytes[99_992..]));
                            assert_eq!(first, last, "a torn read");
                            assert!(first >= least, "read {first} after {least}");
                            seen.fetch_max(first, Ordering::SeqCst);
                        }
                    });
                }
                for n in 1..=60u64 {
                    let mut transaction = store.begin();
                    transaction.write(keyspace, "a", 0, n.to_le_bytes()).unwrap();
                    transaction.write(keyspace, "a", 99_992, n.to_le_bytes()).unwrap();
                    assert!(committed(transaction.commit()).is_some(), "blind writes never conflict");
                    acknowledged.store(n, Ordering::SeqCst);
                }
            });
        }
    });
}

#[test]
fn a_snapshot_repeats_itself_while_everything_under_it_is_rewritten_and_collected() {
    const BLOBS: u8 = 6;
    on_each_store(|store| {
        let [durable, memory, _] = keyspaces(store);
        let fill = |value: u8| {
            for key in 0..BLOBS {
                let keyspace = if key % 2 == 0 { &durable } else { &memory };
                match (value + key) % 4 {
                    0 if keyspace.exists([key]).unwrap() => keyspace.delete([key]).unwrap(),
                    1 => keyspace.write([key], 60_000, vec![value; 90_000]).unwrap(),
                    2 if keyspace.exists([key]).unwrap() => keyspace.truncate([key], 70_000).unwrap(),
                    _ => keyspace.put([key], vec![value; 120_000 + key as usize]).unwrap(),
                }
            }
        };
        let look = |snapshot: &tyr_embed::blocking::Snapshot| {
            let content = |keyspace: &Keyspace| {
                let entries = snapshot.scan(keyspace, "", None, 100).unwrap();
                entries
                    .into_iter()
                    .map(|entry| {
                        let blob = snapshot.get(keyspace, entry.key.as_bytes()).unwrap();
                        assert_eq!((blob.stat.size, blob.stat.version), (entry.size, entry.version));
                        (entry.key, blob)
                    })
                    .collect::<Vec<_>>()
            };
            [content(&durable), content(&memory)]
        };
        fill(0);
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let _ends = SetOnDrop(&stop);
            scope.spawn(|| tidy(store, &stop));
            let mut kept = Vec::new();
            for value in 1..12 {
                let snapshot = store.snapshot(&[&durable, &memory]).unwrap();
                let content = look(&snapshot);
                kept.push((snapshot, content));
                fill(value);
                if value % 4 == 0 {
                    kept.swap_remove(0);
                }
                for (snapshot, content) in &kept {
                    assert!(look(snapshot) == *content, "a snapshot changed");
                }
            }
        });
    });
}

#[test]
fn a_long_transaction_gets_its_turn_among_writers_that_never_rest() {
    const BLOBS: u64 = 20;
    on_each_store(|store| {
        let [_, memory, _] = keyspaces(store);
        for n in 0..BLOBS {
            memory.put(n.to_le_bytes(), 0u64.to_le_bytes()).unwrap();
        }
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let ends = SetOnDrop(&stop);
            for seed in 0..2 {
                let (memory, stop) = (&memory, &stop);
                scope.spawn(move || {
                    let mut random = Random(seed);
                    while !stop.load(Ordering::Relaxed) {
                        let key = random.below(BLOBS).to_le_bytes();
                        memory.transform(key, 0, Transform::add(Operand::U64(1))).unwrap();
                    }
                });
            }
            let mut tries = 0;
            let sum = store
                .run(|transaction| {
                    tries += 1;
                    let mut sum = 0;
                    for n in 0..BLOBS {
                        sum += number(&transaction.read(&memory, n.to_le_bytes(), ..)?);
                        // Others get on meanwhile.
                        thread::yield_now();
                    }
                    transaction.put(&memory, "sum", sum.to_le_bytes())?;
                    Ok(sum)
                })
                .unwrap();
            drop(ends);
            assert_eq!(number(&memory.read("sum", ..).unwrap()), sum.value);
            // Without its turn it takes hundreds.
            assert!(tries < 100, "{tries} tries");
        });
    });
}

#[test]
fn an_error_from_states_that_do_not_fit_together_is_not_reported() {
    on_each_store(|store| {
        let [_, memory, _] = keyspaces(store);
        let move_to = |half: u8| {
            store.run(|transaction| {
                transaction.put(&memory, "a", [half])?;
                transaction.put(&memory, "b", [100 - half])
            })
        };
        move_to(0).unwrap();
        let mut tries = 0;
        let result = store.run(|transaction| {
            let a = transaction.read(&memory, "a", ..)?[0];
            if tries == 0 {
                move_to(60)?;
            }
            tries += 1;
            let b = transaction.read(&memory, "b", ..)?[0];
            match a + b {
                100 => Ok(()),
                sum => Err(tyr_embed::Error::corrupt(format!("{sum} is not 100"))),
            }
        });
        assert!(result.is_ok() && tries == 2, "{result:?} after {tries} tries");
        // An error that has nothing to do with others is.
        let result = store.run(|transaction| {
            transaction.read(&memory, "a", ..)?;
            transaction.read(&memory, "b", ..)?;
            Err::<(), _>(tyr_embed::Error::denied("no"))
        });
        assert_eq!(common::kind(result), tyr_embed::ErrorKind::Denied);
    });
}

#[test]
fn a_test_that_fails_ends_the_loops_that_it_began() {
    let stop = AtomicBool::new(false);
    let failed = std::panic::catch_unwind(|| {
        thread::scope(|scope| {
            let _ends = SetOnDrop(&stop);
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    thread::yield_now();
                }
            });
            std::panic::resume_unwind(Box::new("planned"));
        });
    });
    assert!(failed.is_err());
    let waited = std::panic::catch_unwind(|| {
        thread::scope(|scope| {
            let [one, two] = Meeting::of_two();
            scope.spawn(move || drop(two));
            one.wait();
        });
    });
    assert!(waited.is_err());
}

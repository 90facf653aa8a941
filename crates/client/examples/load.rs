//! Keeps a cluster busy, to have something to see: appends, counters, reads, transactions that conflict, and a snapshot that is held.
//!
//! `load tyr://host:port` prints a line when it has begun, and ends when its standard input does.

#![allow(clippy::print_stdout, reason = "it tells who runs it that it has begun")]

use std::{
    io::{Read, Write},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use tyr_client::{
    ErrorKind, KeyspaceSettings, Operand, Result, Transform,
    blocking::{Keyspace, Store},
};

fn main() -> Result<()> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "tyr://127.0.0.1:7700".to_owned());
    let store = Store::options().deadline(Duration::from_secs(10)).open(url)?;
    let open = |name: &str| match store.create_keyspace(name, KeyspaceSettings::default()) {
        Err(error) if error.kind() == ErrorKind::Exists => store.keyspace(name),
        made => made,
    };
    let (events, grid) = (open("events")?, open("grid")?);
    for place in 0..BLOBS {
        grid.put(tile(place), vec![7; 64 << 10])?;
    }
    let over = AtomicBool::new(false);
    let go = |work: &dyn Fn(u64) -> Result<()>| {
        for turn in 0.. {
            if over.load(Ordering::Relaxed) {
                return;
            }
            // Conflicts, and nodes that are away for a moment, are what there is to see.
            let _refused = work(turn);
        }
    };
    thread::scope(|scope| {
        for writer in 0..2 {
            let (store, events, grid) = (&store, &events, &grid);
            scope.spawn(move || go(&|_| events.append(format!("log/{writer}"), [9; 2048]).map(drop)));
            scope.spawn(move || go(&|turn| begin_again(store, grid, turn)));
            scope.spawn(move || go(&|turn| grid.read(tile(skewed(turn)), 0..16 << 10).map(drop)));
        }
        scope.spawn(|| {
            go(&|turn| {
                events
                    .transform(format!("visits/{}", skewed(turn)), 0, Transform::add(Operand::U64(1)))
                    .map(drop)
            })
        });
        scope.spawn(|| {
            let Ok(_held) = store.snapshot(&[&grid]) else { return };
            go(&|turn| grid.write(tile(turn % BLOBS), turn % 1024, [1; 4096]));
        });
        println!("begun");
        let _unread = std::io::stdout().flush();
        let _ended = std::io::stdin().read(&mut [0]);
        over.store(true, Ordering::Relaxed);
    });
    store.close()
}

/// Reads a counter and writes it, together with another blob: others do the same.
fn begin_again(store: &Store, grid: &Keyspace, turn: u64) -> Result<()> {
    let other = tile(turn % BLOBS);
    let done = store.run(|transaction| {
        let sum = transaction.read(grid, "sum", ..).unwrap_or_default();
        let sum = sum.first().copied().unwrap_or(0).wrapping_add(1);
        transaction.put(grid, "sum", [sum])?;
        transaction.write(grid, &other, 0, [sum; 16])
    });
    done.map(drop)
}

fn tile(place: u64) -> String {
    format!("tiles/{place:02}")
}

/// Half of the time the first, a quarter of the time the second, and so on.
fn skewed(turn: u64) -> u64 {
    u64::from(turn.wrapping_mul(0x9e37_79b9_7f4a_7c15).leading_zeros()) % BLOBS
}

const BLOBS: u64 = 16;

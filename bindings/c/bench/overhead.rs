//! The Rust half of the comparison of libtyr with the Rust client: does what it is told on standard input, and tells how long it took.
//!
//! A line is `WORKLOAD COUNT SIZE DEPTH`; the answer is the nanoseconds that took. `overhead.c` is the other half.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a program for measuring")]

use std::{io::BufRead, time::Instant};

use futures::stream::{FuturesUnordered, StreamExt};
use tyr_client::{Durability, Keyspace, KeyspaceSettings, Operand, Store, Transform, blocking};

fn main() {
    // `cargo bench` appends a word of its own.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let [place] = &words[..] else { panic!("usage: overhead STORE") };
    let store = blocking::Store::options().segment_size(8 << 20).open(place).unwrap();
    let durability = if store.is_cluster() { Durability::Disk } else { Durability::Memory };
    let settings = KeyspaceSettings { durability, ..KeyspaceSettings::default() };
    // Both halves use the same one, so that what they use lies at the same places.
    let files = match store.keyspace("bench") {
        Ok(files) => files,
        Err(_) => store.create_keyspace("bench", settings).unwrap(),
    };
    let later: Store = store.clone().into();
    let files_later = later.keyspace("bench").unwrap();
    println!("ready");
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        let [workload, numbers @ ..] = &words[..] else { panic!("a line without a word") };
        let numbers: Vec<usize> = numbers.iter().map(|number| number.parse().unwrap()).collect();
        let [count, size, depth] = numbers[..] else { panic!("{line}: not three numbers") };
        prepare(&files, workload, size);
        let started = Instant::now();
        match depth {
            0 => waiting(&files, workload, count, size),
            _ => pollster::block_on(at_once(&files_later, workload, count, size, depth)),
        }
        println!("{}", started.elapsed().as_nanos());
    }
    store.close().unwrap();
}

fn prepare(files: &blocking::Keyspace, workload: &str, size: usize) {
    match workload {
        "append" => files.put("log", b"").unwrap(),
        _ => files.put("blob", vec![7; size]).unwrap(),
    }
}

fn waiting(files: &blocking::Keyspace, workload: &str, count: usize, size: usize) {
    let mut buffer = vec![7; size];
    for _ in 0..count {
        match workload {
            "read" => drop(files.read_into("blob", 0, &mut buffer).unwrap()),
            "write" => files.write("blob", 0, &buffer).unwrap(),
            "append" => drop(files.append("log", &buffer).unwrap()),
            "add" => drop(files.transform("blob", 0, Transform::add(Operand::U64(1))).unwrap()),
            other => panic!("{other} is no workload"),
        }
    }
}

async fn at_once(files: &Keyspace, workload: &str, count: usize, size: usize, depth: usize) {
    let one = async |mut buffer: Vec<u8>| {
        match workload {
            "read" => drop(files.read_into("blob", 0, &mut buffer).await.unwrap()),
            "write" => files.write("blob", 0, &buffer).await.unwrap(),
            "append" => drop(files.append("log", &buffer).await.unwrap()),
            "add" => drop(files.transform("blob", 0, Transform::add(Operand::U64(1))).await.unwrap()),
            other => panic!("{other} is no workload"),
        }
        buffer
    };
    let mut under_way: FuturesUnordered<_> = (0..depth.min(count)).map(|_| one(vec![7; size])).collect();
    let mut begun = under_way.len();
    while let Some(buffer) = under_way.next().await {
        if begun < count {
            begun += 1;
            under_way.push(one(buffer));
        }
    }
}

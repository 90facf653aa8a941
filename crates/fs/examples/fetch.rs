//! Fetches all files of a directory by their paths, several at a time, and says how long that took, as JSON. `scripts/fs-bench` measures
//! with it what the native API does: `fetch STORE KEYSPACE DIRECTORY AT_ONCE TIMES`.

#![allow(clippy::print_stdout, reason = "it tells who runs it what it has measured")]

use std::{
    env,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Instant,
};

use tyr_client::Store;
use tyr_fs::{Caller, Filesystem, View, block_on};

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [store, keyspace, directory, at_once, times] = arguments.as_slice() else {
        return Err("usage: fetch STORE KEYSPACE DIRECTORY AT_ONCE TIMES".into());
    };
    let (at_once, times): (usize, usize) = (at_once.parse()?, times.parse()?);
    let store = block_on(Store::open(store))?;
    let filesystem = block_on(Filesystem::open(&store, &store.keyspace(keyspace)?))?;
    let view = View::new(filesystem, Caller::superuser());
    let entries = block_on(view.read_directory(directory))?;
    let path = |name: &[u8]| format!("{directory}/{}", String::from_utf8_lossy(name));
    let paths: Vec<String> = entries.iter().map(|entry| path(&entry.name)).collect();
    let (mut seconds, mut bytes) = (Vec::new(), 0);
    for _ in 0..times {
        let began = Instant::now();
        bytes = fetch_all(&view, &paths, at_once)?;
        seconds.push(began.elapsed().as_secs_f64().to_string());
    }
    println!("{{\"files\": {}, \"bytes\": {bytes}, \"seconds\": [{}]}}", paths.len(), seconds.join(", "));
    Ok(())
}

/// Fetches each of these files once, so many at a time, and returns how many bytes they have.
fn fetch_all(view: &View, paths: &[String], at_once: usize) -> Result<usize, Failure> {
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        let fetch = || {
            let mut bytes = 0;
            while let Some(path) = paths.get(next.fetch_add(1, Ordering::Relaxed)) {
                bytes += block_on(view.fetch(path))?.1.len();
            }
            Ok::<usize, tyr_fs::Error>(bytes)
        };
        let workers: Vec<_> = (0..at_once).map(|_| scope.spawn(fetch)).collect();
        let mut bytes = 0;
        for worker in workers {
            bytes += worker.join().map_err(|_| "a thread panicked")??;
        }
        Ok(bytes)
    })
}

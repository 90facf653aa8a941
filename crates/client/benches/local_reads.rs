//! Random reads of a client on the host of a replica: from its files, and as the replica sends them over loop-back TCP.
//!
//! Both clients are of this process, take turns in one run, and read the same. `cargo bench -p tyr-client --bench local_reads`; sizes by
//! `--read-size`, `--data`, `--depth`, `--reads`, `--rounds`.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]
#![allow(clippy::print_stdout, reason = "a benchmark says what it has measured")]

use std::time::{Duration, Instant};

use tokio::{
    runtime,
    task::{JoinSet, LocalSet},
};
use tyr_client::{Keyspace, KeyspaceSettings, Store};
use tyr_proto::cluster::ClassSettings;
use tyr_server::{Server, Settings};

/// What is measured.
#[derive(Clone, Copy)]
struct Parameters {
    read_size: u64,
    blobs: u64,
    reads: u64,
    rounds: usize,
}

const BLOB_SIZE: u64 = 4 << 20;

fn main() {
    let parameters = Parameters {
        read_size: argument("--read-size", 100 << 10),
        blobs: argument("--data", 256 << 20) / BLOB_SIZE,
        reads: argument("--reads", 2000),
        rounds: usize::try_from(argument("--rounds", 7)).unwrap(),
    };
    let depths = match argument("--depth", 0) {
        0 => vec![1, 16],
        depth => vec![depth],
    };
    let directory = tempfile::tempdir().unwrap();
    let server = serve(directory.path());
    let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(LocalSet::new().run_until(async {
        let url = format!("tyr://{}", server.address());
        let from_files = Store::open(&url).await.unwrap();
        let from_network = Store::options().without_files().open(&url).await.unwrap();
        let clients = [fill(&from_files, parameters).await, from_network.keyspace("bench").unwrap()];
        println!(
            "one server with one replica and 2 shards, in this process; {} random reads of {} bytes from {} MiB, {} rounds",
            parameters.reads,
            parameters.read_size,
            (parameters.blobs * BLOB_SIZE) >> 20,
            parameters.rounds
        );
        for depth in depths {
            compare(&clients, parameters, depth).await;
        }
        println!("files {:?}\nnetwork {:?}", from_files.reads(), from_network.reads());
    }));
    server.stop().unwrap();
}

fn argument(name: &str, usual: u64) -> u64 {
    let mut arguments = std::env::args().skip_while(|argument| argument != name).skip(1);
    arguments.next().map_or(usual, |value| value.parse().unwrap())
}

fn serve(directory: &std::path::Path) -> Server {
    let class = ClassSettings { partitions: 16, min_replicas: 1, ..ClassSettings::new(1) };
    let server = Server::start(Settings { class, ..Settings::new(directory) }).unwrap();
    assert!(server.wait(Duration::from_secs(60), |status| status.is_ready));
    server
}

/// Writes the blobs, and reads everything once from files, so that both clients find it in the same state.
async fn fill(store: &Store, parameters: Parameters) -> Keyspace {
    let keyspace = store.create_keyspace("bench", KeyspaceSettings::default()).await.unwrap();
    for blob in 0..parameters.blobs {
        let bytes: Vec<u8> = (0..BLOB_SIZE).map(|place| byte(blob, place)).collect();
        keyspace.put(blob.to_be_bytes(), bytes).await.unwrap();
    }
    for _ in 0..2 {
        for blob in 0..parameters.blobs {
            keyspace.read(blob.to_be_bytes(), ..).await.unwrap();
        }
    }
    keyspace
}

fn byte(blob: u64, place: u64) -> u8 {
    u8::try_from((blob * 31 + place * 7) % 251).unwrap()
}

async fn compare(clients: &[Keyspace; 2], parameters: Parameters, depth: u64) {
    let (mut ratios, mut rates) = (Vec::new(), [Vec::new(), Vec::new()]);
    for round in 0..parameters.rounds {
        // Who begins changes, as does what is read; both read the same.
        let mut took = [0.0; 2];
        for turn in 0..2 {
            let which = (round + turn) % 2;
            took[which] = measure(&clients[which], parameters, depth, round as u64).await.as_secs_f64();
        }
        ratios.push(took[1] / took[0]);
        for (rates, took) in rates.iter_mut().zip(took) {
            rates.push(parameters.reads as f64 / took);
        }
    }
    let [files, network] = rates.map(median);
    let gigabytes = |rate: f64| rate * parameters.read_size as f64 / 1e9;
    println!(
        "{depth:3} in flight: files {files:8.0}/s ({:.2} GB/s), TCP {network:8.0}/s ({:.2} GB/s), ratio {:.2} (medians)",
        gigabytes(files),
        gigabytes(network),
        median(ratios)
    );
}

async fn measure(keyspace: &Keyspace, parameters: Parameters, depth: u64, round: u64) -> Duration {
    let mut tasks = JoinSet::new();
    let began = Instant::now();
    for task in 0..depth {
        let keyspace = keyspace.clone();
        tasks.spawn_local(async move {
            // xorshift64 (G. Marsaglia, "Xorshift RNGs", 2003).
            let mut random = 0x9e37_79b9_7f4a_7c15 ^ ((round << 32) | (task + 1));
            let mut draw = |below: u64| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                random % below
            };
            for _ in 0..parameters.reads / depth {
                let (blob, start) = (draw(parameters.blobs), draw(BLOB_SIZE - parameters.read_size));
                let bytes =
                    keyspace.read(blob.to_be_bytes(), start..start + parameters.read_size).await.unwrap();
                assert_eq!(bytes.len() as u64, parameters.read_size);
                let last = parameters.read_size - 1;
                assert_eq!(
                    (bytes.first(), bytes.last()),
                    (Some(&byte(blob, start)), Some(&byte(blob, start + last)))
                );
            }
        });
    }
    tasks.join_all().await;
    began.elapsed()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

//! Týr: three `tyr server` processes with their defaults, and clients of the crate `tyr-client`.
//!
//! Nodes are on the clients' host, so large payload is read from their files, unless [`Manner::OverNetwork`] forbids it.

use std::{
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::Duration,
};

use futures_util::future::try_join_all;
use serde::Deserialize;
use tyr_client::{ErrorKind, Keyspace, KeyspaceSettings, Operand, Store, Transaction, Transform};

use super::Setting;
use crate::{
    case::{Case, Durability},
    process::{self, Program},
    scratch::Scratch,
    system::{Doing, Lane, Manner, Outcome, System},
    work::Work,
};

/// The servers' processes.
pub struct Tyr {
    nodes: Vec<Node>,
    durability: Durability,
}

struct Node {
    program: Program,
    directory: PathBuf,
    address: String,
    events: Receiver<Event>,
}

/// A line that a server says.
#[derive(Deserialize)]
struct Event {
    event: String,
    address: Option<String>,
}

impl Tyr {
    /// Starts a cluster with new directories.
    pub async fn start(setting: &Setting, scratch: &Scratch) -> Outcome<Self> {
        let mut nodes: Vec<Node> = Vec::new();
        for number in 1..=NODES {
            let directory = scratch.directory(&format!("tyr-{number}"))?;
            let mut command = Command::new(&setting.tyr);
            command.args(["server", "--json", "--listen", "127.0.0.1:0", "--log", "warn"]);
            command.args(["--shards", &setting.shards.to_string()]);
            match nodes.first() {
                Some(first) => command.args(["--join", &first.address]),
                None => command
                    .args(["--replicas", &setting.replicas.to_string()])
                    .args(["--partitions", &setting.partitions.to_string()])
                    .args(durability_flags(setting.durability)),
            };
            command.arg("--directory").arg(directory.join("data"));
            nodes.push(Node::start(command, directory)?);
        }
        for node in &mut nodes {
            node.expect("ready")?;
        }
        let cluster = Tyr { nodes, durability: setting.durability };
        cluster.wait_until_complete(&setting.tyr).await?;
        let store = cluster.open(Manner::Usual).await?;
        let durability = match setting.durability {
            Durability::Disk => tyr_client::Durability::Disk,
            Durability::Memory => tyr_client::Durability::Memory,
        };
        let settings = KeyspaceSettings { durability, ..KeyspaceSettings::default() };
        store.create_keyspace(KEYSPACE, settings).await?;
        store.close().await?;
        Ok(cluster)
    }

    fn url(&self) -> String {
        let addresses: Vec<&str> = self.nodes.iter().map(|node| node.address.as_str()).collect();
        format!("tyr://{}", addresses.join(","))
    }

    /// A cluster that has just been joined still copies its partitions.
    async fn wait_until_complete(&self, tyr: &PathBuf) -> Outcome<()> {
        for _ in 0..COMPLETE_GLANCES_MAX {
            let mut command = Command::new(tyr);
            command.args(["--json", "--store", &self.url(), "cluster", "status"]);
            let output = command.stdin(Stdio::null()).output()?;
            if output.status.success() && is_complete(&output.stdout) {
                return Ok(());
            }
            tokio::time::sleep(COMPLETE_GLANCE).await;
        }
        Err("the cluster does not get all its replicas".into())
    }

    async fn open(&self, manner: Manner) -> Outcome<Store> {
        let options = match manner {
            Manner::OverNetwork => Store::options().without_files(),
            _ => Store::options(),
        };
        Ok(options.open(self.url()).await?)
    }
}

impl Node {
    fn start(mut command: Command, directory: PathBuf) -> Outcome<Self> {
        let log = process::log_file(&directory);
        let mut program = Program::start("tyr server", command.stdout(Stdio::piped()), log)?;
        let output = program.child().stdout.take().ok_or("a pipe was asked for")?;
        let (told, events) = channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let Ok(event) = serde_json::from_str(&line) else { continue };
                if told.send(event).is_err() {
                    return;
                }
            }
        });
        let mut node = Node { program, directory, address: String::new(), events };
        node.address = node.expect("listening")?.address.ok_or("a server that listens says where")?;
        Ok(node)
    }

    fn expect(&mut self, event: &str) -> Outcome<Event> {
        loop {
            match self.events.recv_timeout(EVENT_TIME_MAX) {
                Ok(heard) if heard.event == event => return Ok(heard),
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => {
                    return Err(format!("a server is not {event}{}", self.program.last_words()).into());
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(format!("a server has ended{}", self.program.last_words()).into());
                }
            }
        }
    }
}

impl System for Tyr {
    fn name(&self) -> &'static str {
        "Týr"
    }

    fn processes(&self) -> Vec<u32> {
        self.nodes.iter().map(|node| node.program.id()).collect()
    }

    fn places(&self) -> Vec<PathBuf> {
        self.nodes.iter().map(|node| node.directory.clone()).collect()
    }

    fn manners(&self, case: &Case) -> Vec<Manner> {
        let reads_files = self.durability == Durability::Disk && case.bytes() > SENT_SIZE_MAX;
        match case.work {
            Work::Get | Work::Read if reads_files => vec![Manner::Usual, Manner::OverNetwork],
            Work::Batch => vec![Manner::Separately, Manner::Transaction],
            _ => vec![Manner::Usual],
        }
    }

    fn connect(&self, manner: Manner, clients: usize, lanes: usize) -> Doing<'_, Vec<Box<dyn Lane>>> {
        Box::pin(async move {
            let mut all: Vec<Box<dyn Lane>> = Vec::new();
            for _ in 0..clients {
                let store = self.open(manner).await?;
                let blobs = store.keyspace(KEYSPACE)?;
                let handles = || Handles { store: store.clone(), blobs: blobs.clone(), manner };
                let lane = || Box::new(handles()) as Box<dyn Lane>;
                all.extend((0..lanes).map(|_| lane()));
            }
            Ok(all)
        })
    }
}

/// Handles of a client, which its lanes share.
struct Handles {
    store: Store,
    blobs: Keyspace,
    manner: Manner,
}

impl Lane for Handles {
    fn put(&mut self, blob: u64, payload: &'static [u8]) -> Doing<'_, ()> {
        Box::pin(async move { Ok(self.blobs.put(key(blob), payload).await?) })
    }

    fn get(&mut self, blob: u64, size: usize) -> Doing<'_, usize> {
        self.read(blob, 0, size)
    }

    fn write(&mut self, blob: u64, offset: u64, payload: &'static [u8]) -> Doing<'_, ()> {
        Box::pin(async move { Ok(self.blobs.write(key(blob), offset, payload).await?) })
    }

    fn read(&mut self, blob: u64, offset: u64, size: usize) -> Doing<'_, usize> {
        Box::pin(async move {
            let bytes = self.blobs.read(key(blob), offset..offset + size as u64).await?;
            Ok(bytes.len())
        })
    }

    fn append(&mut self, blob: u64, payload: &'static [u8]) -> Doing<'_, ()> {
        Box::pin(async move {
            let _offset = self.blobs.append(key(blob), payload).await?;
            Ok(())
        })
    }

    fn open(&mut self, blob: u64) -> Doing<'_, ()> {
        Box::pin(async move { Ok(self.blobs.put(key(blob), [0; 8]).await?) })
    }

    fn add(&mut self, blob: u64) -> Doing<'_, ()> {
        Box::pin(async move {
            self.blobs.transform(key(blob), 0, Transform::add(Operand::I64(1))).await?;
            Ok(())
        })
    }

    fn transfer(&mut self, changes: Vec<(u64, i64)>) -> Doing<'_, ()> {
        Box::pin(async move {
            let all = async |transaction: &mut Transaction| {
                for &(blob, added) in &changes {
                    let add = Transform::add(Operand::I64(added));
                    transaction.transform(&self.blobs, key(blob), 0, add).await?;
                }
                Ok(())
            };
            self.store.run(all).await?;
            Ok(())
        })
    }

    fn put_all(&mut self, puts: Vec<(u64, &'static [u8])>) -> Doing<'_, ()> {
        Box::pin(async move {
            if self.manner == Manner::Separately {
                let put = async |(blob, payload)| self.blobs.put(key(blob), payload).await;
                try_join_all(puts.into_iter().map(put)).await?;
                return Ok(());
            }
            let all = async |transaction: &mut Transaction| {
                for &(blob, payload) in &puts {
                    transaction.put(&self.blobs, key(blob), payload).await?;
                }
                Ok(())
            };
            self.store.run(all).await?;
            Ok(())
        })
    }

    fn counter(&mut self, blob: u64) -> Doing<'_, Option<i64>> {
        Box::pin(async move {
            match self.blobs.read(key(blob), 0..8).await {
                Ok(bytes) => Ok(Some(i64::from_le_bytes(bytes.as_slice().try_into()?))),
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(Some(0)),
                Err(error) => Err(error.into()),
            }
        })
    }
}

fn durability_flags(durability: Durability) -> &'static [&'static str] {
    match durability {
        Durability::Disk => &[],
        Durability::Memory => &["--durability", "memory"],
    }
}

fn key(blob: u64) -> [u8; 8] {
    blob.to_be_bytes()
}

const KEYSPACE: &str = "bench";
const NODES: u32 = 3;
/// Payload up to this size is always sent.
const SENT_SIZE_MAX: usize = 64 << 10;
const EVENT_TIME_MAX: Duration = Duration::from_secs(60);
const COMPLETE_GLANCE: Duration = Duration::from_millis(200);
const COMPLETE_GLANCES_MAX: u32 = 600;

/// What `tyr cluster status` says.
#[derive(Deserialize)]
struct Status {
    nodes: Vec<Holder>,
    partitions: Partitions,
}

#[derive(Deserialize)]
struct Holder {
    holds: u32,
}

#[derive(Deserialize)]
struct Partitions {
    total: u32,
    complete: u32,
    moving: u32,
    unserved: u32,
}

/// Whether all nodes are there and hold about the same, every partition has its replicas, and none moves.
fn is_complete(status: &[u8]) -> bool {
    let Ok(Status { nodes, partitions }) = serde_json::from_slice(status) else { return false };
    let Partitions { total, complete, moving, unserved } = partitions;
    let holds = || nodes.iter().map(|node| node.holds);
    let is_even = holds().min().unwrap_or(0) * 2 >= holds().max().unwrap_or(0);
    is_even && nodes.len() == NODES as usize && total > 0 && complete == total && moving == 0 && unserved == 0
}

//! What is shown of the console's JSON. Fields that are missing are as good as empty, and others are not looked at.

use serde::Deserialize;

#[derive(Default, Deserialize)]
#[serde(default)]
pub struct View {
    pub version: u32,
    pub cluster: String,
    pub seen_by: u32,
    pub ring_version: u64,
    pub health: String,
    pub troubles: Vec<String>,
    pub partitions: Partitions,
    pub nodes: Vec<Node>,
    pub keyspaces: Vec<Keyspace>,
    pub hot: Vec<Heat>,
    pub contended: Vec<Heat>,
    pub oldest_pin: Option<Pin>,
    pub pins: u64,
    pub collection_backlog: u64,
    pub slow: Vec<Slow>,
    pub samples: Vec<Rates>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Partitions {
    pub total: u64,
    pub complete: u64,
    pub moving: u64,
    pub unserved: u64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Node {
    pub node: u32,
    pub address: String,
    pub state: String,
    pub presence: String,
    pub answers: bool,
    pub ready: bool,
    pub leads_manager: bool,
    pub leads: u64,
    pub holds: u64,
    pub clients: u64,
    pub rates: Rates,
    pub shards: Vec<Shard>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Shard {
    pub failed: bool,
    pub full: bool,
    pub space_bytes: u64,
    pub free_bytes: u64,
    pub queue: u64,
    pub lag_entries: u64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Rates {
    pub transactions: f64,
    pub conflicts: f64,
    pub written_bytes: f64,
    pub reads: f64,
    pub read_bytes: f64,
    pub transaction_p50: Option<f64>,
    pub transaction_p99: Option<f64>,
    pub read_p99: Option<f64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Keyspace {
    pub name: String,
    pub recent: Rates,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Heat {
    pub keyspace_name: String,
    pub blob: String,
    pub per_second: f64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Pin {
    pub node: u32,
    pub seconds: f64,
    pub session: String,
    pub client: String,
    pub keyspace_name: String,
    pub blob: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Slow {
    pub node: u32,
    pub request: String,
    pub kind: String,
    pub outcome: String,
    pub seconds: f64,
    pub keyspace_name: String,
    pub blob: String,
    pub hops: Vec<Hop>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Hop {
    pub after_seconds: f64,
    pub step: String,
    pub partition: String,
    pub to: Option<u32>,
}

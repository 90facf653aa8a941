//! What there is to see of a node and of a cluster, as the console's JSON has it. `docs/observability.md` describes the fields.
//!
//! Times are in seconds unless their names say otherwise, moments in milliseconds since 1970, sizes in bytes. Fields are added without
//! a new [`VERSION`]; whoever reads has to stand those that it does not know.

use serde::{Deserialize, Serialize};

/// The version of both views. It is raised when a field goes or means something else.
pub(crate) const VERSION: u32 = 1;

/// What there is to see of a node, as it tells itself.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct NodeView {
    pub version: u32,
    pub node: u32,
    pub at_ms: u64,
    pub program: String,
    pub uptime_seconds: f64,
    pub ready: bool,
    pub lease: bool,
    pub leads_manager: bool,
    pub voters: usize,
    pub ring_version: u64,
    pub clients: u64,
    pub peers: u64,
    pub shards: Vec<ShardView>,
    /// What was done in the last seconds.
    pub window_seconds: f64,
    pub keyspaces: Vec<KeyspaceWorkView>,
    /// What lies in keyspaces with quotas, of which this node leads the heads.
    pub held: Vec<HeldBytesView>,
    pub hot: Vec<HeatView>,
    pub contended: Vec<HeatView>,
    pub oldest_pin: Option<PinView>,
    pub slow: Vec<SlowView>,
    pub samples: Vec<Sample>,
}

/// A shard with its store.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ShardView {
    pub shard: usize,
    pub directory: String,
    pub failed: bool,
    pub full: bool,
    pub space_bytes: u64,
    pub free_bytes: u64,
    pub used_bytes: u64,
    pub live_bytes: u64,
    pub queue: u64,
    pub leads: usize,
    pub follows: usize,
    pub lag_entries: u64,
    pub copying: u64,
    pub waiting: u64,
    pub held: u64,
    pub driven: u64,
    pub readers: u64,
    pub pins: u64,
    pub collection_backlog: u64,
}

/// What was done in a keyspace in the last seconds, and since the start.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct KeyspaceWorkView {
    pub keyspace: u32,
    pub recent: Work,
    pub total: Work,
}

/// What lies in a keyspace.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct HeldBytesView {
    pub keyspace: u32,
    pub blobs: u64,
    pub bytes: u64,
}

/// Operations, bytes, and how long they took: counts between the bounds of the metrics' histograms.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Work {
    pub committed: u64,
    pub conflicts: u64,
    pub refused: u64,
    pub written_bytes: u64,
    pub reads: u64,
    pub read_bytes: u64,
    pub transaction_times: Vec<u64>,
    pub read_times: Vec<u64>,
}

/// What was done between two moments.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Sample {
    /// The end of it, a multiple of the time between samples.
    pub at_ms: u64,
    /// How long it was.
    pub seconds: f64,
    #[serde(flatten)]
    pub work: Work,
}

/// A blob, and how often it is touched in a second.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct HeatView {
    pub keyspace: u32,
    /// Its name; empty for one that was dropped.
    pub keyspace_name: String,
    pub blob: String,
    pub per_second: f64,
}

/// The number that a reader has held for longest.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct PinView {
    pub node: u32,
    pub seconds: f64,
    /// The client's session, as it is in logs,
    pub session: String,
    /// and from where it has dialed the node; empty if that is not known any more.
    pub client: String,
    pub request: String,
    pub partition: String,
    pub keyspace: Option<u32>,
    pub keyspace_name: String,
    pub blob: String,
}

/// An operation that took long.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct SlowView {
    pub at_ms: u64,
    pub node: u32,
    pub shard: usize,
    pub request: String,
    pub kind: String,
    pub outcome: String,
    pub seconds: f64,
    pub keyspace: Option<u32>,
    pub keyspace_name: String,
    pub blob: String,
    pub blobs: usize,
    pub hops: Vec<HopView>,
}

/// A hop of it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct HopView {
    /// Since the operation came to the shard that tells of it.
    pub after_seconds: f64,
    pub step: String,
    pub partition: String,
    /// To which node it went; none if it came.
    pub to: Option<u32>,
}

/// What there is to see of the cluster, as a node gathers it.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct ClusterView {
    pub version: u32,
    pub cluster: String,
    pub at_ms: u64,
    /// Who gathered it.
    pub seen_by: u32,
    pub viewer: ViewerView,
    pub ring_version: u64,
    /// `well`, `degraded` if replicas are missing, `unserved` if partitions are.
    pub health: &'static str,
    /// What is wrong, for people, the worst first.
    pub troubles: Vec<String>,
    pub partitions: PartitionsView,
    pub classes: Vec<ClassView>,
    pub nodes: Vec<MemberView>,
    pub ring: Vec<HeldView>,
    pub rebuilds: Vec<RebuildView>,
    pub keyspaces: Vec<KeyspaceView>,
    pub hot: Vec<HeatView>,
    pub contended: Vec<HeatView>,
    pub oldest_pin: Option<PinView>,
    pub pins: u64,
    pub collection_backlog: u64,
    pub slow: Vec<SlowView>,
    pub samples: Vec<Rates>,
}

/// Who looks.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct ViewerView {
    /// The user's name; none if the node asks nobody who he is.
    pub user: Option<String>,
    /// Whether he may have done what the console can have done.
    pub administers: bool,
}

/// How many partitions there are.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct PartitionsView {
    pub total: usize,
    /// With as many replicas as they should have.
    pub complete: usize,
    /// Being copied, or handed over.
    pub moving: usize,
    /// Waiting for a node that is away.
    pub unserved: usize,
    pub epoch_max: u32,
}

/// A placement class.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ClassView {
    pub class: u8,
    pub replicas: u8,
    pub min_replicas: u8,
    pub partitions: u32,
    pub durability: &'static str,
}

/// A member, and what it tells of itself.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct MemberView {
    pub node: u32,
    pub address: String,
    pub zone: String,
    pub weight: u32,
    pub state: &'static str,
    pub presence: &'static str,
    pub incarnation: u64,
    pub holds: usize,
    pub leads: usize,
    pub answers: bool,
    pub program: String,
    pub uptime_seconds: f64,
    pub ready: bool,
    pub lease: bool,
    pub leads_manager: bool,
    pub ring_version: u64,
    pub clients: u64,
    pub rates: Rates,
    pub shards: Vec<ShardView>,
}

/// A partition: class, index, epoch, the nodes with complete replicas, of which the first leads, and those that learn.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct HeldView(pub u8, pub u32, pub u32, pub Vec<u32>, pub Vec<u32>);

/// A partition that gets a replica.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RebuildView {
    pub class: u8,
    pub partition: u32,
    pub epoch: u32,
    /// Who copies,
    pub from: Option<u32>,
    /// and to whom.
    pub to: Vec<u32>,
    /// Replicas that it has, and should have.
    pub replicas: usize,
    pub wanted: usize,
}

/// A keyspace.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct KeyspaceView {
    pub keyspace: u32,
    pub name: String,
    pub class: u8,
    pub durability: &'static str,
    pub multi_version: bool,
    pub chunk_bytes: u64,
    /// The most that it is to hold, and what it does; that is known of those with a quota.
    pub quota_bytes: Option<u64>,
    pub held_bytes: Option<u64>,
    pub held_blobs: Option<u64>,
    pub recent: Rates,
    pub total: Totals,
}

/// What was done since the nodes that answer have started.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Totals {
    pub committed: u64,
    pub conflicts: u64,
    pub refused: u64,
    pub written_bytes: u64,
    pub reads: u64,
    pub read_bytes: u64,
}

/// What is done in a second, and how long it takes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Rates {
    pub at_ms: u64,
    pub transactions: f64,
    pub conflicts: f64,
    pub refused: f64,
    pub written_bytes: f64,
    pub reads: f64,
    pub read_bytes: f64,
    /// Of all answered transactions and reads, half took no longer, and 99 of 100; none if there were none.
    pub transaction_p50: Option<f64>,
    pub transaction_p99: Option<f64>,
    pub read_p50: Option<f64>,
    pub read_p99: Option<f64>,
}

//! The settings of `tyr server`. They are of the same kind as all others, but only that verb takes their flags.

use std::path::PathBuf;

use tracing::level_filters::LevelFilter;
use tyr_client::Durability;
use tyr_server::{MetricsFor, TargetSettings};

use super::{Setting, Values};

/// How `tyr server` runs a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSettings {
    /// What the node keeps of itself, and its data if there are no targets.
    pub directory: Option<PathBuf>,
    /// Where it listens.
    pub listen: String,
    /// Where others reach it, if that is another address.
    pub advertise: Option<String>,
    /// Nodes of the cluster to join.
    pub join: Vec<String>,
    /// Directories for data.
    pub targets: Vec<TargetSettings>,
    /// The nodes that may fail together with it.
    pub zone: String,
    /// Its share of the load.
    pub weight: u32,
    /// Threads that work on partitions.
    pub shards: u32,
    /// Replicas, if it founds a cluster.
    pub replicas: u8,
    /// Partitions, if it founds a cluster.
    pub partitions: u32,
    /// What is acknowledged when, if it founds a cluster.
    pub durability: Durability,
    /// Whether it listens where others reach it though nobody has to prove anything.
    pub insecure: bool,
    /// Where health and metrics are served.
    pub http: Option<String>,
    /// To whom metrics are.
    pub metrics: MetricsFor,
    /// As many heads of other nodes each shard has copies of.
    pub cached_heads: u32,
    /// What takes longer is told in the log, in milliseconds.
    pub slow_ms: u32,
    /// How much is logged.
    pub log: LevelFilter,
    /// How it is written.
    pub log_format: LogFormat,
}

/// How the log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// A line of text each.
    Text,
    /// A JSON object in a line each.
    Json,
}

/// The settings of a server, in the order of the document and of the help.
pub const SERVER_SETTINGS: [Setting; 19] = [
    setting(
        "server.directory",
        "directory",
        Values::Path,
        "",
        "What the node keeps of itself, and its data if there are no targets",
    ),
    setting("server.listen", "listen", Values::Text(ADDRESS), "127.0.0.1:7700", "Where the node listens"),
    setting(
        "server.advertise",
        "advertise",
        Values::Text(ADDRESS),
        "",
        "Where others reach the node, if that is another address",
    ),
    setting(
        "server.join",
        "join",
        Values::List("addresses"),
        "",
        "Nodes of the cluster to join; without any, a new node founds a cluster",
    ),
    setting(
        "server.targets",
        "targets",
        Values::Paths,
        "",
        "Directories for data, on one or several devices, each with =WEIGHT if it is to hold another share than others",
    ),
    setting(
        "server.zone",
        "zone",
        Values::Text("a name"),
        "default",
        "Nodes with the same name may fail together; replicas lie apart if they can",
    ),
    setting(
        "server.weight",
        "weight",
        Values::Count { min: 0, max: 1_000_000 },
        "100",
        "The node's share of the load, relative to others",
    ),
    setting(
        "server.shards",
        "shards",
        Values::Count { min: 1, max: 1024 },
        "2",
        "Threads that work on partitions, each with a store; fixed when the directory is made",
    ),
    setting(
        "server.replicas",
        "replicas",
        Values::Count { min: 1, max: 16 },
        "3",
        "Replicas of everything, or as many as there are nodes; for who founds a cluster",
    ),
    setting(
        "server.partitions",
        "partitions",
        Values::Count { min: 1, max: 65_536 },
        "256",
        "Partitions, a power of two; for who founds a cluster",
    ),
    setting(
        "server.durability",
        "durability",
        Values::Choice(&["disk", "memory"]),
        "disk",
        "Whether what is acknowledged is on disk, or in the memory of all replicas and nowhere else; for who founds a cluster",
    ),
    setting(
        "server.insecure",
        "insecure",
        Values::Switch,
        "false",
        "Listen where others than the programs of this machine reach the node though it has no secret: whoever does may do anything",
    ),
    setting(
        "server.http",
        "http",
        Values::Text("an address, `host:port`"),
        "",
        "Where health, metrics, and the console are served by HTTP, or HTTPS if there is a certificate",
    ),
    setting(
        "server.metrics",
        "metrics",
        Values::Choice(&["open", "token"]),
        "open",
        "Whether metrics are for everybody who reaches them there, or for who bears a token",
    ),
    setting(
        "server.log",
        "log",
        Values::Choice(&["off", "error", "warn", "info", "debug", "trace"]),
        "info",
        "How much is logged to standard error",
    ),
    setting(
        "server.log_format",
        "log-format",
        Values::Choice(&["text", "json"]),
        "text",
        "How the log is written: lines of text, or a JSON object each",
    ),
    setting(
        "server.cached_heads",
        "cached-heads",
        Values::Count { min: 0, max: 1_000_000 },
        "1024",
        "Of so many popular blobs of other nodes each shard keeps a copy of the head, to answer with it what is asked together with a blob of its own",
    ),
    setting(
        "server.slow_ms",
        "slow-ms",
        Values::Count { min: 1, max: 3_600_000 },
        "1000",
        "A request that takes longer, in milliseconds, is told in the log",
    ),
    setting(
        "tls.anonymous_clients",
        "tls-anonymous-clients",
        Values::Switch,
        "false",
        "Whether clients need no certificate of their own; nodes always do",
    ),
];

const ADDRESS: &str = "an address, `host:port`, or `unix:` and a path";

const fn setting(
    name: &'static str,
    flag: &'static str,
    values: Values,
    default: &'static str,
    help: &'static str,
) -> Setting {
    Setting { name, flag, short: None, values, default, help }
}

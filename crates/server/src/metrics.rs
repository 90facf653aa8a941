//! What a node tells Prometheus, in its text format.
//!
//! The unit is the last word of a name, before `_total` if it only grows. `docs/operations.md` has a table of all.

use std::{
    fmt::{Display, Write as _},
    sync::atomic::{AtomicU64, Ordering},
};

use tyr_proto::cluster::{PartitionReport, PartitionRole, ShardReport};
use tyr_wire::connection::Channel;

use crate::{
    figures::Shown,
    histogram::Histogram,
    reception::Reception,
    state::State,
    work::{OUTCOMES, READS, Work},
};

/// Everything, as text.
pub(crate) fn metrics(state: &State, reception: &Reception) -> String {
    let shards: Vec<Shown> = reception.mailboxes.iter().map(|mailbox| mailbox.figures().shown()).collect();
    let mut text = Text::default();
    node(&mut text, state);
    network(&mut text, reception);
    work(&mut text, &shards);
    partitions(&mut text, &shards);
    storage(&mut text, &shards);
    text.0
}

fn node(text: &mut Text, state: &State) {
    let status = state.status();
    let version = format!("version=\"{}\"", env!("CARGO_PKG_VERSION"));
    text.family("tyr_build_info", "gauge", "The version of the program.");
    text.value("tyr_build_info", &version, 1);
    text.family("tyr_uptime_seconds", "gauge", "How long the process has run.");
    text.value("tyr_uptime_seconds", "", state.uptime().as_secs_f64());
    text.one("tyr_ready", "gauge", "Whether the node serves.", u64::from(status.is_ready));
    text.one("tyr_lease_held", "gauge", "Whether the node holds a lease.", u64::from(status.has_lease));
    let leads = u64::from(status.leads);
    text.one("tyr_manager_leads", "gauge", "Whether the node leads the cluster manager.", leads);
    let voters = "Nodes that vote in the cluster manager, as far as the node knows; the one that leads does.";
    text.one("tyr_manager_voters", "gauge", voters, status.voters as u64);
    text.one("tyr_ring_version", "gauge", "The ring version that the node knows.", status.ring_version.0);
}

fn network(text: &mut Text, reception: &Reception) {
    let counts = &reception.counts;
    let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
    text.family("tyr_connections", "gauge", "Connections that are open, by who is at the other end.");
    for (party, count) in
        [("node", &counts.nodes), ("newcomer", &counts.newcomers), ("client", &counts.clients)]
    {
        text.value("tyr_connections", &format!("party=\"{party}\""), load(count));
    }
    let by_channel = |text: &mut Text, name: &str, values: &[AtomicU64; Channel::COUNT]| {
        for (channel, value) in CHANNELS.iter().zip(values) {
            text.value(name, &format!("channel=\"{channel}\""), load(value));
        }
    };
    text.family("tyr_frames_received_total", "counter", "Frames that came.");
    by_channel(text, "tyr_frames_received_total", &counts.frames);
    text.family("tyr_received_bytes_total", "counter", "Bytes of the bodies of frames that came.");
    by_channel(text, "tyr_received_bytes_total", &counts.bytes);
    let handed = load(&counts.files_handed);
    text.one("tyr_files_handed_total", "counter", "Files that were handed to clients on this host.", handed);
    let denied = load(&counts.denied);
    text.one("tyr_denied_total", "counter", "Who was not let in, and what nobody had the right to.", denied);
    let malformed = load(&counts.malformed);
    text.one("tyr_frames_malformed_total", "counter", "Frames that made no sense.", malformed);
    let relayed = &reception.relay.counts;
    text.family("tyr_frames_relayed_total", "counter", "Frames that went around links that are cut.");
    for (part, count) in
        [("sent", &relayed.sent), ("carried", &relayed.carried), ("refused", &relayed.refused)]
    {
        text.value("tyr_frames_relayed_total", &format!("part=\"{part}\""), load(count));
    }
}

fn work(text: &mut Text, shards: &[Shown]) {
    text.family("tyr_transactions_total", "counter", "Transactions that were answered, by how they ended.");
    for (place, shard) in shards.iter().enumerate() {
        for (outcome, count) in OUTCOMES.iter().zip(shard.work.transactions) {
            let labels = format!("shard=\"{place}\",outcome=\"{outcome}\"");
            text.value("tyr_transactions_total", &labels, count);
        }
    }
    let help = "Time from when the shard that decides a transaction heard of it to its answer.";
    text.histogram("tyr_transaction_seconds", help, shards, |work| &work.transaction_times);
    text.family("tyr_reads_total", "counter", "Answers to readers, by what they asked.");
    for (place, shard) in shards.iter().enumerate() {
        for (kind, count) in READS.iter().zip(shard.work.reads) {
            text.value("tyr_reads_total", &format!("shard=\"{place}\",kind=\"{kind}\""), count);
        }
    }
    let help = "Time from a reader's question to its answer.";
    text.histogram("tyr_read_seconds", help, shards, |work| &work.read_times);
    let counters: [Named<Work>; 5] = [
        ("tyr_read_bytes_total", "Bytes of blobs that were answered to readers.", |work| work.read_bytes),
        ("tyr_reads_expired_total", "Readers that came after what they wanted was collected.", |work| {
            work.expired
        }),
        ("tyr_staged_parts_total", "Parts of payload that were staged before their transaction.", |work| {
            work.staged
        }),
        ("tyr_redirects_total", "Clients that were sent to another node.", |work| work.redirected),
        ("tyr_log_entries_total", "Entries of partitions' logs that became durable here.", |work| {
            work.entries
        }),
    ];
    for (name, help, count) in counters {
        text.by_shard(name, "counter", help, shards, |shard| count(&shard.work));
    }
    let help = "Time from when something is to be written to a log until it is durable.";
    text.histogram("tyr_log_write_seconds", help, shards, |work| &work.log_times);
    let help = "Messages that wait for the shard's thread.";
    text.by_shard("tyr_mailbox_messages", "gauge", help, shards, |shard| shard.report.queue);
}

fn partitions(text: &mut Text, shards: &[Shown]) {
    text.family("tyr_partitions", "gauge", "Partitions, by the role of the replica here.");
    for (place, shard) in shards.iter().enumerate() {
        for (role, name) in ROLES {
            let count = shard.report.partitions.iter().filter(|partition| partition.role == role).count();
            text.value("tyr_partitions", &format!("shard=\"{place}\",role=\"{name}\""), count);
        }
    }
    let sums: [Named<PartitionReport>; 7] = [
        ("tyr_chain_waiting_transactions", "Transactions that wait for their turn at a head.", |of| {
            of.waiting
        }),
        (
            "tyr_held_transactions",
            "Transactions whose writes are held until those before them have come.",
            |of| of.held,
        ),
        ("tyr_driven_transactions", "Transactions that are driven to their end here.", |of| of.driven),
        ("tyr_waiting_readers", "Readers that wait for the fate of a write.", |of| of.readers),
        ("tyr_pins", "Numbers that readers hold.", |of| of.pins),
        ("tyr_collection_backlog_blobs", "Blobs with versions that may be collected.", |of| of.backlog),
        ("tyr_copying_replicas", "Replicas that are being copied to from here.", |of| of.copying),
    ];
    for (name, help, count) in sums {
        let sum = |report: &ShardReport| report.partitions.iter().map(count).sum::<u64>();
        text.by_shard(name, "gauge", help, shards, |shard| sum(&shard.report));
    }
    let most = |shard: &Shown, count: fn(&PartitionReport) -> u64| {
        shard.report.partitions.iter().map(count).max().unwrap_or(0)
    };
    let help = "The longest chain: transactions that wait at one partition.";
    text.by_shard("tyr_chain_longest_transactions", "gauge", help, shards, |shard| {
        most(shard, |of| of.waiting)
    });
    let help = "Entries that the replica lacks that is furthest behind a primary here.";
    text.by_shard("tyr_replication_lag_entries", "gauge", help, shards, |shard| most(shard, |of| of.lag));
    let help = "Age of the oldest number that a reader holds.";
    text.family("tyr_pin_oldest_seconds", "gauge", help);
    for (place, shard) in shards.iter().enumerate() {
        let seconds = seconds(most(shard, |of| of.pin_age));
        text.value("tyr_pin_oldest_seconds", &format!("shard=\"{place}\""), seconds);
    }
}

fn storage(text: &mut Text, shards: &[Shown]) {
    let gauges: [Named<ShardReport>; 6] = [
        ("tyr_disk_size_bytes", "Size of the device of the shard's store.", |report| report.space_total),
        ("tyr_disk_free_bytes", "What of it is free.", |report| report.space_free),
        ("tyr_store_used_bytes", "Bytes in the files of the shard's store.", |report| report.used),
        ("tyr_store_live_bytes", "What of them is live, roughly.", |report| report.live),
        ("tyr_store_full", "Whether the store takes no more for want of space.", |report| {
            report.is_full.into()
        }),
        ("tyr_shard_failed", "Whether the shard serves nothing any more.", |report| report.has_failed.into()),
    ];
    for (name, help, value) in gauges {
        text.by_shard(name, "gauge", help, shards, |shard| value(&shard.report));
    }
}

/// A name, what it means, and how it is found.
type Named<T> = (&'static str, &'static str, fn(&T) -> u64);

/// The text so far.
#[derive(Default)]
struct Text(String);

impl Text {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}").expect("text can be written to");
    }

    fn value(&mut self, name: &str, labels: &str, value: impl Display) {
        let written = match labels {
            "" => writeln!(self.0, "{name} {value}"),
            labels => writeln!(self.0, "{name}{{{labels}}} {value}"),
        };
        written.expect("text can be written to");
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, value: u64) {
        self.family(name, kind, help);
        self.value(name, "", value);
    }

    fn by_shard(
        &mut self,
        name: &str,
        kind: &str,
        help: &str,
        shards: &[Shown],
        value: impl Fn(&Shown) -> u64,
    ) {
        self.family(name, kind, help);
        for (place, shard) in shards.iter().enumerate() {
            self.value(name, &format!("shard=\"{place}\""), value(shard));
        }
    }

    fn histogram(&mut self, name: &str, help: &str, shards: &[Shown], times: impl Fn(&Work) -> &Histogram) {
        self.family(name, "histogram", help);
        for (place, shard) in shards.iter().enumerate() {
            let times = times(&shard.work);
            for (bound, count) in times.cumulative() {
                self.value(&format!("{name}_bucket"), &format!("shard=\"{place}\",le=\"{bound}\""), count);
            }
            let labels = format!("shard=\"{place}\"");
            self.value(&format!("{name}_sum"), &labels, seconds(times.sum()));
            self.value(&format!("{name}_count"), &labels, times.count());
        }
    }
}

fn seconds(micros: u64) -> f64 {
    std::time::Duration::from_micros(micros).as_secs_f64()
}

/// The channels that are used, in order.
const CHANNELS: [&str; 5] = ["consensus", "gossip", "manager", "data", "relay"];
/// The roles that a replica can have.
const ROLES: [(PartitionRole, &str); 5] = [
    (PartitionRole::None, "none"),
    (PartitionRole::Primary, "primary"),
    (PartitionRole::NewPrimary, "new_primary"),
    (PartitionRole::Backup, "backup"),
    (PartitionRole::NewBackup, "new_backup"),
];

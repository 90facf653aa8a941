//! What a node tells Prometheus, in its text format.
//!
//! The unit is the last word of a name, before `_total` if it only grows. `docs/observability.md` has a table of all.

use std::{
    fmt::{Display, Write as _},
    sync::atomic::{AtomicU64, Ordering},
};

use tyr_net::{Exporter, Tls};
use tyr_proto::{
    Use,
    cluster::{PartitionReport, PartitionRole, Position, ShardReport},
};
use tyr_types::KeyspaceName;
use tyr_wire::connection::Channel;

use crate::{
    console::{counts_of, sum},
    figures::Shown,
    histogram::Histogram,
    hot::Heat,
    process::Process,
    reception::{Names, Reception},
    state::State,
    usage::KeyspaceWork,
    work::{OUTCOMES, READS, Work},
};

/// Everything, as text.
pub(crate) fn metrics(state: &State, reception: &Reception, tls: Option<&Tls>) -> String {
    let shards: Vec<Shown> = reception.mailboxes.iter().map(|mailbox| mailbox.figures().shown()).collect();
    let mut text = Text::default();
    node(&mut text, state);
    process(&mut text);
    certificate(&mut text, tls);
    ring(&mut text, state, reception);
    network(&mut text, reception);
    work(&mut text, &shards);
    keyspaces(&mut text, &shards, &reception.names.read());
    quotas(&mut text, &shards, reception);
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

/// As every Prometheus client library tells it.
fn process(text: &mut Text) {
    let Some(process) = Process::now() else { return };
    let name = "process_cpu_seconds_total";
    text.family(name, "counter", "Processor time that the process has taken, and the kernel for it.");
    text.value(name, "", process.cpu.as_secs_f64());
    let name = "process_start_time_seconds";
    text.family(name, "gauge", "When the process began, in seconds since 1970.");
    text.value(name, "", process.began_at);
    let resident = process.resident_bytes;
    text.one(
        "process_resident_memory_bytes",
        "gauge",
        "Memory of the process that is not swapped out.",
        resident,
    );
    let help = "Address space of the process.";
    text.one("process_virtual_memory_bytes", "gauge", help, process.virtual_bytes);
    text.one("process_open_fds", "gauge", "Files and sockets that the process has open.", process.files);
    if let Some(most) = process.files_max {
        text.one("process_max_fds", "gauge", "As many files and sockets it may have open.", most);
    }
    text.one("process_threads", "gauge", "Threads of the process.", process.threads);
}

fn certificate(text: &mut Text, tls: Option<&Tls>) {
    let name = "tyr_certificate_expiry_timestamp_seconds";
    let help = "When the certificate that the node shows expires, or the first of those it rests on, in seconds since 1970.";
    text.family(name, "gauge", help);
    if let Some(until) = tls.and_then(Tls::valid_until) {
        text.value(name, "", until);
    }
}

/// What the one who leads the cluster manager knows of all partitions and members; others say nothing of that.
fn ring(text: &mut Text, state: &State, reception: &Reception) {
    let voting = reception.voting.read();
    let Some(voting) = voting.as_ref().filter(|_| state.status().leads) else { return };
    let told = voting.voter.look(|cluster| cluster.changes_since(Position::default(), usize::MAX));
    let (partitions, members) = counts_of(&told);
    text.family(
        "tyr_ring_partitions",
        "gauge",
        "Partitions of the cluster, told by the node that leads its manager.",
    );
    for (name, count) in [
        ("total", partitions.total),
        ("complete", partitions.complete),
        ("moving", partitions.moving),
        ("unserved", partitions.unserved),
    ] {
        text.value("tyr_ring_partitions", &format!("state=\"{name}\""), count);
    }
    text.family("tyr_members", "gauge", "Members of the cluster, told by the node that leads its manager.");
    for (presence, count) in members {
        text.value("tyr_members", &format!("presence=\"{presence}\""), count);
    }
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
    let lost = reception.exporter.get().map_or(0, Exporter::lost);
    let help = "Spans that the collector of traces did not take in time.";
    text.one("tyr_trace_spans_lost_total", "counter", help, lost);
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
    let counters: [Named<Work>; 6] = [
        ("tyr_written_bytes_total", "Bytes that committed transactions wrote.", |work| work.written_bytes),
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
    text.by_shard(
        "tyr_slow_operations_total",
        "counter",
        "Transactions, stops, and reads that took longer than --slow-ms.",
        shards,
        |shard| shard.detail.slow_total,
    );
    let hottest: [Found<Shown, Vec<Heat>>; 2] = [
        (
            "tyr_hottest_blob_touches_per_second",
            "How often the blob is read and written that is so most.",
            |shard| &shard.detail.hot,
        ),
        (
            "tyr_most_contended_blob_conflicts_per_second",
            "How often transactions are refused that have read the blob for which that is so most.",
            |shard| &shard.detail.contended,
        ),
    ];
    for (name, help, heats) in hottest {
        text.family(name, "gauge", help);
        for (place, shard) in shards.iter().enumerate() {
            let rate = heats(shard).first().map_or(0.0, |heat| heat.rate);
            text.value(name, &format!("shard=\"{place}\""), rate);
        }
    }
    let help = "Messages that wait for the shard's thread.";
    text.by_shard("tyr_mailbox_messages", "gauge", help, shards, |shard| shard.report.queue);
}

/// What was done in the keyspaces that exist, by all shards together: there may be many of both.
fn keyspaces(text: &mut Text, shards: &[Shown], names: &Names) {
    let usage = sum(shards.iter().map(|shard| &shard.detail.usage));
    let works: Vec<(&KeyspaceName, &KeyspaceWork)> =
        usage.iter().filter_map(|(id, work)| Some((names.get(id)?, work))).collect();
    text.family(
        "tyr_keyspace_transactions_total",
        "counter",
        "Transactions that were answered, by how they ended.",
    );
    for (name, work) in &works {
        for (outcome, count) in
            [("committed", work.committed), ("conflict", work.conflicts), ("refused", work.refused)]
        {
            let labels = format!("keyspace=\"{name}\",outcome=\"{outcome}\"");
            text.value("tyr_keyspace_transactions_total", &labels, count);
        }
    }
    let counters: [Named<KeyspaceWork>; 3] = [
        ("tyr_keyspace_written_bytes_total", "Bytes that committed transactions wrote.", |work| work.written),
        ("tyr_keyspace_reads_total", "Answers to readers.", |work| work.reads),
        ("tyr_keyspace_read_bytes_total", "Bytes of blobs that were answered to readers.", |work| work.read),
    ];
    for (name, help, count) in counters {
        text.family(name, "counter", help);
        for (keyspace, work) in &works {
            text.value(name, &format!("keyspace=\"{keyspace}\""), count(work));
        }
    }
    let times: [Found<KeyspaceWork, Histogram>; 2] = [
        ("tyr_keyspace_transaction_seconds", "As tyr_transaction_seconds, of a keyspace.", |work| {
            &work.transaction_times
        }),
        ("tyr_keyspace_read_seconds", "As tyr_read_seconds, of a keyspace.", |work| &work.read_times),
    ];
    for (name, help, times) in times {
        text.family(name, "histogram", help);
        for (keyspace, work) in &works {
            text.times(name, &format!("keyspace=\"{keyspace}\""), times(work));
        }
    }
}

fn quotas(text: &mut Text, shards: &[Shown], reception: &Reception) {
    let (names, quotas) = (reception.names.read().clone(), reception.quotas.read().clone());
    let bounded = || quotas.iter().filter_map(|(id, quota)| Some((*id, names.get(id)?, *quota)));
    text.family("tyr_keyspace_quota_bytes", "gauge", "The quotas of keyspaces that have one.");
    for (_, name, quota) in bounded() {
        text.value("tyr_keyspace_quota_bytes", &format!("keyspace=\"{name}\""), quota);
    }
    let held: [Found<Use, u64>; 2] = [
        (
            "tyr_keyspace_held_bytes",
            "Sizes of the blobs whose heads this node leads, of keyspaces with quotas.",
            |held| &held.bytes,
        ),
        ("tyr_keyspace_held_blobs", "Blobs whose heads this node leads, of keyspaces with quotas.", |held| {
            &held.blobs
        }),
    ];
    for (name, help, count) in held {
        text.family(name, "gauge", help);
        for (id, keyspace, _) in bounded() {
            let mut all = Use::default();
            shards.iter().filter_map(|shard| shard.uses.get(&id)).for_each(|held| all.add(*held));
            text.value(name, &format!("keyspace=\"{keyspace}\""), count(&all));
        }
    }
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
    let help = "The highest epoch of a partition here: it rises when who holds one changes.";
    text.by_shard("tyr_partition_epoch_max", "gauge", help, shards, |shard| {
        most(shard, |of| of.epoch.0.into())
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

/// A name, what it means, and where what is told of it is.
type Found<T, U> = (&'static str, &'static str, fn(&T) -> &U);

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
            self.times(name, &format!("shard=\"{place}\""), times(&shard.work));
        }
    }

    fn times(&mut self, name: &str, labels: &str, times: &Histogram) {
        for (bound, count) in times.cumulative() {
            self.value(&format!("{name}_bucket"), &format!("{labels},le=\"{bound}\""), count);
        }
        self.value(&format!("{name}_sum"), labels, seconds(times.sum()));
        self.value(&format!("{name}_count"), labels, times.count());
    }
}

fn seconds(micros: u64) -> f64 {
    std::time::Duration::from_micros(micros).as_secs_f64()
}

/// The channels that are used, in order.
const CHANNELS: [&str; 6] = ["consensus", "gossip", "manager", "data", "relay", "traced"];
/// The roles that a replica can have.
const ROLES: [(PartitionRole, &str); 5] = [
    (PartitionRole::None, "none"),
    (PartitionRole::Primary, "primary"),
    (PartitionRole::NewPrimary, "new_primary"),
    (PartitionRole::Backup, "backup"),
    (PartitionRole::NewBackup, "new_backup"),
];

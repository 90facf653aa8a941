//! What there is to see of this node.

use std::sync::atomic::Ordering;

use tyr_proto::{
    BlobName, OldestPin, Use, Uses,
    cluster::{PartitionReport, PartitionRole},
};

use tyr_types::KeyspaceId;

use super::{
    Console,
    samples::sum,
    view::{HeatView, HeldBytesView, HopView, NodeView, PinView, ShardView, SlowView, VERSION},
};
use crate::{
    figures::Shown,
    hot::Heat,
    reception::Names,
    surroundings::wall_clock,
    trail::Slow,
    usage::{KeyspaceWork, Usage},
};

impl Console {
    fn shown(&self) -> Vec<Shown> {
        self.reception.mailboxes.iter().map(|mailbox| mailbox.figures().shown()).collect()
    }

    /// What was done until now, in all and in each keyspace.
    pub(super) fn done(&self) -> (KeyspaceWork, Usage) {
        let shards = self.shown();
        let mut total = KeyspaceWork::default();
        for Shown { work, .. } in &shards {
            let [committed, conflicts, others @ ..] = work.transactions;
            total.add(&KeyspaceWork {
                committed,
                conflicts,
                refused: others.iter().sum(),
                written: work.written_bytes,
                transaction_times: work.transaction_times.clone(),
                reads: work.reads.iter().sum(),
                read: work.read_bytes,
                read_times: work.read_times.clone(),
            });
        }
        (total, sum(shards.iter().map(|shard| &shard.detail.usage)))
    }

    /// What there is to see of this node.
    pub(super) fn node_view(&self) -> NodeView {
        let (status, counts, shards) = (self.state.status(), &self.reception.counts, self.shown());
        let names = self.reception.names.read().clone();
        let samples = self.samples.lock();
        let (window_seconds, keyspaces) = samples.by_keyspace();
        let samples = samples.all();
        let heats = |heats: fn(&Shown) -> &Vec<Heat>| heats_of(shards.iter().flat_map(heats), &names);
        let pins = shards.iter().filter_map(|shard| shard.pin.as_ref());
        let oldest = pins.max_by_key(|pin| pin.age);
        let mut slow: Vec<SlowView> = Vec::new();
        for (place, shard) in shards.iter().enumerate() {
            slow.extend(shard.detail.slow.iter().map(|slow| slow_view(self.me.0, place, slow, &names)));
        }
        slow.sort_by_key(|slow| std::cmp::Reverse(slow.at_ms));
        slow.truncate(SLOW_MAX);
        NodeView {
            version: VERSION,
            node: self.me.0,
            at_ms: wall_clock(),
            program: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_seconds: self.state.uptime().as_secs_f64(),
            ready: status.is_ready,
            lease: status.has_lease,
            leads_manager: status.leads,
            voters: status.voters,
            ring_version: status.ring_version.0,
            clients: counts.clients.load(Ordering::Relaxed),
            peers: counts.nodes.load(Ordering::Relaxed),
            shards: shards.iter().enumerate().map(|(place, shard)| shard_view(place, shard)).collect(),
            window_seconds,
            keyspaces,
            held: held_of(&shards),
            hot: heats(|shard| &shard.detail.hot),
            contended: heats(|shard| &shard.detail.contended),
            oldest_pin: oldest.map(|pin| {
                let clients = self.reception.clients.lock();
                let client = clients.link(pin.request.session).and_then(|link| link.remote());
                PinView { client: client.unwrap_or_default().to_owned(), ..pin_view(self.me.0, pin, &names) }
            }),
            slow,
            samples,
        }
    }
}

fn held_of(shards: &[Shown]) -> Vec<HeldBytesView> {
    let mut all = Uses::new();
    for (keyspace, held) in shards.iter().flat_map(|shard| &shard.uses) {
        all.entry(*keyspace).or_default().add(*held);
    }
    let view = |(keyspace, held): (KeyspaceId, Use)| HeldBytesView {
        keyspace: keyspace.0,
        blobs: held.blobs,
        bytes: held.bytes,
    };
    all.into_iter().map(view).collect()
}

fn shard_view(shard: usize, shown: &Shown) -> ShardView {
    let report = &shown.report;
    let partitions = &report.partitions;
    let sum = |count: fn(&PartitionReport) -> u64| partitions.iter().map(count).sum();
    let with = |roles: [PartitionRole; 2]| partitions.iter().filter(|of| roles.contains(&of.role)).count();
    ShardView {
        shard,
        directory: report.directory.clone(),
        failed: report.has_failed,
        full: report.is_full,
        space_bytes: report.space_total,
        free_bytes: report.space_free,
        used_bytes: report.used,
        live_bytes: report.live,
        queue: report.queue,
        leads: with([PartitionRole::Primary, PartitionRole::NewPrimary]),
        follows: with([PartitionRole::Backup, PartitionRole::NewBackup]),
        lag_entries: partitions.iter().map(|of| of.lag).max().unwrap_or(0),
        copying: sum(|of| of.copying),
        waiting: sum(|of| of.waiting),
        held: sum(|of| of.held),
        driven: sum(|of| of.driven),
        readers: sum(|of| of.readers),
        pins: sum(|of| of.pins),
        collection_backlog: sum(|of| of.backlog),
    }
}

fn heats_of<'a>(heats: impl Iterator<Item = &'a Heat>, names: &Names) -> Vec<HeatView> {
    let view = |Heat { blob, rate }: &Heat| HeatView {
        keyspace: blob.keyspace.0,
        keyspace_name: name_of(Some(blob), names),
        blob: text_of(Some(blob)),
        per_second: *rate,
    };
    let mut views: Vec<HeatView> = heats.map(view).collect();
    views.sort_by(|a, b| b.per_second.total_cmp(&a.per_second));
    views.truncate(HEATS_MAX);
    views
}

fn pin_view(node: u32, pin: &OldestPin, names: &Names) -> PinView {
    let OldestPin { partition, request, blob, age } = pin;
    PinView {
        node,
        seconds: seconds(*age),
        session: request.session.0.to_string(),
        client: String::new(),
        request: format!("r{}.{}", request.session.0, request.number),
        partition: partition.to_string(),
        keyspace: blob.as_ref().map(|blob| blob.keyspace.0),
        keyspace_name: name_of(blob.as_ref(), names),
        blob: text_of(blob.as_ref()),
    }
}

fn slow_view(node: u32, shard: usize, slow: &Slow, names: &Names) -> SlowView {
    let hops = slow.hops.iter().map(|(after, hop)| HopView {
        after_seconds: seconds(*after),
        step: hop.step.name().to_owned(),
        partition: hop.partition.to_string(),
        to: hop.node.map(|node| node.0),
    });
    SlowView {
        at_ms: slow.at,
        node,
        shard,
        request: slow.request.clone(),
        kind: slow.kind.to_owned(),
        outcome: slow.outcome.to_owned(),
        seconds: seconds(slow.took),
        keyspace: slow.blob.as_ref().map(|blob| blob.keyspace.0),
        keyspace_name: name_of(slow.blob.as_ref(), names),
        blob: text_of(slow.blob.as_ref()),
        blobs: slow.blobs,
        hops: hops.collect(),
    }
}

fn name_of(blob: Option<&BlobName>, names: &Names) -> String {
    blob.and_then(|blob| names.get(&blob.keyspace)).map_or_else(String::new, ToString::to_string)
}

/// The beginning of a key, which may be long.
fn text_of(blob: Option<&BlobName>) -> String {
    let Some(blob) = blob else { return String::new() };
    let text = blob.key.to_string();
    match text.char_indices().nth(KEY_SHOWN_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn seconds(micros: u64) -> f64 {
    std::time::Duration::from_micros(micros).as_secs_f64()
}

/// As many hot blobs of a node are told,
const HEATS_MAX: usize = 16;
/// as many slow operations,
const SLOW_MAX: usize = 32;
/// and of a key as many characters.
const KEY_SHOWN_MAX: usize = 200;

//! What a run is like: sizes, workload, and faults, all drawn from its seed.

use tyr_types::Durability;

use super::{bounds::Bounds, layout::CHUNK, storage::StorageProfile};
use crate::random::Random;

/// The settings of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Nodes.
    pub nodes: u32,
    /// Replicas of each partition.
    pub replicas: u8,
    /// Partitions.
    pub partitions: u32,
    /// Whether a node's memory is all it has.
    pub durability: Durability,
    /// Whether superseded versions are kept for readers.
    pub multi_version: bool,
    /// The most voters of the cluster manager; an actor stands in for all of them if zero.
    pub voters: u32,
    /// Clients.
    pub clients: u32,
    /// Operations that each client begins.
    pub operations: u32,
    /// Blobs with registers, lists, counters, accounts, and blobs that come and go.
    pub blobs: [u32; 5],
    /// Documents.
    pub documents: u32,
    /// The most bytes that the keyspace is to hold, if that is bounded.
    pub quota: Option<u64>,
    /// How likely each kind of operation is, in the order of [`Kind`].
    pub weights: [u32; Kind::ALL.len()],
    /// The delay of a message in microseconds: the least, the usual spread, and the spread of slow ones.
    pub delay: (u64, u64, u64),
    /// Messages that are slow, in parts per million.
    pub slow: u32,
    /// Messages that are lost, in parts per million.
    pub loss: u32,
    /// Messages that come twice, in parts per million.
    pub duplication: u32,
    /// Microseconds that a write to disk takes at most.
    pub disk: u64,
    /// Microseconds between faults on average; no faults if zero.
    pub faults_every: u64,
    /// Which faults there are, in the order of [`Fault`].
    pub faults: [bool; Fault::ALL.len()],
    /// What nodes and clients are bounded by.
    pub bounds: Bounds,
    /// What nodes are like inside.
    pub storage: StorageProfile,
    /// Whether there is another keyspace, which is dropped.
    pub drops_keyspace: bool,
    /// Whether a node that starts knows of no keyspace, and hears of them after a while.
    pub hears_late: bool,
    /// Whether clients keep what is lent to them.
    pub borrows: bool,
    /// Whether what is sent is encoded, and what arrives is decoded. That changes nothing, and takes time.
    pub as_bytes: bool,
}

/// A kind of operation of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Writes registers of several blobs, having read nothing.
    BlindWrites,
    /// Reads one register from any replica, outside a transaction.
    DirectRead,
    /// Reads all registers of one blob at one number.
    BlobRead,
    /// Reads registers of several blobs and commits.
    Reads,
    /// Reads some registers and writes others.
    ReadsAndWrites,
    /// Writes all registers of one blob.
    BlobWrite,
    /// Appends to one list.
    Append,
    /// Appends to several lists.
    Appends,
    /// Reads whole lists.
    ReadLists,
    /// Adds to one counter.
    Add,
    /// Adds to several counters.
    Adds,
    /// Moves money.
    Transfer,
    /// Reads all accounts.
    Audit,
    /// Creates a blob.
    Create,
    /// Deletes a blob.
    Delete,
    /// Sees whether a blob exists.
    Exists,
    /// Lists names.
    Scan,
    /// Writes one register each of two neighbours in a ring of blobs, having read nothing.
    RingWrites,
    /// Writes all registers of the first blob and of another one.
    StarWrites,
    /// Adds to two neighbours in a ring of counters.
    RingAdds,
    /// Adds to the first counter and to another one.
    StarAdds,
    /// Appends to two neighbours in a ring of lists.
    RingAppends,
    /// Reads all registers of all blobs and commits.
    BlobsRead,
    /// Reads one blob at one number again and again.
    LongRead,
    /// Creates a blob and writes its first and last register.
    CreateWithHoles,
    /// Reads blobs of several sorts as they were at one point.
    Snapshot,
    /// Reads all blobs as they were at one point.
    SnapshotPrefix,
    /// Reads some registers, thinks, and overwrites them, again and again until it is not refused.
    Persist,
    /// Reads the first register of a blob and overwrites it at once, so that the order of the values is known.
    Swap,
    /// Asks one node what many blobs are, also those whose heads are elsewhere.
    Heads,
    /// Writes attributes of several blobs.
    WriteAttributes,
    /// Takes a snapshot of all blobs that has a name, and reads it some time later.
    Named,
    /// Does several things to a document.
    Edit,
    /// Does several things to documents and other blobs.
    Edits,
    /// Reads documents and commits.
    ReadDocuments,
    /// Reads documents as they were at one point.
    SnapshotDocuments,
    /// Appends several elements to each of some lists.
    Bunches,
    /// Deletes a blob, creates it again, and writes its registers.
    Restart,
}

/// As many kinds are drawn by the swarm, the first ones; the others belong to a [`Focus`](super::focus::Focus) or
/// an [`Aim`](super::aim::Aim),
const SWARMING: usize = 17;
/// but for these, which are drawn last, so that what was drawn before them stays.
const SWARMING_TOO: [Kind; 3] = [Kind::Snapshot, Kind::SnapshotPrefix, Kind::Persist];

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A node crashes and starts again.
    Crash,
    /// A node stands still for a while.
    Pause,
    /// Nothing gets from one node to another.
    Cut,
    /// A node is cut off from all others.
    Isolate,
    /// A disk is slow for a while.
    SlowDisk,
    /// The cluster manager's leader changes.
    ManagerChange,
    /// A node is emptied, or no longer.
    Drain,
    /// The power fails everywhere. Only disks survive that.
    Outage,
    /// A primary crashes soon after its backups have ceased to hear it: others know more of its end than they do.
    LastWords,
    /// A primary and the cluster manager lose one another for longer than a lease; and when it is replaced, the primary of an earlier
    /// partition does not hear of that for nearly as long as its own lease lasts. The manager is an actor.
    Estrangement,
}

/// As many faults are drawn by the swarm, the first ones; the others belong to an [`Aim`](super::aim::Aim).
const SWARMING_FAULTS: usize = 7;

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 38] = [
        Kind::BlindWrites,
        Kind::DirectRead,
        Kind::BlobRead,
        Kind::Reads,
        Kind::ReadsAndWrites,
        Kind::BlobWrite,
        Kind::Append,
        Kind::Appends,
        Kind::ReadLists,
        Kind::Add,
        Kind::Adds,
        Kind::Transfer,
        Kind::Audit,
        Kind::Create,
        Kind::Delete,
        Kind::Exists,
        Kind::Scan,
        Kind::RingWrites,
        Kind::StarWrites,
        Kind::RingAdds,
        Kind::StarAdds,
        Kind::RingAppends,
        Kind::BlobsRead,
        Kind::LongRead,
        Kind::CreateWithHoles,
        Kind::Snapshot,
        Kind::SnapshotPrefix,
        Kind::Persist,
        Kind::Swap,
        Kind::Heads,
        Kind::WriteAttributes,
        Kind::Named,
        Kind::Edit,
        Kind::Edits,
        Kind::ReadDocuments,
        Kind::SnapshotDocuments,
        Kind::Bunches,
        Kind::Restart,
    ];
}

impl Fault {
    /// All faults.
    pub const ALL: [Fault; 10] = [
        Fault::Crash,
        Fault::Pause,
        Fault::Cut,
        Fault::Isolate,
        Fault::SlowDisk,
        Fault::ManagerChange,
        Fault::Drain,
        Fault::Outage,
        Fault::LastWords,
        Fault::Estrangement,
    ];
}

impl Profile {
    /// The swarm: the seed draws everything, so that rare combinations come up.
    pub fn swarm(random: &mut Random) -> Profile {
        let replicas = [1, 2, 3, 3][random.index(4)];
        let small = |random: &mut Random, most: u64| u32::try_from(1 + random.below(most)).expect("small");
        let weight = |random: &mut Random| {
            let shown = random.below(10);
            if shown < 5 { 0 } else { 1 << (shown - 5) }
        };
        let mut weights = [0; Kind::ALL.len()];
        weights[..SWARMING].iter_mut().for_each(|each| *each = weight(random));
        weights[random.index(SWARMING)] += 8;
        let mut faults = [false; Fault::ALL.len()];
        faults[..SWARMING_FAULTS].iter_mut().for_each(|each| *each = random.below(2) == 0);
        let rarely = |random: &mut Random, most: u64| {
            let shown = random.below(3);
            if shown == 0 { 0 } else { u32::try_from(random.below(most)).expect("small") }
        };
        let mut profile = Profile {
            nodes: u32::from(replicas) + u32::try_from(random.below(3)).expect("small"),
            replicas,
            partitions: 1 << random.below(4),
            durability: if random.below(3) == 0 { Durability::Memory } else { Durability::Disk },
            multi_version: true,
            voters: 0,
            clients: small(random, 6),
            operations: 10 + small(random, 40),
            blobs: [small(random, 4), small(random, 3), small(random, 2), small(random, 4), small(random, 4)],
            documents: 0,
            quota: None,
            weights,
            delay: (20, 1 + random.below(400), 1 + random.below(40_000)),
            slow: rarely(random, 60_000),
            loss: rarely(random, 60_000),
            duplication: rarely(random, 60_000),
            disk: 1 + random.below(500),
            faults_every: [0, 60_000, 200_000, 600_000][random.index(4)],
            faults,
            bounds: Bounds::wide(),
            storage: StorageProfile::model(),
            drops_keyspace: false,
            hears_late: false,
            borrows: false,
            as_bytes: false,
        };
        for kind in SWARMING_TOO {
            profile.weights[kind as usize] = weight(random);
        }
        profile.multi_version = random.below(4) > 0;
        profile
    }

    /// A run with copies of heads: many ask what a few blobs are, some change that, and holders and primaries fail. Copies may be few, and may
    /// last for long.
    pub fn cached(random: &mut Random) -> Profile {
        let mut profile = Profile::swarm(random);
        profile.blobs = [2, 1, 1, 1, 2];
        profile.weights = [0; Kind::ALL.len()];
        let kinds = [
            (Kind::Heads, 24),
            (Kind::WriteAttributes, 4),
            (Kind::ReadsAndWrites, 2),
            (Kind::Create, 1),
            (Kind::Delete, 1),
            (Kind::Exists, 1),
        ];
        kinds.into_iter().for_each(|(kind, weight)| profile.weights[kind as usize] = weight);
        (profile.replicas, profile.nodes) = (profile.replicas.min(2), profile.nodes.max(3));
        profile.partitions = profile.partitions.max(4);
        profile.clients = profile.clients.max(3);
        profile.operations += 30;
        profile
    }

    /// The same with copies at clients, of what blobs hold, too.
    pub fn borrowed(random: &mut Random) -> Profile {
        let mut profile = Profile { borrows: true, ..Profile::cached(random) };
        let kinds = [(Kind::Heads, 2), (Kind::DirectRead, 24), (Kind::BlindWrites, 4), (Kind::Exists, 12)];
        kinds.into_iter().for_each(|(kind, weight)| profile.weights[kind as usize] = weight);
        profile
    }

    /// A run with documents: a few blobs to which everything is done that can be, by one transaction or by several at once.
    pub fn edited(random: &mut Random) -> Profile {
        let mut profile = Profile::swarm(random);
        profile.blobs = [1, 1, 1, 1, 2];
        profile.documents = 1 + u32::try_from(random.below(3)).expect("small");
        profile.weights = [0; Kind::ALL.len()];
        let kinds = [
            (Kind::Edit, 12),
            (Kind::Edits, 8),
            (Kind::ReadDocuments, 4),
            (Kind::SnapshotDocuments, 2),
            (Kind::Bunches, 3),
            (Kind::Restart, 2),
            (Kind::Append, 1),
            (Kind::ReadLists, 1),
            (Kind::Exists, 2),
            (Kind::Create, 1),
        ];
        kinds.into_iter().for_each(|(kind, weight)| profile.weights[kind as usize] = weight);
        profile.clients = profile.clients.max(2);
        profile
    }

    /// How much there may be, drawn apart from everything else: in every fifth run less than clients would write.
    pub fn rationed(self, seed: u64) -> Profile {
        let mut random = Random::new(seed ^ 0x71_756f_7461);
        let quota = (seed % 5 == 4).then(|| 2 * CHUNK + random.below(6 * CHUNK));
        Profile { quota, ..self }
    }

    /// Who manages the cluster, drawn apart from everything else: voters in every third run, since they take longer than all the rest.
    pub fn managed(self, seed: u64) -> Profile {
        let mut random = Random::new(seed ^ 0x766f_7465_7273);
        let voters = if random.below(3) == 0 { [1, 3, 3, 5][random.index(4)] } else { 0 };
        Profile { voters, ..self }
    }

    /// A quiet cluster, to measure and to try out workloads.
    pub fn quiet(nodes: u32, replicas: u8, clients: u32, operations: u32) -> Profile {
        Profile {
            nodes,
            replicas,
            partitions: 16,
            durability: Durability::Disk,
            multi_version: true,
            voters: 0,
            clients,
            operations,
            blobs: [4, 2, 2, 4, 4],
            documents: 1,
            quota: None,
            weights: [1; Kind::ALL.len()],
            delay: (50, 50, 50),
            slow: 0,
            loss: 0,
            duplication: 0,
            disk: 100,
            faults_every: 0,
            faults: [false; Fault::ALL.len()],
            bounds: Bounds::wide(),
            storage: StorageProfile::model(),
            drops_keyspace: false,
            hears_late: false,
            borrows: false,
            as_bytes: false,
        }
    }
}

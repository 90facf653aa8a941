//! Runs that look for trouble of one sort: few blobs of a shape, the workload that meets there, and the faults that matter to it.

use super::profile::{Fault, Kind, Profile};
use crate::random::Random;

/// What a focused run is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Focus {
    /// Three blobs of which each transaction touches two: every order of two is decided at another head.
    Rings,
    /// One blob that everybody touches, and others beside it.
    Stars,
    /// Lists, alone and together, while primaries fail.
    Lists,
    /// Readers that hold numbers for long, while others overwrite.
    Readers,
    /// Blobs that come and go, and leave holes.
    Passing,
    /// Primaries fail all the time.
    Failover,
    /// Snapshots of what is written and created meanwhile, in one go over several blobs.
    Snapshots,
    /// Those who think before they write, among those who do not.
    Starving,
}

impl Focus {
    /// All of them.
    pub const ALL: [Focus; 8] = [
        Focus::Rings,
        Focus::Stars,
        Focus::Lists,
        Focus::Readers,
        Focus::Passing,
        Focus::Failover,
        Focus::Snapshots,
        Focus::Starving,
    ];

    /// The blobs of each sort, as in a profile.
    fn blobs(self) -> [u32; 5] {
        match self {
            Focus::Rings | Focus::Stars => [3, 3, 3, 1, 1],
            Focus::Lists => [1, 2, 1, 1, 1],
            Focus::Readers => [2, 1, 1, 2, 1],
            Focus::Passing => [1, 1, 1, 1, 2],
            Focus::Failover => [2, 2, 2, 2, 1],
            Focus::Snapshots => [3, 1, 1, 3, 2],
            Focus::Starving => [2, 1, 1, 2, 1],
        }
    }

    /// The kinds of operations with their weights.
    fn kinds(self) -> &'static [(Kind, u32)] {
        match self {
            Focus::Rings => &[
                (Kind::RingWrites, 4),
                (Kind::RingAdds, 8),
                (Kind::RingAppends, 4),
                (Kind::BlobsRead, 4),
                (Kind::DirectRead, 4),
                (Kind::ReadLists, 2),
            ],
            Focus::Stars => &[
                (Kind::StarWrites, 6),
                (Kind::StarAdds, 6),
                (Kind::Add, 4),
                (Kind::BlobWrite, 4),
                (Kind::BlobsRead, 4),
                (Kind::BlobRead, 4),
                (Kind::DirectRead, 6),
            ],
            Focus::Lists => &[(Kind::Append, 8), (Kind::Appends, 8), (Kind::ReadLists, 4)],
            Focus::Readers => &[
                (Kind::LongRead, 6),
                (Kind::BlobRead, 2),
                (Kind::BlobWrite, 6),
                (Kind::BlindWrites, 4),
                (Kind::ReadsAndWrites, 2),
                (Kind::Audit, 1),
                (Kind::Transfer, 2),
            ],
            Focus::Passing => &[
                (Kind::Create, 3),
                (Kind::CreateWithHoles, 6),
                (Kind::Delete, 6),
                (Kind::Exists, 8),
                (Kind::Scan, 1),
            ],
            Focus::Failover => &[
                (Kind::BlindWrites, 4),
                (Kind::DirectRead, 6),
                (Kind::Append, 4),
                (Kind::Add, 4),
                (Kind::Adds, 4),
                (Kind::Transfer, 4),
                (Kind::ReadLists, 2),
                (Kind::Audit, 2),
            ],
            Focus::Snapshots => &[
                (Kind::Snapshot, 8),
                (Kind::SnapshotPrefix, 2),
                (Kind::Named, 4),
                (Kind::RingWrites, 8),
                (Kind::StarWrites, 2),
                (Kind::Transfer, 6),
                (Kind::Append, 2),
                (Kind::Create, 2),
                (Kind::Delete, 2),
                (Kind::DirectRead, 2),
            ],
            Focus::Starving => &[
                (Kind::Persist, 6),
                (Kind::BlindWrites, 10),
                (Kind::RingWrites, 6),
                (Kind::Snapshot, 1),
                (Kind::Transfer, 3),
            ],
        }
    }

    /// The faults that matter.
    fn faults(self) -> &'static [Fault] {
        match self {
            Focus::Rings | Focus::Stars | Focus::Passing => &[Fault::SlowDisk, Fault::Cut, Fault::Crash],
            Focus::Lists | Focus::Failover => &[Fault::Crash, Fault::Isolate, Fault::SlowDisk, Fault::Pause],
            Focus::Readers => &[Fault::SlowDisk, Fault::Pause],
            Focus::Snapshots => &[Fault::SlowDisk, Fault::Cut, Fault::Crash, Fault::Pause],
            Focus::Starving => &[Fault::SlowDisk, Fault::Crash],
        }
    }
}

impl Profile {
    /// A run about one thing, drawn from a seed.
    pub fn focused(random: &mut Random) -> Profile {
        let focus = *random.choose(&Focus::ALL).expect("there are some");
        let mut profile = Profile::swarm(random);
        profile.blobs = focus.blobs();
        profile.weights = [0; Kind::ALL.len()];
        for (kind, weight) in focus.kinds() {
            profile.weights[*kind as usize] = *weight;
        }
        profile.faults = Fault::ALL.map(|fault| focus.faults().contains(&fault) && random.below(3) > 0);
        profile.clients = profile.clients.max(3);
        // Faults that follow closely find what is short.
        let every = [0, 30_000, 100_000, 300_000];
        profile.faults_every = *random.choose(&every).expect("there are some");
        if matches!(focus, Focus::Lists | Focus::Failover) {
            // What a crash loses must have been heard of elsewhere: several partitions, and backups that are far behind.
            (profile.replicas, profile.nodes) = (profile.replicas.max(2), profile.nodes.max(3));
            profile.partitions = profile.partitions.max(4);
            profile.slow = profile.slow.max(50_000);
            profile.faults[Fault::Crash as usize] = true;
            profile.faults_every = profile.faults_every.clamp(30_000, 150_000);
        }
        profile
    }
}

//! Runs that aim at one moment: the shortest history in which a rule matters that hardly any other run needs, again and again.
//!
//! What a run aims at is drawn first, then all that the swarm draws, of which the aim replaces what its history needs.

use tyr_types::Durability;

use super::{
    bounds::Bounds,
    profile::{Fault, Kind, Profile},
};
use crate::random::Random;

/// What a run aims at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aim {
    /// The power fails everywhere while some disks are behind: who starts first has only what it had acknowledged.
    Outages,
    /// Appends behind those over several lists whose last stop loses them.
    OpenEnds,
    /// A primary dies whose last entries the holders of its chunks have heard of, and its backup has not.
    LastWords,
    /// Transactions come to a primary that has been replaced, from a stop that has not heard of it.
    Estrangement,
    /// Snapshots of what is not decided yet, while its backup answers readers who come later.
    Undecided,
    /// Transactions that visit the same heads, for which they wait.
    Crossings,
}

impl Aim {
    /// All of them.
    pub const ALL: [Aim; 6] =
        [Aim::Outages, Aim::OpenEnds, Aim::LastWords, Aim::Estrangement, Aim::Undecided, Aim::Crossings];

    /// The blobs of each sort, as in a profile.
    fn blobs(self) -> [u32; 5] {
        match self {
            Aim::Outages => [2, 2, 2, 1, 1],
            Aim::OpenEnds => [1, 3, 1, 1, 1],
            Aim::LastWords => [1, 1, 1, 1, 1],
            Aim::Estrangement => [4, 1, 1, 1, 1],
            Aim::Undecided => [2, 1, 1, 1, 1],
            Aim::Crossings => [3, 2, 2, 1, 1],
        }
    }

    /// The kinds of operations with their weights.
    fn kinds(self) -> &'static [(Kind, u32)] {
        match self {
            Aim::Outages => &[
                (Kind::Append, 6),
                (Kind::BlobWrite, 4),
                (Kind::Add, 4),
                (Kind::DirectRead, 4),
                (Kind::ReadLists, 2),
            ],
            Aim::OpenEnds => {
                &[(Kind::Appends, 6), (Kind::RingAppends, 6), (Kind::Append, 10), (Kind::ReadLists, 1)]
            }
            Aim::LastWords => {
                &[(Kind::BlobWrite, 8), (Kind::BlindWrites, 6), (Kind::BlobRead, 3), (Kind::DirectRead, 3)]
            }
            Aim::Estrangement => &[(Kind::BlindWrites, 10), (Kind::RingWrites, 6), (Kind::BlobWrite, 1)],
            Aim::Undecided => &[(Kind::Snapshot, 5), (Kind::Swap, 8), (Kind::DirectRead, 10)],
            Aim::Crossings => {
                &[(Kind::RingWrites, 6), (Kind::RingAdds, 4), (Kind::StarAdds, 2), (Kind::BlobsRead, 2)]
            }
        }
    }

    /// The faults that make the moment.
    fn faults(self) -> &'static [Fault] {
        match self {
            Aim::Outages => &[Fault::SlowDisk, Fault::Outage],
            Aim::LastWords | Aim::OpenEnds => &[Fault::LastWords],
            Aim::Estrangement => &[Fault::Estrangement],
            Aim::Undecided | Aim::Crossings => &[],
        }
    }

    /// Sizes and times.
    fn shape(self, profile: &mut Profile, random: &mut Random) {
        profile.clients = profile.clients.max(5);
        profile.faults_every = 0;
        let wide = |profile: &mut Profile| {
            (profile.replicas, profile.nodes) = (profile.replicas.max(2), profile.nodes.max(4));
            profile.partitions = profile.partitions.max(4);
        };
        match self {
            Aim::Outages => {
                profile.replicas = 2;
                profile.nodes = profile.nodes.clamp(2, 3);
                profile.faults_every = 150_000;
                profile.operations = 60;
            }
            Aim::LastWords | Aim::OpenEnds => {
                wide(profile);
                profile.clients += 4;
                profile.faults_every = 300_000;
                profile.operations = 100;
            }
            Aim::Estrangement => {
                wide(profile);
                profile.faults_every = 700_000;
                profile.operations = 100;
            }
            Aim::Undecided => {
                wide(profile);
                profile.clients += 3;
                (profile.slow, profile.delay.2) = (150_000, 10_000 + random.below(30_000));
                profile.operations = 60;
            }
            Aim::Crossings => profile.partitions = profile.partitions.max(2),
        }
    }
}

impl Profile {
    /// A run that aims at one moment, drawn from a seed.
    pub fn aimed(random: &mut Random) -> Profile {
        let aim = *random.choose(&Aim::ALL).expect("there are some");
        let mut profile = Profile::swarm(random);
        profile.blobs = aim.blobs();
        profile.weights = [0; Kind::ALL.len()];
        for (kind, weight) in aim.kinds() {
            profile.weights[*kind as usize] = *weight;
        }
        profile.faults = Fault::ALL.map(|fault| aim.faults().contains(&fault));
        if !aim.faults().is_empty() {
            profile.durability = Durability::Disk;
        }
        aim.shape(&mut profile, random);
        profile
    }

    /// The bounds of a run, but for those that keep what it aims at from happening.
    pub fn bounded(&self, drawn: Bounds) -> Bounds {
        let has = |fault: Fault| self.faults[fault as usize];
        let mut bounds = drawn;
        if has(Fault::LastWords) {
            // Whoever waits for the backup beforehand says nothing that it does not hear.
            bounds.staged_above = usize::MAX;
            (bounds.limits.waiting_max, bounds.limits.places_max) = (4096, 4096);
        }
        if has(Fault::Estrangement) {
            // Who has just come knows the newest ring, and waits for nobody.
            bounds.mortality = 100_000;
        }
        bounds
    }
}

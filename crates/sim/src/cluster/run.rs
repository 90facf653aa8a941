//! One run from one seed: faults while clients work, then healing, then everything that must hold.

use std::collections::{BTreeMap, BTreeSet};

use tyr_proto::{BlobName, ChunkName, Head, NodeId, Partition, PartitionId, State, Time};

use super::{bounds::Bounds, layout::Layout, profile::Profile, storage::StorageProfile, world::World};
use crate::{Outcome, check, random::Random};

/// What a run showed.
#[derive(Debug)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// What it was like.
    pub profile: Profile,
    /// A number that two runs share only if they did the same.
    pub digest: u64,
    /// What went wrong, if anything did.
    pub failure: Option<String>,
    /// What happened, by name.
    pub counts: BTreeMap<&'static str, u64>,
    /// Operations by label: committed, refused, unknown.
    pub ended: BTreeMap<&'static str, [u64; 3]>,
    /// Everything that happened, if it was asked for, and the history.
    pub trace: String,
}

/// How failures begin that are no wrong answers: nothing moves any more.
pub const STANDSTILLS: [&str; 3] =
    ["nothing is served", "clients are not served", "the cluster does not come to rest"];

/// Faults and work last at most this long, in simulated microseconds.
const WORK_MAX: u64 = 20_000_000;
/// After the faults have ended, everything is done within this time.
const HEAL_MAX: u64 = 30_000_000;

/// So long nothing happens before a node dies in the end, in simulated microseconds.
const SETTLE: u64 = 1_000_000;
/// That node is away for so long before the others are asked, in simulated microseconds.
const AWAY: u64 = 3_000_000;

/// What the draws are of which nodes have not heard.
const UNHEARD: [Draw; 8] = [
    Draw::Cached,
    Draw::Focused,
    Draw::Swarm,
    Draw::Swarm,
    Draw::Aimed,
    Draw::Dropping,
    Draw::Swarm,
    Draw::Swarm,
];

/// How a run's profile is drawn from its seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Draw {
    /// Everything is drawn.
    Swarm,
    /// What the run is about is drawn, see [`super::focus::Focus`].
    Focused,
    /// The moment that the run aims at is drawn, see [`super::aim::Aim`].
    Aimed,
    /// A run with copies of heads, see [`Profile::cached`].
    Cached,
    /// A run with copies at clients, see [`Profile::borrowed`].
    Borrowed,
    /// As the swarm, with a keyspace that is dropped meanwhile.
    Dropping,
    /// As one of the others, half of the time the swarm, with nodes that know of no keyspace when they start, as the shipped ones do.
    Unheard,
    /// A run with documents, to which anything may be done, see [`Profile::edited`].
    Edited,
}

impl Draw {
    /// All of them.
    pub const ALL: [Draw; 8] = [
        Draw::Swarm,
        Draw::Focused,
        Draw::Aimed,
        Draw::Cached,
        Draw::Borrowed,
        Draw::Dropping,
        Draw::Unheard,
        Draw::Edited,
    ];

    /// Its name on the command line and in the file of seeds.
    pub fn name(self) -> &'static str {
        match self {
            Draw::Swarm => "swarm",
            Draw::Focused => "focused",
            Draw::Aimed => "aimed",
            Draw::Cached => "cached",
            Draw::Borrowed => "borrowed",
            Draw::Dropping => "dropping",
            Draw::Unheard => "unheard",
            Draw::Edited => "edited",
        }
    }

    /// The profile of a seed. In every fourth, messages travel as bytes; in one of four, nodes have the shipped store.
    pub fn profile(self, seed: u64) -> Profile {
        let random = &mut Random::new(seed);
        let of = if self == Draw::Unheard { UNHEARD[(seed % 8) as usize] } else { self };
        let drawn = match of {
            Draw::Swarm | Draw::Dropping | Draw::Unheard => Profile::swarm(random),
            Draw::Focused => Profile::focused(random),
            Draw::Aimed => Profile::aimed(random),
            Draw::Cached => Profile::cached(random),
            Draw::Borrowed => Profile::borrowed(random),
            Draw::Edited => Profile::edited(random).rationed(seed),
        };
        let mut bounds = drawn.bounded(Bounds::drawn(random, drawn.replicas));
        if matches!(of, Draw::Cached | Draw::Borrowed) {
            bounds.draw_copies(random);
        }
        let storage = StorageProfile::drawn(seed, drawn.durability);
        // An actor suits an aimed run: it takes less time, and can be cut off.
        let drawn = if of == Draw::Aimed { drawn } else { drawn.managed(seed) };
        let (drops_keyspace, hears_late) = (of == Draw::Dropping, self == Draw::Unheard);
        Profile { as_bytes: seed.is_multiple_of(4), storage, bounds, drops_keyspace, hears_late, ..drawn }
    }

    /// Runs a seed.
    pub fn run(self, seed: u64, with_trace: bool) -> Report {
        run(seed, self.profile(seed), with_trace)
    }
}

/// Runs the swarm's profile of a seed.
pub fn swarm(seed: u64, with_trace: bool) -> Report {
    Draw::Swarm.run(seed, with_trace)
}

/// Runs a profile of a seed that is about one thing.
pub fn focused(seed: u64, with_trace: bool) -> Report {
    Draw::Focused.run(seed, with_trace)
}

/// Runs a profile from a seed.
pub fn run(seed: u64, profile: Profile, with_trace: bool) -> Report {
    let mut world = World::new(seed, profile.clone(), with_trace);
    let failure = go(&mut world, &profile).err();
    // What nobody may see is worse than a standstill.
    let failure = world.broken.take().or(failure);
    let mut ended: BTreeMap<&'static str, [u64; 3]> = BTreeMap::new();
    for caller in world.callers() {
        for (label, counts) in &caller.ended {
            let sums = ended.entry(label).or_default();
            sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
    }
    let mut trace = world.trace().to_owned();
    if with_trace {
        for operation in world.history.operations() {
            trace.push_str(&format!("{operation}\n"));
        }
    }
    Report { seed, profile, digest: world.digest(), failure, counts: world.counts().clone(), ended, trace }
}

fn go(world: &mut World, profile: &Profile) -> Result<(), String> {
    // A cluster that nothing disturbs comes up.
    let connected = |world: &World| world.callers().all(|caller| caller.client.is_connected());
    while !connected(world) {
        if world.now() > HEAL_MAX {
            return Err(format!(
                "nothing is served after {HEAL_MAX} us: {}; {:?}",
                stuck(world),
                world.manager()
            ));
        }
        world.connect();
        let end = world.now() + 100_000;
        world.run_until(end, false, connected);
    }
    // Messages may be lost already, and a primary be removed: then what has to exist is asked for again.
    let is_set_up = |world: &World| {
        world.history.operations().last().is_some_and(|operation| operation.outcome == Outcome::Committed)
    };
    let end = world.now() + HEAL_MAX;
    while !is_set_up(world) {
        world.set_up();
        if !world.run_until(end, false, |world| world.callers().all(|caller| caller.is_idle())) {
            return Err(format!("nothing is served after {HEAL_MAX} us: {}", stuck(world)));
        }
    }
    let set_up = world.history.operations().len() - 1;
    world.begin();
    let end = world.now() + WORK_MAX;
    world.run_until(end, true, |world| world.callers().all(|caller| caller.is_done()));
    world.heal();
    let end = world.now() + HEAL_MAX;
    if !world.run_until(end, true, |world| world.callers().all(|caller| caller.is_done())) {
        return Err(format!("clients are not served after all faults have ended: {}", stuck(world)));
    }
    world.drop_snapshots();
    let last = read_all(world, "the cluster does not come to rest", is_quiet)?;
    let end = world.now() + HEAL_MAX;
    let is_over = |world: &World| world.has_dropped() && world.doomed().next().is_none() && is_quiet(world);
    if !world.run_until(end, false, is_over) {
        let left: Vec<String> = world.doomed().collect();
        return Err(format!("a dropped keyspace has left {left:?}: {}", stuck(world)));
    }
    let end = world.now() + HEAL_MAX;
    if !world.run_until(end, false, |world| tombstones(world).is_empty()) {
        return Err(format!("tombstones stay: {:?}", tombstones(world)));
    }
    let accounts = Layout::of(profile).accounts();
    let violation = |error: Box<check::Violation>| format!("{error}");
    check::general(&world.history).map_err(violation)?;
    check::survival::check(&world.history, last).map_err(violation)?;
    let total = world.history.operations()[set_up].actions.iter().fold(0u64, |sum, action| match action {
        crate::Action::Write { value, .. } => sum.wrapping_add(*value),
        _ => sum,
    });
    check::bank::check(&world.history, &accounts, total).map_err(violation)?;
    check::documents::check(&world.history, &world.deeds()?).map_err(violation)?;
    converged(world)?;
    // Until who was paused is heard of again.
    world.run_until(world.now() + SETTLE, false, |_| false);
    if world.lose_for_good() {
        // Until all leases have run out that are not renewed, and what it held is rebuilt.
        world.run_until(world.now() + AWAY, false, |_| false);
        let is_answered = |world: &World| world.callers().all(|caller| caller.is_idle());
        let last = read_all(world, "nothing is served without one that died", is_answered)?;
        check::survival::check(&world.history, last).map_err(violation)?;
        check::documents::check(&world.history, &world.deeds()?).map_err(violation)?;
    }
    Ok(())
}

/// Reads everything at once and waits for something that is to hold then. Returns which operation that was. What was unknown may still
/// happen meanwhile: then that is refused, and what was read is no one state.
fn read_all(world: &mut World, failure: &str, holds: impl Fn(&World) -> bool) -> Result<usize, String> {
    let end = world.now() + HEAL_MAX;
    loop {
        let last = world.read_all();
        if !world.run_until(end, false, &holds) {
            return Err(format!("{failure}: {}", stuck(world)));
        }
        if world.history.operations()[last].outcome != Outcome::Conflict {
            return Ok(last);
        }
    }
}

/// Whether nothing is on its way: all is answered, decided, told, forgotten, and collected.
fn is_quiet(world: &World) -> bool {
    world.callers().all(|caller| caller.is_idle())
        && world.servers().all(|(_, server)| {
            server.node().is_some_and(|node| {
                node.partitions().filter(|partition| partition.has_role()).all(|partition| {
                    partition.unfinished() == 0
                        && partition.report(Time(0)).backlog == 0
                        && (!partition.is_established()
                            || (has_one_version_each(partition.state())
                                && has_forgotten(world, partition.state())))
                })
            })
        })
        && world.manager().cluster().partitions().all(|(id, partition)| {
            let replicas = &partition.configuration.replicas;
            // Who has started again with nothing is a replica until the cluster manager has heard of that.
            replicas.iter().all(|replica| held(world, id, replica.node).is_some())
                && established(world).any(|partition| partition.id() == id)
        })
}

fn established(world: &World) -> impl Iterator<Item = &Partition> {
    let nodes = world.servers().filter_map(|(_, server)| server.node());
    nodes.flat_map(|node| node.partitions()).filter(|partition| partition.is_established())
}

/// What is left of chunks of which no head knows.
fn tombstones(world: &World) -> Vec<&ChunkName> {
    let heads = established(world).flat_map(|partition| partition.state().heads());
    let heads: BTreeMap<&BlobName, &Head> = heads.collect();
    let is_known =
        |name: &ChunkName| heads.get(&name.blob).is_some_and(|head| head.link(name.index).is_some());
    let chunks = established(world).flat_map(|partition| partition.state().chunks());
    chunks.filter(|(name, chunk)| chunk.is_tombstone() && !is_known(name)).map(|(name, _)| name).collect()
}

/// What a node has of a partition, if it runs and has anything.
fn held(world: &World, id: PartitionId, node: NodeId) -> Option<&Partition> {
    let (_, server) = world.servers().find(|(number, _)| **number == node)?;
    server.node()?.partition(id)
}

/// Whether clients that died are forgotten, too.
fn has_forgotten(world: &World, state: &State) -> bool {
    state.sessions().all(|(session, _)| world.callers().any(|caller| caller.session() == session))
}

fn has_one_version_each(state: &State) -> bool {
    state.chunks().all(|(_, chunk)| chunk.version_count() <= 1)
}

/// Every complete replica of a partition holds the same.
fn converged(world: &World) -> Result<(), String> {
    for (id, partition) in world.manager().cluster().partitions() {
        let mut contents = BTreeSet::new();
        for replica in &partition.configuration.replicas {
            let held = held(world, id, replica.node);
            let Some(held) = held else { return Err(format!("{id} is not held by {}", replica.node)) };
            contents.insert(content(held.state()));
        }
        if contents.len() > 1 {
            let contents: Vec<String> = contents.into_iter().collect();
            return Err(format!("the replicas of {id} differ:\n{}", contents.join("\n")));
        }
    }
    Ok(())
}

fn content(state: &State) -> String {
    let heads: Vec<_> = state.heads().filter_map(|(name, head)| Some((name, head.blob()?))).collect();
    let chunks: Vec<_> = state
        .chunks()
        .map(|(name, chunk)| (name, chunk.content()))
        .filter(|(_, content)| !content.is_empty())
        .collect();
    format!("{heads:?} {chunks:?}")
}

/// What is still on its way, for a report.
fn stuck(world: &World) -> String {
    let mut text = String::new();
    let busy: Vec<_> = world.callers().filter(|caller| !caller.is_idle() || !caller.is_done()).collect();
    text.push_str(&format!("{} clients are busy", busy.len()));
    for caller in busy {
        text.push_str(&format!("; {}", caller.describe()));
    }
    for (number, server) in world.servers() {
        let Some(node) = server.node() else {
            text.push_str(&format!("; {number} is down"));
            continue;
        };
        for partition in node.partitions().filter(|partition| partition.has_role()) {
            let sessions: Vec<_> = partition.state().sessions().collect();
            if !has_forgotten(world, partition.state()) && partition.is_established() {
                text.push_str(&format!("; {number} {} remembers {sessions:?}", partition.id()));
            }
            if partition.unfinished() > 0 || !has_one_version_each(partition.state()) {
                text.push_str(&format!("; {number} {}", partition.describe()));
            }
        }
    }
    let unserved = world.manager().cluster().partitions().filter(|(id, _)| {
        !world.servers().any(|(_, server)| {
            server
                .node()
                .and_then(|node| node.partition(*id))
                .is_some_and(|partition| partition.is_established())
        })
    });
    let unserved: Vec<(PartitionId, _)> =
        unserved.map(|(id, partition)| (id, &partition.configuration)).collect();
    if !unserved.is_empty() {
        text.push_str(&format!("; not served: {unserved:?}"));
    }
    text
}

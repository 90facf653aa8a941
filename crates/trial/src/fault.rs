//! What is done to a cluster, what it has to go on with meanwhile, and how it is mended.

use std::{
    fmt,
    fs::File,
    io::{Seek, SeekFrom, Write},
    str::FromStr,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use tyr_sim::random::Random;

use crate::{
    enclosure::Enclosure,
    failure::{Failure, Result, wait_until},
    fleet::{Fleet, Partitions},
    network::End,
    report::say,
    throttle::Throttle,
};

/// A kind of fault. Where it strikes is drawn when it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// SIGKILL of one node, which starts again.
    Kill,
    /// SIGKILL of as many nodes at once as leave most of the voters, and a replica of everything.
    KillSeveral,
    /// SIGKILL of all nodes, which start again.
    KillAll,
    /// SIGTERM of one node, which starts again.
    Stop,
    /// SIGTERM of all nodes, which start again.
    StopAll,
    /// SIGTERM of each node, one after the other, which starts again before the next one is stopped.
    Roll,
    /// SIGSTOP for longer than a lease, then SIGCONT.
    Pause,
    /// A node without its cable.
    Unplug,
    /// Two nodes that cannot reach each other; both reach all others.
    CutPair,
    /// A node that hears nothing of the others; they hear it.
    Deafen,
    /// A node that the others do not hear; it hears them.
    Mute,
    /// As many nodes as leave most of the voters, and a replica of everything, cannot reach the others. Clients reach both sides.
    Part,
    /// No node reaches another.
    Shatter,
    /// A disk with less room than a node keeps for what it has promised.
    Crowd,
    /// A disk without any room.
    Fill,
    /// A disk that does few writes a second.
    Slow,
    /// A disk that does one write a second.
    Stall,
    /// A node's disk is lost. What it held is rebuilt by the others; the node comes back as a new one.
    Lose,
    /// Parts of a node's files are overwritten while it is off.
    Damage,
    /// A node joins.
    Join,
    /// A node gives up what it holds, and is switched off.
    Drain,
}

/// What the design promises while a fault lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// Everything is served, after about a lease.
    Served,
    /// Everything is read, and some writes are refused.
    Read,
    /// Nothing, until it is mended.
    Nothing,
    /// Everything, and no operation fails.
    Uninterrupted,
}

impl Fault {
    /// All of them.
    pub const ALL: [Fault; 21] = [
        Fault::Kill,
        Fault::KillSeveral,
        Fault::KillAll,
        Fault::Stop,
        Fault::StopAll,
        Fault::Roll,
        Fault::Pause,
        Fault::Unplug,
        Fault::CutPair,
        Fault::Deafen,
        Fault::Mute,
        Fault::Part,
        Fault::Shatter,
        Fault::Crowd,
        Fault::Fill,
        Fault::Slow,
        Fault::Stall,
        Fault::Lose,
        Fault::Damage,
        Fault::Join,
        Fault::Drain,
    ];

    /// So many of them, for a cluster of about as many nodes as at the beginning.
    pub fn draw(count: u64, nodes: u64, random: &mut Random) -> Vec<Strike> {
        let mut size = nodes;
        let mut draw = || match random.choose(&Fault::ALL).copied().expect("there are some") {
            Fault::Join | Fault::Drain if size > nodes => {
                size -= 1;
                Fault::Drain
            }
            Fault::Join | Fault::Drain => {
                size += 1;
                Fault::Join
            }
            other => other,
        };
        (0..count).map(|_| draw().into()).collect()
    }

    /// Its name on the command line.
    pub fn name(self) -> String {
        let mut name = String::new();
        for letter in format!("{self:?}").chars() {
            if letter.is_uppercase() && !name.is_empty() {
                name.push('-');
            }
            name.push(letter.to_ascii_lowercase());
        }
        name
    }

    /// What the cluster promises meanwhile.
    pub fn promise(self) -> Promise {
        match self {
            Fault::KillAll | Fault::StopAll | Fault::Shatter => Promise::Nothing,
            Fault::Crowd | Fault::Fill => Promise::Read,
            Fault::Roll | Fault::Join | Fault::Drain => Promise::Uninterrupted,
            _ => Promise::Served,
        }
    }

    /// Whether it can be done here.
    pub fn is_possible(self, enclosure: Enclosure) -> bool {
        if matches!(self, Fault::Slow | Fault::Stall) {
            return enclosure == Enclosure::Devices && Throttle::is_possible();
        }
        let needs_own = matches!(
            self,
            Fault::Unplug
                | Fault::CutPair
                | Fault::Deafen
                | Fault::Mute
                | Fault::Part
                | Fault::Shatter
                | Fault::Crowd
                | Fault::Fill
        );
        !needs_own || enclosure.has_links()
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

/// A fault that is to strike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strike {
    /// Which.
    pub fault: Fault,
    /// Where; drawn if there are none.
    pub places: Vec<usize>,
}

impl From<Fault> for Strike {
    fn from(fault: Fault) -> Self {
        Strike { fault, places: Vec::new() }
    }
}

impl FromStr for Strike {
    type Err = String;

    /// A name, or a name with places: `part:2+3`.
    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let (name, places) = text.split_once(':').unwrap_or((text, ""));
        let fault = Fault::ALL.into_iter().find(|fault| fault.name() == name);
        let fault = fault.ok_or_else(|| "there is no such fault; see --list".to_owned())?;
        let places = places.split('+').filter(|place| !place.is_empty()).map(str::parse);
        let places =
            places.collect::<std::result::Result<_, _>>().map_err(|_| "a place is a number, from 1 on")?;
        Ok(Strike { fault, places })
    }
}

impl fmt::Display for Strike {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places = self.places.iter().map(usize::to_string).collect::<Vec<_>>().join("+");
        write!(f, "{}{}{places}", self.fault, if places.is_empty() { "" } else { ":" })
    }
}

/// A fault that has struck some nodes.
#[derive(Debug)]
pub struct Wound {
    fault: Fault,
    places: Vec<usize>,
    number: Option<u32>,
}

impl Wound {
    /// Strikes.
    pub fn strike(strike: &Strike, fleet: &mut Fleet, random: &mut Random) -> Result<Wound> {
        let fault = strike.fault;
        let running = fleet.places();
        let drawn = victims(fault, &running, random);
        if let Some(place) = strike.places.iter().find(|place| !running.contains(place)) {
            return Err(Failure::new(format!("no node runs at place {place}, where {fault} is to strike")));
        }
        let places = if strike.places.is_empty() { drawn } else { strike.places.clone() };
        say(format!("{fault} {}", list(&places)));
        let mut wound = Wound { fault, places, number: None };
        wound.inflict(fleet, random).map_err(|failure| failure.while_doing(format_args!("to {fault}")))?;
        Ok(wound)
    }

    /// The nodes that it has struck.
    pub fn places(&self) -> &[usize] {
        &self.places
    }

    fn inflict(&mut self, fleet: &mut Fleet, random: &mut Random) -> Result<()> {
        let others: Vec<usize> =
            fleet.places().into_iter().filter(|place| !self.places.contains(place)).collect();
        let network = &mut fleet.network;
        let mut cut = |from: &[usize], to: &[usize]| {
            network.as_mut().expect("the fault is possible").cut(&links(from, to))
        };
        match self.fault {
            Fault::Kill | Fault::KillSeveral | Fault::KillAll => {
                self.places.iter().try_for_each(|place| fleet.node(*place).kill())
            }
            Fault::Stop | Fault::StopAll => self.places.iter().try_for_each(|place| stop(fleet, *place)),
            Fault::Roll => self.places.iter().try_for_each(|place| {
                stop(fleet, *place)?;
                fleet.restart(*place)?;
                fleet.settle()
            }),
            Fault::Pause => fleet.node(self.places[0]).signal(Signal::STOP),
            Fault::Unplug => {
                fleet.network.as_ref().expect("the fault is possible").unplug(End::Node(self.places[0]))
            }
            Fault::CutPair | Fault::Shatter => cut(&self.places, &self.places),
            Fault::Deafen => cut(&others, &self.places),
            Fault::Mute => cut(&self.places, &others),
            Fault::Part => cut(&self.places, &others).and_then(|()| cut(&others, &self.places)),
            Fault::Crowd => fleet.node(self.places[0]).disk.fill(CROWDED),
            Fault::Fill => fleet.node(self.places[0]).disk.fill(0),
            Fault::Slow | Fault::Stall => {
                let writes = if self.fault == Fault::Slow { SLOW } else { 1 };
                let node = fleet.node(self.places[0]);
                let process = node.process();
                node.disk.slow_down(process, writes)
            }
            Fault::Lose => {
                let node = fleet.node(self.places[0]);
                self.number = node.number();
                node.kill()?;
                node.disk.lose()
            }
            Fault::Damage => {
                let node = fleet.node(self.places[0]);
                self.number = node.number();
                node.kill()?;
                damage(node, random)
            }
            Fault::Join => {
                self.places = vec![fleet.join()?];
                Ok(())
            }
            Fault::Drain => {
                let number = fleet.node(self.places[0]).number().expect("a node that is ready has said it");
                fleet.ask(&["cluster", "drain", &number.to_string()]).map(drop)
            }
        }
    }

    /// What has to come true while the fault lasts, besides service.
    pub fn check(&self, fleet: &mut Fleet) -> Result<()> {
        match self.fault {
            Fault::Pause | Fault::Unplug => self.wait_for_eviction(fleet),
            Fault::Part => {
                self.wait_for_eviction(fleet)?;
                // Clients can still reach them.
                for place in &self.places {
                    wait_until("that a node without a lease says so", || {
                        Ok((fleet.node(*place).ready() != Some(false))
                            .then(|| format!("node {place} does not")))
                    })?;
                }
                Ok(())
            }
            Fault::Lose => self.give_up(fleet),
            Fault::Shatter => {
                for place in &self.places {
                    wait_until("that no node serves", || {
                        Ok((fleet.node(*place).ready() != Some(false)).then(|| format!("node {place} does")))
                    })?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn wait_for_eviction(&self, fleet: &mut Fleet) -> Result<()> {
        let others: Vec<usize> =
            fleet.places().into_iter().filter(|place| !self.places.contains(place)).collect();
        let numbers: Vec<u32> = self.places.iter().filter_map(|place| fleet.node(*place).number()).collect();
        wait_until("the eviction of a node that is away", || {
            let status = match fleet.status_of(&others) {
                Ok(status) => status,
                Err(failure) => return Ok(Some(failure.to_string())),
            };
            let there = |number: &&u32| {
                status.nodes.iter().any(|member| member.node == **number && member.presence == "present")
            };
            Ok(numbers.iter().find(there).map(|number| format!("node number {number} is still present")))
        })
    }

    /// Mends it. What the cluster needs to be whole again is waited for by others.
    pub fn heal(&self, fleet: &mut Fleet) -> Result<()> {
        match self.fault {
            Fault::Kill | Fault::KillSeveral | Fault::KillAll | Fault::Stop | Fault::StopAll => {
                self.places.iter().try_for_each(|place| fleet.restart(*place))
            }
            Fault::Pause => fleet.node(self.places[0]).signal(Signal::CONT),
            Fault::Unplug => {
                fleet.network.as_ref().expect("the fault was possible").plug(End::Node(self.places[0]))
            }
            Fault::CutPair | Fault::Deafen | Fault::Mute | Fault::Part | Fault::Shatter => {
                fleet.network.as_mut().expect("the fault was possible").mend()
            }
            Fault::Crowd | Fault::Fill => fleet.node(self.places[0]).disk.empty(),
            Fault::Slow | Fault::Stall => fleet.node(self.places[0]).disk.speed_up(),
            Fault::Lose => fleet.start_anew(self.places[0]),
            Fault::Damage => self.repair(fleet),
            Fault::Roll | Fault::Join => Ok(()),
            Fault::Drain => self.switch_off(fleet),
        }
    }

    /// A node does not come back with what it had: the others rebuild that, a bounded part at once.
    fn give_up(&self, fleet: &mut Fleet) -> Result<()> {
        let number = self.number.expect("a node that is ready has said it").to_string();
        // The cluster manager may be busy with the loss.
        wait_until("that the lost node is drained", || {
            Ok(fleet.ask(&["cluster", "drain", &number]).err().map(|failure| failure.to_string()))
        })?;
        let (began, mut most) = (Instant::now(), 0);
        wait_until("that what was lost is rebuilt", || {
            let Ok(status) = fleet.status() else {
                return Ok(Some("the cluster does not answer".to_owned()));
            };
            let Partitions { total, complete, moving, .. } = status.partitions;
            most = most.max(fleet.copying().unwrap_or(0));
            let is_rebuilt = complete == total && moving == 0;
            Ok((!is_rebuilt)
                .then(|| format!("{complete} of {total} partitions are complete, {moving} moving")))
        })?;
        say(format!(
            "  rebuilt by the others after {:.1} s, {most} partitions at once",
            began.elapsed().as_secs_f64()
        ));
        match most <= COPIED_MAX {
            true => Ok(()),
            false => Err(Failure::new(format!(
                "{most} partitions were rebuilt at once, and at most {COPIED_MAX} should be"
            ))),
        }
    }

    /// A node with a damaged disk either finds that, says so, and is replaced, or can do without what was damaged.
    fn repair(&self, fleet: &mut Fleet) -> Result<()> {
        let place = self.places[0];
        fleet.restart(place)?;
        let mut ended = None;
        wait_until("that a node with a damaged disk serves or ends", || {
            ended = fleet.node(place).ended()?;
            let is_over = ended.is_some() || fleet.node(place).ready() == Some(true);
            Ok((!is_over).then(|| format!("node {place} does neither")))
        })?;
        let Some(status) = ended else {
            say("  it does without what was damaged");
            return Ok(());
        };
        say(format!(
            "  it finds the damage: {status}; {}",
            fleet.node(place).last_lines().lines().last().unwrap_or_default()
        ));
        if status.code() != Some(CORRUPT) {
            return Err(Failure::new(format!(
                "node {place} has ended with {status} and not with {CORRUPT}:\n{}",
                fleet.node(place).last_lines()
            )));
        }
        fleet.node(place).kill()?;
        fleet.node(place).disk.lose()?;
        self.give_up(fleet)?;
        fleet.start_anew(place)
    }

    fn switch_off(&self, fleet: &mut Fleet) -> Result<()> {
        let number = fleet.node(self.places[0]).number();
        wait_until("that a drained node holds nothing", || {
            let status = fleet.status()?;
            let member = status.nodes.iter().find(|member| Some(member.node) == number && member.holds > 0);
            Ok(member.map(|member| format!("it holds {} partitions", member.holds)))
        })?;
        stop(fleet, self.places[0])
    }
}

/// Asks a node to stop, and waits until it has.
fn stop(fleet: &mut Fleet, place: usize) -> Result<()> {
    let status = fleet.node(place).stop()?;
    match status.success() {
        true => Ok(()),
        false => Err(Failure::new(format!("node {place} has stopped with {status}"))),
    }
}

/// Where a fault strikes.
fn victims(fault: Fault, places: &[usize], random: &mut Random) -> Vec<usize> {
    let count = match fault {
        Fault::Join => 0,
        Fault::KillAll | Fault::StopAll | Fault::Roll | Fault::Shatter => places.len(),
        Fault::KillSeveral | Fault::Part => SEVERAL_MAX.min((places.len() - 1) / 2),
        Fault::CutPair => 2,
        _ => 1,
    };
    let mut left = places.to_vec();
    let mut taken: Vec<usize> = Vec::new();
    for _ in 0..count {
        taken.push(left.swap_remove(random.index(left.len())));
    }
    taken.sort_unstable();
    taken
}

/// Every link from the ones to the others.
fn links(from: &[usize], to: &[usize]) -> Vec<(End, End)> {
    from.iter()
        .flat_map(|from| to.iter().map(move |to| (*from, *to)))
        .filter(|(from, to)| from != to)
        .map(|(from, to)| (End::Node(from), End::Node(to)))
        .collect()
}

/// Overwrites blocks all over the larger files of a node.
fn damage(node: &crate::node::Node, random: &mut Random) -> Result<()> {
    let mut count = 0;
    for path in node.disk.files()? {
        let size = path.metadata()?.len();
        if size < 2 * BLOCK {
            continue;
        }
        for _ in 0..DAMAGES {
            let mut file = File::options().write(true).open(&path)?;
            file.seek(SeekFrom::Start(random.below(size / BLOCK) * BLOCK))?;
            let garbage: Vec<u8> =
                std::iter::repeat_with(|| random.number().to_le_bytes()).take(64).flatten().collect();
            file.write_all(&garbage)?;
            count += 1;
        }
    }
    match count {
        0 => Err(Failure::new("the node has no file that is large enough to be damaged")),
        _ => Ok(()),
    }
}

fn list(places: &[usize]) -> String {
    places.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

/// How long what cannot be served lasts: longer than a lease.
pub const OUTAGE: Duration = Duration::from_secs(4);
/// Free bytes of a crowded disk: a node wants twice as many.
const CROWDED: u64 = 32 << 20;
/// The exit code of a node that finds damage on its disk.
const CORRUPT: i32 = 19;
const BLOCK: u64 = 4096;
/// Writes a second of a slow disk: about as many as a busy disk of the turning kind does.
const SLOW: u32 = 40;
/// The cluster manager has so many partitions copied at once, and the others when those are done.
const COPIED_MAX: usize = 32;
/// Nodes that a cluster with three replicas can do without at once.
const SEVERAL_MAX: usize = 2;
/// Blocks that are damaged in a file.
const DAMAGES: u64 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_of_several_nodes_leave_most_voters_and_a_replica_of_everything() {
        let mut random = Random::new(1);
        for size in 3..=32 {
            let places: Vec<usize> = (1..=size).collect();
            for fault in [Fault::KillSeveral, Fault::Part] {
                let struck = victims(fault, &places, &mut random);
                assert!(!struck.is_empty() && struck.len() * 2 < size, "{struck:?} of {size}");
                assert!(struck.len() < 3, "{struck:?} may be all replicas of something");
                assert!(struck.is_sorted_by(|a, b| a < b));
            }
        }
    }

    #[test]
    fn drawn_faults_leave_a_cluster_as_large_as_it_was_or_one_larger() {
        let mut size = 5;
        for strike in Fault::draw(500, 5, &mut Random::new(7)) {
            match strike.fault {
                Fault::Join => size += 1,
                Fault::Drain => size -= 1,
                _ => {}
            }
            assert!((5..=6).contains(&size));
        }
    }

    #[test]
    fn faults_have_names_of_their_own() {
        let mut names = Fault::ALL.map(Fault::name).to_vec();
        assert!(names.contains(&"kill-several".to_owned()));
        names.sort();
        names.dedup();
        assert_eq!(names.len(), Fault::ALL.len());
    }
}

//! The aggregation again, on a cluster of processes: several clients write, while nodes are killed at random moments, one is added, and
//! one is drained and switched off. No client is to notice more than a pause.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, channel},
    },
    thread,
    time::{Duration, Instant},
};

use tyr_client::Create;
use tyr_server::{Difference, Fact, NodeId};

use super::{
    Stage,
    ledger::{Batch, Ledger},
    nodes::Nodes,
    plot::{Mark, plot},
    random_below, rate,
    supervise::{Share, Then},
};
use crate::{failure::Result, opening::with_store, settings::Settings};

/// What is done to the cluster while clients write.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// Some node is killed.
    Kill,
    /// It is started again.
    Restart,
    /// Another node joins.
    Add,
    /// Some node gives up all that it holds.
    Drain,
}

/// The acts in their order, each with the part of all batches, in percent, after which it comes at the earliest and at the latest.
const ACTS: [(Act, usize, usize); 6] = [
    (Act::Kill, 10, 18),
    (Act::Restart, 24, 28),
    (Act::Add, 36, 42),
    (Act::Drain, 50, 56),
    (Act::Kill, 68, 76),
    (Act::Restart, 82, 86),
];
/// Nodes at the beginning; as many have each byte.
const NODES: usize = 3;
/// Client processes.
const CLIENTS: usize = 3;

/// Plays the acts on a cluster.
pub fn play(stage: &mut Stage<'_>, ledger: &Ledger) -> Result<()> {
    stage.tell.step("Start three nodes that hold everything three times")?;
    let mut nodes = Nodes::new(stage.place.directory.join("cluster"), stage.interrupt);
    for _ in 0..NODES {
        nodes.add()?;
    }
    nodes.wait(|told| is_settled(told, None))?;
    let settings = Settings { store: Some(nodes.url()), ..stage.settings.clone() };
    with_store(&settings, Create::Never, |store| Ok(Ledger::create(store)?))?;
    stage.tell.fact(format!("{} serves", nodes.url().display()))?;

    stage.tell.step("Aggregate from three client processes; kill nodes, add one, and drain one")?;
    let (drained, written) = Troupe::new(&mut nodes, ledger.batches()).act(stage)?;
    stage.tell.claim(
        format!("{written} batches were acknowledged, each to one client; no call failed"),
        &missing(written, ledger.batches()),
    )?;

    stage.tell.step("Switch the drained node off, and look at what the others hold")?;
    nodes.wait(|told| is_settled(told, drained.map(NodeId)))?;
    if let Some(drained) = drained {
        nodes.kill(drained)?;
        stage
            .tell
            .fact(format!("node {drained} holds nothing and is off; nodes {:?} go on", nodes.running()))?;
    }
    stage.prove(&settings, ledger)
}

/// Whether every partition has all its replicas, and none where it must not be.
fn is_settled(told: &Difference, drained: Option<NodeId>) -> bool {
    told.facts.iter().all(|fact| match fact {
        Fact::Partition(_, configuration, proposal) => {
            let is_drained = configuration.replicas.iter().any(|replica| Some(replica.node) == drained);
            let is_whole = configuration.replicas.len() == NODES && configuration.learners.is_empty();
            is_whole && !is_drained && proposal.is_none()
        }
        _ => true,
    })
}

fn missing(written: usize, batches: usize) -> Vec<String> {
    let missing = (written != batches).then(|| format!("{batches} batches were to be written"));
    missing.into_iter().collect()
}

/// Who acts: the nodes, and what has happened so far.
struct Troupe<'a, 'n> {
    nodes: &'a mut Nodes<'n>,
    begin: Instant,
    /// What is still to come, each after so many acknowledgements.
    acts: VecDeque<(usize, Act)>,
    marks: Vec<Mark>,
    killed: Option<u32>,
    drained: Option<u32>,
    facts: Vec<String>,
}

impl<'a, 'n> Troupe<'a, 'n> {
    fn new(nodes: &'a mut Nodes<'n>, batches: usize) -> Self {
        let after = |(act, least, most): (Act, usize, usize)| {
            let percent = least + random_below(most - least + 1);
            (batches * percent / 100, act)
        };
        Troupe {
            nodes,
            begin: Instant::now(),
            acts: ACTS.into_iter().map(after).collect(),
            marks: Vec::new(),
            killed: None,
            drained: None,
            facts: Vec::new(),
        }
    }

    /// Has the clients write everything, and does what is to be done meanwhile. Returns which node was drained, and how many batches
    /// were acknowledged.
    fn act(mut self, stage: &mut Stage<'_>) -> Result<(Option<u32>, usize)> {
        let url = self.nodes.url();
        let is_over = AtomicBool::new(false);
        let (told, hears) = channel();
        let times = thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS)
                .map(|share| {
                    let (told, is_over, interrupt) = (told.clone(), &is_over, stage.interrupt);
                    let one_in = stage.arguments.one_in;
                    let worker = stage.worker(&url, Share { one_in, share, shares: CLIENTS });
                    scope.spawn(move || {
                        worker.run(interrupt, |batch, _| {
                            let _unheard = told.send((batch, Instant::now()));
                            if is_over.load(Ordering::Relaxed) { Then::Kill } else { Then::GoOn }
                        })
                    })
                })
                .collect();
            drop(told);
            let times = self.direct(&hears);
            is_over.store(times.is_err(), Ordering::Relaxed);
            for client in clients {
                client.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            }
            times
        })?;
        self.tell(stage, &times)?;
        Ok((self.drained, times.len()))
    }

    /// Does what is due whenever enough is acknowledged, until the clients are done. Returns when batches were acknowledged.
    fn direct(&mut self, hears: &Receiver<(Batch, Instant)>) -> Result<Vec<Duration>> {
        let (mut times, mut acknowledged) = (Vec::new(), BTreeSet::new());
        loop {
            match hears.recv_timeout(GLANCE) {
                Ok((batch, at)) if acknowledged.insert(batch) => times.push(at - self.begin),
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(times),
            }
            if let Some((_, act)) = self.acts.pop_front_if(|(after, _)| acknowledged.len() >= *after) {
                self.perform(act)?;
            }
        }
    }

    fn perform(&mut self, act: Act) -> Result<()> {
        let at = self.begin.elapsed();
        let some = |nodes: Vec<u32>| nodes.get(random_below(nodes.len())).copied().unwrap_or(0);
        let second = at.as_secs_f64();
        let (letter, fact) = match act {
            Act::Kill => {
                let alive = self.nodes.running().into_iter().filter(|node| Some(*node) != self.drained);
                let node = some(alive.collect());
                self.nodes.kill(node)?;
                self.killed = Some(node);
                ('K', format!("K {second:5.1} s: SIGKILL for node {node}"))
            }
            Act::Restart => {
                let node = self.killed.take().unwrap_or(0);
                self.nodes.restart(node)?;
                ('R', format!("R {second:5.1} s: node {node} is started again"))
            }
            Act::Add => {
                let node = self.nodes.add()?;
                ('A', format!("A {second:5.1} s: node {node} joins"))
            }
            Act::Drain => {
                let node = some(self.nodes.running().into_iter().take(NODES).collect());
                self.nodes.drain(node)?;
                self.drained = Some(node);
                ('D', format!("D {second:5.1} s: node {node} is drained"))
            }
        };
        self.marks.push(Mark { at, letter });
        self.facts.push(fact);
        Ok(())
    }

    fn tell(&mut self, stage: &mut Stage<'_>, times: &[Duration]) -> Result<()> {
        let end = times.last().copied().unwrap_or_default();
        for line in plot(times, &self.marks, end) {
            stage.tell.fact(line)?;
        }
        for fact in self.facts.drain(..) {
            stage.tell.fact(fact)?;
        }
        let pause = times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default();
        let (rate, seconds, pause) = (rate(times.len(), end), end.as_secs_f64(), pause.as_secs_f64());
        stage.tell.fact(format!(
            "{} transactions in {seconds:.1} s, {rate:.0} a second; the longest pause was {pause:.1} s",
            times.len()
        ))
    }
}

const GLANCE: Duration = Duration::from_millis(100);

//! The course of a trial: clients work, faults strike one after the other and are mended, and everything is judged.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
};

use tyr_client::{KeyspaceSettings, blocking::Store};
use tyr_sim::random::Random;

use crate::{
    client::{self, Clients, Scene},
    enclosure::Enclosure,
    failure::{Failure, Result},
    fault::{Fault, OUTAGE, Promise, Strike, Wound},
    fleet::Fleet,
    judge::judge,
    layout::CHUNK_SIZE,
    probe::Probe,
    report::{PATIENCE, say},
};

/// What a trial is to do.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where it runs.
    pub enclosure: Enclosure,
    /// The `tyr` command.
    pub tyr: PathBuf,
    /// The outside checker.
    pub checker: Option<PathBuf>,
    /// From which all choices are drawn.
    pub seed: u64,
    /// Nodes at the beginning.
    pub nodes: usize,
    /// Clients.
    pub clients: u32,
    /// What strikes, in this order.
    pub faults: Vec<Strike>,
    /// Whether what was written is kept.
    pub keeps: bool,
}

/// A trial that goes on.
struct Course {
    fleet: Fleet,
    scene: Arc<Scene>,
    probe: Probe,
    random: Random,
}

/// Runs a trial. What it wrote is kept if it fails.
pub fn run(plan: &Plan) -> Result<()> {
    let mut records = tempfile::Builder::new().prefix("tyr-trial-").tempdir()?;
    let fleet = Fleet::start(plan.enclosure, &plan.tyr, plan.nodes, records.path());
    let result = fleet
        .and_then(|fleet| Course::begin(plan, fleet))
        .and_then(|(course, clients)| course.go(plan, clients, records.path()));
    if plan.keeps || result.is_err() {
        records.disable_cleanup(true);
        say(format!(
            "the nodes' logs, and the history of a trial that ended, are in {}",
            records.path().display()
        ));
    }
    result
}

impl Course {
    fn begin(plan: &Plan, mut fleet: Fleet) -> Result<(Course, Clients)> {
        let mut random = Random::new(plan.seed);
        let url = fleet.url()?;
        let store = Store::options().deadline(PATIENCE).connect_timeout(PATIENCE).open(&url)?;
        let settings = KeyspaceSettings { chunk_size: CHUNK_SIZE, ..KeyspaceSettings::default() };
        store.create_keyspace(KEYSPACE, settings)?;
        let probe = Probe::new(&url)?;
        let scene = Arc::new(Scene::default());
        let clients = Clients::start(&scene, &url, KEYSPACE, plan.clients, &mut random)?;
        Ok((Course { fleet, scene, probe, random }, clients))
    }

    fn go(mut self, plan: &Plan, clients: Clients, records: &Path) -> Result<()> {
        self.probe.write()?;
        let struck = plan.faults.iter().try_for_each(|fault| {
            let act = self.act(fault).map_err(|failure| self.explain(fault, failure));
            self.scene.check().and(act)
        });
        // A client that waits for a cluster that does not serve would wait for long.
        struck?;
        let unknown = clients.finish()?;
        self.scene.check()?;
        say(format!(
            "{} operations done; {} were told that the cluster is not available, {} that it is full, and of {unknown} the end is not known",
            self.scene.done.load(Ordering::Relaxed),
            self.scene.unavailable.load(Ordering::Relaxed),
            self.scene.refused.load(Ordering::Relaxed)
        ));
        let last = self.scene.recorder.history().operations().len();
        let url = self.fleet.url()?;
        client::read_everything(&self.scene, &url, KEYSPACE)?;
        self.probe.read()?;
        self.scene.check()?;
        let [acknowledged, unknown, never] = self.scene.ledger.counts();
        say(format!(
            "logs: {acknowledged} appends acknowledged, {unknown} unknown, {never} refused; all are as they were told"
        ));
        judge(&self.scene.recorder.history(), last, &records.join("history.jsonl"), plan.checker.as_deref())
    }

    /// How the cluster says that it is when something has gone wrong.
    fn explain(&mut self, strike: &Strike, failure: Failure) -> Failure {
        for verb in ["status", "ring"] {
            match self.fleet.ask(&["cluster", verb]) {
                Ok(told) => say(format!("  tyr cluster {verb}: {}", told.trim())),
                Err(failure) => say(format!("  {failure}")),
            }
        }
        failure.while_doing(format_args!("fault {strike}"))
    }

    /// A fault strikes, what is promised is looked for, and it is mended.
    fn act(&mut self, strike: &Strike) -> Result<()> {
        let fault = strike.fault;
        let before = self.scene.interruptions.lock().len();
        self.scene.silence();
        self.scene.longest();
        let wound = Wound::strike(strike, &mut self.fleet, &mut self.random)?;
        match fault.promise() {
            Promise::Served | Promise::Uninterrupted => {
                let after = self.probe.write()?;
                say(format!("  all partitions are served after {:.1} s", after.as_secs_f64()));
                // A slow disk slows down everybody.
                let is_slow = matches!(fault, Fault::Slow | Fault::Stall);
                self.scene.wait_for(if is_slow { WORK / 10 } else { WORK })?;
            }
            Promise::Read => {
                let after = self.probe.read()?;
                say(format!("  all partitions are read after {:.1} s", after.as_secs_f64()));
                self.wait_for_refusals()?;
            }
            Promise::Nothing => std::thread::sleep(OUTAGE),
        }
        wound.check(&mut self.fleet)?;
        wound.heal(&mut self.fleet)?;
        let mended = self.probe.write()?;
        say(format!("  mended; all partitions are served after {:.1} s", mended.as_secs_f64()));
        self.fleet.settle()?;
        self.scene.wait_for(WORK)?;
        let [silence, longest] = [self.scene.silence(), self.scene.longest()].map(|time| time.as_secs_f64());
        say(format!(
            "  the longest time in which no client got anything done: {silence:.1} s; for one thing a client took {longest:.1} s at most"
        ));
        let interruptions = self.scene.interruptions.lock()[before..].join("\n");
        if fault.promise() == Promise::Uninterrupted && !interruptions.is_empty() {
            return Err(Failure::new(format!(
                "operations were interrupted, and none should be:\n{interruptions}"
            )));
        }
        self.scene.check()
    }

    fn wait_for_refusals(&self) -> Result<()> {
        let before = self.scene.refused.load(Ordering::Relaxed);
        crate::failure::wait_until("that something is refused for want of room", || {
            self.scene.check()?;
            let is_refused = self.scene.refused.load(Ordering::Relaxed) > before;
            Ok((!is_refused).then(|| "nothing is".to_owned()))
        })
    }
}

const KEYSPACE: &str = "trial";
/// Operations of the clients between one step and the next.
const WORK: usize = 200;

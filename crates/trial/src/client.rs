//! A client of a trial: a thread that does one thing after the other, drawn from its seed, and records it.

mod operations;
mod transactions;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tyr_client::{
    Error, ErrorKind, Outcome as Ended, Slot,
    blocking::{Keyspace, Pending, Store},
};
use tyr_sim::{Action, ClientId, Outcome, random::Random};

use crate::{
    failure::{Failure, Result},
    layout::Group,
    log::{self, Fate, LOGS, Ledger, Record},
    recorder::{Place, Recorder},
    report::{GLANCE, PATIENCE},
};

/// What all clients of a trial share.
#[derive(Debug, Default)]
pub struct Scene {
    /// What they did and were told.
    pub recorder: Recorder,
    /// What they appended to logs.
    pub ledger: Ledger,
    /// Operations that have ended well.
    pub done: AtomicUsize,
    /// Operations that were told that the cluster is not available.
    pub unavailable: AtomicUsize,
    /// Operations that were refused since a disk is full.
    pub refused: AtomicUsize,
    /// What clients with the usual patience were told when it ended.
    pub interruptions: Mutex<Vec<String>>,
    silence: Mutex<Silence>,
    /// The longest time that a client has taken for one thing.
    longest: Mutex<Duration>,
    begun: AtomicU64,
    is_over: AtomicBool,
    troubles: Mutex<Vec<String>>,
}

/// The longest time in which no operation of any client has ended well.
#[derive(Clone, Copy, Debug, Default)]
struct Silence {
    since: Option<Instant>,
    longest: Duration,
}

/// The clients' threads.
#[derive(Debug)]
pub struct Clients {
    scene: Arc<Scene>,
    threads: Vec<JoinHandle<Vec<Unsettled>>>,
}

/// One client.
struct Client {
    id: ClientId,
    is_patient: bool,
    scene: Arc<Scene>,
    store: Store,
    keyspace: Keyspace,
    random: Random,
    values: u64,
    unsettled: Vec<Unsettled>,
}

/// A commit that was not answered in time.
struct Unsettled {
    // What asks needs its store.
    _store: Store,
    pending: Pending,
    committing: Committing,
}

/// What is recorded once the end of a commit is known.
enum Committing {
    /// An operation of the history, and which of its actions get their answers from which slots.
    History(Place, Vec<(usize, Slot)>),
    /// Appends to logs.
    Logs(Vec<(u64, Record, Slot)>),
}

impl Clients {
    /// Begins with so many, which find the cluster by its URL.
    pub fn start(
        scene: &Arc<Scene>,
        url: &str,
        keyspace: &str,
        count: u32,
        random: &mut Random,
    ) -> Result<Clients> {
        let mut threads = Vec::new();
        for number in 0..count {
            // Some give up soon, and see more ends that they do not know.
            let is_patient = number % 2 == 0;
            let deadline = if is_patient { Duration::from_secs(30) } else { Duration::from_secs(5) };
            let store = Store::options().deadline(deadline).connect_timeout(PATIENCE).open(url)?;
            let keyspace = store.keyspace(keyspace)?;
            let client = Client {
                id: ClientId(number),
                is_patient,
                scene: scene.clone(),
                store,
                keyspace,
                random: random.fork(),
                values: 0,
                unsettled: Vec::new(),
            };
            threads
                .push(std::thread::Builder::new().name(format!("client {number}")).spawn(|| client.work())?);
        }
        Ok(Clients { scene: scene.clone(), threads })
    }

    /// Lets them finish what they do, and finds out how everything ended that is not known. Returns of how much it is not known still.
    pub fn finish(self) -> Result<usize> {
        self.scene.is_over.store(true, Ordering::Relaxed);
        let mut unknown = 0;
        for thread in self.threads {
            let unsettled = thread.join().map_err(|_| Failure::new("a client has panicked"))?;
            unknown += unsettled.into_iter().filter(|of| !of.settle(&self.scene)).count();
        }
        Ok(unknown)
    }
}

/// Reads every blob that was used, as operations of the history, and compares the logs with what was told of them.
pub fn read_everything(scene: &Arc<Scene>, url: &str, keyspace: &str) -> Result<()> {
    let store = Store::options().deadline(PATIENCE).connect_timeout(PATIENCE).open(url)?;
    let keyspace = store.keyspace(keyspace)?;
    for log in 0..LOGS {
        let bytes = keyspace.read(log::key(log), ..).or_else(|error| match error.kind() {
            ErrorKind::NotFound => Ok(Vec::new()),
            _ => Err(error),
        });
        scene.ledger.check(log, &bytes?)?;
    }
    let groups = 0..=scene.group().0;
    let reader = |number: u32| Client {
        id: ClientId(READERS_FROM + number),
        is_patient: true,
        scene: scene.clone(),
        store: store.clone(),
        keyspace: keyspace.clone(),
        random: Random::new(0),
        values: 0,
        unsettled: Vec::new(),
    };
    std::thread::scope(|scope| {
        for number in 0..READERS {
            let (mut reader, groups) = (reader(number), groups.clone());
            scope.spawn(move || {
                let groups = groups.filter(|group| group % READERS == number).map(Group);
                groups.flat_map(Group::blobs).for_each(|blob| reader.read_whole(blob));
            });
        }
    });
    Ok(())
}

impl Scene {
    /// Waits until the clients have done so many more things.
    pub fn wait_for(&self, more: usize) -> Result<()> {
        let (end, before) = (Instant::now() + PATIENCE, self.done.load(Ordering::Relaxed));
        while self.done.load(Ordering::Relaxed) < before + more {
            self.check()?;
            if Instant::now() > end {
                let done = self.done.load(Ordering::Relaxed) - before;
                return Err(Failure::new(format!(
                    "the clients did only {done} things of {more} within {PATIENCE:?}"
                )));
            }
            std::thread::sleep(GLANCE);
        }
        Ok(())
    }

    /// How long at most nothing has ended well, since this was asked last.
    pub fn silence(&self) -> Duration {
        let mut silence = self.silence.lock();
        silence.note();
        std::mem::take(&mut silence.longest)
    }

    /// How long a client has taken for one thing at most, since this was asked last.
    pub fn longest(&self) -> Duration {
        std::mem::take(&mut *self.longest.lock())
    }

    /// Fails if anything was told that no cluster may tell.
    pub fn check(&self) -> Result<()> {
        match &self.troubles.lock()[..] {
            [] => Ok(()),
            troubles => Err(Failure::new(troubles.join("\n"))),
        }
    }

    /// The group that is in use.
    pub fn group(&self) -> Group {
        let begun = self.begun.load(Ordering::Relaxed);
        Group(u32::try_from(begun / GROUP_USES).expect("a trial is shorter"))
    }

    /// Something was told that must not be.
    pub fn trouble(&self, text: String) {
        self.troubles.lock().push(text);
    }

    /// Whether an error leaves open whether something happened. `None` if such an error must not come.
    fn outcome_of(&self, error: &Error) -> Option<Outcome> {
        match error.kind() {
            ErrorKind::Unavailable => {
                self.unavailable.fetch_add(1, Ordering::Relaxed);
                Some(Outcome::Unknown)
            }
            ErrorKind::Full => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                Some(Outcome::Conflict)
            }
            ErrorKind::Conflict | ErrorKind::Expired => Some(Outcome::Conflict),
            _ => None,
        }
    }
}

impl Client {
    fn work(mut self) -> Vec<Unsettled> {
        while !self.scene.is_over.load(Ordering::Relaxed) && self.scene.check().is_ok() {
            self.scene.begun.fetch_add(1, Ordering::Relaxed);
            let group = self.scene.group();
            let began = Instant::now();
            self.step(group);
            {
                let mut longest = self.scene.longest.lock();
                *longest = began.elapsed().max(*longest);
            }
            std::thread::sleep(THINKING);
        }
        self.unsettled
    }

    fn step(&mut self, group: Group) {
        match self.random.below(20) {
            0 => self.write_register(group),
            1 | 2 => self.read_register(group),
            3 => self.write_wide(group),
            4 => self.read_wide(group),
            5 | 6 => self.append(group),
            7 => self.read_list(group),
            8 | 9 => self.add(group),
            10 => self.create(group),
            11 => self.delete(group),
            12 => self.exchange(group),
            13 => self.write_blindly(group),
            14 => self.come_or_go(group),
            15 => self.move_on(group),
            16 => self.run(group),
            17 => self.snapshot(group),
            _ => self.append_to_logs(),
        }
    }

    /// A value that nobody else has written.
    fn value(&mut self) -> u64 {
        self.values += 1;
        (u64::from(self.id.0) + 1) << 32 | self.values
    }

    fn count(&self) {
        self.scene.silence.lock().note();
        self.scene.done.fetch_add(1, Ordering::Relaxed);
    }
}

impl Silence {
    /// Something has ended well.
    fn note(&mut self) {
        let now = Instant::now();
        let silent = self.since.replace(now).map_or(Duration::ZERO, |since| now - since);
        self.longest = self.longest.max(silent);
    }
}

impl Unsettled {
    /// Asks until it is known how it ended. Whether that is known now.
    fn settle(&self, scene: &Scene) -> bool {
        let end = Instant::now() + PATIENCE;
        loop {
            match self.pending.outcome() {
                Ok(ended) => {
                    self.committing.end(scene, &ended);
                    return true;
                }
                Err(error) if error.kind() != ErrorKind::Unavailable => {
                    self.committing.refuse(scene);
                    return true;
                }
                Err(_) if Instant::now() < end => std::thread::sleep(GLANCE),
                Err(_) => return false,
            }
        }
    }
}

impl Committing {
    /// It has ended.
    fn end(&self, scene: &Scene, ended: &Ended) {
        let Ended::Committed(receipt) = ended else { return self.refuse(scene) };
        match self {
            Committing::History(place, slots) => {
                let mut actions = scene.recorder.actions(*place);
                for (at, slot) in slots {
                    match &mut actions[*at] {
                        Action::Append { offset, .. } => {
                            *offset = receipt.offset(*slot).map(|offset| offset / 8)
                        }
                        Action::Add { old, .. } => {
                            *old = receipt.old(*slot).and_then(operations::number);
                        }
                        other => unreachable!("{other:?} has no answer"),
                    }
                }
                scene.recorder.end(*place, Outcome::Committed, actions);
            }
            Committing::Logs(appends) => {
                for (log, record, slot) in appends {
                    match receipt.offset(*slot) {
                        Some(offset) => scene.ledger.end(*log, *record, Fate::At(offset)),
                        None => scene.trouble(format!("an append to log {log} has no offset")),
                    }
                }
            }
        }
    }

    /// It did not happen, and never will.
    fn refuse(&self, scene: &Scene) {
        match self {
            Committing::History(place, _) => {
                let actions = scene.recorder.actions(*place);
                scene.recorder.end(*place, Outcome::Conflict, actions);
            }
            Committing::Logs(appends) => {
                appends.iter().for_each(|(log, record, _)| scene.ledger.end(*log, *record, Fate::Never));
            }
        }
    }

    /// It is not known whether it happened.
    fn leave(&self, scene: &Scene) {
        if let Committing::History(place, _) = self {
            let actions = scene.recorder.actions(*place);
            scene.recorder.end(*place, Outcome::Unknown, actions);
        }
    }
}

impl std::fmt::Debug for Unsettled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.pending.fmt(f)
    }
}

/// Those who read everything at the end.
const READERS: u32 = 4;
/// Their numbers; clients are fewer.
const READERS_FROM: u32 = 1000;
/// So many operations are begun on a group before the next one is used.
const GROUP_USES: u64 = 200;
/// Between two operations of a client: a trial is about faults, not about load.
const THINKING: Duration = Duration::from_millis(10);

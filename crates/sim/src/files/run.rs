//! One run of file systems from one seed: faults while clients work, then healing, then everything that must hold.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet, VecDeque},
    rc::Rc,
    time::Duration,
};

use tokio::{
    runtime,
    task::{AbortHandle, LocalSet, spawn_local},
    time::{Instant, sleep, sleep_until},
};
use tyr_client::simulation;
use tyr_fs::{Filesystem, Inode, Kind, ROOT_NUMBER};
use tyr_proto::SessionId;

use super::{
    copies::Copies,
    order,
    program::{NAMES, Program, RECORD, Shared, lying},
    tale::{Act, Told},
};
use crate::{
    cluster::{
        bounds::Bounds,
        profile::Profile,
        run::Draw,
        world::{World, stations},
    },
    random::Random,
};

/// What a run showed.
#[derive(Debug)]
pub struct Report {
    /// What went wrong, if anything did.
    pub failure: Option<String>,
    /// Deeds of which something was told, and of which nothing was.
    pub deeds: [u64; 2],
    /// What was done and told, as text.
    pub tale: String,
    /// What happened in the cluster, by name.
    pub counts: BTreeMap<&'static str, u64>,
}

/// Clients at once, threads of each, and what each thread does at most.
const CLIENTS: u64 = 3;
const THREADS: u64 = 2;
const DEEDS: u32 = 14;
/// One of so many clients dies.
const DIES: u64 = 3;
/// A client waits so long for an answer.
const PATIENCE: Duration = Duration::from_secs(4);
/// While there are faults, it tries to open the file system for so long.
const OPEN_MAX: Duration = Duration::from_secs(2);
/// Faults last at most this long,
const WORK_MAX: Duration = Duration::from_secs(12);
/// and then everything is done within this time.
const HEAL_MAX: Duration = Duration::from_secs(60);
/// The network is looked after as often, which is as exactly as time passes for clients.
const STEP: Duration = Duration::from_millis(1);

/// The cluster of a seed: that of the swarm, without its clients. In every third, nodes know of no keyspace when they start.
fn profile(seed: u64) -> Profile {
    let drawn = Draw::Swarm.profile(seed);
    let bounds = Bounds { min_replicas: drawn.bounds.min_replicas, ..Bounds::wide() };
    Profile { clients: 0, bounds, hears_late: seed.is_multiple_of(3), ..drawn }
}

/// Runs a seed.
pub fn run(seed: u64, with_trace: bool) -> Report {
    let runtime = runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime without network needs nothing of the system");
    LocalSet::new().block_on(&runtime, async move {
        let shared = Rc::new(Shared {
            began: Instant::now(),
            tale: RefCell::default(),
            appended: RefCell::default(),
            copies: Copies::default(),
            moved: Cell::default(),
            wrong: RefCell::default(),
            is_ending: Cell::new(false),
        });
        let stage = Rc::new(Stage {
            shared: shared.clone(),
            world: RefCell::new(World::new(seed, profile(seed), with_trace)),
            random: RefCell::new(Random::new(seed ^ 0x66_696c_6573)),
            session: Cell::new(0),
        });
        let carrier = spawn_local(carry(stage.clone()));
        let failure = stage.play().await.err();
        carrier.abort();
        let world = stage.world.borrow();
        // What nobody may see is worse than whatever followed from it.
        let wrong = shared.wrong.borrow().clone();
        let failure = world.broken.clone().or(shared.copies.wrong()).or(failure).or(wrong);
        let tale = shared.tale.borrow();
        let told = tale.deeds.iter().filter(|deed| deed.told.is_some()).count() as u64;
        let mut text = world.trace().to_owned();
        text.push_str(&tale.to_string());
        let mut counts = world.counts().clone();
        counts.insert("copied a blob", shared.copies.copied());
        counts.insert("moved a file", shared.moved.get());
        Report { failure, deeds: [told, tale.deeds.len() as u64 - told], tale: text, counts }
    })
}

/// A cluster, and who works on it.
#[derive(Debug)]
struct Stage {
    shared: Rc<Shared>,
    world: RefCell<World>,
    random: RefCell<Random>,
    session: Cell<u64>,
}

/// A client that runs.
struct Client {
    session: SessionId,
    program: Rc<Program>,
    filesystem: Filesystem,
    /// What goes on as long as it lives, first its driver.
    tasks: Vec<AbortHandle>,
    /// Its threads.
    threads: Vec<AbortHandle>,
}

/// Lets time pass in the cluster as it passes for clients.
async fn carry(stage: Rc<Stage>) {
    let mut next = stage.shared.began;
    loop {
        next += STEP;
        sleep_until(next).await;
        let now = stage.shared.now();
        let mut world = stage.world.borrow_mut();
        world.run_until(now, false, |_| false);
        world.collect_mail();
    }
}

impl Stage {
    async fn play(&self) -> Result<(), String> {
        let founder = self.start(true, HEAL_MAX).await?;
        self.stop(founder).await;
        self.world.borrow_mut().begin();
        let healed_at = Instant::now() + WORK_MAX;
        let mut clients = Vec::new();
        for _ in 0..CLIENTS {
            // One that does not get through does nothing in this run.
            if let Ok(mut client) = self.start(false, OPEN_MAX).await {
                self.set_to_work(&mut client);
                clients.push(client);
            }
        }
        while Instant::now() < healed_at && !clients.iter().all(Client::is_done) {
            sleep(Duration::from_millis(100)).await;
            self.may_die(&mut clients).await;
        }
        self.world.borrow_mut().heal();
        self.shared.is_ending.set(true);
        let end = Instant::now() + HEAL_MAX;
        while !clients.iter().all(Client::is_done) {
            if Instant::now() > end {
                return Err("clients are not served after all faults have ended".to_owned());
            }
            sleep(Duration::from_millis(100)).await;
        }
        for client in clients {
            self.stop(client).await;
        }
        let auditor = self.start(false, HEAL_MAX).await?;
        let reached = self.read_all(&auditor).await?;
        let content = self.check_content(&auditor, &reached).await;
        let left = self.check_left(&auditor).await;
        let copied = self.check_copies(&auditor).await;
        self.stop(auditor).await;
        // What is told of names says most of what is wrong with the rest.
        order::check(&self.shared.tale.borrow())?;
        content.and(left).and(copied)
    }

    /// A client that has opened the file system, which is made if that is asked for.
    async fn start(&self, makes: bool, within: Duration) -> Result<Client, String> {
        self.session.set(self.session.get() + 1);
        let session = SessionId(self.session.get());
        let simulation::Simulated { store, driver, station } =
            simulation::Simulated::new(session.0, PATIENCE, session.0.is_multiple_of(2));
        self.world.borrow_mut().join(session, station);
        let driver = spawn_local(driver).abort_handle();
        let end = Instant::now() + within;
        let filesystem = loop {
            let opened = async {
                simulation::meet(&store, stations::NAME, PATIENCE).await?;
                match makes {
                    true => Filesystem::open_or_create(&store, stations::NAME).await,
                    false => Filesystem::open(&store, &store.keyspace(stations::NAME)?).await,
                }
            };
            match opened.await {
                Ok(filesystem) => break filesystem.tended_by_caller(),
                Err(error) if Instant::now() > end => {
                    driver.abort();
                    self.world.borrow_mut().part(session);
                    return Err(format!("nothing is served: {error}"));
                }
                Err(_) => sleep(Duration::from_millis(100)).await,
            }
        };
        let program = Rc::new(Program::new(self.shared.clone(), filesystem.clone()));
        Ok(Client { session, program, filesystem, tasks: vec![driver], threads: Vec::new() })
    }

    fn set_to_work(&self, client: &mut Client) {
        for _ in 0..THREADS {
            let random = self.random.borrow_mut().fork();
            client.threads.push(spawn_local(client.program.clone().work(random, DEEDS)).abort_handle());
        }
        let random = self.random.borrow_mut().fork();
        client.tasks.push(spawn_local(client.program.clone().attend(random)).abort_handle());
    }

    /// A client goes, having ended what it had begun.
    async fn stop(&self, client: Client) {
        // What it has open is void then, so nothing of that is used any more.
        client.tasks[1..].iter().for_each(AbortHandle::abort);
        // Whether it could say so or not.
        let _ = client.filesystem.leave().await;
        let _ = client.filesystem.store().clone().close().await;
        self.kill(&client);
    }

    /// A client is gone from one moment to the next.
    fn kill(&self, client: &Client) {
        let moved = &self.shared.moved;
        moved.set(moved.get() + client.filesystem.moved());
        client.threads.iter().chain(&client.tasks).for_each(AbortHandle::abort);
        self.world.borrow_mut().part(client.session);
    }

    /// A client may die, and another one take its place.
    async fn may_die(&self, clients: &mut [Client]) {
        let (draw, place) = {
            let mut random = self.random.borrow_mut();
            (random.below(DIES * 40), random.index(clients.len()))
        };
        if draw > 0 || clients.is_empty() || clients[place].is_done() {
            return;
        }
        self.kill(&clients[place]);
        if let Ok(mut client) = self.start(false, OPEN_MAX).await {
            self.set_to_work(&mut client);
            clients[place] = client;
        }
    }

    /// Reads all names and what they mean, as deeds like all others. Returns what was found, by number.
    async fn read_all(&self, auditor: &Client) -> Result<BTreeMap<u64, Inode>, String> {
        let mut reached = BTreeMap::from([(ROOT_NUMBER, auditor.filesystem.root())]);
        let mut rest = VecDeque::from([ROOT_NUMBER]);
        while let Some(directory) = rest.pop_front() {
            self.told(auditor, Act::List { directory }).await?;
            for name in NAMES {
                let found = self.told(auditor, Act::Look { directory, name }).await?;
                if let Told::Inode(inode, is_directory) = found {
                    self.told(auditor, Act::Count { inode }).await?;
                    if reached.insert(inode, auditor.program.inode(inode)).is_none() && is_directory {
                        rest.push_back(inode);
                    }
                }
            }
        }
        Ok(reached)
    }

    async fn told(&self, auditor: &Client, act: Act) -> Result<Told, String> {
        let end = Instant::now() + HEAL_MAX;
        loop {
            if let Some(told) = auditor.program.act(act.clone()).await {
                return Ok(told);
            }
            if Instant::now() > end {
                return Err(format!("{act:?} is not answered after all faults have ended"));
            }
        }
    }

    /// Every file that has a name has each record that was appended to it once, and no other.
    async fn check_content(&self, auditor: &Client, reached: &BTreeMap<u64, Inode>) -> Result<(), String> {
        for (number, inode) in reached.iter().filter(|(_, inode)| inode.kind == Kind::File) {
            let content = self.content(auditor, inode).await?;
            let (records, rest) = content.as_chunks::<RECORD>();
            let found: BTreeSet<u64> = records.iter().map(|record| u64::from_le_bytes(*record)).collect();
            let appended = self.shared.appended.borrow();
            let own = appended.iter().zip(0..).filter(|(record, _)| record.inode == *number);
            let (possible, told): (BTreeSet<u64>, Vec<Option<u64>>) =
                own.map(|(record, place)| (place, record.is_told.then_some(place))).unzip();
            let lost: Vec<u64> =
                told.into_iter().flatten().filter(|record| !found.contains(record)).collect();
            let is_whole = rest.is_empty() && found.len() == records.len() && found.is_subset(&possible);
            if !lost.is_empty() || !is_whole {
                return Err(format!(
                    "files: inode {number} has {records:?} and {rest:?} of {possible:?}; {lost:?} are lost"
                ));
            }
        }
        Ok(())
    }

    async fn content(&self, auditor: &Client, inode: &Inode) -> Result<Vec<u8>, String> {
        let end = Instant::now() + HEAL_MAX;
        loop {
            let read = async {
                let (file, metadata) = auditor.filesystem.open_file(inode).await?;
                file.read(0, usize::try_from(metadata.size).expect("files are short")).await
            };
            match read.await {
                Ok(content) => return Ok(content),
                Err(error) if Instant::now() > end => return Err(format!("a file is not read: {error}")),
                Err(_) => sleep(Duration::from_millis(100)).await,
            }
        }
    }

    async fn check_copies(&self, auditor: &Client) -> Result<(), String> {
        let end = Instant::now() + HEAL_MAX;
        while let Err(error) = self.shared.copies.check(&auditor.filesystem).await {
            if Instant::now() > end {
                return Err(format!("a copy is not read: {error}"));
            }
            sleep(Duration::from_millis(100)).await;
        }
        self.shared.copies.wrong().map_or(Ok(()), Err)
    }

    /// When all clients are gone, nothing is left but what has a name.
    async fn check_left(&self, auditor: &Client) -> Result<(), String> {
        let end = Instant::now() + HEAL_MAX;
        loop {
            let reached = self.read_all(auditor).await?;
            // What does not work now may work next time.
            let _ = auditor.filesystem.evict_others().await;
            let held = lying(&auditor.filesystem).await;
            if held.as_ref().is_ok_and(|held| held.keys().eq(reached.keys())) {
                return Ok(());
            }
            if Instant::now() > end {
                return Err(format!("files: {held:?} are there, and names have {:?}", reached.keys()));
            }
            sleep(Duration::from_millis(200)).await;
        }
    }
}

impl Client {
    fn is_done(&self) -> bool {
        self.threads.iter().all(AbortHandle::is_finished)
    }
}

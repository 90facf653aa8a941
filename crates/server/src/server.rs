//! A server from its start to its end.
//!
//! It has a tokio runtime of its own for the cluster manager and gossip, and a [thread](crate::thread) for each shard and for connections.
//! When it is stopped, it first serves nobody any more, then makes durable what it has taken, and then closes. Dropped, it ends as if it
//! had been killed.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    fs::Permissions,
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    thread::JoinHandle,
    time::Duration,
};

use tokio::{
    sync::{
        Semaphore,
        mpsc::{self, UnboundedReceiver},
        oneshot,
    },
    time::timeout,
};
use tyr_manager::{Gossip, Peer};
use tyr_net::{Address, Credential, Exporter, Hatch, HatchOwner, Listener, Porter, Runtimes};
use tyr_node::{Journal, Member, Notice, Restored, Shard, Start};
use tyr_proto::{
    ClassId, Incarnation, Keyspaces, Limits, NodeId, Replica, RingVersion, ShardId,
    cluster::{self, ClassSettings, ClusterId, Command, Identity, ShardReport},
};
use tyr_types::{Error, Result};
use tyr_wire::connection::{Introduction, Party};

use crate::{
    Guarding, Settings, Status,
    alarm::Alarm,
    card::{Card, Keeper},
    console::Console,
    event::{Events, Heard, Told},
    guard::Gate,
    hatch::Shown,
    http,
    join::{greet, join},
    membership::{Membership, SERVING_MAX},
    opening::{MANAGER, Opening},
    peers::Peers,
    places::{Places, cannot_listen},
    reception::Reception,
    room::{self, Room},
    shard::{Ending, Lost, Mail, Mailbox, Runner, Task},
    state::State,
    surroundings::{random, random_bits},
    target::open_failure,
    thread::{Busy, Thread},
    tokens::Sealer,
    voting::Voting,
};

/// A node that runs in this process.
pub struct Server {
    started: Started,
    stop: Option<oneshot::Sender<Ending>>,
    thread: Option<JoinHandle<Result<()>>>,
}

/// What is known of a server that has started.
#[derive(Clone)]
struct Started {
    address: Address,
    http: Option<String>,
    node: NodeId,
    cluster: ClusterId,
    state: Arc<State>,
}

impl Server {
    /// Starts a server, and waits until it belongs to a cluster and listens: for ever, if it is to join one of which no node is there. It
    /// serves as soon as it is [ready](Status::is_ready).
    ///
    /// Fails with [`tyr_types::ErrorKind::Invalid`] if a setting does not fit the directory, such as addresses of another cluster.
    pub fn start(settings: Settings) -> Result<Server> {
        settings.check()?;
        let (told, hears) = std::sync::mpsc::channel();
        let (stop, stopped) = oneshot::channel();
        let body = move || {
            let mut runtime = tokio::runtime::Builder::new_multi_thread();
            let runtime = runtime.worker_threads(WORKERS).thread_name("tyr-server").enable_all().build();
            let runtime =
                runtime.map_err(|error| Error::unavailable(format!("cannot start threads: {error}")))?;
            let told_too = told.clone();
            let ended = runtime.block_on(run(settings, stopped, move |started| {
                let _unheard = told_too.send(Ok(started));
            }));
            runtime.shutdown_timeout(Duration::from_secs(1));
            // Heard only if it has not started.
            let _unheard = told.send(Err(ended.clone().err().unwrap_or_else(never_started)));
            ended
        };
        let thread = std::thread::Builder::new().name("tyr-server".into()).spawn(body);
        let thread = thread.map_err(|error| Error::unavailable(format!("cannot start a thread: {error}")))?;
        let started = hears.recv().map_err(|_| never_started())??;
        Ok(Server { started, stop: Some(stop), thread: Some(thread) })
    }

    /// Where it listens, with the port that the system chose.
    pub fn address(&self) -> &Address {
        &self.started.address
    }

    /// Where it serves health and metrics, if it does.
    pub fn http_address(&self) -> Option<&str> {
        self.started.http.as_deref()
    }

    /// Its number.
    pub fn node(&self) -> NodeId {
        self.started.node
    }

    /// Its cluster.
    pub fn cluster(&self) -> ClusterId {
        self.started.cluster
    }

    /// How it stands.
    pub fn status(&self) -> Status {
        self.started.state.status()
    }

    /// Waits until something holds of its status; false if it does not in time.
    pub fn wait(&self, patience: Duration, holds: impl Fn(&Status) -> bool) -> bool {
        self.started.state.wait(patience, holds)
    }

    /// Stops it cleanly. Fails with the reason if it had [ended](Status::has_ended) by itself.
    pub fn stop(mut self) -> Result<()> {
        self.end(Ending::Stopped)
    }

    fn end(&mut self, end: Ending) -> Result<()> {
        if let Some(stop) = self.stop.take() {
            let _ended = stop.send(end);
        }
        let Some(thread) = self.thread.take() else { return Ok(()) };
        thread.join().map_err(|_| Error::internal("the server has panicked; please report it"))?
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Whoever wants to know stops it.
        let _unheard = self.end(Ending::Killed);
    }
}

fn never_started() -> Error {
    Error::unavailable("the server was stopped before it had started")
}

/// A server while it starts.
struct Starting {
    settings: Settings,
    identity: Identity,
    start: u32,
    openings: Vec<Opening>,
    reception: Arc<Reception>,
    inboxes: Vec<UnboundedReceiver<Mail>>,
    threads: Vec<Thread>,
    net: tyr_net::Settings,
    /// Who judges whom to let in, if anybody does.
    gate: Option<Arc<Gate>>,
    listener: Listener,
}

async fn run(
    settings: Settings,
    mut stop: oneshot::Receiver<Ending>,
    tell: impl FnOnce(Started),
) -> Result<()> {
    let (events, Heard { told, mut failed }) = Events::new();
    let (starting, place) = Starting::new(settings, events).await?;
    let settings = starting.settings.clone();
    let state = Arc::new(State::default());
    let _begun = Begun(starting.reception.clone(), state.clone());
    let card = tokio::select! {
        card = starting.belong() => card?,
        _ = &mut stop => return Ok(()),
    };
    settings.belong(&card)?;
    let (node, cluster) = (card.node, card.cluster);
    let running = starting.go(card, &state, told).await?;
    let http = place.as_ref().map(|place| place.address.clone());
    if let Some(place) = place {
        let (reception, console) = (running.reception.clone(), running.console.clone());
        let (gate, tls, metrics_for) = (running.gate.clone(), settings.tls.clone(), settings.metrics);
        http::serve(place, http::Asked { state: state.clone(), reception, console, gate, tls, metrics_for });
    }
    let address = running.listener.address().clone();
    tracing::info!(%node, cluster = %format_args!("{:032x}", cluster.0), %address, "listening");
    tell(Started { address, http, node, cluster, state });
    let failure = tokio::select! {
        end = &mut stop => match end {
            Ok(Ending::Stopped) => None,
            Ok(Ending::Killed) | Err(_) => return running.end(Ending::Killed, Duration::MAX).await,
        },
        error = failed.recv() => error,
    };
    if let Some(error) = &failure {
        tracing::error!(%error, "the server cannot go on");
    }
    let patience = if failure.is_some() { FAILED_MAX } else { Duration::MAX };
    let ended = running.end(Ending::Stopped, patience).await;
    tracing::info!("stopped");
    failure.map_or(ended, Err)
}

/// What a guarded node keeps is for its own user: whoever else could open its files would read past all rights.
fn close_to_others(directory: &Path) -> Result<()> {
    let failed = |error: io::Error| {
        Error::unavailable(format!("cannot keep other users out of '{}': {error}", directory.display()))
    };
    let mode = std::fs::metadata(directory).map_err(failed)?.permissions().mode();
    if mode & 0o077 == 0 {
        return Ok(());
    }
    std::fs::set_permissions(directory, Permissions::from_mode(mode & 0o700)).map_err(failed)
}

/// Ends what a server has begun, whether it could start or not.
struct Begun(Arc<Reception>, Arc<State>);

impl Drop for Begun {
    fn drop(&mut self) {
        self.0.end(Ending::Killed);
        self.1.show(|status| *status = Status { has_ended: true, ..Status::default() });
    }
}

impl Starting {
    /// Opens what is in the directories, and listens, as a newcomer. HTTP is not served yet at its place.
    async fn new(settings: Settings, events: Events) -> Result<(Self, Option<http::Place>)> {
        let failed = |error: io::Error| {
            open_failure(&error).context(format_args!("directory '{}'", settings.directory.display()))
        };
        if settings.directory.exists() && !settings.directory.is_dir() {
            let place = settings.directory.display();
            return Err(Error::invalid(format!(
                "'{place}' is no directory; a node keeps what it has in one of its own"
            )));
        }
        let is_new = !settings.directory.exists();
        std::fs::create_dir_all(&settings.directory).map_err(failed)?;
        let is_guarded = matches!(settings.guarding, Guarding::Secret(_));
        if is_guarded {
            close_to_others(&settings.directory)?;
        }
        let card = Card::load(&settings.directory)?;
        // A new node that cannot begin makes nothing. Another one opens its stores first, which may take long: who dials it meanwhile
        // is refused, and asks others.
        let early = match &card {
            Some(_) => None,
            None => {
                let taken = match settings.check_founder() {
                    Ok(()) => Places::take(&settings).await,
                    Err(error) => Err(error),
                };
                Some(taken.inspect_err(|_| {
                    if is_new {
                        // It is empty. Where it stays it is in nobody's way.
                        let _stays = std::fs::remove_dir(&settings.directory);
                    }
                })?)
            }
        };
        let (openings, start) = settings.open_targets(card.as_ref(), &events)?;
        if is_guarded {
            settings.targets.iter().try_for_each(|target| match target.path.exists() {
                true => close_to_others(&target.path),
                // The node goes on without it.
                false => Ok(()),
            })?;
        }
        let Start { identity, number } = start;
        let (mailboxes, inboxes) = openings.iter().map(|_| Mailbox::new()).unzip();
        let reception = Arc::new(Reception::new(mailboxes, events, &settings.directory));
        let newcomer = Introduction::new(Party::Newcomer { identity: identity.0 }, None);
        let threads = (0..openings.len()).map(Thread::start).collect::<Result<Vec<Thread>>>()?;
        let runtimes = Runtimes::new(threads.iter().map(|thread| thread.runtime().clone()));
        let (credential, gate) = match &settings.guarding {
            Guarding::Local | Guarding::Insecure => (Credential::None, None),
            Guarding::Secret(secret) => {
                let gate = Arc::new(Gate::new(secret.clone(), reception.clone()));
                (Credential::Secret(secret.clone()), Some(gate))
            }
        };
        let porter = gate.clone().map(|gate| gate as Arc<dyn Porter>);
        let net = tyr_net::Settings {
            tls: settings.tls.clone(),
            credential,
            porter,
            runtimes,
            ..tyr_net::Settings::default()
        };
        let Places { listen, http } = match early {
            Some(places) => places,
            None => Places::take(&settings).await?,
        };
        let listener = Listener::listen(listen, newcomer, reception.clone(), net.clone())
            .map_err(|error| cannot_listen(&settings, &error))?;
        let starting = Starting {
            settings,
            identity,
            start: number,
            openings,
            reception,
            inboxes,
            threads,
            net,
            gate,
            listener,
        };
        Ok((starting, http))
    }

    fn address(&self) -> &Address {
        self.settings.advertise.as_ref().unwrap_or(self.listener.address())
    }

    fn member_settings(&self) -> Result<tyr_node::Settings> {
        Ok(tyr_node::Settings {
            identity: self.identity,
            zone: self.settings.zone.clone(),
            weight: self.settings.weight,
            terms: self.settings.timing.lease,
            renew_after: micros(self.settings.timing.renew_after),
            address: cluster::Address::new(&self.address().to_string())?,
        })
    }

    /// Finds out to which cluster the node belongs, if need be by joining or founding one.
    async fn belong(&self) -> Result<Card> {
        if let Some(card) = Card::load(&self.settings.directory)? {
            return Ok(card);
        }
        let shards = self.settings.shards.get();
        let peers = BTreeMap::new();
        let card = if self.settings.join.is_empty() {
            let cluster = ClusterId(random_bits());
            tracing::info!(cluster = %format_args!("{:032x}", cluster.0), "founding a cluster");
            Card { cluster, node: FOUNDER, identity: self.identity, shards, is_founded: false, peers }
        } else {
            let registration = self.registration()?;
            let (cluster, node) = join(&self.settings.join, registration, &self.reception, &self.net).await?;
            Card { cluster, node, identity: self.identity, shards, is_founded: true, peers }
        };
        card.save(&self.settings.directory)?;
        Ok(card)
    }

    fn registration(&self) -> Result<Command> {
        let tyr_node::Settings { identity, zone, weight, address, .. } = self.member_settings()?;
        let incarnation = Incarnation::of(self.start, 0);
        Ok(Command::Register { identity, incarnation, memory_since: incarnation, zone, weight, address })
    }

    /// Starts everything.
    async fn go(self, card: Card, state: &Arc<State>, told: Told) -> Result<Running> {
        let me = Replica { node: card.node, incarnation: Incarnation::of(self.start, 0) };
        self.gate.iter().for_each(|gate| gate.belongs_to(card.cluster));
        self.reception.audit.belongs_to(card.node);
        self.listener.introduce(Peers::introduction(card.cluster, me));
        let address = self.member_settings()?.address;
        let peers = Peers::new(card.cluster, me, address, self.reception.clone(), self.net.clone());
        let peers = Arc::new(peers);
        let links =
            card.peers.iter().filter_map(|(node, address)| Some((*node, peers.learn(*node, address)?)));
        let links: BTreeMap<_, _> = links.collect();
        let timing = self.settings.timing;
        let voting = Voting::start(
            &self.settings.directory.join(MANAGER),
            self.settings.io,
            card.node,
            card.cluster,
            timing.manager,
            peers.clone(),
            Alarm::new("tyr-voter", &self.reception.events),
        )
        .await?;
        *self.reception.voting.write() = Some(voting.clone());
        let member = Member::new(self.member_settings()?, card.node, self.start);
        let console =
            Console::new(card.node, card.cluster, state.clone(), self.reception.clone(), peers.clone());
        let console = Arc::new(console);
        tokio::spawn(console.clone().watch());
        let party = Party::Newcomer { identity: self.identity.0 };
        let greeters = greet(&self.settings.join, party, &self.reception, &self.net);
        let patience = micros(timing.patience);
        let gossiper = Peer { node: card.node, incarnation: Incarnation(u64::from(self.start)), revival: 0 };
        let keeper = Keeper::new(self.settings.directory.clone(), card.clone());
        if card.node == FOUNDER {
            let founding = found(
                voting.clone(),
                self.identity,
                self.settings.class,
                keeper.clone(),
                self.reception.events.clone(),
            );
            tokio::spawn(founding);
        }
        tokio::spawn(watch(voting.clone(), self.reception.events.clone()));
        let membership = Membership {
            member,
            gossip: Gossip::new(gossiper, timing.gossip, random()),
            contact: Membership::contact(card.node, &peers, None, patience),
            sealer: Sealer::new(voting.clone(), card.cluster, &self.settings.guarding),
            voting,
            peers,
            reception: self.reception.clone(),
            console: console.clone(),
            state: state.clone(),
            cluster: card.cluster,
            keeper,
            directory: self.settings.directory.clone(),
            patience,
            known: Default::default(),
            leader: None,
            reported: BTreeMap::new(),
            serving_members: Arc::new(Semaphore::new(SERVING_MAX)),
            serving_others: Arc::new(Semaphore::new(SERVING_MAX)),
            greeters,
            met: Vec::new(),
            left_since: None,
            ledger: Default::default(),
            uses: Default::default(),
            uses_told_at: None,
            failures_told_at: None,
        };
        let exporter = self.settings.traces.clone().map(|collector| {
            let (exporter, _exporting) = Exporter::start(collector, "tyr", &format!("node {}", card.node.0));
            self.reception.exporter.get_or_init(|| exporter).clone()
        });
        let (reception, listener) = (self.reception, self.listener);
        let entry_max = tyr_node::entry_max(self.settings.store.segment_size);
        let limits = self.settings.limits;
        let limits = Limits { entry_max: limits.entry_max.min(entry_max), ..limits };
        let slow_after = micros(self.settings.slow);
        let (mut shards, mut stores) = (Vec::new(), Vec::new());
        let (says, hushed) = mpsc::channel(1);
        let ids = ShardId::all(self.settings.shards);
        let directories: Vec<PathBuf> =
            self.openings.iter().map(|opening| opening.directory.clone()).collect();
        let openings = ids.zip(self.openings).zip(self.inboxes).zip(self.threads);
        for (place, (((id, opening), inbox), thread)) in openings.enumerate() {
            let opened = opening.target.and_then(|target| {
                let journal = Journal::open(target.store.clone(), id, tyr_node::Options::default())?;
                Ok((target, journal))
            });
            let (target, (journal, found)) = match opened {
                Ok(opened) => opened,
                Err(error) if self.settings.can_lose_targets() => {
                    let mailbox = reception.mailboxes[place].clone();
                    let report = lost_report(opening.directory.display().to_string(), opening.weight);
                    let alarm = Alarm::new(format!("tyr-shard-{place}"), &reception.events);
                    let lost = Lost { inbox, mailbox, report, reason: error, alarm };
                    shards.push(thread.begin(Task::Lost(Box::new(lost))));
                    continue;
                }
                Err(error) => return Err(error),
            };
            stores.push((journal.number(), Arc::downgrade(&target.store), target.directory.clone()));
            let found = found.into_iter().map(|restored: Restored| restored.into_partition(me));
            let mut shard = Shard::new(id, me, Arc::new(Keyspaces::new()), found);
            shard.set_limits(limits);
            let (reception, links, says) = (reception.clone(), links.clone(), says.clone());
            let weight = opening.weight;
            let beside = room::on_device_of(&opening.directory, directories.iter().map(PathBuf::as_path));
            let room = Room::new(self.settings.store.segment_size, beside);
            let exporter = exporter.clone();
            let runner = Runner {
                shard,
                journal,
                target,
                weight,
                room,
                inbox,
                reception,
                links,
                slow_after,
                exporter,
                says,
            };
            shards.push(thread.begin(Task::Run(Box::new(runner))));
        }
        let shown = Shown { stores, reception: reception.clone(), is_guarded: self.gate.is_some() };
        let owner = HatchOwner { cluster: card.cluster.0, node: card.node.0 };
        let hatch = shown.open(self.settings.directory.join(HATCH), owner);
        let (gives_up, gave_up) = oneshot::channel();
        tokio::spawn(membership.run(told, gives_up));
        Ok(Running { reception, console, gate: self.gate, listener, _hatch: hatch, gave_up, hushed, shards })
    }
}

/// A server that serves.
struct Running {
    reception: Arc<Reception>,
    console: Arc<Console>,
    gate: Option<Arc<Gate>>,
    listener: Listener,
    _hatch: Option<Hatch>,
    /// The membership has given up the lease.
    gave_up: oneshot::Receiver<()>,
    /// Ends when no shard has anything more to say.
    hushed: mpsc::Receiver<Infallible>,
    shards: Vec<Busy>,
}

impl Running {
    /// Serves nobody any more. If it is stopped it makes durable what was taken, and sends what there is to send. Its shards are waited for
    /// so long at most.
    async fn end(mut self, end: Ending, patience: Duration) -> Result<()> {
        self.reception.events.stop(end);
        if end == Ending::Stopped {
            // If the membership has died, nobody renews the lease, and nobody hands anything over.
            let _died = timeout(GIVE_UP_MAX, self.gave_up).await;
        }
        let last: Arc<[Notice]> = Arc::new([Notice::Lease(None)]);
        for mailbox in &self.reception.mailboxes {
            mailbox.put(Mail::Notices(None, last.clone()));
        }
        self.reception.end(end);
        let (stays, shards): (Vec<_>, Vec<_>) = self.shards.into_iter().map(Busy::into_parts).unzip();
        let joined = tokio::task::spawn_blocking(move || {
            let ended = shards.into_iter().map(|shard| {
                shard
                    .join()
                    .unwrap_or_else(|_| Err(Error::internal("a shard has panicked; please report it")))
            });
            ended.collect::<Result<Vec<()>>>().map(drop)
        });
        let joined = async {
            match timeout(patience, joined).await {
                Ok(joined) => joined.map_err(|_| Error::internal("the shards could not be waited for"))?,
                Err(_) => Err(Error::unavailable("a shard is stuck; check its device")),
            }
        };
        if end == Ending::Killed {
            drop(stays);
            return joined.await;
        }
        // Clients hear that nothing more comes as soon as that is so, and not when the last store is closed.
        let hushed = async {
            let _hushed = timeout(patience, self.hushed.recv()).await;
            // Connections that run on the thread of a shard that is stuck do not end.
            let _closed = timeout(patience, self.listener.close()).await;
            drop(stays);
        };
        tokio::join!(joined, hushed).0
    }
}

/// The node cannot go on without its voter, which ends when it cannot keep what it promises.
async fn watch(voting: Voting, events: Events) {
    let reason = voting.voter.ended().await;
    events.fail(Error::unavailable(format!(
        "the cluster manager's journal keeps nothing any more: {reason}; check its device, and start the node again"
    )));
}

/// Begins the cluster if it has not begun, and makes its class.
async fn found(voting: Voting, identity: Identity, class: ClassSettings, keeper: Keeper, events: Events) {
    let voter = &voting.voter;
    let card = keeper.card();
    if !card.is_founded {
        // One that has begun refuses.
        let _begun_before = voter.found([card.node].into()).await;
        while voter.look(cluster::Cluster::version) == RingVersion(0) {
            if let Ok(Err(refusal)) = voter.propose(Command::Found(vec![identity])).await
                && voter.look(cluster::Cluster::version) == RingVersion(0)
            {
                return events.fail(Error::internal(format!("the cluster cannot be founded: {refusal:?}")));
            }
            tokio::time::sleep(PAUSE).await;
        }
        let kept = tokio::task::spawn_blocking(move || keeper.change(|card| card.is_founded = true)).await;
        if let Ok(Err(error)) = kept {
            tracing::warn!(%error, "cannot keep that the cluster was founded");
        }
    }
    while voter.look(|cluster| cluster.class(ClassId(0)).is_none()) {
        if voter.leading_term().is_some()
            && let Ok(Err(refusal)) = voter.propose(Command::CreateClass(ClassId(0), class)).await
            && voter.look(|cluster| cluster.class(ClassId(0)).is_none())
        {
            return events.fail(Error::invalid(format!("the class cannot be made: {refusal:?}")));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// How a shard is doing that has no store.
fn lost_report(directory: String, weight: u32) -> ShardReport {
    ShardReport { directory, weight, has_failed: true, ..ShardReport::default() }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Who founds a cluster has this number.
const FOUNDER: NodeId = NodeId(1);
/// The socket in a node's directory at which it hands files to readers on its host.
const HATCH: &str = "hatch";
/// Threads for connections, the cluster manager, and gossip.
const WORKERS: usize = 2;
const PAUSE: Duration = Duration::from_millis(20);
/// The membership has given up the lease, and handed over, within this time, unless it has died.
const GIVE_UP_MAX: Duration = Duration::from_secs(2);
/// After a failure shards are waited for this long: longer than one takes that has not failed.
const FAILED_MAX: Duration = Duration::from_secs(15);

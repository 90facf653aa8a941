//! A store that is a cluster: what its handles share, and what they do.
//!
//! A handle turns what its caller wants into calls of the driver and waits for their answers. Invariant: whatever a handle keeps of a
//! transaction is what the driver was told in the same order, since calls overtake one another nowhere.

mod copies;
mod draft;
pub mod keyspace;
mod named;
mod reading;
pub mod run;
mod scan;
pub mod snapshot;
pub mod transaction;

use std::{
    hash::BuildHasher,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use tokio::{
    runtime,
    sync::{mpsc, oneshot},
    time::Instant,
};
use tyr_embed::{KeyspaceSettings, Result};
use tyr_net::Address;
use tyr_proto::{
    Copies, SessionId, Uses,
    cluster::{self, Answer, Command, Zone},
};
use tyr_types::{Error, ErrorKind, KeyspaceId, KeyspaceName};

use crate::{
    clock::Clock,
    driver::{
        Beginning, Counts, Driver, Tracing,
        call::{Answered, Call, Handle, Reply},
        catalog::Catalog,
        links::Means,
    },
    recalls::Recalls,
    words,
};
use copies::Borrowed;
pub use keyspace::{Entry, Keyspace};

/// What all handles of one client share.
#[derive(Debug)]
pub struct Core {
    calls: mpsc::UnboundedSender<Call>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) counts: Arc<Counts>,
    handles: Arc<AtomicU64>,
    /// What is lent to this client, if it keeps any of that.
    borrowed: Option<Arc<Borrowed>>,
    patience: Duration,
}

/// An open cluster.
#[derive(Clone, Debug)]
pub struct Cluster {
    pub(crate) core: Arc<Core>,
}

/// How a cluster is reached.
#[derive(Debug)]
pub struct Reaching {
    /// Addresses of some of its nodes.
    pub addresses: Vec<Address>,
    /// By what connections are made.
    pub means: Means,
    /// The client's zone, if it is in one.
    pub zone: Option<Zone>,
    /// Whether files of nodes on this host are read here.
    pub reads_files: bool,
    /// Which transactions are traced, if any are.
    pub tracing: Option<Tracing>,
    /// What shows the time.
    pub clock: Clock,
    /// Whether what is lent is kept.
    pub keeps_copies: bool,
}

impl Core {
    /// The same with another patience.
    fn within(&self, patience: Duration) -> Arc<Core> {
        Arc::new(Core {
            calls: self.calls.clone(),
            catalog: self.catalog.clone(),
            counts: self.counts.clone(),
            handles: self.handles.clone(),
            borrowed: self.borrowed.clone(),
            patience,
        })
    }

    /// Whether two are of one client.
    pub fn is(&self, other: &Core) -> bool {
        Arc::ptr_eq(&self.handles, &other.handles)
    }

    /// Names something new.
    pub fn handle(&self) -> Handle {
        Handle(self.handles.fetch_add(1, Ordering::Relaxed))
    }

    /// When a call that is made now has waited too long.
    pub fn until(&self) -> Instant {
        let now = Instant::now();
        now.checked_add(self.patience).unwrap_or(now + PATIENCE_MAX)
    }

    /// Tells the driver something. If it has ended, nobody needs to hear it.
    pub fn tell(&self, call: Call) {
        let _ = self.calls.send(call);
    }

    /// What is taken back of what is lent to this client, from now on.
    pub fn recalls(&self) -> Option<Recalls> {
        self.borrowed.as_ref()?;
        let (teller, receiver) = mpsc::unbounded_channel();
        self.tell(Call::TellRecalls { teller, calls: self.calls.downgrade() });
        Some(Recalls::new(receiver))
    }

    /// Asks the driver something, at once; the answer is waited for by whoever waits for what is returned.
    pub fn ask<T>(&self, call: impl FnOnce(Reply<T>) -> Call) -> Answered<T> {
        let (reply, answer) = oneshot::channel();
        self.tell(call(reply));
        Answered(answer)
    }

    /// Learns what has changed in the cluster.
    pub fn refresh(&self) -> Answered<()> {
        let until = self.until();
        self.ask(|reply| Call::Refresh { until, reply })
    }

    async fn command(&self, command: Command) -> Result<Answer> {
        let until = self.until();
        let reply = self.ask(|reply| Call::Manage { command, until, reply }).await?;
        reply.map_err(words::not_managed)
    }

    /// Waits until something is known here that the cluster manager has said is so. One answer of who leads is enough: if it is not
    /// known then, it has changed again.
    async fn learn(&self, is_known: impl Fn(&Catalog) -> bool) -> Result<()> {
        match is_known(&self.catalog) {
            true => Ok(()),
            false => self.refresh().await,
        }
    }
}

/// What keyspaces hold is waited for this long: a new leader of the cluster manager does not know it yet.
const USES_PATIENCE: Duration = Duration::from_secs(5);
/// The longest patience that can be counted with.
const PATIENCE_MAX: Duration = Duration::from_secs(1 << 30);

impl Cluster {
    /// Connects to a cluster by any of its addresses. Fails if none answers within the time.
    pub async fn connect(reaching: Reaching, connect_max: Duration, patience: Duration) -> Result<Cluster> {
        let (cluster, beginning) = Cluster::begin(reaching, SessionId::of_client(random()).0, patience);
        thread::Builder::new()
            .name("tyr-client".into())
            .spawn(move || drive(beginning))
            .map_err(|error| Error::unavailable(format!("cannot start a thread: {error}")))?;
        cluster.meet(connect_max).await?;
        Ok(cluster)
    }

    /// A cluster that is not connected, and what its driver begins with.
    pub(crate) fn begin(reaching: Reaching, session: u64, patience: Duration) -> (Cluster, Beginning) {
        let Reaching { addresses, means, zone, reads_files, tracing, clock, keeps_copies } = reaching;
        let copies = keeps_copies.then(Copies::default);
        let borrowed = copies.clone().map(|copies| Arc::new(Borrowed::new(copies, clock)));
        let counts = Arc::new(Counts::default());
        let (calls, heard) = mpsc::unbounded_channel();
        let catalog = Arc::new(Catalog::default());
        let beginning = Beginning {
            seeds: addresses,
            means,
            zone,
            reads_files,
            tracing,
            clock,
            copies,
            counts: counts.clone(),
            session,
            catalog: catalog.clone(),
            calls: heard,
        };
        let handles = Arc::new(AtomicU64::new(1));
        let core = Core { calls, catalog, counts, handles, borrowed, patience };
        (Cluster { core: Arc::new(core) }, beginning)
    }

    /// Learns what the cluster is. Fails if nobody tells within the time.
    pub(crate) async fn meet(&self, connect_max: Duration) -> Result<()> {
        let until = Instant::now() + connect_max.min(PATIENCE_MAX);
        let met = self.core.ask(|reply| Call::Refresh { until, reply });
        met.await.map_err(|error| match error.kind() {
            // It was reached, and says no, or it is two.
            ErrorKind::Denied | ErrorKind::Invalid => error,
            _ => error.context("the cluster cannot be reached"),
        })
    }

    /// See [`crate::Store::within`].
    pub fn within(&self, patience: Duration) -> Cluster {
        Cluster { core: self.core.within(patience) }
    }

    /// Creates a keyspace.
    pub async fn create_keyspace(&self, name: &str, settings: KeyspaceSettings) -> Result<Keyspace> {
        let name = KeyspaceName::new(name)?;
        settings.check()?;
        let class = self.core.catalog.class_for(settings.durability)?;
        let command = Command::CreateKeyspace { name: name.clone(), class, seed: random(), settings };
        let answer = self.core.command(command).await.map_err(|error| match error.kind() {
            ErrorKind::Exists => words::keyspace_exists(&name),
            _ => error,
        })?;
        let Answer::KeyspaceCreated(id, _) = answer else {
            return Err(Error::internal("the answer to a keyspace's creation names it; please report it"));
        };
        self.core.learn(|catalog| catalog.exists(id)).await?;
        Ok(self.open(id, name))
    }

    /// An existing keyspace, if it is known here.
    pub fn known_keyspace(&self, name: &str) -> Option<Keyspace> {
        let (id, known) = self.core.catalog.find(name)?;
        Some(self.open(id, known.name))
    }

    fn open(&self, id: KeyspaceId, name: KeyspaceName) -> Keyspace {
        Keyspace { core: self.core.clone(), entry: Arc::new(Entry { id, name }) }
    }

    /// All keyspaces that are known here, in the order of their names.
    pub fn known_keyspaces(&self) -> Vec<(KeyspaceId, cluster::Keyspace)> {
        let mut all = self.core.catalog.all();
        all.sort_by(|a, b| a.1.name.cmp(&b.1.name));
        all
    }

    /// What keyspaces with quotas hold; nothing if the cluster does not tell.
    pub async fn uses(&self) -> Result<Uses> {
        let until = self.core.until().min(Instant::now() + USES_PATIENCE);
        self.core.ask(|reply| Call::Uses { until, reply }).await
    }

    async fn find(&self, name: &str) -> Result<(KeyspaceId, cluster::Keyspace)> {
        self.core.refresh().await?;
        self.core.catalog.find(name).ok_or_else(|| words::no_keyspace(name))
    }

    /// Gives a keyspace other settings.
    pub async fn alter_keyspace(&self, name: &str, settings: KeyspaceSettings) -> Result<()> {
        settings.check()?;
        let (id, known) = self.find(name).await?;
        if settings.chunk_size != known.settings.chunk_size
            || settings.durability != known.settings.durability
        {
            return Err(Error::invalid(
                "the chunk size and the durability of a cluster's keyspace cannot be altered; create another keyspace",
            ));
        }
        if !settings.multi_version && !known.snapshots.is_empty() {
            return Err(Error::invalid(format!(
                "keyspace '{name}' has snapshots, which need former versions; drop its snapshots first"
            )));
        }
        // Who administers a keyspace may not be who sets its quota: if that is denied, nothing has been done.
        if settings.quota != known.settings.quota {
            self.core.command(Command::SetQuota { id, quota: settings.quota }).await?;
        }
        let others = KeyspaceSettings { quota: known.settings.quota, ..settings.clone() };
        if others != known.settings {
            self.core.command(Command::AlterKeyspace { id, settings: settings.clone() }).await?;
        }
        self.core.learn(|catalog| catalog.settings(id) == settings || !catalog.exists(id)).await
    }

    /// Drops a keyspace with everything in it.
    pub async fn drop_keyspace(&self, name: &str) -> Result<()> {
        let (id, _) = self.find(name).await?;
        self.core.command(Command::DropKeyspace(id)).await?;
        self.core.learn(|catalog| !catalog.exists(id)).await
    }

    /// Returns when every commit so far is on disk.
    pub fn flush(&self) -> Result<()> {
        match self.core.catalog.is_on_disk() {
            true => Ok(()),
            false => Err(words::not_in_a_cluster("to flush keyspaces of durability 'memory'")),
        }
    }

    /// Ends, when what was sent has ended or a few seconds are over.
    pub async fn close(self) -> Result<()> {
        // If it has ended already, that is as good.
        let _ = self.core.ask(|reply| Call::Close { reply }).await;
        Ok(())
    }
}

/// The thread of a client.
fn drive(beginning: Beginning) {
    let mut runtime = runtime::Builder::new_current_thread();
    let runtime = runtime.enable_io().enable_time().max_blocking_threads(SLOW_READS_MAX).build();
    // Without one, whoever asks anything is told that the store is closed.
    let Ok(runtime) = runtime else { return };
    runtime.block_on(async { Driver::new(beginning).run().await });
}

/// As many files that are not in memory are read at once.
const SLOW_READS_MAX: usize = 16;

/// A random number that is not 0, from the seed that the standard library draws for its maps.
pub fn random() -> u64 {
    // Children of a fork begin with the same state, and have to come to other numbers.
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    std::hash::RandomState::new().hash_one((std::process::id(), now)).max(1)
}

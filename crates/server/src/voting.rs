//! The voter of this node: its journal on a disk of its own, and what carries its questions to others.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        mpsc::{Receiver, Sender, channel},
    },
};

use tokio::sync::oneshot;
use tyr_env::Disk;
use tyr_manager::{Change, DiskJournal, Exchange, Journal, Kept, Post, Timing, Voter, VoterId};
use tyr_net::channels::CONSENSUS;
use tyr_os::{IoMode, OsDisk, OsOptions};
use tyr_proto::{NodeId, cluster::ClusterId};
use tyr_types::{Error, Result};
use tyr_wire::connection::Frame;

use crate::{
    alarm::Alarm,
    peers::Peers,
    reserve::Reserve,
    surroundings::{Here, random},
};

/// A voter that runs.
#[derive(Clone)]
pub(crate) struct Voting {
    pub voter: Voter<Here, Synced>,
    exchange: Exchange<Mailer>,
}

/// A journal that one thread writes, in the order of the calls: no task waits for a disk.
#[derive(Clone)]
pub(crate) struct Synced {
    journal: DiskJournal<Here>,
    writer: Sender<Write>,
}

/// A change to keep, and who waits for that.
type Write = (Change<Here>, oneshot::Sender<io::Result<()>>);

impl Synced {
    fn new(journal: DiskJournal<Here>, room: Room, alarm: Alarm) -> io::Result<Self> {
        let (writer, writes) = channel();
        let written = journal.clone();
        let body = move || {
            let _alarm = alarm;
            keep_all(&written, &room, &writes);
        };
        std::thread::Builder::new().name("tyr-voter".into()).spawn(body)?;
        Ok(Synced { journal, writer })
    }
}

/// Keeps changes until nobody is left who could want that. What has come meanwhile is synced together.
fn keep_all(journal: &DiskJournal<Here>, room: &Room, writes: &Receiver<Write>) {
    while let Ok(first) = writes.recv() {
        room.ease();
        let mut waiting = Vec::new();
        for (change, waiter) in std::iter::once(first).chain(writes.try_iter().take(BATCH)) {
            match journal.write(change) {
                Ok(()) => waiting.push(waiter),
                // Whoever waited may be gone, here and below.
                Err(error) => drop(waiter.send(Err(error))),
            }
        }
        let synced = journal.sync();
        for waiter in waiting {
            let told = synced.as_ref().map_err(|error| io::Error::new(error.kind(), error.to_string()));
            let _gone = waiter.send(told.copied());
        }
    }
}

/// Where the journal is, and the room that is kept for it there.
struct Room {
    directory: PathBuf,
    disk: Arc<dyn Disk>,
    reserve: Reserve,
}

impl Room {
    /// Sees to it that there is some for what is written next.
    fn ease(&self) {
        // Where it is not known how much there is, a write tells.
        let Ok(space) = self.disk.space() else { return };
        if self.reserve.ease(space.free) {
            tracing::warn!(
                directory = %self.directory.display(),
                "the device of the cluster manager's journal is full; it goes on in the room that was kept for it: make more before that is used up"
            );
        }
    }
}

impl Journal<Here> for Synced {
    fn load(&self) -> io::Result<Kept<Here>> {
        self.journal.load()
    }

    async fn keep(&self, change: Change<Here>) -> io::Result<()> {
        let ended = || io::Error::other("the thread that writes the journal has ended");
        let (waiter, kept) = oneshot::channel();
        self.writer.send((change, waiter)).map_err(|_| ended())?;
        kept.await.map_err(|_| ended())?
    }
}

/// As many changes are kept by one sync.
const BATCH: usize = 256;

/// Posts to other voters. What is for one whose address is not known is lost, and asked again.
#[derive(Clone)]
pub(crate) struct Mailer(Arc<Peers>);

impl Post for Mailer {
    fn post(&self, to: VoterId, message: Vec<u8>) {
        if let Some(frame) = Frame::message(CONSENSUS, |out| out.extend_from_slice(&message)) {
            self.0.send(NodeId(to), frame);
        }
    }
}

impl Voting {
    /// Starts the voter on what its directory has.
    pub async fn start(
        directory: &Path,
        io: IoMode,
        node: NodeId,
        cluster: ClusterId,
        timing: Timing,
        peers: Arc<Peers>,
        alarm: Alarm,
    ) -> Result<Voting> {
        let failed = |error: io::Error| {
            let message = format!("the cluster manager's journal in '{}': {error}", directory.display());
            match error.kind() {
                io::ErrorKind::InvalidData => Error::corrupt(message),
                _ => Error::unavailable(message),
            }
        };
        let start = async || {
            let disk = OsDisk::open(directory, OsOptions { create: true, io })?;
            let room =
                Room { directory: directory.into(), disk: disk.clone(), reserve: Reserve::beside(directory) };
            let journal = Synced::new(DiskJournal::open(disk)?, room, alarm.clone())?;
            let exchange = Exchange::new(Mailer(peers.clone()), random());
            let voter = Voter::start(node, cluster, timing, journal, exchange.clone()).await?;
            Ok(Voting { voter, exchange })
        };
        let reserve = Reserve::beside(directory);
        let voting = reserve.with(start).await.map_err(failed)?;
        reserve.keep();
        Ok(voting)
    }

    /// A message from another voter. False if it makes no sense, or if there are too many.
    pub fn receive(&self, from: NodeId, message: &[u8]) -> bool {
        self.exchange.receive(from.0, message, &self.voter)
    }
}

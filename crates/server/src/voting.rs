//! The voter of this node: its journal on a disk of its own, and what carries its questions to others.

use std::{io, path::Path, sync::Arc};

use tyr_manager::{Change, DiskJournal, Exchange, Journal, Kept, Post, Timing, Voter, VoterId};
use tyr_net::channels::CONSENSUS;
use tyr_os::{IoMode, OsDisk, OsOptions};
use tyr_proto::{NodeId, cluster::ClusterId};
use tyr_types::{Error, Result};
use tyr_wire::connection::Frame;

use crate::{
    peers::Peers,
    surroundings::{Here, random},
};

/// A voter that runs.
#[derive(Clone)]
pub(crate) struct Voting {
    pub voter: Voter<Here, Synced>,
    exchange: Exchange<Mailer>,
}

/// A journal that syncs on threads that may wait.
#[derive(Clone)]
pub(crate) struct Synced(DiskJournal<Here>);

impl Journal<Here> for Synced {
    fn load(&self) -> io::Result<Kept<Here>> {
        self.0.load()
    }

    async fn keep(&self, change: Change<Here>) -> io::Result<()> {
        // Written here, so that changes have the order of the calls.
        self.0.write(change)?;
        let journal = self.0.clone();
        tokio::task::spawn_blocking(move || journal.sync()).await.map_err(io::Error::other)?
    }
}

/// Posts to other voters. What is for one whose address is not known is lost, and asked again.
#[derive(Clone)]
pub(crate) struct Mailer(Arc<Peers>);

impl Post for Mailer {
    fn post(&self, to: VoterId, message: Vec<u8>) {
        let Some(link) = self.0.link(NodeId(to)) else { return };
        if let Some(frame) = Frame::message(CONSENSUS, |out| out.extend_from_slice(&message)) {
            let _lost = link.send(frame);
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
    ) -> Result<Voting> {
        let failed = |error: io::Error| {
            let message = format!("the cluster manager's journal in '{}': {error}", directory.display());
            match error.kind() {
                io::ErrorKind::InvalidData => Error::corrupt(message),
                _ => Error::unavailable(message),
            }
        };
        let disk = OsDisk::open(directory, OsOptions { create: true, io }).map_err(failed)?;
        let journal = Synced(DiskJournal::open(disk).map_err(failed)?);
        let exchange = Exchange::new(Mailer(peers), random());
        let voter = Voter::start(node, cluster, timing, journal, exchange.clone()).await.map_err(failed)?;
        Ok(Voting { voter, exchange })
    }

    /// A message from another voter. False if it makes no sense, or if there are too many.
    pub fn receive(&self, from: NodeId, message: &[u8]) -> bool {
        self.exchange.receive(from.0, message, &self.voter)
    }
}

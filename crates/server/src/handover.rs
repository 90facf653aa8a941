//! How a node that stops hands over what it holds, so that nobody waits until its lease has run out.
//!
//! It gives up its lease, and serves nobody when every shard knows that. Only then does it tell the cluster manager that all its replicas
//! are as good as dead: what a node says of a shard that has failed, of all shards at once. Others take over at once, and hear of it at
//! once. Nobody needs to hear anything for the cluster to be safe: without it the others wait for the lease, as if the node had been
//! killed.

use std::{collections::BTreeSet, convert::Infallible, sync::Arc, time::Duration};

use tokio::{
    sync::mpsc,
    time::{Instant, sleep, timeout_at},
};
use tyr_net::channels::MANAGER;
use tyr_proto::{
    ClassId, NodeId, PartitionId, Replica, RingVersion,
    cluster::{Answer, Command, Fact, Request, Response},
};
use tyr_wire::connection::Frame;

use crate::{peers::Peers, reception::Reception, voting::Voting};

/// What a node that stops has to say, and to whom.
pub(crate) struct Handover {
    pub replica: Replica,
    pub voting: Voting,
    pub peers: Arc<Peers>,
    pub reception: Arc<Reception>,
    /// Who answered last.
    pub leader: Option<NodeId>,
    /// The classes of which nothing is written.
    pub in_memory: BTreeSet<ClassId>,
    /// Closed when no shard serves any more.
    pub ceased: mpsc::Receiver<Infallible>,
}

impl Handover {
    /// Says it until it is heard, but not for long.
    pub async fn run(mut self) {
        let others = self.peers.nodes();
        if others.is_empty() {
            return;
        }
        let end = Instant::now() + PATIENCE;
        let told = timeout_at(end, async {
            if let Some(never) = self.ceased.recv().await {
                match never {}
            }
            self.tell(&others).await
        });
        match told.await {
            Ok(Some((leader, version))) => {
                self.spread(&others);
                let left = timeout_at(end, self.left(leader, version)).await;
                self.say(left.ok().flatten());
                if self.voting.voter.leading_term().is_some() {
                    // The others learn of it from the one who leads.
                    sleep(LINGER).await;
                }
            }
            Ok(None) => tracing::debug!("the node holds nothing that could be handed over"),
            Err(_) => {
                tracing::warn!(
                    "nobody has heard that the node stops; the others wait until its lease is over"
                )
            }
        }
    }

    /// Tells the one who leads. Who that is, and since when it is so; none if this incarnation holds nothing.
    async fn tell(&self, others: &[NodeId]) -> Option<(NodeId, RingVersion)> {
        let me = self.replica.node;
        let command = Command::Lose { replica: self.replica, shard: 0, shards: 1 };
        let request = Request::Command(command);
        let mut next = self.leader.unwrap_or(me);
        let mut turn = others.iter().copied().chain([me]).cycle();
        loop {
            let step = Instant::now() + STEP;
            let response = timeout_at(step, self.ask(next, request.clone())).await;
            next = match response.ok().flatten() {
                Some(Response::Replied(Ok(Answer::Done(version)))) => return Some((next, version)),
                Some(Response::Replied(_)) => return None,
                Some(Response::Elsewhere(Some(leader))) => leader,
                _ => turn.next().unwrap_or(me),
            };
            sleep(PAUSE).await;
        }
    }

    /// The partitions that nobody serves since this version, at which the node has lost its replicas; none if that is not told.
    async fn left(&self, leader: NodeId, version: RingVersion) -> Option<Vec<PartitionId>> {
        let before = RingVersion(version.0.checked_sub(1)?);
        let Some(Response::Ring(difference)) = self.ask(leader, Request::Ring(before)).await else {
            return None;
        };
        let left = difference.facts.iter().filter_map(|fact| match fact {
            Fact::Partition(id, now, _) if now.replicas.is_empty() && now.since == version => Some(*id),
            _ => None,
        });
        Some(left.collect())
    }

    /// Says what others have, and what nobody has.
    fn say(&self, left: Option<Vec<PartitionId>>) {
        let Some(left) = left else {
            return tracing::info!("the others know that the node stops");
        };
        let lost = left.iter().filter(|partition| self.in_memory.contains(&partition.class)).count();
        let waiting = left.len() - lost;
        if lost > 0 {
            tracing::warn!(
                partitions = lost,
                "nobody else holds these partitions, which are in memory: what is in them is lost"
            );
        }
        if waiting > 0 {
            tracing::warn!(
                partitions = waiting,
                "nobody else holds these partitions: they are served when the node is started again"
            );
        }
        if left.is_empty() {
            tracing::info!("what the node held is handed over");
        }
    }

    async fn ask(&self, node: NodeId, request: Request) -> Option<Response> {
        if node == self.replica.node {
            return self.voting.voter.serve(request).await;
        }
        let way = self.reception.relay.way(node, &self.peers.link(node)?);
        let (_, response) = self.reception.asking.ask_member(node, &way, &request).await.ok()?;
        Some(response)
    }

    /// Tells everybody that there is news.
    fn spread(&self, others: &[NodeId]) {
        for node in others {
            if let Some(frame) = Frame::message(MANAGER, |_| {}) {
                self.peers.send(*node, frame);
            }
        }
    }
}

/// It is said for this long at most: a lease is not much longer.
const PATIENCE: Duration = Duration::from_secs(1);
/// An answer is waited for this long before another one is asked.
const STEP: Duration = Duration::from_millis(300);
const PAUSE: Duration = Duration::from_millis(10);
/// Who leads goes on for this long, so that the others learn what has changed.
const LINGER: Duration = Duration::from_millis(200);

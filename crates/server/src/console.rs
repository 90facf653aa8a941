//! What there is to see of a cluster, for people: any node gathers it from all others, and shows it.
//!
//! It looks, and shows each what his rights cover; what an administrator may have done through it is in [`acts`]. What it needs it asks of the other nodes at once, and does not wait long for any of them: a view is there to be seen when
//! something is wrong. Whoever looks next within a moment sees the same, so that many who look cost as much as one.

mod acts;
mod cluster;
mod node;
mod page;
mod samples;
pub(crate) mod view;
mod viewer;
mod work;

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use parking_lot::Mutex;
use tokio::{sync::Semaphore, time::timeout};
use tyr_proto::{
    NodeId, RingVersion, Time,
    cluster::{Cluster, ClusterId, Difference, Fact, Position, Request, Response, ViewOf},
};

pub(crate) use cluster::counts_of;
pub(crate) use page::{Page, still_page, told_page};
pub(crate) use samples::sum;
pub(crate) use viewer::Viewer;

use self::{
    samples::{EVERY_MS, Samples},
    view::{ClusterView, NodeView},
};
use crate::{
    event::Question,
    peers::Peers,
    reception::Reception,
    state::State,
    surroundings::{now, wall_clock},
};

/// Gathers what there is to see.
pub(crate) struct Console {
    me: NodeId,
    cluster: ClusterId,
    state: Arc<State>,
    reception: Arc<Reception>,
    peers: Arc<Peers>,
    samples: Mutex<Samples>,
    /// The view of the cluster that was gathered last, and when. Locked while another one is gathered.
    gathered: tokio::sync::Mutex<Option<(Time, Arc<ClusterView>)>>,
    /// Questions that are being answered.
    serving: Arc<Semaphore>,
}

impl Console {
    /// A node's console.
    pub fn new(
        me: NodeId,
        cluster: ClusterId,
        state: Arc<State>,
        reception: Arc<Reception>,
        peers: Arc<Peers>,
    ) -> Self {
        let serving = Arc::new(Semaphore::new(SERVING_MAX));
        let (samples, gathered) = (Mutex::default(), tokio::sync::Mutex::default());
        Console { me, cluster, state, reception, peers, samples, gathered, serving }
    }

    /// Takes samples for ever, at moments that are the same on all nodes whose clocks agree.
    pub async fn watch(self: Arc<Self>) {
        loop {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
            let left = EVERY_MS - u64::try_from(since % u128::from(EVERY_MS)).unwrap_or(0);
            tokio::time::sleep(Duration::from_millis(left)).await;
            let (total, usage) = self.done();
            self.samples.lock().take(wall_clock(), total, usage);
        }
    }

    /// Answers somebody who wants to see something. Too many at once have to ask again.
    pub fn serve(self: Arc<Self>, scope: ViewOf, question: Question) {
        let Ok(permit) = self.serving.clone().try_acquire_owned() else { return };
        tokio::spawn(async move {
            let _permit = permit;
            let text = match scope {
                ViewOf::Node => self.node_text(&Viewer::anybody()),
                ViewOf::Cluster => self.cluster_text(&Viewer::anybody()).await,
            };
            question.back.reply(Response::View(text));
        });
    }

    /// What there is to see of this node, as JSON.
    pub fn node_text(&self, viewer: &Viewer) -> Option<String> {
        let mut view = self.node_view();
        viewer.see_node(&mut view);
        serde_json::to_string(&view).ok()
    }

    /// What there is to see of the cluster, as JSON.
    pub async fn cluster_text(&self, viewer: &Viewer) -> Option<String> {
        let gathered = self.cluster_view().await;
        let mut view = ClusterView::clone(&gathered);
        viewer.see_cluster(&mut view);
        serde_json::to_string(&view).ok()
    }

    async fn cluster_view(&self) -> Arc<ClusterView> {
        let mut gathered = self.gathered.lock().await;
        if let Some((at, view)) = &*gathered
            && now().since(*at) < FRESH
        {
            return view.clone();
        }
        let (told, nodes) = tokio::join!(self.facts(), self.ask_nodes());
        let view = Arc::new(cluster::cluster_view(self.me, self.cluster, &told, &nodes));
        *gathered = Some((now(), view.clone()));
        view
    }

    /// How many partitions nobody serves, if anything is known of them.
    pub async fn unserved(&self) -> Option<usize> {
        let told = self.facts().await;
        let mut held = told.facts.iter().filter_map(|fact| match fact {
            Fact::Partition(_, configuration, _) => Some(configuration.replicas.is_empty()),
            _ => None,
        });
        let first = held.next()?;
        Some(usize::from(first) + held.filter(|is_unserved| *is_unserved).count())
    }

    /// All nodes that answer.
    async fn ask_nodes(&self) -> Vec<NodeView> {
        let mut asked = Vec::new();
        for node in self.peers.nodes() {
            asked.extend(self.ask(node, &Request::View(ViewOf::Node)));
        }
        let mut views = vec![self.node_view()];
        let end = tokio::time::Instant::now() + PATIENCE;
        for answer in asked {
            if let Ok(Ok((_, Response::View(Some(text))))) = tokio::time::timeout_at(end, answer).await
                && let Ok(view) = serde_json::from_str::<NodeView>(&text)
                && view.version == view::VERSION
            {
                views.push(view);
            }
        }
        views
    }

    /// What the cluster manager has told, as far as this node or one that it can ask knows.
    async fn facts(&self) -> Difference {
        let known = self.state.status().ring_version;
        let own = {
            let voting = self.reception.voting.read();
            let all = |cluster: &Cluster| cluster.changes_since(Position::default(), usize::MAX);
            voting.as_ref().map(|voting| voting.voter.look(all))
        };
        let mut newest =
            own.unwrap_or(Difference { facts: Vec::new(), next: Position::default(), reached: None });
        // Who does not vote does not hear of changes: others do. Who is away is not waited for.
        let is_heard = |node: &NodeId| self.peers.link(*node).is_some_and(|link| link.silence().is_some());
        for node in self.peers.nodes().into_iter().filter(is_heard) {
            if newest.reached >= Some(known) {
                break;
            }
            let Some(answer) = self.ask(node, &Request::Ring(RingVersion(0))) else { continue };
            if let Ok(Ok((_, Response::Ring(told)))) = timeout(PATIENCE / 4, answer).await
                && told.reached > newest.reached
            {
                newest = told;
            }
        }
        newest
    }

    fn ask(
        &self,
        node: NodeId,
        request: &Request,
    ) -> Option<tokio::sync::oneshot::Receiver<(tyr_wire::connection::Peer, Response)>> {
        let link = self.peers.link(node)?;
        let way = self.reception.relay.way(node, &link);
        Some(self.reception.asking.ask_member(node, &way, request))
    }
}

/// A view of the cluster is shown again to those who look within this time, in microseconds.
const FRESH: u64 = 900_000;
/// Other nodes are waited for at most this long.
const PATIENCE: Duration = Duration::from_millis(1_000);
/// The most questions that are answered at once.
const SERVING_MAX: usize = 16;

//! A keyspace that is to hold no more than so much. All nodes are told now and then what the others hold.

use tyr_proto::NodeId;

use super::World;
use crate::cluster::layout::KEYSPACE;

/// That is told after so many microseconds.
const TOLD_EVERY: u64 = 50_000;

impl World {
    /// Nodes hear what there is, if it is time.
    pub(super) fn ration(&mut self) {
        let Some(quota) = self.profile.quota.filter(|_| self.has_begun && self.now >= self.rationed_at)
        else {
            return;
        };
        self.rationed_at = self.now + TOLD_EVERY;
        let now = self.now;
        let total = self.servers.values().map(|server| server.held_of(KEYSPACE)).sum();
        for server in self.servers.values_mut().filter(|server| server.paused_until <= now) {
            server.ration(now, KEYSPACE, quota, total);
        }
    }

    /// What a primary counts is what there is.
    pub(super) fn check_counts(&mut self, node: NodeId) {
        let partitions = self.servers[&node].node().into_iter().flat_map(|node| node.partitions());
        for partition in partitions.filter(|partition| partition.is_established()) {
            let state = partition.state();
            let blobs = state.heads().filter(|(blob, _)| blob.keyspace == KEYSPACE);
            let sizes = blobs.filter_map(|(_, head)| head.blob()).map(|blob| u128::from(blob.size));
            let (counted, there) = (state.counts().bytes(KEYSPACE), sizes.sum::<u128>());
            if state.counts().has(KEYSPACE) && counted != there {
                let what = format!(
                    "counted wrongly: {node} counts {counted} bytes in {}, of {there}",
                    partition.id()
                );
                self.broken.get_or_insert(what);
                return;
            }
        }
    }
}

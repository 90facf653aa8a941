//! How near nodes are, so that reads go to the nearest replica: one on this host before one in the client's zone, that before others, and
//! among those the one that is expected to answer first.
//!
//! What is expected is the smoothed time of earlier answers, times how many are waited for. A time counts half as much for each second since
//! it was measured, so that a node that was slow once is tried again.

use std::collections::BTreeMap;

use tyr_proto::{NodeId, Time, cluster::Zone, message::RequestId};

/// How near the members are.
#[derive(Debug, Default)]
pub struct Nearness {
    zone: Option<Zone>,
    nodes: BTreeMap<NodeId, Node>,
    /// Who is to answer which request, and since when.
    asked: BTreeMap<RequestId, (NodeId, Time)>,
}

#[derive(Debug)]
struct Node {
    zone: Zone,
    is_here: bool,
    is_open: bool,
    /// It let a request wait until another node was asked: it is asked last until then,
    late_until: Time,
    /// twice as long each time in a row.
    lates: u32,
    /// How long it takes to answer, in microseconds, and when that was measured last.
    time: u64,
    measured_at: Time,
    waiting: u64,
}

/// Classes of distance; a time to answer is below one of them.
const CLASS: u64 = 1 << 40;
/// A new time counts as this part of the smoothed one.
const WEIGHT: u64 = 8;
/// A time that was measured so many microseconds ago counts half.
const HALF_LIFE: u64 = 1_000_000;
/// Who let somebody wait is asked last for so many microseconds,
const LATE_FOR: u64 = 1_000_000;
/// doubled so often at most.
const LATE_DOUBLINGS_MAX: u32 = 4;
/// Who has not answered in this many microseconds will not.
const FORGOTTEN_AFTER: u64 = 60_000_000;

impl Nearness {
    /// That of a client in a zone, if it is in one.
    pub fn new(zone: Option<Zone>) -> Self {
        Nearness { zone, ..Nearness::default() }
    }

    /// A member is in a zone.
    pub fn set_member(&mut self, node: NodeId, zone: Zone) {
        let known = self.nodes.entry(node).or_insert_with(|| Node {
            zone: zone.clone(),
            is_here: false,
            is_open: false,
            late_until: Time(0),
            lates: 0,
            time: 0,
            measured_at: Time(0),
            waiting: 0,
        });
        known.zone = zone;
    }

    /// A node is no member any more.
    pub fn remove_member(&mut self, node: NodeId) {
        self.nodes.remove(&node);
        self.asked.retain(|_, (asked, _)| *asked != node);
    }

    /// Whether there is a connection to a node.
    pub fn set_open(&mut self, node: NodeId, is_open: bool) {
        if let Some(known) = self.nodes.get_mut(&node) {
            known.is_open = is_open;
        }
    }

    /// Whether a node is on this host.
    pub fn set_here(&mut self, node: NodeId, is_here: bool) {
        if let Some(known) = self.nodes.get_mut(&node) {
            known.is_here = is_here;
        }
    }

    /// A node is asked to read something. If another one was to do that, it is late.
    pub fn asks(&mut self, now: Time, node: NodeId, request: RequestId) {
        if let Some((before, since)) = self.asked.insert(request, (node, now))
            && let Some(known) = self.nodes.get_mut(&before)
        {
            known.waiting = known.waiting.saturating_sub(1);
            if before != node {
                known.late_until = now.after(LATE_FOR << known.lates.min(LATE_DOUBLINGS_MAX));
                known.lates += 1;
                known.measure(now, now.since(since));
            }
        }
        if let Some(known) = self.nodes.get_mut(&node) {
            known.waiting += 1;
        }
    }

    /// A node has answered a request.
    pub fn hears(&mut self, now: Time, node: NodeId, request: RequestId) {
        if let Some(known) = self.nodes.get_mut(&node) {
            (known.late_until, known.lates) = (Time(0), 0);
        }
        let Some((asked, since)) = self.asked.remove(&request) else { return };
        if let Some(known) = self.nodes.get_mut(&asked) {
            known.waiting = known.waiting.saturating_sub(1);
            if asked == node {
                known.measure(now, now.since(since));
            }
        }
    }

    /// Forgets what will not be answered any more.
    pub fn tidy(&mut self, now: Time) {
        let nodes = &mut self.nodes;
        self.asked.retain(|_, (node, since)| {
            let is_awaited = now.since(*since) < FORGOTTEN_AFTER;
            if !is_awaited && let Some(known) = nodes.get_mut(node) {
                known.waiting = known.waiting.saturating_sub(1);
            }
            is_awaited
        });
    }

    /// How far away a node is: the less, the nearer.
    pub fn rank(&self, now: Time, node: NodeId) -> Option<u64> {
        let known = self.nodes.get(&node)?;
        let class = match known {
            Node { is_open: false, .. } => 4,
            Node { late_until, .. } if *late_until > now => 3,
            Node { is_here: true, .. } => 0,
            Node { zone, .. } if self.zone.as_ref() == Some(zone) => 1,
            _ => 2,
        };
        Some(class * CLASS + known.time(now).saturating_mul(known.waiting + 1).min(CLASS - 1))
    }

    /// How far away all members are.
    pub fn ranks(&self, now: Time) -> impl Iterator<Item = (NodeId, u64)> {
        self.nodes.keys().filter_map(move |node| Some((*node, self.rank(now, *node)?)))
    }
}

impl Node {
    /// How long it is expected to take.
    fn time(&self, now: Time) -> u64 {
        self.time >> self.age(now)
    }

    /// How many half-lives ago its time was measured.
    fn age(&self, now: Time) -> u64 {
        (now.since(self.measured_at) / HALF_LIFE).min(63)
    }

    /// It took so long. The longer ago it was measured before, the more that counts: a node that was slow once and is not any more is as near as
    /// others again.
    fn measure(&mut self, now: Time, time: u64) {
        let (is_first, age) = (self.measured_at == Time(0), self.age(now));
        let old = |time: u64| (time - time / WEIGHT) >> age;
        self.time = if is_first { time } else { time - old(time) + old(self.time) };
        self.measured_at = now;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use tyr_proto::SessionId;

    use super::*;

    const NODES: [NodeId; 3] = [NodeId(1), NodeId(2), NodeId(3)];

    /// Three nodes, each in a zone of its own name, all with connections.
    fn three(zone: Option<&str>) -> Nearness {
        let mut nearness = Nearness::new(zone.map(|name| Zone::new(name).unwrap()));
        for (node, name) in NODES.into_iter().zip(["a", "b", "c"]) {
            nearness.set_member(node, Zone::new(name).unwrap());
            nearness.set_open(node, true);
        }
        nearness
    }

    fn request(number: u64) -> RequestId {
        RequestId { session: SessionId(1), number }
    }

    fn order(nearness: &Nearness, now: u64) -> Vec<u32> {
        let mut ranks: Vec<_> = nearness.ranks(Time(now)).collect();
        ranks.sort_by_key(|(node, rank)| (*rank, *node));
        ranks.into_iter().map(|(node, _)| node.0).collect()
    }

    /// A node answers a request after so many microseconds.
    fn answers_after(nearness: &mut Nearness, node: NodeId, number: u64, begun: u64, took: u64) {
        nearness.asks(Time(begun), node, request(number));
        nearness.hears(Time(begun + took), node, request(number));
    }

    #[test]
    fn a_host_is_nearer_than_a_zone_and_a_zone_than_the_rest() {
        let mut nearness = three(Some("b"));
        nearness.set_here(NodeId(3), true);
        answers_after(&mut nearness, NodeId(3), 1, 10, 9_000);
        answers_after(&mut nearness, NodeId(2), 2, 10, 900);
        answers_after(&mut nearness, NodeId(1), 3, 10, 9);
        assert_eq!(order(&nearness, 10_000), [3, 2, 1], "whatever time they take");
        nearness.set_here(NodeId(3), false);
        assert_eq!(order(&nearness, 10_000), [2, 1, 3]);
    }

    #[test]
    fn of_equally_near_nodes_the_one_is_asked_that_is_expected_to_answer_first() {
        let mut nearness = three(None);
        for (number, node) in (1..).zip(NODES) {
            answers_after(&mut nearness, node, number, 10, 100 * number);
        }
        assert_eq!(order(&nearness, 1000), [1, 2, 3]);
        nearness.asks(Time(1000), NodeId(1), request(10));
        nearness.asks(Time(1000), NodeId(1), request(11));
        assert_eq!(order(&nearness, 1000), [2, 1, 3], "two wait for the first one");
        nearness.hears(Time(1100), NodeId(1), request(10));
        nearness.hears(Time(1100), NodeId(1), request(11));
        assert_eq!(order(&nearness, 1100), [1, 2, 3]);
    }

    #[test]
    fn a_node_that_was_slow_is_tried_again_some_time_later() {
        let mut nearness = three(None);
        answers_after(&mut nearness, NodeId(1), 1, 10, 900);
        answers_after(&mut nearness, NodeId(2), 2, 10, 300);
        answers_after(&mut nearness, NodeId(3), 3, 10, 9000);
        assert_eq!(order(&nearness, 1_000), [2, 1, 3]);
        answers_after(&mut nearness, NodeId(2), 4, 3 * HALF_LIFE, 300);
        assert_eq!(order(&nearness, 3 * HALF_LIFE + 300)[0], 1, "what it took then counts less now");
    }

    #[test]
    fn a_node_that_was_slow_long_ago_and_is_fast_again_is_as_near_as_others() {
        let mut nearness = three(None);
        answers_after(&mut nearness, NodeId(1), 1, 10, 9_000);
        answers_after(&mut nearness, NodeId(1), 2, 8 * HALF_LIFE, 200);
        answers_after(&mut nearness, NodeId(2), 3, 8 * HALF_LIFE, 300);
        answers_after(&mut nearness, NodeId(3), 4, 8 * HALF_LIFE, 300);
        assert_eq!(order(&nearness, 8 * HALF_LIFE + 1_000), [1, 2, 3]);
    }

    #[test]
    fn a_node_that_lets_somebody_wait_is_far_away_until_it_is_heard_of_or_a_while_has_passed() {
        let mut nearness = three(None);
        nearness.set_here(NodeId(1), true);
        nearness.asks(Time(0), NodeId(1), request(1));
        nearness.asks(Time(100_000), NodeId(2), request(1));
        assert_eq!(order(&nearness, 100_000)[2], 1);
        assert_eq!(order(&nearness, 100_000 + LATE_FOR)[0], 1, "it may be back");
        nearness.hears(Time(100_001), NodeId(1), request(1));
        assert_eq!(order(&nearness, 100_001)[0], 1);
        nearness.set_open(NodeId(1), false);
        assert_eq!(order(&nearness, 100_001)[2], 1, "it cannot be reached");
    }

    #[test]
    fn what_is_never_answered_is_not_waited_for_for_ever() {
        let mut nearness = three(None);
        answers_after(&mut nearness, NodeId(1), 1, 10, 100);
        answers_after(&mut nearness, NodeId(2), 2, 10, 150);
        answers_after(&mut nearness, NodeId(3), 3, 10, 160);
        nearness.asks(Time(200), NodeId(1), request(4));
        assert_eq!(order(&nearness, 200), [2, 3, 1]);
        nearness.tidy(Time(200 + FORGOTTEN_AFTER));
        assert_eq!(order(&nearness, 200), [1, 2, 3]);
    }
}

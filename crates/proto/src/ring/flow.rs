//! Minimum-cost maximum-flow: of all ways to send as much as possible from a source to a sink, one of the cheapest.
//!
//! The primal-dual method: potentials make the cheapest remaining paths exactly those whose edges all have reduced cost zero;
//! Dinic's method sends as much over them as fits; then Dijkstra's raises the potentials to the next cheapest. Its time is that
//! of a few passes over the edges for each distinct cost of a path, so it suits many edges with few different costs. Costs are
//! not negative. The result depends on the order in which edges were added, and on nothing else.

use alloc::{collections::BinaryHeap, vec, vec::Vec};
use core::cmp::Reverse;

/// A node of the network, below the number of nodes that it was made with.
pub(super) type Node = u32;

/// An edge, in the order of adding. A network has two for each: the edge, and at the next place its reverse.
pub(super) type EdgeId = u32;

/// A network and the flow through it.
pub(super) struct Flow {
    edges: Vec<Edge>,
    /// The edge that was added last at each node.
    last: Vec<EdgeId>,
    potential: Vec<i64>,
}

struct Edge {
    to: Node,
    /// The edge that was added before this one at the same node.
    before: EdgeId,
    /// How much more fits.
    room: u32,
    cost: i32,
}

impl Flow {
    pub(super) fn new(nodes: u32) -> Self {
        Flow { edges: Vec::new(), last: vec![NONE; nodes as usize], potential: vec![0; nodes as usize] }
    }

    /// Adds an edge; `cost` is for each unit and is not negative.
    pub(super) fn add(&mut self, from: Node, to: Node, capacity: u32, cost: i32) -> EdgeId {
        debug_assert!(cost >= 0, "the first potentials are zero");
        let edge = self.half(from, to, capacity, cost);
        self.half(to, from, 0, -cost);
        edge
    }

    fn half(&mut self, from: Node, to: Node, room: u32, cost: i32) -> EdgeId {
        let edge = u32::try_from(self.edges.len()).expect("whoever builds a network bounds it");
        let before = core::mem::replace(&mut self.last[from as usize], edge);
        self.edges.push(Edge { to, before, room, cost });
        edge
    }

    /// How much flows over an edge.
    pub(super) fn over(&self, edge: EdgeId) -> u32 {
        self.edges[(edge ^ 1) as usize].room
    }

    /// Sends as much as possible as cheaply as possible, and returns how much that is.
    pub(super) fn send(&mut self, source: Node, sink: Node) -> u64 {
        let mut sent = 0;
        while self.raise_potentials(source, sink) {
            while let Some(levels) = self.levels(source, sink) {
                sent += self.fill(source, sink, &levels);
            }
        }
        sent
    }

    fn edges_at(&self, node: Node) -> impl Iterator<Item = (EdgeId, &Edge)> {
        let mut next = self.last[node as usize];
        core::iter::from_fn(move || {
            let edge = self.edges.get(next as usize)?;
            Some((core::mem::replace(&mut next, edge.before), edge))
        })
    }

    fn reduced_cost(&self, from: Node, edge: &Edge) -> i64 {
        i64::from(edge.cost) + self.potential[from as usize] - self.potential[edge.to as usize]
    }

    /// Dijkstra's method. Afterwards the cheapest paths to the sink have reduced cost zero; false if there is no path.
    fn raise_potentials(&mut self, source: Node, sink: Node) -> bool {
        let mut distance = vec![i64::MAX; self.last.len()];
        distance[source as usize] = 0;
        let mut near = BinaryHeap::from([Reverse((0, source))]);
        while let Some(Reverse((at, node))) = near.pop() {
            if node == sink {
                break;
            }
            if at > distance[node as usize] {
                continue;
            }
            for (_, edge) in self.edges_at(node).filter(|(_, edge)| edge.room > 0) {
                let through = at + self.reduced_cost(node, edge);
                if through < distance[edge.to as usize] {
                    distance[edge.to as usize] = through;
                    near.push(Reverse((through, edge.to)));
                }
            }
        }
        let to_sink = distance[sink as usize];
        if to_sink == i64::MAX {
            return false;
        }
        for (potential, distance) in self.potential.iter_mut().zip(distance) {
            *potential += distance.min(to_sink);
        }
        true
    }

    /// The number of edges from the source to each node over edges of reduced cost zero; none if the sink is not reached.
    fn levels(&self, source: Node, sink: Node) -> Option<Vec<u32>> {
        let mut levels = vec![NONE; self.last.len()];
        levels[source as usize] = 0;
        let mut reached = vec![source];
        let mut done = 0;
        while let Some(&node) = reached.get(done) {
            done += 1;
            for (_, edge) in self.edges_at(node).filter(|(_, edge)| edge.room > 0) {
                if levels[edge.to as usize] == NONE && self.reduced_cost(node, edge) == 0 {
                    levels[edge.to as usize] = levels[node as usize] + 1;
                    if edge.to == sink {
                        return Some(levels);
                    }
                    reached.push(edge.to);
                }
            }
        }
        None
    }

    /// Sends along edges of reduced cost zero that lead one level up, until no such path has room.
    fn fill(&mut self, source: Node, sink: Node, levels: &[u32]) -> u64 {
        let mut untried = self.last.clone();
        let mut path: Vec<EdgeId> = Vec::new();
        let mut node = source;
        let mut sent = 0;
        loop {
            if node == sink {
                sent += u64::from(self.send_along(&path));
                let full = path.iter().position(|&edge| self.edges[edge as usize].room == 0);
                path.truncate(full.expect("the narrowest edge of the path is full"));
                node = self.end_of(&path, source);
            } else if let Some(edge) = self.step(node, levels, &mut untried) {
                path.push(edge);
                node = self.edges[edge as usize].to;
            } else {
                let Some(dead) = path.pop() else { return sent };
                node = self.end_of(&path, source);
                untried[node as usize] = self.edges[dead as usize].before;
            }
        }
    }

    /// The next edge to take from a node. It stays the node's first untried one until it is full or known to lead nowhere.
    fn step(&self, node: Node, levels: &[u32], untried: &mut [EdgeId]) -> Option<EdgeId> {
        let up = levels[node as usize] + 1;
        loop {
            let edge_id = untried[node as usize];
            let edge = self.edges.get(edge_id as usize)?;
            if edge.room > 0 && levels[edge.to as usize] == up && self.reduced_cost(node, edge) == 0 {
                return Some(edge_id);
            }
            untried[node as usize] = edge.before;
        }
    }

    fn end_of(&self, path: &[EdgeId], source: Node) -> Node {
        path.last().map_or(source, |&edge| self.edges[edge as usize].to)
    }

    fn send_along(&mut self, path: &[EdgeId]) -> u32 {
        let amount = path.iter().map(|&edge| self.edges[edge as usize].room).min().unwrap_or(0);
        for &edge in path {
            self.edges[edge as usize].room -= amount;
            self.edges[(edge ^ 1) as usize].room += amount;
        }
        amount
    }
}

/// No edge, no level.
const NONE: u32 = u32::MAX;

#[cfg(test)]
mod tests;

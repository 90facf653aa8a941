//! A graph of what must precede what, and its shortest cycle.
//!
//! The first nodes are operations; further nodes are *relays*, which stand for many edges by few: whatever leads into a relay
//! precedes whatever it leads to. Paths through relays cost nothing, so the length of a cycle is its number of operations.
//! Components: R. Tarjan, "Depth-first search and linear graph algorithms", SIAM J. Comput. 1972, without recursion.

use std::collections::VecDeque;

/// Why one operation precedes another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It wrote the version before.
    WriteWrite,
    /// It wrote what the other read.
    WriteRead,
    /// It read what the other replaced.
    ReadWrite,
    /// It was answered before the other began.
    RealTime,
}

/// An edge's meaning: the kind, the object by the caller's index, and the value that the later operation wrote or read there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reason {
    pub(super) kind: Kind,
    pub(super) object: u32,
    pub(super) value: Option<u64>,
}

/// One edge of a cycle between operations; relays are left out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) reason: Reason,
}

/// Grows by edges, then is searched once.
pub(super) struct Graph {
    operations: usize,
    nodes: usize,
    edges: Vec<Edge>,
}

#[derive(Clone, Copy)]
struct Edge {
    from: u32,
    to: u32,
    reason: Reason,
}

impl Graph {
    pub(super) fn new(operations: usize) -> Self {
        Graph { operations, nodes: operations, edges: Vec::new() }
    }

    pub(super) fn relay(&mut self) -> u32 {
        self.nodes += 1;
        index(self.nodes - 1)
    }

    /// An operation does not precede itself: such an edge is ignored.
    pub(super) fn add(&mut self, from: u32, to: u32, reason: Reason) {
        if from != to {
            self.edges.push(Edge { from, to, reason });
        }
    }

    /// The shortest cycle found within the budget, or nothing if there is none at all.
    pub(super) fn shortest_cycle(mut self) -> Option<Vec<Step>> {
        self.edges.sort_by_key(|edge| edge.from);
        let search = Search::new(&self);
        let (component, sizes) = search.components();
        let mut walk = Walk::new(&search, &component);
        for start in 0..self.operations {
            if sizes[component[start] as usize] > 1 {
                walk.from(index(start));
            }
            if walk.done() {
                break;
            }
        }
        walk.best
    }
}

/// The edges by their origin.
struct Search<'g> {
    graph: &'g Graph,
    first: Vec<u32>,
}

impl<'g> Search<'g> {
    fn new(graph: &'g Graph) -> Self {
        let mut first = vec![0; graph.nodes + 1];
        for edge in &graph.edges {
            first[edge.from as usize + 1] += 1;
        }
        for node in 0..graph.nodes {
            first[node + 1] += first[node];
        }
        Search { graph, first }
    }

    fn edges(&self, node: u32) -> std::ops::Range<usize> {
        self.first[node as usize] as usize..self.first[node as usize + 1] as usize
    }

    fn target(&self, edge: usize) -> u32 {
        self.graph.edges[edge].to
    }

    fn is_relay(&self, node: u32) -> bool {
        node as usize >= self.graph.operations
    }

    /// The component of each node, and the size of each component.
    fn components(&self) -> (Vec<u32>, Vec<u32>) {
        let mut tarjan = Tarjan {
            order: vec![UNSEEN; self.graph.nodes],
            low: vec![0; self.graph.nodes],
            component: vec![UNSEEN; self.graph.nodes],
            sizes: Vec::new(),
            pending: Vec::new(),
            count: 0,
        };
        for root in 0..index(self.graph.nodes) {
            if tarjan.order[root as usize] == UNSEEN {
                tarjan.explore(self, root);
            }
        }
        (tarjan.component, tarjan.sizes)
    }
}

struct Tarjan {
    order: Vec<u32>,
    low: Vec<u32>,
    component: Vec<u32>,
    sizes: Vec<u32>,
    pending: Vec<u32>,
    count: u32,
}

impl Tarjan {
    fn explore(&mut self, search: &Search<'_>, root: u32) {
        let mut path = vec![(root, search.edges(root))];
        self.enter(root);
        while let Some((node, edges)) = path.last_mut() {
            let node = *node;
            if let Some(edge) = edges.next() {
                let to = search.target(edge);
                if self.order[to as usize] == UNSEEN {
                    self.enter(to);
                    path.push((to, search.edges(to)));
                } else if self.component[to as usize] == UNSEEN {
                    self.lower(node, self.order[to as usize]);
                }
                continue;
            }
            path.pop();
            if let Some((parent, _)) = path.last() {
                self.lower(*parent, self.low[node as usize]);
            }
            self.leave(node);
        }
    }

    fn enter(&mut self, node: u32) {
        self.order[node as usize] = self.count;
        self.low[node as usize] = self.count;
        self.count += 1;
        self.pending.push(node);
    }

    fn lower(&mut self, node: u32, to: u32) {
        let low = &mut self.low[node as usize];
        *low = to.min(*low);
    }

    /// If nothing older can be reached, what is pending since the node is a component.
    fn leave(&mut self, node: u32) {
        if self.low[node as usize] != self.order[node as usize] {
            return;
        }
        let component = index(self.sizes.len());
        let mut size = 0;
        while let Some(member) = self.pending.pop() {
            self.component[member as usize] = component;
            size += 1;
            if member == node {
                break;
            }
        }
        self.sizes.push(size);
    }
}

/// Breadth-first walks from one operation after another, within their components.
struct Walk<'s> {
    search: &'s Search<'s>,
    component: &'s [u32],
    /// The edge by which a node was reached, valid if its round is the current one.
    reached: Vec<(u32, usize)>,
    round: u32,
    budget: usize,
    best: Option<Vec<Step>>,
}

impl<'s> Walk<'s> {
    fn new(search: &'s Search<'s>, component: &'s [u32]) -> Self {
        let reached = vec![(0, 0); search.graph.nodes];
        Walk { search, component, reached, round: 0, budget: VISITS_MAX, best: None }
    }

    fn done(&self) -> bool {
        self.best.as_ref().is_some_and(|best| best.len() <= 2 || self.budget == 0)
    }

    fn from(&mut self, start: u32) {
        self.round += 1;
        let limit = self.best.as_ref().map_or(usize::MAX, Vec::len);
        let mut queue = VecDeque::from([(start, 1)]);
        while let Some((node, length)) = queue.pop_front() {
            // The operation at the end of a path of this length closes a cycle of at least this length.
            if length >= limit && !self.search.is_relay(node) {
                return;
            }
            for edge in self.search.edges(node) {
                let to = self.search.target(edge);
                if self.component[to as usize] != self.component[start as usize] {
                    continue;
                }
                self.budget = self.budget.saturating_sub(1);
                if to == start {
                    let cycle = self.cycle(start, edge);
                    if cycle.len() < limit {
                        self.best = Some(cycle);
                    }
                    return;
                }
                if self.reached[to as usize].0 == self.round {
                    continue;
                }
                self.reached[to as usize] = (self.round, edge);
                if self.search.is_relay(to) {
                    queue.push_front((to, length));
                } else {
                    queue.push_back((to, length + 1));
                }
            }
        }
    }

    /// Follows the edges back from the one that closed the cycle, and joins those that meet at relays.
    fn cycle(&self, start: u32, last: usize) -> Vec<Step> {
        let mut edges = vec![self.search.graph.edges[last]];
        while edges[edges.len() - 1].from != start {
            let (_, edge) = self.reached[edges[edges.len() - 1].from as usize];
            edges.push(self.search.graph.edges[edge]);
        }
        let mut steps: Vec<Step> = Vec::new();
        let mut through_relay = false;
        for edge in edges.iter().rev() {
            if through_relay {
                let step = steps.last_mut().expect("a cycle begins at an operation");
                step.to = edge.to as usize;
                step.reason.value = edge.reason.value;
            } else {
                steps.push(Step { from: edge.from as usize, to: edge.to as usize, reason: edge.reason });
            }
            through_relay = self.search.is_relay(edge.to);
        }
        steps
    }
}

/// Operations and relays are counted by `u32`: four billion are more than fit in memory.
pub(super) fn index(at: usize) -> u32 {
    u32::try_from(at).expect("fewer than four billion nodes")
}

const UNSEEN: u32 = u32::MAX;
/// How many edges the search for a shorter cycle may follow: about a second.
const VISITS_MAX: usize = 50_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    const WHY: Reason = Reason { kind: Kind::WriteRead, object: 0, value: None };

    fn cycle(operations: usize, edges: &[(u32, u32)]) -> Option<Vec<(usize, usize)>> {
        let mut graph = Graph::new(operations);
        edges.iter().for_each(|(from, to)| {
            while graph.nodes <= *from.max(to) as usize {
                graph.relay();
            }
            graph.add(*from, *to, WHY);
        });
        graph.shortest_cycle().map(|steps| steps.iter().map(|step| (step.from, step.to)).collect())
    }

    #[test]
    fn what_has_no_cycle_has_none() {
        assert_eq!(cycle(0, &[]), None);
        assert_eq!(cycle(4, &[(0, 1), (0, 2), (1, 3), (2, 3), (0, 3), (1, 1)]), None);
    }

    #[test]
    fn the_shortest_cycle_is_found_among_longer_ones() {
        let edges = [(0, 1), (1, 2), (2, 3), (3, 0), (4, 5), (5, 6), (6, 4), (3, 1), (2, 4)];
        assert_eq!(cycle(7, &edges).unwrap().len(), 3);
        let shorter = [edges.as_slice(), &[(6, 5)]].concat();
        assert_eq!(cycle(7, &shorter).unwrap(), [(5, 6), (6, 5)]);
    }

    #[test]
    fn relays_are_left_out_of_a_cycle_and_of_its_length() {
        // 0 to 1 through three relays, or through the operation 2.
        let edges = [(0, 3), (3, 4), (4, 5), (5, 1), (0, 2), (2, 1), (1, 0)];
        assert_eq!(cycle(3, &edges).unwrap(), [(0, 1), (1, 0)]);
    }

    #[test]
    fn a_path_of_a_million_needs_no_stack() {
        let path: Vec<(u32, u32)> = (0..1_000_000).map(|n| (n, n + 1)).collect();
        assert_eq!(cycle(1_000_001, &path), None);
    }
}

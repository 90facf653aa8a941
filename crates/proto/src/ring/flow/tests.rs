#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use proptest::{collection::vec, prelude::*};

use super::*;

const NODES: u32 = 5;
const SINK: Node = NODES - 1;

/// From, to, capacity, cost.
type Given = (Node, Node, u32, i32);

fn solved(given: &[Given]) -> (u64, Vec<u32>) {
    let mut flow = Flow::new(NODES);
    let edges: Vec<_> =
        given.iter().map(|&(from, to, capacity, cost)| flow.add(from, to, capacity, cost)).collect();
    let sent = flow.send(0, SINK);
    (sent, edges.into_iter().map(|edge| flow.over(edge)).collect())
}

/// What arrives at the sink and what it costs; none if some node between gets more or less than it passes on.
fn worth(given: &[Given], over: &[u32]) -> Option<(i64, i64)> {
    let mut surplus = [0_i64; NODES as usize];
    let mut cost = 0;
    for (&(from, to, capacity, price), &amount) in given.iter().zip(over) {
        assert!(amount <= capacity);
        surplus[from as usize] -= i64::from(amount);
        surplus[to as usize] += i64::from(amount);
        cost += i64::from(price) * i64::from(amount);
    }
    let between = &surplus[1..SINK as usize];
    between.iter().all(|&amount| amount == 0).then_some((surplus[SINK as usize], cost))
}

/// The most that can be sent, and its least cost, by trying every flow.
fn best(given: &[Given]) -> (i64, i64) {
    let mut over = vec![0; given.len()];
    let mut best = (0, 0);
    loop {
        if let Some((sent, cost)) = worth(given, &over) {
            best = core::cmp::max_by_key(best, (sent, cost), |&(sent, cost)| (sent, -cost));
        }
        let Some(place) = (0..over.len()).find(|&place| over[place] < given[place].2) else { return best };
        over[place] += 1;
        over[..place].fill(0);
    }
}

#[test]
fn a_cheap_path_is_undone_where_that_lets_more_through() {
    // The cheapest path 0-1-2-4 blocks both others.
    let given = [(0, 1, 1, 0), (1, 2, 1, 0), (2, 4, 1, 0), (0, 2, 1, 5), (1, 4, 1, 5)];
    assert_eq!(solved(&given), (2, vec![1, 0, 1, 1, 1]));
}

#[test]
fn nothing_flows_where_no_path_leads() {
    assert_eq!(solved(&[(0, 1, 3, 0), (2, 4, 3, 0)]), (0, vec![0, 0]));
}

proptest! {

    #[test]
    fn the_flow_is_the_largest_and_of_these_the_cheapest(
        given in vec((0..SINK, 1..NODES, 1_u32..3, 0_i32..4), 0..9)
    ) {
        let (sent, over) = solved(&given);
        let worth = worth(&given, &over).expect("what a node gets it passes on");
        prop_assert_eq!(worth.0, i64::try_from(sent).unwrap());
        prop_assert_eq!(worth, best(&given));
    }
}

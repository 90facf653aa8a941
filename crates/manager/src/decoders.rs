//! Fuzz targets: whatever bytes another voter sends or a journal holds, decoding does not panic, and what it accepts has no other encoding.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::{Ready, ready},
};

use openraft::{CommittedLeaderId, EmptyNode, EntryPayload, Vote, raft::AppendEntriesRequest};
use tyr_proto::{
    NodeId, Time,
    cluster::{Cluster, ClusterId, Command},
};

use crate::{
    Surroundings,
    codec::{from_bytes, to_bytes},
    journal::Change,
    transport::Message,
    types::{Entry, LogId, Membership, Premise, Proposal, Request, Response, VoterId, snapshot_meta},
};

/// Decoding asks for nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Nowhere;

impl Surroundings for Nowhere {
    type Sleep = Ready<()>;

    fn spawn(task: impl Future<Output = ()> + Send + 'static) {
        drop(task);
    }

    fn now() -> Time {
        Time(0)
    }

    fn sleep_until(_: Time) -> Ready<()> {
        ready(())
    }

    fn random() -> u64 {
        4
    }
}

fn id(index: u64) -> LogId {
    LogId { leader_id: CommittedLeaderId { term: 3, node_id: 1 }, index }
}

fn entry(index: u64) -> Entry<Nowhere> {
    let command = Command::GiveUp(NodeId(7));
    let payload = EntryPayload::Normal(Proposal { premise: Premise::default(), command });
    Entry::<Nowhere> { log_id: id(index), payload }
}

/// Voters that change: two sets of them, and a node that only learns.
fn change(index: u64) -> Entry<Nowhere> {
    let sets = [[1, 3, 7], [3, 5, 7]].map(BTreeSet::from).to_vec();
    let nodes: BTreeMap<VoterId, EmptyNode> = [1, 3, 5, 7, 9].map(|voter| (voter, EmptyNode {})).into();
    let payload = EntryPayload::Membership(openraft::Membership::new(sets, nodes));
    Entry::<Nowhere> { log_id: id(index), payload }
}

/// Some of what is really said and kept.
fn valid() -> Vec<Vec<u8>> {
    let append = AppendEntriesRequest {
        vote: Vote::new(3, 1),
        prev_log_id: Some(id(4)),
        entries: vec![entry(5), entry(6)],
        leader_commit: Some(id(4)),
    };
    let meta = snapshot_meta(Some(id(9)), Membership::default());
    let snapshot = Change::<Nowhere>::Snapshot(meta, Box::new(Cluster::new(ClusterId(9))));
    vec![
        to_bytes(&Message::<Nowhere>::Ask(300, Request::Append(append))),
        to_bytes(&Message::<Nowhere>::Answer(
            300,
            Response::Append(openraft::raft::AppendEntriesResponse::Success),
        )),
        to_bytes(&Message::<Nowhere>::Ask(300, Request::Canvass(Some(id(4))))),
        to_bytes(&Message::<Nowhere>::Answer(300, Response::Canvass(true))),
        to_bytes(&Change::Append(vec![entry(5), entry(6)])),
        to_bytes(&Change::Append(vec![change(7)])),
        to_bytes(&Change::<Nowhere>::Vote(Vote::new(3, 2))),
        to_bytes(&snapshot),
    ]
}

fn expect_canonical(bytes: &[u8]) {
    if let Ok(message) = from_bytes::<Message<Nowhere>>(bytes) {
        assert_eq!(to_bytes(&message), bytes);
    }
    if let Ok(change) = from_bytes::<Change<Nowhere>>(bytes) {
        assert_eq!(to_bytes(&change), bytes);
    }
}

#[test]
fn voters_out_of_order_or_without_a_node_are_no_membership() {
    let bytes = to_bytes(&Change::Append(vec![change(7)]));
    let all = [5, 1, 3, 5, 7, 9];
    let at = bytes.windows(all.len()).position(|window| window == all).expect("the nodes are told");
    let told = |nodes: [u8; 6]| {
        let bytes = [&bytes[..at], &nodes, &bytes[at + all.len()..]].concat();
        from_bytes::<Change<Nowhere>>(&bytes).is_ok()
    };
    assert!(told(all) && told([5, 1, 3, 5, 7, 8]));
    assert!(!told([5, 1, 5, 3, 7, 9]) && !told([5, 1, 3, 3, 7, 9]), "out of order, and twice");
    assert!(!told([5, 1, 3, 4, 7, 9]), "a voter is missing");
}

#[test]
fn any_bytes_are_survived() {
    bolero::check!().for_each(|bytes: &[u8]| expect_canonical(bytes));
}

#[test]
fn any_damage_is_survived() {
    let valid = valid();
    valid.iter().for_each(|bytes| {
        let is_known =
            from_bytes::<Message<Nowhere>>(bytes).is_ok() || from_bytes::<Change<Nowhere>>(bytes).is_ok();
        assert!(is_known, "{bytes:?}");
    });
    bolero::check!().for_each(|damage: &[u8]| {
        let Some((which, damage)) = damage.split_first() else { return };
        let mut bytes = valid[usize::from(*which) % valid.len()].clone();
        for [place, byte] in damage.as_chunks().0.iter().take(8) {
            let place = usize::from(*place) % bytes.len();
            bytes[place] = *byte;
        }
        expect_canonical(&bytes);
    });
}

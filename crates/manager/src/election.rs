//! When a voter stands for election: when it has heard of no leader for a while, and most voters say that they would vote for it.
//!
//! The consensus library stands as soon as a voter has heard of no leader, and so raises the term. One that was paused, cut off, or away
//! would depose a leader whom everybody else hears. So it is never left to the library: a voter asks the others first, which changes
//! nothing anywhere (the *pre-vote* of Ongaro's thesis, section 9.6).
//!
//! Nothing here is needed for safety: what is asked before an election is forgotten, and the votes are the library's.

use std::collections::BTreeSet;

use openraft::{AsyncRuntime, ServerState, raft::AppendEntriesResponse};
use tokio::sync::mpsc;
use tyr_proto::Time;

use crate::{
    Journal, RaftRuntime, Surroundings, Timing, Transport, Voter,
    types::{LogId, Request, Response, VoterId},
};

/// When a voter had last a reason not to stand, and when one not to be heeded as a leader.
#[derive(Debug)]
pub(crate) struct Attention {
    heard_at: Option<Time>,
    excused_at: Time,
}

impl Attention {
    pub(crate) fn new(now: Time) -> Self {
        Attention { heard_at: None, excused_at: now }
    }

    /// From now on the others have to heed it anew if it leads: it stands, or speaks again after it had stepped aside.
    pub(crate) fn excuse(&mut self, now: Time) {
        self.excused_at = now;
    }

    /// Since when nobody has been expected to heed it.
    pub(crate) fn excused_at(&self) -> Time {
        self.excused_at
    }

    /// What was answered to another voter: who follows a leader, or has voted for one, gives it time.
    pub(crate) fn answered(&mut self, response: &Response, now: Time) {
        let is_heard = match response {
            Response::Append(response) => !matches!(response, AppendEntriesResponse::HigherVote(_)),
            Response::Vote(response) => response.vote_granted,
            Response::Snapshot(_) => true,
            Response::Canvass(_) => false,
        };
        if is_heard {
            self.heard_at = Some(now);
        }
    }
}

impl<S: Surroundings, J: Journal<S>> Voter<S, J> {
    /// Whether it would vote for one whose log ends there: it hears of no leader, and lacks nothing that the other one lacks.
    pub(crate) fn would_vote(&self, last: Option<LogId>) -> bool {
        let leads = self.raft.metrics().borrow().state == ServerState::Leader && !self.is_silent();
        !leads && !self.hears_of_a_leader() && last >= self.log.last()
    }

    /// Whether it has heard lately of one who leads, or has voted for one.
    pub(crate) fn hears_of_a_leader(&self) -> bool {
        let heard_at = self.attention.lock().heard_at;
        heard_at.is_some_and(|at| S::now().since(at) < self.election)
    }

    /// Stands whenever that has a chance, for ever. One that has just started tries soon: perhaps all have.
    pub(crate) async fn stand_all(self, timing: Timing, transport: impl Transport<S>) {
        let draw = || self.election + S::random() % self.election.max(1);
        let soon = S::random() % (MS * timing.heartbeat);
        let (began, mut tried_at, mut patience) = (S::now(), None, draw());
        loop {
            S::sleep(MS * timing.heartbeat / 2).await;
            let heard_at = self.attention.lock().heard_at;
            let due = heard_at.max(tried_at).map_or(began.after(soon), |at| at.after(patience));
            if S::now() < due {
                continue;
            }
            (tried_at, patience) = (Some(S::now()), draw());
            if self.may_stand() && self.canvass(&transport).await {
                self.attention.lock().excuse(S::now());
                // It fails when the consensus has ended.
                let _ended = self.raft.trigger().elect().await;
            }
        }
    }

    fn may_stand(&self) -> bool {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        let votes = metrics.membership_config.voter_ids().any(|voter| voter == self.node.0);
        votes && metrics.state != ServerState::Leader && !self.is_silent()
    }

    /// Whether most voters say that they would vote for this one.
    async fn canvass(&self, transport: &impl Transport<S>) -> bool {
        let membership = self.raft.metrics().borrow().membership_config.membership().clone();
        let voters: BTreeSet<VoterId> = membership.voter_ids().collect();
        let is_most = |willing: &BTreeSet<VoterId>| {
            let mut configs = membership.get_joint_config().iter();
            configs.all(|config| 2 * config.intersection(willing).count() > config.len())
        };
        let (sender, mut willing) = mpsc::unbounded_channel();
        for voter in voters.into_iter().filter(|voter| *voter != self.node.0) {
            let (transport, sender, last) = (transport.clone(), sender.clone(), self.log.last());
            let patience = std::time::Duration::from_micros(self.election / 2);
            S::spawn(async move {
                let answer = transport.ask(voter, Request::Canvass(last));
                let answer = RaftRuntime::<S>::timeout(patience, answer).await;
                if matches!(answer, Ok(Ok(Response::Canvass(true)))) {
                    // Nobody waits if the others are enough.
                    let _unheard = sender.send(voter);
                }
            });
        }
        drop(sender);
        let mut all = BTreeSet::from([self.node.0]);
        while !is_most(&all) {
            let Some(voter) = willing.recv().await else { return false };
            all.insert(voter);
        }
        true
    }
}

/// Microseconds in a millisecond.
const MS: u64 = 1_000;

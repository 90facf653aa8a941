//! Whom a node or client asks of the cluster manager: the leader, as soon as it knows who that is, and until then everybody in turn.

use alloc::vec::Vec;

use crate::{NodeId, Time, cluster::Response};

/// The one who is asked.
///
/// Whoever names another one may be wrong for good: one that was a voter once, and hears nothing any more. So whoever is named is asked
/// out of turn, and if that leads nowhere, the turn goes on as if nobody had been named: everybody is asked in the end.
#[derive(Clone, Debug)]
pub struct Contact {
    nodes: Vec<NodeId>,
    /// Whose turn it is.
    place: usize,
    /// Whom somebody named, who is asked instead.
    named: Option<NodeId>,
    /// How often another one was named since the turn went on.
    detours: u32,
    /// Who did not answer when it was asked last.
    silent: Option<NodeId>,
    /// When the first question was asked since anything was heard.
    silent_since: Option<Time>,
    /// How long it waits for an answer before it asks another one, in microseconds.
    patience: u64,
}

impl Contact {
    /// Any of these nodes may know; the one at this place, counted around, is asked first.
    pub fn new(nodes: Vec<NodeId>, first: usize, patience: u64) -> Self {
        let place = first.checked_rem(nodes.len()).unwrap_or(0);
        Contact { nodes, place, named: None, detours: 0, silent: None, silent_since: None, patience }
    }

    /// Whom to ask now; none if no node is known.
    pub fn ask(&mut self, now: Time) -> Option<NodeId> {
        match self.silent_since {
            Some(since) if now.since(since) < self.patience => {}
            Some(_) => {
                self.silent = self.asked();
                self.turn();
                self.silent_since = Some(now);
            }
            None => self.silent_since = Some(now),
        }
        self.asked()
    }

    fn asked(&self) -> Option<NodeId> {
        self.named.or_else(|| self.nodes.get(self.place).copied())
    }

    /// Somebody answered. If it named another one, that is asked next, unless it is the one that has just not answered.
    pub fn heard(&mut self, response: &Response) {
        let was_asked = self.silent_since.take().is_some();
        let silent = self.silent.take();
        match response {
            // Who was asked several things says so as often; the next one has not been asked anything yet.
            Response::Elsewhere(_) if !was_asked => {}
            Response::Elsewhere(Some(leader)) if silent != Some(*leader) && self.detours < DETOURS_MAX => {
                self.named = Some(*leader);
                self.detours += 1;
            }
            Response::Elsewhere(_) => self.turn(),
            _ => self.detours = 0,
        }
    }

    /// Asks the next one from now on.
    pub fn turn(&mut self) {
        (self.named, self.detours) = (None, 0);
        self.place = (self.place + 1).checked_rem(self.nodes.len()).unwrap_or(0);
        self.silent_since = None;
    }
}

/// So many are asked out of turn before the turn goes on: who has led, who leads now, and one more if that changes meanwhile.
const DETOURS_MAX: u32 = 3;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use alloc::{collections::BTreeSet, vec};

    use proptest::{collection::vec, option, prelude::*};

    use super::*;

    fn contact() -> Contact {
        Contact::new(vec![NodeId(1), NodeId(2), NodeId(3)], 4, 100)
    }

    #[test]
    fn it_asks_the_next_one_after_a_silence_and_goes_around() {
        let mut contact = contact();
        let asked = [0, 50, 99, 100, 150, 200, 300].map(|now| contact.ask(Time(now)).map(|node| node.0));
        assert_eq!(asked, [2, 2, 2, 3, 3, 1, 2].map(Some));
    }

    #[test]
    fn it_asks_whom_it_is_told_to_ask() {
        let mut contact = contact();
        contact.ask(Time(0));
        contact.heard(&Response::Elsewhere(Some(NodeId(7))));
        assert_eq!(contact.ask(Time(90)), Some(NodeId(7)));
        assert_eq!(contact.ask(Time(150)), Some(NodeId(7)), "the silence began at 90");
        contact.heard(&Response::Elsewhere(None));
        assert_eq!(contact.ask(Time(160)), Some(NodeId(3)), "the one after whoever named it");
    }

    #[test]
    fn who_names_one_that_is_dead_does_not_keep_others_from_being_asked() {
        let mut contact = Contact::new(vec![NodeId(1), NodeId(2), NodeId(3), NodeId(4)], 3, 100);
        let mut asked = Vec::new();
        for now in (0..).step_by(100).take(12) {
            let node = contact.ask(Time(now)).unwrap();
            asked.push(node.0);
            match node.0 {
                4 => {}
                2 => break,
                _ => contact.heard(&Response::Elsewhere(Some(NodeId(4)))),
            }
        }
        assert_eq!(asked, [4, 1, 2], "and nobody goes back to it at once");
    }

    #[test]
    fn who_did_not_answer_once_is_asked_again_when_it_is_named_again() {
        let mut contact = contact();
        contact.ask(Time(0));
        assert_eq!(contact.ask(Time(100)), Some(NodeId(3)));
        contact.heard(&Response::Elsewhere(Some(NodeId(2))));
        assert_eq!(contact.ask(Time(101)), Some(NodeId(1)), "node 2 has just not answered");
        contact.heard(&Response::Elsewhere(Some(NodeId(2))));
        assert_eq!(contact.ask(Time(102)), Some(NodeId(2)));
    }

    #[test]
    fn who_says_twice_that_it_does_not_know_is_passed_over_once() {
        let mut contact = contact();
        contact.ask(Time(0));
        contact.ask(Time(0));
        contact.heard(&Response::Elsewhere(None));
        contact.heard(&Response::Elsewhere(None));
        assert_eq!(contact.ask(Time(1)), Some(NodeId(3)));
    }

    #[test]
    fn who_knows_nobody_asks_nobody() {
        assert_eq!(Contact::new(vec![], 3, 100).ask(Time(0)), None);
    }

    proptest! {
        #[test]
        fn everybody_is_asked_whatever_is_named(
            // Silence, nobody, or who is named by whoever is asked then.
            answers in vec(option::weighted(0.9, option::weighted(0.9, 1_u32..8)), 60),
            first in 0_usize..5,
        ) {
            let mut contact = Contact::new((1..=5).map(NodeId).collect(), first, 100);
            let mut asked = BTreeSet::new();
            for (now, answer) in (0..).step_by(100).zip(answers) {
                asked.extend(contact.ask(Time(now)));
                if let Some(named) = answer {
                    contact.heard(&Response::Elsewhere(named.map(NodeId)));
                }
            }
            prop_assert!((1..=5).all(|node| asked.contains(&NodeId(node))), "{asked:?}");
        }
    }
}

//! Whom a node or client asks of the cluster manager: the leader, as soon as it knows who that is, and until then everybody in turn.

use alloc::vec::Vec;

use crate::{NodeId, Time, cluster::Response};

/// The one who is asked.
#[derive(Clone, Debug)]
pub struct Contact {
    nodes: Vec<NodeId>,
    place: usize,
    /// When the first question was asked since anything was heard.
    silent_since: Option<Time>,
    /// How long it waits for an answer before it asks another one, in microseconds.
    patience: u64,
}

impl Contact {
    /// Any of these nodes may know; the one at this place, counted around, is asked first.
    pub fn new(nodes: Vec<NodeId>, first: usize, patience: u64) -> Self {
        let place = first.checked_rem(nodes.len()).unwrap_or(0);
        Contact { nodes, place, silent_since: None, patience }
    }

    /// Whom to ask now; none if no node is known.
    pub fn ask(&mut self, now: Time) -> Option<NodeId> {
        match self.silent_since {
            Some(since) if now.since(since) < self.patience => {}
            Some(_) => {
                self.turn();
                self.silent_since = Some(now);
            }
            None => self.silent_since = Some(now),
        }
        self.nodes.get(self.place).copied()
    }

    /// Somebody answered. If it named another one, that is asked next.
    pub fn heard(&mut self, response: &Response) {
        let was_asked = self.silent_since.take().is_some();
        match response {
            Response::Elsewhere(Some(leader)) => {
                self.place = self.nodes.iter().position(|node| node == leader).unwrap_or(self.nodes.len());
                if self.place == self.nodes.len() {
                    self.nodes.push(*leader);
                }
            }
            // Who was asked several things says so as often; the next one has not been asked anything yet.
            Response::Elsewhere(None) if was_asked => self.turn(),
            _ => {}
        }
    }

    /// Asks the next one from now on.
    pub fn turn(&mut self) {
        self.place = (self.place + 1).checked_rem(self.nodes.len()).unwrap_or(0);
        self.silent_since = None;
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

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
        assert_eq!(contact.ask(Time(160)), Some(NodeId(1)));
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
}

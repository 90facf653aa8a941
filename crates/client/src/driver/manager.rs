//! What a client asks of the cluster manager: what has changed, and commands. Any of it may be lost and is asked again.

use std::{collections::BTreeMap, mem};

use tokio::time::Instant;
use tyr_proto::{
    Contact, NodeId, RingVersion, Time, Uses,
    cluster::{Command, Reply as CommandReply, Request, Response},
};

use super::{
    asked::Asked,
    links::{Links, Origin},
};
use tyr_types::Error;

use crate::words;

/// What is asked of the cluster manager.
#[derive(Debug)]
pub struct Manager {
    /// The addresses that the caller named.
    seeds: usize,
    members: Vec<NodeId>,
    contact: Contact,
    /// Which seed is asked while no member can be reached.
    turn: usize,
    last: u64,
    fetch: Option<Fetch>,
    /// Whether to fetch again when the present fetch is answered.
    wants_ring: bool,
    /// When something was not there, and what has changed was fetched for that.
    missed_at: Option<Time>,
    /// Who waits for what is being fetched, and who for what will be fetched next.
    waiting: Vec<Asked<()>>,
    waiting_next: Vec<Asked<()>>,
    /// What else was asked, by number.
    commands: BTreeMap<u64, Commanded>,
}

#[derive(Debug)]
struct Fetch {
    number: u64,
    /// When to ask again.
    due: Time,
}

#[derive(Debug)]
struct Commanded {
    request: Request,
    /// When to ask again.
    due: Time,
    asked: By,
}

/// Who waits for an answer.
#[derive(Debug)]
enum By {
    Command(Asked<CommandReply>),
    Uses(Asked<Uses>),
}

impl By {
    fn fail(self, error: Error) {
        match self {
            By::Command(asked) => asked.answer(Err(error)),
            By::Uses(asked) => asked.answer(Err(error)),
        }
    }

    fn is_late(&self, at: Instant) -> bool {
        match self {
            By::Command(asked) => asked.is_late(at),
            By::Uses(asked) => asked.is_late(at),
        }
    }
}

/// A question is asked again after this many microseconds without an answer.
const ASK_AGAIN_AFTER: u64 = 300_000;
/// And after this many if the answer was that somebody else is to be asked: who it is may change meanwhile.
const ASK_ELSEWHERE_AFTER: u64 = 10_000;
/// What is missing lets what has changed be fetched once in so many microseconds: most of it was never there.
const NEWS_EVERY: u64 = 500_000;

impl Manager {
    /// Asks these many addresses as long as no member can be reached. Everybody begins elsewhere.
    pub fn new(seeds: usize, first: usize) -> Self {
        Manager {
            seeds,
            members: Vec::new(),
            contact: Contact::new(Vec::new(), 0, ASK_AGAIN_AFTER),
            turn: first,
            last: 0,
            fetch: None,
            wants_ring: true,
            missed_at: None,
            waiting: Vec::new(),
            waiting_next: Vec::new(),
            commands: BTreeMap::new(),
        }
    }

    /// These are the members.
    pub fn set_members(&mut self, members: Vec<NodeId>) {
        if members != self.members {
            self.contact = Contact::new(members.clone(), self.turn, ASK_AGAIN_AFTER);
            self.members = members;
        }
    }

    /// What has changed is to be fetched.
    pub fn want_ring(&mut self) {
        self.wants_ring = true;
    }

    /// Something is not there, maybe because its keyspace was dropped: what has changed is to be fetched, unless it was for that a moment ago.
    pub fn want_news(&mut self, now: Time) {
        if self.missed_at.is_none_or(|at| now.since(at) >= NEWS_EVERY) {
            self.missed_at = Some(now);
            self.wants_ring = true;
        }
    }

    /// Whether it would fetch what has changed. It does not want to any more.
    #[cfg(test)]
    pub fn takes_back_want(&mut self) -> bool {
        mem::take(&mut self.wants_ring)
    }

    /// Fetches all that is so now, from who leads.
    pub fn refresh(&mut self, asked: Asked<()>) {
        self.waiting_next.push(asked);
        self.wants_ring = true;
    }

    /// Asks for a change.
    pub fn command(&mut self, links: &Links, now: Time, command: Command, asked: Asked<CommandReply>) {
        self.ask(links, now, Request::Command(command), By::Command(asked));
    }

    /// Asks what keyspaces with quotas hold.
    pub fn uses(&mut self, links: &Links, now: Time, asked: Asked<Uses>) {
        self.ask(links, now, Request::Uses(Uses::new()), By::Uses(asked));
    }

    fn ask(&mut self, links: &Links, now: Time, request: Request, asked: By) {
        self.last += 1;
        self.commands.insert(self.last, Commanded { request, due: now, asked });
        self.send_command(links, now, self.last, true);
    }

    /// Whom to ask, for the first time or again. First it is a member, whose connection may be about to open.
    fn whom(&mut self, links: &Links, now: Time, is_first: bool) -> Option<Origin> {
        if self.members.is_empty() || !is_first && !links.reaches_a_member() {
            self.turn += 1;
            return self.turn.checked_rem(self.seeds).map(Origin::Seed);
        }
        self.contact.ask(now).map(Origin::Node)
    }

    fn send_command(&mut self, links: &Links, now: Time, number: u64, is_first: bool) {
        let Some(origin) = self.whom(links, now, is_first) else { return };
        if let Some(commanded) = self.commands.get_mut(&number) {
            commanded.due = now.after(ASK_AGAIN_AFTER);
            links.ask(origin, number, &commanded.request);
        }
    }

    fn send_fetch(&mut self, links: &Links, now: Time, whole: RingVersion) {
        self.last += 1;
        let number = self.last;
        self.waiting.append(&mut self.waiting_next);
        let request = match self.waiting.is_empty() {
            true => Request::Ring(whole),
            false => Request::Newest(whole),
        };
        if let Some(origin) = self.whom(links, now, self.fetch.is_none()) {
            links.ask(origin, number, &request);
        }
        self.fetch = Some(Fetch { number, due: now.after(ASK_AGAIN_AFTER) });
        self.wants_ring = false;
    }

    /// Sends what is due.
    pub fn go_on(&mut self, links: &Links, now: Time, whole: RingVersion) {
        let is_late = self.fetch.as_ref().is_some_and(|fetch| fetch.due <= now);
        if is_late || (self.fetch.is_none() && self.wants_ring) {
            self.send_fetch(links, now, whole);
        }
        let late =
            self.commands.iter().filter(|(_, commanded)| commanded.due <= now).map(|(number, _)| *number);
        for number in late.collect::<Vec<_>>() {
            self.send_command(links, now, number, false);
        }
    }

    /// Takes an answer. Returns it if it is the one to the newest question of what has changed.
    pub fn hear(&mut self, now: Time, number: u64, response: Response) -> Option<Response> {
        let is_fetch = self.fetch.as_ref().is_some_and(|fetch| fetch.number == number);
        if !is_fetch && !self.commands.contains_key(&number) {
            return None;
        }
        self.contact.heard(&response);
        match response {
            Response::Ring(difference) if is_fetch => {
                // Who has no news may be cut off from those who have: the next question is for another one.
                if difference.facts.is_empty() {
                    self.contact.turn();
                }
                self.fetch = None;
                Some(Response::Ring(difference))
            }
            Response::Replied(reply) => {
                if let Some(Commanded { asked: By::Command(asked), .. }) = self.commands.remove(&number) {
                    asked.answer(Ok(reply));
                }
                self.wants_ring = true;
                None
            }
            Response::Uses(uses) => {
                if let Some(Commanded { asked: By::Uses(asked), .. }) = self.commands.remove(&number) {
                    asked.answer(Ok(uses));
                }
                None
            }
            Response::Denied(scope, rights) => {
                if let Some(commanded) = self.commands.remove(&number) {
                    commanded.asked.fail(words::lacks(scope, rights));
                }
                None
            }
            Response::Elsewhere(Some(_)) => {
                let due = now.after(ASK_ELSEWHERE_AFTER);
                self.fetch.iter_mut().filter(|_| is_fetch).for_each(|fetch| fetch.due = due);
                self.commands.get_mut(&number).into_iter().for_each(|commanded| commanded.due = due);
                None
            }
            // Nobody leads: that takes a while.
            _ => None,
        }
    }

    /// What was fetched is taken note of.
    pub fn fetched(&mut self) {
        for waiting in self.waiting.drain(..) {
            waiting.answer(Ok(()));
        }
    }

    /// Nobody will answer: whoever waits need wait no longer. Of what was commanded it is not known whether it happened.
    pub fn fail(&mut self, error: impl Fn() -> Error, unknown: impl Fn() -> Error) {
        for waiting in self.waiting.drain(..).chain(self.waiting_next.drain(..)) {
            waiting.answer(Err(error()));
        }
        for commanded in mem::take(&mut self.commands).into_values() {
            match commanded.asked {
                By::Command(asked) => asked.answer(Err(unknown())),
                By::Uses(asked) => asked.answer(Err(error())),
            }
        }
    }

    /// Answers those who have waited too long.
    pub fn give_up(&mut self, at: Instant, troubles: impl Fn() -> String) {
        let waiting = self.waiting.extract_if(.., |asked| asked.is_late(at));
        for asked in waiting.chain(self.waiting_next.extract_if(.., |asked| asked.is_late(at))) {
            asked.answer(Err(words::no_answer(&troubles())));
        }
        for (_, commanded) in self.commands.extract_if(.., |_, commanded| commanded.asked.is_late(at)) {
            commanded.asked.fail(words::unknown_command(&troubles()));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use tyr_proto::cluster::{ClassSettings, Difference, Fact, Position};

    use super::*;

    /// A manager of three members that waits for what has changed, and whom it has asked.
    fn asking() -> (Manager, NodeId) {
        let mut manager = Manager::new(0, 0);
        manager.set_members(vec![NodeId(1), NodeId(2), NodeId(3)]);
        manager.last = 1;
        manager.fetch = Some(Fetch { number: 1, due: Time(0) });
        let asked = manager.contact.ask(Time(0)).unwrap();
        (manager, asked)
    }

    fn ring(facts: Vec<Fact>) -> Response {
        let version = RingVersion(5);
        Response::Ring(Difference { facts, next: Position::whole(version), reached: Some(version) })
    }

    #[test]
    fn who_has_no_news_is_not_asked_again_before_others() {
        let (mut manager, asked) = asking();
        assert!(manager.hear(Time(1), 1, ring(Vec::new())).is_some());
        assert_ne!(manager.contact.ask(Time(2)), Some(asked));
    }

    #[test]
    fn who_waits_for_a_command_hears_that_it_is_not_known_when_nobody_will_answer() {
        let (mut manager, _) = asking();
        let (reply, mut answer) = tokio::sync::oneshot::channel();
        let asked = Asked { until: Instant::now(), reply };
        let request = Request::Command(Command::DropKeyspace(tyr_types::KeyspaceId(1)));
        manager.commands.insert(2, Commanded { request, due: Time(0), asked: By::Command(asked) });
        manager.fail(words::denied, words::closed_and_unknown);
        assert_eq!(answer.try_recv().unwrap().unwrap_err(), words::closed_and_unknown());
        assert!(manager.commands.is_empty(), "it is not asked for again");
    }

    #[test]
    fn who_has_news_is_asked_again() {
        let (mut manager, asked) = asking();
        let news = Fact::Class(tyr_proto::ClassId(0), ClassSettings::new(3));
        assert!(manager.hear(Time(1), 1, ring(vec![news])).is_some());
        assert_eq!(manager.contact.ask(Time(2)), Some(asked));
    }
}

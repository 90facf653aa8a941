//! Clients that are the shipped ones, driver included: what they want carried goes on its way, and what is for them arrives.
//!
//! Connections to them are never lost by themselves, only messages are; but they notice when a node has crashed.

use std::collections::BTreeMap;

use tyr_client::simulation::{Mail, Station};
use tyr_proto::{
    NodeId, SessionId, Time,
    cluster::{self, Fact, KeyspaceState, Request, Response},
    message::Answer,
};
use tyr_types::{KeyspaceName, KeyspaceSettings};

use super::{World, event::Event};
use crate::cluster::{
    layout::{CHUNK, KEYSPACE},
    voters::Asker,
};

/// The name of the keyspace in which they work.
pub const NAME: &str = "files";

/// Where they are, and the last request of each to the cluster manager.
pub(super) type Stations = BTreeMap<SessionId, (Station, u64)>;

impl World {
    /// A client that is there from now on.
    pub fn join(&mut self, session: SessionId, station: Station) {
        self.stations.insert(session, (station, 0));
    }

    /// A client is there no longer; nothing is for it any more.
    pub fn part(&mut self, session: SessionId) {
        self.stations.remove(&session);
    }

    /// What clients want carried goes on its way. Says whether there was anything.
    pub fn collect_mail(&mut self) -> bool {
        let sessions: Vec<SessionId> = self.stations.keys().copied().collect();
        let mut any = false;
        for session in sessions {
            while let Some(mail) =
                self.stations.get_mut(&session).and_then(|(station, _)| station.take_mail())
            {
                any = true;
                match mail {
                    Mail::Node(node, envelope) => self.post(node, envelope),
                    Mail::Manager(number, request) => self.post_request(session, number, request),
                }
            }
        }
        any
    }

    fn post_request(&mut self, session: SessionId, number: u64, request: Request) {
        if let Some((_, last)) = self.stations.get_mut(&session) {
            *last = number;
        }
        let Some(delay) = self.delay() else { return };
        let time = Time(self.now);
        let voter = self.manager.voters().map(|voters| voters.contact(Asker::Client(session), time));
        self.after(delay, Event::RingAsked(session, voter.unwrap_or(NodeId(0)), request));
    }

    /// An answer is for such a client. False if it is for another one.
    pub(super) fn answer_station(&mut self, session: SessionId, node: NodeId, answer: &Answer) -> bool {
        let station = self.stations.get(&session);
        station.is_some_and(|(station, _)| {
            station.answer(node, answer.clone());
            true
        })
    }

    /// The cluster manager's answer is for such a client, who is told of the keyspace, too. False if it is for another one.
    pub(super) fn respond_to_station(&mut self, session: SessionId, response: &Response) -> bool {
        let fact = Fact::Keyspace(KEYSPACE, self.keyspace_fact());
        let Some((station, last)) = self.stations.get_mut(&session) else { return false };
        let mut response = response.clone();
        if let Response::Ring(difference) = &mut response {
            difference.facts.push(fact);
        }
        // Whatever was asked for before, what is so now answers the last question, too.
        station.respond(*last, response);
        true
    }

    pub(super) fn show_reach(&self, node: NodeId, is_reached: bool) {
        self.stations.values().for_each(|(station, _)| station.set_reach(node, is_reached));
    }

    fn keyspace_fact(&self) -> cluster::Keyspace {
        let known = &self.keyspaces[&KEYSPACE];
        let seed = known.placement.seed.0.first_chunk::<8>().copied().unwrap_or_default();
        let multi_version = known.multi_version;
        cluster::Keyspace {
            name: KeyspaceName::new(NAME).expect("a short name"),
            class: known.placement.class,
            seed: u64::from_le_bytes(seed),
            settings: KeyspaceSettings { chunk_size: CHUNK, multi_version, ..KeyspaceSettings::default() },
            state: KeyspaceState::Exists,
            snapshots: known.snapshots.clone(),
        }
    }
}

//! The connections of clients' sessions.

use std::collections::BTreeMap;

use tyr_net::Link;
use tyr_proto::SessionId;

/// The open connections of each session, in the order in which they were opened here.
///
/// A session has more than one if its client has dialed again before this node saw that the one before is dead, as a node does that has been
/// stopped for a while. They are then opened here in any order, so which of them lives is known only when the others have ended.
#[derive(Debug, Default)]
pub(crate) struct Sessions(BTreeMap<SessionId, Vec<Link>>);

impl Sessions {
    /// A connection is open.
    pub fn opened(&mut self, session: SessionId, link: Link) {
        self.0.entry(session).or_default().push(link);
    }

    /// A connection has ended.
    pub fn closed(&mut self, session: SessionId, link: &Link) {
        if let Some(links) = self.0.get_mut(&session) {
            links.retain(|open| !open.is(link));
            if links.is_empty() {
                self.0.remove(&session);
            }
        }
    }

    /// The connection by which a session is told something.
    pub fn link(&self, session: SessionId) -> Option<&Link> {
        self.0.get(&session)?.last()
    }
}

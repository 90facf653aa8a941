//! Forgets sessions that are gone (design, section 5: an outcome is kept until the client's mark has passed it or its session is over).
//!
//! A session is a lease that its client renews with everything it says here. When nothing was heard for long, its mark is forgotten, and
//! with it what it kept from being executed again. In its place stands one ring version for all such sessions: an id that was born
//! below it and that nobody here knows is never executed, and nobody can say any more how it ended.

use alloc::{collections::BTreeMap, vec::Vec};

use super::Partition;
use crate::{
    RingVersion, SessionId, Time,
    effects::{Context, Effect},
    entry::Entry,
};

/// When sessions were last heard of.
#[derive(Debug, Default)]
pub struct Sessions {
    heard_at: BTreeMap<SessionId, Time>,
    /// Since when a ring version is known that is above all births of a session that is to be forgotten.
    outdated_since: BTreeMap<SessionId, Time>,
    looked_at: Time,
}

/// A client is never so many ring versions ahead of a node with a lease.
const AHEAD_MAX: u64 = 1 << 20;

impl Partition {
    /// A client says something.
    pub fn hear(&mut self, cx: &Context<'_>, session: SessionId) {
        // Others have nothing here that a time of theirs would keep.
        if self.is_established() && self.state.has_session(session) {
            self.sessions.heard_at.insert(session, cx.now);
            self.sessions.outdated_since.remove(&session);
        }
    }

    /// Forgets sessions that were not heard of for long. Clients that live learn newer ring versions before their ids are refused:
    /// they ask for the ring in a quarter of the time, here half of it passes.
    pub(super) fn tick_sessions(&mut self, cx: &mut Context<'_>) {
        let timeout = cx.limits.session_timeout;
        if cx.now.since(self.sessions.looked_at) < timeout / 8 {
            return;
        }
        self.sessions.looked_at = cx.now;
        let marked: Vec<(SessionId, RingVersion)> = self.state.sessions().collect();
        let Sessions { heard_at, outdated_since, .. } = &mut self.sessions;
        let is_marked =
            |session: &SessionId| marked.binary_search_by_key(session, |(marked, _)| *marked).is_ok();
        heard_at.retain(|session, _| is_marked(session));
        outdated_since.retain(|session, _| is_marked(session));
        let (mut gone, mut awaits_version) = (Vec::new(), false);
        for (session, born) in &marked {
            let heard = *heard_at.entry(*session).or_insert(cx.now);
            if cx.now.since(heard) < timeout {
                continue;
            }
            if cx.version.0.saturating_add(AHEAD_MAX) < born.0 {
                // No cluster manager has told it that.
                gone.push((*session, RingVersion(cx.version.0.saturating_sub(1))));
            } else if cx.version <= *born {
                // Of a version that it does not know yet this node hears without asking.
                awaits_version |= cx.version == *born;
            } else if cx.now.since(*outdated_since.entry(*session).or_insert(cx.now)) >= timeout / 2 {
                gone.push((*session, *born));
            }
        }
        if awaits_version {
            cx.push(Effect::AskVersion(RingVersion(cx.version.0.saturating_add(1))));
        }
        for (session, born) in gone {
            self.append(cx, Entry::Expire { session, born });
        }
    }

    pub(super) fn handle_expire_durable(&mut self, cx: &mut Context<'_>, session: SessionId) {
        self.end_drives_of(cx, session);
    }
}

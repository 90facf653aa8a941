//! A client that was let in.

use std::{fmt, sync::Arc};

use parking_lot::Mutex;
use tyr_proto::access::{AccountId, AccountName, Claims, Entitlement};

use super::Registry;

/// A client on one connection.
pub(crate) struct Caller {
    /// Its session.
    pub session: u64,
    pub who: Who,
    /// Where it comes from, for people.
    pub from: String,
    /// Shown at the node's hatch by who was let in here.
    pub ticket: u128,
    worked_out: Mutex<WorkedOut>,
}

/// Who it is.
pub(crate) enum Who {
    /// Somebody who knows the secret of the cluster.
    Operator,
    /// A user with a token.
    User(AccountName, Box<Claims>),
}

/// Its rights, as they were when something was last said of accounts.
struct WorkedOut {
    version: u64,
    rights: Option<Arc<Entitlement>>,
}

impl Caller {
    /// Nothing is worked out yet.
    pub fn new(session: u64, who: Who, from: &str) -> Self {
        let ticket = crate::surroundings::random_bits();
        let worked_out = Mutex::new(WorkedOut { version: u64::MAX, rights: None });
        Caller { session, who, from: from.to_owned(), ticket, worked_out }
    }

    /// The user's account; none of who knows the secret.
    pub fn account(&self) -> Option<AccountId> {
        match &self.who {
            Who::Operator => None,
            Who::User(_, claims) => Some(claims.user),
        }
    }

    /// What it may do now; none if its token is void.
    pub fn entitlement(&self, registry: &Registry) -> Option<Arc<Entitlement>> {
        if let Who::User(_, claims) = &self.who
            && registry.seconds() >= claims.expires
        {
            return None;
        }
        let version = registry.version();
        let mut worked_out = self.worked_out.lock();
        if worked_out.version != version {
            let rights = match &self.who {
                Who::Operator => Some(Entitlement::full()),
                Who::User(_, claims) => registry.entitlement(claims),
            };
            *worked_out = WorkedOut { version, rights: rights.map(Arc::new) };
        }
        worked_out.rights.clone()
    }
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.who {
            Who::Operator => write!(f, "who knows the secret, from {}", self.from),
            Who::User(name, _) => write!(f, "user {name}, from {}", self.from),
        }
    }
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Caller").field(&self.to_string()).finish()
    }
}

//! What a node knows of accounts and seals, and which sessions are whose.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;
use tyr_proto::{
    RingVersion, SnapshotId,
    access::{AccountId, AccountName, Claims, Entitlement, Register, Rights},
    cluster::{Fact, KeyspaceState, Request, Response},
};
use tyr_types::KeyspaceId;
use tyr_wire::connection::Refusal;

use super::{Caller, names::Names};

/// What is known.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    register: RwLock<Register>,
    /// Raised after each change.
    version: AtomicU64,
    /// Of which ring version all was heard; zero before the first.
    reached: watch::Sender<RingVersion>,
    /// The time, in seconds since 1970, a moment ago.
    seconds: AtomicU64,
    /// The sessions of clients, how many connections each has, and whose they are.
    sessions: Mutex<BTreeMap<u64, (Option<AccountId>, usize)>>,
    /// Clients that were told where the hatch is.
    tickets: Mutex<BTreeMap<u128, Weak<Caller>>>,
    /// The keyspaces that exist.
    keyspaces: RwLock<BTreeSet<KeyspaceId>>,
    /// What keyspaces and snapshots are and were called.
    names: RwLock<Names>,
}

impl Registry {
    /// Takes what is so.
    pub fn take<'a>(&self, facts: impl Iterator<Item = &'a Fact>) {
        for fact in facts {
            match fact {
                Fact::Keyspace(id, keyspace) => {
                    match keyspace.state == KeyspaceState::Exists {
                        true => self.keyspaces.write().insert(*id),
                        false => self.keyspaces.write().remove(id),
                    };
                    self.names.write().take(*id, keyspace);
                }
                Fact::Account(..) | Fact::Seal(..) => {
                    self.register.write().take(fact);
                    // Whoever sees the new number sees what it is for.
                    self.version.fetch_add(1, Ordering::Release);
                }
                Fact::Class(..) | Fact::Member(..) | Fact::Partition(..) => {}
            }
        }
    }

    /// All was heard that was so at a ring version.
    pub fn reach(&self, version: RingVersion) {
        self.reached.send_replace(version);
    }

    /// Waits until all was heard that was so at a ring version.
    pub async fn reached(&self, version: RingVersion) {
        let mut told = self.reached.subscribe();
        // What tells it is held by whoever asks.
        let _reached = told.wait_for(|reached| *reached >= version).await;
    }

    /// Looks at the clock.
    pub fn tick(&self) {
        self.seconds.store(clock(), Ordering::Relaxed);
    }

    /// The time, in seconds since 1970.
    pub fn seconds(&self) -> u64 {
        match self.seconds.load(Ordering::Relaxed) {
            0 => clock(),
            seconds => seconds,
        }
    }

    /// Changes with what is known.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The seal that is to stand for claims.
    pub fn seal(&self, claims: &Claims) -> Option<[u8; 32]> {
        self.register.read().seal(claims.seal).copied()
    }

    /// The name of the user whose claims these are, unless they are void.
    pub fn name(&self, claims: &Claims) -> Option<AccountName> {
        let register = self.register.read();
        register.entitlement(claims)?;
        register.user(claims.user).map(|user| user.name.clone())
    }

    /// The name of an account, removed or not.
    pub fn account_name(&self, id: AccountId) -> Option<String> {
        self.register.read().account(id).map(|account| account.name.to_string())
    }

    /// A client asked this, and was answered so.
    pub fn hear(&self, request: &Request, response: &Response) {
        self.names.write().hear(request, response);
    }

    /// The name of a keyspace, dropped or not.
    pub fn keyspace_name(&self, id: KeyspaceId) -> Option<String> {
        self.names.read().keyspace(id).map(ToString::to_string)
    }

    /// The name of a snapshot of a keyspace, dropped or not.
    pub fn snapshot_name(&self, keyspace: KeyspaceId, id: SnapshotId) -> Option<String> {
        self.names.read().snapshot(keyspace, id).map(ToString::to_string)
    }

    /// What claims entitle to.
    pub fn entitlement(&self, claims: &Claims) -> Option<Entitlement> {
        self.register.read().entitlement(claims)
    }

    /// What is said to somebody of whose seal or user nothing is known here: that is gone, or not heard of yet.
    pub fn refusal_of_unknown(&self, claims: &Claims) -> Refusal {
        let may_come = *self.reached.borrow() == RingVersion(0) || self.register.read().is_ahead(claims);
        if may_come { Refusal::Stopping } else { Refusal::Revoked }
    }

    /// Gives a client a ticket to the hatch.
    pub fn issue(&self, caller: &Arc<Caller>) -> u128 {
        let mut tickets = self.tickets.lock();
        tickets.retain(|_, holder| holder.strong_count() > 0);
        tickets.insert(caller.ticket, Arc::downgrade(caller));
        caller.ticket
    }

    /// Whether who holds a ticket may have files, which hold payload of any keyspace: who may read all of them.
    pub fn may_have_files(&self, ticket: u128) -> bool {
        let holder = self.tickets.lock().get(&ticket).and_then(Weak::upgrade);
        holder.is_some_and(|caller| self.reads_everything(&caller))
    }

    /// Whether a client may read every keyspace that exists.
    pub fn reads_everything(&self, caller: &Caller) -> bool {
        let Some(rights) = caller.entitlement(self) else { return false };
        self.keyspaces.read().iter().all(|keyspace| rights.rights(*keyspace).has(Rights::READ))
    }

    /// A connection of a session begins. False if the session is somebody else's.
    pub fn enter(&self, session: u64, account: Option<AccountId>) -> bool {
        let mut sessions = self.sessions.lock();
        let (whose, count) = sessions.entry(session).or_insert((account, 0));
        let is_own = *whose == account;
        *count += usize::from(is_own);
        is_own
    }

    /// It ends.
    pub fn leave(&self, session: u64) {
        if let Entry::Occupied(mut entered) = self.sessions.lock().entry(session) {
            entered.get_mut().1 -= 1;
            if entered.get().1 == 0 {
                entered.remove();
            }
        }
    }
}

fn clock() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_whose_it_is_as_long_as_it_is_open() {
        let registry = Registry::default();
        let (one, other) = (Some(AccountId(1)), Some(AccountId(2)));
        assert!(registry.enter(7, one) && registry.enter(7, one) && registry.enter(8, other));
        assert!(!registry.enter(7, other) && !registry.enter(7, None));
        registry.leave(7);
        assert!(!registry.enter(7, other), "one connection is left");
        registry.leave(7);
        assert!(registry.enter(7, other));
    }
}

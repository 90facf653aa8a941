//! Accounts and seals: who has which rights, and what stands for tokens.

use alloc::collections::BTreeMap;

use tyr_types::KeyspaceId;

use super::{Answer, Cluster, KeyspaceState, Refusal, Reply, difference::Subject};
use crate::{
    RingVersion,
    access::{Account, AccountId, AccountKind, AccountName, AccountState, Rights, Scope},
    layout,
};

/// Names a seal; never given twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SealId(pub u32);

/// What stands for tokens: a pair of keys. The secret half, with which tokens are made, is nowhere: who knows the secret of the cluster works it
/// out. So neither a connection without encryption nor a voter's disk gives it away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seal {
    /// By which tokens are checked.
    pub public: [u8; 32],
    /// With the cluster's secret it makes the secret half.
    pub salt: [u8; 32],
}

/// The accounts and seals of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Access {
    pub accounts: BTreeMap<AccountId, Account>,
    /// None: it was removed.
    pub seals: BTreeMap<SealId, Option<Seal>>,
}

impl Access {
    /// Whether nothing was ever kept here.
    pub fn is_empty(&self) -> bool {
        self.accounts.is_empty() && self.seals.is_empty()
    }

    fn existing(&self, id: AccountId) -> Result<&Account, Refusal> {
        let known = self.accounts.get(&id).filter(|known| known.state == AccountState::Exists);
        known.ok_or(Refusal::NotFound)
    }

    fn of_kind(&self, id: AccountId, kind: AccountKind) -> Result<&Account, Refusal> {
        self.existing(id).and_then(|known| if known.kind == kind { Ok(known) } else { Err(Refusal::Invalid) })
    }
}

impl Cluster {
    /// All accounts, removed ones included.
    pub fn accounts(&self) -> impl Iterator<Item = (AccountId, &Account)> {
        self.access.accounts.iter().map(|(id, account)| (*id, account))
    }

    /// An account, possibly removed.
    pub fn account(&self, id: AccountId) -> Option<&Account> {
        self.access.accounts.get(&id)
    }

    /// The seal by which tokens are made: the newest.
    pub fn newest_seal(&self) -> Option<(SealId, &Seal)> {
        self.access.seals.iter().rev().find_map(|(id, seal)| Some((*id, seal.as_ref()?)))
    }

    /// The last seal that was added, removed or not.
    pub fn newest_seal_id(&self) -> Option<SealId> {
        self.access.seals.keys().next_back().copied()
    }

    pub(super) fn create_account(&mut self, name: AccountName, kind: AccountKind, seed: u64) -> Reply {
        let exists = |account: &Account| account.state == AccountState::Exists && account.name == name;
        if let Some((id, same)) = self.accounts().find(|(_, account)| exists(account)) {
            let is_repeated = same.kind == kind && same.seed == seed;
            return if is_repeated {
                Ok(Answer::AccountCreated(id, self.version))
            } else {
                Err(Refusal::Taken)
            };
        }
        if self.access.accounts.len() >= ACCOUNTS_MAX {
            return Err(Refusal::Taken);
        }
        let id = AccountId(self.access.accounts.keys().next_back().map_or(1, |last| last.0 + 1));
        let account = Account {
            name,
            kind,
            seed,
            groups: Default::default(),
            grants: BTreeMap::new(),
            generation: 0,
            state: AccountState::Exists,
        };
        self.change(|cluster, version| {
            cluster.access.accounts.insert(id, account);
            cluster.stamps.stamp(Subject::Account(id), version);
        });
        Ok(Answer::AccountCreated(id, self.version))
    }

    pub(super) fn remove_account(&mut self, id: AccountId) -> Reply {
        let account = self.access.accounts.get(&id).ok_or(Refusal::NotFound)?;
        if account.state == AccountState::Removed {
            return Ok(Answer::Done(self.version));
        }
        self.change_account(id, |account| {
            account.state = AccountState::Removed;
            account.grants.clear();
            account.groups.clear();
        })
    }

    pub(super) fn enroll(&mut self, user: AccountId, group: AccountId) -> Reply {
        self.access.of_kind(group, AccountKind::Group)?;
        let groups = &self.access.of_kind(user, AccountKind::User)?.groups;
        if groups.len() >= GROUPS_MAX && !groups.contains(&group) {
            return Err(Refusal::Taken);
        }
        self.change_account(user, |user| {
            user.groups.insert(group);
        })
    }

    pub(super) fn dismiss(&mut self, user: AccountId, group: AccountId) -> Reply {
        self.access.of_kind(user, AccountKind::User)?;
        self.change_account(user, |user| {
            user.groups.remove(&group);
        })
    }

    pub(super) fn grant(&mut self, id: AccountId, scope: Scope, more: Rights, less: Rights) -> Reply {
        let account = self.access.existing(id)?;
        if !self.is_scope(scope, more) {
            return Err(Refusal::NotFound);
        }
        if account.grants.len() >= GRANTS_MAX && !account.grants.contains_key(&scope) {
            return Err(Refusal::Taken);
        }
        self.change_account(id, |account| {
            let before = account.grants.remove(&scope).unwrap_or_default();
            let after = (before | more) - less;
            if !after.is_empty() {
                account.grants.insert(scope, after);
            }
        })
    }

    /// Whether there is something that rights can be granted to. Taken away they can be from anything.
    fn is_scope(&self, scope: Scope, more: Rights) -> bool {
        let exists = |id: KeyspaceId| {
            self.keyspaces.get(&id).is_some_and(|keyspace| keyspace.state == KeyspaceState::Exists)
        };
        match scope {
            Scope::Cluster | Scope::Keyspaces => true,
            Scope::Keyspace(id) => more.is_empty() || exists(id),
        }
    }

    pub(super) fn revoke_tokens(&mut self, id: AccountId, before: u32) -> Reply {
        let user = self.access.of_kind(id, AccountKind::User)?;
        // By one at most, so that no number of generations is used up at once.
        if before > user.generation.saturating_add(1) {
            return Err(Refusal::Invalid);
        }
        self.change_account(id, |user| user.generation = user.generation.max(before))
    }

    /// Changes an account; the ring version stays if that changes nothing.
    fn change_account(&mut self, id: AccountId, change: impl FnOnce(&mut Account)) -> Reply {
        let Some(account) = self.access.accounts.get(&id) else { return Err(Refusal::NotFound) };
        let mut changed = account.clone();
        change(&mut changed);
        if changed == *account {
            return Ok(Answer::Done(self.version));
        }
        Ok(self.change(|cluster, version| {
            cluster.access.accounts.insert(id, changed);
            cluster.stamps.stamp(Subject::Account(id), version);
        }))
    }

    pub(super) fn add_seal(&mut self, id: SealId, seal: Seal) -> Reply {
        match self.access.seals.get(&id) {
            Some(Some(same)) if *same == seal => return Ok(Answer::Done(self.version)),
            Some(_) => return Err(Refusal::Taken),
            None => {}
        }
        let next = self.access.seals.keys().next_back().map_or(1, |last| last.0 + 1);
        if id.0 != next || self.access.seals.len() >= SEALS_MAX {
            return Err(Refusal::Stale);
        }
        Ok(self.change_seal(id, Some(seal)))
    }

    pub(super) fn remove_seal(&mut self, id: SealId) -> Reply {
        match self.access.seals.get(&id) {
            None => Err(Refusal::NotFound),
            Some(None) => Ok(Answer::Done(self.version)),
            Some(Some(_)) => Ok(self.change_seal(id, None)),
        }
    }

    fn change_seal(&mut self, id: SealId, seal: Option<Seal>) -> Answer {
        self.change(|cluster, version: RingVersion| {
            cluster.access.seals.insert(id, seal);
            cluster.stamps.stamp(Subject::Seal(id), version);
        })
    }
}

layout!(struct SealId(number));
layout!(struct Seal { public, salt });
layout!(struct Access { accounts, seals });

/// The most accounts, removed ones included.
pub const ACCOUNTS_MAX: usize = 1 << 16;
/// The most groups of a user.
const GROUPS_MAX: usize = 256;
/// The most grants of an account.
const GRANTS_MAX: usize = 4096;
/// The most seals, removed ones included.
const SEALS_MAX: usize = 1 << 16;

//! The accounts and seals that a node knows.

use alloc::collections::BTreeMap;

use super::{Account, AccountId, AccountKind, AccountState, Claims, Entitlement};
use crate::cluster::{Fact, SealId};

/// The accounts and the public halves of the seals, as far as the cluster manager has told.
#[derive(Clone, Debug, Default)]
pub struct Register {
    accounts: BTreeMap<AccountId, Account>,
    seals: BTreeMap<SealId, [u8; 32]>,
}

impl Register {
    /// Takes something that is so. Whether it is about accounts or seals.
    pub fn take(&mut self, fact: &Fact) -> bool {
        match fact {
            Fact::Account(id, account) => drop(self.accounts.insert(*id, account.clone())),
            Fact::Seal(id, Some(public)) => drop(self.seals.insert(*id, *public)),
            Fact::Seal(id, None) => drop(self.seals.remove(id)),
            _ => return false,
        }
        true
    }

    /// The public half of a seal, unless it was removed.
    pub fn seal(&self, id: SealId) -> Option<&[u8; 32]> {
        self.seals.get(&id)
    }

    /// An account, removed or not.
    pub fn account(&self, id: AccountId) -> Option<&Account> {
        self.accounts.get(&id)
    }

    /// A user that exists.
    pub fn user(&self, id: AccountId) -> Option<&Account> {
        let account = self.accounts.get(&id)?;
        (account.kind == AccountKind::User && account.state == AccountState::Exists).then_some(account)
    }

    /// Whether a token is of a seal or user that is newer than what is known here.
    pub fn is_ahead(&self, claims: &Claims) -> bool {
        let seal = self.seals.keys().next_back();
        let user = self.accounts.keys().next_back();
        seal.is_none_or(|newest| *newest < claims.seal) || user.is_none_or(|newest| *newest < claims.user)
    }

    /// What a token entitles to; none if it was revoked, or its user removed. Whether its seal stands for it, and what time it is, is
    /// for others to know.
    pub fn entitlement(&self, claims: &Claims) -> Option<Entitlement> {
        self.seals.get(&claims.seal)?;
        let user = self.user(claims.user).filter(|user| user.generation <= claims.generation)?;
        let groups = user.groups.iter().filter_map(|id| self.accounts.get(id));
        let groups = groups.filter(|group| group.state == AccountState::Exists);
        let all = Entitlement::of(groups.chain([user]));
        Some(if claims.limits.is_empty() { all } else { all.limited(&claims.limits) })
    }
}

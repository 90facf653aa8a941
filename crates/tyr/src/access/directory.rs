//! The users, groups, and keyspaces of a cluster by their names.

use std::collections::BTreeMap;

use tyr_server::{
    Account, AccountId, AccountKind, AccountState, Credential, Difference, Fact, KeyspaceState, Operator,
    Rights, Scope,
};
use tyr_types::{Error, KeyspaceId};

use crate::{failure::Result, settings::Settings};

/// What there is.
pub struct Directory {
    pub accounts: BTreeMap<AccountId, Account>,
    keyspaces: BTreeMap<KeyspaceId, String>,
}

impl Directory {
    /// As the cluster manager tells it. Fails if it tells of no users or groups, since whoever asks may not see them.
    pub fn ask(operator: &mut Operator, settings: &Settings) -> Result<Self> {
        let directory = Self::of(&operator.facts()?);
        // Who has a token is a user, and would be among them.
        if directory.accounts.is_empty() && matches!(settings.access.credential()?, Credential::Token(_)) {
            return Err(Error::denied(
                "to see users and groups takes the right to administer the cluster; ask who has it",
            )
            .into());
        }
        Ok(directory)
    }

    fn of(told: &Difference) -> Self {
        let (mut accounts, mut keyspaces) = (BTreeMap::new(), BTreeMap::new());
        for fact in &told.facts {
            match fact {
                Fact::Account(id, account) if account.state == AccountState::Exists => {
                    accounts.insert(*id, account.clone());
                }
                Fact::Keyspace(id, keyspace) if keyspace.state == KeyspaceState::Exists => {
                    keyspaces.insert(*id, keyspace.name.to_string());
                }
                _ => {}
            }
        }
        Directory { accounts, keyspaces }
    }

    /// The account of a name.
    pub fn account(&self, name: &str) -> Result<AccountId> {
        let found = self.accounts.iter().find(|(_, account)| account.name.as_str() == name);
        let missing = || {
            Error::not_found(format!(
                "there is no user or group '{}'; see 'tyr user list' and 'tyr group list'",
                name.escape_debug()
            ))
        };
        Ok(found.map(|(id, _)| *id).ok_or_else(missing)?)
    }

    /// The user or group of a name.
    pub fn of_kind(&self, name: &str, kind: AccountKind) -> Result<AccountId> {
        let id = self.account(name)?;
        if self.accounts[&id].kind == kind {
            return Ok(id);
        }
        let (is, wanted) = match kind {
            AccountKind::User => ("group", "user"),
            AccountKind::Group => ("user", "group"),
        };
        Err(Error::invalid(format!("'{name}' is a {is}; name a {wanted}")).into())
    }

    /// The name of an account.
    pub fn name(&self, id: AccountId) -> Option<String> {
        self.accounts.get(&id).map(|account| account.name.to_string())
    }

    /// The keyspace of a name.
    pub fn keyspace(&self, name: &str) -> Result<KeyspaceId> {
        let found = self.keyspaces.iter().find(|(_, known)| *known == name);
        let missing = || Error::not_found(format!("there is no keyspace '{}'", name.escape_debug()));
        Ok(found.map(|(id, _)| *id).ok_or_else(missing)?)
    }

    /// A scope, as it is written. Keyspaces that were dropped have no name any more.
    pub fn scope(&self, scope: Scope) -> Option<String> {
        match scope {
            Scope::Cluster => Some("(cluster)".to_owned()),
            Scope::Keyspaces => Some("(all keyspaces)".to_owned()),
            Scope::Keyspace(id) => self.keyspaces.get(&id).cloned(),
        }
    }

    /// What an account was granted itself.
    pub fn grants(&self, account: &Account) -> Vec<(String, Rights)> {
        let grants = account.grants.iter();
        grants.filter_map(|(scope, rights)| Some((self.scope(*scope)?, *rights))).collect()
    }
}

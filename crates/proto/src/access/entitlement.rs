//! What a client is entitled to, all grants and limits worked out.

use alloc::collections::BTreeMap;

use tyr_types::KeyspaceId;

use super::{Account, Rights, Scope};

/// The rights of a client. A look at one keyspace costs next to nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entitlement {
    administers_cluster: bool,
    everywhere: Rights,
    keyspaces: BTreeMap<KeyspaceId, Rights>,
}

impl Entitlement {
    /// Everything.
    pub fn full() -> Self {
        Entitlement { administers_cluster: true, everywhere: Rights::ALL, keyspaces: BTreeMap::new() }
    }

    /// What these accounts were granted together.
    pub fn of<'a>(accounts: impl Iterator<Item = &'a Account>) -> Self {
        let grants = accounts.flat_map(|account| &account.grants);
        Entitlement::granted(grants.map(|(scope, rights)| (*scope, *rights)))
    }

    fn granted(grants: impl Iterator<Item = (Scope, Rights)>) -> Self {
        let mut all = Entitlement::default();
        for (scope, rights) in grants {
            match scope {
                Scope::Cluster => all.administers_cluster |= rights.has(Rights::ADMINISTER),
                Scope::Keyspaces => all.everywhere = all.everywhere | rights,
                Scope::Keyspace(id) => {
                    let known = all.keyspaces.entry(id).or_default();
                    *known = *known | rights;
                }
            }
        }
        if all.administers_cluster { Entitlement::full() } else { all }
    }

    /// As much of it as a token lets through.
    #[must_use]
    pub fn limited(&self, limits: &[(Scope, Rights)]) -> Self {
        let most = Entitlement::granted(limits.iter().copied());
        let named = self.keyspaces.keys().chain(most.keyspaces.keys());
        let keyspaces = named.map(|id| (*id, self.rights(*id) & most.rights(*id))).collect();
        Entitlement {
            administers_cluster: self.administers_cluster && most.administers_cluster,
            everywhere: self.everywhere & most.everywhere,
            keyspaces,
        }
    }

    /// The rights to a keyspace.
    pub fn rights(&self, keyspace: KeyspaceId) -> Rights {
        match self.keyspaces.get(&keyspace) {
            Some(rights) => self.everywhere | *rights,
            None => self.everywhere,
        }
    }

    /// Whether it has rights for all of a scope.
    pub fn allows(&self, scope: Scope, needed: Rights) -> bool {
        match scope {
            Scope::Cluster => self.administers_cluster,
            Scope::Keyspaces => self.everywhere.has(needed),
            Scope::Keyspace(id) => self.rights(id).has(needed),
        }
    }

    /// Whether it has these rights to anything.
    pub fn allows_anywhere(&self, needed: Rights) -> bool {
        self.everywhere.has(needed) || self.keyspaces.keys().any(|id| self.rights(*id).has(needed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: KeyspaceId = KeyspaceId(1);
    const OTHER: KeyspaceId = KeyspaceId(2);

    fn granted(grants: &[(Scope, Rights)]) -> Entitlement {
        Entitlement::granted(grants.iter().copied())
    }

    #[test]
    fn a_grant_is_for_its_scope_and_nothing_else() {
        let one = granted(&[(Scope::Keyspace(ONE), Rights::READ)]);
        assert!(one.allows(Scope::Keyspace(ONE), Rights::READ) && one.allows_anywhere(Rights::READ));
        assert!(!one.allows(Scope::Keyspace(ONE), Rights::WRITE));
        assert!(!one.allows(Scope::Keyspace(OTHER), Rights::READ));
        assert!(!one.allows(Scope::Keyspaces, Rights::READ) && !one.allows_anywhere(Rights::WRITE));
        let all = granted(&[(Scope::Keyspaces, Rights::ALL)]);
        assert!(all.allows(Scope::Keyspace(OTHER), Rights::ALL));
        assert!(!all.allows(Scope::Cluster, Rights::ADMINISTER), "keyspaces are not the cluster");
        assert!(!granted(&[(Scope::Cluster, Rights::READ)]).allows(Scope::Cluster, Rights::ADMINISTER));
    }

    #[test]
    fn who_administers_the_cluster_may_do_everything() {
        assert_eq!(granted(&[(Scope::Cluster, Rights::ADMINISTER)]), Entitlement::full());
    }

    #[test]
    fn a_token_lets_through_what_both_allow() {
        let user = granted(&[(Scope::Keyspaces, Rights::READ), (Scope::Keyspace(ONE), Rights::WRITE)]);
        let token = user.limited(&[(Scope::Keyspace(ONE), Rights::ALL)]);
        assert_eq!(token.rights(ONE), Rights::READ | Rights::WRITE);
        assert_eq!(token.rights(OTHER), Rights::NONE);
        let token = user.limited(&[(Scope::Keyspaces, Rights::WRITE)]);
        assert_eq!((token.rights(ONE), token.rights(OTHER)), (Rights::WRITE, Rights::NONE));
        let token = user.limited(&[(Scope::Cluster, Rights::ADMINISTER)]);
        assert_eq!(token.rights(ONE), Rights::READ | Rights::WRITE, "no more than the user has");
        assert!(!token.allows(Scope::Cluster, Rights::ADMINISTER));
        let token = Entitlement::full().limited(&[(Scope::Keyspace(ONE), Rights::READ)]);
        assert!(!token.allows(Scope::Cluster, Rights::ADMINISTER));
        assert_eq!((token.rights(ONE), token.rights(OTHER)), (Rights::READ, Rights::NONE));
    }
}

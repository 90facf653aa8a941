//! Accounts and seals.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use crate::{
    access::{AccountId, AccountKind, AccountState, Claims, Register, Rights, Scope},
    cluster::{Seal, SealId},
    encoding::{from_bytes, to_bytes},
};

const ADA: AccountId = AccountId(1);
const READERS: AccountId = AccountId(2);
const EVENTS: Scope = Scope::Keyspace(KeyspaceId(1));

fn account(name: &str, kind: AccountKind, seed: u64) -> Command {
    Command::CreateAccount { name: name.parse().unwrap(), kind, seed }
}

fn grant(account: AccountId, scope: Scope, more: Rights, less: Rights) -> Command {
    Command::Grant { account, scope, more, less }
}

fn seal(number: u8) -> Seal {
    Seal { public: [number; 32], salt: [number; 32] }
}

/// A cluster with a keyspace, a user, a group, and a seal.
fn guarded() -> Cluster {
    let mut cluster = cluster(1, ClassSettings { partitions: 1, ..ClassSettings::new(1) });
    accept(&mut cluster, keyspace("events", 1));
    accept(&mut cluster, account("ada", AccountKind::User, 1));
    accept(&mut cluster, account("readers", AccountKind::Group, 2));
    accept(&mut cluster, Command::AddSeal(SealId(1), seal(1)));
    cluster
}

/// What a token of the first generation entitles to, as a node sees it that has heard everything.
fn rights(cluster: &Cluster) -> Option<Rights> {
    let mut register = Register::default();
    cluster.changes_since(Position::default(), usize::MAX).facts.iter().for_each(|fact| {
        register.take(fact);
    });
    let claims = Claims {
        cluster: cluster.id(),
        seal: SealId(1),
        user: ADA,
        generation: 0,
        number: 1,
        issued: 0,
        expires: 1,
        limits: Vec::new(),
        holder: [0; 32],
    };
    register.entitlement(&claims).map(|rights| rights.rights(KeyspaceId(1)))
}

#[test]
fn what_is_said_again_changes_nothing() {
    let mut cluster = guarded();
    let again = [
        account("ada", AccountKind::User, 1),
        grant(ADA, EVENTS, Rights::READ, Rights::WRITE),
        Command::Enroll { user: ADA, group: READERS },
        Command::RevokeTokens { user: ADA, before: 1 },
        Command::AddSeal(SealId(2), seal(2)),
        Command::RemoveSeal(SealId(1)),
        Command::Dismiss { user: ADA, group: READERS },
        Command::RemoveAccount(READERS),
    ];
    for command in again {
        accept(&mut cluster, command.clone());
        let before = cluster.clone();
        accept(&mut cluster, command.clone());
        assert_eq!(cluster, before, "{command:?}");
    }
}

#[test]
fn what_makes_no_sense_is_refused_and_changes_nothing() {
    let mut cluster = guarded();
    let before = cluster.clone();
    for (command, refusal) in [
        (account("ada", AccountKind::User, 9), Refusal::Taken),
        (account("ada", AccountKind::Group, 1), Refusal::Taken),
        (grant(AccountId(9), EVENTS, Rights::READ, Rights::NONE), Refusal::NotFound),
        (grant(ADA, Scope::Keyspace(KeyspaceId(9)), Rights::READ, Rights::NONE), Refusal::NotFound),
        (Command::Enroll { user: READERS, group: READERS }, Refusal::Invalid),
        (Command::Enroll { user: ADA, group: ADA }, Refusal::Invalid),
        (Command::Dismiss { user: READERS, group: READERS }, Refusal::Invalid),
        (Command::RevokeTokens { user: READERS, before: 1 }, Refusal::Invalid),
        (Command::RevokeTokens { user: ADA, before: 2 }, Refusal::Invalid),
        (Command::RemoveAccount(AccountId(9)), Refusal::NotFound),
        (Command::AddSeal(SealId(1), seal(2)), Refusal::Taken),
        (Command::AddSeal(SealId(9), seal(2)), Refusal::Stale),
        (Command::RemoveSeal(SealId(9)), Refusal::NotFound),
    ] {
        assert_eq!(cluster.apply(command.clone()), Err(refusal), "{command:?}");
        assert_eq!(cluster, before);
    }
}

#[test]
fn rights_come_from_the_user_and_its_groups_and_go_with_them() {
    let mut cluster = guarded();
    assert_eq!(rights(&cluster), Some(Rights::NONE));
    accept(&mut cluster, grant(READERS, Scope::Keyspaces, Rights::READ, Rights::NONE));
    accept(&mut cluster, grant(ADA, EVENTS, Rights::WRITE | Rights::ADMINISTER, Rights::NONE));
    assert_eq!(rights(&cluster), Some(Rights::WRITE | Rights::ADMINISTER));
    accept(&mut cluster, Command::Enroll { user: ADA, group: READERS });
    assert_eq!(rights(&cluster), Some(Rights::ALL));
    accept(&mut cluster, grant(ADA, EVENTS, Rights::NONE, Rights::WRITE));
    assert_eq!(rights(&cluster), Some(Rights::READ | Rights::ADMINISTER));
    accept(&mut cluster, Command::RemoveAccount(READERS));
    assert_eq!(rights(&cluster), Some(Rights::ADMINISTER));
    // A group of the same name is another one.
    accept(&mut cluster, account("readers", AccountKind::Group, 2));
    assert_eq!(rights(&cluster), Some(Rights::ADMINISTER));
    accept(&mut cluster, grant(ADA, Scope::Cluster, Rights::ADMINISTER, Rights::NONE));
    assert_eq!(rights(&cluster), Some(Rights::ALL));
}

#[test]
fn a_token_is_void_without_its_generation_its_seal_or_its_user() {
    for end in [
        Command::RevokeTokens { user: ADA, before: 1 },
        Command::RemoveSeal(SealId(1)),
        Command::RemoveAccount(ADA),
    ] {
        let mut cluster = guarded();
        assert!(rights(&cluster).is_some());
        accept(&mut cluster, end.clone());
        assert_eq!(rights(&cluster), None, "{end:?}");
    }
}

#[test]
fn a_removed_user_is_not_the_next_one_of_its_name() {
    let mut cluster = guarded();
    accept(&mut cluster, Command::RemoveAccount(ADA));
    let created = cluster.apply(account("ada", AccountKind::User, 1)).unwrap();
    assert_eq!(created, Answer::AccountCreated(AccountId(3), cluster.version()));
    assert_eq!(cluster.account(ADA).unwrap().state, AccountState::Removed);
    assert_eq!(rights(&cluster), None);
}

#[test]
fn the_salt_of_a_seal_is_in_the_snapshot_and_in_no_fact() {
    let cluster = guarded();
    let salt = [9; 32];
    let mut with_salt = cluster.clone();
    accept(&mut with_salt, Command::AddSeal(SealId(2), Seal { public: [1; 32], salt }));
    let has = |bytes: &[u8]| bytes.windows(32).any(|window| window == salt);
    assert!(has(&to_bytes(&with_salt)));
    assert!(!has(&to_bytes(&with_salt.changes_since(Position::default(), usize::MAX))));
    assert_eq!(from_bytes::<Cluster>(&to_bytes(&with_salt)), Ok(with_salt));
}

//! Accounts: users, and groups of them.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    string::String,
};
use core::{fmt, str::FromStr};

use tyr_types::{Error, Result};

use super::{Rights, Scope};
use crate::{
    encoding::{Decode, Decoder, Encode, Encoder, Malformed},
    layout,
};

/// Identifies an account; never given twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AccountId(pub u32);

/// The name of an account: 1 to 64 letters, digits, and `.`, `_`, `-`, `@`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AccountName(String);

/// Somebody who has rights, or several who have them together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Its name; no two that exist have the same.
    pub name: AccountName,
    /// Whether it is a user or a group.
    pub kind: AccountKind,
    /// Random bits of whoever proposed it.
    pub seed: u64,
    /// Of a user: the groups that it belongs to.
    pub groups: BTreeSet<AccountId>,
    /// What it was granted itself.
    pub grants: BTreeMap<Scope, Rights>,
    /// Of a user: tokens of a lower generation are revoked.
    pub generation: u32,
    /// Whether it exists.
    pub state: AccountState,
}

/// What an account is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccountKind {
    /// Somebody who has tokens.
    User,
    /// Users that have rights together.
    Group,
}

/// Whether an account exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccountState {
    /// It does.
    Exists,
    /// It was removed. Its id is never given again.
    Removed,
}

impl AccountName {
    /// Checks and takes the name.
    pub fn new(name: &str) -> Result<Self> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-@".contains(&byte);
        if name.is_empty() || name.len() > ACCOUNT_NAME_SIZE_MAX || !name.bytes().all(is_allowed) {
            return Err(Error::invalid(format!(
                "a user or group is named by 1 to {ACCOUNT_NAME_SIZE_MAX} letters, digits, and . _ - @, not '{}'",
                name.escape_debug()
            )));
        }
        Ok(AccountName(name.into()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for AccountName {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        AccountName::new(name)
    }
}

impl fmt::Display for AccountName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Encode for AccountName {
    fn encode(&self, out: &mut Encoder) {
        self.as_str().encode(out);
    }
}

impl Decode for AccountName {
    fn decode(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        AccountName::new(&String::decode(input)?).map_err(|_| Malformed("an account's name is not allowed"))
    }
}

layout!(struct AccountId(number));
layout!(struct Account { name, kind, seed, groups, grants, generation, state });
layout!(enum AccountKind { 0 => User, 1 => Group });
layout!(enum AccountState { 0 => Exists, 1 => Removed });

/// The longest name of an account, in bytes.
pub const ACCOUNT_NAME_SIZE_MAX: usize = 64;

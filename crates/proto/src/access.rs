//! Who may do what: accounts, the rights that they were granted, and what a token says.
//!
//! Nothing here knows how a token is sealed, nor what time it is. What accounts there are is a part of the
//! [cluster](crate::cluster::Cluster); nodes keep a [`Register`] of them, and ask it what each client is entitled to.

mod account;
mod claims;
mod entitlement;
mod register;
mod rights;

pub use account::{ACCOUNT_NAME_SIZE_MAX, Account, AccountId, AccountKind, AccountName, AccountState};
pub use claims::{Claims, LIMITS_MAX};
pub use entitlement::Entitlement;
pub use register::Register;
pub use rights::{Rights, Scope};

//! What a token says of its holder. A seal of the cluster stands for it.

use alloc::vec::Vec;

use super::{AccountId, Rights, Scope};
use crate::{
    cluster::{ClusterId, SealId},
    encoding::ensure,
    layout,
};

/// What a token says. Times are in seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claims {
    /// The cluster that it is for.
    pub cluster: ClusterId,
    /// The seal that stands for it.
    pub seal: SealId,
    /// The user whose it is.
    pub user: AccountId,
    /// The generation of the user's tokens that it is of.
    pub generation: u32,
    /// Random bits that name it.
    pub number: u64,
    /// When it was issued.
    pub issued: u64,
    /// From when on it is void.
    pub expires: u64,
    /// What of the user's rights it lets through; all if it says nothing.
    pub limits: Vec<(Scope, Rights)>,
    /// The public key of which the holder has the other half, and proves that whenever it shows the token.
    pub holder: [u8; 32],
}

layout!(struct Claims { cluster, seal, user, generation, number, issued, expires, limits, holder } check |claims: &Claims| {
    ensure(claims.limits.len() <= LIMITS_MAX, "a token has too many limits")
});

/// The most limits of a token: it has to fit a handshake.
pub const LIMITS_MAX: usize = 64;

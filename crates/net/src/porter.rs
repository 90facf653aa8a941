//! Who judges, for a listener, those who dial it.

use std::{fmt, sync::Arc};

use tyr_wire::connection::{Party, Refusal};

use crate::{Handler, Proof};

/// Judges who dials a listener. Called by the tasks of connections: nothing here may block.
pub trait Porter: fmt::Debug + Send + Sync + 'static {
    /// Lets somebody in or not.
    fn judge(&self, claim: &Claim<'_>) -> Result<Admission, Refusal>;
}

/// Who somebody says to be.
#[derive(Debug)]
pub struct Claim<'a> {
    /// That is what it says.
    pub party: Party,
    /// Where it comes from, for people.
    pub from: &'a str,
    /// How it proves that.
    pub proof: Proof<'a>,
}

/// How somebody is let in.
pub struct Admission {
    /// Who takes what comes, in place of the listener's handler.
    pub handler: Arc<dyn Handler>,
    /// What the listener proves in its turn; empty if that was not asked for.
    pub proof: Vec<u8>,
}

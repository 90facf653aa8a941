//! What a transaction has to do with one blob.

use std::convert::Infallible;
use std::sync::Arc;

use tyr_store::{Head, Pin, Stop, Writer};
use tyr_types::{Key, KeyspaceId, Result};

use super::check::Check;
use super::observed::Observed;
use super::overlay::Overlay;
use crate::store::Entry;

/// What a transaction did with one blob.
pub(crate) struct Touched {
    pub(super) keyspace: Arc<Entry>,
    pub(super) observed: Option<Observed>,
    pub(super) checks: Vec<Check>,
    pub(super) overlay: Overlay,
}

impl Touched {
    pub(super) fn new(keyspace: Arc<Entry>) -> Self {
        Touched { keyspace, observed: None, checks: Vec::new(), overlay: Overlay::default() }
    }

    /// Takes note of the state that a read met.
    pub(super) fn meet(&mut self, pin: Option<Pin>, head: Option<Arc<Head>>) {
        match &mut self.observed {
            Some(observed) => observed.meet(head),
            none => *none = Some(Observed::new(pin, head)),
        }
    }

    pub(super) fn see(&mut self, note: impl FnOnce(&mut Observed)) {
        self.observed.as_mut().map(note);
    }

    pub(super) fn was_read(&self) -> bool {
        self.observed.is_some() || !self.checks.is_empty()
    }

    /// What others changed that matters to the transaction.
    pub(super) fn conflict(
        &self,
        writer: &mut Writer<'_>,
        keyspace: KeyspaceId,
        key: &Key,
    ) -> Result<Option<String>, Stop<Infallible>> {
        if let Some(observed) = &self.observed
            && let Some(what) = observed.conflict(writer, keyspace, key)?
        {
            return Ok(Some(what));
        }
        for check in &self.checks {
            if let Some(what) = check.conflict(writer, keyspace, key)? {
                return Ok(Some(what));
            }
        }
        Ok(None)
    }
}

//! What a run leaves behind: a number that only the same run has, what happened how often, and what happened in order.

use std::{collections::BTreeMap, fmt::Write as _};

use super::event::Event;
use crate::cluster::trace::shorten;

/// The record of a run.
#[derive(Debug)]
pub(super) struct Record {
    /// A number that two runs share only if they did the same.
    pub(super) digest: u64,
    /// What happened, by name.
    pub(super) counts: BTreeMap<&'static str, u64>,
    /// What happened, in order, if that was asked for.
    pub(super) trace: Option<String>,
}

impl Record {
    /// Nothing has happened.
    pub(super) fn new(with_trace: bool) -> Self {
        let trace = with_trace.then(String::new);
        Record { digest: 0xcbf2_9ce4_8422_2325, counts: BTreeMap::new(), trace }
    }

    /// An event happens.
    pub(super) fn note(&mut self, now: u64, event: &Event) {
        let (kind, subject) = event.subject();
        for word in [now, kind, subject] {
            self.digest = (self.digest ^ word).wrapping_mul(0x0000_0100_0000_01b3);
        }
        if let Some(trace) = self.trace.as_mut().filter(|_| event.is_shown()) {
            let _ = writeln!(trace, "{now:>10} {}", shorten(&format!("{event:?}")));
        }
    }

    /// Adds a remark to the trace.
    pub(super) fn say(&mut self, now: u64, what: impl FnOnce() -> String) {
        if let Some(trace) = self.trace.as_mut() {
            let _ = writeln!(trace, "{now:>10} ** {}", what());
        }
    }

    /// Something with a name has happened.
    pub(super) fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }
}

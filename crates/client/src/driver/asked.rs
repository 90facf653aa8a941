//! A caller that waits for an answer.

use tokio::time::Instant;
use tyr_types::Result;

use super::call::Reply;

/// A caller that waits.
#[derive(Debug)]
pub struct Asked<T> {
    /// Until then.
    pub until: Instant,
    /// For what comes here.
    pub reply: Reply<T>,
}

impl<T> Asked<T> {
    /// Whether it waits no longer.
    pub fn is_over(&self, at: Instant) -> bool {
        self.is_late(at) || self.reply.is_closed()
    }

    /// Whether it has waited long enough.
    pub fn is_late(&self, at: Instant) -> bool {
        self.until <= at
    }

    /// Answers it. The caller may be gone.
    pub fn answer(self, answer: Result<T>) {
        let _unheard = self.reply.send(answer);
    }
}

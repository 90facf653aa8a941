//! Up to where a durable snapshot covers the log.

use std::io;

use tokio::sync::watch;

use crate::types::LogId;

/// Up to where a durable snapshot covers the log: no more of it may be purged. Openraft installs a snapshot in one task, and purges the log up
/// to it in another without waiting for that; a crash between the two would leave neither. Handles are equal.
#[derive(Clone, Debug)]
pub(crate) struct Coverage(watch::Sender<State>);

#[derive(Clone, Copy, Debug)]
enum State {
    /// The last entry that is covered.
    Reaches(Option<LogId>),
    /// A snapshot could not be kept, and none will be.
    Failed,
}

impl Coverage {
    /// That of the snapshot with which a voter starts.
    pub(crate) fn new(covered: Option<LogId>) -> Self {
        Coverage(watch::Sender::new(State::Reaches(covered)))
    }

    /// A snapshot up to this entry is durable.
    pub(crate) fn raise(&self, last: Option<LogId>) {
        self.0.send_if_modified(|state| match state {
            State::Reaches(covered) if *covered < last => {
                *covered = last;
                true
            }
            State::Reaches(_) | State::Failed => false,
        });
    }

    /// A snapshot could not be made durable. Who waits for one would wait for ever.
    pub(crate) fn fail(&self) {
        self.0.send_replace(State::Failed);
    }

    /// Waits until a durable snapshot covers this entry.
    pub(crate) async fn reaches(&self, last: LogId) -> io::Result<()> {
        let mut states = self.0.subscribe();
        let is_settled = |state: &State| match state {
            State::Reaches(covered) => *covered >= Some(last),
            State::Failed => true,
        };
        match states.wait_for(is_settled).await.map(|state| *state) {
            Ok(State::Reaches(_)) => Ok(()),
            Ok(State::Failed) | Err(_) => {
                Err(io::Error::other("the snapshot that covers the log was not kept"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use openraft::CommittedLeaderId;

    use super::*;

    fn entry(index: u64) -> LogId {
        LogId::new(CommittedLeaderId::new(1, 1), index)
    }

    #[test]
    fn the_log_is_not_purged_beyond_what_a_durable_snapshot_covers() {
        let coverage = Coverage::new(Some(entry(3)));
        assert!(coverage.reaches(entry(3)).now_or_never().expect("is covered").is_ok());
        let mut wait = std::pin::pin!(coverage.reaches(entry(8)));
        assert!(wait.as_mut().now_or_never().is_none(), "nothing covers it yet");
        coverage.raise(Some(entry(7)));
        assert!(wait.as_mut().now_or_never().is_none(), "one entry would be gone");
        coverage.raise(Some(entry(9)));
        coverage.raise(Some(entry(7)));
        assert!(wait.as_mut().now_or_never().expect("is covered").is_ok());
    }

    #[test]
    fn who_waits_for_a_snapshot_that_fails_is_told() {
        let coverage = Coverage::new(None);
        let mut wait = std::pin::pin!(coverage.reaches(entry(8)));
        assert!(wait.as_mut().now_or_never().is_none());
        coverage.fail();
        assert!(wait.as_mut().now_or_never().expect("is told").is_err());
        coverage.raise(Some(entry(9)));
        assert!(
            coverage.reaches(entry(1)).now_or_never().expect("is told").is_err(),
            "nothing is kept any more"
        );
    }
}

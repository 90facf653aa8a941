//! Operations that may have to wait.

use tyr_types::Error;

/// Whether a call may block, on the disk or on a commit in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// It may not: [`Miss::WouldBlock`] instead.
    Never,
    /// It may.
    Allowed,
}

/// Why a call has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Miss {
    /// It would have to block; nothing was changed. Call again with [`Wait::Allowed`] on a thread that may.
    WouldBlock,
    /// It failed.
    Failed(Error),
}

impl From<Error> for Miss {
    fn from(error: Error) -> Self {
        Miss::Failed(error)
    }
}

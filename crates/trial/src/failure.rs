//! Why a trial has failed, or cannot be done.

use std::{fmt, time::Instant};

use crate::report;

/// What is wrong, in words.
#[derive(Clone, Debug)]
pub struct Failure(String);

/// What a step of a trial results in.
pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// A failure in these words.
    pub fn new(text: impl Into<String>) -> Self {
        Failure(text.into())
    }

    /// The same, with what was being done.
    #[must_use]
    pub fn while_doing(self, what: impl fmt::Display) -> Self {
        Failure(format!("{what}: {}", self.0))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Failure(error.to_string())
    }
}

impl From<rustix::io::Errno> for Failure {
    fn from(error: rustix::io::Errno) -> Self {
        Failure(error.to_string())
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Failure(error.to_string())
    }
}

impl From<tyr_client::Error> for Failure {
    fn from(error: tyr_client::Error) -> Self {
        Failure(format!("{}: {error}", error.kind()))
    }
}

/// Asks until the answer is that there is nothing more to wait for. Says what is still amiss when the patience has ended.
pub fn wait_until(what: &str, mut amiss: impl FnMut() -> Result<Option<String>>) -> Result<()> {
    let end = Instant::now() + report::PATIENCE;
    loop {
        let Some(still) = amiss()? else { return Ok(()) };
        if Instant::now() >= end {
            let patience = report::PATIENCE.as_secs();
            return Err(Failure(format!("{what} has not come true within {patience} s: {still}")));
        }
        // Asking takes a while itself; two cores have better things to do than that alone.
        std::thread::sleep(report::GLANCE);
    }
}

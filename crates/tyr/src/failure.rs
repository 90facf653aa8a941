//! How a run of the command ends when it does not end well: the kinds of failure, their exit codes, and how they are
//! printed. `docs/errors.md` is generated from here.

use std::{fmt, io};

use tyr_types::{Error, ErrorKind};

/// Why a verb did not do what it was asked to do.
#[derive(Debug)]
pub enum Failure {
    /// The store refused or failed.
    Store(Error),
    /// The arguments, the environment, the configuration file, or a script are wrong.
    Usage(String),
    /// A file or stream of this machine, outside of the store, could not be read or written; or a part of the work failed
    /// and the rest was done.
    Local(String),
    /// A signal asked to stop; what was committed until then stays.
    Interrupted(String),
    /// Another process of this command has said what failed, and ended with this exit code.
    Told(u8),
    /// Whoever read standard output has gone. Nobody is left to be told.
    BrokenPipe,
}

/// A result whose error is [`Failure`].
pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// The exit code of [`Failure::Local`].
pub const EXIT_LOCAL: u8 = 1;
/// The exit code of [`Failure::Usage`], as the shell and most commands have it.
pub const EXIT_USAGE: u8 = 2;
/// The exit code of a kind of [`ErrorKind`] is this plus its number.
const EXIT_KIND_BASE: u8 = 10;
/// 128 + SIGINT, as shells have it.
pub const EXIT_INTERRUPTED: u8 = 130;

impl Failure {
    /// A failure of this machine's files: what was being done, and the system's reason.
    pub fn local(what: impl fmt::Display, error: &io::Error) -> Self {
        Failure::Local(format!("{what}: {error}"))
    }

    /// The code that the process exits with.
    pub fn exit_code(&self) -> u8 {
        match self {
            Failure::Store(error) => exit_code(error.kind()),
            Failure::Usage(_) => EXIT_USAGE,
            Failure::Local(_) => EXIT_LOCAL,
            Failure::Interrupted(_) => EXIT_INTERRUPTED,
            Failure::Told(code) => *code,
            Failure::BrokenPipe => 0,
        }
    }

    /// The stable name of the kind, as `--json` prints it.
    pub fn kind(&self) -> &'static str {
        match self {
            Failure::Store(error) => error.kind().name(),
            Failure::Usage(_) => "usage",
            Failure::Local(_) => "local",
            Failure::Interrupted(_) => "interrupted",
            Failure::Told(_) => "told",
            Failure::BrokenPipe => "broken-pipe",
        }
    }

    /// The same failure with what was being done put in front.
    #[must_use]
    pub fn context(self, what: impl fmt::Display) -> Self {
        match self {
            Failure::Store(error) => Failure::Store(error.context(what)),
            Failure::Usage(message) => Failure::Usage(format!("{what}: {message}")),
            Failure::Local(message) => Failure::Local(format!("{what}: {message}")),
            other => other,
        }
    }
}

/// The exit code of a failure of this kind.
pub fn exit_code(kind: ErrorKind) -> u8 {
    EXIT_KIND_BASE + kind as u8
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Store(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Store(error) => error.fmt(f),
            Failure::Usage(message) | Failure::Local(message) | Failure::Interrupted(message) => {
                f.write_str(message)
            }
            Failure::Told(code) => write!(f, "exit code {code}"),
            Failure::BrokenPipe => f.write_str("the reader of standard output has gone"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_own_exit_code() {
        let mut codes: Vec<u8> = ErrorKind::ALL.into_iter().map(exit_code).collect();
        codes.extend([0, EXIT_LOCAL, EXIT_USAGE, EXIT_INTERRUPTED]);
        let count = codes.len();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), count);
    }

    #[test]
    fn context_keeps_kind_and_exit_code() {
        let failure = Failure::from(Error::full("no space")).context("import 'a'");
        assert_eq!((failure.kind(), failure.exit_code()), ("full", 17));
        assert_eq!(failure.to_string(), "import 'a': no space");
    }
}

//! Starts the worker process, listens to its acknowledgements, and kills it.

use std::{
    collections::BTreeSet,
    env,
    io::{BufRead, BufReader, Read},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use super::ledger::Batch;
use crate::{
    failure::{Failure, Result},
    interrupt::Interrupt,
};

/// How to start a worker.
pub struct Worker<'a> {
    /// The store.
    pub store: &'a Path,
    /// The data set.
    pub data: &'a Path,
    /// Rows of a batch.
    pub batch_rows: usize,
    /// What it writes.
    pub share: Share,
    /// Threads that write.
    pub threads: usize,
}

/// What became of a worker.
pub struct Run {
    /// What it acknowledged.
    pub acknowledged: BTreeSet<Batch>,
    /// How it ended.
    pub end: End,
    /// How long it ran, from its start to its end.
    pub elapsed: Duration,
}

/// How a worker ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It was killed by SIGKILL.
    Killed,
    /// It had nothing left to do.
    Finished,
}

/// A part of the batches of some of the events.
#[derive(Clone, Copy)]
pub struct Share {
    /// One event in so many.
    pub one_in: usize,
    /// Which share of the batches,
    pub share: usize,
    /// of how many.
    pub shares: usize,
}

impl Share {
    /// All batches of all events.
    pub const ALL: Share = Share { one_in: 1, share: 0, shares: 1 };
}

/// What is to become of a worker that has said something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// It goes on.
    GoOn,
    /// It is killed.
    Kill,
}

impl Worker<'_> {
    /// Runs a worker to its end. With each batch that it acknowledges, and how many those are, it is asked what is to become of it.
    pub fn run(&self, interrupt: &Interrupt, mut then: impl FnMut(Batch, usize) -> Then) -> Result<Run> {
        let start = Instant::now();
        let mut child = Running(self.spawn()?);
        let pipe = child.0.stdout.take().expect("standard output is piped");
        let mut lines = BufReader::new(pipe);
        let mut acknowledged = BTreeSet::new();
        let mut end = End::Finished;
        while let Some(batch) = next_acknowledgement(&mut lines)? {
            acknowledged.insert(batch);
            if interrupt.is_asked() {
                return Err(Failure::Interrupted("the demonstration was interrupted".to_owned()));
            }
            // What it has said before it died counts, so the pipe is read to its end.
            if then(batch, acknowledged.len()) == Then::Kill && end == End::Finished {
                child.kill()?;
                end = End::Killed;
            }
        }
        let status = child.0.wait().map_err(|error| Failure::local("cannot wait for the worker", &error))?;
        if end == End::Finished && !status.success() {
            return Err(Failure::Local(format!(
                "the worker failed by itself: {status}; its message is above"
            )));
        }
        // A worker that was done before the signal came was not killed.
        let end = if status.success() { End::Finished } else { end };
        Ok(Run { acknowledged, end, elapsed: start.elapsed() })
    }

    fn spawn(&self) -> Result<Child> {
        let failed = |error| Failure::local("cannot start a worker process", &error);
        let program = env::current_exe().map_err(failed)?;
        let mut command = Command::new(program);
        command.arg("--store").arg(self.store).arg("--threads").arg(self.threads.to_string());
        command.args(["demo", "worker", "--data"]).arg(self.data);
        command.arg("--batch").arg(self.batch_rows.to_string());
        let Share { one_in, share, shares } = self.share;
        command.args(["--one-in", &one_in.to_string(), "--share", &share.to_string(), &shares.to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(failed)
    }
}

/// A child that does not outlive the wish to have it.
struct Running(Child);

impl Running {
    fn kill(&mut self) -> Result<()> {
        self.0.kill().map_err(|error| Failure::local("cannot kill the worker", &error))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // After a regular end both fail or do nothing, and there is nobody to tell.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The next batch that was acknowledged; `None` at the end. A line that the kill cut off is no acknowledgement.
fn next_acknowledgement(lines: &mut impl BufRead) -> Result<Option<Batch>> {
    const LINE_MAX: u64 = 64;
    let mut line = Vec::new();
    let read = lines.by_ref().take(LINE_MAX).read_until(b'\n', &mut line);
    read.map_err(|error| Failure::local("cannot read from the worker", &error))?;
    let Some(line) = line.strip_suffix(b"\n") else { return Ok(None) };
    let number = std::str::from_utf8(line).ok().and_then(|line| line.strip_prefix("ack ")?.parse().ok());
    match number {
        Some(batch) => Ok(Some(batch)),
        None => Err(Failure::Local("the worker said something else than 'ack' and a number".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_lines_are_acknowledgements() {
        let mut lines = b"ack 7\nack 12\nack 1".as_slice();
        let mut next = || next_acknowledgement(&mut lines).expect("reads");
        assert_eq!((next(), next(), next()), (Some(7), Some(12), None));
        assert!(next_acknowledgement(&mut b"what\n".as_slice()).is_err());
    }
}

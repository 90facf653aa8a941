//! What a transfer did, counted while it runs and summed up at its end.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use serde::Serialize;
use tyr_client::Error;

use super::node::Kind;
use crate::{
    failure::{Failure, Result},
    output::{Output, Report},
};

/// Counters that all threads add to.
pub struct Tally {
    start: Instant,
    files: AtomicU64,
    directories: AtomicU64,
    symlinks: AtomicU64,
    bytes: AtomicU64,
    skipped: AtomicU64,
    changed: AtomicU64,
    verified: AtomicU64,
    failed: AtomicU64,
    damaged: AtomicU64,
    left_out: AtomicU64,
}

impl Tally {
    /// Everything at zero; time starts.
    pub fn new() -> Self {
        let zero = || AtomicU64::new(0);
        Tally {
            start: Instant::now(),
            files: zero(),
            directories: zero(),
            symlinks: zero(),
            bytes: zero(),
            skipped: zero(),
            changed: zero(),
            verified: zero(),
            failed: zero(),
            damaged: zero(),
            left_out: zero(),
        }
    }

    /// A node was written, with so many bytes of content.
    pub fn wrote(&self, kind: Kind, bytes: u64) {
        let counter = match kind {
            Kind::File => &self.files,
            Kind::Directory => &self.directories,
            Kind::Symlink => &self.symlinks,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A node was there already.
    pub fn skipped(&self) {
        self.skipped.fetch_add(1, Ordering::Relaxed);
    }

    /// What was exported is not what was imported.
    pub fn changed(&self) {
        self.changed.fetch_add(1, Ordering::Relaxed);
    }

    /// A node was read back and had its checksum.
    pub fn verified(&self) {
        self.verified.fetch_add(1, Ordering::Relaxed);
    }

    /// A node could not be read or written; the rest goes on.
    pub fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    /// Of those that failed, one whose stored bytes are damaged.
    pub fn damaged(&self) {
        self.damaged.fetch_add(1, Ordering::Relaxed);
    }

    /// Something is no file, directory, or symbolic link, or must not be imported.
    pub fn left_out(&self) {
        self.left_out.fetch_add(1, Ordering::Relaxed);
    }

    /// What was done until now.
    pub fn summary(&self, action: &'static str, end: End) -> Summary {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let elapsed = self.start.elapsed();
        Summary {
            action,
            complete: end == End::Complete,
            files: count(&self.files),
            directories: count(&self.directories),
            symlinks: count(&self.symlinks),
            bytes: count(&self.bytes),
            skipped: count(&self.skipped),
            changed: count(&self.changed),
            verified: count(&self.verified),
            failed: count(&self.failed),
            damaged: count(&self.damaged),
            left_out: count(&self.left_out),
            seconds: elapsed.as_secs_f64(),
            megabytes_per_second: megabytes_per_second(count(&self.bytes), elapsed),
        }
    }
}

/// Whether the transfer came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It did.
    Complete,
    /// A signal asked to stop before.
    Interrupted,
}

/// Millions of bytes a second.
#[expect(clippy::cast_precision_loss, reason = "a rate is shown with few digits")]
pub fn megabytes_per_second(bytes: u64, elapsed: Duration) -> f64 {
    bytes as f64 / 1e6 / elapsed.as_secs_f64().max(1e-9)
}

/// What a transfer did.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// `import` or `export`.
    pub action: &'static str,
    /// Whether it came to its end.
    pub complete: bool,
    /// Regular files written.
    pub files: u64,
    /// Directories written.
    pub directories: u64,
    /// Symbolic links written.
    pub symlinks: u64,
    /// Bytes of content written.
    pub bytes: u64,
    /// Nodes that were there already.
    pub skipped: u64,
    /// Exported nodes that somebody wrote to since they were imported.
    pub changed: u64,
    /// Nodes that were read back and had their checksum.
    pub verified: u64,
    /// Nodes that could not be read or written.
    pub failed: u64,
    /// Of these, blobs whose stored bytes are damaged.
    pub damaged: u64,
    /// Sockets, pipes, devices, and the store itself.
    pub left_out: u64,
    /// How long it took.
    pub seconds: f64,
    /// Bytes of content a second, in millions.
    pub megabytes_per_second: f64,
}

impl Summary {
    /// Prints the summary, and fails if the transfer is not complete.
    pub fn conclude(&self, out: &mut Output) -> Result<()> {
        out.done(self)?;
        if !self.complete {
            return Err(Failure::Interrupted(format!(
                "{} was interrupted; run the same command again and it goes on where it stopped",
                self.action
            )));
        }
        if self.damaged > 0 {
            return Err(Error::corrupt(format!(
                "{} of the blobs are damaged where they are stored, and {} could not be exported in all, see the warnings above; the others were",
                self.damaged, self.failed
            ))
            .into());
        }
        if self.failed > 0 {
            return Err(Failure::Local(format!(
                "{} of the files could not be {}ed, see the warnings above; the others were",
                self.failed, self.action
            )));
        }
        Ok(())
    }
}

impl Report for Summary {
    fn print(&self, out: &mut Output) -> Result<()> {
        let Summary { action, files, directories, symlinks, bytes, skipped, .. } = self;
        let (seconds, rate) = (self.seconds, self.megabytes_per_second);
        out.line(format!(
            "{action}ed {files} files, {directories} directories, {symlinks} symbolic links: {bytes} bytes in \
             {seconds:.2} s, {rate:.1} MB/s"
        ))?;
        let further = [
            (*skipped, "were there already"),
            (self.changed, "have changed since they were imported"),
            (self.verified, "were read back and verified"),
            (self.failed, "failed"),
            (self.left_out, "were left out: no files, directories, or symbolic links"),
        ];
        for (count, what) in further.into_iter().filter(|(count, _)| *count > 0) {
            out.line(format!("{count} {what}"))?;
        }
        Ok(())
    }
}

//! The log of a node: lines on standard error, which a thread of its own writes.
//!
//! Whoever reads them may stand still: a terminal that is stopped, a collector that hangs. No other thread waits for that. Some lines wait, in
//! their order; those that come beyond are dropped, and it is said where they are missing how many they were. When the process ends it
//! waits for the lines that are left, but not for long.

use std::{
    io::{self, Write},
    mem,
    sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError},
    thread,
    time::Duration,
};

use serde_json::json;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::{
    Layer,
    filter::Targets,
    fmt::{
        MakeWriter,
        format::Writer,
        time::{FormatTime, SystemTime},
    },
    layer::SubscriberExt,
    util::SubscriberInitExt,
};

use crate::{
    failure::{Failure, Result},
    settings::LogFormat,
};

/// What this process writes to standard error, if it has a log.
static LOG: OnceLock<Lines> = OnceLock::new();

/// From now on what the server says goes to standard error, a line each.
pub fn begin(level: LevelFilter, format: LogFormat) -> Result<()> {
    // The consensus has a lot to say about members that are away, which others here say in a line.
    let libraries = if level >= LevelFilter::DEBUG { LevelFilter::INFO } else { LevelFilter::OFF };
    let targets = Targets::new().with_default(libraries).with_targets([
        ("tyr_server", level),
        ("tyr_net", level),
        ("tyr_manager", level),
    ]);
    let failed = |error: &dyn std::fmt::Display| Failure::Local(format!("cannot begin to log: {error}"));
    let lines = Lines::default();
    let written = lines.clone();
    let write = move || written.write(&mut io::stderr(), format);
    thread::Builder::new().name("tyr-log".into()).spawn(write).map_err(|error| failed(&error))?;
    let layer = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(lines.clone());
    let layer = match format {
        LogFormat::Text => layer.with_filter(targets).boxed(),
        LogFormat::Json => layer.json().flatten_event(true).with_filter(targets).boxed(),
    };
    let set = tracing_subscriber::registry().with(layer).try_init();
    set.map_err(|error| failed(&error))?;
    // Who has set the one has set the other.
    LOG.get_or_init(|| lines);
    Ok(())
}

/// Writes a line after those of the log. False if there is no log.
pub fn say(line: &str) -> bool {
    let Some(lines) = LOG.get() else { return false };
    // There are few of them, and one says why the node has ended.
    lines.add(format!("{line}\n").as_bytes(), usize::MAX);
    true
}

/// Waits for the lines that are left, but not for long.
pub fn end() {
    if let Some(lines) = LOG.get() {
        lines.end(PATIENCE);
    }
}

/// Lines that wait to be written.
#[derive(Clone, Default)]
struct Lines(Arc<Shared>);

#[derive(Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    /// It is otherwise than it was.
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    text: Vec<u8>,
    /// So many lines that came after the text were dropped.
    dropped: u64,
    /// What was taken from here is being written.
    is_written: bool,
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.text.is_empty() && self.dropped == 0
    }
}

impl Lines {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a line, unless more than so many bytes wait then.
    fn add(&self, line: &[u8], size_max: usize) {
        let mut waiting = self.waiting();
        // One that is shorter than those that were dropped does not overtake them.
        let is_lost = waiting.dropped > 0 || waiting.text.len() + line.len() > size_max;
        match is_lost && size_max < usize::MAX {
            true => waiting.dropped += 1,
            false => waiting.text.extend_from_slice(line),
        }
        self.0.changed.notify_all();
    }

    /// Writes them as they come, for ever.
    fn write(&self, out: &mut impl Write, format: LogFormat) {
        loop {
            let mut waiting = self.waiting();
            waiting.is_written = false;
            self.0.changed.notify_all();
            let changed = self.0.changed.wait_while(waiting, |waiting| waiting.is_empty());
            let mut waiting = changed.unwrap_or_else(PoisonError::into_inner);
            waiting.is_written = true;
            let (text, dropped) = (mem::take(&mut waiting.text), mem::take(&mut waiting.dropped));
            drop(waiting);
            // Where it cannot be written there is nobody to be told of that, either.
            let _unread = out.write_all(&text);
            if dropped > 0 {
                let _unread = out.write_all(gap(dropped, format).as_bytes());
            }
        }
    }

    /// Waits until all are written, but for so long at most.
    fn end(&self, patience: Duration) {
        let is_left = |waiting: &mut Waiting| waiting.is_written || !waiting.is_empty();
        let _ended = self.0.changed.wait_timeout_while(self.waiting(), patience, is_left);
    }
}

/// The line that stands for those that were dropped.
fn gap(dropped: u64, format: LogFormat) -> String {
    let mut time = String::new();
    // The clock has a time, and a string takes it.
    let _ = SystemTime.format_time(&mut Writer::new(&mut time));
    let message = "lines are missing here: nobody read the log";
    match format {
        LogFormat::Text => format!("{time}  WARN tyr: {message} lines={dropped}\n"),
        LogFormat::Json => {
            let line = json!({ "timestamp": time, "level": "WARN", "message": message, "lines": dropped, "target": "tyr" });
            format!("{line}\n")
        }
    }
}

/// The writer of one line.
struct Line<'lines>(&'lines Lines);

impl<'lines> MakeWriter<'lines> for Lines {
    type Writer = Line<'lines>;

    fn make_writer(&'lines self) -> Line<'lines> {
        Line(self)
    }
}

impl Write for Line<'_> {
    /// A line is written by one call.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.add(line, SIZE_MAX);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// So many bytes wait at most: some thousand lines.
const SIZE_MAX: usize = 1 << 20;
/// Who reads at all has read them by then.
const PATIENCE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// A reader that says when it is asked to read, and reads when it is told to.
    struct Reader {
        asked: Sender<String>,
        told: Receiver<()>,
    }

    impl Write for Reader {
        fn write(&mut self, text: &[u8]) -> io::Result<usize> {
            self.asked.send(String::from_utf8(text.to_vec()).unwrap()).unwrap();
            self.told.recv().map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
            Ok(text.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn nobody_waits_for_who_does_not_read_and_what_is_missing_is_counted_where_it_is() {
        let (asked, asks) = channel();
        let (tell, told) = channel();
        let lines = Lines::default();
        let written = lines.clone();
        thread::spawn(move || written.write(&mut Reader { asked, told }, LogFormat::Json));
        lines.add(b"first\n", 8);
        assert_eq!(asks.recv().unwrap(), "first\n");
        for line in ["second\n", "third\n", "4\n"] {
            lines.add(line.as_bytes(), 8);
        }
        lines.add(b"last\n", usize::MAX);
        // It ends though nobody reads.
        lines.end(Duration::from_millis(1));
        tell.send(()).unwrap();
        assert_eq!(asks.recv().unwrap(), "second\nlast\n");
        tell.send(()).unwrap();
        let gap: serde_json::Value = serde_json::from_str(&asks.recv().unwrap()).unwrap();
        assert_eq!((&gap["lines"], &gap["level"]), (&2.into(), &"WARN".into()));
        lines.add(b"next\n", 8);
        tell.send(()).unwrap();
        assert_eq!(asks.recv().unwrap(), "next\n");
        tell.send(()).unwrap();
        lines.end(Duration::from_secs(600));
        let waiting = lines.waiting();
        assert!(waiting.is_empty() && !waiting.is_written, "all are written");
    }
}

//! What a trial says while it goes on, and how long it waits.

use std::{
    io::Write,
    sync::OnceLock,
    time::{Duration, Instant},
};

/// Everything that has to happen has happened after this long, also on a slow machine that does other things besides.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// Between two questions.
pub const GLANCE: Duration = Duration::from_millis(50);

/// Says a line, with the seconds since the trial began.
pub fn say(text: impl AsRef<str>) {
    let began = began();
    // Whoever listened may have gone.
    let _unheard =
        writeln!(std::io::stdout().lock(), "{:7.2} {}", began.elapsed().as_secs_f64(), text.as_ref());
}

/// When the trial began: when this was asked first.
pub fn began() -> Instant {
    static BEGAN: OnceLock<Instant> = OnceLock::new();
    *BEGAN.get_or_init(Instant::now)
}

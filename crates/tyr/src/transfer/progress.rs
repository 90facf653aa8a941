//! The progress bar, and warnings that do not tear it.

use std::{fmt::Display, time::Duration};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output::{Output, Warnings};

/// Shows how far the work is, if somebody is watching.
pub struct Progress {
    bar: ProgressBar,
    warnings: Warnings,
}

impl Progress {
    /// A bar of bytes, with nothing known yet of how many; invisible if the output shows no progress.
    pub fn new(out: &Output, verb: &'static str) -> Self {
        let target =
            if out.shows_progress() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(0), target).with_message(verb);
        let style = ProgressStyle::with_template(TEMPLATE).expect("the template is well formed");
        bar.set_style(style.progress_chars("=> "));
        if out.shows_progress() {
            bar.enable_steady_tick(Duration::from_millis(200));
        }
        Progress { bar, warnings: out.warnings() }
    }

    /// Whether anybody sees the bar.
    pub fn is_visible(&self) -> bool {
        !self.bar.is_hidden()
    }

    /// So many more bytes are to be done.
    pub fn expect(&self, bytes: u64) {
        self.bar.inc_length(bytes);
    }

    /// So many more bytes are done.
    pub fn advance(&self, bytes: u64) {
        self.bar.inc(bytes);
    }

    /// Says that something is not as it should be.
    pub fn warn(&self, message: impl Display) {
        self.bar.suspend(|| self.warnings.say(message));
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

const TEMPLATE: &str =
    "{msg} [{bar:30}] {binary_bytes} of {binary_total_bytes}, {binary_bytes_per_sec}, {eta} left";

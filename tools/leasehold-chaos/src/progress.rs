//! A progress bar on standard error, on a terminal alone.

use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A bar of so many seconds; it goes away when it is dropped.
#[derive(Debug)]
pub(crate) struct Progress(ProgressBar);

impl Progress {
    pub(crate) fn of(time: Duration) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self(ProgressBar::hidden());
        }
        let bar = ProgressBar::new(time.as_secs());
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} s  {msg}") {
            bar.set_style(style);
        }
        Self(bar)
    }

    /// So many seconds are over.
    pub(crate) fn at(&self, seconds: u64, what: String) {
        self.0.set_position(seconds);
        self.0.set_message(what);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

//! A bar on a terminal, nothing when piped.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;

/// Progress of one stage, in bytes.
#[derive(Debug)]
pub struct Progress(ProgressBar);

impl Progress {
    /// A stage of `total` bytes.
    pub fn new(what: &'static str, total: u64) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self(ProgressBar::hidden());
        }
        let bar = ProgressBar::new(total).with_message(what);
        if let Ok(style) = ProgressStyle::with_template("{msg:12} {bar:30} {bytes}/{total_bytes} {eta}") {
            bar.set_style(style);
        }
        Self(bar)
    }

    /// More is done.
    pub fn add(&self, bytes: u64) {
        self.0.inc(bytes);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

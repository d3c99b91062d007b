//! Progress bars of long commands, on standard error, and only if that is a terminal.

use crate::out::counted;
use indicatif::{ProgressBar, ProgressStyle};
use lineside_spv::chain::{Phase, Progress};

/// Progress bar of an import: bytes, blocks and bytes a second.
pub struct ImportBar(ProgressBar);

impl Default for ImportBar {
    /// Returns a bar at 0 bytes; it is hidden if standard error is not a terminal.
    fn default() -> Self {
        let bar = ProgressBar::new(0);
        let line = "{prefix:10} {wide_bar} {bytes}/{total_bytes} {msg} {binary_bytes_per_sec} {eta}";
        if let Ok(style) = ProgressStyle::with_template(line) {
            bar.set_style(style);
        }
        Self(bar)
    }
}

impl ImportBar {
    /// Shows the progress `at`.
    pub fn show(&self, at: Progress) {
        let phase = match at.phase {
            Phase::Scanning => "scanning",
            Phase::Storing => "storing",
            Phase::Connecting => "connecting",
        };
        if self.0.is_hidden() {
            return;
        }
        if self.0.prefix() != phase {
            self.0.reset();
            self.0.set_prefix(phase);
        }
        self.0.set_length(at.total_bytes);
        self.0.set_position(at.bytes);
        self.0.set_message(counted(at.blocks, "block"));
    }

    /// Removes the bar from the terminal.
    pub fn finish(&self) {
        self.0.finish_and_clear();
    }
}

/// Progress bar up to a known number, with the rate a second.
pub struct CountBar(ProgressBar);

impl CountBar {
    /// Returns a bar from 0 to `all`; it is hidden if standard error is not a terminal.
    pub fn new(all: u64) -> Self {
        let bar = ProgressBar::new(all);
        if let Ok(style) = ProgressStyle::with_template("{wide_bar} {human_pos}/{human_len} {per_sec} {eta}")
        {
            bar.set_style(style);
        }
        Self(bar)
    }

    /// Shows that `done` of the number are done.
    pub fn show(&self, done: u64) {
        self.0.set_position(done);
    }

    /// Removes the bar from the terminal.
    pub fn finish(&self) {
        self.0.finish_and_clear();
    }
}

//! The progress bar of long work: on a terminal only, on the error stream.

use indicatif::{ProgressBar, ProgressStyle};
use lineside_spv::chain::{Phase, Progress};

/// How far an import is: bytes, blocks and the rate.
pub struct ImportBar(ProgressBar);

impl Default for ImportBar {
    /// Returns a bar, which shows nothing where the error stream is no terminal.
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
    /// Shows `at`.
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
        self.0.set_message(format!("{} blocks", at.blocks));
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.0.finish_and_clear();
    }
}

/// How much of a known number is done, and the rate.
pub struct CountBar(ProgressBar);

impl CountBar {
    /// A bar up to `all`, which shows nothing where the error stream is no terminal.
    pub fn new(all: u64) -> Self {
        let bar = ProgressBar::new(all);
        if let Ok(style) = ProgressStyle::with_template("{wide_bar} {human_pos}/{human_len} {per_sec} {eta}")
        {
            bar.set_style(style);
        }
        Self(bar)
    }

    /// So many are done.
    pub fn show(&self, done: u64) {
        self.0.set_position(done);
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.0.finish_and_clear();
    }
}

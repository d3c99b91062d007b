//! Prints one line, also without `--nocapture`, for a test that is skipped in whole or in part.

use std::fmt::Display;
use std::io::Write as _;
use std::sync::Mutex;

static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Prints once that the test which this thread runs, and is named after, is skipped.
pub fn skipped(why: impl Display) {
    let thread = std::thread::current();
    let line = format!("skipped: {}: {why}\n", thread.name().unwrap_or("a test"));
    let mut said = SAID.lock().unwrap();
    if !said.contains(&line) {
        // `eprintln!` would not do: libtest captures it and shows it only if the test fails.
        let _ = std::io::stderr().write_all(line.as_bytes());
        said.push(line);
    }
}

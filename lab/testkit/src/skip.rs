//! One line, seen without `--nocapture` too, for a test that does not run here, or not all of it.

use std::fmt::Display;
use std::io::Write as _;
use std::sync::Mutex;

static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Says, once, that the test which this thread runs, and is named after, is skipped.
pub fn skipped(why: impl Display) {
    let thread = std::thread::current();
    let line = format!("skipped: {}: {why}\n", thread.name().unwrap_or("a test"));
    let mut said = SAID.lock().unwrap();
    if !said.contains(&line) {
        // Not `eprintln!`, which libtest keeps to itself when the test passes.
        let _ = std::io::stderr().write_all(line.as_bytes());
        said.push(line);
    }
}

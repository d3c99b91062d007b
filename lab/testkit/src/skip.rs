//! Prints one line for a test that is skipped in whole or in part, also without `--nocapture`.

use std::fmt::Display;
use std::io::Write as _;
use std::sync::Mutex;

static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Prints once that the test is skipped which the calling thread runs. The name of the thread is the name of the test.
pub fn skipped(why: impl Display) {
    let thread = std::thread::current();
    let line = format!("skipped: {}: {why}\n", thread.name().unwrap_or("a test"));
    let mut said = SAID.lock().unwrap();
    if !said.contains(&line) {
        // `eprintln!` is not suitable here: libtest captures its output and shows it only if the test fails.
        let _ = std::io::stderr().write_all(line.as_bytes());
        said.push(line);
    }
}

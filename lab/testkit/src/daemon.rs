//! Programs that serve until a signal ends them.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, Command, Stdio};

/// The line after which a server has started.
const STARTED: &str = "Ctrl-C ends it";

/// A running server; killed when dropped.
pub struct Daemon {
    /// The process.
    pub child: Child,
    /// Lines of standard output up to the one that says how the server ends.
    pub said: Vec<String>,
    errors: ChildStderr,
}

impl Daemon {
    /// Starts `command` and waits until the server says that it serves.
    ///
    /// # Errors
    /// What the command wrote to standard error, where it ends before.
    ///
    /// # Panics
    /// When its output is not text.
    pub fn start(command: &mut Command) -> Result<Self, String> {
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let output = child.stdout.take().expect("standard output is piped");
        let mut errors = child.stderr.take().expect("standard error is piped");
        let mut said = Vec::new();
        for line in BufReader::new(output).lines() {
            said.push(line.expect("text"));
            if said.last().is_some_and(|line| line == STARTED) {
                return Ok(Self { child, said, errors });
            }
        }
        let mut why = String::new();
        errors.read_to_string(&mut why).expect("text");
        child.wait().expect("a child can be waited for");
        Err(why)
    }

    /// Sends `signal`, waits for the end, and returns what the server wrote to standard error.
    ///
    /// # Panics
    /// When the process cannot be signalled, or its output is not text.
    pub fn signal(mut self, signal: i32) -> String {
        // SAFETY: takes no memory; the process is a child that was not waited for.
        assert_eq!(unsafe { libc::kill(self.child.id() as i32, signal) }, 0);
        self.child.wait().expect("a child can be waited for");
        let mut said = String::new();
        self.errors.read_to_string(&mut said).expect("text");
        said
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

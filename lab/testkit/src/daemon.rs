//! Runs programs that serve until a signal ends them.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, Command, Stdio};

/// End of the line that a server prints when it has started; the line begins with `Ctrl-C` or `SIGTERM`.
const STARTED: &str = " ends it";

/// Running server. Dropping this value kills it.
pub struct Daemon {
    /// Process of the server.
    pub child: Child,
    /// Lines of standard output, up to and including the line that says how to end the server.
    pub said: Vec<String>,
    errors: ChildStderr,
}

impl Daemon {
    /// Starts `command` and waits until the server reports that it serves.
    ///
    /// The command logs only warnings and errors, because its standard error is read only after it has ended.
    ///
    /// # Errors
    /// Returns standard error of the command if the command ends before it serves.
    ///
    /// # Panics
    /// Panics if the output is not UTF-8.
    pub fn start(command: &mut Command) -> Result<Self, String> {
        let command = command.env("RUST_LOG", "warn").stdout(Stdio::piped());
        let command = command.stderr(Stdio::piped());
        // A unit of systemd does not print the line.
        let command = command.env_remove("INVOCATION_ID").env_remove("NOTIFY_SOCKET");
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let output = child.stdout.take().expect("standard output is piped");
        let mut errors = child.stderr.take().expect("standard error is piped");
        let mut said = Vec::new();
        for line in BufReader::new(output).lines() {
            said.push(line.expect("text"));
            if said.last().is_some_and(|line| line.ends_with(STARTED)) {
                return Ok(Self { child, said, errors });
            }
        }
        let mut why = String::new();
        errors.read_to_string(&mut why).expect("text");
        child.wait().expect("a child can be waited for");
        Err(why)
    }

    /// Sends `signal`, waits for the process to end, and returns the server's standard error.
    ///
    /// # Panics
    /// Panics if the process cannot be signalled, or if its output is not UTF-8.
    pub fn signal(mut self, signal: i32) -> String {
        // SAFETY: kill accesses no memory. The process is a child for which nothing has waited yet, so its id is not
        // reused.
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

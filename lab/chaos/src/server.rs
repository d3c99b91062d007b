//! Runs the program `lineside` as a child process: starts it with a configuration file, kills it, and starts it again.

use crate::cgroup::Cgroup;
use anyhow::{Context, bail};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Time-out of one request to the console.
const CONSOLE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time from the signal to stop until the daemon is killed.
const END_TIMEOUT: Duration = Duration::from_secs(30);

/// Running daemon. Dropping this value kills it.
pub struct Server {
    child: Child,
    /// Address on which the first service listens.
    pub listen: SocketAddr,
    console: SocketAddr,
    /// Standard output of the daemon. It stays open, because the daemon may still write to it.
    _output: BufReader<ChildStdout>,
}

impl Server {
    /// Starts `program` with the configuration file `config`, in the control group if one is given, and waits until it
    /// reports that it serves. The daemon's messages go to the file `daemon.log` next to the configuration.
    ///
    /// # Errors
    /// Fails if the daemon ended before it served; the error contains its last messages.
    pub fn start(program: &Path, config: &Path, group: Option<&Cgroup>) -> anyhow::Result<Self> {
        let log_path = config.with_file_name("daemon.log");
        let log = File::options().create(true).append(true).open(&log_path)?;
        let mut command = match group {
            None => Command::new(program),
            // The shell joins the control group before it becomes the daemon, so that all of the daemon's memory is
            // counted.
            Some(group) => {
                let mut shell = Command::new("sh");
                shell.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]);
                shell.arg(group.processes()).arg(program);
                shell
            }
        };
        command.args(["run", "--json", "--config"]).arg(config);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let mut child = command
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let mut output = BufReader::new(child.stdout.take().context("standard output is piped")?);
        let mut line = String::new();
        output.read_line(&mut line)?;
        let Ok(said) = serde_json::from_str::<Value>(&line) else {
            let status = child.wait()?;
            let log = fs::read_to_string(&log_path)?;
            let last: Vec<_> = log.lines().rev().take(5).collect();
            bail!("the daemon did not start ({status}): {}", last.join("; "));
        };
        let address = |name: &str| {
            let text = said[name].as_str().unwrap_or_default();
            let address = text.strip_prefix("http://").unwrap_or(text).parse();
            address.with_context(|| format!("the daemon did not print `{name}`: {line}"))
        };
        Ok(Self {
            listen: address("listen")?,
            console: address("console")?,
            child,
            _output: output,
        })
    }

    /// Returns true while the process is running.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Kills the process at once, as a power cut would, and waits for its end.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Sends SIGTERM to the process and waits for its end.
    ///
    /// # Errors
    /// Fails if the exit code is not 0, or if the process did not end in time and was killed.
    pub fn terminate(mut self) -> anyhow::Result<()> {
        // SAFETY: kill accesses no memory. The process is a child for which nothing has waited yet, so its id is not
        // reused.
        unsafe { libc::kill(self.child.id() as i32, libc::SIGTERM) };
        let deadline = Instant::now() + END_TIMEOUT;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait()? {
                anyhow::ensure!(status.success(), "the daemon ended with {status}");
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        bail!("the daemon did not end within {END_TIMEOUT:?} after SIGTERM")
    }

    /// Returns the status code and body of a page of the console.
    ///
    /// # Errors
    /// Fails if there is no answer in time.
    pub fn page(&self, path: &str) -> anyhow::Result<(u16, String)> {
        let mut stream = TcpStream::connect_timeout(&self.console, CONSOLE_TIMEOUT)?;
        stream.set_read_timeout(Some(CONSOLE_TIMEOUT))?;
        let host = self.console;
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let code = answer.get(9..12).and_then(|code| code.parse().ok());
        let code = code.with_context(|| format!("the console's answer is not HTTP: {answer:?}"))?;
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        Ok((code, body.to_owned()))
    }

    /// Returns the maximum of the resident memory so far, in bytes.
    pub fn peak_bytes(&self) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        let kib: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
        Some(kib << 10)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

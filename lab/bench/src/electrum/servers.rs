//! Servers as child processes, which run on the servers' core. Dropping a server's value kills its process.

use super::{Options, SERVER_CORE};
use crate::error::{BenchError, Result, io};
use crate::sys;
use lineside_testkit::CoreMini;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Maximum time until a server serves the whole chain.
const START_MAX: Duration = Duration::from_secs(120);

/// Error message that says how to install ElectrumX.
const NOT_INSTALLED: &str = "ElectrumX is not installed: `pip install e-x==2.0.0 plyvel`, \
                             then set LINESIDE_ELECTRUMX or add it to PATH";

/// Process with a folder of its own.
struct Process {
    child: Child,
    folder: tempfile::TempDir,
}

impl Process {
    fn start(command: &mut Command, folder: tempfile::TempDir) -> Result<Self> {
        // A child process inherits the CPU affinity of the thread that starts it.
        let started = std::thread::scope(|scope| {
            let start = || sys::pin(SERVER_CORE).and_then(|()| command.spawn());
            scope.spawn(start).join()
        });
        let child = started.unwrap_or_else(|_| Err(std::io::Error::other("the thread ended")));
        let child = child.map_err(io("starting a server"))?;
        Ok(Self { child, folder })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn folder(options: &Options) -> Result<tempfile::TempDir> {
    let made = tempfile::Builder::new()
        .prefix("lineside-bench-")
        .tempdir_in(&options.folder);
    made.map_err(io("creating a folder for a server"))
}

/// Calls `ready` until it returns true.
fn wait(what: &str, mut ready: impl FnMut() -> Result<bool>) -> Result<()> {
    let end = Instant::now() + START_MAX;
    while !ready()? {
        if Instant::now() > end {
            return Err(BenchError::Void(format!(
                "{what} did not start serving within {START_MAX:?}"
            )));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Process `lineside spv serve` that follows the node.
pub struct Lineside {
    process: Process,
    _output: BufReader<ChildStdout>,
    pub electrum: SocketAddr,
    pub udp: SocketAddr,
    console: SocketAddr,
}

impl Lineside {
    pub fn start(options: &Options, node: &CoreMini) -> Result<Self> {
        let folder = folder(options)?;
        let data = folder.path().join("chain");
        let mut init = Command::new(&options.program);
        init.args(["spv", "init", "--network", "regtest", "--data"])
            .arg(&data);
        let made = init.output().map_err(io("starting lineside"))?;
        if !made.status.success() {
            return Err(BenchError::Command {
                command: format!("{init:?}"),
                said: String::from_utf8_lossy(&made.stderr).into_owned(),
            });
        }
        let mut command = Command::new(&options.program);
        command
            .args([
                "spv",
                "serve",
                "--json",
                "--network",
                "regtest",
                "--listen",
                "127.0.0.1:0",
            ])
            .args([
                "--datapath",
                "socket",
                "--console",
                "127.0.0.1:0",
                "--line-bits",
                "20",
            ])
            .args(["--electrum", "127.0.0.1:0", "--node", &node.url(), "--data"])
            .arg(&data)
            .env("RUST_LOG", "warn")
            .stdout(Stdio::piped());
        let mut process = Process::start(&mut command, folder)?;
        let output = process.child.stdout.take();
        let output = output.ok_or_else(|| BenchError::Void("lineside has no standard output".into()))?;
        let (mut output, mut line) = (BufReader::new(output), String::new());
        output
            .read_line(&mut line)
            .map_err(io("reading lineside's first line"))?;
        let said: Value = serde_json::from_str(&line).unwrap_or_default();
        let address = |value: &Value| {
            let text = value.as_str().unwrap_or_default();
            let text = text.strip_prefix("http://").unwrap_or(text);
            text.parse().map_err(|_| {
                BenchError::Void(format!(
                    "the first line of lineside's output has no address: {line}"
                ))
            })
        };
        let server = Self {
            electrum: address(&said["services"][0]["also"]["electrum"])?,
            udp: address(&said["listen"])?,
            console: address(&said["console"])?,
            process,
            _output: output,
        };
        let tip = node.chain().len() as u64 - 1;
        wait("lineside", || {
            Ok(server.status()?["services"][0]["tip"]["height"] == tip)
        })?;
        wait("lineside's subscription", || Ok(node.subscribers() > 0))?;
        Ok(server)
    }

    pub fn pid(&self) -> u32 {
        self.process.child.id()
    }

    /// Returns the number of requests that the fast path has answered.
    pub fn hits(&self) -> Result<u64> {
        let status = self.status()?;
        let hits = status["services"][0]["counters"]["socket"]["hits"].as_u64();
        hits.ok_or_else(|| BenchError::Void("lineside's status has no hits".into()))
    }

    fn status(&self) -> Result<Value> {
        let read = || {
            let mut stream = TcpStream::connect(self.console)?;
            write!(
                stream,
                "GET /status HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
                self.console
            )?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        };
        let answer = read().map_err(io("reading lineside's status"))?;
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        serde_json::from_str(body)
            .map_err(|_| BenchError::Void(format!("lineside's status is not JSON: {answer}")))
    }
}

/// Process of ElectrumX that indexes the chain of the same node.
pub struct ElectrumX {
    process: Process,
    pub address: SocketAddr,
}

impl ElectrumX {
    pub fn start(options: &Options, node: &CoreMini) -> Result<Self> {
        let program = options.electrumx.clone().or_else(find);
        let program = program.ok_or_else(|| BenchError::NotMeasured(NOT_INSTALLED.into()))?;
        let folder = folder(options)?;
        let listener = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let address = listener.map_err(io("finding a port"))?;
        let log = std::fs::File::create(folder.path().join("log")).map_err(io("creating a log"))?;
        let errors = log.try_clone().map_err(io("creating a log"))?;
        let mut command = Command::new(&program);
        command.env("DB_DIRECTORY", folder.path());
        for (name, value) in [
            ("DB_ENGINE", "leveldb"),
            ("COIN", "Bitcoin"),
            ("NET", "regtest"),
            ("DAEMON_URL", &node.http_url()),
            ("SERVICES", &format!("tcp://{address}")),
            ("PEER_DISCOVERY", "off"),
            ("PEER_ANNOUNCE", ""),
            ("ALLOW_ROOT", "true"),
            // Switches off the session limits, which would limit the client.
            ("COST_SOFT_LIMIT", "0"),
            ("COST_HARD_LIMIT", "0"),
            ("REQUEST_SLEEP", "0"),
            ("INITIAL_CONCURRENT", "1000"),
        ] {
            command.env(name, value);
        }
        command.stdout(log).stderr(errors);
        let process = Process::start(&mut command, folder)?;
        let mut server = Self { process, address };
        // ElectrumX begins to listen when it has indexed the chain.
        wait("ElectrumX", || {
            match server
                .process
                .child
                .try_wait()
                .map_err(io("waiting for ElectrumX"))?
            {
                None => Ok(TcpStream::connect(address).is_ok()),
                Some(status) => {
                    let log = std::fs::read_to_string(server.process.folder.path().join("log"));
                    Err(BenchError::Command {
                        command: program.display().to_string(),
                        said: format!("{status}: {}", log.unwrap_or_default()),
                    })
                }
            }
        })?;
        Ok(server)
    }

    pub fn pid(&self) -> u32 {
        self.process.child.id()
    }
}

fn find() -> Option<PathBuf> {
    if let Some(program) = std::env::var_os("LINESIDE_ELECTRUMX") {
        return Some(program.into());
    }
    let path = std::env::var_os("PATH")?;
    let mut places = std::env::split_paths(&path).map(|folder| folder.join("electrumx_server"));
    places.find(|program| program.is_file())
}

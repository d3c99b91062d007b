//! Runs the commands of `lineside spv`, and a server for UDP, Electrum and HTTP clients.

#![allow(dead_code, reason = "each test file uses a part")]

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::Duration;

/// Maximum time to wait for a reply of a server.
const REPLY_TIMEOUT: Duration = Duration::from_secs(60);

/// Runs `lineside` and waits until it ends.
pub fn lineside(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lineside"))
        .args(words)
        .output()
        .unwrap()
}

/// Returns the output of a command, which must have succeeded.
pub fn succeeded(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    text
}

/// Creates an empty store of `network` below `folder`, and returns its path.
pub fn store(folder: &Path, network: &str) -> std::path::PathBuf {
    let data = folder.join("chain");
    let path = data.to_str().unwrap();
    succeeded(&lineside(&["spv", "init", "--network", network, "--data", path]));
    data
}

/// Running `lineside spv serve` with Electrum and HTTP; killed when dropped.
pub struct Server {
    pub child: Child,
    pub said: Value,
    _output: BufReader<ChildStdout>,
}

impl Server {
    pub fn start(network: &str, data: &Path, more: &[&str]) -> Self {
        Self::start_without_network(data, &[&["--network", network], more].concat())
    }

    /// Starts a server without the option `--network`; the server reads the network from the store.
    pub fn start_without_network(data: &Path, more: &[&str]) -> Self {
        Self::started(Command::new(env!("CARGO_BIN_EXE_lineside")), data, more)
    }

    /// Starts a server whose writes can be limited ([`Server::limit_files`]).
    pub fn start_with_limit(data: &Path, more: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lineside"));
        // SAFETY: ignoring a signal installs no handler, so it is safe between fork and exec. A write beyond the limit
        // then returns an error.
        unsafe {
            command.pre_exec(|| {
                libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
                Ok(())
            });
        }
        Self::started(command, data, more)
    }

    /// Limits the length of the files that the server writes. A write beyond the limit fails as on a full disk.
    pub fn limit_files(&self, bytes: u64) {
        let limit = libc::rlimit {
            rlim_cur: bytes,
            rlim_max: libc::RLIM_INFINITY,
        };
        let pid = self.child.id() as i32;
        // SAFETY: the process is a child that was not waited for yet, and `limit` is valid during the call.
        let set = unsafe { libc::prlimit(pid, libc::RLIMIT_FSIZE, &limit, std::ptr::null_mut()) };
        assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
    }

    fn started(mut command: Command, data: &Path, more: &[&str]) -> Self {
        let mut child = command
            .args(["spv", "serve", "--json"])
            .args(["--listen", "127.0.0.1:0", "--datapath", "socket"])
            .args(["--console", "127.0.0.1:0", "--line-bits", "12"])
            .args(["--electrum", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data"])
            .arg(data)
            .args(more)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        Self {
            child,
            said: serde_json::from_str(&line).expect("the server says where it serves"),
            _output: output,
        }
    }

    pub fn address(&self, protocol: &str) -> SocketAddr {
        let text = self.said["services"][0]["also"][protocol].as_str().unwrap();
        text.parse().unwrap()
    }

    /// Returns the UDP address of the native protocol.
    pub fn udp(&self) -> SocketAddr {
        self.said["listen"].as_str().unwrap().parse().unwrap()
    }

    /// Returns the body of a page, requested over HTTP.
    pub fn page(&self, address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    }

    pub fn console(&self, path: &str) -> String {
        let console = self.said["console"].as_str().unwrap();
        self.page(console.strip_prefix("http://").unwrap().parse().unwrap(), path)
    }

    pub fn tip(&self) -> String {
        self.page(self.address("http"), "/blocks/tip/hash")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Client of the Electrum protocol that sends one request at a time.
pub struct Electrum {
    stream: TcpStream,
    lines: std::io::Lines<BufReader<TcpStream>>,
    next_id: u64,
    /// Notifications that arrived while the client waited for a reply.
    pub notified: Vec<Value>,
}

impl Electrum {
    /// Connects and negotiates protocol 1.4.
    pub fn connect(address: SocketAddr) -> std::io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
        let lines = BufReader::new(stream.try_clone()?).lines();
        let mut client = Self {
            stream,
            lines,
            next_id: 0,
            notified: Vec::new(),
        };
        client.call("server.version", &json!(["test", "1.4"]))?;
        Ok(client)
    }

    /// Sends a request; returns the whole reply, with its result or its error.
    pub fn call(&mut self, method: &str, params: &Value) -> std::io::Result<Value> {
        let id = self.next_id;
        self.next_id += 1;
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        // The request is sent with one write, so that TCP does not delay a second part until the first part is
        // acknowledged.
        self.stream.write_all(format!("{request}\n").as_bytes())?;
        loop {
            let line = self.next()?;
            if line["id"] == id {
                return Ok(line);
            }
            self.notified.push(line);
        }
    }

    /// Returns the next notification of `method`.
    pub fn notification(&mut self, method: &str) -> Value {
        loop {
            let found = self.notified.iter().position(|line| line["method"] == method);
            if let Some(found) = found {
                return self.notified.remove(found);
            }
            let line = self.next().unwrap();
            self.notified.push(line);
        }
    }

    fn next(&mut self) -> std::io::Result<Value> {
        let end = || std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
        let line = self.lines.next().ok_or_else(end)??;
        Ok(serde_json::from_str(&line)?)
    }
}

/// Makes one call of the Electrum protocol on a new connection.
pub fn electrum(address: SocketAddr, method: &str, params: &Value) -> Value {
    Electrum::connect(address).unwrap().call(method, params).unwrap()
}

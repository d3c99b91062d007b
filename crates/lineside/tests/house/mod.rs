//! A `hybrid` database and its node, created and started by the command.
#![allow(dead_code, reason = "each test uses what it needs")]

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use tempfile::TempDir;

/// Output and exit code of a command.
pub struct CommandOutput {
    pub code: i32,
    pub out: String,
    pub error: String,
}

/// Directory with a database: its genesis and keys.
pub struct HybridDatabase(pub TempDir);

impl HybridDatabase {
    pub fn new(arguments: &[&str]) -> Self {
        let house = Self(tempfile::tempdir().unwrap());
        let said = house.hybrid(&[&["init"], arguments].concat());
        assert_eq!(said.code, 0, "{}", said.error);
        house
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lineside"));
        command.arg("hybrid").args(arguments).current_dir(self.0.path());
        command
    }

    pub fn hybrid(&self, arguments: &[&str]) -> CommandOutput {
        let output = self.command(arguments).output().unwrap();
        CommandOutput {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            error: String::from_utf8(output.stderr).unwrap(),
        }
    }

    pub fn serve(&self, more: &[&str]) -> Server {
        let arguments = ["serve", "--data", "ledger", "--listen", "127.0.0.1:0", "--json"];
        Server::start(self.command(&[&arguments, more].concat()))
    }
}

/// Running node; killed when dropped.
pub struct Server {
    pub child: Child,
    pub started: Value,
    _out: BufReader<ChildStdout>,
}

impl Server {
    /// Starts the node, and waits until it announces its addresses.
    pub fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        let started = serde_json::from_str(&line).expect("it says where it serves");
        Self {
            child,
            started,
            _out: lines,
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    pub fn address(&self) -> &str {
        self.started["listen"].as_str().unwrap()
    }

    /// Runs a client subcommand with the key of a member.
    pub fn ask(&self, house: &HybridDatabase, verb: &str, key: &str, rest: &[&str]) -> CommandOutput {
        let fixed = [verb, "--server", self.address(), "--key", key];
        house.hybrid(&[&fixed, rest].concat())
    }

    /// Runs a client subcommand with the key of a member. The command must succeed; returns the printed objects.
    pub fn done(&self, house: &HybridDatabase, verb: &str, key: &str, rest: &[&str]) -> Vec<Value> {
        let said = self.ask(house, verb, key, &[rest, &["--json"]].concat());
        assert_eq!(said.code, 0, "{verb} {rest:?}: {}", said.error);
        let line = |line| serde_json::from_str(line).unwrap();
        said.out.lines().map(line).collect()
    }

    pub fn terminate(mut self) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").arg(&id).status().unwrap().success());
        assert!(self.child.wait().unwrap().success());
    }
}

pub const TWO_MEMBERS: [&str; 6] = [
    "--member",
    "alice=alice.key:admin",
    "--member",
    "bob=bob.key",
    "--rule",
    "=*:rw",
];

/// Returns a page of a console.
pub fn page(console: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(console).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {console}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

//! Starts `lineside transfer serve` for tests.
#![allow(dead_code, reason = "each test uses a part of it")]

use lineside_client::transfer::Client;
use lineside_transfer::AccountId;
use lineside_transfer::paper::PaperRequest;
use lineside_wire::{Operation, TRANSFER_COMMAND_TRANSFER as TRANSFER};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;
use zerocopy::FromZeros;

pub const REPLY_TIMEOUT: Duration = Duration::from_secs(60);

/// Running server; killed when dropped.
pub struct Server {
    pub child: Child,
    pub address: SocketAddr,
    console: SocketAddr,
}

impl Server {
    pub fn start(data: &Path, listen: &str) -> Result<Self, String> {
        Self::start_with(data, listen, &["--datapath", "socket"])
    }

    pub fn start_with(data: &Path, listen: &str, more: &[&str]) -> Result<Self, String> {
        let mut command = lineside();
        command
            .args(["transfer", "serve", "--console", "127.0.0.1:0"])
            .args(more);
        command
            .args(["--account-bits", "10", "--listen", listen, "--data"])
            .arg(data);
        let mut child = command
            .env("RUST_LOG", "warn")
            .env_remove("INVOCATION_ID")
            .env_remove("NOTIFY_SOCKET")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())?;
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (mut address, mut console) = (None, None);
        for line in lines {
            let line = line.unwrap();
            if let Some(rest) = line.strip_prefix("transfer on ") {
                address = rest.split(' ').next().unwrap().parse().ok();
            }
            if let Some(rest) = line.strip_prefix("console on http://") {
                console = rest.split('/').next().unwrap().parse().ok();
            }
            if line.ends_with(" ends it") {
                return Ok(Self {
                    child,
                    address: address.expect("it says where it listens"),
                    console: console.expect("it says where its console is"),
                });
            }
        }
        let mut why = String::new();
        child.stderr.take().unwrap().read_to_string(&mut why).unwrap();
        child.wait().unwrap();
        Err(why)
    }

    pub fn console(&self) -> SocketAddr {
        self.console
    }

    pub fn client(&self) -> Client {
        Client::connect(self.address, REPLY_TIMEOUT).unwrap()
    }

    /// Returns the value of a metric without labels.
    pub fn metric(&self, name: &str) -> u64 {
        let mut page = String::new();
        let mut stream = TcpStream::connect(self.console).unwrap();
        stream
            .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            .unwrap();
        stream.read_to_string(&mut page).unwrap();
        let line = page
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name}: {page}"))
            .parse()
            .unwrap()
    }

    pub fn ask(&self, words: &[&str]) -> Output {
        let (verb, rest) = words.split_first().unwrap();
        lineside()
            .args(["transfer", verb, "--server", &self.address.to_string()])
            .args(rest)
            .output()
            .unwrap()
    }
}

impl Server {
    /// Sends SIGTERM and waits until the server has ended.
    pub fn end(mut self) {
        // SAFETY: the process is a child that was not waited for yet, so its id still names it.
        unsafe { libc::kill(self.child.id() as i32, libc::SIGTERM) };
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }
}

pub fn lineside() -> Command {
    Command::new(env!("CARGO_BIN_EXE_lineside"))
}

pub fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

pub fn operation(command: u8, source: u32, destination: u32, amount: u64) -> Operation {
    let mut operation = Operation::new_zeroed();
    operation.command = command;
    operation.source = AccountId::from_paper(source).0;
    operation.destination = AccountId::from_paper(destination).0;
    operation.amount = amount.into();
    operation
}

/// Transfers 1 from account 1 to account 2, `count` times, with ids from `first` on. Every reply must hold the next
/// balance.
pub fn move_ones(client: &mut Client, first: u32, count: u32, balance: u32) {
    for done in 0..count {
        let answer = client
            .paper(&PaperRequest::new(TRANSFER, first + done, 1, 2, 1))
            .unwrap();
        assert_eq!(answer.balance, Some((balance - done - 1).into()));
    }
}

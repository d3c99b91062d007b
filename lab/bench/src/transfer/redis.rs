//! Redis as a compared system: a Lua script checks the balance and moves money, and every write is synced (`appendfsync
//! always`).

use super::drain::Removed;
use super::peer::{Peer, Requests, Stream, retry};
use super::plan::BALANCE;
use crate::error::{BenchError, Result, io};
use crate::sys::{self, Ready};
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const START_MAX: Duration = Duration::from_secs(10);
const SCRIPT: &str = "local b = tonumber(redis.call('GET', KEYS[1])) \
    if not b or b < tonumber(ARGV[1]) or redis.call('EXISTS', KEYS[2]) == 0 then return -1 end \
    redis.call('INCRBY', KEYS[2], ARGV[1]) return redis.call('DECRBY', KEYS[1], ARGV[1])";

/// Running Redis server.
pub struct Redis {
    child: Child,
    port: u16,
    script: String,
    _data: Removed,
}

impl Drop for Redis {
    fn drop(&mut self) {
        // The process may have ended already; waiting for it is still necessary, so that no zombie remains.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the path of redis-server if it is installed.
fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let places = std::env::split_paths(&path).chain(["/usr/bin".into()]);
    places
        .map(|place| place.join("redis-server"))
        .find(|file| file.is_file())
}

impl Redis {
    /// Starts the server with `accounts` accounts, numbered from 0. Its data is in `folder`, which is removed at the
    /// end.
    ///
    /// # Errors
    /// [`BenchError::NotMeasured`] if Redis is not installed or does not start.
    pub fn start(folder: &Path, accounts: u32) -> Result<Self> {
        let binary = find().ok_or_else(|| BenchError::NotMeasured("redis-server is not installed".into()))?;
        let data = Removed::make(folder)?;
        let port = free_port()?;
        let mut command = Command::new(binary);
        let arguments = format!(
            "--port {port} --bind 127.0.0.1 --appendonly yes --appendfsync always \
             --auto-aof-rewrite-percentage 0 --daemonize no"
        );
        command
            .args(arguments.split_whitespace())
            .args(["--save", "", "--dir"])
            .arg(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = sys::bound_to_thread(&mut command)
            .spawn()
            .map_err(io("starting redis-server"))?;
        let mut redis = Self {
            child,
            port,
            script: String::new(),
            _data: data,
        };
        retry("redis-server does not answer", START_MAX, || redis.ask(&["PING"]))?;
        let asked = redis
            .fill(accounts)
            .and_then(|()| redis.ask(&["SCRIPT", "LOAD", SCRIPT]));
        redis.script = asked.map_err(io("filling redis"))?;
        Ok(redis)
    }

    fn connect(&self) -> std::io::Result<TcpStream> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    /// Sends one command. Returns the line of a simple reply, or the string of a bulk reply.
    fn ask(&self, words: &[&str]) -> std::io::Result<String> {
        let mut stream = self.connect()?;
        let mut out = Vec::new();
        put_command(&mut out, words);
        stream.write_all(&out)?;
        let mut input = BufReader::new(stream);
        let mut line = String::new();
        input.read_line(&mut line)?;
        match line.as_bytes().first() {
            Some(b'$') => {
                line.clear();
                input.read_line(&mut line)?;
                Ok(line.trim_end().to_owned())
            }
            Some(b'-') | None => Err(std::io::Error::other(line)),
            _ => Ok(line[1..].trim_end().to_owned()),
        }
    }

    fn fill(&self, accounts: u32) -> std::io::Result<()> {
        let balance = BALANCE.to_string();
        for first in (0..accounts).step_by(4096) {
            let keys: Vec<String> = (first..accounts.min(first + 4096))
                .map(|at| format!("a{at}"))
                .collect();
            let words = keys.iter().flat_map(|key| [key.as_str(), balance.as_str()]);
            let words: Vec<&str> = ["MSET"].into_iter().chain(words).collect();
            self.ask(&words)?;
        }
        Ok(())
    }

    /// Returns a client of the server.
    ///
    /// # Errors
    /// Error of the operating system.
    pub fn client(&self, requests: Requests) -> Result<Box<dyn Peer>> {
        let stream = self.connect().map_err(io("connecting to redis"))?;
        stream.set_nonblocking(true).map_err(io("connecting to redis"))?;
        let fd = stream.as_raw_fd();
        Ok(Box::new(Client {
            stream: Stream::new(stream, fd),
            script: self.script.clone(),
            requests,
        }))
    }

    /// Returns the sum of the balances of all accounts.
    ///
    /// # Errors
    /// Error of the operating system or of Redis.
    pub fn held(&self, accounts: u32) -> Result<u64> {
        let script = "local s = 0 for i = 0, ARGV[1] - 1 do s = s + redis.call('GET', 'a' .. i) end return s";
        let sum = self.ask(&["EVAL", script, "0", &accounts.to_string()]);
        let sum = sum.map_err(io("auditing redis"))?;
        sum.parse()
            .map_err(|_| BenchError::Void(format!("redis returned {sum} as the sum of its accounts")))
    }
}

fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    Ok(listener.map_err(io("looking for a free port"))?.port())
}

struct Client {
    stream: Stream<TcpStream>,
    script: String,
    requests: Requests,
}

impl Peer for Client {
    fn ready(&self) -> Ready {
        self.stream.ready()
    }

    fn pump(&mut self, asks: bool) -> std::io::Result<()> {
        self.stream.fill()?;
        while let Some((reply, bytes)) = parse(self.stream.input()) {
            // Replies of this protocol have no ids, but the order of the requests.
            let number = self.requests.due();
            let due = number.map(|number| self.requests.balance_after(number));
            let is_right = due.is_some_and(|due| reply == Ok(due as i64));
            let reply = &self.stream.input()[..bytes];
            self.requests.answered(number, is_right.into(), reply);
            self.stream.take(bytes);
        }
        while asks && let Some(number) = self.requests.ask() {
            let from = format!("a{}", self.requests.source(number));
            let to = format!("a{}", self.requests.destination(number));
            put_command(
                self.stream.out(),
                &["EVALSHA", &self.script, "2", &from, &to, "1"],
            );
        }
        self.stream.flush()
    }

    fn requests(&mut self) -> &mut Requests {
        &mut self.requests
    }
}

/// Appends a command in RESP: an array of bulk strings.
fn put_command(out: &mut Vec<u8>, words: &[&str]) {
    // Writing to memory cannot fail.
    let _ = write!(out, "*{}\r\n", words.len());
    for word in words {
        let _ = write!(out, "${}\r\n{word}\r\n", word.len());
    }
}

/// Returns the integer or the text of a reply line, and its length; `None` if the line is not complete yet.
fn parse(input: &[u8]) -> Option<(std::result::Result<i64, String>, usize)> {
    let end = input.windows(2).position(|pair| pair == b"\r\n")?;
    let line = &input[..end];
    let digits = line
        .strip_prefix(b":")
        .and_then(|digits| std::str::from_utf8(digits).ok());
    let number = digits.and_then(|digits| digits.parse().ok());
    let number = number.ok_or_else(|| String::from_utf8_lossy(line).into_owned());
    Some((number, end + 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_replies_have_the_encoding_of_the_redis_protocol() {
        let mut out = Vec::new();
        put_command(&mut out, &["EVALSHA", "abc", "2", "a1", "a22", "1"]);
        let due = "*6\r\n$7\r\nEVALSHA\r\n$3\r\nabc\r\n$1\r\n2\r\n$2\r\na1\r\n$3\r\na22\r\n$1\r\n1\r\n";
        assert_eq!(out, due.as_bytes());
        let replies = b":999999\r\n:-1\r\n-NOSCRIPT No matching script. Please use EVAL.\r\n:12";
        let (mut at, mut found) = (0, Vec::new());
        while let Some((reply, bytes)) = parse(&replies[at..]) {
            found.push(reply);
            at += bytes;
        }
        let error = Err("-NOSCRIPT No matching script. Please use EVAL.".to_owned());
        assert_eq!(found, [Ok(999_999), Ok(-1), error]);
        assert_eq!(&replies[at..], b":12", "the rest has not arrived yet");
    }
}

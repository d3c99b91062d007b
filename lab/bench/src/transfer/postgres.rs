//! PostgreSQL as a compared system: one plpgsql function updates two rows, and every commit is synced. The client uses
//! PostgreSQL's protocol (version 3) over a unix socket with pipelined requests; each request is one transaction.

use super::drain::Removed;
use super::peer::{Peer, Requests, Stream, retry};
use super::plan::BALANCE;
use crate::error::{BenchError, Result, io};
use crate::sys::{self, Ready};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::chown;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const START_MAX: Duration = Duration::from_secs(15);
const STOP_MAX: Duration = Duration::from_secs(5);
const PORT: u16 = 5432;
/// PL/pgSQL function of a transfer. It updates rows in the order of their ids, so that no two transactions wait for
/// each other.
const FUNCTION: &str = "CREATE FUNCTION transfer(s int, d int, a bigint) RETURNS bigint AS $$
DECLARE b bigint;
BEGIN
  IF s < d THEN
    UPDATE accounts SET balance = balance - a WHERE id = s AND balance >= a RETURNING balance INTO b;
    IF NOT FOUND THEN RAISE EXCEPTION 'refused'; END IF;
    UPDATE accounts SET balance = balance + a WHERE id = d;
    IF NOT FOUND THEN RAISE EXCEPTION 'refused'; END IF;
  ELSE
    UPDATE accounts SET balance = balance + a WHERE id = d;
    IF NOT FOUND THEN RAISE EXCEPTION 'refused'; END IF;
    UPDATE accounts SET balance = balance - a WHERE id = s AND balance >= a RETURNING balance INTO b;
    IF NOT FOUND THEN RAISE EXCEPTION 'refused'; END IF;
  END IF;
  RETURN b;
END $$ LANGUAGE plpgsql";

/// Running PostgreSQL server.
pub struct Postgres {
    child: Child,
    folder: PathBuf,
    _data: Removed,
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // The server ends its child processes only if it receives a signal to stop.
        let _ = sys::interrupt(self.child.id());
        let began = Instant::now();
        while began.elapsed() < STOP_MAX && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the directory of the newest installed version of PostgreSQL.
fn find() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let mut found: Vec<PathBuf> = versions
        .filter_map(|version| Some(version.ok()?.path().join("bin")))
        .filter(|bin| bin.join("postgres").is_file() && bin.join("initdb").is_file())
        .collect();
    found.sort();
    found.pop()
}

/// Returns the user id and group id for the server, because PostgreSQL refuses to run as root.
fn user() -> Option<(u32, u32)> {
    let text = std::fs::read_to_string("/etc/passwd").ok()?;
    let line = text.lines().find(|line| line.starts_with("postgres:"))?;
    let mut fields = line.split(':').skip(2);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

impl Postgres {
    /// Starts the server with `accounts` accounts, numbered from 0. Its data is in `folder`, which is removed at the
    /// end.
    ///
    /// # Errors
    /// [`BenchError::NotMeasured`] if PostgreSQL is not installed or does not start.
    pub fn start(folder: &Path, accounts: u32) -> Result<Self> {
        let not = |why: &str| BenchError::NotMeasured(why.into());
        let bin = find().ok_or_else(|| not("PostgreSQL is not installed"))?;
        let (uid, gid) =
            user().ok_or_else(|| not("this machine has no user `postgres`, which the server runs as"))?;
        let data = Removed::make(folder)?;
        chown(folder, Some(uid), Some(gid)).map_err(io("giving postgres its folder"))?;
        let made = Command::new(bin.join("initdb"))
            .args([
                "--auth=trust",
                "--username=postgres",
                "--no-sync",
                "--no-locale",
                "-D",
            ])
            .arg(folder)
            .current_dir(folder)
            .uid(uid)
            .gid(gid)
            .stdin(Stdio::null())
            .output()
            .map_err(io("running initdb"))?;
        if !made.status.success() {
            let said = String::from_utf8_lossy(&made.stderr).trim().replace('\n', " ");
            return Err(not(&format!("initdb: {said}")));
        }
        let mut command = Command::new(bin.join("postgres"));
        command
            .arg("-D")
            .arg(folder)
            .arg("-k")
            .arg(folder)
            .args([
                "-c",
                "listen_addresses=",
                "-c",
                "fsync=on",
                "-c",
                "synchronous_commit=on",
            ])
            .args(["-c", "logging_collector=off", "-p", &PORT.to_string()])
            .current_dir(folder)
            .uid(uid)
            .gid(gid)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = sys::bound_to_thread(&mut command)
            .spawn()
            .map_err(io("starting postgres"))?;
        let postgres = Self {
            child,
            folder: folder.to_owned(),
            _data: data,
        };
        let mut first = retry("postgres does not answer", START_MAX, || postgres.connect())?;
        for query in [
            "CREATE TABLE accounts (id int PRIMARY KEY, balance bigint NOT NULL) WITH (fillfactor = 50)",
            &format!("INSERT INTO accounts SELECT i, {BALANCE} FROM generate_series(0, {accounts} - 1) i"),
            FUNCTION,
            "VACUUM ANALYZE accounts",
            "CHECKPOINT",
        ] {
            ask(&mut first, query).map_err(io("filling postgres"))?;
        }
        Ok(postgres)
    }

    /// Opens a connection that is ready for queries.
    fn connect(&self) -> std::io::Result<UnixStream> {
        let path = self.folder.join(format!(".s.PGSQL.{PORT}"));
        let mut stream = UnixStream::connect(path)?;
        stream.write_all(&start_up())?;
        until_ready(&mut stream)?;
        Ok(stream)
    }

    /// Returns a client of the server.
    ///
    /// # Errors
    /// Error of the operating system.
    pub fn client(&self, requests: Requests) -> Result<Box<dyn Peer>> {
        let connecting = || {
            let mut stream = self.connect()?;
            let mut out = Vec::new();
            put_parse(&mut out);
            put(&mut out, b'S', |_| ());
            stream.write_all(&out)?;
            until_ready(&mut stream)?;
            stream.set_nonblocking(true)?;
            Ok(stream)
        };
        let stream = connecting().map_err(io("connecting to postgres"))?;
        let fd = stream.as_raw_fd();
        Ok(Box::new(Client {
            stream: Stream::new(stream, fd),
            requests,
            row: None,
        }))
    }

    /// Returns the sum of the balances of all accounts.
    ///
    /// # Errors
    /// Error of the operating system or of PostgreSQL.
    pub fn held(&self) -> Result<u64> {
        let asking = || ask(&mut self.connect()?, "SELECT sum(balance)::bigint FROM accounts");
        let sum = asking().map_err(io("auditing postgres"))?;
        let sum = sum.and_then(|sum| u64::try_from(sum).ok());
        sum.ok_or_else(|| BenchError::Void("postgres did not return the sum of its accounts".into()))
    }
}

struct Client {
    stream: Stream<UnixStream>,
    requests: Requests,
    /// Balance in the result row of the transaction whose reply is being read.
    row: Option<i64>,
}

impl Peer for Client {
    fn ready(&self) -> Ready {
        self.stream.ready()
    }

    fn pump(&mut self, asks: bool) -> std::io::Result<()> {
        self.stream.fill()?;
        while let Some((kind, body, bytes)) = parse(self.stream.input()) {
            match kind {
                b'D' => self.row = row(body),
                b'Z' => {
                    // Replies of this protocol have no ids, but the order of the requests.
                    let number = self.requests.due();
                    let due = number.map(|number| self.requests.balance_after(number));
                    let is_right = due.is_some_and(|due| self.row == Some(due as i64));
                    let row = format!("{:?}", self.row);
                    self.requests.answered(number, is_right.into(), row.as_bytes());
                    self.row = None;
                }
                _ => {}
            }
            self.stream.take(bytes);
        }
        while asks && let Some(number) = self.requests.ask() {
            let (from, to) = (self.requests.source(number), self.requests.destination(number));
            put_transfer(self.stream.out(), from, to);
        }
        self.stream.flush()
    }

    fn requests(&mut self) -> &mut Requests {
        &mut self.requests
    }
}

/// Appends a message of the protocol: its kind, its length, and the body that `body` writes.
fn put(out: &mut Vec<u8>, kind: u8, body: impl FnOnce(&mut Vec<u8>)) {
    out.push(kind);
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    body(out);
    let length = (out.len() - at) as u32;
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

fn start_up() -> Vec<u8> {
    let mut out = Vec::new();
    // The start-up message has no kind byte.
    put(&mut out, 0, |out| {
        out.extend_from_slice(&196_608u32.to_be_bytes());
        out.extend_from_slice(b"user\0postgres\0database\0postgres\0\0");
    });
    out.remove(0);
    out
}

/// Appends a message that prepares the statement named `t`.
fn put_parse(out: &mut Vec<u8>) {
    put(out, b'P', |out| {
        out.extend_from_slice(b"t\0SELECT transfer($1, $2, 1)\0");
        out.extend_from_slice(&2u16.to_be_bytes());
        // The statement has two parameters of type int4.
        out.extend_from_slice(&23u32.to_be_bytes());
        out.extend_from_slice(&23u32.to_be_bytes());
    });
}

/// Appends messages that bind and execute the statement as one transaction. Its parameters and its result are binary.
fn put_transfer(out: &mut Vec<u8>, from: u32, to: u32) {
    put(out, b'B', |out| {
        out.extend_from_slice(b"\0t\0");
        out.extend_from_slice(&[0, 1, 0, 1, 0, 2]);
        for id in [from, to] {
            out.extend_from_slice(&4u32.to_be_bytes());
            out.extend_from_slice(&id.to_be_bytes());
        }
        out.extend_from_slice(&[0, 1, 0, 1]);
    });
    put(out, b'E', |out| out.extend_from_slice(&[0; 5]));
    put(out, b'S', |_| ());
}

/// Returns the kind, the body and the total length of a message; `None` if the message is not complete yet.
fn parse(input: &[u8]) -> Option<(u8, &[u8], usize)> {
    let length = u32::from_be_bytes(input.get(1..5)?.try_into().ok()?) as usize;
    let body = input.get(5..1 + length)?;
    Some((input[0], body, 1 + length))
}

/// Returns the number in a row with one column, in binary form or in digits.
fn row(body: &[u8]) -> Option<i64> {
    let value = body.get(6..)?;
    match <[u8; 8]>::try_from(value) {
        Ok(bytes) if body[2..6] == [0, 0, 0, 8] && !value.iter().all(u8::is_ascii_digit) => {
            Some(i64::from_be_bytes(bytes))
        }
        _ => std::str::from_utf8(value).ok()?.parse().ok(),
    }
}

/// Reads messages until the server is ready for a query, and returns the number in the last row.
fn until_ready(stream: &mut UnixStream) -> std::io::Result<Option<i64>> {
    let mut found = None;
    loop {
        let mut head = [0; 5];
        stream.read_exact(&mut head)?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let mut body = vec![0; length.saturating_sub(4)];
        stream.read_exact(&mut body)?;
        match head[0] {
            b'Z' => return Ok(found),
            b'D' => found = row(&body),
            b'E' => return Err(std::io::Error::other(String::from_utf8_lossy(&body).into_owned())),
            _ => {}
        }
    }
}

fn ask(stream: &mut UnixStream, query: &str) -> std::io::Result<Option<i64>> {
    let mut out = Vec::new();
    put(&mut out, b'Q', |out| {
        out.extend_from_slice(query.as_bytes());
        out.push(0);
    });
    stream.write_all(&out)?;
    until_ready(stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_encoded_and_parsed_as_the_postgres_protocol_says() {
        let mut out = Vec::new();
        put_transfer(&mut out, 7, 258);
        let due = b"B\0\0\0\x21\0t\0\0\x01\0\x01\0\x02\0\0\0\x04\0\0\0\x07\0\0\0\x04\0\0\x01\x02\0\x01\0\x01\
            E\0\0\0\x09\0\0\0\0\0S\0\0\0\x04";
        assert_eq!(out, due);
        assert_eq!(&start_up()[..12], b"\0\0\0\x29\0\x03\0\0user");
        let replies = b"2\0\0\0\x04D\0\0\0\x12\0\x01\0\0\0\x08\0\0\0\0\0\x0f\x42\x3fC\0\0\0\x0dSELECT 1\0\
            Z\0\0\0\x05ID\0\0\0\x0c\0\x01\0\0\0\x0242Z\0\0";
        let (mut at, mut kinds, mut rows) = (0, Vec::new(), Vec::new());
        while let Some((kind, body, bytes)) = parse(&replies[at..]) {
            kinds.push(kind);
            rows.extend((kind == b'D').then(|| row(body)));
            at += bytes;
        }
        assert_eq!(kinds, b"2DCZD");
        assert_eq!(rows, [Some(999_999), Some(42)]);
        assert_eq!(&replies[at..], b"Z\0\0", "the rest has not arrived yet");
    }
}

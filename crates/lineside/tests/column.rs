//! `lineside column` end to end: a server on the socket datapath and on XDP. Client subcommands read and write rows,
//! and the server is killed and restarted.

mod daemons;

use daemons::{Bpf, alone};
use lineside_testkit::skipped;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn lineside() -> Command {
    Command::new(env!("CARGO_BIN_EXE_lineside"))
}

/// Running server; killed when dropped.
struct Server {
    child: Child,
    address: SocketAddr,
    console: String,
}

impl Server {
    fn start(more: &[&str]) -> Result<Self, String> {
        let mut arguments = vec!["--datapath", "socket", "--listen", "127.0.0.1:0"];
        arguments.extend(["--pin-dir", "/sys/fs/bpf/lineside-test-column"]);
        arguments.extend(more);
        Self::start_at(&arguments, "socket datapath")
    }

    fn start_at(arguments: &[&str], datapath: &str) -> Result<Self, String> {
        let mut command = lineside();
        command
            .args(["column", "serve", "--console", "127.0.0.1:0"])
            .args(arguments);
        // SAFETY: `signal` may be called between fork and exec. While SIGXFSZ is ignored, a write above the file size
        // limit returns an error instead of ending the process.
        unsafe {
            command.pre_exec(|| {
                libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
                Ok(())
            });
        }
        let mut child = command
            .env_remove("INVOCATION_ID")
            .env_remove("NOTIFY_SOCKET")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())?;
        let (mut address, mut console) = (None, None);
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            if let Some(rest) = line.strip_prefix("column on ") {
                assert!(rest.contains(datapath), "{rest}");
                address = rest.split(' ').next().unwrap().parse().ok();
            }
            if let Some(rest) = line.strip_prefix("console on http://") {
                console = rest.split('/').next().map(str::to_owned);
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
        let status = child.wait().unwrap();
        Err(format!("{why}exit code {:?}", status.code()))
    }

    fn with_data(data: &Path) -> Self {
        Self::start(&["--data", data.to_str().unwrap()]).expect("it starts")
    }

    fn ask(&self, words: &[&str]) -> Output {
        let (verb, rest) = words.split_first().unwrap();
        lineside()
            .args(["--json", "column", verb, "--server", &self.address.to_string()])
            .args(rest)
            .output()
            .unwrap()
    }

    /// Runs a client subcommand with --json; returns the printed objects and the exit code.
    fn said(&self, words: &[&str]) -> (Vec<Value>, i32) {
        let output = self.ask(words);
        let lines = String::from_utf8(output.stdout).unwrap();
        let lines = lines.lines().map(|line| serde_json::from_str(line).unwrap());
        (lines.collect(), output.status.code().unwrap())
    }

    fn done(&self, words: &[&str]) -> Value {
        let (mut lines, code) = self.said(words);
        assert_eq!((lines.len(), code), (1, 0), "{words:?}: {lines:?}");
        lines.remove(0)
    }

    /// Returns the value of the column `entry:foo` of a row, and the name of the part that answered: fast path or host.
    fn get(&self, key: &str) -> (Option<String>, String) {
        let (lines, code) = self.said(&["get", key]);
        let found = lines[0]["found"] == true;
        assert_eq!(code, i32::from(!found), "{lines:?}");
        assert_eq!(lines[0]["may_be_stale"], false);
        let value = lines[0]["cells"]["entry:foo"].as_str().map(str::to_owned);
        assert_eq!(value.is_some(), found);
        (value, lines[0]["source"].as_str().unwrap().to_owned())
    }

    fn scan(&self, words: &[&str]) -> Vec<String> {
        let words: Vec<_> = ["scan"].into_iter().chain(words.iter().copied()).collect();
        let (lines, code) = self.said(&words);
        assert_eq!(code, 0);
        let row = |line: &Value| {
            format!(
                "{}={}",
                line["key"].as_str().unwrap(),
                line["cells"]["entry:foo"].as_str().unwrap()
            )
        };
        lines.iter().map(row).collect()
    }

    fn status(&self) -> Value {
        let output = lineside()
            .args(["--json", "status", "--console", &self.console])
            .output()
            .unwrap();
        let mut status: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(status["problems"], serde_json::json!([]));
        status["services"][0].take()
    }

    /// Returns the response of `/healthz`.
    fn health(&self) -> String {
        let mut stream = TcpStream::connect(&self.console).unwrap();
        write!(stream, "GET /healthz HTTP/1.0\r\nHost: {}\r\n\r\n", self.console).unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).unwrap();
        said
    }

    /// Makes all file writes of the server fail, as on a full disk, or succeed again.
    fn files_are_full(&self, full: bool) {
        let bytes = if full { 0 } else { libc::RLIM_INFINITY };
        let limit = libc::rlimit {
            rlim_cur: bytes,
            rlim_max: libc::RLIM_INFINITY,
        };
        // SAFETY: the process is a child that was not waited for yet, and `limit` is valid during the call.
        let set = unsafe {
            libc::prlimit(
                self.child.id() as i32,
                libc::RLIMIT_FSIZE,
                &limit,
                std::ptr::null_mut(),
            )
        };
        assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
    }

    fn signal(&mut self, signal: i32) -> Option<i32> {
        // SAFETY: the process is a child that was not waited for yet, so its id still names it.
        unsafe { libc::kill(self.child.id() as i32, signal) };
        self.child.wait().unwrap().code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn held(value: &str, source: &str) -> (Option<String>, String) {
    (Some(value.into()), source.into())
}

#[test]
fn repeated_reads_are_answered_by_the_fast_path_and_never_with_replaced_values() {
    let mut server = Server::start(&[]).expect("it starts");
    for (key, value) in [("a", "1"), ("b", "2"), ("c", "3"), ("d\\x00", "4\\xff")] {
        assert_eq!(server.done(&["put", key, value])["done"], true);
    }
    assert_eq!(server.get("b"), held("2", "host"));
    assert_eq!(server.get("b"), held("2", "fastpath"));
    assert_eq!(
        server.get("d\\x00"),
        held("4\\xff", "fastpath"),
        "a read of one row also fills the rows after it"
    );
    // The next read returns the changed value. The host answers it, because a write does not fill the fast path.
    server.done(&["put", "b", "20"]);
    assert_eq!(server.get("b"), held("20", "host"));
    assert_eq!(server.get("b"), held("20", "fastpath"));
    server.done(&["delete", "b"]);
    assert_eq!(server.get("b"), (None, "host".into()));
    assert_eq!(
        server.get("b"),
        (None, "fastpath".into()),
        "the fast path also caches that a row does not exist"
    );
    server.done(&["put", "b", "\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x05"]);
    assert_eq!(server.get("b").1, "host");
    assert_eq!(server.done(&["increment", "b", "-7"])["value"], -2);
    assert_eq!(server.done(&["increment", "b"])["value"], -1);
    let ones = "\\xff".repeat(8);
    assert_eq!(server.get("b"), held(&ones, "host"));
    assert_eq!(server.get("b"), held(&ones, "fastpath"));

    assert_eq!(server.done(&["append", "c", "3"])["value"], "33");
    let taken = ["check-and-put", "c", "4", "--expected", "3"];
    let (said, code) = server.said(&taken);
    assert_eq!((&said[0]["done"], code), (&false.into(), 1));
    assert_eq!(server.get("c"), held("33", "host"));
    let made = ["check-and-put", "c", "4", "--expected", "33"];
    assert_eq!(server.done(&made)["done"], true);
    assert_eq!(server.done(&["check-and-put", "e", "5"])["done"], true);
    assert_eq!(server.get("c"), held("4", "host"));

    let status = server.status();
    assert_eq!(
        (&status["name"], &status["datapath"]),
        (&"column".into(), &"socket".into())
    );
    assert_eq!(status["counters"]["socket"]["hits"], 5);
    assert!(status["host"]["fills"].as_u64().unwrap() >= 4, "{status}");
    assert!(status["host"]["rows"].as_u64().unwrap() >= 1, "{status}");
    assert_eq!(
        (&status["host"]["marks"], &status["host"]["off"]),
        (&0.into(), &0.into())
    );
    assert!(status["lease_left_ms"].as_u64().unwrap() <= 1000);

    assert_eq!(server.get("c"), held("4", "fastpath"));
    assert_eq!(server.done(&["switch", "off"])["fastpath"], "off");
    for _ in 0..2 {
        assert_eq!(server.get("c"), held("4", "host"));
    }
    let status = server.status();
    assert_eq!(
        (&status["host"]["off"], &status["host"]["rows"]),
        (&1.into(), &0.into())
    );
    assert_eq!(server.done(&["switch", "on"])["fastpath"], "on");
    assert_eq!(server.get("c"), held("4", "host"));
    assert_eq!(server.get("c"), held("4", "fastpath"));
    assert_eq!(server.signal(libc::SIGTERM), Some(0));
}

#[test]
fn scans_return_all_rows_of_the_requested_range_in_order() {
    let server = Server::start(&["--column", "entry:foo", "--column", "entry:bar"]).expect("it starts");
    for key in ["a", "b", "c", "d"] {
        server.done(&["put", key, &format!("of {key}")]);
    }
    server.done(&["put", "--column", "entry:bar", "b", "other"]);
    let all = ["a=of a", "b=of b", "c=of c", "d=of d"];
    assert_eq!(server.scan(&[]), all);
    assert_eq!(server.scan(&["--start", "b", "--stop", "d"]), all[1..3]);
    assert_eq!(server.scan(&["--start", "b", "--stop", "d"]), all[1..3]);
    let (lines, _) = server.said(&["scan", "--start", "b", "--stop", "d"]);
    assert!(lines.iter().all(|line| line["source"] == "fastpath"), "{lines:?}");
    assert_eq!(
        server.scan(&["--start", "b", "--stop", "d", "--stop-inclusive"]),
        all[1..]
    );
    assert_eq!(server.scan(&["--limit", "2"]), all[..2]);
    assert_eq!(server.scan(&["--reverse", "--limit", "2"]), ["d=of d", "c=of c"]);
    assert_eq!(server.scan(&["--start", "e"]), [""; 0]);
    let both = server.done(&["get", "--column", "entry:foo", "--column", "entry:bar", "b"]);
    let cells = serde_json::json!({"entry:foo": "of b", "entry:bar": "other"});
    assert_eq!(both["cells"], cells);
    // The test inserts a row into a range that the fast path caches, and more rows than fit one packet.
    server.done(&["put", "bb", "new"]);
    assert_eq!(
        server.scan(&["--start", "b", "--stop", "d"]),
        ["b=of b", "bb=new", "c=of c"]
    );
    let long = "x".repeat(700);
    for key in ["e", "f", "g"] {
        server.done(&["put", key, &long]);
    }
    assert_eq!(server.scan(&["--start", "e"]).len(), 3);
    // The reader of standard output has closed the pipe before the first row is written.
    let scan = ["column", "scan", "--server", &server.address.to_string()];
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let left = lineside().args(scan).stdout(writer).status().unwrap();
    assert_eq!(left.code(), Some(141));
    let backwards = server.ask(&["scan", "--start", "d", "--stop", "b"]);
    assert_eq!(backwards.status.code(), Some(1));
    let why = String::from_utf8(backwards.stderr).unwrap();
    assert!(why.contains("start key is above its stop key"), "{why}");
    let letters = server.ask(&["increment", "a"]);
    let why = String::from_utf8(letters.stderr).unwrap();
    assert!(why.contains("is not 8 bytes"), "{why}");
}

#[test]
fn a_row_larger_than_a_packet_is_named_and_the_scan_continues() {
    let server = Server::start(&[]).expect("it starts");
    for key in ["a", "b", "c"] {
        server.done(&["put", key, "1"]);
    }
    let long = "x".repeat(1000);
    assert_eq!(server.done(&["put", "b", &long])["done"], true);
    let grown = server.done(&["append", "b", &long]);
    assert_eq!(
        (&grown["done"], &grown["value_bytes"]),
        (&true.into(), &2000.into())
    );
    let too_long = serde_json::json!({"column": "entry:foo", "value_bytes": 2000, "key_is_cut": false});
    for _ in 0..2 {
        let (lines, code) = server.said(&["get", "a", "b", "none"]);
        assert_eq!((lines.len(), code), (3, 1), "{lines:?}");
        assert_eq!(
            (&lines[1]["key"], &lines[1]["too_long"]),
            (&"b".into(), &too_long)
        );
        assert_eq!(lines[1]["source"], "host", "the fast path never has it");
        let (lines, code) = server.said(&["scan"]);
        let keys: Vec<_> = lines.iter().map(|line| line["key"].as_str().unwrap()).collect();
        assert_eq!((keys.as_slice(), code), (&["a", "b", "c"][..], 1));
        assert_eq!(lines[1]["too_long"], too_long);
    }
    let asked = ["column", "scan", "--server", &server.address.to_string()];
    let output = lineside().args(asked).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(
        said.contains("b: too long for a packet: entry:foo has 2000 bytes"),
        "{said}"
    );
    let why = String::from_utf8(output.stderr).unwrap();
    assert!(why.contains("1 of the rows is too long for a packet"), "{why}");
}

#[test]
fn requests_in_the_papers_format_are_answered() {
    let server = Server::start(&[]).expect("it starts");
    assert_eq!(server.done(&["put", "--paper", "key1", "one"])["done"], true);
    server.done(&["put", "--paper", "k2", "two"]);
    server.done(&["put", "k3", "more than eighteen bytes"]);
    let found = server.done(&["get", "--paper", "key1"]);
    let cells = serde_json::json!({"entry:foo": "one"});
    assert_eq!(
        found,
        serde_json::json!({"key": "key1", "found": true, "cells": cells})
    );
    let (lines, code) = server.said(&["get", "--paper", "k2", "none", "k3"]);
    assert_eq!((lines.len(), code), (3, 1));
    assert_eq!(
        (&lines[1]["found"], &lines[2]["too_long"]["column"]),
        (&false.into(), &"entry:foo".into())
    );
    assert_eq!(
        server.scan(&["--paper", "--start", "k2", "--stop", "k2"]),
        ["k2=two"]
    );
    let (lines, code) = server.said(&["scan", "--paper", "--start", "k2", "--stop", "key1"]);
    assert_eq!(
        (lines.len(), code),
        (1, 1),
        "the scan ends before the first row that the format cannot express"
    );
    let limited = ["scan", "--paper", "--start", "k", "--stop", "z", "--limit", "1"];
    assert_eq!((server.said(&limited).0.len(), server.said(&limited).1), (1, 0));
    let refused: [(&[&str], i32, &str); 4] = [
        (&["put", "--paper", "k4", ""], 1, "the request has no value"),
        (&["put", "--paper", "key12", "v"], 2, "keys of up to 4 bytes"),
        (
            &["get", "--paper", "--column", "entry:long", "k"],
            2,
            "names of up to 9",
        ),
        (&["scan", "--paper", "--start", "k"], 2, "--stop"),
    ];
    for (words, code, said) in refused {
        let output = server.ask(words);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{words:?}: {errors}");
        assert!(errors.contains(said), "{words:?}: {errors}");
    }
}

#[test]
fn rows_survive_a_kill_and_the_fast_path_starts_empty() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("new");
    let mut server = Server::with_data(&data);
    for number in 0..20 {
        server.done(&["put", &format!("row{number:02}"), &format!("value {number}")]);
    }
    server.done(&["delete", "row07"]);
    assert_eq!(server.get("row03").1, "host");
    assert_eq!(server.get("row03").1, "fastpath");
    let rows = server.scan(&[]);
    assert_eq!(rows.len(), 19);
    // The server can also be given by name.
    let named = format!("localhost:{}", server.address.port());
    let get = ["column", "get", "--server", &named, "row01"];
    assert_eq!(lineside().args(get).status().unwrap().code(), Some(0));
    // A server that cannot start leaves no directory.
    let other = folder.path().join("other");
    let taken = server.address.to_string();
    let words = [
        "--listen",
        &taken,
        "--data",
        other.to_str().unwrap(),
        "--datapath",
        "socket",
    ];
    let why = Server::start_at(&words, "").err().expect("the port is taken");
    assert!(why.contains("column cannot listen on"), "{why}");
    assert!(!other.exists(), "the failed start has removed the directory");
    let second = Server::start(&["--data", data.to_str().unwrap()])
        .err()
        .expect("two at once");
    assert!(
        second.contains("opening") && second.ends_with("exit code Some(1)"),
        "{second}"
    );
    assert_eq!(server.signal(libc::SIGKILL), None);
    let dead = server.ask(&["get", "--timeout-ms", "200", "row03"]);
    assert_eq!(dead.status.code(), Some(1));

    let mut server = Server::with_data(&data);
    assert_eq!(server.get("row03"), held("value 3", "host"));
    assert_eq!(server.get("row07").0, None);
    assert_eq!(server.scan(&[]), rows);
    assert_eq!(server.signal(libc::SIGTERM), Some(0));
}

#[test]
fn after_a_failed_write_to_the_disk_writes_are_refused_until_a_restart_and_health_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::with_data(&folder.path().join("data"));
    server.done(&["put", "a", "1"]);
    assert!(server.health().starts_with("HTTP/1.0 200"), "{}", server.health());
    server.files_are_full(true);
    let refused = |what: &str, said: &str| {
        let output = server.ask(&["put", "--timeout-ms", "500", what, "2"]);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{errors}");
        assert!(errors.contains(said), "{errors}");
    };
    refused("a", "the change may or may not have been executed");
    // The disk accepts writes again, but the server makes none, because the content of the journal is unknown now.
    server.files_are_full(false);
    for key in ["a", "b"] {
        refused(key, "writing has ended after an error");
    }
    let health = server.health();
    assert!(health.starts_with("HTTP/1.0 503"), "{health}");
    assert!(
        health.contains("column: the table takes no changes until the next start"),
        "{health}"
    );
    // Rows that existed before can still be read, also from the fast path.
    assert_eq!(server.get("a").0.as_deref(), Some("1"));
    assert_eq!(server.get("a"), held("1", "fastpath"));
    assert_eq!(server.get("b").0, None);
    server.signal(libc::SIGTERM);

    let server = Server::with_data(&folder.path().join("data"));
    assert!(server.health().starts_with("HTTP/1.0 200"), "{}", server.health());
    server.done(&["put", "a", "3"]);
    assert_eq!(server.get("a"), held("3", "host"));
    assert_eq!(server.get("b").0, None);
}

#[test]
fn an_xdp_fast_path_answers_after_a_kill_until_its_lease_ends_and_a_new_server_empties_it() {
    alone(|| {
        let Some(bpf) = Bpf::new("column") else { return };
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let data = data.to_str().unwrap();
        // The lease is long enough for all requests even on a slow machine.
        let file = folder.path().join("a.toml");
        std::fs::write(&file, "[column]\nlease_ms = 30000\n").unwrap();
        let common = [
            "--pin-dir",
            bpf.path(),
            "--data",
            data,
            "--config",
            file.to_str().unwrap(),
        ];
        let on_line = [&["--datapath", "xdp"], &common[..]].concat();
        let mut server = match Server::start_at(&on_line, "xdp datapath, generic on lo") {
            Err(why) if why.contains("BPF is not allowed") => return skipped(why),
            started => started.expect("it starts"),
        };
        server.done(&["put", "a", "1"]);
        assert_eq!(server.get("a"), held("1", "host"));
        assert_eq!(server.get("a"), held("1", "fastpath"));
        assert_eq!(server.status()["counters"]["xdp"]["hits"], 1);
        server.done(&["put", "a", "2"]);
        assert_eq!(server.get("a"), held("2", "host"));
        assert_eq!(server.get("a"), held("2", "fastpath"));

        assert_eq!(server.signal(libc::SIGKILL), None);
        assert_eq!(
            server.get("a"),
            held("2", "fastpath"),
            "no process can change the row meanwhile"
        );
        // A server on the socket datapath would change rows that the pinned XDP fast path keeps answering.
        let socket = [&["--datapath", "socket"], &common[..]].concat();
        let why = Server::start_at(&socket, "")
            .err()
            .expect("the fast path is still there");
        assert!(why.contains("lineside xdp detach lo"), "{why}");

        let mut server = Server::start_at(&on_line, "xdp datapath").expect("it starts again");
        assert_eq!(server.get("a"), held("2", "host"), "the fast path is empty");
        assert_eq!(server.get("a"), held("2", "fastpath"));
        assert_eq!(server.signal(libc::SIGTERM), Some(0));

        // While the server is stopped, the fast path answers until its lease expires. It answers again after the server
        // continues.
        std::fs::write(&file, "[column]\nlease_ms = 500\n").unwrap();
        let mut server = Server::start_at(&on_line, "xdp datapath").expect("it starts");
        assert_eq!(server.get("a"), held("2", "host"));
        // SAFETY: the process is a child that was not waited for yet, so its id still names it.
        unsafe { libc::kill(server.child.id() as i32, libc::SIGSTOP) };
        let stopped = Instant::now();
        while server.said(&["get", "--timeout-ms", "100", "a"]).1 == 0 {
            assert!(
                stopped.elapsed() < Duration::from_secs(30),
                "the fast path outlived its lease"
            );
        }
        // SAFETY: the process is a child that was not waited for yet, so its id still names it.
        unsafe { libc::kill(server.child.id() as i32, libc::SIGCONT) };
        assert_eq!(server.get("a").0.as_deref(), Some("2"));
        assert_eq!(server.signal(libc::SIGTERM), Some(0));
        let left = lineside()
            .args(["xdp", "status", "--pin-dir", bpf.path()])
            .output()
            .unwrap();
        let left = String::from_utf8(left.stdout).unwrap();
        assert!(left.starts_with("nothing is pinned"), "{left}");
    });
}

#[test]
fn run_serves_column_and_transfer_in_one_process() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.toml");
    let text = "[console]\nlisten = \"127.0.0.1:0\"\n[datapath]\nkind = \"socket\"\n\
                pin_dir = \"/sys/fs/bpf/lineside-test-column\"\n\
                [transfer]\nenabled = true\nlisten = \"127.0.0.1:0\"\naccount_bits = 10\ndata = \"LEDGER\"\n\
                [spv]\nenabled = false\n[column]\nenabled = true\nlisten = \"127.0.0.1:0\"\n";
    let ledger = folder.path().join("ledger");
    std::fs::write(&file, text.replace("LEDGER", ledger.to_str().unwrap())).unwrap();
    let run = ["--json", "run", "--once", "--config", file.to_str().unwrap()];
    let output = lineside().args(run).output().unwrap();
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    let names = said["services"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap());
    assert_eq!(names.collect::<Vec<_>>(), ["transfer", "column"]);
}

#[test]
fn wrong_arguments_are_refused_with_a_message_that_names_them() {
    let cases: [(&[&str], &str); 10] = [
        (&["get"], "<KEYS>"),
        (&["get", ""], "at least 1 byte"),
        (&["get", "\\xg0"], "two hex digits"),
        (&["get", "--column", "foo", "a"], "family:qualifier"),
        (&["put", "a"], "<VALUE>"),
        (&["increment", "a", "much"], "invalid digit"),
        (&["scan", "--limit", "0"], "1.."),
        (&["scan", "--stop-inclusive"], "--stop <KEY>"),
        (&["serve", "--store", "hbase"], "thrift2://host:port/table"),
        (
            &["serve", "--coherence", "hope"],
            "possible values: none, ttl, coprocessor",
        ),
    ];
    for (words, said) in cases {
        let output = lineside().arg("column").args(words).output().unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}: {errors}");
        assert!(errors.contains(said), "{words:?}: {errors}");
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bad.toml");
    std::fs::write(&file, "[column]\nlease_ms = 5\n").unwrap();
    let file = file.to_str().unwrap();
    let refused: [(&[&str], &str); 7] = [
        (&["--coherence", "ttl"], "--coherence is for a table in HBase"),
        (&["--config", file], "bad.toml:2: [column] lease_ms = 5"),
        (&["--column", "foo"], "[column] columns = "),
        (&["--row-bits", "40"], "[column] row_bits = n must be b to 21"),
        (&["--store", "embedded"], "needs `data`"),
        (
            &["--store", "memory", "--data", "/nowhere"],
            "use it with --store embedded only",
        ),
        (
            &["--keep-fast-path"],
            "the fast path of column always ends with its server",
        ),
    ];
    for (words, said) in refused {
        let why = Server::start(words).err().expect("refused");
        assert!(why.contains(said), "{words:?}: {why}");
        let code = if [
            "[column]",
            "[datapath]",
            "--keep-fast-path",
            "with --store embedded",
            "--coherence is",
        ]
        .iter()
        .any(|wrong| why.contains(wrong))
        {
            2
        } else {
            1
        };
        assert!(
            why.ends_with(&format!("exit code Some({code})")),
            "{words:?}: {why}"
        );
    }
}

/// Damages the last change in the journal, which then looks like one that was never acknowledged.
#[test]
fn a_damaged_table_is_refused_until_repair_has_listed_the_lost_records() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut server = Server::with_data(&data);
    server.done(&["put", "a", "first"]);
    server.done(&["put", "b", "second"]);
    assert_eq!(server.signal(libc::SIGKILL), None);
    let journal = data.join("00000000000000000001.log");
    let sound = std::fs::read(&journal).unwrap();
    let mut bytes = sound.clone();
    let at = bytes.windows(6).rposition(|word| word == b"second").unwrap();
    bytes[at] ^= 1;
    std::fs::write(&journal, &bytes).unwrap();

    let words = ["--data", data.to_str().unwrap()];
    let why = Server::start(&words).err().expect("the table is damaged");
    assert!(
        why.contains("the table's journal is damaged: 00000000000000000001.log at byte")
            && why.contains("record 2 was acknowledged")
            && why.ends_with("exit code Some(2)"),
        "{why}"
    );
    // The failed start has not cut the journal, so restoring the damaged bytes makes the table usable again.
    std::fs::write(&journal, &sound).unwrap();
    let mut server = Server::with_data(&data);
    assert_eq!(server.get("b"), held("second", "host"));
    assert_eq!(server.signal(libc::SIGKILL), None);

    std::fs::write(&journal, &bytes).unwrap();
    let repaired = lineside()
        .args(["--json", "column", "repair"])
        .arg(&data)
        .output()
        .unwrap();
    let said: Value = serde_json::from_slice(&repaired.stdout).unwrap();
    assert_eq!(said["lost"], serde_json::json!({"from": 2, "to": 2}), "{said}");
    let server = Server::with_data(&data);
    assert_eq!(server.get("a"), held("first", "host"));
    assert_eq!(server.get("b").0, None);
}

//! The log of a server: its formats, its levels, and one line for each event that operators need to find.

use lineside_client::transfer::Client;
use lineside_transfer::paper::PaperRequest;
use lineside_wire::{TRANSFER_COMMAND_CREATE as CREATE, TransferCode as Code};
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A server of `transfer` whose standard error goes to a file.
struct Logged {
    child: Child,
    console: String,
    listen: String,
    file: std::path::PathBuf,
}

impl Logged {
    fn start(folder: &Path, options: &[&str], environment: &[(&str, &str)]) -> Self {
        let file = folder.join("log");
        let mut command = Command::new(env!("CARGO_BIN_EXE_lineside"));
        command
            .args([
                "--json",
                "run",
                "--datapath",
                "socket",
                "--console",
                "127.0.0.1:0",
            ])
            .args([
                "--set",
                "transfer.enabled=true",
                "--set",
                "transfer.listen=127.0.0.1:0",
                "--set",
            ])
            .arg(format!("transfer.data={}", folder.join("ledger").display()))
            .args(options)
            .env_remove("RUST_LOG")
            .envs(environment.iter().copied())
            .stdout(Stdio::piped())
            .stderr(File::create(&file).expect("create"));
        let mut child = command.spawn().expect("run");
        let mut line = String::new();
        let mut lines = BufReader::new(child.stdout.take().expect("piped"));
        lines.read_line(&mut line).expect("announced");
        let started: Value = serde_json::from_str(&line).expect("JSON");
        let text = |key: &str| started[key].as_str().expect(key).to_owned();
        let console = text("console").replace("http://", "");
        Self {
            child,
            console,
            listen: text("listen"),
            file,
        }
    }

    /// Ends the server by SIGTERM, and returns its log.
    fn end(mut self) -> String {
        // SAFETY: the process is a child that was not waited for yet, so its id still names it.
        unsafe { libc::kill(self.child.id() as i32, libc::SIGTERM) };
        assert!(self.child.wait().expect("ends").success());
        std::fs::read_to_string(&self.file).expect("read")
    }

    fn client(&self, arguments: &[&str]) {
        let output = Command::new(env!("CARGO_BIN_EXE_lineside"))
            .arg("transfer")
            .args(arguments)
            .args(["--server", &self.listen])
            .output()
            .expect("run");
        assert!(output.status.success(), "{output:?}");
    }
}

#[test]
fn a_line_of_text_has_time_level_target_and_fields() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Logged::start(folder.path(), &[], &[]);
    let log = server.end();
    let lines: Vec<&str> = log.lines().collect();
    for said in [
        // This line is a warning about the configuration.
        " WARN lineside::session: signatures are not required",
        "started version=",
        "services=\"transfer on 127.0.0.1:",
        "the ledger was recovered",
        "stopped",
    ] {
        assert!(
            lines.iter().any(|line| line.contains(said)),
            "{said} is not in:\n{log}"
        );
    }
    let starts = lines
        .iter()
        .filter(|line| line.contains("lineside::session: start"));
    assert_eq!(starts.count(), 1, "one line for the start:\n{log}");
    for line in lines {
        // Example of a line: 2026-11-26T04:30:36.123456Z  INFO lineside::session: started version="0.1.0" …
        let mut words = line.split_whitespace();
        let time = words.next().expect("a time");
        let digits = time.replace(|c: char| c.is_ascii_digit(), "0");
        assert_eq!(digits, "0000-00-00T00:00:00.000000Z", "{line}");
        assert!(
            ["INFO", "WARN"].contains(&words.next().unwrap_or_default()),
            "{line}"
        );
        assert!(
            words
                .next()
                .is_some_and(|target| target.starts_with("lineside") && target.ends_with(':'))
        );
    }
}

#[test]
fn every_line_of_json_is_an_object() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Logged::start(
        folder.path(),
        &["--log-format", "json", "--set", "transfer.block_operations=1"],
        &[],
    );
    for account in ["1", "2"] {
        server.client(&["create", account]);
    }
    let log = server.end();
    let lines: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    for line in &lines {
        assert!(
            line["timestamp"].as_str().is_some_and(|time| time.ends_with('Z')),
            "{line}"
        );
        assert!(
            ["WARN", "INFO"].contains(&line["level"].as_str().unwrap_or_default()),
            "{line}"
        );
        assert!(
            line["target"]
                .as_str()
                .is_some_and(|target| target.starts_with("lineside")),
            "{line}"
        );
        assert!(line["fields"]["message"].is_string(), "{line}");
        assert_eq!(line.as_object().map(|object| object.len()), Some(4), "{line}");
    }
    let of = |message: &str| lines.iter().find(|line| line["fields"]["message"] == message);
    let started = of("started").unwrap_or_else(|| panic!("{log}"));
    let services = started["fields"]["services"].as_str().expect("text");
    assert!(services.starts_with("transfer on 127.0.0.1:"), "{started}");
    let sealed = of("transfer: sealed a block").unwrap_or_else(|| panic!("{log}"));
    assert_eq!(sealed["fields"]["block"], 1);
    let recovered = of("transfer: the ledger was recovered").unwrap_or_else(|| panic!("{log}"));
    assert_eq!(recovered["fields"]["accounts"], 0);
    // The warning that signatures are not required is also an event of the log.
    assert!(lines.iter().any(|line| line["level"] == "WARN"), "{log}");
}

/// A ledger under load seals many blocks in a second. The log has at most one line in each second, and counts the
/// others.
#[test]
fn sealed_blocks_do_not_flood_the_log() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = ["--log-format", "json", "--set", "transfer.block_operations=1"];
    let begun = Instant::now();
    let server = Logged::start(folder.path(), &options, &[]);
    let file = server.file.clone();
    let sealed = || -> Vec<(u64, u64)> {
        let log = std::fs::read_to_string(&file).expect("read");
        let lines = log
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines
            .filter(|line| line["fields"]["message"] == "transfer: sealed a block")
            .map(|line| {
                let number = |name: &str| line["fields"][name].as_u64().expect("a number");
                (number("block"), number("blocks_not_logged"))
            })
            .collect()
    };
    let listen = server.listen.parse().expect("an address");
    let mut client = Client::connect(listen, Duration::from_secs(10)).expect("a client");
    // Each account makes a block. The loop ends with the first line that reports blocks without a line.
    for account in 1..100_000 {
        let answer = client.paper(&PaperRequest::new(CREATE, 1, account, 0, 0));
        assert_eq!(answer.expect("an answer").code, Code::Done);
        if sealed().iter().any(|(_, left_out)| *left_out > 0) {
            break;
        }
    }
    let lines = sealed();
    let (last, left_out) = *lines.last().expect("a line");
    assert!(left_out > 0, "{lines:?}");
    let all: u64 = lines.iter().map(|(_, left_out)| 1 + left_out).sum();
    assert_eq!(all, last, "every block is in a line or counted: {lines:?}");
    assert!(
        lines.len() as u64 <= begun.elapsed().as_secs() + 1,
        "more than one line in a second: {lines:?}"
    );
    server.end();
}

#[test]
fn the_level_comes_from_the_option_then_from_the_variable() {
    let levels = |options: &[&str], environment: &[(&str, &str)]| {
        let folder = tempfile::tempdir().expect("a folder");
        let options = [&["--log-format", "json"], options].concat();
        let log = Logged::start(folder.path(), &options, environment).end();
        let mut levels: Vec<String> = log
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .filter_map(|line| line["level"].as_str().map(str::to_owned))
            .collect();
        levels.sort();
        levels.dedup();
        levels
    };
    assert_eq!(levels(&[], &[]), ["INFO", "WARN"]);
    assert_eq!(levels(&["--log-level", "error"], &[]), [""; 0]);
    assert_eq!(
        levels(&["--log-level", "warn"], &[("RUST_LOG", "info")]),
        ["WARN"]
    );
    assert_eq!(levels(&[], &[("RUST_LOG", "warn")]), ["WARN"]);
    assert_eq!(levels(&[], &[("RUST_LOG", "lineside_transfer=info")]), ["INFO"]);
}

/// Warnings at the start are part of the log: they have its format, and the level of the log applies to them.
#[test]
fn a_level_above_warnings_leaves_out_those_of_the_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = Logged::start(folder.path(), &["--log-level", "error"], &[]).end();
    assert_eq!(log, "");
}

/// A client command prints only its result.
#[test]
fn a_client_has_no_lines_of_normal_operation() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Logged::start(folder.path(), &[], &[]);
    let output = Command::new(env!("CARGO_BIN_EXE_lineside"))
        .args(["status", "--console", &server.console])
        .env_remove("RUST_LOG")
        .output()
        .expect("run");
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    server.end();
}

#[test]
fn the_console_of_a_server_has_its_build_and_its_process() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Logged::start(folder.path(), &[], &[]);
    let page = |path: &str| {
        let mut stream = TcpStream::connect(&server.console).expect("connects");
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("answered");
        answer.split_once("\r\n\r\n").expect("HTTP").1.to_owned()
    };
    let version: Value = serde_json::from_str(&page("/version")).expect("JSON");
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
    assert!(version["features"].is_array() && version["commit"].is_string());
    let value_in = |metrics: &str, series: &str| -> f64 {
        let line = metrics.lines().find(|line| line.starts_with(series));
        let value = line.and_then(|line| line.rsplit_once(' '));
        value
            .unwrap_or_else(|| panic!("no {series}: {metrics}"))
            .1
            .parse()
            .expect("a number")
    };
    // A fresh server has every histogram, so that a rate over it begins with its first request.
    let histograms = |metrics: &str| {
        let names = metrics.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        let names = names.filter_map(|line| line.strip_suffix(" histogram"));
        names.map(str::to_owned).collect::<Vec<_>>()
    };
    let fresh = histograms(&page("/metrics"));
    assert!(
        fresh.contains(&"lineside_host_batch_requests".to_owned()),
        "{fresh:?}"
    );
    server.client(&["create", "1"]);
    assert_eq!(histograms(&page("/metrics")), fresh);
    // The host counts a batch before it has answered it, so the two series differ for a moment.
    let of_service = "{service=\"transfer\"}";
    let answered = format!("lineside_host_latency_seconds_count{of_service}");
    let batched = format!("lineside_host_batch_requests_sum{of_service}");
    let deadline = Instant::now() + Duration::from_secs(10);
    let metrics = loop {
        let metrics = page("/metrics");
        if value_in(&metrics, &answered) == value_in(&metrics, &batched) || Instant::now() > deadline {
            break metrics;
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let value = |series: &str| value_in(&metrics, series);
    assert_eq!(value("lineside_build_info{"), 1.0);
    assert!(value("process_resident_memory_bytes ") > 1e6);
    assert!(value("process_open_fds ") > 5.0 && value("process_max_fds ") > 5.0);
    assert!(value("process_start_time_seconds ") > 1.7e9);
    // The request was passed to the host, which made it durable.
    assert!(value(&answered) >= 1.0);
    assert_eq!(value(&batched), value(&answered));
    assert!(value(&format!("lineside_fdatasync_seconds_count{of_service}")) >= 1.0);
    assert_eq!(
        value(&format!("lineside_durability_lag_seconds{of_service}")),
        0.0
    );
    assert_eq!(
        value("lineside_requests_total{service=\"transfer\",datapath=\"socket\",outcome=\"host\"}"),
        value(&answered)
    );
    assert_eq!(
        value("lineside_table_entries{service=\"transfer\",table=\"accounts\"}"),
        1.0
    );
    assert_eq!(
        value("lineside_table_capacity{service=\"transfer\",table=\"accounts\"}"),
        1_048_576.0
    );
    server.end();
}

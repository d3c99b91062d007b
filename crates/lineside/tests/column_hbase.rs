//! `lineside column serve` in front of a real HBase, whose coprocessor reports changes.

use lineside_hbase_mini::{Error, Jars, Options};
use lineside_testkit::free_port;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Running server; killed when dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn lineside(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_lineside"))
        .args(arguments)
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Repeats a command until its output contains all of `words`; returns the output.
fn until_said(arguments: &[&str], words: &[&str]) -> String {
    let began = Instant::now();
    loop {
        let said = lineside(arguments);
        if words.iter().all(|word| said.contains(word)) {
            return said;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{arguments:?}: {said}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Starts a server in front of `store`. `coherence` has the lines of its configuration section about coherence.
fn serve(folder: &Path, store: &str, listen: u16, console: u16, coherence: &str) -> Server {
    let config = format!(
        "[console]\nlisten = \"127.0.0.1:{console}\"\n[datapath]\nkind = \"socket\"\n[column]\n\
         listen = \"127.0.0.1:{listen}\"\nstore = {store:?}\n{coherence}"
    );
    let path = folder.join(format!("{listen}.toml"));
    std::fs::write(&path, config).unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_lineside"))
        .args(["column", "serve", "--config"])
        .arg(path)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    Server(child)
}

#[test]
fn the_next_read_returns_what_another_client_wrote_into_hbase() {
    let jars = match Jars::build() {
        Err(error @ Error::NotHere(_)) => {
            eprintln!("skipped: {error}");
            return;
        }
        jars => jars.unwrap(),
    };
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    std::fs::write(&key, "5a".repeat(32)).unwrap();
    std::fs::set_permissions(&key, PermissionsExt::from_mode(0o600)).unwrap();
    let [listen, console, notify, server] = [0; 4].map(|_| free_port());
    let observer = "lineside.observer.Observer";
    let settings = [
        ("hbase.coprocessor.user.region.classes", observer.to_owned()),
        ("hbase.coprocessor.regionserver.classes", observer.to_owned()),
        ("lineside.subscribers", format!("127.0.0.1:{notify}")),
        ("lineside.listen", format!("127.0.0.1:{server}")),
        ("lineside.key.file", key.display().to_string()),
    ];
    let options = Options {
        settings: settings.map(|(name, value)| (name.to_owned(), value)).to_vec(),
        modules: vec!["observer"],
        ..Options::default()
    };
    let mut hbase = jars.start(&options).unwrap();
    hbase.command("create rows entry").unwrap();
    let store = format!("hbase://127.0.0.1:{}/rows", hbase.ports.regionserver);
    let told = format!(
        "coherence = \"coprocessor\"\nnotify_listen = \"127.0.0.1:{notify}\"\nservers = [\"127.0.0.1:{server}\"]\n\
         notify_key_file = {key:?}\n"
    );
    let _server = serve(folder.path(), &store, listen, console, &told);
    let at = format!("127.0.0.1:{listen}");
    let get = ["column", "get", "--server", &at, "alice"];
    for value in ["one", "two", "three"] {
        hbase.command(&format!("put rows {value} alice")).unwrap();
        // Reads the row before the fast path caches it, and again afterwards.
        let said = until_said(&get, &[value]);
        assert!(!said.contains("stale"), "{said}");
        until_said(&get, &[value, "from fastpath"]);
    }
    hbase.command("delete-row rows alice").unwrap();
    assert!(!lineside(&get).contains("three"));
    let console = format!("127.0.0.1:{console}");
    let status = lineside(&["status", "--json", "--console", &console]);
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    let host = &status["services"][0]["host"];
    assert_eq!(
        (&host["leased_servers"], &host["strangers"]),
        (&1.into(), &0.into()),
        "{status}"
    );
    // With the fast path off, the host gives the same answers.
    hbase.command("put rows four alice").unwrap();
    until_said(&get, &["four", "from fastpath"]);
    lineside(&["column", "switch", "--server", &at, "off"]);
    for _ in 0..3 {
        assert!(lineside(&get).contains("four (from host)"));
    }
    for store in [store, format!("thrift2://127.0.0.1:{}/rows", hbase.ports.thrift)] {
        keeps_what_may_be_stale(folder.path(), &store);
    }
}

/// With coherence = "ttl", the fast path caches rows for a time, and replies say that they may be stale.
fn keeps_what_may_be_stale(folder: &Path, store: &str) {
    let [listen, console] = [0; 2].map(|_| free_port());
    let ttl = "coherence = \"ttl\"\nttl_ms = 600000\n";
    let _server = serve(folder, store, listen, console, ttl);
    let get = [
        "column",
        "get",
        "--server",
        &format!("127.0.0.1:{listen}"),
        "alice",
    ];
    until_said(&get, &["four", "from fastpath", "stale"]);
}

/// The server starts before HBase does: it reports the reason, and refuses requests.
#[test]
fn a_server_starts_without_hbase_and_reports_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let [listen, console] = [0; 2].map(|_| free_port());
    let address = format!("127.0.0.1:{console}");
    let _server = serve(
        folder.path(),
        "hbase://127.0.0.1:9/t",
        listen,
        console,
        "coherence = \"none\"\n",
    );
    let reason = "the table of HBase could not be opened since the start";
    until_said(&["status", "--console", &address], &[reason, "127.0.0.1:9"]);
    let mut stream = TcpStream::connect(&address).unwrap();
    write!(
        stream,
        "GET /healthz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 503 ") && answer.contains(reason),
        "{answer}"
    );
    let output = Command::new(env!("CARGO_BIN_EXE_lineside"))
        .args(["column", "get", "--server", &format!("127.0.0.1:{listen}"), "row"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
}

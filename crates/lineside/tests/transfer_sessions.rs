//! Sessions of the client commands: one session for a single command, and one in a file that several commands use.

mod transfer_server;

use lineside_transfer::AccountId;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use transfer_server::{Server, lineside, text};

const SESSIONS: &str = "lineside_transfer_sessions";

fn session(server: &Server, verb: &str, file: &Path) -> Output {
    let address = server.address.to_string();
    let mut command = lineside();
    command.args(["transfer", "session", verb, "--server", &address]);
    command.arg(file).output().unwrap()
}

#[test]
fn refused_commands_leave_no_session() {
    let data = TempDir::new().unwrap();
    let more = ["--datapath", "socket", "--require-signature"];
    let server = Server::start_with(data.path(), "127.0.0.1:0", &more).unwrap();
    let batch = data.path().join("batch");
    // The test makes one round more than the number of sessions that an address may open.
    for round in 0..65 {
        let refused = server.ask(&["transfer", "1", "2", "30"]);
        assert!(text(&refused).contains("has not signed it"), "{}", text(&refused));
        // An empty file is refused before a session is opened, and one of two packets after that.
        let (lines, reason) = [(0, "no operations"), (17, "has not signed it")][round % 2];
        std::fs::write(&batch, "freeze 1\n".repeat(lines)).unwrap();
        let refused = server.ask(&["batch", batch.to_str().unwrap()]);
        assert!(text(&refused).contains(reason), "{}", text(&refused));
    }
    assert_eq!(server.metric(SESSIONS), 0);
    // A client that never closes its sessions is refused, and the refusal names the reason.
    let mut client = server.client();
    let open: Vec<_> = (0..64).map(|_| client.open().unwrap()).collect();
    let refused = server.ask(&["freeze", "1"]);
    assert!(text(&refused).contains("limit of sessions"), "{}", text(&refused));
    client.close(&open[7]).unwrap();
    assert_eq!(server.metric(SESSIONS), 63);
}

#[test]
fn concurrent_commands_use_one_session_in_turn() {
    const COMMANDS: u64 = 24;
    let data = TempDir::new().unwrap();
    let mut server = Server::start(data.path(), "127.0.0.1:0").unwrap();
    let done = |output: &Output| assert!(output.status.success(), "{}", text(output));
    done(&server.ask(&["create", "1", "1000"]));
    done(&server.ask(&["create", "2"]));
    // The directory has two session files.
    let files = [data.path().join("a.session"), data.path().join("a.other")];
    for file in &files {
        done(&session(&server, "open", file));
    }
    let outputs: Vec<Output> = std::thread::scope(|scope| {
        let transfer = |at: u64| {
            let file = files[at as usize % 2].to_str().unwrap();
            server.ask(&["transfer", "--session", file, "1", "2", "1", "--json"])
        };
        let commands: Vec<_> = (0..COMMANDS)
            .map(|at| scope.spawn(move || transfer(at)))
            .collect();
        commands
            .into_iter()
            .map(|command| command.join().unwrap())
            .collect()
    });
    let mut numbers: Vec<String> = outputs.iter().map(text).collect();
    outputs.iter().for_each(done);
    numbers.sort();
    numbers.dedup();
    assert_eq!(
        numbers.len() as u64,
        COMMANDS,
        "each command prints the outcome of its own operation"
    );
    let balances = server.client().refer(&[AccountId::from_paper(2)]).unwrap();
    assert_eq!(balances[0].unwrap().balance, COMMANDS);

    // A packet that has no reply yet must be repeated first, and the error names it.
    let address = server.address.to_string();
    drop(server);
    let ask = |words: &[&str]| {
        let mut command = lineside();
        command.arg("transfer").args(words).args(["--server", &address]);
        command.arg("--session").arg(&files[0]);
        text(&command.output().unwrap())
    };
    let said = ask(&["transfer", "1", "2", "7", "--timeout-ms", "100"]);
    assert!(
        said.contains("no answer from") || said.contains("refused"),
        "{said}"
    );
    server = Server::start(data.path(), &address).unwrap();
    let said = ask(&["transfer", "1", "2", "8"]);
    assert!(said.contains("`transfer 1 2 7` was sent"), "{said}");
    let said = ask(&["transfer", "1", "2", "7"]);
    assert!(
        said.contains(&format!("balance {}", 1000 - COMMANDS - 7)),
        "{said}"
    );

    // The session was closed, but the reply was lost. The next `close` removes the file.
    let kept = std::fs::read(&files[0]).unwrap();
    done(&session(&server, "close", &files[0]));
    std::fs::write(&files[0], kept).unwrap();
    done(&session(&server, "close", &files[0]));
    done(&session(&server, "close", &files[1]));
    // A missing session file leaves no other files, and neither does a session that cannot be opened.
    assert!(!session(&server, "show", &files[0]).status.success());
    let nobody = lineside()
        .args([
            "transfer",
            "session",
            "open",
            "--server",
            "127.0.0.1:1",
            "--timeout-ms",
            "50",
        ])
        .arg(&files[0])
        .output();
    assert!(!nobody.unwrap().status.success());
    assert_eq!(server.metric(SESSIONS), 0);
    let left = |name: &std::ffi::OsStr| name.to_str().unwrap().starts_with("a.");
    let mut names = std::fs::read_dir(data.path()).unwrap();
    assert!(
        !names.any(|entry| left(&entry.unwrap().file_name())),
        "the lock files are removed as well"
    );
}

#[test]
fn an_operator_lists_and_closes_sessions_with_and_without_a_running_server() {
    let data = TempDir::new().unwrap();
    let server = Server::start(data.path(), "127.0.0.1:0").unwrap();
    let mut client = server.client();
    let mut open: Vec<_> = (0..3).map(|_| client.open().unwrap()).collect();
    let make = [transfer_server::operation(1, 7, 0, 10)];
    client.execute(&mut open[1], &make).unwrap();
    let address = server.address.to_string();
    let sessions = |words: &[&str]| {
        let mut command = lineside();
        command.args(["transfer", "sessions"]).args(words);
        let output = command.arg("--data").arg(data.path()).output().unwrap();
        (output.status.success(), text(&output))
    };
    let (done, said) = sessions(&["list"]);
    assert!(
        done && said.contains("session 1 of 127.0.0.1: 1 packet,") && said.contains("3 of 4096 sessions"),
        "{said}"
    );
    let (done, said) = sessions(&["close", "1", "--server", &address]);
    assert!(done && said.contains("1 session closed"), "{said}");
    assert_eq!(server.metric(SESSIONS), 2);
    let refused = client.execute(&mut open[1], &make).unwrap_err().to_string();
    assert!(refused.contains("no such session"), "{refused}");
    let (done, said) = sessions(&["close", "1", "--server", &address]);
    assert!(!done && said.contains("there is no session 1"), "{said}");
    let (done, said) = sessions(&["close", "--idle-days", "7", "--server", &address]);
    assert!(done && said.contains("0 sessions closed"), "{said}");
    let (done, said) = sessions(&["close"]);
    assert!(!done && said.contains("no sessions selected"), "{said}");
    drop(server);

    let (done, said) = sessions(&["close", "--address", "127.0.0.1", "--json"]);
    assert!(done && said.contains(r#"{"closed":[0,2]}"#), "{said}");
    let (done, said) = sessions(&["list", "--json"]);
    assert!(done && said.trim().is_empty(), "{said}");
    let server = Server::start(data.path(), "127.0.0.1:0").unwrap();
    assert_eq!(server.metric(SESSIONS), 0);
    let refused = server
        .client()
        .execute(&mut open[0], &make)
        .unwrap_err()
        .to_string();
    assert!(refused.contains("no such session"), "{refused}");
}

/// Relay between one command at a time and the server. Drops the replies to packets of operations while `drops` is set.
struct Relay {
    address: SocketAddr,
    drops: Arc<AtomicBool>,
    ends: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Relay {
    fn start(server: SocketAddr) -> Self {
        let local = || UdpSocket::bind("127.0.0.1:0").unwrap();
        let (below, above) = (local(), local());
        above.connect(server).unwrap();
        for socket in [&below, &above] {
            socket.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
        }
        let (drops, ends) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicBool::new(false)));
        let address = below.local_addr().unwrap();
        let (is_dropping, is_ended) = (Arc::clone(&drops), Arc::clone(&ends));
        let thread = std::thread::spawn(move || {
            let (mut client, mut datagram) = (None, [0; 2048]);
            while !is_ended.load(Ordering::Relaxed) {
                if let Ok((bytes, from)) = below.recv_from(&mut datagram) {
                    client = Some(from);
                    _ = above.send(&datagram[..bytes]);
                }
                while let (Ok(bytes), Some(client)) = (above.recv(&mut datagram), client) {
                    let is_outcome = matches!(datagram[3], 0x81 | 0x86);
                    if !(is_outcome && is_dropping.load(Ordering::Relaxed)) {
                        _ = below.send_to(&datagram[..bytes], client);
                    }
                }
            }
        });
        Self {
            address,
            drops,
            ends,
            thread: Some(thread),
        }
    }

    fn ask(&self, words: &[&str]) -> String {
        let mut command = lineside();
        command.arg("transfer").args(words);
        command.args(["--server", &self.address.to_string(), "--timeout-ms", "400"]);
        text(&command.output().unwrap())
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        _ = self.thread.take().map(std::thread::JoinHandle::join);
    }
}

#[test]
fn the_advice_of_a_command_without_a_reply_does_not_pay_twice() {
    let data = TempDir::new().unwrap();
    let server = Server::start_with(data.path(), "127.0.0.1:0", &["--datapath", "socket"]).unwrap();
    assert!(server.ask(&["create", "1", "100"]).status.success());
    assert!(server.ask(&["create", "2"]).status.success());
    let balance = || {
        let balances = server.client().refer(&[AccountId::from_paper(2)]).unwrap();
        balances[0].unwrap().balance
    };
    let relay = Relay::start(server.address);
    let said = relay.ask(&["transfer", "1", "2", "30"]);
    assert!(said.contains("is unknown; repeat this command with"), "{said}");
    assert_eq!(
        balance(),
        30,
        "the server has executed the packet, and its reply was lost"
    );
    let key = said.split("--idempotency-key ").nth(1).unwrap();
    let key = &key[..32];
    relay.drops.store(false, Ordering::Relaxed);
    let said = relay.ask(&["transfer", "1", "2", "30", "--idempotency-key", key]);
    assert!(said.contains("done: balance 70"), "{said}");
    assert_eq!(balance(), 30, "the advice paid twice");

    // A batch without keys and without a session file must not be sent again.
    let file = data.path().join("payments");
    let file = file.to_str().unwrap();
    std::fs::write(file, "# payments\ntransfer 1 2 1\ntransfer 1 2 2\n").unwrap();
    relay.drops.store(true, Ordering::Relaxed);
    let said = relay.ask(&["batch", file]);
    assert!(said.contains("do not send the lines 2 to 3 again"), "{said}");
    assert_eq!(balance(), 33);

    // A session file keeps the packet: another command is refused, and the same command is executed once.
    let kept = data.path().join("kept.session");
    let kept = kept.to_str().unwrap();
    relay.drops.store(false, Ordering::Relaxed);
    assert!(session(&server, "open", Path::new(kept)).status.success());
    relay.drops.store(true, Ordering::Relaxed);
    let said = relay.ask(&["transfer", "1", "2", "4", "--session", kept]);
    assert!(said.contains("repeat exactly this command"), "{said}");
    let shown = text(&session(&server, "show", Path::new(kept)));
    assert!(shown.contains("transfer 1 2 4"), "{shown}");
    let refused = session(&server, "close", Path::new(kept));
    assert!(
        !refused.status.success() && text(&refused).contains("--force"),
        "{}",
        text(&refused)
    );
    relay.drops.store(false, Ordering::Relaxed);
    let said = relay.ask(&["transfer", "1", "2", "4", "--session", kept]);
    assert!(said.contains("done: balance 63"), "{said}");
    assert_eq!(balance(), 37);
    assert!(session(&server, "close", Path::new(kept)).status.success());
}

//! Rights of servers: capabilities and sandbox of each service, and the permissions of its files.

mod served;

use served::{SERVICES_WITH_DATA, Server, ServiceFiles, lineside, text};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Asserts that no thread of a server without XDP has a capability, and that all threads are in the sandbox.
fn assert_restricted(server: &Server) {
    for (key, expected) in [
        ("CapEff", "0000000000000000"),
        ("CapPrm", "0000000000000000"),
        ("CapInh", "0000000000000000"),
        ("CapAmb", "0000000000000000"),
        ("NoNewPrivs", "1"),
        ("Seccomp", "2"),
    ] {
        let values = server.threads(key);
        assert!(values.len() > 2, "{}: {values:?}", server.service);
        for value in values {
            assert_eq!(value, expected, "{}: {key}", server.service);
        }
    }
}

/// Asserts that group and others have no permissions on `path` and everything below it.
fn assert_closed(path: &Path) {
    let mode = fs::metadata(path).expect("a file").permissions().mode() & 0o777;
    assert_eq!(mode & 0o077, 0, "{}: {mode:03o}", path.display());
    if path.is_dir() {
        for entry in fs::read_dir(path).expect("a folder").flatten() {
            assert_closed(&entry.path());
        }
    }
}

/// Uses each service after it has given up its rights. The sandbox is "strict", so a forbidden system call would end
/// the server with SIGSYS.
#[test]
fn every_service_works_without_privileges_and_its_files_are_closed_to_other_users() {
    let mut place = ServiceFiles::new();
    let chain = place.path("spv");
    let txid = place.make_chain(&chain);
    assert_closed_after(&place, "spv", |server| {
        let got = lineside(&["spv", "get", "--server", &server.address, &txid]);
        assert!(got.status.success(), "{}", text(&got));
    });
    for service in ["transfer", "column", "hybrid"] {
        assert_closed_after(&place, service, |server| {
            (1..4).for_each(|number| server.write(number).expect("a write"));
        });
        // The service starts again with existing data, because recovery makes other system calls.
        assert_closed_after(&place, service, |server| {
            server.write(9).expect("a write after a restart");
        });
    }
    for state in ["memory", "fjall"] {
        place.fabric_state = state;
        for _ in 0..2 {
            assert_closed_after(&place, "fabric", |_| {});
        }
    }
}

/// Serves `service`, does some work, checks the threads, stops the server, and checks the files.
fn assert_closed_after(place: &ServiceFiles, service: &'static str, work: impl FnOnce(&Server)) {
    let data = place.path(service);
    let server = place.serve(service, &data);
    work(&server);
    let status = server.page("/status");
    assert!(status.contains(service), "{status}");
    assert!(server.page("/metrics").starts_with("HTTP/1.1 200"));
    assert_restricted(&server);
    let mut daemon = server.daemon;
    // SAFETY: the process is a child that was not waited for yet, so its id still names it.
    unsafe { libc::kill(daemon.child.id() as i32, libc::SIGTERM) };
    let ended = daemon.child.wait().expect("an end");
    assert!(ended.success(), "{service}: {ended:?}");
    if service != "spv" {
        // `spv import` ran with the umask of its user, but in a directory that is closed to others.
        assert_closed(&data);
    }
    let mode = fs::metadata(&data).expect("the directory").permissions().mode();
    assert_eq!(mode & 0o777, 0o700, "{service}");
}

#[test]
fn a_sandbox_that_is_off_is_reported_and_capabilities_are_still_dropped() {
    let place = ServiceFiles::new();
    let mut command = place.command("transfer", &place.path("data"), "127.0.0.1:0");
    let file = place.path("transfer.toml");
    let config = fs::read_to_string(&file).expect("the configuration");
    fs::write(&file, config.replace("\"strict\"", "\"off\"")).expect("written");
    let daemon = lineside_testkit::Daemon::start(&mut command).expect("it starts");
    let status = fs::read_to_string(format!("/proc/{}/status", daemon.child.id())).expect("status");
    assert!(status.contains("Seccomp:\t0"), "{status}");
    assert!(status.contains("CapEff:\t0000000000000000"), "{status}");
    let said = daemon.signal(libc::SIGTERM);
    assert!(said.contains("[process] sandbox = \"off\""), "{said}");
}

/// Regression test: a server whose working directory its user cannot enter once recursed endlessly when it created its
/// data directory.
#[test]
fn a_working_directory_that_cannot_be_entered_is_an_error() {
    // SAFETY: geteuid only reads the id of the process.
    if unsafe { libc::geteuid() } != 0 {
        return println!("skipped: only root can become another user");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let open = |mode| fs::Permissions::from_mode(mode);
    fs::set_permissions(folder.path(), open(0o755)).expect("opened");
    let program = folder.path().join("lineside");
    fs::copy(env!("CARGO_BIN_EXE_lineside"), &program).expect("copied");
    fs::set_permissions(&program, open(0o755)).expect("opened");
    let closed = folder.path().join("closed");
    fs::create_dir(&closed).expect("made");
    fs::set_permissions(&closed, open(0o700)).expect("closed");
    let output = std::process::Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"])
        .arg(&program)
        .args(["transfer", "serve", "--data", "ledger", "--datapath", "socket"])
        .args(["--listen", "127.0.0.1:0", "--console", "127.0.0.1:0"])
        .current_dir(&closed)
        .output()
        .expect("setpriv runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("Permission denied"), "{stderr}");
}

/// Returns the names of all files below `folder`, sorted.
fn names_below(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        names.push(entry.path().display().to_string());
        if entry.path().is_dir() {
            names.extend(names_below(&entry.path()));
        }
    }
    names.sort();
    names
}

/// Regression test: commands that root ran on a stopped server's directory left files that only root could open, so
/// the next start of the server failed.
#[test]
fn root_changes_no_data_directory_of_another_user() {
    // SAFETY: geteuid only reads the id of the process.
    if unsafe { libc::geteuid() } != 0 {
        return println!("skipped: only root can own files as another user");
    }
    let place = ServiceFiles::new();
    for service in ["transfer", "column"] {
        let data = place.path(service);
        let server = place.serve(service, &data);
        server.write(1).expect("a write");
        drop(server);
        let shown = data.display().to_string();
        // The journal is damaged in both services, so each repair has something to do.
        fs::remove_file(data.join("acknowledged")).expect("removed");
        let owned = std::process::Command::new("chown")
            .args(["-R", "65534", &shown])
            .status();
        assert!(owned.expect("chown").success());
        let before = names_below(&data);
        let mut commands = vec![vec!["journal", "repair", &shown]];
        match service {
            "column" => commands.push(vec!["column", "repair", &shown]),
            _ => commands.push(vec!["transfer", "sessions", "close", "0", "--data", &shown]),
        }
        for command in commands {
            let output = lineside(&command);
            let said = text(&output);
            assert_eq!(output.status.code(), Some(2), "{command:?}: {said}");
            assert!(
                said.contains("run the command as that user"),
                "{command:?}: {said}"
            );
            assert!(said.contains(&shown), "{command:?}: {said}");
        }
        let mut serve = place.command(service, &data, "127.0.0.1:0");
        let output = serve.output().expect("run");
        assert_eq!(output.status.code(), Some(2), "{}", text(&output));
        assert_eq!(names_below(&data), before, "{service}: no file was made");
    }
}

#[test]
fn a_failed_start_leaves_no_files() {
    let place = ServiceFiles::new();
    // All services but column listen on TCP.
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let udp = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    for service in SERVICES_WITH_DATA {
        let taken = match service {
            "column" => udp.local_addr(),
            _ => tcp.local_addr(),
        };
        let taken = taken.expect("an address").to_string();
        let before = fs::read_dir(place.path("")).expect("a folder").count();
        let data = place.path("new/data");
        let mut command = place.command(service, &data, &taken);
        let output = command.output().expect("run");
        assert!(!output.status.success(), "{service}");
        assert!(
            text(&output).contains("cannot listen on"),
            "{service}: {}",
            text(&output)
        );
        // Only the configuration file, which the test wrote, is new.
        let after = fs::read_dir(place.path("")).expect("a folder").count();
        assert_eq!(
            (after, place.path("new").exists()),
            (before + 1, false),
            "{service}"
        );

        let data = place.path("empty");
        fs::create_dir(&data).expect("a directory");
        assert!(!command_over(&place, service, &data, &taken), "{service}");
        let left: Vec<_> = fs::read_dir(&data).expect("it stays").flatten().collect();
        assert!(left.is_empty(), "{service}: {left:?}");
        fs::remove_dir(&data).expect("empty");
    }
    // If the genesis block is missing, no ledger is created.
    let data = place.path("none");
    let mut command = place.command("fabric", &data, "127.0.0.1:0");
    let file = place.path("fabric.toml");
    let config = fs::read_to_string(&file).expect("the configuration");
    let genesis = format!("genesis = {:?}\n", place.path("genesis.pb"));
    assert!(config.contains(&genesis));
    fs::write(&file, config.replace(&genesis, "")).expect("written");
    let output = command.output().expect("run");
    assert!(text(&output).contains("the ledger is empty"), "{}", text(&output));
    assert!(!data.exists());
}

/// The server claims the directories before it looks up the interface, and before another service finds that its files
/// are missing.
#[test]
fn a_start_that_fails_before_the_service_starts_leaves_no_files() {
    let place = ServiceFiles::new();
    for service in ["transfer", "column"] {
        let data = place.path("new");
        let output = place
            .command(service, &data, "127.0.0.1:7702")
            .args(["--datapath", "xdp", "--interface", "no-such-if0"])
            .output()
            .expect("run");
        assert_eq!(output.status.code(), Some(1), "{service}: {}", text(&output));
        assert!(
            text(&output).contains("no-such-if0"),
            "{service}: {}",
            text(&output)
        );
        assert!(!data.exists(), "{service}");
    }
    let data = place.path("ledger");
    let set = format!("transfer.data={}", data.display());
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_lineside"))
        .args([
            "run",
            "--datapath",
            "socket",
            "--set",
            "transfer.enabled=true",
            "--set",
            &set,
        ])
        .args([
            "--set",
            "transfer.listen=127.0.0.1:0",
            "--set",
            "console.listen=127.0.0.1:0",
        ])
        .args([
            "--set",
            "hybrid.enabled=true",
            "--set",
            "hybrid.listen=127.0.0.1:0",
        ])
        .args([
            "--set",
            "hybrid.genesis=no-such-file",
            "--set",
            "hybrid.node_key=no-such-file",
        ])
        .args([
            "--set",
            &format!("hybrid.data={}", place.path("database").display()),
        ])
        .output()
        .expect("run");
    assert!(
        !output.status.success() && text(&output).contains("no-such-file"),
        "{}",
        text(&output)
    );
    assert!(!data.exists() && !place.path("database").exists());
}

/// Runs the command that starts `service` over the directory `data`. Returns true if the service starts.
fn command_over(place: &ServiceFiles, service: &str, data: &Path, listen: &str) -> bool {
    let mut command = place.command(service, data, listen);
    command.output().expect("run").status.success()
}

#[test]
fn a_directory_of_one_service_is_refused_by_all_others() {
    let place = ServiceFiles::new();
    for owner in SERVICES_WITH_DATA {
        let data = place.path(&format!("of-{owner}"));
        drop(place.serve(owner, &data));
        let content = || {
            let names = fs::read_dir(&data).expect("a folder").flatten();
            let mut names: Vec<_> = names.map(|entry| entry.file_name()).collect();
            names.sort();
            names
        };
        let before = content();
        for other in SERVICES_WITH_DATA.into_iter().filter(|other| *other != owner) {
            let mut command = place.command(other, &data, "127.0.0.1:0");
            let output = command.output().expect("run");
            assert!(!output.status.success(), "{other} over {owner}");
            let why = text(&output);
            let said = format!("holds data of the service `{owner}` in format 1");
            assert!(why.contains(&said), "{other} over {owner}: {why}");
            assert_eq!(content(), before, "{other} over {owner}");
        }
        let data = data.display().to_string();
        let verbs: [(&str, &[&str]); 3] = [
            ("transfer", &["transfer", "audit", "--data", &data]),
            ("hybrid", &["hybrid", "audit", "--data", &data]),
            ("fabric", &["fabric", "status", "--data", &data]),
        ];
        for (service, verb) in verbs.into_iter().filter(|(service, _)| *service != owner) {
            let why = text(&lineside(verb));
            let said = format!("holds data of the service `{owner}`");
            assert!(why.contains(&said), "{service} reads {owner}: {why}");
            assert_eq!(content(), before, "{service} reads {owner}");
        }
    }
}

#[test]
fn verbs_that_read_create_no_files() {
    let place = ServiceFiles::new();
    let data = place.path("none").display().to_string();
    for verb in [
        &["transfer", "audit", "--data", &data][..],
        &["hybrid", "audit", "--data", &data],
        &["hybrid", "snapshot", "--data", &data, "--out", &data],
        &["fabric", "status", "--data", &data],
        &["fabric", "verify-ledger", "--data", &data],
        &["fabric", "history", "--data", &data, "chaincode", "key"],
        &["fabric", "snapshot", "--data", &data, &data],
        &["fabric", "verify-peer", "--data", &data, "."],
        &["fabric", "join", "--data", &data, "."],
        &["spv", "locate", "--data", &data, &"0".repeat(64)],
        &["journal", "verify", &data],
        &["journal", "repair", &data],
    ] {
        let output = lineside(verb);
        assert!(!output.status.success(), "{verb:?}");
        assert!(!Path::new(&data).exists(), "{verb:?}: {}", text(&output));
    }
    let empty = place.path("empty");
    fs::create_dir(&empty).expect("a directory");
    let empty = empty.display().to_string();
    let located = lineside(&["spv", "locate", "--data", &empty, &"0".repeat(64)]);
    assert!(
        text(&located).contains("there is no chain store"),
        "{}",
        text(&located)
    );
    assert_eq!(fs::read_dir(&empty).expect("a folder").count(), 0);
}

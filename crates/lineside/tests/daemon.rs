//! `lineside run` in a network namespace with generic XDP on `lo`. The daemon is killed, restarted, started twice, and
//! started without rights.

mod daemons;

use daemons::{Bpf, alone, lineside};
use lineside_client::spv::{Client, ClientError};
use lineside_testkit::bpffs::hide_bpffs;
use lineside_testkit::{DemoBlock, DemoChain, skipped};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const SERVER: &str = "127.0.0.1:7701";

fn client() -> Client {
    Client::connect(SERVER.parse().expect("address"), Duration::from_millis(700)).expect("client")
}

/// Returns the first block of the demonstration chain that the daemon serves.
fn demo_block() -> DemoBlock {
    DemoChain::new(1, 2048).next().expect("endless")
}

fn xdp_counter(name: &str) -> u64 {
    let status = lineside(&["--json", "status"]);
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).expect("JSON");
    status["services"][0]["counters"]["xdp"][name]
        .as_u64()
        .expect("a counter")
}

#[test]
fn after_a_kill_the_fast_path_answers_until_its_lease_ends_and_a_restart_takes_it_over() {
    alone(|| {
        let Some(bpf) = Bpf::new("kill") else { return };
        let arguments = [
            "--datapath",
            "xdp",
            "--pin-dir",
            bpf.path(),
            "--set",
            "spv.lease_s=3",
        ];
        let daemon = match daemons::start(&arguments, None) {
            Err(why) if why.contains("BPF is not allowed") => return skipped(why),
            started => started.expect("daemon"),
        };
        assert!(
            daemon.said[0].contains("xdp datapath, generic on lo"),
            "{:?}",
            daemon.said
        );
        let block = demo_block();
        let few = &block.txids[100..110];
        let mut asking = client();
        // The host answers first and fills the fast path, which answers from then on.
        for round in 0..2 {
            let before = xdp_counter("hits");
            for txid in few {
                let place = asking.root(txid).expect("an answer").result.expect("it is there");
                assert_eq!((place.root, place.height), (block.root, 0));
            }
            let by_fastpath = xdp_counter("hits") - before;
            assert_eq!(by_fastpath, round * few.len() as u64);
        }
        // A second daemon on the same interface is refused with the reason; the first one is not disturbed.
        let second = [&arguments[..], &["--console", "127.0.0.1:7719"]].concat();
        let why = daemons::start(&second, None).err().expect("two on one interface");
        assert!(why.contains("another process of Lineside serves lo"), "{why}");
        let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.child.id())).expect("status");
        let effective = status
            .lines()
            .find(|line| line.starts_with("CapEff"))
            .expect("CapEff");
        let effective =
            u64::from_str_radix(effective.split_whitespace().nth(1).expect("value"), 16).expect("hex");
        // Bits of the capabilities: CAP_NET_ADMIN 12, CAP_PERFMON 38, CAP_BPF 39.
        assert_eq!(effective, 1 << 12 | 1 << 38 | 1 << 39);

        daemon.signal(libc::SIGKILL);
        let killed = Instant::now();
        for txid in few {
            let answer = asking
                .paper_root(txid)
                .expect("the fast path answers without its daemon");
            assert_eq!(answer, Some(block.root));
        }
        let status = lineside(&["--json", "xdp", "status", "--pin-dir", bpf.path()]);
        let status: serde_json::Value = serde_json::from_slice(&status.stdout).expect("JSON");
        assert_eq!(
            (&status["owned"], &status["mode"]),
            (&false.into(), &"generic".into())
        );
        // The lease was renewed at most 3 s before the kill. After it expires, no request is answered.
        loop {
            match asking.paper_root(&few[0]) {
                Ok(root) => assert_eq!(root, Some(block.root)),
                Err(ClientError::Timeout { .. }) => break,
                Err(error) => panic!("{error}"),
            }
            assert!(
                killed.elapsed() < Duration::from_secs(30),
                "the fast path outlived its lease"
            );
        }
        let daemon = daemons::start(&arguments, None).expect("restart");
        assert!(
            daemon.said[0].contains("with the fast-path table of the previous process"),
            "{:?}",
            daemon.said
        );
        let before = xdp_counter("hits");
        for txid in few {
            assert_eq!(asking.paper_root(txid).expect("an answer"), Some(block.root));
        }
        assert_eq!(
            xdp_counter("hits") - before,
            few.len() as u64,
            "the fast path still caches the same transactions"
        );

        assert_eq!(daemon.signal(libc::SIGTERM), "");
        let left = lineside(&["xdp", "status", "--pin-dir", bpf.path()]);
        let left = String::from_utf8_lossy(&left.stdout).into_owned();
        assert!(left.starts_with("nothing is pinned"), "{left}");
    });
}

#[test]
fn keep_fast_path_leaves_the_fast_path_attached_and_detach_removes_it() {
    alone(|| {
        let Some(bpf) = Bpf::new("keep") else { return };
        let arguments = ["--datapath", "xdp", "--pin-dir", bpf.path(), "--keep-fast-path"];
        let daemon = match daemons::start(&arguments, None) {
            Err(why) if why.contains("BPF is not allowed") => return skipped(why),
            started => started.expect("daemon"),
        };
        let block = demo_block();
        let mut asking = client();
        for _ in 0..2 {
            assert_eq!(
                asking.paper_root(&block.txids[1]).expect("an answer"),
                Some(block.root)
            );
        }
        let owned = lineside(&["xdp", "detach", "lo", "--pin-dir", bpf.path()]);
        assert!(
            !owned.status.success(),
            "the fast path of a running daemon is not taken away"
        );
        daemon.signal(libc::SIGINT);
        assert_eq!(
            asking.paper_root(&block.txids[1]).expect("the fast path stays"),
            Some(block.root)
        );
        let detached = lineside(&["xdp", "detach", "lo", "--pin-dir", bpf.path()]);
        assert_eq!(String::from_utf8_lossy(&detached.stdout), "lo: detached\n");
        assert!(
            asking.paper_root(&block.txids[1]).is_err(),
            "the fast path answers after detach"
        );
        assert!(!Path::new(bpf.path()).join("lo").exists());
    });
}

#[test]
fn without_a_bpf_file_system_the_fast_path_ends_with_the_daemon() {
    alone(|| {
        if !hide_bpffs() {
            return;
        }
        let daemon = match daemons::start(&["--datapath", "xdp"], None) {
            Err(why) if why.contains("BPF is not allowed") => return skipped(why),
            started => started.expect("daemon"),
        };
        assert!(daemon.said[0].contains("xdp datapath"), "{:?}", daemon.said);
        let block = demo_block();
        let mut asking = client();
        let mut ask = || asking.paper_root(&block.txids[1]);
        for _ in 0..2 {
            assert_eq!(ask().expect("an answer"), Some(block.root));
        }
        assert_eq!(xdp_counter("hits"), 1);
        let status = || {
            let output = lineside(&["xdp", "status"]);
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        let shown = status();
        assert!(
            shown.contains("\nlo: generic, program ") && shown.contains(", not pinned in "),
            "{shown}"
        );
        let said = daemon.signal(libc::SIGTERM);
        assert!(said.contains("the fast path ends with this process"), "{said}");
        assert!(
            status().ends_with("no interface has a fast path\n"),
            "{}",
            status()
        );
        assert!(ask().is_err(), "the fast path answers after the daemon's end");
    });
}

#[test]
fn a_daemon_without_privileges_serves_from_user_space_and_says_why() {
    // SAFETY: geteuid has no preconditions.
    let user = (unsafe { libc::geteuid() } == 0).then_some(65534);
    let may_run = Command::new(env!("CARGO_BIN_EXE_lineside"))
        .arg("--version")
        .uid(user.unwrap_or_else(|| unsafe { libc::geteuid() }))
        .output()
        .is_ok_and(|output| output.status.success());
    if !may_run {
        return skipped("user 65534 may not read the binary here");
    }
    // The directory allows every user to pin. A start that fails for lack of rights must leave nothing there that would
    // block a later start by root.
    let bpf = Bpf::new("rights");
    let pin_dir = bpf.as_ref().map_or("/sys/fs/bpf/lineside-test", Bpf::path);
    if bpf.is_some() {
        std::fs::set_permissions(pin_dir, std::fs::Permissions::from_mode(0o1777)).expect("chmod");
    }
    let pins = format!("{pin_dir}/pins");
    let listen = [
        "--set",
        "spv.listen=127.0.0.1:17701",
        "--console",
        "127.0.0.1:0",
        "--pin-dir",
        &pins,
    ];
    let daemon = daemons::start(&listen, user).expect("daemon");
    assert!(!Path::new(&pins).exists(), "the pins remain");
    assert_eq!(daemon.said[0], "spv on 127.0.0.1:17701 (socket datapath)");
    let server: SocketAddr = "127.0.0.1:17701".parse().expect("address");
    let block = demo_block();
    let mut asking = Client::connect(server, Duration::from_secs(5)).expect("client");
    let answer = asking.roots(&block.txids[..16]).expect("an answer");
    assert!(
        answer
            .result
            .iter()
            .all(|place| place.is_some_and(|place| place.root == block.root))
    );
    assert_eq!(answer.tip.height, 63);
    let said = daemon.signal(libc::SIGTERM);
    assert_eq!(
        said.lines()
            .filter(|line| line.contains("on the socket datapath: "))
            .count(),
        1,
        "{said}"
    );
}

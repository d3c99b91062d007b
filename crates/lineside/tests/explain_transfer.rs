//! Tests that run `lineside explain --service transfer` as a user does, with the ledger of a server that has ended.

mod capture;
mod transfer_server;

use capture::{framed, pcap};
use lineside_client::transfer::Session;
use lineside_testkit::skipped;
use lineside_transfer::AccountId;
use lineside_transfer::paper::PaperRequest;
use lineside_wire::frame::parse;
use lineside_wire::{
    BalanceItem, ExecuteHead, Operation, ReferHead, TRANSFER_COMMAND_CREATE as CREATE,
    TRANSFER_COMMAND_REFER as REFER, TRANSFER_COMMAND_TRANSFER as TRANSFER, TRANSFER_OP_EXECUTE,
    TRANSFER_OP_REFER, native,
};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Output;
use tempfile::TempDir;
use transfer_server::{Server, lineside, operation, text};
use zerocopy::{FromZeros, IntoBytes};

/// Balance of account 1.
const BALANCE: u32 = 70;
/// Id of the last TRANSFER of account 1.
const LAST_ID: u32 = 5;

/// Ledger, and a capture of requests to it.
struct Scene {
    folder: TempDir,
    frames: Vec<Vec<u8>>,
}

/// Expected result of a frame: its payload, verdict, counters, and the last steps with their results. Steps about the
/// reply are left out.
struct Case {
    payload: Vec<u8>,
    verdict: &'static str,
    counters: Value,
    steps: &'static [(&'static str, bool)],
}

fn native_request(operation: u8, parts: &[&[u8]]) -> Vec<u8> {
    let body = parts.concat();
    let header = native::request_header(operation, 9, body.len() as u16);
    [header.as_bytes(), &body].concat()
}

fn execute(session: &Session, sequence: u64, operations: &[Operation]) -> Vec<u8> {
    let head = ExecuteHead {
        token: session.token.into(),
        sequence: sequence.into(),
        slot: session.slot.into(),
        count: (operations.len() as u16).into(),
        durability: 0.into(),
    };
    native_request(TRANSFER_OP_EXECUTE, &[head.as_bytes(), operations.as_bytes()])
}

fn refer(accounts: &[u32]) -> Vec<u8> {
    let mut head = ReferHead::new_zeroed();
    head.count = (accounts.len() as u32).into();
    let items = accounts.iter().map(|account| {
        let mut item = BalanceItem::new_zeroed();
        item.account = AccountId::from_paper(*account).0;
        item
    });
    let items: Vec<_> = items.collect();
    native_request(TRANSFER_OP_REFER, &[head.as_bytes(), items.as_bytes()])
}

fn paper(command: u8, id: u32, source: u32, destination: u32, amount: u32) -> Vec<u8> {
    PaperRequest::new(command, id, source, destination, amount)
        .to_bytes()
        .to_vec()
}

/// Returns the cases in mode `express`, for a ledger with an open session.
fn cases(session: &Session) -> Vec<Case> {
    let replied = json!({"replies": 1});
    let refused = json!({"refusals": 1, "replies": 1});
    let forwarded = json!({"forwarded": 1});
    let move_one = operation(TRANSFER, 1, 2, 1);
    let case = |payload, verdict, counters: &Value, steps| Case {
        payload,
        verdict,
        counters: counters.clone(),
        steps,
    };
    let (id, next) = (LAST_ID, session.next);
    vec![
        case(
            paper(TRANSFER, id + 1, 1, 2, 7),
            "answered",
            &replied,
            &[
                ("permitted", true),
                ("ring_room", true),
                ("account_exists", true),
                ("other_account", true),
                ("account_exists", true),
                ("unlocked", true),
                ("accounts_unclaimed", true),
                ("new_transaction_id", true),
                ("done", true),
            ],
        ),
        case(
            paper(TRANSFER, 0, 1, 2, BALANCE + 1),
            "answered",
            &refused,
            &[("done", false)],
        ),
        case(
            paper(TRANSFER, id, 1, 2, 3),
            "answered",
            &json!({"repeats": 1, "replies": 1}),
            &[("new_transaction_id", false)],
        ),
        case(
            paper(TRANSFER, 0, 1, 9, 1),
            "answered",
            &refused,
            &[
                ("account_exists", false),
                ("unlocked", true),
                ("accounts_unclaimed", true),
                ("done", false),
            ],
        ),
        // The capture is from another machine, which may not create money.
        case(
            paper(CREATE, 0, 9, 0, 1),
            "answered",
            &refused,
            &[("executes", true), ("unsigned", true), ("permitted", false)],
        ),
        case(
            paper(REFER, 0, 1, 0, 0),
            "answered",
            &replied,
            &[
                ("refer", true),
                ("account_exists", true),
                ("account_read", true),
                ("balance_fits", true),
            ],
        ),
        case(
            refer(&[1]),
            "answered",
            &replied,
            &[("account_exists", true), ("account_read", true)],
        ),
        case(
            refer(&[1, 9]),
            "answered",
            &replied,
            &[("account_read", true), ("account_exists", false)],
        ),
        case(
            execute(session, next, &[move_one]),
            "answered",
            &replied,
            &[
                ("session_open", true),
                ("unlocked", true),
                ("session_unclaimed", true),
                ("new_sequence", true),
                ("next_sequence", true),
                ("ring_room", true),
                ("well_formed", true),
                ("permitted", true),
                ("account_exists", true),
                ("other_account", true),
                ("account_exists", true),
                ("unlocked", true),
                ("accounts_unclaimed", true),
                ("done", true),
            ],
        ),
        case(
            execute(session, next + 1, &[move_one]),
            "answered",
            &refused,
            &[("next_sequence", false)],
        ),
        case(
            execute(session, next, &[move_one; 2]),
            "answered",
            &replied,
            &[("done", true)],
        ),
        case(
            execute(session, next, &[move_one; 5]),
            "passed",
            &forwarded,
            &[("plain", false)],
        ),
        case(
            execute(
                &Session::new(session.slot, session.token ^ 1, next),
                next,
                &[move_one],
            ),
            "answered",
            &refused,
            &[("session_open", false)],
        ),
        case(
            vec![7; 30],
            "dropped",
            &json!({"drops, not_a_request": 1}),
            &[("native_magic", false)],
        ),
        case(
            native_request(0x7f, &[]),
            "passed",
            &forwarded,
            &[("body", false)],
        ),
    ]
}

impl Scene {
    /// Returns a ledger with two accounts and an open session, and the cases.
    fn new() -> (Self, Vec<Case>) {
        let folder = TempDir::new().unwrap();
        let data = folder.path().join("ledger");
        let socket = ["--datapath", "socket", "--mode", "express"];
        let server = Server::start_with(&data, "127.0.0.1:0", &socket).unwrap();
        let mut client = server.client();
        let mut asked = |request: PaperRequest| client.paper(&request).unwrap().balance;
        assert_eq!(asked(PaperRequest::new(CREATE, 0, 1, 0, BALANCE + 3)), Some(73));
        assert_eq!(asked(PaperRequest::new(CREATE, 0, 2, 0, 0)), Some(0));
        assert_eq!(
            asked(PaperRequest::new(TRANSFER, LAST_ID, 1, 2, 3)),
            Some(BALANCE.into())
        );
        let mut session = client.open().unwrap();
        client
            .execute(&mut session, &[operation(TRANSFER, 2, 1, 0)])
            .unwrap();
        server.end();
        let cases = cases(&session);
        let frames: Vec<_> = cases
            .iter()
            .map(|case| framed(&case.payload, false, 7702))
            .collect();
        std::fs::write(folder.path().join("in.pcap"), pcap(&frames)).unwrap();
        (Self { folder, frames }, cases)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn explain(&self, number: usize, more: &[&str]) -> Output {
        let mut command = lineside();
        command.arg("explain").arg(self.path("in.pcap"));
        command.args(["--frame", &number.to_string(), "--service", "transfer", "--data"]);
        command.arg(self.path("ledger")).args(more).output().unwrap()
    }

    fn report(&self, number: usize, more: &[&str]) -> Value {
        let output = self.explain(number, &[&["--json"], more].concat());
        assert!(output.status.success(), "frame {number}: {}", text(&output));
        serde_json::from_slice(&output.stdout).expect("one JSON object")
    }
}

/// Returns the last steps of a report, apart from those about the reply.
fn last_steps(report: &Value, count: usize) -> Vec<(&str, bool)> {
    let steps = report["steps"].as_array().unwrap().iter();
    let steps = steps.map(|step| (step["rule"].as_str().unwrap(), step["holds"] == true));
    let steps: Vec<_> = steps
        .filter(|(rule, holds)| !(*holds && ["reply_fits", "reply_length"].contains(rule)))
        .collect();
    steps[steps.len() - count..].to_vec()
}

/// Returns the payload of the reply to a frame, from the changes that the report lists.
fn reply(request: &[u8], report: &Value) -> Vec<u8> {
    let mut reply = request.to_vec();
    for change in report["changes"].as_array().unwrap() {
        let at = change["offset"].as_u64().unwrap() as usize;
        let after = lineside_util::hex::from_hex(change["reply"].as_str().unwrap()).unwrap();
        reply[at..at + after.len()].copy_from_slice(&after);
    }
    reply[parse(&reply).unwrap().payload()].to_vec()
}

#[test]
fn each_step_and_the_reply_are_those_of_the_ledger() {
    let (scene, cases) = Scene::new();
    for (number, case) in (1..).zip(&cases) {
        let report = scene.report(number, &[]);
        assert_eq!(report["service"], "transfer");
        assert_eq!(report["model"]["verdict"], case.verdict, "{number}: {report:#}");
        assert_eq!(report["model"]["counters"], case.counters, "{number}: {report:#}");
        let found = last_steps(&report, case.steps.len());
        assert_eq!(found, case.steps, "{number}: {report:#}");
    }
    // The reply to the first frame has the balance that is left; the second one the code 3.
    let amount = |number: usize| {
        let reply = reply(&scene.frames[number - 1], &scene.report(number, &[]));
        u32::from_be_bytes(reply[16..20].try_into().unwrap())
    };
    assert_eq!((amount(1), amount(2)), (BALANCE - 7, 3));
    let shown = text(&scene.explain(2, &[]));
    for expected in [
        "the fast path of transfer at 10.0.0.2, port 7702",
        "source_balance 70, code 3: insufficient funds",
        "model: answered, counters: replies +1, refusals +1",
    ] {
        assert!(shown.contains(expected), "{shown}");
    }
    // The command changes nothing, so the first frame has the same result again.
    assert_eq!(amount(1), BALANCE - 7);
    let audit = lineside()
        .args(["transfer", "audit", "--data"])
        .arg(scene.path("ledger"))
        .output()
        .unwrap();
    assert!(audit.status.success(), "{}", text(&audit));
}

#[test]
fn the_configuration_and_the_options_decide() {
    let (scene, _) = Scene::new();
    let config = scene.path("lineside.toml");
    std::fs::write(
        &config,
        "[transfer]\nissuers = [\"10.0.0.0/8\"]\npaper_format = true\n",
    )
    .unwrap();
    let config = config.to_str().unwrap();
    let create = 5;
    let permitted = scene.report(create, &["--config", config]);
    assert_eq!(last_steps(&permitted, 1), [("cell_free", true)]);
    std::fs::write(config, "[transfer]\npaper_format = false\n").unwrap();
    let report = scene.report(create, &["--config", config]);
    assert_eq!(report["model"]["reason"], "paper_refused");
    for (more, code, expected) in [
        (
            &["--mode", "durable"][..],
            2,
            "has mode `express`, which cannot be changed",
        ),
        (&["--prefill", "all"], 2, "--prefill: only for --service spv"),
        (&["--config", "/nowhere.toml"], 2, "/nowhere.toml"),
    ] {
        let output = scene.explain(1, more);
        assert!(text(&output).contains(expected), "{more:?}: {}", text(&output));
        assert_eq!(output.status.code(), Some(code), "{more:?}");
    }
    // Without a ledger the mode is durable, so the host would have to answer.
    let output = lineside()
        .args(["explain", "--frame", "1", "--service", "transfer", "--json"])
        .arg(scene.path("in.pcap"))
        .output()
        .unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(last_steps(&report, 1), [("executes", false)]);
    let missing = lineside()
        .args([
            "explain",
            "--frame",
            "1",
            "--service",
            "transfer",
            "--data",
            "/nowhere",
        ])
        .arg(scene.path("in.pcap"))
        .output()
        .unwrap();
    assert_eq!(missing.status.code(), Some(1), "{}", text(&missing));
    assert!(text(&missing).contains("/nowhere"), "{}", text(&missing));
}

#[test]
fn the_kernel_program_agrees_with_the_steps() {
    let (scene, cases) = Scene::new();
    for number in 1..=cases.len() {
        let output = scene.explain(number, &["--datapath", "xdp", "--json"]);
        if text(&output).contains("BPF is not allowed") {
            skipped("BPF is not allowed here");
            return;
        }
        let report: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", text(&output)));
        assert_eq!(report["differences"], json!([]), "{number}");
        assert_eq!(report["result"], report["model"], "{number}");
    }
}

#[cfg(feature = "rtl")]
#[test]
fn the_simulated_nic_agrees_with_the_steps() {
    let (scene, cases) = Scene::new();
    let mut latencies = Vec::new();
    for number in 1..=cases.len() {
        let report = scene.report(number, &["--datapath", "rtl"]);
        assert_eq!(report["differences"], json!([]), "{number}");
        latencies.push(report["cycles"]["latency"].as_u64());
    }
    // docs/rtl.md has these latencies: the store answers; it answers a request of a session; other requests of
    // sessions; and frames that the NIC answers without the store or passes on.
    for (frames, cycles) in [
        (&[1, 2, 3, 4, 6, 7][..], 51..=52),
        (&[9], 57..=58),
        (&[10, 13], 38..=39),
        (&[5, 8, 11, 12, 15], 32..=33),
    ] {
        for frame in frames {
            assert!(
                latencies[frame - 1].is_some_and(|found| cycles.contains(&found)),
                "frame {frame}: {latencies:?}"
            );
        }
    }
    assert_eq!(latencies[13], None, "a dropped frame");
    // The NIC leaves requests with several operations or accounts to the host.
    let refer_two = 8;
    let shown = text(&scene.explain(refer_two, &["--datapath", "rtl"]));
    let reason = "the NIC answers `refer` only with one operation or account";
    assert!(
        shown.contains(&format!("passes this frame to the host, because {reason}")),
        "{shown}"
    );
}

/// Regression test: an `execute` of a slot that no server has, or with a wrong checksum, was reported as a difference.
#[cfg(feature = "rtl")]
#[test]
fn the_simulated_nic_agrees_about_sessions_that_it_does_not_have() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name);
    let move_one = operation(TRANSFER, 1, 2, 1);
    let mut frames: Vec<_> = [0, 4095, 4096, 8191, 8192, u32::MAX]
        .map(|slot| framed(&execute(&Session::new(slot, 7, 1), 1, &[move_one]), false, 7702))
        .to_vec();
    for several in [1, 2] {
        let operations = vec![move_one; several];
        let mut wrong = framed(&execute(&Session::new(4096, 7, 1), 1, &operations), false, 7702);
        wrong[40] ^= 1;
        frames.push(wrong);
    }
    std::fs::write(path("in.pcap"), pcap(&frames)).unwrap();
    for sessions in [16, 8192] {
        let config = format!("[transfer]\nmode = \"express\"\nsessions = {sessions}\n");
        std::fs::write(path("lineside.toml"), config).unwrap();
        for frame in 1..=frames.len() {
            let mut command = lineside();
            command.args(["explain", "--service", "transfer", "--datapath", "rtl", "--json"]);
            command
                .args(["--frame", &frame.to_string(), "--config"])
                .arg(path("lineside.toml"));
            let output = command.arg(path("in.pcap")).output().unwrap();
            assert!(
                output.status.success(),
                "{sessions}, frame {frame}: {}",
                text(&output)
            );
        }
    }
}

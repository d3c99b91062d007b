//! `lineside transfer serve --datapath rtl`: real clients of a simulated NIC at a TAP device, which executes
//! operations.
#![cfg(feature = "rtl")]

mod transfer_server;

use lineside_client::transfer::{Client, Session};
use lineside_testkit::can_create_tap;
use lineside_testkit::netns::alone;
use lineside_transfer::AccountId;
use lineside_transfer::paper::PaperRequest;
use lineside_wire::{
    Operation, TRANSFER_COMMAND_CREATE as CREATE, TRANSFER_COMMAND_FREEZE as FREEZE,
    TRANSFER_COMMAND_ISSUE as ISSUE, TRANSFER_COMMAND_TRANSFER as TRANSFER,
    TRANSFER_COMMAND_UNFREEZE as UNFREEZE, TransferCode as Code,
};
use std::path::Path;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use transfer_server::{Server, lineside, move_ones, operation, text};

const NIC: &str = "10.77.0.2:7702";

fn start(data: &Path, mode: &str) -> Server {
    // The clients of the TAP device may create money.
    let config = data.join("lineside.toml");
    std::fs::write(&config, "[transfer]\nissuers = [\"10.77.0.0/24\"]\n").expect("a file");
    let config = config.to_str().expect("text");
    let data = &data.join("ledger");
    let more = ["--config", config, "--datapath", "rtl", "--mode", mode];
    Server::start_with(data, NIC, &more).unwrap_or_else(|why| panic!("{why}"))
}

/// Returns the status of the service.
fn status(server: &Server) -> serde_json::Value {
    let output = lineside()
        .args(["--json", "status", "--console", &server.console().to_string()])
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&output)))
}

/// Returns a counter of the NIC.
fn count(server: &Server, name: &str) -> u64 {
    let status = status(server);
    let count = status["services"][0]["counters"]["rtl"][name].as_u64();
    count.unwrap_or_else(|| panic!("no counter {name}: {status}"))
}

/// Waits until the server reports that this number of operations was executed since the ledger was created, and that
/// all of them are in the journal. The report changes after the NIC has answered its clients, so the number of
/// operations outside of the journal can be 0 because the report does not have the last operations yet.
fn wait_for_the_journal(server: &Server, operations: u64) {
    let begin = Instant::now();
    loop {
        // The second value comes from a report that is at least as new as that of the first one.
        let executed = server.metric("lineside_transfer_operations_total");
        let unjournaled = server.metric("lineside_transfer_unjournaled_ops");
        if executed >= operations && unjournaled == 0 {
            return;
        }
        assert!(
            begin.elapsed() < Duration::from_secs(60),
            "{executed} of {operations} operations are reported, and {unjournaled} stay in the ring"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn paper(
    client: &mut Client,
    command: u8,
    id: u32,
    source: u32,
    destination: u32,
    amount: u32,
) -> (Code, Option<u64>) {
    let request = PaperRequest::new(command, id, source, destination, amount);
    let outcome = client.paper(&request).expect("an answer");
    (outcome.code, outcome.balance)
}

fn execute(client: &mut Client, session: &mut Session, operations: &[Operation]) -> Vec<(Code, Option<u64>)> {
    let executed = client.execute(session, operations).expect("an answer");
    let outcomes = executed.outcomes.iter();
    outcomes.map(|outcome| (outcome.code, outcome.balance)).collect()
}

fn balances(client: &mut Client, accounts: &[u32]) -> Vec<u64> {
    let accounts: Vec<_> = accounts.iter().map(|id| AccountId::from_paper(*id)).collect();
    let balances = client.refer(&accounts).expect("an answer");
    balances
        .iter()
        .map(|balance| balance.as_ref().expect("an account").balance)
        .collect()
}

fn audited_operations(folder: &Path) -> u64 {
    let audit = lineside()
        .args(["transfer", "audit", "--json", "--data"])
        .arg(folder.join("ledger"))
        .output()
        .unwrap();
    let report: serde_json::Value =
        serde_json::from_slice(&audit.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&audit)));
    report["operations"]
        .as_u64()
        .unwrap_or_else(|| panic!("{report}"))
}

#[test]
fn the_nic_executes_and_its_host_journals_each_operation_once() {
    if !can_create_tap() {
        return;
    }
    alone(|| {
        let data = TempDir::new().unwrap();
        let server = start(data.path(), "express");
        let mut client = server.client();
        for account in 1..=2 {
            assert_eq!(
                paper(&mut client, CREATE, 1, account, 0, 10_000),
                (Code::Done, Some(10_000))
            );
        }
        assert_eq!(
            paper(&mut client, ISSUE, 2, 1, 0, 500),
            (Code::Done, Some(10_500))
        );
        assert_eq!(
            paper(&mut client, TRANSFER, 3, 1, 2, 500),
            (Code::Done, Some(10_000))
        );
        move_ones(&mut client, 4, 100, 10_000);
        assert_eq!(balances(&mut client, &[1]), [9_900]);
        assert!(count(&server, "replies") >= 100, "the NIC answers these");
        assert_eq!(
            balances(&mut client, &[1, 2]),
            [9_900, 10_600],
            "not the NIC answers this"
        );

        // Operations of a session: one by one in the NIC, several of them in the host, which claims the accounts.
        let mut session = client.open().unwrap();
        let before = count(&server, "replies");
        for done in 1..=20 {
            assert_eq!(
                execute(&mut client, &mut session, &[operation(TRANSFER, 1, 2, 10)]),
                [(Code::Done, Some(9_900 - 10 * done))]
            );
        }
        assert!(count(&server, "replies") >= before + 20, "the NIC executes these");
        let mut chain = [operation(TRANSFER, 1, 2, 50), operation(TRANSFER, 2, 1, 20)];
        chain[0].flags = 1;
        assert_eq!(
            execute(&mut client, &mut session, &chain),
            [(Code::Done, Some(9_650)), (Code::Done, Some(10_830))]
        );
        assert!(server.metric("lineside_transfer_claims_total") > 0);
        // The NIC has what the host did, and goes on.
        move_ones(&mut client, 200, 10, 9_670);
        assert_eq!(
            execute(&mut client, &mut session, &[operation(FREEZE, 2, 0, 0)])[0].0,
            Code::Done
        );
        assert_eq!(paper(&mut client, TRANSFER, 210, 1, 2, 1).0, Code::Frozen);
        assert_eq!(
            execute(&mut client, &mut session, &[operation(UNFREEZE, 2, 0, 0)])[0].0,
            Code::Done
        );
        // The host creates an account together with a transfer, for which the NIC pauses.
        let made = [operation(CREATE, 3, 0, 0), operation(TRANSFER, 1, 3, 60)];
        assert_eq!(
            execute(&mut client, &mut session, &made),
            [(Code::Done, Some(0)), (Code::Done, Some(9_600))]
        );
        assert_eq!(paper(&mut client, TRANSFER, 0, 3, 1, 10), (Code::Done, Some(50)));
        let service = &status(&server)["services"][0];
        assert_eq!(service["datapath"], "rtl", "{service}");
        assert_eq!(service["interface"], "lineside0", "{service}");
        // Two accounts, one issue and one transfer in the paper's format, and 100 more of these transfers; in the
        // session 20 transfers and a chain of 2; then 10 transfers, the freeze and its end, an account with a transfer
        // to it, and the last transfer. The refused one does not count.
        let operations = 4 + 100 + 20 + 2 + 10 + 2 + 2 + 1;
        wait_for_the_journal(&server, operations);
        assert_eq!(server.metric("lineside_transfer_operations_total"), operations);

        // A clean restart, and then one after a kill: the reply of the last request is repeated.
        server.end();
        assert_eq!(audited_operations(data.path()), operations);
        let server = start(data.path(), "express");
        let mut client = server.client();
        assert_eq!(balances(&mut client, &[1]), [9_610]);
        assert_eq!(
            paper(&mut client, TRANSFER, 210, 1, 2, 1).0,
            Code::Frozen,
            "the stored reply"
        );
        let mut session = Session::new(session.slot, session.token, session.next);
        assert_eq!(
            execute(&mut client, &mut session, &[operation(TRANSFER, 1, 2, 10)]),
            [(Code::Done, Some(9_600))]
        );
        move_ones(&mut client, 300, 50, 9_600);
        wait_for_the_journal(&server, operations + 51);
        drop(server);
        let server = start(data.path(), "express");
        let mut client = server.client();
        assert_eq!(
            paper(&mut client, TRANSFER, 349, 1, 2, 1),
            (Code::Done, Some(9_550)),
            "the stored reply"
        );
        assert_eq!(balances(&mut client, &[1]), [9_550]);
        assert_eq!(
            execute(&mut client, &mut session, &[operation(TRANSFER, 1, 2, 50)]),
            [(Code::Done, Some(9_500))]
        );
        server.end();
        assert_eq!(audited_operations(data.path()), operations + 52);
    });
}

#[test]
fn in_durable_mode_the_nic_answers_balances_and_a_kill_loses_no_acknowledged_operation() {
    if !can_create_tap() {
        return;
    }
    alone(|| {
        let data = TempDir::new().unwrap();
        let server = start(data.path(), "durable");
        let mut client = server.client();
        for account in 1..=2 {
            assert_eq!(paper(&mut client, CREATE, 1, account, 0, 1_000).0, Code::Done);
        }
        for done in 1..=30 {
            let balance = 1_000 - u64::from(done);
            assert_eq!(
                paper(&mut client, TRANSFER, 1 + done, 1, 2, 1),
                (Code::Done, Some(balance))
            );
            // The NIC has the balance before the client has the reply to the transfer.
            assert_eq!(balances(&mut client, &[1]), [balance]);
        }
        assert!(count(&server, "replies") >= 30, "the NIC answers balances");
        drop(server);
        let server = start(data.path(), "durable");
        let mut client = server.client();
        assert_eq!(balances(&mut client, &[1]), [970]);
        assert_eq!(
            paper(&mut client, TRANSFER, 31, 1, 2, 1),
            (Code::Done, Some(970)),
            "the stored reply"
        );
        assert_eq!(balances(&mut client, &[1, 2]), [970, 1_030]);
        server.end();
        assert_eq!(audited_operations(data.path()), 32);
    });
}

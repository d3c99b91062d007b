//! The clients of `lineside-client` against real servers, through a relay that loses, repeats, reorders and forges
//! datagrams: each change is executed exactly once, forged replies are ignored, and an unknown outcome names its id.

mod relay;

use lineside_client::column::{self, Change, ColumnName};
use lineside_client::transfer::{self, AccountId, Code, keyed, linked, new_idempotency_key};
use lineside_client::{ClientError, OutcomeId, spv};
use lineside_spv::chain::{ChainStore, Network};
use lineside_testkit::{Daemon, DemoChain};
use relay::Relay;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);
/// Time-out of a client whose requests get no reply.
const SHORT: Duration = Duration::from_millis(150);
const CHANGES: u64 = 100;

/// Starts a server of one service, and returns the address that it prints.
fn serve(service: &str, more: &[&str]) -> (Daemon, SocketAddr) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lineside"));
    command.args([
        service,
        "serve",
        "--datapath",
        "socket",
        "--listen",
        "127.0.0.1:0",
    ]);
    command.args(["--console", "127.0.0.1:0"]).args(more);
    let daemon = Daemon::start(&mut command).expect("it starts");
    let start = format!("{service} on ");
    let address = daemon.said.iter().find_map(|line| line.strip_prefix(&start));
    let address = address
        .and_then(|rest| rest.split(' ').next())
        .expect("an address");
    let address = address.parse().expect("an address");
    (daemon, address)
}

fn assert_unreliable(relay: &Relay) {
    let counts = &relay.counts;
    for count in [&counts.lost, &counts.repeated, &counts.reordered, &counts.forged] {
        assert!(count.load(Relaxed) > 0, "{counts:?}");
    }
}

#[test]
fn transfers_are_executed_once_and_an_unknown_outcome_names_the_packet() {
    let data = tempfile::tempdir().unwrap();
    let data = data.path().join("ledger");
    let (_daemon, server) = serve(
        "transfer",
        &["--account-bits", "10", "--data", data.to_str().unwrap()],
    );
    let [alice, bob] = [1, 2].map(AccountId::from_paper);
    let relay = Relay::start(server, 1);
    let mut client = transfer::Client::connect(relay.address, PATIENCE).unwrap();
    let mut session = client.open().unwrap();
    let accounts = [
        transfer::create(alice, 1000, None),
        transfer::create(bob, 0, None),
    ];
    client.execute(&mut session, &accounts).unwrap();
    for done in 0..CHANGES {
        let packet = [transfer::transfer(alice, bob, 1)];
        let executed = client.execute(&mut session, &packet).unwrap();
        assert_eq!(executed.outcomes[0].code, Code::Done);
        // A transfer that was executed twice, or a forged reply that was believed, gives another balance.
        assert_eq!(executed.outcomes[0].balance, Some(999 - done));
    }
    let chain = linked([
        transfer::transfer(alice, bob, 1),
        transfer::transfer(alice, bob, 100_000),
    ]);
    let refused = client.execute(&mut session, &chain).unwrap().outcomes;
    assert!(
        refused
            .iter()
            .all(|outcome| outcome.code != Code::Done && outcome.balance.is_none()),
        "{refused:?}"
    );
    assert_unreliable(&relay);
    assert!(client.resent() > 0);

    // The request reaches the server, and no reply reaches the client.
    let key = new_idempotency_key().unwrap();
    let payment = [keyed(transfer::transfer(alice, bob, 7), key)];
    let mut hasty = transfer::Client::connect(relay.address, SHORT).unwrap();
    let mut direct = transfer::Client::connect(server, PATIENCE).unwrap();
    relay.swallows.store(true, Relaxed);
    let sequence = session.next;
    while direct.next_sequence(&session).unwrap() == sequence {
        match hasty.execute(&mut session, &payment) {
            Err(ClientError::OutcomeUnknown {
                id:
                    OutcomeId::TransferPacket {
                        slot,
                        sequence: named,
                        idempotency_keys,
                    },
                ..
            }) => assert_eq!(
                (slot, named, idempotency_keys),
                (session.slot, sequence, vec![key])
            ),
            other => panic!("{other:?}"),
        }
    }
    relay.swallows.store(false, Relaxed);
    assert_eq!(
        session.next, sequence,
        "the session must not advance without an outcome"
    );
    // Until the outcome is found, nothing else is sent in the session.
    let other = [transfer::transfer(alice, bob, 8)];
    let refused = client.execute(&mut session, &other);
    assert!(matches!(refused, Err(ClientError::Unanswered(_))), "{refused:?}");
    let refused = client.close(&session);
    assert!(matches!(refused, Err(ClientError::Unanswered(_))), "{refused:?}");
    assert_eq!(session.unanswered(), Some(&payment[..]));
    let first = client.resume(&mut session).unwrap().unwrap().outcomes;
    assert_eq!(client.resume(&mut session).unwrap(), None);
    assert_eq!(first[0].balance, Some(1000 - CHANGES - 7));
    // The key finds the outcome in another session, too.
    let mut other = client.open().unwrap();
    assert_eq!(client.execute(&mut other, &payment).unwrap().outcomes, first);
    let accounts = client.refer(&[alice, bob]).unwrap();
    let balances: Vec<u64> = accounts.iter().map(|state| state.unwrap().balance).collect();
    assert_eq!(balances, [1000 - CHANGES - 7, CHANGES + 7]);
    client.close(&other).unwrap();
    client.close(&session).unwrap();
}

#[test]
fn changes_of_cells_are_made_once_and_can_be_resumed() {
    let (_daemon, server) = serve("column", &[]);
    let relay = Relay::start(server, 2);
    let column = ColumnName::new(b"entry:foo").unwrap();
    let mut client = column::Client::connect(relay.address, PATIENCE).unwrap();
    let add = Change::Increment(1);
    for sum in 1..=CHANGES {
        let outcome = client.change(b"n", &column, &add).unwrap();
        assert_eq!(outcome, column::Outcome::Now(sum.to_be_bytes().to_vec()));
    }
    assert_unreliable(&relay);

    let mut hasty = column::Client::connect(relay.address, SHORT).unwrap();
    // Opens the session, which may need several attempts within the short time.
    while hasty.change(b"other", &column, &add).is_err() {}
    relay.swallows.store(true, Relaxed);
    let id = match hasty.change(b"n", &column, &add) {
        Err(ClientError::OutcomeUnknown { id, .. }) => id,
        other => panic!("{other:?}"),
    };
    assert!(
        matches!(id, OutcomeId::ColumnChange { nonce, .. } if nonce > 1),
        "{id:?}"
    );
    relay.swallows.store(false, Relaxed);
    let outcome = loop {
        match hasty.resume(&id) {
            Err(ClientError::OutcomeUnknown { id: again, .. }) => assert_eq!(again, id),
            outcome => break outcome.unwrap(),
        }
    };
    let sum = (CHANGES + 1).to_be_bytes().to_vec();
    assert_eq!(outcome, column::Outcome::Now(sum.clone()));
    assert_eq!(
        client.get(b"n", &[column]).unwrap().rows,
        [(b"n".to_vec(), 0, sum)]
    );
    let known = hasty.resume(&id);
    assert!(matches!(known, Err(ClientError::NothingToResume(_))), "{known:?}");
}

#[test]
fn forged_locations_and_proofs_of_transactions_are_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("chain");
    let block = DemoChain::new(1, 2048).next().unwrap();
    let mut store = ChainStore::open(Some(&data), Network::Regtest).unwrap();
    store.submit(&block.raw, false).unwrap();
    store.catch_up().unwrap();
    drop(store);
    let (_daemon, server) = serve("spv", &["--data", data.to_str().unwrap()]);
    let relay = Relay::start(server, 3);
    let mut client = spv::Client::connect(relay.address, PATIENCE).unwrap();
    for txids in block.txids[..64].chunks(16) {
        let one = client.root(&txids[0]).unwrap().result.unwrap();
        assert_eq!(one.root, block.root);
        let all = client.roots(txids).unwrap().result;
        assert!(all.iter().all(|found| *found == Some(one)), "{all:?}");
        let proof = client.proof(&txids[1]).unwrap().result.unwrap();
        proof.verify_path(&txids[1]).unwrap();
        assert!(proof.verify_path(&txids[2]).is_err());
    }
    assert_unreliable(&relay);
}

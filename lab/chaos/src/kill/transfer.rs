//! Attack `kill` on `transfer`. Each client transfers amounts of 1 from one account to its own, in a session. It sends
//! a packet again until the packet is answered, so in the end every operation is acknowledged. The balance of each
//! account must equal the number of the client's operations.

use super::{Load, REQUEST_TIMEOUT, any_port, under_load};
use crate::client::{Ask, Client, StreamClient};
use crate::packet::{self, Session, code, status, transfer};
use crate::service::{BALANCE, Name, Service};
use crate::{Report, Scene};
use anyhow::{Context, ensure};
use lineside_testkit::{Random, bpffs, netns};
use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::channel;

/// Number of clients; the last third of them uses TCP.
const CLIENTS: u128 = 12;
/// Account from which all amounts are transferred.
const SOURCE: u128 = 1;
/// Account of the first client; the accounts of the other clients follow it.
const FIRST: u128 = 100;
/// Maximum number of operations in a packet over UDP; the next constant is that over TCP.
const UDP_OPERATIONS_MAX: u64 = 12;
const TCP_OPERATIONS_MAX: u64 = 200;

/// Runs the case with a durable journal.
pub fn transfer(scene: &Scene, report: &mut Report) -> anyhow::Result<()> {
    let mut service = Service::new(scene, Name::Transfer, any_port(), "account_bits = 14\n")?;
    attack(scene, &mut service, report)
}

/// Runs the case with the fast path of `express` mode in the kernel, which outlives the daemon.
pub fn transfer_express(scene: &Scene, report: &mut Report) -> anyhow::Result<()> {
    let (scene, mut inner) = (scene.clone(), report.clone());
    let (done, is_done) = channel();
    // The daemon uses the interface `lo` of a new network namespace, because no other program is attached there.
    netns::alone(move || {
        let Some(pins) = bpffs::below_bpffs("chaos") else {
            return;
        };
        let keys = "account_bits = 14\nmode = \"express\"\n";
        let listen = (Ipv4Addr::LOCALHOST, 7790).into();
        let outcome = Service::new(&scene, Name::Transfer, listen, keys).and_then(|mut service| {
            service.at_interface("lo", &pins);
            attack(&scene, &mut service, &mut inner)
        });
        done.send((inner, outcome))
            .expect("the thread of the case receives");
    });
    let Ok((inner, outcome)) = is_done.try_recv() else {
        report.skipped = Some("creating namespaces and loading BPF programs needs root".to_owned());
        return Ok(());
    };
    *report = inner;
    outcome
}

fn attack(scene: &Scene, service: &mut Service, report: &mut Report) -> anyhow::Result<()> {
    let server = service.start(None)?;
    let mut honest = service.honest(&server)?;
    create_accounts(&mut honest.client)?;
    let load = Load::default();
    let listen = server.listen;
    let clients = (0..CLIENTS).map(|number| {
        let (load, seed) = (&load, scene.seed);
        move || pay(number, listen, load, seed)
    });
    let (server, paid) = under_load(&load, clients, || load.kill(scene, service, server, report))?;
    load.tell(report);
    let mut numbers = HashSet::new();
    let total: u64 = paid.iter().map(|paid| paid.len() as u64).sum();
    // An operation has the number 0 if the fast path in `express` mode acknowledged it before the ledger assigned a
    // number.
    for number in paid.iter().flatten().filter(|number| **number != 0) {
        if !numbers.insert(number) {
            report.double(format!("two operations have the number {number}"));
        }
    }
    let expected = paid.iter().enumerate();
    let expected = expected.map(|(client, paid)| (FIRST + client as u128, paid.len() as u64));
    for (account, expected) in expected.chain([(SOURCE, BALANCE - total)]) {
        let answer = honest
            .client
            .ask(transfer::REFER, &packet::refer(account), REQUEST_TIMEOUT);
        let held = answer
            .and_then(|answer| packet::balance(&answer.body))
            .context("there is no reply to REFER, or it has no balance")?;
        let text =
            || format!("account {account} has {held}, but its client received {expected} acknowledgements");
        match held.cmp(&expected) {
            _ if account == SOURCE && held != expected => report.fault(text()),
            std::cmp::Ordering::Less => report.lose(text()),
            std::cmp::Ordering::Greater => report.double(text()),
            std::cmp::Ordering::Equal => {}
        }
    }
    report.peak(server.peak_bytes());
    server.terminate()?;
    let (is_right, said) = service.command(&["transfer", "audit", "--data", "data"])?;
    ensure!(is_right, "`lineside transfer audit`: {said}");
    Ok(())
}

fn create_accounts(client: &mut Client) -> anyhow::Result<()> {
    let session = client
        .open_transfer(REQUEST_TIMEOUT)
        .context("the service granted no session")?;
    let create = |number| packet::operation(transfer::CREATE, 0, FIRST + number, 0, 0, 1000 + number);
    let operations: Vec<_> = (0..CLIENTS).map(create).collect();
    let body = packet::execute(&session, &operations);
    let answer = client
        .ask(transfer::EXECUTE, &body, REQUEST_TIMEOUT)
        .context("no answer to the creation of the accounts")?;
    let created = packet::outcomes(&answer.body)
        .filter(|(code, ..)| *code == 0)
        .count();
    ensure!(
        created == operations.len(),
        "{created} accounts were created instead of {CLIENTS}"
    );
    Ok(())
}

/// Transfers money until the attack is over. Returns the ledger's number of each operation.
fn pay(client: u128, server: SocketAddr, load: &Load, seed: u64) -> Vec<u64> {
    let mut random = Random(seed ^ ((client as u64 + 1) << 32));
    let mut numbers = Vec::new();
    let is_stream = client >= CLIENTS * 2 / 3;
    let mut way: Box<dyn Ask> = match is_stream {
        true => Box::new(StreamClient::new(server, 1)),
        false => Box::new(Client::new(server, 1).expect("a socket")),
    };
    let longest = if is_stream {
        TCP_OPERATIONS_MAX
    } else {
        UDP_OPERATIONS_MAX
    };
    let Some(mut session) = way.open_transfer(REQUEST_TIMEOUT) else {
        load.fault(format!("client {client} gets no session"));
        return numbers;
    };
    let mut uuid = client << 64;
    while !load.is_over() {
        let operations: Vec<_> = (0..=random.below(longest))
            .map(|_| {
                uuid += 1;
                packet::operation(transfer::TRANSFER, 0, SOURCE, FIRST + client, 1, uuid)
            })
            .collect();
        match execute(&mut *way, &session, &operations, load) {
            Ok(placed) => {
                load.acknowledge(placed.len() as u64);
                numbers.extend(placed);
                session.next += 1;
            }
            Err(why) => {
                load.fault(format!("client {client}: {why}"));
                return numbers;
            }
        }
    }
    numbers
}

/// Executes one packet. Returns the number of each executed operation. If the whole packet gets the status `busy`,
/// nothing was executed, so it is sent again. A single operation with the code `busy` was not executed either, but its
/// packet has used the sequence number.
fn execute(
    way: &mut dyn Ask,
    session: &Session,
    operations: &[[u8; packet::OPERATION_BYTES]],
    load: &Load,
) -> Result<Vec<u64>, String> {
    let body = packet::execute(session, operations);
    loop {
        let answer = way
            .ask(transfer::EXECUTE, &body, REQUEST_TIMEOUT)
            .ok_or("no answer")?;
        match answer.status {
            status::OK => {}
            status::BUSY => {
                load.repeated.fetch_add(1, Relaxed);
                continue;
            }
            other => return Err(format!("unexpected status {other} for sequence {}", session.next)),
        }
        let outcomes: Vec<_> = packet::outcomes(&answer.body).collect();
        if outcomes.len() != operations.len() {
            return Err(format!(
                "the reply has {} outcomes for {} operations",
                outcomes.len(),
                operations.len()
            ));
        }
        let mut numbers = Vec::new();
        for (code, uuid, number) in outcomes {
            match code {
                code::DONE => numbers.push(number),
                code::BUSY => {
                    load.repeated.fetch_add(1, Relaxed);
                }
                other => return Err(format!("the operation {uuid:x} got the unexpected code {other}")),
            }
        }
        return Ok(numbers);
    }
}

//! Attack with requests that make a service allocate memory, in a control group of 512 MiB. The kernel must not kill
//! the daemon, and the honest client must get answers during and after the attack. All attackers send from loopback,
//! for which the limits allow the largest shares.

use crate::cgroup::Cgroup;
use crate::channel::{self, Channel};
use crate::client::{Ask, Client};
use crate::packet::{self, OPERATION_BYTES, Session, column as column_op, status, transfer as transfer_op};
use crate::server::Server;
use crate::service::{BALANCE, Name, Service};
use crate::{Report, Scene, streams};
use anyhow::{Context, ensure};
use bytes::Bytes;
use lineside_client::hybrid::grpc::Client as HybridClient;
use lineside_fabric_maker::Workload;
use lineside_testkit::Random;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;
use tokio::runtime::Runtime;

/// Memory limit of the daemon in bytes.
const LIMIT_BYTES: u64 = 512 << 20;
/// Time-out of a request to a daemon under attack.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
/// Number of operations in a packet of `transfer`.
const OPERATIONS: usize = 12;
/// Maximum number of pending transfers that the attacker tries to create.
const PENDING_MAX: u64 = 200_000;
/// Size in bytes of a value and of a cell of `column`, which fit into one packet.
const VALUE_BYTES: usize = 1000;
/// Number of requests that the attacker sends before it reads the answers.
const BURST: u64 = 64;

/// Starts the service in a control group, runs `attack`, and checks that the daemon has survived.
fn confined(
    service: &mut Service,
    report: &mut Report,
    attack: impl FnOnce(&Service, &mut Server, &mut Report) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let group = match Cgroup::new(LIMIT_BYTES) {
        Ok(group) => group,
        Err(error) => {
            report.skipped = Some(format!("creating control groups is not permitted ({error})"));
            return Ok(());
        }
    };
    let mut server = service.start(Some(&group))?;
    let attacked = attack(service, &mut server, report);
    report.peak(group.peak_bytes());
    report.count("killed by the kernel", group.kills()?);
    ensure!(
        group.kills()? == 0,
        "the kernel killed the daemon because it reached the limit of {LIMIT_BYTES} bytes"
    );
    attacked?;
    ensure!(server.is_alive(), "the daemon ended");
    let health = server.page("/healthz")?;
    // The code 503 means that the service refuses new clients, which the attack may cause; any other code is a fault.
    ensure!(
        matches!(health.0, 200 | 503),
        "/healthz returned {}: {}",
        health.0,
        health.1
    );
    server.terminate()
}

fn any_port() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

/// Returns address `number` of the loopback network.
fn source(number: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x7f01_0000 + number)
}

/// Attacks `spv` with requests for random transactions, for which it must store nothing.
pub fn spv(scene: &Scene, report: &mut Report) -> anyhow::Result<()> {
    let mut service = Service::new(scene, Name::Spv, any_port(), "")?;
    let total: u64 = scene.scale.of(20_000, 2_000_000);
    confined(&mut service, report, |service, server, report| {
        let mut honest = service.honest(server)?;
        let mut random = Random(scene.seed);
        let mut attacker = Client::new(server.listen, 1)?;
        for _ in 0..total / BURST {
            for _ in 0..BURST {
                let mut body = vec![0; packet::spv::ROOT_BYTES];
                random.fill(&mut body[..32]);
                attacker.send(packet::spv::ROOT, &body);
            }
            report.count("answered", attacker.drain().0);
        }
        report.count("requests", total);
        honest.check(REQUEST_TIMEOUT)
    })
}

/// Attacks `transfer` with sessions from many addresses, long packets that sessions remember, pending transfers, and
/// connections that send only half a packet.
pub fn transfer(scene: &Scene, report: &mut Report) -> anyhow::Result<()> {
    let mut service = Service::new(scene, Name::Transfer, any_port(), "account_bits = 16\n")?;
    let sources: u32 = scene.scale.of(200, 5_000);
    let connections: u32 = scene.scale.of(200, 3_000);
    confined(&mut service, report, |service, server, report| {
        let mut honest = service.honest(server)?;
        let mut pending = honest
            .client
            .open_transfer(REQUEST_TIMEOUT)
            .context("the service granted the honest client no session")?;
        for number in 0..sources {
            let mut client = Client::from(source(number).into(), server.listen, 1)?;
            while let Some(session) = client.open_transfer(Duration::from_millis(500)) {
                report.count("sessions", 1);
                remember(&mut client, &session);
                if number > 0 {
                    break;
                }
            }
        }
        report.count("pending", make_pending(&mut honest.client, &mut pending)?);
        let streams = half_packets(server.listen, connections)?;
        report.count("connections", streams.len() as u64);
        honest.check(REQUEST_TIMEOUT)
    })
}

/// Executes a large packet, whose outcomes the session has to remember.
fn remember(client: &mut Client, session: &Session) {
    let refused = packet::operation(transfer_op::TRANSFER, 0, 1 << 100, 2, 1, 1);
    let body = packet::execute(session, &[refused; OPERATIONS]);
    client.ask(transfer_op::EXECUTE, &body, Duration::from_millis(500));
}

/// Creates pending transfers until the service refuses one. Returns the number of created ones.
fn make_pending(client: &mut Client, session: &mut Session) -> anyhow::Result<u64> {
    let create = packet::operation(transfer_op::CREATE, 0, 2, 0, 0, 1);
    let body = packet::execute(session, &[create]);
    client
        .ask(transfer_op::EXECUTE, &body, REQUEST_TIMEOUT)
        .context("the service did not answer the creation of an account")?;
    session.next += 1;
    let mut taken = 0;
    while taken < PENDING_MAX.min(BALANCE) {
        let name = |at: usize| u128::from(taken) + at as u128 + (1 << 64);
        let operations: Vec<[u8; OPERATION_BYTES]> = (0..OPERATIONS)
            .map(|at| packet::operation(transfer_op::TRANSFER, transfer_op::PENDING, 1, 2, 1, name(at)))
            .collect();
        let body = packet::execute(session, &operations);
        let answer = client
            .ask(transfer_op::EXECUTE, &body, REQUEST_TIMEOUT)
            .context("the service did not answer a packet with pending transfers")?;
        if answer.status == status::BUSY {
            continue;
        }
        session.next += 1;
        let done = packet::outcomes(&answer.body)
            .filter(|(code, ..)| *code == 0)
            .count();
        taken += done as u64;
        if done < OPERATIONS {
            return Ok(taken);
        }
    }
    anyhow::bail!("the service accepted {taken} pending transfers and refused none")
}

/// Opens TCP connections and sends the first half of a packet on each. The connections stay open as long as the result
/// exists.
fn half_packets(server: SocketAddr, connections: u32) -> anyhow::Result<Vec<TcpStream>> {
    let mut packet = packet::request(transfer_op::EXECUTE, 1, &vec![0; 60_000]);
    packet.truncate(packet.len() / 2);
    let mut streams = Vec::new();
    for _ in 0..connections {
        let mut stream = TcpStream::connect_timeout(&server, REQUEST_TIMEOUT)?;
        stream.set_write_timeout(Some(Duration::from_millis(200)))?;
        // If a connection exceeds the limits, the server may close it at once.
        if stream.write_all(&packet).is_ok() {
            streams.push(stream);
        }
    }
    Ok(streams)
}

/// Attacks `column` with sessions from many addresses, each with a change that the service remembers, then with many
/// long rows and growing cells.
pub fn column(scene: &Scene, report: &mut Report) -> anyhow::Result<()> {
    let mut service = Service::new(scene, Name::Column, any_port(), "")?;
    let sources: u32 = scene.scale.of(300, 20_000);
    let rows: u64 = scene.scale.of(20_000, 400_000);
    confined(&mut service, report, |service, server, report| {
        let mut honest = service.honest(server)?;
        let value = vec![7; VALUE_BYTES];
        for number in 0..sources {
            let mut client = Client::from(source(number).into(), server.listen, 1)?;
            if let Some(session) = client.open_column(Duration::from_millis(500)) {
                report.count("sessions", 1);
                let body = packet::column_body(session, b"shared", &value, 0);
                client.ask(column_op::PUT, &body, Duration::from_millis(500));
            }
        }
        let mut random = Random(scene.seed);
        let mut attacker = Client::new(server.listen, 1)?;
        for number in 0..rows {
            // Without a session, each change has its own nonce, which the service remembers.
            let session = Session {
                next: random.next(),
                ..Session::default()
            };
            let (op, row) = match number % 2 {
                0 => (column_op::PUT, format!("row{number}")),
                _ => (column_op::APPEND, "grows".to_owned()),
            };
            attacker.send(op, &packet::column_body(session, row.as_bytes(), &value, 0));
            if number % BURST == 0 {
                report.count("answered", attacker.drain().0);
            }
        }
        report.count("changes", rows);
        honest.check(REQUEST_TIMEOUT)
    })
}

/// Attacks `fabric` with calls of Deliver whose message never ends, on many connections, while the replica receives the
/// blocks of a channel.
pub fn fabric(scene: &Scene, report: &mut Report) -> anyhow::Result<()> {
    let runtime = Runtime::new()?;
    let workload = Workload {
        keys: 60,
        block: 5,
        transactions: 30,
        ..Workload::default()
    };
    let channel = Channel::start(&runtime, workload)?;
    channel.orderer.blocks.show(channel.height());
    let mut service = channel.replica(scene, "")?;
    let connections = scene.scale.of(20, 200);
    confined(&mut service, report, |_, server, report| {
        let held = runtime.block_on(streams::hold(
            server.listen,
            "/protos.Deliver/Deliver",
            connections,
        ))?;
        report.count("calls held", held.calls);
        report.count("bytes held", held.bytes);
        channel::wait_for(server, channel.height(), REQUEST_TIMEOUT)
    })
}

/// Attacks `hybrid` with batches of two million empty requests, and with calls whose message never ends, on many
/// connections.
pub fn hybrid(scene: &Scene, report: &mut Report) -> anyhow::Result<()> {
    let mut service = Service::new(scene, Name::Hybrid, any_port(), "")?;
    let connections = scene.scale.of(20, 200);
    let batches: u16 = scene.scale.of(4, 40);
    let runtime = Runtime::new()?;
    confined(&mut service, report, |service, server, report| {
        let mut honest = service.honest(server)?;
        let held = runtime.block_on(streams::hold(
            server.listen,
            "/lineside.hybrid.v1.Node/BatchSet",
            connections,
        ))?;
        report.count("calls held", held.calls);
        report.count("bytes held", held.bytes);
        honest.check(REQUEST_TIMEOUT)?;
        drop(held);
        let endpoint = server.listen.to_string();
        let identity = service.identity(50)?;
        let refused = runtime.block_on(async move {
            let asks = (0..batches).map(|_| {
                let (endpoint, identity) = (endpoint.clone(), identity.clone());
                tokio::spawn(async move {
                    let client = HybridClient::connect(&endpoint, None, identity).await?;
                    client.connection().batch_set(vec![Bytes::new(); 2_000_000]).await
                })
            });
            let asks: Vec<_> = asks.collect();
            let mut refused = 0;
            for ask in asks {
                refused += u64::from(ask.await?.is_err());
            }
            anyhow::Ok(refused)
        })?;
        report.count("batches refused", refused);
        ensure!(
            refused == u64::from(batches),
            "{refused} of {batches} empty batches were refused"
        );
        honest.check(REQUEST_TIMEOUT)
    })
}

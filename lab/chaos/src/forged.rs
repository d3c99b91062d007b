//! Attack with requests from source addresses that no host has, over a link between two network namespaces. The
//! server's kernel tries to resolve these addresses and queues the replies in the meantime; an honest client must still
//! get its answers.

use crate::client::Client;
use crate::server::Server;
use crate::service::{Honest, Name, Service};
use crate::{Report, Scene, packet};
use anyhow::{Context, ensure};
use lineside_testkit::netns::Wire;
use lineside_testkit::{PacketSocket, bpffs};
use lineside_wire::frame::{Addressing, build};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Number of different source addresses in each of the two attacks.
const SOURCES: [u32; 2] = [1, 100];
/// Number of forged requests in a burst. With one burst each `PAUSE`, this gives 4,000 requests per second.
const BURST: u32 = 40;
const PAUSE: Duration = Duration::from_millis(10);
/// Time-out of one request of the honest client; an answer after that time counts as lost.
const REQUEST_TIMEOUT: Duration = Duration::from_millis(200);
/// Minimum percentage of honest requests that must be answered.
const SHARE: u64 = 95;
/// Configuration line of each service that lets the honest client write.
const TRUSTED: &str = "trusted_sources = [\"127.0.0.0/8\", \"10.0.0.1/32\", \"fd00::1/128\"]\n";
const ISSUERS: &str = "issuers = [\"10.0.0.1/32\", \"fd00::1/128\"]\n";

/// Runs the case for one service, over IPv4 and then over IPv6.
pub fn run(scene: &Scene, report: &mut Report, name: Name, datapath: &str) -> anyhow::Result<()> {
    let addresses: [IpAddr; 2] = [
        Ipv4Addr::new(10, 0, 0, 2).into(),
        Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2).into(),
    ];
    for address in addresses {
        let Some(wire) = Wire::new() else {
            report.skipped = Some("creating network namespaces needs root rights".to_owned());
            return Ok(());
        };
        attack(scene, report, name, datapath, address, &wire)?;
    }
    Ok(())
}

/// Starts the daemon, with all its threads, in the server's namespace.
fn start(
    scene: &Scene,
    name: Name,
    datapath: &str,
    address: IpAddr,
    wire: &Wire,
) -> anyhow::Result<Option<(Service, Server)>> {
    let keys = match name {
        Name::Spv => "line_bits = 16\n".to_owned(),
        Name::Transfer => format!("account_bits = 14\n{TRUSTED}{ISSUERS}"),
        Name::Column | Name::Fabric | Name::Hybrid => TRUSTED.to_owned(),
    };
    let (scene, is_xdp) = (scene.clone(), datapath == "xdp");
    wire.server.run(move || {
        let mut service = Service::new(&scene, name, (address, 7790).into(), &keys)?;
        if is_xdp {
            let Some(pins) = bpffs::below_bpffs(&format!("forged-{}", name.section())) else {
                return Ok(None);
            };
            service.at_interface("x1", Path::new(&pins));
        }
        let server = service.start(None)?;
        Ok(Some((service, server)))
    })
}

fn attack(
    scene: &Scene,
    report: &mut Report,
    name: Name,
    datapath: &str,
    address: IpAddr,
    wire: &Wire,
) -> anyhow::Result<()> {
    let Some((service, server)) = start(scene, name, datapath, address, wire)? else {
        report.skipped = Some("there is no BPF file system, and mounting one needs root rights".to_owned());
        return Ok(());
    };
    let duration = Duration::from_secs(scene.scale.of(1, 10));
    let (server, totals) = wire.client.run(move || {
        let mut honest = service.honest(&server)?;
        let mut totals = Vec::new();
        for sources in SOURCES {
            totals.push(one_attack(&mut honest, &server, sources, duration)?);
        }
        anyhow::Ok((server, totals))
    })?;
    for ((sent, answered, asked), sources) in totals.into_iter().zip(SOURCES) {
        report.count("forged", sent);
        report.count("honest", asked);
        report.count("honest answered", answered);
        if answered * 100 < asked * SHARE {
            report.fault(format!(
                "{answered} of {asked} honest requests were answered ({address}, {sources} forged sources)"
            ));
        }
    }
    report.peak(server.peak_bytes());
    wire.server.run(move || server.terminate())
}

/// Sends honest requests while another thread sends forged ones. Returns three numbers: forged requests, right answers,
/// and honest requests.
fn one_attack(
    honest: &mut Honest,
    server: &Server,
    sources: u32,
    duration: Duration,
) -> anyhow::Result<(u64, u64, u64)> {
    let is_over = Arc::new(AtomicBool::new(false));
    let (op, body) = honest.question(false);
    let (listen, over) = (server.listen, Arc::clone(&is_over));
    // A new thread runs in the network namespace of the thread that starts it.
    let attacker = std::thread::spawn(move || forge(listen, sources, &packet::request(op, 1, &body), &over));
    let deadline = Instant::now() + duration;
    let mut client = Client::new(listen, 1 << 48)?;
    let (mut asked, mut answered) = (0, 0);
    while Instant::now() < deadline && !attacker.is_finished() {
        let is_known = asked % 2 == 0;
        let (op, body) = honest.question(is_known);
        asked += 1;
        // The client sends each request once, so an answer after the time-out counts as lost.
        let answer = client.ask_once(op, &body, REQUEST_TIMEOUT);
        if let Some(answer) = answer {
            ensure!(
                honest.is_right(is_known, &answer),
                "the honest client got {answer:?}"
            );
            answered += 1;
        }
    }
    is_over.store(true, Relaxed);
    let sent = attacker
        .join()
        .map_err(|_| anyhow::anyhow!("the attacker panicked"))??;
    ensure!(sent > 0 && asked > 0, "nothing was sent");
    Ok((sent, answered, asked))
}

/// Sends `request` from source addresses that no host has, until `is_over` is true. Returns the number of requests.
fn forge(server: SocketAddr, sources: u32, request: &[u8], is_over: &AtomicBool) -> anyhow::Result<u64> {
    let socket = PacketSocket::open("x0")?;
    let mut number = 0u32;
    while !is_over.load(Relaxed) {
        for _ in 0..BURST {
            let host = 100 + number % sources;
            let source: IpAddr = match server.ip() {
                IpAddr::V4(_) => Ipv4Addr::from(0x0a00_0000 + host).into(),
                IpAddr::V6(_) => Ipv6Addr::from((0xfd00 << 112) + u128::from(host)).into(),
            };
            let addressing = Addressing {
                source_mac: [2, 0, 0, 0, 0, 1],
                destination_mac: [2, 0, 0, 0, 0, 2],
                vlan: None,
                source,
                destination: server.ip(),
                source_port: 20_000 + (number % 20_000) as u16,
                destination_port: server.port(),
            };
            let mut frame = vec![0; request.len() + 100];
            let bytes = build(&mut frame, &addressing, request)
                .context("cannot build a frame with a forged source")?;
            socket.send(&frame[..bytes])?;
            number += 1;
        }
        std::thread::sleep(PAUSE);
    }
    Ok(u64::from(number))
}

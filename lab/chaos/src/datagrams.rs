//! Attack with random, truncated, extended and mutated datagrams, while an honest client keeps sending requests.

use crate::client::Client;
use crate::service::{Name, Service};
use crate::{Report, Scene, packet};
use anyhow::ensure;
use lineside_testkit::Random;
use std::net::Ipv4Addr;
use std::time::Duration;

/// Address of the attacker. It has no right to write, because a mutated datagram may be a valid request.
const STRANGER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 9);
/// Number of datagrams between two checks of the honest client.
const BETWEEN_CHECKS: u64 = 500;
/// Time-out of one request of the honest client.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum payload of a datagram over IPv4, in bytes.
const DATAGRAM_BYTES_MAX: usize = 65_507;
/// Maximum growth of the daemon's memory in bytes, after the first tenth of the datagrams.
const GROWTH_MAX: u64 = 32 << 20;

/// Runs the case for one service.
pub fn run(scene: &Scene, report: &mut Report, name: Name) -> anyhow::Result<()> {
    let small = match name {
        Name::Spv => "line_bits = 16\n",
        Name::Transfer => "account_bits = 14\nissuers = [\"127.0.0.1/32\"]\n",
        Name::Column | Name::Fabric | Name::Hybrid => "trusted_sources = [\"127.0.0.1/32\"]\n",
    };
    let mut service = Service::new(scene, name, (Ipv4Addr::LOCALHOST, 0).into(), small)?;
    let mut server = service.start(None)?;
    let mut honest = service.honest(&server)?;
    let attacker = Client::from(STRANGER.into(), server.listen, 1)?;
    let mut random = Random(scene.seed);
    let total: u64 = scene.scale.of(5_000, 200_000);
    let mut early_peak = 0;
    for number in 0..total {
        let datagram = mutate(&honest.question(true), &mut random);
        attacker.send_raw(&datagram);
        if (number + 1) % BETWEEN_CHECKS == 0 {
            report.count("answered", attacker.drain().0);
            ensure!(server.is_alive(), "the daemon ended after {number} datagrams");
            honest.check(REQUEST_TIMEOUT)?;
            report.count("checks", 2);
        }
        if number == total / 10 {
            early_peak = server.peak_bytes().unwrap_or(0);
        }
    }
    report.count("datagrams", total);
    report.peak(server.peak_bytes());
    let grown = report.peak_bytes.unwrap_or(0).saturating_sub(early_peak);
    ensure!(
        grown <= GROWTH_MAX,
        "the memory of the daemon grew by {grown} bytes during the attack"
    );
    let (code, health) = server.page("/healthz")?;
    ensure!(code == 200, "/healthz returned {code}: {health}");
    server.terminate()
}

/// Returns a datagram made from a valid request by one mutation, or random bytes.
fn mutate((op, body): &(u8, Vec<u8>), random: &mut Random) -> Vec<u8> {
    let mut datagram = packet::request(*op, random.next(), body);
    match random.below(6) {
        0 => {
            datagram = vec![0; random.index(1500)];
            random.fill(&mut datagram);
        }
        1 => datagram.truncate(random.index(datagram.len())),
        2 => datagram.resize(datagram.len() + random.index(3000), random.next() as u8),
        3 => datagram.resize(DATAGRAM_BYTES_MAX, 0),
        4 => {
            // The header gets any operation and length, and the content is random.
            datagram[3] = random.next() as u8;
            datagram[6..8].copy_from_slice(&(random.next() as u16).to_be_bytes());
            random.fill(&mut datagram[packet::HEADER_BYTES..]);
        }
        _ => {
            for _ in 0..=random.below(4) {
                let at = random.index(datagram.len());
                datagram[at] ^= 1 << random.below(8);
            }
        }
    }
    datagram
}

//! `lineside fabric send-paper`: sends recorded blocks as packets in the paper's format.

use crate::out::Unwritten;
use crate::out::counted;
use anyhow::{Context, bail};
use clap::Args;
use lineside_fabric::replay::read;
use lineside_fabric_replica::files::read_paper_identities;
use lineside_fabric_udp::paper::{PaperSender, PaperSent};
use serde_json::json;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Bytes of the headers of IP and UDP, which count towards the rate.
const HEADERS_BYTES: u64 = 28;
/// Maximum time by which the sender may be ahead of the configured rate; it sleeps when it is further ahead.
const RATE_LEAD: Duration = Duration::from_millis(1);

/// Send recorded blocks to a replica as packets in the paper's format.
///
/// The replica runs `lineside fabric serve --udp-paper` and must trust this address. It does not reply: it fetches
/// blocks whose packets were lost, the genesis block, and blocks that set the configuration from an orderer.
#[derive(Args)]
pub struct SendPaper {
    /// Directory with the blocks as NNNNN.orderer.pb.gz.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Address and UDP port of the replica (its --udp-listen).
    #[arg(long, value_name = "ADDR:PORT", value_parser = crate::address::parse)]
    to: SocketAddr,
    /// Local address and port to send from [default: any free port]
    #[arg(long, value_name = "ADDR:PORT", value_parser = crate::address::parse)]
    bind: Option<SocketAddr>,
    /// File with the paper's configuration (fabric_machine.yaml), which numbers identities [default: none]
    #[arg(long, value_name = "FILE")]
    identities: Option<PathBuf>,
    /// Number of the first block.
    #[arg(long, value_name = "BLOCK", default_value_t = 1)]
    from: u64,
    /// Number of blocks, including those that cannot be sent [default: all]
    #[arg(long, value_name = "BLOCKS")]
    count: Option<u64>,
    /// Maximum rate in bytes a second, headers of IP and UDP included; 0: no limit.
    #[arg(long, value_name = "BYTES", default_value_t = 12_500_000)]
    bytes_per_s: u64,
    /// Number of times that each block is sent, against loss; the replica ignores a block that it has.
    #[arg(long, value_name = "N", default_value_t = 1)]
    times: u32,
}

/// Socket that sends at most `bytes_per_s` bytes a second.
struct Paced {
    socket: UdpSocket,
    bytes_per_s: u64,
    started_at: Instant,
    bytes: u64,
}

impl Paced {
    fn send(&mut self, packet: &[u8]) -> anyhow::Result<()> {
        if self.bytes_per_s > 0 {
            let due = Duration::from_secs_f64(self.bytes as f64 / self.bytes_per_s as f64);
            let ahead = due.saturating_sub(self.started_at.elapsed());
            if ahead > RATE_LEAD {
                std::thread::sleep(ahead);
            }
        }
        self.bytes += packet.len() as u64 + HEADERS_BYTES;
        match self.socket.send(packet) {
            // No process listened when an earlier packet arrived; the replica may start later.
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => Ok(()),
            sent => {
                sent.context("cannot send")?;
                Ok(())
            }
        }
    }
}

fn socket(arguments: &SendPaper) -> anyhow::Result<UdpSocket> {
    let any = match arguments.to {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let bind = arguments.bind.unwrap_or(any);
    let socket = UdpSocket::bind(bind)
        .with_context(|| format!("cannot send from {bind}; give another address with --bind"))?;
    socket
        .connect(arguments.to)
        .with_context(|| format!("cannot send to {}", arguments.to))?;
    Ok(socket)
}

/// Sends the blocks and prints a summary.
///
/// # Errors
/// A file cannot be read, the socket cannot be used, or the directory lacks the first block.
pub fn send(arguments: &SendPaper, as_json: bool) -> anyhow::Result<()> {
    let identities = arguments.identities.as_deref().map(read_paper_identities);
    let identities = identities.transpose()?.unwrap_or_default();
    let mut paced = Paced {
        socket: socket(arguments)?,
        bytes_per_s: arguments.bytes_per_s,
        started_at: Instant::now(),
        bytes: 0,
    };
    let mut sender = PaperSender::new();
    for identity in &identities {
        if let Some(update) = sender.add(identity.id, &identity.identity) {
            paced.send(&update)?;
        }
    }
    let end = arguments
        .count
        .map_or(u64::MAX, |count| arguments.from.saturating_add(count));
    let reading = || format!("cannot read the blocks in {}", arguments.directory.display());
    let (mut number, mut left_out) = (arguments.from, Vec::new());
    while number < end
        && let Some(block) = read(&arguments.directory, number, "orderer").with_context(reading)?
    {
        match sender.packets(&block) {
            Err(why) => left_out.push((number, why.to_string())),
            Ok(packets) => {
                for _ in 0..arguments.times {
                    packets.iter().try_for_each(|packet| paced.send(packet))?;
                }
            }
        }
        number += 1;
    }
    if number == arguments.from {
        bail!(
            "{} has no block {number} ({number:05}.orderer.pb.gz)",
            arguments.directory.display()
        );
    }
    say_sent(&sender.sent(), &left_out, paced.started_at.elapsed(), as_json)?;
    Ok(())
}

fn say_sent(
    sent: &PaperSent,
    left_out: &[(u64, String)],
    took: Duration,
    as_json: bool,
) -> Result<(), Unwritten> {
    let seconds = took.as_secs_f64();
    if as_json {
        let left_out = left_out
            .iter()
            .map(|(number, why)| json!({ "block": number, "why": why }));
        let line = json!({
            "blocks": sent.blocks, "transactions": sent.transactions, "datagrams": sent.datagrams,
            "bytes": sent.bytes, "block_bytes": sent.block_bytes, "updates": sent.updates, "seconds": seconds,
            "left_out": left_out.collect::<Vec<_>>(),
        });
        return say!("{line}");
    }
    for (number, why) in left_out {
        say!("block {number} was not sent: {why}")?;
    }
    let saved = 100.0 - 100.0 * sent.bytes as f64 / (sent.block_bytes as f64).max(1.0);
    say!(
        "{}, {} in {} ({} of the receiver's cache of identities), {}, {saved:.0} % less than the blocks, in \
         {seconds:.2} s",
        counted(sent.blocks, "block"),
        counted(sent.transactions, "transaction"),
        counted(sent.datagrams, "datagram"),
        counted(sent.updates, "update"),
        counted(sent.bytes, "byte")
    )
}

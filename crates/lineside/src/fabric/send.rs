//! `lineside fabric send`: receives blocks from an orderer by Deliver and sends them to one replica over UDP. Runs next
//! to the orderer.

use crate::fabric::asks::Refusals;
use crate::fabric::orderer::Following;
use crate::out::counted;
use crate::out::{self, Unwritten};
use crate::run::end_notice;
use anyhow::{Context, bail};
use clap::Args;
use clap::builder::RangedU64ValueParser;
use lineside_fabric_grpc::client::{Follower, Options, ReceivedBlock};
use lineside_fabric_replica::files::read_udp_key as read_key;
use lineside_fabric_udp::driver::BlockSource;
use lineside_fabric_udp::{Sender, SenderCounters, SenderOptions};
use serde_json::json;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, oneshot};

/// Maximum number of blocks that wait to be sent, in addition to those that the sender keeps for repeats.
const WAITING_BLOCKS_MAX: usize = 8;
/// Time without a reply from a receiver after which a message says that the sender still waits.
const RECEIVER_SILENCE: Duration = Duration::from_secs(5);
/// Payload bytes of a packet of 1,500 bytes, without the headers of IP and UDP.
const PAYLOAD_V4: usize = 1_472;
const PAYLOAD_V6: usize = 1_452;

/// Send a channel's blocks from an orderer over UDP to one replica, until a signal.
///
/// Run this next to an orderer. The replica runs `lineside fabric serve --udp-listen`. Sending begins with the block
/// that the replica needs next.
#[derive(Args)]
pub struct Send {
    #[command(flatten)]
    following: Following,
    /// Name of the channel.
    #[arg(long, value_name = "NAME")]
    channel: String,
    /// Address and UDP port of the replica (its --udp-listen).
    #[arg(long, value_name = "ADDR:PORT", value_parser = crate::address::parse)]
    to: SocketAddr,
    /// Local address and port to send from [default: any free port]
    #[arg(long, value_name = "ADDR:PORT", value_parser = crate::address::parse)]
    bind: Option<SocketAddr>,
    /// File with the key that is shared with the replica, at least 64 hex digits; only its owner may be able to read
    /// it.
    #[arg(long, value_name = "FILE")]
    udp_key: PathBuf,
    /// Maximum rate in bytes a second, headers of IP and UDP included; 0: no limit.
    #[arg(long, value_name = "BYTES", default_value_t = 125_000_000)]
    bytes_per_s: u64,
    /// Maximum number of bytes that are sent at once.
    #[arg(long, value_name = "BYTES", default_value_t = 65_536)]
    burst_bytes: u64,
    /// Maximum payload bytes of a datagram, 600 to 8972; use 8972 on networks with jumbo frames [default: 1472 for
    /// IPv4, 1452 for IPv6]. An identity that does not fit (most have 800 to 1,100 bytes) is sent again with each
    /// transaction, which saves nothing.
    #[arg(long, value_name = "BYTES", value_parser = RangedU64ValueParser::<usize>::new().range(600..=8_972))]
    payload_bytes: Option<usize>,
    /// Number of sent blocks that are kept to be sent again.
    #[arg(
        long,
        value_name = "BLOCKS",
        default_value_t = 1_024,
        value_parser = RangedU64ValueParser::<usize>::new().range(1..)
    )]
    blocks_kept: usize,
}

impl Send {
    fn options(&self) -> SenderOptions {
        let payload_bytes = self.payload_bytes.unwrap_or(match self.to.ip().to_canonical() {
            IpAddr::V4(_) => PAYLOAD_V4,
            IpAddr::V6(_) => PAYLOAD_V6,
        });
        SenderOptions {
            payload_bytes,
            bytes_per_s: self.bytes_per_s,
            burst_bytes: self.burst_bytes,
            blocks_kept: self.blocks_kept,
            ..SenderOptions::default()
        }
    }

    fn socket(&self) -> anyhow::Result<UdpSocket> {
        let any: IpAddr = match self.to {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let bind = self.bind.unwrap_or((any, 0).into());
        let socket = UdpSocket::bind(bind)
            .with_context(|| format!("cannot send from {bind}; give another address with --bind"))?;
        socket
            .connect(self.to)
            .with_context(|| format!("cannot send to {}", self.to))?;
        Ok(socket)
    }
}

/// Source of blocks for the sender's thread: a queue that the follower of the orderer fills.
struct Fed {
    begin: Option<oneshot::Sender<u64>>,
    blocks: mpsc::Receiver<ReceivedBlock>,
}

impl BlockSource for Fed {
    fn begin(&mut self, next: u64) {
        if let Some(begin) = self.begin.take() {
            // The receiver is gone only when the command ends.
            let _ = begin.send(next);
        }
    }

    fn next(&mut self) -> io::Result<Option<(u64, Arc<[u8]>)>> {
        match self.blocks.try_recv() {
            Ok(received) => Ok(Some((received.number, Arc::from(&received.bytes[..])))),
            Err(mpsc::error::TryRecvError::Empty) => Ok(None),
            Err(mpsc::error::TryRecvError::Disconnected) => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// Waits until the replica has named the block that it needs next, then follows the orderer from there.
async fn feed(
    (mut following, refusals): (Options, &Refusals),
    mut begin: oneshot::Receiver<u64>,
    blocks: mpsc::Sender<ReceivedBlock>,
) {
    let begun = match tokio::time::timeout(RECEIVER_SILENCE, &mut begin).await {
        Ok(begun) => begun,
        Err(_) => {
            tell!("lineside: no replica with this key has answered yet; still waiting");
            begin.await
        }
    };
    let Ok(from) = begun else { return };
    following.from = from;
    let mut follower = Follower::new(following);
    loop {
        let received = follower.next().await;
        refusals.answered();
        if blocks.send(received).await.is_err() {
            return;
        }
    }
}

/// Sends blocks until a signal arrives.
///
/// # Errors
/// A key, certificate or socket cannot be used, or all orderers refuse.
pub fn send(arguments: &Send, as_json: bool) -> anyhow::Result<()> {
    let key = read_key(&arguments.udp_key)?;
    let (following, refusals) = arguments.following.options(&arguments.channel, 0)?;
    let socket = arguments.socket()?;
    let from = socket.local_addr()?;
    let mut session = [0; 16];
    getrandom::fill(&mut session).context("cannot create a random session id")?;
    let mut sender = Sender::new(key, session, arguments.options());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let (give, blocks) = mpsc::channel(WAITING_BLOCKS_MAX);
        let (begin, begun) = oneshot::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = Arc::clone(&stop);
        let mut sending = tokio::task::spawn_blocking(move || {
            let begin = Some(begin);
            let sent = sender.run(&socket, &mut Fed { begin, blocks }, &stopping);
            sent.map(|()| sender.counters())
        });
        out::said_by_server(say_started(&arguments.channel, from, arguments.to, as_json));
        let mut refused = None;
        tokio::select! {
            ended = &mut sending => {
                ended?.context("cannot send")?;
                return Ok(());
            }
            () = feed((following, &refusals), begun, give) => {}
            why = refusals.wait() => refused = Some(why),
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        stop.store(true, Ordering::Relaxed);
        match sending.await? {
            // The queue closed shortly before the sender saw the request to stop.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
            sent => say_sent(&sent.context("cannot send")?, as_json)?,
        }
        match refused {
            Some(why) => bail!(why),
            None => Ok(()),
        }
    })
}

fn say_started(channel: &str, from: SocketAddr, to: SocketAddr, as_json: bool) -> Result<(), Unwritten> {
    match as_json {
        true => say!("{}", json!({ "channel": channel, "from": from, "to": to })),
        false => {
            let notice = end_notice()
                .map(|notice| format!("; {notice}"))
                .unwrap_or_default();
            say!("channel {channel}: sending blocks from the address {from} to {to}{notice}")
        }
    }
}

fn say_sent(counters: &SenderCounters, as_json: bool) -> Result<(), Unwritten> {
    let SenderCounters {
        datagrams,
        bytes,
        blocks,
        retransmitted: again,
        refused,
        receivers,
        ..
    } = *counters;
    match as_json {
        true => say!(
            "{}",
            json!({
                "datagrams": datagrams, "bytes": bytes, "blocks": blocks, "again": again, "refused": refused,
                "receivers": receivers,
            })
        ),
        false => say!(
            "{} in {}, {}; {} sent again; {} from receivers refused (wrong key, replayed, or of another \
             session)",
            counted(blocks, "block"),
            counted(datagrams, "datagram"),
            counted(bytes, "byte"),
            counted(again, "range"),
            counted(refused, "datagram")
        ),
    }
}

//! `lineside fabric send`: beside an orderer, it takes blocks by Deliver and sends them to one receiver over UDP.

use crate::fabric::asks::Refusals;
use crate::fabric::orderer::Following;
use crate::out::{self, Unwritten};
use anyhow::{Context, bail};
use clap::Args;
use clap::builder::RangedU64ValueParser;
use lineside_fabric_grpc::client::{Follower, Options, Received};
use lineside_fabric_replica::files::read_udp_key as read_key;
use lineside_fabric_udp::driver::Source;
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

/// Blocks that wait to be sent, besides those that the sender keeps.
const WAITING: usize = 8;
/// After so long without a receiver it is said that there is none.
const SILENCE: Duration = Duration::from_secs(5);
/// What is left of 1,500 bytes behind the headers of IP and UDP.
const PAYLOAD_V4: usize = 1_472;
const PAYLOAD_V6: usize = 1_452;

/// Take a channel's blocks from an orderer, and send them over UDP to one `serve --udp-listen`, until a signal ends it.
/// It begins with the block that the receiver takes next.
#[derive(Args)]
pub struct Send {
    #[command(flatten)]
    following: Following,
    /// The channel.
    #[arg(long)]
    channel: String,
    /// Where the receiver listens.
    #[arg(long)]
    to: SocketAddr,
    /// The address to send from; any free one by default.
    #[arg(long)]
    bind: Option<SocketAddr>,
    /// The key that is shared with the receiver: a file with 64 hex digits or more, for its owner's eyes only.
    #[arg(long)]
    udp_key: PathBuf,
    /// Bytes a second at most, headers of IP and UDP included; 0: no limit.
    #[arg(long, default_value_t = 125_000_000)]
    bytes_per_s: u64,
    /// Bytes that may leave at once.
    #[arg(long, default_value_t = 65_536)]
    burst_bytes: u64,
    /// Payload of a datagram at most: 8972 where frames are jumbo; what fits into 1500 bytes by default. An identity
    /// that does not fit one (most have 800 to 1,100 bytes) is sent with each transaction, which saves nothing.
    #[arg(long, value_parser = RangedU64ValueParser::<usize>::new().range(600..=8_972))]
    payload_bytes: Option<usize>,
    /// Blocks that are kept to be sent again.
    #[arg(long, default_value_t = 1_024, value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
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
        let socket = UdpSocket::bind(bind).with_context(|| format!("sending from {bind}"))?;
        socket
            .connect(self.to)
            .with_context(|| format!("sending to {}", self.to))?;
        Ok(socket)
    }
}

/// What the sender's thread takes blocks from.
struct Fed {
    begin: Option<oneshot::Sender<u64>>,
    blocks: mpsc::Receiver<Received>,
}

impl Source for Fed {
    fn begin(&mut self, next: u64) {
        if let Some(begin) = self.begin.take() {
            // Nobody waits for it only when all of it ends.
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

/// Follows the orderer, once a receiver has said from where on.
async fn feed(
    (mut following, refusals): (Options, &Refusals),
    mut begin: oneshot::Receiver<u64>,
    blocks: mpsc::Sender<Received>,
) {
    let begun = match tokio::time::timeout(SILENCE, &mut begin).await {
        Ok(begun) => begun,
        Err(_) => {
            tell!("lineside: nobody with this key has answered yet");
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

/// Sends until a signal comes.
///
/// # Errors
/// What stands in the way.
pub fn send(arguments: &Send, as_json: bool) -> anyhow::Result<()> {
    let key = read_key(&arguments.udp_key)?;
    let (following, refusals) = arguments.following.options(&arguments.channel, 0)?;
    let socket = arguments.socket()?;
    let from = socket.local_addr()?;
    let mut session = [0; 16];
    getrandom::fill(&mut session).context("a random session id")?;
    let mut sender = Sender::new(key, session, arguments.options());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let (give, blocks) = mpsc::channel(WAITING);
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
                ended?.context("sending")?;
                return Ok(());
            }
            () = feed((following, &refusals), begun, give) => {}
            why = refusals.wait() => refused = Some(why),
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        stop.store(true, Ordering::Relaxed);
        match sending.await? {
            // The feed ended a moment before the sender saw the stop.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
            sent => say_sent(&sent.context("sending")?, as_json)?,
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
        false => say!("channel {channel}: from {from} to {to}; Ctrl-C ends it"),
    }
}

fn say_sent(counters: &SenderCounters, as_json: bool) -> Result<(), Unwritten> {
    let SenderCounters {
        datagrams,
        bytes,
        blocks,
        again,
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
            "{blocks} blocks in {datagrams} datagrams, {bytes} bytes; sent again {again}, refused {refused}"
        ),
    }
}

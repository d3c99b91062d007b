//! `lineside fabric serve`: a committing replica. It follows an orderer, validates, keeps the ledger, and serves its
//! blocks as a peer does.

use crate::fabric_asks::unusable;
use crate::fabric_ledger::{Kept, begins_with};
use crate::fabric_orderer::Following;
use crate::fabric_udp::{Udp, UdpSource};
use crate::fabric_watch::Watch;
use crate::out::{self, Unwritten};
use anyhow::{Context, bail};
use clap::Args;
use lineside_console::Console;
use lineside_fabric::Error;
use lineside_fabric::ledger::results::Publisher;
use lineside_fabric::ledger::{Added, LedgerError, Replica};
use lineside_fabric_grpc::client::{self, Ahead, Received};
use lineside_fabric_grpc::replica::{Teller, committed};
use lineside_fabric_grpc::serve::{Limits, Role};
use lineside_fabric_grpc::{ServerTls, Source, start};
use lineside_journal::FsDisk;
use serde_json::json;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;

/// Blocks that a results file has places for.
const RESULTS: usize = 64;

/// Follow an orderer, validate and keep its blocks, and serve them as a peer does, until a signal ends it.
#[derive(Args)]
pub struct Serve {
    #[command(flatten)]
    kept: Kept,
    #[command(flatten)]
    following: Following,
    #[command(flatten)]
    udp: Udp,
    /// The channel's genesis block, where the ledger has none yet: a file as `peer channel fetch` writes it.
    #[arg(long)]
    genesis: Option<PathBuf>,
    /// Where block events are served.
    #[arg(long, default_value_t = SocketAddr::from((Ipv4Addr::LOCALHOST, 7051)))]
    listen: SocketAddr,
    /// The server's certificate; without one there is no TLS.
    #[arg(long, requires = "key")]
    certificate: Option<PathBuf>,
    /// Its key.
    #[arg(long, requires = "certificate")]
    key: Option<PathBuf>,
    /// CA certificates of clients, for mutual TLS.
    #[arg(long, requires = "certificate")]
    client_ca: Option<PathBuf>,
    /// A file that other processes map, with what became of the last 64 blocks.
    #[arg(long)]
    results: Option<PathBuf>,
    /// Address and port for `/metrics`, `/healthz` and `/status`; without it there is no console.
    #[arg(long)]
    console: Option<SocketAddr>,
}

impl Serve {
    fn open(&self) -> anyhow::Result<(Replica<FsDisk>, Arc<Watch>)> {
        let results = match &self.results {
            Some(file) => Publisher::open(file, RESULTS).with_context(|| file.display().to_string())?,
            None => Publisher::anonymous(RESULTS)?,
        };
        let watch = Watch::new(&results);
        let mut replica = self.kept.open(Some(results))?;
        let genesis = match &self.genesis {
            Some(file) => Some(std::fs::read(file).with_context(|| file.display().to_string())?),
            None => None,
        };
        match genesis {
            Some(bytes) if replica.next() == 0 => {
                replica.add(bytes)?;
                replica.flush()?;
            }
            None if replica.next() == 0 => bail!(
                "the ledger is empty: --genesis FILE gives the channel's first block, which nobody else vouches for"
            ),
            Some(bytes) if !begins_with(&replica, &bytes) => {
                bail!("--genesis: the ledger begins with another block");
            }
            _ => {}
        }
        Ok((replica, watch))
    }

    fn server_tls(&self) -> anyhow::Result<Option<ServerTls>> {
        let (Some(certificate), Some(key)) = (&self.certificate, &self.key) else {
            return Ok(None);
        };
        let files = [Some(certificate), Some(key), self.client_ca.as_ref()];
        let tls = ServerTls::from_files(certificate, key, self.client_ca.as_deref());
        Ok(Some(tls.map_err(|error| unusable(&files, &error))?))
    }
}

/// What there is to do.
enum Step {
    /// A block has come. It is read while the one before is executed.
    Take(Received),
    /// No other has come. Those that were read are executed.
    Execute,
}

fn act(replica: &mut Replica<FsDisk>, teller: &Teller<FsDisk>, step: Step) -> Result<(), LedgerError> {
    match step {
        Step::Take(received) => {
            let added = replica.finish_after(received.bytes.into())?;
            tell(replica, teller, added.as_ref());
        }
        Step::Execute => {
            while let Some(added) = replica.finish_within(Duration::ZERO)? {
                tell(replica, teller, Some(&added));
            }
        }
    }
    Ok(())
}

fn tell(replica: &Replica<FsDisk>, teller: &Teller<FsDisk>, added: Option<&Added>) {
    if let (Some(added), Some(validator)) = (added, replica.validator()) {
        teller.taken(added.number, validator);
    }
}

/// Does it; `Err`: nothing more can be taken, and why.
fn take(replica: &mut Replica<FsDisk>, teller: &Teller<FsDisk>, step: Step) -> Result<Ahead, String> {
    match act(replica, teller, step) {
        Ok(()) => Ok(Ahead::On),
        Err(LedgerError::Validation {
            number,
            source: Error::Refused(why),
        }) => Ok(Ahead::Back(number, why.to_string())),
        // It is asked for again later.
        Err(error @ LedgerError::Full { .. }) => Ok(Ahead::Back(replica.next(), error.to_string())),
        Err(error) => Err(error.to_string()),
    }
}

/// Serves until a signal comes.
///
/// # Errors
/// What stands in the way of serving.
pub fn serve(arguments: &Serve, as_json: bool) -> anyhow::Result<()> {
    // What is wrong with the arguments is said before anything is made.
    let udp = arguments.udp.source()?;
    let (mut replica, watch) = arguments.open()?;
    let teller = committed(&replica)?.context("the ledger has no channel")?;
    let ledger = teller.committed();
    let mut following = arguments.following.options(ledger.channel(), replica.next())?;
    following.on_left = Some(watch.on_left(following.on_left.take()));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let why = runtime.block_on(async {
        // Before anybody can see that it serves, and end it.
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let sources: Vec<Arc<dyn Source>> = vec![Arc::clone(&ledger) as _];
        let server = start(
            arguments.listen,
            arguments.server_tls()?,
            Role::Peer,
            sources,
            Limits::default(),
        );
        let server = server
            .await
            .with_context(|| format!("listening on {}", arguments.listen))?;
        let channel = ledger.channel();
        let console = match arguments.console {
            Some(address) => {
                let console = watch.serve(address, channel, server.address, replica.waiter());
                Some(console.with_context(|| format!("the console on {address}"))?)
            }
            None => None,
        };
        let at = At {
            listen: server.address,
            udp: udp.as_ref().map(UdpSource::address).transpose()?,
            console: console.as_ref().map(Console::local_addr),
        };
        out::said_by_server(say_started(channel, &at, replica.next(), as_json));
        let read = Arc::new(Notify::new());
        let notify = Arc::clone(&read);
        replica.on_read(move || notify.notify_one());
        let mut stopped = None;
        let early = match &udp {
            Some(_) => replica.early()?,
            None => None,
        };
        let udp = match (udp, early) {
            (Some(udp), Some(early)) => {
                watch.works_early(early.clone());
                Some((udp, early))
            }
            _ => None,
        };
        let on = |received: Option<Received>| {
            let step = received.map_or(Step::Execute, Step::Take);
            if matches!(step, Step::Take(_)) {
                watch.came();
            }
            take(&mut replica, &teller, step).unwrap_or_else(|why| {
                watch.stopped(&why);
                stopped = Some(why);
                Ahead::Stop
            })
        };
        let follow = async {
            match udp {
                Some((udp, early)) => udp.follow(following, &read, early, on).await,
                None => {
                    client::follow_ahead(following, &read, on).await;
                    Ok(())
                }
            }
        };
        let ended = tokio::select! {
            ended = follow => Some(ended),
            _ = terminate.recv() => None,
            _ = interrupt.recv() => None,
        };
        if let Some(ended) = ended {
            let socket = ended.err().map(|error| format!("UDP: {error}"));
            stopped = stopped.or(socket);
            let why = stopped.clone().unwrap_or_default();
            tell!("lineside: nothing more is taken, and what there is is served on: {why}");
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        }
        server.stop().await?;
        anyhow::Ok(stopped)
    })?;
    drop(teller);
    let checkpointed = replica.checkpoint();
    replica.stop()?;
    match why {
        Some(why) => bail!("{why}"),
        None => Ok(checkpointed?),
    }
}

/// Where a replica can be reached.
struct At {
    listen: SocketAddr,
    udp: Option<SocketAddr>,
    console: Option<SocketAddr>,
}

fn say_started(channel: &str, at: &At, next: u64, as_json: bool) -> Result<(), Unwritten> {
    let At { listen, udp, console } = at;
    if as_json {
        let line = json!({
            "channel": channel,
            "blocks": next,
            "listen": listen.to_string(),
            "udp": udp,
            "console": console,
        });
        say!("{line}")
    } else {
        say!("channel {channel}: {next} blocks; block events on {listen}")?;
        if let Some(udp) = udp {
            say!("blocks come over UDP to {udp}")?;
        }
        if let Some(console) = console {
            say!("console on http://{console}/status, http://{console}/metrics")?;
        }
        say!("Ctrl-C ends it")
    }
}

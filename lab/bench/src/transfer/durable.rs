//! Contestants whose replies are durable: Lineside, Redis with a sync for every write, and PostgreSQL with a sync for
//! every commit. All use one disk and the loopback address. No thread is pinned to a core: servers have several
//! threads, and the one thread of the clients mostly waits.

use super::disk::Disk;
use super::drain::Removed;
use super::ours::LinesideServer;
use super::peer::{Peer, Requests, drive};
use super::plan::BALANCE;
use super::postgres::Postgres;
use super::redis::Redis;
use super::tally::{Faults, Tally};
use crate::error::{BenchError, Result};
use crate::gate::median;
use lineside_wire::TRANSFER_OPERATIONS_MAX;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::path::Path;
use std::time::Duration;

/// Number of connections; each has `WINDOW` requests in flight.
const CONNECTIONS: u32 = 50;
const WINDOW: usize = 16;
/// log2 of the number of accounts of each connection.
const BITS: u32 = 10;
/// Number of connections that send batches; each has `PACKETS` packets in flight.
const STREAMS: u32 = 8;
const PACKETS: usize = 2;
/// log2 of the number of accounts of each connection that sends batches.
const STREAM_BITS: u32 = 13;
const STREAMS_FROM: u32 = 1 << 16;
/// First account of the client that sends one transfer at a time.
const LONE_FROM: u32 = STREAMS_FROM + (STREAMS << STREAM_BITS);
/// First account of the clients that send the paper's packets.
const PAPER_FROM: u32 = LONE_FROM + (1 << BITS);
/// Number of accounts of all clients.
const ACCOUNTS: u32 = PAPER_FROM + (CONNECTIONS << BITS);

/// Kind of load: single transfers.
pub const SINGLE: &str = "transfer";
/// Kind of load: single transfers in packets of the paper's format over UDP, with the same number in flight.
pub const PAPER: &str = "transfer, paper packets";
/// Kind of load: transfers in native batches.
pub const BATCHES: &str = "transfer, native batches";
/// Kind of load: single transfers, one at a time.
pub const LONE: &str = "transfer, window 1";

/// Parameters of the durable measurements.
#[derive(Clone, Debug, Serialize)]
pub struct Durable {
    /// Disk on which all servers write.
    #[serde(flatten)]
    pub disk: Disk,
    /// Number of connections of each contestant.
    pub connections: u32,
    /// Number of requests in flight on each connection.
    pub window: usize,
    /// Number of transfers in a native batch.
    pub batch: usize,
}

impl Display for Durable {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let Disk {
            file_system,
            fdatasync_us,
            in_place_us,
        } = &self.disk;
        write!(
            out,
            "durable on {file_system}: fdatasync {fdatasync_us:.0} us after an append of 4 KiB, {in_place_us:.0} us in \
             place; {} connections x {} in flight, batches of {}",
            self.connections, self.window, self.batch
        )
    }
}

/// Results of the durable contestants, by contestant and kind of load.
pub struct DurableResults {
    /// Disk, and parameters of the load.
    pub durable: Durable,
    /// Counts of the runs, by contestant and kind of load.
    pub samples: BTreeMap<(&'static str, &'static str), Vec<Tally>>,
    /// Contestants that were not measured, with the reasons.
    pub absent: BTreeMap<&'static str, String>,
    /// Two medians over the rounds: the p50 of a single transfer divided by the time of an fdatasync after an append,
    /// and divided by the time of an fdatasync in place.
    pub lone_by_fdatasync: Option<(f64, f64)>,
    /// Faults in the accounts of all contestants.
    pub faults: Faults,
}

struct AccountFaults {
    name: &'static str,
    kind: &'static str,
    peers: Vec<Box<dyn Peer>>,
}

/// Measures the contestants in rounds, with all data below `folder`.
///
/// # Errors
/// [`BenchError::NotMeasured`] if the file system is in memory; or an error of a contestant.
pub fn measure(
    folder: &Path,
    rounds: usize,
    duration: Duration,
    tell: &mut dyn FnMut(&'static str),
) -> Result<DurableResults> {
    tell("durable: starting servers");
    let _removed = Removed::make(folder)?;
    let mut disks = vec![Disk::look(folder)?];
    let ours = LinesideServer::start(&folder.join("durable"), ACCOUNTS)?;
    let mut absent = BTreeMap::new();
    let mut lines = vec![
        line("durable", SINGLE, |at| ours.tcp(requests(at)))?,
        line("durable", PAPER, |at| {
            ours.udp(Requests::new(PAPER_FROM + (at << BITS), BITS, WINDOW, 1))
        })?,
        AccountFaults {
            name: "durable",
            kind: BATCHES,
            peers: (0..STREAMS)
                .map(|at| {
                    let base = STREAMS_FROM + (at << STREAM_BITS);
                    ours.tcp(Requests::new(
                        base,
                        STREAM_BITS,
                        PACKETS,
                        TRANSFER_OPERATIONS_MAX as u64,
                    ))
                })
                .collect::<Result<_>>()?,
        },
        AccountFaults {
            name: "durable",
            kind: LONE,
            peers: vec![ours.udp(Requests::new(LONE_FROM, BITS, 1, 1))?],
        },
    ];
    let redis = present(
        "redis",
        Redis::start(&folder.join("redis"), CONNECTIONS << BITS),
        &mut absent,
    )?;
    if let Some(redis) = &redis {
        lines.push(line("redis", SINGLE, |at| redis.client(requests(at)))?);
    }
    let postgres = Postgres::start(&folder.join("postgres"), CONNECTIONS << BITS);
    let postgres = present("postgres", postgres, &mut absent)?;
    if let Some(postgres) = &postgres {
        lines.push(line("postgres", SINGLE, |at| postgres.client(requests(at)))?);
    }
    let mut samples: BTreeMap<_, Vec<Tally>> = BTreeMap::new();
    let mut lone = Vec::new();
    for round in 0..rounds {
        for place in 0..lines.len() {
            let at = (place + round) % lines.len();
            let AccountFaults { name, kind, peers } = &mut lines[at];
            tell("durable contestants");
            if *kind == LONE {
                disks.push(Disk::look(folder)?);
            }
            let mut tally = drive(peers, duration / 8, duration)?;
            tally.wrong.name(name, kind);
            if let (true, Some(disk)) = (*kind == LONE, disks.last()) {
                let p50_us = tally.latency_us(0.5);
                lone.push((p50_us / disk.fdatasync_us, p50_us / disk.in_place_us));
            }
            samples.entry((*name, *kind)).or_default().push(tally);
        }
    }
    tell("durable: auditing");
    let mut faults = Faults::default();
    let whole = |accounts: u32| u64::from(accounts) * u64::from(BALANCE);
    held(&mut faults, ours.held(), whole(ACCOUNTS));
    for (name, held_now) in [
        (
            "redis",
            redis.as_ref().map(|redis| redis.held(CONNECTIONS << BITS)),
        ),
        ("postgres", postgres.as_ref().map(Postgres::held)),
    ] {
        let Some(held_now) = held_now else { continue };
        // A fault of another server does not end the benchmark, but makes the figures of that server void.
        if held_now? != whole(CONNECTIONS << BITS) {
            absent.insert(
                name,
                "no valid result: the sum of the server's accounts is wrong".into(),
            );
        }
    }
    once(&mut faults, &ours, &mut lines);
    let of = |of: fn(&Disk) -> f64| median(disks.iter().map(of)).unwrap_or_default();
    let ratio = |of: fn(&(f64, f64)) -> f64| median(lone.iter().map(of));
    Ok(DurableResults {
        durable: Durable {
            disk: Disk {
                file_system: disks[0].file_system.clone(),
                fdatasync_us: of(|disk| disk.fdatasync_us),
                in_place_us: of(|disk| disk.in_place_us),
            },
            connections: CONNECTIONS,
            window: WINDOW,
            batch: TRANSFER_OPERATIONS_MAX,
        },
        samples,
        absent,
        lone_by_fdatasync: ratio(|pair| pair.0).zip(ratio(|pair| pair.1)),
        faults,
    })
}

fn requests(connection: u32) -> Requests {
    Requests::new(connection << BITS, BITS, WINDOW, 1)
}

fn line(
    name: &'static str,
    kind: &'static str,
    client: impl Fn(u32) -> Result<Box<dyn Peer>>,
) -> Result<AccountFaults> {
    let peers = (0..CONNECTIONS).map(client).collect::<Result<_>>()?;
    Ok(AccountFaults { name, kind, peers })
}

/// Returns the server. If the server is not installed or does not start, returns `None` and adds the reason to
/// `absent`.
fn present<T>(
    name: &'static str,
    started: Result<T>,
    absent: &mut BTreeMap<&'static str, String>,
) -> Result<Option<T>> {
    match started {
        Err(BenchError::NotMeasured(why)) => {
            absent.insert(name, why);
            Ok(None)
        }
        other => other.map(Some),
    }
}

fn held(faults: &mut Faults, held: u64, due: u64) {
    faults.created += held.saturating_sub(due);
    faults.lost += due.saturating_sub(held);
}

/// Checks that Lineside executed each transfer once: it must have executed at most as many as were requested, and at
/// least as many as were answered.
fn once(faults: &mut Faults, ours: &LinesideServer, lines: &mut [AccountFaults]) {
    let done = ours.changes() / 2;
    let (mut asked, mut answered) = (0, 0);
    for line in lines.iter_mut().filter(|line| line.name == "durable") {
        for peer in &mut line.peers {
            asked += peer.requests().asked();
            answered += peer.requests().right_in_all();
        }
    }
    faults.doubled += done.saturating_sub(asked);
    faults.lost += answered.saturating_sub(done);
}

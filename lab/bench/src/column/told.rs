//! What the coprocessor costs HBase: threads put into a table of whose changes it tells, and into one of which it does
//! not, in turns.

use super::hbase::{self, OBSERVER_KEY, Peer};
use super::rows::{self, ROWS};
use super::served::{ROW_BITS, anonymous, failed, geometry};
use super::usage::{self, Usage};
use crate::error::{BenchError, Result, io};
use crate::gate::median;
use crate::sys;
use lineside_column::coherence::Coherence;
use lineside_column::hbase::notice::NoticeKey;
use lineside_column::hbase::{Listener, Options};
use lineside_column::host::CLOCK_SLACK_NS;
use lineside_column::servers::Servers;
use lineside_column::table::{Change, Nonce};
use lineside_column::writer::ColumnWriter;
use lineside_fastpath::lease;
use lineside_hbase_client::rpc::HBase as Rpc;
use serde::Serialize;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Rows of which the coprocessor tells.
const TOLD: &str = "told";
/// Of these the versions are far above all others.
const FIRST_VERSION: u64 = 1 << 40;
/// How long the first lease may take to come.
const LEASE_TIME: Duration = Duration::from_secs(20);

/// The thread of the coprocessor that hears, and ours.
const FAR_THREAD: &str = "lineside";
const OWN_THREAD: &str = "column-notices";

/// What one put takes, both processes' share of it.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct PutUse {
    /// HBase's; the thread is the one that hears acknowledgements.
    pub hbase: Usage,
    /// Of clients and subscriber; the thread is the subscriber's.
    pub own: Usage,
}

impl PutUse {
    fn now(peer: &Peer) -> Result<Self> {
        Ok(Self {
            hbase: usage::of(peer.pid(), FAR_THREAD)?,
            own: usage::own(OWN_THREAD)?,
        })
    }

    fn each(&self, count: f64) -> Self {
        Self {
            hbase: self.hbase.each(count),
            own: self.own.each(count),
        }
    }
}

/// Puts, medians of the rounds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ToldCost {
    /// A second, into the table of which nobody tells.
    pub untold_per_s: f64,
    /// A second, into the other one.
    pub told_per_s: f64,
    /// The latter by the former, of the same round.
    pub ratio: f64,
    /// What the subscriber heard for each put that was told.
    pub notices: f64,
    /// What a put takes of which nobody tells, means of all rounds.
    pub untold: PutUse,
    /// What one takes that is told.
    pub told: PutUse,
}

/// Measures `rounds`, each way for `duration`.
///
/// # Errors
/// [`BenchError::Void`] where a put was not made, or was not told.
pub fn measure(peer: &mut Peer, rounds: usize, duration: Duration) -> Result<ToldCost> {
    peer.make(TOLD)?;
    let store = anonymous(&geometry(ROW_BITS, false))?;
    let coherence = Arc::new(Coherence::new(Box::new(ColumnWriter::new(store))));
    let servers = Arc::new(Servers::all_of(coherence, CLOCK_SLACK_NS, 1));
    let options = Options {
        listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        servers: vec![peer.observer()],
        key: NoticeKey::new(&OBSERVER_KEY).ok_or_else(|| BenchError::Void("a key is too short".into()))?,
        table: TOLD.into(),
        columns: 1,
    };
    let listener =
        Listener::start(options, Arc::clone(&servers), Box::new(|| ())).map_err(io("starting a listener"))?;
    peer.observe(TOLD, listener.local_addr())?;
    let began = Instant::now();
    // Until then the subscriber need not be told.
    while servers.leased(lease::now_ns()) == 0 {
        if began.elapsed() > LEASE_TIME {
            return Err(BenchError::Void("the coprocessor grants no lease".into()));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let (untold, told) = (peer.connect_rpc(hbase::WRITTEN)?, peer.connect_rpc(TOLD)?);
    for table in [&untold, &told] {
        puts(table, duration)?;
    }
    let mut seen = Vec::with_capacity(rounds);
    let (mut heard, mut made, mut used) = (0, [0.0; 2], [PutUse::default(); 2]);
    for round in 0..rounds.max(1) {
        let mut rates = [0.0; 2];
        for way in [round % 2, 1 - round % 2] {
            let (before, heard_before) = (PutUse::now(peer)?, listener.counts().accepted);
            let (rate, count) = puts([&untold, &told][way], duration)?;
            let (after, of_these) = (PutUse::now(peer)?, listener.counts().accepted - heard_before);
            rates[way] = rate;
            made[way] += count;
            used[way].hbase.add(&before.hbase, &after.hbase);
            used[way].own.add(&before.own, &after.own);
            if way == 1 && of_these == 0 {
                return Err(BenchError::Void("puts were not told".into()));
            }
            heard += of_these;
        }
        seen.push(rates);
    }
    let of = |value: fn(&[f64; 2]) -> f64| median(seen.iter().map(value)).unwrap_or_default();
    Ok(ToldCost {
        untold_per_s: of(|rates| rates[0]),
        told_per_s: of(|rates| rates[1]),
        ratio: of(|rates| rates[1] / rates[0]),
        notices: heard as f64 / made[1],
        untold: used[0].each(made[0]),
        told: used[1].each(made[1]),
    })
}

/// Puts a second, of as many threads as `native` has, and how many there were.
fn puts(table: &Rpc, duration: Duration) -> Result<(f64, f64)> {
    let (column, began_ns) = (rows::column(), sys::now_ns());
    let ends_ns = began_ns + duration.as_nanos() as u64;
    let one = |thread: u32| {
        let mut made = 0u32;
        while sys::now_ns() < ends_ns {
            let row = (thread * 7_919 + made * hbase::CONNECTIONS as u32) % ROWS;
            let value = rows::value(row, FIRST_VERSION + u64::from(made)).to_vec();
            table.change(
                &rows::key(row),
                &column,
                &Change::Put(value, None),
                Nonce::default(),
            )?;
            made += 1;
        }
        Ok(made)
    };
    let made = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..hbase::CONNECTIONS as u32)
            .map(|thread| scope.spawn(move || one(thread)))
            .collect();
        let made = threads.into_iter().map(|thread| {
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        made.sum::<std::result::Result<u32, _>>()
    });
    let made = made.map_err(failed("putting into HBase"))?;
    let made = f64::from(made);
    Ok((made * 1e9 / (sys::now_ns() - began_ns) as f64, made))
}

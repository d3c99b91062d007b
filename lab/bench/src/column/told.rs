//! Cost that change notifications by the coprocessor add to HBase: threads put rows in turns into a table with
//! notifications and into a table without.

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

/// Table with change notifications.
const TOLD: &str = "told";
/// Version that the first put of this benchmark writes. It is larger than the versions that other parts of the bench
/// write.
const FIRST_VERSION: u64 = 1 << 40;
/// Maximum time until the coprocessor grants the first lease.
const LEASE_TIME: Duration = Duration::from_secs(20);

/// Name of the coprocessor's thread that receives acknowledgements, and name of the subscriber's thread.
const FAR_THREAD: &str = "lineside";
const OWN_THREAD: &str = "column-notices";

/// Cost of one put in HBase's process and in this one.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct PutUse {
    /// Cost in HBase. The thread in it is the one that receives acknowledgements.
    pub hbase: Usage,
    /// Cost in the clients and the subscriber. The thread in it is the subscriber's.
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

/// Cost of change notifications for puts; all values are medians of the rounds, except where noted.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ToldCost {
    /// Puts per second into the table without notifications.
    pub untold_per_s: f64,
    /// Puts per second into the table with notifications.
    pub told_per_s: f64,
    /// `told_per_s` divided by `untold_per_s` of the same round.
    pub ratio: f64,
    /// Number of notifications that the subscriber received for each put.
    pub notices: f64,
    /// Cost of a put without notifications; mean of all rounds.
    pub untold: PutUse,
    /// Cost of a put with notifications; mean of all rounds.
    pub told: PutUse,
}

/// Measures `rounds` rounds of `duration` for each table.
///
/// # Errors
/// [`BenchError::Void`] if a put failed, or no notification arrived.
pub fn measure(peer: &mut Peer, rounds: usize, duration: Duration) -> Result<ToldCost> {
    peer.make(TOLD)?;
    let store = anonymous(&geometry(ROW_BITS, false))?;
    let coherence = Arc::new(Coherence::new(Box::new(ColumnWriter::new(store))));
    let servers = Arc::new(Servers::all_of(coherence, CLOCK_SLACK_NS, 1));
    let options = Options {
        listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        servers: vec![peer.observer()],
        key: NoticeKey::new(&OBSERVER_KEY)
            .ok_or_else(|| BenchError::Void("the notification key is too short".into()))?,
        table: TOLD.into(),
        columns: 1,
    };
    let listener =
        Listener::start(options, Arc::clone(&servers), Box::new(|| ())).map_err(io("starting a listener"))?;
    peer.observe(TOLD, listener.local_addr())?;
    let began = Instant::now();
    // The coprocessor need not notify the subscriber before it has granted the first lease, so wait for that.
    while servers.leased(lease::now_ns()) == 0 {
        if began.elapsed() > LEASE_TIME {
            return Err(BenchError::Void(format!(
                "the coprocessor granted no lease within {LEASE_TIME:?}"
            )));
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
                return Err(BenchError::Void(
                    "the subscriber got no notification of some puts".into(),
                ));
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

/// Returns the rate in puts per second of the threads of `native`, and the number of puts.
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

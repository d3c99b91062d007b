//! Cost of a write through Lineside: one client sends puts one after the other, alternately through Lineside and
//! directly to the gateway.

use super::hbase::{self, Peer};
use super::rows::{self, ROWS};
use super::served::{ROW_BITS, Served, anonymous, failed, geometry};
use crate::client::histogram;
use crate::error::{BenchError, Result};
use crate::gate::median;
use crate::sys;
use lineside_client::column::{Client, Outcome};
use lineside_column::host::CoherenceMode;
use lineside_column::table::{Change, Nonce};
use serde::Serialize;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

const REPLY_TIMEOUT: Duration = Duration::from_secs(10);
/// Time to live in nanoseconds; it is longer than the run of any benchmark.
const TTL_NS: u64 = 1 << 42;
/// Number of pairs of puts at the beginning that are not counted.
const WARM_UP: u32 = 500;
/// Version that the first put of this benchmark writes. It is larger than the versions that other parts of the bench
/// write.
const FIRST_VERSION: u64 = 1 << 32;

/// Times of puts; all values are medians of the rounds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct WriteCost {
    /// Number of puts of each kind in all rounds.
    pub puts: u32,
    /// Median time in microseconds of a put directly to the gateway.
    pub direct_p50_us: f64,
    /// Median time in microseconds of a put through Lineside: UDP, a session, the host, and the gateway.
    pub lineside_p50_us: f64,
    /// Mean time of a put through Lineside, divided by the mean time of the direct puts of the same round.
    pub mean_ratio: f64,
    /// Median time of a put through Lineside, divided by the median time of the direct puts of the same round.
    pub p50_ratio: f64,
}

/// Measures `rounds` rounds with `puts` puts of each kind.
///
/// # Errors
/// [`BenchError::Void`] if a put failed.
pub fn measure(peer: &Peer, rounds: usize, puts: u32) -> Result<WriteCost> {
    let store = anonymous(&geometry(ROW_BITS, true))?;
    let table = Arc::new(peer.connect(hbase::WRITTEN)?);
    let served = Served::new(&store, table, CoherenceMode::Ttl(TTL_NS))?;
    let datapath = served.listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), 1)?;
    let void = |error: lineside_client::column::ClientError| BenchError::Void(error.to_string());
    let mut client = Client::connect(datapath.local_addr(), REPLY_TIMEOUT).map_err(void)?;
    let direct = peer.connect(hbase::WRITTEN)?;
    let column = rows::column();
    let mut number = 0;
    let mut pair = || -> Result<(u64, u64)> {
        let row = number * 7_919 % ROWS;
        number += 1;
        let value = rows::value(row, FIRST_VERSION + u64::from(number)).to_vec();
        let change = Change::Put(value, None);
        let began_ns = sys::now_ns();
        direct
            .change(&rows::key(row), &column, &change, Nonce::default())
            .map_err(failed("putting into HBase"))?;
        let between_ns = sys::now_ns();
        let made = client.change(&rows::key(row), &column, &change).map_err(void)?;
        if made != Outcome::Done {
            return Err(BenchError::Void("a put through Lineside failed".into()));
        }
        Ok((between_ns - began_ns, sys::now_ns() - between_ns))
    };
    for _ in 0..WARM_UP.min(puts) {
        pair()?;
    }
    let mut seen = Vec::with_capacity(rounds);
    for _ in 0..rounds.max(1) {
        let (mut direct, mut ours) = (histogram(), histogram());
        let (mut direct_ns, mut ours_ns) = (0, 0);
        for _ in 0..puts.max(1) {
            let (straight, through) = pair()?;
            direct.saturating_record(straight);
            ours.saturating_record(through);
            direct_ns += straight;
            ours_ns += through;
        }
        let p50 = |of: &hdrhistogram::Histogram<u64>| of.value_at_quantile(0.5) as f64 / 1e3;
        seen.push((p50(&direct), p50(&ours), ours_ns as f64 / direct_ns.max(1) as f64));
    }
    let of = |value: fn(&(f64, f64, f64)) -> f64| median(seen.iter().map(value)).unwrap_or_default();
    Ok(WriteCost {
        puts: puts * rounds as u32,
        direct_p50_us: of(|round| round.0),
        lineside_p50_us: of(|round| round.1),
        mean_ratio: of(|round| round.2),
        p50_ratio: of(|round| round.1 / round.0),
    })
}

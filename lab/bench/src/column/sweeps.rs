//! Sweeps over a server in front of HBase: its fast-path table contains only a part of the rows, or is too small for
//! them, or rows are written. The XDP datapath answers hits, and the host answers misses over Thrift 2. If HBase is not
//! available, the host uses the embedded table.

use super::client::{self, Loop};
use super::contestants::{CLIENT_CORE, Field};
use super::hbase::{self, Peer};
use super::mixed::{Draws, KnownVersions, Mixed};
use super::rows::{self, ROWS};
use super::served::{ROW_BITS, Served, XdpLine, geometry, memory};
use crate::error::Result;
use crate::netns::SERVER_ADDRESS;
use crate::report::Figures;
use crate::wrong::WrongReplies;
use lineside_column::fill::{ColumnFill, ColumnId, Filled, Row, ServerId};
use lineside_column::host::CoherenceMode;
use lineside_column::key::{Interval, Key};
use lineside_column::store::Store;
use lineside_column::table::Table;
use lineside_column::writer::ColumnWriter;
use lineside_wire::COLUMN_PORT;
use serde::Serialize;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Maximum time to wait for a reply. HBase may pause for garbage collection.
const REPLY_TIMEOUT: Duration = Duration::from_secs(3);
/// Time to live in nanoseconds. It is longer than the run of any benchmark, because only Lineside writes to the table.
const TTL_NS: u64 = 1 << 42;
/// Percentages of the rows that the fast-path table contains.
const HELD_PERCENT: [u32; 5] = [0, 50, 90, 99, 100];
/// log2 of the number of rows for which the fast-path table has space.
const ROOM_BITS: [u32; 4] = [8, 10, 12, 14];
/// Number of requests for each put; the values give no puts, 1 %, 5 % and 20 % of puts.
const PUT_EVERY: [u64; 4] = [0, 100, 20, 5];

/// Quantity that a sweep varies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Varied {
    /// Percentage of the rows in the fast-path table. Requests are uniform over all rows, and misses do not fill the
    /// table.
    HeldPercent,
    /// log2 of the number of rows for which the fast-path table has space. Requests follow Zipf's law, and misses fill
    /// the table.
    RowBits,
    /// Percentage of puts among the requests. The fast-path table has space for all rows.
    PutsPercent,
}

/// Result at one point of a sweep.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// Quantity that is varied.
    pub varied: Varied,
    /// Value of the varied quantity.
    pub at: u32,
    /// Share of the reads that the fast path answered, from 0 to 1.
    pub hit_rate: f64,
    /// Rates and latencies of reads and puts together, with the socket client and 64 requests in flight.
    #[serde(flatten)]
    pub figures: Figures,
    /// Number of replies older than a put that was answered before the read was sent.
    pub stale: u64,
    /// Wrong replies, including stale ones.
    #[serde(skip)]
    pub wrong_replies: WrongReplies,
}

/// Points of all sweeps.
#[derive(Clone, Debug, Serialize)]
pub struct Sweeps {
    /// Kind of the table: `hbase` or `memory`.
    pub table: &'static str,
    /// Points in the order of measurement.
    pub points: Vec<Point>,
}

/// Durations of the two phases of a point.
#[derive(Clone, Copy, Debug)]
pub struct PointTimes {
    /// Time in which the content of the fast-path table becomes stable.
    pub warm_up: Duration,
    /// Time in which requests are counted.
    pub duration: Duration,
}

/// Measures all points, and calls `tell` before each one.
pub fn measure(
    field: &Field,
    peer: Option<&Peer>,
    seed: u64,
    times: PointTimes,
    tell: &mut dyn FnMut(&'static str),
) -> Result<Sweeps> {
    let mut points = held(field, peer, seed, times, tell)?;
    points.extend(sizes(field, peer, seed, times, tell)?);
    points.extend(puts(field, peer, seed, times, tell)?);
    Ok(Sweeps {
        table: if peer.is_some() { "hbase" } else { "memory" },
        points,
    })
}

/// Returns HBase's table with this name, or a new table in memory if HBase is not available.
fn table(peer: Option<&Peer>, name: &str) -> Result<Arc<dyn Table>> {
    Ok(match peer {
        Some(peer) => Arc::new(peer.connect(name)?),
        None => memory()?,
    })
}

/// Measures the points of [`Varied::HeldPercent`], and calls `tell` before each one.
pub fn held(
    field: &Field,
    peer: Option<&Peer>,
    seed: u64,
    times: PointTimes,
    tell: &mut dyn FnMut(&'static str),
) -> Result<Vec<Point>> {
    let points = HELD_PERCENT.into_iter().map(|at| {
        tell("rows held");
        let line = XdpLine::load(&geometry(ROW_BITS, true))?;
        let served = Served::new(&line.store, table(peer, hbase::READ)?, CoherenceMode::Uncached)?;
        // The new host has emptied the fast-path table, so the rows are written now.
        hold(&line.store, ROWS / 100 * at);
        let mut known = KnownVersions::default();
        let mut mixed = Mixed::new(Draws::even(seed), &mut known, 0);
        point(field, &line, &served, &mut mixed, Varied::HeldPercent, at, times)
    });
    points.collect()
}

/// Measures the points of [`Varied::RowBits`], and calls `tell` before each one.
pub fn sizes(
    field: &Field,
    peer: Option<&Peer>,
    seed: u64,
    times: PointTimes,
    tell: &mut dyn FnMut(&'static str),
) -> Result<Vec<Point>> {
    let points = ROOM_BITS.into_iter().map(|at| {
        tell("the fast path's size");
        let line = XdpLine::load(&geometry(at, true))?;
        let served = Served::new(&line.store, table(peer, hbase::READ)?, CoherenceMode::Ttl(TTL_NS))?;
        let mut known = KnownVersions::default();
        let mut mixed = Mixed::new(Draws::skewed(seed), &mut known, 0);
        point(field, &line, &served, &mut mixed, Varied::RowBits, at, times)
    });
    points.collect()
}

/// Measures the points of [`Varied::PutsPercent`], and calls `tell` before each one.
pub fn puts(
    field: &Field,
    peer: Option<&Peer>,
    seed: u64,
    times: PointTimes,
    tell: &mut dyn FnMut(&'static str),
) -> Result<Vec<Point>> {
    let mut known = KnownVersions::default();
    let written = table(peer, hbase::WRITTEN)?;
    let points = PUT_EVERY.into_iter().map(|put_every| {
        tell("writes");
        let line = XdpLine::load(&geometry(ROW_BITS, true))?;
        let served = Served::new(&line.store, Arc::clone(&written), CoherenceMode::Ttl(TTL_NS))?;
        let at = 100u64.checked_div(put_every).unwrap_or(0) as u32;
        let mut mixed = Mixed::new(Draws::skewed(seed), &mut known, put_every);
        point(field, &line, &served, &mut mixed, Varied::PutsPercent, at, times)
    });
    points.collect()
}

fn point(
    field: &Field,
    line: &XdpLine,
    served: &Served,
    mixed: &mut Mixed<'_>,
    varied: Varied,
    at: u32,
    times: PointTimes,
) -> Result<Point> {
    let pair = &field.pair;
    let running = served.start(pair)?;
    let attached = pair.server.run(CLIENT_CORE, || line.attach(pair))?;
    let order = Loop {
        server: SocketAddr::from((SERVER_ADDRESS, COLUMN_PORT)),
        window: 64,
        warm_up: times.warm_up,
        duration: times.duration,
        patience: REPLY_TIMEOUT,
    };
    let mut hit_rate = 0.0;
    let found = pair.client.run(CLIENT_CORE, || {
        let _passing = field.generator.attach_pass(pair.client_index)?;
        let found = client::run(order, mixed)?;
        hit_rate = mixed.hit_rate();
        Ok(found)
    });
    drop(attached);
    running.end()?;
    let found = found?;
    let figures = Figures::of(std::slice::from_ref(&found.tally));
    let mut wrong_replies = found.tally.wrong;
    wrong_replies.name("xdp, then the host", &format!("sweep of {varied:?}, {at}"));
    Ok(Point {
        varied,
        at,
        hit_rate,
        figures: figures.ok_or_else(|| crate::BenchError::Void("a point of a sweep has no run".into()))?,
        stale: found.stale,
        wrong_replies,
    })
}

/// Writes the first `count` rows into the fast-path table.
fn hold(store: &Arc<Store>, count: u32) {
    let mut writer = ColumnWriter::new(Arc::clone(store));
    let key = |row| Key::new(&rows::key(row)).unwrap_or(Key::FIRST);
    for first in (0..count).step_by(64) {
        let last = (first + 64).min(count);
        let held: Vec<Row> = (first..last)
            .map(|row| Row {
                key: key(row),
                value: rows::value(row, rows::FIRST_VERSION).to_vec(),
                timestamp_ms: 0,
            })
            .collect();
        writer.install(&Filled {
            column: ColumnId(0),
            interval: Interval {
                low: key(first),
                high: Some(key(last)),
            },
            rows: &held,
            until_ns: u64::MAX,
            server: ServerId(0),
        });
    }
}

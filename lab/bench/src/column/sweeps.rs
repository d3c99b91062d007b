//! What becomes of a server in front of HBase where the fast path holds a part of the rows, is too small, or rows are
//! written: the XDP datapath, its misses answered by the host over Thrift 2. Without an HBase the table is the embedded
//! one.

use super::client::{self, Loop};
use super::contestants::{CLIENT_CORE, Field};
use super::hbase::{self, Peer};
use super::mixed::{Draws, Known, Mixed};
use super::rows::{self, ROWS};
use super::served::{ROW_BITS, Served, XdpLine, geometry, memory};
use crate::error::Result;
use crate::netns::SERVER_ADDRESS;
use crate::report::Figures;
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

/// HBase may stop for a while to collect its garbage.
const PATIENCE: Duration = Duration::from_secs(3);
/// Longer than any bench runs: what changes behind the fast path's back is nothing here.
const TTL_NS: u64 = 1 << 42;
/// Shares of the rows that the fast path holds.
const HELD_PERCENT: [u32; 5] = [0, 50, 90, 99, 100];
/// Rows that the fast path has room for, as powers of two.
const ROOM_BITS: [u32; 4] = [8, 10, 12, 14];
/// Every so many requests one is a put: none, 1, 5 and 20 %.
const PUT_EVERY: [u64; 4] = [0, 100, 20, 5];

/// What is varied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Varied {
    /// Percent of the rows that the fast path holds; all rows are asked for alike, and misses do not fill.
    HeldPercent,
    /// log2 of the rows that the fast path has room for; rows are asked for by Zipf's law, and misses fill.
    RowBits,
    /// Percent of the requests that are puts, with a fast path as large as the table.
    PutsPercent,
}

/// One point.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// What is varied.
    pub varied: Varied,
    /// Its value.
    pub at: u32,
    /// Of the reads, so much was answered by the fast path.
    pub hit_rate: f64,
    /// Rates and latencies, reads and puts together, by the socket client with 64 requests in flight.
    #[serde(flatten)]
    pub figures: Figures,
    /// Replies older than a put that had been answered before the read was sent.
    pub stale: u64,
}

/// All of them.
#[derive(Clone, Debug, Serialize)]
pub struct Sweeps {
    /// `hbase` or `memory`.
    pub table: &'static str,
    /// In the order in which they were measured.
    pub points: Vec<Point>,
}

/// How long each point takes.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Until the fast path holds what it will.
    pub warm_up: Duration,
    /// Counted.
    pub duration: Duration,
}

/// Measures all points, telling `tell` before each.
pub fn measure(
    field: &Field,
    peer: Option<&Peer>,
    seed: u64,
    times: Times,
    tell: &mut dyn FnMut(&'static str),
) -> Result<Sweeps> {
    let table = |name| -> Result<Arc<dyn Table>> {
        Ok(match peer {
            Some(peer) => Arc::new(peer.connect(name)?),
            None => memory()?,
        })
    };
    let mut points = Vec::new();
    for at in HELD_PERCENT {
        tell("rows held");
        let line = XdpLine::load(&geometry(ROW_BITS, true))?;
        let served = Served::new(&line.store, table(hbase::READ)?, CoherenceMode::Uncached)?;
        // Who makes a host empties the fast path.
        hold(&line.store, ROWS / 100 * at);
        let mut known = Known::default();
        let mut mixed = Mixed::new(Draws::even(seed), &mut known, 0);
        points.push(point(
            field,
            &line,
            &served,
            &mut mixed,
            Varied::HeldPercent,
            at,
            times,
        )?);
    }
    for at in ROOM_BITS {
        tell("the fast path's size");
        let line = XdpLine::load(&geometry(at, true))?;
        let served = Served::new(&line.store, table(hbase::READ)?, CoherenceMode::Ttl(TTL_NS))?;
        let mut known = Known::default();
        let mut mixed = Mixed::new(Draws::skewed(seed), &mut known, 0);
        points.push(point(
            field,
            &line,
            &served,
            &mut mixed,
            Varied::RowBits,
            at,
            times,
        )?);
    }
    let mut known = Known::default();
    let written = table(hbase::WRITTEN)?;
    for put_every in PUT_EVERY {
        tell("writes");
        let line = XdpLine::load(&geometry(ROW_BITS, true))?;
        let served = Served::new(&line.store, Arc::clone(&written), CoherenceMode::Ttl(TTL_NS))?;
        let at = 100u64.checked_div(put_every).unwrap_or(0) as u32;
        let mut mixed = Mixed::new(Draws::skewed(seed), &mut known, put_every);
        points.push(point(
            field,
            &line,
            &served,
            &mut mixed,
            Varied::PutsPercent,
            at,
            times,
        )?);
    }
    Ok(Sweeps {
        table: if peer.is_some() { "hbase" } else { "memory" },
        points,
    })
}

fn point(
    field: &Field,
    line: &XdpLine,
    served: &Served,
    mixed: &mut Mixed<'_>,
    varied: Varied,
    at: u32,
    times: Times,
) -> Result<Point> {
    let pair = &field.pair;
    let running = served.start(pair)?;
    let attached = pair.server.run(CLIENT_CORE, || line.attach(pair))?;
    let order = Loop {
        server: SocketAddr::from((SERVER_ADDRESS, COLUMN_PORT)),
        window: 64,
        warm_up: times.warm_up,
        duration: times.duration,
        patience: PATIENCE,
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
    Ok(Point {
        varied,
        at,
        hit_rate,
        figures: figures.ok_or_else(|| crate::BenchError::Void("a point without a run".into()))?,
        stale: found.stale,
    })
}

/// Puts the first `count` rows into the fast path.
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

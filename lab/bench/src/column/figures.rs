//! Single runs of the contestants of `column`, and its sweeps, for the figures of the paper.

use super::contestants::{Field, names};
use super::hbase::Peer;
use super::sweeps::{self, PointTimes};
use super::{start_peer, writes};
use crate::error::{BenchError, Result};
use crate::report::Figures;
use crate::sys;
use crate::wrong::WrongReplies;
use std::time::Duration;

pub use super::contestants::{By, Run, Who};
pub use super::rows::{Ask, ROWS, VALUE_BYTES};
pub use super::sweeps::{Point, Varied};
pub use super::writes::WriteCost;

/// Exponent of the law of Zipf by which the requests of [`Varied::RowBits`] and [`Varied::PutsPercent`] are drawn.
pub use super::mixed::SKEW;

/// Contestants with their tables: HBase, if it is available, and Lineside.
pub struct Setting {
    field: Field,
    peer: Option<Peer>,
    absent: Option<String>,
    lost: u64,
    wrong: WrongReplies,
}

impl Setting {
    /// Starts HBase, creates the namespaces, loads the XDP programs and fills the fast-path tables. HBase answers each
    /// kind of request for `warm_up` before the first run.
    ///
    /// # Errors
    /// Fails if the process has no root rights or no BPF, or if the machine has only one core. A missing HBase is not
    /// an error; see [`Setting::absent`].
    pub fn new(warm_up: Duration) -> Result<Self> {
        if sys::cores() < 2 {
            return Err(BenchError::TooFewCores);
        }
        // Missing rights are reported before HBase starts, which takes long.
        drop(Field::new(None)?);
        let (peer, absent) = match start_peer() {
            Ok(peer) => (Some(peer), None),
            Err(BenchError::NotMeasured(why)) => (None, Some(why)),
            Err(error) => return Err(error),
        };
        let field = Field::new(peer.as_ref())?;
        if peer.is_some() {
            field.warm(warm_up)?;
        }
        Ok(Self {
            field,
            peer,
            absent,
            lost: 0,
            wrong: WrongReplies::default(),
        })
    }

    /// Returns the reason why HBase does not take part; `None` if it does.
    pub fn absent(&self) -> Option<&str> {
        self.absent.as_deref()
    }

    /// Starts a contestant, sends requests to it, and stops it. Returns `None` if the contestant is HBase and HBase is
    /// not available.
    ///
    /// # Errors
    /// Errors of namespaces, sockets, BPF and HBase.
    pub fn run(&mut self, run: Run, duration: Duration) -> Result<Option<Figures>> {
        if run.by == By::Own && self.peer.is_none() {
            return Ok(None);
        }
        let mut tally = self.field.run(run, duration)?;
        let (name, how) = names(run);
        tally.wrong.name(name, &format!("{}{how}", run.ask.name()));
        self.wrong.extend(&tally.wrong);
        self.lost += if run.is_lossless() { tally.lost } else { 0 };
        Ok(Figures::of(std::slice::from_ref(&tally)))
    }

    /// Measures the points of a sweep. A server in front of HBase answers misses and puts; if `in_memory` is true, or
    /// HBase is not available, a server in front of a table in memory does. Each point takes twice the time `point`.
    ///
    /// # Errors
    /// Fails as [`Setting::run`] does.
    pub fn sweep(
        &mut self,
        varied: Varied,
        in_memory: bool,
        seed: u64,
        point: Duration,
    ) -> Result<Vec<Point>> {
        let times = PointTimes {
            warm_up: point,
            duration: point,
        };
        let measure = match varied {
            Varied::HeldPercent => sweeps::held,
            Varied::RowBits => sweeps::sizes,
            Varied::PutsPercent => sweeps::puts,
        };
        let peer = self.peer.as_ref().filter(|_| !in_memory);
        let points = measure(&self.field, peer, seed, times, &mut |_| ())?;
        for point in &points {
            self.wrong.extend(&point.wrong_replies);
            self.lost += point.figures.lost;
        }
        Ok(points)
    }

    /// Measures the time of a put directly to HBase and through Lineside. Returns `None` if HBase is not available.
    ///
    /// # Errors
    /// [`BenchError::Void`] if a put failed.
    pub fn puts(&self, rounds: usize, puts: u32) -> Result<Option<WriteCost>> {
        let peer = self.peer.as_ref();
        peer.map(|peer| writes::measure(peer, rounds, puts)).transpose()
    }

    /// Returns the number of requests that were lost in closed loops and by the XDP datapath.
    pub const fn lost(&self) -> u64 {
        self.lost
    }

    /// Returns the wrong replies of all runs, including stale ones.
    pub const fn wrong(&self) -> &WrongReplies {
        &self.wrong
    }
}

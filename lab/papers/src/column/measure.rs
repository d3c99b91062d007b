//! Runs that provide the values of figures 7 and 8 and of the sweeps.

use super::Options;
use lineside_bench::column::figures::{Ask, By, Point, Run, Setting, Varied, Who, WriteCost};
use lineside_bench::figures::median;
use lineside_bench::report::Figures;
use lineside_bench::wrong::WrongReplies;
use lineside_bench::{BenchError, Progress};
use std::collections::BTreeMap;

/// Compared system with its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contestant {
    /// Name of the contestant in Lineside's tables.
    pub name: &'static str,
    /// Name in the paper; empty if the paper does not have this contestant.
    pub paper: &'static str,
    who: Who,
    by: By,
}

const fn contestant(name: &'static str, paper: &'static str, who: Who, by: By) -> Contestant {
    Contestant { name, paper, who, by }
}

/// Contestants of figures 7 and 8.
pub const CONTESTANTS: [Contestant; 7] = [
    contestant("xdp_max", "HBC", Who::Xdp, By::Live),
    contestant("xdp_max2", "", Who::Xdp, By::LiveTwice),
    contestant("xdp", "", Who::Xdp, By::Window64),
    contestant("socket", "", Who::Socket, By::Window64),
    contestant("thrift2", "Software", Who::Thrift2, By::Own),
    contestant("thrift2x16", "", Who::Thrift2x16, By::Own),
    contestant("native", "", Who::Native, By::Own),
];

/// Sweeps, with true if a table in memory answers misses. The hit ratio against the size of the cache does not depend
/// on the table, and HBase is too slow to fill the cache in the time of a point.
const SWEEPS: [(Varied, bool); 3] = [
    (Varied::HeldPercent, false),
    (Varied::RowBits, true),
    (Varied::PutsPercent, true),
];

/// All measured values.
pub struct Measurements {
    rates: BTreeMap<(&'static str, Ask), Vec<Figures>>,
    /// Points of all sweeps.
    pub points: Vec<Point>,
    /// Cost of a put; `None` if HBase is not available.
    pub write_cost: Option<WriteCost>,
    /// Reason why HBase did not take part; `None` if it did.
    pub absent: Option<String>,
    lost: u64,
    wrong: WrongReplies,
}

impl Measurements {
    /// Returns the median over the rounds; `None` if there was no such run.
    pub fn median(&self, contestant: &str, ask: Ask, of: fn(&Figures) -> f64) -> Option<f64> {
        let found = self
            .rates
            .iter()
            .find(|((name, asked), _)| (*name, *asked) == (contestant, ask));
        median(found?.1.iter().map(of))
    }

    /// Returns the median rate in operations per second.
    pub fn ops_per_s(&self, contestant: &str, ask: Ask) -> Option<f64> {
        self.median(contestant, ask, |figures| figures.rps)
    }

    /// Returns the points of a sweep.
    pub fn sweep(&self, varied: Varied) -> Vec<&Point> {
        self.points
            .iter()
            .filter(|point| point.varied == varied)
            .collect()
    }

    /// Returns the failures of the system under test: replies that were lost or wrong.
    pub fn failures(&self) -> Vec<String> {
        let lost = (self.lost > 0).then(|| format!("{} requests lost", self.lost));
        let wrong =
            (self.wrong.count > 0).then(|| format!("{} wrong replies\n{}", self.wrong.count, self.wrong));
        lost.into_iter().chain(wrong).collect()
    }
}

/// Runs all measurements.
pub fn run(options: &Options, progress: &mut dyn FnMut(Progress)) -> Result<Measurements, BenchError> {
    let rounds = options.rounds.max(1);
    let runs: Vec<(Contestant, Ask)> = Ask::ALL
        .into_iter()
        .flat_map(|ask| CONTESTANTS.map(|contestant| (contestant, ask)))
        .collect();
    let of = rounds * runs.len() + SWEEPS.len() + 2;
    let mut done = 0;
    let mut tell = |doing| {
        progress(Progress { doing, done, of });
        done += 1;
    };
    tell("starting HBase");
    let mut setting = Setting::new(options.warm_up)?;
    let mut rates: BTreeMap<_, Vec<Figures>> = BTreeMap::new();
    for round in 0..rounds {
        for place in 0..runs.len() {
            // Each round begins with another run, so that no contestant always runs after the same one.
            let (contestant, ask) = runs[(place + round * 5) % runs.len()];
            tell("figures 7 and 8");
            let Contestant { name, who, by, .. } = contestant;
            if let Some(figures) = setting.run(Run { who, by, ask }, options.duration)? {
                rates.entry((name, ask)).or_default().push(figures);
            }
        }
    }
    let mut points = Vec::new();
    for (varied, in_memory) in SWEEPS {
        tell("sweeps");
        points.extend(setting.sweep(varied, in_memory, options.seed, options.point)?);
    }
    tell("puts");
    let write_cost = setting.puts(rounds, options.puts)?;
    Ok(Measurements {
        rates,
        points,
        write_cost,
        absent: setting.absent().map(str::to_owned),
        lost: setting.lost(),
        wrong: setting.wrong().clone(),
    })
}

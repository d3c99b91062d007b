//! Runs that provide the values of figures 16, 18, 19, 20 and 21 and of the server's load.

use super::Options;
use lineside_bench::figures::{By, Sample, Setting, Shape, Software, Who, median};
use lineside_bench::{BenchError, Progress};
use std::collections::BTreeMap;
use std::time::Duration;

/// Numbers of transactions in a block for figures 16 and 21.
pub const PER_BLOCK: [usize; 3] = [1024, 2048, 4096];
/// Number of transactions in a block for the other figures of the paper.
pub const PAPER_PER_BLOCK: usize = 2048;
/// Hit rates of figure 19, in percent.
pub const HITS: [u64; 11] = [0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100];
/// Hit rates for the server's load, in percent.
pub const LOAD_HITS: [u64; 6] = [0, 25, 50, 75, 90, 100];
/// Offered loads of figure 20, in requests per second.
pub const OFFERED: [u32; 7] = [10_000, 20_000, 50_000, 100_000, 200_000, 400_000, 800_000];
/// Offered load at which the server's processor time is measured, in requests per second.
pub const LOAD: u32 = 50_000;

/// Compared system: a server or a datapath, with its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contestant {
    /// Name of the contestant in Lineside's tables.
    pub name: &'static str,
    /// Name in the paper; empty if the paper does not have this contestant.
    pub paper: &'static str,
    /// Server or datapath that answers.
    pub who: Who,
}

const fn contestant(name: &'static str, paper: &'static str, who: Who) -> Contestant {
    Contestant { name, paper, who }
}

/// Server that echoes requests without a look-up.
pub const ECHO: Contestant = contestant("echo", "", Who::Software(Software::Echo));
/// The paper's software.
pub const SW: Contestant = contestant("sw", "SW", Who::Software(Software::Sw));
/// The paper's software with a cache in front of its tree.
pub const SW_CACHE: Contestant = contestant("sw_cache", "SW Cache", Who::Software(Software::SwCache));
/// The paper's software with a busy loop instead of blocking receives.
pub const SW_SPIN: Contestant = contestant("sw_spin", "", Who::Software(Software::SwSpin));
/// Lineside's socket datapath.
pub const SOCKET: Contestant = contestant("socket", "", Who::Software(Software::Socket));
/// Lineside's XDP datapath.
pub const XDP: Contestant = contestant("xdp", "HW", Who::Xdp);
/// Lineside's XDP datapath in front of the paper's software.
pub const XDP_THEN_SW: Contestant = contestant("xdp + sw", "HW", Who::XdpThenSw);

/// Contestants of figure 18 with the socket client. The contestant `xdp` with live frames corresponds to the paper's HW
/// Max.
pub const THROUGHPUT: [Contestant; 5] = [ECHO, SW, SW_CACHE, SOCKET, XDP];
/// Contestants of figure 21.
pub const LATENCY: [Contestant; 5] = [SW, SW_CACHE, SW_SPIN, SOCKET, XDP];
/// Contestants of figure 20.
pub const ROOFLINE: [Contestant; 3] = [SW, SW_CACHE, XDP];
/// Servers that run without a fast path in the driver.
pub const LOADED: [Contestant; 3] = [SW, SW_CACHE, SOCKET];

/// Name of the client of figure 21 and of the hit-rate sweep of figure 19.
pub const SOCKET_CLIENT: &str = "socket client";
/// Name of the generator of live frames.
pub const LIVE_FRAMES: &str = "live frames";

/// Runs by shape of the chain, contestant and client.
#[derive(Default)]
pub struct Runs(BTreeMap<(Shape, Who, By), Vec<Sample>>);

impl Runs {
    /// Returns the median over the rounds; `None` if there was no such run.
    pub fn median(&self, shape: Shape, who: Who, by: By, of: fn(&Sample) -> f64) -> Option<f64> {
        median(self.0.get(&(shape, who, by))?.iter().map(of))
    }
}

/// All measured values.
pub struct Measurements {
    /// Runs for figures 16, 18 and 21.
    pub runs: Runs,
    /// Chain shapes in the order in which they were run.
    pub shapes: Vec<Shape>,
    /// Number of blocks of figure 21.
    pub blocks: usize,
    /// Chain shape that was used for the fields below.
    pub main: Shape,
    /// Figure 19: runs of `xdp + sw` by hit rate, closed loop and open loop.
    pub sweep: BTreeMap<(u64, By), Vec<Sample>>,
    /// Figure 20: runs by contestant and offered load.
    pub paced: BTreeMap<(&'static str, u32), Vec<Sample>>,
    /// Processor time at [`LOAD`], by contestant and hit rate.
    pub costs: BTreeMap<(&'static str, u64), Vec<Sample>>,
    /// Number of requests lost in the closed loops of the socket client, whose time-out is two seconds.
    pub lost: u64,
    /// Number of wrong replies.
    pub wrong: u64,
}

/// Returns the shapes of the chain. Figure 21 uses the shapes of figure 16 that have its number of blocks.
fn shapes(options: &Options) -> Vec<Shape> {
    let mut shapes = Vec::new();
    for transactions in PER_BLOCK {
        let of_total = options.transactions.iter().map(|total| total / transactions);
        for blocks in of_total {
            shapes.push(Shape { blocks, transactions });
        }
    }
    shapes
}

/// Returns the largest chain with the paper's number of transactions in a block.
fn main_shape(options: &Options) -> Shape {
    let most = options.transactions.iter().max().copied().unwrap_or_default();
    Shape {
        blocks: most / PAPER_PER_BLOCK,
        transactions: PAPER_PER_BLOCK,
    }
}

/// Returns the contestants and clients that are run with a shape.
fn plan(options: &Options, shape: Shape) -> Vec<(Who, By)> {
    let mut plan = vec![(ECHO.who, By::Window64), (SW.who, By::Window64)];
    if shape.transactions == PAPER_PER_BLOCK {
        plan.extend(THROUGHPUT.map(|contestant| (contestant.who, By::Window64)));
        plan.push((XDP.who, By::Live));
    }
    if shape.blocks == options.blocks {
        plan.extend(LATENCY.map(|contestant| (contestant.who, By::Window1)));
        plan.extend(LATENCY.map(|contestant| (contestant.who, By::LiveWindow1)));
    }
    plan.sort_unstable();
    plan.dedup();
    plan
}

/// Returns the number of steps that [`run`] reports, without the step of figure 13.
pub fn steps(options: &Options) -> usize {
    let rounds = options.rounds.max(1);
    let of_shapes: usize = shapes(options)
        .into_iter()
        .map(|shape| plan(options, shape).len() + 1)
        .sum();
    let of_main = HITS.len() * 2 + OFFERED.len() * ROOFLINE.len() + LOADED.len() + LOAD_HITS.len();
    (of_shapes + of_main) * rounds
}

/// Runs all measurements.
pub fn run(options: &Options, progress: &mut dyn FnMut(Progress)) -> Result<Measurements, BenchError> {
    let shapes = shapes(options);
    let mut runner = Runner {
        rounds: options.rounds.max(1),
        duration: options.duration,
        done: 1,
        of: steps(options) + 1,
        progress,
        found: Measurements {
            runs: Runs::default(),
            shapes: shapes.clone(),
            blocks: options.blocks,
            main: main_shape(options),
            sweep: BTreeMap::new(),
            paced: BTreeMap::new(),
            costs: BTreeMap::new(),
            lost: 0,
            wrong: 0,
        },
    };
    for shape in shapes {
        runner.tell("loading");
        let mut setting = Setting::new(options.seed, shape)?;
        runner.contestants(&setting, shape, &plan(options, shape))?;
        if shape == main_shape(options) {
            runner.roofline(&setting)?;
            runner.sweep(&mut setting)?;
            runner.costs(&mut setting)?;
        }
        // The namespaces and BPF maps of this shape are removed before the next shape is loaded.
        drop(setting);
    }
    Ok(runner.found)
}

struct Runner<'a> {
    rounds: usize,
    duration: Duration,
    done: usize,
    of: usize,
    progress: &'a mut dyn FnMut(Progress),
    found: Measurements,
}

impl Runner<'_> {
    fn tell(&mut self, doing: &'static str) {
        (self.progress)(Progress {
            doing,
            done: self.done,
            of: self.of,
        });
        self.done += 1;
    }

    /// Runs a contestant and counts faults. In an open loop, losing requests is not a fault if the server is too slow.
    /// The generator of live frames gives up a request after 200 ms, a time in which a busy machine may not have
    /// scheduled the server at all.
    fn run(&mut self, setting: &Setting, who: Who, by: By, with_cost: bool) -> Result<Sample, BenchError> {
        let run = if with_cost {
            Setting::run_with_cost
        } else {
            Setting::run
        };
        let sample = run(setting, who, by, self.duration)?;
        self.found.wrong += sample.wrong;
        if !matches!(by, By::Live | By::LiveWindow1) {
            self.found.lost += sample.lost;
        }
        Ok(sample)
    }

    fn contestants(&mut self, setting: &Setting, shape: Shape, plan: &[(Who, By)]) -> Result<(), BenchError> {
        for round in 0..self.rounds {
            for place in 0..plan.len() {
                // Each round begins with another contestant, so that no contestant always runs after the same one.
                let (who, by) = plan[(place + round * 5) % plan.len()];
                self.tell("figures 16, 18 and 21");
                let sample = self.run(setting, who, by, false)?;
                self.found
                    .runs
                    .0
                    .entry((shape, who, by))
                    .or_default()
                    .push(sample);
            }
        }
        Ok(())
    }

    fn roofline(&mut self, setting: &Setting) -> Result<(), BenchError> {
        for _ in 0..self.rounds {
            for offered in OFFERED {
                for contestant in ROOFLINE {
                    self.tell("figure 20");
                    let sample = self.run(setting, contestant.who, By::Paced(offered), false)?;
                    let place = self.found.paced.entry((contestant.name, offered));
                    place.or_default().push(sample);
                }
            }
        }
        Ok(())
    }

    fn sweep(&mut self, setting: &mut Setting) -> Result<(), BenchError> {
        for _ in 0..self.rounds {
            for hits in HITS {
                setting.set_hit_percent(hits);
                for by in [By::Window64, By::Live] {
                    self.tell("figure 19");
                    let sample = self.run(setting, XDP_THEN_SW.who, by, false)?;
                    self.found.sweep.entry((hits, by)).or_default().push(sample);
                }
            }
        }
        Ok(())
    }

    fn costs(&mut self, setting: &mut Setting) -> Result<(), BenchError> {
        let by = By::Paced(LOAD);
        for _ in 0..self.rounds {
            for contestant in LOADED {
                self.tell("the server's load");
                let sample = self.run(setting, contestant.who, by, true)?;
                self.found
                    .costs
                    .entry((contestant.name, 0))
                    .or_default()
                    .push(sample);
            }
            for hits in LOAD_HITS {
                setting.set_hit_percent(hits);
                self.tell("the server's load");
                let sample = self.run(setting, XDP_THEN_SW.who, by, true)?;
                let place = self.found.costs.entry((XDP_THEN_SW.name, hits));
                place.or_default().push(sample);
            }
        }
        Ok(())
    }
}

//! Runs that provide the values of the section on `hybrid`.

use super::Options;
use lineside_bench::hybrid::figures::{
    Conditions, Distribution, JUDGED, Primitive, Requests, Sample, Setting, Shape, Who, name,
};
use lineside_bench::hybrid::primitives;
use lineside_bench::{BenchError, Progress};
use std::collections::BTreeMap;
use std::time::Duration;

/// Contestants in the order of the bars of figure 1.
pub const CONTESTANTS: [Who; 3] = [Who::None, Who::Scalar, Who::Batch];
/// Number of calls in flight in the cases with a slow log: enough that the delay does not leave the node without work
/// at once.
const DELAYED_CALLS: usize = 64;
/// Minimum number of calls that each worker sends.
const CALLS_MIN: usize = 2;
/// Minimum number of calls that each worker sends to a slow log.
const DELAYED_CALLS_MIN: usize = 3;
/// Approximate number of bytes of all values of a case. A case with longer values sends fewer requests.
const CASE_BYTES: usize = 64 << 20;
/// Length in bytes of a value from which on a call has 10 requests instead of 100.
const LONG_VALUE_BYTES: usize = 32 << 10;

/// Case: one value of one parameter of the paper's benchmark. The other parameters are those of the judged case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// Figure 1.
    Bars,
    /// Figures 3 and 4: number of clients, and number of calls that each has in flight.
    Clients(usize, usize),
    /// Length of a value in bytes.
    Value(usize),
    /// Maximum number of requests in a block.
    Block(usize),
    /// Percentage of sets, and distribution of the records.
    Workload(u64, Distribution),
    /// Delay of the log in milliseconds.
    Delay(u64),
}

impl Case {
    fn shape(self) -> Shape {
        match self {
            Self::Bars | Self::Block(_) => JUDGED,
            Self::Clients(clients, threads) => Shape {
                workers: clients * threads,
                ..JUDGED
            },
            Self::Value(value_bytes) => Shape {
                value_bytes,
                per_call: if value_bytes < LONG_VALUE_BYTES { 100 } else { 10 },
                ..JUDGED
            },
            Self::Workload(sets_percent, distribution) => Shape {
                sets_percent,
                distribution,
                ..JUDGED
            },
            Self::Delay(_) => Shape {
                sets_percent: 100,
                workers: DELAYED_CALLS,
                ..JUDGED
            },
        }
    }

    fn conditions(self) -> Conditions {
        let judged = Conditions::default();
        match self {
            Self::Clients(clients, _) => Conditions { clients, ..judged },
            Self::Block(block) => Conditions { block, ..judged },
            Self::Delay(ms) => Conditions {
                delay: Duration::from_millis(ms),
                ..judged
            },
            _ => judged,
        }
    }

    fn requests(self, options: &Options) -> usize {
        match self {
            Self::Bars => options.requests,
            Self::Value(bytes) => options.case.min(CASE_BYTES / bytes.max(1)),
            _ => options.case,
        }
    }

    fn calls_min(self) -> usize {
        match self {
            Self::Delay(_) => DELAYED_CALLS_MIN,
            _ => CALLS_MIN,
        }
    }

    /// Returns the name of the case in messages.
    pub fn name(self) -> String {
        match self {
            Self::Bars => "figure 1".into(),
            Self::Clients(clients, threads) => format!("{clients} clients with {threads} calls in flight"),
            Self::Value(bytes) => format!("values of {bytes} bytes"),
            Self::Block(block) => format!("blocks of {block}"),
            Self::Workload(sets, distribution) => {
                format!("{sets} % sets, {}", distribution_name(distribution))
            }
            Self::Delay(ms) => format!("log with a delay of {ms} ms"),
        }
    }
}

/// Returns the name of a distribution in YCSB.
pub fn distribution_name(distribution: Distribution) -> &'static str {
    match distribution {
        Distribution::Uniform => "uniform",
        Distribution::Zipfian => "zipfian",
        Distribution::Latest => "latest",
    }
}

/// Runs of all contestants in one case.
pub struct Point {
    /// The case.
    pub case: Case,
    /// Result of each contestant.
    pub samples: BTreeMap<Who, Sample>,
}

/// Run of one contestant with wrong signatures among its requests.
pub struct ForgedRun {
    /// Number of requests.
    pub requests: usize,
    /// Number of requests whose signature is wrong.
    pub forged: u64,
    /// Result of the run.
    pub sample: Sample,
}

/// All measured values.
#[derive(Default)]
pub struct Measurements {
    /// Rounds of figure 1.
    pub bars: Vec<BTreeMap<Who, Sample>>,
    /// Runs with wrong signatures.
    pub forged: BTreeMap<Who, ForgedRun>,
    /// Other cases.
    pub points: Vec<Point>,
    /// Hashing, signing and verification alone.
    pub primitives: Vec<Primitive>,
    /// Requests that were lost, answered wrongly, or hashed or verified wrongly.
    pub failures: Vec<String>,
}

impl Measurements {
    /// Returns the rates of a contestant's bar in each round.
    pub fn bar(&self, who: Who) -> impl Iterator<Item = f64> {
        let of_round = move |round: &BTreeMap<Who, Sample>| round.get(&who).map(|sample| sample.rps);
        self.bars.iter().filter_map(of_round)
    }

    /// Returns the ratios of two bars in each round.
    pub fn bar_ratio(&self, over: Who, under: Who) -> impl Iterator<Item = f64> {
        let of_round = move |round: &BTreeMap<Who, Sample>| {
            Some(round.get(&over)?.rps / round.get(&under).filter(|sample| sample.rps > 0.0)?.rps)
        };
        self.bars.iter().filter_map(of_round)
    }

    /// Returns the runs of a case.
    pub fn point(&self, case: Case) -> Option<&BTreeMap<Who, Sample>> {
        let found = self.points.iter().find(|point| point.case == case);
        found.map(|point| &point.samples)
    }

    /// Adds a failure for each request that was refused although its signature is right, for each wrong signature that
    /// was not refused, and for each wrong result of a primitive.
    fn judge(&mut self) {
        let mut failures = Vec::new();
        let mut all_done = |case: Case, samples: &BTreeMap<Who, Sample>| {
            for (who, sample) in samples {
                failures.extend(unanswered(name(*who), case, sample, 0));
            }
        };
        self.bars.iter().for_each(|round| all_done(Case::Bars, round));
        self.points
            .iter()
            .for_each(|point| all_done(point.case, &point.samples));
        for (who, run) in &self.forged {
            // A node that verifies nothing must accept all of them: this is the control of the experiment.
            let expected = if *who == Who::None { 0 } else { run.forged };
            let found = run.sample.bad_signatures;
            if found != expected {
                failures.push(format!(
                    "{}: {found} of {} wrong signatures were refused, not {expected}",
                    name(*who),
                    run.forged
                ));
            }
            failures.extend(unanswered(name(*who), Case::Bars, &run.sample, expected));
        }
        let wrong = self.primitives.iter().filter(|primitive| primitive.wrong > 0);
        failures.extend(wrong.map(|primitive| {
            format!(
                "{} with {} threads: {} wrong results",
                primitive.work.name(),
                primitive.threads,
                primitive.wrong
            )
        }));
        self.failures = failures;
    }
}

/// Returns a failure if another number of requests than `expected` has no success, with the first of them.
fn unanswered(who: &str, case: Case, sample: &Sample, expected: u64) -> Option<String> {
    (sample.refused != expected).then(|| {
        let refused = sample.refused;
        let first = sample.wrong.first.first();
        let first = first.map_or(String::new(), |wrong| {
            format!("; request {}: {}", wrong.request, wrong.reply)
        });
        format!(
            "{who}, {}: {refused} requests without success, not {expected}{first}",
            case.name()
        )
    })
}

/// Returns the cases of a run, without figure 1.
pub fn cases(options: &Options) -> Vec<Case> {
    let mut all = Vec::new();
    for clients in &options.clients {
        let threads = options.threads.iter();
        all.extend(threads.map(|threads| Case::Clients(*clients, *threads)));
    }
    all.extend(options.value_bytes.iter().copied().map(Case::Value));
    all.extend(options.blocks.iter().copied().map(Case::Block));
    let workloads = options.workloads.iter();
    all.extend(workloads.map(|(sets, distribution)| Case::Workload(*sets, *distribution)));
    all.extend(options.delays_ms.iter().copied().map(Case::Delay));
    all
}

/// Returns the number of steps that [`run`] and [`alone`] report.
pub fn steps(options: &Options) -> usize {
    let runs = cases(options).len() + options.rounds.max(1) + 1;
    2 + runs * CONTESTANTS.len()
}

/// Progress of both parts.
pub struct Told<'a> {
    done: usize,
    of: usize,
    progress: &'a mut dyn FnMut(Progress),
}

impl<'a> Told<'a> {
    /// Returns the progress of a run with these options.
    pub fn new(options: &Options, progress: &'a mut dyn FnMut(Progress)) -> Self {
        Self {
            done: 0,
            of: steps(options),
            progress,
        }
    }

    fn tell(&mut self, doing: &'static str) {
        let (done, of) = (self.done, self.of);
        (self.progress)(Progress { doing, done, of });
        self.done += 1;
    }
}

/// Measures hashing, signing and verification alone. It needs no disk.
pub fn alone(options: &Options, told: &mut Told<'_>, found: &mut Measurements) -> Result<(), BenchError> {
    told.tell("hashing, signing and verifying");
    found.primitives = primitives::measure(options.primitives, &options.primitive_threads(), options.rounds)?;
    found.judge();
    Ok(())
}

/// Runs the contestants in all cases.
pub fn run(options: &Options, told: &mut Told<'_>, found: &mut Measurements) -> Result<(), BenchError> {
    told.tell("setting all records");
    let mut setting = Setting::new(&options.data, options.seed, options.records)?;
    let bars = sign(&setting, Case::Bars, options);
    for round in 0..options.rounds.max(1) {
        found
            .bars
            .push(contest(&mut setting, Case::Bars, &bars, round, "figure 1", told)?);
    }
    drop(bars);
    let mut forged = setting.sign(Case::Bars.shape(), options.case, CALLS_MIN);
    forged.forge_one_of_each_call();
    let samples = contest(&mut setting, Case::Bars, &forged, 0, "wrong signatures", told)?;
    let forged_run = |(who, sample)| {
        let run = ForgedRun {
            requests: forged.count(),
            forged: forged.forged(),
            sample,
        };
        (who, run)
    };
    found.forged = samples.into_iter().map(forged_run).collect();
    for (place, case) in cases(options).into_iter().enumerate() {
        let requests = sign(&setting, case, options);
        let samples = contest(&mut setting, case, &requests, place, "other cases", told)?;
        found.points.push(Point { case, samples });
    }
    found.judge();
    Ok(())
}

fn sign(setting: &Setting, case: Case, options: &Options) -> Requests {
    setting.sign(case.shape(), case.requests(options), case.calls_min())
}

/// Runs all contestants with the same requests. Each round begins with another contestant.
fn contest(
    setting: &mut Setting,
    case: Case,
    requests: &Requests,
    round: usize,
    doing: &'static str,
    told: &mut Told<'_>,
) -> Result<BTreeMap<Who, Sample>, BenchError> {
    let mut samples = BTreeMap::new();
    for place in 0..CONTESTANTS.len() {
        let who = CONTESTANTS[(place + round) % CONTESTANTS.len()];
        told.tell(doing);
        samples.insert(who, setting.run(who, requests, case.conditions())?);
    }
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(refused: u64, bad_signatures: u64) -> Sample {
        Sample {
            rps: 1000.0,
            mean_us: 1.0,
            p50_us: 1.0,
            p99_us: 1.0,
            refused,
            bad_signatures,
            blocks: 1,
            wrong: Default::default(),
        }
    }

    fn forged(who: Who, sample: Sample) -> Measurements {
        let run = ForgedRun {
            requests: 100,
            forged: 4,
            sample,
        };
        Measurements {
            forged: BTreeMap::from([(who, run)]),
            ..Measurements::default()
        }
    }

    #[test]
    fn a_wrong_signature_that_is_not_refused_is_a_failure() {
        let failures = |who, refused, bad| {
            let mut found = forged(who, sample(refused, bad));
            found.judge();
            found.failures.len()
        };
        assert_eq!(failures(Who::Batch, 4, 4), 0);
        assert_eq!(failures(Who::Scalar, 4, 4), 0);
        assert_eq!(failures(Who::None, 0, 0), 0);
        // A verifier that marks every signature valid.
        assert_eq!(failures(Who::Batch, 0, 0), 2);
        // A right signature that is refused too.
        assert_eq!(failures(Who::Batch, 5, 4), 1);
        assert_eq!(failures(Who::None, 1, 0), 1);
    }

    #[test]
    fn a_refused_request_is_a_failure_in_every_case() {
        for (refused, failures) in [(0, 0), (3, 2)] {
            let samples = BTreeMap::from([(Who::Batch, sample(refused, 0))]);
            let mut found = Measurements {
                bars: vec![samples.clone()],
                points: vec![Point {
                    case: Case::Value(512),
                    samples,
                }],
                ..Measurements::default()
            };
            found.judge();
            assert_eq!(found.failures.len(), failures, "{:?}", found.failures);
        }
    }

    #[test]
    fn a_full_run_has_every_parameter_of_the_papers_benchmark() {
        let all = cases(&Options::new("out".into()));
        for case in [
            Case::Clients(4, 128),
            Case::Clients(4, 64),
            Case::Clients(2, 64),
            Case::Value(512),
            Case::Value(128 << 10),
            Case::Block(10),
            Case::Block(100),
            Case::Block(1_000),
            Case::Block(10_000),
            Case::Delay(0),
            Case::Delay(10),
            Case::Delay(100),
            Case::Delay(1_000),
        ] {
            assert!(all.contains(&case), "{case:?}");
        }
        for sets in [50, 5, 0] {
            for distribution in [Distribution::Uniform, Distribution::Latest, Distribution::Zipfian] {
                assert!(all.contains(&Case::Workload(sets, distribution)));
            }
        }
    }
}

//! Values of the paper's text next to those of Lineside.

use super::measure::{CONTESTANTS, Case, Measurements, distribution_name};
use super::{Options, PAPER_PRIMITIVES};
use crate::section::{Finding, Verdict};
use lineside_bench::figures::median;
use lineside_bench::hybrid::figures::{Primitive, Sample, Who, Work, name};
use std::collections::BTreeMap;

/// Unit of rates.
const RPS: &str = "requests/s";
/// Paper: requests per second of one node without signatures (baseline 1).
pub const PAPER_NONE: f64 = 20_256.0;
/// Paper: requests per second of one node that verifies on the CPU (baseline 2).
pub const PAPER_CPU: f64 = 9_639.0;
/// Paper: requests per second of the accelerated node, optimistic scenario.
pub const PAPER_OPTIMISTIC: f64 = 20_586.0;
/// Paper: requests per second of the accelerated node, pessimistic scenario.
pub const PAPER_PESSIMISTIC: f64 = 16_588.0;
/// Paper: maximum of baseline 1, with 4 clients and 128 threads each.
pub const PAPER_NONE_MAX: f64 = 28_935.0;
/// Paper: maximum of baseline 2, with 4 clients and 64 threads each.
pub const PAPER_CPU_MAX: f64 = 19_251.0;
/// Paper: log of a run with 2 drivers and a concurrency of 64.
const PAPER_LOG: f64 = 19_533.0;
/// Paper: average latency in milliseconds in that log.
const PAPER_LOG_MS: f64 = 6.080_641_371_371_371;
/// Paper: times in milliseconds for 100,000 requests with 6 threads.
pub const PAPER_KECCAK_MS: f64 = 39.258_1;
/// Paper: as [`PAPER_KECCAK_MS`], signing.
pub const PAPER_SIGN_MS: f64 = 704.543_7;
/// Paper: as [`PAPER_KECCAK_MS`], the alleged verification.
pub const PAPER_VERIFY_MS: f64 = 1.789_9;
/// Smallest ratio of baseline 1 to baseline 2 for which the effect of verification counts as significant, as the paper
/// says. The paper gives no limit.
const SIGNIFICANT: f64 = 1.2;

const EMULATED: &str = "the paper emulates the verification, as its text says: its function for the card sets each \
                        signature to valid and sleeps, half of the time of the hashes (optimistic) or all of it \
                        (pessimistic)";
const HARDWARE: &str = "the paper's node has 6 cores and sends its blocks through Kafka";

/// Returns all findings in the order of the paper's figures.
pub fn findings(options: &Options, found: &Measurements) -> Vec<Finding> {
    let rows = bars(found).into_iter().chain(wrong_signatures(found));
    let rows = rows.chain(clients(found)).chain(pessimistic(found));
    let rows = rows.chain(primitives(found)).chain(parameters(options, found));
    rows.map(|row| row.0).collect()
}

/// Finding that is being described.
struct Row(Finding);

fn finding(figure: &str, quantity: impl Into<String>, unit: &'static str, ours: Option<f64>) -> Row {
    Row(Finding {
        figure: figure.to_owned(),
        quantity: quantity.into(),
        paper: String::new(),
        paper_value: None,
        ours,
        unit,
        remark: String::new(),
        verdict: Verdict::None,
    })
}

impl Row {
    fn paper(mut self, words: &str, value: f64) -> Self {
        self.0.paper = words.to_owned();
        self.0.paper_value = Some(value);
        self
    }

    fn remark(mut self, remark: impl Into<String>) -> Self {
        if !self.0.remark.is_empty() {
            self.0.remark += "; ";
        }
        self.0.remark += &remark.into();
        self
    }

    fn verdict(mut self, verdict: Verdict) -> Self {
        self.0.verdict = verdict;
        self
    }

    /// Sets the verdict `Holds` or `Fails`; without a value of Lineside there is no verdict.
    fn holds_if(self, is_held: impl FnOnce(f64) -> bool) -> Self {
        match self.0.ours.map(is_held) {
            None => self,
            Some(true) => self.verdict(Verdict::Holds),
            Some(false) => self.verdict(Verdict::Fails),
        }
    }
}

fn bars(found: &Measurements) -> Vec<Row> {
    let bar = |who| median(found.bar(who));
    let ratio = |over, under| median(found.bar_ratio(over, under));
    vec![
        finding("figure 1", "one node, no signatures (baseline 1; none)", RPS, bar(Who::None))
            .paper("20256 req/s", PAPER_NONE)
            .remark(HARDWARE)
            .remark("none still hashes each request for its id"),
        finding(
            "figure 1",
            "one node, signatures verified one by one on the CPU (baseline 2; scalar)",
            RPS,
            bar(Who::Scalar),
        )
        .paper("9639 req/s", PAPER_CPU)
        .remark(HARDWARE),
        finding(
            "figure 1",
            "one node, signatures accelerated (optimistic scenario; ours batch, really verified)",
            RPS,
            bar(Who::Batch),
        )
        .paper("20586 req/s", PAPER_OPTIMISTIC)
        .remark(EMULATED)
        .remark(
            "its reason for the scenarios is a micro-benchmark whose signatures have 65 bytes and are refused at once; \
             every value of ours is of verified signatures",
        )
        .verdict(Verdict::Fails),
        finding(
            "figure 1",
            "no signatures / verified on the CPU (none/scalar): effect of verification",
            "",
            ratio(Who::None, Who::Scalar),
        )
        .paper("significant (20256/9639)", PAPER_NONE / PAPER_CPU)
        .remark(format!("the claim counts as confirmed from {SIGNIFICANT} on"))
        .holds_if(|ratio| ratio >= SIGNIFICANT),
        finding(
            "figure 1",
            "accelerated / verified on the CPU (batch/scalar)",
            "",
            ratio(Who::Batch, Who::Scalar),
        )
        .paper("more than 2X; 2.1X", 2.1)
        .remark(
            "the aim can be reached by software that verifies; the paper's own value is emulated and does not show it",
        )
        .holds_if(|ratio| ratio >= 2.0),
        finding(
            "figure 1",
            "accelerated / no signatures (batch/none)",
            "",
            ratio(Who::Batch, Who::None),
        )
        .paper("almost the same (20586/20256)", PAPER_OPTIMISTIC / PAPER_NONE)
        .remark("the paper's value is above 1 because its accelerated node has no verification to do"),
    ]
}

fn wrong_signatures(found: &Measurements) -> Vec<Row> {
    let count = |who: Who| {
        let run = found.forged.get(&who);
        let quantity = match run {
            Some(run) => format!(
                "wrong signatures refused, {} among {} requests, {}",
                run.forged,
                run.requests,
                name(who)
            ),
            None => format!("wrong signatures refused, {}", name(who)),
        };
        finding(
            "figure 1",
            quantity,
            "",
            run.map(|run| run.sample.bad_signatures as f64),
        )
    };
    CONTESTANTS
        .map(|who| match who {
            Who::None => count(who).remark(
                "this node accepts every signature, like the paper's accelerated node: all requests with wrong \
                 signatures are executed",
            ),
            _ => count(who).remark("each refusal has the code of a wrong signature, and no other request is refused"),
        })
        .into()
}

fn rate(samples: Option<&BTreeMap<Who, Sample>>, who: Who) -> Option<f64> {
    Some(samples?.get(&who)?.rps)
}

/// Returns the highest rate of a contestant over all numbers of clients, with its case.
fn highest(found: &Measurements, who: Who) -> Option<(f64, usize, usize)> {
    let points = found.points.iter().filter_map(|point| match point.case {
        Case::Clients(clients, threads) => Some((point.samples.get(&who)?.rps, clients, threads)),
        _ => None,
    });
    points.max_by(|one, other| one.0.total_cmp(&other.0))
}

fn clients(found: &Measurements) -> Vec<Row> {
    let maximum = |who, what: &str, words: &str, value| {
        let highest = highest(found, who);
        let made = finding(
            "figures 3, 4",
            format!("maximum over clients and threads, {what}"),
            RPS,
            highest.map(|highest| highest.0),
        );
        let made = made.paper(words, value).remark(
            "the text does not give the number of nodes of this maximum; the maximum on one node is in figure 1",
        );
        match highest {
            Some((_, clients, threads)) => made.remark(format!(
                "ours with {clients} clients and {threads} calls in flight each"
            )),
            None => made,
        }
    };
    let point = |clients, threads, who, words: &str, value| {
        let ours = rate(found.point(Case::Clients(clients, threads)), who);
        let made = finding(
            "figures 3, 4",
            format!("{clients} clients with {threads} threads each, {}", name(who)),
            RPS,
            ours,
        );
        let made = made.paper(words, value);
        match ours {
            None => made.remark("a short run does not measure this point"),
            Some(_) => made,
        }
    };
    let higher = highest(found, Who::None).zip(highest(found, Who::Scalar));
    let log = found
        .point(Case::Clients(2, 64))
        .and_then(|samples| samples.get(&Who::Batch));
    vec![
        maximum(
            Who::None,
            "baseline 1, none",
            "28935 req/s, 4 clients, 128 threads",
            PAPER_NONE_MAX,
        ),
        maximum(
            Who::Scalar,
            "baseline 2, scalar",
            "19251 req/s, 4 clients, 64 threads",
            PAPER_CPU_MAX,
        ),
        finding(
            "figures 3, 4",
            "maximum of none / maximum of scalar",
            "",
            higher.map(|(none, scalar)| none.0 / scalar.0),
        )
        .paper(
            "baseline 1 has higher throughput (28935/19251)",
            PAPER_NONE_MAX / PAPER_CPU_MAX,
        )
        .holds_if(|ratio| ratio > 1.0),
        point(4, 128, Who::None, "28935 req/s", PAPER_NONE_MAX),
        point(4, 64, Who::Scalar, "19251 req/s", PAPER_CPU_MAX),
        point(2, 64, Who::Batch, "19533 req/s (log of a run)", PAPER_LOG).remark(EMULATED),
        finding(
            "log of a run",
            "average latency, 2 clients with 64 threads each, batch",
            "ms",
            log.map(|sample| sample.mean_us / 1e3),
        )
        .paper("6.080641371371371 ms", PAPER_LOG_MS)
        .remark(
            "ours is the latency of a call of 100 requests; 128 requests in flight at 19533 req/s take 6.55 ms by \
             Little's law, so the paper's value is that of one request",
        ),
    ]
}

fn pessimistic(found: &Measurements) -> Vec<Row> {
    vec![
        finding(
            "figure 6",
            "one node, signatures accelerated (pessimistic scenario; ours batch, really verified)",
            RPS,
            median(found.bar(Who::Batch)),
        )
        .paper("16588 req/s", PAPER_PESSIMISTIC)
        .remark(EMULATED)
        .verdict(Verdict::Fails),
        finding(
            "figure 6",
            "accelerated, pessimistic / verified on the CPU (batch/scalar)",
            "",
            median(found.bar_ratio(Who::Batch, Who::Scalar)),
        )
        .paper("1.7X", 1.7)
        .remark("as in figure 1, only ours is of verified signatures")
        .holds_if(|ratio| ratio >= 1.7),
    ]
}

/// Returns the time in milliseconds for 100,000 requests.
fn for_100_000(primitive: &Primitive) -> f64 {
    primitive.ms * PAPER_PRIMITIVES as f64 / primitive.requests.max(1) as f64
}

fn primitives(found: &Measurements) -> Vec<Row> {
    let micro = "micro-benchmark";
    let threads: Vec<usize> = {
        let mut threads: Vec<_> = found
            .primitives
            .iter()
            .map(|primitive| primitive.threads)
            .collect();
        threads.sort_unstable();
        threads.dedup();
        threads
    };
    let of = |work, threads| {
        let mut all = found.primitives.iter();
        all.find(|primitive| primitive.work == work && primitive.threads == threads)
    };
    let ms = |work, threads| of(work, threads).map(for_100_000);
    let mut all = Vec::new();
    for (work, what, words, value) in [
        (
            Work::Keccak,
            "Keccak256, one at a time",
            "0.0392581 s",
            PAPER_KECCAK_MS,
        ),
        (
            Work::KeccakBatch,
            "Keccak256, in batches",
            "0.0392581 s",
            PAPER_KECCAK_MS,
        ),
        (Work::Sign, "sign (libsecp256k1)", "0.7045437 s", PAPER_SIGN_MS),
        (
            Work::Verify,
            "verify, one at a time (libsecp256k1)",
            "0.0017899 s",
            PAPER_VERIFY_MS,
        ),
        (
            Work::VerifyBatch,
            "verify, in batches",
            "0.0017899 s",
            PAPER_VERIFY_MS,
        ),
    ] {
        for count in threads.iter().copied() {
            let quantity = format!("100,000 x {what}, {count} threads");
            let made = finding(micro, quantity, "ms", ms(work, count)).paper(words, value);
            all.push(match work {
                Work::Verify | Work::VerifyBatch => made
                    .remark("the paper's time is of signatures that are refused for their length, not of verification")
                    .verdict(Verdict::Fails),
                _ => made.remark("the paper has 6 threads"),
            });
        }
    }
    let ratio = |over, under| Some(ms(over, 1)? / ms(under, 1)?);
    let claim = "ECDSA verification is much faster than Keccak256 generation";
    let paper = PAPER_VERIFY_MS / PAPER_KECCAK_MS;
    all.push(
        finding(
            micro,
            "time of a verification / time of a Keccak256, one at a time, 1 thread",
            "",
            ratio(Work::Verify, Work::Keccak),
        )
        .paper(claim, paper)
        .remark("the paper derives its two scenarios (1/2 and 1) from this ratio")
        .holds_if(|ratio| ratio < 1.0),
    );
    all.push(
        finding(
            micro,
            "time of a verification / time of a Keccak256, both in batches, 1 thread",
            "",
            ratio(Work::VerifyBatch, Work::KeccakBatch),
        )
        .paper(claim, paper)
        .holds_if(|ratio| ratio < 1.0),
    );
    all.push(
        finding(
            micro,
            "accepted signatures of 65 bytes, in percent",
            "%",
            of(Work::Verify65, 1)
                .map(|primitive| 100.0 * primitive.accepted as f64 / primitive.requests.max(1) as f64),
        )
        .remark("a signature in r || s has 64 bytes; the paper passes the 65 bytes that its signing function returns"),
    );
    all.push(
        finding(
            micro,
            "100,000 x refusal of a signature of 65 bytes, 1 thread",
            "ms",
            ms(Work::Verify65, 1),
        )
        .paper("0.0017899 s as the time of verification", PAPER_VERIFY_MS)
        .remark("the paper has 6 threads; its time is that of such refusals"),
    );
    all
}

fn parameters(options: &Options, found: &Measurements) -> Vec<Row> {
    let mut cases: Vec<(&str, String, Case)> = Vec::new();
    for bytes in options.value_bytes.iter().copied() {
        cases.push((
            "value sizes",
            format!("values of {bytes} bytes"),
            Case::Value(bytes),
        ));
    }
    for block in options.blocks.iter().copied() {
        cases.push((
            "block sizes",
            format!("blocks of at most {block}"),
            Case::Block(block),
        ));
    }
    for (sets, distribution) in options.workloads.iter().copied() {
        let workload = match sets {
            50 => "workload A".to_owned(),
            5 => "workload B".to_owned(),
            0 => "workload C".to_owned(),
            other => format!("{other} % sets"),
        };
        let quantity = format!("{workload}, {}", distribution_name(distribution));
        cases.push(("distributions", quantity, Case::Workload(sets, distribution)));
    }
    for ms in options.delays_ms.iter().copied() {
        cases.push((
            "transaction delays",
            format!("sets only, log with a delay of {ms} ms"),
            Case::Delay(ms),
        ));
    }
    let of_case = |(figure, quantity, case): (&str, String, Case)| {
        let samples = found.point(case);
        let made = finding(
            figure,
            format!("{quantity}, batch"),
            RPS,
            rate(samples, Who::Batch),
        );
        match rate(samples, Who::None).zip(rate(samples, Who::Scalar)) {
            Some((none, scalar)) => made.remark(format!(
                "none {none:.0}, scalar {scalar:.0}; the paper's text has no value"
            )),
            None => made,
        }
    };
    cases.into_iter().map(of_case).collect()
}

#[cfg(test)]
mod tests {
    use super::super::measure::{ForgedRun, Point};
    use super::*;

    fn sample(rps: f64, bad_signatures: u64) -> Sample {
        Sample {
            rps,
            mean_us: 2_000.0,
            p50_us: 1.0,
            p99_us: 1.0,
            refused: bad_signatures,
            bad_signatures,
            blocks: 1,
            wrong: Default::default(),
        }
    }

    fn samples(rates: [f64; 3]) -> BTreeMap<Who, Sample> {
        let rates = CONTESTANTS.into_iter().zip(rates);
        rates.map(|(who, rps)| (who, sample(rps, 0))).collect()
    }

    fn measured() -> Measurements {
        let forged = |who, bad| {
            let run = ForgedRun {
                requests: 1_000,
                forged: 10,
                sample: sample(1.0, bad),
            };
            (who, run)
        };
        let primitive = |work, ms, accepted| Primitive {
            work,
            threads: 1,
            requests: 50_000,
            ms,
            accepted,
            wrong: 0,
        };
        Measurements {
            bars: vec![
                samples([30_000.0, 10_000.0, 20_000.0]),
                samples([40_000.0, 10_000.0, 30_000.0]),
                samples([20_000.0, 10_000.0, 25_000.0]),
            ],
            forged: BTreeMap::from([
                forged(Who::None, 0),
                forged(Who::Scalar, 10),
                forged(Who::Batch, 10),
            ]),
            points: vec![
                Point {
                    case: Case::Clients(2, 64),
                    samples: samples([50_000.0, 10_000.0, 19_533.0]),
                },
                Point {
                    case: Case::Clients(4, 128),
                    samples: samples([28_935.0, 20_000.0, 1.0]),
                },
            ],
            primitives: vec![
                primitive(Work::Keccak, 20.0, 0),
                primitive(Work::Verify, 2_000.0, 50_000),
                primitive(Work::Verify65, 0.5, 0),
            ],
            failures: Vec::new(),
        }
    }

    fn only<'a>(all: &'a [Finding], part: &str) -> &'a Finding {
        let mut found = all.iter().filter(|finding| finding.quantity.contains(part));
        let first = found.next().unwrap_or_else(|| panic!("no {part}"));
        assert!(found.next().is_none(), "several findings with {part:?}");
        first
    }

    #[test]
    fn emulated_values_fail_and_measured_claims_are_judged() {
        let all = findings(&Options::quick("out".into()), &measured());
        let optimistic = only(&all, "optimistic scenario");
        assert_eq!(
            (optimistic.ours, optimistic.verdict),
            (Some(25_000.0), Verdict::Fails)
        );
        assert!(optimistic.remark.contains("sleeps") && optimistic.remark.contains("65 bytes"));
        let over_cpu = only(&all, "accelerated / verified on the CPU (batch/scalar)");
        assert_eq!((over_cpu.ours, over_cpu.verdict), (Some(2.5), Verdict::Holds));
        assert_eq!(only(&all, "accelerated / no signatures").ours, Some(0.75));
        assert_eq!(only(&all, "effect of verification").ours, Some(3.0));
        // 50,000 verifications in 2 s take 100 times as long as hashes in 20 ms.
        let ratio = only(
            &all,
            "time of a verification / time of a Keccak256, one at a time",
        );
        assert_eq!((ratio.ours, ratio.verdict), (Some(100.0), Verdict::Fails));
        assert_eq!(only(&all, "x Keccak256, one at a time").ours, Some(40.0));
        assert_eq!(only(&all, "x refusal of a signature").ours, Some(1.0));
        assert_eq!(only(&all, "accepted signatures of 65 bytes").ours, Some(0.0));
    }

    #[test]
    fn the_maximum_names_its_case_and_points_are_compared_with_the_papers() {
        let all = findings(&Options::quick("out".into()), &measured());
        let none = only(&all, "baseline 1, none");
        assert_eq!(none.ours, Some(50_000.0));
        assert!(none.remark.contains("2 clients and 64 calls"), "{}", none.remark);
        assert_eq!(only(&all, "4 clients with 128 threads").ratio(), Some(1.0));
        assert_eq!(only(&all, "4 clients with 64 threads").ours, None);
        assert_eq!(only(&all, "average latency").ours, Some(2.0));
        assert_eq!(only(&all, "maximum of none").ours, Some(2.5));
    }

    #[test]
    fn wrong_signatures_are_counted_for_each_contestant() {
        let all = findings(&Options::quick("out".into()), &measured());
        for (who, refused) in [("none", 0.0), ("scalar", 10.0), ("batch", 10.0)] {
            let part = format!("10 among 1000 requests, {who}");
            assert_eq!(only(&all, &part).ours, Some(refused));
        }
    }

    #[test]
    fn nothing_is_invented_without_measurements() {
        let all = findings(&Options::quick("out".into()), &Measurements::default());
        assert!(all.iter().all(|finding| finding.ours.is_none()));
        let holds = all.iter().filter(|finding| finding.verdict == Verdict::Holds);
        assert_eq!(holds.count(), 0);
    }
}

//! Values of the paper's text next to those of Lineside.

use super::bytes::{PAPER, Paper, link_ops_per_s, value_bytes, wire_bytes};
use super::figures::PAPER_SOFTWARE_OPS_PER_S;
use super::measure::Measurements;
use crate::found::{NO_VALUE, finding, holds_if};
use crate::section::{Finding, Verdict};
use crate::table::number;
use lineside_bench::column::figures::{Ask, Point, Varied};

/// Least ratio that is "orders of magnitude": two of them.
const ORDERS_OF_MAGNITUDE: f64 = 100.0;
/// Power of the server with software and with the paper's cache, in watts (table III).
const WATTS: [f64; 2] = [92.1, 71.6];

fn figure(paper: &Paper) -> String {
    format!("figure {}", paper.figure)
}

/// Returns the findings that are arithmetic.
pub fn bytes() -> Vec<Finding> {
    const PADDING: &str = "the paper's answers fill the link with bytes that are neither keys nor values, so its rate \
                           is not a limit of 10 GbE";
    let mut findings = Vec::new();
    for paper in &PAPER {
        let name = paper.ask.name();
        let (answer, wire) = (paper.answer_bytes(), wire_bytes(paper.ask) as f64);
        let values = value_bytes(paper.ask) as f64;
        let shown = format!(
            "{} (from {} Gb/s and {} Mops/s)",
            answer.round(),
            number(paper.bits_per_s / 1e9),
            number(paper.ops_per_s / 1e6)
        );
        findings.push(finding(
            &figure(paper),
            format!("bytes of an answer on the wire, {name}, values of {values} bytes, computed"),
            (&shown, Some(answer)),
            Some(wire),
            "B",
            Verdict::None,
            "Lineside's answer with Ethernet's preamble and gap",
        ));
        let shown = format!("{} (computed)", number(100.0 * values / answer));
        findings.push(finding(
            &figure(paper),
            format!("share of an answer's bytes that are values, {name}, computed"),
            (&shown, Some(100.0 * values / answer)),
            Some(100.0 * values / wire),
            "%",
            Verdict::None,
            "",
        ));
        findings.push(finding(
            &figure(paper),
            format!("answers that fill 10 GbE, {name}, computed"),
            (
                &format!(
                    "{} with a link that is nearly full",
                    number(paper.ops_per_s / 1e6)
                ),
                Some(paper.ops_per_s / 1e6),
            ),
            Some(link_ops_per_s(paper.ask) / 1e6),
            "Mops/s",
            Verdict::Fails,
            PADDING,
        ));
    }
    findings.extend(row_and_power());
    findings
}

/// Returns the bytes of a row and the power that the cache saves.
fn row_and_power() -> [Finding; 2] {
    let [get, scan] = PAPER;
    let rows = f64::from(scan.ask.rows() - get.ask.rows());
    let paper = (scan.answer_bytes() - get.answer_bytes()) / rows;
    let row = finding(
        "figure 8",
        "bytes of each further row of 18 bytes, computed",
        (&format!("{} (computed)", number(paper)), Some(paper)),
        Some((wire_bytes(scan.ask) - wire_bytes(get.ask)) as f64 / rows),
        "B",
        Verdict::None,
        "",
    );
    let power = finding(
        "table III",
        "power that the cache saves, from the watts of the table, computed",
        ("up to 20", Some(20.0)),
        Some(100.0 * (1.0 - WATTS[1] / WATTS[0])),
        "%",
        Verdict::None,
        "the power of Lineside was not measured",
    );
    [row, power]
}

/// Returns the findings that were measured. If `is_quiet` is false, other work took processor time during the run, and
/// ratios to software are too large to confirm a claim.
pub fn measured(found: &Measurements, is_quiet: bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    for paper in &PAPER {
        findings.extend(throughput(found, paper, is_quiet));
    }
    findings.extend(software(found));
    findings.extend(pace(found));
    findings.extend(hit_ratio(&found.sweep(Varied::HeldPercent)));
    findings.extend(cache_size(&found.sweep(Varied::RowBits)));
    findings.extend(puts(found));
    findings
}

fn ratio(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    Some(a? / b?)
}

fn throughput(found: &Measurements, paper: &Paper, is_quiet: bool) -> Vec<Finding> {
    let (figure, name) = (figure(paper), paper.ask.name());
    let mut findings = Vec::new();
    for (contestant, cores) in [("xdp_max", "one core"), ("xdp_max2", "two cores")] {
        let rate = found.ops_per_s(contestant, paper.ask);
        let mops = paper.ops_per_s / 1e6;
        findings.push(finding(
            &figure,
            format!("{name}, hit ratio of 1, live frames, {cores}"),
            (&number(mops), Some(mops)),
            rate.map(|rate| rate / 1e6),
            "Mops/s",
            holds_if(rate >= Some(paper.ops_per_s)),
            "each core sends requests and answers them",
        ));
        findings.push(finding(
            &figure,
            format!("{name}, hit ratio of 1, bits on the wire, {cores}"),
            (&number(paper.bits_per_s / 1e9), Some(paper.bits_per_s / 1e9)),
            rate.map(|rate| rate * wire_bytes(paper.ask) as f64 * 8.0 / 1e9),
            "Gb/s",
            Verdict::None,
            "Lineside's answers have less padding; the veth pair has no wire, so the bits are computed from the rate",
        ));
    }
    let gain = ratio(
        found.ops_per_s("xdp_max", paper.ask),
        found.ops_per_s("thrift2", paper.ask),
    );
    findings.push(finding(
        &figure,
        format!("{name}, xdp_max divided by HBase over Thrift"),
        ("orders of magnitude", None),
        gain,
        "",
        holds_if(is_quiet && gain >= Some(ORDERS_OF_MAGNITUDE)),
        "one connection to HBase, one request at a time",
    ));
    findings
}

fn software(found: &Measurements) -> Vec<Finding> {
    let rate = |name, ask| found.ops_per_s(name, ask).map(|rate| rate / 1e3);
    let get = rate("thrift2", Ask::Get);
    let kops = PAPER_SOFTWARE_OPS_PER_S / 1e3;
    let mut findings = vec![finding(
        "figure 7",
        "get, hit ratio of 0, HBase over Thrift, one connection",
        ("about 2.5", Some(kops)),
        get,
        "Kops/s",
        Verdict::None,
        "the paper's value is from another publication (VLDB 2012)",
    )];
    for (name, how) in [
        ("thrift2x16", "16 connections"),
        ("native", "HBase's own protocol, 16 threads"),
    ] {
        findings.push(finding(
            "figure 7",
            format!("get, hit ratio of 0, HBase, {how}"),
            ("about 2.5", Some(kops)),
            rate(name, Ask::Get),
            "Kops/s",
            Verdict::None,
            "",
        ));
    }
    let scan = ratio(rate("thrift2", Ask::Scan(8)), get);
    findings.push(finding(
        "figure 8",
        "scan8 divided by get, hit ratio of 0, HBase over Thrift",
        ("less than 1", None),
        scan,
        "",
        holds_if(scan.is_some_and(|ratio| ratio < 1.0)),
        "",
    ));
    findings
}

fn pace(found: &Measurements) -> Vec<Finding> {
    let rows = |ask: Ask| Some(found.ops_per_s("xdp_max", ask)? * f64::from(ask.rows()));
    let two = ratio(
        found.ops_per_s("xdp_max", Ask::Get),
        found.ops_per_s("xdp_max", Ask::Scan(8)),
    );
    vec![
        finding(
            "section VI-C",
            "get divided by scan8, hit ratio of 1, xdp_max",
            ("about 2", Some(2.0)),
            two,
            "",
            Verdict::None,
            "the paper's ratio is that of the bytes of its answers",
        ),
        finding(
            "section VI-B",
            "rows per second of scan64 divided by those of scan8, xdp_max",
            ("1 (the same pace)", Some(1.0)),
            ratio(rows(Ask::Scan(64)), rows(Ask::Scan(8))),
            "",
            Verdict::None,
            "the fast path has a cost for each request and a cost for each row",
        ),
    ]
}

fn hit_ratio(points: &[&Point]) -> Vec<Finding> {
    let Some(first) = points.first() else {
        return Vec::new();
    };
    let of = |point: &&Point| {
        finding(
            "future work",
            format!(
                "throughput with {} % of the rows in the cache, xdp before HBase",
                point.at
            ),
            NO_VALUE,
            Some(point.figures.rps / 1e3),
            "Kops/s",
            Verdict::None,
            match point.at == first.at {
                true => "64 requests in flight; each miss waits for the host",
                false => "",
            },
        )
    };
    points.iter().map(of).collect()
}

fn cache_size(points: &[&Point]) -> Vec<Finding> {
    let grows = points
        .windows(2)
        .all(|pair| pair[0].hit_rate <= pair[1].hit_rate + 0.01);
    let of = |point: &&Point| {
        finding(
            "section VI-C",
            format!(
                "hit ratio of a cache with space for {} of 10,000 rows",
                1u32 << point.at
            ),
            ("lower with a smaller cache", None),
            Some(100.0 * point.hit_rate),
            "%",
            holds_if(grows),
            "requests follow the law of Zipf with the exponent 0.99",
        )
    };
    points.iter().map(of).collect()
}

fn puts(found: &Measurements) -> Vec<Finding> {
    let points = found.sweep(Varied::PutsPercent);
    let mut findings = Vec::new();
    for point in &points {
        findings.push(finding(
            "future work",
            format!("throughput with {} % of puts, a table in memory", point.at),
            NO_VALUE,
            Some(point.figures.rps / 1e3),
            "Kops/s",
            Verdict::None,
            "",
        ));
    }
    let stale: u64 = points.iter().map(|point| point.stale).sum();
    findings.push(finding(
        "future work",
        "replies of all points with puts that are older than an acknowledged put",
        NO_VALUE,
        Some(stale as f64),
        "",
        Verdict::None,
        "",
    ));
    let Some(cost) = &found.write_cost else {
        return findings;
    };
    for (quantity, ours, unit) in [
        (
            "median time of a put to HBase over Thrift",
            cost.direct_p50_us,
            "us",
        ),
        (
            "median time of a put through Lineside to HBase",
            cost.lineside_p50_us,
            "us",
        ),
        (
            "mean time of a put through Lineside divided by that of a direct put",
            cost.mean_ratio,
            "",
        ),
    ] {
        findings.push(finding(
            "future work",
            quantity,
            NO_VALUE,
            Some(ours),
            unit,
            Verdict::None,
            "one client, one put at a time",
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_refutes_that_the_link_is_the_limit() {
        let findings = bytes();
        let of = |part: &str| {
            let found = findings.iter().find(|finding| finding.quantity.contains(part));
            found.unwrap_or_else(|| panic!("no {part}"))
        };
        let get = of("answers that fill 10 GbE, get");
        assert_eq!(get.verdict, Verdict::Fails);
        assert!(get.ratio().is_some_and(|ratio| (ratio - 6.71).abs() < 0.01));
        let scan = of("answers that fill 10 GbE, scan8");
        assert!(scan.ratio().is_some_and(|ratio| (ratio - 4.975).abs() < 0.01));
        assert!(
            of("bytes of an answer on the wire, get")
                .paper
                .starts_with("581 ")
        );
        let row = of("further row");
        assert!(row.paper_value.is_some_and(|bytes| (bytes - 91.4).abs() < 0.1));
        assert!(row.ours.is_some_and(|bytes| (bytes - 160.0 / 7.0).abs() < 1e-9));
        assert!(
            of("power")
                .ours
                .is_some_and(|percent| (percent - 22.26).abs() < 0.01)
        );
    }
}

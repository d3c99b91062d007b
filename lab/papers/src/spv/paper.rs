//! Values of the paper next to those of Lineside, for all values that the text of the paper states. Points that are
//! only in its figures are not read off the images.

use super::CollisionRow;
use super::collisions::{Index, LINE_BITS, computed};
use super::figures::{cost, papers_shapes, sweep_points, system_rps};
use super::measure::{Measurements, PER_BLOCK, SOCKET, SW, SW_CACHE, XDP, XDP_THEN_SW};
use super::models::{self, LINK_BITS_PER_S, MODELS, link_rps};
use crate::section::{Finding, Verdict};
use lineside_bench::figures::{By, Sample, Shape, Who};

/// Returns a finding of a figure, by its number, or of a table. `paper` has the paper's words; `ours` has Lineside's
/// value and its unit.
fn row(
    figure: &str,
    quantity: impl Into<String>,
    paper: &str,
    ours: (f64, &'static str),
    remark: &str,
) -> Finding {
    let figure = match figure.parse::<u32>() {
        Ok(number) => format!("figure {number}"),
        Err(_) => figure.to_owned(),
    };
    let (paper_value, verdict) = judged(paper, ours.0);
    Finding {
        figure,
        quantity: quantity.into(),
        paper: paper.to_owned(),
        paper_value,
        ours: Some(ours.0),
        unit: ours.1,
        remark: remark.to_owned(),
        verdict,
    }
}

/// Returns the number in the words of the paper, and the judgement of its claim. A factor of improvement holds if
/// Lineside's is at least as large; a smaller one refutes nothing, because it depends on the machine. An upper limit
/// that is not a factor of improvement holds or fails.
fn judged(paper: &str, ours: f64) -> (Option<f64>, Verdict) {
    let number = |text: &str| text.trim_end_matches('%').trim().parse::<f64>().ok();
    let factor = number(paper).or_else(|| paper.strip_prefix("at most ").and_then(|most| most.parse().ok()));
    let limit = ["< ", "at most "].iter().find_map(|words| {
        let words = paper.strip_prefix(words)?;
        words.ends_with('%').then(|| number(words))?
    });
    match (limit, factor) {
        (Some(limit), _) if ours <= limit => (Some(limit), Verdict::Holds),
        (Some(limit), _) => (Some(limit), Verdict::Fails),
        (None, Some(factor)) if ours >= factor => (Some(factor), Verdict::Holds),
        (None, factor) => (factor, Verdict::None),
    }
}

/// Returns the rows of figure 13.
pub fn collisions(rows: &[CollisionRow]) -> Vec<Finding> {
    let mut found = Vec::new();
    let papers = rows
        .iter()
        .filter(|row| row.line_bits == LINE_BITS && row.keys == 250_000 && row.index == Index::LowBits);
    for collision in papers {
        let ways = collision.ways;
        let Some(measured) = collision.measured else {
            continue;
        };
        let (paper, remark) = match ways {
            1 => (
                "< 1 %",
                "the paper's value cannot hold for 250,000 different uniform keys in 2^22 lines; see docs/papers.md",
            ),
            _ => ("", ""),
        };
        let what = format!("keys lost of 250,000, {ways}-way, 2^22 lines, measured");
        found.push(row("13", what, paper, (measured.lost_percent, "%"), remark));
        let what = format!("keys lost of 250,000, {ways}-way, 2^22 lines, computed");
        found.push(row("13", what, paper, (collision.computed.lost_percent, "%"), ""));
    }
    for bits in [LINE_BITS + 1, LINE_BITS + 2] {
        let what = format!("keys lost of 250,000, 1-way, 2^{bits} lines, computed");
        let remark = if bits == LINE_BITS + 2 {
            "the least power of two with less than 1 %"
        } else {
            ""
        };
        found.push(row(
            "13",
            what,
            "",
            (computed(250_000, bits, 1).lost_percent, "%"),
            remark,
        ));
    }
    found
}

/// Returns the rows of the measured figures.
pub fn measured(found: &Measurements) -> Vec<Finding> {
    let mut rows = Vec::new();
    rows.extend(per_block(found));
    rows.extend(throughput(found));
    rows.extend(hit_rate(found));
    rows.extend(roofline(found));
    rows.extend(latency(found));
    rows.extend(load(found));
    rows
}

/// Returns the mean of the ratios of two contestants over several shapes, which is the paper's "on average".
fn mean_ratio(
    found: &Measurements,
    shapes: impl Iterator<Item = Shape>,
    a: (Who, By),
    b: (Who, By),
    of: fn(&Sample) -> f64,
) -> Option<f64> {
    let ratios: Vec<f64> = shapes
        .filter_map(|shape| {
            Some(found.runs.median(shape, a.0, a.1, of)? / found.runs.median(shape, b.0, b.1, of)?)
        })
        .collect();
    (!ratios.is_empty()).then(|| ratios.iter().sum::<f64>() / ratios.len() as f64)
}

/// Returns the largest spread of `sw` over the numbers of transactions in a block, at one total number of transactions.
/// Each value is relative to the value of `echo` with the same shape.
fn per_block(found: &Measurements) -> Option<Finding> {
    let ratio = |shape| {
        mean_ratio(
            found,
            [shape].into_iter(),
            by_socket(SW.who),
            by_socket(super::measure::ECHO.who),
            rps,
        )
    };
    let totals = found.shapes.iter().map(|shape| shape.txids());
    let spread = |total| {
        let shapes = PER_BLOCK.map(|transactions| Shape {
            blocks: total / transactions,
            transactions,
        });
        let ratios = shapes.into_iter().filter_map(ratio);
        let (least, most) = ratios.fold((f64::INFINITY, 0.0f64), |(a, b), ratio| {
            (a.min(ratio), b.max(ratio))
        });
        100.0 * (most / least - 1.0)
    };
    let most = totals.map(spread).reduce(f64::max)?;
    Some(row(
        "16",
        "sw/echo, spread over 1,024 to 4,096 transactions in a block",
        "no effect",
        (most, "%"),
        "the tree is searched by TXID alone, so what is left is the noise of the machine",
    ))
}

const fn by_socket(who: Who) -> (Who, By) {
    (who, By::Window64)
}

fn rps(sample: &Sample) -> f64 {
    sample.rps
}

fn throughput(found: &Measurements) -> Vec<Finding> {
    let (sw, cache, xdp) = (by_socket(SW.who), by_socket(SW_CACHE.who), by_socket(XDP.who));
    let live = (XDP.who, By::Live);
    let cases = [
        (
            "throughput sw_cache/sw",
            "1.07",
            cache,
            sw,
            "the cache saves the descent of the tree, a small part of a server's work for a datagram",
        ),
        (
            "throughput xdp/sw_cache",
            "1.84",
            xdp,
            cache,
            "the client is the limit of xdp",
        ),
        (
            "throughput xdp/sw",
            "1.97",
            xdp,
            sw,
            "the client is the limit of xdp",
        ),
        (
            "throughput xdp_max/sw",
            "at most 26.2",
            live,
            sw,
            "one core sends and answers; the paper's filled 10 GbE",
        ),
        ("throughput socket/sw", "", by_socket(SOCKET.who), sw, ""),
    ];
    let of = |(what, paper, a, b, remark): (&'static str, &'static str, _, _, &'static str)| {
        let ratio = mean_ratio(found, papers_shapes(found), a, b, rps)?;
        Some(row("18", what, paper, (ratio, ""), remark))
    };
    cases.into_iter().filter_map(of).collect()
}

fn hit_rate(found: &Measurements) -> Vec<Finding> {
    let mut rows = Vec::new();
    for (kind, by) in [("closed loop", By::Window64), ("open loop", By::Live)] {
        let points = sweep_points(found, by);
        let (Some(first), Some(last)) = (points.first().copied(), points.last().copied()) else {
            continue;
        };
        for (name, model) in MODELS {
            let errors = points
                .iter()
                .map(|(hits, value)| models::error_percent(model(*hits, last.1, first.1), *value));
            let (paper, remark) = match (name, kind) {
                ("linear", "closed loop") => (
                    "at most 10.4 %",
                    "the paper does not say if its client waits for replies",
                ),
                ("linear", _) => ("at most 10.4 %", ""),
                _ => ("", ""),
            };
            let most = errors.reduce(f64::max).unwrap_or(0.0);
            let what = format!("largest error of the {name} model, {kind}");
            rows.push(row("19", what, paper, (most, "%"), remark));
        }
    }
    rows
}

fn roofline(found: &Measurements) -> Vec<Finding> {
    let link = link_rps(LINK_BITS_PER_S);
    let mut rows = vec![row(
        "20",
        "10 GbE with 74-byte frames",
        "the limit of HW",
        (link / 1e6, "M/s"),
        "computed: 98 bytes a frame on the wire",
    )];
    for contestant in [SW, XDP] {
        if let Some(system) = system_rps(found, contestant) {
            let what = format!("roof of {}, percent of 10 GbE", contestant.name);
            rows.push(row("20", what, "", (100.0 * system / link, "%"), ""));
        }
    }
    rows
}

fn latency(found: &Measurements) -> Vec<Finding> {
    let cases = [
        ("sw/sw_cache", "1.64", SW.who, SW_CACHE.who),
        ("sw_cache/xdp", "1.97", SW_CACHE.who, XDP.who),
        ("sw/xdp", "3.22", SW.who, XDP.who),
    ];
    let clients = [
        (By::Window1, "socket client", ""),
        (
            By::LiveWindow1,
            "live frames",
            "at the client's interface, without the client's own path",
        ),
    ];
    let mut rows = Vec::new();
    for (by, client, remark) in clients {
        for (what, paper, a, b) in cases {
            let shapes = found
                .shapes
                .iter()
                .copied()
                .filter(|shape| shape.blocks == found.blocks);
            let ratio = mean_ratio(found, shapes, (a, by), (b, by), |sample| sample.p50_us);
            let Some(ratio) = ratio else { continue };
            rows.push(row(
                "21",
                format!("latency {what}, {client}"),
                paper,
                (ratio, ""),
                remark,
            ));
        }
    }
    rows
}

fn load(found: &Measurements) -> Vec<Finding> {
    let cases = [
        ("sw", SW, 0, "86.0 W"),
        ("sw_cache", SW_CACHE, 0, "84.3 W"),
        ("socket", SOCKET, 0, ""),
        ("sw after xdp, 50 % hits", XDP_THEN_SW, 50, ""),
        ("sw after xdp, 90 % hits", XDP_THEN_SW, 90, ""),
        ("sw after xdp, all hits", XDP_THEN_SW, 100, "67.5 W"),
    ];
    let of = |(name, contestant, hits, paper)| {
        let cost = cost(found, contestant, hits)?;
        let what = format!("server's processor time, {name}");
        let remark = if paper == "86.0 W" {
            "the paper measures the power that the whole machine draws"
        } else {
            ""
        };
        Some(row("table 6", what, paper, (cost.server_us, "us"), remark))
    };
    let mut rows: Vec<_> = cases.into_iter().filter_map(of).collect();
    if let Some(cost) = cost(found, XDP_THEN_SW, 100) {
        let remark = "by the kernel's run time statistics, which are part of it";
        rows.push(row(
            "table 6",
            "XDP program, all hits",
            "",
            (cost.fastpath_us, "us"),
            remark,
        ));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_in_percent_fail_and_smaller_factors_are_not_judged() {
        for (paper, ours, value, verdict) in [
            ("< 1 %", 2.93, Some(1.0), Verdict::Fails),
            ("at most 10.4 %", 9.0, Some(10.4), Verdict::Holds),
            ("at most 10.4 %", 137.0, Some(10.4), Verdict::Fails),
            ("1.97", 2.86, Some(1.97), Verdict::Holds),
            ("1.97", 1.05, Some(1.97), Verdict::None),
            ("at most 26.2", 12.0, Some(26.2), Verdict::None),
            ("86.0 W", 8.5, None, Verdict::None),
            ("no effect", 39.0, None, Verdict::None),
            ("", 1.0, None, Verdict::None),
        ] {
            assert_eq!(judged(paper, ours), (value, verdict), "{paper}, {ours}");
        }
    }
}

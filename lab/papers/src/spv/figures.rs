//! Files of each figure: one CSV table with everything that the plot shows and more, and the plot as SVG.

use super::CollisionRow;
use super::collisions::{Collisions, Index, KEYS, LINE_BITS, WAYS, computed};
use super::measure::{
    Contestant, ECHO, HITS, LATENCY, LIVE_FRAMES, LOAD, LOAD_HITS, LOADED, Measurements, OFFERED,
    PAPER_PER_BLOCK, PER_BLOCK, ROOFLINE, SOCKET_CLIENT, SW, THROUGHPUT, XDP, XDP_THEN_SW,
};
use super::models::{self, LINK_BITS_PER_S, MODELS, link_rps};
use crate::error::Result;
use crate::plot::{Axis, Chart, Scale, Series, Style};
use crate::section::Figure as WrittenFigure;
use crate::table::{Table, number};
use lineside_bench::figures::{By, Sample, Shape, median};
use std::path::Path;

/// Number of points of a computed curve.
const CURVE_POINTS: u32 = 60;

/// Files of a figure.
struct Figure {
    name: &'static str,
    table: Table,
    charts: Vec<(&'static str, Chart)>,
}

impl Figure {
    fn write(self, out: &Path) -> Result<Vec<WrittenFigure>> {
        let csv = out.join(format!("{}.csv", self.name));
        self.table.write(&csv)?;
        let mut written = Vec::new();
        for (name, chart) in self.charts {
            let svg = out.join(format!("{name}.svg"));
            chart.write(&svg)?;
            written.push(WrittenFigure {
                title: chart.title,
                svg: Some(svg),
                csv: Some(csv.clone()),
            });
        }
        Ok(written)
    }
}

const fn axis(label: &'static str, scale: Scale) -> Axis {
    Axis { label, scale }
}

fn series(name: impl Into<String>, colour: usize, style: Style, points: Vec<(f64, f64)>) -> Series {
    Series {
        name: name.into(),
        points,
        style,
        colour,
    }
}

/// Returns the median of several runs.
fn of(samples: Option<&Vec<Sample>>, value: impl Fn(&Sample) -> f64) -> Option<f64> {
    median(samples?.iter().map(value))
}

/// Returns the number of requests lost in all rounds of a run.
fn lost(samples: Option<&Vec<Sample>>) -> String {
    let lost = samples.into_iter().flatten().map(|sample| sample.lost);
    lost.sum::<u64>().to_string()
}

/// Formats a cell that may be empty.
fn cell(value: Option<f64>) -> String {
    value.map_or_else(String::new, number)
}

/// Writes figure 13.
pub fn collisions(out: &Path, rows: &[CollisionRow]) -> Result<Vec<WrittenFigure>> {
    let mut table = Table::new(&[
        "keys",
        "lines_log2",
        "ways",
        "index",
        "lost_measured_percent",
        "lost_computed_percent",
        "sharing_measured_percent",
        "sharing_computed_percent",
        "hit_comparisons_measured",
        "hit_comparisons_computed",
        "miss_comparisons_measured",
        "miss_comparisons_computed",
        "parallel_comparators",
        "paper_lost_percent",
    ]);
    for row in rows {
        let measured = |of: fn(&Collisions) -> f64| cell(row.measured.as_ref().map(of));
        let is_papers = row.ways == 1 && row.keys == 250_000 && row.line_bits == LINE_BITS;
        table.push([
            row.keys.to_string(),
            row.line_bits.to_string(),
            row.ways.to_string(),
            row.index.name().into(),
            measured(|found| found.lost_percent),
            number(row.computed.lost_percent),
            measured(|found| found.sharing_percent),
            number(row.computed.sharing_percent),
            measured(|found| found.hit_comparisons),
            number(row.computed.hit_comparisons),
            measured(|found| found.miss_comparisons),
            number(row.computed.miss_comparisons),
            row.ways.to_string(),
            if is_papers { "<1".into() } else { String::new() },
        ]);
    }
    let figure = Figure {
        name: "fig13-collisions",
        table,
        charts: vec![
            ("fig13-collisions", lost_chart(rows)),
            ("fig13-comparisons", comparisons_chart(rows)),
        ],
    };
    figure.write(out)
}

/// Returns numbers of keys from the paper's smallest to its largest, evenly spaced on a logarithmic axis.
fn curve_keys() -> impl Iterator<Item = usize> {
    let (least, most) = (KEYS[0] as f64, KEYS[KEYS.len() - 1] as f64);
    (0..=CURVE_POINTS)
        .map(move |at| (least * (most / least).powf(f64::from(at) / f64::from(CURVE_POINTS))) as usize)
}

fn measured_points(rows: &[CollisionRow], ways: u32, of: fn(&Collisions) -> f64) -> Vec<(f64, f64)> {
    let ours = rows
        .iter()
        .filter(|row| row.ways == ways && row.line_bits == LINE_BITS && row.index == Index::Keyed);
    ours.filter_map(|row| Some((row.keys as f64, of(row.measured.as_ref()?))))
        .collect()
}

fn lost_chart(rows: &[CollisionRow]) -> Chart {
    let mut all = Vec::new();
    for (colour, ways) in WAYS.into_iter().enumerate() {
        let points = measured_points(rows, ways, |found| found.lost_percent);
        all.push(series(
            format!("{ways}-way, measured"),
            colour,
            Style::Points,
            points,
        ));
        let curve = curve_keys().map(|keys| (keys as f64, computed(keys, LINE_BITS, ways).lost_percent));
        // Losses below this value are invisible among 250,000 keys, and would only stretch the axis.
        let curve = curve.filter(|point| point.1 > 1e-5).collect();
        all.push(series(
            format!("{ways}-way, computed"),
            colour,
            Style::Computed,
            curve,
        ));
    }
    let large = curve_keys().map(|keys| (keys as f64, computed(keys, LINE_BITS + 2, 1).lost_percent));
    all.push(series(
        "1-way with 2^24 lines, computed",
        6,
        Style::Computed,
        large.collect(),
    ));
    let papers = "paper: less than 1 % at 250,000 keys, 1-way";
    all.push(series(papers, 7, Style::Points, vec![(250_000.0, 1.0)]));
    Chart {
        title: "Figure 13: keys lost to collisions, 2^22 lines".into(),
        x: axis("keys sent to the table", Scale::Log10),
        y: axis("keys that another key replaced [%]", Scale::Log10),
        series: all,
    }
}

fn comparisons_chart(rows: &[CollisionRow]) -> Chart {
    let mut all = Vec::new();
    let of_hit: fn(&Collisions) -> f64 = |found| found.hit_comparisons;
    let of_miss: fn(&Collisions) -> f64 = |found| found.miss_comparisons;
    for (colour, ways) in WAYS.into_iter().enumerate() {
        for (kind, of, colour) in [("hit", of_hit, colour), ("miss", of_miss, colour + 3)] {
            let name = |how| format!("{ways}-way, {kind}, {how}");
            let points = measured_points(rows, ways, of);
            all.push(series(name("measured"), colour, Style::Points, points));
            let curve = curve_keys().map(|keys| (keys as f64, of(&computed(keys, LINE_BITS, ways))));
            all.push(series(name("computed"), colour, Style::Computed, curve.collect()));
        }
    }
    Chart {
        title: "Figure 13: tags compared by a look-up, 2^22 lines".into(),
        x: axis("keys sent to the table", Scale::Log10),
        y: axis("tags compared, one after the other", Scale::Linear),
        series: all,
    }
}

/// Writes the figures whose values come from runs of contestants.
pub fn measured(out: &Path, found: &Measurements) -> Result<Vec<WrittenFigure>> {
    let figures = [
        per_block(found),
        throughput(found),
        hit_rate(found),
        roofline(found),
        latency(found),
        load(found),
    ];
    let mut written = Vec::new();
    for figure in figures {
        written.extend(figure.write(out)?);
    }
    Ok(written)
}

fn per_block(found: &Measurements) -> Figure {
    let mut table = Table::new(&[
        "transactions_per_block",
        "blocks",
        "transactions",
        "contestant",
        "replies_per_s",
        "ratio_to_echo",
    ]);
    let rps = |shape, who| found.runs.median(shape, who, By::Window64, |sample| sample.rps);
    let mut lines = vec![Vec::new(); 2 * PER_BLOCK.len()];
    for shape in &found.shapes {
        let echo = rps(*shape, ECHO.who);
        for (kind, contestant) in [SW, ECHO].into_iter().enumerate() {
            let Some(value) = rps(*shape, contestant.who) else {
                continue;
            };
            table.push([
                shape.transactions.to_string(),
                shape.blocks.to_string(),
                shape.txids().to_string(),
                contestant.name.into(),
                number(value),
                cell(echo.map(|echo| value / echo)),
            ]);
            let at = PER_BLOCK
                .iter()
                .position(|per_block| *per_block == shape.transactions);
            lines[kind * PER_BLOCK.len() + at.unwrap_or(0)].push((shape.txids() as f64, value));
        }
    }
    let named = lines.into_iter().enumerate().map(|(at, points)| {
        let (kind, per_block) = ([SW, ECHO][at / PER_BLOCK.len()], PER_BLOCK[at % PER_BLOCK.len()]);
        series(
            format!("{}, {per_block} in a block", kind.name),
            at,
            Style::Measured,
            points,
        )
    });
    let chart = Chart {
        title: "Figure 16: throughput and transactions in a block".into(),
        x: axis("transactions in the chain", Scale::Log2),
        y: axis("throughput [replies/s]", Scale::Linear),
        series: named.collect(),
    };
    Figure {
        name: "fig16-transactions-per-block",
        table,
        charts: vec![("fig16-transactions-per-block", chart)],
    }
}

/// Returns the contestants of figure 18 with their clients.
fn throughput_cases() -> impl Iterator<Item = (&'static str, &'static str, Contestant, By)> {
    let by_socket = THROUGHPUT
        .into_iter()
        .map(|contestant| (contestant.name, contestant.paper, contestant, By::Window64));
    by_socket.chain([("xdp_max", "HW Max", XDP, By::Live)])
}

fn throughput(found: &Measurements) -> Figure {
    let mut table = Table::new(&[
        "blocks",
        "transactions_per_block",
        "contestant",
        "paper_name",
        "client",
        "replies_per_s",
        "ratio_to_sw",
    ]);
    let mut all = Vec::new();
    for (colour, (name, paper, contestant, by)) in throughput_cases().enumerate() {
        let mut points = Vec::new();
        for shape in papers_shapes(found) {
            let rps = |who, by| found.runs.median(shape, who, by, |sample| sample.rps);
            let (Some(value), sw) = (rps(contestant.who, by), rps(SW.who, By::Window64)) else {
                continue;
            };
            table.push([
                shape.blocks.to_string(),
                shape.transactions.to_string(),
                name.into(),
                paper.into(),
                client(by).into(),
                number(value),
                cell(sw.map(|sw| value / sw)),
            ]);
            points.push((shape.blocks as f64, value));
        }
        all.push(series(with_papers(name, paper), colour, Style::Measured, points));
    }
    let chart = Chart {
        title: "Figure 18: throughput against the number of blocks".into(),
        x: axis("blocks of 2,048 transactions", Scale::Log2),
        y: axis("throughput [replies/s]", Scale::Log10),
        series: all,
    };
    Figure {
        name: "fig18-throughput",
        table,
        charts: vec![("fig18-throughput", chart)],
    }
}

/// Returns the chain shapes that have the paper's number of transactions in a block.
pub fn papers_shapes(found: &Measurements) -> impl Iterator<Item = Shape> {
    let shapes = found.shapes.iter().copied();
    shapes.filter(|shape| shape.transactions == PAPER_PER_BLOCK)
}

const fn client(by: By) -> &'static str {
    match by {
        By::Live | By::LiveWindow1 => LIVE_FRAMES,
        _ => SOCKET_CLIENT,
    }
}

fn with_papers(name: &str, paper: &str) -> String {
    if paper.is_empty() {
        name.to_owned()
    } else {
        format!("{name} (paper: {paper})")
    }
}

/// Returns the throughput of a sweep at each hit rate.
pub fn sweep_points(found: &Measurements, by: By) -> Vec<(f64, f64)> {
    let at = |hits: u64| {
        Some((
            hits as f64,
            of(found.sweep.get(&(hits, by)), |sample| sample.rps)?,
        ))
    };
    HITS.into_iter().filter_map(at).collect()
}

fn hit_rate(found: &Measurements) -> Figure {
    let mut table = Table::new(&[
        "hit_percent",
        "loop",
        "measured_replies_per_s",
        "linear_replies_per_s",
        "harmonic_replies_per_s",
        "bottleneck_replies_per_s",
        "linear_error_percent",
        "harmonic_error_percent",
        "bottleneck_error_percent",
        "lost",
    ]);
    let mut charts = Vec::new();
    let loops = [
        (
            "closed",
            By::Window64,
            "fig19-hit-rate",
            "closed loop, 64 requests in flight",
        ),
        (
            "open",
            By::Live,
            "fig19-hit-rate-open-loop",
            "open loop of live frames",
        ),
    ];
    for (kind, by, file, text) in loops {
        let points = sweep_points(found, by);
        let (Some(first), Some(last)) = (points.first().copied(), points.last().copied()) else {
            continue;
        };
        for (hits, value) in &points {
            let modelled = MODELS.map(|(_, model)| model(*hits, last.1, first.1));
            let error = |at: usize| number(models::error_percent(modelled[at], *value));
            table.push([
                number(*hits),
                kind.into(),
                number(*value),
                number(modelled[0]),
                number(modelled[1]),
                number(modelled[2]),
                error(0),
                error(1),
                error(2),
                lost(found.sweep.get(&(*hits as u64, by))),
            ]);
        }
        let mut all = vec![series("measured: xdp before sw", 0, Style::Measured, points)];
        for (at, (name, model)) in MODELS.into_iter().enumerate() {
            let curve = (0..=100).map(|hits| (f64::from(hits), model(f64::from(hits), last.1, first.1)));
            all.push(series(
                format!("model: {name}{}", if at == 0 { ", the paper's" } else { "" }),
                at + 1,
                Style::Computed,
                curve.collect(),
            ));
        }
        let chart = Chart {
            title: format!("Figure 19: throughput against hit rate, {text}"),
            x: axis("hit rate of the fast path [%]", Scale::Linear),
            y: axis("throughput [replies/s]", Scale::Linear),
            series: all,
        };
        charts.push((file, chart));
    }
    Figure {
        name: "fig19-hit-rate",
        table,
        charts,
    }
}

/// Returns the roof of a contestant: the greatest throughput that any client measured.
pub fn system_rps(found: &Measurements, contestant: Contestant) -> Option<f64> {
    let paced = OFFERED
        .iter()
        .filter_map(|offered| of(found.paced.get(&(contestant.name, *offered)), |sample| sample.rps));
    let driven = [By::Window64, By::Live].into_iter().filter_map(|by| {
        found
            .runs
            .median(found.main, contestant.who, by, |sample| sample.rps)
    });
    paced.chain(driven).reduce(f64::max)
}

fn roofline(found: &Measurements) -> Figure {
    let mut table = Table::new(&[
        "contestant",
        "offered_per_s",
        "replies_per_s",
        "roof_replies_per_s",
        "system_replies_per_s",
        "link_replies_per_s",
        "lost",
    ]);
    let link = link_rps(LINK_BITS_PER_S);
    let mut all = Vec::new();
    for (colour, contestant) in ROOFLINE.into_iter().enumerate() {
        let Some(system) = system_rps(found, contestant) else {
            continue;
        };
        let mut points = Vec::new();
        for offered in OFFERED {
            let samples = found.paced.get(&(contestant.name, offered));
            let Some(value) = of(samples, |sample| sample.rps) else {
                continue;
            };
            table.push([
                contestant.name.into(),
                offered.to_string(),
                number(value),
                number(models::roof(offered.into(), system)),
                number(system),
                number(link),
                lost(samples),
            ]);
            points.push((f64::from(offered), value));
        }
        let name = with_papers(contestant.name, contestant.paper);
        all.push(series(format!("{name}, measured"), colour, Style::Points, points));
        let roof = curve(f64::from(OFFERED[0]), 2.0 * link).map(|load| (load, models::roof(load, system)));
        all.push(series(
            format!("{}, roof", contestant.name),
            colour,
            Style::Computed,
            roof.collect(),
        ));
    }
    let roof = curve(f64::from(OFFERED[0]), 2.0 * link).map(|load| (load, models::roof(load, f64::INFINITY)));
    all.push(series(
        "10 GbE, 74-byte frames",
        6,
        Style::Computed,
        roof.collect(),
    ));
    let chart = Chart {
        title: "Figure 20: rooflines of software and fast path".into(),
        x: axis("offered load [requests/s]", Scale::Log10),
        y: axis("throughput [replies/s]", Scale::Log10),
        series: all,
    };
    Figure {
        name: "fig20-roofline",
        table,
        charts: vec![("fig20-roofline", chart)],
    }
}

/// Returns values from `least` to `most`, evenly spaced on a logarithmic axis.
fn curve(least: f64, most: f64) -> impl Iterator<Item = f64> {
    (0..=CURVE_POINTS).map(move |at| least * (most / least).powf(f64::from(at) / f64::from(CURVE_POINTS)))
}

fn latency(found: &Measurements) -> Figure {
    let mut table = Table::new(&[
        "transactions_per_block",
        "blocks",
        "contestant",
        "paper_name",
        "client",
        "p50_us",
        "p99_us",
    ]);
    let mut charts = Vec::new();
    let clients = [
        (By::Window1, "fig21-latency", "socket client"),
        (
            By::LiveWindow1,
            "fig21-latency-live-frames",
            "at the client's interface",
        ),
    ];
    for (by, file, text) in clients {
        let mut all = Vec::new();
        for (colour, contestant) in LATENCY.into_iter().enumerate() {
            let mut points = Vec::new();
            for shape in found.shapes.iter().filter(|shape| shape.blocks == found.blocks) {
                let median = |of| found.runs.median(*shape, contestant.who, by, of);
                let Some(p50_us) = median(|sample| sample.p50_us) else {
                    continue;
                };
                table.push([
                    shape.transactions.to_string(),
                    shape.blocks.to_string(),
                    contestant.name.into(),
                    contestant.paper.into(),
                    client(by).into(),
                    number(p50_us),
                    cell(median(|sample| sample.p99_us)),
                ]);
                points.push((shape.transactions as f64, p50_us));
            }
            let name = with_papers(contestant.name, contestant.paper);
            all.push(series(name, colour, Style::Measured, points));
        }
        let chart = Chart {
            title: format!("Figure 21: round trip, {} blocks, {text}", found.blocks),
            x: axis("transactions in a block", Scale::Log2),
            y: axis("median round trip [µs]", Scale::Log10),
            series: all,
        };
        charts.push((file, chart));
    }
    Figure {
        name: "fig21-latency",
        table,
        charts,
    }
}

/// Processor time per reply of a server and of the XDP program, in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    pub server_us: f64,
    pub fastpath_us: f64,
    pub core_percent: f64,
    pub rps: f64,
}

/// Returns the cost of a contestant at [`LOAD`] requests per second and a hit rate of `hits` percent.
pub fn cost(found: &Measurements, contestant: Contestant, hits: u64) -> Option<Cost> {
    let samples = found.costs.get(&(contestant.name, hits));
    let each = |ns: u64, sample: &Sample| ns as f64 / 1e3 / sample.right.max(1) as f64;
    Some(Cost {
        server_us: of(samples, |sample| each(sample.server_ns, sample))?,
        fastpath_us: of(samples, |sample| each(sample.fastpath_ns, sample))?,
        core_percent: of(samples, |sample| sample.server_ns as f64 / 1e7 / sample.took_s)?,
        rps: of(samples, |sample| sample.rps)?,
    })
}

fn load(found: &Measurements) -> Figure {
    let mut table = Table::new(&[
        "contestant",
        "hit_percent",
        "offered_per_s",
        "replies_per_s",
        "server_us_per_reply",
        "server_core_percent",
        "xdp_program_us_per_reply",
        "lost",
    ]);
    let mut row = |contestant: Contestant, hits| {
        let cost = cost(found, contestant, hits)?;
        table.push([
            contestant.name.into(),
            hits.to_string(),
            LOAD.to_string(),
            number(cost.rps),
            number(cost.server_us),
            number(cost.core_percent),
            number(cost.fastpath_us),
            lost(found.costs.get(&(contestant.name, hits))),
        ]);
        Some(cost)
    };
    let mut all = Vec::new();
    for (colour, contestant) in LOADED.into_iter().enumerate() {
        let Some(cost) = row(contestant, 0) else { continue };
        let points = vec![(0.0, cost.server_us), (100.0, cost.server_us)];
        let name = format!("{}, no fast path in the driver", contestant.name);
        all.push(series(name, colour, Style::Measured, points));
    }
    let costs: Vec<_> = LOAD_HITS
        .into_iter()
        .filter_map(|hits| Some((hits as f64, row(XDP_THEN_SW, hits)?)))
        .collect();
    let server = costs.iter().map(|(hits, cost)| (*hits, cost.server_us)).collect();
    all.push(series("xdp before sw: server", 3, Style::Measured, server));
    let both = costs
        .iter()
        .map(|(hits, cost)| (*hits, cost.server_us + cost.fastpath_us));
    all.push(series(
        "xdp before sw: server and XDP program",
        4,
        Style::Measured,
        both.collect(),
    ));
    let chart = Chart {
        title: format!("Load of the server at {LOAD} requests/s (paper: table 6, by power)"),
        x: axis("hit rate of the fast path [%]", Scale::Linear),
        y: axis("processor time of the server [µs a reply]", Scale::Linear),
        series: all,
    };
    Figure {
        name: "server-load",
        table,
        charts: vec![("server-load", chart)],
    }
}

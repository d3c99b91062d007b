//! Tables and plots of the section on `hybrid`.

use super::findings::{PAPER_CPU, PAPER_CPU_MAX, PAPER_NONE, PAPER_NONE_MAX, PAPER_OPTIMISTIC};
use super::measure::{CONTESTANTS, Case, Measurements, Point, distribution_name};
use super::{Options, PAPER_PRIMITIVES};
use crate::error::Result;
use crate::plot::{Axis, Chart, Scale, Series, Style};
use crate::section::Figure;
use crate::table::{Table, number};
use lineside_bench::figures::median;
use lineside_bench::hybrid::figures::{Sample, Who, Work, name};
use std::collections::BTreeMap;
use std::path::Path;

const RATE: Axis = Axis {
    label: "requests per second",
    scale: Scale::Linear,
};

/// Writes all tables and plots into the folder.
pub fn write(out: &Path, options: &Options, found: &Measurements) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    if !found.bars.is_empty() {
        figures.push(save(
            out,
            "hybrid-bars",
            bars_table(found),
            Some(bars_chart(found)),
        )?);
        let chart = clients_chart(options, found);
        figures.push(save(
            out,
            "hybrid-clients",
            cases_table(found, is_clients),
            Some(chart),
        )?);
    }
    figures.push(Figure {
        title: format!("Micro-benchmark: times for {PAPER_PRIMITIVES} requests"),
        ..save(out, "hybrid-primitives", primitives_table(found), None)?
    });
    if !found.bars.is_empty() {
        for (file, chart) in [
            ("hybrid-values", values_chart(found)),
            ("hybrid-blocks", blocks_chart(found)),
            ("hybrid-workloads", workloads_chart(options, found)),
            ("hybrid-delays", delays_chart(found)),
        ] {
            let table = match file {
                "hybrid-values" => cases_table(found, |case| matches!(case, Case::Value(_))),
                "hybrid-blocks" => cases_table(found, |case| matches!(case, Case::Block(_))),
                "hybrid-workloads" => cases_table(found, |case| matches!(case, Case::Workload(..))),
                _ => cases_table(found, |case| matches!(case, Case::Delay(_))),
            };
            figures.push(save(out, file, table, Some(chart))?);
        }
    }
    Ok(figures)
}

fn is_clients(case: Case) -> bool {
    matches!(case, Case::Clients(..))
}

fn save(out: &Path, file: &str, table: Table, chart: Option<Chart>) -> Result<Figure> {
    let csv = out.join(format!("{file}.csv"));
    table.write(&csv)?;
    let mut figure = Figure {
        title: String::new(),
        svg: None,
        csv: Some(csv),
    };
    if let Some(chart) = chart {
        let svg = out.join(format!("{file}.svg"));
        chart.write(&svg)?;
        figure.title = chart.title;
        figure.svg = Some(svg);
    }
    Ok(figure)
}

fn series(name: impl Into<String>, colour: usize, style: Style, points: Vec<(f64, f64)>) -> Series {
    Series {
        name: name.into(),
        points,
        style,
        colour,
    }
}

/// Returns the paper's rate in figure 1.
fn paper_bar(who: Who) -> f64 {
    match who {
        Who::None => PAPER_NONE,
        Who::Scalar => PAPER_CPU,
        Who::Batch => PAPER_OPTIMISTIC,
    }
}

fn bars_table(found: &Measurements) -> Table {
    let mut table = Table::new(&[
        "round",
        "contestant",
        "requests_per_s",
        "paper_requests_per_s",
        "p50_us",
        "p99_us",
        "refused",
        "blocks",
    ]);
    for (round, samples) in found.bars.iter().enumerate() {
        for who in CONTESTANTS {
            let Some(sample) = samples.get(&who) else { continue };
            table.push([
                (round + 1).to_string(),
                name(who).into(),
                number(sample.rps),
                number(paper_bar(who)),
                number(sample.p50_us),
                number(sample.p99_us),
                sample.refused.to_string(),
                sample.blocks.to_string(),
            ]);
        }
    }
    table
}

fn bars_chart(found: &Measurements) -> Chart {
    let bars = || (1..).map(f64::from).zip(CONTESTANTS);
    let ours = bars().filter_map(|(place, who)| Some((place, median(found.bar(who))?)));
    let paper = bars().map(|(place, who)| (place, paper_bar(who)));
    Chart {
        title: "Figure 1: one node; the paper's third value is of unverified signatures".into(),
        x: Axis {
            label: "1: no signatures, 2: verified on the CPU, 3: accelerated",
            scale: Scale::Linear,
        },
        y: RATE,
        series: vec![
            series("Lineside: none, scalar, batch", 0, Style::Points, ours.collect()),
            series("paper", 1, Style::Points, paper.collect()),
        ],
    }
}

/// Columns of the parameters of a case: name of the parameter, its value, and a second value.
fn parameter(case: Case) -> (&'static str, String, String) {
    match case {
        Case::Bars => ("", String::new(), String::new()),
        Case::Clients(clients, threads) => ("clients x threads", clients.to_string(), threads.to_string()),
        Case::Value(bytes) => ("value bytes", bytes.to_string(), String::new()),
        Case::Block(requests) => ("block", requests.to_string(), String::new()),
        Case::Workload(sets, distribution) => (
            "sets percent",
            sets.to_string(),
            distribution_name(distribution).into(),
        ),
        Case::Delay(ms) => ("delay ms", ms.to_string(), String::new()),
    }
}

/// Returns the median of the ratios to a contestant of the same run; empty if there is none.
fn ratio_to(samples: &BTreeMap<Who, Sample>, who: Who, sample: &Sample) -> String {
    let other = samples.get(&who).filter(|other| other.rps > 0.0);
    other.map_or_else(String::new, |other| number(sample.rps / other.rps))
}

fn cases_table(found: &Measurements, is_of_table: impl Fn(Case) -> bool) -> Table {
    let mut table = Table::new(&[
        "parameter",
        "value",
        "second_value",
        "contestant",
        "requests_per_s",
        "ratio_to_scalar",
        "ratio_to_none",
        "mean_us",
        "p50_us",
        "p99_us",
        "refused",
        "blocks",
    ]);
    for Point { case, samples } in found.points.iter().filter(|point| is_of_table(point.case)) {
        let (parameter, value, second) = parameter(*case);
        for (who, sample) in samples {
            table.push([
                parameter.into(),
                value.clone(),
                second.clone(),
                name(*who).into(),
                number(sample.rps),
                ratio_to(samples, Who::Scalar, sample),
                ratio_to(samples, Who::None, sample),
                number(sample.mean_us),
                number(sample.p50_us),
                number(sample.p99_us),
                sample.refused.to_string(),
                sample.blocks.to_string(),
            ]);
        }
    }
    table
}

fn primitives_table(found: &Measurements) -> Table {
    let mut table = Table::new(&[
        "work",
        "threads",
        "requests",
        "ms",
        "ms_for_100000",
        "paper_ms_for_100000",
        "accepted",
        "wrong",
    ]);
    for primitive in &found.primitives {
        let paper = match primitive.work {
            Work::Keccak | Work::KeccakBatch => super::findings::PAPER_KECCAK_MS,
            Work::Sign => super::findings::PAPER_SIGN_MS,
            Work::Verify | Work::VerifyBatch | Work::Verify65 => super::findings::PAPER_VERIFY_MS,
        };
        table.push([
            primitive.work.name().into(),
            primitive.threads.to_string(),
            primitive.requests.to_string(),
            number(primitive.ms),
            number(primitive.ms * PAPER_PRIMITIVES as f64 / primitive.requests.max(1) as f64),
            number(paper),
            primitive.accepted.to_string(),
            primitive.wrong.to_string(),
        ]);
    }
    table
}

/// Returns the rates of a contestant at the points for which `place` returns a place on the horizontal axis.
fn line(found: &Measurements, who: Who, place: impl Fn(Case) -> Option<f64>) -> Vec<(f64, f64)> {
    let points = found.points.iter();
    points
        .filter_map(|point| Some((place(point.case)?, point.samples.get(&who)?.rps)))
        .collect()
}

fn lines(found: &Measurements, place: impl Fn(Case) -> Option<f64>) -> Vec<Series> {
    let contestants = CONTESTANTS.into_iter().enumerate();
    contestants
        .map(|(colour, who)| series(name(who), colour, Style::Measured, line(found, who, &place)))
        .collect()
}

fn clients_chart(options: &Options, found: &Measurements) -> Chart {
    let mut all = Vec::new();
    for (colour, who) in CONTESTANTS.into_iter().enumerate() {
        for wanted in options.clients.iter().copied() {
            let points = line(found, who, |case| match case {
                Case::Clients(clients, threads) if clients == wanted => Some((clients * threads) as f64),
                _ => None,
            });
            all.push(series(
                format!("{}, {wanted} clients", name(who)),
                colour,
                Style::Measured,
                points,
            ));
        }
    }
    all.push(series(
        "paper: baseline 1, maximum",
        6,
        Style::Points,
        vec![(512.0, PAPER_NONE_MAX)],
    ));
    all.push(series(
        "paper: baseline 2, maximum",
        7,
        Style::Points,
        vec![(256.0, PAPER_CPU_MAX)],
    ));
    Chart {
        title: "Figures 3 and 4: clients x threads".into(),
        x: Axis {
            label: "clients x threads (calls in flight)",
            scale: Scale::Log2,
        },
        y: RATE,
        series: all,
    }
}

fn values_chart(found: &Measurements) -> Chart {
    Chart {
        title: "Value sizes".into(),
        x: Axis {
            label: "bytes of a value",
            scale: Scale::Log2,
        },
        y: RATE,
        series: lines(found, |case| match case {
            Case::Value(bytes) => Some(bytes as f64),
            _ => None,
        }),
    }
}

fn blocks_chart(found: &Measurements) -> Chart {
    Chart {
        title: "Block sizes".into(),
        x: Axis {
            label: "maximum number of requests in a block",
            scale: Scale::Log10,
        },
        y: RATE,
        series: lines(found, |case| match case {
            Case::Block(requests) => Some(requests as f64),
            _ => None,
        }),
    }
}

fn workloads_chart(options: &Options, found: &Measurements) -> Chart {
    let mut distributions: Vec<_> = options.workloads.iter().map(|workload| workload.1).collect();
    distributions.dedup();
    let mut all = Vec::new();
    for (colour, who) in CONTESTANTS.into_iter().enumerate() {
        for wanted in &distributions {
            let points = line(found, who, |case| match case {
                Case::Workload(sets, distribution) if distribution == *wanted => Some(sets as f64),
                _ => None,
            });
            all.push(series(
                format!("{}, {}", name(who), distribution_name(*wanted)),
                colour,
                Style::Measured,
                points,
            ));
        }
    }
    Chart {
        title: "Workloads A, B and C, and distributions of the records".into(),
        x: Axis {
            label: "sets [%]: workload A 50, B 5, C 0",
            scale: Scale::Linear,
        },
        y: RATE,
        series: all,
    }
}

fn delays_chart(found: &Measurements) -> Chart {
    Chart {
        title: "Transaction delays: sets only, 64 calls in flight".into(),
        x: Axis {
            label: "delay of the log [ms]",
            scale: Scale::Linear,
        },
        y: RATE,
        series: lines(found, |case| match case {
            Case::Delay(ms) => Some(ms as f64),
            _ => None,
        }),
    }
}

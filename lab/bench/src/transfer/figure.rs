//! The paper's figures 7 to 11 compared with measured values: throughput by command for 1 to 10,000 packets, and
//! latency.

use super::express::{By, Case, Field, Who};
use super::plan::Command;
use super::tally::Tally;
use crate::error::Result;
use crate::gate::median;
use serde::Serialize;
use std::fmt::{self, Display, Formatter};
use std::time::Duration;

/// Numbers of packets in a burst.
const PACKETS: [u64; 5] = [1, 10, 100, 1_000, 10_000];
/// Throughput figures of the paper: number of the figure, command, and speed-up of the paper's hardware over its
/// software, averaged over the numbers of packets.
const THROUGHPUT: [(u8, Command, f64); 4] = [
    (7, Command::Create, 6.25),
    (8, Command::Issue, 5.78),
    (9, Command::Transfer, 5.97),
    (10, Command::Refer, 6.14),
];
/// Speed-up in latency by command, from figure 11 of the paper.
const LATENCY: [(Command, f64); 4] = [
    (Command::Create, 17.2),
    (Command::Issue, 17.5),
    (Command::Transfer, 10.2),
    (Command::Refer, 16.6),
];

/// One of the paper's figures, measured.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// Number of the figure in the paper.
    pub number: u8,
    /// Compared quantity: `replies/s` or `p50 us`.
    pub unit: &'static str,
    /// Speed-up of the paper's hardware over its software. In figure 11, each row has its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paper: Option<f64>,
    /// Rows of the figure: one for each number of packets, or one for each command.
    pub rows: Vec<Row>,
}

/// Row of a figure; all values are medians over the rounds.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Number of packets, or name of the command.
    pub what: String,
    /// Value of the contestant `sw` with the socket client.
    pub sw: f64,
    /// Value of the contestant `xdp` with the socket client.
    pub xdp: f64,
    /// Speed-up of XDP over `sw` with the socket client.
    pub gain: f64,
    /// Value of `sw` with live frames, at the client's interface.
    pub live_sw: f64,
    /// Value of `xdp` with live frames, at the client's interface.
    pub live_xdp: f64,
    /// Speed-up of XDP over `sw` with live frames.
    pub live_gain: f64,
    /// Speed-up of the paper's hardware.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paper: Option<f64>,
}

/// Returns whether the paper has a figure with this number that the benchmark can measure.
pub fn is_one(number: u8) -> bool {
    (7..=11).contains(&number)
}

/// Measures figure `number`, and passes the counts of every run to `seen`.
pub fn draw(
    field: &mut Field,
    number: u8,
    rounds: usize,
    duration: Duration,
    seen: &mut dyn FnMut(&Tally, bool),
) -> Result<Figure> {
    let throughput = THROUGHPUT.into_iter().find(|(figure, ..)| *figure == number);
    let mut rows = Vec::new();
    if let Some((_, command, paper)) = throughput {
        for packets in PACKETS {
            let runs = [
                (Who::Sw, By::Window64),
                (Who::Xdp, By::Window64),
                (Who::Sw, By::Live),
                (Who::Xdp, By::Live),
            ];
            let cases = runs.map(|(who, by)| Case::of(who, by, command));
            let of = |field: &mut Field, case| field.run(case, duration, Some(packets));
            let medians = interleaved(field, cases, rounds, of, Tally::rps, seen)?;
            rows.push(Row::new(packets.to_string(), medians, false, None));
        }
        return Ok(Figure {
            number,
            unit: "replies/s",
            paper: Some(paper),
            rows,
        });
    }
    for (command, paper) in LATENCY {
        let runs = [
            (Who::Sw, By::Window1),
            (Who::Xdp, By::Window1),
            (Who::Sw, By::LiveWindow1),
            (Who::Xdp, By::LiveWindow1),
        ];
        let cases = runs.map(|(who, by)| Case::of(who, by, command));
        let of = |field: &mut Field, case| field.run(case, duration, None);
        let p50_us = |tally: &Tally| tally.latency_us(0.5);
        let medians = interleaved(field, cases, rounds, of, p50_us, seen)?;
        rows.push(Row::new(command.name().into(), medians, true, Some(paper)));
    }
    Ok(Figure {
        number: 11,
        unit: "p50 us",
        paper: None,
        rows,
    })
}

fn interleaved(
    field: &mut Field,
    cases: [Case; 4],
    rounds: usize,
    run: impl Fn(&mut Field, Case) -> Result<Tally>,
    of: impl Fn(&Tally) -> f64,
    seen: &mut dyn FnMut(&Tally, bool),
) -> Result<[f64; 4]> {
    let mut samples: [Vec<f64>; 4] = Default::default();
    for round in 0..rounds {
        for place in 0..cases.len() {
            let at = (place + round) % cases.len();
            let tally = run(field, cases[at])?;
            seen(&tally, cases[at].is_lossless());
            samples[at].push(of(&tally));
        }
    }
    Ok(samples.map(|samples| median(samples.into_iter()).unwrap_or_default()))
}

impl Row {
    /// Returns a row. `less_is_more` is true if the values are latencies.
    fn new(
        what: String,
        [sw, xdp, live_sw, live_xdp]: [f64; 4],
        less_is_more: bool,
        paper: Option<f64>,
    ) -> Self {
        let gain = |sw: f64, xdp: f64| if less_is_more { sw / xdp } else { xdp / sw };
        Self {
            what,
            sw,
            xdp,
            gain: gain(sw, xdp),
            live_sw,
            live_xdp,
            live_gain: gain(live_sw, live_xdp),
            paper,
        }
    }
}

impl Display for Figure {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let Self {
            number,
            unit,
            paper,
            rows,
        } = self;
        writeln!(out, "figure {number}, {unit}")?;
        let head = ["sw", "xdp", "gain", "live sw", "xdp_max", "gain", "paper's gain"];
        write!(out, "{:<12}", "")?;
        head.iter().try_for_each(|column| write!(out, "{column:>14}"))?;
        writeln!(out)?;
        for row in rows {
            write!(
                out,
                "{:<12}{:>14.2}{:>14.2}{:>14.2}",
                row.what, row.sw, row.xdp, row.gain
            )?;
            write!(
                out,
                "{:>14.2}{:>14.2}{:>14.2}",
                row.live_sw, row.live_xdp, row.live_gain
            )?;
            let paper = row.paper.or(*paper);
            writeln!(out, "{:>14}", paper.map_or("-".into(), |gain| gain.to_string()))?;
        }
        Ok(())
    }
}

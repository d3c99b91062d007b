//! Tables and plots of the paper's figures.

use super::Parts;
use super::aliasing::Aliasing;
use super::replay::Replayed;
use crate::error::Result;
use crate::found::{files, made};
use crate::plot::{Axis, Chart, Scale, Series, Style};
use crate::section::Figure;
use crate::table::{Table, number};
use lineside_bench::transfer::figure::{Figure as Measured, Row};
use std::path::Path;

/// Contestants of figures 7 to 11: name in the legend, value of a row, and colour.
type Contestant = (&'static str, fn(&Row) -> f64, usize);

const CONTESTANTS: [Contestant; 4] = [
    ("sw, live frames (paper: SW)", |row| row.live_sw, 0),
    ("xdp, live frames (paper: HW)", |row| row.live_xdp, 1),
    ("sw, socket client", |row| row.sw, 5),
    ("xdp, socket client", |row| row.xdp, 4),
];

/// Returns the name of the command of a throughput figure.
pub fn command_of(figure: u8) -> &'static str {
    match figure {
        7 => "create",
        8 => "issue",
        9 => "transfer",
        _ => "refer",
    }
}

/// Writes the tables and plots of all parts into `out`.
///
/// # Errors
/// A file cannot be written.
pub fn write(out: &Path, parts: &Parts) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for measured in &parts.figures {
        figures.push(match measured.number {
            11 => latency(out, measured)?,
            _ => throughput(out, measured)?,
        });
    }
    figures.push(replay(out, &parts.replayed)?);
    figures.push(aliasing(out, &parts.aliasing)?);
    Ok(figures)
}

fn table(measured: &Measured, first: &'static str, unit: [&'static str; 4]) -> Table {
    let [sw, xdp, live_sw, live_xdp] = unit;
    let mut table = Table::new(&[
        first,
        live_sw,
        live_xdp,
        "live_gain",
        sw,
        xdp,
        "socket_gain",
        "paper_gain",
    ]);
    for row in &measured.rows {
        let paper = row.paper.or(measured.paper);
        table.push([
            row.what.clone(),
            number(row.live_sw),
            number(row.live_xdp),
            number(row.live_gain),
            number(row.sw),
            number(row.xdp),
            number(row.gain),
            paper.map_or_else(String::new, number),
        ]);
    }
    table
}

fn throughput(out: &Path, measured: &Measured) -> Result<Figure> {
    let (figure, command) = (measured.number, command_of(measured.number));
    let files = files(out, &format!("fig{figure:02}-{command}"));
    let columns = ["sw_per_s", "xdp_per_s", "live_sw_per_s", "live_xdp_per_s"];
    table(measured, "packets", columns).write(&files.0)?;
    let title = format!(
        "Figure {figure}: throughput of {} against the number of packets",
        command.to_uppercase()
    );
    let place = |row: &Row| row.what.parse().unwrap_or(f64::NAN);
    Chart {
        title: title.clone(),
        x: Axis {
            label: "packets in a burst",
            scale: Scale::Log10,
        },
        y: Axis {
            label: "throughput [transactions/s]",
            scale: Scale::Log10,
        },
        series: series(measured, Style::Measured, place),
    }
    .write(&files.1)?;
    Ok(made(title, files))
}

fn latency(out: &Path, measured: &Measured) -> Result<Figure> {
    let files = files(out, "fig11-latency");
    let columns = ["sw_p50_us", "xdp_p50_us", "live_sw_p50_us", "live_xdp_p50_us"];
    table(measured, "command", columns).write(&files.0)?;
    let title = "Figure 11: median latency of the commands".to_owned();
    let names: Vec<_> = measured.rows.iter().map(|row| &row.what).collect();
    let place = |row: &Row| {
        let place = names.iter().position(|name| **name == row.what);
        place.map_or(f64::NAN, |place| place as f64 + 1.0)
    };
    Chart {
        title: title.clone(),
        x: Axis {
            label: "command: 1 CREATE, 2 ISSUE, 3 TRANSFER, 4 REFER",
            scale: Scale::Linear,
        },
        y: Axis {
            label: "median latency [µs]",
            scale: Scale::Log10,
        },
        series: series(measured, Style::Points, place),
    }
    .write(&files.1)?;
    Ok(made(title, files))
}

fn series(measured: &Measured, style: Style, place: impl Fn(&Row) -> f64) -> Vec<Series> {
    let of = |(name, value, colour): Contestant| Series {
        name: name.into(),
        points: (measured.rows.iter())
            .map(|row| (place(row), value(row)))
            .collect(),
        style,
        colour,
    };
    CONTESTANTS.map(of).into()
}

fn replay(out: &Path, replayed: &[Replayed]) -> Result<Figure> {
    let files = files(out, "replay");
    let mut table = Table::new(&[
        "datapath",
        "packets",
        "packets_per_s",
        "answered",
        "refusals",
        "wrong_replies",
        "wrong_balances",
    ]);
    for row in replayed {
        table.push([
            row.datapath.into(),
            row.packets.to_string(),
            number(row.packets_per_s),
            row.answered.to_string(),
            row.refusals.to_string(),
            row.wrong_replies.to_string(),
            row.wrong_balances.to_string(),
        ]);
    }
    table.write(&files.0)?;
    let title = "Replay of captured transfers, one frame after the other".to_owned();
    let names = ["xdp", "native", "socket"].into_iter().enumerate();
    let series = names.map(|(colour, name)| Series {
        name: match name {
            "xdp" => "xdp, one system call for each frame".into(),
            "native" => "native, the same C code without BPF".into(),
            _ => "socket, the model in Rust".into(),
        },
        points: (replayed.iter().filter(|row| row.datapath == name))
            .map(|row| (row.packets as f64, row.packets_per_s))
            .collect(),
        style: Style::Measured,
        colour,
    });
    Chart {
        title: title.clone(),
        x: Axis {
            label: "packets in the capture",
            scale: Scale::Log10,
        },
        y: Axis {
            label: "rate [packets/s]",
            scale: Scale::Log10,
        },
        series: series.filter(|series| !series.points.is_empty()).collect(),
    }
    .write(&files.1)?;
    Ok(made(title, files))
}

fn aliasing(out: &Path, rows: &[Aliasing]) -> Result<Figure> {
    let files = files(out, "aliasing");
    let mut table = Table::new(&[
        "accounts",
        "sharing_computed_percent",
        "sharing_measured_percent",
        "wrong_computed_percent",
        "wrong_measured_percent",
        "lineside_wrong",
    ]);
    for row in rows {
        table.push([
            row.accounts.to_string(),
            number(row.sharing_computed_percent),
            number(row.sharing_measured_percent),
            number(row.wrong_computed_percent),
            number(row.wrong_measured_percent),
            row.lineside_wrong.to_string(),
        ]);
    }
    table.write(&files.0)?;
    let title = "Accounts that share an entry of the paper's store with a 16-bit hash".to_owned();
    let series = |name: &str, style, colour, value: fn(&Aliasing) -> f64| Series {
        name: name.into(),
        points: rows.iter().map(|row| (row.accounts as f64, value(row))).collect(),
        style,
        colour,
    };
    Chart {
        title: title.clone(),
        x: Axis {
            label: "accounts",
            scale: Scale::Log10,
        },
        y: Axis {
            label: "share of the accounts [%]",
            scale: Scale::Linear,
        },
        series: vec![
            series("share an entry, computed", Style::Computed, 0, |row| {
                row.sharing_computed_percent
            }),
            series("share an entry, measured", Style::Points, 0, |row| {
                row.sharing_measured_percent
            }),
            series(
                "REFER returns another account's value, computed",
                Style::Computed,
                1,
                |row| row.wrong_computed_percent,
            ),
            series(
                "REFER returns another account's value, measured",
                Style::Points,
                1,
                |row| row.wrong_measured_percent,
            ),
            series("the same on Lineside's fast path", Style::Measured, 2, |row| {
                row.lineside_wrong as f64
            }),
        ],
    }
    .write(&files.1)?;
    Ok(made(title, files))
}

//! Tables and plots of the paper's figures and of its future work.

use super::bytes::{link_ops_per_s, of_paper, value_bytes, wire_bytes};
use super::measure::{CONTESTANTS, Measurements};
use crate::error::Result;
use crate::found::{files, made};
use crate::plot::{Axis, Chart, Scale, Series, Style};
use crate::section::Figure;
use crate::table::{Table, number};
use lineside_bench::column::figures::{Ask, Point, ROWS, SKEW, Varied};
use std::path::Path;

/// Throughput of the paper's software for gets in operations per second. The paper takes it from another publication.
pub const PAPER_SOFTWARE_OPS_PER_S: f64 = 2_500.0;

fn or_empty(value: Option<f64>) -> String {
    value.map_or_else(String::new, number)
}

/// Writes the table and the plot of the bytes of an answer into `out`.
///
/// # Errors
/// A file cannot be written.
pub fn bytes(out: &Path) -> Result<Vec<Figure>> {
    let files = files(out, "bytes-per-answer");
    let mut table = Table::new(&[
        "request",
        "rows",
        "value_bytes",
        "wire_bytes",
        "link_ops_per_s",
        "paper_bytes",
        "paper_ops_per_s",
        "paper_gbit_per_s",
    ]);
    for ask in Ask::ALL {
        let paper = of_paper(ask);
        table.push([
            ask.name().into(),
            ask.rows().to_string(),
            value_bytes(ask).to_string(),
            wire_bytes(ask).to_string(),
            number(link_ops_per_s(ask)),
            or_empty(paper.map(|paper| paper.answer_bytes())),
            or_empty(paper.map(|paper| paper.ops_per_s)),
            or_empty(paper.map(|paper| paper.bits_per_s / 1e9)),
        ]);
    }
    table.write(&files.0)?;
    let title = "Bytes of an answer on the wire against its rows of 18 bytes".to_owned();
    let series = |name: &str, style, colour, value: fn(Ask) -> Option<f64>| Series {
        name: name.into(),
        points: (Ask::ALL.into_iter())
            .filter_map(|ask| Some((f64::from(ask.rows()), value(ask)?)))
            .collect(),
        style,
        colour,
    };
    Chart {
        title: title.clone(),
        x: Axis {
            label: "rows in the answer",
            scale: Scale::Log2,
        },
        y: Axis {
            label: "bytes on the wire",
            scale: Scale::Log10,
        },
        series: vec![
            series(
                "paper: bits per second divided by answers",
                Style::Measured,
                1,
                |ask| Some(of_paper(ask)?.answer_bytes()),
            ),
            series(
                "Lineside, with Ethernet's preamble and gap",
                Style::Measured,
                0,
                |ask| Some(wire_bytes(ask) as f64),
            ),
            series("values alone", Style::Computed, 2, |ask| {
                Some(value_bytes(ask) as f64)
            }),
        ],
    }
    .write(&files.1)?;
    Ok(vec![made(title, files)])
}

/// Writes the tables and plots of the measured values into `out`.
///
/// # Errors
/// A file cannot be written.
pub fn measured(out: &Path, found: &Measurements) -> Result<Vec<Figure>> {
    Ok(vec![
        throughput(out, found)?,
        hit_ratio(out, &found.sweep(Varied::HeldPercent))?,
        cache_size(out, &found.sweep(Varied::RowBits))?,
        puts(out, &found.sweep(Varied::PutsPercent))?,
    ])
}

fn throughput_table(found: &Measurements) -> Table {
    let mut table = Table::new(&[
        "request",
        "rows",
        "contestant",
        "paper",
        "ops_per_s",
        "p50_us",
        "gbit_per_s",
        "paper_ops_per_s",
        "paper_gbit_per_s",
    ]);
    for ask in Ask::ALL {
        for contestant in CONTESTANTS {
            let Some(ops_per_s) = found.ops_per_s(contestant.name, ask) else {
                continue;
            };
            // HBase's replies go over TCP; their bytes are not measured.
            let is_udp = contestant.name.starts_with("xdp") || contestant.name == "socket";
            let gbit_per_s = is_udp.then(|| ops_per_s * wire_bytes(ask) as f64 * 8.0 / 1e9);
            let paper = of_paper(ask).filter(|_| contestant.paper == "HBC");
            let software = contestant.paper == "Software" && ask == Ask::Get;
            let paper_ops_per_s = match software {
                true => Some(PAPER_SOFTWARE_OPS_PER_S),
                false => paper.map(|paper| paper.ops_per_s),
            };
            table.push([
                ask.name().into(),
                ask.rows().to_string(),
                contestant.name.into(),
                contestant.paper.into(),
                number(ops_per_s),
                or_empty(found.median(contestant.name, ask, |figures| figures.p50_us)),
                or_empty(gbit_per_s),
                or_empty(paper_ops_per_s),
                or_empty(paper.map(|paper| paper.bits_per_s / 1e9)),
            ]);
        }
    }
    table
}

fn throughput(out: &Path, found: &Measurements) -> Result<Figure> {
    let files = files(out, "fig07-fig08-throughput");
    throughput_table(found).write(&files.0)?;
    let title = "Figures 7 and 8: throughput against the rows of an answer".to_owned();
    let mut series: Vec<Series> = (CONTESTANTS.iter().enumerate())
        .map(|(colour, contestant)| Series {
            name: contestant.name.into(),
            points: (Ask::ALL.into_iter())
                .filter(|ask| *ask != Ask::Get)
                .filter_map(|ask| Some((f64::from(ask.rows()), found.ops_per_s(contestant.name, ask)?)))
                .collect(),
            style: Style::Measured,
            colour,
        })
        .collect();
    series.retain(|series| !series.points.is_empty());
    series.push(Series {
        name: "paper: HBC, get and scan of 8 rows".into(),
        points: (Ask::ALL.into_iter())
            .filter_map(|ask| Some((f64::from(ask.rows()), of_paper(ask)?.ops_per_s)))
            .collect(),
        style: Style::Points,
        colour: 7,
    });
    Chart {
        title: title.clone(),
        x: Axis {
            label: "rows in the answer",
            scale: Scale::Log2,
        },
        y: Axis {
            label: "throughput [operations/s]",
            scale: Scale::Log10,
        },
        series,
    }
    .write(&files.1)?;
    Ok(made(title, files))
}

/// Returns the throughput at the hit ratio `hits` if the times of hits and misses add up. `miss` and `hit` are the
/// throughputs at the hit ratios 0 and 1.
pub fn harmonic(hits: f64, miss: f64, hit: f64) -> f64 {
    1.0 / (hits / hit + (1.0 - hits) / miss)
}

fn hit_ratio(out: &Path, points: &[&Point]) -> Result<Figure> {
    let files = files(out, "hit-ratio");
    let mut table = Table::new(&[
        "held_percent",
        "hit_percent",
        "replies_per_s",
        "harmonic_replies_per_s",
        "p50_us",
    ]);
    let rate = |place: Option<&&Point>| place.map_or(f64::NAN, |point| point.figures.rps);
    let (miss, hit) = (rate(points.first()), rate(points.last()));
    for point in points {
        table.push([
            point.at.to_string(),
            number(100.0 * point.hit_rate),
            number(point.figures.rps),
            number(harmonic(point.hit_rate, miss, hit)),
            number(point.figures.p50_us),
        ]);
    }
    table.write(&files.0)?;
    let title = "Throughput of gets against the hit ratio; HBase answers misses".to_owned();
    let model = (0..=100).map(|percent| {
        (
            f64::from(percent),
            harmonic(f64::from(percent) / 100.0, miss, hit),
        )
    });
    Chart {
        title: title.clone(),
        x: Axis {
            label: "hit ratio [%]",
            scale: Scale::Linear,
        },
        y: Axis {
            label: "throughput [replies/s]",
            scale: Scale::Log10,
        },
        series: vec![
            Series {
                name: "xdp before the host, 64 requests in flight".into(),
                points: (points.iter())
                    .map(|point| (100.0 * point.hit_rate, point.figures.rps))
                    .collect(),
                style: Style::Measured,
                colour: 1,
            },
            Series {
                name: "harmonic model: times add up".into(),
                points: model.collect(),
                style: Style::Computed,
                colour: 0,
            },
        ],
    }
    .write(&files.1)?;
    Ok(made(title, files))
}

/// Returns the largest possible hit ratio of a cache with space for `space` rows, in percent: the share of the requests
/// for the most frequent rows by the law of Zipf.
pub fn bound_percent(space: u32) -> f64 {
    let sum = |rows: u32| -> f64 { (1..=rows).map(|rank| f64::from(rank).powf(-SKEW)).sum() };
    100.0 * sum(space.min(ROWS)) / sum(ROWS)
}

fn cache_size(out: &Path, points: &[&Point]) -> Result<Figure> {
    let files = files(out, "cache-size");
    let mut table = Table::new(&[
        "space_rows",
        "table_rows",
        "hit_percent",
        "bound_percent",
        "replies_per_s",
    ]);
    for point in points {
        let space = 1u32 << point.at;
        table.push([
            space.to_string(),
            ROWS.to_string(),
            number(100.0 * point.hit_rate),
            number(bound_percent(space)),
            number(point.figures.rps),
        ]);
    }
    table.write(&files.0)?;
    let title = "Hit ratio against the size of the cache; requests follow Zipf's law".to_owned();
    Chart {
        title: title.clone(),
        x: Axis {
            label: "rows for which the cache has space",
            scale: Scale::Log2,
        },
        y: Axis {
            label: "hit ratio [%]",
            scale: Scale::Linear,
        },
        series: vec![
            Series {
                name: "measured".into(),
                points: (points.iter())
                    .map(|point| (f64::from(point.at).exp2(), 100.0 * point.hit_rate))
                    .collect(),
                style: Style::Measured,
                colour: 1,
            },
            Series {
                name: "bound: the most frequent rows are cached".into(),
                points: (points.iter())
                    .map(|point| (f64::from(point.at).exp2(), bound_percent(1 << point.at)))
                    .collect(),
                style: Style::Computed,
                colour: 0,
            },
        ],
    }
    .write(&files.1)?;
    Ok(made(title, files))
}

fn puts(out: &Path, points: &[&Point]) -> Result<Figure> {
    let files = files(out, "puts");
    let mut table = Table::new(&["puts_percent", "hit_percent", "operations_per_s", "stale_replies"]);
    for point in points {
        table.push([
            point.at.to_string(),
            number(100.0 * point.hit_rate),
            number(point.figures.rps),
            point.stale.to_string(),
        ]);
    }
    table.write(&files.0)?;
    let title = "Throughput of gets and puts against the share of puts; a table in memory".to_owned();
    Chart {
        title: title.clone(),
        x: Axis {
            label: "puts [% of the requests]",
            scale: Scale::Linear,
        },
        y: Axis {
            label: "throughput [operations/s]",
            scale: Scale::Log10,
        },
        series: vec![Series {
            name: "xdp before the host, 64 requests in flight".into(),
            points: (points.iter())
                .map(|point| (f64::from(point.at), point.figures.rps))
                .collect(),
            style: Style::Measured,
            colour: 1,
        }],
    }
    .write(&files.1)?;
    Ok(made(title, files))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_have_their_ends_and_known_values() {
        assert_eq!(harmonic(0.0, 10.0, 90.0), 10.0);
        assert!((harmonic(1.0, 10.0, 90.0) - 90.0).abs() < 1e-9);
        assert!((harmonic(0.5, 10.0, 90.0) - 18.0).abs() < 1e-9);
        assert_eq!(bound_percent(1 << 14), 100.0);
        let bounds = [8, 10, 12].map(|bits| bound_percent(1 << bits));
        assert!(bounds.windows(2).all(|pair| pair[0] < pair[1]), "{bounds:?}");
        for (bound, expected) in bounds.iter().zip([61.425, 75.842, 90.471]) {
            assert!((bound - expected).abs() < 0.001, "{bounds:?}");
        }
    }
}

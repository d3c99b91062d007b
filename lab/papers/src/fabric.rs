//! Values of "Accelerating Hyperledger Fabric within SmartNIC" (Ji Yang, Chengchen Hu, Xilinx Labs; slides, and
//! arXiv 2104.06968): bytes of a transaction's packet and rates for 1 to 4 endorsements, compression, latency of a
//! block's transfer, and the rate from end to end.
//!
//! [`packets`] sends generated blocks through the sender of the paper's packets and their receiver, in memory on one
//! thread. The receiver checks each block's data hash, and every received block is compared with the sent one. The
//! paper measured its FPGA with a packet generator. `lineside_bench::fabric::for_paper` measures the rest. [`engines`]
//! has the rates that follow by arithmetic. The generated transactions have the shapes of the paper's workloads:
//! smallbank has the six operations of `benchmarks/scenario/smallbank` in hyperledger/caliper-benchmarks. The source of
//! the paper's DRM is not public; the generated one creates, plays, transfers and queries works.

mod engines;
mod findings;
mod packets;

use crate::error::{Result, writing};
use crate::found;
use crate::plot::{Axis, Chart, Scale, Series, Style};
use crate::section::{Figure, Paper, Section};
use crate::table::{Table, number};
use lineside_bench::Progress;
use lineside_bench::fabric::{BlockTransfer, EndToEnd, PAPER_STEPS, PaperFigures, PaperOptions, for_paper};
use lineside_bench::figures::Machine;
use lineside_fabric_maker::Chaincode;
use packets::{BLOCK, ENDORSEMENTS, Row};
use std::fs;
use std::path::PathBuf;
use std::time::Instant;

/// Row of the paper's table for one number of endorsements.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PaperRow {
    /// Number of endorsements of a transaction.
    pub endorsements: usize,
    /// Value of the column "Packet Size \[Bytes\]".
    pub packet_bytes: u32,
    /// Value of the column "Max. Processing Rate \[Gbps\]".
    pub gbit_per_s: f64,
    /// Value of the column "Max. Processing Rate \[tps\]".
    pub tps: f64,
}

/// Rows of the paper's table.
pub const PAPER: [PaperRow; 4] = [
    paper(1, 921, 10.6, 1.14e6),
    paper(2, 1_002, 11.1, 1.11e6),
    paper(3, 1_080, 11.4, 1.05e6),
    paper(4, 1_164, 11.6, 996e3),
];

const fn paper(endorsements: usize, packet_bytes: u32, gbit_per_s: f64, tps: f64) -> PaperRow {
    PaperRow {
        endorsements,
        packet_bytes,
        gbit_per_s,
        tps,
    }
}

/// Options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Folder for the files. It is created if it is missing.
    pub out: PathBuf,
    /// Seed of the network and of the blocks.
    pub seed: u64,
    /// Number of transactions of each case of the paper's packets.
    pub transactions: u64,
    /// Number of rounds of each measurement; each value is the median of its rounds.
    pub rounds: usize,
    /// Block sizes as numbers of transactions.
    pub blocks: Vec<usize>,
    /// Number of transactions of each chaincode that are validated and written to a ledger.
    pub validated: u64,
    /// Number of transactions of each chaincode that are sent by Deliver and by UDP.
    pub sent: u64,
}

impl Options {
    /// Returns the options of the full run, which takes about two minutes.
    pub fn new(out: PathBuf) -> Self {
        Self {
            out,
            seed: 1,
            transactions: 10_000,
            rounds: 3,
            blocks: vec![10, 50, 100, 250, 500, 1_000],
            validated: 100_000,
            sent: 20_000,
        }
    }

    /// Returns the options of a short run, with fewer transactions and fewer block sizes.
    pub fn quick(out: PathBuf) -> Self {
        Self {
            transactions: 2_000,
            rounds: 1,
            blocks: vec![10, 100, 500],
            validated: 10_000,
            sent: 4_000,
            ..Self::new(out)
        }
    }
}

/// Measures all values, and calls `progress` before each step.
///
/// # Errors
/// A file cannot be written, a block was not accepted, was lost or differs from the sent one.
pub fn run(options: &Options, progress: &mut dyn FnMut(Progress)) -> Result<Section> {
    let (began, mut machine) = (Instant::now(), Machine::read());
    fs::create_dir_all(&options.out).map_err(writing(&options.out))?;
    let cases = packets::cases(options);
    let of = cases.len() + PAPER_STEPS;
    let (mut rows, mut wrong) = (Vec::new(), 0);
    for (done, case) in cases.iter().enumerate() {
        progress(Progress {
            doing: "making, sending and receiving the paper's packets",
            done,
            of,
        });
        rows.push(packets::measure(options, *case, &mut wrong)?);
    }
    let for_bench = PaperOptions {
        seed: options.seed,
        folder: options.out.clone(),
        validated: options.validated,
        sent: options.sent,
        rounds: options.rounds,
    };
    let measured = for_paper(&for_bench, &mut |at| {
        progress(Progress {
            done: cases.len() + at.done,
            of,
            ..at
        });
    });
    let (measured, mut not_measured) = match measured {
        Ok(measured) => (Some(measured), Vec::new()),
        Err(error) if error.is_of_the_machine() => (
            None,
            vec![format!(
                "rate and latency from end to end, Deliver and UDP: {error}"
            )],
        ),
        Err(error) => return Err(error.into()),
    };
    machine.end_of_run();
    not_measured.extend(NOT_MEASURED.map(str::to_owned));
    let wrong_codes = measured
        .iter()
        .flat_map(|found| &found.end_to_end)
        .map(|one| one.wrong)
        .sum();
    let failures = [
        (wrong, "received blocks differ from the sent ones"),
        (wrong_codes, "validation codes differ from the expected ones"),
    ];
    let failures = failures.iter().filter(|(count, _)| *count > 0);
    Ok(Section {
        paper: Paper::Fabric,
        command: "lineside-lab papers fabric".into(),
        findings: findings::all(&rows, measured.as_ref()),
        figures: figures(options, &rows, measured.as_ref(), machine.cores)?,
        not_measured,
        warnings: found::warnings(&machine),
        failures: failures.map(|(count, text)| format!("{count} {text}")).collect(),
        took_s: began.elapsed().as_secs_f64(),
    })
}

/// Parts of the paper that software does not measure.
const NOT_MEASURED: [&str; 2] = [
    "the rates of the architectures 4x2 to 16x2: they need the FPGA; the values here are computed",
    "the scaling of Fabric's own peer with its vCPUs: it needs Go and a network of peers; fabric-software.csv has \
     recorded figures",
];

/// Writes the tables and plots.
fn figures(
    options: &Options,
    rows: &[Row],
    measured: Option<&PaperFigures>,
    cores: usize,
) -> Result<Vec<Figure>> {
    let write = |name: &str, table: Table| -> Result<PathBuf> {
        let path = options.out.join(format!("{name}.csv"));
        table.write(&path)?;
        Ok(path)
    };
    let plot = |name: &str, chart: Chart, csv: &PathBuf| -> Result<Figure> {
        let path = options.out.join(format!("{name}.svg"));
        chart.write(&path)?;
        Ok(Figure {
            title: chart.title,
            svg: Some(path),
            csv: Some(csv.clone()),
        })
    };
    let packets = write("fabric-packets", packets::table(rows))?;
    let engines = write("fabric-engines", engines::table())?;
    let mut figures = vec![
        plot("fabric-packets", packets_chart(rows), &packets)?,
        plot("fabric-block-sizes", block_sizes_chart(rows), &packets)?,
        plot("fabric-engines", engines_chart(measured), &engines)?,
    ];
    let of_measured = |measured: &PaperFigures| {
        [
            (
                "Transfer of blocks by Deliver and by UDP",
                "fabric-transfers",
                transfers(&measured.transfers),
            ),
            (
                "From end to end",
                "fabric-end-to-end",
                end_to_end(&measured.end_to_end),
            ),
        ]
    };
    let runs = measured.map_or(&[][..], |measured| &measured.end_to_end);
    let software = (
        "Software by core, recorded and measured",
        "fabric-software",
        engines::software(runs, cores),
    );
    for (title, name, table) in measured.into_iter().flat_map(of_measured).chain([software]) {
        figures.push(Figure {
            title: title.into(),
            svg: None,
            csv: Some(write(name, table)?),
        });
    }
    Ok(figures)
}

fn transfers(all: &[BlockTransfer]) -> Table {
    let mut table = Table::new(&[
        "chaincode",
        "block",
        "offered_tps",
        "block_bytes_per_tx",
        "deliver_wire_bytes_per_tx",
        "udp_wire_bytes_per_tx",
        "deliver_p50_ms",
        "deliver_p99_ms",
        "deliver_max_ms",
        "udp_p50_ms",
        "udp_p99_ms",
        "udp_max_ms",
    ]);
    for one in all {
        table.push([
            one.chaincode.to_owned(),
            one.block.to_string(),
            number(one.offered_tps),
            number(one.block_bytes_per_tx),
            number(one.deliver_bytes_per_tx),
            number(one.udp_bytes_per_tx),
            number(one.deliver.p50_ms),
            number(one.deliver.p99_ms),
            number(one.deliver.max_ms),
            number(one.udp.p50_ms),
            number(one.udp.p99_ms),
            number(one.udp.max_ms),
        ]);
    }
    table
}

fn end_to_end(all: &[EndToEnd]) -> Table {
    let mut table = Table::new(&[
        "chaincode",
        "endorsements",
        "block",
        "transactions",
        "tps",
        "cpu_us_per_tx",
        "offered_tps",
        "p50_ms",
        "p99_ms",
    ]);
    for one in all {
        table.push([
            one.chaincode.to_owned(),
            one.endorsements.to_string(),
            one.block.to_string(),
            one.transactions.to_string(),
            number(one.tps),
            number(one.cpu_us_per_tx),
            number(one.offered_tps),
            number(one.p50_ms),
            number(one.p99_ms),
        ]);
    }
    table
}

fn series(name: impl Into<String>, colour: usize, style: Style, points: Vec<(f64, f64)>) -> Series {
    Series {
        name: name.into(),
        points,
        style,
        colour,
    }
}

const fn axis(label: &'static str, scale: Scale) -> Axis {
    Axis { label, scale }
}

fn packets_chart(rows: &[Row]) -> Chart {
    let of = |chaincode, value: fn(&Row) -> f64| {
        let rows = rows
            .iter()
            .filter(move |row| row.case.chaincode == chaincode && row.case.block == BLOCK);
        rows.map(|row| (row.case.endorsements as f64, value(row)))
            .collect()
    };
    let papers = PAPER
        .iter()
        .map(|paper| (paper.endorsements as f64, f64::from(paper.packet_bytes)));
    Chart {
        title: "Protocol table: bytes of a transaction".into(),
        x: axis("endorsements of a transaction", Scale::Linear),
        y: axis("bytes", Scale::Linear),
        series: vec![
            series("packet, paper", 0, Style::Points, papers.collect()),
            series(
                "packet, smallbank",
                1,
                Style::Measured,
                of(Chaincode::Smallbank, |row| row.packet_bytes),
            ),
            series(
                "packet, DRM",
                2,
                Style::Measured,
                of(Chaincode::Drm, |row| row.packet_bytes),
            ),
            series(
                "in the block, smallbank",
                3,
                Style::Measured,
                of(Chaincode::Smallbank, |row| row.block_bytes),
            ),
        ],
    }
}

fn block_sizes_chart(rows: &[Row]) -> Chart {
    let sized = rows
        .iter()
        .filter(|row| row.case.chaincode == Chaincode::Smallbank && row.case.endorsements == ENDORSEMENTS);
    let mut points: Vec<_> = sized
        .map(|row| (row.case.block as f64, row.saved_percent))
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let ends = [points.first().copied(), points.last().copied()];
    let papers = ends.into_iter().flatten().map(|(block, _)| (block, 85.0));
    Chart {
        title: "Bytes saved by the paper's packets, 2 endorsements".into(),
        x: axis("transactions in a block", Scale::Log10),
        y: axis("saved of the blocks' bytes [%]", Scale::Linear),
        series: vec![
            series("smallbank", 1, Style::Measured, points.clone()),
            series("paper: about 85 %", 0, Style::Computed, papers.collect()),
        ],
    }
}

fn engines_chart(measured: Option<&PaperFigures>) -> Chart {
    let validators = engines::VALIDATORS;
    let across = |tps: f64| validators.iter().map(|count| (f64::from(*count), tps)).collect();
    let mut lines: Vec<Series> = engines::ENGINE_US
        .iter()
        .enumerate()
        .map(|(colour, (name, us))| {
            let tps = |count: &u32| engines::engines_tps(*count, *us, ENDORSEMENTS);
            let points = validators.iter().map(|count| (f64::from(*count), tps(count)));
            series(
                format!("{name}, computed"),
                colour,
                Style::Measured,
                points.collect(),
            )
        })
        .collect();
    lines.push(series(
        "paper: 95,600 tps, its best",
        4,
        Style::Computed,
        across(95_600.0),
    ));
    lines.push(series(
        "paper, later: 68,900 tps",
        3,
        Style::Computed,
        across(68_900.0),
    ));
    let smallbank = measured.and_then(|found| found.end_to_end.first());
    if let Some(one) = smallbank {
        lines.push(series(
            "Lineside's software, this machine",
            2,
            Style::Computed,
            across(one.tps),
        ));
    }
    Chart {
        title: "Rates that signature engines allow, 2 endorsements".into(),
        x: axis("validators of two engines each", Scale::Linear),
        y: axis("transactions per second", Scale::Linear),
        series: lines,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::section::{Finding, Verdict};

    fn of<'a>(section: &'a Section, quantity: &str) -> Vec<&'a Finding> {
        let all = section.findings.iter();
        all.filter(|finding| finding.quantity.starts_with(quantity))
            .collect()
    }

    /// In a small run, every received block must equal the sent one. Each endorsement must add less than the size of an
    /// identity to a packet, because the sender removes identities.
    #[test]
    fn a_small_run_has_every_part_of_the_paper() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options {
            transactions: 60,
            rounds: 1,
            blocks: vec![10, 100],
            validated: 200,
            sent: 300,
            ..Options::new(folder.path().join("out"))
        };
        let mut steps = Vec::new();
        let section = run(&options, &mut |at| steps.push((at.done, at.of))).unwrap();
        assert_eq!(section.failures, Vec::<String>::new());
        let expected = packets::cases(&options).len() + PAPER_STEPS;
        let bytes = of(&section, "bytes of a transaction's packet");
        assert_eq!(bytes.len(), PAPER.len());
        for (finding, paper) in bytes.iter().zip(&PAPER) {
            assert_eq!(finding.paper_value, Some(f64::from(paper.packet_bytes)));
        }
        for pair in bytes.windows(2) {
            let grown = pair[1].ours.unwrap() - pair[0].ours.unwrap();
            assert!((70.0..200.0).contains(&grown), "{grown}");
        }
        // 921 B x 8 x 1.14 M = 8.40 Gb/s, where the paper has 10.6.
        let own = of(&section, "data rate of the paper's own row, 1");
        assert!((own[0].ours.unwrap() - 8.40).abs() < 0.01 && own[0].verdict == Verdict::Fails);
        let engines = of(&section, "rate of 16x2, engine for Fabric");
        assert!((engines[0].ours.unwrap() - 28_986.0).abs() < 1.0, "{engines:?}");
        assert_eq!(of(&section, "compression, ").len(), 4 + 4 + 1);
        let csv = fs::read_to_string(options.out.join("fabric-packets.csv")).unwrap();
        assert_eq!(csv.lines().count(), 1 + 4 + 4 + 1);
        if section.not_measured.len() == NOT_MEASURED.len() {
            assert_eq!(
                steps,
                (0..expected).map(|done| (done, expected)).collect::<Vec<_>>()
            );
            for (quantity, count) in [
                ("rate, smallbank", 2),
                ("rate, drm", 1),
                ("Deliver's bytes/the paper's packets", 2),
                ("Deliver's bytes/Lineside's UDP protocol", 2),
                ("reduction of a block's tail latency", 2),
                ("rate of DRM/smallbank", 1),
            ] {
                let found = of(&section, quantity);
                assert_eq!(found.len(), count, "{quantity}");
                assert!(found.iter().all(|finding| finding.ours.is_some()), "{quantity}");
            }
        }
        for file in section.files() {
            assert!(file.is_file(), "{}", file.display());
        }
    }
}

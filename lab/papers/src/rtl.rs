//! Tables of the papers of `spv` and `transfer` on their FPGAs, next to the RTL: cells, clock, and cycles for a frame.
//! The papers' power is left out, because nothing here measures power.
//!
//! Cells are recorded by `make rtl-area`. Cycles come from the simulation, and need the cargo feature `rtl`.

use crate::error::Result;
use crate::found::{NO_VALUE, PaperValue, finding};
use crate::section::{Figure, Finding, Paper, Section, Verdict};
use crate::table::{Table, short};
use lineside_bench::rtl::area::{
    Area, PAPER_SPV, PAPER_TRANSFER, PaperArea, WHOLE, WHOLE_TRANSFER, recorded, whole,
};
use std::path::Path;

/// Name of the file with the cells of every module.
const FILE: &str = "rtl-area.csv";
const REMARK_AREA: &str = "the paper's values include the NIC and its memory controllers; Lineside's are those of the \
                           pipeline alone, for UltraScale+, counted by Yosys; with";
const REMARK_NO_WHOLE: &str = "the cells of the whole pipeline were not counted";
/// The paper's rate of frames of 74 bytes, in millions per second: its NIC fills 10 Gigabit Ethernet.
const PAPER_RATE: PaperValue<'static> = ("10 GbE full", Some(12.76));
const REMARK_CLOCK: &str = "not computed: Vivado was not run; rates of the RTL assume 250 MHz";

/// Adds the rows and the file of the RTL to the section of `spv` or `transfer`. The other papers' services have no RTL.
///
/// # Errors
/// The file cannot be written, or the simulated NIC failed.
pub(crate) fn add(section: &mut Section, out: &Path, quick: bool) -> Result<()> {
    match section.paper {
        Paper::Spv => {
            let findings = area("table 5", &PAPER_SPV, whole(WHOLE).as_ref());
            section.findings.extend(findings);
            cycles(section, quick)?;
        }
        Paper::Transfer => {
            let findings = area("table V", &PAPER_TRANSFER, whole(WHOLE_TRANSFER).as_ref());
            section.findings.extend(findings);
        }
        Paper::Fabric | Paper::Column | Paper::Hybrid => return Ok(()),
    }
    let path = out.join(FILE);
    table(&recorded()).write(&path)?;
    section.figures.push(Figure {
        title: "Cells of the RTL for UltraScale+".into(),
        svg: None,
        csv: Some(path),
    });
    Ok(())
}

/// Returns the rows of a paper's table of area.
fn area(figure: &str, paper: &PaperArea, ours: Option<&Area>) -> Vec<Finding> {
    // The name of a design ends with its sizes.
    let sizes = ours.and_then(|area| area.design.split_once(", "));
    let remark = match sizes {
        Some((_, sizes)) => format!("{REMARK_AREA} {sizes}"),
        None => REMARK_NO_WHOLE.into(),
    };
    let row = |quantity: &str, text: String, value: u64, ours: Option<u64>| {
        let paper: PaperValue<'_> = (&text, Some(value as f64));
        let ours = ours.map(|count| count as f64);
        finding(figure, quantity, paper, ours, "", Verdict::None, &remark)
    };
    let of = |count: u64, all: u64| format!("{} of {}", short(count as f64), short(all as f64));
    let device = paper.device;
    let mut rows = vec![row(
        &format!("FPGA, look-up tables ({device})"),
        of(paper.lut, paper.lut_of),
        paper.lut,
        ours.map(|area| area.lut),
    )];
    rows.extend(paper.ff.map(|ff| {
        let text = short(ff as f64);
        row("FPGA, registers", text, ff, ours.map(|area| area.ff))
    }));
    rows.push(row(
        "FPGA, block RAMs of 36 Kb",
        of(paper.bram36, paper.bram36_of),
        paper.bram36,
        ours.map(|area| area.bram36),
    ));
    let clock = format!("{} MHz", paper.clock_mhz);
    rows.push(finding(
        figure,
        "FPGA, clock of the logic",
        (&clock, Some(paper.clock_mhz)),
        None,
        "MHz",
        Verdict::None,
        REMARK_CLOCK,
    ));
    rows
}

/// Adds the cycles of the RTL for a frame of the paper of `spv`, and its latency.
#[cfg(feature = "rtl")]
fn cycles(section: &mut Section, quick: bool) -> Result<()> {
    use lineside_bench::rtl::{Options, run};
    let options = if quick {
        Options::quick()
    } else {
        Options::default()
    };
    let report = run(&options, &mut |_| {})?;
    section.failures.extend(report.failures());
    let Some(case) = report.contestants.rtl.measured.cases.get("paper_hit") else {
        return Ok(());
    };
    let row = |quantity: &str, paper: PaperValue<'_>, ours, unit, remark: &str| {
        finding(
            "section 4",
            quantity,
            paper,
            Some(ours),
            unit,
            Verdict::None,
            remark,
        )
    };
    section.findings.extend([
        row(
            "FPGA, cycles for a frame of 74 bytes",
            ("3", Some(3.0)),
            case.cycles_per_frame,
            "",
            "simulated; the paper's bus has 32 bytes, and its NIC stops receiving while it reads external memory",
        ),
        row(
            "FPGA, frames of 74 bytes at 250 MHz",
            PAPER_RATE,
            case.mframes_per_s,
            "M/s",
            "100 GbE carries 127.55 million such frames per second",
        ),
        row(
            "FPGA, cycles from the last beat in to the first beat out",
            NO_VALUE,
            case.latency_cycles as f64,
            "",
            "",
        ),
    ]);
    Ok(())
}

#[cfg(not(feature = "rtl"))]
fn cycles(section: &mut Section, _quick: bool) -> Result<()> {
    let row = |quantity: &str, paper: PaperValue<'_>| {
        let remark = "not measured: the cycles of the RTL need a build with the cargo feature `rtl`";
        finding("section 4", quantity, paper, None, "", Verdict::None, remark)
    };
    section.findings.extend([
        row("FPGA, cycles for a frame of 74 bytes", ("3", Some(3.0))),
        row("FPGA, frames of 74 bytes at 250 MHz", PAPER_RATE),
        row(
            "FPGA, cycles from the last beat in to the first beat out",
            NO_VALUE,
        ),
    ]);
    Ok(())
}

fn table(all: &[Area]) -> Table {
    let mut table = Table::new(&["design", "lut", "lutram", "ff", "bram36", "uram", "dsp"]);
    for area in all {
        let counts = [area.lut, area.lutram, area.ff, area.bram36, area.uram, area.dsp];
        let [lut, lutram, ff, bram36, uram, dsp] = counts.map(|count| count.to_string());
        table.push([area.design.clone(), lut, lutram, ff, bram36, uram, dsp]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(paper: Paper) -> Section {
        Section {
            paper,
            command: String::new(),
            findings: Vec::new(),
            figures: Vec::new(),
            not_measured: Vec::new(),
            warnings: Vec::new(),
            failures: Vec::new(),
            took_s: 0.0,
        }
    }

    #[test]
    fn the_sections_of_spv_and_transfer_get_the_area_of_the_papers_and_of_the_rtl() {
        let folder = tempfile::tempdir().unwrap();
        for (paper, lut, design) in [
            (Paper::Spv, 44_250.0, WHOLE),
            (Paper::Transfer, 129_715.0, WHOLE_TRANSFER),
        ] {
            let mut section = section(paper);
            add(&mut section, folder.path(), true).unwrap();
            let first = &section.findings[0];
            let ours = whole(design).map(|area| area.lut as f64);
            assert_eq!((first.paper_value, first.ours), (Some(lut), ours));
            assert!(first.remark.contains("pipeline"), "{first:?}");
            let text = std::fs::read_to_string(folder.path().join(FILE)).unwrap();
            assert_eq!(text.lines().count(), recorded().len() + 1);
            assert_eq!(section.files().len(), 1);
        }
        let mut other = section(Paper::Hybrid);
        add(&mut other, folder.path(), true).unwrap();
        assert!(other.findings.is_empty() && other.figures.is_empty());
    }
}

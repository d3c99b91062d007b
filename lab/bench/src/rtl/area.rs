//! Cells of the RTL, and the tables of the papers.

use serde::Serialize;

/// Table of the counts, as `make rtl-area` writes it.
const RECORDED: &str = include_str!("../../../../rtl/syn/area.csv");
/// Name of the row of the whole pipeline of `spv`.
pub const WHOLE: &str = "whole";
/// Name of the row of the whole pipeline of `transfer`.
pub const WHOLE_TRANSFER: &str = "transfer: whole";

/// Cells of one design for UltraScale+.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Area {
    /// Name of the module, and its sizes.
    pub design: String,
    /// Look-up tables.
    pub lut: u64,
    /// Look-up tables that are memory.
    pub lutram: u64,
    /// Flip-flops.
    pub ff: u64,
    /// Block RAMs of 36 Kb.
    pub bram36: u64,
    /// UltraRAMs of 288 Kb.
    pub uram: u64,
    /// DSP slices.
    pub dsp: u64,
}

/// Area that a paper gives for its card, and the clock of its logic.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PaperArea {
    /// FPGA of the card.
    pub device: &'static str,
    /// Clock frequency in MHz.
    pub clock_mhz: f64,
    /// Look-up tables.
    pub lut: u64,
    /// Look-up tables of the FPGA.
    pub lut_of: u64,
    /// Registers; `None` if the paper does not give them.
    pub ff: Option<u64>,
    /// Block RAMs of 36 Kb.
    pub bram36: u64,
    /// Block RAMs of the FPGA.
    pub bram36_of: u64,
}

/// Table of the paper of `spv`: NetFPGA-10G with the reference NIC and the cache; the lines are in external memory.
pub const PAPER_SPV: PaperArea = PaperArea {
    device: "Virtex-5 TX240T",
    clock_mhz: 160.0,
    lut: 44_250,
    lut_of: 149_760,
    ff: None,
    bram36: 162,
    bram36_of: 324,
};

/// Table of the paper of `transfer`: NetFPGA-SUME with the NIC, and 65,536 accounts in block RAM.
pub const PAPER_TRANSFER: PaperArea = PaperArea {
    device: "Virtex-7 XC7V690T",
    clock_mhz: 202.35,
    lut: 129_715,
    lut_of: 433_200,
    ff: Some(194_887),
    bram36: 636,
    bram36_of: 1_470,
};

/// Returns the recorded counts of all designs, in the order of the file.
pub fn recorded() -> Vec<Area> {
    RECORDED.lines().skip(1).filter_map(parse).collect()
}

/// Returns the recorded counts of a whole pipeline: [`WHOLE`] or [`WHOLE_TRANSFER`]. `None`: it was not counted.
pub fn whole(name: &str) -> Option<Area> {
    recorded().into_iter().find(|area| area.design.starts_with(name))
}

/// Parses a row: the name, in quotation marks if it contains a comma, and six counts.
fn parse(row: &str) -> Option<Area> {
    let (design, counts) = match row.strip_prefix('"') {
        Some(quoted) => quoted.split_once("\",")?,
        None => row.split_once(',')?,
    };
    let counts: Result<Vec<u64>, _> = counts.split(',').map(|count| count.trim().parse()).collect();
    let [lut, lutram, ff, bram36, uram, dsp] = counts.ok()?[..] else {
        return None;
    };
    Some(Area {
        design: design.to_owned(),
        lut,
        lutram,
        ff,
        bram36,
        uram,
        dsp,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_recorded_table_is_read() {
        let rows = RECORDED.lines().skip(1).filter(|line| !line.is_empty()).count();
        assert_eq!(recorded().len(), rows);
        let whole = whole(WHOLE).unwrap();
        assert!(whole.lut > 5_000 && whole.bram36 > 0, "{whole:?}");
        assert_eq!(parse("\"a, b\",1,2,3,4,5,6").unwrap().design, "a, b");
        assert_eq!(parse("a,1,2,3"), None);
    }
}

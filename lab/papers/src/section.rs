//! Results of one paper in one form for all papers: the report, the JSON output and the table in the book are made
//! from it.

use crate::error::Result;
use crate::table::{Table, number, short};
use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Name of the file with all values of a paper next to Lineside's.
pub const COMPARISON_FILE: &str = "paper.csv";

/// Paper whose figures are reproduced. The order is that of the papers' numbers in the documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Paper {
    /// Cache in a network card for light clients of Bitcoin.
    Spv,
    /// Transfer of digital assets in a network card.
    Transfer,
    /// Validation of Hyperledger Fabric's blocks in a SmartNIC.
    Fabric,
    /// Cache in a network card for column-oriented databases.
    Column,
    /// Ledger database with an FPGA card for hashes and signatures.
    Hybrid,
}

/// Judgement of what the paper claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The paper gives no value for this quantity, or the value depends on its hardware and is not a claim that
    /// software can confirm or refute.
    None,
    /// Lineside's value confirms the claim.
    Holds,
    /// Lineside's value, or arithmetic, refutes the claim; the remark says why.
    Fails,
}

/// One quantity: the paper's value and Lineside's.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Figure, table or section of the paper, for example `figure 7`.
    pub figure: String,
    /// Name of the quantity, with the case that was measured.
    pub quantity: String,
    /// Value of the paper in the words of its text; empty if the text gives none.
    pub paper: String,
    /// Value of the paper as a number in `unit`, if its text gives one.
    pub paper_value: Option<f64>,
    /// Value of Lineside; `None` if it was not measured, for the reason in `remark`.
    pub ours: Option<f64>,
    /// Unit of both values; empty if they are ratios or counts.
    pub unit: &'static str,
    /// Reason for a difference, or a condition of the value; empty if there is none.
    pub remark: String,
    /// Judgement of the paper's claim.
    pub verdict: Verdict,
}

impl Finding {
    /// Returns Lineside's value divided by the paper's, if both are numbers and the paper's is not 0.
    pub fn ratio(&self) -> Option<f64> {
        let paper = self.paper_value.filter(|value| *value != 0.0)?;
        Some(self.ours? / paper)
    }

    /// Returns Lineside's value with its unit, for readers; empty if it was not measured.
    pub fn ours_with_unit(&self) -> String {
        let value = self.ours.map_or_else(String::new, short);
        let unit = if value.is_empty() { "" } else { self.unit };
        format!("{value} {unit}").trim_end().to_owned()
    }

    /// Returns the cells of a row for readers, in the order of [`HEADINGS`].
    pub fn cells(&self) -> [String; 6] {
        [
            self.figure.clone(),
            self.quantity.clone(),
            self.paper.clone(),
            self.ours_with_unit(),
            self.ratio().map_or_else(String::new, short),
            self.verdict.to_string(),
        ]
    }
}

/// Column headings of a table of findings. The remark of a finding has its own line.
pub const HEADINGS: [&str; 6] = ["figure", "quantity", "paper", "Lineside", "ratio", "verdict"];

/// Figure that was made: a plot, its data, or both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figure {
    /// Title, with the number of the paper's figure.
    pub title: String,
    /// Path of the plot.
    pub svg: Option<PathBuf>,
    /// Path of the data.
    pub csv: Option<PathBuf>,
}

/// Results of one paper.
#[derive(Clone, Debug)]
pub struct Section {
    /// The paper.
    pub paper: Paper,
    /// Command that makes these results alone.
    pub command: String,
    /// Values of the paper next to those of Lineside, in the order of the paper's figures.
    pub findings: Vec<Finding>,
    /// Figures in the order of the paper.
    pub figures: Vec<Figure>,
    /// Reasons why parts were not measured, for example missing rights.
    pub not_measured: Vec<String>,
    /// Conditions of the run that make values less reliable, for example other work on the machine.
    pub warnings: Vec<String>,
    /// Failures of the system under test: lost requests and wrong replies. Empty if all replies were right.
    pub failures: Vec<String>,
    /// Duration of the run in seconds.
    pub took_s: f64,
}

impl Section {
    /// Returns the paths of all files, each once, in the order of the figures.
    pub fn files(&self) -> Vec<&Path> {
        let mut files: Vec<&Path> = Vec::new();
        for figure in &self.figures {
            for file in [&figure.csv, &figure.svg].into_iter().flatten() {
                if !files.contains(&file.as_path()) {
                    files.push(file);
                }
            }
        }
        files
    }

    /// Writes all findings to [`COMPARISON_FILE`] in the folder `out`, and adds the file to the figures.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_comparison(&mut self, out: &Path) -> Result<()> {
        let mut table = Table::new(&[
            "figure", "quantity", "paper", "ours", "unit", "ratio", "verdict", "remark",
        ]);
        let or_empty = |value: Option<f64>| value.map_or_else(String::new, number);
        for finding in &self.findings {
            table.push([
                finding.figure.clone(),
                finding.quantity.clone(),
                finding.paper.clone(),
                or_empty(finding.ours),
                finding.unit.into(),
                or_empty(finding.ratio()),
                finding.verdict.to_string(),
                finding.remark.clone(),
            ]);
        }
        let path = out.join(COMPARISON_FILE);
        table.write(&path)?;
        self.figures.push(Figure {
            title: "All values of the paper next to those of Lineside".into(),
            svg: None,
            csv: Some(path),
        });
        Ok(())
    }
}

impl Display for Section {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let rows: Vec<_> = self.findings.iter().map(Finding::cells).collect();
        let widths: Vec<usize> = (HEADINGS.iter().enumerate())
            .map(|(column, heading)| {
                let cells = rows.iter().map(|row| row[column].chars().count());
                cells.chain([heading.len()]).max().unwrap_or(0)
            })
            .collect();
        let mut line = |cells: [&str; 6]| -> fmt::Result {
            let text: String = (cells.iter().zip(&widths).enumerate())
                .map(|(column, (cell, width))| match column {
                    0 | 1 | 5 => format!("{cell:<width$}  "),
                    _ => format!("{cell:>width$}  "),
                })
                .collect();
            writeln!(out, "{}", text.trim_end())
        };
        line(HEADINGS)?;
        let mut remarks: Vec<&str> = Vec::new();
        for (row, finding) in rows.iter().zip(&self.findings) {
            line(row.each_ref().map(String::as_str))?;
            if !finding.remark.is_empty() && !remarks.contains(&finding.remark.as_str()) {
                remarks.push(&finding.remark);
                line(["", &format!("  {}", finding.remark), "", "", "", ""])?;
            }
        }
        for (name, texts) in [("not measured", &self.not_measured), ("warning", &self.warnings)] {
            texts
                .iter()
                .try_for_each(|text| writeln!(out, "\n{name}: {text}"))?;
        }
        writeln!(out)?;
        let mut files = self.files().into_iter();
        files.try_for_each(|file| writeln!(out, "wrote {}", file.display()))?;
        writeln!(out, "took {:.0} s", self.took_s)
    }
}

impl Paper {
    /// All papers in the order of their numbers.
    pub const ALL: [Self; 5] = [
        Self::Spv,
        Self::Transfer,
        Self::Fabric,
        Self::Column,
        Self::Hybrid,
    ];

    /// Returns the number of the paper in the documentation: 1 to 5.
    pub fn number(self) -> usize {
        self as usize + 1
    }

    /// Returns the name of the service that follows the paper; it is also the verb of `lineside-lab papers`.
    pub fn service(self) -> &'static str {
        match self {
            Self::Spv => "spv",
            Self::Transfer => "transfer",
            Self::Fabric => "fabric",
            Self::Column => "column",
            Self::Hybrid => "hybrid",
        }
    }

    /// Returns authors, title and place of publication.
    pub fn citation(self) -> &'static str {
        match self {
            Self::Spv => {
                "Y. Sakakibara, S. Morishima, K. Nakamura, H. Matsutani, \"A Hardware-Based Caching System on FPGA NIC \
                 for Blockchain\", IEICE Transactions 2018, DOI 10.1587/transinf.2017EDP7290"
            }
            Self::Transfer => {
                "Y. Sakakibara, Y. Tokusashi, S. Morishima, H. Matsutani, \"Accelerating Blockchain Transfer System \
                 Using FPGA-Based NIC\""
            }
            Self::Fabric => {
                "J. Yang, C. Hu, \"Accelerating Hyperledger Fabric within SmartNIC\" (slides), and arXiv 2104.06968"
            }
            Self::Column => {
                "A. Hamada, H. Matsutani, \"Design and Implementation of Hardware Cache Mechanism and NIC for \
                 Column-Oriented Databases\""
            }
            Self::Hybrid => {
                "a report on the acceleration of a re-implementation of the database Veritas with an FPGA card"
            }
        }
    }
}

impl Display for Paper {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str(self.service())
    }
}

impl FromStr for Paper {
    type Err = String;

    fn from_str(name: &str) -> std::result::Result<Self, String> {
        let found = Self::ALL.into_iter().find(|paper| paper.service() == name);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::service).join(", ");
            format!("there is no paper `{name}`; the papers are {names}")
        })
    }
}

impl Display for Verdict {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::None => "",
            Self::Holds => "holds",
            Self::Fails => "fails",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(paper_value: Option<f64>, ours: Option<f64>) -> Finding {
        Finding {
            figure: "table 1".into(),
            quantity: "bytes, of a packet".into(),
            paper: "921".into(),
            paper_value,
            ours,
            unit: "B",
            remark: "a remark".into(),
            verdict: Verdict::Holds,
        }
    }

    #[test]
    fn a_ratio_needs_both_values() {
        assert_eq!(finding(Some(2.0), Some(3.0)).ratio(), Some(1.5));
        for (paper, ours) in [(Some(0.0), Some(3.0)), (None, Some(3.0)), (Some(2.0), None)] {
            assert_eq!(finding(paper, ours).ratio(), None);
        }
        assert_eq!(finding(None, None).ours_with_unit(), "");
        assert_eq!(finding(None, Some(2.5)).ours_with_unit(), "2.5 B");
    }

    #[test]
    fn text_and_comparison_contain_every_value_and_each_file_once() {
        let folder = tempfile::tempdir().unwrap();
        let csv = Some(folder.path().join("a.csv"));
        let figure = |svg: &str| Figure {
            title: svg.to_owned(),
            svg: Some(folder.path().join(svg)),
            csv: csv.clone(),
        };
        let mut section = Section {
            paper: Paper::Fabric,
            command: "a command".into(),
            findings: vec![finding(Some(921.0), Some(460.5)), finding(None, None)],
            figures: vec![figure("a.svg"), figure("b.svg")],
            not_measured: vec!["no rights".into()],
            warnings: vec!["not quiet".into()],
            failures: Vec::new(),
            took_s: 3.0,
        };
        section.write_comparison(folder.path()).unwrap();
        let names: Vec<_> = section
            .files()
            .iter()
            .filter_map(|file| file.file_name())
            .collect();
        assert_eq!(names, ["a.csv", "a.svg", "b.svg", "paper.csv"]);
        let csv = std::fs::read_to_string(folder.path().join("paper.csv")).unwrap();
        assert!(
            csv.contains("table 1,\"bytes, of a packet\",921,460.5,B,0.5,holds,a remark"),
            "{csv}"
        );
        assert_eq!(csv.lines().count(), 3);
        let text = section.to_string();
        for part in [
            "460.5 B",
            "0.5",
            "holds",
            "not measured: no rights",
            "warning: not quiet",
            "b.svg",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(text.matches("a remark").count(), 1);
    }

    #[test]
    fn papers_are_found_by_their_services() {
        for (place, paper) in Paper::ALL.into_iter().enumerate() {
            assert_eq!(paper.service().parse(), Ok(paper));
            assert_eq!(paper.number(), place + 1);
        }
        assert!("bitcoin".parse::<Paper>().unwrap_err().contains("transfer"));
    }
}

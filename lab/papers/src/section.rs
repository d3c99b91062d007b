//! Results of one paper in one form for all papers: the report, the JSON output and the table in the book are made
//! from it.

use std::fmt::{self, Display, Formatter};
use std::path::PathBuf;

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
}

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

impl Display for Verdict {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::None => "",
            Self::Holds => "holds",
            Self::Fails => "fails",
        })
    }
}

//! Vectors of `vectors/column`: requests to a table of which the fast-path table contains parts. A change by one vector
//! is visible to the next ones.

pub use crate::vectors::transfer::Vector;
use crate::vectors::{Bytes, Endpoint, Lease};
use serde::Deserialize;
use std::net::IpAddr;

/// Content of a file whose vectors run one after the other. Before each vector, the fast-path table is filled again.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Name of the file without its extension.
    #[serde(skip)]
    pub name: String,
    /// State of the fast path and the host.
    pub state: State,
    /// Interface of the fast path.
    pub endpoint: Endpoint,
    /// Rows that the table contains before the first vector.
    #[serde(default, rename = "row")]
    pub rows: Vec<Row>,
    /// Parts of the table that are in the fast-path table.
    #[serde(default)]
    pub held: Vec<HeldRange>,
    /// Vectors in the order in which they run.
    #[serde(rename = "vector")]
    pub vectors: Vec<Vector>,
}

/// State of the fast path and the host.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// State of the lease.
    pub lease: Lease,
    /// True if the host is in the middle of a change of the fast path's index.
    pub changing: bool,
    /// Column and key of a row whose block in the fast-path table is invalid.
    pub invalid: Option<(String, Bytes)>,
    /// True if one invalid block makes all requests for its column miss.
    pub literal_flags: bool,
    /// True if the service answers packets in the paper's format.
    pub paper_format: bool,
    /// True if replies say that they may be stale.
    pub may_be_stale: bool,
    /// Columns that the fast-path table may contain.
    pub columns: Vec<String>,
    /// Addresses of clients that may change the table without a session.
    pub trusted: Vec<IpAddr>,
    /// Time of the table's clock, in milliseconds since 1970.
    pub now_ms: u64,
    /// State of the simulated table.
    pub table: Table,
}

/// State of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Table {
    /// The table answers requests.
    #[serde(rename = "here")]
    Here,
    /// The table is not reachable.
    #[serde(rename = "away")]
    Away,
    /// The table does not have the column's family.
    #[serde(rename = "without the family")]
    WithoutTheFamily,
    /// The table refuses requests.
    #[serde(rename = "refusing")]
    Refusing,
    /// The table can be read, but accepts no changes any more.
    #[serde(rename = "ended")]
    Ended,
    /// The table can be read, but does not report the outcome of a change.
    #[serde(rename = "silent")]
    Silent,
}

/// Cell of the table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Name of the column, as `family:qualifier`.
    pub column: String,
    /// Key of the row.
    pub key: Bytes,
    /// Value of the cell.
    pub value: Bytes,
    /// Time of the write, in milliseconds since 1970.
    pub timestamp_ms: u64,
}

/// Part of the table that is in the fast-path table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeldRange {
    /// Name of the column, as `family:qualifier`.
    pub column: String,
    /// Lowest key of the part.
    pub low: Bytes,
    /// First key after the part. If it is missing, the part extends to the end of the table.
    pub high: Option<Bytes>,
}

/// Reads every file of `vectors/column` in the order of their names.
///
/// # Errors
/// The first file that cannot be read or is not valid, with its name, line and fault.
pub fn load() -> Result<Vec<File>, String> {
    crate::vectors::load_with("column", parse)
}

/// Parses the text of the file `name`.
///
/// # Errors
/// The fault of the text, as [`load`] reports it.
pub fn parse(name: &str, text: &str) -> Result<File, String> {
    let mut file: File = toml::from_str(text).map_err(|error| format!("{name}.toml: {error}"))?;
    file.name = name.into();
    crate::vectors::transfer::check(name, &file.vectors)?;
    Ok(file)
}

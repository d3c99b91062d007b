//! `vectors/column`: requests to a table, the fast path holding parts of it. What one changes in the table the next
//! ones find.

pub use crate::vectors::transfer::Vector;
use crate::vectors::{Bytes, Endpoint, Lease};
use serde::Deserialize;
use std::net::IpAddr;

/// A file of vectors, asked one after the other; before each of them the fast path is filled anew.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// The file's name without its ending.
    #[serde(skip)]
    pub name: String,
    /// How the fast path and host stand.
    pub state: State,
    /// The interface that the fast path stands at.
    pub endpoint: Endpoint,
    /// The rows that are there before the first vector.
    #[serde(default, rename = "row")]
    pub rows: Vec<Row>,
    /// What the fast path holds.
    #[serde(default)]
    pub held: Vec<Held>,
    /// The vectors.
    #[serde(rename = "vector")]
    pub vectors: Vec<Vector>,
}

/// How the fast path and host stand.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// Whether the fast path may answer.
    pub lease: Lease,
    /// Whether the host is in the middle of a change of the fast path's index.
    pub changing: bool,
    /// A row whose block is invalid: column and key.
    pub invalid: Option<(String, Bytes)>,
    /// Whether one such block makes its column miss.
    pub literal_flags: bool,
    /// Whether the paper's packets are answered.
    pub paper_format: bool,
    /// Whether replies say that they may be stale.
    pub may_be_stale: bool,
    /// The columns that the fast path may hold.
    pub columns: Vec<String>,
    /// Who may change the table without a session.
    pub trusted: Vec<IpAddr>,
    /// Milliseconds since 1970 by the table's clock.
    pub now_ms: u64,
    /// Whether the table answers.
    pub table: Table,
}

/// Whether the table answers, or what it says instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Table {
    /// It does.
    #[serde(rename = "here")]
    Here,
    /// It cannot be asked now.
    #[serde(rename = "away")]
    Away,
    /// It has not the column's family.
    #[serde(rename = "without the family")]
    WithoutTheFamily,
    /// It refuses.
    #[serde(rename = "refusing")]
    Refusing,
    /// It is read, and takes no changes any more.
    #[serde(rename = "ended")]
    Ended,
    /// It is read, and does not say what became of a change.
    #[serde(rename = "silent")]
    Silent,
}

/// A cell of the table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// `family:qualifier`.
    pub column: String,
    /// Its row.
    pub key: Bytes,
    /// What it holds.
    pub value: Bytes,
    /// When it was written.
    pub timestamp_ms: u64,
}

/// A part of the table that the fast path holds.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Held {
    /// `family:qualifier`.
    pub column: String,
    /// Its lowest key.
    pub low: Bytes,
    /// The first key above; none: to the table's end.
    pub high: Option<Bytes>,
}

/// Reads every file of `vectors/column`, in the order of their names.
///
/// # Errors
/// The first file that cannot be read or is not what it should be, with its name, line and what is wrong.
pub fn load() -> Result<Vec<File>, String> {
    crate::vectors::load_with("column", parse)
}

/// Reads the text of the file `name`.
///
/// # Errors
/// As [`load`].
pub fn parse(name: &str, text: &str) -> Result<File, String> {
    let mut file: File = toml::from_str(text).map_err(|error| format!("{name}.toml: {error}"))?;
    file.name = name.into();
    crate::vectors::transfer::check(name, &file.vectors)?;
    Ok(file)
}

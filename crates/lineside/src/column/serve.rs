//! `lineside column serve`: what the command line says.

use crate::config::{CoherenceName, TableName};
use crate::run::{Overrides, until_signal};
use crate::wrong::Wrong;
use anyhow::bail;
use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Serve a table on UDP until a signal ends it.
#[derive(Args)]
pub struct Serve {
    /// The configuration file; what is given here goes before it.
    #[arg(long)]
    config: Option<PathBuf>,
    /// Keep the rows in this directory, made where it is not there.
    #[arg(long)]
    data: Option<PathBuf>,
    /// Where the rows are: memory, embedded (in --data), hbase://host:port/table or thrift2://host:port/table.
    #[arg(long, value_parser = |text: &str| TableName::try_from(text.to_owned()))]
    store: Option<TableName>,
    /// Address and UDP port.
    #[arg(long)]
    listen: Option<SocketAddr>,
    /// A column that the fast path may hold, family:qualifier; may be given again.
    #[arg(long = "column", value_name = "NAME")]
    columns: Vec<String>,
    /// log2 of the rows that the fast path holds of a column.
    #[arg(long)]
    row_bits: Option<u32>,
    /// What the fast path keeps of a table in HBase.
    #[arg(long, value_enum)]
    coherence: Option<CoherenceName>,
    #[command(flatten)]
    overrides: Overrides,
}

/// Serves until a signal comes.
///
/// # Errors
/// What stands in the way of serving.
pub fn run(arguments: Serve, as_json: bool) -> anyhow::Result<()> {
    let mut config = arguments.overrides.over(arguments.config)?;
    let column = &mut config.column;
    if let Some(data) = arguments.data {
        if arguments
            .store
            .as_ref()
            .is_some_and(|store| *store != TableName::Embedded)
        {
            let why = "--data is of the embedded table: it goes with --store embedded alone";
            bail!(Wrong(why.to_owned()));
        }
        (column.store, column.data) = (TableName::Embedded, data);
    }
    if let Some(store) = arguments.store {
        column.store = store;
    }
    if let Some(listen) = arguments.listen {
        column.listen = listen;
    }
    if !arguments.columns.is_empty() {
        column.columns = arguments.columns;
    }
    if let Some(row_bits) = arguments.row_bits {
        column.row_bits = row_bits;
    }
    if let Some(coherence) = arguments.coherence {
        if coherence != CoherenceName::None && !column.store.is_hbase() {
            let why = "--coherence is for a table in HBase: this one tells of its own changes";
            bail!(Wrong(why.to_owned()));
        }
        column.coherence = coherence;
    }
    config.serve_only("column");
    let config = config.checked("the command line")?;
    until_signal(&config, |_| Ok(None::<String>), false, as_json)
}

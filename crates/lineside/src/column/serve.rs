//! `lineside column serve`: what the command line says.

use crate::run::{self, Overrides};
use crate::session::Session;
use crate::wrong::Wrong;
use anyhow::bail;
use clap::Args;
use lineside_column::config::{CoherenceName, ColumnConfig, TableName};
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
    let section = config.section("column");
    if let Some(data) = arguments.data {
        if arguments
            .store
            .as_ref()
            .is_some_and(|store| *store != TableName::Embedded)
        {
            let why = "--data is of the embedded table: it goes with --store embedded alone";
            bail!(Wrong(why.into()));
        }
        section.set("store", TableName::Embedded);
        section.set("data", data);
    }
    section.set_some("store", arguments.store);
    section.set_some("listen", arguments.listen);
    section.set_some(
        "columns",
        (!arguments.columns.is_empty()).then_some(arguments.columns),
    );
    section.set_some("row_bits", arguments.row_bits);
    if let Some(coherence) = arguments.coherence {
        section.set("coherence", coherence);
        let is_elsewhere = section
            .read::<ColumnConfig>()
            .is_ok_and(|read| !read.store.is_hbase());
        if coherence != CoherenceName::None && is_elsewhere {
            let why = "--coherence is for a table in HBase: this one tells of its own changes";
            bail!(Wrong(why.into()));
        }
    }
    config.serve_only("column");
    run::serve(Session::start(&config, true)?, as_json)
}

//! `lineside column serve`: command-line options of the server.

use crate::run::{self, NoKeepFastPath, Overrides};
use crate::session::Session;
use crate::wrong::Wrong;
use anyhow::bail;
use clap::Args;
use lineside_column::config::{CoherenceName, ColumnConfig, TableName};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Serve a table over UDP until SIGINT, SIGTERM or SIGHUP.
///
/// Only the service `column` runs, even if the configuration file enables others. Options replace values of the file.
#[derive(Args)]
pub struct Serve {
    /// Configuration file; its sections [column], [datapath], [console] and [process] apply.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Keep the rows in this directory, which is created if missing; implies --store embedded.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Store of the rows: memory (lost at the end), embedded (in --data), hbase://host:port/table or
    /// thrift2://host:port/table [default: memory]
    #[arg(long, value_name = "STORE", value_parser = |text: &str| TableName::try_from(text.to_owned()))]
    store: Option<TableName>,
    /// Address and UDP port to listen on [default: 127.0.0.1:7703]
    #[arg(long, value_name = "ADDR:PORT", value_parser = crate::address::parse)]
    listen: Option<SocketAddr>,
    /// Column that the fast path may cache, as family:qualifier; may be given more than once [default: entry:foo]
    #[arg(long = "column", value_name = "FAMILY:QUALIFIER")]
    columns: Vec<String>,
    /// log2 of the number of rows of a column that the fast path caches, up to 21 [default: 16]
    #[arg(long, value_name = "BITS")]
    row_bits: Option<u32>,
    /// Treatment of changes that other clients make in HBase: cache nothing (none), cache rows for some time (ttl),
    /// or receive notices from a coprocessor in HBase's servers (coprocessor) [default: none]
    #[arg(long, value_enum)]
    coherence: Option<CoherenceName>,
    #[command(flatten)]
    overrides: Overrides,
    #[command(flatten)]
    keep: NoKeepFastPath,
}

/// Serves until a signal ends the process.
///
/// # Errors
/// The options or the configuration are wrong, or the server cannot start.
pub fn run(arguments: Serve, as_json: bool) -> anyhow::Result<()> {
    arguments.keep.check("column")?;
    let mut config = arguments.overrides.over(arguments.config)?;
    let section = config.section("column");
    if let Some(data) = arguments.data {
        if arguments
            .store
            .as_ref()
            .is_some_and(|store| *store != TableName::Embedded)
        {
            let why = "--data is the directory of the embedded table: use it with --store embedded only";
            bail!(Wrong(why.into()));
        }
        section.set("store", TableName::Embedded);
        section.set("data", data);
    } else if arguments
        .store
        .as_ref()
        .is_some_and(|store| *store != TableName::Embedded)
    {
        // The directory in the file belongs to the store that the option replaces.
        section.set("data", "");
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
            let why = "--coherence is for a table in HBase: leave it out, the server knows every change of this store";
            bail!(Wrong(why.into()));
        }
    }
    config.serve_only("column");
    run::serve(Session::start(&config, true)?, as_json)
}

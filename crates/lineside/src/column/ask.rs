//! Client verbs of `lineside column`: each sends one request, or one after the other, to a server over UDP.

use super::paper::{self, GetResult};
use super::text;
use crate::address;
use crate::out::{Unwritten, counted};
use anyhow::bail;
use clap::{Args, ValueEnum};
use lineside_client::column::native::{Answer, LeftOut, Rows};
use lineside_client::column::{Change, ColumnName, ROW_BYTES_MAX};
use lineside_client::column::{Client, Outcome};
use lineside_wire::{COLUMN_PORT, COLUMN_REPLY_MAY_BE_STALE, COLUMN_SOURCE_FASTPATH};
use serde_json::{Map, Value, json};
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::ControlFlow;
use std::time::Duration;

/// Server that requests go to, and how long to wait for a reply.
#[derive(Args)]
struct Server {
    /// Address or name of the server, and its UDP port.
    #[arg(
        long,
        value_name = "ADDR:PORT",
        value_parser = address::parse,
        default_value_t = SocketAddr::from((Ipv4Addr::LOCALHOST, COLUMN_PORT))
    )]
    server: SocketAddr,
    /// Milliseconds to wait for a reply to one request, repeats included.
    #[arg(long, value_name = "MS", default_value_t = 6000)]
    timeout_ms: u64,
}

impl Server {
    fn client(&self) -> anyhow::Result<Client> {
        Ok(Client::connect(
            self.server,
            Duration::from_millis(self.timeout_ms),
        )?)
    }
}

/// Row key from the command line.
#[derive(Clone)]
struct KeyText(Vec<u8>);

fn key(text: &str) -> Result<KeyText, String> {
    match text::parse(text)? {
        bytes if bytes.is_empty() => Err("a key has at least 1 byte".into()),
        bytes if bytes.len() > ROW_BYTES_MAX => Err(format!("a key has at most {ROW_BYTES_MAX} bytes")),
        bytes => Ok(KeyText(bytes)),
    }
}

/// Value from the command line.
#[derive(Clone)]
struct ValueText(Vec<u8>);

fn value(text: &str) -> Result<ValueText, String> {
    text::parse(text).map(ValueText)
}

fn column(text: &str) -> Result<ColumnName, String> {
    ColumnName::new(text.as_bytes())
        .ok_or_else(|| "a column is family:qualifier, of at most 32 bytes".to_owned())
}

/// Print the values of columns in one or more rows.
///
/// Exit code 1 if a row does not exist, or does not fit a packet.
#[derive(Args)]
pub struct Get {
    #[command(flatten)]
    server: Server,
    /// Column as family:qualifier; may be given more than once.
    #[arg(long = "column", value_name = "FAMILY:QUALIFIER", value_parser = column, default_value = "entry:foo")]
    columns: Vec<ColumnName>,
    /// Send requests in the paper's format: keys of up to 4 bytes, one column with a name of up to 9, values of up to
    /// 18.
    #[arg(long)]
    paper: bool,
    /// Row keys; \xNN is the byte with the hex value NN.
    #[arg(required = true, value_parser = key)]
    keys: Vec<KeyText>,
}

/// Write a value to one cell (a column of a row).
#[derive(Args)]
pub struct Put {
    #[command(flatten)]
    cell: Cell,
    /// Send the request in the paper's format, once: a key of up to 4 bytes, a column name of up to 9, a value of 1 to
    /// 18. The server accepts it only from an address in its `trusted_sources`.
    #[arg(long)]
    paper: bool,
    /// New value; \xNN is the byte with the hex value NN.
    #[arg(value_parser = value)]
    value: ValueText,
}

/// Delete one cell; succeeds even if the cell is empty already.
#[derive(Args)]
pub struct Delete {
    #[command(flatten)]
    cell: Cell,
}

/// Add a number to a cell that holds a signed 64-bit big-endian integer, and print the sum; an empty cell counts as 0.
#[derive(Args)]
pub struct Increment {
    #[command(flatten)]
    cell: Cell,
    /// Number to add.
    #[arg(default_value_t = 1, allow_negative_numbers = true)]
    by: i64,
}

/// Append bytes to the value of one cell, and print the result; an empty cell has no bytes.
#[derive(Args)]
pub struct Append {
    #[command(flatten)]
    cell: Cell,
    /// Bytes to append; \xNN is the byte with the hex value NN.
    #[arg(value_parser = value)]
    value: ValueText,
}

/// Write a value to one cell if the cell holds an expected value; otherwise write nothing and exit with code 1.
#[derive(Args)]
pub struct CheckAndPut {
    #[command(flatten)]
    cell: Cell,
    /// Value that the cell must hold; without this option the cell must be empty.
    #[arg(long, value_name = "VALUE", value_parser = value)]
    expected: Option<ValueText>,
    /// New value; \xNN is the byte with the hex value NN.
    #[arg(value_parser = value)]
    value: ValueText,
}

/// Turn the server's fast path off or on; off empties it, and all requests go to the table.
#[derive(Args)]
pub struct Switch {
    #[command(flatten)]
    server: Server,
    /// New state of the fast path.
    #[arg(value_enum)]
    to: FastPath,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FastPath {
    On,
    Off,
}

#[derive(Args)]
struct Cell {
    #[command(flatten)]
    server: Server,
    /// Column as family:qualifier.
    #[arg(long, value_name = "FAMILY:QUALIFIER", value_parser = column, default_value = "entry:foo")]
    column: ColumnName,
    /// Row key; \xNN is the byte with the hex value NN.
    #[arg(value_parser = key)]
    key: KeyText,
}

/// Print the rows of a key range, in the order of their keys.
///
/// Exit code 1 if a row does not fit a packet.
#[derive(Args)]
pub struct Scan {
    #[command(flatten)]
    server: Server,
    /// Column as family:qualifier; may be given more than once.
    #[arg(long = "column", value_name = "FAMILY:QUALIFIER", value_parser = column, default_value = "entry:foo")]
    columns: Vec<ColumnName>,
    /// First key of the range [default: first row of the table; with --reverse its last row]
    #[arg(long, value_name = "KEY", value_parser = key)]
    start: Option<KeyText>,
    /// End of the range, not included [default: end of the table; with --reverse its beginning]
    #[arg(long, value_name = "KEY", value_parser = key)]
    stop: Option<KeyText>,
    /// Include the row at --stop.
    #[arg(long, requires = "stop")]
    stop_inclusive: bool,
    /// Maximum number of rows, 1 to 65535 [default: all]
    #[arg(long, value_name = "ROWS", value_parser = clap::value_parser!(u16).range(1..))]
    limit: Option<u16>,
    /// Go from the highest key down.
    #[arg(long)]
    reverse: bool,
    /// Send the request in the paper's format, which includes the row at --stop: keys of up to 4 bytes, one column with
    /// a name of up to 9, values of up to 18. Prints the rows that fit one packet.
    #[arg(long, requires_all = ["start", "stop"], conflicts_with_all = ["reverse", "stop_inclusive"])]
    paper: bool,
}

/// Returns the name of the part that answered: the fast path or the host.
fn source(answer: &Answer) -> &'static str {
    match answer.source {
        COLUMN_SOURCE_FASTPATH => "fastpath",
        _ => "host",
    }
}

fn may_be_stale(answer: &Answer) -> bool {
    answer.flags & COLUMN_REPLY_MAY_BE_STALE != 0
}

/// Returns the cells of one row by column name.
fn cells(columns: &[ColumnName], row: &[(Vec<u8>, usize, Vec<u8>)]) -> Map<String, Value> {
    let cell = |(_, column, value): &(Vec<u8>, usize, Vec<u8>)| {
        let name = columns.get(*column).map(|name| text::show(name.as_bytes()));
        (name.unwrap_or_default(), text::show(value).into())
    };
    row.iter().map(cell).collect()
}

/// Prints one row as a line: key, columns, and the part that answered.
fn show_row(
    columns: &[ColumnName],
    row: &[(Vec<u8>, usize, Vec<u8>)],
    answer: &Answer,
    as_json: bool,
) -> Result<(), Unwritten> {
    let (key, cells) = (text::show(&row[0].0), cells(columns, row));
    let (source, stale) = (source(answer), may_be_stale(answer));
    if as_json {
        return say!(
            "{}",
            json!({"key": key, "found": true, "cells": cells, "source": source, "may_be_stale": stale})
        );
    }
    let present: Vec<_> = (cells.iter())
        .map(|(name, value)| format!("{name} = {}", value.as_str().unwrap_or_default()))
        .collect();
    let stale = if stale { ", may be stale" } else { "" };
    say!("{key}: {} (from {source}{stale})", present.join(", "))
}

/// Prints a row that does not fit a packet: key, column and length of its longest value, and the part that answered.
fn show_left_out(
    columns: &[ColumnName],
    row: &LeftOut,
    answer: &Answer,
    as_json: bool,
) -> Result<(), Unwritten> {
    let name = columns.get(row.column).map(|name| text::show(name.as_bytes()));
    let (key, name) = (text::show(&row.key), name.unwrap_or_default());
    let (source, bytes) = (source(answer), row.value_bytes);
    if as_json {
        let stale = may_be_stale(answer);
        let too_long = json!({"column": name, "value_bytes": bytes, "key_is_cut": row.is_cut});
        return say!(
            "{}",
            json!({"key": key, "found": true, "too_long": too_long, "source": source, "may_be_stale": stale})
        );
    }
    match row.is_cut {
        true => say!(
            "{key}...: key too long for a packet; rows whose keys begin like this are left out (from {source})"
        ),
        false => say!(
            "{key}: too long for a packet: {name} has {} (from {source})",
            counted(bytes, "byte")
        ),
    }
}

impl Get {
    /// Reads and prints the row of each key.
    ///
    /// # Errors
    /// See [`Client::get`]; a row does not exist, or does not fit a packet.
    pub fn run(&self, as_json: bool) -> anyhow::Result<()> {
        let mut client = self.server.client()?;
        let (mut missing, mut too_long) = (0, 0);
        for KeyText(key) in &self.keys {
            if self.paper {
                match paper::get(&mut client, key, &self.columns, as_json)? {
                    GetResult::Whole => {}
                    GetResult::Nothing => missing += 1,
                    GetResult::TooLong => too_long += 1,
                }
                continue;
            }
            let answer = client.get(key, &self.columns)?;
            if let Some(row) = answer.left_out.first() {
                too_long += 1;
                show_left_out(&self.columns, row, &answer, as_json)?;
                continue;
            }
            if !answer.rows.is_empty() {
                show_row(&self.columns, &answer.rows, &answer, as_json)?;
                continue;
            }
            missing += 1;
            let (key, source) = (text::show(key), source(&answer));
            let stale = may_be_stale(&answer);
            match as_json {
                true => say!(
                    "{}",
                    json!({"key": key, "found": false, "source": source, "may_be_stale": stale})
                ),
                false => say!("{key}: no such row (from {source})"),
            }?;
        }
        let of = counted(self.keys.len(), "row");
        match (missing, too_long) {
            (0, 0) => Ok(()),
            (0, _) => {
                bail!("too long for a packet: {too_long} of {of}: ask for fewer columns (--column)")
            }
            (_, 0) => bail!("{missing} of {of} not found"),
            _ => bail!(
                "{missing} of {of} not found, {too_long} too long for a packet: ask for fewer columns (--column)"
            ),
        }
    }
}

impl Cell {
    fn change(&self, change: &Change, as_json: bool) -> anyhow::Result<Outcome> {
        let outcome = self.server.client()?.change(&self.key.0, &self.column, change)?;
        let key = text::show(&self.key.0);
        let mut object = json!({"key": key, "done": outcome != Outcome::NotApplied});
        let output = match (change, &outcome) {
            (Change::Increment(_), Outcome::Now(value))
                if let Ok(value) = <[u8; 8]>::try_from(&value[..]) =>
            {
                let value = i64::from_be_bytes(value);
                object["value"] = value.into();
                value.to_string()
            }
            (_, Outcome::Now(value)) => {
                object["value"] = text::show(value).into();
                text::show(value)
            }
            (_, Outcome::Long(bytes)) => {
                object["value_bytes"] = (*bytes).into();
                format!(
                    "done; the value now has {}, too many for a reply",
                    counted(bytes, "byte")
                )
            }
            (_, Outcome::Done) => "done".to_owned(),
            (_, Outcome::NotApplied) => "not written: the cell holds another value".to_owned(),
        };
        match as_json {
            true => say!("{object}"),
            false => say!("{key}: {output}"),
        }?;
        Ok(outcome)
    }
}

impl Append {
    /// Appends and prints the new value.
    ///
    /// # Errors
    /// See [`Client::change`].
    pub fn run(&self, as_json: bool) -> anyhow::Result<()> {
        let change = Change::Append(self.value.0.clone());
        self.cell.change(&change, as_json).map(|_| ())
    }
}

impl CheckAndPut {
    /// Compares the cell, and writes if it holds the expected value.
    ///
    /// # Errors
    /// See [`Client::change`]; the cell holds another value.
    pub fn run(&self, as_json: bool) -> anyhow::Result<()> {
        let change = Change::CheckAndPut {
            expected: self.expected.clone().map(|value| value.0),
            value: self.value.0.clone(),
        };
        match self.cell.change(&change, as_json)? {
            Outcome::NotApplied => bail!("nothing was written: the cell does not hold the expected value"),
            _ => Ok(()),
        }
    }
}

impl Switch {
    /// Turns the fast path on or off.
    ///
    /// # Errors
    /// See [`Client::switch`].
    pub fn run(&self, as_json: bool) -> anyhow::Result<()> {
        let off = self.to == FastPath::Off;
        self.server.client()?.switch(off)?;
        match as_json {
            true => say!("{}", json!({"fastpath": if off { "off" } else { "on" }})),
            false => say!("the fast path is {}", if off { "off" } else { "on" }),
        }?;
        Ok(())
    }
}

impl Put {
    /// Writes the cell.
    ///
    /// # Errors
    /// See [`Client::change`].
    pub fn run(&self, as_json: bool) -> anyhow::Result<()> {
        if self.paper {
            let mut client = self.cell.server.client()?;
            let (key, column) = (&self.cell.key.0, &self.cell.column);
            return paper::put(&mut client, key, column, &self.value.0, as_json);
        }
        self.cell
            .change(&Change::Put(self.value.0.clone(), None), as_json)
            .map(|_| ())
    }
}

impl Delete {
    /// Deletes the cell.
    ///
    /// # Errors
    /// See [`Client::change`].
    pub fn run(&self, as_json: bool) -> anyhow::Result<()> {
        self.cell.change(&Change::Delete, as_json).map(|_| ())
    }
}

impl Increment {
    /// Adds and prints the sum.
    ///
    /// # Errors
    /// See [`Client::change`].
    pub fn run(&self, as_json: bool) -> anyhow::Result<()> {
        self.cell.change(&Change::Increment(self.by), as_json).map(|_| ())
    }
}

impl Scan {
    /// Reads the range with as many requests as needed, and prints its rows.
    ///
    /// # Errors
    /// See [`Client::scan_all`]; a row does not fit a packet.
    pub fn run(&self, as_json: bool) -> anyhow::Result<()> {
        let bytes = |key: &Option<KeyText>| key.as_ref().map(|key| key.0.clone()).unwrap_or_default();
        if self.paper {
            let mut client = self.server.client()?;
            let (start, stop) = (bytes(&self.start), bytes(&self.stop));
            return paper::scan(&mut client, start, stop, &self.columns, self.limit, as_json);
        }
        let rows = Rows {
            start: bytes(&self.start),
            stop: bytes(&self.stop),
            stop_inclusive: self.stop_inclusive,
            limit: self.limit.unwrap_or_default(),
            reverse: self.reverse,
            ..Rows::default()
        };
        let mut client = self.server.client()?;
        let (mut written, mut too_long) = (Ok(()), 0);
        client.scan_all(&rows, &self.columns, |answer| {
            too_long += answer.left_out.len();
            written = self.show(&answer, as_json);
            match written {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        })?;
        written?;
        match too_long {
            0 => Ok(()),
            1 => bail!("1 of the rows is too long for a packet: ask for fewer columns (--column)"),
            _ => bail!("{too_long} of the rows are too long for a packet: ask for fewer columns (--column)"),
        }
    }

    /// Prints the rows of one reply, with a line for each row that was left out, in the order of their keys.
    fn show(&self, answer: &Answer, as_json: bool) -> Result<(), Unwritten> {
        let mut left_out = answer.left_out.iter().peekable();
        let mut rows_shown = 0;
        for row in answer.rows.chunk_by(|one, other| one.0 == other.0) {
            while let Some(before) = left_out.next_if(|one| one.rows_before <= rows_shown) {
                show_left_out(&self.columns, before, answer, as_json)?;
            }
            show_row(&self.columns, row, answer, as_json)?;
            rows_shown += row.len();
        }
        left_out.try_for_each(|one| show_left_out(&self.columns, one, answer, as_json))
    }
}

//! The verbs that ask a server.

use super::paper::{self, Shown};
use super::text;
use crate::out::Unwritten;
use anyhow::bail;
use clap::{Args, ValueEnum};
use lineside_column::client::{Client, Outcome};
use lineside_column::native::{Answer, LeftOut, Rows};
use lineside_column::table::{Change, ColumnName, ROW_BYTES_MAX};
use lineside_wire::{COLUMN_PORT, COLUMN_REPLY_MAY_BE_STALE, COLUMN_SOURCE_FASTPATH};
use serde_json::{Map, Value, json};
use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::ops::ControlFlow;
use std::time::Duration;

/// Who is asked, and how.
#[derive(Args)]
struct Server {
    /// Who is asked: an address or a name, and a port.
    #[arg(long, value_parser = server, default_value_t = SocketAddr::from((Ipv4Addr::LOCALHOST, COLUMN_PORT)))]
    server: SocketAddr,
    /// Milliseconds to wait for an answer.
    #[arg(long, default_value_t = 6000)]
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

/// The first address of a name, or the address.
fn server(text: &str) -> Result<SocketAddr, String> {
    let mut found = text.to_socket_addrs().map_err(|error| error.to_string())?;
    found.next().ok_or_else(|| "the name has no address".to_owned())
}

/// A key as it was given.
#[derive(Clone)]
struct KeyText(Vec<u8>);

fn key(text: &str) -> Result<KeyText, String> {
    match text::parse(text)? {
        bytes if bytes.is_empty() => Err("a key has a byte at least".into()),
        bytes if bytes.len() > ROW_BYTES_MAX => Err(format!("a key has at most {ROW_BYTES_MAX} bytes")),
        bytes => Ok(KeyText(bytes)),
    }
}

/// A value as it was given.
#[derive(Clone)]
struct ValueText(Vec<u8>);

fn value(text: &str) -> Result<ValueText, String> {
    text::parse(text).map(ValueText)
}

fn column(text: &str) -> Result<ColumnName, String> {
    ColumnName::new(text.as_bytes())
        .ok_or_else(|| "a column is family:qualifier, at most 32 bytes".to_owned())
}

/// Ask what a row's columns hold.
#[derive(Args)]
pub struct Get {
    #[command(flatten)]
    server: Server,
    /// The column, family:qualifier; may be given again.
    #[arg(long = "column", value_parser = column, default_value = "entry:foo")]
    columns: Vec<ColumnName>,
    /// Use the paper's format: keys to 4 bytes, one column's name to 9, values to 18.
    #[arg(long)]
    paper: bool,
    /// The rows' keys; \xNN is any byte.
    #[arg(required = true, value_parser = key)]
    keys: Vec<KeyText>,
}

/// Write one cell.
#[derive(Args)]
pub struct Put {
    #[command(flatten)]
    cell: Cell,
    /// Use the paper's format: for `trusted_sources`, and sent once; a key to 4 bytes, a name to 9, a value of 1 to 18.
    #[arg(long)]
    paper: bool,
    /// What it holds from now on; \xNN is any byte.
    #[arg(value_parser = value)]
    value: ValueText,
}

/// Empty one cell; it may be empty already.
#[derive(Args)]
pub struct Delete {
    #[command(flatten)]
    cell: Cell,
}

/// Add to a number of eight bytes, big-endian and signed; an empty cell is 0.
#[derive(Args)]
pub struct Increment {
    #[command(flatten)]
    cell: Cell,
    /// How much.
    #[arg(default_value_t = 1, allow_negative_numbers = true)]
    by: i64,
}

/// Append to one cell; an empty one has no bytes yet.
#[derive(Args)]
pub struct Append {
    #[command(flatten)]
    cell: Cell,
    /// What is appended; \xNN is any byte.
    #[arg(value_parser = value)]
    value: ValueText,
}

/// Write one cell if it holds what is expected; code 1 where it does not.
#[derive(Args)]
pub struct CheckAndPut {
    #[command(flatten)]
    cell: Cell,
    /// What it must hold; without it, it must be empty.
    #[arg(long, value_parser = value)]
    expected: Option<ValueText>,
    /// What it holds from then on; \xNN is any byte.
    #[arg(value_parser = value)]
    value: ValueText,
}

/// Turn the fast path off: it is empty at once, stays so, and every request goes to the table. Or on again.
#[derive(Args)]
pub struct Switch {
    #[command(flatten)]
    server: Server,
    /// What the fast path is from now on.
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
    /// The column, family:qualifier.
    #[arg(long, value_parser = column, default_value = "entry:foo")]
    column: ColumnName,
    /// The row's key; \xNN is any byte.
    #[arg(value_parser = key)]
    key: KeyText,
}

/// Show the rows of a range, in the order of their keys.
#[derive(Args)]
pub struct Scan {
    #[command(flatten)]
    server: Server,
    /// The column, family:qualifier; may be given again.
    #[arg(long = "column", value_parser = column, default_value = "entry:foo")]
    columns: Vec<ColumnName>,
    /// Where it begins; without it, at the table's first row (reversed: its last).
    #[arg(long, value_parser = key)]
    start: Option<KeyText>,
    /// Where it ends, itself left out; without it, at the table's end.
    #[arg(long, value_parser = key)]
    stop: Option<KeyText>,
    /// The row at --stop is wanted too.
    #[arg(long, requires = "stop")]
    stop_inclusive: bool,
    /// Rows at most.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    limit: Option<u16>,
    /// From the highest key down.
    #[arg(long)]
    reverse: bool,
    /// Use the paper's format, which means the row at --stop too: keys to 4 bytes, a name to 9, values to 18.
    #[arg(long, requires_all = ["start", "stop"], conflicts_with_all = ["reverse", "stop_inclusive"])]
    paper: bool,
}

/// Who answered, as it is shown.
fn source(answer: &Answer) -> &'static str {
    match answer.source {
        COLUMN_SOURCE_FASTPATH => "fastpath",
        _ => "host",
    }
}

fn may_be_stale(answer: &Answer) -> bool {
    answer.flags & COLUMN_REPLY_MAY_BE_STALE != 0
}

/// The cells of one row, by column.
fn cells(columns: &[ColumnName], row: &[(Vec<u8>, usize, Vec<u8>)]) -> Map<String, Value> {
    let cell = |(_, column, value): &(Vec<u8>, usize, Vec<u8>)| {
        let name = columns.get(*column).map(|name| text::show(name.as_bytes()));
        (name.unwrap_or_default(), text::show(value).into())
    };
    row.iter().map(cell).collect()
}

/// One row as a line: key, who answered, columns.
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
    let held: Vec<_> = (cells.iter())
        .map(|(name, value)| format!("{name} = {}", value.as_str().unwrap_or_default()))
        .collect();
    let stale = if stale { ", may be stale" } else { "" };
    say!("{key}: {} (from {source}{stale})", held.join(", "))
}

/// A row that fits no packet, as a line: key, who answered, and how long its longest value is.
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
        true => say!("{key}...: the key is too long, and those that begin so are left out (from {source})"),
        false => say!("{key}: too long for a packet: {name} has {bytes} bytes (from {source})"),
    }
}

impl Get {
    /// Asks for each key.
    ///
    /// # Errors
    /// See the client's; not found, or too long for a packet.
    pub fn run(&self, as_json: bool) -> anyhow::Result<()> {
        let mut client = self.server.client()?;
        let (mut missing, mut too_long) = (0, 0);
        for KeyText(key) in &self.keys {
            if self.paper {
                match paper::get(&mut client, key, &self.columns, as_json)? {
                    Shown::Whole => {}
                    Shown::Nothing => missing += 1,
                    Shown::TooLong => too_long += 1,
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
        let of = self.keys.len();
        match (missing, too_long) {
            (0, 0) => Ok(()),
            (0, _) => bail!("{too_long} of {of} too long for a packet: ask for fewer columns"),
            (_, 0) => bail!("{missing} of {of} not found"),
            _ => bail!("{missing} of {of} not found, {too_long} too long for a packet"),
        }
    }
}

impl Cell {
    fn change(&self, change: &Change, as_json: bool) -> anyhow::Result<Outcome> {
        let outcome = self.server.client()?.change(&self.key.0, &self.column, change)?;
        let key = text::show(&self.key.0);
        let mut object = json!({"key": key, "done": outcome != Outcome::NotApplied});
        let said = match (change, &outcome) {
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
                format!("done; it has {bytes} bytes, too long to be shown")
            }
            (_, Outcome::Done) => "done".to_owned(),
            (_, Outcome::NotApplied) => "it holds something else".to_owned(),
        };
        match as_json {
            true => say!("{object}"),
            false => say!("{key}: {said}"),
        }?;
        Ok(outcome)
    }
}

impl Append {
    /// Appends, and shows the whole.
    ///
    /// # Errors
    /// See the client's.
    pub fn run(&self, as_json: bool) -> anyhow::Result<()> {
        let change = Change::Append(self.value.0.clone());
        self.cell.change(&change, as_json).map(|_| ())
    }
}

impl CheckAndPut {
    /// Compares, and puts.
    ///
    /// # Errors
    /// See the client's; something else was there.
    pub fn run(&self, as_json: bool) -> anyhow::Result<()> {
        let change = Change::CheckAndPut {
            expected: self.expected.clone().map(|value| value.0),
            value: self.value.0.clone(),
        };
        match self.cell.change(&change, as_json)? {
            Outcome::NotApplied => bail!("nothing was written"),
            _ => Ok(()),
        }
    }
}

impl Switch {
    /// Turns it.
    ///
    /// # Errors
    /// See the client's.
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
    /// Puts.
    ///
    /// # Errors
    /// See the client's.
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
    /// Deletes.
    ///
    /// # Errors
    /// See the client's.
    pub fn run(&self, as_json: bool) -> anyhow::Result<()> {
        self.cell.change(&Change::Delete, as_json).map(|_| ())
    }
}

impl Increment {
    /// Adds, and shows the sum.
    ///
    /// # Errors
    /// See the client's.
    pub fn run(&self, as_json: bool) -> anyhow::Result<()> {
        self.cell.change(&Change::Increment(self.by), as_json).map(|_| ())
    }
}

impl Scan {
    /// Shows the rows, packet after packet.
    ///
    /// # Errors
    /// See the client's; some were too long for a packet.
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
        let (mut said, mut too_long) = (Ok(()), 0);
        client.scan_all(&rows, &self.columns, |answer| {
            too_long += answer.left_out.len();
            said = self.show(&answer, as_json);
            match said {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        })?;
        said?;
        match too_long {
            0 => Ok(()),
            _ => bail!("{too_long} of the rows are too long for a packet"),
        }
    }

    /// The rows of one answer, those that are left out in their places.
    fn show(&self, answer: &Answer, as_json: bool) -> Result<(), Unwritten> {
        let mut left_out = answer.left_out.iter().peekable();
        let mut shown = 0;
        for row in answer.rows.chunk_by(|one, other| one.0 == other.0) {
            while let Some(before) = left_out.next_if(|one| one.behind <= shown) {
                show_left_out(&self.columns, before, answer, as_json)?;
            }
            show_row(&self.columns, row, answer, as_json)?;
            shown += row.len();
        }
        left_out.try_for_each(|one| show_left_out(&self.columns, one, answer, as_json))
    }
}

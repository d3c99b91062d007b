//! Client verbs in the paper's packet format, whose replies do not say whether the fast path or the host answered.

use super::text;
use crate::out::Unwritten;
use crate::wrong::Wrong;
use anyhow::bail;
use lineside_client::column::Client;
use lineside_client::column::ColumnName;
use lineside_client::column::paper::{PaperAnswer, PaperRequest, rows_in};
use lineside_fastpath::PAYLOAD_BYTES_MAX;
use lineside_wire::{
    COLUMN_PAPER_KEY_BYTES, COLUMN_PAPER_NAME_BYTES, COLUMN_PAPER_VALUE_BYTES, ColumnCode as Code,
};
use serde_json::json;

/// Result of a get.
pub enum GetResult {
    /// The row was printed.
    Whole,
    /// The row does not exist.
    Nothing,
    /// The value is too long for the format.
    TooLong,
}

fn ask(client: &mut Client, request: &PaperRequest, rows: usize) -> anyhow::Result<PaperAnswer> {
    if request.to_bytes(rows).is_none() {
        let what = format!(
            "the key, column or value is too long for the paper's format, which has keys of up to \
             {COLUMN_PAPER_KEY_BYTES} bytes, column names of up to {COLUMN_PAPER_NAME_BYTES} bytes and values of up to \
             {COLUMN_PAPER_VALUE_BYTES} bytes; leave out --paper"
        );
        bail!(Wrong(what));
    }
    Ok(client.paper(request, rows)?)
}

/// Returns the column if there is exactly one; the format has room for one name.
fn one(columns: &[ColumnName]) -> anyhow::Result<&ColumnName> {
    match columns {
        [column] => Ok(column),
        _ => bail!(Wrong(
            "the paper's format has one column; give --column once, or leave out --paper".to_owned()
        )),
    }
}

/// Reads one row and prints it.
///
/// # Errors
/// See [`Client::paper`]; the key or the column name is too long for the format.
pub fn get(
    client: &mut Client,
    key: &[u8],
    columns: &[ColumnName],
    as_json: bool,
) -> anyhow::Result<GetResult> {
    let column = one(columns)?;
    let request = PaperRequest::Get(key.to_vec(), column.as_bytes().to_vec());
    let PaperAnswer::Get(answer) = ask(client, &request, 0)? else {
        bail!(
            "the server's reply does not answer this request: is the server a column server of this version?"
        );
    };
    Ok(match answer {
        Ok(Some(value)) => {
            show_row(column, key, &value, as_json)?;
            GetResult::Whole
        }
        Ok(None) => {
            let key = text::show(key);
            match as_json {
                true => say!("{}", json!({"key": key, "found": false})),
                false => say!("{key}: no such row"),
            }?;
            GetResult::Nothing
        }
        Err(()) => {
            let (key, name) = (text::show(key), text::show(column.as_bytes()));
            match as_json {
                true => say!(
                    "{}",
                    json!({"key": key, "found": true, "too_long": {"column": name}})
                ),
                false => {
                    say!("{key}: {name} has more than {COLUMN_PAPER_VALUE_BYTES} bytes; leave out --paper")
                }
            }?;
            GetResult::TooLong
        }
    })
}

fn show_row(column: &ColumnName, key: &[u8], value: &[u8], as_json: bool) -> Result<(), Unwritten> {
    let (key, name, value) = (text::show(key), text::show(column.as_bytes()), text::show(value));
    match as_json {
        true => say!("{}", json!({"key": key, "found": true, "cells": {name: value}})),
        false => say!("{key}: {name} = {value}"),
    }
}

/// Writes one cell; sends the request once.
///
/// # Errors
/// See [`Client::paper`]; the key, name or value is too long for the format, or the server refused the write.
pub fn put(
    client: &mut Client,
    key: &[u8],
    column: &ColumnName,
    value: &[u8],
    as_json: bool,
) -> anyhow::Result<()> {
    let request = PaperRequest::Put(key.to_vec(), column.as_bytes().to_vec(), value.to_vec());
    match ask(client, &request, 0)? {
        PaperAnswer::Put(Code::Done) => {
            let key = text::show(key);
            match as_json {
                true => say!("{}", json!({"key": key, "done": true})),
                false => say!("{key}: done"),
            }?;
            Ok(())
        }
        PaperAnswer::Put(code) => bail!("nothing was written: {}", code.meaning()),
        _ => bail!(
            "the server's reply does not answer this request: is the server a column server of this version?"
        ),
    }
}

/// Prints the rows of a range, the row at its end included, as far as they fit one packet.
///
/// # Errors
/// See [`Client::paper`]; a key or the column name is too long for the format, or the range has more rows.
pub fn scan(
    client: &mut Client,
    start: Vec<u8>,
    stop: Vec<u8>,
    columns: &[ColumnName],
    limit: Option<u16>,
    as_json: bool,
) -> anyhow::Result<()> {
    let column = one(columns)?;
    let fit = rows_in(PAYLOAD_BYTES_MAX);
    let room = limit.map_or(fit, |limit| fit.min(limit.into()));
    let request = PaperRequest::Scan(start, column.as_bytes().to_vec(), stop);
    let PaperAnswer::Scan(rows, more) = ask(client, &request, room)? else {
        bail!(
            "the server's reply does not answer this request: is the server a column server of this version?"
        );
    };
    for (key, value) in &rows {
        show_row(column, key, value, as_json)?;
    }
    match more && limit.is_none_or(|limit| rows.len() < usize::from(limit)) {
        true => bail!(
            "the range has more rows than these {}, or the next one is too long for the paper's format: go on with \
             --start at the next key, or leave out --paper",
            rows.len()
        ),
        false => Ok(()),
    }
}

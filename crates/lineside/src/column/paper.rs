//! The verbs in the paper's format, which has no word for who answered.

use super::text;
use crate::out::Unwritten;
use crate::wrong::Wrong;
use anyhow::bail;
use lineside_column::client::Client;
use lineside_column::paper::{PaperAnswer, PaperRequest, rows_in};
use lineside_column::table::ColumnName;
use lineside_fastpath::PAYLOAD_BYTES_MAX;
use lineside_wire::{
    COLUMN_PAPER_KEY_BYTES, COLUMN_PAPER_NAME_BYTES, COLUMN_PAPER_VALUE_BYTES, ColumnCode as Code,
};
use serde_json::json;

/// What became of a get.
pub enum Shown {
    /// It was shown.
    Whole,
    /// There is no such row.
    Nothing,
    /// The format cannot say it.
    TooLong,
}

fn ask(client: &mut Client, request: &PaperRequest, rows: usize) -> anyhow::Result<PaperAnswer> {
    if request.to_bytes(rows).is_none() {
        let what = format!(
            "the paper's format has keys to {COLUMN_PAPER_KEY_BYTES} bytes, names to {COLUMN_PAPER_NAME_BYTES} and \
             values to {COLUMN_PAPER_VALUE_BYTES}"
        );
        bail!(Wrong(what));
    }
    Ok(client.paper(request, rows)?)
}

/// The only one that the format can name.
fn one(columns: &[ColumnName]) -> anyhow::Result<&ColumnName> {
    match columns {
        [column] => Ok(column),
        _ => bail!(Wrong("the paper's format asks for one column".to_owned())),
    }
}

/// Asks for one row, and shows it.
///
/// # Errors
/// See the client's; something is too long for the format.
pub fn get(client: &mut Client, key: &[u8], columns: &[ColumnName], as_json: bool) -> anyhow::Result<Shown> {
    let column = one(columns)?;
    let request = PaperRequest::Get(key.to_vec(), column.as_bytes().to_vec());
    let PaperAnswer::Get(answer) = ask(client, &request, 0)? else {
        bail!("the answer is to something else");
    };
    Ok(match answer {
        Ok(Some(value)) => {
            show_row(column, key, &value, as_json)?;
            Shown::Whole
        }
        Ok(None) => {
            let key = text::show(key);
            match as_json {
                true => say!("{}", json!({"key": key, "found": false})),
                false => say!("{key}: no such row"),
            }?;
            Shown::Nothing
        }
        Err(()) => {
            let (key, name) = (text::show(key), text::show(column.as_bytes()));
            match as_json {
                true => say!(
                    "{}",
                    json!({"key": key, "found": true, "too_long": {"column": name}})
                ),
                false => say!("{key}: {name} has more than {COLUMN_PAPER_VALUE_BYTES} bytes"),
            }?;
            Shown::TooLong
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

/// Puts, once.
///
/// # Errors
/// See the client's; something is too long for the format, or the server's code.
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
        _ => bail!("the answer is to something else"),
    }
}

/// Shows the rows of a range, its stop row too, as many as fit one packet.
///
/// # Errors
/// See the client's; something is too long for the format; there are more rows.
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
        bail!("the answer is to something else");
    };
    for (key, value) in &rows {
        show_row(column, key, value, as_json)?;
    }
    match more && limit.is_none_or(|limit| rows.len() < usize::from(limit)) {
        true => bail!(
            "there are more rows, or one that the format cannot say, behind these {}",
            rows.len()
        ),
        false => Ok(()),
    }
}

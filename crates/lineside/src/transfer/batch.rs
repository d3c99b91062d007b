//! `lineside transfer batch`: sends operations that are written as lines of text.

use super::ask::{Server, meaning, numbered, outcome_json, parse_key};
use super::key::Sign;
use super::session;
use super::unknown::{Protection, advice_for_lines, advise, is_unknown};
use crate::out::counted;
use anyhow::{Context, bail};
use clap::Args;
use lineside_client::transfer::{
    AccountId, Executed, KeyId, create, freeze, issue, keyed, pending, post, transfer, unfreeze, void,
};
use lineside_wire::{Operation, TRANSFER_FLAG_KEYED, TRANSFER_FLAG_LINKED, TransferCode as Code};
use serde_json::json;
use std::io::Read;
use std::path::PathBuf;

/// Execute the operations in a file, one line each.
///
/// The words of a line are separated by spaces, or by commas as in CSV. Empty lines and lines that begin with # are
/// skipped. A file may have any length: its operations are sent in packets of up to 16, or 14 if they are signed, one
/// packet after the other. All lines are checked before the first packet is sent.
///
///   create ACCOUNT [AMOUNT [OWNER]]
///   issue ACCOUNT AMOUNT
///   transfer FROM TO AMOUNT
///   freeze ACCOUNT
///   unfreeze ACCOUNT
///   pending NAME FROM TO AMOUNT [SECONDS]   reserve an amount; it expires after SECONDS
///   post NAME FROM TO [AMOUNT]              transfer AMOUNT of what is reserved; without AMOUNT, or `all`: all of it
///   void NAME FROM TO                       release the reserved amount
///
/// A line that begins with `linked` is executed together with the next line: both or neither. A line that ends with
/// `key=KEY` has that idempotency key (a UUID, or 32 hex digits), so the file can be sent again after an interruption.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct Batch {
    #[command(flatten)]
    server: Server,
    /// Session file (`lineside transfer session open` creates one); without it, a session is opened for this file and
    /// closed again.
    #[arg(long, value_name = "FILE")]
    session: Option<PathBuf>,
    #[command(flatten)]
    sign: Sign,
    /// File with the operations; `-` reads standard input.
    file: PathBuf,
}

/// Maximum number of wrong lines that an error names.
const WRONG_LINES_MAX: usize = 20;

/// Operation of a line.
struct Line<'a> {
    /// Number of the line in the file, from 1.
    number: usize,
    text: &'a str,
    operation: Operation,
}

impl Batch {
    pub fn run(&self, as_json: bool) -> anyhow::Result<()> {
        let (bytes, name) = match self.file.to_str() {
            Some("-") => {
                let mut bytes = Vec::new();
                std::io::stdin().read_to_end(&mut bytes)?;
                (bytes, "standard input".to_owned())
            }
            _ => {
                let name = self.file.display().to_string();
                (std::fs::read(&self.file).with_context(|| name.clone())?, name)
            }
        };
        let text = decode(&bytes).with_context(|| name.clone())?;
        let lines = read_lines(text).with_context(|| name.clone())?;
        let mut client = self.server.client()?;
        client.sign_with(self.sign.signer()?);
        let packets = packets(&lines, client.operations_max()).with_context(|| name.clone())?;
        let operations = |packet: &[Line<'_>]| packet.iter().map(|line| line.operation).collect::<Vec<_>>();
        let all: Vec<Vec<Operation>> = packets.iter().map(|packet| operations(packet)).collect();
        let mut refused = 0;
        let mut executed = 0;
        session::execute_all(&mut client, self.session.as_deref(), &all, |index, outcome| {
            let packet = packets[index];
            executed += packet.len();
            refused += print(packet, outcome, as_json)?;
            Ok(())
        })
        .map_err(|error| {
            self.interrupted(error, &lines, executed, client.operations_max())
                .context(name.clone())
        })?;
        match refused {
            0 => Ok(()),
            _ => bail!("{refused} of {} refused", counted(lines.len(), "operation")),
        }
    }
}

impl Batch {
    /// Adds to an error the lines that it concerns: `executed` lines were answered before it.
    fn interrupted(
        &self,
        error: anyhow::Error,
        lines: &[Line<'_>],
        executed: usize,
        most: usize,
    ) -> anyhow::Error {
        let sent = packets(&lines[executed.min(lines.len())..], most).ok();
        let Some(packet) = sent.and_then(|packets| packets.first().copied()) else {
            return error;
        };
        let (first, last) = (packet[0].number, packet[packet.len() - 1].number);
        if !is_unknown(&error) {
            return match executed {
                0 => error,
                _ => error.context(format!("line {first}: the lines before it were answered")),
            };
        }
        let is_keyed = |line: &Line<'_>| line.operation.flags & TRANSFER_FLAG_KEYED != 0;
        let protection = match self.session {
            Some(_) => Protection::SessionFile,
            None if packet.iter().all(is_keyed) => Protection::Key(packet[0].operation.uuid),
            None => Protection::Unprotected,
        };
        let after = lines.get(executed + packet.len()).map(|line| line.number);
        let account = AccountId(packet[0].operation.source);
        let advice = advice_for_lines(protection, (first, last), after, account);
        advise(error, &advice).context(format!("the lines {first} to {last} may have been executed"))
    }
}

/// Prints the outcomes of a packet; returns how many of its operations were refused.
fn print(packet: &[Line<'_>], executed: &Executed, as_json: bool) -> anyhow::Result<usize> {
    let mut refused = 0;
    for (line, outcome) in packet.iter().zip(&executed.outcomes) {
        let (code, text) = (outcome.code, line.text);
        refused += usize::from(code != Code::Done);
        match (as_json, outcome.balance) {
            (true, _) => {
                let native = Some((outcome.number, executed.is_durable));
                let mut printed = outcome_json(code, outcome.balance, native);
                printed["operation"] = json!(text);
                printed["line"] = json!(line.number);
                say!("{printed}")?;
            }
            (false, Some(balance)) => {
                say!("{text}: done, balance {balance}{}", numbered(outcome.number))?;
            }
            (false, None) => say!(
                "line {}: {text}: refused ({}): {}",
                line.number,
                code.name(),
                meaning(code)
            )?,
        }
    }
    Ok(refused)
}

/// Returns the text of a file, without the byte order mark that some programs write at its beginning.
fn decode(bytes: &[u8]) -> anyhow::Result<&str> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    std::str::from_utf8(bytes).map_err(|error| {
        let before = &bytes[..error.valid_up_to()];
        let number = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        anyhow::anyhow!("line {number}: the line is not UTF-8; write the file in UTF-8")
    })
}

/// Parses all lines of a file. The error has a line of text for each wrong line, up to [`WRONG_LINES_MAX`].
fn read_lines(text: &str) -> anyhow::Result<Vec<Line<'_>>> {
    let (mut lines, mut wrong, mut more) = (Vec::new(), Vec::new(), 0);
    for (index, text) in text.lines().enumerate() {
        let (number, text) = (index + 1, text.trim());
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        match parse(text) {
            Ok(operation) => lines.push(Line {
                number,
                text,
                operation,
            }),
            Err(error) if wrong.len() < WRONG_LINES_MAX => {
                wrong.push(format!("line {number}: `{text}`: {error:#}"));
            }
            Err(_) => more += 1,
        }
    }
    let is_linked = |line: &&Line<'_>| line.operation.flags & TRANSFER_FLAG_LINKED != 0;
    // After a wrong line, the last correct one need not be the last of the file.
    if let Some(Line { number, text, .. }) = lines.last().filter(is_linked)
        && wrong.is_empty()
    {
        wrong.push(format!(
            "line {number}: `{text}`: no line follows, so this line is linked to none; remove `linked`"
        ));
    }
    match more {
        0 => {}
        1 => wrong.push("1 more line is wrong".into()),
        _ => wrong.push(format!("{more} more lines are wrong")),
    }
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\n"));
    }
    if lines.is_empty() {
        bail!("no operations; write one on each line, for example `transfer 1 2 30`");
    }
    Ok(lines)
}

/// Divides a line with commas into its cells, as in CSV. A cell in quotes may contain commas; `""` in it is a quote.
fn cells(line: &str) -> anyhow::Result<Vec<String>> {
    let mut cells = Vec::new();
    let mut rest = line;
    loop {
        let unquoted = rest.trim_start();
        let Some(mut quoted) = unquoted.strip_prefix('"') else {
            let (cell, others) = rest.split_once(',').unzip();
            cells.push(cell.unwrap_or(rest).trim().to_owned());
            match others {
                Some(others) => rest = others,
                None => return Ok(cells),
            }
            continue;
        };
        let mut cell = String::new();
        let after = loop {
            let (text, after) = quoted
                .split_once('"')
                .context("a quoted cell has no closing quote")?;
            cell.push_str(text);
            match after.strip_prefix('"') {
                Some(after) => {
                    cell.push('"');
                    quoted = after;
                }
                None => break after.trim_start(),
            }
        };
        cells.push(cell);
        match after.strip_prefix(',') {
            Some(others) => rest = others,
            None if after.is_empty() => return Ok(cells),
            None => bail!("{after}: a comma is missing after a quoted cell"),
        }
    }
}

/// Divides the lines into packets of at most `most` operations. Linked lines stay together.
fn packets<'a, 'b>(lines: &'a [Line<'b>], most: usize) -> anyhow::Result<Vec<&'a [Line<'b>]>> {
    let mut packets = Vec::new();
    let mut rest = lines;
    while !rest.is_empty() {
        let mut end = rest.len().min(most);
        let is_linked = |line: &Line<'_>| line.operation.flags & TRANSFER_FLAG_LINKED != 0;
        while end < rest.len() && end > 0 && is_linked(&rest[end - 1]) {
            end -= 1;
        }
        if end == 0 {
            bail!(
                "line {}: more than {most} linked lines do not fit into one packet; split the chain of linked lines",
                rest[0].number
            );
        }
        let (packet, others) = rest.split_at(end);
        packets.push(packet);
        rest = others;
    }
    Ok(packets)
}

/// Parses one line.
fn parse(line: &str) -> anyhow::Result<Operation> {
    let cells = match line.contains([',', '"']) {
        true => cells(line)?,
        false => line.split_whitespace().map(str::to_owned).collect(),
    };
    let mut words: Vec<&str> = cells.iter().map(String::as_str).collect();
    // A spreadsheet writes empty cells at the end of the lines that have fewer words than others.
    while words.last() == Some(&"") {
        words.pop();
    }
    let linked = words.first() == Some(&"linked");
    if linked {
        words.remove(0);
    }
    let key = words.last().and_then(|word| word.strip_prefix("key="));
    let key = key.map(parse_key).transpose().map_err(anyhow::Error::msg)?;
    if key.is_some() {
        words.pop();
    }
    let (verb, rest) = words.split_first().context("the line has no operation")?;
    let account = |at: usize| -> anyhow::Result<AccountId> {
        let word = rest.get(at).context("an account is missing")?;
        word.parse().map_err(|why| anyhow::anyhow!("{word}: {why}"))
    };
    let amount = |at: usize| -> anyhow::Result<u64> {
        let word = rest.get(at).context("an amount is missing")?;
        word.parse()
            .with_context(|| format!("{word}: an amount is a number from 0 to 18446744073709551615"))
    };
    let above_zero = |at: usize| -> anyhow::Result<u64> {
        match amount(at)? {
            0 => bail!("0: the amount must be at least 1"),
            amount => Ok(amount),
        }
    };
    let or_zero = |at: usize| if rest.len() > at { amount(at) } else { Ok(0) };
    let owner = rest.get(2).map(|word| word.parse::<KeyId>());
    let (mut operation, most) = match *verb {
        "create" => {
            let owner = owner.transpose().map_err(anyhow::Error::msg)?;
            (create(account(0)?, or_zero(1)?, owner), 3)
        }
        "issue" => (issue(account(0)?, above_zero(1)?), 2),
        "transfer" => (transfer(account(0)?, account(1)?, above_zero(2)?), 3),
        "freeze" => (freeze(account(0)?), 1),
        "unfreeze" => (unfreeze(account(0)?), 1),
        "pending" | "post" | "void" => {
            if key.is_some() {
                bail!("key=: a {verb} line has the name of its pending transfer as its key; leave out key=");
            }
            let (source, destination) = (account(1)?, account(2)?);
            let (mut name, text) = ([0; 16], rest[0].as_bytes());
            if text.len() > name.len() {
                bail!("{}: a name has at most 16 bytes", rest[0]);
            }
            name[..text.len()].copy_from_slice(text);
            match *verb {
                "pending" => {
                    let amount = above_zero(3)?;
                    let timeout_s = u32::try_from(or_zero(4)?)
                        .context("a pending transfer has at most 4294967295 seconds")?;
                    (pending(name, source, destination, amount, timeout_s), 5)
                }
                // On the wire, 0 means the whole reserved amount, so a written 0 must not be sent.
                "post" => {
                    let amount = match rest.get(3) {
                        None | Some(&"all") => 0,
                        Some(&"0") => bail!(
                            "0: write `all`, or no amount, to post all that is reserved; use void to release it"
                        ),
                        Some(_) => above_zero(3)?,
                    };
                    (post(name, source, destination, amount), 4)
                }
                _ => (void(name, source, destination), 3),
            }
        }
        _ => bail!(
            "{verb}: unknown operation; write create, issue, transfer, freeze, unfreeze, pending, post or void"
        ),
    };
    if rest.len() > most {
        bail!("{}: unexpected word after the operation", rest[most]);
    }
    if let Some(key) = key {
        operation = keyed(operation, key);
    }
    if linked {
        operation.flags |= TRANSFER_FLAG_LINKED;
    }
    Ok(operation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_parsed_as_operations_and_wrong_ones_are_refused() {
        let pending = parse("linked pending rent 1 2 30 60").unwrap();
        assert_eq!(
            (pending.flags, pending.contract.get(), pending.timeout_s.get()),
            (1, 1, 60)
        );
        assert_eq!(&pending.uuid[..5], b"rent\0");
        assert_eq!(parse("create 7").unwrap().amount.get(), 0);
        let keyed = parse("linked transfer 1 2 3 key=00000000-0000-0000-0000-0000000000ff").unwrap();
        assert_eq!((keyed.flags, keyed.uuid[15], keyed.amount.get()), (3, 0xff, 3));
        assert_eq!(
            parse("transfer, 1, 2, 3,,").unwrap(),
            parse("transfer 1 2 3").unwrap()
        );
        assert_eq!(
            parse(r#"transfer,"1", "2" ,"3""#).unwrap(),
            parse("transfer 1 2 3").unwrap()
        );
        assert_eq!(cells(r#""a,b","c""d",,e"#).unwrap(), ["a,b", "c\"d", "", "e"]);
        assert_eq!(parse("post a 1 2 all").unwrap(), parse("post a 1 2").unwrap());
        assert_eq!(parse("post a 1 2 7").unwrap().amount.get(), 7);
        let wrong = [
            "",
            "linked",
            "pay 1 2 3",
            "transfer 1 2",
            "create 1 2 3",
            "transfer 1 2 x",
            "transfer 1 2 3 4",
            "create",
            "issue 1 0",
            "transfer 1 2 0",
            "pending rent 1 2 0",
            "post,order1,6001,6002,0",
            "post order1 6001 6002 00",
            "transfer,\"1,2,3",
            "transfer,\"1\"x,2,3",
            "freeze 1 2",
            "post averyverylongname 1 2",
            "issue 1 -1",
            "void a 1",
            "issue 1 1 key=00000000000000000000000000000000",
            "issue 1 1 key=12",
            "void a 1 2 key=000000000000000000000000000000ff",
        ];
        for line in wrong {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn a_wrong_line_is_named_by_its_number() {
        let error = read_lines("# accounts\ncreate 1\n\ncreate x\n").err().unwrap();
        assert!(
            format!("{error:#}").starts_with("line 4: `create x`: x: "),
            "{error:#}"
        );
        let error = read_lines("create x\ncreate 1\npay 1 2 3\n")
            .err()
            .unwrap()
            .to_string();
        let numbers: Vec<_> = error
            .lines()
            .map(|line| line.split(':').next().unwrap())
            .collect();
        assert_eq!(numbers, ["line 1", "line 3"], "{error}");
        let error = read_lines(&"pay\n".repeat(25)).err().unwrap().to_string();
        assert_eq!(error.lines().count(), WRONG_LINES_MAX + 1);
        assert!(error.ends_with("5 more lines are wrong"), "{error}");
    }

    /// Regression test: the lines before a `linked` last line were executed before the server refused it.
    #[test]
    fn a_linked_last_line_is_refused_before_anything_is_sent() {
        let said = |text: &str| {
            read_lines(text)
                .err()
                .map_or(String::new(), |error| error.to_string())
        };
        let expected = "line 2: `linked transfer 1 2 1`: no line follows, so this line is linked to none; ";
        let text = "transfer 1 2 1\nlinked transfer 1 2 1\n# the end\n\n";
        assert!(said(text).starts_with(expected), "{}", said(text));
        assert_eq!(said("linked create 1\n\ncreate 2\n"), "");
        assert_eq!(said("linked create 1\npay\n").lines().count(), 1);
    }

    #[test]
    fn a_byte_order_mark_is_skipped_and_other_encodings_are_refused_with_the_line() {
        assert_eq!(decode(b"\xef\xbb\xbfcreate 1").unwrap(), "create 1");
        let error = decode(b"create 1\n# caf\xe9\n").unwrap_err().to_string();
        assert!(error.starts_with("line 2: "), "{error}");
    }

    #[test]
    fn packets_keep_linked_lines_together() {
        let sizes = |text: &str, most| {
            let lines = read_lines(text).unwrap();
            let packets = packets(&lines, most)?;
            anyhow::Ok(packets.iter().map(|packet| packet.len()).collect::<Vec<_>>())
        };
        assert_eq!(sizes(&"create 1\n".repeat(7), 3).unwrap(), [3, 3, 1]);
        let linked = "create 1\ncreate 2\nlinked create 3\ncreate 4\n";
        assert_eq!(sizes(linked, 3).unwrap(), [2, 2]);
        let error = sizes("linked create 1\nlinked create 2\ncreate 3\n", 2).unwrap_err();
        assert!(error.to_string().starts_with("line 1: "), "{error}");
    }
}

//! `lineside transfer batch`: sends operations that are written as lines of text.

use super::ask::{Server, numbered, outcome_json, parse_key};
use super::key::Sign;
use super::session;
use anyhow::{Context, bail};
use clap::Args;
use lineside_client::transfer::{
    AccountId, Executed, KeyId, create, freeze, issue, keyed, pending, post, transfer, unfreeze, void,
};
use lineside_wire::{Operation, TRANSFER_FLAG_LINKED, TransferCode as Code};
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
///   post NAME FROM TO [AMOUNT]              transfer the reserved amount, or a part of it
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

/// Operation of a line.
struct Line<'a> {
    /// Number of the line in the file, from 1.
    number: usize,
    text: &'a str,
    operation: Operation,
}

impl Batch {
    pub fn run(&self, as_json: bool) -> anyhow::Result<()> {
        let (text, name) = match self.file.to_str() {
            Some("-") => {
                let mut text = String::new();
                std::io::stdin().read_to_string(&mut text)?;
                (text, "standard input".to_owned())
            }
            _ => {
                let name = self.file.display().to_string();
                (
                    std::fs::read_to_string(&self.file).with_context(|| name.clone())?,
                    name,
                )
            }
        };
        let lines = read_lines(&text).with_context(|| name.clone())?;
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
        .with_context(|| match lines.get(executed) {
            Some(line) if executed > 0 => format!(
                "{name}, line {}: the lines before it were answered; this one may have been executed: send the file \
                 again from this line on, with the same session file, or with the keys of its lines",
                line.number
            ),
            _ => name.clone(),
        })?;
        match refused {
            0 => Ok(()),
            _ => bail!("{refused} of {} operations refused", lines.len()),
        }
    }
}

/// Prints the outcomes of a packet; returns how many of its operations were refused.
fn print(packet: &[Line<'_>], executed: &Executed, as_json: bool) -> anyhow::Result<usize> {
    let mut refused = 0;
    for (line, outcome) in packet.iter().zip(&executed.outcomes) {
        let (code, text) = (outcome.code, line.text);
        refused += usize::from(code != Code::Done);
        match (as_json, code) {
            (true, _) => {
                let native = Some((outcome.number, executed.is_durable));
                let mut printed = outcome_json(code, outcome.amount, native);
                printed["operation"] = json!(text);
                printed["line"] = json!(line.number);
                say!("{printed}")?;
            }
            (false, Code::Done) => say!(
                "{text}: done, balance {}{}",
                outcome.amount,
                numbered(outcome.number)
            )?,
            (false, code) => say!(
                "line {}: {text}: refused ({}): {}",
                line.number,
                code.name(),
                code.meaning()
            )?,
        }
    }
    Ok(refused)
}

/// Parses all lines of a file.
fn read_lines(text: &str) -> anyhow::Result<Vec<Line<'_>>> {
    let mut lines = Vec::new();
    for (index, text) in text.lines().enumerate() {
        let (number, text) = (index + 1, text.trim());
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let operation = parse(text).with_context(|| format!("line {number}: `{text}`"))?;
        lines.push(Line {
            number,
            text,
            operation,
        });
    }
    if lines.is_empty() {
        bail!("no operations; write one on each line, for example `transfer 1 2 30`");
    }
    Ok(lines)
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
    let mut words: Vec<&str> = match line.contains(',') {
        true => line.split(',').map(str::trim).collect(),
        false => line.split_whitespace().collect(),
    };
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
    let or_zero = |at: usize| if rest.len() > at { amount(at) } else { Ok(0) };
    let owner = rest.get(2).map(|word| word.parse::<KeyId>());
    let (mut operation, most) = match *verb {
        "create" => {
            let owner = owner.transpose().map_err(anyhow::Error::msg)?;
            (create(account(0)?, or_zero(1)?, owner), 3)
        }
        "issue" => (issue(account(0)?, amount(1)?), 2),
        "transfer" => (transfer(account(0)?, account(1)?, amount(2)?), 3),
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
                    let amount = amount(3)?;
                    let timeout_s = u32::try_from(or_zero(4)?)
                        .context("a pending transfer has at most 4294967295 seconds")?;
                    (pending(name, source, destination, amount, timeout_s), 5)
                }
                "post" => (post(name, source, destination, or_zero(3)?), 4),
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
        let wrong = [
            "",
            "linked",
            "pay 1 2 3",
            "transfer 1 2",
            "create 1 2 3",
            "transfer 1 2 x",
            "transfer 1 2 3 4",
            "create",
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

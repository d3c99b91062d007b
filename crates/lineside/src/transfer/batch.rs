//! `lineside transfer batch`: sends operations that are written as lines of text.

use super::ask::{Server, numbered, operation, placed};
use super::key::Sign;
use super::session;
use anyhow::{Context, bail};
use clap::Args;
use lineside_transfer::AccountId;
use lineside_transfer::signed::KeyId;
use lineside_wire::{
    Operation, TRANSFER_COMMAND_CREATE, TRANSFER_COMMAND_FREEZE, TRANSFER_COMMAND_ISSUE,
    TRANSFER_COMMAND_TRANSFER, TRANSFER_COMMAND_UNFREEZE, TRANSFER_CONTRACT_PENDING, TRANSFER_CONTRACT_POST,
    TRANSFER_CONTRACT_VOID, TRANSFER_FLAG_LINKED, TransferCode as Code,
};
use serde_json::json;
use std::io::Read;
use std::path::PathBuf;

/// Execute the operations in a file, one line each, as one packet.
///
/// A packet holds up to 16 operations, or 14 if it is signed. Empty lines and lines that begin with # are skipped.
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
/// A line that begins with `linked` is executed together with the next line: both or neither.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct Batch {
    #[command(flatten)]
    server: Server,
    /// Session file (`lineside transfer session open` creates one); without it, a session is opened for this packet and
    /// closed again.
    #[arg(long, value_name = "FILE")]
    session: Option<PathBuf>,
    #[command(flatten)]
    sign: Sign,
    /// File with the operations; `-` reads standard input.
    file: PathBuf,
}

impl Batch {
    pub fn run(&self, as_json: bool) -> anyhow::Result<()> {
        let text = match self.file.to_str() {
            Some("-") => {
                let mut text = String::new();
                std::io::stdin().read_to_string(&mut text)?;
                text
            }
            _ => std::fs::read_to_string(&self.file).with_context(|| self.file.display().to_string())?,
        };
        let lines: Vec<&str> = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .collect();
        let operations = lines
            .iter()
            .map(|line| parse(line).with_context(|| format!("`{line}`")))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let mut client = self.server.client()?;
        client.sign_with(self.sign.signer()?);
        let executed = session::execute(&mut client, self.session.as_deref(), &operations)?;
        for (line, outcome) in lines.iter().zip(&executed.outcomes) {
            let code = outcome.code;
            let (number, durable) = placed(code, Some((outcome.number, executed.is_durable))).unzip();
            match (as_json, code) {
                (true, _) => say!(
                    "{}",
                    json!({"operation": line, "code": code as u16, "meaning": code.meaning(),
                        "balance": outcome.amount, "number": number.flatten(), "durable": durable})
                )?,
                (false, Code::Done) => say!(
                    "{line}: done, balance {}{}",
                    outcome.amount,
                    numbered(outcome.number)
                )?,
                (false, code) => say!("{line}: refused ({}): {}", code as u16, code.meaning())?,
            }
        }
        let refused = executed
            .outcomes
            .iter()
            .filter(|outcome| outcome.code != Code::Done)
            .count();
        match refused {
            0 => Ok(()),
            _ => bail!("{refused} of {} operations refused", operations.len()),
        }
    }
}

/// Parses one line.
fn parse(line: &str) -> anyhow::Result<Operation> {
    let mut words: Vec<&str> = line.split_whitespace().collect();
    let linked = words.first() == Some(&"linked");
    if linked {
        words.remove(0);
    }
    let (verb, rest) = words.split_first().context("the line has no operation")?;
    let account = |at: usize| -> anyhow::Result<AccountId> {
        let word = rest.get(at).context("an account is missing")?;
        word.parse().map_err(anyhow::Error::msg)
    };
    let amount = |at: usize| -> anyhow::Result<u64> {
        let word = rest.get(at).context("an amount is missing")?;
        word.parse()
            .with_context(|| format!("{word}: an amount is a number from 0 to 18446744073709551615"))
    };
    let or_zero = |at: usize| if rest.len() > at { amount(at) } else { Ok(0) };
    let nobody = AccountId::default();
    let owner = |at: usize| match rest.get(at) {
        None => Ok(nobody),
        Some(word) => word
            .parse()
            .map(|KeyId(id)| AccountId(id))
            .map_err(anyhow::Error::msg),
    };
    let (mut operation, most) = match *verb {
        "create" => (
            operation(TRANSFER_COMMAND_CREATE, account(0)?, owner(2)?, or_zero(1)?),
            3,
        ),
        "issue" => (
            operation(TRANSFER_COMMAND_ISSUE, account(0)?, nobody, amount(1)?),
            2,
        ),
        "transfer" => (
            operation(TRANSFER_COMMAND_TRANSFER, account(0)?, account(1)?, amount(2)?),
            3,
        ),
        "freeze" => (operation(TRANSFER_COMMAND_FREEZE, account(0)?, nobody, 0), 1),
        "unfreeze" => (operation(TRANSFER_COMMAND_UNFREEZE, account(0)?, nobody, 0), 1),
        "pending" | "post" | "void" => {
            let (contract, amount, most) = match *verb {
                "pending" => (TRANSFER_CONTRACT_PENDING, amount(3)?, 5),
                "post" => (TRANSFER_CONTRACT_POST, or_zero(3)?, 4),
                _ => (TRANSFER_CONTRACT_VOID, 0, 3),
            };
            let mut pending = operation(TRANSFER_COMMAND_TRANSFER, account(1)?, account(2)?, amount);
            let name = rest[0].as_bytes();
            if name.len() > pending.uuid.len() {
                bail!("{}: a name has at most 16 bytes", rest[0]);
            }
            pending.uuid[..name.len()].copy_from_slice(name);
            pending.contract = contract.into();
            if *verb == "pending" {
                pending.timeout_s = u32::try_from(or_zero(4)?)
                    .context("a pending transfer has at most 4294967295 seconds")?
                    .into();
            }
            (pending, most)
        }
        _ => bail!(
            "{verb}: unknown operation; write create, issue, transfer, freeze, unfreeze, pending, post or void"
        ),
    };
    if rest.len() > most {
        bail!("{}: unexpected word after the operation", rest[most]);
    }
    if linked {
        operation.flags = TRANSFER_FLAG_LINKED;
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
        ];
        for line in wrong {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}

//! Client verbs of `lineside transfer` that send one operation, or read balances.

use super::key::Sign;
use super::session;
use super::unknown::{Protection, advice, advise};
use crate::out::counted;
use anyhow::{Context, bail};
use clap::Args;
use lineside_client::transfer::paper::PaperRequest;
use lineside_client::transfer::{
    AccountId, Client, Executed, KeyId, create, freeze, issue, keyed, new_idempotency_key, transfer, unfreeze,
};
use lineside_wire::{
    Operation, TRANSFER_COMMAND_ISSUE, TRANSFER_COMMAND_REFER, TRANSFER_COMMAND_TRANSFER, TRANSFER_PORT,
    TransferCode as Code,
};
use serde_json::json;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// Server that requests go to, and how long to wait for a reply.
#[derive(Args)]
pub struct Server {
    /// Address or name of the server, and its UDP port.
    #[arg(
        long,
        value_name = "ADDR:PORT",
        value_parser = crate::address::parse,
        default_value_t = SocketAddr::from((Ipv4Addr::LOCALHOST, TRANSFER_PORT))
    )]
    server: SocketAddr,
    /// Milliseconds to wait for a reply, up to 3600000 (one hour).
    #[arg(
        long,
        value_name = "MS",
        default_value_t = 3000,
        value_parser = clap::value_parser!(u64).range(1..=3_600_000)
    )]
    timeout_ms: u64,
}

impl Server {
    pub fn client(&self) -> anyhow::Result<Client> {
        Ok(Client::connect(
            self.server,
            Duration::from_millis(self.timeout_ms),
        )?)
    }
}

/// Options for sending an operation.
#[derive(Args)]
struct How {
    #[command(flatten)]
    server: Server,
    /// Session file (`lineside transfer session open` creates one); without it, a session is opened for this operation
    /// and closed again.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["paper", "id"])]
    session: Option<PathBuf>,
    /// Send the request in the paper's format: accounts and amounts below 2^32.
    #[arg(long, conflicts_with = "sign")]
    paper: bool,
    /// With --paper: transaction id, higher than the last one of the source account. A request that is repeated with
    /// the same id and arguments is executed once.
    #[arg(long, value_name = "ID", requires = "paper", default_value_t = 0)]
    id: u32,
    /// Idempotency key: a UUID, or 32 hex digits other than zeros. While the server remembers it, the same operation on
    /// the same account with this key is executed once: a repetition prints the outcome of the first one. Without this
    /// option and --session, `transfer` and `issue` draw a key, and an error names it if the outcome is unknown.
    #[arg(long, value_name = "KEY", conflicts_with = "paper", value_parser = parse_key)]
    idempotency_key: Option<[u8; 16]>,
    #[command(flatten)]
    sign: Sign,
}

/// Parses an idempotency key: 32 hex digits, which may be grouped by hyphens as in a UUID.
///
/// # Errors
/// The text has another form, or all digits are zero.
pub fn parse_key(text: &str) -> Result<[u8; 16], String> {
    let digits = text.replace('-', "");
    let key = lineside_util::hex::from_hex(&digits).and_then(|bytes| <[u8; 16]>::try_from(bytes).ok());
    key.filter(|key| *key != [0; 16]).ok_or_else(|| {
        format!("{text}: an idempotency key is a UUID, or 32 hex digits that are not all zero")
    })
}

/// Create an account.
#[derive(Args)]
pub struct Create {
    /// Account id: a number below 2^32, or 32 hex digits.
    account: AccountId,
    /// Opening balance.
    #[arg(default_value_t = 0)]
    amount: u64,
    /// Fingerprint of the owner's key, as `key show` prints it. If the server requires signatures, only this key can
    /// transfer from the account.
    #[arg(long, value_name = "FINGERPRINT", conflicts_with = "paper")]
    owner: Option<KeyId>,
    #[command(flatten)]
    how: How,
}

/// Issue new units of the asset to an account.
#[derive(Args)]
pub struct Issue {
    /// Account that receives the amount.
    account: AccountId,
    /// Amount to issue, at least 1.
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    amount: u64,
    #[command(flatten)]
    how: How,
}

/// Move an amount from one account to another.
#[derive(Args)]
pub struct Transfer {
    /// Account that sends the amount.
    source: AccountId,
    /// Account that receives the amount.
    destination: AccountId,
    /// Amount to transfer, at least 1.
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    amount: u64,
    #[command(flatten)]
    how: How,
}

/// Freeze or unfreeze an account.
#[derive(Args)]
pub struct Freeze {
    /// Account id: a number below 2^32, or 32 hex digits.
    account: AccountId,
    #[command(flatten)]
    how: How,
}

/// Print the balances of accounts.
#[derive(Args)]
pub struct Refer {
    #[command(flatten)]
    server: Server,
    /// Send the requests in the paper's format.
    #[arg(long)]
    paper: bool,
    /// Account ids: numbers below 2^32, or 32 hex digits each.
    #[arg(required = true)]
    accounts: Vec<AccountId>,
}

impl Create {
    pub fn run(self, as_json: bool) -> anyhow::Result<()> {
        self.how
            .send(create(self.account, self.amount, self.owner), as_json)
    }
}

impl Issue {
    pub fn run(self, as_json: bool) -> anyhow::Result<()> {
        self.how.send(issue(self.account, self.amount), as_json)
    }
}

impl Transfer {
    pub fn run(self, as_json: bool) -> anyhow::Result<()> {
        let operation = transfer(self.source, self.destination, self.amount);
        self.how.send(operation, as_json)
    }
}

impl Freeze {
    pub fn run(self, is_frozen: bool, as_json: bool) -> anyhow::Result<()> {
        let operation = match is_frozen {
            true => freeze(self.account),
            false => unfreeze(self.account),
        };
        self.how.send(operation, as_json)
    }
}

impl Refer {
    pub fn run(self, as_json: bool) -> anyhow::Result<()> {
        let mut client = self.server.client()?;
        let mut unknown = 0;
        for some in self.accounts.chunks(lineside_wire::TRANSFER_REFER_MAX) {
            let balances = match self.paper {
                true => some
                    .iter()
                    .map(|account| paper_balance(&mut client, *account))
                    .collect::<Result<_, _>>()?,
                false => client.refer(some)?,
            };
            for (account, balance) in some.iter().zip(balances) {
                unknown += usize::from(balance.is_none());
                let account = account.to_string();
                match (balance, as_json) {
                    (None, true) => say!("{}", json!({"account": account, "found": false}))?,
                    (None, false) => say!("{account}: no such account")?,
                    (Some(balance), true) => say!(
                        "{}",
                        json!({"account": account, "found": true, "balance": balance.balance,
                            "held": balance.held, "version": balance.version, "frozen": balance.frozen})
                    )?,
                    (Some(balance), false) => {
                        let reserved = if balance.held > 0 {
                            format!(", {} of it reserved for pending transfers", balance.held)
                        } else {
                            String::new()
                        };
                        let frozen = if balance.frozen { ", frozen" } else { "" };
                        say!("{account}: {}{reserved}{frozen}", balance.balance)?;
                    }
                }
            }
        }
        match unknown {
            0 => Ok(()),
            _ => bail!(
                "{unknown} of {} not found",
                counted(self.accounts.len(), "account")
            ),
        }
    }
}

fn paper_balance(
    client: &mut Client,
    account: AccountId,
) -> anyhow::Result<Option<lineside_client::transfer::Balance>> {
    let request = PaperRequest::new(TRANSFER_COMMAND_REFER, 0, paper_id(account)?, 0, 0);
    let answer = client.paper(&request)?;
    match answer.code {
        Code::Done => Ok(Some(lineside_client::transfer::Balance {
            balance: answer.balance.unwrap_or_default(),
            held: 0,
            version: 0,
            frozen: false,
        })),
        Code::UnknownAccount => Ok(None),
        code => bail!("{account}: {}", code.meaning()),
    }
}

fn paper_id(account: AccountId) -> anyhow::Result<u32> {
    u32::try_from(u128::from_be_bytes(account.0)).with_context(|| {
        format!("{account}: account ids in the paper's format are below 2^32; leave out --paper")
    })
}

impl How {
    /// Sends one operation and prints its result.
    fn send(&self, operation: Operation, as_json: bool) -> anyhow::Result<()> {
        let mut client = self.server.client()?;
        if self.paper {
            if operation.command > TRANSFER_COMMAND_REFER {
                bail!("the paper's format has no such command; leave out --paper");
            }
            let request = PaperRequest::new(
                operation.command,
                self.id,
                paper_id(AccountId(operation.source))?,
                paper_id(AccountId(operation.destination))?,
                u32::try_from(operation.amount.get())
                    .context("amounts in the paper's format are below 2^32; leave out --paper")?,
            );
            let answer = client.paper(&request)?;
            return print_outcome(answer.code, answer.balance, None, as_json);
        }
        client.sign_with(self.sign.signer()?);
        let protection = self.protection(&operation)?;
        let mut executed = self.execute(&mut client, operation, protection)?;
        let is_drawn = self.idempotency_key.is_none() && matches!(protection, Protection::Key(_));
        if is_drawn && executed.outcomes[0].code == Code::StoreFull {
            // The server cannot remember another key. It has executed nothing, so the operation can be sent without.
            executed = self.execute(&mut client, operation, Protection::Unprotected)?;
        }
        let outcome = executed.outcomes[0];
        print_outcome(
            outcome.code,
            outcome.balance,
            Some((outcome.number, executed.is_durable)),
            as_json,
        )
    }
}

impl How {
    /// Returns the protection of the operation against a second execution. Draws a key for an operation that has no
    /// other protection, so that the command can be repeated if its outcome is unknown.
    fn protection(&self, operation: &Operation) -> anyhow::Result<Protection> {
        let moves = [TRANSFER_COMMAND_ISSUE, TRANSFER_COMMAND_TRANSFER].contains(&operation.command);
        Ok(match (self.idempotency_key, &self.session) {
            (Some(key), _) => Protection::Key(key),
            (None, Some(_)) => Protection::SessionFile,
            (None, None) if moves => {
                Protection::Key(new_idempotency_key().context("cannot draw an idempotency key")?)
            }
            (None, None) => Protection::Repeatable,
        })
    }

    fn execute(
        &self,
        client: &mut Client,
        operation: Operation,
        protection: Protection,
    ) -> anyhow::Result<Executed> {
        let sent = match protection {
            Protection::Key(key) => keyed(operation, key),
            _ => operation,
        };
        // A session file demands the same packet, also if its operation has a key.
        let protection = match self.session {
            Some(_) => Protection::SessionFile,
            None => protection,
        };
        session::execute(client, self.session.as_deref(), &[sent])
            .map_err(|error| advise(error, &advice(protection, AccountId(operation.source))))
    }
}

fn print_outcome(
    code: Code,
    balance: Option<u64>,
    native: Option<(u64, bool)>,
    as_json: bool,
) -> anyhow::Result<()> {
    if as_json {
        say!("{}", outcome_json(code, balance, native))?;
    }
    let Some(balance) = balance else {
        bail!("refused ({}): {}", code.name(), meaning(code));
    };
    if !as_json {
        let number = native.map_or(String::new(), |(number, is_durable)| {
            let durable = if is_durable { "durable" } else { "express" };
            format!("{}, {durable}", numbered(number))
        });
        say!("done: balance {balance}{number}")?;
    }
    Ok(())
}

/// Returns the meaning of an operation's code, with all causes of the codes that have several.
pub fn meaning(code: Code) -> &'static str {
    match code {
        Code::Overflow => {
            "a balance, including pending transfers to it, would exceed its format, or a post exceeds its reserve"
        }
        Code::StoreFull => "the limit of accounts, pending transfers or idempotency keys is reached",
        code => code.meaning(),
    }
}

/// Returns an outcome in JSON. A refusal has no balance, number or durability.
pub fn outcome_json(code: Code, balance: Option<u64>, native: Option<(u64, bool)>) -> serde_json::Value {
    let (number, durable) = placed(code, native).unzip();
    json!({"result": code.name(), "code": code as u16, "meaning": meaning(code),
        "balance": balance, "number": number.flatten(), "durable": durable})
}

/// Returns the number of an operation in the ledger, if it has one already, and whether it is durable; `None` for an
/// operation that was refused, which is in no ledger.
fn placed(code: Code, native: Option<(u64, bool)>) -> Option<(Option<u64>, bool)> {
    let (number, is_durable) = native.filter(|_| code == Code::Done)?;
    Some(((number > 0).then_some(number), is_durable))
}

/// Returns the text of an operation's number in the ledger; empty for 0, because an operation that the fast path
/// executed gets its number later.
pub fn numbered(number: u64) -> String {
    match number {
        0 => String::new(),
        number => format!(", operation {number}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_with_several_causes_names_all_of_them() {
        assert!(meaning(Code::StoreFull).contains("idempotency keys"));
        assert!(meaning(Code::Overflow).contains("post exceeds"));
        assert_eq!(meaning(Code::Frozen), Code::Frozen.meaning());
    }
}

//! The verbs that ask a server.

use super::key::Sign;
use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use lineside_transfer::AccountId;
use lineside_transfer::client::{Client, Executed, Session};
use lineside_transfer::paper::PaperRequest;
use lineside_transfer::signed::KeyId;
use lineside_wire::{
    Operation, TRANSFER_COMMAND_CREATE, TRANSFER_COMMAND_FREEZE, TRANSFER_COMMAND_ISSUE,
    TRANSFER_COMMAND_REFER, TRANSFER_COMMAND_TRANSFER, TRANSFER_COMMAND_UNFREEZE, TRANSFER_PORT,
    TransferCode as Code,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use zerocopy::{FromZeros, IntoBytes};

/// Who is asked, and how.
#[derive(Args)]
pub struct Server {
    /// Who is asked.
    #[arg(long, default_value_t = SocketAddr::from((Ipv4Addr::LOCALHOST, TRANSFER_PORT)))]
    server: SocketAddr,
    /// Milliseconds to wait for an answer.
    #[arg(long, default_value_t = 3000)]
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

/// How an operation is sent.
#[derive(Args)]
struct How {
    #[command(flatten)]
    server: Server,
    /// The session to use; without one, a session is opened for this alone.
    #[arg(long, conflicts_with_all = ["paper", "id"])]
    session: Option<PathBuf>,
    /// Use the paper's format: accounts and amounts below 2^32.
    #[arg(long, conflicts_with = "sign")]
    paper: bool,
    /// With --paper: the transaction id, above the source's last one; repeated with the same words it is done once.
    #[arg(long, requires = "paper", default_value_t = 0)]
    id: u32,
    #[command(flatten)]
    sign: Sign,
}

/// Make an account.
#[derive(Args)]
pub struct Create {
    /// A number below 2^32, or 32 hex digits.
    account: AccountId,
    /// What it opens with.
    #[arg(default_value_t = 0)]
    amount: u64,
    /// The fingerprint of its owner's key: where signatures are required, only its signature moves what it holds.
    #[arg(long, conflicts_with = "paper")]
    owner: Option<KeyId>,
    #[command(flatten)]
    how: How,
}

/// Bring money in.
#[derive(Args)]
pub struct Issue {
    /// Who gets it.
    account: AccountId,
    /// How much.
    amount: u64,
    #[command(flatten)]
    how: How,
}

/// Move money.
#[derive(Args)]
pub struct Transfer {
    /// Who gives.
    source: AccountId,
    /// Who gets.
    destination: AccountId,
    /// How much.
    amount: u64,
    #[command(flatten)]
    how: How,
}

/// Stop or let go again all that an account gives and gets.
#[derive(Args)]
pub struct Freeze {
    /// A number below 2^32, or 32 hex digits.
    account: AccountId,
    #[command(flatten)]
    how: How,
}

/// Ask what accounts hold.
#[derive(Args)]
pub struct Refer {
    #[command(flatten)]
    server: Server,
    /// Use the paper's format.
    #[arg(long)]
    paper: bool,
    /// Numbers below 2^32, or 32 hex digits each.
    #[arg(required = true)]
    accounts: Vec<AccountId>,
}

/// What can be done with a session.
#[derive(Subcommand)]
pub enum SessionVerb {
    /// Open one and keep it in a file, which must not be there yet.
    Open(SessionFile),
    /// Say where it stands.
    Show(SessionFile),
    /// Close it and remove the file.
    Close(SessionFile),
}

/// A session's file.
#[derive(Args)]
pub struct SessionFile {
    #[command(flatten)]
    server: Server,
    /// The file: who can read it can move money with it.
    file: PathBuf,
}

/// A session as its file has it. `unanswered` is the packet that may have been sent and has no answer yet: it goes
/// first, with the same words, before anything else does.
#[derive(Serialize, Deserialize)]
pub struct Kept {
    slot: u32,
    token: u64,
    next: u64,
    unanswered: Option<Vec<String>>,
}

impl Kept {
    pub fn read(file: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(file)
            .with_context(|| format!("{}: `lineside transfer session open` makes it", file.display()))?;
        serde_json::from_str(&text).with_context(|| format!("{} is no session", file.display()))
    }

    fn write(&self, file: &Path) -> anyhow::Result<()> {
        let new = file.with_extension("new");
        let mut out = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&new)?;
        out.write_all(serde_json::to_string(self)?.as_bytes())?;
        out.sync_all()?;
        fs::rename(&new, file)?;
        Ok(())
    }

    fn session(&self) -> Session {
        Session {
            slot: self.slot,
            token: self.token,
            next: self.next,
        }
    }

    /// Executes `operations` (told as `words`) as the next packet. What an earlier call left unanswered must be the
    /// same: it is then the same packet, and done once.
    pub fn execute(
        &mut self,
        file: &Path,
        client: &mut Client,
        words: Vec<String>,
        operations: &[Operation],
    ) -> anyhow::Result<Executed> {
        if let Some(before) = &self.unanswered
            && *before != words
        {
            bail!(
                "{}: `{}` was sent and has no answer yet; send the same again first",
                file.display(),
                before.join("; ")
            );
        }
        self.unanswered = Some(words);
        self.write(file)?;
        let mut session = self.session();
        let executed = client.execute(&mut session, operations)?;
        self.next = session.next;
        self.unanswered = None;
        self.write(file)?;
        Ok(executed)
    }
}

impl SessionVerb {
    pub fn run(&self, as_json: bool) -> anyhow::Result<()> {
        let (Self::Open(arguments) | Self::Show(arguments) | Self::Close(arguments)) = self;
        let mut client = arguments.server.client()?;
        let file = &arguments.file;
        let session = match self {
            Self::Open(_) => {
                if file.exists() {
                    bail!("{} is there already", file.display());
                }
                let session = client.open()?;
                let kept = Kept {
                    slot: session.slot,
                    token: session.token,
                    next: session.next,
                    unanswered: None,
                };
                kept.write(file)?;
                session
            }
            Self::Show(_) => {
                let mut session = Kept::read(file)?.session();
                session.next = client.next_sequence(&session)?;
                session
            }
            Self::Close(_) => {
                let session = Kept::read(file)?.session();
                client.close(&session)?;
                fs::remove_file(file)?;
                session
            }
        };
        match as_json {
            true => say!("{}", json!({"slot": session.slot, "next": session.next}))?,
            false => say!("session {}, next sequence {}", session.slot, session.next)?,
        }
        Ok(())
    }
}

impl Create {
    pub fn run(self, as_json: bool) -> anyhow::Result<()> {
        let operation = operation(
            TRANSFER_COMMAND_CREATE,
            self.account,
            self.owner
                .map_or(AccountId::default(), |owner| AccountId(owner.0)),
            self.amount,
        );
        self.how.send(operation, as_json)
    }
}

impl Issue {
    pub fn run(self, as_json: bool) -> anyhow::Result<()> {
        let operation = operation(
            TRANSFER_COMMAND_ISSUE,
            self.account,
            AccountId::default(),
            self.amount,
        );
        self.how.send(operation, as_json)
    }
}

impl Transfer {
    pub fn run(self, as_json: bool) -> anyhow::Result<()> {
        let operation = operation(
            TRANSFER_COMMAND_TRANSFER,
            self.source,
            self.destination,
            self.amount,
        );
        self.how.send(operation, as_json)
    }
}

impl Freeze {
    pub fn run(self, is_frozen: bool, as_json: bool) -> anyhow::Result<()> {
        let command = if is_frozen {
            TRANSFER_COMMAND_FREEZE
        } else {
            TRANSFER_COMMAND_UNFREEZE
        };
        let operation = operation(command, self.account, AccountId::default(), 0);
        self.how.send(operation, as_json)
    }
}

impl Refer {
    pub fn run(self, as_json: bool) -> anyhow::Result<()> {
        let mut client = self.server.client()?;
        let mut unknown = 0;
        for some in self.accounts.chunks(lineside_wire::TRANSFER_REFER_MAX) {
            let found = match self.paper {
                true => some
                    .iter()
                    .map(|account| paper_balance(&mut client, *account))
                    .collect::<Result<_, _>>()?,
                false => client.refer(some)?,
            };
            for (account, balance) in some.iter().zip(found) {
                unknown += usize::from(balance.is_none());
                let account = account.to_string();
                match (balance, as_json) {
                    (None, true) => say!("{}", json!({"account": account, "found": false}))?,
                    (None, false) => say!("{account}: no such account")?,
                    (Some(found), true) => say!(
                        "{}",
                        json!({"account": account, "found": true, "balance": found.balance, "held": found.held,
                            "version": found.version, "frozen": found.frozen})
                    )?,
                    (Some(found), false) => {
                        let held = if found.held > 0 {
                            format!(", {} of it set aside", found.held)
                        } else {
                            String::new()
                        };
                        let frozen = if found.frozen { ", frozen" } else { "" };
                        say!("{account}: {}{held}{frozen}", found.balance)?;
                    }
                }
            }
        }
        match unknown {
            0 => Ok(()),
            _ => bail!("{unknown} of {} not found", self.accounts.len()),
        }
    }
}

fn paper_balance(
    client: &mut Client,
    account: AccountId,
) -> anyhow::Result<Option<lineside_transfer::client::Balance>> {
    let request = PaperRequest::new(TRANSFER_COMMAND_REFER, 0, paper_id(account)?, 0, 0);
    let answer = client.paper(&request)?;
    match answer.code {
        Code::Done => Ok(Some(lineside_transfer::client::Balance {
            balance: answer.amount.into(),
            held: 0,
            version: 0,
            frozen: false,
        })),
        Code::UnknownAccount => Ok(None),
        code => bail!("{account}: {}", code.meaning()),
    }
}

/// An operation with nothing but what every one has.
pub fn operation(command: u8, source: AccountId, destination: AccountId, amount: u64) -> Operation {
    let mut operation = Operation::new_zeroed();
    operation.command = command;
    operation.source = source.0;
    operation.destination = destination.0;
    operation.amount = amount.into();
    operation
}

fn paper_id(account: AccountId) -> anyhow::Result<u32> {
    u32::try_from(u128::from_be_bytes(account.0))
        .with_context(|| format!("{account}: the paper's accounts are below 2^32"))
}

impl How {
    /// Sends one operation and says what became of it.
    fn send(&self, operation: Operation, as_json: bool) -> anyhow::Result<()> {
        let mut client = self.server.client()?;
        if self.paper {
            if operation.command > TRANSFER_COMMAND_REFER {
                bail!("the paper's format has no such command");
            }
            let request = PaperRequest::new(
                operation.command,
                self.id,
                paper_id(AccountId(operation.source))?,
                paper_id(AccountId(operation.destination))?,
                u32::try_from(operation.amount.get()).context("the paper's amounts are below 2^32")?,
            );
            let answer = client.paper(&request)?;
            return say(answer.code, answer.amount.into(), None, as_json);
        }
        client.sign_with(self.sign.signer()?);
        let operations = [operation];
        let executed = match &self.session {
            Some(file) => {
                Kept::read(file)?.execute(file, &mut client, vec![words(&operation)], &operations)?
            }
            None => {
                let mut session = client.open()?;
                let executed = client.execute(&mut session, &operations)?;
                client.close(&session)?;
                executed
            }
        };
        let outcome = executed.outcomes[0];
        say(
            outcome.code,
            outcome.amount,
            Some((outcome.number, executed.is_durable)),
            as_json,
        )
    }
}

/// What is kept of an operation to know it again.
pub fn words(operation: &Operation) -> String {
    crate::hex::to_hex(operation.as_bytes())
}

fn say(code: Code, amount: u64, native: Option<(u64, bool)>, as_json: bool) -> anyhow::Result<()> {
    if as_json {
        let (number, durable) = native.unzip();
        say!(
            "{}",
            json!({"code": code as u16, "meaning": code.meaning(), "balance": amount, "number": number,
                "durable": durable})
        )?;
    }
    if code != Code::Done {
        bail!("refused ({}): {}", code as u16, code.meaning());
    }
    if !as_json {
        let number = native.map_or(String::new(), |(number, is_durable)| {
            let durable = if is_durable { "durable" } else { "express" };
            format!(", operation {number}, {durable}")
        });
        say!("done: balance {amount}{number}")?;
    }
    Ok(())
}

//! `lineside transfer sessions list` and `close`: the open sessions of a ledger, for its operator.
//!
//! Both read the ledger's directory, which only the operator can read. If no server runs, `close` closes a session by a
//! record in the journal; otherwise it asks the server to close it, with the session's token.

use super::ask::Server;
use super::server_key::read_key;
use crate::out::counted;
use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use lineside_client::transfer::Session as Named;
use lineside_journal::{Error as JournalError, FsDisk, Options};
use lineside_transfer::host;
use lineside_transfer::ledger::{Ledger, Session};
use lineside_transfer::server::KIND;
use serde_json::json;
use std::net::{IpAddr, Ipv6Addr};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds in a day.
const DAY_S: u64 = 86_400;

/// Subcommands of `lineside transfer sessions`.
#[derive(Subcommand)]
pub enum SessionsVerb {
    /// List the open sessions: number, address that opened it, packets, and seconds since the last packet.
    ///
    /// The server may be running.
    List(List),
    /// Close sessions, by number, address or idle time.
    ///
    /// Writes to the journal if no server runs, and otherwise asks the server. A packet of a closed session is refused
    /// as `no such session` and never executed.
    Close(Close),
}

#[derive(Args)]
pub struct List {
    /// Data directory of the ledger.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// List only sessions without a packet for at least this number of days.
    #[arg(long, value_name = "DAYS")]
    idle_days: Option<u64>,
}

#[derive(Args)]
pub struct Close {
    #[command(flatten)]
    server: Server,
    /// Data directory of the ledger.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Numbers of the sessions to close, as `list` shows them.
    #[arg(value_name = "SLOT")]
    slots: Vec<u32>,
    /// Close only sessions that this IP address opened.
    #[arg(long, value_name = "ADDR")]
    address: Option<IpAddr>,
    /// Close only sessions without a packet for at least this number of days.
    #[arg(long, value_name = "DAYS")]
    idle_days: Option<u64>,
}

impl SessionsVerb {
    /// Runs the given subcommand.
    ///
    /// # Errors
    /// The ledger cannot be read or written, the server does not answer, or no session matches a given number.
    pub fn run(&self, as_json: bool) -> anyhow::Result<()> {
        match self {
            Self::List(arguments) => arguments.run(as_json),
            Self::Close(arguments) => arguments.run(as_json),
        }
    }
}

fn now_s() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

fn read(disk: &FsDisk) -> anyhow::Result<Ledger> {
    let shown = || disk.path().display().to_string();
    host::open_read_only(disk, read_key(disk.path())?).with_context(shown)
}

fn opener(session: &Session) -> IpAddr {
    Ipv6Addr::from(session.opener).to_canonical()
}

fn is_idle(session: &Session, days: Option<u64>) -> bool {
    days.is_none_or(|days| session.last_s.saturating_add(days.saturating_mul(DAY_S)) <= now_s())
}

impl List {
    fn run(&self, as_json: bool) -> anyhow::Result<()> {
        let disk = FsDisk::look_at(&self.data, &KIND).with_context(|| self.data.display().to_string())?;
        let ledger = read(&disk)?;
        let most = ledger.limits().sessions;
        for (slot, session) in ledger.sessions() {
            if !is_idle(session, self.idle_days) {
                continue;
            }
            let (opener, idle_s) = (opener(session), now_s().saturating_sub(session.last_s));
            let packets = session.sequence;
            if as_json {
                let opener = opener.to_string();
                say!(
                    "{}",
                    json!({"slot": slot, "opener": opener, "packets": packets, "idle_s": idle_s})
                )?;
            } else {
                let packets = counted(packets, "packet");
                say!("session {slot} of {opener}: {packets}, the last {idle_s} s ago")?;
            }
        }
        if !as_json {
            say!("open: {} of {}", ledger.session_count(), counted(most, "session"))?;
        }
        Ok(())
    }
}

impl Close {
    fn run(&self, as_json: bool) -> anyhow::Result<()> {
        if self.slots.is_empty() && self.address.is_none() && self.idle_days.is_none() {
            bail!("no sessions selected: give their numbers, --address or --idle-days");
        }
        // Opening would create a missing directory.
        let read_only_disk =
            FsDisk::look_at(&self.data, &KIND).with_context(|| self.data.display().to_string())?;
        let closed = match FsDisk::open(&self.data) {
            Ok(disk) => self.by_journal(disk)?,
            Err(JournalError::Locked { .. }) => self.by_server(&read_only_disk)?,
            Err(error) => return Err(error).with_context(|| self.data.display().to_string()),
        };
        match as_json {
            true => say!("{}", json!({"closed": closed}))?,
            false => say!("{} closed", counted(closed.len(), "session"))?,
        }
        Ok(())
    }

    /// Returns the selected sessions, with their tokens.
    fn meant(&self, ledger: &Ledger) -> anyhow::Result<Vec<(u32, u64)>> {
        if let Some(slot) = self.slots.iter().find(|slot| ledger.session(**slot).is_none()) {
            bail!("there is no session {slot}; `lineside transfer sessions list` shows the open sessions");
        }
        let is_meant = |slot: u32, session: &Session| {
            (self.slots.is_empty() || self.slots.contains(&slot))
                && self
                    .address
                    .is_none_or(|address| opener(session) == address.to_canonical())
                && is_idle(session, self.idle_days)
        };
        let meant = ledger
            .sessions()
            .filter(|(slot, session)| is_meant(*slot, session));
        Ok(meant.map(|(slot, session)| (slot, session.token)).collect())
    }

    fn by_journal(&self, disk: FsDisk) -> anyhow::Result<Vec<u32>> {
        if disk.path().join("fastpath").exists() {
            bail!(
                "the fast path of a killed server may still execute packets of these sessions: start the server, then \
                 close them"
            );
        }
        let meant = self.meant(&read(&disk)?)?;
        let slots: Vec<u32> = meant.into_iter().map(|(slot, _)| slot).collect();
        host::close_sessions(disk, Options::default(), &slots)?;
        Ok(slots)
    }

    fn by_server(&self, disk: &FsDisk) -> anyhow::Result<Vec<u32>> {
        let meant = self.meant(&read(disk)?)?;
        let mut client = self.server.client()?;
        let mut closed = Vec::new();
        for (slot, token) in meant {
            let session = Named::new(slot, token, 0);
            let is_closed = client
                .close(&session)
                .with_context(|| format!("cannot close session {slot}"))?;
            if !is_closed {
                bail!("cannot close session {slot}: the server does not have this session");
            }
            closed.push(slot);
        }
        Ok(closed)
    }
}

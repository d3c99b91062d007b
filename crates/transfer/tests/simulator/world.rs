//! One run: clients, a network, the host over its disk, and the oracle that judges what the host says.

use super::clients::Client;
use super::network::{Datagram, Network};
use super::requests::{self, PAPER_ACCOUNTS};
use super::rng::Rng;
use crate::oracle::{Oracle, Said, is_no_room};
use k256::ecdsa::SigningKey;
use lineside_journal::{Op, Options, SimDisk};
use lineside_near::{Asked, Near, Reply, Source, Verdict};
use lineside_transfer::AccountId;
use lineside_transfer::host::{Host, OpenError, SealPolicy, SessionPolicy, Setup, audit, prove};
use lineside_transfer::ledger::Limits;
use lineside_transfer::near::TransferNear;
use lineside_transfer::store::{Geometry, Store};
use lineside_transfer::writer::StoreWriter;
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// What failed, for whoever reads it.
pub type Checked = Result<(), String>;

const LIMITS: Limits = Limits {
    accounts: 16,
    sessions: 64,
};
const SESSIONS_PER_SOURCE: usize = 48;
/// Requests that the thief may have seen.
const SEEN: usize = 64;

/// The beginning of a packet.
fn hex(bytes: &[u8]) -> String {
    let begin: String = bytes.iter().take(64).map(|byte| format!("{byte:02x}")).collect();
    format!("{begin} ({} bytes)", bytes.len())
}

/// The last things that happened.
#[derive(Debug, Default)]
pub struct Events {
    last: VecDeque<String>,
    /// Of everything: the same for the same seed.
    pub digest: u64,
}

impl Events {
    pub fn note(&mut self, event: String) {
        for byte in event.bytes() {
            self.digest = (self.digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        if self.last.len() == 50 {
            self.last.pop_front();
        }
        self.last.push_back(event);
    }

    pub fn print(&self) {
        self.last.iter().for_each(|event| eprintln!("  {event}"));
    }
}

/// What a run came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub groups: u64,
    pub operations: u64,
    pub answered: u64,
    pub restarts: u64,
    /// Restarts after which a group that nobody was told of was there, and was not.
    pub kept: u64,
    pub lost: u64,
    pub snapshots: u64,
    pub full: u64,
    pub near_checks: u64,
    pub blocks: u64,
}

pub fn key() -> SigningKey {
    SigningKey::from_slice(&[7; 32]).unwrap()
}

pub fn options() -> Options {
    Options {
        segment_bytes: 16 << 10,
        record_bytes_max: 4 << 10,
        group_bytes_max: 6 << 10,
    }
}

/// A host, and near over what it shows.
pub struct Server {
    pub host: Host<SimDisk>,
    pub near: TransferNear,
}

/// Near has four cells for each of 2^`account_bits` accounts.
pub fn start(
    disk: &SimDisk,
    rng: &mut Rng,
    seal: SealPolicy,
    account_bits: u32,
) -> Result<Server, OpenError> {
    let geometry = Geometry {
        account_bits,
        sessions: 64,
        rings: 1,
        ring_bits: 3,
        ..Geometry::default()
    };
    let store = Arc::new(Store::anonymous(&geometry)?);
    store.control().lease_until_ns.store(u64::MAX, Relaxed);
    let mut random = Rng(rng.next());
    let (host, _) = Host::open(
        disk.clone(),
        options(),
        Setup {
            limits: LIMITS,
            seal,
            sessions: SessionPolicy {
                per_source: SESSIONS_PER_SOURCE,
            },
            express: None,
        },
        key(),
        Box::new(move || random.next()),
        Arc::clone(&store),
        Box::new(StoreWriter::new(Arc::clone(&store))),
    )?;
    let near = TransferNear::new(store);
    Ok(Server { host, near })
}

pub fn new_oracle() -> Oracle {
    Oracle::new(LIMITS.accounts as usize, LIMITS.sessions, SESSIONS_PER_SOURCE)
}

pub struct World<'a> {
    rng: Rng,
    events: &'a mut Events,
    disk: SimDisk,
    server: Option<Server>,
    seal: SealPolicy,
    /// Of near: 12, or 1, which is not enough for all.
    account_bits: u32,
    /// What every reply that left stands on, and so what is on the disk.
    durable: Oracle,
    /// What a group that was not answered may have left, each step of it; empty: there was none.
    maybe: Vec<Oracle>,
    clients: Vec<Client>,
    requests: Network,
    replies: Network,
    seen: Vec<Datagram>,
    step: u64,
    now_s: u64,
    /// The disk has an end now.
    is_limited: bool,
    /// How rough this run is: out of 1000 steps.
    trouble: u64,
    pub tally: Tally,
}

impl<'a> World<'a> {
    pub fn new(seed: u64, events: &'a mut Events) -> Self {
        let mut rng = Rng(seed);
        let from = |address, port| Source {
            address: std::net::IpAddr::V4(address),
            port,
        };
        let far = Ipv4Addr::new(192, 0, 2, 7);
        let mut clients = Vec::new();
        let close_percent = *rng.pick(&[3, 3, 40]);
        for port in 1..=3 {
            clients.push(Client::native(from(Ipv4Addr::LOCALHOST, port), close_percent));
        }
        clients.push(Client::native(from(far, 4), close_percent));
        clients.push(Client::thief(from(far, 5)));
        for source in 1..=4 {
            clients.push(Client::paper(
                from(Ipv4Addr::LOCALHOST, 10 + source as u16),
                vec![source],
            ));
        }
        clients.push(Client::paper(from(far, 20), vec![5]));
        let rest = (6..=PAPER_ACCOUNTS).collect();
        clients.push(Client::paper(from(Ipv4Addr::LOCALHOST, 21), rest));
        let disk = SimDisk::new(rng.next());
        disk.set_short_writes(rng.chance(30));
        let (requests, replies) = (Network::new(&mut rng), Network::new(&mut rng));
        let seal = SealPolicy {
            operations: *rng.pick(&[40, 150]),
            seconds: 1_000,
        };
        let account_bits = *rng.pick(&[12, 12, 1]);
        let trouble = *rng.pick(&[0, 20, 60, 120]);
        Self {
            rng,
            events,
            disk,
            server: None,
            seal,
            account_bits,
            durable: new_oracle(),
            maybe: Vec::new(),
            clients,
            requests,
            replies,
            seen: Vec::new(),
            step: 0,
            now_s: 1_800_000_000,
            is_limited: false,
            trouble,
            tally: Tally::default(),
        }
    }

    fn note(&mut self, event: String) {
        let event = format!("{:4} at {}: {event}", self.step, self.now_s);
        self.events.note(event);
    }

    /// Runs to the end, and judges what is left.
    pub fn run(&mut self, steps: u64) -> Checked {
        while self.step < steps {
            self.step += 1;
            if self.server.is_none() {
                self.open()?;
                continue;
            }
            self.clients_send();
            self.clients_take()?;
            if self.rng.below(1000) < self.trouble {
                self.trouble()?;
            }
            if self.rng.chance(40) {
                self.serve()?;
            }
            let has_failed = self
                .server
                .as_ref()
                .is_some_and(|server| server.host.failed().is_some());
            if has_failed && self.rng.chance(20) {
                self.crash();
            }
        }
        self.end()
    }

    fn clients_send(&mut self) {
        for client in &mut self.clients {
            if let Some(payload) = client.send(&mut self.rng, self.step, &self.seen) {
                let client = client.from;
                let datagram = Datagram { client, payload };
                self.requests.send(&mut self.rng, self.step, &datagram);
            }
        }
    }

    fn clients_take(&mut self) -> Checked {
        for reply in self.replies.receive(&mut self.rng, self.step, usize::MAX) {
            let client = self.clients.iter_mut().find(|client| client.from == reply.client);
            let client = client.expect("replies go to clients");
            let before = client.answered;
            client.take(&reply.payload)?;
            if client.answered > before
                && let Some((request, _)) = &client.last
            {
                self.seen.push(Datagram {
                    client: reply.client,
                    payload: request.clone(),
                });
                let old = self.seen.len().saturating_sub(SEEN);
                self.seen.drain(..old);
            }
        }
        Ok(())
    }

    // ---- the host ----

    fn serve(&mut self) -> Checked {
        let most = match self.is_limited {
            true => 4,
            false => *self.rng.pick(&[1, 4, 16, 64]),
        };
        let asked = self.requests.receive(&mut self.rng, self.step, most);
        self.now_s = match self.rng.below(100) {
            0..60 => self.now_s,
            60..90 => self.now_s + self.rng.below(5),
            90..98 => self.now_s + self.rng.below(60),
            98 => self.now_s - self.rng.below(500),
            _ => self.now_s + self.rng.below(2_000),
        };
        self.group(&asked)
    }

    /// One group, each reply of it judged.
    fn group(&mut self, datagrams: &[Datagram]) -> Checked {
        let Some(server) = &mut self.server else {
            return Ok(());
        };
        let asked: Vec<Asked<'_>> = datagrams
            .iter()
            .map(|datagram| Asked {
                from: datagram.client,
                payload: &datagram.payload,
            })
            .collect();
        let had_failed = server.host.failed().is_some();
        let said = server.host.group(self.now_s, &asked);
        let has_failed = server.host.failed().is_some();
        self.tally.groups += 1;
        if said.len() != datagrams.len() {
            return Err(format!("{} answers to {} requests", said.len(), datagrams.len()));
        }
        let mut oracle = self.durable.clone();
        let mut steps = vec![oracle.clone()];
        let mut is_certain = 0;
        let expired_all = had_failed || self.expire(&mut oracle, &mut steps);
        let expiries = steps.len() - 1;
        // What the ledger may be by now: one thing, while replies come.
        let mut tips = vec![oracle];
        for (datagram, said) in datagrams.iter().zip(&said) {
            let (from, payload) = (datagram.client, &datagram.payload);
            let line = format!(
                "{} {} -> {}",
                from.port,
                hex(payload),
                said.reply.as_ref().map_or("".into(), |r| hex(r))
            );
            let event = format!("{:4} at {}: {line}", self.step, self.now_s);
            self.events.note(event);
            let mut after = tips[0].clone();
            let number = after.number;
            let expected = after.ask(self.now_s, from, payload);
            match &said.reply {
                Some(reply) if reply.len() > payload.len() => {
                    return Err(format!("a reply longer than its request: {line}"));
                }
                Some(reply) if is_no_room(payload, reply) && expected != Said::Nothing => {
                    if !(has_failed || self.is_limited) {
                        return Err(format!("no room, though there is: {line}"));
                    }
                    self.tally.full += u64::from(!has_failed);
                    continue;
                }
                Some(reply) => {
                    if had_failed
                        || tips.len() > 1
                        || !after.check(self.now_s, from, payload, &expected, reply)
                    {
                        return Err(format!(
                            "{line}\n{payload:02x?}\n{reply:02x?}, and\n{expected:02x?} is right"
                        ));
                    }
                    if !expired_all && after.number != number {
                        return Err(format!("executed, though something that expired stood: {line}"));
                    }
                    is_certain = steps.len();
                }
                None if expected == Said::Nothing => continue,
                None if has_failed => {}
                None => return Err(format!("no answer: {line}")),
            }
            // A full disk may have had no room for it, and that refusal was never sent: both are possible then.
            let has_room = !self.is_limited || !has_failed || said.reply.is_some();
            let others = tips.iter().filter(|_| !has_room).cloned().collect::<Vec<_>>();
            if said.reply.is_some() {
                tips = vec![after];
            } else {
                tips.iter_mut()
                    .for_each(|tip| _ = tip.ask(self.now_s, from, payload));
            }
            steps.extend(tips.iter().cloned());
            tips.extend(others);
        }
        for (datagram, said) in datagrams.iter().zip(said) {
            if let Some(payload) = said.reply {
                let client = datagram.client;
                self.replies
                    .send(&mut self.rng, self.step, &Datagram { client, payload });
            }
        }
        if had_failed {
            return self.check_near();
        }
        if has_failed {
            self.note("the host has failed".into());
            // Expiries may have been made durable before it failed, by a commit that made room; near tells, at least
            // for accounts that it has. (If it tells what is not durable, that is missed after the crash.)
            let mut steps_told = is_certain..=expiries;
            let told = steps_told.find(|step| self.near_differs(&steps[*step]).is_none());
            is_certain = told.unwrap_or(is_certain);
            self.durable = steps[is_certain].clone();
            self.maybe = steps.split_off(is_certain + 1);
        } else {
            self.durable = tips.swap_remove(0);
            self.check_ledger()?;
        }
        self.check_near()
    }

    /// What has expired at the start of a group. Where the disk is full that may have to wait; `false`: it does.
    fn expire(&mut self, oracle: &mut Oracle, steps: &mut Vec<Oracle>) -> bool {
        let server = self.server.as_ref().expect("it has just answered");
        let waits = |name: &(crate::oracle::Id, crate::oracle::Id), expires_s| {
            let theirs = server.host.ledger().pending(&(AccountId(name.0), name.1));
            theirs.is_some_and(|pending| pending.expires_s == expires_s)
        };
        for name in oracle.due(self.now_s) {
            let may_wait = self.is_limited || server.host.failed().is_some();
            if may_wait && waits(&name, oracle.pendings[&name].expires_s) {
                return false;
            }
            oracle.expire(&name);
            steps.push(oracle.clone());
        }
        true
    }

    fn check_ledger(&mut self) -> Checked {
        let server = self.server.as_ref().expect("it is checked while it runs");
        if let Some(difference) = self.durable.differs(server.host.ledger()) {
            return Err(format!("the ledger is wrong: {difference}"));
        }
        self.durable.fault().map_or(Ok(()), Err)
    }

    /// Near says of every account what is on the disk, and of one that is not there, or found no room, nothing.
    fn check_near(&mut self) -> Checked {
        self.tally.near_checks += 1;
        self.near_differs(&self.durable).map_or(Ok(()), Err)
    }

    /// What near says otherwise than `oracle`, if anything.
    fn near_differs(&self, oracle: &Oracle) -> Option<String> {
        let server = self.server.as_ref().expect("it is checked while it runs");
        let from = self.clients[0].from;
        let may_be_homeless = server.host.counts().homeless > 0;
        let mut oracle = oracle.clone();
        requests::accounts().into_iter().find_map(|account| {
            let payload = requests::refer_to(1, &[account]);
            let mut reply = Reply::default();
            let verdict = server.near.answer(from, 1, &payload, &mut reply);
            let is_there = oracle.accounts.contains_key(&account);
            let expected = oracle.ask(self.now_s, from, &payload);
            let is_right = match verdict {
                Verdict::Reply => is_there && expected == Said::Reply(reply.as_bytes().to_vec()),
                Verdict::Forward => !is_there || may_be_homeless,
                Verdict::Drop(_) => false,
            };
            let (account, said) = (AccountId(account), reply.as_bytes());
            let what = format!("near of {account}: {verdict:?} {said:02x?}, and durable is {expected:02x?}");
            (!is_right).then_some(what)
        })
    }

    // ---- trouble ----

    fn trouble(&mut self) -> Checked {
        let server = self.server.as_mut().expect("only while it runs");
        match self.rng.below(12) {
            0 => self.crash(),
            1 | 2 => {
                let n = 1 + self.rng.below(12);
                self.note(format!("the power will go at operation {n}"));
                self.disk.cut_at(n);
            }
            3 | 4 => {
                let op = *self.rng.pick(&[
                    Op::Write,
                    Op::SyncData,
                    Op::SyncData,
                    Op::Allocate,
                    Op::SyncDir,
                    Op::Create,
                ]);
                let n = 1 + self.rng.below(3);
                self.note(format!("{op:?} {n} will fail"));
                self.disk.fail_nth(op, n);
            }
            5 | 6 if self.is_limited => {
                self.note("there is space again".into());
                self.is_limited = false;
                self.disk.set_capacity_bytes(None);
            }
            5 | 6 => {
                let more = self.rng.below(20 << 10);
                self.note(format!("the disk has {more} bytes left"));
                self.is_limited = true;
                self.disk.set_capacity_bytes(Some(self.disk.used_bytes() + more));
            }
            7 => {
                // In the middle of the next snapshot.
                let n = 1 + self.rng.below(8);
                self.disk.cut_at(n);
                let taken = server.host.snapshot().is_ok();
                self.note(format!("a snapshot and a power cut at {n}: {taken}"));
                self.crash();
            }
            8 => {
                self.now_s += self.rng.below(100);
                return self.group(&[]);
            }
            _ => {
                let taken = server.host.snapshot().is_ok();
                self.tally.snapshots += u64::from(taken);
                self.note(format!("a snapshot: {taken}"));
            }
        }
        Ok(())
    }

    /// The machine, or the process alone.
    fn crash(&mut self) {
        self.server = None;
        self.disk.clear_faults();
        if self.disk.is_dead() || self.rng.chance(60) {
            self.note("the power is cut".into());
            self.disk.power_cut();
        } else {
            self.note("the process is killed".into());
            self.disk.kill();
        }
        if self.is_limited && self.rng.chance(50) {
            self.is_limited = false;
            self.disk.set_capacity_bytes(None);
        }
    }

    fn open(&mut self) -> Checked {
        let is_cut = self.trouble > 0 && self.rng.chance(15);
        if is_cut {
            let n = 1 + self.rng.below(10);
            self.disk.cut_at(n);
        }
        let server = match start(&self.disk, &mut self.rng, self.seal, self.account_bits) {
            Ok(server) => server,
            Err(error) if is_cut && self.disk.is_dead() => {
                self.note(format!("the power is cut while it opens: {error}"));
                self.disk.power_cut();
                return Ok(());
            }
            Err(error) if self.is_limited && is_full(&error) => {
                self.note(format!("no space to open: {error}"));
                self.is_limited = false;
                self.disk.set_capacity_bytes(None);
                return Ok(());
            }
            Err(error) => return Err(format!("it does not open: {error}")),
        };
        self.note("open".into());
        self.tally.restarts += 1;
        let mut found = None;
        let mut wrong = Vec::new();
        let is_sure = self.maybe.is_empty();
        let all: Vec<Oracle> = std::iter::once(self.durable.clone())
            .chain(self.maybe.drain(..))
            .collect();
        // The furthest first: a step that changes nothing is the same as the one before.
        for (index, mut oracle) in all.into_iter().enumerate().rev() {
            oracle.restarted();
            match oracle.differs(server.host.ledger()) {
                None => {
                    found = Some((index, oracle));
                    break;
                }
                Some(difference) => wrong.push(difference),
            }
        }
        let Some((index, oracle)) = found else {
            return Err(format!(
                "what came back is nothing that could be there:\n{}",
                wrong.join("\n")
            ));
        };
        if !is_sure {
            let kept = if index > 0 {
                &mut self.tally.kept
            } else {
                &mut self.tally.lost
            };
            *kept += 1;
        }
        self.durable = oracle;
        self.server = Some(server);
        self.check_near()
    }

    // ---- the end ----

    /// Some operations can be proved; those that no block has cannot.
    fn check_proofs(&mut self) -> Checked {
        let operations = self.durable.number;
        let wrong = |number: u64, what: &str| Err(format!("the proof of operation {number} {what}"));
        for number in [0, 1, 1 + self.rng.below(operations), operations, operations + 1] {
            let proof = prove(&self.disk, number).map_err(|error| format!("proving {number}: {error}"))?;
            let is_one = (1..=operations).contains(&number);
            let Some(proof) = proof else {
                if number == 1 && self.tally.blocks > 0 {
                    return wrong(number, "is missing");
                }
                continue;
            };
            if !is_one || proof.fault().is_some() || !proof.block.is_signed_by(key().verifying_key()) {
                return wrong(number, "does not hold");
            }
        }
        Ok(())
    }

    fn end(&mut self) -> Checked {
        self.disk.clear_faults();
        self.disk.set_capacity_bytes(None);
        self.is_limited = false;
        self.crash();
        while self.server.is_none() {
            self.open()?;
            self.disk.clear_faults();
        }
        self.note("asked once more for what was answered".into());
        self.group(&[])?;
        let mut last = Vec::new();
        for client in &self.clients {
            let answered = client.last.clone().map(|last| (client.from, last));
            last.extend(answered);
        }
        for (from, (request, reply)) in last {
            let server = self.server.as_mut().expect("open");
            let payload = &request[..];
            let said = server.host.group(self.now_s, &[Asked { from, payload }]);
            let again = said.into_iter().next().and_then(|said| said.reply);
            // A numbered request's id may be lower than one that was executed and not answered yet.
            let expected = self.durable.clone().ask(self.now_s, from, payload);
            let is_newest = expected == Said::Reply(reply.clone());
            if is_newest && again.as_ref() != Some(&reply) {
                return Err(format!(
                    "{request:02x?} was answered {reply:02x?}, and now {again:02x?}"
                ));
            }
        }
        self.check_ledger()?;
        for client in &self.clients {
            self.tally.answered += client.answered;
        }
        self.tally.operations = self.durable.number;
        self.server = None;
        self.disk.kill();
        let found =
            audit(&self.disk, *key().verifying_key()).map_err(|error| format!("the audit: {error}"))?;
        self.tally.blocks = found.blocks;
        self.check_proofs()?;
        let oracle = &self.durable;
        let is_right = found.issued == oracle.issued
            && found.held == oracle.held()
            && found.accounts == oracle.accounts.len() as u64
            && found.operations == oracle.number;
        if is_right {
            Ok(())
        } else {
            Err(format!("the audit found {found:?}"))
        }
    }
}

fn is_full(error: &OpenError) -> bool {
    matches!(error, OpenError::Journal(lineside_journal::Error::Full { .. }))
}

//! Mode `express`: the fast path executes operations, which reach the disk later, or never.

use super::network::Datagram;
use super::server::Server;
use super::world::{CheckResult, World};
use crate::oracle::{
    EXECUTE_HEAD, HEAD, Id, OPERATION, Oracle, RequiredReply, is_no_room, u16_at, u32_at, u64_at,
};
use lineside_fastpath::{FastPath, Reply, RequestOutcome as Answer, Verdict};
use lineside_transfer::AccountId;
use lineside_transfer::ledger::Ledger;
use lineside_transfer::ring::Ring;
use lineside_wire::{TRANSFER_OP_EXECUTE as EXECUTE, TRANSFER_OP_OPEN as OPEN};
use std::cmp::Ordering;
use std::sync::atomic::Ordering::Relaxed;

/// Request that the fast path has executed and that may still be lost.
#[derive(Clone, Debug)]
pub struct Logged {
    datagram: Datagram,
    now_s: u64,
    said: RequiredReply,
    /// Accounts that it changed, and their versions after it.
    touched: Vec<(Id, u64)>,
    /// For a packet of a session: slot, sequence number, and number of operations.
    packet: Option<(u32, u64, usize)>,
}

impl Logged {
    /// Returns `None` if the request changed nothing.
    fn new(
        before: &Oracle,
        after: &Oracle,
        datagram: &Datagram,
        now_s: u64,
        said: RequiredReply,
    ) -> Option<Self> {
        let version = |id: &Id| before.accounts.get(id).map_or(0, |account| account.version);
        let changed = after
            .accounts
            .iter()
            .filter(|(id, account)| account.version != version(id));
        let touched: Vec<_> = changed.map(|(id, account)| (*id, account.version)).collect();
        let payload = &datagram.payload;
        let packet = (payload.len() > HEAD + EXECUTE_HEAD && payload[3] == EXECUTE)
            .then(|| {
                (
                    u32_at(payload, HEAD + 16),
                    u64_at(payload, HEAD + 8),
                    operations(payload),
                )
            })
            .filter(|(slot, ..)| {
                let sequence = |oracle: &Oracle| oracle.sessions.get(slot).map(|session| session.sequence);
                sequence(before) != sequence(after)
            });
        (packet.is_some() || !touched.is_empty()).then(|| Self {
            datagram: datagram.clone(),
            now_s,
            said,
            touched,
            packet,
        })
    }

    /// Returns the codes of the operations of the request. A refusal changes no account, so the change that caused it
    /// may reach the journal later, or never.
    fn codes(&self) -> Vec<u16> {
        let RequiredReply::Reply(reply) = &self.said else {
            return Vec::new();
        };
        match self.packet {
            Some(_) => reply[HEAD + EXECUTE_HEAD..]
                .chunks(OPERATION)
                .map(|operation| u16_at(operation, 2))
                .collect(),
            None if reply[0] & 0x80 != 0 => vec![u32_at(reply, 16) as u16],
            None => vec![0],
        }
    }

    /// Returns how many operations of the request are in a ledger, and how many it has.
    fn in_ledger(&self, ledger: &Ledger) -> Result<(usize, usize), String> {
        if let Some((slot, sequence, count)) = self.packet {
            let session = ledger
                .session(slot)
                .ok_or("the session of the packet is not in the ledger")?;
            let there = match session.sequence.cmp(&sequence) {
                Ordering::Greater => count,
                Ordering::Less => 0,
                Ordering::Equal => session.outcomes.len(),
            };
            return Ok((there, count));
        }
        let has = |(id, version): &&(Id, u64)| {
            let account = ledger.account(&AccountId(*id));
            account.is_some_and(|account| account.version >= *version)
        };
        match self.touched.iter().filter(has).count() {
            0 => Ok((0, 1)),
            all if all == self.touched.len() => Ok((1, 1)),
            _ => Err(format!("the ledger has only one account's change of {self:?}")),
        }
    }
}

/// Returns the number of operations of a session's packet.
fn operations(payload: &[u8]) -> usize {
    (payload.len() - HEAD - EXECUTE_HEAD) / OPERATION
}

/// Returns a packet with only its first `count` operations.
fn beginning(payload: &[u8], count: usize) -> Vec<u8> {
    let mut packet = payload[..HEAD + EXECUTE_HEAD + count * OPERATION].to_vec();
    let length = (packet.len() - HEAD) as u16;
    packet[6..8].copy_from_slice(&length.to_be_bytes());
    packet[HEAD + 20..HEAD + 22].copy_from_slice(&(count as u16).to_be_bytes());
    packet
}

/// Executes in the oracle the requests of `log` that are in `ledger`, and compares the replies; returns the requests
/// that are not in the ledger. Only a power cut may have removed the end of a packet.
fn follow(
    oracle: &mut Oracle,
    log: &[Logged],
    ledger: &Ledger,
    may_end: bool,
) -> Result<Vec<Logged>, String> {
    let mut rest = Vec::new();
    oracle.is_fastpath = true;
    for done in log {
        let Datagram { client, payload, .. } = &done.datagram;
        oracle.told = done.codes();
        let said = match done.in_ledger(ledger)? {
            (0, _) => {
                rest.push(done.clone());
                continue;
            }
            (there, all) if there == all => oracle.ask(done.now_s, *client, payload),
            (there, _) if may_end => {
                oracle.ask(done.now_s, *client, &beginning(payload, there));
                done.said.clone()
            }
            (there, all) => {
                return Err(format!(
                    "the ledger has {there} of {all} operations of {payload:02x?}"
                ));
            }
        };
        if said != done.said {
            return Err(format!(
                "{payload:02x?} was answered {:02x?}, but now the reply is {said:02x?}",
                done.said
            ));
        }
    }
    (oracle.is_fastpath, oracle.told) = (false, Vec::new());
    Ok(rest)
}

impl World<'_> {
    /// Lets the fast path handle some of the received packets.
    pub(super) fn at_the_line(&mut self) -> CheckResult {
        let most = *self.rng.pick(&[1, 4, 16]);
        for datagram in self.requests.receive(&mut self.rng, self.step, most) {
            self.ask_fastpath(&datagram)?;
        }
        Ok(())
    }

    /// Sends a datagram to the fast path on one of its CPUs.
    pub(super) fn ask_fastpath(&mut self, datagram: &Datagram) -> CheckResult {
        let line = match (&self.server, &self.left) {
            (Some(server), _) => &server.line,
            (None, Some(line)) => line,
            (None, None) => return Ok(()),
        };
        let cpu = self.rng.below(line.cpus.len() as u64) as usize;
        let room = Ring::of(&line.store, cpu).free_records();
        let is_leased = line.store.control().lease_until_ns.load(Relaxed) > self.step;
        let (from, payload) = (datagram.client, &datagram.payload);
        let mut reply = Reply::default();
        let verdict = line.cpus[cpu].answer(from, self.step, payload, &mut reply);
        let mut after = self.tip.clone();
        after.is_fastpath = true;
        let expected = after.ask(self.now_s, from, payload);
        after.is_fastpath = false;
        let is_paper = (20..=22).contains(&payload.len());
        let reply = match verdict {
            Verdict::Reply => reply.as_bytes().to_vec(),
            Verdict::Drop(_) if expected == RequiredReply::Nothing => return Ok(()),
            Verdict::Forward if !(is_leased && is_paper) => {
                if self.server.is_some() {
                    self.forwarded.push_back(datagram.clone());
                }
                return Ok(());
            }
            other => return Err(format!("the fast path returned {other:?} for {payload:02x?}")),
        };
        let said = self.note_answer(datagram, Some(&reply));
        self.tally.line += 1;
        if !is_leased {
            return Err(format!("the fast path answers without a lease: {said}"));
        }
        if reply.len() > payload.len() {
            return Err(format!("a reply longer than its request: {said}"));
        }
        if is_no_room(payload, &reply) && expected != RequiredReply::Nothing {
            let needed = if is_paper { 1 } else { operations(payload) as u64 };
            if room >= needed {
                return Err(format!(
                    "the fast path is busy although the ring has room for {room} records: {said}"
                ));
            }
            self.tally.busy += 1;
        } else if !after.check(self.now_s, from, payload, &expected, &reply) {
            return Err(format!(
                "the fast path: {said}\n{payload:02x?}\n{reply:02x?}, and\n{expected:02x?} is right"
            ));
        } else {
            let logged = Logged::new(&self.tip, &after, datagram, self.now_s, expected);
            self.log.extend(logged);
            self.tip = after;
        }
        self.send_reply(datagram, reply);
        Ok(())
    }

    /// Lets the fast path run alone until a host starts.
    pub(super) fn alone(&mut self) -> CheckResult {
        if let Some(line) = &self.left
            && self.rng.percent(3)
        {
            line.store.control().lease_until_ns.store(0, Relaxed);
            self.note("the fast path's lease has ended".into());
        }
        if self.rng.percent(12) { self.open() } else { Ok(()) }
    }

    /// Lets the host apply the records in the rings.
    pub(super) fn drain(&mut self) -> CheckResult {
        let Some(server) = &mut self.server else {
            return Ok(());
        };
        let had_failed = server.host.failed().is_some();
        server.host.drain();
        self.note("the rings are emptied".into());
        if had_failed { Ok(()) } else { self.taken() }
    }

    /// Checks that the host wrote the applied records to the disk: all of them, if the disk has space.
    fn taken(&mut self) -> CheckResult {
        let server = self
            .server
            .as_ref()
            .expect("the server has just applied the records");
        if server.host.failed().is_some() {
            // After a failure, the next restart shows which records were written.
            self.note("the host has failed".into());
            return Ok(());
        }
        let ledger = server.host.ledger();
        self.log = follow(&mut self.durable, &self.log, ledger, false)?;
        if let Some(difference) = self.durable.differs(ledger) {
            return Err(format!("the ledger is wrong: {difference}"));
        }
        let is_same = (&self.tip.accounts, self.tip.number) == (&self.durable.accounts, self.durable.number);
        if self.log.is_empty() && !is_same {
            return Err(format!(
                "all of {:?} was taken, and it is {:?}",
                self.tip, self.durable
            ));
        }
        if !self.log.is_empty() && !self.is_limited {
            return Err(format!("{} requests were not taken", self.log.len()));
        }
        self.durable.fault().map_or(Ok(()), Err)
    }

    /// Checks a batch before which the rings could not be emptied because the disk was full: the batch executed
    /// nothing, except that it may have opened sessions.
    pub(super) fn behind(&mut self, datagrams: &[Datagram], said: &[Answer]) -> CheckResult {
        self.tally.behind += 1;
        let server = self.server.as_ref().expect("the server has just answered");
        let has_failed = server.host.failed().is_some();
        if !has_failed && !self.is_limited {
            return Err("the fast path's rings are not emptied, though there is room".into());
        }
        for (datagram, said) in datagrams.iter().zip(said) {
            let line = self.note_answer(datagram, said.reply.as_deref());
            let (from, payload) = (datagram.client, &datagram.payload);
            let mut after = self.tip.clone();
            let expected = after.ask(self.now_s, from, payload);
            let opens = matches!(expected, RequiredReply::Challenge | RequiredReply::Granted { .. });
            match &said.reply {
                Some(reply) if is_no_room(payload, reply) && expected != RequiredReply::Nothing => continue,
                Some(reply) if after.check(self.now_s, from, payload, &expected, reply) => {
                    let version = |oracle: &Oracle| oracle.number;
                    if has_failed || version(&after) != version(&self.tip) {
                        return Err(format!("executed, though the fast path was ahead: {line}"));
                    }
                    if opens {
                        let expected = self.durable.ask(self.now_s, from, payload);
                        self.durable.check(self.now_s, from, payload, &expected, reply);
                    }
                    self.tip = after;
                }
                Some(reply) => {
                    return Err(format!(
                        "{line}\n{payload:02x?}\n{reply:02x?}, and\n{expected:02x?} is right"
                    ));
                }
                None if expected == RequiredReply::Nothing => {}
                None if has_failed => {
                    let mut maybe = self.maybe.last().unwrap_or(&self.durable).clone();
                    maybe.ask(self.now_s, from, payload);
                    if matches!(expected, RequiredReply::Granted { .. }) && payload[3] == OPEN {
                        self.maybe.push(maybe);
                    }
                }
                None => return Err(format!("no answer: {line}")),
            }
        }
        self.taken()
    }

    /// Records that the fast path was lost, by a power cut or with its process. Effects of its replies may be lost.
    pub(super) fn fastpath_is_gone(&mut self) {
        for client in &mut self.clients {
            client.may_be_forgotten |= self.setting.is_express;
        }
    }

    /// Checks that the state after a restart is possible: `oracle`, plus the requests of the fast path that reached the
    /// journal. If the fast path survived, nothing may be lost. Returns the number of lost requests.
    pub(super) fn came_back(
        &self,
        mut oracle: Oracle,
        server: &Server,
        has_all: bool,
    ) -> Result<(Oracle, u64), String> {
        let ledger = server.host.ledger();
        let rest = follow(&mut oracle, &self.log, ledger, !has_all)?;
        if has_all && !rest.is_empty() {
            return Err(format!("the fast path survived, but {rest:02x?} is lost"));
        }
        oracle.restarted();
        match oracle.differs(ledger) {
            None => Ok((oracle, rest.len() as u64)),
            Some(difference) => Err(difference),
        }
    }
}

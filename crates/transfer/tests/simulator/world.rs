//! One run: clients, a network, the host on its disk, and the oracle that checks the host's replies.

use super::clients::Client;
use super::events::{Events, Tally, hex};
use super::line::Logged;
use super::network::{Datagram, Network};
use super::requests::{self, PAPER_ACCOUNTS};
use super::server::{RunSettings, Server, SimulatedFastPath, key, start};
use crate::oracle::{Oracle, RequiredReply, is_no_room};
use lineside_fastpath::{BatchRequest, FastPath, Reply, RequestOutcome as Answer, Source, Verdict};
use lineside_journal::{Op, SimDisk};
use lineside_testkit::Random;
use lineside_transfer::AccountId;
use lineside_transfer::host::{Counts, Host, OpenError, SealPolicy, audit, prove};
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::sync::atomic::Ordering::Relaxed;

/// Result of a check; the error is for the reader of the failure.
pub type CheckResult = Result<(), String>;

/// Number of recent requests that the attacker may have seen.
const SNIFFED_REQUESTS_MAX: usize = 64;

pub struct World<'a> {
    pub(super) rng: Random,
    events: &'a mut Events,
    pub(super) disk: SimDisk,
    pub(super) server: Option<Server>,
    pub(super) setting: RunSettings,
    /// State on the disk; in `durable`, every sent reply depends only on it.
    pub(super) durable: Oracle,
    /// State of the fast path: in `express` it is the state on the disk, plus everything that was executed since.
    pub(super) tip: Oracle,
    /// Requests that lead from the state `durable` to the state `tip`.
    pub(super) log: Vec<Logged>,
    /// Fast path that continues after its host was killed, if there is one.
    pub(super) left: Option<SimulatedFastPath>,
    /// Requests that the fast path forwarded to the host.
    pub(super) forwarded: VecDeque<Datagram>,
    /// Requests and replies over streams.
    streams: VecDeque<Datagram>,
    stream_replies: Vec<Datagram>,
    /// Possible states after an unanswered batch, one for each step of the batch; empty if no batch is unanswered.
    pub(super) maybe: Vec<Oracle>,
    pub(super) clients: Vec<Client>,
    pub(super) requests: Network,
    replies: Network,
    seen: Vec<Datagram>,
    pub(super) step: u64,
    pub(super) now_s: u64,
    /// True if the capacity of the disk is limited.
    pub(super) is_limited: bool,
    /// Number of faults per 1000 steps.
    trouble: u64,
    /// Percentages of the steps in which the host handles requests, and in which it empties the rings in addition.
    serve_percent: u64,
    drain_percent: u64,
    pub tally: Tally,
}

impl<'a> World<'a> {
    pub fn new(seed: u64, is_express: bool, events: &'a mut Events) -> Self {
        let mut rng = Random(seed);
        let requires_signature = rng.percent(25);
        let streams = rng.percent(40);
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
        let is_large = streams && rng.percent(30);
        for (index, client) in clients.iter_mut().enumerate().take(4) {
            client.has_key = requires_signature || (index == 0 && rng.percent(20));
            client.stream_percent = if streams { *rng.pick(&[0, 50, 100]) } else { 0 };
            client.is_large = is_large;
            client.plain_percent = if is_express { *rng.pick(&[0, 70, 95]) } else { 0 };
        }
        let disk = SimDisk::new(rng.next());
        disk.set_short_writes(rng.percent(30));
        let (requests, replies) = (Network::new(&mut rng), Network::new(&mut rng));
        let seal = SealPolicy {
            operations: *rng.pick(&[40, 150]),
            seconds: 1_000,
        };
        let setting = RunSettings {
            seal,
            // With 1, some accounts find no cell.
            account_bits: if is_express { 8 } else { *rng.pick(&[12, 12, 1]) },
            is_express,
            requires_signature,
            is_large,
        };
        let trouble = *rng.pick(&[0, 20, 60, 120]);
        // A host that gets little time finds full rings, with packets of one session in several rings.
        let serve_percent = if is_express { *rng.pick(&[40, 15, 4]) } else { 40 };
        let drain_percent = *rng.pick(&[20, 3]);
        Self {
            rng,
            events,
            disk,
            server: None,
            setting,
            durable: setting.oracle(),
            tip: setting.oracle(),
            log: Vec::new(),
            left: None,
            forwarded: VecDeque::new(),
            streams: VecDeque::new(),
            stream_replies: Vec::new(),
            maybe: Vec::new(),
            clients,
            requests,
            replies,
            seen: Vec::new(),
            step: 0,
            now_s: 1_800_000_000,
            is_limited: false,
            trouble,
            serve_percent,
            drain_percent,
            tally: Tally::default(),
        }
    }

    pub(super) fn note(&mut self, event: String) {
        let event = format!("{:4} at {}: {event}", self.step, self.now_s);
        self.events.note(event);
    }

    /// Runs to the end, and checks the final state.
    pub fn run(&mut self, steps: u64) -> CheckResult {
        while self.step < steps {
            self.step += 1;
            if self.server.is_none() && self.left.is_none() {
                self.open()?;
                continue;
            }
            self.clients_send();
            self.clients_take()?;
            if self.setting.is_express && self.rng.percent(60) {
                self.at_the_line()?;
            }
            if self.server.is_none() {
                self.alone()?;
                continue;
            }
            if self.setting.is_express && self.rng.percent(self.drain_percent) {
                self.drain()?;
                self.check_fastpath()?;
            }
            if self.rng.below(1000) < self.trouble {
                self.trouble()?;
            }
            if self.rng.percent(self.serve_percent) {
                self.serve()?;
            }
            let has_failed = self
                .server
                .as_ref()
                .is_some_and(|server| server.host.failed().is_some());
            if has_failed && self.rng.percent(20) {
                self.crash();
            }
        }
        self.end()
    }

    fn clients_send(&mut self) {
        for client in &mut self.clients {
            let by_stream = client.takes_stream(&mut self.rng);
            if let Some(payload) = client.send(&mut self.rng, self.step, &self.seen, by_stream) {
                let datagram = Datagram {
                    client: client.from,
                    payload,
                    by_stream,
                };
                if !by_stream {
                    self.requests.send(&mut self.rng, self.step, &datagram);
                } else if self.server.is_some() {
                    self.tally.streamed += 1;
                    self.streams.push_back(datagram);
                }
            }
        }
    }

    fn clients_take(&mut self) -> CheckResult {
        let mut replies = std::mem::take(&mut self.stream_replies);
        replies.extend(self.replies.receive(&mut self.rng, self.step, usize::MAX));
        for reply in replies {
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
                    by_stream: false,
                });
                let old = self.seen.len().saturating_sub(SNIFFED_REQUESTS_MAX);
                self.seen.drain(..old);
            }
        }
        Ok(())
    }

    // ---- the host ----

    fn serve(&mut self) -> CheckResult {
        let most = match self.is_limited {
            true => 4,
            false => *self.rng.pick(&[1, 4, 16, 64]),
        };
        let mut asked: Vec<Datagram> = self.streams.drain(..most.min(self.streams.len())).collect();
        if self.setting.is_express {
            asked.extend(self.forwarded.drain(..most.min(self.forwarded.len())));
        } else {
            asked.extend(self.requests.receive(&mut self.rng, self.step, most));
        }
        self.now_s = match self.rng.below(100) {
            0..60 => self.now_s,
            60..90 => self.now_s + self.rng.below(5),
            90..98 => self.now_s + self.rng.below(60),
            98 => self.now_s - self.rng.below(500),
            _ => self.now_s + self.rng.below(2_000),
        };
        self.group(&asked)
    }

    /// Executes one batch and checks each reply of it.
    pub(super) fn group(&mut self, datagrams: &[Datagram]) -> CheckResult {
        let Some(server) = &mut self.server else {
            return Ok(());
        };
        let asked: Vec<BatchRequest<'_>> = datagrams
            .iter()
            .map(|datagram| BatchRequest {
                from: datagram.client,
                payload: &datagram.payload,
            })
            .collect();
        let had_failed = server.host.failed().is_some();
        let lease = || server.line.store.control().lease_until_ns.load(Relaxed);
        let until = lease();
        let said = match self.setting.is_express {
            true => server.host.group(self.now_s, &asked),
            false => beside(&mut server.host, &mut self.rng, self.now_s, &asked),
        };
        let has_failed = server.host.failed().is_some();
        if has_failed && lease() > until {
            return Err("a host that has failed lets the fast path go on".into());
        }
        self.tally.groups += 1;
        if said.len() != datagrams.len() {
            return Err(format!("{} answers to {} requests", said.len(), datagrams.len()));
        }
        let is_level = server.host.unjournaled() == 0;
        if !is_level {
            self.behind(datagrams, &said)?;
            self.send_replies(datagrams, said);
            return self.check_fastpath();
        }
        // The rings are empty, so their records are on the disk.
        self.log.clear();
        self.durable = self.tip.clone();
        let mut oracle = self.durable.clone();
        let mut steps = vec![oracle.clone()];
        let mut is_certain = 0;
        let expired_all = had_failed || self.expire(&mut oracle, &mut steps);
        let expiries = steps.len() - 1;
        // Possible states of the ledger: a single one as long as the host sends replies.
        let mut tips = vec![oracle];
        for (datagram, said) in datagrams.iter().zip(&said) {
            let (from, payload) = (datagram.client, &datagram.payload);
            let line = self.note_answer(datagram, said.reply.as_deref());
            let mut after = tips[0].clone();
            let number = after.number;
            let expected = after.ask(self.now_s, from, payload);
            match &said.reply {
                Some(reply) if reply.len() > payload.len() => {
                    return Err(format!("a reply longer than its request: {line}"));
                }
                Some(reply) if is_no_room(payload, reply) && expected != RequiredReply::Nothing => {
                    if !(has_failed || self.is_limited) {
                        return Err(format!("the reply is `no_room`, but the disk has space: {line}"));
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
                        return Err(format!(
                            "a request was executed although an expired transfer was still pending: {line}"
                        ));
                    }
                    is_certain = steps.len();
                }
                None if expected == RequiredReply::Nothing => continue,
                None if has_failed => {}
                None => return Err(format!("no answer: {line}")),
            }
            // The full disk may have had no space for this request, and the refusal was never sent: then both states
            // are possible.
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
        self.send_replies(datagrams, said);
        if had_failed {
            return self.check_fastpath();
        }
        if has_failed {
            self.note("the host has failed".into());
            // Expiries may have become durable before the failure, by a commit that made room; the fast path shows
            // that, at least for accounts in its table. (If it shows a change that is not durable, that is found after
            // the crash.)
            let mut steps_told = is_certain..=expiries;
            let told = steps_told.find(|step| self.fastpath_differs(&steps[*step]).is_none());
            is_certain = told.unwrap_or(is_certain);
            self.durable = steps[is_certain].clone();
            self.maybe = steps.split_off(is_certain + 1);
            self.tip = self.durable.clone();
        } else {
            self.durable = tips.swap_remove(0);
            self.tip = self.durable.clone();
            self.check_ledger()?;
        }
        self.check_fastpath()
    }

    /// Records a reply, or its absence.
    pub(super) fn note_answer(&mut self, datagram: &Datagram, reply: Option<&[u8]>) -> String {
        let said = reply.map_or("".into(), hex);
        let line = format!("{} {} -> {said}", datagram.client.port, hex(&datagram.payload));
        self.note(line.clone());
        if reply.is_some_and(|reply| is_unauthorised(&datagram.payload, reply)) {
            self.tally.unsigned += u64::from(self.setting.requires_signature);
        } else if datagram.payload.get(3) == Some(&6) {
            self.tally.signed += u64::from(reply.is_some());
        }
        line
    }

    fn send_replies(&mut self, datagrams: &[Datagram], said: Vec<Answer>) {
        for (datagram, said) in datagrams.iter().zip(said) {
            if let Some(payload) = said.reply {
                self.send_reply(datagram, payload);
            }
        }
    }

    pub(super) fn send_reply(&mut self, datagram: &Datagram, payload: Vec<u8>) {
        let reply = Datagram {
            payload,
            ..datagram.clone()
        };
        if datagram.by_stream {
            self.stream_replies.push(reply);
        } else {
            self.replies.send(&mut self.rng, self.step, &reply);
        }
    }

    /// Expires pending transfers at the start of a batch. Returns `false` if the host cannot expire them yet, because
    /// the disk is full.
    fn expire(&mut self, oracle: &mut Oracle, steps: &mut Vec<Oracle>) -> bool {
        let server = self.server.as_ref().expect("the server has just answered");
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

    fn check_ledger(&mut self) -> CheckResult {
        let server = self.server.as_ref().expect("the check needs a running server");
        if let Some(difference) = self.durable.differs(server.host.ledger()) {
            return Err(format!("the ledger is wrong: {difference}"));
        }
        self.durable.fault().map_or(Ok(()), Err)
    }

    /// Checks that the fast path has the durable state of every account, and nothing for an account that does not
    /// exist or found no room.
    pub(super) fn check_fastpath(&mut self) -> CheckResult {
        self.tally.fastpath_checks += 1;
        self.fastpath_differs(&self.tip).map_or(Ok(()), Err)
    }

    /// Returns the first difference between the fast path and `oracle`, if there is one.
    fn fastpath_differs(&self, oracle: &Oracle) -> Option<String> {
        let server = self.server.as_ref().expect("the check needs a running server");
        let from = self.clients[0].from;
        let may_be_homeless = server.host.counts().homeless > 0;
        let mut oracle = oracle.clone();
        let is_express = self.setting.is_express;
        // The lease may have ended while the fast path is paused, so the check sets it for its own requests.
        let lease = &server.line.store.control().lease_until_ns;
        let until = lease.swap(u64::MAX, Relaxed);
        let wrong = requests::accounts().into_iter().find_map(|account| {
            let payload = requests::refer_to(1, &[account]);
            let mut reply = Reply::default();
            let verdict = server.line.fastpath.answer(from, 1, &payload, &mut reply);
            let is_there = oracle.accounts.contains_key(&account);
            let expected = oracle.ask(self.now_s, from, &payload);
            let is_right = match verdict {
                Verdict::Reply => {
                    (is_there || is_express) && expected == RequiredReply::Reply(reply.as_bytes().to_vec())
                }
                Verdict::Forward => (!is_there || may_be_homeless) && !is_express,
                Verdict::Drop(_) => false,
            };
            let (account, said) = (AccountId(account), reply.as_bytes());
            let what = format!(
                "account {account}: the fast path has {verdict:?} {said:02x?}, but durable is {expected:02x?}"
            );
            (!is_right).then_some(what)
        });
        lease.store(until, Relaxed);
        wrong
    }

    // ---- trouble ----

    fn trouble(&mut self) -> CheckResult {
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
                let more = self.rng.below(8 << 10);
                self.note(format!("the disk has {more} bytes left"));
                self.is_limited = true;
                self.disk.set_capacity_bytes(Some(self.disk.used_bytes() + more));
            }
            7 => {
                // The power is cut in the middle of the next snapshot.
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

    /// Simulates a failure of the machine, or only of the process; then the fast path may survive.
    fn crash(&mut self) {
        let server = self.server.take();
        let counts = server
            .as_ref()
            .map_or_else(Counts::default, |server| server.host.counts());
        self.tally.rests += counts.rests;
        self.tally.claims += counts.claims;
        self.forwarded.clear();
        self.streams.clear();
        self.disk.clear_faults();
        if self.disk.is_dead() || self.rng.percent(60) {
            self.note("the power is cut".into());
            self.disk.power_cut();
        } else {
            self.disk.kill();
            if self.setting.is_express && self.rng.percent(70) {
                self.note("the process is killed, and the fast path goes on".into());
                self.left = server.map(|server| server.line);
            } else {
                self.note("the process is killed".into());
            }
        }
        if self.left.is_none() {
            self.fastpath_is_gone();
        }
        if self.is_limited && self.rng.percent(50) {
            self.is_limited = false;
            self.disk.set_capacity_bytes(None);
        }
    }

    pub(super) fn open(&mut self) -> CheckResult {
        let is_cut = self.trouble > 0 && self.rng.percent(15);
        if is_cut {
            let n = 1 + self.rng.below(10);
            self.disk.cut_at(n);
        }
        let left = self.left.as_ref().map(|line| &line.store);
        let server = match start(&self.disk, &mut self.rng, &self.setting, left) {
            Ok(server) => server,
            Err(error) if is_cut && self.disk.is_dead() => {
                self.note(format!("the power is cut while it opens: {error}"));
                self.disk.power_cut();
                self.left = None;
                self.fastpath_is_gone();
                return Ok(());
            }
            Err(error) if self.is_limited && is_full(&error) => {
                self.note(format!("no space to open: {error}"));
                self.is_limited = false;
                self.disk.set_capacity_bytes(None);
                return Ok(());
            }
            Err(error) => return Err(format!("the ledger does not open: {error}")),
        };
        self.note("open".into());
        self.tally.restarts += 1;
        let has_all = self.left.take().is_some();
        self.tally.adopted += u64::from(has_all);
        let mut found = None;
        let mut wrong = Vec::new();
        let is_sure = self.maybe.is_empty();
        let all: Vec<Oracle> = std::iter::once(self.durable.clone())
            .chain(self.maybe.drain(..))
            .collect();
        // The latest state comes first: a step that changes nothing has the same state as the previous step.
        for (index, oracle) in all.into_iter().enumerate().rev() {
            match self.came_back(oracle, &server, has_all) {
                Ok((oracle, forgotten)) => {
                    found = Some((index, oracle));
                    self.tally.forgotten += forgotten;
                    break;
                }
                Err(difference) => wrong.push(difference),
            }
        }
        let Some((index, oracle)) = found else {
            return Err(format!(
                "the state after the restart does not equal any possible state:\n{}",
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
        self.log.clear();
        self.tip = oracle.clone();
        self.durable = oracle;
        self.server = Some(server);
        self.check_fastpath()
    }

    // ---- the end ----

    /// Checks that sealed operations can be proved, and others cannot.
    fn check_proofs(&mut self) -> CheckResult {
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
                return wrong(number, "is not valid");
            }
        }
        Ok(())
    }

    fn end(&mut self) -> CheckResult {
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
            let answered = client.last.clone().map(|(payload, _)| Datagram {
                client: client.from,
                payload,
                by_stream: true,
            });
            last.extend(answered);
        }
        for datagram in last {
            // The oracle knows whether the request is the newest of its client, and which reply it got.
            if self.setting.is_express && self.rng.percent(50) {
                self.ask_fastpath(&datagram)?;
            }
            self.group(&[datagram])?;
        }
        self.check_ledger()?;
        for client in &self.clients {
            self.tally.answered += client.answered;
        }
        self.tally.operations = self.durable.number;
        self.tally.repeated = self.durable.repeated;
        self.tally.reused = self.durable.reused;
        self.server = None;
        self.disk.kill();
        let found =
            audit(&self.disk, *key().verifying_key()).map_err(|error| format!("the audit: {error}"))?;
        self.tally.blocks = found.blocks;
        self.check_proofs()?;
        let oracle = &self.durable;
        let is_right = found.issued == oracle.issued
            && found.balances == oracle.held()
            && found.accounts == oracle.accounts.len() as u64
            && found.operations == oracle.number;
        if is_right {
            Ok(())
        } else {
            Err(format!("the audit found {found:?}"))
        }
    }
}

/// Executes the requests as several batches, some of them while earlier ones are being committed.
fn beside(host: &mut Host<SimDisk>, rng: &mut Random, now_s: u64, asked: &[BatchRequest<'_>]) -> Vec<Answer> {
    let mut said = Vec::new();
    let mut rest = asked;
    loop {
        let count = (1 + rng.below(16) as usize).min(rest.len());
        let (group, later) = rest.split_at(count);
        host.execute(now_s, group);
        for _ in 0..rng.below(3) {
            said.extend(host.take(rng.percent(30)).into_iter().flatten());
        }
        rest = later;
        if rest.is_empty() {
            break;
        }
    }
    while let Some(more) = host.take(true) {
        said.extend(more);
    }
    said
}

fn is_full(error: &OpenError) -> bool {
    let is_full = matches!(error, OpenError::Journal(lineside_journal::Error::Full { .. }));
    is_full || matches!(error, OpenError::Ahead(_))
}

/// Returns whether a request was refused as a whole for lack of a valid signature.
fn is_unauthorised(request: &[u8], reply: &[u8]) -> bool {
    request.len() > 22 && [1, 6].contains(&request[3]) && reply.get(5) == Some(&8)
}

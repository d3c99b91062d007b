//! Test that leaves out each fdatasync once and cuts the power afterwards: either the oracle finds the loss, or the
//! sync was unnecessary.

use super::requests::{self, Session, Shape};
use super::server::{RunSettings, Server, start};
use crate::oracle::{HEAD, Oracle, RequiredReply, u32_at, u64_at};
use lineside_fastpath::{BatchRequest, Source};
use lineside_journal::{Op, SimDisk};
use lineside_testkit::Random;
use lineside_transfer::host::SealPolicy;
use std::collections::HashMap;
use std::net::Ipv4Addr;

const FROM: Source = Source {
    address: std::net::IpAddr::V4(Ipv4Addr::LOCALHOST),
    port: 1,
};
const NOW_S: u64 = 1_800_000_000;
const SEAL: SealPolicy = SealPolicy {
    operations: 3,
    seconds: 1_000,
};
fn setting() -> RunSettings {
    RunSettings::durable(SEAL, 12)
}

/// Number of power cuts after each step.
const CUTS: u64 = 6;
/// Seeds of the disks that the script runs on, because the disk decides what a failed sync leaves.
const DISKS: std::ops::Range<u64> = 1..5;

/// Script of a run, with the state that must exist after each step.
struct Script {
    disk: SimDisk,
    rng: Random,
    server: Option<Server>,
    /// State that the replies depend on.
    durable: Oracle,
    /// Another possible state: it also contains a batch that was not answered.
    maybe: Option<Oracle>,
    session: Session,
    sequence: u64,
    /// Name of the step and kind of each sync, in order.
    labels: Vec<(&'static str, Op)>,
    /// Sync to leave out: its kind, and its number among the syncs of this kind, counted from 1.
    skip: Option<(Op, usize)>,
    is_found: bool,
    /// Number of unanswered batches that were on the disk nevertheless after the process was killed.
    kept: u32,
}

impl Script {
    fn new(seed: u64, skip: Option<(Op, usize)>) -> Self {
        let disk = SimDisk::new(seed);
        if let Some((op, n)) = skip {
            disk.skip_nth(op, n as u64);
        }
        Self {
            disk,
            rng: Random(seed),
            server: None,
            durable: setting().oracle(),
            maybe: None,
            session: Session { token: 0, slot: 0 },
            sequence: 0,
            labels: Vec::new(),
            skip,
            is_found: false,
            kept: 0,
        }
    }

    /// Runs a step, then checks the state after a power cut. Does nothing more once a loss was found.
    fn step(&mut self, label: &'static str, act: impl FnOnce(&mut Self)) {
        if self.is_found {
            return;
        }
        let before = self.disk.counts();
        act(self);
        let after = self.disk.counts();
        let label = match self.maybe {
            Some(_) => UNANSWERED,
            None => label,
        };
        for (op, count) in [
            (Op::SyncData, after.sync_datas - before.sync_datas),
            (Op::SyncDir, after.sync_dirs - before.sync_dirs),
        ] {
            self.labels.extend((0..count).map(|_| (label, op)));
        }
        // Before the test leaves out the sync, no state may be missing.
        let is_left_out = self.skip.is_some_and(|(op, n)| {
            let so_far = self.labels.iter().filter(|(_, own)| *own == op);
            so_far.count() >= n
        });
        if is_left_out && !self.is_found {
            self.is_found = (0..CUTS).any(|seed| self.loses(seed));
        }
    }

    /// Returns whether required state is missing after a power cut.
    fn loses(&self, seed: u64) -> bool {
        let disk = self.disk.fork(1000 + seed);
        disk.clear_faults();
        disk.power_cut();
        let Ok(server) = start(&disk, &mut Random(seed), &setting(), None) else {
            return true;
        };
        let is = |oracle: &Oracle| oracle.clone().differs(server.host.ledger()).is_none();
        !is(&self.durable) && !self.maybe.as_ref().is_some_and(is)
    }

    fn open(&mut self) {
        self.server = None;
        let Ok(server) = start(&self.disk, &mut self.rng, &setting(), None) else {
            assert!(self.skip.is_some(), "the ledger does not open");
            self.is_found = true;
            return;
        };
        self.durable.restarted();
        if let Some(mut maybe) = self.maybe.take() {
            maybe.restarted();
            if maybe.differs(server.host.ledger()).is_none() {
                self.durable = maybe;
                self.kept += 1;
                // The client's retry gets the stored reply, and the server writes nothing for it.
                self.sequence += 1;
            }
        }
        assert!(self.skip.is_some() || self.durable.differs(server.host.ledger()).is_none());
        self.server = Some(server);
    }

    /// Sends a request and applies its effect to the expected state if there is a reply; returns `None` if there is no
    /// reply.
    fn ask(&mut self, payload: &[u8]) -> Option<Vec<u8>> {
        let asked = [BatchRequest { from: FROM, payload }];
        let said = self.server.as_mut()?.host.group(NOW_S, &asked);
        let reply = said.into_iter().next()?.reply;
        let mut after = self.durable.clone();
        let expected = after.ask(NOW_S, FROM, payload);
        match &reply {
            Some(reply) => {
                assert!(after.check(NOW_S, FROM, payload, &expected, reply));
                self.durable = after;
            }
            None => {
                assert_ne!(expected, RequiredReply::Nothing);
                self.maybe = Some(after);
            }
        }
        reply
    }

    fn open_session(&mut self) {
        let reply = self.ask(&requests::open(1, [0; 16])).unwrap();
        let challenge = reply[HEAD..HEAD + 16].try_into().unwrap();
        let reply = self.ask(&requests::open(2, challenge)).unwrap();
        self.session = Session {
            token: u64_at(&reply, HEAD + 16),
            slot: u32_at(&reply, HEAD + 32),
        };
    }

    /// Sends a packet of the session; returns whether it was answered.
    fn packet(&mut self) -> bool {
        let sequence = self.sequence + 1;
        let packet = requests::execute(
            &mut self.rng,
            sequence,
            self.session,
            sequence,
            &Shape::default(),
            &mut requests::Earlier::default(),
        );
        let is_answered = self.ask(&packet).is_some();
        self.sequence += u64::from(is_answered);
        is_answered
    }

    /// Makes the next `op` fail, sends requests until it has failed, and kills the process: its written data can still
    /// be read.
    fn fail(&mut self, op: Op) {
        self.disk.fail_nth(op, 1);
        while !self.is_found && self.maybe.is_none() {
            self.step("a group", |script| _ = script.packet());
        }
        self.kill();
    }

    fn kill(&mut self) {
        self.server = None;
        self.disk.kill();
    }

    fn snapshot(&mut self) {
        let taken = self
            .server
            .as_mut()
            .is_some_and(|server| server.host.snapshot().is_ok());
        assert!(taken || self.is_found);
    }

    fn play(mut self) -> Self {
        self.step("first opening", Self::open);
        self.step("opening a session", Self::open_session);
        for _ in 0..14 {
            self.step("a group", |script| assert!(script.packet()));
        }
        self.step("a snapshot", Self::snapshot);
        self.step("opening again", |script| {
            script.kill();
            script.open();
        });
        self.step("a group", |script| assert!(script.packet()));
        for (op, label) in [
            (Op::SyncData, AFTER_SYNC),
            (Op::SyncDir, AFTER_NAMES),
            (Op::SyncData, AFTER_SYNC),
        ] {
            self.fail(op);
            self.step(label, Self::open);
            self.step("a group", |script| assert!(script.packet()));
        }
        self
    }
}

const UNANSWERED: &str = "a group without an answer";
const AFTER_SYNC: &str = "opening after a failed fdatasync";
const AFTER_NAMES: &str = "opening after a failed sync of names";

/// Syncs on which no reply depends. If a snapshot is lost, the journal still has everything. Opening a ledger syncs
/// data that may not be durable, but in these steps the data is durable: all of it where nothing failed, the names
/// where data failed, and the data where names failed.
const NEEDLESS: [(&str, Op); 5] = [
    ("a snapshot", Op::SyncData),
    ("a snapshot", Op::SyncDir),
    ("opening again", Op::SyncDir),
    (UNANSWERED, Op::SyncDir),
    (AFTER_SYNC, Op::SyncDir),
];
/// Syncs on which some replies depend. The first three are syncs of the journal's mark, without which the journal does
/// not open; everything else that the first opening wrote is synced again with the first reply. For the others, a reply
/// depends on the sync if the unanswered batch exists after all, which the disk decides. The first of these others is
/// the sync of a segment that the batch filled, before the name of the next segment failed: an opening that finds the
/// next segment assumes that the full one is durable.
const SOMETIMES: [(&str, Op); 6] = [
    ("first opening", Op::SyncData),
    ("opening again", Op::SyncData),
    (AFTER_NAMES, Op::SyncData),
    (UNANSWERED, Op::SyncData),
    (AFTER_SYNC, Op::SyncData),
    (AFTER_NAMES, Op::SyncDir),
];

#[test]
fn every_omitted_fdatasync_is_detected() {
    // Number of syncs of each kind, and number of those whose omission was not found.
    let mut all: HashMap<(&str, Op), (u32, u32)> = HashMap::new();
    let mut kept = 0;
    for disk in DISKS {
        let plain = Script::new(disk, None).play();
        kept += plain.kept;
        for op in [Op::SyncData, Op::SyncDir] {
            let labels = plain.labels.iter().filter(|(_, own)| *own == op);
            for (n, label) in (1..).zip(labels) {
                let is_found = Script::new(disk, Some((op, n))).play().is_found;
                let count = all.entry(*label).or_default();
                count.0 += 1;
                count.1 += u32::from(is_found);
            }
        }
    }
    assert!(
        kept >= 2,
        "only {kept} unanswered batches were on the disk nevertheless"
    );
    for label in NEEDLESS.iter().chain(&SOMETIMES) {
        assert!(
            all.contains_key(label),
            "the step {label:?} no longer has this sync"
        );
    }
    let is_wrong = |(label, (count, missed)): &(&(&str, Op), &(u32, u32))| match label {
        _ if NEEDLESS.contains(label) => *missed != 0,
        _ if SOMETIMES.contains(label) => *missed == 0,
        _ => missed != count,
    };
    let wrong: Vec<_> = all.iter().filter(is_wrong).collect();
    assert!(
        wrong.is_empty(),
        "(syncs, omissions not found) per step: {wrong:?}; of all: {all:?}"
    );
}

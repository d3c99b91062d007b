//! Mode `express`: refusals by the fast path are limited by source. The host takes over the sessions of a source
//! without credit until it has credit again; all others stay with the fast path.

mod common;

use common::line::{ExpressServer, RING, start, start_on, store, stranger};
use common::{LOOPBACK, NOW_S, execute_packet, key, operation, outcomes, session_packet};
use lineside_fastpath::challenge::UNUSED_S;
use lineside_fastpath::{BatchRequest, Source};
use lineside_journal::{SimDisk, dump};
use lineside_transfer::AccountId;
use lineside_transfer::entry::Entry;
use lineside_transfer::host::audit;
use lineside_wire::{
    Operation, SessionBody, Status, TRANSFER_COMMAND_CREATE as CREATE, TRANSFER_COMMAND_TRANSFER as TRANSFER,
    TRANSFER_FLAG_LINKED as LINKED, TRANSFER_OP_CLOSE, TRANSFER_OP_OPEN, TRANSFER_OP_SESSION,
    TransferCode as Code,
};
use std::sync::atomic::Ordering::SeqCst;
use zerocopy::{FromBytes, FromZeros};

const BUSY: u8 = Status::Busy as u8;

impl ExpressServer {
    fn open(&mut self, from: Source) -> (u32, u64) {
        let body = SessionBody::new_zeroed();
        let (first, _) = self.ask(from, &session_packet(TRANSFER_OP_OPEN, &body));
        let challenge = SessionBody::ref_from_bytes(&first[16..]).unwrap().challenge;
        let body = SessionBody { challenge, ..body };
        let (second, _) = self.ask(from, &session_packet(TRANSFER_OP_OPEN, &body));
        let body = SessionBody::ref_from_bytes(&second[16..]).unwrap();
        (body.slot.get(), body.token.get())
    }

    /// Queries a session, or closes it.
    fn session(&mut self, op: u8, from: Source, session: (u32, u64)) -> SessionBody {
        let body = SessionBody {
            slot: session.0.into(),
            token: session.1.into(),
            ..SessionBody::new_zeroed()
        };
        let (reply, _) = self.ask(from, &session_packet(op, &body));
        assert_eq!(reply[5], 0);
        *SessionBody::ref_from_bytes(&reply[16..]).unwrap()
    }

    /// Sends refused packets of a session as fast as possible, until the fast path or the host replies `busy`: the ring
    /// is full, or there is no credit. `sequence` is the sequence number of the next packet.
    fn overwhelm(&mut self, from: Source, session: (u32, u64), sequence: &mut u64) {
        loop {
            let (reply, _) = self.ask(from, &nowhere(session, *sequence));
            if reply[5] == BUSY {
                return;
            }
            assert_eq!(outcomes(&reply), [(Code::UnknownAccount, 0)]);
            *sequence += 1;
        }
    }

    fn is_claimed(&self, session: (u32, u64)) -> bool {
        let place = &self.store.sessions.as_slice()[session.0 as usize];
        place.claimed.load(SeqCst) != 0
    }

    /// Sends refused packets until the session of this source is withheld; returns the sequence number of its next
    /// packet.
    fn withhold(&mut self, from: Source, session: (u32, u64)) -> u64 {
        let mut sequence = 1;
        while !self.is_claimed(session) {
            assert!(sequence < 10_000, "the session is never withheld");
            self.overwhelm(from, session, &mut sequence);
            self.host.tick(self.now_s);
        }
        sequence
    }

    /// Checks that fast path and ledger are in sync.
    fn check(&mut self) {
        self.host.drain();
        assert_eq!((self.host.failed(), self.host.unjournaled()), (None, 0));
        for (slot, session) in self.host.ledger().sessions() {
            let place = &self.store.sessions.as_slice()[slot as usize];
            let fastpath = (place.token.load(SeqCst), place.sequence.load(SeqCst));
            assert_eq!(fastpath, (session.token, session.sequence), "session {slot}");
        }
    }
}

/// Returns a packet that is refused.
fn nowhere(session: (u32, u64), sequence: u64) -> Vec<u8> {
    execute_packet(session, sequence, &[operation(TRANSFER, 77, 78, 1)])
}

fn good(session: (u32, u64), sequence: u64) -> Vec<u8> {
    execute_packet(session, sequence, &[operation(TRANSFER, 1, 2, 1)])
}

/// Returns the number of refused packets in the journal.
fn refusals(disk: &SimDisk) -> u64 {
    let mut count = 0;
    dump(disk, 1, |record| {
        let entry = Entry::from_record(record.kind, record.payload);
        count += u64::from(matches!(entry, Some(Entry::Refused { .. })));
    })
    .unwrap();
    count
}

#[test]
fn a_source_that_is_always_refused_is_limited_and_others_stay_with_the_fast_path() {
    const SECONDS: u64 = 20;
    let disk = SimDisk::new(1);
    let mut line = start(&disk, 16);
    let (attacker, honest) = (stranger(1), stranger(2));
    let (session, other) = (line.open(attacker), line.open(honest));
    let (mut sequence, mut others) = (1, 1);
    for second in 0..SECONDS {
        line.now_s = NOW_S + second;
        for _ in 0..50 {
            line.overwhelm(attacker, session, &mut sequence);
            line.host.tick(line.now_s);
            let (reply, by_fastpath) = line.ask(honest, &good(other, others));
            assert_eq!(outcomes(&reply), [(Code::Done, 1_000_000 - others)]);
            assert!(by_fastpath, "packet {others} of another address");
            others += 1;
        }
    }
    let written = refusals(&disk);
    assert_eq!(written, sequence - 1);
    // The most is the burst, the rate, the content of one ring, and one refusal in four seconds.
    let most = 16 * 60 + 16 * SECONDS + RING + SECONDS / 4;
    assert!((16 * 60..=most).contains(&written), "{written} of {most}");
    line.check();
    // The network pays its debt at the rate; then the fast path answers the session again.
    line.now_s += 60;
    line.host.tick(line.now_s);
    let (reply, by_fastpath) = line.ask(attacker, &good(session, sequence));
    assert_eq!(outcomes(&reply), [(Code::Done, 1_000_000 - others)]);
    assert!(by_fastpath);
    line.check();
    let ledger = line.host.ledger().to_bytes();
    drop(line);
    disk.power_cut();
    let line = start_on(&disk, store(), 16);
    assert_eq!(line.host.ledger().to_bytes(), ledger);
    assert_eq!(
        audit(&disk, *key().verifying_key()).unwrap().operations,
        2 + others
    );
}

#[test]
fn a_trusted_source_is_not_limited() {
    let disk = SimDisk::new(2);
    let mut line = start(&disk, 1);
    let (session, mut sequence) = (line.open(LOOPBACK), 1);
    for _ in 0..10 {
        line.overwhelm(LOOPBACK, session, &mut sequence);
        line.host.tick(line.now_s);
    }
    assert!(sequence > 10 * 60 && !line.is_claimed(session));
}

#[test]
fn the_host_executes_a_withheld_session_and_other_sessions_continue() {
    let disk = SimDisk::new(3);
    let mut line = start(&disk, 1);
    let attacker = stranger(1);
    let session = line.open(attacker);
    let sequence = line.withhold(attacker, session);
    let (again, by_fastpath) = line.ask(attacker, &nowhere(session, sequence - 1));
    assert_eq!(outcomes(&again), [(Code::UnknownAccount, 0)]);
    assert!(!by_fastpath);
    let told = line.session(TRANSFER_OP_SESSION, attacker, session);
    assert_eq!(told.sequence.get(), sequence);
    // The host does not record the refusals of this session, except one from time to time.
    for _ in 0..3 {
        let (busy, _) = line.ask(attacker, &nowhere(session, sequence));
        assert_eq!(busy[5], BUSY);
    }
    // The host executes valid packets.
    let before = line
        .host
        .ledger()
        .account(&AccountId::from_paper(1))
        .unwrap()
        .holding
        .balance;
    let (reply, by_fastpath) = line.ask(stranger(9), &good(session, sequence));
    assert_eq!(
        (outcomes(&reply), by_fastpath),
        (vec![(Code::Done, before - 1)], false)
    );
    assert_eq!(line.ask(attacker, &good(session, sequence)).0, reply);
    line.check();
    let mut chain = [Operation {
        flags: LINKED,
        ..operation(TRANSFER, 1, 2, 1)
    }; 17];
    chain[16].flags = 0;
    assert_eq!(line.host.counts().rests, 0);
    // The fast path pauses for another client, and afterwards continues with everything except the withheld session.
    let issuer = line.open(LOOPBACK);
    chain[0] = Operation {
        flags: LINKED,
        ..operation(CREATE, 5, 0, 1)
    };
    let (made, _) = line.ask(LOOPBACK, &execute_packet(issuer, 1, &chain));
    assert_eq!(outcomes(&made)[0], (Code::Done, 1));
    assert_eq!(line.host.counts().rests, 1);
    assert!(line.is_claimed(session) && !line.is_claimed(issuer));
    assert!(line.ask(LOOPBACK, &good(issuer, 2)).1);
    line.check();
}

#[test]
fn closing_a_withheld_session_gives_its_slot_back_to_the_fast_path() {
    // The session is claimed because it is being closed, or the fast path is paused for an account of the same batch.
    for rests in [false, true] {
        let disk = SimDisk::new(4);
        let mut line = start(&disk, 1);
        let (attacker, honest) = (stranger(1), stranger(2));
        let (session, issuer) = (line.open(attacker), line.open(LOOPBACK));
        line.withhold(attacker, session);
        let body = SessionBody {
            slot: session.0.into(),
            token: session.1.into(),
            ..SessionBody::new_zeroed()
        };
        let close = session_packet(TRANSFER_OP_CLOSE, &body);
        let chain = [
            Operation {
                flags: LINKED,
                ..operation(CREATE, 5, 0, 1)
            },
            operation(TRANSFER, 1, 2, 1),
        ];
        let make = execute_packet(issuer, 1, &chain);
        let mut asked = vec![BatchRequest {
            from: attacker,
            payload: &close,
        }];
        if rests {
            asked.push(BatchRequest {
                from: LOOPBACK,
                payload: &make,
            });
        }
        let said = line.host.group(line.now_s, &asked);
        assert!(said.iter().all(|said| said.reply.as_ref().unwrap()[5] == 0));
        assert_eq!(line.host.counts().rests, u64::from(rests));
        assert!(!line.is_claimed(session));
        let next = line.open(honest);
        assert_eq!((next.0, next.1 == session.1), (session.0, false));
        let (reply, by_fastpath) = line.ask(honest, &good(next, 1));
        assert!(by_fastpath && outcomes(&reply)[0].0 == Code::Done);
        line.check();
    }
}

#[test]
fn opening_and_closing_sessions_does_not_avoid_the_limit() {
    let disk = SimDisk::new(5);
    let mut line = start(&disk, 1);
    let (attacker, mut rounds) = (stranger(1), 0);
    let opened = |line: &mut ExpressServer| {
        let body = SessionBody::new_zeroed();
        let first = line.host_says(attacker, &session_packet(TRANSFER_OP_OPEN, &body));
        let challenge = SessionBody::ref_from_bytes(&first[16..]).unwrap().challenge;
        let body = SessionBody { challenge, ..body };
        let second = line.host_says(attacker, &session_packet(TRANSFER_OP_OPEN, &body));
        let granted = SessionBody::ref_from_bytes(&second[16..]).ok();
        granted.map(|body| (body.slot.get(), body.token.get()))
    };
    while let Some(session) = opened(&mut line) {
        line.overwhelm(attacker, session, &mut 1);
        // The host charges the records in the ring before the session is closed.
        line.session(TRANSFER_OP_CLOSE, attacker, session);
        rounds += 1;
        assert!(rounds < 100, "there is no limit");
    }
    // Each session may have one refusal without credit.
    assert!(refusals(&disk) <= 60 + RING + rounds);
}

#[test]
fn a_session_whose_use_is_only_in_a_ring_is_not_closed() {
    let disk = SimDisk::new(8);
    let mut line = start(&disk, 1000);
    let address = |number: u16| Source {
        address: [198, 51, (number >> 8) as u8, number as u8].into(),
        port: 5_000,
    };
    let user = address(0);
    let session = line.open(user);
    for number in 1..192 {
        line.open(address(number));
    }
    // The fast path's record is still in its ring when a slot is needed.
    line.now_s += UNUSED_S;
    assert!(line.ask(user, &good(session, 1)).1);
    for number in 500..600 {
        line.open(address(number));
    }
    assert_eq!(line.host.ledger().session_count(), 192);
    let (reply, by_fastpath) = line.ask(user, &good(session, 2));
    assert!(by_fastpath && outcomes(&reply)[0].0 == Code::Done);
    line.check();
    // Several newcomers in one batch get one slot each.
    let body = SessionBody::new_zeroed();
    let mut packets = Vec::new();
    for number in 700..708 {
        let from = address(number);
        let (first, _) = line.ask(from, &session_packet(TRANSFER_OP_OPEN, &body));
        let challenge = SessionBody::ref_from_bytes(&first[16..]).unwrap().challenge;
        packets.push((
            from,
            session_packet(TRANSFER_OP_OPEN, &SessionBody { challenge, ..body }),
        ));
    }
    let asked: Vec<BatchRequest<'_>> = packets
        .iter()
        .map(|(from, payload)| BatchRequest { from: *from, payload })
        .collect();
    let said = line.host.group(line.now_s, &asked);
    assert!(said.iter().all(|said| said.reply.as_ref().unwrap()[5] == 0));
    line.check();
}

#[test]
fn a_host_that_ends_gives_back_withheld_sessions() {
    let disk = SimDisk::new(6);
    let mut line = start(&disk, 1);
    let attacker = stranger(1);
    let session = line.open(attacker);
    let sequence = line.withhold(attacker, session);
    let ExpressServer { store, .. } = line;
    let mut line = start_on(&disk, store, 1);
    assert!(!line.is_claimed(session));
    let (reply, by_fastpath) = line.ask(attacker, &good(session, sequence));
    assert!(by_fastpath && outcomes(&reply)[0].0 == Code::Done);
    line.check();
}

#[test]
fn a_session_that_cannot_be_claimed_is_claimed_after_its_next_refusal() {
    let disk = SimDisk::new(7);
    let mut line = start(&disk, 1);
    let attacker = stranger(1);
    let session = line.open(attacker);
    let mut sequence = 1;
    line.claims.fails.store(1, SeqCst);
    line.overwhelm(attacker, session, &mut sequence);
    line.host.tick(line.now_s);
    assert_eq!(line.claims.fails.load(SeqCst), 0);
    assert!(!line.is_claimed(session));
    assert!(line.ask(attacker, &nowhere(session, sequence)).1);
    line.host.tick(line.now_s);
    assert!(line.is_claimed(session));
    line.check();
}

//! The fast path in `express`, on one thread, compared with the oracle: every reply, every refusal, and the records in
//! its ring.

mod oracle;
#[allow(dead_code, reason = "the simulator uses the rest")]
#[path = "simulator/requests.rs"]
mod requests;
#[allow(dead_code, reason = "the simulator uses the rest")]
use lineside_fastpath::{FastPath, Reply, Source, Verdict};
use lineside_testkit::Random;
use lineside_transfer::fastpath::TransferFastPath;
use lineside_transfer::ring::{NO_SESSION, Record, Ring};
use lineside_transfer::store::{Geometry, Mode, Store};
use lineside_wire::{
    Status, TRANSFER_COMMAND_CREATE as CREATE, TRANSFER_COMMAND_FREEZE as FREEZE,
    TRANSFER_COMMAND_ISSUE as ISSUE, TRANSFER_COMMAND_TRANSFER as TRANSFER, TRANSFER_LINE_OPERATIONS_MAX,
    TRANSFER_OP_EXECUTE, TRANSFER_OP_REFER, TransferCode as Code,
};
use oracle::{
    EXECUTE_HEAD, HEAD, Id, OPERATION, Oracle, RequiredReply, id_at, paper_id, u16_at, u32_at, u64_at,
};
use requests::Session;
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

const LOOPBACK: Source = Source {
    address: std::net::IpAddr::V4(Ipv4Addr::LOCALHOST),
    port: 1,
};
const ELSEWHERE: Source = Source {
    address: std::net::IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7)),
    port: 1,
};

/// State of an account that follows from the records alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ReplayedAccount {
    balance: u64,
    version: u64,
    frozen: bool,
    owner: Id,
    /// Transaction id and code of the last numbered request.
    last: Option<(u32, u16)>,
}

/// Sequence number and checksum of a packet, and the codes and amounts of its operations.
type ReplayedPacket = (u64, u64, Vec<(u16, u64)>);

/// The fast path, its oracle, and the state that results from replaying its records.
struct ReplayedFastPath {
    store: Arc<Store>,
    fastpath: TransferFastPath,
    oracle: Oracle,
    told: BTreeMap<Id, ReplayedAccount>,
    /// Last packet, by slot.
    told_sessions: BTreeMap<u32, ReplayedPacket>,
    read: u64,
    codes: BTreeSet<u16>,
    statuses: BTreeSet<u16>,
    busy: u64,
}

impl ReplayedFastPath {
    fn new(account_bits: u32) -> Self {
        let geometry = Geometry {
            account_bits,
            sessions: 4,
            rings: 1,
            ring_bits: 4,
            mode: Mode::Express,
            ..Geometry::default()
        };
        let store = Arc::new(Store::anonymous(&geometry).unwrap());
        store.control().lease_until_ns.store(1_000, Relaxed);
        let mut oracle = Oracle::new(usize::MAX, 4, 4);
        oracle.is_express = true;
        Self {
            fastpath: TransferFastPath::new(Arc::clone(&store)),
            store,
            oracle,
            told: BTreeMap::new(),
            told_sessions: BTreeMap::new(),
            read: 0,
            codes: BTreeSet::new(),
            statuses: BTreeSet::new(),
            busy: 0,
        }
    }

    /// Opens a session in the fast-path table, as the host (the thread that owns the ledger) does.
    fn open(&mut self, slot: u32, token: u64) -> Session {
        self.store.sessions.as_slice()[slot as usize]
            .token
            .store(token, Relaxed);
        let session = oracle::Session {
            token: Some(token),
            ..oracle::Session::default()
        };
        self.oracle.sessions.insert(slot, session);
        Session { token, slot }
    }

    fn ring(&self) -> Ring<'_> {
        Ring::of(&self.store, 0)
    }

    /// Sends a request to the fast path, and checks its reply and its effects.
    fn ask(&mut self, from: Source, payload: &[u8]) {
        let mut after = self.oracle.clone();
        let said = after.ask(0, from, payload);
        let room = self.ring().free_records();
        let mut reply = Reply::default();
        let verdict = self.fastpath.answer(from, 1, payload, &mut reply);
        if said == RequiredReply::Nothing {
            assert!(
                matches!(verdict, Verdict::Drop(_)),
                "unexpected verdict {verdict:?} for {payload:02x?}"
            );
            return;
        }
        if !is_fastpaths(payload, &said) {
            assert_eq!(verdict, Verdict::Forward, "{payload:02x?}");
            assert_eq!(self.ring().free_records(), room);
            return;
        }
        let expected = match self.busy_reply(from, payload, &after, room) {
            Some(busy) => {
                after = self.oracle.clone();
                self.busy += 1;
                busy
            }
            None => match said {
                RequiredReply::Reply(reply) => reply,
                said => panic!("{said:?}"),
            },
        };
        assert_eq!(verdict, Verdict::Reply);
        assert_eq!(reply.as_bytes(), expected, "wrong reply to {payload:02x?}");
        self.oracle = after;
        self.count(&expected);
    }

    /// Returns the expected reply if the ring has no room for a request.
    fn busy_reply(&self, from: Source, payload: &[u8], after: &Oracle, room: u64) -> Option<Vec<u8>> {
        let mut reply = payload.to_vec();
        if (20..=22).contains(&payload.len()) {
            let command = u32_at(payload, 0);
            let may = command == u32::from(TRANSFER) || from.address.is_loopback();
            let moves = command != u32::from(TRANSFER) || u32_at(payload, 16) != 0;
            let is_padded = payload[20..].iter().all(|byte| *byte == 0);
            let writes = (1..=3).contains(&command) && may && moves && is_padded;
            reply[0] |= 0x80;
            reply[16..20].copy_from_slice(&(Code::Busy as u32).to_be_bytes());
            return (writes && room == 0).then_some(reply);
        }
        if payload[3] != TRANSFER_OP_EXECUTE {
            return None;
        }
        let slot = u32_at(payload, HEAD + 16);
        let before = self.oracle.sessions.get(&slot)?.sequence;
        let executes = after.sessions[&slot].sequence != before;
        let operations = (payload.len() - HEAD - EXECUTE_HEAD) / OPERATION;
        reply[3] |= 0x80;
        reply[5] = Status::Busy as u8;
        reply[HEAD + 8..HEAD + 16].copy_from_slice(&(before + 1).to_be_bytes());
        (executes && room < operations as u64).then_some(reply)
    }

    fn count(&mut self, reply: &[u8]) {
        if (20..=22).contains(&reply.len()) {
            let is_refused = u32_at(reply, 0) >> 31 != 0;
            self.codes
                .insert(if is_refused { u32_at(reply, 16) as u16 } else { 0 });
            return;
        }
        self.statuses.insert(u16_at(reply, 4));
        if reply[3] == TRANSFER_OP_EXECUTE | 0x80 && reply[5] == 0 {
            let operations = reply[HEAD + EXECUTE_HEAD..].chunks(OPERATION);
            self.codes
                .extend(operations.map(|operation| u16_at(operation, 2)));
        }
    }

    // ---- records in the ring ----

    fn drain(&mut self) {
        let mut read = self.read;
        while let Some(record) = self.ring().read(read) {
            self.replay(&record);
            read += 1;
        }
        self.ring().release(read);
        self.read = read;
        assert_eq!(self.ring().waiting(), 0);
    }

    /// Applies a record.
    fn replay(&mut self, record: &Record) {
        let is_paper = record.slot == NO_SESSION;
        let (source, destination) = (record.source.0, record.destination.0);
        let is_done = record.code == Code::Done as u16;
        if is_done && record.command == TRANSFER {
            let to = self.told.get_mut(&destination).unwrap();
            to.balance += record.amount;
            to.version += 1;
            assert_eq!(
                to.version, record.destination_version,
                "a version is missing before {record:?}"
            );
        }
        if is_done || record.source_version != 0 {
            if is_done && record.command == CREATE {
                assert!(!self.told.contains_key(&source));
                let owner = if is_paper { [0; 16] } else { destination };
                self.told.insert(
                    source,
                    ReplayedAccount {
                        owner,
                        ..ReplayedAccount::default()
                    },
                );
            }
            let from = self.told.get_mut(&source).unwrap();
            from.version += 1;
            assert_eq!(
                from.version, record.source_version,
                "a version is missing before {record:?}"
            );
            match record.command {
                _ if !is_done => {}
                CREATE | ISSUE => from.balance += record.amount,
                TRANSFER => from.balance -= record.amount,
                command => from.frozen = command == FREEZE,
            }
            if is_done {
                assert_eq!(from.balance, record.source_balance, "{record:?}");
            }
            if is_paper && record.sequence != 0 {
                from.last = Some((record.sequence as u32, record.code));
            }
        }
        if !is_paper {
            let session = self.told_sessions.entry(record.slot).or_default();
            if record.index == 0 {
                assert_eq!(record.sequence, session.0 + 1, "a packet is missing");
                *session = (record.sequence, record.sum, Vec::new());
            }
            assert_eq!((record.sequence, record.sum), (session.0, session.1));
            assert_eq!(usize::from(record.index), session.2.len());
            session.2.push((record.code, record.source_balance));
            assert!(record.index < record.count);
        }
    }

    /// Checks that the cells, the oracle and the replayed records agree, and that the sum of all balances is unchanged.
    fn check(&mut self) {
        self.drain();
        assert_eq!(self.oracle.fault(), None);
        for id in requests::accounts() {
            self.ask(LOOPBACK, &requests::refer_to(1, &[id]));
        }
        assert_eq!(self.told.len(), self.oracle.accounts.len());
        for (id, account) in &self.oracle.accounts {
            let last = account.last.map(|(request, reply)| {
                let code = if reply[0] & 0x80 != 0 {
                    u32_at(&reply, 16) as u16
                } else {
                    0
                };
                (u32_at(&request, 4), code)
            });
            let told = ReplayedAccount {
                balance: account.balance,
                version: account.version,
                frozen: account.frozen,
                owner: account.owner,
                last,
            };
            assert_eq!(self.told.get(id), Some(&told), "{id:02x?}");
        }
        for (slot, session) in &self.oracle.sessions {
            let outcomes: Vec<_> = session
                .outcomes
                .iter()
                .map(|outcome| (outcome.0, outcome.1))
                .collect();
            let (sequence, sum, told) = self.told_sessions.get(slot).cloned().unwrap_or_default();
            assert_eq!((sequence, &told), (session.sequence, &outcomes));
            let stored = &self.store.sessions.as_slice()[*slot as usize];
            assert_eq!(
                (stored.sequence.load(Relaxed), stored.sum.load(Relaxed)),
                (sequence, sum)
            );
        }
    }
}

/// Returns whether the fast path must answer this request itself.
fn is_fastpaths(payload: &[u8], said: &RequiredReply) -> bool {
    if (20..=22).contains(&payload.len()) {
        return true;
    }
    if matches!(said, RequiredReply::Reply(reply) if reply.len() == HEAD)
        || !matches!(said, RequiredReply::Reply(_))
    {
        return false;
    }
    match payload[3] {
        TRANSFER_OP_REFER => true,
        TRANSFER_OP_EXECUTE => {
            let operations = payload[HEAD + EXECUTE_HEAD..].chunks(OPERATION);
            operations.len() <= TRANSFER_LINE_OPERATIONS_MAX
                && operations
                    .clone()
                    .all(|operation| operation[1] == 0 && u32_at(operation, 4) == 0)
        }
        _ => false,
    }
}

/// Returns a packet of a session; three of four contain only operations that the fast path executes.
fn packet(rng: &mut Random, session: Session, sequence: u64) -> Vec<u8> {
    let mut packet = requests::execute(
        rng,
        sequence,
        session,
        sequence,
        &requests::Shape::default(),
        &mut requests::Earlier::default(),
    );
    if rng.percent(75) {
        packet.truncate(HEAD + EXECUTE_HEAD + OPERATION * TRANSFER_LINE_OPERATIONS_MAX);
        let body_bytes = packet.len() - HEAD;
        packet[6..8].copy_from_slice(&(body_bytes as u16).to_be_bytes());
        packet[HEAD + 21] = ((body_bytes - EXECUTE_HEAD) / OPERATION) as u8;
        for operation in packet[HEAD + EXECUTE_HEAD..].chunks_mut(OPERATION) {
            operation[1] = 0;
            operation[4..8].fill(0);
            operation[84..].fill(0);
        }
    }
    packet
}

#[test]
fn replies_match_the_oracle_and_the_records_reproduce_the_state() {
    let (mut codes, mut statuses, mut busy) = (BTreeSet::new(), BTreeSet::new(), 0);
    for seed in 0..40 {
        let mut rng = Random(seed);
        let mut line = ReplayedFastPath::new(12);
        let sessions: Vec<Session> = (0..3).map(|slot| line.open(slot, rng.next() | 1)).collect();
        let mut seen: Vec<Vec<u8>> = Vec::new();
        let mut last_id = 0;
        for _ in 0..400 {
            let from = *rng.pick(&[LOOPBACK, LOOPBACK, ELSEWHERE]);
            let payload = match rng.below(10) {
                0..4 => {
                    last_id += rng.below(2) as u32;
                    let id = if rng.percent(60) { last_id } else { 0 };
                    requests::paper(&mut rng, id, &[1, 2, 3, 4, 5]).0
                }
                4..7 => {
                    let session = *rng.pick(&sessions);
                    let sequence = line.oracle.sessions[&session.slot].sequence + 1;
                    packet(&mut rng, session, sequence)
                }
                7 => requests::refer(&mut rng, 9),
                8 if !seen.is_empty() => rng.pick(&seen).clone(),
                9 if !seen.is_empty() => {
                    let of = rng.pick(&seen).clone();
                    requests::stolen(&mut rng, &of)
                }
                _ => continue,
            };
            line.ask(from, &payload);
            seen.push(payload);
            // The client repeats the newest request, at once or later.
            if rng.percent(20) {
                let newest = seen[seen.len() - 1].clone();
                line.ask(from, &newest);
            }
            if seen.len() > 20 {
                seen.remove(0);
            }
            if rng.percent(8) {
                line.check();
            }
        }
        line.check();
        codes.extend(line.codes);
        statuses.extend(line.statuses);
        busy += line.busy;
    }
    let expected: BTreeSet<u16> = (0..=12).filter(|code| *code != Code::StoreFull as u16).collect();
    assert_eq!(codes, expected, "every expected code occurred, and no other code");
    let expected = [
        Status::Ok,
        Status::Busy,
        Status::NoSession,
        Status::Sequence,
        Status::Reused,
    ];
    assert_eq!(statuses, expected.map(|status| status as u16).into());
    assert!(busy > 100, "the fast path was busy only {busy} times");
}

fn paper(command: u8, id: u32, source: u32, destination: u32, amount: u32) -> Vec<u8> {
    let words = [command.into(), id, source, destination, amount];
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

#[test]
fn a_full_bucket_refuses_new_accounts() {
    let mut line = ReplayedFastPath::new(1);
    // The table has two buckets of four cells.
    for account in 1..=8 {
        line.ask(LOOPBACK, &paper(CREATE, 1, account, 0, account));
        line.drain();
    }
    line.oracle.accounts_max = 8;
    for id in [0, 1, 2] {
        line.ask(LOOPBACK, &paper(CREATE, id, 9, 0, 5));
    }
    assert!(line.codes.contains(&(Code::StoreFull as u16)));
    assert_eq!(
        line.ring().waiting(),
        0,
        "a request that changes nothing and uses no id is not recorded"
    );
    let session = line.open(0, 7);
    let mut packet = requests::execute(
        &mut Random(1),
        1,
        session,
        1,
        &requests::Shape::default(),
        &mut requests::Earlier::default(),
    );
    packet.truncate(HEAD + EXECUTE_HEAD);
    let mut create = [0; OPERATION];
    create[0] = CREATE;
    create[8..24].copy_from_slice(&paper_id(9));
    packet.extend(create);
    packet[6..8].copy_from_slice(&((EXECUTE_HEAD + OPERATION) as u16).to_be_bytes());
    packet[HEAD + 21] = 1;
    line.ask(LOOPBACK, &packet);
    assert_eq!(line.ring().waiting(), 1, "a session's refusal uses a sequence");
    line.ask(LOOPBACK, &packet);
    line.check();
}

#[test]
fn without_a_lease_or_a_signature_the_fast_path_forwards_everything() {
    let mut line = ReplayedFastPath::new(12);
    line.ask(LOOPBACK, &paper(CREATE, 1, 1, 0, 50));
    let write = paper(ISSUE, 2, 1, 0, 1);
    let verdict = line
        .fastpath
        .answer(LOOPBACK, 1_000, &write, &mut Reply::default());
    assert_eq!(verdict, Verdict::Forward, "the lease has ended at 1,000 ns");
    line.check();
    line.store.control().require_signature.store(1, Relaxed);
    let mut reply = Reply::default();
    assert_eq!(
        line.fastpath.answer(LOOPBACK, 1, &write, &mut reply),
        Verdict::Reply
    );
    assert_eq!(u32_at(reply.as_bytes(), 16), Code::Unauthorised as u32);
    let session = line.open(0, 7);
    let signed = packet(&mut Random(3), session, 1);
    let verdict = line.fastpath.answer(LOOPBACK, 1, &signed, &mut Reply::default());
    assert_eq!(verdict, Verdict::Forward, "the host checks signatures");
    line.check();
    assert_eq!(id_at(&paper_id(1), 0), paper_id(1));
    assert_eq!(u64_at(&signed, HEAD), 7);
}

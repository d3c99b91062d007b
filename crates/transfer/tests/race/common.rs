//! Concurrent requests of two threads to one fast path, and the invariants afterwards, for every datapath.

use lineside_testkit::Random;
use lineside_transfer::AccountId;
use lineside_transfer::claims::Claims;
use lineside_transfer::layout::TransferCell;
use lineside_transfer::ledger::Change;
use lineside_transfer::paper::PaperRequest;
use lineside_transfer::ring::{NO_SESSION, Record, Ring};
use lineside_transfer::rules::Holding;
use lineside_transfer::store::{Geometry, Mode, Range, Store};
use lineside_wire::{
    BalanceItem, ExecuteHead, NativeHeader, Operation, ReferHead, TRANSFER_CELL_CLAIMED,
    TRANSFER_COMMAND_CREATE, TRANSFER_COMMAND_ISSUE, TRANSFER_COMMAND_REFER, TRANSFER_COMMAND_TRANSFER,
    TRANSFER_OP_EXECUTE, TRANSFER_OP_REFER, TRANSFER_PAPER_REFUSED, TRANSFER_REFER_MAX, TransferCode as Code,
    native,
};
use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// Function that sends a payload to the fast path on thread 0 or 1. `None` means that the fast path forwards it to the
/// host.
pub type Ask<'a> = dyn Fn(usize, &[u8]) -> Option<Vec<u8>> + Sync + 'a;

/// Address of the client.
pub const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 9);

/// Number of accounts: few, so that the threads collide all the time.
const ACCOUNTS: u32 = 4;
/// Source account of the requests with transaction ids that both threads send.
const NUMBERED: u32 = 9;
const OPENING: u32 = 1_000_000;
/// Session whose packets both threads send; sessions 0 and 1 belong to one thread each.
const SHARED_SLOT: u32 = 2;

/// Geometry for mode `express`: rings that fill up, and so few cells that accounts share buckets.
pub fn geometry(rings: u32) -> Geometry {
    Geometry {
        account_bits: 3,
        sessions: 3,
        rings,
        ring_bits: 8,
        mode: Mode::Express,
        issuers: vec![Range {
            address: CLIENT.into(),
            prefix_bits: 8,
        }],
        ..Geometry::default()
    }
}

/// Reads records from the rings like the journal.
struct Journal<'a> {
    store: &'a Store,
    records: Mutex<Vec<Record>>,
}

impl Journal<'_> {
    fn drain(&self) {
        let Ok(mut records) = self.records.try_lock() else {
            return;
        };
        for index in 0..self.store.rings.as_slice().len() {
            let ring = Ring::of(self.store, index);
            let first = ring.tail();
            let last = first + ring.waiting();
            records.extend((first..last).map(|at| ring.read(at).expect("a record that is waiting is whole")));
            ring.release(last);
        }
    }
}

fn token(slot: u32) -> u64 {
    0xfeed_0000_0000_0001 | u64::from(slot) << 16
}

fn paper_code(reply: &[u8]) -> Code {
    let word = |at: usize| u32::from_be_bytes(reply[at..at + 4].try_into().expect("four bytes"));
    match word(0) & TRANSFER_PAPER_REFUSED {
        0 => Code::Done,
        _ => Code::from_code(word(16) as u16).expect("a code"),
    }
}

fn paper_amount(reply: &[u8]) -> u64 {
    u32::from_be_bytes(reply[16..20].try_into().expect("four bytes")).into()
}

fn transfer(source: u32, destination: u32, amount: u32) -> Operation {
    let mut operation = Operation::new_zeroed();
    operation.command = TRANSFER_COMMAND_TRANSFER;
    operation.source = AccountId::from_paper(source).0;
    operation.destination = AccountId::from_paper(destination).0;
    operation.amount = u64::from(amount).into();
    operation
}

fn execute(slot: u32, sequence: u64, operations: &[Operation]) -> Vec<u8> {
    let head = ExecuteHead {
        token: token(slot).into(),
        sequence: sequence.into(),
        slot: slot.into(),
        count: (operations.len() as u16).into(),
        durability: 0.into(),
    };
    let body = size_of_val(&head) + size_of_val(operations);
    let mut packet = native::request_header(TRANSFER_OP_EXECUTE, sequence, body as u16)
        .as_bytes()
        .to_vec();
    packet.extend_from_slice(head.as_bytes());
    packet.extend_from_slice(operations.as_bytes());
    packet
}

/// Sends a packet until the fast path executes it, because a lock may be busy or the ring full.
fn insist(journal: &Journal<'_>, ask: &Ask<'_>, thread: usize, packet: &[u8]) -> Vec<u8> {
    loop {
        let reply = ask(thread, packet).expect("the fast path executes it");
        let busy = match native::is_native(packet) {
            true => {
                NativeHeader::ref_from_prefix(&reply)
                    .expect("a header")
                    .0
                    .status
                    .get()
                    != 0
            }
            false => paper_code(&reply) == Code::Busy,
        };
        if !busy {
            return reply;
        }
        if native::is_native(packet) {
            let status = NativeHeader::ref_from_prefix(&reply)
                .expect("a header")
                .0
                .status
                .get();
            assert_eq!(
                status,
                lineside_wire::Status::Busy as u16,
                "the only permitted refusal"
            );
        }
        journal.drain();
    }
}

/// Opens the sessions, and creates the accounts.
#[allow(dead_code, reason = "not every test that has this file needs it")]
pub fn open(store: &Store, ask: &Ask<'_>) {
    let records = Mutex::default();
    open_all(&Journal { store, records }, ask);
}

fn open_all(journal: &Journal<'_>, ask: &Ask<'_>) {
    for (slot, session) in journal.store.sessions.as_slice().iter().enumerate() {
        session.token.store(token(slot as u32), Relaxed);
    }
    for id in (1..=ACCOUNTS).chain([NUMBERED]) {
        let request = PaperRequest::new(TRANSFER_COMMAND_CREATE, 0, id, 0, OPENING).to_bytes();
        let reply = insist(journal, ask, 0, &request);
        assert_eq!(paper_code(&reply), Code::Done);
    }
}

/// Runs random transfers on two threads, each with a session of its own, and rounds in which both send the same packet
/// of one session and the same request with a transaction id.
pub fn conserve(store: &Store, ask: &Ask<'_>, rounds: u64) {
    let journal = Journal {
        store,
        records: Mutex::default(),
    };
    open_all(&journal, ask);
    let replies = [const { Mutex::new(Vec::new()) }; 2];
    let at = [const { AtomicUsize::new(0) }; 2];
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (journal, replies, at) = (&journal, &replies, &at);
            scope.spawn(move || {
                let _end = End(&at[thread]);
                let mut random = Random(thread as u64 + 1);
                let mut shared = Random(77);
                let mut sequence = 0;
                for round in 1..=rounds {
                    alone(journal, ask, thread, &mut random, &mut sequence);
                    let said = together(journal, ask, thread, &mut shared, round);
                    replies[thread].lock().expect("replies").push(said);
                    // The next round begins when both threads have their replies in this round.
                    at[thread].store(round as usize, SeqCst);
                    while at[1 - thread].load(SeqCst) < round as usize {
                        std::thread::yield_now();
                    }
                }
            });
        }
    });
    let [one, other] = replies.map(|replies| replies.into_inner().expect("replies"));
    assert_eq!(one.len() as u64, rounds);
    for (round, (one, other)) in one.iter().zip(&other).enumerate() {
        assert_eq!(one, other, "two answers to one packet of round {}", round + 1);
    }
    check(&journal, rounds);
}

/// Ends the rounds of a thread, also when it panics, so that the other thread does not wait for ever.
struct End<'a>(&'a AtomicUsize);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(usize::MAX, SeqCst);
    }
}

/// Sends the requests of one thread alone.
fn alone(journal: &Journal<'_>, ask: &Ask<'_>, thread: usize, random: &mut Random, sequence: &mut u64) {
    let some = |random: &mut Random| {
        let (from, to) = (
            1 + random.below(ACCOUNTS.into()) as u32,
            1 + random.below(ACCOUNTS.into()) as u32,
        );
        (from, to, 1 + random.below(999) as u32)
    };
    match random.below(4) {
        0 => {
            let (from, to, amount) = some(random);
            let request = PaperRequest::new(TRANSFER_COMMAND_TRANSFER, 0, from, to, amount).to_bytes();
            let code = paper_code(&insist(journal, ask, thread, &request));
            assert_eq!(code == Code::SameAccount, from == to, "{code:?}");
        }
        1 => {
            let account = 1 + random.below(ACCOUNTS.into()) as u32;
            let request = PaperRequest::new(TRANSFER_COMMAND_REFER, 0, account, 0, 0).to_bytes();
            // If the account changes during all attempts, the fast path forwards the request to the host, so there is
            // no reply.
            if let Some(reply) = ask(thread, &request) {
                assert_eq!(paper_code(&reply), Code::Done);
            }
        }
        2 => {
            // Both threads create the same account: one succeeds, and the other learns that the account exists.
            let id = 100 + random.below(40) as u32;
            let request = PaperRequest::new(TRANSFER_COMMAND_CREATE, 0, id, 0, 0).to_bytes();
            let code = paper_code(&insist(journal, ask, thread, &request));
            assert!(
                matches!(code, Code::Done | Code::AccountExists | Code::StoreFull),
                "{code:?}"
            );
        }
        _ => {
            *sequence += 1;
            let count = 1 + random.below(4);
            let operations: Vec<_> = (0..count)
                .map(|_| {
                    let (from, to, amount) = some(random);
                    transfer(from, to, amount)
                })
                .collect();
            insist(
                journal,
                ask,
                thread,
                &execute(thread as u32, *sequence, &operations),
            );
        }
    }
}

/// Sends the requests that both threads send, in either order: the same packet of a session, and the same request with
/// a transaction id. Returns both replies.
fn together(
    journal: &Journal<'_>,
    ask: &Ask<'_>,
    thread: usize,
    shared: &mut Random,
    round: u64,
) -> [Vec<u8>; 2] {
    let operations: Vec<_> = (0..1 + shared.below(4))
        .map(|_| {
            transfer(
                1 + shared.below(ACCOUNTS.into()) as u32,
                1 + shared.below(ACCOUNTS.into()) as u32,
                1 + shared.below(999) as u32,
            )
        })
        .collect();
    let packet = execute(SHARED_SLOT, round, &operations);
    let (command, to) = match shared.below(3) {
        0 => (TRANSFER_COMMAND_ISSUE, 0),
        _ => (
            TRANSFER_COMMAND_TRANSFER,
            1 + shared.below(ACCOUNTS.into()) as u32,
        ),
    };
    let request =
        PaperRequest::new(command, round as u32, NUMBERED, to, 1 + shared.below(100) as u32).to_bytes();
    let first = if thread == 0 { &packet[..] } else { &request[..] };
    let second = if thread == 0 { &request[..] } else { &packet[..] };
    let said = [first, second].map(|packet| insist(journal, ask, thread, packet));
    let [first, second] = said;
    if thread == 0 {
        [first, second]
    } else {
        [second, first]
    }
}

/// Checks that versions have no gaps, that every shared packet was executed once, and that the records in order give
/// the content of the cells.
fn check(journal: &Journal<'_>, rounds: u64) {
    journal.drain();
    let records = journal.records.lock().expect("records");
    let mut sessions: HashMap<(u64, u16), usize> = HashMap::new();
    let mut numbered: HashMap<u64, usize> = HashMap::new();
    for record in records.iter() {
        if record.slot == SHARED_SLOT {
            *sessions.entry((record.sequence, record.index)).or_default() += 1;
        } else if record.slot == NO_SESSION && record.sequence != 0 {
            *numbered.entry(record.sequence).or_default() += 1;
        }
    }
    assert!(
        sessions
            .values()
            .chain(numbered.values())
            .all(|times| *times == 1)
    );
    assert_eq!(numbered.len() as u64, rounds);
    assert!((1..=rounds).all(|round| sessions.contains_key(&(round, 0)) && numbered.contains_key(&round)));

    let mut waiting: HashMap<(AccountId, u64), &Record> = HashMap::new();
    for record in records.iter() {
        let touched = [
            (record.source, record.source_version),
            (record.destination, record.destination_version),
        ];
        for (account, version) in touched.into_iter().filter(|(_, version)| *version != 0) {
            let twice = waiting.insert((account, version), record);
            assert!(
                twice.is_none(),
                "account {account} changed twice to version {version}"
            );
        }
    }
    let held = replay(&waiting);
    let mut total = 0;
    let mut issued = 0;
    for record in records.iter().filter(|record| record.code == 0) {
        if record.command != TRANSFER_COMMAND_TRANSFER {
            issued += record.amount;
        }
    }
    for cell in journal.store.cells.as_slice() {
        let version = cell.version.load(Relaxed);
        if version == 0 {
            continue;
        }
        let id = AccountId::from_words(cell.id.each_ref().map(|word| word.load(Relaxed)));
        assert_eq!(
            cell.lock.load(Relaxed) | cell.bucket_lock.load(Relaxed),
            0,
            "a lock was not released"
        );
        assert_eq!(
            held.get(&id),
            Some(&(cell.balance.load(Relaxed), version)),
            "account {id}"
        );
        total += cell.balance.load(Relaxed);
    }
    assert_eq!(total, issued, "money was made or lost");
}

/// Returns the balances and versions after every record, applied in the order of versions.
fn replay(waiting: &HashMap<(AccountId, u64), &Record>) -> HashMap<AccountId, (u64, u64)> {
    let mut held: HashMap<AccountId, (u64, u64)> = HashMap::new();
    let mut ready: Vec<AccountId> = waiting.keys().map(|(account, _)| *account).collect();
    let mut done = 0;
    while let Some(account) = ready.pop() {
        let next = held.get(&account).map_or(1, |(_, version)| version + 1);
        let Some(record) = waiting.get(&(account, next)) else {
            continue;
        };
        let touched = [
            (record.source, record.source_version),
            (record.destination, record.destination_version),
        ];
        let is_due = |(account, version): &(AccountId, u64)| {
            *version == 0 || held.get(account).map_or(0, |(_, version)| *version) + 1 == *version
        };
        if !touched.iter().all(is_due) {
            // The change of the other account comes first; applying its record continues with this one later.
            continue;
        }
        for (account, version) in touched.into_iter().filter(|(_, version)| *version != 0) {
            let entry = held.entry(account).or_default();
            entry.1 = version;
            done += 1;
            ready.push(account);
            if record.code != 0 {
                continue;
            }
            if account == record.source {
                match record.command {
                    TRANSFER_COMMAND_TRANSFER => entry.0 -= record.amount,
                    _ => entry.0 += record.amount,
                }
                assert_eq!(entry.0, record.source_balance);
            } else {
                entry.0 += record.amount;
            }
        }
    }
    assert_eq!(done, waiting.len(), "the versions have a gap or a cycle");
    held
}

/// Two threads transfer money, while a host moves money between accounts that it has claimed: claimed accounts change
/// only through the host, and no money is lost or created.
pub fn conserve_beside_claims(store: &Store, ask: &Ask<'_>, claims: &(dyn Claims + Sync), rounds: u64) {
    let journal = Journal {
        store,
        records: Mutex::default(),
    };
    open_all(&journal, ask);
    let ended = AtomicBool::new(false);
    let [answered, forwarded] = [const { AtomicUsize::new(0) }; 2];
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (journal, ended, answered, forwarded) = (&journal, &ended, &answered, &forwarded);
            scope.spawn(move || {
                let mut random = Random(thread as u64 + 1);
                while !ended.load(SeqCst) {
                    let (from, to) = (
                        1 + random.below(ACCOUNTS.into()) as u32,
                        1 + random.below(ACCOUNTS.into()) as u32,
                    );
                    let amount = 1 + random.below(999) as u32;
                    let request =
                        PaperRequest::new(TRANSFER_COMMAND_TRANSFER, 0, from, to, amount).to_bytes();
                    match ask(thread, &request) {
                        Some(reply) if paper_code(&reply) == Code::Busy => journal.drain(),
                        Some(_) => _ = answered.fetch_add(1, SeqCst),
                        None => _ = forwarded.fetch_add(1, SeqCst),
                    }
                }
            });
        }
        scope.spawn(|| {
            let mut random = Random(3);
            let mut moved = 0;
            while moved < rounds || forwarded.load(SeqCst) < 100 || answered.load(SeqCst) < 100 {
                let (from, to) = (
                    1 + random.below(ACCOUNTS.into()) as u32,
                    1 + random.below(ACCOUNTS.into()) as u32,
                );
                if from != to {
                    let record = move_claimed(store, claims, from, to, 1 + random.below(49));
                    journal.records.lock().expect("records").extend(record);
                    moved += 1;
                }
            }
            ended.store(true, SeqCst);
        });
    });
    check(&journal, 0);
    let is_free = |cell: &TransferCell| cell.flags.load(SeqCst) & TRANSFER_CELL_CLAIMED == 0;
    assert!(store.cells.as_slice().iter().all(is_free));
}

/// Moves money as a host does; returns the record that the host would write into the journal.
fn move_claimed(store: &Store, claims: &dyn Claims, from: u32, to: u32, amount: u64) -> Option<Record> {
    let accounts = [from, to].map(AccountId::from_paper);
    let cells = accounts.map(|account| store.find(&account).expect("the account exists"));
    let indices = cells.map(|index| index as u32);
    claims.claim(&indices, &[]).expect("claimed");
    let read = || {
        cells.map(|index| {
            let cell = &store.cells.as_slice()[index];
            (cell.balance.load(SeqCst), cell.version.load(SeqCst))
        })
    };
    let [(from_balance, from_version), (to_balance, to_version)] = read();
    for _ in 0..50 {
        assert_eq!(
            read(),
            [(from_balance, from_version), (to_balance, to_version)],
            "the host has claimed the account"
        );
    }
    let record = (from_balance >= amount).then(|| {
        let change = |at: usize, balance, version| {
            let holding = Holding {
                balance,
                ..Holding::default()
            };
            let change = Change {
                account: accounts[at],
                holding,
                version,
                step: 0,
            };
            (indices[at], change)
        };
        let mut step = [
            change(0, from_balance - amount, from_version + 1),
            change(1, to_balance + amount, to_version + 1),
        ];
        step.sort_by_key(|(index, _)| *index);
        claims.put(&step).expect("shown");
        Record {
            source: accounts[0],
            destination: accounts[1],
            amount,
            source_version: from_version + 1,
            destination_version: to_version + 1,
            source_balance: from_balance - amount,
            slot: NO_SESSION,
            command: TRANSFER_COMMAND_TRANSFER,
            count: 1,
            ..Record::default()
        }
    });
    claims.give_back(&indices, &[]).expect("given back");
    record
}

/// One thread moves money from A to B while the other thread reads the balances of A, then B, then A. The earlier
/// balance of A plus the balance of B is never less than the total, and the balance of B plus the later balance of A is
/// never more. With `claims`, a host moves the money.
pub fn refer_while_moving(
    store: &Store,
    ask: &Ask<'_>,
    claims: Option<&(dyn Claims + Sync)>,
    transfers: u32,
) {
    let journal = Journal {
        store,
        records: Mutex::default(),
    };
    open_all(&journal, ask);
    let (a, b) = (1, 2);
    let total = 2 * u64::from(OPENING);
    let ended = AtomicBool::new(false);
    let read = AtomicUsize::new(0);
    let request = PaperRequest::new(TRANSFER_COMMAND_TRANSFER, 0, a, b, 1).to_bytes();
    let move_one = || match claims {
        Some(claims) => assert!(move_claimed(store, claims, a, b, 1).is_some()),
        None => assert_eq!(paper_code(&insist(&journal, ask, 0, &request)), Code::Done),
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            (0..transfers).for_each(|_| move_one());
            // The reader may have started late.
            while read.load(SeqCst) < 100 {
                move_one();
            }
            ended.store(true, SeqCst);
        });
        scope.spawn(|| {
            let refer = |account| PaperRequest::new(TRANSFER_COMMAND_REFER, 0, account, 0, 0).to_bytes();
            let balance = |account| ask(1, &refer(account)).map(|reply| paper_amount(&reply));
            while !ended.load(SeqCst) {
                // The fast path forwards a read of an account that changes during all attempts; the next read finds it
                // unchanged.
                let papers = [balance(a), balance(b), balance(a)];
                let [Some(before), Some(of_b), Some(after)] = papers else {
                    continue;
                };
                assert!(before + of_b >= total && of_b + after <= total, "{papers:?}");
                let Some(balances) = alternating(ask, a, b) else {
                    continue;
                };
                for (at, pair) in balances.windows(2).enumerate() {
                    let sum = pair[0] + pair[1];
                    let right = if at % 2 == 0 { sum >= total } else { sum <= total };
                    assert!(right, "{sum} of {total} at {at} in one packet: {balances:?}");
                }
                read.fetch_add(1, SeqCst);
            }
        });
    });
    assert!(read.into_inner() >= 100);
}

/// Returns the balances of one native `refer` of A, B, A, B and so on: as many as fit a packet.
fn alternating(ask: &Ask<'_>, a: u32, b: u32) -> Option<Vec<u64>> {
    let head = ReferHead {
        count: (TRANSFER_REFER_MAX as u32).into(),
        durability: 0.into(),
        reserved: 0.into(),
    };
    let mut body = head.as_bytes().to_vec();
    for at in 0..TRANSFER_REFER_MAX {
        let account = if at % 2 == 0 { a } else { b };
        body.extend_from_slice(&AccountId::from_paper(account).0);
        body.extend_from_slice(&[0; size_of::<BalanceItem>() - 16]);
    }
    let mut packet = native::request_header(TRANSFER_OP_REFER, 1, body.len() as u16)
        .as_bytes()
        .to_vec();
    packet.extend_from_slice(&body);
    let reply = ask(1, &packet)?;
    let items = <[BalanceItem]>::ref_from_bytes(&reply[24..]).expect("items");
    Some(items.iter().map(|item| item.balance.get()).collect())
}

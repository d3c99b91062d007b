//! Mode `express`: the host executes forwarded requests on accounts and sessions that it has claimed, while the fast
//! path continues with all others.

mod common;

use common::{LOOPBACK, NOW_S, execute_packet, key, operation, outcomes, random, session_packet};
use lineside_fastpath::{BatchRequest, FastPath, Readers, Reply, Source, Verdict, lease};
use lineside_journal::SimDisk;
use lineside_transfer::AccountId;
use lineside_transfer::claims::{Claims, Slot, StoreClaims};
use lineside_transfer::fastpath::TransferFastPath;
use lineside_transfer::host::{Executing, Host, SealPolicy, SessionPolicy, Setup, audit};
use lineside_transfer::ledger::Change;
use lineside_transfer::paper::PaperRequest;
use lineside_transfer::store::{Geometry, Mode, Store};
use lineside_transfer::writer::StoreWriter;
use lineside_wire::{
    Operation, SessionBody, TRANSFER_CELL_CLAIMED, TRANSFER_COMMAND_CREATE as CREATE,
    TRANSFER_COMMAND_REFER as REFER, TRANSFER_COMMAND_TRANSFER as TRANSFER, TRANSFER_CONTRACT_PENDING,
    TRANSFER_FLAG_LINKED as LINKED, TRANSFER_OP_CLOSE, TRANSFER_OP_OPEN, TransferCode as Code,
};
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use zerocopy::{FromBytes, FromZeros};

const ACCOUNTS: u32 = 6;

/// Claims that send requests to the fast path whenever the host publishes changes, and that can be made to fail.
struct Watched {
    claims: StoreClaims,
    fastpath: TransferFastPath,
    /// Requests that the fast path receives while the host has its claims.
    asked: Mutex<Vec<Vec<u8>>>,
    /// Replies of the fast path; `None`: it forwarded the request to the host.
    said: Mutex<Vec<Option<Vec<u8>>>>,
    /// Number of the next claims that fail.
    refused: AtomicU64,
    /// Number of the next writes that fail.
    lost: AtomicU64,
}

impl fmt::Debug for Watched {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Watched")
    }
}

impl Watched {
    fn fails(left: &AtomicU64) -> io::Result<()> {
        match left.load(SeqCst) {
            0 => Ok(()),
            left_now => {
                left.store(left_now - 1, SeqCst);
                Err(io::Error::other("injected by the test"))
            }
        }
    }
}

fn ask(fastpath: &TransferFastPath, payload: &[u8]) -> Option<Vec<u8>> {
    let mut reply = Reply::default();
    match fastpath.answer(LOOPBACK, lease::now_ns(), payload, &mut reply) {
        Verdict::Reply => Some(reply.as_bytes().to_vec()),
        Verdict::Forward => None,
        Verdict::Drop(reason) => panic!("{reason:?}"),
    }
}

impl Claims for Watched {
    fn claim(&self, cells: &[u32], slots: &[u32]) -> io::Result<()> {
        Self::fails(&self.refused)?;
        self.claims.claim(cells, slots)
    }

    fn put(&self, step: &[(u32, Change)]) -> io::Result<()> {
        for payload in self.asked.lock().unwrap().drain(..) {
            self.said.lock().unwrap().push(ask(&self.fastpath, &payload));
        }
        Self::fails(&self.lost)?;
        self.claims.put(step)
    }

    fn put_session(&self, slot: &Slot) -> io::Result<()> {
        self.claims.put_session(slot)
    }

    fn give_back(&self, cells: &[u32], slots: &[u32]) -> io::Result<()> {
        self.claims.give_back(cells, slots)
    }
}

struct ExpressServer {
    store: Arc<Store>,
    watched: Arc<Watched>,
    host: Host<SimDisk>,
}

fn start_on(disk: &SimDisk, store: Arc<Store>) -> ExpressServer {
    let watched = Arc::new(Watched {
        claims: StoreClaims::new(Arc::clone(&store)),
        fastpath: TransferFastPath::new(Arc::clone(&store)),
        asked: Mutex::default(),
        said: Mutex::default(),
        refused: AtomicU64::new(0),
        lost: AtomicU64::new(0),
    });
    let claims: Arc<dyn Claims + Send + Sync> = Arc::clone(&watched) as _;
    let setup = Setup {
        limits: common::limits(),
        seal: SealPolicy::default(),
        sessions: SessionPolicy::default(),
        issuer_keys: Vec::new(),
        key_table_bytes: lineside_transfer::signed::TABLE_BYTES,
        express: Some(Executing {
            readers: Readers::default(),
            lease_ns: 1 << 40,
            claims,
        }),
    };
    let (host, _) = Host::open(
        disk.clone(),
        common::options(),
        setup,
        key(),
        random(1),
        Arc::clone(&store),
        Box::new(StoreWriter::new(Arc::clone(&store))),
    )
    .unwrap();
    let mut line = ExpressServer { store, watched, host };
    line.host.tick(NOW_S);
    line
}

/// Creates accounts 1 to 6 with 100 each, in the fast path.
fn start(disk: &SimDisk) -> ExpressServer {
    let geometry = Geometry {
        mode: Mode::Express,
        rings: 4,
        ring_bits: 6,
        ..common::geometry()
    };
    let line = start_on(disk, Arc::new(Store::anonymous(&geometry).unwrap()));
    for account in 1..=ACCOUNTS {
        let create = PaperRequest::new(CREATE, 0, account, 0, 100).to_bytes();
        assert!(ask(&line.watched.fastpath, &create).is_some());
    }
    line
}

impl ExpressServer {
    fn host_says(&mut self, payload: &[u8]) -> Vec<u8> {
        self.host_says_to(LOOPBACK, payload)
    }

    fn host_says_to(&mut self, from: Source, payload: &[u8]) -> Vec<u8> {
        let said = self.host.group(NOW_S, &[BatchRequest { from, payload }]);
        said.into_iter().next().unwrap().reply.unwrap()
    }

    /// Opens one session for each port, because a challenge grants only one.
    fn open(&mut self, port: u16) -> (u32, u64) {
        let (from, body) = (Source { port, ..LOOPBACK }, SessionBody::new_zeroed());
        let first = self.host_says_to(from, &session_packet(TRANSFER_OP_OPEN, &body));
        let challenge = SessionBody::ref_from_bytes(&first[16..]).unwrap().challenge;
        let body = SessionBody { challenge, ..body };
        let second = self.host_says_to(from, &session_packet(TRANSFER_OP_OPEN, &body));
        let body = SessionBody::ref_from_bytes(&second[16..]).unwrap();
        (body.slot.get(), body.token.get())
    }

    /// Lets the host execute a request, and sends other requests to the fast path while the host has its claims.
    /// Returns the replies.
    fn meanwhile(&mut self, payload: &[u8], asked: &[Vec<u8>]) -> (Vec<u8>, Vec<Option<Vec<u8>>>) {
        *self.watched.asked.lock().unwrap() = asked.to_vec();
        let reply = self.host_says(payload);
        (reply, std::mem::take(&mut *self.watched.said.lock().unwrap()))
    }

    fn balances(&self) -> Vec<u64> {
        let balance = |id| {
            let account = self.host.ledger().account(&AccountId::from_paper(id));
            account.map_or(0, |account| account.holding.balance)
        };
        (1..=ACCOUNTS).map(balance).collect()
    }

    /// Checks that fast path and ledger are in sync, and that nothing is claimed or locked.
    fn check(&mut self) {
        self.host.drain();
        assert_eq!(self.host.failed(), None);
        assert_eq!(self.host.unjournaled(), 0);
        for (id, account) in self.host.ledger().accounts() {
            let cell = &self.store.cells.as_slice()[self.store.find(id).unwrap()];
            let holding = account.holding;
            assert_eq!(
                [cell.balance.load(SeqCst), cell.held_out.load(SeqCst)],
                [holding.balance, holding.held_out],
                "{id}"
            );
            assert_eq!(
                [cell.held_in.load(SeqCst), cell.version.load(SeqCst)],
                [holding.held_in, account.version],
                "{id}"
            );
            assert_eq!(cell.flags.load(SeqCst) & TRANSFER_CELL_CLAIMED, 0, "{id}");
            assert_eq!(cell.lock.load(SeqCst), 0);
        }
        for session in self.store.sessions.as_slice() {
            assert_eq!(
                [session.claimed.load(SeqCst), session.lock.load(SeqCst).into()],
                [0, 0]
            );
        }
    }
}

fn linked(operation: Operation) -> Operation {
    Operation {
        flags: LINKED,
        ..operation
    }
}

fn paper(command: u8, source: u32, destination: u32, amount: u32) -> Vec<u8> {
    PaperRequest::new(command, 0, source, destination, amount)
        .to_bytes()
        .to_vec()
}

fn amount(reply: &[u8]) -> u32 {
    u32::from_be_bytes(reply[16..20].try_into().unwrap())
}

#[test]
fn the_fast_path_continues_with_all_accounts_that_are_not_claimed() {
    let disk = SimDisk::new(1);
    let mut line = start(&disk);
    let (session, other) = (line.open(1), line.open(2));
    // The records of this packet are in the ring when the host claims the same accounts.
    let first = execute_packet(session, 1, &[operation(TRANSFER, 1, 2, 1)]);
    assert!(ask(&line.watched.fastpath, &first).is_some());
    let chain = [
        linked(operation(TRANSFER, 1, 2, 10)),
        operation(TRANSFER, 2, 3, 20),
    ];
    let asked = [
        paper(TRANSFER, 4, 5, 7),
        paper(REFER, 1, 0, 0),
        paper(TRANSFER, 4, 3, 1),
        paper(TRANSFER, 2, 4, 1),
        execute_packet(session, 3, &[operation(TRANSFER, 4, 5, 1)]),
        execute_packet(other, 1, &[operation(TRANSFER, 3, 6, 1)]),
        execute_packet(
            other,
            1,
            &[operation(TRANSFER, 6, 5, 1), operation(TRANSFER, 6, 1, 1)],
        ),
    ];
    let (reply, said) = line.meanwhile(&execute_packet(session, 2, &chain), &asked);
    assert_eq!(outcomes(&reply), [(Code::Done, 89), (Code::Done, 91)]);
    let is_answered: Vec<bool> = said.iter().map(Option::is_some).collect();
    assert_eq!(is_answered, [true, true, false, false, false, false, true]);
    assert_eq!(amount(said[0].as_ref().unwrap()), 93);
    assert_eq!(
        amount(said[1].as_ref().unwrap()),
        99,
        "the changes are not on the disk yet"
    );
    let partly = outcomes(said[6].as_ref().unwrap());
    assert_eq!(partly, [(Code::Done, 99), (Code::Busy, 0)]);
    let counts = line.host.counts();
    assert_eq!((counts.rests, counts.claims), (0, 1));
    line.check();
    assert_eq!(line.balances(), [89, 91, 120, 93, 108, 99]);
    assert!(ask(&line.watched.fastpath, &paper(TRANSFER, 1, 2, 1)).is_some());
    line.check();
    drop(line);
    disk.power_cut();
    let line = start_on(
        &disk,
        Arc::new(
            Store::anonymous(&Geometry {
                mode: Mode::Express,
                ..common::geometry()
            })
            .unwrap(),
        ),
    );
    assert_eq!(line.balances(), [88, 92, 120, 93, 108, 99]);
    assert_eq!(audit(&disk, *key().verifying_key()).unwrap().balances, 600);
}

#[test]
fn pending_transfers_expiry_and_closed_sessions_do_not_pause_the_fast_path() {
    let disk = SimDisk::new(2);
    let mut line = start(&disk);
    let session = line.open(1);
    let pending = Operation {
        contract: TRANSFER_CONTRACT_PENDING.into(),
        uuid: [9; 16],
        timeout_s: 5.into(),
        ..operation(TRANSFER, 1, 2, 40)
    };
    let (reply, said) = line.meanwhile(
        &execute_packet(session, 1, &[pending]),
        &[paper(TRANSFER, 3, 4, 1)],
    );
    assert_eq!(outcomes(&reply), [(Code::Done, 100)]);
    assert!(said[0].is_some());
    // Reserved amounts cannot be spent, not even through the fast path.
    let spend = ask(&line.watched.fastpath, &paper(TRANSFER, 1, 3, 61)).unwrap();
    assert_eq!((spend[0], spend[19]), (0x80, Code::InsufficientFunds as u8));
    line.check();
    *line.watched.asked.lock().unwrap() = vec![paper(TRANSFER, 2, 3, 1), paper(TRANSFER, 5, 6, 1)];
    line.host.tick(NOW_S + 5);
    let said = std::mem::take(&mut *line.watched.said.lock().unwrap());
    assert_eq!(
        said.iter().map(Option::is_some).collect::<Vec<_>>(),
        [false, true]
    );
    assert!(ask(&line.watched.fastpath, &paper(TRANSFER, 1, 3, 61)).is_some());
    let body = SessionBody {
        token: session.1.into(),
        slot: session.0.into(),
        ..SessionBody::new_zeroed()
    };
    line.host_says(&session_packet(TRANSFER_OP_CLOSE, &body));
    let late = execute_packet(session, 2, &[operation(TRANSFER, 1, 2, 1)]);
    assert_eq!(ask(&line.watched.fastpath, &late).unwrap()[5], 5, "no session");
    assert_eq!(line.host.counts().rests, 0);
    line.check();
}

#[test]
fn the_fast_path_pauses_for_requests_whose_accounts_cannot_be_claimed() {
    let disk = SimDisk::new(3);
    let mut line = start(&disk);
    let session = line.open(1);
    let chain = [linked(operation(CREATE, 7, 0, 5)), operation(TRANSFER, 7, 1, 5)];
    let reply = line.host_says(&execute_packet(session, 1, &chain));
    assert_eq!(outcomes(&reply), [(Code::Done, 5), (Code::Done, 0)]);
    assert_eq!((line.host.counts().rests, line.host.counts().claims), (1, 0));
    line.check();
    // A claim of accounts fails, and then a claim of sessions.
    for (sequence, refused) in [(2, 1), (3, 2)] {
        line.watched.refused.store(refused, SeqCst);
        let chain = [linked(operation(TRANSFER, 1, 2, 1)), operation(TRANSFER, 2, 3, 1)];
        let reply = line.host_says(&execute_packet(session, sequence, &chain));
        assert_eq!(outcomes(&reply)[0].0, Code::Done);
        line.watched.refused.store(0, SeqCst);
        line.check();
    }
    assert_eq!(line.host.counts().rests, 3);
    // Requests without permission or session pause nothing and claim nothing.
    let forged = execute_packet((session.0, 1), 4, &[linked(operation(CREATE, 8, 0, 5))]);
    line.host_says(&forged);
    assert_eq!((line.host.counts().rests, line.host.counts().claims), (3, 0));
}

#[test]
fn only_a_chain_longer_than_a_claim_step_pauses_the_fast_path() {
    let disk = SimDisk::new(4);
    let mut line = start(&disk);
    let session = line.open(1);
    let mut chain: Vec<_> = (0..17).map(|_| linked(operation(TRANSFER, 1, 2, 1))).collect();
    chain.last_mut().unwrap().flags = 0;
    let reply = line.host_says(&execute_packet(session, 1, &chain));
    assert_eq!(outcomes(&reply)[16], (Code::Done, 83));
    assert_eq!(line.host.counts().rests, 1);
    let short: Vec<_> = (0..17).map(|_| operation(TRANSFER, 2, 1, 1)).collect();
    let reply = line.host_says(&execute_packet(session, 2, &short));
    assert_eq!(outcomes(&reply)[16], (Code::Done, 100));
    assert_eq!((line.host.counts().rests, line.host.counts().claims), (1, 1));
    line.check();
}

#[test]
fn a_host_that_is_killed_with_claims_leaves_a_consistent_fast_path() {
    for is_durable in [false, true] {
        let disk = SimDisk::new(5);
        let mut line = start(&disk);
        let session = line.open(1);
        let chain = [
            linked(operation(TRANSFER, 1, 2, 10)),
            operation(TRANSFER, 2, 3, 110),
        ];
        if is_durable {
            // The change is in the journal, but the fast path never received it.
            line.watched.lost.store(1, SeqCst);
        } else {
            disk.fail_nth(lineside_journal::Op::SyncData, 1);
        }
        let from = LOOPBACK;
        let payload = execute_packet(session, 1, &chain);
        line.host.group(
            NOW_S,
            &[BatchRequest {
                from,
                payload: &payload,
            }],
        );
        assert!(line.host.failed().is_some());
        assert_eq!(
            ask(&line.watched.fastpath, &paper(TRANSFER, 4, 5, 1)),
            None,
            "the lease of the fast path has ended"
        );
        let cell = line.store.find(&AccountId::from_paper(1)).unwrap();
        let cell = &line.store.cells.as_slice()[cell];
        assert_ne!(cell.flags.load(SeqCst) & TRANSFER_CELL_CLAIMED, 0);
        // A killed process may also have left a lock.
        cell.lock.store(1, SeqCst);
        cell.balance.store(12_345, SeqCst);
        line.store.sessions.as_slice()[0].lock.store(1, SeqCst);
        let ExpressServer { store, watched, host } = line;
        drop((watched, host));
        if is_durable {
            disk.kill();
        } else {
            disk.power_cut();
        }
        let mut line = start_on(&disk, store);
        line.check();
        let expected = if is_durable { [90, 0, 210] } else { [100, 100, 100] };
        assert_eq!(line.balances()[..3], expected);
        // The client repeats the request; the balances show that the request was executed once.
        let reply = line.host_says(&payload);
        assert_eq!(outcomes(&reply), [(Code::Done, 90), (Code::Done, 0)]);
        assert_eq!(line.balances()[..3], [90, 0, 210]);
        line.check();
    }
}

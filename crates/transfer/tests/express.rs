//! Mode `express`: the fast path executes operations, and the host follows. Together they lose no operation and execute
//! none twice, and a replay of the journal restores their state.

mod common;

use common::{ELSEWHERE, LOOPBACK, NOW_S, execute_packet, key, operation, outcomes, random, session_packet};
use lineside_fastpath::{BatchRequest, FastPath, Readers, Reply, Source, Verdict, lease};
use lineside_journal::SimDisk;
use lineside_messages::transfer::Signer;
use lineside_transfer::AccountId;
use lineside_transfer::claims::StoreClaims;
use lineside_transfer::fastpath::TransferFastPath;
use lineside_transfer::host::{Executing, Host, OpenError, SealPolicy, SessionPolicy, Setup, audit, prove};
use lineside_transfer::ledger::Limits;
use lineside_transfer::paper::PaperRequest;
use lineside_transfer::ring::Ring;
use lineside_transfer::store::{Geometry, Mode, Store};
use lineside_transfer::writer::StoreWriter;
use lineside_verify::Curve;
use lineside_wire::{
    ExecuteHead, Operation, SessionBody, TRANSFER_COMMAND_CREATE as CREATE, TRANSFER_COMMAND_ISSUE as ISSUE,
    TRANSFER_COMMAND_REFER as REFER, TRANSFER_COMMAND_TRANSFER as TRANSFER, TRANSFER_FLAG_LINKED as LINKED,
    TRANSFER_OP_CLOSE, TRANSFER_OP_OPEN, TRANSFER_OP_REFER, TRANSFER_OP_SIGNED, TransferCode as Code, native,
};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

const ACCOUNTS: u32 = 6;
const LEASE_NS: u64 = 1 << 40;

/// Guard that stops the threads of a test, also when the test fails.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

struct ExpressServer {
    store: Arc<Store>,
    fastpath: TransferFastPath,
    host: Host<SimDisk>,
    readers: Readers,
}

fn geometry() -> Geometry {
    Geometry {
        mode: Mode::Express,
        rings: 4,
        ring_bits: 6,
        ..common::geometry()
    }
}

fn start_on(disk: &SimDisk, store: Arc<Store>) -> Result<ExpressServer, OpenError> {
    start_within(disk, store, common::limits())
}

fn start_within(disk: &SimDisk, store: Arc<Store>, limits: Limits) -> Result<ExpressServer, OpenError> {
    let readers = Readers::default();
    let fill = Box::new(StoreWriter::new(Arc::clone(&store)));
    let seal = SealPolicy {
        operations: 16,
        seconds: 10,
    };
    let setup = Setup {
        limits,
        seal,
        sessions: SessionPolicy::default(),
        issuer_keys: Vec::new(),
        key_table_bytes: lineside_transfer::signed::TABLE_BYTES,
        express: Some(Executing {
            readers: readers.clone(),
            lease_ns: LEASE_NS,
            claims: Arc::new(StoreClaims::new(Arc::clone(&store))),
        }),
    };
    let store_too = Arc::clone(&store);
    let (host, _) = Host::open(
        disk.clone(),
        common::options(),
        setup,
        key(),
        random(1),
        store_too,
        fill,
    )?;
    let fastpath = TransferFastPath::new(Arc::clone(&store));
    let mut line = ExpressServer {
        store,
        fastpath,
        host,
        readers,
    };
    line.host.tick(NOW_S);
    Ok(line)
}

fn start(disk: &SimDisk) -> ExpressServer {
    start_on(disk, Arc::new(Store::anonymous(&geometry()).unwrap())).unwrap()
}

impl ExpressServer {
    /// Returns the reply that a client sees, and whether the fast path gave it.
    fn ask_from(&mut self, from: Source, payload: &[u8]) -> (Vec<u8>, bool) {
        let mut reply = Reply::default();
        match self.fastpath.answer(from, lease::now_ns(), payload, &mut reply) {
            Verdict::Reply => (reply.as_bytes().to_vec(), true),
            Verdict::Forward => {
                let said = self.host.group(NOW_S, &[BatchRequest { from, payload }]);
                (said.into_iter().next().unwrap().reply.unwrap(), false)
            }
            Verdict::Drop(reason) => panic!("{reason:?}"),
        }
    }

    fn ask(&mut self, payload: &[u8]) -> (Vec<u8>, bool) {
        self.ask_from(LOOPBACK, payload)
    }

    fn paper(&mut self, command: u8, id: u32, source: u32, destination: u32, amount: u32) -> (u32, u32) {
        let (reply, by_fastpath) =
            self.ask(&PaperRequest::new(command, id, source, destination, amount).to_bytes());
        assert!(by_fastpath);
        let word = |at: usize| u32::from_be_bytes(reply[at..at + 4].try_into().unwrap());
        (word(0), word(16))
    }

    /// Opens one session for each port, because a challenge grants only one.
    fn open(&mut self, port: u16) -> (u32, u64) {
        let from = Source { port, ..LOOPBACK };
        let body = SessionBody::new_zeroed();
        let (first, _) = self.ask_from(from, &session_packet(TRANSFER_OP_OPEN, &body));
        let challenge = SessionBody::ref_from_bytes(&first[16..]).unwrap().challenge;
        let (second, _) = self.ask_from(
            from,
            &session_packet(TRANSFER_OP_OPEN, &SessionBody { challenge, ..body }),
        );
        let body = SessionBody::ref_from_bytes(&second[16..]).unwrap();
        (body.slot.get(), body.token.get())
    }

    /// Checks that fast path and ledger are in sync, and that no record waits.
    fn check(&mut self) {
        self.host.drain();
        assert_eq!(self.host.failed(), None);
        assert_eq!(self.host.unjournaled(), 0);
        let ledger = self.host.ledger();
        assert_eq!(ledger.sum_of_balances(), ledger.issued());
        for (id, account) in ledger.accounts() {
            let cell = &self.store.cells.as_slice()[self.store.find(id).unwrap()];
            let fastpath = (
                cell.balance.load(SeqCst),
                cell.version.load(SeqCst),
                cell.held_out.load(SeqCst),
            );
            assert_eq!(
                fastpath,
                (account.holding.balance, account.version, account.holding.held_out),
                "{id}"
            );
        }
        for slot in 0..common::limits().sessions {
            let place = &self.store.sessions.as_slice()[slot as usize];
            let (token, sequence) = ledger
                .session(slot)
                .map_or((0, 0), |session| (session.token, session.sequence));
            assert_eq!(place.token.load(SeqCst), token);
            if token != 0 {
                assert_eq!(place.sequence.load(SeqCst), sequence);
            }
        }
    }

    fn balances(&self) -> Vec<u64> {
        let balance = |id| {
            self.host
                .ledger()
                .account(&AccountId::from_paper(id))
                .map_or(0, |account| account.holding.balance)
        };
        (1..=ACCOUNTS).map(balance).collect()
    }
}

fn linked(mut operation: lineside_wire::Operation) -> lineside_wire::Operation {
    operation.flags = LINKED;
    operation
}

#[test]
fn fast_path_and_host_take_turns_and_restart() {
    let disk = SimDisk::new(1);
    let mut line = start(&disk);
    for account in 1..=ACCOUNTS {
        assert_eq!(line.paper(CREATE, 1, account, 0, 1_000), (1, 1_000));
    }
    let session = line.open(1);
    let plain = execute_packet(
        session,
        1,
        &[operation(TRANSFER, 1, 2, 10), operation(TRANSFER, 1, 2, 9_999)],
    );
    let (first, by_fastpath) = line.ask(&plain);
    assert!(by_fastpath);
    assert_eq!(
        outcomes(&first),
        [(Code::Done, 990), (Code::InsufficientFunds, 0)]
    );
    let chain = execute_packet(
        session,
        2,
        &[
            linked(operation(TRANSFER, 2, 3, 5)),
            operation(TRANSFER, 3, 4, 1_005),
        ],
    );
    let (second, by_fastpath) = line.ask(&chain);
    assert!(!by_fastpath);
    assert_eq!(outcomes(&second), [(Code::Done, 1_005), (Code::Done, 0)]);
    assert_eq!(line.ask(&chain).0, second);
    let third = execute_packet(session, 3, &[operation(ISSUE, 3, 0, 7)]);
    let (third_reply, by_fastpath) = line.ask(&third);
    assert!(by_fastpath, "the fast path continues where the host stopped");
    assert_eq!(line.paper(TRANSFER, 2, 4, 5, 5), (3, 2_000));
    line.check();
    let before = line.balances();
    assert_eq!(before, [990, 1_005, 7, 2_000, 1_005, 1_000]);

    // The power is cut, and the fast path is lost.
    drop(line);
    disk.power_cut();
    let mut line = start(&disk);
    line.check();
    assert_eq!(line.balances(), before);
    assert_eq!(
        line.ask(&third).0,
        third_reply,
        "the third packet is executed once"
    );
    assert_eq!(line.paper(TRANSFER, 2, 4, 5, 5), (3, 2_000));
    let body = SessionBody {
        token: session.1.into(),
        slot: session.0.into(),
        ..SessionBody::new_zeroed()
    };
    line.ask(&session_packet(TRANSFER_OP_CLOSE, &body));
    let late = execute_packet(session, 4, &[operation(TRANSFER, 1, 2, 1)]);
    assert_eq!(line.ask(&late).0[5], 5, "status 5: the session is closed");
    line.check();
    line.host.tick(NOW_S + 20);
    let report = audit(&disk, *key().verifying_key()).unwrap();
    assert_eq!(report.balances, 6_007);
    for number in 1..=report.operations {
        assert!(
            prove(&disk, number).unwrap().unwrap().fault().is_none(),
            "{number}"
        );
    }
    assert!(line.host.snapshot().is_ok());
    drop(line);
    start(&disk).check();
    let durable = common::start(&disk, 1, SealPolicy::default()).err().unwrap();
    assert!(durable.to_string().contains("express"), "{durable}");
}

#[test]
fn the_next_host_continues_with_the_rings_of_a_killed_host() {
    let disk = SimDisk::new(2);
    let mut line = start(&disk);
    for account in 1..=2 {
        line.paper(CREATE, 0, account, 0, 100);
    }
    line.host.drain();
    // The host's process is killed; the fast path continues in memory that outlives it.
    let ExpressServer {
        store,
        fastpath,
        host,
        readers,
    } = line;
    drop((host, readers));
    disk.kill();
    let transfer = PaperRequest::new(TRANSFER, 0, 1, 2, 1).to_bytes();
    for _ in 0..30 {
        let mut reply = Reply::default();
        assert_eq!(
            fastpath.answer(LOOPBACK, lease::now_ns(), &transfer, &mut reply),
            Verdict::Reply
        );
    }
    // One record became durable before its ring was released.
    let ring = (0..4)
        .map(|index| Ring::of(&store, index))
        .find(|ring| ring.waiting() > 0)
        .unwrap();
    assert_eq!(ring.waiting(), 30);
    let line = start_on(&disk, store);
    let mut line = line.unwrap();
    line.check();
    assert_eq!(line.balances()[..2], [70, 130]);
}

#[test]
fn the_fast_path_is_busy_while_the_disk_is_full_and_continues_afterwards() {
    let disk = SimDisk::new(3);
    let mut line = start(&disk);
    for account in 1..=2 {
        line.paper(CREATE, 0, account, 0, 1_000_000);
    }
    line.host.tick(NOW_S);
    disk.set_capacity_bytes(Some(disk.used_bytes()));
    let mut done = 0;
    let busy = loop {
        let (command, amount) = line.paper(TRANSFER, 0, 1, 2, 1);
        if command != 3 {
            break amount;
        }
        done += 1;
        if done % 32 == 0 {
            line.host.tick(NOW_S);
        }
    };
    assert_eq!(busy, Code::Busy as u32);
    assert_eq!(
        line.paper(REFER, 0, 2, 0, 0),
        (4, 1_000_000 + done),
        "reads continue while the disk is full"
    );
    disk.set_capacity_bytes(None);
    line.host.tick(NOW_S);
    assert_eq!(line.paper(TRANSFER, 0, 1, 2, 1).0, 3);
    line.check();
    disk.fail_nth(lineside_journal::Op::SyncData, 1);
    line.paper(TRANSFER, 0, 1, 2, 1);
    line.host.tick(NOW_S);
    assert!(line.host.failed().is_some());
    let transfer = PaperRequest::new(TRANSFER, 0, 1, 2, 1).to_bytes();
    let (reply, by_fastpath) = line.ask(&transfer);
    assert!(
        !by_fastpath && reply[19] == Code::Busy as u8,
        "the fast path does not continue without a journal"
    );
}

#[test]
fn fast_path_and_host_both_refuse_a_sender_without_permission() {
    let disk = SimDisk::new(4);
    let mut line = start(&disk);
    let create = PaperRequest::new(CREATE, 0, 1, 0, 100).to_bytes();
    let (refused, by_fastpath) = line.ask_from(ELSEWHERE, &create);
    assert!(by_fastpath && refused[19] == Code::Unauthorised as u8);
    lease::end(&line.store.control().lease_until_ns);
    let (again, by_fastpath) = line.ask_from(ELSEWHERE, &create);
    assert!(!by_fastpath);
    assert_eq!(refused, again);
}

#[test]
fn fast_path_threads_and_a_host_that_claims_accounts_agree() {
    let disk = SimDisk::new(5);
    let mut line = start(&disk);
    for account in 1..=ACCOUNTS {
        line.paper(CREATE, 1, account, 0, 1_000_000);
    }
    let chains = line.open(9);
    let sessions: Vec<(u32, u64)> = (0..3).map(|port| line.open(port)).collect();
    let ExpressServer {
        store,
        fastpath,
        host,
        readers,
    } = line;
    let (fastpath, host) = (Arc::new(fastpath), Mutex::new(host));
    let (stop, by_fastpath, by_host) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for (thread, session) in sessions.iter().enumerate() {
            let (fastpath, host, readers) = (Arc::clone(&fastpath), &host, readers.clone());
            let (stop, by_fastpath, by_host) = (&stop, &by_fastpath, &by_host);
            scope.spawn(move || {
                let _stop = StopOnDrop(stop);
                let reader = readers.join();
                let mut random = random(thread as u64);
                let mut sequence = 1;
                while !stop.load(SeqCst) {
                    let account = |word: u64| (word % u64::from(ACCOUNTS)) as u32 + 1;
                    let operations: Vec<_> = (0..random() % 4 + 1)
                        .map(|_| operation(TRANSFER, account(random()), account(random()), random() % 50))
                        .collect();
                    let packet = execute_packet(*session, sequence, &operations);
                    // The test sends each packet twice: the second copy must get the reply without being executed.
                    let mut replies = Vec::new();
                    while replies.len() < 2 {
                        let mut reply = Reply::default();
                        reader.pin();
                        let verdict = fastpath.answer(LOOPBACK, lease::now_ns(), &packet, &mut reply);
                        reader.unpin();
                        let reply = if verdict == Verdict::Reply {
                            by_fastpath.fetch_add(1, SeqCst);
                            reply.as_bytes().to_vec()
                        } else {
                            by_host.fetch_add(1, SeqCst);
                            let asked = [BatchRequest {
                                from: LOOPBACK,
                                payload: &packet,
                            }];
                            let said = host.lock().unwrap().group(NOW_S, &asked);
                            said.into_iter().next().unwrap().reply.unwrap()
                        };
                        if reply[5] == 3 {
                            // The reply is busy, and nothing was executed. The host empties the rings.
                            host.lock().unwrap().drain();
                            continue;
                        }
                        assert_eq!(reply[5], 0, "{reply:02x?}");
                        replies.push(reply);
                    }
                    assert_eq!(replies[0], replies[1]);
                    sequence += 1;
                }
            });
        }
        let _stop = StopOnDrop(&stop);
        let mut host_asks = 0;
        let enough = |host_asks| {
            let has_met = by_host.load(SeqCst) > 0 || host_asks == 50_000;
            by_fastpath.load(SeqCst) >= 20_000 && host_asks >= 50 && has_met
        };
        while !stop.load(SeqCst) && !enough(host_asks) {
            host_asks += 1;
            let chain = [linked(operation(TRANSFER, 1, 2, 3)), operation(TRANSFER, 2, 3, 3)];
            let packet = execute_packet(chains, host_asks, &chain);
            let said = host.lock().unwrap().group(
                NOW_S,
                &[BatchRequest {
                    from: LOOPBACK,
                    payload: &packet,
                }],
            );
            assert_eq!(said[0].reply.as_ref().unwrap()[5], 0);
        }
    });
    let fastpath = Arc::into_inner(fastpath).unwrap();
    let mut line = ExpressServer {
        store,
        fastpath,
        host: host.into_inner().unwrap(),
        readers,
    };
    line.check();
    assert_eq!(line.host.ledger().sum_of_balances(), 6_000_000);
    let balances = line.balances();
    drop(line);
    disk.power_cut();
    let mut line = start(&disk);
    line.check();
    assert_eq!(line.balances(), balances);
    assert_eq!(audit(&disk, *key().verifying_key()).unwrap().balances, 6_000_000);
    assert!(
        by_host.load(SeqCst) > 0,
        "the host never claimed an account or paused the fast path"
    );
}

#[test]
fn a_host_that_ends_empties_the_rings_and_leaves_the_fast_path_stopped() {
    let disk = SimDisk::new(6);
    let mut line = start(&disk);
    for account in 1..=2 {
        line.paper(CREATE, 0, account, 0, 1_000);
    }
    for _ in 0..20 {
        line.paper(TRANSFER, 0, 1, 2, 1);
    }
    assert_eq!(line.host.unjournaled(), 22);
    line.host.end();
    assert_eq!(line.host.unjournaled(), 0);
    let mut reply = Reply::default();
    let transfer = PaperRequest::new(TRANSFER, 0, 1, 2, 1).to_bytes();
    let verdict = line
        .fastpath
        .answer(LOOPBACK, lease::now_ns(), &transfer, &mut reply);
    assert_eq!(verdict, Verdict::Forward);
    drop(line);
    disk.power_cut();
    assert_eq!(start(&disk).balances()[..2], [980, 1_020]);
}

#[test]
fn the_host_executes_nothing_while_a_full_disk_keeps_the_ledger_behind_the_fast_path() {
    let disk = SimDisk::new(7);
    let mut line = start(&disk);
    for account in 1..=2 {
        line.paper(CREATE, 0, account, 0, 1_000);
    }
    let session = line.open(1);
    line.host.tick(NOW_S);
    disk.set_capacity_bytes(Some(disk.used_bytes()));
    // The fast path executes until the journal is full, and is then ahead of it.
    while line.host.unjournaled() == 0 {
        for _ in 0..8 {
            line.paper(ISSUE, 0, 2, 0, 0);
        }
        line.host.tick(NOW_S);
    }
    let chain = [linked(operation(TRANSFER, 1, 2, 5)), operation(TRANSFER, 2, 1, 3)];
    let packet = execute_packet(session, 1, &chain);
    let (refused, by_fastpath) = line.ask(&packet);
    assert!(
        !by_fastpath && refused[5] == 9,
        "the reply must be `no_room` (9), but is {}",
        refused[5]
    );
    assert_eq!(
        line.paper(REFER, 0, 1, 0, 0),
        (4, 1_000),
        "the fast path continues"
    );
    let body = [
        &[0, 0, 0, 1, 0, 0, 0, 0][..],
        &AccountId::from_paper(1).0,
        &[0; 32],
    ]
    .concat();
    let header = native::request_header(TRANSFER_OP_REFER, 1, body.len() as u16);
    let refer = [header.as_bytes(), &body].concat();
    let asked = [BatchRequest {
        from: LOOPBACK,
        payload: &refer,
    }];
    let reply = line.host.group(NOW_S, &asked).remove(0).reply.unwrap();
    assert_eq!(
        reply[16 + 5],
        2,
        "operations that are not journaled are not reported as durable"
    );
    disk.set_capacity_bytes(None);
    let (done, _) = line.ask(&packet);
    assert_eq!(outcomes(&done), [(Code::Done, 995), (Code::Done, 1_002)]);
    line.check();
}

#[test]
fn an_account_that_the_fast_path_created_may_exceed_the_ledgers_limit() {
    let disk = SimDisk::new(8);
    let mut line = start(&disk);
    let most = common::limits().accounts as u32;
    for account in 1..=most + 40 {
        assert_eq!(line.paper(CREATE, 0, account, 0, 1), (1, 1));
        line.host.drain();
    }
    line.check();
    let session = line.open(1);
    let create = [linked(operation(ISSUE, 1, 0, 1)), operation(CREATE, 999, 0, 1)];
    let (reply, by_fastpath) = line.ask(&execute_packet(session, 1, &create));
    assert!(!by_fastpath);
    assert_eq!(
        outcomes(&reply)[1],
        (Code::StoreFull, 0),
        "the host creates no further account"
    );
    drop(line);
    disk.power_cut();
    let mut line = start(&disk);
    line.check();
    assert_eq!(line.host.ledger().sum_of_balances(), u128::from(most + 40));
}

#[test]
fn packets_of_a_session_are_applied_in_order_from_different_rings() {
    let disk = SimDisk::new(9);
    let mut line = start(&disk);
    for account in 1..=ACCOUNTS {
        assert_eq!(line.paper(CREATE, 0, account, 0, 100), (1, 100));
    }
    let session = line.open(1);
    let on_cpu = |cpu: usize, payload: &[u8]| {
        let fastpath = TransferFastPath::on_cpu(Arc::clone(&line.store), cpu);
        let verdict = fastpath.answer(LOOPBACK, lease::now_ns(), payload, &mut Reply::default());
        assert_eq!(verdict, Verdict::Reply);
    };
    on_cpu(2, &PaperRequest::new(TRANSFER, 0, 1, 2, 1).to_bytes());
    // The second operation of this packet depends on a record in ring 2; the next packet depends only on this packet.
    let both = [operation(TRANSFER, 3, 4, 1), operation(TRANSFER, 1, 2, 1)];
    on_cpu(0, &execute_packet(session, 1, &both));
    on_cpu(1, &execute_packet(session, 2, &[operation(TRANSFER, 5, 6, 1)]));
    line.check();
    assert_eq!(line.balances(), [98, 102, 99, 101, 99, 101]);
}

#[test]
fn the_host_executes_signed_packets_and_unsigned_ones_do_not_pause_the_fast_path() {
    let disk = SimDisk::new(5);
    let mut line = start(&disk);
    let signer = Signer::from_bytes(Curve::P256, &[3; 32]).unwrap();
    let session = line.open(1);
    let create = Operation {
        destination: signer.id().0,
        ..operation(CREATE, 1, 0, 100)
    };
    let (reply, by_fastpath) = line.ask(&execute_packet(session, 1, &[create, operation(CREATE, 2, 0, 0)]));
    assert!(by_fastpath);
    assert_eq!(outcomes(&reply), [(Code::Done, 100), (Code::Done, 0)]);
    line.store.control().require_signature.store(1, SeqCst);
    let pay = operation(TRANSFER, 1, 2, 10);
    let plain = execute_packet(session, 2, &[pay]);
    let paper = PaperRequest::new(TRANSFER, 1, 1, 2, 10).to_bytes();
    let rests = line.host.counts().rests;
    let (reply, by_fastpath) = line.ask(&plain);
    assert!(!by_fastpath);
    assert_eq!(outcomes(&reply), [(Code::Unauthorised, 10)]);
    let (reply, by_fastpath) = line.ask(&paper);
    assert!(by_fastpath && reply[19] == Code::Unauthorised as u8);
    assert_eq!(
        line.host.counts().rests,
        rests,
        "the fast path was not paused for a request that is refused anyway"
    );
    let (execute, rest) = ExecuteHead::ref_from_prefix(&plain[16..]).unwrap();
    let head = signer.sign(execute, <[Operation]>::ref_from_bytes(rest).unwrap());
    let bytes = (head.as_bytes().len() + plain.len() - 16) as u16;
    let header = native::request_header(TRANSFER_OP_SIGNED, 1, bytes);
    let signed = [header.as_bytes(), head.as_bytes(), &plain[16..]].concat();
    let mut forged = signed.clone();
    forged[100] ^= 1;
    let (reply, _) = line.ask(&forged);
    assert_eq!(outcomes(&reply), [(Code::Unauthorised, 10)]);
    assert_eq!(line.host.counts().rests, rests);
    let (reply, _) = line.ask(&signed);
    assert_eq!(outcomes(&reply), [(Code::Done, 90)]);
    assert_eq!(
        line.host.counts().rests,
        rests,
        "the fast path executes no operations, so it need not be paused"
    );
    line.check();
}

#[test]
fn refusals_of_the_fast_path_take_little_of_the_journal_and_are_restored() {
    let disk = SimDisk::new(1);
    let mut line = start(&disk);
    let session = line.open(1);
    line.paper(CREATE, 0, 1, 0, 10);
    line.host.drain();
    let before = line.host.journal_bytes();
    let refused = [operation(TRANSFER, 1, 9, 1); 4];
    let mut first = Vec::new();
    for sequence in 1..=10 {
        let (reply, by_fastpath) = line.ask(&execute_packet(session, sequence, &refused));
        assert!(by_fastpath);
        assert_eq!(outcomes(&reply), [(Code::UnknownAccount, 0); 4]);
        first = reply;
    }
    line.host.drain();
    let bytes = line.host.journal_bytes() - before;
    assert!(bytes <= 10 * 96, "{bytes} bytes");
    // Of a packet with an executed operation, the journal has all records.
    let mixed = [
        operation(TRANSFER, 1, 9, 1),
        operation(CREATE, 2, 0, 5),
        operation(TRANSFER, 2, 9, 1),
    ];
    line.ask(&execute_packet(session, 11, &mixed));
    line.check();
    let ledger = line.host.ledger().to_bytes();
    assert_eq!(line.host.ledger().number(), 2);
    drop(line);
    disk.power_cut();
    let mut line = start(&disk);
    assert_eq!(line.host.ledger().to_bytes(), ledger);
    let (again, _) = line.ask(&execute_packet(session, 10, &refused));
    assert_ne!(again, first, "the sequence number is an old one");
    assert_eq!(again[5], 6);
    let (again, _) = line.ask(&execute_packet(session, 11, &mixed));
    assert_eq!(outcomes(&again)[1], (Code::Done, 5));
    assert_eq!(audit(&disk, *key().verifying_key()).unwrap().operations, 2);
}

#[test]
fn refusals_in_the_paper_format_take_little_of_the_journal_and_are_restored() {
    let disk = SimDisk::new(1);
    let mut line = start(&disk);
    for account in 1..=2 {
        line.paper(CREATE, 0, account, 0, 10);
    }
    line.host.drain();
    let bytes_of = |line: &mut ExpressServer, id: u32, destination: u32, code: Code| {
        let before = line.host.journal_bytes();
        let refused = line.paper(TRANSFER, id, 1, destination, 11);
        assert_eq!(refused, (TRANSFER as u32 | 1 << 31, code as u32));
        line.host.drain();
        line.host.journal_bytes() - before
    };
    // A request without a transaction id cannot be repeated, so nothing is stored for it.
    assert_eq!(bytes_of(&mut line, 0, 2, Code::InsufficientFunds), 0);
    let ids = [(5, 2, Code::InsufficientFunds), (6, 1, Code::SameAccount)];
    for (id, destination, code) in ids {
        let bytes = bytes_of(&mut line, id, destination, code);
        assert!((1..=96).contains(&bytes), "{bytes} bytes");
    }
    // In the journal, the creation of the account comes first, because its record is in another ring; the refusal still
    // has the reply that was given.
    let on_cpu = |cpu: usize, request: PaperRequest| {
        let fastpath = TransferFastPath::on_cpu(Arc::clone(&line.store), cpu);
        let mut reply = Reply::default();
        let verdict = fastpath.answer(LOOPBACK, lease::now_ns(), &request.to_bytes(), &mut reply);
        assert_eq!(verdict, Verdict::Reply);
        reply.as_bytes()[19]
    };
    let refused = on_cpu(1, PaperRequest::new(TRANSFER, 9, 1, 7, 1));
    assert_eq!(refused, Code::UnknownAccount as u8);
    on_cpu(0, PaperRequest::new(CREATE, 0, 7, 0, 10));
    line.check();
    let ledger = line.host.ledger().to_bytes();
    drop(line);
    disk.power_cut();
    let mut line = start(&disk);
    line.check();
    assert_eq!(line.host.ledger().to_bytes(), ledger);
    let before = line.host.journal_bytes();
    let again = line.paper(TRANSFER, 9, 1, 7, 1);
    assert_eq!(again, (TRANSFER as u32 | 1 << 31, Code::UnknownAccount as u32));
    line.check();
    assert_eq!(
        line.host.journal_bytes(),
        before,
        "the retry must get the reply of the first time"
    );
    assert_eq!(audit(&disk, *key().verifying_key()).unwrap().operations, 3);
}

#[test]
fn an_idle_session_is_closed_for_a_new_one_while_the_fast_path_continues() {
    const IDLE_S: u64 = 7 * 86_400;
    let disk = SimDisk::new(1);
    let limits = Limits {
        sessions: 2,
        ..common::limits()
    };
    let store = Arc::new(Store::anonymous(&geometry()).unwrap());
    let mut line = start_within(&disk, store, limits).unwrap();
    let (old, used) = (line.open(1), line.open(2));
    line.paper(CREATE, 0, 1, 0, 10);
    let open_at = |line: &mut ExpressServer, now_s: u64| {
        let body = SessionBody::new_zeroed();
        let ask = |line: &mut ExpressServer, body: &SessionBody| {
            let payload = session_packet(TRANSFER_OP_OPEN, body);
            let asked = BatchRequest {
                from: LOOPBACK,
                payload: &payload,
            };
            line.host.group(now_s, &[asked]).remove(0).reply.unwrap()
        };
        let first = ask(line, &body);
        let challenge = SessionBody::ref_from_bytes(&first[16..]).unwrap().challenge;
        let reply = ask(line, &SessionBody { challenge, ..body });
        let granted = SessionBody::ref_from_bytes(&reply[16..]).ok();
        granted.map(|body| (body.slot.get(), body.token.get()))
    };
    assert_eq!(open_at(&mut line, NOW_S + IDLE_S - 1), None);
    // Only the fast path knows that this session is used.
    let (reply, by_fastpath) = line.ask(&execute_packet(used, 1, &[operation(ISSUE, 1, 0, 1)]));
    assert!(by_fastpath && reply[5] == 0);
    let new = open_at(&mut line, NOW_S + IDLE_S).unwrap();
    assert_eq!((new.0, new.1 == old.1), (old.0, false));
    assert_eq!(
        open_at(&mut line, NOW_S + IDLE_S),
        None,
        "the other session is in use"
    );
    lease::renew(&line.store.control().lease_until_ns, LEASE_NS);
    for (session, sequence, status) in [(old, 1, 5), (used, 2, 0), (new, 1, 0)] {
        let packet = execute_packet(session, sequence, &[operation(TRANSFER, 1, 9, 1)]);
        let (reply, by_fastpath) = line.ask(&packet);
        assert_eq!((reply[5], by_fastpath), (status, true), "{session:?}");
    }
    line.check();
    let ledger = line.host.ledger().to_bytes();
    drop(line);
    disk.power_cut();
    let store = Arc::new(Store::anonymous(&geometry()).unwrap());
    let line = start_within(&disk, store, limits).unwrap();
    assert_eq!(line.host.ledger().to_bytes(), ledger);
}

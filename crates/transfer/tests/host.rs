//! Tests of the host in `durable`: every code, exactly-once execution, linked and pending operations, restarts.

mod common;

use common::{
    ELSEWHERE, LOOPBACK, NOW_S, Server, execute_packet, key, operation, outcomes, session_packet, start,
};
use lineside_fastpath::{BatchRequest, FastPath, Reply, RequestOutcome, Verdict};
use lineside_journal::{Op, SimDisk};
use lineside_transfer::AccountId;
use lineside_transfer::host::{SealPolicy, audit, prove};
use lineside_transfer::paper::PaperRequest;
use lineside_wire::{
    Operation, SessionBody, TRANSFER_COMMAND_CREATE as CREATE, TRANSFER_COMMAND_FREEZE as FREEZE,
    TRANSFER_COMMAND_ISSUE as ISSUE, TRANSFER_COMMAND_REFER as REFER, TRANSFER_COMMAND_TRANSFER as TRANSFER,
    TRANSFER_COMMAND_UNFREEZE as UNFREEZE, TRANSFER_CONTRACT_PENDING as PENDING,
    TRANSFER_CONTRACT_POST as POST, TRANSFER_CONTRACT_VOID as VOID, TRANSFER_FLAG_LINKED as LINKED,
    TRANSFER_OP_CLOSE, TRANSFER_OP_OPEN, TRANSFER_OP_SESSION, TransferCode as Code,
};
use std::sync::atomic::Ordering::Relaxed;
use zerocopy::{FromBytes, FromZeros};

const SEAL: SealPolicy = SealPolicy {
    operations: 8,
    seconds: 10,
};
const REFUSED: u32 = 0x8000_0000;

fn server() -> (SimDisk, Server) {
    let disk = SimDisk::new(1);
    let server = start(&disk, 1, SEAL).unwrap();
    (disk, server)
}

fn refused(command: u8, code: Code) -> (u32, u32) {
    (REFUSED | u32::from(command), code as u32)
}

#[test]
fn every_paper_command_and_refusal_is_answered() {
    let (_, mut server) = server();
    assert_eq!(server.paper(CREATE, 0, 1, 0, 100), (1, 100));
    assert_eq!(server.paper(CREATE, 0, 2, 0, 0), (1, 0));
    assert_eq!(
        server.paper(CREATE, 0, 1, 0, 5),
        refused(CREATE, Code::AccountExists)
    );
    assert_eq!(server.paper(ISSUE, 0, 1, 0, 11), (2, 111));
    assert_eq!(
        server.paper(ISSUE, 0, 3, 0, 11),
        refused(ISSUE, Code::UnknownAccount)
    );
    assert_eq!(
        server.paper(ISSUE, 0, 1, 0, u32::MAX),
        refused(ISSUE, Code::Overflow)
    );
    assert_eq!(server.paper(TRANSFER, 0, 1, 2, 11), (3, 100));
    assert_eq!(
        server.paper(TRANSFER, 0, 1, 2, 101),
        refused(TRANSFER, Code::InsufficientFunds)
    );
    assert_eq!(
        server.paper(TRANSFER, 0, 1, 1, 1),
        refused(TRANSFER, Code::SameAccount)
    );
    assert_eq!(
        server.paper(TRANSFER, 0, 1, 3, 1),
        refused(TRANSFER, Code::UnknownAccount)
    );
    assert_eq!(
        server.paper(TRANSFER, 0, 3, 1, 1),
        refused(TRANSFER, Code::UnknownAccount)
    );
    assert_eq!(server.paper(REFER, 0, 2, 0, 0), (4, 11));
    assert_eq!(
        server.paper(REFER, 0, 3, 0, 0),
        refused(REFER, Code::UnknownAccount)
    );
    assert_eq!(server.paper(9, 0, 1, 0, 0), refused(9, Code::BadCommand));
    for command in [CREATE, ISSUE] {
        let request = PaperRequest::new(command, 0, 9, 0, 1).to_bytes();
        let reply = server.ask_at(NOW_S, ELSEWHERE, &request).unwrap();
        assert_eq!(reply[16..20], (Code::Unauthorised as u32).to_be_bytes());
    }
    for account in 3..=256 {
        assert_eq!(server.paper(CREATE, 0, account, 0, 0), (1, 0));
    }
    assert_eq!(
        server.paper(CREATE, 0, 257, 0, 0),
        refused(CREATE, Code::StoreFull)
    );
}

#[test]
fn a_transaction_id_is_executed_once() {
    let (disk, mut server) = server();
    server.paper(CREATE, 1, 1, 0, 100);
    server.paper(CREATE, 0, 2, 0, 0);
    assert_eq!(
        server.paper(CREATE, 1, 1, 0, 100),
        (1, 100),
        "the reply is not `exists`, because the packet is a repetition"
    );
    assert_eq!(server.paper(TRANSFER, 5, 1, 2, 10), (3, 90), "gaps are allowed");
    for _ in 0..3 {
        assert_eq!(server.paper(TRANSFER, 5, 1, 2, 10), (3, 90));
        let cut = disk.fork(3);
        cut.power_cut();
        server = start(&cut, 2, SEAL).unwrap();
    }
    assert_eq!(
        server.paper(TRANSFER, 5, 1, 2, 11),
        refused(TRANSFER, Code::IdReused)
    );
    assert_eq!(
        server.paper(TRANSFER, 4, 1, 2, 10),
        refused(TRANSFER, Code::StaleId)
    );
    assert_eq!(
        server.paper(TRANSFER, 6, 1, 2, 1000),
        refused(TRANSFER, Code::InsufficientFunds)
    );
    server.paper(ISSUE, 0, 1, 0, 10_000);
    assert_eq!(
        server.paper(TRANSFER, 6, 1, 2, 1000),
        refused(TRANSFER, Code::InsufficientFunds),
        "the retry gets the first reply, although the operation would succeed now"
    );
    assert_eq!(server.paper(REFER, 0, 2, 0, 0), (4, 10));
}

#[test]
fn a_packet_of_a_session_is_executed_once_also_after_a_restart() {
    let (disk, mut server) = server();
    let session = server.open();
    let create = [operation(CREATE, 1, 0, 50), operation(CREATE, 2, 0, 0)];
    assert_eq!(
        server.execute(session, 1, &create),
        [(Code::Done, 50), (Code::Done, 0)]
    );
    let packet = execute_packet(
        session,
        2,
        &[operation(TRANSFER, 1, 2, 20), operation(TRANSFER, 1, 2, 40)],
    );
    let first = server.ask(&packet).unwrap();
    assert_eq!(outcomes(&first), [(Code::Done, 30), (Code::InsufficientFunds, 0)]);
    for seed in 0..3 {
        assert_eq!(server.ask(&packet).unwrap(), first);
        disk.power_cut();
        server = start(&disk, seed, SEAL).unwrap();
    }
    let status = |reply: Vec<u8>| (reply[5], u64::from_be_bytes(reply[24..32].try_into().unwrap()));
    let other = execute_packet(session, 2, &[operation(TRANSFER, 1, 2, 21)]);
    assert_eq!(status(server.ask(&other).unwrap()), (7, 3), "reused; 3 is next");
    let skipped = execute_packet(session, 4, &[operation(TRANSFER, 1, 2, 1)]);
    assert_eq!(status(server.ask(&skipped).unwrap()), (6, 3));
    let foreign = execute_packet((session.0, session.1 ^ 1), 3, &[operation(TRANSFER, 1, 2, 1)]);
    assert_eq!(status(server.ask(&foreign).unwrap()), (5, 0));
    let body = SessionBody {
        token: session.1.into(),
        slot: session.0.into(),
        ..SessionBody::new_zeroed()
    };
    let state = server.ask(&session_packet(TRANSFER_OP_SESSION, &body)).unwrap();
    assert_eq!(
        SessionBody::ref_from_bytes(&state[16..]).unwrap().sequence.get(),
        3
    );
    server.ask(&session_packet(TRANSFER_OP_CLOSE, &body)).unwrap();
    let late = execute_packet(session, 3, &[operation(TRANSFER, 1, 2, 1)]);
    assert_eq!(status(server.ask(&late).unwrap()), (5, 0));
}

#[test]
fn a_session_needs_a_returned_challenge_and_their_number_is_limited() {
    let (_, mut server) = server();
    let empty = SessionBody::new_zeroed();
    let challenge = server.ask(&session_packet(TRANSFER_OP_OPEN, &empty)).unwrap();
    let challenge = SessionBody::ref_from_bytes(&challenge[16..]).unwrap().challenge;
    let answer = session_packet(TRANSFER_OP_OPEN, &SessionBody { challenge, ..empty });
    let elsewhere = server.ask_at(NOW_S, ELSEWHERE, &answer).unwrap();
    assert_eq!(
        elsewhere[5], 8,
        "a challenge is valid only for the client that requested it"
    );
    let late = server.ask_at(NOW_S + 90, LOOPBACK, &answer).unwrap();
    assert_eq!(late[5], 8, "a challenge expires");
    let first = server.ask(&answer).unwrap();
    assert_eq!(
        server.ask(&answer).unwrap(),
        first,
        "a repeated request opens no second session"
    );
    // Another request returns the same challenge.
    let mut another = answer.clone();
    another[8..16].copy_from_slice(&7_u64.to_be_bytes());
    assert_eq!(
        server.ask(&another).unwrap()[5],
        8,
        "a challenge grants one session"
    );
    // Another client that has the port of the first one gets a challenge of its own.
    let challenge = server.ask(&session_packet(TRANSFER_OP_OPEN, &empty)).unwrap();
    let challenge = SessionBody::ref_from_bytes(&challenge[16..]).unwrap().challenge;
    let second = session_packet(TRANSFER_OP_OPEN, &SessionBody { challenge, ..empty });
    let second = server.ask(&second).unwrap();
    assert_eq!(second[5], 0);
    let session = |reply: &[u8]| {
        let body = SessionBody::ref_from_bytes(&reply[16..]).unwrap();
        (body.slot.get(), body.token.get())
    };
    assert_ne!(session(&second).0, session(&first).0);
    assert_ne!(session(&second).1, session(&first).1);
    for port in 1..3 {
        let from = lineside_fastpath::Source { port, ..LOOPBACK };
        let challenge = server
            .ask_at(NOW_S, from, &session_packet(TRANSFER_OP_OPEN, &empty))
            .unwrap();
        let challenge = SessionBody::ref_from_bytes(&challenge[16..]).unwrap().challenge;
        let answer = session_packet(TRANSFER_OP_OPEN, &SessionBody { challenge, ..empty });
        assert_eq!(server.ask_at(NOW_S, from, &answer).unwrap()[5], 0);
    }
    let from = lineside_fastpath::Source { port: 9, ..LOOPBACK };
    let challenge = server
        .ask_at(NOW_S, from, &session_packet(TRANSFER_OP_OPEN, &empty))
        .unwrap();
    let challenge = SessionBody::ref_from_bytes(&challenge[16..]).unwrap().challenge;
    let answer = session_packet(TRANSFER_OP_OPEN, &SessionBody { challenge, ..empty });
    assert_eq!(
        server.ask_at(NOW_S, from, &answer).unwrap()[5],
        3,
        "an address has at most four sessions"
    );
}

fn linked(mut operation: Operation) -> Operation {
    operation.flags = LINKED;
    operation
}

fn contract(contract: u32, uuid: u8, mut operation: Operation) -> Operation {
    operation.contract = contract.into();
    operation.uuid = [uuid; 16];
    operation
}

#[test]
fn linked_operations_are_executed_all_or_none() {
    let (_, mut server) = server();
    let session = server.open();
    server.execute(
        session,
        1,
        &[operation(CREATE, 1, 0, 50), operation(CREATE, 2, 0, 0)],
    );
    let done = server.execute(
        session,
        2,
        &[
            linked(operation(TRANSFER, 1, 2, 10)),
            linked(operation(CREATE, 3, 0, 7)),
            operation(TRANSFER, 2, 9, 1),
            operation(TRANSFER, 1, 2, 5),
        ],
    );
    let failed = (Code::LinkedFailed, 0);
    assert_eq!(
        done,
        [failed, failed, (Code::UnknownAccount, 0), (Code::Done, 45)]
    );
    assert_eq!(
        server.paper(REFER, 0, 3, 0, 0),
        refused(REFER, Code::UnknownAccount)
    );
    assert_eq!(
        server.host.ledger().issued(),
        50,
        "accounts that the chain created are removed"
    );
    let done = server.execute(
        session,
        3,
        &[operation(TRANSFER, 1, 2, 1), linked(operation(TRANSFER, 1, 2, 1))],
    );
    assert_eq!(
        done,
        [(Code::Done, 44), (Code::BadCommand, 0)],
        "the last operation of the chain is linked to a next one, which is missing"
    );
    let frozen = server.execute(
        session,
        4,
        &[operation(FREEZE, 1, 0, 0), operation(TRANSFER, 1, 2, 1)],
    );
    assert_eq!(frozen, [(Code::Done, 44), (Code::Frozen, 0)]);
    let thawed = server.execute(
        session,
        5,
        &[operation(UNFREEZE, 1, 0, 0), operation(TRANSFER, 1, 2, 1)],
    );
    assert_eq!(thawed, [(Code::Done, 44), (Code::Done, 43)]);
}

#[test]
fn pending_transfers_are_posted_voided_or_expire() {
    let (disk, mut server) = server();
    let session = server.open();
    server.execute(
        session,
        1,
        &[operation(CREATE, 1, 0, 100), operation(CREATE, 2, 0, 0)],
    );
    let mut expiring = contract(PENDING, 3, operation(TRANSFER, 1, 2, 30));
    expiring.timeout_s = 60.into();
    let done = server.execute(
        session,
        2,
        &[
            contract(PENDING, 1, operation(TRANSFER, 1, 2, 40)),
            contract(PENDING, 1, operation(TRANSFER, 1, 2, 1)),
            contract(PENDING, 2, operation(TRANSFER, 1, 2, 20)),
            expiring,
            operation(TRANSFER, 1, 2, 11),
        ],
    );
    let done_with = |balance| (Code::Done, balance);
    let expected = [
        done_with(100),
        (Code::PendingExists, 0),
        done_with(100),
        done_with(100),
        (Code::InsufficientFunds, 0),
    ];
    assert_eq!(done, expected);
    disk.power_cut();
    let mut server = start(&disk, 9, SEAL).unwrap();
    let done = server.execute(
        session,
        3,
        &[
            contract(POST, 1, operation(TRANSFER, 1, 2, 41)),
            contract(POST, 1, operation(TRANSFER, 1, 2, 25)),
            contract(POST, 1, operation(TRANSFER, 1, 2, 0)),
            contract(VOID, 2, operation(TRANSFER, 1, 2, 0)),
            contract(POST, 3, operation(TRANSFER, 2, 1, 0)),
        ],
    );
    let gone = (Code::UnknownPending, 0);
    assert_eq!(
        done,
        [(Code::Overflow, 0), done_with(75), gone, done_with(75), gone]
    );
    server.host.tick(NOW_S + 59);
    assert_eq!(server.host.ledger().pending_sum(), 30);
    server.host.tick(NOW_S + 60);
    assert_eq!(server.host.ledger().pending_sum(), 0);
    assert_eq!(
        server.execute(session, 4, &[operation(TRANSFER, 1, 2, 75)]),
        [done_with(0)]
    );
    disk.power_cut();
    let server = start(&disk, 9, SEAL).unwrap();
    assert_eq!(server.host.ledger().sum_of_balances(), 100);
}

#[test]
fn the_fast_path_answers_from_durable_balances_only() {
    let (disk, mut server) = server();
    server.paper(CREATE, 0, 1, 0, 100);
    server.paper(CREATE, 0, 2, 0, 0);
    server.paper(TRANSFER, 0, 1, 2, 30);
    let refer = |server: &Server, account| {
        let request = PaperRequest::new(REFER, 0, account, 0, 0).to_bytes();
        let mut reply = Reply::default();
        match server.fastpath.answer(LOOPBACK, 1, &request, &mut reply) {
            Verdict::Reply => Some(u32::from_be_bytes(reply.as_bytes()[16..20].try_into().unwrap())),
            Verdict::Forward => None,
            Verdict::Drop(reason) => panic!("{reason:?}"),
        }
    };
    assert_eq!(
        [1, 2, 3].map(|account| refer(&server, account)),
        [Some(70), Some(30), None]
    );
    let write = PaperRequest::new(TRANSFER, 0, 1, 2, 30).to_bytes();
    assert_eq!(
        server.fastpath.answer(LOOPBACK, 1, &write, &mut Reply::default()),
        Verdict::Forward
    );

    disk.fail_nth(Op::SyncData, 1);
    assert_eq!(
        server.ask(&write),
        None,
        "it is unknown whether the operation is on the disk"
    );
    assert_eq!(refer(&server, 1), Some(70));
    assert!(server.host.failed().is_some());
    assert_eq!(server.paper(TRANSFER, 0, 1, 2, 1), refused(TRANSFER, Code::Busy));
    assert_eq!(
        server.paper(REFER, 0, 1, 0, 0),
        refused(REFER, Code::Busy),
        "the state in the host's memory is ahead of the disk"
    );
    disk.clear_faults();
    disk.power_cut();
    let server = start(&disk, 5, SEAL).unwrap();
    assert_eq!(
        refer(&server, 1),
        Some(70),
        "the operation was not synced, so it is lost"
    );
}

#[test]
fn batches_are_executed_during_a_commit_and_answered_when_durable() {
    let (disk, mut server) = server();
    for account in 1..=3 {
        assert_eq!(server.paper(CREATE, 0, account, 0, 100), (1, 100));
    }
    let execute = |server: &mut Server, requests: &[[u8; 22]]| {
        let asked: Vec<BatchRequest<'_>> = requests
            .iter()
            .map(|payload| BatchRequest {
                from: LOOPBACK,
                payload,
            })
            .collect();
        server.host.execute(NOW_S, &asked);
    };
    let amount = |said: &RequestOutcome| said.reply.as_deref().map(|reply| reply[19]);
    let fastpath_holds = |server: &Server| {
        let balance = |account| match server.store.find(&AccountId::from_paper(account)) {
            Some(index) => server.store.cells.as_slice()[index].balance.load(Relaxed),
            None => panic!("the fast path does not know {account}"),
        };
        [1, 2, 3].map(balance)
    };
    let transfer = |id, from, to, amount| PaperRequest::new(TRANSFER, id, from, to, amount).to_bytes();

    assert!(
        server.host.take(true).is_none(),
        "the host has received no request"
    );
    execute(&mut server, &[transfer(1, 1, 2, 10)]);
    assert!(server.host.take(false).is_none(), "the commit is in progress");
    // The balance in this reply also depends on the first batch.
    execute(&mut server, &[PaperRequest::new(REFER, 0, 1, 0, 0).to_bytes()]);
    execute(&mut server, &[transfer(1, 2, 3, 105)]);
    assert!(
        server.host.take(false).is_none(),
        "the commit is still in progress"
    );
    assert_eq!(
        fastpath_holds(&server),
        [100, 100, 100],
        "the fast path does not have the changes yet"
    );

    let first = server.host.take(true).unwrap();
    assert_eq!(amount(&first[0]), Some(90));
    assert_eq!(
        fastpath_holds(&server),
        [90, 110, 100],
        "the fast path has the changes of the first batch only"
    );
    let second = server.host.take(false).unwrap();
    assert_eq!(amount(&second[0]), Some(90));
    assert!(
        server.host.take(false).is_none(),
        "the commit of the third batch is in progress"
    );
    assert_eq!(amount(&server.host.take(true).unwrap()[0]), Some(5));
    assert_eq!(fastpath_holds(&server), [90, 5, 205]);
    assert!(server.host.take(true).is_none());

    // After a failed commit, the later batches are lost, too: the fast path does not get their changes, and they are
    // not answered.
    execute(&mut server, &[transfer(2, 1, 2, 1)]);
    assert!(server.host.take(false).is_none());
    execute(&mut server, &[transfer(2, 3, 1, 1), transfer(3, 9, 1, 1)]);
    disk.fail_nth(Op::SyncData, 1);
    assert!(server.host.take(true).unwrap()[0].reply.is_none());
    assert!(server.host.failed().is_some());
    assert!(
        server
            .host
            .take(true)
            .unwrap()
            .iter()
            .all(|said| said.reply.is_none())
    );
    assert_eq!(fastpath_holds(&server), [90, 5, 205]);
    // After the failure, writes are refused, and the client gets these refusals.
    assert_eq!(server.paper(TRANSFER, 4, 1, 2, 1), refused(TRANSFER, Code::Busy));
}

#[test]
fn a_full_disk_refuses_writes_until_there_is_space() {
    let (disk, mut server) = server();
    let session = server.open();
    server.execute(
        session,
        1,
        &[operation(CREATE, 1, 0, 1000), operation(CREATE, 2, 0, 0)],
    );
    disk.set_capacity_bytes(Some(disk.used_bytes()));
    let mut sequence = 2;
    let full = loop {
        let packet = execute_packet(session, sequence, &[operation(TRANSFER, 1, 2, 1); 8]);
        let reply = server.ask(&packet).unwrap();
        if reply[5] != 0 {
            break reply[5];
        }
        sequence += 1;
    };
    assert_eq!(full, 9);
    let moved = (sequence as u32 - 2) * 8;
    assert!(moved > 0);
    assert_eq!(
        server.paper(REFER, 0, 2, 0, 0),
        (4, moved),
        "reads continue while the disk is full"
    );
    assert_eq!(server.host.counts().writes_refused, 1);
    assert!(server.host.is_full());
    server.host.tick(NOW_S + 1);
    assert!(server.host.is_full());
    disk.set_capacity_bytes(None);
    server.host.tick(NOW_S + 1);
    assert!(server.host.is_full(), "the disk is checked once a second");
    server.host.tick(NOW_S + 2);
    assert!(!server.host.is_full());
    assert_eq!(
        server.execute(session, sequence, &[operation(TRANSFER, 1, 2, 1)]),
        [(Code::Done, 999 - u64::from(moved))]
    );
    disk.power_cut();
    let server = start(&disk, 4, SEAL).unwrap();
    assert_eq!(
        server
            .host
            .ledger()
            .account(&AccountId::from_paper(2))
            .unwrap()
            .holding
            .balance,
        u64::from(moved) + 1
    );
}

#[test]
fn an_audit_replays_everything_and_finds_a_changed_record() {
    let (disk, mut server) = server();
    let session = server.open();
    server.execute(
        session,
        1,
        &[operation(CREATE, 1, 0, 1000), operation(CREATE, 2, 0, 0)],
    );
    for sequence in 2..40 {
        server.execute(session, sequence, &[operation(TRANSFER, 1, 2, 1); 3]);
    }
    server.host.tick(NOW_S + 100);
    let blocks = server.host.blocks();
    assert!(blocks > 10);
    server.host.snapshot().unwrap();
    server.paper(TRANSFER, 3, 1, 2, 1);
    drop(server);
    disk.power_cut();
    let server = start(&disk, 3, SEAL).unwrap();
    assert!(
        server.opened.snapshot > 0 && server.opened.operations == 1,
        "{:?}",
        server.opened
    );
    drop(server);
    let report = audit(&disk, *key().verifying_key()).unwrap();
    assert_eq!(
        (report.blocks, report.accounts, report.issued, report.balances),
        (blocks, 2, 1000, 1000)
    );
    assert_eq!(report.operations, 2 + 38 * 3 + 1);
    for number in [1, 2, 50, report.operations - 1] {
        let proof = prove(&disk, number).unwrap().unwrap();
        assert!(proof.fault().is_none() && proof.block.is_signed_by(key().verifying_key()));
    }
    assert_eq!(prove(&disk, report.operations).unwrap(), None, "not sealed yet");
    let other = k256::ecdsa::SigningKey::from_slice(&[9; 32]).unwrap();
    let error = audit(&disk, *other.verifying_key()).unwrap_err().to_string();
    assert!(error.contains("signature"), "{error}");
}

#[test]
fn a_batch_answers_its_requests_in_order() {
    let (_, mut server) = server();
    let requests: Vec<[u8; 22]> = (1..=200)
        .map(|id| PaperRequest::new(CREATE, 0, id, 0, id).to_bytes())
        .collect();
    let asked: Vec<BatchRequest<'_>> = requests
        .iter()
        .map(|payload| BatchRequest {
            from: LOOPBACK,
            payload,
        })
        .collect();
    let said = server.host.group(NOW_S, &asked);
    for (request, said) in requests.iter().zip(said) {
        assert_eq!(said.reply.unwrap(), *request);
    }
    assert_eq!(server.host.counts().groups, 1);
    let junk: [&[u8]; 4] = [&[], &[0; 19], &[0xff; 23], &[0x80; 20]];
    for payload in junk {
        let said = server.host.group(
            NOW_S,
            &[BatchRequest {
                from: LOOPBACK,
                payload,
            }],
        );
        assert!(said[0].reply.is_none() && said[0].drop.is_some());
    }
}

//! Packets of which some operations were executed and others refused, and operations of 0: their size in the journal,
//! and replay of journals of earlier versions.

mod common;

use common::{LOOPBACK, NOW_S, Server, execute_packet, key, limits, operation, options, outcomes, start};
use lineside_fastpath::Source;
use lineside_journal::{Journal, SimDisk, dump};
use lineside_transfer::AccountId;
use lineside_transfer::entry::Entry;
use lineside_transfer::host::{SealPolicy, audit};
use lineside_transfer::native::{self, Outcome};
use lineside_transfer::paper::{PaperAnswer, PaperRequest};
use lineside_transfer::store::Mode;
use lineside_wire::{
    Operation, TRANSFER_COMMAND_CREATE as CREATE, TRANSFER_COMMAND_ISSUE as ISSUE,
    TRANSFER_COMMAND_TRANSFER as TRANSFER, TRANSFER_FLAG_LINKED as LINKED, TransferCode as Code,
};

const SEAL: SealPolicy = SealPolicy {
    operations: 1_000,
    seconds: 10_000,
};

fn linked(operation: Operation) -> Operation {
    Operation {
        flags: LINKED,
        ..operation
    }
}

/// Returns operations of which only the chains of the first kind can be executed.
fn mixed(count: usize) -> Vec<Operation> {
    let group = [
        operation(TRANSFER, 77, 1, 1),
        linked(operation(TRANSFER, 1, 2, 3)),
        operation(TRANSFER, 2, 1, 2),
        linked(operation(TRANSFER, 1, 2, 1)),
        operation(TRANSFER, 1, 1, 1),
        operation(TRANSFER, 1, 2, 1),
        operation(TRANSFER, 1, 2, 1_000_000),
    ];
    group.into_iter().cycle().take(count).collect()
}

#[test]
fn a_partly_executed_packet_is_answered_again_and_replayed() {
    let disk = SimDisk::new(1);
    let mut server = start(&disk, 1, SEAL).unwrap();
    let session = server.open();
    server.execute(
        session,
        1,
        &[operation(CREATE, 1, 0, 500), operation(CREATE, 2, 0, 0)],
    );
    let packet = execute_packet(session, 2, &mixed(28));
    let first = server.ask(&packet).unwrap();
    let codes: Vec<Code> = outcomes(&first).into_iter().map(|(code, _)| code).collect();
    let of_seven = [
        Code::UnknownAccount,
        Code::Done,
        Code::Done,
        Code::LinkedFailed,
        Code::SameAccount,
        Code::Done,
        Code::InsufficientFunds,
    ];
    assert_eq!(codes, of_seven.repeat(4));
    assert_eq!(server.host.ledger().number(), 2 + 12);
    let before = server.host.ledger().to_bytes();
    for takes_snapshot in [false, true] {
        if takes_snapshot {
            server.host.snapshot().unwrap();
        }
        drop(server);
        disk.power_cut();
        server = start(&disk, 1, SEAL).unwrap();
        assert_eq!(server.host.ledger().to_bytes(), before);
        assert_eq!(server.ask(&packet).unwrap(), first);
    }
    let other = execute_packet(session, 2, &mixed(27));
    assert_ne!(
        server.ask(&other).unwrap()[5],
        0,
        "another packet with the same sequence number"
    );
    let audited = audit(&disk, *key().verifying_key()).unwrap();
    assert_eq!((audited.operations, audited.balances), (14, 500));
}

#[test]
fn refused_operations_of_a_partly_executed_packet_cost_half_a_byte_each() {
    let mut server = start(&SimDisk::new(1), 1, SEAL).unwrap();
    let session = server.open();
    server.execute(
        session,
        1,
        &[operation(CREATE, 1, 0, 500), operation(CREATE, 2, 0, 0)],
    );
    let cost = |server: &mut Server, sequence, operations: &[Operation]| {
        let before = server.host.journal_bytes();
        let done = server.execute(session, sequence, operations);
        assert_eq!(done[0].0, Code::Done);
        server.host.journal_bytes() - before
    };
    let one = operation(TRANSFER, 1, 2, 1);
    let alone = cost(&mut server, 2, &[one]);
    let mut operations = vec![one];
    operations.extend([operation(TRANSFER, 77, 78, 1); 60]);
    let with_many = cost(&mut server, 3, &operations);
    assert!(with_many <= alone + 96, "{with_many} bytes instead of {alone}");
    for (at, operation) in operations.iter_mut().enumerate().skip(1) {
        *operation = match at % 3 {
            0 => common::operation(TRANSFER, 77, 78, 1),
            1 => common::operation(TRANSFER, 1, 1, 1),
            _ => common::operation(TRANSFER, 1, 2, 1_000_000),
        };
    }
    let for_many_reasons = cost(&mut server, 4, &operations);
    let most = alone + 96 + operations.len() as u64 / 2;
    assert!(for_many_reasons <= most, "{for_many_reasons} bytes of {most}");
}

#[test]
fn a_transfer_of_0_is_a_bad_command() {
    let mut server = start(&SimDisk::new(1), 1, SEAL).unwrap();
    let session = server.open();
    server.execute(
        session,
        1,
        &[operation(CREATE, 1, 0, 500), operation(CREATE, 2, 0, 0)],
    );
    let nothing = operation(TRANSFER, 1, 2, 0);
    assert_eq!(server.execute(session, 2, &[nothing]), [(Code::BadCommand, 0)]);
    let chain = [linked(operation(TRANSFER, 1, 2, 1)), nothing];
    assert_eq!(
        server.execute(session, 3, &chain),
        [(Code::LinkedFailed, 0), (Code::BadCommand, 0)]
    );
    let before = server.host.journal_bytes();
    for id in [0, 5] {
        let refused = (u32::from(TRANSFER) | 1 << 31, Code::BadCommand as u32);
        assert_eq!(server.paper(TRANSFER, id, 1, 2, 0), refused);
    }
    assert_eq!(server.host.journal_bytes(), before);
    assert_eq!(
        server.paper(TRANSFER, 5, 1, 2, 1),
        (TRANSFER.into(), 499),
        "the refused request used no transaction id"
    );
    let from = Source { port: 9, ..LOOPBACK };
    assert!(
        server
            .ask_at(NOW_S, from, &execute_packet(session, 2, &[nothing]))
            .is_some()
    );
    assert_eq!(server.host.ledger().number(), 3);
}

#[test]
fn a_native_issue_of_0_is_a_bad_command_and_the_paper_executes_it() {
    let mut server = start(&SimDisk::new(1), 1, SEAL).unwrap();
    let session = server.open();
    server.execute(session, 1, &[operation(CREATE, 1, 0, 500)]);
    let nothing = operation(ISSUE, 1, 0, 0);
    assert_eq!(server.execute(session, 2, &[nothing]), [(Code::BadCommand, 0)]);
    let chain = [linked(operation(ISSUE, 1, 0, 1)), nothing];
    assert_eq!(
        server.execute(session, 3, &chain),
        [(Code::LinkedFailed, 0), (Code::BadCommand, 0)]
    );
    assert_eq!(server.host.ledger().number(), 1);
    assert_eq!(server.paper(ISSUE, 0, 1, 0, 0), (ISSUE.into(), 500));
    assert_eq!(server.host.ledger().number(), 2);
}

/// An earlier version executed a native ISSUE of 0. A replay of its journal gives the same state.
#[test]
fn a_journal_with_an_executed_issue_of_0_can_be_replayed() {
    const TOKEN: u64 = 7;
    let done = |number| Outcome {
        amount: 500,
        number,
        ..Outcome::refused(Code::Done)
    };
    let nothing = operation(ISSUE, 1, 0, 0);
    let execute = |sequence, operations: &[Operation], outcomes: &[Outcome]| Entry::Execute {
        slot: 0,
        sequence,
        now_s: NOW_S,
        operations: operations.to_vec(),
        outcomes: outcomes.to_vec(),
        signed: None,
    };
    let entries = [
        Entry::Limits {
            limits: limits(),
            mode: Mode::Durable,
        },
        Entry::Open {
            slot: 0,
            token: TOKEN,
            opener: LOOPBACK.address_bytes(),
            now_s: NOW_S,
        },
        execute(1, &[operation(CREATE, 1, 0, 500)], &[done(1)]),
        execute(2, &[nothing], &[done(2)]),
    ];
    let disk = SimDisk::new(1);
    let (mut journal, _) = Journal::open_or_create(disk.clone(), 1, options()).unwrap();
    for entry in &entries {
        journal.append(entry.kind(), &entry.to_bytes()).unwrap();
    }
    journal.commit().unwrap();
    drop(journal);
    let mut server = start(&disk, 1, SEAL).unwrap();
    assert_eq!(server.host.ledger().number(), 2);
    let again = server.ask(&execute_packet((0, TOKEN), 2, &[nothing])).unwrap();
    assert_eq!(outcomes(&again), [(Code::Done, 500)]);
    assert_eq!(server.execute((0, TOKEN), 3, &[nothing]), [(Code::BadCommand, 0)]);
}

/// In versions up to 0.1, a transfer of 0 was executed, and a partly executed packet was stored completely.
#[test]
fn journals_of_earlier_versions_lead_to_the_same_state() {
    const TOKEN: u64 = 7;
    let done = |amount, number| Outcome {
        amount,
        number,
        ..Outcome::refused(Code::Done)
    };
    let execute = |sequence, operations: &[Operation], outcomes: &[Outcome]| Entry::Execute {
        slot: 0,
        sequence,
        now_s: NOW_S,
        operations: operations.to_vec(),
        outcomes: outcomes.to_vec(),
        signed: None,
    };
    let nothing = operation(TRANSFER, 1, 2, 0);
    let last = [
        nothing,
        linked(nothing),
        operation(TRANSFER, 1, 2, 501),
        operation(77, 1, 2, 1),
    ];
    let refused = PaperRequest::new(TRANSFER, 6, 1, 9, 0);
    let entries = [
        Entry::Limits {
            limits: limits(),
            mode: Mode::Durable,
        },
        Entry::Open {
            slot: 0,
            token: TOKEN,
            opener: LOOPBACK.address_bytes(),
            now_s: NOW_S,
        },
        execute(
            1,
            &[operation(CREATE, 1, 0, 500), operation(CREATE, 2, 0, 0)],
            &[done(500, 1), done(0, 2)],
        ),
        execute(2, &[nothing], &[done(500, 3)]),
        Entry::Paper {
            request: PaperRequest::new(TRANSFER, 5, 1, 2, 0),
            answer: PaperAnswer::done(500),
        },
        Entry::PaperRefused {
            request: refused,
            code: Code::UnknownAccount,
            version: 4,
        },
        execute(
            3,
            &last,
            &[
                done(500, 5),
                Outcome::refused(Code::LinkedFailed),
                Outcome::refused(Code::InsufficientFunds),
                Outcome::refused(Code::BadCommand),
            ],
        ),
    ];
    let disk = SimDisk::new(1);
    let (mut journal, _) = Journal::open_or_create(disk.clone(), 1, options()).unwrap();
    for entry in &entries {
        journal.append(entry.kind(), &entry.to_bytes()).unwrap();
    }
    journal.commit().unwrap();
    drop(journal);
    let mut server = start(&disk, 1, SEAL).unwrap();
    let ledger = server.host.ledger();
    assert_eq!((ledger.number(), ledger.sum_of_balances()), (5, 500));
    let account = ledger.account(&AccountId::from_paper(1)).unwrap();
    assert_eq!(
        account.version, 5,
        "a creation, three transfers and a refusal are five changes"
    );
    assert_eq!(ledger.session(0).unwrap().sum, native::sum(&last));
    let again = server.ask(&execute_packet((0, TOKEN), 3, &last)).unwrap();
    let codes: Vec<Code> = outcomes(&again).into_iter().map(|(code, _)| code).collect();
    assert_eq!(
        codes,
        [
            Code::Done,
            Code::LinkedFailed,
            Code::InsufficientFunds,
            Code::BadCommand
        ]
    );
    server.host.tick(NOW_S + SEAL.seconds);
    assert_eq!(audit(&disk, *key().verifying_key()).unwrap().operations, 5);
    let mut records = 0;
    dump(&disk, 1, |_| records += 1).unwrap();
    assert!(records > entries.len());
}

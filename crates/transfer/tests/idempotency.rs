//! Idempotency keys: an operation with the flag `KEYED` is executed once, whichever session repeats it, and also after
//! a restart from the journal or from a snapshot.

mod common;

use common::{LOOPBACK, NOW_S, Server, execute_packet, key, limits, operation, policy, start, start_in};
use lineside_journal::SimDisk;
use lineside_transfer::AccountId;
use lineside_transfer::host::{SealPolicy, audit, prove};
use lineside_transfer::ledger::Limits;
use lineside_wire::{
    Operation, TRANSFER_COMMAND_CREATE as CREATE, TRANSFER_COMMAND_TRANSFER as TRANSFER,
    TRANSFER_CONTRACT_PENDING as PENDING, TRANSFER_CONTRACT_POST as POST, TRANSFER_CONTRACT_VOID as VOID,
    TRANSFER_FLAG_KEYED as KEYED, TRANSFER_FLAG_LINKED as LINKED, TransferCode as Code,
};
use zerocopy::FromBytes;

/// Blocks of one operation, so that a repetition that was sealed again would be a block too many.
const SEAL: SealPolicy = SealPolicy {
    operations: 1,
    seconds: 10_000,
};
/// Seconds for which keys are remembered.
const WINDOW_S: u64 = 100;

type Session = (u32, u64);

fn keyed(uuid: u8, operation: Operation) -> Operation {
    Operation {
        flags: operation.flags | KEYED,
        uuid: [uuid; 16],
        ..operation
    }
}

fn linked(operation: Operation) -> Operation {
    Operation {
        flags: operation.flags | LINKED,
        ..operation
    }
}

fn contract(contract: u32, amount: u64) -> Operation {
    Operation {
        contract: contract.into(),
        ..operation(TRANSFER, 1, 2, amount)
    }
}

fn few_keys(keys: u64) -> Limits {
    Limits {
        keys,
        key_window_s: WINDOW_S,
        ..limits()
    }
}

fn server(disk: &SimDisk, keys: u64) -> Server {
    start_in(disk, 1, SEAL, few_keys(keys), policy(), Vec::new()).unwrap()
}

/// Returns code, balance and number of each operation of a packet that is sent `after_s` seconds after the start.
fn execute(
    server: &mut Server,
    session: Session,
    sequence: u64,
    after_s: u64,
    operations: &[Operation],
) -> Vec<(Code, u64, u64)> {
    let packet = execute_packet(session, sequence, operations);
    let reply = server.ask_at(NOW_S + after_s, LOOPBACK, &packet).unwrap();
    assert_eq!(u16::from_be_bytes([reply[4], reply[5]]), 0, "status");
    let outcomes = <[Operation]>::ref_from_bytes(&reply[40..]).unwrap();
    let outcome = |operation: &Operation| {
        let code = Code::from_code(operation.code.get()).unwrap();
        (code, operation.amount.get(), operation.number.get())
    };
    outcomes.iter().map(outcome).collect()
}

/// Creates account 1 with a balance of 100 and the empty account 2, as the session's first packet.
fn create_accounts(server: &mut Server, session: Session) {
    let created = server.execute(
        session,
        1,
        &[operation(CREATE, 1, 0, 100), operation(CREATE, 2, 0, 0)],
    );
    assert_eq!(created, [(Code::Done, 100), (Code::Done, 0)]);
}

fn balance(server: &Server, account: u32) -> u64 {
    let account = server.host.ledger().account(&AccountId::from_paper(account));
    account.unwrap().holding.balance
}

#[test]
fn a_repetition_in_another_session_gets_the_first_outcome_also_after_restarts() {
    let disk = SimDisk::new(1);
    let mut first = server(&disk, 10);
    let session = first.open();
    create_accounts(&mut first, session);
    let payment = keyed(7, operation(TRANSFER, 1, 2, 30));
    let outcome = [(Code::Done, 70, 3)];
    assert_eq!(execute(&mut first, session, 2, 0, &[payment]), outcome);
    assert_eq!(
        execute(&mut first, session, 3, 1, &[operation(TRANSFER, 1, 2, 1)])[0].1,
        69
    );
    // Time, nonce and the session may differ from those of the first execution.
    let later = Operation {
        timestamp: 5.into(),
        nonce: 6.into(),
        ..payment
    };
    let other = first.open();
    assert_eq!(execute(&mut first, other, 1, 2, &[later, later]), [outcome[0]; 2]);

    // A restart takes the keys from the journal, and a second restart from a snapshot.
    drop(first);
    let mut replayed = server(&disk, 10);
    assert_eq!(execute(&mut replayed, session, 4, 3, &[payment]), outcome);
    replayed.host.snapshot().unwrap();
    drop(replayed);
    let mut restored = server(&disk, 10);
    assert_eq!(execute(&mut restored, other, 2, 4, &[payment]), outcome);
    assert_eq!((balance(&restored, 1), balance(&restored, 2)), (69, 31));
    assert_eq!(restored.host.ledger().number(), 4);
    assert_eq!(restored.host.blocks(), 3, "a repetition must not be sealed again");
    drop(restored);
    assert_eq!(audit(&disk, *key().verifying_key()).unwrap().operations, 4);
    for number in 1..=4 {
        let proof = prove(&disk, number).unwrap().unwrap();
        assert!(proof.fault().is_none(), "operation {number}");
    }
}

#[test]
fn a_key_is_remembered_for_the_configured_time() {
    let disk = SimDisk::new(2);
    let mut server = server(&disk, 10);
    let session = server.open();
    create_accounts(&mut server, session);
    let payment = [keyed(7, operation(TRANSFER, 1, 2, 30))];
    assert_eq!(
        execute(&mut server, session, 2, 0, &payment),
        [(Code::Done, 70, 3)]
    );
    assert_eq!(
        execute(&mut server, session, 3, WINDOW_S, &payment),
        [(Code::Done, 70, 3)]
    );
    assert_eq!(
        execute(&mut server, session, 4, WINDOW_S + 1, &payment),
        [(Code::Done, 40, 4)]
    );
    // The new execution is remembered from its own time on.
    assert_eq!(
        execute(&mut server, session, 5, 2 * WINDOW_S + 1, &payment),
        [(Code::Done, 40, 4)]
    );
    assert_eq!(server.host.ledger().key_count(), 1);
}

#[test]
fn a_key_with_another_operation_is_refused_and_a_refusal_leaves_the_key_free() {
    let disk = SimDisk::new(3);
    let mut server = server(&disk, 10);
    let session = server.open();
    create_accounts(&mut server, session);
    let too_much = [keyed(7, operation(TRANSFER, 1, 2, 1_000))];
    assert_eq!(
        execute(&mut server, session, 2, 0, &too_much)[0].0,
        Code::InsufficientFunds
    );
    assert_eq!(
        execute(
            &mut server,
            session,
            3,
            0,
            &[keyed(7, operation(TRANSFER, 1, 2, 30))]
        )[0]
        .0,
        Code::Done
    );
    for other in [
        operation(TRANSFER, 1, 2, 31),
        operation(TRANSFER, 1, 3, 30),
        contract(PENDING, 30),
    ] {
        let sequence = server.host.ledger().session(session.0).unwrap().sequence + 1;
        let refused = execute(&mut server, session, sequence, 0, &[keyed(7, other)]);
        assert_eq!(refused, [(Code::IdReused, 0, 0)], "{other:?}");
    }
    // Another account has its own keys, and a key of zeros is refused.
    let back = keyed(7, operation(TRANSFER, 2, 1, 5));
    assert_eq!(
        execute(&mut server, session, 7, 0, &[back]),
        [(Code::Done, 25, 4)]
    );
    let zeros = keyed(0, operation(TRANSFER, 2, 1, 5));
    assert_eq!(
        execute(&mut server, session, 8, 0, &[zeros])[0].0,
        Code::BadCommand
    );
}

#[test]
fn a_pending_transfer_and_its_end_can_be_repeated() {
    let disk = SimDisk::new(4);
    let mut server = server(&disk, 10);
    let session = server.open();
    create_accounts(&mut server, session);
    for sequence in 2..4 {
        let reserved = execute(
            &mut server,
            session,
            sequence,
            0,
            &[keyed(7, contract(PENDING, 30))],
        );
        assert_eq!(reserved, [(Code::Done, 100, 3)]);
    }
    for sequence in 4..6 {
        let posted = execute(&mut server, session, sequence, 0, &[keyed(7, contract(POST, 20))]);
        assert_eq!(posted, [(Code::Done, 80, 4)]);
    }
    // The transfer has ended, so a void with the same uuid is not a repetition.
    let voided = execute(&mut server, session, 6, 0, &[keyed(7, contract(VOID, 0))]);
    assert_eq!(voided[0].0, Code::UnknownPending);
    assert_eq!((balance(&server, 1), balance(&server, 2)), (80, 20));
}

#[test]
fn a_chain_is_repeated_as_a_whole() {
    let disk = SimDisk::new(5);
    let mut server = server(&disk, 10);
    let session = server.open();
    create_accounts(&mut server, session);
    let there = keyed(1, linked(operation(TRANSFER, 1, 2, 30)));
    let back = keyed(2, operation(TRANSFER, 2, 1, 10));
    for sequence in 2..4 {
        let outcomes = execute(&mut server, session, sequence, 0, &[there, back]);
        assert_eq!(outcomes, [(Code::Done, 70, 3), (Code::Done, 20, 4)]);
    }
    let refused = [(Code::LinkedFailed, 0, 0), (Code::IdReused, 0, 0)];
    // Known and new keys, new and known ones, one key twice.
    let new = keyed(3, operation(TRANSFER, 2, 1, 10));
    assert_eq!(execute(&mut server, session, 4, 0, &[there, new]), refused);
    assert_eq!(execute(&mut server, session, 5, 0, &[linked(new), back]), refused);
    assert_eq!(execute(&mut server, session, 6, 0, &[linked(new), new]), refused);
    let unkeyed = execute(
        &mut server,
        session,
        7,
        0,
        &[linked(new), operation(TRANSFER, 2, 1, 1)],
    );
    assert_eq!(unkeyed[1].0, Code::BadCommand);
    assert_eq!((balance(&server, 1), balance(&server, 2)), (80, 20));
    assert_eq!(
        server.host.ledger().key_count(),
        2,
        "refused chains leave no keys"
    );
}

#[test]
fn new_keys_are_refused_while_all_are_in_use() {
    let disk = SimDisk::new(6);
    let mut server = server(&disk, 2);
    let session = server.open();
    create_accounts(&mut server, session);
    let payment = |uuid| keyed(uuid, operation(TRANSFER, 1, 2, 1));
    let outcomes = execute(
        &mut server,
        session,
        2,
        0,
        &[payment(1), payment(2), payment(3), payment(1)],
    );
    let codes: Vec<Code> = outcomes.into_iter().map(|(code, ..)| code).collect();
    assert_eq!(codes, [Code::Done, Code::Done, Code::StoreFull, Code::Done]);
    let later = execute(&mut server, session, 3, WINDOW_S + 1, &[payment(3)]);
    assert_eq!(later, [(Code::Done, 97, 5)]);
    assert_eq!(start(&disk, 1, SEAL).unwrap().host.ledger().key_count(), 1);
}

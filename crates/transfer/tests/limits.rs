//! Requests that are too large for one record or one batch: the host refuses or postpones them, and continues.

mod common;

use common::{LOOPBACK, NOW_S, execute_packet, operation, outcomes, start};
use lineside_journal::SimDisk;
use lineside_transfer::host::SealPolicy;
use lineside_wire::{
    Operation, Status, TRANSFER_COMMAND_CREATE as CREATE, TRANSFER_COMMAND_TRANSFER as TRANSFER,
    TRANSFER_CONTRACT_PENDING as PENDING, TRANSFER_CONTRACT_POST as POST, TransferCode as Code,
};

const SEAL: SealPolicy = SealPolicy {
    operations: 5_000,
    seconds: 10_000,
};

#[test]
fn a_packet_that_is_too_large_for_a_record_is_refused_and_the_host_continues() {
    let mut server = start(&SimDisk::new(1), 1, SEAL).unwrap();
    let session = server.open();
    server.execute(
        session,
        1,
        &[operation(CREATE, 1, 0, 500), operation(CREATE, 2, 0, 0)],
    );
    let few = [operation(TRANSFER, 1, 2, 1)];
    // The journal of the tests accepts records of 8 KiB.
    let reply = server.ask(&execute_packet(session, 2, &[few[0]; 100])).unwrap();
    assert_eq!(reply[5], Status::NoRoom as u8);
    assert_eq!(server.host.failed(), None);
    assert_eq!(server.execute(session, 2, &few), [(Code::Done, 499)]);
    assert_eq!(server.host.ledger().number(), 3);
}

/// Returns a pending transfer with a uuid made from `number`.
fn pending(number: u32, contract: u32) -> Operation {
    let mut operation = operation(TRANSFER, 1, 2, u64::from(contract == PENDING));
    operation.contract = contract.into();
    operation.uuid[..4].copy_from_slice(&number.to_be_bytes());
    if contract == PENDING {
        operation.timeout_s = 60.into();
    }
    operation
}

#[test]
fn more_transfers_may_expire_at_once_than_a_batch_holds() {
    let disk = SimDisk::new(1);
    let mut server = start(&disk, 1, SEAL).unwrap();
    let session = server.open();
    server.execute(
        session,
        1,
        &[operation(CREATE, 1, 0, 5_000), operation(CREATE, 2, 0, 0)],
    );
    let numbers: Vec<u32> = (0..1_600).collect();
    let mut sequence = 1;
    for numbers in numbers.chunks(16) {
        sequence += 1;
        let operations: Vec<Operation> = numbers.iter().map(|number| pending(*number, PENDING)).collect();
        let done = server.execute(session, sequence, &operations);
        assert!(done.iter().all(|(code, _)| *code == Code::Done));
    }
    assert_eq!(server.host.ledger().pending_sum(), 1_600);
    // The packet posts the pending transfer that expires last, in the batch that finds it expired: this is too late.
    let packet = execute_packet(session, sequence + 1, &[pending(1_599, POST)]);
    let reply = server.ask_at(NOW_S + 60, LOOPBACK, &packet).unwrap();
    assert_eq!(outcomes(&reply), [(Code::UnknownPending, 0)]);
    assert_eq!(server.host.ledger().pending_sum(), 0);
    drop(server);
    disk.power_cut();
    let server = start(&disk, 2, SEAL).unwrap();
    assert_eq!(server.host.ledger().pending_sum(), 0);
    assert_eq!(server.host.ledger().sum_of_balances(), 5_000);
}

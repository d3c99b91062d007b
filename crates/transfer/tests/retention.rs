//! Retention: the journal stays within its bound, and removed operations can still be proved.

mod common;

use common::{
    LOOPBACK, NOW_S, execute_packet, geometry, key, limits, operation, options, outcomes, policy, random,
    session_packet, start,
};
use lineside_fastpath::BatchRequest;
use lineside_journal::{Disk, DiskFile, FsDisk, Options, SimDisk, repair, verify};
use lineside_transfer::host::{Host, Retention, SealPolicy, Setup, audit, prove};
use lineside_transfer::signed::TABLE_BYTES;
use lineside_transfer::store::Store;
use lineside_transfer::writer::StoreWriter;
use lineside_wire::{
    SessionBody, TRANSFER_COMMAND_CREATE as CREATE, TRANSFER_COMMAND_TRANSFER as TRANSFER, TRANSFER_OP_OPEN,
    TransferCode as Code,
};
use std::sync::Arc;
use zerocopy::{FromBytes, FromZeros};

const SEAL: SealPolicy = SealPolicy {
    operations: 100,
    seconds: 10_000,
};
const KEEP: Retention = Retention {
    keep_blocks: 20,
    keep_days: 0,
    archive: true,
};

/// Returns the total size of the files with these endings, in bytes.
fn bytes(disk: &impl Disk, endings: &[&str]) -> u64 {
    let names = disk.list().unwrap().into_iter();
    let meant = names.filter(|name| endings.iter().any(|ending| name.ends_with(ending)));
    meant
        .map(|name| disk.open_read(&name).unwrap().len().unwrap())
        .sum()
}

fn open<D: Disk>(disk: &D, options: Options, seed: u64) -> Host<D> {
    let store = Arc::new(Store::anonymous(&geometry()).unwrap());
    let fill = Box::new(StoreWriter::new(Arc::clone(&store)));
    let setup = Setup {
        limits: limits(),
        seal: SEAL,
        sessions: policy(),
        issuer_keys: Vec::new(),
        key_table_bytes: TABLE_BYTES,
        express: None,
    };
    Host::open(disk.clone(), options, setup, key(), random(seed), store, fill)
        .unwrap()
        .0
}

fn ask<D: Disk>(host: &mut Host<D>, now_s: u64, packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let asked: Vec<BatchRequest<'_>> = packets
        .iter()
        .map(|payload| BatchRequest {
            from: LOOPBACK,
            payload,
        })
        .collect();
    let said = host.group(now_s, &asked);
    said.into_iter().map(|said| said.reply.unwrap()).collect()
}

fn session<D: Disk>(host: &mut Host<D>) -> (u32, u64) {
    let body = SessionBody::new_zeroed();
    let reply = ask(host, NOW_S, &[session_packet(TRANSFER_OP_OPEN, &body)]).remove(0);
    let challenge = SessionBody::ref_from_bytes(&reply[16..]).unwrap().challenge;
    let packet = session_packet(TRANSFER_OP_OPEN, &SessionBody { challenge, ..body });
    let reply = ask(host, NOW_S, &[packet]).remove(0);
    let granted = SessionBody::ref_from_bytes(&reply[16..]).unwrap();
    (granted.slot.get(), granted.token.get())
}

/// Directory that is removed when this value is dropped.
struct TestDirectory(std::path::PathBuf);

impl Drop for TestDirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_journal_of_many_operations_stays_within_its_bound_and_every_operation_can_be_proved() {
    let operations: u64 = std::env::var("LINESIDE_RETENTION_OPERATIONS")
        .map_or(100_000, |text| text.parse().expect("a number of operations"));
    let folder =
        TestDirectory(std::env::temp_dir().join(format!("lineside-retention-{}", std::process::id())));
    let disk = FsDisk::open(&folder.0).unwrap();
    let options = Options {
        segment_bytes: 256 << 10,
        group_bytes_max: 128 << 10,
        ..options()
    };
    let mut host = open(&disk, options, 1);
    let own = session(&mut host);
    let make = [operation(CREATE, 1, 0, 1 << 40), operation(CREATE, 2, 0, 0)];
    assert_eq!(
        outcomes(&ask(&mut host, NOW_S, &[execute_packet(own, 1, &make)])[0])[1],
        (Code::Done, 0)
    );
    let (mut sequence, mut largest, mut segments) = (1, 0, 0);
    while host.ledger().number() < operations {
        let packets: Vec<Vec<u8>> = (0..32)
            .map(|_| {
                sequence += 1;
                execute_packet(own, sequence, &[operation(TRANSFER, 1, 2, 1); 16])
            })
            .collect();
        let replies = ask(&mut host, NOW_S, &packets);
        assert!(replies.iter().all(|reply| outcomes(reply)[15].0 == Code::Done));
        if (sequence / 32) % 4 == 0 {
            host.snapshot().unwrap();
            segments += host.retain(&KEEP, NOW_S, u64::MAX).unwrap().segments;
            largest = largest.max(bytes(&disk, &[".log", ".snap", ".tmp"]));
        }
    }
    let operations = host.ledger().number();
    let blocks = host.blocks();
    // The bound counts 20 blocks, the operations between two snapshots, and three preallocated segments.
    let bound = 20 * 100 * 200 + 2 * 2_560 * 200 + 3 * (256 << 10);
    assert!(largest <= bound, "{largest} bytes exceed the bound of {bound}");
    assert!(
        segments as u64 > operations * 80 / (256 << 10),
        "{segments} segments were removed"
    );
    let archived = bytes(&disk, &[".blocks"]);
    assert!(archived <= 100 * operations, "{archived} bytes of archive");
    drop(host);
    for number in [
        1,
        2,
        3,
        operations / 3,
        operations / 2,
        operations - 2_200,
        operations - 150,
    ] {
        let proof = prove(&disk, number)
            .unwrap()
            .unwrap_or_else(|| panic!("operation {number} has no proof"));
        assert!(proof.fault().is_none() && proof.block.is_signed_by(key().verifying_key()));
        assert_eq!(proof.leaf[48..56], number.to_be_bytes(), "operation {number}");
    }
    let audit = audit(&disk, *key().verifying_key()).unwrap();
    assert!(
        audit.from > 0 && audit.blocks == blocks && audit.balances == 1 << 40,
        "{audit:?}"
    );
    // The ledger continues from its last state.
    let mut host = open(&disk, options, 2);
    let packet = execute_packet(own, sequence + 1, &[operation(TRANSFER, 1, 2, 1)]);
    assert_eq!(outcomes(&ask(&mut host, NOW_S, &[packet])[0])[0].0, Code::Done);
    println!("{operations} operations: {largest} bytes of journal at most, {archived} of archive");
}

#[test]
fn blocks_that_a_setting_keeps_or_that_are_not_settled_remain() {
    let disk = SimDisk::new(1);
    let mut host = open(&disk, options(), 1);
    let own = session(&mut host);
    let make = [operation(CREATE, 1, 0, 1 << 40), operation(CREATE, 2, 0, 0)];
    ask(&mut host, NOW_S, &[execute_packet(own, 1, &make)]);
    let mut sequence = 1;
    let mut work = |host: &mut Host<SimDisk>, now_s: u64| {
        for _ in 0..200 {
            sequence += 1;
            ask(
                host,
                now_s,
                &[execute_packet(own, sequence, &[operation(TRANSFER, 1, 2, 1); 16])],
            );
        }
        host.snapshot().unwrap();
    };
    let retain = |host: &mut Host<SimDisk>, keep_blocks, keep_days, now_s, settled| {
        let policy = Retention {
            keep_blocks,
            keep_days,
            archive: true,
        };
        host.retain(&policy, now_s, settled).unwrap().segments
    };
    const DAY_S: u64 = 86_400;
    work(&mut host, NOW_S);
    assert_eq!(
        retain(&mut host, 1, 0, NOW_S, u64::MAX),
        0,
        "there is only one snapshot"
    );
    work(&mut host, NOW_S + DAY_S);
    let (now_s, blocks) = (NOW_S + DAY_S, host.blocks());
    assert_eq!(
        retain(&mut host, 0, 0, now_s, u64::MAX),
        0,
        "the default keeps all blocks"
    );
    assert_eq!(
        retain(&mut host, blocks, 0, now_s, u64::MAX),
        0,
        "all blocks are among the newest"
    );
    assert_eq!(
        retain(&mut host, 1, 2, now_s, u64::MAX),
        0,
        "no block is two days old"
    );
    assert_eq!(retain(&mut host, 1, 0, now_s, 0), 0, "no block is settled");
    let some = retain(&mut host, 0, 1, now_s, 10);
    assert!(some > 0, "ten blocks are settled and a day old");
    assert!(retain(&mut host, 0, 1, now_s, u64::MAX) > 0);
    for number in [1, 2, 900, 1_700, 6_000] {
        assert!(prove(&disk, number).unwrap().is_some(), "{number}");
    }
}

#[test]
fn a_power_cut_at_any_step_of_retention_loses_nothing() {
    let disk = SimDisk::new(1);
    let mut host = open(&disk, options(), 1);
    let own = session(&mut host);
    let make = [operation(CREATE, 1, 0, 1 << 40), operation(CREATE, 2, 0, 0)];
    ask(&mut host, NOW_S, &[execute_packet(own, 1, &make)]);
    for sequence in 2..=300 {
        ask(
            &mut host,
            NOW_S,
            &[execute_packet(own, sequence, &[operation(TRANSFER, 1, 2, 1); 16])],
        );
        if sequence % 100 == 0 {
            host.snapshot().unwrap();
        }
    }
    let (number, before) = (host.ledger().number(), host.ledger().to_bytes());
    drop(host);
    disk.power_cut();
    let mut steps = 0;
    for step in 1.. {
        let disk = disk.fork(step);
        let mut host = open(&disk, options(), 2);
        disk.cut_at(step);
        let done = host.retain(&KEEP, NOW_S, u64::MAX);
        drop(host);
        disk.power_cut();
        let server = start(&disk, 3, SEAL).unwrap();
        assert_eq!(server.host.ledger().to_bytes(), before, "step {step}");
        drop(server);
        for number in [1, 50, 1_000, 2_000, number - 150] {
            assert!(
                prove(&disk, number).unwrap().is_some(),
                "operation {number} at step {step}"
            );
        }
        assert_eq!(audit(&disk, *key().verifying_key()).unwrap().balances, 1 << 40);
        if done.is_ok_and(|retained| retained.segments > 0) {
            steps = step;
            break;
        }
    }
    assert!(steps > 8, "{steps} steps");
}

/// A repair of a journal whose last segment was completely unusable: the records between the older segments and the
/// newest snapshot are lost, but no state that the snapshot includes.
#[test]
fn blocks_before_lost_records_can_be_proved_and_the_ledger_goes_on() {
    let disk = SimDisk::new(1);
    let mut host = open(&disk, options(), 1);
    let own = session(&mut host);
    let make = [operation(CREATE, 1, 0, 1 << 40), operation(CREATE, 2, 0, 0)];
    ask(&mut host, NOW_S, &[execute_packet(own, 1, &make)]);
    let mut sequence = 1;
    let move_money = |host: &mut Host<SimDisk>, sequence: &mut u64| {
        *sequence += 1;
        let packet = execute_packet(own, *sequence, &[operation(TRANSFER, 1, 2, 1); 16]);
        assert_eq!(outcomes(&ask(host, NOW_S, &[packet])[0])[15].0, Code::Done);
    };
    let segments = |disk: &SimDisk| {
        let mut names = disk.list().unwrap();
        names.retain(|name| name.ends_with(".log"));
        names
    };
    let mut before_last = 0;
    while segments(&disk).len() < 5 {
        before_last = host.ledger().number();
        move_money(&mut host, &mut sequence);
    }
    for _ in 0..3 {
        move_money(&mut host, &mut sequence);
    }
    host.snapshot().unwrap();
    let (covered, held) = (host.ledger().to_bytes(), sequence);
    move_money(&mut host, &mut sequence);
    let last = segments(&disk).pop().unwrap();
    assert_eq!(segments(&disk).len(), 5);
    drop(host);

    disk.put(&last, Some(vec![0xa5; 64 << 10]));
    let report = repair(&disk, options()).unwrap();
    assert!(!report.gaps.is_empty() && report.lost.is_some(), "{report:?}");
    assert_eq!(segments(&disk).len(), 5, "four segments remain, and one is new");
    let mut host = open(&disk, options(), 2);
    assert_eq!(host.ledger().to_bytes(), covered);
    sequence = held;
    for _ in 0..200 {
        move_money(&mut host, &mut sequence);
    }
    let operations = host.ledger().number();
    let proved = |number: u64| prove(&disk, number).unwrap();
    // A block of 100 operations may have been incomplete at the beginning of the lost records, and at their end.
    for number in [
        1,
        2,
        before_last / 2,
        before_last - 100,
        operations - 2_000,
        operations - 150,
    ] {
        let proof = proved(number).unwrap_or_else(|| panic!("operation {number} of {operations}"));
        assert_eq!(proof.fault(), None);
    }
    assert!(
        proved(before_last + 40).is_none(),
        "the records of this operation are lost"
    );
    let audited = audit(&disk, *key().verifying_key()).unwrap();
    assert_eq!((audited.operations, audited.from > 0), (operations, true));
    // Old blocks leave the journal as usual, also the blocks before the lost records.
    host.snapshot().unwrap();
    move_money(&mut host, &mut sequence);
    host.snapshot().unwrap();
    assert!(host.retain(&KEEP, NOW_S, u64::MAX).unwrap().segments > 4);
    assert!(verify(&disk).unwrap().gaps.is_empty());
    for number in [1, before_last - 100, operations - 150] {
        let proof = proved(number).unwrap_or_else(|| panic!("operation {number} of {operations}"));
        assert_eq!(proof.fault(), None);
    }
}

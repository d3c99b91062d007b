//! Tests of the ledger with blocks of a real network: stored blocks are returned unchanged, also after power cuts.

use lineside_fabric::ledger::results::{BlockResult, Publisher, Results};
use lineside_fabric::ledger::{
    BlockMeta, LedgerError, ReadOnlyLedger, Replica, Setup, StateStore, WritableLedger, journal_options,
    kind, verify_ledger,
};
use lineside_fabric::replay::read;
use lineside_fabric::state::TxId;
use lineside_fabric::{Options, TxCode, Validator};
use lineside_journal::{Disk, FsDisk, Journal, Options as JournalOptions, SimDisk, dump};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Returns the folder of a recorded set outside the repository, if it exists.
fn beside(set: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let directory = root.join("shared/data/fabric-blocks").join(set);
    if directory.join("manifest.json").exists() {
        return Some(directory);
    }
    eprintln!("skipped: there are no recorded blocks at {}", directory.display());
    None
}

/// A recorded block with its validation results.
struct RecordedBlock {
    bytes: Vec<u8>,
    committed: Option<Vec<u8>>,
    meta: BlockMeta,
}

/// Reads a recorded set and validates its blocks.
fn recorded(directory: &Path) -> Vec<RecordedBlock> {
    let mut all: Vec<RecordedBlock> = Vec::new();
    let mut validator: Option<Validator> = None;
    while let Some(bytes) = read(directory, all.len() as u64, "orderer").unwrap() {
        let committed = read(directory, all.len() as u64, "committed").unwrap();
        let meta = match &mut validator {
            None => {
                let started = Validator::new(&bytes, Options::default()).unwrap();
                let meta = BlockMeta {
                    number: 0,
                    hash: started.last_hash(),
                    codes: vec![0],
                    commit_hash: None,
                };
                validator = Some(started);
                meta
            }
            Some(validator) => {
                let validated = validator.validate(&bytes).unwrap();
                let meta = BlockMeta::from(&validated);
                validator.commit(validated);
                meta
            }
        };
        all.push(RecordedBlock {
            bytes,
            committed,
            meta,
        });
    }
    all
}

fn dev() -> Option<&'static [RecordedBlock]> {
    static DEV: OnceLock<Option<Vec<RecordedBlock>>> = OnceLock::new();
    DEV.get_or_init(|| Some(recorded(&beside("dev")?))).as_deref()
}

/// Returns the blocks in the repository.
fn few() -> &'static [RecordedBlock] {
    static FEW: OnceLock<Vec<RecordedBlock>> = OnceLock::new();
    FEW.get_or_init(|| recorded(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/edge")))
}

fn begin<D: Disk>(disk: D, sizes: JournalOptions) -> Result<WritableLedger<D>, LedgerError> {
    WritableLedger::open(disk, sizes, &Options::default(), &StateStore::Memory)
}

/// Sizes at which a block takes several records, groups and segments.
fn small() -> JournalOptions {
    JournalOptions {
        segment_bytes: 64 << 10,
        record_bytes_max: 4 << 10,
        group_bytes_max: 24 << 10,
        ..JournalOptions::default()
    }
}

fn compare<D: Disk>(begun: &WritableLedger<D>, blocks: &[RecordedBlock]) {
    let stored = begun.writer.blocks();
    assert_eq!(stored.count(), blocks.len() as u64);
    let mut cursor = stored.from(0).unwrap();
    for recorded in blocks {
        let one = cursor.next().unwrap().unwrap();
        assert!(one.bytes == recorded.bytes, "block {}", recorded.meta.number);
        assert_eq!(one.codes, recorded.meta.codes);
        assert_eq!(
            (one.hash, one.commit_hash),
            (recorded.meta.hash, recorded.meta.commit_hash)
        );
    }
    assert!(cursor.next().unwrap().is_none());
    if let Some(last) = blocks.last() {
        let validator = begun.validator.as_ref().unwrap();
        assert_eq!(validator.last(), last.meta.number);
        assert_eq!(validator.commit_hash(), last.meta.commit_hash);
    }
}

fn every_block_comes_back(set: &str, blocks: &[RecordedBlock]) {
    for sizes in [journal_options(), small(), JournalOptions::small()] {
        let disk = SimDisk::new(1);
        let mut begun = begin(disk.clone(), sizes).unwrap();
        for recorded in blocks {
            begun.writer.append(&recorded.bytes, &recorded.meta).unwrap();
            begun.writer.commit().unwrap();
        }
        drop(begun);
        disk.power_cut();
        let begun = begin(disk.clone(), sizes).unwrap();
        compare(&begun, blocks);
        // Read the blocks in reverse order too, and in the form in which a peer delivers them.
        let stored = begun.writer.blocks();
        for recorded in blocks.iter().rev() {
            let one = stored.block(recorded.meta.number).unwrap();
            if let Some(committed) = &recorded.committed {
                assert!(one.committed() == *committed, "block {}", recorded.meta.number);
            }
            assert_eq!(stored.number_of(&recorded.meta.hash), Some(recorded.meta.number));
        }
        let mut payload_bytes = 0;
        dump(&disk, 1, |record| payload_bytes += record.payload.len()).unwrap();
        let block_bytes: usize = blocks.iter().map(|recorded| recorded.bytes.len()).sum();
        println!("{set}: {block_bytes} bytes of blocks in {payload_bytes} bytes of records");
    }
}

#[test]
fn every_block_of_dev_comes_back() {
    let Some(blocks) = dev() else { return };
    every_block_comes_back("dev", blocks);
}

#[test]
fn every_block_of_dev_edge_comes_back() {
    let Some(directory) = beside("dev-edge") else {
        return;
    };
    every_block_comes_back("dev-edge", &recorded(&directory));
}

#[test]
fn every_block_in_the_repository_comes_back() {
    every_block_comes_back("edge", few());
}

#[test]
fn a_replica_restarted_before_every_block_gives_the_same_results() {
    let blocks = dev().unwrap_or(few());
    let directory = tempfile::tempdir().unwrap();
    let setup = Setup {
        checkpoint_after: 0,
        ..Setup::default()
    };
    for (number, recorded) in blocks.iter().enumerate() {
        let disk = FsDisk::open(directory.path()).unwrap();
        let (mut replica, opened) = Replica::open(disk, setup.clone(), None).unwrap();
        assert_eq!(opened.ledger.damaged, Vec::<String>::new());
        assert_eq!(replica.next(), number as u64);
        let added = replica.add(recorded.bytes.clone()).unwrap();
        let codes: Vec<u8> = added.codes.iter().map(|code| *code as u8).collect();
        assert_eq!(
            (codes, added.commit_hash),
            (recorded.meta.codes.clone(), recorded.meta.commit_hash)
        );
        replica.wait(number as u64).unwrap();
        if number % 5 == 4 {
            replica.checkpoint().unwrap();
        }
        // The next replica resumes from a checkpoint and the blocks after it.
        replica.stop().unwrap();
    }
    let look = FsDisk::look(directory.path()).unwrap();
    let report = verify_ledger(&look, &StateStore::Memory, &Options::default(), &mut |_| {}).unwrap();
    assert_eq!(report.findings, Vec::<String>::new());
    let transactions = blocks
        .iter()
        .map(|recorded| recorded.meta.codes.len() as u64)
        .sum::<u64>();
    assert_eq!(
        (report.blocks, report.transactions),
        (blocks.len() as u64, transactions)
    );
    assert_eq!(report.checkpoints, 1);
    let look = ReadOnlyLedger::open(look, &Options::default(), Some(&StateStore::Memory)).unwrap();
    assert!(look.found.checkpoint > 0);
    assert_eq!(look.blocks.transactions(), transactions);
    assert_eq!(look.validator.last_hash(), blocks.last().unwrap().meta.hash);
}

#[test]
fn transactions_are_found_by_their_ids() {
    let Some(directory) = beside("dev") else { return };
    let Some(blocks) = dev() else { return };
    let disk = SimDisk::new(3);
    let mut begun = begin(disk, journal_options()).unwrap();
    for recorded in blocks {
        begun.writer.append(&recorded.bytes, &recorded.meta).unwrap();
    }
    let stored = begun.writer.blocks();
    assert_eq!(
        stored.count(),
        0,
        "readers must not see a block before it is durable"
    );
    begun.writer.commit().unwrap();
    let manifest: serde_json::Value =
        serde_json::from_slice(&std::fs::read(directory.join("manifest.json")).unwrap()).unwrap();
    let mut first = std::collections::HashMap::new();
    for block in manifest["blocks"].as_array().unwrap() {
        for (index, tx) in block["txs"].as_array().unwrap().iter().enumerate() {
            let id = tx["txid"].as_str().unwrap_or_default();
            let place = (block["number"].as_u64().unwrap(), index as u64);
            first
                .entry(id.to_owned())
                .or_insert((place, tx["code_num"].as_u64().unwrap()));
        }
    }
    let mut found = 0;
    for (id, (place, code)) in first.iter().filter(|(id, _)| !id.is_empty()) {
        let at = stored.transaction(&TxId::new(id)).unwrap().unwrap();
        assert_eq!(((at.block, at.index), at.code as u64), (*place, *code), "{id}");
        found += 1;
    }
    assert!(found > 4_000, "{found}");
    assert_eq!(stored.transaction(&TxId::new("no such id")).unwrap(), None);
}

/// Cuts the power at every operation in turn. After the restart, the ledger holds a prefix of the blocks, which
/// includes all acknowledged blocks.
#[test]
fn a_power_cut_at_any_operation_loses_no_durable_block() {
    let blocks = &few()[..6];
    let whole = SimDisk::new(5);
    let mut operations = 0;
    for cut in 0.. {
        let disk = whole.fork(cut);
        if cut > 0 {
            disk.cut_at(cut);
        }
        let acknowledged = fill(&disk, blocks);
        if cut == 0 {
            assert_eq!(acknowledged, blocks.len());
            operations = disk.counts().changes();
            continue;
        }
        if !disk.is_dead() {
            assert!(cut > operations / 2, "{cut} of {operations}");
            break;
        }
        disk.power_cut();
        let begun = begin(disk.clone(), small()).unwrap();
        let there = begun.writer.blocks().count() as usize;
        assert!(there >= acknowledged, "cut at {cut}: {there} of {acknowledged}");
        compare(&begun, &blocks[..there]);
        drop(begun);
        // The writer can continue after the last block in the ledger.
        assert_eq!(fill(&disk, blocks), blocks.len(), "cut at {cut}");
        let begun = begin(disk, small()).unwrap();
        compare(&begun, blocks);
    }
}

/// Writes the missing blocks, with a checkpoint in between; returns the number of acknowledged blocks.
fn fill(disk: &SimDisk, blocks: &[RecordedBlock]) -> usize {
    let Ok(mut begun) = begin(disk.clone(), small()) else {
        return 0;
    };
    let mut acknowledged = begun.writer.blocks().count() as usize;
    for recorded in &blocks[acknowledged..] {
        let appended = begun.writer.append(&recorded.bytes, &recorded.meta);
        match appended.and_then(|()| begun.writer.commit()) {
            Ok(count) => acknowledged = count as usize,
            Err(_) => return acknowledged,
        }
        if acknowledged == 3 {
            drop(begun);
            let Ok(again) = begin(disk.clone(), small()) else {
                return acknowledged;
            };
            begun = again;
            if begun.checkpoint().is_err() {
                return acknowledged;
            }
        }
    }
    acknowledged
}

#[test]
fn a_full_disk_refuses_blocks_until_there_is_space() {
    let blocks = &few()[..12];
    let disk = SimDisk::new(9);
    let setup = Setup {
        journal: small(),
        checkpoint_after: 0,
        ..Setup::default()
    };
    let (mut replica, _) = Replica::open(disk.clone(), setup.clone(), None).unwrap();
    disk.set_capacity_bytes(Some(disk.used_bytes() + (64 << 10)));
    let mut full = 0;
    let mut next = 0;
    while let Some(recorded) = blocks.get(next) {
        match replica
            .add(recorded.bytes.clone())
            .and_then(|_| replica.wait(next as u64))
        {
            Ok(()) => next += 1,
            Err(LedgerError::Full { .. }) => {
                full += 1;
                let durable = replica.durable();
                let stored = replica.blocks();
                for before in &blocks[..durable as usize] {
                    assert!(stored.block(before.meta.number).unwrap().bytes == before.bytes);
                }
                disk.set_capacity_bytes(Some(disk.used_bytes() + (192 << 10)));
                let from = Instant::now();
                while replica.durable() < replica.next() {
                    assert!(from.elapsed() < Duration::from_secs(60));
                    std::thread::sleep(Duration::from_millis(5));
                }
                next = replica.next() as usize;
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(full > 0);
    replica.stop().unwrap();
    disk.power_cut();
    compare(&begin(disk, small()).unwrap(), blocks);
}

/// Creates a ledger of a few blocks with a checkpoint.
fn sound(blocks: &[RecordedBlock]) -> SimDisk {
    let disk = SimDisk::new(11);
    assert_eq!(fill(&disk, blocks), blocks.len());
    disk
}

#[test]
fn every_kind_of_damage_is_found() {
    let blocks = &few()[..5];
    let disk = sound(blocks);
    let options = Options::default();
    let report = verify_ledger(&disk, &StateStore::Memory, &options, &mut |_| {}).unwrap();
    assert!(report.is_sound(), "{:?}", report.findings);
    assert_eq!((report.blocks, report.checkpoints), (5, 1));

    let mut places: Vec<(u8, String, u64, usize)> = Vec::new();
    dump(&disk, 1, |record| {
        let file = format!("{:020}.log", record.segment);
        places.push((record.kind, file, record.offset, record.payload.len()));
    })
    .unwrap();
    for of in [kind::IDENTITY, kind::BEGIN, kind::PART, kind::END] {
        let all: Vec<_> = places.iter().filter(|(kind, ..)| *kind == of).collect();
        let step = all.len().div_ceil(4).max(1);
        assert!(!all.is_empty(), "kind {of}");
        for (_, file, offset, payload) in all.into_iter().step_by(step) {
            for at in [0, 5, 9, 20, 24, 24 + payload / 2, 23 + payload] {
                let damaged = disk.fork(1);
                assert!(damaged.rot(file, offset + at as u64, 1 << (at % 8)));
                let report = verify_ledger(&damaged, &StateStore::Memory, &options, &mut |_| {}).unwrap();
                let lost = report.blocks < 5 && report.unfinished_bytes > 0;
                assert!(
                    !report.is_sound() || lost,
                    "kind {of}, byte {at} at {offset} of {file}"
                );
            }
        }
    }
    let snapshot = disk
        .list()
        .unwrap()
        .into_iter()
        .find(|name| name.ends_with(".snap"))
        .unwrap();
    let bytes = disk.content(&snapshot).unwrap().len() as u64;
    for at in [0, 20, 70, bytes / 2, bytes - 1] {
        let damaged = disk.fork(1);
        assert!(damaged.rot(&snapshot, at, 4));
        let report = verify_ledger(&damaged, &StateStore::Memory, &options, &mut |_| {}).unwrap();
        assert!(!report.is_sound(), "byte {at} of the checkpoint");
        // The checkpoint is not required.
        compare(&begin(damaged, small()).unwrap(), blocks);
    }
}

#[test]
fn blocks_before_the_damage_are_validated() {
    let blocks = &few()[..12];
    let disk = SimDisk::new(11);
    assert_eq!(fill(&disk, blocks), blocks.len());
    let mut ends = Vec::new();
    dump(&disk, 1, |record| {
        if record.kind == kind::END {
            ends.push((record.segment, record.offset));
        }
    })
    .unwrap();
    assert!(
        ends.windows(2).any(|ends| ends[0].0 < ends[1].0),
        "they fill a segment"
    );
    for (number, (segment, offset)) in ends.into_iter().enumerate().step_by(3).take(3) {
        let file = format!("{segment:020}.log");
        let damaged = disk.fork(1);
        assert!(damaged.rot(&file, offset + 30, 1));
        let report = verify_ledger(&damaged, &StateStore::Memory, &Options::default(), &mut |_| {}).unwrap();
        assert_eq!(
            (report.blocks, report.wrong),
            (number as u64, 1),
            "{:?}",
            report.findings
        );
        // The report has the header hash of the last intact block.
        let last = number.checked_sub(1).map(|last| blocks[last].meta.hash);
        assert_eq!(report.last_hash, last);
    }
}

/// Records with a correct checksum but wrong content are found.
#[test]
fn records_with_wrong_content_are_found() {
    let blocks = &few()[..5];
    let options = Options::default();
    let lies: [&dyn Fn(&mut BlockMeta); 4] = [
        &|meta| meta.codes[0] = TxCode::MvccReadConflict as u8,
        &|meta| meta.commit_hash.as_mut().unwrap()[0] ^= 1,
        &|meta| meta.commit_hash = None,
        &|meta| meta.hash[31] ^= 1,
    ];
    for (number, lie) in lies.iter().enumerate() {
        let disk = SimDisk::new(1);
        let mut begun = begin(disk.clone(), small()).unwrap();
        for recorded in blocks {
            let mut meta = recorded.meta.clone();
            if meta.number == 4 {
                lie(&mut meta);
            }
            begun.writer.append(&recorded.bytes, &meta).unwrap();
        }
        begun.writer.commit().unwrap();
        let report = verify_ledger(&disk, &StateStore::Memory, &options, &mut |_| {}).unwrap();
        assert!(!report.is_sound(), "lie {number}");
    }
    // A checkpoint with other content than the blocks give is found.
    let disk = sound(blocks);
    let (mut journal, _) = Journal::open(disk.clone(), small()).unwrap();
    let lsn = journal.durable_lsn();
    journal
        .write_snapshot(lsn, |out| std::io::Write::write_all(out, &[7; 5000]))
        .unwrap();
    drop(journal);
    let report = verify_ledger(&disk, &StateStore::Memory, &options, &mut |_| {}).unwrap();
    assert_eq!(report.wrong, 1, "{:?}", report.findings);
    let begun = begin(disk, small()).unwrap();
    assert_eq!(begun.opened.ledger.damaged.len(), 1);
    compare(&begun, blocks);
}

const RESULTS: &str = "LINESIDE_TEST_RESULTS";

/// This is not a test by itself: the next test starts it as its second process.
#[test]
fn child_process_that_reads_results() {
    let Some(path) = std::env::var_os(RESULTS) else {
        return;
    };
    let results = Results::open(Path::new(&path)).unwrap();
    let from = Instant::now();
    let mut last = None;
    while from.elapsed() < Duration::from_secs(60) {
        let newest: Option<BlockResult> = results.newest();
        if let Some(newest) = newest.filter(|newest| Some(newest.number) != last) {
            last = Some(newest.number);
            let codes: usize = newest.codes.iter().map(|code| *code as usize).sum();
            println!(
                "seen {} {} {} {:?}",
                newest.number, newest.valid, codes, newest.commit_hash
            );
            if newest.number == 11 {
                return;
            }
        }
    }
    panic!("block 11 was not published within 60 s");
}

#[test]
fn another_process_sees_the_results() {
    let blocks = few();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("results");
    let publisher = Publisher::open(&path, 4).unwrap();
    let disk = FsDisk::open(directory.path().join("ledger")).unwrap();
    let (mut replica, _) = Replica::open(disk, Setup::default(), Some(publisher)).unwrap();
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_process_that_reads_results", "--nocapture"])
        .env(RESULTS, &path)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let own = Results::open(&path).unwrap();
    assert_eq!(own.newest(), None);
    for recorded in &blocks[..12] {
        let number = recorded.meta.number;
        replica.add(recorded.bytes.clone()).unwrap();
        replica.wait(number).unwrap();
        // The result is published before waiters learn that the block is durable.
        let result = own.block(number).unwrap();
        assert_eq!(result.codes, recorded.meta.codes);
        assert_eq!(result.header_hash, recorded.meta.hash);
        assert_eq!(result.commit_hash, recorded.meta.commit_hash);
        assert!(result.total_ns >= result.ledger_ns && result.durable_unix_ns > 0);
    }
    assert_eq!(own.block(7), None, "a later block has taken the slot of block 7");
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let last = &blocks[11].meta;
    let codes: usize = last.codes.iter().map(|code| *code as usize).sum();
    let valid = last.codes.iter().filter(|code| **code == 0).count();
    let expected = format!("seen 11 {valid} {codes} {:?}", last.commit_hash);
    let seen = String::from_utf8(output.stdout).unwrap();
    assert!(seen.contains(&expected), "{seen}");
    // A second writer opens the same file; the results that the first writer published remain in it.
    drop(replica);
    let again = Publisher::open(&path, 4).unwrap();
    assert_eq!(own.newest().unwrap().number, 11);
    drop(again);
}

#[test]
fn a_file_that_is_not_one_of_results_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("results.bin");
    let (new, beside) = (
        directory.path().join("results.bin.new"),
        directory.path().join("results.new"),
    );
    std::fs::write(&beside, "another's").unwrap();
    let place = {
        drop(Publisher::open(&path, 1).unwrap());
        std::fs::read(&path).unwrap()
    };
    // Files of another kind are not changed, neither at the path itself nor at `PATH.new`.
    for other in [
        &b"a letter"[..],
        &vec![b'x'; place.len()],
        &[&place[..], &vec![1; place.len()]].concat(),
    ] {
        for taken in [&path, &new] {
            let _ = std::fs::remove_file(&path);
            std::fs::write(taken, other).unwrap();
            let error = Publisher::open(&path, 1).unwrap_err().to_string();
            assert!(error.contains(taken.to_str().unwrap()), "{error}");
            assert_eq!(std::fs::read(taken).unwrap(), other);
            std::fs::remove_file(taken).unwrap();
        }
    }
    // Files that a crashed writer left do not prevent opening.
    for left in [&[][..], &vec![0; place.len()], &place] {
        for taken in [&path, &new] {
            let _ = std::fs::remove_file(&path);
            std::fs::write(taken, left).unwrap();
            drop(Publisher::open(&path, 2).unwrap());
            assert_eq!(std::fs::read(&path).unwrap(), [&place[..], &place].concat());
            assert!(!new.exists());
        }
    }
    assert_eq!(std::fs::read(&beside).unwrap(), b"another's");
}

/// Replaces every occurrence of `from` by `to`, which has the same length.
fn replace(bytes: &mut [u8], from: &[u8], to: &[u8]) {
    for at in 0..bytes.len().saturating_sub(from.len()) {
        if bytes[at..].starts_with(from) {
            bytes[at..at + to.len()].copy_from_slice(to);
        }
    }
}

/// Returns the transaction with another nonce, and thus another id and proposal hash. Its signatures are no longer
/// valid.
fn another(envelope: &[u8], number: u64) -> Vec<u8> {
    use lineside_fabric::proto::*;
    let arena = Arena::new();
    let outer: Envelope<'_> = decode(envelope, &arena).unwrap();
    let payload: Payload<'_> = decode(outer.payload, &arena).unwrap();
    let header = payload.header.unwrap();
    let channel_header: ChannelHeader<'_> = decode(header.channel_header, &arena).unwrap();
    let by: SignatureHeader<'_> = decode(header.signature_header, &arena).unwrap();
    let transaction: Transaction<'_> = decode(payload.data, &arena).unwrap();
    let action = &transaction.actions[0];
    let content: ChaincodeActionPayload<'_> = decode(action.payload, &arena).unwrap();
    let endorsed = content.action.unwrap();
    let response: ProposalResponsePayload<'_> = decode(endorsed.proposal_response_payload, &arena).unwrap();

    let mut nonce = by.nonce.to_vec();
    nonce[..8].copy_from_slice(&number.to_le_bytes());
    let id: [u8; 32] = Sha256::new()
        .chain_update(&nonce)
        .chain_update(by.creator)
        .finalize()
        .into();
    let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let (mut heads, mut action_header) = (header.channel_header.to_vec(), action.header.to_vec());
    replace(&mut heads, channel_header.tx_id.as_bytes(), id.as_bytes());
    replace(&mut action_header, by.nonce, &nonce);
    let hash = Sha256::new().chain_update(&heads).chain_update(&action_header);
    let hash = hash.chain_update(content.chaincode_proposal_payload).finalize();
    let mut bytes = envelope.to_vec();
    for (from, to) in [
        (by.nonce, &nonce[..]),
        (channel_header.tx_id.as_bytes(), id.as_bytes()),
        (response.proposal_hash, &hash[..]),
    ] {
        replace(&mut bytes, from, to);
    }
    bytes
}

/// Measures the time that a restart takes for a ledger of many transactions. LINESIDE_TEST_TRANSACTIONS sets the number
/// of transactions, LINESIDE_TEST_DIR the folder.
#[test]
fn a_ledger_of_many_transactions_restarts() {
    use lineside_fabric::block::Block;
    use lineside_fabric::proto::{Arena, wire};
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let wanted = number("LINESIDE_TEST_TRANSACTIONS").unwrap_or(4_000);
    let temporary =
        tempfile::tempdir_in(std::env::var("LINESIDE_TEST_DIR").unwrap_or("/tmp".into())).unwrap();
    let blocks = few();
    let open = || begin(FsDisk::open(temporary.path()).unwrap(), journal_options()).unwrap();
    let mut begun = open();
    for recorded in &blocks[..5] {
        begun.writer.append(&recorded.bytes, &recorded.meta).unwrap();
    }
    begun.writer.commit().unwrap();
    let arena = Arena::new();
    let model = Block::read(&blocks[4].bytes, &arena).unwrap();
    let mut previous = blocks[4].meta.hash;
    let (mut made, mut writing) = (0, Duration::ZERO);
    for next in 5.. {
        if made >= wanted {
            break;
        }
        let (mut data, mut hasher) = (Vec::new(), Sha256::new());
        for envelope in model.transactions.iter().cycle().take(500) {
            let envelope = another(envelope, made);
            hasher.update(&envelope);
            wire::put_bytes(&mut data, 1, &envelope);
            made += 1;
        }
        let (mut header, mut bytes, mut metadata) = (Vec::new(), Vec::new(), Vec::new());
        wire::put_number(&mut header, 1, next);
        wire::put_bytes(&mut header, 2, &previous);
        wire::put_bytes(&mut header, 3, &hasher.finalize());
        wire::put_bytes(&mut bytes, 1, &header);
        wire::put_bytes(&mut bytes, 2, &data);
        for entry in &model.metadata {
            wire::put_bytes(&mut metadata, 1, entry);
        }
        wire::put_bytes(&mut bytes, 3, &metadata);
        previous = Block::read(&bytes, &Arena::new()).unwrap().hash();
        let meta = BlockMeta {
            number: next,
            hash: previous,
            codes: vec![0; 500],
            commit_hash: Some([1; 32]),
        };
        let from = Instant::now();
        begun.writer.append(&bytes, &meta).unwrap();
        begun.writer.commit().unwrap();
        writing += from.elapsed();
        // An eighth of the transactions is after the checkpoint.
        if made >= wanted * 7 / 8 && made < wanted * 7 / 8 + 500 {
            drop(begun);
            begun = open();
            let from = Instant::now();
            begun.checkpoint().unwrap();
            println!("checkpoint of {made} transactions: {:?}", from.elapsed());
        }
    }
    drop(begun);
    println!("{made} transactions appended and committed, block by block: {writing:?}");
    let from = Instant::now();
    let begun = open();
    let opened = from.elapsed();
    let found = begun.opened.ledger.clone();
    let from = Instant::now();
    let stored = begun.writer.blocks();
    assert!(stored.block(stored.count() / 2).unwrap().codes.len() == 500);
    println!(
        "open: {opened:?} with {} blocks after the checkpoint; a block from the middle: {:?}",
        found.replayed,
        from.elapsed()
    );
    assert!(found.checkpoint > 0);
}

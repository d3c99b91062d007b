//! Tests of the reader of block files. The tests create files in the format of Bitcoin Core: with and without an XOR
//! key, with padding, and with incomplete records.

use lineside_bitcoin_node::{BlockFiles, BlockFilesError, BlockHash, FileBlock, Position};
use lineside_testkit::{DemoBlock, DemoChain, Random, skipped};
use std::path::Path;

const REGTEST: [u8; 4] = [0xfa, 0xbf, 0xb5, 0xda];
const MAINNET: [u8; 4] = [0xf9, 0xbe, 0xb4, 0xd9];
const KEY: [u8; 8] = [9, 0, 200, 4, 5, 6, 7, 8];

fn record(magic: [u8; 4], raw: &[u8]) -> Vec<u8> {
    [&magic[..], &(raw.len() as u32).to_le_bytes(), raw].concat()
}

fn write(dir: &Path, number: u32, content: &[u8], key: Option<[u8; 8]>) {
    let key = key.unwrap_or_default();
    let masked: Vec<u8> = content
        .iter()
        .zip(key.iter().cycle())
        .map(|(byte, key)| byte ^ key)
        .collect();
    std::fs::write(dir.join(format!("blk{number:05}.dat")), masked).unwrap();
}

fn read(dir: &Path) -> (Vec<FileBlock>, u64) {
    let mut files = BlockFiles::open(dir, REGTEST).unwrap();
    let blocks = files.by_ref().map(|block| block.unwrap()).collect();
    let (read, total) = files.progress();
    assert_eq!(read, total, "all bytes are read");
    (blocks, files.skipped_bytes())
}

fn raws(blocks: &[FileBlock]) -> Vec<&[u8]> {
    blocks.iter().map(|block| block.raw.as_slice()).collect()
}

#[test]
fn blocks_are_returned_by_file_and_position_with_and_without_a_key() {
    let chain: Vec<DemoBlock> = DemoChain::new(3, 4).take(7).collect();
    for key in [None, Some(KEY)] {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path();
        if let Some(key) = key {
            std::fs::write(dir.join("xor.dat"), key).unwrap();
        }
        // The blocks are not in the order of their heights. The preallocated bytes at the end are zeros before or after
        // the XOR with the key.
        let records = |all: &[usize]| -> Vec<u8> {
            all.iter()
                .flat_map(|at| record(REGTEST, &chain[*at].raw))
                .collect()
        };
        let mut first = records(&[0, 2, 1]);
        first.extend([0; 70_001]);
        write(dir, 0, &first, key);
        write(dir, 1, &records(&[3, 4]), key);
        let path = dir.join("blk00001.dat");
        let mut second = std::fs::read(&path).unwrap();
        second.extend([0; 1000]);
        std::fs::write(&path, second).unwrap();
        write(dir, 12, &records(&[6, 5]), key);
        std::fs::write(dir.join("rev00000.dat"), "undo data is not read").unwrap();
        std::fs::write(dir.join("blk00x.dat"), "nor is this").unwrap();

        let (blocks, skipped) = read(dir);
        let expected: Vec<&[u8]> = [0, 2, 1, 3, 4, 6, 5]
            .map(|at: usize| chain[at].raw.as_slice())
            .to_vec();
        assert_eq!((raws(&blocks), skipped), (expected, 0), "{key:?}");
        for block in &blocks {
            assert_eq!(Some(block.hash), BlockHash::of_block(&block.raw));
        }
        // Reading from the position of a block returns that block and the later ones.
        for (index, block) in blocks.iter().enumerate() {
            let rest: Result<Vec<_>, _> = BlockFiles::open_at(dir, REGTEST, block.position)
                .unwrap()
                .collect();
            assert_eq!(rest.unwrap(), blocks[index..]);
        }
        assert_eq!(blocks[5].position, Position { file: 12, offset: 8 });
    }
}

#[test]
fn incomplete_records_are_skipped_and_counted() {
    let chain: Vec<DemoBlock> = DemoChain::new(4, 40).take(3).collect();
    let records: Vec<Vec<u8>> = chain.iter().map(|block| record(REGTEST, &block.raw)).collect();
    for key in [None, Some(KEY)] {
        for cut in [1, 7, 8, 100, records[2].len() - 1] {
            let folder = tempfile::tempdir().unwrap();
            if let Some(key) = key {
                std::fs::write(folder.path().join("xor.dat"), key).unwrap();
            }
            // The first file ends within a record.
            write(
                folder.path(),
                0,
                &[&records[0][..], &records[1], &records[2][..cut]].concat(),
                key,
            );
            let (blocks, skipped) = read(folder.path());
            assert_eq!(raws(&blocks), [&chain[0].raw[..], &chain[1].raw]);
            assert_eq!(skipped, cut as u64, "{key:?}");
        }
        // The bytes before a record are garbage, and longer than one read of the search.
        let folder = tempfile::tempdir().unwrap();
        if let Some(key) = key {
            std::fs::write(folder.path().join("xor.dat"), key).unwrap();
        }
        let mut garbage = vec![0; 150_000];
        Random(1).fill(&mut garbage);
        for length in [65_533, 65_534, 65_535, 65_536, 150_000] {
            let content = [&records[0][..], &garbage[..length], &records[1]].concat();
            write(folder.path(), 0, &content, key);
            let (blocks, skipped) = read(folder.path());
            assert_eq!(raws(&blocks), [&chain[0].raw[..], &chain[1].raw], "{length}");
            assert_eq!(skipped, length as u64);
        }
    }
}

#[test]
fn a_length_beyond_the_maximum_or_the_file_is_skipped() {
    let block = DemoChain::new(5, 1).next().unwrap();
    for length in [0, 79, 4_000_001, u32::MAX] {
        let folder = tempfile::tempdir().unwrap();
        let wrong = [&REGTEST[..], &length.to_le_bytes()].concat();
        write(
            folder.path(),
            0,
            &[wrong, record(REGTEST, &block.raw)].concat(),
            None,
        );
        let (blocks, skipped) = read(folder.path());
        assert_eq!((raws(&blocks), skipped), (vec![&block.raw[..]], 8), "{length}");
    }
}

#[test]
fn another_network_a_bad_key_and_an_empty_directory_have_their_own_errors() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let fault = |magic| BlockFiles::open(dir, magic).unwrap_err();
    assert!(matches!(fault(REGTEST), BlockFilesError::None { .. }));
    let block = DemoChain::new(6, 1).next().unwrap();
    write(dir, 0, &record(REGTEST, &block.raw), None);
    let error = fault(MAINNET);
    assert!(matches!(error, BlockFilesError::OtherNetwork { .. }), "{error}");
    assert!(error.to_string().contains("f9, be, b4, d9"), "{error}");
    std::fs::write(dir.join("xor.dat"), [1; 7]).unwrap();
    assert!(matches!(fault(REGTEST), BlockFilesError::Key { bytes: 7, .. }));
    std::fs::write(dir.join("xor.dat"), [1; 8]).unwrap();
    assert!(matches!(fault(REGTEST), BlockFilesError::OtherNetwork { .. }));
    let missing = BlockFiles::open(&dir.join("none"), REGTEST).unwrap_err();
    assert!(matches!(missing, BlockFilesError::Io { .. }));
    // A file that the node has just created is empty, and has no blocks.
    std::fs::remove_file(dir.join("xor.dat")).unwrap();
    std::fs::write(dir.join("blk00000.dat"), []).unwrap();
    assert_eq!(read(dir), (Vec::new(), 0));
}

/// Reads a recorded block of the main network with its magic and length: block 277647 of btcd's test data.
#[test]
fn a_recorded_block_of_the_main_network_is_read() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/bitcoin-blocks");
    let Ok(recorded) = std::fs::read(data.join("btcd-277647.dat")) else {
        return skipped(format_args!("{} has no btcd-277647.dat", data.display()));
    };
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), 0, &recorded, Some(KEY));
    std::fs::write(folder.path().join("xor.dat"), KEY).unwrap();
    let blocks: Result<Vec<_>, _> = BlockFiles::open(folder.path(), MAINNET).unwrap().collect();
    let blocks = blocks.unwrap();
    let hash = "0000000000000000054a714e580b16c583701712ab91060e92dbde6eb1e052a8";
    assert_eq!(blocks.len(), 1);
    assert_eq!(blocks[0].hash.to_string(), hash);
}

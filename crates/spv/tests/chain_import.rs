//! Tests of the import of blocks from files: a node's directory, and real blocks.

use lineside_spv::chain::*;
use lineside_testkit::{DemoBlock, DemoChain, skipped};
use std::path::{Path, PathBuf};

fn framed(network: Network, blocks: &[&DemoBlock]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for block in blocks {
        bytes.extend(network.magic());
        bytes.extend((block.raw.len() as u32).to_le_bytes());
        bytes.extend(&block.raw);
    }
    bytes
}

fn write_keyed(path: &Path, bytes: &[u8], key: [u8; 8]) {
    let bytes: Vec<u8> = bytes
        .iter()
        .enumerate()
        .map(|(i, byte)| byte ^ key[i % 8])
        .collect();
    std::fs::write(path, bytes).unwrap();
}

fn import(store: &mut ChainStore, path: &Path, detached: bool) -> ImportReport {
    store
        .import(&[path.to_path_buf()], ImportOptions { detached }, &mut |_| {})
        .unwrap()
}

#[test]
fn a_nodes_block_files_are_read_in_any_order_with_stale_branches_key_and_padding() {
    let chain: Vec<DemoBlock> = DemoChain::new(31, 9).take(8).collect();
    let stale: Vec<DemoBlock> = DemoChain::branch(32, 9, chain[3].hash, 4).take(2).collect();
    let orphan = DemoChain::branch(33, 9, [6; 32], 4).next().unwrap();
    let mut bad = chain[7].clone();
    let last = bad.raw.len() - 1;
    bad.raw[last] ^= 1;
    for key in [[0u8; 8], [0x5a, 1, 2, 3, 0xf0, 5, 6, 7]] {
        let dir = tempfile::tempdir().unwrap();
        let (nodes, data) = (dir.path().join("blocks"), dir.path().join("store"));
        std::fs::create_dir(&nodes).unwrap();
        std::fs::write(nodes.join("rev00000.dat"), b"not a block file").unwrap();
        if key != [0; 8] {
            std::fs::write(nodes.join("xor.dat"), key).unwrap();
        }
        let first = framed(
            Network::Regtest,
            &[
                &chain[2], &stale[1], &chain[0], &chain[5], &stale[0], &chain[1], &orphan,
            ],
        );
        let first_len = first.len();
        write_keyed(&nodes.join("blk00000.dat"), &first, key);
        // A node preallocates the end of a file with zeros, which it does not encode with the XOR key.
        let file = std::fs::OpenOptions::new()
            .write(true)
            .open(nodes.join("blk00000.dat"))
            .unwrap();
        file.set_len(first_len as u64 + (2 << 20) + 3).unwrap();
        let mut second = framed(
            Network::Regtest,
            &[&chain[6], &bad, &chain[4], &chain[3], &chain[7], &chain[7]],
        );
        second.extend(&framed(Network::Regtest, &[&chain[1]])[..50]);
        write_keyed(&nodes.join("blk00001.dat"), &second, key);

        let mut store = ChainStore::open(Some(&data), Network::Regtest).unwrap();
        let mut seen = Vec::new();
        let report = store
            .import(std::slice::from_ref(&nodes), ImportOptions::default(), &mut |p| {
                seen.push(p)
            })
            .unwrap();
        assert_eq!(
            (
                report.blocks,
                report.connected,
                report.side,
                report.already_stored
            ),
            (10, 8, 2, 1)
        );
        assert_eq!((report.transactions, report.detached), (90, 0));
        let reasons: Vec<String> = report.refused.iter().map(|r| r.reason.to_string()).collect();
        assert_eq!(report.refused.len(), 4, "{reasons:?}");
        assert!(
            matches!(report.refused[0].reason, Refused::Malformed(_)),
            "{reasons:?}"
        );
        assert!(
            matches!(report.refused[1].reason, Refused::Malformed(_)),
            "{reasons:?}"
        );
        assert!(
            matches!(report.refused[2].reason, Refused::WrongMerkleRoot),
            "{reasons:?}"
        );
        assert!(
            matches!(report.refused[3].reason, Refused::UnknownParent(_)),
            "{reasons:?}"
        );
        assert_eq!(report.refused[3].hash, Some(orphan.hash));
        assert_eq!(
            store.tip(),
            Some(Tip {
                hash: chain[7].hash,
                height: 7
            })
        );
        assert_eq!(store.locate(&stale[0].txids[1]).unwrap(), None);
        let last = seen.last().unwrap();
        assert_eq!((last.phase, last.bytes), (Phase::Connecting, last.total_bytes));

        // A second import finds nothing new. A third import, into a reopened store, may accept detached blocks and
        // accepts the block whose parent is unknown.
        let report = import(&mut store, &nodes, false);
        assert_eq!((report.blocks, report.already_stored), (0, 11));
        drop(store);
        let mut store = ChainStore::open(Some(&data), Network::Regtest).unwrap();
        let report = import(&mut store, &nodes, true);
        assert_eq!((report.blocks, report.connected, report.detached), (1, 1, 1));
        assert_eq!(
            store.locate(&orphan.txids[2]).unwrap().unwrap().height,
            DETACHED_HEIGHT
        );
    }
}

/// Checks that a known header does not make the transactions in a file acceptable: the header with a mutated tree, or
/// with other transactions, is refused even if the store already has the block, from before or from this import.
#[test]
fn another_body_under_a_known_header_is_refused() {
    let good = DemoChain::new(41, 3).next().unwrap();
    let mut mutated: bitcoin::Block = bitcoin::consensus::deserialize(&good.raw).unwrap();
    mutated.txdata.push(mutated.txdata[2].clone());
    let mutated = bitcoin::consensus::serialize(&mutated);
    assert_eq!(mutated[..80], good.raw[..80]);
    let mut altered = good.raw.clone();
    let last = altered.len() - 1;
    altered[last] ^= 1;
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let [good_path, mutated, altered] = [
        write("good", &good.raw),
        write("mutated", &mutated),
        write("altered", &altered),
    ];
    for order in [[&good_path, &mutated, &altered], [&mutated, &altered, &good_path]] {
        let mut store = ChainStore::open(None, Network::Regtest).unwrap();
        for round in 0..2 {
            let paths: Vec<PathBuf> = order.iter().map(|path| path.to_path_buf()).collect();
            let report = store
                .import(&paths, ImportOptions::default(), &mut |_| {})
                .unwrap();
            assert_eq!(
                (report.blocks, report.already_stored),
                if round == 0 { (1, 0) } else { (0, 1) }
            );
            let refused = |path: &Path| &report.refused.iter().find(|r| r.path == *path).unwrap().reason;
            assert!(matches!(refused(&mutated), Refused::MutatedTree));
            assert!(matches!(refused(&altered), Refused::WrongMerkleRoot));
            assert_eq!(report.refused.len(), 2);
            assert_eq!((store.blocks(), store.transactions()), (1, 3));
        }
    }
}

#[test]
fn a_file_without_blocks_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = ChainStore::open(None, Network::Regtest).unwrap();
    let mut attempt = |path: &Path| {
        store
            .import(&[path.to_path_buf()], ImportOptions::default(), &mut |_| {})
            .map(|r| r.refused.len())
    };
    assert!(matches!(attempt(dir.path()), Err(ChainError::NoBlocks { .. })));
    assert!(matches!(
        attempt(&dir.path().join("absent")),
        Err(ChainError::Io { .. })
    ));
    let file = dir.path().join("x.raw");
    std::fs::write(&file, b"short").unwrap();
    assert_eq!(attempt(&file).unwrap(), 1);
    let block = DemoChain::new(1, 1).next().unwrap();
    std::fs::write(&file, framed(Network::Signet, &[&block])).unwrap();
    assert_eq!(attempt(&file).unwrap(), 1);
    std::fs::write(&file, framed(Network::Regtest, &[&block])).unwrap();
    assert_eq!(attempt(&file).unwrap(), 0);
    let blk = dir.path().join("blk00000.dat");
    std::fs::write(&blk, b"").unwrap();
    std::fs::write(dir.path().join("xor.dat"), b"short").unwrap();
    assert!(matches!(attempt(&blk), Err(ChainError::NoBlocks { .. })));
}

#[test]
fn real_blocks() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/bitcoin-blocks");
    let Ok(manifest) = std::fs::read(dir.join("MANIFEST.json")) else {
        skipped(format_args!("there are no real blocks in {}", dir.display()));
        return;
    };
    let manifest: Vec<serde_json::Value> = serde_json::from_slice(&manifest).unwrap();
    let text = |entry: &serde_json::Value, key: &str| entry[key].as_str().unwrap().to_owned();
    let wire = |hex: &str| {
        let mut bytes: [u8; 32] = bitcoin::hex::FromHex::from_hex(hex).unwrap();
        bytes.reverse();
        bytes
    };
    for network in [Network::Mainnet, Network::Testnet3] {
        let here: Vec<_> = manifest
            .iter()
            .filter(|e| text(e, "network") == network.name())
            .collect();
        let paths: Vec<PathBuf> = here.iter().map(|e| dir.join(text(e, "file"))).collect();
        let mut store = ChainStore::open(None, network).unwrap();
        let report = store
            .import(&paths, ImportOptions { detached: true }, &mut |_| {})
            .unwrap();
        let (good, altered): (Vec<_>, Vec<_>) =
            here.iter().partition(|e| !text(e, "file").contains("altered"));
        assert_eq!(report.refused.len(), altered.len());
        for refused in &report.refused {
            assert!(refused.path.ends_with("altered-413567-microbitcoin.raw"));
            assert!(matches!(refused.reason, Refused::WrongMerkleRoot));
        }
        assert_eq!(report.blocks as usize, good.len());
        for entry in good {
            let id = store.find(&wire(&text(entry, "hash"))).unwrap();
            let block = store.block(id).unwrap();
            assert_eq!(block.root, wire(&text(entry, "merkle_header")));
            assert_eq!(u64::from(block.transactions), entry["ntx"].as_u64().unwrap());
            for (position, txid) in store.txids(id).iter().enumerate() {
                let at = store.locate(txid).unwrap().unwrap();
                assert_eq!((at.root, at.position as usize), (block.root, position));
            }
        }
    }
}

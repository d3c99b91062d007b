//! `lineside spv import` is killed and started again.

use lineside_spv::chain::{ChainStore, IndexKind, Network};
use lineside_testkit::{DemoBlock, DemoChain};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

fn import(data: &Path, blocks: &Path, index: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lineside"));
    command.args([
        "--json",
        "spv",
        "import",
        "--network",
        "regtest",
        "--index",
        index,
        "--data",
    ]);
    command
        .arg(data)
        .arg(blocks)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

#[test]
fn a_killed_import_resumes_with_no_block_lost_or_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let nodes = folder.path().join("blocks");
    std::fs::create_dir(&nodes).unwrap();
    let chain: Vec<DemoBlock> = DemoChain::new(77, 1500).take(250).collect();
    for (number, part) in chain.chunks(40).enumerate() {
        let mut file = std::fs::File::create(nodes.join(format!("blk{number:05}.dat"))).unwrap();
        for block in part {
            file.write_all(&Network::Regtest.magic()).unwrap();
            file.write_all(&(block.raw.len() as u32).to_le_bytes()).unwrap();
            file.write_all(&block.raw).unwrap();
        }
    }
    for (index, kind) in [("memory", IndexKind::Memory), ("disk", IndexKind::Disk)] {
        let data = folder.path().join(index);
        let blocks_file = data.join("blocks.dat");
        let length = || std::fs::metadata(&blocks_file).map_or(0, |file| file.len());
        let mut kills = 0;
        for attempt in 0..4u64 {
            let before = length();
            let mut child = import(&data, &nodes, index).spawn().unwrap();
            if attempt < 2 {
                std::thread::sleep(Duration::from_millis(30 + 170 * attempt));
            } else {
                // The test kills the import as soon as more blocks are durable.
                while length() <= before.max(128) && child.try_wait().unwrap().is_none() {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            // `kill` sends SIGKILL.
            child.kill().unwrap();
            kills += u32::from(child.wait().unwrap().code().is_none());
            println!("{index}: {} blocks durable", (length().max(128) - 128) / 128);
        }
        assert!(kills > 0, "no import was met alive");
        let durable = (length().max(128) - 128) / 128;
        println!("{index}: {kills} kills, {durable} of {} blocks kept", chain.len());

        let output = import(&data, &nodes, index).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() && said.is_empty(),
            "quiet without a terminal: {said}"
        );
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let number = |key: &str| report[key].as_u64().unwrap();
        assert_eq!(number("blocks") + number("known"), chain.len() as u64);
        assert!(number("known") <= durable);
        assert_eq!((number("connected"), number("side")), (number("blocks"), 0));
        assert_eq!(report["refused"], serde_json::json!([]));

        let (store, rebuilt) = ChainStore::open_with(Some(&data), Network::Regtest, kind).unwrap();
        assert_eq!(rebuilt, None, "a kill damages no index");
        store.verify_index().unwrap();
        assert_eq!((store.blocks(), store.transactions()), (chain.len(), 250 * 1500));
        for (height, block) in chain.iter().enumerate() {
            for (position, txid) in block.txids.iter().enumerate().step_by(7) {
                let at = store.locate(txid).unwrap().unwrap();
                assert_eq!((at.root, at.height as usize), (block.root, height));
                assert_eq!(at.position as usize, position);
            }
        }
    }
}

//! `lineside spv init --witness`, a server with witness data, and `spv verify --witness`.

mod spv_server;

use bitcoin::Block;
use lineside_testkit::{DemoBlock, DemoChain, RegtestChain};
use lineside_util::hex::to_display;
use serde_json::{Value, json};
use spv_server::{Server, lineside, succeeded};
use std::path::{Path, PathBuf};

/// Returns the genesis block of regtest, five blocks with witnesses, and one block without witnesses.
fn chain() -> Vec<DemoBlock> {
    let mut blocks = vec![RegtestChain::genesis()];
    let first = DemoChain::branch(1, 7, blocks[0].hash, 1).with_witness();
    blocks.extend(first.take(5));
    blocks.push(DemoChain::branch(2, 3, blocks[5].hash, 6).next().unwrap());
    blocks
}

/// Creates a store with the blocks.
fn store(folder: &Path, name: &str, blocks: &[DemoBlock], init: &[&str]) -> PathBuf {
    let data = folder.join(name);
    let path = data.to_str().unwrap();
    let said = succeeded(&lineside(
        &[
            &["spv", "init", "--json", "--network", "regtest", "--data", path],
            init,
        ]
        .concat(),
    ));
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said["witness"], !init.is_empty());
    let mut import = vec!["spv", "import", "--network", "regtest", "--data", path];
    let files: Vec<_> = (0..blocks.len())
        .map(|number| folder.join(format!("{name}-{number}.raw")))
        .collect();
    for (file, block) in files.iter().zip(blocks) {
        std::fs::write(file, &block.raw).unwrap();
        import.push(file.to_str().unwrap());
    }
    succeeded(&lineside(&import));
    data
}

struct Light<'a> {
    headers: &'a Path,
    server: String,
}

impl Light<'_> {
    fn verify(&self, words: &[&str]) -> (Option<i32>, String, String) {
        let headers = self.headers.to_str().unwrap();
        let light = [
            "spv",
            "verify",
            "--json",
            "--network",
            "regtest",
            "--headers",
            headers,
        ];
        let output = lineside(&[&light[..], &["--server", &self.server], words].concat());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    }

    fn verified(&self, words: &[&str]) -> Value {
        let (code, said, error) = self.verify(words);
        assert_eq!(code, Some(0), "{error}");
        serde_json::from_str(&said).unwrap()
    }

    fn refused(&self, words: &[&str], why: &str) {
        let (code, said, error) = self.verify(words);
        assert_eq!(code, Some(1), "{said}{error}");
        assert!(said.is_empty() && error.contains(why), "{error}");
    }
}

#[test]
fn a_light_client_verifies_a_transaction_with_its_witness() {
    let folder = tempfile::tempdir().unwrap();
    let blocks = chain();
    let data = store(folder.path(), "with", &blocks, &["--witness"]);
    let server = Server::start("regtest", &data, &[]);
    let light = Light {
        headers: &folder.path().join("headers"),
        server: server.udp().to_string(),
    };
    let block: Block = bitcoin::consensus::deserialize(&blocks[3].raw).unwrap();
    for (index, transaction) in block.txdata.iter().enumerate() {
        let txid = transaction.compute_txid().to_string();
        // The WTXID of a coinbase is zero by definition.
        let wtxid = match index {
            0 => "0".repeat(64),
            _ => transaction.compute_wtxid().to_string(),
        };
        let said = light.verified(&["--witness", &txid]);
        assert_eq!((&said["txid"], &said["wtxid"]), (&json!(txid), &json!(wtxid)));
        assert_eq!((&said["height"], &said["confirmations"]), (&json!(3), &json!(4)));
        assert_eq!(said["index"], json!(index));
        assert_eq!(said["block"], to_display(&blocks[3].hash));
        assert_eq!(light.verified(&["--wtxid", &wtxid, &txid]), said);
        if index == 0 {
            continue;
        }
        // The client gives only the WTXID, which the server finds in its index of WTXIDs.
        let alone = light.verified(&["--wtxid", &wtxid]);
        for key in [
            "wtxid",
            "height",
            "confirmations",
            "index",
            "block",
            "root",
            "transactions",
        ] {
            assert_eq!(alone[key], said[key], "{key}");
        }
        assert_eq!(alone["txid"], Value::Null);
        let get = lineside(&[
            "spv",
            "get",
            "--json",
            "--server",
            &light.server,
            "--wtxid",
            &wtxid,
        ]);
        let found: Value = serde_json::from_str(&succeeded(&get)).unwrap();
        assert_eq!((&found["wtxid"], &found["height"]), (&json!(wtxid), &json!(3)));
    }
    light.refused(
        &["--wtxid", &"0".repeat(64)],
        "no block in the server's chain commits to it",
    );
    light.refused(
        &["--wtxid", &"7".repeat(64)],
        "no block in the server's chain commits to it",
    );
    let txid = to_display(&blocks[3].txids[1]);
    let other = block.txdata[2].compute_wtxid().to_string();
    light.refused(&["--wtxid", &other, &txid], "another witness: its WTXID is");
    let (code, _, error) = light.verify(&["--wtxid", "77", &txid]);
    assert!(code == Some(2) && error.contains("64 hex digits"), "{error}");
    light.refused(
        &["--witness", &"7".repeat(64)],
        "no block in the server's chain contains it",
    );
    // A transaction in a block without a witness commitment can be verified only by its TXID.
    let plain = to_display(&blocks[6].txids[1]);
    light.refused(&["--witness", &plain], "commits to no witnesses");
    let said = light.verified(&[&plain]);
    assert_eq!((&said["height"], &said["wtxid"]), (&json!(6), &Value::Null));
    drop(server);

    // The server refuses a request for witness data if its store was created without it.
    let data = store(folder.path(), "without", &blocks, &[]);
    let server = Server::start("regtest", &data, &[]);
    let light = Light {
        server: server.udp().to_string(),
        ..light
    };
    light.refused(&["--witness", &txid], "spv init --witness");
    light.refused(&["--wtxid", &other], "spv init --witness");
    assert_eq!(light.verified(&[&txid])["height"], 3);
}

/// `spv import` into a store with witness data checks the witness commitment of each block.
#[test]
fn import_refuses_a_block_with_other_witnesses() {
    let folder = tempfile::tempdir().unwrap();
    let blocks = chain();
    let mut block: Block = bitcoin::consensus::deserialize(&blocks[1].raw).unwrap();
    block.txdata[1].input[0].witness = bitcoin::Witness::from_slice(&[[5; 64]]);
    let file = folder.path().join("altered.raw");
    std::fs::write(&file, bitcoin::consensus::serialize(&block)).unwrap();
    for (name, init, code) in [("with", &["--witness"][..], 1), ("without", &[], 0)] {
        let data = store(folder.path(), name, &blocks[..1], init);
        let (data, file) = (data.to_str().unwrap(), file.to_str().unwrap());
        let import = lineside(&["spv", "import", "--network", "regtest", "--data", data, file]);
        assert_eq!(import.status.code(), Some(code), "{import:?}");
        let said = String::from_utf8_lossy(&import.stderr);
        assert_eq!(said.contains("wrong witness commitment"), code == 1, "{said}");
    }
}

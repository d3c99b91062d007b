//! `lineside spv` in front of a real node: btcd on simnet mines, reorganises and is killed, while wallets and explorers
//! are served from its chain. The tests are skipped with a message if btcd is not installed.

#[path = "../../bitcoin-node/tests/common/mod.rs"]
mod common;
mod spv_server;

use common::{Btcd, btcd_program, until};
use lineside_testkit::skipped;
use serde_json::{Value, json};
use spv_server::{Server, electrum, lineside, store, succeeded};
use std::path::PathBuf;

fn started() -> Option<(PathBuf, Btcd, tempfile::TempDir)> {
    let Some(program) = btcd_program() else {
        skipped("btcd is not installed (LINESIDE_BTCD, or btcd on the path)");
        return None;
    };
    let btcd = Btcd::start(&program, false, None);
    let folder = tempfile::tempdir().unwrap();
    store(folder.path(), "simnet");
    Some((program, btcd, folder))
}

fn tip_of(btcd: &Btcd) -> String {
    btcd.chain().last().unwrap().to_string()
}

/// Returns the TXID of the coinbase of the block at `height`, from the node's RPC.
fn coinbase_at(btcd: &Btcd, height: usize) -> String {
    let block = btcd.call("getblock", json!([btcd.chain()[height].to_string(), 1]));
    block["tx"][0].as_str().unwrap().to_owned()
}

#[test]
fn a_node_that_mines_and_reorganises_is_served_to_wallets_and_explorers() {
    let Some((program, mut btcd, folder)) = started() else {
        return;
    };
    let data = folder.path().join("chain");
    btcd.generate(20);
    let server = Server::start("simnet", &data, &["--node", &btcd.url()]);
    until("the server has the node's chain", || {
        (server.tip() == tip_of(&btcd)).then_some(())
    });

    // A library of another project checks a proof that the server sent by the Electrum protocol.
    let txid = coinbase_at(&btcd, 15);
    let answer = electrum(
        server.address("electrum"),
        "blockchain.transaction.get_merkle",
        &json!([txid, 15]),
    );
    assert_eq!(
        (&answer["result"]["block_height"], &answer["result"]["pos"]),
        (&json!(15), &json!(0))
    );
    let block = btcd.call("getblock", json!([btcd.chain()[15].to_string(), 1]));
    // In a block with a single transaction, the Merkle root is the TXID of this transaction.
    assert_eq!(
        (&block["merkleroot"], &answer["result"]["merkle"]),
        (&json!(txid), &json!([]))
    );
    let proof = server.page(server.address("http"), &format!("/tx/{txid}/merkleblock-proof"));
    let raw = lineside_util::hex::from_hex(proof.trim()).unwrap();
    let proof: bitcoin::MerkleBlock = bitcoin::consensus::deserialize(&raw).unwrap();
    let (mut found, mut places) = (Vec::new(), Vec::new());
    proof.extract_matches(&mut found, &mut places).unwrap();
    assert_eq!(found[0].to_string(), txid);

    // The paper's three steps: the client keeps headers, gets a proof, and compares.
    let headers = folder.path().join("headers");
    let light = [
        "--network",
        "simnet",
        "--headers",
        headers.to_str().unwrap(),
        "--server",
    ];
    let listen = server.said["listen"].as_str().unwrap();
    let verify = |txid: &str| lineside(&[&["spv", "verify", "--json"], &light[..], &[listen, txid]].concat());
    let said: Value = serde_json::from_str(&succeeded(&verify(&txid))).unwrap();
    assert_eq!((&said["height"], &said["confirmations"]), (&json!(15), &json!(6)));
    assert_eq!(said["block"], btcd.chain()[15].to_string());
    assert_eq!(verify(&"7".repeat(64)).status.code(), Some(1));

    // After a reorganisation, the server first serves the new tip; from then on, no reply contains data of the old
    // branch.
    let old = coinbase_at(&btcd, 19);
    let gone = btcd.chain()[18].to_string();
    btcd.call("invalidateblock", json!([gone]));
    btcd.generate(5);
    until("the server has the new branch", || {
        (server.tip() == tip_of(&btcd)).then_some(())
    });
    let answer = electrum(
        server.address("electrum"),
        "blockchain.transaction.get_merkle",
        &json!([old, 19]),
    );
    assert!(answer["error"].is_object(), "{answer}");
    let get = lineside(&[
        "spv",
        "get",
        "--server",
        server.said["listen"].as_str().unwrap(),
        &old,
    ]);
    assert_eq!(get.status.code(), Some(1), "{get:?}");
    assert_eq!(verify(&old).status.code(), Some(1));
    let sync = lineside(&[&["spv", "sync", "--json"], &light[..], &[listen]].concat());
    let said: Value = serde_json::from_str(&succeeded(&sync)).unwrap();
    assert_eq!(
        said["tip"],
        tip_of(&btcd),
        "the client's chain follows the branch with more work"
    );
    let status: Value = serde_json::from_str(&server.console("/status")).unwrap();
    assert_eq!(
        status["services"][0]["spv"]["node"]["reorganisations"], 1,
        "{status}"
    );
    assert!(
        !server.console("/status").contains("secret"),
        "the password is shown"
    );

    // The node is killed. The server keeps answering, /healthz reports that the node is unreachable, and the server
    // reconnects on its own.
    let last = tip_of(&btcd);
    btcd.kill();
    until("the health page reports that the node is unreachable", || {
        server
            .console("/healthz")
            .contains("has not been followed")
            .then_some(())
    });
    assert_eq!(server.tip(), last);
    btcd.restart(&program);
    // A killed btcd loses its newest blocks, so the test mines until its chain is longer than that of the server.
    btcd.generate(40);
    until("the server follows again", || {
        (server.tip() == tip_of(&btcd)).then_some(())
    });

    // The server is killed while it follows the node, and then started again.
    btcd.generate(10);
    drop(server);
    btcd.generate(10);
    let server = Server::start("simnet", &data, &["--node", &btcd.url()]);
    until("the new server has the node's chain", || {
        (server.tip() == tip_of(&btcd)).then_some(())
    });
    let arguments = std::fs::read(format!("/proc/{}/cmdline", server.child.id())).unwrap();
    let arguments = String::from_utf8_lossy(&arguments);
    assert!(
        !arguments.contains("secret"),
        "the password is in the list of processes: {arguments}"
    );
}

#[test]
fn an_interrupted_first_download_resumes_and_another_network_is_refused() {
    let Some((_, btcd, folder)) = started() else {
        return;
    };
    let data = folder.path().join("chain");
    let data = data.to_str().unwrap();
    btcd.generate(150);
    let import = [
        "spv",
        "import",
        "--network",
        "simnet",
        "--data",
        data,
        "--node",
        &btcd.url(),
    ];
    assert!(succeeded(&lineside(&import)).starts_with("151 blocks"));
    btcd.generate(7);
    assert!(succeeded(&lineside(&import)).starts_with("7 blocks"));
    let again = ["spv", "init", "--network", "simnet", "--data", data];
    assert_eq!(lineside(&again).status.code(), Some(1));

    let other = folder.path().join("other");
    let other = other.to_str().unwrap();
    succeeded(&lineside(&[
        "spv",
        "init",
        "--network",
        "regtest",
        "--data",
        other,
    ]));
    let wrong = [
        "spv",
        "import",
        "--network",
        "regtest",
        "--data",
        other,
        "--node",
        &btcd.url(),
    ];
    let output = lineside(&wrong);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("another network"), "{said}");
    // A server never creates a store, and refuses a store of another network.
    let nowhere = folder.path().join("nowhere");
    for (path, network, words) in [
        (nowhere.to_str().unwrap(), "simnet", "spv init"),
        (other, "simnet", "holds regtest"),
    ] {
        let output = lineside(&[
            "spv",
            "serve",
            "--network",
            network,
            "--data",
            path,
            "--datapath",
            "socket",
        ]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(words), "{said}");
    }
    assert!(!nowhere.exists());
}

//! `lineside spv` with software of other projects: the wallet `electrum`, ElectrumX as the upstream server for
//! forwarded requests, and python-bitcoinlib as a checker of proofs. All follow one regtest chain in memory. A test is
//! skipped with a message if its program is not installed.

#[path = "../../bitcoin-node/tests/common/mod.rs"]
mod common;
mod peers;
mod spv_server;

use bitcoin::ScriptBuf;
use bitcoin::hashes::{Hash as _, sha256};
use common::{WAIT_TIMEOUT, until};
use lineside_testkit::{CoreMini, DemoBlock, RegtestChain, skipped};
use lineside_util::hex::to_display;
use peers::upstream::Upstream;
use peers::{ElectrumX, Wallet, program};
use serde_json::{Value, json};
use spv_server::{Electrum, Server, electrum, store};
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

const GET_MERKLE: &str = "blockchain.transaction.get_merkle";

/// A chain, the node that has it, and a Lineside server that follows the node.
struct Scene {
    chain: RegtestChain,
    node: Arc<CoreMini>,
    server: Option<Server>,
    folder: tempfile::TempDir,
}

impl Scene {
    /// Creates a chain of blocks that each pay `script` once and have `spends` further transactions.
    fn new(blocks: u32, spends: u32) -> Self {
        let mut chain = RegtestChain::new(3);
        let mut all = vec![RegtestChain::genesis()];
        all.extend((0..blocks).map(|_| chain.next(&[], spends)));
        let folder = tempfile::tempdir().unwrap();
        store(folder.path(), "regtest");
        Self {
            chain,
            node: Arc::new(CoreMini::start(all).unwrap()),
            server: None,
            folder,
        }
    }

    fn serve(&mut self, upstream: Option<SocketAddr>) {
        let data = self.folder.path().join("chain");
        let (url, upstream) = (self.node.url(), upstream.map(|address| address.to_string()));
        let mut more = vec!["--node", url.as_str()];
        if let Some(upstream) = &upstream {
            more.extend(["--electrum-upstream", upstream]);
        }
        self.server = Some(Server::start("regtest", &data, &more));
        self.wait_for_tip();
        until("the subscription", || (self.node.subscribers() > 0).then_some(()));
    }

    fn server(&self) -> &Server {
        self.server.as_ref().unwrap()
    }

    /// Returns the address of Lineside's Electrum server.
    fn wallets(&self) -> SocketAddr {
        self.server().address("electrum")
    }

    fn wait_for_tip(&self) {
        let tip = to_display(&self.node.chain().last().unwrap().hash);
        until("the server has the tip", || {
            (self.server().tip() == tip).then_some(())
        });
    }
}

fn wallet_program() -> Option<PathBuf> {
    let program = program("LINESIDE_ELECTRUM", "electrum");
    if program.is_none() {
        skipped("the wallet electrum is not installed (LINESIDE_ELECTRUM, or electrum on the path)");
    }
    program
}

fn electrumx_program() -> Option<PathBuf> {
    let program = program("LINESIDE_ELECTRUMX", "electrumx_server");
    if program.is_none() {
        skipped("ElectrumX is not installed (LINESIDE_ELECTRUMX, or electrumx_server on the path)");
    }
    program
}

fn script_of(address: &str) -> ScriptBuf {
    let address: bitcoin::Address<_> = address.parse().unwrap();
    address
        .require_network(bitcoin::Network::Regtest)
        .unwrap()
        .script_pubkey()
}

/// Waits until the wallet has verified `txid` in a block and counts `confirmations`.
fn verified(wallet: &Wallet, txid: &str, confirmations: u64) {
    let end = Instant::now() + WAIT_TIMEOUT;
    while wallet.confirmations(txid) != Some(confirmations) {
        let state = || (wallet.call(&["get_tx_status", txid]), wallet.call(&["getinfo"]));
        assert!(
            Instant::now() < end,
            "not {confirmations} confirmations: {:?}",
            state()
        );
    }
}

/// Waits until the wallet's own chain of headers has the node's height. A wallet that is notified of a transaction in a
/// block whose header it lacks may disconnect from the server for some time.
fn wait_for_headers(wallet: &Wallet, node: &CoreMini) {
    let height = node.chain().len() - 1;
    until("the wallet's headers", || {
        (wallet.call(&["getinfo"]).ok()?["blockchain_height"] == height).then_some(())
    });
}

#[test]
fn a_wallet_verifies_a_payment_and_withdraws_that_after_a_reorganisation() {
    let Some(program) = wallet_program() else { return };
    let mut wallet = Wallet::make(program);
    let script = script_of(&wallet.address());
    let mut scene = Scene::new(5, 9);
    let upstream = Upstream::start(&scene.node, &script);
    scene.serve(Some(upstream.address));
    wallet.connect(scene.wallets());

    let before = scene.chain.clone();
    let paid = scene.chain.next(std::slice::from_ref(&script), 9);
    let txid = to_display(&paid.txids[1]);
    scene.node.connect(paid);
    scene.wait_for_tip();
    wait_for_headers(&wallet, &scene.node);
    upstream.notify();
    verified(&wallet, &txid, 1);
    let balance = wallet.call(&["getbalance"]).unwrap();
    assert_eq!(balance, json!({"confirmed": "0.001"}), "{balance}");
    scene.node.connect(scene.chain.next(&[], 4));
    verified(&wallet, &txid, 2);

    // The node changes to a branch without the payment, which makes the payment unconfirmed again.
    let mut other = before.branch(4);
    scene
        .node
        .reorganise(before.height(), (0..3).map(|_| other.next(&[], 3)).collect());
    scene.wait_for_tip();
    wait_for_headers(&wallet, &scene.node);
    upstream.notify();
    verified(&wallet, &txid, 0);
    let balance = wallet.call(&["getbalance"]).unwrap();
    assert_eq!(
        balance,
        json!({"confirmed": "0", "unconfirmed": "0.001"}),
        "{balance}"
    );

    // A third branch contains the payment in another block at the same height.
    let mut third = before.branch(5);
    let mut branch = vec![third.next(std::slice::from_ref(&script), 9)];
    assert_eq!(
        to_display(&branch[0].txids[1]),
        txid,
        "the payment is one transaction"
    );
    branch.extend((0..3).map(|_| third.next(&[], 1)));
    scene.node.reorganise(before.height(), branch);
    scene.wait_for_tip();
    wait_for_headers(&wallet, &scene.node);
    upstream.notify();
    verified(&wallet, &txid, 4);
}

#[test]
fn a_wallet_uses_lineside_and_electrumx_together() {
    let (Some(program), Some(electrumx)) = (wallet_program(), electrumx_program()) else {
        return;
    };
    let mut wallet = Wallet::make(program);
    let script = script_of(&wallet.address());
    let mut scene = Scene::new(5, 9);
    let electrumx = ElectrumX::start(&electrumx, &scene.node);
    scene.serve(Some(electrumx.address));
    wallet.connect(scene.wallets());
    let paid = scene.chain.next(&[script.clone(), script], 9);
    let txid = to_display(&paid.txids[1]);
    scene.node.connect(paid);
    verified(&wallet, &txid, 1);
    assert_eq!(
        wallet.call(&["getbalance"]).unwrap(),
        json!({"confirmed": "0.002"})
    );
}

/// Compares Lineside's proof of every transaction in a block with the proof of ElectrumX. Returns the number of proofs.
fn same_proofs(ours: SocketAddr, theirs: SocketAddr, height: usize, block: &DemoBlock) -> usize {
    // ElectrumX polls its node, so the test waits until it has the block.
    let header = lineside_util::hex::to_hex(&block.raw[..80]);
    until("ElectrumX has the block", || {
        (electrum(theirs, "blockchain.block.header", &json!([height]))["result"] == header).then_some(())
    });
    let (mut one, mut other) = (
        Electrum::connect(ours).unwrap(),
        Electrum::connect(theirs).unwrap(),
    );
    for (position, txid) in block.txids.iter().enumerate() {
        let params = json!([to_display(txid), height]);
        let answer = one.call(GET_MERKLE, &params).unwrap();
        assert_eq!(answer["result"]["pos"], position, "{answer}");
        // ElectrumX delays small replies by up to a second if the client sends one request at a time, so only a few are
        // compared.
        if position < 3 || position + 1 == block.txids.len() {
            assert_eq!(
                answer["result"],
                other.call(GET_MERKLE, &params).unwrap()["result"]
            );
        }
    }
    block.txids.len()
}

#[test]
fn electrumx_gives_the_same_proofs_and_answers_forwarded_requests() {
    let Some(program) = electrumx_program() else {
        return;
    };
    let mut scene = Scene::new(4, 30);
    let electrumx = ElectrumX::start(&program, &scene.node);
    scene.serve(Some(electrumx.address));
    let ours = scene.wallets();
    let chain = scene.node.chain();
    for (height, block) in chain.iter().enumerate().skip(2) {
        same_proofs(ours, electrumx.address, height, block);
    }

    // Lineside forwards requests for the history of a script and for a subscription to it.
    let script = ScriptBuf::from_bytes(vec![0x52]);
    let params = json!([to_display(&sha256::Hash::hash(script.as_bytes()).to_byte_array())]);
    let mut client = Electrum::connect(ours).unwrap();
    let subscribe = "blockchain.scripthash.subscribe";
    assert_eq!(client.call(subscribe, &params).unwrap()["result"], Value::Null);
    client.call("blockchain.headers.subscribe", &json!([])).unwrap();
    let before = scene.chain.clone();
    let block = scene.chain.next(&[script], 3);
    scene.node.connect(block.clone());
    let header = client.notification("blockchain.headers.subscribe");
    assert_eq!(header["params"][0]["height"], 5);
    assert!(client.notification(subscribe)["params"][1].is_string());
    let history = client.call("blockchain.scripthash.get_history", &params).unwrap();
    let expected = json!([{"tx_hash": to_display(&block.txids[1]), "height": 5}]);
    assert_eq!(history["result"], expected, "{history}");
    same_proofs(ours, electrumx.address, 5, &block);

    // After a reorganisation, both servers serve no data of the old branch, and their proofs for the new branch agree.
    let mut other = before.branch(9);
    let branch: Vec<_> = (0..2).map(|_| other.next(&[], 5)).collect();
    scene.node.reorganise(4, branch.clone());
    scene.wait_for_tip();
    let gone = json!([to_display(&block.txids[2]), 5]);
    assert!(electrum(ours, GET_MERKLE, &gone)["error"].is_object());
    same_proofs(ours, electrumx.address, 5, &branch[0]);
    same_proofs(ours, electrumx.address, 6, &branch[1]);
}

/// Returns the Python interpreter if it has python-bitcoinlib.
fn python() -> Option<PathBuf> {
    let python = program("LINESIDE_PYTHON", "python3");
    let has_it = |python: &PathBuf| {
        let mut command = Command::new(python);
        let command = command.args(["-c", "import bitcoin.core"]).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    let found = python.filter(has_it);
    if found.is_none() {
        skipped("python-bitcoinlib is not installed (LINESIDE_PYTHON, or python3 on the path)");
    }
    found
}

/// Runs the script that checks proofs. Returns its output, or `None` if it found a wrong proof.
fn checked(python: &PathBuf, headers: &[String], proofs: &[(String, usize, String)]) -> Option<String> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/check_proofs.py");
    let mut child = Command::new(python)
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let given = json!({"headers": headers, "proofs": proofs}).to_string();
    child.stdin.take().unwrap().write_all(given.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    output
        .status
        .success()
        .then(|| String::from_utf8(output.stdout).unwrap().trim().to_owned())
}

#[test]
fn python_bitcoinlib_accepts_headers_and_proofs_and_refuses_altered_ones() {
    let Some(python) = python() else { return };
    let mut scene = Scene::new(6, 0);
    for spends in [1, 2, 3, 4, 7, 30, 100] {
        scene.node.connect(scene.chain.next(&[], spends));
    }
    scene.serve(None);
    let server = scene.server();
    let chain = scene.node.chain();
    let count = json!([0, chain.len()]);
    let answer = electrum(scene.wallets(), "blockchain.block.headers", &count);
    let text = answer["result"]["hex"].as_str().unwrap();
    let headers: Vec<String> = (text.as_bytes().chunks(160))
        .map(|header| String::from_utf8(header.to_vec()).unwrap())
        .collect();
    let mut proofs = Vec::new();
    for (height, block) in chain.iter().enumerate() {
        for txid in &block.txids {
            let txid = to_display(txid);
            let page = server.page(server.address("http"), &format!("/tx/{txid}/merkleblock-proof"));
            proofs.push((txid, height, page.trim().to_owned()));
        }
    }
    assert_eq!(headers.len(), 14);
    assert_eq!(
        checked(&python, &headers, &proofs),
        Some(proofs.len().to_string())
    );

    // The script detects a proof with a flipped bit, the proof of another transaction, and an altered header.
    let one = proofs.last().unwrap().clone();
    let mut altered = one.clone();
    let digit = if one.2.ends_with('0') { "1" } else { "0" };
    altered
        .2
        .replace_range(300..301, if &one.2[300..301] == "a" { "b" } else { "a" });
    let another = (proofs[20].0.clone(), one.1, one.2.clone());
    let other_height = (one.0.clone(), one.1 - 1, one.2.clone());
    let flags = (
        one.0.clone(),
        one.1,
        format!("{}{digit}", &one.2[..one.2.len() - 1]),
    );
    for wrong in [altered, another, other_height, flags] {
        assert_eq!(
            checked(&python, &headers, std::slice::from_ref(&wrong)),
            None,
            "{wrong:?}"
        );
    }
    let mut headers = headers;
    headers[5].replace_range(80..82, "77");
    assert_eq!(checked(&python, &headers, &[one]), None);
}

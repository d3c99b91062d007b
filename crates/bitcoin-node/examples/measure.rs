//! Measures, with a real btcd on this machine, the time from mining a block to [`ChainStep::Connect`], and the rate of
//! a download. `LINESIDE_BTCD=btcd cargo run --release -p lineside-bitcoin-node --example measure`

#[path = "../tests/common/mod.rs"]
mod common;

use bitcoin::hashes::{Hash as _, sha256d};
use common::{Btcd, ChainInMemory, WAIT_TIMEOUT, btcd_program, until};
use lineside_bitcoin_node::{
    BlockHash, ChainStep, Download, DownloadOptions, Event, Feed, Follower, LessWork, NodeOptions, NodeUrl,
    Use, connect,
};
use std::sync::mpsc;
use std::time::{Duration, Instant};

const SIMNET: &str = "683e86bd5c6d110d91b94b97137ba6bfe02dbbdb8e3dff722a669b5d69d77af6";
const ROUNDS: usize = 100;
/// Number of large blocks in the download.
const BIG: u32 = 100;
const BIG_BYTES: usize = 950_000;

fn main() {
    let program = btcd_program().expect("btcd was not found; set LINESIDE_BTCD to its path");
    let btcd = Btcd::start(&program, false, None);
    let options = NodeOptions {
        poll_interval: WAIT_TIMEOUT,
        backup_poll_interval: WAIT_TIMEOUT,
        ..NodeOptions::default()
    };
    latency("web socket, no TLS", &btcd, &btcd, &options);
    let polling = NodeOptions {
        notifications: Use::Never,
        poll_interval: Duration::from_millis(100),
        ..NodeOptions::default()
    };
    latency("polling each 100 ms, no TLS", &btcd, &btcd, &polling);
    let followed = Btcd::start(&program, true, Some(btcd.p2p));
    let tls = NodeOptions {
        ca_file: Some(followed.folder.path().join("rpc.cert")),
        ..options.clone()
    };
    latency("web socket, TLS, one hop to a peer", &btcd, &followed, &tls);

    mine_big(&btcd);
    download("web socket, no TLS", &btcd, &options);
    let by_http = NodeOptions {
        web_socket: Use::Never,
        ..options
    };
    download("HTTP, no TLS", &btcd, &by_http);
    let mut node = connect(&followed.url().parse().expect("a URL"), &tls).expect("a client");
    let tip = *btcd.chain().last().expect("blocks");
    until("the peer's blocks", || {
        (node.info().ok()?.best == tip).then_some(())
    });
    download("web socket, TLS", &followed, &tls);
}

/// Mines blocks at `miner` while a feed of `followed` waits, and prints the latencies.
fn latency(name: &str, miner: &Btcd, followed: &Btcd, options: &NodeOptions) {
    let url: NodeUrl = followed.url().parse().expect("a URL");
    let node = connect(&url, options).expect("a client");
    let mut feed = Feed::new(
        node,
        Follower::new(SIMNET.parse().expect("a hash"), LessWork::Refuse),
    );
    let (waiting, is_waiting) = mpsc::channel();
    let (connected, is_connected) = mpsc::channel();
    miner.generate(1);
    std::thread::spawn(move || {
        let mut local = ChainInMemory::default();
        loop {
            match feed.next(&local, WAIT_TIMEOUT) {
                Event::Step(step) => {
                    let now = Instant::now();
                    local.apply(&step);
                    if let ChainStep::Connect { hash, .. } = step
                        && connected.send((hash, now)).is_err()
                    {
                        return;
                    }
                }
                Event::AtTip => {
                    let _ = waiting.send(local.0.last().map(|(hash, _)| *hash));
                }
                Event::Away { error, .. } => println!("unreachable: {error}"),
                Event::Pausing => {}
            }
        }
    });
    let mut times: Vec<(f64, f64)> = Vec::new();
    for _ in 0..ROUNDS {
        while is_waiting.try_recv().is_ok() {}
        // Give the feed time to start its wait, which follows its report that it is at the tip.
        std::thread::sleep(Duration::from_millis(30));
        let start = Instant::now();
        let hash = miner.generate(1)[0];
        let mined = Instant::now();
        let at = loop {
            let (found, at) = is_connected.recv_timeout(WAIT_TIMEOUT).expect("the block");
            if found == hash {
                break at;
            }
        };
        let ms = |from: Instant| match at.checked_duration_since(from) {
            Some(after) => after.as_secs_f64() * 1e3,
            None => -(from - at).as_secs_f64() * 1e3,
        };
        times.push((ms(start), ms(mined)));
    }
    let median = |of: fn(&(f64, f64)) -> f64, part: f64| {
        let mut all: Vec<f64> = times.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all[(all.len() as f64 * part) as usize]
    };
    println!(
        "{name}: median time to Connect {:.1} ms (95th percentile {:.1}) after the request to mine, {:.1} ms ({:.1}) \
         after the answer to it",
        median(|(start, _)| *start, 0.5),
        median(|(start, _)| *start, 0.95),
        median(|(_, mined)| *mined, 0.5),
        median(|(_, mined)| *mined, 0.95),
    );
}

/// Mines blocks of nearly the maximum size: a coinbase with one long output.
fn mine_big(btcd: &Btcd) {
    btcd.generate(1);
    for _ in 0..BIG {
        let chain = btcd
            .call("getblockcount", serde_json::json!([]))
            .as_u64()
            .expect("a count");
        let tip = btcd.call("getbestblockhash", serde_json::json!([]));
        let tip: BlockHash = tip.as_str().and_then(|tip| tip.parse().ok()).expect("a hash");
        let raw = big_block(tip, chain as u16 + 1);
        let digits = lineside_util::hex::to_hex(&raw);
        let answer = btcd.call("submitblock", serde_json::json!([digits]));
        assert!(answer.is_null(), "{answer}");
    }
}

fn big_block(parent: BlockHash, height: u16) -> Vec<u8> {
    let mut output = vec![0x6a, 0x4e];
    output.extend_from_slice(&(BIG_BYTES as u32).to_le_bytes());
    output.resize(6 + BIG_BYTES, 0xab);
    let [low, high] = height.to_le_bytes();
    let mut coinbase = vec![1, 0, 0, 0, 1];
    coinbase.extend_from_slice(&[0; 32]);
    coinbase.extend_from_slice(&[
        0xff, 0xff, 0xff, 0xff, 5, 2, low, high, 1, 0, 0xff, 0xff, 0xff, 0xff, 1,
    ]);
    coinbase.extend_from_slice(&[0; 8]);
    coinbase.push(0xfe);
    coinbase.extend_from_slice(&(output.len() as u32).to_le_bytes());
    coinbase.extend_from_slice(&output);
    coinbase.extend_from_slice(&[0; 4]);
    let seconds = std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_secs() as u32;
    let mut header = [0; 80];
    header[..4].copy_from_slice(&0x2000_0000_u32.to_le_bytes());
    header[4..36].copy_from_slice(&parent.0);
    header[36..68].copy_from_slice(&sha256d::Hash::hash(&coinbase).to_byte_array());
    header[68..72].copy_from_slice(&(seconds + u32::from(height)).to_le_bytes());
    header[72..76].copy_from_slice(&0x207f_ffff_u32.to_le_bytes());
    while BlockHash::of_header(&header).0[31] > 0x7e {
        header[76] += 1;
    }
    [&header[..], &[1], &coinbase].concat()
}

fn download(name: &str, btcd: &Btcd, options: &NodeOptions) {
    let url: NodeUrl = btcd.url().parse().expect("a URL");
    let mut node = connect(&url, options).expect("a client");
    let tip = node.info().expect("an answer").blocks;
    for workers in [1, 2, 4] {
        let with = DownloadOptions {
            workers,
            ..DownloadOptions::default()
        };
        let range = tip + 1 - BIG..tip + 1;
        let before = cpu_seconds();
        let mut download = Download::start(range, None, with, || connect(&url, options)).expect("clients");
        for block in download.by_ref() {
            block.expect("a block");
        }
        let progress = download.progress();
        let rate = progress.bytes as f64 / progress.elapsed.as_secs_f64() / 1e6;
        let of_core = progress.bytes as f64 / (cpu_seconds() - before) / 1e6;
        println!(
            "{name}: {workers} workers: {rate:.0} MB/s; {of_core:.0} MB per second of the client's CPU time"
        );
    }
}

/// Returns the processor time that this process has used, in seconds. The kernel's file has units of 1/100 s.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    let after_name = text.rsplit(')').next().unwrap_or_default();
    let field = |at: usize| {
        after_name
            .split_whitespace()
            .nth(at)
            .and_then(|text| text.parse::<f64>().ok())
    };
    (field(11).unwrap_or(0.0) + field(12).unwrap_or(0.0)) / 100.0
}

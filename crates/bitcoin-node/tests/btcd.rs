//! Tests with a real btcd on simnet, which is followed through mining, reorganisations and a restart, over each kind of
//! connection.
//!
//! The program is `LINESIDE_BTCD`, or `btcd` on the path; `go install github.com/btcsuite/btcd@latest` installs it.
//! If btcd is not installed, each test prints one line and passes.

mod common;

use common::{Btcd, ChainInMemory, WAIT_TIMEOUT, btcd_program, until};
use lineside_bitcoin_node::{
    BlockHash, Download, DownloadOptions, Event, Feed, Follower, LessWork, Node, NodeFault, NodeOptions,
    NodeUrl, NoticedBy, Use, connect,
};
use lineside_testkit::skipped;
use serde_json::json;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// First block of simnet (`chaincfg/genesis.go` of btcd).
const SIMNET: &str = "683e86bd5c6d110d91b94b97137ba6bfe02dbbdb8e3dff722a669b5d69d77af6";

fn program() -> Option<PathBuf> {
    let program = btcd_program();
    if program.is_none() {
        skipped("btcd is not installed (LINESIDE_BTCD, or btcd on the path)");
    }
    program
}

fn options(btcd: &Btcd) -> NodeOptions {
    NodeOptions {
        ca_file: btcd.tls.then(|| btcd.folder.path().join("rpc.cert")),
        ..NodeOptions::default()
    }
}

fn node(btcd: &Btcd, options: &NodeOptions) -> Box<dyn Node> {
    let url: NodeUrl = btcd.url().parse().unwrap();
    connect(&url, options).unwrap()
}

fn feed(btcd: &Btcd, options: &NodeOptions, less_work: LessWork) -> Feed {
    Feed::new(
        node(btcd, options),
        Follower::new(SIMNET.parse().unwrap(), less_work),
    )
}

/// Follows until the local chain has the tip `tip`.
fn follow_to(feed: &mut Feed, local: &mut ChainInMemory, tip: BlockHash) {
    assert!(
        arrives(feed, local, tip, WAIT_TIMEOUT),
        "the local chain did not reach the tip {tip} in time"
    );
}

/// Follows until the local chain has the tip `tip`. Returns false if it does not arrive in time.
fn arrives(feed: &mut Feed, local: &mut ChainInMemory, tip: BlockHash, patience: Duration) -> bool {
    let end = Instant::now() + patience;
    while local.0.last().map(|(hash, _)| *hash) != Some(tip) {
        if Instant::now() >= end {
            return false;
        }
        match feed.next(local, Duration::from_secs(1)) {
            Event::Step(step) => local.apply(&step),
            Event::Away { error, .. } => println!("unreachable: {error}"),
            Event::AtTip | Event::Pausing => {}
        }
    }
    true
}

#[test]
fn a_chain_is_followed_over_a_web_socket_and_over_http() {
    let Some(program) = program() else { return };
    let btcd = Btcd::start(&program, false, None);
    let by_http = NodeOptions {
        web_socket: Use::Never,
        notifications: Use::Never,
        poll_interval: Duration::from_millis(20),
        ..options(&btcd)
    };
    let mut by_socket = feed(&btcd, &options(&btcd), LessWork::Refuse);
    let mut by_http = feed(&btcd, &by_http, LessWork::Refuse);
    let (mut one, mut other) = (ChainInMemory::default(), ChainInMemory::default());
    let first = btcd.generate(30);
    for (feed, local) in [(&mut by_socket, &mut one), (&mut by_http, &mut other)] {
        follow_to(feed, local, first[29]);
        assert_eq!(local.hashes(), btcd.chain());
    }
    // A block becomes invalid, and a longer branch excludes it.
    let chain = btcd.chain();
    btcd.call("invalidateblock", json!([chain[25].to_string()]));
    let branch = btcd.generate(20);
    for (feed, local) in [(&mut by_socket, &mut one), (&mut by_http, &mut other)] {
        follow_to(feed, local, branch[19]);
        assert_eq!(local.hashes(), btcd.chain());
        assert_eq!(local.0.len(), 45);
    }

    // The node returns to the first branch and mines 20 blocks on it.
    btcd.call("reconsiderblock", json!([chain[25].to_string()]));
    btcd.call("invalidateblock", json!([branch[0].to_string()]));
    let again = btcd.generate(20);
    assert_eq!(btcd.chain()[30], chain[30]);
    for (feed, local) in [(&mut by_socket, &mut one), (&mut by_http, &mut other)] {
        follow_to(feed, local, again[19]);
        assert_eq!(local.hashes(), btcd.chain());
    }
}

/// Mines a block while the feed waits, and returns the channel that announced it.
fn announced_by(btcd: &Btcd, feed: &mut Feed, local: &mut ChainInMemory) -> NoticedBy {
    until("the tip", || {
        matches!(feed.next(local, Duration::ZERO), Event::AtTip).then_some(())
    });
    std::thread::scope(|scope| {
        scope.spawn(|| btcd.generate(1));
        until("the block", || match feed.next(local, WAIT_TIMEOUT) {
            Event::Step(step) => {
                local.apply(&step);
                feed.announced().map(|announcement| announcement.noticed_by)
            }
            _ => None,
        })
    })
}

#[test]
fn blocks_are_announced_by_web_socket_and_noticed_without_it() {
    let Some(program) = program() else { return };
    let btcd = Btcd::start(&program, false, None);
    let mined = btcd.generate(1);
    // With these long intervals between polls, a block can be noticed in time only by a notification, or by the first
    // request of a wait.
    let patient = NodeOptions {
        poll_interval: WAIT_TIMEOUT * 10,
        backup_poll_interval: WAIT_TIMEOUT * 10,
        ..options(&btcd)
    };
    let mut notified = feed(&btcd, &patient, LessWork::Refuse);
    let mut local = ChainInMemory::default();
    follow_to(&mut notified, &mut local, mined[0]);
    // A block that is mined before the first request is noticed by that request.
    let by: Vec<_> = (0..20)
        .map(|_| announced_by(&btcd, &mut notified, &mut local))
        .collect();
    assert!(by.contains(&NoticedBy::WebSocket), "{by:?}");

    let polling = NodeOptions {
        notifications: Use::Never,
        poll_interval: Duration::from_millis(20),
        ..options(&btcd)
    };
    let mut polled = feed(&btcd, &polling, LessWork::Refuse);
    for _ in 0..5 {
        assert_eq!(announced_by(&btcd, &mut polled, &mut local), NoticedBy::Poll);
    }
}

#[test]
fn each_call_answers_about_real_blocks() {
    let Some(program) = program() else { return };
    let btcd = Btcd::start(&program, false, None);
    let mined = btcd.generate(3);
    let mut node = node(&btcd, &options(&btcd));
    let info = node.info().unwrap();
    assert_eq!(
        (info.chain.as_str(), info.blocks, info.best),
        ("simnet", 3, mined[2])
    );
    assert!(!info.pruned && !info.initial_block_download);
    assert_eq!(node.hash_at(0).unwrap().to_string(), SIMNET);
    assert_eq!(node.hashes(1, 700).unwrap(), mined);
    assert_eq!(node.hashes(4, 2).unwrap(), []);
    let fault = node.hash_at(4).unwrap_err().fault;
    assert!(matches!(fault, NodeFault::NoSuchHeight { height: 4 }), "{fault}");
    let header = node.header(&mined[1]).unwrap();
    assert_eq!(header.height, Some(2));
    assert_eq!(node.headers(&mined).unwrap()[1], header.raw);
    assert_eq!(node.block(&mined[1]).unwrap()[..80], header.raw);
    for unknown in [
        node.block(&BlockHash([9; 32])).map(drop),
        node.header(&BlockHash([9; 32])).map(drop),
    ] {
        let fault = unknown.unwrap_err().fault;
        assert!(matches!(fault, NodeFault::NoSuchBlock { .. }), "{fault}");
    }
    // The header of a block outside the best chain is returned without a height.
    btcd.call("invalidateblock", json!([mined[1].to_string()]));
    assert_eq!(node.header(&mined[1]).unwrap().height, None);
    assert!(!node.describe().contains("secret"), "{}", node.describe());

    let wrong = btcd.url().replace("secret", "wrong");
    for web_socket in [Use::Offered, Use::Never] {
        let options = NodeOptions {
            web_socket,
            ..options(&btcd)
        };
        let mut node = connect(&wrong.parse().unwrap(), &options).unwrap();
        let error = node.info().unwrap_err();
        assert!(matches!(error.fault, NodeFault::Unauthorized), "{error}");
    }
}

#[test]
fn a_manually_shortened_chain_is_refused_or_followed_as_configured() {
    let Some(program) = program() else { return };
    let btcd = Btcd::start(&program, false, None);
    let mined = btcd.generate(6);
    let mut refusing = feed(&btcd, &options(&btcd), LessWork::Refuse);
    let mut following = feed(&btcd, &options(&btcd), LessWork::Follow);
    let (mut one, mut other) = (ChainInMemory::default(), ChainInMemory::default());
    follow_to(&mut refusing, &mut one, mined[5]);
    follow_to(&mut following, &mut other, mined[5]);
    btcd.call("invalidateblock", json!([mined[4].to_string()]));
    follow_to(&mut following, &mut other, mined[3]);
    let refused = until("the refusal", || {
        match refusing.next(&one, Duration::from_secs(1)) {
            Event::Away { error, .. } => Some(error),
            Event::Step(step) => panic!("{step:?}"),
            _ => None,
        }
    });
    assert!(
        matches!(
            refused.fault,
            NodeFault::LessWork {
                node_height: 4,
                local_height: 6,
                ..
            }
        ),
        "{refused}"
    );
    assert_eq!(one.0.len(), 7);
    let branch = btcd.generate(3);
    follow_to(&mut refusing, &mut one, branch[2]);
    assert_eq!(one.hashes(), btcd.chain());
}

#[test]
fn following_continues_after_a_restart_of_btcd_with_its_own_tls_certificate() {
    let Some(program) = program() else { return };
    let miner = Btcd::start(&program, false, None);
    let mut followed = Btcd::start(&program, true, Some(miner.p2p));
    let mut feed = feed(&followed, &options(&followed), LessWork::Refuse);
    let mut local = ChainInMemory::default();
    let mined = miner.generate(10);
    // A btcd that is still connecting to its peer can miss the announcement of a mined block. It then gets this block
    // with the next one, so mine further blocks until the tip arrives.
    let (mut tip, mut more) = (mined[9], 0);
    while !arrives(&mut feed, &mut local, tip, Duration::from_secs(3)) {
        more += 1;
        assert!(more < 20, "no block arrives at the followed node");
        tip = miner.generate(1)[0];
    }

    // The followed node receives a reorganisation from its peer.
    miner.call("invalidateblock", json!([mined[3].to_string()]));
    let branch = miner.generate(9 + more);
    let tip = branch[branch.len() - 1];
    follow_to(&mut feed, &mut local, tip);
    assert_eq!(local.hashes(), miner.chain());

    followed.kill();
    let gone = until("the loss", || match feed.next(&local, Duration::from_secs(1)) {
        Event::Away { error, .. } => Some(error),
        _ => None,
    });
    assert!(gone.fault.is_transient(), "{gone}");
    followed.restart(&program);
    let back = until("the return", || match feed.next(&local, Duration::from_secs(1)) {
        Event::AtTip => Some(local.0.last()?.0),
        _ => None,
    });
    assert_eq!(back, tip);

    // The client trusts only the certificate of another node, so the connection is refused with a clear error.
    let other = Btcd::start(&program, true, None);
    let mut node = node(&followed, &options(&other));
    let error = node.info().unwrap_err();
    assert!(matches!(error.fault, NodeFault::Tls { .. }), "{error}");
}

#[test]
fn a_chain_is_downloaded_in_order_over_several_connections() {
    let Some(program) = program() else { return };
    let btcd = Btcd::start(&program, false, None);
    btcd.generate(200);
    let chain = btcd.chain();
    let options = options(&btcd);
    let small = DownloadOptions {
        workers: 3,
        look_ahead_bytes: 1000,
        ..DownloadOptions::default()
    };
    let start = |from: u32, parent| {
        Download::start(from..201, parent, small, || {
            connect(&btcd.url().parse().unwrap(), &options)
        })
        .unwrap()
    };
    let mut download = start(0, None);
    let first: Vec<_> = download
        .by_ref()
        .take(90)
        .map(|block| block.unwrap().hash)
        .collect();
    assert_eq!(
        (first.as_slice(), download.progress().next_height),
        (&chain[..90], 90)
    );
    drop(download);
    let rest: Vec<_> = start(90, Some(chain[89]))
        .map(|block| block.unwrap().hash)
        .collect();
    assert_eq!(rest, chain[90..]);
    let wrong = start(90, Some(chain[88])).next().unwrap().unwrap_err();
    assert!(
        matches!(wrong.fault, NodeFault::WrongParent { height: 90, .. }),
        "{wrong}"
    );
}

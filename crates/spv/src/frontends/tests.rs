//! Tests of the metrics and the health of the follower and of the Electrum and HTTP server. The followed node is a
//! directory of block files, in which one block has a wrong target.

use super::*;
use crate::chain::{ChainStore, Network};
use crate::config::NodeName;
use crate::store::{Geometry, Store};
use crate::writer::StoreWriter;
use lineside_service::OptionalAddress;
use lineside_testkit::{DemoBlock, RegtestChain};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "timeout: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn append(dir: &Path, block: &DemoBlock) {
    let file = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(dir.join("blk00000.dat"));
    let framed = [
        &Network::Regtest.magic()[..],
        &(block.raw.len() as u32).to_le_bytes(),
        &block.raw,
    ];
    file.unwrap().write_all(&framed.concat()).unwrap();
}

fn host() -> Arc<SpvHost> {
    let geometry = Geometry {
        line_bits: 3,
        block_bits: 2,
        tree_bits: 0,
        ..Geometry::default()
    };
    let store = Arc::new(Store::anonymous(&geometry).unwrap());
    let chain = ChainStore::open(None, Network::Regtest).unwrap();
    let writer = Box::new(StoreWriter::new(store));
    Arc::new(SpvHost::new(chain, writer, Default::default(), true))
}

/// Returns status and metrics as the service reports them.
fn metrics(fronts: &Frontends, host: &SpvHost) -> (StatusBuilder, ServiceStatus) {
    let (mut out, mut status) = (StatusBuilder::default(), ServiceStatus::default());
    let height = host.tip().map(|tip| tip.height);
    fronts.status(height, &mut out);
    fronts.metrics(height, &mut status);
    (out, status)
}

fn value(status: &ServiceStatus, metric: lineside_wire::Metric) -> Option<u64> {
    status.host.get(metric.key).copied()
}

#[test]
fn node_and_clients_are_counted_and_a_block_with_a_wrong_target_is_a_problem() {
    let dir = tempfile::tempdir().unwrap();
    let mut chain = RegtestChain::new(3);
    append(dir.path(), &RegtestChain::genesis());
    for _ in 0..5 {
        append(dir.path(), &chain.next(&[], 0));
    }
    let config = SpvConfig {
        node: NodeName::try_from(format!("blocks-dir:{}", dir.path().display())).unwrap(),
        electrum: OptionalAddress(Some("127.0.0.1:0".parse().unwrap())),
        http: OptionalAddress(Some("127.0.0.1:0".parse().unwrap())),
        client_rate: 1,
        ..SpvConfig::default()
    };
    let host = host();
    let prepared = prepare(&config, Network::Regtest.into()).unwrap();
    let fronts = Frontends::start(prepared, &host, FollowOptions::new(1, 0)).unwrap();
    let at_tip = |height| {
        let (_, status) = metrics(&fronts, &host);
        host.tip().is_some_and(|tip| tip.height == height)
            && value(&status, metric::SPV_NODE_HEIGHT) == Some(u64::from(height))
    };
    until("the chain of the files", || at_tip(5));
    let (out, status) = metrics(&fronts, &host);
    assert_eq!(out.problems, [""; 0]);
    for (metric, expected) in [
        (metric::SPV_NODE_UP, 1),
        (metric::SPV_NODE_BLOCKS_BEHIND, 0),
        (metric::SPV_NODE_REFUSED_BLOCKS, 0),
        (metric::SPV_REORGANISATIONS, 0),
    ] {
        assert_eq!(value(&status, metric), Some(expected), "{}", metric.name);
    }

    let lines = fronts.summary(Some(5));
    let [node, electrum, http] = lines.as_slice() else {
        panic!("{lines:?}")
    };
    assert!(
        node.contains(&dir.path().display().to_string()) && node.contains("connected for"),
        "{node}"
    );
    assert!(node.ends_with("height 5"), "{node}");
    assert!(fronts.summary(Some(3))[0].ends_with("height 5, 2 blocks behind"));
    for (line, protocol) in [(electrum, "Electrum"), (http, "HTTP")] {
        assert!(
            line.starts_with(protocol) && line.ends_with("0 clients"),
            "{line}"
        );
    }

    // Append a branch that replaces two blocks of the chain.
    let mut branch = at_three().branch(9);
    for _ in 0..3 {
        append(dir.path(), &branch.next(&[], 0));
    }
    until("the branch", || at_tip(6));
    let (_, status) = metrics(&fronts, &host);
    assert_eq!(value(&status, metric::SPV_REORGANISATIONS), Some(1));
    assert_eq!(value(&status, metric::SPV_REORGANISATION_DEPTH_MAX), Some(2));

    clients(&fronts, &host);

    // Append a block whose target is not allowed on regtest. The service must not serve it, and must report it as a
    // problem, for which /healthz answers 503.
    let next = branch.next(&[], 0);
    let time = u32::from_le_bytes(*next.raw[68..].first_chunk().unwrap());
    append(dir.path(), &next.mined_again(0x207f_fffe, time));
    until("the block is refused", || {
        value(&metrics(&fronts, &host).1, metric::SPV_NODE_REFUSED_BLOCKS) == Some(1)
    });
    let (out, status) = metrics(&fronts, &host);
    assert_eq!(out.problems.len(), 1);
    assert!(
        out.problems[0].contains("the network's rule gives 207fffff"),
        "{:?}",
        out.problems
    );
    // The message names the location of the block, in case the file is damaged.
    assert!(
        out.problems[0].contains("blk00000.dat at byte "),
        "{:?}",
        out.problems
    );
    assert!(fronts.summary(Some(6))[0].contains("one of its blocks was refused"));
    assert_eq!(value(&status, metric::SPV_NODE_UP), Some(0));
    assert_eq!(host.tip().unwrap().height, 6);
    fronts.stop();
}

/// Returns the test's chain up to height 3.
fn at_three() -> RegtestChain {
    let mut chain = RegtestChain::new(3);
    (0..3).for_each(|_| drop(chain.next(&[], 0)));
    chain
}

/// Sends requests by both protocols, over HTTP more than the rate allows, and compares the counters.
fn clients(fronts: &Frontends, host: &SpvHost) {
    let endpoints = fronts.endpoints();
    let address = |protocol| {
        let mut endpoints = endpoints.iter();
        endpoints
            .find(|endpoint| endpoint.protocol == protocol)
            .unwrap()
            .address
    };
    let mut wallet = TcpStream::connect(address("electrum")).unwrap();
    wallet
        .write_all(b"{\"id\":1,\"method\":\"server.ping\"}\n{\"id\":2,\"method\":\"no.such\"}\n")
        .unwrap();
    let mut lines = BufReader::new(wallet.try_clone().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().contains("\"result\""));
    assert!(lines.next().unwrap().unwrap().contains("\"error\""));
    let statuses: Vec<String> = (0..8)
        .map(|_| {
            let mut browser = TcpStream::connect(address("http")).unwrap();
            let request = b"GET /blocks/tip/height HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
            browser.write_all(request).unwrap();
            let mut answer = String::new();
            browser.read_to_string(&mut answer).unwrap();
            answer[9..12].to_owned()
        })
        .collect();
    // A client may send five requests at once. The time that the test takes may permit some more.
    let answered = statuses.iter().filter(|status| *status == "200").count() as u64;
    assert!((5..8).contains(&answered), "{statuses:?}");
    assert!(
        statuses.iter().all(|status| status == "200" || status == "429"),
        "{statuses:?}"
    );
    let (_, status) = metrics(fronts, host);
    assert_eq!(value(&status, metric::SPV_ELECTRUM_CLIENTS), Some(1));
    let of = |metric: lineside_wire::Metric, label: &str| status.labelled[metric.key].get(label).copied();
    assert_eq!(of(metric::SPV_ELECTRUM_REQUESTS, "answered"), Some(1));
    assert_eq!(of(metric::SPV_ELECTRUM_REQUESTS, "error"), Some(1));
    assert_eq!(of(metric::SPV_HTTP_REQUESTS, "answered"), Some(answered));
    assert_eq!(of(metric::SPV_HTTP_REQUESTS, "throttled"), Some(8 - answered));
    assert_eq!(of(metric::SPV_CLIENTS_DROPPED, "clients"), Some(0));
}

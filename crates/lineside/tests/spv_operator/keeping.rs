//! Tests for stored raw blocks, for the kinds of requests that are answered, and for a disk that is temporarily full.

use super::*;
use lineside_client::spv::Client;
use serde_json::json;

#[test]
fn kept_blocks_are_imported_into_another_store_without_the_node() {
    let folder = tempfile::tempdir().unwrap();
    let data = store(folder.path(), "regtest");
    let (node, _, _) = node(5);
    let url = node.url();
    let follow = ["--node", &*url, "--keep-blocks", "true"];
    let server = Server::start("regtest", &data, &follow);
    until("the node is followed", || node_of(&server)["at_tip"] == true);
    // After a reorganisation, the files contain the blocks of both branches, as the files of a node do.
    let mut branch = {
        let mut chain = RegtestChain::new(3);
        (0..4).for_each(|_| drop(chain.next(&[], 0)));
        chain.branch(9)
    };
    let new: Vec<_> = (0..2).map(|_| branch.next(&[], 0)).collect();
    node.reorganise(4, new.clone());
    let tip = to_display(&new[1].hash);
    until("the branch is served", || server.tip() == tip);
    drop(server);
    // After a restart, blocks that are already in the files are not written again.
    let server = Server::start("regtest", &data, &follow);
    node.connect(branch.next(&[], 0));
    until("one more block", || {
        server.page(server.address("http"), "/blocks/tip/height") == "7"
    });
    drop((server, node));

    let kept = data.join("blocks");
    let (kept, other) = (kept.to_str().unwrap(), folder.path().join("other"));
    let other = other.to_str().unwrap();
    succeeded(&lineside(&[
        "spv",
        "init",
        "--witness",
        "--network",
        "regtest",
        "--data",
        other,
    ]));
    let import = ["spv", "import", "--json", "--data", other, kept];
    let said: Value = serde_json::from_str(&succeeded(&lineside(&import))).unwrap();
    // The import has six blocks of the first chain, one of which is now a side branch, and three of the other branch.
    assert_eq!(
        (&said["blocks"], &said["side"], &said["known"]),
        (&json!(9), &json!(1), &json!(0))
    );
    let located = lineside(&["spv", "locate", "--data", other, &to_display(&new[1].txids[0])]);
    assert!(succeeded(&located).contains("height 6"));
}

/// Changes one byte in the last transaction of a stored block or, if `cut` is true, shortens the file to end before the
/// block.
fn damage(data: &std::path::Path, raw: &[u8], cut: bool) {
    let path = data.join("blocks/blk00000.dat");
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.windows(raw.len()).position(|part| part == raw).unwrap();
    match cut {
        true => bytes.truncate(at - 8),
        false => bytes[at + raw.len() - 10] ^= 1,
    }
    std::fs::write(&path, bytes).unwrap();
}

#[test]
fn a_kept_block_is_read_from_the_disk_and_fetched_only_if_it_is_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let data = store(folder.path(), "regtest");
    let (node, _, mut blocks) = node(6);
    let url = node.url();
    let server = Server::start("regtest", &data, &["--node", &*url, "--keep-blocks", "true"]);
    let is_served = |hash: &[u8; 32]| {
        let tip = to_display(hash);
        until("the branch is served", || {
            server.tip() == tip && node_of(&server)["at_tip"] == true
        });
    };
    is_served(&blocks[6].hash);
    assert_eq!(node.take_given().len(), 7, "each block is requested once");
    let mut base = RegtestChain::new(3);
    (0..3).for_each(|_| drop(base.next(&[], 0)));
    let mut branch = base.branch(9);
    let other: Vec<_> = (0..4).map(|_| branch.next(&[], 0)).collect();
    node.reorganise(3, other.clone());
    is_served(&other[3].hash);
    assert_eq!(
        node.take_given(),
        other.iter().map(|block| block.hash).collect::<Vec<_>>()
    );
    // The node returns to the first chain, which has two more blocks now. The stored copy of one of its blocks is
    // damaged.
    damage(&data, &blocks[5].raw, false);
    let mut first = RegtestChain::new(3);
    (0..6).for_each(|_| drop(first.next(&[], 0)));
    blocks.extend((0..2).map(|_| first.next(&[], 0)));
    node.reorganise(3, blocks[4..].to_vec());
    is_served(&blocks[8].hash);
    let given = [&blocks[5], &blocks[7], &blocks[8]].map(|block| block.hash);
    assert_eq!(node.take_given(), given);
    drop(server);
    // The copy that replaced the damaged one is used from then on, also after a restart.
    let server = Server::start("regtest", &data, &["--node", &*url, "--keep-blocks", "true"]);
    until("the node is followed", || node_of(&server)["at_tip"] == true);
    assert_eq!(node.take_given(), [[0; 32]; 0]);
    let mut longer = branch;
    let longer: Vec<_> = other
        .into_iter()
        .chain((0..3).map(|_| longer.next(&[], 0)))
        .collect();
    node.reorganise(3, longer.clone());
    until("the other branch", || server.tip() == to_display(&longer[6].hash));
    node.take_given();
    blocks.extend((0..3).map(|_| first.next(&[], 0)));
    node.reorganise(3, blocks[4..].to_vec());
    until("the first branch", || {
        server.tip() == to_display(&blocks[11].hash)
    });
    assert_eq!(node.take_given(), [9, 10, 11].map(|at: usize| blocks[at].hash));
}

#[test]
fn a_missing_kept_block_is_reported_at_the_start_and_fetched() {
    let folder = tempfile::tempdir().unwrap();
    let data = store(folder.path(), "regtest");
    let (node, mut chain, mut blocks) = node(5);
    let url = node.url();
    let follow = |keep: &str| {
        let server = Server::start("regtest", &data, &["--node", &*url, "--keep-blocks", keep]);
        until("the node is followed", || node_of(&server)["at_tip"] == true);
        server
    };
    drop(follow("true"));
    damage(&data, &blocks[4].raw, true);
    // One more block arrives while the option to keep blocks is off.
    blocks.push(chain.next(&[], 0));
    node.connect(blocks[6].clone());
    drop(follow("false"));
    node.take_given();
    let server = follow("true");
    let kept = || std::fs::read(data.join("blocks/blk00000.dat")).unwrap();
    let expected = blocks.iter().flat_map(|block| {
        let length = (block.raw.len() as u32).to_le_bytes();
        [&[0xfa, 0xbf, 0xb5, 0xda][..], &length, &block.raw].concat()
    });
    let expected: Vec<u8> = expected.collect();
    until("the blocks are kept", || kept() == expected);
    assert_eq!(node.take_given(), [4, 5, 6].map(|at: usize| blocks[at].hash));
    drop(server);
}

#[test]
fn a_server_answers_the_kinds_of_requests_that_its_options_name() {
    let folder = tempfile::tempdir().unwrap();
    let data = store(folder.path(), "regtest");
    let (node, _, blocks) = node(4);
    let (url, txid) = (node.url(), to_display(&blocks[2].txids[0]));
    for (tables, answered) in [
        ("root,proof,witness,header", [true, true, true]),
        ("root,proof", [true, true, false]),
        ("root", [true, false, false]),
        ("header", [false, false, true]),
    ] {
        let server = Server::start("regtest", &data, &["--node", &url, "--tables", tables]);
        until("the node is followed", || node_of(&server)["at_tip"] == true);
        let address = server.udp();
        let mut client = Client::connect(address, Duration::from_secs(30)).unwrap();
        let said = [
            client
                .root(&blocks[2].txids[0])
                .map(|answer| answer.result.is_some()),
            client
                .proof(&blocks[2].txids[0])
                .map(|answer| answer.result.is_some()),
            client.headers(0, 2).map(|answer| answer.result.len() == 2),
        ];
        for (said, answered) in said.into_iter().zip(answered) {
            match said {
                Ok(found) => assert!(found && answered, "{tables}"),
                Err(error) => assert!(
                    !answered && error.to_string().contains("`tables`"),
                    "{tables}: {error}"
                ),
            }
        }
        // Packets in the paper's format belong to the kind `root`. A server that does not answer this kind sends
        // nothing.
        let mut client = Client::connect(address, Duration::from_millis(300)).unwrap();
        assert_eq!(
            client.paper_root(&blocks[2].txids[0]).is_ok(),
            answered[0],
            "{tables}"
        );
        // HTTP clients get answers in all cases.
        assert!(
            server
                .page(server.address("http"), &format!("/tx/{txid}/merkle-proof"))
                .contains("\"pos\":0")
        );
    }
    let data = data.to_str().unwrap();
    for (tables, words) in [
        ("proof", "needs `root`"),
        ("roots", "possible values: root, proof, witness, header"),
    ] {
        let (code, said) = refused(&["--data", data, "--tables", tables]);
        assert!(code == Some(2) && said.contains(words), "{said}");
    }
}

#[test]
fn a_node_is_followed_again_once_a_full_disk_has_room() {
    let folder = tempfile::tempdir().unwrap();
    let data = store(folder.path(), "regtest");
    let (node, mut chain, _) = node(3);
    let url = node.url();
    let server = Server::start_with_limit(&data, &["--node", &url]);
    until("the node is followed", || node_of(&server)["at_tip"] == true);
    server.limit_files(64);
    let next = chain.next(&[], 0);
    node.connect(next.clone());
    let failed = |server: &Server| node_of(server)["store_failed"].as_str().map(str::to_owned);
    until("the full disk is reported", || {
        failed(&server).is_some_and(|why| why.contains("too large"))
    });
    node.connect(chain.next(&[], 0));
    // The server reports the problem while the chain grows, and counts the missing blocks.
    until("the node's height is known", || {
        node_of(&server)["node_height"] == 5
    });
    for _ in 0..20 {
        assert!(failed(&server).is_some());
        let health = server.console("/healthz");
        assert!(
            health.contains("cannot store the blocks") && health.ends_with('\n'),
            "{health}"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    server.limit_files(libc::RLIM_INFINITY);
    until("the node is followed again", || {
        node_of(&server)["at_tip"] == true && failed(&server).is_none()
    });
    let health = server.console("/healthz");
    assert!(health.starts_with("{\"status\":\"ok\","), "{health}");
    drop(server);
    // The blocks that arrived while the disk was full are durable now.
    let located = lineside(&[
        "spv",
        "locate",
        "--data",
        data.to_str().unwrap(),
        &to_display(&next.txids[0]),
    ]);
    assert!(succeeded(&located).contains("height 4"));
}

//! Seeded simulation of a node with competing chains, restarts, lost notifications, and faults during a comparison.
//! After each change, the follower must make the local chain equal to the node's best chain, or report why this is
//! impossible.

mod common;

use common::ChainInMemory;
use lineside_bitcoin_node::{
    Announcement, BlockHash, ChainStep, Event, Feed, Follower, HEADER_BYTES, Header, LessWork, Node,
    NodeError, NodeFault, NodeInfo, NoticedBy, SignetId, parent_of,
};
use lineside_testkit::Random;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Two targets in compact form: regtest's target, and a target that needs four times the work.
const BITS: [u32; 2] = [0x207f_ffff, 0x201f_ffff];

/// State of the simulated node: a tree of blocks, and the best branch.
#[derive(Default)]
struct Tree {
    /// Headers with their heights and their accumulated work, in units of one regtest block.
    blocks: HashMap<BlockHash, ([u8; HEADER_BYTES], u32, u64)>,
    best: Vec<BlockHash>,
    /// Number of newest blocks of the best chain that the node lost in a crash and does not have at present.
    missing: usize,
    /// Change of the node's chain while the follower compares chains: number of calls until the change, and the new
    /// best chain.
    ambush: Option<(u32, Vec<BlockHash>)>,
    /// Number of calls until the next lost connection.
    loss: Option<u32>,
    /// The signet that the node reports.
    signet: Option<SignetId>,
    calls: u64,
}

impl Tree {
    fn mine(&mut self, parent: Option<BlockHash>, salt: u64, bits: u32) -> BlockHash {
        let (height, work) = parent.map_or((0, 0), |parent| {
            let (_, height, work) = self.blocks[&parent];
            (height + 1, work)
        });
        let mut header = [0; HEADER_BYTES];
        header[0] = 1;
        header[4..36].copy_from_slice(&parent.unwrap_or_default().0);
        header[36..44].copy_from_slice(&salt.to_le_bytes());
        header[72..76].copy_from_slice(&bits.to_le_bytes());
        let limit = if bits == BITS[0] { 0x7f } else { 0x1f };
        let hash = (0u32..)
            .map(|nonce| {
                header[76..].copy_from_slice(&nonce.to_le_bytes());
                BlockHash::of_header(&header)
            })
            .find(|hash| hash.0[31] < limit)
            .unwrap();
        let more = if bits == BITS[0] { 1 } else { 4 };
        self.blocks.insert(hash, (header, height, work + more));
        hash
    }

    fn branch_to(&self, tip: BlockHash) -> Vec<BlockHash> {
        let mut branch = vec![tip];
        loop {
            let (header, height, _) = &self.blocks[branch.last().unwrap()];
            if *height == 0 {
                break;
            }
            branch.push(parent_of(header));
        }
        branch.reverse();
        branch
    }

    fn work(&self, chain: &[BlockHash]) -> u64 {
        chain.last().map_or(0, |tip| self.blocks[tip].2)
    }

    fn visible(&self) -> &[BlockHash] {
        &self.best[..self.best.len() - self.missing]
    }
}

/// Simulated node. A call may trigger the prepared change of the chain or loss of the connection.
#[derive(Clone)]
struct Simulated(Arc<Mutex<Tree>>);

impl Simulated {
    fn call<T>(&self, answer: impl FnOnce(&Tree) -> Result<T, NodeFault>) -> Result<T, NodeError> {
        let mut tree = self.0.lock().unwrap();
        tree.calls += 1;
        if let Some((calls, _)) = &mut tree.ambush {
            *calls = calls.saturating_sub(1);
        }
        if let Some((0, chain)) = &tree.ambush {
            tree.best = chain.clone();
            tree.ambush = None;
        }
        let lost = match &mut tree.loss {
            Some(calls) => {
                *calls = calls.saturating_sub(1);
                *calls == 0
            }
            None => false,
        };
        let answer = if lost {
            tree.loss = None;
            Err(NodeFault::Lost {
                call: "a call",
                why: "simulated".into(),
            })
        } else {
            answer(&tree)
        };
        answer.map_err(|fault| NodeError::new("simulation", fault))
    }
}

impl Node for Simulated {
    fn info(&mut self) -> Result<NodeInfo, NodeError> {
        self.call(|tree| {
            let chain = tree.visible();
            let blocks = chain.len() as u32 - 1;
            Ok(NodeInfo {
                signet: tree.signet,
                chain: "regtest".into(),
                blocks,
                headers: blocks + tree.missing as u32,
                best: chain[blocks as usize],
                pruned: false,
                prune_height: None,
                initial_block_download: tree.missing > 0,
            })
        })
    }

    fn hash_at(&mut self, height: u32) -> Result<BlockHash, NodeError> {
        self.call(|tree| {
            let found = tree.visible().get(height as usize).copied();
            found.ok_or(NodeFault::NoSuchHeight { height })
        })
    }

    fn header(&mut self, hash: &BlockHash) -> Result<Header, NodeError> {
        self.call(|tree| {
            let (raw, height, _) = tree
                .blocks
                .get(hash)
                .ok_or(NodeFault::NoSuchBlock { hash: *hash })?;
            let is_best = tree.visible().get(*height as usize) == Some(hash);
            Ok(Header {
                raw: *raw,
                height: is_best.then_some(*height),
            })
        })
    }

    fn block(&mut self, hash: &BlockHash) -> Result<Vec<u8>, NodeError> {
        self.call(|tree| {
            let block = tree.blocks.get(hash);
            let (raw, ..) = block.ok_or(NodeFault::NoSuchBlock { hash: *hash })?;
            Ok(raw.to_vec())
        })
    }

    fn wait_for_change(&mut self, known: &BlockHash, _: Duration) -> Result<Option<Announcement>, NodeError> {
        let best = self.info()?.best;
        let by = NoticedBy::Poll;
        Ok((best != *known).then_some(Announcement {
            hash: best,
            noticed_by: by,
        }))
    }

    fn describe(&self) -> String {
        "simulation".into()
    }
}

/// Follows until the chains are equal, or the node has less work.
fn settle(follower: &mut Follower, node: &mut Simulated, local: &mut ChainInMemory) -> Result<(), NodeFault> {
    // The limit is far above the number of necessary steps. Only a change of the node's chain during a comparison can
    // make a step useless.
    for _ in 0..10_000 {
        match follower.next_step(node, local) {
            Ok(Some(step)) => local.apply(&step),
            Ok(None) => return Ok(()),
            Err(error) if matches!(error.fault, NodeFault::Lost { .. } | NodeFault::Unsteady { .. }) => {}
            Err(error) => return Err(error.fault),
        }
    }
    panic!("the local chain did not become equal to the node's after 10,000 steps");
}

/// Changes the node at random: adds blocks to its tip, replaces its chain by another branch, makes it lose blocks in a
/// crash, or lets it fetch the lost blocks again.
fn change(tree: &mut Tree, random: &mut Random) {
    let bits = *random.pick(&BITS);
    let mut extended = tree.best.clone();
    match random.below(10) {
        0..5 => {
            for _ in 0..=random.below(6) {
                let tip = tree.mine(extended.last().copied(), random.next(), bits);
                extended.push(tip);
            }
        }
        5..9 => {
            // Most reorganisations are shallow; some reach almost the first block.
            let depth = if random.one_in(20) {
                random.index(extended.len())
            } else {
                random.index(8)
            };
            let fork = extended.len().saturating_sub(depth).max(1);
            let needed = tree.work(&extended);
            extended.truncate(fork);
            while tree.work(&extended) < needed {
                let tip = tree.mine(extended.last().copied(), random.next(), bits);
                extended.push(tip);
            }
            assert_eq!(tree.branch_to(*extended.last().unwrap()), extended);
        }
        _ => {
            // In a crash the node loses its newest blocks, until a later change lets it fetch them again.
            tree.missing = random.index(extended.len().min(10));
            return;
        }
    }
    tree.missing = 0;
    match random.below(3) {
        // The chain changes while the follower compares it.
        0 => tree.ambush = Some((random.below(9) as u32 + 1, extended)),
        _ => tree.best = extended,
    }
}

fn simulate(seed: u64, changes: u32) -> (u64, usize) {
    let mut random = Random(seed);
    let mut tree = Tree::default();
    let genesis = tree.mine(None, 0, BITS[0]);
    tree.best = vec![genesis];
    let mut node = Simulated(Arc::new(Mutex::new(tree)));
    let mut local = ChainInMemory::default();
    let mut follower = Follower::new(genesis, LessWork::Refuse);
    let mut refused = 0;
    for number in 0..changes {
        let mut tree = node.0.lock().unwrap();
        change(&mut tree, &mut random);
        tree.loss = random.one_in(3).then(|| random.below(12) as u32 + 1);
        if random.one_in(4) {
            // A restart of the program: the follower starts without its state.
            follower = Follower::new(genesis, LessWork::Refuse);
        }
        drop(tree);
        if random.one_in(5) {
            // The notification of this change is lost, so the follower notices it together with the next change.
            continue;
        }
        match settle(&mut follower, &mut node, &mut local) {
            Ok(()) => {
                let mut tree = node.0.lock().unwrap();
                // No call has triggered the prepared change: discard it.
                tree.ambush = None;
                assert_eq!(local.hashes(), tree.visible(), "seed {seed}, change {number}");
            }
            Err(NodeFault::LessWork { .. }) => {
                let tree = node.0.lock().unwrap();
                let (ours, theirs) = (tree.work(&local.hashes()), tree.work(tree.visible()));
                assert!(
                    theirs < ours,
                    "seed {seed}, change {number}: {theirs} is not less than {ours}"
                );
                refused += 1;
            }
            Err(fault) => panic!("seed {seed}, change {number}: {fault}"),
        }
    }
    let tree = node.0.lock().unwrap();
    (tree.calls, refused)
}

#[test]
fn the_local_chain_equals_the_nodes_after_each_of_ten_thousand_changes() {
    for seed in 0..20 {
        let (calls, refused) = simulate(seed, 500);
        assert!(refused > 0, "seed {seed}: no crash of the node was noticed");
        assert!(calls < 200_000, "seed {seed}: {calls} calls");
    }
}

#[test]
fn a_deep_reorganisation_takes_few_requests() {
    let mut tree = Tree::default();
    let genesis = tree.mine(None, 0, BITS[0]);
    let mut chain = vec![genesis];
    for salt in 0..5000 {
        let tip = tree.mine(chain.last().copied(), salt, BITS[0]);
        chain.push(tip);
    }
    tree.best = chain.clone();
    let mut node = Simulated(Arc::new(Mutex::new(tree)));
    let mut local = ChainInMemory::default();
    let mut follower = Follower::new(genesis, LessWork::Refuse);
    settle(&mut follower, &mut node, &mut local).unwrap();
    for fork in [4999, 4990, 3000, 1] {
        let mut tree = node.0.lock().unwrap();
        let mut branch = chain[..=fork].to_vec();
        // The new branch has fewer blocks than the old one but more work, if the old one is long enough.
        let length = ((chain.len() - fork) / 4 + 1).max(2);
        for salt in 0..length as u64 {
            let tip = tree.mine(branch.last().copied(), salt + 1_000_000, BITS[1]);
            branch.push(tip);
        }
        tree.best = branch;
        let before = tree.calls;
        drop(tree);
        let step = follower.next_step(&mut node, &local).unwrap().unwrap();
        assert_eq!(
            step,
            ChainStep::Disconnect {
                to_height: fork as u32
            }
        );
        let calls = node.0.lock().unwrap().calls - before;
        // The limit is two calls for each header, because this node has no batches, and 80 calls for the search of the
        // fork.
        assert!(
            calls < 2 * length as u64 + 80,
            "{calls} calls for a fork at {fork}"
        );
        let mut tree = node.0.lock().unwrap();
        tree.best = chain.clone();
    }
}

#[test]
fn a_shorter_chain_is_followed_only_if_configured_and_if_the_node_knows_the_tip() {
    let mut tree = Tree::default();
    let genesis = tree.mine(None, 0, BITS[0]);
    let mut chain = vec![genesis];
    for salt in 1..9 {
        let tip = tree.mine(chain.last().copied(), salt, BITS[0]);
        chain.push(tip);
    }
    tree.best = chain.clone();
    let mut node = Simulated(Arc::new(Mutex::new(tree)));
    let mut local = ChainInMemory::default();
    let mut refusing = Follower::new(genesis, LessWork::Refuse);
    let mut following = Follower::new(genesis, LessWork::Follow);
    settle(&mut refusing, &mut node, &mut local).unwrap();

    // The node is in its initial download and has less work for some time: no follower follows it.
    node.0.lock().unwrap().missing = 3;
    for follower in [&mut refusing, &mut following] {
        let error = follower.next_step(&mut node, &local).unwrap_err();
        assert!(
            matches!(
                error.fault,
                NodeFault::LessWork {
                    node_height: 5,
                    local_height: 8,
                    ..
                }
            ),
            "{error}"
        );
    }
    // The operator shortened the node's chain manually: only the configured follower follows it.
    node.0.lock().unwrap().missing = 0;
    node.0.lock().unwrap().best.truncate(6);
    assert!(refusing.next_step(&mut node, &local).is_err());
    let step = following.next_step(&mut node, &local).unwrap();
    assert_eq!(step, Some(ChainStep::Disconnect { to_height: 5 }));
    // The node lost all its data, and has another chain: no follower follows it.
    node.0
        .lock()
        .unwrap()
        .blocks
        .retain(|_, (_, height, _)| *height < 6);
    assert!(following.next_step(&mut node, &local).is_err());
    assert_eq!(local.0.len(), 9);
}

/// A node that sends wrong data about its chain in one way.
struct Liar {
    inner: Simulated,
    lie: NodeLie,
    blocks: Vec<BlockHash>,
}

#[derive(Clone, Copy, Debug)]
enum NodeLie {
    OtherGenesis,
    OtherBlock,
    NoChain,
    ShortBlock,
}

impl Node for Liar {
    fn info(&mut self) -> Result<NodeInfo, NodeError> {
        self.inner.info()
    }

    fn hash_at(&mut self, height: u32) -> Result<BlockHash, NodeError> {
        match (self.lie, height) {
            (NodeLie::OtherGenesis, 0) => Ok(self.blocks[1]),
            (NodeLie::NoChain, 2) => Ok(self.blocks[4]),
            _ => self.inner.hash_at(height),
        }
    }

    fn header(&mut self, hash: &BlockHash) -> Result<Header, NodeError> {
        self.inner.header(hash)
    }

    fn block(&mut self, hash: &BlockHash) -> Result<Vec<u8>, NodeError> {
        match self.lie {
            NodeLie::OtherBlock if *hash == self.blocks[2] => self.inner.block(&self.blocks[3]),
            NodeLie::ShortBlock if *hash == self.blocks[2] => Ok(vec![0; 79]),
            _ => self.inner.block(hash),
        }
    }

    fn wait_for_change(
        &mut self,
        known: &BlockHash,
        timeout: Duration,
    ) -> Result<Option<Announcement>, NodeError> {
        self.inner.wait_for_change(known, timeout)
    }

    fn describe(&self) -> String {
        "liar".into()
    }
}

#[test]
fn wrong_data_is_reported_and_never_connected() {
    let mut tree = Tree::default();
    let mut blocks = vec![tree.mine(None, 0, BITS[0])];
    for salt in 1..6 {
        let tip = tree.mine(blocks.last().copied(), salt, BITS[0]);
        blocks.push(tip);
    }
    tree.best = blocks.clone();
    let inner = Simulated(Arc::new(Mutex::new(tree)));
    for lie in [
        NodeLie::OtherGenesis,
        NodeLie::OtherBlock,
        NodeLie::NoChain,
        NodeLie::ShortBlock,
    ] {
        let mut node = Liar {
            inner: inner.clone(),
            lie,
            blocks: blocks.clone(),
        };
        let mut follower = Follower::new(blocks[0], LessWork::Refuse);
        let mut local = ChainInMemory::default();
        let fault = loop {
            match follower.next_step(&mut node, &local) {
                Ok(Some(step)) => local.apply(&step),
                Ok(None) => panic!("the follower did not notice {lie:?}"),
                Err(error) => break error.fault,
            }
        };
        let connected = local.0.len();
        match lie {
            NodeLie::OtherGenesis => {
                assert!(
                    matches!(fault, NodeFault::OtherNetwork { found, .. } if found == blocks[1]),
                    "{fault}"
                );
                assert_eq!(connected, 0);
            }
            NodeLie::OtherBlock => {
                let NodeFault::WrongBlock { asked, found } = fault else {
                    panic!("{fault}")
                };
                assert_eq!((asked, found), (blocks[2], blocks[3]));
                assert_eq!(connected, 2);
            }
            NodeLie::NoChain => {
                assert!(
                    matches!(fault, NodeFault::WrongParent { height: 2, .. }),
                    "{fault}"
                );
                assert_eq!(connected, 2);
            }
            NodeLie::ShortBlock => {
                assert!(matches!(fault, NodeFault::WrongBlock { .. }), "{fault}");
                assert_eq!(connected, 2);
            }
        }
    }
}

#[test]
fn a_branch_without_proof_of_work_is_refused() {
    let mut tree = Tree::default();
    let genesis = tree.mine(None, 0, BITS[0]);
    let mut chain = vec![genesis];
    for salt in 1..4 {
        let tip = tree.mine(chain.last().copied(), salt, BITS[0]);
        chain.push(tip);
    }
    tree.best = chain.clone();
    let mut node = Simulated(Arc::new(Mutex::new(tree)));
    let mut local = ChainInMemory::default();
    let mut follower = Follower::new(genesis, LessWork::Refuse);
    settle(&mut follower, &mut node, &mut local).unwrap();

    let mut tree = node.0.lock().unwrap();
    let mut branch = vec![genesis];
    for salt in 0..5u8 {
        let mut header = [salt; HEADER_BYTES];
        header[4..36].copy_from_slice(&branch.last().unwrap().0);
        // This is the easiest target of the main chain, which a header without work practically never meets.
        header[72..76].copy_from_slice(&0x1d00_ffff_u32.to_le_bytes());
        let hash = BlockHash::of_header(&header);
        tree.blocks.insert(hash, (header, branch.len() as u32, 1000));
        branch.push(hash);
    }
    tree.best = branch;
    drop(tree);
    let error = follower.next_step(&mut node, &local).unwrap_err();
    assert!(
        matches!(error.fault, NodeFault::NoWork { height: 1, .. }),
        "{error}"
    );
    assert!(error.fault.is_lie());
    assert_eq!(local.0.len(), 4);
}

/// All signets have the same block at height 0. The follower recognises a node of another signet by the challenge in
/// its `getblockchaininfo`, or, if the node reports none, by its block at height 1.
#[test]
fn a_node_of_another_signet_is_refused() {
    let own = SignetId::default_signet();
    let other: SignetId = "51".parse().unwrap();
    for (named, has_more_work) in [
        (Some(own), true),
        (Some(other), true),
        (None, true),
        (None, false),
    ] {
        let mut tree = Tree::default();
        let genesis = tree.mine(None, 0, BITS[0]);
        let (mut ours, mut theirs) = (genesis, genesis);
        for salt in 0..3 {
            ours = tree.mine(Some(ours), 100 + salt, BITS[0]);
        }
        for salt in 0..if has_more_work { 9 } else { 2 } {
            theirs = tree.mine(Some(theirs), 200 + salt, BITS[0]);
        }
        tree.best = tree.branch_to(ours);
        let theirs = tree.branch_to(theirs);
        let tree = Arc::new(Mutex::new(tree));
        let mut node = Simulated(Arc::clone(&tree));
        let mut follower = Follower::new(genesis, LessWork::Refuse).of_signet(Some(own));
        let mut local = ChainInMemory::default();
        settle(&mut follower, &mut node, &mut local).unwrap();
        let before = local.clone();
        {
            let mut tree = tree.lock().unwrap();
            (tree.best, tree.signet) = (theirs, named);
        }
        let settled = settle(&mut follower, &mut node, &mut local);
        match (named, settled) {
            // The node is on the same signet: the whole chain was reorganised.
            (Some(named), Ok(())) if named == own => assert_ne!(local, before),
            (Some(_), Err(fault @ NodeFault::OtherSignet { .. }))
            | (None, Err(fault @ NodeFault::OtherFirstBlock { .. })) => {
                assert!(fault.is_lie(), "the fault must count as wrong data: {fault}");
                assert_eq!(local, before);
            }
            (_, settled) => panic!("{named:?}: {settled:?}"),
        }
    }
}

/// The node of another network has a longer chain, so that without the check its blocks would be requested.
#[test]
fn another_network_is_noticed_after_the_connection_was_lost_at_the_tip() {
    let mut tree = Tree::default();
    let first = tree.mine(None, 0, BITS[0]);
    let tip = tree.mine(Some(first), 1, BITS[0]);
    tree.best = vec![first, tip];
    let node = Simulated(Arc::new(Mutex::new(tree)));
    let mut feed = Feed::new(Box::new(node.clone()), Follower::new(first, LessWork::Refuse));
    let mut local = ChainInMemory::default();
    loop {
        match feed.next(&local, Duration::ZERO) {
            Event::Step(step) => local.apply(&step),
            Event::AtTip => break,
            other => panic!("{other:?}"),
        }
    }
    let other = {
        let mut tree = node.0.lock().unwrap();
        let other = tree.mine(None, 2, BITS[0]);
        let second = tree.mine(Some(other), 3, BITS[0]);
        let third = tree.mine(Some(second), 4, BITS[0]);
        tree.best = vec![other, second, third];
        tree.loss = Some(1);
        other
    };
    let fault = |event| match event {
        Event::Away { error, .. } => error.fault,
        event => panic!("{event:?}"),
    };
    let lost = fault(feed.next(&local, Duration::ZERO));
    assert!(matches!(lost, NodeFault::Lost { .. }), "{lost}");
    let network = fault(feed.next(&local, Duration::from_secs(60)));
    assert!(
        matches!(network, NodeFault::OtherNetwork { expected, found } if (expected, found) == (first, other)),
        "{network}"
    );
}

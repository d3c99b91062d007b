//! A host that follows a simulated node: competing branches, restarts of the node, lost notifications and lies. What is
//! answered meanwhile is held against every chain that the node has ever had; what is answered when the host has caught
//! up is held against the node's chain, transaction by transaction.

use bitcoin::consensus::serialize;
use bitcoin::constants::genesis_block;
use bitcoin::hashes::Hash as _;
use lineside_bitcoin_node::{Announcement, BlockHash, Fault, Header, Node, NodeError, NodeInfo, NoticedBy};
use lineside_fastpath::{FastPath, Host, Readers, Reply, Source, Verdict, lease};
use lineside_spv::chain::{ChainStore, Network, Tip};
use lineside_spv::fastpath::SpvFastPath;
use lineside_spv::follow::{FollowOptions, NodeFollower};
use lineside_spv::host::SpvHost;
use lineside_spv::reply;
use lineside_spv::store::{Geometry, Hash, Store};
use lineside_spv::writer::StoreWriter;
use lineside_testkit::{DemoBlock, DemoChain, Random};
use lineside_wire::{RootReply, SPV_OP_ROOT, native};
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use zerocopy::IntoBytes;

const FROM: Source = Source {
    address: std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST),
    port: 40000,
};
const TRANSACTIONS: u32 = 12;
/// Blocks above the first that a reorganisation may take away.
const DEPTH_MAX: u64 = 12;
/// Time that the host has to catch up with the node.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the simulated node does beyond its duty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Habit {
    Honest,
    /// Gives blocks whose Merkle root is not that of their transactions.
    WrongRoot,
    /// Is a node of another network.
    OtherNetwork,
}

/// The world of blocks, and the node's view of it.
struct World {
    blocks: HashMap<Hash, DemoBlock>,
    parents: HashMap<Hash, Hash>,
    /// The node's best chain by height.
    best: Vec<Hash>,
    /// Every transaction, with each block that holds it.
    places: HashMap<Hash, Vec<Hash>>,
    seed: u64,
    /// The node does not answer.
    is_away: bool,
    habit: Habit,
    /// Seed of lost notifications.
    random: Random,
}

#[derive(Clone)]
struct SimNode(Arc<(Mutex<World>, Condvar)>);

impl SimNode {
    fn new(seed: u64) -> Self {
        let genesis = genesis_block(bitcoin::Network::Regtest);
        let block = DemoBlock {
            raw: serialize(&genesis),
            hash: genesis.block_hash().to_byte_array(),
            root: genesis.header.merkle_root.to_byte_array(),
            txids: genesis
                .txdata
                .iter()
                .map(|tx| tx.compute_txid().to_byte_array())
                .collect(),
        };
        let mut world = World {
            blocks: HashMap::new(),
            parents: HashMap::new(),
            best: Vec::new(),
            places: HashMap::new(),
            seed,
            is_away: false,
            habit: Habit::Honest,
            random: Random(seed),
        };
        world.add(block, [0; 32]);
        Self(Arc::new((Mutex::new(world), Condvar::new())))
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.0.0.lock().unwrap()
    }

    /// Changes the world and tells those who wait.
    fn change(&self, change: impl FnOnce(&mut World)) {
        change(&mut self.world());
        self.0.1.notify_all();
    }

    fn asked(&self) -> Result<MutexGuard<'_, World>, NodeError> {
        let world = self.world();
        if world.is_away {
            let source = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
            return Err(NodeError::new("sim", Fault::Connect { source }));
        }
        Ok(world)
    }
}

impl World {
    fn add(&mut self, block: DemoBlock, parent: Hash) {
        for txid in &block.txids {
            self.places.entry(*txid).or_default().push(block.hash);
        }
        self.parents.insert(block.hash, parent);
        self.best.push(block.hash);
        self.blocks.insert(block.hash, block);
    }

    /// Takes `depth` blocks away and mines one more than that on a branch of its own.
    fn reorganise(&mut self, depth: usize) {
        let keep = self.best.len() - depth.min(self.best.len() - 1);
        self.best.truncate(keep);
        self.mine(depth as u32 + 1);
    }

    fn mine(&mut self, count: u32) {
        self.seed += 1;
        let tip = *self.best.last().unwrap();
        let mut chain = DemoChain::branch(self.seed, TRANSACTIONS, tip, self.best.len() as u32);
        let mut parent = tip;
        for _ in 0..count {
            let block = chain.next().unwrap();
            let hash = block.hash;
            self.add(block, parent);
            parent = hash;
        }
    }

    fn is_ancestor(&self, block: &Hash, of: &Hash) -> bool {
        let mut at = *of;
        loop {
            if at == *block {
                return true;
            }
            match self.parents.get(&at) {
                Some(parent) if *parent != [0; 32] => at = *parent,
                _ => return false,
            }
        }
    }
}

impl Node for SimNode {
    fn info(&mut self) -> Result<NodeInfo, NodeError> {
        let world = self.asked()?;
        let height = world.best.len() as u32 - 1;
        Ok(NodeInfo {
            chain: "regtest".into(),
            blocks: height,
            headers: height,
            best: BlockHash(world.best[height as usize]),
            pruned: false,
            prune_height: None,
            initial_block_download: false,
        })
    }

    fn hash_at(&mut self, height: u32) -> Result<BlockHash, NodeError> {
        let world = self.asked()?;
        if world.habit == Habit::OtherNetwork && height == 0 {
            return Ok(BlockHash([7; 32]));
        }
        let hash = world.best.get(height as usize);
        let fault = Fault::NoSuchHeight { height };
        hash.map(|hash| BlockHash(*hash))
            .ok_or_else(|| NodeError::new("sim", fault))
    }

    fn header(&mut self, hash: &BlockHash) -> Result<Header, NodeError> {
        let world = self.asked()?;
        let block = world.blocks.get(&hash.0);
        let block = block.ok_or_else(|| NodeError::new("sim", Fault::NoSuchBlock { hash: *hash }))?;
        let height = world.best.iter().position(|best| *best == hash.0);
        Ok(Header {
            raw: *block.raw.first_chunk().unwrap(),
            height: height.map(|height| height as u32),
        })
    }

    fn block(&mut self, hash: &BlockHash) -> Result<Vec<u8>, NodeError> {
        let world = self.asked()?;
        let block = world.blocks.get(&hash.0);
        let mut raw = block
            .ok_or_else(|| NodeError::new("sim", Fault::NoSuchBlock { hash: *hash }))?
            .raw
            .clone();
        if world.habit == Habit::WrongRoot {
            // A byte of the last transaction's output: the header, and so the hash, stays.
            let at = raw.len() - 10;
            raw[at] ^= 1;
        }
        Ok(raw)
    }

    fn wait_for_change(
        &mut self,
        known: &BlockHash,
        timeout: Duration,
    ) -> Result<Option<Announcement>, NodeError> {
        let deadline = Instant::now() + timeout;
        let mut world = self.asked()?;
        loop {
            let best = *world.best.last().unwrap();
            // One of eight notifications is lost, and comes with the next poll.
            if best != known.0 && !world.random.one_in(8) {
                let hash = BlockHash(best);
                return Ok(Some(Announcement {
                    hash,
                    by: NoticedBy::Poll,
                }));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            world = self.0.1.wait_timeout(world, left).unwrap().0;
        }
    }

    fn describe(&self) -> String {
        "sim".into()
    }
}

/// A host with its fast path, following a node.
struct Rig {
    node: SimNode,
    host: Arc<SpvHost>,
    fastpath: SpvFastPath,
    readers: Readers,
    follower: NodeFollower,
}

impl Rig {
    fn new(seed: u64, min_confirmations: u32) -> Self {
        let node = SimNode::new(seed);
        let geometry = Geometry {
            line_bits: 8,
            block_bits: 4,
            ..Geometry::default()
        };
        let store = Arc::new(Store::anonymous(&geometry).unwrap());
        lease::renew(&store.control().lease_until_ns, 1 << 50);
        let writer = Box::new(StoreWriter::new(Arc::clone(&store)));
        let readers = Readers::default();
        let chain = ChainStore::open(None, Network::Regtest).unwrap();
        let host = Arc::new(SpvHost::new(chain, writer, readers.clone(), true));
        let options = FollowOptions {
            min_confirmations,
            prefill_blocks: 3,
        };
        let follower = NodeFollower::start(Arc::clone(&host), Box::new(node.clone()), options).unwrap();
        Self {
            node,
            host,
            fastpath: SpvFastPath::new(store),
            readers,
            follower,
        }
    }

    /// Asks the fast path, then the host. Returns root, block and height, and the tip; `None` in place of the first for
    /// an unknown transaction.
    fn ask(&self, txid: &Hash) -> (Option<(Hash, Hash, u32)>, Tip) {
        let mut request = native::request_header(SPV_OP_ROOT, 1, size_of::<RootReply>() as u16)
            .as_bytes()
            .to_vec();
        request.extend(txid);
        request.resize(request.len() + size_of::<RootReply>() - 32, 0);
        let mut reply = Reply::default();
        let reader = self.readers.join();
        let verdict = self.fastpath.answer(FROM, lease::now_ns(), &request, &mut reply);
        if verdict != Verdict::Reply {
            reply = Reply::default();
            assert_eq!(
                self.host.serve(FROM, &request, &mut reply, &reader),
                Verdict::Reply
            );
        }
        let (status, body) = reply::parse(SPV_OP_ROOT, 1, reply.as_bytes()).expect("a reply");
        let answer = reply::root(status, body).expect("a whole reply");
        let found = answer
            .found
            .map(|place| (place.root, place.block_hash, place.height));
        (found, answer.tip)
    }

    /// Waits until the host's tip is `confirmations - 1` blocks below the node's.
    fn settle(&self, confirmations: usize) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let wanted = {
                let world = self.node.world();
                let height = world.best.len().checked_sub(confirmations);
                height.map(|height| (height as u32, world.best[height]))
            };
            let tip = self.host.tip().map(|tip| (tip.height, tip.hash));
            if tip == wanted {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "{:?}; {tip:?}, not {wanted:?}",
                self.follower.state()
            );
            std::thread::yield_now();
        }
    }
}

/// Whether an answer was true at its own tip, on some chain that the node had.
fn check(world: &World, txid: &Hash, found: Option<(Hash, Hash, u32)>, tip: &Tip) {
    let Some((root, block_hash, height)) = found else {
        return;
    };
    let block = &world.blocks[&block_hash];
    assert!(
        block.txids.contains(txid),
        "the block does not hold the transaction"
    );
    assert_eq!(block.root, root);
    assert!(height <= tip.height);
    assert!(
        world.is_ancestor(&block_hash, &tip.hash),
        "the block is not below the tip of the same answer"
    );
}

/// Asks for every transaction of the newest blocks of the node, and for some that the node has disconnected.
fn check_settled(rig: &Rig, confirmations: usize, random: &mut Random) -> u64 {
    rig.settle(confirmations);
    let world = rig.node.world();
    let end = (world.best.len() + 1).saturating_sub(confirmations);
    let mut checked = 0;
    for height in end.saturating_sub(20)..end {
        let block = &world.blocks[&world.best[height]];
        for txid in &block.txids {
            let (found, tip) = rig.ask(txid);
            assert_eq!(
                found,
                Some((block.root, block.hash, height as u32)),
                "at height {height}"
            );
            assert_eq!(tip.hash, world.best[end - 1]);
            checked += 1;
        }
    }
    let all: Vec<_> = world.places.iter().collect();
    for _ in 0..100 {
        let (txid, blocks) = *random.pick(&all);
        let expected = blocks.iter().any(|block| world.best[..end].contains(block));
        assert_eq!(
            rig.ask(txid).0.is_some(),
            expected,
            "a disconnected or unconfirmed block is answered from"
        );
        checked += 1;
    }
    checked
}

/// Runs `changes` random changes of the node's chain with answers in between. Returns how many answers were checked.
fn simulate(seed: u64, min_confirmations: u32, changes: u32) -> u64 {
    let rig = Rig::new(seed, min_confirmations);
    let mut random = Random(seed);
    let mut checked = 0;
    rig.node.change(|world| world.mine(30));
    for _ in 0..changes {
        match random.below(10) {
            0..5 => rig.node.change(|world| world.mine(1)),
            5 => rig.node.change(|world| world.mine(5)),
            6..9 => {
                let depth = 1 + random.below(DEPTH_MAX) as usize;
                rig.node.change(|world| world.reorganise(depth));
            }
            _ => {
                rig.node.change(|world| world.is_away = true);
                rig.node
                    .change(|world| (world.is_away, ()) = (false, world.mine(1)));
            }
        }
        // While the host catches up: each answer is true at its own tip.
        let txids: Vec<_> = rig.node.world().places.keys().take(300).copied().collect();
        for _ in 0..50 {
            let txid = *random.pick(&txids);
            let (found, tip) = rig.ask(&txid);
            check(&rig.node.world(), &txid, found, &tip);
            checked += 1;
        }
        if random.one_in(4) {
            checked += check_settled(&rig, min_confirmations as usize, &mut random);
        }
    }
    checked + check_settled(&rig, min_confirmations as usize, &mut random)
}

#[test]
fn competing_chains_restarts_and_lost_notices_give_no_stale_answer() {
    let changes = std::env::var("LINESIDE_FOLLOW_CHANGES").map_or(400, |text| text.parse().unwrap());
    let checked = simulate(1, 1, changes) + simulate(2, 3, changes / 4);
    assert!(
        checked > u64::from(changes) * 100,
        "{checked} answers were checked"
    );
}

#[test]
fn a_lying_node_is_named_and_never_served() {
    for (habit, words) in [
        (Habit::WrongRoot, "Merkle root"),
        (Habit::OtherNetwork, "network"),
    ] {
        let rig = Rig::new(5, 1);
        rig.node.change(|world| world.mine(10));
        rig.settle(1);
        let known = rig.host.tip();
        rig.node.change(|world| {
            world.habit = habit;
            world.reorganise(2);
        });
        let deadline = Instant::now() + PATIENCE;
        let refused = loop {
            if let Some(why) = rig.follower.state().refused {
                break why;
            }
            // A node that is asked again after an error is asked for its first block, too.
            rig.node
                .change(|world| world.is_away = !world.is_away && habit == Habit::OtherNetwork);
            assert!(Instant::now() < deadline, "{:?}", rig.follower.state());
        };
        assert!(refused.contains(words), "{refused}");
        let (problems, _) = rig.follower.state().health(known.map(|tip| tip.height));
        assert_eq!(problems.len(), 1, "{problems:?}");
        let tip = rig.host.tip().unwrap();
        // The blocks of the new branch are wrong; those of a node of another network are right by themselves.
        let is_new = rig.node.world().best[9..].contains(&tip.hash);
        assert!(habit == Habit::OtherNetwork || !is_new, "a wrong block is served");
    }
}

#[test]
fn a_restart_with_min_confirmations_holds_the_newest_blocks_back() {
    let rig = Rig::new(9, 4);
    rig.node.change(|world| world.mine(20));
    rig.settle(4);
    assert_eq!(rig.host.tip().unwrap().height, 17);
    // A second follower of the same host stands for a daemon that was started again.
    drop(rig.follower);
    rig.host.connect_best().unwrap();
    assert_eq!(rig.host.tip().unwrap().height, 20);
    let options = FollowOptions {
        min_confirmations: 4,
        prefill_blocks: 0,
    };
    let _follower = NodeFollower::start(Arc::clone(&rig.host), Box::new(rig.node.clone()), options).unwrap();
    assert_eq!(rig.host.tip().unwrap().height, 17);
}

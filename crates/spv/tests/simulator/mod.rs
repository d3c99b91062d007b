//! Simulated node with competing chains, restarts, lost notifications and wrong blocks, and a host that follows it.
#![allow(dead_code, reason = "each test uses a part of it")]

pub mod check;
pub mod sabotage;
pub mod world;

use lineside_fastpath::{FastPath, Host, Readers, Reply, Source, Verdict, lease};
use lineside_spv::chain::{ChainStore, Network};
use lineside_spv::fastpath::SpvFastPath;
use lineside_spv::follow::{FollowOptions, NodeFollower};
use lineside_spv::host::SpvHost;
use lineside_spv::store::{Geometry, Store};
use lineside_spv::writer::StoreWriter;
use sabotage::{Sabotage, Saboteur};
use std::sync::Arc;
use std::time::{Duration, Instant};
use world::SimNode;

const FROM: Source = Source {
    address: std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST),
    port: 40000,
};
/// Maximum time for the host to catch up with the node.
pub const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(60);

/// Component that sent an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    FastPath,
    Host,
}

/// Test arrangement: a simulated node, and a host with its fast path that follows this node.
pub struct Rig {
    pub node: SimNode,
    pub host: Arc<SpvHost>,
    pub follower: NodeFollower,
    pub min_confirmations: u32,
    fastpath: SpvFastPath,
    readers: Readers,
}

impl Rig {
    pub fn new(seed: u64, min_confirmations: u32) -> Self {
        Self::with(seed, min_confirmations, None)
    }

    /// Creates a rig, with one rule broken if `fault` is set.
    pub fn with(seed: u64, min_confirmations: u32, fault: Option<Sabotage>) -> Self {
        let node = SimNode::new(seed, min_confirmations, fault == Some(Sabotage::NoPolling));
        let geometry = Geometry {
            line_bits: 10,
            block_bits: 6,
            tree_bits: 9,
            ..Geometry::default()
        };
        let store = Arc::new(Store::anonymous(&geometry).unwrap());
        lease::renew(&store.control().lease_until_ns, 1 << 50);
        let writer = Saboteur::new(StoreWriter::new(Arc::clone(&store)), fault);
        let readers = Readers::default();
        let chain = ChainStore::open(None, Network::Regtest).unwrap();
        let host = Arc::new(SpvHost::new(chain, Box::new(writer), readers.clone(), true));
        let confirmations = match fault {
            Some(Sabotage::Unconfirmed) => 1,
            _ => min_confirmations,
        };
        let mut options = FollowOptions::new(confirmations, 3);
        if fault == Some(Sabotage::LessWork) {
            options.less_work = lineside_bitcoin_node::LessWork::Follow;
        }
        let follower = NodeFollower::start(Arc::clone(&host), Box::new(node.clone()), options).unwrap();
        Self {
            node,
            host,
            follower,
            min_confirmations,
            fastpath: SpvFastPath::new(store),
            readers,
        }
    }

    /// Sends a request to the fast path, and to the host if the fast path forwards the request; with `only_host`, only
    /// to the host.
    pub fn ask(&self, request: &[u8], only_host: bool) -> (Reply, By) {
        let reader = self.readers.join();
        let mut reply = Reply::default();
        if !only_host && self.fastpath.answer(FROM, lease::now_ns(), request, &mut reply) == Verdict::Reply {
            return (reply, By::FastPath);
        }
        reply = Reply::default();
        let verdict = self.host.serve(FROM, request, &mut reply, &reader);
        assert_eq!(verdict, Verdict::Reply);
        (reply, By::Host)
    }

    /// Waits until the host's tip is the node's highest block with `min_confirmations` confirmations. Returns false if
    /// this takes longer than `patience`.
    pub fn settle(&self, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        loop {
            let wanted = self.node.world().settled_tip();
            if self.host.tip().map(|tip| (tip.height, tip.hash)) == wanted {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::yield_now();
        }
    }
}

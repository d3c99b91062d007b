//! Tests of host and fast path together: the answers of the fast path must equal those of the chain, also after misses
//! and during reorganisations.

use bitcoin::hashes::Hash as _;
use lineside_fastpath::{FastPath, Host, Readers, Reply, Source, Verdict, lease};
use lineside_spv::chain::*;
use lineside_spv::fastpath::SpvFastPath;
use lineside_spv::host::SpvHost;
use lineside_spv::store::{Geometry, Hash, Store};
use lineside_spv::writer::StoreWriter;
use lineside_testkit::DemoChain;
use lineside_wire::{NativeHeader, RootReply, SPV_OP_ROOT, Status, native};
use std::borrow::Cow;
use std::sync::Arc;
use zerocopy::{FromBytes, IntoBytes};

const FROM: Source = Source {
    address: std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST),
    port: 40000,
};

struct Rig {
    fastpath: SpvFastPath,
    host: SpvHost,
}

fn rig() -> Rig {
    rig_over(ChainStore::open(None, Network::Regtest).unwrap())
}

fn rig_over(chain: impl Chain + 'static) -> Rig {
    let geometry = Geometry {
        line_bits: 12,
        block_bits: 6,
        ..Geometry::default()
    };
    let store = Arc::new(Store::anonymous(&geometry).unwrap());
    lease::renew(&store.control().lease_until_ns, 1 << 40);
    let writer = Box::new(StoreWriter::new(Arc::clone(&store)));
    Rig {
        fastpath: SpvFastPath::new(store),
        host: SpvHost::new(chain, writer, Readers::default(), true),
    }
}

impl Rig {
    fn fastpath(&self, txid: &Hash) -> Option<Vec<u8>> {
        let mut reply = Reply::default();
        match self.fastpath.answer(FROM, lease::now_ns(), txid, &mut reply) {
            Verdict::Reply => Some(reply.as_bytes().to_vec()),
            _ => None,
        }
    }

    fn host(&self, request: &[u8]) -> Vec<u8> {
        let mut reply = Reply::default();
        assert_eq!(
            self.host
                .serve(FROM, request, &mut reply, &Readers::default().join()),
            Verdict::Reply
        );
        assert!(reply.as_bytes().len() <= request.len(), "rule 5");
        reply.as_bytes().to_vec()
    }
}

#[test]
fn a_miss_fills_the_fast_path_and_an_unknown_txid_is_never_cached() {
    let rig = rig();
    let block = DemoChain::new(1, 50).next().unwrap();
    rig.host.submit(&block.raw, false).unwrap();
    for txid in &block.txids {
        assert_eq!(rig.fastpath(txid), None);
        assert_eq!(rig.host(txid), block.root);
        assert_eq!(rig.fastpath(txid).as_deref(), Some(&block.root[..]));
    }
    assert_eq!(rig.host(&[0xab; 32]), [0; 32]);
    assert_eq!(rig.fastpath(&[0xab; 32]), None);
}

#[test]
fn a_reorganisation_leaves_no_line_of_the_old_branch() {
    let rig = rig();
    let mut chain = DemoChain::new(1, 20);
    let blocks: Vec<_> = chain.by_ref().take(3).collect();
    for block in &blocks {
        rig.host.submit(&block.raw, false).unwrap();
    }
    rig.host.prefill(3);
    assert_eq!(
        rig.fastpath(&blocks[2].txids[7]).as_deref(),
        Some(&blocks[2].root[..])
    );
    let branch: Vec<_> = DemoChain::branch(2, 20, blocks[1].hash, 2).take(2).collect();
    rig.host.submit(&branch[0].raw, false).unwrap();
    assert_eq!(
        rig.fastpath(&blocks[2].txids[7]).as_deref(),
        Some(&blocks[2].root[..]),
        "equal work: no change"
    );
    rig.host.submit(&branch[1].raw, false).unwrap();
    for txid in &blocks[2].txids {
        assert_eq!(rig.fastpath(txid), None);
        assert_eq!(rig.host(txid), [0; 32]);
    }
    assert_eq!(
        rig.fastpath(&blocks[1].txids[7]).as_deref(),
        Some(&blocks[1].root[..]),
        "a transaction below the fork is still answered"
    );
    assert_eq!(rig.host(&branch[1].txids[3]), branch[1].root);
}

#[test]
fn a_native_root_reply_has_the_location_and_the_tip() {
    let rig = rig();
    let blocks: Vec<_> = DemoChain::new(3, 9).take(2).collect();
    for block in &blocks {
        rig.host.submit(&block.raw, false).unwrap();
    }
    let request = |txid: &Hash, body_bytes: usize| {
        let mut request = native::request_header(SPV_OP_ROOT, 77, body_bytes as u16)
            .as_bytes()
            .to_vec();
        request.extend_from_slice(txid);
        request.resize(16 + body_bytes, 0);
        request
    };
    let whole = size_of::<RootReply>();
    let ask = |request: &[u8]| {
        let reply = rig.host(request);
        let (header, body) = NativeHeader::ref_from_prefix(&reply).unwrap();
        assert_eq!(
            (header.request_id.get(), header.op),
            (77, SPV_OP_ROOT | lineside_wire::NATIVE_REPLY_BIT)
        );
        assert_eq!(usize::from(header.length.get()), body.len());
        (
            Status::from_code(header.status.get()).unwrap(),
            RootReply::read_from_bytes(body).ok(),
        )
    };
    let (status, answer) = ask(&request(&blocks[0].txids[4], whole));
    let answer = answer.unwrap();
    assert_eq!(
        (status, answer.root, answer.block_hash),
        (Status::Ok, blocks[0].root, blocks[0].hash)
    );
    assert_eq!(
        (answer.tip_hash, answer.tip_height.get() - answer.height.get()),
        (blocks[1].hash, 1)
    );
    assert_eq!(ask(&request(&[1; 32], whole)).0, Status::Unknown);
    assert_eq!(
        ask(&request(&blocks[0].txids[4], whole - 1)).0,
        Status::BadRequest
    );
    let mut dirty = request(&blocks[0].txids[4], whole);
    dirty[60] = 1;
    assert_eq!(ask(&dirty).0, Status::BadRequest);
    let mut other = request(&blocks[0].txids[4], whole);
    other[2] = 9;
    assert_eq!(ask(&other).0, Status::UnsupportedVersion);
}

/// Checks that the host answers a request for `txid` with `root` (zeros: no connected block has it), and that the fast
/// path gives the same answer or forwards the request.
fn agree(rig: &Rig, txid: &Hash, root: Hash) {
    for _ in 0..2 {
        if let Some(answer) = rig.fastpath(txid) {
            assert_eq!(answer, root, "fastpath");
        }
        assert_eq!(rig.host(txid), root, "host");
    }
}

#[test]
fn reorganisations_of_depth_1_to_6_and_back_are_followed() {
    for depth in 1..=6u32 {
        let rig = rig();
        let shared = DemoChain::new(99, 2).payment(1);
        let shared_txid = shared.compute_txid().to_byte_array();
        let mut main = DemoChain::new(1, 6);
        let base = main.next_with(std::slice::from_ref(&shared));
        rig.host.submit(&base.raw, false).unwrap();
        // The first block of the old branch also holds the transaction `shared`.
        let mut olds = vec![main.next_with(std::slice::from_ref(&shared))];
        olds.extend(main.by_ref().take(depth as usize - 1));
        olds.iter()
            .for_each(|block| _ = rig.host.submit(&block.raw, false).unwrap());
        rig.host.prefill(depth + 1);
        assert_eq!(
            rig.fastpath(&shared_txid).as_deref(),
            Some(&olds[0].root[..]),
            "of two blocks with the transaction, the higher one is found"
        );

        let news: Vec<_> = DemoChain::branch(2, 6, base.hash, 1)
            .take(depth as usize + 1)
            .collect();
        for (number, block) in news.iter().enumerate() {
            rig.host.submit(&block.raw, false).unwrap();
            let changed = number == depth as usize;
            for (old, new) in olds.iter().zip(&news) {
                agree(&rig, &old.txids[2], if changed { [0; 32] } else { old.root });
                agree(&rig, &new.txids[2], if changed { new.root } else { [0; 32] });
            }
            agree(&rig, &shared_txid, if changed { base.root } else { olds[0].root });
            agree(&rig, &base.txids[3], base.root);
        }
        // Two more blocks on the old branch make it the best one again.
        main.by_ref()
            .take(2)
            .for_each(|block| _ = rig.host.submit(&block.raw, false).unwrap());
        agree(&rig, &shared_txid, olds[0].root);
        for (old, new) in olds.iter().zip(&news) {
            agree(&rig, &old.txids[2], old.root);
            agree(&rig, &new.txids[2], [0; 32]);
        }
    }
}

#[test]
fn a_restart_during_a_reorganisation_continues_it() {
    for kind in [IndexKind::Memory, IndexKind::Disk] {
        for steps in 0..=5usize {
            let dir = tempfile::tempdir().unwrap();
            let open = || {
                ChainStore::open_with(Some(dir.path()), Network::Regtest, kind)
                    .unwrap()
                    .0
            };
            let base = DemoChain::new(1, 4).next().unwrap();
            let olds: Vec<_> = DemoChain::branch(2, 4, base.hash, 1).take(2).collect();
            let news: Vec<_> = DemoChain::branch(3, 4, base.hash, 1).take(3).collect();
            let mut chain = open();
            for block in [&base].into_iter().chain(&olds) {
                chain.submit(&block.raw, false).unwrap();
            }
            chain.catch_up().unwrap();
            news.iter()
                .for_each(|block| _ = chain.submit(&block.raw, false).unwrap());
            let plan = chain.plan();
            assert_eq!((plan.disconnect.len(), plan.connect.len()), (2, 3));
            let disconnect = plan.disconnect.iter().map(|id| (false, *id));
            for (connects, id) in disconnect
                .chain(plan.connect.iter().map(|id| (true, *id)))
                .take(steps)
            {
                if connects {
                    chain.connect(id).unwrap()
                } else {
                    chain.disconnect(id).unwrap()
                }
            }
            chain.sync().unwrap();
            drop(chain);
            let rig = rig_over(open());
            olds.iter().for_each(|old| agree(&rig, &old.txids[1], [0; 32]));
            news.iter().for_each(|new| agree(&rig, &new.txids[1], new.root));
            agree(&rig, &base.txids[1], base.root);
        }
    }
}

#[test]
fn of_two_branches_with_equal_work_the_first_one_stays_also_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let open = || ChainStore::open(Some(dir.path()), Network::Regtest).unwrap();
    let base = DemoChain::new(1, 4).next().unwrap();
    let first: Vec<_> = DemoChain::branch(2, 4, base.hash, 1).take(2).collect();
    let second: Vec<_> = DemoChain::branch(3, 4, base.hash, 1).take(2).collect();
    let rig = rig_over(open());
    for block in [&base, &first[0], &second[0], &first[1], &second[1]] {
        rig.host.submit(&block.raw, false).unwrap();
    }
    rig.host.sync().unwrap();
    let check = |rig: &Rig| {
        for (one, other) in first.iter().zip(&second) {
            agree(rig, &one.txids[1], one.root);
            agree(rig, &other.txids[1], [0; 32]);
        }
    };
    check(&rig);
    drop(rig);
    check(&rig_over(open()));
}

/// Chain whose lookups or steps fail when a test demands it.
struct Faulty {
    chain: ChainStore,
    /// Number of lookups or steps that still succeed.
    steps: Arc<std::sync::atomic::AtomicI32>,
}

impl Faulty {
    fn fail(&self) -> Result<(), ChainError> {
        match self.steps.fetch_sub(1, std::sync::atomic::Ordering::Relaxed) {
            0 => Err(ChainError::Index(std::io::Error::other("on demand"))),
            _ => Ok(()),
        }
    }
}

impl Chain for Faulty {
    fn network(&self) -> Network {
        self.chain.network()
    }
    fn locate(&self, txid: &Hash) -> Result<Option<Located>, ChainError> {
        self.fail().and_then(|()| self.chain.locate(txid))
    }
    fn tip(&self) -> Option<Tip> {
        self.chain.tip()
    }
    fn state(&self) -> u64 {
        self.chain.state()
    }

    fn size(&self) -> (u64, u64) {
        Chain::size(&self.chain)
    }

    fn at_height(&self, height: u32) -> Option<BlockId> {
        self.chain.at_height(height)
    }
    fn by_hash(&self, hash: &[u8; 32]) -> Option<BlockId> {
        self.chain.by_hash(hash)
    }

    fn block(&self, id: BlockId) -> Option<BlockInfo> {
        self.chain.block(id)
    }
    fn txids(&self, id: BlockId) -> Result<Cow<'_, [Hash]>, ChainError> {
        Ok(Cow::Borrowed(self.chain.txids(id)))
    }
    fn accept(&mut self, block: &CheckedBlock, detached: bool) -> Result<Submitted, Refused> {
        self.chain.accept(block, detached)
    }
    fn plan(&self) -> Result<Reorg, ChainError> {
        Ok(self.chain.plan())
    }
    fn disconnect(&mut self, id: BlockId) -> Result<(), ChainError> {
        self.fail().and_then(|()| self.chain.disconnect(id))
    }
    fn connect(&mut self, id: BlockId) -> Result<(), ChainError> {
        self.fail().and_then(|()| self.chain.connect(id))
    }
    fn sync(&mut self) -> Result<(), ChainError> {
        self.chain.sync()
    }
}

#[test]
fn after_a_failed_step_fast_path_and_host_answer_at_the_same_tip() {
    use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
    let base = DemoChain::new(1, 5).next().unwrap();
    let olds: Vec<_> = DemoChain::branch(2, 5, base.hash, 1).take(2).collect();
    let news: Vec<_> = DemoChain::branch(3, 5, base.hash, 1).take(3).collect();
    for fails_at in 0..5usize {
        let steps = Arc::new(AtomicI32::new(i32::MAX));
        let chain = ChainStore::open(None, Network::Regtest).unwrap();
        let rig = rig_over(Faulty {
            chain,
            steps: Arc::clone(&steps),
        });
        for block in [&base].into_iter().chain(&olds).chain(&news[..2]) {
            rig.host.submit(&block.raw, false).unwrap();
        }
        rig.host.prefill(3);
        assert!(rig.fastpath(&olds[1].txids[1]).is_some());
        steps.store(fails_at as i32, Relaxed);
        assert!(matches!(
            rig.host.submit(&news[2].raw, false),
            Err(Refused::Storage(_))
        ));
        steps.store(i32::MAX, Relaxed);
        // The change disconnects two blocks and then connects three, and stops at the failing step.
        let olds_left = 2 - fails_at.min(2);
        let news_there = fails_at.saturating_sub(2);
        for (number, old) in olds.iter().enumerate() {
            agree(
                &rig,
                &old.txids[1],
                if number < olds_left { old.root } else { [0; 32] },
            );
        }
        for (number, new) in news.iter().enumerate() {
            agree(
                &rig,
                &new.txids[1],
                if number < news_there { new.root } else { [0; 32] },
            );
        }
        rig.host.follow().unwrap();
        olds.iter().for_each(|old| agree(&rig, &old.txids[1], [0; 32]));
        news.iter().for_each(|new| agree(&rig, &new.txids[1], new.root));

        // The reply to a failed lookup must not say that the TXID is unknown.
        steps.store(0, Relaxed);
        let mut reply = Reply::default();
        assert_eq!(
            rig.host
                .serve(FROM, &[5; 32], &mut reply, &Readers::default().join()),
            Verdict::Forward
        );
        assert!(reply.as_bytes().is_empty());
    }
}

/// Checks the limit on replies that are themselves valid requests: the root of a block with one transaction is that
/// transaction's TXID, so in the paper's format the reply equals its request.
#[test]
fn a_reply_that_equals_a_request_is_sent_at_most_once_a_second() {
    let rig = rig();
    let block = DemoChain::new(8, 1).next().unwrap();
    rig.host.submit(&block.raw, false).unwrap();
    let txid = block.txids[0];
    assert_eq!((block.txids.len(), block.root), (1, txid));
    rig.host.prefill(1);
    assert_eq!(rig.fastpath(&txid), None, "the fast path does not answer");
    assert_eq!(rig.host(&txid), txid);
    assert_eq!(
        rig.fastpath(&txid),
        None,
        "the fast path does not answer after the host has answered"
    );
    let ask = |from| {
        let mut reply = Reply::default();
        let readers = Readers::default();
        rig.host.serve(from, &txid, &mut reply, &readers.join())
    };
    assert_eq!(
        ask(FROM),
        Verdict::Drop(lineside_fastpath::DropReason::NotARequest)
    );
    let others = (1..=64).map(|port| Source {
        port: 50_000 + port,
        ..FROM
    });
    let answered = others.filter(|other| ask(*other) == Verdict::Reply).count();
    assert!(answered > 50, "most other sources are answered: {answered}");
}

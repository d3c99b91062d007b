//! Host and near together: what near answers is what the chain says, through misses and reorganisations.

use lineside_near::{Host, Near, Readers, Reply, Source, Verdict, lease};
use lineside_spv::chain::{ChainStore, DemoChain, Network};
use lineside_spv::host::SpvHost;
use lineside_spv::near::SpvNear;
use lineside_spv::store::{Geometry, Hash, Store};
use lineside_spv::writer::StoreWriter;
use lineside_wire::{NativeHeader, RootReply, SPV_OP_ROOT, Status, native};
use std::sync::Arc;
use zerocopy::{FromBytes, IntoBytes};

const FROM: Source = Source {
    address: std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST),
    port: 40000,
};

struct Rig {
    near: SpvNear,
    host: SpvHost,
}

fn rig() -> Rig {
    let geometry = Geometry {
        line_bits: 12,
        block_bits: 6,
        ..Geometry::default()
    };
    let store = Arc::new(Store::anonymous(&geometry).unwrap());
    lease::renew(&store.control().lease_until_ns, 1 << 40);
    let chain = ChainStore::open(None, Network::Regtest).unwrap();
    let writer = Box::new(StoreWriter::new(Arc::clone(&store)));
    Rig {
        near: SpvNear::new(store),
        host: SpvHost::new(chain, writer, Readers::default(), true),
    }
}

impl Rig {
    fn near(&self, txid: &Hash) -> Option<Vec<u8>> {
        let mut reply = Reply::default();
        match self.near.answer(FROM, lease::now_ns(), txid, &mut reply) {
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
fn a_miss_fills_and_the_unknown_is_never_cached() {
    let rig = rig();
    let block = DemoChain::new(1, 50).next().unwrap();
    rig.host.submit(&block.raw, false).unwrap();
    for txid in &block.txids {
        assert_eq!(rig.near(txid), None);
        assert_eq!(rig.host(txid), block.root);
        assert_eq!(rig.near(txid).as_deref(), Some(&block.root[..]));
    }
    assert_eq!(rig.host(&[0xab; 32]), [0; 32]);
    assert_eq!(rig.near(&[0xab; 32]), None);
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
        rig.near(&blocks[2].txids[7]).as_deref(),
        Some(&blocks[2].root[..])
    );
    let branch: Vec<_> = DemoChain::branch(2, 20, blocks[1].hash, 2).take(2).collect();
    rig.host.submit(&branch[0].raw, false).unwrap();
    assert_eq!(
        rig.near(&blocks[2].txids[7]).as_deref(),
        Some(&blocks[2].root[..]),
        "equal work: no change"
    );
    rig.host.submit(&branch[1].raw, false).unwrap();
    for txid in &blocks[2].txids {
        assert_eq!(rig.near(txid), None);
        assert_eq!(rig.host(txid), [0; 32]);
    }
    assert_eq!(
        rig.near(&blocks[1].txids[7]).as_deref(),
        Some(&blocks[1].root[..]),
        "below the fork"
    );
    assert_eq!(rig.host(&branch[1].txids[3]), branch[1].root);
}

#[test]
fn native_root_says_where_and_at_which_tip() {
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

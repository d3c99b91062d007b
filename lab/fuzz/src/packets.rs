//! Fuzz targets for payloads: requests to the fast path and the host, and replies that the client reads.

use crate::frames::vectors;
use crate::input::Input;
use lineside_client::spv::reply::{self, ServedWitness, WitnessProven};
use lineside_fastpath::{DropReason, FastPath, Host, Reader, Readers, Reply, Source, Verdict};
use lineside_spv::chain::{ChainStore, Network, Tip};
use lineside_spv::fastpath::SpvFastPath;
use lineside_spv::host::SpvHost;
use lineside_spv::reader::TxLocation;
use lineside_spv::request::{self, Request};
use lineside_spv::store::{Geometry, Store};
use lineside_spv::writer::StoreWriter;
use lineside_testkit::{DemoBlock, DemoChain};
use lineside_wire::{
    NATIVE_REPLY_BIT, RootItem, RootReply, RootsHead, SPV_HEADERS_MAX, SPV_OP_HEADERS, SPV_OP_PROOF,
    SPV_OP_ROOT, SPV_OP_ROOTS, SPV_OP_WITNESS_PROOF, SPV_OP_WTXID_PROOF, SPV_PROOF_DEPTH_MAX, SPV_ROOTS_MAX,
    SPV_WITNESS_ROOM_MAX, Status, WitnessReply, native,
};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, LazyLock};
use zerocopy::IntoBytes;

const FROM: Source = Source {
    address: std::net::IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 9)),
    port: 40000,
};

struct Rig {
    fastpath: SpvFastPath,
    host: SpvHost,
    sender: Reader,
}

static CHAIN: LazyLock<Vec<DemoBlock>> = LazyLock::new(|| {
    let mut blocks: Vec<_> = DemoChain::new(7, 4).take(2).collect();
    blocks.extend(DemoChain::branch(8, 4, blocks[1].hash, 2).with_witness().take(1));
    blocks
});

thread_local! {
    static RIG: Rig = {
        let geometry = Geometry { line_bits: 4, block_bits: 2, ..Geometry::default() };
        let store = Arc::new(Store::anonymous(&geometry).expect("memory"));
        store.control().lease_until_ns.store(u64::MAX, Relaxed);
        let readers = Readers::default();
        let chain = ChainStore::make(None, Network::Regtest, true).expect("memory");
        let writer = Box::new(StoreWriter::new(Arc::clone(&store)));
        let host = SpvHost::new(chain, writer, readers.clone(), true);
        CHAIN.iter().for_each(|block| _ = host.submit(&block.raw, false).expect("a good block"));
        Rig { fastpath: SpvFastPath::new(store), host, sender: readers.join() }
    };
}

pub fn request_seeds() -> Vec<Vec<u8>> {
    let txids: Vec<_> = CHAIN.iter().flat_map(|block| block.txids.clone()).collect();
    let mut seeds: Vec<Vec<u8>> = txids.iter().map(|txid| txid.to_vec()).collect();
    for file in vectors() {
        seeds.extend(
            file.vectors
                .iter()
                .filter(|v| v.host.is_some())
                .map(|v| v.request.0.clone()),
        );
    }
    for count in [1, 2, txids.len()] {
        let mut body = vec![0; 36];
        body.extend((count as u32).to_be_bytes());
        for txid in &txids[..count] {
            body.extend(txid);
            body.extend([0; 40]);
        }
        let header = native::request_header(SPV_OP_ROOTS, 9, body.len() as u16);
        seeds.push([header.as_bytes(), &body].concat());
    }
    for txid in &txids {
        let header = native::request_header(SPV_OP_WITNESS_PROOF, 9, 600);
        seeds.push([header.as_bytes(), txid, &[3; 568]].concat());
        let header = native::request_header(SPV_OP_ROOT, 9, 104);
        seeds.push([header.as_bytes(), txid, &[0; 72]].concat());
    }
    seeds
}

/// Checks that an accepted request has no other content than the decoded one, that the fast path and the host agree,
/// that no reply is longer than its request, and that two servers that are made to answer each other stop.
pub fn request(data: &[u8]) {
    let data = &data[..data.len().min(1452)];
    parsed_is_all_there_is(data);
    RIG.with(|rig| {
        let (fastpath, by_fastpath) = ask_fastpath(rig, data);
        let (host, by_host) = ask_host(rig, data);
        match fastpath {
            Verdict::Drop(_) => assert_eq!(host, fastpath),
            Verdict::Reply => assert_eq!((host, &by_host), (fastpath, &by_fastpath)),
            Verdict::Forward => assert_eq!(host, Verdict::Reply, "a healthy chain always answers"),
        }
        assert!(by_host.len() <= data.len());
        if fastpath == Verdict::Reply {
            assert_eq!(by_fastpath.len(), data.len());
        }
        if host == Verdict::Reply {
            if data.len() != 32 {
                assert_eq!(
                    (by_host[3], &by_host[8..16]),
                    (data[3] | NATIVE_REPLY_BIT, &data[8..16])
                );
            }
            // After the host has filled the table, the fast path repeats the host's reply.
            let (again, bytes) = ask_fastpath(rig, data);
            assert!(again == Verdict::Forward || bytes == by_host);
        }
        let mut bounced = by_host;
        for _ in 0..3 {
            let (verdict, next) = ask_host(rig, &bounced);
            if verdict != Verdict::Reply {
                assert!(matches!(
                    verdict,
                    Verdict::Drop(DropReason::ReplyBit | DropReason::NotARequest)
                ));
                return;
            }
            bounced = next;
        }
        panic!("two servers would answer each other forever");
    });
}

fn parsed_is_all_there_is(data: &[u8]) {
    assert_eq!(
        native::is_native(data),
        data.len() >= 16 && data.starts_with(b"LS")
    );
    if !native::is_native(data) || data[3] & NATIVE_REPLY_BIT != 0 {
        return;
    }
    let (op, id, body) = match Request::parse(data) {
        Ok(Request::Root(header, txid)) => (SPV_OP_ROOT, header.request_id, [&txid[..], &[0; 72]].concat()),
        Ok(Request::Roots(header, items)) => {
            assert!((1..=SPV_ROOTS_MAX).contains(&items.len()));
            let mut body = vec![0; 36];
            body.extend((items.len() as u32).to_be_bytes());
            for item in items {
                let zero = item.as_bytes()[32..].iter().all(|byte| *byte == 0);
                assert_eq!(request::is_padded(item), zero);
                body.extend(item.as_bytes());
            }
            (SPV_OP_ROOTS, header.request_id, body)
        }
        // The server does not check the padding of these requests, so it is not compared.
        Ok(Request::Proof(header, txid, room)) => {
            assert!(room <= SPV_PROOF_DEPTH_MAX && data.len() == 16 + 136 + 32 * room);
            let body = [&txid[..], &data[48..]].concat();
            (SPV_OP_PROOF, header.request_id, body)
        }
        Ok(Request::WitnessProof(header, txid, room)) => {
            assert!(room <= SPV_WITNESS_ROOM_MAX && data.len() == 16 + 200 + room);
            let body = [&txid[..], &data[48..]].concat();
            (SPV_OP_WITNESS_PROOF, header.request_id, body)
        }
        Ok(Request::WtxidProof(header, wtxid, room)) => {
            assert!(room <= SPV_WITNESS_ROOM_MAX && data.len() == 16 + 200 + room);
            let body = [&wtxid[..], &data[48..]].concat();
            (SPV_OP_WTXID_PROOF, header.request_id, body)
        }
        Ok(Request::Headers(header, range)) => {
            assert!((1..=range.headers_max).contains(&range.count) && range.headers_max <= SPV_HEADERS_MAX);
            assert_eq!(data.len(), 16 + 48 + 80 * range.headers_max);
            let count = range.count as u32;
            let body = [&range.start.to_be_bytes()[..], &count.to_be_bytes(), &data[24..]].concat();
            (SPV_OP_HEADERS, header.request_id, body)
        }
        Err(status) => {
            let expected = if data[2] == 1 {
                Status::BadRequest
            } else {
                Status::UnsupportedVersion
            };
            return assert_eq!(status, expected);
        }
    };
    let header = native::request_header(op, id.get(), body.len() as u16);
    assert_eq!([header.as_bytes(), &body].concat(), data);
}

fn ask_fastpath(rig: &Rig, data: &[u8]) -> (Verdict, Vec<u8>) {
    let mut reply = Reply::default();
    let verdict = rig.fastpath.answer(FROM, 1, data, &mut reply);
    let written = if verdict == Verdict::Reply {
        reply.as_bytes()
    } else {
        &[]
    };
    (verdict, written.to_vec())
}

fn ask_host(rig: &Rig, data: &[u8]) -> (Verdict, Vec<u8>) {
    let mut reply = Reply::default();
    let verdict = rig.host.serve(FROM, data, &mut reply, &rig.sender);
    rig.sender.unpin();
    (verdict, reply.as_bytes().to_vec())
}

// ---- replies ----

const ID: u64 = 0x0102_0304_0506_0708;

pub fn reply_seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for file in vectors() {
        for vector in file.vectors {
            let count = (vector.request.0.len() as u8).wrapping_sub(56) / 72;
            seeds.extend(vector.reply.map(|reply| [&[count][..], &reply.0].concat()));
        }
    }
    seeds
}

/// Checks that an accepted reply has only the content that was decoded from it, and is accepted only for its own
/// request.
pub fn reply(data: &[u8]) {
    let mut input = Input(data);
    let count = usize::from(input.byte() % (SPV_ROOTS_MAX as u8 + 2));
    let datagram = input.0;
    witness_reply(datagram);
    for op in [SPV_OP_ROOT, SPV_OP_ROOTS] {
        let Some((status, body)) = reply::parse(op, ID, datagram) else {
            continue;
        };
        assert_eq!(datagram.len(), 16 + body.len());
        assert_eq!(reply::parse(op, ID ^ 1, datagram), None);
        assert_eq!(reply::parse(op ^ 3, ID, datagram), None);
        assert_eq!(reply::parse(op, ID, &datagram[..datagram.len() - 1]), None);
        assert_eq!(reply::parse(op, ID, &[datagram, &[0]].concat()), None);
        if let Some(answer) = reply::root(status, body) {
            assert!(matches!(status, Status::Ok | Status::Unknown));
            assert_eq!(answer.result.is_some(), status == Status::Ok);
            if let Some(place) = &answer.result {
                assert_eq!(root_body(place, &answer.tip), body);
            }
        }
        if let Some(answer) = reply::roots(status, body, count) {
            assert_eq!((status, answer.result.len()), (Status::Ok, count));
            let said = roots_body(&answer.result, &answer.tip);
            assert_eq!(said.len(), body.len());
            let unknown = |at: usize| at >= 40 && answer.result[(at - 40) / 72].is_none();
            let mut each = said.iter().zip(body).enumerate();
            assert!(each.all(|(at, (said, heard))| said == heard || unknown(at)));
            assert_eq!(reply::roots(status, body, count + 1), None);
        }
    }
}

/// Checks that an accepted reply to `witness_proof` is encoded to the same bytes again.
fn witness_reply(datagram: &[u8]) {
    let Some((status, body)) = reply::parse(SPV_OP_WITNESS_PROOF, ID, datagram) else {
        return;
    };
    let room = body.len().saturating_sub(size_of::<WitnessReply>());
    assert_eq!(reply::witness_proof(status, body, room + 1), None);
    let said = reply::witness_proof(status, body, room);
    let Some(WitnessProven::Answered(answer)) = said else {
        if let Some(WitnessProven::TooLong(bytes)) = said {
            assert!(status == Status::TooLong && bytes > room as u64);
        }
        return;
    };
    assert_eq!(answer.result.is_some(), status == Status::Ok);
    if let Some(served) = &answer.result {
        assert_eq!(witness_body(served, &answer.tip, body.len()), body);
        let _ = served
            .proof()
            .verify(lineside_spv_proof::Network::Regtest, &served.wtxid);
    }
}

fn witness_body(served: &ServedWitness, tip: &Tip, bytes: usize) -> Vec<u8> {
    let head = WitnessReply {
        header: served.header.to_bytes(),
        height: served.height.into(),
        transactions: served.transaction_count.into(),
        index: served.index.into(),
        depth: (served.path.hashes().len() as u32).into(),
        tip_hash: tip.hash,
        tip_height: tip.height.into(),
        coinbase_bytes: (served.coinbase.len() as u32).into(),
        wtxid: served.wtxid,
        witness_reserved: served.witness_reserved,
    };
    let mut body = head.as_bytes().to_vec();
    for path in [&served.path, &served.coinbase_path] {
        body.extend(path.hashes().as_flattened());
    }
    body.extend(&served.coinbase);
    body.resize(bytes, 0);
    body
}

fn root_body(place: &TxLocation, tip: &Tip) -> Vec<u8> {
    let body = RootReply {
        root: place.root,
        block_hash: place.block_hash,
        tip_hash: tip.hash,
        height: place.height.into(),
        tip_height: tip.height.into(),
    };
    body.as_bytes().to_vec()
}

fn roots_body(places: &[Option<TxLocation>], tip: &Tip) -> Vec<u8> {
    let head = RootsHead {
        tip_hash: tip.hash,
        tip_height: tip.height.into(),
        count: (places.len() as u32).into(),
    };
    let mut body = head.as_bytes().to_vec();
    for place in places {
        let item = RootItem {
            root: place.map_or([0; 32], |place| place.root),
            block_hash: place.map_or([0; 32], |place| place.block_hash),
            height: place.map_or(0, |place| place.height).into(),
            status: u32::from(place.is_none()).into(),
        };
        body.extend(item.as_bytes());
    }
    body
}

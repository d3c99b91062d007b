//! Fuzz targets for messages of Deliver: requests to a server, responses to a client, and blocks that are filtered.

use crate::fabric::block_of;
use lineside_fabric::block::Block;
use lineside_fabric::proto::{Arena, wire};
use lineside_fabric_grpc::messages::{DeliverContent, DeliverResponse, Envelope, SeekInfo};
use lineside_fabric_grpc::request::{read, seek};
use lineside_fabric_grpc::{filter, read_filtered};
use prost::Message;

/// Decodes a message. The first byte of the input selects its kind: a request, a response, or a block to filter.
pub fn deliver(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else {
        return;
    };
    match kind % 3 {
        0 => request(bytes),
        1 => response(bytes),
        _ => filtered(bytes),
    }
}

/// Checks that the decoded fields of a request stay the same after the request is encoded and decoded again.
fn request(bytes: &[u8]) {
    let Ok(envelope) = Envelope::decode(bytes) else {
        return;
    };
    assert_eq!(
        Envelope::decode(&*envelope.encode_to_vec()).as_ref(),
        Ok(&envelope)
    );
    let Some(request) = read(&envelope.payload) else {
        return;
    };
    assert_eq!(read(&envelope.payload).as_ref(), Some(&request));
    assert!(request.channel.len() + request.creator.len() + request.data.len() <= envelope.payload.len());
    if let Ok(seek) = SeekInfo::decode(request.data) {
        assert_eq!(SeekInfo::decode(&*seek.encode_to_vec()), Ok(seek));
    }
}

fn response(bytes: &[u8]) {
    let Ok(response) = DeliverResponse::decode(bytes) else {
        return;
    };
    assert_eq!(
        DeliverResponse::decode(&*response.encode_to_vec()).as_ref(),
        Ok(&response)
    );
    match response.delivered {
        Some(DeliverContent::Block(block)) => filtered(&block),
        Some(DeliverContent::FilteredBlock(block)) => {
            if let Some(read) = read_filtered(block) {
                assert_eq!(read_filtered(read.encode_to_vec().into()), Some(read));
            }
        }
        Some(DeliverContent::Status(_)) | None => {}
    }
}

/// Filters a block that can be read. The output must contain only data of the block, and must not be longer.
fn filtered(bytes: &[u8]) {
    let arena = Arena::new();
    match (Block::read(bytes, &arena), filter(bytes)) {
        (Ok(block), Ok(filtered)) => {
            assert_eq!(filtered.number, block.number);
            assert!(filtered.filtered_transactions.len() <= block.transactions.len());
            let again = read_filtered(filtered.encode_to_vec().into());
            assert_eq!(again, Some(filtered), "the filtered block can be read");
        }
        (Err(_), Err(_)) => {}
        (read, filtered) => panic!("read: {}, filtered: {}", read.is_ok(), filtered.is_ok()),
    }
}

/// Returns a request, responses of each kind, and a block.
pub fn deliver_seeds() -> Vec<Vec<u8>> {
    let field = |fields: &[(u32, &[u8])]| {
        let mut out = Vec::new();
        for (number, bytes) in fields {
            wire::put_bytes(&mut out, *number, bytes);
        }
        out
    };
    let mut channel = Vec::new();
    wire::put_number(&mut channel, 1, 5);
    channel.extend(field(&[(3, &[8, 1, 16, 2]), (4, b"channel"), (8, &[7; 32])]));
    let header = field(&[(1, &channel), (2, &field(&[(1, b"creator"), (2, b"nonce")]))]);
    let payload = field(&[(1, &header), (2, &seek(3, u64::MAX).encode_to_vec())]);
    let envelope = field(&[(1, &payload), (2, b"signature")]);

    let block = block_of(3);
    let filtered = filter(&block).map(|filtered| filtered.encode_to_vec());
    let delivered = [
        DeliverContent::Status(200),
        DeliverContent::Block(block.clone().into()),
        DeliverContent::FilteredBlock(filtered.unwrap_or_default().into()),
    ];
    let mut seeds = vec![(0, envelope), (2, block)];
    seeds.extend(delivered.map(|delivered| (1, DeliverResponse::from(delivered).encode_to_vec())));
    seeds
        .into_iter()
        .map(|(kind, bytes)| [&[kind], bytes.as_slice()].concat())
        .collect()
}

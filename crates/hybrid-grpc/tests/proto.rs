//! Tests that the hand-written Rust messages match the .proto files: same field numbers and same wire types.

use bytes::Bytes;
use lineside_messages::hybrid::grpc::*;
use prost::Message;
use std::collections::{BTreeMap, BTreeSet};

const PROTO: &str = include_str!("../proto/hybrid.proto");
const PAPER: &str = include_str!("../proto/paper.proto");

/// Field numbers of a message, each with its wire type: 0 is a varint, 2 is bytes after their length.
type Fields = BTreeSet<(u64, u64)>;

/// Returns the fields that a .proto file declares for each message.
fn declared(proto: &'static str) -> BTreeMap<&'static str, Fields> {
    let mut all = BTreeMap::new();
    let mut inside = None;
    for line in proto.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("message ") {
            inside = name.strip_suffix(" {");
            all.extend(inside.map(|name| (name, Fields::new())));
        } else if line == "}" {
            inside = None;
        } else if let Some(name) = inside {
            let words: Vec<&str> = line.trim_end_matches(';').split_whitespace().collect();
            let [kind @ .., _, "=", number] = words.as_slice() else {
                panic!("not a field: {line}");
            };
            let wire = match *kind.last().unwrap() {
                "uint32" | "uint64" | "int64" | "bool" => 0,
                _ => 2,
            };
            let fields = all.get_mut(name).unwrap();
            assert!(fields.insert((number.parse().unwrap(), wire)), "{name}: {line}");
        }
    }
    all
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let (mut value, mut shift) = (0, 0);
    loop {
        let (first, rest) = bytes.split_first().unwrap();
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        shift += 7;
        if first & 0x80 == 0 {
            return value;
        }
    }
}

fn encoded(message: &impl Message) -> Fields {
    let bytes = message.encode_to_vec();
    let mut rest = bytes.as_slice();
    let mut fields = Fields::new();
    while !rest.is_empty() {
        let tag = varint(&mut rest);
        fields.insert((tag >> 3, tag & 7));
        let value = varint(&mut rest);
        if tag & 7 == 2 {
            rest = &rest[value as usize..];
        }
    }
    fields
}

#[test]
fn every_message_has_the_fields_that_the_proto_file_declares() {
    let place = Version { block: 1, index: 2 };
    let version = Some(place);
    let bytes = || Bytes::from_static(b"x");
    let (code, name) = (3, || "malformed".to_owned());
    let cell = Cell {
        version,
        value: bytes(),
    };
    let cells = Cells {
        code,
        code_name: name(),
        cells: vec![cell.clone()],
    };
    let placed = Placed {
        code,
        code_name: name(),
        version,
    };
    let key_cell = KeyCell {
        key: bytes(),
        version,
        value: bytes(),
    };
    let key_cells = KeyCells {
        code,
        code_name: name(),
        cells: vec![key_cell.clone()],
        more: true,
    };
    let proof = Proof {
        code,
        code_name: name(),
        proof: bytes(),
    };
    let write = Write {
        version,
        time_ms: 1,
        value: Some(bytes()),
    };
    let writes = Writes {
        code,
        code_name: name(),
        writes: vec![write.clone()],
        more: true,
    };
    let head = SignedHeader {
        code,
        code_name: name(),
        header: bytes(),
        head: bytes(),
    };
    let event = Event {
        code,
        code_name: name(),
        version,
        key: bytes(),
        value: Some(bytes()),
    };
    let made = BTreeMap::from([
        ("Signed", encoded(&Signed { request: bytes() })),
        (
            "SignedBatch",
            encoded(&SignedBatch {
                requests: vec![bytes()],
            }),
        ),
        ("Version", encoded(&place)),
        ("Cell", encoded(&cell)),
        (
            "CellsBatch",
            encoded(&CellsBatch {
                answers: vec![cells.clone()],
            }),
        ),
        ("Cells", encoded(&cells)),
        (
            "PlacedBatch",
            encoded(&PlacedBatch {
                answers: vec![placed.clone()],
            }),
        ),
        ("Placed", encoded(&placed)),
        ("KeyCell", encoded(&key_cell)),
        ("KeyCells", encoded(&key_cells)),
        ("Proof", encoded(&proof)),
        ("Write", encoded(&write)),
        ("Writes", encoded(&writes)),
        ("SignedHeader", encoded(&head)),
        ("Event", encoded(&event)),
    ]);
    assert_eq!(made, declared(PROTO));
}

#[test]
fn every_message_of_the_paper_service_has_its_declared_fields() {
    use lineside_messages::hybrid::grpc::paper;
    let text = || "x".to_owned();
    let (code, version) = (3, 4);
    let get = paper::GetRequest {
        pubkey: text(),
        signature: text(),
        key: text(),
    };
    let got = paper::GetResponse {
        pubkey: text(),
        signature: text(),
        value: text(),
        version,
        code,
        code_name: text(),
    };
    let set = paper::SetRequest {
        pubkey: text(),
        signature: text(),
        key: text(),
        value: text(),
        version,
        tx_id: text(),
        hash: text(),
    };
    let was_set = paper::SetResponse {
        pubkey: text(),
        signature: text(),
        txid: text(),
        code,
        code_name: text(),
    };
    let verify = paper::VerifyRequest {
        pubkey: text(),
        signature: text(),
        key: text(),
    };
    let verified = paper::VerifyResponse {
        pubkey: text(),
        signature: text(),
        block_id: text(),
        block_hash: text(),
        txn_hash: text(),
        code,
        code_name: text(),
    };
    let gets = paper::BatchGetRequest {
        requests: vec![get.clone()],
    };
    let sets = paper::BatchSetRequest {
        requests: vec![set.clone()],
    };
    let all_got = paper::BatchGetResponse {
        responses: vec![got.clone()],
    };
    let all_set = paper::BatchSetResponse {
        responses: vec![was_set.clone()],
    };
    let made = BTreeMap::from([
        ("GetRequest", encoded(&get)),
        ("GetResponse", encoded(&got)),
        ("SetRequest", encoded(&set)),
        ("SetResponse", encoded(&was_set)),
        ("VerifyRequest", encoded(&verify)),
        ("VerifyResponse", encoded(&verified)),
        ("BatchGetRequest", encoded(&gets)),
        ("BatchSetRequest", encoded(&sets)),
        ("BatchGetResponse", encoded(&all_got)),
        ("BatchSetResponse", encoded(&all_set)),
    ]);
    assert_eq!(made, declared(PAPER));
}

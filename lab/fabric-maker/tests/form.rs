//! Tests that generated blocks have the form of blocks of a real network: every message has the same fields with the
//! same wire types.

use flate2::read::GzDecoder;
use lineside_fabric_maker::{Blocks, MadeBlock, Network, Options, Workload};
use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

/// For each message type, the fields that are messages, with their types. `entries` marks the entries of a map, and
/// `X?` a type that depends on other fields.
const MESSAGES: &str = "
    Block 1:Plain 2:Data 3:Metadatas
    Data 1:Envelope
    Envelope 1:Payload
    Payload 1:Header 2:Payload?
    Header 1:ChannelHeader 2:SignatureHeader
    ChannelHeader 3:Plain 7:ChaincodeAndPlain
    ChaincodeAndPlain 2:Plain
    SignatureHeader 1:Plain
    Transaction 1:Action
    Action 1:SignatureHeader 2:ActionPayload
    ActionPayload 1:ProposalPayload 2:Endorsed
    ProposalPayload 1:Invocation
    Invocation 1:Spec
    Spec 2:Plain 3:Plain
    Endorsed 1:Response 2:Endorsement
    Endorsement 1:Plain
    Response 2:ChaincodeAction
    ChaincodeAction 1:Sets 2:Plain 3:Plain 4:Plain
    Sets 2:Set
    Set 2:KeysSet 3:Collection
    KeysSet 1:Read 2:Range 3:Plain
    Range 4:Reads
    Reads 1:Read
    Read 2:Plain
    Collection 2:Hashed
    Hashed 1:Read 2:Plain
    ConfigEnvelope 1:Config 2:Envelope
    Config 2:Group
    Group 2:GroupEntry 3:ValueEntry 4:PolicyEntry
    GroupEntry 2:Group
    ValueEntry 2:Value
    Value 2:Value?
    PolicyEntry 2:ConfigPolicy
    ConfigPolicy 2:Policy
    Policy 2:Policy?
    SignaturePolicy 2:Rule 3:Principal
    Rule 2:NOutOf
    NOutOf 2:Plain
    Principal 2:Plain
    MSP 2:FabricMSP
    FabricMSP 8:Plain 11:NodeOUs
    NodeOUs 2:Plain 3:Plain 4:Plain 5:Plain
    Capabilities 1:CapabilityEntry
    CapabilityEntry 2:Plain
    ConsensusType 2:Raft
    Raft 1:Plain 2:Plain
    UpdateEnvelope 1:Update 2:ConfigSignature
    Update 2:Group 3:Group
    ConfigSignature 1:SignatureHeader
    Metadatas 1:Metadata
    Metadata 1:OrdererMetadata 2:BlockSignature
    OrdererMetadata 1:Plain 2:ConsenterMetadata
    ConsenterMetadata 1:Plain
    BlockSignature 1:SignatureHeader
";

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for place in 0.. {
        let byte = bytes[0];
        *bytes = &bytes[1..];
        value |= u64::from(byte & 0x7f) << (7 * place);
        if byte < 0x80 {
            break;
        }
    }
    value
}

/// Returns the fields of a message: number, wire type, content.
fn fields(mut bytes: &[u8]) -> Vec<(u64, u64, &[u8])> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let content = match tag & 7 {
            0 => {
                varint(&mut bytes);
                &[]
            }
            2 => {
                let length = varint(&mut bytes) as usize;
                let (content, rest) = bytes.split_at(length);
                bytes = rest;
                content
            }
            other => panic!("wire type {other}"),
        };
        found.push((tag >> 3, tag & 7, content));
    }
    found
}

fn field(bytes: &[u8], number: u64) -> &[u8] {
    let mut all = fields(bytes).into_iter();
    all.find(|field| field.0 == number).map_or(&[], |field| field.2)
}

/// Returns the value of a message's first field, which is a number.
fn number(bytes: &[u8]) -> u64 {
    varint(&mut &bytes[1..])
}

/// Returns the type of a field of a message, if the field is a message.
fn kind(message: &str, at: u64, bytes: &[u8], key: &str) -> Option<String> {
    let line = MESSAGES
        .lines()
        .find(|line| line.split_whitespace().next() == Some(message))?;
    let wanted = format!("{at}:");
    let kind = line
        .split_whitespace()
        .find_map(|part| part.strip_prefix(&wanted))?;
    let kind = match kind {
        "Payload?" => match number(field(field(bytes, 1), 1)) {
            1 => "ConfigEnvelope",
            2 => "UpdateEnvelope",
            3 => "Transaction",
            other => panic!("a transaction of type {other}"),
        },
        "Policy?" if number(bytes) == 1 => "SignaturePolicy",
        "Policy?" => "Plain",
        "Value?" if ["MSP", "Capabilities", "ConsensusType"].contains(&key) => key,
        "Value?" => "Plain",
        plain => plain,
    };
    Some(kind.to_owned())
}

/// Collects each field of a message and of the messages in it: the path of field numbers and map keys from the top, and
/// the wire type.
fn walk(bytes: &[u8], message: &str, path: &str, key: &str, found: &mut BTreeSet<String>) {
    let mut last = 0;
    for (at, wire_type, content) in fields(bytes) {
        assert!(at >= last, "{path}: field {at} after {last}");
        last = at;
        let kind = kind(message, at, bytes, key);
        let (path, key) = match kind.as_deref() {
            Some("GroupEntry" | "ValueEntry" | "PolicyEntry") => {
                let key = std::str::from_utf8(field(content, 1)).unwrap();
                (format!("{path}.{at}[{key}]"), key)
            }
            _ => (format!("{path}.{at}"), key),
        };
        found.insert(format!("{path} {wire_type}"));
        if let Some(kind) = kind {
            walk(content, &kind, &path, key, found);
        }
    }
}

fn form(blocks: &[&[u8]]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for block in blocks {
        walk(block, "Block", "", "", &mut found);
    }
    assert!(found.len() > 50, "{found:?}");
    found
}

fn recorded(number: u64, form: &str) -> Option<Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let path = root.join(format!("shared/data/fabric-blocks/dev/{number:05}.{form}.pb.gz"));
    let Ok(file) = std::fs::File::open(&path) else {
        eprintln!("skipped: there is no recorded block at {}", path.display());
        return None;
    };
    let mut bytes = Vec::new();
    GzDecoder::new(file).read_to_end(&mut bytes).unwrap();
    Some(bytes)
}

fn made() -> Vec<MadeBlock> {
    let options = Options {
        everybody_writes: true,
        ..Options::default()
    };
    let workload = Workload {
        keys: 300,
        block: 100,
        transactions: 300,
        ranges: 100,
        config_every: 2,
        ..Workload::default()
    };
    Blocks::new(Arc::new(Network::new(1, options)), workload, 1).collect()
}

fn is_config(block: &MadeBlock) -> bool {
    let envelope = field(field(&block.bytes, 2), 1);
    number(field(field(field(envelope, 1), 1), 1)) == 1
}

fn differences(ours: &BTreeSet<String>, theirs: &BTreeSet<String>) -> (Vec<String>, Vec<String>) {
    let missing = theirs.difference(ours).cloned().collect();
    (ours.difference(theirs).cloned().collect(), missing)
}

#[test]
fn genesis_lifecycle_and_config_blocks_have_the_form_of_recorded_ones() {
    let made = made();
    let config = made.iter().rfind(|block| is_config(block)).unwrap();
    assert!(config.number > 3);
    // Numbers of the recorded blocks to compare with: the genesis block, the approvals by two organisations, the
    // commit, and a change of the batch size.
    let pairs = [
        (&made[0], 0),
        (&made[1], 1),
        (&made[2], 2),
        (&made[3], 3),
        (config, 30),
    ];
    for (block, number) in pairs {
        let Some(theirs) = recorded(number, "orderer") else {
            return;
        };
        let (more, missing) = differences(&form(&[&block.bytes]), &form(&[&theirs]));
        assert!(
            more.is_empty() && missing.is_empty(),
            "block {number}: more {more:#?}, missing {missing:#?}"
        );
    }
}

#[test]
fn endorser_transactions_have_the_form_of_recorded_ones() {
    let made = made();
    let config = made
        .iter()
        .position(|block| block.number > 3 && is_config(block))
        .unwrap();
    let before: Vec<&[u8]> = made[4..config]
        .iter()
        .map(|block| block.bytes.as_slice())
        .collect();
    let theirs: Option<Vec<_>> = [4, 20]
        .into_iter()
        .map(|number| recorded(number, "orderer"))
        .collect();
    let (Some(theirs), Some(mixed)) = (theirs, recorded(24, "committed")) else {
        return;
    };
    let theirs: Vec<&[u8]> = theirs.iter().map(Vec::as_slice).collect();
    let mut all = form(&theirs);
    // Range queries occur only in the block with many faults, so its valid transactions are compared too.
    let codes = fields(field(&mixed, 3))[2].2;
    for ((_, _, envelope), _) in fields(field(&mixed, 2))
        .iter()
        .zip(codes)
        .filter(|(_, code)| **code == 0)
    {
        walk(envelope, "Envelope", ".2.1", "", &mut all);
    }
    let (more, _) = differences(&form(&before), &all);
    assert!(more.is_empty(), "{more:#?}");
    // The only fields of recorded blocks that the generator does not make are those of events.
    let (_, missing) = differences(&form(&before), &form(&theirs));
    let events = ".2.1.1.2.1.2.2.1.2.2";
    let missing: Vec<_> = missing.iter().filter(|path| !path.starts_with(events)).collect();
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn certificates_are_as_long_as_the_recorded_ones() {
    let Some(theirs) = recorded(0, "orderer") else {
        return;
    };
    // The certificates differ in length only because names differ by a few letters, and numbers by a leading zero.
    let (ours, theirs) = (made()[0].bytes.len(), theirs.len());
    assert!(ours.abs_diff(theirs) < 200, "{ours} {theirs}");
}

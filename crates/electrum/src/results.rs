//! Results of the methods that need the chain: reads the parameters, and writes the text of the result.

use crate::answers::{Answers, TreeLookup, WantedTree};
use crate::chain::{HEADER_BYTES, TipInfo};
use crate::checkpoint::Proof;
use crate::merkle::{BlockTree, sha256d};
use crate::methods::{About, ClientView};
use crate::reply;
use crate::request::{BAD_REQUEST, RpcError, UNAVAILABLE, shorten};
use crate::version::Version;
use lineside_util::hex::to_display;
use std::borrow::Cow;
use std::sync::Arc;

/// Reason why no result was written.
pub(crate) enum WriteStop {
    Error(RpcError),
    /// A tree must be built first.
    Missing(WantedTree),
    /// A proof for a checkpoint must be computed first.
    Unproved {
        height: u32,
        cp_height: u32,
    },
}

impl From<RpcError> for WriteStop {
    fn from(error: RpcError) -> Self {
        WriteStop::Error(error)
    }
}

fn bad(message: impl Into<Cow<'static, str>>) -> WriteStop {
    WriteStop::Error(RpcError::new(BAD_REQUEST, message))
}

#[derive(serde::Deserialize)]
#[serde(expecting = "tx_hash and height")]
pub(crate) struct MerkleParams<'a> {
    #[serde(borrow)]
    tx_hash: Cow<'a, str>,
    height: u32,
}

#[derive(serde::Deserialize)]
#[serde(expecting = "tx_hash, height, txid_or_tx and target_type")]
pub(crate) struct TscParams<'a> {
    #[serde(borrow)]
    tx_hash: Cow<'a, str>,
    height: u32,
    #[serde(borrow, default)]
    txid_or_tx: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    target_type: Option<Cow<'a, str>>,
}

#[derive(serde::Deserialize)]
#[serde(expecting = "height, tx_pos and merkle")]
pub(crate) struct PositionParams {
    height: u32,
    tx_pos: u32,
    #[serde(default)]
    merkle: bool,
}

#[derive(serde::Deserialize)]
#[serde(expecting = "height and cp_height")]
pub(crate) struct HeaderParams {
    height: u32,
    #[serde(default)]
    cp_height: u32,
}

#[derive(serde::Deserialize)]
#[serde(expecting = "start_height, count and cp_height")]
pub(crate) struct HeadersParams {
    start_height: u32,
    count: u32,
    #[serde(default)]
    cp_height: u32,
}

/// Number of headers in a reply that count as one request, in the limit on the client's rate.
const HEADERS_PER_REQUEST: u32 = 50;

/// Returns the tree of the block at `height`, and the position of a transaction in it.
fn find(
    answers: &Answers,
    view: &mut ClientView,
    tx_hash: &str,
    height: u32,
) -> Result<(Arc<BlockTree>, u32), WriteStop> {
    let txid = from_display_fast(tx_hash)
        .ok_or_else(|| bad(format!("{} should be a transaction hash", shorten(tx_hash))))?;
    let tree = tree(answers, view, height)?;
    let position = tree.position(&txid).ok_or_else(|| {
        bad(format!(
            "tx {} not in block at height {height}",
            to_display(&txid)
        ))
    })?;
    Ok((tree, position))
}

fn tree(answers: &Answers, view: &mut ClientView, height: u32) -> Result<Arc<BlockTree>, WriteStop> {
    match answers.tree(height, &mut view.memo) {
        TreeLookup::Tree(tree) => Ok(tree),
        TreeLookup::Missing(wanted) => Err(WriteStop::Missing(wanted)),
        TreeLookup::NoBlock => Err(out_of_range(height)),
    }
}

fn out_of_range(height: u32) -> WriteStop {
    bad(format!("height {height} out of range"))
}

/// Reads a hash in the form in which explorers show it (last byte first). `lineside_util` has such a function too,
/// which parses digit by digit; this function uses a table, because it runs for each proof.
fn from_display_fast(text: &str) -> Option<[u8; 32]> {
    static VALUES: [u8; 256] = {
        let mut values = [0xff; 256];
        let mut value = 0;
        while value < 16 {
            values[b"0123456789abcdef"[value] as usize] = value as u8;
            values[b"0123456789ABCDEF"[value] as usize] = value as u8;
            value += 1;
        }
        values
    };
    let digits: &[u8; 64] = text.as_bytes().try_into().ok()?;
    let (mut hash, mut wrong) = ([0; 32], 0);
    for (byte, pair) in hash.iter_mut().rev().zip(digits.as_chunks::<2>().0) {
        let (high, low) = (VALUES[usize::from(pair[0])], VALUES[usize::from(pair[1])]);
        wrong |= high | low;
        *byte = high << 4 | low & 15;
    }
    (wrong <= 15).then_some(hash)
}

/// Writes the siblings of a path as an array of hashes.
pub(crate) fn write_path(tree: &BlockTree, position: u32, out: &mut Vec<u8>) {
    out.push(b'[');
    for (level, (sibling, _)) in tree.path(position).enumerate() {
        out.extend_from_slice(if level == 0 { b"\"" } else { b",\"" });
        reply::hash(out, sibling);
        out.push(b'"');
    }
    out.push(b']');
}

/// Writes the object of `get_merkle`, which Esplora's `merkle-proof` returns too.
pub(crate) fn write_merkle(tree: &BlockTree, height: u32, position: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"block_height\":");
    reply::number(out, height);
    out.extend_from_slice(b",\"merkle\":");
    write_path(tree, position, out);
    out.extend_from_slice(b",\"pos\":");
    reply::number(out, position);
    out.push(b'}');
}

pub(crate) fn merkle(
    answers: &Answers,
    view: &mut ClientView,
    params: &MerkleParams,
    out: &mut Vec<u8>,
) -> Result<u32, WriteStop> {
    let (tree, position) = find(answers, view, &params.tx_hash, params.height)?;
    write_merkle(&tree, params.height, position, out);
    Ok(0)
}

pub(crate) fn id_from_position(
    answers: &Answers,
    view: &mut ClientView,
    params: &PositionParams,
    out: &mut Vec<u8>,
) -> Result<u32, WriteStop> {
    let PositionParams { height, tx_pos, .. } = *params;
    let tree = tree(answers, view, height)?;
    let txid = tree
        .txid(tx_pos)
        .ok_or_else(|| bad(format!("no tx at position {tx_pos} in block at height {height}")))?;
    if params.merkle {
        out.extend_from_slice(b"{\"merkle\":");
        write_path(&tree, tx_pos, out);
        out.extend_from_slice(b",\"tx_hash\":");
    }
    out.push(b'"');
    reply::hash(out, txid);
    out.push(b'"');
    if params.merkle {
        out.push(b'}');
    }
    Ok(0)
}

pub(crate) fn tsc_merkle(
    answers: &Answers,
    view: &mut ClientView,
    params: &TscParams,
    out: &mut Vec<u8>,
) -> Result<u32, WriteStop> {
    match params.txid_or_tx.as_deref() {
        None | Some("txid") => {}
        Some("tx") => {
            return Err(bad(
                "txid_or_tx = \"tx\" is not supported: this server does not store transactions; use \"txid\"",
            ));
        }
        Some(_) => return Err(bad("txid_or_tx should be \"txid\"")),
    }
    let target_type = params.target_type.as_deref().unwrap_or("block_hash");
    if !["block_hash", "block_header", "merkle_root"].contains(&target_type) {
        return Err(bad(
            "target_type should be \"block_hash\", \"block_header\" or \"merkle_root\"",
        ));
    }
    let (tree, position) = find(answers, view, &params.tx_hash, params.height)?;
    out.extend_from_slice(b"{\"composite\":false,\"index\":");
    reply::number(out, position);
    out.extend_from_slice(b",\"nodes\":[");
    for (level, (sibling, is_duplicate)) in tree.path(position).enumerate() {
        out.extend_from_slice(if level == 0 { b"\"" } else { b",\"" });
        match is_duplicate {
            true => out.push(b'*'),
            false => reply::hash(out, sibling),
        }
        out.push(b'"');
    }
    out.extend_from_slice(b"],\"proofType\":\"branch\",\"target\":\"");
    match target_type {
        "block_header" => reply::hex(out, tree.header()),
        "merkle_root" => reply::hash(out, tree.root()),
        _ => reply::hash(out, tree.hash()),
    }
    out.extend_from_slice(b"\",\"targetType\":\"");
    out.extend_from_slice(target_type.as_bytes());
    out.extend_from_slice(b"\",\"txOrId\":\"");
    out.extend(params.tx_hash.bytes().map(|digit| digit.to_ascii_lowercase()));
    out.extend_from_slice(b"\"}");
    Ok(0)
}

/// Returns the proof of the header at `height` for the checkpoint `cp_height`. If the client's last computed proof is
/// another one, the result is [`WriteStop::Unproved`].
fn checkpoint<'a>(
    answers: &Answers,
    view: &'a ClientView,
    height: u32,
    cp_height: u32,
) -> Result<&'a Proof, WriteStop> {
    let tip = answers.chain.tip().map_or(0, |tip| tip.height);
    if height > cp_height || cp_height > tip {
        let message =
            format!("require header height {height} <= cp_height {cp_height} <= chain height {tip}");
        return Err(bad(message));
    }
    let proof = view.proof.as_ref().filter(|proof| {
        let is_wanted = proof.height == height && proof.cp_height == cp_height;
        is_wanted && answers.chain.hash_at(cp_height) == Some(proof.cp_hash)
    });
    proof.ok_or(WriteStop::Unproved { height, cp_height })
}

/// Writes the members of the JSON object that contain a proof for a checkpoint.
fn write_proof(proof: &Proof, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\"branch\":[");
    for (level, sibling) in proof.branch.iter().enumerate() {
        out.extend_from_slice(if level == 0 { b"\"" } else { b",\"" });
        reply::hash(out, sibling);
        out.push(b'"');
    }
    out.extend_from_slice(b"],\"root\":\"");
    reply::hash(out, &proof.root);
    out.push(b'"');
}

pub(crate) fn header(
    answers: &Answers,
    view: &ClientView,
    params: &HeaderParams,
    out: &mut Vec<u8>,
) -> Result<u32, WriteStop> {
    let HeaderParams { height, cp_height } = *params;
    let header = answers.chain.header_at(height);
    let header = header.ok_or_else(|| out_of_range(height))?;
    if cp_height > 0 {
        let proof = checkpoint(answers, view, height, cp_height)?;
        out.push(b'{');
        write_proof(proof, out);
        out.extend_from_slice(b",\"header\":");
    }
    out.push(b'"');
    reply::hex(out, &header);
    out.push(b'"');
    if cp_height > 0 {
        out.push(b'}');
    }
    Ok(0)
}

pub(crate) fn headers(
    answers: &Answers,
    view: &ClientView,
    params: &HeadersParams,
    out: &mut Vec<u8>,
) -> Result<u32, WriteStop> {
    let max = answers.limits.headers;
    let mut headers = Vec::new();
    let count = answers
        .chain
        .headers(params.start_height, params.count.min(max), &mut headers);
    out.extend_from_slice(b"{\"count\":");
    reply::number(out, count);
    if view.version >= Version::V1_6 {
        out.extend_from_slice(b",\"headers\":[");
        for (index, header) in headers.chunks(HEADER_BYTES).enumerate() {
            out.extend_from_slice(if index == 0 { b"\"" } else { b",\"" });
            reply::hex(out, header);
            out.push(b'"');
        }
        out.push(b']');
    } else {
        out.extend_from_slice(b",\"hex\":\"");
        reply::hex(out, &headers);
        out.push(b'"');
    }
    out.extend_from_slice(b",\"max\":");
    reply::number(out, max);
    if count > 0 && params.cp_height > 0 {
        let last = params.start_height + count - 1;
        out.push(b',');
        write_proof(checkpoint(answers, view, last, params.cp_height)?, out);
    }
    out.push(b'}');
    Ok(count / HEADERS_PER_REQUEST)
}

pub(crate) fn write_tip(tip: &TipInfo, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"height\":");
    reply::number(out, tip.height);
    out.extend_from_slice(b",\"hex\":\"");
    reply::hex(out, &tip.header);
    out.extend_from_slice(b"\"}");
}

pub(crate) fn subscribe(
    answers: &Answers,
    view: &mut ClientView,
    out: &mut Vec<u8>,
) -> Result<u32, WriteStop> {
    let tip = answers.chain.tip();
    let tip = tip.ok_or_else(|| WriteStop::Error(RpcError::new(UNAVAILABLE, "there is no block yet")))?;
    write_tip(&tip, out);
    view.is_subscribed = true;
    view.last_tip_sent = Some(tip.hash);
    Ok(0)
}

pub(crate) fn features(answers: &Answers, about: &About, out: &mut Vec<u8>) -> Result<u32, WriteStop> {
    let genesis = answers.chain.header_at(0);
    let genesis =
        genesis.ok_or_else(|| WriteStop::Error(RpcError::new(UNAVAILABLE, "there is no block yet")))?;
    let ports = |host: &crate::server::Host| {
        let ports = serde_json::json!({"tcp_port": host.tcp_port, "ssl_port": host.ssl_port});
        (host.name.clone(), ports)
    };
    let features = serde_json::json!({
        "genesis_hash": to_display(&sha256d(&genesis)),
        "hash_function": "sha256",
        "hosts": about.hosts.iter().map(ports).collect::<serde_json::Map<_, _>>(),
        "protocol_max": Version::V1_6.name(),
        "protocol_min": Version::V1_4.name(),
        "pruning": null,
        "server_version": about.server_version,
    });
    // Writing text into memory cannot fail.
    let _ = serde_json::to_writer(out, &features);
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lineside_util::hex::from_display;

    #[test]
    fn hashes_are_read_as_by_the_function_without_a_table() {
        let hash = std::array::from_fn(|index| (9 * index) as u8);
        let shown = to_display(&hash);
        assert_eq!(from_display_fast(&shown), Some(hash));
        assert_eq!(from_display_fast(&shown.to_uppercase()), Some(hash));
        for at in 0..64 {
            for wrong in [' ', 'g', '/', ':', '@', 'G', '`', '+'] {
                let mut text = shown.clone();
                text.replace_range(at..=at, &wrong.to_string());
                assert_eq!(from_display(&text), None);
                assert_eq!(from_display_fast(&text), None, "{text}");
            }
        }
        assert_eq!(from_display_fast(&shown[1..]), None);
        assert_eq!(from_display_fast(""), None);
    }
}

//! Decoder of JSON-RPC answers: pure functions of the bytes.
//!
//! Source: `src/rpc/request.cpp`, `src/rpc/protocol.h` and `src/rpc/blockchain.cpp` of Bitcoin Core,
//! `docs/json_rpc_api.md` of btcd. Both answer `{"result", "error", "id"}`; Bitcoin Core sends errors with HTTP 500,
//! 404 or 400 to requests of version 1 and with HTTP 200 to those of version 2; btcd sends them with HTTP 200.

use crate::error::NodeFault;
use crate::hash::{BlockHash, HEADER_BYTES};
use crate::node::{Header, NodeInfo};
use crate::signet::SignetId;
use lineside_util::hex;
use serde::de::{Deserializer, Error as _, Visitor};
use serde::{Deserialize, de::DeserializeOwned};
use std::fmt;

/// Maximum length, in characters, of a text of the node that is copied into a message.
const NODE_TEXT_CHARS_MAX: usize = 200;

/// Error code of every call while the node is starting.
pub(crate) const IN_WARMUP: i64 = -28;
/// Error code for an unknown block.
pub(crate) const NOT_FOUND: i64 = -5;
/// Error codes for a height above the tip: Bitcoin Core's, and btcd's.
pub(crate) const OUT_OF_RANGE: [i64; 2] = [-8, -1];
/// Error code for several faults, among them a block whose bytes the node does not have.
pub(crate) const MISC: i64 = -1;

const NEITHER: &str = "there is neither a result nor an error";

/// Error object in an answer.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct RpcError {
    /// Error code as defined in `src/rpc/protocol.h` of Bitcoin Core and `btcjson/jsonrpcerr.go` of btcd.
    #[serde(default)]
    pub code: i64,
    /// Message of the node.
    #[serde(default)]
    pub message: String,
}

/// Reason why an answer has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoResult {
    /// The node answered with an error.
    Error(RpcError),
    /// The bytes are not an answer to the call.
    Malformed(String),
}

#[derive(Deserialize)]
#[serde(bound = "T: DeserializeOwned")]
struct Reply<T> {
    #[serde(default = "no_result")]
    result: Option<T>,
    #[serde(default)]
    error: Option<RpcError>,
    #[serde(default)]
    id: Option<u64>,
}

fn no_result<T>() -> Option<T> {
    None
}

impl<T> Reply<T> {
    fn into_result(self) -> Result<T, NoResult> {
        match (self.error, self.result) {
            (Some(error), _) => Err(NoResult::Error(error)),
            (None, Some(result)) => Ok(result),
            (None, None) => Err(NoResult::Malformed(NEITHER.into())),
        }
    }
}

/// Hash as text of 64 hexadecimal digits.
struct HashText(BlockHash);

impl<'de> Deserialize<'de> for HashText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(HashText).map_err(D::Error::custom)
    }
}

/// Bytes as hexadecimal text, decoded without a copy of the text.
struct HexText(Vec<u8>);

impl<'de> Deserialize<'de> for HexText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Digits;
        impl Visitor<'_> for Digits {
            type Value = HexText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("hexadecimal text")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<HexText, E> {
                let bytes = bytes_of(text.as_bytes());
                bytes
                    .map(HexText)
                    .ok_or_else(|| E::custom("the text does not consist of pairs of hexadecimal digits"))
            }
        }
        deserializer.deserialize_str(Digits)
    }
}

/// Values of the hexadecimal digits; 0xff for every other byte.
const VALUES: [u8; 256] = {
    let mut values = [0xff; 256];
    let mut value = 0;
    while value < 16 {
        values[b"0123456789abcdef"[value] as usize] = value as u8;
        values[b"0123456789ABCDEF"[value] as usize] = value as u8;
        value += 1;
    }
    values
};

/// Returns the bytes that pairs of hexadecimal digits encode. The function uses a table, so that it is fast enough for
/// blocks; `lineside_util::hex` is too slow.
fn bytes_of(text: &[u8]) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_chunks::<2>();
    let mut wrong = 0;
    let byte = |[high, low]: &[u8; 2]| {
        let (high, low) = (VALUES[usize::from(*high)], VALUES[usize::from(*low)]);
        wrong |= (high | low) & 0xf0;
        (high << 4) | (low & 0x0f)
    };
    let bytes = pairs.iter().map(byte).collect();
    (rest.is_empty() && wrong == 0).then_some(bytes)
}

#[derive(Deserialize)]
struct Info {
    chain: String,
    blocks: u32,
    headers: u32,
    bestblockhash: HashText,
    #[serde(default)]
    pruned: bool,
    pruneheight: Option<u32>,
    signet_challenge: Option<HexText>,
    #[serde(default)]
    initialblockdownload: bool,
}

#[derive(Deserialize)]
struct VerboseHeader {
    confirmations: i64,
    height: u32,
}

#[derive(Deserialize)]
struct ZmqNotification {
    r#type: String,
    address: String,
}

/// Returns the result in the answer to the request `id`.
fn result<T: DeserializeOwned>(body: &[u8], id: u64) -> Result<T, NoResult> {
    let reply: Reply<T> = match serde_json::from_slice(body) {
        Ok(reply) => reply,
        Err(error) => return Err(NoResult::Malformed(error.to_string())),
    };
    // An error answer to a request that the node could not parse has no id.
    if reply.id != Some(id) && reply.error.is_none() {
        return Err(NoResult::Malformed("it is the answer to another request".into()));
    }
    reply.into_result()
}

/// Returns the results of a batch of requests with the ids 0 to `count` - 1, in this order.
fn results<T: DeserializeOwned>(body: &[u8], count: usize) -> Result<Vec<Result<T, NoResult>>, NoResult> {
    let malformed = |why: &str| NoResult::Malformed(why.into());
    if !body.trim_ascii_start().starts_with(b"[") {
        // The node refused the whole batch.
        return Err(match result::<serde::de::IgnoredAny>(body, 0) {
            Ok(_) => malformed("it is a single result, but the request was a batch"),
            Err(error) => error,
        });
    }
    let replies: Vec<Reply<T>> = match serde_json::from_slice(body) {
        Ok(replies) => replies,
        Err(error) => return Err(NoResult::Malformed(error.to_string())),
    };
    let mut sorted: Vec<Option<Result<T, NoResult>>> = (0..count).map(|_| None).collect();
    for reply in replies {
        let slot = reply.id.and_then(|id| sorted.get_mut(usize::try_from(id).ok()?));
        match slot {
            Some(place @ None) => *place = Some(reply.into_result()),
            _ => {
                return Err(malformed(
                    "the batch contains an answer without a request, or two answers to one request",
                ));
            }
        }
    }
    let all: Option<Vec<_>> = sorted.into_iter().collect();
    all.ok_or_else(|| malformed("the batch has fewer answers than requests"))
}

/// Decodes an answer to `getblockchaininfo`.
///
/// # Errors
/// [`NoResult`].
pub fn info(body: &[u8], id: u64) -> Result<NodeInfo, NoResult> {
    let info: Info = result(body, id)?;
    Ok(NodeInfo {
        chain: cleaned_text(&info.chain),
        blocks: info.blocks,
        headers: info.headers,
        best: info.bestblockhash.0,
        pruned: info.pruned,
        prune_height: info.pruneheight,
        signet: (info.signet_challenge).map(|challenge| SignetId::of_challenge(&challenge.0)),
        initial_block_download: info.initialblockdownload,
    })
}

/// Decodes an answer to `getblockhash` or `getbestblockhash`.
///
/// # Errors
/// [`NoResult`].
pub fn hash(body: &[u8], id: u64) -> Result<BlockHash, NoResult> {
    result::<HashText>(body, id).map(|hash| hash.0)
}

/// Decodes an answer to a batch of `count` times `getblockhash`, numbered from 0.
///
/// # Errors
/// [`NoResult`] of the whole batch.
pub fn hashes(body: &[u8], count: usize) -> Result<Vec<Result<BlockHash, NoResult>>, NoResult> {
    let all = results::<HashText>(body, count)?;
    Ok(all.into_iter().map(|one| one.map(|hash| hash.0)).collect())
}

/// Decodes an answer to `getblock` with verbosity 0.
///
/// # Errors
/// [`NoResult`].
pub fn block(body: &[u8], id: u64) -> Result<Vec<u8>, NoResult> {
    result::<HexText>(body, id).map(|block| block.0)
}

/// Decodes an answer to a batch of `count` times `getblockheader` without details, numbered from 0.
///
/// # Errors
/// [`NoResult`] of the whole batch.
pub fn headers(body: &[u8], count: usize) -> Result<Vec<Result<[u8; HEADER_BYTES], NoResult>>, NoResult> {
    let header = |text: HexText| {
        let wrong = NoResult::Malformed("a header in it does not have 80 bytes".into());
        text.0.try_into().map_err(|_| wrong)
    };
    let all = results::<HexText>(body, count)?;
    Ok(all.into_iter().map(|one| one.and_then(header)).collect())
}

/// Decodes an answer that has no result.
///
/// # Errors
/// [`NoResult`].
pub fn nothing(body: &[u8], id: u64) -> Result<(), NoResult> {
    match result::<serde::de::IgnoredAny>(body, id) {
        Err(NoResult::Malformed(why)) if why != NEITHER => Err(NoResult::Malformed(why)),
        Err(NoResult::Error(error)) => Err(NoResult::Error(error)),
        _ => Ok(()),
    }
}

/// Decodes the answer to a batch of `getblockheader` without details (id 0) and with details (id 1): the header, and
/// its height in the best chain. For a block outside that chain Bitcoin Core reports -1 confirmations, and btcd an
/// error.
///
/// # Errors
/// [`NoResult`].
pub fn header(body: &[u8]) -> Result<Header, NoResult> {
    let malformed = |why: &str| NoResult::Malformed(why.into());
    let mut answers = results::<serde_json::Value>(body, 2)?.into_iter();
    let (Some(raw), Some(details)) = (answers.next(), answers.next()) else {
        return Err(malformed("the batch has fewer answers than requests"));
    };
    let raw = raw?;
    let digits = raw.as_str().and_then(hex::array_from_hex);
    let height = match details {
        Ok(details) => {
            let details: VerboseHeader =
                serde_json::from_value(details).map_err(|error| malformed(&error.to_string()))?;
            (details.confirmations >= 0).then_some(details.height)
        }
        Err(NoResult::Error(RpcError { code, .. })) if code != IN_WARMUP => None,
        Err(error) => return Err(error),
    };
    Ok(Header {
        raw: digits.ok_or_else(|| malformed("a header does not have 80 bytes"))?,
        height,
    })
}

/// Decodes an answer to `getzmqnotifications`: pairs of type (`pubhashblock`) and address (`tcp://127.0.0.1:28332`).
///
/// # Errors
/// [`NoResult`].
pub fn zmq_notifications(body: &[u8], id: u64) -> Result<Vec<(String, String)>, NoResult> {
    let all: Vec<ZmqNotification> = result(body, id)?;
    Ok(all.into_iter().map(|one| (one.r#type, one.address)).collect())
}

#[derive(Deserialize)]
struct Notification {
    method: Option<String>,
    #[serde(default)]
    params: Vec<serde_json::Value>,
}

/// Message on the web socket of btcd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SocketMessage {
    /// Answer to a request.
    Answer,
    /// A block was connected to the best chain or disconnected from it, with its hash if the message has one.
    Block(Option<BlockHash>),
    /// Any other notification.
    Other,
}

/// Decodes a message on the web socket of btcd.
pub fn socket_message(body: &[u8]) -> SocketMessage {
    let Ok(Notification {
        method: Some(method),
        params,
    }) = serde_json::from_slice(body)
    else {
        return SocketMessage::Answer;
    };
    let text = |at: usize| params.get(at).and_then(serde_json::Value::as_str);
    match method.as_str() {
        // The parameters are the block's hash, its height and its time.
        "blockconnected" | "blockdisconnected" => {
            SocketMessage::Block(text(0).and_then(|text| text.parse().ok()))
        }
        // The parameters are the block's height, its header and its transactions.
        "filteredblockconnected" | "filteredblockdisconnected" => {
            let header = text(1).and_then(hex::array_from_hex::<HEADER_BYTES>);
            SocketMessage::Block(header.map(|header| BlockHash::of_header(&header)))
        }
        _ => SocketMessage::Other,
    }
}

/// Returns a text of the node in a form for messages: one line without control characters, of at most
/// [`NODE_TEXT_CHARS_MAX`] characters.
pub(crate) fn cleaned_text(text: &str) -> String {
    let shown = text.trim().chars();
    let clean = |c: char| if c.is_control() { ' ' } else { c };
    shown.take(NODE_TEXT_CHARS_MAX).map(clean).collect()
}

/// Converts the reason why an answer has no result into a fault of the call.
pub(crate) fn fault_of(call: &'static str, no_result: NoResult) -> NodeFault {
    match no_result {
        NoResult::Malformed(why) => NodeFault::Malformed {
            call,
            why: cleaned_text(&why),
        },
        NoResult::Error(RpcError { code, message }) => {
            let message = cleaned_text(&message);
            match code {
                IN_WARMUP => NodeFault::WarmingUp { message },
                _ => NodeFault::Rpc { call, code, message },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f";

    #[test]
    fn an_answer_has_a_result_or_an_error_and_the_id_of_its_request() {
        let body = format!(r#"{{"result":"{HASH}","error":null,"id":7}}"#);
        assert_eq!(hash(body.as_bytes(), 7), Ok(HASH.parse().unwrap()));
        assert!(matches!(hash(body.as_bytes(), 8), Err(NoResult::Malformed(_))));
        let body = br#"{"result":null,"error":{"code":-8,"message":"Block height out of range"},"id":7}"#;
        let Err(NoResult::Error(error)) = hash(body, 7) else {
            panic!("the answer must be an error")
        };
        assert_eq!(
            (error.code, error.message.as_str()),
            (-8, "Block height out of range")
        );
        let body = br#"{"jsonrpc":"2.0","error":{"code":-28,"message":"Verifying blocks\n"},"id":7}"#;
        let fault = fault_of("getblockhash", hash(body, 7).unwrap_err());
        assert!(matches!(fault, NodeFault::WarmingUp { message } if message == "Verifying blocks"));
        for body in [
            "",
            "{",
            "{}",
            "[]",
            "null",
            r#"{"result":null,"error":null,"id":7}"#,
            r#"{"result":"00","id":7}"#,
            r#"{"result":3,"error":null,"id":7}"#,
        ] {
            assert!(
                matches!(hash(body.as_bytes(), 7), Err(NoResult::Malformed(_))),
                "{body}"
            );
        }
    }

    #[test]
    fn answers_of_a_batch_are_sorted_and_must_be_complete() {
        let one = |id: &str| format!(r#"{{"result":"{HASH}","error":null,"id":{id}}}"#);
        let gone = r#"{"result":null,"error":{"code":-8,"message":"gone"},"id":0}"#;
        let found = hashes(format!("[{},{gone}]", one("1")).as_bytes(), 2).unwrap();
        assert!(matches!(&found[..], [Err(NoResult::Error(_)), Ok(_)]));
        for wrong in [
            format!("[{}]", one("1")),
            format!("[{},{}]", one("1"), one("1")),
            format!("[{},{}]", one("0"), one("2")),
            format!("[{},{}]", one("0"), one("null")),
            one("0"),
            String::new(),
        ] {
            assert!(hashes(wrong.as_bytes(), 2).is_err(), "{wrong}");
        }
    }

    #[test]
    fn hexadecimal_text_has_pairs_of_digits_of_either_case() {
        let text: String = (0..=255).map(|byte: u8| format!("{byte:02x}")).collect();
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(bytes_of(text.as_bytes()), Some(bytes.clone()));
        assert_eq!(bytes_of(text.to_uppercase().as_bytes()), Some(bytes));
        for wrong in ["0", "0g", "g0", "\u{e9}", "0:", "/0", "@0", "`0"] {
            assert_eq!(bytes_of(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn notifications_of_blocks_are_distinguished_from_answers() {
        let connected =
            format!(r#"{{"jsonrpc":"1.0","method":"blockconnected","params":["{HASH}",0,1],"id":null}}"#);
        let block = SocketMessage::Block(HASH.parse().ok());
        assert_eq!(socket_message(connected.as_bytes()), block);
        let header = "0100000000000000000000000000000000000000000000000000000000000000000000003ba3edfd7a7b12b27a\
                      c72c3e67768f617fc81bc3888a51323a9fb8aa4b1e5e4a29ab5f49ffff001d1dac2b7c";
        let filtered =
            format!(r#"{{"method":"filteredblockdisconnected","params":[0,"{header}"],"id":null}}"#);
        assert_eq!(socket_message(filtered.as_bytes()), block);
        let answer = br#"{"jsonrpc":"1.0","result":null,"error":null,"id":1}"#;
        assert_eq!(socket_message(answer), SocketMessage::Answer);
        assert_eq!(
            socket_message(br#"{"method":"txaccepted"}"#),
            SocketMessage::Other
        );
        assert_eq!(
            socket_message(br#"{"method":"blockconnected"}"#),
            SocketMessage::Block(None)
        );
    }
}

//! Answers to queries of the system chaincodes `qscc` and `cscc`, which the peer CLI and SDKs send in signed proposals.

use super::messages::{
    BlockchainInfo, ChaincodeResponse, ChannelInfo, ChannelQueryResponse, EvaluateRequest, EvaluateResponse,
    OrdererBlockMetadata, ProcessedTransaction, ProposalResponse, SignedProposal,
};
use super::proposal::Call;
use super::{Out, only_message};
use crate::deliver::{Client, Shared};
use crate::session::{Session, run_blocking};
use crate::source::CommittedSource;
use bytes::Bytes;
use lineside_fabric::block::Block;
use lineside_fabric::ledger::TxPosition;
use lineside_fabric::proto::{self, Arena};
use lineside_util::hex::to_hex;
use prost::Message;
use std::sync::Arc;
use tonic::{Status, Streaming};

/// Status of a chaincode response that contains a result.
const OK: i32 = 200;
/// Status of a chaincode response that contains only an error message.
const ERROR: i32 = 500;
/// Message that refuses a call of a chaincode that only peers execute.
const NO_CHAINCODE: &str = "a replica executes no chaincode: send the proposal to a peer. A replica answers the \
                            queries of qscc and cscc; to read committed keys, run `lineside fabric state`";
/// Message that refuses a function of cscc that would change the channels of a peer.
const CANNOT_CHANGE_PEER: &str =
    "a replica takes its channels from its configuration: [[fabric]] in lineside.toml";

/// Answers `protos.Endorser/ProcessProposal`.
///
/// # Errors
/// The status with which the call ends.
pub(crate) async fn process_proposal(
    shared: &Shared,
    client: &Client,
    mut requests: Streaming<SignedProposal>,
    out: &Out<ProposalResponse>,
) -> Result<(), Status> {
    let signed = only_message(shared, &mut requests).await?;
    let response = Some(answer(shared, client, signed).await?);
    // Sending fails only if the client has disconnected; it then needs no answer.
    let _ = out.send(Ok(ProposalResponse { response })).await;
    Ok(())
}

/// Answers `gateway.Gateway/Evaluate`, with which the gateway's clients query qscc and cscc.
///
/// # Errors
/// The status with which the call ends; UNKNOWN if the query has no result, as with a peer's gateway.
pub(crate) async fn evaluate(
    shared: &Shared,
    client: &Client,
    mut requests: Streaming<EvaluateRequest>,
    out: &Out<EvaluateResponse>,
) -> Result<(), Status> {
    let request = only_message(shared, &mut requests).await?;
    let signed = request.proposed_transaction;
    let signed = signed.ok_or_else(|| Status::invalid_argument("a proposed transaction is required"))?;
    let response = answer(shared, client, signed).await?;
    if response.status != OK {
        let ChaincodeResponse { status, message, .. } = response;
        return Err(Status::unknown(format!(
            "evaluate call returned error: chaincode response {status}, {message}"
        )));
    }
    let result = Some(response);
    let _ = out.send(Ok(EvaluateResponse { result })).await;
    Ok(())
}

/// Answers a proposal.
///
/// # Errors
/// UNIMPLEMENTED: the proposal is for another chaincode. INVALID_ARGUMENT: the proposal is malformed.
async fn answer(
    shared: &Shared,
    client: &Client,
    signed: SignedProposal,
) -> Result<ChaincodeResponse, Status> {
    let call = Call::read(signed)?;
    if !matches!(call.chaincode.as_str(), "qscc" | "cscc") {
        return Err(Status::unimplemented(NO_CHAINCODE));
    }
    if !call.channel.is_empty() && shared.source(&call.channel).is_none() {
        return Ok(failed(format!("channel '{}' not found", call.channel)));
    }
    let answered = match call.chaincode.as_str() {
        "qscc" => query(shared, client, &call).await?,
        _ => configuration(shared, client, &call).await?,
    };
    Ok(answered.unwrap_or_else(failed))
}

fn failed(message: String) -> ChaincodeResponse {
    ChaincodeResponse {
        status: ERROR,
        message,
        payload: Bytes::new(),
    }
}

/// Response of a chaincode, or its error message.
type ChaincodeResult = Result<ChaincodeResponse, String>;

/// Maximum number of bytes of an argument that an error message repeats.
const QUOTED_BYTES_MAX: usize = 256;

/// Returns an argument as text, for a comparison or a message. A long argument is truncated.
fn text(argument: &[u8]) -> String {
    let shown = argument.get(..QUOTED_BYTES_MAX).unwrap_or(argument);
    String::from_utf8_lossy(shown).into_owned()
}

fn argument(call: &Call, index: usize) -> String {
    text(call.args.get(index).map(Bytes::as_ref).unwrap_or_default())
}

/// Answers a function of qscc.
async fn query(shared: &Shared, client: &Client, call: &Call) -> Result<ChaincodeResult, Status> {
    let (function, channel) = (argument(call, 0), argument(call, 1));
    let Some(query) = Query::of(&function) else {
        return Ok(Err(format!("Requested function {function} not found.")));
    };
    let Some(source) = shared.source(&channel) else {
        return Ok(Err(format!("Invalid chain ID, {channel}")));
    };
    let Some(of) = call
        .args
        .get(2)
        .cloned()
        .or((query == Query::ChainInfo).then(Bytes::new))
    else {
        return Ok(Err(format!("missing 3rd argument for {function}")));
    };
    if !permitted(source, &format!("qscc/{function}"), call).await? {
        return Ok(Err(permission_denied_text(&function, &channel)));
    }
    read_within(shared, client, source, move |source| query.read(source, &of)).await
}

/// Answers a function of cscc.
async fn configuration(shared: &Shared, client: &Client, call: &Call) -> Result<ChaincodeResult, Status> {
    let (function, channel) = (argument(call, 0), argument(call, 1));
    match function.as_str() {
        "GetChannels" => channels(shared, call).await,
        "GetConfigBlock" => {
            let Some(source) = shared.source(&channel) else {
                return Ok(Err(format!("Unknown channel ID, {channel}")));
            };
            if !permitted(source, "cscc/GetConfigBlock", call).await? {
                return Ok(Err(permission_denied_text(&function, &channel)));
            }
            read_within(shared, client, source, config_block).await
        }
        "JoinChain" | "JoinChainBySnapshot" | "JoinBySnapshotStatus" => {
            Ok(Err(CANNOT_CHANGE_PEER.to_owned()))
        }
        _ => Ok(Err(format!("Requested function {function} not found."))),
    }
}

/// Lists the channels that the client may read. A peer lists all its channels, but only to members of its
/// organisation.
async fn channels(shared: &Shared, call: &Call) -> Result<ChaincodeResult, Status> {
    let mut channels = Vec::new();
    for source in &shared.sources {
        // The list leaves out a channel whose configuration is not known, because it is not known who may read that
        // channel.
        if !source.withholds() && permitted(source, "qscc/GetChainInfo", call).await? {
            let channel_id = source.channel().to_owned();
            channels.push(ChannelInfo { channel_id });
        }
    }
    if channels.is_empty() {
        return Ok(Err(
            "access denied for [GetChannels]: no channel of this replica permits it".to_owned(),
        ));
    }
    let list = ChannelQueryResponse { channels };
    Ok(Ok(success_response(list.encode_to_vec().into())))
}

async fn permitted(source: &Arc<dyn CommittedSource>, resource: &str, call: &Call) -> Result<bool, Status> {
    let (creator, signature) = (call.creator.clone(), call.signature.clone());
    Session::new(source, resource, creator, call.signed.clone(), signature)
        .permitted()
        .await
}

fn permission_denied_text(function: &str, channel: &str) -> String {
    format!(
        "access denied for [{function}][{channel}]: the channel's policy does not permit this identity, or the \
             certificate or the signature is not valid"
    )
}

fn success_response(payload: Bytes) -> ChaincodeResponse {
    ChaincodeResponse {
        status: OK,
        message: String::new(),
        payload,
    }
}

/// Reads the payload of a response as soon as the limit on bytes in transit to clients admits it.
async fn read_within(
    shared: &Shared,
    client: &Client,
    source: &Arc<dyn CommittedSource>,
    read: impl Fn(&dyn CommittedSource) -> Result<Bytes, String> + Clone + Send + 'static,
) -> Result<ChaincodeResult, Status> {
    loop {
        let reading = shared.reads.acquire().await;
        let (from, read) = (Arc::clone(source), read.clone());
        let payload = match run_blocking(move || read(&*from)).await? {
            Ok(payload) => payload,
            Err(message) => return Ok(Err(message)),
        };
        if let Some(counted) = client.answers.count_until_encoded(&payload) {
            return Ok(Ok(success_response(counted)));
        }
        drop((payload, reading));
        client.answers.freed().await;
    }
}

/// Function of qscc.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Query {
    ChainInfo,
    BlockByNumber,
    BlockByHash,
    BlockByTxId,
    TransactionById,
}

impl Query {
    fn of(function: &str) -> Option<Self> {
        Some(match function {
            "GetChainInfo" => Self::ChainInfo,
            "GetBlockByNumber" => Self::BlockByNumber,
            "GetBlockByHash" => Self::BlockByHash,
            "GetBlockByTxID" => Self::BlockByTxId,
            "GetTransactionByID" => Self::TransactionById,
            _ => return None,
        })
    }

    /// Returns the payload of the response, or an error message.
    fn read(self, source: &dyn CommittedSource, of: &[u8]) -> Result<Bytes, String> {
        match self {
            Self::ChainInfo => chain_info(source),
            Self::BlockByNumber => block_by_number(source, of),
            Self::BlockByHash => block_by_hash(source, of),
            Self::BlockByTxId => {
                let location = place_of(source, of)?;
                source.block(location.block).map_err(|error| error.to_string())
            }
            Self::TransactionById => transaction(source, of),
        }
    }
}

/// Returns the newest block that is visible to clients.
fn newest(source: &dyn CommittedSource) -> Result<(u64, Bytes), String> {
    let height = *source.heights().borrow();
    let number = height.checked_sub(1).ok_or("the channel has no blocks")?;
    Ok((height, source.block(number).map_err(|error| error.to_string())?))
}

fn chain_info(source: &dyn CommittedSource) -> Result<Bytes, String> {
    let (height, bytes) = newest(source)?;
    let arena = Arena::new();
    let block = Block::read(&bytes, &arena).map_err(|error| error.to_string())?;
    let info = BlockchainInfo {
        height,
        current_block_hash: block.hash().to_vec(),
        previous_block_hash: block.previous_hash.to_vec(),
    };
    Ok(info.encode_to_vec().into())
}

/// Reads the block with a number in decimal; 2^64-1 means the newest block.
fn block_by_number(source: &dyn CommittedSource, number: &[u8]) -> Result<Bytes, String> {
    let text = std::str::from_utf8(number).ok();
    let digits = text.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let number: Option<u64> = digits.and_then(|digits| digits.parse().ok());
    let number = number.ok_or("Failed to parse block number: it is not a number in decimal")?;
    if number == u64::MAX {
        return Ok(newest(source)?.1);
    }
    if number >= *source.heights().borrow() {
        return Err(format!(
            "Failed to get block number {number}, error no such block number [{number}] in index"
        ));
    }
    source.block(number).map_err(|error| error.to_string())
}

fn block_by_hash(source: &dyn CommittedSource, hash: &[u8]) -> Result<Bytes, String> {
    let known = <[u8; 32]>::try_from(hash).ok();
    let number = known.and_then(|hash| source.number_of(&hash));
    let number = number.ok_or_else(|| {
        let shown = hash.get(..QUOTED_BYTES_MAX).unwrap_or(hash);
        let hash = to_hex(shown);
        format!("Failed to get block hash: no such block hash [{hash}] in index")
    })?;
    source.block(number).map_err(|error| error.to_string())
}

fn place_of(source: &dyn CommittedSource, id: &[u8]) -> Result<TxPosition, String> {
    let text = text(id);
    let place = match std::str::from_utf8(id) {
        Ok(id) => source.transaction(id).map_err(|error| error.to_string())?,
        Err(_) => None,
    };
    place.ok_or_else(|| {
        format!("Failed to get transaction with id {text}, error no such transaction ID [{text}] in index")
    })
}

fn transaction(source: &dyn CommittedSource, id: &[u8]) -> Result<Bytes, String> {
    let location = place_of(source, id)?;
    let bytes = source.block(location.block).map_err(|error| error.to_string())?;
    let arena = Arena::new();
    let block = Block::read(&bytes, &arena).map_err(|error| error.to_string())?;
    let envelope = usize::try_from(location.index)
        .ok()
        .and_then(|index| block.transactions.get(index));
    let envelope = envelope.ok_or("the block does not contain the transaction")?;
    let processed = ProcessedTransaction {
        transaction_envelope: Bytes::copy_from_slice(envelope),
        validation_code: location.code as i32,
    };
    Ok(processed.encode_to_vec().into())
}

fn config_block(source: &dyn CommittedSource) -> Result<Bytes, String> {
    let (_, bytes) = newest(source)?;
    let arena = Arena::new();
    let block = Block::read(&bytes, &arena).map_err(|error| error.to_string())?;
    let number =
        last_config(&block).ok_or("the newest block does not name the block with the configuration")?;
    source.block(number).map_err(|error| error.to_string())
}

/// Returns the number of the block whose configuration was in force when `block` was made, as the orderer recorded it
/// in the metadata of `block`.
pub fn last_config(block: &Block<'_>) -> Option<u64> {
    let arena = Arena::new();
    let signatures: proto::Metadata<'_> = proto::decode(block.metadata.first()?, &arena).ok()?;
    let signed = OrdererBlockMetadata::decode(signatures.value).ok()?;
    Some(signed.last_config?.index)
}

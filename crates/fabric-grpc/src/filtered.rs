//! Filtered blocks: ids, types, codes and chaincode events of a block's transactions, without payloads.

use crate::messages::{
    ChaincodeEvent, FilteredBlock, FilteredChaincodeAction, FilteredTransaction, FilteredTransactionActions,
};
use bytes::Bytes;
use lineside_fabric::TxCode;
use lineside_fabric::block::{Block, header_type};
use lineside_fabric::proto::{
    self, Arena, ChaincodeAction, ChaincodeActionPayload, ChannelHeader, Envelope, Malformed, Payload,
    ProposalResponsePayload, Transaction, wire,
};
use prost::Message;

/// Decodes a filtered block as sent by `DeliverFiltered`; `None` if the bytes are invalid.
pub fn read_filtered(bytes: Bytes) -> Option<FilteredBlock> {
    FilteredBlock::decode(bytes).ok()
}

/// Makes the filtered block that `DeliverFiltered` sends for a committed block.
///
/// A peer ends the stream at a transaction whose events it cannot read. This function includes such a transaction
/// without events, and leaves it out only if its header cannot be read.
pub fn filter(block: &[u8]) -> Result<FilteredBlock, lineside_fabric::Error> {
    let arena = Arena::new();
    let block = Block::read(block, &arena)?;
    let codes = block.filter();
    let mut filtered = FilteredBlock {
        number: block.number,
        ..FilteredBlock::default()
    };
    for (index, bytes) in block.transactions.iter().enumerate() {
        let Ok(Some((payload, header))) = header(bytes, &arena) else {
            continue;
        };
        let code = codes.get(index).copied().unwrap_or(TxCode::NotValidated as u8);
        let endorser = header.kind == header_type::ENDORSER_TRANSACTION;
        let actions = endorser.then(|| FilteredTransactionActions {
            chaincode_actions: events(payload.data, &arena).unwrap_or_default(),
        });
        header.channel_id.clone_into(&mut filtered.channel_id);
        filtered.filtered_transactions.push(FilteredTransaction {
            txid: header.tx_id.to_owned(),
            kind: header.kind,
            tx_validation_code: i32::from(code),
            transaction_actions: actions,
        });
    }
    Ok(filtered)
}

type HeadedPayload<'a> = Option<(Payload<'a>, ChannelHeader<'a>)>;

fn header<'a>(bytes: &'a [u8], arena: &'a Arena) -> Result<HeadedPayload<'a>, Malformed> {
    let envelope: Envelope<'_> = proto::decode(bytes, arena)?;
    let payload: Payload<'_> = proto::decode(envelope.payload, arena)?;
    let Some(header) = payload.header.as_ref().map(|header| header.channel_header) else {
        return Ok(None);
    };
    Ok(Some((payload, proto::decode(header, arena)?)))
}

fn events(data: &[u8], arena: &Arena) -> Result<Vec<FilteredChaincodeAction>, Malformed> {
    let transaction: Transaction<'_> = proto::decode(data, arena)?;
    let mut actions = Vec::new();
    for action in &transaction.actions {
        let Some(event) = event(action.payload, arena)? else {
            continue;
        };
        if !event.chaincode_id.is_empty() {
            actions.push(FilteredChaincodeAction {
                chaincode_event: Some(ChaincodeEvent {
                    chaincode_id: event.chaincode_id.to_owned(),
                    tx_id: event.tx_id.to_owned(),
                    event_name: event.event_name.to_owned(),
                    ..ChaincodeEvent::default()
                }),
            });
        }
    }
    Ok(actions)
}

/// Returns a transaction's id and, if it is valid, its chaincode events with their payloads; `None` if its header
/// cannot be read. Like a peer's gateway, this function leaves out events without a chaincode, a name or a transaction
/// id.
pub(crate) fn chaincode_events<'a>(
    envelope: &'a [u8],
    is_valid: bool,
    arena: &'a Arena,
) -> Option<(&'a str, Vec<proto::ChaincodeEvent<'a>>)> {
    let (payload, header) = header(envelope, arena).ok()??;
    if !is_valid || header.kind != header_type::ENDORSER_TRANSACTION {
        return Some((header.tx_id, Vec::new()));
    }
    let transaction: Transaction<'a> = proto::decode(payload.data, arena).unwrap_or_default();
    let events = transaction.actions.iter().filter_map(|action| {
        let event = event(action.payload, arena).ok()??;
        let is_named = ![event.chaincode_id, event.event_name, event.tx_id].contains(&"");
        is_named.then_some(event)
    });
    Some((header.tx_id, events.collect()))
}

/// Returns the event in the payload of an action; `None` if the action is not endorsed.
fn event<'a>(action: &'a [u8], arena: &'a Arena) -> Result<Option<proto::ChaincodeEvent<'a>>, Malformed> {
    let payload: ChaincodeActionPayload<'a> = proto::decode(action, arena)?;
    let Some(endorsed) = payload.action else {
        return Ok(None);
    };
    let response: ProposalResponsePayload<'a> = proto::decode(endorsed.proposal_response_payload, arena)?;
    let action: ChaincodeAction<'a> = proto::decode(response.extension, arena)?;
    Ok(Some(proto::decode(action.events, arena)?))
}

/// Returns a block without its transactions, except for those that set the configuration.
pub(crate) fn without_data(bytes: &[u8]) -> Result<Vec<u8>, lineside_fabric::Error> {
    let arena = Arena::new();
    let block = Block::read(bytes, &arena)?;
    let mut out = Vec::new();
    let mut header = Vec::new();
    wire::put_number(&mut header, 1, block.number);
    for (number, hash) in [(2, block.previous_hash), (3, block.data_hash)] {
        if !hash.is_empty() {
            wire::put_bytes(&mut header, number, hash);
        }
    }
    if block.is_config() {
        return Ok(bytes.to_vec());
    }
    wire::put_bytes(&mut out, 1, &header);
    let mut metadata = Vec::new();
    for entry in &block.metadata {
        wire::put_bytes(&mut metadata, 1, entry);
    }
    wire::put_bytes(&mut out, 3, &metadata);
    Ok(out)
}

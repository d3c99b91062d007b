//! Endorser transactions: the data that creators and endorsers sign, and the envelope around it.

use crate::block::signature_header;
use crate::fault::Fault;
use crate::network::{Identity, Network};
use crate::proto::Out;
use crate::sign::sign_all;
use sha2::{Digest, Sha256};

/// Number of transactions whose signatures are made together. The batches, and so the nonces, do not depend on the
/// number of threads.
pub(crate) const BATCH: usize = 128;

/// Request to a chaincode with its result, from which a transaction is made.
#[derive(Clone, Debug)]
pub(crate) struct Proposal<'n> {
    pub creator: &'n Identity,
    pub nonce: [u8; 24],
    /// Time in seconds since 1970.
    pub seconds: u64,
    pub nanos: u64,
    pub chaincode: &'n str,
    pub version: &'n str,
    /// `ChaincodeSpec.type`: 1 for Go, 0 for a chaincode of the peer itself.
    pub kind: u64,
    pub args: Vec<Vec<u8>>,
    /// `TxReadWriteSet` of the call.
    pub results: Vec<u8>,
    pub endorsers: Vec<&'n Identity>,
    pub fault: Option<Fault>,
}

fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    let hash = parts
        .iter()
        .fold(Sha256::new(), |hash, part| hash.chain_update(part));
    hash.finalize().into()
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |half: u8| char::from(DIGITS[usize::from(half)]);
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)])
        .collect()
}

/// Proposal with the data that its endorsers sign.
struct Draft<'n> {
    channel_header: Vec<u8>,
    signature_header: Vec<u8>,
    proposal_payload: Vec<u8>,
    response: Vec<u8>,
    creator: &'n Identity,
    endorsers: Vec<&'n Identity>,
    fault: Option<Fault>,
}

fn draft<'n>(channel: &str, mut proposal: Proposal<'n>, network: &'n Network) -> Draft<'n> {
    use Fault::*;
    let fault = proposal.fault;
    let is = |other| fault == Some(other);
    let odd = network.odd();
    let creator = match fault {
        Some(CreatorRevoked) => &odd.revoked,
        Some(CreatorNoUnit) => &odd.no_unit,
        Some(CreatorTwoUnits) => &odd.two_units,
        Some(CreatorForeignCa) => &odd.foreign,
        Some(CreatorUnknownMsp) => &odd.unknown_msp,
        Some(CreatorIsCa) => &odd.ca,
        Some(CreatorExpired) => &odd.expired,
        Some(CreatorIsPeer) => network.peer(0),
        _ => proposal.creator,
    };
    match fault {
        Some(EndorserMissing) => drop(proposal.endorsers.pop()),
        Some(NoEndorsements) => proposal.endorsers.clear(),
        Some(EndorsementsReversed) => proposal.endorsers.reverse(),
        Some(EndorserIsClient) => {
            proposal.endorsers.pop();
            proposal.endorsers.push(network.client(0));
        }
        Some(ExtraBadEndorsement) => proposal.endorsers.push(&network.orgs[0].admin),
        _ => {}
    }
    let nonce: &[u8] = if is(EmptyNonce) { &[] } else { &proposal.nonce };
    let mut id = sha256(&[nonce, &creator.serialized]);
    let tx_id = hex(&id);
    if is(TxId) {
        id[0] ^= 1;
    }
    let kind = match fault {
        Some(HeaderType) => 0,
        Some(ConfigUpdate) => 2,
        _ => 3,
    };
    let name = if is(ChaincodeUnknown) {
        "nothing"
    } else {
        proposal.chaincode
    };
    let chaincode = Out::new().bytes(2, name);
    let extension = match is(HeaderExtension) {
        true => Out::new().bytes(2, [0xff]),
        false => Out::new().message(2, chaincode.clone()),
    };
    let timestamp = Out::new().number(1, proposal.seconds).number(2, proposal.nanos);
    let channel_header = Out::new()
        .number(1, kind)
        .message(3, timestamp)
        .bytes(4, channel)
        .bytes(5, hex(&id))
        .number(6, is(Epoch).into())
        .message(7, extension);
    let channel_header = channel_header.done();
    let signature_header = match is(EmptyNonce) {
        true => Out::new().bytes(1, &creator.serialized).done(),
        false => signature_header(creator, nonce),
    };

    let input = Out::new().each(1, &proposal.args);
    let spec = Out::new()
        .number(1, proposal.kind)
        .message(2, chaincode.clone())
        .message(3, input);
    let proposal_payload = Out::new().bytes(1, Out::new().message(1, spec)).done();
    let mut hash = sha256(&[&channel_header, &signature_header, &proposal_payload]);
    if is(ProposalHash) {
        hash[0] ^= 1;
    }
    let event = Out::new().bytes(1, "another").bytes(2, tx_id).bytes(3, "event");
    let results = if is(Rwset) { vec![0xff] } else { proposal.results };
    let action = Out::new()
        .bytes(1, results)
        .some(2, if is(EventOfAnother) { event } else { Out::new() })
        .message(3, Out::new().number(1, 200));
    let version = if is(ChaincodeVersionEmpty) {
        ""
    } else {
        proposal.version
    };
    let action = match is(NoChaincodeId) {
        true => action,
        false => action.message(4, chaincode.some(3, version)),
    };
    let action = match is(ResponsePayload) {
        true => Out::new().bytes(4, [0xff]),
        false => action,
    };
    Draft {
        channel_header,
        signature_header,
        proposal_payload,
        response: Out::new().bytes(1, hash).message(2, action).done(),
        creator,
        endorsers: proposal.endorsers,
        fault,
    }
}

fn payload(mut draft: Draft<'_>, endorsements: impl Iterator<Item = Out>) -> Vec<u8> {
    use Fault::*;
    if draft.fault == Some(Payload) {
        return vec![0xff];
    }
    if draft.fault == Some(ResponseChanged) {
        // Change the status in the encoded response from 200 to 201.
        let status = [0x1a, 3, 8, 0xc8, 1];
        if let Some(at) = draft.response.windows(5).rposition(|bytes| bytes == status) {
            draft.response[at + 3] += 1;
        }
    }
    let action = Out::new().bytes(1, &draft.response).each(2, endorsements);
    let action = Out::new().bytes(1, &draft.proposal_payload).message(2, action);
    let action = Out::new().bytes(1, &draft.signature_header).message(2, action);
    let actions = if draft.fault == Some(TwoActions) { 2 } else { 1 };
    let transaction = Out::new().each(1, std::iter::repeat_n(&action, actions));
    let header = Out::new()
        .bytes(1, &draft.channel_header)
        .bytes(2, &draft.signature_header);
    Out::new().message(1, header).message(2, transaction).done()
}

/// Returns the envelopes of a batch. The label determines the nonces of the signatures.
pub(crate) fn envelopes(network: &Network, label: &[&[u8]], batch: Vec<Proposal<'_>>) -> Vec<Vec<u8>> {
    let channel = network.options.channel.as_str();
    let drafts: Vec<_> = batch
        .into_iter()
        .map(|proposal| draft(channel, proposal, network))
        .collect();
    let mut claims = Vec::with_capacity(drafts.len() * 4);
    for draft in &drafts {
        // Each endorser signs the common response followed by its own identity.
        let common = Sha256::new().chain_update(&draft.response);
        let last = draft.endorsers.len().saturating_sub(1);
        for (number, endorser) in draft.endorsers.iter().enumerate() {
            let digest = common.clone().chain_update(&endorser.serialized).finalize();
            let mut digest: [u8; 32] = digest.into();
            let bad = matches!(
                draft.fault,
                Some(Fault::EndorserSignature | Fault::ExtraBadEndorsement)
            );
            if bad && number == last {
                digest[0] ^= 1;
            }
            claims.push((&endorser.key, digest));
        }
    }
    let mut signatures = sign_all(&[label, &[b"endorsers"]].concat(), &claims).into_iter();
    let of_drafts = drafts.into_iter().map(|draft| {
        let (fault, creator) = (draft.fault, draft.creator);
        let endorsers = draft.endorsers.clone();
        let last = endorsers.len().saturating_sub(1);
        let signed = endorsers.iter().zip(&mut signatures).enumerate();
        let endorsement = |(number, (endorser, signature)): (usize, (&&Identity, crate::sign::Signature))| {
            let here = fault.filter(|_| number == last);
            Out::new()
                .bytes(1, &endorser.serialized)
                .bytes(2, der(here, true, signature))
        };
        let endorsements: Vec<_> = signed.map(endorsement).collect();
        (fault, creator, payload(draft, endorsements.into_iter()))
    });
    let payloads: Vec<_> = of_drafts.collect();
    let claims: Vec<_> = payloads
        .iter()
        .map(|(fault, creator, payload)| {
            let mut digest = sha256(&[payload]);
            if *fault == Some(Fault::CreatorSignature) {
                digest[0] ^= 1;
            }
            (&creator.key, digest)
        })
        .collect();
    let signatures = sign_all(&[label, &[b"creators"]].concat(), &claims);
    let all = payloads.iter().zip(signatures);
    all.map(|((fault, _, payload), signature)| {
        Out::new()
            .bytes(1, payload)
            .bytes(2, der(*fault, false, signature))
            .done()
    })
    .collect()
}

/// Returns the bytes of a signature in the transaction, changed if the fault requires it.
fn der(fault: Option<Fault>, endorser: bool, signature: crate::sign::Signature) -> Vec<u8> {
    match fault {
        Some(Fault::EndorserHighS) if endorser => signature.high_s().der(),
        Some(Fault::CreatorHighS) if !endorser => signature.high_s().der(),
        Some(Fault::BytesAfterSignatures) => [signature.der(), vec![0, 1]].concat(),
        _ => signature.der(),
    }
}

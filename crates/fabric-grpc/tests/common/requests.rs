//! Signed requests, as the clients of a peer make them.

use bytes::Bytes;
use lineside_fabric_grpc::Signer;
use lineside_fabric_grpc::gateway::messages::{
    ChaincodeHeaderExtension, ChaincodeId, ChaincodeInput, ChaincodeInvocationSpec, ChaincodeProposalPayload,
    ChaincodeSpec, ChannelHeader, Header, Proposal, SignatureHeader, SignedProposal, SignedRequest,
};
use lineside_util::hex::to_hex;
use prost::Message;
use sha2::{Digest, Sha256};

/// Returns a signed request.
pub fn signed(signer: &Signer, request: &impl Message) -> SignedRequest {
    let request = request.encode_to_vec();
    SignedRequest {
        signature: signer.sign(&request).into(),
        request: request.into(),
    }
}

/// Returns a signed proposal to call a chaincode. `channel` is the channel in its header; the peer CLI leaves it empty.
pub fn proposal(signer: &Signer, channel: &str, chaincode: &str, args: &[&[u8]]) -> SignedProposal {
    let nonce = b"twenty-four bytes, nonce".to_vec();
    let hash = Sha256::new().chain_update(&nonce).chain_update(signer.identity());
    let chaincode_id = Some(ChaincodeId {
        name: chaincode.into(),
    });
    let channel_header = ChannelHeader {
        kind: 3,
        channel_id: channel.into(),
        tx_id: to_hex(&hash.finalize()),
        extension: ChaincodeHeaderExtension { chaincode_id }.encode_to_vec().into(),
        ..ChannelHeader::default()
    };
    let by = SignatureHeader {
        creator: signer.identity().to_vec(),
        nonce,
    };
    let header = Header {
        channel_header: channel_header.encode_to_vec().into(),
        signature_header: by.encode_to_vec().into(),
    };
    let args = args
        .iter()
        .map(|argument| Bytes::copy_from_slice(argument))
        .collect();
    let chaincode_spec = Some(ChaincodeSpec {
        input: Some(ChaincodeInput { args }),
    });
    let input = ChaincodeInvocationSpec { chaincode_spec }.encode_to_vec().into();
    let proposal = Proposal {
        header: header.encode_to_vec().into(),
        payload: ChaincodeProposalPayload { input }.encode_to_vec().into(),
    };
    let proposal_bytes = Bytes::from(proposal.encode_to_vec());
    SignedProposal {
        signature: signer.sign(&proposal_bytes).into(),
        proposal_bytes,
    }
}

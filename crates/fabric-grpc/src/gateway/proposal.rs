//! Parser of signed proposals, with the checks that need no channel.

use super::messages::{
    ChaincodeHeaderExtension, ChaincodeInvocationSpec, ChaincodeProposalPayload, ChannelHeader, Header,
    Proposal, SignatureHeader, SignedProposal,
};
use bytes::Bytes;
use lineside_util::hex::to_hex;
use prost::Message;
use sha2::{Digest, Sha256};
use tonic::Status;

/// Header types that a peer accepts: `HeaderType_CONFIG` and `HeaderType_ENDORSER_TRANSACTION`.
const ACCEPTED_HEADER_TYPES: [i32; 2] = [1, 3];

/// Proposal to call a chaincode.
pub(super) struct Call {
    /// Chaincode named in the header.
    pub chaincode: String,
    /// Channel named in the header; empty in queries of the peer CLI.
    pub channel: String,
    /// Name of the function, then its arguments.
    pub args: Vec<Bytes>,
    /// Serialised identity of the client.
    pub creator: Vec<u8>,
    /// Bytes that the client signed.
    pub signed: Bytes,
    pub signature: Bytes,
}

impl Call {
    /// Parses a proposal, and checks its header as a peer does.
    ///
    /// # Errors
    /// INVALID_ARGUMENT: the proposal is malformed, or its header is not valid.
    pub fn read(signed: SignedProposal) -> Result<Self, Status> {
        let proposal: Proposal = decode(&signed.proposal_bytes, "proposal")?;
        let header: Header = decode(&proposal.header, "header")?;
        let channel: ChannelHeader = decode(&header.channel_header, "channel header")?;
        let by: SignatureHeader = decode(&header.signature_header, "signature header")?;
        check_header(&channel, &by).map_err(wrong)?;
        let extension: ChaincodeHeaderExtension = decode(&channel.extension, "header extension")?;
        let chaincode = extension.chaincode_id.map(|id| id.name).unwrap_or_default();
        if chaincode.is_empty() {
            return Err(wrong("the proposal names no chaincode"));
        }
        let payload: ChaincodeProposalPayload = decode(&proposal.payload, "payload")?;
        let invocation: ChaincodeInvocationSpec = decode(&payload.input, "invocation")?;
        let input = invocation.chaincode_spec.and_then(|spec| spec.input);
        Ok(Self {
            chaincode,
            channel: channel.channel_id,
            args: input
                .ok_or_else(|| wrong("the proposal has no chaincode input"))?
                .args,
            creator: by.creator,
            signed: signed.proposal_bytes,
            signature: signed.signature,
        })
    }
}

fn decode<T: Message + Default>(bytes: &Bytes, what: &str) -> Result<T, Status> {
    T::decode(bytes.clone()).map_err(|_| wrong(&format!("the message {what} cannot be read")))
}

fn wrong(what: &str) -> Status {
    Status::invalid_argument(format!("error validating proposal: {what}"))
}

fn check_header(channel: &ChannelHeader, by: &SignatureHeader) -> Result<(), &'static str> {
    if !ACCEPTED_HEADER_TYPES.contains(&channel.kind) {
        return Err("the header type is not ENDORSER_TRANSACTION");
    }
    if channel.epoch != 0 {
        return Err("the epoch in the header is not 0");
    }
    if by.nonce.is_empty() || by.creator.is_empty() {
        return Err("the nonce or the creator in the header is empty");
    }
    let hash = Sha256::new().chain_update(&by.nonce).chain_update(&by.creator);
    if channel.tx_id != to_hex(&hash.finalize()) {
        return Err("the transaction id is not the hash of nonce and creator");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::messages::{ChaincodeId, ChaincodeInput, ChaincodeSpec};
    use lineside_testkit::Random;
    use tonic::Code;

    fn valid_headers() -> (ChannelHeader, SignatureHeader) {
        let by = SignatureHeader {
            creator: b"creator".to_vec(),
            nonce: b"nonce".to_vec(),
        };
        let chaincode_id = Some(ChaincodeId { name: "qscc".into() });
        let channel = ChannelHeader {
            kind: 3,
            channel_id: "lab".into(),
            tx_id: to_hex(&Sha256::digest(b"noncecreator")),
            extension: ChaincodeHeaderExtension { chaincode_id }.encode_to_vec().into(),
            ..ChannelHeader::default()
        };
        (channel, by)
    }

    fn signed(channel: &ChannelHeader, by: &SignatureHeader) -> SignedProposal {
        let args = vec!["GetChainInfo".into(), "lab".into()];
        let input = Some(ChaincodeInput { args });
        let chaincode_spec = Some(ChaincodeSpec { input });
        let header = Header {
            channel_header: channel.encode_to_vec().into(),
            signature_header: by.encode_to_vec().into(),
        };
        let input = ChaincodeInvocationSpec { chaincode_spec }.encode_to_vec().into();
        let proposal = Proposal {
            header: header.encode_to_vec().into(),
            payload: ChaincodeProposalPayload { input }.encode_to_vec().into(),
        };
        SignedProposal {
            proposal_bytes: proposal.encode_to_vec().into(),
            signature: Bytes::new(),
        }
    }

    #[test]
    fn a_header_that_a_peer_refuses_is_refused() {
        let (channel, by) = valid_headers();
        let call = Call::read(signed(&channel, &by)).unwrap();
        assert_eq!(
            (call.chaincode.as_str(), call.channel.as_str(), call.args.len()),
            ("qscc", "lab", 2)
        );
        let of = |change: &dyn Fn(&mut ChannelHeader, &mut SignatureHeader)| {
            let (mut channel, mut by) = valid_headers();
            change(&mut channel, &mut by);
            Call::read(signed(&channel, &by))
                .err()
                .map(|status| status.code())
        };
        assert_eq!(of(&|_, _| {}), None);
        let refused = Some(Code::InvalidArgument);
        assert_eq!(of(&|channel, _| channel.kind = 5), refused);
        assert_eq!(of(&|channel, _| channel.epoch = 1), refused);
        assert_eq!(of(&|channel, _| channel.tx_id.replace_range(..1, "x")), refused);
        assert_eq!(of(&|channel, _| channel.extension = Bytes::new()), refused);
        assert_eq!(of(&|_, by| by.nonce.clear()), refused);
        assert_eq!(of(&|_, by| by.creator.push(0)), refused);
    }

    #[test]
    fn mutated_proposals_are_read_or_refused() {
        let (channel, by) = valid_headers();
        let good = signed(&channel, &by).proposal_bytes;
        let mut random = Random(2);
        let mut read = 0;
        for _ in 0..50_000 {
            let mut bytes = good.to_vec();
            for _ in 0..=random.index(2) {
                let at = random.index(bytes.len());
                bytes[at] = random.index(256) as u8;
            }
            bytes.truncate(bytes.len() - random.index(2) * random.index(20));
            let signed = SignedProposal {
                proposal_bytes: bytes.into(),
                signature: Bytes::new(),
            };
            read += u32::from(Call::read(signed).is_ok());
        }
        assert!((100..49_000).contains(&read), "{read}");
    }
}

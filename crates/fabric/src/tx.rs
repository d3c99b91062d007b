//! Parsing of transactions, with all checks of a peer that need only the transaction itself, in the peer's order.

use crate::block::header_type;
use crate::code::TxCode;
use crate::hashes::Hashes;
use crate::limits::ENDORSEMENTS_MAX;
use crate::proto::{
    self, Arena, ChaincodeAction, ChaincodeActionPayload, ChaincodeEvent, ChaincodeHeaderExtension,
    ChannelHeader, Envelope, Header, Malformed, Payload, ProposalResponsePayload, SignatureHeader,
    Transaction,
};
use crate::rules::{Rule, Rules};
use crate::rwset::{self, NsRwSet, NsRwSets};
use crate::state::TxId;
use sha2::{Digest, Sha256};
use smallvec::SmallVec;

/// A parsed transaction.
#[derive(Debug)]
pub(crate) struct Parsed<'a> {
    /// Id under which the ledger indexes the transaction, valid or not.
    pub id: Option<TxId>,
    /// Result of the checks that need only the transaction itself.
    pub known: ParsedTx<'a>,
    /// The writes that peers extract from the transaction although they do not evaluate its endorsements; `None` if
    /// they evaluate them.
    pub passed: Option<Box<PolicyScan<'a>>>,
}

impl<'a> Parsed<'a> {
    /// Returns the id of a well-formed endorser transaction; `None` for other transactions.
    pub fn endorser_id(&self) -> Option<&TxId> {
        match &self.known {
            ParsedTx::Signed(SignedPayload {
                next: SignedOutcome::Endorser(of),
                ..
            }) => Some(&of.id),
            _ => None,
        }
    }

    /// Returns the read-write set of a well-formed endorser transaction; an empty set for other transactions.
    pub fn rwset(&self) -> &[NsRwSet<'a>] {
        match &self.known {
            ParsedTx::Signed(SignedPayload {
                next: SignedOutcome::Endorser(of),
                ..
            }) => of.dispatched.as_ref().map_or(&[], |dispatched| &dispatched.rwset),
            _ => &[],
        }
    }
}

/// Result of a peer's scan of a transaction for changes of key-level policies. Before a peer evaluates the endorsements
/// of a transaction, it scans all earlier transactions of the block, valid or not.
#[derive(Debug)]
pub(crate) enum PolicyScan<'a> {
    /// The writes of the transaction.
    Writes(Vec<NsRwSet<'a>>),
    /// A message cannot be decoded; the peer then waits forever before it evaluates a key-level policy.
    Halts,
    /// A required message is missing; the peer then crashes.
    Crashes,
    /// This program cannot determine the result.
    Unsure,
}

/// Result of parsing a transaction. Nearly all transactions are `Signed`; a box for that variant would cost an
/// allocation for each transaction.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)]
pub(crate) enum ParsedTx<'a> {
    /// The code is already determined.
    Code(TxCode),
    /// The code depends on the creator's signature.
    Signed(SignedPayload<'a>),
    /// The peer's decision cannot be determined, for this reason.
    Unsure(&'static str),
}

/// The payload that the creator signed, with its signature.
#[derive(Debug)]
pub(crate) struct SignedPayload<'a> {
    pub creator: &'a [u8],
    pub payload: &'a [u8],
    /// SHA-256 of the payload.
    pub digest: [u8; 32],
    pub signature: &'a [u8],
    /// Outcome of the transaction if the creator's signature is valid.
    pub next: SignedOutcome<'a>,
    /// Reason why the peer's decision cannot be determined even if the creator's signature is valid.
    pub unsure: Option<&'static str>,
}

/// Outcome of a transaction with a valid signature of its creator. Nearly all transactions are `Endorser`, which is not
/// boxed; see [`ParsedTx`].
#[derive(Debug)]
#[allow(clippy::large_enum_variant)]
pub(crate) enum SignedOutcome<'a> {
    Code(TxCode),
    Config(&'a [u8]),
    Endorser(Endorser<'a>),
    /// A peer crashes on the transaction, or its decision cannot be determined.
    Unsure(&'static str),
}

/// Reason to stop parsing a transaction.
#[derive(Clone, Copy, Debug)]
enum ParseStop {
    Code(TxCode),
    Unsure(&'static str),
}

/// Returns a function that maps a decoding error to a fault: `code` if Go also rejects the message, otherwise a stop
/// without a code, because the peer's decision is not known.
fn stop_with(code: TxCode) -> impl Fn(Malformed) -> ParseStop {
    move |why| match why {
        Malformed::Bad => ParseStop::Code(code),
        Malformed::TooLarge => ParseStop::Unsure("a message in it exceeds the size or nesting limit"),
    }
}

/// A well-formed endorser transaction.
#[derive(Debug)]
pub(crate) struct Endorser<'a> {
    pub id: TxId,
    /// Creator that the header of the transaction's action names.
    pub creator: &'a [u8],
    pub dispatched: Result<EndorsedTx<'a>, TxCode>,
}

/// Content of an endorser transaction whose code depends on its endorsements.
#[derive(Debug)]
pub(crate) struct EndorsedTx<'a> {
    /// Namespace of the chaincode.
    pub chaincode: &'a str,
    /// Other namespaces that the transaction writes, each once. Most transactions write no other namespace, so the list
    /// needs no memory.
    pub others: Vec<&'a str>,
    pub rwset: NsRwSets<'a>,
    /// The part of the signed bytes that all endorsers share. Each endorser signs these bytes followed by its own
    /// identity.
    pub response: &'a [u8],
    /// The endorsements; up to three are stored without an allocation, see [`proto::Few`].
    pub endorsements: SmallVec<[Endorsement<'a>; 3]>,
    /// True if the transaction has more than [`ENDORSEMENTS_MAX`] endorsements.
    pub too_many: bool,
}

#[derive(Debug)]
pub(crate) struct Endorsement<'a> {
    pub endorser: &'a [u8],
    pub digest: [u8; 32],
    pub signature: &'a [u8],
}

/// Maximum number of bytes for which memory is reserved before a transaction is parsed.
const EXPECTED_BYTES_MAX: usize = 8 << 10;
/// Number of transactions whose messages are hashed together.
pub(crate) const TXS_HASHED_TOGETHER: usize = 64;
/// Maximum size of a response, in bytes, that is copied for each endorser and hashed in the batch. A longer response is
/// hashed once, and the state of the hasher is cloned.
const RESPONSE_BYTES_MAX: usize = 4 << 10;
/// Maximum number of endorsements for which the response is copied; see [`RESPONSE_BYTES_MAX`].
const COPIED_RESPONSES_MAX: usize = 16;

/// Parses transactions of `channel`.
pub(crate) fn parse<'a>(all: &[&'a [u8]], channel: &str, arena: &'a Arena, rules: Rules) -> Vec<Parsed<'a>> {
    let mut hashes = Hashes::default();
    parse_with(all, channel, arena, rules, &mut hashes, &|_| &[], &mut |_| ())
}

/// Parses transactions of `channel`, and calls `made` with the digests of each transaction. `known` returns the digests
/// that an earlier call computed for a transaction with the same bytes, or an empty slice. `hashes` must be empty; its
/// memory is reused.
pub(crate) fn parse_with<'a, 'k>(
    all: &[&'a [u8]],
    channel: &str,
    arena: &'a Arena,
    rules: Rules,
    hashes: &mut Hashes<'a>,
    known: &dyn Fn(usize) -> &'k [[u8; 32]],
    made: &mut dyn FnMut(&[[u8; 32]]),
) -> Vec<Parsed<'a>> {
    // The messages that are copied together have about as many bytes as the transactions.
    let expected = |bytes: &&[u8]| bytes.len().min(EXPECTED_BYTES_MAX);
    hashes.reserve(all.iter().take(TXS_HASHED_TOGETHER).map(expected).sum());
    let mut done = Vec::with_capacity(all.len());
    let mut owing = Vec::with_capacity(all.len().min(TXS_HASHED_TOGETHER));
    for (chunk, together) in all.chunks(TXS_HASHED_TOGETHER).enumerate() {
        owing.extend(together.iter().enumerate().map(|(index, bytes)| {
            hashes.preset(known(chunk * TXS_HASHED_TOGETHER + index));
            let from = hashes.len();
            let mut reading = TxParser {
                channel,
                arena,
                rules,
                hashes: &mut *hashes,
                owed: DigestIndices::default(),
            };
            let parsed = read(bytes, &mut reading).unwrap_or_else(|fault| Parsed {
                id: None,
                known: fault.into(),
                passed: None,
            });
            let owed = reading.owed;
            done.push(parsed);
            (owed, from..hashes.len())
        }));
        let digests = hashes.take();
        let parsed = done.iter_mut().skip(chunk * TXS_HASHED_TOGETHER);
        for ((parsed, (owed, hashed)), bytes) in parsed.zip(owing.drain(..)).zip(together) {
            owed.apply_digests(parsed, &digests, rules);
            made(digests.get(hashed).unwrap_or_default());
            if !is_looked_at(parsed) {
                let passed = writes(bytes, arena).map_or_else(|other| other, PolicyScan::Writes);
                parsed.passed = Some(Box::new(passed));
            }
        }
    }
    done
}

/// Returns whether a peer evaluates the transaction's endorsements if its creator's signature is valid.
fn is_looked_at(parsed: &Parsed<'_>) -> bool {
    match &parsed.known {
        ParsedTx::Signed(signed) => match &signed.next {
            SignedOutcome::Endorser(tx) => tx.dispatched.is_ok(),
            // A configuration transaction is alone in its block, so no later transaction depends on a scan of it.
            SignedOutcome::Config(_) => true,
            SignedOutcome::Code(_) | SignedOutcome::Unsure(_) => false,
        },
        ParsedTx::Code(_) | ParsedTx::Unsure(_) => false,
    }
}

/// Indices of a transaction's messages among the digests of its batch, which are computed after parsing.
#[derive(Default)]
struct DigestIndices<'a> {
    payload: Option<usize>,
    /// Hash of nonce and creator, which is the id of a transaction whose header names no id.
    id: Option<usize>,
    /// True if the transaction names an id, which must then equal the hash in `id`.
    id_is_checked: bool,
    /// Index of the proposal's hash, and the proposal hash in the response that the endorsers signed. The two must be
    /// equal.
    proposal: Option<(usize, &'a [u8])>,
    /// Index of the first endorsement's message.
    first_endorsement: usize,
}

impl DigestIndices<'_> {
    /// Sets the digests and applies the checks that need them. These checks come earlier in the peer's order than those
    /// that gave the present result, so a failure here replaces that result.
    fn apply_digests(self, parsed: &mut Parsed<'_>, digests: &[[u8; 32]], rules: Rules) {
        let digest = |place: usize| digests.get(place).copied().unwrap_or_default();
        let hash = self.id.map(digest).map(TxId::Hash);
        let is_right = !self.id_is_checked || parsed.id == hash;
        parsed.id = parsed.id.take().or(hash);
        let ParsedTx::Signed(signed) = &mut parsed.known else {
            return;
        };
        signed.digest = self.payload.map(digest).unwrap_or_default();
        if !is_right && rules.hold(Rule::TxId) {
            signed.next = SignedOutcome::Code(TxCode::BadProposalTxid);
            return;
        }
        if let Some((place, expected)) = self.proposal
            && digest(place) != expected
            && rules.hold(Rule::ProposalHash)
        {
            signed.next = SignedOutcome::Code(TxCode::InvalidEndorserTransaction);
            return;
        }
        if let SignedOutcome::Endorser(Endorser {
            dispatched: Ok(dispatched),
            ..
        }) = &mut signed.next
        {
            for (place, endorsement) in (self.first_endorsement..).zip(&mut dispatched.endorsements) {
                endorsement.digest = digest(place);
            }
        }
    }
}

impl From<ParseStop> for ParsedTx<'_> {
    fn from(fault: ParseStop) -> Self {
        match fault {
            ParseStop::Code(code) => Self::Code(code),
            ParseStop::Unsure(what) => Self::Unsure(what),
        }
    }
}

/// Parsing state of one transaction.
struct TxParser<'r, 'a> {
    channel: &'r str,
    arena: &'a Arena,
    rules: Rules,
    hashes: &'r mut Hashes<'a>,
    owed: DigestIndices<'a>,
}

fn read<'a>(bytes: &'a [u8], reading: &mut TxParser<'_, 'a>) -> Result<Parsed<'a>, ParseStop> {
    let arena = reading.arena;
    let envelope: Envelope<'_> =
        proto::decode(bytes, arena).map_err(stop_with(TxCode::InvalidOtherReason))?;
    let payload: Payload<'_> =
        proto::decode(envelope.payload, arena).map_err(stop_with(TxCode::BadPayload))?;
    let header = payload.header.ok_or(ParseStop::Code(TxCode::BadCommonHeader))?;
    let channel_header = proto::decode::<ChannelHeader<'_>>(header.channel_header, arena);
    let signature_header = proto::decode::<SignatureHeader<'_>>(header.signature_header, arena);
    let channel_header = channel_header.map_err(stop_with(TxCode::BadCommonHeader))?;
    let id = Some(channel_header.tx_id).filter(|id| !id.is_empty());
    let id = id.map(TxId::new);
    let known = match signature_header {
        Err(why) => stop_with(TxCode::BadCommonHeader)(why).into(),
        Ok(by) => {
            reading.owed.id = Some(reading.hashes.add(&[by.nonce, by.creator]));
            signed(
                &envelope,
                payload.data,
                (&header, &channel_header, &by, &id),
                reading,
            )
        }
    };
    Ok(Parsed {
        id,
        known,
        passed: None,
    })
}

/// Returns the writes that a peer's scan finds in a transaction. The scan checks only what is needed to decode them.
#[cold]
fn writes<'a>(bytes: &'a [u8], arena: &'a Arena) -> Result<Vec<NsRwSet<'a>>, PolicyScan<'a>> {
    let halts = |why| match why {
        Malformed::Bad => PolicyScan::Halts,
        Malformed::TooLarge => PolicyScan::Unsure,
    };
    let envelope: Envelope<'_> = proto::decode(bytes, arena).map_err(halts)?;
    let payload: Payload<'_> = proto::decode(envelope.payload, arena).map_err(halts)?;
    let transaction: Transaction<'_> = proto::decode(payload.data, arena).map_err(halts)?;
    let action = transaction.actions.first().ok_or(PolicyScan::Crashes)?;
    let payload: ChaincodeActionPayload<'_> = proto::decode(action.payload, arena).map_err(halts)?;
    let response = payload
        .action
        .ok_or(PolicyScan::Crashes)?
        .proposal_response_payload;
    let response: ProposalResponsePayload<'_> = proto::decode(response, arena).map_err(halts)?;
    let action: ChaincodeAction<'_> = proto::decode(response.extension, arena).map_err(halts)?;
    match rwset::read(action.results, arena) {
        Ok(writes) => Ok(writes.into_vec()),
        // A peer ignores a write set that it cannot decode, and continues.
        Err(Malformed::Bad) => Ok(Vec::new()),
        Err(Malformed::TooLarge) => Err(PolicyScan::Unsure),
    }
}

/// Payload header, channel header, signature header, and the id that the transaction names.
type Headers<'h, 'a> = (
    &'h Header<'a>,
    &'h ChannelHeader<'a>,
    &'h SignatureHeader<'a>,
    &'h Option<TxId>,
);

fn signed<'a>(
    envelope: &Envelope<'a>,
    data: &'a [u8],
    headers: Headers<'_, 'a>,
    reading: &mut TxParser<'_, 'a>,
) -> ParsedTx<'a> {
    use header_type::{CONFIG, CONFIG_UPDATE, ENDORSER_TRANSACTION};
    let (header, channel_header, by, id) = headers;
    let rules = reading.rules;
    let kind_known = matches!(channel_header.kind, CONFIG | CONFIG_UPDATE | ENDORSER_TRANSACTION);
    let epoch = channel_header.epoch != 0 && rules.hold(Rule::EpochIsZero);
    if !kind_known && rules.hold(Rule::HeaderType) || epoch || by.nonce.is_empty() || by.creator.is_empty() {
        return ParsedTx::Code(TxCode::BadCommonHeader);
    }
    reading.owed.payload = Some(reading.hashes.add(&[envelope.payload]));
    let next = match channel_header.kind {
        ENDORSER_TRANSACTION => {
            reading.owed.id_is_checked = true;
            let id = id.clone().unwrap_or_else(|| TxId::new(""));
            match endorser(data, header, channel_header, id, reading) {
                Ok(endorser) => SignedOutcome::Endorser(endorser),
                Err(ParseStop::Code(code)) => SignedOutcome::Code(code),
                Err(ParseStop::Unsure(what)) => SignedOutcome::Unsure(what),
            }
        }
        CONFIG if data.is_empty() => SignedOutcome::Code(TxCode::InvalidConfigTransaction),
        CONFIG => SignedOutcome::Config(data),
        _ => SignedOutcome::Code(TxCode::UnsupportedTxPayload),
    };
    let other_channel = channel_header.channel_id != reading.channel;
    ParsedTx::Signed(SignedPayload {
        creator: by.creator,
        payload: envelope.payload,
        digest: [0; 32],
        signature: envelope.signature,
        next,
        unsure: other_channel.then_some("it names a different channel than its block"),
    })
}

fn endorser<'a>(
    data: &'a [u8],
    header: &Header<'a>,
    channel_header: &ChannelHeader<'a>,
    id: TxId,
    reading: &mut TxParser<'_, 'a>,
) -> Result<Endorser<'a>, ParseStop> {
    const INVALID: ParseStop = ParseStop::Code(TxCode::InvalidEndorserTransaction);
    let invalid = stop_with(TxCode::InvalidEndorserTransaction);
    let (arena, rules) = (reading.arena, reading.rules);
    if data.is_empty() {
        return Err(INVALID);
    }
    let transaction: Transaction<'_> = proto::decode(data, arena).map_err(&invalid)?;
    let action = match transaction.actions.as_slice() {
        [only] => only,
        [first, ..] if !rules.hold(Rule::OneAction) => first,
        _ => return Err(INVALID),
    };
    let by: SignatureHeader<'_> = proto::decode(action.header, arena).map_err(&invalid)?;
    if by.nonce.is_empty() || by.creator.is_empty() {
        return Err(INVALID);
    }
    let payload: ChaincodeActionPayload<'_> = proto::decode(action.payload, arena).map_err(&invalid)?;
    let endorsed = payload
        .action
        .ok_or(ParseStop::Unsure("its action contains no endorsed action"))?;
    let signed = endorsed.proposal_response_payload;
    let response: ProposalResponsePayload<'_> = proto::decode(signed, arena).map_err(&invalid)?;
    if header.channel_header.is_empty() || payload.chaincode_proposal_payload.is_empty() {
        return Err(INVALID);
    }
    let proposed = [
        header.channel_header,
        action.header,
        payload.chaincode_proposal_payload,
    ];
    reading.owed.proposal = Some((reading.hashes.add(&proposed), response.proposal_hash));
    let dispatched = match dispatch(channel_header, &response, arena, rules) {
        Ok((chaincode, others, rwset)) => {
            let taken = endorsed.endorsements.len().min(ENDORSEMENTS_MAX);
            let endorsements = endorsed.endorsements.get(..taken).unwrap_or_default();
            reading.hash_endorsements(signed, endorsements);
            let endorsements = endorsements.iter().map(|endorsement| Endorsement {
                endorser: endorsement.endorser,
                digest: [0; 32],
                signature: endorsement.signature,
            });
            Ok(EndorsedTx {
                chaincode,
                others,
                rwset,
                response: signed,
                endorsements: endorsements.collect(),
                too_many: endorsed.endorsements.len() > ENDORSEMENTS_MAX,
            })
        }
        Err(ParseStop::Code(code)) => Err(code),
        Err(unsure) => return Err(unsure),
    };
    Ok(Endorser {
        id,
        creator: by.creator,
        dispatched,
    })
}

impl<'a> TxParser<'_, 'a> {
    /// Adds the messages that the endorsers signed: the common response, followed by the endorser's own identity.
    fn hash_endorsements(&mut self, response: &'a [u8], endorsements: &[proto::Endorsement<'a>]) {
        self.owed.first_endorsement = self.hashes.len();
        if response.len() <= RESPONSE_BYTES_MAX && endorsements.len() <= COPIED_RESPONSES_MAX {
            for endorsement in endorsements {
                self.hashes.add(&[response, endorsement.endorser]);
            }
            return;
        }
        let common = Sha256::new().chain_update(response);
        for endorsement in endorsements {
            let hasher = common.clone().chain_update(endorsement.endorser);
            self.hashes.add_digest(hasher.finalize().into());
        }
    }
}

/// The chaincode's namespace, the other namespaces that it writes, and the read-write set.
type NamespacesAndWrites<'a> = (&'a str, Vec<&'a str>, NsRwSets<'a>);

/// Applies the peer's checks between the transaction id and the endorsement policies. Returns the namespaces and the
/// read-write set.
fn dispatch<'a>(
    channel_header: &ChannelHeader<'a>,
    response: &ProposalResponsePayload<'a>,
    arena: &'a Arena,
    rules: Rules,
) -> Result<NamespacesAndWrites<'a>, ParseStop> {
    let extension = channel_header.extension;
    let extension: ChaincodeHeaderExtension<'a> =
        proto::decode(extension, arena).map_err(stop_with(TxCode::BadHeaderExtension))?;
    if response.extension.is_empty() {
        return Err(ParseStop::Code(TxCode::BadResponsePayload));
    }
    let action: ChaincodeAction<'a> =
        proto::decode(response.extension, arena).map_err(stop_with(TxCode::BadResponsePayload))?;
    let rwset = rwset::read(action.results, arena).map_err(stop_with(TxCode::BadRwset))?;
    let nameless = ParseStop::Code(TxCode::InvalidOtherReason);
    let asked = extension.chaincode_id.ok_or(nameless)?;
    let answered = action.chaincode_id.ok_or(nameless)?;
    let versioned = !answered.version.is_empty() || !rules.hold(Rule::ChaincodeVersion);
    if asked.name.is_empty() || asked.name != answered.name || !versioned {
        return Err(ParseStop::Code(TxCode::InvalidChaincode));
    }
    if !action.events.is_empty() {
        let event: ChaincodeEvent<'_> =
            proto::decode(action.events, arena).map_err(stop_with(TxCode::InvalidOtherReason))?;
        if event.chaincode_id != asked.name && rules.hold(Rule::EventChaincode) {
            return Err(ParseStop::Code(TxCode::InvalidOtherReason));
        }
    }
    let mut all: SmallVec<[&str; 4]> = rwset.iter().map(|of| of.namespace).collect();
    all.sort_unstable();
    if all.is_sorted_by(|a, b| a < b) || !rules.hold(Rule::DuplicateNamespace) {
        let written = rwset
            .iter()
            .filter(|of| of.writes() && of.namespace != asked.name);
        let others = written.map(|of| of.namespace).collect();
        return Ok((asked.name, others, rwset));
    }
    Err(ParseStop::Code(TxCode::IllegalWriteset))
}

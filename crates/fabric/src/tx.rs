//! A transaction, read as far as it can be without knowing anything else: its part of the checks that every
//! transaction has to itself, in the peer's order.

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
use crate::rwset::{self, NsRwSet};
use crate::state::TxId;
use sha2::{Digest, Sha256};

/// A transaction, read.
#[derive(Debug)]
pub(crate) struct Parsed<'a> {
    /// The id under which the ledger has it, valid or not.
    pub id: Option<TxId>,
    /// What is known of it.
    pub known: Known<'a>,
    /// Where its endorsements are not looked at: what peers find in it all the same.
    pub passed: Option<Box<Passed<'a>>>,
}

impl Parsed<'_> {
    /// The id of an endorser transaction that is well formed.
    pub fn endorser_id(&self) -> Option<&TxId> {
        match &self.known {
            Known::Signed(Signed {
                next: Next::Endorser(of),
                ..
            }) => Some(&of.id),
            _ => None,
        }
    }
}

/// What a peer finds in a transaction when it looks for keys whose policies it changes. It does so with each that is
/// ahead of one whose endorsements it looks at, whatever became of it.
#[derive(Debug)]
pub(crate) enum Passed<'a> {
    /// Its writes.
    Writes(Vec<NsRwSet<'a>>),
    /// Nothing that can be read; then the peer waits for ever before it looks at any key's policy.
    Halts,
    /// Nothing where it must be; then the peer crashes.
    Crashes,
    /// Not known here.
    Unsure,
}

/// Nearly all are signed; a box would cost each of them an allocation.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)]
pub(crate) enum Known<'a> {
    /// It is decided.
    Code(TxCode),
    /// It depends on who signed it.
    Signed(Signed<'a>),
    /// It cannot be said.
    Unsure(&'static str),
}

/// What the creator signed.
#[derive(Debug)]
pub(crate) struct Signed<'a> {
    pub creator: &'a [u8],
    pub payload: &'a [u8],
    /// SHA-256 of the payload.
    pub digest: [u8; 32],
    pub signature: &'a [u8],
    /// What it is if the creator did sign it.
    pub next: Next<'a>,
    /// Why that cannot be said.
    pub unsure: Option<&'static str>,
}

#[derive(Debug)]
pub(crate) enum Next<'a> {
    Code(TxCode),
    Config(&'a [u8]),
    Endorser(Endorser<'a>),
    /// A peer crashes here, or it cannot be said.
    Unsure(&'static str),
}

/// Why a transaction is read no further.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Code(TxCode),
    Unsure(&'static str),
}

/// `code` for what Go refuses, too.
fn or(code: TxCode) -> impl Fn(Malformed) -> Fault {
    move |why| match why {
        Malformed::Bad => Fault::Code(code),
        Malformed::TooLarge => Fault::Unsure("a message in it is larger or nested more deeply than is taken"),
    }
}

/// An endorser transaction, well formed, with the right id.
#[derive(Debug)]
pub(crate) struct Endorser<'a> {
    pub id: TxId,
    /// Who is said to have created its action.
    pub creator: &'a [u8],
    pub dispatched: Result<Dispatched<'a>, TxCode>,
}

/// An endorser transaction that its endorsements decide.
#[derive(Debug)]
pub(crate) struct Dispatched<'a> {
    /// The chaincode, then what it writes to, each once.
    pub namespaces: Vec<&'a str>,
    pub rwset: Vec<NsRwSet<'a>>,
    /// What each endorser signed before his own name.
    pub response: &'a [u8],
    pub endorsements: Vec<Endorsement<'a>>,
    /// There are more endorsements than this program takes.
    pub too_many: bool,
}

#[derive(Debug)]
pub(crate) struct Endorsement<'a> {
    pub endorser: &'a [u8],
    pub digest: [u8; 32],
    pub signature: &'a [u8],
}

/// Transactions whose messages are hashed together.
const TOGETHER: usize = 64;
/// What endorsers signed is written out for each of them, unless it is longer, or they are more.
const RESPONSE_BYTES_MAX: usize = 4 << 10;
/// See [`RESPONSE_BYTES_MAX`].
const WRITTEN_OUT_MAX: usize = 16;

/// Reads transactions.
pub(crate) fn parse<'a>(all: &[&'a [u8]], channel: &str, arena: &'a Arena, rules: Rules) -> Vec<Parsed<'a>> {
    parse_with(all, channel, arena, rules, &|_| &[], &mut |_| ())
}

/// The same. `known` are the digests that `made` was given of a transaction when its bytes were read before, or none.
pub(crate) fn parse_with<'a, 'k>(
    all: &[&'a [u8]],
    channel: &str,
    arena: &'a Arena,
    rules: Rules,
    known: &dyn Fn(usize) -> &'k [[u8; 32]],
    made: &mut dyn FnMut(&[[u8; 32]]),
) -> Vec<Parsed<'a>> {
    let mut hashes = Hashes::default();
    let mut done = Vec::with_capacity(all.len());
    let mut owing = Vec::with_capacity(all.len().min(TOGETHER));
    for (chunk, together) in all.chunks(TOGETHER).enumerate() {
        owing.extend(together.iter().enumerate().map(|(index, bytes)| {
            hashes.know(known(chunk * TOGETHER + index));
            let from = hashes.len();
            let mut reading = Reading {
                channel,
                arena,
                rules,
                hashes: &mut hashes,
                owed: Owed::default(),
            };
            let parsed = read(bytes, &mut reading).unwrap_or_else(|fault| Parsed {
                id: None,
                known: fault.into(),
                passed: None,
            });
            let owed = reading.owed;
            (parsed, owed, from..hashes.len())
        }));
        let digests = hashes.take();
        for ((mut parsed, owed, hashed), bytes) in owing.drain(..).zip(together) {
            owed.settle(&mut parsed, &digests, rules);
            made(digests.get(hashed).unwrap_or_default());
            if !is_looked_at(&parsed) {
                let passed = writes(bytes, arena).map_or_else(|other| other, Passed::Writes);
                parsed.passed = Some(Box::new(passed));
            }
            done.push(parsed);
        }
    }
    done
}

/// Whether a peer looks at its endorsements, if its creator did sign it.
fn is_looked_at(parsed: &Parsed<'_>) -> bool {
    match &parsed.known {
        Known::Signed(signed) => match &signed.next {
            Next::Endorser(tx) => tx.dispatched.is_ok(),
            // It is alone in its block.
            Next::Config(_) => true,
            Next::Code(_) | Next::Unsure(_) => false,
        },
        Known::Code(_) | Known::Unsure(_) => false,
    }
}

/// What is not known of a transaction until its messages are hashed: their places among the digests.
#[derive(Default)]
struct Owed<'a> {
    payload: Option<usize>,
    /// Nonce and creator. It is the id of a transaction that names none.
    id: Option<usize>,
    /// Whether it must be the id that is named.
    id_is_checked: bool,
    /// What was proposed, and the hash that the endorsers signed of it.
    proposal: Option<(usize, &'a [u8])>,
    /// What the first of the endorsers signed.
    first_endorsement: usize,
}

impl Owed<'_> {
    /// What is found first by a peer counts, whatever was found behind it.
    fn settle(self, parsed: &mut Parsed<'_>, digests: &[[u8; 32]], rules: Rules) {
        let digest = |place: usize| digests.get(place).copied().unwrap_or_default();
        let hash = self.id.map(digest).map(TxId::Hash);
        let is_right = !self.id_is_checked || parsed.id == hash;
        parsed.id = parsed.id.take().or(hash);
        let Known::Signed(signed) = &mut parsed.known else {
            return;
        };
        signed.digest = self.payload.map(digest).unwrap_or_default();
        if !is_right && rules.hold(Rule::TxId) {
            signed.next = Next::Code(TxCode::BadProposalTxid);
            return;
        }
        if let Some((place, expected)) = self.proposal
            && digest(place) != expected
            && rules.hold(Rule::ProposalHash)
        {
            signed.next = Next::Code(TxCode::InvalidEndorserTransaction);
            return;
        }
        if let Next::Endorser(Endorser {
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

impl From<Fault> for Known<'_> {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Code(code) => Self::Code(code),
            Fault::Unsure(what) => Self::Unsure(what),
        }
    }
}

/// A transaction that is being read.
struct Reading<'r, 'a> {
    channel: &'r str,
    arena: &'a Arena,
    rules: Rules,
    hashes: &'r mut Hashes<'a>,
    owed: Owed<'a>,
}

fn read<'a>(bytes: &'a [u8], reading: &mut Reading<'_, 'a>) -> Result<Parsed<'a>, Fault> {
    let arena = reading.arena;
    let envelope: Envelope<'_> = proto::decode(bytes, arena).map_err(or(TxCode::InvalidOtherReason))?;
    let payload: Payload<'_> = proto::decode(envelope.payload, arena).map_err(or(TxCode::BadPayload))?;
    let header = payload.header.ok_or(Fault::Code(TxCode::BadCommonHeader))?;
    let channel_header = proto::decode::<ChannelHeader<'_>>(header.channel_header, arena);
    let signature_header = proto::decode::<SignatureHeader<'_>>(header.signature_header, arena);
    let channel_header = channel_header.map_err(or(TxCode::BadCommonHeader))?;
    let id = Some(channel_header.tx_id).filter(|id| !id.is_empty());
    let id = id.map(TxId::new);
    let known = match signature_header {
        Err(why) => or(TxCode::BadCommonHeader)(why).into(),
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

/// What the transaction would write, as a peer reads it that looks at nothing else.
#[cold]
fn writes<'a>(bytes: &'a [u8], arena: &'a Arena) -> Result<Vec<NsRwSet<'a>>, Passed<'a>> {
    let halts = |why| match why {
        Malformed::Bad => Passed::Halts,
        Malformed::TooLarge => Passed::Unsure,
    };
    let envelope: Envelope<'_> = proto::decode(bytes, arena).map_err(halts)?;
    let payload: Payload<'_> = proto::decode(envelope.payload, arena).map_err(halts)?;
    let transaction: Transaction<'_> = proto::decode(payload.data, arena).map_err(halts)?;
    let action = transaction.actions.first().ok_or(Passed::Crashes)?;
    let payload: ChaincodeActionPayload<'_> = proto::decode(action.payload, arena).map_err(halts)?;
    let response = payload.action.ok_or(Passed::Crashes)?.proposal_response_payload;
    let response: ProposalResponsePayload<'_> = proto::decode(response, arena).map_err(halts)?;
    let action: ChaincodeAction<'_> = proto::decode(response.extension, arena).map_err(halts)?;
    match rwset::read(action.results, arena) {
        Ok(writes) => Ok(writes),
        // The peer makes nothing of it, and goes on.
        Err(Malformed::Bad) => Ok(Vec::new()),
        Err(Malformed::TooLarge) => Err(Passed::Unsure),
    }
}

/// The last is the id that is named.
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
    reading: &mut Reading<'_, 'a>,
) -> Known<'a> {
    use header_type::{CONFIG, CONFIG_UPDATE, ENDORSER_TRANSACTION};
    let (header, channel_header, by, id) = headers;
    let rules = reading.rules;
    let kind_known = matches!(channel_header.kind, CONFIG | CONFIG_UPDATE | ENDORSER_TRANSACTION);
    let epoch = channel_header.epoch != 0 && rules.hold(Rule::EpochIsZero);
    if !kind_known && rules.hold(Rule::HeaderType) || epoch || by.nonce.is_empty() || by.creator.is_empty() {
        return Known::Code(TxCode::BadCommonHeader);
    }
    reading.owed.payload = Some(reading.hashes.add(&[envelope.payload]));
    let next = match channel_header.kind {
        ENDORSER_TRANSACTION => {
            reading.owed.id_is_checked = true;
            let id = id.clone().unwrap_or_else(|| TxId::new(""));
            match endorser(data, header, channel_header, id, reading) {
                Ok(endorser) => Next::Endorser(endorser),
                Err(Fault::Code(code)) => Next::Code(code),
                Err(Fault::Unsure(what)) => Next::Unsure(what),
            }
        }
        CONFIG if data.is_empty() => Next::Code(TxCode::InvalidConfigTransaction),
        CONFIG => Next::Config(data),
        _ => Next::Code(TxCode::UnsupportedTxPayload),
    };
    let other_channel = channel_header.channel_id != reading.channel;
    Known::Signed(Signed {
        creator: by.creator,
        payload: envelope.payload,
        digest: [0; 32],
        signature: envelope.signature,
        next,
        unsure: other_channel.then_some("it names another channel than its block"),
    })
}

fn endorser<'a>(
    data: &'a [u8],
    header: &Header<'a>,
    channel_header: &ChannelHeader<'a>,
    id: TxId,
    reading: &mut Reading<'_, 'a>,
) -> Result<Endorser<'a>, Fault> {
    const INVALID: Fault = Fault::Code(TxCode::InvalidEndorserTransaction);
    let invalid = or(TxCode::InvalidEndorserTransaction);
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
        .ok_or(Fault::Unsure("its action holds no endorsed action"))?;
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
        Ok((namespaces, rwset)) => {
            let taken = endorsed.endorsements.len().min(ENDORSEMENTS_MAX);
            let endorsements = endorsed.endorsements.get(..taken).unwrap_or_default();
            reading.hash_endorsements(signed, endorsements);
            let endorsements = endorsements.iter().map(|endorsement| Endorsement {
                endorser: endorsement.endorser,
                digest: [0; 32],
                signature: endorsement.signature,
            });
            Ok(Dispatched {
                namespaces,
                rwset,
                response: signed,
                endorsements: endorsements.collect(),
                too_many: endorsed.endorsements.len() > ENDORSEMENTS_MAX,
            })
        }
        Err(Fault::Code(code)) => Err(code),
        Err(unsure) => return Err(unsure),
    };
    Ok(Endorser {
        id,
        creator: by.creator,
        dispatched,
    })
}

impl<'a> Reading<'_, 'a> {
    /// All endorsers sign the same response, each before his own name.
    fn hash_endorsements(&mut self, response: &'a [u8], endorsements: &[proto::Endorsement<'a>]) {
        self.owed.first_endorsement = self.hashes.len();
        if response.len() <= RESPONSE_BYTES_MAX && endorsements.len() <= WRITTEN_OUT_MAX {
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

type Written<'a> = (Vec<&'a str>, Vec<NsRwSet<'a>>);

/// What stands between the id of a transaction and its policies.
fn dispatch<'a>(
    channel_header: &ChannelHeader<'a>,
    response: &ProposalResponsePayload<'a>,
    arena: &'a Arena,
    rules: Rules,
) -> Result<Written<'a>, Fault> {
    let extension = channel_header.extension;
    let extension: ChaincodeHeaderExtension<'a> =
        proto::decode(extension, arena).map_err(or(TxCode::BadHeaderExtension))?;
    if response.extension.is_empty() {
        return Err(Fault::Code(TxCode::BadResponsePayload));
    }
    let action: ChaincodeAction<'a> =
        proto::decode(response.extension, arena).map_err(or(TxCode::BadResponsePayload))?;
    let rwset = rwset::read(action.results, arena).map_err(or(TxCode::BadRwset))?;
    let nameless = Fault::Code(TxCode::InvalidOtherReason);
    let asked = extension.chaincode_id.ok_or(nameless)?;
    let answered = action.chaincode_id.ok_or(nameless)?;
    let versioned = !answered.version.is_empty() || !rules.hold(Rule::ChaincodeVersion);
    if asked.name.is_empty() || asked.name != answered.name || !versioned {
        return Err(Fault::Code(TxCode::InvalidChaincode));
    }
    if !action.events.is_empty() {
        let event: ChaincodeEvent<'_> =
            proto::decode(action.events, arena).map_err(or(TxCode::InvalidOtherReason))?;
        if event.chaincode_id != asked.name && rules.hold(Rule::EventChaincode) {
            return Err(Fault::Code(TxCode::InvalidOtherReason));
        }
    }
    let mut all: Vec<&str> = rwset.iter().map(|of| of.namespace).collect();
    all.sort_unstable();
    if all.is_sorted_by(|a, b| a < b) || !rules.hold(Rule::DuplicateNamespace) {
        let mut namespaces = vec![asked.name];
        let written = rwset
            .iter()
            .filter(|of| of.writes() && of.namespace != asked.name);
        namespaces.extend(written.map(|of| of.namespace));
        return Ok((namespaces, rwset));
    }
    Err(Fault::Code(TxCode::IllegalWriteset))
}

//! First stage of validation, which needs no state: parses a block and verifies its signatures. It may therefore run
//! while earlier blocks are still being executed.
//!
//! The orderers' signatures are checked first. Anyone may have sent the block, so work before that check is bounded by
//! a small multiple of the block's size.

use crate::block::{Block, data_digest};
use crate::config::{BLOCK_VALIDATION, Config};
use crate::early;
use crate::error::{Error, Refused, Stop};
use crate::hashes::Hashes;
use crate::identity::{BlockIdentities, Cache};
use crate::msp::{Identity, Resolution};
use crate::parts::BlockParts;
use crate::proto::Arena;
use crate::rules::{Rule, Rules};
use crate::signature::{Key, UnverifiedSignature, verify_all, verify_ed25519};
use crate::tx::{Parsed, ParsedTx, SignedOutcome, TXS_HASHED_TOGETHER, parse_with};
use crate::update;
use crate::validate::Options;
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

/// Size of a block up to which its transactions are hashed in parallel with parsing, in bytes. Transactions of a larger
/// block are hashed before they are parsed.
const PARALLEL_HASHING_BYTES_MAX: usize = 4 << 20;

/// A channel's configuration, with the cache of identities that were resolved under it.
#[derive(Debug)]
pub(crate) struct ChannelContext {
    pub config: Arc<Config>,
    identities: Mutex<Cache>,
}

impl ChannelContext {
    pub fn new(config: Arc<Config>) -> Arc<Self> {
        Arc::new(Self {
            config,
            identities: Mutex::default(),
        })
    }
}

/// Number and header hash of the last block, which the next block must follow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tip {
    pub number: u64,
    pub hash: [u8; 32],
}

/// Parses and verifies the blocks of a channel under one configuration.
#[derive(Clone, Debug)]
pub(crate) struct Reader {
    pub options: Options,
    pub channel: Arc<str>,
    pub setting: Arc<ChannelContext>,
    pub rules: Rules,
    /// Results for transactions that were received before their block was complete.
    pub early: Option<Arc<early::EarlyShared>>,
}

/// A block that is parsed, and whose signatures are verified.
#[derive(Debug)]
pub(crate) struct Read<'a> {
    /// Number and header hash of the previous block, and of this block.
    pub tips: [Tip; 2],
    pub parsed: Vec<Parsed<'a>>,
    pub checked: VerifiedSignatures<'a>,
    pub parts: BlockParts,
    /// Time for parsing; `verify` is the time for verifying signatures.
    pub parse: Duration,
    pub verify: Duration,
}

impl Reader {
    /// Parses and verifies the block that follows `tip`. `data` is the hash of its transactions, if it was computed
    /// before. Afterwards, also after an error, the early results for the block are discarded.
    pub fn read<'a>(
        &self,
        bytes: &'a [u8],
        arenas: &'a mut Arenas,
        tip: Tip,
        data: Option<[u8; 32]>,
    ) -> Result<Read<'a>, Error> {
        let read = self.read_block(bytes, arenas, tip, data);
        if let Some(early) = &self.early {
            early.discard(tip.number + 1);
        }
        read
    }

    fn read_block<'a>(
        &self,
        bytes: &'a [u8],
        arenas: &'a mut Arenas,
        tip: Tip,
        data: Option<[u8; 32]>,
    ) -> Result<Read<'a>, Error> {
        let started = Instant::now();
        let Arenas { of_block, of_shares } = arenas;
        let block = Block::read(bytes, of_block)?;
        self.check_chain(&block, tip)?;
        self.check_signatures(&block)?;
        let signed_at = Instant::now();
        let mut known = Vec::new();
        self.know_early(&block, &mut known);
        let parsed = self.parse(&block, bytes.len(), of_shares, &known, data)?;
        let parsed_at = Instant::now();
        // Verifications that were still running at the first query have probably finished by now.
        self.know_early(&block, &mut known);
        let mut parts = BlockParts::default();
        let checked = self.verify(&parsed, &known, |identity, place| {
            parts.add(bytes, identity, place)
        });
        parts.add_signers(bytes, &block);
        parts.sort();
        parts.ids = parsed.iter().map(|tx| tx.id.clone()).collect();
        let own = Tip {
            number: block.number,
            hash: block.hash(),
        };
        Ok(Read {
            tips: [tip, own],
            parsed,
            checked,
            parts,
            parse: parsed_at - signed_at,
            verify: signed_at - started + parsed_at.elapsed(),
        })
    }

    /// Checks the `ConfigEnvelope` of a CONFIG transaction against the current configuration, and returns the
    /// configuration that it sets.
    pub fn next_config(&self, data: &[u8]) -> Result<Arc<Config>, Stop> {
        let (current, verifier, rules) = (&*self.setting.config, &self.options.verifier, self.rules);
        if rules.hold(Rule::ConfigAuthorised) {
            update::check(data, &self.channel, current, verifier, rules)?;
        }
        let next = Config::new(data, verifier, rules)?;
        current.may_become(&next)?;
        Ok(Arc::new(next))
    }

    /// Checks that the block follows `tip` (number, hash of the previous block, channel), the orderers' signatures and
    /// the data hash. Returns the block's number and hash as the new tip, and the configuration if the block sets one.
    /// Reads and checks a config block fully; does not parse the transactions of any other block.
    pub fn read_config(&self, bytes: &[u8], tip: Tip) -> Result<(Tip, Option<Arc<Config>>), Error> {
        let mut arenas = Arenas::new(&self.options);
        {
            let arena = Arena::new();
            let block = Block::read(bytes, &arena)?;
            self.check_chain(&block, tip)?;
            self.check_signatures(&block)?;
            block.check_data()?;
            if !block.is_config() {
                let (number, hash) = (block.number, block.hash());
                return Ok((Tip { number, hash }, None));
            }
        }
        let read = self.read_block(bytes, &mut arenas, tip, None)?;
        let [_, own] = read.tips;
        let Some(ParsedTx::Signed(signed)) = read.parsed.first().map(|tx| &tx.known) else {
            return Ok((own, None));
        };
        let first = read.checked.first.first().copied().unwrap_or_default();
        let config = match signed.next {
            SignedOutcome::Config(data) if read.checked.signed(first, 0, self.rules)? => {
                Some(self.next_config(data)?)
            }
            _ => None,
        };
        Ok((own, config))
    }

    /// Adds the early results for `block`, which orderers have signed, to `known`.
    fn know_early(&self, block: &Block<'_>, known: &mut Vec<Option<early::EarlyTx>>) {
        if let Some(early) = &self.early {
            early.take(block.number, &self.setting, &block.transactions, known);
        }
    }

    fn check_chain(&self, block: &Block<'_>, tip: Tip) -> Result<(), Refused> {
        if block.number != tip.number + 1 {
            return Err(Refused::Number {
                found: block.number,
                expected: tip.number + 1,
            });
        }
        if block.previous_hash != tip.hash {
            return Err(Refused::PreviousHash);
        }
        match block.channel() {
            Some(channel) if *channel != *self.channel => Err(Refused::Channel),
            _ => Ok(()),
        }
    }

    /// Checks that the orderers' signatures satisfy the channel's policy for blocks.
    fn check_signatures(&self, block: &Block<'_>) -> Result<(), Error> {
        let (config, rules) = (&*self.setting.config, self.rules);
        let consenters = config.consenters.as_deref();
        let consenter = |id| {
            let mut all = consenters.unwrap_or_default().iter();
            all.find(|consenter| consenter.id == id)
                .map(|consenter| consenter.identity.clone())
        };
        let signatures = block.signatures(consenter, consenters.is_some())?;
        let mut identities = BlockIdentities::default();
        let places: Vec<usize> = signatures
            .iter()
            .map(|by| identities.index_of(&by.identity))
            .collect();
        self.resolve(&mut identities);
        // `known` has the signer and the result of each signature; a result of `None` means that the signature is the
        // next one in `unverified`.
        let (mut known, mut unverified) = (Vec::new(), Vec::new());
        for (by, place) in signatures.iter().zip(&places) {
            let Resolution::Known(identity) = identities.get(*place) else {
                continue;
            };
            if let Key::Ed25519(key) = &identity.key {
                // The signed bytes include up to 4 MiB of metadata, so they are assembled for one signature at a time.
                let holds = verify_ed25519(key, &[&block.signed_by(by)], &by.signature, rules);
                known.push((&**identity, Some(holds)));
            } else if let Some(one) =
                UnverifiedSignature::new(&identity.key, by.digest, Vec::new, &by.signature, rules)
            {
                unverified.push(one);
                known.push((&**identity, None));
            }
        }
        let mut valid = verify_all(&unverified, &self.options.verifier, rules).into_iter();
        let mut signers: Vec<&Identity> = Vec::new();
        for (identity, holds) in known {
            if !holds.or_else(|| valid.next()).unwrap_or_default() {
                continue;
            }
            let is_same = |other: &&Identity| (other.msp, other.id) == (identity.msp, identity.id);
            if !signers.iter().any(is_same) {
                signers.push(identity);
            }
        }
        if config.evaluate(BLOCK_VALIDATION, &signers, rules) || !rules.hold(Rule::OrdererSignature) {
            return Ok(());
        }
        for place in places {
            if let Resolution::Unsure(what) = identities.get(place) {
                return Err(Stop::Config {
                    what: format!("identity of an orderer: {what}"),
                }
                .into());
            }
        }
        Err(Refused::Signature.into())
    }

    /// Parses the transactions, and checks that their hash is the one in the header.
    fn parse<'a>(
        &self,
        block: &Block<'a>,
        bytes: usize,
        arenas: &'a mut [Arena],
        known: &[Option<early::EarlyTx>],
        data: Option<[u8; 32]>,
    ) -> Result<Vec<Parsed<'a>>, Refused> {
        let (channel, rules) = (&*self.channel, self.rules);
        let first = data.is_some() || bytes > PARALLEL_HASHING_BYTES_MAX;
        if first {
            block.check_data_of(data.unwrap_or_else(|| data_digest(&block.transactions)))?;
        }
        // With several threads, each thread repeatedly takes the next part, because one thread first checks the hash of
        // all transactions and is therefore late.
        let size = match arenas.len() {
            0 | 1 => block.transactions.len().max(1),
            _ => TXS_HASHED_TOGETHER,
        };
        let (parts, next) = (block.transactions.chunks(size), AtomicUsize::new(0));
        let read_parts = |arena: &'a mut Arena| {
            let (mut parsed, mut hashes) = (Vec::new(), Hashes::default());
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(part) = parts.clone().nth(number) else {
                    return parsed;
                };
                let digests = |index: usize| match known.get(number * size + index) {
                    Some(Some(known)) => &*known.digests,
                    _ => &[],
                };
                let read = parse_with(part, channel, arena, rules, &mut hashes, &digests, &mut |_| ());
                parsed.push((number, read));
            }
        };
        let read_parts = &read_parts;
        std::thread::scope(|scope| {
            let mut arenas = arenas.iter_mut();
            let own = arenas.next();
            let others: Vec<_> = arenas
                .map(|arena| scope.spawn(move || read_parts(arena)))
                .collect();
            let data = if first { Ok(()) } else { block.check_data() };
            let mut parsed = own.map(read_parts).unwrap_or_default();
            for other in others {
                parsed.extend(joined(other));
            }
            data?;
            parsed.sort_unstable_by_key(|(number, _)| *number);
            let mut parsed = parsed.into_iter().map(|(_, read)| read);
            let mut all = parsed.next().unwrap_or_default();
            parsed.for_each(|read| all.extend(read));
            Ok(all)
        })
    }

    /// Resolves identities and verifies the signatures of all transactions, in one batch for each thread. Signatures
    /// with an early result are skipped. Calls `note` with each identity and its index.
    pub fn verify<'a>(
        &self,
        parsed: &[Parsed<'a>],
        known: &[Option<early::EarlyTx>],
        mut note: impl FnMut(&'a [u8], usize),
    ) -> VerifiedSignatures<'a> {
        let mut identities = BlockIdentities::default();
        // All claimed signatures, transaction by transaction.
        let mut claims: Vec<Claim<'a>> = Vec::with_capacity(parsed.len() * 3);
        let mut first = Vec::with_capacity(parsed.len());
        for tx in parsed {
            first.push(claims.len());
            let ParsedTx::Signed(signed) = &tx.known else {
                continue;
            };
            let mut claim = |identity, digest, signature, message| {
                let place = identities.index_of(identity);
                claims.push(Claim {
                    place,
                    digest,
                    message,
                    signature,
                });
                place
            };
            let message = [signed.payload, &[]];
            let creator = claim(signed.creator, signed.digest, signed.signature, message);
            note(signed.creator, creator);
            if let SignedOutcome::Endorser(endorser) = &signed.next
                && let Ok(dispatched) = &endorser.dispatched
            {
                // The creator occurs twice in the transaction: in its header and in the header of its action, before
                // the endorsements. If occurrences are noted in the order of their bytes, sorting them costs little.
                if endorser.creator == signed.creator {
                    note(endorser.creator, creator);
                }
                for by in &dispatched.endorsements {
                    let message = [dispatched.response, by.endorser];
                    let place = claim(by.endorser, by.digest, by.signature, message);
                    note(by.endorser, place);
                }
            }
        }
        self.resolve(&mut identities);
        let mut holds = vec![false; claims.len()];
        let is_known = self.fill_in(&first, known, &mut holds);
        let mut items = Vec::with_capacity(claims.len());
        let mut of_item = Vec::with_capacity(claims.len());
        for (number, claim) in claims.iter().enumerate() {
            if !is_known.get(number).copied().unwrap_or_default()
                && let Resolution::Known(identity) = identities.get(claim.place)
                && let Some(item) = claim.of(&identity.key, self.rules)
            {
                items.push(item);
                of_item.push(number);
            }
        }
        for (number, valid) in of_item.into_iter().zip(self.verify_all(&items)) {
            if let Some(holds) = holds.get_mut(number) {
                *holds = valid;
            }
        }
        VerifiedSignatures {
            identities,
            claims,
            first,
            holds,
        }
    }

    /// Copies early results into `holds`, and returns for each claim whether there was an early result for it. `first`
    /// is the index of each transaction's first claim.
    fn fill_in(&self, first: &[usize], known: &[Option<early::EarlyTx>], holds: &mut [bool]) -> Vec<bool> {
        let mut is_known = vec![false; holds.len()];
        let mut used = 0;
        for (index, known) in known.iter().enumerate() {
            let of = claims_of(first, index, holds.len());
            if let Some(known) = known
                && let (Some(holds), Some(is_known)) = (holds.get_mut(of.clone()), is_known.get_mut(of))
                && holds.len() == known.holds.len()
            {
                holds.copy_from_slice(&known.holds);
                is_known.fill(true);
                used += 1;
            }
        }
        if let Some(early) = &self.early {
            early.used(used);
        }
        is_known
    }

    fn resolve(&self, identities: &mut BlockIdentities<'_>) {
        let cache = self.setting.identities.lock();
        let mut cache = cache.unwrap_or_else(PoisonError::into_inner);
        let msps = &self.setting.config.msps;
        identities.resolve(&mut cache, msps, &self.options.verifier, self.rules);
    }

    fn verify_all(&self, items: &[UnverifiedSignature<'_>]) -> Vec<bool> {
        let threads = self.options.threads.max(1);
        let share = items.len().div_ceil(threads).max(1);
        let (verifier, rules) = (&self.options.verifier, self.rules);
        let one = |share: &[UnverifiedSignature<'_>]| verify_all(share, verifier, rules);
        std::thread::scope(|scope| {
            let mut shares = items.chunks(share);
            let first = shares.next();
            let others: Vec<_> = shares.map(|share| scope.spawn(move || one(share))).collect();
            let mut verdicts = first.map(one).unwrap_or_default();
            for other in others {
                verdicts.extend(joined(other));
            }
            verdicts
        })
    }
}

/// Memory for messages of a block that had to be normalised: one arena for the block, and one arena for each thread's
/// share of the transactions.
pub(crate) struct Arenas {
    of_block: Arena,
    of_shares: Vec<Arena>,
}

impl Arenas {
    pub fn new(options: &Options) -> Self {
        Self {
            of_block: Arena::new(),
            of_shares: (0..options.threads.max(1)).map(|_| Arena::new()).collect(),
        }
    }
}

/// Returns the result of a thread. A panic of the thread continues in the caller, because a block with missing codes
/// must not be accepted.
fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    match thread.join() {
        Ok(made) => made,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Returns the range of a transaction's claims among all claims.
fn claims_of(first: &[usize], index: usize, claims: usize) -> Range<usize> {
    let begin = |index: usize| first.get(index).copied().unwrap_or(claims);
    begin(index)..begin(index + 1)
}

/// A claimed signature: the identity at index `index_of` is said to have signed a message.
#[derive(Debug)]
struct Claim<'a> {
    place: usize,
    digest: [u8; 32],
    /// The signed bytes, in two parts.
    message: [&'a [u8]; 2],
    signature: &'a [u8],
}

impl<'a> Claim<'a> {
    fn of<'k>(&self, key: &'k Key, rules: Rules) -> Option<UnverifiedSignature<'k>>
    where
        'a: 'k,
    {
        let message = self.message;
        UnverifiedSignature::new(key, self.digest, || message.to_vec(), self.signature, rules)
    }
}

/// The verified signatures of a block.
#[derive(Debug)]
pub(crate) struct VerifiedSignatures<'a> {
    identities: BlockIdentities<'a>,
    claims: Vec<Claim<'a>>,
    /// Index of each transaction's first claim, which is the claim of the transaction's creator.
    pub first: Vec<usize>,
    holds: Vec<bool>,
}

impl VerifiedSignatures<'_> {
    /// Returns the result of each claim, grouped by transaction.
    pub fn holds_of_each(&self) -> Vec<Box<[bool]>> {
        let of_one = |index| {
            let of = claims_of(&self.first, index, self.holds.len());
            self.holds.get(of).unwrap_or_default().into()
        };
        (0..self.first.len()).map(of_one).collect()
    }

    /// Returns whether a valid identity made the signature of `claim`.
    pub fn signed(&self, claim: usize, index: usize, rules: Rules) -> Result<bool, Stop> {
        let Some(of) = self.claims.get(claim) else {
            return Ok(false);
        };
        match self.identities.get(of.place) {
            Resolution::Known(identity) => {
                let valid = identity.valid || !rules.hold(Rule::CreatorValid);
                Ok(valid && self.holds.get(claim).copied().unwrap_or_default())
            }
            Resolution::Unknown => Ok(false),
            Resolution::Unsure(what) => Err(Stop::Identity { index, what }),
        }
    }

    /// Returns the identities with a valid signature among `count` claims, each once. An identity whose first signature
    /// is invalid is still returned if a later signature of it is valid.
    pub fn signers(
        &self,
        from: usize,
        count: usize,
        index: usize,
        rules: Rules,
    ) -> Result<SmallVec<[&Identity; 4]>, Stop> {
        let mut signers: SmallVec<[&Identity; 4]> = SmallVec::with_capacity(count);
        for claim in from..from + count {
            let Some(of) = self.claims.get(claim) else {
                continue;
            };
            match self.identities.get(of.place) {
                Resolution::Unknown => {}
                Resolution::Unsure(what) => return Err(Stop::Identity { index, what }),
                Resolution::Known(identity) => {
                    let holds = self.holds.get(claim).copied().unwrap_or_default();
                    let before = signers
                        .iter()
                        .any(|other| (other.msp, other.id) == (identity.msp, identity.id));
                    let before = before && rules.hold(Rule::EndorserDeduplication);
                    if !before && (holds || !rules.hold(Rule::EndorsementSignature)) {
                        signers.push(identity);
                    }
                }
            }
        }
        Ok(signers)
    }
}

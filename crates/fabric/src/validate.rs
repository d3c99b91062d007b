//! The block validator: checks the blocks of one channel in order, by the rules of a Fabric peer, and holds the state
//! that they produce. [`Validator::validate`] returns a code for each transaction; [`Validator::commit`] applies the
//! result.

use crate::block::Block;
use crate::code::TxCode;
use crate::config::Config;
use crate::endorse::{Endorser, PolicyCache, Verdict};
use crate::entries::BlockEntries;
use crate::error::{Error, Refused, Stop};
use crate::expiry::{expire, lives_stay};
use crate::lifecycle::LIFECYCLE;
use crate::mvcc::{MvccChecker, commit_hash};
use crate::parts::BlockParts;
use crate::policy::Compiler;
use crate::proto::Arena;
use crate::read::{Arenas, ChannelContext, Read, Reader, Tip};
use crate::rules::{Rule, Rules};
use crate::state::{DurableMark, Height, State, TxId, TxIds, Updates};
use crate::tx::{Parsed, ParsedTx, SignedOutcome, parse};
use hashbrown::HashSet;
use lineside_verify::Verifier;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Options of a [`Validator`].
#[derive(Clone, Debug)]
pub struct Options {
    /// Number of threads that parse transactions and verify signatures; at least 1.
    pub threads: usize,
    /// Verifies signatures. Clones of a verifier share its cache of tables for public keys.
    pub verifier: Verifier,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            threads: 1,
            verifier: Verifier::default(),
        }
    }
}

/// Time that each stage of a block's validation took.
#[derive(Clone, Copy, Default, Debug)]
pub struct StageTimes {
    /// Parsing and hashing of the block and its transactions.
    pub parse: Duration,
    /// Lookup of identities and verification of signatures.
    pub verify: Duration,
    /// Decision of the codes before MVCC: form, signatures, duplicates, endorsement policies.
    pub policy: Duration,
    /// MVCC checks of the reads, collection of the writes, computation of the commit hash, and expiry of private data.
    pub mvcc: Duration,
}

/// Result of validating a block that is not committed yet.
#[derive(Debug)]
pub struct ValidatedBlock {
    /// The block's number.
    pub number: u64,
    /// The block's header hash.
    pub hash: [u8; 32],
    /// Validation code of each transaction, in block order.
    pub codes: Vec<TxCode>,
    /// The commit hash; the genesis block has none.
    pub commit_hash: Option<[u8; 32]>,
    /// Changes of the state, including the removal of keys that expire with this block.
    pub updates: Updates,
    /// Ids of the block's transactions, valid or not.
    pub ids: Vec<TxId>,
    /// Time that each stage took.
    pub times: StageTimes,
    /// Parts of the block that the ledger stores separately.
    pub(crate) parts: BlockParts,
    /// The new channel configuration, if the block sets one.
    pub(crate) config: Option<Arc<Config>>,
}

impl ValidatedBlock {
    /// Returns the codes in the encoding of the metadata entry TRANSACTIONS_FILTER: one byte each.
    pub fn filter(&self) -> Vec<u8> {
        self.codes.iter().map(|&code| code as u8).collect()
    }
}

/// A channel: the last block of its chain, its configuration and its state.
#[derive(Debug)]
pub struct Validator {
    pub(crate) reader: Reader,
    pub(crate) last: u64,
    pub(crate) last_hash: [u8; 32],
    pub(crate) commit_hash: Option<[u8; 32]>,
    pub(crate) state: State,
    pub(crate) ids: TxIds,
    pub(crate) compiled: PolicyCache,
}

impl Validator {
    /// Starts a channel at its genesis block. The block is trusted: the caller must have it from a reliable source.
    ///
    /// # Errors
    /// [`Error::Refused`] if the block is malformed, [`Error::Stop`] if this program does not support its
    /// configuration.
    pub fn new(genesis: &[u8], options: Options) -> Result<Self, Error> {
        Self::with_rules(genesis, options, Rules::default())
    }

    pub(crate) fn with_rules(genesis: &[u8], options: Options, rules: Rules) -> Result<Self, Error> {
        let arena = Arena::new();
        let block = Block::read(genesis, &arena)?;
        if block.number != 0 {
            return Err(Refused::Number {
                found: block.number,
                expected: 0,
            }
            .into());
        }
        block.check_data()?;
        let channel = block.channel().unwrap_or_default();
        // Orderers do not sign the genesis block, so no signatures are checked.
        let config = block.genesis_config(&arena).ok_or(Refused::Malformed {
            what: "a genesis block must contain exactly one CONFIG transaction",
        })?;
        let mut ids = TxIds::default();
        for parsed in parse(&block.transactions, &channel, &arena, rules) {
            parsed.id.into_iter().for_each(|id| ids.insert(id));
        }
        let config = Config::new(config, &options.verifier, rules)?;
        Ok(Self {
            reader: Reader {
                options,
                channel: channel.into(),
                setting: ChannelContext::new(Arc::new(config)),
                rules,
                early: None,
            },
            last: 0,
            last_hash: block.hash(),
            commit_hash: None,
            state: State::default(),
            ids,
            compiled: PolicyCache::default(),
        })
    }

    /// Replaces the state with `state`, and applies the genesis block to it as its first change.
    pub(crate) fn with_state(mut self, state: State) -> Self {
        self.state = state;
        let mark = DurableMark {
            last: self.last,
            hash: self.last_hash,
            commit_hash: [0; 32],
        };
        self.state.apply(mark, Updates::default());
        self
    }

    /// Returns the channel's name.
    pub fn channel(&self) -> &str {
        &self.reader.channel
    }

    /// Returns the number of the last committed block.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Returns the header hash of the last committed block.
    pub fn last_hash(&self) -> [u8; 32] {
        self.last_hash
    }

    /// Returns the commit hash of the last committed block; `None` after the genesis block.
    pub fn commit_hash(&self) -> Option<[u8; 32]> {
        self.commit_hash
    }

    /// Returns the state after the last committed block.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Returns the index of all transaction ids.
    pub fn ids(&self) -> &TxIds {
        &self.ids
    }

    /// Returns the channel configuration that is in force.
    pub fn config(&self) -> &Config {
        &self.reader.setting.config
    }

    /// Returns a shared reference to the channel configuration that is in force, for callers that store it.
    pub fn shared_config(&self) -> Arc<Config> {
        self.reader.setting.config.clone()
    }

    /// Validates the next block. This changes only caches, not the state.
    ///
    /// # Errors
    /// [`Error::Refused`] if a peer would reject the block, [`Error::Stop`] if this program cannot determine the peer's
    /// decision.
    pub fn validate(&mut self, bytes: &[u8]) -> Result<ValidatedBlock, Error> {
        let mut arenas = Arenas::new(&self.reader.options);
        let read = self.reader.read(bytes, &mut arenas, self.tip(), None)?;
        self.decide(read)
    }

    /// Returns the last committed block, which the next one must follow.
    pub(crate) fn tip(&self) -> Tip {
        Tip {
            number: self.last,
            hash: self.last_hash,
        }
    }

    /// Decides the next block, which was parsed and verified under the current configuration.
    pub(crate) fn decide(&mut self, read: Read<'_>) -> Result<ValidatedBlock, Error> {
        let decided = self.decide_by_state(read);
        // If a disk read fails, the key or id seems to be missing. A decision after such a failure is therefore
        // discarded.
        let checked = self.state.check().and_then(|()| self.ids.check());
        checked.map_err(|what| Stop::State { what })?;
        decided
    }

    fn decide_by_state(&mut self, read: Read<'_>) -> Result<ValidatedBlock, Error> {
        let started = Instant::now();
        let rules = self.reader.rules;
        #[cfg(feature = "laboratory")]
        crate::laboratory::check_fault(&self.reader.channel, self.last + 1)?;
        let entries = BlockEntries::look_up(&self.state, read.parsed.iter().map(Parsed::rwset));
        let (mut codes, config) = endorsed(
            (&self.reader, &self.state, &self.ids),
            &mut self.compiled,
            &read,
            &entries,
        )?;
        let decided_at = Instant::now();
        let [_, tip] = read.tips;
        let mut updates = self.execute(tip.number, &read.parsed, &entries, &mut codes)?;
        let flags: Vec<u8> = codes.iter().map(|&code| code as u8).collect();
        let previous = self.commit_hash.as_ref().map_or(&[][..], |hash| hash);
        let mut hash = commit_hash(&flags, &updates, previous, rules);
        lives_stay(&self.state, &mut self.compiled.lives, &updates)?;
        expire(
            tip.number,
            &self.state,
            &mut self.compiled.lives,
            &mut updates,
            rules,
        )?;
        if !rules.hold(Rule::ExpiryAfterCommitHash) {
            hash = commit_hash(&flags, &updates, previous, rules);
        }
        if let Some((found, limit)) = self.state.too_long(&updates) {
            let what = "bytes of a key with its namespace and collection, in a state on the disk (a state in memory \
                        has no such limit)";
            return Err(Stop::Limit { what, found, limit }.into());
        }
        let mut ids = Vec::with_capacity(codes.len());
        ids.extend(read.parsed.iter().zip(&codes).filter_map(|(parsed, code)| {
            let indexed = rules.hold(Rule::InvalidTxIdsIndexed) || *code == TxCode::Valid;
            parsed.id.clone().filter(|_| indexed)
        }));
        Ok(ValidatedBlock {
            number: tip.number,
            hash: tip.hash,
            ids,
            codes,
            commit_hash: Some(hash),
            updates,
            times: StageTimes {
                parse: read.parse,
                verify: read.verify,
                policy: decided_at - started,
                mvcc: decided_at.elapsed(),
            },
            parts: read.parts,
            config,
        })
    }

    /// Commits the result of [`validate`](Self::validate) for the next block.
    pub fn commit(&mut self, validated: ValidatedBlock) {
        debug_assert_eq!(validated.number, self.last + 1);
        if let Some(config) = validated
            .config
            .filter(|_| self.reader.rules.hold(Rule::ConfigAppliedAtOnce))
        {
            self.reader.setting = ChannelContext::new(config);
            self.compiled = PolicyCache::default();
        }
        if validated.updates.namespaces.contains_key(LIFECYCLE) {
            self.compiled.forget_definitions();
        }
        let mark = DurableMark {
            last: validated.number,
            hash: validated.hash,
            commit_hash: validated.commit_hash.unwrap_or_default(),
        };
        self.state.apply(mark, validated.updates);
        for id in validated.ids {
            self.ids.insert(id);
        }
        self.ids.committed(validated.number);
        self.last = validated.number;
        self.last_hash = validated.hash;
        self.commit_hash = validated.commit_hash;
    }

    /// Checks the reads of each transaction in block order, and collects the writes of valid transactions.
    fn execute<'s>(
        &'s self,
        number: u64,
        parsed: &[Parsed<'_>],
        entries: &BlockEntries<'s>,
        codes: &mut [TxCode],
    ) -> Result<Updates, Error> {
        let mut checker = MvccChecker::new(&self.state, self.reader.rules);
        for (index, (tx, code)) in parsed.iter().zip(codes).enumerate() {
            if let ParsedTx::Signed(signed) = &tx.known
                && let SignedOutcome::Endorser(tx) = &signed.next
                && let Ok(dispatched) = &tx.dispatched
            {
                let entries = entries.of_tx(index);
                if *code == TxCode::Valid {
                    let checked = checker.check(&dispatched.rwset, entries);
                    *code = checked.map_err(|what| Stop::Transaction {
                        index,
                        what: what.to_owned(),
                    })?;
                }
                if *code == TxCode::Valid || !self.reader.rules.hold(Rule::OnlyValidWrites) {
                    let version = Height {
                        block: number,
                        tx: index as u64,
                    };
                    checker.apply(&dispatched.rwset, entries, version);
                }
            }
        }
        Ok(checker.updates)
    }
}

/// Returns each transaction's code before MVCC, and the new configuration if the block sets one.
fn endorsed(
    (reader, state, ids): (&Reader, &State, &TxIds),
    compiled: &mut PolicyCache,
    read: &Read<'_>,
    entries: &BlockEntries<'_>,
) -> Result<(Vec<TxCode>, Option<Arc<Config>>), Error> {
    let (parsed, checked) = (&read.parsed, &read.checked);
    let Reader {
        options,
        setting,
        rules,
        ..
    } = reader;
    let (current, verifier, rules) = (&setting.config, &options.verifier, *rules);
    let mut config = None;
    let mut endorser = Endorser {
        state,
        config: current,
        compiler: Compiler {
            msps: &current.msps,
            verifier,
            rules,
        },
        compiled,
        rules,
        changed: HashSet::new(),
        undecided: HashSet::new(),
        halted: None,
    };
    let mut codes = Vec::with_capacity(parsed.len());
    let own: Vec<Option<&TxId>> = parsed.iter().map(Parsed::endorser_id).collect();
    let known = ids.contains_each(&own);
    for (index, tx) in parsed.iter().enumerate() {
        let stop = |what: &str| Stop::Transaction {
            index,
            what: what.to_owned(),
        };
        let signed = match &tx.known {
            ParsedTx::Code(code) => {
                endorser.pass_over(tx);
                codes.push(*code);
                continue;
            }
            ParsedTx::Unsure(what) => return Err(stop(what).into()),
            ParsedTx::Signed(signed) => signed,
        };
        if let Some(what) = signed.unsure {
            return Err(stop(what).into());
        }
        let first = checked.first.get(index).copied().unwrap_or_default();
        if rules.hold(Rule::CreatorSignature) && !checked.signed(first, index, rules)? {
            endorser.pass_over(tx);
            codes.push(TxCode::BadCreatorSignature);
            continue;
        }
        codes.push(match &signed.next {
            SignedOutcome::Code(code) => {
                endorser.pass_over(tx);
                *code
            }
            SignedOutcome::Unsure(what) => return Err(stop(what).into()),
            SignedOutcome::Config(data) => {
                if parsed.len() != 1 {
                    return Err(
                        stop("it is a configuration, but not the only transaction of its block").into(),
                    );
                }
                config = Some(reader.next_config(data)?);
                TxCode::Valid
            }
            SignedOutcome::Endorser(of) => match &of.dispatched {
                _ if known.get(index) == Some(&true) && rules.hold(Rule::DuplicateInLedger) => {
                    endorser.pass_over(tx);
                    TxCode::DuplicateTxid
                }
                Err(code) => {
                    endorser.pass_over(tx);
                    *code
                }
                Ok(dispatched) if dispatched.too_many => {
                    return Err(stop("it has more endorsements than the limit").into());
                }
                Ok(dispatched) => {
                    let signers = checked.signers(first + 1, dispatched.endorsements.len(), index, rules)?;
                    match endorser.decide(dispatched, entries.of_tx(index), &signers, index)? {
                        Verdict::Endorsed => TxCode::Valid,
                        Verdict::NotEndorsed => TxCode::EndorsementPolicyFailure,
                        Verdict::Undefined => TxCode::InvalidChaincode,
                    }
                }
            },
        });
    }
    let mut seen = HashSet::with_capacity(parsed.len());
    for (tx, code) in parsed.iter().zip(&mut codes) {
        if let (TxCode::Valid, ParsedTx::Signed(signed)) = (*code, &tx.known)
            && let SignedOutcome::Endorser(tx) = &signed.next
            && !seen.insert(&tx.id)
            && rules.hold(Rule::DuplicateInBlock)
        {
            *code = TxCode::DuplicateTxid;
        }
    }
    Ok((codes, config))
}

//! Replay of committed blocks: brings a validator to the end of a ledger by the recorded codes, without verifying
//! again.

use super::error::LedgerError;
use super::record::Stored;
use crate::block::Block;
use crate::code::TxCode;
use crate::config::Config;
use crate::endorse::PolicyCache;
use crate::entries::TxEntries;
use crate::error::{Error, Refused};
use crate::expiry::{expire, schedule};
use crate::mvcc::MvccChecker;
use crate::parts::BlockParts;
use crate::proto::Arena;
use crate::read::{ChannelContext, Reader};
use crate::rules::Rules;
use crate::state::{Height, State, TxIds};
use crate::tx::{ParsedTx, SignedOutcome, parse};
use crate::validate::{Options, StageTimes, ValidatedBlock, Validator};
use std::sync::Arc;

/// State of a validator that a checkpoint restores, except for the configuration, which is in a block.
#[derive(Debug)]
pub(crate) struct ValidatorState {
    pub channel: String,
    pub last: u64,
    pub last_hash: [u8; 32],
    pub commit_hash: Option<[u8; 32]>,
    pub state: State,
    pub ids: TxIds,
}

impl Validator {
    /// Resumes a channel. `config_block` is the block that set its current configuration.
    pub(crate) fn resume(
        standing: ValidatorState,
        config_block: &[u8],
        options: Options,
    ) -> Result<Self, Error> {
        let arena = Arena::new();
        let block = Block::read(config_block, &arena)?;
        let config = block.genesis_config(&arena).ok_or(Refused::Malformed {
            what: "the block that should contain the current configuration contains none",
        })?;
        Self::resume_under(standing, config, options)
    }

    /// Resumes a channel under `config`, a `ConfigEnvelope`.
    pub(crate) fn resume_under(
        standing: ValidatorState,
        config: &[u8],
        options: Options,
    ) -> Result<Self, Error> {
        let rules = Rules::default();
        let config = Config::new(config, &options.verifier, rules)?;
        let mut state = standing.state;
        schedule(&mut state)?;
        Ok(Self {
            reader: Reader {
                options,
                channel: standing.channel.into(),
                setting: ChannelContext::new(Arc::new(config)),
                rules,
                early: None,
            },
            last: standing.last,
            last_hash: standing.last_hash,
            commit_hash: standing.commit_hash,
            state,
            ids: standing.ids,
            compiled: PolicyCache::default(),
        })
    }

    /// Commits the next block of a ledger with its recorded codes. No signature is verified and no policy evaluated.
    /// Returns whether the block sets the configuration.
    pub(crate) fn redo(&mut self, stored: &Stored) -> Result<bool, LedgerError> {
        let number = stored.number;
        let wrong = |what: &str| LedgerError::block(number, what);
        let failed = |source: Error| LedgerError::Validation { number, source };
        let arena = Arena::new();
        let block = Block::read(&stored.bytes, &arena).map_err(failed)?;
        if number != self.last + 1 || block.previous_hash != self.last_hash {
            return Err(wrong(
                "the block's previous hash is not the header hash of the block before it",
            ));
        }
        let mut checker = MvccChecker::new(&self.state, self.reader.rules);
        let (mut codes, mut ids, mut config) = (Vec::with_capacity(stored.codes.len()), Vec::new(), None);
        let all = parse(
            &block.transactions,
            &self.reader.channel,
            &arena,
            self.reader.rules,
        );
        for (index, (parsed, code)) in all.into_iter().zip(&stored.codes).enumerate() {
            let code = TxCode::from_number(*code)
                .ok_or_else(|| wrong("a validation code of the block is unknown"))?;
            codes.push(code);
            if let (TxCode::Valid, ParsedTx::Signed(signed)) = (code, &parsed.known) {
                match &signed.next {
                    SignedOutcome::Endorser(tx) => {
                        if let Ok(dispatched) = &tx.dispatched
                            && !self.state.has(number)
                        {
                            let version = Height {
                                block: number,
                                tx: index as u64,
                            };
                            checker.apply(&dispatched.rwset, TxEntries::default(), version);
                        }
                    }
                    SignedOutcome::Config(data) => {
                        let next = Config::new(data, &self.reader.options.verifier, self.reader.rules);
                        config = Some(Arc::new(next.map_err(|stop| failed(stop.into()))?));
                    }
                    SignedOutcome::Code(_) | SignedOutcome::Unsure(_) => {}
                }
            }
            ids.extend(parsed.id);
        }
        let mut updates = checker.updates;
        if !self.state.has(number) {
            let lives = &mut self.compiled.lives;
            expire(number, &self.state, lives, &mut updates, self.reader.rules)
                .map_err(|stop| failed(stop.into()))?;
            let unread = |what| LedgerError::State { what };
            self.state.check().map_err(unread)?;
            if let Some((found, limit)) = self.state.too_long(&updates) {
                let what = format!(
                    "block {number} writes a key that has {found} bytes with its namespace and collection, but a state \
                     on the disk stores at most {limit}; use a state in memory (`--state memory`)"
                );
                return Err(LedgerError::State { what });
            }
        }
        let sets_config = config.is_some();
        self.commit(ValidatedBlock {
            number,
            hash: stored.hash,
            codes,
            commit_hash: stored.commit_hash,
            updates,
            ids,
            times: StageTimes::default(),
            parts: BlockParts::default(),
            config,
        });
        Ok(sets_config)
    }
}

//! Chain of headers: accepts headers from any source, checks them by the rules of the network, and finds the chain
//! with the most work.

mod entries;
mod store;

pub use store::{FileStore, HeaderStore, MemoryStore, StoreError};

use crate::hash::Display;
use crate::{
    Ancestor, HEADER_BYTES, Hash, Header, Network, ProofError, RuleError, TransactionProof, U256,
    WitnessProof, check_rules, median_time,
};
use entries::{Entries, Entry, Id};
use std::cell::Cell;
use std::ops::RangeInclusive;
use store::HeaderBytes;

/// Block that every chain must have: its height and its hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Height of the block.
    pub height: u32,
    /// Hash of the block, in wire order.
    pub hash: Hash,
}

/// Settings of a chain.
#[derive(Clone, Debug)]
pub struct ChainOptions {
    /// Blocks that the chain must have. Once one is reached, headers that branch off below it are refused, which also
    /// bounds what a source of cheap old headers can make the chain keep.
    pub checkpoints: Vec<Checkpoint>,
    /// Largest number of headers, those of side chains included. Each takes at most 120 bytes of memory.
    pub max_headers: u32,
}

impl Default for ChainOptions {
    /// No checkpoints; 6,000,000 headers (720 MB), more than the longest of the networks has.
    fn default() -> ChainOptions {
        ChainOptions {
            checkpoints: Vec::new(),
            max_headers: 6_000_000,
        }
    }
}

/// Reason why a header is not accepted, or a chain not opened.
#[derive(Debug, thiserror::Error)]
pub enum ChainError {
    /// The header's parent was never accepted.
    #[error(
        "header {}: its parent {} is not known; ask for the headers before it",
        Display(hash),
        Display(parent)
    )]
    UnknownParent {
        /// Hash of the header.
        hash: Hash,
        /// Hash of the parent.
        parent: Hash,
    },
    /// The header's own proof of work is wrong, or the path of a Merkle proof does not lead to the header's root.
    #[error("header {}: {source}", Display(hash))]
    Proof {
        /// Hash of the header.
        hash: Hash,
        /// Reason of the refusal.
        source: ProofError,
    },
    /// The header breaks a rule of the network.
    #[error("header {} at height {height}: {source}", Display(hash))]
    Rule {
        /// Hash of the header.
        hash: Hash,
        /// Height of the header.
        height: u32,
        /// Reason of the refusal.
        source: RuleError,
    },
    /// The header is not the one that a checkpoint requires.
    #[error(
        "header {} at height {height}: the checkpoint at this height requires the header {}",
        Display(hash),
        Display(expected)
    )]
    OtherThanCheckpoint {
        /// Hash of the header.
        hash: Hash,
        /// Height of the header.
        height: u32,
        /// Hash that the checkpoint requires.
        expected: Hash,
    },
    /// The header branches off below a checkpoint that the chain has reached.
    #[error(
        "header {} at height {height}: it branches off below the checkpoint at {checkpoint}",
        Display(hash)
    )]
    BelowCheckpoint {
        /// Hash of the header.
        hash: Hash,
        /// Height of the header.
        height: u32,
        /// Height of the checkpoint.
        checkpoint: u32,
    },
    /// The chain holds [`ChainOptions::max_headers`] headers, and accepts no further one.
    #[error("the chain has {max} headers, which is the maximum; raise max_headers")]
    Full {
        /// Maximum number of headers.
        max: u32,
    },
    /// The proof's header is not in the chain of most work at the height that the proof names.
    #[error(
        "header {} is not in the best chain at height {height}; read the newest headers and try again",
        Display(hash)
    )]
    NotInChain {
        /// Hash of the header.
        hash: Hash,
        /// Height that the proof names.
        height: u32,
    },
    /// A stored header is damaged or does not follow the rules.
    #[error("stored header {index}: {source}; remove the file of headers and fetch them again")]
    Stored {
        /// Number of the header in the store, from 0.
        index: u64,
        /// Reason of the refusal.
        source: Box<ChainError>,
    },
    /// The headers are accepted, but the store could not write them; the next call tries to write them again.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Last header of the chain of most work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tip {
    /// Height of the header.
    pub height: u32,
    /// Hash of the header, in wire order.
    pub hash: Hash,
    /// Expected number of hashes that the whole chain took.
    pub work: U256,
}

/// Change of the chain of most work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TipChange {
    /// Number of blocks that are no longer in the chain, from the old tip down. 0 if the chain only grew.
    pub disconnected: u32,
    /// Heights of the blocks that are in the chain now and were not before.
    pub connected: RangeInclusive<u32>,
}

/// Result of accepting headers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    /// Number of headers that were not known before, those of side chains included.
    pub added: u32,
    /// Change of the chain of most work; `None` if it did not change. Of two chains with equal work, the chain that
    /// reached this work first stays the chain of most work.
    pub change: Option<TipChange>,
}

/// Reason why a range of headers was not accepted to its end.
#[derive(Debug, thiserror::Error)]
#[error("{source} (header {index} of the range)")]
pub struct RangeError {
    /// Number of the refused header in the range, from 0; the length of the range if only the store failed.
    pub index: usize,
    /// Outcome of the headers before the refused one, which stay accepted.
    pub accepted: Accepted,
    /// Reason of the refusal.
    pub source: ChainError,
}

/// Chain of headers of one network, with its side chains, and a store for a later run.
pub struct HeaderChain<S = MemoryStore> {
    network: Network,
    options: ChainOptions,
    entries: Entries,
    store: S,
    /// Accepted headers that the store does not have yet.
    unsaved: Vec<HeaderBytes>,
}

impl HeaderChain {
    /// Starts a chain with the network's genesis header that is kept in memory only.
    pub fn in_memory(network: Network, options: ChainOptions) -> HeaderChain {
        HeaderChain {
            network,
            options,
            entries: Entries::new(&network.genesis()),
            store: MemoryStore,
            unsaved: Vec::new(),
        }
    }
}

impl<S: HeaderStore> HeaderChain<S> {
    /// Reads the headers of `store` and checks them again. Cuts off a bad last header, which a power cut can leave,
    /// and zeros that follow it.
    ///
    /// # Errors
    /// [`ChainError::Store`]; [`ChainError::Full`]; [`ChainError::Stored`] if a header other than the last one is
    /// refused. After an error the store is unchanged.
    pub fn open(network: Network, store: S, options: ChainOptions) -> Result<HeaderChain<S>, ChainError> {
        let mut chain = HeaderChain {
            network,
            options,
            entries: Entries::new(&network.genesis()),
            store,
            unsaved: Vec::new(),
        };
        chain.load()?;
        Ok(chain)
    }

    fn load(&mut self) -> Result<(), ChainError> {
        let (mut count, mut refused, mut is_tail_empty) = (0_u64, None, true);
        let (network, options, entries) = (self.network, &self.options, &mut self.entries);
        self.store.load(&mut |bytes| {
            if refused.is_some() {
                is_tail_empty &= *bytes == [0; HEADER_BYTES];
                return is_tail_empty;
            }
            match add(entries, network, options, &Header::from_bytes(bytes), u32::MAX) {
                Ok(_) => count += 1,
                Err(error) => refused = Some(error),
            }
            true
        })?;
        match refused {
            None => Ok(()),
            Some(error @ ChainError::Full { .. }) => Err(error),
            Some(_) if is_tail_empty => Ok(self.store.cut(count)?),
            Some(error) => Err(ChainError::Stored {
                index: count,
                source: Box::new(error),
            }),
        }
    }

    /// Accepts one header. `now` is the clock, in seconds since 1970. A header that is already known changes nothing.
    ///
    /// # Errors
    /// Any [`ChainError`] except [`ChainError::Stored`] and [`ChainError::NotInChain`]. With [`ChainError::Store`], the
    /// header stays accepted; with every other error, the chain is unchanged.
    pub fn accept(&mut self, header: &Header, now: u32) -> Result<Accepted, ChainError> {
        self.accept_range(std::slice::from_ref(header), now)
            .map_err(|error| error.source)
    }

    /// Accepts headers in the order in which they are given: parents before children. `now` is the clock, in seconds
    /// since 1970. The store has them when this returns; [`HeaderChain::sync`] makes them durable.
    ///
    /// # Errors
    /// The reason why the first refused header was refused. The headers before it stay accepted.
    pub fn accept_range(&mut self, headers: &[Header], now: u32) -> Result<Accepted, RangeError> {
        let old_tip = self.entries.tip();
        let mut added = 0;
        let mut refused = None;
        for (index, header) in headers.iter().enumerate() {
            match add(&mut self.entries, self.network, &self.options, header, now) {
                Ok(true) => {
                    added += 1;
                    self.unsaved.push(header.to_bytes());
                }
                Ok(false) => {}
                Err(error) => {
                    refused = Some((index, error));
                    break;
                }
            }
        }
        let accepted = Accepted {
            added,
            change: self.change_since(old_tip),
        };
        let saved = self.save().map_err(|error| (headers.len(), error.into()));
        match refused.map_or(saved, Err) {
            Ok(()) => Ok(accepted),
            Err((index, source)) => Err(RangeError {
                index,
                accepted,
                source,
            }),
        }
    }

    /// Returns the change of the chain of most work since `old_tip` was its tip.
    fn change_since(&self, old_tip: Id) -> Option<TipChange> {
        let new_tip = self.entries.tip();
        if new_tip == old_tip {
            return None;
        }
        let mut fork = old_tip;
        while !self.entries.is_active(fork) {
            fork = self.entries.get(fork).parent;
        }
        let height = |id| self.entries.get(id).height;
        Some(TipChange {
            disconnected: height(old_tip) - height(fork),
            connected: height(fork) + 1..=height(new_tip),
        })
    }

    fn save(&mut self) -> Result<(), StoreError> {
        if !self.unsaved.is_empty() {
            self.store.append(&self.unsaved)?;
            self.unsaved.clear();
        }
        Ok(())
    }

    /// Makes all accepted headers durable.
    ///
    /// # Errors
    /// [`ChainError::Store`]. The headers stay accepted.
    pub fn sync(&mut self) -> Result<(), ChainError> {
        self.save()?;
        Ok(self.store.sync()?)
    }

    /// Returns the network.
    pub fn network(&self) -> Network {
        self.network
    }

    /// Returns the last header of the chain of most work.
    pub fn tip(&self) -> Tip {
        let tip = self.entries.get(self.entries.tip());
        Tip {
            height: tip.height,
            hash: tip.hash,
            work: U256::from(tip.work()),
        }
    }

    /// Returns the header at `height` in the chain of most work; `None` above its tip.
    pub fn header_at(&self, height: u32) -> Option<Header> {
        self.entries.active(height).map(|id| self.entries.header(id))
    }

    /// Returns the hash of the header at `height` in the chain of most work; `None` above its tip.
    pub fn hash_at(&self, height: u32) -> Option<Hash> {
        self.entries.active(height).map(|id| self.entries.get(id).hash)
    }

    /// Returns the header with this hash, also of a side chain, and its height.
    pub fn find(&self, hash: &Hash) -> Option<(Header, u32)> {
        let id = self.entries.find(hash)?;
        Some((self.entries.header(id), self.entries.get(id).height))
    }

    /// Returns the height of the header with this hash if it is in the chain of most work.
    pub fn height_of(&self, hash: &Hash) -> Option<u32> {
        let id = self.entries.find(hash)?;
        self.entries.is_active(id).then(|| self.entries.get(id).height)
    }

    /// Returns the number of blocks that confirm a transaction in the block at `height`: 1 for the tip, 0 above it.
    pub fn confirmations(&self, height: u32) -> u32 {
        (self.tip().height + 1).saturating_sub(height)
    }

    /// Checks the path of a proof and that its header is in the chain of most work at the height that it names. Returns
    /// the number of confirmations, at least 1.
    ///
    /// # Errors
    /// [`ChainError::NotInChain`], [`ChainError::Proof`].
    pub fn verify(&self, proof: &TransactionProof, txid: &Hash) -> Result<u32, ChainError> {
        self.confirmed(&proof.header, proof.height, || proof.verify_path(txid))
    }

    /// Checks a proof by WTXID, and that its header is in the chain of most work at the height that it names. Returns
    /// the number of confirmations, at least 1.
    ///
    /// # Errors
    /// [`ChainError::NotInChain`], [`ChainError::Proof`].
    pub fn verify_witness(&self, proof: &WitnessProof<'_>, wtxid: &Hash) -> Result<u32, ChainError> {
        let verify = || proof.verify(self.network, wtxid);
        self.confirmed(&proof.header, proof.height, verify)
    }

    fn confirmed(
        &self,
        header: &Header,
        height: u32,
        verify: impl FnOnce() -> Result<(), ProofError>,
    ) -> Result<u32, ChainError> {
        let hash = header.hash();
        if self.hash_at(height) != Some(hash) {
            return Err(ChainError::NotInChain { hash, height });
        }
        verify().map_err(|source| ChainError::Proof { hash, source })?;
        Ok(self.confirmations(height))
    }

    /// Returns the median time of the 11 headers up to `height` in the chain of most work; `None` above its tip.
    pub fn median_time_at(&self, height: u32) -> Option<u32> {
        let time = |height| {
            self.entries
                .active(height)
                .map_or(0, |id| self.entries.get(id).time)
        };
        self.entries.active(height).map(|_| median_time(height, time))
    }

    /// Returns the number of headers, those of side chains and the genesis header included.
    pub fn header_count(&self) -> u32 {
        self.entries.len()
    }

    /// Returns the bytes that the headers take in memory.
    pub fn memory_bytes(&self) -> usize {
        self.entries.memory_bytes()
    }

    /// Returns the store.
    pub fn store(&self) -> &S {
        &self.store
    }
}

/// Checks a header and adds it. Returns false if it is already known.
fn add(
    entries: &mut Entries,
    network: Network,
    options: &ChainOptions,
    header: &Header,
    now: u32,
) -> Result<bool, ChainError> {
    let hash = header.hash();
    if entries.find(&hash).is_some() {
        return Ok(false);
    }
    let checked = header.check_hash(&hash, network);
    checked.map_err(|source| ChainError::Proof { hash, source })?;
    let parent_hash = header.previous;
    let parent = entries.find(&parent_hash);
    let parent = parent.ok_or(ChainError::UnknownParent {
        hash,
        parent: parent_hash,
    })?;
    let parent_height = entries.get(parent).height;
    let height = parent_height + 1;
    check_checkpoints(entries, options, hash, height)?;
    let at = walk_from(entries, parent);
    let fields = Ancestor {
        time: header.time,
        bits: header.bits,
    };
    let checked = check_rules(network, fields, parent_height, now, at);
    checked.map_err(|source| ChainError::Rule { hash, height, source })?;
    if entries.len() >= options.max_headers {
        return Err(ChainError::Full {
            max: options.max_headers,
        });
    }
    let own_work = header.work().to_u128().unwrap_or(u128::MAX);
    let work = entries.get(parent).work().saturating_add(own_work);
    let id = entries.push(Entry::new(header, hash, parent, height, work));
    if work > entries.get(entries.tip()).work() {
        entries.activate(id);
    }
    Ok(true)
}

/// Returns a function that maps a height to the ancestor of `from` at this height; at the height of `from` itself, to
/// `from`. The function is fast if each height is at most the previous one, because it continues from its last
/// position.
fn walk_from(entries: &Entries, from: Id) -> impl Fn(u32) -> Ancestor {
    let last = Cell::new(from);
    move |height| {
        let begin = if entries.get(last.get()).height < height {
            from
        } else {
            last.get()
        };
        last.set(entries.ancestor(begin, height));
        let entry = entries.get(last.get());
        Ancestor {
            time: entry.time,
            bits: entry.bits,
        }
    }
}

fn check_checkpoints(
    entries: &Entries,
    options: &ChainOptions,
    hash: Hash,
    height: u32,
) -> Result<(), ChainError> {
    for checkpoint in &options.checkpoints {
        if checkpoint.height == height && checkpoint.hash != hash {
            let expected = checkpoint.hash;
            return Err(ChainError::OtherThanCheckpoint {
                hash,
                height,
                expected,
            });
        }
        let is_reached = entries
            .find(&checkpoint.hash)
            .is_some_and(|id| entries.is_active(id));
        if height < checkpoint.height && is_reached {
            let checkpoint = checkpoint.height;
            return Err(ChainError::BelowCheckpoint {
                hash,
                height,
                checkpoint,
            });
        }
    }
    Ok(())
}

//! The host of `spv`: answers what near forwards, from the chain, and fills near with what it found.
//!
//! One lock order: chain, then near's writer. A fill happens under the chain's read lock and a reorganisation under its
//! write lock, so no fill can be late.

use crate::chain::{BlockId, ChainStore, Refused, Submitted};
use crate::near;
use crate::reader::Place;
use crate::request::{self, Request};
use crate::store::Hash;
use crate::writer::{BlockRef, SpvFill};
use lineside_near::{DropReason, Host, Reader, Readers, Reply, Source, Verdict};
use lineside_wire::{NATIVE_REPLY_BIT, NativeHeader, SPV_PAPER_REPLY_BYTES, Status, native};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use zerocopy::{FromBytes, IntoBytes};

/// The chain and the near that it fills.
pub struct SpvHost {
    chain: RwLock<ChainStore>,
    writer: Mutex<Box<dyn SpvFill + Send>>,
    readers: Readers,
    paper_format: bool,
}

impl SpvHost {
    /// A host over `chain` that fills near through `writer`; near answers at the chain's tip from here on.
    /// `readers` are all who answer from that near or from this host.
    pub fn new(
        chain: ChainStore,
        mut writer: Box<dyn SpvFill + Send>,
        readers: Readers,
        paper_format: bool,
    ) -> Self {
        let (hash, height) = tip_of(&chain);
        writer.begin();
        writer.commit(&hash, height);
        Self {
            chain: RwLock::new(chain),
            writer: Mutex::new(writer),
            readers,
            paper_format,
        }
    }

    fn writer(&self) -> MutexGuard<'_, Box<dyn SpvFill + Send>> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a block; if it makes another branch the best one, the chain changes to that. Every answer that the change
    /// makes wrong has left, and its line is gone, before a newer one leaves.
    ///
    /// # Errors
    /// Why the block was refused; nothing of it is kept then.
    pub fn submit(&self, raw_block: &[u8], detached: bool) -> Result<Submitted, Refused> {
        let mut chain = self.chain.write().unwrap_or_else(PoisonError::into_inner);
        let mut writer = self.writer();
        writer.begin();
        let taken = chain.submit(raw_block, detached);
        if let Ok(submitted) = &taken {
            // Near forwards since `begin`, and the host answers under the chain's lock: what was found before is on its
            // way out, and is waited for.
            self.readers.wait();
            forget(&chain, submitted.id, writer.as_mut());
            let plan = chain.plan();
            for &id in &plan.disconnect {
                if let Some(block) = chain.block(id) {
                    writer.drop_block(&block.hash);
                }
            }
            for &id in &plan.connect {
                forget(&chain, id, writer.as_mut());
            }
        }
        let changed = match &taken {
            Ok(_) => chain.catch_up().map(|_| ()),
            Err(_) => Ok(()),
        };
        let (hash, height) = tip_of(&chain);
        writer.commit(&hash, height);
        match changed {
            Err(error) => Err(Refused::Storage(std::io::Error::other(error))),
            Ok(()) => taken,
        }
    }

    /// Fills near with every transaction of the newest `blocks` connected blocks.
    pub fn prefill(&self, blocks: u32) {
        let chain = self.chain.read().unwrap_or_else(PoisonError::into_inner);
        let Some(tip) = chain.tip() else { return };
        for height in tip.height.saturating_sub(blocks.saturating_sub(1))..=tip.height {
            let Some(block) = chain.at_height(height) else {
                continue;
            };
            for txid in chain.txids(block) {
                self.locate_and_fill(&chain, txid);
            }
        }
    }

    fn locate_and_fill(&self, chain: &ChainStore, txid: &Hash) -> Option<BlockRef> {
        let found = chain.locate(txid)?;
        let block = BlockRef {
            hash: found.block_hash,
            root: found.root,
            height: found.height,
        };
        let mut writer = self.writer();
        let ticket = writer.admit(&block);
        writer.fill(txid, ticket);
        Some(block)
    }

    fn paper(&self, txid: &Hash, reply: &mut Reply, sender: &Reader) -> Verdict {
        if !self.paper_format {
            return Verdict::Drop(DropReason::PaperRefused);
        }
        let chain = self.chain.read().unwrap_or_else(PoisonError::into_inner);
        let root = self
            .locate_and_fill(&chain, txid)
            .map_or([0; SPV_PAPER_REPLY_BYTES], |block| block.root);
        sender.enter();
        put(reply, &root)
    }

    fn native(&self, request: &[u8], reply: &mut Reply, sender: &Reader) -> Verdict {
        let parsed = match Request::parse(request) {
            Ok(parsed) => parsed,
            Err(status) => return refuse(request, status, reply),
        };
        let chain = self.chain.read().unwrap_or_else(PoisonError::into_inner);
        let place = |txid: &Hash| {
            self.locate_and_fill(&chain, txid).map(|block| Place {
                root: block.root,
                block_hash: block.hash,
                height: block.height,
            })
        };
        let written = match parsed {
            Request::Root(header, txid) => {
                near::put_root(reply, header, place(txid).as_ref(), tip_of(&chain))
            }
            Request::Roots(_, items) if !items.iter().all(request::is_padded) => {
                return refuse(request, Status::BadRequest, reply);
            }
            Request::Roots(header, items) => {
                let places: Vec<_> = items.iter().map(|item| place(&item.root)).collect();
                near::put_roots(reply, header, &places, tip_of(&chain))
            }
        };
        sender.enter();
        if written { Verdict::Reply } else { Verdict::Forward }
    }
}

/// The request's header with a status and nothing behind it.
fn refuse(request: &[u8], status: Status, reply: &mut Reply) -> Verdict {
    match NativeHeader::ref_from_prefix(request) {
        Ok((header, _)) => put(reply, native::reply_header(header, status, 0).as_bytes()),
        Err(_) => Verdict::Drop(DropReason::NotARequest),
    }
}

impl Host for SpvHost {
    fn serve(&self, _from: Source, request: &[u8], reply: &mut Reply, sender: &Reader) -> Verdict {
        match <&Hash>::try_from(request) {
            Ok(txid) => self.paper(txid, reply, sender),
            Err(_) if !native::is_native(request) => Verdict::Drop(DropReason::NotARequest),
            Err(_) if request[3] & NATIVE_REPLY_BIT != 0 => Verdict::Drop(DropReason::ReplyBit),
            Err(_) => self.native(request, reply, sender),
        }
    }
}

fn put(reply: &mut Reply, bytes: &[u8]) -> Verdict {
    if reply.put(bytes) {
        Verdict::Reply
    } else {
        Verdict::Forward
    }
}

/// What near says of this block's transactions may be of another block that holds them too: forget it.
fn forget(chain: &ChainStore, id: BlockId, writer: &mut dyn SpvFill) {
    for txid in chain.txids(id) {
        writer.invalidate(txid);
    }
}

fn tip_of(chain: &ChainStore) -> (Hash, u32) {
    chain.tip().map_or(([0; 32], 0), |tip| (tip.hash, tip.height))
}

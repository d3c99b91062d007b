//! The host of `spv`: answers what near forwards, from the chain, and fills near with what it found.
//!
//! One lock order: chain, then near's writer. A fill happens under the chain's read lock and a reorganisation under its
//! write lock, so no fill can be late.

use crate::chain::{Chain, ChainError, CheckedBlock, Network, Refused, Submitted};
use crate::store::Hash;
use crate::writer::{BlockRef, SpvFill};
use lineside_near::{DropReason, Host, Reply, Source, Verdict};
use lineside_wire::{
    NATIVE_REPLY_BIT, NativeHeader, RootReply, SPV_OP_ROOT, SPV_PAPER_REPLY_BYTES, SPV_PAPER_REQUEST_BYTES,
    Status, native,
};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use zerocopy::{FromBytes, IntoBytes};

/// The chain and the near that it fills.
pub struct SpvHost {
    network: Network,
    chain: RwLock<Box<dyn Chain>>,
    writer: Mutex<Box<dyn SpvFill + Send>>,
    paper_format: bool,
}

impl SpvHost {
    /// A host over `chain` that fills near through `writer`; near answers at the chain's tip from here on.
    pub fn new(chain: impl Chain + 'static, mut writer: Box<dyn SpvFill + Send>, paper_format: bool) -> Self {
        let (hash, height) = tip_of(&chain);
        writer.begin();
        writer.commit(&hash, height);
        Self {
            network: chain.network(),
            chain: RwLock::new(Box::new(chain)),
            writer: Mutex::new(writer),
            paper_format,
        }
    }

    fn writer(&self) -> MutexGuard<'_, Box<dyn SpvFill + Send>> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a block; if it makes another branch the best one, the chain changes to that. Every line that the change
    /// makes wrong is gone before near answers again. The block is durable after [`SpvHost::sync`].
    ///
    /// # Errors
    /// Why the block was refused; nothing of it is kept then. [`Refused::Storage`] may also say that the chain took the
    /// block and stopped on its way to the best branch; near and host agree then, at the block where it stopped.
    pub fn submit(&self, raw_block: &[u8], detached: bool) -> Result<Submitted, Refused> {
        // Checking is the long part, and needs no lock.
        let block = CheckedBlock::check(raw_block, self.network)?;
        let mut chain = self.chain.write().unwrap_or_else(PoisonError::into_inner);
        self.change(chain.as_mut(), |chain, writer| {
            // A detached block answers at once, perhaps for transactions that another block holds too.
            forget(block.txids(), writer);
            let submitted = chain.accept(&block, detached)?;
            let followed = follow(chain, writer);
            followed.map_err(|error| Refused::Storage(std::io::Error::other(error)))?;
            Ok(submitted)
        })
    }

    /// Goes to the best branch of a chain that has learned of it elsewhere, as [`SpvHost::submit`] does.
    ///
    /// # Errors
    /// The chain's; near and host agree also then, at the block where it stopped.
    pub fn follow(&self) -> Result<(), ChainError> {
        let mut chain = self.chain.write().unwrap_or_else(PoisonError::into_inner);
        self.change(chain.as_mut(), follow)
    }

    /// Makes every block taken so far durable.
    ///
    /// # Errors
    /// The chain's; it takes no block after that.
    pub fn sync(&self) -> Result<(), ChainError> {
        self.chain.write().unwrap_or_else(PoisonError::into_inner).sync()
    }

    /// Near forwards everything while `act` changes the chain, and answers at the tip that it leaves.
    fn change<T>(&self, chain: &mut dyn Chain, act: impl FnOnce(&mut dyn Chain, &mut dyn SpvFill) -> T) -> T {
        let mut writer = self.writer();
        writer.begin();
        let done = act(chain, writer.as_mut());
        let (hash, height) = tip_of(chain);
        writer.commit(&hash, height);
        done
    }

    /// Fills near with every transaction of the newest `blocks` connected blocks, as far as they can be read.
    pub fn prefill(&self, blocks: u32) {
        let chain = self.chain.read().unwrap_or_else(PoisonError::into_inner);
        let Some(tip) = chain.tip() else { return };
        for height in tip.height.saturating_sub(blocks.saturating_sub(1))..=tip.height {
            let Some(block) = chain.at_height(height) else {
                continue;
            };
            let filled = chain.txids(block).and_then(|txids| {
                let mut each = txids.iter();
                each.try_for_each(|txid| self.locate_and_fill(chain.as_ref(), txid).map(|_| ()))
            });
            if let Err(error) = filled {
                tracing::warn!(%error, height, "near could not be filled in advance");
                return;
            }
        }
    }

    fn locate_and_fill(&self, chain: &dyn Chain, txid: &Hash) -> Result<Option<BlockRef>, ChainError> {
        let Some(found) = chain.locate(txid)? else {
            return Ok(None);
        };
        let block = BlockRef {
            hash: found.block_hash,
            root: found.root,
            height: found.height,
        };
        let mut writer = self.writer();
        let ticket = writer.admit(&block);
        writer.fill(txid, ticket);
        Ok(Some(block))
    }

    fn paper(&self, txid: &Hash, reply: &mut Reply) -> Verdict {
        if !self.paper_format {
            return Verdict::Drop(DropReason::PaperRefused);
        }
        let chain = self.chain.read().unwrap_or_else(PoisonError::into_inner);
        match self.locate_and_fill(chain.as_ref(), txid) {
            Ok(found) => put(
                reply,
                &[&found.map_or([0; SPV_PAPER_REPLY_BYTES], |block| block.root)],
            ),
            // The paper's format has no word for this, and silence is not "unknown".
            Err(error) => {
                cannot_tell(&error);
                Verdict::Forward
            }
        }
    }

    fn native(&self, request: &[u8], reply: &mut Reply) -> Verdict {
        let refuse = |status, reply: &mut Reply| match NativeHeader::ref_from_prefix(request).ok() {
            Some((header, _)) => put(reply, &[native::reply_header(header, status, 0).as_bytes()]),
            None => Verdict::Drop(DropReason::NotARequest),
        };
        let (header, body) = match native::parse_request(request) {
            Ok(parts) => parts,
            Err(status) => return refuse(status, reply),
        };
        let Some((txid, padding)) = body.split_first_chunk::<32>() else {
            return refuse(Status::BadRequest, reply);
        };
        let whole = header.op == SPV_OP_ROOT && body.len() == size_of::<RootReply>();
        if !whole || padding.iter().any(|byte| *byte != 0) {
            return refuse(Status::BadRequest, reply);
        }
        let chain = self.chain.read().unwrap_or_else(PoisonError::into_inner);
        let found = match self.locate_and_fill(chain.as_ref(), txid) {
            Ok(found) => found,
            Err(error) => {
                cannot_tell(&error);
                return refuse(Status::Busy, reply);
            }
        };
        let (tip_hash, tip_height) = tip_of(chain.as_ref());
        let status = if found.is_some() {
            Status::Ok
        } else {
            Status::Unknown
        };
        let block = found.unwrap_or(BlockRef {
            hash: [0; 32],
            root: [0; 32],
            height: 0,
        });
        let answer = RootReply {
            root: block.root,
            block_hash: block.hash,
            tip_hash,
            height: block.height.into(),
            tip_height: tip_height.into(),
        };
        let reply_header = native::reply_header(header, status, size_of::<RootReply>() as u16);
        put(reply, &[reply_header.as_bytes(), answer.as_bytes()])
    }
}

impl Host for SpvHost {
    fn serve(&self, _from: Source, request: &[u8], reply: &mut Reply) -> Verdict {
        match <&Hash>::try_from(request) {
            Ok(txid) => {
                debug_assert_eq!(request.len(), SPV_PAPER_REQUEST_BYTES);
                self.paper(txid, reply)
            }
            Err(_) if !native::is_native(request) => Verdict::Drop(DropReason::NotARequest),
            Err(_) if request[3] & NATIVE_REPLY_BIT != 0 => Verdict::Drop(DropReason::ReplyBit),
            Err(_) => self.native(request, reply),
        }
    }
}

fn put(reply: &mut Reply, parts: &[&[u8]]) -> Verdict {
    let whole = parts.iter().all(|part| reply.put(part));
    if whole { Verdict::Reply } else { Verdict::Forward }
}

/// Takes the steps to the best chain. Before each, what it makes wrong in near is gone; so near is right wherever this
/// ends.
fn follow(chain: &mut dyn Chain, writer: &mut dyn SpvFill) -> Result<(), ChainError> {
    let plan = chain.plan()?;
    for &id in &plan.disconnect {
        let block = chain.block(id).ok_or(ChainError::NoSuchBlock(id.0))?;
        writer.drop_block(&block.hash);
        chain.disconnect(id)?;
    }
    for &id in &plan.connect {
        forget(&chain.txids(id)?, writer);
        chain.connect(id)?;
    }
    Ok(())
}

/// What near says of a block's transactions may be of another block that holds them too: forget it.
fn forget(txids: &[Hash], writer: &mut dyn SpvFill) {
    for txid in txids {
        writer.invalidate(txid);
    }
}

fn cannot_tell(error: &ChainError) {
    tracing::error!(%error, "the chain cannot tell where a transaction is");
}

fn tip_of(chain: &dyn Chain) -> (Hash, u32) {
    chain.tip().map_or(([0; 32], 0), |tip| (tip.hash, tip.height))
}

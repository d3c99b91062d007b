//! The near of `spv`: the executable specification of `xdp/spv.bpf.c`.

use crate::store::{self, Store};
use lineside_near::{Counters, DropReason, Near, Reply, Source, Verdict, lease};
use lineside_wire::{SPV_PAPER_REQUEST_BYTES, SpvCounter, SpvLine, native};
use std::sync::Arc;
use std::sync::atomic::{Ordering::Acquire, Ordering::Relaxed, fence};

/// A TXID that is hit in the store, answered from it.
pub struct SpvNear {
    store: Arc<Store>,
    counters: Counters<{ SpvCounter::ALL.len() }>,
}

impl SpvNear {
    /// A near that answers from `store`.
    pub fn new(store: Arc<Store>) -> Self {
        Self {
            store,
            counters: Counters::default(),
        }
    }

    /// How often each of [`SpvCounter`] was counted.
    pub fn counters(&self) -> [u64; SpvCounter::ALL.len()] {
        self.counters.read()
    }

    fn forward(&self, why: SpvCounter) -> Verdict {
        self.counters.add_one(why as usize);
        Verdict::Forward
    }

    /// The Merkle root for `txid`, if a whole and valid line has it.
    fn root(&self, txid: &[u64; 4]) -> Option<[u64; 4]> {
        let line = self
            .store
            .set(txid)
            .iter()
            .find_map(|line| snapshot(line, txid))?;
        let mask = self.store.control().block_mask.load(Relaxed);
        let block = &self.store.blocks.as_slice()[(line.block & mask) as usize];
        let generation = block.generation.load(Acquire);
        let root = store::load(&block.root);
        fence(Acquire);
        let whole = generation == line.generation && block.generation.load(Relaxed) == generation;
        whole.then_some(root)
    }
}

#[derive(Clone, Copy)]
struct LineBody {
    block: u32,
    generation: u32,
}

/// What `line` says, if it holds `txid` and nobody wrote it meanwhile.
fn snapshot(line: &SpvLine, txid: &[u64; 4]) -> Option<LineBody> {
    let seq = line.seq.load(Acquire);
    let same = store::load(&line.txid) == *txid;
    let body = LineBody {
        block: line.block.load(Relaxed),
        generation: line.generation.load(Relaxed),
    };
    fence(Acquire);
    let whole = seq & 1 == 0 && line.seq.load(Relaxed) == seq;
    (same && whole && body.generation != 0).then_some(body)
}

impl Near for SpvNear {
    fn answer(&self, _from: Source, now_ns: u64, request: &[u8], reply: &mut Reply) -> Verdict {
        if request.len() != SPV_PAPER_REQUEST_BYTES {
            return match native::is_native(request) {
                true if request[3] & lineside_wire::NATIVE_REPLY_BIT != 0 => {
                    Verdict::Drop(DropReason::ReplyBit)
                }
                true => self.forward(SpvCounter::ForwardedNative),
                false => Verdict::Drop(DropReason::NotARequest),
            };
        }
        let control = self.store.control();
        if control.paper_format.load(Relaxed) == 0 {
            return Verdict::Drop(DropReason::PaperRefused);
        }
        let epoch = control.epoch.load(Acquire);
        if epoch & 1 != 0 || !lease::is_valid(&control.lease_until_ns, now_ns) {
            return self.forward(SpvCounter::NotLeased);
        }
        let mut txid = [0; 32];
        txid.copy_from_slice(request);
        let Some(root) = self.root(&store::words(&txid)) else {
            return self.forward(SpvCounter::Misses);
        };
        fence(Acquire);
        if control.epoch.load(Relaxed) != epoch || !reply.put(&store::bytes(&root)) {
            return self.forward(SpvCounter::NotLeased);
        }
        self.counters.add_one(SpvCounter::Hits as usize);
        Verdict::Reply
    }
}

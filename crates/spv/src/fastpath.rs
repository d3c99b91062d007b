//! The fast path of `spv`: the executable specification of `xdp/spv_fastpath.h` and `xdp/spv_native.h`.

use crate::chain::Tip;
use crate::reader::{BlockProof, NoProof, Session, TxLocation};
use crate::request::{self, HeaderRange, Request};
use crate::store::{Hash, Store};
use lineside_fastpath::{Counters, DropReason, FastPath, Reply, Source, Steps, Verdict};
use lineside_wire::trace::{NoTrace, Rule, Trace};
use lineside_wire::{
    HeadersHead, NATIVE_REPLY_BIT, NativeHeader, ProofReply, RootItem, RootReply, RootsHead,
    SPV_HEADER_BYTES, SPV_HEADERS_MAX, SPV_PROOF_DEPTH_MAX, SpvCounter, Status, native,
};
use std::ops::Range;
use std::sync::Arc;
use zerocopy::IntoBytes;

/// Fast path that answers requests for data in a [`Store`], and forwards all other requests to the host.
pub struct SpvFastPath {
    store: Arc<Store>,
    counters: Counters<{ SpvCounter::ALL.len() }>,
}

/// Reason why a request is forwarded to the host: the counter that counts this reason.
struct ForwardReason(SpvCounter);

impl SpvFastPath {
    /// Returns a fast path that answers from `store`.
    pub fn new(store: Arc<Store>) -> Self {
        Self {
            store,
            counters: Counters::default(),
        }
    }

    /// Returns the value of each counter of [`SpvCounter`].
    pub fn counters(&self) -> [u64; SpvCounter::ALL.len()] {
        self.counters.read()
    }

    /// Runs `read` and returns its answer only if the chain did not change (no new epoch began) during the read.
    fn within_one_epoch<A, T: Trace>(
        &self,
        now_ns: u64,
        trace: &mut T,
        read: impl FnOnce(&Session<'_>, &mut T) -> Result<A, ForwardReason>,
    ) -> Result<A, ForwardReason> {
        let session =
            Session::begin(&self.store, now_ns, trace).ok_or(ForwardReason(SpvCounter::NotLeased))?;
        let answer = read(&session, trace)?;
        if session.is_unchanged(trace) {
            Ok(answer)
        } else {
            Err(ForwardReason(SpvCounter::NotLeased))
        }
    }

    fn paper<T: Trace>(
        &self,
        now_ns: u64,
        txid: &Hash,
        reply: &mut Reply,
        trace: &mut T,
    ) -> Result<bool, ForwardReason> {
        let place = self.within_one_epoch(now_ns, trace, |session, trace| find(session, txid, 0, trace))?;
        Ok(reply.put(&place.root))
    }

    fn native<T: Trace>(
        &self,
        now_ns: u64,
        request: &[u8],
        reply: &mut Reply,
        trace: &mut T,
    ) -> Result<bool, ForwardReason> {
        // The host sends the status code for a malformed request.
        let parsed =
            Request::parse_with(request, trace).map_err(|_| ForwardReason(SpvCounter::ForwardedNative))?;
        let has_operation = match parsed {
            Request::Root(..) | Request::Roots(..) => true,
            Request::Proof(..) => Session::has_trees(&self.store),
            // Only the host answers requests for witness data and headers.
            Request::WitnessProof(..) | Request::WtxidProof(..) | Request::Headers(..) => false,
        };
        if !trace.require(Rule::Operation, OPERATION, has_operation) {
            return Err(ForwardReason(SpvCounter::ForwardedNative));
        }
        match parsed {
            Request::Root(header, txid) => {
                let answer = |session: &Session<'_>, trace: &mut T| {
                    Ok((find(session, txid, NATIVE_BYTES, trace)?, session.tip()))
                };
                let (location, tip) = self.within_one_epoch(now_ns, trace, answer)?;
                Ok(put_root(reply, header, Some(&location), tip))
            }
            Request::Roots(header, items) => {
                let answer = |session: &Session<'_>, trace: &mut T| {
                    let locations = items.iter().enumerate().map(|(index, item)| {
                        let at = NATIVE_BYTES + size_of::<RootsHead>() + index * size_of::<RootItem>();
                        let item_range = at..at + size_of::<RootItem>();
                        match trace.require(Rule::ItemPadding, item_range, request::is_padded(item)) {
                            true => find(session, &item.root, at, trace).map(Some),
                            false => Err(ForwardReason(SpvCounter::ForwardedNative)),
                        }
                    });
                    let places: Result<Vec<_>, _> = locations.collect();
                    Ok((places?, session.tip()))
                };
                let (places, tip) = self.within_one_epoch(now_ns, trace, answer)?;
                Ok(put_roots(reply, header, &places, tip))
            }
            Request::Proof(header, txid, room) => {
                let answer = |session: &Session<'_>, trace: &mut T| {
                    let proof = session
                        .proof(txid, room, NATIVE_BYTES, trace)
                        .map_err(|why| match why {
                            NoProof::Missing => ForwardReason(SpvCounter::Misses),
                            NoProof::TooLong => ForwardReason(SpvCounter::ForwardedNative),
                        })?;
                    Ok((proof, session.tip()))
                };
                let (proof, tip) = self.within_one_epoch(now_ns, trace, answer)?;
                Ok(put_proof(reply, header, room, &FoundProof::Found(proof), tip))
            }
            Request::WitnessProof(..) | Request::WtxidProof(..) | Request::Headers(..) => {
                Err(ForwardReason(SpvCounter::ForwardedNative))
            }
        }
    }

    fn decide<T: Trace>(&self, now_ns: u64, request: &[u8], reply: &mut Reply, trace: &mut T) -> Verdict {
        let all = 0..request.len();
        let paper = <&Hash>::try_from(request).ok();
        trace.choose(Rule::PaperLength, all.clone(), paper.is_some());
        let answered = match paper {
            Some(txid) => {
                let is_request = !request::is_unknown_reply(txid);
                if !trace.require(Rule::NotUnknownReply, all, is_request) {
                    return Verdict::Drop(DropReason::NotARequest);
                }
                if !trace.require(Rule::PaperFormat, 0..0, self.store.paper_format()) {
                    return Verdict::Drop(DropReason::PaperRefused);
                }
                self.paper(now_ns, txid, reply, trace)
            }
            None => {
                if !trace.require(Rule::NativeMagic, 0..2, native::is_native(request)) {
                    return Verdict::Drop(DropReason::NotARequest);
                }
                let is_request = request[3] & NATIVE_REPLY_BIT == 0;
                if !trace.require(Rule::NoReplyBit, OPERATION, is_request) {
                    return Verdict::Drop(DropReason::ReplyBit);
                }
                self.native(now_ns, request, reply, trace)
            }
        };
        let (counter, verdict) = match answered {
            Ok(fits) => match trace.require(Rule::ReplyFits, 0..0, fits) {
                true => (SpvCounter::Hits, Verdict::Reply),
                false => (SpvCounter::ForwardedNative, Verdict::Forward),
            },
            Err(ForwardReason(why)) => (why, Verdict::Forward),
        };
        self.counters.add_one(counter as usize);
        verdict
    }
}

/// Length of the header of a native request in bytes.
const NATIVE_BYTES: usize = size_of::<NativeHeader>();
/// Place of the operation and the reply bit in a native request.
const OPERATION: Range<usize> = 3..4;

fn find<T: Trace>(
    session: &Session<'_>,
    txid: &Hash,
    at: usize,
    trace: &mut T,
) -> Result<TxLocation, ForwardReason> {
    session
        .find(txid, at, trace)
        .ok_or(ForwardReason(SpvCounter::Misses))
}

impl FastPath for SpvFastPath {
    fn answer(&self, _from: Source, now_ns: u64, request: &[u8], reply: &mut Reply) -> Verdict {
        self.decide(now_ns, request, reply, &mut NoTrace)
    }

    fn explain(
        &self,
        _from: Source,
        now_ns: u64,
        request: &[u8],
        reply: &mut Reply,
        steps: &mut Steps,
    ) -> Verdict {
        self.decide(now_ns, request, reply, steps)
    }
}

/// Writes the reply to `root`. If there is no location, the status is "unknown". Returns false if the reply does not
/// fit.
pub(crate) fn put_root(
    reply: &mut Reply,
    request: &NativeHeader,
    location: Option<&TxLocation>,
    tip: Tip,
) -> bool {
    let (status, location) = status_of(location);
    let header = native::reply_header(request, status, size_of::<RootReply>() as u16);
    let body = RootReply {
        root: location.root,
        block_hash: location.block_hash,
        tip_hash: tip.hash,
        height: location.height.into(),
        tip_height: tip.height.into(),
    };
    reply.put(header.as_bytes()) && reply.put(body.as_bytes())
}

/// Writes the reply to `roots`, in the order of its items. Returns false if the reply does not fit.
pub(crate) fn put_roots(
    reply: &mut Reply,
    request: &NativeHeader,
    places: &[Option<TxLocation>],
    tip: Tip,
) -> bool {
    let bytes = size_of::<RootsHead>() + places.len() * size_of::<RootItem>();
    let header = native::reply_header(request, Status::Ok, bytes as u16);
    let head = RootsHead {
        tip_hash: tip.hash,
        tip_height: tip.height.into(),
        count: (places.len() as u32).into(),
    };
    let item = |place: &Option<TxLocation>| {
        let (status, location) = status_of(place.as_ref());
        RootItem {
            root: location.root,
            block_hash: location.block_hash,
            height: location.height.into(),
            status: u32::from(status as u16).into(),
        }
    };
    reply.put(header.as_bytes())
        && reply.put(head.as_bytes())
        && places.iter().all(|place| reply.put(item(place).as_bytes()))
}

/// Result of `proof`.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "only one value exists at a time, on the stack; a box would need an allocation for each packet"
)]
pub(crate) enum FoundProof {
    /// The proof.
    Found(BlockProof),
    /// No connected block holds the transaction.
    Unknown,
    /// The path is longer than the space that the request reserves for it.
    TooLong { transactions: u32, depth: usize },
}

/// Writes the reply to `proof`. The reply has the length of its request, with space for `room` hashes. Returns false if
/// the reply does not fit.
pub(crate) fn put_proof(
    reply: &mut Reply,
    request: &NativeHeader,
    room: usize,
    found_proof: &FoundProof,
    tip: Tip,
) -> bool {
    let mut body = ProofReply {
        header: [0; SPV_HEADER_BYTES],
        height: 0.into(),
        transactions: 0.into(),
        index: 0.into(),
        depth: 0.into(),
        tip_hash: tip.hash,
        tip_height: tip.height.into(),
        reserved: 0.into(),
    };
    let mut path = &[[0; 32]; SPV_PROOF_DEPTH_MAX];
    let status = match found_proof {
        FoundProof::Found(proof) => {
            body.header = proof.header;
            body.height = proof.height.into();
            body.transactions = proof.transactions.into();
            body.index = proof.index.into();
            body.depth = (proof.depth as u32).into();
            path = &proof.path;
            Status::Ok
        }
        FoundProof::Unknown => Status::Unknown,
        FoundProof::TooLong { transactions, depth } => {
            body.transactions = (*transactions).into();
            body.depth = (*depth as u32).into();
            (body.tip_hash, body.tip_height) = ([0; 32], 0.into());
            Status::TooLong
        }
    };
    let path = path[..room.min(SPV_PROOF_DEPTH_MAX)].as_flattened();
    let header = native::reply_header(request, status, (size_of::<ProofReply>() + path.len()) as u16);
    reply.put(header.as_bytes()) && reply.put(body.as_bytes()) && reply.put(path)
}

/// Writes the reply to a request for headers, with at most as many of `headers` as requested. Returns false if the
/// reply does not fit.
pub(crate) fn put_headers(
    reply: &mut Reply,
    request: &NativeHeader,
    range: HeaderRange,
    headers: &[[u8; SPV_HEADER_BYTES]],
    tip: Tip,
) -> bool {
    let headers = &headers[..headers.len().min(range.count)];
    let rest = [0; SPV_HEADERS_MAX * SPV_HEADER_BYTES];
    let rest = &rest[..(range.headers_max.min(SPV_HEADERS_MAX) - headers.len()) * SPV_HEADER_BYTES];
    let head = HeadersHead {
        tip_hash: tip.hash,
        tip_height: tip.height.into(),
        start: range.start.into(),
        count: (headers.len() as u32).into(),
        reserved: 0.into(),
    };
    let bytes = size_of::<HeadersHead>() + headers.as_flattened().len() + rest.len();
    let header = native::reply_header(request, Status::Ok, bytes as u16);
    reply.put(header.as_bytes())
        && reply.put(head.as_bytes())
        && reply.put(headers.as_flattened())
        && reply.put(rest)
}

fn status_of(place: Option<&TxLocation>) -> (Status, TxLocation) {
    let nowhere = TxLocation {
        root: [0; 32],
        block_hash: [0; 32],
        height: 0,
    };
    match place {
        Some(place) => (Status::Ok, *place),
        None => (Status::Unknown, nowhere),
    }
}

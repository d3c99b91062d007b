//! Service of a node over UDP through a socket datapath: the fast path checks the form of each datagram, and the host
//! passes requests that arrived together to the node.

use crate::answer::Answer;
use crate::node::Node;
use bytes::Bytes;
use lineside_fastpath::{AsyncHost, FastPath, Range, Reply, Responder, Source, Verdict};
use lineside_journal::Disk;
use lineside_messages::hybrid::answer::Answered;
use lineside_messages::hybrid::request::operation;
use lineside_messages::hybrid::udp::{NoRequest, read_request, write_answer};
use lineside_wire::{
    DropReason, HYBRID_DATAGRAM_BYTES_MAX, HYBRID_OP_CHANGE, HYBRID_OP_PROVE, HYBRID_OP_WRITE,
    HybridCode as Code, NATIVE_REPLY_BIT, NativeHeader, native,
};
use std::sync::Arc;
use zerocopy::{FromBytes, IntoBytes};

/// Fast path that refuses or drops datagrams that are not requests. It has neither keys nor data, so it checks no
/// signature and not the database of a request.
pub struct HybridFastPath;

impl FastPath for HybridFastPath {
    fn answer(&self, _from: Source, _now_ns: u64, request: &[u8], reply: &mut Reply) -> Verdict {
        let header = match NativeHeader::ref_from_prefix(request) {
            Ok((header, _)) if native::is_native(request) => header,
            _ => return Verdict::Drop(DropReason::NotARequest),
        };
        if header.op & NATIVE_REPLY_BIT != 0 {
            return Verdict::Drop(DropReason::ReplyBit);
        }
        let is_put = match read_request(request) {
            Ok(_) => return Verdict::Forward,
            Err(NoRequest::Status(status)) => reply.put(native::reply_header(header, status, 0).as_bytes()),
            Err(NoRequest::TooLarge) => {
                let refused = Answered::Refused(Code::TooLarge);
                reply.put(&write_answer(header, &refused, request.len()))
            }
        };
        match is_put {
            true => Verdict::Reply,
            false => Verdict::Drop(DropReason::NotARequest),
        }
    }
}

/// Host that passes datagrams to a node. Requests that arrived together form one call for each kind of request, and all
/// requests of a call are answered together. The kinds are reads, which wait for no disk; proofs, which wait for
/// earlier writes; and writes.
pub struct HybridHost<D: Disk> {
    node: Arc<Node<D>>,
    trusted: Vec<Range>,
}

impl<D: Disk> HybridHost<D> {
    /// Creates a host. Sources in the `trusted` ranges may get answers of up to 1,200 bytes, however short their
    /// requests are.
    pub fn new(node: Arc<Node<D>>, trusted: Vec<Range>) -> Self {
        Self { node, trusted }
    }
}

/// Requests that go to the node as one call. For each request it has the datagram's index and header.
#[derive(Default)]
struct CallBatch {
    indexed_headers: Vec<(usize, NativeHeader)>,
    requests: Vec<Bytes>,
}

/// Number of kinds of requests. Requests of the same kind wait for the same events (see [`HybridHost`]).
const REQUEST_KINDS: usize = 3;

fn kind(request: &[u8]) -> usize {
    match operation(request) {
        Some(HYBRID_OP_PROVE) => 1,
        Some(HYBRID_OP_WRITE | HYBRID_OP_CHANGE) => 2,
        _ => 0,
    }
}

impl<D: Disk> AsyncHost for HybridHost<D> {
    fn reply_bytes_max(&self, from: Source, request_bytes: usize) -> usize {
        match self.trusted.iter().any(|range| range.contains(from.address)) {
            true => request_bytes.max(HYBRID_DATAGRAM_BYTES_MAX),
            false => request_bytes,
        }
    }

    fn take(&self, datagrams: Vec<Vec<u8>>, responder: Arc<dyn Responder>) {
        let mut kinds: [CallBatch; REQUEST_KINDS] = Default::default();
        for (index, datagram) in datagrams.into_iter().enumerate() {
            let datagram = Bytes::from(datagram);
            // The fast path forwards only valid requests, so this does not happen.
            let Ok((header, request)) = read_request(&datagram) else {
                continue;
            };
            let Some(batch) = kinds.get_mut(kind(request)) else {
                continue;
            };
            batch.indexed_headers.push((index, *header));
            batch.requests.push(match request.len() < datagram.len() / 2 {
                // A copy without the padding takes less memory while the request waits.
                true => Bytes::copy_from_slice(request),
                false => datagram.slice_ref(request),
            });
        }
        for CallBatch {
            indexed_headers,
            requests,
        } in kinds
        {
            if requests.is_empty() {
                continue;
            }
            let responder = Arc::clone(&responder);
            // The callback must not own the node: one of the node's own threads may drop the callback, and would then
            // stop the node.
            self.node.submit_inline(requests, move |answers| {
                send(&*responder, &indexed_headers, answers)
            });
        }
    }
}

fn send(responder: &dyn Responder, indexed_headers: &[(usize, NativeHeader)], answers: Vec<Answer>) {
    let replies = indexed_headers
        .iter()
        .zip(answers)
        .map(|((index, header), answer)| {
            let reply = write_answer(header, &answer.into(), responder.reply_bytes_max(*index));
            (*index, reply)
        });
    responder.send(replies.collect());
}

#[cfg(test)]
mod tests {
    use super::*;
    use lineside_messages::hybrid::udp::{read_answer, write_request};
    use lineside_wire::{HYBRID_OP_ASK, Status};

    fn fastpath(request: &[u8]) -> (Verdict, Vec<u8>) {
        let from = Source {
            address: [127, 0, 0, 1].into(),
            port: 9,
        };
        let mut reply = Reply::default();
        let verdict = HybridFastPath.answer(from, 0, request, &mut reply);
        (verdict, reply.as_bytes().to_vec())
    }

    fn refusal(request: &[u8]) -> Status {
        let (verdict, reply) = fastpath(request);
        assert_eq!(verdict, Verdict::Reply);
        assert!(reply.len() <= request.len());
        let (header, body) = NativeHeader::ref_from_prefix(&reply).unwrap();
        assert_eq!((header.request_id.get(), body.len()), (7, 0));
        assert!(header.op & NATIVE_REPLY_BIT != 0);
        Status::from_code(header.status.get()).unwrap()
    }

    #[test]
    fn malformed_requests_are_refused_or_dropped() {
        let good = write_request(7, &[1; 200], 0).unwrap();
        assert_eq!(fastpath(&good).0, Verdict::Forward);
        let with = |index: usize, byte| {
            let mut bytes = good.clone();
            bytes[index] = byte;
            bytes
        };
        assert_eq!(fastpath(&[]).0, Verdict::Drop(DropReason::NotARequest));
        assert_eq!(fastpath(&good[..15]).0, Verdict::Drop(DropReason::NotARequest));
        assert_eq!(fastpath(&with(0, 0)).0, Verdict::Drop(DropReason::NotARequest));
        let reply = with(3, HYBRID_OP_ASK | NATIVE_REPLY_BIT);
        assert_eq!(fastpath(&reply).0, Verdict::Drop(DropReason::ReplyBit));
        assert_eq!(refusal(&with(2, 2)), Status::UnsupportedVersion);
        assert_eq!(refusal(&with(3, HYBRID_OP_ASK + 1)), Status::BadRequest);
        assert_eq!(refusal(&with(5, 1)), Status::BadRequest, "a status in a request");
        assert_eq!(refusal(&good[..217]), Status::BadRequest, "cut short");
        // Every seventh length that is not the right one; the padding is not zero.
        for length in (0..=u16::MAX).step_by(7).filter(|length| *length != 200) {
            let mut bytes = good.clone();
            bytes[16..18].copy_from_slice(&length.to_be_bytes());
            assert_eq!(refusal(&bytes), Status::BadRequest, "{length}");
        }
        let short = write_request(7, &[1; 107], 0).unwrap();
        assert_eq!(refusal(&short), Status::BadRequest);
        let mut padded = write_request(7, &[1; 200], 500).unwrap();
        assert_eq!((fastpath(&padded).0, padded.len()), (Verdict::Forward, 500));
        padded[499] = 1;
        assert_eq!(refusal(&padded), Status::BadRequest);
    }

    #[test]
    fn a_request_above_the_datagram_limit_is_answered_too_large() {
        let longest = write_request(7, &[1; 200], usize::MAX).unwrap();
        assert_eq!((fastpath(&longest).0, longest.len()), (Verdict::Forward, 1200));
        assert_eq!(write_request(7, &[1; 1183], 0), None);
        let mut long = longest;
        long.push(0);
        long[6..8].copy_from_slice(&(1201u16 - 16).to_be_bytes());
        let (verdict, reply) = fastpath(&long);
        let (id, status, body) = read_answer(&reply).unwrap();
        assert_eq!((verdict, id, status), (Verdict::Reply, 7, Status::Ok));
        assert_eq!(Answered::decode(body), Ok(Answered::Refused(Code::TooLarge)));
    }
}

//! Runs a fast path on whole Ethernet frames. This is the specification of `xdp/root.bpf.c`.

use crate::{FastPath, Reply, Source, Verdict};
use lineside_wire::{DropReason, endpoint::Endpoint, frame};

/// Verdict for a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameVerdict {
    /// The frame was turned into its reply, which leaves through the interface that the request came in by.
    Transmit,
    /// The frame goes to the host unchanged.
    Pass,
    /// The frame is dropped, for this reason.
    Drop(DropReason),
}

/// Answers the Ethernet frames of one UDP port of one interface with a fast path, as the XDP program does.
pub struct FrameHandler<'a> {
    /// The interface.
    pub endpoint: &'a Endpoint,
    /// The UDP port.
    pub port: u16,
    /// Fast path that answers the requests in the frames.
    pub fastpath: &'a dyn FastPath,
}

impl FrameHandler<'_> {
    /// Turns `frame` into its reply, or leaves the frame unchanged and returns another verdict.
    pub fn answer(&self, now_ns: u64, frame: &mut [u8]) -> FrameVerdict {
        let Some(datagram) = frame::parse(frame) else {
            return FrameVerdict::Pass;
        };
        let is_for_service = datagram.destination_port == self.port
            && self.endpoint.answers(datagram.destination)
            && frame[..6] == self.endpoint.mac;
        if !is_for_service {
            return FrameVerdict::Pass;
        }
        if datagram.source_port == self.port {
            return FrameVerdict::Drop(DropReason::SourcePort);
        }
        if let Some(reason) = self
            .endpoint
            .refuses_source(datagram.source, datagram.source_port)
        {
            return FrameVerdict::Drop(reason);
        }
        if frame[6] & 1 != 0 {
            return FrameVerdict::Drop(DropReason::SourceAddress);
        }
        let from = Source {
            address: datagram.source,
            port: datagram.source_port,
        };
        let payload = &frame[datagram.payload()];
        // The reply would have no hop left. The host gets the frame, drops it, and counts the drop.
        if frame::reply_ttl(payload, datagram.ttl(frame)) == 0 {
            return FrameVerdict::Pass;
        }
        if self.fastpath.changes(payload) && !datagram.is_intact(frame) {
            return FrameVerdict::Pass;
        }
        let mut reply = Reply::default();
        match self.fastpath.answer(from, now_ns, payload, &mut reply) {
            Verdict::Reply if reply.as_bytes().len() == datagram.payload_bytes => {
                frame[datagram.payload()].copy_from_slice(reply.as_bytes());
                datagram.make_reply(frame);
                FrameVerdict::Transmit
            }
            Verdict::Reply | Verdict::Forward => FrameVerdict::Pass,
            Verdict::Drop(reason) => FrameVerdict::Drop(reason),
        }
    }
}

//! Runs a fast path on whole Ethernet frames. This is the specification of `xdp/root.bpf.c`.

use crate::{FastPath, Reply, Source, Steps, Verdict};
use lineside_wire::trace::{NoTrace, Rule, Trace};
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
        let fastpath = self.fastpath;
        self.decide(frame, &mut NoTrace, |from, payload, reply, _| {
            fastpath.answer(from, now_ns, payload, reply)
        })
    }

    /// Does what [`FrameHandler::answer`] does, and records each decision in `steps`. If the verdict is not
    /// [`FrameVerdict::Transmit`], the last step is the reason.
    pub fn explain(&self, now_ns: u64, frame: &mut [u8], steps: &mut Steps) -> FrameVerdict {
        let fastpath = self.fastpath;
        self.decide(frame, steps, |from, payload, reply, steps| {
            fastpath.explain(from, now_ns, payload, reply, steps)
        })
    }

    fn decide<T: Trace>(
        &self,
        frame: &mut [u8],
        trace: &mut T,
        answer: impl FnOnce(Source, &[u8], &mut Reply, &mut T) -> Verdict,
    ) -> FrameVerdict {
        let Some(datagram) = frame::parse_with(frame, trace) else {
            return FrameVerdict::Pass;
        };
        let udp = datagram.udp;
        let [source_range, destination_range] = datagram.address_ranges();
        let is_for_service = trace.require(
            Rule::ServicePort,
            udp + 2..udp + 4,
            datagram.destination_port == self.port,
        ) && trace.require(
            Rule::OwnAddress,
            destination_range,
            self.endpoint.answers(datagram.destination),
        ) && trace.require(Rule::OwnMac, 0..6, frame[..6] == self.endpoint.mac);
        if !is_for_service {
            return FrameVerdict::Pass;
        }
        let refused = match datagram.source_port == self.port {
            true => Some(DropReason::SourcePort),
            false => self
                .endpoint
                .refuses_source(datagram.source, datagram.source_port),
        };
        let port_is_good = refused != Some(DropReason::SourcePort);
        let is_good = trace.require(Rule::SourcePort, udp..udp + 2, port_is_good)
            && trace.require(Rule::SourceAddress, source_range, refused.is_none());
        if let (false, Some(reason)) = (is_good, refused) {
            return FrameVerdict::Drop(reason);
        }
        if !trace.require(Rule::SourceMac, 6..12, frame[6] & 1 == 0) {
            return FrameVerdict::Drop(DropReason::SourceAddress);
        }
        let from = Source {
            address: datagram.source,
            port: datagram.source_port,
        };
        let payload = &frame[datagram.payload()];
        // The reply would have no hop left. The host gets the frame, drops it, and counts the drop.
        let has_hop = frame::reply_ttl(payload, datagram.ttl(frame)) != 0;
        if !trace.require(Rule::HopLeft, datagram.ttl_range(), has_hop) {
            return FrameVerdict::Pass;
        }
        let changes = self.fastpath.changes(payload);
        if trace.choose(Rule::Changes, datagram.payload(), changes)
            && !trace.require(Rule::UdpChecksum, udp + 6..udp + 8, datagram.is_intact(frame))
        {
            return FrameVerdict::Pass;
        }
        let mut reply = Reply::default();
        trace.set_base(datagram.payload().start);
        match answer(from, payload, &mut reply, trace) {
            Verdict::Reply => {
                let fits = reply.as_bytes().len() == datagram.payload_bytes;
                if !trace.require(Rule::ReplyLength, 0..datagram.payload_bytes, fits) {
                    return FrameVerdict::Pass;
                }
                frame[datagram.payload()].copy_from_slice(reply.as_bytes());
                datagram.make_reply(frame);
                FrameVerdict::Transmit
            }
            Verdict::Forward => FrameVerdict::Pass,
            Verdict::Drop(reason) => FrameVerdict::Drop(reason),
        }
    }
}

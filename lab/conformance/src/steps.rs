//! Check of the steps that a model records for a frame, and the rules about frames.

use lineside_fastpath::{FrameVerdict, Steps};
use lineside_wire::trace::Rule;

/// Returns the rule because of which a frame was not answered; `None` for an answered frame.
///
/// # Errors
/// The steps do not fit the verdict: an answered frame has a requirement that does not hold; or another frame has none,
/// more than one, or steps after it.
pub fn reason(steps: &Steps, verdict: FrameVerdict) -> Result<Option<Rule>, String> {
    let steps = steps.as_slice();
    let is_answered = verdict == FrameVerdict::Transmit;
    let first = steps.iter().position(|step| step.is_decisive());
    match first {
        None if is_answered => Ok(None),
        Some(at) if !is_answered && at + 1 == steps.len() => Ok(Some(steps[at].rule)),
        _ => Err(format!("{verdict:?} does not fit these steps: {steps:#?}")),
    }
}

/// Rules about frames: a frame that does not meet one of them is passed on, and no service counts it. A service with
/// requests that change something also requires [`Rule::UdpChecksum`] of these.
pub const FRAME_RULES: &[Rule] = &[
    Rule::EthernetHeader,
    Rule::EtherTypeIpv6,
    Rule::IpHeader,
    Rule::Ipv4Start,
    Rule::Unfragmented,
    Rule::Ipv6Version,
    Rule::ProtocolUdp,
    Rule::IpLength,
    Rule::UdpHeader,
    Rule::UdpLength,
    Rule::ServicePort,
    Rule::OwnAddress,
    Rule::OwnMac,
    Rule::HopLeft,
    Rule::UdpChecksum,
];

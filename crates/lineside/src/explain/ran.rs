//! Runs of a frame on the datapaths, and their comparison.

use super::service::Explained;
use lineside_fastpath::{DropReason, FrameHandler, FrameVerdict, Steps, lease};
use lineside_wire::endpoint::Endpoint;
use lineside_wire::frame;
use lineside_wire::trace::Rule;
use lineside_xdp::{XdpDatapath, XdpError};
use std::sync::Arc;

/// Result of one run of a frame.
#[derive(Clone, Debug)]
pub struct Ran {
    /// Verdict.
    pub verdict: FrameVerdict,
    /// Frame after the run; the reply if the verdict is [`FrameVerdict::Transmit`].
    pub left: Vec<u8>,
    /// Counters that rose, with the difference.
    pub counters: Vec<(String, u64)>,
}

/// Clock cycles of the events of a run on the simulated NIC; cycle 0 is that of the first beat in.
#[derive(Clone, Debug, Default)]
pub struct Cycles {
    /// Events: cycle, name for programs, text for people.
    pub events: Vec<(u64, &'static str, String)>,
    /// Cycles from the last beat in to the first beat out; `None` if nothing left.
    pub latency: Option<u64>,
}

impl Ran {
    /// Returns the name of the verdict, and the reason of a drop.
    pub fn outcome(&self) -> (&'static str, Option<&'static str>) {
        match self.verdict {
            FrameVerdict::Transmit => ("answered", None),
            FrameVerdict::Pass => ("passed", None),
            FrameVerdict::Drop(reason) => ("dropped", Some(reason.name())),
        }
    }

    /// Returns the counters that rose as text.
    pub fn counters_text(&self) -> String {
        let rose = |(name, count): &(String, u64)| format!("{name} +{count}");
        match self.counters.is_empty() {
            true => "none changed".into(),
            false => self.counters.iter().map(rose).collect::<Vec<_>>().join(", "),
        }
    }

    /// Returns the differences between this expected result and `other`, as text.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let mut found = Vec::new();
        if self.verdict != other.verdict {
            let text = |ran: &Self| match ran.outcome() {
                (verdict, Some(reason)) => format!("{verdict} ({reason})"),
                (verdict, None) => verdict.to_owned(),
            };
            found.push(format!("verdict {} instead of {}", text(other), text(self)));
        }
        // Of a dropped frame nothing is left on the NIC.
        let is_dropped = matches!(self.verdict, FrameVerdict::Drop(_)) && self.verdict == other.verdict;
        if self.left != other.left && !is_dropped {
            let bytes = self.left.iter().zip(&other.left);
            let at = bytes.take_while(|(ours, theirs)| ours == theirs).count();
            found.push(format!("other bytes from offset {at}"));
        }
        if self.counters != other.counters {
            let (ours, theirs) = (self.counters_text(), other.counters_text());
            found.push(format!("counters: {theirs} instead of {ours}"));
        }
        found
    }
}

/// Returns the counters of the service `S`, and of drops, that rose between two readings.
pub fn risen<S: Explained>(
    counters: [&[u64]; 2],
    drops: [&[u64; DropReason::ALL.len()]; 2],
) -> Vec<(String, u64)> {
    let mut rose = Vec::new();
    for (index, name) in S::counter_names().into_iter().enumerate() {
        let count = |of: &[u64]| of.get(index).copied().unwrap_or(0);
        rose.push((
            name.to_owned(),
            count(counters[1]).saturating_sub(count(counters[0])),
        ));
    }
    for reason in DropReason::ALL {
        let count = drops[1][reason as usize].saturating_sub(drops[0][reason as usize]);
        rose.push((format!("drops, {}", reason.name()), count));
    }
    rose.retain(|(_, count)| *count > 0);
    rose
}

/// Runs the frame on the model, and records the steps.
pub fn run_model<S: Explained>(
    store: &Arc<S::Store>,
    endpoint: &Endpoint,
    port: u16,
    frame: &[u8],
) -> (Ran, Steps) {
    let fastpath = S::fastpath(store);
    let handler = FrameHandler {
        endpoint,
        port,
        fastpath: &fastpath,
    };
    let (mut left, mut steps) = (frame.to_vec(), Steps::default());
    let before = S::counters(&fastpath);
    let verdict = handler.explain(lease::now_ns(), &mut left, &mut steps);
    let mut drops = [0; DropReason::ALL.len()];
    if let FrameVerdict::Drop(reason) = verdict {
        drops[reason as usize] = 1;
    }
    let counters = risen::<S>(
        [&before, &S::counters(&fastpath)],
        [&[0; DropReason::ALL.len()], &drops],
    );
    let ran = Ran {
        verdict,
        left,
        counters,
    };
    (ran, steps)
}

/// Runs the frame through the program in the kernel by BPF_PROG_TEST_RUN.
///
/// # Errors
/// Error of the kernel.
pub fn run_xdp<S: Explained>(program: &mut XdpDatapath, frame: &[u8]) -> Result<Ran, XdpError> {
    let (counts, drops) = (program.count_all(S::COUNTS)?, program.drop_counts(None)?);
    let (verdict, left) = program.test_run(frame)?;
    let (counts_after, drops_after) = (program.count_all(S::COUNTS)?, program.drop_counts(None)?);
    Ok(Ran {
        verdict: with_reason(verdict, &drops, &drops_after),
        left,
        counters: risen::<S>([&counts, &counts_after], [&drops, &drops_after]),
    })
}

/// Returns the verdict with the reason that the counters show, because a datapath reports no reason of a drop.
pub fn with_reason(
    verdict: FrameVerdict,
    before: &[u64; DropReason::ALL.len()],
    after: &[u64; DropReason::ALL.len()],
) -> FrameVerdict {
    let rose = |reason: &&DropReason| after[**reason as usize] != before[**reason as usize];
    match (verdict, DropReason::ALL.iter().find(rose)) {
        (FrameVerdict::Drop(_), Some(reason)) => FrameVerdict::Drop(*reason),
        _ => verdict,
    }
}

/// Reason why the RTL passes a frame to the host for which the model has another result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftToHost {
    /// The frame is longer than this number of bytes.
    TooLong(usize),
    /// `spec/` does not list the native operation with this name for the RTL.
    NotListed(&'static str),
    /// The native request with this name has more than one operation or account.
    Several(&'static str),
    /// The NIC has only this number of session slots.
    NoSession(u32),
}

impl LeftToHost {
    /// Returns whether the RTL decides so before it checks the UDP checksum.
    fn is_before_checksum(self) -> bool {
        !matches!(self, Self::NoSession(_))
    }

    /// Returns the reason as a clause.
    pub fn text(self) -> String {
        match self {
            Self::TooLong(bytes) => {
                format!("the frame is longer than the {bytes} bytes that the NIC processes")
            }
            Self::NotListed(name) => format!("spec/ does not list the operation `{name}` for rtl"),
            Self::Several(name) => format!("the NIC answers `{name}` only with one operation or account"),
            Self::NoSession(slots) => format!("the NIC has only the first {slots} session slots"),
        }
    }
}

/// Returns the result that the RTL must have where it differs from that of the model, with the reason: a native request
/// that the RTL leaves to the host, or a frame that is too long. Returns `None` for all other frames, also if the model
/// passes such a frame to the host with the same counters.
pub fn expected_of_rtl<S: Explained>(
    service: &S,
    model: &Ran,
    steps: &Steps,
    frame: &[u8],
    frame_bytes_max: usize,
) -> Option<(Ran, LeftToHost)> {
    let passed = |counters, reason| {
        let expected = Ran {
            verdict: FrameVerdict::Pass,
            left: frame.to_vec(),
            counters,
        };
        let is_other = !model.differences(&expected).is_empty();
        is_other.then_some((expected, reason))
    };
    if frame.len() > frame_bytes_max {
        return passed(Vec::new(), LeftToHost::TooLong(frame_bytes_max));
    }
    // The model makes this decision about each frame that is a request for the service.
    let is_request = steps.as_slice().iter().any(|step| step.rule == Rule::Changes);
    let datagram = frame::parse(frame).filter(|_| is_request)?;
    let reason = service.left_to_host(&frame[datagram.payload()])?;
    let is_checksum_wrong = steps
        .as_slice()
        .last()
        .is_some_and(|step| step.rule == Rule::UdpChecksum && !step.holds);
    if is_checksum_wrong && !reason.is_before_checksum() {
        return None;
    }
    passed(vec![(S::FORWARDED.to_owned(), 1)], reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::spv::Spv;
    use lineside_wire::frame::{Addressing, build};
    use lineside_wire::trace::Trace;
    use lineside_wire::{SPV_OP_HEADERS, SPV_OP_PROOF, SPV_OP_ROOT, native};
    use zerocopy::IntoBytes;

    const BYTES_MAX: usize = 100;

    /// Returns the reason why the RTL differs from a model with this verdict, which counted `counter`.
    fn reason(
        verdict: FrameVerdict,
        counter: Option<&str>,
        operation: u8,
        bytes: usize,
    ) -> Option<LeftToHost> {
        let mut frame = vec![0; bytes];
        let addressing = Addressing {
            source_mac: [2, 0, 0, 0, 0, 1],
            destination_mac: [2, 0, 0, 0, 0, 2],
            vlan: None,
            source: "10.0.0.1".parse().unwrap(),
            destination: "10.0.0.2".parse().unwrap(),
            source_port: 40_000,
            destination_port: 7701,
        };
        let mut payload = native::request_header(operation, 1, 0).as_bytes().to_vec();
        payload.resize(bytes - 42, 0);
        build(&mut frame, &addressing, &payload).unwrap();
        let mut steps = Steps::default();
        steps.choose(Rule::Changes, 42..bytes, false);
        let model = Ran {
            verdict,
            left: frame.clone(),
            counters: counter.map(|name| (name.to_owned(), 1)).into_iter().collect(),
        };
        let (expected, reason) = expected_of_rtl(&Spv::with_defaults(), &model, &steps, &frame, BYTES_MAX)?;
        assert_eq!(expected.verdict, FrameVerdict::Pass);
        assert_eq!(expected.left, frame);
        Some(reason)
    }

    /// Regression test: a frame that the model passes for another reason had the reason of the RTL.
    #[test]
    fn the_rtl_has_a_reason_of_its_own_only_where_its_result_differs_from_the_model() {
        let (pass, answered) = (FrameVerdict::Pass, FrameVerdict::Transmit);
        let proof = Some(LeftToHost::NotListed("proof"));
        let too_long = Some(LeftToHost::TooLong(BYTES_MAX));
        for (verdict, counter, operation, bytes, expected) in [
            (answered, Some("hits"), SPV_OP_PROOF, 80, proof),
            (pass, Some("misses"), SPV_OP_PROOF, 80, proof),
            (pass, Some("forwarded_native"), SPV_OP_PROOF, 80, None),
            (pass, Some("forwarded_native"), SPV_OP_HEADERS, 80, None),
            (answered, Some("hits"), SPV_OP_ROOT, 80, None),
            (answered, Some("hits"), SPV_OP_ROOT, 101, too_long),
            (pass, Some("misses"), SPV_OP_ROOT, 101, too_long),
            (pass, None, SPV_OP_ROOT, 101, None),
        ] {
            let found = reason(verdict, counter, operation, bytes);
            assert_eq!(
                found, expected,
                "{verdict:?}, {counter:?}, operation {operation}, {bytes} bytes"
            );
        }
    }

    /// A frame for another port is not a request, whatever its payload is.
    #[test]
    fn a_frame_that_is_not_for_the_service_has_no_reason() {
        let frame = vec![0; 80];
        let model = Ran {
            verdict: FrameVerdict::Pass,
            left: frame.clone(),
            counters: Vec::new(),
        };
        let found = expected_of_rtl(
            &Spv::with_defaults(),
            &model,
            &Steps::default(),
            &frame,
            BYTES_MAX,
        );
        assert!(found.is_none());
    }
}

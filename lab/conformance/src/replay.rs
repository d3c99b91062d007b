//! Replay of a capture: sends its frames through a datapath again, and reports the verdicts, their counts and the
//! replies.

use crate::diff::Datapath;
use crate::pcap::{PcapError, Reader, Record};
use lineside_fastpath::{DropReason, FrameVerdict};
use lineside_wire::endpoint::{ADDRESSES_MAX, Endpoint};
use lineside_wire::frame;
use lineside_xdp::XdpError;
use std::collections::HashMap;
use std::io::Read;
use std::net::{IpAddr, SocketAddr};

/// Lengths of frames that every datapath processes, in bytes. The kernel runs no shorter frame, and no frame that does
/// not fit into a page together with its headroom and tailroom.
pub const FRAME_BYTES: std::ops::RangeInclusive<usize> = 14..=3072;

/// Endpoint for which the fast path answers in a replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// MAC address to which its frames are sent.
    pub mac: [u8; 6],
    /// UDP port to which its requests are sent.
    pub port: u16,
    /// IP addresses to which its requests are sent, the most frequent one first.
    pub addresses: Vec<IpAddr>,
}

/// Reason why a replay could not begin, or ended early.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// Error of the capture.
    #[error(transparent)]
    Pcap(#[from] PcapError),
    /// Error of the datapath.
    #[error(transparent)]
    Xdp(#[from] XdpError),
    /// The callback for a frame failed.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The capture contains no frame for the fast path.
    #[error("no UDP datagram{} in the capture", .0.map_or(String::new(), |to| format!(" to {to}")))]
    NothingToAnswer(Option<SocketAddr>),
}

impl Target {
    /// Returns the endpoint to which most UDP datagrams of the capture were sent; destinations with the port `port` are
    /// preferred. If `to` is given, only its MAC address is searched for. If the capture is damaged in the middle, it
    /// is read up to the damage.
    ///
    /// # Errors
    /// [`ReplayError::NothingToAnswer`] if the capture has no such datagram.
    pub fn find<R: Read>(
        capture: &mut Reader<R>,
        port: u16,
        to: Option<SocketAddr>,
    ) -> Result<Self, ReplayError> {
        let mut frames: HashMap<([u8; 6], u16), HashMap<IpAddr, u64>> = HashMap::new();
        let mut record = Record::default();
        // An error here is ignored, because the replay itself reports faults of the capture.
        while let Ok(true) = capture.next(&mut record) {
            let (Some(mac), Some(found)) = (record.frame.first_chunk(), frame::parse(&record.frame)) else {
                continue;
            };
            let wanted =
                to.is_none_or(|to| (found.destination, found.destination_port) == (to.ip(), to.port()));
            if wanted && mac[0] & 1 == 0 {
                let place = frames.entry((*mac, found.destination_port)).or_default();
                *place.entry(found.destination).or_default() += 1;
            }
        }
        // If two targets are equally frequent, their values decide, so that the same capture always has the same
        // target.
        let best = frames
            .into_iter()
            .max_by_key(|(key, addresses)| (key.1 == port, addresses.values().sum::<u64>(), *key));
        let ((mac, port), addresses) = best.ok_or(ReplayError::NothingToAnswer(to))?;
        let mut addresses: Vec<_> = addresses.into_iter().collect();
        addresses.sort_by_key(|(address, count)| (std::cmp::Reverse(*count), *address));
        let mut addresses: Vec<_> = addresses.into_iter().map(|(address, _)| address).collect();
        for v4 in [true, false] {
            let mut kept = 0;
            addresses.retain(|address| {
                kept += usize::from(address.is_ipv4() == v4);
                address.is_ipv4() != v4 || kept <= ADDRESSES_MAX
            });
        }
        Ok(Self { mac, port, addresses })
    }

    /// Returns the interface of the fast path. It is `lo` if the capture was made there.
    pub fn endpoint(&self) -> Endpoint {
        Endpoint::new(self.mac, self.mac == [0; 6], &self.addresses).unwrap_or_default()
    }
}

/// Result of one frame.
#[derive(Debug)]
pub struct Step<'a> {
    /// Number of the frame, counted from 1.
    pub number: u64,
    /// Frame as it was captured.
    pub record: &'a Record,
    /// Verdict of the datapath; `None` if no datapath processes a frame of this length.
    pub verdict: Option<FrameVerdict>,
    /// Frame after the run. If the verdict is [`FrameVerdict::Transmit`], this is the reply.
    pub left: &'a [u8],
}

/// Counts of all frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Number of frames read.
    pub frames: u64,
    /// Number of frames answered by the fast path.
    pub answered: u64,
    /// Number of frames passed to the host.
    pub passed: u64,
    /// Number of dropped frames, by [`DropReason`].
    pub drops: [u64; DropReason::ALL.len()],
    /// Number of frames that were not run, because no datapath processes a frame of their length.
    pub not_run: u64,
    /// Number of frames of which the capture contains only a part.
    pub cut_short: u64,
}

impl Report {
    /// Returns the number of all dropped frames.
    pub fn dropped(&self) -> u64 {
        self.drops.iter().sum()
    }
}

/// Runs every frame of `capture` through `datapath` and passes the result to `each`. The second value of the result is
/// the error that ended the replay before the end of the file, if there was one.
///
/// # Errors
/// Errors of the datapath or of `each`.
pub fn replay<R: Read>(
    capture: &mut Reader<R>,
    datapath: &mut dyn Datapath,
    each: &mut dyn FnMut(&Step<'_>) -> Result<(), ReplayError>,
) -> Result<(Report, Option<PcapError>), ReplayError> {
    let mut report = Report::default();
    let mut record = Record::default();
    let mut drops = datapath.drops()?;
    loop {
        match capture.next(&mut record) {
            Ok(true) => report.frames += 1,
            Ok(false) => return Ok((report, None)),
            Err(error) => return Ok((report, Some(error))),
        }
        report.cut_short += u64::from(record.original_bytes as usize > record.frame.len());
        let (verdict, left) = match FRAME_BYTES.contains(&record.frame.len()) {
            true => run(datapath, &record.frame, &mut drops).map(|(verdict, left)| (Some(verdict), left))?,
            false => (None, Vec::new()),
        };
        match verdict {
            None => report.not_run += 1,
            Some(FrameVerdict::Transmit) => report.answered += 1,
            Some(FrameVerdict::Pass) => report.passed += 1,
            Some(FrameVerdict::Drop(reason)) => report.drops[reason as usize] += 1,
        }
        each(&Step {
            number: report.frames,
            record: &record,
            verdict,
            left: &left,
        })?;
    }
}

/// Runs one frame. If it was dropped, the counter that increased shows the reason.
fn run(
    datapath: &mut dyn Datapath,
    frame: &[u8],
    before: &mut [u64; DropReason::ALL.len()],
) -> Result<(FrameVerdict, Vec<u8>), ReplayError> {
    let (verdict, left) = datapath.run(frame)?;
    if !matches!(verdict, FrameVerdict::Drop(_)) {
        return Ok((verdict, left));
    }
    let after = datapath.drops()?;
    let rose = |reason: &&DropReason| after[**reason as usize] != before[**reason as usize];
    let reason = DropReason::ALL.iter().find(rose).copied();
    *before = after;
    Ok((reason.map_or(verdict, FrameVerdict::Drop), left))
}

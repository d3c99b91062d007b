//! A captured conversation sent through a datapath again: what the fast path makes of each frame, counted, and its
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

/// Frames that every datapath takes: the kernel runs none that is shorter, nor one that does not fit in a page with its
/// room around it.
pub const FRAME_BYTES: std::ops::RangeInclusive<usize> = 14..=3072;

/// Whom the fast path stands for in a replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The MAC address that its frames were sent to.
    pub mac: [u8; 6],
    /// The UDP port that was asked.
    pub port: u16,
    /// The addresses that were asked, the most frequent first.
    pub addresses: Vec<IpAddr>,
}

/// Why a replay could not begin, or ended early.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The capture.
    #[error(transparent)]
    Pcap(#[from] PcapError),
    /// The datapath.
    #[error(transparent)]
    Xdp(#[from] XdpError),
    /// What is done with each frame failed.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// Nothing in the capture is for the fast path.
    #[error("no UDP datagram{} in the capture", .0.map_or(String::new(), |to| format!(" to {to}")))]
    NothingToAnswer(Option<SocketAddr>),
}

impl Target {
    /// Whom most UDP datagrams of the capture were sent to; of several, `port` before all others. With `to`, its MAC.
    /// A capture that is damaged further on is read up to there.
    ///
    /// # Errors
    /// [`ReplayError::NothingToAnswer`].
    pub fn find<R: Read>(
        capture: &mut Reader<R>,
        port: u16,
        to: Option<SocketAddr>,
    ) -> Result<Self, ReplayError> {
        let mut frames: HashMap<([u8; 6], u16), HashMap<IpAddr, u64>> = HashMap::new();
        let mut record = Record::default();
        // What is wrong with the capture is the replay's to tell.
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
        // Ties are broken by value, so that the same capture always gives the same target.
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

    /// The interface that the fast path stands at: `lo` where the capture is from there.
    pub fn endpoint(&self) -> Endpoint {
        Endpoint::new(self.mac, self.mac == [0; 6], &self.addresses).unwrap_or_default()
    }
}

/// What became of one frame.
#[derive(Debug)]
pub struct Step<'a> {
    /// Its number, from 1.
    pub number: u64,
    /// The frame as it was captured.
    pub record: &'a Record,
    /// What the datapath said; `None`: no datapath takes a frame of that length.
    pub verdict: Option<FrameVerdict>,
    /// The frame as the datapath left it: with [`FrameVerdict::Transmit`] the reply.
    pub left: &'a [u8],
}

/// What became of all frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Frames read.
    pub frames: u64,
    /// Answered at the line.
    pub answered: u64,
    /// Passed to the host.
    pub passed: u64,
    /// Dropped, by [`DropReason`].
    pub drops: [u64; DropReason::ALL.len()],
    /// Not run, because no datapath takes a frame of that length.
    pub not_run: u64,
    /// Of all frames, those of which the capture kept a part only.
    pub cut_short: u64,
}

impl Report {
    /// Dropped, whatever the reason.
    pub fn dropped(&self) -> u64 {
        self.drops.iter().sum()
    }
}

/// Runs every frame of `capture` through `datapath` and shows it to `each`. The second value is what ended it before
/// the end of the file.
///
/// # Errors
/// The datapath's, or those of `each`.
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

/// Runs one frame; the reason of a drop is the counter that rose.
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

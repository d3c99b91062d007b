//! Replay of a capture: sends its frames through a datapath again, and reports the verdicts, their counts and the
//! replies.

use crate::diff::Datapath;
use lineside_capture::{FRAME_BYTES, NoTarget, PcapError, Reader, Record};
use lineside_fastpath::{DropReason, FrameVerdict};
use lineside_xdp::XdpError;
use std::io::Read;

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
    /// The capture has no endpoint for the fast path.
    #[error(transparent)]
    NothingToAnswer(#[from] NoTarget),
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

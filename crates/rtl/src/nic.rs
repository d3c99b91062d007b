//! A NIC with the RTL, as the host sees it: it executes commands, and takes frames from the network in batches.

use crate::command::Command;
use crate::error::RtlError;
use crate::generated::{TRANSFER_RECORD_BYTES, TRANSFER_RESPONSE_BYTES};
use lineside_wire::{DropReason, SpvCounter, TransferCounter};
use std::io;

/// Maximum number of frames in a batch.
pub const BATCH: usize = 128;
/// Room for one frame in a batch, in bytes: an Ethernet frame of 1,514 bytes with a VLAN tag fits.
pub(crate) const FRAME_ROOM: usize = 2048;

/// Service of a NIC. Each design of the RTL has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NicDesign {
    /// `ls_spv_core`
    Spv,
    /// `ls_transfer_core`
    Transfer,
}

/// Record of an operation that the NIC has executed: an entry of the stream `transfer_record` of `spec/rtl.toml`.
pub type NicRecord = [u8; TRANSFER_RECORD_BYTES];
/// Response of the NIC to a command: an entry of the stream `transfer_response` or `transfer_session_response`.
pub type NicResponse = [u8; TRANSFER_RESPONSE_BYTES];

/// Decision of the NIC about a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NicVerdict {
    /// The frame went to the host unchanged.
    Forward,
    /// The reply went to the network.
    Reply,
    /// The frame was dropped; the counters have the reason.
    Drop,
}

impl NicVerdict {
    /// Converts the number of a verdict in `rtl/pipeline/ls_pipeline_pkg.sv`.
    pub const fn from_number(number: u8) -> Self {
        match number {
            0 => Self::Forward,
            1 => Self::Reply,
            _ => Self::Drop,
        }
    }
}

/// Counters of the NIC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NicCounters {
    /// Counters of `spv`, by [`SpvCounter`].
    pub spv: [u64; SpvCounter::ALL.len()],
    /// Counters of `transfer`, by [`TransferCounter`].
    pub transfer: [u64; TransferCounter::ALL.len()],
    /// Drops, by [`DropReason`].
    pub drops: [u64; DropReason::ALL.len()],
}

/// Table of the host that follows a NIC which executes operations by itself.
pub trait Follower: Send {
    /// Adds the commands that the NIC needs before the next frames.
    fn commands(&mut self, commands: &mut Vec<Command>);

    /// Takes the records of the operations that the NIC has executed, and the responses to its commands. The replies to
    /// these operations are sent afterwards.
    ///
    /// # Errors
    /// The NIC and the table differ. The NIC is then taken out.
    fn follow(&mut self, records: &[NicRecord], responses: &[NicResponse]) -> Result<(), String>;
}

/// NIC that runs the RTL.
pub trait Nic: Send {
    /// Executes commands in their order. They have taken effect when the call returns.
    ///
    /// # Errors
    /// [`RtlError::Fault`]
    fn execute(&mut self, commands: &[Command]) -> Result<(), RtlError>;

    /// Processes the frames of `batch`, and writes the verdicts and the frames that leave into it. `now_ns` is the time
    /// of the leases. Returns the number of clock cycles.
    ///
    /// # Errors
    /// [`RtlError::Fault`]
    fn process(&mut self, now_ns: u64, batch: &mut FrameBatch) -> Result<u64, RtlError>;

    /// Returns the counters.
    fn counters(&self) -> NicCounters;

    /// Removes the records of all operations that were executed before this call, in their order.
    fn take_records(&mut self) -> Vec<NicRecord> {
        Vec::new()
    }

    /// Removes the responses to the commands that were executed before this call, in their order.
    fn take_responses(&mut self) -> Vec<NicResponse> {
        Vec::new()
    }
}

/// Frames on their way through a NIC. The memory is allocated once and used for all batches.
pub struct FrameBatch {
    /// Frames from the network, one after the other.
    pub(crate) input: Vec<u8>,
    /// Length of each frame in bytes.
    pub(crate) lengths: Vec<u32>,
    /// Frames that leave; each begins at the offset of its input.
    pub(crate) output: Vec<u8>,
    /// Length of each frame that leaves in bytes; 0 after a drop.
    pub(crate) output_lengths: Vec<u32>,
    /// Verdicts as numbers.
    pub(crate) verdicts: Vec<u8>,
    used: usize,
}

impl Default for FrameBatch {
    fn default() -> Self {
        Self {
            input: vec![0; BATCH * FRAME_ROOM],
            lengths: Vec::with_capacity(BATCH),
            output: vec![0; BATCH * FRAME_ROOM],
            output_lengths: vec![0; BATCH],
            verdicts: vec![0; BATCH],
            used: 0,
        }
    }
}

impl FrameBatch {
    /// Removes all frames.
    pub fn clear(&mut self) {
        self.lengths.clear();
        self.used = 0;
    }

    /// Returns the number of frames.
    pub fn len(&self) -> usize {
        self.lengths.len()
    }

    /// Returns true without frames.
    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// Adds the frame that `read` writes into the buffer that it gets. Returns false, without a call of `read`, if the
    /// batch is full. A frame without bytes is left out.
    ///
    /// # Errors
    /// The error of `read`.
    pub fn push(&mut self, read: impl FnOnce(&mut [u8]) -> io::Result<usize>) -> io::Result<bool> {
        if self.len() == BATCH {
            return Ok(false);
        }
        let bytes = read(&mut self.input[self.used..self.used + FRAME_ROOM])?.min(FRAME_ROOM);
        if bytes > 0 {
            self.lengths.push(bytes as u32);
            self.used += bytes;
        }
        Ok(true)
    }

    /// Returns the frames as they came from the network.
    pub fn frames(&self) -> impl Iterator<Item = &[u8]> {
        let mut at = 0;
        self.lengths.iter().map(move |length| {
            let begin = at;
            at += *length as usize;
            &self.input[begin..at]
        })
    }

    /// Returns the verdicts, each with the frame that leaves; it is empty after a drop.
    pub fn left(&self) -> impl Iterator<Item = (NicVerdict, &[u8])> {
        let mut at = 0;
        let results = self.verdicts.iter().zip(&self.output_lengths);
        self.lengths
            .iter()
            .zip(results)
            .map(move |(length, (verdict, bytes))| {
                let begin = at;
                at += *length as usize;
                let frame = &self.output[begin..begin + *bytes as usize];
                (NicVerdict::from_number(*verdict), frame)
            })
    }

    /// Writes the result for frame `index`, as a NIC without RTL does. `frame` must not be longer than the input.
    ///
    /// # Panics
    /// Panics if there is no such frame, or `frame` is longer than the input.
    pub fn set(&mut self, index: usize, verdict: NicVerdict, frame: &[u8]) {
        assert!(
            frame.len() <= self.lengths[index] as usize,
            "the frame that leaves is longer"
        );
        let begin: u32 = self.lengths[..index].iter().sum();
        self.output[begin as usize..][..frame.len()].copy_from_slice(frame);
        self.output_lengths[index] = frame.len() as u32;
        self.verdicts[index] = match verdict {
            NicVerdict::Forward => 0,
            NicVerdict::Reply => 1,
            NicVerdict::Drop => 2,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_keeps_the_frames_apart_and_ends_when_it_is_full() {
        let mut batch = FrameBatch::default();
        for number in 0..BATCH {
            let pushed = batch.push(|room| {
                room[..number].fill(number as u8);
                Ok(number)
            });
            assert!(pushed.unwrap());
        }
        assert_eq!(batch.len(), BATCH - 1, "the frame without bytes is left out");
        assert!(batch.push(|_| Err(io::ErrorKind::WouldBlock.into())).is_err());
        assert!(batch.push(|_| Ok(1)).unwrap());
        assert!(!batch.push(|_| unreachable!()).unwrap(), "the batch is full");
        for (frame, number) in batch.frames().zip(1..) {
            let expected = if number < BATCH { number } else { 1 };
            assert_eq!(frame.len(), expected);
        }
        batch.set(4, NicVerdict::Reply, &[7; 5]);
        batch.set(5, NicVerdict::Drop, &[]);
        let left: Vec<_> = batch.left().collect();
        assert_eq!(left[4], (NicVerdict::Reply, &[7; 5][..]));
        assert_eq!(left[5], (NicVerdict::Drop, &[][..]));
        batch.clear();
        assert!(batch.is_empty());
    }
}

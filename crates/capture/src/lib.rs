//! Captures of Ethernet frames. [`Reader`] and [`Writer`] read and write classic pcap files; [`Target`] is the endpoint
//! to which most requests of a capture were sent.
//!
//! ```
//! use lineside_capture::{Reader, Record, Writer};
//!
//! let mut writer = Writer::new(Vec::new())?;
//! writer.write(1_000_000_000, &[7; 60])?;
//! let file = writer.finish()?;
//! let mut record = Record::default();
//! assert!(Reader::new(&file[..]).and_then(|mut reader| reader.next(&mut record)).is_ok());
//! assert_eq!(record.frame, [7; 60]);
//! # Ok::<(), std::io::Error>(())
//! ```

mod pcap;
mod target;

pub use pcap::{PcapError, RECORD_BYTES_MAX, Reader, Record, Writer};
pub use target::{NoTarget, Target};

/// Lengths of frames that every datapath processes, in bytes. The kernel runs no shorter frame, and no frame that does
/// not fit into a page together with its headroom and tailroom.
pub const FRAME_BYTES: std::ops::RangeInclusive<usize> = 14..=3072;

//! Durable append-only log with segments, a CRC for each record, group commit, recovery and snapshots; and Merkle
//! trees.
//!
//! A [`Journal`] has one owner. Records are appended to a group ([`Journal::append`]); the group is written with one
//! write and one fdatasync ([`Journal::commit`]). [`GroupCommit`] adds a thread, so that many callers can share a
//! journal.
//!
//! ```
//! use lineside_journal::{Journal, Options, SimDisk};
//!
//! let disk = SimDisk::new(1); // `FsDisk::open("/var/lib/lineside/transfer")?` for a real one
//! let (mut journal, _) = Journal::open_or_create(disk.clone(), 0x1234_5678_9abc_def0, Options::small())?;
//! journal.reserve(2 * lineside_journal::record_bytes(5))?; // fails now if the disk is full
//! journal.append(1, b"debit")?;
//! journal.append(1, b"creds")?;
//! assert_eq!(journal.commit()?, 2);
//! drop(journal);
//!
//! disk.power_cut();
//! let (journal, recovery) = Journal::open(disk, Options::small())?;
//! assert_eq!((recovery.last_lsn, recovery.cut_bytes), (2, 0));
//! let mut records = journal.records(1)?;
//! while let Some(record) = records.next()? {
//!     assert_eq!((record.kind, record.payload.len()), (1, 5));
//! }
//! # Ok::<(), lineside_journal::Error>(())
//! ```
//!
//! `docs/journal.md` describes the format and the guarantees, and says what to do about each [`Error`].

mod acknowledged;
mod disk;
mod error;
mod format;
mod fs_disk;
mod group;
mod group_commit;
mod journal;
mod lost_id;
pub mod merkle;
mod options;
mod reader;
mod records;
mod recover;
mod repair;
mod segment;
mod sim_disk;
mod snapshot;
mod survey;
mod verify;

pub use disk::{Disk, DiskFile, read_full};
pub use error::{Error, Result};
pub use format::{RECORD_HEADER_BYTES, SEGMENT_HEADER_BYTES, VERSION, record_bytes};
pub use fs_disk::{FsDisk, FsFile};
pub use group_commit::GroupCommit;
pub use journal::{Commit, Committed, Journal};
pub use options::Options;
pub use reader::Reader;
pub use records::{Record, Records, dump, dump_over_gaps, first_unbroken};
pub use recover::{Recovery, has_journal, refuse_emptied};
pub use repair::{RepairReport, confirm_repair, repair, repair_unconfirmed};
pub use sim_disk::{Counts, Op, SimDisk, SimFile};
pub use snapshot::{DamagedSnapshot, LatestSnapshot, Snapshot, SnapshotWriter, Snapshots};
pub use verify::{Finding, SegmentReport, SnapshotReport, VerifyReport, verify};

/// Number of a record: 1, 2, 3 and so on, without gaps. The value 0 means the position before the first record.
pub type Lsn = u64;

//! Disk on which the durable figures are measured.

use crate::error::{BenchError, Result, io};
use crate::import::{fdatasync_us, file_system};
use crate::transfer::drain::Removed;
use serde::Serialize;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Instant;

/// Number of syncs whose median is reported.
const SYNCS: usize = 101;
/// Size in bytes of the data that a commit of one transfer writes to the disk, rounded up to a sector.
const IN_PLACE_BYTES: usize = 512;

/// Properties of the disk that figures depend on.
#[derive(Clone, Debug, Serialize)]
pub struct Disk {
    /// Type of the file system that contains the folder.
    pub file_system: String,
    /// Median time in microseconds of an fdatasync after 4 KiB were appended to a file.
    pub fdatasync_us: f64,
    /// Median time in microseconds of an fdatasync after 512 bytes were overwritten in a file.
    pub in_place_us: f64,
}

impl Disk {
    /// Measures the disk below `folder`.
    ///
    /// # Errors
    /// [`BenchError::NotMeasured`] if the file system is in memory; an error of the operating system.
    pub fn look(folder: &Path) -> Result<Self> {
        std::fs::create_dir_all(folder).map_err(io("creating a folder"))?;
        let file_system = file_system(folder)?;
        if file_system == "tmpfs" {
            let folder = folder.display();
            return Err(BenchError::NotMeasured(format!(
                "{folder} is in memory (tmpfs); give a folder on a disk with --data"
            )));
        }
        let scratch = Removed::make(&folder.join("disk"))?;
        Ok(Self {
            file_system,
            fdatasync_us: fdatasync_us(&scratch.0).map_err(io("measuring fdatasync"))?,
            in_place_us: in_place_us(&scratch.0).map_err(io("measuring fdatasync"))?,
        })
    }
}

fn in_place_us(folder: &Path) -> std::io::Result<f64> {
    let mut file = File::create(folder.join("in-place"))?;
    file.write_all(&vec![0; SYNCS * IN_PLACE_BYTES])?;
    file.sync_all()?;
    file.seek(SeekFrom::Start(0))?;
    let mut took = Vec::with_capacity(SYNCS);
    for _ in 0..SYNCS {
        file.write_all(&[0x5a; IN_PLACE_BYTES])?;
        let start = Instant::now();
        file.sync_data()?;
        took.push(start.elapsed().as_secs_f64() * 1e6);
    }
    took.sort_by(f64::total_cmp);
    Ok(took[SYNCS / 2])
}

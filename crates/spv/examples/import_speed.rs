//! How fast an import is: MB of raw blocks a second, with the index in memory and on disk, everything synced.
//!
//! `cargo run --release -p lineside-spv --example import_speed [-- MEGABYTES [DIRECTORY]]`; the generated blocks and
//! the stores lie under DIRECTORY (default: the system's temporary one) and are removed at the end.

use lineside_spv::chain::{ChainStore, CheckedBlock, DemoChain, ImportOptions, IndexKind, Network};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::{Duration, Instant};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let megabytes: u64 = arguments.next().map_or(Ok(1000), |text| text.parse())?;
    let folder = arguments.next().map_or_else(std::env::temp_dir, Into::into);
    let folder = folder.join(format!("lineside-import-speed-{}", std::process::id()));
    let done = measure(megabytes, &folder);
    std::fs::remove_dir_all(&folder)?;
    done
}

fn measure(megabytes: u64, folder: &Path) -> Result<(), Failure> {
    let blocks = folder.join("blocks");
    std::fs::create_dir_all(&blocks)?;
    let mut file = BufWriter::new(File::create(blocks.join("blk00000.dat"))?);
    let (mut bytes, mut transactions, mut checking) = (0u64, 0usize, Duration::ZERO);
    for block in DemoChain::new(1, 5000) {
        file.write_all(&Network::Regtest.magic())?;
        file.write_all(&(block.raw.len() as u32).to_le_bytes())?;
        file.write_all(&block.raw)?;
        let start = Instant::now();
        CheckedBlock::check(&block.raw, Network::Regtest)?;
        checking += start.elapsed();
        bytes += block.raw.len() as u64;
        transactions += block.txids.len();
        if bytes >= megabytes * 1_000_000 {
            break;
        }
    }
    file.into_inner()?.sync_all()?;
    println!("{bytes} bytes of blocks, {transactions} transactions");
    println!("checking alone: {:.0} MB/s", rate(bytes, checking));

    for kind in [
        IndexKind::Memory,
        IndexKind::Disk,
        IndexKind::Memory,
        IndexKind::Disk,
    ] {
        let data = folder.join("data");
        let (mut store, _) = ChainStore::open_with(Some(&data), Network::Regtest, kind)?;
        let (start, cpu) = (Instant::now(), cpu_time());
        let report = store.import(
            std::slice::from_ref(&blocks),
            ImportOptions::default(),
            &mut |_| {},
        )?;
        let (wall, cpu) = (start.elapsed(), cpu_time() - cpu);
        assert_eq!((report.bytes, report.refused.len()), (bytes, 0));
        let start = Instant::now();
        let tip = store.tip().ok_or("no tip")?;
        let mut looked_up = 0u32;
        for height in (0..tip.height).step_by((tip.height as usize / 1000).max(1)) {
            let id = store.at_height(height).ok_or("no block")?;
            for txid in store.txids(id).iter().step_by(500) {
                let found = store.locate(txid)?.ok_or("not found")?;
                assert_eq!(found.block, id);
                looked_up += 1;
            }
        }
        println!(
            "{kind:?}: {:.0} MB/s ({:.1} s), {:.0} MB per second of processor time; locate {:.1} us",
            rate(bytes, wall),
            wall.as_secs_f64(),
            rate(bytes, cpu),
            start.elapsed().as_secs_f64() * 1e6 / f64::from(looked_up),
        );
        drop(store);
        let start = Instant::now();
        drop(ChainStore::open_with(Some(&data), Network::Regtest, kind)?);
        println!("  opening it again: {:.2} s", start.elapsed().as_secs_f64());
        std::fs::remove_dir_all(&data)?;
    }
    Ok(())
}

fn rate(bytes: u64, time: Duration) -> f64 {
    bytes as f64 / 1e6 / time.as_secs_f64()
}

/// Processor time of all threads of this process so far.
fn cpu_time() -> Duration {
    // SAFETY: all-zero bytes are a valid `rusage`.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is a live `rusage` for the call to fill.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
    let of = |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000);
    of(usage.ru_utime) + of(usage.ru_stime)
}

//! Writes the vectors of `spv` and `transfer` as captures, in the form that the test suites of FPGA shells read: one
//! folder for each vector, with the frame that goes in and the frames that must come out.

pub mod transfer;

use super::spv::fill;
use super::{ExpectedVerdict, File, Lease, Vector, load};
use crate::rtl::{RtlService, setup_commands};
use crate::spv::Spv;
use lineside_capture::Writer;
use lineside_spv::store::{Geometry, Store};
use lineside_spv::writer::StoreWriter;
use lineside_wire::SPV_PORT;
use lineside_wire::endpoint::Endpoint;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Name of the capture with the frame from the network.
pub const PACKETS_IN: &str = "packets_in.pcap";
/// Name of the capture with the frames that leave to the network: one reply, or none.
pub const EXPECTED: &str = "expected.pcap";
/// Name of the capture with the frames that go to the host: the unchanged frame, or none.
pub const EXPECTED_HOST: &str = "expected_host.pcap";
/// Name of the files with commands. The one of a vector file brings the NIC into the state before its first vector; the
/// one of a vector of `transfer` has the commands before its frame.
pub const COMMANDS: &str = "commands.bin";

/// Time of all frames, in nanoseconds since 1970: one second, because some readers refuse 0.
const TIME_NS: u64 = 1_000_000_000;
/// End of a valid lease on the clock of the NIC, which starts at 0.
const LEASE_UNTIL_NS: u64 = 1 << 62;

/// Numbers of what was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Number of vector files, which are states of the fast path.
    pub files: usize,
    /// Number of vectors.
    pub vectors: usize,
    /// Number of vectors with a reply.
    pub replies: usize,
}

impl Written {
    fn add(&mut self, left: &Expected) {
        self.vectors += 1;
        self.replies += usize::from(left.network.is_some());
    }
}

/// Frames that leave the NIC for one vector.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    /// Reply to the network.
    pub network: Option<Vec<u8>>,
    /// Frame to the host.
    pub host: Option<Vec<u8>>,
}

/// Returns the frames that the RTL must give for a vector. It forwards the native operations that `spec/` does not list
/// for it.
pub fn expected(vector: &Vector) -> Expected {
    let is_left = Spv::is_left_to_host(&vector.request.0);
    expected_frames(&vector.fastpath, is_left, &vector.frame(), vector.reply_frame())
}

/// Returns the frames for a request with this verdict. `is_left_to_host` is true if the RTL leaves a native request to
/// the host although another datapath may answer it.
fn expected_frames(
    verdict: &ExpectedVerdict,
    is_left_to_host: bool,
    frame: &[u8],
    reply: Option<Vec<u8>>,
) -> Expected {
    match verdict {
        ExpectedVerdict::Reply if !is_left_to_host => Expected {
            network: reply,
            host: None,
        },
        ExpectedVerdict::Reply | ExpectedVerdict::Forward => Expected {
            network: None,
            host: Some(frame.to_vec()),
        },
        ExpectedVerdict::Drop(_) => Expected::default(),
    }
}

/// Returns the name of the folder of vector `number` of a file: the number, and the vector's name in letters, digits
/// and dashes.
pub fn folder_name(number: usize, what: &str) -> String {
    let words = what.split(|letter: char| !letter.is_ascii_alphanumeric());
    let words: Vec<_> = words.filter(|word| !word.is_empty()).take(8).collect();
    format!("{number:03}-{}", words.join("-").to_lowercase())
}

/// Writes all vectors of `spv` below `out`.
///
/// # Errors
/// The vectors cannot be read, or a file cannot be written.
pub fn write(out: &Path) -> io::Result<Written> {
    let mut written = Written::default();
    for file in load("spv").map_err(io::Error::other)? {
        let folder = out.join("spv").join(&file.name);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(COMMANDS), commands(&file)?)?;
        for (number, vector) in file.vectors.iter().enumerate() {
            let folder = folder.join(folder_name(number, &vector.what));
            fs::create_dir_all(&folder)?;
            let left = expected(vector);
            write_frames(&folder, &vector.frame(), &left)?;
            written.add(&left);
        }
        written.files += 1;
    }
    Ok(written)
}

fn write_frames(folder: &Path, frame: &[u8], left: &Expected) -> io::Result<()> {
    write_frame(&folder.join(PACKETS_IN), Some(frame))?;
    write_frame(&folder.join(EXPECTED), left.network.as_deref())?;
    write_frame(&folder.join(EXPECTED_HOST), left.host.as_deref())
}

fn write_frame(path: &Path, frame: Option<&[u8]>) -> io::Result<()> {
    let mut writer = Writer::new(Vec::new())?;
    if let Some(frame) = frame {
        writer.write(TIME_NS, frame)?;
    }
    fs::write(path, writer.finish()?)
}

/// Returns the commands that bring a NIC after its reset into the state of the file.
fn commands(file: &File) -> io::Result<Vec<u8>> {
    let (store, _writer) = filled(file)?;
    // The keyed hash and the lease would differ in each run.
    let control = store.control();
    let leased = match file.state.lease {
        Lease::Valid => LEASE_UNTIL_NS,
        Lease::Over => 0,
    };
    control.lease_until_ns.store(leased, Relaxed);
    let commands = setup_commands::<Spv>(&store, &endpoint(file)?, SPV_PORT);
    Ok(commands.iter().flat_map(|command| command.0).collect())
}

/// Returns the interface of the vectors of a file.
///
/// # Errors
/// The addresses do not fit an endpoint.
pub fn endpoint(file: &File) -> io::Result<Endpoint> {
    interface(&file.name, &file.endpoint, file.state.loopback)
}

/// Returns the interface of the vectors of the file `name`.
fn interface(name: &str, own: &super::Endpoint, loopback: bool) -> io::Result<Endpoint> {
    own.interface(loopback)
        .ok_or_else(|| io::Error::other(format!("{name}: an interface has no room for these addresses")))
}

/// Returns a store in the state of a vector file, and its writer, which must live as long as the store is used. The
/// table has 1,024 lines, which the low bits of a TXID choose, so that its content is always the same.
///
/// # Errors
/// The memory cannot be allocated.
pub fn filled(file: &File) -> io::Result<(Arc<Store>, StoreWriter)> {
    let geometry = Geometry {
        line_bits: 10,
        block_bits: 4,
        paper_index: true,
        paper_format: file.state.paper_format,
        ..Geometry::default()
    };
    let store = Arc::new(Store::anonymous(&geometry)?);
    for (place, word) in store.control().key.iter().enumerate() {
        word.store(2 * place as u64 + 1, Relaxed);
    }
    let writer = fill(file, &store);
    Ok((store, writer))
}

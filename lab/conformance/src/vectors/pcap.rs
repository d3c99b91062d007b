//! Writes the vectors of `spv` as captures, in the form that the test suites of FPGA shells read: one folder for each
//! vector, with the frame that goes in and the frames that must come out.

use super::{Chain, ExpectedVerdict, File, Lease, Vector, load};
use crate::rtl::{NAME, RtlService, setup_commands};
use crate::spv::Spv;
use lineside_capture::Writer;
use lineside_fastpath::lease;
use lineside_spv::chain::Tip;
use lineside_spv::store::{Geometry, Store};
use lineside_spv::writer::{BlockRef, SpvFill, StoreWriter};
use lineside_wire::endpoint::Endpoint;
use lineside_wire::{AnsweredOp, SPV_PORT, native};
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Name of the capture with the frame from the network.
pub const PACKETS_IN: &str = "packets_in.pcap";
/// Name of the capture with the frames that leave to the network: one reply, or none.
pub const EXPECTED: &str = "expected.pcap";
/// Name of the capture with the frames that go to the host: the unchanged frame, or none.
pub const EXPECTED_HOST: &str = "expected_host.pcap";
/// Name of the file with the commands that bring the NIC into the state of a vector file.
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
    let frame = vector.frame();
    let request = &vector.request.0;
    let is_other_op = !Spv::is_paper(request)
        && native::is_native(request)
        && !Spv::FAST_PATH.answers(NAME, AnsweredOp::Native(request[3]));
    match &vector.fastpath {
        ExpectedVerdict::Reply if !is_other_op => Expected {
            network: vector.reply_frame(),
            host: None,
        },
        ExpectedVerdict::Reply | ExpectedVerdict::Forward => Expected {
            network: None,
            host: Some(frame),
        },
        ExpectedVerdict::Drop(_) => Expected::default(),
    }
}

/// Returns the name of the folder of vector `number` of a file: the number, and its name in letters, digits and dashes.
pub fn folder_name(number: usize, vector: &Vector) -> String {
    let words = vector.what.split(|letter: char| !letter.is_ascii_alphanumeric());
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
            let folder = folder.join(folder_name(number, vector));
            fs::create_dir_all(&folder)?;
            let Expected { network, host } = expected(vector);
            written.replies += usize::from(network.is_some());
            write_frame(&folder.join(PACKETS_IN), Some(&vector.frame()))?;
            write_frame(&folder.join(EXPECTED), network.as_deref())?;
            write_frame(&folder.join(EXPECTED_HOST), host.as_deref())?;
            written.vectors += 1;
        }
        written.files += 1;
    }
    Ok(written)
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
    let own = &file.endpoint;
    let endpoint = Endpoint::new(own.mac.0, file.state.loopback, &own.addresses);
    let mut endpoint = endpoint.ok_or_else(|| {
        io::Error::other(format!(
            "{}: an interface has no room for these addresses",
            file.name
        ))
    })?;
    for address in &own.addresses {
        if let IpAddr::V4(v4) = address {
            endpoint.set_broadcast(*v4, own.broadcast);
        }
    }
    Ok(endpoint)
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
    let mut writer = StoreWriter::new(Arc::clone(&store));
    writer.begin();
    let tip = Tip {
        hash: file.tip.hash.0,
        height: file.tip.height,
    };
    writer.commit(&tip, 1);
    for block in &file.blocks {
        let ticket = writer.admit(&BlockRef {
            hash: block.hash.0,
            root: block.root.0,
            height: block.height,
        });
        for (index, txid) in (0..).zip(&block.fastpath) {
            writer.fill(&txid.0, ticket, index);
        }
    }
    match file.state.lease {
        Lease::Valid => lease::renew(&store.control().lease_until_ns, 1 << 40),
        Lease::Over => lease::end(&store.control().lease_until_ns),
    }
    if file.state.chain == Chain::Changing {
        writer.begin();
    }
    Ok((store, writer))
}

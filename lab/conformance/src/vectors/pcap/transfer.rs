//! The captures of `transfer`. The vectors of a file are a sequence: each request changes the state for the next ones,
//! and the host changes it as well. The folder of a vector therefore has the commands that the host has sent since the
//! vector before it.

use super::{COMMANDS, Expected, Written, folder_name, interface, write_frames};
use crate::rtl::{RtlModel, RtlService};
use crate::transfer::Transfer;
use crate::vectors::transfer::{File, Vector, VectorHost, geometry, load};
use crate::vectors::{ExpectedVerdict, Lease};
use lineside_fastpath::{FrameHandler, FrameVerdict, Readers, Source, lease};
use lineside_rtl::{Command, REGISTER_TRANSFER_LEASE_UNTIL_NS, REGISTER_TRANSFER_PORT, endpoint_commands};
use lineside_transfer::fastpath::TransferFastPath;
use lineside_transfer::nic::{self, NicClaims, NicPort, NicWriter};
use lineside_transfer::store::Store;
use lineside_wire::endpoint::Endpoint;
use lineside_wire::{TRANSFER_PORT, frame};
use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

/// Writes all vectors of `transfer` below `out`, except those of files whose host leaves the records of operations in a
/// ring of a few places: a NIC has places of its own.
///
/// # Errors
/// The vectors cannot be read, a file cannot be written, or the model gives other frames than a vector.
pub fn write(out: &Path) -> io::Result<Written> {
    let mut written = Written::default();
    let files = load().map_err(io::Error::other)?;
    for file in files.iter().filter(|file| file.state.drains) {
        let folder = out.join("transfer").join(&file.name);
        fs::create_dir_all(&folder)?;
        let mut sequence = Sequence::new(file)?;
        write_commands(&folder, &sequence.begin())?;
        for (number, vector) in file.vectors.iter().enumerate() {
            let folder = folder.join(folder_name(number, &vector.what));
            fs::create_dir_all(&folder)?;
            let Step {
                commands,
                frame,
                left,
            } = sequence.step(file, vector)?;
            write_commands(&folder, &commands)?;
            write_frames(&folder, &frame, &left)?;
            written.add(&left);
        }
        written.files += 1;
    }
    Ok(written)
}

fn write_commands(folder: &Path, commands: &[Command]) -> io::Result<()> {
    let bytes: Vec<u8> = commands.iter().flat_map(|command| command.0).collect();
    fs::write(folder.join(COMMANDS), bytes)
}

/// Commands of the host to a NIC that does not exist.
#[derive(Default)]
struct Recorder(Mutex<Vec<Command>>);

impl Recorder {
    fn take(&self) -> Vec<Command> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl NicPort for Recorder {
    fn add(&self, commands: &[Command]) {
        let mut added = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        added.extend_from_slice(commands);
    }

    fn flush(&self) {}
}

/// One vector: the commands before its frame, the frame, and the frames that leave the NIC.
struct Step {
    commands: Vec<Command>,
    frame: Vec<u8>,
    left: Expected,
}

/// The vectors of a file in their order, with the model in the place of the NIC, and a host.
struct Sequence {
    store: Arc<Store>,
    endpoint: Endpoint,
    host: VectorHost,
    recorder: Arc<Recorder>,
    model: RtlModel<Transfer>,
    /// End of the lease that the NIC has.
    lease_until_ns: u64,
    /// Credit for refusals that the NIC has.
    credit: i64,
    /// Last reply of the host with bytes that the host has chosen.
    chosen: Vec<u8>,
}

impl Sequence {
    fn new(file: &File) -> io::Result<Self> {
        let store = Arc::new(Store::anonymous(&nic::geometry(geometry(file)))?);
        for (place, word) in (0..).zip(&store.control().key) {
            // The same accounts are in the same buckets in each run. With a key of 0, all accounts have the same two
            // buckets, as in a table for eight accounts.
            let key = if file.state.account_bits == 1 {
                0
            } else {
                2 * place + 1
            };
            word.store(key, Relaxed);
        }
        let recorder = Arc::<Recorder>::default();
        let port = || Arc::clone(&recorder) as Arc<dyn NicPort>;
        let claims = Arc::new(NicClaims::new(Arc::clone(&store), port()));
        let fill = Box::new(NicWriter::new(Arc::clone(&store), port()));
        let host = VectorHost::with(file, &store, Readers::default(), claims, fill);
        Ok(Self {
            endpoint: interface(&file.name, &file.endpoint, file.state.loopback)?,
            model: RtlModel::new(TransferFastPath::new(Arc::clone(&store))),
            host,
            recorder,
            lease_until_ns: 0,
            credit: 0,
            chosen: Vec::new(),
            store,
        })
    }

    /// Returns the commands that bring a NIC after its reset into the state before the first vector, without a lease.
    fn begin(&mut self) -> Vec<Command> {
        // The commands below copy the whole table.
        self.recorder.take();
        let mut commands = endpoint_commands(&self.endpoint);
        commands.extend(nic::table_commands(&self.store));
        commands.extend(nic::policy_commands(&self.store));
        let port = TRANSFER_PORT.to_le_bytes();
        commands.push(Command::register(REGISTER_TRANSFER_PORT, &port));
        commands
    }

    fn step(&mut self, file: &File, vector: &Vector) -> io::Result<Step> {
        let fault = |what: &str| io::Error::other(format!("{}.toml: {:?}: {what}", file.name, vector.what));
        if file.state.lease == Lease::Over {
            lease::end(&self.store.control().lease_until_ns);
        }
        let commands = self.commands();
        let payload = vector.payload(&self.chosen);
        let frame = vector.frame(&payload);
        let left = self.answer(&frame);
        if left != expected(vector, &frame, &payload) {
            return Err(fault(
                "the model of the NIC gives other frames than the vector has",
            ));
        }
        // The host also answers the requests that the XDP program answers and the RTL does not.
        let is_for_host = vector.host.is_some() || vector.fastpath == ExpectedVerdict::Reply;
        if left.host.is_some() && is_for_host {
            let datagram = frame::parse(&frame).ok_or_else(|| fault("the host cannot answer this frame"))?;
            let from = Source {
                address: datagram.source,
                port: datagram.source_port,
            };
            let reply = self
                .host
                .ask(vector.at_s, from, &payload)
                .reply
                .unwrap_or_default();
            let expected = vector.expected(&payload, &reply).unwrap_or_default();
            if reply != expected {
                return Err(fault("the host gives another reply than the vector has"));
            }
            if vector.is_chosen() {
                self.chosen = reply;
            }
        }
        self.host.host.drain();
        Ok(Step {
            commands,
            frame,
            left,
        })
    }

    /// Returns the commands of the host since the last frame, and those by which the credit and the lease of the NIC
    /// follow the store.
    fn commands(&mut self) -> Vec<Command> {
        let mut commands = self.recorder.take();
        let more = self.store.paper_refusals().saturating_sub(self.credit);
        if self.store.is_express() && more > 0 {
            commands.push(nic::grant_command(more.cast_unsigned()));
        }
        let is_leased = nic::lease_of(&self.store) > lease::now_ns();
        let until_ns = if is_leased { super::LEASE_UNTIL_NS } else { 0 };
        if until_ns != self.lease_until_ns {
            self.lease_until_ns = until_ns;
            let value = until_ns.to_le_bytes();
            commands.push(Command::register(REGISTER_TRANSFER_LEASE_UNTIL_NS, &value));
        }
        commands
    }

    fn answer(&mut self, frame: &[u8]) -> Expected {
        let handler = FrameHandler {
            endpoint: &self.endpoint,
            port: TRANSFER_PORT,
            fastpath: &self.model,
        };
        let mut left = frame.to_vec();
        let verdict = handler.answer(lease::now_ns(), &mut left);
        self.credit = self.store.paper_refusals();
        match verdict {
            FrameVerdict::Transmit => Expected {
                network: Some(left),
                host: None,
            },
            FrameVerdict::Pass => Expected {
                network: None,
                host: Some(left),
            },
            FrameVerdict::Drop(_) => Expected::default(),
        }
    }
}

/// Returns the frames that a vector requires. The RTL forwards the native operations that it does not answer.
pub fn expected(vector: &Vector, frame: &[u8], payload: &[u8]) -> Expected {
    super::expected_frames(
        &vector.fastpath,
        Transfer::is_left_to_host(payload),
        frame,
        vector.reply_frame(),
    )
}

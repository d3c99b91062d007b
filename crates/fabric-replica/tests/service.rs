//! Tests of the service as the daemon runs it: the tests parse a section, start the service, read its status, stop it
//! and start it again.

use bytes::Bytes;
use lineside_fabric::{Options as Validation, TxCode, Validator, laboratory};
use lineside_fabric_grpc::mock::{Blocks, Orderer};
use lineside_fabric_grpc::source::{MemorySource, ReadAccess};
use lineside_fabric_maker::{Blocks as Maker, Network, Options as Members, Workload};
use lineside_fabric_replica::DEF;
use lineside_fabric_replica::status::FabricStatus;
use lineside_fabric_udp::driver::BlockSource as UdpBlocks;
use lineside_fabric_udp::{Sender, SenderOptions, SharedKey};
use lineside_service::config::{Section, UsageError};
use lineside_service::{
    DatapathConfig, Running, ServiceStatus, Snapshot, StartContext, StatusBuilder, XdpAttachment,
};
use std::io;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// Time after which a test fails because the replica has not reached the expected state.
const REPLICA_TIMEOUT: Duration = Duration::from_secs(60);
/// Datagrams with parts of blocks that arrive before a transaction is verified early. The last block of which they have
/// parts is not complete.
const FIRST_DATA: usize = 8;
/// Length of a datagram with a part of a block; announcements are shorter.
const DATA_BYTES_MIN: usize = 500;
/// Commit hash of the last block recorded in `edge`, from its manifest.
const LAST_COMMIT_HASH: &str = "0a213f68fa48ee9de8e1bcddee7fbf9eb4df1e76409676ce28f574935e0e8d44";

fn context() -> StartContext {
    StartContext {
        datapath: DatapathConfig::default(),
        attachment: Arc::new(XdpAttachment::none()),
        nic: None,
        warnings: Vec::new(),
    }
}

/// Starts the service of a section as the daemon does.
fn start(section: &Section) -> anyhow::Result<Box<dyn Running>> {
    let service = (DEF.parse)(section);
    let mut service = service.unwrap_or_else(|issues| panic!("{issues:?}"));
    assert!(service.is_enabled());
    let mut context = context();
    service.privileged_init(&mut context)?;
    let mut running = service.start(&mut context)?;
    running.confirm();
    Ok(running)
}

/// A channel for a test: a mock orderer with the channel's blocks, and a folder with an identity and the ledger.
struct Channel {
    folder: TempDir,
    blocks: Vec<Bytes>,
    orderer: Orderer,
}

fn channel_of(runtime: &Runtime, name: &str, blocks: Vec<Bytes>, network: &Network) -> Channel {
    let folder = tempfile::tempdir().unwrap();
    network.client(0).write_msp(&folder.path().join("msp")).unwrap();
    std::fs::write(folder.path().join("genesis"), &blocks[0]).unwrap();
    let mock = Blocks::new(name, blocks.clone(), ReadAccess::Everybody);
    let orderer = runtime
        .block_on(Orderer::start("127.0.0.1:0", None, mock))
        .unwrap();
    Channel {
        folder,
        blocks,
        orderer,
    }
}

/// Returns the channel whose recorded blocks are in the test data of the crate `fabric`.
fn edge(runtime: &Runtime) -> Channel {
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fabric/tests/data/edge");
    let blocks = MemorySource::read(&recorded, "orderer").unwrap();
    assert_eq!(blocks.len(), 14);
    channel_of(runtime, "edge", blocks, &Network::new(1, Members::default()))
}

/// Returns a generated channel and the number of its valid transactions.
fn made(runtime: &Runtime) -> (Channel, usize) {
    made_with(runtime, "lab", 0)
}

/// Returns a generated channel named `name` and the number of its valid transactions. Its configuration changes after
/// every `config_every` blocks of transactions, or never if `config_every` is 0.
fn made_with(runtime: &Runtime, name: &str, config_every: u64) -> (Channel, usize) {
    let members = Members {
        channel: name.to_owned(),
        ..Members::default()
    };
    let network = Arc::new(Network::new(7, members));
    let workload = Workload {
        keys: 60,
        block: 5,
        transactions: 30,
        config_every,
        ..Workload::default()
    };
    let (mut blocks, mut valid) = (Vec::new(), 0);
    for made in Maker::new(Arc::clone(&network), workload, 1) {
        valid += made.codes.iter().filter(|code| **code == TxCode::Valid).count();
        blocks.push(made.bytes.into());
    }
    (channel_of(runtime, name, blocks, &network), valid)
}

impl Channel {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the keys of the channel's section, without its header.
    fn keys(&self) -> String {
        format!(
            "enabled = true\ndata = {:?}\ngenesis = {:?}\norderers = [{:?}]\nmsp_id = \"Org1MSP\"\nmsp = {:?}\n\
             listen = \"127.0.0.1:0\"\nthreads = 2\n",
            self.path("ledger"),
            self.path("genesis"),
            self.orderer.endpoint(),
            self.path("msp"),
        )
    }

    fn section(&self) -> Section {
        let text: Arc<str> = format!("[fabric]\n{}", self.keys()).into();
        Section::new("fabric", &text, None)
    }
}

fn status(running: &dyn Running) -> (ServiceStatus, FabricStatus, Snapshot) {
    let mut out = StatusBuilder::default();
    running.status()(&mut out);
    let service = out.services[0].clone();
    let fabric = serde_json::from_value(service.details["fabric"].clone()).unwrap();
    let snapshot = Snapshot {
        services: out.services,
        problems: out.problems,
        warnings: out.warnings,
        ..Snapshot::default()
    };
    (service, fabric, snapshot)
}

/// Waits until the status satisfies `is_reached`.
fn wait(
    running: &dyn Running,
    is_reached: impl Fn(&ServiceStatus, &FabricStatus) -> bool,
) -> (ServiceStatus, FabricStatus) {
    let began = Instant::now();
    loop {
        let (service, fabric, snapshot) = status(running);
        if is_reached(&service, &fabric) {
            return (service, fabric);
        }
        assert!(began.elapsed() < REPLICA_TIMEOUT, "{snapshot}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Waits until the ledger has `height` blocks, all durable.
fn wait_for_height(running: &dyn Running, height: usize) -> (ServiceStatus, FabricStatus) {
    let is_newest = |fabric: &FabricStatus| {
        fabric
            .blocks
            .first()
            .is_some_and(|newest| newest.number + 1 == height as u64)
    };
    wait(running, |service, fabric| {
        service.host["height"] == height as u64 && is_newest(fabric)
    })
}

#[test]
fn a_replica_follows_stops_and_goes_on_where_it_was() {
    let runtime = Runtime::new().unwrap();
    let edge = edge(&runtime);
    edge.orderer.blocks.show(8);
    let section = edge.section();
    let mut running = start(&section).unwrap();
    assert_eq!(running.name(), "fabric");
    let endpoints = running.endpoints();
    assert_eq!((endpoints.len(), endpoints[0].protocol), (1, "deliver"));
    assert!(running.description().contains("edge"));
    let (service, fabric) = wait_for_height(&*running, 8);
    assert_eq!(service.listen, endpoints[0].address.to_string());
    assert_eq!((fabric.channel.as_str(), fabric.height_at_start), ("edge", 1));
    assert!(fabric.following && fabric.udp.is_none() && fabric.stopped.is_none());
    let tip = service.tip.unwrap();
    assert_eq!(tip.hash, fabric.blocks[0].header_hash);
    assert_eq!(
        u64::from(tip.height),
        fabric.height,
        "both heights are the number of blocks"
    );
    assert_eq!(service.protocols, ["gRPC"]);
    let (.., snapshot) = status(&*running);
    assert!(
        snapshot.faults().is_empty() && snapshot.warnings.is_empty(),
        "{snapshot}"
    );
    assert!(snapshot.to_string().contains("\n  source  sends blocks\n"));
    TcpStream::connect(endpoints[0].address).unwrap();
    let last_status = running.status();
    running.stop(false).unwrap();
    running.stop(false).unwrap();
    assert!(TcpStream::connect(endpoints[0].address).is_err());
    last_status(&mut StatusBuilder::default());

    // The ledger has the genesis block now, so the section needs no file with that block.
    let mut again = edge.section();
    again.set("genesis", "");
    let mut running = start(&again).unwrap();
    edge.orderer.blocks.show(14);
    let (_, fabric) = wait_for_height(&*running, 14);
    assert_eq!(fabric.height_at_start, 8);
    assert_eq!(fabric.blocks[0].commit_hash.as_deref(), Some(LAST_COMMIT_HASH));
    let last_hash = fabric.blocks[0].header_hash.clone();
    running.stop(false).unwrap();

    let running = start(&section).unwrap();
    // The status has the newest block at once, although this process has committed no block.
    let (service, fabric, snapshot) = status(&*running);
    assert_eq!(
        (fabric.height_at_start, fabric.height, fabric.blocks.len()),
        (14, 14, 0)
    );
    assert_eq!(fabric.commit_hash.as_deref(), Some(LAST_COMMIT_HASH));
    assert_eq!(
        (
            service.tip.as_ref().unwrap().hash.clone(),
            service.tip.unwrap().height
        ),
        (last_hash, 14)
    );
    assert!(
        snapshot
            .to_string()
            .contains("\n  newest  block 13, header hash "),
        "{snapshot}"
    );
    // The orderer keeps the request open because there is no newer block. An idle channel is not a problem.
    let (_, fabric) = wait(&*running, |_, fabric| fabric.following);
    assert_eq!(
        (fabric.block_age_ms, fabric.without_source_ms, fabric.left),
        (None, None, None)
    );
    drop(running);
    start(&section).expect("dropping a service frees its ledger");
}

#[test]
fn a_replica_without_an_orderer_is_unhealthy_until_one_is_found() {
    let runtime = Runtime::new().unwrap();
    let edge = edge(&runtime);
    edge.orderer.blocks.show(3);
    edge.orderer.blocks.forbid(true);
    let mut section = edge.section();
    section.set("health_after_s", 1);
    let mut running = start(&section).unwrap();
    let began = Instant::now();
    while status(&*running).2.faults().is_empty() {
        assert!(began.elapsed() < REPLICA_TIMEOUT);
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(began.elapsed() >= Duration::from_secs(1));
    let (_, fabric, snapshot) = status(&*running);
    assert!(
        snapshot.faults()[0].contains("no source of blocks for 1 s"),
        "{snapshot}"
    );
    assert!(fabric.left.unwrap().contains("status 403"));
    edge.orderer.blocks.forbid(false);
    let (_, fabric) = wait_for_height(&*running, 3);
    let (.., snapshot) = status(&*running);
    assert!(
        snapshot.faults().is_empty() && snapshot.warnings.is_empty() && fabric.left.is_none(),
        "{snapshot}"
    );
    running.stop(false).unwrap();
}

#[test]
fn two_channels_do_not_disturb_one_another() {
    let runtime = Runtime::new().unwrap();
    let edge = edge(&runtime);
    let (lab, valid) = made(&runtime);
    edge.orderer.blocks.show(5);
    lab.orderer.blocks.show(2);
    let text: Arc<str> = format!("[[fabric]]\n{}[[fabric]]\n{}", edge.keys(), lab.keys()).into();
    let sections = [0, 1].map(|index| Section::new("fabric", &text, Some(index)));
    let mut first = start(&sections[0]).unwrap();
    let second = start(&sections[1]).unwrap();
    let (_, fabric) = wait_for_height(&*first, 5);
    assert_eq!(fabric.channel, "edge");
    let (_, fabric) = wait_for_height(&*second, 2);
    assert_eq!(fabric.channel, "lab");
    assert_ne!(first.endpoints(), second.endpoints());

    // When the orderer of the first channel stops, the replica of that channel shows a warning, and the other replica
    // continues.
    let Channel {
        folder: _kept,
        orderer,
        ..
    } = edge;
    drop(orderer);
    wait(&*first, |_, fabric| !fabric.following);
    assert_eq!(status(&*first).2.warnings.len(), 1);
    lab.orderer.blocks.show(4);
    wait_for_height(&*second, 4);
    let (.., snapshot) = status(&*second);
    assert!(
        snapshot.warnings.is_empty() && snapshot.faults().is_empty(),
        "{snapshot}"
    );
    first.stop(false).unwrap();
    lab.orderer.blocks.show(u64::MAX);
    let (service, _) = wait_for_height(&*second, lab.blocks.len());
    assert_eq!(service.labelled["transactions"]["VALID"], valid as u64);
}

/// A replica that stops before a block which its version cannot decide writes nothing of that block to the ledger.
/// After a restart, the same version stops again, and a version that can decide the block continues without a repair.
/// While it is stopped, the replica follows the channel's configurations.
#[test]
fn a_replica_that_stopped_goes_on_with_a_version_that_decides_the_block() {
    let runtime = Runtime::new().unwrap();
    for state in ["memory", "fjall"] {
        let name = format!("undecided-{state}");
        let (channel, _) = made_with(&runtime, &name, 2);
        let count = channel.blocks.len();
        let undecided = count / 2;
        let mut all = Validator::new(&channel.blocks[0], Validation::default()).unwrap();
        for block in &channel.blocks[1..] {
            let validated = all.validate(block).unwrap();
            all.commit(validated);
        }
        let mut section = channel.section();
        section.set("state", state);
        laboratory::leave_undecided(&name, Some(undecided as u64));
        channel.orderer.blocks.show(u64::MAX);
        for height_at_start in [1, undecided] {
            let mut running = start(&section).unwrap();
            let (service, fabric) = wait(&*running, |service, fabric| {
                fabric.stopped.is_some() && service.host["height"] == undecided as u64
            });
            let why = fabric.stopped.unwrap();
            assert!(
                why.contains("transaction 0: a rule that a test leaves out"),
                "{why}"
            );
            assert_eq!(fabric.height_at_start, height_at_start as u64);
            assert_eq!(service.tip.unwrap().height as usize, undecided);
            let (.., snapshot) = status(&*running);
            assert!(
                snapshot.faults().iter().any(|fault| fault.contains(&why)),
                "{snapshot}"
            );
            let stopped = running.stop(false).unwrap_err();
            assert!(format!("{stopped:#}").contains(&why), "{stopped:#}");
        }
        laboratory::leave_undecided(&name, None);
        let mut running = start(&section).unwrap();
        let (_, fabric) = wait_for_height(&*running, count);
        assert_eq!(fabric.height_at_start, undecided as u64);
        let commit_hash = lineside_fabric::replay::hex(&all.commit_hash().unwrap());
        assert_eq!(fabric.blocks[0].commit_hash, Some(commit_hash));
        let (.., snapshot) = status(&*running);
        assert!(
            snapshot.faults().is_empty() && fabric.stopped.is_none(),
            "{snapshot}"
        );
        running.stop(false).unwrap();
    }
}

/// Source of blocks for a UDP sender.
struct RecordedBlock {
    blocks: Vec<Bytes>,
    next: usize,
}

impl UdpBlocks for RecordedBlock {
    fn begin(&mut self, next: u64) {
        self.next = next as usize;
    }

    fn next(&mut self) -> io::Result<Option<(u64, Arc<[u8]>)>> {
        let number = self.next;
        let bytes = self.blocks.get(number).map(|bytes| Arc::from(&bytes[..]));
        self.next += usize::from(bytes.is_some());
        Ok(bytes.map(|bytes| (number as u64, bytes)))
    }
}

/// Relays datagrams between one sender and the replica at `to`. After [`FIRST_DATA`] datagrams with parts of blocks, it
/// waits until `is_open` is true.
fn waiting_relay(to: SocketAddr, is_open: Arc<AtomicBool>) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    socket.set_read_timeout(Some(REPLICA_TIMEOUT)).unwrap();
    std::thread::spawn(move || {
        let (mut sender, mut bytes, mut data) = (to, [0; 2000], 0);
        // The loop ends when no datagram has arrived for the socket's read timeout.
        while let Ok((length, from)) = socket.recv_from(&mut bytes) {
            if from == to {
                let _ = socket.send_to(&bytes[..length], sender);
                continue;
            }
            sender = from;
            data += usize::from(length >= DATA_BYTES_MIN);
            while data > FIRST_DATA && !is_open.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
            let _ = socket.send_to(&bytes[..length], to);
        }
    });
    address
}

#[test]
fn blocks_come_over_udp() {
    let runtime = Runtime::new().unwrap();
    let edge = edge(&runtime);
    let secret = [7; 32];
    let key = edge.path("key");
    let mut options = std::fs::OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&key)
        .unwrap();
    io::Write::write_all(&mut file, "07".repeat(secret.len()).as_bytes()).unwrap();
    let mut section = edge.section();
    section.set("udp_listen", "127.0.0.1:0");
    section.set("udp_key", &key);
    let mut running = start(&section).unwrap();
    let endpoints = running.endpoints();
    assert_eq!((endpoints.len(), endpoints[1].protocol), (2, "udp"));
    let to: SocketAddr = endpoints[1].address;
    assert_eq!(status(&*running).1.udp, Some(to.to_string()));

    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    // Without the relay, all blocks may be complete before the thread that verifies early gets to run.
    let is_open = Arc::new(AtomicBool::new(false));
    socket.connect(waiting_relay(to, Arc::clone(&is_open))).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let stopping = Arc::clone(&stop);
    let blocks = edge.blocks.clone();
    let sending = std::thread::spawn(move || {
        let key = SharedKey::new(&secret).unwrap();
        let mut sender = Sender::new(key, [1; 16], SenderOptions::default());
        sender.run(&socket, &mut RecordedBlock { blocks, next: 0 }, &stopping)
    });
    wait(&*running, |service, _| service.host["early_verified"] > 0);
    is_open.store(true, Ordering::Relaxed);
    let (_, fabric) = wait_for_height(&*running, 14);
    assert_eq!(fabric.blocks[0].commit_hash.as_deref(), Some(LAST_COMMIT_HASH));
    // The orderer got no request, so all blocks arrived over UDP.
    assert_eq!(edge.orderer.blocks.requests(), 0);
    running.stop(false).unwrap();
    stop.store(true, Ordering::Relaxed);
    sending.join().unwrap().unwrap();
}

#[test]
fn wrong_files_are_reported_before_anything_is_created() {
    let runtime = Runtime::new().unwrap();
    let edge = edge(&runtime);
    let exposed = edge.path("exposed");
    std::fs::write(&exposed, "07".repeat(32)).unwrap();
    std::fs::set_permissions(&exposed, PermissionsExt::from_mode(0o644)).unwrap();
    let nowhere = edge.path("nowhere");
    for (values, key) in [
        (vec![("msp", &nowhere)], "msp"),
        (vec![("tls_ca", &nowhere)], "msp"),
        (vec![("certificate", &nowhere), ("key", &nowhere)], "certificate"),
        (vec![("udp_key", &exposed)], "udp_key"),
    ] {
        let mut section = edge.section();
        section.set("udp_listen", "127.0.0.1:0");
        section.set("udp_paper", key != "udp_key");
        for (key, path) in &values {
            section.set(key, path);
        }
        let error = start(&section).err().unwrap();
        assert!(error.is::<UsageError>(), "{values:?}: {error:#}");
        assert!(!edge.path("ledger").exists(), "{values:?}");
        let warnings = (DEF.parse)(&section).ok().unwrap().file_warnings();
        let said = format!("[fabric] {key} cannot be used here: {error:#}");
        assert_eq!(warnings, [said]);
    }
}

#[test]
fn a_ledger_needs_its_genesis_block_and_is_in_use_once() {
    let runtime = Runtime::new().unwrap();
    let edge = edge(&runtime);
    let (lab, _) = made(&runtime);
    let mut section = edge.section();
    section.set("genesis", "");
    let error = start(&section).err().unwrap().to_string();
    assert!(error.contains("--genesis"), "{error}");
    let mut running = start(&edge.section()).unwrap();
    let locked = start(&edge.section()).err().unwrap();
    let said = format!("cannot open the ledger in {}", edge.path("ledger").display());
    assert_eq!(locked.to_string(), said);
    running.stop(false).unwrap();
    section.set("genesis", lab.path("genesis"));
    let error = start(&section).err().unwrap().to_string();
    assert!(error.contains("begins with another block"), "{error}");
}

//! Blocks over UDP between processes: a mock orderer, `fabric send`, a network that loses, reorders and duplicates
//! datagrams, and `fabric serve`. The replica must compute the validation codes and commit hashes of the recording.

mod replica;

use flate2::Compression;
use flate2::write::GzEncoder;
use lineside_fabric::block::Block;
use lineside_fabric::proto::Arena;
use lineside_fabric::replay::read;
use lineside_fabric_udp::cut;
use lineside_testkit::free_port;
use replica::{Running, fabric, msp, objects, one, recorded};
use serde_json::Value;
use std::fs::{File, Permissions};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const WAIT_TIMEOUT: Duration = Duration::from_secs(120);
/// Address at which no orderer listens.
const NO_ORDERER: &str = "127.0.0.1:1";

struct Random(u64);

impl Random {
    fn percent(&mut self, percent: u64) -> bool {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % 100 < percent
    }
}

/// Simulated network between a sender and a receiver.
struct Network {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    /// Number of datagrams that were forwarded to the receiver, and number of those to the sender.
    passed: Arc<[AtomicU64; 2]>,
    threads: Vec<JoinHandle<()>>,
}

impl Network {
    /// Starts a network that drops 5 % of the datagrams, duplicates 5 %, and delays 10 % until up to 20 later ones have
    /// been forwarded. `seed` determines which datagrams these are.
    fn start(receiver: SocketAddr, seed: u64) -> Self {
        let front = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
        let back = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
        let (stop, passed) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let sender = Arc::new(Mutex::new(None));
        let address = front.local_addr().unwrap();
        let ways = [(&front, &back), (&back, &front)].into_iter().enumerate();
        let threads = ways.map(|(way, (from, to))| {
            let (from, to) = (Arc::clone(from), Arc::clone(to));
            let (stop, passed): (_, Arc<[AtomicU64; 2]>) = (Arc::clone(&stop), Arc::clone(&passed));
            let (sender, mut random) = (Arc::clone(&sender), Random(seed * 2 + way as u64));
            let mut late: Vec<(usize, Vec<u8>)> = Vec::new();
            let mut buffer = vec![0; 65_536];
            from.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
            std::thread::spawn(move || {
                while !stop.load(Relaxed) {
                    if let Ok((bytes, whose)) = from.recv_from(&mut buffer) {
                        if way == 0 {
                            *sender.lock().unwrap() = Some(whose);
                        }
                        let copies = 1 + usize::from(random.percent(5));
                        for _ in 0..copies {
                            let behind = match () {
                                () if random.percent(5) => continue,
                                () if random.percent(10) => 1 + (random.0 >> 40) as usize % 20,
                                () => 0,
                            };
                            late.push((behind, buffer[..bytes].to_vec()));
                        }
                    } else {
                        late.iter_mut().for_each(|(behind, _)| *behind = 0);
                    }
                    let to_whom = if way == 0 {
                        Some(receiver)
                    } else {
                        *sender.lock().unwrap()
                    };
                    for (_, datagram) in late.extract_if(.., |(behind, _)| *behind == 0) {
                        if let Some(whom) = to_whom {
                            passed[way].fetch_add(1, Relaxed);
                            // A datagram to a port at which no process listens is lost.
                            let _ = to.send_to(&datagram, whom);
                        }
                    }
                    late.iter_mut().for_each(|(behind, _)| *behind -= 1);
                }
            })
        });
        Self {
            threads: threads.collect(),
            address,
            stop,
            passed,
        }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().unwrap();
        }
    }
}

/// Returns a free address.
fn free() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], free_port()))
}

/// Recorded blocks of a channel, a mock orderer that delivers them, and the files needed to follow it.
struct RecordedChannel {
    folder: PathBuf,
    directory: tempfile::TempDir,
    msp: String,
    genesis: String,
    channel: String,
    /// Validation codes and commit hash of each block, as `replay` prints them after comparing them with the recording.
    expected: Vec<(Value, Value)>,
    orderer: Running,
}

impl RecordedChannel {
    fn new(folder: &Path) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let replayed = fabric(&["replay", "--json", folder.to_str().unwrap()]);
        assert!(replayed.status.success(), "{replayed:?}");
        let mut expected = objects(&replayed);
        let summary = expected.pop().unwrap();
        assert_eq!(
            (&summary["differences"], &summary["compared"]),
            (&0.into(), &summary["blocks"])
        );
        let genesis = directory.path().join("genesis");
        std::fs::write(&genesis, read(folder, 0, "orderer").unwrap().unwrap()).unwrap();
        for (key, digit) in [("key", "5"), ("other", "6")] {
            let path = directory.path().join(key);
            std::fs::write(&path, digit.repeat(64)).unwrap();
            std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        }
        let words = [
            "mock-orderer",
            "--listen",
            "127.0.0.1:0",
            folder.to_str().unwrap(),
        ];
        let orderer = Running::start(&words);
        Self {
            folder: folder.to_owned(),
            msp: msp(directory.path()).to_str().unwrap().to_owned(),
            genesis: genesis.to_str().unwrap().to_owned(),
            channel: orderer.said["channel"].as_str().unwrap().to_owned(),
            expected: expected
                .iter()
                .map(|block| (block["codes"].clone(), block["commit_hash"].clone()))
                .collect(),
            directory,
            orderer,
        }
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).to_str().unwrap().to_owned()
    }

    fn serve(&self, data: &str, orderer: &str, udp: SocketAddr, more: &[&str], stderr: Stdio) -> Running {
        let (data, udp) = (self.path(data), udp.to_string());
        let words = [
            "serve",
            "--data",
            &data,
            "--orderer",
            orderer,
            "--msp-id",
            "Org1MSP",
            "--msp",
            &self.msp,
            "--genesis",
            &self.genesis,
            "--listen",
            "127.0.0.1:0",
            "--udp-listen",
            &udp,
        ];
        let running = Running::start_saying(&[&words[..], more].concat(), stderr);
        assert_eq!(running.said["udp"], udp);
        running
    }

    /// Starts a replica with the key but without an orderer, so all its blocks come over UDP.
    fn receive(&self, data: &str, udp: SocketAddr, key: &str) -> Running {
        self.serve(
            data,
            NO_ORDERER,
            udp,
            &["--udp-key", &self.path(key)],
            Stdio::null(),
        )
    }

    fn send(&self, to: SocketAddr, more: &[&str]) -> Running {
        self.send_from(self.orderer.listen(), to, more)
    }

    /// Starts `fabric send` with the blocks of this orderer.
    fn send_from(&self, orderer: &str, to: SocketAddr, more: &[&str]) -> Running {
        let (to, key) = (to.to_string(), self.path("key"));
        let words = [
            "send",
            "--orderer",
            orderer,
            "--msp-id",
            "Org1MSP",
            "--msp",
            &self.msp,
            "--channel",
            &self.channel,
            "--to",
            &to,
            "--udp-key",
            &key,
        ];
        Running::start(&[&words[..], more].concat())
    }

    fn blocks(&self, data: &str) -> usize {
        let status = one(&["status", "--json", "--data", &self.path(data)]);
        status["blocks"].as_u64().unwrap() as usize
    }

    /// Waits until a ledger has at least `blocks` blocks; returns its number of blocks.
    fn wait_for(&self, data: &str, blocks: usize) -> usize {
        let began = Instant::now();
        loop {
            let there = self.blocks(data);
            if there >= blocks {
                return there;
            }
            assert!(began.elapsed() < WAIT_TIMEOUT, "{there} blocks, not {blocks}");
        }
    }

    /// Asserts that all blocks of a ledger have the expected codes and commit hashes.
    fn compare(&self, data: &str) {
        let data = self.path(data);
        for (number, expected) in self.expected.iter().enumerate() {
            let block = one(&["block", "--json", "--data", &data, &number.to_string()]);
            let found = (block["codes"].clone(), block["commit_hash"].clone());
            assert_eq!(&found, expected, "block {number}");
        }
    }
}

/// Returns the value of a metric of a replica.
fn metric(replica: &Running, name: &str) -> u64 {
    let console = replica.said["console"].as_str().unwrap();
    let mut stream = TcpStream::connect(console).unwrap();
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {console}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let found = answer.lines().find_map(|line| {
        line.strip_prefix(name)?
            .strip_prefix("{channel=")?
            .split_once("} ")
    });
    let (_, number) = found.unwrap_or_else(|| panic!("{name} is not in:\n{answer}"));
    number.parse().unwrap()
}

/// Returns directories of recorded blocks: the one in the repository, and a larger one if it exists.
fn sets() -> Vec<PathBuf> {
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/fabric-blocks");
    let others = ["dev", "dev-edge"].map(|set| shared.join(set)).into_iter();
    let (mut there, missing): (Vec<_>, Vec<_>) = others.partition(|set| set.is_dir());
    for set in missing {
        eprintln!("skipped: there are no recorded blocks at {}", set.display());
    }
    there.insert(0, recorded());
    there
}

#[test]
fn recorded_blocks_arrive_complete_over_a_lossy_network() {
    for (seed, set) in sets().iter().enumerate() {
        let place = RecordedChannel::new(set);
        let udp = free();
        let network = Network::start(udp, seed as u64);
        let replica = place.receive("ledger", udp, "key");
        let sender = place.send(network.address, &[]);
        place.wait_for("ledger", place.expected.len());
        assert!(sender.end() && replica.end(), "SIGTERM ends them well");
        place.compare("ledger");
    }
}

#[test]
fn a_transfer_completes_after_either_end_is_killed() {
    let place = RecordedChannel::new(&recorded());
    let udp = free();
    let network = Network::start(udp, 77);
    let all = place.expected.len();
    // At this rate, sending all blocks takes about four seconds.
    let pace = ["--bytes-per-s", "100000", "--burst-bytes", "1"];
    let (mut replica, mut sender) = (
        place.receive("ledger", udp, "key"),
        place.send(network.address, &pace),
    );
    for (blocks, kill_sender) in [(3, false), (6, true), (9, false)] {
        let there = place.wait_for("ledger", blocks);
        assert!(there < all, "the kill came before the last block");
        // Dropping a process kills it with SIGKILL.
        if kill_sender {
            drop(sender);
            sender = place.send(network.address, &pace);
        } else {
            drop(replica);
            replica = place.receive("ledger", udp, "key");
        }
    }
    place.wait_for("ledger", all);
    place.compare("ledger");
    assert!(sender.end() && replica.end());
}

#[test]
fn a_sender_with_a_wrong_key_delivers_nothing() {
    let place = RecordedChannel::new(&recorded());
    let udp = free();
    let network = Network::start(udp, 5);
    let deaf = place.receive("ledger", udp, "other");
    let sender = place.send(network.address, &[]);
    let began = Instant::now();
    // The sender keeps announcing itself.
    while network.passed[0].load(Relaxed) < 40 {
        assert!(began.elapsed() < WAIT_TIMEOUT);
        std::thread::yield_now();
    }
    assert_eq!(
        network.passed[1].load(Relaxed),
        0,
        "a sender with a wrong key gets no answer"
    );
    assert_eq!(place.blocks("ledger"), 1, "the genesis block");
    assert!(deaf.end());
    let replica = place.receive("ledger", udp, "key");
    place.wait_for("ledger", place.expected.len());
    place.compare("ledger");
    assert!(sender.end() && replica.end());
    let path = place.path("key");
    std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    let to = udp.to_string();
    let refused = fabric(&[
        "send",
        "--orderer",
        NO_ORDERER,
        "--msp-id",
        "Org1MSP",
        "--msp",
        &place.msp,
        "--channel",
        "edge",
        "--to",
        &to,
        "--udp-key",
        &path,
    ]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("chmod 600"), "{said}");
}

#[test]
fn blocks_that_the_sender_has_dropped_are_fetched_by_deliver() {
    let place = RecordedChannel::new(&recorded());
    let udp = free();
    let first = place.receive("first", udp, "key");
    let sender = place.send(udp, &["--blocks-kept", "2"]);
    place.wait_for("first", place.expected.len());
    drop(first);
    // The test starts a second replica with an empty ledger.
    let stderr = place.path("stderr");
    let (key, orderer) = (place.path("key"), place.orderer.listen());
    let file = std::fs::File::create(&stderr).unwrap();
    let second = place.serve("second", orderer, udp, &["--udp-key", &key], file.into());
    place.wait_for("second", place.expected.len());
    place.compare("second");
    assert!(sender.end() && second.end());
    let said = std::fs::read_to_string(&stderr).unwrap();
    let last = place.expected.len() - 1;
    let gap = format!("fetching blocks 1 to {} with Deliver", last - 2);
    assert!(said.contains(&gap), "{said}");
}

#[test]
fn transactions_are_verified_before_their_block_is_complete() {
    let place = RecordedChannel::new(&recorded());
    let udp = free();
    let (key, console) = (place.path("key"), ["--console", "127.0.0.1:0"]);
    let more = [&["--udp-key", &key][..], &console].concat();
    let replica = place.serve("ledger", NO_ORDERER, udp, &more, Stdio::null());
    // At this rate a block of 100 transactions takes half a second.
    let sender = place.send(udp, &["--bytes-per-s", "100000", "--burst-bytes", "1"]);
    place.wait_for("ledger", place.expected.len());
    place.compare("ledger");
    let all: u64 = place.expected[1..]
        .iter()
        .map(|(codes, _)| codes.as_array().unwrap().len() as u64)
        .sum();
    let [verified, used] =
        ["verified", "used"].map(|what| metric(&replica, &format!("lineside_fabric_early_{what}_total")));
    assert!(verified <= all && used <= verified, "{verified} {used}");
    // All transactions but the last few of each block must be verified early; some blocks have only one transaction.
    assert!(used > all / 2, "{used} of {all}, {verified} were verified");
    assert!(sender.end() && replica.end());
}

/// Writes the blocks to `into`, with a wrong last byte in the last signature of block `number`.
fn wrongly_signed(folder: &Path, number: u64, into: &Path) {
    for at in (0..).map_while(|at| read(folder, at, "orderer").unwrap().map(|block| (at, block))) {
        let (at, mut block): (u64, Vec<u8>) = at;
        if at == number {
            let arena = Arena::new();
            let of = Block::read(&block, &arena).unwrap();
            let signature = of.signatures(|_| None, false).unwrap().remove(0).signature;
            let mut windows = block.windows(signature.len());
            let last = windows.rposition(|window| window == signature).unwrap() + signature.len() - 1;
            block[last] ^= 1;
        }
        let file = File::create(into.join(format!("{at:05}.orderer.pb.gz"))).unwrap();
        let mut gz = GzEncoder::new(file, Compression::fast());
        gz.write_all(&block).unwrap();
        gz.finish().unwrap();
    }
}

#[test]
fn an_unsigned_block_and_the_blocks_after_it_are_fetched_again() {
    const WRONG_PACKETS: u64 = 7;
    let place = RecordedChannel::new(&recorded());
    let lies = tempfile::tempdir().unwrap();
    wrongly_signed(&place.folder, WRONG_PACKETS, lies.path());
    let words = [
        "mock-orderer",
        "--listen",
        "127.0.0.1:0",
        lies.path().to_str().unwrap(),
    ];
    let liar = Running::start(&words);
    let udp = free();
    let (key, stderr) = (place.path("key"), place.path("stderr"));
    // The replica first runs without an orderer. It stops before the wrong block and commits nothing of that block.
    let more = ["--udp-key", &key, "--console", "127.0.0.1:0"];
    let file = File::create(&stderr).unwrap();
    let replica = place.serve("ledger", NO_ORDERER, udp, &more, file.into());
    let sender = place.send_from(liar.listen(), udp, &[]);
    let refused = format!("block {WRONG_PACKETS} from UDP was refused");
    let began = Instant::now();
    while !std::fs::read_to_string(&stderr).unwrap().contains(&refused) {
        assert!(began.elapsed() < WAIT_TIMEOUT);
        std::thread::yield_now();
    }
    let early = metric(&replica, "lineside_fabric_early_verified_total");
    assert!(early > 0);
    // A block can be refused while the previous block is still being written to the disk.
    assert_eq!(
        place.wait_for("ledger", WRONG_PACKETS as usize),
        WRONG_PACKETS as usize
    );
    let began = Instant::now();
    while metric(&replica, "lineside_fabric_height") < WRONG_PACKETS {
        assert!(began.elapsed() < WAIT_TIMEOUT);
    }
    assert_eq!(metric(&replica, "lineside_fabric_height"), WRONG_PACKETS);
    assert!(replica.end());
    // The replica then runs with an orderer.
    let file = File::create(&stderr).unwrap();
    let replica = place.serve("ledger", place.orderer.listen(), udp, &more, file.into());
    place.wait_for("ledger", place.expected.len());
    place.compare("ledger");
    assert!(sender.end() && replica.end());
    let said = std::fs::read_to_string(&stderr).unwrap();
    assert!(said.contains(&refused), "{said}");
}

fn packet(kind: u8, transactions: Option<u16>, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0, 0, kind, u8::from(transactions.is_some())];
    if let Some(count) = transactions {
        packet.push(0x11);
        packet.extend(count.to_be_bytes());
        packet.extend([0, 0]);
    }
    packet.extend_from_slice(payload);
    packet
}

/// Returns the paper's packets of a block, with full identities; `None` if a part is too long for a datagram.
fn paper(block: &[u8]) -> Option<Vec<Vec<u8>>> {
    let layout = cut::Layout::of(block);
    let segment = |at| &block[layout.range(at).unwrap()];
    let header = &segment(0)[2..2 + usize::from(segment(0)[1])];
    let count = layout.segments() - 2;
    let mut packets = vec![packet(1, Some(count as u16), header)];
    packets.extend((1..=count).map(|at| packet(2, None, cut::envelope(segment(at)).unwrap())));
    let metadata = segment(count + 1);
    let length = metadata[1..].iter().take_while(|&&byte| byte >= 0x80).count() + 1;
    packets.push(packet(3, None, &metadata[1 + length..]));
    packets
        .iter()
        .all(|packet| packet.len() <= 9_000)
        .then_some(packets)
}

#[test]
fn wrong_arguments_end_with_exit_code_2_and_create_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    for (name, digits, mode) in [("open", 64, 0o644), ("short", 62, 0o600)] {
        std::fs::write(path(name), "a".repeat(digits)).unwrap();
        std::fs::set_permissions(path(name), Permissions::from_mode(mode)).unwrap();
    }
    let serve = [
        "serve",
        "--data",
        &path("ledger"),
        "--msp-id",
        "Org1MSP",
        "--msp",
        "nowhere",
    ];
    let (open, short) = (path("open"), path("short"));
    for (orderer, more) in [
        ("bad host:1", &[][..]),
        ("127.0.0.1", &[]),
        ("127.0.0.1:1", &["--udp-listen", "127.0.0.1:0"]),
        (
            "127.0.0.1:1",
            &["--udp-listen", "127.0.0.1:0", "--udp-key", &open],
        ),
        (
            "127.0.0.1:1",
            &["--udp-listen", "127.0.0.1:0", "--udp-key", &short],
        ),
    ] {
        let output = fabric(&[&serve[..], &["--orderer", orderer], more].concat());
        assert_eq!(output.status.code(), Some(2), "{orderer} {more:?}: {output:?}");
        assert!(!output.stderr.is_empty() && !folder.path().join("ledger").exists());
    }
}

#[test]
fn the_papers_packets_are_accepted_from_trusted_sources() {
    let place = RecordedChannel::new(&recorded());
    let udp = free();
    let stderr = place.path("stderr");
    let orderer = place.orderer.listen();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let blocks: Vec<_> = (0..place.expected.len() as u64)
        .map(|number| paper(&read(&place.folder, number, "orderer").unwrap().unwrap()))
        .collect();
    // A block that does not fit datagrams is fetched from the orderer when the next block arrives.
    let fetched: Vec<usize> = (1..blocks.len())
        .filter(|&number| blocks[number].is_none())
        .collect();
    assert!(fetched.len() < 9 && blocks.last().unwrap().is_some());
    for trusted in ["192.0.2.1", "127.0.0.1"] {
        let file = std::fs::File::create(&stderr).unwrap();
        let more = ["--udp-paper", "--trusted-sources", trusted];
        let replica = place.serve("ledger", orderer, udp, &more, file.into());
        let began = Instant::now();
        for (number, packets) in blocks.iter().enumerate() {
            let Some(packets) = packets else { continue };
            while place.blocks("ledger") <= number {
                assert!(began.elapsed() < WAIT_TIMEOUT, "block {number}");
                for packet in packets {
                    socket.send_to(packet, udp).unwrap();
                }
                if trusted != "127.0.0.1" {
                    break;
                }
            }
        }
        assert!(replica.end());
        if trusted != "127.0.0.1" {
            assert_eq!(place.blocks("ledger"), 1, "nothing but the genesis block");
        }
    }
    place.compare("ledger");
    let said = std::fs::read_to_string(&stderr).unwrap();
    for number in fetched {
        assert!(said.contains(&format!("to {number} with Deliver")), "{said}");
    }
}

/// Sends the blocks of a directory as the paper's packets until all have arrived. The genesis block, configuration
/// blocks and blocks with a part that is too long come from the orderer.
#[test]
fn a_folder_is_sent_as_the_papers_packets() {
    let place = RecordedChannel::new(&recorded());
    let (udp, orderer) = (free(), place.orderer.listen());
    let identities = place.path("fabric_machine.yaml");
    let certificate = place.path("peer0.pem");
    std::fs::write(&certificate, "a certificate").unwrap();
    let text = "Organizations:\n- name: Org1MSP\n  certs:\n  - role: peer\n    cert: peer0.pem\n";
    std::fs::write(&identities, text).unwrap();
    let identities = identities.as_str();
    let stderr = place.path("stderr");
    let more = ["--udp-paper", "--udp-paper-identities", identities];
    let replica = place.serve(
        "ledger",
        orderer,
        udp,
        &more,
        File::create(&stderr).unwrap().into(),
    );
    let (folder, to) = (place.folder.to_str().unwrap(), udp.to_string());
    let began = Instant::now();
    let mut sent = None;
    while place.blocks("ledger") < place.expected.len() {
        assert!(
            began.elapsed() < WAIT_TIMEOUT,
            "{}",
            std::fs::read_to_string(&stderr).unwrap()
        );
        let send = [
            "--json",
            "send-paper",
            folder,
            "--to",
            &to,
            "--identities",
            identities,
        ];
        sent = Some(one(&send));
    }
    assert!(replica.end());
    place.compare("ledger");
    let sent = sent.unwrap();
    let count = |key: &str| sent[key].as_u64().unwrap();
    let left_out = sent["left_out"].as_array().unwrap().len() as u64;
    assert_eq!(count("blocks") + left_out, place.expected.len() as u64 - 1);
    assert!(
        count("updates") > 1 && count("bytes") * 2 < count("block_bytes"),
        "{sent}"
    );

    // A missing or malformed file ends the command before it sends anything.
    std::fs::remove_file(&certificate).unwrap();
    let refused = fabric(&["send-paper", folder, "--to", &to, "--identities", identities]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(
        refused.status.code() == Some(2) && said.contains("peer0.pem"),
        "{said}"
    );
    let empty = place.path("empty");
    std::fs::create_dir(&empty).unwrap();
    let nothing = fabric(&["send-paper", &empty, "--to", &to]);
    assert_eq!(nothing.status.code(), Some(1), "{nothing:?}");
}

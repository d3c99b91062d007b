//! Tests with recorded and generated blocks over a simulated network that loses, reorders, duplicates and corrupts.

use lineside_fabric::early::{EarlyCounts, EarlyWork};
use lineside_fabric::ledger::{Replica, Setup};
use lineside_fabric::listing::Listing;
use lineside_fabric::proto::wire;
use lineside_fabric::replay::read;
use lineside_fabric::{Options, TxCode, Validator};
use lineside_fabric_udp::{
    BlockSink, DropReason, EarlyTx, PollResult, Receiver, ReceiverOptions, Sender, SenderOptions, SharedKey,
    cut,
};
use lineside_journal::SimDisk;
use lineside_testkit::Random;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

type RecordedBlocks = Vec<Arc<[u8]>>;

/// Returns the folder of a recorded set outside the repository, if it exists.
fn folder(set: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let directory = root.join("shared/data/fabric-blocks").join(set);
    if directory.join("manifest.json").exists() {
        return Some(directory);
    }
    eprintln!("skipped: there are no recorded blocks at {}", directory.display());
    None
}

fn recorded(set: &str) -> Option<RecordedBlocks> {
    folder(set).map(|directory| recorded_in(&directory))
}

fn recorded_in(directory: &Path) -> RecordedBlocks {
    let blocks = (0..).map_while(|number| read(directory, number, "orderer").unwrap());
    blocks.map(Arc::from).collect()
}

fn any_session(random: &mut Random) -> [u8; 16] {
    let mut session = [0; 16];
    random.fill(&mut session);
    session
}

/// Collects the blocks that the receiver passes on, and compares them with the blocks that were sent.
struct ReceivedBlocks {
    blocks: RecordedBlocks,
    layouts: Vec<cut::Layout>,
    next: u64,
    early: BTreeMap<u64, BTreeSet<u32>>,
    whole: u64,
    gaps: Vec<(u64, u64)>,
    dropped: u64,
    validating: Option<Validating>,
}

impl ReceivedBlocks {
    fn new(blocks: RecordedBlocks) -> Self {
        Self {
            layouts: blocks.iter().map(|block| cut::Layout::of(block)).collect(),
            blocks,
            next: 0,
            early: BTreeMap::new(),
            whole: 0,
            gaps: Vec::new(),
            dropped: 0,
            validating: None,
        }
    }

    /// Takes the blocks `from` to `to` as if Deliver had returned them.
    fn fetched(&mut self, from: u64, to: u64) {
        assert_eq!(from, self.next);
        self.next = to + 1;
        self.early.clear();
        if let Some(validating) = &mut self.validating {
            (from..=to).for_each(|number| validating.take(number, self.blocks[number as usize].to_vec()));
        }
    }
}

/// Validates the received blocks with results of early verification, and compares codes and commit hashes with those of
/// a validator without early verification.
struct Validating {
    replica: Replica<SimDisk>,
    work: EarlyWork,
    expected: Vec<(Vec<TxCode>, Option<[u8; 32]>)>,
    /// The recorded set, which may list the peer's state.
    set: PathBuf,
    put: u64,
}

impl Validating {
    fn new(set: &Path, blocks: &RecordedBlocks) -> Self {
        let mut validator = Validator::new(&blocks[0], Options::default()).unwrap();
        let mut expected = vec![(vec![TxCode::Valid], None)];
        for block in &blocks[1..] {
            let validated = validator.validate(block).unwrap();
            expected.push((validated.codes.clone(), validated.commit_hash));
            validator.commit(validated);
        }
        let (mut replica, _) = Replica::open(SimDisk::new(1), Setup::default(), None).unwrap();
        replica.add(blocks[0].to_vec()).unwrap();
        Self {
            work: replica.early().unwrap().unwrap(),
            replica,
            expected,
            set: set.to_owned(),
            put: 0,
        }
    }

    fn put(&mut self, early: &EarlyTx<'_>) {
        self.work.put(early.block, early.index, early.bytes);
        self.put += 1;
    }

    /// Waits until all received transactions are verified.
    fn wait(&self) {
        let began = Instant::now();
        let done = |counts: EarlyCounts| counts.verified + counts.skipped;
        while done(self.work.counts()) < self.put {
            assert!(began.elapsed() < Duration::from_secs(60));
            std::thread::yield_now();
        }
    }

    fn take(&mut self, number: u64, bytes: Vec<u8>) {
        self.wait();
        if number < self.replica.next() {
            return assert_eq!(number, 0, "only the genesis block is already in the ledger");
        }
        let added = self.replica.add(bytes).unwrap();
        let found = (added.codes, added.commit_hash);
        assert_eq!(found, self.expected[number as usize], "block {number}");
        if let Some(listing) = Listing::read(&self.set, number).unwrap() {
            let state = self.replica.validator().unwrap().state();
            assert_eq!(
                listing.differences(state),
                Vec::<String>::new(),
                "after block {number}"
            );
        }
    }

    fn on_dropped(&mut self, number: u64) {
        self.wait();
        self.work.dropped(number);
    }
}

impl BlockSink for ReceivedBlocks {
    fn on_early(&mut self, early: EarlyTx<'_>) {
        let block = &self.blocks[early.block as usize];
        let layout = &self.layouts[early.block as usize];
        assert!(layout.transactions);
        let segment = &block[layout.range(early.index + 1).unwrap()];
        assert_eq!(early.segment, segment);
        assert_eq!(early.bytes, cut::envelope(segment).unwrap());
        assert!(early.notes().iter().all(|note| note.check(segment)));
        assert!(
            self.early.entry(early.block).or_default().insert(early.index),
            "reported twice"
        );
        if let Some(validating) = &mut self.validating {
            validating.put(&early);
        }
    }

    fn on_block(&mut self, number: u64, bytes: Vec<u8>) {
        assert_eq!(number, self.next, "in order, each once");
        assert!(
            bytes[..] == self.blocks[number as usize][..],
            "block {number} differs"
        );
        self.next += 1;
        self.whole += 1;
        self.early.remove(&number);
        if let Some(validating) = &mut self.validating {
            validating.take(number, bytes);
        }
    }

    fn on_dropped(&mut self, number: u64, _why: DropReason) {
        self.early.remove(&number);
        self.dropped += 1;
        if let Some(validating) = &mut self.validating {
            validating.on_dropped(number);
        }
    }

    fn on_gap(&mut self, from: u64, to: u64) {
        assert!(from <= to && from == self.next && to < self.blocks.len() as u64);
        self.gaps.push((from, to));
    }
}

#[derive(Clone, Copy)]
struct LinkFaults {
    lost: u64,
    late: u64,
    doubled: u64,
    corrupt: u64,
    restarts: u64,
}

const NO_FAULTS: LinkFaults = LinkFaults {
    lost: 0,
    late: 0,
    doubled: 0,
    corrupt: 0,
    restarts: 0,
};
const SOME_FAULTS: LinkFaults = LinkFaults {
    lost: 5,
    late: 20,
    doubled: 5,
    corrupt: 2,
    restarts: 0,
};
const MANY_FAULTS: LinkFaults = LinkFaults {
    lost: 30,
    late: 40,
    doubled: 20,
    corrupt: 10,
    restarts: 0,
};

struct Simulation {
    random: Random,
    key: SharedKey,
    weather: LinkFaults,
    sender_options: SenderOptions,
    receiver_options: ReceiverOptions,
    /// Datagrams on their way, by time of arrival in nanoseconds and a tie breaker; true for those that go to the
    /// receiver.
    air: BTreeMap<(u64, u64), (bool, Vec<u8>)>,
    /// Earlier datagrams, which a simulated attacker sends again.
    heard: Vec<(bool, Vec<u8>)>,
    bytes: u64,
}

impl Simulation {
    fn new(seed: u64, weather: LinkFaults) -> Self {
        Self {
            random: Random(seed),
            key: SharedKey::new(&[9; 32]).unwrap(),
            weather,
            sender_options: SenderOptions::default(),
            receiver_options: ReceiverOptions::default(),
            air: BTreeMap::new(),
            heard: Vec::new(),
            bytes: 0,
        }
    }

    fn sender(&mut self) -> Sender {
        let session = any_session(&mut self.random);
        Sender::new(self.key.clone(), session, self.sender_options.clone())
    }

    fn receiver(&mut self, next: u64) -> Receiver {
        let session = any_session(&mut self.random);
        Receiver::new(self.key.clone(), session, next, self.receiver_options.clone())
    }

    fn send(&mut self, now: u64, to_receiver: bool, datagram: &[u8]) {
        self.bytes += datagram.len() as u64 + 28;
        let weather = self.weather;
        if self.random.below(20) == 0 && self.heard.len() < 2_000 {
            self.heard.push((to_receiver, datagram.to_vec()));
        }
        let copies = 1 + u64::from(self.random.percent(weather.doubled));
        for _ in 0..copies {
            if self.random.percent(weather.lost) {
                continue;
            }
            let mut copy = datagram.to_vec();
            if self.random.percent(weather.corrupt) {
                match self.random.below(3) {
                    0 => copy.truncate(self.random.below(copy.len() as u64) as usize),
                    1 => copy.extend([0; 7]),
                    _ => {
                        let at = self.random.below(copy.len() as u64) as usize;
                        copy[at] ^= 1 << self.random.below(8);
                    }
                }
            }
            let late = if self.random.percent(weather.late) {
                self.random.below(2_000_000)
            } else {
                0
            };
            let tie = self.random.next();
            self.air.insert((now + 50_000 + late, tie), (to_receiver, copy));
        }
        if weather.corrupt > 0 && self.random.percent(3) && !self.heard.is_empty() {
            let which = self.random.below(self.heard.len() as u64) as usize;
            let again = self.heard[which].clone();
            let tie = self.random.next();
            self.air.insert((now + 60_000, tie), again);
        }
    }

    /// Runs the simulation until the receiver has passed on every block. Returns the counters of the last receiver, and
    /// the simulated time in nanoseconds.
    fn run(&mut self, taken: &mut ReceivedBlocks) -> (lineside_fabric_udp::Counters, u64) {
        let blocks = taken.blocks.clone();
        let (mut sender, mut receiver) = (self.sender(), self.receiver(0));
        let (mut now, mut pushed, mut out) = (0u64, 0u64, Vec::new());
        let (mut restarts, mut quiet_until) = (self.weather.restarts, 0);
        while taken.next < blocks.len() as u64 {
            assert!(
                now < 600_000_000_000,
                "stuck at {}: {receiver:?} {sender:?}",
                taken.next
            );
            if restarts > 0 && self.random.below(4_000) == 0 {
                restarts -= 1;
                if self.random.percent(50) {
                    // The new sender begins with the block that the receiver needs next, or with a later or an earlier
                    // block.
                    sender = self.sender();
                    pushed = (taken.next + self.random.below(4))
                        .saturating_sub(1)
                        .min(blocks.len() as u64 - 1);
                } else {
                    receiver = self.receiver(taken.next);
                    taken.early.clear();
                }
            }
            while pushed < blocks.len() as u64 && sender.unsent() < 4 {
                sender.push(pushed, blocks[pushed as usize].clone());
                pushed += 1;
            }
            let wait = match sender.poll(now, &mut out) {
                PollResult::Datagram => {
                    assert!(out.len() <= self.sender_options.payload_bytes);
                    self.send(now, true, &out);
                    5_000
                }
                PollResult::Wait(until) => until.saturating_sub(now).clamp(1_000, 100_000),
            };
            now += wait;
            while let Some(first) = self.air.first_entry().filter(|first| first.key().0 <= now) {
                let ((at, _), (to_receiver, datagram)) = first.remove_entry();
                match to_receiver {
                    true => _ = receiver.datagram(at, &datagram, taken),
                    false => sender.datagram(at, &datagram),
                }
            }
            if let Some(&(from, to)) = taken.gaps.last()
                && to >= taken.next
            {
                taken.fetched(from, to);
                receiver.set_next(to + 1, taken);
            }
            if now >= quiet_until {
                quiet_until = now + 500_000;
                if receiver.write_request(now, &mut out) {
                    self.send(now, false, &out.clone());
                }
            }
            assert!(receiver.memory_bytes() <= self.receiver_options.memory_bytes_max);
        }
        (receiver.counters(), now)
    }
}

fn goes_through(set: &str, weather: LinkFaults, seeds: std::ops::Range<u64>, change: fn(&mut Simulation)) {
    let Some(blocks) = recorded(set) else { return };
    for seed in seeds {
        let mut world = Simulation::new(seed, weather);
        change(&mut world);
        let mut taken = ReceivedBlocks::new(blocks.clone());
        let (counters, now) = world.run(&mut taken);
        let sent: usize = blocks.iter().map(|block| block.len()).sum();
        let saved = 100.0 - 100.0 * world.bytes as f64 / sent as f64;
        println!(
            "{set} seed {seed}: {} whole, gaps {:?}, {saved:.2} % fewer bytes, {} ms, {counters:?}",
            taken.whole,
            taken.gaps,
            now / 1_000_000
        );
        let in_gaps: u64 = taken.gaps.iter().map(|(from, to)| to - from + 1).sum();
        assert_eq!(taken.whole + in_gaps, blocks.len() as u64);
        if weather.restarts == 0 {
            assert!(taken.gaps.is_empty());
        }
    }
}

#[test]
fn every_block_arrives_without_faults() {
    goes_through("dev", NO_FAULTS, 0..1, |_| ());
    goes_through("dev-edge", NO_FAULTS, 0..1, |world| {
        world.sender_options.payload_bytes = 8_972
    });
}

#[test]
fn every_block_arrives_with_5_percent_loss() {
    goes_through("dev", SOME_FAULTS, 0..2, |_| ());
    goes_through("dev-edge", SOME_FAULTS, 2..4, |world| {
        world.sender_options.payload_bytes = 8_972
    });
}

#[test]
fn every_block_arrives_with_30_percent_loss() {
    goes_through("dev-edge", MANY_FAULTS, 4..7, |_| ());
}

#[test]
fn all_blocks_arrive_when_either_end_restarts_at_any_datagram() {
    goes_through(
        "dev-edge",
        LinkFaults {
            restarts: 12,
            ..SOME_FAULTS
        },
        10..16,
        |world| {
            world.sender_options.payload_bytes = 700;
        },
    );
}

#[test]
fn all_blocks_arrive_with_little_memory() {
    goes_through("dev-edge", SOME_FAULTS, 20..22, |world| {
        world.receiver_options.memory_bytes_max = 500_000
    });
}

#[test]
fn early_verification_gives_the_same_codes() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fabric/tests/data");
    let few = ["edge", "btl", "ed25519", "msp"].map(|set| data.join(set));
    let others = [
        "dev",
        "dev-edge",
        "dev-live/btl",
        "dev-live/ed25519",
        "dev-live/msp",
    ];
    let sets = few.into_iter().chain(others.into_iter().filter_map(folder));
    for (seed, set) in (70..).zip(sets) {
        let blocks = recorded_in(&set);
        for weather in [
            NO_FAULTS,
            SOME_FAULTS,
            MANY_FAULTS,
            LinkFaults {
                restarts: 6,
                ..SOME_FAULTS
            },
        ] {
            let mut world = Simulation::new(seed, weather);
            let mut taken = ReceivedBlocks::new(blocks.clone());
            taken.validating = Some(Validating::new(&set, &blocks));
            world.run(&mut taken);
            let validating = taken.validating.unwrap();
            assert_eq!(validating.replica.next(), blocks.len() as u64);
            let early = validating.work;
            let transactions = validating.expected[1..]
                .iter()
                .map(|(codes, _)| codes.len() as u64);
            let (counts, all) = (early.counts(), transactions.sum::<u64>());
            println!("{} blocks, {all} transactions: {counts:?}", blocks.len());
            // Transactions that arrived after a block that sets the configuration, or whose block was fetched, are not
            // verified early. In the sets `ed25519` and `msp`, the configuration changes every few blocks.
            let changes_often = set.ends_with("ed25519") || set.ends_with("msp");
            let least = match (weather.late, changes_often) {
                (0, _) => all,
                (_, true) => 1,
                (_, false) => all / 3,
            };
            assert!((least..=all).contains(&counts.used), "{counts:?}");
            assert_eq!(early.memory_bytes(), 0);
        }
    }
}

/// Returns a block of these envelopes in the form in which orderers write blocks.
fn block(number: u64, envelopes: &[Vec<u8>]) -> Arc<[u8]> {
    let mut hasher = Sha256::new();
    let mut data = Vec::new();
    for envelope in envelopes {
        hasher.update(envelope);
        wire::put_bytes(&mut data, 1, envelope);
    }
    let mut header = Vec::new();
    wire::put_number(&mut header, 1, number);
    wire::put_bytes(&mut header, 2, &[1; 32]);
    wire::put_bytes(&mut header, 3, &hasher.finalize());
    let mut block = Vec::new();
    wire::put_bytes(&mut block, 1, &header);
    wire::put_bytes(&mut block, 2, &data);
    wire::put_bytes(&mut block, 3, &[10, 0, 10, 1, 7]);
    block.into()
}

#[test]
fn blocks_of_every_size_arrive() {
    let mut random = Random(77);
    let noise =
        |random: &mut Random, bytes: usize| (0..bytes).map(|_| random.next() as u8).collect::<Vec<u8>>();
    let mut blocks = Vec::new();
    let sizes: [&[usize]; 5] = [
        &[0],
        &[1, 70_000, 3],
        &[300_000],
        &[1_430, 1_431, 1_432, 1_433],
        &[],
    ];
    for (number, sizes) in sizes.iter().enumerate() {
        let envelopes: Vec<_> = sizes.iter().map(|&bytes| noise(&mut random, bytes)).collect();
        blocks.push(block(number as u64, &envelopes));
    }
    // Further blocks: one with the maximum number of transactions, one with one transaction more, one with the data
    // before the header, and one with two data fields.
    blocks.push(block(5, &vec![vec![5]; 65_535]));
    blocks.push(block(6, &vec![vec![6]; 65_536]));
    for number in [7, 8] {
        let plain = block(number, &[noise(&mut random, 2_000), noise(&mut random, 3_000)]);
        let layout = cut::Layout::of(&plain);
        let header = plain[..2 + plain[1] as usize].to_vec();
        let first = layout.range(1).unwrap();
        let mut odd = Vec::new();
        if number == 7 {
            odd.extend_from_slice(&plain[header.len()..]);
            odd.extend_from_slice(&header);
        } else {
            odd.extend_from_slice(&header);
            wire::put_bytes(&mut odd, 2, &plain[first]);
            wire::put_bytes(&mut odd, 2, &plain[layout.range(2).unwrap()]);
        }
        blocks.push(odd.into());
    }
    for seed in 30..33 {
        let mut taken = ReceivedBlocks::new(blocks.clone());
        Simulation::new(seed, SOME_FAULTS).run(&mut taken);
        assert_eq!((taken.whole, taken.gaps.len()), (9, 0));
    }
}

#[test]
fn blocks_that_the_sender_no_longer_has_are_reported_as_a_gap() {
    let blocks: RecordedBlocks = (0..40)
        .map(|number| block(number, &[vec![number as u8; 90]]))
        .collect();
    let mut world = Simulation::new(50, NO_FAULTS);
    world.sender_options.blocks_kept = 5;
    let (mut sender, mut receiver) = (world.sender(), world.receiver(0));
    for (number, bytes) in blocks.iter().enumerate() {
        sender.push(number as u64, bytes.clone());
    }
    let mut taken = ReceivedBlocks::new(blocks);
    let mut out = Vec::new();
    for now in (0..1_000_000_000).step_by(500_000) {
        while sender.poll(now, &mut out) == PollResult::Datagram {
            receiver.datagram(now, &out, &mut taken);
        }
        if receiver.write_request(now, &mut out) {
            sender.datagram(now, &out);
        }
        if taken.gaps == [(0, 34)] && taken.next == 0 {
            taken.next = 35;
            receiver.set_next(35, &mut taken);
        }
    }
    assert_eq!((taken.gaps.as_slice(), taken.whole), (&[(0, 34)][..], 5));
}

#[test]
fn a_lost_answer_is_sent_again() {
    let blocks: RecordedBlocks = (0..4)
        .map(|number| block(number, &[vec![number as u8; 90]]))
        .collect();
    let mut world = Simulation::new(55, NO_FAULTS);
    let mut sender = world.sender();
    for (number, bytes) in blocks.iter().enumerate() {
        sender.push(number as u64, bytes.clone());
    }
    let mut now = 0;
    // Only the first greeting of each receiver arrives; the network then loses all datagrams for 1 s.
    for _ in 0..2 {
        let mut receiver = world.receiver(0);
        let mut taken = ReceivedBlocks::new(blocks.clone());
        let (mut out, mut said) = (Vec::new(), 0);
        let end = now + 1_000_000_000;
        while now < end {
            while sender.poll(now, &mut out) == PollResult::Datagram {
                receiver.datagram(now, &out, &mut taken);
            }
            if receiver.write_request(now, &mut out) {
                said += 1;
                if !(2..6).contains(&said) {
                    sender.datagram(now, &out);
                }
            }
            now += 500_000;
        }
        assert_eq!(taken.whole, 4, "{receiver:?} {sender:?}");
    }
}

#[test]
fn foreign_datagrams_change_nothing() {
    let blocks: RecordedBlocks = (0..3)
        .map(|number| block(number, &[vec![number as u8; 90]]))
        .collect();
    let mut world = Simulation::new(60, NO_FAULTS);
    let (mut sender, mut receiver) = (world.sender(), world.receiver(0));
    world.key = SharedKey::new(&[8; 32]).unwrap();
    let (mut liar, mut deaf) = (world.sender(), world.receiver(0));
    let mut taken = ReceivedBlocks::new(blocks.clone());
    let mut out = Vec::new();
    let mut kept = Vec::new();
    liar.push(0, blocks[0].clone());
    for now in (0..200_000_000).step_by(500_000) {
        while liar.poll(now, &mut out) == PollResult::Datagram {
            receiver.datagram(now, &out, &mut taken);
        }
        if deaf.write_request(now, &mut out) {
            sender.datagram(now, &out);
        }
        for at in 0..out.len() {
            receiver.datagram(now, &out[..at], &mut taken);
            sender.datagram(now, &out[..at]);
        }
    }
    assert!(!sender.joined() && receiver.memory_bytes() == 0);
    assert_eq!(
        (
            taken.whole,
            receiver.counters().sessions,
            receiver.counters().retransmit_requests
        ),
        (0, 0, 0)
    );
    // Send each valid datagram twice, and in addition with each of its bytes changed once.
    for (number, bytes) in blocks.iter().enumerate() {
        sender.push(number as u64, bytes.clone());
    }
    for now in (200_000_000..400_000_000).step_by(500_000) {
        while sender.poll(now, &mut out) == PollResult::Datagram {
            let before = receiver.counters();
            let sessions = |receiver: &Receiver| {
                let counters = receiver.counters();
                (
                    counters.sessions,
                    counters.transactions,
                    counters.blocks,
                    receiver.memory_bytes(),
                )
            };
            let state = sessions(&receiver);
            for at in 0..out.len() {
                let mut changed = out.clone();
                changed[at] ^= 0x10;
                receiver.datagram(now, &changed, &mut taken);
                assert_eq!(sessions(&receiver), state, "byte {at}");
            }
            receiver.datagram(now, &out, &mut taken);
            let once = receiver.counters();
            receiver.datagram(now, &out, &mut taken);
            let twice = receiver.counters();
            assert!(once.bad_mac + once.bad_form > before.bad_mac + before.bad_form);
            assert_eq!(twice.blocks, once.blocks);
            assert_eq!(
                twice.replayed + twice.other_session,
                once.replayed + once.other_session + 1
            );
            kept.push(out.clone());
        }
        if receiver.write_request(now, &mut out) {
            sender.datagram(now, &out);
            let refused = sender.counters().refused;
            if sender.joined() {
                sender.datagram(now, &out);
                assert_eq!(sender.counters().refused, refused + 1);
            }
        }
    }
    assert_eq!(taken.whole, 3);
    // A receiver that has just started gets all of these datagrams again and accepts none.
    world.key = SharedKey::new(&[9; 32]).unwrap();
    let mut fresh = world.receiver(0);
    for datagram in &kept {
        fresh.datagram(500_000_000, datagram, &mut taken);
    }
    assert_eq!(fresh.counters().sessions, 0);
    assert_eq!(fresh.memory_bytes(), 0);
}

//! Generator of a chain of blocks.
//!
//! The chain has the genesis block, an approval by each organisation, the chaincode's commit, transactions that create
//! the keys, and then the workload. Calls of the workload read the state after the previous block, so two transactions
//! of a block that read and write the same key conflict. The configuration changes after every `config_every` blocks of
//! the workload.

use crate::block::{BlockFault, Tip, nonce, seal, signature_header};
use crate::chaincode::{Call, Chaincode};
use crate::config::{self, BatchSize};
use crate::fault::Fault;
use crate::lifecycle::{self, Policy};
use crate::network::{Identity, Network};
use crate::proto::Out;
use crate::rwset::{self, Height};
use crate::sign::sign_all;
use crate::tx::{BATCH, Proposal, envelopes};
use lineside_fabric::TxCode;
use lineside_fabric::block::Block;
use lineside_fabric::proto::{self, Arena, Envelope};
use lineside_testkit::Random;
use sha2::{Digest, Sha256};
use std::collections::VecDeque;
use std::sync::Arc;

/// Number of keys that one transaction creates.
const CREATED_AT_ONCE: usize = 100;
/// Number of keys that a range query reads.
const RANGE: usize = 10;
/// Time at which the generated channel begins, in seconds since 1970.
const BEGIN: u64 = 1_795_219_965;

/// Parameters of the transactions.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Workload {
    /// Chaincode that is called.
    pub chaincode: Chaincode,
    /// Number of the chaincode's keys: accounts for smallbank, works for DRM.
    pub keys: usize,
    /// Number of endorsements of each transaction, by peers of all organisations in turn.
    pub endorsements: usize,
    /// Endorsement policy of the chaincode.
    pub policy: Policy,
    /// Number of the network's clients that create transactions.
    pub creators: usize,
    /// Number of transactions in a block.
    pub block: usize,
    /// Number of transactions of the workload, without those that create keys.
    pub transactions: u64,
    /// Number of transactions in a thousand that read a range of keys.
    pub ranges: usize,
    /// Number of transactions in a thousand that have one of the faults.
    pub faulty: usize,
    /// Faults, which are used in turn.
    pub faults: Vec<Fault>,
    /// Number of blocks of the workload between configuration changes; 0 means that the configuration never changes.
    pub config_every: u64,
}

impl Default for Workload {
    fn default() -> Self {
        Self {
            chaincode: Chaincode::Smallbank,
            keys: 10_000,
            endorsements: 2,
            policy: Policy::default(),
            creators: 100,
            block: 500,
            transactions: 10_000,
            ranges: 0,
            faulty: 0,
            faults: Fault::ALL.to_vec(),
            config_every: 0,
        }
    }
}

/// Generated block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MadeBlock {
    /// Number of the block.
    pub number: u64,
    /// Block in the form in which the orderer delivers it.
    pub bytes: Vec<u8>,
    /// Validation code that a peer gives to each transaction.
    pub codes: Vec<TxCode>,
}

#[derive(Clone, Copy, Default, Debug)]
struct Cell {
    version: Height,
    value: [u32; 2],
    /// Version and values that the block in progress writes; `None` if it does not write this key.
    pending: Option<(Height, [u32; 2])>,
}

/// Generator of blocks, from the genesis block on.
#[derive(Clone, Debug)]
pub struct Blocks {
    network: Arc<Network>,
    workload: Workload,
    threads: usize,
    tip: Tip,
    random: Random,
    cells: Vec<Cell>,
    created: usize,
    /// Keys that the block in progress writes.
    touched: Vec<usize>,
    made: u64,
    workload_blocks: u64,
    faults: usize,
    /// Faults that wait for the last position in a block, because peers would halt if another transaction followed.
    last: VecDeque<Fault>,
    config_changes: u64,
    /// A valid transaction of an earlier block, for faults that repeat it.
    earlier: Option<Vec<u8>>,
}

/// Position in a block: a transaction to generate, or a repeated transaction.
enum Slot<'n> {
    New(Box<Proposal<'n>>),
    Again(usize),
    Earlier(Vec<u8>),
}

impl Blocks {
    /// Creates the generator of this network's blocks. The number of threads affects only the speed, not the blocks.
    ///
    /// # Panics
    /// There are fewer peers than endorsements, or the number of transactions in a block is 0 or above 65,535.
    pub fn new(network: Arc<Network>, workload: Workload, threads: usize) -> Self {
        let peers = network.orgs.len() * network.options.peers;
        assert!(
            (1..=peers).contains(&workload.endorsements),
            "{peers} peers: {workload:?}"
        );
        assert!(
            (1..=65_535).contains(&workload.block),
            "transactions of a block: {workload:?}"
        );
        assert!(
            workload.keys > RANGE && workload.creators > 0,
            "too little: {workload:?}"
        );
        Self {
            threads: threads.max(1),
            tip: Tip {
                number: 0,
                previous_hash: Vec::new(),
                last_config: 0,
            },
            random: Random(network.seed ^ 0x6d61_6b65_7200),
            cells: vec![Cell::default(); workload.keys],
            created: 0,
            touched: Vec::new(),
            made: 0,
            workload_blocks: 0,
            faults: 0,
            last: VecDeque::new(),
            config_changes: 0,
            earlier: None,
            network,
            workload,
        }
    }

    fn seconds(&self) -> u64 {
        BEGIN + self.tip.number
    }

    fn label(&self, kind: &str) -> Vec<u8> {
        let (seed, number) = (self.network.seed.to_be_bytes(), self.tip.number.to_be_bytes());
        [kind.as_bytes(), &seed, &number].concat()
    }

    fn genesis(&mut self) -> Vec<Vec<u8>> {
        let nonce = nonce(&[&self.label("config")]);
        let id: [u8; 32] = Sha256::digest(nonce).into();
        let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        let channel_header = Out::new()
            .number(1, 1)
            .number(2, 1)
            .message(3, Out::new().number(1, BEGIN))
            .bytes(4, &self.network.options.channel)
            .bytes(5, id);
        let header = Out::new()
            .message(1, channel_header)
            .message(2, Out::new().bytes(2, nonce));
        let config = config::config(&self.network, BatchSize::default(), 0);
        let payload = Out::new()
            .message(1, header)
            .message(2, Out::new().message(1, config));
        vec![Out::new().message(1, payload).done()]
    }

    /// Returns a signed envelope around a payload.
    fn signed(&self, by: &Identity, kind: &str, header: Out, data: Out) -> Vec<u8> {
        let label = self.label(kind);
        let by_header = signature_header(by, &nonce(&[&label]));
        let header = Out::new().message(1, header).bytes(2, by_header);
        let payload = Out::new().message(1, header).message(2, data).done();
        let signature = sign_all(&[&label], &[(&by.key, Sha256::digest(&payload).into())]);
        Out::new().bytes(1, payload).bytes(2, signature[0].der()).done()
    }

    /// Returns the transaction of a block that changes the batch size of the channel.
    fn reconfigure(&mut self) -> Vec<Vec<u8>> {
        self.config_changes += 1;
        let size = BatchSize {
            transactions: 100 + self.config_changes as u32,
            ..BatchSize::default()
        };
        let admin = &self.network.orderer.admin;
        let update = config::update(&self.network, size, self.config_changes);
        let label = self.label("config signature");
        let by = signature_header(admin, &nonce(&[&label]));
        let digest = Sha256::new().chain_update(&by).chain_update(&update).finalize();
        let signature = sign_all(&[&label], &[(&admin.key, digest.into())]);
        let signature = Out::new().bytes(1, by).bytes(2, signature[0].der());
        let channel = &self.network.options.channel;
        let header = Out::new().number(1, 2).bytes(4, channel);
        let update = Out::new().message(1, update).message(2, signature);
        let update = self.signed(admin, "update", header, update);

        let config = config::config(&self.network, size, self.config_changes);
        let timestamp = Out::new().number(1, self.seconds());
        let header = Out::new().number(1, 1).message(3, timestamp).bytes(4, channel);
        let envelope = Out::new().message(1, config).bytes(2, update);
        let orderer = &self.network.orderer.nodes[0];
        let envelope = self.signed(orderer, "config", header, envelope);
        self.tip.last_config = self.tip.number;
        vec![envelope]
    }

    /// Returns a transaction of the chaincode `_lifecycle`.
    fn lifecycle(&self, network: &Network, org: Option<usize>) -> Vec<Vec<u8>> {
        let chaincode = lifecycle::Definition {
            name: self.workload.chaincode.name(),
            policy: self.workload.policy,
            endorsements: self.workload.endorsements,
        };
        let (args, results) = match org {
            Some(org) => lifecycle::approve(network, chaincode, org),
            None => lifecycle::commit(network, chaincode),
        };
        let peers = match org {
            Some(org) => vec![&network.orgs[org].nodes[0]],
            None => network.orgs.iter().map(|org| &org.nodes[0]).collect(),
        };
        let proposal = Proposal {
            creator: &network.orgs[org.unwrap_or(0)].admin,
            nonce: nonce(&[&self.label("lifecycle")]),
            seconds: self.seconds(),
            nanos: 534_315_372,
            chaincode: lifecycle::NAMESPACE,
            version: lifecycle::VERSION_OF_PEER,
            kind: 0,
            args,
            results,
            endorsers: peers,
            fault: None,
        };
        envelopes(network, &[&self.label("lifecycle")], vec![proposal])
    }

    fn proposal<'n>(&mut self, network: &'n Network, args: Vec<Vec<u8>>, results: Vec<u8>) -> Proposal<'n> {
        let mut bytes = [0; 24];
        for eight in bytes.chunks_mut(8) {
            eight.copy_from_slice(&self.random.next().to_be_bytes());
        }
        let creators = network.orgs.len() * network.options.clients;
        Proposal {
            creator: network.client(self.random.index(self.workload.creators.min(creators))),
            nonce: bytes,
            seconds: self.seconds(),
            nanos: 1 + self.random.index(999_999_999) as u64,
            chaincode: self.workload.chaincode.name(),
            version: "1",
            kind: 1,
            args,
            results,
            endorsers: (0..self.workload.endorsements)
                .map(|number| network.peer(number))
                .collect(),
            fault: None,
        }
    }

    /// Returns the read of the definition's sequence, which every transaction of the chaincode contains.
    fn definition(&self) -> Out {
        let committed = (self.network.orgs.len() as u64 + 1, 0);
        let key = lifecycle::sequence_key(self.workload.chaincode.name());
        rwset::namespace(
            lifecycle::NAMESPACE,
            &[rwset::read(key, Some(committed))],
            &[],
            &[],
        )
    }

    /// Returns a transaction that creates the next keys.
    fn create<'n>(&mut self, network: &'n Network, tx: u64) -> Proposal<'n> {
        let chaincode = self.workload.chaincode;
        let until = self.workload.keys.min(self.created + CREATED_AT_ONCE);
        let mut args = vec![b"create".to_vec()];
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        for number in self.created..until {
            let value = [1_000, 1_000].map(|from| from + self.random.index(9_000) as u32);
            let key = chaincode.key(number);
            reads.push(rwset::read(&key, None));
            writes.push(rwset::write(&key, text(value)));
            args.push(key.into_bytes());
            self.put(number, (self.tip.number, tx), value);
        }
        self.created = until;
        let results = [
            self.definition(),
            rwset::namespace(chaincode.name(), &reads, &[], &writes),
        ];
        self.proposal(network, args, rwset::all(&results))
    }

    fn put(&mut self, key: usize, version: Height, value: [u32; 2]) {
        self.cells[key].pending = Some((version, value));
        self.touched.push(key);
    }

    /// Returns a random key that the block does not write yet. If 64 attempts find only written keys, the key may be
    /// one of those.
    fn free_key(cells: &[Cell], random: &mut Random) -> usize {
        let mut tries = (0..64).map(|_| random.index(cells.len()));
        let free = tries.find(|&key| cells[key].pending.is_none());
        free.unwrap_or_else(|| random.index(cells.len()))
    }

    /// Returns one transaction of the workload and its expected validation code.
    fn work<'n>(&mut self, network: &'n Network, slots: &[Slot<'n>], codes: &[TxCode]) -> (Slot<'n>, TxCode) {
        let tx = slots.len();
        let mut fault = None;
        if !self.workload.faults.is_empty() && self.random.index(1_000) < self.workload.faulty {
            fault = Some(self.workload.faults[self.faults % self.workload.faults.len()]);
            self.faults += 1;
        }
        if fault.is_some_and(Fault::halts_behind) {
            self.last.extend(fault.take());
        }
        if tx + 1 == self.workload.block || self.made + 1 == self.workload.transactions {
            fault = self.last.pop_front().or(fault);
        }
        match fault {
            Some(Fault::DuplicateInLedger) => match self.earlier.clone() {
                Some(envelope) => return (Slot::Earlier(envelope), TxCode::DuplicateTxid),
                None => fault = None,
            },
            Some(Fault::DuplicateInBlock) => {
                let plain = |slot: &Slot<'_>| matches!(slot, Slot::New(of) if of.fault.is_none());
                match slots
                    .iter()
                    .zip(codes)
                    .rposition(|(slot, &code)| code == TxCode::Valid && plain(slot))
                {
                    Some(other) => return (Slot::Again(other), TxCode::DuplicateTxid),
                    None => fault = None,
                }
            }
            Some(Fault::ReadInBlock) if self.touched.is_empty() => fault = None,
            _ => {}
        }
        let wants_range = self.random.index(1_000) < self.workload.ranges && fault.is_none();
        let (args, sets, mut code, written) = if wants_range || fault == Some(Fault::StaleRange) {
            self.audit(fault)
        } else {
            self.call(fault)
        };
        if let Some(other) = fault.map(Fault::code).filter(|&code| code != TxCode::Valid) {
            code = other;
        }
        if code == TxCode::Valid {
            for (key, value) in written {
                self.put(key, (self.tip.number, tx as u64), value);
            }
        }
        let mut proposal = self.proposal(network, args, rwset::all(&sets));
        proposal.fault = fault;
        (Slot::New(Box::new(proposal)), code)
    }

    /// Returns a random call of the chaincode.
    fn call(&mut self, fault: Option<Fault>) -> Work {
        let chaincode = self.workload.chaincode;
        let (cells, touched) = (&self.cells, &self.touched);
        let mut first = fault == Some(Fault::ReadInBlock);
        let pick = |random: &mut Random| {
            let key = match std::mem::take(&mut first) {
                true => touched[random.index(touched.len())],
                false => Self::free_key(cells, random),
            };
            (key, cells[key].value)
        };
        let Call { args, keys, values } = chaincode.call(&mut self.random, pick);
        let stale = u64::from(fault == Some(Fault::StaleRead));
        let read = |&key: &usize| {
            let (block, tx) = self.cells[key].version;
            rwset::read(chaincode.key(key), Some((block, tx + stale)))
        };
        let reads: Vec<_> = keys.iter().map(read).collect();
        let written: Vec<_> = keys.iter().copied().zip(values.unwrap_or_default()).collect();
        let write = |&(key, value): &(usize, [u32; 2])| rwset::write(chaincode.key(key), text(value));
        let mut writes: Vec<_> = written.iter().map(write).collect();
        if fault == Some(Fault::KeyText) {
            writes.push(rwset::write([0xff], "1"));
        }
        let conflict = keys.iter().any(|&key| self.cells[key].pending.is_some());
        let own = rwset::namespace(chaincode.name(), &reads, &[], &writes);
        let mut sets = vec![self.definition(), own.clone()];
        match fault {
            Some(Fault::NamespaceTwice) => sets.push(own),
            Some(Fault::WriteElsewhere) => {
                sets.push(rwset::namespace("zzz", &[], &[], &[rwset::write("key", "1")]));
            }
            _ => {}
        }
        let code = if conflict {
            TxCode::MvccReadConflict
        } else {
            TxCode::Valid
        };
        (args, sets, code, written)
    }

    /// Returns a call that reads a range of keys and writes another key.
    fn audit(&mut self, fault: Option<Fault>) -> Work {
        let chaincode = self.workload.chaincode;
        let start = self.random.index(self.cells.len() - RANGE);
        let end = start + RANGE;
        let mut reads = Vec::with_capacity(RANGE);
        for (key, cell) in self.cells.iter().enumerate().take(end).skip(start) {
            let (block, tx) = cell.version;
            let stale = fault == Some(Fault::StaleRange) && key + 1 == end;
            let version = (block, tx + u64::from(stale));
            reads.push(rwset::read(chaincode.key(key), Some(version)));
        }
        let conflict = self.cells[start..end].iter().any(|cell| cell.pending.is_some());
        let (from, to) = (chaincode.key(start), chaincode.key(end));
        let log = format!("t{:08}", self.made);
        let range = rwset::range(&from, &to, &reads);
        let own = rwset::namespace(chaincode.name(), &[], &[range], &[rwset::write(&log, "10")]);
        let args = [b"audit".to_vec(), from.into(), to.into(), log.into()];
        let code = if conflict {
            TxCode::PhantomReadConflict
        } else {
            TxCode::Valid
        };
        (args.to_vec(), vec![self.definition(), own], code, Vec::new())
    }

    /// Generates a block's new transactions in batches on all threads.
    fn make(&self, network: &Network, slots: Vec<Slot<'_>>) -> Vec<Vec<u8>> {
        let mut batches: Vec<(usize, Vec<Proposal<'_>>)> = Vec::new();
        let mut rest = Vec::with_capacity(slots.len());
        for slot in slots {
            rest.push(match slot {
                Slot::New(proposal) => {
                    match batches.last_mut().filter(|(_, batch)| batch.len() < BATCH) {
                        Some((_, batch)) => batch.push(*proposal),
                        None => batches.push((batches.len(), vec![*proposal])),
                    }
                    None
                }
                other => Some(other),
            });
        }
        let label = self.label("transactions");
        let one = |share: Vec<(usize, Vec<Proposal<'_>>)>| -> Vec<Vec<u8>> {
            let batch = |(number, batch): (usize, Vec<_>)| {
                envelopes(network, &[&label, &number.to_be_bytes()], batch)
            };
            share.into_iter().flat_map(batch).collect()
        };
        let share = batches.len().div_ceil(self.threads).max(1);
        let mut shares = Vec::new();
        while !batches.is_empty() {
            let after = batches.split_off(share.min(batches.len()));
            shares.push(std::mem::replace(&mut batches, after));
        }
        let new: Vec<Vec<u8>> = std::thread::scope(|scope| {
            let mut shares = shares.into_iter();
            let first = shares.next();
            let others: Vec<_> = shares.map(|share| scope.spawn(|| one(share))).collect();
            let mut made = first.map(one).unwrap_or_default();
            for other in others {
                made.extend(other.join().expect("making transactions does not panic"));
            }
            made
        });
        let mut new = new.into_iter();
        let mut all: Vec<Vec<u8>> = Vec::with_capacity(rest.len());
        for slot in rest {
            let envelope = match slot {
                Some(Slot::Again(other)) => Some(all[other].clone()),
                Some(Slot::Earlier(envelope)) => Some(envelope),
                _ => new.next(),
            };
            all.extend(envelope);
        }
        all
    }

    /// Applies the writes of the block, so that the next block reads them.
    fn settle(&mut self) {
        for key in self.touched.drain(..) {
            let cell = &mut self.cells[key];
            if let Some((version, value)) = cell.pending.take() {
                (cell.version, cell.value) = (version, value);
            }
        }
    }

    /// Returns the transactions of a block of the workload, or of a block that creates keys; `None` at the end.
    fn transactions(&mut self, network: &Network) -> Option<(Vec<Vec<u8>>, Vec<TxCode>)> {
        let mut slots = Vec::with_capacity(self.workload.block);
        let mut codes = Vec::with_capacity(self.workload.block);
        if self.created < self.workload.keys {
            while self.created < self.workload.keys && slots.len() < self.workload.block {
                slots.push(Slot::New(Box::new(self.create(network, slots.len() as u64))));
                codes.push(TxCode::Valid);
            }
        } else {
            while self.made < self.workload.transactions && slots.len() < self.workload.block {
                let (slot, code) = self.work(network, &slots, &codes);
                slots.push(slot);
                codes.push(code);
                self.made += 1;
            }
            self.workload_blocks += 1;
        }
        if slots.is_empty() {
            return None;
        }
        let plain = |slot: &Slot<'_>| matches!(slot, Slot::New(of) if of.fault.is_none());
        let plain = slots.iter().position(plain);
        let envelopes = self.make(network, slots);
        if let Some(plain) = plain {
            self.earlier = Some(envelopes[plain].clone());
        }
        self.settle();
        Some((envelopes, codes))
    }
}

/// Arguments of a call, its read-write sets by namespace, the validation code that the reads give, and the writes.
type Work = (Vec<Vec<u8>>, Vec<Out>, TxCode, Vec<(usize, [u32; 2])>);

fn text([a, b]: [u32; 2]) -> String {
    format!("{a},{b}")
}

impl Iterator for Blocks {
    type Item = MadeBlock;

    fn next(&mut self) -> Option<MadeBlock> {
        let network = Arc::clone(&self.network);
        let number = self.tip.number;
        let orgs = network.orgs.len() as u64;
        let every = self.workload.config_every;
        let due = every > 0 && self.workload_blocks / every > self.config_changes;
        let (envelopes, codes) = match number {
            0 => (self.genesis(), vec![TxCode::Valid]),
            _ if number <= orgs => (
                self.lifecycle(&network, Some(number as usize - 1)),
                vec![TxCode::Valid],
            ),
            _ if number == orgs + 1 => (self.lifecycle(&network, None), vec![TxCode::Valid]),
            _ if due => (self.reconfigure(), vec![TxCode::Valid]),
            _ => self.transactions(&network)?,
        };
        let bytes = seal(&network, &mut self.tip, &envelopes, None);
        Some(MadeBlock { number, bytes, codes })
    }
}

/// Returns the block with a fault because of which a peer refuses it.
///
/// # Panics
/// The bytes are not a block with signed transactions.
pub fn spoil(network: &Network, block: &[u8], fault: BlockFault) -> Vec<u8> {
    let arena = Arena::new();
    let read = Block::read(block, &arena).expect("a block");
    let mut all: Vec<Vec<u8>> = read
        .transactions
        .iter()
        .map(|envelope| envelope.to_vec())
        .collect();
    let first = read.transactions.first().expect("a transaction");
    let envelope: Envelope<'_> = proto::decode(first, &arena).expect("an envelope");
    match fault {
        BlockFault::EmptySignature => all[0] = Out::new().bytes(1, envelope.payload).done(),
        BlockFault::TrailingBytes => all[0].extend(Out::new().bytes(2, envelope.signature).done()),
        BlockFault::Channel => {
            let channel_header = Out::new().number(1, 3).bytes(4, "another");
            let header = Out::new()
                .message(1, channel_header)
                .message(2, Out::new().bytes(1, "me"));
            let payload = Out::new().message(1, header);
            all[0] = Out::new().message(1, payload).bytes(2, envelope.signature).done();
        }
        _ => {}
    }
    let mut tip = Tip {
        number: read.number,
        previous_hash: read.previous_hash.to_vec(),
        last_config: 0,
    };
    seal(network, &mut tip, &all, Some(fault))
}

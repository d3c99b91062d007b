//! Checks of answers in the simulation: each answer must be true on the chain that ends with the tip in the answer, and
//! this tip must be the host's tip at the time of the answer.

use super::sabotage::Sabotage;
use super::world::World;
use super::{By, CATCH_UP_TIMEOUT, Rig};
use bitcoin::hashes::{Hash as _, sha256d};
use lineside_client::spv::reply::{self, Proven};
use lineside_spv::chain::Tip;
use lineside_spv::store::Hash;
use lineside_testkit::Random;
use lineside_wire::{RootReply, SPV_OP_HEADERS, SPV_OP_PROOF, SPV_OP_ROOT, native};
use std::time::{Duration, Instant};
use zerocopy::IntoBytes;

/// Maximum number of blocks that a reorganisation replaces.
const DEPTH_MAX: u64 = 12;
/// Number of changes of the node's chain after which the simulation starts a new rig, with a new chain and host.
const CHANGES_PER_RIG: u32 = 150;
/// Number of answers that are checked while the host catches up with one change.
const ASKED: u64 = 200;
/// Number of hashes for which requests for proofs reserve space.
const PROOF_HASHES: usize = 5;
const HEADERS: u32 = 6;

/// Numbers of checked answers, by kind.
#[derive(Clone, Copy, Debug, Default)]
pub struct CheckCounts {
    pub roots_of_fastpath: u64,
    pub roots_of_host: u64,
    pub proofs_of_fastpath: u64,
    pub proofs_of_host: u64,
    pub headers: u64,
    /// Number of answers while the host had not caught up with the node.
    pub while_behind: u64,
    /// Number of answers during which the host changed its chain.
    pub during_changes: u64,
    pub changes: u64,
    pub restarts: u64,
}

impl CheckCounts {
    pub fn answers(&self) -> u64 {
        self.roots_of_fastpath
            + self.roots_of_host
            + self.proofs_of_fastpath
            + self.proofs_of_host
            + self.headers
    }
}

/// Fault that a check found.
#[derive(Debug, PartialEq, Eq)]
pub enum AnswerFault {
    /// The answer was true earlier, or is not true yet.
    Stale(String),
    /// The answer was never true.
    Untrue(String),
    /// The host does not catch up with the node.
    Stuck(String),
}

fn stale<T>(what: impl Into<String>) -> Result<T, AnswerFault> {
    Err(AnswerFault::Stale(what.into()))
}

fn untrue<T>(what: impl Into<String>) -> Result<T, AnswerFault> {
    Err(AnswerFault::Untrue(what.into()))
}

/// One simulation: a sequence of rigs, each of which is a simulated node and a host that follows it.
pub struct Simulation {
    pub checked: CheckCounts,
    random: Random,
    fault: Option<Sabotage>,
    patience: Duration,
}

impl Simulation {
    pub fn new(seed: u64, fault: Option<Sabotage>) -> Self {
        Self {
            checked: CheckCounts::default(),
            random: Random(seed),
            fault,
            // With a deliberate fault, the host may never catch up, so the wait is short.
            patience: fault.map_or(CATCH_UP_TIMEOUT, |_| Duration::from_secs(3)),
        }
    }

    /// Runs until this number of answers has been checked.
    pub fn run(&mut self, answers: u64) -> Result<(), AnswerFault> {
        let end = self.checked.answers() + answers;
        let mut min_confirmations = 1;
        while self.checked.answers() < end {
            self.run_rig(min_confirmations, end)?;
            min_confirmations = 4 - min_confirmations;
        }
        Ok(())
    }

    /// Runs the simulation with one node and host until `end` answers have been checked, or the node's chain has
    /// changed often enough.
    fn run_rig(&mut self, min_confirmations: u32, end: u64) -> Result<(), AnswerFault> {
        let rig = Rig::with(self.random.next() >> 33, min_confirmations, self.fault);
        rig.node.change(|world| world.mine(30));
        for change in 1..=CHANGES_PER_RIG {
            self.change(&rig)?;
            for _ in 0..ASKED {
                self.ask(&rig)?;
            }
            if self.random.one_in(4) {
                self.check_settled(&rig)?;
            }
            if change == CHANGES_PER_RIG / 2 {
                self.lose_blocks(&rig)?;
            }
            if self.checked.answers() >= end {
                break;
            }
        }
        self.check_settled(&rig)
    }

    fn change(&mut self, rig: &Rig) -> Result<(), AnswerFault> {
        self.checked.changes += 1;
        let depth = 1 + self.random.below(DEPTH_MAX) as usize;
        match self.random.below(80) {
            0..40 => rig.node.change(|world| world.mine(1)),
            40..48 => rig.node.change(|world| world.mine(5)),
            48..64 => rig.node.change(|world| world.reorganise(depth)),
            64..79 if rig.node.world().has_sides() => {
                rig.node.change(|world| world.go_back(2 * DEPTH_MAX as usize));
            }
            _ => {
                self.checked.restarts += 1;
                rig.node.change(|world| {
                    world.away_calls = 1;
                    world.reorganise(depth);
                });
            }
        }
        Ok(())
    }

    /// Sends one random request and checks the answer.
    fn ask(&mut self, rig: &Rig) -> Result<(), AnswerFault> {
        match self.random.below(20) {
            0 => self.ask_headers(rig),
            number => {
                let txid = {
                    let world = rig.node.world();
                    // Requests most often name one of the newest TXIDs, which are in the competing branches.
                    let count = world.txids.len();
                    let among = if self.random.one_in(4) {
                        count
                    } else {
                        count.min(150)
                    };
                    world.txids[count - 1 - self.random.index(among)]
                };
                let only_host = self.random.one_in(5);
                if number < 14 {
                    self.ask_root(rig, &txid, only_host).map(drop)
                } else {
                    self.ask_proof(rig, &txid, only_host)
                }
            }
        }
    }

    /// Sends a request and checks the tip in the reply. Returns the parsed reply, its tip, and the component that sent
    /// it.
    fn answered<T>(
        &mut self,
        rig: &Rig,
        (op, body): (u8, Vec<u8>),
        only_host: bool,
        parse: impl FnOnce(lineside_wire::Status, &[u8]) -> Option<(T, Tip)>,
    ) -> Result<(T, Tip, By), AnswerFault> {
        let mut request = native::request_header(op, 1, body.len() as u16)
            .as_bytes()
            .to_vec();
        request.extend(body);
        let before = rig.host.tip_and_generation();
        let (reply, by) = rig.ask(&request, only_host);
        let after = rig.host.tip_and_generation();
        let parsed = reply::parse(op, 1, reply.as_bytes());
        let Some((found, tip)) = parsed.and_then(|(status, body)| parse(status, body)) else {
            return untrue("a malformed reply");
        };
        if before.1 != after.1 {
            self.checked.during_changes += 1;
        } else if before.0.is_some_and(|before| before != tip) {
            return stale(format!(
                "the answer has the tip {tip:?}, but the host's is {:?}",
                before.0
            ));
        }
        let world = rig.node.world();
        let is_behind = world.settled_tip() != Some((tip.height, tip.hash));
        self.checked.while_behind += u64::from(is_behind);
        check_tip(&world, &tip)?;
        Ok((found, tip, by))
    }

    fn ask_root(&mut self, rig: &Rig, txid: &Hash, only_host: bool) -> Result<(bool, Tip), AnswerFault> {
        let mut body = txid.to_vec();
        body.resize(size_of::<RootReply>(), 0);
        let parse = |status, body: &[u8]| reply::root(status, body).map(|answer| (answer.result, answer.tip));
        let (found, tip, by) = self.answered(rig, (SPV_OP_ROOT, body), only_host, parse)?;
        match by {
            By::FastPath => self.checked.roots_of_fastpath += 1,
            By::Host => self.checked.roots_of_host += 1,
        }
        let world = rig.node.world();
        let expected = world.place(txid, &tip.hash).map(|(known, _)| {
            let height = known.line.len() as u32 - 1;
            (known.block.root, known.block.hash, height)
        });
        let found = found.map(|place| (place.root, place.block_hash, place.height));
        if found != expected {
            return stale(format!(
                "{by:?} answered {found:?} instead of {expected:?} at {tip:?}"
            ));
        }
        Ok((found.is_some(), tip))
    }

    fn ask_proof(&mut self, rig: &Rig, txid: &Hash, only_host: bool) -> Result<(), AnswerFault> {
        let mut body = txid.to_vec();
        body.resize(136 + 32 * PROOF_HASHES, 0);
        let parse = |status, body: &[u8]| match reply::proof(status, body, PROOF_HASHES)? {
            Proven::Answered(answer) => Some((answer.result, answer.tip)),
            Proven::TooLong(_) => None,
        };
        let (found, tip, by) = self.answered(rig, (SPV_OP_PROOF, body), only_host, parse)?;
        match by {
            By::FastPath => self.checked.proofs_of_fastpath += 1,
            By::Host => self.checked.proofs_of_host += 1,
        }
        let world = rig.node.world();
        let expected = world.place(txid, &tip.hash);
        let (proof, (known, position)) = match (found, expected) {
            (None, None) => return Ok(()),
            (Some(proof), Some(expected)) => (proof, expected),
            (found, _) => return stale(format!("a proof, {}, of {by:?} at {tip:?}", found.is_some())),
        };
        let place = (
            proof.header.to_bytes(),
            proof.height,
            proof.index,
            proof.transaction_count,
        );
        let header: [u8; 80] = *known.block.raw.first_chunk().unwrap();
        let height = known.line.len() as u32 - 1;
        if place != (header, height, position, known.block.txids.len() as u32) {
            return stale(format!("a proof of another block of {by:?} at {tip:?}"));
        }
        if folded(txid, position, proof.path.hashes()) != known.block.root {
            return untrue(format!("a path of {by:?} that does not lead to the root"));
        }
        Ok(())
    }

    fn ask_headers(&mut self, rig: &Rig) -> Result<(), AnswerFault> {
        let best = rig.node.world().best.len() as u32;
        let start = best.saturating_sub(self.random.below(30) as u32);
        let mut body = [start.to_be_bytes(), HEADERS.to_be_bytes()].concat();
        body.resize(48 + 80 * HEADERS as usize, 0);
        let count = HEADERS as usize;
        let parse = |status, body: &[u8]| {
            reply::headers(status, body, start, count).map(|answer| (answer.result, answer.tip))
        };
        let (found, tip, _) = self.answered(rig, (SPV_OP_HEADERS, body), true, parse)?;
        self.checked.headers += 1;
        let world = rig.node.world();
        let line = world
            .blocks
            .get(&tip.hash)
            .map_or(&[][..], |known| &known.line[..]);
        let expected = line.iter().skip(start as usize).take(count);
        let found: Vec<Hash> = found.iter().map(|header| header.hash()).collect();
        if !expected.eq(&found) {
            return stale(format!("other headers from {start} on at {tip:?}"));
        }
        Ok(())
    }

    /// Requests every transaction of the node's newest blocks, and some transactions of blocks that are no longer in
    /// the node's chain. Checks the answers after the host has caught up.
    fn check_settled(&mut self, rig: &Rig) -> Result<(), AnswerFault> {
        self.settle(rig)?;
        let (wanted, asked) = {
            let world = rig.node.world();
            let wanted = world.settled_tip();
            let line = wanted.map_or(&[][..], |(height, _)| &world.best[..=height as usize]);
            let newest = line.iter().rev().take(12);
            let of_blocks = newest.flat_map(|hash| world.blocks[hash].block.txids.iter());
            let mut asked: Vec<Hash> = of_blocks.copied().collect();
            asked.extend((0..60).map(|_| *self.random.pick(&world.txids)));
            (wanted, asked)
        };
        for txid in &asked {
            let (_, tip) = self.ask_root(rig, txid, false)?;
            if wanted.is_some_and(|wanted| wanted != (tip.height, tip.hash)) {
                return stale(format!(
                    "the tip is {tip:?} after the host had caught up to {wanted:?}"
                ));
            }
        }
        for _ in 0..12 {
            let txid = *self.random.pick(&asked);
            self.ask_proof(rig, &txid, false)?;
        }
        Ok(())
    }

    fn settle(&self, rig: &Rig) -> Result<(), AnswerFault> {
        if rig.settle(self.patience) {
            return Ok(());
        }
        let (tip, wanted) = (rig.host.tip(), rig.node.world().settled_tip());
        Err(AnswerFault::Stuck(format!(
            "{tip:?}, not {wanted:?}; {:?}",
            rig.follower.state()
        )))
    }

    /// Makes the node lose blocks, so that its chain has less work. The host must keep its own chain.
    fn lose_blocks(&mut self, rig: &Rig) -> Result<(), AnswerFault> {
        self.check_settled(rig)?;
        let kept = rig.host.tip();
        rig.node.change(|world| world.lose(5));
        let deadline = Instant::now() + self.patience;
        while rig.follower.state().away.is_none() {
            self.ask(rig)?;
            let lesser = rig.node.world().settled_tip();
            if rig.host.tip().map(|tip| (tip.height, tip.hash)) == lesser {
                return stale("a chain with less work was accepted");
            }
            if Instant::now() > deadline {
                return Err(AnswerFault::Stuck(
                    "the host did not notice that the node lost blocks".into(),
                ));
            }
            // One notification in eight is lost, so notify again.
            rig.node.change(|_| ());
        }
        if rig.host.tip() != kept {
            return stale("a chain with less work was accepted");
        }
        for _ in 0..ASKED {
            self.ask(rig)?;
        }
        rig.node.change(|world| world.mine(8));
        self.settle(rig)
    }
}

/// Checks that `tip` is a permitted tip of the host: a block that had enough confirmations in a chain of the node.
fn check_tip(world: &World, tip: &Tip) -> Result<(), AnswerFault> {
    if tip.hash == [0; 32] && tip.height == 0 {
        return Ok(());
    }
    match world.blocks.get(&tip.hash) {
        Some(known) if known.line.len() != tip.height as usize + 1 => {
            untrue(format!("{tip:?} at a wrong height"))
        }
        Some(_) if world.confirmed.contains(&tip.hash) => Ok(()),
        Some(_) => stale(format!("{tip:?} has too few confirmations")),
        None => untrue(format!("{tip:?} is not a block")),
    }
}

/// Returns the root that a path leads to.
fn folded(txid: &Hash, position: u32, path: &[Hash]) -> Hash {
    let mut node = *txid;
    for (level, sibling) in path.iter().enumerate() {
        let pair = if position >> level & 1 == 0 {
            [node, *sibling]
        } else {
            [*sibling, node]
        };
        node = sha256d::Hash::hash(pair.as_flattened()).to_byte_array();
    }
    node
}

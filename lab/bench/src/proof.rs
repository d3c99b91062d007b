//! `lineside-lab bench spv --proof` measures Merkle proofs by the fast path, the socket datapath, the Electrum server
//! and ElectrumX, over one chain in one run; the cost of a proof in the XDP program alone; and the cost of verifying a
//! proof.
//!
//! ```text
//!   client's namespace, core 0             server's namespace, core 1
//!     live frames: native `proof` --veth-->  XDP, or the socket datapath on a store of this process
//!   no namespace, core 0
//!     the scenario `electrum` ------------>  lineside spv serve, electrumx_server
//! ```
//!
//! The contestants on the veth pair run once in each round of the scenario `electrum`.

use crate::bpf::{Generator, PathEnds};
use crate::client::Tally;
use crate::electrum;
use crate::error::{BenchError, Result, void};
use crate::fastpath::{XdpFastPath, software_store_of};
use crate::field::CLIENT_CORE;
use crate::gate::Bound::{self, AtLeast, AtMost};
use crate::gate::{Gate, judge_only_if_quiet, median, write_gates};
use crate::live::{self, LiveRequest, Target};
use crate::netns::NamespacePair;
use crate::per_packet::{self, PerPacket};
use crate::progress::Progress;
use crate::servers::{self, ServerThread, Software, Truth};
use crate::workload::Workload;
use crate::wrong::WrongReplies;
use lineside_spv_proof::{Header, Network, TransactionProof, Tree};
use lineside_testkit::DemoBlock;
use lineside_wire::{SPV_HEADER_BYTES, SPV_PORT};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Number of hashes in a path for a block of 2,048 transactions.
const DEPTH: usize = 11;
/// Odd multiplier whose bits are well spread, which scatters consecutive numbers.
const SCATTER: usize = 0x9e37_79b1;
/// Number of proofs that are verified between two readings of the clock.
const VERIFIED_AT_ONCE: usize = 1_024;
/// Pass criteria: key, direction of the bound, required value (gate), stretch goal. Two further gates belong to the
/// scenario `electrum`.
const GATES: [(&str, Bound, f64, f64); 4] = [
    (TO_SOCKET, AtLeast, 4.0, 6.0),
    (TO_ELECTRUMX, AtLeast, 500.0, 2_000.0),
    (RANDOM_PROOF, AtMost, 450.0, 300.0),
    (VERIFICATION, AtMost, 15.0, 8.0),
];
const TO_SOCKET: &str = "proof xdp_max/socket";
const TO_ELECTRUMX: &str = "proof xdp_max/electrumx get_merkle";
const RANDOM_PROOF: &str = "random proof, ns";
const VERIFICATION: &str = "verification, us";

/// Returns the keys of the gates that a report of this scenario has.
pub fn gate_keys() -> impl Iterator<Item = &'static str> {
    GATES.into_iter().map(|gate| gate.0)
}

/// Report of the scenario.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Name of the scenario: `spv proof`.
    pub scenario: &'static str,
    /// Figures of Lineside's datapaths, by name.
    pub contestants: BTreeMap<&'static str, Figures>,
    /// Time in nanoseconds of one read from memory whose address depends on the read before, anywhere in 256 MiB.
    pub random_load_ns: f64,
    /// Cost of a native request for a proof that is always the same, which is the cost of the instructions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hot_proof: Option<PerPacket>,
    /// Cost of a native request for a proof of a transaction anywhere in the blocks, which is in the fast-path table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub random_proof: Option<PerPacket>,
    /// Median time in microseconds in which the client library verifies a proof.
    pub verification_us: f64,
    /// Medians of the rounds' ratios.
    pub ratios: BTreeMap<&'static str, f64>,
    /// Gates of this scenario.
    pub gates: BTreeMap<&'static str, Gate>,
    /// Wrong replies to live frames.
    pub wrong_replies: WrongReplies,
    /// Notes for the reader.
    pub notes: Vec<String>,
    /// Report of the Electrum protocol in the same run.
    pub electrum: electrum::Report,
}

/// Figures of a datapath with live frames: medians over the rounds, or sums where noted.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Figures {
    /// Number of right replies per second.
    pub rps: f64,
    /// Number of requests sent in all rounds.
    pub sent: u64,
    /// Number of requests without a reply in all rounds. The generator is an open loop, so requests are lost if the
    /// server is too slow.
    pub lost: u64,
    /// Number of wrong replies in all rounds.
    pub wrong: u64,
}

/// The two datapaths over the blocks of the chain, connected to the client by a veth pair.
struct ProofRig {
    pair: Arc<NamespacePair>,
    fastpath: XdpFastPath,
    generator: Generator,
    workload: Workload,
    truth: Truth,
    xdp: Vec<Tally>,
    socket: Vec<Tally>,
}

/// Measures everything, and calls `progress` before each step.
///
/// # Errors
/// Fails as the scenario `electrum` does, and if the process has no root rights or no BPF.
pub fn run(options: &electrum::Options, progress: &mut dyn FnMut(Progress)) -> Result<Report> {
    let mut line = None;
    let mut verification_us = f64::NAN;
    let report = electrum::run_with(options, progress, &mut |blocks, round| {
        if line.is_none() {
            verification_us = verification(blocks)?;
            line = Some(ProofRig::new(blocks)?);
        }
        line.as_mut()
            .map_or(Ok(()), |line| line.round(round, options.duration))
    })?;
    let Some(mut line) = line else {
        return Err(BenchError::Void("no round was run".into()));
    };
    let txids = line.workload.txids.len();
    let mut notes = vec![
        "live frames are an open loop at the highest rate of one core: requests are lost if the server is too slow"
            .into(),
    ];
    let mut cost_of = |txids| match per_packet::proof(&mut line.fastpath, &line.generator, txids) {
        Ok(cost) => Ok(Some(cost)),
        Err(BenchError::Void(why)) => {
            notes.push(format!(
                "the cost of a proof in the XDP program alone was not measured: {why}"
            ));
            Ok(None)
        }
        Err(error) => Err(error),
    };
    let costs = Costs {
        hot: cost_of(1)?,
        random: cost_of(txids)?,
        verification_us,
    };
    Ok(Report::new(&line, costs, notes, report))
}

/// Costs that are measured without a network.
struct Costs {
    hot: Option<PerPacket>,
    random: Option<PerPacket>,
    verification_us: f64,
}

impl ProofRig {
    fn new(blocks: &[DemoBlock]) -> Result<Self> {
        let trees: Vec<Tree> = (blocks.iter())
            .map(|block| Tree::new(&block.txids))
            .collect::<std::result::Result<_, _>>()
            .map_err(void)?;
        let (mut txids, mut paths) = (Vec::new(), Vec::new());
        let transactions = 1 << DEPTH;
        for number in 0..blocks.len() * transactions {
            // Consecutive requests are for different blocks, at positions without a pattern.
            let block = number % blocks.len();
            let index = (number / blocks.len()).wrapping_mul(SCATTER) % transactions;
            let path = trees[block].merkle_path(index as u32);
            let path = path.filter(|path| path.hashes().len() == DEPTH);
            let path =
                path.ok_or_else(|| BenchError::Void("a block does not have 2,048 transactions".into()))?;
            txids.push(blocks[block].txids[index]);
            paths.push(PathEnds {
                first: path.hashes()[0],
                last: path.hashes()[DEPTH - 1],
            });
        }
        let roots = blocks.iter().map(|block| block.root).collect();
        let workload = Workload { txids, roots };
        let generator = Generator::load(&workload)?;
        generator.write_paths(paths.into_iter())?;
        let store = software_store_of(blocks)?;
        Ok(Self {
            pair: Arc::new(NamespacePair::new()?),
            fastpath: XdpFastPath::load_blocks(blocks)?,
            generator,
            workload,
            truth: Truth {
                tree: Arc::default(),
                store,
            },
            xdp: Vec::new(),
            socket: Vec::new(),
        })
    }

    /// Sends requests to both datapaths; their order alternates between rounds.
    fn round(&mut self, round: usize, duration: Duration) -> Result<()> {
        for place in 0..2 {
            if (place + round).is_multiple_of(2) {
                let _attached = (self.pair.server).run(CLIENT_CORE, || self.fastpath.attach(&self.pair))?;
                self.xdp.push(self.drive(duration)?);
            } else {
                let server = servers::start(&self.pair, Software::Socket, &self.truth)?;
                let tally = self.drive(duration);
                ServerThread::end(server)?;
                self.socket.push(tally?);
            }
        }
        Ok(())
    }

    fn drive(&self, duration: Duration) -> Result<Tally> {
        let target = Target {
            port: SPV_PORT,
            asks: LiveRequest::Proof,
            one_by_one: false,
        };
        let interface = self.pair.client_index;
        (self.pair.client).run(CLIENT_CORE, || {
            live::run(&self.generator, interface, &self.workload, target, duration)
        })
    }
}

/// Returns the median time in microseconds in which the client library verifies a proof.
fn verification(blocks: &[DemoBlock]) -> Result<f64> {
    let mut times = Vec::new();
    for (height, block) in (0..).zip(blocks) {
        let tree = Tree::new(&block.txids).map_err(void)?;
        let header = block.raw.first_chunk::<SPV_HEADER_BYTES>();
        let header = Header::from_bytes(header.ok_or_else(|| void("a block has no header"))?);
        let proofs: Vec<_> = (0..)
            .zip(&block.txids)
            .take(VERIFIED_AT_ONCE)
            .filter_map(|(index, txid)| {
                let proof = TransactionProof {
                    header,
                    height,
                    transaction_count: tree.transaction_count(),
                    index,
                    path: tree.merkle_path(index)?,
                };
                Some((*txid, proof))
            })
            .collect();
        let start = Instant::now();
        for (txid, proof) in &proofs {
            proof.verify(Network::Regtest, txid).map_err(void)?;
        }
        times.push(start.elapsed().as_secs_f64() * 1e6 / proofs.len() as f64);
    }
    median(times.into_iter()).ok_or_else(|| void("no block to verify"))
}

impl Figures {
    fn of(rounds: &[Tally]) -> Self {
        let sum = |of: fn(&Tally) -> u64| rounds.iter().map(of).sum();
        Self {
            rps: median(rounds.iter().map(Tally::rps)).unwrap_or_default(),
            sent: sum(|tally| tally.sent),
            lost: sum(|tally| tally.lost),
            wrong: sum(|tally| tally.wrong.count),
        }
    }
}

impl Report {
    fn new(line: &ProofRig, costs: Costs, notes: Vec<String>, electrum: electrum::Report) -> Self {
        let contestants = BTreeMap::from([
            ("xdp_max", Figures::of(&line.xdp)),
            ("socket", Figures::of(&line.socket)),
        ]);
        let mut wrong_replies = WrongReplies::default();
        for (name, tallies) in [("xdp_max", &line.xdp), ("socket", &line.socket)] {
            for tally in tallies {
                let mut found = tally.wrong.clone();
                found.name(name, "native proof, live frames");
                wrong_replies.extend(&found);
            }
        }
        let pairs = line.xdp.iter().zip(&line.socket);
        let to_socket = median(pairs.map(|(xdp, socket)| xdp.rps() / socket.rps()));
        let electrumx = electrum.contestants.get("electrumx");
        let electrumx = electrumx.and_then(|contestant| contestant.get_merkle);
        let to_electrumx = electrumx
            .filter(|figures| figures.rps > 0.0)
            .map(|figures| contestants["xdp_max"].rps / figures.rps);
        let ratios = [(TO_SOCKET, to_socket), (TO_ELECTRUMX, to_electrumx)];
        let ratios: BTreeMap<_, _> = ratios
            .into_iter()
            .filter_map(|(key, ratio)| Some((key, ratio?)))
            .collect();
        let value = |key| match key {
            RANDOM_PROOF => costs.random.map(|cost| cost.median_ns),
            VERIFICATION => Some(costs.verification_us),
            key => ratios.get(key).copied(),
        };
        let judge = |(key, is, gate, stretch)| (key, Gate::judge(value(key), is, gate, Some(stretch), true));
        let mut gates = GATES.into_iter().map(judge).collect();
        judge_only_if_quiet(&mut gates, &electrum.machine, &[]);
        Self {
            scenario: "spv proof",
            gates,
            contestants,
            random_load_ns: electrum.machine.random_load_ns,
            hot_proof: costs.hot,
            random_proof: costs.random,
            verification_us: costs.verification_us,
            ratios,
            wrong_replies,
            notes,
            electrum,
        }
    }

    /// Returns the faults of the system itself: wrong replies, and lost requests where loss is not allowed. Low speed
    /// is not a fault.
    pub fn failures(&self) -> Vec<String> {
        let mut failures = self.electrum.failures();
        for (name, figures) in &self.contestants {
            if figures.wrong > 0 {
                failures.push(format!(
                    "{} wrong replies of {name} to live frames",
                    figures.wrong
                ));
            }
        }
        failures
    }

    /// Returns the report as JSON.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}

impl Display for Report {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.electrum)?;
        writeln!(
            out,
            "\n{:<36}{:>12}{:>12}{:>12}{:>8}",
            "native proof, live frames", "replies/s", "sent", "lost", "wrong"
        )?;
        for (name, figures) in &self.contestants {
            let Figures {
                rps,
                sent,
                lost,
                wrong,
            } = figures;
            writeln!(out, "{name:<36}{rps:>12.0}{sent:>12}{lost:>12}{wrong:>8}")?;
        }
        for (name, cost) in [("hot", self.hot_proof), ("random", self.random_proof)] {
            if let Some(PerPacket {
                min_ns, median_ns, ..
            }) = cost
            {
                writeln!(
                    out,
                    "xdp, {name} proof: {min_ns:.1} ns minimum, {median_ns:.1} ns median"
                )?;
            }
        }
        writeln!(out, "random read from memory: {:.0} ns", self.random_load_ns)?;
        write_gates(out, &self.gates)?;
        write!(out, "{}", self.wrong_replies)?;
        self.notes
            .iter()
            .try_for_each(|note| writeln!(out, "note: {note}"))
    }
}

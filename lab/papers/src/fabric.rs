//! Table of protocol performance of "Accelerating Hyperledger Fabric within SmartNIC" (Ji Yang, Chengchen Hu, Xilinx
//! Labs): bytes of a transaction's packet and the rate at which packets are processed, for 1 to 4 endorsements. A
//! second part uses blocks of other sizes, for which the paper gives no values.
//!
//! Generated blocks pass through the sender of the paper's packets and then through their receiver, both in memory on
//! one thread. The receiver checks each block's data hash, and every received block is compared with the sent one. The
//! paper measured its FPGA with a packet generator.

use crate::error::{PapersError, Result, writing};
use crate::section::{Figure, Finding, Paper, Section, Verdict};
use crate::table::{Table, number};
use lineside_bench::Progress;
use lineside_fabric_maker::{Blocks as MadeBlocks, Network, Options as Members, Workload};
use lineside_fabric_udp::BlockSink;
use lineside_fabric_udp::paper::{PaperReceiver, PaperSender, PaperSent};
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// Row of the paper's table for one number of endorsements.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PaperRow {
    /// Number of endorsements of a transaction.
    pub endorsements: usize,
    /// Value of the column "Packet Size \[Bytes\]".
    pub packet_bytes: u32,
    /// Value of the column "Max. Processing Rate \[Gbps\]".
    pub gbit_per_s: f64,
    /// Value of the column "Max. Processing Rate \[tps\]".
    pub tps: f64,
}

/// Rows of the paper's table.
pub const PAPER: [PaperRow; 4] = [
    paper(1, 921, 10.6, 1.14e6),
    paper(2, 1_002, 11.1, 1.11e6),
    paper(3, 1_080, 11.4, 1.05e6),
    paper(4, 1_164, 11.6, 996e3),
];

const fn paper(endorsements: usize, packet_bytes: u32, gbit_per_s: f64, tps: f64) -> PaperRow {
    PaperRow {
        endorsements,
        packet_bytes,
        gbit_per_s,
        tps,
    }
}

/// Number of transactions in a block when the number of endorsements varies.
const BLOCK: usize = 100;
/// Number of endorsements of a transaction when the block size varies.
const ENDORSEMENTS: usize = 2;
/// Number of bytes that a datagram takes on Ethernet in addition to its payload: preamble, headers, checksum and gap,
/// IP, UDP.
const FRAME_BYTES: u64 = 8 + 14 + 4 + 12 + 20 + 8;
/// Maximum size of a block in bytes.
const BLOCK_BYTES_MAX: usize = 256 << 20;
const KEYS: usize = 1_000;
const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Folder for the CSV file. It is created if it is missing.
    pub out: PathBuf,
    /// Seed of the network and of the blocks.
    pub seed: u64,
    /// Number of transactions of each case.
    pub transactions: u64,
    /// Number of rounds of each case; each rate is the median of its rounds.
    pub rounds: usize,
    /// Block sizes as numbers of transactions.
    pub blocks: Vec<usize>,
}

impl Options {
    /// Returns the options of the full run.
    pub fn new(out: PathBuf) -> Self {
        Self {
            out,
            seed: 1,
            transactions: 20_000,
            rounds: 5,
            blocks: vec![10, 50, 100, 250, 500, 1_000],
        }
    }

    /// Returns the options of a short run, with fewer transactions and fewer block sizes.
    pub fn quick(out: PathBuf) -> Self {
        Self {
            transactions: 2_000,
            rounds: 2,
            blocks: vec![10, 100, 500],
            ..Self::new(out)
        }
    }
}

/// Row of the table of results.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// Number of endorsements of a transaction.
    pub endorsements: usize,
    /// Number of transactions in a block.
    pub block: usize,
    /// Number of bytes of a transaction in its block, including its share of the rest of the block.
    pub block_bytes: f64,
    /// Number of bytes of a transaction's packet, without updates of the identity cache.
    pub packet_bytes: f64,
    /// Bytes that the packets save, as a percentage of the bytes of the blocks.
    pub saved_percent: f64,
    /// Rate of the sender in transactions per second.
    pub sender_tps: f64,
    /// Rate of the receiver in transactions per second.
    pub receiver_tps: f64,
    /// Data rate on Ethernet that corresponds to the receiver's rate, in 10^9 bits per second.
    pub receiver_gbit_per_s: f64,
    /// The paper's values, if it has this case.
    pub paper: Option<PaperRow>,
}

/// Creates the table, and calls `progress` before each case.
///
/// # Errors
/// The file cannot be written, or no block has packets.
pub fn run(options: &Options, progress: &mut dyn FnMut(Progress)) -> Result<Section> {
    let began = Instant::now();
    fs::create_dir_all(&options.out).map_err(writing(&options.out))?;
    let endorsed = PAPER.map(|paper| (paper.endorsements, BLOCK));
    let sized = options.blocks.iter().map(|block| (ENDORSEMENTS, *block));
    let cases: Vec<_> = endorsed.into_iter().chain(sized).collect();
    let (mut rows, mut wrong) = (Vec::new(), 0);
    for (done, (endorsements, block)) in cases.iter().enumerate() {
        progress(Progress {
            doing: "making, sending and receiving blocks",
            done,
            of: cases.len(),
        });
        let mut row = measure(options, *endorsements, *block, &mut wrong)?;
        row.paper = PAPER
            .into_iter()
            .find(|paper| (paper.endorsements, BLOCK) == (*endorsements, *block) && done < PAPER.len());
        rows.push(row);
    }
    let file = options.out.join("fabric-packets.csv");
    table(&rows).write(&file)?;
    let wrong = (wrong > 0).then(|| format!("{wrong} received blocks differ from the sent ones"));
    Ok(Section {
        paper: Paper::Fabric,
        command: "lineside-lab papers fabric".into(),
        findings: rows.iter().flat_map(findings).collect(),
        figures: vec![Figure {
            title: "Table of protocol performance, and block sizes".into(),
            svg: None,
            csv: Some(file),
        }],
        not_measured: Vec::new(),
        warnings: Vec::new(),
        failures: wrong.into_iter().collect(),
        took_s: began.elapsed().as_secs_f64(),
    })
}

/// Returns the findings of a row of the paper's table.
fn findings(row: &Row) -> Vec<Finding> {
    let Some(paper) = row.paper else {
        return Vec::new();
    };
    let finding = |quantity: &str, words: String, values: (f64, f64), unit, remark: &str| Finding {
        figure: "protocol table".into(),
        quantity: format!("{quantity}, {} endorsements", row.endorsements),
        paper: words,
        paper_value: Some(values.0),
        ours: Some(values.1),
        unit,
        remark: remark.into(),
        verdict: Verdict::None,
    };
    let bytes = f64::from(paper.packet_bytes);
    vec![
        finding(
            "bytes of a transaction's packet",
            format!("{bytes} B"),
            (bytes, row.packet_bytes),
            "B",
            "",
        ),
        finding(
            "rate of the receiver",
            format!("{:.2} M tps", paper.tps / 1e6),
            (paper.tps, row.receiver_tps),
            "tps",
            "",
        ),
        finding(
            "data rate of the receiver",
            format!("{} Gb/s", paper.gbit_per_s),
            (paper.gbit_per_s, row.receiver_gbit_per_s),
            "Gb/s",
            "",
        ),
    ]
}

/// Receiver that compares each block with the sent one.
struct ComparingReceiver<'b> {
    expected: &'b [u8],
    right: u64,
}

impl BlockSink for ComparingReceiver<'_> {
    fn on_block(&mut self, _: u64, bytes: Vec<u8>) {
        self.right += u64::from(bytes == self.expected);
    }

    fn on_gap(&mut self, _: u64, _: u64) {}
}

/// Number of a block, its bytes, and its packets.
type Packets = (u64, Vec<u8>, Vec<Vec<u8>>);

fn measure(options: &Options, endorsements: usize, block: usize, wrong: &mut u64) -> Result<Row> {
    let members = Members {
        orgs: 2,
        peers: endorsements.div_ceil(2),
        clients: 50,
        ..Members::default()
    };
    let workload = Workload {
        keys: KEYS,
        endorsements,
        creators: 100,
        block,
        transactions: options.transactions,
        ..Workload::default()
    };
    let network = Arc::new(Network::new(options.seed, members));
    let made: Vec<(u64, Vec<u8>)> = MadeBlocks::new(network, workload, 2)
        .map(|made| (made.number, made.bytes))
        .collect();
    let (mut sender_tps, mut receiver_tps, mut sent) = (Vec::new(), Vec::new(), PaperSent::default());
    for _ in 0..options.rounds.max(1) {
        let (all, counted, seconds) = send(&made)?;
        sender_tps.push(counted.transactions as f64 / seconds);
        let (right, seconds) = receive(&all);
        receiver_tps.push(counted.transactions as f64 / seconds);
        *wrong += counted.blocks - right;
        sent = counted;
    }
    let share = |bytes: u64| bytes as f64 / sent.transactions as f64;
    let receiver = median(receiver_tps);
    let on_wire = share(sent.bytes + sent.datagrams * FRAME_BYTES);
    Ok(Row {
        endorsements,
        block,
        block_bytes: share(sent.block_bytes),
        packet_bytes: share(sent.transaction_bytes),
        saved_percent: 100.0 - 100.0 * sent.bytes as f64 / sent.block_bytes as f64,
        sender_tps: median(sender_tps),
        receiver_tps: receiver,
        receiver_gbit_per_s: receiver * on_wire * 8.0 / 1e9,
        paper: None,
    })
}

/// Returns the packets of all blocks that have packets, the counters of the sender, and the time in seconds that
/// sending took.
fn send(made: &[(u64, Vec<u8>)]) -> Result<(Vec<Packets>, PaperSent, f64)> {
    let (mut sender, mut all, mut seconds) = (PaperSender::new(), Vec::new(), 0.0);
    for (number, block) in made {
        let began = Instant::now();
        let packets = sender.packets(block);
        seconds += began.elapsed().as_secs_f64();
        // The genesis block and configuration blocks have no packets.
        if let Ok(packets) = packets {
            all.push((*number, block.clone(), packets));
        }
    }
    match all.is_empty() {
        true => Err(PapersError::NotMade(
            "no block can be sent in the paper's packets".to_owned(),
        )),
        false => Ok((all, sender.sent(), seconds)),
    }
}

/// Returns the number of received blocks that equal the sent ones, and the time in seconds.
fn receive(all: &[Packets]) -> (u64, f64) {
    let mut receiver = PaperReceiver::new(|from| from == HERE, 0, BLOCK_BYTES_MAX);
    let (mut right, mut seconds) = (0, 0.0);
    for (number, block, packets) in all {
        receiver.set_next(*number);
        let mut compared = ComparingReceiver {
            expected: block,
            right: 0,
        };
        let began = Instant::now();
        for packet in packets {
            receiver.datagram(HERE, packet, &mut compared);
        }
        seconds += began.elapsed().as_secs_f64();
        right += compared.right;
    }
    (right, seconds)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new(&[
        "endorsements",
        "block",
        "block_bytes_per_tx",
        "packet_bytes",
        "paper_packet_bytes",
        "saved_percent",
        "sender_tps",
        "receiver_tps",
        "paper_tps",
        "receiver_gbit_per_s",
        "paper_gbit_per_s",
    ]);
    for row in rows {
        let of_paper =
            |value: fn(&PaperRow) -> f64| row.paper.map_or(String::new(), |paper| number(value(&paper)));
        table.push([
            row.endorsements.to_string(),
            row.block.to_string(),
            number(row.block_bytes),
            number(row.packet_bytes),
            of_paper(|paper| f64::from(paper.packet_bytes)),
            number(row.saved_percent),
            number(row.sender_tps),
            number(row.receiver_tps),
            of_paper(|paper| paper.tps),
            number(row.receiver_gbit_per_s),
            of_paper(|paper| paper.gbit_per_s),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a small run, every received block must equal the sent one. Each endorsement must add less than the size of an
    /// identity to a packet, because the sender removes identities.
    #[test]
    fn each_endorsement_adds_a_signature_to_a_packet() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options {
            transactions: 60,
            rounds: 1,
            blocks: vec![10],
            ..Options::new(folder.path().join("out"))
        };
        let section = run(&options, &mut |_| ()).unwrap();
        assert_eq!(section.failures, Vec::<String>::new());
        assert_eq!(section.findings.len(), 3 * PAPER.len());
        let bytes: Vec<_> = section.findings.iter().step_by(3).collect();
        for (finding, paper) in bytes.iter().zip(&PAPER) {
            assert_eq!(finding.paper_value, Some(f64::from(paper.packet_bytes)));
        }
        for pair in bytes.windows(2) {
            let grown = pair[1].ours.unwrap() - pair[0].ours.unwrap();
            assert!((70.0..200.0).contains(&grown), "{grown}");
        }
        let csv = fs::read_to_string(section.files()[0]).unwrap();
        assert_eq!(csv.lines().count(), 6);
    }
}

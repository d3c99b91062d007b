//! Bytes and rates of the paper's packets, in memory and on one thread.

use super::{Options, PAPER, PaperRow};
use crate::error::{PapersError, Result};
use crate::table::{Table, number};
use lineside_bench::figures::{median, thread_ns};
use lineside_fabric_maker::{Blocks as MadeBlocks, Chaincode, Network, Options as Members, Workload};
use lineside_fabric_udp::BlockSink;
use lineside_fabric_udp::paper::{PaperReceiver, PaperSender, PaperSent};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

/// Number of transactions in a block when the number of endorsements varies.
pub(super) const BLOCK: usize = 100;
/// Number of endorsements of a transaction when the block size varies.
pub(super) const ENDORSEMENTS: usize = 2;
/// Number of bytes that a datagram takes on Ethernet in addition to its payload: preamble, headers, checksum and gap,
/// IP, UDP.
pub(super) const FRAME_BYTES: u64 = 8 + 14 + 4 + 12 + 20 + 8;
/// Maximum size of a block in bytes.
const BLOCK_BYTES_MAX: usize = 256 << 20;
const KEYS: usize = 1_000;
/// Number of keys that one transaction creates.
const CREATED_AT_ONCE: usize = 100;
const CREATORS: usize = 100;
const ORGS: usize = 2;
const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Parameters of the transactions and blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Case {
    pub(super) chaincode: Chaincode,
    /// Number of endorsements of a transaction.
    pub(super) endorsements: usize,
    /// Number of transactions in a block.
    pub(super) block: usize,
}

/// Values of a case.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Row {
    pub(super) case: Case,
    /// Number of bytes of a transaction in its block, including its share of the rest of the block.
    pub(super) block_bytes: f64,
    /// Number of bytes of a transaction's packet, without updates of the identity cache.
    pub(super) packet_bytes: f64,
    /// Number of bytes on Ethernet for each transaction, of all datagrams.
    pub(super) wire_bytes: f64,
    /// Bytes that the datagrams save, as a percentage of the bytes of the blocks.
    pub(super) saved_percent: f64,
    /// Rate of the sender in transactions per second of one thread's processor time.
    pub(super) sender_tps: f64,
    /// Rate of the receiver in transactions per second of one thread's processor time.
    pub(super) receiver_tps: f64,
    /// Data rate on Ethernet that corresponds to the receiver's rate, in 10^9 bits per second.
    pub(super) receiver_gbit_per_s: f64,
}

impl Row {
    /// Returns the paper's values, if it has this case.
    pub(super) fn paper(&self) -> Option<PaperRow> {
        let is_papers = self.case.chaincode == Chaincode::Smallbank && self.case.block == BLOCK;
        let mut rows = PAPER.into_iter().filter(|_| is_papers);
        rows.find(|paper| paper.endorsements == self.case.endorsements)
    }

    /// Returns the number of a block's bytes for each byte of its datagrams.
    pub(super) fn compression(&self) -> f64 {
        1.0 / (1.0 - self.saved_percent / 100.0)
    }
}

/// Returns the cases: 1 to 4 endorsements for both chaincodes of the paper, and the sizes of blocks.
pub(super) fn cases(options: &Options) -> Vec<Case> {
    let endorsed = [Chaincode::Smallbank, Chaincode::Drm]
        .into_iter()
        .flat_map(|chaincode| {
            PAPER.iter().map(move |paper| Case {
                chaincode,
                endorsements: paper.endorsements,
                block: BLOCK,
            })
        });
    let sized = options.blocks.iter().map(|&block| Case {
        chaincode: Chaincode::Smallbank,
        endorsements: ENDORSEMENTS,
        block,
    });
    let sized = sized.filter(|case| case.block != BLOCK);
    endorsed.chain(sized).collect()
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

/// Measures a case. Adds the number of received blocks that differ from the sent ones to `wrong`.
///
/// # Errors
/// No block has packets.
pub(super) fn measure(options: &Options, case: Case, wrong: &mut u64) -> Result<Row> {
    let Case {
        chaincode,
        endorsements,
        block,
    } = case;
    let members = Members {
        orgs: ORGS,
        peers: endorsements.div_ceil(ORGS),
        clients: CREATORS / ORGS,
        ..Members::default()
    };
    let workload = Workload {
        chaincode,
        keys: KEYS,
        endorsements,
        creators: CREATORS,
        block,
        transactions: options.transactions,
        ..Workload::default()
    };
    let network = Arc::new(Network::new(options.seed, members));
    // The blocks before the first one create the channel, the chaincode and its keys.
    let first = (1 + ORGS + 1 + KEYS.div_ceil(CREATED_AT_ONCE).div_ceil(block)) as u64;
    let made: Vec<(u64, Vec<u8>)> = MadeBlocks::new(network, workload, 2)
        .map(|made| (made.number, made.bytes))
        .filter(|(number, _)| *number >= first)
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
    let receiver = median(receiver_tps.into_iter()).unwrap_or_default();
    let wire_bytes = share(sent.bytes + sent.datagrams * FRAME_BYTES);
    Ok(Row {
        case,
        block_bytes: share(sent.block_bytes),
        packet_bytes: share(sent.transaction_bytes),
        saved_percent: 100.0 - 100.0 * sent.bytes as f64 / sent.block_bytes as f64,
        sender_tps: median(sender_tps.into_iter()).unwrap_or_default(),
        receiver_tps: receiver,
        wire_bytes,
        receiver_gbit_per_s: receiver * wire_bytes * 8.0 / 1e9,
    })
}

/// Returns the packets of all blocks that have packets, the counters of the sender, and the processor time in
/// seconds that sending took.
fn send(made: &[(u64, Vec<u8>)]) -> Result<(Vec<Packets>, PaperSent, f64)> {
    let (mut sender, mut all, mut seconds) = (PaperSender::new(), Vec::new(), 0.0);
    for (number, block) in made {
        let began_ns = thread_ns();
        let packets = sender.packets(block);
        seconds += (thread_ns() - began_ns) as f64 / 1e9;
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

/// Returns the number of received blocks that equal the sent ones, and the processor time in seconds.
fn receive(all: &[Packets]) -> (u64, f64) {
    let mut receiver = PaperReceiver::new(|from| from == HERE, 0, BLOCK_BYTES_MAX);
    let (mut right, mut seconds) = (0, 0.0);
    for (number, block, packets) in all {
        receiver.set_next(*number);
        let mut compared = ComparingReceiver {
            expected: block,
            right: 0,
        };
        let began_ns = thread_ns();
        for packet in packets {
            receiver.datagram(HERE, packet, &mut compared);
        }
        seconds += (thread_ns() - began_ns) as f64 / 1e9;
        right += compared.right;
    }
    (right, seconds)
}

/// Returns all rows with the paper's values.
pub(super) fn table(rows: &[Row]) -> Table {
    let mut table = Table::new(&[
        "chaincode",
        "endorsements",
        "block",
        "block_bytes_per_tx",
        "packet_bytes",
        "paper_packet_bytes",
        "wire_bytes_per_tx",
        "saved_percent",
        "sender_tps",
        "receiver_tps",
        "paper_tps",
        "receiver_gbit_per_s",
        "paper_gbit_per_s",
    ]);
    for row in rows {
        let of_paper = |value: fn(&PaperRow) -> f64| {
            row.paper()
                .map_or_else(String::new, |paper| number(value(&paper)))
        };
        table.push([
            row.case.chaincode.name().to_owned(),
            row.case.endorsements.to_string(),
            row.case.block.to_string(),
            number(row.block_bytes),
            number(row.packet_bytes),
            of_paper(|paper| f64::from(paper.packet_bytes)),
            number(row.wire_bytes),
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

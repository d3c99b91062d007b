//! Load on `spv`: locations and proofs of known transactions, compared with the server's chain of headers.

use super::draws::Draws;
use super::{Judgement, Kind, LoadError, Result, Traffic, setup, status_name};
use lineside_client::spv::Client;
use lineside_client::spv::reply;
use lineside_testkit::Random;
use lineside_util::hex::{from_display, to_display};
use lineside_wire::{
    ProofReply, RootReply, SPV_HEADERS_MAX, SPV_HEIGHT_UNKNOWN, SPV_OP_PROOF, SPV_OP_ROOT, Status, native,
};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use zerocopy::IntoBytes;

type Hash = [u8; 32];

/// Number of hashes of a path for which a request has space: enough for blocks of 16,384 transactions.
const PATH_ROOM: usize = 14;

/// Time to wait for each answer of the server's Electrum port.
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);

/// Options of the load.
#[derive(Clone, Debug)]
pub struct Options {
    /// Share of requests for proofs, in percent; the others ask for locations.
    pub proof_percent: u64,
    /// One of this number of proofs is verified whole; the others only by their headers.
    pub verify_every: u64,
    /// True if transactions are drawn by Zipf's law.
    pub is_zipf: bool,
    /// Seed of the drawn transactions.
    pub seed: u64,
}

/// The server's chain when the load began: hash and Merkle root of each block, by height.
#[derive(Debug)]
pub struct KnownChain(Vec<(Hash, Hash)>);

impl KnownChain {
    /// Fetches all headers from the server, and checks that each one follows the one before it.
    ///
    /// # Errors
    /// The server does not answer, or its headers are not a chain.
    pub fn fetch(server: SocketAddr, timeout: Duration) -> Result<Self> {
        let mut client = Client::connect(server, timeout).map_err(setup)?;
        let mut blocks: Vec<(Hash, Hash)> = Vec::new();
        loop {
            let start = u32::try_from(blocks.len()).map_err(setup)?;
            let answer = client.headers(start, SPV_HEADERS_MAX).map_err(setup)?;
            for header in &answer.result {
                let follows = blocks.last().is_none_or(|(hash, _)| *hash == header.previous);
                if !follows {
                    return Err(LoadError::Setup(format!(
                        "{server}: the header at height {} does not follow the one before it; start the load again if \
                         the chain was reorganised",
                        blocks.len()
                    )));
                }
                blocks.push((header.hash(), header.merkle_root));
            }
            if answer.result.is_empty() {
                return Ok(Self(blocks));
            }
        }
    }

    /// Checks a block in an answer. Returns false if it cannot be checked: it is detached, or above the known chain.
    ///
    /// # Errors
    /// The reason why the block is wrong.
    fn check(&self, height: u32, hash: &Hash, root: &Hash) -> std::result::Result<bool, String> {
        if height == SPV_HEIGHT_UNKNOWN {
            return Ok(false);
        }
        let Some(known) = self.0.get(height as usize) else {
            return Ok(false);
        };
        if (hash, root) == (&known.0, &known.1) {
            return Ok(true);
        }
        Err(format!(
            "block {} with the root {} is not the block at height {height} ({})",
            to_display(hash),
            to_display(root),
            to_display(&known.0)
        ))
    }
}

/// Reads TXIDs from a file: one a line, as block explorers print them. Empty lines, and lines that begin with `#`, are
/// skipped.
///
/// # Errors
/// The file cannot be read, a line is not a TXID, or the file has no TXID.
pub fn read_txids(path: &Path) -> Result<Vec<Hash>> {
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|error| setup(format!("{}: {error}", path.display())))?;
    let mut txids = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let txid = from_display(line).ok_or_else(|| {
            let place = format!("{}:{}", path.display(), number + 1);
            setup(format!(
                "{place}: a line is a TXID of 64 hex digits, as block explorers print it"
            ))
        })?;
        txids.push(txid);
    }
    match txids.is_empty() {
        true => Err(setup(format!("{}: the file contains no TXID", path.display()))),
        false => Ok(txids),
    }
}

/// Fetches `count` TXIDs at random places of the chain: from the server's Electrum port, and the numbers of
/// transactions in the blocks from proofs of their coinbases.
///
/// # Errors
/// The server does not answer, or its answers are malformed.
pub fn fetch_txids(
    electrum: SocketAddr,
    server: SocketAddr,
    chain: &KnownChain,
    count: u32,
    seed: u64,
) -> Result<Vec<Hash>> {
    let at = |error: &dyn std::fmt::Display| setup(format!("{electrum} (Electrum): {error}"));
    let stream = TcpStream::connect_timeout(&electrum, FETCH_TIMEOUT).map_err(|error| at(&error))?;
    stream
        .set_read_timeout(Some(FETCH_TIMEOUT))
        .map_err(|error| at(&error))?;
    let mut reader = BufReader::new(stream.try_clone().map_err(|error| at(&error))?);
    let mut txid_at = |height: usize, position: u32| -> Result<Hash> {
        let request = json!({
            "jsonrpc": "2.0", "id": height, "method": "blockchain.transaction.id_from_pos",
            "params": [height, position, false],
        });
        let mut line = String::new();
        (&stream)
            .write_all(format!("{request}\n").as_bytes())
            .map_err(|error| at(&error))?;
        reader.read_line(&mut line).map_err(|error| at(&error))?;
        let reply: Value = serde_json::from_str(&line).map_err(|error| at(&error))?;
        let txid = reply["result"].as_str().and_then(from_display);
        txid.ok_or_else(|| at(&format!("the reply has no TXID: {}", line.trim_end())))
    };
    let mut client = Client::connect(server, FETCH_TIMEOUT).map_err(setup)?;
    let (mut random, mut sizes) = (Random(seed), std::collections::HashMap::new());
    let mut txids = Vec::with_capacity(count as usize);
    while txids.len() < count as usize {
        let height = random.index(chain.0.len());
        let size = match sizes.get(&height) {
            Some(size) => *size,
            None => {
                let coinbase = txid_at(height, 0)?;
                let proof = client.proof(&coinbase).map_err(setup)?.result;
                let size = proof.map_or(1, |proof| proof.transaction_count);
                sizes.insert(height, size);
                size
            }
        };
        txids.push(txid_at(height, random.below(size.into()) as u32)?);
    }
    Ok(txids)
}

/// Request in flight.
#[derive(Debug)]
pub struct Asked {
    txid: usize,
    is_proof: bool,
    is_verified: bool,
}

/// Requests of one thread.
pub struct SpvTraffic {
    options: Options,
    txids: Arc<[Hash]>,
    draws: Draws,
    chain: Arc<KnownChain>,
    random: Random,
    proofs_asked: u64,
    located: u64,
    proofs: u64,
    verified: u64,
    unchecked: u64,
}

impl SpvTraffic {
    /// Returns the requests of each thread. `txids` is not empty.
    pub fn of_threads(
        options: &Options,
        txids: &Arc<[Hash]>,
        chain: &Arc<KnownChain>,
        threads: usize,
    ) -> Vec<Self> {
        let draws = Draws::new(txids.len() as u64, options.is_zipf);
        let mut seeds = Random(options.seed);
        let traffic = |_| Self {
            options: options.clone(),
            txids: txids.clone(),
            draws: draws.clone(),
            chain: chain.clone(),
            random: Random(seeds.next()),
            proofs_asked: 0,
            located: 0,
            proofs: 0,
            verified: 0,
            unchecked: 0,
        };
        (0..threads).map(traffic).collect()
    }

    fn check_block(&mut self, height: u32, hash: &Hash, root: &Hash) -> std::result::Result<(), String> {
        self.unchecked += u64::from(!self.chain.check(height, hash, root)?);
        Ok(())
    }

    /// Checks the tip in an answer: a tip at a known height is the known block, unless the chain was reorganised.
    fn check_tip(&self, height: u32, hash: &Hash) -> std::result::Result<(), String> {
        match self.chain.0.get(height as usize) {
            Some((known, _)) if known != hash => Err(format!(
                "the tip {} is not the block at height {height}",
                to_display(hash)
            )),
            _ => Ok(()),
        }
    }

    fn judge_root(&mut self, txid: &Hash, status: Status, body: &[u8]) -> std::result::Result<(), String> {
        let answer = reply::root(status, body).ok_or("the reply to `root` is malformed")?;
        self.check_tip(answer.tip.height, &answer.tip.hash)?;
        let Some(place) = answer.result else {
            return Err(format!(
                "the transaction {} is unknown to the server",
                to_display(txid)
            ));
        };
        self.check_block(place.height, &place.block_hash, &place.root)?;
        self.located += 1;
        Ok(())
    }

    fn judge_proof(
        &mut self,
        txid: &Hash,
        is_verified: bool,
        status: Status,
        body: &[u8],
    ) -> std::result::Result<Option<Judgement>, String> {
        let proven = reply::proof(status, body, PATH_ROOM).ok_or("the reply to `proof` is malformed")?;
        let reply::Proven::Answered(answer) = proven else {
            return Ok(Some(Judgement::Refused("too_long".into())));
        };
        self.check_tip(answer.tip.height, &answer.tip.hash)?;
        let Some(proof) = answer.result else {
            return Err(format!(
                "the transaction {} is unknown to the server",
                to_display(txid)
            ));
        };
        self.check_block(proof.height, &proof.header.hash(), &proof.header.merkle_root)?;
        if is_verified {
            proof
                .verify_path(txid)
                .map_err(|error| format!("the proof of {} is wrong: {error}", to_display(txid)))?;
            self.verified += 1;
        }
        self.proofs += 1;
        Ok(None)
    }
}

impl Traffic for SpvTraffic {
    type Asked = Asked;

    fn draw(&mut self) -> Option<Kind> {
        Some(Kind::Read)
    }

    fn ask(&mut self, _kind: Kind, id: u64, out: &mut Vec<u8>) -> Result<Option<Asked>> {
        let txid = self.draws.draw(&mut self.random) as usize;
        let is_proof = self.random.percent(self.options.proof_percent);
        let (op, body) = match is_proof {
            false => (SPV_OP_ROOT, size_of::<RootReply>()),
            true => (
                SPV_OP_PROOF,
                size_of::<ProofReply>() + PATH_ROOM * size_of::<Hash>(),
            ),
        };
        let header = native::request_header(op, id, body as u16);
        out.extend_from_slice(header.as_bytes());
        out.extend_from_slice(&self.txids[txid]);
        out.resize(header.as_bytes().len() + body, 0);
        self.proofs_asked += u64::from(is_proof);
        Ok(Some(Asked {
            txid,
            is_proof,
            is_verified: self.proofs_asked.is_multiple_of(self.options.verify_every.max(1)),
        }))
    }

    fn case(&self, asked: &Asked) -> &'static str {
        if asked.is_proof { "proof" } else { "root" }
    }

    fn judge(&mut self, asked: Asked, status: Status, body: &[u8]) -> Judgement {
        if !matches!(status, Status::Ok | Status::Unknown | Status::TooLong) {
            return Judgement::Refused(status_name(status));
        }
        let txid = self.txids[asked.txid];
        let judged = match asked.is_proof {
            false => self.judge_root(&txid, status, body).map(|()| None),
            true => self.judge_proof(&txid, asked.is_verified, status, body),
        };
        match judged {
            Ok(None) => Judgement::Right,
            Ok(Some(judgement)) => judgement,
            Err(why) => Judgement::Wrong(why),
        }
    }

    fn lost(&mut self, _asked: Asked) {}

    fn counts(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("locations", self.located),
            ("proofs", self.proofs),
            ("proofs_verified", self.verified),
            ("blocks_not_checked", self.unchecked),
        ]
    }
}

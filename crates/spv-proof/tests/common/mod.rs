//! Common parts of the tests: the vectors, hexadecimal text, and mined headers of networks without difficulty.

#![allow(dead_code, reason = "each test uses a part")]

use lineside_spv_proof::{
    Hash, Header, MerklePath, Network, ProofError, TransactionProof, WitnessProof, decode_target,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};

/// Bytes that a vector file has as hexadecimal digits.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
pub struct Hex(pub Vec<u8>);

impl TryFrom<String> for Hex {
    type Error = String;

    fn try_from(text: String) -> Result<Hex, String> {
        let text = text.replace('\n', "");
        let pair = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).map_err(|error| error.to_string());
        (0..text.len())
            .step_by(2)
            .map(pair)
            .collect::<Result<_, _>>()
            .map(Hex)
    }
}

impl Hex {
    /// Returns the bytes as an array.
    pub fn array<const N: usize>(&self) -> [u8; N] {
        self.0.as_slice().try_into().expect("as many bytes as expected")
    }
}

/// Returns `bytes` as hexadecimal digits; `-` if there are no bytes, as the C test program expects.
pub fn hex(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    if digits.is_empty() { "-".into() } else { digits }
}

/// Reads the vectors of one file in `vectors/spv-proof`.
pub fn vectors<T: DeserializeOwned>(name: &str) -> Vec<T> {
    #[derive(Deserialize)]
    struct File<T> {
        vector: Vec<T>,
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/spv-proof");
    let path = folder.join(format!("{name}.toml"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let file: File<T> = toml::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
    file.vector
}

/// Test vector of a proof by TXID or by WTXID, as in the files of `vectors/spv-proof`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProofVector {
    pub what: String,
    pub network: String,
    pub header: Hex,
    pub height: u32,
    pub transaction_count: u32,
    pub index: u32,
    pub path: Vec<Hex>,
    pub txid: Option<Hex>,
    pub raw: Option<Hex>,
    pub wtxid: Option<Hex>,
    pub coinbase: Option<Hex>,
    pub coinbase_path: Option<Vec<Hex>>,
    pub witness_reserved: Option<Hex>,
    pub expect: String,
    pub code: i32,
}

impl ProofVector {
    pub fn network(&self) -> Network {
        self.network.parse().expect("a network")
    }

    fn path_of(hashes: &[Hex]) -> Result<MerklePath, ProofError> {
        let hashes: Vec<Hash> = hashes.iter().map(Hex::array).collect();
        MerklePath::new(&hashes)
    }

    pub fn proof(&self) -> Result<TransactionProof, ProofError> {
        Ok(TransactionProof {
            header: Header::from_bytes(&self.header.array()),
            height: self.height,
            transaction_count: self.transaction_count,
            index: self.index,
            path: ProofVector::path_of(&self.path)?,
        })
    }

    /// Verifies the proof by TXID, by the transaction's bytes if the vector has them, or by WTXID.
    pub fn verify(&self) -> Result<(), ProofError> {
        let (proof, network) = (self.proof()?, self.network());
        match (&self.wtxid, &self.raw, &self.txid) {
            (Some(wtxid), _, _) => {
                let coinbase = &self.coinbase.as_ref().expect("a coinbase").0;
                let witness = WitnessProof {
                    header: proof.header,
                    height: proof.height,
                    transaction_count: proof.transaction_count,
                    index: proof.index,
                    path: proof.path,
                    coinbase,
                    coinbase_path: ProofVector::path_of(self.coinbase_path.as_ref().expect("a path"))?,
                    witness_reserved: self.witness_reserved.as_ref().expect("a value").array(),
                };
                witness.verify(network, &wtxid.array())
            }
            (_, Some(raw), Some(txid)) => {
                let found = proof.verify_transaction(network, &raw.0)?;
                assert_eq!(found, txid.array(), "{}", self.what);
                Ok(())
            }
            (_, None, Some(txid)) => proof.verify(network, &txid.array()),
            _ => panic!("{}: no id", self.what),
        }
    }

    /// Returns this vector as an input line for the C test program, which verifies proofs with `clients/c`. The
    /// function `judged_in_c` in vectors.rs builds and runs that program.
    pub fn line(&self) -> String {
        let join = |hashes: &[Hex]| hex(&hashes.iter().flat_map(|hash| hash.0.clone()).collect::<Vec<_>>());
        let text = |bytes: &Option<Hex>| hex(&bytes.as_ref().map_or(vec![], |bytes| bytes.0.clone()));
        let kind = match (&self.wtxid, &self.raw) {
            (Some(_), _) => "witness",
            (_, Some(_)) => "raw",
            _ => "proof",
        };
        let id = match kind {
            "witness" => text(&self.wtxid),
            "raw" => text(&self.raw),
            _ => text(&self.txid),
        };
        let mut line = format!(
            "{kind} {:08x} {} {} {} {} {id}",
            self.network().limit_bits(),
            self.transaction_count,
            self.index,
            hex(&self.header.0),
            join(&self.path),
        );
        if kind == "witness" {
            let path = self.coinbase_path.as_ref().expect("a path");
            line += &format!(
                " {} {} {}",
                text(&self.coinbase),
                join(path),
                text(&self.witness_reserved)
            );
        }
        line
    }
}

/// Test vector of a header, with its expected hash, target and work.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeaderVector {
    pub what: String,
    pub network: String,
    pub header: Hex,
    pub hash: Hex,
    pub target: String,
    pub work: String,
    pub expect: String,
    pub code: i32,
}

/// Returns the code of a result; 0 for success.
pub fn code(result: Result<(), ProofError>) -> i32 {
    result.map_or_else(ProofError::code, |()| 0)
}

/// Finds the folder with the real blocks, which is not part of the repository.
pub fn real_blocks() -> Option<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = here
        .ancestors()
        .map(|above| above.join("shared/data/bitcoin-blocks"));
    folders
        .into_iter()
        .find(|folder| folder.join("MANIFEST.json").is_file())
}

/// Mines a header whose parent is `parent`, with the given bits and time, and a Merkle root made from `tag`.
pub fn mine(parent: &Header, bits: u32, time: u32, tag: u32) -> Header {
    let mut merkle_root = [0; 32];
    merkle_root[..4].copy_from_slice(&tag.to_le_bytes());
    let mut header = Header {
        version: 0x2000_0000,
        previous: parent.hash(),
        merkle_root,
        time,
        bits,
        nonce: 0,
    };
    let target = decode_target(bits).expect("a target");
    let mut hash = header.hash();
    hash.reverse();
    while hash > target.to_be_bytes() {
        header.nonce += 1;
        hash = header.hash();
        hash.reverse();
    }
    header
}

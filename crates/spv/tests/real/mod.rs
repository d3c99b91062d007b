//! Recorded blocks of the main network and testnet3, which are not part of the repository.

use lineside_spv::chain::Network;
use std::path::Path;

/// Recorded block of a real network.
pub struct RealBlock {
    /// Network of the block.
    pub network: Network,
    /// Height of the block.
    pub height: u32,
    /// Bytes of the block.
    pub raw: Vec<u8>,
    /// True if a transaction was altered, so that the Merkle root is wrong.
    pub is_altered: bool,
}

/// Reads the recorded blocks; `None` if their directory does not exist.
pub fn blocks() -> Option<Vec<RealBlock>> {
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let mut folders = above.map(|above| above.join("shared/data/bitcoin-blocks"));
    let folder = folders.find(|folder| folder.join("MANIFEST.json").is_file())?;
    let manifest = std::fs::read(folder.join("MANIFEST.json")).unwrap();
    let manifest: Vec<serde_json::Value> = serde_json::from_slice(&manifest).unwrap();
    let read = |entry: &serde_json::Value| {
        let text = |key: &str| entry[key].as_str().unwrap();
        let mut networks = Network::ALL.into_iter();
        let network = networks
            .find(|network| network.name() == text("network"))
            .unwrap();
        let bytes = std::fs::read(folder.join(text("file"))).unwrap();
        // In some files the network's magic and the block's length, 8 bytes in total, precede the block.
        let start = if bytes.starts_with(&network.magic()) { 8 } else { 0 };
        let (_, used) = bitcoin::consensus::deserialize_partial::<bitcoin::Block>(&bytes[start..]).unwrap();
        RealBlock {
            network,
            height: entry["height"].as_u64().unwrap() as u32,
            raw: bytes[start..start + used].to_vec(),
            is_altered: !entry["merkle_ok"].as_bool().unwrap(),
        }
    };
    Some(manifest.iter().map(read).collect())
}

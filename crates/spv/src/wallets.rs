//! Adapter that gives the Electrum and HTTP server access to the connected blocks of a host.

use crate::chain::DETACHED_HEIGHT;
use crate::host::SpvHost;
use lineside_electrum::{HEADER_BYTES, Location, ProofChain, TipInfo, Unavailable};
use std::sync::Arc;
use tokio::sync::watch;

/// Adapter over a host: the Electrum and HTTP server reads the host's connected blocks through it.
pub struct HostChain(pub Arc<SpvHost>);

impl ProofChain for HostChain {
    fn generation(&self) -> u64 {
        self.0.generation()
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes()
    }

    fn tip(&self) -> Option<TipInfo> {
        let block = self.0.tip_block()?;
        Some(TipInfo {
            height: block.height,
            hash: block.hash,
            header: block.header,
        })
    }

    fn header_at(&self, height: u32) -> Option<[u8; HEADER_BYTES]> {
        Some(self.0.at_height(height)?.header)
    }

    fn hash_at(&self, height: u32) -> Option<[u8; 32]> {
        Some(self.0.at_height(height)?.hash)
    }

    fn headers(&self, start: u32, count: u32, into: &mut Vec<u8>) -> u32 {
        self.0.headers(start, count, into)
    }

    fn height_of(&self, hash: &[u8; 32]) -> Option<u32> {
        let block = self.0.connected(hash)?;
        (block.height != DETACHED_HEIGHT).then_some(block.height)
    }

    fn locate(&self, txid: &[u8; 32]) -> Result<Option<Location>, Unavailable> {
        let found = self
            .0
            .locate(txid)
            .map_err(|error| Unavailable(error.to_string()))?;
        let found = found.filter(|found| found.height != DETACHED_HEIGHT);
        Ok(found.map(|found| Location {
            height: found.height,
            position: found.position,
        }))
    }

    fn txids(&self, height: u32, hash: &[u8; 32]) -> Result<Option<Arc<[[u8; 32]]>>, Unavailable> {
        if self.height_of(hash) != Some(height) {
            return Ok(None);
        }
        let txids = self
            .0
            .txids(hash)
            .map_err(|error| Unavailable(error.to_string()))?;
        Ok(txids.map(Arc::from))
    }
}

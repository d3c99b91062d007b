//! Records of a ledger before its first block: the genesis, and perhaps a snapshot with its attestations.

use super::SnapshotBase;
use crate::execute::Chain;
use crate::snapshot::{Restore, SnapshotError};
use lineside_messages::hybrid::attestation::{Attestation, check_attestations};
use lineside_messages::hybrid::codec::Malformed;
use lineside_messages::hybrid::genesis::Genesis;
use lineside_verify::Verifier;

pub(super) struct Beginning {
    genesis: Genesis,
    restore: Option<Restore>,
    base: Option<SnapshotBase>,
    attestations: Vec<Attestation>,
    ended: bool,
}

impl Beginning {
    pub fn new(genesis: &[u8]) -> Result<Beginning, Malformed> {
        Ok(Beginning {
            genesis: Genesis::decode(genesis)?,
            restore: None,
            base: None,
            attestations: Vec::new(),
            ended: false,
        })
    }

    /// Takes the next bytes of a snapshot. When the snapshot is complete, returns the chain that continues after it.
    pub fn snapshot(&mut self, chain: &Chain, piece: &[u8]) -> Result<Option<Chain>, SnapshotError> {
        if self.ended || self.base.is_some() {
            return Err(SnapshotError::NotFirst);
        }
        if self.genesis.paper {
            return Err(SnapshotError::Paper);
        }
        let restore = self
            .restore
            .get_or_insert_with(|| Restore::new(*chain.database()));
        restore.feed(piece)?;
        let Some(complete) = self.restore.take_if(|restore| restore.is_complete()) else {
            return Ok(None);
        };
        let (restored, _) = complete.finish()?;
        self.base = Some(SnapshotBase {
            number: restored.tip().number,
            hash: *restored.tip_hash(),
            by_attestations: false,
        });
        Ok(Some(restored))
    }

    /// Takes an attestation, which must follow the snapshot and precede the first block.
    pub fn attestation(&mut self, attestation: Attestation) -> Result<(), &'static str> {
        if self.ended || self.base.is_none() {
            return Err("the ledger has an attestation that does not follow a snapshot");
        }
        self.attestations.push(attestation);
        Ok(())
    }

    /// Ends the part of the ledger before its first block. The first call checks the attestations of the snapshot and
    /// returns the snapshot that the ledger begins with, if any; later calls return `None`.
    pub fn end(&mut self, chain: &Chain, verifier: &Verifier) -> Result<Option<SnapshotBase>, String> {
        if std::mem::replace(&mut self.ended, true) {
            return Ok(None);
        }
        if self.restore.is_some() {
            return Err(SnapshotError::Short.to_string());
        }
        let Some(mut base) = self.base else {
            return Ok(None);
        };
        if !self.attestations.is_empty() {
            let block = (base.number, &base.hash);
            check_attestations(
                &self.genesis,
                chain.database(),
                block,
                &self.attestations,
                verifier,
            )
            .map_err(|error| format!("the attestations of the ledger's snapshot: {error}"))?;
            base.by_attestations = true;
        }
        Ok(Some(base))
    }
}

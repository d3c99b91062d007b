//! Verification with an own chain of headers: fetches the server's headers, and checks proofs against them.

use super::{Client, ClientError};
use lineside_spv_proof::{ChainError, Hash, Header, HeaderChain, HeaderStore, TransactionProof};
use lineside_wire::{SPV_HEADERS_MAX, SPV_HEIGHT_UNKNOWN};
use std::time::{SystemTime, UNIX_EPOCH};

/// Number of new headers after which they are synced to disk.
const HEADERS_PER_SYNC: u32 = 20_000;

/// Reason why the headers of a server were not fetched completely, or why a transaction is not verified.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// The server did not answer, or refused a request.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A header of the server breaks a rule. The headers before it stay accepted.
    #[error("the server's header at height {height} is not valid")]
    Header {
        /// Height that the server claims for the header.
        height: u32,
        /// Rule that the header breaks.
        source: ChainError,
    },
    /// The own chain of headers cannot be written.
    #[error("the chain of headers cannot be stored")]
    Store(#[source] ChainError),
    /// The server does not find the transaction, which does not show that it does not exist.
    #[error("no block in the server's chain contains the transaction")]
    NotFound,
    /// The server holds the block without knowing its height, so that the proof cannot be compared with the headers.
    #[error(
        "the server does not know the height of the transaction's block; ask a server that has it in its chain"
    )]
    Detached,
    /// The proof is wrong, or its header is not in the own chain. The server cannot be trusted.
    #[error("the server's proof is wrong")]
    Proof(#[source] ChainError),
}

/// Transaction that is proved to be in the own chain of headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// The proof.
    pub proof: TransactionProof,
    /// Number of blocks that confirm the transaction, at least 1.
    pub confirmations: u32,
}

impl Client {
    /// Fetches the server's headers that `chain` does not have, and adds those that follow the rules. Returns the
    /// number of new headers. The chain decides which branch counts, whatever the server says.
    ///
    /// # Errors
    /// [`VerifyError::Client`], [`VerifyError::Header`], [`VerifyError::Store`].
    pub fn sync<S: HeaderStore>(&mut self, chain: &mut HeaderChain<S>) -> Result<u32, VerifyError> {
        let (mut start, mut back, mut added, mut unsynced) = (chain.tip().height + 1, 1, 0, 0);
        loop {
            let headers: Vec<Header> = self.headers(start, SPV_HEADERS_MAX)?.result;
            if headers.is_empty() && back == 1 {
                break;
            }
            let count = headers.len() as u32;
            match chain.accept_range(&headers, now_s()) {
                Ok(accepted) => {
                    added += accepted.added;
                    unsynced += accepted.added;
                    start += count;
                    back = 1;
                    // A branch that has less work so far is followed to its tip, where it may have more.
                    if count == 0 {
                        break;
                    }
                }
                // The server is on another branch: go back until the server's header follows one of this chain.
                Err(error) if error.index == 0 && is_unknown_parent(&error.source) && start > 1 => {
                    start = start.saturating_sub(back).max(1);
                    back = back.saturating_mul(2);
                }
                Err(error) => {
                    chain.sync().map_err(VerifyError::Store)?;
                    if error.index == headers.len() {
                        return Err(VerifyError::Store(error.source));
                    }
                    return Err(VerifyError::Header {
                        height: start + error.index as u32,
                        source: error.source,
                    });
                }
            }
            if unsynced >= HEADERS_PER_SYNC {
                chain.sync().map_err(VerifyError::Store)?;
                unsynced = 0;
            }
        }
        chain.sync().map_err(VerifyError::Store)?;
        Ok(added)
    }

    /// Verifies that a transaction (its TXID in wire byte order) is in `chain`, after fetching new headers.
    ///
    /// # Errors
    /// See [`VerifyError`].
    pub fn verified<S: HeaderStore>(
        &mut self,
        chain: &mut HeaderChain<S>,
        txid: &Hash,
    ) -> Result<Verified, VerifyError> {
        self.sync(chain)?;
        let proof = self.proof(txid)?.result.ok_or(VerifyError::NotFound)?;
        if proof.height == SPV_HEIGHT_UNKNOWN {
            return Err(VerifyError::Detached);
        }
        let confirmations = chain.verify(&proof, txid).map_err(VerifyError::Proof)?;
        Ok(Verified { proof, confirmations })
    }
}

fn is_unknown_parent(error: &ChainError) -> bool {
    matches!(error, ChainError::UnknownParent { .. })
}

/// Returns the time in seconds since 1970, the unit of headers; 0 for a clock before 1970, which refuses all headers.
fn now_s() -> u32 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| u32::try_from(now.as_secs()).unwrap_or(u32::MAX))
}

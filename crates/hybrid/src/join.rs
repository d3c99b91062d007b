//! Ledgers that begin with a snapshot. A node joins a database in this way if the log is too long to be read from its
//! beginning.

use crate::execute::GenesisError;
use crate::ledger::{LedgerError, Writer, journal_options};
use crate::node::StartError;
use crate::open::open;
use crate::snapshot::{self, Restore, SnapshotError};
use lineside_journal::{Disk, Options};
use lineside_messages::hybrid::attestation::{Attestation, AttestationError, check_attestations};
use lineside_messages::hybrid::block::Hash;
use lineside_messages::hybrid::codec::Malformed;
use lineside_messages::hybrid::genesis::{Genesis, database_id};
use lineside_util::hex::to_hex;
use lineside_verify::Verifier;
use std::io::{self, Read, Seek, SeekFrom, Write};

/// Number of bytes of a snapshot in one record of the ledger.
const PIECE_BYTES: usize = 512 << 10;

/// Reason for which a snapshot's block is trusted.
#[derive(Clone, Debug)]
pub enum Trust {
    /// The operator gives the number and hash of a block that is trusted.
    Block(u64, Hash),
    /// Admins of the genesis have attested the block.
    Attestations(Vec<Attestation>),
}

/// A snapshot that was written, or that a ledger begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotSummary {
    /// Number of the snapshot's block.
    pub number: u64,
    /// Hash of the snapshot's block.
    pub hash: Hash,
    /// Number of keys that have a value.
    pub keys: usize,
}

/// Error of writing a snapshot, or of starting a ledger from one.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// The genesis is rejected.
    #[error(transparent)]
    Genesis(#[from] GenesisError),
    /// The snapshot is rejected.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// The attestations are not sufficient.
    #[error("the snapshot is not trusted: {0}")]
    Attestations(#[from] AttestationError),
    /// The snapshot's block is not the trusted one.
    #[error(
        "the snapshot is not trusted: it is of block {number} with the hash {hash}, not of the block that was given; \
         check the given number and hash, or give a snapshot of the given block"
    )]
    OtherBlock {
        /// Number of the snapshot's block.
        number: u64,
        /// Hash of the snapshot's block in hex digits.
        hash: String,
    },
    /// The directory already contains a ledger.
    #[error(
        "the directory already contains a ledger or the beginning of one, but a snapshot can only begin a new ledger; \
         give an empty directory"
    )]
    NotEmpty,
    /// Error of the ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// Error of the ledger from which a snapshot is made.
    #[error(transparent)]
    Start(#[from] StartError),
    /// Error of reading or writing the snapshot.
    #[error("snapshot: {0}")]
    Io(#[from] io::Error),
}

impl From<Malformed> for JoinError {
    fn from(error: Malformed) -> JoinError {
        JoinError::Genesis(error.into())
    }
}

/// Writes a snapshot of the newest block of a ledger that no process has open. The whole ledger is executed again.
///
/// # Errors
/// [`JoinError`].
pub fn take<D: Disk>(disk: D, genesis: &[u8], out: &mut impl Write) -> Result<SnapshotSummary, JoinError> {
    no_paper(genesis)?;
    let opened = open(disk, genesis, journal_options())?;
    if opened.chain.tip().number == 0 {
        return Err(SnapshotError::Genesis.into());
    }
    snapshot::write(&opened.chain, &opened.view, out)?;
    out.flush()?;
    Ok(SnapshotSummary {
        number: opened.chain.tip().number,
        hash: *opened.chain.tip_hash(),
        keys: opened.view.keys(),
    })
}

/// Starts a ledger from a snapshot. The snapshot is read twice: all of it is verified before anything is written.
///
/// # Errors
/// [`JoinError`]. If this function was interrupted while it wrote, the ledger cannot be opened; call it again with an
/// empty directory.
pub fn join<D: Disk>(
    disk: D,
    genesis: &[u8],
    snapshot: &mut (impl Read + Seek),
    trust: &Trust,
    options: Options,
) -> Result<SnapshotSummary, JoinError> {
    no_paper(genesis)?;
    let summary = check(genesis, snapshot, trust)?;
    snapshot.seek(SeekFrom::Start(0))?;
    // `Writer::open` calls the closure for each record after the genesis, so the directory may contain a genesis and
    // nothing else.
    let mut writer = Writer::open(disk, options, genesis, |_| Err(JoinError::NotEmpty))?;
    each_piece(snapshot, |piece| {
        writer.append_snapshot(piece)?;
        Ok(())
    })?;
    if let Trust::Attestations(attestations) = trust {
        attestations
            .iter()
            .try_for_each(|attestation| writer.append_attestation(attestation))?;
    }
    writer.commit()?;
    Ok(summary)
}

fn no_paper(genesis: &[u8]) -> Result<(), JoinError> {
    match Genesis::decode(genesis)?.paper {
        true => Err(SnapshotError::Paper.into()),
        false => Ok(()),
    }
}

fn check(genesis: &[u8], snapshot: &mut impl Read, trust: &Trust) -> Result<SnapshotSummary, JoinError> {
    let database = database_id(genesis);
    let mut restore = Restore::new(database);
    let mut believed = false;
    each_piece(snapshot, |piece| {
        restore.feed(piece)?;
        // Checks the snapshot's block before it reads the rest, because the sender may be untrusted and send any number
        // of bytes.
        if let Some(header) = restore.header().filter(|_| !believed) {
            check_trust(genesis, (header.number, &header.hash()), trust)?;
            believed = true;
        }
        Ok(())
    })?;
    let (chain, view) = restore.finish()?;
    Ok(SnapshotSummary {
        number: chain.tip().number,
        hash: *chain.tip_hash(),
        keys: view.keys(),
    })
}

fn check_trust(genesis: &[u8], (number, hash): (u64, &Hash), trust: &Trust) -> Result<(), JoinError> {
    match trust {
        Trust::Block(known, known_hash) if (*known, known_hash) == (number, hash) => Ok(()),
        Trust::Block(..) => Err(JoinError::OtherBlock {
            number,
            hash: to_hex(hash),
        }),
        Trust::Attestations(attestations) => {
            let (database, genesis) = (database_id(genesis), Genesis::decode(genesis)?);
            Ok(check_attestations(
                &genesis,
                &database,
                (number, hash),
                attestations,
                &Verifier::default(),
            )?)
        }
    }
}

fn each_piece(
    from: &mut impl Read,
    mut take: impl FnMut(&[u8]) -> Result<(), JoinError>,
) -> Result<(), JoinError> {
    let mut piece = Vec::with_capacity(PIECE_BYTES);
    loop {
        piece.clear();
        from.by_ref().take(PIECE_BYTES as u64).read_to_end(&mut piece)?;
        if piece.is_empty() {
            return Ok(());
        }
        take(&piece)?;
    }
}

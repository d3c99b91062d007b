//! A ledger that begins with a snapshot: how a node joins whose log is too long to be read from its beginning.

use crate::block::Hash;
use crate::codec::Malformed;
use crate::execute::GenesisError;
use crate::genesis::{Genesis, database_id};
use crate::ledger::{LedgerError, Writer, journal_options};
use crate::node::StartError;
use crate::open::open;
use crate::snapshot::{self, Restore, SnapshotError};
use crate::word::{MemberWord, WordError, check_words};
use lineside_journal::{Disk, Options};
use lineside_util::hex::to_hex;
use lineside_verify::Verifier;
use std::io::{self, Read, Seek, SeekFrom, Write};

/// Bytes of a snapshot in one record of the ledger.
const PIECE_BYTES: usize = 512 << 10;

/// Why a snapshot's block is believed.
#[derive(Clone, Debug)]
pub enum Trust {
    /// The operator knows its number and hash.
    Block(u64, Hash),
    /// Admins of the genesis have given their word for it.
    Words(Vec<MemberWord>),
}

/// A snapshot that was made, or that a ledger begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Made {
    /// Its block.
    pub number: u64,
    /// That block's hash.
    pub hash: Hash,
    /// Keys that have a value.
    pub keys: usize,
}

/// Why there is no snapshot, or no ledger from it.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// The genesis.
    #[error(transparent)]
    Genesis(#[from] GenesisError),
    /// The snapshot.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// Whose word it is.
    #[error("not believed: {0}")]
    Words(#[from] WordError),
    /// It is not the block that is believed.
    #[error("not believed: the snapshot is of block {number}, {hash}, which is not the one that was given")]
    OtherBlock {
        /// The snapshot's.
        number: u64,
        /// In hex digits.
        hash: String,
    },
    /// There is a ledger.
    #[error(
        "there is a ledger already, or the beginning of one that was cut off: a snapshot begins a new one, in an empty \
         directory"
    )]
    NotEmpty,
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The ledger that a snapshot is made of.
    #[error(transparent)]
    Start(#[from] StartError),
    /// Reading or writing the snapshot.
    #[error("snapshot: {0}")]
    Io(#[from] io::Error),
}

impl From<Malformed> for JoinError {
    fn from(error: Malformed) -> JoinError {
        JoinError::Genesis(error.into())
    }
}

/// Writes a snapshot of the newest block of a ledger that nobody has open. All of the ledger is executed again.
///
/// # Errors
/// [`JoinError`].
pub fn take<D: Disk>(disk: D, genesis: &[u8], out: &mut impl Write) -> Result<Made, JoinError> {
    no_paper(genesis)?;
    let opened = open(disk, genesis, journal_options())?;
    if opened.chain.tip().number == 0 {
        return Err(SnapshotError::Genesis.into());
    }
    snapshot::write(&opened.chain, &opened.view, out)?;
    out.flush()?;
    Ok(Made {
        number: opened.chain.tip().number,
        hash: *opened.chain.tip_hash(),
        keys: opened.view.keys(),
    })
}

/// Begins a ledger with a snapshot. It is read twice: nothing is written before all of it is known to be right.
///
/// # Errors
/// [`JoinError`]. Where writing was cut off, opening says so: begin again in an empty directory.
pub fn join<D: Disk>(
    disk: D,
    genesis: &[u8],
    snapshot: &mut (impl Read + Seek),
    trust: &Trust,
    options: Options,
) -> Result<Made, JoinError> {
    no_paper(genesis)?;
    let made = check(genesis, snapshot, trust)?;
    snapshot.seek(SeekFrom::Start(0))?;
    // A genesis alone may be there.
    let mut writer = Writer::open(disk, options, genesis, |_| Err(JoinError::NotEmpty))?;
    each_piece(snapshot, |piece| {
        writer.append_snapshot(piece)?;
        Ok(())
    })?;
    if let Trust::Words(words) = trust {
        words.iter().try_for_each(|word| writer.append_word(word))?;
    }
    writer.commit()?;
    Ok(made)
}

fn no_paper(genesis: &[u8]) -> Result<(), JoinError> {
    match Genesis::decode(genesis)?.paper {
        true => Err(SnapshotError::Paper.into()),
        false => Ok(()),
    }
}

fn check(genesis: &[u8], snapshot: &mut impl Read, trust: &Trust) -> Result<Made, JoinError> {
    let database = database_id(genesis);
    let mut restore = Restore::new(database);
    let mut believed = false;
    each_piece(snapshot, |piece| {
        restore.feed(piece)?;
        // Before the rest is taken: whoever sends it may send anything.
        if let Some(header) = restore.header().filter(|_| !believed) {
            believe(genesis, (header.number, &header.hash()), trust)?;
            believed = true;
        }
        Ok(())
    })?;
    let (chain, view) = restore.finish()?;
    Ok(Made {
        number: chain.tip().number,
        hash: *chain.tip_hash(),
        keys: view.keys(),
    })
}

fn believe(genesis: &[u8], (number, hash): (u64, &Hash), trust: &Trust) -> Result<(), JoinError> {
    match trust {
        Trust::Block(known, known_hash) if (*known, known_hash) == (number, hash) => Ok(()),
        Trust::Block(..) => Err(JoinError::OtherBlock {
            number,
            hash: to_hex(hash),
        }),
        Trust::Words(words) => {
            let (database, genesis) = (database_id(genesis), Genesis::decode(genesis)?);
            Ok(check_words(
                &genesis,
                &database,
                (number, hash),
                words,
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

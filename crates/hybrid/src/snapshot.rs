//! Snapshot of a database at one block, from which a new ledger can begin. It has the block's header, then every entry
//! of the authenticated map. The header's state root shows that all entries are complete and unchanged, so a node needs
//! to trust only the block's hash.

use crate::execute::Chain;
use crate::state::{CONTENT_BYTES_MAX, Gathering, PLACE_BYTES_MAX, RestoredEntry};
use crate::view::ReadView;
use lineside_messages::hybrid::answer::Cell;
use lineside_messages::hybrid::answer::SharedKey;
use lineside_messages::hybrid::block::{HEADER_BYTES, Header};
use lineside_messages::hybrid::codec::{Input, Malformed, Output};
use lineside_messages::hybrid::request::DatabaseId;
use std::io::{self, Write};

const MAGIC: &[u8; 8] = b"LShysnap";
const VERSION: u8 = 1;
const HEAD_BYTES: usize = MAGIC.len() + 1 + HEADER_BYTES + 8;

/// Reason why a snapshot is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// The snapshot's bytes are malformed.
    #[error("snapshot: {0}")]
    Malformed(#[from] Malformed),
    /// The snapshot belongs to another database.
    #[error(
        "snapshot: it is of a database with another genesis than the given one; give the genesis of the snapshot's \
         database"
    )]
    OtherDatabase,
    /// The snapshot is of block 0. A node can begin with the genesis alone, which describes this state.
    #[error("snapshot: it is of block 0, which the genesis describes; start the node with the genesis alone")]
    Genesis,
    /// The database is in the paper's mode. A snapshot does not contain the versions of that mode.
    #[error(
        "snapshot: snapshots of a database in the paper's mode are not supported; start the node with the genesis alone"
    )]
    Paper,
    /// The snapshot ends before all its entries have arrived.
    #[error("snapshot: it is incomplete; give a complete one, and join again in an empty directory")]
    Short,
    /// The snapshot is not at the beginning of its ledger.
    #[error(
        "snapshot: this ledger has a snapshot after a block, or a second snapshot; only the beginning of a ledger may \
         be a snapshot. Join again in an empty directory"
    )]
    NotFirst,
    /// The snapshot's entries do not match the state root of its block.
    #[error(
        "snapshot: the entries do not match the state root of the snapshot's block, so the snapshot was changed or \
         damaged; copy it again"
    )]
    Root,
}

/// Writes a snapshot of a chain's newest block. `view` must have the same newest block.
///
/// # Errors
/// Returns errors of `out`.
pub fn write(chain: &Chain, view: &ReadView, out: &mut impl Write) -> io::Result<()> {
    let mut head = Vec::with_capacity(HEAD_BYTES);
    head.put(MAGIC);
    head.u8(VERSION);
    head.put(&chain.tip().to_bytes());
    head.u64(chain.state().entries());
    out.write_all(&head)?;
    let mut entry = Vec::new();
    chain.state().each_entry(
        |key| view.cell(key),
        |place, content| {
            entry.clear();
            entry.short(place);
            entry.long(content);
            out.write_all(&entry)
        },
    )
}

/// Receiver of a snapshot, which arrives piece by piece.
pub struct Restore {
    database: DatabaseId,
    header: Option<Header>,
    /// Number of entries that have not arrived yet.
    open: u64,
    rest: Vec<u8>,
    gathering: Gathering,
    cells: Vec<(SharedKey, Cell)>,
}

impl Restore {
    /// Creates the receiver of a snapshot of this database.
    pub fn new(database: DatabaseId) -> Restore {
        Restore {
            database,
            header: None,
            open: 0,
            rest: Vec::new(),
            gathering: Gathering::new(),
            cells: Vec::new(),
        }
    }

    /// Returns the block's header as soon as it has arrived.
    pub fn header(&self) -> Option<&Header> {
        self.header.as_ref()
    }

    /// Returns true if all entries have arrived.
    pub fn is_complete(&self) -> bool {
        self.header.is_some() && self.open == 0
    }

    /// Takes the next bytes of the snapshot.
    ///
    /// # Errors
    /// [`SnapshotError`]; after it the receiver cannot be used any more.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), SnapshotError> {
        let mut rest = std::mem::take(&mut self.rest);
        rest.extend_from_slice(bytes);
        let mut input = Input(&rest);
        if self.header.is_none() && input.0.len() >= HEAD_BYTES {
            self.take_head(&mut input)?;
        }
        while self.open > 0 {
            let mut next = input;
            // Reading the place or the content fails with CUT_SHORT until enough bytes have arrived. A length above the
            // limit is refused before that number of bytes arrives.
            let entry = next
                .short(PLACE_BYTES_MAX)
                .and_then(|place| Ok((place, next.long(CONTENT_BYTES_MAX)?)));
            match entry {
                Ok((path, content)) => self.take_entry(path, content)?,
                Err(Malformed::CUT_SHORT) => break,
                Err(error) => return Err(error.into()),
            }
            input = next;
        }
        if self.is_complete() {
            input.end()?;
        }
        let consumed = rest.len() - input.0.len();
        rest.drain(..consumed);
        self.rest = rest;
        Ok(())
    }

    fn take_head(&mut self, input: &mut Input<'_>) -> Result<(), SnapshotError> {
        if &input.array::<8>()? != MAGIC || input.u8()? != VERSION {
            return Err(Malformed("the file is not a snapshot, or has an unknown version").into());
        }
        let header = Header::from_bytes(&input.array()?);
        if header.database != self.database {
            return Err(SnapshotError::OtherDatabase);
        }
        if header.number == 0 {
            return Err(SnapshotError::Genesis);
        }
        self.open = input.u64()?;
        self.header = Some(header);
        Ok(())
    }

    fn take_entry(&mut self, place: &[u8], content: &[u8]) -> Result<(), SnapshotError> {
        self.open -= 1;
        if let RestoredEntry::Value(key, cell) = self.gathering.take(place, content)? {
            self.cells.push((key, cell));
        }
        Ok(())
    }

    /// Returns the chain that continues after the snapshot's block, and the view for readers.
    ///
    /// # Errors
    /// [`SnapshotError`] if entries are missing, or do not match the block.
    pub fn finish(self) -> Result<(Chain, ReadView), SnapshotError> {
        let header = self
            .header
            .filter(|_| self.open == 0)
            .ok_or(SnapshotError::Short)?;
        let (state, root) = self.gathering.finish();
        if root != header.state_root {
            return Err(SnapshotError::Root);
        }
        let view = ReadView::restored(header, state.membership().clone(), self.cells);
        Ok((Chain::restored(header, state), view))
    }
}

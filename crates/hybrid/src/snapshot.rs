//! A database at one block, to begin a ledger with: the block's header, then every entry of the authenticated map. The
//! header's state root says whether they are all there and as they were, so that who trusts the block's hash needs to
//! trust nobody for the rest.

use crate::answer::Cell;
use crate::block::{HEADER_BYTES, Header};
use crate::codec::{Input, Malformed, Output};
use crate::execute::Chain;
use crate::request::DatabaseId;
use crate::state::{CONTENT_BYTES_MAX, Gathered, Gathering, PLACE_BYTES_MAX, SharedKey};
use crate::view::View;
use std::io::{self, Write};

const MAGIC: &[u8; 8] = b"LShysnap";
const VERSION: u8 = 1;
const HEAD_BYTES: usize = MAGIC.len() + 1 + HEADER_BYTES + 8;

/// Why a snapshot is none, or not one of this database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// Its bytes.
    #[error("snapshot: {0}")]
    Malformed(#[from] Malformed),
    /// Another database's.
    #[error("snapshot: it is of another database than the genesis that was given")]
    OtherDatabase,
    /// Of block 0, which the genesis has.
    #[error("snapshot: it is of block 0: begin with the genesis alone")]
    Genesis,
    /// Of a database of the paper's mode: what keeps its versions apart is not in a snapshot.
    #[error("snapshot: a database of the paper's mode has none")]
    Paper,
    /// It ends too early.
    #[error("snapshot: it is cut short: where a ledger begins so, begin again in an empty directory")]
    Short,
    /// A ledger has it behind blocks.
    #[error("snapshot: it stands behind blocks, or behind another")]
    NotFirst,
    /// Its entries are not those of its block.
    #[error("snapshot: its entries do not lead to the state root of its block: something in it was changed")]
    Root,
}

/// Writes a chain's newest block as a snapshot. `view` has that block, too.
///
/// # Errors
/// What `out` says.
pub fn write(chain: &Chain, view: &View, out: &mut impl Write) -> io::Result<()> {
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

/// A snapshot on its way in, piece by piece.
pub struct Restore {
    database: DatabaseId,
    header: Option<Header>,
    /// Entries that are still to come.
    open: u64,
    rest: Vec<u8>,
    gathering: Gathering,
    cells: Vec<(SharedKey, Cell)>,
}

impl Restore {
    /// Of this database.
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

    /// The block's header, as soon as it has come.
    pub fn header(&self) -> Option<&Header> {
        self.header.as_ref()
    }

    /// Whether all entries have come.
    pub fn is_complete(&self) -> bool {
        self.header.is_some() && self.open == 0
    }

    /// Takes the next bytes.
    ///
    /// # Errors
    /// [`SnapshotError`]; it is of no use any more then.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), SnapshotError> {
        let mut rest = std::mem::take(&mut self.rest);
        rest.extend_from_slice(bytes);
        let mut input = Input(&rest);
        if self.header.is_none() && input.0.len() >= HEAD_BYTES {
            self.take_head(&mut input)?;
        }
        while self.open > 0 {
            let mut next = input;
            // Either is cut short until more comes; what is too long is refused before it comes.
            let entry = next
                .short(PLACE_BYTES_MAX)
                .and_then(|place| Ok((place, next.long(CONTENT_BYTES_MAX)?)));
            match entry {
                Ok((place, content)) => self.take_entry(place, content)?,
                Err(Malformed::CUT_SHORT) => break,
                Err(error) => return Err(error.into()),
            }
            input = next;
        }
        if self.is_complete() {
            input.end()?;
        }
        let taken = rest.len() - input.0.len();
        rest.drain(..taken);
        self.rest = rest;
        Ok(())
    }

    fn take_head(&mut self, input: &mut Input<'_>) -> Result<(), SnapshotError> {
        if &input.array::<8>()? != MAGIC || input.u8()? != VERSION {
            return Err(Malformed("no snapshot, or of another version").into());
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
        if let Gathered::Value(key, cell) = self.gathering.take(place, content)? {
            self.cells.push((key, cell));
        }
        Ok(())
    }

    /// The chain that goes on behind the block, and what its readers see.
    ///
    /// # Errors
    /// [`SnapshotError`] where it is not all there, or not what its block has.
    pub fn finish(self) -> Result<(Chain, View), SnapshotError> {
        let header = self
            .header
            .filter(|_| self.open == 0)
            .ok_or(SnapshotError::Short)?;
        let (state, root) = self.gathering.finish();
        if root != header.state_root {
            return Err(SnapshotError::Root);
        }
        let view = View::restored(header, state.roster().clone(), self.cells);
        Ok((Chain::restored(header, state), view))
    }
}

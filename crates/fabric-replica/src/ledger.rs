//! Opening the ledger of a replica.

use crate::config::StateName;
use anyhow::{Context, bail};
use lineside_fabric::Options;
use lineside_fabric::block::Block;
use lineside_fabric::ledger::results::Publisher;
use lineside_fabric::ledger::{Replica, Setup, StateStore};
use lineside_fabric::proto::Arena;
use lineside_journal::{Disk, FsDisk};
use lineside_service::config::UsageError;
use lineside_util::data_dir::Kind;
use lineside_verify::{Builds, Options as VerifierOptions, Verifier};
use std::path::{Path, PathBuf};

/// Kind of a ledger's data directory, as its marker file records it.
pub const KIND: Kind = Kind::new("fabric", 1);

/// Returns the folder of the state in a ledger's directory.
pub fn state_folder(data: &Path) -> PathBuf {
    data.join("state")
}

/// Returns the file of the index of written keys in a ledger's directory.
pub fn history_file(data: &Path) -> PathBuf {
    data.join("history")
}

/// Opens the ledger in the directory `data`, or creates one. `disk` holds the lock of the directory. Also returns
/// remarks for the operator about damage that was repaired.
///
/// # Errors
/// The reason why the ledger or its state cannot be used.
pub fn open(
    data: &Path,
    disk: FsDisk,
    validation: Options,
    state: StateName,
    results: Option<Publisher>,
) -> anyhow::Result<(Replica<FsDisk>, Vec<String>)> {
    let folder = state_folder(data);
    let verifier = Verifier::new(VerifierOptions {
        builds: Builds::Deferred,
        ..VerifierOptions::default()
    })?;
    let on_disk = match state {
        StateName::Auto => StateStore::is_at(&folder),
        StateName::Memory => false,
        StateName::Fjall => true,
    };
    let setup = Setup {
        validation: Options {
            verifier,
            ..validation
        },
        state: match on_disk {
            true => StateStore::Disk(folder.clone()),
            false => StateStore::Memory,
        },
        history: Some(history_file(data)),
        ..Setup::default()
    };
    let (replica, opened) = Replica::open(disk, setup, results)
        .with_context(|| format!("cannot open the ledger in {}", data.display()))?;
    let damaged = opened.ledger.damaged.iter();
    let mut remarks: Vec<String> = damaged
        .map(|damaged| format!("a checkpoint cannot be used: {damaged}; more blocks are replayed instead"))
        .collect();
    for what in &opened.ledger.ids_remade {
        remarks.push(format!("a file of transaction ids was rebuilt: {what}"));
    }
    if let Some(why) = &opened.ledger.state_remade {
        remarks.push(format!(
            "the state in {} was rebuilt from the blocks: {why}",
            folder.display()
        ));
    }
    if !on_disk && StateStore::is_at(&folder) {
        StateStore::remove(&folder).with_context(|| format!("removing {}", folder.display()))?;
    }
    Ok((replica, remarks))
}

/// Adds the genesis block to an empty ledger. If the ledger is not empty and `genesis` is given, checks that the ledger
/// begins with this block.
///
/// # Errors
/// [`UsageError`] if the ledger is empty and there is no genesis block, or if the ledger begins with another block; or
/// the genesis block cannot be added.
pub fn begin_channel<D: Disk>(replica: &mut Replica<D>, genesis: Option<Vec<u8>>) -> anyhow::Result<()> {
    match genesis {
        Some(bytes) if replica.next() == 0 => {
            replica.add(bytes).context(
                "the genesis block cannot be added; give the channel's own in `genesis` (--genesis)",
            )?;
            replica.flush()?;
        }
        None if replica.next() == 0 => bail!(UsageError(
            "the ledger is empty: give the channel's genesis block with `genesis` (--genesis FILE), or make the ledger \
             from a peer's snapshot with `lineside fabric join`"
                .into()
        )),
        Some(bytes) if !begins_with(replica, &bytes) => bail!(UsageError(
            "`genesis` (--genesis FILE): the ledger begins with another block; give this channel's genesis block"
                .into()
        )),
        _ => {}
    }
    Ok(())
}

/// Returns true if the first block of the ledger is `genesis`. A ledger that was joined from a snapshot does not have
/// the genesis block; for such a ledger, only the channel's name is compared.
pub fn begins_with<D: Disk>(replica: &Replica<D>, genesis: &[u8]) -> bool {
    let arena = Arena::new();
    if replica.blocks().first() > 0 {
        let channel = Block::read(genesis, &arena)
            .ok()
            .and_then(|block| block.channel());
        return replica.validator().map(|validator| validator.channel()) == channel.as_deref();
    }
    let hash = Block::read(genesis, &arena).map(|block| block.hash());
    hash.is_ok_and(|hash| replica.blocks().number_of(&hash) == Some(0))
}

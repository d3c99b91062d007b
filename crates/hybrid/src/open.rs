//! Start of a node: executes the messages of the stored ledger again, which gives the same blocks as before. If the
//! ledger began with a snapshot, execution continues from that snapshot.

use crate::execute::{Chain, Executed, SignatureCheck};
use crate::ledger::{LedgerItem, StoredBlock, Writer};
use crate::node::StartError;
use crate::signatures::{Digests, transaction_ids};
use crate::snapshot::{Restore, SnapshotError};
use crate::view::ReadView;
use lineside_journal::{Disk, Options};
use lineside_messages::hybrid::block::{Cargo, Header, Message};
use lineside_wire::HybridCode as Code;

pub(crate) struct OpenedLedger<D: Disk> {
    pub chain: Chain,
    pub view: ReadView,
    pub writer: Writer<D>,
    /// Description of a conflict, if a signed head in the ledger is for another block than this node has.
    pub disagreement: Option<String>,
}

/// Opens a ledger. Signatures are not verified again, because the stored codes record the results; an audit can check
/// these.
pub(crate) fn open<D: Disk>(
    disk: D,
    genesis: &[u8],
    options: Options,
) -> Result<OpenedLedger<D>, StartError> {
    let mut chain = Chain::begin(genesis)?;
    let mut view = ReadView::new(*chain.tip(), chain.state().membership().clone());
    let mut restore: Option<Restore> = None;
    let mut disagreement = None;
    let mut writer = Writer::open(disk, options, genesis, |found| {
        match found {
            LedgerItem::Attestation(_) => {}
            LedgerItem::Head(head) => disagreement = disagreement.take().or_else(|| view.disagreement(&head)),
            LedgerItem::Snapshot(_) if chain.tip().number > 0 => return Err(SnapshotError::NotFirst.into()),
            LedgerItem::Snapshot(_) if chain.state().membership().is_paper() => {
                return Err(SnapshotError::Paper.into());
            }
            LedgerItem::Snapshot(piece) => {
                let restoring = restore.get_or_insert_with(|| Restore::new(*chain.database()));
                restoring.feed(piece)?;
                if let Some(complete) = restore.take_if(|restore| restore.is_complete()) {
                    (chain, view) = complete.finish()?;
                }
            }
            LedgerItem::Block(_) if restore.is_some() => return Err(SnapshotError::Short.into()),
            LedgerItem::Block(stored) => {
                let (executed, ids) = execute_again(&mut chain, &stored)?;
                view.apply(executed, &ids);
            }
        }
        Ok::<_, StartError>(())
    })?;
    if restore.is_some() {
        return Err(SnapshotError::Short.into());
    }
    writer.set_base(view.base());
    Ok(OpenedLedger {
        chain,
        view,
        writer,
        disagreement,
    })
}

fn execute_again(
    chain: &mut Chain,
    stored: &StoredBlock<'_>,
) -> Result<(Executed, Vec<[u8; 32]>), StartError> {
    let Header { number, position, .. } = stored.header;
    let differs = |what| StartError::NotReproduced { number, what };
    let message = Message::decode(stored.message).map_err(|_| differs("the block's message is malformed"))?;
    let Cargo::Requests(requests) = &message.cargo else {
        return Err(differs("the block's message carries no requests"));
    };
    let signatures: Vec<SignatureCheck> = stored.codes.iter().map(|code| signature_of(*code)).collect();
    if signatures.len() != requests.len() {
        return Err(differs(
            "the number of codes differs from the number of requests in the block",
        ));
    }
    let executed = chain.execute(position, &message, &signatures, &Digests::of(&message));
    let executed = executed.map_err(|_| differs("the block's message should have been skipped"))?;
    if !executed
        .codes
        .iter()
        .map(|code| *code as u8)
        .eq(stored.codes.iter().copied())
    {
        return Err(differs("executing the block's message again gives other codes"));
    }
    if executed.header != stored.header {
        return Err(differs(
            "executing the block's message again gives another header",
        ));
    }
    Ok((executed, transaction_ids(requests)))
}

/// Reconstructs the result of a signature check from the code of its request.
fn signature_of(code: u8) -> SignatureCheck {
    match Code::from_code(code.into()) {
        Some(Code::BadSignature) => SignatureCheck::Invalid,
        Some(Code::HighS) => SignatureCheck::HighS,
        _ => SignatureCheck::Valid,
    }
}

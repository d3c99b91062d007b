//! Replay: each entry of the journal is executed again, and the result is compared with the recorded reply. Blocks are
//! verified by a second thread, because hashing them takes as long.

use super::OpenError;
use crate::entry::Entry;
use crate::ledger::{Account, Ledger, RecordResult, SessionAnswer};
use crate::native::{self, Outcome};
use crate::ring::{self, NO_SESSION};
use crate::settlement::{self, Block, Chain, LEAF_BYTES};
use crate::signed::{SignatureChecker, SignedBytes};
use crate::store::Mode;
use lineside_journal::{Disk, Journal, Lsn, Record};
use lineside_messages::transfer::signer::signed_bytes;
use lineside_wire::{ExecuteHead, Operation, SignedHead, TransferCode as Code};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

/// Number of leaves in one message to the thread that verifies blocks.
const LEAVES: usize = 1024;
/// Number of signatures in one message to the thread that verifies blocks.
const SIGNATURES: usize = 512;
/// Maximum number of messages that wait for the thread that verifies blocks.
const MESSAGES: usize = 64;

/// Ledger that follows a journal.
pub(super) struct Replay {
    pub(super) ledger: Ledger,
    pub(super) mode: Option<Mode>,
    /// Number of signed packets.
    pub(super) signed: u64,
    checks_signatures: bool,
    leaves: Vec<[u8; LEAF_BYTES]>,
    blocks: SyncSender<ToCheck>,
    checker: JoinHandle<Result<Chain, OpenError>>,
}

/// Message to the thread that verifies blocks.
enum ToCheck {
    Leaves(Vec<[u8; LEAF_BYTES]>),
    Signed {
        lsn: Lsn,
        head: Box<SignedHead>,
        bytes: Vec<u8>,
    },
    Block {
        lsn: Lsn,
        block: Box<Block>,
        issued: u128,
        accounts: u64,
    },
}

/// Returns the error for a record that contradicts the journal before it.
fn wrong(lsn: Lsn, what: String) -> OpenError {
    OpenError::Replay { lsn, what }
}

impl Replay {
    /// Starts a replay from a snapshot's state, or from an empty one.
    pub(super) fn new(ledger: Ledger, mode: Option<Mode>, chain: Chain) -> std::io::Result<Self> {
        let (blocks, messages) = sync_channel(MESSAGES);
        let checker = thread::Builder::new()
            .name("blocks".into())
            .spawn(move || check(chain, &messages))?;
        Ok(Self {
            ledger,
            mode,
            signed: 0,
            checks_signatures: false,
            leaves: Vec::with_capacity(LEAVES),
            blocks,
            checker,
        })
    }

    /// Makes the replay also verify signatures. Usually that is unnecessary, because they were verified before they
    /// were journaled.
    pub(super) fn checking_signatures(self) -> Self {
        Self {
            checks_signatures: true,
            ..self
        }
    }

    /// Executes the journal's records, beginning with record `from`; returns their number.
    pub(super) fn run<D: Disk>(&mut self, journal: &Journal<D>, from: Lsn) -> Result<u64, OpenError> {
        let mut records = journal.records(from)?;
        let mut replayed = 0;
        while let Some(record) = records.next()? {
            self.record(&record)?;
            replayed += 1;
        }
        Ok(replayed)
    }

    /// Executes one record.
    pub(super) fn record(&mut self, record: &Record<'_>) -> Result<(), OpenError> {
        let entry = Entry::from_record(record.kind, record.payload).ok_or_else(|| {
            wrong(
                record.lsn,
                format!("kind {} is unknown, or the record is malformed", record.kind),
            )
        })?;
        self.entry(record.lsn, &entry)
            .map_err(|what| wrong(record.lsn, what))?;
        // The fast-path table is filled from the whole ledger, so single changes are not needed.
        self.ledger.forget_changes();
        Ok(())
    }

    /// Ends the replay, whose result so far is `so_far`. Returns the ledger, its mode, and the chain after every block
    /// was verified. If there are two faults, returns the one that comes first in the journal.
    pub(super) fn finish(
        mut self,
        so_far: Result<(), OpenError>,
    ) -> Result<(Ledger, Option<Mode>, Chain), OpenError> {
        self.send_leaves();
        drop(self.blocks);
        let chain = match self.checker.join() {
            Ok(chain) => chain,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        match (so_far, chain) {
            (Ok(()), Ok(chain)) => Ok((self.ledger, self.mode, chain)),
            // The thread verifies a block after the replay has executed the entries before the block. If both find a
            // fault, the fault of the block comes first in the journal.
            (_, Err(fault)) | (Err(fault), Ok(_)) => Err(fault),
        }
    }

    fn push(&mut self, leaf: [u8; LEAF_BYTES]) {
        self.leaves.push(leaf);
        if self.leaves.len() == LEAVES {
            self.send_leaves();
        }
    }

    fn send_leaves(&mut self) {
        let leaves = std::mem::replace(&mut self.leaves, Vec::with_capacity(LEAVES));
        self.send(ToCheck::Leaves(leaves));
    }

    fn send_signed(&self, lsn: Lsn, head: &SignedHead, execute: &ExecuteHead, operations: &[Operation]) {
        if self.checks_signatures {
            let (head, bytes) = (Box::new(*head), signed_bytes(execute, operations));
            self.send(ToCheck::Signed { lsn, head, bytes });
        }
    }

    fn send(&self, message: ToCheck) {
        // The thread ends when it finds a fault, which `finish` returns.
        let _ = self.blocks.send(message);
    }

    /// Executes an entry again.
    fn entry(&mut self, lsn: Lsn, entry: &Entry) -> Result<(), String> {
        match entry {
            Entry::Limits { limits, mode } => {
                if self.mode.is_some_and(|own| own != *mode) {
                    return Err("the mode differs from that of earlier records".into());
                }
                self.mode = Some(*mode);
                self.ledger.set_limits(*limits);
            }
            Entry::Paper { request, answer } => {
                if self.ledger.paper_answer(request).is_some() {
                    return Err("its transaction id was used before".into());
                }
                let replayed = self.ledger.paper(request, true);
                if replayed != (*answer, true) {
                    return Err(format!(
                        "the recorded reply is {answer:?}, but the replay gives {replayed:?}"
                    ));
                }
                if answer.code == Code::Done {
                    self.push(settlement::paper_leaf(request, answer, self.ledger.number()));
                }
            }
            Entry::Execute {
                slot,
                sequence,
                now_s,
                operations,
                outcomes,
                signed,
            } => {
                let token = self.ledger.session(*slot).map_or(0, |session| session.token);
                match self.ledger.session_answer(*slot, token, *sequence, operations) {
                    None => {}
                    Some(SessionAnswer::NoSession) => {
                        return Err("the session of the packet is not open".into());
                    }
                    Some(_) => return Err("the packet is not the next one of its session".into()),
                }
                // The replay does not know the permissions of that time; it takes them from the recorded reply. The
                // same applies to operations of 0: journals of earlier versions contain executed ones.
                let permitted = |index: usize, _: Option<&Account>| match outcomes[index].code {
                    Code::Unauthorised => Err(Code::Unauthorised),
                    Code::BadCommand => native::check(&operations[index]),
                    _ => Ok(()),
                };
                let number_before = self.ledger.number();
                let replayed = self
                    .ledger
                    .execute(*slot, *sequence, operations, permitted, *now_s);
                if replayed != *outcomes {
                    return Err(format!(
                        "the recorded reply is {outcomes:?}, but the replay gives {replayed:?}"
                    ));
                }
                for (operation, outcome) in native::executed(operations, outcomes, number_before) {
                    self.push(settlement::leaf(operation, outcome));
                }
                if let Some(head) = signed {
                    self.signed += 1;
                    self.send_signed(
                        lsn,
                        head,
                        &execute_head(*slot, token, *sequence, operations),
                        operations,
                    );
                }
            }
            Entry::Partly {
                slot,
                sequence,
                now_s,
                sum,
                codes,
                operations,
                outcomes,
            } => {
                if !self.ledger.is_next(*slot, *sequence) {
                    return Err(format!(
                        "the packet of session {slot} has sequence number {sequence}, which is not the next one"
                    ));
                }
                let number_before = self.ledger.number();
                let replayed = self.ledger.run(operations, |_, _| Ok(()), *now_s);
                if replayed != *outcomes {
                    return Err(format!(
                        "the recorded reply is {outcomes:?}, but the replay gives {replayed:?}"
                    ));
                }
                for (operation, outcome) in native::executed(operations, outcomes, number_before) {
                    self.push(settlement::leaf(operation, outcome));
                }
                let mut done = outcomes.iter();
                let outcomes: Vec<Outcome> = codes
                    .iter()
                    .map(|code| match code {
                        Code::Done => done.next().copied().unwrap_or(Outcome::refused(Code::Done)),
                        code => Outcome::refused(*code),
                    })
                    .collect();
                self.ledger
                    .keep_executed(*slot, *sequence, *sum, &outcomes, *now_s);
            }
            Entry::Open {
                slot,
                token,
                opener,
                now_s,
            } => {
                if self.ledger.session(*slot).is_some() || *token == 0 {
                    return Err("its slot is taken".into());
                }
                self.ledger.open(*slot, *token, *opener, *now_s);
            }
            Entry::Close { slot } => self.ledger.close(*slot),
            Entry::Expire(id) => {
                if !self.ledger.expire(id) {
                    return Err("there is no such pending transfer".into());
                }
            }
            Entry::Line(record) => {
                if record.index == 0 && record.slot != NO_SESSION {
                    // Index 0 begins the session's next packet. If the packet before it is incomplete in the journal, a
                    // power cut lost its missing operations, so the ledger must no longer wait for them.
                    self.ledger.nothing_is_missing(Some(record.slot));
                }
                if self.ledger.line(record)? != RecordResult::Done {
                    return Err("it comes before a record that it depends on".into());
                }
                if record.code == Code::Done as u16 {
                    self.push(settlement::line_leaf(record, self.ledger.number()));
                }
            }
            Entry::PaperRefused {
                request,
                code,
                version,
            } => {
                request
                    .command_in_journal()
                    .map_err(|_| "it has no valid command")?;
                let record = ring::Record::refused(request, *code, *version);
                if self.ledger.line(&record)? != RecordResult::Done {
                    return Err("it comes before a record that it depends on".into());
                }
            }
            Entry::Refused {
                slot,
                sequence,
                now_s,
                sum,
                codes,
                rest,
            } => {
                // A refused packet is a packet of its own. If the packet before it is incomplete in the journal, a
                // power cut lost its missing operations, so the ledger must no longer wait for them.
                self.ledger.nothing_is_missing(Some(*slot));
                let rest = std::iter::repeat_n(Code::Busy, (*rest).into());
                let codes: Vec<Code> = codes.iter().copied().chain(rest).collect();
                if !self.ledger.refused(*slot, *sequence, *sum, &codes, *now_s) {
                    return Err(format!(
                        "the packet of session {slot} has sequence number {sequence}, which is not the next one"
                    ));
                }
            }
            Entry::Time { now_s } => self.ledger.time(*now_s),
            Entry::Block(block) => {
                self.send_leaves();
                self.send(ToCheck::Block {
                    lsn,
                    block: Box::new(*block),
                    issued: self.ledger.issued(),
                    accounts: self.ledger.account_count() as u64,
                });
            }
        }
        Ok(())
    }
}

/// Returns the head of a session's packet as it was sent.
fn execute_head(slot: u32, token: u64, sequence: u64, operations: &[Operation]) -> ExecuteHead {
    ExecuteHead {
        token: token.into(),
        sequence: sequence.into(),
        slot: slot.into(),
        count: (operations.len() as u16).into(),
        durability: 0.into(),
    }
}

/// Verifies blocks and signatures until the replay ends, or one is wrong.
fn check(mut chain: Chain, messages: &Receiver<ToCheck>) -> Result<Chain, OpenError> {
    let (mut checker, mut waiting) = (None, Vec::new());
    for message in messages {
        match message {
            ToCheck::Leaves(leaves) => leaves.iter().for_each(|leaf| chain.push(leaf)),
            ToCheck::Signed { lsn, head, bytes } => {
                waiting.push((lsn, head, bytes));
                if waiting.len() == SIGNATURES {
                    check_signatures(&mut checker, &mut waiting)?;
                }
            }
            ToCheck::Block {
                lsn,
                block,
                issued,
                accounts,
            } => {
                check_signatures(&mut checker, &mut waiting)?;
                if let Some(fault) = chain.fault(&block, issued, accounts) {
                    return Err(wrong(lsn, format!("block {}: {fault}", block.number)));
                }
                chain.passed(&block);
            }
        }
    }
    check_signatures(&mut checker, &mut waiting)?;
    Ok(chain)
}

fn check_signatures(
    checker: &mut Option<SignatureChecker>,
    waiting: &mut Vec<(Lsn, Box<SignedHead>, Vec<u8>)>,
) -> Result<(), OpenError> {
    if waiting.is_empty() {
        return Ok(());
    }
    let (lsns, signed): (Vec<Lsn>, Vec<SignedBytes<'_>>) = waiting
        .iter_mut()
        .map(|(lsn, head, bytes)| {
            let bytes = std::mem::take(bytes);
            (*lsn, SignedBytes { head, bytes })
        })
        .unzip();
    let signers = checker.get_or_insert_default().check(&signed);
    if let Some(at) = signers.iter().position(Option::is_none) {
        return Err(wrong(lsns[at], "its signature is invalid".into()));
    }
    waiting.clear();
    Ok(())
}

//! Mode `express`: refusals in the paper's format, which prove no source, share one credit between fast path and host.
//! Without credit, a request that cannot be executed is `busy`, changes nothing, and is not in the journal.

mod common;

use common::line::{ExpressServer, start, start_on, store, stranger};
use common::{LOOPBACK, NOW_S, key};
use lineside_fastpath::Source;
use lineside_journal::{SimDisk, dump};
use lineside_transfer::entry::Entry;
use lineside_transfer::host::audit;
use lineside_transfer::paper::PaperRequest;
use lineside_wire::{
    TRANSFER_COMMAND_CREATE as CREATE, TRANSFER_COMMAND_TRANSFER as TRANSFER, TransferCode as Code,
};

const PER_S: u64 = 16;
/// Number of refusals that are possible at once: the credit of a minute.
const BURST: u64 = 60 * PER_S;
/// Source of the requests that are refused.
const POOR: u32 = 2;

impl ExpressServer {
    /// Returns the code of the reply to a request in the paper's format, and whether the fast path answered it.
    fn paper(&mut self, from: Source, request: PaperRequest) -> (u32, bool) {
        let (reply, by_fastpath) = self.ask(from, &request.to_bytes());
        let word = |at: usize| u32::from_be_bytes(reply[at..at + 4].try_into().unwrap());
        let is_refused = word(0) >> 31 != 0;
        (if is_refused { word(16) } else { 0 }, by_fastpath)
    }

    /// Sends refused requests as fast as possible from one source, until one is answered `busy` although the ring has
    /// room. `id` is the transaction id of the next request.
    fn overwhelm_paper(&mut self, from: Source, id: &mut u32) {
        loop {
            match self.paper(from, beyond(*id)) {
                (code, true) if code == Code::InsufficientFunds as u32 => *id += 1,
                (code, true) if code == Code::Busy as u32 => {
                    let waiting = self.host.unjournaled();
                    self.host.tick(self.now_s);
                    if waiting < common::line::RING {
                        return;
                    }
                }
                other => panic!("{other:?}"),
            }
            assert!(u64::from(*id) < 100 * BURST, "refusals are not limited");
        }
    }
}

/// Returns a transfer of an amount that exceeds the balance of its source.
fn beyond(id: u32) -> PaperRequest {
    PaperRequest::new(TRANSFER, id, POOR, 1, 1_000_000)
}

/// Returns the number of refused requests in the paper's format in the journal, and their size in bytes.
fn refusals(disk: &SimDisk) -> (u64, usize) {
    let (mut count, mut bytes) = (0, 0);
    dump(disk, 1, |record| {
        let is_refused = match Entry::from_record(record.kind, record.payload) {
            Some(Entry::PaperRefused { .. }) => true,
            Some(Entry::Paper { answer, .. }) => answer.code != Code::Done,
            _ => false,
        };
        count += u64::from(is_refused);
        bytes += record.payload.len() * usize::from(is_refused);
    })
    .unwrap();
    (count, bytes)
}

#[test]
fn refusals_of_the_fast_path_are_written_at_a_rate() {
    const SECONDS: u64 = 20;
    let disk = SimDisk::new(1);
    let mut line = start(&disk, PER_S as u32);
    let (mut id, mut done) = (1, 0);
    for second in 0..SECONDS {
        line.now_s = NOW_S + second;
        line.host.tick(line.now_s);
        line.overwhelm_paper(stranger(1), &mut id);
        // Another source address gets no further refusals, and the fast path executes valid requests, also from this
        // source.
        assert_eq!(line.paper(stranger(9), beyond(id)), (Code::Busy as u32, true));
        let good = PaperRequest::new(TRANSFER, second as u32 + 1, 1, POOR, 1);
        assert_eq!(line.paper(stranger(1), good), (0, true));
        done += 1;
        line.host.tick(line.now_s);
    }
    let (written, bytes) = refusals(&disk);
    assert_eq!(written, u64::from(id) - 1);
    assert!((BURST..=BURST + PER_S * SECONDS).contains(&written), "{written}");
    assert!(bytes as u64 <= 96 * written);
    // The `busy` replies used no transaction id: the same request is executed later, when the balance suffices.
    let last = id - 1;
    assert_eq!(
        line.paper(stranger(1), beyond(last)),
        (Code::InsufficientFunds as u32, true)
    );
    let now = PaperRequest::new(TRANSFER, id, POOR, 1, 1);
    assert_eq!(line.paper(stranger(1), now), (0, true));
    line.host.tick(line.now_s);
    let ledger = line.host.ledger().to_bytes();
    drop(line);
    disk.power_cut();
    let mut line = start_on(&disk, store(), PER_S as u32);
    assert_eq!(line.host.ledger().to_bytes(), ledger);
    assert_eq!(
        line.paper(stranger(1), now),
        (0, true),
        "it gets the same reply again"
    );
    assert_eq!(line.host.ledger().to_bytes(), ledger);
    assert_eq!(audit(&disk, *key().verifying_key()).unwrap().operations, 3 + done);
}

#[test]
fn fast_path_and_host_share_the_credit_for_refusals() {
    let disk = SimDisk::new(2);
    let mut line = start(&disk, PER_S as u32);
    let mut id = 1;
    line.overwhelm_paper(stranger(1), &mut id);
    let (busy, refused) = (Code::Busy as u8, Code::InsufficientFunds as u8);
    assert_eq!(line.host_says(stranger(2), &beyond(id).to_bytes())[19], busy);
    assert_eq!(line.host.counts().limited, 1);
    // A trusted source needs no credit if the host answers its request, but needs credit if the fast path does.
    assert_eq!(line.paper(LOOPBACK, beyond(id)), (Code::Busy as u32, true));
    assert_eq!(line.host_says(LOOPBACK, &beyond(id).to_bytes())[19], refused);
    line.now_s += 1;
    line.host.tick(line.now_s);
    assert_eq!(line.store.paper_refusals(), PER_S as i64);
    // Refusals by the host use the same credit.
    assert_eq!(
        line.host_says(stranger(2), &beyond(id + 1).to_bytes())[19],
        refused
    );
    assert_eq!(line.store.paper_refusals(), PER_S as i64 - 1);
    // A request without an id is not recorded, and needs no credit.
    for _ in 0..2 * PER_S {
        assert_eq!(
            line.paper(stranger(1), beyond(0)).0,
            Code::InsufficientFunds as u32
        );
        let create = PaperRequest::new(CREATE, 0, POOR, 0, 1);
        assert_eq!(line.paper(LOOPBACK, create).0, Code::AccountExists as u32);
    }
    assert_eq!(line.store.paper_refusals(), PER_S as i64 - 1);
    // Even years later, the credit is only the credit of a minute.
    line.now_s += 100_000_000;
    line.host.tick(line.now_s);
    assert_eq!(line.store.paper_refusals(), BURST as i64);
}

//! Cases of `transfer`: TRANSFER requests in the paper's format, back to back, whose accounts conflict in
//! different ways.

use super::measure::{Bench, Case, framed_to, v4};
use super::report::CaseFigures;
use crate::error::{Result, io, void};
use crate::wrong::WrongReplies;
use lineside_conformance::rtl::{RtlModel, setup_commands};
use lineside_conformance::transfer::Transfer;
use lineside_fastpath::{FrameHandler, lease};
use lineside_rtl::sim::Simulation;
use lineside_rtl::{NicDesign, SIM_BUCKET_BITS};
use lineside_transfer::fastpath::TransferFastPath;
use lineside_transfer::store::{Geometry, Mode, Range, Store};
use lineside_wire::endpoint::Endpoint;
use lineside_wire::{PaperTransfer, TRANSFER_COMMAND_CREATE, TRANSFER_COMMAND_TRANSFER, TRANSFER_PORT};
use std::sync::Arc;
use zerocopy::IntoBytes;

/// Number of accounts.
const ACCOUNTS: u32 = 32;
/// Balance of each account at the beginning; an account pays one unit in each of its requests.
const BALANCE: u32 = 1 << 30;
/// log2 of the number of records that fit into the ring of the model. The model writes one record for each executed
/// request, and the bench never reads them, so the ring must have room for all records of a case.
const RING_BITS: u32 = 20;

/// Returns the cases: all payments between the same two accounts; payments to an account that pays in the next request;
/// and payments whose accounts occur in no other one of 16 requests.
///
/// # Errors
/// A request does not fit into a frame.
pub fn cases(frames: usize) -> Result<Vec<Case>> {
    let of = |name, accounts: &dyn Fn(u32) -> (u32, u32)| -> Result<Case> {
        let frame = |number| {
            let (source, destination) = accounts(number);
            request(TRANSFER_COMMAND_TRANSFER, source, destination, 1)
        };
        let count = 2 * u32::try_from(frames.max(1)).map_err(|_| void("too many frames"))?;
        let frames: Result<Vec<_>> = (0..count).map(frame).collect();
        Ok(Case {
            name,
            frames: frames?,
        })
    };
    Ok(vec![
        of("transfer_one_pair", &|_| (0, 1))?,
        of("transfer_chain", &|number| {
            (number % ACCOUNTS, (number + 1) % ACCOUNTS)
        })?,
        of("transfer_separate_pairs", &|number| {
            let source = 2 * (number % (ACCOUNTS / 2));
            (source, source + 1)
        })?,
    ])
}

/// Measures a case with a new NIC, in which the accounts are created first.
///
/// # Errors
/// The memory of the store cannot be allocated, the simulated NIC broke a rule of its streams, or not every request was
/// executed.
pub fn measure(
    case: &Case,
    rounds: usize,
    endpoint: &Endpoint,
    wrong: &mut WrongReplies,
) -> Result<CaseFigures> {
    let geometry = Geometry {
        account_bits: SIM_BUCKET_BITS,
        sessions: 1,
        ring_bits: RING_BITS,
        mode: Mode::Express,
        issuers: vec![Range {
            address: v4(9),
            prefix_bits: 32,
        }],
        ..Geometry::default()
    };
    let store = Store::anonymous(&geometry).map_err(io("the memory of the accounts"))?;
    lease::renew(&store.control().lease_until_ns, 1 << 50);
    let mut nic = Simulation::new(NicDesign::Transfer).map_err(void)?;
    nic.execute(&setup_commands::<Transfer>(&store, endpoint, TRANSFER_PORT))
        .map_err(void)?;
    let model = RtlModel::<Transfer>::new(TransferFastPath::on_cpu(Arc::new(store), 0));
    let mut bench = Bench {
        nic: &mut nic,
        handler: &FrameHandler {
            endpoint,
            port: TRANSFER_PORT,
            fastpath: &model,
        },
        wrong,
        sent: 0,
    };
    let creations: Result<Vec<_>> = (0..ACCOUNTS)
        .map(|account| request(TRANSFER_COMMAND_CREATE, account, 0, BALANCE))
        .collect();
    bench.send(case.name, &creations?)?;
    let figures = bench.measure(case, rounds)?;
    let sent = bench.sent;
    let executed = nic.take_records().len();
    if executed != sent {
        return Err(void(format!(
            "{}: the NIC wrote {executed} records for {sent} requests",
            case.name
        )));
    }
    Ok(figures)
}

/// Returns a frame with a request in the paper's format, without a transaction id.
fn request(command: u8, source: u32, destination: u32, amount: u32) -> Result<Vec<u8>> {
    let packet = PaperTransfer {
        command: u32::from(command).into(),
        transaction_id: 0.into(),
        source: source.into(),
        destination: destination.into(),
        amount: amount.into(),
    };
    framed_to(TRANSFER_PORT, packet.as_bytes(), false)
        .ok_or_else(|| void("a request does not fit into a frame"))
}

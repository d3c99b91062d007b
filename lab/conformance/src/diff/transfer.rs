//! Comparison for `transfer`. The model and another datapath get the same requests and the same actions of the host,
//! each with its own store. Their results, counters and stores must be equal.

#[cfg(feature = "rtl")]
pub mod rtl;
mod traffic;

use super::{Datapath, DiffCounts, DiffError, ListedRequests, endpoint};
use crate::frames::DatapathKind;
use crate::transfer::{FrameDatapath, NativeOrders};
use lineside_fastpath::lease;
use lineside_testkit::cpu;
use lineside_transfer::claims::{Claims, StoreClaims};
use lineside_transfer::datapath::{LineClaims, rings};
use lineside_transfer::ring::Ring;
use lineside_transfer::store::{Geometry, Mode, Range, Store};
use lineside_wire::{DropReason, TRANSFER_FAST_PATH, TRANSFER_PORT, TransferCounter};
use lineside_xdp::XdpError;
use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use traffic::Traffic;

/// Odd multiplier whose bits are well spread (2^64 divided by the golden ratio).
const HASH_STEP: u64 = 0x9e37_79b9_7f4a_7c15;
/// Number of frames after which the whole stores are compared.
const STRIDE: u64 = 256;

/// Case of the comparison.
#[derive(Clone, Debug)]
pub struct Case {
    /// Name of the case; it says what the case tests.
    pub name: &'static str,
    /// Geometry of the store, with one ring for each CPU.
    pub geometry: Geometry,
    /// True if the interface of the fast path is `lo`.
    pub loopback: bool,
    /// Number of accounts in the requests.
    pub accounts: u32,
    /// True if, during the frames, leases end, policies change, locks are held, and the host claims and changes
    /// accounts.
    pub unrest: bool,
    /// Number of refusals of requests with a transaction id in the paper's format that may be recorded.
    pub paper_refusals: i64,
}

/// Returns all cases: both modes, large and small stores, a few accounts that conflict and many accounts, and required
/// signatures.
///
/// # Errors
/// Fails if the CPUs of the system cannot be read.
pub fn cases() -> Result<Vec<Case>, XdpError> {
    let geometry = Geometry {
        account_bits: 5,
        sessions: 7,
        rings: rings()?,
        ring_bits: 6,
        mode: Mode::Express,
        paper_format: true,
        require_signature: false,
        issuers: traffic::issuers(),
    };
    let case = |name, geometry: &Geometry, accounts| Case {
        name,
        geometry: geometry.clone(),
        loopback: false,
        accounts,
        unrest: false,
        paper_refusals: i64::MAX,
    };
    let durable = Geometry {
        mode: Mode::Durable,
        ..geometry.clone()
    };
    let tiny = Geometry {
        account_bits: 1,
        ring_bits: 3,
        ..geometry.clone()
    };
    let signed = Geometry {
        require_signature: true,
        ..geometry.clone()
    };
    let no_paper = Geometry {
        paper_format: false,
        ..geometry.clone()
    };
    let many = Geometry {
        account_bits: 10,
        ..geometry.clone()
    };
    Ok(vec![
        case("few accounts", &geometry, 6),
        case("many accounts", &many, 1500),
        case("store full", &tiny, 24),
        Case {
            paper_refusals: 40,
            ..case("few refusals", &geometry, 6)
        },
        Case {
            unrest: true,
            ..case("unrest", &geometry, 8)
        },
        Case {
            loopback: true,
            ..case("loopback", &geometry, 12)
        },
        case("signatures required", &signed, 6),
        case("paper refused", &no_paper, 6),
        Case {
            unrest: true,
            ..case("durable", &durable, 8)
        },
    ])
}

/// Compares one case with the model over `count` frames. Returns the counts, and the model's counters.
///
/// # Errors
/// The first difference in verdict, bytes, counters or stores, or an error of the operating system.
pub fn run(
    case: &Case,
    against: DatapathKind,
    count: u64,
    seed: u64,
) -> Result<(DiffCounts, [u64; TransferCounter::ALL.len()]), DiffError> {
    // A separate thread runs on a single CPU, so that only this CPU's ring is written.
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| pinned(case, against, count, seed));
        thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn pinned(
    case: &Case,
    against: DatapathKind,
    count: u64,
    seed: u64,
) -> Result<(DiffCounts, [u64; TransferCounter::ALL.len()]), DiffError> {
    let cpu = cpu::allowed()?
        .first()
        .copied()
        .ok_or_else(|| io::Error::other("no CPU"))?;
    cpu::pin(cpu)?;
    let endpoint = endpoint(case.loopback);
    let (model, own) = FrameDatapath::open(DatapathKind::Socket, &case.geometry, &endpoint, TRANSFER_PORT)?;
    let (datapath, theirs) = FrameDatapath::open(against, &case.geometry, &endpoint, TRANSFER_PORT)?;
    for store in [&own, &theirs] {
        // The seed also determines the hash key, and therefore which accounts share a bucket, so that a run can be
        // repeated.
        for (place, word) in store.control().key.iter().enumerate() {
            let key = seed.wrapping_add(place as u64).wrapping_mul(HASH_STEP) | 1;
            word.store(key, Relaxed);
        }
        store.set_paper_refusals(case.paper_refusals);
        lease::renew(&store.control().lease_until_ns, 1 << 50);
    }
    let own_ring = lineside_fastpath::thread_index() % case.geometry.rings as usize;
    let mut pair = Pair {
        model: Side {
            datapath: model,
            store: own,
            ring: own_ring,
        },
        other: Side {
            datapath,
            store: theirs,
            ring: match against {
                DatapathKind::Socket | DatapathKind::Explained => own_ring,
                DatapathKind::Xdp => cpu,
                DatapathKind::Native => 0,
            },
        },
        seen: DiffCounts::default(),
        against,
    };
    let mut traffic = Traffic::new(seed, case, &endpoint, Arc::clone(&pair.model.store));
    for side in [&pair.model, &pair.other] {
        traffic.prepare(&side.store);
    }
    for number in 0..count {
        let frame = traffic.next_frame();
        pair.compare_frame(number, &frame)?;
        traffic.disturb(&pair.stores(), pair.rings());
        if let Some(order) = traffic.next_order(&pair.stores()) {
            order.carry_out(&StoreClaims::new(Arc::clone(&pair.model.store)))?;
            order.carry_out(&*pair.other.claims()?)?;
        }
        if number % STRIDE == STRIDE - 1 || number == count - 1 {
            pair.compare(number)?;
        }
    }
    let counters = pair.model.datapath.counters()?;
    Ok((pair.seen, std::array::from_fn(|index| counters[index])))
}

/// One side of the comparison, with its store and the ring that it writes.
struct Side {
    datapath: FrameDatapath,
    store: Arc<Store>,
    ring: usize,
}

impl Side {
    /// Returns the claims that the host makes in this side's store.
    fn claims(&mut self) -> Result<Box<dyn Claims + '_>, XdpError> {
        Ok(match &mut self.datapath {
            FrameDatapath::Socket(_) => Box::new(StoreClaims::new(Arc::clone(&self.store))),
            FrameDatapath::Xdp(datapath) => Box::new(LineClaims::of(datapath)?),
            FrameDatapath::Native(datapath) => Box::new(LineClaims::by(NativeOrders(RefCell::new(datapath)))),
        })
    }
}

struct Pair {
    model: Side,
    other: Side,
    seen: DiffCounts,
    against: DatapathKind,
}

impl Pair {
    fn stores(&self) -> [&Store; 2] {
        [&self.model.store, &self.other.store]
    }

    fn rings(&self) -> [Ring<'_>; 2] {
        [&self.model, &self.other].map(|side| Ring::of(&side.store, side.ring))
    }

    /// Sends the same frame through both sides and compares the results.
    fn compare_frame(&mut self, number: u64, request: &[u8]) -> Result<(), DiffError> {
        let listed = ListedRequests {
            list: &TRANSFER_FAST_PATH,
            datapaths: &["socket", self.against.listed_name()],
        };
        self.seen.compare_frame(
            number,
            request,
            &listed,
            &mut self.model.datapath,
            &mut self.other.datapath,
        )
    }

    /// Compares the counters, the numbers of drops, and the whole stores.
    fn compare(&mut self, number: u64) -> Result<(), DiffError> {
        let counters = [self.model.datapath.counters()?, self.other.datapath.counters()?];
        let drops = [self.model.datapath.drops()?, self.other.datapath.drops()?];
        let held = [&self.model, &self.other].map(|side| words(&side.store, side.ring));
        let fault = match () {
            _ if counters[0] != counters[1] => Some(format!("counters {counters:?}")),
            _ if drops[0] != drops[1] => Some(format!("drops by {:?}: {drops:?}", DropReason::ALL)),
            _ => held[0]
                .iter()
                .zip(&held[1])
                .find(|(model, other)| model != other)
                .map(|(model, other)| {
                    format!("the stores differ: the model has {model:x?}, the datapath {other:x?}")
                }),
        };
        match fault {
            None => Ok(()),
            Some(what) => Err(DiffError::Differs {
                number,
                what,
                request: Vec::new(),
                model: Vec::new(),
                datapath: Vec::new(),
            }),
        }
    }
}

/// Entry of a store: name of the table, index in it, and its 64-bit words.
type Entry = (&'static str, usize, Vec<u64>);

/// Returns the content of the store that does not depend on the datapath. Of the rings it contains only the one that
/// this datapath writes, and of its records all fields except the time.
fn words(store: &Store, ring: usize) -> Vec<Entry> {
    let wide = |words: &[&AtomicU64]| words.iter().map(|word| word.load(Relaxed)).collect::<Vec<_>>();
    let narrow =
        |words: &[&AtomicU32]| -> Vec<u64> { words.iter().map(|word| word.load(Relaxed).into()).collect() };
    let mut all = vec![("control", 0, wide(&[&store.control().paper_refusals]))];
    for (index, cell) in store.cells.as_slice().iter().enumerate() {
        let mut words = wide(&[
            &cell.id[0],
            &cell.id[1],
            &cell.balance,
            &cell.held_out,
            &cell.held_in,
            &cell.version,
        ]);
        words.extend(narrow(&[
            &cell.lock,
            &cell.flags,
            &cell.bucket_lock,
            &cell.reserved,
        ]));
        all.push(("cells", index, words));
    }
    for (index, last) in store.paper.as_slice().iter().enumerate() {
        let words = narrow(&[
            &last.last_id,
            &last.destination,
            &last.amount,
            &last.command,
            &last.reply_amount,
            &last.reserved,
        ]);
        all.push(("paper", index, words));
    }
    for (index, session) in store.sessions.as_slice().iter().enumerate() {
        let mut words = wide(&[
            &session.token,
            &session.sequence,
            &session.sum,
            &session.codes,
            &session.claimed,
        ]);
        words.extend(narrow(&[&session.lock, &session.count]));
        words.extend(session.amounts.iter().map(|amount| amount.load(Relaxed)));
        all.push(("sessions", index, words));
    }
    let heads = store.rings.as_slice().iter().enumerate();
    let others = heads
        .filter(|(index, _)| *index != ring)
        .map(|(_, other)| other.head.load(Relaxed));
    let head = &store.rings.as_slice()[ring];
    all.push((
        "rings",
        0,
        [wide(&[&head.head, &head.tail]), others.collect()].concat(),
    ));
    let records = store.control().ring_records.load(Relaxed) as usize;
    for (index, record) in store.records.as_slice()[ring * records..][..records]
        .iter()
        .enumerate()
    {
        let mut words = wide(&[
            &record.seal,
            &record.source[0],
            &record.source[1],
            &record.destination[0],
            &record.destination[1],
            &record.amount,
            &record.source_version,
            &record.destination_version,
            &record.source_balance,
            &record.sequence,
            &record.sum,
            &record.timestamp,
            &record.uuid[0],
            &record.uuid[1],
        ]);
        words.extend(narrow(&[
            &record.slot,
            &record.command,
            &record.contract,
            &record.place,
            &record.nonce,
            &record.timeout_s,
        ]));
        all.push(("records", index, words));
    }
    all
}

/// Returns an address range of issuers, which is the same for both sides.
fn range(text: &str, prefix_bits: u32) -> Option<Range> {
    text.parse().ok().map(|address| Range { address, prefix_bits })
}

//! Comparison for `column`. The model and another datapath get the same frames and the same actions of the host, each
//! with its own store. Their results, counters and stores must be equal. Between the frames, the host fills and
//! invalidates intervals, changes leases and policies, and stops in the middle of a change.

mod traffic;

use super::{DiffCounts, DiffError, ListedRequests, endpoint};
use crate::column::FrameDatapath;
use crate::frames::DatapathKind;
use lineside_column::fill::{ColumnFill, ColumnId, Filled, Row, ServerId};
use lineside_column::key::{Interval, Key};
use lineside_column::store::{Geometry, Store};
use lineside_column::writer::ColumnWriter;
use lineside_fastpath::{Range, lease};
use lineside_wire::endpoint::Endpoint;
use lineside_wire::{COLUMN_FAST_PATH, COLUMN_PORT, ColumnCounter, DropReason};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use traffic::{COLUMNS, Traffic};

/// Number of frames after which the whole stores are compared.
const STRIDE: u64 = 256;
/// Lease in nanoseconds; it is longer than any comparison.
const LEASE_NS: u64 = 1 << 50;

/// Case of the comparison.
#[derive(Clone, Debug)]
pub struct Case {
    /// Name of the case; it says what the case tests.
    pub name: &'static str,
    /// Geometry of the store.
    pub geometry: Geometry,
    /// True if the interface of the fast path is `lo`.
    pub loopback: bool,
    /// Common prefix of all keys.
    pub prefix: &'static [u8],
    /// True if, during the frames, leases end, policies change and the host stops in the middle of changes.
    pub unrest: bool,
}

/// Returns all cases: large and small stores, short and long keys, each flag of the geometry, and unrest.
pub fn cases() -> Vec<Case> {
    let range = |text: &str, prefix_bits| text.parse().ok().map(|address| Range { address, prefix_bits });
    let geometry = Geometry {
        family_bits: 0,
        column_bits: 1,
        row_bits: 10,
        value_bits: 0,
        block_bits: 3,
        columns: COLUMNS.map(str::to_owned).to_vec(),
        trusted_sources: [range("10.0.0.0", 8), range("fd00::", 64)]
            .into_iter()
            .flatten()
            .collect(),
        ..Geometry::default()
    };
    let case = |name, geometry: &Geometry| Case {
        name,
        geometry: geometry.clone(),
        loopback: false,
        prefix: b"",
        unrest: false,
    };
    let with = |change: &dyn Fn(&mut Geometry)| {
        let mut geometry = geometry.clone();
        change(&mut geometry);
        geometry
    };
    vec![
        case("plenty of room", &with(&|geometry| geometry.row_bits = 13)),
        Case {
            prefix: b"a beginning of 24 bytes:",
            ..case("24 bytes", &with(&|geometry| geometry.value_bits = 1))
        },
        Case {
            prefix: &[b'k'; 60],
            ..case("60 bytes", &with(&|geometry| geometry.value_bits = 2))
        },
        case("few blocks", &with(&|geometry| geometry.row_bits = 5)),
        case("small blocks", &with(&|geometry| geometry.block_bits = 1)),
        case("literal flags", &with(&|geometry| geometry.literal_flags = true)),
        case("paper refused", &with(&|geometry| geometry.paper_format = false)),
        case("may be stale", &with(&|geometry| geometry.may_be_stale = true)),
        case(
            "no trusted address",
            &with(&|geometry| geometry.trusted_sources.clear()),
        ),
        Case {
            loopback: true,
            unrest: true,
            ..case("unrest", &geometry)
        },
    ]
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
) -> Result<(DiffCounts, [u64; ColumnCounter::ALL.len()]), DiffError> {
    let endpoint = endpoint(case.loopback);
    let mut sides = [
        Side::open(DatapathKind::Socket, case, &endpoint)?,
        Side::open(against, case, &endpoint)?,
    ];
    let mut traffic = Traffic::new(seed, case, &endpoint);
    let mut seen = DiffCounts::default();
    let listed = ListedRequests {
        list: &COLUMN_FAST_PATH,
        datapaths: &["socket", against.listed_name()],
    };
    for number in 0..count {
        for event in traffic.events() {
            sides.iter_mut().for_each(|side| side.happens(&event));
        }
        let frame = traffic.next_frame();
        let [model, other] = &mut sides;
        let (model, other) = (&mut model.datapath, &mut other.datapath);
        if let Err(difference) = seen.compare_frame(number, &frame, &listed, model, other) {
            // A difference in the counters often explains a difference in the result.
            compare(number, &mut sides).map_err(|counted| match (difference, counted) {
                (
                    DiffError::Differs {
                        number,
                        what,
                        request,
                        model,
                        datapath,
                    },
                    DiffError::Differs { what: counted, .. },
                ) => DiffError::Differs {
                    number,
                    what: format!("{what}; {counted}"),
                    request,
                    model,
                    datapath,
                },
                (difference, _) => difference,
            })?;
        }
        if number % STRIDE == STRIDE - 1 || number == count - 1 {
            compare(number, &mut sides)?;
        }
    }
    let counters = sides[0].datapath.counters()?;
    Ok((seen, std::array::from_fn(|index| counters[index])))
}

/// Action of the host; both sides of the comparison get the same actions.
#[derive(Clone, Debug)]
enum Event {
    /// The host fills an interval from the table.
    Install {
        column: ColumnId,
        interval: Interval,
        rows: Vec<Row>,
        until_ns: u64,
        server: ServerId,
    },
    /// The host invalidates the blocks of the fast path that overlap an interval: one row, or a longer interval.
    Invalidate(ColumnId, Interval),
    /// The host clears the whole store.
    Clear,
    /// The host ends or renews the lease of a server; with `None`, that of the fast path.
    Lease(Option<ServerId>, bool),
    /// The host stops in the middle of a change of a column, or continues the change.
    Halt(ColumnId, bool),
    /// The host turns three policies on or off: the paper's format, replies that may be stale, and literal flags.
    Policies(u32, u32, u32),
}

/// Rows of a column, by their keys.
type Table = BTreeMap<Key, Row>;

struct Side {
    datapath: FrameDatapath,
    store: Arc<Store>,
    writer: ColumnWriter,
}

impl Side {
    fn open(kind: DatapathKind, case: &Case, endpoint: &Endpoint) -> Result<Self, DiffError> {
        let (datapath, store) = FrameDatapath::open(kind, &case.geometry, endpoint, COLUMN_PORT)?;
        lease::renew(&store.control().lease_until_ns, LEASE_NS);
        let writer = ColumnWriter::new(Arc::clone(&store));
        Ok(Self {
            datapath,
            store,
            writer,
        })
    }

    fn happens(&mut self, event: &Event) {
        let control = self.store.control();
        match event {
            Event::Install {
                column,
                interval,
                rows,
                until_ns,
                server,
            } => self.writer.install(&Filled {
                column: *column,
                interval: *interval,
                rows,
                until_ns: *until_ns,
                server: *server,
            }),
            Event::Invalidate(column, interval) => self.writer.invalidate(*column, interval),
            Event::Clear => self.writer.clear(),
            Event::Lease(None, true) => control.lease_until_ns.store(u64::MAX, Relaxed),
            Event::Lease(None, false) => lease::end(&control.lease_until_ns),
            Event::Lease(Some(server), valid) => {
                self.writer
                    .set_server_lease(*server, if *valid { u64::MAX } else { 1 });
            }
            Event::Halt(column, halted) => {
                let seq = &self.store.tables.as_slice()[usize::from(column.0)].seq;
                match halted {
                    true => seq.fetch_or(1, Relaxed),
                    false => seq.fetch_and(!1, Relaxed),
                };
            }
            Event::Policies(paper_format, may_be_stale, literal_flags) => {
                control.paper_format.store(*paper_format, Relaxed);
                control.may_be_stale.store(*may_be_stale, Relaxed);
                control.literal_flags.store(*literal_flags, Relaxed);
            }
        }
    }
}

/// Compares the counters, the numbers of drops, and the whole stores. The hash key, and the order that it determines,
/// are ignored.
fn compare(number: u64, sides: &mut [Side; 2]) -> Result<(), DiffError> {
    let [model, other] = sides;
    let counters = [model.datapath.counters()?, other.datapath.counters()?];
    let drops = [
        super::Datapath::drops(&mut model.datapath)?,
        super::Datapath::drops(&mut other.datapath)?,
    ];
    let tables = |store: &Store| {
        [
            ("tables", store.tables.as_words()),
            ("tops", store.tops.as_words()),
            ("pages", store.pages.as_words()),
            ("blocks", store.blocks.as_words()),
            ("data", store.data.as_words()),
            ("servers", store.servers.as_words()),
        ]
        .map(|(name, words)| {
            (
                name,
                words.iter().map(|word| word.load(Relaxed)).collect::<Vec<_>>(),
            )
        })
    };
    let held = tables(&model.store).into_iter().zip(tables(&other.store));
    let differs = |((name, own), (_, theirs)): ((&str, Vec<u64>), (_, Vec<u64>))| {
        let place = own.iter().zip(&theirs).position(|(own, theirs)| own != theirs)?;
        Some(format!(
            "{name}, word {place}: the model's store has {:x}, the other store {:x}",
            own[place], theirs[place]
        ))
    };
    let fault = match () {
        () if counters[0] != counters[1] => Some(format!("counters {counters:?}")),
        () if drops[0] != drops[1] => Some(format!("drops by {:?}: {drops:?}", DropReason::ALL)),
        () => held.filter_map(differs).next(),
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

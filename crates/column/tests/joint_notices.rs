//! Tests of changes that a server announces in one notice, as the coprocessor in `clients/java/observer` does. The
//! tests run all orders of two changes, a fill, losses and the end of a lease, and check that the fast path is never
//! stale. They also show that each rule for joint notices is needed.

mod common;

use common::ModelFastPath;
use common::orders::{Chooser, explore};
use lineside_column::coherence::{Coherence, Fill};
use lineside_column::fill::{ColumnId, Filled, Row, ServerId};
use lineside_column::key::{Interval, Key};
use lineside_column::servers::{ChangeProgress, Servers};
use std::sync::Arc;

const COLUMN: ColumnId = ColumnId(0);
const SERVER: usize = 3;
const LEASE_NS: u64 = 10;
const NAMES: [&str; 2] = ["b", "d"];

/// Rule that the simulated server breaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Slip {
    None,
    /// A change joins a notice that was already sent without the change.
    JoinsWhatWasSent,
    /// The server reports a notice as finished when the first of its changes is finished.
    EndsWithTheFirst,
}

/// Events in a run, in addition to puts and a fill. A run with all events would have too many orders.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Plan {
    /// The network may lose acknowledgements and POST notices.
    Losses,
    /// The lease may end during the run.
    Lapse,
    /// A lease has ended after the first put began and before it was announced, and the server grants another lease.
    Renewal,
}

/// Notice of changes that share one number.
#[derive(Default)]
struct Told {
    rows: Vec<usize>,
    open: usize,
    is_sent: bool,
    tries: usize,
}

/// State of a put.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Put {
    NotBegun,
    /// The put has joined this notice and waits for its acknowledgement.
    In(usize),
    /// The notice was acknowledged or given up, so the put may become visible.
    Free(usize),
    Seen(usize),
    Over,
}

#[derive(Clone, Copy)]
enum Move {
    Begin(usize),
    GiveUp(usize),
    Show(usize),
    End(usize),
    Send(usize),
    HearGrant,
    Fill,
    Tick,
}

struct World<'a> {
    coherence: &'a Coherence,
    servers: &'a Servers,
    fastpath: ModelFastPath,
    plan: Plan,
    slip: Slip,
    now_ns: u64,
    granted_until_ns: u64,
    told: Vec<Told>,
    puts: [Put; 2],
    values: [u64; 2],
    renewal: Option<(ChangeProgress, u64, u64)>,
    fill_step: usize,
    fill: Option<(Fill<'a>, ServerId)>,
    /// Index of the row that is filled, and the version that the fill has read.
    read: (usize, u64),
    ticks: usize,
}

impl<'a> World<'a> {
    fn progress(&self) -> ChangeProgress {
        ChangeProgress {
            epoch: 1,
            oldest_open: 1 + self.told.iter().take_while(|one| one.open == 0).count() as u64,
        }
    }

    fn moves(&self) -> Vec<Move> {
        let mut moves = Vec::new();
        for (index, put) in self.puts.iter().enumerate() {
            match put {
                Put::NotBegun if index == 0 || self.puts[0] != Put::NotBegun => {
                    moves.push(Move::Begin(index))
                }
                Put::In(_) if self.now_ns > self.granted_until_ns => moves.push(Move::GiveUp(index)),
                Put::Free(_) => moves.push(Move::Show(index)),
                Put::Seen(_) => moves.push(Move::End(index)),
                _ => {}
            }
        }
        for (index, told) in self.told.iter().enumerate() {
            let tries = if self.plan == Plan::Losses { 2 } else { 1 };
            if self.puts.contains(&Put::In(index)) && told.tries < tries {
                moves.push(Move::Send(index));
            }
        }
        if self.renewal.is_some() {
            moves.push(Move::HearGrant);
        }
        if self.fill_step < 3 {
            moves.push(Move::Fill);
        }
        if self.plan == Plan::Lapse && self.ticks == 0 {
            moves.push(Move::Tick);
        }
        moves
    }

    fn act(&mut self, chosen: Move, chooser: &mut Chooser) {
        match chosen {
            Move::Begin(index) => self.begin(index),
            Move::GiveUp(index) => {
                if let Put::In(at) = self.puts[index] {
                    self.puts[index] = Put::Free(at);
                }
            }
            Move::Show(index) => {
                self.values[index] += 1;
                if let Put::Free(at) = self.puts[index] {
                    self.puts[index] = Put::Seen(at);
                }
            }
            Move::End(index) => {
                if let Put::Seen(at) = self.puts[index] {
                    self.told[at].open = match self.slip {
                        Slip::EndsWithTheFirst => 0,
                        _ => self.told[at].open - 1,
                    };
                }
                self.puts[index] = Put::Over;
                if !self.loses(chooser) {
                    self.servers.apply_progress(SERVER, self.progress());
                }
            }
            Move::Send(at) => self.send(at, chooser),
            Move::HearGrant => {
                if let Some((progress, next, sent_ns)) = self.renewal.take() {
                    self.servers
                        .granted(SERVER, progress, next, sent_ns, LEASE_NS, self.now_ns);
                }
            }
            Move::Fill => self.fill(chooser),
            Move::Tick => {
                self.now_ns += LEASE_NS + 1;
                self.ticks += 1;
            }
        }
    }

    /// Runs the beginning of the plan `Renewal`: the first put begins, the lease ends before the put is announced, and
    /// the server grants another lease.
    fn begin_with_a_renewal(&mut self, chooser: &mut Chooser) {
        self.act(Move::Begin(0), chooser);
        self.act(Move::Tick, chooser);
        if chooser.choose(2) == 0 {
            self.servers.tick(self.now_ns);
        }
        if chooser.choose(2) == 0 {
            self.act(Move::GiveUp(0), chooser);
        }
        self.renewal = Some((self.progress(), self.told.len() as u64 + 1, self.now_ns));
        self.granted_until_ns = self.now_ns + LEASE_NS;
    }

    fn loses(&self, chooser: &mut Chooser) -> bool {
        self.plan == Plan::Losses && chooser.choose(2) == 1
    }

    fn begin(&mut self, index: usize) {
        let last = self.told.last().filter(|told| told.open > 0);
        if last.is_none_or(|told| told.is_sent && self.slip != Slip::JoinsWhatWasSent) {
            self.told.push(Told::default());
        }
        let at = self.told.len() - 1;
        let told = &mut self.told[at];
        told.open += 1;
        if !told.is_sent {
            told.rows.push(index);
        }
        self.puts[index] = Put::In(at);
    }

    /// Sends a notice. If the acknowledgement is lost, a later step sends the notice again.
    fn send(&mut self, at: usize, chooser: &mut Chooser) {
        self.told[at].is_sent = true;
        self.told[at].tries += 1;
        let rows = self.told[at].rows.iter();
        let touched: Vec<_> = rows
            .map(|row| (COLUMN, Interval::of_row(NAMES[*row].as_bytes())))
            .collect();
        let is_heard = (self.servers).on_pre(SERVER, self.progress(), at as u64 + 1, &touched);
        if is_heard && !self.loses(chooser) {
            for put in self.puts.iter_mut().filter(|put| **put == Put::In(at)) {
                *put = Put::Free(at);
            }
        }
    }

    /// Fills one of the rows with its surroundings. A change of the other row does not affect this fill.
    fn fill(&mut self, chooser: &mut Chooser) {
        self.fill_step += 1;
        match self.fill_step {
            1 => {
                self.read.0 = chooser.choose(2);
                let (server, interval) = (self.servers.id(SERVER), around(self.read.0));
                self.fill = server.and_then(|id| Some((self.coherence.begin(COLUMN, interval, id)?, id)));
                if self.fill.is_none() {
                    self.fill_step = 3;
                }
            }
            2 => self.read.1 = self.values[self.read.0],
            _ => {
                let (index, version) = self.read;
                if let Some((fill, server)) = self.fill.take() {
                    fill.finish(&Filled {
                        column: COLUMN,
                        interval: around(index),
                        rows: &[row(NAMES[index], version)],
                        until_ns: u64::MAX,
                        server,
                    });
                }
            }
        }
    }

    fn check(&self) -> Result<(), String> {
        for (name, value) in NAMES.iter().zip(self.values) {
            let said = self.fastpath.get(COLUMN, &key(name), self.now_ns);
            if said.is_some_and(|said| said != Some(row(name, value))) {
                return Err(format!("the fast path is older than version {value} of {name}"));
            }
        }
        Ok(())
    }
}

fn around(index: usize) -> Interval {
    let (low, high) = [("a", "c"), ("c", "f")][index];
    Interval {
        low: key(low),
        high: Some(key(high)),
    }
}

fn key(name: &str) -> Key {
    Key::new(name.as_bytes()).unwrap()
}

fn row(name: &str, version: u64) -> Row {
    Row {
        key: key(name),
        value: version.to_be_bytes().to_vec(),
        timestamp_ms: version,
    }
}

/// Runs two puts of different rows. The second put joins the first put's notice until the notice is sent. When the
/// notice is acknowledged, each put may become visible at any time.
fn run(plan: Plan, slip: Slip, chooser: &mut Chooser) -> Result<(), String> {
    let fastpath = ModelFastPath::default();
    let coherence = Arc::new(Coherence::new(Box::new(fastpath.clone())));
    let servers = Servers::all_of(Arc::clone(&coherence), 0, 1);
    let mut world = World {
        coherence: &coherence,
        servers: &servers,
        fastpath,
        plan,
        slip,
        now_ns: 1,
        granted_until_ns: 1 + LEASE_NS,
        told: Vec::new(),
        puts: [Put::NotBegun; 2],
        values: [1; 2],
        renewal: None,
        fill_step: 0,
        fill: None,
        read: (0, 0),
        ticks: 0,
    };
    servers.granted(SERVER, world.progress(), 1, 1, LEASE_NS, 1);
    if plan == Plan::Renewal {
        world.begin_with_a_renewal(chooser);
    }
    loop {
        let moves = world.moves();
        if moves.is_empty() {
            return Ok(());
        }
        let chosen = moves[chooser.choose(moves.len())];
        world.act(chosen, chooser);
        world
            .check()
            .map_err(|stale| format!("{stale}, at {chooser:?}"))?;
    }
}

#[test]
fn rows_are_never_stale_with_joint_notices() {
    for plan in [Plan::Losses, Plan::Lapse, Plan::Renewal] {
        let (runs, stale) = explore(|chooser| run(plan, Slip::None, chooser));
        println!("{plan:?}: {runs} orders");
        assert_eq!(stale, None, "{plan:?}");
        assert!(runs > 5_000, "{plan:?}: only {runs} orders");
    }
}

#[test]
fn every_rule_for_joint_notices_is_needed() {
    for slip in [Slip::JoinsWhatWasSent, Slip::EndsWithTheFirst] {
        let (_, stale) = explore(|chooser| run(Plan::Losses, slip, chooser));
        assert!(
            stale.is_some(),
            "no order is stale although the server breaks the rule {slip:?}"
        );
    }
}

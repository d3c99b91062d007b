//! Tests of all orders in which a few changes and fills can happen: the fast path never answers a value that is not
//! current. If a step of the protocol is left out, some order makes the fast path stale, so each step is needed.

mod common;

use common::ModelFastPath;
use common::orders::{Chooser, explore};
use lineside_column::coherence::{Coherence, Fill, WriteIntent};
use lineside_column::fill::{ColumnFill, ColumnId, Filled, Row, ServerId};
use lineside_column::key::{Interval, Key};
use lineside_column::servers::{ChangeProgress, Servers};
use std::collections::BTreeMap;
use std::sync::Arc;

const COLUMN: ColumnId = ColumnId(0);
const TABLE: ServerId = ServerId(0);

fn key(name: &str) -> Key {
    Key::new(name.as_bytes()).unwrap()
}

fn interval(low: &str, high: &str) -> Interval {
    Interval {
        low: key(low),
        high: Some(key(high)),
    }
}

fn row(name: &str, version: u64) -> Row {
    Row {
        key: key(name),
        value: version.to_be_bytes().to_vec(),
        timestamp_ms: version,
    }
}

/// Step of the protocol that a run leaves out or makes at the wrong time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    None,
    NoPre,
    PreAfterTheChange,
    PostBeforeTheChange,
    ReadBeforeTheBegin,
    TokenIgnored,
    GapsNotForgotten,
    WrittenValuePut,
    ExpiryIgnored,
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Put(&'static str),
    Delete(&'static str),
    Fill(&'static str, &'static str),
    /// The clock passes the expiry of the cells that were written at the start.
    Expire,
}

const EXPIRY_NS: u64 = 100;

struct World<'a> {
    coherence: &'a Coherence,
    fastpath: ModelFastPath,
    table: BTreeMap<Key, (Row, u64)>,
    version: u64,
    now_ns: u64,
    fault: Fault,
}

#[derive(Default)]
struct Progress<'a> {
    step: usize,
    mark: Option<WriteIntent>,
    fill: Option<Fill<'a>>,
    read: (Vec<Row>, u64),
    written: Option<Row>,
}

impl<'a> World<'a> {
    fn new(coherence: &'a Coherence, fastpath: &ModelFastPath, fault: Fault) -> Self {
        Self {
            coherence,
            fastpath: fastpath.clone(),
            table: ["b", "d"]
                .map(|name| (key(name), (row(name, 1), EXPIRY_NS)))
                .into(),
            version: 1,
            now_ns: 0,
            fault,
        }
    }

    fn truth(&self, at: &Key) -> Option<Row> {
        let found = self.table.get(at).filter(|(_, until_ns)| self.now_ns < *until_ns);
        found.map(|(row, _)| row.clone())
    }

    /// Checks that the answers of the fast path equal the state of the table.
    fn check(&self) -> Result<(), String> {
        for name in ["a", "b", "c", "d", "e"] {
            let at = key(name);
            let truth = self.truth(&at);
            match self.fastpath.get(COLUMN, &at, self.now_ns) {
                Some(said) if said != truth => {
                    return Err(format!(
                        "{name}: the fast path answers {said:?}, the table holds {truth:?}"
                    ));
                }
                _ => {}
            }
        }
        let all = interval("a", "f");
        let truth: Vec<Row> = self.table.keys().filter_map(|at| self.truth(at)).collect();
        match self.fastpath.scan(COLUMN, &all, self.now_ns) {
            Some(said) if said != truth => {
                Err(format!("the fast path scans {said:?}, the table holds {truth:?}"))
            }
            _ => Ok(()),
        }
    }

    /// Executes the next step of an act. Returns false if the act has no step left.
    fn step(&mut self, act: Act, progress: &mut Progress<'a>) -> bool {
        let step = progress.step;
        progress.step += 1;
        match act {
            Act::Put(name) | Act::Delete(name) => self.change(act, name, step, progress),
            Act::Fill(low, high) => self.fill(interval(low, high), step, progress),
            Act::Expire => {
                self.now_ns = EXPIRY_NS;
                false
            }
        }
    }

    fn change(&mut self, act: Act, name: &str, step: usize, progress: &mut Progress<'a>) -> bool {
        let order = match self.fault {
            Fault::PreAfterTheChange => ["change", "pre", "post"],
            Fault::PostBeforeTheChange => ["pre", "post", "change"],
            Fault::NoPre => ["change", "", ""],
            _ => ["pre", "change", "post"],
        };
        match order[step] {
            "pre" => {
                let touched = [(COLUMN, Interval::of_row(name.as_bytes()))];
                progress.mark = Some(self.coherence.begin_write(&touched));
            }
            "change" => {
                self.version += 1;
                let new = row(name, self.version);
                match act {
                    Act::Put(_) => self.table.insert(key(name), (new.clone(), u64::MAX)),
                    _ => self.table.remove(&key(name)),
                };
                progress.written = Some(new);
            }
            "post" => {
                self.coherence.end_write(progress.mark.take().unwrap());
                if self.fault == Fault::WrittenValuePut && matches!(act, Act::Put(_)) {
                    let rows = [progress.written.take().unwrap()];
                    self.fastpath.install(&Filled {
                        column: COLUMN,
                        interval: Interval::of_row(name.as_bytes()),
                        rows: &rows,
                        until_ns: u64::MAX,
                        server: TABLE,
                    });
                }
            }
            _ => {}
        }
        step < 2
    }

    fn fill(&mut self, interval: Interval, step: usize, progress: &mut Progress<'a>) -> bool {
        let order = match self.fault {
            Fault::ReadBeforeTheBegin => ["read", "begin", "finish"],
            _ => ["begin", "read", "finish"],
        };
        match order[step] {
            "begin" => {
                progress.fill = self.coherence.begin(COLUMN, interval, TABLE);
                progress.fill.is_some()
            }
            "read" => {
                let inside = self.table.keys().filter(|at| interval.contains(at));
                let rows: Vec<Row> = inside.filter_map(|at| self.truth(at)).collect();
                let ends = rows.iter().map(|row| self.table[&row.key].1);
                progress.read = (rows.clone(), ends.min().unwrap_or(u64::MAX));
                true
            }
            _ => {
                let (rows, mut until_ns) = std::mem::take(&mut progress.read);
                if self.fault == Fault::ExpiryIgnored {
                    until_ns = u64::MAX;
                }
                let filled = Filled {
                    column: COLUMN,
                    interval,
                    rows: &rows,
                    until_ns,
                    server: TABLE,
                };
                if self.fault == Fault::TokenIgnored {
                    progress.fill = None;
                    self.fastpath.install(&filled);
                } else if let Some(fill) = progress.fill.take() {
                    fill.finish(&filled);
                }
                false
            }
        }
    }
}

fn run(acts: &[Act], fault: Fault, chooser: &mut Chooser) -> Result<(), String> {
    let fastpath = ModelFastPath::default();
    if fault == Fault::GapsNotForgotten {
        fastpath.forget_rows_only();
    }
    let coherence = Coherence::new(Box::new(fastpath.clone()));
    let mut world = World::new(&coherence, &fastpath, fault);
    let mut progress: Vec<Progress<'_>> = acts.iter().map(|_| Progress::default()).collect();
    let mut left: Vec<usize> = (0..acts.len()).collect();
    while !left.is_empty() {
        let chosen = chooser.choose(left.len());
        let index = left[chosen];
        if !world.step(acts[index], &mut progress[index]) {
            left.remove(chosen);
        }
        world
            .check()
            .map_err(|stale| format!("{stale}, at {chooser:?}"))?;
    }
    Ok(())
}

/// Sets of acts that affect each other. Each set is run in every order.
const SCENES: &[&[Act]] = &[
    &[
        Act::Put("b"),
        Act::Fill("a", "c"),
        Act::Fill("a", "f"),
        Act::Put("b"),
    ],
    &[
        Act::Put("c"),
        Act::Fill("a", "f"),
        Act::Delete("b"),
        Act::Fill("c", "e"),
    ],
    &[
        Act::Put("e"),
        Act::Delete("e"),
        Act::Fill("a", "f"),
        Act::Fill("d", "f"),
    ],
    &[
        Act::Put("d"),
        Act::Fill("a", "f"),
        Act::Expire,
        Act::Fill("b", "e"),
    ],
    &[
        Act::Put("a"),
        Act::Put("e"),
        Act::Fill("a", "f"),
        Act::Delete("d"),
    ],
];

#[test]
fn the_fast_path_is_never_stale_in_any_order() {
    for scene in SCENES {
        let (runs, stale) = explore(|chooser| run(scene, Fault::None, chooser));
        assert_eq!(stale, None, "{scene:?}");
        assert!(runs > 5_000, "{scene:?}: only {runs} orders");
    }
}

#[test]
fn every_step_of_the_protocol_is_needed() {
    for fault in [
        Fault::NoPre,
        Fault::PreAfterTheChange,
        Fault::PostBeforeTheChange,
        Fault::ReadBeforeTheBegin,
        Fault::TokenIgnored,
        Fault::GapsNotForgotten,
        Fault::WrittenValuePut,
        Fault::ExpiryIgnored,
    ] {
        let found = SCENES
            .iter()
            .any(|scene| explore(|chooser| run(scene, fault, chooser)).1.is_some());
        assert!(found, "no order is stale with the fault {fault:?}");
    }
}

// ---- a server that others write through, over a network that loses ----

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Foul {
    None,
    /// If no subscriber acknowledges, the server makes a change visible before its leases have ended.
    NoWait,
    /// When a server grants a lease again, changes that it had begun before are not marked.
    NothingOpenAtTheBegin,
    /// The server makes changes visible without waiting for an acknowledgement.
    NoAcknowledgement,
    /// The fast path answers rows although the server's lease has ended.
    NoLease,
}

const LEASE_NS: u64 = 10;
const SERVER: usize = 3;

#[derive(Default)]
struct Far {
    epoch: u64,
    next: u64,
    open: Vec<u64>,
    granted_until_ns: u64,
}

impl Far {
    fn progress(&self) -> ChangeProgress {
        ChangeProgress {
            epoch: self.epoch,
            oldest_open: self.open.iter().copied().min().unwrap_or(self.next),
        }
    }
}

#[derive(Clone, Copy)]
struct Plan {
    puts: usize,
    renewals: usize,
    fills: usize,
}

const PLANS: [Plan; 3] = [
    Plan {
        puts: 1,
        renewals: 2,
        fills: 1,
    },
    Plan {
        puts: 1,
        renewals: 0,
        fills: 2,
    },
    Plan {
        puts: 2,
        renewals: 0,
        fills: 1,
    },
];

/// Runs one order of events with a server: puts whose PRE and POST notices may be lost, renewals whose answers arrive
/// late, fills, and a clock that may pass the end of a lease. If `of_two` is true, rows cannot be attributed, and the
/// server is one of two that may hold them; otherwise this server is known to hold the rows.
fn run_server(plan: Plan, foul: Foul, of_two: bool, chooser: &mut Chooser) -> Result<(), String> {
    let fastpath = ModelFastPath::default();
    let coherence = Arc::new(Coherence::new(Box::new(fastpath.clone())));
    let servers = match of_two {
        true => Servers::all_of(Arc::clone(&coherence), 0, 2),
        false => Servers::new(Arc::clone(&coherence), 0),
    };
    let mut far = Far {
        epoch: 1,
        next: 1,
        ..Far::default()
    };
    let (mut now_ns, mut value, mut version) = (1, 1, 1);
    // State of each put: 0 not begun, 1 in progress, 2 acknowledged or given up, 3 visible, 4 announced as finished.
    servers.granted(SERVER, far.progress(), far.next, now_ns, LEASE_NS, now_ns);
    far.granted_until_ns = now_ns + LEASE_NS;
    if of_two {
        servers.granted(SERVER + 1, far.progress(), far.next, now_ns, 1000, now_ns);
    }
    let mut puts = [(0, 0u64); 2];
    let mut renewals = [None; 2];
    let mut renewed = [0; 2];
    let mut fills: [(usize, Option<Fill<'_>>, u64, ServerId); 2] = [(0, None, 0, TABLE), (0, None, 0, TABLE)];
    let mut ticks = 0;
    let touched = [(COLUMN, Interval::of_row(b"b"))];
    loop {
        let mut moves: Vec<(usize, usize)> = Vec::new();
        for (index, put) in puts.iter().enumerate().take(plan.puts) {
            let may_give_up = now_ns > far.granted_until_ns || foul == Foul::NoWait;
            // A row has only one writer at a time.
            let is_free = puts.iter().all(|other| other.0 == 0 || other.0 >= 3);
            match put.0 {
                0 if is_free && (index == 0 || puts[0].0 >= 3) => moves.push((0, index)),
                1 => {
                    moves.push((1, index));
                    if may_give_up || foul == Foul::NoAcknowledgement {
                        moves.push((2, index));
                    }
                }
                2 => moves.push((3, index)),
                3 => moves.push((4, index)),
                _ => {}
            }
        }
        for index in 0..2 {
            match renewed[index] {
                _ if index >= plan.renewals => {}
                0 if index == 0 || renewed[0] == 2 => moves.push((5, index)),
                1 => moves.push((6, index)),
                _ => {}
            }
            if index < plan.fills && fills[index].0 < 3 && (index == 0 || fills[0].0 >= 2) {
                moves.push((7, index));
            }
        }
        if ticks < 1 {
            moves.push((8, 0));
        }
        if moves.is_empty() {
            break;
        }
        match moves[chooser.choose(moves.len())] {
            (0, index) => {
                puts[index] = (1, far.next);
                far.open.push(far.next);
                far.next += 1;
            }
            (1, index) => {
                if servers.on_pre(SERVER, far.progress(), puts[index].1, &touched) {
                    puts[index].0 = 2;
                } else {
                    // The server sends the notice again until it is acknowledged or the server gives up; both are
                    // separate moves.
                    return Ok(());
                }
            }
            (2, index) => {
                puts[index].0 = 2;
            }
            (3, index) => {
                version += 1;
                value = version;
                puts[index].0 = 3;
            }
            (4, index) => {
                far.open.retain(|number| *number != puts[index].1);
                puts[index].0 = 4;
                if chooser.choose(2) == 0 {
                    servers.apply_progress(SERVER, far.progress());
                }
            }
            (5, index) => {
                let mut progress = far.progress();
                if foul == Foul::NothingOpenAtTheBegin {
                    progress.oldest_open = far.next;
                }
                renewals[index] = Some((progress, far.next, now_ns));
                far.granted_until_ns = now_ns + LEASE_NS;
                renewed[index] = 1;
            }
            (6, index) => {
                let (progress, next, sent_ns) = renewals[index].take().unwrap();
                let lease_ns = if foul == Foul::NoLease { 1000 } else { LEASE_NS };
                servers.granted(SERVER, progress, next, sent_ns, lease_ns, now_ns);
                renewed[index] = 2;
            }
            (7, index) => {
                let all = interval("a", "f");
                let fill = &mut fills[index];
                fill.0 += 1;
                match fill.0 {
                    1 => {
                        let begun = servers
                            .id(SERVER)
                            .and_then(|id| Some((coherence.begin(COLUMN, all, id)?, id)));
                        match begun {
                            Some((begun, id)) => (fill.1, fill.3) = (Some(begun), id),
                            None => fill.0 = 3,
                        }
                    }
                    2 => fill.2 = value,
                    _ => {
                        let rows = [row("b", fill.2)];
                        fill.1.take().unwrap().finish(&Filled {
                            column: COLUMN,
                            interval: all,
                            rows: &rows,
                            until_ns: u64::MAX,
                            server: fill.3,
                        });
                    }
                }
            }
            _ => {
                now_ns += LEASE_NS + 1;
                ticks += 1;
                if chooser.choose(2) == 0 {
                    servers.tick(now_ns);
                }
            }
        }
        let said = fastpath.get(COLUMN, &key("b"), now_ns);
        if said.is_some_and(|said| said != Some(row("b", value))) {
            return Err(format!(
                "the fast path is older than version {value}, at {chooser:?}"
            ));
        }
    }
    Ok(())
}

#[test]
fn rows_are_never_stale_whatever_notices_of_a_server_are_lost() {
    for plan in PLANS {
        for of_two in [false, true] {
            let (runs, stale) = explore(|chooser| run_server(plan, Foul::None, of_two, chooser));
            assert_eq!(stale, None, "{of_two}");
            assert!(runs > 1_000, "only {runs} orders");
        }
    }
}

#[test]
fn every_rule_for_servers_is_needed() {
    for foul in [
        Foul::NoWait,
        Foul::NothingOpenAtTheBegin,
        Foul::NoAcknowledgement,
        Foul::NoLease,
    ] {
        for of_two in [false, true] {
            let found = PLANS.iter().any(|plan| {
                explore(|chooser| run_server(*plan, foul, of_two, chooser))
                    .1
                    .is_some()
            });
            assert!(found, "no order is stale with {foul:?}, of_two {of_two}");
        }
    }
}

// ---- a region that moves from one server to another, if rows are attributed to servers ----

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Slip {
    None,
    /// The server that closes the region sends no PRE notice.
    SilentClose,
    /// The server that opens the region sends no PRE notice and does not wait.
    SilentOpen,
    /// The server that opens the region sends a PRE notice, but does not wait for the end of other servers' leases.
    NoWaitAtOpen,
    /// The fill attributes its rows to the region's owner at its beginning, although another server answered.
    WrongOwner,
}

const FROM: usize = 0;
const TO: usize = 1;

/// Runs one order of events in which a region moves: one server closes it, or loses it in a crash (`falls`); another
/// server opens it and writes to it. A fill reads from the region's owner, the server `renews` grants another lease,
/// and a clock may pass the ends of leases. `is_known` is true if the second server has granted a lease before.
fn run_move(
    falls: bool,
    renews: Option<usize>,
    is_known: bool,
    slip: Slip,
    chooser: &mut Chooser,
) -> Result<(), String> {
    let fastpath = ModelFastPath::default();
    let coherence = Arc::new(Coherence::new(Box::new(fastpath.clone())));
    let servers = Servers::new(Arc::clone(&coherence), 0);
    let touched = [(COLUMN, Interval::of_row(b"b"))];
    let mut far = [FROM, TO].map(|_| Far {
        epoch: 1,
        next: 1,
        ..Far::default()
    });
    let (mut now_ns, mut version) = (1, 1);
    for server in [FROM, TO] {
        if server == FROM || is_known {
            servers.granted(server, far[server].progress(), 1, now_ns, LEASE_NS, now_ns);
            far[server].granted_until_ns = now_ns + LEASE_NS;
        }
    }
    let mut owner = Some(FROM);
    // Steps 0 to 2 close the region, 3 to 5 open it, and 6 to 8 are a put. The three steps of each are: begin, be
    // acknowledged or give up, and finish.
    let mut at = if falls { 3 } else { 0 };
    let mut number = 0;
    let mut renewal: (u8, Option<(ChangeProgress, u64, u64)>) = (0, None);
    let mut fill: (u8, Option<Fill<'_>>, Option<(ServerId, usize)>, u64) = (0, None, None, 0);
    let mut ticks = 0;
    loop {
        let mut moves = Vec::new();
        let who = if at < 3 { FROM } else { TO };
        if at % 3 == 1 {
            if now_ns > far[who].granted_until_ns {
                moves.push(1);
            }
            moves.push(2);
        } else if at < 9 {
            moves.push(0);
        }
        if let Some(server) = renews {
            let is_there = !(falls && server == FROM && owner != Some(FROM));
            if renewal.0 == 1 || (renewal.0 == 0 && is_there) {
                moves.push(3);
            }
        }
        if fill.0 < 3 {
            moves.push(4);
        }
        if ticks < 2 {
            moves.push(5);
        }
        if moves.is_empty() {
            return Ok(());
        }
        match moves[chooser.choose(moves.len())] {
            0 if at % 3 == 0 => {
                if at == 3 {
                    owner = None;
                    if slip != Slip::NoWaitAtOpen {
                        far[TO].granted_until_ns = far[TO].granted_until_ns.max(now_ns + LEASE_NS);
                    }
                }
                if [(0, Slip::SilentClose), (3, Slip::SilentOpen)].contains(&(at, slip)) {
                    at += 2;
                    continue;
                }
                number = far[who].next;
                far[who].next += 1;
                far[who].open.push(number);
                at += 1;
            }
            0 => {
                match at {
                    2 => owner = None,
                    5 => {
                        owner = Some(TO);
                        // A crash loses changes that had not reached the disk.
                        version += u64::from(falls);
                    }
                    _ => version += 1,
                }
                // The server sends no notice that a change has ended; its next notice implies that.
                far[who].open.clear();
                at += 1;
            }
            1 => at += 1,
            2 => {
                if !servers.on_pre(who, far[who].progress(), number, &touched) {
                    return Ok(());
                }
                at += 1;
            }
            3 => match renewal.1.take() {
                None => {
                    let server = &mut far[renews.unwrap()];
                    renewal = (1, Some((server.progress(), server.next, now_ns)));
                    server.granted_until_ns = server.granted_until_ns.max(now_ns + LEASE_NS);
                }
                Some((progress, next, sent_ns)) => {
                    servers.granted(renews.unwrap(), progress, next, sent_ns, LEASE_NS, now_ns);
                    renewal.0 = 2;
                }
            },
            4 => {
                fill.0 += 1;
                match fill.0 {
                    1 => {
                        let asked = owner.unwrap_or(FROM);
                        let all = interval("a", "f");
                        let begun = servers.id(asked).and_then(|id| {
                            fill.2 = Some((id, asked));
                            coherence.begin(COLUMN, all, id)
                        });
                        match begun {
                            Some(begun) => fill.1 = Some(begun),
                            None => fill.0 = 3,
                        }
                    }
                    2 if owner.is_some_and(|owner| {
                        slip == Slip::WrongOwner || fill.2.is_some_and(|(_, asked)| asked == owner)
                    }) =>
                    {
                        fill.3 = version;
                    }
                    2 => fill.0 = 3,
                    _ => {
                        let rows = [row("b", fill.3)];
                        let begun = fill.1.take().expect("it was begun");
                        begun.finish(&Filled {
                            column: COLUMN,
                            interval: interval("a", "f"),
                            rows: &rows,
                            until_ns: u64::MAX,
                            server: fill.2.expect("it was begun").0,
                        });
                    }
                }
            }
            _ => {
                // Two ticks last longer than a lease. A lease that is granted between two ticks lasts longer than both.
                now_ns += LEASE_NS / 2 + 1;
                ticks += 1;
                if ticks == 2 && chooser.choose(2) == 0 {
                    servers.tick(now_ns);
                }
            }
        }
        let said = fastpath.get(COLUMN, &key("b"), now_ns);
        if said.is_some_and(|said| said != Some(row("b", version))) {
            return Err(format!(
                "the fast path is older than version {version}, at {chooser:?}"
            ));
        }
    }
}

#[test]
fn rows_of_a_region_that_moves_are_never_stale() {
    for (falls, renews, is_known) in [
        (false, None, true),
        (false, Some(FROM), true),
        (false, Some(TO), true),
        (false, Some(TO), false),
        (true, None, true),
        (true, Some(FROM), true),
        (true, Some(TO), true),
        (true, Some(TO), false),
    ] {
        let (runs, stale) = explore(|chooser| run_move(falls, renews, is_known, Slip::None, chooser));
        assert_eq!(stale, None, "{falls} {renews:?} {is_known}");
        assert!(runs > 100, "only {runs} orders");
    }
}

#[test]
fn every_rule_for_region_moves_is_needed() {
    for (slip, falls, renews, is_known) in [
        (Slip::SilentClose, false, Some(FROM), true),
        (Slip::SilentOpen, true, None, true),
        (Slip::NoWaitAtOpen, true, None, false),
        (Slip::WrongOwner, false, Some(FROM), true),
    ] {
        let (_, stale) = explore(|chooser| run_move(falls, renews, is_known, slip, chooser));
        assert!(stale.is_some(), "no order is stale with the fault {slip:?}");
    }
}

/// If any server may hold a row, the row is cached and answered only while Lineside has the leases of all servers.
#[test]
fn unattributed_rows_need_the_leases_of_all_servers() {
    let fastpath = ModelFastPath::default();
    let coherence = Arc::new(Coherence::new(Box::new(fastpath.clone())));
    let servers = Servers::all_of(Arc::clone(&coherence), 0, 2);
    let progress = |epoch| ChangeProgress {
        epoch,
        oldest_open: 1,
    };
    let granted = |server, now_ns| servers.granted(server, progress(1), 1, now_ns, LEASE_NS, now_ns);
    let fill = |version| {
        let (all, rows) = (interval("a", "f"), [row("b", version)]);
        let server = servers.id(0).expect("the leases of all are held");
        let begun = coherence.begin(COLUMN, all, server).expect("nothing changes");
        begun.finish(&Filled {
            column: COLUMN,
            interval: all,
            rows: &rows,
            until_ns: u64::MAX,
            server,
        })
    };
    let is_answered = |now_ns| fastpath.get(COLUMN, &key("b"), now_ns).is_some();
    granted(0, 10);
    assert_eq!(servers.id(0), None);
    granted(1, 14);
    assert!(fill(1) && is_answered(19));
    // The lease of the first server ends first, and is renewed too late.
    assert!(!is_answered(20));
    granted(0, 21);
    assert!(!is_answered(21));
    assert!(fill(2) && is_answered(23) && !is_answered(24));
    granted(1, 23);
    assert!(is_answered(30));
    // One of the servers was restarted.
    servers.granted(1, progress(2), 1, 24, LEASE_NS, 24);
    assert!(!is_answered(24));
    assert!(fill(3) && is_answered(25));
    servers.record_unknown_writer();
    assert!(!is_answered(25));
    granted(0, 26);
    granted(1, 26);
    assert_eq!((servers.id(0), servers.leased(26)), (None, 0));
}

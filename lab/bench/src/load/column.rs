//! Load on `column`: gets and puts of one column, in rows that the load has written first. Every value names its row
//! and version, so that a stale or mixed answer is detected.

use super::draws::{Draws, Once};
use super::versions::{Versions, value};
use super::{Judgement, Kind, LoadError, Pace, Plan, Result, Traffic, io, setup, status_name};
use lineside_client::exchange::{Again, ExchangeError, exchange, open};
use lineside_column::table::{Change, ColumnName};
use lineside_messages::column::native::{self, Ask, REPLY_HEAD_BYTES, Sender};
use lineside_testkit::Random;
use lineside_wire::{
    COLUMN_OP_OPEN, COLUMN_REPLY_MAY_BE_STALE, COLUMN_SOURCE_FASTPATH, COLUMN_SOURCE_HOST, ColumnSession,
    NATIVE_REPLY_BIT, NativeHeader, Status,
};
use std::net::SocketAddr;
use std::time::Duration;
use zerocopy::{FromBytes, FromZeros};

/// Maximum time in which the rows are written before the load.
const LOADING: Duration = Duration::from_secs(600);

/// Options of the load.
#[derive(Clone, Debug)]
pub struct Options {
    /// First bytes of the row keys. Loads that run at the same time need different ones.
    pub prefix: String,
    /// Column of the values.
    pub column: ColumnName,
    /// Number of rows, at least one for each session.
    pub keys: u64,
    /// Length of a value in bytes.
    pub value_bytes: usize,
    /// Share of puts, in percent.
    pub put_percent: u64,
    /// True if rows are drawn by Zipf's law.
    pub is_zipf: bool,
    /// Number of sessions over all threads.
    pub sessions: usize,
    /// Seed of the drawn rows.
    pub seed: u64,
}

/// Request in flight.
#[derive(Debug)]
pub enum Asked {
    /// Get of a row, and the oldest version that may be returned.
    Get(u64, u64),
    /// Put of a row by a session, and the version.
    Put(usize, u64, u64),
}

/// Session with the nonce of its last change.
#[derive(Debug)]
struct Slot {
    sender: Sender,
    /// Number of the session among those of all threads. It writes the rows with this remainder.
    number: u64,
    is_over: bool,
}

/// Requests of one thread.
pub struct ColumnTraffic {
    options: Options,
    draws: Draws,
    versions: Versions,
    random: Random,
    slots: Vec<Slot>,
    free: Vec<usize>,
    /// Rows that are still to be written before the load.
    loading: Option<Once>,
    gets: u64,
    puts: u64,
    by_fastpath: u64,
    may_be_stale: u64,
}

/// Opens a session.
fn open_session(server: SocketAddr, timeout: Duration) -> Result<Sender> {
    let socket = open(server).map_err(io("opening a socket to the server"))?;
    let mut body = ColumnSession::new_zeroed();
    // The second request returns the challenge that the first one got.
    for step in 1..=2u64 {
        let id =
            u64::from(std::process::id()) << 32 | u64::from(socket.local_addr().map_or(0, |at| at.port()));
        let id = id.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(step);
        let request = native::request(id, &Ask::Open(body), 0).unwrap_or_default();
        let answer = |datagram: &[u8]| {
            let (header, body) = NativeHeader::ref_from_prefix(datagram).ok()?;
            let is_ours = header.op == COLUMN_OP_OPEN | NATIVE_REPLY_BIT && header.request_id.get() == id;
            match Status::from_code(header.status.get()).filter(|_| is_ours)? {
                Status::Busy => Some(Err(Again::Busy)),
                Status::Ok => Some(Ok(Ok(ColumnSession::read_from_bytes(body).ok()?))),
                status => Some(Ok(Err(status))),
            }
        };
        let (granted, _) = exchange(&socket, server, timeout, &request, answer).map_err(|error| match error {
            ExchangeError::Timeout { .. } => setup(format!(
                "no answer from {server} within {timeout:?}; check that `lineside column serve` runs there"
            )),
            ExchangeError::Busy { .. } => setup(format!("{server} grants no session; give fewer --sessions")),
            ExchangeError::Io { source, .. } => io("opening a session")(source),
        })?;
        let granted = granted.map_err(|status| setup(format!("{server}: {}", status.meaning())))?;
        body = match step {
            1 => ColumnSession {
                challenge: granted.challenge,
                ..ColumnSession::new_zeroed()
            },
            _ => granted,
        };
    }
    Ok(Sender {
        slot: body.slot.get(),
        token: body.token.get(),
        nonce: 0,
    })
}

/// Opens the sessions and writes every row once.
///
/// # Errors
/// The server does not answer, or refuses to write the rows.
pub fn prepare(plan: &Plan, options: &Options) -> Result<Vec<ColumnTraffic>> {
    let versions = Versions::new(options.keys);
    let mut seeds = Random(options.seed);
    let mut traffics: Vec<_> = (0..plan.threads as u64)
        .map(|thread| ColumnTraffic {
            options: options.clone(),
            draws: Draws::new(options.keys, options.is_zipf),
            versions: versions.clone(),
            random: Random(seeds.next()),
            slots: Vec::new(),
            free: Vec::new(),
            loading: Some(Once::new(options.keys, thread, plan.threads as u64)),
            gets: 0,
            puts: 0,
            by_fastpath: 0,
            may_be_stale: 0,
        })
        .collect();
    for number in 0..options.sessions {
        let traffic = &mut traffics[number % plan.threads];
        traffic.free.push(traffic.slots.len());
        traffic.slots.push(Slot {
            sender: open_session(plan.server, plan.timeout)?,
            number: number as u64,
            is_over: false,
        });
    }
    let loading = Plan {
        pace: Pace::Window(options.sessions),
        duration: LOADING,
        ..plan.clone()
    };
    let (report, mut traffics) = super::run(&loading, traffics)?;
    if report.answered != report.sent || report.failure().is_some() {
        let first = report.wrong_answers().into_iter().next().unwrap_or_default();
        return Err(setup(format!(
            "the server did not take the rows of the load: {} of {} puts were answered, {} refused {:?}{first}",
            report.answered,
            report.sent,
            report.refused(),
            report.reasons()
        )));
    }
    for traffic in &mut traffics {
        traffic.loading = None;
        (traffic.gets, traffic.puts, traffic.by_fastpath) = (0, 0, 0);
    }
    Ok(traffics)
}

impl ColumnTraffic {
    fn key(&self, number: u64) -> Vec<u8> {
        format!("{}{number:08}", self.options.prefix).into_bytes()
    }

    /// Returns the row that a session writes next: the drawn one, or its neighbour that this session writes.
    fn drawn_row_of(&mut self, slot: usize) -> u64 {
        let sessions = self.options.sessions as u64;
        let drawn = self.draws.draw(&mut self.random);
        let row = drawn - drawn % sessions + self.slots[slot].number;
        if row < self.options.keys {
            row
        } else {
            row - sessions
        }
    }

    fn put(&mut self, id: u64, out: &mut Vec<u8>) -> Result<Option<Asked>> {
        if self.free.is_empty() && self.slots.iter().all(|slot| slot.is_over) {
            return Err(LoadError::Setup(
                "every session has lost a put, so none can continue; raise --timeout-ms, or check the server"
                    .into(),
            ));
        }
        let Some(slot) = self.free.pop() else {
            return Ok(None);
        };
        let row = match &mut self.loading {
            None => self.drawn_row_of(slot),
            Some(once) => once.take(),
        };
        let version = self.versions.send(row);
        let sender = &mut self.slots[slot].sender;
        sender.nonce += 1;
        let change = Change::Put(value(row, version, self.options.value_bytes), None);
        let ask = Ask::Change(
            self.key(row),
            self.options.column,
            change,
            self.slots[slot].sender,
        );
        let request = native::request(id, &ask, 0);
        out.extend_from_slice(
            &request.ok_or_else(|| setup("a value does not fit a packet; lower --value-bytes"))?,
        );
        Ok(Some(Asked::Put(slot, row, version)))
    }

    fn get(&mut self, id: u64, out: &mut Vec<u8>) -> Result<Option<Asked>> {
        let row = self.draws.draw(&mut self.random);
        let key = self.key(row);
        let room = REPLY_HEAD_BYTES + native::row_bytes(key.len(), self.options.value_bytes);
        let oldest = self.versions.oldest(row);
        let request = native::request(id, &Ask::Get(key, vec![self.options.column]), room);
        out.extend_from_slice(
            &request.ok_or_else(|| setup("a value does not fit a packet; lower --value-bytes"))?,
        );
        Ok(Some(Asked::Get(row, oldest)))
    }

    fn judge_get(&mut self, row: u64, oldest: u64, body: &[u8]) -> std::result::Result<(), String> {
        let answer = native::parse_reply(body).ok_or("the reply to `get` is malformed")?;
        if ![COLUMN_SOURCE_FASTPATH, COLUMN_SOURCE_HOST].contains(&answer.source) {
            return Err(format!(
                "the source of the answer is {}, which has no meaning",
                answer.source
            ));
        }
        let value = match &answer.rows[..] {
            [] => None,
            [(key, 0, value)] if *key == self.key(row) => Some(&value[..]),
            _ => return Err("the answer has another row or column".into()),
        };
        let is_stale_allowed = answer.flags & COLUMN_REPLY_MAY_BE_STALE != 0;
        let oldest = if is_stale_allowed { 0 } else { oldest };
        self.versions.check(row, oldest, value)?;
        self.may_be_stale += u64::from(is_stale_allowed);
        self.by_fastpath += u64::from(answer.source == COLUMN_SOURCE_FASTPATH);
        self.gets += 1;
        Ok(())
    }
}

impl Traffic for ColumnTraffic {
    type Asked = Asked;

    fn draw(&mut self) -> Option<Kind> {
        let is_write = match &mut self.loading {
            Some(once) => {
                if !once.reserve() {
                    return None;
                }
                true
            }
            None => self.random.percent(self.options.put_percent),
        };
        Some(if is_write { Kind::Write } else { Kind::Read })
    }

    fn ask(&mut self, kind: Kind, id: u64, out: &mut Vec<u8>) -> Result<Option<Asked>> {
        match kind {
            Kind::Read => self.get(id, out),
            Kind::Write => self.put(id, out),
        }
    }

    fn case(&self, asked: &Asked) -> &'static str {
        match asked {
            Asked::Get(..) => "get",
            Asked::Put(..) => "put",
        }
    }

    fn judge(&mut self, asked: Asked, status: Status, body: &[u8]) -> Judgement {
        let judged = match (&asked, status) {
            (Asked::Get(row, oldest), Status::Ok | Status::Unknown) => self.judge_get(*row, *oldest, body),
            (Asked::Put(slot, row, version), Status::Ok) => match native::parse_reply(body) {
                Some(answer) if answer.rows.is_empty() && answer.flags == 0 => {
                    self.versions.acknowledge(*row, *version);
                    self.puts += 1;
                    self.free.push(*slot);
                    return Judgement::Right;
                }
                _ => Err("the reply to `put` is malformed".into()),
            },
            _ => {
                self.lost(asked);
                return Judgement::Refused(status_name(status));
            }
        };
        match judged {
            Ok(()) => Judgement::Right,
            Err(why) => {
                self.lost(asked);
                Judgement::Wrong(why)
            }
        }
    }

    fn lost(&mut self, asked: Asked) {
        if let Asked::Put(slot, row, _) = asked {
            self.slots[slot].is_over = true;
            self.versions.forget(row);
        }
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        let over = self.slots.iter().filter(|slot| slot.is_over).count() as u64;
        vec![
            ("gets", self.gets),
            ("gets_by_fast_path", self.by_fastpath),
            ("gets_may_be_stale", self.may_be_stale),
            ("puts", self.puts),
            ("sessions_lost", over),
        ]
    }
}

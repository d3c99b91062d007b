//! Load on `hybrid` over UDP: signed gets and sets of keys that the load has written first. Every value names its key
//! and version, so that a stale or mixed answer is detected.

use super::draws::{Draws, Once};
use super::versions::{Versions, value};
use super::{Judgement, Kind, Pace, Plan, Result, Traffic, setup};
use lineside_messages::hybrid::Code;
use lineside_messages::hybrid::answer::{Answered, code_name};
use lineside_messages::hybrid::genesis::{Genesis, database_id};
use lineside_messages::hybrid::request::{Body, MemberId, Sees};
use lineside_messages::hybrid::secret::SecretKey;
use lineside_messages::hybrid::signing::unix_ms;
use lineside_messages::hybrid::signing::{Identity, Signing, counter_now};
use lineside_messages::hybrid::udp::write_request;
use lineside_testkit::Random;
use lineside_util::key_file::read_signing_key;
use lineside_verify::Curve;
use lineside_wire::{HYBRID_DATAGRAM_BYTES_MAX, Status};
use std::path::Path;
use std::time::Duration;

/// Maximum time in which the keys are written before the load.
const LOADING: Duration = Duration::from_secs(600);
/// Number of lanes from which each thread sends its reads in turn. A node accepts reads of a lane that overtake one
/// another by at most 63.
const READ_LANES: u16 = 64;
/// Maximum number of lanes for which a node remembers the reads of a member.
pub const LANES_MAX: usize = 4096;
/// Number of bytes of a reply with one cell, without its value.
const REPLY_BYTES: usize = 64;

/// Options of the load.
#[derive(Clone, Debug)]
pub struct Options {
    /// First bytes of the keys. Loads that run at the same time need different ones.
    pub prefix: String,
    /// Number of keys, at least one for each lane.
    pub keys: u64,
    /// Length of a value in bytes.
    pub value_bytes: usize,
    /// Share of sets, in percent.
    pub set_percent: u64,
    /// True if keys are drawn by Zipf's law.
    pub is_zipf: bool,
    /// Number of lanes of writes over all threads; each has one set in flight at most.
    pub lanes: u16,
    /// Number of the first lane. Loads that run at the same time with the same key need different lanes.
    pub first_lane: u16,
    /// Seed of the drawn keys.
    pub seed: u64,
}

/// Returns the number of lanes in which a load reads.
pub fn lanes(threads: usize, write_lanes: u16) -> usize {
    threads * usize::from(READ_LANES) + usize::from(write_lanes)
}

/// Returns the identity of the member that has this key in the genesis; `member` names it if the key was added later.
///
/// # Errors
/// A file cannot be used, or no member has the key.
pub fn identity(genesis: &Path, key: &Path, member: Option<MemberId>) -> Result<Identity> {
    let at = |path: &Path, error: &dyn std::fmt::Display| setup(format!("{}: {error}", path.display()));
    let bytes = std::fs::read(genesis).map_err(|error| at(genesis, &error))?;
    let decoded = Genesis::decode(&bytes).map_err(|error| at(genesis, &error))?;
    let (curve, secret) = read_signing_key(key).map_err(setup)?;
    let curve = match curve.as_str() {
        "p256" => Some(Curve::P256),
        "secp256k1" => Some(Curve::Secp256k1),
        _ => None,
    };
    let secret = curve.and_then(|curve| SecretKey::from_bytes(curve, &secret));
    let secret = secret.ok_or_else(|| at(key, &"this file holds no key of secp256k1 or P-256"))?;
    let public = secret.public();
    let first = decoded.members.iter().find(|first| first.key == public);
    let member = member.or(first.map(|first| first.member));
    let member = member.ok_or_else(|| at(key, &"no member in the genesis has this key; give --member N"))?;
    Ok(Identity {
        database: database_id(&bytes),
        member,
        key: 0,
        lane: 0,
        secret,
    })
}

/// Request in flight.
#[derive(Debug)]
pub enum Asked {
    /// Get of a key, and the oldest version that may be returned.
    Get(u64, u64),
    /// Set of a key in a lane, and the version.
    Set(usize, u64, u64),
}

struct Lane {
    signing: Signing,
    /// Number of the lane among those of all threads. It writes the keys with this remainder.
    number: u64,
}

/// Requests of one thread.
pub struct HybridTraffic {
    options: Options,
    draws: Draws,
    versions: Versions,
    random: Random,
    lanes: Vec<Lane>,
    free: Vec<usize>,
    readers: Vec<Signing>,
    next_reader: usize,
    /// Keys that are still to be written before the load.
    loading: Option<Once>,
    gets: u64,
    sets: u64,
}

/// Writes every key once.
///
/// # Errors
/// The node does not answer, or refuses to write the keys.
pub fn prepare(plan: &Plan, options: &Options, identity: &Identity) -> Result<Vec<HybridTraffic>> {
    let versions = Versions::new(options.keys);
    let mut seeds = Random(options.seed);
    let signing = |lane: u16| {
        let identity = Identity {
            lane,
            ..identity.clone()
        };
        Signing::new(identity, counter_now(unix_ms()))
    };
    let first_reader = options.first_lane.wrapping_add(options.lanes);
    let mut traffics: Vec<_> = (0..plan.threads as u16)
        .map(|thread| HybridTraffic {
            options: options.clone(),
            draws: Draws::new(options.keys, options.is_zipf),
            versions: versions.clone(),
            random: Random(seeds.next()),
            lanes: Vec::new(),
            free: Vec::new(),
            readers: (0..READ_LANES)
                .map(|lane| signing(first_reader.wrapping_add(thread * READ_LANES + lane)))
                .collect(),
            next_reader: 0,
            loading: Some(Once::new(options.keys, thread.into(), plan.threads as u64)),
            gets: 0,
            sets: 0,
        })
        .collect();
    for number in 0..options.lanes {
        let traffic = &mut traffics[usize::from(number) % plan.threads];
        traffic.free.push(traffic.lanes.len());
        traffic.lanes.push(Lane {
            signing: signing(options.first_lane.wrapping_add(number)),
            number: number.into(),
        });
    }
    let loading = Plan {
        pace: Pace::Window(options.lanes.into()),
        duration: LOADING,
        ..plan.clone()
    };
    let (report, mut traffics) = super::run(&loading, traffics)?;
    if report.answered != report.sent || report.failure().is_some() {
        let first = report.wrong_answers().into_iter().next().unwrap_or_default();
        return Err(setup(format!(
            "the node did not take the keys of the load: {} of {} sets were answered, {} refused {:?}{first}",
            report.answered,
            report.sent,
            report.refused(),
            report.reasons()
        )));
    }
    for traffic in &mut traffics {
        traffic.loading = None;
        (traffic.gets, traffic.sets) = (0, 0);
    }
    Ok(traffics)
}

impl HybridTraffic {
    fn key(&self, number: u64) -> Vec<u8> {
        format!("{}{number:08}", self.options.prefix).into_bytes()
    }

    /// Returns the key that a lane writes next: the drawn one, or its neighbour that this lane writes.
    fn drawn_key_of(&mut self, lane: usize) -> u64 {
        let lanes = u64::from(self.options.lanes);
        let drawn = self.draws.draw(&mut self.random);
        let key = drawn - drawn % lanes + self.lanes[lane].number;
        if key < self.options.keys { key } else { key - lanes }
    }

    fn set(&mut self, id: u64, out: &mut Vec<u8>) -> Result<Option<Asked>> {
        let Some(lane) = self.free.pop() else {
            return Ok(None);
        };
        let key = match &mut self.loading {
            None => self.drawn_key_of(lane),
            Some(once) => once.take(),
        };
        let version = self.versions.send(key);
        let (name, value) = (self.key(key), value(key, version, self.options.value_bytes));
        let signed = self.lanes[lane]
            .signing
            .sign(Body::set(&name, None, &value))
            .map_err(setup)?;
        put(out, id, &signed, 0)?;
        Ok(Some(Asked::Set(lane, key, version)))
    }

    fn get(&mut self, id: u64, out: &mut Vec<u8>) -> Result<Option<Asked>> {
        let key = self.draws.draw(&mut self.random);
        let name = self.key(key);
        self.next_reader = (self.next_reader + 1) % self.readers.len();
        let body = Body::Get {
            sees: Sees::Local,
            keys: vec![&name],
        };
        let oldest = self.versions.oldest(key);
        let signed = self.readers[self.next_reader].sign(body).map_err(setup)?;
        put(out, id, &signed, REPLY_BYTES + self.options.value_bytes)?;
        Ok(Some(Asked::Get(key, oldest)))
    }
}

/// Appends the datagram of a signed request.
fn put(out: &mut Vec<u8>, id: u64, signed: &[u8], answer_bytes: usize) -> Result<()> {
    let datagram = write_request(id, signed, answer_bytes);
    out.extend_from_slice(&datagram.ok_or_else(|| {
        setup(format!(
            "a request does not fit a datagram of {HYBRID_DATAGRAM_BYTES_MAX} bytes; lower --value-bytes"
        ))
    })?);
    Ok(())
}

impl Traffic for HybridTraffic {
    type Asked = Asked;

    fn draw(&mut self) -> Option<Kind> {
        let is_write = match &mut self.loading {
            Some(once) => {
                if !once.reserve() {
                    return None;
                }
                true
            }
            None => self.random.percent(self.options.set_percent),
        };
        Some(if is_write { Kind::Write } else { Kind::Read })
    }

    fn ask(&mut self, kind: Kind, id: u64, out: &mut Vec<u8>) -> Result<Option<Asked>> {
        match kind {
            Kind::Read => self.get(id, out),
            Kind::Write => self.set(id, out),
        }
    }

    fn case(&self, asked: &Asked) -> &'static str {
        match asked {
            Asked::Get(..) => "get",
            Asked::Set(..) => "set",
        }
    }

    fn judge(&mut self, asked: Asked, status: Status, body: &[u8]) -> Judgement {
        let answered = match status {
            Status::Ok => Answered::decode(body),
            status => {
                self.lost(asked);
                return Judgement::Refused(super::status_name(status));
            }
        };
        let judged = match (&asked, answered) {
            (_, Err(error)) => Err(format!("the answer is {error}")),
            (_, Ok(Answered::Refused(code))) => {
                self.lost(asked);
                return Judgement::Refused(code_name(code).to_owned());
            }
            (Asked::Get(key, oldest), Ok(Answered::Cells(cells))) => match &cells[..] {
                [cell] => {
                    let value = cell.as_ref().map(|cell| &cell.value[..]);
                    self.versions.check(*key, *oldest, value).map(|()| self.gets += 1)
                }
                cells => Err(format!("the answer has {} cells instead of one", cells.len())),
            },
            (Asked::Set(lane, key, version), Ok(Answered::Placed { code, .. })) => {
                self.free.push(*lane);
                if code != Code::Done {
                    return Judgement::Refused(code_name(code).to_owned());
                }
                self.versions.acknowledge(*key, *version);
                self.sets += 1;
                Ok(())
            }
            _ => {
                self.lost(asked);
                return Judgement::Wrong("the answer belongs to another kind of request".into());
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
        // The lane continues: its next request has a higher counter, so that the lost one cannot be executed after it.
        if let Asked::Set(lane, ..) = asked {
            self.free.push(lane);
        }
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        vec![("gets", self.gets), ("sets", self.sets)]
    }
}

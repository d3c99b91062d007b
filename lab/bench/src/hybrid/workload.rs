//! Signed requests, made before the clock starts: YCSB's workloads A, B and C over 100,000 records.

use bytes::Bytes;
use lineside_hybrid::change::{KeyBytes, Rights, Role};
use lineside_hybrid::genesis::{FirstMember, FirstRule, Genesis, database_id};
use lineside_hybrid::request::{Body, DatabaseId, Head, MemberId, Nonce, Request, SIGNATURE_BYTES};
use lineside_hybrid::sign::{Signer, sign_request};
use lineside_testkit::Random;
use lineside_verify::Curve;
use secp256k1::{Message, SECP256K1, SecretKey};
use serde::Serialize;

/// Records that every database begins with, unless the run is short.
pub const RECORDS: u64 = 100_000;
/// YCSB's constant of skew.
const THETA: f64 = 0.99;
/// Keys that a value may be written by.
pub const KEYS_MAX: u64 = 10_000;

/// How requests choose records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Distribution {
    /// Each as often.
    Uniform,
    /// A few far more often, spread over all.
    Zipfian,
    /// The last ones far more often.
    Latest,
}

/// What requests are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Shape {
    /// Sets in a hundred requests: 50 is YCSB's A, 5 its B, 0 its C.
    pub sets_percent: u64,
    /// How records are chosen.
    pub distribution: Distribution,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// Requests in a call.
    pub per_call: usize,
    /// Keys that sign.
    pub keys: u64,
    /// Calls under way at once: the paper's clients times threads.
    pub workers: usize,
}

/// The gate case: YCSB A, zipfian, 100 bytes, calls of 100, 16 keys.
pub const GATE: Shape = Shape {
    sets_percent: 50,
    distribution: Distribution::Zipfian,
    value_bytes: 100,
    per_call: 100,
    keys: 16,
    workers: 16,
};

/// A key of secp256k1, signing by libsecp256k1: it only makes the load.
pub struct Key(SecretKey);

impl Key {
    /// The key of this number, of a kind of its own.
    pub fn of(kind: u8, number: u64) -> Key {
        let mut bytes = [kind; 32];
        bytes[24..].copy_from_slice(&number.to_be_bytes());
        // No such constant is 0 or above the curve's order.
        Key(SecretKey::from_slice(&bytes).expect("a key"))
    }

    /// As it stands in a genesis.
    pub fn public(&self) -> KeyBytes {
        KeyBytes {
            curve: Curve::Secp256k1,
            bytes: self.0.public_key(SECP256K1).serialize(),
        }
    }
}

impl Signer for Key {
    fn curve(&self) -> Curve {
        Curve::Secp256k1
    }

    fn sign(&self, digest: &[u8; 32]) -> [u8; SIGNATURE_BYTES] {
        SECP256K1
            .sign_ecdsa(&Message::from_digest(*digest), &self.0)
            .serialize_compact()
    }
}

/// A database whose every member may do everything.
pub fn genesis(keys: u64, nodes: u32) -> Genesis {
    let member = |member| FirstMember {
        member,
        name: String::new(),
        role: if member == 1 { Role::Admin } else { Role::User },
        key: Key::of(1, member).public(),
    };
    Genesis {
        name: "bench".into(),
        time_ms: 0,
        quorum: 1,
        members: (1..=keys).map(member).collect(),
        nodes: (1..=nodes)
            .map(|node| (node, Key::of(2, node.into()).public()))
            .collect(),
        rules: vec![FirstRule {
            prefix: Vec::new(),
            member: 0,
            rights: Rights {
                read: true,
                write: true,
            },
        }],
        paper: false,
    }
}

/// Requests that are sent together: all of them get, or all of them set.
#[derive(Clone, Debug)]
pub struct Call {
    /// Whether they set.
    pub sets: bool,
    /// Signed.
    pub requests: Vec<Bytes>,
}

/// Calls of each worker, in its order.
pub type Calls = Vec<Vec<Call>>;

/// Makes and signs requests.
pub struct Maker {
    /// The database's.
    pub genesis: Vec<u8>,
    database: DatabaseId,
    expiry_ms: u64,
    keys: u64,
    records: u64,
}

impl Maker {
    /// For a database of `records` records and this genesis, with its clock standing at `now_ms`.
    pub fn new(keys: u64, nodes: u32, now_ms: u64, records: u64) -> Maker {
        // It only encodes what was made just now.
        let genesis = genesis(keys, nodes).encode().expect("a genesis");
        Maker {
            database: database_id(&genesis),
            genesis,
            expiry_ms: now_ms + 50_000,
            keys,
            records,
        }
    }

    /// Sets of all records, in calls of 100, by one worker.
    pub fn load(&self, value_bytes: usize) -> Calls {
        let value = vec![b'0'; value_bytes];
        let per_call = (200_000 / (value_bytes + 200)).clamp(1, 1000);
        let numbers: Vec<u64> = (0..self.records).collect();
        let calls = numbers.chunks(per_call).map(|numbers| {
            let set = |number: &u64| {
                let key = record(*number);
                self.sign(1, u16::MAX, *number + 1, Body::set(key.as_bytes(), None, &value))
            };
            let requests = numbers.iter().map(set).collect();
            Call { sets: true, requests }
        });
        vec![calls.collect()]
    }

    /// So many requests of a shape. Two threads sign.
    pub fn requests(&self, shape: &Shape, seed: u64, requests: usize) -> Calls {
        let zipfian = Zipfian::new(self.records);
        let calls = requests / shape.per_call / shape.workers;
        let work = |worker: usize| -> Vec<Call> {
            let mut random = Random(seed << 16 ^ (worker as u64 + 1));
            let mut counters = vec![0; self.keys as usize];
            let value: Vec<u8> = (0..shape.value_bytes).map(|_| random.next() as u8).collect();
            let mut one = |random: &mut Random, sets: bool| {
                let number = match shape.distribution {
                    Distribution::Uniform => random.next() % self.records,
                    Distribution::Zipfian => spread(zipfian.draw(random)) % self.records,
                    Distribution::Latest => self.records - 1 - zipfian.draw(random),
                };
                let key = record(number);
                let member = match shape.keys <= shape.workers as u64 {
                    true => worker as u64 % shape.keys,
                    false => random.next() % shape.keys,
                };
                let counter = &mut counters[member as usize];
                *counter += 1;
                let body = match sets {
                    true => Body::set(key.as_bytes(), None, &value),
                    false => Body::Get {
                        sees: Default::default(),
                        keys: vec![key.as_bytes()],
                    },
                };
                self.sign(member + 1, worker as u16, *counter, body)
            };
            let calls = (0..calls).map(|_| {
                let sets = random.next() % 100 < shape.sets_percent;
                let requests = (0..shape.per_call).map(|_| one(&mut random, sets)).collect();
                Call { sets, requests }
            });
            calls.collect()
        };
        let half = shape.workers.div_ceil(2);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| (half..shape.workers).map(work).collect::<Vec<_>>());
            let mut all: Vec<_> = (0..half).map(work).collect();
            all.extend(other.join().unwrap_or_default());
            all
        })
    }

    /// A request of the same database, by hand.
    pub fn sign(&self, member: MemberId, lane: u16, counter: u64, body: Body<'_>) -> Bytes {
        sign_request(&Key::of(1, member), &self.encode(member, lane, counter, body)).into()
    }

    /// The same with a signature of zeros.
    pub fn unsigned(&self, member: MemberId, lane: u16, counter: u64, body: Body<'_>) -> Bytes {
        [
            &[0; SIGNATURE_BYTES][..],
            &self.encode(member, lane, counter, body),
        ]
        .concat()
        .into()
    }

    fn encode(&self, member: MemberId, lane: u16, counter: u64, body: Body<'_>) -> Vec<u8> {
        let head = Head {
            database: self.database,
            member,
            key: 0,
            nonce: Nonce { lane, counter },
            expiry_ms: self.expiry_ms,
        };
        // Bodies made here are short, and their keys rise.
        Request { head, body }.encode().expect("a request")
    }
}

/// A record's key.
pub fn record(number: u64) -> String {
    format!("user{number:012}")
}

/// A number of [0, 1), in steps of 2^-53.
fn unit(random: &mut Random) -> f64 {
    (random.next() >> 11) as f64 / (1_u64 << 53) as f64
}

/// Zipf's distribution by the formula of Gray and others, "Quickly generating billion-record synthetic databases"
/// (SIGMOD 1994), which YCSB uses.
struct Zipfian {
    items: f64,
    zeta: f64,
    alpha: f64,
    eta: f64,
}

impl Zipfian {
    fn new(items: u64) -> Zipfian {
        let zeta = |count: u64| (1..=count).map(|item| (item as f64).powf(-THETA)).sum::<f64>();
        let all = zeta(items);
        Zipfian {
            items: items as f64,
            zeta: all,
            alpha: 1.0 / (1.0 - THETA),
            eta: (1.0 - (2.0 / items as f64).powf(1.0 - THETA)) / (1.0 - zeta(2) / all),
        }
    }

    /// 0 the most often.
    fn draw(&self, random: &mut Random) -> u64 {
        let unit = unit(random);
        let scaled = unit * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + 0.5_f64.powf(THETA) {
            return 1;
        }
        let item = self.items * (self.eta * unit - self.eta + 1.0).powf(self.alpha);
        (item as u64).min(self.items as u64 - 1)
    }
}

/// FNV-1a over a number's bytes: spreads the often drawn over all records, as YCSB does.
fn spread(number: u64) -> u64 {
    number
        .to_le_bytes()
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_often_drawn_are_drawn_as_often_as_zipf_says() {
        let (zipfian, mut random) = (Zipfian::new(1000), Random(7));
        let mut counts = vec![0_u32; 1000];
        (0..200_000).for_each(|_| counts[zipfian.draw(&mut random) as usize] += 1);
        let zeta: f64 = (1..=1000).map(|item| f64::from(item).powf(-THETA)).sum();
        for item in [0, 1] {
            let expected = 200_000.0 * f64::from(item + 1).powf(-THETA) / zeta;
            let found = f64::from(counts[item as usize]);
            assert!(
                (found / expected - 1.0).abs() < 0.05,
                "item {item}: {found}, not {expected}"
            );
        }
        assert!(counts[0] > counts[10] && counts[10] > counts[500]);
    }

    #[test]
    fn what_is_signed_is_what_the_shape_says() {
        let maker = Maker::new(16, 1, 1_000, RECORDS);
        let calls = maker.requests(&GATE, 3, 16 * 1000);
        assert_eq!(calls.len(), 16);
        let all: Vec<_> = calls.iter().flatten().collect();
        assert_eq!(all.len(), 160);
        assert!((60..100).contains(&all.iter().filter(|call| call.sets).count()));
        for call in all {
            assert_eq!(call.requests.len(), 100);
            for request in &call.requests {
                let body = Request::decode(&request[64..]).unwrap().body;
                assert_eq!(matches!(body, Body::Write { .. }), call.sets);
            }
        }
    }
}

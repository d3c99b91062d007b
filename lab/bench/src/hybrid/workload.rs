//! Signed requests that are generated before the clock starts: YCSB's workloads A, B and C over 100,000 records.

use bytes::Bytes;
use lineside_messages::hybrid::change::{KeyBytes, Rights, Role};
use lineside_messages::hybrid::genesis::{FirstMember, FirstRule, Genesis, database_id};
use lineside_messages::hybrid::request::{Body, DatabaseId, Head, MemberId, Nonce, Request, SIGNATURE_BYTES};
use lineside_messages::hybrid::sign::{Signer, sign_request};
use lineside_testkit::Random;
use lineside_verify::Curve;
use secp256k1::{Message, SECP256K1, SecretKey};
use serde::Serialize;

/// Number of records at the beginning of a run, except in a short run.
pub const RECORDS: u64 = 100_000;
/// Skew of the zipfian distribution; the default of YCSB.
const THETA: f64 = 0.99;
/// Maximum number of keys that may sign requests.
pub const KEYS_MAX: u64 = 10_000;

/// Distribution of the records that are requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Distribution {
    /// All records are requested equally often.
    Uniform,
    /// A few records are requested far more often; they are spread over all records.
    Zipfian,
    /// The newest records are requested far more often.
    Latest,
}

/// Parameters of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Shape {
    /// Percentage of sets. The value 50 gives YCSB's workload A, 5 gives B, and 0 gives C.
    pub sets_percent: u64,
    /// Distribution of the requested records.
    pub distribution: Distribution,
    /// Size of a value in bytes.
    pub value_bytes: usize,
    /// Number of requests in a call.
    pub per_call: usize,
    /// Number of keys that sign requests.
    pub keys: u64,
    /// Number of calls in flight at the same time. It is the number of clients times the number of threads in the
    /// paper.
    pub workers: usize,
}

/// Parameters of the case to which the gates apply: YCSB A, zipfian, values of 100 bytes, calls of 100 requests, 16
/// keys.
pub const GATE: Shape = Shape {
    sets_percent: 50,
    distribution: Distribution::Zipfian,
    value_bytes: 100,
    per_call: 100,
    keys: 16,
    workers: 16,
};

/// Key of secp256k1 that signs with libsecp256k1. It is used only to generate requests.
pub struct Key(SecretKey);

impl Key {
    /// Returns a fixed key for the benchmark. `kind` separates the keys of members (1) from those of nodes (2);
    /// `number` is the number of the member or node.
    pub fn of(kind: u8, number: u64) -> Key {
        let mut bytes = [kind; 32];
        bytes[24..].copy_from_slice(&number.to_be_bytes());
        // The number is never 0 and never above the curve's order.
        Key(SecretKey::from_slice(&bytes).expect("the constant is a valid secret key"))
    }

    /// Returns the public key in the form that a genesis contains.
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

/// Returns the genesis of a database whose members all have every right.
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

/// Requests that are sent together: all of them gets, or all of them sets.
#[derive(Clone, Debug)]
pub struct Call {
    /// True if all requests are sets; false if all are gets.
    pub sets: bool,
    /// Signed requests.
    pub requests: Vec<Bytes>,
}

/// Calls of each worker, in their order.
pub type Calls = Vec<Vec<Call>>;

/// Generator that creates and signs requests.
pub struct Maker {
    /// Genesis of the database.
    pub genesis: Vec<u8>,
    database: DatabaseId,
    expiry_ms: u64,
    keys: u64,
    records: u64,
}

impl Maker {
    /// Returns the generator for a database with this genesis and `records` records, whose clock shows `now_ms`.
    pub fn new(keys: u64, nodes: u32, now_ms: u64, records: u64) -> Maker {
        // The encoding cannot fail, because the genesis was just created.
        let genesis = genesis(keys, nodes).encode().expect("the genesis is valid");
        Maker {
            database: database_id(&genesis),
            genesis,
            expiry_ms: now_ms + 50_000,
            keys,
            records,
        }
    }

    /// Returns signed sets of all records, in calls of 100 requests, for one worker.
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

    /// Returns `requests` requests with these parameters. Two threads sign them.
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

    /// Returns a signed request of this member to the generator's database.
    pub fn sign(&self, member: MemberId, lane: u16, counter: u64, body: Body<'_>) -> Bytes {
        sign_request(&Key::of(1, member), &self.encode(member, lane, counter, body)).into()
    }

    /// Returns a request whose signature consists of zeros.
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
        // The encoding cannot fail: bodies that this generator creates are short, and their keys are in ascending
        // order.
        Request { head, body }.encode().expect("the request is valid")
    }
}

/// Returns the key of a record.
pub fn record(number: u64) -> String {
    format!("user{number:012}")
}

/// Returns a random number in [0, 1), a multiple of 2^-53.
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

    /// Draws a number. The number 0 is the most frequent one.
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

/// Returns FNV-1a over the bytes of a number, which spreads the frequent numbers over all records, as YCSB does.
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
    fn frequent_items_are_drawn_at_the_frequency_of_zipfs_law() {
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
    fn signed_requests_have_the_shape_of_the_workload() {
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

//! Native requests: the bytes that a client signs, which have exactly one encoding.
//!
//! A signed request is a signature of 64 bytes, `r || s`, followed by the signed bytes, [`Request::encode`]. The
//! verifier hashes these bytes as received. Decoding accepts only the one encoding, so no second one can be signed.

use super::change::Change;
use super::codec::{Input, Malformed, Output};
use lineside_wire::{
    HYBRID_KEY_BYTES_MAX as KEY_MAX, HYBRID_OP_CHANGE, HYBRID_OP_GET, HYBRID_OP_HEAD, HYBRID_OP_HISTORY,
    HYBRID_OP_OUTCOME, HYBRID_OP_PROVE, HYBRID_OP_RANGE, HYBRID_OP_WATCH, HYBRID_OP_WRITE,
    HYBRID_READ_LINEARIZABLE, HYBRID_READ_LOCAL, HYBRID_REQUEST_BYTES_MAX,
    HYBRID_REQUEST_KEYS_MAX as KEYS_MAX, HYBRID_REQUEST_VERSION, HYBRID_VALUE_BYTES_MAX as VALUE_MAX,
    HYBRID_WRITE_DELETE, HYBRID_WRITE_PUT, RequestHead, RequestSignature,
};

/// Number of bytes of the signature, which precedes the signed bytes.
pub const SIGNATURE_BYTES: usize = size_of::<RequestSignature>();
/// Number of bytes of the signed part before the body of the operation.
pub const HEAD_BYTES: usize = size_of::<RequestHead>();

/// Id of a database: the first bytes of its genesis' hash.
pub type DatabaseId = [u8; 16];
/// Number of a member; never 0.
pub type MemberId = u64;

/// Version of a key: block and index of its last write. The default, all zeros, means that the key has no value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// Number of the block.
    pub block: u64,
    /// Index of the request in the block, from 0.
    pub index: u32,
}

impl Version {
    /// Version of a key that has no value.
    pub const ABSENT: Version = Version { block: 0, index: 0 };
}

/// A counter of a member's requests in one of 65,536 lanes. Requests that may overtake one another need separate lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Nonce {
    /// Number of the lane.
    pub lane: u16,
    /// Counter, above the lane's last one and below 2^48.
    pub counter: u64,
}

impl Nonce {
    /// Maximum value of a counter.
    pub const COUNTER_MAX: u64 = (1 << 48) - 1;

    fn from_bits(bits: u64) -> Nonce {
        Nonce {
            lane: (bits >> 48) as u16,
            counter: bits & Nonce::COUNTER_MAX,
        }
    }

    fn bits(self) -> u64 {
        u64::from(self.lane) << 48 | self.counter & Nonce::COUNTER_MAX
    }
}

/// Head of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Id of the database.
    pub database: DatabaseId,
    /// Member who sends the request.
    pub member: MemberId,
    /// Number of the member's key that has signed the request.
    pub key: u16,
    /// Nonce, which makes the request count only once.
    pub nonce: Nonce,
    /// Time in milliseconds since 1970 after which the request is refused.
    pub expiry_ms: u64,
}

/// Consistency of a read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sees {
    /// The read sees the commits of this node.
    #[default]
    Local,
    /// The read sees every write that any node has acknowledged before the read arrived.
    Linearizable,
}

/// A key that a write depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Version that the client has read.
    pub version: Version,
}

/// A key that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write<'a> {
    /// The key.
    pub key: &'a [u8],
    /// New value; `None` deletes the key.
    pub value: Option<&'a [u8]>,
}

/// Operation of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// Reads the cells of keys, which are in ascending order.
    Get {
        /// Consistency of the read.
        sees: Sees,
        /// 1 to 1,000 keys.
        keys: Vec<&'a [u8]>,
    },
    /// Reads the cells of keys from `start` (inclusive) to `stop` (exclusive).
    Range {
        /// Consistency of the read.
        sees: Sees,
        /// First key of the range, inclusive.
        start: &'a [u8],
        /// End of the range, exclusive; empty: no end.
        stop: &'a [u8],
        /// Maximum number of cells.
        limit: u32,
    },
    /// Requests a proof of a key's cell, or of its absence.
    Prove {
        /// The key.
        key: &'a [u8],
    },
    /// Reads the newest writes of a key.
    History {
        /// The key.
        key: &'a [u8],
        /// Maximum number of writes.
        limit: u32,
        /// Only writes that are older than this one are returned; `None`: from the newest on.
        before: Option<Version>,
    },
    /// Reads the newest block's header, signed by the node.
    Head,
    /// Reads the outcome of a transaction.
    Outcome {
        /// Id of the transaction: [`transaction_id`](super::sign::transaction_id).
        id: [u8; 32],
    },
    /// Subscribes to all later writes below a prefix.
    Watch {
        /// The prefix.
        prefix: &'a [u8],
    },
    /// A transaction: makes all its writes if every version that it read is still the newest; otherwise it makes no
    /// write.
    Write {
        /// Keys that the transaction depends on: 0 to 1,000, in ascending order.
        reads: Vec<Read<'a>>,
        /// Keys that the transaction writes: 1 to 1,000, in ascending order.
        writes: Vec<Write<'a>>,
    },
    /// A change of the membership, or a vote for it.
    Change {
        /// Time in milliseconds since 1970 after which votes for the change do not count. Admins vote on the change
        /// together with this time.
        until_ms: u64,
        /// The change.
        change: Change<'a>,
    },
}

/// The signed content of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// Head of the request: sender, nonce and expiry.
    pub head: Head,
    /// Operation of the request.
    pub body: Body<'a>,
}

impl<'a> Body<'a> {
    /// Creates a transaction that sets one key. If `read` names a version, the key must have this version.
    pub fn set(key: &'a [u8], read: Option<Version>, value: &'a [u8]) -> Body<'a> {
        Body::one(key, read, Some(value))
    }

    /// Creates a transaction that deletes one key. If `read` names a version, the key must have this version.
    pub fn delete(key: &'a [u8], read: Option<Version>) -> Body<'a> {
        Body::one(key, read, None)
    }

    fn one(key: &'a [u8], read: Option<Version>, value: Option<&'a [u8]>) -> Body<'a> {
        Body::Write {
            reads: read.map(|version| Read { key, version }).into_iter().collect(),
            writes: vec![Write { key, value }],
        }
    }

    /// Returns true if the request goes through the log.
    pub fn is_ordered(&self) -> bool {
        matches!(self, Body::Write { .. } | Body::Change { .. })
    }

    fn op(&self) -> u8 {
        match self {
            Body::Get { .. } => HYBRID_OP_GET,
            Body::Range { .. } => HYBRID_OP_RANGE,
            Body::Prove { .. } => HYBRID_OP_PROVE,
            Body::History { .. } => HYBRID_OP_HISTORY,
            Body::Head => HYBRID_OP_HEAD,
            Body::Outcome { .. } => HYBRID_OP_OUTCOME,
            Body::Watch { .. } => HYBRID_OP_WATCH,
            Body::Write { .. } => HYBRID_OP_WRITE,
            Body::Change { .. } => HYBRID_OP_CHANGE,
        }
    }
}

impl<'a> Request<'a> {
    /// Decodes the signed bytes.
    ///
    /// # Errors
    /// [`Malformed`] for bytes that [`Self::encode`] does not write.
    pub fn decode(signed: &'a [u8]) -> Result<Request<'a>, Malformed> {
        let mut input = Input(signed);
        let (head, op) = read_head(&mut input)?;
        let body = match op {
            HYBRID_OP_GET => Body::Get {
                sees: read_sees(&mut input)?,
                keys: read_keys(&mut input)?,
            },
            HYBRID_OP_RANGE => Body::Range {
                sees: read_sees(&mut input)?,
                start: input.short(KEY_MAX)?,
                stop: input.short(KEY_MAX)?,
                limit: input.u32()?,
            },
            HYBRID_OP_PROVE => Body::Prove {
                key: read_key(&mut input)?,
            },
            HYBRID_OP_HISTORY => Body::History {
                key: read_key(&mut input)?,
                limit: input.u32()?,
                before: read_before(&mut input)?,
            },
            HYBRID_OP_HEAD => Body::Head,
            HYBRID_OP_OUTCOME => Body::Outcome { id: input.array()? },
            HYBRID_OP_WATCH => Body::Watch {
                prefix: input.short(KEY_MAX)?,
            },
            HYBRID_OP_WRITE => Body::Write {
                reads: read_reads(&mut input)?,
                writes: read_writes(&mut input)?,
            },
            HYBRID_OP_CHANGE => Body::Change {
                until_ms: input.u64()?,
                change: Change::read(&mut input)?,
            },
            _ => return Err(Malformed("unknown operation")),
        };
        input.end()?;
        Ok(Request { head, body })
    }

    /// Encodes the bytes to be signed.
    ///
    /// # Errors
    /// [`Malformed`] if [`Self::decode`] would refuse them: keys not in ascending order, or fields that are too long.
    pub fn encode(&self) -> Result<Vec<u8>, Malformed> {
        let mut out = Vec::with_capacity(256);
        let head = &self.head;
        out.u8(HYBRID_REQUEST_VERSION);
        out.u8(self.body.op());
        out.u16(head.key);
        out.put(&head.database);
        out.u64(head.member);
        out.u64(head.nonce.bits());
        out.u64(head.expiry_ms);
        self.body.write(&mut out)?;
        // Decodes the result again, so that the decoder alone defines which requests are valid.
        Request::decode(&out)?;
        Ok(out)
    }
}

impl Body<'_> {
    fn write(&self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        match self {
            Body::Get { sees, keys } => {
                out.u8(sees_code(*sees));
                write_count(out, keys.len())?;
                keys.iter().try_for_each(|key| write_key(out, key))?;
            }
            Body::Range {
                sees,
                start,
                stop,
                limit,
            } => {
                out.u8(sees_code(*sees));
                write_key(out, start)?;
                write_key(out, stop)?;
                out.u32(*limit);
            }
            Body::Prove { key } => write_key(out, key)?,
            Body::History { key, limit, before } => {
                write_key(out, key)?;
                out.u32(*limit);
                if let Some(before) = before {
                    out.u64(before.block);
                    out.u32(before.index);
                }
            }
            Body::Head => {}
            Body::Outcome { id } => out.put(id),
            Body::Watch { prefix } => write_key(out, prefix)?,
            Body::Write { reads, writes } => {
                write_count(out, reads.len())?;
                for read in reads {
                    write_key(out, read.key)?;
                    out.u64(read.version.block);
                    out.u32(read.version.index);
                }
                write_count(out, writes.len())?;
                for write in writes {
                    write_key(out, write.key)?;
                    match write.value {
                        None => out.u8(HYBRID_WRITE_DELETE),
                        Some(value) if value.len() <= VALUE_MAX => {
                            out.u8(HYBRID_WRITE_PUT);
                            out.long(value);
                        }
                        Some(_) => return Err(Malformed("the value is too long")),
                    }
                }
            }
            Body::Change { until_ms, change } => {
                out.u64(*until_ms);
                change.write(out)?;
            }
        }
        Ok(())
    }
}

/// Splits a request into the signature and the signed bytes.
///
/// # Errors
/// [`Malformed`] if it is shorter than a signature and a head, or longer than any request.
pub fn split(request: &[u8]) -> Result<(&[u8; SIGNATURE_BYTES], &[u8]), Malformed> {
    match request.split_first_chunk() {
        Some((signature, signed))
            if signed.len() >= HEAD_BYTES && request.len() <= HYBRID_REQUEST_BYTES_MAX =>
        {
            Ok((signature, signed))
        }
        _ => Err(Malformed("the request is too short or too long")),
    }
}

/// Returns the operation of a request (one of `HYBRID_OP_…`) without parsing the rest.
pub fn operation(request: &[u8]) -> Option<u8> {
    request.get(SIGNATURE_BYTES + 1).copied()
}

/// Returns true if the request is a get with local consistency.
pub fn is_local_get(request: &[u8]) -> bool {
    let body = split(request).and_then(|(_, signed)| Ok(Request::decode(signed)?.body));
    matches!(
        body,
        Ok(Body::Get {
            sees: Sees::Local,
            ..
        })
    )
}

/// Decodes the head of a request and its operation, without parsing the rest.
pub fn read_head(input: &mut Input<'_>) -> Result<(Head, u8), Malformed> {
    if input.u8()? != HYBRID_REQUEST_VERSION {
        return Err(Malformed("unknown version of the request format"));
    }
    let op = input.u8()?;
    let key = input.u16()?;
    let head = Head {
        key,
        database: input.array()?,
        member: input.u64()?,
        nonce: Nonce::from_bits(input.u64()?),
        expiry_ms: input.u64()?,
    };
    if head.member == 0 {
        return Err(Malformed("member 0"));
    }
    Ok((head, op))
}

fn sees_code(sees: Sees) -> u8 {
    match sees {
        Sees::Local => HYBRID_READ_LOCAL,
        Sees::Linearizable => HYBRID_READ_LINEARIZABLE,
    }
}

fn read_sees(input: &mut Input<'_>) -> Result<Sees, Malformed> {
    match input.u8()? {
        HYBRID_READ_LOCAL => Ok(Sees::Local),
        HYBRID_READ_LINEARIZABLE => Ok(Sees::Linearizable),
        _ => Err(Malformed("unknown read mode")),
    }
}

fn read_key<'a>(input: &mut Input<'a>) -> Result<&'a [u8], Malformed> {
    match input.short(KEY_MAX)? {
        [] => Err(Malformed("the key is empty")),
        key => Ok(key),
    }
}

fn write_key(out: &mut Vec<u8>, key: &[u8]) -> Result<(), Malformed> {
    if key.len() > KEY_MAX {
        return Err(Malformed("the key is too long"));
    }
    out.short(key);
    Ok(())
}

/// Decodes the version before which a page of a history begins. If no bytes are left, the page begins with the newest
/// write.
fn read_before(input: &mut Input<'_>) -> Result<Option<Version>, Malformed> {
    if input.0.is_empty() {
        return Ok(None);
    }
    Ok(Some(Version {
        block: input.u64()?,
        index: input.u32()?,
    }))
}

fn read_count(input: &mut Input<'_>) -> Result<usize, Malformed> {
    match usize::from(input.u16()?) {
        count if count <= KEYS_MAX => Ok(count),
        _ => Err(Malformed("too many keys")),
    }
}

fn write_count(out: &mut Vec<u8>, count: usize) -> Result<(), Malformed> {
    if count > KEYS_MAX {
        return Err(Malformed("too many keys"));
    }
    out.u16(count as u16);
    Ok(())
}

/// Checks that keys are in strictly ascending order, so that their order is unique and no key occurs twice.
fn rising<T>(items: &[T], key: impl Fn(&T) -> &[u8]) -> Result<(), Malformed> {
    match items.windows(2).all(|pair| key(&pair[0]) < key(&pair[1])) {
        true => Ok(()),
        false => Err(Malformed("the keys are not in ascending order")),
    }
}

fn read_keys<'a>(input: &mut Input<'a>) -> Result<Vec<&'a [u8]>, Malformed> {
    let count = read_count(input)?;
    let keys = (0..count)
        .map(|_| read_key(input))
        .collect::<Result<Vec<_>, _>>()?;
    if keys.is_empty() {
        return Err(Malformed("the request has no keys"));
    }
    rising(&keys, |key| key)?;
    Ok(keys)
}

fn read_reads<'a>(input: &mut Input<'a>) -> Result<Vec<Read<'a>>, Malformed> {
    let count = read_count(input)?;
    let one = |_| {
        let key = read_key(input)?;
        let version = Version {
            block: input.u64()?,
            index: input.u32()?,
        };
        if version.block == 0 && version.index != 0 {
            return Err(Malformed("a version names block 0"));
        }
        Ok(Read { key, version })
    };
    let reads = (0..count).map(one).collect::<Result<Vec<_>, _>>()?;
    rising(&reads, |read| read.key)?;
    Ok(reads)
}

fn read_writes<'a>(input: &mut Input<'a>) -> Result<Vec<Write<'a>>, Malformed> {
    let count = read_count(input)?;
    let one = |_| {
        let key = read_key(input)?;
        let value = match input.u8()? {
            HYBRID_WRITE_PUT => Some(input.long(VALUE_MAX)?),
            HYBRID_WRITE_DELETE => None,
            _ => return Err(Malformed("unknown kind of write")),
        };
        Ok(Write { key, value })
    };
    let writes = (0..count).map(one).collect::<Result<Vec<_>, _>>()?;
    if writes.is_empty() {
        return Err(Malformed("the write request has no writes"));
    }
    rising(&writes, |write| write.key)?;
    Ok(writes)
}

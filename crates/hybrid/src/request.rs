//! Requests: what a client signs, and its one encoding.
//!
//! A signed request is 64 bytes of signature, `r || s`, and then what is signed: [`Request::encode`]. Whoever verifies
//! hashes these bytes as they came. Decoding takes the one encoding only, so no second one can be signed.

use crate::change::Change;
use crate::codec::{Input, Malformed, Output};
use lineside_wire::{
    HYBRID_KEY_BYTES_MAX as KEY_MAX, HYBRID_OP_CHANGE, HYBRID_OP_GET, HYBRID_OP_HEAD, HYBRID_OP_HISTORY,
    HYBRID_OP_OUTCOME, HYBRID_OP_PROVE, HYBRID_OP_RANGE, HYBRID_OP_WATCH, HYBRID_OP_WRITE,
    HYBRID_READ_LINEARIZABLE, HYBRID_READ_LOCAL, HYBRID_REQUEST_BYTES_MAX,
    HYBRID_REQUEST_KEYS_MAX as KEYS_MAX, HYBRID_REQUEST_VERSION, HYBRID_VALUE_BYTES_MAX as VALUE_MAX,
    HYBRID_WRITE_DELETE, HYBRID_WRITE_PUT, RequestHead, RequestSignature,
};

/// Bytes before what is signed.
pub const SIGNATURE_BYTES: usize = size_of::<RequestSignature>();
/// Bytes of what is signed before the operation's body.
pub(crate) const HEAD_BYTES: usize = size_of::<RequestHead>();

/// Which database: the first bytes of its genesis' hash.
pub type DatabaseId = [u8; 16];
/// A member's number; never 0.
pub type MemberId = u64;

/// When a key was last written: which request of which block. The default, all zeros: it has no value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// The block's number.
    pub block: u64,
    /// The request's place in the block, from 0.
    pub index: u32,
}

impl Version {
    /// Of a key that has no value.
    pub const ABSENT: Version = Version { block: 0, index: 0 };
}

/// A member's count of his requests in one of 65,536 lanes. Requests that overtake one another want lanes of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Nonce {
    /// Which lane.
    pub lane: u16,
    /// Above the lane's last one; below 2^48.
    pub counter: u64,
}

impl Nonce {
    /// Counters end here.
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

/// What every request says first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The database.
    pub database: DatabaseId,
    /// Who asks.
    pub member: MemberId,
    /// Which of the member's keys has signed.
    pub key: u16,
    /// So that it counts once.
    pub nonce: Nonce,
    /// Milliseconds since 1970 after which it does not count.
    pub expiry_ms: u64,
}

/// What a read sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sees {
    /// What this node has committed.
    #[default]
    Local,
    /// All that was answered before it came, by any node.
    Linearizable,
}

/// A key that a write depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The version that was read.
    pub version: Version,
}

/// A key that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write<'a> {
    /// The key.
    pub key: &'a [u8],
    /// What it has from then on; `None`: nothing.
    pub value: Option<&'a [u8]>,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// Cells by their keys, which rise.
    Get {
        /// What it sees.
        sees: Sees,
        /// 1 to 1,000 keys.
        keys: Vec<&'a [u8]>,
    },
    /// Cells from `start` on, before `stop`.
    Range {
        /// What it sees.
        sees: Sees,
        /// The first key, where it is there.
        start: &'a [u8],
        /// The first key that is not meant; empty: there is none.
        stop: &'a [u8],
        /// Cells at most.
        limit: u32,
    },
    /// A proof of a key's cell, or that it has none.
    Prove {
        /// The key.
        key: &'a [u8],
    },
    /// The newest writes of a key.
    History {
        /// The key.
        key: &'a [u8],
        /// Writes at most.
        limit: u32,
        /// Only writes that are older than this one; `None`: from the newest on.
        before: Option<Version>,
    },
    /// The newest block, signed by the node.
    Head,
    /// What became of a transaction.
    Outcome {
        /// Its id: [`transaction_id`](crate::sign::transaction_id).
        id: [u8; 32],
    },
    /// Every write below a prefix, from then on.
    Watch {
        /// The prefix.
        prefix: &'a [u8],
    },
    /// A transaction: all its writes are made, if every version that it read is still the newest, or none.
    Write {
        /// 0 to 1,000 keys, rising.
        reads: Vec<Read<'a>>,
        /// 1 to 1,000 keys, rising.
        writes: Vec<Write<'a>>,
    },
    /// A change of members, keys, rules or nodes, or a vote for it.
    Change {
        /// Milliseconds since 1970 after which votes for it do not count; part of what is voted on.
        until_ms: u64,
        /// What is to change.
        change: Change<'a>,
    },
}

/// What a client signs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// Who asks, and when.
    pub head: Head,
    /// What is asked.
    pub body: Body<'a>,
}

impl<'a> Body<'a> {
    /// Sets one key, which must have this version, or whatever it has.
    pub fn set(key: &'a [u8], read: Option<Version>, value: &'a [u8]) -> Body<'a> {
        Body::one(key, read, Some(value))
    }

    /// Deletes one key, which must have this version, or whatever it has.
    pub fn delete(key: &'a [u8], read: Option<Version>) -> Body<'a> {
        Body::one(key, read, None)
    }

    fn one(key: &'a [u8], read: Option<Version>, value: Option<&'a [u8]>) -> Body<'a> {
        Body::Write {
            reads: read.map(|version| Read { key, version }).into_iter().collect(),
            writes: vec![Write { key, value }],
        }
    }

    /// Whether it goes through the log.
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
    /// Reads what is signed.
    ///
    /// # Errors
    /// [`Malformed`] for whatever [`Self::encode`] does not write.
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
            _ => return Err(Malformed("no such operation")),
        };
        input.end()?;
        Ok(Request { head, body })
    }

    /// What is to be signed.
    ///
    /// # Errors
    /// [`Malformed`] where [`Self::decode`] would not take it: keys that do not rise, or what is too long.
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
        // What is written by hand above is read back: there is one place that says what is allowed.
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
                        Some(_) => return Err(Malformed("a value that is too long")),
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

/// A request's two parts: the signature and what is signed.
///
/// # Errors
/// [`Malformed`] where it is shorter than a signature and a head, or longer than any request.
pub fn split(request: &[u8]) -> Result<(&[u8; SIGNATURE_BYTES], &[u8]), Malformed> {
    match request.split_first_chunk() {
        Some((signature, signed))
            if signed.len() >= HEAD_BYTES && request.len() <= HYBRID_REQUEST_BYTES_MAX =>
        {
            Ok((signature, signed))
        }
        _ => Err(Malformed("too short, or too long")),
    }
}

/// Which operation a request says it is for, one of `HYBRID_OP_…`, without looking at the rest.
pub fn operation(request: &[u8]) -> Option<u8> {
    request.get(SIGNATURE_BYTES + 1).copied()
}

/// Whether it is a get that is content with what is here.
pub(crate) fn is_local_get(request: &[u8]) -> bool {
    let body = split(request).and_then(|(_, signed)| Ok(Request::decode(signed)?.body));
    matches!(
        body,
        Ok(Body::Get {
            sees: Sees::Local,
            ..
        })
    )
}

/// What a request says first, and its operation, without looking at the rest.
pub(crate) fn read_head(input: &mut Input<'_>) -> Result<(Head, u8), Malformed> {
    if input.u8()? != HYBRID_REQUEST_VERSION {
        return Err(Malformed("another version"));
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
        _ => Err(Malformed("no such way to read")),
    }
}

fn read_key<'a>(input: &mut Input<'a>) -> Result<&'a [u8], Malformed> {
    match input.short(KEY_MAX)? {
        [] => Err(Malformed("an empty key")),
        key => Ok(key),
    }
}

fn write_key(out: &mut Vec<u8>, key: &[u8]) -> Result<(), Malformed> {
    if key.len() > KEY_MAX {
        return Err(Malformed("a key that is too long"));
    }
    out.short(key);
    Ok(())
}

/// Reads the version with which a page of a history ends; nothing: it begins with the newest write.
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

/// Keys rise, so that there is one order, and none twice.
fn rising<T>(items: &[T], key: impl Fn(&T) -> &[u8]) -> Result<(), Malformed> {
    match items.windows(2).all(|pair| key(&pair[0]) < key(&pair[1])) {
        true => Ok(()),
        false => Err(Malformed("keys that do not rise")),
    }
}

fn read_keys<'a>(input: &mut Input<'a>) -> Result<Vec<&'a [u8]>, Malformed> {
    let count = read_count(input)?;
    let keys = (0..count)
        .map(|_| read_key(input))
        .collect::<Result<Vec<_>, _>>()?;
    if keys.is_empty() {
        return Err(Malformed("no keys"));
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
            return Err(Malformed("a version of no block"));
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
            _ => return Err(Malformed("no such kind of write")),
        };
        Ok(Write { key, value })
    };
    let writes = (0..count).map(one).collect::<Result<Vec<_>, _>>()?;
    if writes.is_empty() {
        return Err(Malformed("nothing is written"));
    }
    rising(&writes, |write| write.key)?;
    Ok(writes)
}

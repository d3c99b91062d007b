//! [`FastPath`] and the types it speaks in.

use crate::Reader;
use lineside_wire::DropReason;
use std::net::{IpAddr, SocketAddr};

/// Bytes of the largest payload that a fast path reads or writes: a 1500-byte MTU less IPv6 and UDP headers.
pub const PAYLOAD_BYTES_MAX: usize = 1452;

/// What the fast path says of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The reply is written.
    Reply,
    /// The host must answer; the request is unchanged.
    Forward,
    /// Nobody answers; counted.
    Drop(DropReason),
}

/// Who sent a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// Address.
    pub address: IpAddr,
    /// UDP port.
    pub port: u16,
}

impl From<SocketAddr> for Source {
    fn from(from: SocketAddr) -> Self {
        Self {
            address: from.ip().to_canonical(),
            port: from.port(),
        }
    }
}

/// A payload being written; as long as was put in, never longer than [`PAYLOAD_BYTES_MAX`].
#[derive(Debug)]
pub struct Reply {
    bytes: [u8; PAYLOAD_BYTES_MAX],
    len: usize,
}

impl Default for Reply {
    fn default() -> Self {
        Self {
            bytes: [0; PAYLOAD_BYTES_MAX],
            len: 0,
        }
    }
}

impl Reply {
    /// Forgets what was written.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Appends `bytes`; `false`, and nothing appended, when they do not fit.
    #[must_use]
    pub fn put(&mut self, bytes: &[u8]) -> bool {
        match self.bytes.get_mut(self.len..self.len + bytes.len()) {
            Some(room) => {
                room.copy_from_slice(bytes);
                self.len += bytes.len();
                true
            }
            None => false,
        }
    }

    /// What was written.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// The part of a service that runs at the line.
pub trait FastPath: Sync {
    /// Answers `request` (the UDP payload sent by `from`) into `reply`, or says who must.
    ///
    /// `now_ns` is CLOCK_MONOTONIC. `reply` is empty on entry and counts only with [`Verdict::Reply`], when it has the
    /// request's length.
    fn answer(&self, from: Source, now_ns: u64, request: &[u8], reply: &mut Reply) -> Verdict;

    /// Whether answering `request` may change anything here. At the line such a request is answered only if its
    /// checksum is right; else it is passed, for the kernel to judge.
    fn changes(&self, _request: &[u8]) -> bool {
        false
    }
}

/// The part of a service that holds the truth and answers what the fast path forwards.
pub trait Host: Sync {
    /// Answers `request` into `reply` (empty on entry). [`Verdict::Forward`] means: nobody can, drop it uncounted.
    ///
    /// The reply is never longer than the request. With [`Verdict::Reply`], `sender` was entered before the answer
    /// could become old, and the caller leaves it once the reply is sent: so a change of the truth can wait for the
    /// answers that it makes old.
    fn serve(&self, from: Source, request: &[u8], reply: &mut Reply, sender: &Reader) -> Verdict;
}

/// One request to a host that answers many together.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Who.
    pub from: Source,
    /// What: a datagram's payload, or a native packet of a stream.
    pub payload: &'a [u8],
}

/// What becomes of one request of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// `None`: nobody answers.
    pub reply: Option<Vec<u8>>,
    /// Why not, where it is to be counted.
    pub drop: Option<DropReason>,
}

impl Said {
    /// Answered.
    pub const fn reply(bytes: Vec<u8>) -> Self {
        Self {
            reply: Some(bytes),
            drop: None,
        }
    }

    /// Dropped, and counted.
    pub const fn drop(reason: DropReason) -> Self {
        Self {
            reply: None,
            drop: Some(reason),
        }
    }
}

/// A host that answers requests in groups: one that makes a group durable before it answers, and may execute the next
/// one meanwhile.
pub trait GroupHost: Send {
    /// Executes a group of requests. What becomes of them is said by [`GroupHost::take`].
    fn execute(&mut self, asked: &[Asked<'_>]);

    /// What becomes of each request of the oldest group that was executed and not taken yet, in their order, once it
    /// may be said; `None`: not yet, or there is none. If it `waits`, only the latter. A reply to a datagram is never
    /// longer than its request.
    fn take(&mut self, waits: bool) -> Option<Vec<Said>>;

    /// Executes a group, and says what becomes of each request. Groups executed before are taken first.
    fn group(&mut self, asked: &[Asked<'_>]) -> Vec<Said> {
        self.execute(asked);
        let mut said = Vec::new();
        while let Some(next) = self.take(true) {
            said = next;
        }
        said
    }

    /// There is nothing to do at the moment; called after each [`GroupHost::patience`] then.
    fn idle(&mut self);

    /// Nothing will be asked any more, and no fast path of this process answers any more.
    fn end(&mut self) {}

    /// How long it may go without being called.
    fn patience(&self) -> std::time::Duration {
        std::time::Duration::from_millis(50)
    }
}

/// The way back of requests that a [`LaterHost`] took together.
pub trait WayBack: Send + Sync {
    /// Bytes that the reply to the request at `place` may have.
    fn reply_bytes_max(&self, place: usize) -> usize;

    /// Sends replies, each to the request at its place; each request is answered at most once. Does not block: what the
    /// system does not take at once is lost, as datagrams may be.
    fn send(&self, replies: Vec<(usize, Vec<u8>)>);
}

/// A host that answers when it can, in whatever order.
pub trait LaterHost: Send + Sync {
    /// Bytes that the reply to a request of `request_bytes` may have: no more, but for whom amplifying is no harm.
    fn reply_bytes_max(&self, _from: Source, request_bytes: usize) -> usize {
        request_bytes
    }

    /// Takes requests that came together. Must not block. What is never answered counts as waiting until `back` is
    /// dropped.
    fn take(&self, asked: Vec<Vec<u8>>, back: std::sync::Arc<dyn WayBack>);
}

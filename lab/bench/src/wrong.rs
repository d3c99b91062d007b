//! Wrong replies: every benchmark counts them, and keeps the first ones in full for its report.

use crate::error::{Result, bpf};
use libbpf_rs::{MapCore, MapFlags, MapHandle, Object};
use serde::Serialize;
use std::ffi::OsStr;
use std::fmt::{self, Display, Formatter};

/// Number of wrong replies that are kept in full.
const SHOWN_MAX: usize = 10;
/// Name of the map of `bpf/wrong.h`.
const MAP: &str = "wrong_replies";
/// Layout of `struct wrong_reply`: the number of requests that were sent, port, length, and the payload.
const KEPT_BYTES: usize = 16 + PAYLOAD_BYTES;
const PAYLOAD_BYTES: usize = 512;
const KEY: [u8; 4] = 0u32.to_ne_bytes();

/// Reply that failed its check. Bytes are in hexadecimal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WrongReply {
    /// Name of the contestant that replied.
    pub contestant: String,
    /// Case of the benchmark.
    pub case: String,
    /// Request that the reply belongs to, or a statement that there is none.
    pub request: String,
    /// Reply.
    pub reply: String,
    /// Expected reply.
    pub expected: String,
}

impl WrongReply {
    /// Returns a reply without the names of its contestant and case.
    pub fn new(request: impl Into<String>, reply: impl Into<String>, expected: impl Into<String>) -> Self {
        Self {
            request: request.into(),
            reply: reply.into(),
            expected: expected.into(),
            ..Self::default()
        }
    }

    /// Returns a reply from the bytes of the request, the reply and the expected reply.
    pub fn of_bytes(request: &[u8], reply: &[u8], expected: &[u8]) -> Self {
        Self::new(hex(request), hex(reply), hex(expected))
    }

    /// Returns a reply that belongs to no request.
    pub fn stray(reply: &[u8]) -> Self {
        Self::new("none that was sent", hex(reply), "no reply")
    }
}

/// Number of wrong replies, and the first ten of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WrongReplies {
    /// Number of wrong replies.
    pub count: u64,
    /// First wrong replies, at most ten.
    pub first: Vec<WrongReply>,
}

impl WrongReplies {
    /// Returns `count` wrong replies, the first of which are `first`.
    pub fn new(count: u64, first: impl IntoIterator<Item = WrongReply>) -> Self {
        Self {
            count,
            first: first.into_iter().take(SHOWN_MAX).collect(),
        }
    }

    /// Counts a wrong reply. `describe` is called only for the first ones.
    pub fn add(&mut self, describe: impl FnOnce() -> WrongReply) {
        self.count += 1;
        if self.first.len() < SHOWN_MAX {
            self.first.push(describe());
        }
    }

    /// Adds the wrong replies of another run or of another part of a run.
    pub fn extend(&mut self, other: &Self) {
        self.count += other.count;
        let room = SHOWN_MAX - self.first.len();
        self.first.extend(other.first.iter().take(room).cloned());
    }

    /// Writes the names into the replies that have none.
    pub fn name(&mut self, contestant: &str, case: &str) {
        for reply in self.first.iter_mut().filter(|reply| reply.contestant.is_empty()) {
            reply.contestant = contestant.to_owned();
            reply.case = case.to_owned();
        }
    }
}

impl Display for WrongReplies {
    /// Writes the kept replies, four lines for each.
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        for (place, wrong) in self.first.iter().enumerate() {
            let WrongReply {
                contestant,
                case,
                request,
                reply,
                expected,
            } = wrong;
            writeln!(
                out,
                "wrong reply {} of {}: {contestant}, {case}",
                place + 1,
                self.count
            )?;
            writeln!(out, "  request:  {request}")?;
            writeln!(out, "  reply:    {reply}")?;
            writeln!(out, "  expected: {expected}")?;
        }
        Ok(())
    }
}

/// Returns bytes in hexadecimal; of a long message only the first 512 bytes, and its length.
pub fn hex(bytes: &[u8]) -> String {
    let shown = bytes.iter().take(PAYLOAD_BYTES).map(|byte| format!("{byte:02x}"));
    let rest = (bytes.len() > PAYLOAD_BYTES).then(|| format!("... ({} bytes)", bytes.len()));
    shown.chain(rest).collect()
}

/// Wrong reply that a BPF program has kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptReply {
    /// Number of requests that the generator had sent when the reply came.
    pub sent: u64,
    /// UDP port of the client to which the reply was sent.
    pub port: u16,
    /// Payload of the reply, at most its first 512 bytes.
    pub reply: Vec<u8>,
}

/// Map in which a BPF program keeps its first wrong replies (`bpf/wrong.h`).
pub struct KeptReplies(MapHandle);

impl KeptReplies {
    /// Finds the map in a loaded object.
    pub fn of(object: &Object) -> Result<Self> {
        let found = object.maps().find(|map| map.name() == OsStr::new(MAP));
        let missing = || crate::error::void(format!("the BPF object has no map {MAP}"));
        let map = found.ok_or_else(missing)?;
        Ok(Self(MapHandle::try_from(&map).map_err(bpf("opening a map"))?))
    }

    /// Forgets all replies.
    pub fn clear(&self) -> Result<()> {
        let zeros = [0; 8 + SHOWN_MAX * KEPT_BYTES];
        self.0
            .update(&KEY, &zeros, MapFlags::ANY)
            .map_err(bpf("preparing a run"))
    }

    /// Returns the replies that were kept since [`KeptReplies::clear`].
    pub fn read(&self) -> Result<Vec<KeptReply>> {
        let value = self.0.lookup(&KEY, MapFlags::ANY);
        let value = value.map_err(bpf("reading wrong replies"))?.unwrap_or_default();
        Ok(kept(&value))
    }
}

fn kept(value: &[u8]) -> Vec<KeptReply> {
    let Some((count, replies)) = value.split_first_chunk() else {
        return Vec::new();
    };
    let count = u64::from_ne_bytes(*count).min(SHOWN_MAX as u64) as usize;
    let reply = |bytes: &[u8]| {
        let number = |at: usize| bytes[at..at + 4].try_into().map_or(0, u32::from_ne_bytes);
        let length = (number(12) as usize).min(PAYLOAD_BYTES);
        KeptReply {
            sent: bytes[..8].try_into().map_or(0, u64::from_ne_bytes),
            port: number(8) as u16,
            reply: bytes[16..16 + length].to_vec(),
        }
    };
    replies.chunks_exact(KEPT_BYTES).take(count).map(reply).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_wrong_replies_are_kept_in_full_and_all_are_counted() {
        let mut all = WrongReplies::default();
        for round in 0..3u8 {
            let mut run = WrongReplies::default();
            for number in 0..8 {
                run.add(|| WrongReply::of_bytes(&[round, number], &[0xab], &[0xcd]));
            }
            run.name("socket", "transfer, live frames");
            run.name("other", "other");
            all.extend(&run);
        }
        assert_eq!((all.count, all.first.len()), (24, SHOWN_MAX));
        assert!(all.first.iter().all(|reply| reply.contestant == "socket"));
        let json = serde_json::to_value(&all).unwrap();
        assert_eq!(json["first"][9]["request"], "0101");
        assert!(hex(&[7; 513]).ends_with("0707... (513 bytes)"));
        let text = all.to_string();
        assert!(
            text.starts_with(
                "wrong reply 1 of 24: socket, transfer, live frames\n  request:  0000\n  reply:    ab\n  expected: cd\n"
            ),
            "{text}"
        );
    }

    #[test]
    fn replies_that_a_bpf_program_kept_are_read_with_their_lengths() {
        let mut value = vec![0; 8 + SHOWN_MAX * KEPT_BYTES];
        value[..8].copy_from_slice(&1994u64.to_ne_bytes());
        value[8..16].copy_from_slice(&70_000u64.to_ne_bytes());
        value[16..20].copy_from_slice(&0x8003u32.to_ne_bytes());
        value[20..24].copy_from_slice(&3u32.to_ne_bytes());
        value[24..28].copy_from_slice(&[1, 2, 3, 4]);
        let replies = kept(&value);
        let first = KeptReply {
            sent: 70_000,
            port: 0x8003,
            reply: vec![1, 2, 3],
        };
        assert_eq!((replies.len(), &replies[0]), (SHOWN_MAX, &first));
        value[..8].copy_from_slice(&1u64.to_ne_bytes());
        assert_eq!(kept(&value).len(), 1);
        assert_eq!(kept(&[]), []);
    }
}

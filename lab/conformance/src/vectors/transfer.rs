//! `vectors/transfer`: sequences of requests, each of which changes what the next ones find.

use crate::vectors::{Bytes, Endpoint, Lease, Said};
use serde::Deserialize;
use std::net::IpAddr;
use std::ops::Range;

/// A file of vectors, asked one after the other.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// The file's name without its ending.
    #[serde(skip)]
    pub name: String,
    /// What is there before the first one.
    pub state: State,
    /// The interface that the fast path stands at.
    pub endpoint: Endpoint,
    /// The vectors.
    #[serde(rename = "vector")]
    pub vectors: Vec<Vector>,
}

/// An empty ledger, and how it is kept.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// Who executes.
    pub mode: Mode,
    /// Whether the fast path may answer.
    pub lease: Lease,
    /// Whether the paper's packets are answered.
    pub paper_format: bool,
    /// Whether the interface is `lo`.
    pub loopback: bool,
    /// log2 of the accounts that the fast path has room for.
    pub account_bits: u32,
    /// Accounts that the ledger takes.
    pub accounts_max: u64,
    /// Session slots.
    pub sessions_max: u32,
    /// log2 of the records of one ring.
    pub ring_bits: u32,
    /// Whether the host empties the fast path's rings after each vector.
    pub drains: bool,
    /// Whether the journal's disk takes anything more.
    pub disk: Disk,
    /// Whether writes must be signed.
    pub require_signature: bool,
    /// The tokens of the sessions that are open, 16 hex digits each, from slot 0 on.
    pub sessions: Vec<String>,
    /// Who opened them.
    pub opener: IpAddr,
    /// Who may issue: `address` or `address/bits`.
    pub issuers: Vec<String>,
}

/// Who executes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// The host.
    Durable,
    /// The fast path.
    Express,
}

/// Whether the journal's disk takes anything more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Disk {
    /// It does.
    #[serde(rename = "has room")]
    HasRoom,
    /// It does not.
    #[serde(rename = "full")]
    Full,
}

/// A request, and what becomes of it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vector {
    /// Why it is here.
    pub what: String,
    /// Everything in front of the payload.
    pub headers: Bytes,
    /// The payload.
    pub request: Bytes,
    /// What follows the datagram in its frame.
    #[serde(default)]
    pub trailer: Bytes,
    /// What the fast path says.
    pub fastpath: Said,
    /// The service's counters that rise by one; no other does.
    #[serde(default)]
    pub counts: Vec<String>,
    /// With the fast path's reply: everything in front of its payload.
    pub reply_headers: Option<Bytes>,
    /// The payload of the answer, whether the fast path gives it or the host.
    pub reply: Option<Bytes>,
    /// What the host says of the payload that the fast path leaves to it, and in `durable` of every one; none: the
    /// vector is about the frame, or about the fast path.
    pub host: Option<Said>,
    /// Seconds since the first vector.
    #[serde(default)]
    pub at_s: u64,
    /// Bytes of the payload, from and before, that are those of the last reply with `chosen`.
    #[serde(default)]
    kept: Vec<[usize; 2]>,
    /// Bytes of the reply that the server may choose: not all zero; where they are `kept` too, those.
    #[serde(default)]
    chosen: Vec<[usize; 2]>,
}

impl Vector {
    /// The request's frame, around `payload`.
    pub fn frame(&self, payload: &[u8]) -> Vec<u8> {
        [&self.headers.0[..], payload, &self.trailer.0].concat()
    }

    /// The reply's frame, if the fast path replies.
    pub fn reply_frame(&self) -> Option<Vec<u8>> {
        let (headers, reply) = (self.reply_headers.as_ref()?, self.reply.as_ref()?);
        Some([&headers.0[..], &reply.0, &self.trailer.0].concat())
    }

    /// The payload, with what it keeps of `last`, the last reply that had anything `chosen`.
    pub fn payload(&self, last: &[u8]) -> Vec<u8> {
        let mut payload = self.request.0.clone();
        for range in ranges(&self.kept) {
            if let Some(kept) = last.get(range.clone()) {
                payload[range].copy_from_slice(kept);
            }
        }
        payload
    }

    /// Whether the server chooses anything in the reply.
    pub fn is_chosen(&self) -> bool {
        !self.chosen.is_empty()
    }

    /// The reply to `payload` as it must be, with what was chosen in `found`; `None`: something chosen is not as it
    /// must be.
    pub fn expected(&self, payload: &[u8], found: &[u8]) -> Option<Vec<u8>> {
        let mut reply = self.reply.as_ref().map(|reply| reply.0.clone())?;
        for range in ranges(&self.chosen) {
            let chosen = found.get(range.clone())?;
            let is_kept = ranges(&self.kept).any(|kept| kept == range);
            if chosen.iter().all(|byte| *byte == 0) || (is_kept && payload.get(range.clone())? != chosen) {
                return None;
            }
            reply.get_mut(range)?.copy_from_slice(chosen);
        }
        Some(reply)
    }

    fn fault(&self) -> Option<&'static str> {
        let fastpath_replies = self.fastpath == Said::Reply;
        let host_replies = self.host == Some(Said::Reply);
        let within = |bytes: &Bytes, list: &[[usize; 2]]| {
            ranges(list).all(|range| range.start < range.end && range.end <= bytes.0.len())
        };
        match () {
            _ if fastpath_replies != self.reply_headers.is_some() => {
                Some("`reply_headers` goes with fastpath = \"reply\", and only with that")
            }
            _ if (fastpath_replies || host_replies) != self.reply.is_some() => {
                Some("`reply` goes with fastpath or host = \"reply\", and only with that")
            }
            _ if self.host == Some(Said::Forward) => Some("nobody stands behind the host"),
            _ if matches!(self.fastpath, Said::Drop(_))
                && self.host.is_some()
                && self.host != Some(self.fastpath.clone()) =>
            {
                Some("what the fast path drops the host must drop too")
            }
            _ if fastpath_replies && !(self.kept.is_empty() && self.chosen.is_empty()) => {
                Some("the fast path chooses nothing")
            }
            _ if !within(&self.request, &self.kept) => Some("`kept` is not within the request"),
            _ if !self
                .reply
                .as_ref()
                .is_none_or(|reply| within(reply, &self.chosen)) =>
            {
                Some("`chosen` is not within the reply")
            }
            _ => None,
        }
    }
}

fn ranges(list: &[[usize; 2]]) -> impl Iterator<Item = Range<usize>> + '_ {
    list.iter().map(|[from, before]| *from..*before)
}

/// Reads every file of `vectors/transfer`, in the order of their names.
///
/// # Errors
/// The first file that cannot be read or is not what it should be, with its name, line and what is wrong.
pub fn load() -> Result<Vec<File>, String> {
    crate::vectors::load_with("transfer", parse)
}

/// Reads the text of the file `name`.
///
/// # Errors
/// As [`load`].
pub fn parse(name: &str, text: &str) -> Result<File, String> {
    let mut file: File = toml::from_str(text).map_err(|error| format!("{name}.toml: {error}"))?;
    file.name = name.into();
    check(name, &file.vectors)?;
    Ok(file)
}

/// What is wrong with vectors that are asked one after the other.
pub(crate) fn check(name: &str, vectors: &[Vector]) -> Result<(), String> {
    for (index, vector) in vectors.iter().enumerate() {
        let at = format!("{name}.toml: {:?}", vector.what);
        if let Some(fault) = vector.fault() {
            return Err(format!("{at}: {fault}"));
        }
        let earlier = &vectors[..index];
        if earlier.iter().any(|other| other.what == vector.what) {
            return Err(format!("{at}: two vectors of that name"));
        }
        if earlier.last().is_some_and(|before| before.at_s > vector.at_s) {
            return Err(format!("{at}: time goes back"));
        }
    }
    match vectors.is_empty() {
        true => Err(format!("{name}.toml: no vectors")),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
[state]
mode = "durable"
lease = "valid"
paper_format = true
loopback = false
account_bits = 6
accounts_max = 64
sessions_max = 4
ring_bits = 6
drains = true
disk = "has room"
require_signature = false
sessions = ["0000000000000001"]
opener = "10.0.0.9"
issuers = ["10.0.0.8/31"]
[endpoint]
mac = "020000000002"
addresses = ["10.0.0.2"]
broadcast = "10.0.0.255"
[[vector]]
what = "one"
headers = "00 01"
request = "02 03 04"
fastpath = "forward"
counts = ["forwarded"]
reply = "05 00 04"
host = "reply"
kept = [[2, 3]]
chosen = [[1, 2], [2, 3]]
"#;

    #[test]
    fn what_the_server_chooses_is_kept() {
        let file = parse("good", GOOD).unwrap();
        let vector = &file.vectors[0];
        let payload = vector.payload(&[9, 9, 9]);
        assert_eq!(payload, [2, 3, 9]);
        assert_eq!(vector.frame(&payload), [0, 1, 2, 3, 9]);
        assert_eq!(vector.expected(&payload, &[5, 7, 9]).unwrap(), [5, 7, 9]);
        for wrong in [&[5, 0, 9][..], &[5, 7, 8], &[5, 7]] {
            assert_eq!(vector.expected(&payload, wrong), None);
        }
        // The rest is compared by who asks.
        assert_eq!(vector.expected(&payload, &[6, 7, 9]).unwrap()[0], 5);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let cases = [
            ("host = \"reply\"", "host = \"forward\"", "`reply` goes with"),
            (
                "fastpath = \"forward\"",
                "fastpath = \"reply\"",
                "`reply_headers` goes with",
            ),
            ("[[2, 3]]", "[[2, 4]]", "`kept` is not within"),
            ("[1, 2],", "[2, 2],", "`chosen` is not within"),
            ("drains", "drain", "unknown field `drain`"),
            ("disk = \"has room\"", "disk = \"gone\"", "unknown variant `gone`"),
        ];
        for (from, to, said) in cases {
            assert!(GOOD.contains(from), "{from}");
            let error = parse("bad", &GOOD.replace(from, to)).unwrap_err();
            assert!(
                error.starts_with("bad.toml: ") && error.contains(said),
                "{from} -> {to}: {error}"
            );
        }
        let vector = &GOOD[GOOD.find("[[vector]]").unwrap()..];
        let later = GOOD.replace("chosen", "at_s = 1\nchosen");
        let back = vector.replace("\"one\"", "\"two\"");
        let error = parse("bad", &format!("{later}{back}")).unwrap_err();
        assert!(error.contains("time goes back"), "{error}");
    }
}

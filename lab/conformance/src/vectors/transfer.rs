//! Vectors of `vectors/transfer`: sequences of requests, each of which changes the state for the next ones.

mod host;

pub use host::{NOW_S, VectorHost, geometry};

use crate::vectors::{Bytes, Endpoint, ExpectedVerdict, Lease};
use serde::Deserialize;
use std::net::IpAddr;
use std::ops::Range;

/// Content of a file whose vectors run one after the other.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Name of the file without its extension.
    #[serde(skip)]
    pub name: String,
    /// State of the service before the first vector.
    pub state: State,
    /// Interface of the fast path.
    pub endpoint: Endpoint,
    /// Vectors in the order in which they run.
    #[serde(rename = "vector")]
    pub vectors: Vec<Vector>,
}

/// Configuration of a service whose ledger is empty.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// Mode of the service.
    pub mode: Mode,
    /// State of the lease.
    pub lease: Lease,
    /// True if the service answers packets in the paper's format.
    pub paper_format: bool,
    /// True if the interface is `lo`.
    pub loopback: bool,
    /// log2 of the number of accounts in the fast-path table.
    pub account_bits: u32,
    /// Maximum number of accounts of the ledger.
    pub accounts_max: u64,
    /// Number of session slots.
    pub sessions_max: u32,
    /// log2 of the number of records in one ring.
    pub ring_bits: u32,
    /// True if the host empties the fast path's rings after each vector.
    pub drains: bool,
    /// State of the journal's disk.
    pub disk: Disk,
    /// True if requests that change something must be signed.
    pub require_signature: bool,
    /// Tokens of the open sessions as 16 hex digits each, beginning with slot 0.
    pub sessions: Vec<String>,
    /// Address of the client that opened the sessions.
    pub opener: IpAddr,
    /// Address ranges that may issue money: `address` or `address/bits`.
    pub issuers: Vec<String>,
}

/// Component that executes requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// The host executes all requests.
    Durable,
    /// The fast path executes plain requests.
    Express,
}

/// State of the journal's disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Disk {
    /// The disk has free space.
    #[serde(rename = "has room")]
    HasRoom,
    /// The disk is full.
    #[serde(rename = "full")]
    Full,
}

/// Request and its expected result.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vector {
    /// Name of the vector; it says what the vector tests.
    pub what: String,
    /// Bytes of the headers in front of the payload.
    pub headers: Bytes,
    /// Payload of the request.
    pub request: Bytes,
    /// Bytes of the frame after the datagram.
    #[serde(default)]
    pub trailer: Bytes,
    /// Expected verdict of the fast path.
    pub fastpath: ExpectedVerdict,
    /// Counters of the service that must increase by one. All others must stay the same.
    #[serde(default)]
    pub counts: Vec<String>,
    /// Bytes of the headers in front of the reply's payload, if the fast path replies.
    pub reply_headers: Option<Bytes>,
    /// Payload of the reply, whether the fast path or the host gives it.
    pub reply: Option<Bytes>,
    /// Expected verdict of the host on a payload that the fast path forwards, and in `durable` on every payload. If it
    /// is missing, the vector tests only the frame or the fast path.
    pub host: Option<ExpectedVerdict>,
    /// Time of the request in seconds since the first vector.
    #[serde(default)]
    pub at_s: u64,
    /// Ranges of payload bytes (start and end) that are copied from the last reply that had `chosen` bytes.
    #[serde(default)]
    kept: Vec<[usize; 2]>,
    /// Ranges of reply bytes (start and end) that the server may choose. They must not all be zero; if they are also in
    /// `kept`, they must equal the copied bytes.
    #[serde(default)]
    chosen: Vec<[usize; 2]>,
}

impl Vector {
    /// Returns the frame of the request with the payload `payload`.
    pub fn frame(&self, payload: &[u8]) -> Vec<u8> {
        [&self.headers.0[..], payload, &self.trailer.0].concat()
    }

    /// Returns the frame of the reply, if the fast path replies.
    pub fn reply_frame(&self) -> Option<Vec<u8>> {
        let (headers, reply) = (self.reply_headers.as_ref()?, self.reply.as_ref()?);
        Some([&headers.0[..], &reply.0, &self.trailer.0].concat())
    }

    /// Returns the payload with the `kept` bytes of `last`, which is the last reply that had `chosen` bytes.
    pub fn payload(&self, last: &[u8]) -> Vec<u8> {
        let mut payload = self.request.0.clone();
        for range in ranges(&self.kept) {
            if let Some(kept) = last.get(range.clone()) {
                payload[range].copy_from_slice(kept);
            }
        }
        payload
    }

    /// Returns whether the server chooses some bytes of the reply.
    pub fn is_chosen(&self) -> bool {
        !self.chosen.is_empty()
    }

    /// Returns the expected reply to `payload`, with the chosen bytes of `found`; `None` if the chosen bytes are not
    /// valid.
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
        let fastpath_replies = self.fastpath == ExpectedVerdict::Reply;
        let host_replies = self.host == Some(ExpectedVerdict::Reply);
        let within = |bytes: &Bytes, list: &[[usize; 2]]| {
            ranges(list).all(|range| range.start < range.end && range.end <= bytes.0.len())
        };
        match () {
            _ if fastpath_replies != self.reply_headers.is_some() => {
                Some("`reply_headers` must be given exactly if fastpath = \"reply\"")
            }
            _ if (fastpath_replies || host_replies) != self.reply.is_some() => {
                Some("`reply` must be given exactly if fastpath or host = \"reply\"")
            }
            _ if self.host == Some(ExpectedVerdict::Forward) => Some("the host cannot forward"),
            _ if matches!(self.fastpath, ExpectedVerdict::Drop(_))
                && self.host.is_some()
                && self.host != Some(self.fastpath.clone()) =>
            {
                Some("the host must drop what the fast path drops")
            }
            _ if fastpath_replies && !(self.kept.is_empty() && self.chosen.is_empty()) => {
                Some("the fast path cannot have `chosen` bytes")
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

/// Reads every file of `vectors/transfer` in the order of their names.
///
/// # Errors
/// The first file that cannot be read or is not valid, with its name, line and fault.
pub fn load() -> Result<Vec<File>, String> {
    crate::vectors::load_with("transfer", parse)
}

/// Parses the text of the file `name`.
///
/// # Errors
/// The fault of the text, as [`load`] reports it.
pub fn parse(name: &str, text: &str) -> Result<File, String> {
    let mut file: File = toml::from_str(text).map_err(|error| format!("{name}.toml: {error}"))?;
    file.name = name.into();
    check(name, &file.vectors)?;
    Ok(file)
}

/// Checks the vectors of a file, which run one after the other.
pub(crate) fn check(name: &str, vectors: &[Vector]) -> Result<(), String> {
    for (index, vector) in vectors.iter().enumerate() {
        let at = format!("{name}.toml: {:?}", vector.what);
        if let Some(fault) = vector.fault() {
            return Err(format!("{at}: {fault}"));
        }
        let earlier = &vectors[..index];
        if earlier.iter().any(|other| other.what == vector.what) {
            return Err(format!("{at}: two vectors have this name"));
        }
        if earlier.last().is_some_and(|before| before.at_s > vector.at_s) {
            return Err(format!(
                "{at}: its `at_s` is before the `at_s` of the previous vector"
            ));
        }
    }
    match vectors.is_empty() {
        true => Err(format!("{name}.toml: the file has no vectors")),
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
    fn bytes_that_the_server_chose_are_reused_in_later_requests() {
        let file = parse("good", GOOD).unwrap();
        let vector = &file.vectors[0];
        let payload = vector.payload(&[9, 9, 9]);
        assert_eq!(payload, [2, 3, 9]);
        assert_eq!(vector.frame(&payload), [0, 1, 2, 3, 9]);
        assert_eq!(vector.expected(&payload, &[5, 7, 9]).unwrap(), [5, 7, 9]);
        for wrong in [&[5, 0, 9][..], &[5, 7, 8], &[5, 7]] {
            assert_eq!(vector.expected(&payload, wrong), None);
        }
        // Only the chosen bytes are checked here; the caller compares the other bytes.
        assert_eq!(vector.expected(&payload, &[6, 7, 9]).unwrap()[0], 5);
    }

    #[test]
    fn mistakes_in_a_transfer_vector_are_named() {
        let cases = [
            (
                "host = \"reply\"",
                "host = \"forward\"",
                "`reply` must be given exactly if",
            ),
            (
                "fastpath = \"forward\"",
                "fastpath = \"reply\"",
                "`reply_headers` must be given exactly if",
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
        assert!(error.contains("its `at_s` is before"), "{error}");
    }
}

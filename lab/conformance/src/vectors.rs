//! Reads `vectors/`: requests, and what every datapath must make of them. The keys are explained in
//! `vectors/README.md`.
//!
//! Names of drops and counters stay text here: whoever runs the vectors knows them.

pub mod column;
pub mod transfer;

use serde::{Deserialize, Deserializer, de::Error};
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

/// A file of vectors.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// The file's name without its ending.
    #[serde(skip)]
    pub name: String,
    /// The state that all its vectors are asked in.
    pub state: State,
    /// The interface that the fast path stands at.
    pub endpoint: Endpoint,
    /// The best block.
    pub tip: Tip,
    /// What the fast path and host hold.
    #[serde(rename = "block")]
    pub blocks: Vec<Block>,
    /// The vectors, each asked in that same state: readers change nothing.
    #[serde(rename = "vector")]
    pub vectors: Vec<Vector>,
}

/// The state of the fast path.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// Whether the fast path may answer.
    pub lease: Lease,
    /// Whether the chain stands.
    pub chain: Chain,
    /// Whether the paper's packets are answered.
    pub paper_format: bool,
    /// Whether the interface is `lo`.
    pub loopback: bool,
}

/// Whether the fast path may answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Lease {
    /// Yes.
    Valid,
    /// No.
    Over,
}

/// Whether the chain stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Chain {
    /// It stands.
    #[serde(rename = "at rest")]
    AtRest,
    /// Between the writer's begin and commit.
    #[serde(rename = "changing")]
    Changing,
}

/// The interface that the fast path stands at.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    /// Own MAC address.
    pub mac: Hex<6>,
    /// Own addresses.
    pub addresses: Vec<IpAddr>,
    /// The broadcast address of the first own IPv4 address's subnet.
    pub broadcast: Ipv4Addr,
}

/// The best block.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tip {
    /// Its hash.
    pub hash: Hex<32>,
    /// Its height.
    pub height: u32,
}

/// A block that the host has.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Block {
    /// Its hash.
    pub hash: Hex<32>,
    /// Its Merkle root.
    pub root: Hex<32>,
    /// Its height.
    pub height: u32,
    /// Its header.
    pub header: Hex<80>,
    /// Whether the fast path holds its tree.
    pub tree: bool,
    /// Its TXIDs that the fast path holds too.
    pub fastpath: Vec<Hex<32>>,
    /// Its other TXIDs.
    pub host: Vec<Hex<32>>,
    /// The leaves of its witness tree; without a coinbase, none.
    #[serde(default)]
    pub wtxids: Vec<Hex<32>>,
    /// The witness reserved value.
    pub reserved: Option<Hex<32>>,
    /// Its coinbase without the witness; none: it commits to no witnesses.
    pub coinbase: Option<Bytes>,
}

impl Block {
    /// Its TXIDs in block order: those that the fast path holds come first.
    pub fn txids(&self) -> impl Iterator<Item = [u8; 32]> {
        self.fastpath.iter().chain(&self.host).map(|txid| txid.0)
    }
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
    /// The service's counter that rises by one; none: no counter does.
    pub counts: Option<String>,
    /// With the fast path's reply: everything in front of its payload.
    pub reply_headers: Option<Bytes>,
    /// The payload of the answer, whether the fast path gives it or the host.
    pub reply: Option<Bytes>,
    /// What the host says of the payload alone; none: the vector is about the frame.
    pub host: Option<Said>,
}

impl Vector {
    /// The request's frame.
    pub fn frame(&self) -> Vec<u8> {
        [&self.headers.0[..], &self.request.0, &self.trailer.0].concat()
    }

    /// The reply's frame, if the fast path replies.
    pub fn reply_frame(&self) -> Option<Vec<u8>> {
        let (headers, reply) = (self.reply_headers.as_ref()?, self.reply.as_ref()?);
        Some([&headers.0[..], &reply.0, &self.trailer.0].concat())
    }

    fn fault(&self) -> Option<&'static str> {
        let fastpath_replies = self.fastpath == Said::Reply;
        let host_replies = self.host == Some(Said::Reply);
        match () {
            _ if fastpath_replies != self.reply_headers.is_some() => {
                Some("`reply_headers` goes with fastpath = \"reply\", and only with that")
            }
            _ if (fastpath_replies || host_replies) != self.reply.is_some() => {
                Some("`reply` goes with fastpath or host = \"reply\", and only with that")
            }
            _ if self.host == Some(Said::Forward) => Some("nobody stands behind the host"),
            _ if fastpath_replies && self.host.is_some() && !host_replies => {
                Some("what the fast path answers the host must answer too")
            }
            _ if matches!(self.fastpath, Said::Drop(_))
                && self.host.is_some()
                && self.host != Some(self.fastpath.clone()) =>
            {
                Some("what the fast path drops the host must drop too")
            }
            _ => None,
        }
    }
}

/// What the fast path or host says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// `reply`
    Reply,
    /// `forward`
    Forward,
    /// `drop` and the reason's name.
    Drop(String),
}

impl<'de> Deserialize<'de> for Said {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let text = String::deserialize(input)?;
        match (text.as_str(), text.strip_prefix("drop ")) {
            ("reply", _) => Ok(Self::Reply),
            ("forward", _) => Ok(Self::Forward),
            (_, Some(reason)) => Ok(Self::Drop(reason.into())),
            _ => Err(D::Error::custom(format!(
                "{text:?} must be \"reply\", \"forward\" or \"drop REASON\""
            ))),
        }
    }
}

/// Bytes in hex; blanks and line ends between them do not count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let text = String::deserialize(input)?;
        let mut bytes = Vec::with_capacity(text.len() / 2);
        let mut half = None;
        for letter in text.chars().filter(|letter| !letter.is_ascii_whitespace()) {
            let digit = letter
                .to_digit(16)
                .ok_or_else(|| D::Error::custom(format!("{letter:?} is no hex digit")))?
                as u8;
            half = match half {
                Some(high) => {
                    bytes.push(high << 4 | digit);
                    None
                }
                None => Some(digit),
            };
        }
        match half {
            None => Ok(Self(bytes)),
            Some(_) => Err(D::Error::custom("an odd number of hex digits")),
        }
    }
}

/// Exactly `N` bytes in hex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hex<const N: usize>(pub [u8; N]);

impl<'de, const N: usize> Deserialize<'de> for Hex<N> {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let Bytes(bytes) = Bytes::deserialize(input)?;
        let found = bytes.len();
        let bytes = bytes.try_into();
        bytes
            .map(Self)
            .map_err(|_| D::Error::custom(format!("{found} bytes where {N} belong")))
    }
}

/// Reads every file of `vectors/<service>`, in the order of their names.
///
/// # Errors
/// The first file that cannot be read or is not what it should be, with its name, line and what is wrong.
pub fn load(service: &str) -> Result<Vec<File>, String> {
    load_with(service, parse)
}

/// [`load`], of files that `parse` understands; it is given each file's name without its ending, and its text.
///
/// # Errors
/// As [`load`].
pub fn load_with<T>(
    service: &str,
    parse: impl Fn(&str, &str) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../vectors")
        .join(service);
    let fault = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(&folder).map_err(fault)? {
        paths.push(entry.map_err(fault)?.path());
    }
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "toml"));
    paths.sort();
    if paths.is_empty() {
        return Err(format!("{}: no vectors", folder.display()));
    }
    let read = |path: &std::path::PathBuf| {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        parse(&name, &text)
    };
    paths.iter().map(read).collect()
}

/// Reads the text of the file `name`.
///
/// # Errors
/// As [`load`].
pub fn parse(name: &str, text: &str) -> Result<File, String> {
    let mut file: File = toml::from_str(text).map_err(|error| format!("{name}.toml: {error}"))?;
    file.name = name.into();
    for (index, vector) in file.vectors.iter().enumerate() {
        let at = format!("{name}.toml: {:?}", vector.what);
        if let Some(fault) = vector.fault() {
            return Err(format!("{at}: {fault}"));
        }
        if file.vectors[..index]
            .iter()
            .any(|other| other.what == vector.what)
        {
            return Err(format!("{at}: two vectors of that name"));
        }
    }
    match file.vectors.is_empty() {
        true => Err(format!("{name}.toml: no vectors")),
        false => Ok(file),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
[state]
lease = "valid"
chain = "at rest"
paper_format = true
loopback = false
[endpoint]
mac = "020000000002"
addresses = ["10.0.0.2"]
broadcast = "10.0.0.255"
[tip]
hash = "0000000000000000000000000000000000000000000000000000000000000000"
height = 1
[[block]]
hash = "0000000000000000000000000000000000000000000000000000000000000000"
root = "0000000000000000000000000000000000000000000000000000000000000000"
height = 1
header = """
0000000000000000000000000000000000000000000000000000000000000000
0000000000000000000000000000000000000000000000000000000000000000
00000000000000000000000000000000
"""
tree = false
fastpath = []
host = []
[[vector]]
what = "one"
headers = "00 01"
request = """
02
03
"""
fastpath = "reply"
reply_headers = "04"
reply = "05"
host = "reply"
"#;

    #[test]
    fn frames_are_put_together() {
        let file = parse("good", GOOD).unwrap();
        let vector = &file.vectors[0];
        assert_eq!(vector.frame(), [0, 1, 2, 3]);
        assert_eq!(vector.reply_frame().unwrap(), [4, 5]);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let cases = [
            (
                "tree = false\nfastpath",
                "tree = false\nfastpaths",
                "unknown field `fastpaths`",
            ),
            ("00 01", "00 0", "an odd number of hex digits"),
            ("00 01", "00 0g", "'g' is no hex digit"),
            ("020000000002", "0200000002", "5 bytes where 6 belong"),
            (
                "fastpath = \"reply\"",
                "fastpath = \"answer\"",
                "\"answer\" must be",
            ),
            (
                "fastpath = \"reply\"",
                "fastpath = \"forward\"",
                "`reply_headers` goes with",
            ),
            ("reply = \"05\"", "", "`reply` goes with"),
            ("host = \"reply\"", "host = \"forward\"", "nobody stands behind"),
            (
                "host = \"reply\"",
                "host = \"drop reply_bit\"",
                "the host must answer too",
            ),
            ("what = \"one\"", "", "missing field `what`"),
            ("[[vector]]", "[[vectors]]", "unknown field `vectors`"),
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
        let error = parse("bad", &format!("{GOOD}{vector}")).unwrap_err();
        assert!(error.contains("two vectors of that name"), "{error}");
    }
}

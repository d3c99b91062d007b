//! Reads the files in `vectors/`: requests, and the result that every datapath must give. `vectors/README.md` explains
//! the keys.
//!
//! The names of drops and counters are plain text in this module, because only the code that runs the vectors knows
//! their meaning.

pub mod column;
pub mod pcap;
pub mod spv;
pub mod transfer;

use lineside_wire::endpoint;
use serde::{Deserialize, Deserializer, de::Error};
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

/// Content of a vector file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Name of the file without its extension.
    #[serde(skip)]
    pub name: String,
    /// State of the service in which all vectors of the file run.
    pub state: State,
    /// Interface of the fast path.
    pub endpoint: Endpoint,
    /// Tip of the best chain.
    pub tip: Tip,
    /// Blocks that the host has; the fast-path table contains parts of them.
    #[serde(rename = "block")]
    pub blocks: Vec<Block>,
    /// Vectors of the file. Each runs in the same state, because requests do not change it.
    #[serde(rename = "vector")]
    pub vectors: Vec<Vector>,
}

/// State of the fast path.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// State of the lease of the fast path.
    pub lease: Lease,
    /// State of the best chain.
    pub chain: Chain,
    /// True if the service answers packets in the paper's format.
    pub paper_format: bool,
    /// True if the interface is `lo`.
    pub loopback: bool,
}

/// State of the lease, without which the fast path does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Lease {
    /// The lease is valid.
    Valid,
    /// The lease has ended.
    Over,
}

/// State of the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Chain {
    /// No change is in progress.
    #[serde(rename = "at rest")]
    AtRest,
    /// A change is in progress: the writer has begun it and not committed it.
    #[serde(rename = "changing")]
    Changing,
}

/// Interface of the fast path.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    /// MAC address of the interface.
    pub mac: Hex<6>,
    /// Addresses of the interface.
    pub addresses: Vec<IpAddr>,
    /// Broadcast address of the subnet of the first IPv4 address.
    pub broadcast: Ipv4Addr,
}

impl Endpoint {
    /// Returns the interface; `None` if it has no room for the addresses. `loopback` is true if the interface is `lo`.
    pub fn interface(&self, loopback: bool) -> Option<endpoint::Endpoint> {
        let mut endpoint = endpoint::Endpoint::new(self.mac.0, loopback, &self.addresses)?;
        for address in &self.addresses {
            if let IpAddr::V4(v4) = address {
                endpoint.set_broadcast(*v4, self.broadcast);
            }
        }
        Some(endpoint)
    }
}

/// Tip of the best chain.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tip {
    /// Block hash.
    pub hash: Hex<32>,
    /// Block height.
    pub height: u32,
}

/// Block that the host has.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Block {
    /// Block hash.
    pub hash: Hex<32>,
    /// Merkle root.
    pub root: Hex<32>,
    /// Block height.
    pub height: u32,
    /// Block header.
    pub header: Hex<80>,
    /// True if the fast-path table contains the Merkle tree of the block.
    pub tree: bool,
    /// TXIDs of the block that are also in the fast-path table.
    pub fastpath: Vec<Hex<32>>,
    /// TXIDs of the block that only the host has.
    pub host: Vec<Hex<32>>,
    /// Leaves of the witness tree, in block order; empty if the block has no coinbase.
    #[serde(default)]
    pub wtxids: Vec<Hex<32>>,
    /// Witness reserved value.
    pub reserved: Option<Hex<32>>,
    /// Coinbase without its witness. If it is missing, the block does not commit to witnesses.
    pub coinbase: Option<Bytes>,
}

impl Block {
    /// Returns the TXIDs in block order. The TXIDs that are in the fast-path table come first.
    pub fn txids(&self) -> impl Iterator<Item = [u8; 32]> {
        self.fastpath.iter().chain(&self.host).map(|txid| txid.0)
    }
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
    /// Counter of the service that must increase by one. If it is missing, no counter may increase.
    pub counts: Option<String>,
    /// Bytes of the headers in front of the reply's payload, if the fast path replies.
    pub reply_headers: Option<Bytes>,
    /// Payload of the reply, whether the fast path or the host gives it.
    pub reply: Option<Bytes>,
    /// Expected verdict of the host on the payload alone. If it is missing, the vector tests the frame.
    pub host: Option<ExpectedVerdict>,
}

impl Vector {
    /// Returns the frame of the request.
    pub fn frame(&self) -> Vec<u8> {
        [&self.headers.0[..], &self.request.0, &self.trailer.0].concat()
    }

    /// Returns the frame of the reply, if the fast path replies.
    pub fn reply_frame(&self) -> Option<Vec<u8>> {
        let (headers, reply) = (self.reply_headers.as_ref()?, self.reply.as_ref()?);
        Some([&headers.0[..], &reply.0, &self.trailer.0].concat())
    }

    fn fault(&self) -> Option<&'static str> {
        let fastpath_replies = self.fastpath == ExpectedVerdict::Reply;
        let host_replies = self.host == Some(ExpectedVerdict::Reply);
        match () {
            _ if fastpath_replies != self.reply_headers.is_some() => {
                Some("`reply_headers` must be given exactly if fastpath = \"reply\"")
            }
            _ if (fastpath_replies || host_replies) != self.reply.is_some() => {
                Some("`reply` must be given exactly if fastpath or host = \"reply\"")
            }
            _ if self.host == Some(ExpectedVerdict::Forward) => Some("the host cannot forward"),
            _ if fastpath_replies && self.host.is_some() && !host_replies => {
                Some("the host must answer what the fast path answers")
            }
            _ if matches!(self.fastpath, ExpectedVerdict::Drop(_))
                && self.host.is_some()
                && self.host != Some(self.fastpath.clone()) =>
            {
                Some("the host must drop what the fast path drops")
            }
            _ => None,
        }
    }
}

/// Verdict that the fast path or the host must return.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExpectedVerdict {
    /// The text `reply`.
    Reply,
    /// The text `forward`.
    Forward,
    /// The text `drop`, followed by the name of the reason.
    Drop(String),
}

impl<'de> Deserialize<'de> for ExpectedVerdict {
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

/// Bytes in hex digits. Blanks and line ends between the digits are ignored.
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
                .ok_or_else(|| D::Error::custom(format!("{letter:?} is not a hex digit")))?
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

/// Exactly `N` bytes in hex digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hex<const N: usize>(pub [u8; N]);

impl<'de, const N: usize> Deserialize<'de> for Hex<N> {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let Bytes(bytes) = Bytes::deserialize(input)?;
        let found = bytes.len();
        let bytes = bytes.try_into();
        bytes
            .map(Self)
            .map_err(|_| D::Error::custom(format!("{found} bytes instead of {N}")))
    }
}

/// Reads every file of `vectors/<service>` in the order of their names.
///
/// # Errors
/// The first file that cannot be read or is not valid, with its name, the line and the fault.
pub fn load(service: &str) -> Result<Vec<File>, String> {
    load_with(service, parse)
}

/// Reads files like [`load`], but parses them with `parse`, which gets the name without extension and the text of each
/// file.
///
/// # Errors
/// The errors of [`load`].
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

/// Parses the text of the file `name`.
///
/// # Errors
/// The fault of the text, as [`load`] reports it.
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
            return Err(format!("{at}: two vectors have this name"));
        }
    }
    match file.vectors.is_empty() {
        true => Err(format!("{name}.toml: the file has no vectors")),
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
    fn frames_are_joined_from_headers_and_payload() {
        let file = parse("good", GOOD).unwrap();
        let vector = &file.vectors[0];
        assert_eq!(vector.frame(), [0, 1, 2, 3]);
        assert_eq!(vector.reply_frame().unwrap(), [4, 5]);
    }

    #[test]
    fn mistakes_in_a_vector_file_are_named() {
        let cases = [
            (
                "tree = false\nfastpath",
                "tree = false\nfastpaths",
                "unknown field `fastpaths`",
            ),
            ("00 01", "00 0", "an odd number of hex digits"),
            ("00 01", "00 0g", "'g' is not a hex digit"),
            ("020000000002", "0200000002", "5 bytes instead of 6"),
            (
                "fastpath = \"reply\"",
                "fastpath = \"answer\"",
                "\"answer\" must be",
            ),
            (
                "fastpath = \"reply\"",
                "fastpath = \"forward\"",
                "`reply_headers` must be given exactly if",
            ),
            ("reply = \"05\"", "", "`reply` must be given exactly if"),
            (
                "host = \"reply\"",
                "host = \"forward\"",
                "the host cannot forward",
            ),
            (
                "host = \"reply\"",
                "host = \"drop reply_bit\"",
                "the host must answer what",
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
        assert!(error.contains("two vectors have this name"), "{error}");
    }
}

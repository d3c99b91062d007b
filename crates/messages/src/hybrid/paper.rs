//! Requests in the paper's format. Only a database whose genesis has the paper's mode accepts them.
//!
//! A client signs Keccak-256 of a key, or of key, value and decimal version, concatenated without lengths (S4-02 of the
//! checklist). So one signature is valid for several requests. The signed bytes contain no database and no expiry, and
//! anyone who has seen a request can send it again. The only limit is that a key's version only rises. For this reason
//! no other database accepts these requests.
//!
//! In the log, such a request is the 64 bytes of its signature, followed by [`Request::encode`]. The request has
//! exactly one encoding, although the signature covers only a part of it.

use super::block::Hash;
use super::codec::{Input, Malformed, Output};
use super::request::{self, SIGNATURE_BYTES};
use super::sign::Signer;
use lineside_verify::hash::keccak256;
use lineside_wire::{
    HYBRID_KEY_BYTES_MAX, HYBRID_OP_PAPER_GET, HYBRID_OP_PAPER_SET, HYBRID_OP_PAPER_VERIFY,
    HYBRID_REQUEST_VERSION_PAPER, HYBRID_VALUE_BYTES_MAX,
};

/// Returns true if a database in the paper's mode accepts this native request. It accepts changes of the membership,
/// and requests that check the ledger (proofs, history, heads, outcomes), because the paper defines no such requests.
/// It accepts no native request that reads or writes a key, so that each key can be accessed in only one way.
pub fn takes_native(body: &request::Body<'_>) -> bool {
    use request::Body;
    match body {
        Body::Change { .. } | Body::Head | Body::Outcome { .. } | Body::Prove { .. } => true,
        Body::Get { .. }
        | Body::Range { .. }
        | Body::History { .. }
        | Body::Watch { .. }
        | Body::Write { .. } => false,
    }
}

/// Number of bytes of a public key: 0x04, then x and y of 32 bytes each.
pub const PUBLIC_KEY_BYTES: usize = 65;
/// Maximum version in a request. The stored version is one higher, in 63 bits.
pub const VERSION_MAX: u64 = i64::MAX as u64 - 1;

/// Operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// Reads a key's value and version.
    Get {
        /// The key.
        key: &'a str,
    },
    /// Sets a key, unless the key's version is above the given one. The key's new version is one above the given one.
    Set {
        /// The key.
        key: &'a str,
        /// New value.
        value: &'a str,
        /// Version that the client has read; 0 if the key has none.
        version: u64,
    },
    /// Reads the block of a key's last write, with its hashes.
    Verify {
        /// The key.
        key: &'a str,
    },
}

/// A request in the paper's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// Public key of the claimed sender.
    pub public_key: [u8; PUBLIC_KEY_BYTES],
    /// Operation.
    pub body: Body<'a>,
}

/// Returns true if the bytes after a signature are a request in the paper's format. Only the first byte is checked.
pub fn is_one(bytes: &[u8]) -> bool {
    bytes.first() == Some(&HYBRID_REQUEST_VERSION_PAPER)
}

impl<'a> Body<'a> {
    /// Returns the key that the operation reads or sets.
    pub fn key(&self) -> &'a str {
        match self {
            Body::Get { key } | Body::Set { key, .. } | Body::Verify { key } => key,
        }
    }

    /// Returns true if the request goes through the log.
    pub fn is_ordered(&self) -> bool {
        matches!(self, Body::Set { .. })
    }

    /// Returns the bytes that are hashed and signed.
    pub fn payload(&self) -> Vec<u8> {
        match self {
            Body::Get { key } | Body::Verify { key } => key.as_bytes().to_vec(),
            Body::Set { key, value, version } => format!("{key}{value}{version}").into_bytes(),
        }
    }

    /// Returns the hash of [`Self::payload`]. The client signs this hash.
    pub fn digest(&self) -> Hash {
        keccak256(&self.payload())
    }
}

impl<'a> Request<'a> {
    /// Decodes the part of a request after its signature.
    ///
    /// # Errors
    /// [`Malformed`] for bytes that [`Self::encode`] does not write.
    pub fn decode(bytes: &'a [u8]) -> Result<Request<'a>, Malformed> {
        let mut input = Input(bytes);
        if input.u8()? != HYBRID_REQUEST_VERSION_PAPER {
            return Err(Malformed("the request is not in the paper's format"));
        }
        let op = input.u8()?;
        let public_key = input.array()?;
        let key = text(input.short(HYBRID_KEY_BYTES_MAX)?)?;
        if key.is_empty() {
            return Err(Malformed("the key is empty"));
        }
        let body = match op {
            HYBRID_OP_PAPER_GET => Body::Get { key },
            HYBRID_OP_PAPER_VERIFY => Body::Verify { key },
            HYBRID_OP_PAPER_SET => Body::Set {
                key,
                value: text(input.long(HYBRID_VALUE_BYTES_MAX)?)?,
                version: match input.u64()? {
                    version if version <= VERSION_MAX => version,
                    _ => return Err(Malformed("the version is above the maximum, 2^63 - 2")),
                },
            },
            _ => return Err(Malformed("unknown operation")),
        };
        input.end()?;
        Ok(Request { public_key, body })
    }

    /// Encodes the part of a request after its signature, as it is in the log.
    ///
    /// # Errors
    /// [`Malformed`] if [`Self::decode`] would refuse it.
    pub fn encode(&self) -> Result<Vec<u8>, Malformed> {
        let key = self.body.key().as_bytes();
        if key.len() > HYBRID_KEY_BYTES_MAX {
            return Err(Malformed("the key is too long"));
        }
        let mut out = Vec::with_capacity(256);
        out.u8(HYBRID_REQUEST_VERSION_PAPER);
        out.u8(match self.body {
            Body::Get { .. } => HYBRID_OP_PAPER_GET,
            Body::Set { .. } => HYBRID_OP_PAPER_SET,
            Body::Verify { .. } => HYBRID_OP_PAPER_VERIFY,
        });
        out.put(&self.public_key);
        out.short(key);
        if let Body::Set { value, version, .. } = self.body {
            if value.len() > HYBRID_VALUE_BYTES_MAX {
                return Err(Malformed("the value is too long"));
            }
            out.long(value.as_bytes());
            out.u64(version);
        }
        Request::decode(&out)?;
        Ok(out)
    }

    /// Encodes the request with its signature in front, in the form in which a client submits it to a node.
    ///
    /// # Errors
    /// The errors of [`Self::encode`].
    pub fn with(&self, signature: &[u8; SIGNATURE_BYTES]) -> Result<Vec<u8>, Malformed> {
        Ok([&signature[..], &self.encode()?].concat())
    }
}

/// Signs an operation.
pub fn sign(signer: &dyn Signer, body: &Body<'_>) -> [u8; SIGNATURE_BYTES] {
    signer.sign(&body.digest())
}

fn text(bytes: &[u8]) -> Result<&str, Malformed> {
    std::str::from_utf8(bytes).map_err(|_| Malformed("the text is not UTF-8"))
}

/// Encodes the state of a key: be64 version, then the value. So every answer and proof of the value includes the
/// version.
pub fn cell(version: u64, value: &[u8]) -> Vec<u8> {
    [&version.to_be_bytes()[..], value].concat()
}

/// Splits a [`cell`] into version and value. If the bytes are too short for a cell, the version is 0 and the value is
/// all of them.
pub fn read_cell(cell: &[u8]) -> (u64, &[u8]) {
    match cell.split_first_chunk() {
        Some((version, value)) => (u64::from_be_bytes(*version), value),
        None => (0, cell),
    }
}

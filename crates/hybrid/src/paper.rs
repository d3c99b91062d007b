//! Requests in the paper's format, for databases whose genesis has the paper's mode, and for no others.
//!
//! A client signs Keccak-256 of a key, or of key, value and decimal version, concatenated without lengths (S4-02 of
//! the checklist). So one signature fits several requests. It contains no database and no expiry, and anyone who has
//! seen a request can replay it. The only limit is that a key's version only rises. For this reason no other database
//! takes these requests.
//!
//! In the log such a request is the 64 bytes of its signature, followed by [`Request::encode`]. It has exactly one
//! encoding, although the signature covers less than that.

use crate::block::Hash;
use crate::codec::{Input, Malformed, Output};
use crate::execute::SignatureCheck;
use crate::request::{self, SIGNATURE_BYTES, Version};
use crate::sign::Signer;
use crate::state::State;
use lineside_verify::hash::keccak256;
use lineside_wire::{
    HYBRID_KEY_BYTES_MAX, HYBRID_OP_PAPER_GET, HYBRID_OP_PAPER_SET, HYBRID_OP_PAPER_VERIFY,
    HYBRID_REQUEST_VERSION_PAPER, HYBRID_VALUE_BYTES_MAX, HybridCode as Code,
};

/// Returns true if a database in the paper's mode takes this native request. It takes changes of the membership, and
/// requests that show that the ledger is right, because the paper defines no such requests. It takes no native request
/// that reads or writes a key, so that each key has one way of access.
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

/// Bytes of a public key: 0x04, x, y.
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
    /// Sets a key, unless its version is above the given one. Its version then becomes one above the given one.
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

/// Returns true if the bytes after a signature are a request of this kind, by their first byte.
pub fn is_one(bytes: &[u8]) -> bool {
    bytes.first() == Some(&HYBRID_REQUEST_VERSION_PAPER)
}

impl<'a> Body<'a> {
    /// Key of the operation.
    pub fn key(&self) -> &'a str {
        match self {
            Body::Get { key } | Body::Set { key, .. } | Body::Verify { key } => key,
        }
    }

    /// Returns true if the request goes through the log.
    pub fn is_ordered(&self) -> bool {
        matches!(self, Body::Set { .. })
    }

    /// Bytes that are hashed and signed.
    pub fn payload(&self) -> Vec<u8> {
        match self {
            Body::Get { key } | Body::Verify { key } => key.as_bytes().to_vec(),
            Body::Set { key, value, version } => format!("{key}{value}{version}").into_bytes(),
        }
    }

    /// Hash of [`Self::payload`], which the key signs.
    pub fn digest(&self) -> Hash {
        keccak256(&self.payload())
    }
}

impl<'a> Request<'a> {
    /// Decodes the part after the signature.
    ///
    /// # Errors
    /// [`Malformed`] for anything that [`Self::encode`] does not write.
    pub fn decode(bytes: &'a [u8]) -> Result<Request<'a>, Malformed> {
        let mut input = Input(bytes);
        if input.u8()? != HYBRID_REQUEST_VERSION_PAPER {
            return Err(Malformed("not a request in the paper's format"));
        }
        let op = input.u8()?;
        let public_key = input.array()?;
        let key = text(input.short(HYBRID_KEY_BYTES_MAX)?)?;
        if key.is_empty() {
            return Err(Malformed("an empty key"));
        }
        let body = match op {
            HYBRID_OP_PAPER_GET => Body::Get { key },
            HYBRID_OP_PAPER_VERIFY => Body::Verify { key },
            HYBRID_OP_PAPER_SET => Body::Set {
                key,
                value: text(input.long(HYBRID_VALUE_BYTES_MAX)?)?,
                version: match input.u64()? {
                    version if version <= VERSION_MAX => version,
                    _ => return Err(Malformed("a version above the maximum")),
                },
            },
            _ => return Err(Malformed("unknown operation")),
        };
        input.end()?;
        Ok(Request { public_key, body })
    }

    /// Encodes the part after the signature, as in the log.
    ///
    /// # Errors
    /// [`Malformed`] if [`Self::decode`] would refuse it.
    pub fn encode(&self) -> Result<Vec<u8>, Malformed> {
        let key = self.body.key().as_bytes();
        if key.len() > HYBRID_KEY_BYTES_MAX {
            return Err(Malformed("a key that is too long"));
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
                return Err(Malformed("a value that is too long"));
            }
            out.long(value.as_bytes());
            out.u64(version);
        }
        Request::decode(&out)?;
        Ok(out)
    }

    /// Encodes the request with its signature in front, as submitted to a node.
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
    std::str::from_utf8(bytes).map_err(|_| Malformed("text that is not UTF-8"))
}

/// State of a key: be64 version, then the value. So whatever shows or proves a value also shows its version.
pub fn cell(version: u64, value: &[u8]) -> Vec<u8> {
    [&version.to_be_bytes()[..], value].concat()
}

/// Splits a [`cell`] into version and value. Bytes too short for a cell give version 0 and all of them.
pub fn read_cell(cell: &[u8]) -> (u64, &[u8]) {
    match cell.split_first_chunk() {
        Some((version, value)) => (u64::from_be_bytes(*version), value),
        None => (0, cell),
    }
}

/// Decides the outcome of a request at its position in the log.
pub(crate) fn decide(state: &mut State, bytes: &[u8], signed: SignatureCheck, at: Version) -> Code {
    match validate(state, bytes, signed) {
        Ok((key, cell)) => {
            state.write(key.as_bytes(), at, Some(&cell));
            Code::Done
        }
        Err(code) => code,
    }
}

/// Returns the key and the cell to write, or the code of the refusal.
fn validate<'a>(state: &State, bytes: &'a [u8], signed: SignatureCheck) -> Result<(&'a str, Vec<u8>), Code> {
    let request = Request::decode(bytes).map_err(|_| Code::Malformed)?;
    let membership = state.membership();
    if !membership.is_paper() {
        return Err(Code::WrongMode);
    }
    let Body::Set { key, value, version } = request.body else {
        return Err(Code::Malformed);
    };
    let (member, number, _) = membership
        .key_owner(&request.public_key)
        .ok_or(Code::UnknownMember)?;
    match signed {
        SignatureCheck::Valid => {}
        SignatureCheck::HighS => return Err(Code::HighS),
        SignatureCheck::Invalid | SignatureCheck::Unchecked => return Err(Code::BadSignature),
    }
    if !membership.is_active(member, number) {
        return Err(Code::Revoked);
    }
    // Checks the version before the rights: a request that was executed once then always gets the same answer when
    // replayed.
    if state.paper_version(key.as_bytes()) > version {
        return Err(Code::OldVersion);
    }
    if !membership.rights(member, key.as_bytes()).write {
        return Err(Code::NotAllowed);
    }
    Ok((key, cell(version + 1, value.as_bytes())))
}

//! The paper's requests, for a database whose genesis is of the paper's mode, and for no other.
//!
//! A client signs Keccak-256 of a key, or of key, value and version in decimal put together without lengths (S4-02 of
//! the checklist). So one signature fits several requests, nothing in it says which database is meant or until when,
//! and who has seen it can send it again: all that bounds it is that a key's version only rises. That is why no other
//! database takes them.
//!
//! In the log such a request is the 64 bytes of its signature and then [`Request::encode`]: one encoding, though what
//! is signed is less than that.

use crate::block::Hash;
use crate::codec::{Input, Malformed, Output};
use crate::execute::Signed;
use crate::request::{self, SIGNATURE_BYTES, Version};
use crate::sign::Signer;
use crate::state::State;
use lineside_verify::hash::keccak256;
use lineside_wire::{
    HYBRID_KEY_BYTES_MAX, HYBRID_OP_PAPER_GET, HYBRID_OP_PAPER_SET, HYBRID_OP_PAPER_VERIFY,
    HYBRID_REQUEST_VERSION_PAPER, HYBRID_VALUE_BYTES_MAX, HybridCode as Code,
};

/// Whether a database of the paper's mode takes this native request: what changes members, and what shows that the
/// ledger is right, for which the paper has nothing. None that reads or writes a key: each has one way.
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
/// Versions of requests end here: what is stored is one more, in 63 bits.
pub const VERSION_MAX: u64 = i64::MAX as u64 - 1;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// A key's value and its version.
    Get {
        /// The key.
        key: &'a str,
    },
    /// Sets a key, unless its version is above this one; it is one above it then.
    Set {
        /// The key.
        key: &'a str,
        /// What it has from then on.
        value: &'a str,
        /// The version that was read; 0 for a key that has none.
        version: u64,
    },
    /// The block of a key's last write, and its hashes.
    Verify {
        /// The key.
        key: &'a str,
    },
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// Whose it says it is.
    pub public_key: [u8; PUBLIC_KEY_BYTES],
    /// What is asked.
    pub body: Body<'a>,
}

/// Whether bytes behind a signature are a request of this kind, or want to be one.
pub fn is_one(bytes: &[u8]) -> bool {
    bytes.first() == Some(&HYBRID_REQUEST_VERSION_PAPER)
}

impl<'a> Body<'a> {
    /// The key.
    pub fn key(&self) -> &'a str {
        match self {
            Body::Get { key } | Body::Set { key, .. } | Body::Verify { key } => key,
        }
    }

    /// Whether it goes through the log.
    pub fn is_ordered(&self) -> bool {
        matches!(self, Body::Set { .. })
    }

    /// What is signed.
    pub fn payload(&self) -> Vec<u8> {
        match self {
            Body::Get { key } | Body::Verify { key } => key.as_bytes().to_vec(),
            Body::Set { key, value, version } => format!("{key}{value}{version}").into_bytes(),
        }
    }

    /// Its hash, which is what a key signs.
    pub fn digest(&self) -> Hash {
        keccak256(&self.payload())
    }
}

impl<'a> Request<'a> {
    /// Reads what stands behind the signature.
    ///
    /// # Errors
    /// [`Malformed`] for whatever [`Self::encode`] does not write.
    pub fn decode(bytes: &'a [u8]) -> Result<Request<'a>, Malformed> {
        let mut input = Input(bytes);
        if input.u8()? != HYBRID_REQUEST_VERSION_PAPER {
            return Err(Malformed("not the paper's"));
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
                    _ => return Err(Malformed("a version that is none")),
                },
            },
            _ => return Err(Malformed("no such operation")),
        };
        input.end()?;
        Ok(Request { public_key, body })
    }

    /// What stands behind the signature in the log.
    ///
    /// # Errors
    /// [`Malformed`] where [`Self::decode`] would not take it.
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

    /// With its signature before it, as it is handed to a node.
    ///
    /// # Errors
    /// As [`Self::encode`].
    pub fn with(&self, signature: &[u8; SIGNATURE_BYTES]) -> Result<Vec<u8>, Malformed> {
        Ok([&signature[..], &self.encode()?].concat())
    }
}

/// The 64 bytes of a signature of what is asked.
pub fn sign(signer: &dyn Signer, body: &Body<'_>) -> [u8; SIGNATURE_BYTES] {
    signer.sign(&body.digest())
}

fn text(bytes: &[u8]) -> Result<&str, Malformed> {
    std::str::from_utf8(bytes).map_err(|_| Malformed("text that is not UTF-8"))
}

/// What the state has of a key: be64 version, then the value. So whatever shows or proves a value shows its version.
pub fn cell(version: u64, value: &[u8]) -> Vec<u8> {
    [&version.to_be_bytes()[..], value].concat()
}

/// Version and value of [`cell`]; of what is too short for one: 0, and all of it.
pub fn read_cell(cell: &[u8]) -> (u64, &[u8]) {
    match cell.split_first_chunk() {
        Some((version, value)) => (u64::from_be_bytes(*version), value),
        None => (0, cell),
    }
}

/// What becomes of a request at its turn in the log.
pub(crate) fn judge(state: &mut State, bytes: &[u8], signed: Signed, at: Version) -> Code {
    match look(state, bytes, signed) {
        Ok((key, cell)) => {
            state.write(key.as_bytes(), at, Some(&cell));
            Code::Done
        }
        Err(code) => code,
    }
}

/// What it writes, if it does.
fn look<'a>(state: &State, bytes: &'a [u8], signed: Signed) -> Result<(&'a str, Vec<u8>), Code> {
    let request = Request::decode(bytes).map_err(|_| Code::Malformed)?;
    let roster = state.roster();
    if !roster.is_paper() {
        return Err(Code::WrongMode);
    }
    let Body::Set { key, value, version } = request.body else {
        return Err(Code::Malformed);
    };
    let (member, number, _) = roster.holder(&request.public_key).ok_or(Code::UnknownMember)?;
    match signed {
        Signed::Valid => {}
        Signed::HighS => return Err(Code::HighS),
        Signed::Invalid | Signed::Unchecked => return Err(Code::BadSignature),
    }
    if !roster.is_active(member, number) {
        return Err(Code::Revoked);
    }
    // Before the rights: what was done once is never told anything else when it comes again.
    if state.paper_version(key.as_bytes()) > version {
        return Err(Code::OldVersion);
    }
    if !roster.rights(member, key.as_bytes()).write {
        return Err(Code::NotAllowed);
    }
    Ok((key, cell(version + 1, value.as_bytes())))
}

//! Decisions on requests in the paper's format, which [`lineside_messages::hybrid::paper`] defines.

use crate::execute::SignatureCheck;
use crate::state::State;
use lineside_messages::hybrid::paper::{Body, Request, cell};
use lineside_messages::hybrid::request::Version;
use lineside_wire::HybridCode as Code;

/// Decides the outcome of a request at its position in the log, and makes its write if the request is valid.
pub(crate) fn decide(state: &mut State, bytes: &[u8], signed: SignatureCheck, at: Version) -> Code {
    match validate(state, bytes, signed) {
        Ok((key, cell)) => {
            state.write(key.as_bytes(), at, Some(&cell));
            Code::Done
        }
        Err(code) => code,
    }
}

/// Checks a request. Returns the key and the cell to write, or the code of the refusal.
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
    // Checks the version before the rights, so that a request that was executed once always gets the same answer when
    // it is sent again.
    if state.paper_version(key.as_bytes()) > version {
        return Err(Code::OldVersion);
    }
    if !membership.rights(member, key.as_bytes()).write {
        return Err(Code::NotAllowed);
    }
    Ok((key, cell(version + 1, value.as_bytes())))
}

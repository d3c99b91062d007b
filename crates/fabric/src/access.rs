//! Access control for requests: checks one signature against a policy of the channel's configuration.

use crate::config::Config;
use crate::msp::Resolution;
use crate::pem;
use crate::proto::{self, Arena, SerializedIdentity};
use crate::rules::Rules;
use crate::signature::{UnverifiedSignature, verify_all};
use crate::x509::{Certificate, SignedDer};
use lineside_verify::Verifier;
use lineside_verify::hash::sha256;

/// Path of the policy that guards a resource of a peer if the channel's access control lists (ACLs) name no policy for
/// it.
const READERS: &str = "Application/Readers";

/// A signed message.
#[derive(Clone, Copy, Debug)]
pub struct SignedBy<'a> {
    /// The signer's `SerializedIdentity`.
    pub identity: &'a [u8],
    /// The signed bytes.
    pub message: &'a [u8],
    /// The signature.
    pub signature: &'a [u8],
}

impl Config {
    /// Returns the path of the policy that guards a resource of a peer, for example `event/Block`: the path in the
    /// channel's access control lists (ACLs), otherwise that of the application's Readers policy. `None` if the ACLs
    /// name a policy that cannot exist.
    pub fn guard(&self, resource: &str) -> Option<String> {
        match self.acls.get(resource).map(String::as_str) {
            None | Some("") => Some(READERS.to_owned()),
            Some(absolute) if absolute.starts_with('/') => Self::path_of(absolute).map(str::to_owned),
            Some(relative) => Some(format!("Application/{relative}")),
        }
    }

    /// Returns whether the signature `by` is valid and its signer satisfies the policy at `path`.
    pub fn permits(&self, path: &str, by: SignedBy<'_>, verifier: &Verifier) -> bool {
        let rules = Rules::default();
        let Some(Resolution::Known(identity)) = self.msps.resolve(&[by.identity], verifier, rules).pop()
        else {
            return false;
        };
        let parts = || vec![by.message];
        let digest = sha256(by.message);
        let signed = UnverifiedSignature::new(&identity.key, digest, parts, by.signature, rules);
        let valid = verify_all(signed.as_slice(), verifier, rules) == [true];
        valid && self.evaluate(path, &[&identity], rules)
    }
}

/// Returns the end of validity of the certificate in a serialised identity, in seconds since 1970; `None` if it cannot
/// be parsed.
pub fn expires_s(identity: &[u8]) -> Option<i64> {
    let arena = Arena::new();
    let identity: SerializedIdentity<'_> = proto::decode(identity, &arena).ok()?;
    let der = pem::decode(identity.id_bytes)?;
    Some(Certificate::parse(&SignedDer::parse(&der)?, None)?.not_after_s)
}

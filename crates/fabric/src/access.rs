//! Who may ask for blocks: one signature against a policy of the channel's configuration.

use crate::config::Config;
use crate::msp::Resolution;
use crate::pem;
use crate::proto::{self, Arena, SerializedIdentity};
use crate::rules::Rules;
use crate::signature::{Unverified, verify_all};
use crate::x509::{Certificate, Signed};
use lineside_verify::Verifier;
use lineside_verify::hash::sha256;

/// What guards a resource for which the channel names no policy.
const READERS: &str = "Application/Readers";

/// Something signed by somebody.
#[derive(Clone, Copy, Debug)]
pub struct SignedBy<'a> {
    /// The signer, serialised.
    pub identity: &'a [u8],
    /// All bytes that are signed.
    pub message: &'a [u8],
    /// The signature.
    pub signature: &'a [u8],
}

impl Config {
    /// The path of the policy that guards a resource of a peer, such as `event/Block`: what the channel's ACLs name,
    /// else the application's Readers. `None` where the ACL names none that could be had.
    pub fn guard(&self, resource: &str) -> Option<String> {
        match self.acls.get(resource).map(String::as_str) {
            None | Some("") => Some(READERS.to_owned()),
            Some(absolute) if absolute.starts_with('/') => Self::path_of(absolute).map(str::to_owned),
            Some(relative) => Some(format!("Application/{relative}")),
        }
    }

    /// Whether who signed satisfies the policy at a path.
    pub fn permits(&self, path: &str, by: SignedBy<'_>, verifier: &Verifier) -> bool {
        let rules = Rules::default();
        let Some(Resolution::Known(identity)) = self.msps.resolve(&[by.identity], verifier, rules).pop()
        else {
            return false;
        };
        let parts = || vec![by.message];
        let digest = sha256(by.message);
        let signed = Unverified::new(&identity.key, digest, parts, by.signature, rules);
        let valid = verify_all(signed.as_slice(), verifier, rules) == [true];
        valid && self.evaluate(path, &[&identity], rules)
    }
}

/// When the certificate in a serialised identity ends, in seconds since 1970; `None` where that cannot be read.
pub fn expires_s(identity: &[u8]) -> Option<i64> {
    let arena = Arena::new();
    let identity: SerializedIdentity<'_> = proto::decode(identity, &arena).ok()?;
    let der = pem::decode(identity.id_bytes)?;
    Some(Certificate::parse(&Signed::parse(&der)?, None)?.not_after_s)
}

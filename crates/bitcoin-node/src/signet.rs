//! Identity of a signet. All signets share their first block; they differ in the challenge that their blocks must
//! satisfy.

use bitcoin::hashes::{Hash as _, sha256d};
use lineside_util::hex::{from_hex, to_hex};
use std::fmt;
use std::str::FromStr;

/// Challenge of the default signet (BIP 325).
const DEFAULT_CHALLENGE: &str = "512103ad5e0edad18cb1f0fc0d28a3d4f1f3e445640337489abb10404f2d1e086be430\
                                 210359ef5021964fe22d6f8e05b2463c9540ce96883fe3b278760f048f5189f2e6c452ae";
/// Maximum length of a challenge in bytes: the maximum length of a script (`MAX_SCRIPT_SIZE` of Bitcoin Core).
const CHALLENGE_BYTES_MAX: usize = 10_000;

/// Identity of a signet: the double SHA-256 of the length of its challenge followed by the challenge. The first four
/// bytes are the magic of the network (BIP 325).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SignetId(pub [u8; 32]);

/// Error for a text that is not a challenge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a signet's challenge is a script of 1 to {CHALLENGE_BYTES_MAX} bytes in hex digits, as in the node's option \
     signetchallenge"
)]
pub struct NotAChallenge;

impl SignetId {
    /// Returns the identity of the signet whose blocks must satisfy `challenge`.
    pub fn of_challenge(challenge: &[u8]) -> Self {
        let serialized = bitcoin::consensus::serialize(&challenge.to_vec());
        Self(sha256d::Hash::hash(&serialized).to_byte_array())
    }

    /// Returns the identity of the default signet.
    pub fn default_signet() -> Self {
        Self::of_challenge(&from_hex(DEFAULT_CHALLENGE).unwrap_or_default())
    }

    /// Returns the four bytes before each block in the block files of the signet.
    pub fn magic(&self) -> [u8; 4] {
        let [a, b, c, d, ..] = self.0;
        [a, b, c, d]
    }
}

impl FromStr for SignetId {
    type Err = NotAChallenge;

    /// Parses the challenge from hexadecimal digits.
    fn from_str(challenge: &str) -> Result<Self, NotAChallenge> {
        let challenge = from_hex(challenge).ok_or(NotAChallenge)?;
        match challenge.len() {
            1..=CHALLENGE_BYTES_MAX => Ok(Self::of_challenge(&challenge)),
            _ => Err(NotAChallenge),
        }
    }
}

impl fmt::Display for SignetId {
    /// Writes the magic, by which Bitcoin Core's log identifies a signet.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if *self == Self::default_signet() {
            "the default signet"
        } else {
            "the signet"
        };
        write!(f, "{name} with the magic {}", to_hex(&self.magic()))
    }
}

impl fmt::Debug for SignetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SignetId({})", to_hex(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_magic_of_a_signet_follows_from_its_challenge() {
        // The expected values are Bitcoin Core's constant for the default signet, and the value in Bitcoin Core's log
        // for a custom signet.
        let magic = |id: SignetId| to_hex(&id.magic());
        assert_eq!(magic(SignetId::default_signet()), "0a03cf40");
        let custom: SignetId = "00140b24b854187ee6dcd5a0a7063156b83a4605443c".parse().unwrap();
        assert_eq!(magic(custom), "4605eff3");
        assert!(custom.to_string().contains("4605eff3"), "{custom}");
        for text in ["", "5", "zz", &"51".repeat(CHALLENGE_BYTES_MAX + 1)] {
            assert_eq!(text.parse::<SignetId>(), Err(NotAChallenge));
        }
    }
}

//! Verifies WebAuthn assertions with ES256 keys: a server checks that a browser's authenticator has signed its
//! challenge, in batches for many users at once.
//!
//! The checks are those of [Web Authentication Level 3], section 7.2 (verifying an authentication assertion), for a
//! credential whose public key the server stored at registration. The section's checks of the user handle, of
//! extensions, and of changes of the backup state are left to the caller. ES256 is ECDSA over P-256 with SHA-256; the
//! signature is in DER, and covers `authenticatorData || SHA-256(clientDataJSON)`.
//!
//! ```text
//! cargo run -p lineside-verify --example webauthn
//! ```
//!
//! The program verifies the recorded assertions in `webauthn.json`, prints the outcome of each, and compares it with
//! the expected one. `webauthn.py` made the assertions with OpenSSL. They include the ES256 test vectors of the
//! specification.
//!
//! [Web Authentication Level 3]: https://www.w3.org/TR/webauthn-3/

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use lineside_verify::hash::sha256;
use lineside_verify::{Curve, Item, PublicKey, SignatureBytes, Verdict, Verifier};
use serde_json::Value;
use std::fmt;

/// Response of an authenticator, as `PublicKeyCredential.response` has it in a browser.
struct Assertion {
    authenticator_data: Vec<u8>,
    client_data_json: Vec<u8>,
    /// Signature in DER.
    signature: Vec<u8>,
}

/// Credential of a user, which the server stored at registration.
struct Credential {
    key: PublicKey,
    /// Counter of the last assertion. Zero if the authenticator has no counter.
    sign_count: u32,
}

/// Values that the server expects in an assertion.
struct Expected<'a> {
    /// Domain of the relying party, such as `example.org`.
    rp_id: &'a str,
    /// Origin of the page, such as `https://example.org`.
    origin: &'a str,
    /// Random challenge that the server issued for this login, and accepts only once.
    challenge: &'a [u8],
    /// True if the authenticator must have verified the user, by a PIN or biometrically.
    user_verification: bool,
}

/// Attempt of a user to log in.
struct Login<'a> {
    credential: &'a Credential,
    assertion: &'a Assertion,
    expected: Expected<'a>,
}

/// Reason why an assertion is refused.
#[derive(Debug, PartialEq, Eq)]
enum Refused {
    ClientData(&'static str),
    AuthenticatorData(&'static str),
    Signature(Verdict),
    /// The counter did not increase: two authenticators may have the same private key.
    Counter {
        stored: u32,
        received: u32,
    },
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::ClientData(why) => write!(f, "clientDataJSON: {why}"),
            Refused::AuthenticatorData(why) => write!(f, "authenticatorData: {why}"),
            Refused::Signature(Verdict::Malformed(_)) => f.write_str("the signature is malformed"),
            Refused::Signature(_) => f.write_str("the signature is not valid"),
            Refused::Counter { stored, received } => write!(
                f,
                "the counter is {received} after {stored}; the authenticator may have been cloned"
            ),
        }
    }
}

/// Flags of authenticator data (section 6.1).
const USER_PRESENT: u8 = 1 << 0;
const USER_VERIFIED: u8 = 1 << 2;
const BACKUP_ELIGIBLE: u8 = 1 << 3;
const BACKED_UP: u8 = 1 << 4;
const ATTESTED_CREDENTIAL: u8 = 1 << 6;
const EXTENSIONS: u8 = 1 << 7;

/// Length of authenticator data without extensions: SHA-256 of the relying party's ID, flags, counter.
const AUTHENTICATOR_DATA_BYTES: usize = 32 + 1 + 4;

/// Checks the JSON that the browser has written: the type, the challenge and the origin (steps 10 to 14). This server
/// expects no page in a frame of another origin, so it refuses `crossOrigin`, which every `topOrigin` comes with.
fn check_client_data(json: &[u8], expected: &Expected<'_>) -> Result<(), Refused> {
    let refused = |why| Err(Refused::ClientData(why));
    let Ok(data) = serde_json::from_slice::<Value>(json) else {
        return refused("it is not JSON");
    };
    if data["type"] != "webauthn.get" {
        return refused("the type is not webauthn.get");
    }
    // The challenge is compared in its encoded form, which has no padding, so that it has only one encoding.
    if data["challenge"] != URL_SAFE_NO_PAD.encode(expected.challenge).as_str() {
        return refused("it has another challenge");
    }
    if data["origin"] != expected.origin {
        return refused("it has another origin");
    }
    if data.get("crossOrigin").is_some_and(|cross| *cross != false) {
        return refused("the page was embedded by another origin");
    }
    Ok(())
}

/// Checks the authenticator's data (steps 15 to 18), and returns its counter.
fn check_authenticator_data(data: &[u8], expected: &Expected<'_>) -> Result<u32, Refused> {
    let refused = |why| Err(Refused::AuthenticatorData(why));
    let Some((&fixed, extensions)) = data.split_first_chunk::<AUTHENTICATOR_DATA_BYTES>() else {
        return refused("it has fewer than 37 bytes");
    };
    let flags = fixed[32];
    if fixed[..32] != sha256(expected.rp_id.as_bytes()) {
        return refused("it is for another relying party");
    }
    if flags & USER_PRESENT == 0 {
        return refused("the user was not present");
    }
    if expected.user_verification && flags & USER_VERIFIED == 0 {
        return refused("the user was not verified");
    }
    if flags & BACKUP_ELIGIBLE == 0 && flags & BACKED_UP != 0 {
        return refused("the credential is backed up, but not eligible for backups");
    }
    if flags & ATTESTED_CREDENTIAL != 0 {
        return refused("an assertion has no attested credential");
    }
    // Extensions are CBOR. This server requests no extension and does not read them. The signature covers them.
    if (flags & EXTENSIONS == 0) != extensions.is_empty() {
        return refused("its length does not agree with its flags");
    }
    let [.., a, b, c, d] = fixed;
    Ok(u32::from_be_bytes([a, b, c, d]))
}

/// Returns the digest that an ES256 authenticator signs.
fn signed_digest(assertion: &Assertion) -> [u8; 32] {
    let mut message = assertion.authenticator_data.clone();
    message.extend(sha256(&assertion.client_data_json));
    sha256(&message)
}

/// Verifies the assertions of many users, with one batch for all signatures. Returns the new counter of each
/// credential, which the caller must store before the user is logged in, or the reason for a refusal.
fn verify(verifier: &Verifier, logins: &[Login<'_>]) -> Vec<Result<u32, Refused>> {
    let items: Vec<Item<'_>> = logins
        .iter()
        .map(|login| Item {
            key: &login.credential.key,
            digest: signed_digest(login.assertion),
            signature: SignatureBytes::Der(&login.assertion.signature),
        })
        .collect();
    let verdicts = verifier.verify_batch(&items);
    let outcomes = logins.iter().zip(verdicts);
    outcomes.map(|(login, verdict)| decide(login, verdict)).collect()
}

/// Decides about one assertion, whose signature has the given verdict.
fn decide(login: &Login<'_>, verdict: Verdict) -> Result<u32, Refused> {
    let Login {
        credential,
        assertion,
        expected,
    } = login;
    check_client_data(&assertion.client_data_json, expected)?;
    let received = check_authenticator_data(&assertion.authenticator_data, expected)?;
    if verdict != Verdict::Valid {
        return Err(Refused::Signature(verdict));
    }
    // Step 22. An authenticator without a counter always sends zero.
    let stored = credential.sign_count;
    if (stored, received) != (0, 0) && received <= stored {
        return Err(Refused::Counter { stored, received });
    }
    Ok(received)
}

/// Recorded assertion, with the values that the server has stored, and the expected outcome.
struct Recorded {
    name: String,
    credential: Credential,
    challenge: Vec<u8>,
    user_verification: bool,
    assertion: Assertion,
    expected: String,
}

impl Recorded {
    /// Returns the recorded assertions in `webauthn.json`.
    fn all() -> Vec<Recorded> {
        let cases: Vec<Value> =
            serde_json::from_str(include_str!("webauthn.json")).expect("the file is JSON");
        cases.iter().map(Recorded::read).collect()
    }

    fn read(case: &Value) -> Recorded {
        let text = |key: &str| case[key].as_str().expect("the field has a text");
        let bytes = |key: &str| -> Vec<u8> {
            let pairs = text(key).as_bytes().chunks(2);
            let digits = pairs.map(|pair| std::str::from_utf8(pair).expect("hexadecimal digits"));
            digits
                .map(|digits| u8::from_str_radix(digits, 16).expect("hexadecimal digits"))
                .collect()
        };
        let counter = case["stored_counter"].as_u64().expect("a number");
        Recorded {
            name: text("name").into(),
            credential: Credential {
                key: PublicKey::from_sec1(Curve::P256, &bytes("key")).expect("a key of P-256"),
                sign_count: u32::try_from(counter).expect("a counter has 32 bits"),
            },
            challenge: bytes("challenge"),
            user_verification: case["user_verification"] == true,
            assertion: Assertion {
                authenticator_data: bytes("authenticator_data"),
                client_data_json: bytes("client_data_json"),
                signature: bytes("signature"),
            },
            expected: text("expected").into(),
        }
    }

    fn login(&self) -> Login<'_> {
        Login {
            credential: &self.credential,
            assertion: &self.assertion,
            expected: Expected {
                rp_id: "example.org",
                origin: "https://example.org",
                challenge: &self.challenge,
                user_verification: self.user_verification,
            },
        }
    }
}

/// Returns the sentence that `webauthn.json` has as the expected outcome.
fn sentence(outcome: &Result<u32, Refused>) -> String {
    match outcome {
        Ok(counter) => format!("accepted, the counter is now {counter}"),
        Err(refused) => refused.to_string(),
    }
}

fn main() {
    let recorded = Recorded::all();
    let logins: Vec<Login<'_>> = recorded.iter().map(Recorded::login).collect();
    let outcomes = verify(&Verifier::default(), &logins);
    for (case, outcome) in recorded.iter().zip(&outcomes) {
        let outcome = sentence(outcome);
        println!("{}: {outcome}", case.name);
        assert_eq!(outcome, case.expected, "the recorded outcome");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recorded_assertions_have_the_expected_outcomes() {
        let recorded = Recorded::all();
        let logins: Vec<_> = recorded.iter().map(Recorded::login).collect();
        let outcomes = verify(&Verifier::default(), &logins);
        assert_eq!(recorded.len(), outcomes.len());
        for (case, outcome) in recorded.iter().zip(&outcomes) {
            assert_eq!(sentence(outcome), case.expected, "{}", case.name);
        }
        let of_the_specification = recorded
            .iter()
            .filter(|case| case.name.starts_with("specification"));
        assert_eq!(of_the_specification.count(), 5);
        let accepted = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        assert!(
            accepted >= 10 && outcomes.len() - accepted >= 20,
            "{accepted} accepted"
        );
        main();
    }

    #[test]
    fn every_changed_byte_is_refused() {
        let recorded = Recorded::all();
        let good = &recorded[5];
        let Assertion {
            authenticator_data,
            client_data_json,
            signature,
        } = &good.assertion;
        let lengths = [authenticator_data.len(), client_data_json.len(), signature.len()];
        let mut changed = Vec::new();
        for (field, length) in lengths.into_iter().enumerate() {
            for at in 0..length {
                let mut fields = [
                    authenticator_data.clone(),
                    client_data_json.clone(),
                    signature.clone(),
                ];
                fields[field][at] ^= 1;
                let [authenticator_data, client_data_json, signature] = fields;
                changed.push(Assertion {
                    authenticator_data,
                    client_data_json,
                    signature,
                });
            }
        }
        let login = |assertion| Login {
            assertion,
            ..good.login()
        };
        let mut logins: Vec<Login<'_>> = changed.iter().map(login).collect();
        // The unchanged assertion among the others is accepted: a batch has a verdict for each signature.
        logins.insert(10, good.login());
        for (at, outcome) in verify(&Verifier::default(), &logins).into_iter().enumerate() {
            assert_eq!(outcome.is_ok(), at == 10, "{at}: {outcome:?}");
        }
    }
}

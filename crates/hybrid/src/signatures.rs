//! Signatures of logged requests, many at once: what every node checks for itself.

use crate::block::Hash;
use crate::execute::Signed;
use crate::request::{Request, split};
use crate::roster::Roster;
use crate::sign::{REQUEST_TAG, request_digest};
use lineside_verify::hash::keccak256_batch;
use lineside_verify::{Curve, Item, SignatureBytes, Verdict, Verifier};

/// The ids of requests; of what is too short to be one, of nothing.
pub fn transaction_ids(requests: &[&[u8]]) -> Vec<Hash> {
    let signed =
        |request: &&[u8]| split(request).map_or(Vec::new(), |(_, signed)| [REQUEST_TAG, signed].concat());
    let tagged: Vec<Vec<u8>> = requests.iter().map(signed).collect();
    let messages: Vec<&[u8]> = tagged.iter().map(Vec::as_slice).collect();
    let mut ids = vec![[0; 32]; messages.len()];
    keccak256_batch(&messages, &mut ids);
    ids
}

/// What the signatures of requests are, by the keys that `roster` has, revoked ones too: a key never changes, and
/// whether it counts is judged apart. `ids` are those of [`transaction_ids`].
pub fn check(verifier: &Verifier, roster: &Roster, requests: &[&[u8]], ids: &[Hash]) -> Vec<Signed> {
    let mut signatures = vec![Signed::Unchecked; requests.len()];
    let mut places = Vec::with_capacity(requests.len());
    let mut items = Vec::with_capacity(requests.len());
    for (place, request) in requests.iter().enumerate() {
        let Ok((signature, signed)) = split(request) else {
            continue;
        };
        let Ok(Request { head, .. }) = Request::decode(signed) else {
            continue;
        };
        let Some(key) = roster.key(head.member, head.key) else {
            continue;
        };
        places.push(place);
        items.push(Item {
            key: &key.public,
            digest: match key.public.curve() {
                Curve::Secp256k1 => ids[place],
                curve => request_digest(curve, signed),
            },
            signature: SignatureBytes::Compact(signature),
        });
    }
    for (place, verdict) in places.into_iter().zip(verifier.verify_batch(&items)) {
        signatures[place] = match verdict {
            Verdict::Valid => Signed::Valid,
            Verdict::HighS => Signed::HighS,
            _ => Signed::Invalid,
        };
    }
    signatures
}

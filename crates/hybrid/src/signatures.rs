//! What can be found out about a message of the log before its turn, beside the messages before it: its signatures and
//! its hashes. None of it depends on the state: keys are never changed, only added and revoked.

use crate::block::{Cargo, Hash, Message};
use crate::codec::Input;
use crate::execute::Signed;
use crate::paper;
use crate::request::{DatabaseId, read_head, split};
use crate::roster::Roster;
use crate::sign::{REQUEST_TAG, request_digest};
use lineside_journal::merkle;
use lineside_verify::hash::{keccak256, keccak256_batch, sha256_batch};
use lineside_verify::{Curve, Item, SignatureBytes, Verdict, Verifier};

/// What was found out about a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// Whether the node's key has signed it; `None`: no such node was known.
    pub by_node: Option<bool>,
    /// What the requests' signatures are; of those whose key was not known: [`Signed::Unchecked`].
    pub signatures: Vec<Signed>,
    /// The requests' ids.
    pub ids: Vec<Hash>,
    /// Its hashes.
    pub digests: Digests,
}

/// The hashes of a message that stand in its block's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digests {
    /// Its [`transactions_hash`](crate::block::transactions_hash).
    pub transactions_hash: Hash,
    /// RFC 6962's tree over the requests.
    pub transactions_root: Hash,
}

impl Digests {
    /// Of a message.
    pub fn of(message: &Message<'_>) -> Digests {
        Digests::with(message, keccak256(message.signed))
    }

    /// Of a message whose [`transactions_hash`](crate::block::transactions_hash) is known.
    pub fn with(message: &Message<'_>, transactions_hash: Hash) -> Digests {
        Digests {
            transactions_hash,
            transactions_root: merkle::root(&merkle::Batch(sha256_batch), message.requests()),
        }
    }
}

impl Checked {
    /// Verifies all signatures of a message by the keys that `roster` has, revoked ones too: whether they count is
    /// judged at the message's turn. `hash` is its [`transactions_hash`](crate::block::transactions_hash).
    pub fn of(
        message: &Message<'_>,
        hash: Hash,
        database: &DatabaseId,
        roster: &Roster,
        verifier: &Verifier,
    ) -> Checked {
        let requests = message.requests();
        let ids = transaction_ids(requests);
        Checked {
            by_node: is_signed(message, &hash, database, roster, verifier),
            signatures: check(verifier, roster, requests, &ids),
            ids,
            digests: Digests::with(message, hash),
        }
    }

    /// Verifies what could not be verified before, by the keys that there are now.
    pub fn complete(
        &mut self,
        message: &Message<'_>,
        database: &DatabaseId,
        roster: &Roster,
        verifier: &Verifier,
    ) {
        if self.by_node.is_none() {
            let hash = &self.digests.transactions_hash;
            self.by_node = is_signed(message, hash, database, roster, verifier);
        }
        if !self.signatures.contains(&Signed::Unchecked) {
            return;
        }
        let again = check(verifier, roster, message.requests(), &self.ids);
        self.signatures = again;
    }
}

fn is_signed(
    message: &Message<'_>,
    hash: &Hash,
    database: &DatabaseId,
    roster: &Roster,
    verifier: &Verifier,
) -> Option<bool> {
    let key = roster.any_node(message.node)?;
    let mut signed = message.is_signed_by(hash, database, key, verifier);
    if let Cargo::Head(head) = &message.cargo {
        signed &= roster
            .any_node(head.node)
            .is_some_and(|key| head.is_signed_by(database, key, verifier));
    }
    Some(signed)
}

/// The ids of requests; of what is too short to be one, of nothing.
pub fn transaction_ids(requests: &[&[u8]]) -> Vec<Hash> {
    let bytes = requests
        .iter()
        .map(|request| REQUEST_TAG.len() + request.len())
        .sum();
    let (mut tagged, mut ends) = (Vec::with_capacity(bytes), Vec::with_capacity(requests.len()));
    for request in requests {
        if let Ok((_, signed)) = split(request) {
            tagged.extend_from_slice(REQUEST_TAG);
            tagged.extend_from_slice(signed);
        }
        ends.push(tagged.len());
    }
    let mut begin = 0;
    let messages: Vec<&[u8]> = ends
        .iter()
        .map(|end| &tagged[std::mem::replace(&mut begin, *end)..*end])
        .collect();
    let mut ids = vec![[0; 32]; messages.len()];
    keccak256_batch(&messages, &mut ids);
    ids
}

/// What the signatures of requests are. `ids` are those of [`transaction_ids`], which a key of secp256k1 signs.
fn check(verifier: &Verifier, roster: &Roster, requests: &[&[u8]], ids: &[Hash]) -> Vec<Signed> {
    let mut signatures = vec![Signed::Unchecked; requests.len()];
    let mut places = Vec::with_capacity(requests.len());
    let mut items = Vec::with_capacity(requests.len());
    for (place, request) in requests.iter().enumerate() {
        let Ok((signature, signed)) = split(request) else {
            continue;
        };
        if paper::is_one(signed) {
            if let Ok(asked) = paper::Request::decode(signed)
                && let Some((_, _, key)) = roster.holder(&asked.public_key)
            {
                places.push(place);
                items.push(Item {
                    key,
                    digest: asked.body.digest(),
                    signature: SignatureBytes::Compact(signature),
                });
            }
            continue;
        }
        // What stands behind the head is read when it is judged, before it matters who has signed.
        let Ok((head, _)) = read_head(&mut Input(signed)) else {
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

//! Checks of a log message that do not depend on the state: its signatures and hashes. Threads make these checks in
//! parallel, before the message is executed. This is possible because keys are only added and revoked, never changed.

use crate::execute::SignatureCheck;
use crate::membership::Membership;
use lineside_journal::merkle;
use lineside_messages::hybrid::block::{Cargo, Hash, Message};
use lineside_messages::hybrid::codec::Input;
use lineside_messages::hybrid::paper;
use lineside_messages::hybrid::request::{DatabaseId, read_head, split};
use lineside_messages::hybrid::sign::{REQUEST_TAG, request_digest};
use lineside_verify::hash::{keccak256, keccak256_batch, sha256_batch};
use lineside_verify::{Curve, Item, SignatureBytes, Verdict, Verifier};

/// Results of the checks of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedMessage {
    /// True if the node's key has signed the message; `None` if the node was not known at the time of the check.
    pub by_node: Option<bool>,
    /// Results of checking the requests' signatures; [`SignatureCheck::Unchecked`] if the key was not known.
    pub signatures: Vec<SignatureCheck>,
    /// Ids of the requests.
    pub ids: Vec<Hash>,
    /// Hashes of the message.
    pub digests: Digests,
}

/// Hashes of a message that are part of its block's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digests {
    /// The message's [`transactions_hash`](lineside_messages::hybrid::block::transactions_hash).
    pub transactions_hash: Hash,
    /// Root of the tree of RFC 6962 over the requests.
    pub transactions_root: Hash,
}

impl Digests {
    /// Computes the hashes of a message.
    pub fn of(message: &Message<'_>) -> Digests {
        Digests::with(message, keccak256(message.signed))
    }

    /// Computes the remaining hashes of a message whose
    /// [`transactions_hash`](lineside_messages::hybrid::block::transactions_hash) is known.
    pub fn with(message: &Message<'_>, transactions_hash: Hash) -> Digests {
        Digests {
            transactions_hash,
            transactions_root: merkle::root(&merkle::Batch(sha256_batch), message.requests()),
        }
    }
}

impl CheckedMessage {
    /// Verifies all signatures of a message with the keys in `membership`, including revoked keys: only the executor
    /// decides whether a key is revoked at that point of the log. `hash` is the message's
    /// [`transactions_hash`](lineside_messages::hybrid::block::transactions_hash).
    pub fn of(
        message: &Message<'_>,
        hash: Hash,
        database: &DatabaseId,
        membership: &Membership,
        verifier: &Verifier,
    ) -> CheckedMessage {
        let requests = message.requests();
        let ids = transaction_ids(requests);
        CheckedMessage {
            by_node: is_signed(message, &hash, database, membership, verifier),
            signatures: check(verifier, membership, requests, &ids),
            ids,
            digests: Digests::with(message, hash),
        }
    }

    /// Verifies the signatures that could not be checked before because their keys were not known; uses the keys that
    /// exist now.
    pub fn complete(
        &mut self,
        message: &Message<'_>,
        database: &DatabaseId,
        membership: &Membership,
        verifier: &Verifier,
    ) {
        if self.by_node.is_none() {
            let hash = &self.digests.transactions_hash;
            self.by_node = is_signed(message, hash, database, membership, verifier);
        }
        if !self.signatures.contains(&SignatureCheck::Unchecked) {
            return;
        }
        let rechecked = check(verifier, membership, message.requests(), &self.ids);
        self.signatures = rechecked;
    }
}

fn is_signed(
    message: &Message<'_>,
    hash: &Hash,
    database: &DatabaseId,
    membership: &Membership,
    verifier: &Verifier,
) -> Option<bool> {
    let key = membership.any_node(message.node)?;
    let mut signed = message.is_signed_by(hash, database, key, verifier);
    if let Cargo::Head(head) = &message.cargo {
        signed &= membership
            .any_node(head.node)
            .is_some_and(|key| head.is_signed_by(database, key, verifier));
    }
    Some(signed)
}

/// Returns the ids of requests. Bytes that are too short to be a request get the id of an empty request.
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

/// Checks the signatures of requests. `ids` are the results of [`transaction_ids`]; for secp256k1 keys they are also
/// the signed digests.
fn check(
    verifier: &Verifier,
    membership: &Membership,
    requests: &[&[u8]],
    ids: &[Hash],
) -> Vec<SignatureCheck> {
    let mut signatures = vec![SignatureCheck::Unchecked; requests.len()];
    let mut places = Vec::with_capacity(requests.len());
    let mut items = Vec::with_capacity(requests.len());
    for (index, request) in requests.iter().enumerate() {
        let Ok((signature, signed)) = split(request) else {
            continue;
        };
        if paper::is_one(signed) {
            if let Ok(paper_request) = paper::Request::decode(signed)
                && let Some((_, _, key)) = membership.key_owner(&paper_request.public_key)
            {
                places.push(index);
                items.push(Item {
                    key,
                    digest: paper_request.body.digest(),
                    signature: SignatureBytes::Compact(signature),
                });
            }
            continue;
        }
        // Only the head is parsed, because it names the signer. The executor parses the body later.
        let Ok((head, _)) = read_head(&mut Input(signed)) else {
            continue;
        };
        let Some(key) = membership.key(head.member, head.key) else {
            continue;
        };
        places.push(index);
        items.push(Item {
            key: &key.public,
            digest: match key.public.curve() {
                Curve::Secp256k1 => ids[index],
                curve => request_digest(curve, signed),
            },
            signature: SignatureBytes::Compact(signature),
        });
    }
    for (index, verdict) in places.into_iter().zip(verifier.verify_batch(&items)) {
        signatures[index] = match verdict {
            Verdict::Valid => SignatureCheck::Valid,
            Verdict::HighS => SignatureCheck::HighS,
            _ => SignatureCheck::Invalid,
        };
    }
    signatures
}

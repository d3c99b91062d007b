//! Computes SHA-256 of many messages together, in parallel lanes, at about a third of the cost of one by one.

use lineside_verify::hash::sha256_batch;
use sha2::{Digest, Sha256};
use std::collections::VecDeque;
use std::ops::Range;

/// Maximum size of a message in several parts, in bytes, that is copied to be contiguous; a longer message is hashed
/// immediately.
const JOINED_BYTES_MAX: usize = 16 << 10;

/// Messages to be hashed together.
#[derive(Default)]
pub(crate) struct Hashes<'a> {
    messages: Vec<Message<'a>>,
    joined: Vec<u8>,
    /// Digests of the next messages to be added, which were computed before.
    known: VecDeque<[u8; 32]>,
}

enum Message<'a> {
    Whole(&'a [u8]),
    /// Range of the message in `joined`.
    Joined(Range<usize>),
    Hashed([u8; 32]),
}

impl<'a> Hashes<'a> {
    /// Allocates memory for `joined_bytes` bytes of messages in several parts.
    pub fn reserve(&mut self, joined_bytes: usize) {
        self.joined.reserve(joined_bytes);
    }

    /// Sets the known digests of the messages that are added next. Known digests of an earlier call that are still
    /// unused are discarded.
    pub fn preset(&mut self, digests: &[[u8; 32]]) {
        self.known.clear();
        self.known.extend(digests);
    }

    /// Adds the message that consists of these parts; returns the index of its digest.
    pub fn add(&mut self, parts: &[&'a [u8]]) -> usize {
        if let Some(digest) = self.known.pop_front() {
            return self.put(Message::Hashed(digest));
        }
        let message = match parts {
            [whole] => Message::Whole(whole),
            _ if parts.iter().map(|part| part.len()).sum::<usize>() <= JOINED_BYTES_MAX => {
                let from = self.joined.len();
                parts.iter().for_each(|part| self.joined.extend_from_slice(part));
                Message::Joined(from..self.joined.len())
            }
            _ => {
                let hasher = parts.iter().fold(Sha256::new(), Sha256::chain_update);
                Message::Hashed(hasher.finalize().into())
            }
        };
        self.put(message)
    }

    /// Adds a digest that is computed already; returns its index.
    pub fn add_digest(&mut self, digest: [u8; 32]) -> usize {
        self.known.pop_front();
        self.put(Message::Hashed(digest))
    }

    fn put(&mut self, message: Message<'a>) -> usize {
        self.messages.push(message);
        self.messages.len() - 1
    }

    /// Returns the number of messages.
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Returns the digests of all messages, and removes the messages.
    pub fn take(&mut self) -> Vec<[u8; 32]> {
        let joined = &self.joined;
        let messages = self.messages.iter().filter_map(|message| match message {
            Message::Whole(whole) => Some(*whole),
            Message::Joined(at) => Some(joined.get(at.clone()).unwrap_or_default()),
            Message::Hashed(_) => None,
        });
        let messages: Vec<_> = messages.collect();
        let mut made = vec![[0; 32]; messages.len()];
        sha256_batch(&messages, &mut made);
        let mut made = made.into_iter();
        let digests = self.messages.drain(..).map(|message| match message {
            Message::Hashed(digest) => digest,
            Message::Whole(_) | Message::Joined(_) => made.next().unwrap_or_default(),
        });
        let digests = digests.collect();
        self.joined.clear();
        digests
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lineside_verify::hash::sha256;

    #[test]
    fn every_message_gets_its_own_digest() {
        let bytes: Vec<u8> = (0..3 * JOINED_BYTES_MAX).map(|at| (at % 251) as u8).collect();
        let mut hashes = Hashes::default();
        for round in 1..4 {
            let mut expected = Vec::new();
            for length in (0..300).chain([JOINED_BYTES_MAX, JOINED_BYTES_MAX + 1, 2 * JOINED_BYTES_MAX]) {
                let whole = &bytes[round..round + length];
                let (before, behind) = whole.split_at(length / 3);
                for parts in [&[whole][..], &[before, behind], &[before, &[], behind]] {
                    assert_eq!(hashes.add(parts), expected.len());
                    expected.push(sha256(whole));
                }
                assert_eq!(hashes.add_digest([length as u8; 32]), expected.len());
                expected.push([length as u8; 32]);
            }
            assert_eq!(hashes.take(), expected);
        }
        assert!(hashes.take().is_empty());
    }

    #[test]
    fn preset_digests_are_not_computed_again() {
        let mut hashes = Hashes::default();
        hashes.preset(&[[1; 32], [2; 32], [3; 32]]);
        hashes.add(&[b"a"]);
        // `add_digest` also consumes the preset digest of the same position, here [2; 32].
        hashes.add_digest([9; 32]);
        hashes.add(&[b"c"]);
        hashes.add(&[b"d"]);
        assert_eq!(hashes.take(), [[1; 32], [9; 32], [3; 32], sha256(b"d")]);
        hashes.preset(&[[4; 32], [5; 32]]);
        hashes.add(&[b"a"]);
        hashes.preset(&[]);
        hashes.add(&[b"b"]);
        assert_eq!(hashes.take(), [[4; 32], sha256(b"b")]);
    }
}

//! SHA-256 of many messages at once: in lanes they cost a third of what they cost one by one.

use lineside_verify::hash::sha256_batch;
use sha2::{Digest, Sha256};
use std::ops::Range;

/// Longer messages in several parts are not copied to be in one piece.
const JOINED_BYTES_MAX: usize = 16 << 10;

/// Messages to be hashed together.
#[derive(Default)]
pub(crate) struct Hashes<'a> {
    messages: Vec<Message<'a>>,
    joined: Vec<u8>,
}

enum Message<'a> {
    Whole(&'a [u8]),
    /// Where in `joined` it is.
    Joined(Range<usize>),
    Hashed([u8; 32]),
}

impl<'a> Hashes<'a> {
    /// Adds the message that consists of these parts; its place among the digests.
    pub fn add(&mut self, parts: &[&'a [u8]]) -> usize {
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

    /// Adds a digest that is there already; its place among them.
    pub fn add_digest(&mut self, digest: [u8; 32]) -> usize {
        self.put(Message::Hashed(digest))
    }

    fn put(&mut self, message: Message<'a>) -> usize {
        self.messages.push(message);
        self.messages.len() - 1
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// The digests of all messages; then there is none.
    pub fn take(&mut self) -> Vec<[u8; 32]> {
        let mut digests = vec![[0; 32]; self.messages.len()];
        let joined = &self.joined;
        let messages = self.messages.iter().map(|message| match message {
            Message::Whole(whole) => *whole,
            Message::Joined(at) => joined.get(at.clone()).unwrap_or_default(),
            Message::Hashed(_) => &[],
        });
        sha256_batch(&messages.collect::<Vec<_>>(), &mut digests);
        for (message, digest) in self.messages.drain(..).zip(&mut digests) {
            if let Message::Hashed(hashed) = message {
                *digest = hashed;
            }
        }
        self.joined.clear();
        digests
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lineside_verify::hash::sha256;

    #[test]
    fn each_message_gets_its_own() {
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
}

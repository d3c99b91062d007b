//! Resolves the identities of a block once each, with a cache of identities from earlier blocks.

use crate::limits::{CACHED_BYTES_MAX, IDENTITIES_BYTES_MAX, IDENTITIES_MAX};
use crate::msp::{Identity, Msps, Resolution};
use crate::rules::Rules;
use hashbrown::HashMap;
use lineside_verify::Verifier;
use std::sync::Arc;

/// Cache of resolved identities, by their serialised bytes. The map uses a hash function with a secret key, so clients
/// cannot choose identities that collide. A cache is valid for one channel configuration.
#[derive(Default, Debug)]
pub(crate) struct Cache {
    known: HashMap<Box<[u8]>, Arc<Identity>>,
    bytes: usize,
}

impl Cache {
    fn keep(&mut self, bytes: &[u8], identity: &Arc<Identity>) {
        if bytes.len() > CACHED_BYTES_MAX {
            return;
        }
        if self.known.len() >= IDENTITIES_MAX || self.bytes + bytes.len() > IDENTITIES_BYTES_MAX {
            self.known.clear();
            self.bytes = 0;
        }
        self.bytes += bytes.len();
        self.known.insert(bytes.into(), identity.clone());
    }
}

/// Number of slots for identities that are found without hashing them, a power of 2.
const RECENT_SLOTS: usize = 1 << 10;
/// Number of distinct identities of a block for which memory is reserved.
const EXPECTED_IDENTITIES: usize = 1 << 8;

/// The distinct identities of one block.
#[derive(Debug)]
pub(crate) struct BlockIdentities<'a> {
    places: HashMap<&'a [u8], usize>,
    bytes: Vec<&'a [u8]>,
    /// Index of the last identity that has this [`slot`]. Most identities of a block occur often and are found here, by
    /// comparing them once with the identity of their slot. A hash would read all of an identity's about 850 bytes once
    /// more.
    recent: Vec<usize>,
    resolutions: Vec<Resolution>,
}

impl Default for BlockIdentities<'_> {
    fn default() -> Self {
        Self {
            places: HashMap::with_capacity(EXPECTED_IDENTITIES),
            bytes: Vec::with_capacity(EXPECTED_IDENTITIES),
            recent: vec![usize::MAX; RECENT_SLOTS],
            resolutions: Vec::new(),
        }
    }
}

/// Returns the slot of an identity in the table of recent ones. The slot depends on some bytes of the certificate's
/// signature, which is near the end of the PEM text. Clients can choose identities with the same slot; such identities
/// are found by the keyed hash, as if there were no table.
fn slot(bytes: &[u8]) -> usize {
    const END: usize = 48;
    let from = bytes.len().saturating_sub(END);
    let mixed = bytes.iter().skip(from).take(8);
    let mixed = mixed.fold(bytes.len(), |sum, byte| sum.wrapping_mul(37) + usize::from(*byte));
    mixed % RECENT_SLOTS
}

impl<'a> BlockIdentities<'a> {
    /// Returns the index of an identity, and adds it if it is new.
    pub fn index_of(&mut self, bytes: &'a [u8]) -> usize {
        let slot = slot(bytes);
        let recent = self.recent.get(slot).copied().unwrap_or(usize::MAX);
        if self.bytes.get(recent).is_some_and(|known| *known == bytes) {
            return recent;
        }
        let next = self.bytes.len();
        let place = *self.places.entry(bytes).or_insert(next);
        if place == next {
            self.bytes.push(bytes);
        }
        if let Some(recent) = self.recent.get_mut(slot) {
            *recent = place;
        }
        place
    }

    /// Resolves all identities, from the cache where possible.
    pub fn resolve(&mut self, cache: &mut Cache, msps: &Msps, verifier: &Verifier, rules: Rules) {
        self.resolutions = vec![Resolution::Unknown; self.bytes.len()];
        let (mut at, mut unknown) = (Vec::new(), Vec::new());
        for (place, bytes) in self.bytes.iter().enumerate() {
            match (cache.known.get(*bytes), self.resolutions.get_mut(place)) {
                (Some(identity), Some(resolution)) => *resolution = Resolution::Known(identity.clone()),
                _ => {
                    at.push(place);
                    unknown.push(*bytes);
                }
            }
        }
        let resolved = msps.resolve(&unknown, verifier, rules);
        for ((place, bytes), found) in at.into_iter().zip(unknown).zip(resolved) {
            if let Resolution::Known(identity) = &found {
                cache.keep(bytes, identity);
            }
            if let Some(resolution) = self.resolutions.get_mut(place) {
                *resolution = found;
            }
        }
    }

    /// Returns the result for the identity at an index.
    pub fn get(&self, place: usize) -> &Resolution {
        self.resolutions.get(place).unwrap_or(&Resolution::Unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::network::Network;
    use lineside_testkit::Random;

    /// Each occurrence of an identity gets the index of its first occurrence, also if several identities have the same
    /// slot or an identity is too short to have one.
    #[test]
    fn each_identity_has_one_index() {
        let mut random = Random(1);
        let mut all: Vec<Vec<u8>> = (0..60).map(|length| vec![7; length]).collect();
        for number in 0..4_000u32 {
            let mut identity = vec![0; 200];
            identity[..4].copy_from_slice(&number.to_be_bytes());
            // Half of the identities have the same slot.
            identity[155..159].copy_from_slice(&(number % 2 * number).to_be_bytes());
            all.push(identity);
        }
        let mut identities = BlockIdentities::default();
        let mut known = HashMap::new();
        for _ in 0..20_000 {
            let one = &all[random.below(all.len() as u64) as usize];
            let next = known.len();
            let expected = *known.entry(one.as_slice()).or_insert(next);
            assert_eq!(identities.index_of(one), expected);
        }
        assert!(known.len() > 3_900);
    }

    #[test]
    fn the_identity_cache_stays_within_its_size() {
        let mut network = Network::new();
        let validator = network.start(None);
        let serialised = network.client(0).serialised();
        let msps = &validator.config().msps;
        let resolved = msps.resolve(&[&serialised], &Verifier::default(), Rules::default());
        let Resolution::Known(identity) = &resolved[0] else {
            panic!("{resolved:?}");
        };
        let mut cache = Cache::default();
        cache.keep(&vec![0; CACHED_BYTES_MAX + 1], identity);
        assert!(cache.known.is_empty());
        let mut most = 0;
        for number in 0..2 * IDENTITIES_BYTES_MAX / CACHED_BYTES_MAX {
            let mut bytes = vec![0; CACHED_BYTES_MAX];
            bytes[..8].copy_from_slice(&number.to_be_bytes());
            cache.keep(&bytes, identity);
            let kept: usize = cache.known.keys().map(|bytes| bytes.len()).sum();
            assert_eq!(cache.bytes, kept);
            most = most.max(kept);
        }
        assert_eq!(most, IDENTITIES_BYTES_MAX);
    }
}

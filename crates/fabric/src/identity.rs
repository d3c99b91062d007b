//! Resolves the identities of a block once each, with a cache of identities from earlier blocks.

use crate::limits::{CACHED_BYTES_MAX, IDENTITIES_BYTES_MAX, IDENTITIES_MAX};
use crate::msp::{Identity, Msps, Resolution};
use crate::rules::Rules;
use hashbrown::HashMap;
use lineside_verify::Verifier;
use std::sync::Arc;

/// Cache of resolved identities, by their serialised bytes. The hash of the map is keyed. A cache is valid for one
/// configuration.
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

/// The distinct identities of one block.
#[derive(Default, Debug)]
pub(crate) struct BlockIdentities<'a> {
    places: HashMap<&'a [u8], usize>,
    bytes: Vec<&'a [u8]>,
    resolutions: Vec<Resolution>,
}

impl<'a> BlockIdentities<'a> {
    /// Returns the index of an identity, and adds it if it is new.
    pub fn index_of(&mut self, bytes: &'a [u8]) -> usize {
        let next = self.bytes.len();
        let place = *self.places.entry(bytes).or_insert(next);
        if place == next {
            self.bytes.push(bytes);
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

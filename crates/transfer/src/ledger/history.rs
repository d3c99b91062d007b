//! Networks whose sessions have changed something over a longer time. A client from such a network still gets a
//! session when strangers no longer do.

use super::sessions::Address;
use std::collections::BTreeMap;

/// Maximum number of remembered networks; each takes 32 bytes in snapshots.
const NETWORKS_MAX: usize = 4096;
/// Seconds from the first to the last change after which a network is known.
const KNOWN_AFTER_S: u64 = 86_400;

/// Times of the first and the last change that the sessions of one network made, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChangeTimes {
    pub(super) first_s: u64,
    pub(super) last_s: u64,
}

impl ChangeTimes {
    const fn is_known(&self) -> bool {
        self.last_s.saturating_sub(self.first_s) >= KNOWN_AFTER_S
    }
}

/// Times of the changes of each network, by the network's address.
#[derive(Debug, Default)]
pub(super) struct History(BTreeMap<Address, ChangeTimes>);

impl History {
    /// Records that a session of this network changed something.
    pub(super) fn note(&mut self, network: Address, now_s: u64) {
        if let Some(times) = self.0.get_mut(&network) {
            times.last_s = times.last_s.max(now_s);
            return;
        }
        if self.0.len() >= NETWORKS_MAX {
            // Networks that are not known yet are removed first, so that many newcomers do not displace a known one.
            let rank = |(network, seen): (&Address, &ChangeTimes)| (seen.is_known(), seen.last_s, *network);
            if let Some((_, _, network)) = self.0.iter().map(rank).min() {
                self.0.remove(&network);
            }
        }
        self.put(
            network,
            ChangeTimes {
                first_s: now_s,
                last_s: now_s,
            },
        );
    }

    pub(super) fn put(&mut self, network: Address, seen: ChangeTimes) {
        self.0.insert(network, seen);
    }

    pub(super) fn is_known(&self, network: &Address) -> bool {
        self.0.get(network).is_some_and(ChangeTimes::is_known)
    }

    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = (&Address, &ChangeTimes)> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(number: u32) -> Address {
        let mut network = [0; 16];
        network[..4].copy_from_slice(&number.to_be_bytes());
        network
    }

    #[test]
    fn a_network_is_known_after_a_day_and_newcomers_do_not_displace_it() {
        let mut history = History::default();
        history.note(network(1), 1_000);
        history.note(network(1), 1_000 + KNOWN_AFTER_S - 1);
        assert!(!history.is_known(&network(1)));
        history.note(network(1), 1_000 + KNOWN_AFTER_S);
        assert!(history.is_known(&network(1)));
        for number in 2..3 * NETWORKS_MAX as u32 {
            history.note(network(number), 2_000_000 + u64::from(number));
        }
        assert_eq!(history.iter().len(), NETWORKS_MAX);
        assert!(history.is_known(&network(1)));
        assert!(!history.is_known(&network(2)));
    }
}

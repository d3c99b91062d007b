//! Histories of networks: records of which networks have changed the table, and when.

use super::Network;
use std::collections::HashMap;

/// Maximum number of networks that are recorded.
const NETWORKS_MAX: usize = 16_384;
/// Memory of all records in bytes, at 96 bytes each.
pub(super) const BYTES: usize = NETWORKS_MAX * 96;
/// Time in seconds from a network's first change until the network has a history. It is longer than an attacker needs
/// to use up all sessions.
const KNOWN_AFTER_S: u64 = 600;
/// Time in seconds after which another change of the same session is recorded.
pub(super) const NOTED_AGAIN_S: u64 = 600;
/// Time in seconds without a change after which a network's record may be replaced by that of another network.
const FORGOTTEN_AFTER_S: u64 = 86_400;

/// Times of the first and the last change of a network, in seconds.
#[derive(Clone, Copy, Debug)]
struct History {
    first_s: u64,
    last_s: u64,
}

/// Set of records of networks, with a maximum size. If it is full, a new network can replace only an old record.
#[derive(Debug, Default)]
pub(super) struct Histories {
    networks: HashMap<Network, History>,
    /// Time in seconds of the last search for old records.
    looked_s: Option<u64>,
}

impl Histories {
    /// Records that `network` has changed the table at the time `now_s`.
    pub(super) fn note(&mut self, network: Network, now_s: u64) {
        if let Some(history) = self.networks.get_mut(&network) {
            history.last_s = now_s;
            return;
        }
        if self.networks.len() >= NETWORKS_MAX && self.looked_s != Some(now_s) {
            self.looked_s = Some(now_s);
            let is_recent = |history: &History| now_s.saturating_sub(history.last_s) < FORGOTTEN_AFTER_S;
            self.networks.retain(|_, history| is_recent(history));
        }
        if self.networks.len() < NETWORKS_MAX {
            let history = History {
                first_s: now_s,
                last_s: now_s,
            };
            self.networks.insert(network, history);
        }
    }

    /// Returns true if the network has a history.
    pub(super) fn is_known(&self, network: &Network, now_s: u64) -> bool {
        let history = self.networks.get(network);
        history.is_some_and(|history| now_s.saturating_sub(history.first_s) >= KNOWN_AFTER_S)
    }
}

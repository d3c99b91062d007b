//! Histories of sites: records of which sites have changed the table, and when.

use super::Site;
use std::collections::HashMap;

/// Maximum number of sites that are recorded.
const SITES_MAX: usize = 16_384;
/// Memory of all records in bytes, at 96 bytes each.
pub(super) const BYTES: usize = SITES_MAX * 96;
/// Time in seconds from a site's first change until the site has a history. It is longer than an attacker needs to use
/// up all sessions.
const KNOWN_AFTER_S: u64 = 600;
/// Time in seconds after which another change of the same session is recorded.
pub(super) const NOTED_AGAIN_S: u64 = 600;
/// Time in seconds without a change after which a site's record may be replaced by that of another site.
const FORGOTTEN_AFTER_S: u64 = 86_400;

/// Times of the first and the last change of a site, in seconds.
#[derive(Clone, Copy, Debug)]
struct History {
    first_s: u64,
    last_s: u64,
}

/// Set of records of sites, with a maximum size. If it is full, a new site can replace only a record that is old.
#[derive(Debug, Default)]
pub(super) struct Histories {
    sites: HashMap<Site, History>,
    /// Time in seconds of the last search for old records.
    looked_s: Option<u64>,
}

impl Histories {
    /// Records that `site` has changed the table at the time `now_s`.
    pub(super) fn note(&mut self, site: Site, now_s: u64) {
        if let Some(history) = self.sites.get_mut(&site) {
            history.last_s = now_s;
            return;
        }
        if self.sites.len() >= SITES_MAX && self.looked_s != Some(now_s) {
            self.looked_s = Some(now_s);
            let is_recent = |history: &History| now_s.saturating_sub(history.last_s) < FORGOTTEN_AFTER_S;
            self.sites.retain(|_, history| is_recent(history));
        }
        if self.sites.len() < SITES_MAX {
            let history = History {
                first_s: now_s,
                last_s: now_s,
            };
            self.sites.insert(site, history);
        }
    }

    /// Returns true if the site has a history.
    pub(super) fn is_known(&self, site: &Site, now_s: u64) -> bool {
        let history = self.sites.get(site);
        history.is_some_and(|history| now_s.saturating_sub(history.first_s) >= KNOWN_AFTER_S)
    }
}

//! History of sites whose sessions have changed the table.

use super::Site;
use std::collections::HashMap;

/// Maximum number of sites that are recorded.
const SITES_MAX: usize = 16_384;
/// Memory of all records in bytes.
pub(super) const BYTES: usize = SITES_MAX * 96;
/// Seconds from a site's first change until it has a history. Longer than it takes to use up all sessions.
const KNOWN_AFTER_S: u64 = 600;
/// Seconds after which a further change of a session is recorded.
pub(super) const NOTED_AGAIN_S: u64 = 600;
/// Seconds without a change after which a site's record may be replaced by another one.
const FORGOTTEN_AFTER_S: u64 = 86_400;

/// Times of the first and the last change of a site, in seconds.
#[derive(Clone, Copy, Debug)]
struct History {
    first_s: u64,
    last_s: u64,
}

/// Bounded set of records of sites. New sites do not replace recent records.
#[derive(Debug, Default)]
pub(super) struct Histories {
    sites: HashMap<Site, History>,
    /// Time in seconds at which old records were last looked for.
    looked_s: Option<u64>,
}

impl Histories {
    /// Records a change.
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

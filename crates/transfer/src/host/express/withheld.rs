//! Limits the refusals of the fast path by source.
//!
//! The fast path keeps no counts by source. When the host applies packets of which nothing was executed, it charges
//! the network that opened their session, as for its own refusals. If that network has no credit left, the host
//! withholds the session: it claims the session's slot, so that the fast path forwards the session's packets to the
//! host, which executes what it can and limits the refusals. When there is credit again, the slot is given back.
//! Refusals by the fast path beyond the credit become a debt without limit, so the configured rate holds in the long
//! run. A debt never prevents the execution of a packet.
//!
//! A claim of a session ends with the host process, as all claims do.

use super::Host;
use crate::host::limiter::Limiter;
use crate::ledger::{Address, network_of};
use lineside_journal::Disk;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Sessions whose packets the fast path forwards to the host, because too many were refused.
pub(super) struct Withheld {
    /// Refused packets by the network that opened their session, with unlimited debt.
    refusals: Limiter,
    /// Number of packets of each session that the fast path refused as a whole and that are not charged yet.
    refused: BTreeMap<u32, u64>,
    /// Sessions to withhold: their network had no credit left when it was charged.
    overdrawn: BTreeSet<u32>,
    /// Sessions that are claimed until their network has credit.
    slots: BTreeSet<u32>,
    /// Slots of sessions that are no longer withheld, and that the host still has to give back to the fast path.
    released: BTreeSet<u32>,
    /// Host's clock at the latest batch, in seconds since 1970.
    now_s: u64,
    /// Host's clock when credit was last checked, in seconds since 1970.
    looked_at_s: u64,
}

impl Withheld {
    pub(super) fn new(refusals_per_s: u32) -> Self {
        Self {
            refusals: Limiter::with_any_debt(refusals_per_s),
            refused: BTreeMap::new(),
            overdrawn: BTreeSet::new(),
            slots: BTreeSet::new(),
            released: BTreeSet::new(),
            now_s: 0,
            looked_at_s: 0,
        }
    }

    /// Returns the slots to give back: those that were claimed for a batch and are not withheld, and those whose
    /// withholding has ended.
    pub(super) fn take_given_back(&mut self, claimed: &[u32]) -> Vec<u32> {
        let mut slots = std::mem::take(&mut self.released);
        slots.extend(claimed);
        slots.difference(&self.slots).copied().collect()
    }
}

impl<D: Disk> Host<D> {
    /// Sets the time that the limits use, in seconds since 1970.
    pub(super) fn tell_time(&mut self, now_s: u64) {
        if let Some(express) = &mut self.express {
            express.withheld.now_s = now_s;
            self.budgets.refill(&self.store, now_s);
        }
    }

    /// Records that the fast path refused a packet of this session.
    pub(super) fn note_refused(&mut self, slot: u32) {
        if let Some(express) = &mut self.express {
            *express.withheld.refused.entry(slot).or_default() += 1;
        }
    }

    /// Charges the networks of the sessions whose packets the fast path refused.
    pub(super) fn charge_refused(&mut self) {
        let Some(express) = &mut self.express else { return };
        let refused = std::mem::take(&mut express.withheld.refused);
        let now_s = express.withheld.now_s;
        for (slot, packets) in refused {
            self.charge_refusals(slot, packets, now_s);
            if self.is_overdrawn(slot, now_s)
                && let Some(express) = &mut self.express
            {
                express.withheld.overdrawn.insert(slot);
            }
        }
    }

    /// Charges refused packets to this network's unlimited debt.
    pub(in crate::host) fn charge_withheld(&mut self, network: &Address, packets: u64, now_s: u64) {
        if let Some(express) = &mut self.express {
            express.withheld.refusals.charge(network, packets, now_s);
        }
    }

    /// Returns whether the network that opened this session has no credit left.
    fn is_overdrawn(&self, slot: u32, now_s: u64) -> bool {
        let (Some(express), Some(opener)) = (&self.express, self.opener(slot)) else {
            return false;
        };
        let network = network_of(&opener.address_bytes());
        !self.sessions.trusts(opener) && !express.withheld.refusals.may(&network, now_s)
    }

    /// Withholds a newly opened session if its network has no credit: otherwise it could fill a ring with refusals
    /// before the host sees them.
    pub(in crate::host) fn withhold_new(&mut self, slot: u32) {
        if let Some(now_s) = self.express.as_ref().map(|express| express.withheld.now_s)
            && self.is_overdrawn(slot, now_s)
            && let Some(express) = &mut self.express
        {
            express.withheld.overdrawn.insert(slot);
        }
    }

    /// Ends the withholding of a closed session: the next one in its slot belongs to the fast path.
    pub(in crate::host) fn no_longer_withheld(&mut self, slot: u32) {
        if let Some(Withheld {
            overdrawn,
            slots,
            released,
            ..
        }) = self.express.as_mut().map(|express| &mut express.withheld)
        {
            overdrawn.remove(&slot);
            if slots.remove(&slot) {
                released.insert(slot);
            }
        }
    }

    /// Withholds the sessions whose network has no credit left, and once a second releases those whose network has
    /// credit again.
    pub(super) fn withhold(&mut self) {
        let Some(express) = self.express.as_mut().filter(|_| self.failed.is_none()) else {
            return;
        };
        let claims = Arc::clone(&express.fastpath.claims);
        let overdrawn = std::mem::take(&mut express.withheld.overdrawn);
        let (now_s, mut slots) = (
            express.withheld.now_s,
            std::mem::take(&mut express.withheld.slots),
        );
        let is_due = std::mem::replace(&mut express.withheld.looked_at_s, now_s) != now_s;
        if is_due && !express.withheld.refusals.is_idle() {
            express.withheld.refusals.forget(now_s);
        }
        for slot in overdrawn {
            // If the lock of a session could not be acquired, the next refusal of the session leads to another attempt.
            if self.is_overdrawn(slot, now_s) && claims.claim(&[], &[slot]).is_ok() {
                slots.insert(slot);
            }
        }
        let stays = |slot: &u32| !is_due || self.is_overdrawn(*slot, now_s);
        let (slots, released): (BTreeSet<u32>, BTreeSet<u32>) = slots.into_iter().partition(stays);
        if let Some(express) = &mut self.express {
            express.withheld.slots = slots;
            express.withheld.released.extend(released);
        }
    }
}

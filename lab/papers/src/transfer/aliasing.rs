//! Accounts that share an entry of the paper's data store.
//!
//! The paper hashes an account's id to 16 bits, which index the store; an entry has a value and a valid flag, but no id
//! (section III and figure 3). So all accounts with one hash are the same account. For `n` accounts whose hashes are
//! uniform over `m` entries:
//!
//! - an account shares its entry with probability `1 - (1 - 1/m)^(n - 1)`;
//! - `m (1 - (1 - 1/m)^n)` entries are in use, and the value of every further account was overwritten;
//! - no two accounts share an entry with probability `(1 - 1/m) (1 - 2/m) ... (1 - (n - 1)/m)`.
//!
//! The paper does not name its hash function. The simulation takes the low 16 bits of ids that are drawn at random.

use crate::error::{PapersError, Result};
use lineside_fastpath::{FastPath as _, Reply, Source, Verdict, lease};
use lineside_testkit::Random;
use lineside_transfer::fastpath::TransferFastPath;
use lineside_transfer::paper::PaperRequest;
use lineside_transfer::store::{Geometry, Mode, Store};
use lineside_wire::{TRANSFER_COMMAND_CREATE, TRANSFER_COMMAND_REFER};
use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

/// Number of entries of the paper's data store: the width of the hash is 16 bits.
pub const ENTRIES: usize = 1 << 16;
/// Lease in nanoseconds; it is longer than any run.
const LEASE_NS: u64 = 1 << 42;

/// Accounts of one number, with computed and measured shares in percent of the accounts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Aliasing {
    /// Number of accounts.
    pub accounts: usize,
    /// Expected share of accounts whose entry another account also uses.
    pub sharing_computed_percent: f64,
    /// Share of such accounts in the simulation.
    pub sharing_measured_percent: f64,
    /// Expected share of accounts for which REFER returns the value of another account.
    pub wrong_computed_percent: f64,
    /// Share of such accounts in the simulation.
    pub wrong_measured_percent: f64,
    /// Number of accounts for which REFER to Lineside's fast path returned another value, of the accounts of all draws.
    pub lineside_wrong: u64,
}

/// Returns the expected share of accounts that share their entry, in percent.
pub fn sharing_percent(accounts: usize) -> f64 {
    let others = accounts.saturating_sub(1) as f64;
    -100.0 * (others * (-1.0 / ENTRIES as f64).ln_1p()).exp_m1()
}

/// Returns the expected share of accounts whose value was overwritten by another account, in percent.
pub fn overwritten_percent(accounts: usize) -> f64 {
    let (n, m) = (accounts as f64, ENTRIES as f64);
    let used = -m * (n * (-1.0 / m).ln_1p()).exp_m1();
    100.0 * (1.0 - used / n)
}

/// Returns the least number of accounts of which two share an entry with a probability of at least 50 %.
pub fn even_chance() -> usize {
    let (mut apart, mut accounts) = (1.0, 1);
    while apart > 0.5 {
        apart *= 1.0 - accounts as f64 / ENTRIES as f64;
        accounts += 1;
    }
    accounts
}

/// The paper's data store: a value and a valid flag for each hash.
struct PaperStore {
    values: Vec<u32>,
    valid: Vec<bool>,
}

impl PaperStore {
    fn new() -> Self {
        Self {
            values: vec![0; ENTRIES],
            valid: vec![false; ENTRIES],
        }
    }

    const fn entry(id: u32) -> usize {
        id as usize % ENTRIES
    }

    fn create(&mut self, id: u32, value: u32) {
        self.values[Self::entry(id)] = value;
        self.valid[Self::entry(id)] = true;
    }

    fn refer(&self, id: u32) -> Option<u32> {
        let entry = Self::entry(id);
        self.valid[entry].then_some(self.values[entry])
    }
}

/// Draws different ids at random `draws` times, creates an account with a value of its own for each of them in the
/// paper's store and in Lineside's, and reads all of them back.
///
/// # Errors
/// There is not enough memory, or Lineside's fast path does not answer.
pub fn measure(accounts: usize, draws: usize, seed: u64) -> Result<Aliasing> {
    let (mut sharing, mut wrong, mut lineside_wrong) = (0, 0, 0);
    for draw in 0..draws.max(1) {
        let ids = ids(accounts, seed.wrapping_add(draw as u64));
        let mut used = vec![0u32; ENTRIES];
        let mut paper = PaperStore::new();
        for (value, id) in (1..).zip(&ids) {
            used[PaperStore::entry(*id)] += 1;
            paper.create(*id, value);
        }
        sharing += ids.iter().filter(|id| used[PaperStore::entry(**id)] > 1).count();
        let read = (1..).zip(&ids);
        wrong += read
            .filter(|(value, id)| paper.refer(**id) != Some(*value))
            .count();
        lineside_wrong += lineside(&ids)?;
    }
    let percent = |count: usize| 100.0 * count as f64 / (accounts * draws.max(1)) as f64;
    Ok(Aliasing {
        accounts,
        sharing_computed_percent: sharing_percent(accounts),
        sharing_measured_percent: percent(sharing),
        wrong_computed_percent: overwritten_percent(accounts),
        wrong_measured_percent: percent(wrong),
        lineside_wrong,
    })
}

fn ids(count: usize, seed: u64) -> Vec<u32> {
    let (mut random, mut seen) = (Random(seed), HashSet::new());
    let draws = std::iter::repeat_with(|| random.next() as u32);
    draws.filter(|id| seen.insert(*id)).take(count).collect()
}

/// Returns the number of accounts of which Lineside's fast path returns another value than the one of their creation.
fn lineside(ids: &[u32]) -> Result<u64> {
    let account_bits = ids.len().next_power_of_two().trailing_zeros().max(1);
    let geometry = Geometry {
        account_bits,
        // Each creation takes a record, and nothing empties the ring.
        ring_bits: (account_bits + 1).max(3),
        mode: Mode::Express,
        ..Geometry::default()
    };
    let store = Store::anonymous(&geometry).map_err(|source| {
        PapersError::NotMade(format!(
            "cannot make a fast-path table for {} accounts; free some memory: {source}",
            ids.len()
        ))
    })?;
    lease::renew(&store.control().lease_until_ns, LEASE_NS);
    let fastpath = TransferFastPath::new(Arc::new(store));
    let from = Source {
        address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        port: 1,
    };
    let ask = |request: PaperRequest| {
        let mut reply = Reply::default();
        let verdict = fastpath.answer(from, lease::now_ns(), &request.to_bytes(), &mut reply);
        match PaperRequest::parse(reply.as_bytes()) {
            Some(reply) if verdict == Verdict::Reply => Ok(reply),
            _ => Err(PapersError::NotMade(format!(
                "the fast path returned {verdict:?} for {request:?}"
            ))),
        }
    };
    for (value, id) in (1..).zip(ids) {
        let reply = ask(PaperRequest::new(TRANSFER_COMMAND_CREATE, 0, *id, 0, value))?;
        if reply.is_refusal() {
            let reason = reply.amount;
            return Err(PapersError::NotMade(format!(
                "the fast path refused to create account {id} with code {reason}"
            )));
        }
    }
    let mut wrong = 0;
    for (value, id) in (1..).zip(ids) {
        let reply = ask(PaperRequest::new(TRANSFER_COMMAND_REFER, 0, *id, 0, 0))?;
        wrong += u64::from(reply.is_refusal() || reply.amount != value);
    }
    Ok(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the closed forms against their Taylor series and against the birthday problem's known answer for 365
    /// days, with the formula of this module.
    #[test]
    fn closed_forms_agree_with_other_formulas() {
        let m = ENTRIES as f64;
        assert_eq!(sharing_percent(1), 0.0);
        assert!((sharing_percent(2) - 100.0 / m).abs() < 1e-9);
        assert!((overwritten_percent(2) - 50.0 / m).abs() < 1e-7);
        // With as many accounts as entries, a share of about 1/e of the entries is not in use.
        assert!((overwritten_percent(ENTRIES) - 100.0 * (-1.0f64).exp()).abs() < 1e-3);
        let accounts = even_chance() as f64;
        assert!(
            (accounts - (2.0 * m * 2f64.ln()).sqrt()).abs() < 1.5,
            "{accounts}"
        );
    }

    #[test]
    fn the_simulation_agrees_with_the_closed_forms_and_lineside_keeps_all_accounts() {
        for accounts in [300, 10_000] {
            let found = measure(accounts, 3, 7).unwrap();
            let expected = found.sharing_computed_percent / 100.0 * accounts as f64 * 3.0;
            // Accounts share entries in pairs, so the variance is about twice that of independent accounts.
            let room = 100.0 * (6.0 * (2.0 * expected).sqrt() + 4.0) / (3 * accounts) as f64;
            assert!(
                (found.sharing_measured_percent - found.sharing_computed_percent).abs() < room,
                "{found:?}"
            );
            assert!(
                (found.wrong_measured_percent - found.wrong_computed_percent).abs() < room,
                "{found:?}"
            );
            assert_eq!(found.lineside_wrong, 0);
        }
    }
}

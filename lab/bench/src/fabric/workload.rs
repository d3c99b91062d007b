//! Blocks of the workloads. They are generated once, and remain in the data folder.

use crate::error::{Result, io};
use lineside_fabric_maker::{Chaincode, Options as Members, Policy, Workload, cache};
use std::path::Path;

/// Number of keys that one setup transaction creates.
const CREATED_AT_ONCE: usize = 100;
/// Number of faulty transactions in a thousand; most of them do not get the code VALID.
const FAULTY: usize = 30;
/// Number of transactions in a thousand that read a range of keys.
const RANGES: usize = 10;

/// Parameters of the transactions of a case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Case {
    pub(super) chaincode: Chaincode,
    pub(super) endorsements: usize,
    pub(super) block: usize,
    pub(super) creators: usize,
    pub(super) policy: Policy,
    /// Number of organisations of the network.
    pub(super) orgs: usize,
}

/// Name of the case with an ImplicitMeta policy.
pub(super) const MAJORITY: &str = "MAJORITY of 3";
/// Name of the case with the most creators.
pub(super) const MANY_CREATORS: &str = "creators 10000";

/// Case to which the gates apply.
pub(super) const GATE: Case = Case {
    chaincode: Chaincode::Smallbank,
    endorsements: 2,
    block: 500,
    creators: 100,
    policy: Policy::Peers,
    orgs: 2,
};

impl Case {
    /// Returns the name of the case: its difference from the case to which the gates apply.
    pub(super) fn name(&self) -> String {
        let mut names = Vec::new();
        if self.chaincode != GATE.chaincode {
            names.push("drm".to_owned());
        }
        if self.endorsements != GATE.endorsements {
            names.push(format!("endorsements {}", self.endorsements));
        }
        if self.block != GATE.block {
            names.push(format!("block {}", self.block));
        }
        if self.creators != GATE.creators {
            names.push(format!("creators {}", self.creators));
        }
        if self.policy != GATE.policy {
            names.push(MAJORITY.to_owned());
        }
        names.join(", ")
    }

    /// Returns the other cases. Each of them changes one parameter of the case to which the gates apply.
    pub(super) fn others() -> Vec<Self> {
        let mut all = vec![Self {
            chaincode: Chaincode::Drm,
            ..GATE
        }];
        all.extend([1, 3, 4].map(|endorsements| Self { endorsements, ..GATE }));
        all.extend([100, 250, 1_000, 5_000].map(|block| Self { block, ..GATE }));
        all.extend([1, 10_000].map(|creators| Self { creators, ..GATE }));
        all.push(Self {
            policy: Policy::Majority,
            orgs: 3,
            ..GATE
        });
        all
    }
}

/// Blocks of a case with a given number of transactions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Blocks<'a> {
    pub(super) case: Case,
    pub(super) seed: u64,
    pub(super) keys: usize,
    pub(super) transactions: u64,
    /// Folder in which generated blocks are stored.
    pub(super) cache: &'a Path,
}

impl Blocks<'_> {
    /// Returns the number of the first measured block. The blocks before it create the channel, the chaincode and its
    /// keys.
    pub(super) fn first(&self) -> u64 {
        let creating = self.keys.div_ceil(CREATED_AT_ONCE).div_ceil(self.case.block);
        (1 + self.case.orgs + 1 + creating) as u64
    }

    /// Opens the blocks, and generates them first if they are missing.
    pub(super) fn open(&self) -> Result<cache::Reader> {
        let orgs = self.case.orgs;
        let members = Members {
            orgs,
            peers: self.case.endorsements.div_ceil(orgs),
            clients: self.case.creators.div_ceil(orgs),
            ..Members::default()
        };
        let workload = Workload {
            chaincode: self.case.chaincode,
            keys: self.keys,
            endorsements: self.case.endorsements,
            policy: self.case.policy,
            creators: self.case.creators,
            block: self.case.block,
            transactions: self.transactions,
            ranges: RANGES,
            faulty: FAULTY,
            ..Workload::default()
        };
        cache::open(self.cache, self.seed, &members, &workload, crate::sys::cores())
            .map_err(io("generating or reading blocks"))
    }
}

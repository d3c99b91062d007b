//! Evaluation of endorsement policies: checks that the required organisations endorsed a transaction, by the policies
//! of each written key, collection and chaincode. It corresponds to Fabric's `vscc`.

use crate::config::Config;
use crate::entries::{Lookup, TxEntries};
use crate::error::Stop;
use crate::expiry::LifetimeCache;
use crate::lifecycle::{self, CollectionPolicy, Definition, Endorsement, LIFECYCLE};
use crate::limits::CACHED_BYTES_MAX;
use crate::msp::Identity;
use crate::policy::Compiler;
use crate::rules::{Rule, Rules};
use crate::rwset::NsRwSet;
use crate::state::State;
use crate::tx::{EndorsedTx, Parsed, ParsedTx, PolicyScan, SignedOutcome};
use hashbrown::{HashMap, HashSet};
use std::sync::Arc;

/// Maximum number of compiled key-level policies that are cached; at this number the cache is cleared.
const KEY_POLICIES_MAX: usize = 10_000;

/// Cache of compiled definitions and key-level policies. The cache is valid for one channel configuration and one
/// content of the namespace `_lifecycle`.
#[derive(Default, Debug)]
pub(crate) struct PolicyCache {
    definitions: HashMap<String, Option<Arc<Definition>>>,
    key_policies: HashMap<Box<[u8]>, Option<Arc<Endorsement>>>,
    /// Cached `blockToLive` values of collections.
    pub lives: LifetimeCache,
}

impl PolicyCache {
    /// Clears the definitions, because a block changed them.
    pub fn forget_definitions(&mut self) {
        self.definitions.clear();
        self.lives.forget();
    }
}

/// Evaluates the endorsements of a block's transactions in order.
pub(crate) struct Endorser<'b> {
    pub state: &'b State,
    pub config: &'b Config,
    pub compiler: Compiler<'b>,
    pub compiled: &'b mut PolicyCache,
    pub rules: Rules,
    /// Keys whose metadata is changed by endorsed transactions of this block.
    pub changed: HashSet<(String, String, Vec<u8>)>,
    /// Keys whose metadata may be changed by transactions of this block on which peers do not finish, or do not agree.
    /// A peer registers the metadata writes of each transaction before it knows whether it will evaluate the
    /// transaction's endorsements. A later transaction that uses such a key waits for the result of that evaluation.
    pub undecided: HashSet<(String, String, Vec<u8>)>,
    /// Operation on a later transaction of this block at which peers stop, and the reason.
    pub halted: Option<(HaltedOperation, &'static str)>,
}

/// Operation of a peer that may never finish.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HaltedOperation {
    /// Evaluation of a transaction whose chaincode is defined.
    Chaincode,
    /// Evaluation of a key-level policy.
    Key,
}

/// Result of evaluating a transaction's endorsements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    Endorsed,
    NotEndorsed,
    /// A chaincode is not defined.
    Undefined,
}

/// Reason why a transaction is not endorsed: a policy is not satisfied, or the peer's decision cannot be determined.
enum Failure {
    Policy,
    Unsure(&'static str),
}

impl Endorser<'_> {
    /// Decides one transaction. Transactions must be passed in block order. `entries` are the lookups of the
    /// transaction's keys of the public state.
    pub fn decide(
        &mut self,
        tx: &EndorsedTx<'_>,
        entries: TxEntries<'_, '_>,
        signers: &[&Identity],
        index: usize,
    ) -> Result<Verdict, Stop> {
        let unsure = |what: &str| Stop::Transaction {
            index,
            what: what.to_owned(),
        };
        let (mut undefined, mut failed) = (false, Vec::new());
        for namespace in std::iter::once(tx.chaincode).chain(tx.others.iter().copied()) {
            let Some(definition) = self.definition(namespace)? else {
                undefined |= self.rules.hold(Rule::DefinedChaincode);
                continue;
            };
            match self.namespace(namespace, &definition, (tx, entries), signers) {
                Ok(()) => {}
                Err(Failure::Policy) => failed.push(namespace),
                Err(Failure::Unsure(what)) => return Err(unsure(what)),
            }
        }
        if undefined && !failed.is_empty() {
            return Err(unsure(
                "peers disagree on it: one namespace is not defined, and the policy of another fails",
            ));
        }
        let verdict = match (undefined, failed.is_empty()) {
            (true, _) => Verdict::Undefined,
            (false, true) => Verdict::Endorsed,
            (false, false) => Verdict::NotEndorsed,
        };
        let several = !tx.others.is_empty();
        for of in &tx.rwset {
            for (collection, key) in metadata_writes(of) {
                let key = (of.namespace.to_owned(), collection.to_owned(), key.to_vec());
                if verdict == Verdict::Endorsed || !self.rules.hold(Rule::KeyLevelInBlockOnlyIfValid) {
                    self.changed.insert(key);
                } else if several && !failed.contains(&of.namespace) {
                    self.undecided.insert(key);
                }
            }
        }
        Ok(verdict)
    }

    /// Records the metadata writes of a transaction whose endorsements are not evaluated.
    pub fn pass_over(&mut self, tx: &Parsed<'_>) {
        let dispatched = match &tx.known {
            ParsedTx::Signed(signed) => match &signed.next {
                SignedOutcome::Endorser(endorser) => endorser.dispatched.as_ref().ok(),
                _ => None,
            },
            _ => None,
        };
        match (dispatched, tx.passed.as_deref()) {
            (Some(dispatched), _) => self.mark_undecided(&dispatched.rwset),
            (None, Some(PolicyScan::Writes(rwset))) => self.mark_undecided(rwset),
            (None, Some(PolicyScan::Halts)) => {
                let what =
                    "peers wait forever for the writes of an earlier transaction that they cannot decode";
                self.halted.get_or_insert((HaltedOperation::Key, what));
            }
            (None, Some(PolicyScan::Crashes)) => {
                self.halted = Some((
                    HaltedOperation::Chaincode,
                    "peers crash on an earlier transaction",
                ));
            }
            (None, Some(PolicyScan::Unsure)) => {
                let what = "the writes of an earlier transaction exceed the size limit";
                self.halted = Some((HaltedOperation::Chaincode, what));
            }
            (None, None) => {}
        }
    }

    fn mark_undecided(&mut self, rwset: &[NsRwSet<'_>]) {
        for of in rwset {
            let keys = metadata_writes(of);
            self.undecided.extend(
                keys.map(|(collection, key)| (of.namespace.to_owned(), collection.to_owned(), key.to_vec())),
            );
        }
    }

    fn comes_to(&self, when: HaltedOperation) -> Result<(), Failure> {
        match self.halted {
            Some((found, what)) if found == when => Err(Failure::Unsure(what)),
            _ => Ok(()),
        }
    }

    fn definition(&mut self, name: &str) -> Result<Option<Arc<Definition>>, Stop> {
        if let Some(known) = self.compiled.definitions.get(name) {
            return Ok(known.clone());
        }
        let found = lifecycle::definition(name, self.state, self.config, self.compiler)?.map(Arc::new);
        // Names without a definition are not cached, because any client can invent such names and fill the cache.
        if found.is_some() {
            self.compiled.definitions.insert(name.to_owned(), found.clone());
        }
        Ok(found)
    }

    fn namespace(
        &mut self,
        namespace: &str,
        definition: &Definition,
        (tx, entries): (&EndorsedTx<'_>, TxEntries<'_, '_>),
        signers: &[&Identity],
    ) -> Result<(), Failure> {
        self.comes_to(HaltedOperation::Chaincode)?;
        if namespace == LIFECYCLE && !self.rules.hold(Rule::LifecyclePolicy) {
            return Ok(());
        }
        let mut checked = SatisfiedPolicies::default();
        let sets = entries.by_namespace(&tx.rwset);
        for (of, entries) in sets.filter(|(of, _)| of.namespace == namespace) {
            let mut check = |key, lookup| self.key(definition, key, lookup, signers, &mut checked);
            for (index, write) in of.public.writes.iter().enumerate() {
                check((namespace, "", write.key.as_bytes()), entries.write(index))?;
            }
            for write in &of.public.metadata_writes {
                check((namespace, "", write.key.as_bytes()), Lookup::Pending)?;
            }
            for collection in &of.collections {
                for write in &collection.hashed.writes {
                    check((namespace, collection.name, write.key_hash), Lookup::Pending)?;
                }
            }
            for collection in &of.collections {
                for write in &collection.hashed.metadata_writes {
                    check((namespace, collection.name, write.key_hash), Lookup::Pending)?;
                }
            }
        }
        if checked.any || !self.rules.hold(Rule::PolicyWithoutWrites) {
            return Ok(());
        }
        self.satisfied(&definition.endorsement, signers)
    }

    fn satisfied(&self, endorsement: &Endorsement, signers: &[&Identity]) -> Result<(), Failure> {
        match endorsement.satisfied(signers, self.config, self.rules) {
            true => Ok(()),
            false => Err(Failure::Policy),
        }
    }

    /// Evaluates the policy for one written key: the key's own policy, otherwise that of its collection, otherwise that
    /// of the chaincode.
    fn key<'t>(
        &mut self,
        definition: &Definition,
        (namespace, collection, key): (&str, &'t str, &[u8]),
        lookup: Lookup<'_>,
        signers: &[&Identity],
        checked: &mut SatisfiedPolicies<'t>,
    ) -> Result<(), Failure> {
        self.comes_to(HaltedOperation::Key)?;
        if !self.changed.is_empty() || !self.undecided.is_empty() {
            let key = (namespace.to_owned(), collection.to_owned(), key.to_vec());
            if self.changed.contains(&key) && self.rules.hold(Rule::KeyLevelInBlock) {
                return Err(Failure::Policy);
            }
            if self.undecided.contains(&key) {
                return Err(Failure::Unsure(
                    "peers disagree on whether an earlier transaction changed the policy of a key it writes",
                ));
            }
        }
        let entry = lookup.entry(self.state, namespace, collection, key);
        let parameter = entry.and_then(|entry| entry.validation_parameter.clone());
        let parameter = parameter.filter(|parameter| !parameter.is_empty());
        if let Some(parameter) = parameter.filter(|_| self.rules.hold(Rule::KeyLevelPolicy)) {
            let policy = self.key_policy(&parameter)?;
            self.satisfied(&policy, signers)?;
            checked.any = true;
            return Ok(());
        }
        if !collection.is_empty() && self.rules.hold(Rule::CollectionPolicy) {
            if checked.collections.contains(&collection) {
                return Ok(());
            }
            let implied;
            let own = match definition.collection(collection, self.config) {
                CollectionPolicy::Missing => return Err(Failure::Policy),
                CollectionPolicy::Own(own) => own,
                CollectionPolicy::Implied(endorsement) => {
                    implied = endorsement;
                    &implied
                }
                CollectionPolicy::Chaincode => &definition.endorsement,
            };
            self.satisfied(own, signers)?;
            checked.collections.push(collection);
            checked.any = true;
            return Ok(());
        }
        if !checked.chaincode {
            self.satisfied(&definition.endorsement, signers)?;
            checked.chaincode = true;
            checked.any = true;
        }
        Ok(())
    }

    fn key_policy(&mut self, parameter: &[u8]) -> Result<Arc<Endorsement>, Failure> {
        const HALTS: &str = "it writes a key whose validation parameter is not a policy";
        if let Some(known) = self.compiled.key_policies.get(parameter) {
            return known.clone().ok_or(Failure::Unsure(HALTS));
        }
        let policy = Endorsement::envelope(parameter, self.compiler)
            .map_err(Failure::Unsure)?
            .map(Arc::new);
        if parameter.len() <= CACHED_BYTES_MAX {
            if self.compiled.key_policies.len() >= KEY_POLICIES_MAX {
                self.compiled.key_policies.clear();
            }
            self.compiled
                .key_policies
                .insert(parameter.into(), policy.clone());
        }
        policy.ok_or(Failure::Unsure(HALTS))
    }
}

/// Policies of one namespace that the endorsements were already found to satisfy.
#[derive(Default)]
struct SatisfiedPolicies<'t> {
    any: bool,
    chaincode: bool,
    collections: Vec<&'t str>,
}

/// Returns collection and key of each metadata write.
fn metadata_writes<'t>(of: &'t NsRwSet<'_>) -> impl Iterator<Item = (&'t str, &'t [u8])> {
    let public = of
        .public
        .metadata_writes
        .iter()
        .map(|write| ("", write.key.as_bytes()));
    public.chain(of.collections.iter().flat_map(|collection| {
        let writes = collection.hashed.metadata_writes.iter();
        writes.map(|write| (collection.name, write.key_hash))
    }))
}

//! Signature policies: which principals must sign. A policy is compiled once and then evaluated for sets of identities.

use crate::limits::POLICY_RULES_MAX;
use crate::msp::{Identity, Msps, Resolution, role};
use crate::proto::{
    self, Arena, CombinedPrincipal, IdentityAnonymity, Malformed, Message, MspPrincipal, MspRole, NOutOf,
    OrganizationUnit, SignaturePolicy, SignaturePolicyEnvelope, plain,
};
use crate::rules::{Rule, Rules};
use lineside_verify::Verifier;
use smallvec::{SmallVec, smallvec};

/// Flag for each of the identities that signed: whether it was counted already. More than eight identities are rare, so
/// the flags of eight identities are stored without an allocation.
type Used = SmallVec<[bool; 8]>;

/// Class of identities that a policy can require.
#[derive(Clone, Debug, PartialEq)]
pub enum Principal {
    /// Any valid identity of the MSP.
    Member(usize),
    /// An admin of the MSP, by its list of certificates or by node OU.
    Admin(usize),
    /// A valid identity of the MSP with one of these roles: bits of [`role`].
    Role(usize, u8),
    /// A valid identity of the MSP with this organizational unit and these certifiers.
    Unit(usize, String, [u8; 32]),
    /// The identity of the MSP with this certificate.
    Certificate(usize, Vec<u8>),
    /// Any identity that an MSP of the channel knows.
    Anybody,
    /// An identity that is in all of these classes.
    All(Vec<Principal>),
    /// The class that contains no identity.
    Nobody,
}

impl Principal {
    /// Returns whether `identity` is in the class.
    pub fn is(&self, identity: &Identity) -> bool {
        match self {
            Principal::Member(msp) => identity.msp == *msp && identity.valid,
            Principal::Admin(msp) => {
                let by_unit = identity.valid && identity.roles & role::ADMIN != 0;
                identity.msp == *msp && (identity.listed_admin || by_unit)
            }
            Principal::Role(msp, roles) => {
                identity.msp == *msp && identity.valid && identity.roles & roles != 0
            }
            Principal::Unit(msp, unit, certifiers) => {
                let has = identity.units.contains(unit) && identity.certifiers == *certifiers;
                identity.msp == *msp && identity.valid && has
            }
            Principal::Certificate(msp, raw) => identity.msp == *msp && identity.raw == *raw,
            Principal::Anybody => true,
            Principal::All(all) => all.iter().all(|principal| principal.is(identity)),
            Principal::Nobody => false,
        }
    }
}

/// Reason why a policy was not compiled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PolicyError {
    /// The bytes are not a policy.
    Malformed,
    /// The bytes are a policy, but peers cannot compile it.
    Compile,
    /// This program does not support the policy, for this reason; peers may support it.
    Unsure(&'static str),
}

impl From<Malformed> for PolicyError {
    fn from(malformed: Malformed) -> Self {
        match malformed {
            Malformed::Bad => PolicyError::Malformed,
            Malformed::TooLarge => PolicyError::Unsure("a policy exceeds the size or nesting limit"),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Node {
    SignedBy(usize),
    NOutOf(i32, Vec<Node>),
}

/// A compiled signature policy.
#[derive(Clone, Debug, PartialEq)]
pub struct CompiledPolicy {
    root: Node,
    principals: Vec<Principal>,
    /// The policy's version; channel policies must have version 0.
    pub version: i32,
}

/// Context for the compilation of policies.
#[derive(Clone, Copy)]
pub(crate) struct Compiler<'a> {
    pub msps: &'a Msps,
    pub verifier: &'a Verifier,
    pub rules: Rules,
}

impl Compiler<'_> {
    /// Compiles a `SignaturePolicyEnvelope`.
    pub fn envelope(self, bytes: &[u8]) -> Result<CompiledPolicy, PolicyError> {
        // The whole envelope must be decodable before any part is compiled.
        let ordered = plain::normalise(SignaturePolicyEnvelope::schema(), bytes)?;
        let arena = Arena::new();
        let envelope: SignaturePolicyEnvelope<'_> = proto::decode(&ordered, &arena)?;
        if envelope.identities.len() > POLICY_RULES_MAX {
            return Err(PolicyError::Unsure("a policy has too many principals"));
        }
        let rule = envelope.rule.ok_or(PolicyError::Compile);
        let principals = envelope
            .identities
            .iter()
            .map(|principal| self.principal(principal, 0));
        let principals = principals.collect::<Result<Vec<_>, _>>()?;
        let mut rules = 0;
        let root = node(rule?, principals.len(), &mut rules, plain::DEPTH_MAX, &arena)?;
        Ok(CompiledPolicy {
            root,
            principals,
            version: envelope.version,
        })
    }

    fn principal(self, principal: &MspPrincipal<'_>, depth: usize) -> Result<Principal, PolicyError> {
        let arena = Arena::new();
        let place = |name: &str| self.msps.index_of(name);
        let bytes = principal.principal;
        Ok(match principal.classification {
            0 => match proto::decode::<MspRole<'_>>(bytes, &arena) {
                Ok(of) => match (place(of.msp_identifier), of.role) {
                    (Some(msp), 0) => Principal::Member(msp),
                    (Some(msp), 1) => Principal::Admin(msp),
                    (Some(msp), 2) => Principal::Role(msp, role::CLIENT),
                    (Some(msp), 3) => Principal::Role(msp, role::PEER),
                    (Some(msp), 4) => Principal::Role(msp, role::ORDERER),
                    _ => Principal::Nobody,
                },
                Err(_) => Principal::Nobody,
            },
            1 => match proto::decode::<OrganizationUnit<'_>>(bytes, &arena) {
                Ok(of) => match (place(of.msp_identifier), of.certifiers_identifier.try_into()) {
                    (Some(msp), Ok(certifiers)) => Principal::Unit(msp, of.unit.to_owned(), certifiers),
                    _ => Principal::Nobody,
                },
                Err(_) => Principal::Nobody,
            },
            2 => match self.msps.resolve(&[bytes], self.verifier, self.rules).pop() {
                Some(Resolution::Known(identity)) if identity.valid => {
                    Principal::Certificate(identity.msp, identity.raw.clone())
                }
                Some(Resolution::Unsure(what)) => return Err(PolicyError::Unsure(what)),
                _ => Principal::Nobody,
            },
            3 => match proto::decode::<IdentityAnonymity<'_>>(bytes, &arena) {
                Ok(of) if of.anonymity == 0 => Principal::Anybody,
                _ => Principal::Nobody,
            },
            // A combined principal may not contain another combined principal; no use of such a policy is known.
            4 if depth == 0 => match proto::decode::<CombinedPrincipal<'_>>(bytes, &arena) {
                Ok(of) if !of.principals.is_empty() => {
                    let all = of.principals.iter().map(|principal| self.principal(principal, 1));
                    Principal::All(all.collect::<Result<_, _>>()?)
                }
                _ => Principal::Nobody,
            },
            4 => return Err(PolicyError::Unsure("a combined principal contains another one")),
            _ => Principal::Nobody,
        })
    }
}

fn node(
    bytes: &[u8],
    principals: usize,
    rules: &mut usize,
    depth: usize,
    arena: &Arena,
) -> Result<Node, PolicyError> {
    let depth = depth.checked_sub(2).ok_or(Malformed::TooLarge)?;
    *rules += 1;
    if *rules > POLICY_RULES_MAX {
        return Err(PolicyError::Unsure("a policy has too many rules"));
    }
    let policy: SignaturePolicy<'_> = proto::decode(bytes, arena)?;
    match (policy.signed_by, policy.n_out_of) {
        (Some(by), _) => {
            let by = usize::try_from(by).map_err(|_| PolicyError::Compile)?;
            if by < principals {
                Ok(Node::SignedBy(by))
            } else {
                Err(PolicyError::Compile)
            }
        }
        (None, Some(of)) => {
            let of: NOutOf<'_> = proto::decode(of, arena)?;
            let mut nodes = Vec::new();
            for rule in of.rules {
                nodes.push(node(rule, principals, rules, depth, arena)?);
            }
            Ok(Node::NOutOf(of.n, nodes))
        }
        (None, None) => Err(PolicyError::Compile),
    }
}

impl CompiledPolicy {
    /// Returns whether these identities, each of which signed, satisfy the policy. Rules are evaluated from left to
    /// right without backtracking, and each identity counts once.
    pub(crate) fn evaluate(&self, identities: &[&Identity], rules: Rules) -> bool {
        let mut used: Used = smallvec![false; identities.len()];
        self.node(&self.root, identities, &mut used, rules)
    }

    fn node(&self, node: &Node, identities: &[&Identity], used: &mut Used, rules: Rules) -> bool {
        match node {
            Node::SignedBy(by) => self.signed_by(*by, identities, used, rules),
            Node::NOutOf(n, nodes) => {
                let mut satisfied = 0i32;
                for node in nodes {
                    satisfied += i32::from(match node {
                        // `signed_by` changes `used` only if the result is true.
                        Node::SignedBy(by) => self.signed_by(*by, identities, used, rules),
                        Node::NOutOf(..) => {
                            let mut branch = used.clone();
                            let is_satisfied = self.node(node, identities, &mut branch, rules);
                            if is_satisfied {
                                *used = branch;
                            }
                            is_satisfied
                        }
                    });
                }
                satisfied >= *n
            }
        }
    }

    /// Returns whether an identity that is not used yet is in the class with index `by`, and marks that identity as
    /// used.
    fn signed_by(&self, by: usize, identities: &[&Identity], used: &mut Used, rules: Rules) -> bool {
        let Some(principal) = self.principals.get(by) else {
            return false;
        };
        for (identity, used) in identities.iter().zip(used) {
            if !*used && principal.is(identity) {
                *used = rules.hold(Rule::SignatureUsedOnce);
                return true;
            }
        }
        false
    }

    /// Returns a policy that requires members of `n` of these MSPs.
    pub(crate) fn members(n: i32, msps: &[usize]) -> Self {
        Self {
            root: Node::NOutOf(n, (0..msps.len()).map(Node::SignedBy).collect()),
            principals: msps.iter().map(|&msp| Principal::Member(msp)).collect(),
            version: 0,
        }
    }
}

//! Chaincode definitions, as committed to the namespace `_lifecycle`: endorsement policies of chaincodes and
//! collections.

use crate::config::{Config, LIFECYCLE_ENDORSEMENT};
use crate::error::Stop;
use crate::msp::Identity;
use crate::policy::{CompiledPolicy, Compiler, PolicyError};
use crate::proto::{
    self, ApplicationPolicy, Arena, ChaincodeEndorsementInfo, ChaincodeValidationInfo,
    CollectionConfigPackage, Message, StateData, StateMetadata, plain,
};
use crate::rules::Rules;
use crate::state::State;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Namespace of the definitions.
pub const LIFECYCLE: &str = "_lifecycle";
/// Namespace of the definitions before Fabric 2.0.
const LEGACY: &str = "lscc";
const IMPLICIT_COLLECTION: &str = "_implicit_org_";

/// An endorsement policy.
#[derive(Clone, Debug)]
pub(crate) enum Endorsement {
    /// A signature policy.
    Signature(Box<CompiledPolicy>),
    /// The channel's policy at this path.
    Reference(String),
    /// A policy that a peer fails to evaluate, so it is never satisfied.
    Impossible,
}

impl Endorsement {
    /// Parses an `ApplicationPolicy`.
    pub fn new(bytes: &[u8], compiler: Compiler<'_>) -> Result<Self, &'static str> {
        let arena = Arena::new();
        match plain::normalise(ApplicationPolicy::schema(), bytes) {
            Ok(_) => {}
            Err(proto::Malformed::Bad) => return Ok(Endorsement::Impossible),
            Err(proto::Malformed::TooLarge) => {
                return Err("a policy exceeds the size or nesting limit");
            }
        }
        let Ok(policy) = proto::decode::<ApplicationPolicy<'_>>(bytes, &arena) else {
            return Ok(Endorsement::Impossible);
        };
        match (policy.signature_policy, policy.channel_config_policy_reference) {
            (Some(envelope), _) => {
                Self::envelope(envelope, compiler).map(|policy| policy.unwrap_or(Self::Impossible))
            }
            (None, Some(reference)) => Ok(match Config::path_of(reference) {
                Some(path) if !path.is_empty() => Self::Reference(path.to_owned()),
                _ => Self::Impossible,
            }),
            (None, None) => Ok(Self::Impossible),
        }
    }

    /// Parses a `SignaturePolicyEnvelope`; `None` if the bytes are not such a message.
    pub fn envelope(bytes: &[u8], compiler: Compiler<'_>) -> Result<Option<Self>, &'static str> {
        match compiler.envelope(bytes) {
            Ok(policy) => Ok(Some(Self::Signature(Box::new(policy)))),
            Err(PolicyError::Malformed) => Ok(None),
            Err(PolicyError::Compile) => Ok(Some(Self::Impossible)),
            Err(PolicyError::Unsure(what)) => Err(what),
        }
    }

    /// Returns whether these identities, each of which signed, satisfy the policy.
    pub fn satisfied(&self, identities: &[&Identity], config: &Config, rules: Rules) -> bool {
        match self {
            Self::Signature(policy) => policy.evaluate(identities, rules),
            Self::Reference(path) => config.evaluate(path, identities, rules),
            Self::Impossible => false,
        }
    }
}

/// A chaincode definition.
#[derive(Clone, Debug)]
pub(crate) struct Definition {
    /// Endorsement policy of the chaincode.
    pub endorsement: Endorsement,
    /// Collections by name.
    collections: HashMap<String, Collection>,
}

#[derive(Clone, Debug)]
struct Collection {
    endorsement: Option<Endorsement>,
}

/// Endorsement policy of a collection.
pub(crate) enum CollectionPolicy<'d> {
    /// The chaincode has no collection of this name. For the name of an implicit collection: the channel has no
    /// organisation with the MSP in the name.
    Missing,
    /// The collection's own policy.
    Own(&'d Endorsement),
    /// The policy of an implicit collection of one organisation.
    Implied(Endorsement),
    /// The chaincode's policy.
    Chaincode,
}

impl Definition {
    /// Returns the policy of a collection.
    pub fn collection(&self, name: &str, config: &Config) -> CollectionPolicy<'_> {
        if let Some(msp) = name.strip_prefix(IMPLICIT_COLLECTION) {
            let index = config.msps.index_of(msp);
            let mut organisations = config.organisations.iter();
            let Some((organisation, _)) = organisations.find(|(_, msp)| Some(**msp) == index) else {
                return CollectionPolicy::Missing;
            };
            let path = format!("Application/{organisation}/Endorsement");
            return CollectionPolicy::Implied(match (config.has(&path), index) {
                (false, Some(index)) => {
                    Endorsement::Signature(Box::new(CompiledPolicy::members(1, &[index])))
                }
                _ => Endorsement::Reference(path),
            });
        }
        match self.collections.get(name) {
            None => CollectionPolicy::Missing,
            Some(collection) => match &collection.endorsement {
                Some(own) => CollectionPolicy::Own(own),
                None => CollectionPolicy::Chaincode,
            },
        }
    }
}

/// Returns the `blockToLive` of each collection of a chaincode whose keys expire, by the collection's name; an empty
/// map if the chaincode is not defined. `get` returns public values of `_lifecycle`.
///
/// Keys of implicit collections, and of `_lifecycle`, never expire.
pub(crate) fn lifetimes(
    name: &str,
    get: &dyn Fn(&str) -> Option<Arc<[u8]>>,
) -> Result<BTreeMap<String, u64>, Stop> {
    let malformed = || Stop::Chaincode {
        name: name.to_owned(),
        what: "the collections are malformed",
    };
    let mut lives = BTreeMap::new();
    let field = format!("namespaces/fields/{name}/Collections");
    if name == LIFECYCLE || get(&format!("namespaces/metadata/{name}")).is_none() {
        return Ok(lives);
    }
    let Some(value) = get(&field) else {
        return Ok(lives);
    };
    let arena = Arena::new();
    let data: StateData<'_> = proto::decode(&value, &arena).map_err(|_| malformed())?;
    let package = data.bytes.unwrap_or_default();
    let package: CollectionConfigPackage<'_> = proto::decode(package, &arena).map_err(|_| malformed())?;
    for fixed in package.configs.into_iter().filter_map(|config| config.fixed) {
        if !fixed.name.starts_with(IMPLICIT_COLLECTION) {
            // If two collections have the same name, peers use the first.
            lives.entry(fixed.name.to_owned()).or_insert(fixed.block_to_live);
        }
    }
    lives.retain(|_, life| *life > 0);
    Ok(lives)
}

/// Returns the committed definition of a chaincode; `None` if a transaction that names the chaincode is invalid because
/// there is no usable definition.
pub(crate) fn definition(
    name: &str,
    state: &State,
    config: &Config,
    compiler: Compiler<'_>,
) -> Result<Option<Definition>, Stop> {
    let stop = |what| Stop::Chaincode {
        name: name.to_owned(),
        what,
    };
    if name == LIFECYCLE {
        let endorsement = if config.has(LIFECYCLE_ENDORSEMENT) {
            Endorsement::Reference(LIFECYCLE_ENDORSEMENT.to_owned())
        } else {
            let msps: Vec<usize> = config.organisations.values().copied().collect();
            let majority = i32::try_from(msps.len() / 2 + 1).unwrap_or(i32::MAX);
            Endorsement::Signature(Box::new(CompiledPolicy::members(majority, &msps)))
        };
        return Ok(Some(Definition {
            endorsement,
            collections: HashMap::new(),
        }));
    }
    let arena = Arena::new();
    let get = |key: String| {
        state
            .get(LIFECYCLE, "", key.as_bytes())
            .map(|entry| entry.value.clone())
    };
    let Some(metadata) = get(format!("namespaces/metadata/{name}")) else {
        return match state.get(LEGACY, "", name.as_bytes()) {
            Some(_) => Err(stop("the chaincode uses the lifecycle of Fabric before 2.0")),
            None => Ok(None),
        };
    };
    let metadata: StateMetadata<'_> =
        proto::decode(&metadata, &arena).map_err(|_| stop("the metadata of the definition is malformed"))?;
    if metadata.datatype != "ChaincodeDefinition" {
        return Err(stop("the metadata of the definition has another type"));
    }
    let field = |field: &str| -> Result<Vec<u8>, Stop> {
        let bytes = get(format!("namespaces/fields/{name}/{field}")).unwrap_or_else(|| [].into());
        let arena = Arena::new();
        let data: StateData<'_> =
            proto::decode(&bytes, &arena).map_err(|_| stop("a field of the definition is malformed"))?;
        match data {
            StateData { int64: Some(_), .. } | StateData { string: Some(_), .. } => {
                Err(stop("a field of the definition has another type"))
            }
            StateData { bytes, .. } => Ok(bytes.unwrap_or_default().to_vec()),
        }
    };
    let sequence = get(format!("namespaces/fields/{name}/Sequence")).unwrap_or_else(|| [].into());
    let sequence: StateData<'_> =
        proto::decode(&sequence, &arena).map_err(|_| stop("a field of the definition is malformed"))?;
    if sequence.bytes.is_some() || sequence.string.is_some() {
        return Err(stop("a field of the definition has another type"));
    }
    let endorsement_info = field("EndorsementInfo")?;
    proto::decode::<ChaincodeEndorsementInfo<'_>>(&endorsement_info, &arena)
        .map_err(|_| stop("the endorsement info is malformed"))?;
    let validation = field("ValidationInfo")?;
    let validation: ChaincodeValidationInfo<'_> =
        proto::decode(&validation, &arena).map_err(|_| stop("the validation info is malformed"))?;
    match validation.validation_plugin {
        "vscc" => {}
        "" => return Ok(None),
        _ => return Err(stop("the validation plugin is not vscc")),
    }
    if validation.validation_parameter.is_empty() {
        return Ok(None);
    }
    let package = field("Collections")?;
    // The decoder does not parse the policies yet, but a peer parses the whole package and halts if that fails.
    // `normalise` therefore checks the whole package.
    plain::normalise(CollectionConfigPackage::schema(), &package)
        .map_err(|_| stop("the collections are malformed"))?;
    let package: CollectionConfigPackage<'_> =
        proto::decode(&package, &arena).map_err(|_| stop("the collections are malformed"))?;
    let mut collections = HashMap::new();
    for fixed in package.configs.into_iter().filter_map(|config| config.fixed) {
        let endorsement = fixed
            .endorsement_policy
            .map(|bytes| Endorsement::new(bytes, compiler));
        let endorsement = endorsement.transpose().map_err(stop)?;
        // If two collections have the same name, peers use the first.
        collections
            .entry(fixed.name.to_owned())
            .or_insert(Collection { endorsement });
    }
    Ok(Some(Definition {
        endorsement: Endorsement::new(validation.validation_parameter, compiler).map_err(stop)?,
        collections,
    }))
}

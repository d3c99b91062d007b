//! The channel configuration that a CONFIG transaction sets: MSPs, policies, capabilities and ACLs. The whole
//! configuration is parsed when it is set.

use crate::error::Stop;
use crate::limits::CONFIG_ITEMS_MAX;
use crate::msp::{Identity, Msp, Msps};
use crate::policy::{CompiledPolicy, Compiler, PolicyError};
use crate::proto::{
    self, Acls, Arena, Capabilities, Config as ConfigMessage, ConfigEnvelope, ConfigGroup, FabricMspConfig,
    HashingAlgorithm, ImplicitMetaPolicy, MspConfig, Orderers, wire,
};
use crate::rules::Rules;
use crate::update;
use lineside_verify::Verifier;
use std::collections::{BTreeMap, HashMap};

/// Maximum nesting depth of groups: channel, application, organisation, and a margin.
const GROUP_DEPTH_MAX: usize = 8;
/// Maximum depth of policies that refer to other policies.
const POLICY_DEPTH_MAX: usize = 16;

/// Capabilities of the channel group that Fabric 3.1 supports.
const CHANNEL_CAPABILITIES: &[&str] = &["V1_1", "V1_3", "V1_4_2", "V1_4_3", "V2_0", "V3_0"];
/// Capabilities of the application group that Fabric 3.1 supports.
const APPLICATION_CAPABILITIES: &[&str] = &[
    "V1_1",
    "V1_2",
    "V1_3",
    "V1_4_2",
    "V2_0",
    "V2_5",
    "V1_2_PVTDATA_EXPERIMENTAL",
    "V1_1_PVTDATA_EXPERIMENTAL",
];

/// Path of the policy that the orderers' signatures on a block must satisfy. Paths of policies begin below the channel
/// group.
pub const BLOCK_VALIDATION: &str = "Orderer/BlockValidation";
/// Path of the policy that endorsements of chaincode definitions must satisfy.
pub const LIFECYCLE_ENDORSEMENT: &str = "Application/LifecycleEndorsement";

#[derive(Debug)]
enum Policy {
    Signature(CompiledPolicy),
    /// A policy over other policies: at least this number of the policies at these paths must be satisfied.
    Implicit(usize, Vec<String>),
}

/// A consenter of a BFT orderer.
#[derive(Debug)]
pub struct Consenter {
    /// Number of the consenter.
    pub id: u32,
    /// The consenter's `SerializedIdentity`.
    pub identity: Vec<u8>,
}

/// A channel configuration.
#[derive(Debug)]
pub struct Config {
    /// Sequence number of the configuration.
    pub sequence: u64,
    /// MSPs of the application and orderer organisations.
    pub msps: Msps,
    /// Index of the MSP of each application organisation, by the organisation's name.
    pub organisations: BTreeMap<String, usize>,
    /// Index of the MSP of each orderer organisation, by the organisation's name.
    orderers: BTreeMap<String, usize>,
    /// The consenters of BFT orderers; `None` if the capability V3_0 is not set.
    pub consenters: Option<Vec<Consenter>>,
    /// Policy references for resources of a peer, by the resource, as the channel's ACLs give them.
    pub acls: HashMap<String, String>,
    policies: HashMap<String, Policy>,
    /// The `ConfigEnvelope` that set this configuration.
    pub(crate) envelope: Vec<u8>,
}

fn wrong(what: impl Into<String>) -> Stop {
    Stop::Config { what: what.into() }
}

/// A parsed group with everything below it.
#[derive(Default)]
struct Group<'a> {
    groups: BTreeMap<&'a str, Group<'a>>,
    values: BTreeMap<&'a str, &'a [u8]>,
    policies: BTreeMap<&'a str, Option<(i32, &'a [u8])>>,
}

impl<'a> Group<'a> {
    fn read(bytes: &'a [u8], depth: usize, items: &mut usize, arena: &'a Arena) -> Result<Self, Stop> {
        let depth = depth
            .checked_sub(1)
            .ok_or_else(|| wrong("the groups are nested too deeply"))?;
        let group: ConfigGroup<'a> =
            proto::decode(bytes, arena).map_err(|_| wrong("a group is malformed"))?;
        *items += 1 + group.values.len() + group.policies.len();
        if *items > CONFIG_ITEMS_MAX {
            return Err(wrong("there are too many groups, values and policies"));
        }
        let mut read = Self::default();
        for entry in group.groups {
            let below = Self::read(entry.value.unwrap_or_default(), depth, items, arena)?;
            read.groups.insert(entry.key, below);
        }
        for entry in group.values {
            read.values
                .insert(entry.key, entry.value.unwrap_or_default().value);
        }
        for entry in group.policies {
            let policy = entry.value.and_then(|value| value.policy);
            read.policies
                .insert(entry.key, policy.map(|policy| (policy.kind, policy.value)));
        }
        Ok(read)
    }

    fn value<M: proto::Message<'a>>(&self, name: &str, arena: &'a Arena) -> Result<Option<M>, Stop> {
        let Some(bytes) = self.values.get(name) else {
            return Ok(None);
        };
        let message = proto::decode(bytes, arena);
        message
            .map(Some)
            .map_err(|_| wrong(format!("the value {name} is malformed")))
    }

    /// Returns the names of the group's capabilities, which must all be in `known`.
    fn capabilities(&self, known: &[&str], of: &str, arena: &'a Arena) -> Result<Vec<&'a str>, Stop> {
        let capabilities: Option<Capabilities<'a>> = self.value("Capabilities", arena)?;
        let capabilities = capabilities.unwrap_or_default().capabilities;
        let names: Vec<_> = capabilities.iter().map(|entry| entry.key).collect();
        if let Some(name) = names.iter().find(|name| !known.contains(name)) {
            return Err(wrong(format!("the {of} capability {name} is not supported")));
        }
        Ok(names)
    }
}

impl Config {
    /// Returns whether `envelope` set this configuration.
    pub(crate) fn is_of(&self, envelope: &[u8]) -> bool {
        self.envelope == envelope
    }

    /// Parses the data of a CONFIG transaction, a `ConfigEnvelope`.
    pub(crate) fn new(bytes: &[u8], verifier: &Verifier, rules: Rules) -> Result<Self, Stop> {
        update::check_names(&update::read_config(bytes)?.1)?;
        let arena = Arena::new();
        let envelope: ConfigEnvelope<'_> =
            proto::decode(bytes, &arena).map_err(|_| wrong("the envelope is malformed"))?;
        let config: ConfigMessage<'_> = envelope.config.ok_or_else(|| wrong("the envelope is empty"))?;
        let root = config
            .channel_group
            .ok_or_else(|| wrong("there is no channel group"))?;
        let root = Group::read(root, GROUP_DEPTH_MAX, &mut 0, &arena)?;
        let application = root
            .groups
            .get("Application")
            .ok_or_else(|| wrong("there is no application group"))?;
        let orderer = root
            .groups
            .get("Orderer")
            .ok_or_else(|| wrong("there is no orderer group"))?;
        let known_groups = ["Application", "Orderer"];
        if let Some(name) = root.groups.keys().find(|name| !known_groups.contains(name)) {
            return Err(wrong(format!(
                "there is an unexpected group {name}; only Application and Orderer are supported"
            )));
        }
        if !orderer.values.contains_key("Capabilities") {
            return Err(wrong("the orderer group has no capabilities"));
        }

        let hashing: Option<HashingAlgorithm<'_>> = root.value("HashingAlgorithm", &arena)?;
        if hashing.is_some_and(|hashing| !matches!(hashing.name, "SHA256")) {
            return Err(wrong("the channel uses a hashing algorithm other than SHA256"));
        }
        let channel = root.capabilities(CHANNEL_CAPABILITIES, "channel", &arena)?;
        if !channel.contains(&"V2_0") && !channel.contains(&"V3_0") {
            return Err(wrong("the channel capability V2_0 or V3_0 is required"));
        }
        let of_application = application.capabilities(APPLICATION_CAPABILITIES, "application", &arena)?;
        if !of_application.contains(&"V2_0") && !of_application.contains(&"V2_5") {
            return Err(wrong("the application capability V2_0 or V2_5 is required"));
        }
        let acls: Option<Acls<'_>> = application.value("ACLs", &arena)?;
        let acls = acls.unwrap_or_default().acls.into_iter();
        let acls = acls.map(|acl| {
            (
                acl.key.to_owned(),
                acl.value.unwrap_or_default().policy_ref.to_owned(),
            )
        });
        let consenters = match channel.contains(&"V3_0") {
            true => Some(consenters(orderer, &arena)?),
            false => None,
        };

        let mut msps = Msps::default();
        let (mut organisations, mut orderers) = (BTreeMap::new(), BTreeMap::new());
        let mut configs = HashMap::new();
        for (places, group) in [(&mut organisations, application), (&mut orderers, orderer)] {
            for (name, organisation) in &group.groups {
                let bytes = organisation
                    .values
                    .get("MSP")
                    .ok_or_else(|| wrong(format!("the organisation {name} has no MSP")))?;
                let takes_ed25519 = channel.contains(&"V3_0");
                let index = add_msp(bytes, &mut msps, &mut configs, (verifier, takes_ed25519), &arena)?;
                places.insert((*name).to_owned(), index);
            }
        }
        let compiler = Compiler {
            msps: &msps,
            verifier,
            rules,
        };
        let mut policies = HashMap::new();
        add_policies(&root, "", compiler, &mut policies)?;
        Ok(Self {
            sequence: config.sequence,
            msps,
            organisations,
            orderers,
            consenters,
            acls: acls.collect(),
            policies,
            envelope: bytes.to_vec(),
        })
    }

    /// Checks that organisations keep the identifiers of their MSPs in the next configuration.
    pub(crate) fn may_become(&self, next: &Self) -> Result<(), Stop> {
        let pairs = [
            (&self.organisations, &next.organisations),
            (&self.orderers, &next.orderers),
        ];
        for (before, after) in pairs {
            for (name, index) in before {
                let of = after.get(name).map(|place| next.msps.name(*place));
                if of.is_some_and(|of| of != self.msps.name(*index)) {
                    return Err(wrong(format!("the organisation {name} must keep its MSP")));
                }
            }
        }
        Ok(())
    }

    /// Returns whether there is a policy at a path.
    pub fn has(&self, path: &str) -> bool {
        self.policies.contains_key(path)
    }

    /// Returns the path, below the channel group, of the policy that a reference names. A reference begins with
    /// `/Channel/` or is relative to the channel group; `None` for any other reference that begins with `/`.
    pub fn path_of(reference: &str) -> Option<&str> {
        match reference.strip_prefix('/') {
            Some(absolute) => absolute.strip_prefix("Channel/"),
            None => Some(reference),
        }
    }

    /// Returns whether these identities, each of which signed, satisfy the policy at a path; false if there is no
    /// policy at that path.
    pub(crate) fn evaluate(&self, path: &str, identities: &[&Identity], rules: Rules) -> bool {
        self.evaluate_within(path, identities, rules, POLICY_DEPTH_MAX)
    }

    fn evaluate_within(&self, path: &str, identities: &[&Identity], rules: Rules, depth: usize) -> bool {
        let Some(depth) = depth.checked_sub(1) else {
            return false;
        };
        match self.policies.get(path) {
            None => false,
            Some(Policy::Signature(policy)) => policy.evaluate(identities, rules),
            Some(Policy::Implicit(threshold, below)) => {
                let satisfied = below
                    .iter()
                    .filter(|path| self.evaluate_within(path, identities, rules, depth));
                satisfied.count() >= *threshold
            }
        }
    }
}

fn add_msp<'a>(
    bytes: &'a [u8],
    msps: &mut Msps,
    configs: &mut HashMap<&'a str, &'a [u8]>,
    (verifier, takes_ed25519): (&Verifier, bool),
    arena: &'a Arena,
) -> Result<usize, Stop> {
    let config: MspConfig<'_> = proto::decode(bytes, arena).map_err(|_| wrong("an MSP is malformed"))?;
    match config.kind {
        0 => {}
        1 => return Err(wrong("an MSP has the type idemix, which is not supported")),
        _ => return Err(wrong("an MSP has an unknown type")),
    }
    let fabric: FabricMspConfig<'_> =
        proto::decode(config.config, arena).map_err(|_| wrong("an MSP is malformed"))?;
    if let Some(earlier) = configs.insert(fabric.name, config.config) {
        if earlier != config.config {
            return Err(wrong(format!("two different MSPs are called {}", fabric.name)));
        }
        return msps
            .index_of(fabric.name)
            .ok_or_else(|| wrong("an MSP is missing"));
    }
    Ok(msps.add(Msp::new(&fabric, verifier, takes_ed25519)?))
}

fn consenters<'a>(orderer: &Group<'a>, arena: &'a Arena) -> Result<Vec<Consenter>, Stop> {
    let orderers: Option<Orderers<'_>> = orderer.value("Orderers", arena)?;
    let serialise = |consenter: &proto::Consenter<'_>| {
        let mut identity = Vec::new();
        if !consenter.msp_id.is_empty() {
            wire::put_bytes(&mut identity, 1, consenter.msp_id.as_bytes());
        }
        if !consenter.identity.is_empty() {
            wire::put_bytes(&mut identity, 2, consenter.identity);
        }
        Consenter {
            id: consenter.id,
            identity,
        }
    };
    Ok(orderers
        .unwrap_or_default()
        .consenters
        .iter()
        .map(serialise)
        .collect())
}

fn add_policies(
    group: &Group<'_>,
    path: &str,
    compiler: Compiler<'_>,
    policies: &mut HashMap<String, Policy>,
) -> Result<(), Stop> {
    let join = |path: &str, name: &str| match path {
        "" => name.to_owned(),
        path => format!("{path}/{name}"),
    };
    for (name, below) in &group.groups {
        add_policies(below, &join(path, name), compiler, policies)?;
    }
    for (name, policy) in &group.policies {
        let at = join(path, name);
        let (kind, value) = policy.ok_or_else(|| wrong(format!("the policy {at} is empty")))?;
        let policy = match kind {
            1 => {
                let compiled = compiler.envelope(value).map_err(|error| match error {
                    PolicyError::Unsure(what) => wrong(format!("the policy {at}: {what}")),
                    PolicyError::Malformed | PolicyError::Compile => {
                        wrong(format!("the policy {at} is malformed"))
                    }
                })?;
                if compiled.version != 0 {
                    return Err(wrong(format!(
                        "the policy {at} has version {}, not 0",
                        compiled.version
                    )));
                }
                Policy::Signature(compiled)
            }
            3 => {
                let owned = Arena::new();
                let implicit: ImplicitMetaPolicy<'_> = proto::decode(value, &owned)
                    .map_err(|_| wrong(format!("the policy {at} is malformed")))?;
                let below = group
                    .groups
                    .keys()
                    .map(|name| join(&join(path, name), implicit.sub_policy));
                let below: Vec<_> = below.collect();
                let threshold = match implicit.rule {
                    0 => below.len().min(1),
                    1 => below.len(),
                    2 if below.is_empty() => 0,
                    2 => below.len() / 2 + 1,
                    _ => return Err(wrong(format!("the policy {at} has an unknown rule"))),
                };
                Policy::Implicit(threshold, below)
            }
            _ => return Err(wrong(format!("the policy {at} is of an unknown type"))),
        };
        policies.insert(at, policy);
    }
    Ok(())
}

//! Checks of a CONFIG transaction against the current configuration: it must be the result of an update whose
//! signatures satisfy the policies of every changed element. The rules are those of Fabric's `common/configtx`. A peer
//! halts on a configuration that violates them, so a violation is always [`Stop::Config`].

use crate::config::Config;
use crate::error::Stop;
use crate::limits::{CONFIG_ITEMS_MAX, ENDORSEMENTS_MAX};
use crate::msp::{Identity, Resolution};
use crate::proto::{
    self, Arena, ChannelHeader, ConfigUpdateEnvelope, Malformed, Payload, SignatureHeader, wire,
};
use crate::rules::Rules;
use crate::signature::{UnverifiedSignature, verify_all};
use lineside_verify::Verifier;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// Maximum nesting depth of groups, the same as for a configuration.
const DEPTH_MAX: usize = 8;
/// Header type of an envelope that contains an update.
const CONFIG_UPDATE: i32 = 2;
/// Policy that an element without a mod_policy gets when an update is applied, if the orderer group has capabilities.
const UPGRADED_MOD_POLICY: &str = "Admins";
/// Maximum length of a name, in bytes.
const NAME_BYTES_MAX: usize = 249;

fn wrong(what: impl Into<String>) -> Stop {
    Stop::Config { what: what.into() }
}

/// Bytes of unknown fields, by field number. Two messages are equal only if their unknown fields are equal too.
type UnknownFields = BTreeMap<u32, Vec<u8>>;

/// Value of a field.
enum Field<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
}

/// A message that stores its unknown fields, and into which further occurrences of the same field can be merged.
trait Merge<'a>: Default {
    /// Sets a field; returns `false` if the field is unknown or has another wire type.
    fn field(&mut self, number: u32, value: &Field<'a>, budget: &mut Budget) -> Result<bool, Malformed>;

    /// Returns the storage of unknown fields; `None` if they are dropped.
    fn unknown(&mut self) -> Option<&mut UnknownFields>;

    fn merge(&mut self, mut rest: &'a [u8], budget: &mut Budget) -> Result<(), Malformed> {
        while !rest.is_empty() {
            let field = rest;
            let (number, wire_type) = wire::tag(&mut rest)?;
            let known = match wire_type {
                wire::VARINT => self.field(number, &Field::Varint(wire::varint(&mut rest)?), budget)?,
                wire::BYTES => {
                    self.field(number, &Field::Bytes(wire::length_delimited(&mut rest)?), budget)?
                }
                other => {
                    wire::skip(number, other, &mut rest)?;
                    false
                }
            };
            if !known && let Some(unknown) = self.unknown() {
                let bytes = field.get(..field.len() - rest.len()).unwrap_or_default();
                unknown.entry(number).or_default().extend_from_slice(bytes);
            }
        }
        Ok(())
    }

    fn read(bytes: &'a [u8], budget: &mut Budget) -> Result<Self, Malformed> {
        let mut read = Self::default();
        read.merge(bytes, budget)?;
        Ok(read)
    }
}

/// Remaining limits on a message that is being parsed.
pub(crate) struct Budget {
    items: usize,
    depth: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            items: CONFIG_ITEMS_MAX,
            depth: DEPTH_MAX,
        }
    }
}

impl Budget {
    fn item(&mut self) -> Result<(), Malformed> {
        self.items = self.items.checked_sub(1).ok_or(Malformed::TooLarge)?;
        Ok(())
    }
}

fn text(bytes: &[u8]) -> Result<&str, Malformed> {
    std::str::from_utf8(bytes).map_err(|_| Malformed::Bad)
}

/// A value or a policy.
#[derive(Clone, Default, PartialEq, Debug)]
pub(crate) struct Leaf<'a, C> {
    pub version: u64,
    pub content: C,
    pub mod_policy: &'a str,
    unknown: UnknownFields,
}

/// Content of a value.
pub(crate) type Value<'a> = &'a [u8];

/// Content of a policy.
#[derive(Clone, Default, PartialEq, Debug)]
pub(crate) struct Policy<'a> {
    pub kind: i32,
    pub value: &'a [u8],
    unknown: UnknownFields,
}

/// A group with everything below it.
#[derive(Clone, Default, PartialEq, Debug)]
pub(crate) struct Group<'a> {
    pub version: u64,
    pub groups: BTreeMap<&'a str, Group<'a>>,
    pub values: BTreeMap<&'a str, Leaf<'a, Value<'a>>>,
    pub policies: BTreeMap<&'a str, Leaf<'a, Option<Policy<'a>>>>,
    pub mod_policy: &'a str,
    unknown: UnknownFields,
}

impl<'a> Merge<'a> for Policy<'a> {
    fn field(&mut self, number: u32, value: &Field<'a>, _: &mut Budget) -> Result<bool, Malformed> {
        match (number, value) {
            (1, Field::Varint(kind)) => self.kind = *kind as i32,
            (2, Field::Bytes(bytes)) => self.value = bytes,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn unknown(&mut self) -> Option<&mut UnknownFields> {
        Some(&mut self.unknown)
    }
}

impl<'a> Merge<'a> for Leaf<'a, Value<'a>> {
    fn field(&mut self, number: u32, value: &Field<'a>, _: &mut Budget) -> Result<bool, Malformed> {
        match (number, value) {
            (1, Field::Varint(version)) => self.version = *version,
            (2, Field::Bytes(bytes)) => self.content = bytes,
            (3, Field::Bytes(bytes)) => self.mod_policy = text(bytes)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn unknown(&mut self) -> Option<&mut UnknownFields> {
        Some(&mut self.unknown)
    }
}

impl<'a> Merge<'a> for Leaf<'a, Option<Policy<'a>>> {
    fn field(&mut self, number: u32, value: &Field<'a>, budget: &mut Budget) -> Result<bool, Malformed> {
        match (number, value) {
            (1, Field::Varint(version)) => self.version = *version,
            (2, Field::Bytes(bytes)) => self.content.get_or_insert_default().merge(bytes, budget)?,
            (3, Field::Bytes(bytes)) => self.mod_policy = text(bytes)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn unknown(&mut self) -> Option<&mut UnknownFields> {
        Some(&mut self.unknown)
    }
}

impl<'a> Merge<'a> for Group<'a> {
    fn field(&mut self, number: u32, value: &Field<'a>, budget: &mut Budget) -> Result<bool, Malformed> {
        match (number, value) {
            (1, Field::Varint(version)) => self.version = *version,
            (2, Field::Bytes(bytes)) => {
                budget.depth = budget.depth.checked_sub(1).ok_or(Malformed::TooLarge)?;
                put_entry(&mut self.groups, bytes, budget)?;
                budget.depth += 1;
            }
            (3, Field::Bytes(bytes)) => put_entry(&mut self.values, bytes, budget)?,
            (4, Field::Bytes(bytes)) => put_entry(&mut self.policies, bytes, budget)?,
            (5, Field::Bytes(bytes)) => self.mod_policy = text(bytes)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn unknown(&mut self) -> Option<&mut UnknownFields> {
        Some(&mut self.unknown)
    }
}

/// An entry of a map. Its unknown fields are dropped, as in Go.
struct Entry<'a, M> {
    key: &'a str,
    value: M,
}

impl<M: Default> Default for Entry<'_, M> {
    fn default() -> Self {
        Self {
            key: "",
            value: M::default(),
        }
    }
}

impl<'a, M: Merge<'a>> Merge<'a> for Entry<'a, M> {
    fn field(&mut self, number: u32, value: &Field<'a>, budget: &mut Budget) -> Result<bool, Malformed> {
        match (number, value) {
            (1, Field::Bytes(bytes)) => self.key = text(bytes)?,
            (2, Field::Bytes(bytes)) => self.value.merge(bytes, budget)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn unknown(&mut self) -> Option<&mut UnknownFields> {
        None
    }
}

/// Adds an entry to a map. If several entries have the same key, the last one is used.
fn put_entry<'a, M: Merge<'a>>(
    map: &mut BTreeMap<&'a str, M>,
    bytes: &'a [u8],
    budget: &mut Budget,
) -> Result<(), Malformed> {
    budget.item()?;
    let entry: Entry<'a, M> = Entry::read(bytes, budget)?;
    map.insert(entry.key, entry.value);
    Ok(())
}

/// `ConfigEnvelope`, with the fields that are needed here.
#[derive(Default)]
struct Envelope<'a> {
    config: Option<Sequenced<'a>>,
    last_update: Option<SignedEnvelope<'a>>,
}

impl<'a> Merge<'a> for Envelope<'a> {
    fn field(&mut self, number: u32, value: &Field<'a>, budget: &mut Budget) -> Result<bool, Malformed> {
        match (number, value) {
            (1, Field::Bytes(bytes)) => self.config.get_or_insert_default().merge(bytes, budget)?,
            (2, Field::Bytes(bytes)) => self.last_update.get_or_insert_default().merge(bytes, budget)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn unknown(&mut self) -> Option<&mut UnknownFields> {
        None
    }
}

/// `Config`, with the fields that are needed here.
#[derive(Default)]
struct Sequenced<'a> {
    sequence: u64,
    group: Option<Group<'a>>,
}

impl<'a> Merge<'a> for Sequenced<'a> {
    fn field(&mut self, number: u32, value: &Field<'a>, budget: &mut Budget) -> Result<bool, Malformed> {
        match (number, value) {
            (1, Field::Varint(sequence)) => self.sequence = *sequence,
            (2, Field::Bytes(bytes)) => self.group.get_or_insert_default().merge(bytes, budget)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn unknown(&mut self) -> Option<&mut UnknownFields> {
        None
    }
}

/// `Envelope` of a configuration update. Peers do not check the signature of this envelope.
#[derive(Default)]
struct SignedEnvelope<'a> {
    payload: &'a [u8],
}

impl<'a> Merge<'a> for SignedEnvelope<'a> {
    fn field(&mut self, number: u32, value: &Field<'a>, _: &mut Budget) -> Result<bool, Malformed> {
        match (number, value) {
            (1, Field::Bytes(bytes)) => self.payload = bytes,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn unknown(&mut self) -> Option<&mut UnknownFields> {
        None
    }
}

/// `ConfigUpdate`: the elements that the update read, and the elements that it writes.
#[derive(Default)]
struct Update<'a> {
    channel: &'a str,
    read: Option<Group<'a>>,
    written: Option<Group<'a>>,
}

impl<'a> Merge<'a> for Update<'a> {
    fn field(&mut self, number: u32, value: &Field<'a>, budget: &mut Budget) -> Result<bool, Malformed> {
        match (number, value) {
            (1, Field::Bytes(bytes)) => self.channel = text(bytes)?,
            (2, Field::Bytes(bytes)) => self.read.get_or_insert_default().merge(bytes, budget)?,
            (3, Field::Bytes(bytes)) => self.written.get_or_insert_default().merge(bytes, budget)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn unknown(&mut self) -> Option<&mut UnknownFields> {
        None
    }
}

/// Returns the sequence number and the channel group of a `ConfigEnvelope`.
pub(crate) fn read_config(envelope: &[u8]) -> Result<(u64, Group<'_>), Stop> {
    let read = read_envelope(envelope)?;
    let config = read.config.ok_or_else(|| wrong("the envelope is empty"))?;
    let group = config.group.ok_or_else(|| wrong("there is no channel group"))?;
    Ok((config.sequence, group))
}

fn read_envelope(envelope: &[u8]) -> Result<Envelope<'_>, Stop> {
    Envelope::read(envelope, &mut Budget::default()).map_err(|_| wrong("the envelope is malformed"))
}

/// Returns whether a name is valid for an element.
fn is_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
    (1..=NAME_BYTES_MAX).contains(&name.len()) && !matches!(name, "." | "..") && name.bytes().all(plain)
}

/// Returns whether a policy reference is valid: names separated by slashes. A reference from the root begins with a
/// slash.
fn is_mod_policy(path: &str) -> bool {
    path.strip_prefix('/').unwrap_or(path).split('/').all(is_name)
}

/// Checks the names of all elements of a group and below it.
pub(crate) fn check_names(group: &Group<'_>) -> Result<(), Stop> {
    let names = group.groups.keys().chain(group.values.keys());
    if let Some(name) = names.chain(group.policies.keys()).find(|name| !is_name(name)) {
        return Err(wrong(format!(
            "an element is called {name:?}, which is not a valid name"
        )));
    }
    group.groups.values().try_for_each(check_names)
}

/// Common properties of groups, values and policies.
trait Element {
    const KIND: &'static str;
    fn version(&self) -> u64;
    fn mod_policy(&self) -> &str;
}

impl Element for Group<'_> {
    const KIND: &'static str = "group";
    fn version(&self) -> u64 {
        self.version
    }
    fn mod_policy(&self) -> &str {
        self.mod_policy
    }
}

impl Element for Leaf<'_, Value<'_>> {
    const KIND: &'static str = "value";
    fn version(&self) -> u64 {
        self.version
    }
    fn mod_policy(&self) -> &str {
        self.mod_policy
    }
}

impl Element for Leaf<'_, Option<Policy<'_>>> {
    const KIND: &'static str = "policy";
    fn version(&self) -> u64 {
        self.version
    }
    fn mod_policy(&self) -> &str {
        self.mod_policy
    }
}

fn join(path: &str, name: &str) -> String {
    match path {
        "" => name.to_owned(),
        path => format!("{path}/{name}"),
    }
}

/// Checks that every element that the update read exists in the current configuration, at the version that was read.
fn check_reads(read: &Group<'_>, current: Option<&Group<'_>>, path: &str) -> Result<(), Stop> {
    check_read(read, current, path)?;
    for (name, below) in &read.groups {
        let current = current.and_then(|current| current.groups.get(name));
        check_reads(below, current, &join(path, name))?;
    }
    for (name, value) in &read.values {
        let current = current.and_then(|current| current.values.get(name));
        check_read(value, current, &join(path, name))?;
    }
    for (name, policy) in &read.policies {
        let current = current.and_then(|current| current.policies.get(name));
        check_read(policy, current, &join(path, name))?;
    }
    Ok(())
}

fn check_read<E: Element>(read: &E, current: Option<&E>, path: &str) -> Result<(), Stop> {
    match current {
        Some(current) if current.version() == read.version() => Ok(()),
        _ => Err(wrong(format!(
            "the configuration update read the {} /Channel/{path} at version {}, but the channel does not \
             have that version",
            E::KIND,
            read.version()
        ))),
    }
}

/// Returns whether an update changes an element that it writes.
fn changes<E: Element>(written: &E, read: Option<&E>) -> bool {
    read.is_none_or(|read| read.version() != written.version())
}

/// Returns the element at a path after the update.
fn updated_element<'e, E: Element>(
    written: Option<&'e E>,
    read: Option<&E>,
    current: Option<&'e E>,
    path: &str,
) -> Result<&'e E, Stop> {
    let written = written.filter(|written| changes(*written, read));
    let chosen = written.or(current);
    chosen.ok_or_else(|| {
        wrong(format!(
            "the configuration update lacks the {} /Channel/{path}",
            E::KIND
        ))
    })
}

/// Returns the group that results from applying an update to the current group.
fn apply<'a>(
    written: Option<&Group<'a>>,
    read: Option<&Group<'a>>,
    current: Option<&Group<'a>>,
    path: &str,
) -> Result<Group<'a>, Stop> {
    let of = updated_element(written, read, current, path)?;
    let mut made = Group {
        version: of.version,
        mod_policy: of.mod_policy,
        unknown: of.unknown.clone(),
        ..Group::default()
    };
    for name in of.groups.keys() {
        let (written, read, current) = (
            written.and_then(|group| group.groups.get(name)),
            read.and_then(|group| group.groups.get(name)),
            current.and_then(|group| group.groups.get(name)),
        );
        made.groups
            .insert(name, apply(written, read, current, &join(path, name))?);
    }
    for name in of.values.keys() {
        let (written, read, current) = (
            written.and_then(|group| group.values.get(name)),
            read.and_then(|group| group.values.get(name)),
            current.and_then(|group| group.values.get(name)),
        );
        let value = updated_element(written, read, current, &join(path, name))?;
        made.values.insert(name, value.clone());
    }
    for name in of.policies.keys() {
        let (written, read, current) = (
            written.and_then(|group| group.policies.get(name)),
            read.and_then(|group| group.policies.get(name)),
            current.and_then(|group| group.policies.get(name)),
        );
        let policy = updated_element(written, read, current, &join(path, name))?;
        made.policies.insert(name, policy.clone());
    }
    Ok(made)
}

/// Sets the mod_policy of elements that have none.
fn upgrade(group: &mut Group<'_>) {
    let below = group
        .values
        .values_mut()
        .map(|value| &mut value.mod_policy)
        .chain(group.policies.values_mut().map(|policy| &mut policy.mod_policy));
    for mod_policy in below.chain([&mut group.mod_policy]) {
        if mod_policy.is_empty() {
            *mod_policy = UPGRADED_MOD_POLICY;
        }
    }
    group.groups.values_mut().for_each(upgrade);
}

/// The signers of an update, with the configuration that it changes.
struct Signers<'c> {
    config: &'c Config,
    rules: Rules,
    signed: Vec<&'c Identity>,
}

impl Signers<'_> {
    /// Checks that every changed element may be changed by these signers. Adds the number of changed elements to
    /// `changed`.
    fn check(
        &self,
        written: &Group<'_>,
        read: Option<&Group<'_>>,
        current: Option<&Group<'_>>,
        path: &str,
        changed: &mut usize,
    ) -> Result<(), Stop> {
        self.element(written, read, current, path, path, changed)?;
        for (name, below) in &written.groups {
            let read = read.and_then(|group| group.groups.get(name));
            let current = current.and_then(|group| group.groups.get(name));
            self.check(below, read, current, &join(path, name), changed)?;
        }
        for (name, value) in &written.values {
            let read = read.and_then(|group| group.values.get(name));
            let current = current.and_then(|group| group.values.get(name));
            self.element(value, read, current, &join(path, name), path, changed)?;
        }
        for (name, policy) in &written.policies {
            let read = read.and_then(|group| group.policies.get(name));
            let current = current.and_then(|group| group.policies.get(name));
            self.element(policy, read, current, &join(path, name), path, changed)?;
        }
        Ok(())
    }

    /// Checks one element. `base` is the path from which a relative policy reference is resolved.
    fn element<E: Element>(
        &self,
        written: &E,
        read: Option<&E>,
        current: Option<&E>,
        path: &str,
        base: &str,
        changed: &mut usize,
    ) -> Result<(), Stop> {
        if !changes(written, read) {
            return Ok(());
        }
        *changed += 1;
        let kind = E::KIND;
        if !is_mod_policy(written.mod_policy()) {
            return Err(wrong(format!(
                "the configuration update gives the {kind} /Channel/{path} no valid mod_policy"
            )));
        }
        let Some(current) = current else {
            return match written.version() {
                0 => Ok(()),
                version => Err(wrong(format!(
                    "the configuration update adds the {kind} /Channel/{path} at version {version}, not 0"
                ))),
            };
        };
        if current.version().checked_add(1) != Some(written.version()) {
            return Err(wrong(format!(
                "the configuration update sets the {kind} /Channel/{path} from version {} to {}, not to the next \
                 version",
                current.version(),
                written.version()
            )));
        }
        let mod_policy = current.mod_policy();
        let policy = match mod_policy.strip_prefix('/') {
            Some(absolute) => absolute.strip_prefix("Channel/").map(str::to_owned),
            None => Some(join(base, mod_policy)),
        };
        let policy = policy.filter(|policy| self.config.has(policy));
        let policy = policy.ok_or_else(|| {
            wrong(format!(
                "the mod_policy {mod_policy:?} of the {kind} /Channel/{path} does not exist"
            ))
        })?;
        if !self.config.evaluate(&policy, &self.signed, self.rules) {
            return Err(wrong(format!(
                "the update of the {kind} /Channel/{path} is not signed as the policy /Channel/{policy} requires"
            )));
        }
        Ok(())
    }
}

/// Checks that the configuration in `envelope`, a `ConfigEnvelope`, follows from `current`.
///
/// # Errors
/// The error names the rule that is violated. A peer halts on this configuration.
pub(crate) fn check(
    envelope: &[u8],
    channel: &str,
    current: &Config,
    verifier: &Verifier,
    rules: Rules,
) -> Result<(), Stop> {
    let (sequence, current_group) = read_config(&current.envelope)?;
    let proposed = read_envelope(envelope)?;
    let config = proposed.config.ok_or_else(|| wrong("the envelope is empty"))?;
    if sequence.checked_add(1) != Some(config.sequence) {
        return Err(wrong(format!(
            "the new configuration has sequence {}, which does not follow the sequence {sequence} of the current \
             configuration",
            config.sequence
        )));
    }
    let last_update = proposed.last_update.ok_or_else(|| {
        wrong("the new configuration does not contain the configuration update from which it results")
    })?;

    let arena = Arena::new();
    let malformed = |_| wrong("the configuration update is malformed");
    let payload: Payload<'_> = proto::decode(last_update.payload, &arena).map_err(malformed)?;
    let header = payload
        .header
        .ok_or_else(|| wrong("the configuration update has no header"))?;
    let header: ChannelHeader<'_> = proto::decode(header.channel_header, &arena).map_err(malformed)?;
    if header.kind != CONFIG_UPDATE {
        return Err(wrong(
            "the header type of the configuration update is not CONFIG_UPDATE",
        ));
    }
    let signed: ConfigUpdateEnvelope<'_> = proto::decode(payload.data, &arena).map_err(malformed)?;
    let update = Update::read(signed.config_update, &mut Budget::default()).map_err(malformed)?;
    if update.channel != channel {
        return Err(wrong(format!(
            "the configuration update is for the channel {:?}, not for {channel:?}",
            update.channel
        )));
    }
    if let Some(read) = &update.read {
        check_names(read)?;
        check_reads(read, Some(&current_group), "")?;
    }
    let (read, written) = (update.read.as_ref(), update.written.as_ref());
    let written = written.ok_or_else(|| wrong("the configuration update changes nothing"))?;
    check_names(written)?;

    if signed.signatures.len() > ENDORSEMENTS_MAX {
        return Err(Stop::Limit {
            what: "signatures of a configuration update",
            found: signed.signatures.len(),
            limit: ENDORSEMENTS_MAX,
        });
    }
    let mut by = Vec::with_capacity(signed.signatures.len());
    for signature in &signed.signatures {
        let header: SignatureHeader<'_> =
            proto::decode(signature.signature_header, &arena).map_err(malformed)?;
        let hasher = Sha256::new().chain_update(signature.signature_header);
        let digest = hasher.chain_update(signed.config_update).finalize().into();
        let message = [signature.signature_header, signed.config_update];
        by.push((header.creator, digest, message, signature.signature));
    }
    let identities: Vec<&[u8]> = by.iter().map(|(creator, ..)| *creator).collect();
    let resolved = current.msps.resolve(&identities, verifier, rules);
    let mut items = Vec::new();
    let mut of_item = Vec::new();
    for (resolution, (_, digest, message, signature)) in resolved.iter().zip(&by) {
        match resolution {
            Resolution::Known(identity) => {
                let parts = || message.to_vec();
                if let Some(item) = UnverifiedSignature::new(&identity.key, *digest, parts, signature, rules)
                {
                    items.push(item);
                    of_item.push(&**identity);
                }
            }
            Resolution::Unknown => {}
            Resolution::Unsure(what) => {
                return Err(wrong(format!(
                    "an identity that signed the configuration update: {what}"
                )));
            }
        }
    }
    let valid = verify_all(&items, verifier, rules);
    let mut signers = Signers {
        config: current,
        rules,
        signed: Vec::new(),
    };
    for (identity, valid) in of_item.into_iter().zip(valid) {
        let again = |other: &&Identity| (other.msp, other.id) == (identity.msp, identity.id);
        if valid && !signers.signed.iter().any(again) {
            signers.signed.push(identity);
        }
    }
    let mut changed = 0;
    signers.check(written, read, Some(&current_group), "", &mut changed)?;
    if changed == 0 {
        return Err(wrong("the configuration update changes nothing"));
    }

    let mut made = apply(Some(written), read, Some(&current_group), "")?;
    let orderer_capabilities = |group: &Group<'_>| {
        let orderer = group.groups.get("Orderer");
        orderer.is_some_and(|orderer| orderer.values.contains_key("Capabilities"))
    };
    // The orderer group may have capabilities in the current configuration or only in the update.
    if orderer_capabilities(&current_group) || orderer_capabilities(written) {
        upgrade(&mut made);
    }
    if config.group.as_ref() != Some(&made) {
        return Err(wrong(
            "the new configuration differs from the result of the configuration update that it contains",
        ));
    }
    Ok(())
}

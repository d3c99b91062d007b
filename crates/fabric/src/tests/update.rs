//! Tests of the rules by which a peer accepts a configuration update.

use super::network::{CHANNEL, Member, Network, Org, envelope, header_of, key, message, number};
use crate::rules::Rule;
use crate::update::{Group, read_config};
use crate::{Error, Stop, TxCode, Validator};
use lineside_testkit::Random;

fn encode(group: &Group<'_>) -> Vec<u8> {
    let entry = |field, name: &str, content: Vec<u8>| {
        message(&[(field, &message(&[(1, name.as_bytes()), (2, &content)]))])
    };
    let mut out = number(1, group.version);
    for (name, below) in &group.groups {
        out.extend(entry(2, name, encode(below)));
    }
    for (name, value) in &group.values {
        let content = message(&[(2, value.content), (3, value.mod_policy.as_bytes())]);
        out.extend(entry(3, name, [number(1, value.version), content].concat()));
    }
    for (name, policy) in &group.policies {
        let content = policy.content.as_ref().unwrap();
        let content = [number(1, content.kind as u64), message(&[(2, content.value)])].concat();
        let content = message(&[(2, &content), (3, policy.mod_policy.as_bytes())]);
        out.extend(entry(4, name, [number(1, policy.version), content].concat()));
    }
    out.extend(message(&[(5, group.mod_policy.as_bytes())]));
    out
}

fn keys<'g, M>(map: &'g std::collections::BTreeMap<&str, M>) -> Vec<&'g str> {
    map.keys().copied().collect()
}

/// Sets the versions of all elements as an update from `before` requires.
fn count(before: &Group<'_>, after: &mut Group<'_>) {
    let same = keys(&before.groups) == keys(&after.groups)
        && keys(&before.values) == keys(&after.values)
        && keys(&before.policies) == keys(&after.policies)
        && before.mod_policy == after.mod_policy;
    after.version = before.version + u64::from(!same);
    for (name, below) in &mut after.groups {
        if let Some(before) = before.groups.get(name) {
            count(before, below);
        }
    }
    for (name, value) in &mut after.values {
        if let Some(before) = before.values.get(name) {
            let same = (before.content, before.mod_policy) == (value.content, value.mod_policy);
            value.version = before.version + u64::from(!same);
        }
    }
    for (name, policy) in &mut after.policies {
        if let Some(before) = before.policies.get(name) {
            let same = (&before.content, before.mod_policy) == (&policy.content, policy.mod_policy);
            policy.version = before.version + u64::from(!same);
        }
    }
}

/// An update of the configuration that reads and writes all elements.
pub struct Change {
    channel: String,
    kind: u64,
    pub sequence: u64,
    pub read: Vec<u8>,
    pub written: Vec<u8>,
    pub proposed: Vec<u8>,
    signers: Vec<Member>,
}

impl Change {
    /// Creates the update from one `ConfigEnvelope` to another. The versions of the elements in `after` are computed.
    pub fn between(before: &[u8], after: &[u8]) -> Self {
        let (sequence, before) = read_config(before).unwrap();
        let (_, mut after) = read_config(after).unwrap();
        count(&before, &mut after);
        Self {
            channel: CHANNEL.to_owned(),
            kind: 2,
            sequence: sequence + 1,
            read: encode(&before),
            written: encode(&after),
            proposed: encode(&after),
            signers: Vec::new(),
        }
    }

    /// Sets the members that sign the update.
    pub fn by(mut self, signers: &[&Member]) -> Self {
        self.signers = signers.iter().map(|signer| (*signer).clone()).collect();
        self
    }

    /// Edits the elements that `of` names: the read set, the write set, the proposed configuration, or the write set
    /// and the proposed configuration.
    fn edit(mut self, of: Of, edit: impl Fn(&mut Group<'_>)) -> Self {
        let apply = |bytes: &[u8]| {
            let config = message(&[(1, &message(&[(2, bytes)]))]);
            let (_, mut group) = read_config(&config).unwrap();
            edit(&mut group);
            encode(&group)
        };
        if matches!(of, Of::Read) {
            self.read = apply(&self.read);
        }
        if matches!(of, Of::Written | Of::Both) {
            self.written = apply(&self.written);
        }
        if matches!(of, Of::Proposed | Of::Both) {
            self.proposed = apply(&self.proposed);
        }
        self
    }

    /// Returns the `ConfigEnvelope`.
    fn config(&self, by: &Member) -> Vec<u8> {
        let sets = [(1, self.channel.as_bytes()), (2, &self.read), (3, &self.written)];
        let update = message(&sets);
        let mut signed = message(&[(1, &update)]);
        for (at, signer) in self.signers.iter().enumerate() {
            let header = message(&[(1, &signer.serialised()), (2, &[at as u8])]);
            let signature = signer.sign(&[header.as_slice(), &update].concat());
            signed.extend(message(&[(2, &message(&[(1, &header), (2, &signature)]))]));
        }
        let header = header_of(self.kind, CHANNEL, "", &by.serialised(), b"nonce", b"");
        let last_update = envelope(by, &message(&[(1, &header), (2, &signed)]));
        let config = [number(1, self.sequence), message(&[(2, &self.proposed)])].concat();
        message(&[(1, &config), (2, &last_update)])
    }

    pub fn transaction(&self, network: &mut Network) -> Vec<u8> {
        let config = self.config(&network.orderer.clone());
        network.transaction_of(&config)
    }
}

enum Of {
    Read,
    Written,
    Proposed,
    Both,
}

/// A channel with an update that its first organisation's admin may make: another revocation list.
struct Case {
    network: Network,
    validator: Validator,
    change: Change,
}

impl Case {
    fn new() -> Self {
        Self::of(Network::new(), None)
    }

    fn of(mut network: Network, broken: Option<Rule>) -> Self {
        let validator = network.start(broken);
        let before = network.config();
        let crl = network.orgs[0].root.revoke(&[7]);
        network.orgs[0].crls.push(crl);
        let admin = network.orgs[0].admin();
        let change = Change::between(&before, &network.config()).by(&[&admin]);
        Self {
            network,
            validator,
            change,
        }
    }

    fn with(mut self, edit: impl FnOnce(Change) -> Change) -> Self {
        self.change = edit(self.change);
        self
    }

    fn by(self, signers: &[&Member]) -> Self {
        self.with(|change| change.by(signers))
    }

    fn outcome(&mut self) -> Result<Vec<TxCode>, Error> {
        let transaction = self.change.transaction(&mut self.network);
        self.network.next(&mut self.validator, &[transaction])
    }

    #[track_caller]
    fn taken(mut self) -> Self {
        assert_eq!(self.outcome().unwrap(), [TxCode::Valid]);
        self
    }

    /// Checks that validation stops with a reason that contains this text.
    #[track_caller]
    fn stops(mut self, why: &str) {
        match self.outcome() {
            Err(Error::Stop(Stop::Config { what })) => assert!(what.contains(why), "{what}"),
            other => panic!("{other:?}, and not {why}"),
        }
        assert_eq!(self.validator.last(), 0);
    }
}

/// Returns the group of the first organisation.
fn org1<'g, 'a>(group: &'g mut Group<'a>) -> &'g mut Group<'a> {
    group
        .groups
        .get_mut("Application")
        .unwrap()
        .groups
        .get_mut("Org1MSP")
        .unwrap()
}

#[test]
fn updates_signed_by_the_required_admins_are_accepted_one_after_the_other() {
    let mut case = Case::new().taken();
    let config = message(&[(
        1,
        &[number(1, 1), message(&[(2, &case.change.proposed)])].concat(),
    )]);
    case.network.orgs[0].crls.clear();
    let admin = case.network.orgs[0].admin();
    case.change = Change::between(&config, &case.network.config()).by(&[&admin]);
    case.taken();
}

const NOT_SIGNED: &str = "is not signed as the policy /Channel/Application/Org1MSP/Admins requires";

#[test]
fn an_update_needs_valid_signatures_of_its_admins() {
    let case = Case::new();
    let (client, other) = (case.network.client(0), case.network.orgs[1].admin());
    let orderer = case.network.orderers.admin();
    case.by(&[]).stops(NOT_SIGNED);
    Case::new().by(&[&client, &other, &orderer]).stops(NOT_SIGNED);
    let mut forged = Case::new().network.orgs[0].admin();
    forged.key = key("another");
    Case::new().by(&[&forged]).stops(NOT_SIGNED);
    // An invalid signature does not invalidate a valid one.
    let admin = Case::new().network.orgs[0].admin();
    Case::new().by(&[&forged, &client, &admin]).taken();
    let mut case = Case::of(Network::new(), Some(Rule::ConfigAuthorised)).by(&[]);
    assert_eq!(case.outcome().unwrap(), [TxCode::Valid]);
}

#[test]
fn an_update_needs_the_next_sequence() {
    for sequence in [0, 2] {
        let mut case = Case::new();
        case.change.sequence = sequence;
        case.stops("the new configuration has sequence");
    }
}

#[test]
fn an_update_raises_each_changed_version_by_one() {
    let set = |version| {
        move |group: &mut Group<'_>| {
            org1(group).values.get_mut("MSP").unwrap().version = version;
        }
    };
    Case::new()
        .with(|change| change.edit(Of::Both, set(0)))
        .stops("the configuration update changes nothing");
    Case::new()
        .with(|change| change.edit(Of::Both, set(2)))
        .stops("from version 0 to 2");
    Case::new()
        .with(|change| change.edit(Of::Read, set(1)))
        .stops("at version 1, but");
    Case::new()
        .with(|change| change.edit(Of::Proposed, set(2)))
        .stops("differs from the result of the configuration update");
    // Another element also changes, but keeps its version.
    let policy = |group: &mut Group<'_>| {
        let below = org1(group);
        below.policies.get_mut("Writers").unwrap().mod_policy = "Writers";
    };
    Case::new()
        .with(|change| change.edit(Of::Both, policy))
        .stops("differs from the result of the configuration update");
    // Another element has a new version in the proposed configuration, but not in the update.
    let policy = |group: &mut Group<'_>| {
        let policies = &mut org1(group).policies;
        policies.get_mut("Writers").unwrap().version = 1;
    };
    Case::new()
        .with(|change| change.edit(Of::Proposed, policy))
        .stops("differs from the result of the configuration update");
    Case::new().with(|change| change.edit(Of::Both, policy)).taken();
}

#[test]
fn an_update_with_a_read_set_that_does_not_exist_stops() {
    let add = |group: &mut Group<'_>| {
        let value = org1(group).values["MSP"].clone();
        org1(group).values.insert("Other", value);
    };
    Case::new()
        .with(|change| change.edit(Of::Read, add))
        .stops("the configuration update read the value /Channel/Application/Org1MSP/Other");
}

#[test]
fn an_added_value_raises_the_version_of_its_group() {
    // Adding a value also changes the group that contains it.
    let add = |version| {
        move |group: &mut Group<'_>| {
            let below = org1(group);
            let mut value = below.values["MSP"].clone();
            value.version = version;
            below.values.insert("Other", value);
            below.version = 1;
        }
    };
    Case::new().with(|change| change.edit(Of::Both, add(0))).taken();
    Case::new()
        .with(|change| change.edit(Of::Both, add(1)))
        .stops("adds the value /Channel/Application/Org1MSP/Other at version 1");
    // If the group keeps its version, the added value has no effect.
    let alone = |group: &mut Group<'_>| {
        add(0)(group);
        org1(group).version = 0;
    };
    Case::new()
        .with(|change| change.edit(Of::Both, alone))
        .stops("differs from the result of the configuration update");
    Case::new().with(|change| change.edit(Of::Written, alone)).taken();
    let underscore = |group: &mut Group<'_>| {
        let below = org1(group);
        let value = below.values["MSP"].clone();
        below.values.insert("a_b", value);
    };
    Case::new()
        .with(|change| change.edit(Of::Written, underscore))
        .stops("an element is called \"a_b\"");
}

/// A new organisation needs signatures of a majority of the organisations' admins.
#[test]
fn a_majority_of_the_organisations_may_add_one() {
    let joining = || {
        let mut network = Network::new();
        let validator = network.start(None);
        let before = network.config();
        network.orgs.push(Org::new("Org3MSP"));
        let change = Change::between(&before, &network.config());
        Case {
            network,
            validator,
            change,
        }
    };
    let [one, two] = [0, 1].map(|org| joining().network.orgs[org].admin());
    joining().by(&[&one, &two]).taken();
    let why = "not signed as the policy /Channel/Application/Admins requires";
    joining().by(&[&one, &one]).stops(why);
    joining().by(&[&two]).stops(why);
}

/// Creates a channel with an edited mod_policy in the configuration.
fn with_mod_policy(edit: impl Fn(&mut Group<'_>)) -> Case {
    let mut network = Network::new();
    let config = network.config();
    let (_, mut group) = read_config(&config).unwrap();
    edit(&mut group);
    network.channel_group = Some(encode(&group));
    let validator = network.start(None);
    let change = Change::between(&network.config(), &network.config());
    Case {
        network,
        validator,
        change,
    }
}

#[test]
fn a_change_needs_the_mod_policy_of_the_changed_element() {
    let mod_policy = |mod_policy: &'static str| {
        let application = move |group: &mut Group<'_>| {
            let application = group.groups.get_mut("Application").unwrap();
            application.values.get_mut("Capabilities").unwrap().mod_policy = mod_policy;
        };
        let bumped = |group: &mut Group<'_>| {
            let application = group.groups.get_mut("Application").unwrap();
            application.values.get_mut("Capabilities").unwrap().version = 1;
        };
        with_mod_policy(application).with(|change| change.edit(Of::Both, bumped))
    };
    let [one, two] = [0, 1].map(|org| Case::new().network.orgs[org].admin());
    let below = "policy /Channel/Application/Org1MSP/Admins requires";
    for path in ["Org1MSP/Admins", "/Channel/Application/Org1MSP/Admins"] {
        mod_policy(path).by(&[&one]).taken();
        mod_policy(path).by(&[&two]).stops(below);
    }
    for path in [
        "Nobody",
        "/Channel/Nobody",
        "/Application/Admins",
        "Application/Admins",
    ] {
        mod_policy(path).by(&[&one, &two]).stops("does not exist");
    }
    for path in ["", "/", "a//b", "a_b", "..", "Org1MSP/"] {
        mod_policy(path)
            .by(&[&one, &two])
            .stops("/Channel/Application/Capabilities no valid mod_policy");
    }
}

/// The mod_policy of a group, if it is a relative path, is looked up below the group itself.
#[test]
fn a_raised_version_needs_the_mod_policy_of_the_group() {
    let bumped = |group: &mut Group<'_>| org1(group).version = 1;
    let [one, two] = [0, 1].map(|org| Case::new().network.orgs[org].admin());
    let case = || with_mod_policy(|_| {}).with(|change| change.edit(Of::Both, bumped));
    case().by(&[&one]).taken();
    case().by(&[&two]).stops(NOT_SIGNED);
}

/// Elements without a mod_policy get one with the next update, even if the update changes only other elements.
#[test]
fn missing_mod_policies_are_filled_in() {
    let empty = |group: &mut Group<'_>| {
        org1(group).policies.get_mut("Writers").unwrap().mod_policy = "";
        group.mod_policy = "";
    };
    let bumped = |group: &mut Group<'_>| org1(group).values.get_mut("MSP").unwrap().version = 1;
    let filled = |group: &mut Group<'_>| {
        org1(group).policies.get_mut("Writers").unwrap().mod_policy = "Admins";
        group.mod_policy = "Admins";
    };
    let admin = Case::new().network.orgs[0].admin();
    let case = || {
        let case = with_mod_policy(empty).by(&[&admin]);
        case.with(|change| change.edit(Of::Both, bumped))
    };
    case().with(|change| change.edit(Of::Proposed, filled)).taken();
    case().stops("differs from the result of the configuration update");
}

/// Unknown fields of an element are compared too, because they are part of its signed content.
#[test]
fn unknown_fields_in_an_update_are_compared() {
    let unknown = message(&[(77, b"?")]);
    let case = || {
        let case = with_mod_policy(|_| {});
        let orgs = case.network.orgs.iter().chain([&case.network.orderers]);
        let admins: Vec<_> = orgs.map(Org::admin).collect();
        let admins: Vec<_> = admins.iter().collect();
        case.with(|change| change.edit(Of::Both, |group| group.version = 1).by(&admins))
    };
    case().taken();
    let with = |written, proposed| {
        let mut case = case();
        if written {
            case.change.written.extend(&unknown);
        }
        if proposed {
            case.change.proposed.extend(&unknown);
        }
        case
    };
    with(true, true).taken();
    with(true, false).stops("differs from the result of the configuration update");
    with(false, true).stops("differs from the result of the configuration update");
}

#[test]
fn an_update_of_another_channel_or_type_stops_validation() {
    let mut case = Case::new();
    case.change.channel = "another".to_owned();
    case.stops("the configuration update is for the channel \"another\"");
    let mut case = Case::new();
    case.change.kind = 1;
    case.stops("the header type of the configuration update is not CONFIG_UPDATE");
    let mut case = Case::new();
    let bare = case.network.config_transaction();
    let outcome = case.network.next(&mut case.validator, &[bare]);
    assert!(
        matches!(outcome, Err(Error::Stop(Stop::Config { .. }))),
        "{outcome:?}"
    );
}

#[test]
fn an_organisation_keeps_its_msp() {
    let mut network = Network::new();
    let validator = network.start(None);
    let before = network.config();
    let admin = network.orgs[0].admin();
    let other = Org::new("OtherMSP");
    let mut change = Change::between(&before, &before).by(&[&admin]);
    let mut other_network = Network::new();
    other_network.orgs = vec![other];
    let config = other_network.config();
    let (_, other) = read_config(&config).unwrap();
    let msp = other.groups["Application"].groups["OtherMSP"].values["MSP"].content;
    let (_, mut after) = read_config(&before).unwrap();
    let value = org1(&mut after).values.get_mut("MSP").unwrap();
    (value.version, value.content) = (1, msp);
    (change.written, change.proposed) = (encode(&after), encode(&after));
    let case = Case {
        network,
        validator,
        change,
    };
    case.stops("the organisation Org1MSP must keep its MSP");
}

/// A mutated configuration transaction is accepted or stops the replica, but never causes a panic.
#[test]
fn mutated_configurations_never_panic() {
    let case = Case::new();
    let config = case.change.config(&case.network.orderer);
    let Case {
        mut network,
        mut validator,
        ..
    } = case;
    let mut random = Random(1);
    let mut stopped = 0;
    for _ in 0..300 {
        let mut bytes = config.clone();
        for _ in 0..=random.index(2) {
            let at = random.index(bytes.len());
            bytes[at] = random.index(256) as u8;
        }
        let transaction = network.transaction_of(&bytes);
        let block = network.block(&[transaction]);
        match validator.validate(&block) {
            Ok(validated) => assert_eq!(validated.codes, [TxCode::Valid]),
            Err(Error::Stop(_)) => stopped += 1,
            Err(refused) => panic!("{refused}"),
        }
    }
    assert!(stopped > 250, "{stopped}");
}

//! Mutation test: disables the validator's rules one at a time. Each disabled rule must change the result for the
//! recorded sets or for the blocks of `crafted`.

use crate::replay::replay_with;
use crate::rules::{Rule, Rules};
use crate::{Options, Validator};
use std::path::{Path, PathBuf};

/// Returns whether the replay of a set shows that a rule is disabled: by a difference, a refused block or a stop.
fn shows(directory: &Path, broken: Rule, options: &Options) -> bool {
    let rules = Rules { broken: Some(broken) };
    let mut start = |genesis: &[u8]| Validator::with_rules(genesis, options.clone(), rules);
    let mut differs = false;
    let replayed = replay_with(directory, &mut start, &mut |block| {
        differs |= !block.differences.is_empty();
        !differs
    });
    differs || replayed.is_err()
}

/// Rules that the blocks of the recorded network `dev` cover.
const BY_DEV: &[Rule] = &[
    Rule::EpochIsZero,
    Rule::HeaderType,
    Rule::CreatorSignature,
    Rule::CreatorValid,
    Rule::LowS,
    Rule::RevokedRefused,
    Rule::OneNodeOu,
    Rule::ExpiryIgnored,
    Rule::TxId,
    Rule::OneAction,
    Rule::ProposalHash,
    Rule::DuplicateInLedger,
    Rule::DuplicateInBlock,
    Rule::InvalidTxIdsIndexed,
    Rule::ChaincodeVersion,
    Rule::EventChaincode,
    Rule::DuplicateNamespace,
    Rule::DefinedChaincode,
    Rule::EndorsementSignature,
    Rule::KeyLevelPolicy,
    Rule::KeyLevelInBlock,
    Rule::ReadVersions,
    Rule::ReadsInBlock,
    Rule::RangeRaw,
    Rule::RangeMerkle,
    Rule::RangeInBlock,
    Rule::MetadataBumpsVersion,
    Rule::CommitHashOfDeletes,
];

/// Rules covered by the part of `dev-edge` in the repository.
const BY_EDGE: &[Rule] = &[
    Rule::CreatorSignature,
    Rule::TrailingBytesAfterDer,
    Rule::EndorserDeduplication,
    Rule::SignatureUsedOnce,
    Rule::KeyLevelInBlockOnlyIfValid,
    Rule::CollectionPolicy,
    Rule::OnlyValidWrites,
];

/// Rules covered by the part of the set `btl` in the repository.
const BY_BTL: &[Rule] = &[
    Rule::Expiry,
    Rule::ExpiryBlock,
    Rule::ExpirySparesWritten,
    Rule::ExpiryAfterCommitHash,
    Rule::HashedReads,
    Rule::CollectionPolicy,
    Rule::MetadataBumpsVersion,
];

/// Rules covered by the part of the set `ed25519` in the repository.
const BY_ED25519: &[Rule] = &[Rule::Ed25519FromV3, Rule::Ed25519OverMessage];

/// Rules covered by the part of the set `msp` in the repository.
const BY_MSP: &[Rule] = &[
    Rule::RevokedRefused,
    Rule::ListWithoutIdentifier,
    Rule::NodeOuCertifiers,
    Rule::RolesWithoutNodeOus,
];

/// Rules that only the whole recorded set `msp` covers: its blocks after the part in the repository.
const BY_MSP_WHOLE: &[Rule] = &[Rule::ListOfIssuer, Rule::ListSigned];

#[test]
fn every_broken_rule_shows_in_the_parts_in_the_repository() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let options = Options::default();
    for (part, rules) in [
        ("edge", BY_EDGE),
        ("btl", BY_BTL),
        ("ed25519", BY_ED25519),
        ("msp", BY_MSP),
    ] {
        for &rule in rules {
            assert!(shows(&data.join(part), rule, &options), "{rule:?} in {part}");
        }
    }
}

/// Returns the folder of a recorded set outside the repository, if it exists.
fn recorded(set: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let directory = root.join("shared/data/fabric-blocks").join(set);
    if directory.join("manifest.json").exists() {
        return Some(directory);
    }
    eprintln!("skipped: there are no recorded blocks at {}", directory.display());
    None
}

#[test]
fn every_broken_rule_shows_in_the_recorded_sets() {
    let options = Options::default();
    let sets = [
        ("dev", BY_DEV),
        ("dev-live/btl", BY_BTL),
        ("dev-live/ed25519", BY_ED25519),
        ("dev-live/msp", BY_MSP),
        ("dev-live/msp", BY_MSP_WHOLE),
    ];
    for (set, rules) in sets {
        let Some(directory) = recorded(set) else { continue };
        for &rule in rules {
            assert!(shows(&directory, rule, &options), "{rule:?} in {set}");
        }
    }
}

//! Validation rules as values, so that the mutation test can disable one at a time. In a build without tests, all rules
//! apply.

/// A validation rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(not(test), allow(dead_code))]
#[allow(missing_docs)]
pub(crate) enum Rule {
    EpochIsZero,
    HeaderType,
    CreatorSignature,
    CreatorValid,
    LowS,
    TrailingBytesAfterDer,
    RevokedRefused,
    OneNodeOu,
    CaRefused,
    ExpiryIgnored,
    TxId,
    OneAction,
    ProposalHash,
    DuplicateInLedger,
    DuplicateInBlock,
    InvalidTxIdsIndexed,
    ChaincodeVersion,
    EventChaincode,
    DuplicateNamespace,
    DefinedChaincode,
    EndorsementSignature,
    EndorserDeduplication,
    SignatureUsedOnce,
    KeyLevelPolicy,
    KeyLevelInBlock,
    KeyLevelInBlockOnlyIfValid,
    PolicyWithoutWrites,
    CollectionPolicy,
    LifecyclePolicy,
    ReadVersions,
    ReadsInBlock,
    RangeRaw,
    RangeMerkle,
    RangeInBlock,
    HashedReads,
    MetadataBumpsVersion,
    OnlyValidWrites,
    EmptyValueDeletes,
    OrdererSignature,
    CommitHashOfDeletes,
    ConfigAppliedAtOnce,
    ConfigAuthorised,
    Expiry,
    ExpiryBlock,
    ExpirySparesWritten,
    ExpiryAfterCommitHash,
    Ed25519FromV3,
    Ed25519OverMessage,
    ListWithoutIdentifier,
    ListOfIssuer,
    ListSigned,
    InternalCas,
    NodeOuCertifiers,
    RolesWithoutNodeOus,
}

/// The set of rules that the validator applies: all rules, except for the one that a test disables.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Rules {
    #[cfg(test)]
    pub broken: Option<Rule>,
}

impl Rules {
    /// Returns whether the validator applies a rule.
    #[inline(always)]
    pub fn hold(self, rule: Rule) -> bool {
        #[cfg(test)]
        return self.broken != Some(rule);
        #[cfg(not(test))]
        {
            let _ = rule;
            true
        }
    }
}

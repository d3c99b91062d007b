//! What may be wrong with a transaction, and what the real peer says of it.

use lineside_fabric::TxCode;

macro_rules! faults {
    ($( $(#[$about:meta])* $name:ident => $code:ident; )+) => {
        /// A way in which a transaction is not as usual. Of some of them a peer takes no notice.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[allow(missing_docs)]
        pub enum Fault { $( $(#[$about])* $name, )+ }

        impl Fault {
            /// All of them.
            pub const ALL: &[Fault] = &[ $( Fault::$name, )+ ];

            /// The code that a peer gives.
            pub fn code(self) -> TxCode {
                match self { $( Fault::$name => TxCode::$code, )+ }
            }
        }
    };
}

faults! {
    /// The payload is no message.
    Payload => BadPayload;
    Epoch => BadCommonHeader;
    /// MESSAGE, which is no transaction.
    HeaderType => BadCommonHeader;
    EmptyNonce => BadCommonHeader;
    /// The creator signed something else.
    CreatorSignature => BadCreatorSignature;
    CreatorHighS => BadCreatorSignature;
    CreatorRevoked => BadCreatorSignature;
    CreatorNoUnit => BadCreatorSignature;
    CreatorTwoUnits => BadCreatorSignature;
    CreatorForeignCa => BadCreatorSignature;
    CreatorUnknownMsp => BadCreatorSignature;
    CreatorIsCa => BadCreatorSignature;
    CreatorExpired => Valid;
    CreatorIsPeer => Valid;
    /// Bytes after the creator's signature, and an endorser's.
    BytesAfterSignatures => Valid;
    ConfigUpdate => UnsupportedTxPayload;
    TxId => BadProposalTxid;
    TwoActions => InvalidEndorserTransaction;
    ProposalHash => InvalidEndorserTransaction;
    /// The same envelope as one of a block before.
    DuplicateInLedger => DuplicateTxid;
    /// The same envelope as one before it in the block, which is valid.
    DuplicateInBlock => DuplicateTxid;
    HeaderExtension => BadHeaderExtension;
    ResponsePayload => BadResponsePayload;
    Rwset => BadRwset;
    /// A key that is not UTF-8.
    KeyText => BadRwset;
    NamespaceTwice => IllegalWriteset;
    ChaincodeUnknown => InvalidChaincode;
    ChaincodeVersionEmpty => InvalidChaincode;
    /// It writes to a namespace that has no chaincode.
    WriteElsewhere => InvalidChaincode;
    /// An event of another chaincode.
    EventOfAnother => InvalidOtherReason;
    NoChaincodeId => InvalidOtherReason;
    /// An endorser signed something else.
    EndorserSignature => EndorsementPolicyFailure;
    EndorserHighS => EndorsementPolicyFailure;
    /// One endorsement fewer than the policy asks for.
    EndorserMissing => EndorsementPolicyFailure;
    NoEndorsements => EndorsementPolicyFailure;
    /// A client in the last peer's place.
    EndorserIsClient => EndorsementPolicyFailure;
    /// The response was changed after it was endorsed.
    ResponseChanged => EndorsementPolicyFailure;
    /// One more endorsement, whose signature is bad.
    ExtraBadEndorsement => Valid;
    EndorsementsReversed => Valid;
    /// A read of a version that is not the last.
    StaleRead => MvccReadConflict;
    /// A read of a key that the block writes before.
    ReadInBlock => MvccReadConflict;
    /// A range that reads a version that is not the last.
    StaleRange => PhantomReadConflict;
}

impl Fault {
    /// Whether a peer halts where another transaction stands behind such a one in its block: it waits for ever for what
    /// this one writes, which it cannot read.
    pub fn halts_behind(self) -> bool {
        matches!(self, Fault::Payload | Fault::ResponsePayload)
    }
}

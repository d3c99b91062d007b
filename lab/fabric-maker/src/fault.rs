//! Faults of a transaction, and the validation codes that a real peer gives to transactions with these faults.

use lineside_fabric::TxCode;

macro_rules! faults {
    ($( $(#[$about:meta])* $name:ident => $code:ident; )+) => {
        /// Deviation of a transaction from the usual form. A peer accepts transactions with some of these deviations.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[allow(missing_docs)]
        pub enum Fault { $( $(#[$about])* $name, )+ }

        impl Fault {
            /// All faults.
            pub const ALL: &[Fault] = &[ $( Fault::$name, )+ ];

            /// Returns the code that a peer gives to a transaction with this fault.
            pub fn code(self) -> TxCode {
                match self { $( Fault::$name => TxCode::$code, )+ }
            }
        }
    };
}

faults! {
    /// The payload is not a valid message.
    Payload => BadPayload;
    Epoch => BadCommonHeader;
    /// The header type is MESSAGE, which is not that of a transaction.
    HeaderType => BadCommonHeader;
    EmptyNonce => BadCommonHeader;
    /// The creator signed other data.
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
    /// Additional bytes follow the creator's signature and an endorser's signature.
    BytesAfterSignatures => Valid;
    ConfigUpdate => UnsupportedTxPayload;
    TxId => BadProposalTxid;
    TwoActions => InvalidEndorserTransaction;
    ProposalHash => InvalidEndorserTransaction;
    /// The envelope is the same as one of an earlier block.
    DuplicateInLedger => DuplicateTxid;
    /// The envelope is the same as that of an earlier, valid transaction in the block.
    DuplicateInBlock => DuplicateTxid;
    HeaderExtension => BadHeaderExtension;
    ResponsePayload => BadResponsePayload;
    Rwset => BadRwset;
    /// A key is not UTF-8.
    KeyText => BadRwset;
    NamespaceTwice => IllegalWriteset;
    ChaincodeUnknown => InvalidChaincode;
    ChaincodeVersionEmpty => InvalidChaincode;
    /// The transaction writes to a namespace without a chaincode.
    WriteElsewhere => InvalidChaincode;
    /// The transaction has an event of another chaincode.
    EventOfAnother => InvalidOtherReason;
    NoChaincodeId => InvalidOtherReason;
    /// An endorser signed other data.
    EndorserSignature => EndorsementPolicyFailure;
    EndorserHighS => EndorsementPolicyFailure;
    /// There is one endorsement fewer than the policy requires.
    EndorserMissing => EndorsementPolicyFailure;
    NoEndorsements => EndorsementPolicyFailure;
    /// A client endorsed instead of the last peer.
    EndorserIsClient => EndorsementPolicyFailure;
    /// The response was changed after the endorsement.
    ResponseChanged => EndorsementPolicyFailure;
    /// There is one more endorsement, with an invalid signature.
    ExtraBadEndorsement => Valid;
    EndorsementsReversed => Valid;
    /// The transaction reads a version of a key that is not the latest.
    StaleRead => MvccReadConflict;
    /// The transaction reads a key that an earlier transaction of the block writes.
    ReadInBlock => MvccReadConflict;
    /// A range query reads a version that is not the latest.
    StaleRange => PhantomReadConflict;
}

impl Fault {
    /// Returns whether a peer halts if a further transaction follows a transaction with this fault in the same block.
    /// The peer waits forever for the writes of the faulty transaction, which it cannot read.
    pub fn halts_behind(self) -> bool {
        matches!(self, Fault::Payload | Fault::ResponsePayload)
    }
}

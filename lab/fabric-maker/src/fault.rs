//! Faults of a transaction, and the validation codes that a real peer gives them.

use lineside_fabric::TxCode;

macro_rules! faults {
    ($( $(#[$about:meta])* $name:ident => $code:ident; )+) => {
        /// Deviation of a transaction from the usual form. A peer accepts some of them.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[allow(missing_docs)]
        pub enum Fault { $( $(#[$about])* $name, )+ }

        impl Fault {
            /// All faults.
            pub const ALL: &[Fault] = &[ $( Fault::$name, )+ ];

            /// Returns the code that a peer gives.
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
    /// The type is MESSAGE, which is not a transaction.
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
    /// Bytes follow the creator's signature and an endorser's.
    BytesAfterSignatures => Valid;
    ConfigUpdate => UnsupportedTxPayload;
    TxId => BadProposalTxid;
    TwoActions => InvalidEndorserTransaction;
    ProposalHash => InvalidEndorserTransaction;
    /// The envelope is the same as one of an earlier block.
    DuplicateInLedger => DuplicateTxid;
    /// The envelope is the same as an earlier, valid one in the block.
    DuplicateInBlock => DuplicateTxid;
    HeaderExtension => BadHeaderExtension;
    ResponsePayload => BadResponsePayload;
    Rwset => BadRwset;
    /// A key is not UTF-8.
    KeyText => BadRwset;
    NamespaceTwice => IllegalWriteset;
    ChaincodeUnknown => InvalidChaincode;
    ChaincodeVersionEmpty => InvalidChaincode;
    /// It writes to a namespace without a chaincode.
    WriteElsewhere => InvalidChaincode;
    /// It has an event of another chaincode.
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
    /// It reads a version that is not the latest.
    StaleRead => MvccReadConflict;
    /// It reads a key that an earlier transaction of the block writes.
    ReadInBlock => MvccReadConflict;
    /// A range query reads a version that is not the latest.
    StaleRange => PhantomReadConflict;
}

impl Fault {
    /// Returns whether a peer halts if another transaction follows one with this fault in its block. The peer then
    /// waits forever for the writes of the faulty transaction, which it cannot read.
    pub fn halts_behind(self) -> bool {
        matches!(self, Fault::Payload | Fault::ResponsePayload)
    }
}

//! Validation codes of transactions.

macro_rules! codes {
    ($( $number:literal $name:ident $text:literal; )+) => {
        /// Validation code of a transaction: `peer.TxValidationCode`.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
        #[repr(u8)]
        #[allow(missing_docs)]
        pub enum TxCode { $( $name = $number, )+ }

        impl TxCode {
            /// Returns Fabric's name of the code.
            pub fn name(self) -> &'static str {
                match self { $( TxCode::$name => $text, )+ }
            }

            /// Returns the code for a byte of TRANSACTIONS_FILTER.
            pub fn from_number(number: u8) -> Option<Self> {
                match number { $( $number => Some(TxCode::$name), )+ _ => None }
            }
        }
    };
}

codes! {
    0 Valid "VALID";
    1 NilEnvelope "NIL_ENVELOPE";
    2 BadPayload "BAD_PAYLOAD";
    3 BadCommonHeader "BAD_COMMON_HEADER";
    4 BadCreatorSignature "BAD_CREATOR_SIGNATURE";
    5 InvalidEndorserTransaction "INVALID_ENDORSER_TRANSACTION";
    6 InvalidConfigTransaction "INVALID_CONFIG_TRANSACTION";
    7 UnsupportedTxPayload "UNSUPPORTED_TX_PAYLOAD";
    8 BadProposalTxid "BAD_PROPOSAL_TXID";
    9 DuplicateTxid "DUPLICATE_TXID";
    10 EndorsementPolicyFailure "ENDORSEMENT_POLICY_FAILURE";
    11 MvccReadConflict "MVCC_READ_CONFLICT";
    12 PhantomReadConflict "PHANTOM_READ_CONFLICT";
    13 UnknownTxType "UNKNOWN_TX_TYPE";
    14 TargetChainNotFound "TARGET_CHAIN_NOT_FOUND";
    15 MarshalTxError "MARSHAL_TX_ERROR";
    16 NilTxaction "NIL_TXACTION";
    17 ExpiredChaincode "EXPIRED_CHAINCODE";
    18 ChaincodeVersionConflict "CHAINCODE_VERSION_CONFLICT";
    19 BadHeaderExtension "BAD_HEADER_EXTENSION";
    20 BadChannelHeader "BAD_CHANNEL_HEADER";
    21 BadResponsePayload "BAD_RESPONSE_PAYLOAD";
    22 BadRwset "BAD_RWSET";
    23 IllegalWriteset "ILLEGAL_WRITESET";
    24 InvalidWriteset "INVALID_WRITESET";
    25 InvalidChaincode "INVALID_CHAINCODE";
    254 NotValidated "NOT_VALIDATED";
    255 InvalidOtherReason "INVALID_OTHER_REASON";
}

impl std::fmt::Display for TxCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

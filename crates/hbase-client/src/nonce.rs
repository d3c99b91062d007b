//! Nonces, by which HBase recognises a repeated change.

/// Number that identifies a change. HBase does not execute a change again if it has the nonce of an earlier one. If
/// group and number are 0, the caller has chosen no nonce.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Nonce {
    /// Identity of the client that chose the nonce.
    pub group: u64,
    /// Number of the change among all changes of the client.
    pub number: u64,
}

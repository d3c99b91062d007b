//! Nonces, by which a repeated change is recognised.

/// Number by which HBase recognises a repetition of a change: a change with the nonce of an earlier one is not executed
/// again. If group and number are 0, the caller has chosen no nonce.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Nonce {
    /// Identity of the client that chose the nonce.
    pub group: u64,
    /// Number among the nonces of that client.
    pub number: u64,
}

//! Nonces, by which a repeated change is recognised.

/// Number by which HBase recognises a repetition of a change: a change with the nonce of an earlier one is not made
/// again. A nonce of 0 and 0 means that the caller has chosen none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Nonce {
    /// Identity of the client that chose it.
    pub group: u64,
    /// Number among the nonces of that client.
    pub number: u64,
}

//! Limits of this program. A block that exceeds a limit before its orderer signatures are verified is refused and
//! requested again. If a block with valid signatures exceeds a limit, validation stops with
//! [`Stop::Limit`](crate::Stop::Limit), because the decision of a peer is not known.

/// Maximum size of a block, in bytes. Fabric's orderers limit it to 100 MB by default.
pub const BLOCK_BYTES_MAX: usize = 256 << 20;
/// Maximum number of transactions in a block.
pub const TRANSACTIONS_MAX: usize = 1 << 20;
/// Maximum number of signatures on a block.
pub const SIGNATURES_MAX: usize = 1_024;
/// Maximum size of a block's signatures, in bytes. A thousand signatures with their identities take about 1 MiB.
pub const SIGNATURES_BYTES_MAX: usize = 4 << 20;
/// Maximum number of entries in a repeated field. Each entry takes at least two bytes in the message, and about ten
/// times as much in memory.
pub const REPEATED_ENTRIES_MAX: usize = 1 << 20;
/// Maximum number of endorsements of a transaction.
pub const ENDORSEMENTS_MAX: usize = 1_024;
/// Maximum number of rules, and of principals, of a signature policy.
pub const POLICY_RULES_MAX: usize = 10_000;
/// Maximum number of identities that are cached between blocks. At this limit the cache is cleared.
pub const IDENTITIES_MAX: usize = 200_000;
/// Maximum size of the cached identities, in bytes; see [`IDENTITIES_MAX`].
pub const IDENTITIES_BYTES_MAX: usize = 64 << 20;
/// Maximum size of identities and validation parameters that are cached, in bytes. Text around a certificate is part of
/// the identity's bytes, so one certificate can produce any number of long identities.
pub const CACHED_BYTES_MAX: usize = 16 << 10;
/// Maximum memory of early transactions and their results, in bytes. Transactions beyond this limit are not verified
/// early.
pub const EARLY_BYTES_MAX: usize = 64 << 20;
/// Maximum number of groups, values and policies of a configuration.
pub const CONFIG_ITEMS_MAX: usize = 100_000;
/// Maximum number of CA certificates of an MSP.
pub const CAS_MAX: usize = 1_000;
/// Maximum number of signatures that are checked to find a certificate's chains, as in Go.
pub const CHAIN_CHECKS_MAX: usize = 100;
/// Maximum number of CAs in a chain.
pub const CHAIN_LENGTH_MAX: usize = 16;

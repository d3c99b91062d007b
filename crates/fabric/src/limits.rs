//! What this program takes at most. Beyond it, a block that nobody has vouched for yet is refused, and asked for again;
//! what an orderer has signed is [`Stop::Limit`](crate::Stop::Limit), never a guess.

/// Bytes of a block. Fabric's orderers stop at 100 MB by default.
pub const BLOCK_BYTES_MAX: usize = 256 << 20;
/// Transactions of a block.
pub const TRANSACTIONS_MAX: usize = 1 << 20;
/// Signatures of a block.
pub const SIGNATURES_MAX: usize = 1_024;
/// Bytes of a block's signatures. A thousand with their identities are about one MiB.
pub const SIGNATURES_BYTES_MAX: usize = 4 << 20;
/// Entries of one repeated field of a message; each takes two bytes at least, and some ten times as many in memory.
pub const REPEATED_MAX: usize = 1 << 20;
/// Endorsements of a transaction.
pub const ENDORSEMENTS_MAX: usize = 1_024;
/// Rules and principals of a signature policy.
pub const POLICY_RULES_MAX: usize = 10_000;
/// Identities kept between blocks, and their bytes. When there are more, all are forgotten.
pub const IDENTITIES_MAX: usize = 200_000;
/// See [`IDENTITIES_MAX`].
pub const IDENTITIES_BYTES_MAX: usize = 64 << 20;
/// Longer identities and validation parameters are not kept. Text around a certificate is part of an identity's bytes,
/// so one certificate gives any number of identities of any length.
pub const KEPT_BYTES_MAX: usize = 16 << 10;
/// Bytes of transactions that came before their block was whole, and of what was found out about them. Beyond it they
/// are left alone until the block is read.
pub const EARLY_BYTES_MAX: usize = 64 << 20;
/// Groups, MSPs and policies of a configuration.
pub const CONFIG_ITEMS_MAX: usize = 100_000;
/// CA certificates of an MSP.
pub const CAS_MAX: usize = 1_000;
/// Signatures checked to find a certificate's chains, as in Go.
pub const CHAIN_CHECKS_MAX: usize = 100;
/// CAs in a chain, at most.
pub const CHAIN_LENGTH_MAX: usize = 16;

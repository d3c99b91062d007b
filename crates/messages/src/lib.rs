//! Messages of Lineside's services: their encoding and decoding, the signatures over them, and the proofs in them.
//! Servers and clients use this crate, so that a message has one definition. It does no input or output.
//!
//! The layouts of packets with fixed fields are in `lineside-wire`, which is generated from `spec/`. The messages of
//! `spv` consist of such fields; a light client checks their content with `lineside-spv-proof`.
//!
//! ```
//! use lineside_messages::transfer::AccountId;
//!
//! let account: AccountId = "4000000000".parse()?;
//! assert_eq!(account, AccountId::from_paper(4_000_000_000));
//! # Ok::<(), &'static str>(())
//! ```

pub mod column;
pub mod hybrid;
pub mod spv;
pub mod transfer;

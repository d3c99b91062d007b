//! ECDSA verification in batches, for keys that come back: P-256 and secp256k1; SHA-256 and Keccak-256 in lanes.
//!
//! For public data only: nothing here runs in constant time, so nothing here may touch a secret.

pub mod hash;

//! ECDSA verification in batches, for keys that come back: P-256 and secp256k1; SHA-256 and Keccak-256 in lanes.
//!
//! For public data only: nothing here runs in constant time, so nothing here may touch a secret.

mod affine;
#[cfg(all(target_arch = "x86_64", feature = "simd"))]
mod avx512ifma;
mod curve;
pub mod encoding;
mod endomorphism;
mod engine;
mod inverse;
mod jacobian;
mod known;
mod lanes;
mod memory;
mod portable;
mod recode;
mod table;
mod uint;
mod unknown;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod try_out;

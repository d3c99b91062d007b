//! Verification of ECDSA signatures in batches, on P-256 and secp256k1, which is fastest for keys that recur; and
//! SHA-256 and Keccak-256 of many messages at once in SIMD lanes.
//!
//! This crate is for public data only: it does not run in constant time, so it must not process secrets.
//!
//! A [`Verifier`] takes batches of any size, with any keys and both curves, and returns one [`Verdict`] for each
//! signature. With AVX-512, a thousand signatures in batches take a tenth of the time of a thousand single calls, and a
//! signature by a key that recurs often takes an eighth of the time of one by a new key (with the portable backend: a
//! half, and a tenth). For keys that recur, multiples of the key's point are kept in tables, whose memory
//! [`Options::table_bytes`] limits.
//!
//! ```
//! use lineside_verify::{Curve, Item, PublicKey, SignatureBytes, Verdict, Verifier};
//!
//! # fn hex<const N: usize>(digits: &str) -> [u8; N] {
//! #     std::array::from_fn(|i| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).unwrap())
//! # }
//! // RFC 6979 section A.2.5: the message "sample", hashed with SHA-256, signed over P-256.
//! let key = PublicKey::from_sec1(
//!     Curve::P256,
//!     &hex::<33>("0360fed4ba255a9d31c961eb74c6356d68c049b8923b61fa6ce669622e60f29fb6"),
//! )?;
//! let digest = hex::<32>("af2bdbe1aa9b6ec1e2ade1d694f41fc71a831d0268e9891562113d8a62add1bf");
//! let signature = hex::<64>(concat!(
//!     "efd48b2aacb6a8fd1140dd9cd45e81d69d2c877b56aaf991c34d0ea84eaf3716",
//!     "f7cb1c942d657c41d436c7a1b6e29f65f3e900dbb9aff4064dc4ab2f843acda8",
//! ));
//!
//! // One verifier for the whole process: it is cheap to clone, and threads share it.
//! let verifier = Verifier::default();
//! let signed = Item { key: &key, digest, signature: SignatureBytes::Compact(&signature) };
//! let other_digest = Item { digest: [7; 32], ..signed };
//! let cut_short = Item { signature: SignatureBytes::Der(&signature[..9]), ..signed };
//!
//! let verdicts = verifier.verify_batch(&[signed, other_digest, cut_short]);
//! assert_eq!(verdicts[..2], [Verdict::Valid, Verdict::Invalid]);
//! assert!(matches!(verdicts[2], Verdict::Malformed(_)));
//!
//! assert!(verifier.verify(&signed).is_valid());
//! println!("{} signatures on {}", verifier.stats().signatures, verifier.backend());
//! # Ok::<(), lineside_verify::KeyError>(())
//! ```
//!
//! # Prepared keys
//!
//! A key gets its table after some signatures. For keys that are known beforehand, such as the validators of a ledger,
//! [`Verifier::prepare`] builds the tables at once, and keeps them for as long as the returned handles exist.
//!
//! # Threads
//!
//! There is no thread pool. Divide the work into batches and give each thread a clone of one verifier: clones share
//! their tables. With [`Builds::Deferred`], a thread of your choice builds tables with [`Verifier::build_pending`].
//!
//! # Backends
//!
//! | [`Backend`] | runs on |
//! |---|---|
//! | `avx512ifma` | x86-64 with AVX-512 IFMA (detected at run time), in optimised builds with the feature `simd` |
//! | `portable` | every processor |
//! | `library` | the libraries aws-lc-rs and libsecp256k1, for comparison; feature `library`, off by default |
//!
//! # Ed25519
//!
//! [`ed25519::verify`] verifies one signature. There is no batch verification: the batch equation accepts signatures
//! that the usual single equations reject, so a batch could give other verdicts than single calls.
//!
//! # Policies
//!
//! A high s is valid, as in the standard, unless [`Options::low_s`] is set. [`SignatureBytes`] selects the accepted
//! encoding for each signature.

mod admission_counter;
mod affine;
#[cfg(all(target_arch = "x86_64", feature = "simd"))]
mod avx512ifma;
mod backend;
mod batch;
mod cache;
mod curve;
pub mod ed25519;
pub mod encoding;
mod endomorphism;
mod engine;
mod few;
mod generator;
mod generic;
pub mod hash;
mod inverse;
mod item;
mod jacobian;
mod key;
mod lanes;
#[cfg(feature = "library")]
mod library;
mod memory;
mod portable;
mod precomputed;
mod prepared_key;
mod recode;
mod table;
mod uint;
mod unroll;
mod verifier;

pub use backend::{Backend, BackendUnavailable};
pub use curve::Curve;
pub use item::{Item, SignatureBytes, Verdict, leftmost_256_bits};
pub use key::{KeyError, PublicKey};
pub use prepared_key::{PrepareError, PreparedKey};
pub use verifier::{Builds, Options, Stats, Verifier};

#[cfg(test)]
mod tests;

/// Examples of the README, which `cargo test --doc` compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;

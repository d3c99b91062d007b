//! SHA-256 and Keccak-256 of single messages and of batches.
//!
//! A single SHA-256 message is hashed with the processor's SHA instructions if it has them, else with portable code. A
//! batch is hashed by the fastest [`Backend`] that the processor supports: AVX-512 hashes 16 messages at once with
//! SHA-256 and 8 with Keccak-256, one message per SIMD lane. When the message of a lane ends, the lane takes the next
//! message of the batch. A batch may therefore mix messages of any length. [`sha256_batch`] and [`keccak256_batch`]
//! allocate no memory and need no padded copies of the messages.
//!
//! ```
//! use lineside_verify::hash;
//!
//! let messages: [&[u8]; 2] = [b"abc", b""];
//! let mut digests = [[0; 32]; 2];
//! hash::sha256_batch(&messages, &mut digests);
//! assert_eq!(digests[0], hash::sha256(b"abc"));
//! ```

#[cfg(all(feature = "simd", target_arch = "x86_64"))]
mod avx512;
#[cfg(any(test, all(feature = "simd", target_arch = "x86_64")))]
mod lanes;
mod parts;
mod portable;
#[cfg(any(test, all(feature = "simd", target_arch = "x86_64")))]
mod queue;
#[cfg(all(feature = "simd", target_arch = "x86_64"))]
mod sha_ni;

/// Returns the SHA-256 digest (FIPS 180-4) of one message.
pub fn sha256(message: &[u8]) -> [u8; 32] {
    portable::sha256::digest(message)
}

/// Returns the Keccak-256 digest of one message, in the variant that Ethereum uses: the padding begins with byte
/// `0x01`, while the later SHA3-256 (FIPS 202) uses `0x06`.
pub fn keccak256(message: &[u8]) -> [u8; 32] {
    portable::keccak256::digest(message)
}

/// Computes the SHA-256 digest of each message and writes the digest of `messages[i]` to `digests[i]`.
///
/// # Panics
///
/// Panics if `messages` and `digests` differ in length.
pub fn sha256_batch(messages: &[&[u8]], digests: &mut [[u8; 32]]) {
    Hasher::detect().sha256_batch(messages, digests);
}

/// Computes the SHA-256 digest of each message and writes the digest of `messages[i]` to `digests[i]`. Each message is
/// a list of parts; its digest is that of the concatenated parts.
///
/// Use this function for a few long messages, which are too few to fill the lanes of [`sha256_batch`]. If the processor
/// has SHA instructions, up to four messages are hashed at once with interleaved instructions.
///
/// # Panics
///
/// Panics if `messages` and `digests` differ in length.
pub fn sha256_streams(messages: &[&[&[u8]]], digests: &mut [[u8; 32]]) {
    assert_same_count(messages, digests);
    #[cfg(all(feature = "simd", target_arch = "x86_64"))]
    if let Some(proof) = sha_ni::ShaNi::detect() {
        return sha_ni::digests(proof, messages, digests);
    }
    portable::sha256::of_parts(messages, digests);
}

/// Computes the Keccak-256 digest of each message and writes the digest of `messages[i]` to `digests[i]`.
///
/// # Panics
///
/// Panics if `messages` and `digests` differ in length.
pub fn keccak256_batch(messages: &[&[u8]], digests: &mut [[u8; 32]]) {
    Hasher::detect().keccak256_batch(messages, digests);
}

/// Implementation of the batch functions. All variants exist on every platform, so that a command-line option can name
/// any of them; [`Backend::is_available`] returns whether this build and this processor support the variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Backend {
    /// Hashes in 16 lanes of SHA-256 or 8 lanes of Keccak-256. This needs x86-64 with AVX-512 F and BW, and the crate
    /// feature `simd`.
    Avx512,
    /// Hashes the messages one after another. Available on every platform.
    Portable,
}

impl Backend {
    /// All back ends, fastest first.
    pub const ALL: [Backend; 2] = [Backend::Avx512, Backend::Portable];

    /// Returns the name of the back end in options and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Backend::Avx512 => "avx512",
            Backend::Portable => "portable",
        }
    }

    /// Returns true if this build and this processor support the back end.
    pub fn is_available(self) -> bool {
        Hasher::new(self).is_some()
    }
}

/// Computes batches with one [`Backend`]. A hasher has no mutable state; it can be copied and shared between threads.
#[derive(Clone, Copy, Debug)]
pub struct Hasher(Chosen);

/// Selected back end, with the proof that the processor supports it.
#[derive(Clone, Copy, Debug)]
enum Chosen {
    #[cfg(all(feature = "simd", target_arch = "x86_64"))]
    Avx512(avx512::Avx512),
    Portable,
}

impl Hasher {
    /// Returns a hasher that uses `backend`, or `None` if the back end is not available.
    pub fn new(backend: Backend) -> Option<Hasher> {
        match backend {
            #[cfg(all(feature = "simd", target_arch = "x86_64"))]
            Backend::Avx512 => avx512::Avx512::detect().map(|proof| Hasher(Chosen::Avx512(proof))),
            #[cfg(not(all(feature = "simd", target_arch = "x86_64")))]
            Backend::Avx512 => None,
            Backend::Portable => Some(Hasher(Chosen::Portable)),
        }
    }

    /// Returns a hasher that uses the fastest available back end. The first call queries the processor's features;
    /// later calls read the cached result.
    pub fn detect() -> Hasher {
        let available = Backend::ALL.into_iter().find_map(Hasher::new);
        available.unwrap_or(Hasher(Chosen::Portable))
    }

    /// Returns the back end that this hasher uses.
    pub fn backend(self) -> Backend {
        match self.0 {
            #[cfg(all(feature = "simd", target_arch = "x86_64"))]
            Chosen::Avx512(_) => Backend::Avx512,
            Chosen::Portable => Backend::Portable,
        }
    }

    /// Computes the SHA-256 digest of each message and writes the digest of `messages[i]` to `digests[i]`.
    ///
    /// # Panics
    ///
    /// Panics if `messages` and `digests` differ in length.
    pub fn sha256_batch(self, messages: &[&[u8]], digests: &mut [[u8; 32]]) {
        assert_same_count(messages, digests);
        match self.0 {
            #[cfg(all(feature = "simd", target_arch = "x86_64"))]
            Chosen::Avx512(proof) => avx512::sha256::batch(proof, messages, digests),
            Chosen::Portable => portable::sha256::batch(messages, digests),
        }
    }

    /// Computes the Keccak-256 digest of each message and writes the digest of `messages[i]` to `digests[i]`.
    ///
    /// # Panics
    ///
    /// Panics if `messages` and `digests` differ in length.
    pub fn keccak256_batch(self, messages: &[&[u8]], digests: &mut [[u8; 32]]) {
        assert_same_count(messages, digests);
        match self.0 {
            #[cfg(all(feature = "simd", target_arch = "x86_64"))]
            Chosen::Avx512(proof) => avx512::keccak256::batch(proof, messages, digests),
            Chosen::Portable => portable::keccak256::batch(messages, digests),
        }
    }
}

#[track_caller]
fn assert_same_count<M>(messages: &[M], digests: &[[u8; 32]]) {
    assert!(
        messages.len() == digests.len(),
        "a batch of {} messages needs the same number of digests, not {}",
        messages.len(),
        digests.len()
    );
}

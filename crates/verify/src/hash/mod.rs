//! SHA-256 and Keccak-256: one message, or many messages of different lengths in lanes.
//!
//! One message goes to the SHA instructions of the processor where it has them, or to plain code. A batch goes to the
//! widest [`Backend`] that the processor runs: AVX-512 carries 16 messages through SHA-256 and 8 through Keccak-256 at
//! once. A lane that ends its message takes the next one, so a batch may mix lengths freely; nothing is copied, and
//! nothing is allocated.
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

/// SHA-256 (FIPS 180-4) of one message.
pub fn sha256(message: &[u8]) -> [u8; 32] {
    portable::sha256::digest(message)
}

/// Keccak-256 of one message, as Ethereum uses it: padded with `0x01`, where the later SHA3-256 (FIPS 202) has `0x06`.
pub fn keccak256(message: &[u8]) -> [u8; 32] {
    portable::keccak256::digest(message)
}

/// SHA-256 of every message; `digests[i]` becomes that of `messages[i]`.
///
/// # Panics
///
/// If there are not as many digests as messages.
pub fn sha256_batch(messages: &[&[u8]], digests: &mut [[u8; 32]]) {
    Hasher::detect().sha256_batch(messages, digests);
}

/// SHA-256 of every message, given in parts that are hashed as if they were one; `digests[i]` becomes that of
/// `messages[i]`.
///
/// This is for a few long messages, which do not fill the lanes of [`sha256_batch`]: up to four are hashed side by side
/// by the SHA instructions of the processor, where it has them.
///
/// # Panics
///
/// If there are not as many digests as messages.
pub fn sha256_streams(messages: &[&[&[u8]]], digests: &mut [[u8; 32]]) {
    assert_same_count(messages, digests);
    #[cfg(all(feature = "simd", target_arch = "x86_64"))]
    if let Some(proof) = sha_ni::ShaNi::detect() {
        return sha_ni::digests(proof, messages, digests);
    }
    portable::sha256::of_parts(messages, digests);
}

/// Keccak-256 of every message; `digests[i]` becomes that of `messages[i]`.
///
/// # Panics
///
/// If there are not as many digests as messages.
pub fn keccak256_batch(messages: &[&[u8]], digests: &mut [[u8; 32]]) {
    Hasher::detect().keccak256_batch(messages, digests);
}

/// A way to compute batches. Every back end has its name on every machine, so that an option can ask for it;
/// [`Backend::is_available`] says whether it runs here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Backend {
    /// 16 lanes of SHA-256, 8 of Keccak-256; x86-64 with AVX-512 F and BW, and the crate's feature `simd`.
    Avx512,
    /// One message after the other; runs everywhere.
    Portable,
}

impl Backend {
    /// All back ends, the fastest first.
    pub const ALL: [Backend; 2] = [Backend::Avx512, Backend::Portable];

    /// What options and reports call it.
    pub const fn name(self) -> &'static str {
        match self {
            Backend::Avx512 => "avx512",
            Backend::Portable => "portable",
        }
    }

    /// Whether this build on this processor runs it.
    pub fn is_available(self) -> bool {
        Hasher::new(self).is_some()
    }
}

/// Computes batches with one [`Backend`]. It holds no state: copy it, share it.
#[derive(Clone, Copy, Debug)]
pub struct Hasher(Chosen);

/// A back end together with the proof that the processor has it.
#[derive(Clone, Copy, Debug)]
enum Chosen {
    #[cfg(all(feature = "simd", target_arch = "x86_64"))]
    Avx512(avx512::Avx512),
    Portable,
}

impl Hasher {
    /// A hasher with this back end; `None` where it is not available.
    pub fn new(backend: Backend) -> Option<Hasher> {
        match backend {
            #[cfg(all(feature = "simd", target_arch = "x86_64"))]
            Backend::Avx512 => avx512::Avx512::detect().map(|proof| Hasher(Chosen::Avx512(proof))),
            #[cfg(not(all(feature = "simd", target_arch = "x86_64")))]
            Backend::Avx512 => None,
            Backend::Portable => Some(Hasher(Chosen::Portable)),
        }
    }

    /// A hasher with the fastest back end that is available. The processor is asked once; later calls read a flag.
    pub fn detect() -> Hasher {
        let available = Backend::ALL.into_iter().find_map(Hasher::new);
        available.unwrap_or(Hasher(Chosen::Portable))
    }

    /// The back end in use.
    pub fn backend(self) -> Backend {
        match self.0 {
            #[cfg(all(feature = "simd", target_arch = "x86_64"))]
            Chosen::Avx512(_) => Backend::Avx512,
            Chosen::Portable => Backend::Portable,
        }
    }

    /// SHA-256 of every message; `digests[i]` becomes that of `messages[i]`.
    ///
    /// # Panics
    ///
    /// If there are not as many digests as messages.
    pub fn sha256_batch(self, messages: &[&[u8]], digests: &mut [[u8; 32]]) {
        assert_same_count(messages, digests);
        match self.0 {
            #[cfg(all(feature = "simd", target_arch = "x86_64"))]
            Chosen::Avx512(proof) => avx512::sha256::batch(proof, messages, digests),
            Chosen::Portable => portable::sha256::batch(messages, digests),
        }
    }

    /// Keccak-256 of every message; `digests[i]` becomes that of `messages[i]`.
    ///
    /// # Panics
    ///
    /// If there are not as many digests as messages.
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
        "a batch of {} messages needs as many digests, not {}",
        messages.len(),
        digests.len()
    );
}

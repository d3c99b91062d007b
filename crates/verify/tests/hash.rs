//! Tests of the hashes: every backend must agree with the crates `sha2` and `sha3`, and must give the known answers
//! that the standards publish.

use lineside_verify::hash::{self, Backend, Hasher};
use proptest::prelude::*;
use sha2::Digest;

type Digests = Vec<[u8; 32]>;

fn hashers() -> impl Iterator<Item = Hasher> {
    Backend::ALL.into_iter().filter_map(Hasher::new)
}

fn sha256(message: &[u8]) -> [u8; 32] {
    sha2::Sha256::digest(message).into()
}

fn keccak256(message: &[u8]) -> [u8; 32] {
    sha3::Keccak256::digest(message).into()
}

/// Checks that the batch on every backend, and each single message, have the digests that the crates `sha2` and `sha3`
/// compute.
fn check(messages: &[&[u8]]) {
    let sha: Digests = messages.iter().map(|message| sha256(message)).collect();
    let keccak: Digests = messages.iter().map(|message| keccak256(message)).collect();
    for hasher in hashers() {
        let mut digests = vec![[0xee; 32]; messages.len()];
        hasher.sha256_batch(messages, &mut digests);
        assert!(digests == sha, "SHA-256 on {}", hasher.backend().name());
        digests.fill([0xee; 32]);
        hasher.keccak256_batch(messages, &mut digests);
        assert!(digests == keccak, "Keccak-256 on {}", hasher.backend().name());
    }
}

/// Returns bytes in which no two blocks are equal.
fn noise(bytes: usize) -> Vec<u8> {
    let mut word = 1u64;
    let step = || {
        word = word
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (word >> 56) as u8
    };
    std::iter::repeat_with(step).take(bytes).collect()
}

fn hex(digest: [u8; 32]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn sha256_gives_the_known_answers() {
    // The examples that NIST publishes with FIPS 180-4, and the empty message.
    let two_blocks = b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    let million = vec![b'a'; 1_000_000];
    let known: [(&[u8], &str); 4] = [
        (
            b"",
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        ),
        (
            b"abc",
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        ),
        (
            two_blocks,
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
        ),
        (
            &million,
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0",
        ),
    ];
    for (message, digest) in known {
        assert_eq!(hex(hash::sha256(message)), digest);
        for hasher in hashers() {
            let mut digests = [[0; 32]; 20];
            hasher.sha256_batch(&[message; 20], &mut digests);
            assert_eq!(digests.map(hex), [digest; 20], "{}", hasher.backend().name());
        }
    }
}

#[test]
fn keccak256_gives_the_known_answers() {
    let known: [(&[u8], &str); 2] = [
        (
            b"",
            "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470",
        ),
        (
            b"abc",
            "4e03657aea45a94fc7d47ba826c8d667c0d1e6e33a64a036ec44f58fa12d6c45",
        ),
    ];
    for (message, digest) in known {
        assert_eq!(hex(hash::keccak256(message)), digest);
        for hasher in hashers() {
            let mut digests = [[0; 32]; 20];
            hasher.keccak256_batch(&[message; 20], &mut digests);
            assert_eq!(digests.map(hex), [digest; 20], "{}", hasher.backend().name());
        }
    }
}

#[test]
fn a_single_message_has_the_digest_of_the_reference_crates() {
    let bytes = noise(601);
    for end in 0..=600 {
        let message = &bytes[..end];
        assert_eq!(hash::sha256(message), sha256(message), "{end} bytes");
        assert_eq!(hash::keccak256(message), keccak256(message), "{end} bytes");
    }
}

#[test]
fn every_length_is_hashed_correctly_in_every_lane() {
    // All 16 lanes have messages of the same length, with different bytes and alignments.
    let bytes = noise(2_000);
    for length in 0..=600 {
        let messages: Vec<&[u8]> = (0..16).map(|lane| &bytes[67 * lane..][..length]).collect();
        check(&messages);
    }
}

#[test]
fn a_batch_may_mix_lengths_around_the_padding() {
    let bytes = noise(1_000);
    let lengths = [
        0, 1, 55, 56, 57, 63, 64, 65, 119, 120, 127, 128, 134, 135, 136, 137, 271, 272, 273,
    ];
    for first in 0..lengths.len() {
        let messages: Vec<&[u8]> = (0..50)
            .map(|i| &bytes[7 * i..][..lengths[(first + i * i) % lengths.len()]])
            .collect();
        check(&messages);
    }
}

#[test]
fn a_batch_may_mix_lengths_of_one_block() {
    let bytes = noise(140);
    // 137, the number of lengths, and 41 are coprime: each length occurs in each lane, next to different other lengths.
    let messages: Vec<&[u8]> = (0..137 * 8).map(|i| &bytes[..i * 41 % 137]).collect();
    // The longest messages have two blocks. Check the batch with these messages, and without them.
    check(&messages);
    let short: Vec<&[u8]> = messages
        .into_iter()
        .filter(|message| message.len() < 136)
        .collect();
    check(&short);
    for length in [126, 127, 128, 135] {
        let mut one_longer: Vec<&[u8]> = short[..8].to_vec();
        one_longer[length % 8] = &bytes[..length];
        check(&one_longer);
    }
}

#[test]
fn a_batch_may_have_any_size() {
    let bytes = noise(4_000);
    for size in (0..40).chain([255, 256, 257, 1_100]) {
        let messages: Vec<&[u8]> = (0..size).map(|i| &bytes[i % 97..][..i * 131 % 700]).collect();
        check(&messages);
    }
}

#[test]
fn a_hundred_thousand_short_messages_are_hashed_correctly() {
    let bytes = noise(1_000);
    let messages: Vec<&[u8]> = (0..100_000).map(|i| &bytes[i % 700..][..i % 150]).collect();
    check(&messages);
}

#[test]
fn a_long_message_among_short_ones_is_hashed_correctly() {
    let bytes = noise(10_000_000);
    let mut messages: Vec<&[u8]> = (0..300).map(|i| &bytes[11 * i..][..i]).collect();
    messages[170] = &bytes;
    check(&messages);
}

#[test]
#[should_panic(expected = "a batch of 3 messages needs the same number of digests, not 2")]
fn sha256_batch_wants_a_digest_for_every_message() {
    hash::sha256_batch(&[b"", b"", b""], &mut [[0; 32]; 2]);
}

#[test]
#[should_panic(expected = "a batch of 1 messages needs the same number of digests, not 2")]
fn keccak256_batch_wants_a_message_for_every_digest() {
    hash::keccak256_batch(&[b""], &mut [[0; 32]; 2]);
}

#[test]
fn backends_report_themselves() {
    for backend in Backend::ALL {
        let hasher = Hasher::new(backend);
        assert_eq!(hasher.is_some(), backend.is_available());
        assert_eq!(
            hasher.map(Hasher::backend),
            backend.is_available().then_some(backend)
        );
    }
    assert!(Backend::Portable.is_available());
    let fastest = Backend::ALL.into_iter().find(|backend| backend.is_available());
    assert_eq!(Some(Hasher::detect().backend()), fastest);
    let lanes = cfg!(all(feature = "simd", target_arch = "x86_64"));
    assert!(lanes || !Backend::Avx512.is_available());
}

#[test]
fn hashers_may_be_shared_between_threads() {
    fn shared<T: Send + Sync + Copy>() {}
    shared::<Hasher>();
    shared::<Backend>();
}

#[cfg(unix)]
#[test]
fn no_byte_beyond_a_message_is_read() {
    let pages = guard::Pages::new();
    let bytes = pages.bytes();
    for length in 0..=300 {
        // Check messages that end at the unmapped page after the memory, messages that begin at the unmapped page
        // before the memory, and both in one batch.
        let (end, start) = (&bytes[bytes.len() - length..], &bytes[..length]);
        check(&[end; 16]);
        check(&[start; 16]);
        check(
            &[
                end,
                start,
                &bytes[..1],
                end,
                end,
                start,
                &bytes[bytes.len() - 200..],
            ]
            .repeat(3),
        );
    }
}

/// Two pages of readable bytes between two unreadable pages.
#[cfg(unix)]
mod guard {
    pub struct Pages {
        start: *mut u8,
        page: usize,
    }

    impl Pages {
        pub fn new() -> Pages {
            let (access, flags) = (libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANON);
            // SAFETY: `mmap` creates a new mapping of four pages, which no other code uses. `mprotect` makes the two
            // pages in the middle writable before they are written.
            unsafe {
                let page = usize::try_from(libc::sysconf(libc::_SC_PAGESIZE)).unwrap();
                let start = libc::mmap(std::ptr::null_mut(), 4 * page, access, flags, -1, 0);
                assert_ne!(start, libc::MAP_FAILED);
                let start = start.cast::<u8>();
                let made = libc::mprotect(
                    start.add(page).cast(),
                    2 * page,
                    libc::PROT_READ | libc::PROT_WRITE,
                );
                assert_eq!(made, 0);
                let noise = super::noise(2 * page);
                std::ptr::copy_nonoverlapping(noise.as_ptr(), start.add(page), noise.len());
                Pages { start, page }
            }
        }

        pub fn bytes(&self) -> &[u8] {
            // SAFETY: the two pages in the middle were written when they were mapped, and stay mapped while `self`
            // lives.
            unsafe { std::slice::from_raw_parts(self.start.add(self.page), 2 * self.page) }
        }
    }

    impl Drop for Pages {
        fn drop(&mut self) {
            // SAFETY: `new` mapped these four pages, and no borrow of them exists when `self` is dropped.
            unsafe { libc::munmap(self.start.cast(), 4 * self.page) };
        }
    }
}

/// Generates lengths of messages: mostly short ones, some of a few blocks, and few long ones.
fn length() -> impl Strategy<Value = usize> {
    prop_oneof![4 => 0..150usize, 3 => 0..1_200usize, 1 => 0..20_000usize]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn batches_of_mixed_lengths(spans in prop::collection::vec((0..64usize, length()), 0..120)) {
        let bytes = noise(20_100);
        let messages: Vec<&[u8]> = spans.iter().map(|&(start, length)| &bytes[start..][..length]).collect();
        check(&messages);
    }
}

/// Checks `sha256_streams` with messages in parts of many sizes, whose lengths are around the lengths at which the
/// padding needs another block.
#[test]
fn streams_in_parts_have_the_digests_of_the_reference_crate() {
    let noise = noise(70_000);
    let lengths = [0, 1, 3, 55, 56, 63, 64, 65, 119, 120, 128, 1000, 4097, 20_011];
    for count in 0..10 {
        for (number, cut) in [1, 7, 63, 64, 65, 500, 70_000].into_iter().enumerate() {
            let message = |i: usize| &noise[i * 31..][..lengths[(i * 5 + count + number) % lengths.len()]];
            let parts: Vec<Vec<&[u8]>> = (0..count)
                .map(|i| {
                    let mut parts: Vec<&[u8]> = message(i).chunks(cut + i).collect();
                    parts.insert(parts.len() / 2, &[]);
                    parts
                })
                .collect();
            let messages: Vec<&[&[u8]]> = parts.iter().map(Vec::as_slice).collect();
            let mut digests = vec![[0xee; 32]; count];
            hash::sha256_streams(&messages, &mut digests);
            let expected: Digests = (0..count).map(|i| sha256(message(i))).collect();
            assert_eq!(digests, expected, "{count} messages in parts of {cut}");
        }
    }
}

//! SHA-256 of up to four long messages at once, with the SHA instructions of x86-64.
//!
//! With a single message, these instructions are limited by latency, because each pair of rounds depends on the
//! previous pair. Interleaving several independent messages (streams) fills the idle cycles: four streams take 1.6
//! times as long as one.

use super::parts::Parts;
use super::portable::sha256::{BLOCK_BYTES, INITIAL, ROUND, bytes_of};
use std::arch::x86_64::*;

/// Maximum number of streams that are interleaved.
pub(super) const STREAMS: usize = 4;

type Block = [u8; BLOCK_BYTES];

/// Proof that the processor has the features that the code of this module is compiled for.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShaNi(());

impl ShaNi {
    /// Returns the proof if the processor has SHA, SSE4.1, SSSE3 and AVX.
    pub fn detect() -> Option<ShaNi> {
        let has = is_x86_feature_detected!("sha")
            && is_x86_feature_detected!("sse4.1")
            && is_x86_feature_detected!("ssse3")
            && is_x86_feature_detected!("avx");
        has.then_some(ShaNi(()))
    }
}

/// Hash value of one stream, in the word order of the SHA instructions: A, B, E, F and C, D, G, H.
#[derive(Clone, Copy)]
struct State {
    abef: __m128i,
    cdgh: __m128i,
}

/// Computes the SHA-256 digest of each message, in groups of four. Each message is a list of parts.
pub(super) fn digests(proof: ShaNi, messages: &[&[&[u8]]], digests: &mut [[u8; 32]]) {
    let groups = messages.chunks(STREAMS).zip(digests.chunks_mut(STREAMS));
    for (messages, digests) in groups {
        // SAFETY: `group` needs the CPU features in its attribute, and `proof` exists only if the processor has them.
        unsafe { group(proof, messages, digests) }
    }
}

/// Computes the digests of at most four messages. Each iteration of the loop processes the largest number of blocks
/// that every open stream has in one contiguous run.
#[target_feature(enable = "sha,sse4.1,ssse3,avx")]
fn group(_: ShaNi, messages: &[&[&[u8]]], digests: &mut [[u8; 32]]) {
    let mut parts: Vec<Parts<'_>> = messages.iter().map(|message| Parts::new(message)).collect();
    let mut states = [State::initial(); STREAMS];
    // Indices of the streams that have not ended.
    let mut open: Vec<usize> = (0..parts.len()).collect();
    loop {
        open.retain(|stream| parts.get_mut(*stream).is_some_and(|parts| parts.prepare()));
        let pieces = |stream: &usize| parts.get(*stream).map_or(&[][..], Parts::blocks);
        let count = open.iter().map(|stream| pieces(stream).len()).min();
        let Some(count) = count else { break };
        let blocks: [&[Block]; STREAMS] =
            std::array::from_fn(|i| open.get(i).map_or(&[][..], |stream| &pieces(stream)[..count]));
        match *open {
            [a, b, c, d] => compress([a, b, c, d], &mut states, blocks),
            [a, b, c] => compress([a, b, c], &mut states, blocks),
            [a, b] => compress([a, b], &mut states, blocks),
            [a] => compress([a], &mut states, blocks),
            _ => {}
        }
        for stream in &open {
            parts[*stream].advance(count);
        }
    }
    for (state, digest) in states.into_iter().zip(digests) {
        *digest = state.digest();
    }
}

impl State {
    #[target_feature(enable = "sse2")]
    fn initial() -> State {
        let [a, b, c, d, e, f, g, h] = INITIAL.map(u32::cast_signed);
        State {
            abef: _mm_set_epi32(a, b, e, f),
            cdgh: _mm_set_epi32(c, d, g, h),
        }
    }

    /// Returns the hash value as big-endian bytes, in the order A to H.
    #[target_feature(enable = "sse4.1")]
    fn digest(self) -> [u8; 32] {
        let State { abef, cdgh } = self;
        let words = [
            _mm_extract_epi32::<3>(abef),
            _mm_extract_epi32::<2>(abef),
            _mm_extract_epi32::<3>(cdgh),
            _mm_extract_epi32::<2>(cdgh),
            _mm_extract_epi32::<1>(abef),
            _mm_extract_epi32::<0>(abef),
            _mm_extract_epi32::<1>(cdgh),
            _mm_extract_epi32::<0>(cdgh),
        ];
        bytes_of(words.map(i32::cast_unsigned))
    }
}

/// Processes the blocks of `N` streams and updates their states. `blocks[n]` belongs to stream `streams[n]`; all `N`
/// slices must have equal lengths.
#[inline]
#[target_feature(enable = "sha,sse4.1,ssse3,avx")]
fn compress<const N: usize>(streams: [usize; N], states: &mut [State; STREAMS], blocks: [&[Block]; STREAMS]) {
    let mut now: [State; N] = streams.map(|stream| states[stream]);
    let count = blocks[0].len();
    #[expect(
        clippy::needless_range_loop,
        reason = "the loop takes one block of each stream"
    )]
    for number in 0..count {
        let before = now;
        let mut words: [[__m128i; 4]; N] = std::array::from_fn(|n| load(&blocks[n][number]));
        for round in 0..16 {
            let constants = load_constants(round);
            for (state, words) in now.iter_mut().zip(&mut words) {
                rounds(state, words, round, constants);
            }
        }
        for (state, before) in now.iter_mut().zip(before) {
            state.abef = _mm_add_epi32(state.abef, before.abef);
            state.cdgh = _mm_add_epi32(state.cdgh, before.cdgh);
        }
    }
    for (stream, state) in streams.into_iter().zip(now) {
        states[stream] = state;
    }
}

/// Computes four rounds and replaces the four words that they use by the words of the message schedule that are needed
/// 16 rounds later.
#[inline]
#[target_feature(enable = "sha,sse4.1,ssse3,avx")]
fn rounds(state: &mut State, words: &mut [__m128i; 4], round: usize, constants: __m128i) {
    let [oldest, second, third, newest] = std::array::from_fn(|i| words[(round + i) % 4]);
    let sums = _mm_add_epi32(oldest, constants);
    state.cdgh = _mm_sha256rnds2_epu32(state.cdgh, state.abef, sums);
    state.abef = _mm_sha256rnds2_epu32(state.abef, state.cdgh, _mm_shuffle_epi32::<0x0e>(sums));
    if round < 12 {
        let sum = _mm_add_epi32(
            _mm_sha256msg1_epu32(oldest, second),
            _mm_alignr_epi8::<4>(newest, third),
        );
        words[round % 4] = _mm_sha256msg2_epu32(sum, newest);
    }
}

/// Loads the 16 words of a block and converts them from big-endian order.
#[inline]
#[target_feature(enable = "sse4.1,ssse3,avx")]
fn load(block: &Block) -> [__m128i; 4] {
    let order = _mm_set_epi64x(0x0c0d_0e0f_0809_0a0b, 0x0405_0607_0001_0203);
    let (quarters, _) = block.as_chunks::<16>();
    std::array::from_fn(|i| {
        // SAFETY: a quarter has the 16 bytes that are read, and the load needs no alignment.
        let quarter = unsafe { _mm_loadu_si128(quarters[i].as_ptr().cast()) };
        _mm_shuffle_epi8(quarter, order)
    })
}

/// Loads the round constants of four rounds, `4 * round` and the next three.
#[inline]
#[target_feature(enable = "avx")]
fn load_constants(round: usize) -> __m128i {
    let constants = &ROUND[round / 4].as_chunks::<4>().0[round % 4];
    // SAFETY: `constants` has the 16 bytes that are read, and the load needs no alignment.
    unsafe { _mm_loadu_si128(constants.as_ptr().cast()) }
}

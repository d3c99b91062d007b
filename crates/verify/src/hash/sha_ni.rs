//! SHA-256 of a few long messages side by side, by the SHA instructions of x86-64.
//!
//! One message keeps these instructions waiting, because each pair of rounds needs the one before. Streams in turn
//! fill the gaps: four streams take 1.6 times as long as one.

use super::parts::Parts;
use super::portable::sha256::{BLOCK_BYTES, INITIAL, ROUND, bytes_of};
use std::arch::x86_64::*;

/// Streams at once.
pub(super) const STREAMS: usize = 4;

type Block = [u8; BLOCK_BYTES];

/// Proof that the processor has what the code below is compiled for.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShaNi(());

impl ShaNi {
    pub fn detect() -> Option<ShaNi> {
        let has = is_x86_feature_detected!("sha")
            && is_x86_feature_detected!("sse4.1")
            && is_x86_feature_detected!("ssse3")
            && is_x86_feature_detected!("avx");
        has.then_some(ShaNi(()))
    }
}

/// The hash value of one stream, in the order of the instructions: words A, B, E, F and C, D, G, H.
#[derive(Clone, Copy)]
struct State {
    abef: __m128i,
    cdgh: __m128i,
}

/// SHA-256 of each message, four at a time.
pub(super) fn digests(proof: ShaNi, messages: &[&[&[u8]]], digests: &mut [[u8; 32]]) {
    let groups = messages.chunks(STREAMS).zip(digests.chunks_mut(STREAMS));
    for (messages, digests) in groups {
        // SAFETY: `proof` says that the processor has these features.
        unsafe { group(proof, messages, digests) }
    }
}

/// At most four messages. Each round of the loop takes as many blocks as every stream has in one piece.
#[target_feature(enable = "sha,sse4.1,ssse3,avx")]
fn group(_: ShaNi, messages: &[&[&[u8]]], digests: &mut [[u8; 32]]) {
    let mut parts: Vec<Parts<'_>> = messages.iter().map(|message| Parts::new(message)).collect();
    let mut states = [State::initial(); STREAMS];
    // The streams that have not ended.
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

/// Takes the blocks of `N` streams, as many of each, into their states.
#[inline]
#[target_feature(enable = "sha,sse4.1,ssse3,avx")]
fn compress<const N: usize>(streams: [usize; N], states: &mut [State; STREAMS], blocks: [&[Block]; STREAMS]) {
    let mut now: [State; N] = streams.map(|stream| states[stream]);
    let count = blocks[0].len();
    #[expect(
        clippy::needless_range_loop,
        reason = "a block of each of the streams is taken"
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

/// Four rounds, and the four words of the schedule that come 16 rounds later.
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

/// The 16 words of a block, big-endian.
#[inline]
#[target_feature(enable = "sse4.1,ssse3,avx")]
fn load(block: &Block) -> [__m128i; 4] {
    let order = _mm_set_epi64x(0x0c0d_0e0f_0809_0a0b, 0x0405_0607_0001_0203);
    let (quarters, _) = block.as_chunks::<16>();
    std::array::from_fn(|i| {
        // SAFETY: a quarter has the 16 bytes that are read, which need no alignment.
        let quarter = unsafe { _mm_loadu_si128(quarters[i].as_ptr().cast()) };
        _mm_shuffle_epi8(quarter, order)
    })
}

#[inline]
#[target_feature(enable = "avx")]
fn load_constants(round: usize) -> __m128i {
    let constants = &ROUND[round / 4].as_chunks::<4>().0[round % 4];
    // SAFETY: these are the 16 bytes that are read, which need no alignment.
    unsafe { _mm_loadu_si128(constants.as_ptr().cast()) }
}

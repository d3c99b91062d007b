//! Keccak-256 (FIPS 202, with the padding that Ethereum uses) of 8 messages at once: each register holds one 64-bit
//! word of each message.

use std::arch::x86_64::*;

use super::{Avx512, byte_at, load_bytes, transpose};
use crate::hash::lanes::{self, Engine, Lane};
use crate::hash::portable::keccak256::{self as portable, BLOCK_BYTES};

const LANES: usize = 8;

/// Keccak states of all lanes. Word `(x, y)` of the state is `state[x + 5 * y]`.
type State = [__m512i; 25];

/// Number of words in a block. A block is combined with the first words of the state.
const BLOCK_WORDS: usize = BLOCK_BYTES / 8;
type Block = [__m512i; BLOCK_WORDS];

pub(in crate::hash) fn batch(proof: Avx512, messages: &[&[u8]], digests: &mut [[u8; 32]]) {
    // SAFETY: all zeros are a valid value of a register. The value does not matter, because a lane is reset when it
    // gets its first message.
    let state = unsafe { std::mem::zeroed() };
    lanes::run(&mut Keccak256x8 { state, _proof: proof }, messages, digests);
}

/// Engine with the states of 8 lanes. The proof ensures that the processor has AVX-512.
struct Keccak256x8 {
    state: State,
    _proof: Avx512,
}

impl Engine<LANES> for Keccak256x8 {
    // Throughput on an AMD Zen 4 with messages of 1 KB, relative to one message after another: 1.5 with 2 busy lanes,
    // 6.1 with all 8.
    const BREAK_EVEN: usize = 2;

    fn blocks(bytes: usize) -> usize {
        portable::blocks(bytes)
    }

    fn absorb(&mut self, lanes: &mut [Lane<'_>; LANES], fresh: u32, count: usize) {
        // SAFETY: the proof exists only if the processor has the features of the called function.
        unsafe { absorb(&mut self.state, lanes, fresh as __mmask8, count) }
    }

    fn digests(&self, digests: &mut [[u8; 32]; LANES]) {
        // SAFETY: the proof exists only if the processor has the features of the called function.
        unsafe { store_digests(&self.state, digests) }
    }

    fn finish(&self, index: usize, lane: &Lane<'_>) -> [u8; 32] {
        // SAFETY: a register and the array of its words have the same size, and any bytes are valid words.
        let state: [[u64; LANES]; 25] = unsafe { std::mem::transmute(self.state) };
        portable::finish(state.map(|words| words[index]), lane.rest)
    }

    fn alone(message: &[u8]) -> [u8; 32] {
        portable::digest(message)
    }

    fn short(&self, messages: &[&[u8]; LANES], digests: &mut [[u8; 32]; LANES]) -> bool {
        let all = messages.iter().all(|message| message.len() < BLOCK_BYTES);
        if all {
            // SAFETY: the proof exists only if the processor has the features of the called function.
            unsafe { digest_short(messages, digests) }
        }
        all
    }
}

/// Computes the digests of messages of one block each. Words 17 to 24 of the initial state are zero, and only the first
/// four words of the final state are used. The first and the last round are outside the loop so that the compiler can
/// remove the operations that these facts make unnecessary.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw")]
fn digest_short(messages: &[&[u8]; LANES], digests: &mut [[u8; 32]; LANES]) {
    let mut words = [_mm512_setzero_si512(); 25];
    words[..8].copy_from_slice(&short_words::<0>(messages));
    words[8..16].copy_from_slice(&short_words::<64>(messages));
    words[16] = _mm512_set1_epi64(i64::MIN);
    if messages.iter().any(|message| message.len() >= 128) {
        words[16] = _mm512_or_si512(words[16], short_words::<128>(messages)[0]);
    }
    let [first, rounds @ .., last] = &ROUND;
    words = round(words, *first);
    for constant in rounds {
        words = round(words, *constant);
    }
    store_digests(&round(words, *last), digests);
}

/// Loads 8 words of each message from byte `OFFSET` on, including the first byte of the padding. Each message must be
/// shorter than a block.
///
/// The code is free of branches on the message length, because the processor cannot predict whether a short message is
/// longer than 64 bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn short_words<const OFFSET: usize>(messages: &[&[u8]; LANES]) -> [__m512i; 8] {
    const INDEX: [u8; 64] = {
        let (mut index, mut i) = ([0; 64], 0);
        while i < 64 {
            index[i] = i as u8;
            i += 1;
        }
        index
    };
    // SAFETY: `INDEX` has the 64 bytes that are read, and the load needs no alignment.
    let index = unsafe { _mm512_loadu_si512(INDEX.as_ptr().cast()) };
    let index = _mm512_add_epi8(index, _mm512_set1_epi8(OFFSET as i8));
    let mut rows = [_mm512_setzero_si512(); LANES];
    for (row, message) in rows.iter_mut().zip(messages) {
        let end = _mm512_set1_epi8(message.len() as i8);
        let mask = _mm512_cmplt_epu8_mask(index, end);
        // A load from an unmapped address is slow even with an empty mask (see `load_bytes`), so use another address.
        let from = if message.len() > OFFSET {
            message.as_ptr().wrapping_add(OFFSET)
        } else {
            INDEX.as_ptr()
        };
        // SAFETY: the mask selects only bytes of the message, and a masked load does not access the other bytes.
        let bytes = unsafe { _mm512_maskz_loadu_epi8(mask, from.cast()) };
        *row = _mm512_mask_mov_epi8(bytes, _mm512_cmpeq_epu8_mask(index, end), _mm512_set1_epi8(1));
    }
    transpose::words64(rows)
}

/// Absorbs `count` blocks in every lane. The lanes in `fresh` start from the initial state.
#[target_feature(enable = "avx512f,avx512bw")]
fn absorb(state: &mut State, lanes: &mut [Lane<'_>; LANES], fresh: __mmask8, count: usize) {
    let mut keep = !fresh;
    for _ in 0..count {
        let block = next_blocks(lanes);
        permute(state, keep, &block);
        keep = !0;
    }
}

/// Removes one block from the message of every lane. Returns one register per word of the block.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn next_blocks(lanes: &mut [Lane<'_>; LANES]) -> Block {
    let mut blocks = [[_mm512_setzero_si512(); LANES]; 3];
    for (i, lane) in lanes.iter_mut().enumerate() {
        [blocks[0][i], blocks[1][i], blocks[2][i]] = next_block(lane);
    }
    let [first, second, third] = blocks;
    let mut words = [transpose::words64(third)[0]; BLOCK_WORDS];
    words[..8].copy_from_slice(&transpose::words64(first));
    words[8..16].copy_from_slice(&transpose::words64(second));
    words
}

/// Removes one block from the message of the lane and pads the last block. The returned registers hold words 0 to 7,
/// words 8 to 15, and word 16.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn next_block(lane: &mut Lane<'_>) -> [__m512i; 3] {
    if let Some((block, rest)) = lane.rest.split_first_chunk::<BLOCK_BYTES>() {
        lane.rest = rest;
        return [
            load_bytes(block, 0),
            load_bytes(block, 64),
            load_bytes(block, 128),
        ];
    }
    let tail = std::mem::take(&mut lane.rest);
    let end = _mm512_setr_epi64(i64::MIN, 0, 0, 0, 0, 0, 0, 0);
    [
        load_marked(tail, 0),
        load_marked(tail, 64),
        _mm512_or_si512(load_marked(tail, 128), end),
    ]
}

/// Loads bytes like [`load_bytes`] and inserts the first byte of the padding after the last byte of `tail`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn load_marked(tail: &[u8], offset: usize) -> __m512i {
    let marker = byte_at(tail.len().wrapping_sub(offset));
    _mm512_mask_set1_epi8(load_bytes(tail, offset), marker, 0x01)
}

/// Absorbs one block in every lane, then applies Keccak-f\[1600\] (FIPS 202, 3.2 and 3.3). Lanes outside the mask
/// `keep` are reset to the initial state first.
///
/// The function is not inlined, so that only the state needs registers. The state fits into the 32 registers except for
/// one or two words.
#[inline(never)]
#[target_feature(enable = "avx512f")]
fn permute(state: &mut State, keep: __mmask8, block: &Block) {
    let mut words = *state;
    for word in &mut words {
        *word = _mm512_maskz_mov_epi64(keep, *word);
    }
    for (word, added) in words.iter_mut().zip(block) {
        *word = _mm512_xor_si512(*word, *added);
    }
    for constant in ROUND {
        words = round(words, constant);
    }
    *state = words;
}

/// Applies one round of Keccak-f: theta, rho, pi, chi and iota.
///
/// The result is computed row by row. This order spreads the rotations over the round, because a processor has fewer
/// execution units for rotations than for logic operations.
#[inline]
#[target_feature(enable = "avx512f")]
fn round(state: State, constant: u64) -> State {
    /// Truth table of the function `a ^ (!b & c)` of chi, as an operand of the ternary logic instruction.
    const CHI: i32 = 0xd2;
    let effect = column_effects(&state);
    let mut next = state;
    for y in 0..5 {
        let mut row = [state[0]; 5];
        for x in 0..5 {
            // Step pi moves word (x + 3y, x) to (x, y).
            let from = (x + 3 * y) % 5;
            let word = _mm512_xor_si512(state[from + 5 * x], effect[from]);
            // Once the loops are unrolled, the count is a constant and the compiler emits a rotation by a constant.
            row[x] = _mm512_rolv_epi64(word, _mm512_set1_epi64(ROTATION[from + 5 * x]));
        }
        for x in 0..5 {
            next[x + 5 * y] = _mm512_ternarylogic_epi64::<CHI>(row[x], row[(x + 1) % 5], row[(x + 2) % 5]);
        }
    }
    next[0] = _mm512_xor_si512(next[0], _mm512_set1_epi64(constant as i64));
    next
}

/// Returns the value that theta combines (XOR) with every word of column `x`, for each `x`.
#[inline]
#[target_feature(enable = "avx512f")]
fn column_effects(state: &State) -> [__m512i; 5] {
    let mut parity = [state[0]; 5];
    for x in 0..5 {
        let three = xor3(state[x], state[x + 5], state[x + 10]);
        parity[x] = xor3(three, state[x + 15], state[x + 20]);
    }
    let mut effect = parity;
    for x in 0..5 {
        effect[x] = _mm512_xor_si512(parity[(x + 4) % 5], _mm512_rol_epi64::<1>(parity[(x + 1) % 5]));
    }
    effect
}

#[inline]
#[target_feature(enable = "avx512f")]
fn xor3(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
    _mm512_ternarylogic_epi64::<0x96>(a, b, c)
}

#[target_feature(enable = "avx512f")]
fn store_digests(state: &State, digests: &mut [[u8; 32]; LANES]) {
    let [a, b, c, d, ..] = *state;
    for (digest, words) in digests.iter_mut().zip(transpose::words64_of_4([a, b, c, d])) {
        // SAFETY: a digest has the 32 bytes that are written, and the store needs no alignment.
        unsafe { _mm256_storeu_si256(digest.as_mut_ptr().cast(), words) };
    }
}

/// Rotation counts of rho in bits, one per word (FIPS 202, algorithm 2). The counts are the triangular numbers modulo
/// 64, assigned from word (1, 0) on in the order in which pi visits the words.
const ROTATION: [i64; 25] = {
    let mut offsets = [0; 25];
    let (mut x, mut y, mut t) = (1, 0, 0);
    while t < 24 {
        offsets[x + 5 * y] = ((t + 1) * (t + 2) / 2) % 64;
        (x, y) = (y, (2 * x + 3 * y) % 5);
        t += 1;
    }
    offsets
};

/// Round constants of iota (FIPS 202, algorithms 5 and 6). Bit 2^j - 1 of a constant is output `j` of a linear-feedback
/// shift register with the polynomial x^8 + x^6 + x^5 + x^4 + 1. The register keeps its state from round to round.
const ROUND: [u64; 24] = {
    let mut constants = [0; 24];
    let (mut register, mut round) = (1u8, 0);
    while round < 24 {
        let mut j = 0;
        while j < 7 {
            constants[round] |= (register as u64 & 1) << ((1 << j) - 1);
            let overflow = register >> 7;
            register = (register << 1) ^ (overflow * 0x71);
            j += 1;
        }
        round += 1;
    }
    constants
};

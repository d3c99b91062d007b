//! SHA-256 (FIPS 180-4), 16 messages at once: every register holds one 32-bit word of each.

use std::arch::x86_64::*;

use super::{Avx512, byte_at, load_bytes, transpose};
use crate::hash::lanes::{self, Engine, Lane};
use crate::hash::portable::sha256::{self as portable, BLOCK_BYTES, INITIAL, ROUND};

const LANES: usize = 16;

/// Word `i` of every lane's hash value is `state[i]`.
type State = [__m512i; 8];

pub(in crate::hash) fn batch(proof: Avx512, messages: &[&[u8]], digests: &mut [[u8; 32]]) {
    // SAFETY: zeros are words. The first step starts every lane afresh.
    let state = unsafe { std::mem::zeroed() };
    lanes::run(&mut Sha256x16 { state, _proof: proof }, messages, digests);
}

/// It exists only where the processor has AVX-512.
struct Sha256x16 {
    state: State,
    _proof: Avx512,
}

impl Engine<LANES> for Sha256x16 {
    // On an AMD Zen 4, whose SHA instructions are quick, 8 lanes of 1 KB messages give 0.96 of what one message after
    // the other gives, 9 lanes 1.08, all 16 lanes 1.95.
    const BREAK_EVEN: usize = 9;

    fn blocks(bytes: usize) -> usize {
        portable::blocks(bytes)
    }

    fn absorb(&mut self, lanes: &mut [Lane<'_>; LANES], fresh: u32, count: usize) {
        // SAFETY: the proof says that the processor has the features.
        unsafe { absorb(&mut self.state, lanes, fresh as __mmask16, count) }
    }

    fn digests(&self, digests: &mut [[u8; 32]; LANES]) {
        // SAFETY: as above.
        unsafe { store_digests(&self.state, digests) }
    }

    fn finish(&self, index: usize, lane: &Lane<'_>) -> [u8; 32] {
        // SAFETY: a register is as many bytes as its words, and any bytes are words.
        let state: [[u32; LANES]; 8] = unsafe { std::mem::transmute(self.state) };
        portable::finish(state.map(|words| words[index]), lane.rest, lane.bytes)
    }

    fn alone(message: &[u8]) -> [u8; 32] {
        portable::digest(message)
    }
}

/// Runs the body for `I` from 0 to 15. Written out, because the words stay in registers only if every index is a
/// constant, and because the compiler does not unroll so long a loop by itself.
macro_rules! for_0_to_15 {
    ($i:ident => $body:block) => { for_0_to_15!($i $body 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15) };
    ($i:ident $body:block $($value:literal)*) => { $({ const $i: usize = $value; $body })* };
}

#[target_feature(enable = "avx512f,avx512bw")]
fn absorb(state: &mut State, lanes: &mut [Lane<'_>; LANES], fresh: __mmask16, count: usize) {
    for (words, initial) in state.iter_mut().zip(INITIAL) {
        *words = _mm512_mask_set1_epi32(*words, fresh, initial as i32);
    }
    let whole = lanes
        .iter()
        .fold(count, |whole, lane| whole.min(lane.rest.len() / BLOCK_BYTES));
    // The blocks that are whole in every lane are read where they stand.
    let mut starts = lanes.each_ref().map(|lane| lane.rest.as_ptr());
    let mut offset = 0;
    for lane in lanes.iter_mut() {
        lane.rest = &lane.rest[whole * BLOCK_BYTES..];
    }
    let mut blocks;
    if whole == 0 {
        blocks = next_blocks(lanes);
        starts = blocks.each_ref().map(|block| std::ptr::from_ref(block).cast());
    }
    let mut rows = [_mm512_setzero_si512(); LANES];
    for_0_to_15!(I => {
        // SAFETY: every lane starts with a block, either its own or one of `blocks`.
        rows[I] = unsafe { _mm512_loadu_si512(starts[I].cast()) };
    });
    let mut words = transpose::words32(rows);
    let mut hash = *state;
    for next in 1..=count {
        if next < whole {
            offset = next * BLOCK_BYTES;
        } else if next < count {
            blocks = next_blocks(lanes);
            starts = blocks.each_ref().map(|block| std::ptr::from_ref(block).cast());
            offset = 0;
        }
        // SAFETY: at `offset` stands the next whole block, or one of `blocks`; after the last, which is read again.
        words = unsafe { compress(&mut hash, words, &starts, offset) };
    }
    *state = hash;
}

/// Takes a block off every lane's message.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw")]
fn next_blocks(lanes: &mut [Lane<'_>; LANES]) -> [__m512i; LANES] {
    let mut blocks = [_mm512_setzero_si512(); LANES];
    for_0_to_15!(I => {
        blocks[I] = next_block(&mut lanes[I]);
    });
    blocks
}

/// Takes a block off the lane's message.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn next_block(lane: &mut Lane<'_>) -> __m512i {
    if let Some((block, rest)) = lane.rest.split_first_chunk::<BLOCK_BYTES>() {
        lane.rest = rest;
        // SAFETY: a block is as many bytes as the register.
        return unsafe { _mm512_loadu_si512(block.as_ptr().cast()) };
    }
    let tail = std::mem::take(&mut lane.rest);
    pad(load_bytes(tail, 0), tail.len(), lane.bytes)
}

/// The padding (5.1.1) in the block that begins with the message's last `tail` bytes, or with none.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn pad(block: __m512i, tail: usize, bytes: usize) -> __m512i {
    let marker = if portable::has_marker(tail, bytes) {
        byte_at(tail)
    } else {
        0
    };
    let block = _mm512_mask_set1_epi8(block, marker, 0x80u8 as i8);
    let length = if portable::has_length(tail) { 0x80 } else { 0 };
    _mm512_mask_set1_epi64(block, length, (8 * bytes as u64).swap_bytes() as i64)
}

/// One block of each lane: `words[i]` holds their words `i` as they stand in memory. Returns those of the next block,
/// at `offset` from `starts`: in the last 16 rounds, which wait for each other (12 cycles each, for 17 instructions),
/// there is time to read and transpose it, which takes 80 cycles alone.
///
/// # Safety
/// There is a block at `offset` from each of `starts`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn compress(
    hash: &mut State,
    mut words: [__m512i; 16],
    starts: &[*const u8; LANES],
    offset: usize,
) -> [__m512i; 16] {
    let mut v = *hash;
    for_0_to_15!(I => {
        words[I] = swap_bytes(words[I]);
    });
    // Each word of the schedule in the round of the one that it replaces: the one fills the waits of the other.
    for constants in &ROUND[..3] {
        for_0_to_15!(I => {
            let recent = [words[(I + 1) % 16], words[(I + 9) % 16], words[(I + 14) % 16]];
            v = round(v, words[I], constants[I]);
            words[I] = schedule(words[I], recent);
        });
    }
    let mut fours = [[_mm512_setzero_si512(); 4]; 4];
    for_0_to_15!(I => {
        v = round(v, words[I], ROUND[3][I]);
        if I % 4 == 3 {
            let mut rows = [_mm512_setzero_si512(); 4];
            for (row, start) in rows.iter_mut().zip(&starts[I - 3..]) {
                // SAFETY: the caller's.
                *row = unsafe { _mm512_loadu_si512(start.add(offset).cast()) };
            }
            fours[I / 4] = transpose::words32_within_quarters(rows).map(|words| here(words));
        }
    });
    for (hash, v) in hash.iter_mut().zip(v) {
        *hash = _mm512_add_epi32(*hash, v);
    }
    transpose::words32_quarters(fours)
}

/// The same, made just here: the compiler neither moves it to elsewhere nor adds up a sum in another order. It would
/// add the round's constant, which is ready, behind what is waited for.
#[inline]
#[target_feature(enable = "avx512f")]
fn here(mut words: __m512i) -> __m512i {
    // SAFETY: no instruction at all.
    unsafe {
        std::arch::asm!("/* {0} */", inout(zmm_reg) words, options(nomem, nostack, preserves_flags));
    }
    words
}

/// The next word of the message schedule (6.2.2, 1) from those 16, 15, 7 and 2 words before.
#[inline]
#[target_feature(enable = "avx512f")]
fn schedule(before_16: __m512i, [before_15, before_7, before_2]: [__m512i; 3]) -> __m512i {
    let small_0 = xor3(
        _mm512_ror_epi32::<7>(before_15),
        _mm512_ror_epi32::<18>(before_15),
        _mm512_srli_epi32::<3>(before_15),
    );
    let small_1 = xor3(
        _mm512_ror_epi32::<17>(before_2),
        _mm512_ror_epi32::<19>(before_2),
        _mm512_srli_epi32::<10>(before_2),
    );
    let sum = _mm512_add_epi32(before_16, before_7);
    _mm512_add_epi32(sum, _mm512_add_epi32(small_0, small_1))
}

/// One round (6.2.2, 3).
#[inline]
#[target_feature(enable = "avx512f")]
fn round([a, b, c, d, e, f, g, h]: State, word: __m512i, constant: u32) -> State {
    /// Truth tables of the choice `(e & f) | (!e & g)` and of the majority.
    const CHOICE: i32 = 0xca;
    const MAJORITY: i32 = 0xe8;
    let input = here(_mm512_add_epi32(
        _mm512_add_epi32(h, word),
        _mm512_set1_epi32(constant as i32),
    ));
    let big_1 = xor3(
        _mm512_ror_epi32::<6>(e),
        _mm512_ror_epi32::<11>(e),
        _mm512_ror_epi32::<25>(e),
    );
    let choice = _mm512_ternarylogic_epi32::<CHOICE>(e, f, g);
    let t1 = _mm512_add_epi32(here(_mm512_add_epi32(input, choice)), big_1);
    let big_0 = xor3(
        _mm512_ror_epi32::<2>(a),
        _mm512_ror_epi32::<13>(a),
        _mm512_ror_epi32::<22>(a),
    );
    let t2 = _mm512_add_epi32(big_0, _mm512_ternarylogic_epi32::<MAJORITY>(a, b, c));
    [
        _mm512_add_epi32(t1, t2),
        a,
        b,
        c,
        _mm512_add_epi32(d, t1),
        e,
        f,
        g,
    ]
}

#[inline]
#[target_feature(enable = "avx512f")]
fn xor3(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
    _mm512_ternarylogic_epi32::<0x96>(a, b, c)
}

/// Swaps the bytes of every 32-bit word.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn swap_bytes(words: __m512i) -> __m512i {
    let order = _mm512_set4_epi32(0x0c0d_0e0f, 0x0809_0a0b, 0x0405_0607, 0x0001_0203);
    _mm512_shuffle_epi8(words, order)
}

#[target_feature(enable = "avx512f,avx512bw")]
fn store_digests(state: &State, digests: &mut [[u8; 32]; LANES]) {
    let mut words = *state;
    for words in &mut words {
        *words = swap_bytes(*words);
    }
    for (digest, words) in digests.iter_mut().zip(transpose::words32_of_8(words)) {
        // SAFETY: a digest is as many bytes as the register.
        unsafe { _mm256_storeu_si256(digest.as_mut_ptr().cast(), words) };
    }
}

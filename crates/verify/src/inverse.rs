//! Inverse of a 256-bit integer modulo an odd prime, in variable time. The method is Bernstein and Yang's divsteps
//! ("Fast constant-time gcd computation and modular inversion", TCHES 2019), in groups of 62 as libsecp256k1 documents
//! them (doc/safegcd_implementation.md), in the variant that skips runs of zeros.
//!
//! The state is (f, g), which starts as (m, x), and (d, e) with d·x = f and e·x = g modulo m. A divstep makes g even
//! and halves it. The combined effect of 62 divsteps is a 2x2 matrix, which depends only on the low 62 bits of f and g.
//! When g is 0, f is ±gcd = ±1 and d is ±1/x. Numbers have five limbs of 62 bits, the last one signed.

use crate::uint::{U256, at_least, negated_inverse, sub};

const MASK: u64 = u64::MAX >> 2;

type Signed = [i64; 5];

/// Returns the inverse of `x` modulo `modulus`, which must be an odd prime above 2^255, for `0 < x < modulus`.
pub(crate) fn invert(x: &U256, modulus: &U256) -> U256 {
    let m = to_limbs(modulus);
    let inverse_of_m = negated_inverse(modulus[0]).wrapping_neg() & MASK;
    let (mut d, mut e) = ([0; 5], [1, 0, 0, 0, 0]);
    let (mut f, mut g) = (m, to_limbs(x));
    let mut eta = -1;
    while g != [0; 5] {
        let matrix = divsteps(&mut eta, low_word(&f), low_word(&g));
        update_de(&mut d, &mut e, &matrix, &m, inverse_of_m);
        update_fg(&mut f, &mut g, &matrix);
    }
    from_limbs(d, f[4] < 0, &m, modulus)
}

fn to_limbs(a: &U256) -> Signed {
    [
        a[0],
        a[0] >> 62 | a[1] << 2,
        a[1] >> 60 | a[2] << 4,
        a[2] >> 58 | a[3] << 6,
        a[3] >> 56,
    ]
    .map(|limb| (limb & MASK) as i64)
}

fn low_word(a: &Signed) -> u64 {
    a[0] as u64 | (a[1] as u64) << 62
}

/// Matrix of 62 divsteps, which replaces (f, g) by (u·f + v·g, q·f + r·g) / 2^62.
struct Matrix {
    u: i64,
    v: i64,
    q: i64,
    r: i64,
}

/// Computes the matrix of the next 62 divsteps. `eta` is the negated delta of the paper. Instead of single steps, the
/// function skips all trailing zeros of g at once, and then clears as many low bits of g as the swap rule allows, by
/// adding a multiple w of f.
fn divsteps(eta: &mut i64, mut f: u64, mut g: u64) -> Matrix {
    let (mut u, mut v, mut q, mut r) = (1u64, 0u64, 0u64, 1u64);
    let mut left = 62u32;
    loop {
        let zeros = (g | u64::MAX << left).trailing_zeros();
        g >>= zeros;
        u <<= zeros;
        v <<= zeros;
        *eta -= i64::from(zeros);
        left -= zeros;
        if left == 0 {
            break;
        }
        let w;
        if *eta < 0 {
            *eta = -*eta;
            (f, g) = (g, f.wrapping_neg());
            (u, q) = (q, u.wrapping_neg());
            (v, r) = (r, v.wrapping_neg());
            // Uses that f·(f² - 2) equals -1/f modulo 2^6.
            let bits = (*eta as u64 + 1).min(u64::from(left)).min(6);
            let negated_inverse = f.wrapping_mul(f.wrapping_mul(f).wrapping_sub(2));
            w = negated_inverse.wrapping_mul(g) & (u64::MAX >> (64 - bits));
        } else {
            // Uses that 1/f modulo 2^4 equals f, or f + 8 if f is 3 or 5 modulo 8.
            let bits = (*eta as u64 + 1).min(u64::from(left)).min(4);
            let inverse = f.wrapping_add((f.wrapping_add(1) & 4) << 1);
            w = inverse.wrapping_neg().wrapping_mul(g) & (u64::MAX >> (64 - bits));
        }
        g = g.wrapping_add(f.wrapping_mul(w));
        q = q.wrapping_add(u.wrapping_mul(w));
        r = r.wrapping_add(v.wrapping_mul(w));
    }
    Matrix {
        u: u as i64,
        v: v as i64,
        q: q as i64,
        r: r as i64,
    }
}

fn product(a: i64, b: i64) -> i128 {
    i128::from(a) * i128::from(b)
}

/// Multiplies (d, e) by the matrix and divides by 2^62 modulo m. For the division, multiples of m are added that make
/// the low limb zero.
fn update_de(d: &mut Signed, e: &mut Signed, t: &Matrix, m: &Signed, inverse_of_m: u64) {
    // For a negative d or e, m is added first, so that the result stays in (-2m, m).
    let (d_sign, e_sign) = (d[4] >> 63, e[4] >> 63);
    let mut md = (t.u & d_sign) + (t.v & e_sign);
    let mut me = (t.q & d_sign) + (t.r & e_sign);
    let mut cd = product(t.u, d[0]) + product(t.v, e[0]);
    let mut ce = product(t.q, d[0]) + product(t.r, e[0]);
    let clear =
        |c: i128, by: i64| (inverse_of_m.wrapping_mul(c as u64).wrapping_add(by as u64) & MASK) as i64;
    md -= clear(cd, md);
    me -= clear(ce, me);
    cd += product(m[0], md);
    ce += product(m[0], me);
    debug_assert!(cd as u64 & MASK == 0 && ce as u64 & MASK == 0);
    cd >>= 62;
    ce >>= 62;
    for k in 1..5 {
        cd += product(t.u, d[k]) + product(t.v, e[k]) + product(m[k], md);
        ce += product(t.q, d[k]) + product(t.r, e[k]) + product(m[k], me);
        d[k - 1] = (cd as u64 & MASK) as i64;
        e[k - 1] = (ce as u64 & MASK) as i64;
        cd >>= 62;
        ce >>= 62;
    }
    d[4] = cd as i64;
    e[4] = ce as i64;
}

/// Multiplies (f, g) by the matrix and divides by 2^62; the division is exact.
fn update_fg(f: &mut Signed, g: &mut Signed, t: &Matrix) {
    let mut cf = product(t.u, f[0]) + product(t.v, g[0]);
    let mut cg = product(t.q, f[0]) + product(t.r, g[0]);
    debug_assert!(cf as u64 & MASK == 0 && cg as u64 & MASK == 0);
    cf >>= 62;
    cg >>= 62;
    for k in 1..5 {
        cf += product(t.u, f[k]) + product(t.v, g[k]);
        cg += product(t.q, f[k]) + product(t.r, g[k]);
        f[k - 1] = (cf as u64 & MASK) as i64;
        g[k - 1] = (cg as u64 & MASK) as i64;
        cf >>= 62;
        cg >>= 62;
    }
    f[4] = cf as i64;
    g[4] = cg as i64;
}

fn from_limbs(mut d: Signed, negate: bool, m: &Signed, modulus: &U256) -> U256 {
    if negate {
        d = d.map(|limb| -limb);
    }
    carry(&mut d);
    while d[4] < 0 {
        for (limb, by) in d.iter_mut().zip(m) {
            *limb += by;
        }
        carry(&mut d);
    }
    while d[4] >> 8 > 0 {
        for (limb, by) in d.iter_mut().zip(m) {
            *limb -= by;
        }
        carry(&mut d);
    }
    let d = d.map(|limb| limb as u64);
    let mut words = [
        d[0] | d[1] << 62,
        d[1] >> 2 | d[2] << 60,
        d[2] >> 4 | d[3] << 58,
        d[3] >> 6 | d[4] << 56,
    ];
    while at_least(&words, modulus) {
        words = sub(&words, modulus).0;
    }
    words
}

fn carry(d: &mut Signed) {
    for k in 0..4 {
        d[k + 1] += d[k] >> 62;
        d[k] &= MASK as i64;
    }
}

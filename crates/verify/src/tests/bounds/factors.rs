//! Tests of factors (see `Lanes`) with the greatest permitted values, and with upper bits in their limbs that a
//! multiplication must ignore.

use super::*;

/// Returns the upper bound of the results of `factor_less`, and so of every factor: 2^259.5.
fn factor_bound(p: &BigUint) -> BigUint {
    normal_bound() * 4u32 + p * 3u32
}

/// Returns the upper bound of the results of `product` and `square`, if their operands are within the bound of `diff`:
/// 2^257.4.
fn narrow_bound(p: &BigUint) -> BigUint {
    (diff_bound(p).pow(2) >> 260u32) + p
}

/// Returns the numbers of a factor as a multiplication uses them: the carries of the factor may have been propagated
/// without masking the limbs.
pub(super) fn factors(limbs: &Limbs) -> Numbers {
    // SAFETY: both types have 64 bytes, and every bit pattern is valid for both.
    let limbs = limbs.map(|limb| unsafe { std::mem::transmute::<__m512i, [u64; 8]>(limb) });
    std::array::from_fn(|lane| {
        assert!(limbs[4][lane] >> 52 == 0, "the carry of the last limb is lost");
        (0..5)
            .map(|i| BigUint::from(limbs[i][lane] % (1 << 52)) << (52 * i))
            .sum()
    })
}

/// Returns limbs with these numbers, and with random bits where a multiplication ignores them.
fn carried_on(random: &mut Random, numbers: &Numbers) -> Limbs {
    let limbs = limbs(numbers);
    std::array::from_fn(|i| {
        // SAFETY: both types have 64 bytes, and every bit pattern is valid for both.
        let words = unsafe { std::mem::transmute::<__m512i, [u64; 8]>(limbs[i]) };
        let words = words.map(|word| if i == 4 { word } else { word | random.next() << 52 });
        // SAFETY: both types have 64 bytes, and every bit pattern is valid for both.
        unsafe { std::mem::transmute::<[u64; 8], __m512i>(words) }
    })
}

/// Checks products of the widest factors, also minus products of narrow factors, and with unmasked carries.
pub(super) fn products_of_the_widest_factors<C: Reduction>(l: Ifma<C>) {
    let (p, r) = (&big(&C::P), &big(&C::R));
    let (normal, diff, any, narrow) = (
        &normal_bound(),
        &diff_bound(p),
        &factor_bound(p),
        &narrow_bound(p),
    );
    let mut random = Random(18);
    for _ in 0..3000 {
        let numbers = [normal, diff, any, any, narrow, narrow].map(|bound| wide(&mut random, bound, p));
        let [la, ld, lf, lg, lm, ln] = numbers.each_ref().map(|numbers| carried_on(&mut random, numbers));
        let (results, narrow_results) = l.run(Work(|| {
            let results = [
                l.mul(&la, &ld),
                l.normal(&l.mul_raw(&lf, &lg)),
                l.normal(&l.sqr_raw(&lf)),
                l.mul_sub_mul(&lf, &lg, &lm, &ln),
                l.mul_sub_8_squares(&lf, &lg, &lm),
            ];
            (results, [l.product(&la, &lf), l.square(&ld), l.product(&lm, &ln)])
        }));
        let [a, d, f, g, m, n] = numbers.map(|numbers| numbers.map(BigInt::from));
        let is = |k: usize, what: &str, expected: &dyn Fn(usize) -> BigInt| {
            check(what, &results[k], normal, p, r, expected);
        };
        is(0, "mul by a factor", &|i| &a[i] * &d[i]);
        is(1, "mul_raw of factors", &|i| &f[i] * &g[i]);
        is(2, "sqr_raw of a factor", &|i| &f[i] * &f[i]);
        is(3, "mul_sub_mul of factors", &|i| &f[i] * &g[i] - &m[i] * &n[i]);
        is(4, "mul_sub_8_squares of factors", &|i| {
            &f[i] * &g[i] - 8 * &m[i] * &m[i]
        });
        let is = |k: usize, what: &str, expected: &dyn Fn(usize) -> BigInt| {
            check_numbers(what, &factors(&narrow_results[k]), narrow, p, r, expected);
        };
        is(0, "product", &|i| &a[i] * &f[i]);
        is(1, "square", &|i| &d[i] * &d[i]);
        is(2, "product of narrow factors", &|i| &m[i] * &n[i]);
    }
}

/// Checks `factor` and `factor_less` with sums of one to four terms. A term is a normal element, or the product of a
/// normal element and a factor within the bound of `diff`.
pub(super) fn factors_of_the_widest_sums<C: Reduction>(l: Ifma<C>) {
    let (p, r, one) = (&big(&C::P), &big(&C::R), &power(0));
    let (normal, diff, any) = (&normal_bound(), &diff_bound(p), &factor_bound(p));
    let mut random = Random(19);
    for round in 0..3000 {
        let terms: Vec<_> = (0..1 + round % 4)
            .map(|_| {
                let [a, f] = [normal, diff].map(|bound| wide(&mut random, bound, p));
                (limbs(&a), limbs(&f), a, f)
            })
            .collect();
        let minus = wide(&mut random, normal, p);
        let are_products = round % 8 < 4;
        let [factor, less] = l.run(Work(|| {
            let value = |(a, f, ..): &(Limbs, Limbs, Numbers, Numbers)| {
                if are_products { l.mul_raw(a, f) } else { l.raw(a) }
            };
            let mut sum = value(&terms[0]);
            for term in &terms[1..] {
                sum = l.raw_add(&sum, &value(term));
            }
            [l.factor(&sum), l.factor_less(&sum, &limbs(&minus))]
        }));
        let (divisor, minus_by) = if are_products { (r, r) } else { (one, one) };
        let sum = |lane: usize| -> BigInt {
            let value = |(.., a, f): &(Limbs, Limbs, Numbers, Numbers)| {
                BigInt::from(if are_products {
                    &a[lane] * &f[lane]
                } else {
                    a[lane].clone()
                })
            };
            terms.iter().map(value).sum()
        };
        let most = &(normal * terms.len());
        check_numbers("factor", &factors(&factor), most, p, divisor, sum);
        let most = &(most + p * 3u32);
        assert!(most <= any);
        check_numbers("factor_less", &factors(&less), most, p, divisor, |lane| {
            sum(lane) - BigInt::from(&minus[lane] * minus_by)
        });
    }
}

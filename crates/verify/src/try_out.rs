use crate::avx512ifma::Ifma;
use crate::curve::*;
use crate::engine::*;
use crate::lanes::Lanes;
use crate::portable::Portable;
use crate::table::Table;
use crate::uint::*;
use p256::ecdsa::signature::hazmat::PrehashSigner;
use std::sync::Arc;
use std::time::Instant;
fn sets(nk: usize, n: usize, curve: Curve) -> (Vec<(U256, U256)>, Vec<(usize, [u8; 32], [u8; 64])>) {
    let mut x = 88172645463325252u64;
    let mut next = move || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x
    };
    let mut keys = vec![];
    let mut out = vec![];
    if curve == Curve::P256 {
        let sk: Vec<_> = (0..nk)
            .map(|_| {
                let b: [u8; 32] = std::array::from_fn(|_| next() as u8);
                p256::ecdsa::SigningKey::from_bytes(&b.into()).unwrap()
            })
            .collect();
        for k in &sk {
            let e = k.verifying_key().to_encoded_point(false);
            let b = e.as_bytes();
            keys.push((
                from_be_bytes(b[1..33].try_into().unwrap()),
                from_be_bytes(b[33..65].try_into().unwrap()),
            ));
        }
        for i in 0..n {
            let h: [u8; 32] = std::array::from_fn(|_| next() as u8);
            let s: p256::ecdsa::Signature = sk[i % nk].sign_prehash(&h).unwrap();
            out.push((i % nk, h, s.to_bytes().into()));
        }
    } else {
        let sk: Vec<_> = (0..nk)
            .map(|_| {
                let b: [u8; 32] = std::array::from_fn(|_| next() as u8);
                k256::ecdsa::SigningKey::from_bytes(&b.into()).unwrap()
            })
            .collect();
        for k in &sk {
            let e = k.verifying_key().to_encoded_point(false);
            let b = e.as_bytes();
            keys.push((
                from_be_bytes(b[1..33].try_into().unwrap()),
                from_be_bytes(b[33..65].try_into().unwrap()),
            ));
        }
        for i in 0..n {
            let h: [u8; 32] = std::array::from_fn(|_| next() as u8);
            let s: k256::ecdsa::Signature =
                k256::ecdsa::signature::hazmat::PrehashSigner::sign_prehash(&sk[i % nk], &h).unwrap();
            out.push((i % nk, h, s.to_bytes().into()));
        }
    }
    (keys, out)
}
fn go<L: Lanes>(name: &str, l: L, wg: u32, wq: u32, nk: usize, n: usize, tables: bool)
where
    L::Curve: crate::portable::Reduction,
{
    let (keys, sigs) = sets(nk, n, L::Curve::CURVE);
    let t = Instant::now();
    let g = Table::build(l, &L::Curve::G, wg);
    let tg = t.elapsed();
    let t = Instant::now();
    let tabs: Vec<_> = if tables {
        keys.iter().map(|k| Arc::new(Table::build(l, k, wq))).collect()
    } else {
        vec![]
    };
    let tq = t.elapsed();
    let mut scratch = Scratch::default();
    let mk = |flip: bool| -> Vec<Job<'_>> {
        sigs.iter()
            .enumerate()
            .map(|(i, (k, h, s))| Job {
                index: i,
                r: from_be_bytes(s[..32].try_into().unwrap()),
                s: from_be_bytes(s[32..].try_into().unwrap()),
                z: {
                    let mut z = from_be_bytes(h);
                    if flip && i % 3 == 0 {
                        z[0] ^= 4;
                    }
                    z
                },
                key: keys[*k],
                table: tabs.get(*k).map(|t| &**t),
            })
            .collect()
    };
    for flip in [false, true] {
        let mut bad = 0;
        let tally = verify(l, &g, &mut mk(flip), &mut scratch, |i, v| {
            if v != !(flip && i % 3 == 0) {
                bad += 1;
            }
        });
        assert_eq!((bad, tally.exceptional), (0, 0));
    }
    let mut best = f64::MAX;
    let mut all = vec![];
    let rounds = if cfg!(debug_assertions) {
        1
    } else {
        60_000_000 / (n * if tables { 1000 } else { 8000 }).max(1) + 20
    };
    for _ in 0..rounds {
        let mut jobs = mk(false);
        let t = Instant::now();
        let mut ok = 0;
        verify(l, &g, &mut jobs, &mut scratch, |_, v| ok += v as usize);
        let d = t.elapsed().as_secs_f64() / n as f64;
        assert_eq!(ok, n);
        best = best.min(d);
        all.push(d);
    }
    all.sort_by(f64::total_cmp);
    println!(
        "{name} {:?} wg {wg} wq {wq} keys {nk} n {n} tables {tables}: best {:.0} ns med {:.0} ns; build g {:?} q {:?}",
        L::Curve::CURVE,
        best * 1e9,
        all[all.len() / 2] * 1e9,
        tg,
        tq / nk as u32
    );
}
#[test]
fn speed() {
    let i = Ifma::<P256>::new().unwrap();
    let k = Ifma::<Secp256k1>::new().unwrap();
    for (wg, wq, nk, n) in [
        (16, 13, 4, 256),
        (16, 13, 16, 256),
        (16, 13, 16, 512),
        (16, 8, 64, 256),
        (16, 13, 4, 8),
    ] {
        go("ifma", i, wg, wq, nk, n, true);
        go("ifma", k, wg, wq, nk, n, true);
    }
    go("ifma", i, 16, 5, 16, 256, false);
    go("ifma", k, 16, 5, 16, 256, false);
    go("portable", Portable::<P256>::new(), 13, 10, 4, 256, true);
    go("portable", Portable::<Secp256k1>::new(), 13, 10, 4, 256, true);
    go("portable", Portable::<P256>::new(), 13, 10, 4, 64, false);
    go("portable", Portable::<Secp256k1>::new(), 13, 10, 4, 64, false);
}
struct Mul<L>(L, usize);
impl<L: Lanes> crate::lanes::Stage for Mul<L> {
    type Out = L::Fe;
    #[inline(always)]
    fn run(self) -> L::Fe {
        let l = self.0;
        let a = l.splat(&[3, 5, 7, 9]);
        let mut x = std::hint::black_box([a; 4]);
        let b = std::hint::black_box(a);
        for _ in 0..self.1 {
            for c in &mut x {
                *c = l.mul(c, &b);
            }
        }
        std::hint::black_box(x)[0]
    }
}
struct Sqr<L>(L, usize);
impl<L: Lanes> crate::lanes::Stage for Sqr<L> {
    type Out = L::Fe;
    #[inline(always)]
    fn run(self) -> L::Fe {
        let l = self.0;
        let a = l.splat(&[3, 5, 7, 9]);
        let mut x = std::hint::black_box([a; 4]);
        for _ in 0..self.1 {
            for c in &mut x {
                *c = l.sqr(c);
            }
        }
        std::hint::black_box(x)[0]
    }
}
struct Adds<'a, L: Lanes>(
    L,
    &'a mut [crate::lanes::Affine<L::Fe>],
    &'a [crate::affine::Pair],
    &'a mut Vec<crate::affine::Step<L::Fe>>,
    usize,
);
impl<L: Lanes> crate::lanes::Stage for Adds<'_, L> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        for _ in 0..self.4 {
            crate::affine::add_pairs(self.0, self.1, self.2, self.3, &mut [0], &mut ());
        }
    }
}
fn micro<L: Lanes>(name: &str, l: L) {
    let best = |f: &mut dyn FnMut()| {
        let mut b = f64::MAX;
        for _ in 0..200 {
            let t = Instant::now();
            f();
            b = b.min(t.elapsed().as_secs_f64());
        }
        b * 3.69e9
    };
    let m = best(&mut || {
        l.run(Mul(l, 1000));
    }) / 4000.0;
    let s = best(&mut || {
        l.run(Sqr(l, 1000));
    }) / 4000.0;
    print!("{name}: mul {m:.1} sqr {s:.1} cycles;");
    for n in [8usize, 32, 64, 288, 1000] {
        let pairs: Vec<_> = (0..n as u32)
            .map(|i| crate::affine::Pair {
                to: i,
                from: n as u32 + i,
                group: 0,
            })
            .collect();
        let mut pts: Vec<_> = (0..2 * n as u64)
            .map(|i| crate::lanes::Affine {
                x: l.splat(&[i + 1, i * i + 7, 3, 9]),
                y: l.splat(&[i + 3, 9, i, 1]),
            })
            .collect();
        let mut pr = vec![];
        let t1 = best(&mut || {
            l.run(Adds(l, &mut pts, &pairs, &mut pr, 4));
        }) / 4.0;
        print!(" add{n} {:.0}", (t1 - 0.0) / n as f64);
    }
    let inv = best(&mut || {
        for _ in 0..100 {
            std::hint::black_box(crate::inverse::invert(
                &std::hint::black_box([1, 2, 3, 4]),
                &P256::P,
            ));
        }
    }) / 100.0;
    println!(" inv {inv:.0}");
}
#[test]
fn micros() {
    micro("ifma p256", Ifma::<P256>::new().unwrap());
    micro("ifma k1", Ifma::<Secp256k1>::new().unwrap());
    micro("port p256", Portable::<P256>::new());
    micro("port k1", Portable::<Secp256k1>::new());
}

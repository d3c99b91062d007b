//! Tests of properties that the parsers must have for all bytes, and comparison with RustCrypto's DER parser.

mod mutate;

use lineside_verify::encoding::{Signature, SignatureError, compact, der, sec1};
use mutate::Mutator;
use p256::ecdsa::Signature as TheirSignature;
use proptest::collection::vec;
use proptest::prelude::*;

/// The group order of P-256 (SEC 2 section 2.4.2).
const N: [u8; 32] = [
    0xff, 0xff, 0xff, 0xff, 0x00, 0x00, 0x00, 0x00, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xbc,
    0xe6, 0xfa, 0xad, 0xa7, 0x17, 0x9e, 0x84, 0xf3, 0xb9, 0xca, 0xc2, 0xfc, 0x63, 0x25, 0x51,
];

/// Returns true if r and s are in `[1, n-1]`, which `Signature::from_der` of the crate `p256` also checks, but not the
/// parser of this crate.
fn in_range(signature: &Signature) -> bool {
    [signature.r, signature.s]
        .iter()
        .all(|number| *number != [0; 32] && *number < N)
}

/// Returns the result of the crate `p256` for the bytes, converted to the type of this crate; `None` if `p256` rejects
/// them.
fn theirs(bytes: &[u8]) -> Option<Signature> {
    let signature = TheirSignature::from_der(bytes).ok()?;
    let (r, s) = signature.split_bytes();
    Some(Signature {
        r: r.into(),
        s: s.into(),
    })
}

fn ours(bytes: &[u8]) -> Option<Signature> {
    der::parse_strict(bytes).ok().filter(in_range)
}

/// Checks that the results of the strict and the Go parser have the right relation to each other, for any bytes.
fn check_modes(bytes: &[u8]) -> Result<(), TestCaseError> {
    let (strict, go) = (der::parse_strict(bytes), der::parse_go(bytes));
    match (strict, go) {
        (Ok(signature), _) => {
            prop_assert_eq!(go, Ok(signature));
            let written = der::write(&signature);
            prop_assert_eq!(written.as_bytes(), bytes);
        }
        (Err(SignatureError::TrailingInside), Ok(_)) => {}
        (Err(SignatureError::TrailingAfter), Ok(signature)) => {
            let written = der::write(&signature);
            prop_assert!(bytes.starts_with(written.as_bytes()) && bytes.len() > written.as_bytes().len());
        }
        (Err(reason), _) => prop_assert_eq!(go, Err(reason)),
    }
    Ok(())
}

fn number() -> impl Strategy<Value = [u8; 32]> {
    (any::<[u8; 32]>(), 0..=32usize).prop_map(|(mut number, zeros)| {
        number[..zeros].fill(0);
        number
    })
}

proptest! {
    #[test]
    fn encodings_round_trip(r in number(), s in number(), after in vec(any::<u8>(), 1..100)) {
        let signature = Signature { r, s };
        prop_assert_eq!(compact::parse(&compact::write(&signature)), Ok(signature));
        let written = der::write(&signature);
        prop_assert_eq!(der::parse_strict(written.as_bytes()), Ok(signature));
        prop_assert_eq!(der::parse_go(written.as_bytes()), Ok(signature));
        prop_assert_eq!(theirs(written.as_bytes()), Some(signature).filter(in_range));
        let longer = [written.as_bytes(), &after].concat();
        prop_assert_eq!(der::parse_go(&longer), Ok(signature));
        prop_assert_eq!(der::parse_strict(&longer), Err(SignatureError::TrailingAfter));
    }

    #[test]
    fn any_bytes_are_safe(bytes in vec(any::<u8>(), 0..150)) {
        check_modes(&bytes)?;
        prop_assert_eq!(ours(&bytes), theirs(&bytes));
        prop_assert_eq!(compact::parse(&bytes).is_ok(), bytes.len() == 64);
        if let Ok(encoded) = sec1::parse(&bytes) {
            let length = match encoded {
                sec1::Encoded::Uncompressed { .. } => 65,
                sec1::Encoded::Compressed { .. } => 33,
            };
            prop_assert_eq!(bytes.len(), length);
        }
    }

    #[test]
    fn mutated_bytes_are_safe(seed: u64) {
        let mut mutator = Mutator::new(seed);
        for _ in 0..50 {
            let bytes = mutator.signature();
            check_modes(&bytes)?;
            prop_assert_eq!(ours(&bytes), theirs(&bytes));
        }
    }
}

#[test]
fn rustcrypto_agrees_on_mutated_signatures() {
    let mut mutator = Mutator::new(0x0064_6572);
    let (mut taken, mut refused) = (0, 0);
    for _ in 0..100_000 {
        let bytes = mutator.signature();
        let ours = ours(&bytes);
        assert_eq!(ours, theirs(&bytes), "{bytes:02x?}");
        *(if ours.is_some() { &mut taken } else { &mut refused }) += 1;
    }
    assert!(
        taken > 10_000 && refused > 10_000,
        "{taken} signatures were accepted, {refused} were refused"
    );
}

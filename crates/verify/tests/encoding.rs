//! Tests of each parser: accepted inputs, and the reasons for rejected ones.

mod der_vectors;

use der_vectors::{small, unhex, vectors};
use lineside_verify::encoding::sec1::Encoded;
use lineside_verify::encoding::{Part, PointError, Signature, SignatureError, compact, der, sec1};

#[test]
fn der_vectors_have_the_expected_results_in_both_modes() {
    for vector in vectors() {
        let bytes = vector.bytes();
        assert_eq!(
            der::parse_strict(&bytes),
            vector.strict,
            "strict: {}",
            vector.what
        );
        assert_eq!(der::parse_go(&bytes), vector.go, "go: {}", vector.what);
        if let Ok(signature) = vector.strict {
            assert_eq!(der::write(&signature).as_bytes(), bytes, "{}", vector.what);
        }
    }
}

/// Checks that the vectors produce every error, because an error without a vector would be untested.
#[test]
fn der_vectors_produce_every_error() {
    use Part::*;
    use SignatureError::*;
    let parts = [Sequence, R, S];
    let mut expected = vec![Empty, Missing(R), Missing(S), TrailingInside, TrailingAfter];
    for of_all in [Truncated, LengthIndefinite, LengthNotMinimal, LengthTooLarge] {
        expected.extend(parts.map(of_all));
    }
    for of_integers in [IntegerEmpty, IntegerNotMinimal, IntegerNegative] {
        expected.extend([R, S].map(of_integers));
    }
    expected.push(IntegerTooLarge(S));
    let given: Vec<SignatureError> = vectors().iter().filter_map(|v| v.strict.err()).collect();
    for reason in expected {
        assert!(given.contains(&reason), "{reason:?}");
    }
    for wanted in parts {
        let found = |reason: &SignatureError| matches!(reason, WrongTag { part, .. } if *part == wanted);
        assert!(given.iter().any(found), "WrongTag of {wanted:?}");
    }
}

/// Checks that every truncation of a valid signature is rejected.
#[test]
fn truncated_der_is_refused() {
    let whole = der::write(&Signature {
        r: [0xff; 32],
        s: [0x7f; 32],
    });
    let whole = whole.as_bytes();
    assert_eq!(whole.len(), 71);
    for length in 0..whole.len() {
        let expected = if length == 0 {
            SignatureError::Empty
        } else {
            SignatureError::Truncated(Part::Sequence)
        };
        assert_eq!(der::parse_strict(&whole[..length]), Err(expected));
        assert_eq!(der::parse_go(&whole[..length]), Err(expected));
    }
}

#[test]
fn numbers_that_are_too_large_are_refused_for_r_and_s() {
    let big = [&[0x02, 33, 0x01][..], &[0; 32]].concat();
    let one = [0x02, 1, 1];
    for (content, part) in [
        ([&big[..], &one].concat(), Part::R),
        ([&one[..], &big].concat(), Part::S),
    ] {
        let bytes = [&[0x30, content.len() as u8][..], &content].concat();
        assert_eq!(
            der::parse_strict(&bytes),
            Err(SignatureError::IntegerTooLarge(part))
        );
        assert_eq!(der::parse_go(&bytes), Err(SignatureError::IntegerTooLarge(part)));
    }
}

#[test]
fn der_uses_integers_of_minimal_length() {
    let highest = Signature {
        r: [0xff; 32],
        s: [0xff; 32],
    };
    assert_eq!(der::write(&highest).as_bytes().len(), der::BYTES_MAX);
    assert_eq!(der::write(&small(0, 0)).as_bytes(), unhex("3006 020100 020100"));
    assert_eq!(
        der::write(&small(0x80, 1)).as_ref(),
        unhex("3007 02020080 020101")
    );
}

#[test]
fn a_compact_signature_has_64_bytes() {
    let bytes: [u8; 64] = std::array::from_fn(|i| i as u8);
    let signature = compact::parse(&bytes).unwrap();
    assert_eq!(
        (signature.r[0], signature.r[31], signature.s[0], signature.s[31]),
        (0, 31, 32, 63)
    );
    assert_eq!(compact::write(&signature), bytes);
    assert_eq!(compact::parse(&[0; 64]), Ok(small(0, 0)));
    for length in (0..64).chain(65..140) {
        let expected = SignatureError::CompactLength { bytes: length };
        assert_eq!(compact::parse(&vec![1; length]), Err(expected));
    }
}

#[test]
fn points_are_parsed_in_every_supported_form() {
    let (x, y) = ([0x11; 32], [0x22; 32]);
    let point = |form: u8| [&[form][..], &x, &y].concat();
    assert_eq!(sec1::parse(&point(4)), Ok(Encoded::Uncompressed { x, y }));
    assert_eq!(
        sec1::parse(&point(2)[..33]),
        Ok(Encoded::Compressed { x, y_is_odd: false })
    );
    assert_eq!(
        sec1::parse(&point(3)[..33]),
        Ok(Encoded::Compressed { x, y_is_odd: true })
    );

    assert_eq!(sec1::parse(&[]), Err(PointError::Empty));
    assert_eq!(sec1::parse(&[0]), Err(PointError::Infinity));
    for hybrid in [6, 7] {
        assert_eq!(sec1::parse(&point(hybrid)), Err(PointError::Hybrid));
    }
    for form in (0..=u8::MAX).filter(|form| ![0, 2, 3, 4, 6, 7].contains(form)) {
        assert_eq!(
            sec1::parse(&point(form)),
            Err(PointError::UnknownForm { found: form })
        );
        assert_eq!(sec1::parse(&[form]), Err(PointError::UnknownForm { found: form }));
    }
    for (form, expected) in [(0, 1), (2, 33), (3, 33), (4, 65)] {
        for bytes in (1..100).filter(|bytes| *bytes != expected) {
            let mut wrong = vec![1; bytes];
            wrong[0] = form;
            assert_eq!(
                sec1::parse(&wrong),
                Err(PointError::WrongLength { bytes, expected })
            );
        }
    }
}

#[test]
fn errors_have_their_messages() {
    let reasons = [
        SignatureError::Missing(Part::S).to_string(),
        SignatureError::WrongTag {
            part: Part::R,
            found: 4,
        }
        .to_string(),
        SignatureError::CompactLength { bytes: 65 }.to_string(),
        PointError::WrongLength {
            bytes: 64,
            expected: 65,
        }
        .to_string(),
    ];
    let expected = [
        "the INTEGER s is missing: the SEQUENCE ends before it",
        "the INTEGER r begins with 0x04, not with its tag",
        "the signature has 65 bytes, but a compact signature has 64",
        "the point has 64 bytes, but a point with this first byte has 65",
    ];
    assert_eq!(reasons, expected);
}

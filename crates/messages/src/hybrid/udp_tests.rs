use super::*;
use proptest::prelude::*;

fn version() -> impl Strategy<Value = Version> {
    (1..u64::MAX, any::<u32>()).prop_map(|(block, index)| Version { block, index })
}

fn cell() -> impl Strategy<Value = Cell> {
    let value = proptest::collection::vec(any::<u8>(), 0..40);
    (version(), value).prop_map(|(version, value)| Cell {
        version,
        value: value.into(),
    })
}

fn past() -> impl Strategy<Value = Past> {
    let value = proptest::option::of(proptest::collection::vec(any::<u8>(), 0..40));
    (version(), any::<u64>(), value).prop_map(|(version, time_ms, value)| Past {
        version,
        time_ms,
        value,
    })
}

fn code() -> impl Strategy<Value = Code> {
    (0u16..20).prop_map(|code| Code::from_code(code).unwrap())
}

fn head() -> impl Strategy<Value = Answered> {
    let bytes = proptest::collection::vec(any::<u8>(), HEADER_BYTES);
    (bytes, any::<u32>(), any::<u64>(), any::<[u8; 32]>()).prop_map(|(header, node, number, hash)| {
        let signature = [hash, hash].concat();
        let head = SignedHead {
            node,
            number,
            hash,
            signature: signature.try_into().unwrap(),
        };
        Answered::Head(Box::new((Header::from_bytes(&header.try_into().unwrap()), head)))
    })
}

fn answered() -> impl Strategy<Value = Answered> {
    let keys = proptest::collection::vec(any::<u8>(), 1..20);
    prop_oneof![
        code().prop_map(|code| match code {
            Code::Done => Answered::Refused(Code::Busy),
            code => Answered::Refused(code),
        }),
        proptest::collection::vec(proptest::option::of(cell()), 0..8).prop_map(Answered::Cells),
        (proptest::collection::btree_map(keys, cell(), 0..8), any::<bool>()).prop_map(|(cells, more)| {
            let cells = cells.into_iter().map(|(key, cell)| (key.into(), cell)).collect();
            Answered::Range { cells, more }
        }),
        (proptest::collection::vec(past(), 0..8), any::<bool>()).prop_map(|(mut past, more)| {
            past.sort_by_key(|past| std::cmp::Reverse(past.version));
            past.dedup_by_key(|past| past.version);
            Answered::History { past, more }
        }),
        head(),
        (code(), version()).prop_map(|(code, version)| Answered::Placed { code, version }),
    ]
}

proptest! {
    #[test]
    fn answers_round_trip_and_have_one_encoding(answered in answered(), place: usize, byte: u8) {
        let bytes = answered.encode(usize::MAX).unwrap();
        prop_assert_eq!(Answered::decode(&bytes), Ok(answered.clone()));
        prop_assert_eq!(answered.encode(bytes.len()), Some(bytes.clone()));
        prop_assert_eq!(answered.encode(bytes.len() - 1), None);
        for end in 0..bytes.len() {
            prop_assert!(Answered::decode(&bytes[..end]).is_err(), "cut at {}", end);
        }
        prop_assert!(Answered::decode(&[&bytes[..], &[0]].concat()).is_err());
        let mut other = bytes.clone();
        let place = place % bytes.len();
        other[place] = byte;
        if let Ok(answered) = Answered::decode(&other) {
            prop_assert_eq!(answered.encode(usize::MAX), Some(other));
        }
    }

    #[test]
    fn requests_round_trip(id: u64, request in proptest::collection::vec(any::<u8>(), 108..1183),
                                      answer_bytes in 0usize..2000) {
        let datagram = write_request(id, &request, answer_bytes).unwrap();
        prop_assert!(datagram.len() <= DATAGRAM_MAX && datagram.len() >= answer_bytes.min(DATAGRAM_MAX));
        let (header, read) = read_request(&datagram).unwrap();
        prop_assert_eq!((header.request_id.get(), read), (id, &request[..]));
        let answer = write_answer(header, &Answered::Refused(Code::Busy), datagram.len());
        prop_assert!(answer.len() <= datagram.len());
        let body = Answered::Refused(Code::Busy).encode(100).unwrap();
        prop_assert_eq!(read_answer(&answer), Some((id, Status::Ok, &body[..])));
        prop_assert_eq!(read_answer(&datagram), None);
    }
}

#[test]
fn malformed_answers_are_refused() {
    let placed =
        |code: u16, block: u64| [&code.to_be_bytes()[..], &[6], &block.to_be_bytes(), &[0; 4]].concat();
    assert!(Answered::decode(&placed(0, 1)).is_ok());
    let cells = |code: u16, flag: u8| [&code.to_be_bytes()[..], &[1, 0, 1, flag]].concat();
    assert!(Answered::decode(&cells(0, 0)).is_ok());
    let key = |key: &[u8]| {
        let cell = [&[0; 7][..], &[1], &[0; 8]].concat();
        [&(key.len() as u16).to_be_bytes(), key, &cell].concat()
    };
    let range = |keys: [&[u8]; 2]| [&[0, 0, 2, 1, 0, 2][..], &key(keys[0]), &key(keys[1])].concat();
    assert!(Answered::decode(&range([b"a", b"b"])).is_ok());
    let past = |first: u8, second: u8| {
        let one = |block| [&[0; 7][..], &[block], &[0; 12], &[0]].concat();
        [&[0, 0, 4, 0, 0, 2][..], &one(first), &one(second)].concat()
    };
    assert!(Answered::decode(&past(2, 1)).is_ok());
    for (bytes, what) in [
        (placed(0, 0), "the outcome of a transaction in the genesis"),
        (placed(99, 1), "an unknown code"),
        (cells(0, 2), "a flag that is neither 0 nor 1"),
        (cells(9, 0), "cells with a refusal"),
        (vec![0, 0, 0], "a refusal with the code done"),
        (vec![0, 9, 7], "an unknown kind"),
        (vec![0, 0, 3, 0], "bytes that are not a proof"),
        (range([b"b", b"a"]), "keys in descending order"),
        (range([b"a", b"a"]), "a key twice"),
        (range([b"", b"a"]), "an empty key"),
        (past(1, 2), "the oldest first"),
        (past(1, 1), "a write twice"),
    ] {
        assert!(Answered::decode(&bytes).is_err(), "{what}");
    }
}

#[test]
fn an_answer_that_does_not_fit_becomes_too_large() {
    let request = write_request(1, &[1; 200], 300).unwrap();
    let (header, _) = read_request(&request).unwrap();
    let cell = |bytes| {
        Some(Cell {
            version: Version { block: 1, index: 0 },
            value: vec![7; bytes].into(),
        })
    };
    // Number of bytes: header 16, head 3, count 2, flag 1, version 12, length 4, and the value.
    for (bytes, fits) in [(262, true), (263, false), (100_000, false)] {
        let answered = Answered::Cells(vec![cell(bytes)]);
        let datagram = write_answer(header, &answered, request.len());
        let (_, _, body) = read_answer(&datagram).unwrap();
        let read = Answered::decode(body).unwrap();
        match fits {
            true => assert_eq!((read, datagram.len()), (answered, 300)),
            false => assert_eq!((read, datagram.len()), (Answered::Refused(Code::TooLarge), 19)),
        }
    }
    let many = Answered::Cells(vec![None; 70_000]);
    assert_eq!(many.encode(usize::MAX), None);
    // A trusted source gets an answer of up to a full datagram, however short its request is.
    let long = write_answer(header, &Answered::Cells(vec![cell(1162)]), usize::MAX);
    assert_eq!(long.len(), DATAGRAM_MAX);
}

//! Tests of the pcap reader with captures in every byte order and time unit, and with every kind of damage.

use lineside_capture::{PcapError, RECORD_BYTES_MAX, Reader, Record, Writer};
use proptest::prelude::*;

const MICROS: u32 = 0xa1b2_c3d4;
const NANOS: u32 = 0xa1b2_3c4d;

/// Returns the bytes of a capture as another program would write them.
fn capture(magic: u32, big_endian: bool, link: u32, records: &[(u32, u32, u32, &[u8])]) -> Vec<u8> {
    let word = |word: u32| {
        if big_endian {
            word.to_be_bytes()
        } else {
            word.to_le_bytes()
        }
    };
    let half = |half: u16| {
        if big_endian {
            half.to_be_bytes()
        } else {
            half.to_le_bytes()
        }
    };
    let mut file = [
        &word(magic)[..],
        &half(2),
        &half(4),
        &[0; 8],
        &word(65_535),
        &word(link),
    ]
    .concat();
    for (seconds, fraction, original, frame) in records {
        for field in [*seconds, *fraction, frame.len() as u32, *original] {
            file.extend(word(field));
        }
        file.extend(*frame);
    }
    file
}

fn read(file: &[u8]) -> (Vec<Record>, Option<PcapError>) {
    let mut reader = match Reader::new(file) {
        Ok(reader) => reader,
        Err(error) => return (Vec::new(), Some(error)),
    };
    let mut all = Vec::new();
    loop {
        let mut record = Record::default();
        match reader.next(&mut record) {
            Ok(true) => all.push(record),
            Ok(false) => return (all, None),
            Err(error) => return (all, Some(error)),
        }
    }
}

#[test]
fn both_byte_orders_and_both_time_units_are_read() {
    for big_endian in [false, true] {
        for (magic, unit) in [(MICROS, 1000), (NANOS, 1)] {
            let file = capture(
                magic,
                big_endian,
                1,
                &[(3, 7, 4, b"abcd"), (4, 999, 900, b"short"), (5, 0, 0, b"")],
            );
            let (records, fault) = read(&file);
            assert!(fault.is_none(), "{fault:?}");
            let times: Vec<_> = records.iter().map(|record| record.time_ns).collect();
            assert_eq!(
                times,
                [
                    3_000_000_000 + 7 * unit,
                    4_000_000_000 + 999 * unit,
                    5_000_000_000
                ]
            );
            assert_eq!(records[0].frame, b"abcd");
            assert_eq!(
                (&records[1].frame[..], records[1].original_bytes),
                (&b"short"[..], 900)
            );
            assert_eq!(records[2].frame, b"");
        }
    }
}

#[test]
fn a_frame_check_sequence_is_not_part_of_the_frame() {
    let link = 1 | 1 << 26 | 2 << 28;
    let (records, fault) = read(&capture(
        MICROS,
        false,
        link,
        &[(0, 0, 8, b"framFCS!"), (0, 0, 90, b"cut short")],
    ));
    assert!(fault.is_none());
    assert_eq!(records[0].frame, b"fram");
    assert_eq!(
        records[1].frame, b"cut short",
        "the checksum of this frame was not captured"
    );
}

#[test]
fn every_damaged_file_is_refused_with_its_reason() {
    let refused = |file: &[u8]| read(file).1.expect("an error");
    let good = capture(MICROS, false, 1, &[(1, 1, 4, b"abcd"), (1, 2, 4, b"efgh")]);
    assert!(matches!(refused(b""), PcapError::NoHeader));
    assert!(matches!(refused(&good[..23]), PcapError::NoHeader));
    assert!(matches!(
        refused(b"GIF89a, and so on, and so on"),
        PcapError::NotPcap(0x4749_4638)
    ));
    assert!(matches!(
        refused(&[0x0a, 0x0d, 0x0d, 0x0a, 0, 0, 0, 28]),
        PcapError::Pcapng
    ));
    assert!(matches!(
        refused(&[0x1f, 0x8b, 8, 0, 0, 0]),
        PcapError::Compressed
    ));
    for big_endian in [false, true] {
        let cooked = capture(MICROS, big_endian, 113, &[]);
        assert!(matches!(refused(&cooked), PcapError::LinkType(113)));
        let mut version = capture(MICROS, big_endian, 1, &[]);
        version[if big_endian { 5 } else { 4 }] = 3;
        assert!(matches!(refused(&version), PcapError::Version(3, 4)));
    }
    for end in 45..good.len() {
        let (records, fault) = read(&good[..end]);
        assert_eq!(records.len(), 1);
        assert!(
            matches!(
                fault,
                Some(PcapError::CutOff {
                    record: 2,
                    offset: 44
                })
            ),
            "{end}: {fault:?}"
        );
    }
    let mut long = good.clone();
    long[44 + 8..44 + 12].copy_from_slice(&(RECORD_BYTES_MAX as u32 + 1).to_le_bytes());
    let (records, fault) = read(&long);
    assert_eq!(records.len(), 1);
    assert!(
        matches!(
            fault,
            Some(PcapError::Damaged {
                record: 2,
                offset: 44,
                bytes: 262_145
            })
        ),
        "{fault:?}"
    );
}

#[test]
fn times_and_frames_too_large_for_the_format_are_refused() {
    let mut writer = Writer::new(Vec::new()).unwrap();
    assert!(writer.write(u64::MAX, b"a frame").is_err());
    assert!(writer.write(0, &vec![0; RECORD_BYTES_MAX + 1]).is_err());
    writer.write(1, &vec![0; RECORD_BYTES_MAX]).unwrap();
    let (records, fault) = read(&writer.finish().unwrap());
    assert_eq!((records.len(), fault.is_none()), (1, true));
}

proptest! {
    #[test]
    fn written_frames_are_read_back(
        frames in proptest::collection::vec((any::<u32>(), 0..1_000_000_000u64, any::<Vec<u8>>()), 0..20),
    ) {
        let mut writer = Writer::new(Vec::new()).unwrap();
        for (seconds, nanos, frame) in &frames {
            writer.write(u64::from(*seconds) * 1_000_000_000 + nanos, frame).unwrap();
        }
        let (records, fault) = read(&writer.finish().unwrap());
        prop_assert!(fault.is_none());
        prop_assert_eq!(records.len(), frames.len());
        for (record, (seconds, nanos, frame)) in records.iter().zip(&frames) {
            prop_assert_eq!(record.time_ns, u64::from(*seconds) * 1_000_000_000 + nanos);
            prop_assert_eq!(&record.frame, frame);
            prop_assert_eq!(record.original_bytes as usize, frame.len());
        }
    }

    #[test]
    fn no_file_makes_the_reader_panic(
        start in 0usize..4,
        mut file in proptest::collection::vec(any::<u8>(), 0..300),
        small: bool,
    ) {
        // The input mostly begins with a valid header, and with lengths that are not rejected at once.
        let header = capture([MICROS, NANOS][start % 2], start > 1, 1, &[]);
        if start > 0 {
            file.splice(0..0, header);
        }
        if small {
            file.iter_mut().skip(24).step_by(2).for_each(|byte| *byte = 0);
        }
        let (records, _) = read(&file);
        prop_assert!(records.iter().map(|record| record.frame.len()).sum::<usize>() <= file.len());
    }
}

//! Fuzz target for answers of HBase's servers, whose content is compared with the request.

use bytes::Bytes;
use lineside_hbase_client::rpc::calls::{ScanPart, changed, got, scanned};
use lineside_hbase_client::rpc::frame::parse;
use lineside_hbase_client::rpc::{RegionLookup, located};
use lineside_hbase_client::{Cell, Change, ChangeOutcome, ColumnName};

const KEY: &[u8] = b"k";
const LOW: &[u8] = b"b";
const HIGH: &[u8] = b"p";
const ROWS: u32 = 3;

fn columns() -> Vec<ColumnName> {
    let names = [&b"a:x"[..], b"a:", b"a:x"];
    names.into_iter().filter_map(ColumnName::new).collect()
}

/// Decodes an answer. The first byte of the input selects the request; the other bytes are the frame with the answer,
/// without the frame's length.
pub fn response(bytes: &[u8]) {
    let Some((asked, frame)) = bytes.split_first() else {
        return;
    };
    let frame = Bytes::copy_from_slice(frame);
    let length = frame.len();
    let Ok(response) = parse(frame) else {
        return;
    };
    let message = match response.outcome {
        Err(exception) => {
            assert!(exception.message.chars().count() <= 300 && !exception.message.contains('\n'));
            assert!(exception.class.ends_with(exception.name()));
            return;
        }
        Ok(message) => message,
    };
    assert!(message.len() < length);
    match asked % 6 {
        0 => answer_to_get(message),
        1 => answer_to_scan(message, false),
        2 => answer_to_scan(message, true),
        3 => answer_to_change(message, &Change::Increment(1)),
        4 => {
            let change = Change::CheckAndPut {
                expected: None,
                value: Vec::new(),
            };
            answer_to_change(message, &change);
        }
        _ => answer_of_meta(&message),
    }
}

/// Checks that an answer has at most one cell of each column, and no more bytes than the frame.
fn answer_to_get(message: Bytes) {
    let (columns, length) = (columns(), message.len());
    let Ok(cells) = got(message, KEY, &columns) else {
        return;
    };
    assert_eq!(cells.len(), columns.len());
    assert_eq!(cells[0], cells[2], "one column has one cell");
    let values = cells.iter().take(2).flatten();
    assert!(values.map(|cell: &Cell| cell.value.len()).sum::<usize>() <= length);
}

/// Checks that an answer has only rows of the requested range, in order, each once.
fn answer_to_scan(message: Bytes, reverse: bool) {
    let part = ScanPart {
        low: LOW.to_vec(),
        high: Some(HIGH.to_vec()),
        reverse,
        rows: ROWS,
    };
    let Ok(mut piece) = scanned(message, &part, &columns()) else {
        return;
    };
    let rows: Vec<_> = piece.cells.chunk_by(|one, other| one.key == other.key).collect();
    assert!(rows.len() == piece.rows && piece.rows <= ROWS as usize);
    if reverse {
        piece.cells.reverse();
    }
    let mut found = piece.cells.iter();
    assert!(found.all(|found| found.key[..] >= *LOW && found.key[..] < *HIGH));
    let is_before = |one: &_, other: &_| one < other;
    let keys = piece.cells.windows(2);
    assert!(
        keys.into_iter()
            .all(|two| two[0].key == two[1].key || is_before(&two[0].key, &two[1].key))
    );
}

fn answer_to_change(message: Bytes, change: &Change) {
    let Ok(changed) = changed(message, KEY, &columns()[0], change) else {
        return;
    };
    let is_number = matches!(change, Change::Increment(_));
    assert_eq!(is_number, matches!(changed, ChangeOutcome::Now(_)), "{changed:?}");
}

/// Checks that an answer of the meta table has a region that contains the requested row.
fn answer_of_meta(message: &Bytes) {
    for lookup in [
        RegionLookup::Of(KEY),
        RegionLookup::Below(Some(KEY)),
        RegionLookup::Below(None),
    ] {
        if let Ok(Some(region)) = located(message.clone(), b"t", lookup) {
            assert!(region.is_at(lookup), "{region:?}");
            assert!(region.end.is_empty() || region.start < region.end || lookup != RegionLookup::Of(KEY));
        }
    }
}

/// Returns a field of a message: bytes, or a number.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2, bytes.len() as u8][..], bytes].concat()
}

fn number(number: u8, value: u8) -> Vec<u8> {
    vec![number << 3, value]
}

fn cell(row: &[u8], qualifier: &[u8], value: &[u8]) -> Vec<u8> {
    let parts = [
        field(1, row),
        field(2, b"a"),
        field(3, qualifier),
        number(4, 7),
        number(5, 4),
        field(6, value),
    ];
    field(1, &parts.concat())
}

/// Returns the byte that selects the request, followed by a frame with the answer to call 5.
fn frame(asked: u8, message: &[u8]) -> Vec<u8> {
    let header = number(1, 5);
    [
        &[asked, header.len() as u8][..],
        &header,
        &[message.len() as u8],
        message,
    ]
    .concat()
}

pub fn response_seeds() -> Vec<Vec<u8>> {
    let row = [cell(b"k", b"", b"1"), cell(b"k", b"x", b"2")].concat();
    let rows = |keys: &[u8]| -> Vec<u8> {
        let rows = keys.iter().map(|key| field(5, &cell(&[*key], b"x", b"v")));
        rows.flatten().chain(number(8, 1)).collect()
    };
    let thrown = [
        field(1, b"a.b.RegionMovedException"),
        field(2, b"moved\n\tat x"),
        field(3, b"host"),
        number(4, 99),
    ];
    let header = [number(1, 5), field(2, &thrown.concat())].concat();
    let name = [field(1, b"default"), field(2, b"t")].concat();
    let info = [number(1, 1), field(2, &name), field(3, b"b"), field(4, b"p")].concat();
    let meta = |qualifier: &[u8], value: &[u8]| cell(b"t,b,1.x.", qualifier, value);
    let region = [
        meta(b"regioninfo", &[b"PBUF", &info[..]].concat()),
        meta(b"server", b"host:99"),
        meta(b"serverstartcode", &[0, 0, 0, 0, 0, 0, 0, 1]),
    ];
    let region = region.concat();
    // The message is longer than the one-byte length of `field` can express, so its length has two bytes.
    let length = [region.len() as u8 | 0x80, (region.len() >> 7) as u8];
    let found = [&[5 << 3 | 2][..], &length, &region].concat();
    let length = [found.len() as u8 | 0x80, (found.len() >> 7) as u8];
    vec![
        frame(0, &field(1, &row)),
        frame(0, &field(1, b"")),
        frame(1, &rows(b"bck")),
        frame(2, &rows(b"kcb")),
        frame(3, &field(1, &cell(b"k", b"x", b"12345678"))),
        frame(4, &number(2, 1)),
        [&[5, 2][..], &number(1, 5), &length, &found].concat(),
        [&[0, header.len() as u8][..], &header].concat(),
    ]
}

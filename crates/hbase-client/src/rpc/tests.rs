//! Tests of the client with a simulated server that makes one fault at a time.

use super::fake::{self, Act, State, cell, row};
use super::frame::RESPONSE_BYTES_MAX;
use super::messages::{GetResponse, Row, ScanResponse};
use super::*;
use lineside_testkit::ClosedPort;
use prost::Message;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Time limit of an action. One call may take half of it.
const TIMEOUT: Duration = Duration::from_secs(2);

fn column() -> ColumnName {
    ColumnName::new(b"a:x").unwrap()
}

fn open(state: &State) -> HBase {
    HBase::connect(&[&state.address], b"t", TIMEOUT).unwrap()
}

fn get(hbase: &HBase, key: &[u8]) -> Result<Option<Vec<u8>>, TableError> {
    let cells = hbase.get(key, &[column()])?;
    Ok(cells.into_iter().next().flatten().map(|cell| cell.value))
}

fn put(hbase: &HBase, key: &[u8], value: &[u8]) -> Result<ChangeOutcome, TableError> {
    hbase.change(
        key,
        &column(),
        &Change::Put(value.to_vec(), None),
        Nonce::default(),
    )
}

fn increment(hbase: &HBase, key: &[u8]) -> Result<Vec<u8>, TableError> {
    match hbase.change(key, &column(), &Change::Increment(1), Nonce::default())? {
        ChangeOutcome::Now(cell) => Ok(cell.value),
        other => panic!("{other:?}"),
    }
}

/// Returns a script that applies `act` to the first call of `method`, and answers all other calls.
fn first(method: &'static str, act: Act) -> impl Fn(&str, usize) -> Act + Send + Sync {
    move |asked, nth| match (asked == method, nth) {
        (true, 0) => act.clone(),
        _ => Act::Answer,
    }
}

#[test]
fn calls_of_many_threads_share_a_connection_and_get_their_own_answers() {
    const CALLERS: u8 = 16;
    let fake = fake::start(|_, _| Act::Answer);
    let hbase = open(&fake);
    assert_eq!(get(&hbase, b"a"), Ok(Some(b"aa".to_vec())));
    fake.now(|method, _| match method {
        "Get" => Act::Gather(CALLERS.into()),
        _ => Act::Answer,
    });
    std::thread::scope(|scope| {
        for caller in 0..CALLERS {
            let hbase = &hbase;
            scope.spawn(move || {
                for _ in 0..50 {
                    let key = b'a' + caller;
                    assert_eq!(get(hbase, &[key]), Ok(Some(vec![key, key])));
                }
            });
        }
    });
    assert_eq!((fake.count("Get"), fake.count("connect ClientService")), (800, 0));
    assert_eq!(fake.count("Meta"), 0);
}

#[test]
fn a_permanent_error_is_not_retried() {
    let fake = fake::start(|_, _| Act::Answer);
    let hbase = open(&fake);
    fake.now(|method, _| match method {
        "Get" | "Mutate" => Act::Throw("NoSuchColumnFamilyException", true, None),
        _ => Act::Answer,
    });
    for error in [
        get(&hbase, b"a").unwrap_err(),
        put(&hbase, b"a", b"1").unwrap_err(),
    ] {
        assert!(
            matches!(&error, TableError::UnknownFamily(why) if why.contains("requested by the test")),
            "{error:?}"
        );
    }
    assert_eq!((fake.count("Get"), fake.count("Mutate")), (1, 1));
}

#[test]
fn a_call_that_was_not_executed_is_repeated_at_the_regions_server() {
    for (class, looks) in [
        ("NotServingRegionException", 1),
        ("exceptions.RegionOpeningException", 1),
        ("RegionTooBusyException", 0),
        ("CallQueueTooBigException", 0),
    ] {
        let fake = fake::start(|_, _| Act::Answer);
        let hbase = open(&fake);
        assert_eq!(get(&hbase, b"a"), Ok(Some(b"aa".to_vec())));
        fake.now(move |method, nth| match method {
            "Get" | "Mutate" if nth < 1 => Act::Throw(class, false, None),
            _ => Act::Answer,
        });
        assert_eq!(get(&hbase, b"b"), Ok(Some(b"bb".to_vec())), "{class}");
        assert_eq!(put(&hbase, b"b", b"1"), Ok(ChangeOutcome::Done), "{class}");
        assert_eq!((fake.count("Get"), fake.count("Mutate")), (2, 2), "{class}");
        assert_eq!(fake.count("Meta"), 2 * looks, "{class}");
    }
}

#[test]
fn calls_to_an_overloaded_server_end_at_the_deadline() {
    let fake = fake::start(|method, _| match method {
        "Get" | "Mutate" => Act::Throw("RegionTooBusyException", false, None),
        _ => Act::Answer,
    });
    let hbase = open(&fake);
    let began = Instant::now();
    assert!(matches!(get(&hbase, b"a"), Err(TableError::Unavailable(_))));
    assert!(matches!(put(&hbase, b"a", b"1"), Err(TableError::Unavailable(_))));
    assert!(began.elapsed() < 2 * TIMEOUT + TIMEOUT / 2);
    assert!(fake.count("Get") > 3 && fake.count("Get") <= retry::TRIES_MAX as usize);
}

#[test]
fn an_answer_of_another_server_is_not_used() {
    let one_row = |method: &str, _| match method {
        "Scan" => Act::Message(
            ScanResponse {
                results: vec![row(vec![cell(b"a", b"aa")])],
                more_results_in_region: Some(false),
                ..ScanResponse::default()
            }
            .encode_to_vec(),
        ),
        _ => Act::Answer,
    };
    let there = fake::start(one_row);
    let address = there.address.clone();
    let here = fake::start(move |method, _| match method {
        "Scan" => Act::Throw("exceptions.RegionMovedException", false, Some(address.clone())),
        _ => Act::Answer,
    });
    let hbase = open(&here);
    let range = ScanRange {
        low: b"a".to_vec(),
        high: None,
        limit: 1,
        reverse: false,
    };
    let owner = hbase.owner(b"a").expect("a region");
    let (_, is_from_owner) = hbase.scan_from_owner(&owner, &range, &[column()]).unwrap();
    assert!(!is_from_owner);
    // The exception does not contain the name of the new server, so the client reads it from `hbase:meta`.
    let moved = hbase.owner(b"a").expect("a region");
    assert_ne!(moved.server, owner.server);
    let looks = here.count("Meta");
    hbase.forget_owner();
    assert_eq!(hbase.owner(b"a"), Some(owner.clone()));
    assert_eq!(here.count("Meta"), looks + 1);
    // A second call within a second does not look the regions up again.
    hbase.forget_owner();
    assert_eq!(hbase.owner(b"a"), Some(owner.clone()));
    assert_eq!(here.count("Meta"), looks + 1);
    here.now(one_row);
    let (found, is_from_owner) = hbase.scan_from_owner(&owner, &range, &[column()]).unwrap();
    assert_eq!((found.len(), is_from_owner), (1, true));
}

#[test]
fn a_call_follows_a_region_that_moved() {
    let there = fake::start(|_, _| Act::Answer);
    there
        .rows
        .lock()
        .unwrap()
        .insert(b"a".to_vec(), b"moved".to_vec());
    let address = there.address.clone();
    let here = fake::start(move |method, _| match method {
        "Get" => Act::Throw("exceptions.RegionMovedException", false, Some(address.clone())),
        _ => Act::Answer,
    });
    let hbase = open(&here);
    for _ in 0..3 {
        assert_eq!(get(&hbase, b"a"), Ok(Some(b"moved".to_vec())));
    }
    assert_eq!(
        (here.count("Get"), here.count("Meta"), there.count("Get")),
        (1, 1, 3)
    );
}

#[test]
fn a_malformed_frame_closes_the_connection_and_gives_no_wrong_answer() {
    let answer = GetResponse {
        result: Some(row(vec![cell(b"a", b"lie")])),
    }
    .encode_to_vec();
    let whole = fake::response(1, None, &answer);
    let with_length = |length: u32| [&length.to_be_bytes()[..], &whole[4..]].concat();
    let lies = [
        Act::OtherCall,
        Act::Raw(whole[..whole.len() - 1].to_vec()),
        Act::Raw(whole[..2].to_vec()),
        Act::Raw(with_length(whole.len() as u32 - 5)),
        Act::Raw(with_length(u32::MAX)),
        Act::Raw(with_length(RESPONSE_BYTES_MAX as u32)),
        Act::Raw([0, 0, 0, 0].to_vec()),
        Act::Raw([&[0, 0, 0, 9][..], &[0xff; 9]].concat()),
        Act::Raw(fake::response(u32::MAX, None, &answer)),
        Act::Raw(Vec::new()),
    ];
    for lie in lies {
        let fake = fake::start(first("Get", lie.clone()));
        let hbase = open(&fake);
        assert_eq!(get(&hbase, b"a"), Ok(Some(b"aa".to_vec())), "{lie:?}");
        assert_eq!(fake.count("connect ClientService"), 2, "{lie:?}");
    }
    // The second copy of an answer belongs to no call, so the connection is closed.
    let fake = fake::start(first("Get", Act::Twice));
    let hbase = open(&fake);
    assert_eq!(get(&hbase, b"a"), Ok(Some(b"aa".to_vec())));
    assert_eq!(get(&hbase, b"b"), Ok(Some(b"bb".to_vec())));
    assert_eq!(fake.count("connect ClientService"), 2);
}

#[test]
fn an_answer_that_does_not_match_its_request_is_an_error() {
    let named = |family: &'static [u8], qualifier: &'static [u8]| super::messages::Cell {
        family: Some(family.into()),
        qualifier: Some(qualifier.into()),
        ..cell(b"a", b"1")
    };
    let deleted = super::messages::Cell {
        cell_type: Some(8),
        ..cell(b"a", b"1")
    };
    let partial = Row {
        partial: Some(true),
        ..row(vec![cell(b"a", b"1")])
    };
    let elsewhere = Row {
        associated_cell_count: Some(1),
        ..Row::default()
    };
    let stale = Row {
        stale: Some(true),
        ..row(vec![cell(b"a", b"1")])
    };
    let wrong = [
        row(vec![cell(b"b", b"1")]),
        row(vec![cell(b"a", b"1"), cell(b"b", b"1")]),
        row(vec![cell(b"a", b"1"), cell(b"a", b"2")]),
        row(vec![named(b"a", b"y")]),
        row(vec![named(b"b", b"x")]),
        row(vec![deleted]),
        partial,
        elsewhere,
        stale,
    ];
    let mut messages: Vec<_> = (wrong.into_iter())
        .map(|row| GetResponse { result: Some(row) }.encode_to_vec())
        .collect();
    messages.push(GetResponse::default().encode_to_vec());
    messages.push(vec![0xff]);
    for message in messages {
        let fake = fake::start(first("Get", Act::Message(message.clone())));
        let hbase = open(&fake);
        let error = get(&hbase, b"a").unwrap_err();
        assert!(
            matches!(&error, TableError::Unavailable(why) if why.contains("wrong")),
            "{error:?}"
        );
        assert_eq!((fake.count("Get"), fake.count("connect ClientService")), (1, 1));
        assert_eq!(get(&hbase, b"a"), Ok(Some(b"aa".to_vec())));
    }
}

#[test]
fn rows_outside_the_range_or_order_of_a_scan_are_refused() {
    let range = |reverse| ScanRange {
        low: b"b".to_vec(),
        high: Some(b"e".to_vec()),
        limit: 2,
        reverse,
    };
    let cases = [
        ("bc", false, true),
        ("dc", true, true),
        ("", false, true),
        ("cb", false, false),
        ("cd", true, false),
        ("cc", false, false),
        ("ab", false, false),
        ("e", false, false),
        ("bcd", false, false),
    ];
    for (keys, reverse, is_right) in cases {
        let results = keys.bytes().map(|key| row(vec![cell(&[key], b"1")])).collect();
        let answer = ScanResponse {
            results,
            more_results_in_region: Some(false),
            ..ScanResponse::default()
        };
        let fake = fake::start(first("Scan", Act::Message(answer.encode_to_vec())));
        let found = open(&fake).scan(&range(reverse), &[column()]);
        assert_eq!(found.is_ok(), is_right, "{keys} {reverse}: {found:?}");
        let found: Vec<u8> = found.into_iter().flatten().map(|found| found.key[0]).collect();
        assert!(!is_right || found == keys.as_bytes(), "{keys}");
    }
}

#[test]
fn an_answer_that_is_too_long_fails_its_call_alone() {
    let long = GetResponse {
        result: Some(row(vec![cell(b"a", &vec![0; RESPONSE_BYTES_MAX])])),
    };
    let fake = fake::start(first("Get", Act::Message(long.encode_to_vec())));
    let hbase = open(&fake);
    let error = get(&hbase, b"a").unwrap_err();
    assert!(error.to_string().contains("too long"), "{error}");
    assert_eq!(get(&hbase, b"b"), Ok(Some(b"bb".to_vec())));
    assert_eq!(fake.count("connect ClientService"), 1);
}

#[test]
fn a_change_without_an_answer_is_reported_as_unknown_and_not_repeated() {
    for act in [Act::Silence, Act::DoAndClose, Act::Raw(vec![0, 0])] {
        let fake = fake::start(first("Mutate", act.clone()));
        let hbase = open(&fake);
        let began = Instant::now();
        let error = put(&hbase, b"a", b"1").unwrap_err();
        assert!(matches!(error, TableError::Unknown(_)), "{act:?}: {error:?}");
        assert!(began.elapsed() < TIMEOUT);
        assert_eq!(fake.count("Mutate"), 1, "{act:?}");
        // The server did not respond, so the client opens a new connection to it.
        assert_eq!(put(&hbase, b"a", b"2"), Ok(ChangeOutcome::Done));
        assert_eq!(get(&hbase, b"a"), Ok(Some(b"2".to_vec())));
        assert_eq!(fake.count("connect ClientService"), 2, "{act:?}");
    }
    let fake = fake::start(first("Mutate", Act::Message(vec![0xff])));
    assert!(matches!(
        put(&open(&fake), b"a", b"1"),
        Err(TableError::Unknown(_))
    ));
    assert_eq!(fake.count("Mutate"), 1);
}

#[test]
fn an_increment_without_an_answer_is_repeated_and_counts_once() {
    for act in [Act::Silence, Act::DoAndClose] {
        let fake = fake::start(first("Mutate", act));
        fake.rows.lock().unwrap().clear();
        let hbase = open(&fake);
        for sum in 1..4_i64 {
            assert_eq!(increment(&hbase, b"n"), Ok(sum.to_be_bytes().to_vec()));
        }
        assert_eq!(fake.count("Mutate"), 4);
    }
}

#[test]
fn an_increment_is_not_repeated_on_another_server() {
    let fake = fake::start(first("Mutate", Act::DoAndClose));
    fake.rows.lock().unwrap().clear();
    let hbase = open(&fake);
    assert_eq!(get(&hbase, b"n"), Ok(None));
    // The server was restarted at the same address, so its start code has changed.
    fake.placed.lock().unwrap()[0].3 = 2;
    assert!(matches!(increment(&hbase, b"n"), Err(TableError::Unknown(_))));
    assert_eq!(fake.count("Mutate"), 1);
    assert_eq!(increment(&hbase, b"n"), Ok(2_i64.to_be_bytes().to_vec()));
}

#[test]
fn a_late_answer_is_discarded() {
    let fake = fake::start(first("Get", Act::Late));
    let hbase = open(&fake);
    let is_answered = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!(get(&hbase, b"a"), Ok(Some(b"aa".to_vec())));
            is_answered.store(true, Relaxed);
        });
        // Puts in the meantime show that the server responds, so the connection stays open. The late answer arrives
        // before the answer to the second attempt.
        while !is_answered.load(Relaxed) {
            assert_eq!(put(&hbase, b"z", b"1"), Ok(ChangeOutcome::Done));
        }
    });
    assert_eq!((fake.count("Get"), fake.count("connect ClientService")), (2, 1));
}

#[test]
fn a_lost_server_is_reported_and_found_again() {
    let fake = fake::start(|_, _| Act::Answer);
    let hbase = open(&fake);
    let closed = ClosedPort::new();
    fake.placed.lock().unwrap()[0].2 = closed.address().to_string();
    let began = Instant::now();
    for error in [
        get(&hbase, b"a").unwrap_err(),
        put(&hbase, b"a", b"1").unwrap_err(),
    ] {
        assert!(matches!(error, TableError::Unavailable(_)), "{error:?}");
    }
    assert!(began.elapsed() < 3 * TIMEOUT);
    fake.placed.lock().unwrap()[0].2 = fake.address.clone();
    assert_eq!(get(&hbase, b"a"), Ok(Some(b"aa".to_vec())));
    // The server restarts: it closes its connections, and the client opens a new one.
    fake.now(first("Get", Act::Raw(Vec::new())));
    assert_eq!(get(&hbase, b"a"), Ok(Some(b"aa".to_vec())));
    assert_eq!(fake.count("connect ClientService"), 1);
}

#[test]
fn a_server_that_requires_authentication_is_refused_with_a_reason() {
    let denied = fake::exception("security.AccessDeniedException", true, None);
    let fake = fake::start(move |_, _| Act::Raw(fake::response(u32::MAX, Some(denied.clone()), b"")));
    let error = HBase::connect(&[&fake.address], b"t", TIMEOUT).unwrap_err();
    assert!(
        matches!(&error, TableError::Refused(why) if why.contains("Kerberos")),
        "{error:?}"
    );
}

#[test]
fn the_next_server_is_asked_if_one_does_not_answer() {
    let fake = fake::start(|_, _| Act::Answer);
    let closed = ClosedPort::new();
    let hbase = HBase::connect(&[&closed.address().to_string(), &fake.address], b"t", TIMEOUT).unwrap();
    assert_eq!(get(&hbase, b"a"), Ok(Some(b"aa".to_vec())));
    let none = HBase::connect(&[&fake.address], b"other", TIMEOUT).unwrap_err();
    assert!(matches!(none, TableError::Refused(_)), "{none:?}");
}

#[test]
fn malformed_rows_of_meta_are_refused() {
    let meta = |rows: Vec<Row>| ScanResponse {
        results: rows,
        more_results_in_region: Some(false),
        ..ScanResponse::default()
    };
    let fake = fake::start(|_, _| Act::Answer);
    let address = fake.address.clone();
    // The client skips the parent of a split region.
    let parent = fake::meta_row("", "", &address, 9, true);
    let daughter = fake::meta_row("", "m", &address, 8, false);
    let hbase = open(&fake);
    fake.now(first(
        "Meta",
        Act::Message(meta(vec![parent.clone(), daughter]).encode_to_vec()),
    ));
    assert_eq!(get(&hbase, b"a"), Ok(Some(b"aa".to_vec())));
    assert_eq!((fake.count("Meta"), fake.count("Get")), (1, 1));
    // If `hbase:meta` returns no region, or one that does not contain the row, the client asks again.
    let elsewhere = fake::meta_row("n", "o", &address, 7, false);
    for rows in [vec![], vec![parent], vec![elsewhere]] {
        let hbase = open(&fake);
        fake.now(first("Meta", Act::Message(meta(rows).encode_to_vec())));
        assert_eq!(get(&hbase, b"z"), Ok(Some(b"zz".to_vec())));
        assert_eq!(fake.count("Meta"), 2);
    }
    let hbase = open(&fake);
    fake.now(first(
        "Meta",
        Act::Message(meta(vec![row(vec![cell(b"t,,1", b"")])]).encode_to_vec()),
    ));
    assert!(matches!(get(&hbase, b"z"), Err(TableError::Unavailable(why)) if why.contains("wrong")));
}

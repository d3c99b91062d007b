//! Attack `kill` on `column`: kill -9 while clients change data. Each client puts rows, increments a counter and
//! appends to a row, in a session. A change without an answer may or may not have been executed, but at most once; an
//! acknowledged change must be present exactly once.

use super::{Load, REQUEST_TIMEOUT, any_port, under_load};
use crate::client::{Ask, Client};
use crate::packet::{self, Session, column, status};
use crate::service::{Name, Service};
use crate::{Report, Scene};
use lineside_testkit::Random;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

const CLIENTS: u64 = 8;
/// Number of rows that one client puts.
const ROWS: u64 = 200;
/// Number of tags that a client appends to one row.
const TAGS: u64 = 60;
const TAG_BYTES: usize = 5;
/// Time-out of a request. After it, the client does not know whether the change was executed.
const ANSWER: Duration = Duration::from_secs(2);
/// Size of a request's body in bytes. It leaves space for the longest row in the reply.
const REQUEST_BODY_BYTES: usize = 600;

type Row = Vec<u8>;
type Value = Vec<u8>;

/// Changes of one client, with the client's knowledge of their outcome.
#[derive(Default)]
struct Changes {
    /// Puts by row: the last acknowledged value, and the values of later puts without an answer.
    puts: HashMap<Row, (Option<Value>, Vec<Value>)>,
    /// Number of acknowledged increments, and number of increments without an answer.
    increments: (u64, u64),
    /// Appends by row: the acknowledged tags, and the tags without an answer.
    appends: HashMap<Row, (Vec<Value>, Vec<Value>)>,
}

/// Runs the case with the embedded table.
pub fn column(scene: &Scene, report: &mut Report) -> anyhow::Result<()> {
    let mut service = Service::new(scene, Name::Column, any_port(), "")?;
    let server = service.start(None)?;
    let listen = server.listen;
    let load = Load::default();
    let clients = (0..CLIENTS).map(|number| {
        let (load, seed) = (&load, scene.seed);
        move || change(number, listen, load, seed)
    });
    let (mut server, changes) =
        under_load(&load, clients, || load.kill(scene, &mut service, server, report))?;
    load.tell(report);
    report.peak(server.peak_bytes());
    // The last acknowledged changes must be on the disk, too.
    server.kill();
    let server = service.start(None)?;
    let mut reader = Client::new(server.listen, 1 << 40)?;
    for (number, changes) in changes.iter().enumerate() {
        check(number as u64, changes, &mut reader, report);
    }
    server.terminate()
}

/// Changes rows until the attack is over.
fn change(client: u64, server: SocketAddr, load: &Load, seed: u64) -> Changes {
    let mut random = Random(seed ^ ((client + 1) << 32));
    let mut changes = Changes::default();
    let mut way = Client::new(server, 1).expect("a socket");
    let mut session = None;
    let mut number = 0;
    while !load.is_over() {
        let Some(open) = session.or_else(|| way.open_column(ANSWER)) else {
            continue;
        };
        number += 1;
        let status = match number % 3 {
            0 => put(client, number, &mut random, &mut way, open, &mut changes),
            1 => increment(client, &mut way, open, &mut changes),
            _ => append(client, number, &mut way, open, &mut changes),
        };
        session = Some(Session {
            next: open.next + 1,
            ..open
        });
        match status {
            Some(status::OK) => load.acknowledge(1),
            // The daemon's session ended with its process, or the outcome of the change is unknown: the client opens a
            // new session.
            None | Some(status::NO_SESSION | status::OUTCOME_UNKNOWN) => {
                load.repeated.fetch_add(1, Relaxed);
                session = None;
            }
            // The change was not executed, so the next change of the session has the same nonce.
            Some(status::BUSY) => session = Some(open),
            Some(other) => {
                load.fault(format!("client {client}: status {other} to change {number}"));
                return changes;
            }
        }
    }
    changes
}

fn put(
    client: u64,
    number: u64,
    random: &mut Random,
    way: &mut Client,
    session: Session,
    changes: &mut Changes,
) -> Option<u16> {
    let row = format!("put{client}-{}", random.below(ROWS)).into_bytes();
    let value = format!("value{client}-{number}").into_bytes();
    let body = packet::column_body(session, &row, &value, REQUEST_BODY_BYTES);
    let status = way.ask(column::PUT, &body, ANSWER).map(|answer| answer.status);
    let known = changes.puts.entry(row).or_default();
    match status {
        Some(status::OK) => *known = (Some(value), Vec::new()),
        Some(status::BUSY) => {}
        _ => known.1.push(value),
    }
    status
}

fn increment(client: u64, way: &mut Client, session: Session, changes: &mut Changes) -> Option<u16> {
    let body = packet::column_body(
        session,
        &counter_of(client),
        &1u64.to_be_bytes(),
        REQUEST_BODY_BYTES,
    );
    let status = way
        .ask(column::INCREMENT, &body, ANSWER)
        .map(|answer| answer.status);
    match status {
        Some(status::OK) => changes.increments.0 += 1,
        Some(status::BUSY) => {}
        _ => changes.increments.1 += 1,
    }
    status
}

fn append(
    client: u64,
    number: u64,
    way: &mut Client,
    session: Session,
    changes: &mut Changes,
) -> Option<u16> {
    let row = format!("append{client}-{}", number / (3 * TAGS)).into_bytes();
    let tag = format!("{:04},", number % 10_000).into_bytes();
    let body = packet::column_body(session, &row, &tag, REQUEST_BODY_BYTES);
    let status = way.ask(column::APPEND, &body, ANSWER).map(|answer| answer.status);
    let (acknowledged, unknown) = changes.appends.entry(row).or_default();
    match status {
        Some(status::OK) => acknowledged.push(tag),
        Some(status::BUSY) => {}
        _ => unknown.push(tag),
    }
    status
}

fn counter_of(client: u64) -> Vec<u8> {
    format!("counter{client}").into_bytes()
}

/// Compares the changes of one client with the table.
fn check(client: u64, changes: &Changes, reader: &mut Client, report: &mut Report) {
    let mut read = |row: &[u8], report: &mut Report| {
        let body = packet::column_body(Session::default(), row, &[], REQUEST_BODY_BYTES);
        let answer = reader.ask(column::GET, &body, REQUEST_TIMEOUT);
        report.count("rows", 1);
        if answer.is_none() {
            report.fault(format!("row {} cannot be read", String::from_utf8_lossy(row)));
        }
        answer.and_then(|answer| packet::value(&answer.body).map(<[u8]>::to_vec))
    };
    for (row, (acknowledged, unknown)) in &changes.puts {
        let held = read(row, report);
        let is_right = held == *acknowledged || held.as_ref().is_some_and(|held| unknown.contains(held));
        if !is_right {
            report.lose(format!(
                "row {}: the last acknowledged put wrote {acknowledged:?}, but the table has {held:?} (None: no value)",
                text(row)
            ));
        }
    }
    let (made, unknown) = changes.increments;
    let held = read(&counter_of(client), report).map_or(0, |value| packet::be64(&value, 0));
    if held < made {
        report.lose(format!(
            "counter {client}: the table has {held}, but {made} increments were acknowledged"
        ));
    } else if held > made + unknown {
        report.double(format!(
            "counter {client}: the table has {held}, but {made} increments were acknowledged and {unknown} were not \
             answered"
        ));
    }
    for (row, (acknowledged, unknown)) in &changes.appends {
        let held = read(row, report).unwrap_or_default();
        let tags: Vec<_> = held.chunks(TAG_BYTES).collect();
        for tag in acknowledged {
            match tags.iter().filter(|held| *held == tag).count() {
                0 => report.lose(format!(
                    "row {}: the append of {} was acknowledged, but is missing",
                    text(row),
                    text(tag)
                )),
                1 => {}
                _ => report.double(format!("row {}: {} occurs more than once", text(row), text(tag))),
            }
        }
        for tag in tags {
            let is_known = |known: &[Vec<u8>]| known.iter().any(|known| known == tag);
            if !is_known(acknowledged) && !is_known(unknown) {
                report.fault(format!(
                    "row {}: contains {}, which no client appended",
                    text(row),
                    text(tag)
                ));
            }
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

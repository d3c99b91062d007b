//! Number of journal bytes that a refused packet costs the server. Its reply is the same after a restart.

mod transfer_server;

use lineside_client::transfer::Session;
use lineside_wire::{
    ExecuteHead, Operation, TRANSFER_COMMAND_CREATE as CREATE, TRANSFER_COMMAND_TRANSFER as TRANSFER,
    TRANSFER_OP_EXECUTE, TRANSFER_OPERATIONS_MAX, TransferCode as Code, native,
};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use tempfile::TempDir;
use transfer_server::{REPLY_TIMEOUT, Server, operation};
use zerocopy::{FromBytes, IntoBytes};

const JOURNAL: &str = "lineside_transfer_journal_bytes_total";

/// Sends one packet over a new connection and returns the reply, which has the same length.
fn ask_by_stream(server: SocketAddr, packet: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(server).unwrap();
    stream.set_read_timeout(Some(REPLY_TIMEOUT)).unwrap();
    stream.write_all(packet).unwrap();
    let mut reply = vec![0; packet.len()];
    stream.read_exact(&mut reply).unwrap();
    reply
}

/// Returns the next packet of a session.
fn packet_of(session: &Session, operations: &[Operation]) -> Vec<u8> {
    let head = ExecuteHead {
        token: session.token.into(),
        sequence: session.next.into(),
        slot: session.slot.into(),
        count: (operations.len() as u16).into(),
        durability: 0.into(),
    };
    let body = [head.as_bytes(), operations.as_bytes()].concat();
    let header = native::request_header(TRANSFER_OP_EXECUTE, 5, body.len() as u16);
    [header.as_bytes(), &body].concat()
}

/// Opens a session, creates account 1 with a balance of 10 and account 2 with 0, and returns the session and
/// operations.
fn session_with_accounts(server: &Server) -> (Session, [Operation; 2]) {
    let mut client = server.client();
    let mut session = client.open().unwrap();
    let make = [operation(CREATE, 1, 0, 10), operation(CREATE, 2, 0, 0)].map(|operation| Operation {
        destination: [0; 16],
        ..operation
    });
    client.execute(&mut session, &make).unwrap();
    (session, make)
}

/// Regression test: a packet like this once took 79 KB of journal for all its operations.
#[test]
fn refused_operations_of_a_partly_executed_large_packet_cost_little_journal_space() {
    let data = TempDir::new().unwrap();
    let server = Server::start(data.path(), "127.0.0.1:0").unwrap();
    let (session, _) = session_with_accounts(&server);
    let mut operations = vec![operation(TRANSFER, 3, 1, 1); TRANSFER_OPERATIONS_MAX];
    operations[100] = operation(TRANSFER, 1, 2, 1);
    let packet = packet_of(&session, &operations);
    let before = server.metric(JOURNAL);
    let first = ask_by_stream(server.address, &packet);
    let bytes = server.metric(JOURNAL) - before;
    assert!((1..=256).contains(&bytes), "{bytes} bytes");
    let outcomes = <[Operation]>::ref_from_bytes(&first[40..]).unwrap();
    for (at, outcome) in outcomes.iter().enumerate() {
        let code = if at == 100 {
            Code::Done
        } else {
            Code::UnknownAccount
        };
        assert_eq!(outcome.code.get(), code as u16, "operation {at}");
    }
    drop(server);
    let server = Server::start(data.path(), "127.0.0.1:0").unwrap();
    assert_eq!(ask_by_stream(server.address, &packet), first, "after a restart");
}

#[test]
fn a_large_packet_refused_for_many_reasons_costs_96_journal_bytes_and_has_one_answer() {
    let data = TempDir::new().unwrap();
    let server = Server::start(data.path(), "127.0.0.1:0").unwrap();
    let (mut session, make) = session_with_accounts(&server);
    let reasons = [
        (operation(TRANSFER, 1, 2, 11), Code::InsufficientFunds),
        (operation(TRANSFER, 1, 1, 1), Code::SameAccount),
        (operation(TRANSFER, 3, 1, 1), Code::UnknownAccount),
        (make[0], Code::AccountExists),
        (operation(77, 1, 2, 1), Code::BadCommand),
    ];
    let operations: Vec<Operation> = reasons
        .iter()
        .map(|(operation, _)| *operation)
        .cycle()
        .take(TRANSFER_OPERATIONS_MAX)
        .collect();
    let packet = packet_of(&session, &operations);
    let before = server.metric(JOURNAL);
    let first = ask_by_stream(server.address, &packet);
    let bytes = server.metric(JOURNAL) - before;
    assert!((1..=96).contains(&bytes), "{bytes} bytes");
    let outcomes = <[Operation]>::ref_from_bytes(&first[40..]).unwrap();
    for (at, outcome) in outcomes.iter().enumerate() {
        let code = if at < 84 { reasons[at % 5].1 } else { Code::Busy };
        assert_eq!(outcome.code.get(), code as u16, "operation {at}");
    }
    assert_eq!(ask_by_stream(server.address, &packet), first);
    drop(server);
    let server = Server::start(data.path(), "127.0.0.1:0").unwrap();
    assert_eq!(ask_by_stream(server.address, &packet), first, "after a restart");
    // If a packet was refused as busy, the client can send it again, and it is executed.
    session.next += 1;
    let executed = server
        .client()
        .execute(&mut session, &[operation(TRANSFER, 1, 2, 10)])
        .unwrap();
    assert_eq!(executed.outcomes[0].code, Code::Done);
}

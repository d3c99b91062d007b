//! Contestant `durable`: Lineside's server with the socket datapath, and its clients. They send native packets with one
//! or many transfers over TCP, and packets in the paper's format over UDP.

use super::drain::Removed;
use super::peer::{Peer, Requests, Stream};
use super::plan::BALANCE;
use super::store::geometry;
use crate::error::{BenchError, Result, io};
use crate::sys::{self, BATCH, Batch, Ready};
use lineside_client::transfer::{Client, Session};
use lineside_fastpath::{BatchHost, BatchRequest, Readers, Source, lease};
use lineside_net::{SocketDatapath, SocketOptions};
use lineside_transfer::AccountId;
use lineside_transfer::fastpath::TransferFastPath;
use lineside_transfer::host::{SealPolicy, SessionPolicy, Setup};
use lineside_transfer::ledger::Limits;
use lineside_transfer::paper::PaperRequest;
use lineside_transfer::server::Server;
use lineside_transfer::store::{Geometry, Mode, Store};
use lineside_wire::{
    ExecuteHead, NATIVE_REPLY_BIT, NativeHeader, Operation, Status, TRANSFER_COMMAND_CREATE,
    TRANSFER_COMMAND_TRANSFER, TRANSFER_DURABLE, TRANSFER_OP_EXECUTE, TRANSFER_PAPER_BYTES_MAX,
    TransferCode as Code, native,
};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// Lease in nanoseconds; it is longer than the run of any benchmark.
const LEASE_NS: u64 = 1 << 42;
const QUEUE: usize = 8192;
const ACCOUNT_BITS: u32 = 18;
const SESSIONS: u32 = 64;
/// Number of requests in a batch that creates accounts.
const GROUP: u32 = 2048;
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);

/// Returns the loopback address, which is the source address of a client.
pub fn here() -> Source {
    Source {
        address: Ipv4Addr::LOCALHOST.into(),
        port: 40_000,
    }
}

/// Returns an empty fast-path table for `durable` mode.
pub fn empty_store() -> Result<Arc<Store>> {
    let geometry = Geometry {
        mode: Mode::Durable,
        sessions: SESSIONS,
        ..geometry(ACCOUNT_BITS, 1)
    };
    let store = Store::anonymous(&geometry).map_err(io("making a fast-path table"))?;
    lease::renew(&store.control().lease_until_ns, LEASE_NS);
    Ok(Arc::new(store))
}

/// Opens a server with its data in `folder`.
pub fn open(folder: &Path, store: &Arc<Store>) -> Result<Server> {
    let setup = Setup {
        limits: Limits {
            accounts: 1 << ACCOUNT_BITS,
            sessions: SESSIONS,
            pendings: 1 << 20,
            keys: 1 << 20,
            key_window_s: 3600,
        },
        seal: SealPolicy::default(),
        sessions: SessionPolicy {
            per_source: SESSIONS as usize,
            ..SessionPolicy::default()
        },
        issuer_keys: Vec::new(),
        key_table_bytes: lineside_transfer::signed::TABLE_BYTES,
        express: None,
    };
    let opened = Server::open(folder, setup, Arc::clone(store));
    let failed = |error| BenchError::Void(format!("opening the ledger: {error}"));
    Ok(opened.map_err(failed)?.0)
}

/// Creates the accounts from 0 up to, but not including, `accounts`.
pub fn make_accounts(server: &mut Server, accounts: u32) -> Result<()> {
    for first in (0..accounts).step_by(GROUP as usize) {
        let requests: Vec<_> = (first..accounts.min(first + GROUP))
            .map(|account| PaperRequest::new(TRANSFER_COMMAND_CREATE, 0, account, 0, BALANCE).to_bytes())
            .collect();
        let asked: Vec<BatchRequest<'_>> = requests
            .iter()
            .map(|request| BatchRequest {
                from: here(),
                payload: request,
            })
            .collect();
        let said = server.execute_and_take(&asked);
        // The reply to a successful CREATE equals its request.
        let made = said.iter().zip(&requests);
        if !made
            .into_iter()
            .all(|(said, request)| said.reply.as_deref() == Some(request))
        {
            return Err(BenchError::Void(format!(
                "accounts from {first} on were not created"
            )));
        }
    }
    Ok(())
}

/// Server with its sockets.
pub struct LinesideServer {
    datapath: SocketDatapath,
    store: Arc<Store>,
    _data: Removed,
}

impl LinesideServer {
    /// Starts the server with `accounts` accounts, numbered from 0. Its data is in `folder`, which is removed at the
    /// end.
    ///
    /// # Errors
    /// Fails if the server cannot start.
    pub fn start(folder: &Path, accounts: u32) -> Result<Self> {
        let data = Removed::make(folder)?;
        let store = empty_store()?;
        let mut server = open(folder, &store)?;
        make_accounts(&mut server, accounts)?;
        let options = SocketOptions {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            threads: 1,
            queue: QUEUE,
        };
        let fastpath = Arc::new(TransferFastPath::new(Arc::clone(&store)));
        let datapath =
            SocketDatapath::start_batched(options, fastpath, Box::new(server), &Readers::default());
        Ok(Self {
            datapath: datapath.map_err(io("starting the durable server"))?,
            store,
            _data: data,
        })
    }

    /// Returns the sum of the balances of all accounts in the fast-path table.
    pub fn held(&self) -> u64 {
        let cells = self.store.cells.as_slice().iter();
        cells.map(|cell| cell.balance.load(Relaxed)).sum()
    }

    /// Returns the number of changes of accounts since their creation. Each transfer makes two changes.
    pub fn changes(&self) -> u64 {
        let cells = self.store.cells.as_slice().iter();
        cells
            .map(|cell| cell.version.load(Relaxed).saturating_sub(1))
            .sum()
    }

    /// Returns a client that sends packets in the paper's format.
    ///
    /// # Errors
    /// Error of the operating system.
    pub fn udp(&self, requests: Requests) -> Result<Box<dyn Peer>> {
        let connecting = || {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
            socket.connect(self.datapath.local_addr())?;
            socket.set_nonblocking(true)?;
            sys::set_segment(&socket, TRANSFER_PAPER_BYTES_MAX as u16)?;
            Ok(socket)
        };
        Ok(Box::new(Paper {
            socket: connecting().map_err(io("connecting a client"))?,
            out: Batch::default(),
            input: Batch::default(),
            requests,
        }))
    }

    /// Returns a client with a session. Each of its requests is one packet.
    ///
    /// # Errors
    /// Error of the operating system or of the server.
    pub fn tcp(&self, requests: Requests) -> Result<Box<dyn Peer>> {
        let server = self.datapath.local_addr();
        let failed = |error: lineside_client::transfer::ClientError| BenchError::Void(error.to_string());
        let mut client = Client::connect(server, REPLY_TIMEOUT).map_err(failed)?;
        let session = client.open().map_err(failed)?;
        let connecting = || {
            let stream = TcpStream::connect(server)?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            Ok(stream)
        };
        let stream = connecting().map_err(io("connecting a client"))?;
        let fd = stream.as_raw_fd();
        Ok(Box::new(Native {
            stream: Stream::new(stream, fd),
            requests,
            first: session.next,
            session,
        }))
    }
}

struct Paper {
    socket: UdpSocket,
    out: Batch,
    input: Batch,
    requests: Requests,
}

impl Paper {
    fn request(&self, number: u64) -> PaperRequest {
        let Self { requests, .. } = self;
        let (from, to) = (requests.source(number), requests.destination(number));
        PaperRequest::new(
            TRANSFER_COMMAND_TRANSFER,
            requests.transaction(number),
            from,
            to,
            1,
        )
    }
}

impl Peer for Paper {
    fn ready(&self) -> Ready {
        Ready {
            fd: self.socket.as_raw_fd(),
            to_write: false,
        }
    }

    fn pump(&mut self, asks: bool) -> std::io::Result<()> {
        let got = self.input.receive(&self.socket);
        for index in 0..got {
            let reply = self.input.get(index);
            let number = PaperRequest::parse(reply)
                .and_then(|reply| self.requests.number_of(reply.source, reply.transaction_id));
            let is_right = number.is_some_and(|number| {
                let mut due = self.request(number);
                due.amount = self.requests.balance_after(number) as u32;
                reply == due.to_bytes()
            });
            self.requests.answered(number, is_right.into(), reply);
        }
        let mut count = 0;
        while asks
            && count < BATCH
            && let Some(number) = self.requests.ask()
        {
            let request = self.request(number).to_bytes();
            self.out.put(count, &request);
            count += 1;
        }
        if count > 0 {
            // A request that cannot be sent gets no answer, so it counts as lost.
            self.out.send_segmented(&self.socket, count);
        }
        Ok(())
    }

    fn requests(&mut self) -> &mut Requests {
        &mut self.requests
    }
}

/// Appends a packet of a session with transfers of 1, beginning with transfer `number`.
pub fn batch(out: &mut Vec<u8>, session: &Session, requests: &Requests, number: u64) {
    let count = requests.each() as usize;
    let body = size_of::<ExecuteHead>() + count * size_of::<Operation>();
    let header = native::request_header(TRANSFER_OP_EXECUTE, session.next, body as u16);
    let head = ExecuteHead {
        token: session.token.into(),
        sequence: session.next.into(),
        slot: session.slot.into(),
        count: (count as u16).into(),
        durability: 0.into(),
    };
    out.extend_from_slice(header.as_bytes());
    out.extend_from_slice(head.as_bytes());
    let mut operation = Operation {
        command: TRANSFER_COMMAND_TRANSFER,
        amount: 1.into(),
        ..Operation::new_zeroed()
    };
    for number in number..number + count as u64 {
        operation.source = AccountId::from_paper(requests.source(number)).0;
        operation.destination = AccountId::from_paper(requests.destination(number)).0;
        out.extend_from_slice(operation.as_bytes());
    }
}

/// Returns the sequence number of the packet that `reply` answers: the request id of its header. Clients use the
/// sequence number as the request id, too.
fn sequence_of(reply: &[u8]) -> Option<u64> {
    let (header, _) = NativeHeader::ref_from_prefix(reply).ok()?;
    Some(header.request_id.get())
}

/// Returns the number of right transfers in the reply to the packet with sequence number `sequence`, whose first
/// transfer is `number`.
fn right(reply: &[u8], requests: &Requests, sequence: u64, number: u64) -> u64 {
    let Ok((header, body)) = NativeHeader::ref_from_prefix(reply) else {
        return 0;
    };
    let Ok((head, rest)) = ExecuteHead::ref_from_prefix(body) else {
        return 0;
    };
    let Ok(operations) = <[Operation]>::ref_from_bytes(rest) else {
        return 0;
    };
    let is_ours = header.op == TRANSFER_OP_EXECUTE | NATIVE_REPLY_BIT
        && header.request_id.get() == sequence
        && header.status.get() == Status::Ok as u16
        && head.sequence.get() == sequence
        && head.durability.get() == TRANSFER_DURABLE;
    if !is_ours {
        return 0;
    }
    let is_right = |(number, operation): &(u64, &Operation)| {
        operation.code.get() == Code::Done as u16
            && operation.amount.get() == requests.balance_after(*number)
            && operation.source == AccountId::from_paper(requests.source(*number)).0
            && operation.number.get() > 0
    };
    (number..).zip(operations).filter(is_right).count() as u64
}

struct Native {
    stream: Stream<TcpStream>,
    requests: Requests,
    /// Sequence number of the first request. Each request has the next number.
    first: u64,
    session: Session,
}

impl Peer for Native {
    fn ready(&self) -> Ready {
        self.stream.ready()
    }

    fn pump(&mut self, asks: bool) -> std::io::Result<()> {
        self.stream.fill()?;
        while let Ok((header, _)) = NativeHeader::ref_from_prefix(self.stream.input()) {
            let bytes = size_of::<NativeHeader>() + usize::from(header.length.get());
            let Some(reply) = self.stream.input().get(..bytes) else {
                break;
            };
            let sequence =
                sequence_of(reply).filter(|sequence| (self.first..self.session.next).contains(sequence));
            let number = sequence.map(|sequence| (sequence - self.first) * self.requests.each());
            let right = match sequence.zip(number) {
                Some((sequence, number)) => right(reply, &self.requests, sequence, number),
                None => 0,
            };
            self.requests.answered(number, right, reply);
            self.stream.take(bytes);
        }
        while asks && let Some(number) = self.requests.ask() {
            batch(self.stream.out(), &self.session, &self.requests, number);
            self.session.next += 1;
        }
        self.stream.flush()
    }

    fn requests(&mut self) -> &mut Requests {
        &mut self.requests
    }
}

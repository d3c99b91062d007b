//! Simulated node that replays transcripts (`tests/transcripts`) and sends wrong answers if a test demands it, and a
//! simulated ZMQ publisher.

#![allow(dead_code, reason = "each test file uses a part")]

use lineside_testkit::DemoChain;
use lineside_util::hex::{to_display, to_hex};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Number of blocks in the chain that the transcripts (requests and answers in `tests/transcripts`) describe.
const BLOCKS: usize = 6;

/// Request to the node: method and parameters, or `GET` and the path.
pub type Request = (String, String);

/// Form in which the node sends an answer.
#[derive(Clone, Debug)]
pub enum Reply {
    /// A complete answer with this status and body.
    Whole(u16, Vec<u8>),
    /// The node sends these bytes, and then closes the connection.
    Cut(Vec<u8>),
    /// The node sends these bytes one at a time, with this pause after each.
    Drip(Vec<u8>, Duration),
    /// A header, followed by an endless body.
    Endless,
    /// The node sends no answer; the connection stays open.
    Silence,
}

type Trick = Box<dyn FnMut(&Request) -> Option<Reply> + Send>;

struct State {
    exchanges: Vec<(Request, u16, String)>,
    blocks: Vec<Vec<u8>>,
    trick: Option<Trick>,
    authorization: Option<String>,
    seen: Vec<Request>,
    open: Vec<TcpStream>,
    connections: usize,
    ended: bool,
}

/// Simulated node, which stops when this value is dropped.
pub struct Fake {
    pub port: u16,
    state: Arc<Mutex<State>>,
}

impl Fake {
    /// Starts a node that replays the transcripts `files`. If two of them have an answer to the same request, the first
    /// file is used.
    pub fn start(files: &[&str], zmq_port: u16) -> Fake {
        let blocks: Vec<_> = DemoChain::new(11, 3).take(BLOCKS).collect();
        let mut exchanges = Vec::new();
        for file in files {
            let path = Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("tests/transcripts")
                .join(file);
            let mut text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{file}: {error}"));
            for (height, block) in blocks.iter().enumerate() {
                text = text
                    .replace(&format!("$HASH{height}"), &to_display(&block.hash))
                    .replace(&format!("$HEADER{height}"), &to_hex(&block.raw[..80]))
                    .replace(&format!("$BLOCK{height}"), &to_hex(&block.raw));
            }
            text = text
                .replace("$HASH9", &to_display(&[9; 32]))
                .replace("$ZMQ", &zmq_port.to_string());
            exchanges.extend(parsed(&text));
        }
        let state = Arc::new(Mutex::new(State {
            exchanges,
            blocks: blocks.into_iter().map(|block| block.raw).collect(),
            trick: None,
            authorization: None,
            seen: Vec::new(),
            open: Vec::new(),
            connections: 0,
            ended: false,
        }));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                let mut state = shared.lock().unwrap();
                if state.ended {
                    return;
                }
                state.connections += 1;
                state.open.push(stream.try_clone().unwrap());
                drop(state);
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || serve(stream, &shared));
            }
        });
        Fake { port, state }
    }

    /// Sets a function that can answer requests in place of the transcripts.
    pub fn trick(&self, trick: impl FnMut(&Request) -> Option<Reply> + Send + 'static) {
        self.state.lock().unwrap().trick = Some(Box::new(trick));
    }

    /// Makes the node require these credentials from now on.
    pub fn require(&self, pair: &str) {
        use base64::Engine as _;
        let encoded = base64::prelude::BASE64_STANDARD.encode(pair);
        self.state.lock().unwrap().authorization = Some(format!("Basic {encoded}"));
    }

    /// Closes all connections, as a node closes idle connections.
    pub fn close_all(&self) {
        for stream in self.state.lock().unwrap().open.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    pub fn connections(&self) -> usize {
        self.state.lock().unwrap().connections
    }

    pub fn seen(&self) -> Vec<Request> {
        self.state.lock().unwrap().seen.clone()
    }

    pub fn block(&self, height: usize) -> Vec<u8> {
        self.state.lock().unwrap().blocks[height].clone()
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.state.lock().unwrap().ended = true;
        self.close_all();
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn parsed(text: &str) -> Vec<(Request, u16, String)> {
    let mut exchanges: Vec<(Request, u16, String)> = Vec::new();
    for line in text
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
    {
        if let Some(request) = line.strip_prefix("> ") {
            let (method, params) = request.split_once(' ').unwrap();
            exchanges.push(((method.into(), params.into()), 0, String::new()));
        } else if let Some(status) = line.strip_prefix("< ") {
            exchanges.last_mut().unwrap().1 = status.parse().unwrap();
        } else {
            exchanges.last_mut().unwrap().2.push_str(line);
        }
    }
    exchanges
}

fn serve(stream: TcpStream, shared: &Mutex<State>) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    loop {
        let (first, authorization, body) = read_request(&mut reader)?;
        let mut state = shared.lock().unwrap();
        let path = first.split(' ').nth(1)?.to_owned();
        let is_rpc = first.starts_with("POST ");
        let reply = if is_rpc && state.authorization.is_some() && state.authorization != authorization {
            Reply::Whole(401, Vec::new())
        } else if !is_rpc {
            state.one(&("GET".into(), path), &Value::Null)
        } else {
            let body: Value = serde_json::from_slice(&body).expect("requests are JSON");
            match &body {
                Value::Array(all) => state.batch(all),
                one => state.one(&request_of(one), &one["id"]),
            }
        };
        drop(state);
        write_reply(&stream, reply)?;
    }
}

fn request_of(body: &Value) -> Request {
    let method = body["method"].as_str().expect("a method").to_owned();
    (method, body["params"].to_string())
}

impl State {
    fn one(&mut self, request: &Request, id: &Value) -> Reply {
        self.seen.push(request.clone());
        if let Some(reply) = self.trick.as_mut().and_then(|trick| trick(request)) {
            return reply;
        }
        let found = self.exchanges.iter().find(|(known, ..)| known == request);
        let (_, status, body) = found.unwrap_or_else(|| panic!("no transcript has {request:?}"));
        let raw = body
            .strip_prefix("$RAW")
            .map(|height| self.blocks[height.parse::<usize>().unwrap()].clone());
        let body = raw.unwrap_or_else(|| body.replace("$ID", &id.to_string()).into());
        Reply::Whole(*status, body)
    }

    fn batch(&mut self, all: &[Value]) -> Reply {
        let mut answers = Vec::new();
        for one in all {
            match self.one(&request_of(one), &one["id"]) {
                Reply::Whole(_, body) => answers.push(String::from_utf8(body).unwrap()),
                other => return other,
            }
        }
        // A node may send the answers to a batch in any order, so send them in reverse.
        answers.reverse();
        Reply::Whole(200, format!("[{}]", answers.join(",")).into())
    }
}

fn read_request(reader: &mut impl BufRead) -> Option<(String, Option<String>, Vec<u8>)> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line == "\r\n" {
            break;
        }
        lines.push(line.trim_end().to_owned());
    }
    let header = |name: &str| {
        let found = lines.iter().filter_map(|line| line.split_once(": "));
        found
            .filter(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.to_owned())
            .next()
    };
    let length = header("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((lines.first()?.clone(), header("authorization"), body))
}

fn write_reply(mut stream: &TcpStream, reply: Reply) -> Option<()> {
    match reply {
        Reply::Whole(status, body) => {
            let head = format!("HTTP/1.1 {status} Word\r\nContent-Length: {}\r\n\r\n", body.len());
            stream.write_all(&[head.as_bytes(), &body].concat()).ok()
        }
        Reply::Cut(bytes) => {
            let _ = stream.write_all(&bytes);
            let _ = stream.shutdown(Shutdown::Both);
            None
        }
        Reply::Drip(bytes, pause) => {
            for byte in bytes {
                stream.write_all(&[byte]).ok()?;
                std::thread::sleep(pause);
            }
            Some(())
        }
        Reply::Silence => Some(()),
        Reply::Endless => {
            stream
                .write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                .ok()?;
            let chunk = [&b"10000\r\n"[..], &[b' '; 0x10000], b"\r\n"].concat();
            while stream.write_all(&chunk).is_ok() {}
            None
        }
    }
}

/// ZMQ socket of the kind PUB, which sends to subscribers of the topic `hashblock`.
pub struct Publisher {
    pub port: u16,
    subscribers: Arc<Mutex<Vec<TcpStream>>>,
}

impl Publisher {
    /// Starts a publisher; `greeting`, if given, replaces its correct greeting.
    pub fn start(greeting: Option<Vec<u8>>) -> Publisher {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let subscribers = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&subscribers);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                // A subscriber sends the greeting (64 bytes), READY (25 bytes and a header of 2), and the subscription
                // (10 bytes and a header of 2).
                let mut opening = [0; 64 + 27 + 12];
                if stream.read_exact(&mut opening).is_err() {
                    continue;
                }
                assert_eq!(&opening[93..], b"\x01hashblock");
                let own = || {
                    let mut bytes = vec![0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 1];
                    bytes.extend_from_slice(b"NULL");
                    bytes.resize(64, 0);
                    bytes.extend_from_slice(b"\x04\x19\x05READY\x0bSocket-Type\0\0\0\x03PUB");
                    bytes
                };
                let _ = stream.write_all(&greeting.clone().unwrap_or_else(own));
                shared.lock().unwrap().push(stream);
            }
        });
        Publisher { port, subscribers }
    }

    pub fn subscribers(&self) -> usize {
        self.subscribers.lock().unwrap().len()
    }

    /// Sends bytes to all subscribers.
    pub fn send(&self, bytes: &[u8]) {
        for stream in self.subscribers.lock().unwrap().iter_mut() {
            let _ = stream.write_all(bytes);
        }
    }

    /// Announces a block in the format of Bitcoin Core.
    pub fn announce(&self, hash: [u8; 32]) {
        self.announce_times(hash, 1);
    }

    /// Announces a block several times in one write.
    pub fn announce_times(&self, hash: [u8; 32], times: usize) {
        let mut shown = hash;
        shown.reverse();
        let message = [&b"\x01\x09hashblock\x01\x20"[..], &shown, b"\x00\x04\x01\0\0\0"].concat();
        self.send(&message.repeat(times));
    }

    pub fn drop_all(&self) {
        self.subscribers.lock().unwrap().clear();
    }
}

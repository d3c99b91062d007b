//! Node in this process that serves the interfaces of Bitcoin Core over a chain in memory: the RPC calls that Lineside
//! and ElectrumX use, REST for blocks, and ZMQ for announcements. The node validates nothing; a test or benchmark
//! decides which chain it has.
//!
//! Sources of the formats: Bitcoin Core's help texts of the calls, `doc/REST-interface.md`, `doc/zmq.md`; ZMTP 3.1
//! (rfc.zeromq.org/37).

use crate::DemoBlock;
use base64::Engine as _;
use bitcoin::consensus::encode::{deserialize, serialize_hex};
use bitcoin::hex::DisplayHex;
use serde_json::{Value, json};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Version that the node reports. ElectrumX 2.0 requires 31.0.
const VERSION: u32 = 310_000;

#[derive(Default)]
struct State {
    chain: Vec<DemoBlock>,
    /// Blocks that were disconnected, which a node still returns on request.
    stale: Vec<DemoBlock>,
    open: Vec<TcpStream>,
    subscribers: Vec<TcpStream>,
    /// Number of open connections to the RPC, and number of all connections since the start.
    clients: (usize, usize),
    /// Hashes of the blocks that the node has returned, in the order of the requests.
    given: Vec<[u8; 32]>,
    /// Authorization header that the RPC requires; `None` if it accepts every call.
    authorization: Option<String>,
    ended: bool,
}

/// Running node. It stops when this value is dropped.
pub struct CoreMini {
    rpc: u16,
    zmq: u16,
    state: Arc<Mutex<State>>,
}

impl CoreMini {
    /// Starts a node with `chain`, from height 0, on free ports of 127.0.0.1.
    ///
    /// # Errors
    /// The system has no free port, or cannot start a thread.
    pub fn start(chain: Vec<DemoBlock>) -> io::Result<Self> {
        assert!(
            !chain.is_empty(),
            "the chain of a node has at least the first block"
        );
        let state = Arc::new(Mutex::new(State {
            chain,
            ..State::default()
        }));
        let zmq = listen(&state, |stream, state| {
            if let Some(stream) = subscribed(stream) {
                lock(state).subscribers.push(stream);
            }
        })?;
        let rpc = listen(&state, move |stream, state| {
            let mut locked = lock(state);
            locked.clients = (locked.clients.0 + 1, locked.clients.1 + 1);
            drop(locked);
            let _ = serve(stream, state, zmq);
            lock(state).clients.0 -= 1;
        })?;
        Ok(Self { rpc, zmq, state })
    }

    /// Returns the URL of the RPC in the form of the option `--node`.
    pub fn url(&self) -> String {
        format!("bitcoind://lineside:secret@127.0.0.1:{}", self.rpc)
    }

    /// Returns the URL of the RPC in the form that ElectrumX accepts.
    pub fn http_url(&self) -> String {
        format!("http://lineside:secret@127.0.0.1:{}/", self.rpc)
    }

    /// Makes the RPC accept only calls with these credentials, given as `USER:PASSWORD`.
    pub fn require(&self, pair: &str) {
        let encoded = base64::prelude::BASE64_STANDARD.encode(pair);
        lock(&self.state).authorization = Some(format!("Basic {encoded}"));
    }

    /// Closes all connections, as a restart of the node does.
    pub fn close_all(&self) {
        for stream in lock(&self.state).open.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Connects a block to the tip and announces it.
    pub fn connect(&self, block: DemoBlock) {
        let hash = block.hash;
        lock(&self.state).chain.push(block);
        self.announce(hash);
    }

    /// Replaces all blocks above `height` by `branch`, and announces its last block.
    ///
    /// # Panics
    /// Panics if the branch is empty.
    pub fn reorganise(&self, height: u32, branch: Vec<DemoBlock>) {
        let hash = branch.last().expect("a branch has blocks").hash;
        let mut state = lock(&self.state);
        let stale = state.chain.split_off(height as usize + 1);
        state.stale.extend(stale);
        state.chain.extend(branch);
        drop(state);
        self.announce(hash);
    }

    /// Returns the number of programs that are subscribed to announcements.
    pub fn subscribers(&self) -> usize {
        lock(&self.state).subscribers.len()
    }

    /// Returns the number of open connections to the RPC, and the number of all connections since the start.
    pub fn clients(&self) -> (usize, usize) {
        lock(&self.state).clients
    }

    /// Returns the hashes of the blocks that the node has returned since the last call.
    pub fn take_given(&self) -> Vec<[u8; 32]> {
        std::mem::take(&mut lock(&self.state).given)
    }

    /// Returns the blocks of the best chain.
    pub fn chain(&self) -> Vec<DemoBlock> {
        lock(&self.state).chain.clone()
    }

    fn announce(&self, mut hash: [u8; 32]) {
        hash.reverse();
        let message = [&b"\x01\x09hashblock\x01\x20"[..], &hash, b"\x00\x04\x01\0\0\0"].concat();
        let mut state = lock(&self.state);
        // If the connection of a subscriber is closed, the write fails and the subscriber is removed.
        (state.subscribers).retain_mut(|stream| stream.write_all(&message).is_ok());
    }
}

impl Drop for CoreMini {
    fn drop(&mut self) {
        let mut state = lock(&self.state);
        state.ended = true;
        let State { open, .. } = &mut *state;
        for stream in open.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
        drop(state);
        for port in [self.rpc, self.zmq] {
            let _ = TcpStream::connect(("127.0.0.1", port));
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Serves each connection in a thread of its own until the node stops. Returns the port.
fn listen(
    state: &Arc<Mutex<State>>,
    serve: impl Fn(TcpStream, &Mutex<State>) + Clone + Send + 'static,
) -> io::Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    let state = Arc::clone(state);
    std::thread::Builder::new().spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut locked = lock(&state);
            if locked.ended {
                return;
            }
            // Answers are small, so Nagle's algorithm must not delay them.
            let _ = stream.set_nodelay(true);
            locked.open.extend(stream.try_clone());
            drop(locked);
            let (state, serve) = (Arc::clone(&state), serve.clone());
            std::thread::spawn(move || serve(stream, &state));
        }
    })?;
    Ok(port)
}

/// Completes the handshake with a ZMQ subscriber. Returns `None` if it disconnects before it has subscribed.
fn subscribed(mut stream: TcpStream) -> Option<TcpStream> {
    let mut greeting = vec![0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 1];
    greeting.extend_from_slice(b"NULL");
    greeting.resize(64, 0);
    greeting.extend_from_slice(b"\x04\x19\x05READY\x0bSocket-Type\0\0\0\x03PUB");
    stream.write_all(&greeting).ok()?;
    let mut theirs = [0; 64];
    stream.read_exact(&mut theirs).ok()?;
    // The subscriber sends READY and then the subscription. Each consists of a byte of flags, a byte of length, and
    // this number of bytes.
    for _ in 0..2 {
        let mut head = [0; 2];
        stream.read_exact(&mut head).ok()?;
        stream.read_exact(&mut vec![0; usize::from(head[1])]).ok()?;
    }
    Some(stream)
}

fn serve(mut stream: TcpStream, state: &Mutex<State>, zmq: u16) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    loop {
        let (first, authorization, body) = read_request(&mut reader)?;
        let (status, kind, body) = match first.strip_prefix("GET ") {
            Some(path) => rest(path.split(' ').next()?, &mut lock(state)),
            None if !lock(state).admits(authorization.as_deref()) => (401, "text/plain", Vec::new()),
            None => (200, "application/json", rpc(&body, &mut lock(state), zmq)),
        };
        let head = format!(
            "HTTP/1.1 {status} Word\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(&[head.as_bytes(), &body].concat()).ok()?;
    }
}

/// Reads the first line, the credentials and the body of a request. Returns `None` at the end of the connection.
fn read_request(reader: &mut impl BufRead) -> Option<(String, Option<String>, Vec<u8>)> {
    let (mut first, mut authorization, mut length) = (String::new(), None, 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        let field = line.split_once(": ");
        if let Some((_, value)) = field.filter(|(name, _)| name.eq_ignore_ascii_case("content-length")) {
            length = value.parse().ok()?;
        }
        if let Some((_, value)) = field.filter(|(name, _)| name.eq_ignore_ascii_case("authorization")) {
            authorization = Some(value.to_owned());
        }
        if first.is_empty() {
            line.clone_into(&mut first);
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((first, authorization, body))
}

fn rest(path: &str, state: &mut State) -> (u16, &'static str, Vec<u8>) {
    if path == "/rest/chaininfo.json" {
        return (200, "application/json", info(state).to_string().into_bytes());
    }
    let hash = path
        .strip_prefix("/rest/block/")
        .and_then(|rest| rest.strip_suffix(".bin"));
    match hash.and_then(|hash| state.block(hash)) {
        Some((_, block)) => {
            let (hash, raw) = (block.hash, block.raw.clone());
            state.given.push(hash);
            (200, "application/octet-stream", raw)
        }
        None => (404, "text/plain", b"not found".to_vec()),
    }
}

fn rpc(body: &[u8], state: &mut State, zmq: u16) -> Vec<u8> {
    let mut answer = |request: &Value| {
        let params = request["params"].as_array().map_or(&[][..], Vec::as_slice);
        let method = request["method"].as_str().unwrap_or_default();
        match state.call(method, params, zmq) {
            Ok(result) => json!({"result": result, "error": null, "id": request["id"]}),
            Err((code, message)) => json!({
                "result": null, "error": {"code": code, "message": message}, "id": request["id"]
            }),
        }
    };
    let answers = match serde_json::from_slice(body) {
        Ok(Value::Array(requests)) => Value::Array(requests.iter().map(&mut answer).collect()),
        Ok(request) => answer(&request),
        Err(_) => json!({"result": null, "error": {"code": -32700, "message": "Parse error"}, "id": null}),
    };
    answers.to_string().into_bytes()
}

fn info(state: &State) -> Value {
    let blocks = state.chain.len() - 1;
    json!({
        "chain": "regtest", "blocks": blocks, "headers": blocks, "bestblockhash": display(&state.tip().hash),
        "initialblockdownload": false, "pruned": false, "verificationprogress": 1,
    })
}

/// Returns a hash in the form in which nodes print it.
fn display(hash: &[u8; 32]) -> String {
    let mut shown = *hash;
    shown.reverse();
    shown.to_lower_hex_string()
}

impl State {
    fn admits(&self, authorization: Option<&str>) -> bool {
        let required = self.authorization.as_deref();
        required.is_none() || required == authorization
    }

    fn tip(&self) -> &DemoBlock {
        self.chain.last().expect("a node has the first block")
    }

    /// Returns a block and its height in the best chain; the height is -1 if the block is not part of it.
    fn block(&self, hash: &str) -> Option<(i64, &DemoBlock)> {
        let is_it = |block: &&DemoBlock| display(&block.hash) == hash;
        let best = self.chain.iter().rposition(|block| is_it(&block));
        match best {
            Some(height) => Some((height as i64, &self.chain[height])),
            None => Some((-1, self.stale.iter().find(is_it)?)),
        }
    }

    fn call(&mut self, method: &str, params: &[Value], zmq: u16) -> Result<Value, (i32, &'static str)> {
        let text = |at: usize| params.get(at).and_then(Value::as_str).unwrap_or_default();
        let is_verbose = params
            .get(1)
            .is_none_or(|word| !matches!(word, Value::Bool(false)) && *word != 0);
        if method == "getblock" && !is_verbose {
            let (hash, raw) = {
                let (_, block) = self.block(text(0)).ok_or((-5, "Block not found"))?;
                (block.hash, block.raw.to_lower_hex_string())
            };
            self.given.push(hash);
            return Ok(json!(raw));
        }
        let found = || self.block(text(0)).ok_or((-5, "Block not found"));
        Ok(match method {
            "getblockchaininfo" => info(self),
            "getblockcount" => json!(self.chain.len() - 1),
            "getbestblockhash" => json!(display(&self.tip().hash)),
            "getblockhash" => {
                let height = params.first().and_then(Value::as_u64);
                let block = height.and_then(|height| self.chain.get(height as usize));
                json!(display(&block.ok_or((-8, "Block height out of range"))?.hash))
            }
            "getblockheader" if is_verbose => {
                let (height, block) = found()?;
                let confirmations = if height < 0 {
                    -1
                } else {
                    self.chain.len() as i64 - height
                };
                json!({"hash": display(&block.hash), "confirmations": confirmations, "height": height})
            }
            "getblockheader" => json!(found()?.1.raw[..80].to_lower_hex_string()),
            "getrawtransaction" => json!(self.transaction(text(0))?),
            "getzmqnotifications" => {
                json!([{"type": "pubhashblock", "address": format!("tcp://127.0.0.1:{zmq}"), "hwm": 1000}])
            }
            "getrawmempool" => json!([]),
            "getnetworkinfo" => json!({"version": VERSION, "subversion": "/mini/", "relayfee": 0.000_01}),
            "getindexinfo" => {
                let index = json!({"synced": true, "best_block_height": self.chain.len() - 1});
                json!({"txindex": index, "txospenderindex": index})
            }
            "getmempoolinfo" => json!({
                "loaded": true, "size": 0, "mempoolminfee": 0.000_01, "minrelaytxfee": 0.000_01,
                "incrementalrelayfee": 0.000_01,
            }),
            "estimatesmartfee" => json!({"errors": ["Insufficient data or no feerate found"], "blocks": 2}),
            _ => return Err((-32601, "Method not found")),
        })
    }

    fn transaction(&self, txid: &str) -> Result<String, (i32, &'static str)> {
        let none = (-5, "No such mempool or blockchain transaction");
        let holds = |block: &&DemoBlock| block.txids.iter().any(|held| display(held) == txid);
        let block = self.chain.iter().rev().find(holds).ok_or(none)?;
        let block: bitcoin::Block = deserialize(&block.raw).map_err(|_| none)?;
        let found = (block.txdata.iter()).find(|transaction| transaction.compute_txid().to_string() == txid);
        Ok(serialize_hex(found.ok_or(none)?))
    }
}

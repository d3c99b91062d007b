//! Electrum server for one script, which answers the requests that Lineside forwards: history, transactions, fees.

use bitcoin::ScriptBuf;
use bitcoin::consensus::encode::{deserialize, serialize_hex};
use bitcoin::hashes::{Hash, sha256};
use lineside_testkit::CoreMini;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// Payment to the script: the transaction, and its height in the best chain, or 0 if the best chain does not contain
/// it.
struct Payment {
    transaction: bitcoin::Transaction,
    height: usize,
}

struct State {
    node: Arc<CoreMini>,
    script: ScriptBuf,
    /// Payments that were in a block at some time. Those that are not in the best chain are unconfirmed.
    seen: Vec<bitcoin::Transaction>,
    subscribers: Vec<TcpStream>,
}

/// Running server; each of its threads ends with its connection.
pub struct Upstream {
    pub address: SocketAddr,
    state: Arc<Mutex<State>>,
}

impl Upstream {
    pub fn start(node: &Arc<CoreMini>, script: &ScriptBuf) -> Self {
        let state = Arc::new(Mutex::new(State {
            node: Arc::clone(node),
            script: script.clone(),
            seen: Vec::new(),
            subscribers: Vec::new(),
        }));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let state = Arc::clone(&shared);
                std::thread::spawn(move || serve(stream, &state));
            }
        });
        Self { address, state }
    }

    /// Notifies subscribers that the history has changed.
    pub fn notify(&self) {
        let mut state = self.state.lock().unwrap();
        let params = json!([state.script_hash(), state.status()]);
        let line = json!({"jsonrpc": "2.0", "method": "blockchain.scripthash.subscribe", "params": params});
        for mut stream in &state.subscribers {
            let _ = stream.write_all(format!("{line}\n").as_bytes());
        }
    }
}

fn serve(stream: TcpStream, state: &Mutex<State>) -> Option<()> {
    for line in BufReader::new(stream.try_clone().ok()?).lines() {
        let request: Value = serde_json::from_str(&line.ok()?).ok()?;
        let mut state = state.lock().unwrap();
        let mut answer = json!({"jsonrpc": "2.0", "id": request["id"]});
        match state.call(request["method"].as_str()?, &request["params"], &stream) {
            Some(result) => answer["result"] = result,
            None => answer["error"] = json!({"code": 1, "message": "not answered by the test's server"}),
        }
        (&stream).write_all(format!("{answer}\n").as_bytes()).ok()?;
    }
    Some(())
}

impl State {
    fn call(&mut self, method: &str, params: &Value, stream: &TcpStream) -> Option<Value> {
        let is_ours = params[0] == self.script_hash();
        Some(match method {
            "server.version" => json!(["upstream of a test", "1.4"]),
            "server.ping" => Value::Null,
            "blockchain.scripthash.subscribe" if is_ours => {
                self.subscribers.push(stream.try_clone().ok()?);
                self.status()
            }
            "blockchain.scripthash.subscribe" => Value::Null,
            "blockchain.scripthash.get_history" if is_ours => {
                let entry = |payment: &Payment| {
                    let mut entry = json!({
                        "tx_hash": payment.transaction.compute_txid(), "height": payment.height
                    });
                    if payment.height == 0 {
                        entry["fee"] = json!(200);
                    }
                    entry
                };
                self.payments().iter().map(entry).collect()
            }
            "blockchain.scripthash.get_history" => json!([]),
            "blockchain.transaction.get" => {
                let payments = self.payments();
                let is_it = |payment: &&Payment| params[0] == payment.transaction.compute_txid().to_string();
                json!(serialize_hex(&payments.iter().find(is_it)?.transaction))
            }
            "blockchain.estimatefee" => json!(-1),
            "blockchain.relayfee" => json!(0.000_01),
            "mempool.get_fee_histogram" => json!([]),
            _ => return None,
        })
    }

    fn script_hash(&self) -> String {
        lineside_util::hex::to_display(&sha256::Hash::hash(self.script.as_bytes()).to_byte_array())
    }

    /// Returns the hash of the history, by which a client detects changes.
    fn status(&mut self) -> Value {
        let of = |payment: &Payment| format!("{}:{}:", payment.transaction.compute_txid(), payment.height);
        let history: String = self.payments().iter().map(of).collect();
        match history.as_str() {
            "" => Value::Null,
            history => json!(sha256::Hash::hash(history.as_bytes()).to_string()),
        }
    }

    fn payments(&mut self) -> Vec<Payment> {
        let mut found = Vec::new();
        for (height, block) in self.node.chain().iter().enumerate() {
            let block: bitcoin::Block = deserialize(&block.raw).unwrap();
            let pays = |transaction: &bitcoin::Transaction| {
                let mut outputs = transaction.output.iter();
                outputs.any(|output| output.script_pubkey == self.script)
            };
            for transaction in block.txdata.into_iter().filter(pays) {
                found.push(Payment { transaction, height });
            }
        }
        for payment in &found {
            if !self.seen.contains(&payment.transaction) {
                self.seen.push(payment.transaction.clone());
            }
        }
        for transaction in &self.seen {
            if !found.iter().any(|payment| payment.transaction == *transaction) {
                found.push(Payment {
                    transaction: transaction.clone(),
                    height: 0,
                });
            }
        }
        found
    }
}

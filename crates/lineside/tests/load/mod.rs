//! Clients that keep the services of a process busy, at rates that rise and fall.

use crate::replica::Running;
use crate::served::ServiceFiles;
use lineside_client::transfer::Client;
use lineside_column::table::{Change, ColumnName};
use lineside_spv::chain::{ChainStore, Network};
use lineside_testkit::{DemoChain, binary};
use lineside_transfer::paper::PaperRequest;
use lineside_wire::{
    TRANSFER_COMMAND_CREATE as CREATE, TRANSFER_COMMAND_REFER as REFER, TRANSFER_COMMAND_TRANSFER as TRANSFER,
};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(10);
/// Number of blocks of the generated channel.
const BLOCKS: &str = "60";

/// Running clients, which end with [`Load::stop`].
#[derive(Default)]
pub struct Load {
    stop: Arc<AtomicBool>,
    clients: std::cell::RefCell<Vec<JoinHandle<()>>>,
}

impl Load {
    /// Calls `step` with an increasing number until the load stops. The rate is `per_s` a second at first, and then
    /// rises and falls.
    fn client(&self, per_s: f64, mut step: impl FnMut(u32) + Send + 'static) {
        let stop = Arc::clone(&self.stop);
        let client = std::thread::spawn(move || {
            let (began, mut due, mut number) = (Instant::now(), Instant::now(), 0);
            while !stop.load(Relaxed) {
                step(number);
                number += 1;
                let wave = 1.0 + 0.45 * (began.elapsed().as_secs_f64() / 17.0).sin();
                due += Duration::from_secs_f64(1.0 / (per_s * wave));
                // Pauses are short, so that no request waits for long. A client that is late does not send the missed
                // requests later.
                let now = Instant::now();
                match due.checked_duration_since(now) {
                    Some(early) => std::thread::sleep(early),
                    None => due = now,
                }
            }
        });
        self.clients.borrow_mut().push(client);
    }

    /// Asks for transactions: for some of them often, for others rarely.
    pub fn spv(&self, server: &str, txids: Vec<[u8; 32]>) {
        let server = server.parse().expect("an address");
        let mut client = lineside_client::spv::Client::connect(server, PATIENCE).expect("a client");
        self.client(900.0, move |number| {
            let number = number as usize;
            let place = match number % 8 {
                0 => number * 7919 % txids.len(),
                few => few * 31 % txids.len(),
            };
            client.root(&txids[place]).expect("an answer");
        });
    }

    /// Transfers 1 between two accounts, and reads their balances.
    pub fn transfer(&self, server: &str) {
        let mut client = Client::connect(server.parse().expect("an address"), PATIENCE).expect("a client");
        for (account, amount) in [(1, 1_000_000), (2, 1_000_000)] {
            client
                .paper(&PaperRequest::new(CREATE, 1, account, 0, amount))
                .expect("an answer");
        }
        self.client(400.0, move |number| {
            let (from, to) = if number % 2 == 0 { (1, 2) } else { (2, 1) };
            let request = match number % 3 {
                0 => PaperRequest::new(TRANSFER, number / 6 + 2, from, to, 1),
                _ => PaperRequest::new(REFER, 0, from, to, 0),
            };
            client.paper(&request).expect("an answer");
        });
    }

    /// Reads rows, and changes a row from time to time.
    pub fn column(&self, server: &str) {
        let server = server.parse().expect("an address");
        let mut client = lineside_client::column::Client::connect(server, PATIENCE).expect("a client");
        let column = ColumnName::new(b"entry:foo").expect("a column");
        self.client(300.0, move |number| {
            let row = format!("row-{:02}", number % 23);
            match number % 10 {
                0 => {
                    let change = Change::Put(number.to_be_bytes().to_vec(), None);
                    client
                        .change(row.as_bytes(), &column, &change)
                        .expect("an outcome");
                }
                _ => drop(
                    client
                        .get(row.as_bytes(), std::slice::from_ref(&column))
                        .expect("an answer"),
                ),
            }
        });
    }

    /// Sets keys of the database.
    pub fn hybrid(&self, server: &str, place: &ServiceFiles) {
        let file = |name: &str| place.path(name).display().to_string();
        let fixed = [
            "--server".to_owned(),
            server.to_owned(),
            "--key".to_owned(),
            file("alice.key"),
            "--genesis".to_owned(),
            file("genesis.bin"),
        ];
        self.client(5.0, move |number| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_lineside"));
            command.args(["hybrid", "set"]).args(&fixed);
            let output = command
                .args([format!("key-{}", number % 9), number.to_string()])
                .output();
            assert!(output.expect("run").status.success(), "hybrid set");
        });
    }

    /// Ends all clients. If a request of a client was not answered, the test fails.
    pub fn stop(self) {
        self.stop.store(true, Relaxed);
        for client in self.clients.into_inner() {
            client.join().expect("a client");
        }
    }
}

/// Creates a chain store in `data`, and returns the TXIDs of its transactions.
pub fn chain(data: &Path, blocks: usize, transactions: u32) -> Vec<[u8; 32]> {
    let mut chain = ChainStore::open(Some(data), Network::Regtest).expect("a chain store");
    let mut txids = Vec::new();
    for block in DemoChain::new(1, transactions).take(blocks) {
        chain.submit(&block.raw, false).expect("a block");
        txids.extend_from_slice(&block.txids);
    }
    chain.catch_up().expect("an index");
    txids
}

/// Creates a channel, and returns its orderer and a section `[fabric]` that follows this orderer.
pub fn channel(place: &ServiceFiles) -> (Running, String) {
    let folder = place.path("channel");
    let made = Command::new(binary("lineside-lab"))
        .args([
            "fabric",
            "make",
            "--blocks",
            BLOCKS,
            "--transactions",
            "20",
            "--faulty",
            "100",
        ])
        .arg(&folder)
        .output()
        .expect("run");
    assert!(made.status.success(), "{made:?}");
    let orderer = Running::start(&[
        "mock-orderer",
        folder.to_str().expect("text"),
        "--listen",
        "127.0.0.1:0",
    ]);
    let section = format!(
        "[fabric]\nenabled = true\nlisten = \"127.0.0.1:0\"\ndata = {:?}\ngenesis = {:?}\norderers = [{:?}]\n\
         msp_id = \"Org1MSP\"\nmsp = {:?}\nthreads = 1\n",
        place.path("fabric-data"),
        folder.join("genesis.block"),
        orderer.listen(),
        folder.join("msp"),
    );
    (orderer, section)
}

//! Tests of the limit on complete blocks from UDP that wait for the intake.

use super::*;
use lineside_fabric::ledger::{Replica, Setup};
use lineside_fabric_grpc::Signer;
use lineside_fabric_maker::{Blocks as Maker, Network, Options as Members, Workload};
use lineside_fabric_udp::driver::BlockSource;
use lineside_fabric_udp::{Sender, SenderOptions};
use lineside_journal::SimDisk;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::runtime::Runtime;

fn made(network: &Arc<Network>) -> Vec<Arc<[u8]>> {
    let workload = Workload {
        keys: 60,
        block: 5,
        transactions: 60,
        ..Workload::default()
    };
    let blocks = Maker::new(Arc::clone(network), workload, 1);
    blocks.map(|block| block.bytes.into()).collect()
}

/// Returns a ledger with a genesis block, and the handle for early verification of the transactions of its next blocks.
fn ledger(genesis: &[u8]) -> (Replica<SimDisk>, EarlyWork) {
    let (mut replica, _) = Replica::open(SimDisk::new(1), Setup::default(), None).unwrap();
    replica.add(genesis.to_vec()).unwrap();
    let early = replica.early().unwrap().unwrap();
    (replica, early)
}

#[test]
fn blocks_that_wait_are_bounded_in_bytes() {
    let network = Arc::new(Network::new(7, Members::default()));
    let (_replica, early) = ledger(&made(&network)[0]);
    let runtime = Runtime::new().unwrap();
    let (events, mut waiting) = mpsc::channel(WAITING_BLOCKS_MAX);
    let mut tell = EventSender {
        events,
        memory_limit: BytesLimit::new(1000),
        runtime: runtime.handle().clone(),
        early_work: early,
        channel: "lab".into(),
        forged_told_at: 1,
    };
    let closing = tell.memory_limit.closing();
    let mut context = Context::from_waker(Waker::noop());
    tell.on_block(1, vec![0; 600]);
    assert!(tell.has_room(400) && !tell.has_room(401));
    {
        let mut further = pin!(tell.memory_limit.take(401));
        assert!(further.as_mut().poll(&mut context).is_pending());
        drop(waiting.try_recv().ok());
        assert!(matches!(further.poll(&mut context), Poll::Ready(Some(_))));
    }
    // A block that is larger than the limit may wait, but then no other block may wait.
    assert!(tell.has_room(5000));
    tell.on_block(2, vec![0; 5000]);
    assert!(!tell.has_room(1));
    let mut further = pin!(tell.memory_limit.take(1));
    assert!(further.as_mut().poll(&mut context).is_pending());
    drop(closing);
    assert!(matches!(further.poll(&mut context), Poll::Ready(None)));
}

/// Blocks of a sender, and the index of the next block to send.
struct SentBlocks(Vec<Arc<[u8]>>, usize);

impl BlockSource for SentBlocks {
    fn begin(&mut self, next: u64) {
        self.1 = next as usize;
    }

    fn next(&mut self) -> io::Result<Option<(u64, Arc<[u8]>)>> {
        let number = self.1;
        let block = self.0.get(number).cloned();
        self.1 += usize::from(block.is_some());
        Ok(block.map(|block| (number as u64, block)))
    }
}

#[test]
fn all_blocks_arrive_although_only_one_may_wait() {
    let network = Arc::new(Network::new(7, Members::default()));
    let blocks = made(&network);
    let (_replica, early) = ledger(&blocks[0]);
    let longest = blocks.iter().map(|block| block.len()).max().unwrap();
    let secret = [7; 32];
    let form = DatagramForm::Native(SharedKey::new(&secret).unwrap());
    let source = UdpSource::bind("127.0.0.1:0".parse().unwrap(), form, 2 * longest).unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(source.address().unwrap()).unwrap();
    let client = network.client(0);
    let signer = Signer::from_pem("Org1MSP", &client.pem, client.key.pem().as_bytes()).unwrap();
    // No request goes to this endpoint, because every block arrives over UDP.
    let deliver = Options::new(vec!["127.0.0.1:1".into()], Arc::new(signer), "lab", 1);
    let (stop, read) = (AtomicBool::new(false), Notify::new());
    let runtime = Runtime::new().unwrap();
    let mut next = 1;
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| {
            let key = SharedKey::new(&secret).unwrap();
            let mut sender = Sender::new(key, [1; 16], SenderOptions::default());
            sender.run(&socket, &mut SentBlocks(blocks.clone(), 0), &stop)
        });
        let on = |received: Option<ReceivedBlock>| {
            let Some(received) = received else {
                return ReadAheadVerdict::On;
            };
            assert_eq!(received.number, next as u64);
            assert_eq!(received.bytes[..], blocks[next][..]);
            next += 1;
            if next == blocks.len() {
                ReadAheadVerdict::Stop
            } else {
                ReadAheadVerdict::On
            }
        };
        let followed = runtime.block_on(async {
            let follow = source.follow(deliver, &read, early, on);
            tokio::time::timeout(Duration::from_secs(60), follow).await
        });
        stop.store(true, Ordering::Relaxed);
        followed.expect("all blocks come").unwrap();
        sending.join().unwrap().unwrap();
    });
    assert_eq!(next, blocks.len());
}

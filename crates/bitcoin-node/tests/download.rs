//! Tests of downloads from nodes in memory: order of the blocks, limits, transient and permanent faults.

use lineside_bitcoin_node::{
    Announcement, BlockHash, Download, DownloadOptions, Header, Node, NodeError, NodeFault, NodeInfo,
};
use lineside_testkit::{DemoBlock, DemoChain, Random};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

/// Fault that a node in memory has.
#[derive(Clone, Copy)]
enum Trouble {
    None,
    /// One of this number of calls loses the connection.
    Lossy(u64),
    /// Every call loses the connection.
    Away,
    /// The block at this height was pruned.
    Pruned(usize),
    /// The node sends another block at this height.
    Lie(usize),
    /// The worker panics at this height.
    Panic(usize),
}

#[derive(Clone)]
struct Memory {
    chain: Arc<Vec<DemoBlock>>,
    fetched: Arc<AtomicUsize>,
    random: Random,
    trouble: Trouble,
}

impl Memory {
    fn error<T>(&self, fault: NodeFault) -> Result<T, NodeError> {
        Err(NodeError::new("memory", fault))
    }

    fn connection(&mut self) -> Result<(), NodeError> {
        let lost = match self.trouble {
            Trouble::Lossy(chances) => self.random.one_in(chances),
            Trouble::Away => true,
            _ => false,
        };
        if lost {
            let why = "simulated".into();
            return self.error(NodeFault::Lost { call: "a call", why });
        }
        Ok(())
    }
}

impl Node for Memory {
    fn info(&mut self) -> Result<NodeInfo, NodeError> {
        panic!("a download does not make this call")
    }

    fn hash_at(&mut self, height: u32) -> Result<BlockHash, NodeError> {
        self.connection()?;
        match self.chain.get(height as usize) {
            Some(block) => Ok(BlockHash(block.hash)),
            None => self.error(NodeFault::NoSuchHeight { height }),
        }
    }

    fn header(&mut self, _: &BlockHash) -> Result<Header, NodeError> {
        panic!("a download does not make this call")
    }

    fn block(&mut self, hash: &BlockHash) -> Result<Vec<u8>, NodeError> {
        self.connection()?;
        let height = self
            .chain
            .iter()
            .position(|block| block.hash == hash.0)
            .expect("the block is in the chain");
        let raw = self.chain[height].raw.clone();
        match self.trouble {
            Trouble::Pruned(at) if at == height => return self.error(NodeFault::Pruned { hash: *hash }),
            Trouble::Lie(at) if at == height => return Ok(self.chain[0].raw.clone()),
            Trouble::Panic(at) if at == height => panic!("simulated"),
            _ => {}
        }
        self.fetched.fetch_add(1, SeqCst);
        Ok(raw)
    }

    fn wait_for_change(&mut self, _: &BlockHash, _: Duration) -> Result<Option<Announcement>, NodeError> {
        panic!("a download does not make this call")
    }

    fn describe(&self) -> String {
        "memory".into()
    }
}

struct Setup {
    chain: Arc<Vec<DemoBlock>>,
    fetched: Arc<AtomicUsize>,
}

impl Setup {
    fn new(blocks: usize) -> Setup {
        Setup {
            chain: Arc::new(DemoChain::new(2, 2).take(blocks).collect()),
            fetched: Arc::default(),
        }
    }

    fn start(&self, range: std::ops::Range<u32>, options: DownloadOptions, trouble: Trouble) -> Download {
        let mut seed = 0;
        let connect = || {
            seed += 1;
            Ok(Box::new(Memory {
                chain: Arc::clone(&self.chain),
                fetched: Arc::clone(&self.fetched),
                random: Random(seed),
                trouble,
            }) as Box<dyn Node>)
        };
        Download::start(range, None, options, connect).unwrap()
    }

    /// Takes all blocks up to the first error. Returns their number and the error.
    fn failure(&self, options: DownloadOptions, trouble: Trouble) -> (usize, NodeFault) {
        let mut download = self.start(0..self.chain.len() as u32, options, trouble);
        let mut taken = 0;
        let fault = loop {
            match download.next().expect("the download ends with an error") {
                Ok(block) => {
                    assert_eq!(block.hash.0, self.chain[taken].hash);
                    taken += 1;
                }
                Err(error) => break error.fault,
            }
        };
        assert!(download.next().is_none(), "the iterator ends after an error");
        assert_eq!(
            download.progress().next_height as usize,
            taken,
            "a new download can continue at the height after the returned blocks"
        );
        (taken, fault)
    }
}

#[test]
fn blocks_are_returned_in_order_although_calls_fail() {
    let setup = Setup::new(300);
    for (workers, chances) in [(1, 60), (2, 40), (7, 40)] {
        let options = DownloadOptions {
            workers,
            attempts: 20,
            ..DownloadOptions::default()
        };
        let mut download = setup.start(17..300, options, Trouble::Lossy(chances));
        let blocks: Result<Vec<_>, _> = download.by_ref().collect();
        let blocks = blocks.unwrap();
        assert_eq!(blocks.len(), 283);
        for (block, expected) in blocks.iter().zip(&setup.chain[17..]) {
            assert_eq!((block.hash.0, &block.raw), (expected.hash, &expected.raw));
        }
        let progress = download.progress();
        assert_eq!(
            (progress.blocks, progress.next_height, progress.end_height),
            (283, 300, 300)
        );
        let bytes: usize = blocks.iter().map(|block| block.raw.len()).sum();
        assert_eq!(
            (progress.bytes, progress.remaining),
            (bytes as u64, Some(Duration::ZERO))
        );
        assert!(progress.bytes_per_second > 0.0);
    }
}

#[test]
fn the_look_ahead_is_limited() {
    let setup = Setup::new(200);
    let size = setup.chain[1].raw.len();
    let options = DownloadOptions {
        workers: 3,
        look_ahead_bytes: 10 * size,
        ..DownloadOptions::default()
    };
    let mut download = setup.start(0..200, options, Trouble::None);
    for taken in 1..=200 {
        download.next().unwrap().unwrap();
        // Each worker may have exceeded the limit by one block.
        let waiting = setup.fetched.load(SeqCst) - taken;
        assert!(waiting <= 10 + 3 + 1, "{waiting} blocks wait");
    }
    assert!(download.next().is_none());
    // Even with a limit of 0 bytes the next block is fetched.
    let none = DownloadOptions {
        look_ahead_bytes: 0,
        ..options
    };
    assert_eq!(
        setup
            .start(0..200, none, Trouble::None)
            .map(Result::unwrap)
            .count(),
        200
    );
}

#[test]
fn a_permanent_fault_ends_the_download_after_the_blocks_before_it() {
    let setup = Setup::new(60);
    let options = DownloadOptions {
        workers: 1,
        attempts: 2,
        ..DownloadOptions::default()
    };
    let (taken, fault) = setup.failure(options, Trouble::Pruned(41));
    assert!(
        taken == 41 && matches!(fault, NodeFault::Pruned { .. }),
        "{taken}: {fault}"
    );
    let (taken, fault) = setup.failure(options, Trouble::Lie(41));
    assert!(
        taken == 41 && matches!(fault, NodeFault::WrongBlock { .. }),
        "{taken}: {fault}"
    );
    let (taken, fault) = setup.failure(options, Trouble::Panic(41));
    assert!(
        taken == 41 && matches!(fault, NodeFault::Stopped { height: 41 }),
        "{taken}: {fault}"
    );
    let (taken, fault) = setup.failure(options, Trouble::Away);
    assert!(
        taken == 0 && matches!(fault, NodeFault::Lost { .. }),
        "{taken}: {fault}"
    );
    let past_the_tip = setup.start(50..70, options, Trouble::None);
    let last = past_the_tip.last().unwrap().unwrap_err();
    assert!(
        matches!(last.fault, NodeFault::NoSuchHeight { height: 60 }),
        "{last}"
    );
}

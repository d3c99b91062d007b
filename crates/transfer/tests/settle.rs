//! Settlement of blocks: each block once, in order, and only durable blocks.

mod common;

use common::{Server, key, start};
use lineside_journal::SimDisk;
use lineside_transfer::host::SealPolicy;
use lineside_transfer::settle::{BlockFile, Settlement, Settler};
use lineside_transfer::settlement::{BLOCK_BYTES, Block};
use lineside_wire::{TRANSFER_COMMAND_CREATE as CREATE, TRANSFER_COMMAND_ISSUE as ISSUE};
use std::io;
use std::sync::{Arc, Mutex};

const SEAL: SealPolicy = SealPolicy {
    operations: 2,
    seconds: 10,
};

/// Settlement that fails every third time.
#[derive(Clone, Default)]
struct Moody {
    blocks: Arc<Mutex<Vec<Block>>>,
    asked: u32,
}

impl Settlement for Moody {
    fn last(&mut self) -> io::Result<Option<(u64, [u8; 32])>> {
        let blocks = self.blocks.lock().unwrap();
        Ok(blocks.last().map(|block| (block.number, block.hash())))
    }

    fn take(&mut self, block: &Block) -> io::Result<()> {
        self.asked += 1;
        if self.asked.is_multiple_of(3) {
            return Err(io::Error::other("injected by the test: every third call fails"));
        }
        self.blocks.lock().unwrap().push(*block);
        Ok(())
    }
}

fn operations(server: &mut Server, count: u32) {
    for _ in 0..count {
        assert_eq!(server.paper(ISSUE, 0, 1, 0, 1).0, 2);
    }
}

#[test]
fn a_settlement_that_fails_misses_nothing() {
    let disk = SimDisk::new(1);
    let mut server = start(&disk, 1, SEAL).unwrap();
    server.paper(CREATE, 0, 1, 0, 0);
    let moody = Moody::default();
    let mut settler = Settler::new(disk.clone(), moody.clone());
    let mut failures = 0;
    for round in 0..40 {
        operations(&mut server, round % 5);
        failures += u32::from(settler.settle(server.host.blocks()).is_err());
        if round % 7 == 0 {
            settler = Settler::new(disk.clone(), moody.clone());
        }
    }
    while settler.settle(server.host.blocks()).is_err() {}
    assert!(failures > 3);
    let blocks = moody.blocks.lock().unwrap();
    assert_eq!(blocks.len() as u64, server.host.blocks());
    let mut previous = [0; 32];
    for (block, number) in blocks.iter().zip(1..) {
        assert_eq!((block.number, block.previous), (number, previous));
        assert!(block.is_signed_by(key().verifying_key()));
        previous = block.hash();
    }
}

#[test]
fn a_block_that_is_not_durable_is_not_settled() {
    let disk = SimDisk::new(2);
    let mut server = start(&disk, 1, SEAL).unwrap();
    server.paper(CREATE, 0, 1, 0, 0);
    operations(&mut server, 9);
    let blocks = server.host.blocks();
    assert_eq!(blocks, 5);
    let moody = Moody::default();
    let mut settler = Settler::new(disk.clone(), moody.clone());
    assert_eq!(settler.settle(2).unwrap(), 2);
    assert_eq!(moody.blocks.lock().unwrap().len(), 2);
    let error = settler.settle(1).unwrap_err().to_string();
    assert!(error.contains("the settlement has block 2"), "{error}");
    assert!(settler.settle(blocks + 1).is_err(), "there is no such block");
    // The settlement has a block of another ledger as its last block.
    moody.blocks.lock().unwrap().last_mut().unwrap().sealed_s ^= 1;
    let mut settler = Settler::new(disk.clone(), moody.clone());
    let last = moody.blocks.lock().unwrap().len() as u64;
    let error = settler.settle(last).unwrap_err().to_string();
    assert!(error.contains("differs from the journal's"), "{error}");
}

#[test]
fn a_block_file_continues_after_its_last_whole_line() {
    let disk = SimDisk::new(3);
    let mut server = start(&disk, 1, SEAL).unwrap();
    server.paper(CREATE, 0, 1, 0, 0);
    operations(&mut server, 9);
    let path = std::env::temp_dir().join(format!("lineside-blocks-{}", std::process::id()));
    let settle = |durable| {
        let mut settler = Settler::new(disk.clone(), BlockFile::open(&path).unwrap());
        settler.settle(durable).unwrap()
    };
    assert_eq!(settle(3), 3);
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, &text[..text.len() - 10]).unwrap();
    assert_eq!(settle(5), 5);
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("\n3 ", "\n4 ")).unwrap();
    assert!(
        BlockFile::open(&path).is_err(),
        "the file must be refused: its next line is not that of the next block"
    );
    std::fs::remove_file(&path).unwrap();
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(' ').collect()).collect();
    assert_eq!(lines.len(), 5);
    let mut previous = [0; 32];
    for (line, number) in lines.iter().zip(1u64..) {
        let bytes: Vec<u8> = (0..BLOCK_BYTES)
            .map(|at| u8::from_str_radix(&line[2][2 * at..2 * at + 2], 16).unwrap())
            .collect();
        let block = Block::from_bytes(&bytes.try_into().unwrap()).unwrap();
        assert_eq!((line[0], block.number), (number.to_string().as_str(), number));
        assert_eq!(block.previous, previous);
        previous = block.hash();
        assert_eq!(line[1], previous.map(|byte| format!("{byte:02x}")).concat());
    }
}

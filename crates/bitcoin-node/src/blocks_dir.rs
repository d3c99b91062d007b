//! Directory with block files of Bitcoin Core that is followed like a node: its chain is the branch with the most work,
//! and the files are read at intervals to notice appended blocks.
//!
//! The node's own index of the files is not used. Headers are read from the files, and a block is read when it is
//! requested. The node may still be writing the last block of the newest file: this block is accepted when it is
//! complete. A node that prunes deletes files, and a node that downloads its chain again overwrites them. In both cases
//! the directory can no longer be followed, and the error names the file.

use crate::block_files::{BlockFiles, BlockFilesError, FileBlock, Position, name_of};
use crate::error::{NodeError, NodeFault};
use crate::follower::proven_work;
use crate::hash::{BlockHash, HEADER_BYTES, parent_of};
use crate::interrupt::Interrupter;
use crate::node::{Announcement, Header, Node, NodeInfo, NoticedBy};
use bitcoin::Work;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Block in the files, all of whose ancestors are known.
struct Entry {
    header: [u8; HEADER_BYTES],
    height: u32,
    work: Work,
    position: Position,
}

/// A directory of block files.
pub struct BlocksDir {
    dir: PathBuf,
    magic: [u8; 4],
    poll_interval: Duration,
    entries: HashMap<BlockHash, Entry>,
    /// Blocks whose parent has not been found, by the parent's hash.
    waiting: HashMap<BlockHash, Vec<FileBlock>>,
    /// Hashes of the branch with the most work, by height.
    best: Vec<BlockHash>,
    /// Position and hash of the last block that was read: it was added, or waits for its parent.
    read: Option<(Position, BlockHash)>,
    interrupter: Interrupter,
}

impl BlocksDir {
    /// Returns a node whose blocks are in the files of `dir`. `magic` is the magic of the network. No file is read
    /// before the first call.
    pub fn new(dir: &Path, magic: [u8; 4], poll_interval: Duration) -> BlocksDir {
        BlocksDir {
            dir: dir.into(),
            magic,
            poll_interval,
            entries: HashMap::new(),
            waiting: HashMap::new(),
            best: Vec::new(),
            read: None,
            interrupter: Interrupter::default(),
        }
    }

    fn fault(&self, fault: NodeFault) -> NodeError {
        NodeError::new(self.describe(), fault)
    }

    /// Reads the headers that were appended since the last call.
    fn read_on(&mut self) -> Result<(), NodeError> {
        let files = match self.read {
            None => BlockFiles::open(&self.dir, self.magic),
            Some((position, _)) => BlockFiles::open_at(&self.dir, self.magic, position),
        };
        let files = files
            .map_err(|error| self.fault(NodeFault::Files(error)))?
            .headers_only();
        let mut last: Option<FileBlock> = None;
        for block in files {
            // The first call reads the headers of all files, which takes long, so check for an interruption.
            if self.interrupter.is_interrupted() {
                return Err(self.fault(NodeFault::Interrupted));
            }
            let block = block.map_err(|error| self.fault(NodeFault::Files(error)))?;
            if let Some(before) = last.replace(block) {
                self.enter_read(before);
            }
        }
        if let Some(last) = last
            && (self.has_read(&last) || self.is_whole(&last)?)
        {
            self.enter_read(last);
        }
        Ok(())
    }

    fn has_read(&self, block: &FileBlock) -> bool {
        self.read == Some((block.position, block.hash))
    }

    /// Adds a block from the files, unless it was added before.
    fn enter_read(&mut self, block: FileBlock) {
        if !self.has_read(&block) {
            self.read = Some((block.position, block.hash));
            self.enter(block);
        }
    }

    /// Returns true if all bytes of a block are in the files. The node fills a file with zeros before it writes a
    /// block, so an incomplete block may already have its length and its header.
    fn is_whole(&self, block: &FileBlock) -> Result<bool, NodeError> {
        let read = self.read_at(block.position)?;
        Ok(read.is_some_and(|read| read.hash == block.hash && is_whole(&read.raw)))
    }

    fn read_at(&self, position: Position) -> Result<Option<FileBlock>, NodeError> {
        let files = BlockFiles::open_at(&self.dir, self.magic, position);
        let mut files = files.map_err(|error| self.fault(NodeFault::Files(error)))?;
        let found = files.next().transpose();
        let found = found.map_err(|error| self.fault(NodeFault::Files(error)))?;
        Ok(found.filter(|found| found.position == position))
    }

    /// Adds a block, and the blocks that were waiting for it as their parent.
    fn enter(&mut self, block: FileBlock) {
        let mut ready = vec![block];
        while let Some(block) = ready.pop() {
            if let Some(entry) = self.entries.get_mut(&block.hash) {
                // The block is known, but the node wrote it again, because its first copy was damaged or lost: use the
                // new position.
                entry.position = block.position;
                continue;
            }
            let Some(header) = block.raw.first_chunk() else {
                continue;
            };
            let Some(work) = proven_work(header) else { continue };
            let parent = parent_of(header);
            let (height, work) = match self.entries.get(&parent) {
                Some(parent) => (parent.height + 1, parent.work + work),
                None if parent == BlockHash::default() => (0, work),
                None => {
                    self.waiting.entry(parent).or_default().push(block);
                    continue;
                }
            };
            let entry = Entry {
                header: *header,
                height,
                work,
                position: block.position,
            };
            self.entries.insert(block.hash, entry);
            let best = self.best.last().and_then(|best| self.entries.get(best));
            if best.is_none_or(|best| work > best.work) {
                self.lead(block.hash);
            }
            ready.extend(self.waiting.remove(&block.hash).unwrap_or_default());
        }
    }

    /// Makes the branch that ends with `tip` the best one.
    fn lead(&mut self, tip: BlockHash) {
        let (mut branch, mut at) = (Vec::new(), tip);
        while let Some(entry) = self.entries.get(&at) {
            if self.best.get(entry.height as usize) == Some(&at) {
                break;
            }
            branch.push(at);
            at = parent_of(&entry.header);
        }
        let next_entry = self.entries.get(&at).map_or(0, |entry| entry.height as usize + 1);
        self.best.truncate(next_entry);
        self.best.extend(branch.into_iter().rev());
    }

    fn entry(&self, hash: &BlockHash) -> Result<&Entry, NodeError> {
        let entry = self.entries.get(hash);
        entry.ok_or_else(|| self.fault(NodeFault::NoSuchBlock { hash: *hash }))
    }
}

/// Returns true if a block can be parsed completely, and its header and coinbase commit to its contents.
fn is_whole(raw: &[u8]) -> bool {
    let block: Result<bitcoin::Block, _> = bitcoin::consensus::deserialize(raw);
    block.is_ok_and(|block| block.check_merkle_root() && block.check_witness_commitment())
}

impl Node for BlocksDir {
    fn info(&mut self) -> Result<NodeInfo, NodeError> {
        self.read_on()?;
        let Some(best) = self.best.last().copied() else {
            return Err(self.fault(NodeFault::NoSuchHeight { height: 0 }));
        };
        let height = self.best.len() as u32 - 1;
        Ok(NodeInfo {
            chain: "blocks-dir".into(),
            blocks: height,
            headers: height,
            best,
            signet: None,
            pruned: false,
            prune_height: None,
            initial_block_download: false,
        })
    }

    fn hash_at(&mut self, height: u32) -> Result<BlockHash, NodeError> {
        if self.best.is_empty() {
            self.read_on()?;
        }
        let hash = self.best.get(height as usize).copied();
        hash.ok_or_else(|| self.fault(NodeFault::NoSuchHeight { height }))
    }

    fn header(&mut self, hash: &BlockHash) -> Result<Header, NodeError> {
        let entry = self.entry(hash)?;
        let is_best = self.best.get(entry.height as usize) == Some(hash);
        Ok(Header {
            raw: entry.header,
            height: is_best.then_some(entry.height),
        })
    }

    fn block(&mut self, hash: &BlockHash) -> Result<Vec<u8>, NodeError> {
        let position = self.entry(hash)?.position;
        match self.read_at(position)? {
            Some(block) if block.hash == *hash => Ok(block.raw),
            _ => Err(self.fault(NodeFault::Files(BlockFilesError::Damaged {
                path: self.dir.join(name_of(position.file)),
                offset: position.offset,
            }))),
        }
    }

    fn wait_for_change(
        &mut self,
        known_tip: &BlockHash,
        timeout: Duration,
    ) -> Result<Option<Announcement>, NodeError> {
        let deadline = Instant::now() + timeout;
        loop {
            self.read_on()?;
            if let Some(best) = self.best.last().filter(|best| *best != known_tip) {
                return Ok(Some(Announcement {
                    hash: *best,
                    noticed_by: NoticedBy::Poll,
                }));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            std::thread::sleep(left.min(self.poll_interval));
        }
    }

    fn place_of(&self, hash: &BlockHash) -> Option<String> {
        let Position { file, offset } = self.entries.get(hash)?.position;
        let path = self.dir.join(name_of(file));
        Some(format!("{} at byte {offset}", path.display()))
    }

    fn interrupter(&self) -> Interrupter {
        self.interrupter.clone()
    }

    fn describe(&self) -> String {
        format!("blocks-dir:{}", self.dir.display())
    }
}

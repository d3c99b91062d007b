//! Sender of the block protocol (`docs/fabric-udp.md`): cuts blocks into datagrams, and sends lost parts again.

use super::assembly::ENTRY_BYTES_MAX;
use super::code::Encoder;
use super::cut::{Layout, SegmentCuts};
use super::mac::{Direction, Session, SessionKey, SharedKey};
use super::packet::{self, DATAGRAM_OVERHEAD_BYTES, OP_ANNOUNCE, OP_DATA, OP_WANT, Packet};
use super::want::{self, WantedItem};
use super::window::{SequenceState, Window};
use hashbrown::HashMap;
use lineside_wire::{
    Announce, DataHead, EntryHead, FABRIC_ENTRIES_MAX, FABRIC_NO_ENTRY, FABRIC_RUN_NOTES,
    FABRIC_RUN_TRANSACTIONS, FABRIC_SECTION_ENTRY, FABRIC_SECTION_RUN, RunHead,
};
use sha2::{Digest, Sha256};
use std::collections::VecDeque;
use std::sync::Arc;
use zerocopy::{FromBytes, IntoBytes};

const RETIRED_SESSIONS_MAX: usize = 1_024;
const RETRANSMISSIONS_MAX: usize = 4_096;
/// Maximum number of blocks that the sender accepts before it has completely sent the first of them.
const UNSENT_BLOCKS_MAX: u64 = 16;
/// Maximum size of the sample of a transaction, in bytes. The sample is the dictionary of each run, to which copies
/// refer.
const SAMPLE_BYTES_MAX: usize = 1_200;

/// Limits and pace of a sender.
#[derive(Clone, Debug)]
pub struct SenderOptions {
    /// Maximum size of a datagram's payload, in bytes: 1,472 on Ethernet, 8,972 with jumbo frames; at least 600.
    pub payload_bytes: usize,
    /// Maximum rate in bytes per second, IP and UDP headers included; 0 means no limit.
    pub bytes_per_s: u64,
    /// Maximum number of bytes that may be sent in one burst.
    pub burst_bytes: u64,
    /// Number of blocks that the sender stores for retransmission.
    pub blocks_kept: usize,
    /// Maximum total size of the stored blocks, in bytes.
    pub bytes_kept: usize,
    /// True if annotations are sent.
    pub notes: bool,
    /// Time between two announcements, in nanoseconds.
    pub announce_interval_ns: u64,
    /// Maximum number of blocks after the receiver's next block that the sender sends. It must be less than
    /// [`ReceiverOptions::blocks_ahead`](super::ReceiverOptions::blocks_ahead) of the receiver.
    pub blocks_ahead: u64,
}

impl Default for SenderOptions {
    fn default() -> Self {
        Self {
            payload_bytes: 1_472,
            bytes_per_s: 125_000_000,
            burst_bytes: 65_536,
            blocks_kept: 1_024,
            bytes_kept: 256 << 20,
            notes: true,
            announce_interval_ns: 20_000_000,
            blocks_ahead: 48,
        }
    }
}

/// Counters of a sender.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub struct SenderCounters {
    pub datagrams: u64,
    /// Total size of the UDP payloads, in bytes.
    pub bytes: u64,
    pub blocks: u64,
    pub entries: u64,
    /// Number of ranges of segments, parts and entries that were sent again.
    pub retransmitted: u64,
    /// Number of refused datagrams of receivers: with a wrong MAC, replayed, or for another session.
    pub refused: u64,
    pub receivers: u64,
}

struct Stored {
    number: u64,
    bytes: Arc<[u8]>,
    layout: Layout,
}

struct Peer {
    session: Session,
    key: SessionKey,
    window: Window,
    /// Number of the receiver's next block, as the receiver last reported it.
    next: u64,
}

struct Entry {
    bytes: Arc<[u8]>,
    sha256: [u8; 32],
    sent: bool,
}

/// Position in a block of the data to be sent next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Cursor {
    block: u64,
    segment: u32,
    part: u16,
}

/// Data to be sent: segments `from.segment` to `last`, or parts `from.part` to `last_part` of one segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Range {
    from: Cursor,
    last: u32,
    last_part: u16,
}

/// The sending end of the block protocol, for one receiver.
pub struct Sender {
    shared: SharedKey,
    session: Session,
    key: SessionKey,
    sequence: u64,
    options: SenderOptions,
    peer: Option<Peer>,
    retired: VecDeque<Session>,
    greeted_by: Session,
    stored: VecDeque<Stored>,
    stored_bytes: usize,
    cursor: Cursor,
    to_retransmit: VecDeque<Range>,
    ids: HashMap<Arc<[u8]>, u16>,
    entries: Vec<Entry>,
    entry_bytes: usize,
    entries_again: VecDeque<u16>,
    sample: Option<u16>,
    encoder: Encoder,
    tokens: u64,
    filled_ns: u64,
    announce_at_ns: u64,
    counters: SenderCounters,
}

impl std::fmt::Debug for Sender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = (self.cursor, &self.counters);
        f.debug_tuple("Sender").field(&shown).finish()
    }
}

/// Result of [`Sender::poll`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PollResult {
    /// A datagram was written.
    Datagram,
    /// No datagram is due before this time.
    Wait(u64),
}

impl Sender {
    /// Creates a sender. `session` must be random, and must not have been used before.
    pub fn new(shared: SharedKey, session: Session, options: SenderOptions) -> Self {
        let payload_bytes = options.payload_bytes.clamp(600, 65_000);
        Self {
            key: shared.session(Direction::ToReceiver, &session),
            shared,
            session,
            sequence: 0,
            tokens: options.burst_bytes,
            options: SenderOptions {
                payload_bytes,
                ..options
            },
            peer: None,
            retired: VecDeque::new(),
            greeted_by: [0; 16],
            stored: VecDeque::new(),
            stored_bytes: 0,
            cursor: Cursor {
                block: 0,
                segment: 0,
                part: 0,
            },
            to_retransmit: VecDeque::new(),
            ids: HashMap::new(),
            entries: Vec::new(),
            entry_bytes: 0,
            entries_again: VecDeque::new(),
            sample: None,
            encoder: Encoder::default(),
            filled_ns: 0,
            announce_at_ns: 0,
            counters: SenderCounters::default(),
        }
    }

    /// Returns the counters.
    pub fn counters(&self) -> SenderCounters {
        self.counters
    }

    /// Returns true if a receiver has answered this sender.
    pub fn joined(&self) -> bool {
        self.peer.is_some()
    }

    /// Returns the number of the receiver's next block; `None` until the receiver has answered.
    pub fn receiver_next(&self) -> Option<u64> {
        self.peer.as_ref().map(|peer| peer.next)
    }

    /// Returns true if the next block may be pushed without discarding a block that the receiver does not have yet.
    pub fn has_room(&self) -> bool {
        let room = self.stored.len() < self.options.blocks_kept.max(1)
            && self.stored_bytes < self.options.bytes_kept;
        let stands = |peer: &Peer| self.oldest() < peer.next;
        self.unsent() < UNSENT_BLOCKS_MAX && (room || self.peer.as_ref().is_some_and(stands))
    }

    /// Returns the number of blocks that have not yet been sent completely.
    pub fn unsent(&self) -> u64 {
        self.newest().saturating_sub(self.cursor.block)
    }

    fn oldest(&self) -> u64 {
        self.stored.front().map_or(0, |stored| stored.number)
    }

    /// Returns the number of the newest block, plus one.
    fn newest(&self) -> u64 {
        self.stored.back().map_or(0, |stored| stored.number + 1)
    }

    /// Takes the next block. If its number does not follow that of the last block, all stored blocks are discarded.
    pub fn push(&mut self, number: u64, bytes: Arc<[u8]>) {
        if self.stored.is_empty() || number != self.newest() {
            self.stored.clear();
            self.stored_bytes = 0;
            self.to_retransmit.clear();
            self.move_to(number);
        }
        self.stored_bytes += bytes.len();
        let layout = Layout::of(&bytes);
        if self.sample.is_none() && layout.transactions && layout.segments() > 4 {
            self.take_sample(&bytes, &layout);
        }
        self.stored.push_back(Stored {
            number,
            bytes,
            layout,
        });
        while self.stored.len() > self.options.blocks_kept.max(1)
            || self.stored_bytes > self.options.bytes_kept && self.stored.len() > 1
        {
            if let Some(oldest) = self.stored.pop_front() {
                self.stored_bytes -= oldest.bytes.len();
            }
        }
        if self.cursor.block < self.oldest() {
            self.move_to(self.oldest());
        }
    }

    fn move_to(&mut self, block: u64) {
        self.cursor = Cursor {
            block,
            segment: 0,
            part: 0,
        };
    }

    /// Takes a transaction without its identities as the sample. Without identities, transactions are similar to each
    /// other, so copies from the sample make later transactions shorter.
    fn take_sample(&mut self, block: &[u8], layout: &Layout) {
        let mut sample = Vec::new();
        for segment in 1..layout.segments() - 1 {
            let content = layout
                .range(segment)
                .and_then(|range| block.get(range))
                .unwrap_or_default();
            let mut done = 0;
            let start = sample.len();
            for cut in SegmentCuts::of_transaction(content).cuts {
                sample.extend_from_slice(content.get(done..cut.range.start).unwrap_or_default());
                done = cut.range.end;
            }
            sample.extend_from_slice(content.get(done..).unwrap_or_default());
            if sample.len() > SAMPLE_BYTES_MAX {
                sample.truncate(if start == 0 { SAMPLE_BYTES_MAX } else { start });
                break;
            }
        }
        let room = self.section_bytes_max().saturating_sub(size_of::<EntryHead>());
        sample.truncate(room);
        self.sample = self.entry(&sample);
    }

    /// Returns the maximum size of the sections in a `data` datagram, in bytes.
    fn section_bytes_max(&self) -> usize {
        self.options.payload_bytes - DATAGRAM_OVERHEAD_BYTES - size_of::<DataHead>()
    }

    /// Returns the size of a part of a segment that fits into a datagram whatever its content, in bytes.
    fn part_bytes(&self) -> usize {
        (self.section_bytes_max() - size_of::<RunHead>() - 16) * 128 / 130
    }

    fn entry(&mut self, bytes: &[u8]) -> Option<u16> {
        if let Some(&id) = self.ids.get(bytes) {
            return Some(id);
        }
        let long = bytes.len() + size_of::<EntryHead>() > self.section_bytes_max() || bytes.len() < 32;
        if long
            || self.entries.len() >= FABRIC_ENTRIES_MAX
            || self.entry_bytes + bytes.len() > ENTRY_BYTES_MAX
        {
            return None;
        }
        let (id, bytes) = (self.entries.len() as u16, Arc::<[u8]>::from(bytes));
        self.entry_bytes += bytes.len();
        self.ids.insert(bytes.clone(), id);
        let sha256 = Sha256::digest(&bytes).into();
        let sent = false;
        self.entries.push(Entry { bytes, sha256, sent });
        Some(id)
    }

    /// Processes a datagram of a receiver.
    pub fn datagram(&mut self, now_ns: u64, datagram: &[u8]) {
        if self.take(now_ns, datagram).is_none() {
            self.counters.refused += 1;
        }
    }

    fn take(&mut self, now_ns: u64, datagram: &[u8]) -> Option<()> {
        let packet = Packet::read(datagram).filter(|packet| packet.op == OP_WANT)?;
        let current = self.peer.as_mut().filter(|peer| peer.session == packet.session);
        let Some(peer) = current else {
            let key = self.shared.session(Direction::ToSender, &packet.session);
            if !packet.has_valid_mac(&key) || packet.sequence == 0 || self.retired.contains(&packet.session) {
                return None;
            }
            let (own_session, next, _) = want::read(packet.body)?;
            self.greeted_by = packet.session;
            self.announce_at_ns = self
                .announce_at_ns
                .min(now_ns + self.options.announce_interval_ns / 8);
            if own_session == self.session {
                self.adopt(packet.session, key, packet.sequence, next);
            }
            return Some(());
        };
        if peer.window.lookup(packet.sequence) != SequenceState::Fresh || !packet.has_valid_mac(&peer.key) {
            return None;
        }
        peer.window.mark(packet.sequence);
        let (own_session, next, items) = want::read(packet.body)?;
        self.greeted_by = packet.session;
        peer.next = peer.next.max(next);
        if own_session != self.session {
            self.announce_at_ns = self
                .announce_at_ns
                .min(now_ns + self.options.announce_interval_ns / 8);
            return Some(());
        }
        for item in items {
            self.retransmit(item);
        }
        Some(())
    }

    /// Makes a new receiver the current one. Its packet named the sender's session; `session` is the receiver's own.
    /// The receiver has no cache entry and no block of the sender's session yet.
    fn adopt(&mut self, session: Session, key: SessionKey, sequence: u64, next: u64) {
        if let Some(old) = self.peer.take() {
            if self.retired.len() == RETIRED_SESSIONS_MAX {
                self.retired.pop_front();
            }
            self.retired.push_back(old.session);
        }
        let mut window = Window::default();
        window.mark(sequence);
        self.peer = Some(Peer {
            session,
            key,
            window,
            next,
        });
        self.counters.receivers += 1;
        self.entries.iter_mut().for_each(|entry| entry.sent = false);
        self.to_retransmit.clear();
        self.entries_again.clear();
        self.move_to(next.clamp(self.oldest(), self.newest()));
    }

    fn retransmit(&mut self, item: WantedItem) {
        let range = match item {
            WantedItem::Entries { first, last } => {
                for id in first..=last.min(first.saturating_add(63)) {
                    let is_known = (id as usize) < self.entries.len();
                    if is_known
                        && self.entries_again.len() < RETRANSMISSIONS_MAX
                        && !self.entries_again.contains(&(id as u16))
                    {
                        self.entries_again.push_back(id as u16);
                    }
                }
                return;
            }
            WantedItem::Segments { block, first, last } => Range {
                from: Cursor {
                    block,
                    segment: first,
                    part: 0,
                },
                last,
                last_part: u16::MAX,
            },
            WantedItem::Parts {
                block,
                segment,
                first,
                last,
            } => Range {
                from: Cursor {
                    block,
                    segment,
                    part: first,
                },
                last: segment,
                last_part: last,
            },
        };
        // Data that has not been sent for the first time yet will be sent anyway, so a request for it is ignored.
        let ahead = (range.from.block, range.from.segment) >= (self.cursor.block, self.cursor.segment);
        let mut range = range;
        if range.from.block == self.cursor.block {
            range.last = range.last.min(self.cursor.segment.saturating_sub(1));
        }
        if ahead
            || range.from.segment > range.last
            || self.to_retransmit.len() >= RETRANSMISSIONS_MAX
            || self.to_retransmit.contains(&range)
        {
            return;
        }
        self.to_retransmit.push_back(range);
    }

    /// Writes the next datagram into `out`, if one may be sent now.
    pub fn poll(&mut self, now_ns: u64, out: &mut Vec<u8>) -> PollResult {
        if now_ns >= self.announce_at_ns {
            self.announce_at_ns = now_ns + self.options.announce_interval_ns;
            self.announce(out);
            return PollResult::Datagram;
        }
        let rate = self.options.bytes_per_s;
        if rate > 0 {
            let passed = u128::from(now_ns.saturating_sub(self.filled_ns)) * u128::from(rate);
            let new = (passed / 1_000_000_000) as u64;
            if new > 0 {
                self.tokens = self
                    .tokens
                    .saturating_add(new)
                    .min(self.options.burst_bytes.max(65_536));
                self.filled_ns = now_ns;
            }
            if self.tokens < self.options.payload_bytes as u64 {
                let missing = self.options.payload_bytes as u64 - self.tokens;
                let wait = (u128::from(missing) * 1_000_000_000 / u128::from(rate)) as u64 + 1;
                return PollResult::Wait((now_ns + wait).min(self.announce_at_ns));
            }
        }
        if self.peer.is_none() || !self.data(out) {
            return PollResult::Wait(self.announce_at_ns);
        }
        self.tokens = self.tokens.saturating_sub(out.len() as u64 + 28);
        PollResult::Datagram
    }

    fn write(&mut self, op: u8, out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
        self.sequence += 1;
        packet::write(out, (op, self.sequence), &self.session, &self.key, fill);
        self.counters.datagrams += 1;
        self.counters.bytes += out.len() as u64;
    }

    fn announce(&mut self, out: &mut Vec<u8>) {
        let announce = Announce {
            receiver: self.greeted_by,
            oldest: self.oldest().into(),
            next: self.newest().into(),
        };
        // Each greeting is answered only once, because it may be a replay.
        self.greeted_by = self.peer.as_ref().map_or([0; 16], |peer| peer.session);
        self.write(OP_ANNOUNCE, out, |out| out.extend_from_slice(announce.as_bytes()));
    }

    fn data(&mut self, out: &mut Vec<u8>) -> bool {
        let mut entries = Vec::new();
        while let Some(id) = self.entries_again.pop_front() {
            if !self.put_entry(id, &mut entries, self.section_bytes_max()) {
                self.entries_again.push_front(id);
                break;
            }
            self.counters.retransmitted += 1;
        }
        if !entries.is_empty() {
            self.write_data(0, (0, 0), &entries, &[], out);
            return true;
        }
        while let Some(&range) = self.to_retransmit.front() {
            if self.fill(range, false, out) {
                self.counters.retransmitted += 1;
                return true;
            }
            self.to_retransmit.pop_front();
        }
        let ahead = self
            .receiver_next()
            .unwrap_or(0)
            .saturating_add(self.options.blocks_ahead);
        if self.cursor.block >= self.newest().min(ahead) {
            return false;
        }
        let complete = Range {
            from: self.cursor,
            last: u32::MAX,
            last_part: u16::MAX,
        };
        self.fill(complete, true, out)
    }

    /// Appends a cache entry. Returns false if the entry does not fit into `room` bytes.
    fn put_entry(&mut self, id: u16, entries: &mut Vec<u8>, room: usize) -> bool {
        let Some(entry) = self.entries.get_mut(usize::from(id)) else {
            return true;
        };
        if entries.len() + size_of::<EntryHead>() + entry.bytes.len() > room {
            return false;
        }
        let head = EntryHead {
            kind: FABRIC_SECTION_ENTRY,
            reserved: 0,
            id: id.into(),
            length: (entry.bytes.len() as u16).into(),
            sha256: entry.sha256,
        };
        entries.extend_from_slice(head.as_bytes());
        entries.extend_from_slice(&entry.bytes);
        entry.sent = true;
        self.counters.entries += 1;
        true
    }

    fn write_data(&mut self, block: u64, size: (u32, u32), entries: &[u8], runs: &[u8], out: &mut Vec<u8>) {
        let head = DataHead {
            block: block.into(),
            block_bytes: size.0.into(),
            segments: size.1.into(),
        };
        self.write(OP_DATA, out, |out| {
            out.extend_from_slice(head.as_bytes());
            out.extend_from_slice(entries);
            out.extend_from_slice(runs);
        });
    }

    /// Writes a datagram with as much of `range` as fits, and advances the queue or cursor from which the range came.
    fn fill(&mut self, range: Range, fresh: bool, out: &mut Vec<u8>) -> bool {
        let index = range.from.block.checked_sub(self.oldest());
        let Some(stored) = index.and_then(|index| self.stored.get(index as usize)) else {
            return false;
        };
        let (bytes, segments) = (stored.bytes.clone(), stored.layout.segments());
        let size = (bytes.len() as u32, segments);
        let mut built = DatagramBuilder {
            at: range.from,
            end: range.last.min(segments - 1),
            last_part: range.last_part,
            entries: Vec::new(),
            runs: Vec::new(),
        };
        if built.at.segment > built.end {
            return false;
        }
        self.build(&bytes, index.unwrap_or_default() as usize, &mut built);
        self.write_data(range.from.block, size, &built.entries, &built.runs, out);
        let done = built.at.segment > built.end;
        if fresh {
            self.cursor = built.at;
            if done {
                self.counters.blocks += 1;
                self.move_to(range.from.block + 1);
            }
        } else if done {
            self.to_retransmit.pop_front();
        } else if let Some(front) = self.to_retransmit.front_mut() {
            front.from = built.at;
        }
        true
    }

    fn build(&mut self, bytes: &[u8], index: usize, built: &mut DatagramBuilder) {
        let room = self.section_bytes_max();
        let sample = self
            .sample
            .and_then(|id| self.entries.get(usize::from(id)).map(|entry| (id, entry)));
        let dictionary: Arc<[u8]> = sample.map_or_else(|| [].into(), |(_, entry)| entry.bytes.clone());
        let mut new: Vec<u16> = sample
            .filter(|(_, entry)| !entry.sent)
            .map(|(id, _)| id)
            .into_iter()
            .collect();
        let sample = sample.map_or(FABRIC_NO_ENTRY, |(id, _)| id);
        let mut head_at = None;
        while built.at.segment <= built.end {
            let Some((segment, transactions, offset, last)) = self.segment(bytes, index, built.at.segment)
            else {
                built.at.segment = built.end + 1;
                return;
            };
            let cuts = match (transactions, last) {
                (true, true) => SegmentCuts::of_metadata(segment),
                (true, false) if built.at.segment > 0 => SegmentCuts::of_transaction(segment),
                _ => SegmentCuts::default(),
            };
            let begins = head_at.is_none();
            let mut runs = std::mem::take(&mut built.runs);
            let before = runs.len();
            let notes = transactions && self.options.notes;
            if begins {
                self.encoder.begin(&dictionary);
                let flags = if transactions { FABRIC_RUN_TRANSACTIONS } else { 0 };
                let head = RunHead {
                    kind: FABRIC_SECTION_RUN,
                    flags: flags | if notes { FABRIC_RUN_NOTES } else { 0 },
                    count: 0.into(),
                    segment: built.at.segment.into(),
                    offset: (offset as u32).into(),
                    part: 0.into(),
                    parts: 1.into(),
                    dictionary: sample.into(),
                };
                runs.extend_from_slice(head.as_bytes());
            }
            let parted = (built.at.part, built.last_part) != (0, u16::MAX);
            let mut encoder = std::mem::replace(&mut self.encoder, Encoder::none());
            encoder.segment(
                segment,
                &cuts.cuts,
                notes.then_some(&cuts.notes),
                |cut| {
                    let id = self.entry(cut)?;
                    let unsent = self.entries.get(usize::from(id)).is_some_and(|entry| !entry.sent);
                    if unsent && !new.contains(&id) {
                        new.push(id);
                    }
                    Some(id)
                },
                &mut runs,
            );
            self.encoder = encoder;
            let missing = |id: &u16| {
                self.entries
                    .get(usize::from(*id))
                    .map_or(0, |entry| entry.bytes.len() + size_of::<EntryHead>())
            };
            let needed: usize = new.iter().map(missing).sum();
            let fits = !parted && built.entries.len() + needed + runs.len() <= room;
            if fits {
                for id in new.drain(..) {
                    self.put_entry(id, &mut built.entries, room);
                }
                let head_place = *head_at.get_or_insert(before);
                count_up(&mut runs, head_place);
                built.runs = runs;
                built.at.segment += 1;
                continue;
            }
            runs.truncate(before);
            built.runs = runs;
            self.encoder.take_back(segment.len());
            if !built.runs.is_empty() {
                return;
            }
            // The segment does not fit into a datagram even alone. The sender first sends the cache entries that the
            // segment needs, and then the segment in parts.
            if !new.is_empty() && !parted {
                new.retain(|&id| !self.put_entry(id, &mut built.entries, room));
                if !built.entries.is_empty() {
                    return;
                }
            }
            let (segment, dictionary) = (segment.to_vec(), dictionary.clone());
            return self.parts(
                &segment,
                (transactions, offset, sample),
                &dictionary,
                &cuts,
                built,
            );
        }
    }

    fn segment<'b>(
        &self,
        bytes: &'b [u8],
        index: usize,
        segment: u32,
    ) -> Option<(&'b [u8], bool, usize, bool)> {
        let layout = &self.stored.get(index)?.layout;
        let range = layout.range(segment)?;
        let last = segment + 1 == layout.segments();
        Some((bytes.get(range.clone())?, layout.transactions, range.start, last))
    }

    /// Writes as many parts of one segment as fit, each as a separate run.
    fn parts(
        &mut self,
        segment: &[u8],
        (transactions, offset, sample): (bool, usize, u16),
        dictionary: &[u8],
        cuts: &SegmentCuts,
        built: &mut DatagramBuilder,
    ) {
        let room = self.section_bytes_max();
        let part_bytes = self.part_bytes().max(segment.len().div_ceil(65_535));
        let parts = segment.len().div_ceil(part_bytes).max(1) as u16;
        let sample_sent = self
            .entries
            .get(usize::from(sample))
            .is_some_and(|entry| entry.sent);
        let (sample, dictionary) = if sample_sent {
            (sample, dictionary)
        } else {
            (FABRIC_NO_ENTRY, &[][..])
        };
        let last = built.last_part.min(parts - 1);
        while built.at.part <= last {
            let from = usize::from(built.at.part) * part_bytes;
            let to = segment.len().min(from + part_bytes);
            let piece = segment.get(from..to).unwrap_or_default();
            let inside = cuts
                .cuts
                .iter()
                .filter(|cut| cut.range.start >= from && cut.range.end <= to);
            let inside: Vec<_> = inside
                .map(|cut| super::cut::CutRange {
                    range: cut.range.start - from..cut.range.end - from,
                    hex: cut.hex,
                })
                .collect();
            let head = RunHead {
                kind: FABRIC_SECTION_RUN,
                flags: if transactions { FABRIC_RUN_TRANSACTIONS } else { 0 },
                count: 1.into(),
                segment: built.at.segment.into(),
                offset: ((offset + from) as u32).into(),
                part: built.at.part.into(),
                parts: parts.into(),
                dictionary: sample.into(),
            };
            let before = built.runs.len();
            built.runs.extend_from_slice(head.as_bytes());
            self.encoder.begin(dictionary);
            let (ids, entries) = (&self.ids, &self.entries);
            let sent = |cut: &[u8]| {
                let id = *ids.get(cut)?;
                entries
                    .get(usize::from(id))
                    .is_some_and(|entry| entry.sent)
                    .then_some(id)
            };
            self.encoder.segment(piece, &inside, None, sent, &mut built.runs);
            if built.entries.len() + built.runs.len() > room {
                built.runs.truncate(before);
                return;
            }
            built.at.part += 1;
        }
        built.at.part = 0;
        built.at.segment += 1;
        built.last_part = u16::MAX;
    }
}

/// A datagram that is being built.
struct DatagramBuilder {
    at: Cursor,
    end: u32,
    last_part: u16,
    entries: Vec<u8>,
    runs: Vec<u8>,
}

fn count_up(runs: &mut [u8], head: usize) {
    if let Some(Ok((head, _))) = runs.get_mut(head..).map(RunHead::mut_from_prefix) {
        head.count = (head.count.get() + 1).into();
    }
}

//! Receiver of the block protocol (`docs/fabric-udp.md`): restores blocks from datagrams, and requests lost parts.

use super::assembly::{Assembly, Entries, envelope_at};
use super::code::{self, SegmentNotes, StreamError};
use super::mac::{Direction, Session, SessionKey, SharedKey};
use super::packet::{self, OP_ANNOUNCE, OP_DATA, OP_WANT, Packet};
use super::want::{self, ITEMS_MAX, WantedItem};
use super::window::{SequenceState, Window};
use super::{BlockSink, DropReason, EarlyTx};
use lineside_wire::{
    Announce, DataHead, EntryHead, FABRIC_NO_ENTRY, FABRIC_RUN_NOTES, FABRIC_RUN_TRANSACTIONS,
    FABRIC_SECTION_ENTRY, FABRIC_SECTION_RUN, RunHead,
};
use std::collections::{BTreeMap, VecDeque};
use zerocopy::FromBytes;

/// Maximum number of ended sessions that the receiver remembers, so that it never accepts one of them again.
const RETIRED_MAX: usize = 1_024;
/// Number of times that a received block may be invalid before the receiver reports the block as a gap.
const INVALID_ATTEMPTS_MAX: u32 = 3;
/// Number of passed-on blocks after which the receiver reports its next block to the sender, so that the sender may
/// continue.
const ACKNOWLEDGE_EVERY_BLOCKS: u64 = 8;

/// Limits and timing of a receiver.
#[derive(Clone, Debug)]
pub struct ReceiverOptions {
    /// Number of blocks after the next block whose datagrams the receiver accepts.
    pub blocks_ahead: u64,
    /// Maximum memory of all blocks that are being received, in bytes.
    pub memory_bytes_max: usize,
    /// Time without a datagram after which the receiver requests the missing parts of a block, in nanoseconds.
    pub quiet_ns: u64,
    /// Initial time between two requests for the same block, in nanoseconds. The time doubles with each request, up to
    /// 64 times this value.
    pub ask_again_ns: u64,
    /// Minimum time between two datagrams with requests, in nanoseconds.
    pub ask_interval_ns: u64,
    /// Time between two greetings while there is no session, in nanoseconds.
    pub greet_interval_ns: u64,
    /// True if the receiver checks data hashes. If false, the user of the blocks must check them.
    pub data_hash: bool,
}

/// Origin of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DatagramOrigin {
    /// The origin is not known: the datagram does not belong to this protocol, has a wrong MAC, or is a replay.
    Unknown,
    /// The datagram has a valid MAC, but belongs to another session than the current one: a new or an earlier session
    /// of a sender with the key.
    OtherSession,
    /// The datagram belongs to the current session.
    Sender,
}

impl Default for ReceiverOptions {
    fn default() -> Self {
        Self {
            blocks_ahead: 64,
            memory_bytes_max: 256 << 20,
            quiet_ns: 3_000_000,
            ask_again_ns: 10_000_000,
            ask_interval_ns: 500_000,
            greet_interval_ns: 50_000_000,
            data_hash: true,
        }
    }
}

/// Counters of a receiver.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub struct Counters {
    pub datagrams: u64,
    pub bytes: u64,
    /// Number of datagrams that do not belong to this protocol, or that a receiver sent.
    pub bad_form: u64,
    /// Number of datagrams with a wrong MAC.
    pub bad_mac: u64,
    /// Number of datagrams of another session, and of announcements to another receiver.
    pub other_session: u64,
    pub replayed: u64,
    /// Number of datagrams whose sequence number is below the replay window.
    pub old: u64,
    /// Number of datagrams with a valid MAC but a form that no sender writes.
    pub malformed: u64,
    /// Number of datagrams of blocks that were already passed on.
    pub late_datagrams: u64,
    /// Number of datagrams of blocks that are too far ahead or exceed the memory limit.
    pub no_room: u64,
    /// Number of datagrams that had to wait for a cache entry.
    pub waited: u64,
    pub sessions: u64,
    pub transactions: u64,
    pub blocks: u64,
    pub dropped: u64,
    pub gaps: u64,
    pub retransmit_requests: u64,
    /// Largest memory of blocks that were being received at the same time so far, in bytes.
    pub memory_bytes_peak: u64,
}

struct Peer {
    session: Session,
    key: SessionKey,
    window: Window,
    entries: Entries,
    /// Number of the newest block that the sender has announced, plus one.
    announced_height: u64,
    missing_entries: BTreeMap<u16, u64>,
}

/// The receiving end of the block protocol.
pub struct Receiver {
    shared: SharedKey,
    session: Session,
    key: SessionKey,
    sequence: u64,
    options: ReceiverOptions,
    next: u64,
    peer: Option<Peer>,
    retired: VecDeque<Session>,
    assemblies: BTreeMap<u64, Assembly>,
    absent: BTreeMap<u64, (u64, u32)>,
    wrong: (u64, u32),
    gap: Option<(u64, u64)>,
    memory: usize,
    spare: Vec<Vec<u8>>,
    aside: SegmentNotes,
    ask_at_ns: u64,
    greet_at_ns: u64,
    answer: bool,
    /// Number of the next block that the receiver last reported to the sender.
    told_next: u64,
    counters: Counters,
}

impl std::fmt::Debug for Receiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = (self.next, &self.counters);
        f.debug_tuple("Receiver").field(&shown).finish()
    }
}

impl Receiver {
    /// Creates a receiver that passes on blocks from `next` on. `session` must be random.
    pub fn new(shared: SharedKey, session: Session, next: u64, options: ReceiverOptions) -> Self {
        Self {
            key: shared.session(Direction::ToSender, &session),
            shared,
            session,
            sequence: 0,
            options,
            next,
            peer: None,
            retired: VecDeque::new(),
            assemblies: BTreeMap::new(),
            absent: BTreeMap::new(),
            wrong: (0, 0),
            gap: None,
            memory: 0,
            spare: Vec::new(),
            aside: SegmentNotes::default(),
            ask_at_ns: 0,
            greet_at_ns: 0,
            answer: false,
            told_next: next,
            counters: Counters::default(),
        }
    }

    /// Returns the number of the block that is passed on next.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Returns the counters.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Returns the memory of the blocks that are being received, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.memory
    }

    /// Takes back the memory of a block that was passed on, to use it for a later block.
    pub fn recycle(&mut self, bytes: Vec<u8>) {
        let kept: usize = self.spare.iter().map(Vec::capacity).sum();
        if self.spare.len() < 64 && kept + bytes.capacity() <= self.options.memory_bytes_max / 4 {
            self.spare.push(bytes);
        }
    }

    /// Records that the blocks before `next` arrived in another way.
    pub fn set_next(&mut self, next: u64, blocks: &mut dyn BlockSink) {
        self.next = next;
        self.gap = self.gap.filter(|&(_, to)| to >= next);
        let keep = self.assemblies.split_off(&next);
        let done = std::mem::replace(&mut self.assemblies, keep);
        for (_, assembly) in done {
            self.release(assembly);
        }
        self.absent = self.absent.split_off(&next);
        self.hand_on(blocks);
    }

    fn release(&mut self, assembly: Assembly) {
        self.memory = self.memory.saturating_sub(assembly.memory());
        self.recycle(assembly.bytes);
    }

    fn drop_block(&mut self, number: u64, why: DropReason, blocks: &mut dyn BlockSink) {
        if let Some(assembly) = self.assemblies.remove(&number) {
            self.counters.dropped += 1;
            self.release(assembly);
            blocks.on_dropped(number, why);
        }
    }

    /// Processes a datagram. Before its MAC is verified, no part of it is stored and no memory is allocated for it.
    pub fn datagram(&mut self, now_ns: u64, datagram: &[u8], blocks: &mut dyn BlockSink) -> DatagramOrigin {
        self.counters.datagrams += 1;
        self.counters.bytes += datagram.len() as u64;
        let Some(packet) = Packet::read(datagram).filter(|packet| packet.op != OP_WANT) else {
            self.counters.bad_form += 1;
            return DatagramOrigin::Unknown;
        };
        let origin = self.origin(now_ns, &packet, blocks);
        if origin == DatagramOrigin::Sender {
            self.take(now_ns, &packet, blocks);
        }
        origin
    }

    /// Returns the origin of a datagram. Begins a session if the datagram is a valid announcement of one.
    fn origin(&mut self, now_ns: u64, packet: &Packet<'_>, blocks: &mut dyn BlockSink) -> DatagramOrigin {
        let refused = match &mut self.peer {
            Some(peer) if peer.session == packet.session => match peer.window.lookup(packet.sequence) {
                SequenceState::Replayed => &mut self.counters.replayed,
                SequenceState::Old => &mut self.counters.old,
                SequenceState::Fresh if packet.has_valid_mac(&peer.key) => {
                    peer.window.mark(packet.sequence);
                    return DatagramOrigin::Sender;
                }
                SequenceState::Fresh => &mut self.counters.bad_mac,
            },
            _ => {
                let key = self.shared.session(Direction::ToReceiver, &packet.session);
                match packet.has_valid_mac(&key) {
                    true if self.adopt(packet, key, blocks) => return DatagramOrigin::Sender,
                    true => {
                        self.counters.other_session += 1;
                        let soon = now_ns + self.options.greet_interval_ns / 8;
                        self.greet_at_ns = self.greet_at_ns.min(soon);
                        return DatagramOrigin::OtherSession;
                    }
                    false => &mut self.counters.bad_mac,
                }
            }
        };
        *refused += 1;
        DatagramOrigin::Unknown
    }

    fn take(&mut self, now_ns: u64, packet: &Packet<'_>, blocks: &mut dyn BlockSink) {
        match packet.op {
            OP_ANNOUNCE => self.take_announcement(packet.body, blocks),
            OP_DATA => {
                if self.data(packet.body, now_ns, blocks).is_none() {
                    self.counters.malformed += 1;
                }
            }
            _ => self.counters.bad_form += 1,
        }
        self.hand_on(blocks);
    }

    /// Begins the session of an announcement, and returns true if it does. Only an announcement that answers a greeting
    /// of this receiver can begin a session, and each session can begin only once.
    fn adopt(&mut self, packet: &Packet<'_>, key: SessionKey, blocks: &mut dyn BlockSink) -> bool {
        let to_us =
            Announce::ref_from_bytes(packet.body).is_ok_and(|announce| announce.receiver == self.session);
        if packet.op != OP_ANNOUNCE
            || !to_us
            || self.retired.contains(&packet.session)
            || packet.sequence == 0
        {
            return false;
        }
        if let Some(old) = self.peer.take() {
            if self.retired.len() == RETIRED_MAX {
                self.retired.pop_front();
            }
            self.retired.push_back(old.session);
        }
        let unfinished = self
            .assemblies
            .iter()
            .filter(|(_, assembly)| !assembly.is_complete);
        let unfinished: Vec<u64> = unfinished.map(|(number, _)| *number).collect();
        for number in unfinished {
            self.drop_block(number, DropReason::Session, blocks);
        }
        self.absent.clear();
        self.gap = None;
        self.greet_at_ns = u64::MAX;
        let mut window = Window::default();
        window.mark(packet.sequence);
        self.counters.sessions += 1;
        self.peer = Some(Peer {
            session: packet.session,
            key,
            window,
            entries: Entries::default(),
            announced_height: 0,
            missing_entries: BTreeMap::new(),
        });
        true
    }

    fn take_announcement(&mut self, body: &[u8], blocks: &mut dyn BlockSink) {
        let (Ok(announce), Some(peer)) = (Announce::ref_from_bytes(body), &mut self.peer) else {
            return self.counters.malformed += 1;
        };
        let (oldest, next) = (announce.oldest.get(), announce.next.get());
        if announce.receiver != self.session {
            // The announcement is not for this receiver: the sender does not know it yet, because its answer was lost,
            // or knows an earlier receiver. The receiver must answer again.
            self.answer = true;
            return self.counters.other_session += 1;
        }
        if oldest > next {
            return self.counters.malformed += 1;
        }
        peer.announced_height = peer.announced_height.max(next);
        self.answer = true;
        if oldest > self.next && oldest < next {
            self.report(self.next, oldest - 1, blocks);
        }
    }

    fn report(&mut self, from: u64, to: u64, blocks: &mut dyn BlockSink) {
        if self.gap.is_none_or(|(_, known)| known < to) {
            self.gap = Some((from, to));
            self.counters.gaps += 1;
            blocks.on_gap(from, to);
        }
    }

    fn data(&mut self, body: &[u8], now_ns: u64, blocks: &mut dyn BlockSink) -> Option<()> {
        let (head, sections) = DataHead::ref_from_prefix(body).ok()?;
        let (number, segments) = (head.block.get(), head.segments.get());
        let block_bytes = usize::try_from(head.block_bytes.get()).ok()?;
        let peer = self.peer.as_mut()?;
        let mut rest = sections;
        let mut learned = false;
        while rest.first() == Some(&FABRIC_SECTION_ENTRY) {
            let (entry, after) = EntryHead::ref_from_prefix(rest).ok()?;
            let (bytes, after) = after.split_at_checked(usize::from(entry.length.get()))?;
            learned |= peer.entries.put(entry.id.get(), bytes, &entry.sha256)?;
            peer.missing_entries.remove(&entry.id.get());
            rest = after;
        }
        if learned {
            self.retry(now_ns, blocks);
        }
        if segments == 0 {
            return rest.is_empty().then_some(());
        }
        if number < self.next {
            self.counters.late_datagrams += 1;
            return Some(());
        }
        if !self.admit(number, block_bytes, segments, blocks)? {
            self.counters.no_room += 1;
            return Some(());
        }
        self.runs(number, rest, now_ns, blocks)
    }

    /// Returns true if datagrams of the block may be stored. Discards later blocks if the memory limit requires it.
    fn admit(
        &mut self,
        number: u64,
        block_bytes: usize,
        segments: u32,
        blocks: &mut dyn BlockSink,
    ) -> Option<bool> {
        if let Some(assembly) = self.assemblies.get(&number) {
            return (assembly.bytes.len() == block_bytes && assembly.segments == segments).then_some(true);
        }
        if !Assembly::fits(block_bytes, segments) {
            return None;
        }
        if number - self.next > self.options.blocks_ahead {
            if let Some(peer) = &mut self.peer {
                peer.announced_height = peer.announced_height.max(number);
            }
            return Some(false);
        }
        if block_bytes > self.options.memory_bytes_max {
            if number == self.next {
                self.report(number, number, blocks);
            }
            return Some(false);
        }
        while self.memory + block_bytes > self.options.memory_bytes_max {
            // Discard the block with the highest number, if that number is higher than this block's.
            let Some(last) = self
                .assemblies
                .last_key_value()
                .map(|(&last, _)| last)
                .filter(|&last| last > number)
            else {
                return Some(false);
            };
            self.drop_block(last, DropReason::Memory, blocks);
        }
        self.memory += block_bytes;
        self.counters.memory_bytes_peak = self.counters.memory_bytes_peak.max(self.memory as u64);
        let assembly = Assembly::new(self.spare.pop().unwrap_or_default(), block_bytes, segments);
        self.assemblies.insert(number, assembly);
        self.absent.remove(&number);
        if let Some(peer) = &mut self.peer {
            peer.announced_height = peer.announced_height.max(number);
        }
        Some(true)
    }

    fn runs(&mut self, number: u64, sections: &[u8], now_ns: u64, blocks: &mut dyn BlockSink) -> Option<()> {
        let assembly = self.assemblies.get_mut(&number)?;
        if assembly.is_complete {
            self.counters.late_datagrams += 1;
            return Some(());
        }
        assembly.ask_at_ns = now_ns + self.options.quiet_ns;
        assembly.retransmit_requests = 0;
        let entries = &self.peer.as_ref()?.entries;
        let took = take_runs(assembly, sections, entries, &mut self.aside, &mut |early| {
            self.counters.transactions += 1;
            blocks.on_early(EarlyTx {
                block: number,
                ..early
            });
        });
        match took {
            Ok(()) => {}
            Err(StreamError::Malformed) => return None,
            Err(StreamError::Unknown(id)) => {
                let room = self.options.memory_bytes_max.saturating_sub(self.memory);
                let few = assembly.pending_bytes < assembly.bytes.len() + 65_536;
                if sections.len() <= room && few {
                    self.counters.waited += 1;
                    assembly.pending_bytes += sections.len();
                    self.memory += sections.len();
                    assembly.pending.push((id, sections.into()));
                }
                let soon = now_ns + self.options.quiet_ns / 4;
                self.peer.as_mut()?.missing_entries.entry(id).or_insert(soon);
            }
        }
        self.finish(number, now_ns, blocks);
        Some(())
    }

    fn finish(&mut self, number: u64, now_ns: u64, blocks: &mut dyn BlockSink) {
        let Some(assembly) = self
            .assemblies
            .get_mut(&number)
            .filter(|known| known.complete() && !known.is_complete)
        else {
            return;
        };
        self.memory = self.memory.saturating_sub(assembly.pending_bytes);
        assembly.pending_bytes = 0;
        assembly.pending = Vec::new();
        match assembly.check(number, self.options.data_hash) {
            Ok(()) => assembly.is_complete = true,
            Err(why) => {
                self.drop_block(number, why, blocks);
                self.wrong = (
                    number,
                    if self.wrong.0 == number {
                        self.wrong.1 + 1
                    } else {
                        1
                    },
                );
                self.absent.insert(number, (now_ns, 0));
                if self.wrong.1 >= INVALID_ATTEMPTS_MAX && number == self.next {
                    self.report(number, number, blocks);
                }
            }
        }
    }

    /// Decodes the runs that waited for cache entries which have arrived now.
    fn retry(&mut self, now_ns: u64, blocks: &mut dyn BlockSink) {
        let waiting = self
            .assemblies
            .iter()
            .filter(|(_, assembly)| !assembly.pending.is_empty());
        let waiting: Vec<u64> = waiting.map(|(number, _)| *number).collect();
        for number in waiting {
            let (Some(assembly), Some(peer)) = (self.assemblies.get_mut(&number), &self.peer) else {
                continue;
            };
            let ready = |(id, _): &mut (u16, Box<[u8]>)| peer.entries.get(*id).is_some();
            let ready: Vec<_> = assembly.pending.extract_if(.., ready).collect();
            for (_, sections) in ready {
                if let Some(assembly) = self.assemblies.get_mut(&number) {
                    assembly.pending_bytes = assembly.pending_bytes.saturating_sub(sections.len());
                    self.memory = self.memory.saturating_sub(sections.len());
                }
                if self.assemblies.contains_key(&number)
                    && self.runs(number, &sections, now_ns, blocks).is_none()
                {
                    self.counters.malformed += 1;
                }
            }
        }
    }

    /// Passes on complete blocks in order, while `blocks` can take them.
    pub(crate) fn hand_on(&mut self, blocks: &mut dyn BlockSink) {
        while self
            .gap
            .is_none_or(|(from, to)| !(from..=to).contains(&self.next))
        {
            let complete = self
                .assemblies
                .first_entry()
                .filter(|first| *first.key() == self.next && first.get().is_complete);
            let complete = complete.filter(|first| blocks.has_room(first.get().bytes.len()));
            let Some(complete) = complete else { return };
            let assembly = complete.remove();
            self.memory = self.memory.saturating_sub(assembly.memory());
            self.counters.blocks += 1;
            let number = self.next;
            self.next += 1;
            blocks.on_block(number, assembly.bytes);
        }
    }

    /// Writes into `out` the datagram that the receiver has to send to the sender now; returns false if there is none.
    /// The caller must call this method after each batch of datagrams, and about every millisecond.
    pub fn write_request(&mut self, now_ns: u64, out: &mut Vec<u8>) -> bool {
        if now_ns < self.ask_at_ns {
            return false;
        }
        if now_ns >= self.greet_at_ns {
            self.greet_at_ns = match self.peer {
                None => now_ns + self.options.greet_interval_ns,
                Some(_) => u64::MAX,
            };
            self.ask_at_ns = now_ns + self.options.ask_interval_ns;
            self.send([0; 16], &[], out);
            return true;
        }
        let Some(sender) = self.peer.as_ref().map(|peer| peer.session) else {
            return false;
        };
        let mut items = Vec::new();
        self.items(now_ns, &mut items);
        if items.is_empty() && !self.answer && self.next < self.told_next + ACKNOWLEDGE_EVERY_BLOCKS {
            return false;
        }
        self.answer = false;
        self.counters.retransmit_requests += u64::from(!items.is_empty());
        self.ask_at_ns = now_ns + self.options.ask_interval_ns;
        self.send(sender, &items, out);
        true
    }

    fn send(&mut self, sender: Session, items: &[WantedItem], out: &mut Vec<u8>) {
        self.sequence += 1;
        let next = self.gap.map_or(self.next, |(_, to)| self.next.max(to + 1));
        self.told_next = next;
        packet::write(out, (OP_WANT, self.sequence), &self.session, &self.key, |out| {
            want::write(out, sender, next, items);
        });
    }

    fn blocks_wanted(&self) -> std::ops::Range<u64> {
        let told = self.peer.as_ref().map_or(0, |peer| peer.announced_height);
        let from = self.gap.map_or(self.next, |(_, to)| self.next.max(to + 1));
        from..told.min(self.next + self.options.blocks_ahead + 1)
    }

    fn items(&mut self, now_ns: u64, items: &mut Vec<WantedItem>) {
        let options = &self.options;
        let later = |asked: u32| now_ns + (options.ask_again_ns << asked.min(6));
        let mut range = self.blocks_wanted();
        if let Some(peer) = &mut self.peer {
            for (&id, at) in peer
                .missing_entries
                .iter_mut()
                .filter(|(_, at)| now_ns >= **at)
                .take(ITEMS_MAX / 2)
            {
                let id = u32::from(id);
                items.push(WantedItem::Entries { first: id, last: id });
                *at = later(0);
            }
        }
        let newest = self
            .assemblies
            .last_key_value()
            .map_or(0, |(&number, _)| number + 1);
        range.end = range.end.max(newest);
        for number in range {
            if items.len() >= ITEMS_MAX {
                return;
            }
            match self.assemblies.get_mut(&number) {
                Some(assembly) if assembly.is_complete || now_ns < assembly.ask_at_ns => {}
                Some(assembly) => {
                    assembly.missing(number, items, ITEMS_MAX);
                    assembly.ask_at_ns = later(assembly.retransmit_requests);
                    assembly.retransmit_requests += 1;
                }
                None => {
                    let quiet = (now_ns + options.quiet_ns, 0);
                    let (at, asked) = self.absent.entry(number).or_insert(quiet);
                    if now_ns >= *at {
                        items.push(WantedItem::block(number));
                        *at = later(*asked);
                        *asked += 1;
                    }
                }
            }
        }
    }
}

type OnEarly<'f> = &'f mut dyn FnMut(EarlyTx<'_>);

fn take_runs(
    assembly: &mut Assembly,
    sections: &[u8],
    entries: &Entries,
    aside: &mut SegmentNotes,
    early: OnEarly<'_>,
) -> Result<(), StreamError> {
    let mut rest = sections;
    while !rest.is_empty() {
        let (run, after) = RunHead::ref_from_prefix(rest).map_err(|_| StreamError::Malformed)?;
        rest = after;
        take_run(assembly, run, &mut rest, entries, aside, early)?;
    }
    Ok(())
}

fn take_run(
    assembly: &mut Assembly,
    run: &RunHead,
    rest: &mut &[u8],
    entries: &Entries,
    aside: &mut SegmentNotes,
    early: OnEarly<'_>,
) -> Result<(), StreamError> {
    let (first, count) = (run.segment.get(), u32::from(run.count.get()));
    let (part, parts) = (run.part.get(), run.parts.get());
    let in_block = first
        .checked_add(count)
        .is_some_and(|end| end <= assembly.segments);
    if run.kind != FABRIC_SECTION_RUN || !in_block || parts == 0 || parts > 1 && count != 1 {
        return Err(StreamError::Malformed);
    }
    let dictionary = match run.dictionary.get() {
        FABRIC_NO_ENTRY => &[][..],
        id => entries.get(id).ok_or(StreamError::Unknown(id))?,
    };
    let notes = run.flags & FABRIC_RUN_NOTES != 0;
    let start = run.offset.get() as usize;
    let mut at = start;
    for segment in first..first + count {
        let entry = |id| entries.get(id);
        let bytes = code::decode(
            rest,
            notes,
            &mut assembly.bytes,
            (start, at),
            dictionary,
            entry,
            aside,
        )?;
        let range = if parts == 1 {
            Some((at, at + bytes))
        } else if assembly.expect_part(segment, part, parts) {
            aside.cached_identities.clear();
            aside.notes.clear();
            assembly.got_part(segment, part, (at, bytes))
        } else {
            None
        };
        at += bytes;
        let Some((from, to)) = range else { continue };
        if !assembly.complete_segment(segment, to - from) {
            continue;
        }
        let transaction =
            run.flags & FABRIC_RUN_TRANSACTIONS != 0 && segment > 0 && segment + 1 < assembly.segments;
        let complete_envelope = envelope_at(&assembly.bytes, from, to - from).filter(|_| transaction);
        if let Some((segment_bytes, envelope)) = complete_envelope {
            early(EarlyTx {
                block: 0,
                index: segment - 1,
                bytes: envelope,
                segment: segment_bytes,
                aside,
            });
        }
    }
    Ok(())
}

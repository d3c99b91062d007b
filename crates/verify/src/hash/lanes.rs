//! Scheduler that assigns the messages of a batch to the lanes of a SIMD hash function.
//!
//! All lanes process their blocks in lockstep. The scheduler advances all lanes by the number of blocks that the
//! shortest message in a lane still needs. The digest of that message is then complete, and its lane takes the next
//! message. When no messages are waiting and fewer lanes are busy than [`Engine::BREAK_EVEN`], one message at a time is
//! faster. The scheduler then finishes each remaining message separately, from the state of its lane.

use super::queue::Queue;

/// Lane and the message in it.
#[derive(Clone, Copy)]
pub(super) struct Lane<'m> {
    /// Bytes of the message that are not absorbed yet.
    pub rest: &'m [u8],
    /// Length of the whole message in bytes.
    pub bytes: usize,
    /// Number of blocks still to absorb, including padding; 0 in an idle lane.
    blocks: usize,
    /// Index of the message in the batch, and so of its digest.
    slot: usize,
}

impl Lane<'_> {
    const IDLE: Lane<'static> = Lane {
        rest: &[],
        bytes: 0,
        blocks: 0,
        slot: 0,
    };
}

/// Hash function with one state per lane.
pub(super) trait Engine<const LANES: usize> {
    /// Minimum number of busy lanes for which the lanes are faster than hashing one message after another.
    const BREAK_EVEN: usize;

    /// Returns the number of blocks of a message of `bytes` bytes, including padding.
    fn blocks(bytes: usize) -> usize;

    /// Resets the lanes whose bit is set in `fresh` to the initial state, then absorbs `count` blocks in every lane and
    /// removes the absorbed bytes from its `rest`. The state of an idle lane is unspecified afterwards.
    fn absorb(&mut self, lanes: &mut [Lane<'_>; LANES], fresh: u32, count: usize);

    /// Writes the digest of each lane's state. A digest is valid only for a lane that has absorbed its whole message.
    fn digests(&self, digests: &mut [[u8; 32]; LANES]);

    /// Returns the digest of the message in lane `index`, continuing from the state of the lane.
    fn finish(&self, index: usize, lane: &Lane<'_>) -> [u8; 32];

    /// Returns the digest of a message without using a lane.
    fn alone(message: &[u8]) -> [u8; 32];

    /// Computes the digests of `LANES` messages if all of them are short enough for the engine's fast path. Otherwise
    /// returns false and leaves `digests` unchanged.
    fn short(&self, _messages: &[&[u8]; LANES], _digests: &mut [[u8; 32]; LANES]) -> bool {
        false
    }
}

/// Computes the digest of each `messages[i]` and writes it to `digests[i]`. The slices must have equal lengths.
pub(super) fn run<E: Engine<LANES>, const LANES: usize>(
    engine: &mut E,
    messages: &[&[u8]],
    digests: &mut [[u8; 32]],
) {
    let done: usize = messages
        .as_chunks::<LANES>()
        .0
        .iter()
        .zip(digests.as_chunks_mut::<LANES>().0)
        .map_while(|(messages, digests)| engine.short(messages, digests).then_some(LANES))
        .sum();
    let (messages, digests) = (&messages[done..], &mut digests[done..]);
    if messages.len() < E::BREAK_EVEN {
        for (message, digest) in messages.iter().zip(digests) {
            *digest = E::alone(message);
        }
        return;
    }
    let mut queue = Queue::new(messages, E::blocks);
    let mut lanes = [Lane::IDLE; LANES];
    let mut ready = [[0; 32]; LANES];

    let fresh = loop {
        let Step { fresh, busy, count } = refill::<E, LANES>(&mut lanes, &mut queue);
        if busy < E::BREAK_EVEN {
            break fresh;
        }
        engine.absorb(&mut lanes, fresh, count);
        engine.digests(&mut ready);
        for (lane, digest) in lanes.iter_mut().zip(&ready) {
            if lane.blocks == count {
                digests[lane.slot] = *digest;
            }
            lane.blocks = lane.blocks.saturating_sub(count);
        }
    };

    for (index, lane) in lanes.iter().enumerate().filter(|(_, lane)| lane.blocks > 0) {
        digests[lane.slot] = if fresh & (1 << index) != 0 {
            E::alone(lane.rest)
        } else {
            engine.finish(index, lane)
        };
    }
}

/// Step of the scheduler: all lanes process `count` blocks, then the shortest message ends.
struct Step {
    /// Bit mask of the lanes that have a new message.
    fresh: u32,
    /// Number of lanes that have a message.
    busy: usize,
    /// Smallest number of remaining blocks among the busy lanes; `usize::MAX` if no lane is busy.
    count: usize,
}

/// Assigns the next messages of the queue to the idle lanes and returns the next step. A lane stays idle if the queue
/// is empty.
fn refill<'m, E: Engine<LANES>, const LANES: usize>(
    lanes: &mut [Lane<'m>; LANES],
    queue: &mut Queue<'m>,
) -> Step {
    let mut step = Step {
        fresh: 0,
        busy: 0,
        count: usize::MAX,
    };
    for (index, lane) in lanes.iter_mut().enumerate() {
        if lane.blocks == 0 {
            let Some((slot, message)) = queue.next() else {
                continue;
            };
            *lane = Lane {
                rest: message,
                bytes: message.len(),
                blocks: E::blocks(message.len()),
                slot,
            };
            step.fresh |= 1 << index;
        }
        step.busy += 1;
        step.count = step.count.min(lane.blocks);
    }
    step
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::portable::sha256;

    /// Engine of three lanes that only records the absorbed bytes, so that the scheduler can be tested on any
    /// processor.
    #[derive(Default)]
    struct Record([Vec<u8>; 3]);

    impl Engine<3> for Record {
        const BREAK_EVEN: usize = 2;

        fn blocks(bytes: usize) -> usize {
            bytes / 4 + 1
        }

        fn absorb(&mut self, lanes: &mut [Lane<'_>; 3], fresh: u32, count: usize) {
            for (index, (lane, record)) in lanes.iter_mut().zip(&mut self.0).enumerate() {
                if fresh & (1 << index) != 0 {
                    record.clear();
                }
                let (taken, rest) = lane.rest.split_at(lane.rest.len().min(4 * count));
                record.extend(taken);
                lane.rest = rest;
            }
        }

        fn digests(&self, digests: &mut [[u8; 32]; 3]) {
            *digests = self.0.each_ref().map(|record| sha256::digest(record));
        }

        fn finish(&self, index: usize, lane: &Lane<'_>) -> [u8; 32] {
            assert_eq!(self.0[index].len() + lane.rest.len(), lane.bytes);
            sha256::digest(&[&self.0[index], lane.rest].concat())
        }

        fn alone(message: &[u8]) -> [u8; 32] {
            sha256::digest(message)
        }
    }

    #[test]
    fn every_message_is_hashed_in_one_lane() {
        let bytes: Vec<u8> = (0..200).collect();
        for count in 0..60 {
            let messages: Vec<&[u8]> = (0..count).map(|i| &bytes[i..][..i * 37 % 101]).collect();
            let mut digests = vec![[0; 32]; count];
            run(&mut Record::default(), &messages, &mut digests);
            let expected: Vec<_> = messages.iter().map(|message| sha256::digest(message)).collect();
            assert_eq!(digests, expected);
        }
    }
}

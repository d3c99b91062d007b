//! Many messages through few lanes: which message is in which lane, and when.
//!
//! All lanes advance together, a block at a time. After as many blocks as the shortest of them still has, that one's
//! digest is ready and its lane takes the next message. When the messages run out and so few lanes are left that the
//! idle ones would cost more than the busy ones gain, each is finished alone, from the state that it has reached.

use super::queue::Queue;

/// A message in a lane.
#[derive(Clone, Copy)]
pub(super) struct Lane<'m> {
    /// What has not been absorbed.
    pub rest: &'m [u8],
    /// Length of the whole message.
    pub bytes: usize,
    /// Blocks to absorb, padding included; none in an idle lane.
    blocks: usize,
    /// Where the digest goes.
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

/// The states of one hash function, one to a lane.
pub(super) trait Engine<const LANES: usize> {
    /// With fewer busy lanes than this, one message after the other is faster.
    const BREAK_EVEN: usize;

    /// How many blocks a message of this length fills with its padding.
    fn blocks(bytes: usize) -> usize;

    /// Starts the lanes whose bit is set in `fresh`, then lets every lane absorb `count` blocks and takes the bytes off
    /// its `rest`. A lane whose message has ended absorbs anything.
    fn absorb(&mut self, lanes: &mut [Lane<'_>; LANES], fresh: u32, count: usize);

    /// What would be the digests, if all messages ended here.
    fn digests(&self, digests: &mut [[u8; 32]; LANES]);

    /// The digest of the message in lane `index`, of which some has been absorbed.
    fn finish(&self, index: usize, lane: &Lane<'_>) -> [u8; 32];

    /// The digest of a message that is in no lane.
    fn alone(message: &[u8]) -> [u8; 32];

    /// The digests of messages that are so short that they go through the lanes at once; false if one is longer.
    fn short(&self, _messages: &[&[u8]; LANES], _digests: &mut [[u8; 32]; LANES]) -> bool {
        false
    }
}

/// Computes `digests[i]` of every `messages[i]`; there are as many of the one as of the other.
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

/// What the lanes can do together before the first of them ends.
struct Step {
    /// The lanes with a new message, as bits.
    fresh: u32,
    /// How many lanes have a message.
    busy: usize,
    /// How many blocks the shortest of these has.
    count: usize,
}

/// Gives every idle lane a message while there are any.
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

    /// Three lanes that keep what they have absorbed, so that the scheduler is tested on any processor.
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

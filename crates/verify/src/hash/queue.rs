//! Order in which the messages of a batch enter the lanes.
//!
//! Long messages come first, for two reasons: the messages that remain when the queue is empty are short, and messages
//! of similar length enter the lanes together and end together.
//!
//! The messages are sorted within windows of a fixed size, on the stack, so that a batch of any size needs no
//! allocation. The order across windows matters little, because the lanes stay busy from one window to the next.

/// Number of messages in a window. The number is many times the number of lanes, and yet small: a batch needs an array
/// of only 512 bytes, which must be cleared even for a few messages.
const WINDOW: usize = 256;

/// Number of classes for the counting sort of a window. The messages of a class have nearly equal block counts.
const CLASSES: usize = 64;

/// Queue of the messages of a batch that wait for a lane.
pub(super) struct Queue<'m> {
    messages: &'m [&'m [u8]],
    /// Returns the number of blocks of a message, given its length in bytes.
    blocks: fn(usize) -> usize,
    /// Current window: messages `start..end`, of which `taken` have been returned.
    start: usize,
    end: usize,
    taken: usize,
    /// Order of the messages within the window, as offsets from `start`. Used only if `sorted` is true; otherwise the
    /// messages keep the order of the batch.
    order: [u16; WINDOW],
    sorted: bool,
}

impl<'m> Queue<'m> {
    /// Returns a queue of all `messages`. `blocks` returns the number of blocks of a message, given its length in
    /// bytes.
    pub fn new(messages: &'m [&'m [u8]], blocks: fn(usize) -> usize) -> Queue<'m> {
        Queue {
            messages,
            blocks,
            start: 0,
            end: 0,
            taken: 0,
            order: [0; WINDOW],
            sorted: false,
        }
    }

    /// Returns the next message and its index in the batch, or `None` if the queue is empty.
    pub fn next(&mut self) -> Option<(usize, &'m [u8])> {
        if self.start + self.taken == self.end && !self.open_window() {
            return None;
        }
        let offset = if self.sorted {
            usize::from(self.order[self.taken])
        } else {
            self.taken
        };
        self.taken += 1;
        let index = self.start + offset;
        Some((index, self.messages[index]))
    }

    /// Moves to the next window. Returns false if there is none.
    fn open_window(&mut self) -> bool {
        if self.end == self.messages.len() {
            return false;
        }
        self.start = self.end;
        self.end = self.messages.len().min(self.start + WINDOW);
        self.taken = 0;
        let first = (self.blocks)(self.messages[self.start].len());
        let window = &self.messages[self.start..self.end];
        self.sorted = window.iter().any(|message| (self.blocks)(message.len()) != first);
        if self.sorted {
            self.sort();
        }
        true
    }

    /// Sorts the messages of the window by class, highest class first. Messages of one class keep the order of the
    /// batch.
    #[cold]
    fn sort(&mut self) {
        let window = &self.messages[self.start..self.end];
        let class_of = |message: &&[u8]| class((self.blocks)(message.len()));
        let mut places = [0u16; CLASSES];
        for message in window {
            places[class_of(message)] += 1;
        }
        let mut place = 0;
        for places in places.iter_mut().rev() {
            place += std::mem::replace(places, place);
        }
        for (index, message) in (0u16..).zip(window) {
            let place = &mut places[class_of(message)];
            self.order[usize::from(*place)] = index;
            *place += 1;
        }
    }
}

/// Returns the class of a block count. Each count below 16 has its own class. Above, each power of two is divided into
/// eight classes, so that the counts of one class differ by at most one eighth. Counts of 960 and more share a class.
fn class(blocks: usize) -> usize {
    let octave = blocks.max(8).ilog2() - 3;
    (8 * octave as usize + (blocks >> octave)).min(CLASSES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(queue: &mut Queue<'_>) -> Vec<usize> {
        std::iter::from_fn(|| queue.next())
            .map(|(_, message)| message.len())
            .collect()
    }

    #[test]
    fn a_window_is_ordered_from_long_to_short() {
        let bytes = [0; 300];
        let messages: Vec<&[u8]> = (0..12).map(|i| &bytes[..i * 7 % 12]).collect();
        let mut queue = Queue::new(&messages, |bytes| bytes + 1);
        assert_eq!(lengths(&mut queue), [11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0]);
        assert!(queue.next().is_none());
    }

    #[test]
    fn the_queue_returns_every_message_once() {
        let bytes = [0; 5_000];
        for count in [0, 1, 5, WINDOW - 1, WINDOW, WINDOW + 1, 3 * WINDOW + 77] {
            let messages: Vec<&[u8]> = (0..count).map(|i| &bytes[..i * i % 4_999]).collect();
            let mut queue = Queue::new(&messages, |bytes| bytes / 64 + 1);
            let mut seen = vec![0; count];
            while let Some((index, message)) = queue.next() {
                seen[index] += 1;
                assert_eq!(message.len(), messages[index].len());
            }
            assert!(seen.iter().all(|&times| times == 1), "{count} messages");
        }
    }

    #[test]
    fn the_class_increases_with_the_number_of_blocks() {
        for blocks in 1..16 {
            assert_eq!(class(blocks), blocks);
        }
        for blocks in 1..2_000 {
            let step = class(blocks + 1) - class(blocks);
            assert!(step <= 1, "{blocks}");
        }
        assert_eq!(
            (class(959), class(960), class(usize::MAX / 2)),
            (CLASSES - 2, CLASSES - 1, CLASSES - 1)
        );
    }
}

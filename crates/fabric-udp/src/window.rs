//! Replay protection: a sliding window that records which sequence numbers were received, after RFC 4303, section
//! 3.4.3.

const WORDS: usize = 64;
/// Window over the newest sequence numbers.
#[derive(Clone, Debug)]
pub struct Window {
    top: u64,
    words: [u64; WORDS],
}

impl Default for Window {
    fn default() -> Self {
        Self {
            top: 0,
            words: [0; WORDS],
        }
    }
}

/// Result of looking up a sequence number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SequenceState {
    /// The sequence is new.
    Fresh,
    /// The sequence was received before.
    Replayed,
    /// The sequence is below the window, so its state is not known.
    Old,
}

fn word_and_bit(sequence: u64) -> (usize, u64) {
    (((sequence / 64) as usize) % WORDS, 1 << (sequence % 64))
}

impl Window {
    /// Looks up a sequence number. The number 0 is never valid.
    pub fn lookup(&self, sequence: u64) -> SequenceState {
        // When the window advances, a whole word of bits is reused for new sequence numbers, so the oldest word does
        // not belong to the window.
        let bottom = (self.top / 64).saturating_sub(WORDS as u64 - 1) * 64;
        let (word, bit) = word_and_bit(sequence);
        match sequence {
            0 => SequenceState::Replayed,
            _ if sequence > self.top => SequenceState::Fresh,
            _ if sequence < bottom => SequenceState::Old,
            _ if self.words[word] & bit != 0 => SequenceState::Replayed,
            _ => SequenceState::Fresh,
        }
    }

    /// Marks `sequence` as received. The caller must have found the number to be new and verified the datagram's MAC.
    pub fn mark(&mut self, sequence: u64) {
        let (from, to) = (self.top / 64, sequence / 64);
        if to > from {
            for word in (from + 1..=to).take(WORDS) {
                self.words[(word as usize) % WORDS] = 0;
            }
            if to - from > WORDS as u64 {
                self.words = [0; WORDS];
            }
        }
        self.top = self.top.max(sequence);
        let (word, bit) = word_and_bit(sequence);
        self.words[word] |= bit;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    proptest! {
        #[test]
        fn no_sequence_is_accepted_twice(steps in prop::collection::vec((0u64..3, 0u64..6000), 1..400)) {
            let (mut window, mut taken, mut top) = (Window::default(), HashSet::new(), 1u64);
            for (kind, by) in steps {
                let sequence = match kind {
                    0 => top + by % 3,
                    1 => top + by,
                    _ => top.saturating_sub(by),
                };
                match window.lookup(sequence) {
                    SequenceState::Fresh => {
                        prop_assert!(taken.insert(sequence));
                        window.mark(sequence);
                    }
                    SequenceState::Replayed => prop_assert!(sequence == 0 || taken.contains(&sequence)),
                    SequenceState::Old => prop_assert!(sequence + 64 * (WORDS as u64 - 1) <= top),
                }
                top = top.max(sequence);
                prop_assert!(window.lookup(sequence) != SequenceState::Fresh);
                if top > 70 && !taken.contains(&(top - 60)) {
                    prop_assert_eq!(window.lookup(top - 60), SequenceState::Fresh);
                }
            }
        }
    }
}

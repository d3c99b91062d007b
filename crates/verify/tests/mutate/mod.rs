//! Generator of signatures in DER from a seed. Most of them have a defect.

#[path = "../random/mod.rs"]
mod random;

use random::Random;

/// Number of ways in which the generator writes a length.
const LENGTH_STYLES: u64 = 9;
/// Number of kinds of contents that the generator makes for a number.
const NUMBER_KINDS: u64 = 8;

/// Generator of signatures, which makes the same byte strings for the same seed.
pub struct Mutator {
    random: Random,
}

impl Mutator {
    pub fn new(seed: u64) -> Mutator {
        Mutator { random: Random(seed) }
    }

    /// Returns a signature with no, one or several defects in its structure or its bytes.
    pub fn signature(&mut self) -> Vec<u8> {
        let mut content = Vec::new();
        for _ in 0..*self
            .random
            .pick(&[2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 0, 1])
        {
            let number = self.number();
            content.extend(self.element(0x02, &number));
        }
        if self.random.one_in(5) {
            content.extend(self.extra());
        }
        let mut bytes = self.element(0x30, &content);
        if self.random.one_in(6) {
            bytes.extend(self.extra());
        }
        if self.random.one_in(60) {
            bytes = self.element(0x30, &bytes);
        }
        for _ in 0..*self.random.pick(&[0, 0, 0, 0, 0, 1, 1, 2]) {
            self.damage(&mut bytes);
        }
        bytes
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.random.next() as u8).collect()
    }

    /// Returns the content of an INTEGER: mostly positive and minimal, of up to 40 bytes, mostly 32.
    fn number(&mut self) -> Vec<u8> {
        let length = match self.random.index(8) {
            0 => 1 + self.random.index(40),
            1 => 31 + self.random.index(3),
            _ => 32,
        };
        let mut number = self.bytes(length);
        let kind = if self.random.one_in(4) {
            self.random.next() % NUMBER_KINDS
        } else {
            NUMBER_KINDS
        };
        match kind {
            0 => number.clear(),
            1 => number = vec![0; 1 + self.random.index(3)],
            2 => number[0] |= 0x80,
            3 => number = [vec![0; 1 + self.random.index(4)], number].concat(),
            4 => number = [vec![0xff; 1 + self.random.index(3)], number].concat(),
            5 => number.fill(0xff),
            6 => {
                let length = 100 + self.random.index(200);
                number = self.bytes(length);
            }
            7 => {}
            _ => {
                number[0] |= 1;
                if number[0] >= 0x80 {
                    number.insert(0, 0);
                }
            }
        }
        number
    }

    fn element(&mut self, tag: u8, content: &[u8]) -> Vec<u8> {
        let mut bytes = if self.random.one_in(40) {
            self.other_tag(tag)
        } else {
            vec![tag]
        };
        let style = if self.random.one_in(10) {
            self.random.next() % LENGTH_STYLES
        } else {
            LENGTH_STYLES
        };
        bytes.extend(self.length(style, content.len()));
        bytes.extend(content);
        bytes
    }

    fn other_tag(&mut self, tag: u8) -> Vec<u8> {
        let number = tag & 0x1f;
        match self.random.index(8) {
            0 => vec![tag ^ 0x20],
            1 => vec![tag ^ 0x40],
            2 => vec![tag ^ 0x80],
            3 => vec![tag ^ 1],
            4 => vec![tag | 0x1f, number],
            5 => vec![tag | 0x1f, 0x80, number],
            6 => vec![tag | 0x1f, 0x81, number],
            _ => self.bytes(1),
        }
    }

    fn length(&mut self, style: u64, length: usize) -> Vec<u8> {
        let octets = (length as u32).to_be_bytes();
        match style {
            0 => vec![0x80],
            1 => vec![0x81, octets[3]],
            2 => vec![0x82, octets[2], octets[3]],
            3 => [&[0x84][..], &octets].concat(),
            4 => {
                let length =
                    [length.saturating_sub(1), length + 1, self.random.index(300)][self.random.index(3)];
                self.length(LENGTH_STYLES, length)
            }
            5 => {
                let (count, first) = (1 + self.random.index(10), self.random.next() as u8);
                let rest = self.bytes(count - 1);
                [vec![0x80 | count as u8, first], rest].concat()
            }
            6 => {
                let first = *self.random.pick(&[0x7f, 0x80, 0xff, 1]) as u8;
                vec![0x84, first, 0, 0, octets[3]]
            }
            7 => [&[0x85, 1][..], &octets].concat(),
            8 => vec![0xff, octets[3]],
            _ if length < 0x80 => vec![octets[3]],
            _ if length < 0x100 => vec![0x81, octets[3]],
            _ => vec![0x82, octets[2], octets[3]],
        }
    }

    /// Returns superfluous bytes: one element, several elements, a truncated element, or random bytes.
    fn extra(&mut self) -> Vec<u8> {
        let length = *self.random.pick(&[0, 1, 3, 40, 90, 200]);
        let content = self.bytes(length);
        match self.random.index(6) {
            0 => vec![0; 1 + self.random.index(3)],
            1 => self.element(0x02, &content),
            2 => self.element(0x04, &content),
            3 => {
                let inner = self.element(0x02, &content);
                self.element(0x30, &inner)
            }
            4 => {
                let mut cut = self.element(0x04, &content);
                cut.truncate(1 + self.random.index(2));
                cut
            }
            _ => content,
        }
    }

    fn damage(&mut self, bytes: &mut Vec<u8>) {
        // Half of the changes are in the headers at the beginning, where they have the most effect.
        let reach = if self.random.one_in(2) {
            bytes.len().min(6)
        } else {
            bytes.len()
        };
        let at = self.random.index(reach);
        let byte = self.random.next() as u8;
        match self.random.index(5) {
            0 if at < bytes.len() => bytes[at] ^= 1 << (byte & 7),
            1 if at < bytes.len() => bytes[at] = byte,
            2 if at < bytes.len() => drop(bytes.remove(at)),
            3 => bytes.insert(at, byte),
            _ => {
                let length = if self.random.one_in(3) {
                    at
                } else {
                    self.random.index(bytes.len() + 1)
                };
                bytes.truncate(length);
            }
        }
    }
}

//! Seeded mutations of inputs, for the short run without a fuzzer.

use lineside_testkit::Random;

const LENGTH_MAX: usize = 8192;

/// Stream of mutated seeds. The same number gives the same stream on every machine.
pub struct Mutator {
    random: Random,
    seeds: Vec<Vec<u8>>,
}

impl Mutator {
    /// Returns a stream of mutations of `seeds`.
    pub fn new(number: u64, seeds: Vec<Vec<u8>>) -> Self {
        Self {
            random: Random(number),
            seeds,
        }
    }

    fn seed(&mut self) -> Vec<u8> {
        match self.random.index(self.seeds.len() + 1) {
            0 => (0..self.random.index(200))
                .map(|_| self.random.next() as u8)
                .collect(),
            number => self.seeds[number - 1].clone(),
        }
    }

    /// Returns the next input: a seed changed at one to eight positions, sometimes joined with another seed.
    pub fn next_input(&mut self) -> Vec<u8> {
        let mut input = self.seed();
        if self.random.index(16) == 0 {
            let other = self.seed();
            input.truncate(self.random.index(input.len() + 1));
            input.extend(&other[self.random.index(other.len() + 1)..]);
        }
        for _ in 0..=self.random.index(8) {
            self.change(&mut input);
        }
        input.truncate(LENGTH_MAX);
        input
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        let (at, random) = (self.random.index(input.len()), self.random.next());
        let Some(byte) = input.get_mut(at) else {
            return input.push(random as u8);
        };
        match random >> 32 & 31 {
            0 => input.truncate(at),
            1..8 => *byte ^= 1 << (random & 7),
            8..12 => *byte = random as u8,
            12..18 => *byte = [0, 1, 0x7f, 0x80, 0xff][random as usize % 5],
            18..24 => *byte = byte.wrapping_add(random as u8 & 7).wrapping_sub(3),
            24..28 => input.insert(at, random as u8),
            _ => {
                let end = (at + 1 + random as usize % 40).min(input.len());
                let copy = input[at..end].to_vec();
                let to = self.random.index(input.len());
                input.splice(to..to, copy);
            }
        }
    }
}

//! Network that loses, duplicates, delays and therefore reorders datagrams.

use lineside_fastpath::Source;
use lineside_testkit::Random;

/// Datagram in transit. A request is `from` a client; a reply goes to a client.
#[derive(Clone, Debug)]
pub struct Datagram {
    pub client: Source,
    pub payload: Vec<u8>,
    /// True if the request came over a stream; its reply then goes over the stream, too.
    pub by_stream: bool,
}

#[derive(Debug)]
pub struct Network {
    /// Datagrams with their time of arrival, in steps.
    on_the_way: Vec<(u64, Datagram)>,
    loss_percent: u64,
    double_percent: u64,
    delay_max: u64,
}

impl Network {
    pub fn new(rng: &mut Random) -> Self {
        Self {
            on_the_way: Vec::new(),
            loss_percent: *rng.pick(&[0, 30, 30, 30]),
            double_percent: *rng.pick(&[0, 10, 30]),
            delay_max: *rng.pick(&[1, 4, 12]),
        }
    }

    pub fn send(&mut self, rng: &mut Random, now: u64, datagram: &Datagram) {
        if rng.percent(self.loss_percent) {
            return;
        }
        let copies = if rng.percent(self.double_percent) { 2 } else { 1 };
        for _ in 0..copies {
            // One datagram in twenty arrives so late that its sender has long continued.
            let late = if rng.percent(5) { 10 * self.delay_max } else { 0 };
            let at = now + 1 + rng.below(self.delay_max) + late;
            self.on_the_way.push((at, datagram.clone()));
        }
    }

    /// Returns received datagrams in random order, `most` of them at the most.
    pub fn receive(&mut self, rng: &mut Random, now: u64, most: usize) -> Vec<Datagram> {
        let mut arrived = Vec::new();
        while arrived.len() < most {
            let there: Vec<usize> = (0..self.on_the_way.len())
                .filter(|index| self.on_the_way[*index].0 <= now)
                .collect();
            if there.is_empty() {
                break;
            }
            let index = *rng.pick(&there);
            arrived.push(self.on_the_way.swap_remove(index).1);
        }
        arrived
    }
}

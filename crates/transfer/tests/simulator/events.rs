//! What happened, for whoever reads it, and how often.

use std::collections::VecDeque;

/// The beginning of a packet.
pub fn hex(bytes: &[u8]) -> String {
    let begin: String = bytes.iter().take(64).map(|byte| format!("{byte:02x}")).collect();
    format!("{begin} ({} bytes)", bytes.len())
}

/// The last things that happened.
#[derive(Debug, Default)]
pub struct Events {
    last: VecDeque<String>,
    /// Of everything: the same for the same seed.
    pub digest: u64,
}

impl Events {
    pub fn note(&mut self, event: String) {
        for byte in event.bytes() {
            self.digest = (self.digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        if self.last.len() == 50 {
            self.last.pop_front();
        }
        self.last.push_back(event);
    }

    pub fn print(&self) {
        self.last.iter().for_each(|event| eprintln!("  {event}"));
    }
}

macro_rules! tally {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// What a run came to.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Tally {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Tally {
            pub fn add(&mut self, other: &Self) {
                $(self.$name += other.$name;)*
            }

            /// What happened too seldom to be tested.
            pub fn rare(&self, is_express: bool, least: u64) -> Vec<&'static str> {
                let all = [$((stringify!($name), self.$name)),*];
                let rare = all.iter().filter(|(name, count)| {
                    let elsewhere: &[&str] = if is_express { &WITHOUT_LINE } else { &AT_THE_LINE };
                    *count < least && !elsewhere.contains(name)
                });
                rare.map(|(name, _)| *name).collect()
            }
        }
    };
}

/// What happens in `express` alone.
const AT_THE_LINE: [&str; 7] = [
    "line",
    "busy",
    "rests",
    "claims",
    "adopted",
    "forgotten",
    "behind",
];

/// What happens in `durable`, and in `express` only now and then: there a full disk first keeps the host behind the
/// fast path, which is counted as `behind`.
const WITHOUT_LINE: [&str; 1] = ["full"];

tally! {
    groups,
    operations,
    answered,
    restarts,
    /// Restarts after which a group that nobody was told of was there, and was not.
    kept,
    lost,
    snapshots,
    full,
    fastpath_checks,
    blocks,
    /// Packets whose signature was right, and requests that were refused for want of one.
    signed,
    unsigned,
    /// Requests over a stream.
    streamed,
    /// Answered by the fast path; that its ring is full; and how often it rested.
    line,
    busy,
    rests,
    claims,
    /// Hosts that found a fast path that had gone on alone.
    adopted,
    /// What the fast path had answered, and nobody knows any more.
    forgotten,
    /// Groups before which the rings could not be emptied.
    behind,
}

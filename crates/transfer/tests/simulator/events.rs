//! Log of events that is printed when a run fails, and counts of events.

use std::collections::VecDeque;

/// Returns the beginning of a packet in hex.
pub fn hex(bytes: &[u8]) -> String {
    let begin: String = bytes.iter().take(64).map(|byte| format!("{byte:02x}")).collect();
    format!("{begin} ({} bytes)", bytes.len())
}

/// Last events of a run, for a failure's message.
#[derive(Debug, Default)]
pub struct Events {
    last: VecDeque<String>,
    /// Digest of all events: equal for equal seeds.
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
        /// Result of a run.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Tally {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Tally {
            pub fn add(&mut self, other: &Self) {
                $(self.$name += other.$name;)*
            }

            /// Returns the events that happened too rarely to be tested.
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

/// Events that happen only in `express`.
const AT_THE_LINE: [&str; 7] = [
    "line",
    "busy",
    "rests",
    "claims",
    "adopted",
    "forgotten",
    "behind",
];

/// Events of `durable` that are rare in `express`: there, a full disk first keeps the host behind the fast path, which
/// counts as the event `behind`.
const WITHOUT_LINE: [&str; 1] = ["full"];

tally! {
    groups,
    operations,
    answered,
    restarts,
    /// Restarts after which an unanswered batch was found on the disk, and restarts after which it was not.
    kept,
    lost,
    snapshots,
    full,
    fastpath_checks,
    blocks,
    /// Operations whose idempotency key was known: of the same operation, and of another one.
    repeated,
    reused,
    /// Packets with a valid signature, and requests that were refused for lack of one.
    signed,
    unsigned,
    /// Requests over a stream.
    streamed,
    /// Replies by the fast path; times that its ring was full; times that it was paused.
    line,
    busy,
    rests,
    claims,
    /// Hosts that took over a fast path that had continued alone.
    adopted,
    /// Replies of the fast path whose effects were lost.
    forgotten,
    /// Batches that the host could not execute because the rings could not be emptied.
    behind,
}

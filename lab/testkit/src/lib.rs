//! Shared helpers of the tests and benchmarks of Lineside: seeded [`Random`] numbers, a line for [`skipped`] tests,
//! network namespaces ([`netns`]), frames with any source address ([`PacketSocket`]), BPF file systems ([`bpffs`]), the
//! CPUs of a thread ([`cpu`]), ports ([`free_port`], [`ClosedPort`]), servers as processes ([`Daemon`]), generated
//! chains of Bitcoin blocks ([`DemoChain`], [`RegtestChain`]), and a node that serves such a chain ([`CoreMini`]). This
//! crate is not linked into the daemon.
//!
//! ```
//! use lineside_testkit::Random;
//!
//! let (mut first, mut second) = (Random(7), Random(7));
//! assert_eq!(first.next(), second.next());
//! assert!(first.below(10) < 10);
//! ```

mod binary;
pub mod bpffs;
mod core_mini;
pub mod cpu;
mod daemon;
mod demo_chain;
pub mod netns;
mod packet;
mod ports;
mod random;
mod regtest_chain;
mod skip;
mod tap;

pub use binary::binary;
pub use core_mini::CoreMini;
pub use daemon::Daemon;
pub use demo_chain::{DemoBlock, DemoChain};
pub use packet::PacketSocket;
pub use ports::{ClosedPort, free_port};
pub use random::Random;
pub use regtest_chain::RegtestChain;
pub use skip::skipped;
pub use tap::can_create_tap;

//! A ledger database in which every request is signed. It has an ordered log, versions, a hash-chained ledger and
//! proofs.
//!
//! ```text
//!  call, datagram -> threads `verify`: decode, check signatures in batches
//!    get:  view (versions in memory) -----------------------------------------------------------> answer
//!    set:  thread `order`: batch, sign -> log (embedded, or Kafka) -> every node's thread `check`
//!          -> thread `execute`: MVCC against the state, codes, block, state root
//!          -> thread `save`: journal, one fdatasync for all blocks that wait -> view, watchers --> answer
//! ```
//!
//! [`lineside_messages::hybrid::request`] has the signed requests, [`execute`] decides their outcomes, [`node`] runs
//! both, and [`udp`] serves them as datagrams.
//! `docs/hybrid.md` has the rules in words.
//!
//! ```
//! use lineside_hybrid::map::{Change, Tree};
//! use lineside_messages::hybrid::map_proof::{Proof, ProofError};
//!
//! // The state of a database is a map whose root every block carries, so a client can check the value of a key.
//! let mut tree = Tree::new();
//! tree.update(&mut vec![Change { key: [7; 32], value: Some([1; 32]) }]);
//! let proof = Proof::decode(&tree.prove(&[7; 32]).encode())?;
//! assert_eq!(proof.check(&tree.root(), &[7; 32])?, Some([1; 32]));
//! # Ok::<(), ProofError>(())
//! ```

pub mod answer;
pub mod audit;
pub mod execute;
mod executor;
pub mod join;
#[cfg(feature = "laboratory")]
mod laboratory;
pub mod ledger;
pub mod log;
pub mod map;
pub mod membership;
pub mod node;
mod node_state;
mod open;
pub mod paper;
mod persister;
mod proposer;
mod replay_window;
pub mod signatures;
pub mod snapshot;
pub mod state;
mod ticket;
pub mod udp;
mod verify_worker;
pub mod view;
pub mod watch;

#[cfg(feature = "laboratory")]
pub use laboratory::Mode;
pub use node::{Node, Options};

/// Outcome of a request, and of a read.
pub use lineside_wire::HybridCode as Code;

//! One message after the other. Also what a lane back end hands the last messages of a batch to, when too few are left
//! to keep its lanes busy; therefore each digest can start from the state that a lane has reached.

pub(super) mod keccak256;
pub(super) mod sha256;

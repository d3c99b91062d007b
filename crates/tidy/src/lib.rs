//! Holds the repository's cheap rules; all of it is in `tests/tidy.rs`.
//!
//! Run it alone with `cargo test -p lineside-tidy`.

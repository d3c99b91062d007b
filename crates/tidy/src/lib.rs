//! Tests that hold the repository's cheap rules: layering of crates, line and file length, dependencies, licences,
//! language. Each file of `tests/` is a group of rules.
//!
//! Run it alone with `cargo test -p lineside-tidy`.

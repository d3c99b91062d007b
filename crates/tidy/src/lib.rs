//! Tests for rules of the repository that are cheap to check: layering of crates, length of lines and files,
//! dependencies, licences, language. Each file of `tests/` contains a group of rules.
//!
//! To run only these tests: `cargo test -p lineside-tidy`.

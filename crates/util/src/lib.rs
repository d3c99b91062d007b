//! Small helpers that several crates share: hexadecimal text ([`hex`]) and files with secret keys ([`key_file`]).

pub mod hex;
pub mod key_file;

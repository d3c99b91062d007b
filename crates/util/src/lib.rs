//! Small helpers that several crates share: hexadecimal text ([`hex`]), files with secret keys ([`key_file`]), and the
//! ownership of data directories ([`data_dir`]).

pub mod data_dir;
pub mod hex;
pub mod key_file;

//! Small helpers that several crates share: hexadecimal text ([`hex`]), files with secret keys ([`key_file`]), and the
//! check of a fjall database's files before it is opened ([`fjall_files`]).

pub mod fjall_files;
pub mod hex;
pub mod key_file;

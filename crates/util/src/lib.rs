//! Small helpers that several crates share: hexadecimal text ([`hex`]), files with secret keys ([`key_file`]), the
//! ownership of data directories ([`data_dir`]), the check of a fjall database's files before it is opened
//! ([`fjall_files`]), and networks that limits count as one client ([`network`]).

pub mod data_dir;
pub mod fjall_files;
pub mod hex;
pub mod key_file;
pub mod network;
pub mod tls_text;

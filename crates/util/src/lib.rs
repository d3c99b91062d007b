//! Small helpers that several crates share: hexadecimal text ([`hex`]), files with secret keys ([`key_file`]),
//! ownership of data directories ([`data_dir`]), locks of files ([`file_lock`]), verification of a fjall database
//! before it is opened ([`fjall_files`]), histograms for hot paths ([`histogram`]), a limit for log lines
//! ([`log_limit`]), networks that limits count as one client ([`network`]), use of resources by the process
//! ([`process_use`]), sentences for TLS errors ([`tls_text`]), and numbers with their nouns ([`counted()`]).
//!
//! ```
//! use lineside_util::hex::{from_hex, to_hex};
//!
//! assert_eq!(to_hex(&[0xca, 0xfe]), "cafe");
//! assert_eq!(from_hex("cafe"), Some(vec![0xca, 0xfe]));
//! ```

mod counted;
pub mod data_dir;
pub mod file_lock;
pub mod fjall_files;
pub mod hex;
pub mod histogram;
pub mod key_file;
pub mod log_limit;
pub mod network;
pub mod process_use;
pub mod tls_text;

pub use counted::counted;

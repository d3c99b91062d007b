//! What of the `lineside` command reads input from outside: here, so that fuzz targets reach it.

#[allow(missing_docs, reason = "lineside.toml explains every key")]
pub mod config;
pub mod hex;

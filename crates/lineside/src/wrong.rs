//! Error for wrong arguments that clap cannot detect; the exit code is 2, as for clap's own errors.

pub use lineside_service::config::UsageError as Wrong;

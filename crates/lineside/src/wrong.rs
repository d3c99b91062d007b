//! Errors in the arguments that clap does not see: the command ends with 2, as for those that clap sees.

pub use lineside_service::config::UsageError as Wrong;

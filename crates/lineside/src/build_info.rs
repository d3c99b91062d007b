//! Facts about the build of this program: one place for `/version`, `lineside_build_info` and the log.

/// Version of the program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Commit that the program was built from; empty if the build did not set `LINESIDE_COMMIT`.
pub const COMMIT: &str = match option_env!("LINESIDE_COMMIT") {
    Some(commit) => commit,
    None => "",
};

/// Cargo features that the program was built with.
pub const FEATURES: &[&str] = &[
    #[cfg(feature = "kafka")]
    "kafka",
];

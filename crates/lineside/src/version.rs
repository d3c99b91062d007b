//! Version of the program, with the commit and the cargo features of its build.

use crate::services::SERVICES;
use std::fmt::Write;
use std::sync::OnceLock;

/// Version of the package, such as `0.1.0`.
pub const SHORT: &str = env!("CARGO_PKG_VERSION");

/// Commit of the source, from the variable `LINESIDE_COMMIT` at build time; `make build` sets it. `unknown` without it.
/// The build reads nothing else that differs between machines, such as a date or a host name.
pub const COMMIT: &str = match option_env!("LINESIDE_COMMIT") {
    Some(commit) if !commit.is_empty() => commit,
    _ => "unknown",
};

/// Cargo features of the build.
pub const FEATURES: &[&str] = &[
    #[cfg(feature = "kafka")]
    "kafka",
    #[cfg(feature = "rtl")]
    "rtl",
];

/// Returns the text that `lineside --version` prints after the name of the program.
pub fn long() -> &'static str {
    static LONG: OnceLock<String> = OnceLock::new();
    LONG.get_or_init(|| {
        let services: Vec<_> = SERVICES.iter().map(|service| service.name).collect();
        let features = match FEATURES {
            [] => "none".into(),
            features => features.join(", "),
        };
        let mut text = format!("{SHORT}\ncommit:   {COMMIT}\nfeatures: {features}\n");
        let _ = write!(text, "services: {}", services.join(", "));
        text
    })
}

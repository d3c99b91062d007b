//! Which machine the figures are of.

use serde::Serialize;
use std::fs;

/// What a figure depends on.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// Name of the CPU.
    pub cpu: String,
    /// Cores on line.
    pub cores: usize,
    /// Release of the kernel.
    pub kernel: String,
    /// Memory, in MiB.
    pub memory_mib: u64,
    /// Load average of the last minute before the bench began.
    pub load_before: f64,
}

impl Machine {
    /// This one.
    pub fn read() -> Self {
        let text = |path| fs::read_to_string(path).unwrap_or_default();
        let field = |text: &str, name: &str| {
            let line = text.lines().find(|line| line.starts_with(name))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let memory = field(&text("/proc/meminfo"), "MemTotal").unwrap_or_default();
        let first = |text: String| text.split_whitespace().next().unwrap_or_default().to_owned();
        Self {
            cpu: field(&text("/proc/cpuinfo"), "model name").unwrap_or_else(|| "unknown".into()),
            cores: crate::sys::cores(),
            kernel: text("/proc/sys/kernel/osrelease").trim().into(),
            memory_mib: first(memory).parse::<u64>().unwrap_or(0) / 1024,
            load_before: first(text("/proc/loadavg")).parse().unwrap_or(0.0),
        }
    }
}

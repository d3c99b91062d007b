//! Description of the machine on which a benchmark runs.

use crate::others::{Since, TakenTime};
use memmap2::{Advice, MmapMut};
use serde::Serialize;
use std::fmt::{self, Display, Formatter};
use std::fs;
use std::time::Instant;

/// Size of the memory that is read, in bytes. It is the size of 2^22 lines of the fast-path table.
const LOADED_BYTES: usize = 64 << 22;
const LINE_BYTES: usize = 64;
const PAGE_BYTES: usize = 4096;
const LOADS: u32 = 1 << 20;

/// Properties of the machine that figures depend on.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// Name of the CPU.
    pub cpu: String,
    /// Number of online cores.
    pub cores: usize,
    /// Release of the kernel.
    pub kernel: String,
    /// Memory, in MiB.
    pub memory_mib: u64,
    /// Load average of the last minute before the benchmark began.
    pub load_before: f64,
    /// Time in nanoseconds of one read from 256 MiB of memory in pages of 4 KiB, if each address depends on the read
    /// before. It is the lower bound for a random hit in a table of 4 million lines.
    pub random_load_ns: f64,
    /// Processor time that others used during the run; `None` if /proc could not be read or the run was too short.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taken: Option<TakenTime>,
    /// Beginning of the run.
    #[serde(skip)]
    since: Option<Since>,
}

impl Display for Machine {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let Self {
            cpu,
            cores,
            kernel,
            load_before,
            ..
        } = self;
        write!(
            out,
            "{cores} x {cpu}, Linux {kernel}, load average {load_before} before the run"
        )
    }
}

impl Machine {
    /// Reads the properties of this machine.
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
            random_load_ns: random_load_ns(),
            taken: None,
            since: Since::now(),
        }
    }

    /// Stores the processor time that others have used since [`Machine::read`], which is the beginning of the run.
    pub fn end_of_run(&mut self) {
        self.taken = self.since.as_ref().and_then(Since::taken);
    }
}

/// Measures [`Machine::random_load_ns`]; returns 0 if the memory cannot be allocated.
fn random_load_ns() -> f64 {
    let Ok(mut memory) = MmapMut::map_anon(LOADED_BYTES) else {
        return 0.0;
    };
    // The memory has small pages, because BPF maps also have small pages.
    let _ = memory.advise(Advice::NoHugePage);
    for page in memory.chunks_mut(PAGE_BYTES) {
        page[0] = 1;
    }
    let (mut random, start) = (1u64, Instant::now());
    for _ in 0..LOADS {
        // The value that was read is always 0, and is part of the next address.
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let line = (random >> 32) as usize % (LOADED_BYTES / LINE_BYTES);
        random += u64::from(memory[line * LINE_BYTES + 1]);
    }
    let took_ns = start.elapsed().as_nanos() as f64;
    std::hint::black_box(random);
    took_ns / f64::from(LOADS)
}

//! Measures the processor time that other processes of the machine use.

use crate::sys;
use std::time::Instant;

/// Nanoseconds of a tick of /proc/stat, which is the same on every machine.
const TICK_NS: f64 = 1e7;

/// Point in time, with the counters of /proc/stat and of this process at that time.
pub(super) struct Since {
    busy_ticks: u64,
    own_ns: u64,
    at: Instant,
}

impl Since {
    /// Returns the present point in time; `None` if /proc/stat cannot be read.
    pub(super) fn now() -> Option<Self> {
        Some(Self {
            busy_ticks: busy_ticks(&std::fs::read_to_string("/proc/stat").ok()?)?,
            own_ns: sys::process_ns(),
            at: Instant::now(),
        })
    }

    /// Returns the average number of cores that other processes have used since this point. Time that a hypervisor took
    /// counts as used by other processes.
    pub(super) fn cores(&self) -> Option<f64> {
        let now = Self::now()?;
        let busy_ns = (now.busy_ticks - self.busy_ticks) as f64 * TICK_NS;
        let own_ns = (now.own_ns - self.own_ns) as f64;
        let took_ns = now.at.duration_since(self.at).as_nanos() as f64;
        Some(((busy_ns - own_ns) / took_ns).max(0.0))
    }
}

/// Returns the ticks in which a core was not idle: user, nice, system, interrupt and steal time.
fn busy_ticks(stat: &str) -> Option<u64> {
    let mut fields = stat.lines().next()?.split_whitespace().skip(1);
    let mut all = [0; 8];
    for place in &mut all {
        *place = fields.next()?.parse().ok()?;
    }
    let [
        user,
        nice,
        system,
        _idle,
        _waiting,
        interrupts,
        soft_interrupts,
        stolen,
    ] = all;
    Some(user + nice + system + interrupts + soft_interrupts + stolen)
}

#[cfg(test)]
mod tests {
    use super::busy_ticks;

    #[test]
    fn idle_and_guest_ticks_are_not_counted() {
        let stat = "cpu  1 20 300 4000 50000 600000 7000000 80000000 9 9\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
        assert_eq!(busy_ticks(stat), Some(87_600_321));
        assert_eq!(busy_ticks("cpu  1 2 3\n"), None);
    }
}
